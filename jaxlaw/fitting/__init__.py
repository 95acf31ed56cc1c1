"""Fitting: objective, coordinates, starts, solvers, engine, and the fit itself."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.fitting._checkpoint import folder_name as folder_name
    from jaxlaw.fitting._checks import (
        Residuals as Residuals,
        experiment_notes as experiment_notes,
        residual_notes as residual_notes,
    )
    from jaxlaw.fitting._extrapolation import (
        joint_ranges as joint_ranges,
        outside_range as outside_range,
        range_message as range_message,
    )
    from jaxlaw.fitting._fit import fit as fit, fit_with as fit_with
    from jaxlaw.fitting._fit_batch import BatchFit as BatchFit
    from jaxlaw.fitting._fit_many import (
        Refits as Refits,
        compiled_ahead as compiled_ahead,
        fit_many as fit_many,
        predict_each as predict_each,
    )
    from jaxlaw.fitting._fitted_law import FittedLaw as FittedLaw
    from jaxlaw.fitting._objective import metrics as metrics
    from jaxlaw.fitting._options import (
        FitKeywords as FitKeywords,
        FitOptions as FitOptions,
        SharedKeywords as SharedKeywords,
        law_and_options as law_and_options,
        lists_options as lists_options,
        split_options as split_options,
    )
    from jaxlaw.fitting._prior import (
        Prior as Prior,
        field_prior as field_prior,
        ledger_prior as ledger_prior,
        prior_of as prior_of,
        run_hashes as run_hashes,
    )
    from jaxlaw.fitting._problem import (
        FitProblem as FitProblem,
        Linearisation as Linearisation,
        build_problem as build_problem,
        linearise as linearise,
        problem_of as problem_of,
        rows_around as rows_around,
    )
    from jaxlaw.fitting._result import (
        Experiment as Experiment,
        Fit as Fit,
        StandardErrors as StandardErrors,
        moved_params as moved_params,
        student_interval as student_interval,
        student_rows as student_rows,
    )
    from jaxlaw.fitting._runs_of_fit import (
        read_as_fitted as read_as_fitted,
        runs_for as runs_for,
        runs_of as runs_of,
    )
    from jaxlaw.fitting._scores import SCORES as SCORES, score_text as score_text
    from jaxlaw.fitting._shift_and_decay import observed_shift as observed_shift
    from jaxlaw.fitting._standard_errors import (
        moves_of_base as moves_of_base,
        sandwich_root as sandwich_root,
    )
    from jaxlaw.fitting._transform import Array as Array
else:
    __getattr__, __dir__, __all__ = face(__name__)
