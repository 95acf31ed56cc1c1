"""Plots of a loss over one or two inputs, with the answer; and the best settings of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    answer,
    answer_below,
    curve,
    dots,
    finish,
    input_label,
    log_axis,
    need_columns,
    new_axes,
    percent,
    stripe_outside,
    what_is_drawn,
    write,
)
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, written
from jaxlaw._typed import checked
from jaxlaw.data import read_runs
from jaxlaw.errors import UsageError
from jaxlaw.laws import Input, get
from jaxlaw.planning._frame import law_inputs
from jaxlaw.planning._optimise import (
    Question,
    question_of,
    searched_inputs,
    searched_range,
    values_at,
)
from jaxlaw.planning.inputs import Minimum, Solution, minimise, solve
from jaxlaw.planning.settings import (
    BestSettings,
    CriticalBatchSize,
    OptimalInputs,
    critical_batch_size,
    optimal_inputs,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns

_POINTS = 101  # along each setting
_LINE = 201  # along one input under constraints
_LEVELS = (0.25, 0.5, 1, 2, 5, 10)  # contours, in per cent above the lowest loss
_SAME = 0.02  # relative: runs whose N and D differ by less are of the point that is drawn
_SIDE = 61  # points along each of two inputs under constraints
_SCAN = 2001  # points of the whole search, among which those are taken that are drawn
_STEEP = 30.0  # times the least compute, up to which it is drawn
_AROUND = 10.0  # times less and more than runs and answer, where the search has no limit


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
    grid = dict(zip(axes, np.meshgrid(*axes.values()), strict=True))
    losses = _losses_at(source if len(over) == 1 else source.without(), held, grid)
    _logarithmic(ax, specs.values())
    if len(over) == 1:
        said = _line(ax, plan, *over, *axes.values(), losses)
        _dots(ax, source, *over, rows)
    else:
        said = _bowl(ax, plan, grid, 100 * (losses[0] / plan.loss - 1))
        said |= _dots_of_bowl(ax, plan, axes, source, rows)
    return _finished(ax, source, specs.values(), said)


@checked
def minimum(
    fit: Any,
    over: Mapping[str, Any],
    ax: Axes | None = None,
    *,
    subject_to: Sequence[Any] = (),
    at: Mapping[str, float | str] | None = None,
    answer: Minimum | None = None,
) -> Axes:
    """The lowest loss, or the least compute, over what is searched, under its constraints.

    Of one input, or of N and D that a budget ties together, a curve: with a budget that of runs of
    equal compute. Of more, contours over the first two, the others at their best: how far the loss
    lies above the lowest, in per cent. Shaded is what lies within the ``tolerance`` of the answer;
    where a constraint is broken nothing is drawn; striped is what lies beyond the fitted runs.

    Args:
        fit, over, subject_to, at: as :func:`jaxlaw.planning.minimise` takes them.
        ax: axes to draw on; a new figure if None.
        answer: answer of that; it is made where None.

    Raises:
        UsageError: as ``minimise``; or a limit alone determines all that is searched.

    Example:
        >>> from jaxlaw import plots
        >>> fit, budget = jl.published()["besiroglu-2024"], jl.planning.Budget(1e21)
        >>> over = {"N": None, "D": None}
        >>> plots.minimum(fit, over, subject_to=[budget]).get_xlabel()
        'model parameters N'
    """
    plan = answer or minimise(fit, over, subject_to=subject_to, at=at)
    question, ax = question_of(fit, over, subject_to, at), ax or new_axes()
    source, names = question.reference, question.form.free[:2]
    specs = searched_inputs(source, names or _none_left(over))
    sides = (_coordinates(question, plan, specs[name], over[name]) for name in names)
    of_compute = question.form.law is None
    _logarithmic(ax, specs.values())
    if not np.isfinite(least := plan.compute if of_compute else plan.loss):
        said = {"no values keep all limits": True}
        ax.set_xlim(_range_shown(source, specs[names[0]], over[names[0]]))
    elif len(names) == 1:
        line = np.linspace(*next(sides), _LINE)
        values, at_points = _values_over(question, question.params, line)
        said = _line(ax, plan, names[0], at_points[names[0]], values)
    else:
        grid = np.meshgrid(*(np.linspace(*side, _SIDE) for side in sides))
        values, at_points = _values_over(question, _of_the_fit(question), *grid)
        above = 100 * (values[0] / least - 1)
        said = _bowl(ax, plan, {name: at_points[name] for name in names}, above)
    said |= {f"binding: {plan.binding}": plan.binding != "none"}
    return _finished(ax, source, specs.values(), said, "compute (FLOPs)" if of_compute else "")


def _none_left(over: Mapping[str, Any]) -> tuple[str, ...]:
    raise UsageError(f"a limit determines {', '.join(over)}: there is nothing to draw over")


def _of_the_fit(question: Question) -> Any:
    """The parameters of each law without its draws."""
    return tuple({name: v[:1] for name, v in own.items()} for own in question.params)


def _coordinates(question: Question, plan: Minimum, spec: Input, given: Any) -> tuple[float, float]:
    """The part of a coordinate of the search that is drawn, in [0, 1]."""
    scan = np.linspace(0, 1, _SCAN)
    here = [scan if name == spec.name else None for name in question.form.free]
    _, at_points = _values_over(question, _of_the_fit(question), *here)
    low, high = _range_shown(question.reference, spec, given, plan.best[spec.name])
    shown = scan[(at_points[spec.name] >= low) & (at_points[spec.name] <= high)]
    return (shown[0], shown[-1]) if len(shown) > 1 else (0.0, 1.0)


def _values_over(question: Question, params: Any, *coordinates: Any) -> tuple[Any, dict[str, Any]]:
    """What is least, (draws, …), and input → (…) values in the units of the runs.

    Args:
        question: what is searched.
        params: parameters of each law, (draws,).
        *coordinates: (…) of each coordinate of the search; None, or left out, at its best.
    """
    best = question.best().point[:, 0]
    shape = next(np.shape(each) for each in coordinates if each is not None)
    points = np.tile(np.asarray(best)[0], (int(np.prod(shape)), 1))
    for k, each in enumerate(coordinates):
        if each is not None:
            points[:, k] = np.ravel(each)
    values, raw = values_at(question.form, params, question.given, points)
    values = np.where(np.isfinite(values), values, np.nan).reshape(-1, *shape)
    scale = question.reference.scale
    return values, {n: np.asarray(raw[n])[0].reshape(shape) / scale(n) for n in raw}


def _range_shown(
    source: Draws, spec: Input, given: Any, *at: float, argument: str = "over"
) -> tuple[float, float]:
    """The values of an input that are drawn: around runs and answer where nothing limits it."""
    span, scale = searched_range(source, spec, given, argument), source.scale(spec.name)
    low, high = (end / scale for end in span.raw)
    near = [x for x in (*at, *source.ranges.get(spec.name, ())) if np.isfinite(x) and x > 0]
    if near and span.log:
        low = max(low, min(near) / _AROUND) if span.open[0] else low
        high = min(high, max(near) * _AROUND) if span.open[1] else high
    return low, high


@checked
def solution(
    fit: Any,
    for_: str,
    loss: float,
    ax: Axes | None = None,
    *,
    between: Any = None,
    at: Mapping[str, float | str] | None = None,
    runs: Any = None,
    answer: Solution | None = None,
) -> Axes:
    """The loss over one input, and the value at which it is the one to be reached.

    Args:
        fit, for_, loss, between, at: as :func:`jaxlaw.planning.solve` takes them.
        ax: axes to draw on; a new figure if None.
        runs: runs, as :func:`jaxlaw.read_runs` takes or returns them; drawn are those of the same
            other inputs.
        answer: answer of :func:`jaxlaw.planning.solve`; it is made where None.

    Raises:
        UsageError: as ``solve``.

    Example:
        >>> from jaxlaw import plots
        >>> fit = jl.published()["besiroglu-2024"]
        >>> plots.solution(fit, "D", 2.1, at={"N": 7e9}).get_ylabel()
        'loss (nats)'
    """
    plan = answer or solve(fit, for_, loss, between=between, at=at)
    (source,), ax = as_draws(fit), ax or new_axes()
    ((_, spec),) = searched_inputs(source, (for_,), "for_").items()
    low, high = _range_shown(source, spec, between, plan.value, argument="between")
    log = spec.domain != "fraction" and low > 0
    x = (np.geomspace if log else np.linspace)(low, high, _LINE)
    held = source.inputs_taken(at or {})
    _logarithmic(ax, [spec])
    said = _curve_of_draws(ax, x, _losses_at(source, held, {for_: x}))
    _dots(ax, source, for_, None if runs is None else _of_this_point(source, runs, held))
    ax.axhline(loss, color=RED, linewidth=0.9, linestyle=":", zorder=1)
    target = f"loss {plan.written('loss')}"
    beside = {"xycoords": ("axes fraction", "data"), "xytext": (4, 3), "color": RED}
    write(ax, target, (0, loss), **beside)
    if np.isfinite(plan.value):
        if limits := plan.interval.get(for_):
            ax.hlines(loss, *limits, color=RED, linewidth=1.6, zorder=3)
        answer_below(ax, plan.value, loss, f"{for_} {plan.written(for_)}")
    else:
        said["never reached"] = True
    return _finished(ax, source, [spec], said)


def _logarithmic(ax: Axes, specs: Iterable[Input]) -> None:
    """Scales of inputs, before what is drawn: labels cut contours in the scale they find."""
    for side, spec in zip("xy", specs, strict=False):
        ax.set(**{f"{side}scale": "linear" if spec.domain == "fraction" else "log"})


def _finished(
    ax: Axes, source: Draws, specs: Iterable[Input], said: dict[str, Any], label: str = ""
) -> Axes:
    """Scales, stripes, labels and the title; the label, or a loss, is of what is drawn over one."""
    specs, unit = list(specs), source.fit.target_unit
    said["striped: beyond the runs"] = _frame(ax, source, specs)
    labels = [*map(input_label, specs), label or (f"loss ({unit})" if unit else "loss")]
    return finish(ax, *labels[:2], what_is_drawn(said))


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


@checked
def larger_batches(
    fit: Any,
    ax: Axes | None = None,
    *,
    at: Mapping[str, float | str] | None = None,
    overhead: float = 0.2,
    answer: CriticalBatchSize | None = None,
) -> Axes:
    """The tokens and the steps to a loss over the batch, each at the best rate for it.

    Both are multiples of those at the best batch. Dotted are the steps if a larger batch cost no
    tokens; striped is what lies beyond the batches of the runs.

    Args:
        fit, at, overhead: as :func:`jaxlaw.planning.critical_batch_size` takes them.
        ax: axes to draw on; a new figure if None.
        answer: answer of that; it is made where None.

    Raises:
        UsageError: as ``critical_batch_size``.

    Example:
        >>> from jaxlaw import plots
        >>> fit = ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"])
        >>> plots.larger_batches(fit, at={"N": 7e9, "D": 1e12}).get_xlabel()
        'tokens a step batch'
    """
    plan = answer or critical_batch_size(fit, at=at, overhead=overhead)
    (source,), ax = as_draws(fit), ax or new_axes()
    (spec,) = searched_inputs(source, ("batch",)).values()
    ax.set(xscale="log", yscale="log")
    rows = plan.table[np.isfinite(plan.table["batch"])]
    x = rows["batch"].to_numpy()
    ends = []
    if len(x) > 1:
        rows = {"tokens": 1 + rows["overhead"], "steps": rows["steps"] / plan.best_steps}
        ends = [curve(ax, rows, x, y, color, y) for y, color in (("tokens", BLUE), ("steps", INK))]
        ax.plot(x, x[0] / x, color=INK, linestyle=":", linewidth=0.9)
        ax.set(xlim=(x[0] / 1.5, x[-1] * 1.5), ylim=(None, 4.0))
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.yaxis.set_minor_locator(NullLocator())
    if np.isfinite(plan.batch):
        if limits := plan.interval.get("batch"):
            ax.hlines(1 + plan.overhead, *limits, color=RED, linewidth=1.6, zorder=3)
        named = [name for name in ("batch", "lr", "steps") if name in plan.quantities]
        text = "\n".join(f"{name} {plan.written(name)}" for name in named)
        answer_below(ax, plan.batch, 1 + plan.overhead, text)
    striped = "; striped: beyond the runs" * _frame(ax, source, [spec])
    title = f"to the loss {plan.written('loss')}\ndotted: steps if tokens stayed the same{striped}"
    return finish(ax, input_label(spec), "relative to the best batch", title, ends)


def _frame(ax: Axes, source: Draws, specs: Iterable[Input]) -> bool:
    """Scales of the axes, and stripes beyond the runs; whether there are any."""
    striped = False
    for side, spec in zip("xy", specs, strict=False):
        axis = ax.xaxis if side == "x" else ax.yaxis
        if spec.domain == "fraction":
            axis.set_major_formatter(percent)
        else:
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


def _dots(ax: Axes, source: Draws, name: str, rows: pd.DataFrame | None) -> None:
    if rows is not None:
        dots(ax, rows[name], rows[source.law.target], color=INK)


def _curve_of_draws(ax: Axes, x: np.ndarray, losses: np.ndarray) -> dict[str, Any]:
    """A curve of (1 + R, points) losses; whether it has a band."""
    columns = interval_columns("loss", losses, LEVEL)
    curve(ax, columns, x, "loss", BLUE)
    ax.set_xlim(x[0], x[-1])
    return {f"band: {LEVEL:.0%} of draws": "loss_low" in columns}


def _line(ax: Axes, plan: Minimum, name: str, x: np.ndarray, losses: np.ndarray) -> dict[str, Any]:
    """What is least over one input, (1 + R, points), and the range that is nearly as good."""
    said = _curve_of_draws(ax, x, losses)
    if name in plan.near:
        ax.axvspan(*plan.near[name], color=BLUE, alpha=0.1, linewidth=0, zorder=0)
    if np.isnan(plan.loss):  # compute, which grows without limit where the loss is out of reach
        ax.set_ylim(plan.compute / 1.2, min(np.nanmax(losses[0]), _STEEP * plan.compute))
        log_axis(ax.yaxis, words=False)
    _mark(ax, plan, name, plan.compute if np.isnan(plan.loss) else plan.loss)
    return {f"shaded: {100 * plan.tolerance:.3g} % above the lowest": name in plan.near} | said


def _bowl(
    ax: Axes, plan: Minimum, grid: Mapping[str, np.ndarray], above: np.ndarray
) -> dict[str, Any]:
    """Contours of how far a loss lies above the lowest, in per cent, over two inputs."""
    x, y = grid.values()
    ax.contourf(x, y, above, levels=[-1e-9, 100 * plan.tolerance], colors=[BLUE], alpha=0.18)
    drawn = ax.contour(x, y, above, levels=_LEVELS, colors=BLUE, linewidths=0.8, alpha=0.7)
    ax.clabel(drawn, fmt=lambda level: f"{level:g} %", fontsize="x-small")
    _mark(ax, plan, *grid)
    return {f"shaded: {100 * plan.tolerance:.3g} % above the lowest": True}


def _dots_of_bowl(
    ax: Axes, plan: Minimum, axes: Mapping[str, np.ndarray], source: Draws,
    rows: pd.DataFrame | None,
) -> dict[str, Any]:  # fmt: skip
    """The runs in the colour of their own loss; whether there are any."""
    if rows is None or not len(rows):
        return {}
    (first, x), (second, y) = axes.items()
    own = 100 * (rows[source.law.target] / plan.loss - 1)
    inside = (rows[first].between(x[0], x[-1]) & rows[second].between(y[0], y[-1])).to_numpy()
    rows, own = rows[inside], np.log10(np.maximum(own[inside], 0.05))
    dots(ax, rows[first], rows[second], c=own, cmap="viridis_r", vmin=-1.0, vmax=1.0, alpha=1,
         s=20, edgecolors=FAINT)  # fmt: skip
    return {"dots: runs, bright low": True}


def _mark(ax: Axes, plan: Minimum, name: str, other: str | float) -> None:
    """The best inputs in words, over one input at a height, or over two."""
    over_one = isinstance(other, float)
    x, y = plan.best[name], other if over_one else plan.best[other]
    reached = [one for one in ("loss", "compute") if np.isfinite(getattr(plan, one))]
    text = "\n".join(f"{one} {plan.written(one)}" for one in (*plan.best, *reached))
    if not over_one:
        answer(ax, x, y, text)
        return
    if name in plan.interval:
        ax.hlines(y, *plan.interval[name], color=RED, linewidth=1.6, zorder=3)
    answer_below(ax, x, y, text)
