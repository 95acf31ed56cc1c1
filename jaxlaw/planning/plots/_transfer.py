"""Pictures of what a base saves against training from scratch, and a recipe against another."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import INK, curve, finish, log_axis, new_axes, percent, shades, write
from jaxlaw._quantities import readable


@picture("data transferred")
@picture("transfer table")
@picture("frontier savings")
def transfer(
    answer: Answer | pd.DataFrame, ax: Axes | None = None, *, quantity: str = "saved"
) -> Axes:
    """What a base saves, over the tokens of the continual run (Zheng's figure 2), or over budgets.

    Args:
        answer: answer of :func:`jaxlaw.planning.data_transferred` or ``frontier_savings``, or table
            of :func:`jaxlaw.papers.observed_transfer`.
        ax: axes to draw on; a new figure if None.
        quantity: ``saved``, the fraction of the compute, or ``transferred``, the tokens.

    Example:
        >>> from jaxlaw import plots
        >>> scratch, base = (jl.published()[f"zheng-2024-{name}"] for name in ("scratch", "cpt"))
        >>> table = jl.planning.data_transferred(scratch, base, N=[1e9, 4e9], D=[1e9, 1e10])
        >>> plots.transfer(table, quantity="transferred").get_ylabel()
        'tokens transferred'
    """
    if isinstance(answer, Answer):
        answer = (answer.tables or answer.points)["table"]
    ax, by, over = ax or new_axes(), answer.columns[0], "D" if "D" in answer else "compute"
    seen = answer[np.isfinite(answer[quantity])]
    groups = [("", seen)] if by == over else list(seen.groupby(by))
    for color, (size, rows) in zip(shades(len(groups)), groups, strict=True):
        curve(ax, rows, over, quantity, color, width=1.5)
        if by != over:
            label = f"N = {readable(size)}" if by == "N" else f"{by} {size}"
            start = rows.iloc[0]  # the other ends may lie far below
            write(ax, label, (start[over], start[quantity]), color=color, xytext=(2, 5))
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    saved = quantity == "saved"
    xlabel = "tokens of the continual run" if by != over else "compute from scratch (FLOPs)"
    ylabel = "compute saved against scratch" if saved else "tokens transferred"
    log_axis(ax.xaxis, words=by != over)
    finish(ax, xlabel, ylabel)
    if saved:
        ax.set_ylim(max(-1.05, min(seen["saved"].min(), 0.0) - 0.05), 1.0)
    ax.yaxis.set_major_formatter(percent if saved else lambda value, _: readable(value))
    return ax
