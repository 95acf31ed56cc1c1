"""Plots of continual runs, of schedules, and of decisions by downstream scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw._axes import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    RED,
    curve,
    dots,
    finish,
    log_axis,
    new_axes,
    percent,
    shades,
    step_axis,
    vertical,
    write,
)
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import FittedLaw
from jaxlaw.planning._choose_model import ModelChoice
from jaxlaw.planning._continual import (
    FinalLosses,
    TradeoffCurve,
    final_losses,
)
from jaxlaw.planning._continual_run import SETTINGS, ContinualRun
from jaxlaw.planning._out_of_domain import OutOfDomain
from jaxlaw.planning._pretraining_value import Valuation
from jaxlaw.planning._schedule import OptimalSchedule
from jaxlaw.planning._turning_length import TurningLength, TurningLengths, turning_length

_LABELS = {
    "loss_potential": "loss potential",
    "peak": "peak rate",
    "replay": "replay ratio",
    "steps": "steps",
    "weight": "λ1, the weight of the pre-training corpus",
}


@checked
def losses_over(
    plan: FinalLosses, setting: str, corpus: str = "cpt", ax: Axes | None = None
) -> Axes:
    """Loss at the end over a setting, a curve for each value of the other one that varies.

    Wang 2025, figures 5 (over loss potential) and 7 (over peak rate).

    Args:
        plan: losses that :func:`jaxlaw.planning.final_losses` returned.
        setting: setting along x: ``loss_potential``, ``peak``, ``replay`` or ``steps``.
        corpus: corpus whose loss it is: ``pt`` or ``cpt``.
        ax: axes to draw on; a new figure if None.

    Raises:
        UsageError: more than one other setting varies.

    Example:
        >>> from jaxlaw import plots
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualRun(base, steps=10_000, peak=1e-4, warmup=500)
        >>> plan = jl.planning.final_losses(pt, cpt, run, loss_potential=[0, 0.5, 1])
        >>> plots.losses_over(plan, "loss_potential").get_ylabel()
        'loss on the new corpus (nats)'
    """
    table = plan.table
    others = [name for name in SETTINGS if name != setting and table[name].nunique() > 1]
    if len(others) > 1:
        raise UsageError(f"{' and '.join(others)} vary beside {setting}; one can be drawn")
    ax = ax or new_axes()
    groups = list(table.groupby(others[0])) if others else [(None, table)]
    end_labels = []
    for (value, part), shade in zip(groups, shades(len(groups)), strict=True):
        part = part.sort_values(setting)
        name = f"{_LABELS[others[0]]} {value:,g}" if others else ""
        end_labels.append(curve(ax, part, setting, f"loss_{corpus}", shade, name))
    if setting == "steps":
        log_axis(ax.xaxis)
    if others:
        ax.margins(x=0.02)
    ylabel = f"loss on the {'pre-training' if corpus == 'pt' else 'new'} corpus (nats)"
    finish(ax, _LABELS[setting], ylabel, end_labels=end_labels if others else ())
    if setting == "peak":
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 0), useMathText=True)
    return ax


@checked
def balance(plan: TradeoffCurve, setting: str | None = None, ax: Axes | None = None) -> Axes:
    """The best value of a setting over λ1 (Wang 2025, figure 8).

    Args:
        plan: curve that :func:`jaxlaw.planning.tradeoff_curve` returned.
        setting: one of the settings that it searched; None takes the only one.
        ax: axes to draw on; a new figure if None. For the replay ratio the dashed line is a
            share equal to the weight.

    Raises:
        UsageError: the setting was not searched, or is not given where several were.

    Example:
        >>> from jaxlaw import plots
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualRun(base, steps=10_000, peak=1e-4, warmup=500)
        >>> plan = jl.planning.tradeoff_curve(pt, cpt, run, {"replay": (0, 1)}, (0.2, 0.6))
        >>> plots.balance(plan, "replay").get_ylabel()
        'best replay ratio'
    """
    table = plan.table
    searched = [name for name in SETTINGS if name in table]
    if setting is None and len(searched) == 1:
        setting = searched[0]
    if setting not in searched:
        what = "setting is missing" if setting is None else f"{setting} was not searched"
        raise UsageError(f"balance: {what}; this curve has {', '.join(searched)}")
    ax = ax or new_axes()
    if setting == "replay":
        ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--")
        write(
            ax, "share = weight", (0.1, 0.12), rotation=45, rotation_mode="anchor",
            transform_rotates_text=True, va="bottom",
        )  # fmt: skip
    curve(ax, table, "weight", setting, BLUE, marker="o", markersize=3)
    if setting in ("peak", "steps"):
        log_axis(ax.yaxis, words=setting == "steps")
    return finish(ax, _LABELS["weight"], f"best {_LABELS[setting]}")


@checked
def recovery(
    pt: Any, run: ContinualRun, plan: TurningLength | None = None, ax: Axes | None = None
) -> Axes:
    """Loss on the pre-training corpus over steps: start, critical point, turning length.

    Wang 2025, figure 7 c.

    Args:
        pt: fit of that loss.
        run: continual run, as for :func:`jaxlaw.planning.turning_length`.
        plan: answer of that; computed if None.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualRun(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> plots.recovery(jl.published()["wang-2025-pt"], run).get_xlabel()
        'continual steps'
    """
    plan, ax = plan or turning_length(pt, run), ax or new_axes()
    back = 0 < plan.steps < np.inf
    steps = np.geomspace(run.warmup + 1, plan.steps * 5 if back else run.steps * 100, 200)
    # One fit, twice: the plan has two losses.
    table = final_losses(pt, pt, run, steps=np.unique(steps)).table
    ax.plot(table["steps"], table["loss_pt"], color=BLUE, linewidth=1.6)
    ax.axhline(plan.start, color=INK, linewidth=0.8)
    ax.axhline(plan.critical_point, color=BLUE, linewidth=0.9, linestyle="--")
    for height, text in ((plan.start, "start"), (plan.critical_point, "critical point")):
        beside = {"xycoords": ("axes fraction", "data"), "xytext": (-4, 3), "ha": "right"}
        write(ax, text, (1.0, height), **beside)
    if back:
        text = f"back after {plan.steps:,.0f} steps"
        vertical(ax, plan.steps, text, 0.3, xytext=(-4, 0), ha="right")
    else:
        ax.set_title("never back" if plan.never else "never lifted", color=RED, fontsize="medium")
    return finish(ax, "continual steps", "loss on the pre-training corpus (nats)", log_x={})


@checked
def turning_lengths(plan: TurningLengths, ax: Axes | None = None) -> Axes:
    """The turning length over λ1, and where it is 0 or infinite (Wang 2025, figure 13).

    Args:
        plan: answer that :func:`jaxlaw.planning.turning_lengths` returned.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualRun(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> plan = jl.planning.turning_lengths(pt, cpt, run, (0.5, 0.9, 1))
        >>> plots.turning_lengths(plan).get_ylabel()
        'turning length (steps)'
    """
    table, ax = plan.table.sort_values("weight"), ax or new_axes()
    steps, weight = table["steps"].to_numpy(), table["weight"].to_numpy()
    back = (steps > 0) & np.isfinite(steps)
    if back.any():
        curve(ax, table[back], "weight", "steps", BLUE, marker="o", markersize=3)
    ax.set_xlim(weight.min(), weight.max())
    for where, text, color in (
        (steps == 0, "never lifted", GREEN), (np.isinf(steps), "never back", RED),
    ):  # fmt: skip
        if where.any():
            low, high = weight[where].min(), weight[where].max()
            ax.axvspan(low, high, color=color, alpha=0.12, linewidth=0)
            beside = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "center"}
            write(ax, text, ((low + high) / 2, 0.5), color=color, rotation=90, **beside)
    if back.any():
        log_axis(ax.yaxis)
    else:
        ax.set_yticks([])
    return finish(ax, _LABELS["weight"], "turning length (steps)")


@checked
def ood_losses(plan: OutOfDomain, predicted: Any = None, ax: Axes | None = None) -> Axes:
    """Another validation loss as observed, and as the mixture of the two (Wang 2025, §5.2).

    Args:
        plan: mixture that :func:`jaxlaw.planning.out_of_domain` returned.
        predicted: curve that its ``predict_curve`` returned, a dashed line; or None.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> observed = {"loss_pt": [3.2, 3.3, 3.4, 3.3], "loss_cpt": [3.1, 2.9, 2.7, 2.8]}
        >>> observed["loss_ood"] = [0.3 * a + 0.6 * b for a, b in zip(*observed.values())]
        >>> plots.ood_losses(jl.planning.out_of_domain(observed)).get_title()
        '0.3·L_pt + 0.6·L_cpt, R² 1.000'
    """
    ax, table, end_labels = ax or new_axes(), plan.table, []
    runs = list(table.groupby("run")) if "run" in table else [(None, table)]
    for (run, part), shade in zip(runs, shades(len(runs)), strict=True):
        at = part["step"] if "step" in part else np.arange(1, len(part) + 1)
        dots(ax, at, part["loss_ood"], color=[shade], s=10, alpha=0.6)
        end_labels.append(
            curve(ax, part, at, "mixture", shade, "mixture" if run is None else str(run))
        )
    if predicted is not None:
        end = curve(ax, predicted, "step", "loss_ood", BLUE, "predicted", 1.2, linestyle="--")
        end_labels.append(end)
    sign = "+" if plan.weight_cpt >= 0 else "−"
    title = f"{plan.weight_pt:.3g}·L_pt {sign} {abs(plan.weight_cpt):.3g}·L_cpt, R² {plan.r2:.3f}"
    xlabel = "step" if "step" in table else "point of the curve"
    return finish(
        ax, xlabel, "loss on the other set (nats)", title, end_labels, margins={"x": 0.02}
    )


@checked
def best_rates(plan: OptimalSchedule, ax: Axes | None = None) -> Axes:
    """The rates of the best schedule over the steps, and the usual ones with their losses.

    Args:
        plan: schedule that :func:`jaxlaw.planning.optimal_schedule` returned.
        ax: axes to draw on; a new figure if None. Of a continued run the phase is drawn.

    Example:
        >>> from jaxlaw import plots
        >>> law = ("annealing", jl.simulate.TRUTHS["annealing"])
        >>> plots.best_rates(jl.planning.optimal_schedule(law, 200, 1e-3)).get_ylabel()
        'learning rate'
    """
    ax, losses, end_labels = ax or new_axes(), plan.comparison["loss"], []
    first = plan.schedule.boundary or 0
    steps = np.arange(first + 1, len(plan.schedule) + 1)
    usual = zip(plan.usual.items(), shades(len(plan.usual)), strict=True)
    for (name, schedule), color in [*usual, (("optimal", plan.schedule), BLUE)]:
        table, width = {"lr": schedule.rates[first:]}, 2.2 if name == "optimal" else 1.0
        end_labels.append(curve(ax, table, steps, "lr", color, f"{name} {losses[name]:.4f}", width))
    ax.set_ylim(bottom=0)
    ax.margins(x=0.02)
    step_axis(ax.xaxis)
    ax.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
    title = "and the predicted loss at the end (nats)"
    return finish(ax, "step", "learning rate", title, end_labels)


@checked
def value(plan: Valuation, target: float | None = None, ax: Axes | None = None) -> Axes:
    """Scores over pretraining tokens with the law and its band, and what the advice rests on.

    Args:
        plan: valuation that :func:`jaxlaw.planning.pretraining_value` returned.
        target: wanted score, drawn as a line.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> data = {"Dp": [1e9, 4e9, 2e10, 8e10], "score": [10.0, 12.5, 10.1, 9.0]}
        >>> plots.value(jl.planning.pretraining_value(data, n_resamples=0)).get_title()
        'suspect misalignment'
    """
    ax, table, end_labels = ax or new_axes(), plan.checkpoints, []
    if plan.fit is not None:
        law = _score_law(plan, max(plan.at, table["Dp"].max()))
        end_labels.append(curve(ax, law, "Dp", "predicted", BLUE, "law"))
        ax.scatter([plan.at], [plan.predicted], s=40, facecolor="white", color=BLUE, zorder=3)
    dots(ax, table["Dp"], table["score"], color=INK, s=18, alpha=1, zorder=3)
    if np.isfinite(plan.baseline):
        ax.axhline(plan.baseline, color=INK, linewidth=0.8)
        end_labels.append((plan.baseline, "without\npretraining", INK))
    if target is not None:
        ax.axhline(target, color=GREEN, linewidth=0.9, linestyle="--")
        end_labels.append((target, "target", GREEN))
    if np.isfinite(plan.broken_at):
        vertical(ax, plan.broken_at, "the law breaks", 0.02, va="bottom")
    return finish(
        ax, "pretraining tokens", "score of the checkpoints", plan.advice, end_labels,
        margins={"x": 0.03}, log_x={},
    )  # fmt: skip


def _score_law(plan: Valuation, last: float) -> pd.DataFrame:
    """The law of a valuation, with its band as :func:`curve` takes it."""
    law = plan.curve(np.geomspace(plan.checkpoints["Dp"].iloc[0], last, 99))
    return law.rename(columns={"low": "predicted_low", "high": "predicted_high"})


@checked
def values(plans: Mapping[str, Valuation], ax: Axes | None = None) -> Axes:
    """Scores over pretraining tokens, several valuations in one picture (Isik 2024, figure 1).

    Args:
        plans: name → valuation that :func:`jaxlaw.planning.pretraining_value` returned, such as
            one for each size of the finetuning data. The dashed line in the colour of each is its
            score without pretraining, where it has a ``baseline``.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> data = {"Dp": [1e9, 4e9, 2e10, 8e10], "score": [10.0, 12.5, 10.1, 9.0]}
        >>> plan = jl.planning.pretraining_value(data, baseline=8, n_resamples=0)
        >>> plots.values({"6M tokens": plan}).get_title()
        'dashed: without pretraining'
    """
    if not plans:
        raise UsageError("values: plans is empty; give a valuation, or several")
    ax, end_labels = ax or new_axes(), []
    for (name, plan), color in zip(plans.items(), shades(len(plans)), strict=True):
        table = plan.checkpoints
        dots(ax, table["Dp"], table["score"], color=[color], s=18, alpha=1, zorder=3)
        line, y, width = table, "score", 0.8
        if plan.fit is not None:
            line, y, width = _score_law(plan, table["Dp"].iloc[-1]), "predicted", 1.6
        end_labels.append(curve(ax, line, "Dp", y, color, name, width))
        if np.isfinite(plan.baseline):
            ax.axhline(plan.baseline, color=color, linewidth=0.9, linestyle="--", zorder=0)
    title = "dashed: without pretraining" * any(np.isfinite(p.baseline) for p in plans.values())
    return finish(
        ax, "pretraining tokens", "score of the checkpoints", title, end_labels,
        margins={"x": 0.03}, log_x={},
    )  # fmt: skip


@checked
def score_over_cross_entropy(
    plans: Mapping[str, Valuation], fit: FittedLaw | None = None, ax: Axes | None = None
) -> Axes:
    """Scores over the cross-entropy of the same checkpoints, corpus by corpus (Isik 2024, fig. 4).

    Where the corpora lie on one falling curve the cross-entropy stands for the score; where one
    bends off, it does not.

    Args:
        plans: name → valuation of checkpoints that have a cross-entropy.
        fit: fit of ``downstream-bleu-ce`` to such checkpoints, a dashed line; or None.
        ax: axes to draw on; a new figure if None. Both are logarithmic.

    Raises:
        UsageError: checkpoints without a cross-entropy.

    Example:
        >>> from jaxlaw import plots
        >>> data = {"Dp": [1e9, 4e9, 2e10, 8e10], "score": [10.0, 12.5, 10.1, 9.0]}
        >>> data["cross_entropy"] = [1.8, 1.5, 1.3, 1.2]
        >>> plan = jl.planning.pretraining_value(data, n_resamples=0)
        >>> plots.score_over_cross_entropy({"English": plan}).get_xlabel()
        'cross-entropy of the checkpoints (nats)'
    """
    if not plans:
        raise UsageError("score_over_cross_entropy: plans is empty; give a valuation, or several")
    for name, plan in plans.items():
        if "cross_entropy" not in plan.checkpoints:
            raise UsageError(f"the checkpoints of {name} have no cross_entropy to draw over")
    ax = ax or new_axes()
    for (name, plan), color in zip(plans.items(), shades(len(plans)), strict=True):
        table = plan.checkpoints  # in the order of training: the line shows which way it went
        dots(ax, table["cross_entropy"], table["score"], color=[color], s=18, alpha=1, zorder=3)
        ax.plot(table["cross_entropy"], table["score"], color=color, linewidth=0.8)
        last = table.iloc[-1]
        write(
            ax, name, (last["cross_entropy"], last["score"]), xytext=(-5, 0), ha="right",
            va="center", color=color,
        )  # fmt: skip
    if fit is not None:
        seen = pd.concat([plan.checkpoints["cross_entropy"] for plan in plans.values()])
        losses = np.geomspace(seen.min(), seen.max(), 99)
        law = fit.predict(cross_entropy=losses)
        ax.plot(losses, law, color=INK, linewidth=1.0, linestyle="--")
        write(ax, "law", (losses[-1], law[-1]), xytext=(5, 0), va="center")
    log_axis(ax.yaxis)
    label = "cross-entropy of the checkpoints (nats)"
    return finish(ax, label, "score of the checkpoints", margins={"x": 0.16}, log_x={})


@checked
def model_losses(plan: ModelChoice, shown: int = 6, ax: Axes | None = None) -> Axes:
    """Losses (or scores) of models over their data, with intervals at the full size.

    Args:
        plan: choice that :func:`jaxlaw.planning.choose_model` returned.
        shown: number of models that are drawn, the best first.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> sizes = [100.0, 400.0, 1600.0, 6400.0]
        >>> data = {"model": ["a"] * 4 + ["b"] * 4, "D": sizes * 2}
        >>> data["loss"] = [1 + 8 / D**0.3 for D in sizes] + [1.4 + 5 / D**0.3 for D in sizes]
        >>> plan = jl.planning.choose_model(data, at=1e6, n_resamples=0)
        >>> plots.model_losses(plan).get_xlabel()
        'data finetuned on'
    """
    ax, data, table, end_labels = ax or new_axes(), plan.data, plan.table.head(shown), []
    data = data[(data["D"] > 0) & data["model"].isin(table["model"])]
    curves = plan.curves(np.geomspace(data["D"].min(), plan.at, 99))
    for k, row in reversed(list(table.iterrows())):
        name, color = row["model"], BLUE if k == 0 else FAINT
        seen = data[data["model"] == name]
        dots(ax, seen["D"], seen[data.columns[-1]], color=color, zorder=3)
        curve(ax, curves, "D", name, color, width=2.0 if k == 0 else 1.0)
        if "predicted_low" in row:
            interval = row[["predicted_low", "predicted_high"]].to_list()
            interval = plan.interval["predicted"] if k == 0 else interval
            ax.vlines(plan.at * 1.12**k, *interval, color=color, linewidth=2.5)
        share = "" if np.isnan(row["best"]) else f" {percent(round(row['best'], 2))}"
        end_labels.append((row["predicted"], f"{name.rpartition('/')[2]}{share}", color))
    ax.axvline(plan.at, color=INK, linewidth=0.8, linestyle=":", zorder=0)
    ax.margins(x=0.03)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    loss = "loss" in data
    return finish(
        ax, "data finetuned on" if loss else "data",
        "loss after finetuning (nats)" if loss else f"{plan.target} after finetuning",
        "named with the share of resamples in which it is best", end_labels,
    )  # fmt: skip
