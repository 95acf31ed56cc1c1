"""The law along one of its inputs: fitted curves, the data, what is held out, what lies beyond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._scores import runs_for
from jaxlaw.laws._parameters import Input
from jaxlaw.planning._inflection import loss_slopes
from jaxlaw.plots.style import (
    BLUE,
    FAINT,
    INK,
    dots,
    input_label,
    log_axis,
    name_ends,
    new_axes,
    shades,
    target_label,
    tidy,
    value_label,
    write,
)

CURVES = 4
_FINE = 200  # points of a curve


class _Seen(NamedTuple):
    """Runs in the units of a fit: inputs name → (n,), target (n,), held out (n,)."""

    inputs: dict[str, np.ndarray]
    target: np.ndarray
    held_out: np.ndarray


def loss_over_share(fit: FittedLaw, runs: Any, ax: Axes | None = None) -> Axes:
    """Target over r: data and fitted curves at the largest N, for a few D.

    Args and returns as :func:`loss_over_input`.
    """
    return loss_over_input(fit, runs, "r", ax, by="D" if "D" in fit.law.input_names else None)


def loss_over_input(
    fit: FittedLaw,
    runs: Any,
    along: str,
    ax: Axes | None = None,
    *,
    by: str | None = None,
    at: Mapping[str, float] | None = None,
    curves: int = CURVES,
    held_out: Any = None,
    reach: float = 2.0,
) -> Axes:
    """Target along an input: fitted curves, the runs they go through, where the fit is blind.

    Where the fit saw no runs the ground is shaded. Only runs with the held inputs' values are
    shown: with all others the curves have nothing to do.

    Args:
        fit: the fit.
        runs: what it was fitted on, or more runs: what :func:`jaxlaw.read_runs` takes or
            returns, or Curves; None for none.
        along: the input that goes along, such as ``D``.
        ax: where to draw; a new figure if None.
        by: another input, of which each curve has its own value; the first other one that
            varies, if None.
        at: input → value at which it is held, in the units of the fitted runs; left out, the
            largest of the values that most runs have.
        curves: how many, at most.
        held_out: (n,) booleans, a row of the runs each: those that the fit did not see, such
            as ``folds.held_out[0]``; they are drawn hollow.
        reach: how far beyond runs and fit a positive input goes on, as a factor.

    Raises:
        UsageError: the law has no such input.
    """
    for name in (along, by, *(at or {})):
        if name is not None and name not in fit.law.input_names:
            known = fit.law.input_names
            raise UsageError(
                f"law {fit.law.name} has no input '{name}'; it takes "
                f"{', '.join(known)}.{nearest(name, known)}"
            )
    ax = ax or new_axes()
    seen = _seen(fit, runs, held_out)
    by = by or _varying(fit, seen, {along, *(at or {})})
    held = _held(fit, seen, {along, by}, at or {})
    there = np.logical_and.reduce(
        [np.isclose(seen.inputs[name], value) for name, value in held.items()],
        axis=0, initial=True,
    ) & np.ones(len(seen.target), bool)  # fmt: skip
    values = _chosen(fit, by, seen.inputs[by][there] if by else None, curves)
    _draw(ax, fit, seen, there, along, by, values, held, reach)
    ax.set_ylabel(target_label(fit.law))
    ax.set_xlabel(input_label(_spec(fit, along)))
    named = (value_label(_spec(fit, n), v, _single(fit, n)) for n, v in held.items())
    ax.set_title(", ".join(named), fontsize="medium", color=INK)
    return tidy(ax)


def slopes_over_share(
    runs: Any, ax: Axes | None = None, *, every: float | None = None, N: float | None = None
) -> Axes:
    """ΔL/ΔD over the share, a curve for each D, at one size: figure 10 of Que 2024.

    A law of mixtures has the implicit trend (eq. 5) where the curves fall.

    Args:
        runs: what :func:`jaxlaw.read_runs` takes or returns, with N, D, r, loss; or the table
            of :func:`jaxlaw.loss_slopes`.
        ax: where to draw; a new figure if None.
        every: as for :func:`jaxlaw.loss_slopes`.
        N: size, in the unit of the runs; the largest if None.

    Raises:
        UsageError: no run has that size.
    """
    made = hasattr(runs, "columns") and {"slope", "D_low"} <= set(runs.columns)
    table = runs if made else loss_slopes(runs, every=every)
    size = table["N"].max() if N is None else N
    table = table[np.isclose(table["N"], size)]
    if table.empty:
        raise UsageError(f"no run has N = {size:g}")
    ax = ax or new_axes()
    groups = list(table.groupby(["D_low", "D_high"]))
    for (ends, one), color in zip(groups, shades(len(groups)), strict=True):
        ax.plot(one["r"], one["slope"], color=color, linewidth=1.2, marker="o", markersize=3)
        if ends in (groups[0][0], groups[-1][0]):
            name_ends(ax, [(one["slope"].iloc[-1], f"D = {ends[1]:.3g}", color)])
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    ax.set_xlabel("share of the corpus r")
    ax.set_ylabel("ΔL/ΔD (nats per unit of D)")
    ax.set_title(f"N = {size:.3g}", fontsize="medium", color=INK)
    return tidy(ax)


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


def _held(fit: FittedLaw, seen: _Seen, free: set[Any], at: Mapping[str, float]) -> dict[str, float]:
    """Where the other inputs are held: the largest of the values that most runs have."""
    held, there = {}, np.ones(len(seen.target), bool)
    for name in fit.law.input_names:
        if name in free:
            continue
        if name in at:
            held[name] = float(at[name])
        elif there.any():
            values, counts = np.unique(seen.inputs[name][there], return_counts=True)
            held[name] = float(values[counts == counts.max()][-1])
        else:
            held[name] = float(fit.ranges[name][1])
        there &= np.isclose(seen.inputs[name], held[name])
    return held


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
    ax: Axes, fit: FittedLaw, seen: _Seen, there: np.ndarray, along: str, by: str | None,
    values: list[Any], held: dict[str, float], reach: float,
) -> None:  # fmt: skip
    spec, (low, high) = _spec(fit, along), fit.ranges[along]
    shown = np.append(seen.inputs[along][there], [low, high])
    x = _course(spec, shown, reach)
    colors = _colors(fit, by, values)
    ends = []
    for value in values:
        curve = fit.predict(**held, **{along: x}, **({by: value} if by else {}))
        ax.plot(x, curve, color=colors(value), linewidth=1.5)
        name = value_label(_spec(fit, by), value, _single(fit, by)) if by else "law"
        ends.append((float(curve[-1]), name, colors(value)))
    own = there
    if by:  # where hardly any run has a curve's own value, all of them, in their own colours
        exact = there & np.isclose(seen.inputs[by][:, None], values).any(axis=1)
        own = exact if exact.sum() >= 3 * len(values) else there
    if own.any():
        _mark(ax, seen, own, along, [colors(one) for one in seen.inputs[by][own]] if by else INK)
    if spec.domain == "positive" or _spans_decades(spec, shown):
        log_axis(ax.xaxis, _single(fit, along))
    ax.set_xlim(x[0], x[-1])
    _shade_outside(ax, (low, high))
    name_ends(ax, ends)
    if seen.held_out[own].any():
        ax.set_title("● fitted  ○ held out", fontsize="small", color=INK, loc="left")


def _colors(fit: FittedLaw, by: str | None, values: list[Any]) -> Callable[[Any], Any]:
    """The colour of a curve, or of a run, by its value of the input ``by``."""
    if by is None:
        return lambda value: BLUE
    scale = np.log if _spec(fit, by).domain == "positive" else np.asarray
    places, ramp = scale(np.array(values, float)), np.array(shades(len(values)))
    return lambda value: [np.interp(scale(value), places, channel) for channel in ramp.T]


def _course(spec: Input, values: np.ndarray, reach: float) -> np.ndarray:
    """Where the curves are computed."""
    low, high = float(values.min()), float(values.max())
    if _spans_decades(spec, values):
        return np.geomspace(low, high, _FINE)
    if spec.domain == "positive":
        return np.geomspace(low / reach, high * reach, _FINE)
    if spec.domain == "fraction":
        return np.linspace(0, 1, _FINE)
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


def _shade_outside(ax: Axes, fitted: tuple[float, float]) -> None:
    """The ground where the fit saw nothing."""
    left, right = ax.get_xlim()
    for low, high, at, side in ((left, fitted[0], 0, "left"), (fitted[1], right, 1, "right")):
        if not low < high * (1 - 1e-9):
            continue
        ax.axvspan(low, high, color=FAINT, alpha=0.12, linewidth=0, zorder=0)
        if at or right <= fitted[1]:
            write(
                ax, "not fitted", (at, 1), xycoords="axes fraction", ha=side, va="bottom",
                color=FAINT, xytext=(0, 2),
            )  # fmt: skip


def _spec(fit: FittedLaw, name: str) -> Input:
    return next(spec for spec in fit.law.inputs if spec.name == name)


def _single(fit: FittedLaw, name: str) -> float:
    """What one of the user's unit of an input is worth in single things."""
    return fit.units[name] * _spec(fit, name).unit
