"""Forecasts of runs not yet made, from one posterior, and the back-tests of them."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.forecasting._backtest import Backtest as Backtest
    from jaxlaw.forecasting._backtest import backtest as backtest
    from jaxlaw.forecasting._forecast import Forecast as Forecast
    from jaxlaw.forecasting._forecast import forecast as forecast
    from jaxlaw.forecasting._forecast import load_all as load_all
    from jaxlaw.forecasting._forecast import score as score
    from jaxlaw.forecasting._question import DEFAULT_LAWS as DEFAULT_LAWS
    from jaxlaw.forecasting._question import default_law as default_law
    from jaxlaw.forecasting._tasks import CHANCE as CHANCE
    from jaxlaw.forecasting._tasks import chance_of as chance_of
    from jaxlaw.forecasting._tasks import forecast_scores as forecast_scores
    from jaxlaw.forecasting.posterior import posteriors as posteriors
else:
    __getattr__, __dir__, __all__ = face(__name__)
