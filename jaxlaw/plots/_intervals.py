"""Plots of uncertainty: intervals of the parameters, the profile of one of them."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import ndtri, stdtrit

from jaxlaw._answer import Answer, picture
from jaxlaw._axes import (
    BLUE,
    FAINT,
    INK,
    RED,
    count_in_words,
    curve,
    dots,
    finish,
    need_columns,
    new_axes,
    power_of_ten,
    what_is_drawn,
    with_interval,
    write,
    write_right,
)
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, number_of
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting import FittedLaw, Prior, field_prior
from jaxlaw.forecasting import Forecast
from jaxlaw.laws import Law, get, without_misfit
from jaxlaw.uncertainty import Bootstrap, Covariance, Draws, as_draws

_OF_A_GROUP = "log of the floor"  # the coordinates of groups that are not listed
_FARTHEST = 6.0  # standard deviations from the prior's mean, up to which values are drawn


@checked
def parameter_intervals(intervals: Any, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
    """Parameters with their intervals, relative to the estimate, so that they share an axis.

    An interval many times as long as the others would flatten them all: the axis ends before it
    does, its line ends in an arrow there, and the axis label says so. The numbers on the right are
    always those of the whole interval.

    Args:
        intervals: :class:`jaxlaw.Bootstrap` or :class:`jaxlaw.uncertainty.Covariance`, or the table
            of their ``conf_int()``.
        ax: axes to draw on; a new figure if None.
        level: confidence level of the intervals, where they are not a table.

    Raises:
        UsageError: there is no such interval.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> plots.parameter_intervals(jl.covariance(fit, runs)).get_xlabel()
        '95% intervals, from the estimate'
    """
    if not isinstance(intervals, pd.DataFrame) and not hasattr(intervals, "conf_int"):
        raise UsageError(
            f"parameter_intervals: intervals is a {type(intervals).__name__}; give what "
            "jl.bootstrap or jl.covariance returned, or the table of its conf_int()"
        )
    table = intervals if isinstance(intervals, pd.DataFrame) else intervals.conf_int(level)
    need_columns(table, ("parameter", "estimate", "low", "high"), "conf_int()")
    table = table[np.isfinite(table[["low", "high"]]).all(axis=1) & (table["estimate"] != 0)]
    if table.empty:
        raise UsageError("no parameter has a finite interval around an estimate other than 0")
    ax = ax or new_axes()
    # Parameters differ by orders of magnitude: intervals are drawn in per cent of the estimate.
    # One that is much wider than the others (8 times the median) is cut and ends in an arrow.
    rows = np.arange(len(table))[::-1]
    scale = 100 / table["estimate"].abs()
    low, high = ((table[end] - table["estimate"]) * scale for end in ("low", "high"))
    longest = np.maximum(low.abs(), high.abs())
    reach = float(longest[longest <= 8 * longest.median()].max()) or 1.0
    ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    ax.hlines(rows, low.clip(-reach), high.clip(upper=reach), color=BLUE, linewidth=3, alpha=0.55)
    ax.set_xlim(-1.08 * reach, 1.08 * reach)
    cut = {"<": (-1.03 * reach, rows[low < -reach]), ">": (1.03 * reach, rows[high > reach])}
    for marker, (tip, those) in cut.items():
        ax.scatter(np.full(len(those), tip), those, marker=marker, color=BLUE, s=28, zorder=3)
    dots(ax, np.zeros(len(rows)), rows, color=BLUE, s=30, alpha=1, zorder=3)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_yticks(rows, table["parameter"])
    for row, one in zip(rows, table.itertuples(), strict=True):
        write_right(ax, f"{one.estimate:.4g}  ({one.low:.4g} to {one.high:.4g})", row)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter(
        lambda value, _: f"{value:+.3g} %".replace("-", "−") if value else "0"
    )
    beyond = "; arrows: the interval goes on" * any(len(those) for _, those in cut.values())
    ax.tick_params(left=False)
    return finish(ax, f"{level:.0%} intervals, from the estimate{beyond}", "")


@checked
@picture("profile")
def objective_profile(profile: Answer, ax: Axes | None = None) -> Axes:
    """How much worse the fit gets as a quantity is fixed elsewhere, and the interval there.

    The height is the root of the profile: standard errors from the optimum, so that the
    dashed lines of the sandwich are straight, and an objective that rises otherwise is not.

    Args:
        profile: profile that :func:`jaxlaw.profile` returned.
        ax: axes to draw on; a new figure if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> fit = jl.fit("chinchilla", runs, n_starts=64)
        >>> profile = jl.profile(fit, runs, "alpha")
        >>> plots.objective_profile(profile).get_xlabel()
        'alpha, fixed'
    """
    ax, table = ax or new_axes(), profile.table.sort_values("value")
    value, root = table["value"].to_numpy(), table["root"].abs()
    straight = np.abs(value - profile.estimate) / profile.std_err
    limit = float(stdtrit(profile.degrees, (1 + profile.level) / 2))
    (between,) = profile.interval.values()
    ax.axvspan(*np.clip(between, value[0], value[-1]), color=RED, alpha=0.08, linewidth=0,
               zorder=0)  # fmt: skip
    ax.axhline(limit, color=RED, linewidth=0.9)
    lines = {"sandwich": straight, "profile": root}
    end_labels = [
        curve(ax, lines, value, "sandwich", FAINT, "sandwich", 1.0, linestyle="--"),
        curve(ax, lines, value, "profile", BLUE, "profile", 1.8),
        (limit, f"{profile.level:.0%}", RED),
    ]
    ax.set(xlim=(value[0], value[-1]), ylim=(0, max(root.max(), straight.max()) * 1.05))
    text = with_interval(profile.estimate, between, ".4g")
    write(
        ax, text, (profile.estimate, 0.97), xycoords=("data", "axes fraction"), ha="center",
        va="top", color=INK, fontsize="medium",
    )  # fmt: skip
    label = "standard errors from the optimum"
    return finish(ax, f"{profile.quantity}, fixed", label, end_labels=end_labels)


@checked
def prior_and_runs(
    made: Prior | FittedLaw | Bootstrap | Covariance | Draws | Forecast,
    ax: Axes | None = None,
    *,
    law: str | None = None,
    prior: Prior | None = None,
    level: float = 0.95,
) -> Axes:
    """What was known of a law before the runs, and what is known with them.

    A row for each coordinate of the prior, which means the same in every experiment: in grey what
    earlier experiments say, in blue what a fit says, where one is given. A short blue line is what
    the runs added, one as long as the grey bar rests on the prior, and one beside it contradicts
    it. Rows share an axis, in standard deviations of the prior; numbers are natural values.

    Args:
        made: a prior alone; or what was made of runs by one law, such as a posterior or a forecast,
            with draws for the length of its lines.
        ax: axes to draw on; a new figure if None.
        law: another law of a prior alone.
        prior: prior that is drawn beside what was made of runs; the field's if None.
        level: confidence level of both.

    Raises:
        UsageError: the prior says nothing of the law.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table.iloc[::40]
        >>> draws = jl.posterior("chinchilla", runs)
        >>> plots.prior_and_runs(draws).get_title()
        'chinchilla; grey: 27 experiments of 8 sources; blue: with these runs'
    """
    own = None if isinstance(made, Prior) else as_draws(made)[0]
    known = prior or (made if own is None else field_prior())
    of = get(law or next(iter(known.means))) if own is None else without_misfit(own.law)
    if not known.knows(of):
        raise UsageError(
            f"the prior says nothing of law {of.name}; it knows {', '.join(known.means)}."
            f"{nearest(of.name, known.means)}"
        )
    ax, names, mean = ax or new_axes(), known.coordinates_of(of), known.mean_of(of)
    spread, width = np.sqrt(np.diag(known.covariance_of(of))), float(ndtri((1 + level) / 2))
    rows = np.arange(len(names))
    ax.hlines(rows, -width, width, color=FAINT, linewidth=13, alpha=0.3)
    before = np.stack([mean - width * spread, mean, mean + width * spread])
    values = before if own is None else _coordinates_of_draws(own, names, level)
    z = np.clip((values - mean) / spread, -_FARTHEST, _FARTHEST)
    reach = max(width, np.abs(z).max())
    color = FAINT if own is None else BLUE
    ax.hlines(rows, z[0], z[2], color=color, linewidth=2.6 * (own is not None), zorder=3)
    dots(ax, z[1], rows, color=[color], s=34, alpha=1, zorder=4)
    # The ends of the prior's bars, and on the right the values, in natural numbers.
    for row, name in enumerate(names):
        (least, _, most), (low, text, high) = (
            [_natural(of, name, value) for value in column[:, row]] for column in (before, values)
        )
        write(ax, least, (-width, row), ha="right", va="center", xytext=(-4, 0), color=FAINT)
        write(ax, most, (width, row), va="center", xytext=(4, 0), color=FAINT)
        text += f"  ({low} to {high})" * (low != high)
        write_right(ax, text, row, color=color)
    ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    ax.set(xlim=(-reach - 1.5, reach + 1.5), ylim=(len(names) - 0.4, -0.6))
    ax.set_yticks(rows, [_coordinate_in_words(of, name) for name in names])
    ax.tick_params(left=False)
    said = {f"{of.name}; grey: {known.rests_on(of)}": True,
            "blue: with these runs": own is not None and own.kind == "posterior",
            "blue: these runs alone": own is not None and own.kind != "posterior"}  # fmt: skip
    label = f"standard deviations of earlier experiments; {level:.0%} intervals"
    return finish(ax, label, "", what_is_drawn(said))


def _coordinates_of_draws(own: Draws, names: tuple[str, ...], level: float) -> np.ndarray:
    """(3, k): lower limit, value and upper limit of every coordinate; alike without draws."""
    with in_float64():
        found = without_misfit(own.law).scale_free.of_params(own.values)
    every = np.array([np.broadcast_to(found[name], own.rows) for name in names]).T
    drawn = every[1:] if own.rows > 1 else every
    limits = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.stack([limits[0], every[0], limits[1]])


def _natural(law: Law, name: str, value: float) -> str:
    """A coordinate as people read it: of log-odds the share, of a log the number."""
    if name.partition("[")[0] == "share":  # of a group share[c4]
        return number_of(1 / (1 + np.exp(-value)), SHARE)
    words = law.scale_free.words.get(name, _OF_A_GROUP)
    return f"{np.exp(value) if words.startswith('log ') else value:.3g}"


def _coordinate_in_words(law: Law, name: str) -> str:
    """What a coordinate is, without its log, in lines, and its name."""
    words = law.scale_free.words.get(name, _OF_A_GROUP)
    if words.startswith("log"):
        words = words.partition(" of the ")[2]
    form = {"C": power_of_ten}
    at = (f"{n} = {form.get(n, count_in_words)(x)}" for n, x in law.scale_free.reference.items())
    known = ", ".join(at).replace(" ", "\N{NO-BREAK SPACE}")
    return textwrap.fill(f"{words.replace('the reference point', known)} ({name})", 32)
