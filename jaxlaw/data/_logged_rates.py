"""The learning rates a run logged: made a schedule, or compared with the one declared."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from jaxlaw.data._columns import Location, numbers
from jaxlaw.errors import DataError
from jaxlaw.schedules import Schedule, from_column, join

Fill = Literal["hold", "linear"]


def logged_schedule(
    rows: pd.DataFrame, place: Location, run: str, fill: Fill | None, first_step: int | None
) -> tuple[Schedule, int] | None:
    """The schedule of the rates a run logged; None where it logged none.

    Args:
        rows: of the run, with columns step, lr and maybe phase.
        place: the column of rates.
        run: its name.
        fill: what steps between logged ones had.
        first_step: steps before the schedule; the one before the first logged if None.

    Returns:
        The schedule and its first_step. A rate logged at step first_step is that before its
        step 1; where there is none, the schedule begins without a jump.

    Raises:
        DataError: steps twice, out of order or missing.
    """
    if "lr" not in rows:
        return None
    rows = rows[np.isfinite(numbers(rows["lr"], place))]
    if not len(rows):
        return None
    # Rows of several losses at one step repeat its rate.
    rows = rows[~rows.duplicated([name for name in ("phase", "step", "lr") if name in rows])]
    parts = [rows]
    if "phase" in rows:
        parts = [part for name in ("pt", "cpt") if len(part := rows[rows["phase"] == name])]
    first, start = _filled(parts[0], place, run, fill, first_step or 0, first_step is None)
    if len(parts) == 1:
        return start, first
    _, second = _filled(parts[1], place, run, fill, 0, False)
    return join(start, second), first


def _filled(
    rows: pd.DataFrame, place: Location, run: str, fill: Fill | None, first: int, free: bool
) -> tuple[int, Schedule]:
    """The rates after step ``first`` (where ``free``, the step before the first logged)."""
    steps = rows["step"].to_numpy(float)
    again = np.flatnonzero(np.diff(steps) <= 0)
    if len(again):
        labels = rows.index[again[0] : again[0] + 2]
        raise DataError(
            f"{place}: run {run}: {place.rows(labels)}: step {steps[again[0] + 1]:.0f} after "
            f"{steps[again[0]]:.0f}; a run logs one rate a step, in order: correct these rows"
        )
    first = max(int(steps[0]) - 1, 0) if free else first
    if steps[0] > first + 1:
        raise DataError(
            f"{place}: run {run}: the rates of steps {first + 1} to {steps[0] - 1:.0f} are not "
            f"logged; pass first_step={steps[0] - 1:.0f} and S1_before, or declare a schedule"
        )
    gaps = np.flatnonzero(np.diff(steps) > 1)
    if len(gaps) and fill is None:
        low, high = steps[gaps[0]] + 1, steps[gaps[0] + 1] - 1
        more = f" and {len(gaps) - 1} more stretches" if len(gaps) > 1 else ""
        which = f"steps {low:.0f} to {high:.0f}" if high > low else f"step {low:.0f}"
        raise DataError(
            f"{place}: run {run}: no rate of {which}{more}; declare its schedule, "
            f"schedules={{'{run}': …}}, or pass fill='linear' (a line between) or fill='hold' "
            "(the rate logged last)"
        )
    log = from_column(np.column_stack([steps, rows["lr"]]), fill=fill)
    before = first - int(steps[0]) + 1  # rates logged at steps up to `first`
    if before >= len(log):
        raise DataError(f"{place}: run {run}: no rate is logged after step {first}")
    initial = log.rates[before - 1] if before else log.initial_lr
    return first, Schedule(log.rates[before:], float(initial), None, f"log of {run}")


def compare_rates(
    schedule: Schedule,
    first_step: int,
    run: str,
    done: np.ndarray,
    logged: np.ndarray,
    labels: np.ndarray,
    place: Location,
    tolerance: float,
) -> None:
    """Refuse logged rates that are not those of the declared schedule.

    Args:
        schedule, first_step: of the run.
        run: its name.
        done: (rows,) steps of the schedule done.
        logged: (rows,) rates; NaN where there is none.
        labels: (rows,) of the table.
        place: the column of rates.
        tolerance: largest difference, relative to the schedule's highest rate.

    Raises:
        DataError: a difference; names the first, both rates, and what may have happened.
    """
    use = np.isfinite(logged) & (done >= 1) & (done <= len(schedule))
    done, logged, labels = done[use], logged[use], labels[use]
    allowed = tolerance * schedule.rates.max()
    bad = np.abs(logged - schedule.rates[done - 1]) > allowed
    if not bad.any():
        return
    at = int(np.argmax(bad))
    raise DataError(
        f"{place}: run {run}: {place.rows(labels[at : at + 1])}: step "
        f"{done[at] + first_step} logged rate {logged[at]:.6g}, its schedule has "
        f"{schedule.rates[done[at] - 1]:.6g} there ({int(bad.sum())} of {len(bad)} rows differ)"
        f"{_cause(schedule, done, logged, allowed)}"
    )


def _cause(schedule: Schedule, done: np.ndarray, logged: np.ndarray, allowed: float) -> str:
    declared, from_start = schedule.rates, np.append(schedule.initial_lr, schedule.rates)
    for shift in (1, -1):
        moved = from_start[(done + shift).clip(0, len(declared))]
        if (np.abs(logged - moved) <= allowed).all():
            return (
                f"; they agree one step {'later' if shift > 0 else 'earlier'}: the log counts from "
                f"another step, pass first_step one {'lower' if shift > 0 else 'higher'}"
            )
    known = declared[done - 1]
    factor = float(np.median(logged[known > 0] / known[known > 0])) if (known > 0).any() else 1.0
    if (np.abs(logged - factor * known) <= max(factor, 1.0) * allowed).all():
        return f"; the log is {factor:.4g} times the schedule everywhere: is its peak right?"
    if declared.argmax() == 0 and np.argmax(logged) > 0 and logged[0] < known[0]:
        return "; the log rises first: is a warm-up (warmup=) missing in the schedule?"
    if declared.argmax() > 0 and np.argmax(logged) == 0:
        return "; the schedule rises first, the log does not: has it no warm-up?"
    return "; check its kind, steps and rates"
