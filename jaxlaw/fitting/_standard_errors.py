"""The standard errors of an optimum, from the slopes of its fit.

A fit has linearised its problem at the optimum, to test its residuals. The standard errors that
:func:`jaxlaw.covariance` reports, which has the method and its sources, are a few products of
small matrices from there: they compile nothing. They are left out, with the reason, where they
would mislead: at a bound, of what the runs do not determine, of as many parameters as runs, and of
a search that did not converge.
"""

from __future__ import annotations

from collections.abc import Collection

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

    A coefficient that is counted at the centre of the data moves with its exponent: where the runs
    do not determine the exponent, they do not determine the coefficient in its own unit either,
    whatever is known of its coordinate.

    Args:
        problem: the problem.
        coordinates: (p,) the optimum.
        linear: the problem linear around it.
        status: how the search ended.
        undetermined: parameters that the runs do not determine.
        runs: (n rows) runs whose rows share their noise; None where rows are independent.
    """
    data, moving = problem.unpadded, problem.free_and_inside(coordinates)
    kept, names, fixed = data.weight > 0, problem.law.parameter_names, problem.options.fixed
    slopes, residuals = linear.jacobian[kept][:, moving], linear.residuals[kept]
    of_params, count = linear.params_jacobian[:, moving], len(residuals)
    reason, free = "", len(problem.options.free(problem.law))
    if not free:
        reason = "every parameter is fixed"
    elif count <= free:  # though some are at a bound: the fit passes through all runs
        reason = f"{count} rows for {free} parameters leave no scatter"
    elif status != Status.CONVERGED:
        reason = f"the search ended with status '{status.label}'"
    elif not all(np.isfinite(values).all() for values in (slopes, residuals, of_params)):
        reason = "the law has no slope at some row"
    if reason:
        return StandardErrors(reason=reason)
    members = np.arange(count) if runs is None else runs.members[kept]
    total = len(np.unique(members))
    score, score_slope = smoothed_score(residuals, float(data.delta), float(data.asymmetry))
    root, alone = sandwich_root(slopes, data.weight[kept], score, score_slope, members)
    if alone.any():
        what = "rows" if runs is None else f"runs ({', '.join(runs.columns)})"
        return StandardErrors(
            reason=f"{alone.sum()} of {total} {what} alone determine some parameter"
        )
    of_base = moves_of_base(problem, coordinates, linear, data.weight[kept] * score_slope)
    moves = np.concatenate([root @ of_params.T, of_base @ linear.params_jacobian.T])
    errors = dict(zip(names, np.linalg.norm(moves, axis=0), strict=True))
    bound = problem.active_bounds(coordinates)
    unseen = [column for column, k in enumerate(moving) if names[k] in undetermined]
    missing = {}
    for name, row in zip(names, of_params, strict=True):
        if name in fixed:
            continue
        if name in bound or not row.any():
            missing[name] = "at a bound"
        elif name in undetermined or row[unseen].any() or not np.isfinite(errors[name]):
            missing[name] = "not determined"
    values = {name: float(e) for name, e in errors.items() if name not in {*missing, *fixed}}
    # Values from a base have their errors there; with them the others move, whom plans draw beside.
    degrees, base = count - slopes.shape[1] if runs is None else total - 1, problem.options.base
    moved = [*values, *(() if base is None else base.values)]
    columns = [names.index(name) for name in moved]
    matrix = (moves.T @ moves)[np.ix_(columns, columns)].tolist()
    return StandardErrors(
        values=values,
        covariance={name: dict(zip(moved, matrix[k], strict=True)) for k, name in enumerate(moved)},
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
        moving, kept = problem.free_and_inside(coordinates), problem.unpadded.weight > 0
        rows = linear.jacobian[kept] * np.sqrt(curvature)[:, None]
        size = np.maximum(np.linalg.norm(rows[:, moving], axis=0), 1e-300)
        follow = np.linalg.lstsq(rows[:, moving] / size, rows @ moves.T, rcond=None)[0]
        moves[:, moving] = -(follow / size[:, None]).T
    return moves


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
