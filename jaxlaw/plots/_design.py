"""Pictures of designs: when a run is evaluated, and which runs are made next."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import BLUE, FAINT, answer, dots, finish, step_axis, write
from jaxlaw._quantities import number_of, written, written_range


@picture("evaluation steps")
def evaluation_steps(plan: Answer, ax: Axes) -> Axes:
    """How many evaluations a run has had after each step, and as many at equal distances."""
    steps = plan.steps["step"].to_numpy()
    most, count = plan.n_steps, len(steps)
    ax.plot([0, most], [0, count], color=FAINT, linestyle="--", linewidth=1.0)
    dots(ax, steps, np.arange(1, count + 1), color=BLUE, s=18, alpha=1, zorder=3)
    # What a reader copies is where the run is stopped: a tick for each of these steps.
    ax.vlines(steps, 0, 0.03, transform=ax.get_xaxis_transform(), color=BLUE, linewidth=1.0)
    ax.set(xlim=(0, 1.02 * most), ylim=(0, 1.05 * count))
    step_axis(ax.xaxis)
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    half = int(np.searchsorted(steps, most / 2, side="right"))
    text = f"{half} of {count} in the first half"
    write(ax, text, (0.98, 0.06), xycoords="axes fraction", ha="right")
    title = f"{plan.sentence.partition(' of ')[0]}; dashed: at equal distances"
    return finish(ax, "training step", "evaluations so far", title)


@picture("next runs")
def next_runs(plan: Answer, ax: Axes) -> Axes:
    """The standard deviation of a prediction as the chosen runs are made, the best first."""
    unit, worth = plan.units["sd"]
    # The evaluations of one run come together, and have one standard deviation.
    runs = [rows for _, rows in plan.table.groupby((plan.table["sd"].diff() != 0).cumsum())]
    values = [plan.before, *(float(rows["sd"].iloc[0]) for rows in runs)]
    at = np.arange(len(values))[::-1]
    ax.plot(values, at, color=BLUE, linewidth=1.4)
    dots(ax, values, at, color=BLUE, s=30, alpha=1, zorder=3)
    for value, height in zip(values[:-1], at[:-1], strict=True):
        write(ax, written(value, unit, worth), (value, height), xytext=(7, 0), va="center")
    answer(ax, values[-1], at[-1], written(values[-1], unit, worth), xytext=(7, 0), va="center")
    ax.set_yticks(at, ["now", *(f"+ {_run(plan, rows)}" for rows in runs)])
    ax.set_ylim(-0.6, len(values) - 0.4)
    ax.axvline(plan.before, color=FAINT, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xlim(0, 1.25 * max(values))
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda value, _: number_of(value, unit, worth))
    ax.tick_params(left=False)
    what = "the prediction" if plan.criterion == "c" else "all parameters, relative to now"
    title = f"{written(values[0], unit, worth)} → {written(values[-1], unit, worth)}"
    return finish(ax, f"standard deviation of {what}", "", title)


def _run(plan: Answer, rows: pd.DataFrame) -> str:
    """What a run is, by its first columns; from the least to the most where its rows differ."""
    words = []
    for name in list(rows.drop(columns=["candidate", "sd"]))[:3]:
        values, unit = rows[name], plan.unit_of(name) or ("", 1.0)
        if not pd.api.types.is_numeric_dtype(values):
            words.append(f"{name} {values.iloc[0]}")
        elif values.min() == values.max():
            words.append(f"{name} {number_of(float(values.iloc[0]), *unit)}")
        else:
            words.append(f"{name} {written_range(values.min(), values.max(), *unit)}")
    return ", ".join(words)
