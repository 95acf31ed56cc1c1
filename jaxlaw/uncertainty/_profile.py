"""The profile of the objective: how much worse the fit gets as one quantity is fixed elsewhere.

With Q(v) the least objective among parameters that give the quantity the value v, the interval is
where the signed root ±√(2 (Q(v) − Q) / κ) stays within Student's t. For least squares κ is s², and
this is the exact interval of textbooks. A Huber objective is no likelihood, so κ is calibrated: it
is the quantity's sandwich variance over the one that the (smoothed) Hessian alone would give, which
makes the root standard normal in large samples, with whatever noise and groups the sandwich has.
The profile's shape, and so the interval's asymmetry, is the objective's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.special import stdtrit

from jaxlaw._answer import Answer
from jaxlaw._arrays import check_level
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import Amount, Quantity, written, written_range
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import (
    Fit,
    FitKeywords,
    FitProblem,
    FittedLaw,
    build_problem,
    lists_options,
    predict_each,
)
from jaxlaw.fitting._engine import solve
from jaxlaw.fitting._objective import LARGEST_DELTA, Problem, predict, scale_on_host, scaled_value
from jaxlaw.fitting._transform import Model
from jaxlaw.fitting.solvers import SOLVERS
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.uncertainty._covariance import Covariance, covariance
from jaxlaw.uncertainty._fit_problem import FitWithData
from jaxlaw.uncertainty._intervals import LEVEL

POINTS = 33  # values of the quantity
REACH = 5.0  # standard errors to either side
_MARGIN = 20.0  # by which the score of a fixed prediction's row exceeds what it has to be


def profile_interval(profile: Answer, confidence_level: float) -> tuple[float, float]:
    """The bounds of a profile at another level than its own.

    Args:
        profile: what :func:`profile` returned.
        confidence_level: share of such intervals that should hold the truth.

    Returns:
        Low and high; infinite where the profile, over five standard errors, never gets that much
        worse.

    Raises:
        UsageError: a level outside (0, 1).

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> alpha = jl.profile("chinchilla", table, "alpha")
        >>> low, high = jl.uncertainty.profile_interval(alpha, 0.9)
        >>> bool(alpha.interval["alpha"][0] < low < alpha.estimate < high)
        True
    """
    return _between(profile.table, profile.estimate, profile.degrees, confidence_level)


def _between(
    table: pd.DataFrame, estimate: float, degrees: int, confidence_level: float
) -> tuple[float, float]:
    check_level(confidence_level)
    limit = float(stdtrit(degrees, (1 + confidence_level) / 2))
    value, root = (table[name].to_numpy() for name in ("value", "root"))
    middle = int(np.argmin(np.abs(value - estimate)))
    high = _crossing(value[middle:], root[middle:], limit)
    return -_crossing(-value[middle::-1], -root[middle::-1], limit), high


def _crossing(value: np.ndarray, root: np.ndarray, limit: float) -> float:
    """Where a root that rises from the estimate on first reaches the limit."""
    beyond = np.flatnonzero(root > limit)
    if not len(beyond) or beyond[0] == 0:
        return np.inf
    k = beyond[0]
    return float(np.interp(limit, root[k - 1 : k + 1], value[k - 1 : k + 1]))


@lists_options(FitKeywords)
@checked
def profile(
    law: str | Law | FittedLaw,
    runs: Any,
    quantity: str | Mapping[str, Amount],
    *,
    at: Mapping[str, Amount] | None = None,
    groups: Any = None,
    robust: bool = True,
    level: ConfidenceLevel = LEVEL,
    **options: Unpack[FitKeywords],
) -> Answer:
    """The profile of a parameter or a prediction.

    Args:
        law: fit of these runs; or a law or its name, to be fitted first.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        quantity: name of a parameter; or the inputs of one prediction, in the runs' units.
        at: inputs of a point whose prediction is followed as the parameter is fixed elsewhere: how
            much a loss far out rests on the floor ``E``, for one.
        groups, robust: model of the noise for the calibration, see :func:`jaxlaw.covariance`.
        level: confidence level of the interval.
        **options: other options of :func:`jaxlaw.fit`; with a fit only those about reading.

    Returns:
        Answer of kind ``profile``: the parameter, or the target, by its name, with its interval
        at ``level``; ``estimate`` and ``std_err`` (of the sandwich covariance), ``degrees`` of
        Student's t, ``quantity`` in words, ``params`` of the fit and ``at``. Table ``table``
        over 5 standard errors to either side: ``value``, ``objective`` (summed Huber loss) and
        ``root`` (signed); with ``at=`` also ``prediction`` there.

    Raises:
        UsageError: no such parameter, or one that cannot be fixed.
        DataError: the data leave some combination of the parameters open.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> far = jl.profile("chinchilla", table, {"N": 7e10, "D": 1e12})
        >>> far.quantity
        'loss at N=7e+10, D=1e+12'
        >>> bool(far.interval["loss"][0] < far.estimate < far.interval["loss"][1])
        True
        >>> floor = jl.profile("chinchilla", table, "E", at={"N": 7e10, "D": 1e12})
        >>> list(floor.table)
        ['value', 'objective', 'root', 'prediction']

    Shell:
        jaxlaw profile fit.json runs.csv --quantity alpha
    """
    if at is not None and not isinstance(quantity, str):
        raise UsageError("at= follows a prediction as a parameter is fixed: name the parameter")
    cov = covariance(law, runs, groups=groups, robust=robust, **options)
    grid = _parameter(cov, quantity) if isinstance(quantity, str) else _prediction(cov, quantity)
    followed = None if at is None else _one_point(cov.fit, at)
    value, objective, optima = _solve_grid(grid)
    gained = cov.fit.objective - objective.min()
    root = np.sqrt(np.maximum(2 * (objective - cov.fit.objective) / grid.kappa, 0))
    root *= np.sign(value - grid.estimate)
    table = pd.DataFrame({"value": value, "objective": objective, "root": root})
    notes = list(cov.notes)
    if gained > 1e-6 * cov.fit.objective:
        message = (
            f"fixed elsewhere, {grid.name} gives a lower objective than the fit's, by "
            f"{gained / cov.fit.objective:.1e} of it: fit again with more starts (n_starts=)"
        )
        notes.append(Note("few-starts-agree", "warning", message, inherited=False))
    fit, name = cov.fit, quantity if isinstance(quantity, str) else cov.fit.law.target
    units = fit.input_units()
    unit = units[name] if name == fit.law.target else (fit.quantities[name].unit, 1.0)
    low, high = _between(table, grid.estimate, cov.degrees, level)
    between = f"({100 * level:.4g} %: {written_range(low, high, *unit)})"
    error = Quantity(grid.error, *unit)
    sentence = f"{grid.name}: {written(grid.estimate, *unit)} {between}, standard error {error}"
    if followed is not None:
        params = grid.problem.params(optima) | {grid.name: grid.values}
        inputs = {name: np.array([v * fit.units[name]]) for name, v in followed.items()}
        table["prediction"] = predict_each(fit.law, params, inputs)[:, 0]
        there = map(float, np.interp([low, high], table["value"], table["prediction"]))
        where, noun = ", ".join(f"{n}={x:g}" for n, x in followed.items()), units[fit.law.target][0]
        sentence += (
            f"; over that range the {fit.law.target} at {where} goes from "
            f"{written_range(*there, noun)} {noun}".rstrip()
        )
    return Answer(
        kind="profile", sentence=sentence, tables={"table": table}, level=level, notes=tuple(notes),
        quantities={name: Quantity(grid.estimate, *unit, low, high), "std_err": error},
        units=units | {"value": unit, "prediction": units[fit.law.target]},
        facts={"quantity": grid.name, "estimate": grid.estimate, "degrees": cov.degrees,
               "law": fit.law.name, "params": dict(fit.params), "at": followed},
    )  # fmt: skip


class _Grid(NamedTuple):
    """A quantity fixed at P values: a problem for each, and how to read their objectives."""

    name: str
    estimate: float
    error: float
    kappa: float
    problem: FitProblem
    problems: Problem
    batched: frozenset[str]
    starts: np.ndarray  # (P, 2, p)
    values: np.ndarray | None  # (P,) of a parameter; a prediction's are where it ends up


def _kappa(cov: Covariance, slope: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Standard error, calibration κ, and the step (k,) of the coordinates for one such error.

    A Huber objective is no log likelihood: 2(Q(v) − Q) is not χ² of one degree, even in large
    samples. To second order it is (v − v̂)²/(gᵀH⁻¹g), g the slope of the quantity in the
    coordinates and H the smoothed Hessian, while v − v̂ has the sandwich variance gᵀVg. So
    2(Q(v) − Q)/κ with κ = gᵀVg / gᵀH⁻¹g is the square of a standard normal. For least squares of
    equal noise κ is s², and the interval is exactly the F test's.
    """
    variance, slope = slope @ cov.coordinates @ slope, slope[: len(cov.bread)]
    model = slope @ cov.bread @ slope
    if not model > 0:
        raise UsageError("this quantity does not move with any parameter: it has no profile")
    error = float(np.sqrt(variance))
    return error, float(variance / model), cov.bread @ slope / model * error


def _along(problem: FitWithData, direction: np.ndarray, steps: np.ndarray) -> dict[str, np.ndarray]:
    """Natural parameters (P,) along a straight line from the optimum, as starts."""
    at = np.tile(problem.coordinates, (len(steps), 1))
    at[:, problem.free_and_inside] += steps[:, None] * direction
    low, high = (
        np.asarray(side) for side in (problem.fit_problem.data.low, problem.fit_problem.data.high)
    )
    return problem.fit_problem.params(np.clip(at, low, high))


def _parameter(cov: Covariance, name: str) -> _Grid:
    """A parameter fixed at each value, as :func:`jaxlaw.fit` would fix it."""
    problem, fit = cov.problem, cov.fit
    spec = fit.law.parameter(name)
    if name in {**fit.fixed, **fit.tied, **fit.bounds}:
        raise UsageError(f"parameter {name} is fixed, tied or bounded already: profile another")
    error, kappa, way = _kappa(cov, cov.slopes(lambda params: params[name]))
    steps, estimate = np.linspace(-REACH, REACH, POINTS), fit.params[name]
    log = spec.scale == "log"
    values = estimate * np.exp(steps * error / estimate) if log else estimate + steps * error
    if not log and not spec.centre:
        inside = (values >= spec.low) & (values <= spec.high)
        values, steps = values[inside], steps[inside]
    params = _along(problem, way, steps) | {name: values}
    seen, solved, starts = problem.observations, [], []
    with in_float64():
        for k, value in enumerate(values):
            fixed = {**fit.fixed, name: float(value)}
            built = build_problem(
                fit.law,
                seen.inputs,
                seen.target,
                seen.weight,
                replace(problem.options, fixed=fixed),
            )
            near = {key: column[k] for key, column in params.items()}
            solved.append(built)
            starts.append([built.coordinates(near), built.coordinates(fit.params | {name: value})])
        problems = solved[0].data._replace(
            low=jnp.stack([built.data.low for built in solved]),
            high=jnp.stack([built.data.high for built in solved]),
        )
    return _Grid(
        name, estimate, error, kappa, solved[0], problems, frozenset({"low", "high"}),
        np.array(starts), values,
    )  # fmt: skip


def _prediction(cov: Covariance, point: Mapping[str, Amount]) -> _Grid:
    """A prediction fixed: one more row pulls the curve to each value there.

    Wherever the curve ends up, its parameters are the best of all that predict what it predicts
    there: the row's own loss, a function of that prediction alone, is taken off again.
    """
    problem, fit = cov.problem, cov.fit
    law, seen = fit.law, problem.observations
    at = {name: value * fit.units[name] for name, value in _one_point(fit, point).items()}
    log = problem.fit_problem.model.residuals == "log"

    def predicted(params: Mapping[str, Any]) -> Any:
        value = law(params, **at)
        return jnp.log(value) if log else value

    error, kappa, way = _kappa(cov, cov.slopes(predicted))
    steps = np.linspace(-REACH, REACH, POINTS)
    with in_float64():
        estimate = float(predicted(fit.params))
    delta = min(fit.delta, LARGEST_DELTA)
    least = min(1.0, fit.asymmetry)
    row = _MARGIN * kappa * REACH / error / min(delta, error) / least
    targets = np.tile(np.append(seen.target, 0.0), (len(steps), 1))
    targets[:, :-1] = np.log(targets[:, :-1]) if log else targets[:, :-1]
    targets[:, -1] = estimate + steps * error
    inputs = {name: np.append(column, at[name]) for name, column in seen.inputs.items()}
    with in_float64():
        solved = build_problem(
            law, inputs, np.append(seen.target, 1.0), np.append(seen.weight, row), problem.options
        )
        starts = np.stack(
            [solved.coordinates(_along(problem, way, part * steps)) for part in (1, 0)], axis=1
        )
    # Of numpy: a JAX array made here, outside the scope of float64, would be one of float32.
    problems = solved.data._replace(**solved.many(targets=targets))
    name = ", ".join(f"{key}={value / fit.units[key]:g}" for key, value in at.items())
    estimate, error = (np.exp(estimate), np.exp(estimate) * error) if log else (estimate, error)
    return _Grid(
        f"{law.target} at {name}", float(estimate), float(error), kappa, solved, problems,
        frozenset({"target"}), starts, None,
    )  # fmt: skip


def _one_point(fit: Fit, point: Mapping[str, Amount]) -> dict[str, float]:
    """The inputs of one prediction, in the units of the runs."""
    values = fit.checked_inputs(None, point)
    if any(np.ndim(value) for value in values.values()):
        raise UsageError("a profile is of one prediction: give a number for each input")
    return {name: float(value) for name, value in values.items()}


def _solve_grid(grid: _Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values (P,) of the quantity, the least objectives there, and where (P, p) they are."""
    with in_float64():
        at, loss = _best(grid, grid.starts)
        beside = np.stack([np.roll(at, 1, axis=0), np.roll(at, -1, axis=0)], axis=1)
        again, second = _best(grid, beside)  # from the optima of the neighbours
        better = second < loss
        at, loss = np.where(better[:, None], again, at), np.where(better, second, loss)
        values = grid.values
        if values is None:
            last = grid.problem.n_rows - 1
            pulled = _without_row(grid.problem.model, grid.problems, at, last)
            values, loss = map(np.asarray, pulled)
        return values, loss * scale_on_host(grid.problems), at


def _best(grid: _Grid, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = (np.asarray(side) for side in (grid.problems.low, grid.problems.high))
    if low.ndim == 2:
        low, high = low[:, None], high[:, None]
    starts = np.clip(starts, low, high)
    lanes = solve(SOLVERS["newton"], grid.problem.model, grid.problems, starts, grid.batched)
    loss = np.where(np.isfinite(lanes.value), lanes.value, np.inf)
    best = np.argmin(loss, axis=1)
    rows = np.arange(len(best))
    return lanes.coordinates[rows, best], loss[rows, best]


@compiled(optimised=False, static_argnames="model")
def _without_row(
    model: Model, problem: Problem, at: jax.Array, row: int
) -> tuple[jax.Array, jax.Array]:
    """A row's prediction at each grid point (P,), and the scaled objective of the others."""
    others = problem._replace(weight=problem.weight.at[row].set(0.0))

    def one(target: jax.Array, here: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss = scaled_value(model, others._replace(target=target), here)
        return predict(model, others, here)[row], loss

    return jax.vmap(one)(problem.target, at)
