"""Pictures of a lowest loss over one or two inputs, and of sweeps."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    RED,
    answer_below,
    curve,
    dots,
    finish,
    log_axis,
    percent,
    what_is_drawn,
)
from jaxlaw._quantities import COUNTED, SHARE, written
from jaxlaw.planning._optimise import relative_excess

_LEVELS = (0.1, 0.25, 0.5, 1, 2)  # contours, in per cent above the lowest loss


@picture("optimal inputs")
def settings(plan: Answer, ax: Axes) -> Axes:
    """The loss over a setting, or contours over two of how far it lies above the lowest.

    All other inputs are at their best. Blue bars are the values that are nearly as good.
    """
    table = plan.points["around"]
    x, y = table.columns[:2]
    at = plan.best[x], plan.loss if y == "loss" else plan.best[y]
    text = "\n".join(f"{name} {plan.quantities[name]}" for name in (*plan.best, "loss"))
    bars = {"color": BLUE, "alpha": 0.3, "linewidth": 5, "zorder": 2}
    _scale(plan, ax.xaxis, x)
    ax.hlines(at[1], *plan.near[x], **bars)
    if y == "loss":
        curve(ax, table, x, "loss", BLUE)
        if x in plan.interval:
            ax.hlines(plan.loss, *plan.interval[x], color=RED, linewidth=1.6, zorder=3)
        answer_below(ax, *at, text)
        title = f"band: {plan.level:.0%} of draws" * ("loss_low" in table)
    else:
        _scale(plan, ax.yaxis, y)
        side = round(len(table) ** 0.5)
        grid = (table[name].to_numpy().reshape(side, side) for name in (x, y))
        above = 100 * relative_excess(table["loss"].to_numpy().reshape(side, side), plan.loss)
        drawn = ax.contour(*grid, above, levels=_LEVELS, colors=BLUE, linewidths=0.8, alpha=0.7)
        ax.clabel(drawn, fmt="%g%%", fontsize="x-small")
        ax.vlines(at[0], *plan.near[y], **bars)
        dots(ax, *at, color=[RED], s=36, alpha=1, zorder=3)
        title = text.replace("\n", "; ") + "\ncontours: % above the lowest loss"
    return finish(ax, _label(plan, x), _label(plan, y), title)


@picture("best settings")
def best_settings(best: Answer, ax: Axes) -> Axes:
    """The best value of the first setting in each cell of a sweep, over the size of the cell.

    Colours are tokens, bars the range that is as good, as the table has it. Hollow dots lie at the
    edge of their sweep: they are a bound of the optimum, no estimate.
    """
    table = best.table
    name = next(name.removesuffix("_bound") for name in table if "_bound" in name)
    ax.set(xscale="log", yscale="log")
    # Cells of one size lie side by side, in the order of their tokens.
    x = table["N"] * np.exp(0.03 * table.groupby("N")["D"].rank())
    ax.vlines(x, table[f"{name}_from"], table[f"{name}_to"], color=FAINT, linewidth=2, zorder=1)
    least, most = table["D"].min(), table["D"].max()
    tokens = ScalarMappable(LogNorm(least, max(most, 1.001 * least)), "viridis_r")
    colors = tokens.to_rgba(table["D"])
    is_bound = (table[f"{name}_bound"] != "").to_numpy()
    faces = np.where(is_bound[:, None], 1.0, colors)
    dots(ax, x, table[name], facecolors=faces, edgecolors=colors, linewidths=1.5, s=30, alpha=1)
    if most > least:
        log_axis(ax.figure.colorbar(tokens, ax=ax, label="training tokens D").ax.yaxis)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis, words=name == "batch")
    said = {
        f"bars: within {written(best.tolerance, SHARE)} of the lowest": True,
        "hollow: a bound, at the edge of the sweep": bool(is_bound.any()),
    }
    return finish(ax, "parameters N", f"best {_label(best, name)}", what_is_drawn(said))


def _label(plan: Answer, name: str) -> str:
    """A quantity or column on an axis, with its unit."""
    unit, _ = plan.unit_of(name) or ("", 1.0)
    return name if unit in ("", SHARE) else f"{name} ({unit})"


def _scale(plan: Answer, axis: Axis, name: str) -> None:
    """The scale of an axis: percent, else logarithmic, in words of what is counted."""
    unit, worth = plan.unit_of(name) or ("", 1.0)
    if unit == SHARE:
        axis.set_major_formatter(percent)
    else:
        log_axis(axis, worth, words=unit in COUNTED)
