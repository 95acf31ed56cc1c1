"""Runs of equal compute: the loss over the size, a curve for each budget, and its lowest point."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from jaxlaw._axes import (
    INK,
    dots,
    finish,
    log_axis,
    new_axes,
    power_of_ten,
    shade_outside,
    shades,
    what_is_drawn,
    write,
)
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import read_runs
from jaxlaw.errors import UsageError
from jaxlaw.uncertainty import LEVEL

_GAP = 1.15  # between the computes of two runs: above it they are of two budgets
_LEAST = 3  # sizes of a budget: fewer have no parabola
_WIDE = 2.0  # ratio of computes within a budget: above it the runs are of no budget
_SIZES = 120  # of a curve


@checked
def isoflops(runs: Any, ax: Axes | None = None, *, level: ConfidenceLevel = LEVEL) -> Axes:
    """Loss over the size, a curve for each budget, with the best size (Hoffmann 2022, figure 3).

    Each curve is a parabola over log N, fitted to the runs of the budget. The bar at its lowest
    point is the interval of the best size by the parabola's covariance and Student's t; a lowest
    point outside of its runs has none, and is drawn hollow: it is a bound, no estimate.

    Args:
        runs: runs of several budgets, as :func:`jaxlaw.read_runs` takes or returns them, with
            N, D and loss. Runs whose 6·N·D is the same within 15% are of one budget.
        ax: axes to draw on; a new figure if None.
        level: confidence level of the intervals.

    Raises:
        UsageError: no three runs are of one budget.

    Example:
        >>> from jaxlaw import plots
        >>> law = jl.published()["hoffmann-2022"]
        >>> C, N = np.meshgrid([1e19, 1e20, 1e21], [2e8, 5e8, 1e9, 2e9, 5e9])
        >>> runs = {"N": N.ravel(), "D": (C / (6 * N)).ravel()}
        >>> runs["loss"] = law.predict(**runs)
        >>> plots.isoflops(pd.DataFrame(runs)).get_xlabel()
        'model parameters N'
    """
    observed = read_runs(runs).observations("chinchilla", free=())
    N, loss = observed.inputs["N"], observed.target
    compute = 6 * N * observed.inputs["D"]
    order = np.argsort(compute)
    cuts = np.flatnonzero(np.diff(np.log(compute[order])) > np.log(_GAP)) + 1
    budgets = [
        rows
        for rows in np.split(order, cuts)
        if len(np.unique(N[rows])) >= _LEAST and compute[rows[-1]] <= _WIDE * compute[rows[0]]
    ]
    if not budgets:
        raise UsageError(
            "isoflops: no three runs of different sizes N have the same 6·N·D: these are no runs "
            "of equal compute"
        )
    ax, path = ax or new_axes(), []
    said = {"each curve a budget in FLOPs": True, "hollow: beyond its runs": False}
    for rows, color in zip(budgets, shades(len(budgets)), strict=True):
        sizes, losses, centre = N[rows], loss[rows], np.log(N[rows]).mean()
        x = np.log(sizes) - centre
        a, b, c = parabola = np.polyfit(x, losses, 2)
        # A little beyond the runs, so that a lowest point at their end is seen.
        room = 0.08 * np.ptp(x)
        along = np.linspace(x.min() - room, x.max() + room, _SIZES)
        dots(ax, sizes, losses, color=[color], s=16)
        ax.plot(np.exp(along + centre), np.polyval(parabola, along), color=color, linewidth=1.4)
        name = power_of_ten(float(f"{np.exp(np.log(compute[rows]).mean()):.2g}"))
        # Beyond its largest size, where curves of larger budgets are below.
        end = np.exp(along[-1] + centre), np.polyval(parabola, along[-1])
        write(ax, name, end, color=color, fontsize="x-small", xytext=(3, 2))
        if not a > 0:  # it has a highest point
            continue
        at, degrees = -b / (2 * a), len(x) - 3
        inside = x.min() <= at <= x.max()
        k = int(np.argmin(losses))  # a bound, where the vertex is a guess
        best = (np.exp(at + centre), c - b**2 / (4 * a)) if inside else (sizes[k], losses[k])
        path += [best] * bool(inside)
        said["hollow: beyond its runs"] |= not inside
        ax.scatter(*best, s=34, facecolor=[color if inside else "white"], edgecolor=[color],
                   marker="D", zorder=4)  # fmt: skip
        if inside and degrees > 0:
            covariance = np.polyfit(x, losses, 2, cov=True)[1]
            gradient = np.array([b / (2 * a**2), -1 / (2 * a), 0.0])
            half = stats.t.ppf((1 + level) / 2, degrees) * np.sqrt(gradient @ covariance @ gradient)
            ax.plot(best[0] * np.exp([-half, half]), [best[1]] * 2, color=color, linewidth=4,
                    alpha=0.4, solid_capstyle="butt", zorder=3)  # fmt: skip
            said[f"bars: {level:.0%} of the best size"] = True
    ax.plot(*np.array(path).reshape(-1, 2).T, color=INK, linewidth=0.9, linestyle="--", zorder=2)
    ax.margins(x=0.11)  # names lie on the right
    log_axis(ax.xaxis)
    fitted = N[np.concatenate(budgets)]
    said["shaded: beyond the runs"] = shade_outside(ax, fitted.min(), fitted.max())
    return finish(ax, "model parameters N", "loss (nats)", what_is_drawn(said))
