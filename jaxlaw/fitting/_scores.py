"""How a law with given parameters does on runs: errors of its predictions, run by run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jaxlaw._tables import read_table
from jaxlaw.data._columns import usual_columns
from jaxlaw.data._runs import Runs, read_runs
from jaxlaw.fitting._objective import LARGEST_DELTA, metrics
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw.fitting._result import Fit


@dataclass(frozen=True, eq=False)
class Scores:
    """Predictions beside observations; what :meth:`jaxlaw.Fit.score` returns.

    Attributes:
        law: name of the law.
        source: name of the table that was scored.
        metrics: ``r2``, ``rmse``, ``huber`` and the others of :attr:`jaxlaw.Fit.metrics`, and of
            the relative errors ``mean_relative_error`` (signed: the bias),
            ``mean_absolute_relative_error`` and ``max_absolute_relative_error``. Means are
            weighted as the runs are.
        table: one row a run, indexed by what rows are called: the law's inputs in the runs' own
            units, the observed target under its name, ``predicted``, ``residual`` (observed −
            predicted), ``relative_error`` (residual / observed) and ``outside`` (whether the
            run lies outside the fitted ranges).
        notes: findings on the runs.
    """

    law: str
    source: str
    metrics: dict[str, float]
    table: pd.DataFrame
    notes: tuple[Note, ...] = ()

    @property
    def r2(self) -> float:
        """R² in the target."""
        return self.metrics["r2"]

    @property
    def rmse(self) -> float:
        """Root mean square error in the target."""
        return self.metrics["rmse"]

    @property
    def relative_error(self) -> float:
        """Mean absolute relative error of the predictions."""
        return self.metrics["mean_absolute_relative_error"]

    def summary(self) -> str:
        """The scores as text."""
        outside = int(self.table["outside"].sum())
        head = f"{self.law} on {self.source}: {len(self.table)} observations"
        head += f", {outside} of them outside the fitted ranges" if outside else ""
        lines = [head, *score_lines(self.metrics), *(f"  {note}" for note in self.notes)]
        return "\n".join(lines)


def score_lines(measured: Mapping[str, float]) -> list[str]:
    """Metrics of :func:`measure` as lines for people."""
    return [
        f"  R² {measured['r2']:.5f}, RMSE {measured['rmse']:.4g}, in log: R² "
        f"{measured['r2_log']:.5f}, RMSE {measured['rmse_log']:.4g}",
        f"  relative error: mean {measured['mean_relative_error']:+.3%}, mean absolute "
        f"{measured['mean_absolute_relative_error']:.3%}, largest "
        f"{measured['max_absolute_relative_error']:.3%}",
        f"  Huber of log residuals: sum {measured['huber']:.4g}, mean {measured['mean_huber']:.4g}",
    ]


def score_fit(fit: Fit, runs: Any, reading: Mapping[str, Any], predictor: Any = None) -> Scores:
    """What :meth:`jaxlaw.Fit.score` returns; its docstring has the arguments.

    ``predictor`` predicts in place of the fit, from the same inputs in the same units.
    """
    law = fit if predictor is None else predictor
    read = runs_for(fit, runs, reading)
    seen = read.observations(fit.law, free=())  # nothing is fitted: any number of rows will do
    inputs = {name: values / fit.units[name] for name, values in seen.inputs.items()}
    predicted, outside = law.predict(**inputs), law.outside(**inputs)
    own = {
        name: values / seen.scale[name] for name, values in seen.inputs.items() if values.ndim == 1
    }
    columns = {**own, fit.law.target: seen.target, **errors(seen.target, predicted)}
    table = pd.DataFrame({**columns, "outside": outside}, index=seen.rows)
    measured = measure(fit, seen.target, predicted, seen.weight)
    return Scores(fit.law.name, seen.source, measured, table, seen.notes)


def runs_for(fit: Any, runs: Any, reading: Mapping[str, Any] | None = None) -> Runs:
    """Runs read as those of a fit were, as far as nothing else is said.

    Args:
        fit: a :class:`jaxlaw.Fit`, or what has its law and units.
        runs: what :func:`jaxlaw.read_runs` takes or returns; or Curves, whose areas are counted
            as for the fit.
        reading: what :func:`jaxlaw.read_runs` is told. Columns that are not named there have
            the names that the fitted runs gave them, and units not declared are theirs.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.read_runs` raises.
    """
    reading = dict(reading or {})
    areas = getattr(fit, "areas", None)
    if hasattr(type(runs), "runs") and areas is not None:  # Curves
        runs = runs.runs(**areas)
    if not isinstance(runs, Runs) and not hasattr(type(runs), "runs") and not reading.get("format"):
        runs = read_table(runs, reading.get("name"))
        columns = reading.get("columns") or {}
        if isinstance(columns, Mapping):
            columns = usual_columns(fit, runs.frame, columns, reading.get("corpus"))
        reading["columns"] = columns
    read = read_runs(runs, **reading)
    fitted_in = {spec.name: fit.units[spec.name] * spec.unit for spec in fit.law.inputs}
    return dataclasses.replace(read, units=fitted_in | dict(read.units))


def errors(observed: np.ndarray, predicted: np.ndarray) -> dict[str, np.ndarray]:
    """Columns ``predicted``, ``residual`` and ``relative_error`` of (n,) observations."""
    residual = observed - predicted
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(observed == 0, np.nan, residual / observed)
    return {"predicted": predicted, "residual": residual, "relative_error": relative}


def measure(
    fit: Fit, observed: np.ndarray, predicted: np.ndarray, weight: np.ndarray
) -> dict[str, float]:
    """The metrics of :class:`Scores`.

    Args:
        fit: the fit, for its Huber threshold.
        observed, predicted, weight: (n,); points of zero weight do not count.
    """
    used = weight > 0
    relative = errors(observed[used], predicted[used])["relative_error"]
    return {
        **metrics(observed, predicted, weight, min(fit.delta, LARGEST_DELTA)),
        "mean_relative_error": float(np.average(relative, weights=weight[used])),
        "mean_absolute_relative_error": float(np.average(np.abs(relative), weights=weight[used])),
        "max_absolute_relative_error": float(np.abs(relative).max()),
    }
