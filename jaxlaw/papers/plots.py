"""Pictures of what papers show."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    RED,
    curve,
    dots,
    finish,
    new_axes,
    percent,
    shades,
    vertical,
    write,
)
from jaxlaw._quantities import SHARE, written_range


@picture("inflection ratio")
def inflection_ratio(turn: Answer, ax: Axes | None = None) -> Axes:
    """How fast the loss moves with D at every share, and where that turns (Que 2024, App. I.3)."""
    ax = ax or new_axes()
    r, slope, error = (turn.trends[name] for name in ("r", "slope", "error"))
    ax.errorbar(r, slope, 2 * error, color=BLUE, marker="o", markersize=4, linewidth=1.2,
                elinewidth=1.0)  # fmt: skip
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    finish(ax, "share of the corpus r", "slope of log loss over log D", margins={"x": 0.05},
           log_x={"words": False})  # fmt: skip
    ax.xaxis.set_major_formatter(percent)
    title = "no inflection"
    if "bracket" in turn.facts:
        low, high = turn.bracket
        title = f"the loss turns at a share of {written_range(low, high, SHARE)} (band)"
        ax.axvspan(low, high, color=RED, alpha=0.08, linewidth=0, zorder=0)
        write(ax, "rises with D", (0.02, 0.96), xycoords="axes fraction", va="top", color=FAINT)
        write(ax, "falls with D", (0.02, 0.04), xycoords="axes fraction", color=FAINT)
        met = turn.quantities.get("ratio")
        at = met or turn.quantities["zero_slope"]
        vertical(ax, at.value, f"{'the fits meet' if met else 'slopes pass zero'} at {at}")
    ax.set_title(f"{title}; bars: 2 standard errors", fontsize="medium", color=INK)
    return ax


@picture("out of domain")
def out_of_domain(plan: Answer, ax: Axes | None = None) -> Axes:
    """Another validation loss as observed, and as the mixture of the two (Wang 2025, §5.2)."""
    ax, table, end_labels = ax or new_axes(), plan.points["losses"], []
    runs = list(table.groupby("run")) if "run" in table else [(None, table)]
    for (run, part), shade in zip(runs, shades(len(runs)), strict=True):
        at = part["step"] if "step" in part else np.arange(1, len(part) + 1)
        dots(ax, at, part["loss_ood"], color=[shade], s=10, alpha=0.6)
        end_labels.append(
            curve(ax, part, at, "mixture", shade, "mixture" if run is None else str(run))
        )
    title = f"{plan.weight_pt:.3g}·L_pt + {plan.weight_cpt:.3g}·L_cpt, R² {plan.r2:.3f}"
    xlabel = "step" if "step" in table else "point of the curve"
    return finish(
        ax, xlabel, "loss on the other set (nats)", title, end_labels, margins={"x": 0.02}
    )


@picture("valuation")
def valuation(plan: Answer, ax: Axes | None = None, *, name: str = "", color: str = BLUE) -> Axes:
    """Scores over pretraining tokens with the law and its band, and what the advice rests on.

    Args:
        plan: valuation that :func:`jaxlaw.papers.pretraining_value` returned.
        ax: axes to draw on, with another valuation there or not; a new figure if None.
        name: name of this one among several, such as the size of the finetuning data (Isik 2024,
            figure 1).
        color: its colour.
    """
    ax, table, numbers = ax or new_axes(), plan.checkpoints, plan.quantities
    dots(ax, table["Dp"], table["score"], color=color if name else INK, s=18, alpha=1, zorder=3)
    law, end_labels = plan.points.get("law"), []
    if law is not None:
        end_labels.append(curve(ax, law, "Dp", "predicted", color, name or "law"))
        ax.scatter([plan.at], [plan.predicted], s=40, facecolor="white", color=color, zorder=3)
    lines = {"baseline": ("without\npretraining", INK, "-"), "target": ("target", GREEN, "--")}
    for line, (text, own, style) in lines.items():
        if line in numbers:
            own = color if name else own
            ax.axhline(numbers[line].value, color=own, linewidth=0.9, linestyle=style, zorder=0)
            end_labels.append((numbers[line].value, "" if name else text, own))
    if "broken_at" in numbers:
        vertical(ax, plan.broken_at, "the law breaks", 0.02, va="bottom")
    title = "lines: without pretraining" if name else plan.advice
    return finish(
        ax, "pretraining tokens", "score of the checkpoints", title, end_labels,
        margins={"x": 0.03}, log_x={},
    )  # fmt: skip
