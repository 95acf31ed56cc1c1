"""Multistart: from starts to the optimum of every problem, by screening, solving and polishing.

1. Screen: the objective of every start of every problem is evaluated, with the coefficients its
   law is linear in solved for; the best go on.
2. Solve: the batch solver takes each of them to its end. Of the lanes of a problem only those
   that end at its few best distinct objectives are kept, so memory does not grow with starts.
   Where they do not agree, further starts are solved, as many as cost little: the best that
   screening knows often lie in one basin, and the optimum in another.
3. Polish: jaxopt's L-BFGS goes on from the best distinct optima, a second method that has to
   agree with the first.

Each stage takes a :class:`Batch` of problems and returns :class:`Lanes`: starts, and how far each
has come. It is cut into chunks, see :mod:`jaxlaw.fitting._checkpoint`.

Many problems that resemble one another, the folds or resamples of a data set, need not all go this
way: :func:`find_optima_warm` starts each from the optima of the whole data set, and takes the long
way only where a few starts of its own say that its optimum lies elsewhere.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxlaw._devices import on_accelerator, platform
from jaxlaw._jit import installed, next_power_of_two
from jaxlaw._version import __version__
from jaxlaw.fitting._checkpoint import Work, digest
from jaxlaw.fitting._engine import (
    OWN,
    STARTS,
    Chunk,
    Lanes,
    evaluate_chunks,
    is_padded,
    nowhere,
    problem_count,
    problems_of_queue,
    solve_chunks,
)
from jaxlaw.fitting._objective import AGREE, Problem, predict, rounding_floor
from jaxlaw.fitting._starts import solved_coordinates
from jaxlaw.fitting._transform import Model
from jaxlaw.fitting.solvers import POLISH, SOLVERS, Solver, Status

_say_once = cache(logging.getLogger(__name__).warning)

CANDIDATES = 4  # distinct optima that L-BFGS polishes
KEPT = 8  # distinct optima kept of a problem
MEMBERS = 64  # lanes kept of each, to see how far apart they lie: others are only counted
SCREEN_LANES = (2**9, 2**15)  # lanes of a chunk, at least and at most, where they are screened
SOLVE_LANES = (2**5, 2**11)  # … and where they are solved
EFFICIENT = 2**8  # … up to so many in two halves: a chunk's last lanes leave its slots idle
LANES_ON_ACCELERATOR = 2**19  # of a chunk, at most, in either stage …
ROWS_ON_ACCELERATOR = 2**27  # … and rows of all its problems together: 1 GB a field
OWN_STARTS = 3  # of a refit, beside the optima of its data set: …
OWN_PART = 8  # … the best of so small a part of all starts, if that is …
OWN_SCREENED = 64  # … not less than this
SURE = 0.9  # of the solved starts agree: no more of a single problem are solved
CHEAP = 2**22  # rows × parameters² × starts that are solved where they do not, at most, …
FEW_PARAMETERS = 8  # … which no law counts less than


#: Problems and starts of a chunk, and lanes of any chunk of its stage, at most.
Shape = tuple[int, int, int]

#: What this process has compiled ahead of its use: solver, model and shapes.
_prepared = set()


class Batch(NamedTuple):
    """Problems of one model on the same inputs, searched together.

    Attributes:
        model: law, residuals and scales, which all problems share.
        problems: the data, of numpy; fields named in ``batched`` have a leading axis P.
        batched: names of fields.
    """

    model: Model
    problems: Problem
    batched: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """Number of problems P."""
        return problem_count(self.problems, self.batched)

    @property
    def floors(self) -> np.ndarray:
        """Objectives (P,) of rounding alone: smaller differences mean nothing."""
        return np.broadcast_to(rounding_floor(self.model, self.problems), self.count)

    @property
    def shared(self) -> Problem:
        """What all problems share; the others' fields are None."""
        return self.problems._replace(**dict.fromkeys(self.batched))

    def only(self, index: Any) -> Batch:
        """Some of the problems, by their numbers."""
        fields = {name: getattr(self.problems, name)[index] for name in self.batched}
        return self._replace(problems=self.problems._replace(**fields))

    def chunks(self, starts: np.ndarray, shape: Shape) -> list[Chunk]:
        """All lanes in chunks, in order.

        Args:
            starts: (S, p) for all problems, or (P, S, p), which are moved into each one's box.
            shape: of a chunk.
        """
        if starts.ndim == 3:
            low, high = self.problems.low[..., None, :], self.problems.high[..., None, :]
            starts = np.clip(starts, low, high)
            starts = np.broadcast_to(starts, (self.count, *starts.shape[1:]))
        chunks = []
        for first, begin in itertools.product(
            range(0, self.count, shape[0]), range(0, max(starts.shape[-2], 1), shape[1])
        ):
            last, end = min(first + shape[0], self.count), min(begin + shape[1], starts.shape[-2])
            fields = {name: getattr(self.problems, name)[first:last] for name in self.batched}
            at = starts[first:last, begin:end] if starts.ndim == 3 else starts[begin:end]
            chunks.append(Chunk((first, last), (begin, end), fields, at, (shape[0], shape[2])))
        return chunks


class Optimum(NamedTuple):
    """The best optimum of one problem, and the evidence for it.

    Attributes:
        coordinates: (p,) coordinates of the best.
        objective: scaled objective there; infinite where no start has a finite one.
        status: :class:`Status` of its search; −1 where the objective is not finite.
        agreement: fraction of the solved starts that end there.
        disagreement: relative distance of the batch solver's best objective from it.
        agreeing: (k, p) coordinates of starts that agree, up to ``MEMBERS``.
        runner_up: the next best optimum's coordinates, objective and share; None if none.
        tried, solved: numbers of starts.
        distinct: (objective, fraction of the solved starts) of each of the distinct optima, up to
            ``KEPT``, the best first.
    """

    coordinates: np.ndarray
    objective: float
    status: int
    agreement: float
    disagreement: float
    agreeing: np.ndarray
    runner_up: tuple[np.ndarray, float, float] | None
    tried: int
    solved: int
    distinct: tuple[tuple[float, float], ...] = ()


def find_optima(
    method: Solver,
    batch: Batch,
    starts: np.ndarray,
    n_local: int | Literal[False] | None = None,
    work: Work | None = None,
) -> list[Optimum]:
    """Find the optimum of every problem.

    Args:
        method: the batch solver.
        batch: the problems.
        starts: (S, p) coordinates, for all problems.
        n_local: number of the best starts of a problem that are solved; None or False for all.
        work: devices, processes, folder and bar.

    Returns:
        One :class:`Optimum` for each problem.
    """
    work = work or Work()
    work.expect(batch.count, 3)  # screened, solved, polished
    if work.folder is not None:
        work.claim(_description(method, batch, starts, n_local))
    n_starts, size = starts.shape
    floors, first = batch.floors, min(n_starts, int(n_local or n_starts))
    # Programs depend on shapes alone: what comes later is compiled while starts are screened.
    with work.in_background(*_programs(batch, size, _stages(method, batch, first))):
        # How many are solved where the first of them do not agree. An iteration takes rows ×
        # parameters² multiplications: of a tuned law (20 parameters) of 60 rows 1,092 starts took
        # 50 CPU seconds, and the first of them had the optimum. Of several problems, folds or
        # cut-offs, more starts would each cost as much again.
        rows = np.count_nonzero(batch.problems.weight)  # and not those that it is padded with
        cheap = CHEAP // (max(rows, 1) * max(size, FEW_PARAMETERS) ** 2)
        most = min(n_starts, max(first, cheap)) if batch.count == 1 else first
        chosen = starts[None] if first == n_starts else _screen(batch, starts, most, work)
        lanes = _solve(method, batch, chosen[:, :first], work)
    # Where the best of the first ran out of iterations these are solved again, with ten times as
    # many: with a small δ a curved valley has a kink at every row, and lanes creep along it.
    ends, solved = distinct(lanes, floors), np.full(batch.count, first)
    ran_out = ends.status[:, 0] == Status.STEP_LIMIT
    if ran_out.any():
        limit = 10 * method.settings.max_iterations
        longer = method._replace(settings=method.settings._replace(max_iterations=limit))
        again = np.where(ran_out[:, None, None], chosen[:, :first], np.nan)
        again = _solve(longer, batch, again, work, f"{method.name}-longer")
        for old, new in zip(lanes, again, strict=True):
            old[ran_out] = new[ran_out]
        ends = distinct(lanes, floors)
    # Where fewer than ``SURE`` of the first agree, further starts follow, by the same program.
    unsure = ends.count[:, 0] < SURE * first
    if unsure.any() and first < chosen.shape[1]:
        others = np.where(unsure[:, None, None], chosen[:, first:], np.nan)
        shape = _chunk_shape(batch, first)
        more = _solve(method, batch, others, work, f"{method.name}-more", shape)
        lanes = _side_by_side(lanes, more)
        ends, solved[unsure] = distinct(lanes, floors), chosen.shape[1]
    polished = _solve(POLISH, batch, _to_polish(ends), work)
    return _optima(lanes, ends, polished, floors, np.full(batch.count, n_starts), solved)


def find_optima_warm(
    method: Solver,
    batch: Batch,
    full_data: Batch,
    data_sets: np.ndarray,
    starts: np.ndarray,
    n_local: int,
    work: Work | None = None,
    extra_starts: np.ndarray | None = None,
    n_own_starts: int = OWN_STARTS,
) -> list[Optimum]:
    """Find the optima of many refits of a few data sets, such as their folds or resamples.

    1. The data sets themselves are searched as by :func:`find_optima`.
    2. Every refit is solved from the distinct optima of its data set ("near"), and from a few
       starts of its own ("own"): the best of a part of all starts, screened for it.
    3. Where the best objectives of the two differ, the optimum lies elsewhere than in the data set,
       or is hard to reach: such a refit is searched as by :func:`find_optima` ("again").
    4. The best of all lanes is polished. Agreement counts the refit's own starts alone: those of
       3 where there are any, else those of 2.

    All of it runs through the programs of one search: whatever the stage, a queue has room for as
    many problems and is as long.

    Args:
        method: the batch solver.
        batch: the refits.
        full_data: the data sets, with the same fields ``batched``.
        data_sets: (P,) number of the data set that each refit is of.
        starts: (S, p) coordinates.
        n_local: number of the best starts that are solved where a problem is searched.
        work: devices, processes, folder and bar.
        extra_starts: (k, p) further points that the data sets are solved from.
        n_own_starts: number of starts of 2 that are a refit's own.

    Returns:
        One :class:`Optimum` for each refit.
    """
    work = work or Work()
    # Data sets are screened, solved and polished; refits solved, screened, solved and polished.
    work.expect(batch.count, 7)
    if work.folder is not None:
        described = _description(method, batch, starts, n_local)
        described["data"] += digest((full_data.problems, data_sets, extra_starts))
        described["options"] += f", {n_own_starts} own starts"
        work.claim(described)
    n_solved, size = min(n_local, len(starts)), starts.shape[1]
    n_screened = min(len(starts), max(OWN_SCREENED, len(starts) // OWN_PART))
    extra = np.empty((0, size)) if extra_starts is None else extra_starts
    rows = batch.problems.weight.shape[-1]
    block = min(next_power_of_two(batch.count), max(1, ROWS_ON_ACCELERATOR // rows), 2**14)
    lanes = block * max(n_solved + len(extra), CANDIDATES, n_own_starts)

    def shape(each):
        # On an accelerator programs are made for the shape: one for all stages.
        return (block, each, lanes) if on_accelerator() else _chunk_shape(batch, each)

    def screened(batch, starts, keep, stage):
        chunk = (block, n_screened, block * n_screened) if on_accelerator() else None
        return _screen(batch, starts, keep, work, f"{stage}-screen", chunk)

    def solved(batch, chosen, stage, method=method):
        name = stage if method is POLISH else f"{stage}-{method.name}"
        return _solve(method, batch, chosen, work, name, shape(chosen.shape[1]))

    stages = (method, shape(n_solved + len(extra))), (POLISH, shape(CANDIDATES))
    with work.in_background(*_programs(full_data, size, stages)):
        chosen = screened(full_data, starts, n_solved, "whole")
        points = np.broadcast_to(extra, (full_data.count, *extra.shape))
        whole = solved(full_data, np.concatenate([chosen, points], axis=1), "whole")
    ends = distinct(whole, full_data.floors)
    best = distinct(solved(full_data, _to_polish(ends), "whole-polish", POLISH), full_data.floors)
    near_starts = np.concatenate([best.coordinates[:, :1], ends.coordinates[:, 1:CANDIDATES]], 1)
    near = solved(batch, near_starts[data_sets], "near")
    own = solved(batch, screened(batch, starts[:n_screened], n_own_starts, "own"), "own")

    floors = batch.floors
    least_near, least_own = near.value.min(axis=1), own.value.min(axis=1)
    with np.errstate(invalid="ignore"):  # infinite in both: searched
        tie = np.maximum(AGREE * np.minimum(least_near, least_own), floors)
        elsewhere = np.flatnonzero(~(np.abs(least_near - least_own) <= tie))
    near.count[:] = 0
    found, tried = [near, own], np.full(batch.count, n_screened)
    n_each = np.full(batch.count, own.value.shape[1])
    if len(elsewhere):
        # A refit that is searched again solves no more starts than a fit begins with: solving
        # until they agree, as a fit does, took ten times as long for an inflection ratio, and gave
        # the same interval.
        some = batch.only(elsewhere)
        again = solved(some, screened(some, starts, n_solved, "again"), "again")
        everywhere = nowhere((batch.count, n_solved), size)
        for old, new in zip(everywhere, again, strict=True):
            old[elsewhere] = new
        own.value[elsewhere] = np.inf
        found.append(everywhere)
        tried[elsewhere], n_each[elsewhere] = len(starts), n_solved
    lanes_of_all = _side_by_side(*found)
    ends = distinct(lanes_of_all, floors)
    polished = solved(batch, _to_polish(ends), "polish", POLISH)
    return _optima(lanes_of_all, ends, polished, floors, tried, n_each)


# ---------------------------------------------------------------- chunks of a stage


def _chunk_shape(batch: Batch, each: int, limits: tuple[int, int] | None = None) -> Shape:
    """The shape of a chunk, of ``each`` starts of every problem: an eighth of all lanes.

    A chunk has whole problems, or a part of one. Programs depend on it, and on nothing of a single
    chunk.

    Args:
        batch: the problems.
        each: starts of each of them.
        limits: lanes of a chunk, at least and at most; those of solving if None.
    """
    total, (least, most) = batch.count * each, limits or SOLVE_LANES
    if on_accelerator():
        # Few chunks, equally long: at the end of each its last lanes leave the device idle.
        most = LANES_ON_ACCELERATOR
        if batch.batched:
            rows = batch.problems.weight.shape[-1]
            most = min(most, each * max(1, ROWS_ON_ACCELERATOR // rows))
        lanes = -(-total // -(-total // most))
    else:
        lanes = max(least, min(most, max(-(-total // 8), min(-(-total // 2), EFFICIENT))))
    width = min(each, lanes)
    if limits and not on_accelerator():
        # Where starts are screened, few widths, so that programs are few, and no wider for more
        # starts: what a chunk returns has a row for each of 64 problems, however few there are,
        # and beyond these widths it is no longer in the caches.
        width = min(each, 8 * STARTS if 64 * STARTS <= each else STARTS)
    # No more problems than the program of a queue has room for.
    room = problems_of_queue(batch.problems) if is_padded(batch.problems) else batch.count
    problems = max(1, min(batch.count, lanes // width, room))
    return problems, width, problems * width


def _stages(method: Solver, batch: Batch, first: int) -> list[tuple[Solver, Shape]]:
    """What :func:`find_optima` does after screening: solvers, and shapes of chunks."""
    each = (method, first), (POLISH, min(CANDIDATES, first))
    return [(solver, _chunk_shape(batch, starts)) for solver, starts in each]


def _programs(batch: Batch, size: int, stages: Iterable[tuple[Solver, Shape]]) -> list[Callable]:
    """Functions that compile what these stages run; none for what this process has compiled."""
    shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(batch.problems.inputs))
    programs = []
    for method, shape in stages:
        # Where queues are padded, sizes are no part of this; elsewhere some are compiled in vain.
        key = (method.name, batch.model, shapes, batch.batched - set(OWN), platform())
        if key not in _prepared:
            _prepared.add(key)
            chunks = batch.chunks(np.empty((1, 0, size)), shape)[:1]  # without lanes
            programs.append(partial(_solve_chunks, method, batch.model, batch.shared, chunks))
    return programs


def _screen(
    batch: Batch, starts: np.ndarray, keep: int, work: Work, stage: str = "screen",
    shape: Shape | None = None,
) -> np.ndarray:  # fmt: skip
    """The starts of best objective, with their linear coefficients solved for, (P, keep, p)."""
    keep = min(keep, len(starts))
    chunks = batch.chunks(starts, shape or _chunk_shape(batch, len(starts), SCREEN_LANES))
    function = partial(_screen_chunks, batch.model, batch.shared, keep)
    return _best(_joined(chunks, work.map(stage, function, chunks)), keep).coordinates


def _screen_chunks(
    model: Model, problems: Problem, keep: int, chunks: Sequence[Chunk]
) -> list[Lanes]:
    """The best ``keep`` starts of each chunk's problems, not solved yet but for coefficients."""
    solved, found = list(solved_coordinates(model)), []
    each = evaluate_chunks(model, problems, chunks)
    for chunk, (value, linear) in zip(chunks, each, strict=True):
        value = np.where(np.isfinite(value), value, np.inf)
        best = np.argsort(value, axis=1, kind="stable")[:, :keep]
        coordinates, value = chunk.coordinates[best], np.take_along_axis(value, best, axis=1)
        coordinates[..., solved] = np.take_along_axis(linear, best[..., None], axis=1)
        nothing = np.zeros(value.shape, np.int32)
        found.append(Lanes(coordinates, value, nothing + Status.RUNNING, nothing, nothing + 1))
    return found


def _solve(
    method: Solver, batch: Batch, starts: np.ndarray, work: Work, stage: str | None = None,
    shape: Shape | None = None,
) -> Lanes:  # fmt: skip
    """Lanes (P, S) at their ends, of the many of a chunk the best, see :func:`_thinned`.

    Args:
        method: the solver.
        batch: the problems.
        starts: (P, S, p), or (1, S, p) for all problems; a start of NaN is none.
        work: devices, processes, folder and bar.
        stage: name of the stage; the solver's if None.
        shape: of a chunk; :func:`_chunk_shape`'s if None.
    """
    chunks = batch.chunks(starts, shape or _chunk_shape(batch, starts.shape[1]))
    function = partial(_solve_chunks, method, batch.model, batch.shared)
    return _joined(chunks, work.map(stage or method.name, function, chunks))


def _solve_chunks(
    method: Solver, model: Model, problems: Problem, chunks: Sequence[Chunk]
) -> list[Lanes]:
    try:
        found = solve_chunks(method, model, problems, chunks)
    except ImportError as error:  # jaxopt is no longer maintained
        if method.name != POLISH.name:
            raise
        _say_once(f"{error}: Newton's method polishes; install a jaxopt that knows this JAX")
        found = solve_chunks(SOLVERS["newton"], model, problems, chunks)
    for k, (lanes, chunk) in enumerate(zip(found, chunks, strict=True)):
        value = np.where(np.isfinite(lanes.value), lanes.value, np.inf)
        found[k] = lanes._replace(value=value)
        if value.shape[1] > KEPT * MEMBERS:
            found[k] = _thinned(found[k], rounding_floor(model, problems._replace(**chunk.fields)))
    return found


def _joined(chunks: Sequence[Chunk], results: Sequence[Lanes]) -> Lanes:
    """The lanes (P, S) of all problems, from those of their chunks."""
    blocks = {}
    for chunk, lanes in zip(chunks, results, strict=True):
        blocks.setdefault(chunk.problems, []).append(lanes)
    rows = [_side_by_side(*parts) for parts in blocks.values()]
    return Lanes(*map(np.concatenate, zip(*rows, strict=True)))


def _side_by_side(*parts: Lanes) -> Lanes:
    return Lanes(*(np.concatenate(leaves, axis=1) for leaves in zip(*parts, strict=True)))


def _best(lanes: Lanes, keep: int | None = None) -> Lanes:
    """The lanes of each problem in the order of their objectives, so many of the best."""
    return _taken(lanes, np.argsort(lanes.value, axis=1, kind="stable")[:, :keep])


def _taken(lanes: Lanes, columns: np.ndarray) -> Lanes:
    """Some lanes (P, k) of each problem, by their columns."""
    rows = np.arange(len(columns))[:, None]
    return Lanes(*(leaf[rows, columns] for leaf in lanes))


# ---------------------------------------------------------------- distinct optima


def _optimum_of_each(value: np.ndarray, floors: np.ndarray) -> np.ndarray:
    """(P, n) number, from 0, of the distinct optimum that each lane is at; ``KEPT`` for none.

    Lanes are joined by objective alone: where the data leave a parameter open, lanes of one
    optimum end far apart.

    Args:
        value: (P, n) objectives, the best first.
        floors: (P,) difference of objectives that is rounding.
    """
    number, low = np.full(value.shape, KEPT), np.zeros((len(value), 1), int)
    columns = np.arange(value.shape[1])
    for k in range(min(KEPT, value.shape[1])):
        # An optimum begins with the best lane that is at none yet, and has all that tie with it.
        least = np.take_along_axis(value, np.minimum(low, columns[-1]), axis=1)
        tie = least + np.maximum(AGREE * np.abs(least), np.reshape(floors, (-1, 1)))
        inside = (columns >= low) & (value <= tie) & (value < np.inf)
        if not inside.any():
            break
        number[inside] = k
        low += np.count_nonzero(inside, axis=1, keepdims=True)
    return number


def _thinned(lanes: Lanes, floors: np.ndarray) -> Lanes:
    """Of each optimum ``MEMBERS`` lanes, so that memory does not grow with starts.

    The best of them counts for all that ended there.
    """
    lanes = _best(lanes)
    number, rows = _optimum_of_each(lanes.value, floors), np.arange(len(lanes.value))
    for k in range(KEPT):
        inside = number == k
        others = inside & (np.cumsum(inside, axis=1) > MEMBERS)
        lanes.count[rows, inside.argmax(axis=1)] += np.sum(lanes.count * others, axis=1)
        number[others] = KEPT
    lanes.value[number == KEPT] = np.inf
    return _best(lanes, KEPT * MEMBERS)


def distinct(lanes: Lanes, floors: np.ndarray) -> Lanes:
    """The best lane of each of the distinct optima of every problem, up to ``KEPT``: (P, k).

    It counts for all starts that ended there, and has converged where one of them has. Where there
    are fewer optima, objectives are infinite, counts 0 and coordinates NaN.

    Args:
        lanes: (P, S).
        floors: (P,) difference of objectives that is rounding.
    """
    lanes = _best(lanes)
    numbers = np.arange(min(KEPT, lanes.value.shape[1]))
    inside = _optimum_of_each(lanes.value, floors)[:, None] == numbers[:, None]  # (P, k, S)
    there, best = inside.any(axis=2), _taken(lanes, inside.argmax(axis=2))
    converged = (inside & (lanes.status == Status.CONVERGED)[:, None]).any(axis=2)
    status = np.where(converged, int(Status.CONVERGED), best.status)
    return Lanes(
        coordinates=np.where(there[..., None], best.coordinates, np.nan),
        value=np.where(there, best.value, np.inf),
        status=np.where(there, status, int(Status.NON_FINITE)),
        iterations=best.iterations,
        count=np.sum(inside * lanes.count[:, None], axis=2),
    )


def _to_polish(ends: Lanes) -> np.ndarray:
    """Distinct optima (P, k, p) that may become the best: the best, and what has not converged.

    A worse optimum that the batch solver has converged to stays worse, and is NaN here.
    """
    candidates = ends.coordinates[:, :CANDIDATES].copy()
    worse = np.arange(candidates.shape[1]) > 0
    candidates[worse & (ends.status[:, :CANDIDATES] == Status.CONVERGED)] = np.nan
    return candidates


def _optima(
    lanes: Lanes, ends: Lanes, polished: Lanes, floors: np.ndarray, tried: np.ndarray,
    solved: np.ndarray,
) -> list[Optimum]:  # fmt: skip
    """The optimum of each problem.

    Args:
        lanes: all lanes at their ends.
        ends: their :func:`distinct` optima.
        polished: lanes from these.
        floors: (P,) difference of objectives that is rounding.
        tried, solved: (P,) numbers of starts.
    """
    value, polished = ends.value, distinct(polished, floors)
    after = polished.value[:, 0]
    best = np.minimum(after, value[:, 0])
    finite = np.isfinite(best)
    tie = np.where(finite, np.maximum(AGREE * best, floors), 0.0)
    agree = value <= (best + tie)[:, None]
    # If polishing diverged, its point does not belong to the objective that is reported.
    sound = after <= best + tie
    at = np.where(sound[:, None], polished.coordinates[:, 0], ends.coordinates[:, 0])
    share = np.sum(ends.count * agree, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where(finite, AGREE * (value[:, 0] - best) / tie, 0.0)
    # The polish says how it ended, unless only the batch solver converged there.
    converged = agree[:, 0] & (ends.status[:, 0] == Status.CONVERGED)
    status = np.where(converged, int(Status.CONVERGED), polished.status[:, 0])
    status = np.where(finite, status, -1)
    other = np.isfinite(value) & ~agree
    ended = np.isin(ends.status, (Status.CONVERGED, Status.STALLED))
    # Lanes at an optimum that agrees: it may reach a little further than the best one's tie.
    lanes = _best(lanes)
    within = (_optimum_of_each(lanes.value, floors) < agree.sum(axis=1)[:, None]).sum(axis=1)
    second = other & ended
    # As lists: of thousands of resamples numpy's calls for each took longer than their lanes.
    counted = np.where(other, ends.count, 0) / solved[:, None]
    each = (best, status, share / solved, apart, tried, solved, np.minimum(within, MEMBERS))
    each += (np.where(second.any(axis=1), second.argmax(axis=1), -1), value, counted)
    optima = []
    for k, (objective, ended_as, agreement, distance, n_tried, n_solved, members, runner, values,
            shares) in enumerate(zip(*map(np.ndarray.tolist, each), strict=True)):  # fmt: skip
        runner_up = ends.coordinates[k, runner], values[runner], shares[runner]
        of_others = [pair for pair in zip(values, shares, strict=True) if pair[1]]
        optima.append(
            Optimum(
                coordinates=at[k],
                objective=objective,
                status=ended_as,
                agreement=agreement,
                disagreement=distance,
                agreeing=lanes.coordinates[k, :members] if members else at[k][None],
                runner_up=runner_up if runner >= 0 else None,
                tried=n_tried,
                solved=n_solved,
                distinct=((objective, agreement),) * bool(agreement) + tuple(of_others),
            )
        )
    return optima


def _description(
    method: Solver, batch: Batch, starts: np.ndarray, n_local: int | Literal[False] | None
) -> dict[str, str]:
    """What a batch is made of, in the words of a work folder's manifest."""
    problem = batch.only(0).problems if batch.batched else batch.problems
    # The text holds a formula's operations, numbers and the arrays that it closes over.
    formula = jax.jit(partial(predict, batch.model)).lower(problem, tuple(starts[0])).as_text()
    settings = (method.name, method.settings, POLISH.settings, n_local, batch.model.residuals)
    return {
        "law": batch.model.law.name,
        "formula": hashlib.sha256(formula.encode()).hexdigest(),
        "data": digest(batch.problems),
        "starts": digest([starts]),
        "options": str(settings),
        "versions": ", ".join([f"jaxlaw {__version__}", *installed("jax", "jaxopt"), platform()]),
    }
