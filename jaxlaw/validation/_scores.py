"""Scores of held-out points: Huber losses, R² and RMSE of many predictions at once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from jaxlaw.fitting._objective import huber_losses

if TYPE_CHECKING:
    from jaxlaw.fitting import Refits

#: Name of a score → how tables and figures call it: Huber loss of log residuals and of residuals,
#: summed over the points and per point; R² and root mean square error in the target.
SCORES = {
    "huber": "Huber",
    "mean_huber": "mean Huber",
    "huber_linear": "Huber (linear)",
    "mean_huber_linear": "mean Huber (linear)",
    "r2": "R²",
    "rmse": "RMSE",
}
_MEMBERS = 8  # agreeing starts whose predictions are compared


def score(
    target: np.ndarray, predicted: np.ndarray, weight: np.ndarray, delta: float
) -> dict[str, np.ndarray]:
    """Scores of P predictions, as :func:`jaxlaw.fitting._objective.metrics` has them of one.

    Args:
        target, predicted: (P, n).
        weight: (P, n) weights; points of weight 0 do not count.
        delta: Huber threshold.

    Returns:
        name of :data:`SCORES` → (P,). R² is NaN where the target is constant; Huber losses are of
        the residuals themselves where some target has no logarithm.
    """
    used = weight > 0
    total = weight.sum(axis=1)
    share = weight / total[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        residual = np.where(used, predicted - target, 0.0)
        in_log = np.where(used, np.log(predicted) - np.log(target), 0.0)
        square = (share * residual**2).sum(axis=1)
        middle = (share * target).sum(axis=1, keepdims=True)
        spread = (share * (target - middle) ** 2).sum(axis=1)
        low = np.where(used, target, np.inf).min(axis=1)
        high = np.where(used, target, -np.inf).max(axis=1)
        linear = (weight * huber_losses(residual, delta)).sum(axis=1)
        huber = (weight * huber_losses(in_log, delta)).sum(axis=1)
        if (target[used] <= 0).any():  # laws of linear residuals have such targets, without logs
            huber = linear
        return {
            "huber": huber,
            "mean_huber": huber / total,
            "huber_linear": linear,
            "mean_huber_linear": linear / total,
            "r2": np.where(low < high, 1 - square / spread, np.nan),
            "rmse": np.sqrt(square),
        }


def disagreement(refits: Refits, inputs: dict[str, np.ndarray], held_out: np.ndarray) -> np.ndarray:
    """How far predictions differ between starts that agree on the objective, (P,).

    The largest relative difference at the held-out points: what the fitted points leave open.

    Args:
        refits: fits of P folds.
        inputs: name → (n,) in the law's own units.
        held_out: (P, n) True where a fold is scored.
    """
    chosen = [
        members[np.linspace(0, len(members) - 1, _MEMBERS).astype(int)]
        for members in refits.agreeing
    ]
    params = refits.problem.params(np.stack(chosen))
    low, high = np.full(held_out.shape, np.inf), np.full(held_out.shape, -np.inf)
    for k in range(_MEMBERS):
        member = {name: values[:, k] for name, values in params.items()}
        predicted = dataclasses.replace(refits, params=member).predict(**inputs)
        low, high = np.fmin(low, predicted), np.fmax(high, predicted)
    with np.errstate(invalid="ignore"):
        return np.where(held_out, (high - low) / np.abs(low + high) * 2, 0.0).max(axis=1)


def score_text(metric: str, value: float) -> str:
    """A score as tables show it; R² of a fold that failed to extrapolate may be anything."""
    if metric.startswith("r2") and not abs(value) >= 1000:
        return f"{value:.4f}"
    return f"{value:.2g}" if metric.startswith("r2") else f"{value:.3g}"
