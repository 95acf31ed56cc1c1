"""Pictures; every function takes and returns a matplotlib Axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxlaw.result import Fit

INK = "#333333"
BLUE = "#2b6cb0"
GREEN = "#2f855a"
RED = "#c05621"


def observed_against_predicted(fit: Fit, runs: Any, ax: Axes | None = None) -> Axes:
    """Observed target over predicted target, with the line they should lie on.

    Args:
        fit: the fit.
        runs: the :class:`jaxlaw.Runs` it was fitted on, or others.
        ax: where to draw; a new figure if None.
    """
    ax = ax or _new_axes()
    observed = runs.observations(fit.law)
    predicted = fit.predict(**_own_units(fit, observed))
    ax.scatter(predicted, observed.target, s=9, alpha=0.45, color=BLUE, linewidths=0)
    ends = [
        min(predicted.min(), observed.target.min()),
        max(predicted.max(), observed.target.max()),
    ]
    ax.plot(ends, ends, color=INK, linewidth=0.8)
    ax.set_xlabel(f"predicted {fit.law.target}")
    ax.set_ylabel(f"observed {fit.law.target}")
    ax.set_aspect("equal", adjustable="datalim")
    ax.annotate(
        f"R² {fit.r2:.4f}\nRMSE {fit.rmse:.4g}",
        (0.04, 0.96),
        xycoords="axes fraction",
        va="top",
        color=INK,
    )
    return _tidy(ax)


def residuals(fit: Fit, runs: Any, ax: Axes | None = None) -> Axes:
    """Observed over predicted target, in percent, where the eye would see structure left.

    Args and returns as :func:`observed_against_predicted`.
    """
    ax = ax or _new_axes()
    observed = runs.observations(fit.law)
    predicted = fit.predict(**_own_units(fit, observed))
    percent = 100 * (observed.target / predicted - 1)
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.scatter(predicted, percent, s=9, alpha=0.45, color=BLUE, linewidths=0)
    reach = 1.15 * max(np.abs(percent).max(), 1e-9)
    ax.set_ylim(-reach, reach)
    ax.set_xlabel(f"predicted {fit.law.target}")
    ax.set_ylabel("observed − predicted (%)")
    return _tidy(ax)


def loss_over_share(fit: Fit, runs: Any, ax: Axes | None = None) -> Axes:
    """Target over r: data and fitted curves at the largest N, for a few D.

    Args and returns as :func:`observed_against_predicted`; the law needs N, D and r.
    """
    ax = ax or _new_axes()
    observed = runs.observations(fit.law)
    given = _own_units(fit, observed)
    largest = given["N"] == given["N"].max()
    tokens = np.unique(given["D"])
    # Evenly on the log scale, as the law sees them.
    wanted = np.geomspace(tokens[0], tokens[-1], 4)
    chosen = tokens[np.unique(np.abs(np.log(tokens[:, None] / wanted)).argmin(axis=0))]
    r = np.linspace(*fit.ranges["r"], 200)
    for color, D in zip(plt.cm.viridis(np.linspace(0.85, 0.1, len(chosen))), chosen, strict=True):
        here = largest & (given["D"] == D)
        ax.scatter(given["r"][here], observed.target[here], s=14, color=color, linewidths=0)
        curve = fit.predict(N=given["N"].max(), D=D, r=r)
        ax.plot(r, curve, color=color, linewidth=1.4, label=f"D = {_amount(D, fit, 'D')} tokens")
    ax.set_xlabel("share r of the corpus in the mixture")
    ax.set_ylabel(fit.law.target)
    ax.set_title(f"N = {_amount(given['N'].max(), fit, 'N')}", fontsize="medium", color=INK)
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def loss_curve(prediction: pd.DataFrame, observed: Any = None, ax: Axes | None = None) -> Axes:
    """Loss over the steps of a schedule, what it is made of, and the rates below (Wang's fig. 3).

    Dashed, the curve without annealing and shift; between it and the next one what annealing
    takes off, and from there to the predicted curve what the shift to another corpus adds.

    Args:
        prediction: what :meth:`jaxlaw.Fit.predict_curve` returned.
        observed: a table with columns ``step`` and ``loss``, such as
            ``curves.only("a").table``, or nothing.
        ax: where to draw; a new figure if None. The rates go into a panel below it.
    """
    ax = ax or _new_axes()
    step, base = prediction["step"], prediction["base"]
    target = prediction.columns[list(prediction.columns).index("base") - 1]
    unshifted = base + prediction["annealing"]
    if observed is not None:
        at, losses = np.asarray(observed["step"]), np.asarray(observed["loss"])
        ax.scatter(at, losses, s=7, alpha=0.45, color=INK, linewidths=0, label="observed")
    ax.plot(step, base, color=INK, linewidth=0.9, linestyle="--", label="base")
    ax.fill_between(step, base, unshifted, color=GREEN, alpha=0.18, linewidth=0, label="annealing")
    if prediction["shift"].any():
        ax.fill_between(
            step, unshifted, prediction[target], color=RED, alpha=0.18, linewidth=0, label="shift"
        )
    ax.plot(step, prediction[target], color=BLUE, linewidth=1.4, label="predicted")
    ax.set_ylim(*_view(prediction[target], observed))
    ax.set_ylabel(target)
    ax.legend(frameon=False, fontsize="small")
    rates = ax.inset_axes((0, -0.34, 1, 0.26), sharex=ax)
    rates.plot(step, prediction["lr"], color=INK, linewidth=1.0)
    rates.set_ylim(bottom=0)
    rates.set_ylabel("rate")
    rates.set_xlabel("step")
    if "phase" in prediction and prediction["phase"].nunique() > 1:
        start = step[prediction["phase"] == "cpt"].iloc[0]
        for panel in (ax, rates):
            panel.axvline(start, color=INK, linewidth=0.6, linestyle=":")
    ax.tick_params(labelbottom=False)
    _tidy(rates)
    return _tidy(ax)


def _view(predicted: pd.Series, observed: Any) -> tuple[float, float]:
    """What of the losses to show: not the fall of the first steps, which hides all else."""
    low, high = float(predicted.min()), float(predicted.iloc[len(predicted) // 10])
    if observed is not None:
        low, high = min(low, np.nanmin(observed["loss"])), max(high, np.nanmax(observed["loss"]))
    room = 0.06 * max(high - low, 1e-6)
    return low - room, high + room


def demo_figure(fits: Mapping[str, Fit], runs: Any) -> Figure:
    """The picture of ``jaxlaw demo``: both corpora, curves over r, predictions, residuals."""
    figure, rows = plt.subplots(
        len(fits), 3, figsize=(13, 3.8 * len(fits)), layout="constrained", squeeze=False
    )
    for (side, fit), (left, middle, right) in zip(fits.items(), rows, strict=True):
        mine = runs.share(side)
        loss_over_share(fit, mine, left)
        observed_against_predicted(fit, mine, middle)
        residuals(fit, mine, right)
        left.set_title(f"{side} corpus, {left.get_title()}", fontsize="medium", color=INK)
    return figure


def _own_units(fit: Fit, observed: Any) -> dict[str, np.ndarray]:
    return {name: values / fit.units[name] for name, values in observed.inputs.items()}


def _amount(value: float, fit: Fit, name: str) -> str:
    """A count in words: 4 B, 131 M."""
    unit = next(spec.unit for spec in fit.law.inputs if spec.name == name)
    single = value * fit.units[name] * unit
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if single >= size:
            return f"{single / size:.3g} {letter}"
    return f"{single:.3g}"


def _new_axes() -> Axes:
    return plt.subplots(layout="constrained")[1]


def _tidy(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax
