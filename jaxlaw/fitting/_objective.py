"""The objective: a summed Huber loss of residuals, and its derivatives; steps without a group.

Everything here is for one lane: one start of one problem. The engine batches.

Solvers work on ``sum(Huber_δ) / min(δ, 1)``, reports show ``sum(Huber_δ)``. With δ = 1e-3
a point's gradient is at most 1e-3, so on the plain sum (worse, the mean) absolute
tolerances are met long before the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxlaw._cse import share_subexpressions
from jaxlaw._devices import on_accelerator
from jaxlaw._jit import traced_once
from jaxlaw.fitting._transform import Model, Transform, centred_inputs, linear_coordinates

Array = jax.Array

#: Stands for δ = ∞, least squares: no difference or product of it becomes NaN.
LARGEST_DELTA = 1e12
#: Relative difference of objectives that count as the same optimum.
AGREE = 1e-6
#: Rows that are evaluated at once, of a table of more than two such blocks. A lane's rows, slopes
#: and second derivatives of one block stay in the cache; and blocks behind the last row, with
#: which a table is padded, are never computed. Of dcpt's 540 rows, padded to 1,024, an evaluation
#: takes half the time; with blocks of 64 or 256 rows it takes longer.
BLOCK_OF_ROWS = 2**7


class Problem(NamedTuple):
    """The data and settings of one problem or, with leading axes on some leaves, of many.

    Attributes:
        inputs: name → (n,), in the law's own units.
        target: (n,), log target where ``residuals`` are of logarithms.
        weight: (n,), zero where a point is held out.
        low, high: (p,), search box in coordinates.
        delta: Huber threshold.
        asymmetry: factor on residuals of points below the curve.
        context: facts of the data for the law's chart and constraint.
        centre: input name → its geometric mean, see :mod:`jaxlaw.fitting._transform`.
        rows: number of rows, behind which all are of weight 0; None where that is not known, or
            where derivatives are taken backwards: a search then goes over all of them at once.
    """

    inputs: dict[str, Array]
    target: Array
    weight: Array
    low: Array
    high: Array
    delta: Array
    asymmetry: Array
    context: dict[str, Array]
    centre: dict[str, Array]
    rows: Array | None = None

    def transform(self, model: Model) -> Transform:
        """The way between search coordinates and natural parameters."""
        return Transform(model, self.centre, self.context)


class Evaluation(NamedTuple):
    """The scaled objective around one point.

    Attributes:
        value: the objective.
        gradient: (p,).
        hessian: (p, p).
        least_squares_diagonal: (p,) the Hessian's diagonal if no residual were beyond δ: how much
            all residuals move with a coordinate, in its own unit and whatever their size.
        largest: size of the largest residual of the rows that count.
    """

    value: Array
    gradient: Array
    hessian: Array
    least_squares_diagonal: Array
    largest: Array


def predict(model: Model, problem: Problem, coordinates) -> Array:
    """The law at every observation, (n,)."""
    return model.law(problem.transform(model).to_natural(coordinates), **problem.inputs)


def residual(residuals: str, problem: Problem, prediction: Array) -> Array:
    """Prediction minus target, of logarithms or not: positive for points below the curve."""
    transformed = jnp.log(prediction) if residuals == "log" else prediction
    return transformed - problem.target


def rescale_linear_coefficients(model: Model, problem: Problem, coordinates: Array) -> Array:
    """Start (p,) with the coefficients its law is linear in times one common factor.

    The factor is exp of the weighted mean of log target − log prediction; a start that is only
    too high or too low is no worse than its best multiple.
    """
    predicted = predict(model, problem, coordinates)
    target = problem.target if model.residuals == "log" else jnp.log(jnp.abs(problem.target))
    offset = jnp.sum(problem.weight * (target - jnp.log(predicted))) / jnp.sum(problem.weight)
    factor = jnp.where(jnp.isfinite(offset), jnp.exp(offset), 1.0)
    linear = np.isin(np.arange(len(model.scales)), linear_coordinates(model))
    free = problem.low < problem.high
    rescaled = jnp.where(linear & free, coordinates * factor, coordinates)
    return jnp.clip(rescaled, problem.low, problem.high)


def scale_of(delta: Array) -> Array:
    """What the summed Huber loss is divided by for the solvers; on the host for numpy's arrays."""
    return delta.clip(max=1.0)


def scale_on_host(problem: Problem) -> float:
    """:func:`scale_of` a problem whose δ is known, as a number: no program is made for it."""
    return float(scale_of(np.asarray(problem.delta)))


def rounding_floor(model: Model, problem: Problem) -> Array:
    """Scaled objective of relative residuals of 1e-9: smaller differences are rounding.

    Takes one problem, or many with leading axes on their fields; on the host numpy's arrays.
    """
    size = 1e-9
    if model.residuals != "log":
        size = size * abs(problem.target).mean(axis=-1)
    return problem.weight.sum(axis=-1) * size**2 / 2 / scale_of(problem.delta)


def huber_losses(difference, delta):
    """The Huber loss of each residual, of any shape, of numpy or of JAX; δ is finite."""
    within = difference.clip(-delta, delta)
    return within * (difference - within / 2)


def huber(problem: Problem, difference: Array, delta: Array) -> Array:
    """Summed, weighted Huber loss of residuals (n,)."""
    # Not optax's: its derivative is that of r²/2 plus δ less δ, of which at the δ of least squares
    # rounding leaves four digits in float64 and none in float32.
    losses = huber_losses(difference, delta)
    # A product with the weights, not a sum of products: XLA would compute the logarithm of the
    # residual inside the sum, one point at a time.
    return (_asymmetric(problem, difference) * losses) @ problem.weight


def _asymmetric(problem: Problem, difference: Array) -> Array:
    """Factor (n,) on the loss of each residual: positive ones may count more."""
    return jnp.where(difference > 0, problem.asymmetry, 1.0)


def _scaled_weight(problem: Problem, difference: Array) -> Array:
    """Weight of each point in the scaled objective, (n,)."""
    return problem.weight * _asymmetric(problem, difference) / scale_of(problem.delta)


def scaled_value(model: Model, problem: Problem, coordinates) -> Array:
    """What the solvers minimise, at coordinates (p,)."""
    difference = residual(model.residuals, problem, predict(model, problem, coordinates))
    return huber(problem, difference, problem.delta) / scale_of(problem.delta)


@traced_once(static_argnames="model")
def value_and_gradient(model: Model, problem: Problem, coordinates: Array) -> tuple[Array, Array]:
    """Scaled value and its gradient (p,), forwards: cheaper than backwards for few parameters."""

    def of_rows(problem, coordinates):
        _, predicted, slopes, difference = _around(model, problem, coordinates)
        score = _score(problem, difference, problem.delta)
        if model.residuals == "log":
            score = score / predicted
        value = huber(problem, difference, problem.delta) / scale_of(problem.delta)
        return value, stack_rows(slopes, len(score)) @ score

    of_rows = share_subexpressions(of_rows)
    shapes, joined = ((), coordinates.shape), (jnp.add, jnp.add)
    return _over_rows(of_rows, problem, (coordinates,), shapes, joined)


@traced_once(static_argnames="model")
def evaluate(
    model: Model,
    problem: Problem,
    coordinates: Array,
    delta: Array,
    next_delta: Array,
    curvature: Array | float = 1.0,
) -> tuple[Array, Evaluation]:
    """Evaluate the objective in one pass over the data: its value at δ, all else at the next δ.

    Derivatives are taken forwards, parameter by parameter, so that terms a parameter does not
    enter cost nothing; exponentials are shared by value, gradient and Hessian, which is exact.

    With ψ the slope of the Huber loss (the score), ψ' its slope, w the weights, r the residuals
    and J their Jacobian, the gradient is Jᵀ(w·ψ(r)) and the Hessian
    Jᵀ diag(w·ψ'(r)) J + Σ w·ψ(r)·∂²r, of which Gauss–Newton keeps the first part.

    Args:
        model: the law and its coordinates.
        problem: one problem.
        coordinates: (p,).
        delta: threshold of the returned value.
        next_delta: threshold of the returned :class:`Evaluation`.
        curvature: fraction of the law's own second derivatives in the Hessian: 1 is exact,
            0 is Gauss–Newton, which is never indefinite.

    Returns:
        The scaled value at ``delta``, and the evaluation at ``next_delta``; both on the
        scale of the problem's own δ.
    """

    def of_rows(problem, coordinates, delta, next_delta, curvature):
        prediction, predicted, slopes, difference = _around(model, problem, coordinates)
        inverse = 1.0 / predicted if model.residuals == "log" else 1.0
        jacobian = [slope * inverse for slope in slopes]  # p rows (n,)
        weight = _scaled_weight(problem, difference)
        score = _score(problem, difference, next_delta)
        first_order = weight * (jnp.abs(difference) <= next_delta)  # w·ψ': 0 beyond the threshold
        second_order = curvature * score
        if model.residuals == "log":
            # ∂²log f = ∂²f/f − ∂log f·∂log f: the last part has the form of the Gauss–Newton
            # product and joins it.
            first_order, second_order = first_order - second_order, second_order * inverse
        pairs = sorted(coupled_pairs(model))
        each = [_derivative(_derivative(prediction, i), j)(*coordinates) for i, j in pairs]
        seconds = dict(zip(pairs, each, strict=True))
        products = _products_by_sums if on_accelerator() else _products_by_matrices
        gradient, hessian, diagonal = products(
            jacobian, seconds, score, first_order, second_order, weight
        )
        scale = scale_of(problem.delta)
        value, here = (huber(problem, difference, at) / scale for at in (next_delta, delta))
        largest = jnp.max(jnp.where(problem.weight > 0, jnp.abs(difference), 0.0))
        return here, value, gradient, hessian, diagonal, largest

    size, at = coordinates.shape[0], (coordinates, delta, next_delta, curvature)
    shapes = (), (), (size,), (size, size), (size,), ()
    joined = (*[jnp.add] * 5, jnp.maximum)
    whole = _over_rows(share_subexpressions(of_rows), problem, at, shapes, joined)
    here, value, gradient, hessian, diagonal, largest = whole
    return here, Evaluation(value, gradient, hessian, diagonal, largest)


def _over_rows(
    of_rows: Callable[..., tuple[Array, ...]], problem: Problem, arguments: tuple,
    shapes: tuple[tuple[int, ...], ...], joined: tuple[Callable[[Array, Array], Array], ...],
) -> tuple[Array, ...]:  # fmt: skip
    """``of_rows(problem, *arguments)``, sums or maxima over rows, block by block.

    Args:
        of_rows: function of a problem, of all its rows or some, and of the arguments.
        problem: one problem.
        arguments: other arguments.
        shapes: shapes of its results, none of which is negative where it is a maximum.
        joined: for each result how those of two blocks are joined.
    """
    n, size = problem.target.shape[-1], BLOCK_OF_ROWS
    if problem.rows is None or n <= 2 * size or n % size or on_accelerator():
        return of_rows(problem, *arguments)

    def with_block(k, others):
        def block(values):  # rows are the first axis of each of these arrays
            return jax.lax.dynamic_slice_in_dim(values, k * size, size)

        inputs = {name: block(values) for name, values in problem.inputs.items()}
        target, weight = block(problem.target), block(problem.weight)
        new = of_rows(problem._replace(inputs=inputs, target=target, weight=weight), *arguments)
        return tuple(join(*both) for join, *both in zip(joined, others, new, strict=True))

    # Of all lanes the same number of blocks: with one of each lane's own, every lane's rows would
    # be gathered element by element.
    nothing = tuple(jnp.zeros(shape, problem.target.dtype) for shape in shapes)
    return jax.lax.fori_loop(0, (problem.rows + (size - 1)) // size, with_block, nothing)


def _products_by_matrices(
    jacobian: list[Array], seconds: dict[tuple[int, int], Array],
    score: Array, first_order: Array, second_order: Array, weight: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradient (p,), Hessian (p, p) and least-squares diagonal (p,) by products of matrices.

    Args:
        jacobian: p rows (n,) of the residuals' Jacobian.
        seconds: second derivatives (n,) of the law, for pairs of parameters.
        score: w·ψ (n,).
        first_order: weights (n,) of the products of slopes.
        second_order: weights (n,) of the second derivatives.
        weight: w (n,).
    """
    rows = stack_rows(jacobian, len(score))
    hessian = (rows * first_order) @ rows.T
    if seconds:
        sums = stack_rows(list(seconds.values()), len(score)) @ second_order
        # For each pair (i, j) a symmetric matrix (p, p) of 1 at (i, j) and (j, i), else of 0.
        matrices = np.zeros((len(seconds), len(rows), len(rows)), sums.dtype)
        for k, (i, j) in enumerate(seconds):
            matrices[k, i, j] = matrices[k, j, i] = 1.0
        hessian += jnp.tensordot(sums, matrices, 1)
    return rows @ score, hessian, rows**2 @ weight


def _products_by_sums(
    jacobian: list[Array], seconds: dict[tuple[int, int], Array],
    score: Array, first_order: Array, second_order: Array, weight: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The same as :func:`_products_by_matrices`, number by number, for accelerators.

    A GPU is held up by its memory. The Jacobian of 32,768 lanes takes gigabytes, and as a matrix
    it is written row by row and read again; a sum takes up what it sums, and XLA computes several
    sums in one pass. On an H100 an iteration takes a third to a half of the time
    (``benchmarks/accelerator.md``); on a CPU, where a lane's matrix stays in the cache, longer.
    """
    rows = [jnp.broadcast_to(row, score.shape) for row in jacobian]
    size = len(rows)
    entries = {
        (i, j): jnp.sum(rows[i] * first_order * rows[j]) for i in range(size) for j in range(i + 1)
    }
    for pair, second in seconds.items():
        entries[pair] += jnp.sum(second * second_order)
    hessian = [[entries[max(i, j), min(i, j)] for j in range(size)] for i in range(size)]
    gradient = [jnp.sum(row * score) for row in rows]
    diagonal = [jnp.sum(row**2 * weight) for row in rows]
    return jnp.stack(gradient), jnp.stack([*map(jnp.stack, hessian)]), jnp.stack(diagonal)


def _score(problem: Problem, difference: Array, delta: Array) -> Array:
    """Slope of the scaled, weighted Huber loss in each residual, w·ψ (n,)."""
    return _scaled_weight(problem, difference) * jnp.clip(difference, -delta, delta)


def _around(model: Model, problem: Problem, coordinates: Array) -> tuple:
    """The law as a function of each coordinate; there its value, p slopes, and residual, (n,)."""

    def prediction(*us):
        return predict(model, problem, us)

    us = tuple(coordinates)
    predicted = prediction(*us)
    slopes = [_derivative(prediction, i)(*us) for i in range(len(us))]
    return prediction, predicted, slopes, residual(model.residuals, problem, predicted)


def stack_rows(arrays: list[Array], points: int) -> Array:
    """Stack arrays that broadcast to (points,) as rows of one (k, points).

    Written row by row: the kernel of ``jnp.stack`` decides at every element which row it is in,
    and computes the whole of each row's formula where it is needed.
    """
    rows = jnp.zeros((len(arrays), points), jnp.result_type(*arrays))
    for k, array in enumerate(arrays):
        row = jnp.broadcast_to(array, (1, points)).astype(rows.dtype)
        rows = jax.lax.dynamic_update_slice(rows, row, (k, 0))
    return rows


def _derivative(function, index: int):
    """∂ function / ∂ argument ``index``, forwards, the other arguments constant."""

    def derivative(*arguments):
        def along(argument):
            return function(*arguments[:index], argument, *arguments[index + 1 :])

        at = arguments[index]
        return jax.jvp(along, (at,), (jnp.ones_like(at),))[1]

    return derivative


@cache
def coupled_pairs(model: Model) -> frozenset[tuple[int, int]]:
    """Pairs of parameters (i ≥ j) whose mixed second derivative may differ from zero.

    Read off the traced formula: a law that is a sum of terms couples only the parameters
    within a term, and ∂f/∂i then does not mention j. Parameters of different groups have no row in
    common, which the trace does not show: the program of six groups would be six times as large.
    """
    law, size = model.law, len(model.law.parameters)

    def prediction(inputs, centre, *us):
        return law(Transform(model, centre, law.context(inputs)).to_natural(us), **inputs)

    # Shapes alone: numbers made here would become constants of the program under trace, and the
    # answer is cached: later programs, without those constants, would differ from the first.
    scalar = jax.ShapeDtypeStruct((), jnp.result_type(float))
    inputs = dict.fromkeys(law.input_names, jax.ShapeDtypeStruct((1,), scalar.dtype))
    centre = dict.fromkeys(centred_inputs(law), scalar)
    pairs = set()
    for i in range(size):
        slope = _derivative(prediction, i + 2)
        traced = jax.make_jaxpr(slope)(inputs, centre, *[scalar] * size).jaxpr
        needed = {var for var in traced.outvars if not hasattr(var, "val")}
        for equation in reversed(traced.eqns):  # all that the slope depends on
            if needed & set(equation.outvars):
                needed |= {var for var in equation.invars if not hasattr(var, "val")}
        us = traced.invars[-size:]
        pairs |= {(max(i, j), min(i, j)) for j in range(size) if us[j] in needed}
    if model.tied == tuple(range(size)):  # else a group may have the parameter of another
        groups = law.of_groups.values()
        of = {law.parameter_names.index(n): k for k, names in enumerate(groups) for n in names}
        pairs = {(i, j) for i, j in pairs if not {i, j} <= {*of} or of[i] == of[j]}
    return frozenset(pairs)


def summed_huber(problem: Problem, difference: np.ndarray) -> float:
    """The objective of residuals (n,), on the host: what solvers minimise, not scaled."""
    weight = np.asarray(problem.weight)
    factor = np.where(difference > 0, float(problem.asymmetry), 1.0)
    losses = factor * huber_losses(difference, float(problem.delta))
    return float(np.sum(np.where(weight > 0, weight * losses, 0.0)))


def kernel_width(residuals: np.ndarray) -> float:
    """Standard deviation of the normal kernel over which residuals (n,) are averaged."""
    spread = min(residuals.std(), np.ptp(np.percentile(residuals, [25, 75])) / 1.34)
    return max(0.9 * spread * len(residuals) ** -0.2, 1e-300)


#: Fraction of what is known of a combination of coordinates that is left without a row or group:
#: below it, the combination is determined by that row or group alone.
_DETERMINED = 1e-6


def smoothed_score(
    residuals: np.ndarray, delta: float, asymmetry: float
) -> tuple[np.ndarray, np.ndarray]:
    """Score of each residual (n,), ψ, and its slope, ψ', averaged over the kernel.

    The slope of the Huber loss jumps at ±δ, and where it is asymmetric at 0: without averaging
    over the errors that might have been, ψ' of few residuals says little.
    """
    delta = min(delta, LARGEST_DELTA)
    score = np.where(residuals > 0, asymmetry, 1.0) * np.clip(residuals, -delta, delta)
    width = kernel_width(residuals)
    below, middle, above = (
        scipy.special.ndtr((end - residuals) / width) for end in (-delta, 0.0, delta)
    )
    return score, asymmetry * (above - middle) + (middle - below)


def leave_group_out_steps(
    jacobian: np.ndarray, weight: np.ndarray, score: np.ndarray, score_slope: np.ndarray,
    groups: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """How far the optimum moves when a group of rows is not fitted, to second order.

    Args:
        jacobian: (n, k) of the residuals in the coordinates.
        weight, score, score_slope: (n,), the last two of :func:`smoothed_score`.
        groups: (n,) the group of each row.

    Returns:
        Steps (G, k), (H − Hᵍ)⁻¹ sᵍ with Hᵍ and sᵍ the group's part of the Hessian and of the
        gradient; and (G,) whether some combination of the coordinates is determined by that
        group alone. Along these nothing moves here.
    """
    _, groups = np.unique(groups, return_inverse=True)
    count = groups.max() + 1
    size = np.maximum(np.linalg.norm(jacobian, axis=0), 1e-300)
    scaled = jacobian / size
    value, vector = np.linalg.eigh((scaled.T * (weight * score_slope)) @ scaled)
    kept = value > 1e-12 * value.max(initial=1e-300)  # what the data leave open moves no residual
    whiten = vector[:, kept] / np.sqrt(value[kept])
    rows = scaled @ whiten  # in these coordinates H is 1, and the fraction of a group below 1
    scores = rows * (weight * score)[:, None]
    sums = np.zeros((count, scores.shape[1]))  # with no columns where all are at a bound
    np.add.at(sums, groups, scores)
    if count == len(groups):  # a group is a row, Hᵍ of rank one: Sherman and Morrison's formula
        remaining = np.empty(count)
        remaining[groups] = 1 - weight * score_slope * np.sum(rows**2, axis=1)
        determined = remaining < _DETERMINED
        steps = sums / np.where(determined, np.inf, remaining)[:, None]
    else:
        parts = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
        share = np.stack([(rows[p].T * (weight * score_slope)[p]) @ rows[p] for p in parts])
        remaining, directions = np.linalg.eigh(np.eye(rows.shape[1]) - share)
        lost = remaining < _DETERMINED
        determined = lost.any(axis=1)
        along = np.einsum("gki,gk->gi", directions, sums) / np.where(lost, np.inf, remaining)
        steps = np.einsum("gki,gi->gk", directions, along)
    return steps @ whiten.T / size, determined


def metrics(
    target: np.ndarray, predicted: np.ndarray, weight: np.ndarray, delta: float
) -> dict[str, np.ndarray]:
    """How well predictions do, in the target and in its logarithm.

    Args:
        target, predicted, weight: (…, n); points of zero weight do not count.
        delta: Huber threshold.

    Returns:
        Name → (…). ``r2``, ``r2_log``, ``rmse``, ``rmse_log``, ``huber`` (the Huber loss of log
        residuals, summed over the points with their weights, as in the tables of Que 2024),
        ``mean_huber`` (the same per unit of weight, which compares sets of different sizes),
        ``huber_linear`` and ``mean_huber_linear`` (of the target's own residuals). R² is NaN
        where the target is constant.
    """
    used, total, found = weight > 0, weight.sum(axis=-1), {}
    share, delta = weight / total[..., None], min(delta, LARGEST_DELTA)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for suffix, name, truth, guess in (
            ("", "huber_linear", target, predicted),
            ("_log", "huber", np.log(target), np.log(predicted)),
        ):
            truth, guess = np.where(used, truth, 0.0), np.where(used, guess, 0.0)
            square = (share * (guess - truth) ** 2).sum(axis=-1)
            middle = (share * truth).sum(axis=-1, keepdims=True)
            spread = (share * (truth - middle) ** 2).sum(axis=-1)
            low = np.where(used, truth, np.inf).min(axis=-1)
            high = np.where(used, truth, -np.inf).max(axis=-1)
            found["r2" + suffix] = np.where(low < high, 1 - square / spread, np.nan)
            found["rmse" + suffix] = np.sqrt(square)
            found[name] = (weight * huber_losses(guess - truth, delta)).sum(axis=-1)
            found[f"mean_{name}"] = found[name] / total
    return found
