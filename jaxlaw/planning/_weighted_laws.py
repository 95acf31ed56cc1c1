"""Plans by a forecast's weighted laws: what each law predicts alone, and what the choice costs.

A forecast goes into every plan as a bootstrap does, with draws that go from law to law. Here a plan
is made once more for each law alone, so that its answer says which law wants what, and what the
choice costs if that law is the true one (its regret).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE, exponential
from jaxlaw.errors import DataError
from jaxlaw.notes import Note
from jaxlaw.planning._answers import Answer
from jaxlaw.planning._constraints import AtMost
from jaxlaw.uncertainty import Draws, has_draws

_COUNTS = 0.01  # weight of a law below which it is not planned with alone
_TESTED = 0.9  # level from which intervals of the best size held what they say in trials
_AWAY = 2.0  # ratio of compute to that of the forecast's points from which a note says so


#: Answer, that of a law alone, and the plan's arguments with that law alone → columns of the table.
Regret = Callable[[Any, Any, dict[str, Any]], Mapping[str, Any]]


def relative_regret(there: float, best: float) -> float:
    """How far a loss lies above the lowest, relative; NaN where the lowest is no positive loss."""
    return there / best - 1 if 0 < best < math.inf else math.nan


def across_laws(regret: Regret | None = None) -> Callable[..., Any]:
    """Decorator of a plan that returns an Answer: ``laws`` of it, where it is given a forecast.

    Args:
        regret: cost of the answer by a law alone; None where it is unknown.
    """

    def decorate(plan: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(plan)

        @functools.wraps(plan)
        def run(*args: Any, **options: Any) -> Any:
            answer = plan(*args, **options)
            given = dict(signature.bind(*args, **options).arguments)
            every = list(_over_laws(given.values()))
            return _by_law(plan, regret, answer, given, every) if every else answer

        return run

    return decorate


def goes_over_laws(given: Any) -> bool:
    """Whether its draws go over several weighted laws, as those of a forecast do."""
    return has_draws(given) and bool(given.draws().by_law)


def _over_laws(values: Any) -> Iterator[Draws]:
    """The draws over weighted laws among a plan's arguments."""
    for value in values:
        if goes_over_laws(value):
            yield value.draws()
        elif isinstance(value, AtMost):
            yield from _over_laws([value.fit])
        elif isinstance(value, Mapping | list | tuple):
            yield from _over_laws(value.values() if isinstance(value, Mapping) else value)


def _alone(value: Any, law: str) -> Any:
    """An argument with that law in place of the weighted ones, where it is one of them."""
    if goes_over_laws(value):
        by_law = value.draws().by_law
        return by_law[law].draws if law in by_law else value
    if isinstance(value, AtMost):
        return dataclasses.replace(value, fit=_alone(value.fit, law))
    if isinstance(value, Mapping):
        return {name: _alone(item, law) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_alone(item, law) for item in value)
    return value


def _by_law(
    plan: Callable[..., Any], regret: Regret | None, answer: Answer, given: dict[str, Any],
    every: list[Draws],
) -> Answer:  # fmt: skip
    weights: dict[str, list[float]] = {}
    for draws in every:
        for label, (weight, _) in draws.by_law.items():
            weights.setdefault(label, []).append(weight)
    rows, notes = [], list(answer.notes)
    ordered = sorted(weights, key=lambda label: -np.mean(weights[label]))
    for label in ordered:
        row: dict[str, Any] = {"law": label, "weight": float(np.mean(weights[label]))}
        if row["weight"] >= _COUNTS:
            with_law = {name: _alone(value, label) for name, value in given.items()}
            try:
                alone = _called(plan, with_law)
                row |= alone.quantities
                row |= {} if regret is None else dict(regret(answer, alone, with_law))
                if math.isnan(row.get("regret", 0.0)):
                    message = f"{label} has no positive loss: leave it out of the forecast"
                    notes.append(Note("law-without-loss", "warning", message))
                notes += [
                    dataclasses.replace(note, message=f"{label} alone: {note.message}")
                    for note in alone.notes
                    if note.code == "optimum-at-tried"
                ]
            except DataError as error:
                notes.append(Note("law-without-answer", "warning", f"{label} alone: {error}"))
        rows.append(row)
    notes += [*_distance_notes(answer, every), *_level_notes(answer)]
    table = pd.DataFrame(rows)
    units = _units(table, every[0]) | answer.units
    return dataclasses.replace(answer, laws=table, notes=tuple(notes), units=units)


def _units(table: pd.DataFrame, draws: Draws) -> dict[str, tuple[str, float]]:
    """Units of the columns of laws beside the plan's own numbers."""
    of_loss = draws.fit.target_unit, 1.0
    there = {name: of_loss for name in map(str, table) if name.endswith("_there")}
    return there | dict.fromkeys(("weight", "regret"), (SHARE, 1.0))


def _called(plan: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The plan of bound arguments."""
    bound = inspect.signature(plan).bind_partial()
    bound.arguments.update(arguments)
    return plan(*bound.args, **bound.kwargs)


def _distance_notes(answer: Answer, every: list[Draws]) -> list[Note]:
    """Weights and errors are those of the forecast's points, and a plan may lie far from them."""
    compute = getattr(answer, "compute", math.nan)
    for draws in every:
        low, high = draws.computes
        if compute * _AWAY < low or high * _AWAY < compute < math.inf:
            span = " to ".join(dict.fromkeys(exponential(points) for points in (low, high)))
            return [Note(
                "away-from-forecast", "warning",
                f"the plan's run takes {exponential(compute)} FLOPs, the forecast's points {span}: "
                "weights of the laws and their common error are those of the points; make the "
                "forecast at such a run",
            )]  # fmt: skip
    return []


def _level_notes(answer: Answer) -> list[Note]:
    """Of the draws most are of the heaviest law: only outer levels hold the others' best sizes."""
    if "N" not in answer.interval or answer.level >= _TESTED:
        return []
    return [Note(
        "inner-level", "warning",
        f"the {answer.level:.0%} interval of the best size is too narrow: in trials those of 50% "
        "and 80% held 31% and 62%, those of 90% and 95% held 88% and 96% (benchmarks/forecast.md)",
    )]  # fmt: skip
