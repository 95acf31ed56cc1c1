"""Multistart: from starts to the optimum of every problem, by screening, solving and polishing.

1. Screen: the objective of every start of every problem is evaluated, with the coefficients its
   law is linear in solved for; the best go on.
2. Solve: the batch solver takes each of them to its end. Of the lanes of a problem only those
   that end at its few best distinct objectives are kept, so memory does not grow with starts.
3. Polish: jaxopt's L-BFGS goes on from the best distinct optima, a second method that has to
   agree with the first.

Each stage is cut into chunks, see :mod:`jaxlaw.fitting._checkpoint`.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxlaw._jit import compiled
from jaxlaw.errors import UsageError
from jaxlaw.fitting._checkpoint import Arrays, Chunk, Work, digest, in_background, split_work
from jaxlaw.fitting._diagnostics import AGREE
from jaxlaw.fitting._engine import (
    DeviceMemory,
    Lanes,
    Queue,
    Values,
    evaluate_queues,
    problem_count,
    solve_queues,
)
from jaxlaw.fitting._objective import (
    Problem,
    predict,
    rounding_floor,
    scale_on_host,
    scaled_value,
    shared_fields,
)
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting._variable_projection import solved_coordinates
from jaxlaw.fitting.solvers import POLISH, Solver, Status

CANDIDATES = 4  # distinct optima that L-BFGS polishes
KEPT = 8  # distinct optima kept of a problem
MEMBERS = 64  # lanes kept of each, to see how far apart they lie
SCREEN_LANES = (2**9, 2**15)  # lanes of a chunk, at least and at most, where they are screened
SOLVE_LANES = (2**5, 2**11)  # … and where they are solved


class Task(NamedTuple):
    """What is searched.

    Attributes:
        model: what is fitted.
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

    def inside(self, coordinates: np.ndarray) -> np.ndarray:
        """Coordinates (P, S, p), or (1, S, p) for all, clipped to the box of each problem."""
        bounds = (self.problems.low, self.problems.high)
        return np.clip(coordinates, *(np.asarray(side)[..., None, :] for side in bounds))


class Optimum(NamedTuple):
    """The best optimum that the starts of one problem came to, and the evidence for it.

    Attributes:
        coordinates: (p,) coordinates of the best.
        objective: scaled objective there; infinite where no start came to a finite one.
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
    task: Task,
    starts: np.ndarray,
    n_local: int | Literal[False] | None = None,
    work: Work | None = None,
) -> list[Optimum]:
    """Find the optimum of every problem.

    Args:
        method: the batch solver.
        task: the problems.
        starts: (S, p) coordinates, for all problems.
        n_local: number of the best starts of a problem that are solved; None or False for all.
        work: devices, processes, folder and bar.

    Returns:
        One :class:`Optimum` for each problem.
    """
    work = work or Work()
    if work.folder is not None:
        work.claim(_description(method, task, starts, n_local))
    task = task._replace(problems=jax.tree.map(np.asarray, task.problems))
    n_solved = int(n_local) if n_local and n_local < len(starts) else len(starts)
    # The program that polishes depends on shapes alone: it is compiled while starts are screened.
    n_candidates = min(CANDIDATES, n_solved)
    anywhere = np.broadcast_to(starts[0], (task.count, n_candidates, starts.shape[1]))
    polish, _ = _solver_of_chunks(POLISH, task, anywhere, work.memory)
    with in_background(lambda: polish([])):
        everything = n_solved == len(starts)
        chosen = starts[None] if everything else _screen(task, starts, n_solved, work)
        solved = _solve(method, task, task.inside(chosen), work)
    # The best lane of each distinct optimum; NaN where there are fewer.
    candidates = np.stack([groups["members"][:CANDIDATES, 0] for groups in solved])
    polished = _solve(POLISH, task, task.inside(candidates), work)
    optima = [
        _optimum(*of_one, float(floor), len(starts), n_solved)
        for *of_one, floor in zip(solved, polished, task.floors, strict=True)
    ]
    if work.folder is not None:
        _check_answers(task, optima, work.folder)
    return optima


def _check_answers(task: Task, optima: Sequence[Optimum], folder: Path) -> None:
    """Refuse answers of a work folder whose objective the law does not give; raises UsageError.

    The manifest distinguishes batches by their description. This check needs no description: it
    finds whatever else lies in a folder that is not this work's.
    """
    at = np.stack([optimum.coordinates for optimum in optima])
    kept = np.array([optimum.objective for optimum in optima])
    own = {name: getattr(task.problems, name) for name in task.batched}
    actual = np.asarray(_objectives(task.model, shared_fields(task.problems, own), own, at))
    tie = np.maximum(AGREE * kept, task.floors)
    wrong = np.isfinite(kept) & ~(np.abs(actual - kept) <= tie)
    if wrong.any():
        k = int(np.argmax(wrong))
        scale = scale_on_host(task.problems)
        raise UsageError(
            f"work folder {folder} holds answers that are not of this work: an objective of "
            f"{kept[k] * scale:.8g} is kept, and at the parameters kept with it the law "
            f"{task.model.law.name} gives {actual[k] * scale:.8g}: delete the folder, or name "
            "another"
        )


@compiled(optimised=False, static_argnames="model")
def _objectives(model: Model, shared: Problem, own: dict[str, Any], at: Array) -> Array:
    """Scaled objectives (P,) at one point each, one problem after another to save memory."""

    def of_one(problem: tuple[dict[str, Any], Array]) -> Array:
        fields, coordinates = problem
        return scaled_value(model, shared._replace(**fields), coordinates)

    return jax.lax.map(of_one, (own, at))


def _screen(task: Task, starts: np.ndarray, keep: int, work: Work) -> np.ndarray:
    """The starts of best objective, with their linear coefficients solved for, (P, keep, p)."""
    chunks = split_work(
        task.count, len(starts), _chunk_size(task.count * len(starts), SCREEN_LANES)
    )
    length = chunks[0].starts[1]

    def screen(group: Sequence[Chunk]) -> list[Arrays]:
        def queue(chunk: Chunk) -> Queue:
            part = np.resize(starts[slice(*chunk.starts)], (length, starts.shape[1]))
            return Queue(_fields(task, chunk, chunks[0]), part, np.zeros(length, np.int32))

        queues = _queue_each_device(group, chunks, queue)
        values = evaluate_queues(task.model, task.problems, queues, work.memory)
        return [_best_starts(part, chunk, keep) for part, chunk in zip(values, group, strict=False)]

    chosen = []
    for parts in _by_problem(work.map("screen", screen, chunks), chunks):
        joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        best = np.argsort(joined["value"], kind="stable")[:keep]
        chosen.append(starts[joined["index"][best]])
        chosen[-1][:, list(solved_coordinates(task.model))] = joined["linear"][best]
    return np.stack(chosen)


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


def _solve(method: Solver, task: Task, starts: np.ndarray, work: Work) -> list[Arrays]:
    """The distinct optima of each problem, as :func:`_distinct` gives them.

    Starts are (P, S, p), or (1, S, p) for all problems; a start of NaN is none.
    """

    def best(result: Arrays) -> float:
        return float(result["value"].min() * scale_on_host(task.problems))

    solve, chunks = _solver_of_chunks(method, task, starts, work.memory)
    results = work.map(method.name, solve, chunks, best if task.count == 1 else None)
    keys, size = ("value", "count", "status", "members"), starts.shape[1]
    return [
        _distinct(*(np.concatenate([part[key] for part in parts]) for key in keys), floor, size)
        for parts, floor in zip(_by_problem(results, chunks), task.floors, strict=True)
    ]


def _solver_of_chunks(
    method: Solver, task: Task, starts: np.ndarray, memory: DeviceMemory
) -> tuple[Callable[[Sequence[Chunk]], list[Arrays]], list[Chunk]]:
    """A function that solves a group of chunks (of none it only compiles), and the chunks."""
    each = starts.shape[1]
    starts = np.broadcast_to(starts, (task.count, *starts.shape[1:]))
    chunks = split_work(task.count, each, _chunk_size(task.count * each, SOLVE_LANES))
    most_lanes = max(chunk.lanes for chunk in chunks)
    floors = task.floors

    def starts_of(chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """The chunk's starts (B, S, p), and which of them there are: the others are NaN."""
        part = starts[slice(*chunk.problems), slice(*chunk.starts)]
        return part, ~np.isnan(part).any(axis=-1)

    def queue(chunk: Chunk) -> Queue:
        part, there = starts_of(chunk)
        owner = np.nonzero(there)[0].astype(np.int32)
        return Queue(_fields(task, chunk, chunks[0]), part[there], owner)

    def reduce(lanes: Lanes, chunk: Chunk) -> Arrays:
        """The chunk's part of each problem's distinct optima, in place of all its lanes."""
        part, there = starts_of(chunk)
        value, status = np.full(there.shape, np.inf), np.full(there.shape, int(Status.NON_FINITE))
        value[there], status[there] = lanes.value, lanes.status
        members = np.full_like(part, np.nan)
        members[there] = lanes.coordinates
        members = members[:, :, None]
        rows = [
            _distinct(v, np.ones_like(s), s, m, floor, each)
            for v, s, m, floor in zip(
                value, status, members, floors[slice(*chunk.problems)], strict=True
            )
        ]
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}

    def solve(group: Sequence[Chunk]) -> list[Arrays]:
        queues = _queue_each_device(group, chunks, queue)
        ended = solve_queues(method, task.model, task.problems, queues, most_lanes, memory)
        return [reduce(lanes, chunk) for lanes, chunk in zip(ended, group, strict=False)]

    return solve, chunks


def _distinct(
    value: np.ndarray,
    count: np.ndarray,
    status: np.ndarray,
    members: np.ndarray,
    floor: float,
    starts: int,
) -> Arrays:
    """Join lanes, or groups of lanes, whose objectives agree; keep the best ``KEPT`` groups.

    Joining is by objective alone: where the data leave a parameter open, lanes of one optimum end
    far apart. Groups of chunks, joined again, are the groups of the whole.

    Args:
        value: (n,) objectives.
        count: (n,) how many starts ended there.
        status: (n,) how they ended.
        members: (n, m, p) their coordinates, the best first; NaN where there are fewer.
        floor: difference of objectives that is rounding.
        starts: how many starts the problem has: no more are kept.

    Returns:
        The same four by name; infinite objectives and counts of 0 where there are fewer.
    """
    kept, most = min(KEPT, starts), min(MEMBERS, starts)
    order = np.argsort(np.where(np.isfinite(value), value, np.inf), kind="stable")
    order = order[np.isfinite(value[order])]
    ordered, low = value[order], 0
    groups = {
        "value": np.full(kept, np.inf, value.dtype),
        "count": np.zeros(kept, np.int64),
        "status": np.full(kept, -1, np.int32),
        "members": np.full((kept, most, members.shape[-1]), np.nan, members.dtype),
    }
    for k in range(kept):
        if low == len(order):
            break
        tie = max(AGREE * abs(ordered[low]), floor)
        high = int(np.searchsorted(ordered, ordered[low] + tie, side="right"))
        group = order[low:high]
        points = members[group].reshape(-1, members.shape[-1])
        points = points[~np.isnan(points).any(axis=1)][:most]
        converged = Status.CONVERGED in status[group]
        groups["value"][k] = ordered[low]
        groups["count"][k] = count[group].sum()
        groups["status"][k] = Status.CONVERGED if converged else status[group[0]]
        groups["members"][k, : len(points)] = points
        low = high
    return groups


def _optimum(solved: Arrays, polished: Arrays, floor: float, tried: int, n_solved: int) -> Optimum:
    """The optimum of one problem, from its distinct optima before and after polishing."""
    value, count, members = solved["value"], solved["count"], solved["members"]
    best = float(min(polished["value"][0], value[0]))
    if not np.isfinite(best):
        nowhere = np.full(members.shape[-1], np.nan)
        return Optimum(nowhere, best, -1, 0.0, 0.0, nowhere[None], None, tried, n_solved)
    tie = max(AGREE * best, floor)
    agree = value <= best + tie
    # If polishing diverged, its point does not belong to the objective that is reported.
    sound = polished["value"][0] <= best + tie
    at = polished["members"][0, 0] if sound else members[0, 0]
    agreeing = members[agree].reshape(-1, len(at))
    agreeing = agreeing[~np.isnan(agreeing).any(axis=1)] if agree.any() else at[None]
    others = np.flatnonzero(~agree & np.isin(solved["status"], (Status.CONVERGED, Status.STALLED)))
    runner_up = None
    if len(others):
        k = others[0]
        runner_up = (members[k, 0], float(value[k]), float(count[k] / n_solved))
    # The polish says how it ended, unless only the batch solver converged there.
    converged = agree[0] and solved["status"][0] == Status.CONVERGED
    distinct = np.isfinite(value) & ~agree
    shares = [(best, count[agree].sum()), *zip(value[distinct], count[distinct], strict=True)]
    return Optimum(
        coordinates=at,
        objective=best,
        status=int(Status.CONVERGED if converged else polished["status"][0]),
        agreement=float(count[agree].sum() / n_solved),
        disagreement=float(AGREE * (value[0] - best) / tie),
        agreeing=agreeing,
        runner_up=runner_up,
        tried=tried,
        solved=n_solved,
        distinct=tuple((float(v), float(share / n_solved)) for v, share in shares if share),
    )


def _chunk_size(total: int, limits: tuple[int, int]) -> int:
    """Lanes of a chunk: an eighth of all, within limits 128 times as wide off the CPU."""
    factor = 1 if jax.default_backend() == "cpu" else 128
    least, most = limits
    return max(least * factor, min(most * factor, -(-total // 8)))


def _fields(task: Task, chunk: Chunk, first: Chunk) -> Arrays:
    """The chunk's part of what differs between problems, as long as the first chunk's."""
    low, high = chunk.problems
    length = first.problems[1]
    index = np.minimum(np.arange(low, low + length), high - 1)
    return {
        name: jax.tree.map(lambda leaf: leaf[index], getattr(task.problems, name))
        for name in task.batched
    }


def _queue_each_device(
    group: Sequence[Chunk], chunks: Sequence[Chunk], queue: Callable[[Chunk], Queue]
) -> list[Queue]:
    """A queue for every local device, so that there is one program; some may be empty."""
    empty = queue(chunks[0])._replace(owner=np.empty(0, np.int32))  # of no lanes
    idle = len(jax.local_devices()) - len(group)
    return [*map(queue, group), *[empty] * idle]


def _by_problem(results: Sequence[Arrays], chunks: Sequence[Chunk]) -> list[list[Arrays]]:
    """For each problem its rows of the chunks' results, in order."""
    parts: list[list[Arrays]] = [[] for _ in range(chunks[-1].problems[1])]
    for chunk, result in zip(chunks, results, strict=True):
        for row, problem in enumerate(range(*chunk.problems)):
            parts[problem].append({name: array[row] for name, array in result.items()})
    return parts


def _description(
    method: Solver, task: Task, starts: np.ndarray, n_local: int | Literal[False] | None
) -> dict[str, str]:
    """What a batch is made of, in the words of a work folder's manifest."""
    first = jax.tree.map(np.asarray, task.problems)
    single = first._replace(
        **{n: jax.tree.map(lambda leaf: leaf[0], getattr(first, n)) for n in task.batched}
    )
    coordinates = tuple(starts[0])
    traced = jax.make_jaxpr(partial(predict, task.model))(single, coordinates)
    # The text of a trace holds a formula's operations and numbers, but of arrays that it closes
    # over only the shapes, and of functions that are called back their addresses in this process.
    formula = re.sub(r" at 0x[0-9a-f]+", "", str(traced)).encode()
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("jaxlaw", "jax", "jaxopt")
    ]
    settings = (method.name, method.settings, POLISH.settings, n_local, task.model.residuals)
    sizes = (CANDIDATES, KEPT, MEMBERS, SCREEN_LANES, SOLVE_LANES, jax.default_backend())
    return {
        "law": task.model.law.name,
        "formula": digest([np.frombuffer(formula, np.uint8), *_constants(traced)]),
        "data": digest(task.problems),
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
