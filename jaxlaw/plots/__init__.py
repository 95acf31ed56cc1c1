"""Plots; needs matplotlib, which is an extra. Each takes and returns a matplotlib Axes."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.planning.plots import isoflops as isoflops, isoloss as isoloss, transfer as transfer
    from jaxlaw.plots._fits import (
        loss_curve as loss_curve,
        loss_over_input as loss_over_input,
        observed_against_predicted as observed_against_predicted,
    )
    from jaxlaw.plots._forecasts import (
        backtest_errors as backtest_errors,
        forecast_intervals as forecast_intervals,
    )
    from jaxlaw.plots._intervals import (
        objective_profile as objective_profile,
        parameter_intervals as parameter_intervals,
    )
    from jaxlaw.plots._scores import fold_scores as fold_scores
else:
    _find, __dir__, __all__ = face(__name__)

    def __getattr__(name: str) -> Any:
        # Not on import: ``jl.plots`` is there, and can be listed, without matplotlib.
        if name in __all__ and find_spec("matplotlib") is None:
            raise ModuleNotFoundError("plots need matplotlib: pip install 'jaxlaw[plot]'")
        return _find(name)
