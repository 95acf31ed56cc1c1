"""Pictures of plans of a continual run and of a corpus's value; Axes in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from jaxlaw.errors import UsageError
from jaxlaw.planning._continual import (
    FinalLosses,
    TradeoffCurve,
    TurningLength,
    final_losses,
    turning_length,
)
from jaxlaw.planning._continual_run import SETTINGS, ContinualRun
from jaxlaw.planning._downstream import ModelChoice, Valuation
from jaxlaw.planning._out_of_domain import OutOfDomain
from jaxlaw.planning._schedule import OptimalSchedule
from jaxlaw.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    RED,
    band,
    dots,
    log_axis,
    name_ends,
    new_axes,
    percent,
    shades,
    step_axis,
    tidy,
    write,
)

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
    ax = ax or new_axes()
    groups = list(table.groupby(others[0])) if others else [(None, table)]
    loss, ends = f"loss_{corpus}", []
    for (value, part), shade in zip(groups, shades(len(groups)), strict=True):
        part = part.sort_values(setting)
        ax.plot(part[setting], part[loss], color=shade, linewidth=1.6)
        if value is not None:
            ends.append((part[loss].iloc[-1], _named(others[0], value), shade))
        if f"{loss}_low" in part:
            band(ax, part[setting], part[f"{loss}_low"], part[f"{loss}_high"], shade)
    if setting == "steps":
        log_axis(ax.xaxis)
    if ends:
        ax.margins(x=0.02)
        name_ends(ax, ends)
    if setting == "peak":
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 0), useMathText=True)
    ax.set_xlabel(_LABELS[setting])
    ax.set_ylabel(f"loss on the {'pre-training' if corpus == 'pt' else 'new'} corpus (nats)")
    return tidy(ax)


def balance(curve: TradeoffCurve, setting: str, ax: Axes | None = None) -> Axes:
    """The best value of a setting over λ1 (Wang 2025, figure 8).

    Args:
        curve: what :func:`jaxlaw.planning.tradeoff_curve` returned.
        setting: one of those it searched.
        ax: where to draw; a new figure if None. For the replay ratio the dashed line is a
            share equal to the weight.
    """
    table = curve.table
    if setting not in table:
        searched = [name for name in SETTINGS if name in table]
        raise UsageError(f"{setting} was not searched; this curve has {', '.join(searched)}")
    ax = ax or new_axes()
    if setting == "replay":
        ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--")
        write(
            ax, "share = weight", (0.1, 0.12), rotation=45, rotation_mode="anchor",
            transform_rotates_text=True, va="bottom",
        )  # fmt: skip
    ax.plot(table["weight"], table[setting], color=BLUE, linewidth=1.6, marker="o", markersize=3)
    if f"{setting}_low" in table:
        band(ax, table["weight"], table[f"{setting}_low"], table[f"{setting}_high"], BLUE)
    if setting in ("peak", "steps"):
        log_axis(ax.yaxis, words=setting == "steps")
    ax.set_xlabel(_LABELS["weight"])
    ax.set_ylabel(f"best {_LABELS[setting]}")
    return tidy(ax)


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
    ax = ax or new_axes()
    longest = found.steps * 5 if 0 < found.steps < np.inf else run.steps * 100
    steps = np.unique(np.geomspace(run.warmup + 1, longest, 200))
    table = final_losses(pt, pt, run, steps=steps).table
    ax.plot(table["steps"], table["loss_pt"], color=BLUE, linewidth=1.6)
    ax.axhline(found.start, color=INK, linewidth=0.8)
    ax.axhline(found.critical_point, color=BLUE, linewidth=0.9, linestyle="--")
    for height, text in ((found.start, "start"), (found.critical_point, "critical point")):
        beside = {"xycoords": ("axes fraction", "data"), "xytext": (-4, 3), "ha": "right"}
        write(ax, text, (1.0, height), **beside)
    if 0 < found.steps < np.inf:
        ax.axvline(found.steps, color=RED, linewidth=0.9, linestyle=":")
        write(
            ax, f"back after {found.steps:,.0f} steps", (found.steps, 0.3), color=RED,
            xycoords=("data", "axes fraction"), xytext=(-4, 0), ha="right", va="top",
        )  # fmt: skip
    else:
        ax.set_title("never back" if found.never else "never lifted", color=RED, fontsize="medium")
    log_axis(ax.xaxis)
    ax.set_xlabel("continual steps")
    ax.set_ylabel("loss on the pre-training corpus (nats)")
    return tidy(ax)


def ood_losses(found: OutOfDomain, predicted: Any = None, ax: Axes | None = None) -> Axes:
    """Another validation loss as observed, and as the mixture of the two (Wang 2025, §5.2).

    Args:
        found: what :func:`jaxlaw.planning.out_of_domain` returned.
        predicted: what its ``predict_curve`` returned, a dashed line; or nothing.
        ax: where to draw; a new figure if None.
    """
    ax, table, ends = ax or new_axes(), found.table, []
    runs = list(table.groupby("run")) if "run" in table else [(None, table)]
    for (run, part), shade in zip(runs, shades(len(runs)), strict=True):
        at = part["step"] if "step" in part else np.arange(1, len(part) + 1)
        dots(ax, at, part["loss_ood"], color=[shade], s=10, alpha=0.6)
        ax.plot(at, part["mixture"], color=shade, linewidth=1.6)
        ends.append((part["mixture"].iloc[-1], "mixture" if run is None else str(run), shade))
    if predicted is not None:
        ax.plot(predicted["step"], predicted["loss_ood"], color=BLUE, linewidth=1.2, linestyle="--")
        ends.append((predicted["loss_ood"].iloc[-1], "predicted", BLUE))
    ax.margins(x=0.02)
    name_ends(ax, ends)
    sign = "+" if found.weight_cpt >= 0 else "−"
    title = (
        f"{found.weight_pt:.3g}·L_pt {sign} {abs(found.weight_cpt):.3g}·L_cpt, R² {found.r2:.3f}"
    )
    ax.set_title(title, fontsize="medium", color=INK)
    ax.set_xlabel("step" if "step" in table else "point of the curve")
    ax.set_ylabel("loss on the other set (nats)")
    return tidy(ax)


def best_rates(found: OptimalSchedule, ax: Axes | None = None) -> Axes:
    """The rates of the best schedule over the steps, and the usual ones with their losses.

    Args:
        found: what :func:`jaxlaw.planning.optimal_schedule` returned.
        ax: where to draw; a new figure if None. Of a continued run the phase is drawn.
    """
    ax, losses, ends = ax or new_axes(), found.comparison["loss"], []
    first = found.schedule.boundary or 0
    steps = np.arange(first + 1, len(found.schedule) + 1)
    every = [*zip(found.usual.items(), shades(len(found.usual)), strict=True)]
    for (name, one), color in [*every, (("optimal", found.schedule), BLUE)]:
        thick = 2.2 if name == "optimal" else 1.0
        ax.plot(steps, one.rates[first:], color=color, linewidth=thick)
        ends.append((one.rates[-1], f"{name} {losses[name]:.4f}", color))
    ax.set_ylim(bottom=0)
    ax.margins(x=0.02)
    step_axis(ax.xaxis)
    ax.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
    name_ends(ax, ends)
    ax.set_title("and the predicted loss at the end (nats)", fontsize="medium", color=INK)
    ax.set_xlabel("step")
    ax.set_ylabel("learning rate")
    return tidy(ax)


def value(found: Valuation, target: float | None = None, ax: Axes | None = None) -> Axes:
    """Scores over pretraining tokens with the law and its band, and what the advice rests on.

    Args:
        found: what :func:`jaxlaw.planning.pretraining_value` returned.
        target: the wanted score, as a line.
        ax: where to draw; a new figure if None.
    """
    ax, table, ends = ax or new_axes(), found.checkpoints, []
    if found.fit is not None:
        curve = found.curve(np.geomspace(table["Dp"].iloc[0], max(found.at, table["Dp"].max()), 99))
        ax.plot(curve["Dp"], curve["predicted"], color=BLUE, linewidth=1.6)
        if "low" in curve:
            band(ax, curve["Dp"], curve["low"], curve["high"], BLUE)
        ax.scatter([found.at], [found.predicted], s=40, facecolor="white", color=BLUE, zorder=3)
        ends.append((curve["predicted"].iloc[-1], "law", BLUE))
    dots(ax, table["Dp"], table["score"], color=INK, s=18, alpha=1, zorder=3)
    if np.isfinite(found.baseline):
        ax.axhline(found.baseline, color=INK, linewidth=0.8)
        ends.append((found.baseline, "without\npretraining", INK))
    if target is not None:
        ax.axhline(target, color=GREEN, linewidth=0.9, linestyle="--")
        ends.append((target, "target", GREEN))
    ax.margins(x=0.03)
    log_axis(ax.xaxis)
    if np.isfinite(found.broken_at):
        ax.axvline(found.broken_at, color=RED, linewidth=0.9, linestyle=":")
        write(
            ax, "the law breaks", (found.broken_at, 0.02), color=RED, xytext=(4, 0),
            xycoords=("data", "axes fraction"), va="bottom",
        )  # fmt: skip
    if ends:
        name_ends(ax, ends)
    ax.set_xlabel("pretraining tokens")
    ax.set_ylabel("score of the checkpoints")
    ax.set_title(found.advice, fontsize="medium", color=INK)
    return tidy(ax)


def model_losses(found: ModelChoice, shown: int = 6, ax: Axes | None = None) -> Axes:
    """Losses (or scores) of models over their data, with intervals at the full size.

    Args:
        found: what :func:`jaxlaw.planning.choose_model` returned.
        shown: how many models, the best first.
        ax: where to draw; a new figure if None.
    """
    ax, data, table, ends = ax or new_axes(), found.data, found.table.head(shown), []
    data = data[(data["D"] > 0) & data["model"].isin(table["model"])]
    curves = found.curves(np.geomspace(data["D"].min(), found.at, 99))
    for k, row in reversed(list(table.iterrows())):
        name, color = row["model"], BLUE if k == 0 else FAINT
        mine = data[data["model"] == name]
        dots(ax, mine["D"], mine[data.columns[-1]], color=color, zorder=3)
        ax.plot(curves["D"], curves[name], color=color, linewidth=2.0 if k == 0 else 1.0)
        if "predicted_low" in row:
            ends_of = (
                found.interval["predicted"]
                if k == 0
                else row[["predicted_low", "predicted_high"]].to_list()
            )
            ax.vlines(found.at * 1.12**k, *ends_of, color=color, linewidth=2.5)
        share = "" if np.isnan(row["best"]) else f" {percent(round(row['best'], 2))}"
        ends.append((row["predicted"], f"{name.rpartition('/')[2]}{share}", color))
    ax.axvline(found.at, color=INK, linewidth=0.8, linestyle=":", zorder=0)
    ax.margins(x=0.03)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    name_ends(ax, ends)
    ax.set_title(
        "named with the share of resamples in which it is best", fontsize="medium", color=INK
    )
    loss = "loss" in data
    ax.set_xlabel("data finetuned on" if loss else "data")
    ax.set_ylabel("loss after finetuning (nats)" if loss else f"{found.target} after finetuning")
    return tidy(ax)


def _named(setting: str, value: float) -> str:
    return f"{_LABELS[setting]} {value:,g}"
