"""The picture of a whole loss curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw.plots.style import (
    BLUE,
    GREEN,
    INK,
    RED,
    dots,
    name_ends,
    new_axes,
    panel_below,
    step_axis,
    tidy,
)


def loss_curve(prediction: pd.DataFrame, observed: Any = None, ax: Axes | None = None) -> Axes:
    """Loss over the steps of a schedule, what it is made of, and the rates below (Wang's fig. 3).

    Dashed, the curve without annealing and shift; between it and the next one what annealing
    takes off, and from there to the predicted curve what the shift to another corpus adds.

    Args:
        prediction: what :meth:`jaxlaw.Fit.predict_curve` returned.
        observed: a table with columns ``step`` and ``loss``, such as
            ``curves.only("a").table``, or nothing.
        ax: where to draw; a new figure if None. The rates go into a panel below it.
    """
    ax = ax or new_axes()
    step, base = prediction["step"], prediction["base"]
    target = prediction.columns[list(prediction.columns).index("base") - 1]
    unshifted = base + prediction["annealing"]
    predicted = prediction[target]
    ends = [(predicted.iloc[-1], "predicted", BLUE)]
    if observed is not None:
        at, losses = np.asarray(observed["step"]), np.asarray(observed["loss"])
        dots(ax, at, losses, color=INK, s=7, label="observed")
        ends.append((losses[np.nanargmax(at)], "observed", INK))
    ax.plot(step, base, color=INK, linewidth=0.9, linestyle="--", label="base")
    ends.append((base.iloc[-1], "base", INK))
    for low, high, color, name in (
        (base, unshifted, GREEN, "annealing"),
        (unshifted, predicted, RED, "shift"),
    ):
        if (high - low).any():
            ax.fill_between(step, low, high, color=color, alpha=0.2, linewidth=0, label=name)
            ends.append(((low.iloc[-1] + high.iloc[-1]) / 2, name, color))
    ax.plot(step, predicted, color=BLUE, linewidth=1.6, label="predicted")
    ax.set_ylim(*_view(step, predicted, observed))
    ax.set_xlim(step.iloc[0], step.iloc[-1])
    ax.set_ylabel(f"{target} (nats)" if target == "loss" else target)
    rates = panel_below(ax, "rate")
    rates.plot(step, prediction["lr"], color=INK, linewidth=1.0)
    rates.set_ylim(bottom=0)
    rates.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
    step_axis(rates.xaxis)
    rates.set_xlabel("step")
    if "phase" in prediction and prediction["phase"].nunique() > 1:
        start = step[prediction["phase"] == "cpt"].iloc[0]
        for panel in (ax, rates):
            panel.axvline(start, color=INK, linewidth=0.6, linestyle=":")
    name_ends(ax, ends)
    return tidy(ax)


def _view(step: pd.Series, predicted: pd.Series, observed: Any) -> tuple[float, float]:
    """What of the losses to show: not the fall of the first steps, which hides all else."""
    settled = len(predicted) // 10
    low, high = float(predicted.min()), float(predicted.iloc[settled])
    if observed is not None:
        seen = np.asarray(observed["loss"])[np.asarray(observed["step"]) >= step.iloc[settled]]
        low, high = min(low, np.nanmin(seen, initial=low)), max(high, np.nanmax(seen, initial=high))
    room = 0.06 * max(high - low, 1e-6)
    return low - room, high + room
