"""Plots of uncertainty: intervals of the parameters, the profile of one of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import stdtrit

from jaxlaw._answer import Answer, picture
from jaxlaw._arrays import LEVEL
from jaxlaw._axes import BLUE, FAINT, RED, curve, dots, finish, need_columns, new_axes, write
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.uncertainty import Bootstrap, Covariance, Draws


@checked
def parameter_intervals(
    intervals: Bootstrap | Covariance | Draws | pd.DataFrame,
    ax: Axes | None = None,
    *,
    level: float = LEVEL,
) -> Axes:
    """Parameters with their intervals, relative to the estimate, so that they share an axis.

    An interval many times as long as the others would flatten them all: the axis ends before it
    does. The numbers on the right are always those of the whole interval.

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
        '90% intervals, from the estimate'
    """
    table = intervals if isinstance(intervals, pd.DataFrame) else intervals.conf_int(level)
    need_columns(table, ("parameter", "estimate", "low", "high"), "conf_int()")
    table = table[np.isfinite(table[["low", "high"]]).all(axis=1) & (table["estimate"] != 0)]
    if table.empty:
        raise UsageError("no parameter has a finite interval around an estimate other than 0")
    ax = ax or new_axes()
    # Parameters differ by orders of magnitude: intervals are drawn in per cent of the estimate.
    # One that is much wider than the others (8 times the median) goes on beyond the axis.
    rows = np.arange(len(table))[::-1]
    scale = 100 / table["estimate"].abs()
    low, high = ((table[end] - table["estimate"]) * scale for end in ("low", "high"))
    longest = np.maximum(low.abs(), high.abs())
    reach = float(longest[longest <= 8 * longest.median()].max()) or 1.0
    ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    ax.hlines(rows, low, high, color=BLUE, linewidth=3, alpha=0.55)
    ax.set_xlim(-1.08 * reach, 1.08 * reach)
    dots(ax, np.zeros(len(rows)), rows, color=BLUE, s=30, alpha=1, zorder=3)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_yticks(rows, table["parameter"])
    for row, one in zip(rows, table.itertuples(), strict=True):
        text = f"{one.estimate:.4g}  ({one.low:.4g} to {one.high:.4g})"
        write(ax, text, (1, row), xycoords=("axes fraction", "data"), xytext=(6, 0), va="center")
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter("{x:+g}%")
    ax.tick_params(left=False)
    return finish(ax, f"{level:.0%} intervals, from the estimate", "")


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
    write(ax, str(profile.quantities[profile.quantity]), (profile.estimate, 0.97),
          xycoords=("data", "axes fraction"), ha="center", va="top", fontsize="medium")  # fmt: skip
    label = "standard errors from the optimum"
    return finish(ax, f"{profile.quantity}, fixed", label, end_labels=end_labels)
