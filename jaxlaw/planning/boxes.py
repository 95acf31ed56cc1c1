"""The lowest point of a smooth function in the unit box: a grid, then Newton from its best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

BLOCKS = 8  # of the grid; the best point of each is refined
ROUNDS = 30  # at most
STILL = 1e-14  # relative gain of a round after which there is none to come: Newton's are quadratic
SHRINKS = 12  # step lengths tried in a round, each half the one before


def lowest_in_box(objective: Callable[[Any], Any], grid: Any) -> Any:
    """Where a function is lowest in [0, 1]^d, d ≤ 4; batches under vmap.

    Args:
        objective: ``f(places)``, (…, d) → (…); smooth. What is not finite counts as high.
        grid: (points, d) to begin with, dense enough that a point of it lies in the basin of
            the lowest.

    Returns:
        (d,) the place. Refined by Newton steps with the curvatures' absolute values, in the
        coordinates that are not held at an end by the gradient.
    """
    values = _high(objective(grid))
    rows = -(-len(grid) // BLOCKS)
    short = BLOCKS * rows - len(grid)
    blocks = jnp.pad(values, (0, short), constant_values=jnp.inf).reshape(BLOCKS, rows)
    first = grid[jnp.minimum(blocks.argmin(axis=1) + rows * jnp.arange(BLOCKS), len(grid) - 1)]
    ended, values = jax.vmap(lambda place: _refined(objective, place))(first)
    return ended[values.argmin()]


def _high(values: Any) -> Any:
    return jnp.where(jnp.isfinite(values), values, jnp.inf)


def _refined(objective: Callable[[Any], Any], place: Any) -> tuple[Any, Any]:
    lengths = 0.5 ** jnp.arange(SHRINKS)

    def slope(place: Any) -> tuple[Any, Any]:
        gradient = jax.jacfwd(objective)(place)
        return gradient, gradient

    # Forward mode in few coordinates: programs half the size of those of reverse mode.
    def round_(carry: Any) -> Any:
        place, before, _, rounds = carry
        curvature, gradient = jax.jacfwd(slope, has_aux=True)(place)
        gradient = jnp.nan_to_num(gradient)
        held = ((place <= 0) & (gradient > 0)) | ((place >= 1) & (gradient < 0))
        gradient = jnp.where(held, 0.0, gradient)
        open_ = ~held[:, None] & ~held[None, :]
        hessian = jnp.where(open_, jnp.nan_to_num(curvature), jnp.diag(1.0 * held))
        sizes, axes = jnp.linalg.eigh(hessian)
        sizes = jnp.maximum(jnp.abs(sizes), 1e-12)
        newton = -axes @ ((axes.T @ gradient) / sizes)
        steepest = -gradient / jnp.maximum(jnp.abs(gradient).max(), 1e-300)
        steps = jnp.stack([newton, 0.1 * steepest])[:, None, :] * lengths[:, None]
        tried = jnp.clip(place + steps.reshape(-1, place.shape[0]), 0.0, 1.0)
        tried = jnp.concatenate([place[None], tried])  # stays where nothing is lower
        values = _high(objective(tried))
        gained = before - values.min() > STILL * jnp.abs(before)
        return tried[values.argmin()], values.min(), gained | (rounds < 1), rounds + 1

    begun = (place, jnp.finfo(place.dtype).max + 0.0 * place[0], place[0] == place[0], 0)
    going = lambda carry: carry[2] & (carry[3] < ROUNDS)  # noqa: E731
    return jax.lax.while_loop(going, round_, begun)[:2]
