"""Pictures of plans of a continual run and of a corpus's value; Axes in and out."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from jaxlaw.notes import UsageError
from jaxlaw.planning.continual_run import SETTINGS, ContinualRun
from jaxlaw.planning.training import BalanceCurve, FinalLosses, final_losses
from jaxlaw.planning.turning_lengths import TurningLength, turning_length
from jaxlaw.planning.valuation import Valuation

INK = "#333333"
BLUE = "#2b6cb0"
GREEN = "#2f855a"
RED = "#c05621"
_LABELS = {
    "loss_potential": "loss potential",
    "peak": "peak rate",
    "replay": "replay ratio",
    "steps": "steps",
    "weight": "λ1, the weight of the pre-training corpus",
}


def losses_over(
    found: FinalLosses, setting: str, corpus: str = "cpt", ax: Axes | None = None
) -> Axes:
    """Loss at the end over a setting, a curve for each value of the other one that varies.

    Wang 2025, figures 5 (over loss potential) and 7 (over peak rate).

    Args:
        found: what :func:`jaxlaw.planning.final_losses` returned.
        setting: what goes along: ``loss_potential``, ``peak``, ``replay`` or ``steps``.
        corpus: whose loss: ``pt`` or ``cpt``.
        ax: where to draw; a new figure if None.
    """
    table = found.table
    others = [name for name in SETTINGS if name != setting and table[name].nunique() > 1]
    if len(others) > 1:
        raise UsageError(f"{' and '.join(others)} vary beside {setting}; one can be drawn")
    ax = ax or _new_axes()
    groups = list(table.groupby(others[0])) if others else [(None, table)]
    shades = plt.get_cmap("viridis")(np.linspace(0.1, 0.8, len(groups)))
    loss = f"loss_{corpus}"
    for (value, part), shade in zip(groups, shades, strict=True):
        label = None if value is None else f"{_LABELS[others[0]]} {value:g}"
        part = part.sort_values(setting)
        ax.plot(part[setting], part[loss], color=shade, linewidth=1.6, label=label)
        if f"{loss}_low" in part:
            band = part[f"{loss}_low"], part[f"{loss}_high"]
            ax.fill_between(part[setting], *band, color=shade, alpha=0.15, linewidth=0)
    if others:
        ax.legend(frameon=False, fontsize="small")
    if setting == "steps":
        ax.set_xscale("log")
    if setting == "peak":
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
    ax.set_xlabel(_LABELS[setting])
    ax.set_ylabel(f"loss on the {'pre-training' if corpus == 'pt' else 'new'} corpus")
    return _tidy(ax)


def balance(curve: BalanceCurve, setting: str, ax: Axes | None = None) -> Axes:
    """The best value of a setting over λ1 (Wang 2025, figure 8).

    Args:
        curve: what :func:`jaxlaw.planning.balance_curve` returned.
        setting: one of those it searched.
        ax: where to draw; a new figure if None. For the replay ratio the dashed line is a
            share equal to the weight.
    """
    table = curve.table
    if setting not in table:
        searched = [name for name in SETTINGS if name in table]
        raise UsageError(f"{setting} was not searched; this curve has {', '.join(searched)}")
    ax = ax or _new_axes()
    if setting == "replay":
        ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--", label="share = weight")
        ax.legend(frameon=False, fontsize="small")
    ax.plot(table["weight"], table[setting], color=BLUE, linewidth=1.6, marker="o", markersize=3)
    if f"{setting}_low" in table:
        band = table[f"{setting}_low"], table[f"{setting}_high"]
        ax.fill_between(table["weight"], *band, color=BLUE, alpha=0.15, linewidth=0)
    if setting in ("peak", "steps"):
        ax.set_yscale("log")
    ax.set_xlabel(_LABELS["weight"])
    ax.set_ylabel(f"best {_LABELS[setting]}")
    return _tidy(ax)


def way_back(
    pt: Any, run: ContinualRun, found: TurningLength | None = None, ax: Axes | None = None
) -> Axes:
    """Loss on the pre-training corpus over steps: start, critical point, turning length.

    Wang 2025, figure 7 c.

    Args:
        pt: the fit of that loss.
        run: as for :func:`jaxlaw.planning.turning_length`.
        found: what that returned; asked for if None.
        ax: where to draw; a new figure if None.
    """
    found = found or turning_length(pt, run)
    ax = ax or _new_axes()
    longest = found.steps * 5 if 0 < found.steps < np.inf else run.steps * 100
    steps = np.unique(np.geomspace(run.warmup + 1, longest, 200))
    table = final_losses(pt, pt, run, steps=steps).table
    ax.plot(table["steps"], table["loss_pt"], color=BLUE, linewidth=1.6)
    ax.axhline(found.start, color=INK, linewidth=0.8)
    ax.axhline(found.critical_point, color=BLUE, linewidth=0.9, linestyle="--")
    for height, text in ((found.start, "start"), (found.critical_point, "critical point")):
        ax.annotate(
            text, (1.0, height), xycoords=("axes fraction", "data"), xytext=(-4, 3),
            textcoords="offset points", ha="right", color=INK, fontsize="small",
        )  # fmt: skip
    if 0 < found.steps < np.inf:
        ax.axvline(found.steps, color=RED, linewidth=0.9, linestyle=":")
        ax.annotate(
            f"back after {found.steps:,.0f} steps", (found.steps, 0.3),
            xycoords=("data", "axes fraction"), xytext=(-4, 0), textcoords="offset points",
            ha="right", va="top", color=RED, fontsize="small",
        )  # fmt: skip
    else:
        ax.set_title("never back" if found.never else "never lifted", color=RED, fontsize="medium")
    ax.set_xscale("log")
    ax.set_xlabel("continual steps")
    ax.set_ylabel("loss on the pre-training corpus")
    return _tidy(ax)


def value(found: Valuation, target: float | None = None, ax: Axes | None = None) -> Axes:
    """Scores over pretraining tokens with the law and its band, and what the advice rests on.

    Args:
        found: what :func:`jaxlaw.planning.pretraining_value` returned.
        target: the wanted score, as a line.
        ax: where to draw; a new figure if None.
    """
    ax, table = ax or _new_axes(), found.checkpoints
    if found.fit is not None:
        curve = found.curve(np.geomspace(table["Dp"].iloc[0], max(found.at, table["Dp"].max()), 99))
        ax.plot(curve["Dp"], curve["predicted"], color=BLUE, linewidth=1.6, label="law")
        if "low" in curve:
            ax.fill_between(
                curve["Dp"], curve["low"], curve["high"], color=BLUE, alpha=0.15, linewidth=0
            )
        ax.scatter([found.at], [found.predicted], s=40, facecolor="white", color=BLUE, zorder=3)
    ax.scatter(table["Dp"], table["score"], s=18, color=INK, zorder=3, label="checkpoints")
    if np.isfinite(found.broken_at):
        ax.axvline(found.broken_at, color=RED, linewidth=0.9, linestyle=":", label="the law breaks")
    if np.isfinite(found.baseline):
        ax.axhline(found.baseline, color=INK, linewidth=0.8, label="without pretraining")
    if target is not None:
        ax.axhline(target, color=GREEN, linewidth=0.9, linestyle="--", label="target")
    ax.set_xscale("log")
    ax.set_xlabel("pretraining tokens")
    ax.set_ylabel("score")
    ax.set_title(found.advice, fontsize="medium", color=INK)
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def _new_axes() -> Axes:
    return plt.subplots(figsize=(5.2, 3.8), layout="constrained")[1]


def _tidy(ax: Axes) -> Axes:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
