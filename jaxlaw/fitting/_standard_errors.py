"""The standard errors of an optimum, made while its slopes are at hand.

A fit has linearised its problem at the optimum, to test its residuals. The standard errors that
:func:`jaxlaw.covariance` reports, which has the method and its sources, are a few products of
small matrices from there: they compile nothing. They are left out, with the reason, where they
would mislead: at a bound, of what the runs do not determine, of as many parameters as runs, and of
a search that did not converge.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from jaxlaw.data import RunGroups
from jaxlaw.fitting._objective import leave_group_out_steps, smoothed_score
from jaxlaw.fitting._problem import FitProblem, Linearisation
from jaxlaw.fitting._result import StandardErrors
from jaxlaw.fitting.solvers import Status


# A coefficient far from its centre may have an error beyond floating-point numbers, and residuals
# of a perfect fit are divided by next to nothing: such errors are infinite, and left out.
@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def standard_errors(
    problem: FitProblem,
    coordinates: np.ndarray,
    linear: Linearisation,
    status: Status,
    undetermined: Collection[str],
    runs: RunGroups | None,
) -> StandardErrors:
    """Standard errors of an optimum.

    Args:
        problem: the problem.
        coordinates: (p,) the optimum.
        linear: the problem linear around it.
        status: how the search ended.
        undetermined: parameters that the runs do not determine.
        runs: (n rows) runs whose rows share their noise; None where rows are independent.
    """
    data, moving = problem.in_numpy, problem.free_and_inside(coordinates)
    kept = data.weight > 0
    slopes, residuals = linear.jacobian[kept][:, moving], linear.residuals[kept]
    of_params = linear.params_jacobian[:, moving]
    if reason := _why_none(problem, slopes, residuals, of_params, status):
        return StandardErrors(reason=reason)
    count, size = slopes.shape
    members = np.arange(count) if runs is None else runs.members[kept]
    total = len(np.unique(members))
    score, score_slope = smoothed_score(residuals, float(data.delta), float(data.asymmetry))
    root, alone = sandwich_root(slopes, data.weight[kept], score, score_slope, members)
    if alone.any():
        what = "rows" if runs is None else f"runs ({', '.join(runs.columns)})"
        return StandardErrors(
            reason=f"{alone.sum()} of {total} {what} alone determine some parameter"
        )
    missing = _missing(problem, coordinates, of_params, moving, undetermined)
    of_base = moves_of_base(problem, coordinates, linear, data.weight[kept] * score_slope)
    moves = np.concatenate([root @ of_params.T, of_base @ linear.params_jacobian.T])
    degrees, base = count - size if runs is None else total - 1, problem.options.base
    return StandardErrors(
        **_values(problem, moves, missing),
        missing=missing,
        degrees=min(degrees, base.degrees) if len(of_base) else degrees,
        groups=() if runs is None else runs.columns,
    )


def moves_of_base(
    problem: FitProblem, coordinates: np.ndarray, linear: Linearisation, curvature: np.ndarray
) -> np.ndarray:
    """The root (m, p), in all coordinates, of the covariance that comes from that of the base.

    With the values that are held from a base the optimum moves by its implicit derivative: the
    others do what they can so that the residuals stay as they are. The runs of the base are not
    these, so that this covariance is added to that of the runs.

    Args:
        problem: the problem.
        coordinates: (p,) its optimum.
        linear: the problem linear around it.
        curvature: (k,) weight times smoothed curvature of the loss, of the rows that count.
    """
    base, names = problem.options.base, problem.law.parameter_names
    held = [] if base is None else [names.index(name) for name in base.values]
    moves = np.zeros((len(held), len(names)))
    if held:
        moves[:, held] = np.linalg.solve(linear.params_jacobian[np.ix_(held, held)], base.root()).T
        moving, kept = problem.free_and_inside(coordinates), problem.in_numpy.weight > 0
        rows = linear.jacobian[kept] * np.sqrt(curvature)[:, None]
        size = np.maximum(np.linalg.norm(rows[:, moving], axis=0), 1e-300)
        follow = np.linalg.lstsq(rows[:, moving] / size, rows @ moves.T, rcond=None)[0]
        moves[:, moving] = -(follow / size[:, None]).T
    return moves


def _values(problem: FitProblem, moves: np.ndarray, missing: dict[str, str]) -> dict[str, Any]:
    """Standard errors and covariance by parameter, from a root (m, p) of the covariance.

    Those that are no finite number go into ``missing``.
    """
    errors = np.linalg.norm(moves, axis=0)
    without = {*missing, *problem.options.fixed}
    named = dict(zip(problem.law.parameter_names, errors, strict=True))
    wild = [name for name, error in named.items() if not np.isfinite(error)]
    missing.update(dict.fromkeys(set(wild) - without, "not determined"))
    without |= {*wild}
    values = {name: float(error) for name, error in named.items() if name not in without}
    # Values from a base have their errors there; with them the others move, whom plans draw beside.
    base = problem.options.base
    moved = [*values, *(() if base is None else base.values)]
    columns = [problem.law.parameter_names.index(name) for name in moved]
    matrix = (moves.T @ moves)[np.ix_(columns, columns)].tolist()
    rows = [dict(zip(moved, row, strict=True)) for row in matrix]
    return {"values": values, "covariance": dict(zip(moved, rows, strict=True))}


def _why_none(
    problem: FitProblem, slopes: np.ndarray, residuals: np.ndarray, of_params: np.ndarray,
    status: Status,
) -> str:  # fmt: skip
    """Why no parameter has a standard error; empty where some have."""
    count, free = len(slopes), len(problem.options.free(problem.law))
    if not free:
        return "every parameter is fixed"
    # Though some are at a bound: the fit passes through all runs.
    if count <= free:
        return f"{count} rows for {free} parameters leave no scatter"
    if status != Status.CONVERGED:
        return f"the search ended with status '{status.label}'"
    if not all(np.isfinite(values).all() for values in (slopes, residuals, of_params)):
        return "the law has no slope at some row"
    return ""


def _missing(
    problem: FitProblem, coordinates: np.ndarray, of_params: np.ndarray, moving: np.ndarray,
    undetermined: Collection[str],
) -> dict[str, str]:  # fmt: skip
    """Parameter → why it has no standard error, though others have one.

    A coefficient that is counted at the centre of the data moves with its exponent: where the runs
    do not determine the exponent, they do not determine the coefficient in its own unit either,
    whatever is known of its coordinate.
    """
    names, bound = problem.law.parameter_names, problem.active_bounds(coordinates)
    open_ = [column for column, k in enumerate(moving) if names[k] in undetermined]
    missing = {}
    for name, row in zip(names, of_params, strict=True):
        if name in problem.options.fixed:
            continue
        if name in bound or not row.any():
            missing[name] = "at a bound"
        elif name in undetermined or row[open_].any():
            missing[name] = "not determined"
    return missing


def sandwich_root(
    jacobian: np.ndarray, weight: np.ndarray, score: np.ndarray, score_slope: np.ndarray,
    groups: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The root (G, k) of the sandwich covariance, whose product with itself it is.

    Args:
        jacobian, weight, score, score_slope, groups: as for ``leave_group_out_steps``.

    Returns:
        The root, and (G,) whether some combination of the coordinates is determined by that group
        alone; along these it is too small.
    """
    steps, alone = leave_group_out_steps(jacobian, weight, score, score_slope, groups)
    return steps * np.sqrt((len(steps) - 1) / len(steps)), alone
