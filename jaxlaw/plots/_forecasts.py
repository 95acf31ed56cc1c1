"""Plots of back-tests and forecasts: errors over distance, intervals beyond the runs."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from jaxlaw._axes import BLUE, FAINT, INK, RED, dots, finish, new_axes, shades
from jaxlaw._typed import checked
from jaxlaw.forecasting import Backtest, Forecast, ForecastScores, compute_of

_SHOWN = 0.05  # weight of a law from which on its own prediction is drawn


@checked
def backtest_errors(backtest: Backtest, ax: Axes | None = None) -> Axes:
    """Relative errors over the distance from the cut-off, law by law, a dot a cut-off and run.

    The line of a law is through the means of its cut-offs, each at its mean distance.

    Args:
        backtest: a result of :func:`jaxlaw.backtest`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> found = jl.backtest("chinchilla", runs, cutoffs=3, n_starts=64)
        >>> plots.backtest_errors(found).get_ylabel()
        'predicted over observed loss, less 1 (%)'
    """
    ax = ax or new_axes()
    frame = backtest.frame[~backtest.frame["naive"]]
    laws = list(frame["law"].unique())
    end_labels = []
    for law, color in zip(laws, shades(len(laws)), strict=True):
        rows = frame[(frame["law"] == law) & np.isfinite(frame["error"])]
        dots(ax, np.exp(rows["distance"]), 100 * rows["error"], color=[color])
        by_cutoff = rows.groupby("cutoff")[["distance", "error"]].mean().sort_values("distance")
        if by_cutoff.empty:
            continue
        ax.plot(np.exp(by_cutoff["distance"]), 100 * by_cutoff["error"], color=color, marker="o",
                markersize=4)  # fmt: skip
        end_labels.append((float(100 * by_cutoff["error"].iloc[-1]), law, color))
    ax.axhline(0, color=INK, linewidth=0.9)
    return finish(
        ax,
        f"{backtest.along} over that of the cut-off",
        f"predicted over observed {backtest.target}, less 1 (%)",
        f"{len(backtest.cutoffs)} cut-offs; lines: means of cut-offs",
        end_labels,
        margins={"x": 0.02, "y": 0.05},
        log_x={"words": False},
    )


@checked
def forecast_intervals(forecast: Forecast, ax: Axes | None = None) -> Axes:
    """The runs, and beyond them every forecast with its intervals and what each law says alone.

    Thin bars are intervals at the forecast's level, thick ones hold half of new runs; ticks are
    the predictions of single laws.

    Args:
        forecast: a result of :func:`jaxlaw.forecast`; runs are drawn where it has its back-test.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> found = jl.forecast("chinchilla", runs, at={"N": 1e10, "D": 4e11}, n_starts=64)
        >>> plots.forecast_intervals(found).get_ylabel()
        'loss'
    """
    ax = ax or new_axes()
    x, label = _positions(forecast)
    table = forecast.table
    if forecast.backtest is not None and forecast.along == label:
        fits = forecast.backtest.fits
        active = (fits.weight > 0) & (fits.z > 0)
        dots(ax, fits.z[active], fits.observed[active], color=FAINT)
    low, high = forecast.interval(0.5)
    ax.vlines(x, table["low"], table["high"], color=BLUE, linewidth=1.2)
    ax.vlines(x, low, high, color=BLUE, linewidth=4, alpha=0.6)
    ax.plot(x, table["estimate"], "o", color=BLUE, markersize=5, zorder=4)
    named = {law for law, weights in forecast.weights.items() if (weights > _SHOWN).any()}
    for law, fit in forecast.fits.items():
        if law in named:
            alone = fit.predict(fit.law.labelled(table))
            ax.plot(x, alone, "_", color=RED, markersize=9, zorder=5)
    return finish(
        ax,
        label,
        forecast.target,
        f"{forecast.level:.0%} and 50% intervals for a new run; ticks: single laws",
        margins={"x": 0.06, "y": 0.06},
        log_x={"words": False},
    )


@checked
def forecast_calibration(scores: ForecastScores, ax: Axes | None = None) -> Axes:
    """The share of runs inside their intervals over the level of these: on the line, if they hold.

    The band is where the share lies nine times in ten if every forecast holds as it says, by
    chance alone; each forecast counts once, since its runs err together.

    Args:
        scores: a result of :func:`jaxlaw.forecasting.score`, best of many forecasts.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> table = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> before, later = table[table["D"] < 5e10], table[table["D"] >= 5e10]
        >>> found = jl.forecast("chinchilla", before, later[["N", "D"]], n_starts=64)
        >>> plots.forecast_calibration(jl.forecasting.score(found, later)).get_xlabel()
        'level of the interval (%)'
    """
    ax = ax or new_axes()
    levels = np.linspace(0, 1, 201)
    least_level = np.sort(np.abs(2 * scores.table["below"].to_numpy() - 1))
    inside = np.searchsorted(least_level, levels, side="right") / len(least_level)
    count = scores.table["forecast"].nunique()
    low, high = (stats.binom.ppf(share, count, levels) / count for share in (0.05, 0.95))
    ax.fill_between(100 * levels, 100 * low, 100 * high, color=FAINT, alpha=0.5, linewidth=0)
    ax.plot([0, 100], [0, 100], color=INK, linewidth=0.9)
    ax.plot(100 * levels, 100 * inside, color=BLUE)
    return finish(
        ax,
        "level of the interval (%)",
        "runs inside (%)",
        f"{len(least_level)} runs of {count} forecast{'' if count == 1 else 's'}; band: chance",
        margins={"x": 0.0, "y": 0.02},
    )


def _positions(forecast: Forecast) -> tuple[np.ndarray, str]:
    """Where the points lie, and on what."""
    table = forecast.table
    if forecast.along == "compute":
        raw = {name: table[name] * forecast.units.get(name, 1.0) for name in forecast.inputs}
        return np.asarray(compute_of(raw, "the forecast")), "compute"
    if forecast.along in table:
        return table[forecast.along].to_numpy(float), forecast.along
    return np.exp(table["distance"].to_numpy(float)), "ratio to the largest run"
