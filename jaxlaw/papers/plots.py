"""Pictures of what papers show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    RED,
    count_in_words,
    curve,
    dots,
    finish,
    log_axis,
    new_axes,
    percent,
    shades,
    vertical,
    write,
)
from jaxlaw._quantities import SHARE, written, written_range
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.papers._inflection import loss_slopes


@checked
def slopes_over_share(
    runs: Any, ax: Axes | None = None, *, every: float = 0.0, N: float | None = None
) -> Axes:
    """ΔL/ΔD over the share, a curve for each D, at one size: figure 10 of Que 2024.

    A law of mixtures has the implicit trend (eq. 5) where the curves fall.

    Args:
        runs: runs as :func:`jaxlaw.read_runs` takes or returns them, with N, D, r, loss; or the
            table of :func:`jaxlaw.papers.loss_slopes`.
        ax: axes to draw on; a new figure if None.
        every: least D from one evaluation to the next, as for :func:`jaxlaw.papers.loss_slopes`.
        N: size, in the unit of the runs; the largest if None.

    Raises:
        UsageError: no run has that size.

    Example:
        >>> from jaxlaw import plots
        >>> plots.slopes_over_share(jl.simulate.experiment("dcpt", noise=0).table).get_xlabel()
        'share of the corpus r'
    """
    made = isinstance(runs, pd.DataFrame) and {"slope", "D_low"} <= set(runs)
    table = runs if made else loss_slopes(runs, every=every)
    units = table.attrs.get("units")  # none of a table that was read from a file
    size = table["N"].max() if N is None else N
    table = table[np.isclose(table["N"], size)]
    if table.empty:
        raise UsageError(f"no run has N = {size:g}")
    ax = ax or new_axes()
    groups = list(table.groupby(["D_low", "D_high"]))
    end_labels = [
        curve(ax, rows, "r", "slope", color, _counted("D", D, units), 1.2, marker="o", markersize=3)
        for ((_, D), rows), color in zip(groups, shades(len(groups)), strict=True)
    ]
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    of = "unit of D" if units is None else written(1.0, "tokens", units["D"])
    of = "token" if of == "1 tokens" else of
    labels = "share of the corpus r", f"ΔL/ΔD (nats per {of})", _counted("N", size, units)
    return finish(ax, *labels, end_labels[:1] + end_labels[1:][-1:])


def _counted(name: str, value: float, units: Mapping[str, float] | None) -> str:
    """A size or tokens as people read them; in the unit of the table where that is unknown."""
    if units is None:
        return f"{name} = {value:.3g}"
    return f"{name} {written(value, 'parameters' if name == 'N' else 'tokens', units[name])}"


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


@picture("transfer law")
def transfer_law(law: Answer, ax: Axes | None = None) -> Axes:
    """Tokens that a base stands for as curves show them, and the law through them, by size."""
    ax, end_labels = ax or new_axes(), []
    shown = law.table[law.table["transferred"] > 0]
    D = np.geomspace(shown["D"].min(), shown["D"].max(), 50)
    sizes = list(shown.groupby("N"))
    for (N, rows), color in zip(sizes, shades(len(sizes)), strict=True):
        dots(ax, rows["D"], rows["transferred"], color=[color], alpha=1)
        line = {"transferred": law.k * D**law.a * N**law.b}
        name = f"N = {count_in_words(float(N))}"
        end_labels.append(curve(ax, line, D, "transferred", color, name, 1.2))
    ax.margins(x=0.03)
    log_axis(ax.yaxis)
    left = len(law.table) - len(shown)
    title = f"{law.k:.3g}·D^{law.a:.3g}·N^{law.b:.3g}"
    title += f"\n{left} points that transfer nothing are not shown" if left else ""
    return finish(ax, "tokens of the continual run", "tokens transferred", title, end_labels,
                  log_x={})  # fmt: skip


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
    sign = "+" if plan.weight_cpt >= 0 else "−"
    title = f"{plan.weight_pt:.3g}·L_pt {sign} {abs(plan.weight_cpt):.3g}·L_cpt, R² {plan.r2:.3f}"
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
