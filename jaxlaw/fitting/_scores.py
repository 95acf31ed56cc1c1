"""Metrics of predictions: of a fit's own runs, of the folds of a study, and of runs made since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._quantities import SHARE, Quantity
from jaxlaw.fitting._objective import LARGEST_DELTA, huber_losses
from jaxlaw.fitting._runs_of_fit import runs_for

if TYPE_CHECKING:
    from jaxlaw.fitting._fitted_law import FittedLaw

Metric = Literal[
    "r2", "rmse", "huber_linear", "mean_huber_linear",
    "r2_log", "rmse_log", "huber", "mean_huber",
]  # fmt: skip
METRICS: tuple[Metric, ...] = get_args(Metric)
#: Metric of a fold → how tables and figures call it: Huber loss of log residuals and of residuals,
#: summed over the points and per point; R² and root mean square error in the target.
SCORES = {
    "huber": "Huber",
    "mean_huber": "mean Huber",
    "huber_linear": "Huber (linear)",
    "mean_huber_linear": "mean Huber (linear)",
    "r2": "R²",
    "rmse": "RMSE",
}


def metrics(
    target: np.ndarray, predicted: np.ndarray, weight: np.ndarray, delta: float
) -> dict[str, np.ndarray]:
    """How well predictions do, in the target and in its logarithm.

    Args:
        target, predicted, weight: (…, n); points of zero weight do not count.
        delta: Huber threshold.

    Returns:
        Name → (…). ``r2``, ``r2_log``, ``rmse``, ``rmse_log``, ``huber`` (the Huber loss of log
        residuals, summed over the points with their weights, as in the tables of Que 2024),
        ``mean_huber`` (the same per unit of weight, which compares sets of different sizes),
        ``huber_linear`` and ``mean_huber_linear`` (of the target's own residuals). R² is NaN
        where the target is constant.
    """
    used, total, found = weight > 0, weight.sum(axis=-1), {}
    share, delta = weight / total[..., None], min(delta, LARGEST_DELTA)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for suffix, name, truth, guess in (
            ("", "huber_linear", target, predicted),
            ("_log", "huber", np.log(target), np.log(predicted)),
        ):
            truth, guess = np.where(used, truth, 0.0), np.where(used, guess, 0.0)
            square = (share * (guess - truth) ** 2).sum(axis=-1)
            middle = (share * truth).sum(axis=-1, keepdims=True)
            spread = (share * (truth - middle) ** 2).sum(axis=-1)
            low = np.where(used, truth, np.inf).min(axis=-1)
            high = np.where(used, truth, -np.inf).max(axis=-1)
            found["r2" + suffix] = np.where(low < high, 1 - square / spread, np.nan)
            found["rmse" + suffix] = np.sqrt(square)
            found[name] = (weight * huber_losses(guess - truth, delta)).sum(axis=-1)
            found[f"mean_{name}"] = found[name] / total
    return found


def score_text(metric: str, value: float) -> str:
    """A score as tables show it; R² of a fold that failed to extrapolate may be anything."""
    if metric.startswith("r2") and not abs(value) >= 1000:
        return f"{value:.4f}"
    return f"{value:.2g}" if metric.startswith("r2") else f"{value:.3g}"


def score_fit(fit: FittedLaw, runs: Any, reading: Mapping[str, Any]) -> Answer:
    """What :meth:`jaxlaw.FittedLaw.score` returns; its docstring has the arguments."""
    read = runs_for(fit, runs, reading)
    seen = read.observations(fit.law, free=())  # nothing is fitted: any number of rows will do
    inputs = {name: values / fit.units[name] for name, values in seen.inputs.items()}
    inputs = fit.law.labelled(inputs)
    observed, predicted = seen.target, fit.predict(**inputs)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(observed == 0, np.nan, (observed - predicted) / np.abs(observed))
    of_users = {name: seen.inputs[name] / seen.scale[name] for name in fit.law.inputs_per_row}
    columns = {
        "row": seen.rows, **of_users, fit.law.target: observed, "predicted": predicted,
        "residual": observed - predicted, "relative_error": relative,
        "outside": fit.is_extrapolation(**inputs),
    }  # fmt: skip
    used, size = seen.weight > 0, np.abs(relative)
    weight = seen.weight[used]
    shares = {
        "mean_absolute_relative_error": np.average(size[used], weights=weight),
        "mean_relative_error": np.average(relative[used], weights=weight),
        "max_absolute_relative_error": size[used].max(),
    }
    measured = metrics(observed, predicted, seen.weight, fit.delta)
    outside = int(np.sum(columns["outside"]))
    sentence = (
        f"{fit.law.name} on {seen.source}: off by {{mean_absolute_relative_error}} in the mean of "
        f"{len(observed)} observations"
    )
    return Answer(
        kind="scores",
        sentence=sentence + f", {outside} of them outside the fitted ranges" * bool(outside),
        quantities={name: Quantity(float(value), SHARE) for name, value in shares.items()}
        | {name: Quantity(float(value)) for name, value in measured.items()},
        tables={"table": pd.DataFrame(columns)},
        units={"relative_error": (SHARE, 1.0)},
        facts={"law": fit.law.name, "source": seen.source},
        notes=seen.notes,
    )
