"""What each run does to the fit: the optimum's derivative in the runs' weights.

By the implicit function theorem the optimum moves with the weight of run i by −H⁻¹ ∂(ρᵢ)/∂u, H
being the exact Hessian there; leaving the run out is, to first order, that times −wᵢ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import Amount
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import FitKeywords, FittedLaw, lists_options
from jaxlaw.fitting._fit_batch import as_optimum
from jaxlaw.fitting._objective import Problem
from jaxlaw.fitting._transform import Model
from jaxlaw.laws import Law
from jaxlaw.uncertainty._fit_problem import fit_with_data
from jaxlaw.uncertainty._groups import group_labels, group_numbers


@lists_options
@checked
def influence(
    law: str | Law | FittedLaw,
    runs: Any,
    on: Mapping[str, Amount] | None = None,
    *,
    groups: Any = None,
    **options: Unpack[FitKeywords],
) -> pd.DataFrame:
    """How far a parameter or a prediction would move if a run were left out, to first order.

    It falls short where runs are few: each of five determines much of its own curve.
    :func:`jaxlaw.cross_validate` leaves runs out and fits again.

    Args:
        law: fit of these runs; or a law or its name, to be fitted first.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        on: what moves: every parameter unless given; or the prediction at these inputs, in the
            runs' units.
        groups: columns or labels of rows that are left out together, as for
            :func:`jaxlaw.bootstrap`.
        **options: other options of :func:`jaxlaw.fit`; with a fit only those about reading.

    Returns:
        One row per run (indexed by what rows are called) or group (by its label, a level each of
        several columns): the change of every parameter, or of ``value``.

    Raises:
        UsageError: the call makes no sense, or these are not the fit's runs.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> change = jl.influence("chinchilla", table, {"N": 7e10, "D": 1e12})["value"]
        >>> len(change) == len(table)
        True
    """
    problem = fit_with_data(law, runs, **options)
    fit, seen, solved = problem.fit, problem.observations, problem.fit_problem
    members, names = group_numbers(problem.runs, seen, groups), pd.Index(seen.rows, name="row")
    if groups is not None:
        labels = group_labels(problem.runs, seen, groups)
        for name in labels.columns.intersection([*seen.inputs]):  # in the units of the runs
            labels[name] = labels[name] / seen.scale[name]
        names = labels.set_index([*labels]).index
    _, first, number = np.unique(members, return_index=True, return_inverse=True)
    values = {} if on is None else fit.checked_inputs(None, on)
    if any(np.ndim(value) for value in values.values()):
        raise UsageError("influence is on one prediction: give a number for each input")
    at = {name: value * fit.units[name] for name, value in values.items()}
    free = [name for name in fit.law.parameter_names if name not in fit.fixed]

    def wanted(params):
        """The numbers whose change is wanted, by name."""
        return {"value": fit.law(params, **at)} if at else {name: params[name] for name in free}

    with in_float64():
        here = jnp.asarray(problem.coordinates)
        slopes = _moves(solved.model, solved.data, here)[:, : solved.n_rows]
        outer = jax.jacfwd(lambda u: wanted(solved.transform.to_natural(tuple(u))))(here)
        change = {
            name: np.bincount(number, -np.asarray(outer[name] @ slopes) * seen.weight)
            for name in (["value"] if at else free)
        }
    return pd.DataFrame(change, index=names[first])


@compiled(optimised=False, static_argnames="model")
def _moves(model: Model, problem: Problem, at: jax.Array) -> jax.Array:
    """Slopes (p, n) of the optimum in the weights."""
    return jax.jacrev(lambda w: as_optimum(model, problem._replace(weight=w), at)[0])(
        problem.weight
    )
