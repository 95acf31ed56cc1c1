"""Plots of scores forecast: the tasks' intervals over chance, and the two steps of one task."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxlaw._axes import BLUE, FAINT, INK, RED, curve, dots, finish, new_axes, shades, write
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.forecasting import ScoreForecast
from jaxlaw.plots._forecasts import forecast_intervals

_APART = 0.6  # of the room of a task, for its points


@checked
def score_forecasts(scores: ScoreForecast, ax: Axes | None = None) -> Axes:
    """Every task's score with its interval, a dot a point, over its chance (grey).

    A task without a forecast has its reason in place of the dots.

    Args:
        scores: a result of :func:`jaxlaw.forecast_scores`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> points = {"N": [7e9, 13e9], "D": 4e11}
        >>> scores = jl.forecast_scores(runs, {"mmlu": ("loss", "acc")}, at=points, n_starts=64)
        >>> plots.score_forecasts(scores).get_xlabel()
        'score'
    """
    ax = ax or new_axes()
    table, tasks = scores.table, list(dict.fromkeys(scores.table["task"]))
    count = len(table) // len(tasks)
    steps = np.linspace(-_APART / 2, _APART / 2, count) if count > 1 else np.zeros(1)
    colors = shades(count)[::-1]
    for at, task in enumerate(tasks):
        rows = table[table["task"] == task]
        chance = rows["chance"].iloc[0]
        if np.isfinite(chance):
            ax.plot([chance] * 2, [at - 0.4, at + 0.4], color=FAINT, linewidth=4, zorder=1)
        if rows["score"].isna().all():
            where = chance if np.isfinite(chance) else 0.0
            side = {"xytext": (8, 0), "ha": "left"} if where < 0.4 else {"xytext": (-8, 0)}
            style = {"ha": "right", "va": "center", "annotation_clip": False}
            write(ax, rows["note"].iloc[0], (where, at), **style | side)
            continue
        for step, color, row in zip(steps, colors, rows.itertuples(), strict=True):
            ax.hlines(at + step, row.low, row.high, color=[color], linewidth=1.6, zorder=2)
            dots(ax, row.score, at + step, color=[color], s=22, alpha=1, zorder=3)
    ax.set_yticks(range(len(tasks)), tasks)
    ax.set_ylim(len(tasks) - 0.4, -0.6)
    return finish(
        ax,
        "score",
        "",
        f"{scores.level:.0%} intervals of a new run; grey: chance{_points(scores, count)}",
        margins={"x": 0.04},
    )


def _points(scores: ScoreForecast, count: int) -> str:
    """How the points of a task are in order, for the title."""
    return f"; each task's {count} points from above" if count > 1 else ""


@checked
def score_steps(scores: ScoreForecast, task: str | None = None) -> Figure:
    """The two steps of a task side by side: the loss over compute, and the score over the loss.

    On the right small dots are checkpoints, black ones final models, and red ones the forecast,
    with the intervals of the loss and of the score; the band is for a run of that loss.

    Args:
        scores: a result of :func:`jaxlaw.forecast_scores`.
        task: one of its tasks; the first that has a forecast if None.

    Raises:
        UsageError: that task has no forecast.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> points = {"N": [7e9, 13e9], "D": 4e11}
        >>> scores = jl.forecast_scores(runs, {"mmlu": ("loss", "acc")}, at=points, n_starts=64)
        >>> len(plots.score_steps(scores, "mmlu").axes)
        2
    """
    known = list(scores.forecasts)
    task = known[0] if task is None and known else task
    if task not in known:
        raise UsageError(
            f"task {task} has no forecast; {', '.join(known) or 'none'} have."
            f"{nearest(str(task), known)}"
        )
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    forecast_intervals(scores.forecasts[task], left)
    _second_step(scores, task, right)
    left.set_ylabel(f"loss on {task}")
    return figure


def _second_step(scores: ScoreForecast, task: str, ax: Axes) -> None:
    seen, rows = scores.observed[task], scores.table[scores.table["task"] == task]
    law = scores.curves[scores.curves["task"] == task]
    final = seen["final"] > 0
    late = seen["loss"] <= law["loss"].max()
    dots(ax, seen["loss"][late & ~final], seen["score"][late & ~final], color=[FAINT], s=6)
    curve(ax, law, "loss", "score", BLUE)
    dots(ax, seen["loss"][final], seen["score"][final], color=[INK], s=14, alpha=1, zorder=4)
    of_loss = scores.forecasts[task].table
    ax.hlines(rows["score"], of_loss["low"], of_loss["high"], color=RED, linewidth=1.2, zorder=5)
    ax.vlines(rows["loss"], rows["low"], rows["high"], color=RED, linewidth=1.2, zorder=5)
    dots(ax, rows["loss"], rows["score"], color=[RED], s=22, alpha=1, zorder=6)
    chance = rows["chance"].iloc[0]
    if np.isfinite(chance):
        ax.axhline(chance, color=FAINT, linewidth=1.2)
    ax.invert_xaxis()  # losses fall as runs grow, to the right as on the left
    title = f"{scores.level:.0%} band of a run of that loss; red: forecast; grey: chance"
    finish(ax, f"loss on {task}", f"score of {task}", title)
