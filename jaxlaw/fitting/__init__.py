"""Fitting: objective, coordinates, starts, solvers, engine, and the fit itself."""

from jaxlaw.fitting._checkpoint import folder_name
from jaxlaw.fitting._extrapolation import (
    SAME,
    beyond,
    in_words,
    joint_ranges,
)
from jaxlaw.fitting._fit import fit
from jaxlaw.fitting._fit_many import (
    Refits,
    fewest_for,
    fit_many,
    refit_near,
)
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._linearise import linearise
from jaxlaw.fitting._options import FitOptions, StudyKeywords, split_options
from jaxlaw.fitting._problem import FitProblem
from jaxlaw.fitting._result import Fit
from jaxlaw.fitting._saved_fits import from_dict
from jaxlaw.fitting._scores import (
    Scores,
    errors,
    measure,
    runs_for,
    score_fit,
    score_lines,
)
from jaxlaw.fitting._transform import Array

__all__ = [
    "Array",
    "Fit",
    "FitOptions",
    "FitProblem",
    "FittedLaw",
    "Refits",
    "SAME",
    "Scores",
    "StudyKeywords",
    "beyond",
    "errors",
    "fewest_for",
    "fit",
    "fit_many",
    "folder_name",
    "from_dict",
    "in_words",
    "joint_ranges",
    "linearise",
    "measure",
    "refit_near",
    "runs_for",
    "score_fit",
    "score_lines",
    "split_options",
]
