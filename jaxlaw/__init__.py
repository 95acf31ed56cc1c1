"""jaxlaw: scaling laws of (continual) pre-training, fitted in batch on JAX."""

# ruff: noqa: I001
from typing import TYPE_CHECKING

from jaxlaw._faces import face
from jaxlaw._version import __version__ as __version__

if TYPE_CHECKING:
    from jaxlaw import data as data
    from jaxlaw import design as design
    from jaxlaw import fitting as fitting
    from jaxlaw import forecasting as forecasting
    from jaxlaw import laws as laws
    from jaxlaw import papers as papers
    from jaxlaw import planning as planning
    from jaxlaw import plots as plots
    from jaxlaw import schedules as schedules
    from jaxlaw import simulate as simulate
    from jaxlaw import uncertainty as uncertainty
    from jaxlaw import validation as validation
    from jaxlaw._answer import Answer as Answer
    from jaxlaw._quantities import Quantity as Quantity
    from jaxlaw._result import load as load
    from jaxlaw._areas import areas as areas
    from jaxlaw.data import LossCurves as LossCurves
    from jaxlaw.data import Runs as Runs
    from jaxlaw.data import read_loss_curves as read_loss_curves
    from jaxlaw.data import read_runs as read_runs
    from jaxlaw.errors import DataError as DataError
    from jaxlaw.errors import JaxlawError as JaxlawError
    from jaxlaw.errors import UsageError as UsageError
    from jaxlaw.fitting._fit import fit as fit
    from jaxlaw.fitting._fit_batch import fit_batch as fit_batch
    from jaxlaw.fitting._fitted_law import FittedLaw as FittedLaw
    from jaxlaw.fitting._published import published as published
    from jaxlaw.fitting._published import published_table as published_table
    from jaxlaw.fitting._shift_and_decay import fit_decay as fit_decay
    from jaxlaw.fitting._result import Fit as Fit
    from jaxlaw.forecasting import Forecast as Forecast
    from jaxlaw.forecasting import backtest as backtest
    from jaxlaw.forecasting import compare_resources as compare_resources
    from jaxlaw.forecasting import forecast as forecast
    from jaxlaw.forecasting import forecast_run as forecast_run
    from jaxlaw.forecasting import forecast_scores as forecast_scores
    from jaxlaw.forecasting.posterior import posterior as posterior
    from jaxlaw.laws import law_table as law_table
    from jaxlaw.laws._base import Law as Law
    from jaxlaw.laws._base import law as law
    from jaxlaw.reporting import report as report
    from jaxlaw.schedules import Schedule as Schedule
    from jaxlaw.uncertainty import Bootstrap as Bootstrap
    from jaxlaw.uncertainty import bootstrap as bootstrap
    from jaxlaw.uncertainty import covariance as covariance
    from jaxlaw.uncertainty import identifiability as identifiability
    from jaxlaw.uncertainty import influence as influence
    from jaxlaw.uncertainty import profile as profile
    from jaxlaw.validation import Study as Study
    from jaxlaw.validation import cross_validate as cross_validate
    from jaxlaw.validation import folds as folds
else:
    __getattr__, __dir__, __all__ = face(__name__)
