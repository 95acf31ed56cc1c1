"""Multistart: from starts to the optimum of every problem, by screening, solving and polishing.

1. Screen: the objective of every start of every problem is evaluated, with the coefficients its
   law is linear in solved for; the best go on.
2. Solve: the batch solver takes each of them to its end. Of the lanes of a problem only those
   that end at its few best distinct objectives are kept, so memory does not grow with starts.
   Where they do not agree, further starts are solved, as many as cost little: the best that
   screening knows often lie in one basin, and the optimum in another.
3. Polish: jaxopt's L-BFGS goes on from the best distinct optima, a second method that has to
   agree with the first.

Each stage is cut into chunks, see :mod:`jaxlaw.fitting._checkpoint`.

Many problems that resemble one another, the folds or resamples of a data set, need not all go this
way: :func:`find_optima_warm` starts each from the optima of the whole data set, and takes the long
way only where a few starts of its own say that its optimum lies elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxlaw._jit import compiled, installed, next_power_of_two, on_accelerator
from jaxlaw._version import __version__
from jaxlaw.errors import UsageError
from jaxlaw.fitting._checkpoint import (
    Arrays,
    Chunk,
    Work,
    digest,
    split,
)
from jaxlaw.fitting._engine import (
    LANES,
    OWN,
    PROBLEMS,
    STARTS,
    DeviceMemory,
    Lanes,
    Queue,
    Values,
    evaluate_queues,
    is_padded,
    problem_count,
    problems_of_queue,
    solve_queues,
)
from jaxlaw.fitting._objective import (
    AGREE,
    Problem,
    predict,
    rounding_floor,
    scale_on_host,
    scaled_value,
    shared_fields,
)
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting._variable_projection import solved_coordinates
from jaxlaw.fitting.solvers import POLISH, Solver, Status, with_usable

CANDIDATES = 4  # distinct optima that L-BFGS polishes
KEPT = 8  # distinct optima kept of a problem
MEMBERS = 64  # lanes kept of each, to see how far apart they lie
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
REFITS = 2**3  # of a chunk, at least


#: What this process has compiled ahead of its use: solver, model and shapes.
_prepared: set[Any] = set()


class Batch(NamedTuple):
    """Problems of one model on the same inputs, searched together.

    Attributes:
        model: law, residuals and scales, which all problems share.
        problems: the data; fields named in ``batched`` have a leading axis P.
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
        floors = rounding_floor(self.model, jax.device_get(self.problems))
        return np.broadcast_to(floors, self.count)

    def only(self, index: np.ndarray) -> Batch:
        """Some of the problems, by their numbers."""
        fields = {
            name: jax.tree.map(lambda leaf: np.asarray(leaf)[index], getattr(self.problems, name))
            for name in self.batched
        }
        return self._replace(problems=self.problems._replace(**fields))

    def inside(self, coordinates: np.ndarray) -> np.ndarray:
        """Coordinates (P, S, p), or (1, S, p) for all, clipped to the box of each problem."""
        bounds = (self.problems.low, self.problems.high)
        return np.clip(coordinates, *(np.asarray(side)[..., None, :] for side in bounds))


class Optimum(NamedTuple):
    """The best optimum of one problem, and the evidence for it.

    Attributes:
        coordinates: (p,) coordinates of the best.
        objective: scaled objective there; infinite where no start has a finite one.
        status: :class:`Status` of its search; −1 where the objective is not finite.
        agreement: share of the solved starts that end there.
        disagreement: relative distance of the batch solver's best objective from it.
        agreeing: (k, p) coordinates of starts that agree, up to ``MEMBERS``.
        runner_up: the next best optimum's coordinates, objective and share; None if none.
        tried, solved: numbers of starts.
        distinct: (objective, share of the solved starts) of each of the distinct optima, up to
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
    batch = batch._replace(problems=jax.tree.map(np.asarray, batch.problems))
    first = int(n_local) if n_local and n_local < len(starts) else len(starts)
    # Programs depend on shapes alone: what comes later is compiled while starts are screened.
    with work.in_background(*_later_programs(method, batch, starts, first, work.memory)):
        # Of several problems, folds or cut-offs, each would cost as much again.
        most = _most_solved(batch, first, *starts.shape) if batch.count == 1 else first
        chosen = starts[None] if first == len(starts) else _screen(batch, starts, most, work)
        solved, n_solved = _solve_until_sure(method, batch, batch.inside(chosen), first, work)
    polished = _solve(POLISH, batch, batch.inside(_to_polish(solved)), work)
    optima = _optima(solved, polished, batch.floors, len(starts), n_solved)
    if work.folder is not None:
        _check_answers(batch, optima, work.folder)
    return optima


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
    batch, full_data = (
        item._replace(problems=jax.tree.map(np.asarray, item.problems))
        for item in (batch, full_data)
    )
    n_solved, size = min(n_local, len(starts)), starts.shape[1]
    n_screened = min(len(starts), max(OWN_SCREENED, len(starts) // OWN_PART))
    most = problems_of_queue(batch.problems)
    block = max(REFITS, min(most, next_power_of_two(-(-batch.count // 8))))
    if on_accelerator():
        rows = batch.problems.weight.shape[-1]
        block = min(next_power_of_two(batch.count), max(1, ROWS_ON_ACCELERATOR // rows), 2**14)
    extra = np.empty((0, size)) if extra_starts is None else extra_starts
    lanes = block * max(n_solved + len(extra), CANDIDATES, n_own_starts)
    screening = _ChunkSizes(block, n_screened, lanes, n_solved)

    # What is kept of a refit is of no more starts than are solved of it: of 64, as of a search,
    # ten thousand folds took 2 GB.
    def solving(each: int) -> _ChunkSizes:
        sizes = screening._replace(starts=each, kept=min(each, n_solved))
        if not is_padded(batch.problems):
            return sizes
        problems = max(1, min(block, LANES // each))
        return sizes._replace(problems=problems, lanes=problems * each)

    # A refit that is searched again solves no more starts than a fit begins with: solving until
    # they agree, as a fit does, took ten times as long for an inflection ratio, and gave the same
    # interval.
    def searched(batch: Batch, stage: str, extra: np.ndarray) -> Arrays:
        chosen = _screen(batch, starts, n_solved, work, f"{stage}-screen", screening)
        points = np.broadcast_to(extra, (batch.count, *extra.shape))
        return solved_from(np.concatenate([chosen, points], axis=1), batch, stage)

    def solved_from(chosen: np.ndarray, batch: Batch, stage: str) -> Arrays:
        chosen, sizes = batch.inside(chosen), solving(chosen.shape[1])
        return _solve(method, batch, chosen, work, f"{stage}-{method.name}", sizes)

    def polished(batch: Batch, candidates: np.ndarray, stage: str) -> Arrays:
        sizes = solving(candidates.shape[1])
        return _solve(POLISH, batch, batch.inside(candidates), work, stage, sizes)

    stages = ((method, solving(n_solved + len(extra))), (POLISH, solving(CANDIDATES)))
    with work.in_background(*_solving_programs(full_data, starts, stages, work.memory)):
        optima = searched(full_data, "whole", extra)
    best = polished(full_data, _to_polish(optima), "whole-polish")["members"][:, :1, 0]
    near_starts = np.concatenate([best, _candidates(optima)[:, 1:]], axis=1)[data_sets]
    near = solved_from(near_starts, batch, "near")
    screened = _screen(batch, starts[:n_screened], n_own_starts, work, "own-screen", screening)
    own = solved_from(screened, batch, "own")
    tried, solved = np.full(batch.count, n_screened), np.full(batch.count, screened.shape[1])

    floors, least_near, least_own = batch.floors, near["value"][:, 0], own["value"][:, 0]
    with np.errstate(invalid="ignore"):  # infinite in both: searched
        tie = np.maximum(AGREE * np.minimum(least_near, least_own), floors)
        elsewhere = np.flatnonzero(~(np.abs(least_near - least_own) <= tie))
    near["count"][:] = 0
    few = min(n_solved, near_starts.shape[1] + screened.shape[1])
    stayed, parts = np.setdiff1d(np.arange(batch.count), elsewhere), []
    if len(stayed):
        both = _of_both(_of(near, stayed), _of(own, stayed), floors[stayed], few)
        parts.append((stayed, both))
    if len(elsewhere):
        again = searched(batch.only(elsewhere), "again", extra[:0])
        both = _of_both(_of(near, elsewhere), again, floors[elsewhere], n_solved)
        parts.append((elsewhere, both))
        tried[elsewhere], solved[elsewhere] = len(starts), n_solved
    polish = partial(polished, batch, stage="polish")
    found = _optima_of_parts(parts, polish, floors, tried, solved)
    if work.folder is not None:
        _check_answers(batch, found, work.folder)
    return found


class _ChunkSizes(NamedTuple):
    """Sizes of the chunks of a stage. Programs depend on them, and on nothing of a single chunk.

    Attributes:
        problems: problems of a chunk.
        starts: starts of each of them.
        lanes: lanes of a chunk, at most.
        kept: distinct optima of a problem, at most, that are kept.
    """

    problems: int
    starts: int
    lanes: int
    kept: int


def _chunk_sizes(batch: Batch, each: int, limits: tuple[int, int]) -> _ChunkSizes:
    """Sizes of the chunks of ``each`` starts of every problem: an eighth of all, within limits.

    A chunk has whole problems, or a part of one.
    """
    lanes = _lanes_of_chunk(batch, each, limits)
    if lanes < each:
        return _ChunkSizes(1, lanes, lanes, each)
    problems = min(batch.count, lanes // each)
    return _ChunkSizes(problems, each, problems * each, each)


def _screen_sizes(batch: Batch, each: int) -> _ChunkSizes:
    """The same where starts are screened: few numbers of starts, so that programs are few."""
    sizes = _chunk_sizes(batch, each, SCREEN_LANES)
    if on_accelerator():
        return sizes
    # No wider for more starts: what a chunk returns has a row for each of 64 problems, however few
    # there are, and beyond these widths it is no longer in the caches.
    width = 8 * STARTS if 64 * STARTS <= each else STARTS
    width = min(width, each)
    problems = max(1, min(batch.count, sizes.lanes // width))
    return _ChunkSizes(problems, width, problems * width, each)


def _lanes_of_chunk(batch: Batch, each: int, limits: tuple[int, int]) -> int:
    total = batch.count * each
    if not on_accelerator():
        least, most = limits
        return max(least, min(most, max(-(-total // 8), min(-(-total // 2), EFFICIENT))))
    # Few chunks, equally long: at the end of each of them its last lanes leave the device idle.
    most = LANES_ON_ACCELERATOR
    if batch.batched:
        most = min(most, each * max(1, ROWS_ON_ACCELERATOR // batch.problems.weight.shape[-1]))
    return -(-total // -(-total // most))


def _chunks(batch: Batch, starts: np.ndarray, sizes: _ChunkSizes) -> list[Chunk]:
    """The batch in chunks, with their arrays; starts are (S, p) for all problems, or (P, S, p)."""
    floors = batch.floors

    def with_arrays(chunk: Chunk) -> Chunk:
        problems = slice(*chunk.problems)
        of_problems = starts if starts.ndim == 2 else starts[problems]
        coordinates = of_problems[..., slice(*chunk.starts), :]
        fields = {
            name: jax.tree.map(lambda leaf: leaf[problems], getattr(batch.problems, name))
            for name in batch.batched
        }
        return chunk._replace(fields=fields, coordinates=coordinates, floors=floors[problems])

    chunks = split(batch.count, starts.shape[-2], sizes.problems, sizes.starts)
    return [with_arrays(chunk) for chunk in chunks]


def _compile(function: Callable[[list[Chunk]], list[Arrays]], chunks: Sequence[Chunk]) -> None:
    """Compile what a stage runs, by a chunk without lanes."""
    function([chunks[0].without_lanes()])


def compile_search(method: Solver, batch: Batch, starts: np.ndarray, n_local: Any) -> None:
    """Compile the programs of searches on these rows, unless that was done before."""
    if not is_padded(batch.problems):  # programs depend on the size of the search
        return
    memory, keep = DeviceMemory(), min(int(n_local or len(starts)), len(starts))
    later = _later_programs(method, batch, starts, keep, memory)
    if later:
        _compile(*_screening(batch, starts, keep, _screen_sizes(batch, len(starts)), memory))
    for prepare in later:
        prepare()


def _later_programs(
    method: Solver, batch: Batch, starts: np.ndarray, first: int, memory: DeviceMemory
) -> list[Callable[[], None]]:
    """Functions that compile what :func:`find_optima` runs after screening."""
    candidates = min(CANDIDATES, first)
    sizes = [_chunk_sizes(batch, each, SOLVE_LANES) for each in (first, candidates)]
    return _solving_programs(batch, starts, zip((method, POLISH), sizes, strict=True), memory)


def _solving_programs(
    batch: Batch, starts: np.ndarray, stages: Iterable[tuple[Solver, _ChunkSizes]],
    memory: DeviceMemory,
) -> list[Callable[[], None]]:  # fmt: skip
    """Functions that compile what these stages run; none for what this process has compiled."""
    shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(batch.problems.inputs))
    programs = []
    for method, sizes in stages:
        # Where queues are padded, sizes are no part of this; elsewhere some are compiled in vain.
        key = (method.name, batch.model, shapes, batch.batched - set(OWN))
        if key not in _prepared:
            anywhere = np.broadcast_to(starts[0], (batch.count, sizes.starts, starts.shape[1]))
            programs.append(partial(_compile, *_solving(method, batch, anywhere, sizes, memory)))
            _prepared.add(key)
    return programs


def _check_answers(batch: Batch, optima: Sequence[Optimum], folder: Path) -> None:
    """Refuse answers of a work folder whose objective the law does not give; raises UsageError.

    The manifest distinguishes batches by their description. This check needs no description: it
    finds whatever else lies in a folder that is not this work's.
    """
    at = np.stack([optimum.coordinates for optimum in optima])
    kept = np.array([optimum.objective for optimum in optima])
    fields = {name: getattr(batch.problems, name) for name in batch.batched}
    actual = np.asarray(_objectives(batch.model, shared_fields(batch.problems, fields), fields, at))
    tie = np.maximum(AGREE * kept, batch.floors)
    wrong = np.isfinite(kept) & ~(np.abs(actual - kept) <= tie)
    if wrong.any():
        k = int(np.argmax(wrong))
        scale = scale_on_host(batch.problems)
        raise UsageError(
            f"work folder {folder} holds answers that are not of this work: an objective of "
            f"{kept[k] * scale:.8g} is kept, and at the parameters kept with it the law "
            f"{batch.model.law.name} gives {actual[k] * scale:.8g}: delete the folder, or name "
            "another"
        )


@compiled(optimised=False, static_argnames="model")
def _objectives(model: Model, shared: Problem, fields: dict[str, Any], at: Array) -> Array:
    """Scaled objectives (P,) at one point each, one problem after another to save memory."""

    def of_one(problem: tuple[dict[str, Any], Array]) -> Array:
        fields, coordinates = problem
        return scaled_value(model, shared._replace(**fields), coordinates)

    return jax.lax.map(of_one, (fields, at))


def _candidates(solved: Arrays) -> np.ndarray:
    """The best lane of each of the best distinct optima (P, k, p); NaN where there are fewer."""
    return solved["members"][:, :CANDIDATES, 0]


def _to_polish(solved: Arrays) -> np.ndarray:
    """Those candidates that may become the best optimum: the best, and what has not converged.

    A worse optimum that the batch solver has converged to stays worse.
    """
    candidates = _candidates(solved).copy()
    worse = np.arange(candidates.shape[1]) > 0
    candidates[worse & (solved["status"][:, :CANDIDATES] == Status.CONVERGED)] = np.nan
    return candidates


def _screen(
    batch: Batch, starts: np.ndarray, keep: int, work: Work, stage: str = "screen",
    sizes: _ChunkSizes | None = None,
) -> np.ndarray:  # fmt: skip
    """The starts of best objective, with their linear coefficients solved for, (P, keep, p)."""
    keep = min(keep, len(starts))
    sizes = sizes or _screen_sizes(batch, len(starts))
    function, chunks = _screening(batch, starts, keep, sizes, work.memory)
    results = work.map(stage, function, chunks)
    by_block: dict[tuple[int, int], list[Arrays]] = {}
    for chunk, result in zip(chunks, results, strict=True):
        by_block.setdefault(chunk.problems, []).append(result)
    chosen = []
    for parts in by_block.values():  # blocks of problems, each with all its starts
        index, value, linear = (
            np.concatenate([part[key] for part in parts], axis=1)
            for key in ("index", "value", "linear")
        )
        best = np.argsort(value, axis=1, kind="stable")[:, :keep]
        chosen.append(starts[np.take_along_axis(index, best, axis=1)])
        solved = list(solved_coordinates(batch.model))
        chosen[-1][..., solved] = np.take_along_axis(linear, best[..., None], axis=1)
    return np.concatenate(chosen)


def _screening(
    batch: Batch, starts: np.ndarray, keep: int, sizes: _ChunkSizes, memory: DeviceMemory
) -> tuple[Callable[[Sequence[Chunk]], list[Arrays]], list[Chunk]]:
    """The work of :func:`_screen`: a picklable function of chunks, and all chunks."""
    shared = shared_fields(batch.problems, batch.batched)
    function = partial(_screen_chunks, batch.model, shared, keep, sizes, memory)
    return function, _chunks(batch, starts, sizes)


def _screen_chunks(
    model: Model, problems: Problem, keep: int, sizes: _ChunkSizes, memory: DeviceMemory,
    chunks: Sequence[Chunk],
) -> list[Arrays]:  # fmt: skip
    """The best starts of each chunk, see :func:`_best_starts`."""

    def queue(chunk: Chunk) -> Queue:
        starts = chunk.coordinates
        return Queue(chunk.fields, starts, np.zeros(len(starts), np.int32))

    queues = _queue_each_device([queue(chunk) for chunk in chunks])
    values = evaluate_queues(model, problems, queues, sizes.starts, memory, sizes.problems)
    return [_best_starts(each, chunk, keep) for each, chunk in zip(values, chunks, strict=False)]


def _best_starts(values: Values, chunk: Chunk, keep: int) -> Arrays:
    """The best of a chunk's starts in each of its problems, (B, k, …)."""
    low, high = chunk.starts
    value = values.value[: chunk.count, : high - low]
    value = np.where(np.isfinite(value), value, np.inf)
    best = np.argsort(value, axis=1, kind="stable")[:, :keep]
    return {
        "index": best + low,
        "value": np.take_along_axis(value, best, axis=1),
        "linear": np.take_along_axis(values.linear[: chunk.count], best[..., None], axis=1),
    }


def _solve(
    method: Solver, batch: Batch, starts: np.ndarray, work: Work, stage: str | None = None,
    sizes: _ChunkSizes | None = None,
) -> Arrays:  # fmt: skip
    """The distinct optima of every problem, as :func:`_distinct` gives them.

    Starts are (P, S, p), or (1, S, p) for all problems; a start of NaN is none.
    """

    def best(result: Arrays) -> float:
        return float(result["value"].min() * scale_on_host(batch.problems))

    sizes = sizes or _chunk_sizes(batch, starts.shape[1], SOLVE_LANES)
    function, chunks = _solving(method, batch, starts, sizes, work.memory)
    best_shown = best if batch.count == 1 else None
    results = work.map(stage or method.name, function, chunks, best_shown)
    if all(chunk.starts == chunks[0].starts for chunk in chunks):  # no problem is in two chunks
        return {key: np.concatenate([result[key] for result in results]) for key in results[0]}
    return _joined(results, chunks, batch.floors, sizes.kept)


def _joined(
    results: Sequence[Arrays], chunks: Sequence[Chunk], floors: np.ndarray, kept: int
) -> Arrays:
    """The distinct optima of every problem, from those of the chunks that it is spread over."""
    keys = ("value", "count", "status", "members")
    rows = [
        _distinct(*(np.concatenate([part[key] for part in parts])[None] for key in keys),
                  floor[None], kept)
        for parts, floor in zip(_by_problem(results, chunks), floors, strict=True)
    ]  # fmt: skip
    return {key: np.concatenate([row[key] for row in rows]) for key in keys}


# An iteration takes rows × parameters² multiplications. Of a tuned law (20 parameters) of 60 rows
# 1,092 starts took 50 CPU seconds, and the first of them had the optimum.
def _most_solved(batch: Batch, first: int, starts: int, parameters: int) -> int:
    """How many starts of a problem are solved where the first of them do not agree."""
    rows = np.count_nonzero(batch.problems.weight)  # and not those that it is padded with
    work = max(rows, 1) * max(parameters, FEW_PARAMETERS) ** 2
    return min(starts, max(first, CHEAP // work))


def _solve_until_sure(
    method: Solver, batch: Batch, starts: np.ndarray, first: int, work: Work
) -> tuple[Arrays, np.ndarray]:
    """The distinct optima of every problem, and (P,) how many of its starts were solved.

    All its starts where fewer than ``SURE`` of the first agree, by the same program; and where the
    best of the first ran out of iterations these again, with ten times as many: with a small δ a
    curved valley has a kink at every row, and lanes creep along it.
    """
    sizes = _chunk_sizes(batch, first, SOLVE_LANES)
    solved = _solve(method, batch, starts[:, :first], work, method.name, sizes)
    number = np.full(batch.count, first)
    ran_out = solved["status"][:, 0] == Status.STEP_LIMIT
    if ran_out.any():
        limit = 10 * method.settings.max_iterations
        longer = method._replace(settings=method.settings._replace(max_iterations=limit))
        again = np.where(ran_out[:, None, None], starts[:, :first], np.nan)
        again = _solve(longer, batch, again, work, f"{method.name}-longer", sizes)
        for name, values in again.items():
            solved[name][ran_out] = values[ran_out]
    unsure = solved["count"][:, 0] < SURE * first
    if not unsure.any() or first >= starts.shape[1]:
        return solved, number
    others = starts[:, first:].copy()
    others[~unsure] = np.nan
    more = _solve(method, batch, others, work, f"{method.name}-more", sizes)
    number[unsure] = starts.shape[1]
    return _of_both(solved, more, batch.floors, first), number


def _of_both(one: Arrays, other: Arrays, floors: np.ndarray, starts: int) -> Arrays:
    """The distinct optima of every problem, from those of two searches of it."""
    most = max(part["members"].shape[2] for part in (one, other))

    def both(key: str) -> np.ndarray:
        parts = [one[key], other[key]]
        if key == "members":
            room = [((0, 0), (0, 0), (0, most - part.shape[2]), (0, 0)) for part in parts]
            parts = [
                np.pad(*each, constant_values=np.nan) for each in zip(parts, room, strict=True)
            ]
        return np.concatenate(parts, axis=1)

    return _distinct(*map(both, ("value", "count", "status", "members")), floors, starts)


def _of(groups: Arrays, rows: np.ndarray) -> Arrays:
    """Some of the problems, by their numbers."""
    return {key: values[rows] for key, values in groups.items()}


def _solving(
    method: Solver, batch: Batch, starts: np.ndarray, sizes: _ChunkSizes, memory: DeviceMemory
) -> tuple[Callable[[Sequence[Chunk]], list[Arrays]], list[Chunk]]:
    """The work of :func:`_solve`: a picklable function of chunks, and all chunks."""
    starts = np.broadcast_to(starts, (batch.count, *starts.shape[1:]))
    shared = shared_fields(batch.problems, batch.batched)
    function = partial(_solve_chunks, method, batch.model, shared, sizes, memory)
    return function, _chunks(batch, starts, sizes)


def _solve_chunks(
    method: Solver, model: Model, problems: Problem, sizes: _ChunkSizes, memory: DeviceMemory,
    chunks: Sequence[Chunk],
) -> list[Arrays]:  # fmt: skip
    """The distinct optima of each chunk's problems, in place of all its lanes."""

    def queue(chunk: Chunk) -> Queue:
        started = chunk.has_start
        owner = np.nonzero(started)[0].astype(np.int32)
        return Queue(chunk.fields, chunk.coordinates[started], owner)

    def distinct(lanes: Lanes, chunk: Chunk) -> Arrays:
        started = chunk.has_start
        value = np.full(started.shape, np.inf)
        status = np.full(started.shape, int(Status.NON_FINITE))
        members = np.full_like(chunk.coordinates, np.nan)
        value[started], status[started] = lanes.value, lanes.status
        members[started] = lanes.coordinates
        count = np.ones_like(status)
        return _distinct(value, count, status, members[:, :, None], chunk.floors, sizes.kept)

    queues = _queue_each_device([queue(chunk) for chunk in chunks])
    solved = with_usable(
        method,
        lambda method: solve_queues(
            method, model, problems, queues, sizes.lanes, memory, sizes.problems
        ),
    )
    both = zip(solved, chunks, strict=False)
    return [distinct(lanes, chunk) for lanes, chunk in both if chunk.lanes]


def _distinct(
    value: np.ndarray,
    count: np.ndarray,
    status: np.ndarray,
    members: np.ndarray,
    floors: np.ndarray,
    starts: int,
) -> Arrays:
    """Join the lanes, or groups of lanes, of each problem whose objectives agree; keep the best.

    Joining is by objective alone: where the data leave a parameter open, lanes of one optimum end
    far apart. Groups of chunks, joined again, are the groups of the whole.

    Args:
        value: (P, n) objectives.
        count: (P, n) how many starts ended there.
        status: (P, n) how they ended.
        members: (P, n, m, p) their coordinates, the best first; NaN where there are fewer.
        floors: (P,) difference of objectives that is rounding.
        starts: how many starts a problem has: no more are kept.

    Returns:
        The same four by name, of the best ``KEPT`` groups; infinite objectives and counts of 0
        where there are fewer.
    """
    kept, most = min(KEPT, starts), min(MEMBERS, starts)
    problems, n = value.shape
    value = np.where(np.isfinite(value), value, np.inf)
    order = np.argsort(value, axis=1, kind="stable")
    value, count, status = (np.take_along_axis(a, order, axis=1) for a in (value, count, status))
    points = np.take_along_axis(members, order[:, :, None, None], axis=1)
    points = points.reshape(problems, -1, members.shape[-1])
    present = ~np.isnan(points).any(axis=2)  # (P, n · m)
    groups = {
        "value": np.full((problems, kept), np.inf, value.dtype),
        "count": np.zeros((problems, kept), np.int64),
        "status": np.full((problems, kept), -1, np.int32),
        "members": np.full((problems, kept, most, points.shape[2]), np.nan, points.dtype),
    }
    row, low = np.arange(problems), np.zeros(problems, int)
    for k in range(kept):
        # A group begins with the best lane that is in none yet, and has all that tie with it.
        first = np.minimum(low, n - 1)
        least = np.where(low < n, value[row, first], np.inf)
        if not np.isfinite(least).any():
            break
        tie = least + np.maximum(AGREE * np.abs(least), floors)
        inside = (np.arange(n) >= low[:, None]) & (value <= tie[:, None]) & np.isfinite(value)
        converged = (inside & (status == Status.CONVERGED)).any(axis=1)
        ended = np.where(converged, int(Status.CONVERGED), status[row, first])
        groups["value"][:, k] = least
        groups["count"][:, k] = (count * inside).sum(axis=1)
        groups["status"][:, k] = np.where(np.isfinite(least), ended, -1)
        of_group = present & np.repeat(inside, members.shape[2], axis=1)
        number = np.cumsum(of_group, axis=1) - 1
        problem, point = np.nonzero(of_group & (number < most))
        groups["members"][problem, k, number[problem, point]] = points[problem, point]
        low = low + inside.sum(axis=1)
    return groups


def _optima(
    solved: Arrays, polished: Arrays, floors: np.ndarray, tried: Any, n_solved: Any
) -> list[Optimum]:
    """The optimum of each problem, from its distinct optima before and after polishing.

    Args:
        solved, polished: as :func:`_distinct` gives them.
        floors: (P,) difference of objectives that is rounding.
        tried, n_solved: numbers of starts, of all problems or (P,).
    """
    value, count, members = solved["value"], solved["count"], solved["members"]
    tried, n_solved = (np.broadcast_to(number, len(value)) for number in (tried, n_solved))
    after = polished["value"][:, 0]
    best = np.minimum(after, value[:, 0])
    finite = np.isfinite(best)
    tie = np.where(finite, np.maximum(AGREE * best, floors), 0.0)
    agree = value <= (best + tie)[:, None]
    # If polishing diverged, its point does not belong to the objective that is reported.
    sound = after <= best + tie
    at = np.where(sound[:, None], polished["members"][:, 0, 0], members[:, 0, 0])
    share = (count * agree).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = AGREE * (value[:, 0] - best) / tie
    # The polish says how it ended, unless only the batch solver converged there.
    converged = agree[:, 0] & (solved["status"][:, 0] == Status.CONVERGED)
    status = np.where(converged, int(Status.CONVERGED), polished["status"][:, 0])
    ended = np.isin(solved["status"], (Status.CONVERGED, Status.STALLED))
    distinct = np.isfinite(value) & ~agree
    present = ~np.isnan(members[..., 0]) & agree[:, :, None]
    optima = []
    for k in range(len(value)):
        if not finite[k]:
            nowhere = np.full(members.shape[-1], np.nan)
            optima.append(
                Optimum(
                    nowhere, float(best[k]), -1, 0.0, 0.0, nowhere[None], None, int(tried[k]),
                    int(n_solved[k]),
                )
            )  # fmt: skip
            continue
        others = np.flatnonzero(distinct[k] & ended[k])
        shares = [(best[k], share[k])]
        shares += zip(value[k, distinct[k]], count[k, distinct[k]], strict=True)
        optima.append(
            Optimum(
                coordinates=at[k],
                objective=float(best[k]),
                status=int(status[k]),
                agreement=float(share[k] / n_solved[k]),
                disagreement=float(apart[k]),
                agreeing=members[k][present[k]] if agree[k].any() else at[k][None],
                runner_up=(
                    members[k, others[0], 0],
                    float(value[k, others[0]]),
                    float(count[k, others[0]] / n_solved[k]),
                )
                if len(others)
                else None,
                tried=int(tried[k]),
                solved=int(n_solved[k]),
                distinct=tuple((float(v), float(c / n_solved[k])) for v, c in shares if c),
            )
        )
    return optima


def _optima_of_parts(
    parts: Sequence[tuple[np.ndarray, Arrays]], polish: Callable[[np.ndarray], Arrays],
    floors: np.ndarray, tried: np.ndarray, n_solved: np.ndarray,
) -> list[Optimum]:  # fmt: skip
    """The optima of all problems, polished together, in their order.

    Args:
        parts: numbers of some problems, with their distinct optima as :func:`_distinct` gives them:
            those of one part may have more than those of another.
        polish: function of candidates (P, k, p).
        floors, tried, n_solved: (P,), as :func:`_optima` takes them.
    """
    each = [_to_polish(part) for _, part in parts]
    most = max(some.shape[1] for some in each)
    candidates = np.full((len(floors), most, each[0].shape[2]), np.nan)
    for (rows, _), some in zip(parts, each, strict=True):
        candidates[rows, : some.shape[1]] = some
    polished, found = polish(candidates), {}
    for rows, part in parts:
        optima = _optima(part, _of(polished, rows), floors[rows], tried[rows], n_solved[rows])
        found |= dict(zip(rows.tolist(), optima, strict=True))
    return [found[k] for k in range(len(floors))]


def _queue_each_device(queues: list[Queue]) -> list[Queue]:
    """These queues and empty ones: one for every local device, so that there is one program."""
    empty = queues[0]._replace(owner=np.empty(0, np.int32))
    return [*queues, *[empty] * (len(jax.local_devices()) - len(queues))]


def _by_problem(results: Sequence[Arrays], chunks: Sequence[Chunk]) -> list[list[Arrays]]:
    """For each problem its rows of the chunks' results, in order."""
    parts: list[list[Arrays]] = [[] for _ in range(chunks[-1].problems[1])]
    for chunk, result in zip(chunks, results, strict=True):
        for row, problem in enumerate(range(*chunk.problems)):
            parts[problem].append({name: array[row] for name, array in result.items()})
    return parts


def _description(
    method: Solver, batch: Batch, starts: np.ndarray, n_local: int | Literal[False] | None
) -> dict[str, str]:
    """What a batch is made of, in the words of a work folder's manifest."""
    first = jax.tree.map(np.asarray, batch.problems)
    single = first._replace(
        **{n: jax.tree.map(lambda leaf: leaf[0], getattr(first, n)) for n in batch.batched}
    )
    coordinates = tuple(starts[0])
    traced = jax.make_jaxpr(partial(predict, batch.model))(single, coordinates)
    # The text of a trace holds a formula's operations and numbers, but of arrays that it closes
    # over only the shapes, and of functions that are called back their addresses in this process.
    formula = re.sub(r" at 0x[0-9a-f]+", "", str(traced)).encode()
    versions = [f"jaxlaw {__version__}", *installed("jax", "jaxopt")]
    settings = (method.name, method.settings, POLISH.settings, n_local, batch.model.residuals)
    sizes = (
        CANDIDATES, KEPT, MEMBERS, SCREEN_LANES, SOLVE_LANES, LANES_ON_ACCELERATOR,
        ROWS_ON_ACCELERATOR, OWN_PART, OWN_SCREENED, REFITS, PROBLEMS, LANES, SURE, CHEAP,
        EFFICIENT, jax.default_backend(),
    )  # fmt: skip
    return {
        "law": batch.model.law.name,
        "formula": digest([np.frombuffer(formula, np.uint8), *_constants(traced)]),
        "data": digest(batch.problems),
        "starts": digest([starts]),
        "options": str(settings),
        "versions": ", ".join(versions),
        "sizes": str(sizes),
    }


def _constants(traced: Any) -> Iterator[np.ndarray]:
    """Arrays that a traced formula closes over, those of the formulas inside it among them."""
    yield from map(np.asarray, getattr(traced, "consts", ()))
    for equation in traced.eqns:
        for inner in jax.tree.leaves(list(equation.params.values())):
            if hasattr(inner, "eqns"):
                yield from _constants(inner)
