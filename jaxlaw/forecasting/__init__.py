"""Forecasts of runs not yet made, and the back-tests they rest on."""

from jaxlaw.forecasting._backtest import Backtest, backtest
from jaxlaw.forecasting._forecast import Forecast, forecast
from jaxlaw.forecasting._load import load, read_result
from jaxlaw.forecasting._origins import DEFAULT_LAWS, compute_of, default_laws
from jaxlaw.forecasting._score import ForecastScores, load_all, score

__all__ = [
    "compute_of",
    "load_all",
    "DEFAULT_LAWS",
    "Backtest",
    "Forecast",
    "ForecastScores",
    "backtest",
    "default_laws",
    "forecast",
    "load",
    "read_result",
    "score",
]
