"""One column of a user's table as checked numbers.

Every message about a value names the file, the rows, the user's own column and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd

from jaxlaw._arrays import EMPTY, is_missing, number_in
from jaxlaw._quantities import UNIT_NAMES
from jaxlaw.errors import ColumnError, DataError, UsageError, listed, name_rows, nearest
from jaxlaw.laws import Input

Corpus = Literal["general", "domain"]


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
    """

    source: str
    word: str
    column: Any
    name: str

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

    def of_run(self, run: Any, rows: pd.DataFrame, k: int, problem: str) -> DataError:
        """The error of the row at place k of those of a run."""
        label = rows.index[k]
        message = f"{self}: run {run}: {self.rows([label])}: {problem}"
        return self.error(message, label, rows[self.name].iloc[k])

    def refuse(self, bad: np.ndarray, labels: Any, values: Any, remedy: str) -> None:
        """Raise DataError where rows (n,) are bad: names them, their values, and what to do."""
        if bad.any():
            labels, values = np.asarray(labels)[bad], np.asarray(values)[bad]
            raise self.error(f"{self}: {self.rows(labels, values)}: {remedy}", labels[0], values[0])


@dataclass(frozen=True)
class Column:
    """A column of the table, read for one input or the target of a law.

    Attributes:
        location: its place in the user's data, for messages.
        raw: (n,) in the user's unit, or the complement of a mixture ratio; (n, K) of inputs per
            drop.
        factor: factor from the user's unit to the law's.
        unit: raw units per unit of the user's column.
        declared: whether the user declared the unit.
        spec: the law's specification of the input.
        complement: whether it is 1 minus the user's column.
    """

    location: Location
    raw: np.ndarray
    factor: float
    unit: float
    declared: bool
    spec: Input
    complement: bool = False

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


def numbers(series: pd.Series, location: Location) -> np.ndarray:
    """The column as (n,) float64; empty cells are NaN.

    Raises:
        DataError: it holds text, truth values, dates, complex numbers or lists.
    """
    kind = pd.api.types
    if kind.is_any_real_numeric_dtype(series.dtype):
        return np.array(series.to_numpy(dtype="float64", na_value=np.nan))
    cells = series.to_numpy(dtype=object)
    values = [number_in(cell) for cell in cells]
    if bad := [i for i, value in enumerate(values) if value is None]:
        cell, label = cells[bad[0]], series.index[bad[0]]
        shown = str(cell) if len(str(cell)) <= 40 else f"{cell!s:.40}…"
        more = f" (so are {len(bad) - 1} more cells)" if len(bad) > 1 else ""
        raise location.error(
            f"{location}, {location.rows([label])}: '{shown}' is not a number{more}; write it as "
            "one (0.05 for 5%, 1000000 for 1,000,000), leave the row out, or take another column",
            label,
            cell,
        )
    return np.array(values, dtype="float64")


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
            message = f"{location}, {location.rows([label])}: {error}; leave such rows out (where=)"
            raise location.error(message, label, cell) from None
    return codes


def fractions(values: np.ndarray, location: Location, labels: np.ndarray) -> np.ndarray:
    """(n,) mixture ratios in [0, 1]; rounding errors up to 1e-9 outside are put on the limit.

    NaN and infinity pass, other checks deal with them.

    Raises:
        DataError: a mixture ratio lies outside [0, 1].
    """
    finite = np.isfinite(values)
    inside = values[finite]
    percent = len(inside) and inside.min() >= 0 and inside.max() <= 100 and np.median(inside) > 1
    remedy = (
        f"if these are percent, pass units={{'{location.name}': 0.01}}"
        if percent
        else "correct these rows, or leave them out with where=…"
    )
    outside = finite & ((values < -1e-9) | (values > 1 + 1e-9))
    location.refuse(outside, labels, values, f"mixture ratios outside [0, 1]; {remedy}")
    return np.where(finite, np.clip(values, 0.0, 1.0), values)


def raw_units(name: str, unit) -> float:
    """Raw units per unit of a column, from a positive number, its text, or K, M, B, T.

    Raises:
        UsageError: it is neither.
    """
    text = str(unit).strip().upper()
    try:
        scale = UNIT_NAMES.get(text) or float(Fraction(text))  # a step in tokens: 1/4194304
    except (ValueError, ArithmeticError):
        scale = 0.0
    if not 0 < scale < np.inf:
        raise UsageError(
            f"units: {name}: {unit!r} is not a unit; give the raw units per unit of the column "
            "(1, 1e6, 1e9) or K, M, B, T"
        )
    return scale


def format_values(values: Iterable) -> list[str]:
    """Values for labels: with six digits, or more where these do not distinguish them."""
    values = list(values)
    if not all(isinstance(value, float) for value in values):
        return [str(value) for value in values]
    shown = [f"{value:.6g}" for value in values]
    return shown if len(set(shown)) == len(set(values)) else [f"{value:.12g}" for value in values]


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
    texts = [str(other) for other in columns]
    hint = nearest(str(column), texts)
    if not hint and mappable:
        hint = f" Pass columns={{'{name}': '…'}}."
    return kind(
        f"{source}: there is no column {column}{doc}; columns: {listed(texts)}.{hint}",
        file=source,
        column=column,
    )
