"""Plots; needs matplotlib, which is an extra. Each takes and returns a matplotlib Axes."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.planning.plots import isoflops as isoflops
    from jaxlaw.planning.plots import isoloss as isoloss
    from jaxlaw.planning.plots import transfer as transfer
    from jaxlaw.plots._fits import demo_figure as demo_figure
    from jaxlaw.plots._fits import hidden_curves as hidden_curves
    from jaxlaw.plots._fits import loss_curve as loss_curve
    from jaxlaw.plots._fits import loss_over_input as loss_over_input
    from jaxlaw.plots._fits import loss_over_share as loss_over_share
    from jaxlaw.plots._fits import observed_against_predicted as observed_against_predicted
    from jaxlaw.plots._fits import residuals as residuals
    from jaxlaw.plots._fits import shift_curves as shift_curves
    from jaxlaw.plots._fits import starts_agreement as starts_agreement
    from jaxlaw.plots._forecasts import backtest_errors as backtest_errors
    from jaxlaw.plots._forecasts import forecast_calibration as forecast_calibration
    from jaxlaw.plots._forecasts import forecast_intervals as forecast_intervals
    from jaxlaw.plots._intervals import objective_profile as objective_profile
    from jaxlaw.plots._intervals import parameter_intervals as parameter_intervals
    from jaxlaw.plots._intervals import prior_and_runs as prior_and_runs
    from jaxlaw.plots._intervals import profile_prediction as profile_prediction
    from jaxlaw.plots._studies import fold_scores as fold_scores
    from jaxlaw.plots._studies import score_table as score_table
else:
    _find, __dir__, __all__ = face(__name__)

    def __getattr__(name: str) -> Any:
        # Not on import: ``jl.plots`` is there, and can be listed, without matplotlib.
        if name in __all__ and find_spec("matplotlib") is None:
            raise ModuleNotFoundError("plots need matplotlib: pip install 'jaxlaw[plot]'")
        return _find(name)
