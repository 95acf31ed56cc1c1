"""Plots of mixtures: trade-offs, weights of corpora and replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    answer,
    count_in_words,
    curve,
    dots,
    finish,
    need_columns,
    new_axes,
    percent,
    shades,
    stripe_outside,
    vertical,
    what_is_drawn,
    with_interval,
    write,
)
from jaxlaw._jit import in_float64
from jaxlaw._typed import checked
from jaxlaw.planning._frame import law_inputs
from jaxlaw.planning.mixture import (
    Mixture,
    OptimalWeights,
    ReplayComparison,
    critical_ratio,
    optimal_mixture_data_limited,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns

_BEYOND = 0.15  # of the shares that were run: how far a curve goes on beyond them


def curve_of(source: Draws, **inputs: Any) -> dict[str, np.ndarray]:
    """Losses by a law, with ``loss_low`` and ``loss_high`` of draws; law's own units."""
    params = {name: values[:, None] for name, values in source.values.items()}
    with in_float64():
        losses = np.asarray(source.law.evaluate(params, **inputs), float)
    return interval_columns("loss", losses, LEVEL)


@checked
def trade_off(plan: Mixture, ax: Axes | None = None, *, observed: Any = None) -> Axes:
    """Domain loss over general loss along the domain share, and where the limit cuts it.

    Shares that were never run are dashed, and drawn only so far as the answer needs.

    Args:
        plan: mixture that :func:`jaxlaw.planning.optimal_mixture` returned.
        ax: axes to draw on; a new figure if None.
        observed: table of runs with columns ``general_loss`` and ``domain_loss``, or None.

    Example:
        >>> from jaxlaw import plots
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> general = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plan = jl.planning.optimal_mixture(general, domain, start=2.0, at={"N": 1.8, "D": 10.0})
        >>> plots.trade_off(plan).get_xlabel()
        'general loss (nats)'
    """
    ax, table = ax or new_axes(), _around_runs(plan)
    known = np.isfinite(plan.tried).all()
    run = table["share"].between(*plan.tried) if known else table["share"] >= 0
    if "domain_loss_low" in table:
        ax.fill_between(table["general_loss"], table["domain_loss_low"], table["domain_loss_high"],
                        color=BLUE, alpha=0.16, linewidth=0)  # fmt: skip
    x, y = (table[name].to_numpy() for name in ("general_loss", "domain_loss"))
    ax.plot(x, y, color=BLUE, linewidth=1.2, linestyle="--" if known else "-")
    ax.plot(np.where(run, x, np.nan), np.where(run, y, np.nan), color=BLUE, linewidth=2)
    if observed is not None:
        need_columns(observed, ("general_loss", "domain_loss"), "a table of runs")
        dots(ax, observed["general_loss"], observed["domain_loss"], color=INK, s=18, zorder=3)
    ax.margins(x=0.1, y=0.12)
    ax.set_xlim(min(ax.get_xlim()[0], plan.limit), max(ax.get_xlim()[1], plan.limit))
    ax.axvspan(plan.limit, ax.get_xlim()[1], color=RED, alpha=0.08, linewidth=0, zorder=0)
    late = ax.transAxes.inverted().transform(ax.transData.transform((plan.limit, 0)))[0] > 0.8
    beside = {"xytext": (-4, 0), "ha": "right"} if late else {"ha": "left"}
    vertical(ax, plan.limit, f"limit {plan.limit:.4g}", linestyle="--", zorder=1, **beside)
    _name_shares(ax, table)
    _mark(ax, plan)
    said = {
        "domain share along the curve": True,
        f"band: {plan.level:.0%} of draws": "domain_loss_low" in table,
        "dashed: shares never run": not run.all(),
    }
    return finish(ax, "general loss (nats)", "domain loss (nats)", what_is_drawn(said))


def _mark(ax: Axes, plan: Mixture) -> None:
    """The answer, where there is one."""
    if not np.isfinite(plan.share):
        return
    left = plan.general_loss < np.mean(ax.get_xlim())  # where there is room for words
    share = with_interval(plan.share, plan.interval.get("share"), ".3f")
    answer(
        ax, plan.general_loss, plan.domain_loss,
        f"r_d = {share}\ndomain loss {plan.domain_loss:.4g}",
        # The curve falls: above it to the right, or below it to the left.
        s=44, zorder=4, va="bottom" if left else "top", ha="left" if left else "right",
        fontsize="medium", xytext=(7, 7) if left else (-7, -7),
    )  # fmt: skip


def _around_runs(plan: Mixture) -> pd.DataFrame:
    """The curve over the shares that were run, a little beyond, and to the answer.

    Far from the runs a law of shares turns back on itself, and its draws fly apart: of a curve
    drawn from 0 to 1 one would see little else.
    """
    low, high = plan.tried
    if not np.isfinite(plan.tried).all():
        return plan.curve
    ends = [low, high] + ([plan.share] if np.isfinite(plan.share) else [])
    room = _BEYOND * (max(ends) - min(ends)) or _BEYOND
    return plan.curve[plan.curve["share"].between(min(ends) - room, max(ends) + room)]


def _name_shares(ax: Axes, table: pd.DataFrame) -> None:
    """Round shares along a curve, as many as can be read."""
    span = np.ptp(table["share"])
    step = 0.2 if span > 0.6 else 0.1 if span > 0.25 else 0.05
    parts = table["share"] / step
    shown = table[np.isclose(parts, parts.round(), atol=1e-6)]
    dots(ax, shown["general_loss"], shown["domain_loss"], color=BLUE, s=14, alpha=1, zorder=3)
    for row in shown.itertuples():
        at = row.general_loss, row.domain_loss
        write(ax, percent(row.share), at, xytext=(5, 4), color=FAINT)


@checked
def limited_domain(
    domain: Any, corpus_tokens: float | Sequence[float], ax: Axes | None = None, **options: Any
) -> Axes:
    """Domain loss over the domain share, all of the domain data used, and its best share.

    Args:
        domain: fit of the domain loss.
        corpus_tokens: tokens of the domain's corpus; several numbers draw a curve each.
        ax: axes to draw on; a new figure if None.
        **options: other options of :func:`jaxlaw.planning.optimal_mixture_data_limited`.

    Example:
        >>> from jaxlaw import plots
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plots.limited_domain(domain, [0.05, 1.0], at={"N": 1.8}).get_ylabel()
        'domain loss (nats)'
    """
    ax, (source,) = ax or new_axes(), as_draws(domain)
    fixed = law_inputs(source, options.get("at"), ("D", "r"))
    point = source.without()
    r, amounts, end_labels = np.linspace(0.02, 1, 400), np.atleast_1d(corpus_tokens), []
    for color, tokens in zip(shades(len(amounts)), amounts, strict=True):
        plan = optimal_mixture_data_limited(domain, float(tokens), **options)
        table = curve_of(point, D=tokens * source.units["D"] / r, r=r, **fixed)
        name = f"{count_in_words(tokens * source.scale('D'))} tokens"
        end_labels.append(curve(ax, table, r, "loss", color, name, 1.5))
        if np.isfinite(plan.share):
            if (interval := plan.interval.get("share")) is not None:
                ax.plot(interval, [plan.loss] * 2, color=color, linewidth=4, alpha=0.3)
            late = plan.share > 0.95
            beside = {"xytext": (-3, 5), "ha": "right"} if late else {"xytext": (0, 6)}
            beside = {"ha": "center", "color": color} | beside
            answer(ax, plan.share, plan.loss, f"r_d = {plan.share:.3f}", **beside)
    ax.margins(x=0.02, y=0.12)
    ax.set_xlim(right=1)
    finish(
        ax, "domain share r_d, all of the domain's tokens used", "domain loss (nats)",
        "a curve for each size of the domain's corpus", end_labels,
    )  # fmt: skip
    low, high = np.array(source.ranges.get("r", (np.nan, np.nan))) * source.units["r"]
    if stripe_outside(ax, low, high, ""):
        ax.set_title(f"{ax.get_title()}; striped: shares never run", fontsize="medium", color=INK)
    return ax


def _share_bars(
    ax: Axes,
    shares: Mapping[str, float],
    colors: Any,
    intervals: Sequence[Any],
) -> np.ndarray:
    """A bar for each share, with its interval where there is one; (k,) rows, the first on top."""
    rows = np.arange(len(shares))[::-1]
    ax.barh(rows, list(shares.values()), color=colors, height=0.55)
    for row, share, interval in zip(rows, shares.values(), intervals, strict=True):
        if interval is not None:
            ax.plot(interval, [row, row], color=INK, linewidth=1.2, marker="|", markersize=7)
        edge = share if interval is None else max(share, interval[1])
        write(ax, f"{share:.1%}", (edge, row), xytext=(6, 0), va="center")
    ax.set_yticks(rows, list(shares), parse_math=False)
    ax.tick_params(left=False)
    ax.xaxis.set_major_formatter(percent)
    return rows


@checked
def mixture_weights(plan: OptimalWeights, ax: Axes | None = None) -> Axes:
    """The best mixture of many corpora: weights with intervals, natural shares, and caps.

    Args:
        plan: mixture that :func:`jaxlaw.planning.optimal_weights` returned.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> law = jl.laws.mixing(["web", "code"])
        >>> fit = (law, {"c": 1.0, "t[web]": 0.5, "t[code]": -0.5})
        >>> plan = jl.planning.optimal_weights({"loss": fit}, caps={"code": 0.3})
        >>> plots.mixture_weights(plan).get_xlabel()
        'share of the mixture'
    """
    ax, table = ax or new_axes(), plan.table
    intervals: list[Any] = [None] * len(table)
    if "weight_low" in table:
        intervals = list(zip(table["weight_low"], table["weight_high"], strict=True))
    weights = dict(zip(table["share"], table["weight"], strict=True))
    rows = _share_bars(ax, weights, BLUE, intervals)
    if "natural" in table:
        ax.barh(rows, table["natural"], color="none", edgecolor=INK, height=0.75, linestyle=":")
    if "cap" in table:
        limited = (table["cap"] < 1).to_numpy()
        caps = table["cap"][limited]
        ax.vlines(caps, rows[limited] - 0.4, rows[limited] + 0.4, color=RED, linewidth=1.5)
    shown = table[[name for name in ("weight", "weight_high", "natural") if name in table]]
    ax.set_xlim(0, min(1.2 * np.nanmax(shown.to_numpy()), 1.2))
    marks = {"cap": "red: its cap", "natural": "dotted: natural"}
    title = ", ".join(text for name, text in marks.items() if name in table)
    return finish(ax, "share of the mixture", "", title)


@checked
def critical_share(
    general: Any,
    start: float,
    ax: Axes | None = None,
    *,
    threshold: float = 0.0,
    at: Mapping[str, float | str] | None = None,
) -> Axes:
    """General loss over its share of the mixture, and the least share that brings it back.

    Args:
        general: fit of the general loss.
        start: general loss before the run, in nats.
        ax: axes to draw on; a new figure if None.
        threshold: share of the start by which the loss may lie above it.
        at: values of the law's other inputs, such as N and D.

    Example:
        >>> from jaxlaw import plots
        >>> general = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plots.critical_share(general, 2.86, at={"N": 1.8, "D": 10.0}).get_ylabel()
        'general loss (nats)'
    """
    plan = critical_ratio(general, start=start, threshold=threshold, at=at)
    ax, (source,) = ax or new_axes(), as_draws(general)
    r, limit = np.linspace(0.01, 1, 200), start * (1 + threshold)
    fixed = law_inputs(source, at, ("r",))
    losses = curve_of(source, r=r, **fixed)
    curve(ax, losses, r, "loss", BLUE)
    ax.axhline(limit, color=INK, linewidth=0.8, linestyle="--")
    if np.isfinite(plan.share):
        late = plan.share > 0.6
        text = f"r_g = {with_interval(plan.share, plan.interval.get('share'), '.3f')}"
        answer(ax, plan.share, plan.loss, text, va="bottom", ha="right" if late else "left",
               xytext=(-5 if late else 5, 5))  # fmt: skip
    end_labels = [(limit, "limit" if threshold else "start", INK)]
    xlabel = "share of the general corpus r_g"
    _near_runs(ax, source, r, losses, [plan.share], limit)
    finish(ax, xlabel, "general loss (nats)", _band(losses), end_labels, margins={"x": 0.0})
    _stripe_shares(ax, source)
    return ax


def _near_runs(
    ax: Axes,
    source: Draws,
    r: np.ndarray,
    losses: Mapping[str, np.ndarray],
    answers: Sequence[float],
    *more: float,
) -> None:
    """Heights of the axes for the shares that were run and the answers: 0 % may be far above."""
    low, high = np.array(source.ranges.get("r", (np.nan, np.nan))) * source.units["r"]
    if not np.isfinite([low, high]).all():
        return
    shares = [low, high, *(one for one in answers if np.isfinite(one))]
    near = (r >= 0.8 * min(shares)) & (r <= max(shares) + 0.2)
    seen = [np.asarray(values)[near] for name, values in losses.items() if "loss" in name]
    ends = np.append(np.concatenate(seen), more)
    room = 0.08 * np.ptp(ends)
    ax.set_ylim(ends.min() - room, ends.max() + room)


def _stripe_shares(ax: Axes, source: Draws) -> None:
    """Stripes over the shares that were never run."""
    low, high = np.array(source.ranges.get("r", (np.nan, np.nan))) * source.units["r"]
    stripe_outside(ax, low, high)


def _band(losses: Mapping[str, np.ndarray]) -> str:
    """What the band of a curve is; empty without one."""
    return f"band: {LEVEL:.0%} of draws" if "loss_low" in losses else ""


@checked
def replay_losses(plan: ReplayComparison, ax: Axes | None = None) -> Axes:
    """Loss of a corpus over the compute spent on it, a line for each share (Zheng's fig. 4).

    Args:
        plan: comparison that :func:`jaxlaw.planning.compare_replay` returned.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plan = jl.planning.compare_replay(
        ...     domain, [0.2, 0.9], corpus_tokens=(0.1, 10), at={"N": 1.8}
        ... )
        >>> plots.replay_losses(plan).get_ylabel()
        'loss of this corpus (nats)'
    """
    ax, table = ax or new_axes(), plan.table
    by = "corpus_compute" if table["corpus_compute"].notna().all() else "corpus_tokens"
    shares = np.unique(table["r"])
    end_labels = [
        curve(ax, table[table["r"] == r], by, "loss", color, f"r = {r:.3g}", 1.5)
        for color, r in zip(shades(len(shares)), shares, strict=True)
    ]
    if 0 < plan.meet < np.inf:
        at = plan.meet * (table[by] / table["corpus_tokens"]).iloc[0]
        vertical(ax, at, "meet", color=INK, linewidth=0.8, linestyle="--")
    names = {"corpus_compute": "compute on this corpus (FLOPs)", "corpus_tokens": "its tokens"}
    return finish(ax, names[by], "loss of this corpus (nats)", end_labels=end_labels,
                  margins={"x": 0.02}, log_x={"words": False})  # fmt: skip
