"""Straight lines and half cosines of a learning rate, and what they add to the areas.

Sums of such rates, weighted with powers of λ, are geometric: closed forms that cost the same for
any number of steps and have derivatives in it. Momentum weighted with the rate (Wang 2025, App.
J) has none: there it is Euler's and Maclaurin's sum, with the steps at both ends one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

ENDS = 16  # steps at either end of a piece that are summed one by one
ROUNDING = 1e-6  # of a step: a piece of so little more than n steps has n
LONG = 1e11  # steps; in a weighted sum longer phases, endless ones too, have these


def _double_exponential(count: int = 61, reach: float = 3.1) -> tuple[np.ndarray, np.ndarray]:
    """Places in (0, 1) and weights of an integral: dense at both ends, where momentum fades."""
    u = np.linspace(-reach, reach, count)
    bend = np.pi / 2 * np.sinh(u)
    weights = np.pi / 4 * np.cosh(u) / np.cosh(bend) ** 2
    return (1 + np.tanh(bend)) / 2, weights / weights.sum()


PLACES, WEIGHTS = _double_exponential()


class Sums(NamedTuple):
    """Areas after some steps of a phase.

    Attributes:
        S1: forward area.
        S2: annealing area of plain momentum, Σ m.
        weighted: Σ m·η^ε; None where momentum is not weighted.
    """

    S1: Any
    S2: Any
    weighted: Any = None


class Counting(NamedTuple):
    """How a phase counts: η_0 that its drops start from, λ, and ε or None."""

    reference: Any
    decay: Any
    epsilon: Any = None


def straight(before: Sums, n: Any, start: Any, end: Any, how: Counting) -> Sums:
    """A straight line of n steps: Σ k·λ^(n−k) = (n − λ·Σ λ^(n−k)) / (1 − λ)."""
    n = _as_wide(n, before.S1, start, end, how.reference)
    slope, decay = (end - start) / jnp.maximum(n, 1e-9), how.decay

    def S2(t: Any) -> Any:
        kept, whole = _memory(t, decay)
        near = decay > 1 - 1e-12
        ramp = (t - decay * whole) / jnp.where(near, 1.0, 1 - decay)
        ramp = jnp.where(near, t * (t + 1) / 2, ramp)
        return kept * before.S2 + (how.reference - start) * whole - slope * ramp

    S1 = before.S1 + n * start + slope * n * (n + 1) / 2
    return Sums(S1, S2(n), _weighted(before, n, lambda t: start + slope * t, S2, how))


def half_cosine(before: Sums, n: Any, start: Any, end: Any, how: Counting) -> Sums:
    """Half a cosine: Σ cos(πk/n)·λ^(t−k) is the real part of a geometric sum of e^(iπ/n)."""
    n = _as_wide(n, before.S1, start, end, how.reference)
    decay, middle, half = how.decay, (start + end) / 2, (start - end) / 2
    bend = 2 * jnp.sin(jnp.pi / (2 * n)) ** 2  # 1 − cos(π/n)
    below = (1 - decay) ** 2 + 2 * decay * bend

    def S2(t: Any) -> Any:
        kept, whole = _memory(t, decay)
        # At t = n the sine is 0 and the cosine −1.
        turned = decay * jnp.sin(jnp.pi / n) * jnp.sin(jnp.pi * t / n)
        wave = (jnp.cos(jnp.pi * t / n) - kept) * (1 - decay + decay * bend) + turned
        return kept * before.S2 + (how.reference - middle) * whole - half * wave / below

    S1 = before.S1 + n * middle - half
    rate = lambda t: middle + half * jnp.cos(jnp.pi * t / n)  # noqa: E731
    return Sums(S1, S2(n), _weighted(before, n, rate, S2, how))


def _as_wide(n: Any, *others: Any) -> Any:
    """Steps, with the shape of all that goes with them: sums over steps add axes before it."""
    shape = jnp.broadcast_shapes(*(jnp.shape(one) for one in (n, *others)))
    return jnp.broadcast_to(jnp.asarray(n) + 0.0, shape)


def _memory(n: Any, decay: Any) -> tuple[Any, Any]:
    """λ^n and Σ λ^(n−k) over k = 1…n."""
    near = decay > 1 - 1e-12
    rate = jnp.where(near, -1.0, jnp.log(jnp.where(near | (decay <= 0), 0.5, decay)))
    forgotten = jnp.where(n > 0, 0.0, 1.0)  # λ = 0
    kept = jnp.where(near, 1.0, jnp.where(decay <= 0, forgotten, jnp.exp(n * rate)))
    whole = -jnp.expm1(n * rate) / jnp.where(near, 1.0, 1 - decay)
    return kept, jnp.where(near, n, jnp.where(decay <= 0, 1.0 - forgotten, whole))


def _weighted(
    before: Sums, n: Any, rate: Callable[[Any], Any], S2: Callable[[Any], Any], how: Counting
) -> Any:
    """Σ m·η^ε with this piece; S2(t) = λ·S2(t−1) + (η_0 − η_t) gives m_t = S2(t) − S2(t−1)."""
    if how.epsilon is None:
        return None

    def term(t: Any) -> Any:
        momentum = how.reference - rate(t) - (1 - how.decay) * S2(t - 1)
        trained = rate(t) > 0
        return jnp.where(trained, momentum * jnp.where(trained, rate(t), 1.0) ** how.epsilon, 0.0)

    return before.weighted + sum_over_steps(term, n)


def sum_over_steps(term: Callable[[Any], Any], n: Any) -> Any:
    """Σ term(k) over k = 1…n, for smooth terms of any number of steps; n may be fractional.

    Args:
        term: of steps (…) whose trailing axes are those of n; smooth but for steps near the ends.
        n: (…).
    """
    n = jnp.asarray(n)

    def rows(numbers: Any) -> Any:
        return np.reshape(numbers, (-1, *[1] * n.ndim))

    single, near = rows(np.arange(ENDS, dtype=float)), rows([-1.0, 0.0, 1.0])
    whole, rest = n - ROUNDING, n - ENDS
    long = rest > ENDS
    low, high = float(ENDS), jnp.where(long, rest, ENDS + 1.0)
    inside = low + (high - low) * rows(PLACES)
    # All in one call: terms take long to trace and to compile.
    at = [jnp.maximum(n - single, 1e-9), single + 1, inside, low + near, high + near]
    at = [jnp.broadcast_to(steps, (len(steps), *n.shape)) for steps in at]
    found = jnp.split(term(jnp.concatenate(at)), np.cumsum([len(steps) for steps in at])[:-1])
    last, first, inside, lowest, highest = found
    last = jnp.where(single < whole, last, 0.0).sum(axis=0)
    first = jnp.where(single < whole - ENDS, first, 0.0).sum(axis=0)
    middle = (high - low) * (rows(WEIGHTS) * inside).sum(axis=0) + (highest[1] - lowest[1]) / 2
    slopes = highest[2] - highest[0] - lowest[2] + lowest[0]
    return last + first + jnp.where(long, middle + slopes / 24, 0.0)
