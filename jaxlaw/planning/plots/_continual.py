"""Pictures of continual runs, and of schedules."""

from __future__ import annotations

from matplotlib.axes import Axes

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    INK,
    RED,
    answer,
    count_in_words,
    curve,
    dots,
    finish,
    log_axis,
    percent,
    rate_axis,
    shades,
    step_axis,
    vertical,
    what_is_drawn,
    write,
)

_LABELS = {
    "loss_potential": "loss potential", "peak": "peak LR", "replay": "replay ratio",
    "steps": "steps",
}  # fmt: skip
_ON = {"pt": "loss on the pre-training corpus (nats)", "cpt": "loss on the new corpus (nats)"}


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
    # The curve falls: one end has room above it on the right, the other below it on the left.
    ends = table.loc[[table["loss_pt"].idxmin(), table["loss_pt"].idxmax()]]
    for row, x, y, ha, va in zip(ends.itertuples(), (6, 4), (4, -6), ("left", "right"),
                                 ("bottom", "top"), strict=True):  # fmt: skip
        write(ax, f"{percent(row.replay)} replay, {count_in_words(row.tokens)} tokens",
              (row.loss_pt, row.loss_cpt), color=BLUE, xytext=(x, y), ha=ha, va=va)  # fmt: skip
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
    text = f"{count_in_words(plan.tokens)} tokens, {percent(plan.replay)} replay\n"
    text += f"losses {plan.loss_pt:.3f} and {plan.loss_cpt:.3f}"
    answer(ax, plan.loss_pt, plan.loss_cpt, text, s=44, zorder=5, ha="right", va="top",
           xytext=(-7, -7))  # fmt: skip
    said = {
        f"curve: best settings over λ1, here {plan.weight:g}": True,
        "dots: runs": len(runs) > 0,
        f"cross: {plan.level:.0%}": bool(plan.interval),
    }
    return finish(ax, _ON["pt"], _ON["cpt"], what_is_drawn(said))


@picture("turning length")
def recovery(plan: Answer, ax: Axes) -> Axes:
    """The loss over steps: start, critical point, turning length (Wang 2025, figure 7 c)."""
    line = plan.points["recovery"]
    curve(ax, line, "steps", "loss", BLUE)
    for height, text, style in (
        (plan.start, "start", {"color": INK, "linewidth": 0.8}),
        (plan.critical_point, "critical point", {"color": BLUE, "linestyle": "--"}),
    ):
        ax.axhline(height, **style)
        # At the end of the line that the curve is farther from.
        right = abs(line["loss"].iloc[-1] - height) > abs(line["loss"].iloc[0] - height)
        beside = {"xytext": (-4 if right else 4, 3), "ha": "right" if right else "left"}
        write(ax, text, (float(right), height), xycoords=("axes fraction", "data"), **beside)
    if plan.pattern == "rise and return":
        text = f"back after {plan.steps:,.0f} steps"
        vertical(ax, plan.steps, text, 0.3, xytext=(-4, 0), ha="right")
    else:
        ax.set_title("never back" if plan.never else "never lifted", color=RED, fontsize="medium")
    label = _ON["pt"] if plan.weight == 1 else f"loss of weight {plan.weight:g} (nats)"
    return finish(ax, "continual steps", label, log_x={})


@picture("optimal schedule")
def best_rates(plan: Answer, ax: Axes) -> Axes:
    """The rates of the best schedule over the steps, and the usual ones with their losses."""
    rates, end_labels = plan.points["rates"], []
    losses = dict(zip(plan.comparison["schedule"], plan.comparison["loss"], strict=True))
    *usual, best = [name for name in losses if name != "optimal"] + ["optimal"]
    for name, color in [*zip(usual, shades(len(usual)), strict=True), (best, BLUE)]:
        label, width = f"{name} {losses[name]:.4f}", 2.2 if name == best else 1.0
        end_labels.append(curve(ax, rates, "step", name, color, label, width))
    ax.margins(x=0.02)
    step_axis(ax.xaxis)
    rate_axis(ax.yaxis)
    title = "rates, with the predicted loss at the end (nats)"
    return finish(ax, "step", "learning rate", title, end_labels)
