"""The pure-array core: many problems at once, inside the caller's own jit, vmap or grad."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw import laws
from jaxlaw._deprecated import renamed_arguments
from jaxlaw._jit import compiled
from jaxlaw._typed import as_array, checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting._engine import Lanes, problem_axes, problem_count, where
from jaxlaw.fitting._objective import Problem, evaluate, scale_of
from jaxlaw.fitting._options import OLD_NAMES, FitOptions
from jaxlaw.fitting._problem import FitProblem, build_problem
from jaxlaw.fitting._starts import sobol
from jaxlaw.fitting._transform import Array, Model, in_own_units
from jaxlaw.fitting.solvers import SOLVERS, Solver, Status
from jaxlaw.fitting.solvers._lbfgs import ALMOST
from jaxlaw.fitting.solvers._newton import solve_definite
from jaxlaw.laws._base import Law

_MOST_STARTS = 2**24


class BatchFit(NamedTuple):
    """What :func:`fit_batch` returns; a pytree, leading axis P throughout.

    Attributes:
        params: name → (P,) natural values in the law's own units.
        objective: (P,) summed Huber loss.
        status: (P,) how the best lane ended (see ``jaxlaw.fitting.solvers.Status``).
        agreement: (P,) share of starts that ended at the best objective.

    Example:
        >>> made = jl.simulate.experiment("loss-compute", noise=0.0)
        >>> batch = jl.fit_batch(made.law, {"C": made.table["C"]}, made.table["loss"], starts=16)
        >>> batch.objective.shape, sorted(batch.params)
        ((1,), ['a', 'b'])
    """

    params: dict[str, Array]
    objective: Array
    status: Array
    agreement: Array


@renamed_arguments(**OLD_NAMES)
@checked
def fit_batch(
    law: str | Law,
    inputs: Mapping[str, Any],
    targets: Any,
    weights: Any = None,
    starts: Any = 64,
    *,
    delta: float | Array | None = None,
    residuals: Literal["log", "linear"] | None = None,
    asymmetry: float | Array = 1.0,
) -> BatchFit:
    """Fit P problems that share their inputs, from S starts each.

    It works inside ``jit``, ``vmap`` and ``shard_map``, follows the dtype of ``targets``, and takes
    anything that ``jnp.asarray`` does. Called again with the same shapes it compiles nothing. It
    is differentiable in targets and weights, by the implicit function theorem at the optimum
    (parameters at a bound of their range stay there). It makes no notes and does not polish by
    L-BFGS: for a single fit with evidence use :func:`jaxlaw.fit`.

    In float32 a lane ends when the objective no longer moves. On simulated experiments of
    chinchilla, cpt-chinchilla, loss-compute and downstream-ce that leaves predictions 2e-7,
    parameters up to 5e-5 and the objective up to 3e-5 from those of float64, relative. Ridges
    lose more, and an exponent α is searched only while N0^α, for inputs around N0, is below
    3e38: up to 4.2 for 1e9 parameters.

    Args:
        law: law or its name; static.
        inputs: name → (n,) values in the law's own units; those per drop may be (n, K).
        targets: values (P, n), or (n,) of one problem.
        weights: weights (P, n) or (n,), zero where a point is held out; ones if None.
        starts: (S, p) natural values in the law's own units, columns in the law's order
            (for a constrained law, the raised parameter as its excess); or a number, for a
            Sobol sample of the law's ranges.
        delta, residuals, asymmetry: as in :func:`jaxlaw.fit`.

    Returns:
        :class:`BatchFit`.

    Raises:
        UsageError: shapes that do not fit together.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.004).table
        >>> inputs = {name: runs[name].to_numpy() for name in ("N", "D")}
        >>> batch = jl.fit_batch("chinchilla", inputs, [runs["loss"], runs["loss"] + 0.1])
        >>> batch.objective.shape
        (2,)
        >>> round(float(batch.params["E"][1] - batch.params["E"][0]), 2)
        0.1
    """
    law = laws.get(law)
    targets = jnp.atleast_2d(as_array("targets", targets))
    kind = targets.dtype
    weights = jnp.ones_like(targets) if weights is None else as_array("weights", weights, kind)
    try:
        targets, weights = jnp.broadcast_arrays(targets, jnp.atleast_2d(weights))
    except ValueError:
        raise UsageError(
            f"weights have shape {weights.shape}, targets {targets.shape}: give (P, n) or (n,)"
        ) from None
    missing = [name for name in law.input_names if name not in inputs]
    if missing:
        raise UsageError(f"law {law.name} also needs the inputs {', '.join(missing)}")
    inputs = {name: as_array(f"input {name}", inputs[name], kind) for name in law.input_names}
    for spec in law.inputs:
        name, values = spec.name, inputs[spec.name]
        if values.shape[:1] != targets.shape[1:] or values.ndim > 1 + spec.per_drop:
            raise UsageError(
                f"input {name} has shape {values.shape}; targets {targets.shape} need "
                f"{targets.shape[1:]}"
            )
    options = FitOptions(
        delta=None if delta is None else _scalar("delta", delta, kind),  # type: ignore[arg-type]
        residuals=residuals,
        asymmetry=_scalar("asymmetry", asymmetry, kind),  # type: ignore[arg-type]
    )
    problem = build_problem(law, inputs, targets, weights, options)
    return _solve(problem.model, problem.data, _starts(problem, starts))


def _scalar(name: str, given: Any, kind: Any) -> Array:
    value = as_array(name, given, kind)
    if value.ndim:
        raise UsageError(f"{name} is one number, not an array of shape {value.shape}")
    return value


def _starts(problem: FitProblem, starts: Any) -> Array:
    """Search coordinates (S, p) of a Sobol sample, or of the user's natural values."""
    law, kind = problem.law, problem.data.target.dtype
    sampled = isinstance(starts, int | np.integer)
    if sampled and not 1 <= starts <= _MOST_STARTS:
        raise UsageError(
            f"starts is a number from 1 to {_MOST_STARTS}, not {starts}",
            argument="starts",
            value=starts,
        )
    rows = sobol(law, int(starts), 0) if sampled else jnp.atleast_2d(as_array("starts", starts))
    columns = jnp.moveaxis(jnp.asarray(rows, kind), -1, 0)
    if len(columns) != len(law.parameters):
        raise UsageError(f"starts need {len(law.parameters)} columns, not {len(columns)}")
    params = dict(zip(law.parameter_names, columns, strict=True))
    if sampled:  # a sample is of sizes at the centre of the data
        params = in_own_units(law, params, problem.means)
    return problem.transform.from_start(params).astype(kind)


@compiled(static_argnames="model")
def _solve(model: Model, problems: Problem, starts: Array) -> BatchFit:
    fixed = jax.lax.stop_gradient(problems)
    batched = frozenset({"target", "weight"})
    double = starts.dtype == jnp.float64
    tolerance, agree = (1e-13, 1e-6) if double else (1e-6, 1e-4)
    method = SOLVERS["newton"]
    method = method._replace(settings=method.settings._replace(tolerance=tolerance))
    lanes = solve_inside(method, model, fixed, jax.lax.stop_gradient(starts), batched)
    values = jnp.where(jnp.isfinite(lanes.value), lanes.value, jnp.inf)
    best = jnp.argmin(values, axis=1)
    least = jnp.take_along_axis(values, best[:, None], axis=1)

    def finish(problem: Problem, at: Array) -> tuple[dict[str, Array], Array]:
        at, value = as_optimum(model, problem, at)
        params = problem.transform(model).to_natural(tuple(at))
        return params, value * scale_of(problem.delta)

    at = jnp.take_along_axis(lanes.coordinates, best[:, None, None], axis=1)[:, 0]
    params, objective = jax.vmap(finish, (problem_axes(batched), 0))(problems, at)
    status = jnp.take_along_axis(lanes.status, best[:, None], axis=1)[:, 0]
    agreeing = values <= least + agree * jnp.abs(least)
    agreement = jnp.mean(agreeing, axis=1, dtype=values.dtype)
    return BatchFit(params, objective, status, agreement)


def as_optimum(model: Model, problem: Problem, at: Array) -> tuple[Array, Array]:
    """The optimum again and its value, now as functions of the data.

    One Newton step with a constant Hessian; its derivative is that of the implicit function
    theorem. It moves next to nothing: in float64, where the gradient is that small, what rounding
    of the objective hides from a search that compares values; otherwise nothing at all.
    """
    stopped = jax.lax.stop_gradient(problem)
    _, there = evaluate(model, stopped, at, stopped.delta, stopped.delta)
    gradient = there.gradient
    free = ~((at <= stopped.low) & (gradient >= 0)) & ~((at >= stopped.high) & (gradient <= 0))
    free = free.astype(at.dtype)
    root = jnp.sqrt(jnp.maximum(jnp.abs(jnp.diagonal(there.hessian)), 1e-30))
    matrix = there.hessian / (root[:, None] * root[None, :]) * (free[:, None] * free[None, :])
    matrix = jax.lax.stop_gradient(matrix + jnp.diag(1.0 - free))
    _, now = evaluate(model, problem, at, problem.delta, problem.delta)
    left = jax.lax.stop_gradient(now.gradient)
    scaled = free * left / root
    promised = scaled @ solve_definite(matrix, scaled) / 2
    little = (at.dtype == jnp.float64) & (jnp.abs(promised) <= ALMOST * jnp.abs(now.value))
    moving = now.gradient - jnp.where(little, 0.0, left)
    at = at - solve_definite(matrix, free * moving / root) / root
    return jnp.clip(at, stopped.low, stopped.high), now.value


def solve_inside(
    solver: Solver, model: Model, problems: Problem, starts: Array,
    batched: frozenset[str] = frozenset(),
) -> Lanes:  # fmt: skip
    """Like ``_engine.solve``, inside ``jit`` and ``vmap``: all lanes at once, no queue.

    Args and returns as there, in JAX arrays.
    """
    count = problem_count(problems, batched)
    starts = jnp.broadcast_to(starts, (count, *starts.shape[-2:]))

    def one_problem(problem: Problem, starts: Array) -> Lanes:
        lane = jax.vmap(partial(solver.init, model, problem))(starts)

        def tick(lane):
            new = jax.vmap(lambda one: solver.step(model, problem, one, solver.settings))(lane)
            return where(lane.status == Status.RUNNING, new, lane)

        lane = jax.lax.while_loop(lambda lane: jnp.any(lane.status == Status.RUNNING), tick, lane)
        return Lanes(lane.coordinates, lane.value, lane.status, lane.iterations)

    if not batched:
        problems = jax.tree.map(lambda leaf: leaf[None], problems)
        return jax.vmap(one_problem)(problems, starts)
    return jax.vmap(one_problem, (problem_axes(batched), 0))(problems, starts)
