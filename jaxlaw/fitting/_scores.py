"""How a law with given parameters does on runs: errors of its predictions, run by run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, get_args

import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE, Quantity, written
from jaxlaw._result import Result
from jaxlaw.fitting._objective import LARGEST_DELTA, metrics
from jaxlaw.fitting._runs_of_fit import runs_for
from jaxlaw.laws import Law
from jaxlaw.notes import Note

Metric = Literal[
    "r2", "rmse", "huber_linear", "mean_huber_linear",
    "r2_log", "rmse_log", "huber", "mean_huber",
]  # fmt: skip
METRICS: tuple[Metric, ...] = get_args(Metric)
RelativeError = Literal[
    "mean_relative_error", "mean_absolute_relative_error", "max_absolute_relative_error"
]
#: Columns of the table of :class:`Scores` that every law has.
_COLUMNS = {"predicted": float, "residual": float, "relative_error": float, "outside": bool}


class Predictor(Protocol):
    """What can be scored: a law that knows its units and predicts in them."""

    law: Law
    units: dict[str, float]
    delta: float

    def predict(self, table: Any = None, /, **inputs: Any) -> np.ndarray: ...

    def is_extrapolation(self, table: Any = None, /, **inputs: Any) -> np.ndarray: ...


class WithMetrics:
    """What has ``metrics``: the numbers read most have a name of their own."""

    metrics: dict[str, float]

    @property
    def r2(self) -> float:
        """R² in the target."""
        return self.metrics["r2"]

    @property
    def rmse(self) -> float:
        """Root mean square error in the target."""
        return self.metrics["rmse"]

    @property
    def mean_huber(self) -> float:
        """Huber loss of log residuals per observation."""
        return self.metrics["mean_huber"]


def accuracy_line(metrics: Mapping[str, float]) -> str:
    """R² and RMSE as a line of a summary; of logarithms where the target has them."""
    line = f"  R² {metrics['r2']:.5f}, RMSE {metrics['rmse']:.4g}"
    if math.isnan(metrics["rmse_log"]):
        return line
    return f"{line}, in log: R² {metrics['r2_log']:.5f}, RMSE {metrics['rmse_log']:.4g}"


@dataclass(frozen=True, eq=False, repr=False)
class Scores(WithMetrics, Result):
    """Predictions beside observations; what :meth:`jaxlaw.Fit.score` returns.

    Attributes:
        law: name of the law.
        source: name of the table that was scored.
        metrics: ``r2``, ``rmse``, ``mean_huber`` and the others of
            :attr:`jaxlaw.Fit.metrics`, and of the relative errors ``mean_relative_error``
            (signed: the bias), ``mean_absolute_relative_error`` and
            ``max_absolute_relative_error``. Means are weighted as the runs are.
        table: one row a run, indexed by what rows are called: the law's inputs in the runs' own
            units, the observed target under its name, ``predicted``, ``residual`` (observed −
            predicted), ``relative_error`` (residual / observed) and ``outside`` (whether the
            run lies outside the fitted ranges).
        notes: findings on the runs.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.0).table
        >>> scores = jl.FittedLaw("chinchilla", jl.simulate.TRUTHS["chinchilla"]).score(runs)
        >>> round(scores.r2, 6), scores.table.columns[-1]
        (1.0, 'outside')
    """

    law: str
    source: str
    metrics: dict[Metric | RelativeError, float]
    table: pd.DataFrame = dataclasses.field(metadata={"index": "row", "columns": _COLUMNS})
    notes: tuple[Note, ...] = ()

    picture = "scored_runs"

    @property
    def relative_error(self) -> float:
        """Mean absolute relative error of the predictions."""
        return self.metrics["mean_absolute_relative_error"]

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The metrics."""
        return self._quantities(self.metrics)

    column_units: ClassVar[Mapping[str, str]] = {
        "mean_relative_error": SHARE, "mean_absolute_relative_error": SHARE,
        "max_absolute_relative_error": SHARE, "relative_error": SHARE,
    }  # fmt: skip

    @property
    def headline(self) -> str:
        """How far the predictions are off, on how many runs."""
        outside = int(self.table["outside"].sum())
        head = (
            f"{self.law} on {self.source}: off by {written(self.relative_error, SHARE)} in the "
            f"mean of {len(self.table)} observations"
        )
        return head + (f", {outside} of them outside the fitted ranges" if outside else "")

    def lines(self) -> list[str]:
        """The scores."""
        return score_lines(self.metrics)


def score_lines(measured: Mapping[str, float]) -> list[str]:
    """Metrics of :func:`measure` as lines for people."""
    of_log = not math.isnan(measured["huber"])
    total, mean = ("huber", "mean_huber") if of_log else ("huber_linear", "mean_huber_linear")
    return [
        accuracy_line(measured),
        f"  relative error: mean {measured['mean_relative_error']:+.3%}, mean absolute "
        f"{measured['mean_absolute_relative_error']:.3%}, largest "
        f"{measured['max_absolute_relative_error']:.3%}",
        f"  Huber of {'log ' if of_log else ''}residuals: sum {measured[total]:.4g}, "
        f"mean {measured[mean]:.4g}",
    ]


def score_fit(fit: Predictor, runs: Any, reading: Mapping[str, Any]) -> Scores:
    """What :meth:`jaxlaw.FittedLaw.score` returns; its docstring has the arguments."""
    read = runs_for(fit, runs, reading)
    seen = read.observations(fit.law, free=())  # nothing is fitted: any number of rows will do
    inputs = {name: values / fit.units[name] for name, values in seen.inputs.items()}
    inputs = fit.law.labelled(inputs)
    predicted, outside = fit.predict(**inputs), fit.is_extrapolation(**inputs)
    of_users = {name: seen.inputs[name] / seen.scale[name] for name in fit.law.inputs_per_row}
    columns = {**of_users, fit.law.target: seen.target, **errors(seen.target, predicted)}
    table = pd.DataFrame({**columns, "outside": outside}, index=pd.Index(seen.rows, name="row"))
    measured = measure(fit.delta, seen.target, predicted, seen.weight)
    return Scores(fit.law.name, seen.source, measured, table, seen.notes)


def errors(observed: np.ndarray, predicted: np.ndarray) -> dict[str, np.ndarray]:
    """Columns ``predicted``, ``residual`` and ``relative_error`` of (n,) observations."""
    residual = observed - predicted
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(observed == 0, np.nan, residual / np.abs(observed))
    return {"predicted": predicted, "residual": residual, "relative_error": relative}


def measure(
    delta: float, observed: np.ndarray, predicted: np.ndarray, weight: np.ndarray
) -> dict[str, float]:
    """The metrics of :class:`Scores`.

    Args:
        delta: Huber threshold.
        observed, predicted, weight: (n,); points of zero weight do not count.
    """
    used = weight > 0
    relative = errors(observed[used], predicted[used])["relative_error"]
    return {
        **metrics(observed, predicted, weight, min(delta, LARGEST_DELTA)),
        "mean_relative_error": float(np.average(relative, weights=weight[used])),
        "mean_absolute_relative_error": float(np.average(np.abs(relative), weights=weight[used])),
        "max_absolute_relative_error": float(np.abs(relative).max()),
    }
