"""Plots of size, data and compute: contours, a budget's valley, the frontier."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    SHADE,
    VEIL,
    answer_below,
    curve,
    dots,
    finish,
    log_axis,
    new_axes,
    target_label,
    what_is_drawn,
)
from jaxlaw._jit import in_float64
from jaxlaw._quantities import UNKNOWN
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.fitting import outside_range, runs_for
from jaxlaw.planning._optimise import flops, log_tokens, losses_at
from jaxlaw.planning.size_and_data import frontier, size_and_data
from jaxlaw.uncertainty import LEVEL

_COMPUTE = "training compute (FLOPs)"
_Flops = Annotated[float, Between(0, strict=True, must="a positive number of FLOPs")]
_LEVELS = 9  # contours


@checked
def isoloss(
    fit: Any,
    computes: tuple[_Flops, _Flops],
    ax: Axes | None = None,
    *,
    color: str = BLUE,
    label: str | None = None,
    runs: Any = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Axes:
    """Contours of equal loss over compute and size, with the best size (Zheng's figure 5).

    Shaded is what lies beyond the runs: outside the fitted range of N, of D, or of their product
    or ratio.

    Args:
        fit: Fit, (law, params) or bootstrap; with draws the best size has a band.
        computes: (least, largest) FLOPs.
        ax: axes to draw on; a second law drawn there with another color compares.
        color: colour of the line.
        label: name of the line.
        runs: fitted runs, drawn as points, as :func:`jaxlaw.read_runs` takes or returns them.
        at: values of the law's other inputs.
        level: confidence level of the band.

    Example:
        >>> from jaxlaw import plots
        >>> plots.isoloss(jl.published()["hoffmann-2022"], (1e19, 1e23)).get_title()
        'contours of equal loss (nats)...'
    """
    question = size_and_data(fit, at=at)
    source, cost = question.reference, question.given.cost
    ranges = {name: source.ranges.get(name, UNKNOWN) for name in ("N", "D")}
    known = np.isfinite([*ranges.values()]).all()  # not of coefficients that a paper prints
    ax, C = ax or new_axes(), np.geomspace(*computes, 121)
    before = ax.get_title()  # of another law on these axes
    best = frontier(fit, C, at=at, level=level).table
    room, limits = (2, ax.get_ylim()) if before else (8, ())
    sizes = [best["N"].min() / room, best["N"].max() * room, *limits]
    sizes += ranges["N"] if known else ()
    N = np.geomspace(min(sizes), max(sizes), 160)
    log_N, log_C = np.log(N * source.scale("N"))[:, None], np.log(C)
    with in_float64():
        log_D = np.asarray(jnp.vectorize(partial(log_tokens, cost))(log_N, log_C))
    log_N = np.broadcast_to(log_N, log_D.shape)
    (losses,) = losses_at(source.without(), log_N[None], log_D[None], question.given.others[0])
    # Before the contours: labels cut their lines in the scale they find.
    ax.set_xlim(*computes)
    ax.set_ylim(N[0], N[-1])
    log_axis(ax.xaxis, words=False)
    log_axis(ax.yaxis, source.scale("N"))
    lowest, highest = best["loss"].min() * 1.03, best["loss"].max() * 1.05
    levels = np.geomspace(lowest, highest, _LEVELS).round(1 if highest - lowest > 1 else 2)
    # Two laws compare where their losses are the same.
    levels = next((one.levels for one in ax.collections if isinstance(one, ContourSet)), levels)
    drawn = ax.contour(
        C, N, losses, levels=np.unique(levels), colors=color, linewidths=0.7, alpha=0.6
    )
    written = [text.get_window_extent() for text in ax.texts]  # numbers of another law
    for number in ax.clabel(drawn, inline=False, fmt="%.2f", fontsize="x-small"):
        number.set_bbox(VEIL | {"pad": 0})  # lines of another law may pass there
        if any(number.get_window_extent().overlaps(one) for one in written):
            number.remove()
    end_labels = [curve(ax, best, "compute", "N", color, label or "best size", 2)]
    shaded = False
    if known and not before:  # a second shade on the same axes would darken the first
        tokens = np.exp(log_D) / source.scale("D")
        run = {"N": np.broadcast_to(N[:, None], tokens.shape), "D": tokens}
        outside = np.logical_or.reduce([*outside_range(ranges, source.joint, run).values()])
        if shaded := bool(outside.any()):
            shade: dict[str, Any] = {"alpha": SHADE, "zorder": 0}
            ax.contourf(C, N, outside.astype(float), levels=[0.5, 1.5], colors=[FAINT], **shade)
            for end in (N[0], N[0] / 1e9), (N[-1], N[-1] * 1e9):  # seen if a second law goes there
                ax.axhspan(*end, color=FAINT, linewidth=0, **shade)
    if runs is not None:
        observed = runs_for(source, runs).observations(source.law, free=()).inputs
        size, tokens = (observed[name] / source.units[name] for name in ("N", "D"))
        logs = np.log(size * source.scale("N")), np.log(tokens * source.scale("D"))
        dots(ax, flops(cost, *logs), size, color=INK, s=9, zorder=3)
    title = what_is_drawn({
        f"contours of equal {target_label(source.fit)}": True,
        f"band: {level:.0%} of draws": "N_low" in best,
        "shaded: beyond the runs": shaded,
    })  # fmt: skip
    return finish(ax, _COMPUTE, "model parameters N", before or title, end_labels)


@picture("allocation")
@picture("least compute")
def valley(plan: Answer, ax: Axes) -> Axes:
    """The loss over the size at the plan's compute, and the best size with its interval."""
    table, (_, single) = plan.points["valley"], plan.unit_of("N")
    curve(ax, table, "N", "loss", BLUE)
    if limits := plan.interval.get("N"):
        ax.hlines(plan.loss, *limits, color=RED, linewidth=1.6, zorder=3)
    ax.set_xlim(table["N"].min(), table["N"].max())
    log_axis(ax.xaxis, single)
    shown = (plan.quantities[name] for name in ("N", "D", "loss"))
    answer_below(ax, plan.N, plan.loss, "\n".join(map(str, shown)))
    said = {f"loss of runs of {plan.quantities['compute'].number}": True,
            f"band and bar: {plan.level:.0%} of draws": "loss_low" in table}  # fmt: skip
    label = f"loss ({plan.quantities['loss'].unit})".removesuffix(" ()")
    return finish(ax, "model parameters N", label, what_is_drawn(said))


@picture("frontier")
@picture("compute multiplier")
def over_compute(plan: Answer, ax: Axes) -> Axes:
    """The lowest loss over compute, or what a recipe is worth against a reference (1: no gain)."""
    table, y, x, label = plan.table, "loss", _COMPUTE, "lowest loss (nats)"
    if "multiplier" in table:
        y, x = "multiplier", "compute of the reference (FLOPs)"
        label = "compute of the reference at equal loss"
        ax.axhline(1.0, color=INK, linewidth=0.8, linestyle="--")
        ax.yaxis.set_major_formatter("×{x:g}")
    curve(ax, table, "compute", y, BLUE, marker="o", markersize=3)
    ax.margins(x=0.02)
    log_axis(ax.xaxis, words=False)
    title = what_is_drawn({f"band: {plan.level:.0%} of draws": f"{y}_low" in table})
    return finish(ax, x, label, title)
