"""Forecasts of larger runs from one posterior, and their backtests."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.forecasting._backtest import Backtest as Backtest, backtest as backtest
    from jaxlaw.forecasting._forecast import (
        Forecast as Forecast,
        forecast as forecast,
        score as score,
    )
    from jaxlaw.forecasting._ladder import compare_resources as compare_resources
    from jaxlaw.forecasting._question import (
        DEFAULT_LAWS as DEFAULT_LAWS,
        default_law as default_law,
    )
    from jaxlaw.forecasting._running import (
        forecast_run as forecast_run,
        run_line as run_line,
        trainer_callback as trainer_callback,
    )
    from jaxlaw.forecasting._tasks import (
        CHANCE as CHANCE,
        chance_of as chance_of,
        forecast_scores as forecast_scores,
    )
    from jaxlaw.forecasting.posterior import posteriors as posteriors
else:
    __getattr__, __dir__, __all__ = face(__name__)
