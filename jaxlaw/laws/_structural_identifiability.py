"""Which parameters of a law cannot be distinguished when an input takes few values."""

from __future__ import annotations

import functools

import jax
import numpy as np

from jaxlaw._jit import compiled, in_float64
from jaxlaw.laws._base import Law
from jaxlaw.laws._parameters import Input

_POINTS = 96


@functools.lru_cache(maxsize=256)
def inseparable(
    law: Law, name: str, levels: tuple[float, ...], free: tuple[str, ...]
) -> tuple[str, ...]:
    """Free parameters that cannot be distinguished when one input takes few values.

    The null space of the law's Jacobian in its free parameters, at three sets of parameters,
    over a generous design of all other inputs. Whether a law distinguishes them does not depend on
    units, so positive inputs are spread around 1, where centred parameters are of order 1.

    Args:
        law: the law.
        name: the input that takes few values.
        levels: its values if it may be zero, else a tuple of how many it takes.
        free: names of parameters.

    Returns:
        The names, in the law's order; none if all can be distinguished or the law has no
        derivatives there.
    """
    free = tuple(spec.name for spec in law.parameters if spec.name in free)
    draw, common = np.random.default_rng(0), None
    if not free:
        return ()
    with in_float64():
        for _ in range(3):
            design = {
                spec.name: _design(spec, levels if spec.name == name else None, draw)
                for spec in law.inputs
            }
            values = {}
            for spec in law.parameters:
                (low, high), share = spec.start, draw.uniform(0.3, 0.7)
                values[spec.name] = (
                    low * (high / low) ** share
                    if spec.scale == "log"
                    else low + share * (high - low)
                )
            jacobian = np.asarray(_slopes(law, free, design, values))  # (points, parameters)
            lengths = np.linalg.norm(jacobian, axis=0)
            jacobian = jacobian / np.where(lengths > 0, lengths, 1.0)
            if not np.isfinite(jacobian).all():
                continue
            _, sizes, directions = np.linalg.svd(jacobian, full_matrices=False)
            # A parameter that a direction moves which changes nothing.
            mixed = (np.abs(directions[sizes < 1e-10 * sizes[0]]) > 1e-4).any(axis=0)
            common = mixed if common is None else common & mixed
    return () if common is None else tuple(n for n, hit in zip(free, common, strict=True) if hit)


def _design(spec: Input, levels: tuple[float, ...] | None, draw: np.random.Generator) -> np.ndarray:
    size = _POINTS
    if levels is not None and spec.domain != "positive":
        return np.resize(np.asarray(levels, float), size)
    if levels is not None:
        return np.resize(2.0 * 1.7 ** np.arange(levels[0]), size)
    if spec.levels:
        return draw.permutation(np.arange(size) % len(spec.levels)).astype(float)
    if spec.domain == "fraction":
        return draw.uniform(0.02, 0.98, size)
    return draw.uniform(-2, 2, size) if spec.domain == "real" else 10 ** draw.uniform(-1, 1, size)


@compiled(optimised=False, static_argnames=("law", "free"))
def _slopes(law: Law, free: tuple[str, ...], design, params):
    slopes = jax.jacfwd(lambda some: law({**params, **some}, **design))(
        {name: params[name] for name in free}
    )
    columns = [jax.numpy.broadcast_to(slopes[name], (_POINTS,)) for name in free]
    return jax.numpy.stack(columns, axis=1)
