"""jaxopt's L-BFGS, one update a tick: the papers' method, and the last word on an optimum.

Two frames between what L-BFGS moves (z, unbounded) and the search box:

- ``_Box``: every coordinate is a sine over its range (as in MINUIT), for starts anywhere;
- ``_Whitened``: around a candidate, whitened by its Hessian, coordinates at a wall held there.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlaw.coordinates import Array, Model
from jaxlaw.objective import Problem, evaluate, rounding_floor, value_and_gradient
from jaxlaw.solvers.newton import definite_inverse_root
from jaxlaw.solvers.status import CONVERGED, NON_FINITE, PROMISE, RUNNING, STALLED, STEP_LIMIT

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="JAXopt is no longer maintained")
    import jaxopt


MAXLS = 15  # evaluations of one line search
FLAT = 1e-20  # a whitened gradient that promises this share of the value is none
ALMOST = 1e-9  # … and one that promises less than this is followed at once, by a Newton step
NEAR = 1e-3  # of a coordinate: no such Newton step is longer
WIDE = 1e3  # half a range beyond which a coordinate is taken from its lower wall


class Settings(NamedTuple):
    """Tolerances, all dynamic.

    Attributes:
        tolerance: an update decreases noticeably if by more than this share of the value.
        patience: end after so many updates in a row that do not.
        max_ticks: end after so many updates.
    """

    tolerance: Array | float = 1e-14
    patience: Array | int = 20
    max_ticks: Array | int = 1000


class Lane(NamedTuple):
    """One start on its way."""

    coordinates: Array  # (p,) best so far
    value: Array
    z: Array  # (p,) where L-BFGS stands, in its frame
    frame: Any
    memory: Any  # jaxopt's state
    quiet: Array
    ticks: Array
    status: Array


class _Box(NamedTuple):
    """Coordinates as sines over their ranges; a range of nothing stays put.

    Over a range wider than ``WIDE`` a sine would be flat for miles: there a root leads away
    from the lower wall (MINUIT's one-sided form), and the upper one is far off.
    """

    low: Array
    high: Array

    def coordinates(self, z: Array) -> Array:
        half = (self.high - self.low) / 2
        sine = self.low + half * (1 + jnp.sin(z / jnp.where(half > 0, half, 1.0)))
        root = jnp.minimum(self.low + jnp.sqrt(1 + z * z) - 1, self.high)
        return jnp.where(half > WIDE, root, sine)

    def inverse(self, at: Array) -> Array:
        half = (self.high - self.low) / 2
        share = jnp.clip((at - self.low) / jnp.where(half > 0, half, 1.0) - 1, -0.999, 0.999)
        away = jnp.maximum(at - self.low, 1e-3) + 1
        return jnp.where(half > WIDE, jnp.sqrt(away * away - 1), half * jnp.arcsin(share))


class _Whitened(NamedTuple):
    """Coordinates around a centre, by a matrix that makes the Hessian the identity."""

    centre: Array
    matrix: Array
    low: Array
    high: Array

    def coordinates(self, z: Array) -> Array:
        return jnp.clip(self.centre + self.matrix @ z, self.low, self.high)


def init(model: Model, problem: Problem, start: Array) -> Lane:
    """A lane anywhere in the box; starts at a wall are moved inside by a thousandth.

    Args:
        model: what is fitted.
        problem: one problem.
        start: (p,) coordinates.
    """
    frame = _Box(problem.low, problem.high)
    return _start(model, problem, frame, frame.inverse(start))


def init_near(model: Model, problem: Problem, candidate: Array) -> Lane:
    """A lane at a candidate optimum, in coordinates whitened by its Hessian.

    Where little is left to gain it begins one Newton step further. A line search compares
    values, and the last steps change them by less than their rounding: without this step the
    order of the rows, or their units, shows in the tenth digit of predictions.
    """
    _, found = evaluate(model, problem, candidate, problem.delta, problem.delta)
    low = (candidate <= problem.low) & (found.gradient >= 0)
    high = (candidate >= problem.high) & (found.gradient <= 0)
    free = jnp.where(low | high, 0.0, 1.0)
    matrix = definite_inverse_root(found, free)
    frame = _Whitened(candidate, matrix, problem.low, problem.high)
    newton = -(matrix.T @ found.gradient)
    # Residuals all beyond Huber's threshold leave next to no curvature: a step out of sight.
    short = jnp.all(jnp.abs(matrix @ newton) <= NEAR * (1 + jnp.abs(candidate)))
    little = short & (jnp.sum(newton**2) / 2 <= ALMOST * jnp.abs(found.value))
    return _start(model, problem, frame, jnp.where(little, newton, 0.0))


def _start(model: Model, problem: Problem, frame: Any, z: Array) -> Lane:
    memory = _method(model, type(frame)).init_state(z, frame, problem)
    at = frame.coordinates(z)
    value = jnp.asarray(memory.value, z.dtype)
    status = jnp.where(jnp.isfinite(value), RUNNING, NON_FINITE).astype(jnp.int32)
    zero = jnp.asarray(0, jnp.int32)
    return Lane(at, value, z, frame, memory, zero, zero, status)


def step(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """One update of jaxopt's L-BFGS, line search included."""
    z, memory = _method(model, type(lane.frame)).update(lane.z, lane.memory, lane.frame, problem)
    value = jnp.asarray(memory.value, lane.value.dtype)
    # Where values differ by rounding alone, the flatter place is the better one.
    flatter = jnp.sum(memory.grad**2) < jnp.sum(lane.memory.grad**2)
    level = value <= lane.value + 1e-15 * jnp.abs(lane.value)
    better = (value < lane.value) | (level & flatter)
    noticeable = lane.value - value > settings.tolerance * jnp.abs(lane.value)
    quiet = jnp.where(noticeable, 0, lane.quiet + 1)
    ticks = lane.ticks + 1
    lost = ~jnp.all(jnp.isfinite(z))
    # Whitened, half the squared gradient is what is left to gain; elsewhere it says little.
    gain = jnp.sum(memory.grad**2) / 2
    gain = gain if isinstance(lane.frame, _Whitened) else jnp.inf
    promised = jnp.maximum(PROMISE * jnp.abs(value), rounding_floor(model, problem))
    arrived = (gain <= FLAT * jnp.abs(value)) | (lane.value <= 0)
    status = jnp.where(ticks >= settings.max_ticks, STEP_LIMIT, RUNNING)
    over = jnp.where(gain <= promised, CONVERGED, STALLED)
    status = jnp.where((quiet >= settings.patience) | lost, over, status)
    status = jnp.where(arrived, CONVERGED, status).astype(jnp.int32)
    return Lane(
        jnp.where(better, lane.frame.coordinates(z), lane.coordinates),
        jnp.where(better, value, lane.value),
        z,
        lane.frame,
        memory,
        quiet,
        ticks,
        status,
    )


@cache
def _method(model: Model, frame_type: type) -> jaxopt.LBFGS:
    """The method for a model; frame and problem are its dynamic arguments.

    Near an optimum, whitened, the first step tried is the right one: backtracking is enough,
    and its program is a third of that of the zoom search.
    """

    def fun(z: Array, frame: Any, problem: Problem) -> tuple[Array, Array]:
        at, pull_back = jax.vjp(frame.coordinates, z)
        value, gradient = value_and_gradient(model, problem, at)
        return value, pull_back(gradient)[0]

    linesearch = "backtracking" if frame_type is _Whitened else "zoom"
    return jaxopt.LBFGS(
        fun,
        value_and_grad=True,
        tol=0.0,
        linesearch=linesearch,
        maxls=MAXLS,
        implicit_diff=False,
        unroll=False,
    )
