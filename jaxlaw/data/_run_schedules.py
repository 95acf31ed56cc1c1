"""Which schedule every run followed, and from which step on.

A row's step counts the updates done. Those up to ``first_step`` come before the schedule. A
schedule is declared, or made of the rates that a run logged; where there are both they are
compared.

Two tables go through this module: the rows that the user keeps, which say what a run is, and all
rows of the source, for the rows that ``where`` leaves out may hold more of the same run's log.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw import schedules as shapes
from jaxlaw._arrays import real_numbers
from jaxlaw._json import parse_json
from jaxlaw._tables import read_table
from jaxlaw.data._columns import Location, numbers
from jaxlaw.data._row_areas import SAME, Batch, Phase, relative_batch
from jaxlaw.errors import ColumnError, DataError, UsageError, listed, nearest
from jaxlaw.schedules import Schedule

Fill = Literal["hold", "linear"]
_MOST_STEPS = 2**53  # beyond it floats leave whole numbers out


@dataclass(frozen=True)
class RunSchedule:
    """The schedule that a run followed.

    Attributes:
        schedule: the rates.
        first_step: number of steps before the schedule: its step 1 is the run's step
            first_step + 1.
        S1_before: sum of the rates of the steps before.
        phase: the phase that a schedule without boundary is.
        batch: batch sizes of the phases relative to the reference batch.
    """

    schedule: Schedule
    first_step: int = 0
    S1_before: float = 0.0
    phase: Phase = "pt"
    batch: Batch = SAME

    @property
    def last_step(self) -> int:
        """The run's step at the end of its schedule."""
        return self.first_step + len(self.schedule)

    def optimizer_steps(self, steps: np.ndarray, phases: np.ndarray | None) -> np.ndarray:
        """Steps of the schedule done at rows (rows,); with ``phases``, each counts its own."""
        done = steps - self.first_step
        if phases is None or self.schedule.boundary is None:
            return done.astype(int)
        return np.where(phases == "cpt", steps + self.schedule.boundary, done).astype(int)


def optimizer_steps(table: pd.DataFrame, run_schedules: Mapping[str, RunSchedule]) -> np.ndarray:
    """(rows,) steps of its schedule done at each row of a table with columns run and step."""
    done = np.empty(len(table), int)
    steps, runs = table["step"].to_numpy(), table["run"].to_numpy()
    phases = table["phase"].to_numpy() if "phase" in table else None
    for run, run_schedule in run_schedules.items():
        of_run = runs == run
        done[of_run] = run_schedule.optimizer_steps(
            steps[of_run], None if phases is None else phases[of_run]
        )
    return done


def as_schedule(source: Any, name: str | None = None) -> Schedule:
    """A Schedule, a line for :func:`jaxlaw.schedules.parse`, or (steps,) rates without a jump.

    Rates may be the column ``lr`` of a table, as that of :func:`jaxlaw.planning.optimal_schedule`.

    Raises:
        UsageError: it is none of these; the message names the schedule.
    """
    whose = "" if name is None else f"schedule {name}: "
    if isinstance(source, Schedule):
        return source
    try:
        if isinstance(source, str):
            return shapes.parse(source)
        rates = real_numbers(source["lr"] if "lr" in getattr(source, "columns", ()) else source)
        first = float(rates.flat[0]) if rates.size else 0.0
        return Schedule(rates, first, None, name or "rates")
    except UsageError as error:
        raise UsageError(f"{whose}{error}") from None
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{whose}give a Schedule, a line such as 'cosine:peak=3e-4,steps=24000', or an array "
            f"of rates, not {type(source).__name__}"
        ) from None


def read_schedules(source: str | os.PathLike[str]) -> dict[str, Schedule]:
    """Schedules by name, from a file.

    Args:
        source: a JSON object, name → line for :func:`jaxlaw.schedules.parse`; or a table
            (CSV …) with columns ``name`` and ``spec``, where lines with commas are quoted.

    Raises:
        UsageError: no such file, or a line that is no schedule.
        DataError: the file is neither.
    """
    path = Path(source)
    if path.suffix.lower() == ".json" and path.is_file():
        try:
            lines = parse_json(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path}: not JSON ({error}); correct it", file=path) from None
        if not isinstance(lines, dict) or not all(isinstance(x, str) for x in lines.values()):
            message = f'{path}: give one object of lines: {{"name": "cosine:peak=…"}}'
            raise DataError(message, file=path)
    else:
        frame = read_table(path).frame
        if not {"name", "spec"} <= set(frame):
            raise DataError(
                f"{path}: a table of schedules has columns name and spec; it has {listed(frame)}",
                file=path,
            )
        lines = dict(zip(frame["name"].map(str), frame["spec"].map(str), strict=True))
    return {name: as_schedule(line, name) for name, line in lines.items()}


def run_schedules_of(
    kept: pd.DataFrame,
    every: pd.DataFrame,
    location: Location,
    schedules: Any,
    first_step: Any,
    S1_before: Any,
    fill: Fill | None,
    batch: Any = None,
) -> dict[str, RunSchedule]:
    """The schedules of the runs of a table with columns run and step, strings and numbers.

    Args:
        kept: the rows that the user keeps, whose runs need a schedule.
        every: all rows of the source.
        location: the column of rates, for messages.
        schedules, first_step, S1_before, fill, batch: see :func:`jaxlaw.read_loss_curves`.

    Raises:
        UsageError: unknown names, a run without schedule, or an S1_before that is missing.
        DataError: logged rates that do not make a schedule.
    """
    if fill not in (None, "hold", "linear"):
        message = f"fill is 'hold' or 'linear', not {fill!r}"
        raise UsageError(message, argument="fill", value=fill)
    runs, whole = (dict(list(table.groupby("run", sort=False))) for table in (kept, every))
    # Names are checked against all runs of the source: where= may leave a run out whose schedule
    # was declared, and that is no error.
    declared = _declared_schedules(schedules, runs, whole)
    firsts = _per_run(first_step, "first_step", runs, whole)
    befores = _per_run(S1_before, "S1_before", runs, whole)
    if isinstance(batch, Mapping):
        batch = _by_known_run(batch, "batch", whole)
    run_schedules = {}
    for run, rows in runs.items():
        # Two runs of one name, such as two sizes of which where= keeps one, are not one log.
        log, first = whole[run] if _is_one_log(whole[run]) else rows, firsts[run]
        # What the user declares goes before what was logged; compare_rates holds one against the
        # other later, where there are both.
        if run in declared:
            followed = RunSchedule(declared[run], first or 0)
        elif (logged := _logged_schedule(log, location, run, fill, first)) is not None:
            followed = RunSchedule(*logged)
        else:
            continue
        before = _sum_before(befores[run], followed, run, location.source)
        phase = _phase(rows, followed, run, location.source)
        followed = replace(followed, S1_before=before, phase=phase)
        run_schedules[run] = replace(followed, batch=_batch(batch, run, log, followed, location))
    _check_each_has_one(runs, run_schedules, location.source)
    return run_schedules


def _is_one_log(rows: pd.DataFrame) -> bool:
    """Whether rows may be the log of one run: in order of steps, with one rate a step."""
    by = "phase" if "phase" in rows else "run"
    steps = (_rates_of(rows) if "lr" in rows else rows).groupby(by)["step"].diff().dropna()
    return bool((steps > 0 if "lr" in rows else steps >= 0).all())


def _rates_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that log a rate, once where several losses at one step repeat it."""
    rows = rows[np.isfinite(rows["lr"])]
    # Rows of steps that increase repeat nothing. To look for repeats takes longer than all other
    # reading of a log of ten million steps, and grows faster than its length.
    if (np.diff(rows["step"]) > 0).all():
        return rows
    return rows[~rows.duplicated([name for name in ("phase", "step", "lr") if name in rows])]


def _sum_before(given: float | None, followed: RunSchedule, run: str, source: str) -> float:
    """S1 before a schedule's first step: 0 at step 0, and nothing that could be guessed later."""
    if given is None and followed.first_step > 0:
        raise UsageError(
            f"{source}: run {run}: its schedule begins after step {followed.first_step}; pass "
            "S1_before=, the sum of the rates up to there (about peak × steps / 2 for a linear "
            "warm-up)",
            file=source,
            argument="S1_before",
        )
    return given or 0.0


def _check_each_has_one(
    wanted: Collection[str], run_schedules: Mapping[str, RunSchedule], source: str
) -> None:
    without = [run for run in wanted if run not in run_schedules]
    if without:
        raise UsageError(
            f"{source}: no schedule for run {', '.join(without[:5])}"
            + (f" and {len(without) - 5} more" if len(without) > 5 else "")
            + f"; pass schedules={{'{without[0]}': 'cosine:peak=…,steps=…'}}, or log the rate of "
            "every step in a column lr",
            file=source,
            argument="schedules",
        )


def _by_known_run(
    values: Mapping[Any, Any], argument: str, groups: Mapping[str, pd.DataFrame]
) -> dict[str, Any]:
    """A dict by run, names as texts; raises UsageError where one is no run."""
    by_run = {str(name): value for name, value in values.items()}
    for name in by_run:
        if name not in groups:
            message = f"{argument}: there is no run '{name}'.{nearest(name, groups)}"
            raise UsageError(message, argument=argument, value=name)
    return by_run


def _declared_schedules(
    schedules: Any, runs: Mapping[str, pd.DataFrame], whole: Mapping[str, pd.DataFrame]
) -> dict[str, Schedule]:
    """Run → its declared schedule.

    Args:
        schedules: see :func:`jaxlaw.read_loss_curves`.
        runs: run → the rows that the user keeps.
        whole: run → all its rows, runs without kept rows too.
    """
    if schedules is None:
        schedules = _lines_in(runs)
    if not isinstance(schedules, Mapping):
        return dict.fromkeys(runs, as_schedule(schedules))
    # Parsed once, so that runs of one schedule share it, and their areas are computed once.
    known = {str(name): as_schedule(line, str(name)) for name, line in schedules.items()}
    of_run = {run: run for run in runs} | _named_schedules(
        {run: rows for run, rows in runs.items() if run not in known}
    )
    others = {run: rows for run, rows in whole.items() if run not in runs}
    names = dict.fromkeys([*whole, *of_run.values(), *_named_schedules(others).values()])
    for name in known:
        if name not in names:
            raise UsageError(
                f"schedules: '{name}' is neither a run nor a schedule of the table; there are "
                f"{listed(names)}.{nearest(name, names)}",
                argument="schedules",
                value=name,
            )
    return {run: known[name] for run, name in of_run.items() if name in known}


def _lines_in(runs: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """The lines that a column ``schedule`` holds itself, in place of names."""
    columns = [rows["schedule"].dropna().map(str) for rows in runs.values() if "schedule" in rows]
    return {line: line for cells in columns for line in cells.unique() if ":" in line}


def _named_schedules(runs: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Run → the one name that its column ``schedule`` has."""
    return {
        run: str(rows["schedule"].iloc[0])
        for run, rows in runs.items()
        if "schedule" in rows and rows["schedule"].nunique(dropna=False) == 1
    }


def _per_run(
    values: Any, argument: str, runs: Mapping[str, pd.DataFrame], known: Mapping[str, Any]
) -> dict[str, Any]:
    """A number for every run, from one number, a dict by run, or a column; ``known`` has names."""
    if isinstance(values, str):
        values = _of_column(values, argument, runs)
    elif isinstance(values, Mapping):
        values = _by_known_run(values, argument, known)
    if isinstance(values, Mapping):
        return {run: _number(values.get(run), argument) for run in runs}
    return dict.fromkeys(runs, _number(values, argument))


def _of_column(column: str, argument: str, runs: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Run → the one value that a column has in its rows."""
    by_run = {}
    for run, rows in runs.items():
        if column not in rows:
            raise _no_column(argument, column, rows)
        several = rows[column].unique()
        if len(several) > 1:
            raise DataError(
                f"{argument}: column {column} has several values for run {run} ({several[0]}, "
                f"{several[1]}); a run has one",
                argument=argument,
                column=column,
                row=rows.index[rows[column] == several[1]][0],
                value=several[1],
            )
        by_run[run] = several[0]
    return by_run


def _no_column(argument: str, column: str, table: pd.DataFrame) -> ColumnError:
    return ColumnError(
        f"{argument}: there is no column {column}; columns: {listed(table)}."
        f"{nearest(column, map(str, table))}",
        argument=argument,
        column=column,
    )


def _number(value: Any, argument: str) -> Any:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if argument == "first_step":
        if abs(number) < _MOST_STEPS and number == np.floor(number):
            return int(number)
        message = f"first_step is a whole number of steps, not {value!r}"
        raise UsageError(message, argument=argument, value=value)
    if not 0 <= number < np.inf:
        message = f"{argument} is a sum of rates, ≥ 0, not {value!r}"
        raise UsageError(message, argument=argument, value=value)
    return number


def _phase(rows: pd.DataFrame, run_schedule: RunSchedule, run: str, source: str) -> Phase:
    if "phase" not in rows or run_schedule.schedule.boundary is not None:
        return "pt"
    phases = rows["phase"].unique()
    if len(phases) > 1:
        raise DataError(
            f"{source}: run {run} has rows of both phases, but its schedule has one; join them: "
            "schedules.join(first, second), or first+second in one line",
            file=source,
            column="phase",
            row=rows.index[rows["phase"] != phases[0]][0],
            value=phases[1],
        )
    return phases[0]


def _batch(
    batch: Any, run: str, rows: pd.DataFrame, run_schedule: RunSchedule, location: Location
) -> Batch:
    """Relative batch sizes of a run, from a number or pair, a dict of them by run, or a column."""
    if isinstance(batch, Mapping):
        batch = batch.get(run)
    if not isinstance(batch, str):
        return relative_batch(batch, run_schedule.schedule.boundary is None)
    if batch not in rows:
        raise _no_column("batch", batch, rows)
    location = replace(location, column=batch, name=batch)
    values, steps = numbers(rows[batch], location), rows["step"].to_numpy()
    done = run_schedule.optimizer_steps(
        steps, rows["phase"].to_numpy() if "phase" in rows else None
    )
    late = done > (run_schedule.schedule.boundary or (0 if run_schedule.phase == "cpt" else np.inf))
    both = []
    for phase in (~late, late):
        distinct = np.unique(values[phase]) if phase.any() else np.ones(1)
        if len(distinct) > 1:
            raise location.error(
                f"{location}: run {run}: {location.rows(rows.index[phase][:2])} …: "
                f"{distinct[0]:g} and {distinct[1]:g} in one phase; a phase has one batch",
                rows.index[phase & (values == distinct[1])][0],
                distinct[1],
            )
        both.append(distinct[0])
    return relative_batch(both, False)


# ---------------------------------------------------------------- logged rates


def _logged_schedule(
    rows: pd.DataFrame, location: Location, run: str, fill: Fill | None, first_step: int | None
) -> tuple[Schedule, int] | None:
    """The schedule of the rates a run logged, and its first_step; None where it logged none.

    A rate logged at step first_step is that before step 1 of the schedule; where there is none,
    the schedule begins without a jump. With first_step None, the schedule begins at the first
    rate that was logged; with first_step 0 and ``fill="linear"``, with a warm-up from 0 to it.
    """
    if "lr" not in rows:
        return None
    rows = _rates_of(rows)
    if not len(rows):
        return None
    parts = [rows]
    if "phase" in rows:
        parts = [part for name in ("pt", "cpt") if len(part := rows[rows["phase"] == name])]
    if first_step == 0 and fill == "linear" and parts[0]["step"].iloc[0] > 1:
        # The line that fills the first steps is a warm-up from 0.
        zero = parts[0].iloc[:1].assign(step=0.0, lr=0.0)
        parts[0] = pd.concat([zero, parts[0]])
    first, start = _filled(parts[0], location, run, fill, first_step)
    if len(parts) == 1:
        return start, first
    _, second = _filled(parts[1], location, run, fill, 0)
    return shapes.join(start, second), first


def _filled(
    rows: pd.DataFrame, location: Location, run: str, fill: Fill | None, first: int | None
) -> tuple[int, Schedule]:
    """The rates after step ``first`` (the step before the first logged if None)."""
    steps = rows["step"].to_numpy(float)
    again = np.flatnonzero(np.diff(steps) <= 0)
    if len(again):
        labels = rows.index[again[0] : again[0] + 2]
        raise location.error(
            f"{location}: run {run}: {location.rows(labels)}: step {steps[again[0] + 1]:.0f} after "
            f"{steps[again[0]]:.0f}; a run logs one rate a step, in order: correct these rows",
            labels[1],
            rows["lr"].iloc[again[0] + 1],
        )
    first = max(int(steps[0]) - 1, 0) if first is None else first
    if steps[0] > first + 1:
        raise location.error(
            f"{location}: run {run}: the rates of steps {first + 1} to {steps[0] - 1:.0f} are not "
            f"logged; pass first_step={steps[0] - 1:.0f} and S1_before=, or declare a schedule; "
            "with fill='linear' and first_step=0 they are a linear warm-up from 0",
            rows.index[0],
        )
    gaps = np.flatnonzero(np.diff(steps) > 1)
    if len(gaps) and fill is None:
        low, high = steps[gaps[0]] + 1, steps[gaps[0] + 1] - 1
        more = f" and {len(gaps) - 1} more stretches" if len(gaps) > 1 else ""
        which = f"steps {low:.0f} to {high:.0f}" if high > low else f"step {low:.0f}"
        raise location.error(
            f"{location}: run {run}: no rate of {which}{more}; declare its schedule, "
            f"schedules={{'{run}': …}}, or pass fill='linear' (a line between) or fill='hold' "
            "(the rate logged last)",
            rows.index[gaps[0]],
        )
    log = shapes.from_column(np.column_stack([steps, rows["lr"]]), fill=fill)
    before = first - int(steps[0]) + 1  # rates logged at steps up to `first`
    if before >= len(log):
        raise location.error(
            f"{location}: run {run}: no rate is logged after step {first}", rows.index[-1]
        )
    initial = log.rates[before - 1] if before else log.initial_lr
    return first, Schedule(log.rates[before:], float(initial), None, f"log of {run}")


def compare_rates(
    run_schedule: RunSchedule,
    run: str,
    done: np.ndarray,
    logged: np.ndarray,
    labels: np.ndarray,
    location: Location,
    tolerance: float,
) -> None:
    """Refuse logged rates that are not those of the declared schedule.

    Args:
        own: schedule of the run.
        run: its name.
        done: (rows,) steps of the schedule done.
        logged: (rows,) rates; NaN where there is none.
        labels: (rows,) names of the rows in the table.
        location: the column of rates, for messages.
        tolerance: largest difference, relative to the schedule's highest rate.

    Raises:
        DataError: a difference; names the first, both rates, and the likely cause.
    """
    schedule = run_schedule.schedule
    use = np.isfinite(logged) & (done >= 1) & (done <= len(schedule))
    done, logged, labels = done[use], logged[use], labels[use]
    allowed = tolerance * schedule.rates.max()
    bad = np.abs(logged - schedule.rates[done - 1]) > allowed
    if not bad.any():
        return
    at = int(np.argmax(bad))
    raise location.error(
        f"{location}: run {run}: {location.rows(labels[at : at + 1])}: step "
        f"{done[at] + run_schedule.first_step} logged rate {logged[at]:.6g}, its schedule has "
        f"{schedule.rates[done[at] - 1]:.6g} there ({int(bad.sum())} of {len(bad)} rows differ)"
        f"{_likely_cause(schedule, done, logged, allowed)}",
        labels[at],
        logged[at],
    )


def _likely_cause(schedule: Schedule, done: np.ndarray, logged: np.ndarray, allowed: float) -> str:
    """The hypothesis, of those that users' logs have shown, under which all rates agree."""
    declared, from_start = schedule.rates, np.append(schedule.initial_lr, schedule.rates)
    for shift in (1, -1):
        moved = from_start[(done + shift).clip(0, len(declared))]
        if (np.abs(logged - moved) <= allowed).all():
            return (
                f"; they agree one step {'later' if shift > 0 else 'earlier'}: the log counts from "
                f"another step, pass a first_step= one {'lower' if shift > 0 else 'higher'}"
            )
    known = declared[done - 1]
    factor = float(np.median(logged[known > 0] / known[known > 0])) if (known > 0).any() else 1.0
    if (np.abs(logged - factor * known) <= max(factor, 1.0) * allowed).all():
        return f"; the log is {factor:.4g} times the schedule everywhere: is its peak right?"
    rise = int(declared.argmax()) + 1  # steps of a warm-up, where the first of the highest ends one
    for shift in (rise, rise + 1, rise - 1) if rise > 2 else ():
        if _agrees_later(from_start, done, logged, allowed, shift):
            switches = "two_stage" in schedule.name
            return (
                f"; the log agrees with the schedule {shift} steps later, which has a warm-up of "
                f"{rise}: "
                + (
                    "steps= includes the warm-up, switch= counts from its end, so lower switch= "
                    f"by {shift}"
                    if switches
                    else "if the steps of the log begin after the warm-up, leave warmup= out"
                )
            )
    if declared.argmax() == 0 and np.argmax(logged) > 0 and logged[0] < known[0]:
        return "; the log rises first: is a warm-up (warmup=) missing in the schedule?"
    if rise > 1 and np.argmax(logged) == 0 and logged[0] > known[0] + allowed:
        return (
            f"; the schedule rises over its first {rise} steps, the log begins at step "
            f"{done[0]} with {logged[0]:.4g}: has it no warm-up?"
        )
    return "; check its kind, steps and rates"


def _agrees_later(
    from_start: np.ndarray, done: np.ndarray, logged: np.ndarray, allowed: float, shift: int
) -> bool:
    """Whether a log, after a warm-up of ``shift`` steps, has the rates so many steps later."""
    inside = (done >= shift) & (done + shift < len(from_start))
    moved = from_start[done[inside] + shift]
    return inside.sum() > 1 and bool((np.abs(logged[inside] - moved) <= allowed).all())
