"""The compute at which models reach a score, by forecasts of it."""

from __future__ import annotations

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
from jaxlaw.forecasting._forecast_scores import forecast_scores
from jaxlaw.notes import Note

_POINTS = 25  # of compute, at which scores are forecast
_COMPUTE = dict.fromkeys(("score", "compute", "compute_low", "compute_high"), float)
_CURVES = dict.fromkeys(("compute", "score", "low", "high"), float)


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
