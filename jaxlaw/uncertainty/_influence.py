"""What each run does to the fit: the optimum's derivative in the runs' weights.

By the implicit function theorem the optimum moves with the weight of run i by −H⁻¹ ∂(ρᵢ)/∂u, H
being the exact Hessian there; leaving the run out is, to first order, that times −wᵢ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import Amount
from jaxlaw._typed import checked, not_of_parameters
from jaxlaw.errors import UsageError
from jaxlaw.fitting import Fit, FitKeywords, FittedLaw, Refits, fit_many, lists_options
from jaxlaw.fitting._fit_batch import as_optimum
from jaxlaw.fitting._objective import Problem
from jaxlaw.fitting._transform import Model
from jaxlaw.laws import Law
from jaxlaw.uncertainty._fit_problem import FitWithData, fit_with_data
from jaxlaw.uncertainty._groups import group_names, group_numbers

Function = Callable[[Mapping[str, Any]], Any]


@lists_options
@checked
def influence(
    law: str | Law | FittedLaw,
    runs: Any,
    on: Function | Mapping[str, Amount] | None = None,
    *,
    groups: Any = None,
    refits: bool = False,
    **options: Unpack[FitKeywords],
) -> pd.DataFrame:
    """How far a parameter or a prediction would move if a run were left out.

    Args:
        law: fit of these runs; or a law or its name, to be fitted first.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        on: quantity that moves: every parameter unless given; the inputs of one prediction, in
            the runs' units; or a function of a dict name → natural value in the law's own
            units, to one number, in ``jax.numpy``.
        groups: columns or labels of rows that are left out together, as for
            :func:`jaxlaw.bootstrap`.
        refits: whether every run (or group) is left out and the law fitted again, all by one
            call; the derivative, which is the default, approximates that, and falls short where
            runs are few: each of five determines much of its own curve.
        **options: other options of :func:`jaxlaw.fit`; with a fit only those about reading.

    Returns:
        One row a run (indexed by what rows are called) or group (by its label: the name of a
        run, or ``1e+09/0.5`` of columns N and r): the change of every parameter, or of
        ``value``. NaN for refits that reached no optimum.

    Raises:
        UsageError: the call makes no sense, or these are not the fit's runs.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> change = jl.influence("chinchilla", table, {"N": 7e10, "D": 1e12})["value"]
        >>> len(change) == len(table)
        True
    """
    problem = fit_with_data(law, runs, **options)
    seen = problem.observations
    members, names = np.arange(len(seen)), pd.Index(seen.rows, name="row")
    if groups is not None:
        members = group_numbers(problem.runs, seen, groups)
        names = group_names(problem.runs, seen, groups)
    function = _function(problem.fit, on)
    with in_float64():
        jax.eval_shape(function, problem.fit.params)  # before the refits, not after them
    change = _refit(problem, members, function) if refits else _first_order(problem, function)
    _, first, number = np.unique(members, return_index=True, return_inverse=True)
    if not refits:
        change = {name: np.bincount(number, values, len(first)) for name, values in change.items()}
    index = names[first].rename("group") if names.name in change else names[first]
    return pd.DataFrame(change, index=index)


def _function(fit: Fit, on: Function | Mapping[str, Amount] | None) -> Callable[..., dict]:
    """From parameters to the numbers whose change is wanted, by name."""
    if on is None:
        names = [name for name in fit.law.parameter_names if name not in fit.fixed]
        return lambda params: {name: params[name] for name in names}
    if callable(on):
        return lambda params: {"value": _answer(on, params)}
    values = fit.checked_inputs(None, on)
    if any(np.ndim(value) for value in values.values()):
        raise UsageError("influence is on one prediction: give a number for each input")
    at = {name: value * fit.units[name] for name, value in values.items()}
    return lambda params: {"value": fit.law(params, **at)}


def _answer(on: Function, params: Mapping[str, Any]) -> Any:
    try:
        return jnp.asarray(on(params), float).reshape(())
    except (TypeError, ValueError) as error:
        raise not_of_parameters("on", error) from error


def _first_order(problem: FitWithData, function: Callable[..., dict]) -> dict[str, np.ndarray]:
    """To first order, (n,) by name."""
    solved, weight = problem.fit_problem, problem.observations.weight
    with in_float64():
        slopes = _moves(solved.model, solved.data, jnp.asarray(problem.coordinates))
        slopes = slopes[:, : solved.n_rows]

        def along(at: jax.Array) -> dict:
            return function(solved.transform.to_natural(tuple(at)))

        outer = jax.jacfwd(along)(jnp.asarray(problem.coordinates))
        names = function(problem.fit.params)  # in their order, which jax does not keep
        return {name: -np.asarray(outer[name] @ slopes) * weight for name in names}


@compiled(optimised=False, static_argnames="model")
def _moves(model: Model, problem: Problem, at: jax.Array) -> jax.Array:
    """Slopes (p, n) of the optimum in the weights."""
    return jax.jacrev(lambda w: as_optimum(model, problem._replace(weight=w), at)[0])(
        problem.weight
    )


def _refit(
    problem: FitWithData, members: np.ndarray, function: Callable[..., dict]
) -> dict[str, np.ndarray]:
    """By leaving each group out, (groups,) by name."""
    refits = leave_each_out(problem, members, np.unique(members))
    with in_float64():
        before = function(problem.fit.params)
        after = jax.vmap(function)({k: jnp.asarray(v) for k, v in refits.params.items()})
    return {name: np.asarray(after[name]) - np.asarray(value) for name, value in before.items()}


def leave_each_out(problem: FitWithData, members: np.ndarray, groups: np.ndarray) -> Refits:
    """Refits without the rows (n,) of each of the groups (G,); NaN where there is no optimum."""
    fit, seen = problem.fit, problem.observations
    refits = fit_many(
        fit.law, seen, np.where(members == groups[:, None], 0.0, seen.weight),
        options=replace(problem.options, n_starts=64, n_local=8),
        extra_starts=np.array([[*fit.params.values()]]),
    )  # fmt: skip
    lost = ~np.isfinite(refits.objective)
    params = {name: np.where(lost, np.nan, values) for name, values in refits.params.items()}
    return replace(refits, params=params)
