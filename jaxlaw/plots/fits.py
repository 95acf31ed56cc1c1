"""Pictures of a fit; every function takes and returns a matplotlib Axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from jaxlaw.errors import UsageError
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._result import Fit
from jaxlaw.fitting._scores import runs_for
from jaxlaw.plots.inputs import loss_over_share
from jaxlaw.plots.style import (
    BLUE,
    FAINT,
    INK,
    RED,
    dots,
    new_axes,
    panel_below,
    percent,
    target_label,
    tidy,
    write,
)


def observed_against_predicted(
    fit: FittedLaw, runs: Any, ax: Axes | None = None, *, residual_panel: bool = False
) -> Axes:
    """Observed target over predicted target, with the line they should lie on.

    Args:
        fit: the fit.
        runs: what it was fitted on, or others: what :func:`jaxlaw.read_runs` takes or returns,
            or Curves.
        ax: where to draw; a new figure if None.
        residual_panel: draw :func:`residuals` below, over the same predictions.
    """
    ax = ax or new_axes()
    predicted, target = _both(fit, runs)
    dots(ax, predicted, target, color=BLUE)
    ends = [min(predicted.min(), target.min()), max(predicted.max(), target.max())]
    ax.plot(ends, ends, color=INK, linewidth=0.8, zorder=0)
    ax.set_ylabel(target_label(fit.law, "observed"))
    write(
        ax, f"R² {fit.r2:.4f}\nRMSE {fit.rmse:.4g}", (0.04, 0.96), xycoords="axes fraction",
        va="top", fontsize="medium",
    )  # fmt: skip
    if residual_panel:
        below = panel_below(ax, "residual (%)")
        _residuals(below, predicted, target)
        below.set_xlabel(target_label(fit.law, "predicted"))
    else:
        ax.set_aspect("equal", adjustable="box")
        ax.set(xlim=ax.get_ylim(), ylim=ax.get_ylim())
        ax.set_xlabel(target_label(fit.law, "predicted"))
    return tidy(ax)


def residuals(fit: FittedLaw, runs: Any, ax: Axes | None = None) -> Axes:
    """Observed over predicted target, in percent, where the eye would see structure left.

    Args and returns as :func:`observed_against_predicted`.
    """
    ax = ax or new_axes()
    _residuals(ax, *_both(fit, runs))
    ax.set_xlabel(target_label(fit.law, "predicted"))
    ax.set_ylabel("observed − predicted (%)")
    return tidy(ax)


def _residuals(ax: Axes, predicted: np.ndarray, target: np.ndarray) -> None:
    percent = 100 * (target / predicted - 1)
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    dots(ax, predicted, percent, color=BLUE)
    reach = 1.15 * max(np.abs(percent).max(), 1e-9)
    ax.set_ylim(-reach, reach)


def _both(fit: FittedLaw, runs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and observed target of every run."""
    observed = runs_for(fit, runs).observations(fit.law, free=())
    own = {name: values / fit.units[name] for name, values in observed.inputs.items()}
    return fit.predict(**own), observed.target


def starts_agreement(fit: FittedLaw, ax: Axes | None = None) -> Axes:
    """Where the solved starts of a fit ended: a bar for each distinct optimum, the best first.

    Args:
        fit: a :class:`jaxlaw.Fit`; its ``optima``.
        ax: where to draw; a new figure if None.

    Raises:
        UsageError: the fit does not know where its starts ended (published coefficients, a
            file of an older jaxlaw).
    """
    if not isinstance(fit, Fit) or not fit.optima:
        raise UsageError("this fit does not say where its starts ended: fit the runs again")
    ax = ax or new_axes()
    value, share = np.array(fit.optima).T
    excess = value / max(value[0], 1e-300) - 1
    names = ["best", *(_worse(one) for one in excess[1:])]
    shares, colors = [*share], [BLUE] + [FAINT] * (len(share) - 1)
    rest = 1 - share.sum()
    if rest * fit.n_solved > 0.5:
        names, shares, colors = [*names, "others"], [*shares, rest], [*colors, RED]
    rows = np.arange(len(shares))[::-1]
    ax.barh(rows, shares, color=colors, height=0.6)
    for row, one in zip(rows, shares, strict=True):
        count = round(one * fit.n_solved)
        write(ax, f"{count} start{'s' * (count != 1)}", (one, row), xytext=(5, 0), va="center")
    ax.set_yticks(rows, names)
    ax.set_ylim(min(len(rows) - 4, 0) - 0.6, len(rows) - 0.4)  # a lone bar is no wall
    ax.set_xlim(0, 1.15 * max(shares))
    ax.xaxis.set_major_locator(FixedLocator(np.linspace(0, 1, 6)))
    ax.xaxis.set_major_formatter(percent)
    ax.set_xlabel(f"share of {fit.n_solved} solved starts")
    ax.set_ylabel("objective they ended at")
    ax.tick_params(left=False)
    return tidy(ax)


def _worse(excess: float) -> str:
    return f"+{100 * excess:.2g} %" if excess < 1 else f"× {1 + excess:.3g}"


def demo_figure(fits: Mapping[str, FittedLaw], runs: Any) -> Figure:
    """The picture of ``jaxlaw demo``: both corpora, curves over r, predictions, residuals."""
    figure, rows = plt.subplots(
        len(fits), 3, figsize=(13, 3.8 * len(fits)), layout="constrained", squeeze=False
    )
    for (side, fit), (left, middle, right) in zip(fits.items(), rows, strict=True):
        mine = runs.for_corpus(side)
        loss_over_share(fit, mine, left)
        observed_against_predicted(fit, mine, middle)
        residuals(fit, mine, right)
        left.set_title(f"{side} corpus, {left.get_title()}", fontsize="medium", color=INK)
    return figure
