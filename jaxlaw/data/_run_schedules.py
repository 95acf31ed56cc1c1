"""The course of every run: which schedule it followed, and from which step on.

A row's step counts the updates done. Those up to ``first_step`` come before the schedule; a
schedule is declared, or taken from the rates a run logged. Where there are both they are compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import schedules as rates
from jaxlaw._tables import read_table
from jaxlaw.data._columns import Location, numbers
from jaxlaw.data._logged_rates import Fill, logged_schedule
from jaxlaw.data._row_areas import SAME, Batch, Phase, batch_of
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.schedules import Schedule

_MOST_STEPS = 2**53  # beyond it floats leave whole numbers out


@dataclass(frozen=True)
class Course:
    """What a run followed.

    Attributes:
        schedule: the rates.
        first_step: steps before the schedule: its step 1 is the run's step first_step + 1.
        S1_before: sum of the rates of the steps before.
        phase: which one a schedule without boundary is.
        batch: what an update of either phase counts as, in steps of a reference batch.
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

    def updates(self, steps: np.ndarray, phases: np.ndarray | None) -> np.ndarray:
        """Steps of the schedule done at rows (rows,); with ``phases``, each counts its own."""
        done = steps - self.first_step
        if phases is None or self.schedule.boundary is None:
            return done.astype(int)
        return np.where(phases == "cpt", steps + self.schedule.boundary, done).astype(int)


def as_schedule(given: Any, name: str | None = None) -> Schedule:
    """A Schedule, a line for :func:`jaxlaw.schedules.parse`, or (steps,) rates without a jump.

    Raises:
        UsageError: it is none of these; the message names the schedule.
    """
    whose = "" if name is None else f"schedule {name}: "
    if isinstance(given, Schedule):
        return given
    try:
        if isinstance(given, str):
            return rates.parse(given)
        values = np.asarray(given, float)
        first = float(values.flat[0]) if values.size else 0.0
        return Schedule(values, first, None, name or "rates")
    except UsageError as error:
        raise UsageError(f"{whose}{error}") from None
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{whose}give a Schedule, a line such as 'cosine:peak=3e-4,steps=24000', or an array "
            f"of rates, not {type(given).__name__}"
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
            found = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise DataError(f"{path}: not JSON ({error}); correct it") from None
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise DataError(f'{path}: give one object of lines: {{"name": "cosine:peak=…"}}')
    else:
        frame = read_table(path).frame
        if not {"name", "spec"} <= set(frame):
            raise DataError(
                f"{path}: a table of schedules has columns name and spec; it has "
                f"{', '.join(map(str, frame))}"
            )
        found = dict(zip(frame["name"].map(str), frame["spec"].map(str), strict=True))
    return {name: as_schedule(line, name) for name, line in found.items()}


def courses_of(
    every: pd.DataFrame,
    wanted: Collection[str],
    place: Location,
    schedules: Any,
    first_step: Any,
    S1_before: Any,
    fill: Fill | None,
    batch: Any = None,
) -> dict[str, Course]:
    """The course of some runs of a table with columns run and step, strings and numbers.

    Args:
        every: all rows of the source, those that are not wanted too.
        wanted: the runs whose courses are needed.
        place: the column of rates, for messages.
        schedules, first_step, S1_before, fill, batch: see :func:`jaxlaw.read_loss_curves`.

    Raises:
        UsageError: unknown names, a run without schedule, or an S1_before that is missing.
        DataError: logged rates that do not make a schedule.
    """
    if fill not in (None, "hold", "linear"):
        raise UsageError(f"fill is 'hold' or 'linear', not {fill!r}")
    groups = dict(list(every.groupby("run", sort=False)))
    named = _declared(schedules, every, groups)
    firsts = _per_run(first_step, "first_step", every, groups)
    befores = _per_run(S1_before, "S1_before", every, groups)
    if isinstance(batch, Mapping):
        batch = {str(name): value for name, value in batch.items()}
        for name in set(batch) - set(groups):
            raise UsageError(f"batch: there is no run '{name}'.{nearest(name, groups)}")
    found = {}
    for run in wanted:
        rows = groups[run]
        if run in named:
            course = Course(named[run], firsts[run] or 0)
        elif (log := logged_schedule(rows, place, run, fill, firsts[run])) is not None:
            course = Course(*log)
        else:
            continue
        if befores[run] is None and course.first_step > 0:
            raise UsageError(
                f"{place.source}: run {run}: its schedule begins after step {course.first_step}; "
                "pass S1_before, the sum of the rates up to there (about peak × steps / 2 for a "
                "linear warm-up)"
            )
        phase = _phase(rows, course, run, place.source)
        course = replace(course, S1_before=befores[run] or 0.0, phase=phase)
        found[run] = replace(course, batch=_batch(batch, run, rows, course, place))
    without = [run for run in wanted if run not in found]
    if without:
        raise UsageError(
            f"{place.source}: no schedule for run {', '.join(without[:5])}"
            + (f" and {len(without) - 5} more" if len(without) > 5 else "")
            + f"; pass schedules={{'{without[0]}': 'cosine:peak=…,steps=…'}}, or log the rate of "
            "every step in a column lr"
        )
    return found


def _declared(
    schedules: Any, every: pd.DataFrame, groups: Mapping[str, pd.DataFrame]
) -> dict[str, Schedule]:
    """Run → its declared schedule."""
    if schedules is None:
        schedules = _lines(every)
    if not isinstance(schedules, Mapping):
        return dict.fromkeys(groups, as_schedule(schedules))
    # Parsed once, so that runs of one schedule share it, and their areas are computed once.
    known = {str(name): as_schedule(one, str(name)) for name, one in schedules.items()}
    of_run = {run: run for run in groups}
    if "schedule" in every:
        of_run |= {
            run: str(rows["schedule"].iloc[0])
            for run, rows in groups.items()
            if run not in known and rows["schedule"].nunique(dropna=False) == 1
        }
    for name in known:
        if name not in groups and name not in of_run.values():
            names = dict.fromkeys([*groups, *of_run.values()])
            raise UsageError(
                f"schedules: '{name}' is neither a run nor a schedule of the table; there are "
                f"{', '.join(list(names)[:30])}.{nearest(name, names)}"
            )
    return {run: known[name] for run, name in of_run.items() if name in known}


def _lines(every: pd.DataFrame) -> dict[str, str]:
    """The lines that a column schedule holds itself, in place of names."""
    if "schedule" not in every:
        return {}
    found = every["schedule"].dropna().map(str).unique()
    return {line: line for line in found if ":" in line}


def _per_run(
    given: Any, argument: str, every: pd.DataFrame, groups: Mapping[str, pd.DataFrame]
) -> dict[str, Any]:
    """A number for every run, of one number, a dict by run, or a column."""
    if isinstance(given, str):
        if given not in every:
            raise DataError(
                f"{argument}: there is no column {given}; columns: "
                f"{', '.join(map(str, every))}.{nearest(given, map(str, every))}"
            )
        values = {run: rows[given].unique() for run, rows in groups.items()}
        for run, found in values.items():
            if len(found) > 1:
                raise DataError(
                    f"{argument}: column {given} has several values for run {run} ({found[0]}, "
                    f"{found[1]}); a run has one"
                )
        given = {run: found[0] for run, found in values.items()}
    if isinstance(given, Mapping):
        for name in given:
            if str(name) not in groups:
                raise UsageError(f"{argument}: there is no run '{name}'.{nearest(name, groups)}")
        by_run = {str(name): value for name, value in given.items()}
        return {run: _number(by_run.get(run), argument) for run in groups}
    return dict.fromkeys(groups, _number(given, argument))


def _number(value: Any, argument: str) -> Any:
    if value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = np.nan
    if argument == "first_step" and abs(found) < _MOST_STEPS and found == np.floor(found):
        return int(found)
    if argument == "first_step" or not 0 <= found < np.inf:
        kind = "a whole number of steps" if argument == "first_step" else "a sum of rates, ≥ 0"
        raise UsageError(f"{argument} is {kind}, not {value!r}")
    return found


def _phase(rows: pd.DataFrame, course: Course, run: str, source: str) -> Phase:
    if "phase" not in rows or course.schedule.boundary is not None:
        return "pt"
    phases = rows["phase"].unique()
    if len(phases) > 1:
        raise DataError(
            f"{source}: run {run} has rows of both phases, but its schedule has one; join them: "
            "schedules.join(first, second), or first+second in one line"
        )
    return phases[0]


def _batch(given: Any, run: str, rows: pd.DataFrame, course: Course, place: Location) -> Batch:
    """What updates of a run count as, of a number or pair, a dict of them by run, or a column."""
    alone = course.schedule.boundary is None
    if isinstance(given, Mapping):
        given = given.get(run)
    if not isinstance(given, str):
        return batch_of(given, alone)
    if given not in rows:
        raise DataError(
            f"batch: there is no column {given}; columns: {', '.join(map(str, rows))}."
            f"{nearest(given, map(str, rows))}"
        )
    own = Location(place.source, place.word, given, given)
    values, steps = numbers(rows[given], own), rows["step"].to_numpy()
    done = course.updates(steps, rows["phase"].to_numpy() if "phase" in rows else None)
    late = done > (course.schedule.boundary or (0 if course.phase == "cpt" else np.inf))
    both = []
    for phase in (~late, late):
        some = np.unique(values[phase]) if phase.any() else np.ones(1)
        if len(some) > 1:
            raise DataError(
                f"{own}: run {run}: {own.rows(rows.index[phase][:2])} …: {some[0]:g} and "
                f"{some[1]:g} in one phase; a phase has one batch"
            )
        both.append(some[0])
    return batch_of(both, False)


def updates(table: pd.DataFrame, courses: Mapping[str, Course]) -> np.ndarray:
    """Steps of its schedule done at each row, (rows,), of a table with columns run and step."""
    done = np.empty(len(table), int)
    steps, runs = table["step"].to_numpy(), table["run"].to_numpy()
    phases = table["phase"].to_numpy() if "phase" in table else None
    for run, course in courses.items():
        mine = runs == run
        done[mine] = course.updates(steps[mine], None if phases is None else phases[mine])
    return done
