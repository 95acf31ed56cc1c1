"""Plots of designs: when a run is evaluated, and which runs are made next."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jaxlaw._axes import BLUE, FAINT, answer, dots, finish, new_axes, step_axis, write
from jaxlaw._quantities import number_of, written, written_range
from jaxlaw._typed import checked
from jaxlaw.design import EvaluationSteps, NextRuns

_COLUMNS = 3  # of a candidate that name it


@checked
def evaluations(chosen: EvaluationSteps, ax: Axes | None = None) -> Axes:
    """How many evaluations a run has had after each step, and as many at equal distances.

    Args:
        chosen: steps that :func:`jaxlaw.design.evaluation_steps` returned.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> plots.evaluations(jl.design.evaluation_steps(48, 200_000)).get_ylabel()
        'evaluations so far'
    """
    ax = ax or new_axes()
    count = np.arange(1, len(chosen) + 1)
    ax.plot([0, chosen.n_steps], [0, len(chosen)], color=FAINT, linestyle="--", linewidth=1.0)
    dots(ax, chosen.steps, count, color=BLUE, s=18, alpha=1, zorder=3)
    # What a reader copies is where the run is stopped: a tick for each of these steps.
    ax.vlines(chosen.steps, 0, 0.03, transform=ax.get_xaxis_transform(), color=BLUE, linewidth=1.0)
    ax.set(xlim=(0, 1.02 * chosen.n_steps), ylim=(0, 1.05 * len(chosen)))
    step_axis(ax.xaxis)
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    half = int(np.searchsorted(chosen.steps, chosen.n_steps / 2, side="right"))
    text = f"{half} of {len(chosen)} in the first half"
    write(ax, text, (0.98, 0.06), xycoords="axes fraction", ha="right")
    rate = "" if chosen.rate is None else f", λ = {chosen.rate:.4g}"
    title = f"{chosen.method}{rate}: {len(chosen)} evaluations; dashed: at equal distances"
    return finish(ax, "training step", "evaluations so far", title)


@checked
def runs_to_make(chosen: NextRuns, ax: Axes | None = None) -> Axes:
    """The standard deviation of a prediction as the chosen runs are made, the best first.

    Args:
        chosen: runs that :func:`jaxlaw.design.next_runs` returned.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", table, n_starts=64)
        >>> more = {"N": [1e10, 3e10], "D": [1e11, 1e11]}
        >>> chosen = jl.design.next_runs(fit, table, more, predict={"N": 7e10, "D": 1e12}, n=2)
        >>> plots.runs_to_make(chosen).get_yticklabels()[1].get_text()
        '+ N 30 B, D 100 B'
    """
    ax = ax or new_axes()
    unit, worth = chosen.unit_of("sd") or ("", 1.0)
    # The evaluations of one run come together, and have one standard deviation.
    runs = [rows for _, rows in chosen.table.groupby((chosen.table["sd"].diff() != 0).cumsum())]
    values = [chosen.before, *(float(rows["sd"].iloc[0]) for rows in runs)]
    labels = ["now", *(f"+ {_run(chosen, rows)}" for rows in runs)]
    at = np.arange(len(values))[::-1]
    ax.plot(values, at, color=BLUE, linewidth=1.4)
    dots(ax, values, at, color=BLUE, s=30, alpha=1, zorder=3)
    for value, height in zip(values[:-1], at[:-1], strict=True):
        write(ax, written(value, unit, worth), (value, height), xytext=(7, 0), va="center")
    answer(ax, values[-1], at[-1], written(values[-1], unit, worth), xytext=(7, 0), va="center")
    ax.set_yticks(at, labels)
    ax.set_ylim(-0.6, len(values) - 0.4)
    ax.axvline(chosen.before, color=FAINT, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xlim(0, 1.25 * max(values))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda value, _: number_of(value, unit, worth))
    what = "the prediction" if chosen.criterion == "c" else "all parameters, relative to now"
    ax.tick_params(left=False)
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    title = f"{count}: {written(values[0], unit, worth)} → {written(values[-1], unit, worth)}"
    return finish(ax, f"standard deviation of {what}", "", title)


def _run(chosen: NextRuns, rows: pd.DataFrame) -> str:
    """What a run is, by its first columns; from the least to the most where its rows differ."""
    words = []
    for name in list(rows.drop(columns="sd"))[:_COLUMNS]:
        values, unit = rows[name], chosen.unit_of(name) or ("", 1.0)
        if not pd.api.types.is_numeric_dtype(values):
            words.append(f"{name} {values.iloc[0]}")
        elif values.min() == values.max():
            words.append(f"{name} {number_of(float(values.iloc[0]), *unit)}")
        else:
            words.append(f"{name} {written_range(values.min(), values.max(), *unit)}")
    return ", ".join(words)
