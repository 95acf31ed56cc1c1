"""A damped Newton method for small Huber problems: one evaluation an iteration, no inner loops.

Every lane keeps its own damping and its own Huber threshold. It starts with a large threshold,
near least squares, whose valley is wide, and tightens it each time it comes near the optimum,
until it stands at the problem's own δ; only there can it end. Negative curvature is turned
around in the factorisation, and the search box is kept by an active set of bounds.
"""

from __future__ import annotations

import math
from enum import IntEnum
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._devices import on_accelerator
from jaxlaw._jit import traced_once
from jaxlaw.fitting._objective import (
    Evaluation,
    Problem,
    evaluate,
    rescale_linear_coefficients,
    rounding_floor,
)
from jaxlaw.fitting._transform import Array, Model, linear_coordinates

FIRST_THRESHOLD = 1.0  # first Huber threshold, in the space of the residuals
TIGHTEN = 0.3  # factor on the threshold, once near the optimum at the present one
#: Of the largest residual: what a tightened threshold is at most. All thresholds above the largest
#: residual are one and the same objective, that of least squares, and a lane spent an iteration on
#: each of them: a sixth of those of chinchilla's resamples. Not below it, though: with 1 or 0.5
#: some lanes of dcpt-l2 left least squares too early, on its ridge, and ran into the limit.
OF_LARGEST = 2.0
NEAR = 0.03  # near: the next step is expected to gain less than this fraction of the value …
CALM = 1e-2  # … and is not small only because it is damped more than this
FIRST_DAMPING = 1e-2  # relative to a unit diagonal
LEAST_CURVATURE = 1e-9  # of a unit diagonal: what a refused step is taken to have met at least
FLATTEST = 1e-6  # least curvature along a coordinate, as a fraction of that of least squares
TAKE = 1e-4  # least fraction of the expected decrease that makes a step worth taking
MAX_STEP = 3.0  # longest step in a coordinate, unless its starting range is wider
WRITTEN_OUT = 16  # most parameters whose factorisation is written out for accelerators
PATIENCE = 12  # iterations in a row without progress before a lane tightens all the same, or ends
#: Progress is a gain of more than this fraction of the value, at thresholds above the problem's
#: own δ and at δ itself. There are lanes that creep along a ridge and gain 1e-12 an iteration, and
#: others whose steps are damped and gain 1e-5 at a threshold far above δ: of those of dcpt-l2's
#: general losses seven in ten ran into the limit of iterations.
SLOW, SLOW_AT_DELTA = 1e-3, 1e-10
#: A lane that goes no further has converged if it expects to gain less than this fraction of the
#: objective.
PROMISE = 1e-7


class Status(IntEnum):
    """How a lane ended; ``label`` is what results say, ``message`` what it means and what to do."""

    RUNNING = (0, "running", "The search is not over.")
    CONVERGED = (1, "converged", "The solver converged: a further step would gain next to nothing.")
    STEP_LIMIT = (
        2,
        "step limit",
        "The largest number of iterations was reached before an optimum: solve more starts "
        "(n_local), or fix a parameter that the data do not determine.",
    )
    NON_FINITE = (
        3,
        "non-finite",
        "The law is infinite or NaN at the start: check units, bounds and fixed values, and solve "
        "more starts (n_local).",
    )
    STALLED = (
        4,
        "stalled",
        "No step lowers the objective, although its gradient is not zero: solve more starts "
        "(n_local); the law may have a kink there, or lose precision.",
    )
    INVALID = (
        5,
        "invalid data",
        "Some target or input of positive weight is NaN, infinite or out of its domain, a weight "
        "is negative, or all are 0: correct them.",
    )

    label: str
    message: str

    def __new__(cls, value: int, label: str, message: str) -> Status:
        """A member that is a number, with its texts."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.label, member.message = label, message
        return member


class Settings(NamedTuple):
    """Tolerances, all dynamic.

    Attributes:
        tolerance: fraction of the value; a lane ends where it expects to gain less.
        max_iterations: largest number of evaluations.
    """

    tolerance: Array | float = 1e-13
    max_iterations: Array | int = 300


class Lane(NamedTuple):
    """The state of one start: the best point so far, and the point to be evaluated next."""

    coordinates: Array  # (p,) best point accepted so far
    value: Array  # objective there at the problem's own δ; infinite until the lane works at it
    evaluation: Evaluation  # there, at the lane's threshold
    threshold: Array  # Huber threshold the lane works at
    trial: Array  # (p,) point to be evaluated next
    expected_decrease: Array  # from coordinates to trial, by the quadratic model
    curvature_along_step: Array  # of the quadratic model, per unit length of the scaled step
    damping: Array
    n_without_progress: Array  # iterations in a row without noticeable decrease
    iterations: Array
    status: Array


def init(model: Model, problem: Problem, start: Array) -> Lane:
    """Make the lane of a start, before its first evaluation.

    Args:
        model: the law and its coordinates.
        problem: one problem.
        start: (p,) coordinates; the coefficients its law is linear in are rescaled first.
    """
    start = rescale_linear_coefficients(model, problem, start)
    size, kind = start.shape[0], start.dtype
    zero, none = jnp.asarray(0.0, kind), jnp.asarray(0, jnp.int32)
    infinite = jnp.asarray(jnp.inf, kind)
    vector = jnp.zeros(size, kind)
    return Lane(
        coordinates=start,
        value=infinite,
        evaluation=Evaluation(infinite, vector, jnp.zeros((size, size), kind), vector, zero),
        threshold=jnp.maximum(problem.delta, FIRST_THRESHOLD).astype(kind),
        trial=start,
        expected_decrease=zero + 1,
        curvature_along_step=zero,
        damping=zero + FIRST_DAMPING,
        n_without_progress=none,
        iterations=none,
        status=none + Status.RUNNING,
    )


def step(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """Evaluate the trial point, take it or refuse it, and propose the next one."""
    # 1. Which threshold. A lane tightens it where the quadratic model expects little more at the
    # present one, or where nothing has been gained for long ("stuck"). The trial point is
    # evaluated at both thresholds in one pass: the old one says whether the step was good, the
    # new one is what the next step is computed from.
    delta = problem.delta
    first = lane.iterations == 0
    smooth = lane.threshold > delta
    stuck = smooth & (lane.n_without_progress > PATIENCE)
    little_left = lane.expected_decrease <= NEAR * lane.evaluation.value
    near = (~first & little_left & (lane.damping <= CALM)) | stuck
    tighter = jnp.minimum(TIGHTEN * lane.threshold, OF_LARGEST * lane.evaluation.largest)
    next_threshold = jnp.where(near, jnp.maximum(delta, tighter), lane.threshold)
    trial = jnp.where(stuck, lane.coordinates, lane.trial)

    # 2. Evaluate. Far from the optimum by Gauss–Newton, whose Hessian is never indefinite; near
    # it with the law's second derivatives, for quadratic convergence.
    exact = (near | (next_threshold < FIRST_THRESHOLD)).astype(lane.damping.dtype)
    value, at_trial = evaluate(model, problem, trial, lane.threshold, next_threshold, exact)

    # 3. Take the step if it gained a fraction of what was expected. Where the threshold tightens,
    # the objective changes anyway, and rounding in the comparison must not hold the lane back.
    finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(at_trial.hessian))
    decrease = lane.evaluation.value - value
    ratio = jnp.where(lane.expected_decrease > 0, decrease / lane.expected_decrease, -1.0)
    tightens = near & smooth & (value <= 2.0 * lane.evaluation.value)
    taken = finite & (first | (ratio > TAKE) | tightens)
    coordinates, evaluation, threshold = jax.tree.map(
        lambda new, old: jnp.where(taken, new, old),
        (trial, at_trial, next_threshold),
        (lane.coordinates, lane.evaluation, lane.threshold),
    )

    # 4. Propose the next point, from the new point or, more damped, again from the old one. Good
    # steps ease the damping off slowly. A refused step has met more curvature than the quadratic
    # model has along it: multiplying a tiny damping by 4 would take many evaluations to notice;
    # three times the curvature along the step is on its scale at once.
    eased = lane.damping * jnp.where(ratio > 0.75, 0.3, jnp.where(ratio > 0.25, 1.0, 4.0))
    raised = jnp.maximum(4.0 * lane.damping, 3.0 * lane.curvature_along_step)
    damping = jnp.clip(jnp.where(taken, eased, raised), 1e-12, 1e12)
    damping = jnp.where(first | stuck, FIRST_DAMPING, damping)
    longest = jnp.asarray(max_step(model), damping.dtype)
    trial, expected, curvature = _propose(
        (problem.low, problem.high, longest), coordinates, evaluation, damping
    )

    # 5. End, at the problem's own δ only. Damping shortens steps, and a short step expects a
    # small decrease: that alone is no sign of an optimum, so it is multiplied back.
    final = threshold <= delta
    iterations = lane.iterations + 1
    least = jnp.where(smooth, SLOW, jnp.maximum(settings.tolerance, SLOW_AT_DELTA))
    still = ~taken | (jnp.abs(decrease) <= least * jnp.abs(evaluation.value))
    # A tighter threshold is another objective, at which nothing has been tried yet: what was spent
    # in vain at the one before does not count against it.
    anew = stuck | (threshold < lane.threshold)
    n_without_progress = jnp.where(still & ~anew, lane.n_without_progress + 1, 0)
    undamped = expected * (1 + damping)
    converged = (undamped >= 0) & (undamped <= settings.tolerance * evaluation.value)
    converged = final & (converged | (evaluation.value <= 0))
    negligible = jnp.maximum(PROMISE * evaluation.value, rounding_floor(model, problem))
    stopped = jnp.where(undamped <= negligible, Status.CONVERGED, Status.STALLED)
    too_many = iterations >= settings.max_iterations
    status = jnp.where(too_many, Status.STEP_LIMIT, Status.RUNNING)
    status = jnp.where(final & (n_without_progress > PATIENCE), stopped, status)
    status = jnp.where(converged, Status.CONVERGED, status)
    status = jnp.where(first & ~finite, Status.NON_FINITE, status)
    return Lane(
        coordinates=coordinates,
        value=jnp.where(final, evaluation.value, jnp.inf),
        evaluation=evaluation,
        threshold=threshold,
        trial=trial,
        expected_decrease=expected,
        curvature_along_step=curvature,
        damping=damping,
        n_without_progress=n_without_progress,
        iterations=iterations,
        status=status.astype(jnp.int32),
    )


def max_step(model: Model) -> np.ndarray:
    """How far each coordinate (p,) may go in one step; no limit where the law is linear in it."""
    limits, linear = [], linear_coordinates(model)
    for k, (spec, scale) in enumerate(zip(model.law.parameters, model.scales, strict=True)):
        charted = model.chart and spec.name in model.law.chart.low
        width = spec.start[1] - spec.start[0] if scale == "linear" and not charted else 0.0
        limits.append(math.inf if k in linear else max(MAX_STEP, width))
    return np.array(limits)


@traced_once()  # for all laws of so many parameters
def _propose(
    box: tuple[Array, Array, Array], at: Array, evaluation: Evaluation, damping: Array
) -> tuple[Array, Array, Array]:
    """The damped Newton step inside the box.

    Args:
        box: low (p,), high (p,) and the longest step (p,).
        at: (p,) where it begins.
        evaluation: value, gradient and Hessian there.
        damping: added to the diagonal of the scaled Hessian.

    Returns:
        The next trial point (p,), the decrease expected there, the curvature along the step.
    """
    low, high, longest = box
    gradient, hessian = evaluation.gradient, evaluation.hessian
    root = _unit_scale(evaluation)
    scaled = hessian / (root[:, None] * root[None, :])

    # Coordinates at a bound whose gradient points outwards stay there. Then, twice: solve for the
    # free ones; what would leave the box stops at its bound, and the others are solved again with
    # that move given. The matrix keeps its shape: rows and columns of bound coordinates become
    # those of the identity.
    at_low, at_high = at <= low, at >= high
    bound = (at_low & (gradient >= 0)) | (at_high & (gradient <= 0))
    nowhere = jnp.zeros_like(at)

    def bind(_, carry):
        bound, bound_move, _ = carry
        free = jnp.where(bound, 0.0, 1.0)
        matrix = scaled * (free[:, None] * free[None, :]) + jnp.diag(damping + (1.0 - free))
        right = free * (gradient + hessian @ bound_move) / root
        move = bound_move - solve_definite(matrix, right) / root
        inside = jnp.clip(at + move, low, high) - at
        leaves = ~bound & (inside != move)
        return bound | leaves, jnp.where(leaves, inside, bound_move), move

    *_, move = jax.lax.fori_loop(0, 2, bind, (bound, nowhere, nowhere))

    # No coordinate goes further than its longest step: the direction stays, the length shrinks.
    excess = jnp.max(jnp.abs(move) / longest)
    move = move * jnp.minimum(1.0, 1.0 / jnp.maximum(excess, 1e-300))
    trial = jnp.clip(at + move, low, high)
    move = trial - at
    slope = -(gradient @ move)
    # After the factorisation has turned curvature around, or a bound has cut the step, the model
    # may expect too little, even a rise. A tenth of the slope is expected at least, so that the
    # ratio of actual to expected decrease, and with it the damping, keeps its meaning.
    expected = jnp.maximum(slope - 0.5 * move @ (hessian @ move), 0.1 * slope)
    curvature = slope / jnp.maximum(jnp.sum((root * move) ** 2), 1e-300)
    return trial, expected, jnp.maximum(curvature, LEAST_CURVATURE)


def solve_definite(matrix: Array, right: Array) -> Array:
    """Solve a linear system after making its symmetric matrix positive definite.

    Args:
        matrix: (p, p) symmetric, of unit scale.
        right: (p,) right-hand side.

    Returns:
        The solution (p,).
    """
    size = len(right)
    if on_accelerator() and size <= WRITTEN_OUT:
        return _solve_written_out(matrix, right)
    pivots, lower, right = _factorise(matrix, right[:, None])
    return _solve_transposed(lower, right[:, 0] / pivots)


def _solve_written_out(matrix: Array, right: Array) -> Array:
    """The same as :func:`solve_definite`, number by number, for accelerators.

    Every step of a loop is a handful of kernels on a GPU, and a launch takes longer than their
    arithmetic: of the 360 kernels of an iteration of nine parameters 320 were these loops'.
    Written out, all is one kernel in which each thread solves the system of a lane. The barrier
    keeps it so: without it XLA computes all of it again for every element of the stacked result.
    """
    size = len(right)
    rows = [[matrix[i, j] for j in range(size)] for i in range(size)]
    values = [right[i] for i in range(size)]
    diagonal = [jnp.abs(rows[i][i]) for i in range(size)]
    others = [jnp.abs(rows[i][j]) for i in range(size) for j in range(i)]
    bound = reduce(jnp.maximum, [*diagonal, *(value / size for value in others)]) + 1e-300  # β²
    pivots = []
    for k in range(size):
        column = [rows[i][k] for i in range(k + 1, size)]
        largest = reduce(jnp.maximum, map(jnp.abs, column), 0.0)
        pivots.append(jnp.maximum(jnp.maximum(jnp.abs(rows[k][k]), largest**2 / bound), 1e-14))
        for i, entry in enumerate(column, k + 1):
            rows[i][k] = entry / pivots[k]  # of L
            values[i] -= rows[i][k] * values[k]
            for j in range(k + 1, i + 1):
                rows[i][j] -= rows[i][k] * column[j - k - 1]
    values = [value / pivot for value, pivot in zip(values, pivots, strict=True)]
    for k in reversed(range(size)):
        for i in range(k + 1, size):
            values[k] -= rows[i][k] * values[i]
    return jnp.stack(jax.lax.optimization_barrier(values))


def definite_inverse_root(evaluation: Evaluation, free: Array) -> Array:
    """A matrix W with Wᵀ·H·W = 1 on the free coordinates and zero rows on the others.

    Args:
        evaluation: evaluation with the Hessian H, made positive definite where it is not.
        free: (p,) 1 for free coordinates, 0 for those at a bound.
    """
    root, hessian = _unit_scale(evaluation), evaluation.hessian
    matrix = hessian / (root[:, None] * root[None, :]) * (free[:, None] * free[None, :])
    pivots, lower, _ = _factorise(matrix + jnp.diag(1.0 - free), matrix[:, :0])
    return _solve_transposed(lower, jnp.diag(pivots**-0.5)) * (free / root)[:, None]


def _unit_scale(evaluation: Evaluation) -> Array:
    """Root of the Hessian's diagonal (p,), which brings parameters of all sizes to one scale.

    Residuals beyond δ have no curvature. Where most are, the diagonal is next to zero and says
    nothing of the coordinate's scale: a fraction of what least squares would have is the least.
    """
    diagonal = jnp.abs(jnp.diagonal(evaluation.hessian))
    least = FLATTEST * evaluation.least_squares_diagonal
    return jnp.sqrt(jnp.maximum(diagonal, least) + 1e-300)


def _factorise(matrix: Array, right: Array) -> tuple[Array, Array, Array]:
    """The modified LDLᵀ factorisation of Gill, Murray and Wright (Practical Optimization, 4.4.2).

    Each pivot d_k becomes max(|d_k|, max_i |c_ik|² / β²) with c_k the column below it and
    β² = max(largest diagonal, largest off-diagonal / p). The absolute value turns negative
    curvature around, which makes −H⁻¹g a direction of descent; the second term bounds the
    entries of L·√D by β. A positive definite matrix is factorised as it is.

    A loop over the pivots: written out, it compiles for longer than the law and its derivatives.

    Returns:
        Pivots (p,); L (p, p) below its diagonal of ones, zero elsewhere; and L⁻¹·right (p, q),
        which the same loop finds.
    """
    size = matrix.shape[0]
    off_diagonal = jnp.where(jnp.eye(size, dtype=bool), 0.0, jnp.abs(matrix))
    largest = jnp.max(jnp.abs(jnp.diagonal(matrix)))
    bound = jnp.maximum(largest, jnp.max(off_diagonal) / size) + 1e-300  # β²

    # The right-hand side is a carry of its own: a derivative may be linear in it alone.
    def eliminate(k, carry):
        matrix, right, pivots, lower = carry
        column = jnp.where(jnp.arange(size) > k, matrix[:, k], 0.0)
        pivot = jnp.maximum(jnp.abs(matrix[k, k]), jnp.max(jnp.abs(column)) ** 2 / bound)
        pivot = jnp.maximum(pivot, 1e-14)
        factor = column / pivot
        matrix = matrix - factor[:, None] * column[None, :]
        right = right - factor[:, None] * right[k]
        return matrix, right, pivots.at[k].set(pivot), lower.at[:, k].set(factor)

    zeros = jnp.zeros_like(matrix)
    _, right, pivots, lower = jax.lax.fori_loop(
        0, size, eliminate, (matrix, right, zeros[0], zeros)
    )
    return pivots, lower, right


def _solve_transposed(lower: Array, right: Array) -> Array:
    """Solve Lᵀ·x = right (p, …)."""
    size = len(right)

    def backwards(step, right):
        k = size - 2 - step
        return right.at[k].add(-(lower[:, k] @ right))

    return jax.lax.fori_loop(0, size - 1, backwards, right)
