"""Pictures of plans; :mod:`jaxlaw.plots` lists them with all others."""

from jaxlaw.planning.plots import _mixture  # noqa: F401 (registers its pictures)
from jaxlaw.planning.plots._allocation import (
    compute_multiplier,
    compute_saved,
    crossover,
    data_transferred,
    isoloss,
)
from jaxlaw.planning.plots._continual import (
    balance,
    best_rates,
    continual_run,
    losses_over,
    recovery,
    turning_lengths,
)
from jaxlaw.planning.plots._isoflops import isoflops
from jaxlaw.planning.plots._settings import (
    best_settings,
    larger_batches,
    minimum,
    settings,
    solution,
)

__all__ = [
    "balance",
    "best_rates",
    "best_settings",
    "compute_multiplier",
    "compute_saved",
    "continual_run",
    "crossover",
    "data_transferred",
    "isoflops",
    "isoloss",
    "larger_batches",
    "losses_over",
    "minimum",
    "recovery",
    "settings",
    "solution",
    "turning_lengths",
]
