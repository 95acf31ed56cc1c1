"""Plots of backtests and forecasts: errors over distance, intervals beyond the runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    answer,
    curve,
    dots,
    finish,
    new_axes,
    shades,
    stripe_outside,
    target_label,
    with_interval,
    write,
)
from jaxlaw._typed import checked
from jaxlaw.fitting import predict_each
from jaxlaw.forecasting import Backtest, Forecast
from jaxlaw.laws import growing_inputs, without_misfit
from jaxlaw.plots._fits import seen_by

_FINE = 120  # points of a curve
_NUMBERED = 3  # points that have their numbers beside them
_WORDS = {"C": "training compute (FLOPs)", "D": "tokens", "N": "model parameters N"}


@checked
def backtest_errors(backtest: Backtest, ax: Axes | None = None) -> Axes:
    """Observed over predicted, by the distance beyond the fitted runs, a dot a forecast and run.

    Lines are the 5 to 95% ranges that the forecasts gave; a run on its line was inside.

    Args:
        backtest: a result of :func:`jaxlaw.backtest`, or of :meth:`jaxlaw.Forecast.score`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> plots.backtest_errors(jl.backtest(runs, cutoffs=3)).get_ylabel()
        'observed − predicted loss (%)'
    """
    ax, frame = ax or new_axes(), backtest.frame
    each = frame.groupby("forecast", sort=False)
    for (_, rows), color in zip(each, shades(each.ngroups), strict=True):
        x = np.exp(rows["distance"])
        low, high = (100 * (rows[side] / rows["estimate"] - 1) for side in ("low", "high"))
        ax.vlines(x, low, high, color=color, linewidth=0.8, alpha=0.35)
        dots(ax, x, 100 * (rows["observed"] / rows["estimate"] - 1), color=[color])
    ax.axhline(0, color=INK, linewidth=0.9)
    return finish(
        ax,
        "compute over the largest run fitted" if backtest.along in ("", "compute")
        else f"{backtest.along} over that of the cutoff",
        f"observed − predicted {backtest.target} (%)",
        f"{each.ngroups} forecasts, {int(frame['inside'].sum())} of {len(frame)} runs inside; "
        f"lines: {backtest.level:.0%} intervals",
        margins={"x": 0.02, "y": 0.05},
        log_x={},
    )  # fmt: skip


@checked
def forecast_intervals(forecast: Forecast, ax: Axes | None = None, *, later: Any = None) -> Axes:
    """The runs, beyond them every forecast with its intervals, and the law's curve there.

    Thin bars are intervals at the forecast's level, thick ones hold half of new runs. The curve
    goes through the farthest point, of N and D at its tokens per parameter; its band holds the law
    and its misfit, without run-to-run noise. Striped is what lies beyond the runs.

    Args:
        forecast: a result of :func:`jaxlaw.forecast`, or a file of one.
        ax: axes to draw on; a new figure if None.
        later: runs that were made since, as :func:`jaxlaw.read_runs` takes or returns them, with
            the inputs and the target of the forecast, in its units; those that it was made from
            are drawn once.

    Raises:
        DataError: the later runs lack an input or the target.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> forecast = jl.forecast(runs, at={"N": 1e10, "D": 4e11})
        >>> plots.forecast_intervals(forecast).get_ylabel()
        'loss (nats)'
    """
    ax, fit = ax or new_axes(), forecast.posterior.fit
    names = growing_inputs(fit.law) or fit.law.input_names[:1]
    x, seen = _sizes(forecast, names, forecast.table), _sizes(forecast, names, forecast.observed)
    dots(ax, seen, forecast.observed[forecast.target], color=FAINT)
    # The draws' median and band along a path through the farthest point.
    far, draws = int(np.argmax(x)), forecast.posterior
    along = np.geomspace(min(seen.min(), x.min()), max(x.max(), seen.max()), _FINE)
    inputs = {}
    for spec in draws.law.inputs:
        at = forecast.table[spec.name].iloc[far]
        value = float(spec.codes([at])[0]) if spec.levels else float(at)
        step = (along / x[far]) ** (1 / len(names)) if spec.name in names else np.ones(_FINE)
        inputs[spec.name] = value * step * draws.units.get(spec.name, 1.0)
    ends = [(1 - forecast.level) / 2, 0.5, (1 + forecast.level) / 2]
    low, middle, high = np.quantile(predict_each(draws.law, draws.params, inputs), ends, axis=0)
    law = without_misfit(draws.law).name
    band = {"y": middle, "y_low": low, "y_high": high}
    label = curve(ax, band, along, "y", INK, law, 1.1)
    # The forecasts, above runs that came later, which lie where their bars are.
    table, (low, high) = forecast.table, forecast.interval(0.5)
    ax.vlines(x, table["low"], table["high"], color=BLUE, linewidth=1.6, zorder=6)
    ax.vlines(x, low, high, color=BLUE, linewidth=5, alpha=0.7, zorder=6)
    ax.plot(x, table["estimate"], "o", color=BLUE, markersize=5, zorder=6)
    for at, row in zip(x, table.itertuples(), strict=True) if len(table) <= _NUMBERED else ():
        text = f"forecast {with_interval(row.estimate, (row.low, row.high), '.4g')}"
        # Losses fall to the right: below the curves on the left there is room.
        answer(ax, at, row.estimate, text, color=BLUE, s=20, zorder=6, ha="right", va="top",
               xytext=(-8, -8))  # fmt: skip
    if later is not None:
        own, losses, _ = seen_by(fit, later)
        at = _sizes(forecast, names, own)
        known = forecast.observed[forecast.target].to_numpy(float)
        new = ~np.isclose(losses[:, None], known, rtol=1e-12).any(axis=1)
        at, losses = at[new], losses[new]
        ax.scatter(at, losses, s=22, facecolors="white", edgecolors=INK, zorder=5)
        if new.any():
            height = losses[at <= 1.2 * at.min()].max()  # budgets are rounded
            write(ax, "came later", (at.min(), height), xytext=(0, 7), ha="center")
    counted = len(names) == 1 and names[0] in ("N", "D", "Dp")
    title = f"{forecast.level:.0%} interval of a new run (thick: 50%)"
    name = "C" if len(names) > 1 else names[0]
    finish(
        ax, _WORDS.get(name, name), target_label(fit), title, [label],
        margins={"x": 0.04, "y": 0.08}, log_x={"words": counted},
    )  # fmt: skip
    if stripe_outside(ax, seen.min(), seen.max(), ""):
        ax.set_title(f"{title}\nstriped: beyond the runs", fontsize="medium", color=INK)
    return ax


def _sizes(forecast: Forecast, names: tuple[str, ...], table: Any) -> np.ndarray:
    """(m,) FLOPs of runs of N and D, or the one input that they grow by, in single things."""
    sizes = [np.asarray(table[name], float) * forecast.posterior.scale(name) for name in names]
    return 6 * sizes[0] * sizes[1] if len(sizes) > 1 else sizes[0]
