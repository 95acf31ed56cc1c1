"""Runs in: a user's table with its columns named, then the arrays that one law needs of it.

:func:`read_runs` does what can be done without a law, in this order: files → one table → columns
taken by their names, and said → cells with units of their own → columns that are expressions of
others → rows that count → weights. :meth:`Runs.observations` takes a law and checks the rest:
values, magnitudes, and whether the rows suffice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._arrays import plain_array
from jaxlaw._quantities import exponential, single_things
from jaxlaw._repr import short_repr
from jaxlaw._rounding import merged
from jaxlaw._tables import Table, is_table
from jaxlaw._typed import checked
from jaxlaw._where import evaluate, parsed, rows_where
from jaxlaw.data._aliases import (
    CURVE_COLUMNS,
    NAMES,
    OF_SCHEDULES,
    SAME,
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
from jaxlaw.data._row_checks import notes_on_rows, valid_rows
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
        columns = {
            name: column
            for name, column in self.columns.items()
            if is_there(column, {*present, *self.columns})
            and column not in named.values()
            and not SAME.get(name, {name}) & {*named}
        }
        there = {*present, *columns, *named}
        sided = {plain for plain, sides in SIDES.items() if {*sides} & there}
        brought = vars(self) | {
            "columns": columns,
            "units": {n: u for n, u in self.units.items() if n in there - {*units}},
            "values": {n: value for n, value in self.values.items() if n not in there},
            # None where there is nothing to choose.
            "corpus": self.corpus if sided and not ("r" in there and "r" not in sided) else None,
            "target": self.target if self.target in there else None,
        }
        lost = [what for what in brought.pop("lost") if what.partition("=")[0] not in options]
        said = []
        for name, value in brought.items():
            is_dict = isinstance(value, dict)
            if value and (is_dict or name not in options):
                shown = ", ".join(f"{k}={v}" for k, v in value.items()) if is_dict else value
                said.append(f"{name} {shown}")
                options[name] = value | options.get(name, {}) if is_dict else value
        said += [f"not saved with the fit: {', '.join(lost)}"] * bool(lost)
        return options, "; ".join(said)


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
        corpus: the corpus whose mixture ratio and loss are meant, ``general`` or ``domain``, or
            None.
        drop_invalid: whether rows without valid numbers are dropped (and counted).
        dropped: number of rows left out by ``where`` and ``last_of``.
        notes: notes on the data so far.
        area_options: options of the areas of learning rates, where jaxlaw computed them
            (:meth:`jaxlaw.LossCurves.runs`).
        target: column that laws predict, by its name in the table; None for the one that has the
            name of the law's target.
        drops: function from rows of the table to the law's inputs per drop of the learning rate,
            name → (rows, K), where jaxlaw knows the schedules.
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

        ``r`` is then that corpus's mixture ratio (r_g = 1 − r_d) and ``loss`` its loss, so that one
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
        reading = replace(self.reading or Reading(), corpus=corpus)
        return replace(self, corpus=corpus, reading=reading)

    def user_name(self, column: Hashable) -> Any:
        """What the user calls a column of the table."""
        return self.columns.get(column, column)

    def location(self, column: str) -> Location:
        """Where the values of a column come from, for messages."""
        return Location(self.source, self.word, self.user_name(column), column)

    def mixture_error(
        self, law: Law, wrong: np.ndarray, sums: np.ndarray, remedy: str
    ) -> DataError:
        """The error of rows whose ratios do not add up to 1: (n,) flags, (n,) sums, what to do."""
        labels, off = self.table.index[wrong], sums[wrong]
        names = ", ".join(str(self.user_name(name)) for name in law.shares)
        rows = name_rows(self.word, labels, [f"sum {value:.6g}" for value in off])
        message = f"{self.source}: columns {names}: mixture ratios do not add up to 1: "
        where = Location(self.source, self.word, names, "")
        return where.error(f"{message}{rows}; {remedy}", labels[0], off[0])

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
        columns = _columns_of(self, law)
        if law.shares:  # of one mixture: they add up to 1, or the law divides them by their sum
            shares = {name: columns[name].values for name in law.shares}
            for name, whole in law.whole_mixtures(shares, partial(self.mixture_error, law)).items():
                columns[name] = replace(columns[name], raw=whole / columns[name].factor)
        # From here on there are two lengths: that of the table, and, after [keep], that of the
        # valid rows. Rows of weight 0 stay in, but no check counts them.
        keep, notes = valid_rows(self, law, columns)
        table = self.table if keep.all() else self.table[keep]
        weight = np.ones(len(keep)) if self.weight is None else self.weight
        weight = weight[keep]
        if not weight.any():
            message = f"{self.source}: all rows left have weight 0; give some a positive weight"
            raise DataError(message, file=self.source)
        inputs = {name: columns[name].values[keep] for name in law.input_names}
        groups = run_groups(
            table, {name: inputs[name] for name in law.inputs_per_row}, self.columns
        )
        flops, of_flops = run_flops(law, self, columns, keep) if "C" in table else (None, [])
        used = {column.location.name for column in columns.values()}
        named = {name: column.location.column for name, column in columns.items()}
        others = table.take([k for k, name in enumerate(table) if name not in used], axis=1)
        if not self.columns.keys().isdisjoint(others):
            others = others.rename(columns=dict(self.columns))
        seen = Observations(
            law=law.name,
            inputs=inputs,
            target=columns[law.target].values[keep],
            weight=weight,
            scale={name: columns[name].factor for name in inputs},
            units={name: columns[name].unit for name in inputs},
            ranges={name: columns[name].range(keep) for name in inputs},
            columns=named,
            target_name=law.target,
            rows=table.index.to_numpy(),
            source=self.source,
            word=self.word,
            dropped=int((~keep).sum()),
            area_options=self.area_options,
            positions=np.flatnonzero(keep),
            # Columns under other names in the user's table; not r where it is 1 minus a column.
            mapped={
                name: column
                for name, column in named.items()
                if isinstance(column, str) and column != name and not columns[name].complement
            },
            runs=groups,
            flops=flops,
            others=others,
            reading=self.reading,
        )
        by_size = [c for c in columns.values() if c.unit != c.spec.unit and not c.declared]
        taken = []
        if by_size:
            read = listed(c.location.column for c in by_size)
            taken = [f"{read} look like raw counts: units= sets another unit"]
        if self.target is None and named[law.target] in _TARGET_ALIASES.get(law.target, ()):
            taken.append(f"{law.target} from {named[law.target]}")
        notes += [Note(COLUMNS_TAKEN, "info", f"{self.source}: {what}") for what in taken]
        notes += notes_on_rows(seen, law, columns, keep, free)
        notes += [*history_notes(law, groups, table), *of_flops]
        _log.info(
            "%s: %d observations for law %s, %d rows dropped as invalid",
            self.source, len(seen), law.name, seen.dropped,
        )  # fmt: skip
        return replace(seen, notes=(*self.notes, *notes))


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
            learning rate (n, K), where the schedules are known.
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
        return replace(
            self,
            inputs={name: values[places] for name, values in self.inputs.items()},
            others=self.others.iloc[places],
            runs=None if self.runs is None else self.runs.rows(places),
            **{name: getattr(self, name)[places] for name in arrays},
        )


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
            expression of columns: ``{"D": "compute/(6*n_params)"}``; of ``run`` also several
            columns that name it together: ``["size", "seed"]``. A column that has the
            canonical name needs no entry, nor does the only one of a known name (``n_params``,
            ``val_loss``), which a note names. In place of ``r`` and ``loss`` also ``r_d``,
            ``r_g``, ``loss_d``, ``loss_g``, for the domain and the general corpus; ``corpus`` says
            which is meant.
        units: canonical name → raw units (parameters, tokens, FLOPs) per unit of the column: 1,
            1e9, or K, M, B, T; 0.01 for a mixture ratio in percent; 2048 for a batch in sequences
            of so many tokens. Left out: 1 where all counts of the table may be so, else the law's
            own.
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
    table = read_source(source, name, format)
    table = with_values(table, values) if values else table
    frame, file, word = table.frame, table.source, table.word
    columns = dict(columns or {})
    if len(parts := parts_of(columns.get("run"), frame.columns)) > 1:
        for part in parts:
            if part not in frame:
                raise missing_column("run", " (for run)", part, frame.columns, file)
        cells = frame[parts].astype(object)
        # A run of which one part is missing has no name, which is refused with its row.
        joined = cells.map(str).agg(" ".join, axis=1).where(cells.notna().all(axis=1), None)
        columns["run"] = ",".join(map(str, parts))
        frame = frame.assign(**{columns["run"]: joined})
        table = replace(table, frame=frame)
    if columns or units:
        # Laws that are tuned over learning rate and batch are named as they are made.
        every = [*map(laws.get, laws.names()), laws.tuned("chinchilla")]
        inputs = [*INPUTS, *(spec.name for law in every for spec in law.inputs), *SIDES["r"]]
        targets = ["loss", *(law.target for law in every), *SIDES["loss"]]
        counted = dict.fromkeys([*(one for one in inputs if one not in targets), "step"])
        _check_names(units or {}, "units", counted)
        _check_names(columns, "columns", dict.fromkeys([*inputs, *targets, *CURVE_COLUMNS]))
    by_column = {}
    for own, column in columns.items():
        if not isinstance(column, Hashable):
            raise UsageError(f"columns: {own} is {column!r:.60}, not the name of a column")
        if by_column.setdefault(column, own) != own:
            message = f"columns: {column} is given for both {by_column[column]} and {own}"
            raise UsageError(message, file=file, column=column)
    for plain, sides in SIDES.items():
        if plain in columns and {*sides} & {*columns}:
            raise UsageError(
                f"columns: {plain} and {' or '.join(sides)} both say where {plain} comes from; map "
                f"{plain} alone, or {sides[0]} and {sides[1]} with corpus="
            )
    scales = {own: raw_units(own, unit) for own, unit in (units or {}).items()}
    # Columns taken by their names, and a note that says which.
    there = {*columns, *frame}
    there |= {plain for plain, sides in SIDES.items() if {*sides} & there}
    used = {*columns.values(), target}
    free = frame.loc[:, [column not in used for column in frame]] if used & {*frame} else frame
    mapping, words, notes = {}, [], []
    for own, found in known_columns(free, [one for one in NAMES if one not in there]).items():
        if len(found) > 1:  # of several, where a law needs one, it is an error
            continue
        ((column, unit),) = found.items()
        mapping[own] = column
        said = unit is not None and own not in scales
        scales |= {own: unit} if said else {}
        words.append(f"{own} from {column}{f' in {exponential(unit)}' if said else ''}")
    if words:
        notes.append(Note(COLUMNS_TAKEN, "info", f"{file}: {', '.join(words)}"))
    mapping |= {name: column for name, column in columns.items() if column in frame}
    # Cells that say their own unit (552M, 1.02B, ``15 T tokens``) as numbers of the declared one,
    # or of single things where none is.
    frame = frame.copy(deep=False)
    for own, spec in INPUTS.items():
        column = mapping.get(own, own)
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
                location = Location(file, word, column, own)
                message = f"{location}, {location.rows([row])}: {error}"
                raise location.error(message, row, cell) from None
        if any(count is not None for count in counts):
            unit = scales.setdefault(own, 1.0)
            # Cells that say no unit are in that of the column.
            plain = [c if n is None else n / unit for c, n in zip(cells, counts, strict=True)]
            frame[column] = pd.Series(plain, cells.index, object)
    keep = np.ones(len(frame), bool)
    computed = {name: text for name, text in columns.items() if name not in mapping}
    own = {column: name for name, column in mapping.items()}
    for name, text in computed.items():
        # Neither a column nor an expression of such that are there?
        names = dict(frame.items()) | {one: frame[column] for one, column in mapping.items()}
        if not isinstance(text, str) or not {*re.findall(r"\w+", text)} & {*map(str, names)}:
            raise missing_column(name, f" (for {name})", text, frame.columns, file)
        frame[text], missing = evaluate(text, names, file, word, "columns")
        for used in parsed(text, "columns")[1].values():
            unit = scales.get(used, scales.get(own.get(used, ""), 1.0))
            if unit != 1 and name not in scales:
                raise UsageError(
                    f"columns: {name} is computed of {used}, which is in units of "
                    f"{exponential(unit)}: say that of {name}, too, units={{'{name}': …}}",
                    column=used,
                )
        keep &= ~missing
        if missing.any():
            message = f"{file}: {text}: an empty cell leaves out {missing.sum()} rows"
            notes.append(Note("filtered", "info", message))
    mapping |= computed
    # Mapped columns under their canonical names; one that had such a name says where it is of.
    canonical = {column: name for name, column in mapping.items()}
    labels = [canonical.get(c, f"{c} (as in the file)" if c in mapping else c) for c in frame]
    named = frame if labels == [*frame] else frame.set_axis(labels, axis=1)
    if corpus is not None:
        _check_corpus(corpus, [*named, *frame], file)
    if not (where is None or (isinstance(where, str) and not where.strip())):
        shown, names = "", {}
        if isinstance(where, str):
            # A condition may use the user's names and the canonical ones; these go first.
            shown, names = f" ({where})", dict(frame.items()) | dict(named.items())
        else:
            where = _aligned(where, table, "where")
        fulfilled, left_out = rows_where(where, names, file, word)
        message = f"{file}: where{shown} keeps {fulfilled.sum()} of {len(keep)} rows{left_out}"
        if not fulfilled.any():
            message += f"; columns: {listed(frame)}; check the condition"
            raise DataError(message, file=file)
        notes.append(Note("filtered", "info", message))
        keep = keep & fulfilled
    if not keep.any():
        raise DataError(f"{file}: empty cells leave none of the {len(keep)} rows", file=file)
    if last_of is not None:
        names = parts_of(last_of, {*named, *canonical}) or [""]
        names = [name if name in named else canonical.get(name, name) for name in names]
        for name in names:
            if name not in named:
                raise missing_column("run", " that names runs (last_of=)", name, named, file, False)
        rows = named.set_axis(range(len(named)))[keep]
        rows = rows[has_loss(rows, [target, "loss", *SIDES["loss"]])]
        along = pd.Series(order_along(rows, rows), rows.index).sort_values(kind="stable")
        last = along.groupby([rows[name] for name in names], dropna=False).tail(1).index
        message = f"{file}: the last rows of {len(last)} runs ({last_of}) of {len(keep)} rows"
        notes.append(Note("filtered", "info", message))
        keep = np.isin(np.arange(len(keep)), last)
    weights = None
    if weight is not None:
        column = "weight"
        if isinstance(weight, str):
            column = mapping.get(weight, weight)
            if column not in frame:
                raise missing_column("weight", " to weigh rows by", weight, frame, file, False)
            cells = frame[column]
        else:
            cells = pd.Series(_aligned(weight, table, "weight"), frame.index)
        location = Location(file, word, column, "weight")
        cells = cells.astype(float) if cells.dtype == bool else cells  # True and False: 1 and 0
        weights = numbers(cells, location)[keep]
        bad = ~np.isfinite(weights) | (weights < 0)
        remedy = "weights negative, missing or infinite; give numbers ≥ 0, 0 to leave a row out"
        location.refuse(bad, frame.index[keep], weights, remedy)
        if not weights.any():
            raise location.error(f"{location}: all weights are 0; give some row a positive weight")
    by_row = {"where": where, "weight": weight}
    lost = [f"{n}= (one value a row)" for n, v in by_row.items() if not isinstance(v, str | None)]
    lost += [f"columns={{'{n}': …}}" for n, c in mapping.items() if not isinstance(c, str)]
    reading = Reading(
        columns={name: column for name, column in mapping.items() if isinstance(column, str)},
        units=scales,
        corpus=corpus,
        drop_invalid=drop_invalid,
        format=format,
        values=dict(values or {}),
        lost=tuple(lost),
        last_of=",".join(last_of) if isinstance(last_of, list | tuple) else last_of,
        **{name: value or None for name, value in by_row.items() if isinstance(value, str)},
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


def _with_target(runs: Runs, target) -> Runs:
    """The same runs, of which laws predict one column, by the user's name or the canonical one."""
    if target is None:
        return runs
    names = {runs.user_name(column): column for column in runs.table}
    column = target if target in runs.table else names.get(target)
    if column is None:
        raise missing_column("target", " (target=)", target, names, runs.source, False)
    return replace(runs, target=column, reading=replace(runs.reading or Reading(), target=target))


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
    return replace(runs, table=table, columns=names, units={}, weight=None, corpus=None)


# ---------------------------------------------------------------- arguments of read_runs


def _check_names(names: Collection, argument: str, known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(
                f"{argument}: '{name}' is no name jaxlaw knows ({', '.join(known)})."
                f"{nearest(str(name), known)}"
            )


def _check_corpus(corpus, columns: Collection, source: str) -> None:
    if corpus not in ("general", "domain"):
        raise UsageError(f"corpus is 'general' or 'domain', not {corpus!r}")
    sided = [name for pair in SIDES.values() for name in pair]
    if not {*sided} & {*columns}:
        raise UsageError(
            f"{source}: corpus='{corpus}' chooses among {', '.join(sided)}, and there is none of "
            "them; map one, for example columns={'r_d': 'domain_share'}"
        )


def _aligned(values, table: Table, argument: str) -> np.ndarray:
    """One value per row of the source."""
    try:
        array = plain_array(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0)
    rows, hint = table.frame.index, ""
    if isinstance(values, pd.Series) and table.word == "row" and not values.index.equals(rows):
        hint = "; the Series has another index, pass .to_numpy() if it is in the order of the rows"
    if hint or array.shape != (len(rows),):
        message = f"{argument}: give a column, or one value for each of the {len(rows)} rows of "
        raise UsageError(f"{message}{table.source}, not {array.shape}{hint}")
    return array


def has_loss(table: pd.DataFrame, columns: Collection) -> np.ndarray:
    """(n,) whether a row has a number in any of these columns; all rows do where none has."""
    keep = table[[name for name in columns if name in table]].notna().any(axis=1).to_numpy()
    return keep if keep.any() else np.ones(len(table), bool)


# ---------------------------------------------------------------- the columns of a law


def _columns_of(runs: Runs, law: Law) -> dict[str, Column]:
    """The columns of a law's inputs and of its target; those that are missing in one error."""
    table, per_drop = runs.table, law.inputs_per_drop if runs.drops is not None else ()
    names = {n: _for_corpus(runs, n) for n in law.input_names if n not in per_drop}
    if (target := runs.target) is None:
        others = [n for n in _TARGET_ALIASES.get(law.target, ()) if n not in law.input_names]
        sided = {*SIDES.get(law.target, ())} & {*table}
        usable = [law.target] if sided else [law.target, *others]
        target = _for_corpus(runs, next((n for n in usable if n in table), law.target))[0]
    found = {name: column for name, (column, _) in names.items()} | {law.target: target}
    if lacking := {name: column for name, column in found.items() if column not in table}:
        docs = {spec.name: f" ({spec.doc})" for spec in law.inputs if spec.doc}
        what = ", ".join(f"{column}{docs.get(name, '')}" for name, column in lacking.items())
        several = known_columns(table.drop(columns=[*{*runs.columns} & {*table}]), lacking)
        if "r" in lacking:
            ratios = [c for c in table if re.search("ratio|replay|share|mixture", str(c), re.I)]
            several |= {"r": ratios} if ratios else {}
        hint = "".join(f" {n} may be {' or '.join(map(str, c))}." for n, c in several.items())
        if {*lacking} & OF_SCHEDULES:
            hint += " It is computed from learning rates, by jl.read_loss_curves."
        else:
            known = {"D": "C/(6*N)"} if {"N", "C"} <= {*table} else {}
            hint += f" Pass columns={ {n: known.get(n, '…') for n in lacking} }."
        raise DataError(
            f"{runs.source}: there is no column {what}, which law {law.name} needs; columns: "
            f"{listed(map(runs.user_name, table))}.{hint}",
            file=runs.source,
            column=next(iter(lacking)),
        )
    columns, drops = {}, runs.drops(table) if runs.drops is not None and per_drop else {}
    for spec in law.inputs:
        name, complement = names.get(spec.name, (spec.name, False))
        location = runs.location(name)
        if spec.name in drops:  # (n, K), computed from the schedules
            columns[spec.name] = Column(location, drops[spec.name], 1.0, 1.0, True, spec)
            continue
        series, unit = table[name], runs.units.get(name, runs.units.get(spec.name))
        # Rows of one size, mixture ratio or budget have equal numbers, however these were computed.
        if spec.levels:
            raw = level_codes(series, location, spec)
        else:
            raw = merged(numbers(series, location))
        declared = unit is not None
        if unit is None:
            # 1 where all counts of no declared unit may be numbers of single things.
            single = spec.unit != 1 and spec.counts
            for one in law.inputs if single else ():
                if one.counts and one.plausible and one.name in {*table} - {*runs.units}:
                    typical = np.nanmedian(numbers(table[one.name], runs.location(one.name)))
                    single = single and one.plausible[0] <= typical <= one.plausible[1]
            unit = 1.0 if single else spec.unit
        if spec.domain == "fraction" and not spec.mixture:  # of a mixture, the sum is checked
            share = fractions(raw if unit == 1.0 else raw * unit, location, series.index.to_numpy())
            share = 1.0 - share if complement else share
            raw = share if unit == 1.0 else share / unit
        columns[spec.name] = Column(
            location, raw, unit / spec.unit, unit, declared, spec, complement
        )
    where = runs.location(target)
    if (
        unit := runs.units.get(target, 1.0)
    ) != 1:  # of the input, such as the batch, of that column
        remedy = f"multiply the column by {unit:g} and leave it out of units"
        raise UsageError(f"{where}: law {law.name} predicts it, and units= is for inputs: {remedy}")
    positive = law.residuals == "log" or law.target == "loss"
    spec = Input(law.target, domain="positive" if positive else "real")
    columns[law.target] = Column(where, numbers(table[target], where), 1.0, 1.0, False, spec)
    return columns


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
            raise UsageError(
                f"{runs.source}: corpus='{runs.corpus}' is given, but column "
                f"{runs.user_name('r')} does not say whose ratio it is; map it as the domain's, "
                "columns={'r_d': …}, or the general corpus's, columns={'r_g': …}"
            )
        return plain, False
    if runs.corpus is None:
        raise UsageError(
            f"{runs.source}: {' and '.join(present)} need to know which corpus the loss is of; "
            "pass corpus='general' or corpus='domain', or use runs.for_corpus('general')"
        )
    own, other = sides if runs.corpus == "domain" else sides[::-1]
    # Of the mixture ratio the other's, where that alone is there or is mapped.
    is_own = plain != "r" or own in mapped or (own in present and other not in mapped)
    return (own, False) if is_own else (other, True)
