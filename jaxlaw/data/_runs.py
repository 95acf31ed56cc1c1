"""Runs in: a user's table with its columns named, then the arrays that one law needs of it.

:func:`read_runs` does what can be done without a law, in this order: files → one table → columns
taken by their names, and said → cells with units of their own → columns that are expressions of
others → rows that count → weights. :meth:`Runs.observations` takes a law and checks the rest:
values, magnitudes, and whether the rows suffice.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._arrays import plain_array
from jaxlaw._quantities import exponential, single_things
from jaxlaw._repr import short_repr
from jaxlaw._rounding import merged
from jaxlaw._tables import is_table
from jaxlaw._typed import checked
from jaxlaw._where import evaluate, parsed, rows_where
from jaxlaw.data._aliases import (
    CURVE_COLUMNS,
    OF_SCHEDULES,
    SIDES,
    is_there,
    known_columns,
    parts_of,
)
from jaxlaw.data._columns import (
    Column,
    Corpus,
    Location,
    fractions,
    level_codes,
    missing_column,
    numbers,
    raw_units,
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
from jaxlaw.errors import DataError, UsageError, listed, name_rows, nearest
from jaxlaw.laws import Input, Law
from jaxlaw.laws._parameters import INPUTS
from jaxlaw.notes import COLUMNS_TAKEN, Note

_log = logging.getLogger(__name__)

# What a law predicts → columns that serve where nothing has its name; a cross-entropy is a loss,
# and a column ``cross_entropy`` one where the law does not take it for an input.
_TARGET_ALIASES = {"cross-entropy": ("loss", "cross_entropy"), "loss": ("cross_entropy",),
                   "best_lr": ("lr",), "best_batch": ("batch",)}  # fmt: skip


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
        # A loss that the user maps stands for those of both corpora, and they for it.
        same = {name: {plain, *sides} for plain, sides in SIDES.items() for name in (plain, *sides)}
        columns = {
            name: column
            for name, column in self.columns.items()
            if is_there(column, {*present, *self.columns})
            and column not in named.values()
            and not same.get(name, {name}) & {*named}
        }
        there = {*present, *columns, *named}
        sided = {plain for plain, sides in SIDES.items() if {*sides} & there}
        taken = {name: value for name, value in vars(self).items() if name not in options}
        lost = [what for what in taken.pop("lost", ()) if what.partition("=")[0] not in options]
        if not sided or ("r" in there and "r" not in sided):
            taken["corpus"] = None  # there is nothing to choose
        taken["target"] = taken.get("target") if self.target in there else None
        taken["columns"] = columns
        taken["units"] = {n: u for n, u in self.units.items() if n in there - {*units}}
        taken["values"] = {n: value for n, value in self.values.items() if n not in there}
        said = []
        for name, value in taken.items():
            if not value:
                continue
            is_dict = isinstance(value, dict)
            shown = ", ".join(f"{k}={v}" for k, v in value.items()) if is_dict else value
            said.append(f"{name} {shown}")
            options[name] = value | options.get(name, {}) if is_dict else value
        said += [f"not saved with the fit: {', '.join(lost)}"] * bool(lost)
        return options, "; ".join(said)

    def incomplete(self, what: str) -> Reading:
        """A reading that does not say all any more."""
        return dataclasses.replace(self, lost=tuple(dict.fromkeys((*self.lost, what))))


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
        _check_corpus(corpus, self.table.columns, self.source)
        reading = dataclasses.replace(self.reading or Reading(), corpus=corpus)
        return dataclasses.replace(self, corpus=corpus, reading=reading)

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
        labels, off = self.table.index[wrong], sums[wrong]
        names = ", ".join(str(self.user_name(name)) for name in law.shares)
        rows = name_rows(self.word, labels, [f"sum {value:.6g}" for value in off])
        message = f"{self.source}: columns {names}: shares of one mixture do not add up to 1: "
        return DataError(
            f"{message}{rows}; {remedy}",
            file=self.source, row=labels[0], column=names, value=float(off[0]),
        )  # fmt: skip

    def noted(self, code: str, message: str, **changed: Any) -> Runs:
        """The same runs, changed, with a note (info) on that."""
        note = Note(code, "info", f"{self.source}: {message}")
        return dataclasses.replace(self, **changed, notes=(*self.notes, note))

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
        drops = self.drops(self.table) if self.drops is not None and law.inputs_per_drop else {}
        columns = {}
        for spec in law.inputs:
            if spec.name in drops:  # (n, K), computed from the schedules
                location = self.location(spec.name)
                columns[spec.name] = Column(location, drops[spec.name], 1.0, 1.0, True, spec)
            else:
                columns[spec.name] = _input(self, law, spec)
        columns[law.target] = _target(self, law)
        if law.shares:  # of one mixture: they add up to 1, or the law divides them by their sum
            shares = {name: columns[name].values for name in law.shares}
            for name, whole in law.whole_mixtures(shares, partial(self.mixture_error, law)).items():
                raw = whole / columns[name].factor
                columns[name] = dataclasses.replace(columns[name], raw=raw)
        check_pretraining(self, law)
        # From here on there are two lengths: that of the table, and, after [keep], that of the
        # valid rows. Rows of weight 0 stay in, but no check counts them.
        keep, notes = valid_rows(self, columns)
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
            notes.append(Note(COLUMNS_TAKEN, "info", message))
        named = columns[law.target].location.column
        if self.target is None and named in _TARGET_ALIASES.get(law.target, ()):
            message = f"{self.source}: {law.target} from {named}"
            notes.append(Note(COLUMNS_TAKEN, "info", message))
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
        used = {column.location.name for column in columns.values()}
        others = self.table.loc[:, [name not in used for name in self.table]]
        # Columns under other names in the user's table; not r where it is 1 minus a column.
        mapped = {name: column.location.column for name, column in columns.items()}
        mapped = {
            name: column
            for name, column in mapped.items()
            if isinstance(column, str) and column != name
            and (column == self.user_name(self.target) or not _for_corpus(self, name)[1])
        }  # fmt: skip
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
            mapped=mapped,
            runs=groups,
            flops=flops,
            others=(others if keep.all() else others[keep]).rename(columns=dict(self.columns)),
            reading=self.reading,
        )


class RunsSource:
    """Base of data that runs are made from: :class:`jaxlaw.LossCurves`."""

    def runs(self) -> Runs:
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
    target: str | None = None,
    last_of: str | Sequence[str] | None = None,
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
            which is meant.
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
        if drop_invalid or any(option is not None for option in options):
            raise UsageError("these runs are read already; pass options to read_runs, once")
        return _with_target(source, target)
    table = with_values(read_source(source, name, format), values)
    frame, file, word = table.frame, table.source, table.word
    inputs, targets = _canonical_names()
    _check_names(units or {}, "units", [name for name in inputs if name not in targets])
    scales = {name: raw_units(name, unit) for name, unit in (units or {}).items()}
    known = dict.fromkeys([*inputs, *targets, *CURVE_COLUMNS])
    given = _given_columns(columns or {}, known, file)
    mapping, scales, notes = _taken(frame, file, given, scales, target)
    mapping |= {name: column for name, column in given.items() if column in frame}
    frame, scales = _counted(frame, partial(Location, file, word), mapping, scales)
    complete = np.ones(len(frame), bool)
    computed = {name: text for name, text in given.items() if name not in mapping}
    for name, text in computed.items():
        frame, missing = _computed(frame, file, word, mapping, name, text, scales)
        complete &= ~missing
        if missing.any():
            message = f"{file}: {text}: an empty cell leaves out {missing.sum()} rows"
            notes.append(Note("filtered", "info", message))
    mapping |= computed
    named = _renamed(frame, mapping)
    if corpus is not None:
        _check_corpus(corpus, [*named, *frame], file)
    keep = complete
    if not (where is None or (isinstance(where, str) and not where.strip())):
        shown, names = "", {}
        if isinstance(where, str):
            # A condition may use the user's names and the canonical ones; these go first.
            shown, names = f" ({where})", dict(frame.items()) | dict(named.items())
        else:
            where = _aligned(where, frame, file, word, "where")
        fulfilled, left_out = rows_where(where, names, file, word)
        message = f"{file}: where{shown} keeps {fulfilled.sum() or 'none'} of "
        message += f"{'the ' * (not fulfilled.any())}{len(keep)} rows{left_out}"
        if not fulfilled.any():
            message += f"; columns: {listed(frame)}; check the condition"
            raise DataError(message, file=file, argument="where", value=where)
        notes.append(Note("filtered", "info", message))
        keep = keep & fulfilled
    if not keep.any():
        raise DataError(f"{file}: empty cells leave none of the {len(keep)} rows", file=file)
    if last_of is not None:
        keep, note = _last_rows(last_of, named, mapping, keep, target, file)
        notes.append(note)
    weights = None
    if weight is not None:
        named_by = isinstance(weight, str)
        column = mapping.get(weight, weight) if named_by else "weight"
        if named_by and column not in frame:
            raise missing_column("weight", " to weigh rows by", weight, frame, file, False)
        given_weights = None if named_by else _aligned(weight, frame, file, word, "weight")
        cells = frame[column] if named_by else pd.Series(given_weights, frame.index)
        location = Location(file, word, column, "weight")
        weights = numbers(cells, location)[keep]
        bad = ~np.isfinite(weights) | (weights < 0)
        remedy = "weights negative, missing or infinite; give numbers ≥ 0, 0 to leave a row out"
        location.refuse(bad, frame.index[keep], weights, remedy)
        if not weights.any():
            raise location.error(f"{location}: all weights are 0; give some row a positive weight")
    by_row = {"where": where, "weight": weight}
    texts = {name: value or None for name, value in by_row.items() if isinstance(value, str)}
    lost = [f"{n}= (one value a row)" for n, v in by_row.items() if not isinstance(v, str | None)]
    lost += [f"columns={{'{n}': …}}" for n, c in mapping.items() if not isinstance(c, str)]
    reading = Reading(
        columns={name: column for name, column in mapping.items() if isinstance(column, str)},
        units=dict(scales),
        corpus=corpus,
        drop_invalid=drop_invalid,
        format=format,
        values=dict(values or {}),
        lost=tuple(lost),
        last_of=",".join(last_of) if isinstance(last_of, list | tuple) else last_of,
        **texts,
    )
    runs = Runs(
        table=named if keep.all() else named[keep],
        columns=mapping,
        units=scales,
        source=file,
        word=word,
        weight=weights,
        corpus=corpus,
        drop_invalid=drop_invalid,
        dropped=int((~keep).sum()),
        notes=tuple(notes),
        reading=None if reading == Reading() else reading,
    )
    return _with_target(runs, target)


def _with_target(runs: Runs, target: Any) -> Runs:
    """The same runs, of which laws predict one column, by the user's name or the canonical one."""
    if target is None:
        return runs
    names = {runs.user_name(column): column for column in runs.table}
    column = target if target in runs.table else names.get(target)
    if column is None:
        raise missing_column("target", " (target=)", target, names, runs.source, False)
    reading = dataclasses.replace(runs.reading or Reading(), target=target)
    return dataclasses.replace(runs, target=column, reading=reading)


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
    shown = runs.table[column].to_numpy() if values is None else values
    runs.location(column).refuse(bad, runs.table.index, shown, remedy)


def read_columns(
    source: Any,
    needed: Mapping[str, str],
    optional: Collection[str] = (),
    columns: Mapping[str, Any] | None = None,
    *,
    texts: Collection[str] = (),
    name: str | None = None,
) -> Runs:
    """The columns that a function takes of a table which is not for a law.

    Args:
        source: anything that :func:`read_runs` takes.
        needed: name → what it is, for the message where it is missing: ``", the amount of data"``.
        optional: names of columns that may be missing, unless ``columns`` maps them.
        columns: name → the user's column; None where the function has no such argument.
        texts: those of the columns that are labels, which stay as they are.
        name: name in messages of a table that is no file.

    Returns:
        :class:`Runs` with these columns alone, under these names; numbers are float64, NaN where a
        cell is empty. See :func:`refuse_rows` for further checks.

    Raises:
        UsageError: ``columns`` maps another name.
        DataError: a column is missing, or a cell is no number.
    """
    runs = read_runs(source, name=name if is_table(source) else None)
    mapping = dict(columns or {})
    _check_names(mapping, "columns", [*needed, *optional])
    present, own = runs.table.columns, {column: name for name, column in runs.columns.items()}
    read, names = {}, {}
    for key in [*needed, *optional]:
        column = mapping.get(key, key)
        column = column if column in present else own.get(column, column)
        if column not in present:
            if key in optional and key not in mapping:
                continue
            shown, doc = map(runs.user_name, present), needed.get(key, "")
            raise missing_column(key, doc, column, shown, runs.source, columns is not None)
        names[key], series = runs.user_name(column), runs.table[column]
        location = runs.location(column)
        read[key] = series.to_numpy() if key in texts else merged(numbers(series, location))
    table = pd.DataFrame(read, index=runs.table.index)
    return dataclasses.replace(runs, table=table, columns=names, units={}, weight=None, corpus=None)


# ---------------------------------------------------------------- arguments of read_runs


def _canonical_names() -> tuple[list[str], list[str]]:
    """The names that columns may be mapped to: of inputs, and of what laws predict."""
    # Laws that are tuned over rate and batch are named as they are made.
    every = [*map(laws.get, laws.names()), laws.tuned("chinchilla")]
    inputs = dict.fromkeys([*INPUTS, *(spec.name for law in every for spec in law.inputs)])
    targets = dict.fromkeys(["loss", *(law.target for law in every)])
    return [*inputs, "r_d", "r_g"], [*targets, "loss_d", "loss_g"]


def _check_names(names: Collection[Any], argument: str, known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(
                f"{argument}: '{name}' is no name jaxlaw knows ({', '.join(known)})."
                f"{nearest(str(name), known)}",
                argument=argument,
                value=name,
            )


def _given_columns(columns: Mapping[str, Any], known: Collection[str], file: str) -> dict[str, Any]:
    """The user's mapping, of names that jaxlaw knows to a column each."""
    _check_names(columns, "columns", known)
    by_column: dict[Any, str] = {}
    for name, column in columns.items():
        if not isinstance(column, Hashable):
            message = f"columns: {name} is {column!r:.60}, not the name of a column"
            raise UsageError(message, argument="columns", value=columns)
        if by_column.setdefault(column, name) != name:
            message = f"columns: {column} is given for both {by_column[column]} and {name}"
            raise UsageError(message, argument="columns", file=file, column=column)
    for plain, sides in SIDES.items():
        if plain in columns and {*sides} & {*columns}:
            raise UsageError(
                f"columns: {plain} and {' or '.join(sides)} both say where {plain} comes from; map "
                f"{plain} alone, or {sides[0]} and {sides[1]} with corpus=",
                argument="columns",
                value=columns,
            )
    return dict(columns)


def _check_corpus(corpus: Any, columns: Collection[Any], source: str) -> None:
    if corpus not in ("general", "domain"):
        message = f"corpus is 'general' or 'domain', not {corpus!r}"
        raise UsageError(message, argument="corpus", value=corpus)
    sided = [name for pair in SIDES.values() for name in pair]
    if not {*sided} & {*columns}:
        raise UsageError(
            f"{source}: corpus='{corpus}' chooses among {', '.join(sided)}, and there is none of "
            "them; map one, for example columns={'r_d': 'domain_share'}",
            file=source,
            argument="corpus",
            value=corpus,
        )


def _taken(
    frame: pd.DataFrame, file: str, given: Mapping[str, Any], units: dict[str, float], target: Any
) -> tuple[dict[str, Any], dict[str, float], list[Note]]:
    """Columns taken by their names: the mapping, all units, and a note that says which."""
    there = {*given, *frame}
    there |= {plain for plain, sides in SIDES.items() if {*sides} & there}
    used = {*given.values(), target}
    free = frame.loc[:, [column not in used for column in frame]]
    taken, units, words = {}, dict(units), []
    for name, found in known_columns(free).items():
        if name in there or len(found) > 1:  # of several, where a law needs one, it is an error
            continue
        ((column, unit),) = found.items()
        taken[name] = column
        said = unit is not None and name not in units
        units |= {name: unit} if said else {}
        words.append(f"{name} from {column}{f' in {exponential(unit)}' if said else ''}")
    message = f"{file}: {', '.join(words)}"
    return taken, units, [Note(COLUMNS_TAKEN, "info", message)] if words else []


def _counted(
    frame: pd.DataFrame,
    place: Callable[[Any, str], Location],
    mapping: Mapping[str, Any],
    units: dict[str, float],
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Cells that say their own unit (552M, 1.02B, ``15 T tokens``) as numbers of one unit.

    Args:
        frame: the table.
        place: where a column (user's name, canonical name) is, for messages.
        mapping: canonical name → column.
        units: canonical name → raw units per unit of the column, where declared.

    Returns:
        The table, each such column in its declared unit, or in single things where none is
        declared; the units with those of these columns.

    Raises:
        DataError: a cell counts something else than its column.
    """
    new, units = {}, dict(units)
    for name, spec in INPUTS.items():
        column = mapping.get(name, name)
        if (
            not spec.counts
            or column not in frame
            or pd.api.types.is_numeric_dtype(frame[column].dtype)
        ):
            continue
        cells, counts = frame[column].astype(object), []
        for row, cell in cells.items():
            try:
                counts.append(single_things(cell, spec.counts) if isinstance(cell, str) else None)
            except UsageError as error:
                location = place(column, name)
                message = f"{location}, {location.rows([row])}: {error}"
                raise location.error(message, row, cell) from None
        if any(count is not None for count in counts):
            unit = units.setdefault(name, 1.0)
            # Cells that say no unit are in that of the column.
            own = [c if n is None else n / unit for c, n in zip(cells, counts, strict=True)]
            new[column] = pd.Series(own, cells.index, object)
    return (frame.assign(**new) if new else frame), units


def _computed(
    frame: pd.DataFrame, file: str, word: str, mapping: Mapping[str, Any], name: str, text: Any,
    units: Mapping[str, float],
) -> tuple[pd.DataFrame, np.ndarray]:  # fmt: skip
    """The table with a column that is an expression of others, and (n,) rows without a cell of it.

    Raises:
        DataError: it is neither a column nor an expression of such that are there.
        UsageError: it is computed of a column in a unit, and its own is not declared.
    """
    names = dict(frame.items()) | {own: frame[column] for own, column in mapping.items()}
    if not isinstance(text, str) or not {*re.findall(r"\w+", text)} & {*map(str, names)}:
        raise missing_column(name, f" (for {name})", text, frame.columns, file)
    values, missing = evaluate(text, names, file, word, "columns")
    canonical = {column: own for own, column in mapping.items()}
    for used in parsed(text, "columns")[1].values():
        unit = units.get(used, units.get(canonical.get(used, ""), 1.0))
        if unit != 1 and name not in units:
            raise UsageError(
                f"columns: {name} is computed of {used}, which is in units of {exponential(unit)}: "
                f"say that of {name}, too, units={{'{name}': …}}",
                argument="units",
                column=used,
            )
    return frame.assign(**{text: values}), missing


def _renamed(frame: pd.DataFrame, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Mapped columns under their canonical names; one that had such a name says where it is of."""
    canonical = {column: name for name, column in mapping.items()}
    frame = frame.copy(deep=False)
    frame.columns = [
        canonical.get(column, f"{column} (as in the file)" if column in mapping else column)
        for column in frame.columns
    ]
    return frame


def _aligned(values: Any, frame: pd.DataFrame, file: str, word: str, argument: str) -> np.ndarray:
    """One value per row of the source."""
    try:
        array = plain_array(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0)
    hint = ""
    if isinstance(values, pd.Series) and word == "row" and not values.index.equals(frame.index):
        hint = "; the Series has another index, pass .to_numpy() if it is in the order of the rows"
    if hint or array.shape != (len(frame),):
        message = f"{argument}: give a column, or one value for each of the {len(frame)} rows of "
        message += f"{file}, not {array.shape}{hint}"
        raise UsageError(message, argument=argument, value=values)
    return array


def _last_rows(
    last_of: Any, frame: pd.DataFrame, mapping: Mapping[str, Any], keep: np.ndarray, target: Any,
    file: str,
) -> tuple[np.ndarray, Note]:  # fmt: skip
    """(n,) mask of the last of the kept rows of each run, and a note on how many."""
    canonical = {column: name for name, column in mapping.items()}
    names = parts_of(last_of, {*frame, *canonical}) or [""]
    names = [name if name in frame else canonical.get(name, name) for name in names]
    for name in names:
        if name not in frame:
            doc = " that names runs (last_of=)"
            raise missing_column("run", doc, name, frame.columns, file, False)
    frame = frame.set_axis(range(len(frame)))[keep]
    frame = frame[has_loss(frame, [target, "loss", *SIDES["loss"]])]
    along = pd.Series(order_along(frame, frame), frame.index).sort_values(kind="stable")
    last = along.groupby([frame[name] for name in names], dropna=False).tail(1).index
    message = f"{file}: the last rows of {len(last)} runs ({last_of}) of {len(keep)} rows"
    return np.isin(np.arange(len(keep)), last), Note("filtered", "info", message)


def has_loss(table: pd.DataFrame, columns: Collection[Any]) -> np.ndarray:
    """(n,) whether a row has a number in any of these columns; all rows do where none has."""
    keep = table[[name for name in columns if name in table]].notna().any(axis=1).to_numpy()
    return keep if keep.any() else np.ones(len(table), bool)


# ---------------------------------------------------------------- the columns of a law


def _check_all_there(runs: Runs, law: Law) -> None:
    """Refuse a table that lacks columns of a law, in one error; not for areas of schedules."""
    present = {*runs.table}
    drops = law.inputs_per_drop if runs.drops is not None else ()
    inputs = [name for name in law.input_names if name not in drops]
    lacking = [name for name in inputs if _for_corpus(runs, name)[0] not in present]
    lacking += [law.target] * (_target_column(runs, law) not in present)
    if not lacking:
        return
    docs = {spec.name: f" ({spec.doc})" for spec in law.inputs if spec.doc}
    what = ", ".join(f"{_for_corpus(runs, name)[0]}{docs.get(name, '')}" for name in lacking)
    several = known_columns(runs.table.drop(columns=[*{*runs.columns} & present]), lacking)
    hint = "".join(f" {name} may be {' or '.join(map(str, c))}." for name, c in several.items())
    if {*lacking} & OF_SCHEDULES:
        hint += " It is computed from learning rates, by jl.read_loss_curves."
    else:
        known = {"D": "C/(6*N)"} if {"N", "C"} <= present else {}
        hint += f" Say which they are: columns={ {n: known.get(n, '…') for n in lacking} }."
    raise DataError(
        f"{runs.source}: there is no column {what}, which law {law.name} needs; columns: "
        f"{listed(map(runs.user_name, runs.table))}.{hint}",
        file=runs.source,
        column=lacking[0],
    )


def _for_corpus(runs: Runs, plain: str) -> tuple[str, bool]:
    """The column that holds ``r`` or ``loss`` of the corpus; True where r is 1 minus it.

    A mapped column goes before one that happens to have the name.
    """
    sides = SIDES.get(plain, ())
    mapped = [name for name in sides if name in runs.columns]
    present = [name for name in sides if name in runs.table]
    is_plain = plain in runs.table
    if plain in runs.columns or not present or (is_plain and not mapped and runs.corpus is None):
        if plain == "r" and runs.corpus is not None and is_plain:
            column = runs.columns.get("r", "r")
            raise UsageError(
                f"{runs.source}: corpus='{runs.corpus}' is given, but column {column} does not say "
                "whose share it is; map it as the domain's, columns={'r_d': …}, or the general "
                "corpus's, columns={'r_g': …}",
                file=runs.source,
                column=column,
                argument="corpus",
                value=runs.corpus,
            )
        return plain, False
    if runs.corpus is None:
        raise UsageError(
            f"{runs.source}: {' and '.join(present)} need to know which corpus the loss is of; "
            "pass corpus='general' or corpus='domain', or use runs.for_corpus('general')",
            file=runs.source,
            argument="corpus",
        )
    own, other = sides if runs.corpus == "domain" else sides[::-1]
    # Of the share the other's, where that alone is there or is mapped.
    if plain != "r" or own in mapped or (own in present and other not in mapped):
        return own, False
    return other, True


def _input(runs: Runs, law: Law, spec: Input) -> Column:
    name, complement = _for_corpus(runs, spec.name)
    series, location = runs.table[name], runs.location(name)
    # Rows of one size, share or budget have equal numbers, however these were computed.
    raw = level_codes(series, location, spec) if spec.levels else merged(numbers(series, location))
    unit = runs.units.get(name, runs.units.get(spec.name))
    declared = unit is not None
    if unit is None:
        unit = _own_unit(runs, law, spec)
    if spec.domain == "fraction" and not spec.mixture:  # of a mixture, the sum is checked
        share = fractions(raw if unit == 1.0 else raw * unit, location, series.index.to_numpy())
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


def _target_column(runs: Runs, law: Law) -> str:
    """The column that holds what a law predicts, whether or not the table has it.

    Raises:
        UsageError: two corpora have one, and nothing says which is meant.
    """
    if runs.target is not None:
        return runs.target
    others = [n for n in _TARGET_ALIASES.get(law.target, ()) if n not in law.input_names]
    sided = {*SIDES.get(law.target, ())} & {*runs.table}
    names = [law.target] if sided else [law.target, *others]
    present = next((name for name in names if name in runs.table), law.target)
    return _for_corpus(runs, present)[0]


def _target(runs: Runs, law: Law) -> Column:
    name = _target_column(runs, law)
    where = runs.location(name)
    positive = law.residuals == "log" or law.target == "loss"
    spec = Input(law.target, domain="positive" if positive else "real")
    if (unit := runs.units.get(name, 1.0)) != 1:  # of the input, such as the batch, of that column
        remedy = f"multiply the column by {unit:g} and leave it out of units"
        message = f"{where}: law {law.name} predicts it, and units= is for inputs: {remedy}"
        raise UsageError(message, argument="units")
    return Column(where, numbers(runs.table[name], where), 1.0, 1.0, False, spec)
