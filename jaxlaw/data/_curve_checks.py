"""What is refused of the steps and rates of loss curves, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw.data._columns import Location
from jaxlaw.data._logged_rates import compare_rates
from jaxlaw.data._run_schedules import Course, updates
from jaxlaw.data._runs import Runs
from jaxlaw.errors import DataError


def check_order(rows: Runs) -> None:
    """Refuse steps that do not increase, in a run or in a phase that counts its own.

    Raises:
        DataError: names both rows.
    """
    table, keys = rows.table, [name for name in ("run", "phase") if name in rows.table]
    for key, part in table.groupby(keys, sort=False):
        steps = part["step"].to_numpy()
        back = np.flatnonzero(np.diff(steps) <= 0)
        if not len(back):
            continue
        k = back[0]
        place = Location(rows.source, rows.word, rows.user_name("step"), "step")
        found = place.rows(part.index[k : k + 2])
        before, after = steps[k : k + 2]
        remedy = (
            "one curve has one loss a step: give each curve its own name in column run, and "
            "choose one of several losses with where="
            if after in steps[: k + 1]
            else "sort the rows, or give each curve its own name in column run"
        )
        raise DataError(f"{place}: run {key[0]}: {found}: step {after:.0f} after {before:.0f}; "
                        f"{remedy}")  # fmt: skip


def check_reach(rows: Runs, courses: Mapping[str, Course]) -> None:
    """Refuse rows outside their schedule.

    Raises:
        DataError: names the first, and what may be missing.
    """
    table, done = rows.table, updates(rows.table, courses)
    place = Location(rows.source, rows.word, rows.user_name("step"), "step")
    for run, course in courses.items():
        mine = (table["run"] == run).to_numpy()
        labels, steps, at = (one[mine] for one in (table.index, table["step"], done))
        early, late = at < 0, at > len(course.schedule)
        restarts = "phase" in table and course.schedule.boundary is not None
        if restarts:
            _check_restart(table[mine], place, run)
        if early.any():
            _refuse_step(place, run, labels, steps, early, f"before its schedule, which begins "
                         f"after step {course.first_step}; leave it out with where=")  # fmt: skip
        if late.any():
            hint = "; steps of phase cpt count from the boundary" if restarts else ""
            beyond = int(steps.max()) - len(course.schedule)
            if not restarts and course.first_step < beyond <= steps.iloc[0]:
                hint = (
                    "; does it leave out a warm-up before the log? Then pass first_step (such as "
                    f"{beyond}) and S1_before, or add warmup= to its line, whose steps count it"
                )
            _refuse_step(place, run, labels, steps, late, f"beyond its schedule, which ends at "
                         f"step {course.last_step}{hint}")  # fmt: skip


def _check_restart(part: pd.DataFrame, place: Location, run: str) -> None:
    first, second = (part.loc[part["phase"] == name, "step"] for name in ("pt", "cpt"))
    if len(first) and len(second) and second.min() > first.max():
        raise DataError(
            f"{place}: run {run}: {place.rows(second.index[:1])}: step {second.iloc[0]:.0f} of "
            "phase cpt goes on from those of pt; with a column phase its steps count from the "
            "boundary. Where steps count over both phases leave the column out: the schedule has "
            "the boundary"
        )


def _refuse_step(
    place: Location, run: str, labels: Any, steps: pd.Series, bad: np.ndarray, what: str
) -> None:
    found = f"step {steps.to_numpy()[bad][0]:.0f} lies {what}"
    raise DataError(f"{place}: run {run}: {place.rows(labels[bad][:1])}: {found}")


def check_rates(rows: Runs, courses: Mapping[str, Course], tolerance: float) -> None:
    """Refuse logged rates that are not those of a schedule, see :func:`compare_rates`."""
    table, done = rows.table, updates(rows.table, courses)
    place = Location(rows.source, rows.word, rows.user_name("lr"), "lr")
    for run, course in courses.items():
        mine = (table["run"] == run).to_numpy()
        compare_rates(
            course.schedule, course.first_step, run, done[mine],
            table["lr"].to_numpy()[mine], table.index[mine], place, tolerance,
        )  # fmt: skip
