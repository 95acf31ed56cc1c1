"""Runs of equal compute: the loss over the size, a curve for each budget, and its lowest point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from jaxlaw._answer import Answer
from jaxlaw._axes import (
    INK,
    VEIL,
    answer,
    count_in_words,
    dots,
    finish,
    log_axis,
    new_axes,
    power_of_ten,
    shades,
    stripe_outside,
    what_is_drawn,
    with_interval,
    write,
)
from jaxlaw._jit import in_float64
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.data import read_runs
from jaxlaw.errors import UsageError
from jaxlaw.fitting import runs_for
from jaxlaw.planning._frame import law_inputs
from jaxlaw.planning.size_and_data import frontier
from jaxlaw.uncertainty import LEVEL, Draws, as_draws

_Flops = Annotated[float, Between(0, strict=True, must="a positive number of FLOPs")]
_GAP = 1.15  # between the computes of two runs: above it they are of two budgets
_LEAST = 3  # runs of a budget: fewer have no parabola
_WIDE = 2.0  # ratio of computes within a budget: above it the runs are of no budget
_CURVES = 5  # budgets that are drawn of a fit alone
_SIZES = 120  # of a curve


class _Budget(NamedTuple):
    """A budget and its runs: FLOPs, sizes (k,) in single parameters, losses (k,)."""

    compute: float
    N: np.ndarray
    loss: np.ndarray


class _Lowest(NamedTuple):
    """The lowest point of a budget: size, loss, interval of the size; whether among its runs."""

    N: float
    loss: float
    interval: tuple[float, float] | None = None
    inside: bool = True


class _Curve(NamedTuple):
    """A budget, its lowest point, and the curve: sizes and losses (K,)."""

    budget: _Budget
    lowest: _Lowest | None
    N: np.ndarray
    loss: np.ndarray


@checked
def isoflops(
    runs: Any,
    ax: Axes | None = None,
    *,
    fit: Any = None,
    computes: Sequence[_Flops] | None = None,
    mark: Answer | None = None,
    level: ConfidenceLevel = LEVEL,
    **options: Any,
) -> Axes:
    """Loss over the size, a curve for each budget, with the best size (Hoffmann 2022, figure 3).

    Of runs alone each curve is a parabola over log N, fitted to the runs of the budget. The bar at
    its lowest point is the interval of the best size by the parabola's covariance and Student's t;
    a lowest point outside of its runs has none, and is drawn hollow: it is a bound, no estimate.
    With a fit the curves are the law's, and the bars go over its draws.

    Args:
        runs: runs of several budgets, as :func:`jaxlaw.read_runs` takes or returns them, with
            N, D and loss; None with ``fit`` draws the law alone. Runs whose 6·N·D is the same
            within 15 % are of one budget.
        ax: axes to draw on; a new figure if None.
        fit: Fit, (law, params), bootstrap or forecast, for curves of the law.
        computes: budgets in FLOPs, with ``fit``; None takes those of the runs, or five over the
            fitted range.
        mark: answer of :func:`jaxlaw.planning.allocation` by the fit: its budget is one more
            curve, and its size is marked.
        level: confidence level of the intervals.
        **options: options of :func:`jaxlaw.planning.frontier`, with ``fit``.

    Raises:
        UsageError: neither runs nor a fit, or no three runs are of one budget.

    Example:
        >>> from jaxlaw import plots
        >>> law = jl.published()["hoffmann-2022"]
        >>> C, N = np.meshgrid([1e19, 1e20, 1e21], [2e8, 5e8, 1e9, 2e9, 5e9])
        >>> runs = {"N": N.ravel(), "D": (C / (6 * N)).ravel()}
        >>> runs["loss"] = law.predict(**runs)
        >>> plots.isoflops(pd.DataFrame(runs)).get_xlabel()
        'model parameters N'
    """
    if fit is not None:
        curves = _curves_of_law(fit, runs, computes, mark, level, options)
    else:
        _refuse_plans(computes, mark, options)
        curves = [_parabola(budget, level) for budget in _by_budget(runs)]
    ax = ax or new_axes()
    for one, color in zip(curves, shades(len(curves)), strict=True):
        dots(ax, one.budget.N, one.budget.loss, color=[color], s=16)
        ax.plot(one.N, one.loss, color=color, linewidth=1.4)
        name, start = power_of_ten(float(f"{one.budget.compute:.2g}")), (one.N[0], one.loss[0])
        write(ax, name, start, color=color, fontsize="x-small", xytext=(-2, 3), ha="right",
              bbox=VEIL)  # fmt: skip
    lowest = [one.lowest for one in curves]
    _draw_lowest(ax, lowest, shades(len(curves)))
    ax.margins(x=0.11, y=0.05 if mark is None else 0.12)  # names lie on the left
    log_axis(ax.xaxis)
    sizes = np.concatenate([one.budget.N for one in curves])
    striped = len(sizes) > 0 and stripe_outside(ax, sizes.min(), sizes.max(), "")
    if mark is not None:
        _mark(ax, as_draws(fit)[0], mark)
    title = _title(lowest, level, striped)
    return finish(ax, "model parameters N", "loss (nats)", title)


def _refuse_plans(computes: Any, mark: Any, options: dict[str, Any]) -> None:
    if computes is not None or mark is not None or options:
        raise UsageError("isoflops: computes, mark and options of frontier need fit=")


def _title(lowest: Sequence[_Lowest | None], level: float, striped: bool) -> str:
    """What the marks of the picture are."""
    known = [best for best in lowest if best is not None]
    said = {
        "each curve a budget in FLOPs": True,
        f"bars: {level:.0%} of the best size": any(best.interval for best in known),
        "hollow: beyond its runs": not all(best.inside for best in known),
        "striped: beyond the runs": striped,
    }
    return what_is_drawn(said)


def _by_budget(runs: Any) -> list[_Budget]:
    """The runs by their budgets, the cheapest first; raises UsageError where there are none."""
    if runs is None:
        raise UsageError("isoflops: give runs, or fit= for curves of a law")
    observed = read_runs(runs).observations("chinchilla", free=())
    if budgets := _budgets(observed.inputs["N"], observed.inputs["D"], observed.target):
        return budgets
    raise UsageError(
        "isoflops: no three runs of different sizes N have the same 6·N·D: these are no runs "
        "of equal compute; give fit= for curves of a law"
    )


def _budgets(N: np.ndarray, D: np.ndarray, loss: np.ndarray) -> list[_Budget]:
    """Runs of single parameters and tokens by their budgets, where three sizes share one."""
    order = np.argsort(6 * N * D)
    N, compute, loss = N[order], (6 * N * D)[order], loss[order]
    cuts = np.flatnonzero(compute[1:] > _GAP * compute[:-1]) + 1
    parts = zip(*(np.split(values, cuts) for values in (compute, N, loss)), strict=True)
    return [
        _Budget(float(np.exp(np.log(C).mean())), sizes, losses)
        for C, sizes, losses in parts
        if len(np.unique(sizes)) >= _LEAST and C[-1] <= _WIDE * C[0]
    ]


def _curves_of_law(
    fit: Any,
    runs: Any,
    computes: Sequence[float] | None,
    mark: Answer | None,
    level: float,
    options: dict[str, Any],
) -> list[_Curve]:
    """The law at each budget, with the best sizes of the plan."""
    (source,) = as_draws(fit)
    seen = [] if runs is None else _budgets_of_fit(source, runs)
    wanted = [one.compute for one in seen] if computes is None else list(computes)
    wanted = wanted or list(_computes_of_ranges(source))
    wanted += [] if mark is None else [mark.compute]
    budgets = [_near(C, seen) for C in sorted(filter(np.isfinite, dict.fromkeys(wanted)))]
    plan = frontier(fit, [one.compute for one in budgets], level=level, **options)
    rows = plan.table.to_dict("records")
    return [
        _of_law(source, one, row, options.get("at")) for one, row in zip(budgets, rows, strict=True)
    ]


def _budgets_of_fit(source: Draws, runs: Any) -> list[_Budget]:
    """The runs of a fit by their budgets."""
    observed = runs_for(source, runs).observations(source.law, free=())
    single = {spec.name: spec.unit for spec in source.law.inputs}
    raw = (observed.inputs[name] * single[name] for name in ("N", "D"))
    return _budgets(*raw, observed.target)


def _near(compute: float, seen: Sequence[_Budget]) -> _Budget:
    """The runs of a budget, under its own number of FLOPs; none where nobody ran it."""
    for one in seen:
        if abs(np.log(one.compute / compute)) < np.log(_GAP):
            return one._replace(compute=compute)
    return _Budget(compute, np.empty(0), np.empty(0))


def _computes_of_ranges(source: Draws) -> np.ndarray:
    """Budgets over the fitted range."""
    N, D = (np.array(source.ranges.get(name, (np.nan, np.nan))) for name in ("N", "D"))
    ends = 6 * N * D * source.scale("N") * source.scale("D")
    if not np.isfinite(ends).all():
        raise UsageError(
            "isoflops: the law has no fitted ranges to take budgets from; give computes="
        )
    return np.geomspace(*ends, _CURVES)


def _parabola(budget: _Budget, level: float) -> _Curve:
    """Least squares of loss = c + b·x + a·x² over x = log N, and its lowest point."""
    centre = np.log(budget.N).mean()
    x = np.log(budget.N) - centre
    design = np.stack([np.ones_like(x), x, x**2], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, budget.loss)
    c, b, a = coefficients
    # A little beyond the runs, so that a lowest point at their end is seen.
    room = 0.08 * np.ptp(x)
    along = np.linspace(x.min() - room, x.max() + room, _SIZES)
    drawn = np.exp(along + centre), c + b * along + a * along**2
    if not a > 0:  # it has a highest point
        return _Curve(budget, None, *drawn)
    at = -b / (2 * a)
    if not x.min() <= at <= x.max():  # the lowest run is a bound, the vertex a guess
        k = int(np.argmin(budget.loss))
        last = _Lowest(float(budget.N[k]), float(budget.loss[k]), inside=False)
        return _Curve(budget, last, *drawn)
    best, degrees = _Lowest(float(np.exp(at + centre)), float(c - b**2 / (4 * a))), len(x) - 3
    if degrees > 0:
        residual = budget.loss - design @ coefficients
        covariance = np.linalg.inv(design.T @ design) * (residual @ residual / degrees)
        gradient = np.array([0.0, -1 / (2 * a), b / (2 * a**2)])
        half = stats.t.ppf((1 + level) / 2, degrees) * np.sqrt(gradient @ covariance @ gradient)
        best = best._replace(interval=(best.N * np.exp(-half), best.N * np.exp(half)))
    return _Curve(budget, best, *drawn)


def _of_law(source: Draws, budget: _Budget, best: dict[str, float], at: Any) -> _Curve:
    """The law at a budget, around its best size and over the runs of the budget."""
    scale = source.scale("N")
    lowest = _Lowest(best["N"] * scale, best["loss"])
    if "N_low" in best:
        lowest = lowest._replace(interval=(best["N_low"] * scale, best["N_high"] * scale))
    sizes = [*budget.N, lowest.N / 8, lowest.N * 8]
    N = np.geomspace(np.nanmin(sizes), np.nanmax(sizes), _SIZES)
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    given = dict(at or {}) | ({"r": best["r"]} if "r" in best else {})
    fixed = law_inputs(source, given, ("N", "D"))
    point = {name: values[0] for name, values in source.values.items()}
    with in_float64():
        loss = source.law.evaluate(
            point, N=N / unit["N"], D=budget.compute / (6 * N) / unit["D"], **fixed
        )
    return _Curve(budget, lowest if np.isfinite(best["N"]) else None, N, np.asarray(loss, float))


def _draw_lowest(ax: Axes, lowest: Sequence[_Lowest | None], colors: Sequence[Any]) -> None:
    """The lowest points with their intervals, and the path through them."""
    known = [best for best in lowest if best is not None and best.inside]
    ax.plot([b.N for b in known], [b.loss for b in known], color=INK, linewidth=0.9,
            linestyle="--", zorder=2)  # fmt: skip
    for best, color in zip(lowest, colors, strict=True):
        if best is None:
            continue
        face = color if best.inside else "white"
        if best.interval is not None:
            ax.plot(best.interval, [best.loss] * 2, color=color, linewidth=4, alpha=0.4,
                    solid_capstyle="butt", zorder=3)  # fmt: skip
        ax.scatter([best.N], [best.loss], s=34, facecolor=[face], edgecolor=[color], marker="D",
                   zorder=4)  # fmt: skip


def _mark(ax: Axes, source: Draws, plan: Answer) -> None:
    """The answer of a plan, where it has one."""
    if not np.isfinite(plan.N):
        return
    scale = source.scale("N")
    N = count_in_words(plan.N * scale)
    if (interval := plan.interval.get("N")) is not None:
        N += f" ({' to '.join(count_in_words(end * scale) for end in interval)})"
    text = f"{N}\n{count_in_words(plan.D * source.scale('D'))} tokens, loss "
    text += with_interval(plan.loss, plan.interval.get("loss"), ".4g")
    answer(ax, plan.N * scale, plan.loss, text, zorder=5, xytext=(-8, -6), va="top", ha="right")
