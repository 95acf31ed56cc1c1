"""Variable projection: the coefficients a law is linear in, solved at given exponents.

Golub and Pereyra's idea, for making starts: with the exponents held, the best coefficients are
those of a least-squares problem with lower bounds, small enough to try every set of them at
their bounds. Residuals are relative where the law is fitted to logarithms.
"""

from __future__ import annotations

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw.coordinates import Array, Model
from jaxlaw.objective import Problem, predict
from jaxlaw.solvers.newton import solve_definite

MOST = 5  # coefficients; beyond, there are too many sets


@cache
def linear_coordinates(model: Model) -> tuple[int, ...]:
    """Which coordinates the prediction is linear in, the others held; none if too many."""
    found = tuple(
        k
        for k, (spec, scale) in enumerate(zip(model.law.parameters, model.scales, strict=True))
        if scale == "linear" and spec.name in model.law.linear
    )
    free = all(model.tied[k] == k and model.tied.count(k) == 1 for k in found)
    return found if free and len(found) <= MOST else ()


def terms(model: Model, problem: Problem, coordinates: Array) -> Array:
    """The prediction without its coefficients, and what each adds: (1 + k, n).

    Depends on the inputs, not on target or weight: problems that share inputs share it.
    """
    linear = list(linear_coordinates(model))
    bare = coordinates.at[jnp.asarray(linear, int)].set(0.0)
    rest = predict(model, problem, bare)
    each = [predict(model, problem, bare.at[k].set(1.0)) - rest for k in linear]
    return jnp.stack([rest, *each])


def coefficients(model: Model, problem: Problem, parts: Array) -> Array:
    """The best coefficients (k,) for :func:`terms`, none below its lower bound.

    Fixed coefficients keep their value.
    """
    linear = np.array(linear_coordinates(model), int)
    if not len(linear):
        return jnp.zeros(0, parts.dtype)
    low, high = problem.low[linear], problem.high[linear]
    target = jnp.exp(problem.target) if model.space == "log" else problem.target
    weight = problem.weight / target**2 if model.space == "log" else problem.weight
    rest, each = parts[0] + low @ parts[1:], parts[1:]  # what is sought is the excess over low
    size = jnp.sqrt(each**2 @ weight)
    size = jnp.where(size > 0, size, 1.0)
    each = each / size[:, None]
    matrix = (each * weight) @ each.T + 1e-12 * jnp.eye(len(linear))
    right = (each * weight) @ (target - rest)

    def solve(used: Array) -> tuple[Array, Array]:
        used = used * (low < high)
        held = jnp.diag(1.0 - used)
        excess = solve_definite(matrix * (used[:, None] * used) + held, right * used)
        value = 0.5 * excess @ (matrix @ excess) - right @ excess
        allowed = jnp.all(excess >= 0) & jnp.isfinite(value)
        return excess, jnp.where(allowed, value, jnp.inf)

    sets = np.array(list(itertools.product((0.0, 1.0), repeat=len(linear))))
    excess, value = jax.vmap(solve)(jnp.asarray(sets, parts.dtype))
    return jnp.clip(low + excess[jnp.argmin(value)] / size, low, high)


def prediction(parts: Array, found: Array) -> Array:
    """The law at every observation, (n,), from its terms and coefficients."""
    return parts[0] + found @ parts[1:]


def projected(model: Model, problem: Problem, coordinates: Array) -> Array:
    """A start (p,) with its linear coefficients solved for."""
    linear = jnp.asarray(linear_coordinates(model), int)
    found = coefficients(model, problem, terms(model, problem, coordinates))
    return coordinates.at[linear].set(found)
