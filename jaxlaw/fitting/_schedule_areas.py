"""The areas of a learning rate schedule, counted as a fitted law's were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jaxlaw._arrays import numbers_of
from jaxlaw.data import (
    AREAS,
    area_options as options_of_areas,
    areas_along,
    as_schedule,
    drops_along,
    for_unknown_base,
    relative_batch,
)
from jaxlaw.errors import UsageError

if TYPE_CHECKING:
    from jaxlaw.fitting._fitted_law import FittedLaw


def areas_of_schedule(
    fitted: FittedLaw, schedule, at, *, first_step: int, S1_before: float,
    area_options: Mapping | None, batch,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:  # fmt: skip
    """Steps of a schedule (``step``, ``lr``, ``phase``), and the law's areas after them.

    Arguments and errors are those of :meth:`FittedLaw.predict_curve`; areas are in the fit's units.
    """
    schedule, law = as_schedule(schedule), fitted.law
    wanted = [name for name in law.input_names if name in AREAS]
    if not wanted:
        raise UsageError(
            f"law {law.name} takes no areas of learning rates, so it predicts no curve; "
            f"use predict({', '.join(f'{name}=…' for name in law.input_names)})"
        )
    if fitted.area_options is not None and area_options is not None:
        raise UsageError("this fit has area options of its own: leave area_options= out")
    if (given := fitted.area_options if area_options is None else area_options) is None:
        raise UsageError(
            "this fit has no area options: pass area_options={'decay': 0.999}, or fit what "
            "jl.read_loss_curves returns"
        )
    first, last = first_step, first_step + len(schedule)
    steps = np.atleast_1d(np.arange(first + 1, last + 1) if at is None else numbers_of("at", at))
    bad = ~((steps == np.floor(steps)) & (steps >= first) & (steps <= last))
    if steps.ndim != 1 or not len(steps) or bad.any():
        which = f"step {steps[bad][0]:g} is not one" if steps.ndim == 1 and bad.any() else "not so"
        raise UsageError(
            f"at has whole steps of the schedule, {first} to {last}, (points,): {which}"
        )
    steps = steps.astype(int)
    done, options = steps - int(first), options_of_areas(**given)
    # A law of an unknown base takes the areas of the continual phase alone.
    alone = "pt" if {"S1", "S1_pt"} & set(wanted) else "cpt"
    if alone == "cpt" and schedule.boundary is None:
        schedule = for_unknown_base(schedule)
    worth = relative_batch(batch, schedule.boundary is None)
    counted = areas_along(schedule, done, options, S1_before, alone, worth)
    areas = {name: counted[name] / fitted.units[name] for name in wanted}
    if law.inputs_per_drop:
        areas |= drops_along(schedule, done, options, worth)
    columns = {"step": steps, "lr": np.append(schedule.initial_lr, schedule.rates)[done]}
    if schedule.boundary is not None:
        columns["phase"] = np.where(done > schedule.boundary, "cpt", "pt")
    return columns, areas
