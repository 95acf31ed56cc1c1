"""Roots and lowest points for plans: fixed numbers of steps, so that they batch under vmap."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

HALVINGS = 60  # of a bracket: its end is below rounding


def root(rising: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Where a function that rises through zero is zero, by bisection of [low, high].

    Without a change of sign it is the end that is nearer to one: high where the function is
    negative throughout, low where it is positive. Scalars of the same dtype as the bracket.
    """

    def halve(_: int, ends: Any) -> Any:
        low, high = ends
        middle = (low + high) / 2
        above = rising(middle) > 0
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    low, high = jnp.asarray(low, float), jnp.asarray(high, float)
    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
    return (low + high) / 2


def lowest(value: Callable[[Any], Any], low: Any, high: Any, points: int = 257) -> Any:
    """Where a function of one number is lowest in [low, high].

    The best point of a grid, then the root of the derivative between its neighbours: to
    rounding where the function has one valley at that scale. NaN counts as infinite.
    """
    grid = low + (high - low) * jnp.linspace(0.0, 1.0, points)
    best = jnp.argmin(_comparable(jax.vmap(value)(grid)))
    left, right = grid[jnp.maximum(best - 1, 0)], grid[jnp.minimum(best + 1, points - 1)]
    return root(jax.grad(value), left, right)


def lowest_in_box(
    value: Callable[..., Any], low: Any, high: Any, first: int = 97, then: int = 9, rounds: int = 20
) -> Any:
    """Where a function of k numbers is lowest in a box: a grid, then finer ones around its best.

    Args:
        value: of (k,) numbers.
        low, high: (k,) the box.
        first: points of the first grid in each dimension; then: of the finer ones, each over
            one cell either side of the best point so far.
        rounds: of refinement. Of the place half the digits are certain, of the value all.
    """

    def best_of(low: Any, high: Any, points: int) -> Any:
        axes = [jnp.linspace(low[k], high[k], points) for k in range(low.shape[0])]
        grid = jnp.stack([axis.ravel() for axis in jnp.meshgrid(*axes, indexing="ij")], axis=-1)
        return grid[jnp.argmin(_comparable(jax.vmap(value)(grid)))]

    def refine(_: int, state: Any) -> Any:
        at, width = state
        at = best_of(jnp.maximum(at - width, low), jnp.minimum(at + width, high), then)
        return at, width * 2 / (then - 1)

    low, high = jnp.asarray(low, float), jnp.asarray(high, float)
    start = best_of(low, high, first), (high - low) / (first - 1)
    return jax.lax.fori_loop(0, rounds, refine, start)[0]


def _comparable(values: Any) -> Any:
    return jnp.where(jnp.isnan(values), math.inf, values)
