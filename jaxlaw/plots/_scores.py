"""Pictures of scores: errors of runs, and tasks' intervals over chance."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    VEIL,
    count_in_words,
    dots,
    finish,
    new_axes,
    shades,
    write,
)
from jaxlaw.errors import UsageError

_APART = 0.6  # of the room of a task, for its points
_NAMED = 4  # points, beside which there is room for what they are


@picture("scores")
def errors_of_runs(scores: Answer, ax: Axes | None = None) -> Axes:
    """How far predictions were off, run by run; hollow is what lies beyond the fitted ranges.

    Raises:
        UsageError: there are no runs.
    """
    table = scores.table[np.isfinite(scores.table["relative_error"])]
    if table.empty:
        raise UsageError("no run has both a prediction and an observation")
    ax = ax or new_axes()
    error, outside = 100 * table["relative_error"], table["outside"].to_numpy(bool)
    mean = 100 * scores.mean_absolute_relative_error
    ax.axhspan(-mean, mean, color=BLUE, alpha=0.1, linewidth=0, zorder=0)
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    dots(ax, table["predicted"][~outside], error[~outside], color=BLUE)
    dots(ax, table["predicted"][outside], error[outside], facecolors="white", edgecolors=RED,
         linewidths=1.0, alpha=1)  # fmt: skip
    reach = 1.15 * max(float(error.abs().max()), mean, 1e-9)
    ax.set_ylim(-reach, reach)
    bias = 100 * scores.mean_relative_error
    write(
        ax, f"off by {mean:.3g} % in the mean\nbias {bias:+.3g} %".replace("-", "−"), (0.04, 0.96),
        xycoords="axes fraction", va="top", fontsize="medium", bbox=VEIL,
    )  # fmt: skip
    where = "; ○ beyond the fitted ranges" if outside.any() else ""
    target = list(table)[list(table).index("predicted") - 1]
    title = f"{scores.law}, {len(table)} runs{where}; band: mean error"
    return finish(ax, f"predicted {target}", "observed − predicted (% of observed)", title)


@picture("score forecast")
def scores(plan: Answer, ax: Axes | None = None) -> Axes:
    """Every task's score with its interval, a dot a point, over its chance (grey).

    A task without a forecast has its reason in place of the dots.

    Args:
        plan: what :func:`jaxlaw.forecast_scores` returned.
        ax: axes to draw on; a new figure if None.
    """
    ax, table = ax or new_axes(), plan.table
    tasks, count = list(dict.fromkeys(table["task"])), len(plan.mean)
    steps = _APART * (np.arange(count) - (count - 1) / 2) / max(count - 1, 1)
    colors, named = shades(count)[::-1], []
    for at, task in enumerate(tasks):
        rows = table[table["task"] == task]
        chance = rows["chance"].iloc[0]
        if np.isfinite(chance):
            ax.plot([chance] * 2, [at - 0.4, at + 0.4], color=FAINT, linewidth=4, zorder=1)
        if rows["score"].isna().all():
            # The reason, on the side of its chance where there is room.
            middle = (table["low"].min() + table["high"].max()) / 2  # NaN where no task has one
            left = np.nan_to_num(chance) > middle
            side = {"xytext": (-8, 0)} if left else {"xytext": (8, 0), "ha": "left"}
            style = {"ha": "right", "va": "center", "annotation_clip": False}
            write(ax, rows["note"].iloc[0], (np.nan_to_num(chance), at), **style | side)
            continue
        named = named or [at + step for step in steps]
        for step, color, row in zip(steps, colors, rows.itertuples(), strict=True):
            ax.hlines(at + step, row.low, row.high, color=[color], linewidth=1.6, zorder=2)
            dots(ax, row.score, at + step, color=[color], s=22, alpha=1, zorder=3)
    ax.set_yticks(range(len(tasks)), tasks)
    ax.set_ylim(len(tasks) - 0.4, -0.6)
    inputs = [name for name in plan.mean if name in plan.units and name in ("N", "D", "C")]
    points = [
        ", ".join(f"{name} {count_in_words(row[name] * plan.units[name][1])}" for name in inputs)
        for _, row in plan.mean.iterrows()
    ]
    where = f", {points.pop()}" if count == 1 else ""
    many = f"; each task's {count} points from above" if count > _NAMED else ""
    title = f"{plan.level:.0%} intervals of a new run{where}; grey: chance{many}"
    labels = zip(named, points if count <= _NAMED else [], colors, strict=False)
    return finish(ax, "score", "", title, labels, margins={"x": 0.04})
