"""Plots of a fit: against its data, along one of its inputs, over the steps of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    RED,
    dots,
    finish,
    input_label,
    label_curves,
    log_axis,
    need_columns,
    new_axes,
    panel_below,
    percent,
    shades,
    step_axis,
    stripe_outside,
    target_label,
    tidy,
    value_label,
    write,
)
from jaxlaw._jit import in_float64
from jaxlaw._quantities import written
from jaxlaw._typed import checked
from jaxlaw.data import Runs
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting import Fit, FittedLaw, runs_for
from jaxlaw.laws import Input

CURVES = 4
_FINE = 200  # points of a curve


@checked
def observed_against_predicted(
    fit: FittedLaw, runs: Any, ax: Axes | None = None, *, residual_panel: bool = False
) -> Axes:
    """Observed target over predicted target, with the line they should lie on.

    Args:
        fit: fit that predicts.
        runs: runs it was fitted on, or others, as :func:`jaxlaw.read_runs` takes or returns
            them, or LossCurves.
        ax: axes to draw on; a new figure if None.
        residual_panel: whether :func:`residuals` are drawn below, over the same predictions.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> plots.observed_against_predicted(fit, runs).get_xlabel()
        'predicted loss (nats)'
    """
    ax = ax or new_axes()
    predicted, target = _both(fit, runs)
    dots(ax, predicted, target, color=BLUE)
    both = [min(predicted.min(), target.min()), max(predicted.max(), target.max())]
    ax.plot(both, both, color=INK, linewidth=0.8, zorder=0)
    ax.set_ylabel(target_label(fit.law, "observed"))
    scores = f"R² {fit.r2:.4f}\nRMSE {written(float(fit.rmse), fit.target_unit)}"
    write(ax, scores, (0.04, 0.96), xycoords="axes fraction", va="top", fontsize="medium")
    if residual_panel:
        below = panel_below(ax, "residual (%)")
        _residuals(below, predicted, target)
        below.set_xlabel(target_label(fit.law, "predicted"))
    else:
        ax.set_aspect("equal", adjustable="box")
        ax.set(xlim=ax.get_ylim(), ylim=ax.get_ylim())
        ax.set_xlabel(target_label(fit.law, "predicted"))
    return tidy(ax)


@checked
def residuals(fit: FittedLaw, runs: Any, ax: Axes | None = None) -> Axes:
    """Observed over predicted target, in percent, where the eye would see structure left.

    Args:
        fit: fit that predicts.
        runs: runs as for :func:`observed_against_predicted`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> plots.residuals(fit, runs).get_ylabel()
        'observed − predicted (%)'
    """
    ax = ax or new_axes()
    _residuals(ax, *_both(fit, runs))
    return finish(ax, target_label(fit.law, "predicted"), "observed − predicted (%)")


def _residuals(ax: Axes, predicted: np.ndarray, target: np.ndarray) -> None:
    percent = 100 * (target / predicted - 1)
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    dots(ax, predicted, percent, color=BLUE)
    reach = 1.15 * max(np.abs(percent).max(), 1e-9)
    ax.set_ylim(-reach, reach)


def _both(fit: FittedLaw, runs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and observed target of every run."""
    observed = runs_for(fit, runs).observations(fit.law, free=())
    inputs = {name: values / fit.units[name] for name, values in observed.inputs.items()}
    return fit.predict(**fit.law.labelled(inputs)), observed.target


@checked
def starts_agreement(fit: FittedLaw, ax: Axes | None = None) -> Axes:
    """Where the solved starts of a fit ended: a bar for each distinct optimum, the best first.

    Args:
        fit: :class:`jaxlaw.Fit`, which knows its distinct optima.
        ax: axes to draw on; a new figure if None.

    Raises:
        UsageError: the fit does not know where its starts ended (published coefficients, a
            file of an older jaxlaw).

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> plots.starts_agreement(fit).get_ylabel()
        'objective they ended at'
    """
    if not isinstance(fit, Fit) or not fit.optima:
        raise UsageError("this fit does not say where its starts ended: fit the runs again")
    ax = ax or new_axes()
    value, share = np.array(fit.optima).T
    excess = value / max(value[0], 1e-300) - 1
    names = ["best", *(_worse(value) for value in excess[1:])]
    shares, colors = [*share], [BLUE] + [FAINT] * (len(share) - 1)
    rest = 1 - share.sum()
    if rest * fit.n_solved > 0.5:
        names, shares, colors = [*names, "others"], [*shares, rest], [*colors, RED]
    rows = np.arange(len(shares))[::-1]
    ax.barh(rows, shares, color=colors, height=0.6)
    for row, share in zip(rows, shares, strict=True):
        count = round(share * fit.n_solved)
        write(ax, f"{count} start{'s' * (count != 1)}", (share, row), xytext=(5, 0), va="center")
    ax.set_yticks(rows, names)
    ax.set_ylim(min(len(rows) - 4, 0) - 0.6, len(rows) - 0.4)  # a lone bar must not fill the axes
    ax.set_xlim(0, 1.15 * max(shares))
    ax.xaxis.set_major_locator(FixedLocator(np.linspace(0, 1, 6)))
    ax.xaxis.set_major_formatter(percent)
    ax.tick_params(left=False)
    title = f"all {fit.n_solved} starts ended at the best" * (len(rows) == 1)
    return finish(ax, f"share of {fit.n_solved} solved starts", "objective they ended at", title)


def _worse(excess: float) -> str:
    return f"+{100 * excess:.2g} %" if excess < 1 else f"× {1 + excess:.3g}"


@checked
def demo_figure(fits: Mapping[str, FittedLaw], runs: Any) -> Figure:
    """The figure of ``jaxlaw demo``: both corpora, curves over r, predictions, residuals.

    Args:
        fits: corpus (``general``, ``domain``) → fit.
        runs: runs of both corpora, as :func:`jaxlaw.read_runs` returns them.

    Example:
        >>> from jaxlaw import plots
        >>> columns = {"N": "n_params", "D": "n_tokens", "r_d": "domain_ratio"}
        >>> columns |= {"loss_d": "domain_loss", "loss_g": "general_loss"}
        >>> runs = jl.read_runs(jl.simulate.demo().table, columns, {"N": 1, "D": 1})
        >>> sides = ("general", "domain")
        >>> fits = {side: jl.fit("dcpt", runs.for_corpus(side), n_starts=256) for side in sides}
        >>> len(plots.demo_figure(fits, runs).axes)
        6
    """
    if not fits or not isinstance(runs, Runs):
        raise UsageError("demo_figure: give a fit for each corpus, and what jl.read_runs returned")
    figure, rows = plt.subplots(
        len(fits), 3, figsize=(13, 3.8 * len(fits)), layout="constrained", squeeze=False
    )
    for (side, fit), (left, middle, right) in zip(fits.items(), rows, strict=True):
        corpus = runs.for_corpus(side)
        loss_over_share(fit, corpus, left)
        observed_against_predicted(fit, corpus, middle)
        residuals(fit, corpus, right)
        left.set_title(f"{side} corpus, {left.get_title()}", fontsize="medium", color=INK)
    return figure


class _Seen(NamedTuple):
    """Runs in the units of a fit: inputs name → (n,), target (n,), held out (n,)."""

    inputs: dict[str, np.ndarray]
    target: np.ndarray
    held_out: np.ndarray


@checked
def loss_over_share(fit: FittedLaw, runs: Any, ax: Axes | None = None) -> Axes:
    """Target over r: data and fitted curves at the largest N, for a few D.

    Args:
        fit: fit that predicts.
        runs: runs as for :func:`loss_over_input`.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("dcpt").table
        >>> fit = jl.fit("dcpt", runs, n_starts=64)
        >>> plots.loss_over_share(fit, runs).get_ylabel()
        'loss (nats)'
    """
    return loss_over_input(fit, runs, "r", ax, by="D" if "D" in fit.law.input_names else None)


@checked
def loss_over_input(
    fit: FittedLaw,
    runs: Any = None,
    along: str | None = None,
    ax: Axes | None = None,
    *,
    by: str | None = None,
    at: Mapping[str, float] | None = None,
    curves: int = CURVES,
    held_out: Any = None,
    reach: float = 2.0,
) -> Axes:
    """Target along an input: fitted curves, the runs they go through, where the fit is blind.

    Over a share of a mixture the other shares keep their proportions, so that all add up to 1.
    Where the fit saw no runs the ground is striped. Only runs with the fixed inputs' values are
    shown: with all others the curves have nothing to do. The settings of a tuned law, unless one
    is given, are at their best at every point, beside the best run of each size and tokens.

    Args:
        fit: fit that predicts.
        runs: the runs that it was fitted on, or more: anything that :func:`jaxlaw.read_runs`
            takes or returns, or LossCurves; None for none.
        along: the input that goes along, such as ``D``; None takes D, N, C, or the first.
        ax: axes to draw on; a new figure if None.
        by: another input, of which each curve has its own value; the first other one that
            varies, if None.
        at: input → value at which it is fixed, in the units of the fitted runs; left out, the
            largest of the values that most runs have.
        curves: largest number of curves.
        held_out: (n,) booleans, a row of the runs each, of those that the fit did not see, such
            as ``folds.held_out[0]``; they are drawn hollow.
        reach: factor by which a positive input goes on beyond runs and fit.

    Raises:
        UsageError: the law has no such input.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> plots.loss_over_input(fit, runs, "D").get_ylabel()
        'loss (nats)'
    """
    for name in (along, by, *(at or {})):
        if name is not None and name not in fit.law.input_names:
            known = fit.law.input_names
            raise UsageError(
                f"law {fit.law.name} has no input '{name}'; it takes "
                f"{', '.join(known)}.{nearest(name, known)}"
            )
    ax, along = ax or new_axes(), along or _usual_input(fit)
    seen = _seen(fit, runs, held_out)
    shares = fit.law.shares if along in fit.law.shares else ()
    tuned = _tuned_inputs(fit, {along, by, *(at or {})})
    by = by or _varying(fit, seen, {along, *shares, *tuned, *(at or {})})
    if tuned:
        seen = _best_of_cells(fit, seen, tuned)
    fixed = _fixed_inputs(fit, seen, {along, by, *tuned}, at or {})
    follows = set(shares) if len(shares) == 2 else set()  # the other one is what is left
    selected = np.logical_and.reduce(
        [np.isclose(seen.inputs[k], value) for k, value in fixed.items() if k not in follows],
        axis=0, initial=True,
    ) & np.ones(len(seen.target), bool)  # fmt: skip
    values = _chosen(fit, by, seen.inputs[by][selected] if by else None, curves)
    _draw(ax, fit, seen, selected, along, by, values, fixed, reach)
    said = [value_label(_spec(fit, n), v, _single(fit, n)) for n, v in fixed.items()]
    if tuned:
        said.append(f"{' and '.join(tuned)} at {'its' if len(tuned) == 1 else 'their'} best")
    return finish(ax, input_label(_spec(fit, along)), target_label(fit.law), ", ".join(said))


def _usual_input(fit: FittedLaw) -> str:
    """The input that a law is drawn along where none is given."""
    names = fit.law.input_names
    return next((name for name in ("D", "N", "C") if name in names), names[0])


def _seen(fit: FittedLaw, runs: Any, held_out: Any) -> _Seen:
    if runs is None:
        inputs = {name: np.empty(0) for name in fit.law.input_names}
        return _Seen(inputs, np.empty(0), np.empty(0, bool))
    runs = runs_for(fit, runs)
    observed = runs.observations(fit.law, free=())
    inputs = {name: values / fit.units[name] for name, values in observed.inputs.items()}
    mask = np.zeros(len(observed.target), bool)
    if held_out is not None:
        mask = np.asarray(held_out, bool)
        if len(mask) != len(observed.target):  # rows without valid numbers were dropped
            if len(mask) != len(runs):
                raise UsageError(f"held_out has {len(mask)} values for {len(runs)} runs")
            mask = mask[observed.positions]
    return _Seen(inputs, observed.target, mask)


def _varying(fit: FittedLaw, seen: _Seen, taken: set[str]) -> str | None:
    """The first other input with more than one value."""
    for name in fit.law.input_names:
        values = seen.inputs[name] if len(seen.target) else fit.ranges[name]
        if name not in taken and np.ptp(values) > 0:
            return name
    return None


def _tuned_inputs(fit: FittedLaw, taken: set[Any]) -> tuple[str, ...]:
    """The inputs whose best values the law says, if all of them are free."""
    names = tuple(fit.law.best_settings)
    return () if taken & set(names) else names


def _at_best(fit: FittedLaw, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The best settings at other inputs, all in the units of the fitted runs."""
    with in_float64():
        given = {name: np.asarray(value) * fit.units[name] for name, value in inputs.items()}
        return {
            name: np.asarray(best(fit.params, given)) / fit.units[name]
            for name, best in fit.law.best_settings.items()
        }


def _best_of_cells(fit: FittedLaw, seen: _Seen, tuned: tuple[str, ...]) -> _Seen:
    """Of the runs that differ in settings alone the one with the best target."""
    cells = pd.DataFrame({n: v for n, v in seen.inputs.items() if n not in tuned})
    badness = seen.target if fit.law.better == "low" else -seen.target
    best = np.sort(pd.Series(badness).groupby([cells[n] for n in cells]).idxmin().to_numpy(int))
    inputs = {name: values[best] for name, values in seen.inputs.items()}
    return _Seen(inputs, seen.target[best], seen.held_out[best])


def _fixed_inputs(
    fit: FittedLaw, seen: _Seen, free: set[Any], at: Mapping[str, float]
) -> dict[str, float]:
    """Values at which the other inputs are fixed: the largest of the values that most runs have."""
    fixed, selected = {}, np.ones(len(seen.target), bool)
    for name in fit.law.input_names:
        if name in free:
            continue
        if name in at:
            fixed[name] = float(at[name])
        elif selected.any():
            values, counts = np.unique(seen.inputs[name][selected], return_counts=True)
            fixed[name] = float(values[counts == counts.max()][-1])
        else:
            fixed[name] = float(fit.ranges[name][1])
        selected &= np.isclose(seen.inputs[name], fixed[name])
    shares = [name for name in fit.law.shares if name not in at]
    if shares and not free & set(fit.law.shares) and not selected.any():  # of no run: of ranges
        left = 1.0 - sum(fixed[name] for name in fit.law.shares if name in at)
        total = sum(fixed[name] for name in shares)
        fixed |= {name: fixed[name] * left / total for name in shares if total > 0}
    return fixed


def _chosen(fit: FittedLaw, by: str | None, values: Any, curves: int) -> list[float | None]:
    """Values of the curves, evenly on the scale the law sees them on, and among the runs'."""
    if by is None:
        return [None]
    between = np.geomspace if _spec(fit, by).domain == "positive" else np.linspace
    if not np.size(values):
        return list(between(*fit.ranges[by], curves))
    values = np.unique(values)
    wanted = between(values[0], values[-1], curves)
    scale = np.log if between is np.geomspace else np.asarray
    near = np.abs(scale(values)[:, None] - scale(wanted)).argmin(axis=0)
    return list(values[np.unique(near)])


def _draw(
    ax: Axes, fit: FittedLaw, seen: _Seen, selected: np.ndarray, along: str, by: str | None,
    values: list[Any], fixed: dict[str, float], reach: float,
) -> None:  # fmt: skip
    spec, (low, high) = _spec(fit, along), fit.ranges[along]
    shown = np.append(seen.inputs[along][selected], [low, high])
    x = _abscissae(spec, shown, reach)
    colors = _colors(fit, by, values)
    end_labels = []
    for value in values:
        drawn_at = {along: x} | ({by: value} if by else {})
        at = _with_whole_mixture(fit, fixed, drawn_at)
        if set(fit.law.input_names) - set(at):  # settings
            at |= _at_best(fit, at)
        curve = fit.predict(**fit.law.labelled(at))
        ax.plot(at[along], curve, color=colors(value), linewidth=1.5)
        name = value_label(_spec(fit, by), value, _single(fit, by)) if by else "law"
        end_labels.append((float(curve[-1]), name, colors(value)))
    drawn = selected
    if by:  # where hardly any run has a curve's own value, all of them, in their own colours
        exact = selected & np.isclose(seen.inputs[by][:, None], values).any(axis=1)
        drawn = exact if exact.sum() >= 3 * len(values) else selected
    if drawn.any():
        _mark(
            ax,
            seen,
            drawn,
            along,
            [colors(value) for value in seen.inputs[by][drawn]] if by else INK,
        )
    if spec.domain == "positive" or _spans_decades(spec, shown):
        log_axis(ax.xaxis, _single(fit, along))
    ax.set_xlim(x[0], x[-1])
    stripe_outside(ax, low, high)
    label_curves(ax, end_labels)
    if seen.held_out[drawn].any():
        ax.set_title("● fitted  ○ held out", fontsize="small", color=INK, loc="left")


def _with_whole_mixture(
    fit: FittedLaw, fixed: Mapping[str, float], drawn: Mapping[str, Any]
) -> dict[str, Any]:
    """Inputs of a curve: fixed shares of a mixture make room for the one that is drawn over."""
    shares = fit.law.shares
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


def _colors(fit: FittedLaw, by: str | None, values: list[Any]) -> Callable[[Any], Any]:
    """The colour of a curve, or of a run, by its value of the input ``by``."""
    if by is None:
        return lambda value: BLUE
    scale = np.log if _spec(fit, by).domain == "positive" else np.asarray
    known, ramp = scale(np.array(values, float)), np.array(shades(len(values)))
    return lambda value: [np.interp(scale(value), known, channel) for channel in ramp.T]


def _abscissae(spec: Input, values: np.ndarray, reach: float) -> np.ndarray:
    """Where the curves are computed."""
    low, high = float(values.min()), float(values.max())
    if _spans_decades(spec, values):
        return np.geomspace(low, high, _FINE)
    if spec.domain == "positive":
        return np.geomspace(low / reach, high * reach, _FINE)
    if spec.domain == "fraction":
        return np.linspace(low / reach if spec.above_zero else 0, 1, _FINE)
    room = 0.1 * (high - low)
    return np.linspace(max(low - room, 0) if low >= 0 else low - room, high + room, _FINE)


def _spans_decades(spec: Input, values: np.ndarray) -> bool:
    """Whether an input that is not declared positive is a count or a size all the same.

    A user's law may take tokens under a name of its own (``U``), and nothing says that they are
    positive. Values above 0 over more than a factor of 30 are shown on a logarithmic axis, and
    the curves keep to the range of the data: the law may not exist at 0.
    """
    low, high = float(values.min()), float(values.max())
    return spec.domain in ("real", "nonnegative") and 0 < 30 * low < high


def _mark(ax: Axes, seen: _Seen, here: np.ndarray, along: str, colors: Any) -> None:
    """Runs, hollow where they were held out; a colour, or one for each."""
    x, y, out = seen.inputs[along][here], seen.target[here], seen.held_out[here]
    colors = np.array(colors if isinstance(colors, list) else [to_rgba(colors)] * len(x))
    dots(ax, x[~out], y[~out], color=colors[~out], zorder=3)
    if out.any():
        dots(
            ax, x[out], y[out], facecolors="white", edgecolors=colors[out], linewidths=1.0, s=18,
            alpha=1.0, zorder=3,
        )  # fmt: skip


def _spec(fit: FittedLaw, name: str) -> Input:
    return next(spec for spec in fit.law.inputs if spec.name == name)


def _single(fit: FittedLaw, name: str) -> float:
    """Raw units (parameters, tokens) in one of the user's unit of an input."""
    return fit.units[name] * _spec(fit, name).unit


@picture("curve")
def predicted_curve(answer: Answer, ax: Axes | None = None) -> Axes:
    """The loss over the steps of an answer of :func:`jaxlaw.uncertainty.predicted_curve`."""
    table = answer.points["curve"]
    bounds = [name for name in table if str(name).endswith(("_low", "_high"))]
    ax = loss_curve(table.drop(columns=bounds), ax=ax)
    if bounds:
        ax.fill_between(table["step"], *(table[name] for name in bounds), color=BLUE, alpha=0.2,
                        linewidth=0)  # fmt: skip
    return ax


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
    # predict_curve puts the target, whatever its name, before the column base.
    target = prediction.columns[list(prediction.columns).index("base") - 1]
    unshifted = base + prediction["annealing"]
    predicted = prediction[target]
    end_labels = [(predicted.iloc[-1], "predicted", BLUE)]
    if observed is not None:
        at, losses = np.asarray(observed["step"]), np.asarray(observed["loss"])
        dots(ax, at, losses, color=INK, s=7, label="observed")
        end_labels.append((losses[np.nanargmax(at)], "observed", INK))
    ax.plot(step, base, color=INK, linewidth=0.9, linestyle="--", label="base")
    end_labels.append((base.iloc[-1], "base", INK))
    # The loss is base + annealing + shift: two bands, stacked on the base, end at the prediction.
    for low, high, color, name in (
        (base, unshifted, GREEN, "annealing"),
        (unshifted, predicted, RED, "shift"),
    ):
        if (high - low).any():
            ax.fill_between(step, low, high, color=color, alpha=0.2, linewidth=0, label=name)
            end_labels.append(((low.iloc[-1] + high.iloc[-1]) / 2, name, color))
    ax.plot(step, predicted, color=BLUE, linewidth=1.6, label="predicted")
    ax.set_ylim(*_view(step, predicted, observed))
    ax.set_xlim(step.iloc[0], step.iloc[-1])
    ax.set_ylabel(f"{target} (nats)" if target == "loss" else target)
    rates = panel_below(ax, "rate")
    rates.plot(step, prediction["lr"], color=INK, linewidth=1.0)
    rates.set_ylim(bottom=0)
    rates.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
    step_axis(rates.xaxis)
    rates.set_xlabel("step")
    if "phase" in prediction and prediction["phase"].nunique() > 1:
        start = step[prediction["phase"] == "cpt"].iloc[0]
        for panel in (ax, rates):
            panel.axvline(start, color=INK, linewidth=0.6, linestyle=":")
    label_curves(ax, end_labels)
    return tidy(ax)


@checked
def hidden_curves(
    fit: FittedLaw, schedule: Any, observed: Any = None, ax: Axes | None = None, **options: Any
) -> Axes:
    """The loss of a continual run between its two hidden curves (Wang 2025, figure 1).

    They are the losses of pre-training on the old corpus, and on the new mixture, by the same
    rates: the run leaves the one, and tends to the other. To the law the second is the first,
    shifted from its beginning by the shift of an endless run.

    Args:
        fit: fit of a law of both phases, such as ``cpt-curve``.
        schedule: schedule of both phases, as :meth:`jaxlaw.FittedLaw.predict_curve` takes it.
        observed: table with columns ``step`` and ``loss``, or None.
        ax: axes to draw on; a new figure if None.
        **options: further arguments of that method, such as ``r=0.5``.

    Raises:
        UsageError: a law without a shift.

    Example:
        >>> from jaxlaw import plots
        >>> fit = jl.published()["wang-2025-pt"]
        >>> schedule = "constant:lr=2e-4,steps=4000+constant:lr=2e-4,steps=2000"
        >>> plots.hidden_curves(fit, schedule, r=0.0).get_ylabel()
        'loss (nats)'
    """
    if "shift" not in fit.law.components:
        raise UsageError(f"law {fit.law.name} has no shift: it has one hidden curve, its own")
    ax, prediction = ax or new_axes(), fit.predict_curve(schedule, **options)
    step, target = prediction["step"], prediction[fit.law.target]
    old = target - prediction["shift"]
    new = old + _shift_of_an_endless_run(fit, options)
    continued = prediction["phase"] == "cpt" if "phase" in prediction else step > -1
    end_labels = []
    if observed is not None:
        dots(ax, observed["step"], observed["loss"], color=INK, s=7)
    for losses, color, name in ((old, BLUE, "old corpus"), (new, RED, "new mixture")):
        ax.plot(step, losses, color=color, linewidth=1.2, linestyle="--")
        end_labels.append((losses.iloc[-1], name, color))
    ax.plot(step[continued], target[continued], color=INK, linewidth=1.8)
    end_labels.append((target.iloc[-1], "continual run", INK))
    ax.axvline(step[continued].iloc[0], color=INK, linewidth=0.6, linestyle=":")
    views = np.array([_view(step, losses, observed) for losses in (old, new)])
    ax.set_ylim(views[:, 0].min(), views[:, 1].max())
    ax.set_xlim(step.iloc[0], step.iloc[-1])
    step_axis(ax.xaxis)
    title = "dashed: the hidden curves"
    return finish(ax, "step", target_label(fit.law), title, end_labels)


def _shift_of_an_endless_run(fit: FittedLaw, options: Mapping[str, Any]) -> float:
    """The shift at an infinite S1_cpt, at the run's other inputs."""
    inputs = {name: options.get(name, 1.0) for name in fit.law.input_names} | {"S1_cpt": np.inf}
    with in_float64():
        with_shift, without = (
            float(law.law(dict(law.params), **inputs)) for law in (fit, fit.without("shift"))
        )
    return with_shift - without


@checked
def shift_curves(
    points: pd.DataFrame, fits: Any = (), ax: Axes | None = None, *, over: str = "S1_cpt"
) -> Axes:
    """Observed shifts, one over the other, and laws of the shift (Wang 2025, figures 2, 6, 14).

    Where the shift does not depend on where the base was left, on its size or on how the run was
    scheduled, the curves lie on each other.

    Args:
        points: table that :func:`jaxlaw.fitting.observed_shift` returned: columns ``run``,
            ``shift`` (nats) and ``over``.
        fits: fits of the laws ``shift`` and ``shift-exp``, or one of them, drawn beside the points.
        ax: axes to draw on; a new figure if None.
        over: column to draw over: ``S1_cpt``, or ``step`` from the boundary. Laws take the
            former, so with ``step`` they are drawn for the first run.

    Raises:
        UsageError: a column is missing, or a fit predicts no shift.

    Example:
        >>> from jaxlaw import plots
        >>> S1 = np.linspace(0, 1, 20)
        >>> points = {"run": "a", "S1_cpt": S1, "shift": 0.3 * (1 - (1 + 8 * S1) ** -0.7)}
        >>> plots.shift_curves(pd.DataFrame(points)).get_ylabel()
        'shift ΔL (nats)'
    """
    need_columns(points, ("run", "shift", "S1_cpt", over), "jl.fitting.observed_shift")
    fits = [fits] if isinstance(fits, FittedLaw) else list(fits)
    for fit in fits:
        if fit.law.target != "shift":
            raise UsageError(f"law {fit.law.name} predicts no shift; fit shift or shift-exp")
    ax = ax or new_axes()
    runs = dict(list(points.groupby("run", sort=False)))
    end_labels = []
    for (run, rows), color in zip(runs.items(), shades(len(runs)), strict=True):
        rows = rows.sort_values(over)
        dots(ax, rows[over], rows["shift"], color=[color], s=9)
        end_labels.append((rows["shift"].iloc[-1], str(run), color))
    first = next(iter(runs.values())).sort_values(over)
    for fit, color, line in zip(fits, (INK, RED), ("-", "--"), strict=False):
        areas = np.linspace(0, points["S1_cpt"].max(), 200)
        if over != "S1_cpt":
            areas = first["S1_cpt"].to_numpy()
        at = areas if over == "S1_cpt" else first[over].to_numpy()
        values = fit.predict(S1_cpt=areas / fit.units["S1_cpt"])
        ax.plot(at, values, color=color, linewidth=1.4, linestyle=line)
        end_labels.append((values[-1], fit.law.name, color))
    ax.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    ax.set_xlim(0, points[over].max())
    if over == "step":
        step_axis(ax.xaxis)
    xlabel = f"{'S1' if over == 'S1_cpt' else 'step'} of the continual phase"
    return finish(ax, xlabel, "shift ΔL (nats)", end_labels=end_labels)


def _view(step: pd.Series, predicted: pd.Series, observed: Any) -> tuple[float, float]:
    """What of the losses to show: not the fall of the first steps, which hides all else."""
    settled = len(predicted) // 10
    low, high = float(predicted.min()), float(predicted.iloc[settled])
    if observed is not None:
        seen = np.asarray(observed["loss"])[np.asarray(observed["step"]) >= step.iloc[settled]]
        low, high = min(low, np.nanmin(seen, initial=low)), max(high, np.nanmax(seen, initial=high))
    room = 0.06 * max(high - low, 1e-6)
    return low - room, high + room
