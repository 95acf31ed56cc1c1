"""The pure-array core: many problems at once, inside the caller's own jit, vmap or grad."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw import _progress, laws
from jaxlaw._arrays import as_array
from jaxlaw._jit import compiled
from jaxlaw._repr import short_repr
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting._engine import Lanes, problem_axes, problem_count, where
from jaxlaw.fitting._objective import Evaluation, Problem, evaluate, scale_of, scaled_value
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import FitProblem, build_problem, model_of
from jaxlaw.fitting._starts import sobol
from jaxlaw.fitting._transform import Array, Model, in_own_units
from jaxlaw.fitting.solvers import SOLVERS, Solver, Status
from jaxlaw.fitting.solvers._lbfgs import ALMOST
from jaxlaw.fitting.solvers._newton import solve_definite
from jaxlaw.laws import Law

_MOST_STARTS = 2**24
#: Lanes × rows × parameters² that are solved at a time: seconds of work. With fewer parts than
#: these there is nothing to show.
_PART = {"cpu": 2**22, "accelerator": 2**32}
_FEW_PARTS = 4


class BatchFit(NamedTuple):
    """What :func:`fit_batch` returns; a pytree, leading axis P throughout.

    Attributes:
        params: name → (P,) natural values in the law's own units; NaN where there is no fit.
        objective: (P,) summed Huber loss; infinite where there is no fit.
        status: (P,) how the best lane ended (see ``jaxlaw.fitting.solvers.Status``):
            ``INVALID`` where the data cannot be fitted.
        agreement: (P,) fraction of starts that ended at the best objective; NaN without a fit.

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

    def __repr__(self) -> str:
        """Shapes in place of long arrays."""
        return short_repr(self)

    @property
    def ends(self) -> list[str]:
        """(P,) the status of each problem in words; outside of ``jit``."""
        return [Status(int(status)).label for status in self.status]


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
    """Fit P problems, from S starts each.

    It works inside ``jit``, ``vmap`` and ``shard_map``, follows the dtype of ``targets``, and takes
    anything that ``jnp.asarray`` does. Called again with the same shapes it compiles nothing. It
    is differentiable in inputs, targets and weights, to any order, by the implicit function theorem
    at the optimum (parameters at a bound of their range stay there; the starts move nothing). It
    makes no notes and does not polish by L-BFGS: for a single fit with evidence use
    :func:`jaxlaw.fit`. Outside of ``jit``, work that takes more than five seconds shows on stderr
    what is done and how long the rest takes, on a terminal or in a notebook.

    In float32 a lane ends when the objective no longer moves. On 20 simulated experiments each of
    chinchilla, cpt-chinchilla, loss-compute and downstream-ce that leaves predictions up to 2e-5,
    the objective up to 1e-4 and parameters, which ridges leave open, up to 6e-3 from those of
    float64, relative. An exponent α is searched only while N0^α, for inputs around N0, is below
    3e38: up to 4.2 for 1e9 parameters.

    Args:
        law: law or its name; static.
        inputs: name → (n,) values in the law's own units, or (P, n) where problems differ in them;
            those per drop may be (n, K) or (P, n, K). Experiments of fewer rows than others are
            filled up with any valid values, and weights of 0.
        targets: values (P, n), or (n,) of one problem.
        weights: weights (P, n) or (n,), zero where a point is held out; ones if None.
        starts: natural values in the law's own units, (S, p) for all problems or (P, S, p), columns
            in the law's order (for a constrained law, the raised parameter as its excess), or a
            dict name → (S,) or (P, S); they may be traced. Or a number, for a Sobol sample of the
            law's ranges.
        delta, residuals, asymmetry: options of the objective, as in :func:`jaxlaw.fit`.

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
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        targets = jnp.atleast_2d(as_array("targets", targets))
        kind = targets.dtype
        weights = jnp.ones_like(targets) if weights is None else as_array("weights", weights, kind)
        try:
            targets, weights = jnp.broadcast_arrays(targets, jnp.atleast_2d(weights))
        except ValueError:
            raise UsageError(
                f"weights have shape {weights.shape}, targets {targets.shape}: give (P, n) or (n,)"
            ) from None
        if missing := [name for name in law.input_names if name not in inputs]:
            raise UsageError(f"law {law.name} also needs the inputs {', '.join(missing)}")
        count, rows = targets.shape
        arrays, own = {}, set()
        for spec in law.inputs:
            arrays[spec.name] = values = as_array(f"input {spec.name}", inputs[spec.name], kind)
            shape = values.shape
            if shape[:1] == (rows,) and len(shape) <= 1 + spec.per_drop:
                continue
            if shape[:2] != (count, rows) or len(shape) > 2 + spec.per_drop:
                raise UsageError(
                    f"input {spec.name} has shape {shape}; targets {targets.shape} need "
                    f"{(rows,)} or {(count, rows)}"
                )
            own.add(spec.name)
        options = FitOptions(
            delta=None if delta is None else as_array("delta", delta, kind),  # type: ignore[arg-type]
            residuals=residuals,
            asymmetry=as_array("asymmetry", asymmetry, kind),  # type: ignore[arg-type]
        )
        # Starts as an array (S, p) or (count, S, p), or the size of a sample.
        if isinstance(starts, int | np.integer):
            if not 1 <= starts <= _MOST_STARTS:
                raise UsageError(f"starts is a number from 1 to {_MOST_STARTS}, not {starts}")
            starts = int(starts)
        else:
            if isinstance(starts, Mapping):
                names = law.parameter_names
                if {*starts} != {*names}:
                    raise UsageError(f"starts need the parameters {', '.join(names)}")
                columns = [jnp.atleast_1d(as_array("starts", starts[name])) for name in names]
                starts = jnp.stack(jnp.broadcast_arrays(*columns), axis=-1)
            starts = as_array("starts", starts)
            if not starts.ndim:
                raise UsageError(
                    "starts is one number that is no int or that JAX traces; a number of starts is "
                    "a Python int (a static argument of jit)"
                )
            starts, each = jnp.atleast_2d(starts), len(law.parameters)
            shape = starts.shape
            if len(shape) > 3 or shape[-1] != each or len(shape) == 3 and len(starts) != count:
                raise UsageError(
                    f"starts have shape {shape}: give (S, {each}) or ({count}, S, {each})"
                )
        if not own:
            problem = build_problem(law, arrays, targets, weights, options)
            rows = _starts(problem, starts)
            return _solve_in_parts(problem.model, problem.data, rows, ("target", "weight"))
        # Problems that differ in their inputs differ in all that is computed from these.
        arrays = {
            name: values if name in own else jnp.broadcast_to(values, (count, *values.shape))
            for name, values in arrays.items()
        }
        model = model_of(law, options)

        def built(inputs, target, weight, starts):
            problem = build_problem(law, inputs, target, weight, options)
            return problem.data, _starts(problem, starts)

        if isinstance(starts, int):  # the size of a sample is static
            problems, starts = jax.vmap(partial(built, starts=starts))(arrays, targets, weights)
        else:
            starts = jnp.broadcast_to(starts, (count, *starts.shape[-2:]))
            problems, starts = jax.vmap(built)(arrays, targets, weights, starts)
        return _solve_in_parts(model, problems, starts, Problem._fields)


def _solve_in_parts(
    model: Model, problems: Problem, starts: Array, own: tuple[str, ...]
) -> BatchFit:
    """As :func:`_solve`; where there is much work, some problems at a time, with progress.

    One program for all of it could say neither what is done nor how long the rest takes.
    """
    target = problems.target
    # Inside of the caller's program, or spread over his devices, the problems stay together.
    leaves, n_parts = jax.tree.leaves((problems, starts)), 1
    together = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
    count, tried = len(target), starts.shape[-2]
    if not together and len(target.devices()) == 1:
        (device,) = target.devices()
        each = tried * target.shape[-1] * starts.shape[-1] ** 2  # as in _devices.LARGE
        most = _PART["cpu" if device.platform == "cpu" else "accelerator"]
        n_parts = min(count, -(-count * each // most))
    if n_parts < _FEW_PARTS:
        return _solve(model, problems, starts, own)
    size = -(-count // n_parts)
    what = f"fit_batch of {model.law.name}, {tried:,} starts each"

    def solve_from(first):
        at = np.minimum(np.arange(first, first + size), count - 1)  # all parts have one length
        some = {name: jax.tree.map(lambda x: x[at], getattr(problems, name)) for name in own}
        begun = starts[at] if starts.ndim == 3 else starts
        return jax.block_until_ready(_solve(model, problems._replace(**some), begun, own))

    solved = [solve_from(0)]  # may compile, which tells nothing of how long the others take
    with _progress.shown_to_people(), _progress.part(what) as part:
        for first in range(size, count, size):
            solved.append(solve_from(first))
            done = min(count, first + size)
            part.now((done - size) / (count - size), f"{done:,} of {count:,} fits")
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[:count], *solved)


def _starts(problem: FitProblem, starts) -> Array:
    """Search coordinates (S, p) of a Sobol sample, or (…, S, p) of the user's natural values."""
    law, kind = problem.law, problem.data.target.dtype
    sampled = isinstance(starts, int)
    rows = jnp.asarray(sobol(law, starts, 0) if sampled else starts, kind)
    params = dict(zip(law.parameter_names, jnp.moveaxis(rows, -1, 0), strict=True))
    if sampled:  # a sample is of sizes at the centre of the data
        params = in_own_units(law, params, problem.means)
    return problem.transform.from_natural(params, start=True).astype(kind)


@compiled(static_argnames=("model", "own"))
def _solve(model: Model, problems: Problem, starts: Array, own: tuple[str, ...]) -> BatchFit:
    """Fit problems that have fields of their ``own``, from starts (S, p) or (P, S, p)."""
    fixed, batched = jax.lax.stop_gradient(problems), frozenset(own)
    double = starts.dtype == jnp.float64
    tolerance, agree = (1e-13, 1e-6) if double else (1e-6, 1e-4)
    method = SOLVERS["newton"]
    method = method._replace(settings=method.settings._replace(tolerance=tolerance))
    lanes = solve_inside(method, model, fixed, jax.lax.stop_gradient(starts), batched)
    values = jnp.where(jnp.isfinite(lanes.value), lanes.value, jnp.inf)
    best = jnp.argmin(values, axis=1)
    least = jnp.take_along_axis(values, best[:, None], axis=1)

    def finish(problem, at):
        at, value = as_optimum(model, problem, at)
        params = problem.transform(model).to_natural(tuple(at))
        # Data can be fitted where rows that count are in their domains, and some count.
        weight = problem.weight
        valid = jnp.isfinite(problem.target)  # so is no logarithm of a target that is not positive
        for spec in model.law.inputs:
            values = problem.inputs[spec.name]
            inside = jnp.isfinite(values) & ((values >= 0) | (spec.domain == "real"))
            inside &= (values > 0) | (spec.domain != "positive")
            inside &= (values <= 1) | (spec.domain != "fraction")
            valid &= inside.reshape(len(weight), -1).all(axis=1)
        valid = (weight == 0) | (valid & (weight > 0) & (weight < jnp.inf))
        return params, value * scale_of(problem.delta), jnp.all(valid) & jnp.any(weight)

    at = jnp.take_along_axis(lanes.coordinates, best[:, None, None], axis=1)[:, 0]
    params, objective, valid = jax.vmap(finish, (problem_axes(batched), 0))(problems, at)
    status = jnp.take_along_axis(lanes.status, best[:, None], axis=1)[:, 0]
    agreement = jnp.mean(values <= least + agree * jnp.abs(least), axis=1, dtype=values.dtype)
    solved = valid & jnp.isfinite(least[:, 0])
    return BatchFit(
        {name: jnp.where(solved, value, jnp.nan) for name, value in params.items()},
        jnp.where(solved, objective, jnp.inf),
        jnp.where(valid, status, Status.INVALID),
        jnp.where(solved, agreement, jnp.nan),
    )


def as_optimum(model: Model, problem: Problem, at: Array) -> tuple[Array, Array]:
    """The optimum again and its value, now as functions of the data, of any order.

    It moves next to nothing: in float64 by one Newton step, where the gradient is that small, what
    rounding of the objective hides from a search that compares values; otherwise not at all.
    """
    at = _optimum(model, problem, at)
    return at, scaled_value(model, problem, tuple(at))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _optimum(model: Model, problem: Problem, at: Array) -> Array:
    """One Newton step from an optimum (p,); its derivative is below."""
    evaluation, free, root, matrix = _around(model, problem, at)
    scaled = free * evaluation.gradient / root
    step = solve_definite(matrix, scaled)
    promised = scaled @ step / 2
    little = (at.dtype == jnp.float64) & (jnp.abs(promised) <= ALMOST * jnp.abs(evaluation.value))
    return jnp.clip(jnp.where(little, at - step / root, at), problem.low, problem.high)


@_optimum.defjvp
def _optimum_jvp(model: Model, primals, tangents) -> tuple[Array, Array]:
    """The implicit function theorem: the optimum moves by −H⁻¹·∂g where the data move g by ∂g.

    H and g are taken at the optimum as a function of the data, not at a constant point, so that
    JAX differentiates this rule again, to second order and beyond: all that is constant in it is
    which parameters are at a bound of their range, and stay there.
    """
    problem, at = primals
    optimum = _optimum(model, problem, at)
    _, free, root, matrix = _around(model, problem, optimum)

    def gradient(problem):
        return _around(model, problem, optimum)[0].gradient

    _, moved = jax.jvp(gradient, (problem,), (tangents[0],))
    return optimum, -solve_definite(matrix, free * moved / root) / root


def _around(model: Model, problem: Problem, at: Array) -> tuple[Evaluation, Array, Array, Array]:
    """The objective around a point (p,), with its exact Hessian.

    Returns:
        The evaluation; (p,) 0 for coordinates that the gradient presses against a bound, 1 for the
        others; (p,) what brings the Hessian's diagonal to one; and the Hessian (p, p) of unit
        scale, rows and columns of bound coordinates those of 1.
    """
    problem = problem._replace(rows=None)  # what is differentiated backwards has no such loop
    evaluation = evaluate(model, problem, at, problem.delta, problem.delta)[1]
    gradient, hessian = evaluation.gradient, evaluation.hessian
    low, high = (at <= problem.low) & (gradient >= 0), (at >= problem.high) & (gradient <= 0)
    root = jnp.sqrt(jnp.maximum(jnp.abs(jnp.diagonal(hessian)), 1e-30))
    free, root = jax.lax.stop_gradient(((~low & ~high).astype(at.dtype), root))
    matrix = hessian / (root[:, None] * root[None, :]) * (free[:, None] * free[None, :])
    return evaluation, free, root, matrix + jnp.diag(1.0 - free)


def solve_inside(
    solver: Solver, model: Model, problems: Problem, starts: Array,
    batched: frozenset[str] = frozenset(),
) -> Lanes:  # fmt: skip
    """Like ``_engine.solve``, inside ``jit`` and ``vmap``: all lanes at once, no queue.

    Args and returns as there, in JAX arrays.
    """
    starts = jnp.broadcast_to(starts, (problem_count(problems, batched), *starts.shape[-2:]))

    def one_problem(problem, starts):
        lane = jax.vmap(partial(solver.init, model, problem))(starts)

        def tick(lane):
            new = jax.vmap(lambda state: solver.step(model, problem, state, solver.settings))(lane)
            return where(lane.status == Status.RUNNING, new, lane)

        lane = jax.lax.while_loop(lambda lane: jnp.any(lane.status == Status.RUNNING), tick, lane)
        return Lanes(lane.coordinates, lane.value, lane.status, lane.iterations)

    if not batched:
        problems = jax.tree.map(lambda leaf: leaf[None], problems)
        return jax.vmap(one_problem)(problems, starts)
    return jax.vmap(one_problem, (problem_axes(batched), 0))(problems, starts)
