"""y_t = λ·y_{t−1} + x_t for all t at once: products with small triangular matrices.

As a loop the recurrence is a chain of dependent steps, which leaves an accelerator idle. Here steps
are laid out in rows of ``ROW``. A product with the matrix of λ^(to − from) sums within every row;
the same operation on the last sums of the rows, with λ^ROW, gives what enters each row, and so on
until one row is left. That is three passes over memory, on any backend, and rounding grows with the
logarithm of the number of steps.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxlaw._devices import on_accelerator

ROW = 16  # longer rows cost arithmetic, shorter ones memory traffic


def decayed_sum(x: Array, powers, before: Array, at=None) -> Array:
    """The y with y_t = λ·y_{t−1} + x_t along the last axis, where ``before`` is y_0.

    Args:
        x: (..., steps).
        powers: powers of λ, from :func:`powers_of` for that many steps.
        before: (...).
        at: (points,) steps t ≥ 1 whose y is returned, in one pass over x; None: every step.
    """
    steps = x.shape[-1]
    rows = x if steps % ROW == 0 else jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -steps % ROW)])
    rows = rows.reshape(*x.shape[:-1], -1, ROW)
    within = jnp.asarray(powers[0], x.dtype)
    entering = before[..., None]
    if rows.shape[-2] > 1:
        # Sums at the last step of each row, by the same recurrence from row to row, with λ^ROW.
        row_sums = decayed_sum(_times(rows, within[:, -1:])[..., 0], powers[1:], before)
        entering = jnp.concatenate([entering, row_sums[..., :-1]], axis=-1)
    # What enters a row is decayed once, as if it came with the row's first step.
    decayed = within[0, 1] * entering
    if at is not None:
        row, column = (at - 1) // ROW, (at - 1) % ROW
        rows, decayed, within = rows[..., row, :], decayed[..., row], within[:, column].T
        return (_with_first(rows, decayed) * within).sum(axis=-1)
    if on_accelerator():
        y = _times(rows, within) + decayed[..., None] * within[0]
    else:
        y = _times(_with_first(rows, decayed), within)
    return y.reshape(*x.shape[:-1], -1)[..., :steps]


def _with_first(rows: Array, decayed: Array) -> Array:
    """Rows (..., ROW) with what enters each of them (...) added to its first step."""
    return jnp.where(jnp.arange(ROW) == 0, rows + decayed[..., None], rows)


def _times(rows: Array, matrix: Array) -> Array:
    """Products of rows (..., ROW) with a matrix (ROW, k), without TF32 or bfloat16.

    A GPU computes a product with such a small matrix by a call of a library, which reads and writes
    all of its operands. XLA merges sums of products with what is around them, so that both areas
    are summed in one pass over the rates. On an H100 float32 areas after every step take three
    quarters of the time; float32 areas after few steps take a quarter more
    (``benchmarks/accelerator.md``).
    """
    if on_accelerator():
        return (rows[..., :, None] * matrix).sum(axis=-2)
    return jnp.matmul(rows, matrix, precision=lax.Precision.HIGHEST)


def powers_of(decay, steps: int):
    """λ^((to − from)·ROW^level) for from ≤ to, else 0: (levels, ROW from, ROW to).

    A concrete λ is raised to its powers in float64, on the host: rounding 0.999 to float32
    changes 1 − λ, and sums with it, by up to 3e-5. A traced one keeps its dtype, and is
    differentiable, at 0 and 1 too.
    """
    levels = 1
    while ROW**levels < steps:
        levels += 1
    if not isinstance(decay, jax.core.Tracer):
        return _powers_on_host(float(decay), levels)
    exponents = _exponents(levels)
    powers = lax.pow(decay, jnp.asarray(np.maximum(exponents, 0), jnp.int32))
    return jnp.where(exponents >= 0, powers, 0)


@functools.lru_cache(64)
def _powers_on_host(decay: float, levels: int) -> np.ndarray:
    exponents = _exponents(levels)
    return np.where(exponents >= 0, decay ** np.maximum(exponents, 0).astype(float), 0)


def _exponents(levels: int) -> np.ndarray:
    distance = np.arange(ROW) - np.arange(ROW)[:, None]
    stride = np.minimum(ROW ** np.arange(levels), 2**27)  # fits int32; no array is longer
    return distance * stride[:, None, None]
