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

from jaxlaw._jit import compiled, in_float64
from jaxlaw.data._runs import Observations
from jaxlaw.errors import UsageError
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._elementwise import check_elementwise
from jaxlaw.fitting._engine import solve
from jaxlaw.fitting._fit import check_counts
from jaxlaw.fitting._multistart import Task, find_optima
from jaxlaw.fitting._objective import scale_on_host
from jaxlaw.fitting._problem import Options, Posed, pose
from jaxlaw.fitting._starts import first_starts
from jaxlaw.fitting.solvers import SOLVERS, Solver
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note


@dataclass(frozen=True, eq=False)
class Refits:
    """What P versions of the same runs came to; leading axis P throughout.

    Attributes:
        posed: the problem of the runs as they are.
        params: name → (P,) natural values in the law's own units.
        coordinates: (P, p) the same as the search had them.
        objective: (P,) summed Huber loss; infinite where no start came to a finite one.
        status: (P,) how the best start ended (see ``jaxlaw.fitting.solvers._status``).
        agreement: (P,) share of the solved starts that ended there.
        agreeing: (k, p) coordinates of starts that agree on the objective, for each version.
        notes: on the work itself.
    """

    posed: Posed
    params: dict[str, np.ndarray]
    coordinates: np.ndarray
    objective: np.ndarray
    status: np.ndarray
    agreement: np.ndarray
    agreeing: tuple[np.ndarray, ...]
    notes: tuple[Note, ...] = ()

    def predict(self, **inputs: np.ndarray) -> np.ndarray:
        """The target at (m,) points in the law's own units, from each version: (P, m)."""
        law = self.posed.model.law
        with in_float64():
            return np.asarray(_predict(law, self.params, inputs))


def fewest_for(level: float) -> int:
    """Resamples whose outermost are as rare as the tails of an interval: 39 of one of 95 %."""
    return math.ceil(2 / (1 - level) - 1e-9) - 1


@compiled(static_argnames="law")
def _predict(law: Law, params: dict, inputs: dict) -> jax.Array:
    return jax.vmap(lambda one: law(one, **inputs))(params)


def refit(
    law: Law,
    observations: Observations,
    weights: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    *,
    held: Mapping[str, np.ndarray] | None = None,
    options: Options | None = None,
    method: Solver = SOLVERS["newton"],
    n_starts: int = 4096,
    screen: int | bool = 64,
    seed: int = 0,
    also: np.ndarray | None = None,
    work: Work | None = None,
) -> Refits:
    """Fit every version.

    Args:
        law: the law.
        observations: the runs, (n,).
        weights: (P, n), in place of their own: 0 is held out; None keeps their own.
        targets: (P, n), in place of their own; None keeps them.
        held: fixed parameter → (P,) values it is held at, in place of the one of the options; a
            version of NaN comes to no finite objective.
        options: as for a single fit.
        method: the solver.
        n_starts, screen, seed: as for :func:`jaxlaw.fit`, the same starts for every version.
        also: (k, p) further starts, natural values in the law's own units.
        work: devices, processes, folder and bar.

    Raises:
        UsageError: weights or targets of another shape, or neither given; no starts.
    """
    check_counts(n_starts=n_starts, screen=screen)
    versions = {"weight": weights, "target": targets}
    versions = {name: np.asarray(v, float) for name, v in versions.items() if v is not None}
    shapes = {v.shape for v in versions.values()}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 2 or shape[1] != len(observations):
        raise UsageError(
            f"weights and targets need the shape (versions, {len(observations)}); they have "
            f"{', '.join(str(v.shape) for v in versions.values()) or 'none'}"
        )
    work = work or Work()
    with in_float64():
        posed = pose(
            law, observations.inputs, observations.target, observations.weight,
            options or Options(), method.linear_coefficients,
        )  # fmt: skip
        check_elementwise(posed, observations.inputs)
        if posed.model.space == "log" and targets is not None:
            versions["target"] = np.log(versions["target"])
        if held:
            versions["low"], versions["high"] = posed.boxes(held)
        task = Task(posed.model, posed.problem._replace(**versions), frozenset(versions))
        first = first_starts(posed, "sobol", n_starts, seed)
        if also is not None:
            names = law.parameter_names
            more = posed.place(dict(zip(names, np.transpose(also), strict=True)))
            first = np.concatenate([first, more])
        found = find_optima(method, task, first, screen, work)
        coordinates = np.stack([one.coordinates for one in found])
        return Refits(
            posed=posed,
            params=posed.params(coordinates) | dict(held or {}),
            coordinates=coordinates,
            objective=np.array([one.objective for one in found]) * scale_on_host(posed.problem),
            status=np.array([one.status for one in found]),
            agreement=np.array([one.agreement for one in found]),
            agreeing=tuple(one.agreeing for one in found),
            notes=work.memory.notes,
        )


def refit_near(found: Refits, weights: np.ndarray, targets: np.ndarray) -> Refits:
    """Every version again with other targets, from where it ended: quick, and without evidence.

    Each is solved from its own optimum and from that of another version, which may lie in
    another valley; there is no screening and no finish by L-BFGS.

    Args:
        found: what :func:`refit` returned for P versions.
        weights: (P, n), of the versions.
        targets: (P, R, n).

    Returns:
        :class:`Refits` of P·R versions, those of the first one first; nothing in ``agreeing``.
    """
    count, draws, points = targets.shape
    with in_float64():
        posed = found.posed
        if posed.model.space == "log":
            targets = np.log(targets)
        problems = posed.problem._replace(
            target=targets.reshape(-1, points), weight=np.repeat(weights, draws, axis=0)
        )
        own = np.repeat(np.arange(count), draws)
        other = (own + 1 + np.tile(np.arange(draws), count) % max(count - 1, 1)) % count
        starts = np.stack([found.coordinates[own], found.coordinates[other]], axis=1)
        batched = frozenset({"target", "weight"})
        lanes = solve(SOLVERS["newton"], posed.model, problems, starts, batched)
        values = np.where(np.isfinite(lanes.value), lanes.value, np.inf)
        best = values.argmin(axis=1)
        each = np.arange(len(best))
        coordinates = lanes.coordinates[each, best]
        return Refits(
            posed=posed,
            params=posed.params(coordinates),
            coordinates=coordinates,
            objective=values[each, best] * scale_on_host(posed.problem),
            status=lanes.status[each, best],
            agreement=np.full(len(best), np.nan),
            agreeing=(),
        )
