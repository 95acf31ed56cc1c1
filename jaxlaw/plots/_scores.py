"""Pictures of scores: of folds, and of tasks over chance."""

from __future__ import annotations

from typing import Any

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
    what_is_drawn,
    write,
)
from jaxlaw._typed import checked
from jaxlaw.fitting import SCORES
from jaxlaw.validation import Study

_APART = 0.6  # of the room of a task, for its points
_NAMED = 4  # points, beside which there is room for what they are


@checked
def fold_scores(
    study: Study, metric: Any = "huber", ax: Axes | None = None, *, data: str | None = None
) -> Axes:
    """The score of every fold, a row a law; the bar is the median, hollow asks for unseen ranges.

    Args:
        study: study that :func:`jaxlaw.cross_validate` returned.
        metric: ``huber``, ``mean_huber``, ``r2`` (what it leaves unexplained), ``huber_linear``,
            ``mean_huber_linear`` or ``rmse``.
        ax: axes to draw on; a new figure if None.
        data: one of the study's data sets; all if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> folds = jl.folds.k_fold(2)
        >>> study = jl.cross_validate(["chinchilla", "kaplan"], runs, folds, n_starts=64)
        >>> plots.fold_scores(study).get_xlabel()
        'Huber of held-out points, a dot a fold'
    """
    ax = ax or new_axes()
    frame = study.frame if data is None else study.frame[study.frame["data"] == data]
    laws = list(study.laws)
    for row, law in enumerate(reversed(laws)):
        rows = frame[(frame["law"] == law) & ~frame["failed"]]
        score = (1 - rows["r2"] if metric == "r2" else rows[metric]).to_numpy(float)
        far = rows["extrapolates"].to_numpy(bool)
        height = row + 0.5 * (np.arange(len(score)) % 9 / 8 - 0.5)
        dots(ax, score[~far], height[~far], color=BLUE, s=20, alpha=0.7, zorder=3)
        dots(ax, score[far], height[far], facecolors="none", edgecolors=RED, s=20, alpha=1,
             linewidths=0.9, zorder=3)  # fmt: skip
        if np.isfinite(score).any():
            ax.vlines(np.nanmedian(score), row - 0.38, row + 0.38, color=INK, linewidth=1.6)
    ax.set_yticks(range(len(laws)), reversed(laws), parse_math=False)
    ax.set_ylim(-0.6, len(laws) - 0.4)
    ax.tick_params(left=False)
    what = "1 − R²" if metric == "r2" else SCORES.get(metric, metric)
    said = {"○ beyond the fitted range": frame["extrapolates"].any(), "bar: median": True}
    return finish(ax, f"{what} of held-out points, a dot a fold", "", what_is_drawn(said),
                  log_x={"words": False})  # fmt: skip


@picture("score forecast")
def scores(plan: Answer, ax: Axes) -> Axes:
    """Every task's score with its interval, a dot a point, over its chance (grey).

    A task without a forecast has its reason in place of the dots.

    Args:
        plan: what :func:`jaxlaw.forecast_scores` returned.
        ax: axes to draw on.
    """
    table = plan.table
    tasks, count = list(dict.fromkeys(table["task"])), len(plan.mean)
    steps = _APART * (np.arange(count) - (count - 1) / 2) / max(count - 1, 1)
    colors, named = shades(count)[::-1], []
    for at, task in enumerate(tasks):
        rows = table[table["task"] == task]
        chance = rows["chance"].iloc[0]
        if np.isfinite(chance):
            ax.plot([chance] * 2, [at - 0.4, at + 0.4], color=FAINT, linewidth=4, zorder=1)
        if rows["score"].isna().all():
            place = {"xycoords": ("axes fraction", "data"), "va": "center", "bbox": VEIL}
            write(ax, rows["note"].iloc[0], (0.02, at), **place)
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
