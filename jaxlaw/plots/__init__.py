"""Pictures; needs matplotlib, which is an extra. Each takes and returns a matplotlib Axes."""

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError("pictures need matplotlib: pip install 'jaxlaw[plot]'") from _missing

from jaxlaw.plots.fits import (
    demo_figure,
    loss_curve,
    loss_over_share,
    observed_against_predicted,
    residuals,
)
from jaxlaw.plots.plans import (
    compute_saved,
    domain_shares,
    isoloss,
    limited_domain,
    loss_frontier,
    replay_losses,
    trade_off,
)
from jaxlaw.plots.training import balance, losses_over, value, way_back

__all__ = [
    "balance",
    "compute_saved",
    "demo_figure",
    "domain_shares",
    "isoloss",
    "limited_domain",
    "loss_curve",
    "loss_frontier",
    "loss_over_share",
    "losses_over",
    "observed_against_predicted",
    "replay_losses",
    "residuals",
    "trade_off",
    "value",
    "way_back",
]
