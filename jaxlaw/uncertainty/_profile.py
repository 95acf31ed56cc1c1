"""The profile of the objective: how much worse the fit gets as a parameter is fixed elsewhere.

With Q(v) the least objective among parameters one of which has the value v, the interval is
where the signed root ±√(2 (Q(v) − Q) / κ) stays within Student's t. For least squares κ is s², and
this is the exact interval of textbooks. A Huber objective is no likelihood, so κ is calibrated: it
is the parameter's sandwich variance over the one that the (smoothed) Hessian alone would give,
which makes the root standard normal in large samples, with whatever noise and groups the sandwich
has.
The profile's shape, and so the interval's asymmetry, is the objective's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.special import stdtrit

from jaxlaw._answer import Answer
from jaxlaw._arrays import check_level
from jaxlaw._jit import in_float64
from jaxlaw._quantities import Quantity
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import FitKeywords, FitProblem, FittedLaw, lists_options, problem_of
from jaxlaw.fitting._engine import solve
from jaxlaw.fitting._objective import Problem, scale_on_host
from jaxlaw.fitting.solvers import SOLVERS
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.uncertainty._covariance import covariance
from jaxlaw.uncertainty._intervals import LEVEL

POINTS = 33  # values of the quantity
REACH = 5.0  # standard errors to either side


def profile_interval(profile: Answer, confidence_level: float) -> tuple[float, float]:
    """The bounds of a profile at another level than its own.

    Args:
        profile: what :func:`profile` returned.
        confidence_level: fraction of such intervals that should hold the truth.

    Returns:
        Low and high; infinite where the profile, over five standard errors, never gets that much
        worse.

    Raises:
        UsageError: a level outside (0, 1).

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> alpha = jl.profile("chinchilla", table, "alpha")
        >>> low, high = jl.uncertainty.profile_interval(alpha, 0.8)
        >>> bool(alpha.interval["alpha"][0] < low < alpha.estimate < high)
        True
    """
    return _between(profile.table, profile.estimate, profile.degrees, confidence_level)


def _between(
    table: pd.DataFrame, estimate: float, degrees: int, confidence_level: float
) -> tuple[float, float]:
    check_level(confidence_level)
    limit, ends = float(stdtrit(degrees, (1 + confidence_level) / 2)), []
    value, root = (table[name].to_numpy() for name in ("value", "root"))
    middle = int(np.argmin(np.abs(value - estimate)))
    for sign in (-1, 1):  # where a root that rises from the estimate on first reaches the limit
        at, rising = sign * value[middle::sign], sign * root[middle::sign]
        beyond = np.flatnonzero(rising > limit)
        k = beyond[0] if len(beyond) else 0
        near = slice(k - 1, k + 1)
        ends.append(sign * float(np.interp(limit, rising[near], at[near]) if k else np.inf))
    low, high = ends
    return low, high


@lists_options
@checked
def profile(
    law: str | Law | FittedLaw,
    runs: Any,
    quantity: str,
    *,
    groups: Any = None,
    level: ConfidenceLevel = LEVEL,
    **options: Unpack[FitKeywords],
) -> Answer:
    """The profile of a parameter.

    Args:
        law: fit of these runs; or a law or its name, to be fitted first.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        quantity: name of a parameter.
        groups: rows that share noise, for the calibration, see :func:`jaxlaw.covariance`.
        level: confidence level of the interval.
        **options: other options of :func:`jaxlaw.fit`; with a fit only those about reading.

    Returns:
        Answer of kind ``profile``: the parameter by its name, with its interval at ``level``;
        ``estimate`` and ``std_err`` (of the sandwich covariance), ``degrees`` of Student's t,
        ``quantity``, and the ``law`` and ``params`` of the fit. Table ``table`` over 5 standard
        errors to either side: ``value``, ``objective`` (summed Huber loss) and ``root`` (signed).

    Raises:
        UsageError: no such parameter, or one that cannot be fixed.
        DataError: the data leave some combination of the parameters open.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> alpha = jl.profile("chinchilla", table, "alpha")
        >>> bool(alpha.interval["alpha"][0] < alpha.estimate < alpha.interval["alpha"][1])
        True
        >>> list(alpha.table)
        ['value', 'objective', 'root']

    Shell:
        jaxlaw profile fit.json runs.csv --quantity alpha
    """
    cov = covariance(law, runs, groups=groups, **options)
    problem, fit, spec = cov.problem, cov.fit, cov.fit.law.parameter(quantity)
    name, estimate = spec.name, fit.params[spec.name]
    if name in {**fit.fixed, **fit.tied, **fit.bounds}:
        raise UsageError(f"parameter {name} is fixed, tied or bounded already: profile another")
    # A Huber objective is no log likelihood: 2(Q(v) − Q) is not χ² of one degree, even in large
    # samples. To second order it is (v − v̂)²/(gᵀH⁻¹g), g the slope of the parameter in the
    # coordinates and H the smoothed Hessian, while v − v̂ has the sandwich variance gᵀVg. So
    # 2(Q(v) − Q)/κ with κ = gᵀVg / gᵀH⁻¹g is the square of a standard normal. For least squares of
    # equal noise κ is s², and the interval is exactly the F test's.
    slope = cov.jacobian[fit.law.parameter_names.index(name)]
    variance, slope = slope @ cov.coordinates @ slope, slope[: len(cov.bread)]
    model = slope @ cov.bread @ slope
    if not model > 0:
        raise UsageError(f"{name} does not depend on the runs, so it has no profile")
    error, kappa = float(np.sqrt(variance)), variance / model
    steps, log = np.linspace(-REACH, REACH, POINTS), spec.scale == "log"
    values = estimate * np.exp(steps * error / estimate) if log else estimate + steps * error
    if not log and not spec.centre:
        inside = (values >= spec.low) & (values <= spec.high)
        values, steps = values[inside], steps[inside]
    # Two starts each: along a straight line from the optimum, and the optimum with the value held.
    along = np.tile(problem.coordinates, (len(steps), 1))
    along[:, problem.free_and_inside] += steps[:, None] * (cov.bread @ slope / model * error)
    data, seen = problem.fit_problem.data, problem.observations
    along = problem.fit_problem.params(np.clip(along, np.asarray(data.low), np.asarray(data.high)))
    solved, starts = [], []
    with in_float64():
        for k, value in enumerate(values):
            held = replace(problem.options, fixed={**fit.fixed, name: float(value)})
            built = problem_of(fit.law, seen, held)
            near = {key: column[k] for key, column in along.items()} | {name: value}
            solved.append(built)
            starts.append([built.coordinates(one) for one in (near, fit.params | {name: value})])
        problems = solved[0].data._replace(
            low=jnp.stack([built.data.low for built in solved]),
            high=jnp.stack([built.data.high for built in solved]),
        )
        optima, loss = _best(solved[0], problems, np.array(starts))
        # Again from the optima of the neighbours.
        beside = np.stack([np.roll(optima, 1, axis=0), np.roll(optima, -1, axis=0)], axis=1)
        again, second = _best(solved[0], problems, beside)
        optima = np.where((second < loss)[:, None], again, optima)
        objective = np.minimum(loss, second) * scale_on_host(problems)
    root = np.sqrt(np.maximum(2 * (objective - fit.objective) / kappa, 0))
    root *= np.sign(values - estimate)
    table = pd.DataFrame({"value": values, "objective": objective, "root": root})
    notes, gained = list(cov.notes), (fit.objective - objective.min()) / fit.objective
    if gained > 1e-6:
        message = (
            f"fixed elsewhere, {name} gives a lower objective than the fit's, by {gained:.1e} of "
            "it: fit again with more starts (n_starts=)"
        )
        notes.append(Note("few-starts-agree", "warning", message, inherited=False))
    unit, between = (fit.quantities[name].unit, 1.0), _between(table, estimate, cov.degrees, level)
    quantities = {name: Quantity(estimate, *unit, *between), "std_err": Quantity(error, *unit)}
    return Answer(
        kind="profile", sentence=f"{name}: {{{name}}}, standard error {{std_err}}",
        tables={"table": table}, level=level, notes=notes, quantities=quantities,
        units=fit.input_units() | {"value": unit},
        facts={"quantity": name, "estimate": estimate, "degrees": cov.degrees, "law": fit.law.name,
               "params": dict(fit.params)},
    )  # fmt: skip


def _best(
    built: FitProblem, problems: Problem, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each problem (P,) the best coordinates from its starts (P, 2, p), and the scaled loss."""
    low, high = (np.asarray(side)[:, None] for side in (problems.low, problems.high))
    starts, bounds = np.clip(starts, low, high), frozenset({"low", "high"})
    lanes = solve(SOLVERS["newton"], built.model, problems, starts, bounds)
    loss = np.where(np.isfinite(lanes.value), lanes.value, np.inf)
    best, rows = np.argmin(loss, axis=1), np.arange(len(loss))
    return lanes.coordinates[rows, best], loss[rows, best]
