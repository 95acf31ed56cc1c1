"""Variable projection: the coefficients a law is linear in, solved at given exponents.

Golub and Pereyra's idea, for making starts: with the exponents held, the best coefficients are
those of a least-squares problem with lower bounds, small enough to try every set of them at
their bounds. Residuals are relative where the law is fitted to logarithms.
"""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._cse import once_of_each
from jaxlaw.fitting._objective import Problem, predict, rows_of, value_at_level
from jaxlaw.fitting._transform import Array, Model, linear_coordinates

MOST = 6  # coefficients; beyond, there are too many sets


def solved_coordinates(model: Model) -> tuple[int, ...]:
    """Which coordinates are solved for: all linear ones, unless they are too many."""
    found = linear_coordinates(model)
    return found if len(found) <= MOST else ()


def terms(model: Model, problem: Problem, coordinates: Array) -> Array:
    """The prediction without its coefficients, and what each adds: (1 + k, n).

    Depends on the inputs, not on target or weight: problems that share inputs share it.
    """
    linear = solved_coordinates(model)

    def at(values: tuple[Array, ...], problem: Problem, coordinates: Array) -> Array:
        """The prediction with linear coefficients of these values."""
        us = list(coordinates)
        for k, value in zip(linear, values, strict=True):
            us[k] = value
        return predict(model, problem, us)

    # All at 0, then each at 1.
    values = np.eye(1 + len(linear), len(linear), -1, coordinates.dtype)
    rest, *each = once_of_each(at, [(tuple(row), problem, coordinates) for row in values])
    return rows_of([rest, *(one - rest for one in each)], len(rest))


def valued(model: Model, problem: Problem, parts: Array) -> tuple[Array, Array]:
    """Objective and best coefficients (k,) of a start with such :func:`terms`."""
    found = coefficients(model, problem, parts)
    return value_at_level(model.residuals, problem, prediction(parts, found)), found


def coefficients(model: Model, problem: Problem, parts: Array) -> Array:
    """The best coefficients (k,) for :func:`terms`, none below its lower bound.

    Fixed coefficients keep their value.
    """
    solved = np.array(solved_coordinates(model), int)
    if not len(solved):
        return jnp.zeros(0, parts.dtype)
    low, high = problem.low[solved], problem.high[solved]
    # Those of either sign are in every set; their bounds are kept at the end alone.
    signed = problem.transform(model).bounds()[0][solved] < 0
    base = jnp.where(signed & (low < high), 0.0, low)
    target = jnp.exp(problem.target) if model.residuals == "log" else problem.target
    weight = problem.weight / target**2 if model.residuals == "log" else problem.weight
    rest, each = parts[0] + base @ parts[1:], parts[1:]  # what is sought is the excess over it
    weighted = each * weight
    matrix, right = weighted @ each.T, weighted @ (target - rest)
    size = jnp.sqrt(jnp.diagonal(matrix))
    size = jnp.where(size > 0, size, 1.0)
    matrix = matrix / (size[:, None] * size) + 1e-12 * jnp.eye(len(signed))
    right = right / size

    def solve(used: Array) -> tuple[Array, Array]:
        used = used * (low < high)
        held = jnp.diag(1.0 - used)
        excess = _solve(matrix * (used[:, None] * used) + held, right * used)
        value = 0.5 * excess @ (matrix @ excess) - right @ excess
        allowed = jnp.all(signed | (excess >= 0)) & jnp.isfinite(value)
        return excess, jnp.where(allowed, value, jnp.inf)

    sets = np.array(list(itertools.product(*((1.0,) if one else (0.0, 1.0) for one in signed))))
    excess, value = jax.vmap(solve)(jnp.asarray(sets, parts.dtype))
    return jnp.clip(base + excess[jnp.argmin(value)] / size, low, high)


@partial(jax.jit, inline=True)  # traced once for every number of equations
def _solve(matrix: Array, right: Array) -> Array:
    """A few equations, positive definite, number by number: fast over many lanes at once."""
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


def prediction(parts: Array, found: Array) -> Array:
    """The law at every observation, (n,), from its terms and coefficients."""
    return parts[0] + found @ parts[1:]
