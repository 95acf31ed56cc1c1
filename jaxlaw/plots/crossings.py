"""Pictures of where losses cross: a start, or each other; Axes in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from jaxlaw._jit import in_float64
from jaxlaw.planning._allocation import frontier
from jaxlaw.planning._answers import LEVEL, Source, held, sources, with_ends
from jaxlaw.planning._mixture import critical_ratio
from jaxlaw.planning._transfer import BreakEven, Saving, size_and_data_laws
from jaxlaw.plots.style import (
    BLUE,
    INK,
    RED,
    band,
    dots,
    log_axis,
    name_ends,
    new_axes,
    tidy,
    write,
)

_AROUND = 30.0  # times less and more than where the losses cross
_AXES = {"D": "tokens", "N": "model parameters N", "compute": "training compute (FLOPs)"}


def share_back(
    general: Any, start: float, ax: Axes | None = None, *, threshold: float = 0.0, **inputs: float
) -> Axes:
    """General loss over its share of the mixture, and the least share that brings it back.

    Args:
        general, start, threshold, **inputs: as for :func:`jaxlaw.planning.critical_ratio`.
        ax: where to draw; a new figure if None.
    """
    plan = critical_ratio(general, start=start, threshold=threshold, **inputs)
    ax, (source,) = ax or new_axes(), sources(general)
    r = np.linspace(0.01, 1, 200)
    at = held(source, {k: v for k, v in inputs.items() if k != "level"}, ("r",))
    curve = _curve(source, r=r, **at)
    ax.plot(r, curve["loss"], color=BLUE, linewidth=1.6)
    if "loss_low" in curve:
        band(ax, r, curve["loss_low"], curve["loss_high"], BLUE)
    limit = start * (1 + threshold)
    ax.axhline(limit, color=INK, linewidth=0.8, linestyle="--")
    ax.margins(x=0.02)
    name_ends(ax, [(limit, "start" if not threshold else "limit", INK)])
    if np.isfinite(plan.share):
        dots(ax, plan.share, plan.loss, color=RED, s=36, alpha=1, zorder=3)
        ends = plan.interval.get("share")
        said = f"{plan.share:.3f}" + (f" ({ends[0]:.3f} to {ends[1]:.3f})" if ends else "")
        late = plan.share > 0.6
        write(ax, said, (plan.share, plan.loss), color=RED, va="bottom",
              xytext=(-5 if late else 5, 5), ha="right" if late else "left")  # fmt: skip
    ax.set_xlabel("share of the general corpus r_g")
    ax.set_ylabel("general loss (nats)")
    return tidy(ax)


def both_ways(
    scratch: Any,
    continual: Any,
    ax: Axes | None = None,
    *,
    N: float | None = None,
    compute: float | None = None,
    found: BreakEven | Saving | None = None,
) -> Axes:
    """Loss from scratch and from a base: over tokens, over the size, or over the budget.

    Args:
        scratch, continual: as for :func:`jaxlaw.planning.break_even`.
        ax: where to draw; a new figure if None.
        N: at this size, over the tokens; compute: at this budget, over the size. With neither,
            over the budget, each at its best size.
        found: what :func:`jaxlaw.planning.break_even` or ``compute_savings`` returned, marked.
    """
    ax = ax or new_axes()
    both = size_and_data_laws(sources(scratch, continual))
    ours, along = both[1], "D" if N is not None else "N" if compute is not None else "compute"
    single = 1.0 if along == "compute" else ours.single(along)
    x, ends = _range(found, along, single), []
    for source, fit, name, color in zip(
        both, (scratch, continual), ("from scratch", "from the base"), (INK, BLUE), strict=True
    ):
        if along == "compute":
            curve = frontier(fit, x).table
        else:
            size = x if along == "N" else N * ours.single("N")
            tokens = x if along == "D" else compute / (6 * x)
            spec = {one.name: one.unit for one in source.law.inputs}
            curve = _curve(source, N=size / spec["N"], D=tokens / spec["D"])
        ax.plot(x / single, curve["loss"], color=color, linewidth=1.6)
        if "loss_low" in curve:
            band(ax, x / single, curve["loss_low"], curve["loss_high"], color)
        ends.append((np.asarray(curve["loss"])[-1], name, color))
    _marked(ax, found, along)
    ax.margins(x=0.02)
    log_axis(ax.xaxis, single, words=along != "compute")
    name_ends(ax, ends)
    ax.set_xlabel(_AXES[along])
    ax.set_ylabel("loss (nats)")
    return tidy(ax)


def _curve(source: Source, **inputs: Any) -> dict[str, np.ndarray]:
    """Losses, with the ends of their intervals where there are replicates; law's own units."""
    params = {name: values[:, None] for name, values in source.params.items()}
    with in_float64():
        losses = np.asarray(source.law.at_once(params, **inputs), float)
    return with_ends("loss", losses, LEVEL)


def _range(found: BreakEven | Saving | None, along: str, single: float) -> np.ndarray:
    """Single ones of what goes along, around the answer where there is one."""
    usual = {"D": (1e8, 1e13), "N": (1e7, 1e12), "compute": (1e17, 1e25)}[along]
    at = []
    if isinstance(found, Saving):
        at = [found.scratch_compute, found.continual_compute]
    elif found is not None:
        at = [getattr(found, along) * single]
    if not at or not np.isfinite(at).all():
        return np.geomspace(*usual, 81)
    return np.geomspace(min(at) / _AROUND, max(at) * _AROUND, 81)


def _marked(ax: Axes, found: BreakEven | Saving | None, along: str) -> None:
    if isinstance(found, Saving):
        at = [found.scratch_compute, found.continual_compute]
        if np.isfinite(at).all():
            ax.plot(at, [found.loss] * 2, color=RED, linewidth=1.2, marker="o", markersize=4)
            text = f"{found.saved:.0%} saved".replace("-", "−")
            write(ax, text, (min(at), found.loss), color=RED, xytext=(0, -6), va="top")
    elif found is not None:
        at = getattr(found, along)
        if np.isfinite(at) and np.isfinite(found.loss):
            ax.axvline(at, color=RED, linewidth=0.9, linestyle=":")
            write(ax, f"the base pays {found.pays}", (at, 0.98), color=RED, va="top",
                  xycoords=("data", "axes fraction"), xytext=(4, 0))  # fmt: skip
        else:
            ax.set_title(f"the base pays {found.pays}", color=RED, fontsize="medium")
