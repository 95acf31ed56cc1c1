"""How tables and figures show metrics of predictions, and those of runs made since a fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._quantities import SHARE, Quantity
from jaxlaw.fitting._objective import metrics
from jaxlaw.fitting._runs_of_fit import runs_for

if TYPE_CHECKING:
    from jaxlaw.fitting._fitted_law import FittedLaw

#: Metrics of a fold: Huber loss of log residuals and of residuals, summed over the points and per
#: point; R² and root mean square error in the target.
SCORES = ("huber", "mean_huber", "huber_linear", "mean_huber_linear", "r2", "rmse")


def score_text(metric: str, value: float) -> str:
    """A score as tables show it; R² of a fold that failed to extrapolate may be anything."""
    if metric.startswith("r2"):
        return f"{value:.2g}" if abs(value) >= 1000 else f"{value:.4f}"
    return f"{value:.3g}"


def score_fit(fit: FittedLaw, runs, reading: Mapping) -> Answer:
    """What :meth:`jaxlaw.FittedLaw.score` returns; its docstring has the arguments."""
    read = runs_for(fit, runs, reading)
    seen = read.observations(fit.law, free=())  # nothing is fitted: any number of rows will do
    inputs = fit.law.labelled({n: v / fit.units[n] for n, v in seen.inputs.items()})
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
        f"{fit.law.name} on {seen.source}: mean absolute error {{mean_absolute_relative_error}} "
        f"over {len(observed)} observations"
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
