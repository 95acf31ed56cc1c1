"""Runs in: a user's table with its columns named, then the arrays that one law needs of it.

:func:`read_runs` checks what can be known without a law: which column is what, in which unit, which
rows count. :meth:`Runs.observations` takes a law and checks the rest: values, magnitudes, and
whether the rows suffice.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._arrays import plain_array
from jaxlaw._quantities import exponential
from jaxlaw._repr import short_repr
from jaxlaw._rounding import merged
from jaxlaw._tables import Table
from jaxlaw._typed import checked
from jaxlaw._where import evaluate, parsed, rows_where
from jaxlaw.data._aliases import known_columns
from jaxlaw.data._columns import (
    CURVE_COLUMNS,
    INPUTS,
    OF_SCHEDULES,
    PARTS,
    SIDES,
    Column,
    Corpus,
    Location,
    check_fraction,
    check_sides,
    checked_corpus,
    has_loss,
    is_there,
    level_codes,
    missing_column,
    name_rows,
    numbers,
    parts_of,
    raw_units,
    with_counts,
)
from jaxlaw.data._dependence import RunGroups, history_notes, order_along, run_groups
from jaxlaw.data._row_checks import (
    check_magnitude,
    check_pretraining,
    check_row_count,
    note_duplicates,
    note_unidentifiable,
    valid_rows,
)
from jaxlaw.data._run_flops import RunFlops, run_flops
from jaxlaw.data.formats import read_source, with_values
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.laws import Input, Law
from jaxlaw.notes import COLUMNS_TAKEN, Note

_log = logging.getLogger(__name__)

_DIVIDED = 1e-6  # change of a share from which a note says that it was divided by the sum

# A cross-entropy is a loss; a column of that name serves where a law predicts it.
_TARGET_ALIASES = {"cross-entropy": ("loss",), "best_lr": ("lr",), "best_batch": ("batch",)}


@dataclass(frozen=True)
class Reading:
    """How the runs of a fit were read: options of :func:`jaxlaw.read_runs`, as files hold them.

    Attributes:
        columns, units, where, weight, corpus, drop_invalid, format, values, target,
            last_of: those options.
        lost: what no file holds: masks, weights by row, rows chosen in Python.
    """

    columns: dict[str, str] = field(default_factory=dict)
    units: dict[str, float] = field(default_factory=dict)
    where: str | None = None
    weight: str | None = None
    corpus: Corpus | None = None
    drop_invalid: bool = False
    format: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    target: str | None = None
    lost: tuple[str, ...] = ()
    last_of: str | None = None

    def options(
        self, given: Mapping[str, Any], present: Collection[Any]
    ) -> tuple[dict[str, Any], str]:
        """Options of :func:`jaxlaw.read_runs` for a table, and what of them was taken over.

        Args:
            given: options that the user gives, which win; None, {} and False are not given.
            present: names of the columns of the table.
        """
        # An empty text is given, as where="" is.
        options = {k: v for k, v in given.items() if not (v is None or v is False or v == {})}
        named, units = options.get("columns") or {}, options.get("units") or {}
        columns = self._columns(named, present)
        there = {*present, *columns, *named}
        corpus = self.corpus if self._has_sides(there) else None
        taken: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("where", "weight", "drop_invalid", "format", "last_of")
            if name not in options
        }
        target = self.target if self.target in there else None
        others = {"corpus": corpus, "target": target}
        taken |= {name: value for name, value in others.items() if name not in options}
        taken["columns"] = columns
        taken["units"] = {n: u for n, u in self.units.items() if n in there - {*units}}
        taken["values"] = {n: value for n, value in self.values.items() if n not in there}
        taken = {name: value for name, value in taken.items() if value}
        merged = {
            name: value | options.get(name, {}) if isinstance(value, dict) else value
            for name, value in taken.items()
        }
        lost = [what for what in self.lost if what.partition("=")[0] not in options]
        return options | merged, _describe(taken, lost)

    def incomplete(self, what: str) -> Reading:
        """A reading that does not say all any more."""
        return dataclasses.replace(self, lost=tuple(dict.fromkeys((*self.lost, what))))

    def _columns(self, given: dict[str, Any], present: Collection[Any]) -> dict[str, str]:
        """The mapped columns that the table has, less those that the user maps."""
        groups = {name: {plain, *sides} for plain, sides in SIDES.items() for name in sides}
        groups |= {plain: {plain, *sides} for plain, sides in SIDES.items()}
        return {
            name: column
            for name, column in self.columns.items()
            if is_there(column, {*present, *self.columns})
            and column not in given.values()
            and not groups.get(name, {name}) & set(given)
        }

    def _has_sides(self, there: Collection[Any]) -> bool:
        """Whether there is something for ``corpus`` to choose, and no plain share beside it."""
        sides = {plain: any(name in there for name in names) for plain, names in SIDES.items()}
        return any(sides.values()) and not ("r" in there and not sides["r"])


def _describe(taken: Mapping[str, Any], lost: Collection[str]) -> str:
    """What was taken over, in one line; empty where nothing was, and nothing is lost."""
    parts = [
        f"{name} {', '.join(f'{k}={v}' for k, v in value.items())}"
        if isinstance(value, dict)
        else f"{name} {value}"
        for name, value in taken.items()
    ]
    return "; ".join([*parts, *[f"not saved with the fit: {', '.join(lost)}"] * bool(lost)])


@dataclass(frozen=True, eq=False)
class Runs:
    """A user's table with its columns named; what :func:`read_runs` returns.

    Attributes:
        table: mapped columns under their canonical names, all others as they were (one that
            had the canonical name of a mapped column is called ``… (as in the file)``);
            indexed by what rows are called.
        columns: canonical name → the user's column, for the mapped ones.
        units: canonical name → raw units per unit of the column, where declared.
        source: the file's name, for messages.
        word: word for a row: ``line``, ``record`` or ``row``.
        weight: (n,) float64, or None.
        corpus: the corpus whose share and loss are meant, ``general`` or ``domain``, or None.
        drop_invalid: whether rows without valid numbers are dropped (and counted).
        dropped: number of rows left out by ``where`` and ``last_of``.
        notes: notes on the data so far.
        area_options: options of the areas of learning rates, where jaxlaw computed them
            (:meth:`jaxlaw.LossCurves.runs`).
        target: column that laws predict, by its name in the table; None for the one that has the
            name of the law's target.
        drops: function from rows of the table to the law's inputs per drop of the rate, name →
            (rows, K), where jaxlaw knows the schedules.
        reading: how they were read, for fits to keep; None if unknown.

    Example:
        >>> table = {"n": [7, 7, 13], "tokens": [1, 2, 2], "loss": [2.4, 2.3, 2.2]}
        >>> runs = jl.read_runs(table, {"N": "n", "D": "tokens"}, {"N": 1e9, "D": 1e9})
        >>> len(runs), runs.table["N"].tolist()
        (3, [7, 7, 13])
        >>> runs
        3 runs from dict: N (column n), D (column tokens), loss
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
    target: Any = None
    drops: Callable[[pd.DataFrame], dict[str, np.ndarray]] | None = None
    reading: Reading | None = None

    def __repr__(self) -> str:
        """How many rows there are, in which columns, and what is known of them."""
        named = (
            f"{name} (column {self.columns[name]})" if name in self.columns else str(name)
            for name in self.table
        )
        head = f"{len(self)} runs from {self.source}: {listed(named)}"
        lines = [f"corpus: {self.corpus}"] * (self.corpus is not None)
        if self.area_options:
            lines.append(f"areas with λ {self.area_options['decay']:.6g}")
        return "\n".join([head, *(f"  {line}" for line in [*lines, *self.notes])])

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.table)

    def for_corpus(self, corpus: Corpus) -> Runs:
        """The same runs, read for the general or for the domain corpus.

        ``r`` is then that corpus's share (r_g = 1 − r_d) and ``loss`` its loss, so that one
        set of runs gives two fits.

        Raises:
            UsageError: another word, or the runs have neither r_d, r_g, loss_d nor loss_g.

        Example:
            >>> columns = {"r_d": "domain_ratio", "loss_d": "domain_loss", "loss_g": "general_loss"}
            >>> runs = jl.read_runs(
            ...     jl.simulate.demo().table,
            ...     {"N": "n_params", "D": "n_tokens", **columns},
            ...     {"N": 1, "D": 1},
            ... )
            >>> general = runs.for_corpus("general").observations("dcpt")
            >>> general.columns["loss"], float(general.inputs["r"][0])
            ('general_loss', 1.0)
        """
        side = checked_corpus(corpus, self.table.columns, self.source)
        reading = dataclasses.replace(self.reading or Reading(), corpus=side)
        return dataclasses.replace(self, corpus=side, reading=reading)

    def user_name(self, column: Hashable) -> Any:
        """What the user calls a column of the table."""
        return self.columns.get(column, column) if isinstance(column, str) else column

    def location(self, column: str) -> Location:
        """Where the values of a column come from, for messages."""
        return Location(self.source, self.word, self.user_name(column), column)

    def mixture_error(
        self, law: Law, wrong: np.ndarray, sums: np.ndarray, remedy: str
    ) -> DataError:
        """The error of rows whose shares do not add up to 1: (n,) flags, (n,) sums, what to do."""
        labels = self.table.index[wrong]
        names = ", ".join(str(self.user_name(name)) for name in law.shares)
        rows = name_rows(self.word, labels, [f"sum {value:.6g}" for value in sums[wrong]])
        return DataError(
            f"{self.source}: columns {names}: shares of one mixture do not add up to 1: {rows}; "
            f"{remedy}",
            file=self.source,
            row=labels[0],
            column=names,
            value=float(sums[wrong][0]),
        )

    def observations(self, law: str | Law, free: Collection[str] | None = None) -> Observations:
        """The columns that a law needs, checked, and in the law's own units.

        Args:
            law: law or its name.
            free: parameters to be fitted (all unless given), for the checks whether the rows
                suffice.

        Returns:
            :class:`Observations`: inputs, target and weights as arrays (n,).

        Raises:
            DataError: the data cannot carry the law; names file, row, column and remedy.
            UsageError: the law is unknown, or ``corpus`` is needed, or of no use.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> seen = jl.read_runs(table).observations("chinchilla")
            >>> len(seen), list(seen.inputs), seen.target.shape
            (243, ['N', 'D'], (243,))
        """
        law = laws.get(law)
        free = tuple(law.parameter_names) if free is None else tuple(sorted(free))
        _check_all_there(self, law)
        columns, divided = _whole_mixtures(self, law, _columns_of(self, law))
        check_pretraining(self, law)
        # From here on there are two lengths: that of the table, and, after [keep], that of the
        # valid rows. Rows of weight 0 stay in, but no check counts them.
        keep, notes = valid_rows(self, columns)
        notes = [*divided, *notes]
        labels = self.table.index.to_numpy()[keep]
        weight = np.ones(len(keep)) if self.weight is None else self.weight
        weight = weight[keep].astype("float64")
        active = weight > 0
        if not active.any():
            message = f"{self.source}: all rows left have weight 0; give some a positive weight"
            raise DataError(message, file=self.source, argument="weight")
        by_size = [c for c in columns.values() if c.unit != c.spec.unit and not c.declared]
        if by_size:
            names = listed(str(column.location.column) for column in by_size)
            message = f"{self.source}: {names} read as single ones, by their size: units= says more"
            notes.append(Note("unit-by-size", "info", message))
        for name in law.input_names:
            notes += check_magnitude(columns[name], columns[name].raw[keep], active, labels)
        notes += check_row_count(int(active.sum()), free, law, self)
        inputs = {name: columns[name].values[keep] for name in law.input_names}
        target = columns[law.target].values[keep]
        notes += note_unidentifiable(law, inputs, active, columns, free)
        notes += note_duplicates(law, inputs, target, labels, self)
        groups = run_groups(
            self.table[keep], {name: inputs[name] for name in law.inputs_per_row}, self.columns
        )
        notes += history_notes(law, groups, self.table[keep])
        flops, of_flops = run_flops(law, self, columns, keep)
        notes += of_flops
        _log.info(
            "%s: %d observations for law %s, %d rows dropped as invalid",
            self.source, int(keep.sum()), law.name, int((~keep).sum()),
        )  # fmt: skip
        return Observations(
            law=law.name,
            inputs=inputs,
            target=target,
            weight=weight,
            scale={name: columns[name].factor for name in inputs},
            units={name: columns[name].unit for name in inputs},
            ranges={name: columns[name].range(keep) for name in inputs},
            columns={name: column.location.column for name, column in columns.items()},
            target_name=law.target,
            rows=labels,
            source=self.source,
            word=self.word,
            dropped=int((~keep).sum()),
            notes=(*self.notes, *notes),
            area_options=self.area_options,
            positions=np.flatnonzero(keep),
            mapped=_source_columns(self, columns),
            runs=groups,
            flops=flops,
            others=_others(self, columns, keep),
            reading=self.reading,
        )


class RunsSource:
    """Base of data that runs are made from, by options of areas: :class:`jaxlaw.LossCurves`."""

    def runs(
        self,
        decay: float = 0.999,
        *,
        carry_momentum: bool = False,
        count_warmup: bool = False,
        epsilon: float | None = None,
    ) -> Runs:
        """The rows as runs."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Observations:
    """Checked observations of one law; all arrays numpy, finite, of one length n.

    Attributes:
        law: name of the law they were checked for.
        inputs: name → (n,) float64 in the law's own units; of those per drop of the learning
            rate (n, K), where the schedules are known.
        target: (n,) float64.
        weight: (n,) float64, non-negative, not all zero; ones unless given.
        scale: name → factor from the user's unit to the law's.
        units: name → raw units per unit of the user's column.
        ranges: name → (lowest, highest) in the user's units.
        columns: name (inputs and the target) → the user's own column.
        target_name: name of the quantity that the law predicts.
        rows: (n,) what the rows are called in the user's table.
        source: the file's name.
        word: word for a row there (``line``, ``record``, ``row``).
        dropped: number of rows dropped as invalid, on request.
        notes: notes on the data.
        area_options: options of the areas of learning rates, as of :class:`Runs`.
        positions: (n,) where in the runs' table the observations are.
        mapped: input or target → the user's column that holds it as it is, where that has another
            name.
        runs: the runs that rows may be checkpoints of, or None.
        others: (n rows) the columns of the table that are no input and no target, by the user's
            names.
        reading: how the runs were read, as of :class:`Runs`.
        flops: FLOPs as a column that is mapped to C counts them, where that is not 6·N·D.

    Example:
        >>> runs = jl.read_runs(jl.simulate.experiment("chinchilla").table)
        >>> observations = runs.observations("chinchilla")
        >>> {name: values.shape for name, values in observations.inputs.items()}
        {'N': (243,), 'D': (243,)}
    """

    law: str
    inputs: dict[str, np.ndarray]
    target: np.ndarray
    weight: np.ndarray
    scale: dict[str, float]
    units: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    columns: dict[str, Any]
    target_name: str
    rows: np.ndarray
    source: str
    word: str = "row"
    dropped: int = 0
    notes: tuple[Note, ...] = ()
    area_options: Mapping[str, Any] | None = None
    positions: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    mapped: Mapping[str, str] = field(default_factory=dict)
    runs: RunGroups | None = None
    others: pd.DataFrame = field(default_factory=pd.DataFrame)
    reading: Reading | None = None
    flops: RunFlops | None = None

    __repr__ = short_repr

    def __len__(self) -> int:
        """The number of observations."""
        return len(self.target)

    def at(self, places: np.ndarray) -> Observations:
        """The observations at some places, in that order."""
        arrays = ("target", "weight", "rows", "positions")
        return dataclasses.replace(
            self,
            inputs={name: values[places] for name, values in self.inputs.items()},
            others=self.others.iloc[places],
            runs=None if self.runs is None else self.runs.rows(places),
            **{name: getattr(self, name)[places] for name in arrays},
        )

    def describe(self) -> pd.DataFrame:
        """A table of the inputs and the target: column, unit, min, max, distinct values.

        Minimum and maximum are in the user's units; ``unit`` is raw units per unit of the column.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> seen = jl.read_runs(table).observations("chinchilla")
            >>> seen.describe()[["name", "unit", "distinct"]].values.tolist()
            [['N', 1.0, 243], ['D', 1.0, 243], ['loss', 1.0, 243]]
        """
        name, target = self.target_name, self.target
        units = self.units | {name: 1.0}
        ranges = self.ranges | {name: (float(target.min()), float(target.max()))}
        records = [
            (name, self.columns[name], units[name], *ranges[name], len(np.unique(values)))
            for name, values in (self.inputs | {name: target}).items()
        ]
        return pd.DataFrame(records, columns=["name", "column", "unit", "min", "max", "distinct"])


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
    target: Any = None,
    last_of: Any = None,
) -> Runs:
    """Read runs.

    Args:
        source: path of a CSV, TSV, JSON, JSON lines or Parquet file, or a list, a folder or a glob
            of such (one table, with a column ``file``), ``-`` for standard input, file object,
            DataFrame of pandas or polars, pyarrow table, dict of arrays, list of dicts, structured
            array; or Runs or LossCurves, if nothing else is given.
        columns: canonical name → the user's column, such as ``{"N": "n_params"}``, or an
            expression of columns: ``{"D": "compute/(6*n_params)"}``. A column that has the
            canonical name needs no entry, nor does the only one of a known name (``n_params``,
            ``val_loss``), which a note names. In place of ``r`` and ``loss`` also ``r_d``,
            ``r_g``, ``loss_d``, ``loss_g``, for the domain and the general corpus; ``corpus`` says
            which is meant. In place of ``D`` and ``r_d`` also ``D_d`` and ``D_g``, the tokens of
            either corpus.
        units: canonical name → raw units (parameters, tokens, FLOPs) per unit of the column: 1,
            1e9, or K, M, B, T; 0.01 for a share in percent; 2048 for a batch in sequences of so
            many tokens. Left out: 1 where all counts of the table may be so, else the law's own.
        weight: a column or (n,) numbers, one per row of the source; non-negative.
        where: rows to keep: a condition such as ``"split == 'fit' and N > 1e8"``, or an (n,)
            boolean mask. A condition compares (==, !=, <, <=, >, >=, in [...]) columns, numbers
            and quoted texts, joined by and, or, not; + - * / % ** compute. Columns have the
            user's or the canonical names; a name that is both means the mapped column, and the
            file's own is ```N (as in the file)```. A row with an empty cell in a column that is
            named is left out, and a note counts such rows. An empty text keeps all rows.
        corpus: ``"general"`` or ``"domain"``; see :meth:`Runs.for_corpus`.
        drop_invalid: whether rows whose numbers are missing, infinite or not positive are
            dropped (and counted); otherwise they are an error.
        name: name of the source in messages.
        format: the tool that wrote the files, ``wandb``, ``tensorboard``, ``lm-eval`` or
            ``hf-trainer``; the source is then a file, a folder or a list of files
            (:mod:`jaxlaw.data.formats`). Left out: by their names ``trainer_state.json`` and
            ``*tfevents*`` the last and TensorBoard's are known.
        values: columns that the source lacks, canonical name → a number for all rows, or one
            for each run: ``{"N": 1.8e9}``.
        target: column that the law predicts, whatever the law calls it: with
            ``target="acc_mmlu"`` a law of an accuracy is fitted to that column.
        last_of: column that names the runs, or several as ``"size,seed"``, of each of which only
            the last row counts, by D or else the step, of those that have a loss: a law of
            finished runs is none of their loss curves.

    Returns:
        :class:`Runs`. The source is never changed.

    Raises:
        DataError: the file is no table, or a mapped column is not there.
        UsageError: the call is wrong.

    Example:
        >>> table = {"params": [0.1, 0.4, 1.6], "D": [2e9, 8e9, 32e9], "loss": [3.2, 2.8, 2.5]}
        >>> runs = jl.read_runs(table, {"N": "params"}, {"N": "B"}, where="loss < 3")
        >>> len(runs), runs.units
        (2, {'N': 1000000000.0})
        >>> print(*runs.notes)
        [info] filtered: dict: where (loss < 3) keeps 2 of 3 rows
    """
    if isinstance(source, RunsSource):
        source = source.runs()
    if isinstance(source, Runs):
        options = (columns, units, weight, where, corpus, name, format, values, last_of)
        if options != (None,) * 9 or drop_invalid:
            raise UsageError("these runs are read already; pass options to read_runs, once")
        return _with_target(source, target)
    table = with_values(read_source(source, name, format), values)
    given, declared = _checked_names(columns, table), _units(units)
    taken, scales, taken_notes = _known(table, given, declared, target)
    mapping = taken | {n: column for n, column in given.items() if column in table.frame}
    table, scales = with_counts(table, mapping, scales)
    added, scales = _totals(given, table, scales)
    table, mapping, complete, computed_notes = _computed(table, mapping, given | added, scales)
    if corpus is not None:
        corpus = checked_corpus(corpus, [*table.frame.columns, *mapping], table.source)
    keep, notes = _rows_to_keep(where, table, mapping)
    keep, notes = keep & complete, [*taken_notes, *computed_notes, *notes]
    if added:
        message = ", ".join(f"{name} from {text}" for name, text in added.items())
        notes.append(Note(COLUMNS_TAKEN, "info", f"{table.source}: {message}"))
    if not keep.any():
        message = f"{table.source}: empty cells leave none of the {len(keep)} rows"
        raise DataError(message, file=table.source)
    frame = _rename_columns(table.frame, mapping)
    if last_of is not None:
        named = Table(frame, table.source, table.word)
        keep, note = _last_rows(last_of, named, mapping, keep, target)
        notes.append(note)
    weights = None if weight is None else _weights(weight, table, mapping, keep)
    _log.info("%s: %d rows read, %d kept", table.source, len(keep), int(keep.sum()))
    runs = Runs(
        table=frame if keep.all() else frame[keep],
        columns=mapping,
        units=scales,
        source=table.source,
        word=table.word,
        weight=weights,
        corpus=corpus,
        drop_invalid=bool(drop_invalid),
        dropped=int((~keep).sum()),
        notes=tuple(notes),
        reading=_reading(
            mapping, scales, weight, where, corpus, drop_invalid, format, values, last_of
        ),
    )
    runs = _with_target(runs, target)
    if added:
        _check_parts(runs)
    return runs


def _reading(
    columns: Mapping[str, Any],
    units: Mapping[str, float],
    weight: Any,
    where: Any,
    corpus: Corpus | None,
    drop_invalid: bool,
    format: str | None,
    values: Mapping[str, Any] | None,
    last_of: Any,
) -> Reading | None:
    """What a fit keeps of the options of :func:`jaxlaw.read_runs`; None where none was given."""
    rows = {"where": where, "weight": weight}
    lost = [
        f"{name}= (one value a row)"
        for name, value in rows.items()
        if not isinstance(value, str | None)
    ]
    lost += [
        f"columns={{'{name}': …}}" for name, col in columns.items() if not isinstance(col, str)
    ]
    rows = {name: value or None for name, value in rows.items() if isinstance(value, str)}
    reading = Reading(
        columns={name: column for name, column in columns.items() if isinstance(column, str)},
        units=dict(units),
        corpus=corpus,
        drop_invalid=bool(drop_invalid),
        format=format,
        values=dict(values or {}),
        lost=tuple(lost),
        last_of=",".join(last_of) if isinstance(last_of, list | tuple) else last_of,
        **rows,
    )
    return None if reading == Reading() else reading


def _with_target(runs: Runs, target: Any) -> Runs:
    """The same runs, of which laws predict one column, by the user's name or the canonical one."""
    if target is None:
        return runs
    if not isinstance(target, str):
        raise UsageError(f"target is {target!r:.60}; it must be the name of a column")
    names = {runs.user_name(column): column for column in runs.table}
    column = target if target in runs.table.columns else names.get(target)
    if column is None:
        raise missing_column("target", " (target=)", target, names, runs.source, False)
    reading = dataclasses.replace(runs.reading or Reading(), target=str(target))
    return dataclasses.replace(runs, target=column, reading=reading)


def _check_parts(runs: Runs) -> None:
    """Refuse rows whose tokens of either corpus, which D was added up from, are none."""
    for part in PARTS:
        tokens = numbers(runs.table[part], runs.location(part))
        bad = ~(np.isfinite(tokens) & (tokens >= 0))
        refuse_rows(runs, part, bad, "give a number of tokens, 0 or more", tokens)


def refuse_rows(
    runs: Runs, column: str, bad: np.ndarray, remedy: str, values: np.ndarray | None = None
) -> None:
    """Raise DataError where rows of a column are wrong: names file, column, rows and remedy.

    Args:
        runs: the rows.
        column: canonical name of the column.
        bad: (n,) boolean.
        remedy: advice, or what the values must be.
        values: (n,) values to show; those of the column if None.
    """
    if bad.any():
        location, labels = runs.location(column), runs.table.index[bad]
        values = (runs.table[column].to_numpy() if values is None else values)[bad]
        raise location.error(
            f"{location}: {location.rows(labels, values)}: {remedy}", labels[0], values[0]
        )


# ---------------------------------------------------------------- arguments of read_runs


def _canonical_names() -> tuple[list[str], list[str]]:
    """The names that columns may be mapped to: of inputs, and of what laws predict."""
    # Laws that are tuned over rate and batch are named as they are made.
    every = [*map(laws.get, laws.names()), laws.tuned("chinchilla")]
    inputs = dict.fromkeys([*INPUTS, *(spec.name for law in every for spec in law.inputs)])
    targets = dict.fromkeys(["loss", *(law.target for law in every)])
    return [*inputs, "r_d", "r_g", *PARTS], [*targets, "loss_d", "loss_g"]


def _check_canonical(
    names: Mapping[str, Any], argument: str, known: list[str], columns: Collection[Any] = ()
) -> None:
    for name in names:
        if name in known:
            continue
        swapped = name in columns and names[name] in known
        hint = (
            f" Write it the other way round: columns={{'{names[name]}': '{name}'}}."
            if swapped
            else " Pass weight= for weights."
            if name == "weight"
            else nearest(str(name), known)
        )
        raise UsageError(
            f"{argument}: '{name}' is no name jaxlaw knows ({', '.join(known)}).{hint}",
            argument=argument,
            value=name,
        )


def _checked_names(columns: Mapping[str, Any] | None, table: Table) -> dict[str, Any]:
    """The user's mapping, of names that jaxlaw knows to a column each."""
    if columns is not None and not isinstance(columns, Mapping):
        message = "columns is a dict, canonical name to column: {'N': 'n_params'}"
        raise UsageError(message, argument="columns", value=columns)
    mapping, present = dict(columns or {}), table.frame.columns
    known = [name for names in _canonical_names() for name in names]
    _check_canonical(mapping, "columns", list(dict.fromkeys([*known, *CURVE_COLUMNS])), present)
    by_column: dict[str, str] = {}
    for name, column in mapping.items():
        if not isinstance(column, Hashable):
            message = f"columns: {name} is {column!r:.60}, not the name of a column"
            raise UsageError(message, argument="columns", value=columns)
        if by_column.setdefault(column, name) != name:
            message = f"columns: {column} is given for both {by_column[column]} and {name}"
            raise UsageError(message, argument="columns", file=table.source, column=column)
    check_sides(mapping)
    return mapping


def _known(
    table: Table, given: Mapping[str, Any], units: dict[str, float], target: Any
) -> tuple[dict[str, Any], dict[str, float], list[Note]]:
    """Columns taken by their names: the mapping, all units, and a note that says which."""
    frame = table.frame
    there = {*given, *frame}
    there |= {plain for plain, sides in SIDES.items() if {*sides} & there}
    there |= {"D"} if {*PARTS} <= there else set()
    used = {*given.values(), target if isinstance(target, str) else None}
    free = frame.drop(columns=[column for column in used if column in frame])
    taken, units, words = {}, dict(units), []
    for name, found in known_columns(free).items():
        if name in there or len(found) > 1:  # of several, where a law needs one, it is an error
            continue
        ((column, unit),) = found.items()
        taken[name] = column
        said = unit is not None and name not in units
        if said:
            units[name] = unit
        words.append(f"{name} from {column}{f' in {exponential(unit)}' if said else ''}")
    message = f"{table.source}: {', '.join(words)}"
    return taken, units, [Note(COLUMNS_TAKEN, "info", message)] if words else []


def _computed(
    table: Table, mapping: dict[str, Any], given: Mapping[str, Any], units: Mapping[str, float]
) -> tuple[Table, dict[str, Any], np.ndarray, list[Note]]:
    """The table with columns that are expressions of others, and (n,) rows that have all cells.

    Raises:
        DataError: a column is neither there nor an expression of such that are.
        UsageError: one is computed of a column in a unit, and its own is not declared.
    """
    canonical = {column: name for name, column in mapping.items()}
    frame, source = table.frame, table.source
    names = dict(frame.items()) | {name: frame[column] for name, column in mapping.items()}
    complete, notes, computed = np.ones(len(frame), bool), [], {}
    for name, text in given.items():
        if name in mapping:
            continue
        if not isinstance(text, str) or not {*re.findall(r"\w+", text)} & {*map(str, names)}:
            raise missing_column(name, f" (for {name})", text, frame.columns, source)
        values, missing = evaluate(text, names, source, table.word, "columns")
        for used in parsed(text, "columns")[1].values():
            unit = units.get(used, units.get(canonical.get(used, ""), 1.0))
            if unit != 1 and name not in units:
                raise UsageError(
                    f"columns: {name} is computed of {used}, which is in units of "
                    f"{exponential(unit)}: say that of {name}, too, units={{'{name}': …}}",
                    argument="units",
                    column=used,
                )
        computed[name], frame = text, frame.assign(**{text: values})
        complete &= ~missing
        if missing.any():
            message = f"{source}: {text}: an empty cell leaves out {missing.sum()} rows"
            notes.append(Note("filtered", "info", message))
    return Table(frame, source, table.word), mapping | computed, complete, notes


def _units(units: Mapping[str, Any] | None) -> dict[str, float]:
    if units is not None and not isinstance(units, Mapping):
        message = "units is a dict, canonical name to raw units per unit: {'N': 1e9}"
        raise UsageError(message, argument="units", value=units)
    inputs, targets = _canonical_names()
    _check_canonical(units or {}, "units", [name for name in inputs if name not in targets])
    return {name: raw_units(name, unit) for name, unit in (units or {}).items()}


def _totals(
    given: Mapping[str, Any], table: Table, units: dict[str, float]
) -> tuple[dict[str, Any], dict[str, float]]:
    """D and r_d as expressions, where a table has the tokens of either corpus in their place."""
    there = {*given, *table.frame}
    lacking = {"D"} - there | ({"r_d"} if not {"r", *SIDES["r"]} & there else set())
    if not {*PARTS} <= there or not lacking:
        return {}, units
    first, second = (units.get(name, units.get("D")) for name in PARTS)
    if (first is None) != (second is None):
        raise UsageError(
            "units: D_d and D_g are added up; declare the units of both, or that of D",
            argument="units",
            value=units,
        )
    ratio = 1.0 if first is None else second / first
    total = "D_d + D_g" if ratio == 1 else f"D_d + {ratio!r}*D_g"
    new = {"D": total, "r_d": f"D_d/({total})"}
    # D is in the unit of D_d, and a share in none.
    units = {"r_d": 1.0} | ({} if first is None else {"D": first}) | units
    return {name: new[name] for name in lacking}, units


def _rename_columns(frame: pd.DataFrame, mapping: dict[str, Any]) -> pd.DataFrame:
    canonical = {column: name for name, column in mapping.items()}

    def new_name(column: Any) -> Any:
        if column in canonical:
            return canonical[column]
        return f"{column} (as in the file)" if column in mapping else column

    frame = frame.copy(deep=False)
    frame.columns = [new_name(column) for column in frame.columns]
    return frame


def _align(values: Any, table: Table, argument: str) -> np.ndarray:
    """One value per row of the source."""
    index = table.frame.index
    if isinstance(values, pd.Series) and table.word == "row" and not values.index.equals(index):
        raise UsageError(
            f"{argument}: the Series has another index than {table.source}; pass .to_numpy() if "
            "it is in the order of the rows",
            argument=argument,
            value=values,
        )
    try:
        values = plain_array(values)
    except ValueError as error:
        message = f"{argument}: give a column or one value per row ({error})"
        raise UsageError(message, argument=argument, value=values) from error
    if values.shape != (len(index),):
        raise UsageError(
            f"{argument}: shape {values.shape}, but {table.source} has {len(index)} rows; give one "
            "value per row of the source",
            argument=argument,
            value=values,
        )
    return values


def _rows_to_keep(
    where: Any, table: Table, mapping: dict[str, Any]
) -> tuple[np.ndarray, tuple[Note, ...]]:
    """(n,) mask of the rows that ``where`` keeps, and a note on how many."""
    if where is None or (isinstance(where, str) and not where.strip()):
        return np.ones(len(table.frame), bool), ()
    if isinstance(where, str):
        # A condition may use the user's names and the canonical ones; these go first.
        names = dict(table.frame.items()) | dict(_rename_columns(table.frame, mapping).items())
        keep, left_out = rows_where(where, names, table.source, table.word)
        shown = f" ({where})"
    else:
        keep, left_out = rows_where(_align(where, table, "where"), {}, table.source)
        shown = ""
    if not keep.any():
        raise DataError(
            f"{table.source}: where{shown} keeps none of the {len(keep)} rows; columns: "
            f"{listed(table.frame.columns)}; check the condition{left_out}",
            file=table.source,
            argument="where",
            value=where,
        )
    message = f"{table.source}: where{shown} keeps {keep.sum()} of {len(keep)} rows{left_out}"
    return keep, (Note("filtered", "info", message),)


def _last_rows(
    last_of: Any, table: Table, mapping: Mapping[str, Any], keep: np.ndarray, target: Any
) -> tuple[np.ndarray, Note]:
    """(n,) mask of the last of the kept rows of each run, and a note on how many."""
    frame, canonical = table.frame, {column: name for name, column in mapping.items()}
    names = parts_of(last_of, {*frame, *canonical})
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"last_of names the columns that name runs, as 'run' or ['size', 'seed'], not "
            f"{last_of!r:.40}",
            argument="last_of",
            value=last_of,
        )
    names = [name if name in frame else canonical.get(name, name) for name in names]
    for name in names:
        if name not in frame:
            doc = " that names runs (last_of=)"
            raise missing_column("run", doc, name, frame.columns, table.source, False)
    frame = frame.set_axis(range(len(frame)))[keep]
    frame = frame[has_loss(frame, [target, "loss", *SIDES["loss"]])]
    along = pd.Series(order_along(frame, frame), frame.index).sort_values(kind="stable")
    last = along.groupby([frame[name] for name in names], dropna=False).tail(1).index
    message = f"{table.source}: the last rows of {len(last)} runs ({last_of}) of {len(keep)} rows"
    return np.isin(np.arange(len(keep)), last), Note("filtered", "info", message)


def _weights(weight: Any, table: Table, mapping: dict[str, Any], keep: np.ndarray) -> np.ndarray:
    """Weights of the rows that are kept, as checked numbers."""
    frame, column = table.frame, "weight"
    if isinstance(weight, str):
        column = mapping.get(weight, weight)
        if column not in frame.columns:
            doc = " to weigh rows by"
            raise missing_column("weight", doc, weight, frame.columns, table.source, False)
        series = frame[column]
    else:
        series = pd.Series(_align(weight, table, "weight"), index=frame.index)
    location = Location(table.source, table.word, column, "weight")
    weights = numbers(series, location)[keep]
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        labels = frame.index.to_numpy()[keep][bad]
        raise location.error(
            f"{location}: weights negative, missing or infinite: "
            f"{location.rows(labels, weights[bad])}; give numbers ≥ 0, 0 to leave a row out",
            labels[0],
            weights[bad][0],
        )
    if not weights.any():
        raise location.error(f"{location}: all weights are 0; give some row a positive weight")
    return weights


# ---------------------------------------------------------------- the columns of a law


def _check_all_there(runs: Runs, law: Law) -> None:
    """Refuse a table that lacks columns of a law, in one error; not for areas of schedules."""
    lacking, present = _lacking(runs, law), runs.table.columns
    if not lacking:
        return
    docs = {spec.name: f" ({spec.doc})" for spec in law.inputs if spec.doc}
    what = ", ".join(f"{_for_corpus(runs, name)[0]}{docs.get(name, '')}" for name in lacking)
    several = known_columns(runs.table.drop(columns=[*{*runs.columns} & {*present}]), lacking)
    hint = "".join(f" {name} may be {' or '.join(map(str, c))}." for name, c in several.items())
    if {*lacking} & OF_SCHEDULES:
        hint += " It is computed from learning rates, by jl.read_loss_curves."
    else:
        known = {"D": "C/(6*N)"} if {"N", "C"} <= {*present} else {}
        hint += f" Say which they are: columns={ {n: known.get(n, '…') for n in lacking} }."
    raise DataError(
        f"{runs.source}: there is no column {what}, which law {law.name} needs; columns: "
        f"{listed(map(runs.user_name, present))}.{hint}",
        file=runs.source,
        column=lacking[0],
    )


def _lacking(runs: Runs, law: Law) -> list[str]:
    """The inputs of a law, and its target, that a table does not have."""
    drops = law.inputs_per_drop if runs.drops is not None else ()
    names = [name for name in law.input_names if name not in drops]
    lacking = [name for name in names if _for_corpus(runs, name)[0] not in runs.table.columns]
    return lacking + [law.target] * (target_column(runs, law) not in runs.table.columns)


def _columns_of(runs: Runs, law: Law) -> dict[str, Column]:
    """The inputs of a law and, last, its target."""
    drops: Mapping[str, np.ndarray] = {}
    if runs.drops is not None and law.inputs_per_drop:
        drops = runs.drops(runs.table)
    columns = {}
    for spec in law.inputs:
        if spec.name in drops:  # (n, K), computed from the schedules
            location = Location(runs.source, runs.word, spec.name, spec.name)
            columns[spec.name] = Column(location, drops[spec.name], 1.0, 1.0, True, spec)
        else:
            columns[spec.name] = _input(runs, law, spec)
    return columns | {law.target: _target(runs, law)}


def _whole_mixtures(
    runs: Runs, law: Law, columns: dict[str, Column]
) -> tuple[dict[str, Column], list[Note]]:
    """Columns whose shares of one mixture add up to 1, and a note where they were made to.

    Raises:
        DataError: they do not, and the law does not divide them by their sum.
    """
    if not law.shares:
        return columns, []

    given = {name: columns[name].values for name in law.shares}
    whole = law.whole_mixtures(given, partial(runs.mixture_error, law))
    columns = columns | {
        name: dataclasses.replace(columns[name], raw=whole[name] / columns[name].factor)
        for name in law.shares
    }
    moved = np.any([np.abs(whole[name] - given[name]) > _DIVIDED for name in law.shares], axis=0)
    if not moved.any():
        return columns, []
    sums = np.sum([given[name][moved] for name in law.shares], axis=0)
    message = (
        f"shares of {int(moved.sum())} of {len(moved)} rows are divided by their sum "
        f"({sums.min():.4g} to {sums.max():.4g})"
    )
    return columns, [Note("normalised", "info", message)]


def _source_columns(runs: Runs, columns: Mapping[str, Column]) -> dict[str, str]:
    """Columns under other names in the user's table; not r where it is 1 minus a column."""
    named = {name: column.location.column for name, column in columns.items()}
    named = {name: col for name, col in named.items() if isinstance(col, str) and col != name}
    target = runs.user_name(runs.target)
    return {n: col for n, col in named.items() if col == target or not _for_corpus(runs, n)[1]}


def _others(runs: Runs, columns: Mapping[str, Column], keep: np.ndarray) -> pd.DataFrame:
    """What the table has beside a law's inputs and its target, in the rows that are kept."""
    used = {column.location.name for column in columns.values()}
    others = runs.table.loc[:, [name not in used for name in runs.table]]
    others = others if keep.all() else others[keep]
    return others.rename(columns=dict(runs.columns))


def _for_corpus(runs: Runs, plain: str) -> tuple[str, bool]:
    """The column that holds ``r`` or ``loss`` of the corpus; True where r is 1 minus it.

    A mapped column goes before one that happens to have the name.
    """
    sides = SIDES.get(plain, ())
    mapped = [name for name in sides if name in runs.columns]
    present = [name for name in sides if name in runs.table.columns]
    is_there = plain in runs.table.columns
    if plain in runs.columns or not present or (is_there and not mapped and runs.corpus is None):
        if plain == "r" and runs.corpus is not None and is_there:
            raise _share_of_neither(runs)
        return plain, False
    if runs.corpus is None:
        raise UsageError(
            f"{runs.source}: {' and '.join(present)} need to know which corpus the loss is of; "
            "pass corpus='general' or corpus='domain', or use runs.for_corpus('general')",
            file=runs.source,
            argument="corpus",
        )
    return _side(plain, runs.corpus, mapped, present)


def _side(plain: str, corpus: str, mapped: list[str], present: list[str]) -> tuple[str, bool]:
    """A corpus' own column; of the share the other's, where that alone is there or is mapped."""
    domain, general = SIDES[plain]
    own, other = (general, domain) if corpus == "general" else (domain, general)
    if own in mapped or (own in present and other not in mapped) or plain != "r":
        return own, False
    return other, True


def _share_of_neither(runs: Runs) -> UsageError:
    column = runs.columns.get("r", "r")
    return UsageError(
        f"{runs.source}: corpus='{runs.corpus}' is given, but column {column} does not say whose "
        "share it is; map it as the domain's, columns={'r_d': …}, or the general corpus's, "
        "columns={'r_g': …}",
        file=runs.source,
        column=column,
        argument="corpus",
        value=runs.corpus,
    )


def _series(runs: Runs, name: str, doc: str, canonical: str) -> pd.Series:
    if name not in runs.table.columns:
        shown = [runs.user_name(column) for column in runs.table.columns]
        raise missing_column(canonical, doc, runs.user_name(name), shown, runs.source)
    return runs.table[name]


def _input(runs: Runs, law: Law, spec: Input) -> Column:
    name, complement = _for_corpus(runs, spec.name)
    doc = f", which law {law.name} needs" + (f" ({spec.doc})" if spec.doc else "")
    doc += "; jl.read_loss_curves works it out from schedules" if spec.per_drop else ""
    series, location = _series(runs, name, doc, spec.name), runs.location(name)
    # Rows of one size, share or budget have equal numbers, however these were computed.
    raw = level_codes(series, location, spec) if spec.levels else merged(numbers(series, location))
    unit, declared = runs.units.get(name, runs.units.get(spec.name)), True
    if unit is None:
        unit, declared = _own_unit(runs, law, spec), False
    if spec.domain == "fraction" and not spec.mixture:  # of a mixture, the sum is checked
        share = raw if unit == 1.0 else raw * unit
        share = check_fraction(share, location, series.index.to_numpy())
        share = 1.0 - share if complement else share
        raw = share if unit == 1.0 else share / unit
    return Column(location, raw, unit / spec.unit, unit, declared, spec)


def _own_unit(runs: Runs, law: Law, spec: Input) -> float:
    """Single things, whatever the law counts in, where all counts of the table may be such."""
    if spec.unit == 1 or not spec.counts:
        return spec.unit
    for other in law.inputs:
        if other.counts and other.plausible and other.name in {*runs.table} - {*runs.units}:
            values = numbers(runs.table[other.name], runs.location(other.name))
            if not other.plausible[0] <= np.median(values[~np.isnan(values)]) <= other.plausible[1]:
                return spec.unit
    return 1.0


def target_column(runs: Runs, law: Law) -> str:
    """The column that holds what a law predicts, whether or not the table has it.

    Raises:
        UsageError: two corpora have one, and nothing says which is meant.
    """
    if runs.target is not None:
        return runs.target
    names = [law.target, *_TARGET_ALIASES.get(law.target, ())]
    present = next((name for name in names if name in runs.table.columns), law.target)
    return _for_corpus(runs, present)[0]


def _target(runs: Runs, law: Law) -> Column:
    name = target_column(runs, law)
    series = _series(runs, name, f", which law {law.name} predicts", law.target)
    positive = law.residuals == "log" or law.target == "loss"
    spec, where = Input(law.target, domain="positive" if positive else "real"), runs.location(name)
    if (unit := runs.units.get(name, 1.0)) != 1:  # of the input, such as the batch, of that column
        remedy = f"multiply the column by {unit:g} and leave it out of units"
        message = f"{where}: law {law.name} predicts it, and units= is for inputs: {remedy}"
        raise UsageError(message, argument="units")
    return Column(where, numbers(series, where), 1.0, 1.0, False, spec)
