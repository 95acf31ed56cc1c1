"""jaxopt's L-BFGS, one update an iteration: the papers' method, and the polish of an optimum.

L-BFGS moves an unbounded vector z. One of two frames maps it to coordinates in the search box:

- ``_Box``: every coordinate is a sine over its range (as in MINUIT), for starts anywhere;
- ``_Whitened``: around a candidate, whitened by its Hessian, coordinates at a bound fixed there.
"""

from __future__ import annotations

import importlib
import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlaw.fitting._objective import Problem, evaluate, rounding_floor, value_and_gradient
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting.solvers._newton import PROMISE, Status, definite_inverse_root

MAXLS = 15  # evaluations of one line search
FLAT = 1e-20  # fraction of the value: a whitened gradient that expects to gain less is zero
ALMOST = 1e-9  # … and where less than this is to be gained, a Newton step is taken at once
NEAR = 1e-3  # of a coordinate: no such Newton step is longer
ENOUGH = 1e-4  # least fraction of the decrease along the slope that makes a step worth taking
SHORTEST = 1 / 16  # of a step: refused at this length, it counts as one without decrease
WIDE = 1e3  # half a range beyond which a coordinate is mapped from its lower bound


class Settings(NamedTuple):
    """Tolerances, all dynamic.

    Attributes:
        tolerance: fraction of the value: an update that decreases it by more makes progress.
        patience: updates in a row without progress after which a lane ends.
        max_iterations: largest number of updates.
    """

    tolerance: Array | float = 1e-14
    patience: Array | int = 20
    max_iterations: Array | int = 1000


class _Memory(NamedTuple):
    """jaxopt's state, in a class of our own: a kept program imports the classes of its results.

    Importing jaxopt takes as long as all the rest of a first fit whose programs are kept.
    """

    iter_num: Array
    value: Array
    grad: Array
    stepsize: Array
    error: Array
    s_history: Array
    y_history: Array
    rho_history: Array
    gamma: Array
    aux: None
    failed_linesearch: Array
    num_fun_eval: Array
    num_grad_eval: Array
    num_linesearch_iter: Array


class Lane(NamedTuple):
    """The state of one start."""

    coordinates: Array  # (p,) best so far
    value: Array  # objective there
    z: Array  # (p,) where L-BFGS stands, in its frame
    frame: Any
    memory: _Memory
    step_length: Array  # fraction of L-BFGS's step tried next, near a candidate
    n_without_progress: Array  # updates in a row without noticeable decrease
    iterations: Array
    status: Array


class _Box(NamedTuple):
    """Coordinates as sines over their ranges; a range of width zero stays where it is.

    Over a range wider than ``WIDE`` a sine is flat over most of it: there a root leads away
    from the lower bound (MINUIT's one-sided form), and the upper one is far off.
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
        above_low = jnp.maximum(at - self.low, 1e-3) + 1
        return jnp.where(half > WIDE, jnp.sqrt(above_low * above_low - 1), half * jnp.arcsin(share))


class _Whitened(NamedTuple):
    """Coordinates around a centre, by a matrix that makes the Hessian the identity."""

    centre: Array
    matrix: Array
    low: Array
    high: Array

    def coordinates(self, z: Array) -> Array:
        return jnp.clip(self.centre + self.matrix @ z, self.low, self.high)


def init(model: Model, problem: Problem, start: Array) -> Lane:
    """Make a lane anywhere in the box; starts at a bound are moved inside by a thousandth.

    Args:
        model: the law and its coordinates.
        problem: one problem.
        start: (p,) coordinates.
    """
    frame = _Box(problem.low, problem.high)
    z = frame.inverse(start)
    memory = _Memory(*_lbfgs(partial(_value_and_gradient, model, problem, frame)).init_state(z))
    return _new_lane(frame, z, memory, memory.value)


def init_near(model: Model, problem: Problem, candidate: Array) -> Lane:
    """Make a lane at a candidate optimum, in coordinates whitened by its Hessian.

    Whitened, L-BFGS's first step is Newton's. Where little is left to gain, that step is taken
    whatever the value after it: the last steps change values by less than their rounding, and
    without this one the order of the rows, or their units, shows in the tenth digit of
    predictions.
    """
    low, high, delta = problem.low, problem.high, problem.delta
    exact = jnp.ones_like(delta)  # as Newton's method calls it: traced once for both
    _, at_candidate = evaluate(model, problem, candidate, delta, delta, exact)
    at_low = (candidate <= low) & (at_candidate.gradient >= 0)
    at_high = (candidate >= high) & (at_candidate.gradient <= 0)
    free = jnp.where(at_low | at_high, 0.0, 1.0)
    matrix = definite_inverse_root(at_candidate, free)
    frame = _Whitened(candidate, matrix, low, high)
    newton = -(matrix.T @ at_candidate.gradient)
    # Where all residuals are beyond Huber's threshold next to no curvature is left, and the
    # Newton step would go far away: only a short one is taken blindly.
    short = jnp.all(jnp.abs(matrix @ newton) <= NEAR * (1 + jnp.abs(candidate)))
    blindly = short & (jnp.sum(newton**2) / 2 <= ALMOST * jnp.abs(at_candidate.value))
    z = jnp.zeros_like(candidate)
    known = at_candidate.value, matrix.T @ at_candidate.gradient
    memory = _Memory(*_lbfgs(lambda _: known).init_state(z))
    # From an infinite value any step is taken.
    return _new_lane(frame, z, memory, jnp.where(blindly, jnp.inf, at_candidate.value))


def _new_lane(frame, z: Array, memory: _Memory, value: Array) -> Lane:
    value, none = jnp.asarray(value, z.dtype), jnp.asarray(0, jnp.int32)
    finite = jnp.isfinite(memory.value)
    status = jnp.where(finite, Status.RUNNING, Status.NON_FINITE).astype(jnp.int32)
    whole = jnp.ones((), z.dtype)
    return Lane(frame.coordinates(z), value, z, frame, memory, whole, none, none, status)


def step(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """Make one update of jaxopt's L-BFGS, its line search included."""
    fun = partial(_value_and_gradient, model, problem, lane.frame)
    z, state = _lbfgs(fun, linesearch="zoom", maxls=MAXLS).update(lane.z, lane.memory)
    # In the box frame half the squared gradient says nothing of what is left to gain.
    return _updated(model, problem, settings, lane, z, _Memory(*state), jnp.inf)


def step_near(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """Evaluate once: a step of jaxopt's L-BFGS that gains enough is taken, another is halved.

    Whitened, the first length tried near an optimum is the right one. A line search inside the
    iteration would put the law into the program four times, where this and the Hessian put it
    there twice.
    """
    fun = partial(_value_and_gradient, model, problem, lane.frame)
    before = lane.memory
    # One step of the lane's length, without a line search; a part of this trace.
    once = _lbfgs(fun, stepsize=lambda _: lane.step_length, jit=False)
    z, state = once.update(lane.z, before)
    memory, move = _Memory(*state), z - lane.z
    # If sᵀy ≤ 0, skip the update and reset the L-BFGS memory.
    curved = move @ (memory.grad - before.grad) > 0
    memory = memory._replace(
        rho_history=jnp.where(curved, memory.rho_history, 0.0),
        gamma=jnp.where(curved, memory.gamma, 1.0),
    )
    slope = before.grad @ move
    decreases = (slope <= 0) & (memory.value <= before.value + ENOUGH * slope)
    first = jnp.isinf(lane.value) & jnp.isfinite(memory.value)
    taken = decreases | first | _flatter(memory, before, before.value)
    z, memory = jax.tree.map(partial(jnp.where, taken), (z, memory), (lane.z, before))
    halved = ~taken & (lane.step_length > SHORTEST)  # it will be tried again, shorter
    gain = jnp.sum(memory.grad**2) / 2  # of the Newton step, whitened
    updated = _updated(model, problem, settings, lane, z, memory, gain, halved)
    return updated._replace(step_length=jnp.where(taken, 1.0, lane.step_length / 2))


def _flatter(memory: _Memory, before: _Memory, value: Array) -> Array:
    """Whether values differ by rounding alone: then the point of smaller gradient is better."""
    equal = memory.value <= value + 1e-15 * jnp.abs(value)
    return equal & (jnp.sum(memory.grad**2) < jnp.sum(before.grad**2))


def _updated(
    model: Model, problem: Problem, settings: Settings, lane: Lane, z: Array, memory: _Memory,
    gain: Array | float, halved: Array | bool = False,
) -> Lane:  # fmt: skip
    """The lane at z, and whether it ends there.

    Args:
        model: the law and its coordinates.
        problem: one problem.
        settings: tolerances.
        lane: the lane before.
        z: (p,) where L-BFGS stands now.
        memory: L-BFGS's, there.
        gain: decrease expected of a further step.
        halved: whether the step was refused to be tried shorter, which is no lack of progress.
    """
    value = jnp.asarray(memory.value, lane.value.dtype)
    better = (value < lane.value) | _flatter(memory, lane.memory, lane.value)
    progress = lane.value - value > settings.tolerance * jnp.abs(lane.value)
    more = jnp.where(halved, lane.n_without_progress, lane.n_without_progress + 1)
    n_without_progress = jnp.where(progress, 0, more)
    iterations = lane.iterations + 1
    lost = ~jnp.all(jnp.isfinite(z))
    negligible = jnp.maximum(PROMISE * jnp.abs(value), rounding_floor(model, problem))
    stopped = jnp.where(gain <= negligible, Status.CONVERGED, Status.STALLED)
    converged = (gain <= FLAT * jnp.abs(value)) | (lane.value <= 0)
    too_many = iterations >= settings.max_iterations
    status = jnp.where(too_many, Status.STEP_LIMIT, Status.RUNNING)
    status = jnp.where((n_without_progress >= settings.patience) | lost, stopped, status)
    status = jnp.where(converged, Status.CONVERGED, status).astype(jnp.int32)
    return lane._replace(
        coordinates=jnp.where(better, lane.frame.coordinates(z), lane.coordinates),
        value=jnp.where(better, value, lane.value),
        z=z,
        memory=memory,
        n_without_progress=n_without_progress,
        iterations=iterations,
        status=status,
    )


def _value_and_gradient(model: Model, problem: Problem, frame, z: Array) -> tuple[Array, Array]:
    at, to_frame = jax.vjp(frame.coordinates, z)
    value, gradient = value_and_gradient(model, problem, at)
    return value, to_frame(gradient)[0]


def _lbfgs(fun, **options):
    """jaxopt's, imported when a program that uses it is traced.

    With scipy's optimisers it takes as long as all the rest of a fit whose programs are kept.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="JAXopt is no longer maintained")
        try:
            jaxopt = importlib.import_module("jaxopt")
        # What an unmaintained package raises under a later JAX is anyone's guess.
        except Exception as error:
            raise ImportError(f"jaxopt cannot be imported ({error})") from error
    common = {"value_and_grad": True, "tol": 0.0, "implicit_diff": False, "unroll": False}
    return jaxopt.LBFGS(fun, **common, **options)
