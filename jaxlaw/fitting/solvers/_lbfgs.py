"""jaxopt's L-BFGS, one update a tick: the papers' method, and the last word on an optimum.

Two frames between what L-BFGS moves (z, unbounded) and the search box:

- ``_Box``: every coordinate is a sine over its range (as in MINUIT), for starts anywhere;
- ``_Whitened``: around a candidate, whitened by its Hessian, coordinates at a wall held there.
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlaw.fitting._objective import Problem, evaluate, rounding_floor, value_and_gradient
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting.solvers._newton import definite_inverse_root
from jaxlaw.fitting.solvers._status import (
    CONVERGED,
    NON_FINITE,
    PROMISE,
    RUNNING,
    STALLED,
    STEP_LIMIT,
)

MAXLS = 15  # evaluations of one line search
FLAT = 1e-20  # a whitened gradient that promises this share of the value is none
ALMOST = 1e-9  # … and one that promises less than this is followed at once, by a Newton step
NEAR = 1e-3  # of a coordinate: no such Newton step is longer
ENOUGH = 1e-4  # least share of what the slope promises that makes a step worth taking
SHORTEST = 1 / 16  # of a step: refused at this length, it counts as one without decrease
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
    length: Array  # share of L-BFGS's step tried next, near a candidate
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
    z = frame.inverse(start)
    memory = _zoom(model, problem, frame).init_state(z)
    return _begun(frame, z, memory, memory.value)


def init_near(model: Model, problem: Problem, candidate: Array) -> Lane:
    """A lane at a candidate optimum, in coordinates whitened by its Hessian.

    Where little is left to gain its first step, which is Newton's, is taken whatever the value
    there. The last steps change values by less than their rounding: without this one the order
    of the rows, or their units, shows in the tenth digit of predictions.
    """
    low, high, delta = problem.low, problem.high, problem.delta
    exact = jnp.ones_like(delta)  # as the batch solver asks: traced once for both
    _, found = evaluate(model, problem, candidate, delta, delta, exact)
    at_low = (candidate <= low) & (found.gradient >= 0)
    at_high = (candidate >= high) & (found.gradient <= 0)
    free = jnp.where(at_low | at_high, 0.0, 1.0)
    matrix = definite_inverse_root(found, free)
    frame = _Whitened(candidate, matrix, low, high)
    newton = -(matrix.T @ found.gradient)
    # Residuals all beyond Huber's threshold leave next to no curvature: a step out of sight.
    short = jnp.all(jnp.abs(matrix @ newton) <= NEAR * (1 + jnp.abs(candidate)))
    little = short & (jnp.sum(newton**2) / 2 <= ALMOST * jnp.abs(found.value))
    z = jnp.zeros_like(candidate)
    memory = _method(lambda _: (found.value, matrix.T @ found.gradient)).init_state(z)
    # From an infinite value any step is taken.
    return _begun(frame, z, memory, jnp.where(little, jnp.inf, found.value))


def _begun(frame: Any, z: Array, memory: Any, value: Array) -> Lane:
    value, none = jnp.asarray(value, z.dtype), jnp.asarray(0, jnp.int32)
    status = jnp.where(jnp.isfinite(memory.value), RUNNING, NON_FINITE).astype(jnp.int32)
    whole = jnp.ones((), z.dtype)
    return Lane(frame.coordinates(z), value, z, frame, memory, whole, none, none, status)


def step(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """One update of jaxopt's L-BFGS, its line search included."""
    z, memory = _zoom(model, problem, lane.frame).update(lane.z, lane.memory)
    # Half the squared gradient says little of what is left to gain.
    return _moved(model, problem, settings, lane, z, memory, jnp.inf)


def step_near(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """One evaluation: a step of jaxopt's L-BFGS that gains enough is taken, another is halved.

    Whitened, the first length tried near an optimum is the right one, and the law stands in
    the program twice, for this step and for the Hessian, where a line search doubles that.
    """
    fun = partial(_value_and_gradient, model, problem, lane.frame)
    once = _method(fun, stepsize=lambda _: lane.length, jit=False)  # traced with what is around it
    z, memory = once.update(lane.z, lane.memory)
    before, move = lane.memory, z - lane.z
    slope = before.grad @ move
    down = (slope <= 0) & (memory.value <= before.value + ENOUGH * slope)
    first = jnp.isinf(lane.value) & jnp.isfinite(memory.value)
    taken = down | first | _flatter(memory, before, before.value)
    # A step along which the slope does not rise teaches nothing: all is forgotten.
    curved = move @ (memory.grad - before.grad) > 0
    memory = memory._replace(
        rho_history=jnp.where(curved, memory.rho_history, 0.0),
        gamma=jnp.where(curved, memory.gamma, 1.0),
    )
    z, memory = jax.tree.map(partial(jnp.where, taken), (z, memory), (lane.z, before))
    patient = ~taken & (lane.length > SHORTEST)
    found = _moved(model, problem, settings, lane, z, memory, jnp.sum(memory.grad**2) / 2, patient)
    return found._replace(length=jnp.where(taken, 1.0, lane.length / 2))


def _flatter(memory: Any, before: Any, value: Array) -> Array:
    """Whether values differ by rounding alone: then the flatter place is the better one."""
    level = memory.value <= value + 1e-15 * jnp.abs(value)
    return level & (jnp.sum(memory.grad**2) < jnp.sum(before.grad**2))


def _moved(
    model: Model, problem: Problem, settings: Settings, lane: Lane, z: Array, memory: Any,
    gain: Array | float, patient: Array | bool = False,
) -> Lane:  # fmt: skip
    """The lane at z, and whether it ends there.

    Args:
        model: what is fitted.
        problem: one problem.
        settings: tolerances.
        lane: as it was.
        z: (p,) where L-BFGS stands now.
        memory: its state there.
        gain: what is left to gain.
        patient: whether a step without decrease is not held against the lane.
    """
    value = jnp.asarray(memory.value, lane.value.dtype)
    better = (value < lane.value) | _flatter(memory, lane.memory, lane.value)
    noticeable = lane.value - value > settings.tolerance * jnp.abs(lane.value)
    quiet = jnp.where(noticeable, 0, jnp.where(patient, lane.quiet, lane.quiet + 1))
    ticks = lane.ticks + 1
    lost = ~jnp.all(jnp.isfinite(z))
    promised = jnp.maximum(PROMISE * jnp.abs(value), rounding_floor(model, problem))
    arrived = (gain <= FLAT * jnp.abs(value)) | (lane.value <= 0)
    status = jnp.where(ticks >= settings.max_ticks, STEP_LIMIT, RUNNING)
    over = jnp.where(gain <= promised, CONVERGED, STALLED)
    status = jnp.where((quiet >= settings.patience) | lost, over, status)
    status = jnp.where(arrived, CONVERGED, status).astype(jnp.int32)
    return lane._replace(
        coordinates=jnp.where(better, lane.frame.coordinates(z), lane.coordinates),
        value=jnp.where(better, value, lane.value),
        z=z,
        memory=memory,
        quiet=quiet,
        ticks=ticks,
        status=status,
    )


def _value_and_gradient(
    model: Model, problem: Problem, frame: Any, z: Array
) -> tuple[Array, Array]:
    at, pull_back = jax.vjp(frame.coordinates, z)
    value, gradient = value_and_gradient(model, problem, at)
    return value, pull_back(gradient)[0]


def _zoom(model: Model, problem: Problem, frame: Any) -> Any:
    fun = partial(_value_and_gradient, model, problem, frame)
    return _method(fun, linesearch="zoom", maxls=MAXLS)


def _method(fun: Any, **options: Any) -> Any:
    common = {"value_and_grad": True, "tol": 0.0, "implicit_diff": False, "unroll": False}
    return jaxopt().LBFGS(fun, **common, **options)


@cache
def jaxopt() -> Any:
    """The package, when a fit needs it: with scipy it is a quarter of the start of a command.

    To be called first where no other thread runs: filters of warnings are the process's.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="JAXopt is no longer maintained")
        return importlib.import_module("jaxopt")
