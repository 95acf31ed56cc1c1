"""Backtests: forecasts scored against the runs that came later, at cutoffs or once they exist."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE
from jaxlaw._result import Result
from jaxlaw._rounding import ROUNDING, SAME, merged
from jaxlaw._typed import Between, Seed, checked
from jaxlaw.data import ReadingOptions, numbers
from jaxlaw.errors import DataError, UsageError
from jaxlaw.forecasting._question import (
    Question,
    ask,
    draws_each,
    interval_at,
    logs_of,
    named_column,
    probability_below,
    quantiles_of,
)
from jaxlaw.forecasting.posterior import resolve_prior
from jaxlaw.notes import Note

N_CUTOFFS = 6
FEWEST = 3  # runs below the first cutoff
#: Distances of :attr:`Backtest.table`: upper limits of the ratio to the cutoff.
BANDS = (2.0, 5.0, 20.0)
LEVELS = (0.5, 0.8, 0.9, 0.95)
_SHARE = 8  # one in so many of the rows lies below the first cutoff, too
_JITTER = 0.15  # of compute within one budget, in logs

Along = str | Callable[[pd.DataFrame], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Backtest(Result):
    """Forecasts against runs that they had not seen.

    Attributes:
        frame: one row a forecast and a later run: ``forecast`` (its cutoff, number or file),
            ``row`` of the run, ``distance`` (natural log of how many times the largest fitted run
            it is), ``observed``, ``estimate``, ``low``, ``high``, ``error`` (estimate over
            observed, less 1), ``inside`` (whether the interval holds the run) and ``below``
            (probability that the forecast gave to a lower target).
        level: nominal coverage of the intervals.
        target: name of what is predicted.
        along: what the cutoffs are of; empty for forecasts scored against finished runs.
        notes: what to know before relying on the numbers.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> backtest = jl.backtest(runs, cutoffs=3)
        >>> backtest.frame["forecast"].nunique(), backtest.table.columns[:3].tolist()
        (3, ['beyond', 'forecasts', 'runs'])
    """

    picture = "backtest_errors"

    frame: pd.DataFrame
    level: float
    target: str
    along: str
    notes: tuple[Note, ...]

    @property
    def table(self) -> pd.DataFrame:
        """Errors by distance: ``bias`` and ``rmse``, each forecast counting once; ``inside``.

        The runs beyond one cutoff share the errors of one fit, so that the forecast counts and not
        the run.
        """
        labels = [f"up to ×{BANDS[0]:g}"]
        labels += [f"×{a:g} to ×{b:g}" for a, b in itertools.pairwise(BANDS)]
        labels += [f"more than ×{BANDS[-1]:g}"]
        number = np.searchsorted(np.log(BANDS) + SAME, self.frame["distance"])
        rows = []
        for band, group in self.frame.groupby(number):
            error = group["error"].groupby(group["forecast"])
            rows.append({
                "beyond": labels[band], "forecasts": error.ngroups, "runs": len(group),
                "bias": error.mean().mean(),
                "rmse": np.sqrt((group["error"] ** 2).groupby(group["forecast"]).mean().mean()),
                "median": group["error"].abs().median(), "inside": group["inside"].mean(),
            })  # fmt: skip
        return pd.DataFrame(rows)

    @property
    def calibration(self) -> pd.DataFrame:
        """One row a ``level``: fraction of the runs ``inside``; ``std_err``, over the forecasts."""
        off = np.abs(2 * self.frame["below"] - 1)
        rows = []
        for level in LEVELS:
            each = (off <= level).groupby(self.frame["forecast"]).mean()
            rows.append({
                "level": level, "inside": float((off <= level).mean()),
                "std_err": float(each.std() / np.sqrt(len(each))),
            })  # fmt: skip
        return pd.DataFrame(rows)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Errors by distance, then every prediction."""
        return {"table": self.table, **super().tables}

    def shown(self) -> dict[str, pd.DataFrame]:
        """Errors by distance; of few runs each of them."""
        few = self.frame.drop(columns=["row", "below"])
        return {"table": self.table} if len(few) > _FEW else {"frame": few}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a column: errors are relative to the target."""
        return (SHARE, 1.0) if name in ("bias", "rmse", "median", "inside", "error") else None

    @property
    def headline(self) -> str:
        """How many later runs were inside the intervals, and how far off the estimates were."""
        error = self.frame["error"]
        return f"{self.coverage()}, largest {error[error.abs().idxmax()]:+.2%}"

    def coverage(self) -> str:
        """How many later runs were inside the intervals, and the median error, in words."""
        inside, count = int(self.frame["inside"].sum()), len(self.frame)
        forecasts, error = self.frame["forecast"].nunique(), self.frame["error"]
        what = "cutoff" if self.along else "forecast"
        return (
            f"{self.level:.0%} intervals covered {inside} of {count} later run{'s' * (count != 1)} "
            f"at {forecasts} {what}{'s' * (forecasts != 1)}; median error "
            f"{error.abs().median():.2%}"
        )


_FEW = 12  # runs that are shown one by one


@checked
def backtest(
    runs: Any,
    laws: Any = None,
    *,
    along: Along = "compute",
    cutoffs: Any = N_CUTOFFS,
    first: int | None = None,
    groups: Any = None,
    prior: Any = "field",
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    seed: Seed = 0,
    **reading: Unpack[ReadingOptions],
) -> Backtest:
    """Forecast larger runs from those below each cutoff, and compare with what they reached.

    That is evaluation from a rolling origin (Tashman 2000): what the forecast of the runs up to
    each cutoff says of those beyond it. All cutoffs are one call.

    Args:
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        laws: laws to forecast by, as for :func:`jaxlaw.forecast`.
        along: what the cutoffs are of: ``"compute"`` (C in FLOPs, or 6·N·D), a column (``"D"``,
            ``"step"`` for the rest of loss curves, ``"r"`` for mixture ratios), or a function
            of the table of the runs to (n,) numbers.
        cutoffs: number of cutoffs, evenly spread over the log of ``along``; or the largest values
            fitted.
        first: in place of ``cutoffs`` the number of runs that the first forecast is made from: each
            next forecast has one budget more.
        groups: columns whose rows are checkpoints of one run, or a label for each row: a run is
            then beyond a cutoff with all its rows if one is.
        prior, level, seed: prior, level of the intervals and seed, as for :func:`jaxlaw.forecast`.
        **reading: options of :func:`jaxlaw.read_runs`.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry a law, or are too few to be held out.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> backtest = jl.backtest(runs, "chinchilla", cutoffs=[1e20, 1e21])
        >>> bool(backtest.table["rmse"].max() < 0.02)
        True

    Shell:
        jaxlaw backtest runs.csv -c N=n_params,D=n_tokens --cutoffs 3
    """
    asked = ask(runs, laws, groups, reading)
    seen, runs, table = asked.seen, asked.runs, asked.table()
    name = getattr(along, "__name__", "along") if callable(along) else along
    if callable(along):
        z = np.asarray(along(runs.table.iloc[seen.positions]), float)
    elif along == "compute":
        z = np.exp(asked.size(table))
    else:
        column = named_column(runs, along, "along")
        z = numbers(runs.table[column], runs.location(column))[seen.positions]
    if not (np.isfinite(z) & (z >= 0)).all():
        raise DataError(f"{runs.source}: {name} is negative or missing in some rows")
    members = np.arange(len(seen)) if asked.members is None else asked.members
    # A run's value is its largest. Budgets of 6·N·D are equal on paper: a cutoff divides none by
    # its rounding.
    z = merged(pd.Series(z).groupby(members).transform("max"))
    at = _cutoffs(asked, name, z, cutoffs, first)
    active, fitted = seen.weight > 0, z <= at[:, None]
    prior = resolve_prior(prior, seen)
    frames = []
    for k, (draws, *_) in enumerate(draws_each(asked, fitted * seen.weight, prior, seed)):
        rows = np.flatnonzero(~fitted[k] & active)
        logs = logs_of(draws, table)
        quantiles = quantiles_of(logs[:, rows], draws.sigma, seed)
        frames.append(frame_of(
            f"{name} ≤ {at[k]:.3g}", seen.rows[rows], np.log(z[rows] / at[k]), seen.target[rows],
            np.exp(np.median(logs[:, rows], axis=0)), quantiles, level,
        ))  # fmt: skip
    return Backtest(pd.concat(frames, ignore_index=True), level, seen.target_name, name, seen.notes)


def frame_of(
    forecast: str, rows: np.ndarray, distance: np.ndarray, observed: np.ndarray,
    estimate: np.ndarray, quantiles: np.ndarray, level: float,
) -> pd.DataFrame:  # fmt: skip
    """The rows of :attr:`Backtest.frame` of one forecast, from quantiles (265, k) of its runs."""
    low, high = interval_at(quantiles, level)
    return pd.DataFrame({
        "forecast": forecast, "row": rows, "distance": distance, "observed": observed,
        "estimate": estimate, "low": low, "high": high, "error": estimate / observed - 1,
        "inside": (low <= observed) & (observed <= high),
        "below": probability_below(quantiles, observed),
    })  # fmt: skip


def _cutoffs(
    asked: Question, name: str, z: np.ndarray, given: Any, first: int | None
) -> np.ndarray:  # fmt: skip
    """(J,) the largest values fitted, in order: values that runs have.

    Raises:
        UsageError: nothing lies below or beyond one.
        DataError: the runs are too few.
    """
    held = np.sort(z[asked.seen.weight > 0])
    # Budgets that are written with a little jitter are a value each where most of the range (in
    # logs) is gaps between them.
    levels = np.unique(held[held > 0])
    gaps = np.diff(np.log(levels))
    wide = gaps > _JITTER
    if gaps[~wide].sum() <= gaps.sum() / 3:
        levels = levels[np.append(wide, True)]
    if not isinstance(given, int):
        number = np.searchsorted(levels, np.ravel(given) * (1 + ROUNDING), side="right")
        if (number == 0).any() or (number == len(levels)).any():
            raise UsageError(
                f"no run lies below one of the cutoffs, or none beyond: {name} of the runs is "
                f"{levels[0]:.6g} to {levels[-1]:.6g}"
            )
        return np.unique(levels[number - 1])
    below = np.searchsorted(held, levels, side="right")
    least = first or max(FEWEST, len(held) // _SHARE)
    allowed = levels[(below >= least) & (below < len(held))]
    if not len(allowed):
        raise DataError(
            f"{asked.runs.source}: no {name} has {least} runs below it and some beyond: "
            f"{len(held)} runs with {len(levels)} values are too few to be held out in turn"
        )
    if first:
        return allowed
    targets = np.geomspace(allowed[0], allowed[-1], given)
    return np.unique([allowed[np.argmin(np.abs(np.log(allowed / one)))] for one in targets])
