"""A damped Newton method for small Huber problems: one evaluation a tick, no inner loops.

Every lane keeps its own damping and its own Huber threshold. It starts with a large one, near
least squares, whose valley is wide, and tightens it each time it comes near the optimum,
until it stands at the problem's own δ; only there can it end. Negative curvature is turned
around in the factorisation, the search box is kept by projection.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw.fitting._objective import Evaluation, Problem, evaluate, rounding_floor, to_level
from jaxlaw.fitting._transform import Array, Model, linear_coordinates
from jaxlaw.fitting.solvers._status import (
    CONVERGED,
    NON_FINITE,
    PROMISE,
    RUNNING,
    STALLED,
    STEP_LIMIT,
)

SMOOTHING = 1.0  # first threshold, in the space of the residuals
TIGHTEN = 0.3  # factor on the threshold, once near the optimum at the present one
NEAR = 0.03  # near: the next step promises less than this share of the value
CALM = 1e-2  # … and is not small only because it is damped more than this
DAMPING = 1e-2  # first damping, relative to a unit diagonal
SOFTEST = 1e-9  # least curvature a refused step is taken to have met, of a unit diagonal
FLATTEST = 1e-6  # least curvature along a coordinate, of that if every residual were a square
TAKE = 1e-4  # least share of the promised decrease that makes a step worth taking
STEP = 3.0  # longest step in one coordinate the law is not linear in, or its starting range
PATIENCE = 12  # ticks in a row without decrease before a lane tightens all the same, or ends


class Settings(NamedTuple):
    """Tolerances, all dynamic.

    Attributes:
        tolerance: end where the expected decrease is below this share of the value.
        max_ticks: end after so many evaluations.
    """

    tolerance: Array | float = 1e-13
    max_ticks: Array | int = 300


class Lane(NamedTuple):
    """One start on its way."""

    coordinates: Array  # (p,) best accepted
    value: Array  # there, at the problem's own δ; infinite before the lane has come to it
    evaluation: Evaluation  # there, at the lane's threshold
    threshold: Array  # Huber threshold the lane works at
    trial: Array  # (p,) to be evaluated next
    expected: Array  # decrease the quadratic model promises for trial
    stiffness: Array  # curvature along the way to trial
    damping: Array
    quiet: Array  # ticks in a row without noticeable decrease
    ticks: Array
    status: Array


def init(model: Model, problem: Problem, start: Array) -> Lane:
    """A lane before its first evaluation.

    Args:
        model: what is fitted.
        problem: one problem.
        start: (p,) coordinates; they are brought to the level of the data first.
    """
    start = to_level(model, problem, start)
    size, kind = start.shape[0], start.dtype
    nothing = Evaluation(
        jnp.asarray(jnp.inf, kind),
        jnp.zeros(size, kind),
        jnp.zeros((size, size), kind),
        jnp.zeros(size, kind),
    )
    zero, one = jnp.asarray(0.0, kind), jnp.asarray(1.0, kind)
    none = jnp.asarray(0, jnp.int32)
    return Lane(
        coordinates=start,
        value=one * jnp.inf,
        evaluation=nothing,
        threshold=jnp.maximum(problem.delta, SMOOTHING).astype(kind),
        trial=start,
        expected=one,
        stiffness=zero,
        damping=DAMPING * one,
        quiet=none,
        ticks=none,
        status=none + RUNNING,
    )


def step(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """Evaluate the trial point, take it or not, propose the next one."""
    delta = problem.delta
    first = lane.ticks == 0
    smooth = lane.threshold > delta
    stuck = smooth & (lane.quiet > PATIENCE)  # nothing left to gain at this threshold
    near = ~first & (lane.expected <= NEAR * lane.evaluation.value) & (lane.damping <= CALM)
    near = near | stuck
    next_threshold = jnp.where(near, jnp.maximum(delta, TIGHTEN * lane.threshold), lane.threshold)
    trial = jnp.where(stuck, lane.coordinates, lane.trial)
    # Gauss–Newton, never indefinite, from afar; exact where the optimum is near.
    exact = (near | (next_threshold < SMOOTHING)).astype(lane.damping.dtype)
    current, found = evaluate(model, problem, trial, lane.threshold, next_threshold, exact)

    finite = jnp.isfinite(current) & jnp.all(jnp.isfinite(found.hessian))
    decrease = lane.evaluation.value - current
    ratio = jnp.where(lane.expected > 0, decrease / lane.expected, -1.0)
    # Where the threshold tightens the objective changes anyway; rounding must not hinder it.
    onward = near & smooth & (current <= 2.0 * lane.evaluation.value)
    taken = finite & (first | (ratio > TAKE) | onward)
    coordinates, evaluation, threshold = jax.tree.map(
        lambda new, old: jnp.where(taken, new, old),
        (trial, found, next_threshold),
        (lane.coordinates, lane.evaluation, lane.threshold),
    )
    damping = jnp.where(first | stuck, DAMPING, _damping(lane, taken, ratio))
    box = problem.low, problem.high, jnp.asarray(_reach(model), damping.dtype)
    trial, expected, stiffness = _propose(box, coordinates, evaluation, damping)

    final = threshold <= delta
    still = ~taken | (jnp.abs(decrease) <= settings.tolerance * jnp.abs(evaluation.value))
    quiet = jnp.where(still & ~stuck, lane.quiet + 1, 0)
    ticks = lane.ticks + 1
    undamped = expected * (1 + damping)  # a short step is no sign that there is little to gain
    arrived = (undamped >= 0) & (undamped <= settings.tolerance * evaluation.value)
    arrived = final & (arrived | (evaluation.value <= 0))
    promised = jnp.maximum(PROMISE * evaluation.value, rounding_floor(model, problem))
    over = jnp.where(undamped <= promised, CONVERGED, STALLED)
    status = jnp.where(ticks >= settings.max_ticks, STEP_LIMIT, RUNNING)
    status = jnp.where(final & (quiet > PATIENCE), over, status)
    status = jnp.where(first & ~finite, NON_FINITE, jnp.where(arrived, CONVERGED, status))
    return Lane(
        coordinates=coordinates,
        value=jnp.where(final, evaluation.value, jnp.inf),
        evaluation=evaluation,
        threshold=threshold,
        trial=trial,
        expected=expected,
        stiffness=stiffness,
        damping=damping,
        quiet=quiet,
        ticks=ticks,
        status=status.astype(jnp.int32),
    )


def _reach(model: Model) -> np.ndarray:
    """How far each coordinate (p,) may go in one step."""
    found, linear = [], linear_coordinates(model)
    for k, (spec, scale) in enumerate(zip(model.law.parameters, model.scales, strict=True)):
        charted = model.chart and spec.name in model.law.chart.low
        width = spec.start[1] - spec.start[0] if scale == "linear" and not charted else 0.0
        found.append(math.inf if k in linear else max(STEP, width))
    return np.array(found)


def _damping(lane: Lane, taken: Array, ratio: Array) -> Array:
    """Ease off slowly after good steps; after a refused one, damp at least its curvature."""
    eased = lane.damping * jnp.where(ratio > 0.75, 0.3, jnp.where(ratio > 0.25, 1.0, 4.0))
    raised = jnp.maximum(4.0 * lane.damping, 3.0 * lane.stiffness)
    return jnp.clip(jnp.where(taken, eased, raised), 1e-12, 1e12)


@partial(jax.jit, inline=True)  # traced once for all laws of so many parameters
def _propose(
    box: tuple[Array, Array, Array], at: Array, evaluation: Evaluation, damping: Array
) -> tuple[Array, Array, Array]:
    """The next trial point, kept in the box; the decrease expected; the curvature along it."""
    low, high, reach = box
    gradient, hessian = evaluation.gradient, evaluation.hessian
    root = _unit_scale(evaluation)
    scaled = hessian / (root[:, None] * root[None, :])

    at_low, at_high = at <= low, at >= high
    held = (at_low & (gradient >= 0)) | (at_high & (gradient <= 0))
    nowhere = jnp.zeros_like(at)

    def stopped(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        held, held_move, _ = carry
        free = jnp.where(held, 0.0, 1.0)
        matrix = scaled * (free[:, None] * free[None, :]) + jnp.diag(damping + (1.0 - free))
        pull = free * (gradient + hessian @ held_move) / root
        move = held_move - solve_definite(matrix, pull) / root
        wall = jnp.clip(at + move, low, high) - at
        crossing = ~held & (wall != move)
        return held | crossing, jnp.where(crossing, wall, held_move), move

    # What would leave the box stops at its wall, and the others are asked again.
    *_, move = jax.lax.fori_loop(0, 2, stopped, (held, nowhere, nowhere))
    longest = jnp.max(jnp.abs(move) / reach)
    move = move * jnp.minimum(1.0, 1.0 / jnp.maximum(longest, 1e-300))
    trial = jnp.clip(at + move, low, high)
    move = trial - at
    slope = -(gradient @ move)
    # Along negative curvature the quadratic model promises too little or too much.
    expected = jnp.maximum(slope - 0.5 * move @ (hessian @ move), 0.1 * slope)
    stiffness = slope / jnp.maximum(jnp.sum((root * move) ** 2), 1e-300)
    return trial, expected, jnp.maximum(stiffness, SOFTEST)


def solve_definite(matrix: Array, right: Array) -> Array:
    """Solve after making a symmetric matrix positive definite.

    Args:
        matrix: (p, p) symmetric, of unit scale.
        right: (p,).
    """
    pivots, lower = _factorise(matrix)
    size = len(right)

    def forwards(k: Array, right: Array) -> Array:
        return right - lower[:, k] * right[k]

    right = jax.lax.fori_loop(0, size - 1, forwards, right)
    return _solve_transposed(lower, right / pivots)


def definite_inverse_root(evaluation: Evaluation, free: Array) -> Array:
    """A matrix W with Wᵀ·H·W = 1 on the free coordinates and zero rows on the others.

    Args:
        evaluation: with the Hessian H, made positive definite where it is not.
        free: (p,) 1 for free, 0 for held coordinates.
    """
    root, hessian = _unit_scale(evaluation), evaluation.hessian
    matrix = hessian / (root[:, None] * root[None, :]) * (free[:, None] * free[None, :])
    pivots, lower = _factorise(matrix + jnp.diag(1.0 - free))
    return _solve_transposed(lower, jnp.diag(pivots**-0.5)) * (free / root)[:, None]


def _unit_scale(evaluation: Evaluation) -> Array:
    """Root of the diagonal: parameters of all sizes are treated alike."""
    diagonal = jnp.abs(jnp.diagonal(evaluation.hessian))
    return jnp.sqrt(jnp.maximum(diagonal, FLATTEST * evaluation.reach) + 1e-300)


def _factorise(matrix: Array) -> tuple[Array, Array]:
    """The LDLᵀ factorisation of Gill, Murray and Wright: pivots (p,), L (p, p) below its ones.

    Pivots are turned positive and raised just enough to keep the factors bounded, which
    changes nothing where the matrix is positive definite and gives a direction of descent
    where it is not. A loop over the pivots, for written out it compiles for longer than the
    law and its derivatives.
    """
    size = matrix.shape[0]
    off = jnp.where(jnp.eye(size, dtype=bool), 0.0, jnp.abs(matrix))
    bound = jnp.maximum(jnp.max(jnp.abs(jnp.diagonal(matrix))), jnp.max(off) / size) + 1e-300

    def eliminate(k: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        matrix, pivots, lower = carry
        column = jnp.where(jnp.arange(size) > k, matrix[:, k], 0.0)
        pivot = jnp.maximum(jnp.abs(matrix[k, k]), jnp.max(jnp.abs(column)) ** 2 / bound)
        pivot = jnp.maximum(pivot, 1e-14)
        factor = column / pivot
        matrix = matrix - factor[:, None] * column[None, :]
        return matrix, pivots.at[k].set(pivot), lower.at[:, k].set(factor)

    nothing = jnp.zeros_like(matrix)
    _, pivots, lower = jax.lax.fori_loop(0, size, eliminate, (matrix, nothing[0], nothing))
    return pivots, lower


def _solve_transposed(lower: Array, right: Array) -> Array:
    """Solve Lᵀ·x = right (p, …)."""
    size = len(right)

    def backwards(step: Array, right: Array) -> Array:
        k = size - 2 - step
        return right.at[k].add(-(lower[:, k] @ right))

    return jax.lax.fori_loop(0, size - 1, backwards, right)
