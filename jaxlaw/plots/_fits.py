"""Plots of a fit: against its data, along one of its inputs, over the steps of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    GREEN,
    INK,
    RED,
    curve,
    distinct,
    dots,
    finish,
    input_label,
    log_axis,
    need_columns,
    new_axes,
    panel_below,
    rate_axis,
    shade_outside,
    shades,
    target_label,
    tidy,
    value_label,
    write,
)
from jaxlaw._jit import in_float64
from jaxlaw._quantities import written
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting import FittedLaw, runs_for
from jaxlaw.uncertainty import LEVEL, prediction

_MOST, _CURVES = 12, 8  # curves of sizes that were run: of more sizes so many
_UNSEEN = 4  # curves where no runs are known
_SAME = 0.02  # sizes closer than that, in logs, are one
_FINE = 200  # points of a curve
_ROOM = 0.2  # of the height of the axes, for a text of two lines
_REACH = 2.0  # factor by which a positive input goes on beyond runs and fit


@checked
def observed_against_predicted(fit: FittedLaw, runs: Any, ax: Axes | None = None) -> Axes:
    """Observed over predicted target, with the residuals in percent below.

    Args:
        fit: fit that predicts.
        runs: runs it was fitted on, or others, as :func:`jaxlaw.read_runs` takes or returns
            them, or LossCurves.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> plots.observed_against_predicted(fit, runs).get_ylabel()
        'observed loss (nats)'
    """
    ax = ax or new_axes()
    inputs, target, _ = seen_by(fit, runs)
    predicted = fit.predict(**fit.law.labelled(inputs))
    dots(ax, predicted, target, color=BLUE)
    both = [min(predicted.min(), target.min()), max(predicted.max(), target.max())]
    ax.plot(both, both, color=INK, linewidth=0.8, zorder=0)
    ax.set_ylabel(f"observed {target_label(fit)}")
    scores = f"R² {fit.r2:.4f}\nRMSE {written(float(fit.rmse), fit.target_unit)}"
    write(ax, scores, (0.04, 0.96), xycoords="axes fraction", va="top", fontsize="medium")
    below = panel_below(ax, "residual (%)")
    residuals = 100 * (target / predicted - 1)
    below.axhline(0, color=INK, linewidth=0.8, zorder=0)
    dots(below, predicted, residuals, color=BLUE)
    reach = 1.15 * max(np.abs(residuals).max(), 1e-9)
    below.set_ylim(-reach, reach)
    below.set_xlabel(f"predicted {target_label(fit)}")
    return tidy(ax)


def seen_by(
    fit: FittedLaw, runs, held_out=None
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Runs in the units of a fit: inputs name → (n,), target (n,), held out (n,).

    Without runs those that the fit keeps.
    """
    if runs is None and held_out is None:
        kept = getattr(fit, "observed", None)
        if kept is None:
            kept = pd.DataFrame(columns=[*fit.law.input_names, fit.law.target], dtype=float)
        inputs = {one.name: np.asarray(one.codes(kept[one.name]), float) for one in fit.law.inputs}
        return inputs, kept[fit.law.target].to_numpy(float), np.zeros(len(kept), bool)
    runs = runs_for(fit, runs)
    observed = runs.observations(fit.law, free=())
    inputs = {name: values / fit.units[name] for name, values in observed.inputs.items()}
    mask = np.asarray(np.zeros(len(runs)) if held_out is None else held_out, bool)
    if len(mask) != len(runs):
        raise UsageError(f"held_out has {len(mask)} values for {len(runs)} runs")
    # Rows without valid numbers were dropped.
    return inputs, observed.target, mask[observed.positions]


@checked
def loss_over_input(
    fit: FittedLaw,
    runs: Any = None,
    along: str | None = None,
    ax: Axes | None = None,
    *,
    by: str | None = None,
    at: Mapping[str, Any] | None = None,
    held_out: Any = None,
    level: ConfidenceLevel = LEVEL,
) -> Axes:
    """Target along an input: a curve for each size that was run, with its runs, and a target run.

    Of more than 12 sizes up to eight have curves, evenly spaced, and runs between two curves have a
    colour between theirs. Over a share of a mixture the other shares keep their proportions, so
    that all add up to 1. Shaded is what lies beyond the runs. Only runs with the fixed inputs'
    values are shown: with all others the curves have nothing to do. The settings of a tuned law,
    unless one is given, are at their best at every point, beside the best run of each size and
    tokens.

    Args:
        fit: fit that predicts.
        runs: the runs that it was fitted on, or more: anything that :func:`jaxlaw.read_runs`
            takes or returns, or LossCurves; None for those that the fit keeps
            (:attr:`jaxlaw.Fit.observed`).
        along: the input that goes along, such as ``D``; None takes D, N, C, or the first, of
            those that vary.
        ax: axes to draw on; a new figure if None.
        by: another input, of which each curve has its own value; the first other one that
            varies, if None.
        at: input → value at which it is fixed, in the units of the fitted runs or as a text with
            its own, such as ``"13B"``; left out, the largest of the values that most runs have.
            With a value of ``along``, too, it is a target: the law's prediction there is marked,
            with its interval.
        held_out: (n,) booleans, a row of the runs each, of those that the fit did not see, such
            as ``folds.held_out[0]``; they are drawn hollow.
        level: confidence level of the target's interval, which is of the law's mean
            (:func:`jaxlaw.uncertainty.prediction`) and not of a new run (:func:`jaxlaw.forecast`).

    Raises:
        UsageError: the law has no such input.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> plots.loss_over_input(fit, runs, "D").get_ylabel()
        'loss (nats)'
    """
    law, names = fit.law, fit.law.input_names
    specs = law.specs
    single = {name: fit.units[name] * specs[name].unit for name in names}  # raw units in 1
    for name in (along, by, *(at or {})):
        if name is not None and name not in names:
            raise UsageError(
                f"law {law.name} has no input '{name}'; it takes {', '.join(names)}."
                f"{nearest(name, names)}"
            )
    at = {
        name: float(specs[name].codes([fit.in_unit_of_runs(name, value)])[0])
        for name, value in (at or {}).items()
    }
    inputs, target, out = seen_by(fit, runs, held_out)
    varying = {
        n: np.ptp(values) > 0 for n, values in (inputs if len(target) else fit.ranges).items()
    }
    usual = [name for name in ("D", "N", "C") if name in names]
    along = along or next(filter(varying.get, usual), (usual or names)[0])
    shares = law.shares if along in law.shares else ()
    asked = along in at
    tuned = () if {along, by, *at} & set(law.best_settings) else tuple(law.best_settings)
    if by is None:
        taken = {along, *shares, *tuned, *(() if asked else at)}
        by = next((name for name in names if name not in taken and varying[name]), None)
    if tuned and len(target):  # of the runs that differ in settings alone, the best
        cells = [inputs[name] for name in names if name not in tuned]
        badness = pd.Series(target if law.better == "low" else -target)
        best = np.sort(badness.groupby(cells).idxmin().to_numpy(int))
        inputs = {name: values[best] for name, values in inputs.items()}
        target, out = target[best], out[best]
    fixed = _fixed_inputs(fit, inputs, {along, by, *tuned}, at)
    # Of two shares the other one is what is left: no run has it where it is fixed.
    held = [name for name in fixed if not (len(shares) == 2 and name in shares)]
    near = [np.isclose(inputs[name], fixed[name]) for name in held]
    here = np.logical_and.reduce(near, axis=0) if near else np.ones(len(target), bool)

    values, scale = [None], np.asarray
    if by:
        positive, back = specs[by].domain == "positive", np.asarray
        if positive:
            scale, back = np.log, np.exp
        known = np.linspace(*scale(fit.ranges[by]), _UNSEEN)
        if here.any():  # sizes that round to one are one
            known = distinct(scale(inputs[by][here]), _SAME * positive, _MOST, _CURVES)
        values = list(back(known))
    ramp = [to_rgba(BLUE)] if by is None else shades(len(values))
    goal = {**fixed, **at} if asked and (by is None or by in at) else None
    shown = np.append(inputs[along][here], [*fit.ranges[along], *([at[along]] if asked else [])])
    if np.isnan(shown).all() or np.isnan([*fixed.values()]).any():
        raise UsageError(
            f"{fit.source or law.name}: the fitted ranges are unknown: pass runs=, or at= with a "
            "value of every input"
        )
    # A user's law may take tokens under a name of its own (``U``), and nothing says that they are
    # positive. Values above 0 over more than a factor of 30 are shown on a logarithmic axis, and
    # the curves keep to the range of the data: the law may not exist at 0.
    least, most, domain = np.nanmin(shown), np.nanmax(shown), specs[along].domain
    wide = domain in ("real", "nonnegative") and 0 < 30 * least < most
    if logarithmic := wide or domain == "positive":
        reach = 1 if wide else _REACH
        x = np.geomspace(least / reach, most * reach, _FINE)
    elif domain == "fraction":
        x = np.linspace(least / _REACH if specs[along].above_zero else 0, 1, _FINE)
    else:
        room = 0.1 * (most - least)
        x = np.linspace(max(least - room, min(least, 0)), most + room, _FINE)
    ax, end_labels, heights_seen = ax or new_axes(), [], [target[here]]
    lines = [(value, color, 1.5) for value, color in zip(values, ramp, strict=True)]
    if goal and by and not np.isclose(values, at[by]).any():
        lines.append((at[by], RED, 1.8))
    for value, color, width in lines:
        point = _whole_mixture(law.shares, fixed, {along: x} | ({by: value} if by else {}))
        point |= _best_settings(fit, tuned, point)
        heights = fit.predict(**law.labelled(point))
        ax.plot(point[along], heights, color=color, linewidth=width)
        name = value_label(specs[by], value, single[by]) if by else "law"
        end_labels.append((float(heights[-1]), name, color))
        heights_seen.append(heights[point[along] >= 0.999 * least])
    # A run has the colour of its size, between those of two curves.
    colors = np.array([ramp[0]] * len(target))
    if by:
        colors = np.stack([np.interp(scale(inputs[by]), known, c) for c in np.transpose(ramp)], 1)
    x_runs, seen, unseen = inputs[along], here & ~out, here & out
    dots(ax, x_runs[seen], target[seen], zorder=3, color=colors[seen])
    dots(ax, x_runs[unseen], target[unseen], zorder=3, facecolors="white", s=18, alpha=1,
         edgecolors=colors[unseen], linewidths=1)  # fmt: skip
    said = [value_label(specs[name], value, single[name]) for name, value in fixed.items()]
    if tuned:
        said.append(f"{' and '.join(tuned)} at {'its' if len(tuned) == 1 else 'their'} best")
    said += ["● fitted  ○ held out"] * bool(unseen.any())
    if logarithmic:
        log_axis(ax.xaxis, single[along], words=specs[along].counts != "FLOPs")
    ax.set_xlim(x[0], x[-1])
    heights = np.concatenate(heights_seen)
    low, high, span = heights.min(), heights.max(), np.ptp(heights) + 1e-6
    if goal:
        goal |= _best_settings(fit, tuned, goal)
        found = prediction(fit, at=law.labelled(goal), level=level).quantities[law.target]
        ends = found.value, found.value
        if np.isfinite(found.low):  # of a fit with standard errors
            ends = found.low, found.high
            ax.vlines(at[along], *ends, color=RED, linewidth=2, zorder=4)
            said.append(f"bar: {level:.0%} of the law's mean, not of a new run")
        # Few runs leave open whatever is there: a bar that would flatten all goes on beyond.
        low = min(low, max(ends[0], low - span), found.value)
        high = max(high, min(ends[1], high + span), found.value)
        text = ", ".join(value_label(specs[n], goal[n], single[n]) for n in (by, along) if n)
        text += f"\n{found}"
        dots(ax, at[along], found.value, color=[RED], s=30, alpha=1, zorder=5)
        # The text is where no curve is: below losses, above scores.
        down, room = law.better == "low", _ROOM * (high - low)
        low, high = (low - room, high) if down else (low, high + room)
        write(
            ax, text, (at[along], 0 if down else 1), xycoords=("data", "axes fraction"), color=RED,
            ha="right", va="bottom" if down else "top", xytext=(3, 4 if down else -4),
        )  # fmt: skip
    ax.set_ylim(low - 0.05 * span, high + 0.05 * span)
    # A size beyond the runs is so over all tokens.
    inside = not any(
        fixed[name] < 0.99 * fit.ranges[name][0] or fixed[name] > 1.01 * fit.ranges[name][1]
        for name in held
    )
    shaded = shade_outside(ax, *(fit.ranges[along] if inside else x[[-1, -1]]))
    said += ["shaded: beyond the runs"] * shaded
    return finish(ax, input_label(specs[along]), target_label(fit), "; ".join(said), end_labels)


def _best_settings(fit: FittedLaw, tuned: tuple[str, ...], point: Mapping) -> dict[str, np.ndarray]:
    """The settings of a tuned law at their best at points, in the units of the runs."""
    given = {name: np.asarray(value) * fit.units[name] for name, value in point.items()}
    with in_float64():
        return {
            name: np.asarray(fit.law.best_settings[name](fit.params, given)) / fit.units[name]
            for name in tuned
        }


def _fixed_inputs(
    fit: FittedLaw, inputs: Mapping[str, np.ndarray], free: set, at: Mapping[str, float]
) -> dict[str, float]:
    """Values at which the other inputs are fixed: the largest of the values that most runs have."""
    fixed, selected = {}, np.ones(len(next(iter(inputs.values()))), bool)
    for name in fit.law.input_names:
        if name in free:
            continue
        if name in at:
            fixed[name] = float(at[name])
        elif selected.any():
            values, counts = np.unique(inputs[name][selected], return_counts=True)
            fixed[name] = float(values[counts == counts.max()][-1])
        else:
            fixed[name] = float(fit.ranges[name][1])
        selected &= np.isclose(inputs[name], fixed[name])
    if set(fit.law.shares) <= set(fixed) and not selected.any():  # of no run: of ranges
        total = sum(fixed[name] for name in fit.law.shares)
        fixed |= {name: fixed[name] / total for name in fit.law.shares}
    return fixed


def _whole_mixture(shares: tuple[str, ...], fixed: Mapping[str, float], drawn: Mapping) -> dict:
    """Inputs of a curve: fixed shares of a mixture make room for the one that is drawn over."""
    others = [name for name in shares if name not in drawn]
    if len(others) == len(shares):
        return {**fixed, **drawn}
    if not others:
        raise UsageError(f"shares {', '.join(shares)} add up to 1: draw over one of them alone")
    (along, x), *_ = drawn.items()
    left = 1.0 - sum(np.asarray(value) for name, value in drawn.items() if name in shares)
    inside = np.broadcast_to(left >= 0, np.shape(x))
    total = sum(fixed[name] for name in others)
    parts = {name: fixed[name] / total if total > 0 else 1 / len(others) for name in others}
    rest = {name: part * np.broadcast_to(left, np.shape(x))[inside] for name, part in parts.items()}
    return {**fixed, **drawn, along: x[inside], **rest}


@picture("curve")
def predicted_curve(answer: Answer, ax: Axes) -> Axes:
    """The loss over the steps of an answer of :func:`jaxlaw.uncertainty.predicted_curve`."""
    return loss_curve(answer.points["curve"], ax=ax)


@checked
def loss_curve(prediction: pd.DataFrame, observed: Any = None, ax: Axes | None = None) -> Axes:
    """Loss over the steps of a schedule, what it is made of, and the rates below (Wang's fig. 3).

    Dashed, the curve without annealing and shift; between it and the next one what annealing
    takes off, and from there to the predicted curve what the shift to another corpus adds.

    Args:
        prediction: curve that :meth:`jaxlaw.Fit.predict_curve` returned.
        observed: table with columns ``step`` and ``loss``, such as
            ``curves.only("a").table``, or None.
        ax: axes to draw on; a new figure if None. The rates go into a panel below it.

    Example:
        >>> from jaxlaw import plots
        >>> fit = jl.published()["wang-2025-pt"]
        >>> schedule = "wsd:peak=2e-4,steps=4000+cosine:peak=1e-4,steps=1000"
        >>> plots.loss_curve(fit.predict_curve(schedule, r=0.5)).get_ylabel()
        'loss (nats)'
    """
    need_columns(prediction, ("step", "lr", "base", "annealing"), "predict_curve of a fit")
    if observed is not None:
        need_columns(observed, ("step", "loss"), "jl.read_loss_curves as its table")
    ax = ax or new_axes()
    step, base = prediction["step"], prediction["base"]
    # predict_curve puts the target, whatever its name, and its interval before the column base.
    names = [str(name) for name in prediction if not str(name).endswith(("_low", "_high"))]
    target = names[names.index("base") - 1]
    predicted, unshifted = prediction[target], base + prediction["annealing"]
    end_labels = []
    if observed is not None:
        at, losses = np.asarray(observed["step"]), np.asarray(observed["loss"])
        dots(ax, at, losses, color=INK, s=7, label="observed")
        end_labels.append((losses[np.nanargmax(at)], "observed", INK))
    dashed = {"linestyle": "--", "label": "base"}
    end_labels.append(curve(ax, prediction, "step", "base", INK, "base", 0.9, **dashed))
    # The loss is base + annealing + shift: two bands, stacked on the base, end at the prediction.
    for low, high, color, name in (
        (base, unshifted, GREEN, "annealing"),
        (unshifted, predicted, RED, "shift"),
    ):
        if (high - low).any():
            ax.fill_between(step, low, high, color=color, alpha=0.2, linewidth=0, label=name)
            end_labels.append(((low.iloc[-1] + high.iloc[-1]) / 2, name, color))
    end_labels.append(curve(ax, prediction, "step", target, BLUE, "predicted", label="predicted"))
    # Not the fall of the first steps, which hides all else.
    settled = len(predicted) // 10
    parts = [one[settled:] for one in (predicted, unshifted, base)]
    if observed is not None:
        parts.append(losses[at >= step.iloc[settled]])
    least, most = (float(side(np.concatenate(parts))) for side in (np.nanmin, np.nanmax))
    room = 0.06 * max(most - least, 1e-6)
    ax.set(xlim=(step.iloc[0], step.iloc[-1]), ylim=(least - room, most + room))
    rates = panel_below(ax, "LR")
    rates.plot(step, prediction["lr"], color=INK, linewidth=1.0)
    rate_axis(rates.yaxis, 2)
    rates.set_xlabel("step")
    if "phase" in prediction and prediction["phase"].nunique() > 1:
        start = step[prediction["phase"] == "cpt"].iloc[0]
        for panel in (ax, rates):
            panel.axvline(start, color=INK, linewidth=0.6, linestyle=":")
    return finish(ax, "", f"{target} (nats)" if target == "loss" else target, "", end_labels)
