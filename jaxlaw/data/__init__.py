"""Tables, runs and loss curves in: columns found, units applied, rows checked, areas computed."""

from jaxlaw.data._learnability import learnability_coefficients
from jaxlaw.data._loss_curves import LossCurves, read_loss_curves
from jaxlaw.data._runs import Observations, Runs, read_runs

__all__ = [
    "LossCurves",
    "Observations",
    "Runs",
    "learnability_coefficients",
    "read_loss_curves",
    "read_runs",
]
