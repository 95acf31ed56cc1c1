"""Pictures of what papers show; :mod:`jaxlaw.plots` lists them with all others."""

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
    count_in_words,
    curve,
    dots,
    finish,
    log_axis,
    need_columns,
    new_axes,
    percent,
    shades,
    vertical,
    write,
)
from jaxlaw._quantities import SHARE, written, written_range
from jaxlaw._tables import is_table
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import FittedLaw
from jaxlaw.papers._inflection import InflectionRatio, loss_slopes
from jaxlaw.papers._observed import TransferLaw
from jaxlaw.papers._out_of_domain import OutOfDomain
from jaxlaw.papers._pretraining_value import Valuation


@checked
def slopes_over_share(
    runs: Any, ax: Axes | None = None, *, every: float | None = None, N: float | None = None
) -> Axes:
    """ΔL/ΔD over the share, a curve for each D, at one size: figure 10 of Que 2024.

    A law of mixtures has the implicit trend (eq. 5) where the curves fall.

    Args:
        runs: runs as :func:`jaxlaw.read_runs` takes or returns them, with N, D, r, loss; or the
            table of :func:`jaxlaw.papers.loss_slopes`.
        ax: axes to draw on; a new figure if None.
        every: least D from one evaluation to the next, as for :func:`jaxlaw.papers.loss_slopes`.
        N: size, in the unit of the runs; the largest if None.

    Raises:
        UsageError: no run has that size.

    Example:
        >>> from jaxlaw import plots
        >>> plots.slopes_over_share(jl.simulate.experiment("dcpt", noise=0).table).get_xlabel()
        'share of the corpus r'
    """
    made = isinstance(runs, pd.DataFrame) and {"slope", "D_low"} <= set(runs)
    table = runs if made else loss_slopes(runs, every=every)
    units = table.attrs.get("units")  # none of a table that was read from a file
    size = table["N"].max() if N is None else N
    table = table[np.isclose(table["N"], size)]
    if table.empty:
        raise UsageError(f"no run has N = {size:g}")
    ax = ax or new_axes()
    groups = list(table.groupby(["D_low", "D_high"]))
    end_labels = [
        curve(ax, rows, "r", "slope", color, _counted("D", D, units), 1.2, marker="o", markersize=3)
        for ((_, D), rows), color in zip(groups, shades(len(groups)), strict=True)
    ]
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    of = "unit of D" if units is None else written(1.0, "tokens", units["D"])
    of = "token" if of == "1 tokens" else of
    labels = "share of the corpus r", f"ΔL/ΔD (nats per {of})", _counted("N", size, units)
    return finish(ax, *labels, end_labels[:1] + end_labels[1:][-1:])


def _counted(name: str, value: float, units: Mapping[str, float] | None) -> str:
    """A size or tokens as people read them; in the unit of the table where that is unknown."""
    if units is None:
        return f"{name} = {value:.3g}"
    return f"{name} {written(value, 'parameters' if name == 'N' else 'tokens', units[name])}"


@checked
def trends_over_share(turn: InflectionRatio, ax: Axes | None = None) -> Axes:
    """How fast the loss moves with D at every share, and where that turns (Que 2024, App. I.3).

    Args:
        turn: answer that :func:`jaxlaw.papers.inflection_ratio` returned.
        ax: axes to draw on; a new figure if None.

    Raises:
        UsageError: there are no trends.

    Example:
        >>> from jaxlaw import plots
        >>> turn = jl.papers.inflection_ratio(jl.simulate.experiment("dcpt").table)
        >>> plots.trends_over_share(turn).get_xlabel()
        'share of the corpus r'
    """
    need_columns(turn.trends, ("r", "slope", "error"), "jl.papers.inflection_ratio")
    ax = ax or new_axes()
    r, slope, error = (turn.trends[name] for name in ("r", "slope", "error"))
    ax.errorbar(r, slope, 2 * error, color=BLUE, marker="o", markersize=4, linewidth=1.2,
                elinewidth=1.0)  # fmt: skip
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    finish(ax, "share of the corpus r", "slope of log loss over log D", margins={"x": 0.05},
           log_x={"words": False})  # fmt: skip
    ax.xaxis.set_major_formatter(percent)
    low, high = turn.bracket
    if np.isnan(low):
        title = "no inflection"
    else:
        title = f"the loss turns at a share of {written_range(low, high, SHARE)} (band)"
        ax.axvspan(low, high, color=RED, alpha=0.08, linewidth=0, zorder=0)
        write(ax, "rises with D", (0.02, 0.96), xycoords="axes fraction", va="top", color=FAINT)
        write(ax, "falls with D", (0.02, 0.04), xycoords="axes fraction", color=FAINT)
        at, text = turn.flat, f"slopes pass zero at {written(turn.flat, SHARE)}"
        if np.isfinite(turn.ratio):
            at, text = turn.ratio, f"the fits meet at {written(turn.ratio, SHARE)}"
            between = f" ({turn.level:.0%}: {written_range(*turn.interval, SHARE)})"
            text += between * bool(np.isfinite(turn.interval).all())
        vertical(ax, at, text)
    ax.set_title(f"{title}; bars: 2 standard errors", fontsize="medium", color=INK)
    return ax


@checked
def lowest_of_runs(lowest: pd.DataFrame, points: Any, ax: Axes | None = None) -> Axes:
    """The lowest loss at each level of compute, among the points of all curves.

    Args:
        lowest: envelope that :func:`jaxlaw.papers.loss_envelope` returned.
        points: table it was made of, with ``loss`` and ``C``, or ``N`` and ``D``.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> law = jl.published()["hoffmann-2022"]
        >>> points = pd.DataFrame({"N": np.repeat([1e8, 4e8, 1.6e9], 20)})
        >>> points["D"] = np.tile(np.geomspace(1e9, 1e11, 20), 3)
        >>> points = points.assign(C=6 * points["N"] * points["D"], loss=law.predict(points))
        >>> lowest = jl.papers.loss_envelope(points, 12, run="N")
        >>> plots.lowest_of_runs(lowest, points).get_xlabel()
        'training compute (FLOPs)'
    """
    need_columns(lowest, ("C", "loss"), "jl.papers.loss_envelope")
    names = list(points) if is_table(points) else []
    if not {"loss", "C"} <= {*names} and not {"loss", "N", "D"} <= {*names}:
        raise UsageError("points is a table with columns loss and C, or loss, N and D")
    ax = ax or new_axes()
    compute = points["C"] if "C" in names else 6 * np.asarray(points["N"]) * points["D"]
    dots(ax, compute, points["loss"], color=FAINT, s=8, alpha=0.5)
    end = curve(ax, lowest, "C", "loss", BLUE, "lowest")
    return finish(
        ax, "training compute (FLOPs)", "loss (nats)", end_labels=[end], margins={"x": 0.02},
        log_x={"words": False},
    )  # fmt: skip


@checked
def transfer_law(law: TransferLaw, ax: Axes | None = None) -> Axes:
    """Tokens that a base stands for as curves show them, and the law through them, by size.

    Args:
        law: law that :func:`jaxlaw.papers.transfer_law` returned.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> D = np.tile(np.geomspace(1e8, 1e10, 5), 4)
        >>> N = np.repeat([1e8, 3e8, 1e9, 3e9], 5)
        >>> law = jl.papers.transfer_law({"N": N, "D": D, "transferred": 2 * D**0.6 * N**0.3})
        >>> plots.transfer_law(law).get_ylabel()
        'tokens transferred'
    """
    ax, end_labels = ax or new_axes(), []
    shown = law.table[law.table["transferred"] > 0]
    D = np.geomspace(shown["D"].min(), shown["D"].max(), 50)
    sizes = list(shown.groupby("N"))
    for (N, rows), color in zip(sizes, shades(len(sizes)), strict=True):
        dots(ax, rows["D"], rows["transferred"], color=[color], alpha=1)
        line = {"transferred": law.predict(D, N)}
        name = f"N = {count_in_words(float(N))}"
        end_labels.append(curve(ax, line, D, "transferred", color, name, 1.2))
    ax.margins(x=0.03)
    log_axis(ax.yaxis)
    left = len(law.table) - len(shown)
    title = f"{law.k:.3g}·D^{law.a:.3g}·N^{law.b:.3g}"
    title += f"\n{left} points that transfer nothing are not shown" if left else ""
    return finish(ax, "tokens of the continual run", "tokens transferred", title, end_labels,
                  log_x={})  # fmt: skip


@checked
def ood_losses(plan: OutOfDomain, predicted: Any = None, ax: Axes | None = None) -> Axes:
    """Another validation loss as observed, and as the mixture of the two (Wang 2025, §5.2).

    Args:
        plan: mixture that :func:`jaxlaw.papers.out_of_domain` returned.
        predicted: curve that its ``predict_curve`` returned, a dashed line; or None.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> step = np.linspace(0, 1, 20)
        >>> observed = {"loss_pt": 3.2 + 0.2 * step**0.3, "loss_cpt": 3.1 - 0.4 * step**0.5}
        >>> observed["loss_ood"] = [0.3 * a + 0.6 * b for a, b in zip(*observed.values())]
        >>> plots.ood_losses(jl.papers.out_of_domain(observed)).get_title()
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
def value(plan: Valuation, target: float | None = None, ax: Axes | None = None) -> Axes:
    """Scores over pretraining tokens with the law and its band, and what the advice rests on.

    Args:
        plan: valuation that :func:`jaxlaw.papers.pretraining_value` returned.
        target: wanted score, drawn as a line.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> Dp = np.geomspace(1e9, 1e11, 12)
        >>> data = {"Dp": Dp, "score": np.log(1e-3 * Dp**0.6) ** 1.3}
        >>> plots.value(jl.papers.pretraining_value(data, n_resamples=0)).get_title()
        'continue'
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
        plans: name → valuation that :func:`jaxlaw.papers.pretraining_value` returned, such as
            one for each size of the finetuning data. The dashed line in the colour of each is its
            score without pretraining, where it has a ``baseline``.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> Dp = np.geomspace(1e9, 1e11, 12)
        >>> data = {"Dp": Dp, "score": np.log(1e-3 * Dp**0.6) ** 1.3}
        >>> plan = jl.papers.pretraining_value(data, baseline=8, n_resamples=0)
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
        >>> Dp = np.geomspace(1e9, 1e11, 12)
        >>> data = {"Dp": Dp, "score": np.log(1e-3 * Dp**0.6) ** 1.3}
        >>> data["cross_entropy"] = 1.1 + (1e8 / Dp) ** 0.2
        >>> plan = jl.papers.pretraining_value(data, n_resamples=0)
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
