"""Roots and lowest points for plans: fixed numbers of steps, so that they batch under vmap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

HALVINGS = 60  # of a bracket: its end is below rounding


def root(rising: Callable[[Any], Any], low: Any, high: Any, halvings: int = HALVINGS) -> Any:
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
    low, high = jax.lax.fori_loop(0, halvings, halve, (low, high))
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


def best_on_grid(value: Callable[..., Any], low: Any, high: Any, points: Sequence[int]) -> Any:
    """The (k,) point of a grid over a box, ``points`` a side, at which a function is lowest."""
    axes = [jnp.linspace(low[k], high[k], count) for k, count in enumerate(points)]
    grid = jnp.stack([axis.ravel() for axis in jnp.meshgrid(*axes, indexing="ij")], axis=-1)
    return grid[jnp.argmin(_comparable(jax.vmap(value)(grid)))]


def lowest_in_box(
    value: Callable[..., Any], low: Any, high: Any, first: Sequence[int] = (97, 49),
    then: int = 9, rounds: int = 40,
) -> Any:  # fmt: skip
    """Where a function of k numbers is lowest in a box: a grid, then finer ones around its best.

    Args:
        value: of (k,) numbers.
        low, high: (k,) the box.
        first: points of the first grid in each dimension; then: of the finer ones, each over
            two cells of the one before, either side of the best point so far: a valley that
            runs across the axes moves the best point by more than one.
        rounds: of refinement. Of the place half the digits are certain, of the value all.
    """

    def refine(_: int, state: Any) -> Any:
        at, width = state
        near = jnp.maximum(at - width, low), jnp.minimum(at + width, high)
        return best_on_grid(value, *near, (then,) * len(first)), width * 4 / (then - 1)

    low, high = jnp.asarray(low, float), jnp.asarray(high, float)
    start = best_on_grid(value, low, high, first), 2 * (high - low) / (jnp.asarray(first) - 1.0)
    return jax.lax.fori_loop(0, rounds, refine, start)[0]


def _comparable(values: Any) -> Any:
    return jnp.where(jnp.isnan(values), math.inf, values)
