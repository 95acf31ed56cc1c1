"""Values that differ by rounding alone, and so are equal."""

from __future__ import annotations

import numpy as np

#: Share of a value: the order of a few hundred sums and products in float64 changes less, and what
#: a person distinguishes (a token of 1e11, a share in percent) is more.
ROUNDING = 1e-12
#: Relative distance at which two results of a search count as one: solvers stop farther apart than
#: rounding does.
SAME = 1e-9


def ranks(values) -> np.ndarray:
    """(n,) the rank of each value, from 0; values that differ by rounding alone have the same.

    Values that were computed (a share as 1 minus another, tokens as 20 times the size) are equal on
    paper and differ in their last bits, in other bits on another processor. Which values are equal,
    and which is the largest, is therefore a question to their ranks.

    Args:
        values: (n,) numbers. A value that is not a number ranks last and equals no other.
    """
    order, rank = _rank(np.asarray(values, float))
    result = np.empty(len(order), int)
    result[order] = rank
    return result


def merged(values) -> np.ndarray:
    """(n,) the values, the largest of those that differ by rounding alone in place of each."""
    values = np.array(values, float)
    order, rank = _rank(values)
    last = np.flatnonzero(np.diff(rank, append=-1))
    values[order] = values[order][last][rank]
    return values


def _rank(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the rows in order of their values, and (n,) the ranks of these."""
    order = np.argsort(values, kind="stable")
    low, high = values[order[:-1]], values[order[1:]]
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        gap = high - low
    near = np.isfinite(gap) & (gap <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    return order, np.cumsum(np.r_[[0] * (len(values) > 0), (low != high) & ~near], dtype=int)


def first_largest(values, within: float = ROUNDING) -> int:
    """The place of the largest value; of several as large, the first.

    Args:
        values: (n,) numbers; those that are NaN do not count, unless all are.
        within: share of the largest value by which one as large may be below it: the rounding of
            what they are computed by.
    """
    values = np.asarray(values, float)
    values = np.where(np.isnan(values), -np.inf, values)
    largest = values.max()
    return int(
        np.argmax(values >= largest - (within * abs(largest) if np.isfinite(largest) else 0))
    )


def first_least(values, within: float = ROUNDING) -> int:
    """The place of the least value; of several as small, the first: as :func:`first_largest`."""
    return first_largest(-np.asarray(values, float), within)
