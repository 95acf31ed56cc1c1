"""Practical identifiability: combinations of parameters that the data know only together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw._rounding import first_largest
from jaxlaw._typed import checked
from jaxlaw.fitting import FitKeywords, FittedLaw, lists_options, sandwich_root
from jaxlaw.laws import Law
from jaxlaw.laws._structural_identifiability import inseparable
from jaxlaw.notes import Note
from jaxlaw.uncertainty._covariance import sandwich_parts
from jaxlaw.uncertainty._fit_problem import FitWithData, fit_with_data
from jaxlaw.uncertainty._groups import group_numbers

LOOSE = 0.25  # relative standard error of a direction from which on it is called loose
OPEN = 1e3  # … from which on it is not known at all
_SHARE = 0.5  # of a parameter's variance that comes from a direction, for it to be named there
_FEW = 3  # values of an input that may be too few
_ALIKE = 1e-6  # fraction of the largest by which parts that are equal on paper may differ


@lists_options
@checked
def identifiability(
    law: str | Law | FittedLaw, runs: Any, *, groups: Any = None, **options: Unpack[FitKeywords]
) -> pd.DataFrame:
    """The combinations of parameters that the data determine, the worst first.

    Principal directions of the sandwich covariance (:func:`jaxlaw.covariance`, so noise may
    differ from row to row, and is independent between rows or groups) in the logarithms of the
    parameters, each with its standard error: 0.1 says that parameters may move by 10% in this
    direction. Directions in which the residuals do not move at all come first.

    Args:
        law: fit of these runs; or a law or its name, to be fitted first.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        groups: columns or labels of rows that share noise, as for :func:`jaxlaw.bootstrap`.
        **options: other options of :func:`jaxlaw.fit`; with a fit only those about reading.

    Returns:
        One row a direction: ``std_err`` (infinite where the data say nothing), a column
        for every parameter with the relative move by one standard error (by one unit, if
        infinite), and ``advice``: a sentence on directions looser than 25%, else empty.

    Raises:
        UsageError: the call makes no sense, or these are not the fit's runs.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> directions = jl.identifiability("chinchilla", table)
        >>> len(directions), directions["advice"].tolist()
        (5, ['', '', '', '', ''])
    """
    problem = fit_with_data(law, runs, **options)
    return directions(problem, group_numbers(problem.runs, problem.observations, groups))


def directions(problem: FitWithData, members: np.ndarray) -> pd.DataFrame:
    """:func:`identifiability` of a fit with its data, given the group (n,) of every observation."""
    moving = problem.free_and_inside
    names = [problem.fit.law.parameter_names[k] for k in moving]
    linear = problem.linear
    here, inner = linear.params[moving], linear.params_jacobian[np.ix_(moving, moving)]
    slopes, weight, score, score_slope = sandwich_parts(problem)
    # In log |parameter|.
    slopes = slopes @ np.linalg.solve(inner, np.diag(np.where(here == 0, 1.0, np.abs(here))))
    curved = slopes * np.sqrt(weight * score_slope)[:, None]
    _, singular, rotation = np.linalg.svd(curved, full_matrices=False)
    open_ = singular < 1e-9 * singular.max(initial=1e-300)
    settled = rotation[~open_]
    # In coordinates in which the Hessian is 1 no direction is lost to rounding. The sandwich
    # covariance is VᵀV there, the rows of V being the steps of the optimum when a row is left out.
    units = settled.T / singular[~open_]
    root, _ = sandwich_root(slopes @ units, weight, score, score_slope, members[problem.active])
    _, spread, turn = np.linalg.svd(root / singular[~open_], full_matrices=False)
    error = np.append(np.full(open_.sum(), np.inf), spread)
    rotation = np.concatenate([rotation[open_], turn @ settled])
    largest = [row[first_largest(np.abs(row), _ALIKE)] for row in rotation]
    rotation = rotation * np.sign(largest)[:, None]  # no sign: the largest move is upwards
    parts = (np.minimum(error, 1e9)[:, None] * rotation) ** 2
    shares = parts / parts.sum(axis=0)
    moves = np.where(np.isfinite(error), error, 1.0)[:, None] * rotation
    rows = [
        {
            "std_err": error[k],
            **dict(zip(names, moves[k], strict=True)),
            "advice": _advice(problem, names, error[k], moves[k], shares[k]),
        }
        for k in range(len(error))
    ]
    return pd.DataFrame(rows, columns=["std_err", *names, "advice"])


def open_notes(problem: FitWithData, members: np.ndarray) -> list[Note]:
    """The advice on loose directions as notes; ``unidentifiable`` where they are not known at all.

    An interval shows that a direction is loose; it cannot show that one is not known at all.
    """
    table = directions(problem, members)
    errors, advice = table["std_err"], table["advice"]
    return [
        Note("unidentifiable" if error > OPEN else "loose", "warning", text, inherited=error > OPEN)
        for error, text in zip(errors, advice, strict=True)
        if text
    ]


def _advice(
    problem: FitWithData, names: Sequence[str], error: float, move: np.ndarray, share: np.ndarray
) -> str:
    if error < LOOSE:
        return ""
    best = names[first_largest(share, _ALIKE)]
    mixed = [name for name, part in zip(names, share, strict=True) if part > _SHARE] or [best]
    # An input with too few values to tell these parameters apart.
    law, more = problem.fit.law, "add runs (jl.design.next_runs chooses them)"
    for spec in law.inputs:
        values = np.unique(problem.observations.inputs[spec.name][problem.active])
        count = len(values)
        known = (count,) if spec.domain == "positive" else tuple(values)
        free = problem.options.free(law)
        if count <= _FEW and {*mixed} <= {*inseparable(law, spec.name, known, free)}:
            plural = "s" * (count > 1)
            more = f"add runs with another {spec.name} (it has {count} value{plural})"
            break
    unknown = error > OPEN
    if len(mixed) == 1:
        head = f"{best} is not determined" if unknown else f"{best} is known to ±{error:.0%} only"
        return f"{head}: fix it, or {more}"
    listed = f"{', '.join(mixed[:-1])} and {mixed[-1]}"
    if unknown:
        head = f"{listed} cannot be distinguished"
    else:
        signed = dict(zip(names, move * np.sign(move[names.index(best)]), strict=True))
        steps = ", ".join(f"{name} ×{np.exp(signed[name]):.3g}" for name in mixed)
        head = f"{listed} are determined only in combination (the fit hardly changes with {steps})"
    return f"{head}: fix one (best {best}), or {more}"
