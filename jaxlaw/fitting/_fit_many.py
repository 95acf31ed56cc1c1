"""One law fitted many times to the same runs: folds, resamples, other targets.

A refit is a row of weights or of targets (and of held values), never another table, so that one
compiled program serves them all.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import numpy as np

from jaxlaw import _progress
from jaxlaw._devices import on_accelerator
from jaxlaw._jit import compiled, in_float64, padded, size_class
from jaxlaw.data import Observations
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._multistart import CANDIDATES, OWN_STARTS, Batch, find_optima, find_optima_warm
from jaxlaw.fitting._objective import scale_on_host
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import FitProblem, problem_of
from jaxlaw.fitting._starts import first_starts
from jaxlaw.laws import Law

_FEW = 256  # refits, and points, up to which predictions are by one program of that size
MANY = 16  # refits of a data set from which on they start from its optima


@dataclass(frozen=True, eq=False)
class Refits:
    """P fits of the same runs; leading axis P throughout.

    Attributes:
        problem: the problem of the runs as they are.
        params: name → (P,) natural values in the law's own units.
        coordinates: (P, p) the same as the search had them.
        objective: (P,) summed Huber loss; infinite where no start has a finite one.
        status: (P,) how the best start ended (see ``jaxlaw.fitting.solvers.Status``).
        agreement: (P,) fraction of the solved starts that ended there; starts at the optima of the
            whole data set do not count.
        n_solved: (P,) number of these starts: few where they ended at the optimum near that of the
            whole data set.
        agreeing: (k, p) coordinates of starts that agree on the objective, for each refit.
    """

    problem: FitProblem
    params: dict[str, np.ndarray]
    coordinates: np.ndarray
    objective: np.ndarray
    status: np.ndarray
    agreement: np.ndarray
    agreeing: tuple[np.ndarray, ...]
    n_solved: np.ndarray

    def predict(self, **inputs: np.ndarray) -> np.ndarray:
        """The target at (m,) points in the law's own units, from each refit: (P, m)."""
        return predict_each(self.problem.law, self.params, inputs)


def predict_each(
    law: Law, params: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> np.ndarray:
    """The target (P, m) by each of (P,) parameters, at (m,) points in the law's own units."""
    count = len(next(iter(params.values())))
    rows = {name: np.atleast_1d(values) for name, values in inputs.items()}
    points = max(map(len, rows.values()))
    width = max(math.prod(values.shape[1:]) for values in rows.values())
    few = count <= _FEW and points * width <= _FEW
    size = (_FEW, _FEW) if few else (size_class(count), size_class(points, width))
    each = {name: padded(values, size[0]) for name, values in params.items()}
    many = {name: padded(values, size[1]) for name, values in rows.items()}
    with in_float64():
        return np.asarray(_predict(law, each, many))[:count, :points]


@compiled(static_argnames="law")
def _predict(law: Law, params: dict, inputs: dict) -> jax.Array:
    return jax.vmap(lambda row: law(row, **inputs))(params)


def fit_many(
    law: Law,
    observations: Observations,
    weights: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    options: FitOptions | None = None,
    *,
    fixed: Mapping[str, np.ndarray] | None = None,
    extra_starts: np.ndarray | None = None,
    data_sets: np.ndarray | None = None,
    n_own_starts: int = OWN_STARTS,
    only_compile: bool = False,
) -> Refits:
    """Fit a law to the same runs many times, in one batch.

    Refits of a data set resemble one another: where they are many, each starts from the optima of
    the whole data set, see :func:`jaxlaw.fitting._multistart.find_optima_warm`.

    Args:
        law: the law.
        observations: the runs, (n,).
        weights: (P, n), in place of their own: 0 is held out; None, which not both may be, keeps
            their own.
        targets: (P, n), in place of their own; None keeps them.
        options: options as for a single fit; every refit has the same starts.
        fixed: fixed parameter → (P,) values, in place of the value in the options; a refit with
            NaN has no finite objective.
        extra_starts: (k, p) further starts, natural values in the law's own units.
        data_sets: (P,) number, from 0, of the data set that each refit is of, where there are
            several. Its target is that of its first refit, and it has the rows that any of its
            refits has. If None, the runs as they are are the only one.
        n_own_starts: number of starts of its own that a refit has beside the optima of its data
            set.
        only_compile: whether this call is to leave the programs of a later one, see
            :func:`compiled_ahead`; its result is of no use.

    """
    options = options or FitOptions()
    method, work = options.method, options.work()
    if only_compile:  # limits are arguments of programs: one iteration compiles the same ones
        method = method._replace(settings=method.settings._replace(max_iterations=1))
        work = Work(device=options.device)
    with in_float64():
        problem = problem_of(law, observations, options)
        fields = problem.many(weights, targets)
        if fixed:
            fields["low"], fields["high"] = problem.bounds_with(fixed)
        batch = Batch(problem.model, problem.data._replace(**fields), frozenset(fields))
        starts, points = first_starts(problem), None
        if extra_starts is not None:
            columns = dict(zip(law.parameter_names, np.transpose(extra_starts), strict=True))
            points = problem.coordinates(columns)
        of_set = np.zeros(batch.count, int) if data_sets is None else np.asarray(data_sets)
        # Where every start is solved as it is, the options demand a search of each refit.
        screened = options.n_local and options.n_local < len(starts)
        warm = screened and batch.count >= MANY * (of_set.max() + 1)
        lanes = CANDIDATES + n_own_starts if warm else options.n_local or len(starts)
        with work.on_device_for(lanes, batch):
            if only_compile and not on_accelerator():  # programs serve any number of refits
                batch, warm = batch.only([0]), False
            if warm:
                if data_sets is None:
                    fields = {k: getattr(problem.data, k)[None] for k in batch.batched}
                    whole = batch._replace(problems=batch.problems._replace(**fields))
                else:
                    each = [of_set == k for k in range(of_set.max() + 1)]
                    whole = batch.only(np.array([int(np.argmax(members)) for members in each]))
                    if weights is not None:
                        rows = batch.problems.weight
                        most = np.stack([rows[members].max(axis=0) for members in each])
                        whole = whole._replace(problems=whole.problems._replace(weight=most))
                optima = find_optima_warm(
                    method, batch, whole, of_set, starts, options.n_local, work, points,
                    n_own_starts,
                )  # fmt: skip
            else:
                starts = starts if points is None else np.concatenate([starts, points])
                optima = find_optima(method, batch, starts, options.n_local, work)
        coordinates = np.stack([optimum.coordinates for optimum in optima])
        return Refits(
            problem=problem,
            # What the fixed values of a refit are stands in its bounds, and so in its coordinates,
            # to the rounding of the transform alone: reported are the values themselves.
            params=problem.params(coordinates) | dict(fixed or {}),
            coordinates=coordinates,
            objective=np.array([one.objective for one in optima]) * scale_on_host(problem.data),
            status=np.array([optimum.status for optimum in optima]),
            agreement=np.array([optimum.agreement for optimum in optima]),
            agreeing=tuple(optimum.agreeing for optimum in optima),
            n_solved=np.array([optimum.solved for optimum in optima]),
        )


@contextlib.contextmanager
def compiled_ahead(calls: Sequence[Callable[..., Refits]]) -> Iterator[None]:
    """Compile in threads what calls of :func:`fit_many` are to run, while the body runs.

    Where one law's programs are compiled after another's, most cores wait: of the 66 s of a first
    study of five laws on an H200, 60 were compiling.

    Args:
        calls: calls of :func:`fit_many`, of one law each; the body makes another one first.
    """
    cores = os.cpu_count() or 1
    with _progress.compiling(len(calls)) as counted, ThreadPoolExecutor(cores) as pool:
        for call in calls:  # an error is met again by the call itself
            pool.submit(call, only_compile=True).add_done_callback(counted)
        try:
            yield
        finally:
            pool.shutdown(cancel_futures=True)
