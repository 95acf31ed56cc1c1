"""What forecasts of scores are for: the compute that a score takes, and which corpus wins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE, written, written_range
from jaxlaw._result import Result
from jaxlaw._typed import Between, checked
from jaxlaw.data import Runs, missing_column, numbers, read_runs
from jaxlaw.errors import UsageError
from jaxlaw.forecasting._forecast_scores import ScoreForecast, forecast_scores
from jaxlaw.notes import Note

_POINTS = 25  # of compute, at which scores are forecast
_COMPUTE = dict.fromkeys(("score", "compute", "compute_low", "compute_high"), float)
_CURVES = dict.fromkeys(("compute", "score", "low", "high"), float)
_DECISIONS = dict.fromkeys(("by_forecast", "by_largest_run"), float) | {"pairs": int, "clear": int}


@dataclass(frozen=True, eq=False, repr=False)
class ScoreCompute(Result):
    """The compute at which models reach a score.

    Attributes:
        table: one row a task: ``task``; the ``score`` to reach; ``compute`` (FLOPs) at which every
            second new run reaches it; ``compute_low`` and ``compute_high``, at which (1 − level)/2
            and (1 + level)/2 of them do; infinite where that is beyond what was looked at.
        level: as said.
        ratio: tokens a parameter of the models.
        notes: those of the forecast.
        curves: what was looked at, one row a task and compute: ``task``, ``compute``, ``score``,
            and ``low`` and ``high`` between which a share ``level`` of new runs lies.
        largest: compute of the largest run.
    """

    picture = "score_compute"

    column_units: ClassVar[Mapping[str, str]] = {
        "compute": "FLOPs",
        "compute_low": "FLOPs",
        "compute_high": "FLOPs",
    }

    table: pd.DataFrame = field(metadata={"columns": {"task": str} | _COMPUTE})
    level: float = field(metadata={"unit": SHARE})
    ratio: float = field(metadata={"unit": "tokens/parameter", "setting": True})
    notes: tuple[Note, ...]
    curves: pd.DataFrame = field(metadata={"columns": {"task": str} | _CURVES})
    largest: float = field(metadata={"unit": "FLOPs", "setting": True})

    def shown(self) -> dict[str, pd.DataFrame]:
        """The table alone."""
        return {"table": self.table}

    @property
    def headline(self) -> str:
        """The first task that is reached, with its interval."""
        there = self.table[np.isfinite(self.table["compute"])]
        if there.empty:
            return "no score is reached by what was looked at"
        row = there.iloc[0]
        between = written_range(row["compute_low"], row["compute_high"], "FLOPs")
        return (
            f"{row['task']} {row['score']:g} at {written(row['compute'], 'FLOPs')} "
            f"({100 * self.level:g} %: {between}), {self.ratio:.3g} tokens a parameter"
        )


@checked
def compute_for_score(
    runs: Any,
    tasks: Any,
    score: Mapping[str, float] | float,
    *,
    ratio: Annotated[float, Between(1e-3, 1e6)] = 20.0,
    beyond: Annotated[float, Between(1.0, 1e6)] = 1e3,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    **options: Any,
) -> ScoreCompute:
    """The compute at which models of one ratio of tokens to parameters reach a score.

    Args:
        runs, tasks: as :func:`jaxlaw.forecast_scores` takes them, with N and D.
        score: score to reach, a share of 1, or task → score.
        ratio: tokens a parameter.
        beyond: how many times the compute of the largest run is looked at.
        level: share of new runs between the two limits.
        **options: options of :func:`jaxlaw.forecast_scores`: ``groups``, ``columns`` …

    Returns:
        :class:`ScoreCompute`.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.forecast_scores` raises; a task has no score.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> found = jl.forecasting.compute_for_score(
        ...     runs, {"mmlu": ("loss", "acc")}, 0.6, n_starts=64
        ... )
        >>> row = found.table.iloc[0]
        >>> bool(row["compute_low"] < row["compute"] < row["compute_high"])
        True
    """
    reading = {k: options.pop(k) for k in list(options) if k in ("columns", "units", "where")}
    read = read_runs(runs, **reading) if reading or not isinstance(runs, Runs) else runs
    compute = _compute(read)
    grid = np.geomspace(np.median(compute), beyond * compute.max(), _POINTS)
    N = np.sqrt(grid / 6 / ratio)
    at = {"N": N / read.units.get("N", 1.0), "D": ratio * N / read.units.get("D", 1.0)}
    found = forecast_scores(read, tasks, at, level=level, **options)
    rows = []
    for task in found.forecasts:
        goal = score.get(task) if isinstance(score, Mapping) else score
        if goal is None:
            raise UsageError(f"score says nothing of task {task}: score={{'{task}': 0.5}}")
        table = found.table[found.table["task"] == task]
        # What few runs reach already is the lower limit of the compute, and the other way round.
        sides = {"compute": "score", "compute_low": "high", "compute_high": "low"}
        reached = {n: _first(grid, table[column].to_numpy(), goal) for n, column in sides.items()}
        rows.append({"task": task, "score": goal, **reached})
    table = pd.DataFrame(rows, columns=["task", *_COMPUTE])
    curves = found.table.assign(compute=np.tile(grid, len(found.table) // _POINTS))
    curves = curves.loc[curves["score"].notna(), ["task", *_CURVES]].reset_index(drop=True)
    return ScoreCompute(table, level, ratio, found.notes, curves, float(compute.max()))


def _compute(runs: Runs) -> np.ndarray:
    """Compute 6·N·D of the runs in FLOPs."""
    compute = np.array(6.0)
    for name in ("N", "D"):
        if name not in runs.table:
            raise missing_column(name, "", name, runs.table, runs.source)
        column = numbers(runs.table[name], runs.location(name))
        compute = compute * column * runs.units.get(name, 1.0)
    return compute


def _first(compute: np.ndarray, scores: np.ndarray, goal: float) -> float:
    """The compute at which scores (k,) first reach a goal; infinite where they do not."""
    there = np.flatnonzero(scores >= goal)
    if not len(there):
        return np.inf
    k = there[0]
    if k == 0:
        return float(compute[0])
    share = (goal - scores[k - 1]) / (scores[k] - scores[k - 1])
    return float(np.exp(np.log(compute[k - 1]) + share * np.log(compute[k] / compute[k - 1])))


@dataclass(frozen=True, eq=False, repr=False)
class DecisionAccuracy(Result):
    """How often forecasts say which of two corpora has the higher score.

    Attributes:
        table: one row a task: ``task``; ``pairs`` of corpora; those of them that are ``clear``,
            their scores being two standard deviations of a run's noise apart; and the share of the
            pairs that were ranked right, ``by_forecast`` and by the fitted run of the lowest loss,
            ``by_largest_run``; the same of the clear ones (``clear_by_forecast`` …).
        notes: none.
    """

    picture = "decision_accuracy"

    column_units: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("by_forecast", "by_largest_run", "clear_by_forecast", "clear_by_largest_run"), SHARE
    )

    table: pd.DataFrame = field(metadata={"columns": {"task": str} | _DECISIONS})
    notes: tuple[Note, ...] = ()

    @property
    def headline(self) -> str:
        """The shares over all tasks."""
        pairs = self.table["pairs"]
        if not pairs.sum():
            return "no task has a forecast for two corpora"
        ours, largest = (
            (self.table[name] * pairs).sum() / pairs.sum()
            for name in ("by_forecast", "by_largest_run")
        )
        return (
            f"forecasts rank {ours:.0%} of {pairs.sum()} pairs of corpora right, the largest runs "
            f"{largest:.0%}"
        )


@checked
def decision_accuracy(
    forecasts: Mapping[str, ScoreForecast], observed: Mapping[str, Mapping[str, Any]]
) -> DecisionAccuracy:
    """How often forecasts rank corpora as the later runs did, and as the largest runs fitted do.

    That is the decision accuracy of Magnusson 2025 (DataDecide): the share of pairs of corpora
    whose order at the target is foreseen.

    Args:
        forecasts: corpus → forecast of its scores, made from its own runs.
        observed: corpus → task → score, or scores of which the mean counts, of the runs that were
            made at the forecast's points.

    Returns:
        :class:`DecisionAccuracy`.

    Raises:
        UsageError: fewer than two corpora, or a corpus without its observed scores.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> found = {}
        >>> for corpus, better in (("a", 0.0), ("b", 0.1)):
        ...     runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - better - 2.4)))
        ...     found[corpus] = jl.forecast_scores(
        ...         runs, {"mmlu": ("loss", "acc")}, at={"N": 1e10, "D": 4e11}, n_starts=64
        ...     )
        >>> later = {"a": {"mmlu": 0.66}, "b": {"mmlu": 0.70}}
        >>> jl.forecasting.decision_accuracy(found, later).headline
        'forecasts rank 100% of 1 pairs of corpora right, the largest runs 100%'
    """
    if len(forecasts) < 2:
        raise UsageError("name the forecasts of two corpora or more")
    if lacking := [name for name in forecasts if name not in observed]:
        raise UsageError(f"observed lacks corpus {', '.join(lacking)}")
    tasks = dict.fromkeys(task for one in forecasts.values() for task in one.forecasts)
    rows = [{"task": task} | _decisions(task, forecasts, observed) for task in tasks]
    return DecisionAccuracy(pd.DataFrame(rows))


def _decisions(
    task: str, forecasts: Mapping[str, ScoreForecast], observed: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The numbers of one task."""
    made = [name for name, one in forecasts.items() if task in one.forecasts]
    seen = [_seen(forecasts[name], task, observed[name][task]) for name in made]
    ours, largest, truth, noise = map(np.array, zip(*seen, strict=True))
    a, b = np.array(list(itertools.combinations(range(len(made)), 2))).reshape(-1, 2).T
    apart = truth[a] - truth[b]
    clear = np.abs(apart) > 2 * np.hypot(noise[a], noise[b])
    row: dict[str, Any] = {"pairs": len(a), "clear": int(clear.sum())}
    for way, by in (("by_forecast", ours), ("by_largest_run", largest)):
        right = np.sign(by[a] - by[b]) == np.sign(apart)
        row[way] = right.mean() if len(a) else np.nan
        row[f"clear_{way}"] = right[clear].mean() if clear.any() else np.nan
    return row


def _seen(one: ScoreForecast, task: str, observed: Any) -> tuple[float, float, float, float]:
    """Score by the forecast, by the fitted run of the lowest loss, as observed; and its noise."""
    forecast = one.table.loc[one.table["task"] == task, "score"].mean()
    runs = one.observed[task]
    final = runs["final"] > 0
    largest = runs["score"][final][np.argmin(runs["loss"][final])]
    scores = np.atleast_1d(np.asarray(observed, float))
    return forecast, largest, scores.mean(), one.noise[task] / np.sqrt(len(scores))
