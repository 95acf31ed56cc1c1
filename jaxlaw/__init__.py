"""jaxlaw: scaling laws of (continual) pre-training, fitted in batch on JAX."""

# ruff: noqa: I001
from typing import TYPE_CHECKING

from jaxlaw._faces import face
from jaxlaw._version import __version__ as __version__

if TYPE_CHECKING:
    from jaxlaw import (
        data as data,
        design as design,
        fitting as fitting,
        forecasting as forecasting,
        laws as laws,
        papers as papers,
        planning as planning,
        plots as plots,
        schedules as schedules,
        simulate as simulate,
        uncertainty as uncertainty,
        validation as validation,
    )
    from jaxlaw._answer import Answer as Answer
    from jaxlaw._quantities import Quantity as Quantity
    from jaxlaw._result import load as load
    from jaxlaw._areas import areas as areas
    from jaxlaw.data import (
        LossCurves as LossCurves,
        Runs as Runs,
        read_loss_curves as read_loss_curves,
        read_runs as read_runs,
    )
    from jaxlaw.errors import (
        DataError as DataError,
        JaxlawError as JaxlawError,
        UsageError as UsageError,
    )
    from jaxlaw.fitting._fit import fit as fit
    from jaxlaw.fitting._fit_batch import fit_batch as fit_batch
    from jaxlaw.fitting._fitted_law import FittedLaw as FittedLaw
    from jaxlaw.fitting._published import published as published, published_table as published_table
    from jaxlaw.fitting._shift_and_decay import fit_decay as fit_decay
    from jaxlaw.fitting._result import Fit as Fit
    from jaxlaw.forecasting import (
        Forecast as Forecast,
        backtest as backtest,
        compare_resources as compare_resources,
        forecast as forecast,
        forecast_run as forecast_run,
        forecast_scores as forecast_scores,
    )
    from jaxlaw.forecasting.posterior import posterior as posterior
    from jaxlaw.laws import law_table as law_table
    from jaxlaw.laws._base import Law as Law, law as law
    from jaxlaw.reporting import report as report
    from jaxlaw.schedules import Schedule as Schedule
    from jaxlaw.uncertainty import (
        Bootstrap as Bootstrap,
        bootstrap as bootstrap,
        covariance as covariance,
        identifiability as identifiability,
        influence as influence,
        profile as profile,
    )
    from jaxlaw.validation import Study as Study, cross_validate as cross_validate, folds as folds
else:
    __getattr__, __dir__, __all__ = face(__name__)
