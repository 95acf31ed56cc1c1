"""jaxlaw: scaling laws of (continual) pre-training, fitted in batch on JAX."""

# ruff: noqa: E402, I001
from jaxlaw.interrupts import heed_as_command

heed_as_command()  # before all other imports, which take a while

from jaxlaw import folds, laws, planning, sampling, schedules, simulate
from jaxlaw.batch import BatchFit, fit_batch
from jaxlaw.chunks import join_processes
from jaxlaw.curves import Curves, read_curves
from jaxlaw.decay_fit import fit_decay
from jaxlaw.domain_curves import learnability
from jaxlaw.fitting import fit
from jaxlaw.inflection import InflectionRatio, PiecewiseLaw, inflection_ratio, loss_slopes
from jaxlaw.laws import law_table
from jaxlaw.laws.base import Law, law, power
from jaxlaw.laws.specs import Input, Parameter, exponent, positive, real
from jaxlaw.lr_areas import Areas, PhaseAreas, areas, phase_areas
from jaxlaw.notes import DataError, JaxlawError, Note, UsageError, WorkError
from jaxlaw.observations import Observations
from jaxlaw.printed_laws import published, published_table
from jaxlaw.reporting import report
from jaxlaw.result import Fit
from jaxlaw.runs import Runs, read_runs
from jaxlaw.saved_fits import load
from jaxlaw.schedules import Schedule
from jaxlaw.scores import Scores
from jaxlaw.shifts import observed_shift
from jaxlaw.study import Study, cross_validate
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
    "sampling",
    "schedules",
    "simulate",
]
