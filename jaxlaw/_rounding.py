"""Values that differ by rounding alone, and so are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Share of a value: the order of a few hundred sums and products in float64 changes less, and what
#: a person distinguishes (a token of 1e11, a share in percent) is more.
ROUNDING = 1e-12


def ranks(values: Any) -> np.ndarray:
    """(n,) the rank of each value, from 0; values that differ by rounding alone have the same.

    Values that were computed (a share as 1 minus another, tokens as 20 times the size) are equal on
    paper and differ in their last bits, in other bits on another processor. Which values are equal,
    and which is the largest, is therefore a question to their ranks.

    Args:
        values: (n,) numbers. A value that is not a number ranks last and equals no other.
    """
    values = np.asarray(values, float)
    order = np.argsort(values, kind="stable")
    low, high = values[order[:-1]], values[order[1:]]
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        gap = high - low
    near = np.isfinite(gap) & (gap <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    result = np.zeros(len(values), int)
    result[order[1:]] = np.cumsum((low != high) & ~near)
    return result


def first_largest(values: Any) -> int:
    """The row of the largest value; of several that differ by rounding alone, the first."""
    return int(np.argmax(ranks(values)))
