"""A fitted law over the steps of a schedule, taken apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jaxlaw.data._drops import drops_along
from jaxlaw.data._row_areas import AREAS, areas_along, batch_of, chosen_options, of_unknown_base
from jaxlaw.data._run_schedules import as_schedule
from jaxlaw.errors import UsageError
from jaxlaw.schedules import Schedule

if TYPE_CHECKING:
    from jaxlaw.fitting._result import Fit

# Without these coefficients nothing anneals, and nothing shifts; a law per drop shifts never.
_ANNEALING = ("C", "C1", "C2")
_SHIFT = ("B", "B_b")
_PER_DROP = ("B",)


def predict_curve(
    fit: Fit,
    schedule: Any,
    at: Any,
    first_step: int,
    S1_before: float,
    counted: Mapping[str, Any] | None,
    batch: Any,
    inputs: Mapping[str, Any],
) -> pd.DataFrame:
    """What :meth:`jaxlaw.Fit.predict_curve` returns; its docstring has the arguments."""
    schedule, law = as_schedule(schedule), fit.law
    wanted = [name for name in law.input_names if name in AREAS]
    if not wanted:
        raise UsageError(
            f"law {law.name} takes no areas of learning rates, so it predicts no curve; "
            f"use predict({', '.join(f'{name}=…' for name in law.input_names)})"
        )
    options = chosen_options(_options(fit, counted))
    steps, done = _steps(at, schedule, first_step)
    # A law of a base that nobody knows takes the areas of the continual phase alone.
    alone = "pt" if {"S1", "S1_pt"} & set(wanted) else "cpt"
    if alone == "cpt" and schedule.boundary is None:
        schedule = of_unknown_base(schedule)
    worth = batch_of(batch, schedule.boundary is None)
    found = areas_along(schedule, done, options, S1_before, alone, worth)
    areas = {name: found[name] / fit.units[name] for name in wanted}
    per_drop = any(spec.per_drop for spec in law.inputs)
    if per_drop:
        areas |= drops_along(schedule, done, options, worth)
    plain = without_shift(fit)
    target, unshifted = fit.predict(areas, **inputs), plain.predict(areas, **inputs)
    base = _without(plain, _PER_DROP if per_drop else _ANNEALING).predict(areas, **inputs)
    columns = {"step": steps, "lr": np.append(schedule.initial_lr, schedule.rates)[done]}
    if schedule.boundary is not None:
        columns["phase"] = np.where(done > schedule.boundary, "cpt", "pt")
    columns |= {law.target: target, "base": base, "annealing": unshifted - base}
    columns |= {"shift": target - unshifted, "outside": fit.outside(areas, **inputs)}
    return pd.DataFrame(columns)


def without_shift(fit: Fit) -> Fit:
    """The fit whose corpus never changed: its hidden pre-training curve (Wang 2025, eq. 2)."""
    return _without(fit, () if any(spec.per_drop for spec in fit.law.inputs) else _SHIFT)


def _options(fit: Fit, counted: Mapping[str, Any] | None) -> Mapping[str, Any]:
    known = fit.areas
    if known is not None and counted is not None:
        raise UsageError("this fit knows how its areas were counted; leave areas= out")
    if (found := known if counted is None else counted) is None:
        raise UsageError(
            "this fit does not know how its areas were counted; pass areas={'decay': 0.999}, or "
            "fit what jl.read_loss_curves returns"
        )
    return found


def _steps(at: Any, schedule: Schedule, first_step: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps as they are called, and counted from the schedule's beginning."""
    if at is None:
        done = np.arange(1, len(schedule) + 1)
        return done + int(first_step), done
    steps = np.atleast_1d(np.asarray(at, float))
    done = steps - first_step
    bad = ~((done == np.floor(done)) & (done >= 0) & (done <= len(schedule)))
    if steps.ndim != 1 or not len(steps) or bad.any():
        which = f"step {steps[bad][0]:g} is not one" if steps.ndim == 1 and bad.any() else "not so"
        raise UsageError(
            f"at has whole steps of the schedule, {first_step} to {first_step + len(schedule)}, "
            f"(points,): {which}"
        )
    return steps.astype(int), done.astype(int)


def _without(fit: Fit, coefficients: tuple[str, ...]) -> Fit:
    zero = {name: 0.0 for name in coefficients if name in fit.params}
    return dataclasses.replace(fit, params=fit.params | zero)
