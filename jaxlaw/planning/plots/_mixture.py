"""Pictures of mixtures: trade-offs and weights of corpora."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    answer,
    curve,
    dots,
    finish,
    percent,
    stripe_outside,
    what_is_drawn,
    with_interval,
    write,
)

_BEYOND = 0.15  # of the mixture ratios that were run: how far a curve goes on beyond them


@picture("mixture")
def trade_off(plan: Answer, ax: Axes) -> Axes:
    """Domain loss over general loss along the domain mixture ratio, and where the limit cuts it.

    Mixture ratios that were never run are dashed, and drawn only so far as the answer needs: far
    from the runs a law of mixture ratios turns back on itself, and its draws fly apart.

    Args:
        plan: answer of :func:`jaxlaw.planning.optimal_mixture`.
        ax: axes to draw on.
    """
    table, share = plan.points["curve"], plan.share
    tried = plan.facts.get("tried", (0.0, 1.0))
    low, high = np.nanmin([*tried, share]), np.nanmax([*tried, share])
    room = _BEYOND * (high - low) or _BEYOND
    table = table[table["share"].between(low - room, high + room)]
    run = table["share"].between(*tried)
    x, y = table["general_loss"], table["domain_loss"]
    curve(ax, table, x, "domain_loss", BLUE, width=1.2, linestyle="-" if run.all() else "--")
    ax.plot(x.where(run), y.where(run), color=BLUE, linewidth=2)
    ax.margins(x=0.1, y=0.12)
    left, right = ax.get_xlim()
    left, right = min(left, plan.limit), max(right, plan.limit)
    ax.set_xlim(left, right)
    ax.axvspan(plan.limit, right, color=RED, alpha=0.08, linewidth=0, zorder=0)
    named = table.iloc[:: max(1, len(table) // 6)]  # some mixture ratios along the curve
    dots(ax, named["general_loss"], named["domain_loss"], color=BLUE, s=14, alpha=1, zorder=3)
    for row in named.itertuples():
        place = row.general_loss, row.domain_loss
        write(ax, percent(row.share), place, xytext=(5, 4), color=FAINT)
    if np.isfinite(share):
        said = with_interval(share, plan.interval.get("share"), ".3f")
        text = f"r_d = {said}\ndomain loss {plan.domain_loss:.4g}"
        answer(ax, plan.general_loss, plan.domain_loss, text, s=44, zorder=4, fontsize="medium")
    said = {
        "domain mixture ratio along the curve": True,
        f"red: above the limit, {plan.limit:.4g}": True,
        f"band: {plan.level:.0%} of draws": "domain_loss_low" in table,
        "dashed: mixture ratios never run": not run.all(),
    }
    return finish(ax, "general loss (nats)", "domain loss (nats)", what_is_drawn(said))


@picture("limited mixture")
def limited_domain(plan: Answer, ax: Axes, *, color: Any = BLUE) -> Axes:
    """Domain loss over the domain mixture ratio, all of the domain's tokens used, and the best.

    Args:
        plan: answer of :func:`jaxlaw.planning.optimal_mixture_data_limited`.
        ax: axes to draw on, such as those of a corpus of another size.
        color: colour of the curve.
    """
    table = plan.points["curve"]
    tokens = plan.quantities["corpus_tokens"].number
    end = curve(ax, table, "share", "loss", color, tokens, 1.5)
    if np.isfinite(plan.share):
        said = f"r_d = {with_interval(plan.share, plan.interval.get('share'), '.3f')}"
        answer(ax, plan.share, plan.loss, said, color=color)
    ax.margins(x=0.02, y=0.12)
    ax.set_xlim(right=1)
    finish(ax, "domain mixture ratio r_d, all of the domain's tokens used", "domain loss (nats)",
           end_labels=[end])  # fmt: skip
    if "tried" in plan.facts:
        stripe_outside(ax, *plan.tried)
    return ax


@picture("optimal weights")
def mixture_weights(plan: Answer, ax: Axes) -> Axes:
    """The best mixture of many corpora: weights with intervals, natural mixture ratios, and caps.

    Args:
        plan: answer of :func:`jaxlaw.planning.optimal_weights`.
        ax: axes to draw on.
    """
    table = plan.table.iloc[::-1].reset_index(drop=True)  # the first on top
    rows, edge = table.index, table["weight"]
    ax.barh(rows, table["weight"], color=BLUE, height=0.55)
    if "weight_low" in table:
        edge = table[["weight", "weight_high"]].max(axis=1)
        ax.hlines(rows, table["weight_low"], table["weight_high"], color=INK, linewidth=1.2)
    for row in rows:
        text = f"{table['weight'][row]:.1%}"
        write(ax, text, (edge[row], row), xytext=(6, 0), va="center")
    if "natural" in table:
        ax.barh(rows, table["natural"], color="none", edgecolor=INK, height=0.75, linestyle=":")
        edge = edge.combine(table["natural"], max)
    if "cap" in table:
        caps = table["cap"][table["cap"] < 1]
        ax.vlines(caps, caps.index - 0.4, caps.index + 0.4, color=RED, linewidth=1.5)
    ax.set_yticks(rows, table["share"], parse_math=False)
    ax.tick_params(left=False)
    ax.xaxis.set_major_formatter(percent)
    ax.set_xlim(0, 1.2 * edge.max())
    marks = {"red: its cap": "cap" in table, "dotted: natural": "natural" in table}
    return finish(ax, "mixture ratio", "", what_is_drawn(marks))
