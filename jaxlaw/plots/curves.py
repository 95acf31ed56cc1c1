"""The pictures of whole loss curves, and of what a new corpus adds to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw.errors import UsageError
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    RED,
    dots,
    name_ends,
    new_axes,
    panel_below,
    shades,
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


def shift_curves(
    points: pd.DataFrame, fits: Any = (), ax: Axes | None = None, *, over: str = "S1_cpt"
) -> Axes:
    """Observed shifts, one over the other, and laws of the shift (Wang 2025, figures 2, 6, 14).

    Where the shift does not depend on where the base was left, on its size or on how the run was
    scheduled, the curves lie on each other.

    Args:
        points: what :func:`jaxlaw.observed_shift` returned: columns ``run``, ``shift`` (nats) and
            ``over``.
        fits: of the laws ``shift`` and ``shift-exp``, or one of them, drawn beside the points.
        ax: where to draw; a new figure if None.
        over: the column to draw over: ``S1_cpt``, or ``step`` from the boundary. Laws take the
            former, so with ``step`` they are drawn for the first run.

    Raises:
        UsageError: a column is missing, or a fit predicts no shift.
    """
    missing = [name for name in ("run", "shift", "S1_cpt", over) if name not in points]
    if missing:
        raise UsageError(f"no column {missing[0]}: give what jl.observed_shift returned")
    fits = [fits] if isinstance(fits, FittedLaw) else list(fits)
    for fit in fits:
        if fit.law.target != "shift":
            raise UsageError(f"law {fit.law.name} predicts no shift; fit shift or shift-exp")
    ax = ax or new_axes()
    runs = dict(list(points.groupby("run", sort=False)))
    ends = []
    for (run, rows), color in zip(runs.items(), shades(len(runs)), strict=True):
        rows = rows.sort_values(over)
        dots(ax, rows[over], rows["shift"], color=[color], s=9)
        ends.append((rows["shift"].iloc[-1], str(run), color))
    first = next(iter(runs.values())).sort_values(over)
    for fit, color, line in zip(fits, (INK, RED), ("-", "--"), strict=False):
        areas = np.linspace(0, points["S1_cpt"].max(), 200)
        if over != "S1_cpt":
            areas = first["S1_cpt"].to_numpy()
        at = areas if over == "S1_cpt" else first[over].to_numpy()
        values = fit.predict(S1_cpt=areas / fit.units["S1_cpt"])
        ax.plot(at, values, color=color, linewidth=1.4, linestyle=line)
        ends.append((values[-1], fit.law.name, color))
    ax.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    ax.set_xlim(0, points[over].max())
    ax.set_xlabel(
        "S1 of the continual phase" if over == "S1_cpt" else "step of the continual phase"
    )
    ax.set_ylabel("shift ΔL (nats)")
    if over == "step":
        step_axis(ax.xaxis)
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
