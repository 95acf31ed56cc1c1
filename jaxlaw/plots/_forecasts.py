"""Plots of backtests and forecasts: errors over distance, intervals beyond the runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    curve,
    distinct,
    dots,
    finish,
    input_label,
    log_axis,
    new_axes,
    panel_below,
    rate_axis,
    shade_outside,
    shades,
    target_label,
    value_label,
    what_is_drawn,
    write,
)
from jaxlaw._quantities import written
from jaxlaw._typed import checked
from jaxlaw.forecasting import Backtest, Forecast
from jaxlaw.forecasting._question import interval_at, logs_of, quantiles_of
from jaxlaw.laws import growing_inputs, without_misfit
from jaxlaw.plots._fits import seen_by

_FINE = 120  # points of a curve
_NUMBERED = 3  # points that have their numbers beside them
_RATIOS = 5  # curves at tokens per parameter of the runs
_SAME = 0.1  # ratios closer than that, in logs, are one


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
    ax.margins(x=0.02, y=0.05)
    log_axis(ax.xaxis)
    return finish(
        ax,
        "compute over the largest run fitted" if backtest.along in ("", "compute")
        else f"{backtest.along} over that of the cutoff",
        f"observed − predicted {backtest.target} (%)",
        f"{each.ngroups} forecasts, {int(frame['inside'].sum())} of {len(frame)} runs inside; "
        f"lines: {backtest.level:.0%} intervals",
    )  # fmt: skip


@checked
def forecast_intervals(forecast: Forecast, ax: Axes | None = None, *, later: Any = None) -> Axes:
    """The runs, the forecasts beyond them, and the band of new runs from the largest run on.

    Bars are the intervals of new runs. The band is that interval along the way from the largest
    run to the farthest forecast, of N and D at its tokens per parameter. Runs have a colour by
    their own tokens per parameter, with the law's median there as a thin curve. Shaded is what
    lies beyond the runs. Inputs by which runs do not grow are those of the farthest forecast: runs
    that have others are grey.

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
    draws, table, runs = forecast.posterior, forecast.table, forecast.observed
    ax, fit, losses = ax or new_axes(), draws.fit, runs[forecast.target].to_numpy(float)
    specs = fit.law.specs
    names = growing_inputs(fit.law) or fit.law.input_names[:1]
    x, seen = _sizes(forecast, names, table), _sizes(forecast, names, runs)
    far, single = int(np.argmax(x)), {name: draws.scale(name) for name in names}
    target, down = table.iloc[far], fit.law.better == "low"
    # A size that the forecast shares with every run stays, and tokens alone grow, or the reverse.
    moving = [name for name in names if not np.isclose(runs[name], target[name]).all()] or names

    def logs_along(sizes, ratio=1.0):
        """(R, k) logs of the target at sizes (k,), at so many times its tokens per parameter."""
        steps = [growth := sizes / x[far]]
        if len(moving) > 1:
            steps = [np.sqrt(growth / ratio), np.sqrt(growth * ratio)]
        points = {name: np.full(len(sizes), target[name]) for name in forecast.inputs}
        points |= {n: target[n] * step for n, step in zip(moving, steps, strict=True)}
        return logs_of(draws, points)

    # The runs, by their ratio, and the law at each ratio over what was run.
    others = [name for name in forecast.inputs if name not in names]
    here = (runs[others] == target[others]).all(axis=1).to_numpy()
    first, last = moving[0], moving[-1]  # the same one where one moves alone: a ratio of 1
    of_run, of_target = (
        one[last] * single[last] / (one[first] * single[first]) for one in (runs, target)
    )
    ratio = (of_run / of_target).to_numpy(float)
    known = distinct(np.log(ratio[here]), _SAME, _RATIOS, _RATIOS) if here.any() else np.zeros(1)
    ramp = shades(len(known))
    colors = np.stack([np.interp(np.log(ratio), known, c) for c in np.transpose(ramp)], axis=1)
    dots(ax, seen[~here], losses[~here], color=FAINT, alpha=0.4)
    dots(ax, seen[here], losses[here], color=colors[here], zorder=3)
    over = np.geomspace(seen.min(), seen.max(), _FINE)
    for part, color in zip(np.exp(known), ramp, strict=True):
        line = np.exp(np.median(logs_along(over, part), axis=0))
        name = f"{float(f'{part * of_target:.3g}'):,g}"
        ax.plot(over, line, color=color, linewidth=0.9, label=name)
    # From the largest run to the farthest forecast, which may be within the runs.
    start = seen.max() if x[far] > seen.max() else seen.min()
    along = np.geomspace(start, x[far], _FINE)
    logs = logs_along(along)
    low, high = interval_at(quantiles_of(logs, draws.sigma, 0), forecast.level)
    ax.plot(along, np.exp(np.median(logs, axis=0)), color=BLUE, linewidth=1.6)
    ax.fill_between(along, low, high, color=BLUE, alpha=0.2, linewidth=0)
    # The forecasts, above runs that came later, which lie where their bars are.
    ax.vlines(x, table["low"], table["high"], color=BLUE, linewidth=2, zorder=6)
    ax.plot(x, table["estimate"], "o", color=BLUE, markersize=5, zorder=6)
    new = np.zeros(0, bool)
    if later is not None:
        own, came, _ = seen_by(fit, later)
        new = ~np.isclose(came[:, None], losses, rtol=1e-12).any(axis=1)
        ax.scatter(_sizes(forecast, names, own)[new], came[new], s=22, facecolors="white",
                   edgecolors=INK, zorder=5)  # fmt: skip
    ax.margins(x=0.04, y=0.08)
    log_axis(ax.xaxis, words=len(names) == 1 and specs[names[0]].counts not in ("", "FLOPs"))
    if len(moving) > 1:
        ax.legend(loc="upper right" if down else "lower right", title="tokens/parameter",
                  frameon=False, fontsize="small", title_fontsize="small")  # fmt: skip
    shaded = shade_outside(ax, seen.min(), seen.max())
    law = without_misfit(draws.law).name
    title = what_is_drawn({
        **{value_label(specs[n], target[n], single[n]): n not in moving for n in names},
        f"band: {forecast.level:.0%} interval of a new run ({law})": True,
        f"grey: other {', '.join(others)}": not here.all(),
        "○ came later": new.any(),
        "shaded: beyond the runs": shaded,
    })  # fmt: skip
    if len(table) <= _NUMBERED:  # in the corner that curves leave free: losses fall to the right
        lines = [
            ", ".join(value_label(specs[n], row[n], single[n]) for n in names)
            + f": {row['estimate']:.4g} ({row['low']:.4g} to {row['high']:.4g})"
            for _, row in table.iterrows()
        ]
        write(ax, "\n".join(lines), (0.02, 0.02 if down else 0.98), xycoords="axes fraction",
              color=BLUE, va="bottom" if down else "top")  # fmt: skip
    label = "training compute (FLOPs)" if len(names) > 1 else input_label(specs[names[0]])
    return finish(ax, label, target_label(fit), title)


@picture("ladder")
def ladder(found: Answer, ax: Axes) -> Axes:
    """The loss over the base, a curve of the best law for each budget, and what was forecast."""
    labels, curves = [], found.points["curves"].groupby("D_cpt")
    runs, largest = found.points["runs"], found.points["runs"]["size"].max()
    for (tokens, each), color in zip(curves, shades(curves.ngroups), strict=True):
        name = written(tokens, "tokens")
        labels.append(curve(ax, each, "size", "loss", color, name, 1.1))
        own = runs[runs["D_cpt"] == tokens]
        dots(ax, own["size"], own["loss"], color=[color])
    for row in found.tables.get("forecast", runs[:0]).itertuples():
        x = largest * np.exp(row.distance)
        ax.vlines(x, row.loss_low, row.loss_high, color=BLUE, linewidth=1.6, zorder=6)
        dots(ax, x, row.loss, color=[BLUE], s=24, alpha=1, zorder=6)
    title = f"curves: {found.laws['law'].iloc[0]}\nbars: {found.level:.0%} interval of a new run"
    sized = "N" in runs and "D" not in runs
    name = "model parameters N" if sized else "training compute (FLOPs)"
    ax.margins(x=0.04)
    log_axis(ax.xaxis, words=sized)
    return finish(ax, f"{name} of the base", "loss (nats)", title, labels)


@picture("run")
def run(found: Answer, ax: Axes) -> Axes:
    """The losses so far, the forecast of the rest with its interval, and the schedule below."""
    losses, rates, ends = found.points["losses"], found.points["rates"], []
    first = losses["step"].iloc[0]
    settled = losses["step"] >= first + 0.1 * (losses["step"].iloc[-1] - first)
    for name, color in zip(found.quantities, (BLUE, RED), strict=False):
        dots(ax, losses["step"], losses[name], color=INK if len(found.quantities) == 1 else color)
        last = found.quantities[name]
        words = f"{name} {last.value:.4g}\n({last.low:.4g} to {last.high:.4g})"
        ends.append(curve(ax, found.points[name], "step", name, color, words))
    # Not the fall of the first steps, which hides all else.
    parts = [losses.loc[settled, [*found.quantities]].to_numpy().ravel()]
    parts += [found.points[n].filter(like=n).to_numpy().ravel() for n in found.quantities]
    least, most = (side(np.concatenate(parts)) for side in (np.nanmin, np.nanmax))
    room = 0.06 * max(most - least, 1e-6)
    ax.set(xlim=(first, found.steps), ylim=(least - room, most + room))
    below = panel_below(ax, "LR")
    below.plot(rates["step"], rates["lr"], color=INK, linewidth=1.0)
    rate_axis(below.yaxis, 2)
    below.set_xlabel("step")
    below.xaxis.set_major_locator(MaxNLocator(5))
    for panel in (ax, below):
        panel.axvline(found.step, color=INK, linewidth=0.6, linestyle=":")
    return finish(ax, "", "loss (nats)", f"band: {found.level:.0%} interval of the loss", ends)


def _sizes(forecast: Forecast, names: tuple[str, ...], table) -> np.ndarray:
    """(m,) FLOPs of runs of N and D, or the one input that they grow by, in single things."""
    sizes = [np.asarray(table[name], float) * forecast.posterior.scale(name) for name in names]
    return 6 * sizes[0] * sizes[1] if len(sizes) > 1 else sizes[0]
