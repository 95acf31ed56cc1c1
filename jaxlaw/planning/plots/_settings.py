"""Plots of the settings of a run: the bowl of the loss over them, and the best of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm

from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    answer,
    curve,
    dots,
    finish,
    input_label,
    log_axis,
    need_columns,
    new_axes,
    stripe_outside,
    what_is_drawn,
)
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, written
from jaxlaw._typed import checked
from jaxlaw.data import read_runs
from jaxlaw.errors import UsageError
from jaxlaw.laws import Input, get
from jaxlaw.planning._answers import law_inputs
from jaxlaw.planning._best_settings import BestSettings
from jaxlaw.planning._optimal_inputs import OptimalInputs, optimal_inputs
from jaxlaw.planning._question import searched_inputs, searched_range
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns

_POINTS = 101  # along each setting
_LEVELS = (0.25, 0.5, 1, 2, 5, 10)  # contours, in per cent above the lowest loss
_SAME = 0.02  # relative: runs whose N and D differ by less are of the point that is drawn


@checked
def settings(
    fit: Any,
    over: Mapping[str, Any],
    ax: Axes | None = None,
    *,
    at: Mapping[str, float | str] | None = None,
    runs: Any = None,
    answer: OptimalInputs | None = None,
) -> Axes:
    """The loss over one or two settings, such as learning rate and batch, with the best of them.

    Of two settings: contours of how far the loss lies above the lowest, in per cent; shaded is what
    is within 0.1 % of it (the ``tolerance`` of the answer). Of one: the loss, with the band of its
    draws. Striped is what lies beyond the fitted runs.

    Args:
        fit: Fit, (law, params), bootstrap or forecast.
        over: one or two settings and the ranges that are drawn, as for
            :func:`jaxlaw.planning.optimal_inputs`.
        ax: axes to draw on; a new figure if None.
        at: values of the law's other inputs, in the units of the fitted runs.
        runs: runs, as :func:`jaxlaw.read_runs` takes or returns them; drawn are those of this N and
            D, in the colour of their own loss.
        answer: answer of :func:`jaxlaw.planning.optimal_inputs`; it is made where None.

    Raises:
        UsageError: three settings or more, or as ``optimal_inputs``.

    Example:
        >>> from jaxlaw import plots
        >>> fit = ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"])
        >>> over = {"lr": (1e-4, 1e-2), "batch": (6e4, 4e6)}
        >>> plots.settings(fit, over, at={"N": 1e9, "D": 2e10}).get_xlabel()
        'peak learning rate lr'
    """
    if not 1 <= len(over) <= 2:
        raise UsageError(f"settings draws one or two inputs, not {len(over)}")
    plan = answer or optimal_inputs(fit, over, at=at)
    (source,), ax = as_draws(fit), ax or new_axes()
    specs = searched_inputs(source, tuple(over))
    axes = {name: _axis_of(source, spec, over[name]) for name, spec in specs.items()}
    held = source.inputs_taken(at or {})
    rows = None if runs is None else _of_this_point(source, runs, held)
    draw = _line if len(over) == 1 else _bowl
    said = draw(ax, source, plan, axes, held, rows)
    said["striped: beyond the runs"] = _frame(ax, source, specs.values())
    labels = [input_label(spec) for spec in specs.values()]
    return finish(ax, labels[0], (*labels, f"loss ({source.fit.target_unit})")[1],
                  what_is_drawn(said))  # fmt: skip


@checked
def best_settings(best: BestSettings, setting: str | None = None, ax: Axes | None = None) -> Axes:
    """The best value of a setting in each cell of a sweep, over the size of the cell.

    Colours are tokens, bars the range that is as good, as the table has it. Hollow dots lie at the
    edge of their sweep: they are a bound of the optimum, no estimate.

    Args:
        best: what :func:`jaxlaw.planning.best_settings` returned.
        setting: ``lr`` or ``batch``; None takes the first that the table has.
        ax: axes to draw on; a new figure if None.

    Raises:
        UsageError: the table does not have that setting.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("tuned-skaling", noise=0.001).table
        >>> plots.best_settings(jl.planning.best_settings(runs), "batch").get_ylabel()
        'best tokens a step batch'
    """
    name = setting or next(name.removesuffix("_bound") for name in best.table if "_bound" in name)
    need_columns(best.table, [name], f"jl.planning.best_settings(…, over=['{name}'])")
    table, ax = best.table, ax or new_axes()
    ax.set(xscale="log", yscale="log")
    # Cells of one size lie side by side, in the order of their tokens.
    rank = table.groupby("N")["D"].rank() - table.groupby("N")["D"].transform("size") / 2 - 0.5
    x = table["N"] * np.exp(0.03 * rank)
    ax.vlines(x, table[f"{name}_from"], table[f"{name}_to"], color=FAINT, linewidth=2, zorder=1)
    least, most = table["D"].min(), table["D"].max()
    tokens = ScalarMappable(LogNorm(least, max(most, 1.001 * least)), "viridis_r")
    colors = tokens.to_rgba(table["D"])
    is_bound = (table[f"{name}_bound"] != "").to_numpy()
    faces = np.where(is_bound[:, None], 1.0, colors)
    dots(ax, x, table[name], facecolors=faces, edgecolors=colors, linewidths=1.5, s=30, alpha=1)
    if most > least:
        bar = ax.figure.colorbar(tokens, ax=ax, label="training tokens D")
        log_axis(bar.ax.yaxis)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis, words=name == "batch")
    doc = next(spec for spec in get(f"tuned-{name}-chinchilla").inputs if spec.name == name)
    said = {
        f"bars: within {written(best.tolerance, SHARE)} of the lowest": True,
        "hollow: a bound, at the edge of the sweep": bool(is_bound.any()),
    }
    return finish(ax, "parameters N", f"best {input_label(doc)}", what_is_drawn(said))


def _frame(ax: Axes, source: Draws, specs: Iterable[Input]) -> bool:
    """Scales of the axes, and stripes beyond the runs; whether there are any."""
    striped = False
    for side, spec in zip("xy", specs, strict=False):
        if spec.domain != "fraction":
            axis = ax.xaxis if side == "x" else ax.yaxis
            log_axis(axis, source.scale(spec.name), words=spec.counts != "")
        run = source.ranges.get(spec.name, (np.nan, np.nan))
        striped |= stripe_outside(ax, *run, "", side)
    return striped


def _axis_of(source: Draws, spec: Input, given: Any) -> np.ndarray:
    """Values of a setting over what is drawn, in the units of the runs."""
    span = searched_range(source, spec, given)
    points = (np.geomspace if span.log else np.linspace)(*span.raw, _POINTS)
    return points / source.scale(spec.name)


def _of_this_point(source: Draws, runs: Any, held: Mapping[str, Any]) -> pd.DataFrame:
    """The runs of the same N, D and other inputs that are held."""
    table = read_runs(runs).table
    here = np.ones(len(table), bool)
    for name, value in held.items():
        if name in table and isinstance(value, int | float):
            here &= (np.abs(table[name] / value - 1) < _SAME).to_numpy()
    return table[here]


def _losses_at(source: Draws, held: Mapping[str, Any], settings: Mapping[str, Any]) -> np.ndarray:
    """Losses (1 + R, …) at arrays of settings in the units of the runs."""
    shape = np.shape(next(iter(settings.values())))
    first = {name: float(np.ravel(values)[0]) for name, values in settings.items()}
    inputs = {
        name: np.full(shape, x) for name, x in law_inputs(source, {**held, **first}, ()).items()
    }
    inputs |= {name: np.asarray(x) * source.units[name] for name, x in settings.items()}
    params = {
        name: values.reshape(-1, *(1,) * len(shape)) for name, values in source.values.items()
    }
    with in_float64():
        return np.asarray(source.law.evaluate(params, **inputs), float)


def _line(
    ax: Axes, source: Draws, plan: OptimalInputs, axes: Mapping[str, np.ndarray],
    held: Mapping[str, Any], rows: pd.DataFrame | None,
) -> dict[str, Any]:  # fmt: skip
    ((name, values),) = axes.items()
    columns = interval_columns("loss", _losses_at(source, held, {name: values}), LEVEL)
    curve(ax, columns, values, "loss", BLUE)
    if rows is not None:
        dots(ax, rows[name], rows[source.law.target], color=INK)
    low, high = plan.near[name]
    ax.axvspan(low, high, color=BLUE, alpha=0.1, linewidth=0, zorder=0)
    _mark(ax, plan, (name,), plan.loss)
    return {
        f"shaded: {100 * plan.tolerance:.3g} % above the lowest": True,
        f"band: {LEVEL:.0%} of draws": "loss_low" in columns,
    }


def _bowl(
    ax: Axes, source: Draws, plan: OptimalInputs, axes: Mapping[str, np.ndarray],
    held: Mapping[str, Any], rows: pd.DataFrame | None,
) -> dict[str, Any]:  # fmt: skip
    (first, x), (second, y) = axes.items()
    grid = dict(zip(axes, np.meshgrid(x, y), strict=True))
    above = 100 * (_losses_at(source, held, grid)[0] / plan.loss - 1)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.contourf(x, y, above, levels=[-1e-9, 100 * plan.tolerance], colors=[BLUE], alpha=0.18)
    drawn = ax.contour(x, y, above, levels=_LEVELS, colors=BLUE, linewidths=0.8, alpha=0.7)
    ax.clabel(drawn, fmt=lambda level: f"{level:g} %", fontsize="x-small")
    if rows is not None and len(rows):
        own = 100 * (rows[source.law.target] / plan.loss - 1)
        inside = (rows[first].between(x[0], x[-1]) & rows[second].between(y[0], y[-1])).to_numpy()
        rows, own = rows[inside], np.log10(np.maximum(own[inside], 0.05))
        dots(ax, rows[first], rows[second], c=own, cmap="viridis_r", vmin=-1.0, vmax=1.0, alpha=1,
             s=20, edgecolors=FAINT)  # fmt: skip
    _mark(ax, plan, (first, second))
    return {
        f"loss above the lowest (shaded: {100 * plan.tolerance:.3g} %)": True,
        "dots: runs, bright where low": rows is not None and len(rows) > 0,
    }


def _mark(ax: Axes, plan: OptimalInputs, names: tuple[str, ...], *more: float) -> None:
    """The best settings, with their values."""
    lines = [
        f"{name} {written(plan.best[name], *(plan.unit_of(name) or ('', 1.0)))}" for name in names
    ]
    at = [*(plan.best[name] for name in names), *more]
    answer(ax, at[0], at[1], "\n".join(lines), xytext=(7, 7), fontsize="small")
