"""Pictures of plans; :mod:`jaxlaw.plots` lists them with all others."""

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
from jaxlaw.planning.plots._mixture import (
    critical_share,
    limited_domain,
    mixture_weights,
    replay_losses,
    trade_off,
)
from jaxlaw.planning.plots._transfer import transfer

__all__ = [
    "balance",
    "best_rates",
    "continual_run",
    "critical_share",
    "isoflops",
    "isoloss",
    "limited_domain",
    "losses_over",
    "mixture_weights",
    "recovery",
    "replay_losses",
    "trade_off",
    "transfer",
    "turning_lengths",
]
