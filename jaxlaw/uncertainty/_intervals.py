"""Intervals from draws: percentiles, as far out as Student's t where the spread is known roughly.

Basic intervals held the truth in 87 to 94% where they were called 95% (``benchmarks/
interval_coverage.md``), percentiles from ten rows on in 92 to 100%.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from jaxlaw._arrays import LEVEL, check_level
from jaxlaw._quantities import written, written_range
from jaxlaw._result import Result
from jaxlaw.notes import Note

#: Names of the fields of an :class:`Interval` in tables.
COLUMNS = ("estimate", "std_err", "low", "high")


class Interval(NamedTuple):
    """Estimate, standard error and interval of a quantity; arrays of its shape.

    Attributes:
        estimate: value from the runs as they are.
        std_err: standard error, the standard deviation over the draws.
        low, high: bounds of the interval.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> cov = jl.covariance("chinchilla", table)
        >>> ratio = cov.interval(lambda params: params["alpha"] / params["beta"])
        >>> bool(ratio.low < ratio.estimate < ratio.high)
        True
    """

    estimate: Any
    std_err: Any
    low: Any
    high: Any


def fewest_for(level: float) -> int:
    """Fewest resamples whose extremes reach the tails of an interval (19 for 90%)."""
    return math.ceil(2 / (1 - level) - 1e-9) - 1


def few_resamples_notes(count: int, level: float) -> list[Note]:
    """Whether a plan's own resamples are too few for the tails of its intervals."""
    needed = fewest_for(level)
    if not 0 < count < needed:
        return []
    message = f"{count} resamples do not determine the ends of {level:.0%} intervals: take {needed}"
    return [Note("few-resamples", "warning", f"{message} or more", inherited=False)]


def percentile_interval(
    draws: np.ndarray, confidence_level: float = LEVEL, degrees: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Percentiles of draws: the bounds (…) of an interval.

    Args:
        draws: (R, …) draws; NaN does not count, and gives NaN where nothing else is there.
            Infinity may be an answer: what lies halfway to it is not, so that the bounds of such
            a quantity are draws.
        confidence_level: fraction of such intervals that should hold the truth.
        degrees: degrees of freedom with which the spread of the draws is known
            (:attr:`jaxlaw.Bootstrap.degrees`): percentiles lie as far out as Student's t is
            beyond the normal, at the level 2Φ(t) − 1 (Hesterberg 2015, "expanded percentiles").
    """
    check_level(confidence_level)
    draws, tail = np.asarray(draws, float), expanded_tail(confidence_level, degrees)
    infinite = np.isinf(draws).any(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN says that there are no draws
        bounds = np.nanquantile(draws, [tail, 1 - tail], axis=0)
        if infinite.any():
            nearest_draws = np.nanquantile(draws, [tail, 1 - tail], axis=0, method="nearest")
            bounds = np.where(infinite, nearest_draws, bounds)
    return bounds[0], bounds[1]


def interval_of(
    estimate: np.ndarray | float,
    draws: np.ndarray,
    confidence_level: float = LEVEL,
    degrees: float = np.inf,
) -> Interval:
    """The interval of draws.

    Args:
        estimate: (…) value from the runs as they are.
        draws: (R, …) values; those that are not finite do not count.
        confidence_level, degrees: as for :func:`percentile_interval`.
    """
    draws = np.asarray(draws, float)
    draws = np.where(np.isfinite(draws), draws, np.nan)
    low, high = percentile_interval(draws, confidence_level, degrees)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all draws failed: NaN says so
        spread = np.nanstd(draws, axis=0, ddof=1)
    return Interval(np.asarray(estimate, float), spread, low, high)


def expanded_tail(confidence_level: float, degrees: float) -> float:
    """The fraction of draws beyond either bound: that of the normal beyond Student's t."""
    tail = (1 - confidence_level) / 2
    return tail if np.isinf(degrees) else float(ndtr(stdtrit(degrees, tail)))


class ParameterIntervals(Result):
    """A result of ``fit``, an interval of each of whose parameters ``conf_int`` has."""

    fit: Any
    picture = "parameter_intervals"
    conf_int: Callable[..., pd.DataFrame]  # one row per parameter: ``parameter`` and COLUMNS
    how: Callable[[], str]  # how the intervals were made, in words

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The intervals of the parameters."""
        return {"parameters": self.conf_int()}

    def shown(self) -> dict[str, pd.DataFrame]:
        """The intervals, with the units of the parameters."""
        table = self.conf_int()
        units = [self.fit.quantities[name].unit for name in table["parameter"]]
        return {"parameters": table.assign(unit=units) if any(units) else table}

    @property
    def headline(self) -> str:
        """The kind of intervals, and the parameters best and least determined."""
        start, table = f"{self.fit.law.name}, {self.how()}; ", self.conf_int()
        spread = table["std_err"].astype(float)  # of no row it has no type
        known = table[spread.between(0, np.inf, inclusive="neither")]
        if known.empty:
            return f"{start}no parameter has a standard error"
        known = known.assign(error=known["std_err"] / known["estimate"].abs()).sort_values("error")
        best, least = known.iloc[0], known.iloc[-1]
        unit = self.fit.quantities[best["parameter"]].unit
        start += (
            f"best determined: {best['parameter']} {written(best['estimate'], unit)} "
            f"({LEVEL:.0%}: {written_range(best['low'], best['high'], unit)})"
        )
        if len(known) == 1:
            return start
        signed = self.fit.law.parameter(least["parameter"]).domain == "signed"
        if least["error"] > 1 and not signed:
            return f"{start}; not identified: {least['parameter']}"
        return f"{start}; least: {least['parameter']} (±{100 * least['error']:.2g}%)"


def intervals(
    values: Mapping[str, np.ndarray], level: float, degrees: float = math.inf
) -> dict[str, tuple[float, float]]:
    """Percentile interval of each quantity's (1 + R,) values, where a draw has an answer."""
    bounds = {}
    for name, column in values.items():
        draws = np.asarray(column, float)[1:]
        if not np.isnan(draws).all():
            low, high = percentile_interval(draws, level, degrees)
            bounds[name] = float(low), float(high)
    return bounds


def interval_columns(
    name: str, values: np.ndarray, level: float, degrees: float = math.inf
) -> dict[str, np.ndarray]:
    """Columns of a table from (1 + R, rows) values: the fit's own, and bounds of the draws'."""
    columns = {name: values[0]}
    if len(values) > 1:
        low, high = percentile_interval(values[1:], level, degrees)
        columns |= {f"{name}_low": low, f"{name}_high": high}
    return columns
