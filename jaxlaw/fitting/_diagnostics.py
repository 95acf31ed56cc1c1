"""Diagnostics of an optimum: notes on what to know before its numbers are used."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jaxlaw.data import RunGroups
from jaxlaw.fitting._experiment_checks import experiment_notes
from jaxlaw.fitting._objective import AGREE, smoothed_score
from jaxlaw.fitting._prior_evidence import PriorEvidence, prior_decides_notes
from jaxlaw.fitting._problem import FitProblem, Linearisation
from jaxlaw.fitting._residual_checks import Residuals, residual_notes
from jaxlaw.fitting._result import StandardErrors
from jaxlaw.fitting._standard_errors import sandwich_root, standard_errors
from jaxlaw.fitting.solvers import Status
from jaxlaw.notes import DEPENDENT_ROWS, Note

FEW = 0.1  # of the starts agree: warn
NEARLY_ALL = 0.9  # of the scatter that is left: so slight a bend gets no note
EXACT = 1e-9  # residuals of the log that are rounding
FLOOR = 1e-3  # chance of a bend that calls for an irreducible loss, where there is none
WEAK = 0.8  # R²: noise and random walks reach 0.5, seldom this
SAME = 1e-2  # relative distance of parameters that count as the same place
LOOSE = 0.5  # relative standard error: 0 or infinity is then within two of them


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchEvidence:
    """What a search and its data say of an optimum, beside the problem itself.

    Attributes:
        agreement: share of the solved starts that end at the best objective.
        disagreement: relative difference of the two solvers' objectives.
        status: how the best start ended.
        r2: R² of the target.
        scatter: root mean square of the log residuals.
        spread: parameter → relative spread among the starts that agree.
        ranges: input → (lowest, highest), in the law's own units.
        rows, word: (n,) what the problem's rows are called, and what a row is called.
        runs: the runs that rows may be checkpoints of, or None.
        others: (n rows) columns of the user's table that the law does not use, or None.
        positions: (n,) where in the user's table the rows are, or None.
        relative_slopes: (p, p) of log |parameter|, taken at the centre of the data, in the
            coordinates; None where they are not known.
    """

    agreement: float
    disagreement: float
    status: Status
    r2: float
    scatter: float
    spread: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]
    rows: np.ndarray | None = None
    word: str = "row"
    runs: RunGroups | None = None
    others: pd.DataFrame | None = None
    positions: np.ndarray | None = None
    relative_slopes: np.ndarray | None = None


def diagnosed(
    problem: FitProblem,
    coordinates: np.ndarray,
    linear: Linearisation,
    params: Mapping[str, float],
    evidence: SearchEvidence,
    prior: PriorEvidence | None,
) -> tuple[list[Note], StandardErrors]:
    """Every note on an optimum, and the standard errors of its parameters.

    Args:
        problem: the problem.
        coordinates: (p,) the optimum.
        linear: the problem linear around it.
        params: its natural parameters.
        evidence: what the search and the data say of it.
        prior: what a prior does at it; None without one.
    """
    bound, moving = problem.active_bounds(coordinates), problem.free_and_inside(coordinates)
    residuals = _residuals(problem, linear, moving, evidence)
    of_residuals = residual_notes(residuals)
    ridge = [n for n, size in evidence.spread.items() if size > SAME and n not in bound]
    open_, unseen = _identifiability(problem, residuals, moving, prior)
    dependent = any(note.code == DEPENDENT_ROWS for note in of_residuals)
    errors = standard_errors(
        problem, coordinates, linear, evidence.status, {*ridge, *unseen},
        evidence.runs if dependent else None, prior,
    )  # fmt: skip
    notes = [
        *_search_notes(evidence),
        *_bound_notes(problem, bound, params),
        *_ridge_notes(evidence.spread, ridge),
        *(open_ or (_loose_notes(problem, residuals, moving, evidence) if prior is None else [])),
        *_floor_notes(problem, linear),
        *_requirement_notes(problem, params, evidence.ranges, evidence.scatter),
        *of_residuals,
        *experiment_notes(
            problem.law, residuals, evidence.others, evidence.positions,
            misfit=any(note.code == "lack-of-fit" for note in of_residuals),
        ),
    ]  # fmt: skip
    return notes, errors


def _residuals(
    problem: FitProblem, linear: Linearisation, moving: np.ndarray, evidence: SearchEvidence
) -> Residuals:
    data, rows = problem.in_numpy, evidence.rows
    if rows is None:
        rows = np.arange(problem.n_rows)
    inputs = {name: data.inputs[name] for name in problem.law.input_names}
    return Residuals(
        data.target, -linear.residuals, linear.jacobian[:, moving], inputs, data.weight, rows,
        evidence.word, problem.model.residuals == "log", evidence.runs,
    )  # fmt: skip


def _search_notes(evidence: SearchEvidence) -> list[Note]:
    notes = []
    status = evidence.status
    if status != Status.CONVERGED:
        message = f"the best start ended with status '{status.label}'. {status.message}"
        notes.append(Note("not-converged", "warning", message, inherited=True))
    if evidence.agreement < FEW:
        message = (
            f"only {evidence.agreement:.1%} of the solved starts end at the best objective: "
            "a better optimum may exist; try more starts (n_starts=)"
        )
        notes.append(Note("few-starts-agree", "warning", message, inherited=True))
    if evidence.disagreement > AGREE:
        message = (
            "the batch solver's optimum and jaxopt's L-BFGS differ by "
            f"{evidence.disagreement:.1e} of the objective; the better one is reported"
        )
        notes.append(Note("solvers-disagree", "warning", message, inherited=True))
    if not evidence.r2 > 0.5:
        message = f"R² is {evidence.r2:.3g}: the law does not describe these runs"
        notes.append(Note("poor-fit", "error", message, inherited=True))
    elif evidence.r2 < WEAK:
        message = (
            f"R² is {evidence.r2:.3g}: the law leaves much of the differences "
            "between the runs unexplained; look for outliers or a missing input, and give "
            "intervals with every number"
        )
        notes.append(Note("weak-fit", "warning", message, inherited=True))
    return notes


def _bound_notes(
    problem: FitProblem, bound: Mapping[str, str], params: Mapping[str, float]
) -> list[Note]:
    law, notes = problem.law, []
    for name, side in bound.items():
        spec = law.parameter(name)
        by_user = name in problem.options.bounds
        if law.constraint is not None and name == law.constraint.raises:
            continue  # reported with its cost as a binding constraint
        if problem.model.chart and (limit := law.chart.limits.get((name, side))):
            notes.append(Note("limiting-form", "warning", limit, inherited=True))
            continue
        if spec.scale == "log" and side == "low" and not by_user:
            message = f"{name} has gone to zero ({params[name]:.3g}): its term is not needed"
        else:
            whose = "your bound" if by_user else f"{_end(problem, name, side)} of its range"
            message = f"{name} is at {whose} ({params[name]:.6g}); its true optimum may lie beyond"
        notes.append(Note("at-bound", "warning", message, inherited=True))
    return notes


def _end(problem: FitProblem, name: str, side: str) -> str:
    """Which end of its range a parameter is at; a chart may turn it round."""
    replaced = problem.model.chart and name in problem.law.chart.low
    return "an end" if replaced else f"the {side} end"


def _ridge_notes(spread: Mapping[str, float], loose: Sequence[str]) -> list[Note]:
    if not loose:
        return []
    message = (
        f"starts agree on the objective but not on {', '.join(loose)} (they differ by up to "
        f"{max(spread[name] for name in loose):.1%}): a ridge; rely on predictions, not on them"
    )
    return [Note("ridge", "warning", message, inherited=True)]


def _identifiability(
    problem: FitProblem, residuals: Residuals, moving: np.ndarray, prior: PriorEvidence | None
) -> tuple[list[Note], list[str]]:
    """Directions the data hardly see, by the spectrum of the Gauss–Newton Hessian; their names.

    With a prior the Hessian is that of runs and prior; what the prior decides is then information.
    """
    names = [problem.law.parameter_names[k] for k in moving]
    open_, message = _undetermined(residuals.slopes * np.sqrt(residuals.weight)[:, None], names)
    if prior is not None:
        by_runs = not open_
        open_, message = _undetermined(prior.root_of_information(moving), names)
        if not open_:
            return prior_decides_notes(problem, prior, by_runs), []
    if not open_:
        return [], []
    return [Note("unidentifiable", "warning", message, inherited=True)], open_


def _undetermined(jacobian: np.ndarray, names: Sequence[str]) -> tuple[list[str], str]:
    """Parameters (k,) that slopes (m, k) leave open, alone or together, and the words for it."""
    size = np.linalg.norm(jacobian, axis=0)
    if not len(names) or not np.isfinite(jacobian).all():
        return [], ""
    unseen = [name for name, norm in zip(names, size, strict=True) if norm <= 1e-9 * size.max()]
    if unseen:
        words = f"the data do not determine {', '.join(unseen)}: fix it, or drop its term"
        return unseen, words
    _, singular, rotation = np.linalg.svd(jacobian / size, full_matrices=False)
    if len(singular) == len(names) and singular[-1] > 1e-5 * singular[0]:
        return [], ""
    direction = np.abs(rotation[-1])
    mixed = [n for n, share in zip(names, direction, strict=True) if share > 0.2]
    words = (
        f"the data determine {', '.join(mixed)} only together (condition number "
        f"{singular[0] / max(singular[-1], 1e-300):.0e}): fix one, or add runs that vary them apart"
    )
    return mixed, words


def _loose_notes(
    problem: FitProblem, residuals: Residuals, moving: np.ndarray, evidence: SearchEvidence
) -> list[Note]:
    """Parameters that the data bound on one side at most: zero, or infinity, fits as well."""
    if evidence.relative_slopes is None or not len(moving):
        return []
    kept, delta = residuals.weight > 0, float(problem.data.delta)
    weight, count = residuals.weight[kept], int(kept.sum())
    slopes, asymmetry = residuals.slopes[kept], float(problem.data.asymmetry)
    score, score_slope = smoothed_score(-residuals.off[kept], delta, asymmetry)
    if not np.isfinite(slopes).all() or not np.isfinite(score).all():
        return []
    root, _ = sandwich_root(slopes, weight, score, score_slope, np.arange(count))
    errors = np.linalg.norm(evidence.relative_slopes[:, moving] @ root.T, axis=1)
    law = problem.law
    can_be_loose = [k for k in moving if law.parameters[k].domain != "signed"]
    loose = {law.parameter_names[k]: errors[k] for k in can_be_loose if errors[k] > LOOSE}
    if not loose:
        return []
    named = ", ".join(f"{name} (±{error:.0%})" for name, error in loose.items())
    message = (
        f"these runs hardly bound {named} from above or from below: fix it, or add runs; "
        "jl.identifiability says which"
    )
    return [
        Note("loose", "warning" if max(loose.values()) > 1 else "info", message, inherited=False)
    ]


def _floor_notes(problem: FitProblem, linear: Linearisation) -> list[Note]:
    """Whether the residuals of a law that falls to zero ask for an irreducible loss.

    A score test: a constant added to the law moves the log of a prediction by one over that
    prediction. What of this the law's own parameters cannot do is held against the residuals,
    those of outliers shortened.
    """
    law, data = problem.law, problem.in_numpy
    if not law.with_floor:
        return []
    from scipy.special import stdtr  # only where it is needed

    jacobian, logs, target = linear.jacobian, linear.prediction, data.target
    if problem.model.residuals == "linear":
        with np.errstate(divide="ignore", invalid="ignore"):
            jacobian, logs, target = jacobian / logs[:, None], np.log(np.abs(logs)), np.log(target)
    residuals, root = target - logs, np.sqrt(data.weight)
    free = data.low < data.high
    slopes, bend = jacobian[:, free] * root[:, None], np.exp(-logs) * root
    usual = 3 * 1.4826 * np.median(np.abs(residuals[root > 0] - np.median(residuals[root > 0])))
    residuals = np.clip(residuals, -usual, usual) * root
    spare = int((root > 0).sum()) - slopes.shape[1] - 1
    if spare < 1 or not np.isfinite(slopes).all() or not np.isfinite(residuals).all():
        return []
    residuals, bend = (
        column - slopes @ np.linalg.lstsq(slopes, column, rcond=None)[0]
        for column in (residuals, bend)
    )
    size, before = bend @ bend, residuals @ residuals
    if size <= 0 or before <= EXACT**2 * (root @ root):
        return []
    after = max(before - (residuals @ bend) ** 2 / size, 1e-12 * before)
    certainty = (residuals @ bend) / np.sqrt(size * after / spare)
    if stdtr(spare, -certainty) > FLOOR or after > NEARLY_ALL**2 * before:
        return []
    message = (
        f"the loss levels off as in law {law.with_floor}: with an irreducible loss, which law "
        f"{law.name} lacks, the residuals would scatter by {np.sqrt(after / before):.0%} of what "
        "they do, or less; the two laws differ most beyond the runs"
    )
    return [Note("no-floor", "warning", message, inherited=True)]


def _requirement_notes(
    problem: FitProblem,
    params: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
    scatter: float,
) -> list[Note]:
    law, notes = problem.law, []
    if law.requirements is None:
        return []
    for note, size in law.requirements(law, params, ranges):
        if size <= scatter:
            text = f"{note.message}; this is within the scatter of the runs, {scatter:.2%}"
            note = dataclasses.replace(note, severity="info", message=text)
        notes.append(note)
    return notes
