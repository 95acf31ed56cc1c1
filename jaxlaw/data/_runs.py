"""Users' files in, checked arrays out: which column is what, in which unit, which rows count.

``read_runs`` checks what can be known without a law; ``Runs.observations`` the rest.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._conditions import rows_where
from jaxlaw._deprecated import renamed_arguments, renamed_function, renamed_property
from jaxlaw._tables import Table, is_table, read_table
from jaxlaw._typed import checked
from jaxlaw.data._columns import CURVE_COLUMNS, SIDES, Place, missing_column, numbers, unit_worth
from jaxlaw.data._observations import Observations, observe
from jaxlaw.data.formats import read_format, with_values
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.laws._base import Law
from jaxlaw.laws._parameters import INPUTS
from jaxlaw.notes import Note

_log = logging.getLogger(__name__)

Corpus = Literal["general", "domain"]
_SIDED = tuple(name for pair in SIDES.values() for name in pair)


@dataclass(frozen=True, eq=False)
class Runs:
    """A user's table with its columns named; what :func:`read_runs` returns.

    Attributes:
        table: mapped columns under their canonical names, all others as they were (one that
            had the canonical name of a mapped column is called ``… (as in the file)``);
            indexed by what rows are called.
        columns: canonical name → the user's column, for the mapped ones.
        units: canonical name → what one unit of the column is worth, where declared.
        source: the file's name, for messages.
        word: what a row is called: ``line``, ``record`` or ``row``.
        weight: (n,) float64, or None.
        corpus: whose share and loss are meant, ``general`` or ``domain``, or None.
        drop_invalid: whether rows without valid numbers are dropped (and counted).
        dropped: rows left out by ``where``.
        notes: findings so far.
        area_options: how the areas of learning rates were counted, where jaxlaw counted them
            (:meth:`jaxlaw.LossCurves.runs`).
        drops: rows of the table → the law's inputs per drop of the rate, name → (rows, K),
            where jaxlaw knows the schedules.
    """

    table: pd.DataFrame
    columns: Mapping[str, Any]
    units: Mapping[str, float]
    source: str
    word: str = "row"
    weight: np.ndarray | None = None
    corpus: Corpus | None = None
    drop_invalid: bool = False
    dropped: int = 0
    notes: tuple[Note, ...] = ()
    area_options: Mapping[str, Any] | None = None
    drops: Callable[[pd.DataFrame], dict[str, np.ndarray]] | None = None

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.table)

    def for_corpus(self, corpus: Corpus) -> Runs:
        """The same runs, read for the general or for the domain corpus.

        ``r`` is then that corpus's share (r_g = 1 − r_d) and ``loss`` its loss, so that one
        set of runs gives two fits.

        Raises:
            UsageError: another word, or the runs have neither r_d, r_g, loss_d nor loss_g.
        """
        return dataclasses.replace(
            self, corpus=_checked_corpus(corpus, self.table.columns, self.source)
        )

    share = renamed_function("share", for_corpus)
    side = renamed_property("side", "corpus")
    areas = renamed_property("areas", "area_options")

    def observations(self, law: str | Law, free: Collection[str] | None = None) -> Observations:
        """The columns a law needs, checked and in its own units.

        Args:
            law: a law or its name.
            free: the parameters to be fitted (all unless given), for the checks whether
                the rows suffice.

        Raises:
            DataError: the data cannot carry the law; names file, row, column and remedy.
            UsageError: the law is unknown, or ``corpus`` is needed.
        """
        return observe(self, law, free)

    def user_name(self, column: Hashable) -> Any:
        """What the user calls a column of the table."""
        return self.columns.get(column, column) if isinstance(column, str) else column

    def location(self, column: str) -> Place:
        """Where the values of a column come from, for messages."""
        return Place(self.source, self.word, self.user_name(column), column)


@renamed_arguments(share="corpus")
@checked
def read_runs(
    source: Any,
    columns: Mapping[str, Any] | None = None,
    units: Mapping[str, Any] | None = None,
    *,
    weight: Any = None,
    where: Any = None,
    corpus: Corpus | None = None,
    drop_invalid: bool = False,
    name: str | None = None,
    format: str | None = None,
    values: Mapping[str, Any] | None = None,
) -> Runs:
    """Read runs.

    Args:
        source: path of a CSV, TSV, JSON, JSON lines or Parquet file, ``-`` for standard
            input, file object, DataFrame of pandas or polars, pyarrow table, dict of arrays,
            list of dicts, structured array; or Runs or Curves, if nothing else is given.
        columns: canonical name → the user's column, such as ``{"N": "n_params"}``; a
            column that has the canonical name needs no entry. In place of ``r`` and
            ``loss`` also ``r_d``, ``r_g``, ``loss_d``, ``loss_g``, for the domain and the
            general corpus; ``corpus`` says which is meant.
        units: canonical name → what one unit of the column is worth in single things (1,
            1e9, or K, M, B, T; 0.01 for a share in percent). Left out: the law's own unit.
        weight: a column or (n,) numbers, one per row of the source; non-negative.
        where: rows to keep: a condition such as ``"split == 'fit' and N > 1e8"``, or an (n,)
            boolean mask. A condition compares (==, !=, <, <=, >, >=, in [...]) columns, numbers
            and quoted texts, joined by and, or, not; + - * / % ** compute. Columns have the
            user's or the canonical names; of a name that is both, a mapped one is meant, and the
            file's own is ```N (as in the file)```. It is parsed, never run as a program.
        corpus: ``"general"`` or ``"domain"``; see :meth:`Runs.for_corpus`.
        drop_invalid: drop rows whose numbers are missing, infinite or not positive (and
            count them); otherwise they are an error.
        name: what to call the source in messages.
        format: the tool that wrote the files, ``wandb``, ``tensorboard``, ``lm-eval`` or
            ``hf-trainer``; the source is then a file, a folder or a list of files
            (:mod:`jaxlaw.data.formats`).
        values: columns that the source lacks, canonical name → a number for all rows, or one
            for each run: ``{"N": 1.8e9}``.

    Returns:
        :class:`Runs`. The source is never changed.

    Raises:
        DataError: the file is no table, or a mapped column is not there.
        UsageError: the call is wrong.
    """
    if hasattr(type(source), "runs"):  # Curves, which are made of Runs
        source = source.runs()
    if isinstance(source, Runs):
        given = (columns, units, weight, where, corpus, name, format, values)
        if given != (None,) * 8 or drop_invalid:
            raise UsageError("these runs are read already; pass options to read_runs, once")
        return source
    table = read_table(source, name) if format is None else read_format(source, format)
    table = with_values(table, values)
    mapping = _mapping(columns, table)
    worth = _units(units)
    corpus = (
        None
        if corpus is None
        else _checked_corpus(corpus, [*table.frame.columns, *mapping], table.source)
    )
    weights = _weights(weight, table, mapping)
    keep, notes = _kept(where, table, mapping)
    weights = None if weights is None else _checked_weights(weights[keep], table, weight, keep)
    frame = _renamed(table.frame, mapping)
    _log.info("%s: %d rows read, %d kept", table.source, len(keep), int(keep.sum()))
    return Runs(
        table=frame if keep.all() else frame[keep],
        columns=mapping,
        units=worth,
        source=table.source,
        word=table.word,
        weight=weights,
        corpus=corpus,
        drop_invalid=bool(drop_invalid),
        dropped=int((~keep).sum()),
        notes=notes,
    )


def read_columns(
    source: Any,
    needed: Mapping[str, str],
    optional: Collection[str] = (),
    columns: Mapping[str, Any] | None = None,
    *,
    texts: Collection[str] = (),
    where: Any = None,
    name: str | None = None,
) -> Runs:
    """The columns that a function takes of a table which is not for a law.

    Args:
        source: what :func:`read_runs` takes.
        needed: name → what it is, for the message where it is missing: ``", the amount of data"``.
        optional: names of columns that may be missing, unless ``columns`` maps them.
        columns: name → the user's column; None where the function has no such argument.
        texts: those of the columns that are labels, which stay as they are.
        where: see :func:`read_runs`; None where the function has no such argument.
        name: what messages call a table that is no file.

    Returns:
        :class:`Runs` with these columns alone, under these names; numbers are float64, NaN where a
        cell is empty. See :func:`refuse_rows` for further checks.

    Raises:
        UsageError: ``columns`` maps another name.
        DataError: a column is missing, or a cell is no number.
    """
    unread = where is None and (isinstance(source, Runs) or hasattr(type(source), "runs"))
    runs = read_runs(source, where=where, name=None if unread or not is_table(source) else name)
    wanted, mapping = [*needed, *optional], dict(columns or {})
    for key in mapping:
        if key not in wanted:
            raise UsageError(
                f"{runs.source} takes the columns {', '.join(map(str, wanted))}, not '{key}'."
                f"{nearest(str(key), wanted)}"
            )
    there, options = runs.table.columns, ["columns"] * (columns is not None)
    options += ["where"] * (where is not None)
    found, names = {}, {}
    for key in wanted:
        column = mapping.get(key, key)
        if column not in there:
            if key in optional and key not in mapping:
                continue
            shown, doc = map(runs.user_name, there), needed.get(key, "")
            raise missing_column(key, doc, column, shown, runs.source, columns is not None)
        names[key] = runs.user_name(column)
        place = Place(runs.source, runs.word, names[key], key, options)
        series = runs.table[column]
        found[key] = series.to_numpy() if key in texts else numbers(series, place)
    table = pd.DataFrame(found, index=runs.table.index)
    return dataclasses.replace(runs, table=table, columns=names, units={}, weight=None, corpus=None)


def refuse_rows(runs: Runs, column: str, bad: np.ndarray, remedy: str) -> None:
    """Raise DataError where rows of a column are wrong: names file, column, rows and remedy.

    Args:
        runs: the rows.
        column: canonical name of the column.
        bad: (n,) boolean.
        remedy: what to do, or what it must be.
    """
    if bad.any():
        place, values = runs.location(column), runs.table[column].to_numpy()
        raise DataError(f"{place}: {place.rows(runs.table.index[bad], values[bad])}: {remedy}")


def _checked_corpus(corpus: Any, columns: Collection[Any], source: str) -> Corpus:
    if corpus not in ("general", "domain"):
        hint = nearest(str(corpus), ("general", "domain"))
        raise UsageError(f"corpus is 'general' or 'domain', not {corpus!r}.{hint}")
    if not set(_SIDED) & {column for column in columns if isinstance(column, str)}:
        raise UsageError(
            f"{source}: corpus='{corpus}' chooses among {', '.join(_SIDED)}, and there is none of "
            "them; map one, for example columns={'r_d': 'domain_share'}"
        )
    return corpus


def _canonical_names() -> list[str]:
    every = [laws.get(law) for law in laws.names()]
    names = dict.fromkeys([*INPUTS, *(spec.name for law in every for spec in law.inputs)])
    return [*names, *dict.fromkeys(["loss", *(law.target for law in every)]), *_SIDED]


def _check_canonical(
    given: Mapping[str, Any], argument: str, known: list[str], columns: Collection[Any] = ()
) -> None:
    for name in given:
        if name in known:
            continue
        swapped = name in columns and given[name] in known
        hint = (
            f" Write it the other way round: columns={{'{given[name]}': '{name}'}}."
            if swapped
            else " Pass weight= for weights."
            if name == "weight"
            else nearest(str(name), known)
        )
        raise UsageError(
            f"{argument}: '{name}' is no name jaxlaw knows ({', '.join(known)}).{hint}"
        )


def _mapping(columns: Mapping[str, Any] | None, table: Table) -> dict[str, Any]:
    """The checked mapping, canonical name → the user's column."""
    if columns is not None and not isinstance(columns, Mapping):
        raise UsageError("columns is a dict, canonical name to column: {'N': 'n_params'}")
    mapping = dict(columns or {})
    try:
        known = [*_canonical_names(), *CURVE_COLUMNS]
        _check_canonical(mapping, "columns", known, table.frame.columns)
        by_column: dict[Any, str] = {}
        for canonical, column in mapping.items():
            if column not in table.frame.columns:
                raise missing_column(
                    canonical, f" (for {canonical})", column, table.frame.columns, table.source
                )
            if column in by_column:
                raise UsageError(
                    f"columns: column {column} is given for both {by_column[column]} and "
                    f"{canonical}; give each its own column"
                )
            by_column[column] = canonical
    except TypeError as error:
        raise UsageError(f"columns: names must be plain names, not lists ({error})") from error
    for plain, sides in SIDES.items():
        both = [side for side in sides if side in mapping]
        if plain in mapping and both:
            raise UsageError(
                f"columns: {plain} and {both[0]} both say where {plain} comes from; map "
                f"{plain} alone, or {sides[0]} and {sides[1]} with corpus="
            )
    return mapping


def _units(units: Mapping[str, Any] | None) -> dict[str, float]:
    if units is not None and not isinstance(units, Mapping):
        raise UsageError("units is a dict, canonical name to worth: {'N': 1e9}")
    known = [name for name in _canonical_names() if not name.startswith("loss")]
    targets = {"loss", *(laws.get(law).target for law in laws.names())}
    _check_canonical(units or {}, "units", [name for name in known if name not in targets])
    return {name: unit_worth(name, unit) for name, unit in (units or {}).items()}


def _renamed(frame: pd.DataFrame, mapping: dict[str, Any]) -> pd.DataFrame:
    canonical = {column: name for name, column in mapping.items()}

    def new_name(column: Any) -> Any:
        if column in canonical:
            return canonical[column]
        return f"{column} (as in the file)" if column in mapping else column

    frame = frame.copy(deep=False)
    frame.columns = [new_name(column) for column in frame.columns]
    return frame


def _aligned(given: Any, table: Table, argument: str) -> np.ndarray:
    """One value per row of the source."""
    index = table.frame.index
    if isinstance(given, pd.Series) and table.word == "row" and not given.index.equals(index):
        raise UsageError(
            f"{argument}: the Series has another index than {table.source}; pass .to_numpy() if "
            "it is in the order of the rows"
        )
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise UsageError(f"{argument}: give a column or one value per row ({error})") from error
    if values.shape != (len(index),):
        raise UsageError(
            f"{argument}: shape {values.shape}, but {table.source} has {len(index)} rows; give one "
            "value per row of the source"
        )
    return values


def _kept(where: Any, table: Table, mapping: dict[str, Any]) -> tuple[np.ndarray, tuple[Note, ...]]:
    """(n,) mask of the rows ``where`` keeps, and a note on how many."""
    if where is None:
        return np.ones(len(table.frame), bool), ()
    keep = (
        _query(where, table, mapping) if isinstance(where, str) else _aligned(where, table, "where")
    )
    if keep.dtype == object and all(isinstance(value, (bool, np.bool_)) for value in keep):
        keep = keep.astype(bool)  # pandas' own booleans
    if keep.dtype != bool:
        raise UsageError(f"where gives {keep.dtype}, not true or false; compare with a value")
    shown = f" ({where})" if isinstance(where, str) else ""
    if not keep.any():
        raise DataError(
            f"{table.source}: where{shown} keeps none of the {len(keep)} rows; columns: "
            f"{_listed(table)}; check the condition"
        )
    message = f"{table.source}: where{shown} keeps {int(keep.sum())} of {len(keep)} rows"
    return keep, (Note("filtered", "info", message),)


def _query(where: str, table: Table, mapping: dict[str, Any]) -> np.ndarray:
    """The mask of a condition in the user's and the canonical names, these first."""
    renamed = _renamed(table.frame, mapping)
    names = dict(table.frame.items()) | dict(renamed.items())
    return rows_where(where, names, table.source)


def _listed(table: Table) -> str:
    return ", ".join(str(column) for column in table.frame.columns)


def _weights(weight: Any, table: Table, mapping: dict[str, Any]) -> np.ndarray | None:
    """(rows of the source,) weights as numbers."""
    if weight is None:
        return None
    if not isinstance(weight, str):
        values = pd.Series(_aligned(weight, table, "weight"), index=table.frame.index)
        return numbers(values, Place(table.source, table.word, "weight", "weight"))
    column = mapping.get(weight, weight)
    if column not in table.frame.columns:
        raise DataError(
            f"{table.source}: there is no column {weight} to weigh rows by; columns: "
            f"{_listed(table)}.{nearest(weight, map(str, table.frame.columns))}"
        )
    return numbers(table.frame[column], Place(table.source, table.word, column, "weight"))


def _checked_weights(
    weights: np.ndarray, table: Table, weight: Any, keep: np.ndarray
) -> np.ndarray:
    place = Place(table.source, table.word, weight if isinstance(weight, str) else "weight", "")
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        labels = table.frame.index.to_numpy()[keep][bad]
        raise DataError(
            f"{place}: weights negative, missing or infinite: "
            f"{place.rows(labels, weights[bad])}; give numbers ≥ 0, 0 to leave a row out"
        )
    if not weights.any():
        raise DataError(f"{place}: all weights are 0; give some row a positive weight")
    return weights
