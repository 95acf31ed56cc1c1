"""Fitting: objective, coordinates, starts, solvers, engine, and the fit itself."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.fitting._checkpoint import folder_name as folder_name
    from jaxlaw.fitting._checks import Residuals as Residuals
    from jaxlaw.fitting._checks import experiment_notes as experiment_notes
    from jaxlaw.fitting._checks import residual_notes as residual_notes
    from jaxlaw.fitting._extrapolation import joint_ranges as joint_ranges
    from jaxlaw.fitting._extrapolation import outside_range as outside_range
    from jaxlaw.fitting._extrapolation import range_message as range_message
    from jaxlaw.fitting._fit import fit as fit
    from jaxlaw.fitting._fit import fit_with as fit_with
    from jaxlaw.fitting._fit_batch import BatchFit as BatchFit
    from jaxlaw.fitting._fit_many import Refits as Refits
    from jaxlaw.fitting._fit_many import compiled_ahead as compiled_ahead
    from jaxlaw.fitting._fit_many import fit_many as fit_many
    from jaxlaw.fitting._fit_many import predict_each as predict_each
    from jaxlaw.fitting._fitted_law import FittedLaw as FittedLaw
    from jaxlaw.fitting._options import FitKeywords as FitKeywords
    from jaxlaw.fitting._options import FitOptions as FitOptions
    from jaxlaw.fitting._options import SharedKeywords as SharedKeywords
    from jaxlaw.fitting._options import law_and_options as law_and_options
    from jaxlaw.fitting._options import lists_options as lists_options
    from jaxlaw.fitting._options import split_options as split_options
    from jaxlaw.fitting._prior import Experiment as Experiment
    from jaxlaw.fitting._prior import Prior as Prior
    from jaxlaw.fitting._prior import field_prior as field_prior
    from jaxlaw.fitting._prior import ledger_prior as ledger_prior
    from jaxlaw.fitting._prior import prior_of as prior_of
    from jaxlaw.fitting._prior import run_hashes as run_hashes
    from jaxlaw.fitting._problem import FitProblem as FitProblem
    from jaxlaw.fitting._problem import Linearisation as Linearisation
    from jaxlaw.fitting._problem import build_problem as build_problem
    from jaxlaw.fitting._problem import linearise as linearise
    from jaxlaw.fitting._problem import problem_of as problem_of
    from jaxlaw.fitting._problem import rows_around as rows_around
    from jaxlaw.fitting._result import Fit as Fit
    from jaxlaw.fitting._result import StandardErrors as StandardErrors
    from jaxlaw.fitting._result import moved_params as moved_params
    from jaxlaw.fitting._result import student_interval as student_interval
    from jaxlaw.fitting._result import student_rows as student_rows
    from jaxlaw.fitting._runs_of_fit import read_as_fitted as read_as_fitted
    from jaxlaw.fitting._runs_of_fit import runs_for as runs_for
    from jaxlaw.fitting._runs_of_fit import runs_of as runs_of
    from jaxlaw.fitting._scores import SCORES as SCORES
    from jaxlaw.fitting._scores import metrics as metrics
    from jaxlaw.fitting._scores import score_text as score_text
    from jaxlaw.fitting._shift_and_decay import observed_shift as observed_shift
    from jaxlaw.fitting._standard_errors import moves_of_base as moves_of_base
    from jaxlaw.fitting._standard_errors import sandwich_root as sandwich_root
    from jaxlaw.fitting._transform import Array as Array
else:
    __getattr__, __dir__, __all__ = face(__name__)
