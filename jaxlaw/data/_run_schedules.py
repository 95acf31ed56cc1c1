"""Which schedule a run followed, and from which step on: as declared, or as its log has the LRs.

A row's step counts the updates done. Those up to ``first_step`` come before the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw import schedules as shapes
from jaxlaw._arrays import real_numbers
from jaxlaw.data._columns import Location
from jaxlaw.data._row_areas import SAME, Batch, Phase
from jaxlaw.errors import UsageError
from jaxlaw.schedules import Schedule

Fill = Literal["hold", "linear"]
#: Largest difference of logged learning rates from a declared schedule, of its peak LR: three
#: digits.
_SAME_RATE = 5e-3


@dataclass(frozen=True)
class RunSchedule:
    """The schedule that a run followed.

    Attributes:
        schedule: the learning rates.
        first_step: number of steps before the schedule: its step 1 is the run's step
            first_step + 1.
        S1_before: sum of the learning rates of the steps before.
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

    def steps_done(self, rows: pd.DataFrame) -> np.ndarray:
        """(rows,) steps of the schedule done; in a column ``phase`` each phase counts its own."""
        steps, boundary = rows["step"].to_numpy(), self.schedule.boundary
        done = steps - self.first_step
        if "phase" in rows and boundary is not None:
            done = np.where(rows["phase"].to_numpy() == "cpt", steps + boundary, done)
        return done.astype(int)


def optimizer_steps(table: pd.DataFrame, run_schedules: Mapping[str, RunSchedule]) -> np.ndarray:
    """(rows,) steps of its schedule done at each row of a table with columns run and step."""
    done, runs = np.empty(len(table), int), table["run"].to_numpy()
    for run, run_schedule in run_schedules.items():
        of_run = runs == run
        done[of_run] = run_schedule.steps_done(table[of_run])
    return done


def as_schedule(source: Any, name: str = "schedule") -> Schedule:
    """A Schedule, a line for :func:`jaxlaw.schedules.parse`, or (steps,) LRs without a jump.

    Learning rates may be the column ``lr`` of a table, as that of
    :func:`jaxlaw.planning.optimal_schedule`.

    Raises:
        UsageError: it is none of these; the message names the schedule.
    """
    if isinstance(source, Schedule):
        return source
    if isinstance(source, str):
        return shapes.parse(source)
    try:
        rates = real_numbers(source["lr"] if "lr" in getattr(source, "columns", ()) else source)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{name}: give a Schedule, a line such as 'cosine:peak=3e-4,steps=24000', or an array "
            f"of learning rates, not {type(source).__name__}"
        ) from None
    return Schedule(rates, float(rates.flat[0]) if rates.size else 0.0, None, name)


def logged_schedule(
    log: pd.DataFrame, location: Location, run: str, fill: Fill | None, first_step: int | None
) -> RunSchedule | None:
    """The schedule of the learning rates a run logged; None where it logged none.

    A learning rate logged at step first_step is that before step 1 of the schedule; where there is
    none, the schedule begins without a jump. With first_step None, the schedule begins at the first
    learning rate that was logged; with first_step 0 and ``fill="linear"``, with a warm-up from 0 to
    it.
    """
    if "lr" not in log:
        return None
    rows = log[np.isfinite(log["lr"])]
    # Several losses at one step repeat its LR. To look for repeats takes longer than all other
    # reading of a log of ten million steps, and rows of steps that increase have none.
    if not (np.diff(rows["step"]) > 0).all():
        rows = rows[~rows.duplicated([name for name in ("phase", "step", "lr") if name in rows])]
    if not len(rows):
        return None
    phases = [rows]
    if "phase" in rows:
        phases = [part for name in ("pt", "cpt") if len(part := rows[rows["phase"] == name])]
    if first_step == 0 and fill == "linear" and phases[0]["step"].iloc[0] > 1:
        # The line that fills the first steps is a warm-up from 0.
        phases[0] = pd.concat([phases[0].iloc[:1].assign(step=0.0, lr=0.0), phases[0]])
    followed = _filled(phases[0], location, run, fill, first_step)
    if len(phases) == 1:
        return followed
    second = _filled(phases[1], location, run, fill, 0).schedule
    return RunSchedule(shapes.join(followed.schedule, second), followed.first_step)


def _filled(
    rows: pd.DataFrame, location: Location, run: str, fill: Fill | None, first: int | None
) -> RunSchedule:
    """The learning rates after step ``first`` (the step before the first logged if None)."""
    steps, logged = rows["step"].to_numpy(float), rows["lr"].to_numpy(float)
    at_row = partial(location.of_run, run, rows)
    gaps = np.diff(steps, prepend=steps[0] - 1)
    if (gaps <= 0).any():
        k = int(np.argmax(gaps <= 0))
        raise at_row(
            k,
            f"step {steps[k]:.0f} after {steps[k - 1]:.0f}; a run logs one LR per step, in order: "
            "correct these rows",
        )
    if fill is None and (gaps > 1).any():
        k = int(np.argmax(gaps > 1))
        raise at_row(
            k,
            f"no learning rate is logged at steps {steps[k - 1] + 1:.0f} to {steps[k] - 1:.0f} "
            "(rows excluded by where= do not count): pass fill='linear' (and first_step=0 for a "
            "warm-up from 0), fill='hold' for steps of constant learning rate, or schedule=",
        )
    # A learning rate is what the update of its step used, so that a gap ends with the step that is
    # logged.
    every = np.arange(steps[0], steps[-1] + 1)
    if fill == "hold":
        rates = logged[np.searchsorted(steps, every, side="right") - 1]
    else:
        rates = np.interp(every, steps, logged)
    first = max(int(steps[0]) - 1, 0) if first is None else first
    if steps[0] > first + 1:
        raise at_row(
            0,
            f"no LR is logged at steps {first + 1} to {steps[0] - 1:.0f}; pass first_step="
            f"{steps[0] - 1:.0f} and S1_before=, or a line, schedule=; with fill='linear' and "
            "first_step=0 they are a linear warm-up from 0",
        )
    before = first - int(steps[0]) + 1  # learning rates logged at steps up to `first`
    if before >= len(rates):
        raise at_row(-1, f"no learning rate is logged after step {first}")
    initial = rates[before - 1] if before else rates[0]
    return RunSchedule(Schedule(rates[before:], float(initial), None, f"log of {run}"), first)


def compare_rates(
    followed: RunSchedule, run: str, rows: pd.DataFrame, done: np.ndarray, location: Location
) -> None:
    """Refuse logged learning rates that are not those of the declared schedule.

    Args:
        followed: schedule of the run.
        run: its name.
        rows: its rows, with a column lr; NaN where there is none.
        done: (rows,) steps of the schedule done.
        location: the column of learning rates, for messages.

    Raises:
        DataError: a difference; names the first, and both LRs.
    """
    logged, schedule = rows["lr"].to_numpy(), followed.schedule
    use = np.isfinite(logged) & (done >= 1) & (done <= len(schedule))
    rows, done, logged = rows[use], done[use], logged[use]
    allowed, known = _SAME_RATE * schedule.rates.max(), schedule.rates[done - 1]
    # Trainers log the learning rate of the update done, or of the next.
    following = schedule.rates[np.minimum(done, len(schedule) - 1)]
    bad = np.minimum(np.abs(logged - known), np.abs(logged - following)) > allowed
    if not bad.any():
        return
    k = int(np.argmax(bad))
    raise location.of_run(
        run, rows, k,
        f"step {done[k] + followed.first_step} logged LR {logged[k]:.6g}, its schedule has "
        f"{known[k]:.6g} there ({int(bad.sum())} of {len(bad)} rows differ); check its kind, peak "
        "and steps, first_step= where its warm-up is before the log, and of a line warmup= (steps= "
        "includes it) and switch= (which counts from its end)",
    )  # fmt: skip
