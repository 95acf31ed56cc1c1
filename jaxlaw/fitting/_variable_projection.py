"""Variable projection: the coefficients a law is linear in, solved for at given exponents.

Golub and Pereyra's idea, here for making starts. With the exponents constant, the best
coefficients are those of a small least-squares problem with lower bounds (NNLS where the bounds
are 0). Its solution is found by enumeration of active sets: for each of the 2^k sets of
coefficients that may stand at their bounds the others are solved for, and of the solutions that
keep all bounds the best is taken. With k ≤ ``MOST`` that is at most 64 tiny systems, no loop that
waits for the slowest lane, and the answer is exact.

Residuals are relative where the law is fitted to logarithms: log f − log y ≈ (f − y)/y.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._cse import share_across_cases
from jaxlaw._jit import traced_once
from jaxlaw.fitting._objective import Problem, predict, profiled_value, stack_rows
from jaxlaw.fitting._transform import Array, Model, linear_coordinates

MOST = 6  # coefficients; beyond, there are too many sets


def solved_coordinates(model: Model) -> tuple[int, ...]:
    """Which coordinates are solved for: all linear ones, unless they are too many."""
    linear = linear_coordinates(model)
    return linear if len(linear) <= MOST else ()


def terms(model: Model, problem: Problem, coordinates: Array) -> Array:
    """The prediction without its coefficients, and what each adds per unit: (1 + k, n).

    Depends on the inputs, not on target or weight: problems that share inputs share it.
    """
    linear = solved_coordinates(model)

    def at(values: tuple[Array, ...], problem: Problem, coordinates: Array) -> Array:
        """The prediction with linear coefficients of these values."""
        us = list(coordinates)
        for k, value in zip(linear, values, strict=True):
            us[k] = value
        return predict(model, problem, us)

    # All coefficients at 0, then each at 1 with the others at 0; the powers of the law are
    # computed once for all of these predictions.
    values = np.eye(1 + len(linear), len(linear), -1, coordinates.dtype)
    rest, *each = share_across_cases(at, [(tuple(row), problem, coordinates) for row in values])
    return stack_rows([rest, *(term - rest for term in each)], len(rest))


def solve_coefficients(model: Model, problem: Problem, parts: Array) -> tuple[Array, Array]:
    """Profiled objective of a start with such :func:`terms`, with its best coefficients (k,)."""
    coefficients = best_coefficients(model, problem, parts)
    predicted = parts[0] + coefficients @ parts[1:]
    return profiled_value(model.residuals, problem, predicted), coefficients


def best_coefficients(model: Model, problem: Problem, parts: Array) -> Array:
    """The best coefficients (k,) for :func:`terms`, none below its lower bound.

    Fixed coefficients keep their value. Upper bounds are kept by clipping at the end.
    """
    solved = np.array(solved_coordinates(model), int)
    if not len(solved):
        return jnp.zeros(0, parts.dtype)
    low, high = problem.low[solved], problem.high[solved]
    # Coefficients that may have either sign have bounds far away: they are free in every set, and
    # their bounds are kept by clipping too.
    signed = problem.transform(model).bounds()[0][solved] < 0
    base = jnp.where(signed & (low < high), 0.0, low)
    target = jnp.exp(problem.target) if model.residuals == "log" else problem.target
    weight = problem.weight / target**2 if model.residuals == "log" else problem.weight
    # Normal equations of the excess over the lower bounds, with a diagonal of ones. Their
    # condition number is the square of the problem's, which starts can live with; the ridge keeps
    # coefficients of proportional terms finite.
    rest, each = parts[0] + base @ parts[1:], parts[1:]
    weighted = each * weight
    matrix, right = weighted @ each.T, weighted @ (target - rest)
    size = jnp.sqrt(jnp.diagonal(matrix))
    size = jnp.where(size > 0, size, 1.0)
    matrix = matrix / (size[:, None] * size) + 1e-12 * jnp.eye(len(signed))
    right = right / size

    def solve(free: Array) -> tuple[Array, Array]:
        """The excess (k,) with some coefficients free, and its value; infinite if not allowed."""
        free = free * (low < high)  # fixed coefficients are in no set
        identity = jnp.diag(1.0 - free)  # in place of the rows of the others
        excess = _solve(matrix * (free[:, None] * free) + identity, right * free)
        value = 0.5 * excess @ (matrix @ excess) - right @ excess
        allowed = jnp.all(signed | (excess >= 0)) & jnp.isfinite(value)
        return excess, jnp.where(allowed, value, jnp.inf)

    choices = [(1.0,) if either_sign else (0.0, 1.0) for either_sign in signed]
    sets = np.array(list(itertools.product(*choices)))
    excess, value = jax.vmap(solve)(jnp.asarray(sets, parts.dtype))
    return jnp.clip(base + excess[jnp.argmin(value)] / size, low, high)


@traced_once()  # for every number of equations
def _solve(matrix: Array, right: Array) -> Array:
    """Solve a few positive definite equations by Gaussian elimination, written out.

    Number by number, every operation is one over all lanes and sets, which XLA fuses;
    ``jnp.linalg.solve`` calls LAPACK for each of these tiny systems.
    """
    size = len(right)
    rows = [[matrix[i, j] for j in range(size)] for i in range(size)]
    values = [right[i] for i in range(size)]
    for k in range(size):
        for i in range(k + 1, size):
            factor = rows[k][i] / jnp.maximum(rows[k][k], 1e-14)
            values[i] -= factor * values[k]
            for j in range(i, size):
                rows[i][j] -= factor * rows[k][j]
    for k in reversed(range(size)):
        above = sum(rows[k][j] * values[j] for j in range(k + 1, size))
        values[k] = (values[k] - above) / jnp.maximum(rows[k][k], 1e-14)
    return jnp.stack(values)
