"""Forecasts of runs not yet made, and the back-tests they rest on."""

from jaxlaw.forecasting._backtest import Backtest, backtest
from jaxlaw.forecasting._origins import DEFAULT_LAWS, default_laws

__all__ = ["DEFAULT_LAWS", "Backtest", "backtest", "default_laws"]
