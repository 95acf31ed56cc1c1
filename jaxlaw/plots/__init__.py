"""Plots; needs matplotlib, which is an extra. Each takes and returns a matplotlib Axes."""

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError("plots need matplotlib: pip install 'jaxlaw[plot]'") from _missing

from jaxlaw.papers.plots import (
    lowest_of_runs,
    model_losses,
    ood_losses,
    score_over_cross_entropy,
    slopes_over_share,
    value,
    values,
)
from jaxlaw.planning.plots import (
    balance,
    best_rates,
    compute_multiplier,
    compute_saved,
    critical_share,
    crossover,
    data_transferred,
    domain_shares,
    isoloss,
    limited_domain,
    loss_frontier,
    losses_over,
    mixture_weights,
    recovery,
    replay_losses,
    trade_off,
    turning_lengths,
)
from jaxlaw.plots._fits import (
    demo_figure,
    hidden_curves,
    loss_curve,
    loss_over_input,
    loss_over_share,
    observed_against_predicted,
    residuals,
    shift_curves,
    starts_agreement,
)
from jaxlaw.plots._forecasts import backtest_errors, forecast_calibration, forecast_intervals
from jaxlaw.plots._intervals import objective_profile, parameter_intervals
from jaxlaw.plots._studies import fold_scores, score_table

__all__ = [
    "backtest_errors",
    "balance",
    "best_rates",
    "compute_multiplier",
    "compute_saved",
    "critical_share",
    "crossover",
    "data_transferred",
    "demo_figure",
    "domain_shares",
    "fold_scores",
    "forecast_calibration",
    "forecast_intervals",
    "hidden_curves",
    "isoloss",
    "limited_domain",
    "loss_curve",
    "loss_frontier",
    "loss_over_input",
    "loss_over_share",
    "losses_over",
    "lowest_of_runs",
    "mixture_weights",
    "model_losses",
    "objective_profile",
    "observed_against_predicted",
    "ood_losses",
    "parameter_intervals",
    "recovery",
    "replay_losses",
    "residuals",
    "score_over_cross_entropy",
    "score_table",
    "shift_curves",
    "slopes_over_share",
    "starts_agreement",
    "trade_off",
    "turning_lengths",
    "value",
    "values",
]
