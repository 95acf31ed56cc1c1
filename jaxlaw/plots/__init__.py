"""Pictures; needs matplotlib, which is an extra. Each takes and returns a matplotlib Axes."""

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError("pictures need matplotlib: pip install 'jaxlaw[plot]'") from _missing

from jaxlaw.plots.crossings import both_ways, share_back
from jaxlaw.plots.curves import loss_curve, shift_curves
from jaxlaw.plots.fits import (
    demo_figure,
    observed_against_predicted,
    residuals,
    starts_agreement,
)
from jaxlaw.plots.inputs import loss_over_input, loss_over_share, slopes_over_share
from jaxlaw.plots.plans import (
    compute_saved,
    data_transferred,
    domain_shares,
    isoloss,
    limited_domain,
    loss_frontier,
    lowest_of_runs,
    replay_losses,
    trade_off,
)
from jaxlaw.plots.studies import fold_scores, score_table
from jaxlaw.plots.sureness import objective_profile, parameter_intervals
from jaxlaw.plots.training import (
    balance,
    best_rates,
    losses_over,
    model_losses,
    ood_losses,
    value,
    way_back,
)

__all__ = [
    "balance",
    "best_rates",
    "both_ways",
    "compute_saved",
    "data_transferred",
    "demo_figure",
    "domain_shares",
    "fold_scores",
    "isoloss",
    "limited_domain",
    "loss_curve",
    "loss_frontier",
    "loss_over_input",
    "loss_over_share",
    "losses_over",
    "lowest_of_runs",
    "model_losses",
    "objective_profile",
    "observed_against_predicted",
    "ood_losses",
    "parameter_intervals",
    "replay_losses",
    "residuals",
    "score_table",
    "share_back",
    "shift_curves",
    "slopes_over_share",
    "starts_agreement",
    "trade_off",
    "value",
    "way_back",
]
