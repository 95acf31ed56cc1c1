"""Which points of a curve to keep, what they weigh, and a moving average.

A point that goes gives its weight to the nearest that stays (in steps): the curve weighs what
it did, and so does every stretch of it. Points close together early then do not count for more.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from jaxlaw.errors import UsageError, nearest

Spacing = Literal["log", "linear"]


def keep_every(steps: np.ndarray, every: int) -> np.ndarray:
    """Indices of every k-th point, counted from the last, which stays."""
    return np.arange(len(steps) - 1, -1, -every)[::-1]


def keep_spaced(steps: np.ndarray, points: int, spacing: Spacing) -> np.ndarray:
    """Indices of the points nearest to ``points`` steps in equal ratios or differences.

    Fewer where one is the nearest to several.
    """
    first, last = steps[0], steps[-1]
    space = np.geomspace if spacing == "log" else np.linspace
    return _nearest(steps, space(max(first, 1) if spacing == "log" else first, last, points))


def keep_design(steps: np.ndarray, design: str) -> np.ndarray:
    """Indices of the points nearest to a sampling method of Que 2024, App. I.1.

    Their runs have 200,000 steps; taken as shares of the last step: M1 every 1,000; M2 every
    5,000; M3 every 4,000 up to 60 % and every 8,000 after it; M4, of the points of M1 with a
    density e^(−0.02·x) at the x-th, 48 of them (theirs, drawn by some rule not told, are 45).
    The last point is always kept.
    """
    return np.union1d(_nearest(steps, DESIGNS[design] * steps[-1]), len(steps) - 1)


def decaying(count: int, rate: float) -> np.ndarray:
    """Which of so many evaluations, counted from 1, a density e^(−rate·x) keeps (M4).

    Those at which the summed density passes a whole number.
    """
    with np.errstate(over="ignore"):  # e^−∞ is what is meant
        density = np.cumsum(np.exp(-rate * np.arange(1, count + 1)))
    return 1 + np.searchsorted(density, np.arange(1, np.floor(density[-1]) + 1))


DESIGNS = {
    "M1": np.arange(1, 201) / 200,
    "M2": np.arange(1, 41) / 40,
    "M3": np.concatenate([np.arange(1, 31) / 50, 0.6 + np.arange(1, 11) / 25]),
    "M4": decaying(200, 0.02) / 200,
}


def check_thinning(every: int | None, points: int | None, spacing: str, design: str | None) -> None:
    """Refuse what is no way to thin.

    Raises:
        UsageError: none or several ways, counts too small, or unknown words.
    """
    if sum(one is not None for one in (every, points, design)) != 1:
        raise UsageError("say how to thin: every=k, points=n or design='M4', one of them")
    if every is not None and not (every >= 1 and every == int(every)):
        raise UsageError(f"every is a whole number, 1 or more, not {every}")
    if points is not None and not (points >= 2 and points == int(points)):
        raise UsageError(f"points is a whole number, 2 or more, not {points}")
    if spacing not in ("log", "linear"):
        raise UsageError(f"spacing is 'log' or 'linear', not {spacing!r}")
    if design is not None and design not in DESIGNS:
        hint = nearest(str(design), DESIGNS)
        raise UsageError(f"there is no design {design!r}; designs: {', '.join(DESIGNS)}.{hint}")


def inherited_weight(steps: np.ndarray, kept: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(kept,) weights: each kept point's own and that of the points nearest to it."""
    heir = _nearest(steps[kept], steps, unique=False)
    return np.bincount(heir, weight, minlength=len(kept))


def moving_average(values: np.ndarray, window: int) -> np.ndarray:
    """Centred means of ``window`` values; towards the ends of fewer, still centred.

    NaN stays NaN, and takes no part in the means around it.
    """
    count, half = len(values), window // 2
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    i = np.arange(count)
    reach = np.minimum(half, np.minimum(i, count - 1 - i))
    low, high = i - reach, i + reach + 1
    with np.errstate(invalid="ignore"):
        means = (sums[high] - sums[low]) / (counts[high] - counts[low])
    return np.where(known & (reach > 0), means, values)


def _nearest(steps: np.ndarray, wanted: np.ndarray, unique: bool = True) -> np.ndarray:
    """Indices of the steps (increasing) nearest to those wanted, the later one of two."""
    right = np.searchsorted(steps, wanted).clip(1, max(len(steps) - 1, 1))
    right = np.minimum(right, len(steps) - 1)
    left = np.maximum(right - 1, 0)
    index = np.where(wanted - steps[left] < steps[right] - wanted, left, right)
    return np.unique(index) if unique else index
