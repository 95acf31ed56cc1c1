"""Plots of size, data and compute: contours, frontiers, and what a base saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import jax
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    answer,
    answer_below,
    count_in_words,
    curve,
    dots,
    finish,
    log_axis,
    need_columns,
    new_axes,
    what_is_drawn,
    with_interval,
    write,
)
from jaxlaw._jit import in_float64
from jaxlaw._typed import Between, checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import outside_range, runs_for
from jaxlaw.planning._constraints import Cost
from jaxlaw.planning._optimise import (
    Question,
    flops,
    log_size,
    log_tokens,
)
from jaxlaw.planning.size_and_data import frontier, size_and_data
from jaxlaw.uncertainty import Draws

_COMPUTE = "training compute (FLOPs)"
_Flops = Annotated[float, Between(0, strict=True, must="a positive number of FLOPs")]
_ROOM = 3.0  # times the target's compute that the frame goes on
_EDGE = 1.3  # around the fitted runs
_ROUNDED = 1e-9  # in logs: a limit itself is allowed


@checked
def isoloss(
    fit: Any,
    computes: tuple[_Flops, _Flops] | None = None,
    ax: Axes | None = None,
    *,
    color: str = BLUE,
    label: str | None = None,
    levels: int | Sequence[float] = 9,
    mark: Answer | None = None,
    runs: Any = None,
    **options: Any,
) -> Axes:
    """Contours of equal loss over compute and size, with the best size (Zheng's figure 5).

    Runs and target are in one frame. Striped is what lies beyond the runs: outside the fitted range
    of N, of D, or of their product or ratio.
    What limits of the plan rule out is left white, and where more epochs would be needed than it
    allows a dashed line says so.

    Args:
        fit: Fit, (law, params) or bootstrap; with draws the best size has a band.
        computes: (least, largest) FLOPs, counted as 6·N·D, or as ``cost=`` and
            ``served_tokens=`` of the options say; the frame goes on where the fitted runs or
            ``mark`` lie beyond. None takes those two alone.
        ax: axes to draw on; a second law drawn there with another color compares.
        color: colour of the line.
        label: name of the line.
        levels: number of the contours, or their losses.
        mark: answer of :func:`jaxlaw.planning.allocation`, drawn as a point with its interval.
        runs: fitted runs, drawn as points, as :func:`jaxlaw.read_runs` takes or returns them.
        **options: options of :func:`jaxlaw.planning.frontier`.

    Raises:
        UsageError: ``computes`` are not in order, or not given for a law without fitted ranges.

    Example:
        >>> from jaxlaw import plots
        >>> plots.isoloss(jl.published()["hoffmann-2022"], (1e19, 1e23)).get_title()
        'contours of equal loss (nats)...'
    """
    if computes is not None and not computes[0] < computes[1]:
        raise UsageError(f"isoloss: computes is {computes}; give (least, largest) FLOPs")
    question = size_and_data(fit, **{k: v for k, v in options.items() if k != "level"})
    source, cost = question.reference, question.given.cost
    computes = _frame(source, cost, computes, mark)
    ax, C = ax or new_axes(), np.geomspace(*computes, 121)
    second = ax.has_data()
    planned = frontier(fit, C, **options)
    best = planned.table
    sizes = [best["N"].min() / 8, best["N"].max() * 8, *(_fitted_ranges(source) or ((), ()))[0]]
    sizes += [*ax.get_ylim()] if second else []  # of another law too
    N = np.geomspace(min(sizes), max(sizes), 160)
    tokens = _tokens_paid(cost, N * source.scale("N"), C, question)
    losses = _losses_over(question, N, tokens, options)
    # Before the contours: labels cut their lines in the scale they find.
    ax.set_xlim(*computes)
    ax.set_ylim(N[0], N[-1])
    log_axis(ax.xaxis, words=False)
    log_axis(ax.yaxis, source.scale("N"))
    levels = _levels(best["loss"], levels) if isinstance(levels, int) else levels
    drawn = ax.contour(C, N, losses, levels=levels, colors=color, linewidths=0.7, alpha=0.6)
    ax.clabel(drawn, fmt="%.2f", fontsize="x-small")
    end_labels = [curve(ax, best, "compute", "N", color, label or "best size", 2)]
    # Stripes of a second law on the same axes would hide those of the first.
    striped = not second and _stripe_beyond(ax, source, C, N, tokens / source.scale("D"))
    if question.epochs is not None:
        _line_of_epochs(ax, C, cost, question, color)
    if runs is not None:
        _dots_of_runs(ax, source, cost, runs)
    if mark is not None and np.isfinite([mark.compute, mark.N]).all():
        _mark(ax, source, mark)
    share = ", each run at its best share" if "r" in question.order else ""
    said = {
        f"band: {planned.level:.0%} of draws": "N_low" in best,
        "striped: beyond the runs": striped,
    }
    words = what_is_drawn(said) or (ax.get_title().partition("\n")[2] if second else "")
    title = f"contours of equal loss (nats){share}" + (f"\n{words}" if words else "")
    return finish(ax, _COMPUTE, "model parameters N", title, end_labels)


def _losses_over(
    question: Question, N: np.ndarray, tokens: np.ndarray, options: Mapping[str, Any]
) -> np.ndarray:
    """(sizes, budgets) losses, each at its best share where that is searched; NaN where none is."""
    source, fixed = question.reference, dict(question.given.others[0])
    point = {name: values[0] for name, values in source.values.items()}
    spec = {symbol.name: symbol.unit for symbol in source.law.inputs}
    fixed |= {"N": N[:, None] * source.units["N"], "D": tokens / spec["D"]}
    if "r" in question.order:
        fixed["r"] = _shares_at(tokens / source.scale("D"), options)
    with np.errstate(invalid="ignore"), in_float64():
        losses = np.asarray(source.law.evaluate(point, **fixed), float)
    if "r" not in question.order:
        return losses
    losses = np.where(np.isnan(fixed["r"]), np.inf, losses).min(axis=0)
    return np.where(np.isfinite(losses), losses, np.nan)


def _levels(best: pd.Series, count: int) -> np.ndarray:
    """Losses of contours, around those of the best runs."""
    lowest, highest = best.min() * 1.03, best.max() * 1.05
    digits = 1 if highest - lowest > 1 else 2
    return np.unique(np.geomspace(lowest, highest, count).round(digits))  # of two laws, too


def _dots_of_runs(ax: Axes, source: Draws, cost: Cost | None, runs: Any) -> None:
    """The runs, over compute and N."""
    observed = runs_for(source, runs).observations(source.law, free=()).inputs
    size, tokens = (observed[name] / source.units[name] for name in ("N", "D"))
    dots(ax, _spent(cost, source, size, tokens), size, color=INK, s=9, zorder=3)


def _frame(
    source: Draws, cost: Cost | None, computes: tuple[float, float] | None, mark: Answer | None
) -> tuple[float, float]:
    """FLOPs from the smallest to the largest of the fitted runs, the target and what is given."""
    known = computes or (np.inf, 0.0)
    least, most = known
    if mark is not None and np.isfinite(mark.compute):
        least, most = min(least, mark.compute / _ROOM), max(most, mark.compute * _ROOM)
    if (ranges := _fitted_ranges(source)) is not None:
        product = source.joint.get("N*D", source.joint.get("D*N"))
        ends = [float(_spent(cost, source, *pair)) for pair in zip(*ranges, strict=True)]
        if product is not None and cost is None:  # no run had the largest N and the largest D
            ends = [6 * end * source.scale("N") * source.scale("D") for end in product]
        # Runs are not to lie on the edge; budgets that were given are.
        least, most = min(least, ends[0] / _EDGE), max(most, ends[1] * _EDGE)
    if not least < most:
        raise UsageError(
            "isoloss: computes is missing, and the law has no fitted ranges of N and D to take it "
            "from; give computes=(1e19, 1e23)"
        )
    return least, most


def _fitted_ranges(source: Draws) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The fitted ranges of N and D; None of coefficients that a paper prints, which have none."""
    ranges = [source.ranges.get(name) for name in ("N", "D")]
    return None if None in ranges or not np.isfinite(ranges).all() else tuple(ranges)


def _mark(ax: Axes, source: Draws, plan: Answer) -> None:
    """The answer: its size with the interval, and what it is in words."""
    if "N" in plan.interval:
        ax.vlines(plan.compute, *plan.interval["N"], color=RED, linewidth=1.4, zorder=4)
    N, D = (count_in_words(getattr(plan, name) * source.scale(name)) for name in ("N", "D"))
    loss = with_interval(plan.loss, plan.interval.get("loss"), ".4g")
    left = ax.transLimits.transform(ax.transScale.transform((plan.compute, plan.N)))[0] > 0.5
    answer(
        ax, plan.compute, plan.N, f"{N} parameters,\n{D} tokens,\nloss {loss}", zorder=5,
        # Beside the line of best sizes, which rises: above it to the left, or below to the right.
        xytext=(-7, 7) if left else (7, -5), va="bottom" if left else "top",
        ha="right" if left else "left",
    )  # fmt: skip


def _stripe_beyond(
    ax: Axes, source: Draws, C: np.ndarray, N: np.ndarray, tokens: np.ndarray
) -> bool:
    """Stripes where N, D, their product or their ratio lie beyond the runs; whether any do."""
    if _fitted_ranges(source) is None:
        return False
    ranges = {name: source.ranges[name] for name in ("N", "D")}
    at = {"N": np.broadcast_to(N[:, None], tokens.shape), "D": tokens}
    outside = np.logical_or.reduce([*outside_range(ranges, source.joint, at).values()])
    outside &= np.isfinite(tokens)
    if outside.any():
        stripes = ax.contourf(C, N, outside.astype(float), levels=[0.5, 1.5], colors="none",
                              hatches=["////"], zorder=0)  # fmt: skip
        stripes.set(edgecolor=(*to_rgb(FAINT), 0.3), linewidth=0)
    return bool(outside.any())


def _tokens_paid(
    cost: Cost | None, sizes: np.ndarray, budgets: np.ndarray, question: Question
) -> np.ndarray:
    """(sizes, budgets) raw tokens that are paid for; NaN where the limits allow no such run."""
    log_N, log_C = (
        axis.ravel() for axis in np.meshgrid(np.log(sizes), np.log(budgets), indexing="ij")
    )
    with in_float64():
        log_D = np.asarray(jax.vmap(partial(log_tokens, cost))(log_N, log_C))
    allowed = np.abs(np.log(flops(cost, log_N, log_D)) - log_C) < _ROUNDED
    low, high = question.given.low, dict(question.given.high)
    if question.epochs is not None:
        high["D"] = min(high["D"], question.given.log_corpus)
    for name, value in (("N", log_N), ("D", log_D)):
        allowed &= (value >= low[name] - _ROUNDED) & (value <= high[name] + _ROUNDED)
    return np.where(allowed, np.exp(log_D), np.nan).reshape(len(sizes), len(budgets))


def _spent(cost: Cost | None, source: Draws, N: Any, D: Any) -> np.ndarray:
    """FLOPs of runs in the user's units."""
    with np.errstate(divide="ignore"):
        return flops(cost, np.log(N * source.scale("N")), np.log(D * source.scale("D")))


def _line_of_epochs(
    ax: Axes, C: np.ndarray, cost: Cost | None, question: Question, color: Any
) -> None:
    """The sizes at which a budget pays for as many tokens as the epochs allow."""
    with in_float64():
        log_N = jax.vmap(partial(log_size, cost, question.given.log_corpus))(np.log(C))
    N = np.exp(np.asarray(log_N)) / question.reference.scale("N")
    low, high = ax.get_ylim()
    shown = np.flatnonzero((low <= N) & (high >= N))
    ax.plot(C, N, color=color, linewidth=0.9, linestyle="--", zorder=2)
    if len(shown):
        at = shown[len(shown) // 2]
        write(ax, f"{question.epochs[0]:.3g} epochs", (C[at], N[at]), color=color, xytext=(4, -9))


def _shares_at(tokens: np.ndarray, options: Mapping[str, Any], count: int = 65) -> np.ndarray:
    """(count, …) shares that are allowed at (…) tokens, from least to most; NaN where none is."""
    low, high = (options.get("limits") or {}).get("r", (None, None))
    low, high = 0.0 if low is None else low, 1.0 if high is None else high
    corpus = options.get("corpus_tokens")
    most = np.minimum(high, np.inf if corpus is None else corpus / tokens)
    most = np.where(most < low, np.nan, most)
    return low + np.linspace(0, 1, count)[:, None, None] * (most - low)


@picture("allocation")
@picture("least compute")
def valley(plan: Answer, ax: Axes | None = None) -> Axes:
    """The loss over the size at the plan's compute, and the best size with its interval."""
    ax, (table, (_, single)) = ax or new_axes(), (plan.points["valley"], plan.unit_of("N"))
    curve(ax, table, "N", "loss", BLUE)
    ax.margins(x=0)
    log_axis(ax.xaxis, single)
    if limits := plan.interval.get("N"):
        ax.hlines(plan.loss, *limits, color=RED, linewidth=1.6, zorder=3)
        ax.set_xlim(table["N"].min(), table["N"].max())
    shown = (plan.quantities[name] for name in ("N", "D", "loss"))
    answer_below(ax, plan.N, plan.loss, "\n".join(map(str, shown)))
    said = {f"loss of runs of {plan.quantities['compute'].number}": True,
            f"band and bar: {plan.level:.0%} of draws": "loss_low" in table}  # fmt: skip
    return finish(ax, "model parameters N", "loss", what_is_drawn(said))


@picture("frontier")
def loss_frontier(
    plan: Answer, ax: Axes | None = None, *, observed: Any = None, label: str | None = None
) -> Axes:
    """The lowest loss over compute.

    Args:
        plan: answer of :func:`jaxlaw.planning.frontier`.
        ax: axes to draw on; a new figure if None.
        observed: table with ``C`` and ``loss``, such as
            :func:`jaxlaw.papers.loss_envelope` returns, or None.
        label: name of the line.
    """
    ax, table = ax or new_axes(), plan.table
    if observed is not None:
        need_columns(observed, ("C", "loss"), "jl.papers.loss_envelope")
        dots(ax, observed["C"], observed["loss"], color=INK, s=14)
        lowest = int(np.argmin(observed["loss"]))
        at = np.asarray(observed["C"])[lowest], np.asarray(observed["loss"])[lowest]
        write(ax, "lowest of the runs", at, xytext=(6, 6))
    end = curve(ax, table, "compute", "loss", BLUE, label or "best run")
    ax.margins(x=0.02)
    log_axis(ax.xaxis, words=False)
    title = what_is_drawn({f"band: {plan.level:.0%} of draws": "loss_low" in table})
    return finish(ax, _COMPUTE, "loss (nats)", title, end_labels=[end])


@picture("allocation law")
def best_sizes(plan: Answer, ax: Axes | None = None) -> Axes:
    """The best size over compute."""
    ax, table = ax or new_axes(), plan.points["sizes"]
    curve(ax, table, "compute", "N", BLUE)
    log_axis(ax.xaxis, words=False)
    log_axis(ax.yaxis, (plan.unit_of("N") or ("", 1.0))[1])
    title = what_is_drawn({f"N = {plan.N_coefficient:.3g}·C^{plan.a:.3f}": True,
                           f"band: {plan.level:.0%} of draws": "N_low" in table})  # fmt: skip
    return finish(ax, _COMPUTE, "best size N (parameters)", title)


@picture("tokens per parameter")
def compute_over_ratio(plan: Answer, ax: Axes | None = None) -> Axes:
    """The compute at which a loss is reached, over the tokens per parameter, and the least."""
    ax, table = ax or new_axes(), plan.points["ratios"]
    curve(ax, table, "ratio", "compute", BLUE)
    ax.margins(x=0)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis, words=False)
    if limits := plan.interval.get("ratio"):
        ax.hlines(plan.compute, *limits, color=RED, linewidth=1.6, zorder=3)
    lines = [f"{plan.quantities['ratio']} tokens per parameter",
             *(str(plan.quantities[name]) for name in ("N", "D", "compute"))]  # fmt: skip
    answer_below(ax, plan.ratio, plan.compute, "\n".join(lines))
    said = {f"compute to a loss of {plan.quantities['loss'].number}": True,
            f"bar: {plan.level:.0%}": "ratio" in plan.interval}  # fmt: skip
    return finish(ax, "tokens per parameter", _COMPUTE, what_is_drawn(said))
