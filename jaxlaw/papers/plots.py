"""Pictures of what papers show."""

from __future__ import annotations

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
    log_axis,
    percent,
    vertical,
    write,
)
from jaxlaw._quantities import SHARE, written_range


@picture("inflection ratio")
def inflection_ratio(turn: Answer, ax: Axes) -> Axes:
    """Slope of the loss over D at every mixture ratio, and where it turns (Que 2024, App. I.3)."""
    r, slope, error = (turn.trends[name] for name in ("r", "slope", "error"))
    ax.errorbar(r, slope, 2 * error, color=BLUE, marker="o", markersize=4, linewidth=1.2,
                elinewidth=1.0)  # fmt: skip
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    ax.margins(x=0.05, y=0.14)
    log_axis(ax.xaxis, words=False)
    ax.xaxis.set_major_formatter(percent)
    title = "no inflection"
    if "bracket" in turn.facts:
        low, high = turn.bracket
        title = f"the loss turns at a mixture ratio of {written_range(low, high, SHARE)} (band)"
        ax.axvspan(low, high, color=RED, alpha=0.08, linewidth=0, zorder=0)
        write(ax, "rises with D", (0.02, 0.96), xycoords="axes fraction", va="top", color=FAINT)
        write(ax, "falls with D", (0.02, 0.04), xycoords="axes fraction", color=FAINT)
        met = turn.quantities.get("ratio")
        at = met or turn.quantities["zero_slope"]
        text = f"{'the fits meet' if met else 'slopes pass zero'} at {at.number}"
        text += f"\n({turn.level:.0%}: {at.interval})" * bool(at.interval)
        vertical(ax, at.value, text)
    return finish(ax, "mixture ratio of the corpus r", "slope of log loss over log D",
                  f"{title}; bars: 2 standard errors")  # fmt: skip


@picture("valuation")
def valuation(plan: Answer, ax: Axes, *, name: str = "", color: str = BLUE) -> Axes:
    """Scores over pretraining tokens with the law and its band, and what the advice rests on.

    Args:
        plan: valuation that :func:`jaxlaw.papers.pretraining_value` returned.
        ax: axes to draw on, with another valuation there or not.
        name: name of this one among several, such as the size of the finetuning data (Isik 2024,
            figure 1).
        color: its colour.
    """
    table, numbers = plan.checkpoints, plan.quantities
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
    title = "lines: without pretraining" if name else f"advice: {plan.advice}"
    if law is not None and "predicted_low" in law and not name:
        title += f"; band: {plan.level:.0%}"
    ax.margins(x=0.03)
    log_axis(ax.xaxis)
    return finish(ax, "pretraining tokens", "score of the checkpoints", title, end_labels)
