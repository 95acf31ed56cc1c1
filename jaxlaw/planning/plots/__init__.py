"""Pictures of plans; :mod:`jaxlaw.plots` lists them with all others."""

from jaxlaw.planning.plots import _mixture  # noqa: F401 (registers its pictures)
from jaxlaw.planning.plots import _settings as _settings
from jaxlaw.planning.plots._allocation import isoloss
from jaxlaw.planning.plots._continual import (
    balance,
    best_rates,
    continual_run,
    losses_over,
    recovery,
    turning_lengths,
)
from jaxlaw.planning.plots._isoflops import isoflops
from jaxlaw.planning.plots._transfer import transfer

__all__ = [
    "balance",
    "best_rates",
    "continual_run",
    "isoflops",
    "isoloss",
    "losses_over",
    "recovery",
    "transfer",
    "turning_lengths",
]
