"""From draws to intervals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._result import Fit

Method = Literal["percentile", "basic", "normal", "bca"]
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
    estimate: np.ndarray | float,
    draws: np.ndarray,
    level: float = 0.95,
    method: Method = "percentile",
    log: bool = False,
    left_out: np.ndarray | None = None,
    degrees: float = np.inf,
) -> Interval:
    """The interval of draws.

    Args:
        estimate: (…) from the runs as they are.
        draws: (R, …); those that are not finite do not count.
        level: share of such intervals that should hold the truth.
        method: ``percentile``, the draws' own quantiles; ``basic``, these mirrored at the
            estimate; ``normal``, estimate ± z standard errors; ``bca``, quantiles moved for
            the draws' bias and for a spread that changes with the truth.
        log: whether a basic or normal interval is taken of the logarithm. Where draws reach 0
            there is none: it is then taken of the value, and ends at 0.
        left_out: (G, …) estimates without each row or group of rows, for ``bca``.
        degrees: of freedom with which the draws' spread is known; quantiles go as far out as
            Student's t is beyond the normal (Hesterberg 2015, "expanded percentiles").
    """
    check_level(level)
    estimate, draws = np.asarray(estimate, float), np.asarray(draws, float)
    draws = np.where(np.isfinite(draws), draws, np.nan)
    tail = expanded_tail(level, degrees)
    with warnings.catch_warnings():  # all draws failed: NaN says so
        warnings.simplefilter("ignore", RuntimeWarning)
        spread = np.nanstd(draws, axis=0, ddof=1)
        low, high = np.nanquantile(draws, [tail, 1 - tail], axis=0)
        if method == "basic":
            plain, ratio = (2 * estimate - high, 2 * estimate - low), (high, low)
            low, high = _ends(plain, [estimate**2 / end for end in ratio], low, log)
        elif method == "normal":
            plain = student_ends(estimate, spread, level, degrees, False)
            width = np.nanstd(np.log(draws), axis=0, ddof=1) * estimate if log else spread
            ratio = student_ends(estimate, width, level, degrees, True)
            low, high = _ends(plain, ratio, np.nanmin(draws, axis=0), log)
        elif method == "bca":
            low, high = bca_ends(estimate, draws, tail, left_out)
        elif method != "percentile":
            hint = nearest(str(method), get_args(Method))
            raise UsageError(
                f"method is one of {', '.join(get_args(Method))}, not {method!r}.{hint}"
            )
    return Interval(estimate, spread, low, high)


def expanded_tail(level: float, degrees: float) -> float:
    """The share of draws beyond either end: that of the normal beyond Student's t."""
    from scipy.special import ndtr, stdtrit

    tail = (1 - level) / 2
    return tail if np.isinf(degrees) else float(ndtr(stdtrit(degrees, tail)))


def _ends(plain: Any, ratio: Any, least: np.ndarray, log: bool) -> tuple[Any, Any]:
    """Ends by the ratio where the least draw has a logarithm, else by the difference."""
    if not log:
        return plain
    low = np.where(least > 0, ratio[0], np.maximum(plain[0], 0.0))
    return low, np.where(least > 0, ratio[1], plain[1])


def bca_ends(
    estimate: np.ndarray, draws: np.ndarray, tail: float, left_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bias-corrected and accelerated ends (Efron 1987; Efron and Tibshirani 1993, ch. 14.3).

    The bias is the share of draws (R, …) below the estimate; the acceleration a sixth of the
    skewness of the estimates with a row or group left out (G, …).
    """
    from scipy.special import ndtr, ndtri

    valid = np.maximum(np.isfinite(draws).sum(axis=0), 1)
    below = (draws < estimate).sum(axis=0) + (draws == estimate).sum(axis=0) / 2
    bias = ndtri(below / valid)
    apart = np.nanmean(left_out, axis=0) - left_out
    acceleration = np.nansum(apart**3, axis=0) / 6 / np.nansum(apart**2, axis=0) ** 1.5
    ends = []
    for normal in ndtri([tail, 1 - tail]):
        share = ndtr(bias + (bias + normal) / (1 - acceleration * (bias + normal)))
        each = zip(draws.reshape(len(draws), -1).T, np.ravel(share), strict=True)
        found = [np.nanquantile(d, q) if np.isfinite(q) else np.nan for d, q in each]
        ends.append(np.reshape(found, np.shape(estimate)))
    return ends[0], ends[1]


def of_parameters(fit: Fit, interval: Callable[[str, bool], Interval]) -> pd.DataFrame:
    """A row a fitted parameter, of its name and whether it is positive by nature."""
    rows = [
        (spec.name, *map(float, interval(spec.name, spec.scale == "log")))
        for spec in fit.law.parameters
        if spec.name not in fit.fixed
    ]
    return pd.DataFrame(rows, columns=["parameter", *COLUMNS])


def at_points(
    fit: Fit, table: Any, inputs: Mapping[str, Any], interval: Callable[[dict], Interval]
) -> pd.DataFrame:
    """A row a point, of the inputs by name, in the runs' units and of one shape."""
    values = fit.checked_inputs(table, inputs)
    arrays = dict(zip(values, np.broadcast_arrays(*values.values()), strict=True))
    columns = dict(zip(COLUMNS, interval(arrays), strict=True))
    return pd.DataFrame({name: np.ravel(v) for name, v in (arrays | columns).items()})


def student_ends(
    estimate: np.ndarray, spread: np.ndarray, level: float, degrees: float, log: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate ± t · spread; of the logarithm, to first order, where ``log``."""
    from scipy.special import stdtrit

    reach = stdtrit(degrees, (1 + level) / 2) * spread
    if log:
        with np.errstate(over="ignore"):  # of what is not known at all the upper end is infinite
            return estimate * np.exp(-reach / estimate), estimate * np.exp(reach / estimate)
    return estimate - reach, estimate + reach
