"""Intervals from draws: percentile, basic, normal (Student's t) and BCa, each once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from jaxlaw._arrays import check_level
from jaxlaw._quantities import written, written_range
from jaxlaw.errors import UsageError, nearest
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw.fitting import Fit

Method = Literal["percentile", "basic", "normal", "bca"]
LEVEL = 0.95  # default confidence level
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
    """Fewest resamples whose extremes reach the tails of an interval (39 for 95 %)."""
    return math.ceil(2 / (1 - level) - 1e-9) - 1


def check_resamples(n_resamples: int) -> None:
    """Refuse a single resample of a plan's own: it has no spread."""
    if n_resamples == 1:
        raise UsageError("one resample has no spread: use 0, for no interval, or hundreds")


def few_resamples_notes(count: int, level: float) -> list[Note]:
    """Whether a plan's own resamples are too few for the tails of its intervals."""
    needed = fewest_for(level)
    if not 0 < count < needed:
        return []
    message = f"{count} resamples do not determine the ends of {level:.0%} intervals: take {needed}"
    return [Note("few-resamples", "warning", f"{message} or more", inherited=False)]


def percentile_interval(
    draws: np.ndarray, confidence_level: float = 0.95, degrees: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Percentiles of draws: the bounds (…) of an interval.

    Args:
        draws: (R, …) draws; NaN does not count, and gives NaN where nothing else is there.
            Infinity may be an answer: what lies halfway to it is not, so that the bounds of such
            a quantity are draws.
        confidence_level: share of such intervals that should hold the truth.
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
    confidence_level: float = 0.95,
    method: Method = "percentile",
    log: bool = False,
    left_out: np.ndarray | None = None,
    degrees: float = np.inf,
) -> Interval:
    """The interval of draws.

    Args:
        estimate: (…) value from the runs as they are.
        draws: (R, …) values; those that are not finite do not count.
        confidence_level: share of such intervals that should hold the truth.
        method: ``percentile``, the draws' own quantiles; ``basic``, these mirrored at the
            estimate; ``normal``, estimate ± t standard errors; ``bca``, quantiles moved for
            the draws' bias and for a spread that changes with the truth.
        log: whether a basic or normal interval is taken of the logarithm. Where draws reach 0
            there is none: it is then taken of the value, and stops at 0.
        left_out: (G, …) estimates without each row or group of rows, for ``bca``.
        degrees: degrees of freedom, as for :func:`percentile_interval`.
    """
    if method not in get_args(Method):
        hint = nearest(str(method), get_args(Method))
        raise UsageError(
            f"method is one of {', '.join(get_args(Method))}, not {method!r}.{hint}",
            argument="method",
            value=method,
        )
    estimate, draws = np.asarray(estimate, float), np.asarray(draws, float)
    draws = np.where(np.isfinite(draws), draws, np.nan)
    low, high = percentile_interval(draws, confidence_level, degrees)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all draws failed: NaN says so
        spread = np.nanstd(draws, axis=0, ddof=1)
        if method == "basic":
            plain, ratio = (2 * estimate - high, 2 * estimate - low), (high, low)
            low, high = _from_zero(plain, [estimate**2 / bound for bound in ratio], low, log)
        elif method == "normal":
            from jaxlaw.fitting import student_interval  # with fits, which plans do without

            plain = student_interval(estimate, spread, confidence_level, degrees, False)
            width = np.nanstd(np.log(draws), axis=0, ddof=1) * estimate if log else spread
            ratio = student_interval(estimate, width, confidence_level, degrees, True)
            low, high = _from_zero(plain, ratio, np.nanmin(draws, axis=0), log)
        elif method == "bca":
            tail = expanded_tail(confidence_level, degrees)
            low, high = _bca_interval(estimate, draws, tail, left_out)
    return Interval(estimate, spread, low, high)


def expanded_tail(confidence_level: float, degrees: float) -> float:
    """The share of draws beyond either bound: that of the normal beyond Student's t."""
    from scipy.special import ndtr, stdtrit

    tail = (1 - confidence_level) / 2
    return tail if np.isinf(degrees) else float(ndtr(stdtrit(degrees, tail)))


def _from_zero(plain: Any, ratio: Any, least: np.ndarray, log: bool) -> tuple[Any, Any]:
    """Bounds by the ratio where the least draw has a logarithm, else by the difference, from 0."""
    if not log:
        return plain
    low = np.where(least > 0, ratio[0], np.maximum(plain[0], 0.0))
    return low, np.where(least > 0, ratio[1], plain[1])


def _bca_interval(
    estimate: np.ndarray, draws: np.ndarray, tail: float, left_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bias-corrected and accelerated bounds (Efron 1987; Efron and Tibshirani 1993, ch. 14.3).

    Percentiles are right where some monotone transform of the estimate is normal about its own
    transform, with one spread. BCa allows two departures. The bias z₀ is Φ⁻¹ of the share of
    draws (R, …) below the estimate: 0 where the estimate is their median. The acceleration a is
    how fast the standard error changes with the truth, in standard errors; to the order that
    matters it is a sixth of the skewness of the estimates with a row or group left out (G, …).
    The quantile taken for z is then Φ(z₀ + (z₀ + z)/(1 − a(z₀ + z))).
    """
    from scipy.special import ndtr, ndtri

    # Draws equal to the estimate count half, or discrete draws (few groups) would seem biased.
    valid = np.maximum(np.isfinite(draws).sum(axis=0), 1)
    below = (draws < estimate).sum(axis=0) + (draws == estimate).sum(axis=0) / 2
    bias = ndtri(below / valid)
    deviation = np.nanmean(left_out, axis=0) - left_out
    acceleration = np.nansum(deviation**3, axis=0) / 6 / np.nansum(deviation**2, axis=0) ** 1.5
    bounds = []
    for normal in ndtri([tail, 1 - tail]):
        share = ndtr(bias + (bias + normal) / (1 - acceleration * (bias + normal)))
        each = zip(draws.reshape(len(draws), -1).T, np.ravel(share), strict=True)
        quantiles = [np.nanquantile(d, q) if np.isfinite(q) else np.nan for d, q in each]
        bounds.append(np.reshape(quantiles, np.shape(estimate)))
    return bounds[0], bounds[1]


def parameter_rows(fit: Fit, interval: Callable[[str, bool], Interval]) -> pd.DataFrame:
    """A row for each fitted parameter; ``interval`` takes its name and whether it is positive."""
    rows = [
        (spec.name, *map(float, interval(spec.name, spec.scale == "log")))
        for spec in fit.law.parameters
        if spec.name not in fit.fixed
    ]
    return pd.DataFrame(rows, columns=["parameter", *COLUMNS])


def with_units(fit: Fit, table: pd.DataFrame) -> pd.DataFrame:
    """A table of parameters with a column of their units, where any has one."""
    units = [fit.quantities[name].unit for name in table["parameter"]]
    return table.assign(unit=units) if any(units) else table


def best_and_least_known(fit: Fit, table: pd.DataFrame, level: float) -> str:
    """Which parameters of :func:`parameter_rows` are known best and least, in words.

    Args:
        fit: the fit.
        table: intervals of its parameters.
        level: confidence level of the intervals.
    """
    known = table[(table["std_err"] > 0) & np.isfinite(table["std_err"])]
    if known.empty:
        return "no parameter has a standard error"
    relative = (known["std_err"] / known["estimate"].abs()).to_numpy()
    best, least = int(relative.argmin()), int(relative.argmax())
    row = known.iloc[best]
    name, unit = row["parameter"], fit.quantities[row["parameter"]].unit
    between = written_range(row["low"], row["high"], unit)
    sentence = (
        f"{name} {written(row['estimate'], unit)} ({100 * level:g} %: {between}) is known best"
    )
    if least == best:
        return sentence
    return f"{sentence}, {known.iloc[least]['parameter']} least (±{100 * relative[least]:.2g} %)"


def point_rows(
    fit: Fit, table: Any, inputs: Mapping[str, Any], interval: Callable[[dict], Interval]
) -> pd.DataFrame:
    """A row for each point; ``interval`` takes the inputs, of one shape and in the runs' units."""
    values = fit.checked_inputs(table, inputs)
    arrays = dict(zip(values, np.broadcast_arrays(*values.values()), strict=True))
    columns = dict(zip(COLUMNS, interval(arrays), strict=True))
    return pd.DataFrame({name: np.ravel(v) for name, v in (arrays | columns).items()})


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
