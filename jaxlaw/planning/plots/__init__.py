"""Pictures of plans; :mod:`jaxlaw.plots` lists them with all others."""

from jaxlaw.planning.plots import _continual  # noqa: F401  # which draws answers
from jaxlaw.planning.plots._allocation import (
    compute_multiplier,
    compute_saved,
    crossover,
    data_transferred,
    isoloss,
)
from jaxlaw.planning.plots._isoflops import isoflops
from jaxlaw.planning.plots._mixture import (
    critical_share,
    limited_domain,
    mixture_weights,
    replay_losses,
    trade_off,
)
from jaxlaw.planning.plots._settings import (
    best_settings,
    larger_batches,
    minimum,
    settings,
    solution,
)

__all__ = [
    "best_settings",
    "compute_multiplier",
    "compute_saved",
    "critical_share",
    "crossover",
    "data_transferred",
    "isoflops",
    "isoloss",
    "larger_batches",
    "limited_domain",
    "minimum",
    "mixture_weights",
    "replay_losses",
    "settings",
    "solution",
    "trade_off",
]
