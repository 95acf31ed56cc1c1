"""Plots of scores forecast: the tasks' intervals over chance, and the two steps of one task."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    answer,
    count_in_words,
    curve,
    dots,
    finish,
    log_axis,
    new_axes,
    shades,
    stripe_outside,
    what_is_drawn,
    write,
)
from jaxlaw._quantities import written
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.forecasting import ScoreCompute, ScoreForecast
from jaxlaw.plots._forecasts import forecast_intervals

_APART = 0.6  # of the room of a task, for its points
_NAMED = 4  # points, beside which there is room for what they are


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
        >>> scores = jl.forecast_scores(runs, {"mmlu": ("loss", "acc")}, at=points)
        >>> plots.score_forecasts(scores).get_xlabel()
        'score'
    """
    ax = ax or new_axes()
    table, tasks = scores.table, list(dict.fromkeys(scores.table["task"]))
    count = len(table) // len(tasks)
    steps = _APART * (np.arange(count) - (count - 1) / 2) / max(count - 1, 1)
    colors = shades(count)[::-1]
    for at, task in enumerate(tasks):
        rows = table[table["task"] == task]
        chance = rows["chance"].iloc[0]
        if np.isfinite(chance):
            ax.plot([chance] * 2, [at - 0.4, at + 0.4], color=FAINT, linewidth=4, zorder=1)
        if rows["score"].isna().all():
            _reason(ax, scores, task, at)
            continue
        for step, color, row in zip(steps, colors, rows.itertuples(), strict=True):
            ax.hlines(at + step, row.low, row.high, color=[color], linewidth=1.6, zorder=2)
            dots(ax, row.score, at + step, color=[color], s=22, alpha=1, zorder=3)
    ax.set_yticks(range(len(tasks)), tasks)
    ax.set_ylim(len(tasks) - 0.4, -0.6)
    many = f"; each task's {count} points from above" if count > _NAMED else ""
    names = _points(scores) if count <= _NAMED else []
    where = f", {names.pop()}" if count == 1 else ""
    title = f"{scores.level:.0%} intervals of a new run{where}; grey: chance{many}"
    first = next((k for k, task in enumerate(tasks) if task in scores.forecasts), 0)
    named = zip(first + steps, names, colors, strict=False)
    return finish(ax, "score", "", title, named, margins={"x": 0.04})


def _reason(ax: Axes, scores: ScoreForecast, task: str, at: int) -> None:
    """Why a task has no forecast, on the side of its chance where there is room."""
    table = scores.table.fillna({"chance": 0.0})
    text, chance = table.loc[table["task"] == task, ["note", "chance"]].iloc[0]
    left = chance > (table["low"].min() + table["high"].max()) / 2  # of no forecast at all, never
    side = {"xytext": (-8, 0)} if left else {"xytext": (8, 0), "ha": "left"}
    style = {"ha": "right", "va": "center", "annotation_clip": False}
    write(ax, text, (chance, at), **style | side)


def _points(scores: ScoreForecast) -> list[str]:
    """The points in few words: ``N 7 B, D 4 T``."""
    units = {name: (scores.unit_of(name) or ("", 1.0))[1] for name in scores.inputs}
    return [
        ", ".join(f"{name} {count_in_words(row[name] * unit)}" for name, unit in units.items())
        for _, row in scores.mean.iterrows()
    ]


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
        >>> scores = jl.forecast_scores(runs, {"mmlu": ("loss", "acc")}, at=points)
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


@checked
def score_compute(plan: ScoreCompute, ax: Axes | None = None) -> Axes:
    """Scores over the compute of models of one ratio, and where each reaches the one asked for.

    A dot is where every second new run reaches it, the line through it goes from where few do to
    where nearly all do. Striped is what lies beyond the runs.

    Args:
        plan: answer of :func:`jaxlaw.forecasting.compute_for_score`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> found = jl.forecasting.compute_for_score(
        ...     runs, {"mmlu": ("loss", "acc")}, 0.6
        ... )
        >>> plots.score_compute(found).get_xlabel()
        'training compute (FLOPs)'
    """
    ax, ends = ax or new_axes(), []
    tasks = list(plan.curves.groupby("task", sort=False))
    few = len(tasks) < _NAMED  # bands and numbers of more lie over one another
    for (task, rows), color in zip(tasks, shades(len(tasks)), strict=True):
        bands = {"score_low": rows["low"], "score_high": rows["high"]} if few else {}
        ends.append(
            curve(ax, {"score": rows["score"], **bands}, rows["compute"], "score", color, task)
        )
        (row,) = plan.table[plan.table["task"] == task].itertuples()
        if not np.isfinite(row.compute):
            continue
        most = min(row.compute_high, rows["compute"].max())
        ax.hlines(row.score, row.compute_low, most, color=RED, linewidth=1.6, zorder=4)
        text = f"{row.score:g} at {written(row.compute, 'FLOPs')}" if few else ""
        answer(ax, row.compute, row.score, text, s=30, zorder=5, xytext=(-6, 5), ha="right")
    ax.margins(x=0)
    log_axis(ax.xaxis, words=False)
    striped = stripe_outside(ax, 0.0, plan.largest)
    said = {f"{plan.ratio:.3g} tokens a parameter": True,
            f"{'bands, ' * few}bars: {plan.level:.0%} of new runs": True}  # fmt: skip
    title = what_is_drawn(said) + "\n" * striped  # whose own words lie there
    return finish(ax, "training compute (FLOPs)", "score", title, ends)


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
