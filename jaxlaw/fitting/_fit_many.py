"""One law fitted to many versions of the same runs: folds, resamples, other targets.

A version is a row of weights or of targets (and of held values), never another table, so that one
compiled program serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import numpy as np

from jaxlaw._cache import kept_in
from jaxlaw._jit import compiled, in_float64
from jaxlaw.data._runs import Observations
from jaxlaw.errors import UsageError
from jaxlaw.fitting._elementwise import check_elementwise
from jaxlaw.fitting._engine import solve
from jaxlaw.fitting._multistart import Task, find_optima
from jaxlaw.fitting._objective import scale_on_host
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import FitProblem, build_problem
from jaxlaw.fitting._starts import first_starts
from jaxlaw.fitting.solvers import SOLVERS
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note


@dataclass(frozen=True, eq=False)
class Refits:
    """What P versions of the same runs came to; leading axis P throughout.

    Attributes:
        problem: the problem of the runs as they are.
        params: name → (P,) natural values in the law's own units.
        coordinates: (P, p) the same as the search had them.
        objective: (P,) summed Huber loss; infinite where no start came to a finite one.
        status: (P,) how the best start ended (see ``jaxlaw.fitting.solvers.Status``).
        agreement: (P,) share of the solved starts that ended there.
        agreeing: (k, p) coordinates of starts that agree on the objective, for each version.
        notes: on the work itself.
    """

    problem: FitProblem
    params: dict[str, np.ndarray]
    coordinates: np.ndarray
    objective: np.ndarray
    status: np.ndarray
    agreement: np.ndarray
    agreeing: tuple[np.ndarray, ...]
    notes: tuple[Note, ...] = ()

    def predict(self, **inputs: np.ndarray) -> np.ndarray:
        """The target at (m,) points in the law's own units, from each version: (P, m)."""
        law = self.problem.law
        with in_float64():
            return np.asarray(_predict(law, self.params, inputs))


def fewest_for(level: float) -> int:
    """Resamples whose outermost are as rare as the tails of an interval: 39 of one of 95 %."""
    return math.ceil(2 / (1 - level) - 1e-9) - 1


@compiled(static_argnames="law")
def _predict(law: Law, params: dict, inputs: dict) -> jax.Array:
    return jax.vmap(lambda one: law(one, **inputs))(params)


def fit_many(
    law: Law,
    observations: Observations,
    weights: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    options: FitOptions | None = None,
    *,
    fixed: Mapping[str, np.ndarray] | None = None,
    also: np.ndarray | None = None,
) -> Refits:
    """Fit every version of the same runs, in one batch.

    Args:
        law: the law.
        observations: the runs, (n,).
        weights: (P, n), in place of their own: 0 is held out; None keeps their own.
        targets: (P, n), in place of their own; None keeps them.
        options: options as for a single fit; every version has the same starts.
        fixed: fixed parameter → (P,) values, in place of the one of the options; a version of
            NaN comes to no finite objective.
        also: (k, p) further starts, natural values in the law's own units.

    Raises:
        UsageError: weights or targets of another shape, or neither given; no starts.
    """
    options = options or FitOptions()
    options.check(law)
    given = {"weights": weights, "targets": targets}
    given = {name: np.asarray(v, float) for name, v in given.items() if v is not None}
    shapes = {v.shape for v in given.values()}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 2 or shape[1] != len(observations):
        raise UsageError(
            f"weights and targets need the shape (versions, {len(observations)}); they have "
            f"{', '.join(str(v.shape) for v in given.values()) or 'none'}"
        )
    method, work = options.method, options.work()
    with kept_in(options.compile_cache), in_float64():
        problem = build_problem(
            law, observations.inputs, observations.target, observations.weight, options,
            method.linear_coefficients,
        )  # fmt: skip
        check_elementwise(problem, observations.inputs)
        if targets is not None:
            given["targets"] = problem.transformed(given["targets"])
        fields = problem.many(**given)
        if fixed:
            fields["low"], fields["high"] = problem.bounds_with(fixed)
        task = Task(problem.model, problem.data._replace(**fields), frozenset(fields))
        starts = first_starts(problem)
        if also is not None:
            columns = dict(zip(law.parameter_names, np.transpose(also), strict=True))
            starts = np.concatenate([starts, problem.coordinates(columns)])
        optima = find_optima(method, task, starts, options.n_local, work)
        coordinates = np.stack([optimum.coordinates for optimum in optima])
        scale = scale_on_host(problem.data)
        return Refits(
            problem=problem,
            params=problem.params(coordinates) | dict(fixed or {}),
            coordinates=coordinates,
            objective=np.array([optimum.objective for optimum in optima]) * scale,
            status=np.array([optimum.status for optimum in optima]),
            agreement=np.array([optimum.agreement for optimum in optima]),
            agreeing=tuple(optimum.agreeing for optimum in optima),
            notes=work.memory.notes,
        )


def refit_near(refits: Refits, weights: np.ndarray, targets: np.ndarray) -> Refits:
    """Every version again with other targets, from where it ended: quick, and without evidence.

    Each is solved from its own optimum and from that of another version, which may lie in
    another valley; there is no screening and no polishing by L-BFGS.

    Args:
        refits: what :func:`fit_many` returned for P versions.
        weights: (P, n), of the versions.
        targets: (P, R, n).

    Returns:
        :class:`Refits` of P·R versions, those of the first one first; nothing in ``agreeing``.
    """
    count, draws, points = targets.shape
    with in_float64():
        problem = refits.problem
        fields = problem.many(
            weights=np.repeat(weights, draws, axis=0),
            targets=problem.transformed(targets).reshape(-1, points),
        )
        own = np.repeat(np.arange(count), draws)
        other = (own + 1 + np.tile(np.arange(draws), count) % max(count - 1, 1)) % count
        starts = np.stack([refits.coordinates[own], refits.coordinates[other]], axis=1)
        problems = problem.data._replace(**fields)
        lanes = solve(SOLVERS["newton"], problem.model, problems, starts, frozenset(fields))
        values = np.where(np.isfinite(lanes.value), lanes.value, np.inf)
        best = values.argmin(axis=1)
        each = np.arange(len(best))
        coordinates = lanes.coordinates[each, best]
        return Refits(
            problem=problem,
            params=problem.params(coordinates),
            coordinates=coordinates,
            objective=values[each, best] * scale_on_host(problem.data),
            status=lanes.status[each, best],
            agreement=np.full(len(best), np.nan),
            agreeing=(),
        )
