"""What a solver sees of a problem: its box as arrays, its law through functions alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from jaxlaw.fitting._objective import (
    Evaluation,
    Problem,
    evaluate,
    rounding_floor,
    value_and_gradient,
)
from jaxlaw.fitting._transform import Array, Model, linear_coordinates

STEP = 3.0  # longest step in one coordinate the law is not linear in, or its starting range


class Facts(NamedTuple):
    """What is known of a problem without its law, of one or with leading axes of many.

    Attributes:
        low, high: (p,) the search box.
        reach: (p,) how far each coordinate may go in one step.
        delta: Huber threshold.
        floor: objective below which there is nothing to tell apart.
    """

    low: Array
    high: Array
    reach: Array
    delta: Array
    floor: Array


class View(NamedTuple):
    """A problem, seen by a solver.

    Attributes:
        facts: what is known of it.
        evaluate: the law, asked with coordinates (p,), two thresholds and a curvature, see
            :func:`jaxlaw.fitting._objective.evaluate`.
        value_and_gradient: asked with coordinates; see there, too.
    """

    facts: Facts
    evaluate: Callable[..., tuple[Array, Evaluation]]
    value_and_gradient: Callable[[Array], tuple[Array, Array]]


def view(model: Model, problem: Problem) -> View:
    """Of a problem whose law is evaluated where it is asked for."""
    of_law = (partial(one, model, problem) for one in (evaluate, value_and_gradient))
    return View(facts_of(model, problem), *of_law)


def facts_of(model: Model, problem: Problem) -> Facts:
    """Of one problem, or of many with leading axes on their fields."""
    floor = rounding_floor(model, problem)
    return Facts(problem.low, problem.high, _reach(model), problem.delta, floor)


def _reach(model: Model) -> np.ndarray:
    found, linear = [], linear_coordinates(model)
    for k, (spec, scale) in enumerate(zip(model.law.parameters, model.scales, strict=True)):
        charted = model.chart and spec.name in model.law.chart.low
        width = spec.start[1] - spec.start[0] if scale == "linear" and not charted else 0.0
        found.append(math.inf if k in linear else max(STEP, width))
    return np.array(found)
