"""Plots of continual runs, and of schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from jaxlaw._axes import (
    BLUE,
    GREEN,
    INK,
    RED,
    answer,
    count_in_words,
    curve,
    dots,
    finish,
    log_axis,
    new_axes,
    percent,
    shades,
    step_axis,
    vertical,
    what_is_drawn,
    with_interval,
    write,
)
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.planning._continual_pretraining import SETTINGS, ContinualPretraining
from jaxlaw.planning._schedule import OptimalSchedule
from jaxlaw.planning.continual import (
    ContinualRun,
    FinalLosses,
    OptimalTraining,
    TradeoffCurve,
    TurningLength,
    TurningLengths,
    final_losses,
    turning_length,
)

_LABELS = {
    "loss_potential": "loss potential",
    "peak": "peak rate",
    "replay": "replay ratio",
    "steps": "steps",
    "weight": "λ1, the weight of the pre-training corpus",
}


@checked
def losses_over(
    plan: FinalLosses, setting: str | None = None, corpus: str = "cpt", ax: Axes | None = None
) -> Axes:
    """Loss at the end over a setting, a curve for each value of the other one that varies.

    Wang 2025, figures 5 (over loss potential) and 7 (over peak rate).

    Args:
        plan: losses that :func:`jaxlaw.planning.final_losses` returned.
        setting: setting along x: ``loss_potential``, ``peak``, ``replay`` or ``steps``; None
            takes the one with the most values.
        corpus: corpus whose loss it is: ``pt`` or ``cpt``.
        ax: axes to draw on; a new figure if None.

    Raises:
        UsageError: more than one other setting varies.

    Example:
        >>> from jaxlaw import plots
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> settings = {"loss_potential": np.linspace(0, 1, 11), "steps": [5_000, 10_000, 20_000]}
        >>> plan = jl.planning.final_losses(pt, cpt, run, **settings)
        >>> plots.losses_over(plan, "loss_potential").get_ylabel()
        'loss on the new corpus (nats)'
    """
    table = plan.table
    setting = setting or max(SETTINGS, key=lambda name: table[name].nunique())
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
def balance(
    plan: TradeoffCurve,
    setting: str | None = None,
    ax: Axes | None = None,
    *,
    mark: OptimalTraining | None = None,
) -> Axes:
    """The best value of a setting over λ1 (Wang 2025, figure 8).

    Args:
        plan: curve that :func:`jaxlaw.planning.tradeoff_curve` returned.
        setting: one of the settings that it searched; None takes the only one.
        ax: axes to draw on; a new figure if None. For the replay ratio the dashed line is a
            share equal to the weight.
        mark: answer of :func:`jaxlaw.planning.optimal_training`: its weight is marked, with the
            best setting there.

    Raises:
        UsageError: the setting was not searched, or is not given where several were.

    Example:
        >>> from jaxlaw import plots
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> weights = np.linspace(0, 1, 11)
        >>> plan = jl.planning.tradeoff_curve(pt, cpt, run, {"replay": (0, 1)}, weights)
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
    if mark is not None:
        _mark(ax, mark, setting)
    title = what_is_drawn({f"band: {plan.level:.0%} of draws": f"{setting}_low" in table})
    return finish(ax, _LABELS["weight"], f"best {_LABELS[setting]}", title)


def _mark(ax: Axes, plan: OptimalTraining, setting: str) -> None:
    """The weight that was given, and the best setting there, where there is one."""
    if not np.isfinite(best := getattr(plan, setting)):
        return
    interval = plan.interval.get(setting)
    if interval is not None:
        ax.vlines(plan.weight, *interval, color=RED, linewidth=1.4)
    ax.axvline(plan.weight, color=RED, linewidth=0.9, linestyle=":", zorder=1)
    text = f"λ1 = {plan.weight:g}: {_LABELS[setting]} {with_interval(best, interval, '.3g')}"
    # Beside the curve, which rises: above it to the left, or below it to the right.
    left = plan.weight > np.mean(ax.get_xlim())
    answer(ax, plan.weight, best, text, zorder=4, va="bottom" if left else "top",
           ha="right" if left else "left", xytext=(-7, 5) if left else (7, -5))  # fmt: skip


@checked
def continual_run(plan: ContinualRun, ax: Axes | None = None) -> Axes:
    """The new corpus' loss over the pre-training corpus' along λ1, with the runs and the answer.

    Args:
        plan: answer of :func:`jaxlaw.planning.continual_run`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> plan = jl.planning.continual_run(
        ...     pt, cpt, tokens="20B", batch_tokens="2M", weight=0.6,
        ...     base="wsd:peak=2e-4,steps=40000", over={"steps": (10_000, 10_000)},
        ... )
        >>> plots.continual_run(plan).get_xlabel()
        'loss on the pre-training corpus (nats)'
    """
    ax, table, runs = ax or new_axes(), plan.table, plan.runs
    ax.plot(table["loss_pt"], table["loss_cpt"], color=BLUE, linewidth=1.6, marker="o",
            markersize=3)  # fmt: skip
    for row in (table.iloc[0], table.iloc[-1]):
        write(ax, f"{percent(row['replay'])} replay, {count_in_words(row['tokens'])}",
              (row["loss_pt"], row["loss_cpt"]), xytext=(6, 4), color=BLUE)  # fmt: skip
    if len(runs):
        shown = dots(ax, runs["loss_pt"], runs["loss_cpt"], c=runs["replay"], cmap="viridis", s=26,
                     edgecolors=INK, linewidths=0.5, zorder=3)  # fmt: skip
        if runs["replay"].nunique() > 1:
            ax.figure.colorbar(shown, ax=ax, label="replay of the runs", format=percent)
    if {"loss_pt", "loss_cpt"} <= set(plan.interval):
        (left, right), (low, high) = (plan.interval[name] for name in ("loss_pt", "loss_cpt"))
        ax.plot([left, right], [plan.loss_cpt] * 2, color=RED, linewidth=1.2, zorder=4)
        ax.plot([plan.loss_pt] * 2, [low, high], color=RED, linewidth=1.2, zorder=4)
    ax.margins(0.12)
    # A curve that falls and flattens leaves room above it to the right, and below it to the left.
    left = ax.transLimits.transform((plan.loss_pt, plan.loss_cpt))[0] < 0.5
    side = {"xytext": (8, 8), "va": "bottom"} if left else {"xytext": (-8, -8), "va": "top"}
    answer(
        ax, plan.loss_pt, plan.loss_cpt,
        f"{count_in_words(plan.tokens)} tokens, {percent(plan.replay)} replay\n"
        f"losses {plan.loss_pt:.3f} and {plan.loss_cpt:.3f}",
        s=44, zorder=5, ha="left" if left else "right", **side,
    )  # fmt: skip
    said = {
        f"curve: best settings over λ1, here {plan.weight:g}": True,
        "dots: runs": len(runs) > 0,
        f"cross: {plan.level:.0%}": bool(plan.interval),
    }
    labels = (f"loss on the {name} corpus (nats)" for name in ("pre-training", "new"))
    return finish(ax, *labels, what_is_drawn(said))


@checked
def recovery(
    pt: Any,
    run: ContinualPretraining,
    plan: TurningLength | None = None,
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Loss on the pre-training corpus over steps: start, critical point, turning length.

    Wang 2025, figure 7 c.

    Args:
        pt: fit of that loss.
        run: continual run, as for :func:`jaxlaw.planning.turning_length`.
        plan: answer of that; computed if None.
        ax: axes to draw on; a new figure if None.
        **options: its options ``at`` and ``area_options``.

    Example:
        >>> from jaxlaw import plots
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> plots.recovery(jl.published()["wang-2025-pt"], run).get_xlabel()
        'continual steps'
    """
    plan, ax = plan or turning_length(pt, run, **options), ax or new_axes()
    back = 0 < plan.steps < np.inf
    steps = np.geomspace(run.warmup + 1, plan.steps * 5 if back else run.steps * 100, 200)
    # One fit, twice: the plan has two losses.
    table = final_losses(pt, pt, run, steps=np.unique(steps), **options).table
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
def turning_lengths(
    plan: TurningLengths, ax: Axes | None = None, *, mark: TurningLength | None = None
) -> Axes:
    """The turning length over λ1, and where it is 0 or infinite (Wang 2025, figure 13).

    Args:
        plan: answer that :func:`jaxlaw.planning.turning_lengths` returned.
        ax: axes to draw on; a new figure if None.
        mark: answer of :func:`jaxlaw.planning.turning_length`: its weight is marked, with what
            happens there.

    Example:
        >>> from jaxlaw import plots
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> plan = jl.planning.turning_lengths(pt, cpt, run, np.linspace(0.8, 1, 9))
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
    if mark is not None:
        never = "never back" if mark.never else "never lifted"
        there = mark.written("steps") if 0 < mark.steps < np.inf else never
        right = mark.weight > np.mean(ax.get_xlim())
        side = {"xytext": (-4, 0), "ha": "right"} if right else {}
        vertical(ax, mark.weight, f"λ1 = {mark.weight:g}: {there}", **side)
    return finish(ax, _LABELS["weight"], "turning length (steps)")


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
    title = "rates, with the predicted loss at the end (nats)"
    return finish(ax, "step", "learning rate", title, end_labels)
