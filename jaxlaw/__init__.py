"""jaxlaw: scaling laws of (continual) pre-training, fitted in batch on JAX."""

# ruff: noqa: E402, I001
from jaxlaw._interrupts import heed_as_command

heed_as_command()  # before all other imports, which take a while

from jaxlaw import design, laws, planning, schedules, simulate
from jaxlaw.validation import folds
from jaxlaw.fitting._fit_batch import BatchFit, fit_batch
from jaxlaw.fitting._checkpoint import join_processes
from jaxlaw.data import Curves, read_curves
from jaxlaw.fitting._fit_decay import fit_decay
from jaxlaw.data._learnability import learnability
from jaxlaw.fitting._fit import fit
from jaxlaw.planning._inflection import InflectionRatio, PiecewiseLaw, inflection_ratio, loss_slopes
from jaxlaw.laws import law_table
from jaxlaw.laws._base import Law, law, power
from jaxlaw.laws._parameters import Input, Parameter, exponent, positive, real
from jaxlaw._areas import Areas, PhaseAreas, areas, phase_areas
from jaxlaw.errors import DataError, JaxlawError, UsageError, WorkError
from jaxlaw.notes import Note
from jaxlaw.data._observations import Observations
from jaxlaw.fitting._published import published, published_table
from jaxlaw.reporting import report
from jaxlaw.fitting._result import Fit
from jaxlaw.data._runs import Runs, read_runs
from jaxlaw.fitting._saved_fits import load
from jaxlaw.schedules import Schedule
from jaxlaw.fitting._scores import Scores
from jaxlaw.fitting._observed_shift import observed_shift
from jaxlaw.validation import Study, cross_validate
from jaxlaw.uncertainty import (
    Bootstrap,
    Covariance,
    Profile,
    bootstrap,
    covariance,
    identifiability,
    influence,
    profile,
)

sampling = design  # deprecated name

__version__ = "0.1.0"

__all__ = [
    "Areas",
    "BatchFit",
    "Bootstrap",
    "Covariance",
    "Curves",
    "DataError",
    "Fit",
    "InflectionRatio",
    "Input",
    "JaxlawError",
    "Law",
    "Note",
    "Observations",
    "Parameter",
    "PhaseAreas",
    "PiecewiseLaw",
    "Profile",
    "Runs",
    "Schedule",
    "Scores",
    "Study",
    "UsageError",
    "WorkError",
    "areas",
    "bootstrap",
    "covariance",
    "cross_validate",
    "exponent",
    "fit",
    "fit_batch",
    "fit_decay",
    "folds",
    "identifiability",
    "inflection_ratio",
    "influence",
    "join_processes",
    "law",
    "law_table",
    "laws",
    "learnability",
    "load",
    "observed_shift",
    "loss_slopes",
    "phase_areas",
    "planning",
    "positive",
    "power",
    "profile",
    "published",
    "published_table",
    "read_curves",
    "read_runs",
    "real",
    "report",
    "design",
    "sampling",
    "schedules",
    "simulate",
]
