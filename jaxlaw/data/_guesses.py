"""Which columns, units and options were probably meant: for messages, never taken by itself."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jaxlaw._arrays import number_in
from jaxlaw._quantities import exponential, single_things
from jaxlaw.data._columns import INPUTS, OF_SCHEDULES, SIDES, USUAL, bare, has_loss, usual_units
from jaxlaw.errors import ColumnError, DataError, JaxlawError, listed
from jaxlaw.laws import Input, Law

if TYPE_CHECKING:
    from jaxlaw.data._runs import Runs

# What names of columns end in: tokens_B, params (millions), n_params_1e9.
_ENDINGS = {
    1e3: ("k", "thousand", "thousands", "1e3"),
    1e6: ("m", "mil", "million", "millions", "1e6"),
    1e9: ("b", "bn", "billion", "billions", "1e9", "g"),
    1e12: ("t", "trillion", "trillions", "1e12"),
}
_ALIKE = 0.75  # least likeness of names
_UNKNOWN = "…"  # column that nothing is guessed of


def without_columns(
    lacking: list[str], law: Law | None, table: pd.DataFrame, source: str, shown: Iterable[Any],
    misspelt: Mapping[str, Any] | None = None, declared: Iterable[str] = (),
) -> DataError:  # fmt: skip
    """The error on columns that a law needs and a table lacks, with a guess of each.

    Args:
        lacking: names of these columns.
        law: law that needs them; None where none is known.
        table: columns that may be meant.
        source: name of the table.
        shown: names of all its columns, as the user knows them.
        misspelt: name → the column that the call gives for it, and which is not there.
        declared: names whose units the call declares.
    """
    misspelt = misspelt or {}
    columns = _meant([*misspelt, *lacking], misspelt, table)
    guess = _guess(columns, table, law, declared)
    of_units = ", ".join(f"'{name}': {exponential(u)}" for name, u in guess["units"].items())
    words = f"columns={columns}" + f", units={{{of_units}}}" * bool(of_units)
    words += ", drop_invalid=True" * bool(guess["options"])
    lead = (
        "Perhaps, guessed from names and magnitudes" if guess["columns"] else "Say which they are"
    )
    texts = [f"{column} (for {name})" for name, column in misspelt.items()] + lacking
    there = "there is no column" if len(texts) == 1 else "there are no columns"
    needs = f", which law {law.name} needs" if law is not None and lacking else ""
    error = (ColumnError if misspelt else DataError)(
        f"{source}: {there} {', '.join(texts)}{needs}; columns: {listed([*shown])}. "
        f"{lead}: {words}",
        file=source,
        column=[*misspelt.values(), *lacking][0],
    )
    error.guess = guess | {"columns": columns} if guess["columns"] else None
    return error


def _guess(
    columns: Mapping[str, Any], table: pd.DataFrame, law: Law | None, declared: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """The columns that are guessed, their units, and an option where they have gaps."""
    guesses = {name: column for name, column in columns.items() if column != _UNKNOWN}
    open_ = {*guesses} - {*declared}
    specs = [spec for spec in law.inputs if spec.name in open_] if law is not None else []
    gaps = any(_numbers(table[column]).size < len(table) for column in guesses.values())
    options = {"drop_invalid": True} if gaps else {}
    return {"columns": guesses, "units": guessed_units(specs, guesses, table), "options": options}


def _meant(names: list[str], misspelt: Mapping[str, Any], table: pd.DataFrame) -> dict[str, Any]:
    """Name → the column that is spelt nearly so, or usually called so, or an ellipsis."""
    near: dict[str, Any] = {}
    for name, column in misspelt.items():
        free = [other for other in table if isinstance(other, str) and other not in near.values()]
        if close := difflib.get_close_matches(str(column), free, 1):
            near[name] = close[0]
    rest = [name for name in names if name not in near]
    usual = guessed_columns(rest, table.drop(columns=[*near.values()]))
    return {name: near.get(name, usual.get(name, _UNKNOWN)) for name in names}


def guessed_columns(names: Iterable[str], table: pd.DataFrame) -> dict[str, Any]:
    """Name → the column of numbers that it probably is, each column once; a part of the names.

    Names that usually stand for a quantity go first, then those nearly so.
    """
    free = [column for column in table if isinstance(column, str) and _numbers(table[column]).size]
    scores = [
        (max(_likeness(name, column), _begins(name, column, table)), -order, name, column)
        for name in names
        for order, column in enumerate(free)
    ]
    guesses: dict[str, Any] = {}
    for score, _, name, column in sorted(scores, reverse=True):
        if score >= _ALIKE and name not in guesses and column not in guesses.values():
            guesses[name] = column
    return {name: guesses[name] for name in names if name in guesses}


def compute_column(table: pd.DataFrame) -> Any:
    """The column of numbers that is called most like training compute; None without one."""
    numeric = pd.api.types.is_numeric_dtype
    named = {c: _likeness("C", c) for c in table if isinstance(c, str) and numeric(table[c].dtype)}
    best = "C" if "C" in named else max(named, key=lambda column: named[column], default=None)
    return best if named.get(best, 0.0) >= _ALIKE else None


def several_sizes(table: pd.DataFrame) -> tuple[Any, dict[Any, float]] | None:
    """The column that says which rows are of models of one size, where there are several sizes.

    It is one of numbers that is called like N, or one of names of models such as pythia-70m.

    Args:
        table: columns of a user.

    Returns:
        The column, and its cells in ascending order → the size that each says; None where there
        is no such column, or one size.
    """
    size = "N" if "N" in table else guessed_columns(["N"], table).get("N")
    named = [name for name in table if re.search("model|size", bare(str(name)))]
    for column in [size] if size is not None else named:
        cells = table[column].dropna().unique()
        sizes = {cell: _size_in(cell) for cell in cells}
        known = {cell: number for cell, number in sizes.items() if number is not None}
        if len(known) == len(cells) and len({*known.values()}) > 1:
            return column, dict(sorted(known.items(), key=lambda item: item[1]))
    return None


def _size_in(cell: Any) -> float | None:
    """A number, or that of the size in a name."""
    if not isinstance(cell, str):
        return float(cell) if isinstance(cell, int | float | np.number) else None
    said = re.search(r"(?<![a-z\d.])\d+(\.\d+)?[kmb](?![a-z\d])", cell, re.IGNORECASE)
    return number_in(cell) if said is None else single_things(said[0])


def condition_on(column: Any, value: Any) -> str:
    """The condition of ``where=`` that keeps rows of one value of a column."""
    value = value.item() if hasattr(value, "item") else value
    name, shown = str(column), f'"{value}"' if isinstance(value, str) else _plain(value)
    return f"{name if name.isidentifier() else f'`{name}`'} == {shown}"


def _plain(cell: Any) -> str:
    """A cell as people write it: 2800000000 in place of 2800000000.0."""
    short = f"{cell:.12g}" if isinstance(cell, float) else str(cell)
    return repr(cell) if isinstance(cell, float) and float(short) != cell else short


def guessed_units(specs: Iterable[Input], guesses: Mapping[str, Any], table: Any) -> dict[str, Any]:
    """Input → raw units per unit of its guessed column, where that is not the law's own."""
    units = {}
    for spec in specs:
        if spec.name not in guesses:
            continue
        values = _numbers(table[guesses[spec.name]])
        if spec.domain == "fraction" and 1 < values.max() <= 100:
            units[spec.name] = 0.01
        if spec.plausible is None or not pd.api.types.is_numeric_dtype(table[guesses[spec.name]]):
            continue
        low, high = spec.plausible
        middle, said = float(np.median(values)), _split_unit(guesses[spec.name])[1]
        fits = [
            u
            for u in (said, spec.unit, *usual_units(spec))
            if u is not None and low <= middle * u <= high
        ]
        if fits and fits[0] != spec.unit:
            units[spec.name] = fits[0]
    return units


def _numbers(column: pd.Series) -> np.ndarray:
    """The finite numbers of a column, those with a unit (7B) too."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return np.empty(0)
    if pd.api.types.is_numeric_dtype(column.dtype):
        values = column.to_numpy(dtype="float64", na_value=np.nan)
    else:
        cells = [re.sub(r"(?<=\d)\s*[kKmMbBtT]\b.*$", "", str(cell)) for cell in column]
        values = np.array([np.nan if (n := number_in(c)) is None else n for c in cells], float)
    return values[np.isfinite(values)]


def _split_unit(column: str) -> tuple[str, float | None]:
    """A name without the unit that it ends in, and that unit."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", column) if word]
    for unit, endings in _ENDINGS.items():
        if len(words) > 1 and words[-1].lower() in endings:
            return "".join(words[:-1]), unit
    return column, None


def _likeness(name: str, column: str) -> float:
    """How much a column's name is like those that usually stand for a quantity, 0 to 1."""
    own = bare(_split_unit(column)[0])
    usual = [bare(word) for word in USUAL.get(name, name).split()] + [bare(name)]
    if own in usual:
        return 1.0 - 0.001 * usual.index(own)
    if name.startswith(("loss", "cross")) and own.endswith("loss"):
        return 0.95
    longer = [word for word in usual if len(word) > 3]
    if any(word in own for word in longer):
        return 0.85
    return 0.9 * max((difflib.SequenceMatcher(None, own, w).ratio() for w in longer), default=0)


def _begins(name: str, column: str, table: pd.DataFrame) -> float:
    """The same of a column such as N_from_name, whose numbers may be such a quantity."""
    known = INPUTS.get(name)
    if known is None or known.plausible is None or column.split("_")[0] != name:
        return 0.0
    middle = float(np.median(_numbers(table[column]))) * (_split_unit(column)[1] or 1.0)
    return _ALIKE * (known.plausible[0] <= middle <= known.plausible[1])


# How loss curves were probably meant to be read.

_REPEATED = 0.05  # share of the rows of curves whose step may be that of another row
_CANDIDATES = 10  # columns among which those are looked for that name a curve
_SHOWN = 6  # values of a column that a message names
_LINE = "cosine:peak=PEAK,steps={},warmup=WARMUP"
# Options of a call in the order in which it is written.
_OPTIONS = ("where", "schedules", "fill", "corpus", "first_step", "S1_before")


def of_loss_curves(runs: Runs, law: Law, name: str) -> DataError:
    """The error on runs without ``name``, an area that a law of loss curves takes, and a call."""
    doc = next(spec.doc for spec in law.inputs if spec.name == name)
    shown = listed(map(runs.user_name, runs.table.columns))
    error = DataError(
        f"{runs.source}: there is no column {name}, which law {law.name} needs ({doc}); columns: "
        f"{shown}. It is computed from learning rates, by jl.read_loss_curves",
        file=runs.source,
        column=name,
    )
    where = None if runs.reading is None else runs.reading.where
    given = {"columns": dict(runs.columns), "units": dict(runs.units), "where": where}
    return with_guess(error, runs, given, law)


def with_guess(
    error: JaxlawError, runs: Runs, given: Mapping[str, Any], law: Law | None = None,
    misspelt: Iterable[str] = (),
) -> Any:  # fmt: skip
    """The error, with all that the reading of these curves lacks, and the call that has it.

    Args:
        error: the first thing that is wrong.
        runs: the rows that are kept, their columns named as far as the user named them.
        given: arguments of :func:`jaxlaw.read_loss_curves` that the user gave.
        law: law to be fitted, where that is known.
        misspelt: names for which the call gives columns that are not there.
    """
    guess = _CurveGuess(runs, {k: v for k, v in given.items() if v is not None}, law)
    if not guess.reasons:
        return error
    said = re.split(r"\.? (?:Perhaps|Say which)", str(error))[0].rstrip(".")
    error.args = (
        f"{said}. What reading these curves needs: {'; '.join(guess.reasons)}. "
        f"Perhaps, guessed from names and magnitudes: {guess.call()}",
    )
    columns = {
        name: ",".join(map(str, column)) if isinstance(column, list) else column
        for name, column in guess.columns.items()
    }
    columns |= {name: guess.own[name] for name in misspelt if name in guess.own}
    error.guess = {"columns": columns, "units": guess.units, "options": guess.options}
    return error


class _CurveGuess:
    """What a call of :func:`jaxlaw.read_loss_curves` may lack, and why.

    Made step by step, each on the rows that the steps before it leave: what the columns are called,
    which size and which of several losses are meant, which rows are one curve, and what the
    learning rates lack.
    """

    def __init__(self, runs: Runs, given: Mapping[str, Any], law: Law | None) -> None:
        self.runs, self.given, self.law, self.table = runs, given, law, runs.table
        self.columns: dict[str, Any] = {}
        self.units: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.reasons: list[str] = []
        self.own: dict[str, Any] = {}  # quantity → its column in the table, as far as there is one
        self._name_columns()
        # Rows of other metrics distinguish no curves.
        self.table = self.table[has_loss(self.table, [self.own.get("loss"), *SIDES["loss"]])]
        if "step" in self.own:
            self._choose_size()
            run = self._tell_curves_apart()
            self._choose_loss(run)
        else:
            run = []
        self._find_rates(run)

    def call(self) -> str:
        """The whole call in Python."""
        given = self.given
        units = {**given.get("units", {}), **self.units}
        options = {"columns": {**given.get("columns", {}), **self.columns}}
        options |= {"units": units} if units else {}
        options |= {name: given[name] for name in _OPTIONS if name in given} | self.options
        # In Python the column lr is read without being named.
        if options.get("schedules") == "lr" and "schedules" not in given:
            del options["schedules"]
        source = repr(self.runs.source) if Path(self.runs.source).suffix else "table"
        words = [source, *(f"{name}={value!r}" for name, value in options.items() if value != {})]
        call = f"jl.read_loss_curves({', '.join(words)})"
        return call if self.law is None else f"jl.fit('{self.law.name}', {call})"

    def _name_columns(self) -> None:
        """The columns of step, loss, rate and the law's other inputs."""
        law, needed = self.law, ["step", "loss", "lr"]
        if law is not None:
            others = [name for name in law.input_names if name not in OF_SCHEDULES]
            needed = ["step", law.target, "lr", *others]
        for name in needed:
            self._name_column(name)
        if "step" not in self.own:
            self._name_tokens()
        if law is not None:
            specs = [spec for spec in law.inputs if spec.name in self.columns]
            self.units |= guessed_units(specs, self.columns, self.table)

    def _name_column(self, name: str) -> None:
        if name in self.table or set(SIDES.get(name, ())) & {*self.table}:
            self.own[name] = name
            return
        free = self.table.drop(columns=[c for c in self.columns.values() if c in self.table])
        found = guessed_columns([name], free).get(name)
        if found is None and name == "loss":
            found = next((c for c in free if bare(str(c)).startswith("loss")), None)
        if found is not None:
            self.own[name] = self.columns[name] = found
            self.reasons.append(f"column {name}")

    def _name_tokens(self) -> None:
        """Steps are tokens over those of an update, which no table says."""
        reason = "column step, the updates done at each loss"
        self.columns["step"] = "…"
        if tokens := guessed_columns(["D"], self.table).get("D"):
            self.own["step"] = self.columns["step"] = tokens
            self.units["step"] = "1/BATCH"
            reason += f" ({tokens} over those of an update: units={{'step': 1/BATCH}})"
        self.reasons.append(reason)

    def _choose_size(self) -> None:
        """Rows of one size, where the law knows none."""
        if self.law is not None and "N" in self.law.input_names:
            return
        found = several_sizes(self.table)
        if found is None or not _tells_apart(self.table[found[0]]):
            return
        column, (*_, largest) = found
        if self.law is not None:
            self._choose(column, largest, f"one size: law {self.law.name} has no N")
            return
        name, sizes = self.runs.user_name(column), listed(map(_plain, found[1]), _SHOWN)
        one = condition_on(name, largest)
        self.reasons.append(f"{name} is {sizes}: a law without N is of one size, by where={one!r}")

    def _choose(self, column: Any, value: Any, reason: str) -> None:
        """Rows of one value of a column, which a condition keeps from now on."""
        cells, name = self.table[column], str(self.runs.user_name(column))
        values = listed(map(_plain, dict.fromkeys(cells.dropna())), _SHOWN)
        self.reasons.append(f"{reason}, and {name} is {values}")
        condition = condition_on(name, value)
        before = self.options.get("where", self.given.get("where"))
        self.options["where"] = f"({before}) and {condition}" if before else condition
        self.table = self.table[cells == value]

    @property
    def _free(self) -> list[Any]:
        """Columns that are nothing else."""
        return [column for column in self.table if column not in self.own.values()]

    def _tell_curves_apart(self) -> list[Any]:
        """The columns that name a curve, fewest first; none where all rows are one."""
        if "run" in self.table:
            return ["run"]
        # Without a column run the rows of one schedule are a curve.
        by_schedule = [name for name in [self.given.get("schedules")] if _has(name, self.table)]
        if by_schedule and self._increase(by_schedule):
            return by_schedule
        if self._increase([]):
            return []
        columns = self._columns_of_curves()
        reason = f"rows of one {' and '.join(map(str, columns))} are a curve"
        if not columns:
            columns, reason = self._nearly_a_curve()
        self.columns["run"] = columns[0] if len(columns) == 1 else columns or "…"
        self.reasons.append(f"column run: {reason}")
        return columns

    def _nearly_a_curve(self) -> tuple[list[Any], str]:
        """A column of texts by which steps increase but for few rows, and what to do about them."""
        texts = (c for c in self._free if not pd.api.types.is_numeric_dtype(self.table[c].dtype))
        single = self.table[~self.table.astype(str).duplicated()]  # cells may hold lists
        for column in filter(lambda c: _tells_apart(self.table[c]), texts):
            again = int((self._by([column], single).diff() <= 0).sum()) + len(self.table)
            again -= len(single)
            if (self._by([column], single).diff() <= 0).mean() <= _REPEATED:
                reason = f"rows of one {column} are a curve once those are taken out that repeat "
                return [column], f"{reason}a step ({again} of {len(self.table)})"
        return [], "nothing distinguishes curves"

    def _columns_of_curves(self) -> list[Any]:
        free = [column for column in self._free if _tells_apart(self.table[column])]
        # A column that usually names runs does so by itself: where it has several losses a step,
        # these are several losses of one run.
        if usual := [word for word in USUAL["run"].split() if word in free]:
            return usual[:1]
        numeric = pd.api.types.is_numeric_dtype
        free = sorted(free, key=lambda column: numeric(self.table[column].dtype))[:_CANDIDATES]
        several = (sorted(c, key=list(self.table).index) for count in (1, 2, 3)
                   for c in itertools.combinations(free, count))  # fmt: skip
        return next((columns for columns in several if self._increase(columns)), [])

    def _choose_loss(self, run: list[Any]) -> None:
        """One loss a step, where a column distinguishes several losses of one run."""
        if not run or self._increase(run):
            return
        numeric = pd.api.types.is_numeric_dtype
        texts = [column for column in self._free if not numeric(self.table[column].dtype)]
        for column in texts:
            if column not in run and self._increase([*run, column]):
                first = self.table[column].dropna().iloc[0]
                self._choose(column, first, "one loss a step: a run has several")
                return

    def _increase(self, columns: list[Any]) -> bool:
        """Whether steps increase from row to row of each curve."""
        return not (self._by(columns, self.table).diff() <= 0).any()

    def _by(self, columns: list[Any], rows: pd.DataFrame) -> Any:
        """The steps of rows, by curve."""
        steps = pd.to_numeric(rows[self.own["step"]], errors="coerce")
        return steps.groupby([rows[column] for column in columns] or (lambda _: 0))

    def _find_rates(self, run: list[Any]) -> None:
        """The learning rates, and what those that were logged lack."""
        declared = self.given.get("schedules")
        if declared is not None and not (isinstance(declared, str) and ":" not in declared):
            return
        if "lr" in self.own:
            if declared is None:
                self.options["schedules"] = "lr"
            if "step" in self.own and "phase" not in self.table:
                self._fill_rates(run)
        elif not _has(declared, self.table):
            known = "step" in self.own and "step" not in self.units
            last = f"{self.table[self.own['step']].max():.0f}" if known else "STEPS"
            self.options["schedules"] = _LINE.format(last)
            self.reasons.append(
                "learning rates, which no column has: declare the schedule of all runs by a line, "
                "or of each by its name (schedules={'RUN': line})"
            )

    def _fill_rates(self, run: list[Any]) -> None:
        """Rates of steps between two rows, and before the first row."""
        # A loss of evaluations is in rows without a rate: those of training have it.
        table = self.table if self.table[self.own["lr"]].notna().any() else self.runs.table
        rates = pd.to_numeric(table[self.own["lr"]], errors="coerce")
        steps, fill = self._by(run, table[np.isfinite(rates)]), self.given.get("fill")
        if fill is None and (steps.diff() > 1).any():
            self.options["fill"] = "linear"
            self.reasons.append("fill: rates are logged at some steps only")
        first = steps.first().max()
        if first > 1 and fill != "hold" and not {"first_step", "S1_before"} & {*self.given}:
            self.options |= {"fill": "linear", "first_step": 0}
            self.reasons.append(
                f"the rates before the first logged one (step {first:.0f}): first_step=0 takes a "
                "linear warm-up from 0 to it; S1_before= gives their sum"
            )


def _tells_apart(cells: pd.Series) -> bool:
    """Whether a column may name curves: it has several values, each of them in several rows."""
    try:
        return 1 < cells.nunique() <= len(cells) / 3
    except TypeError:  # of lists
        return False


def _has(name: Any, table: pd.DataFrame) -> bool:
    return isinstance(name, str) and name in table and name != "lr"
