"""jaxlaw: scaling laws of (continual) pre-training, fitted in batch on JAX."""

# ruff: noqa: I001
import importlib
from typing import TYPE_CHECKING

from jaxlaw._interrupts import heed_as_command
from jaxlaw._version import __version__ as __version__

heed_as_command()  # before all other imports, which take a while

# Importing JAX, pandas and all of jaxlaw takes two seconds, which `jaxlaw --help` and tab
# completion need not wait for: a public name is imported when it is first used (PEP 562). Type
# checkers read the imports, Python reads the table; a test compares the two. A new public name is
# added to both.
if TYPE_CHECKING:
    from jaxlaw import design as design
    from jaxlaw import forecasting as forecasting
    from jaxlaw import laws as laws
    from jaxlaw import planning as planning
    from jaxlaw import schedules as schedules
    from jaxlaw import simulate as simulate
    from jaxlaw._areas import Areas as Areas
    from jaxlaw._areas import PhaseAreas as PhaseAreas
    from jaxlaw._areas import areas as areas
    from jaxlaw._areas import phase_areas as phase_areas
    from jaxlaw.data import LossCurves as LossCurves
    from jaxlaw.data import Observations as Observations
    from jaxlaw.data import Runs as Runs
    from jaxlaw.data import learnability_coefficients as learnability_coefficients
    from jaxlaw.data import read_loss_curves as read_loss_curves
    from jaxlaw.data import read_runs as read_runs
    from jaxlaw.errors import DataError as DataError
    from jaxlaw.errors import JaxlawError as JaxlawError
    from jaxlaw.errors import UsageError as UsageError
    from jaxlaw.errors import WorkError as WorkError
    from jaxlaw.fitting._checkpoint import init_distributed as init_distributed
    from jaxlaw.fitting._fit import fit as fit
    from jaxlaw.fitting._fit_batch import BatchFit as BatchFit
    from jaxlaw.fitting._fit_batch import fit_batch as fit_batch
    from jaxlaw.fitting._fit_decay import fit_decay as fit_decay
    from jaxlaw.fitting._fitted_law import FittedLaw as FittedLaw
    from jaxlaw.fitting._observed_shift import observed_shift as observed_shift
    from jaxlaw.fitting._published import published as published
    from jaxlaw.fitting._published import published_table as published_table
    from jaxlaw.fitting._result import Fit as Fit
    from jaxlaw.fitting._scores import Scores as Scores
    from jaxlaw.forecasting import Backtest as Backtest
    from jaxlaw.forecasting import Forecast as Forecast
    from jaxlaw.forecasting import backtest as backtest
    from jaxlaw.forecasting import forecast as forecast
    from jaxlaw.forecasting import load as load
    from jaxlaw.laws import law_table as law_table
    from jaxlaw.laws._base import Law as Law
    from jaxlaw.laws._base import law as law
    from jaxlaw.laws._base import power as power
    from jaxlaw.laws._parameters import Input as Input
    from jaxlaw.laws._parameters import Parameter as Parameter
    from jaxlaw.laws._parameters import exponent as exponent
    from jaxlaw.laws._parameters import positive as positive
    from jaxlaw.laws._parameters import real as real
    from jaxlaw.notes import FitWarning as FitWarning
    from jaxlaw.notes import Note as Note
    from jaxlaw.planning._inflection import InflectionRatio as InflectionRatio
    from jaxlaw.planning._inflection import PiecewiseLaw as PiecewiseLaw
    from jaxlaw.planning._inflection import inflection_ratio as inflection_ratio
    from jaxlaw.planning._inflection import loss_slopes as loss_slopes
    from jaxlaw.reporting import report as report
    from jaxlaw.schedules import Schedule as Schedule
    from jaxlaw.uncertainty import Bootstrap as Bootstrap
    from jaxlaw.uncertainty import Covariance as Covariance
    from jaxlaw.uncertainty import Profile as Profile
    from jaxlaw.uncertainty import bootstrap as bootstrap
    from jaxlaw.uncertainty import covariance as covariance
    from jaxlaw.uncertainty import identifiability as identifiability
    from jaxlaw.uncertainty import influence as influence
    from jaxlaw.uncertainty import profile as profile
    from jaxlaw.validation import Study as Study
    from jaxlaw.validation import cross_validate as cross_validate
    from jaxlaw.validation import folds as folds
else:
    _MEMBERS = {
        "_areas": "Areas PhaseAreas areas phase_areas",
        "data": "LossCurves Observations Runs learnability_coefficients read_loss_curves read_runs",
        "errors": "DataError JaxlawError UsageError WorkError",
        "fitting._checkpoint": "init_distributed",
        "fitting._fit": "fit",
        "fitting._fit_batch": "BatchFit fit_batch",
        "fitting._fit_decay": "fit_decay",
        "fitting._fitted_law": "FittedLaw",
        "fitting._observed_shift": "observed_shift",
        "fitting._published": "published published_table",
        "fitting._result": "Fit",
        "fitting._scores": "Scores",
        "forecasting": "Backtest Forecast backtest forecast load",
        "laws": "law_table",
        "laws._base": "Law law power",
        "laws._parameters": "Input Parameter exponent positive real",
        "notes": "FitWarning Note",
        "planning._inflection": "InflectionRatio PiecewiseLaw inflection_ratio loss_slopes",
        "reporting": "report",
        "schedules": "Schedule",
        "uncertainty": "Bootstrap Covariance Profile bootstrap covariance identifiability "
        "influence profile",
        "validation": "Study cross_validate",
    }
    _HOME = {name: home for home, names in _MEMBERS.items() for name in names.split()}
    _MODULES = {
        "design": "design",
        "folds": "validation.folds",
        "forecasting": "forecasting",
        "laws": "laws",
        "planning": "planning",
        "schedules": "schedules",
        "simulate": "simulate",
    }
    __all__ = sorted([*_HOME, *_MODULES])

    def __getattr__(name):
        if name in _HOME:
            value = getattr(importlib.import_module(f"jaxlaw.{_HOME[name]}"), name)
        elif name in _MODULES or name in ("data", "fitting", "uncertainty", "validation"):
            value = importlib.import_module(f"jaxlaw.{_MODULES.get(name, name)}")
        else:
            raise AttributeError(f"module 'jaxlaw' has no attribute '{name}'")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
