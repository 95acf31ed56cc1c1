"""Plots of back-tests and forecasts: errors over distance, intervals beyond the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

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
    with_interval,
    write,
)
from jaxlaw._quantities import exponential, written
from jaxlaw._typed import checked
from jaxlaw.fitting import runs_for
from jaxlaw.forecasting import Backtest, Forecast, ForecastScores, LeaveFutureOut, compute_of

_BEFORE = 10.0  # times less than the first point, where curves begin without runs
_FINE = 120  # points of a curve
_CROWDED = 12  # bars of one forecast, above which they are thin
_NUMBERED = 3  # points that have their numbers beside them
_SHOWN = 0.05  # weight of a law from which on its own prediction is drawn


@checked
def backtest_errors(backtest: Backtest, ax: Axes | None = None) -> Axes:
    """Observed over predicted, by the distance from the cut-off, a dot a cut-off and run.

    The line of a law is through the means of its cut-offs, each at its mean distance.

    Args:
        backtest: a result of :func:`jaxlaw.backtest`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> backtest = jl.backtest("chinchilla", runs, cutoffs=3, n_starts=64)
        >>> plots.backtest_errors(backtest).get_ylabel()
        'observed − predicted loss (%)'
    """
    ax = ax or new_axes()
    frame = backtest.frame[~backtest.frame["naive"]]
    laws = list(frame["law"].unique())
    end_labels = []
    for law, color in zip(laws, shades(len(laws)), strict=True):
        rows = frame[(frame["law"] == law) & np.isfinite(frame["error"])]
        # As residuals are drawn: what was observed, relative to what was predicted.
        rows = rows.assign(error=1 / (1 + rows["error"]) - 1)
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
        f"observed − predicted {backtest.target} (%)",
        f"{len(backtest.cutoffs)} cut-offs; lines: means of cut-offs",
        end_labels,
        margins={"x": 0.02, "y": 0.05},
        log_x={},
    )


@checked
def forecast_intervals(forecast: Forecast, ax: Axes | None = None, *, later: Any = None) -> Axes:
    """The runs, beyond them every forecast with its intervals, and each law's curve there.

    Thin bars are intervals at the forecast's level, thick ones hold half of new runs. Over compute
    the curves go through the farthest point with its tokens per parameter; along an input, with
    the other inputs of that point. Striped is what lies beyond the runs.

    Args:
        forecast: a result of :func:`jaxlaw.forecast`, or a file of one.
        ax: axes to draw on; a new figure if None.
        later: runs that were made since, as :func:`jaxlaw.read_runs` takes or returns them, with
            the inputs and the target of the forecast, in its units.

    Raises:
        DataError: the later runs lack an input or the target.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> forecast = jl.forecast("chinchilla", runs, at={"N": 1e10, "D": 4e11}, n_starts=64)
        >>> plots.forecast_intervals(forecast).get_ylabel()
        'loss (nats)'
    """
    ax = ax or new_axes()
    x, label, largest = _positions(forecast)
    seen = forecast.observed.get("along", np.empty(0)) / largest
    there = seen > 0
    dots(ax, seen[there], forecast.observed.get("target", seen)[there], color=FAINT)
    end_labels = _curves_of_laws(ax, forecast, x, seen[there])
    _bars(ax, forecast, x)
    if later is not None:
        at, target = _made_since(forecast, later, largest)
        ax.scatter(at, target, s=22, facecolors="white", edgecolors=INK, linewidths=1.0, zorder=5)
        first = at <= 1.2 * at.min()  # budgets are rounded
        write(ax, "came later", (at.min(), target[first].max()), xytext=(0, 7), ha="center")
    words = {"compute": "training compute (FLOPs)", "D": "tokens", "N": "model parameters N"}
    finish(
        ax,
        words.get(label, label),
        f"{forecast.target}{_unit(forecast)}",
        f"{forecast.level:.0%} interval of a new run (thick: 50%)",
        end_labels,
        margins={"x": 0.04, "y": 0.08},
        log_x=_ticks(forecast, label),
    )
    if there.any() and stripe_outside(ax, seen[there].min(), seen[there].max(), ""):
        words = f"{ax.get_title()}\n{_ratio(forecast, x)}striped: beyond the runs"
        ax.set_title(words, fontsize="medium", color=INK)
    return ax


def _ratio(forecast: Forecast, x: np.ndarray) -> str:
    """At how many tokens a parameter the curves of laws are drawn; runs may have others."""
    if forecast.along != "compute" or not {"N", "D"} <= set(forecast.inputs):
        return ""
    row = forecast.table.iloc[int(np.argmax(x))]
    tokens, size = (row[name] * forecast.units.get(name, 1.0) for name in ("D", "N"))
    return f"curves: laws at {exponential(tokens / size)} tokens a parameter; "


def _unit(forecast: Forecast) -> str:
    """The unit of the target, in parentheses, where the laws know it."""
    unit = next((fit.target_unit for fit in forecast.fits.values()), "")
    return f" ({unit})" * bool(unit)


def _ticks(forecast: Forecast, label: str) -> dict[str, Any]:
    counted = label in ("N", "D", "Dp")
    return {"words": counted, "single": forecast.units.get(label, 1.0) if counted else 1.0}


def _bars(ax: Axes, forecast: Forecast, x: np.ndarray) -> None:
    """The forecasts, and their numbers where they are few."""
    table, (low, high) = forecast.table, forecast.interval(0.5)
    # Above runs that came later, which lie where the bars are.
    ax.vlines(x, table["low"], table["high"], color=BLUE, linewidth=1.6, zorder=6)
    ax.vlines(x, low, high, color=BLUE, linewidth=5, alpha=0.7, zorder=6)
    ax.plot(x, table["estimate"], "o", color=BLUE, markersize=5, zorder=6)
    if len(table) > _NUMBERED:
        return
    for at, row in zip(x, table.itertuples(), strict=True):
        text = f"forecast {with_interval(row.estimate, (row.low, row.high), '.4g')}"
        # Losses fall to the right: below the curves on the left there is room.
        answer(ax, at, row.estimate, text, color=BLUE, s=20, zorder=6, ha="right", va="top",
               xytext=(-8, -8))  # fmt: skip


def _curves_of_laws(
    ax: Axes, forecast: Forecast, x: np.ndarray, seen: np.ndarray
) -> list[tuple[float, str, Any]]:
    """Each law that counts, along a path through the farthest point; ends of the curves."""
    far, table = int(np.argmax(x)), forecast.table
    point = {name: float(table[name].iloc[far]) for name in forecast.inputs}
    first = seen.min() if seen.size else x.min() / _BEFORE  # where nobody knows the runs
    along = np.geomspace(min(first, x.min()), max(x.max(), first), _FINE)
    if forecast.along == "compute" and {"N", "D"} <= set(point):
        step = np.sqrt(along / x[far])
        path = point | {"N": point["N"] * step, "D": point["D"] * step}
    elif forecast.along in point:
        path = point | {forecast.along: along}
    else:
        return []
    shown = [k for k, w in forecast.weights.items() if (w > _SHOWN).any()]
    shown.sort(key=lambda law: -forecast.weights[law].mean())
    end_labels = []
    for law, color in zip(shown, shades(len(shown))[::-1], strict=True):
        fit = forecast.fits[law]
        inputs = {name: np.broadcast_to(path[name], along.shape) for name in fit.law.input_names}
        values = {"y": fit.predict(fit.law.labelled(inputs))}
        name = f"{law} {forecast.weights[law].mean():.0%}"
        end_labels.append(curve(ax, values, along, "y", color, name, 1.1))
    return end_labels


def _made_since(forecast: Forecast, later: Any, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Where runs that were made since lie, and their targets."""
    inputs: dict[str, np.ndarray] = {}
    for fit in forecast.fits.values():
        observed = runs_for(fit, later).observations(fit.law, free=())
        inputs |= {name: values / fit.units[name] for name, values in observed.inputs.items()}
    return _along(forecast, inputs)[0] / largest, observed.target


@checked
def leave_future_out(said: LeaveFutureOut, ax: Axes | None = None) -> Axes:
    """What the first runs said, forecast by forecast, with intervals, and what came.

    Of up to three points the predictions themselves, with a line where the run came, or the point
    where it has not; of more, how far they were off, the farther from the runs the darker.

    Args:
        said: a result of :func:`jaxlaw.forecasting.leave_future_out`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.004).table
        >>> few = runs[runs["D"] == 20 * runs["N"]].iloc[:5]
        >>> said = jl.forecasting.leave_future_out("chinchilla", few, ahead=1)
        >>> plots.leave_future_out(said).get_xlabel()
        'number of first runs'
    """
    ax = ax or new_axes()
    table, inputs = said.table, next(iter(said.forecasts.values())).inputs
    points, counts = table[inputs].drop_duplicates(), np.sort(table["n_runs"].unique())
    few = len(points) <= _NUMBERED
    if few:
        order = table.groupby(inputs, sort=False).ngroup().to_numpy()
        values = table[["low", "estimate", "high"]]
        shown = [(float(y), f"came: {y:.4g}", INK) for y in table["observed"].dropna().unique()]
        label = f"{said.target}{_unit(next(iter(said.forecasts.values())))}"
    else:
        table = table[table["observed"].notna()]
        order = table["distance"].rank(method="first").to_numpy(int) - 1
        values = 100 * (table[["low", "estimate", "high"]].div(table["observed"], axis=0) - 1)
        shown, label = [(0.0, "came", INK)], f"predicted over observed {said.target} (%)"
    colors = np.array(shades(len(points) if few else len(table)))[order]
    # The points of one forecast stand beside each other, in the order in which the runs came.
    of_count = table.groupby("n_runs")["n_runs"]
    size = of_count.transform("size")
    beside = (of_count.rank("first") - (size + 1) / 2) / size.max()
    x = np.searchsorted(counts, table["n_runs"]) + 0.6 * beside.to_numpy()
    width = 1.8 if size.max() <= _CROWDED else 0.7
    ax.vlines(x, values["low"], values["high"], color=colors, linewidth=width)
    ax.scatter(x, values["estimate"], color=colors, s=12 * width, zorder=4)
    for value, *_ in shown:
        ax.axhline(value, color=INK, linewidth=0.9)
    to_come = points.index[table["observed"].isna().loc[points.index]] if few else ()
    for k in to_come:
        where = [f"{name} {written(table[name][k], *said.unit_of(name))}" for name in inputs]
        last = np.flatnonzero(order == order[k])[-1]
        shown.append((values["estimate"].iloc[last], "\n".join(where), colors[last]))
    ax.set_xticks(range(len(counts)), [f"{n}" for n in counts])
    ax.set_xlim(-0.6, len(counts) - 0.4)
    title = f"{said.level:.0%} intervals of runs that were still to come"
    return finish(ax, "number of first runs", label, title, shown, margins={"y": 0.08})


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
        >>> forecast = jl.forecast("chinchilla", before, later[["N", "D"]], n_starts=64)
        >>> plots.forecast_calibration(jl.forecasting.score(forecast, later)).get_xlabel()
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


def _positions(forecast: Forecast) -> tuple[np.ndarray, str, float]:
    """Where the points lie, on what, and how many of the runs' own numbers one of it is."""
    table = forecast.table
    at, label = _along(forecast, {name: table[name].to_numpy(float) for name in forecast.inputs})
    if label:
        return at, label, 1.0
    largest = float(np.max(forecast.observed.get("along", [1.0])))
    return np.exp(table["distance"].to_numpy(float)), "ratio to the largest run", largest


def _along(forecast: Forecast, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """What distances are of, at some inputs, and its name; empty of a function of the user's."""
    if forecast.along == "compute":
        raw = {name: values * forecast.units.get(name, 1.0) for name, values in inputs.items()}
        return np.asarray(compute_of(raw, "the forecast")), "compute"
    if forecast.along in inputs:
        return np.asarray(inputs[forecast.along], float), forecast.along
    return np.empty(0), ""
