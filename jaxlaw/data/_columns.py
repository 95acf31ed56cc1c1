"""One column of a user's table: looked up by name, turned into checked numbers.

Every message about a value names the file, the rows, the user's own column and the remedy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd

from jaxlaw._arrays import EMPTY, is_missing, number_in
from jaxlaw._quantities import UNIT_NAMES, single_things
from jaxlaw._tables import Table
from jaxlaw._where import parsed
from jaxlaw.data._aliases import known_columns
from jaxlaw.errors import ColumnError, DataError, UsageError, listed, name_rows, nearest
from jaxlaw.laws import Input
from jaxlaw.laws._parameters import INPUTS

#: Shares and losses of the two sides of a two-corpus mixture, by the plain name they stand for.
SIDES = {"r": ("r_d", "r_g"), "loss": ("loss_d", "loss_g")}

#: Tokens of the two sides (Que 2024, eq. 19 to 22): D is their sum, r_d the first's part of it.
PARTS = ("D_d", "D_g")

#: Columns that say where on which curve a row is (:mod:`jaxlaw.data`).
CURVE_COLUMNS = ("run", "step", "lr", "schedule", "phase")

# Computed from a schedule, never logged.
OF_SCHEDULES = {"S1", "S2", "S1_pt", "S1_cpt", "S2_pt", "S2_cpt", "drop", "eta_k", "S_k"}


Corpus = Literal["general", "domain"]


def parts_of(column: Any, present: Collection[Any]) -> list[Any]:
    """The columns that together name a run: ``["size", "seed"]``, or in one text ``size,seed``."""
    if isinstance(column, list | tuple):
        return list(column)
    if not isinstance(column, str) or column in present:
        return [column]
    parts = [part.strip() for part in column.split(",")]
    return parts if len(parts) > 1 and any(part in present for part in parts) else [column]


def is_there(column: Any, present: Collection[Any]) -> bool:
    """Whether a table has a column, or all columns of an expression."""
    if all(part in present for part in parts_of(column, present)):
        return True
    try:
        return isinstance(column, str) and {*parsed(column, "columns")[1].values()} <= {*present}
    except UsageError:
        return False


class ReadingOptions(TypedDict, total=False):
    """Keywords of :func:`read_runs` that functions hand on."""

    columns: Mapping[str, Any] | None
    units: Mapping[str, Any] | None
    weight: Any
    where: Any
    corpus: Corpus | None
    drop_invalid: bool
    name: str | None
    format: str | None
    values: Mapping[str, Any] | None
    target: Any
    last_of: Any


@dataclass(frozen=True)
class Location:
    """Where values come from, for messages.

    Attributes:
        source: the file's name.
        word: word for a row there (``line``, ``record``, ``row``).
        column: the user's own name of the column.
        name: the canonical name it stands for.
        options: arguments of the call that a remedy may name.
    """

    source: str
    word: str
    column: Any
    name: str
    options: Collection[str] = ("columns", "units", "where")

    def __str__(self) -> str:
        return f"{self.source}: column {self.column}"

    def rows(self, labels: Iterable[Any], values: Iterable[Any] | None = None) -> str:
        """Rows in words, at most five of them: ``lines 3 (-1.0), 7 (nan) and 4 more``."""
        return name_rows(self.word, labels, values)

    def error(self, message: str, label: Any = None, value: Any = None) -> DataError:
        """The error of a cell of this column, with fields that say where it is.

        Args:
            message: text that says what is wrong, where, and what to do.
            label: name of the row, of the first where several are wrong; None for the column.
            value: value of the cell.
        """
        return DataError(message, file=self.source, row=label, column=self.column, value=value)


@dataclass(frozen=True)
class Column:
    """A column of the table, read for one input or the target of a law.

    Attributes:
        location: its place in the user's data, for messages.
        raw: (n,) in the user's unit, or the complement of a share; (n, K) of inputs per drop.
        factor: factor from the user's unit to the law's.
        unit: raw units per unit of the user's column.
        declared: whether the user declared the unit.
        spec: the law's specification of the input.
    """

    location: Location
    raw: np.ndarray
    factor: float
    unit: float
    declared: bool
    spec: Input

    @property
    def values(self) -> np.ndarray:
        """In the law's unit, of the shape of ``raw``."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.raw if self.factor == 1.0 else self.raw * self.factor

    def invalid(self) -> np.ndarray:
        """(n,) whether a row's value is not finite, or outside the domain of the input."""
        values = self.values
        bad = ~np.isfinite(values)
        if self.spec.domain == "positive" or self.spec.above_zero:
            bad |= ~(values > 0)
        elif self.spec.domain == "nonnegative" or self.spec.mixture:
            bad |= values < 0
        return bad if bad.ndim == 1 else bad.any(axis=1)

    def range(self, keep: np.ndarray) -> tuple[float, float]:
        """Lowest and highest value in the user's unit; for drops, 0 always belongs to the range."""
        low, high = float(self.raw[keep].min()), float(self.raw[keep].max())
        if self.spec.per_drop and self.spec.domain != "positive":
            return min(low, 0.0), max(high, 0.0)
        return low, high


def format_values(values: Iterable[Any]) -> list[str]:
    """Values for labels: with six digits, or more where these do not distinguish them."""
    values = list(values)
    if not all(isinstance(value, float) for value in values):
        return [str(value) for value in values]
    shown = [f"{value:.6g}" for value in values]
    return shown if len(set(shown)) == len(set(values)) else [f"{value:.12g}" for value in values]


def raw_units(name: str, unit: Any) -> float:
    """Raw units per unit of a column, from a positive number, its text, or K, M, B, T.

    Raises:
        UsageError: it is neither.
    """
    try:
        scale = UNIT_NAMES.get(unit.strip().upper()) if isinstance(unit, str) else None
        if isinstance(unit, str) and "/" in unit:  # a step in tokens: 1/4194304
            scale = float(Fraction(unit))
        scale = float(unit) if scale is None and not isinstance(unit, bool) else scale
    except (TypeError, ValueError, ArithmeticError):
        scale = None
    if scale is None or not 0 < scale < np.inf:
        raise UsageError(
            f"units: {name}: {unit!r} is not a unit; give the raw units per unit of the column "
            "(1, 1e6, 1e9) or K, M, B, T",
            argument="units",
            value=unit,
        )
    return scale


def usual_units(spec: Input) -> tuple[float, ...]:
    """Units in which columns of an input come, likeliest first: a batch in tokens or sequences."""
    return (1.0, 2048.0) if spec.name == "batch" else (1.0, 1e9, 1e6, 1e12, 1e3)


def missing_column(
    name: str, doc: str, column: Any, columns: Iterable[Any], source: str, mappable: bool = True
) -> DataError:
    """The error for a column that is not there, with what could be meant.

    Args:
        name: canonical name.
        doc: its meaning, and what needs it.
        column: the column that is looked for.
        columns: the columns of the table.
        source: the file's name.
        mappable: whether the call takes ``columns=``.

    Returns:
        A ColumnError where the call names the column, by another name than jaxlaw's.
    """
    kind = DataError if str(name) == str(column) else ColumnError
    name, texts = str(name), [str(other) for other in columns]
    hint = nearest(str(column), texts)
    if name in OF_SCHEDULES:
        hint = " It is computed from learning rates: give them as jl.read_loss_curves(schedules=)."
    elif name in texts and not hint and mappable:
        hint = f" It has a column {name}: leave {column} out."
    elif not hint and mappable:
        hint = f" Say which column it is: columns={{'{name}': '…'}}."
    return kind(
        f"{source}: there is no column {column}{doc}; columns: {listed(texts)}.{hint}",
        file=source,
        column=column,
    )


def input_columns(fit: Any, table: Any, names: Collection[str] | None = None) -> dict[str, str]:
    """Which columns of a table hold the inputs of a fit.

    Args:
        fit: a :class:`jaxlaw.Fit`; it remembers which columns its own runs had.
        table: DataFrame or dict.
        names: names of the inputs; all of the law's if None.

    Returns:
        Input → column, for those that are there.

    Raises:
        UsageError: a table has a column of an input's name and the one that the fit was made
            from, with other values, so that either could be meant.
    """
    present, columns = set(table.keys()), {}
    for name in fit.law.input_names if names is None else names:
        usual = (getattr(fit, "columns", None) or {}).get(name, name)
        if {name, usual} <= present and name != usual:
            own, other = np.asarray(table[name]), np.asarray(table[usual])
            if own.shape != other.shape or not (own == other).all():
                raise UsageError(
                    f"input {name}: the table has a column {name} and {usual}, the column that "
                    f"the fit took for {name}, and they differ; leave one of them out, or pass "
                    f"{name}= by name",
                    argument=name,
                    column=usual,
                )
        if name in present or usual in present:
            columns[name] = name if name in present else usual
    return columns


def usual_columns(
    fit: Any, table: Any, columns: Mapping[str, Any], corpus: str | None = None
) -> dict[str, Any]:
    """A mapping of a table's columns, completed by those that the fitted runs had.

    Args:
        fit: a :class:`jaxlaw.Fit`.
        table: DataFrame.
        columns: canonical name → the user's column, as far as the user maps them.
        corpus: corpus whose share is meant; r is then made of r_d or r_g.

    Raises:
        UsageError: as :func:`input_columns`, of inputs that ``columns`` does not map.
    """
    known = {plain for plain, sides in SIDES.items() if corpus or {plain, *sides} & set(columns)}
    names = dict.fromkeys([*fit.law.input_names, *(getattr(fit, "columns", None) or ())])
    others = [name for name in names if name not in {*columns, *known}]
    usual = input_columns(fit, table, others)
    named = {name: column for name, column in usual.items() if name != column}
    there = {*table, *usual, *known_columns(table)}
    computed = {
        name: column
        for name, column in (getattr(fit, "columns", None) or {}).items()
        if name in others and name not in usual and is_there(column, there)
    }
    return named | computed | dict(columns)


def check_sides(mapping: Mapping[str, Any]) -> None:
    """Refuse r, or a loss, that is mapped both as it is and by its two sides."""
    for plain, sides in SIDES.items():
        both = [side for side in sides if side in mapping]
        if plain in mapping and both:
            raise UsageError(
                f"columns: {plain} and {both[0]} both say where {plain} comes from; map "
                f"{plain} alone, or {sides[0]} and {sides[1]} with corpus=",
                argument="columns",
                value=mapping,
            )


def checked_corpus(corpus: Any, columns: Collection[Any], source: str) -> Corpus:
    if corpus not in ("general", "domain"):
        hint = nearest(str(corpus), ("general", "domain"))
        message = f"corpus is 'general' or 'domain', not {corpus!r}.{hint}"
        raise UsageError(message, argument="corpus", value=corpus)
    sided = [name for pair in SIDES.values() for name in pair]
    if not set(sided) & {column for column in columns if isinstance(column, str)}:
        raise UsageError(
            f"{source}: corpus='{corpus}' chooses among {', '.join(sided)}, and there is none of "
            "them; map one, for example columns={'r_d': 'domain_share'}",
            file=source,
            argument="corpus",
            value=corpus,
        )
    return corpus


def with_counts(
    table: Table, mapping: dict[str, Any], scales: dict[str, float]
) -> tuple[Table, dict[str, float]]:
    """Cells that say their own unit (552M, 1.02B, ``15 T tokens``) as numbers of one unit.

    Returns:
        The table, each such column in its declared unit, or in single things where none is
        declared; the units with those of these columns.

    Raises:
        DataError: a cell counts something else than its column.
    """
    nouns = {name: spec.counts for name, spec in INPUTS.items() if spec.counts}
    nouns |= dict.fromkeys(PARTS, "tokens")
    new, scales = {}, dict(scales)
    for name, noun in nouns.items():
        column = mapping.get(name, name)
        if column not in table.frame or pd.api.types.is_numeric_dtype(table.frame[column].dtype):
            continue
        location = Location(table.source, table.word, column, name)
        cells, counts = table.frame[column].astype(object), []
        for row, cell in cells.items():
            try:
                counts.append(single_things(cell, noun) if isinstance(cell, str) else None)
            except UsageError as error:
                where = f"{location}, {location.rows([row])}"
                raise location.error(f"{where}: {error}", row, cell) from None
        if all(count is None for count in counts):
            continue
        unit = scales.setdefault(name, scales.get("D", 1.0) if name in PARTS else 1.0)
        # Cells that say no unit are in that of the column.
        own = [c if n is None else n / unit for c, n in zip(cells, counts, strict=True)]
        new[column] = pd.Series(own, cells.index, object)
    if not new:
        return table, scales
    return Table(table.frame.assign(**new), table.source, table.word), scales


def has_loss(table: pd.DataFrame, columns: Iterable[Any]) -> np.ndarray:
    """(n,) whether a row has a number in any of these columns; all rows do where none has."""
    keep = table[[name for name in columns if name in table]].notna().any(axis=1).to_numpy()
    return keep if keep.any() else np.ones(len(table), bool)


def level_codes(series: pd.Series, location: Location, spec: Input) -> np.ndarray:
    """The column of labels as (n,) numbers of the levels; empty cells are NaN.

    Raises:
        DataError: a label that the input does not take.
    """
    codes = np.full(len(series), np.nan)
    for i, (label, cell) in enumerate(series.items()):
        if is_missing(cell) or str(cell).strip().lower() in EMPTY:
            continue
        try:
            codes[i] = spec.codes(cell)
        except DataError as error:
            where = f"{location}, {location.rows([label])}"
            raise location.error(
                f"{where}: {error}; leave such rows out with where=, or add the group",
                label,
                cell,
            ) from None
    return codes


def numbers(series: pd.Series, location: Location) -> np.ndarray:
    """The column as (n,) float64; empty cells are NaN.

    Raises:
        DataError: it holds text, truth values, dates, complex numbers or lists.
    """
    kind = pd.api.types
    if kind.is_bool_dtype(series.dtype) or kind.is_complex_dtype(series.dtype):
        raise location.error(
            f"{location}, {location.rows(series.index[:1], series.iloc[:1])}: a column of type "
            f"{series.dtype} is no column of numbers; {_pick_another(location)}",
            *next(series.items(), ()),
        )
    if kind.is_numeric_dtype(series.dtype):
        return np.array(series.to_numpy(dtype="float64", na_value=np.nan))
    cells = series.to_numpy(dtype=object)
    values = [number_in(cell) for cell in cells]
    bad = [i for i, value in enumerate(values) if value is None]
    if bad:
        first = str(cells[bad[0]])
        first = first if len(first) <= 40 else first[:40] + "…"
        more = f" (so are {len(bad) - 1} more cells)" if len(bad) > 1 else ""
        raise location.error(
            f"{location}, {location.rows(series.index[bad[0] : bad[0] + 1])}: '{first}' is not a "
            f"number{more}; write it as one (0.05 for 5 %, 1000000 for 1,000,000), leave the row "
            f"out, or {_pick_another(location)}",
            series.index[bad[0]],
            cells[bad[0]],
        )
    return np.array(values, dtype="float64")


def _pick_another(location: Location) -> str:
    if "columns" not in location.options:
        return "give a column of numbers"
    return f"map a column of numbers: columns={{'{location.name}': '…'}}"


def check_fraction(values: np.ndarray, location: Location, labels: np.ndarray) -> np.ndarray:
    """Shares in [0, 1]; rounding errors up to 1e-9 outside are put on the limit.

    Args:
        values: (n,) shares; NaN and infinity pass, other checks deal with them.
        location: their place in the user's data, for messages.
        labels: (n,) row labels.

    Raises:
        DataError: a share lies outside [0, 1].
    """
    finite = np.isfinite(values)
    outside = finite & ((values < -1e-9) | (values > 1 + 1e-9))
    if not outside.any():
        return np.where(finite, np.clip(values, 0.0, 1.0), values)
    inside = values[finite]
    percent = inside.min() >= 0 and inside.max() <= 100 and np.median(inside) > 1
    remedy = (
        f"if these are percent, pass units={{'{location.name}': 0.01}}"
        if percent
        else "correct these rows, or leave them out with where=…"
    )
    raise location.error(
        f"{location}: shares outside [0, 1]: {location.rows(labels[outside], values[outside])}; "
        f"{remedy}",
        labels[outside][0],
        values[outside][0],
    )
