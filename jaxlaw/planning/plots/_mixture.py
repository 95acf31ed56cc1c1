"""Pictures of mixtures: trade-offs and weights of corpora."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    answer_below,
    curve,
    dots,
    finish,
    held_inputs,
    percent,
    shade_outside,
    what_is_drawn,
    write,
)
from jaxlaw._quantities import readable
from jaxlaw.data import read_runs

_NAMED = 7  # shares, at most
_SAME = 0.01  # of runs: a factor of sizes or tokens of less is none
_BEYOND = 0.15  # of the mixture ratios that were run: how far a curve goes on beyond them


@picture("mixture")
def trade_off(plan: Answer, ax: Axes, *, runs=None) -> Axes:
    """Domain loss over general loss along the domain share, and where the limit cuts it.

    Mixture ratios that were never run are dashed, and drawn only so far as the answer needs: far
    from the runs a law of mixture ratios turns back on itself, and its draws fly apart.

    Args:
        plan: answer of :func:`jaxlaw.planning.optimal_mixture`.
        ax: axes to draw on.
        runs: runs with both losses, as :func:`jaxlaw.read_runs` takes or returns them; those of
            the size and tokens next to the plan's are shown.
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
    said = {
        held_inputs(plan, "N", "D"): True,
        "domain mixture ratio along the curve": True,
        f"red: above the limit, {plan.limit:.4g}": True,
        f"band: {plan.level:.0%} of draws": "domain_loss_low" in table,
        "dashed: mixture ratios never run": not run.all(),
    }
    if runs is not None:
        read = read_runs(runs)
        general, domain = (
            read.for_corpus(side).observations("chinchilla", free=())
            for side in ("general", "domain")
        )
        near = np.ones(len(domain.target), bool)
        for name in [one for one in ("N", "D") if one in plan.point]:
            wanted = plan.point[name] * (plan.unit_of(name) or ("", 1.0))[1]
            away = np.abs(np.log(domain.inputs[name] / wanted))
            near &= away <= away[near].min() + _SAME
        dots(ax, general.target[near], domain.target[near], color=INK, s=18, zorder=3)
        size, tokens = (readable(domain.inputs[name][near][0]) for name in ("N", "D"))
        said[f"black: runs of N = {size}, D = {tokens}"] = True
    ax.margins(x=0.1, y=0.12)
    left, right = ax.get_xlim()
    right = max(right, plan.limit)
    ax.set_xlim(min(left, plan.limit), right)
    ax.axvspan(plan.limit, right, color=RED, alpha=0.08, linewidth=0, zorder=0)
    shares = MaxNLocator(_NAMED, steps=(1, 2, 5, 10)).tick_values(*table["share"].iloc[[0, -1]])
    shares = shares[(shares >= table["share"].min()) & (shares <= table["share"].max())]
    places = [np.interp(shares, table["share"], losses) for losses in (x, y)]
    dots(ax, *places, color=BLUE, s=14, alpha=1, zorder=3)
    for one, *place in zip(shares, *places, strict=True):
        write(ax, percent(one), place, xytext=(5, 4), color=FAINT)
    if np.isfinite(share):
        # The curve falls to the right: above it there is room.
        text = f"r_d = {plan.quantities['share']}\ndomain loss {plan.domain_loss:.4g}"
        answer_below(ax, plan.general_loss, plan.domain_loss, text)
    return finish(ax, "general loss (nats)", "domain loss (nats)", what_is_drawn(said))


@picture("limited mixture")
def limited_domain(plan: Answer, ax: Axes, *, color=BLUE) -> Axes:
    """Domain loss over the domain mixture ratio, all of the domain's tokens used, and the best.

    Args:
        plan: answer of :func:`jaxlaw.planning.optimal_mixture_data_limited`.
        ax: axes to draw on, such as those of a corpus of another size.
        color: colour of the curve.
    """
    table = plan.points["curve"]
    tokens = plan.quantities["corpus_tokens"].number
    end = curve(ax, table, "share", "loss", color, tokens, 1.5)
    ax.margins(x=0.02, y=0.12)
    ax.set_xlim(right=1)
    if np.isfinite(plan.share):
        answer_below(ax, plan.share, plan.loss, f"r_d = {plan.quantities['share']}", color)
    said = {held_inputs(plan, "N"): True, f"band: {plan.level:.0%} of draws": "loss_low" in table}
    said["shaded: beyond the runs"] = "tried" in plan.facts and shade_outside(ax, *plan.tried)
    return finish(ax, "domain share r_d, all of the domain's tokens used", "domain loss (nats)",
                  what_is_drawn(said), [end])  # fmt: skip


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
        write(ax, f"{table['weight'][row]:.1%}", (edge[row], row), xytext=(6, 0), va="center")
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
    marks = {held_inputs(plan, "N", "D"): True}
    marks |= {"red: its cap": "cap" in table, "dotted: natural": "natural" in table}
    return finish(ax, "share of the mixture", "", what_is_drawn(marks))
