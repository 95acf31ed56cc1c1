"""From draws to intervals."""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np

from jaxlaw.notes import UsageError, nearest

Method = Literal["percentile", "basic", "normal"]
#: What tables call the fields of an :class:`Interval`.
COLUMNS = ("estimate", "standard error", "low", "high")


class Interval(NamedTuple):
    """What is known of a quantity; arrays of its shape.

    Attributes:
        estimate: from the runs as they are.
        standard_error: standard deviation over the draws.
        low, high: ends of the interval.
    """

    estimate: np.ndarray
    standard_error: np.ndarray
    low: np.ndarray
    high: np.ndarray


def check_level(level: float) -> None:
    """Raises UsageError where it is no share."""
    if not 0 < level < 1:
        raise UsageError(f"level is a share such as 0.95, not {level}")


def interval_of(
    estimate: np.ndarray,
    draws: np.ndarray,
    level: float = 0.95,
    method: Method = "percentile",
    log: bool = False,
) -> Interval:
    """The interval of draws.

    Args:
        estimate: (…) from the runs as they are.
        draws: (R, …); those that are not finite do not count.
        level: share of such intervals that should hold the truth.
        method: ``percentile``, the draws' own quantiles; ``basic``, these mirrored at the
            estimate; ``normal``, estimate ± z standard errors.
        log: whether a basic or normal interval is taken of the logarithm.
    """
    check_level(level)
    estimate, draws = np.asarray(estimate, float), np.asarray(draws, float)
    draws = np.where(np.isfinite(draws), draws, np.nan)
    tail = (1 - level) / 2
    with warnings.catch_warnings():  # all draws failed: NaN says so
        warnings.simplefilter("ignore", RuntimeWarning)
        spread = np.nanstd(draws, axis=0, ddof=1)
        low, high = np.nanquantile(draws, [tail, 1 - tail], axis=0)
        if method == "basic":
            low, high = (
                (estimate**2 / high, estimate**2 / low)
                if log
                else (2 * estimate - high, 2 * estimate - low)
            )
        elif method == "normal":
            width = np.nanstd(np.log(draws), axis=0, ddof=1) * estimate if log else spread
            low, high = student_ends(estimate, width, level, np.inf, log)
        elif method != "percentile":
            hint = nearest(str(method), ("percentile", "basic", "normal"))
            raise UsageError(f"method is 'percentile', 'basic' or 'normal', not {method!r}.{hint}")
    return Interval(estimate, spread, low, high)


def student_ends(
    estimate: np.ndarray, spread: np.ndarray, level: float, degrees: float, log: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate ± t · spread; of the logarithm, to first order, where ``log``."""
    from scipy.special import stdtrit

    reach = stdtrit(degrees, (1 + level) / 2) * spread
    if log:
        return estimate * np.exp(-reach / estimate), estimate * np.exp(reach / estimate)
    return estimate - reach, estimate + reach
