"""Pictures of continual runs, and of schedules."""

from __future__ import annotations

from matplotlib.axes import Axes

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    INK,
    RED,
    VEIL,
    curve,
    dots,
    finish,
    log_axis,
    percent,
    rate_axis,
    shades,
    what_is_drawn,
    write,
)
from jaxlaw._quantities import readable

_LABELS = {
    "loss_potential": "loss potential", "peak": "peak LR", "replay": "replay ratio",
    "steps": "steps",
}  # fmt: skip


@picture("tradeoff curve")
def balance(plan: Answer, ax: Axes) -> Axes:
    """The best value of the first setting that was searched, over λ1 (Wang 2025, figure 8).

    Args:
        plan: answer of :func:`jaxlaw.planning.optimal_training`, of several weights.
        ax: axes to draw on. For the replay ratio the dashed line is a
            replay ratio equal to the weight.
    """
    table = plan.table
    setting = next(name for name in _LABELS if name in table)
    if setting == "replay":
        ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--")
    curve(ax, table, "weight", setting, BLUE, marker="o", markersize=3)
    if setting in ("peak", "steps"):
        log_axis(ax.yaxis, words=setting == "steps")
    title = what_is_drawn({
        f"band: {plan.level:.0%} of draws": f"{setting}_low" in table,
        "dashed: replay = weight": setting == "replay",
    })  # fmt: skip
    label = "λ1, the weight of the pre-training corpus"
    return finish(ax, label, f"best {_LABELS[setting]}", title)


@picture("continual run")
def continual_run(plan: Answer, ax: Axes) -> Axes:
    """The new corpus' loss over the pre-training corpus' along λ1, with the runs and the answer."""
    table, runs = plan.table, plan.tables.get("runs", ())
    ax.plot(table["loss_pt"], table["loss_cpt"], color=BLUE, linewidth=1.6, marker="o",
            markersize=3)  # fmt: skip
    for row in table.loc[[table["loss_pt"].idxmin(), table["loss_pt"].idxmax()]].itertuples():
        text = f"{percent(row.replay)} replay, {readable(row.tokens)} tokens"
        write(ax, text, (row.loss_pt, row.loss_cpt), color=BLUE, xytext=(6, 4))
    if len(runs):
        shown = dots(ax, runs["loss_pt"], runs["loss_cpt"], c=runs["replay"], cmap="viridis", s=26,
                     edgecolors=INK, linewidths=0.5, zorder=3)  # fmt: skip
        if runs["replay"].nunique() > 1:
            ax.figure.colorbar(shown, ax=ax, label="replay of the runs", format=percent)
    if plan.interval:
        (left, right), (low, high) = (plan.interval[name] for name in ("loss_pt", "loss_cpt"))
        ax.plot([left, right], [plan.loss_cpt] * 2, color=RED, linewidth=1.2, zorder=4)
        ax.plot([plan.loss_pt] * 2, [low, high], color=RED, linewidth=1.2, zorder=4)
    ax.margins(0.12)
    text = f"{readable(plan.tokens)} tokens, {percent(plan.replay)} replay\n"
    text += f"losses {plan.loss_pt:.3f} and {plan.loss_cpt:.3f}"
    at = plan.loss_pt, plan.loss_cpt
    dots(ax, *at, color=[RED], s=44, alpha=1, zorder=5)
    # Above the curve's own names.
    write(ax, text, at, color=RED, bbox=VEIL, zorder=6, ha="right", va="top", xytext=(-7, -7))
    said = {
        f"curve: best settings over λ1, here {plan.weight:g}": True,
        "dots: runs": len(runs) > 0,
        f"cross: {plan.level:.0%}": bool(plan.interval),
    }
    return finish(ax, "loss on the pre-training corpus (nats)", "loss on the new corpus (nats)",
                  what_is_drawn(said))  # fmt: skip


@picture("optimal schedule")
def best_rates(plan: Answer, ax: Axes) -> Axes:
    """The best schedule over the steps, and the usual ones with their losses."""
    rates, end_labels = plan.points["rates"], []
    losses = dict(zip(plan.comparison["schedule"], plan.comparison["loss"], strict=True))
    *usual, best = [name for name in losses if name != "optimal"] + ["optimal"]
    for name, color in [*zip(usual, shades(len(usual)), strict=True), (best, BLUE)]:
        label, width = f"{name} {losses[name]:.4f}", 2.2 if name == best else 1.0
        end_labels.append(curve(ax, rates, "step", name, color, label, width))
    ax.margins(x=0.02)
    rate_axis(ax.yaxis)
    title = "learning rates, with the predicted loss at the end (nats)"
    return finish(ax, "step", "learning rate", title, end_labels)
