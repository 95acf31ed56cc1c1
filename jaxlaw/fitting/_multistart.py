"""From starts to the optimum of every problem: screen, solve, finish.

1. Screen: the objective of every start of every problem is evaluated, with the coefficients its
   law is linear in solved for; the best go on.
2. Solve: the batch solver takes each of them to its end. Of the lanes of a problem only those
   that end at its few best distinct objectives are kept, so memory does not grow with starts.
3. Finish: jaxopt's L-BFGS goes on from the best distinct candidates.

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
from jaxlaw.fitting._checkpoint import Arrays, Chunk, Work, cut, digest, meanwhile
from jaxlaw.fitting._diagnostics import AGREE
from jaxlaw.fitting._engine import (
    Lanes,
    Queue,
    Values,
    evaluate_queues,
    problem_count,
    solve_queues,
)
from jaxlaw.fitting._memory import Memory
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
from jaxlaw.fitting.solvers import FINISHER, Solver
from jaxlaw.fitting.solvers._lbfgs import jaxopt
from jaxlaw.fitting.solvers._status import CONVERGED, NON_FINITE, STALLED

CANDIDATES = 4  # distinct optima that L-BFGS finishes
KEPT = 8  # distinct objectives kept of a problem
MEMBERS = 64  # lanes kept of each, to see how far apart they lie
SCREENED = (2**11, 2**15)  # lanes of a chunk, at least and at most: evaluations
SOLVED = (2**5, 2**11)  # … and solves


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
        """Objectives (P,) below which there is nothing to tell apart."""
        floors = rounding_floor(self.model, jax.device_get(self.problems))
        return np.broadcast_to(floors, self.count)

    def inside(self, places: np.ndarray) -> np.ndarray:
        """Places (P, S, p), or (1, S, p) for all, within the box of each problem."""
        sides = (self.problems.low, self.problems.high)
        return np.clip(places, *(np.asarray(side)[..., None, :] for side in sides))


class Optimum(NamedTuple):
    """What the starts of one problem came to.

    Attributes:
        coordinates: (p,) of the best.
        objective: there, scaled; infinite where no start came to a finite one.
        status: how its search ended.
        agreement: share of the solved starts that end there.
        disagreement: relative distance of the batch solver's best objective from it.
        agreeing: (k, p) coordinates of starts that agree, up to ``MEMBERS``.
        runner_up: the next best optimum's coordinates, objective and share; None if none.
        tried, solved: numbers of starts.
        ends: (objective, share of the solved starts) of each of the distinct ones found, up to
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
    ends: tuple[tuple[float, float], ...] = ()


def find_optima(
    method: Solver,
    task: Task,
    starts: np.ndarray,
    n_local: int | Literal[False] | None = None,
    work: Work | None = None,
) -> list[Optimum]:
    """The optimum of every problem.

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
    jaxopt()  # imported before there are threads
    if work.folder is not None:
        work.claim(_description(method, task, starts, n_local))
    task = task._replace(problems=jax.tree.map(np.asarray, task.problems))
    size = int(n_local) if n_local and n_local < len(starts) else len(starts)
    anywhere = np.broadcast_to(starts[0], (task.count, min(CANDIDATES, size), starts.shape[1]))
    finish, _ = _solving(FINISHER, task, anywhere, work.memory)
    with meanwhile(lambda: finish([])):  # compiles
        chosen = starts[None] if size == len(starts) else _screened(task, starts, size, work)
        found = _solved(method, task, task.inside(chosen), work)
    # The best places of distinct objective; NaN where there are fewer.
    candidates = np.stack([optima["members"][:CANDIDATES, 0] for optima in found])
    finished = _solved(FINISHER, task, task.inside(candidates), work)
    optima = [
        _optimum(*of_one, float(floor), len(starts), size)
        for *of_one, floor in zip(found, finished, task.floors, strict=True)
    ]
    if work.folder is not None:
        _check_answers(task, optima, work.folder)
    return optima


def _check_answers(task: Task, optima: Sequence[Optimum], folder: Path) -> None:
    """Refuse answers of a work folder whose objective the law does not give; raises UsageError.

    The manifest tells batches apart by their description. This check needs no description: it
    finds whatever else lies in a folder that is not this work's.
    """
    at = np.stack([one.coordinates for one in optima])
    kept = np.array([one.objective for one in optima])
    own = {name: getattr(task.problems, name) for name in task.batched}
    given = np.asarray(_objectives(task.model, shared_fields(task.problems, own), own, at))
    wrong = np.isfinite(kept) & ~(np.abs(given - kept) <= np.maximum(AGREE * kept, task.floors))
    if wrong.any():
        k = int(np.argmax(wrong))
        scale = scale_on_host(task.problems)
        raise UsageError(
            f"work folder {folder} holds answers that are not of this work: an objective of "
            f"{kept[k] * scale:.8g} is kept, and at the parameters kept with it the law "
            f"{task.model.law.name} gives {given[k] * scale:.8g}: delete the folder, or name "
            "another"
        )


@compiled(optimised=False, static_argnames="model")
def _objectives(model: Model, shared: Problem, own: dict[str, Any], at: Array) -> Array:
    """Scaled objectives (P,) of one place each, one problem after another to save memory."""

    def one(given: tuple[dict[str, Any], Array]) -> Array:
        return scaled_value(model, shared._replace(**given[0]), given[1])

    return jax.lax.map(one, (own, at))


def _screened(task: Task, starts: np.ndarray, keep: int, work: Work) -> np.ndarray:
    """The starts of best objective, with their linear coefficients solved for, (P, keep, p)."""
    chunks = cut(task.count, len(starts), _lanes(task.count * len(starts), SCREENED))
    length = chunks[0].starts[1]

    def screen(group: Sequence[Chunk]) -> list[Arrays]:
        def queue(chunk: Chunk) -> Queue:
            part = np.resize(starts[slice(*chunk.starts)], (length, starts.shape[1]))
            return Queue(_fields(task, chunk, chunks[0]), part, np.zeros(length, np.int32))

        queues = _on_devices(group, chunks, queue)
        values = evaluate_queues(task.model, task.problems, queues, work.memory)
        return [_least(part, chunk, keep) for part, chunk in zip(values, group, strict=False)]

    chosen = []
    for parts in _by_problem(work.map("screen", screen, chunks), chunks):
        found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        best = np.argsort(found["value"], kind="stable")[:keep]
        chosen.append(starts[found["index"][best]])
        chosen[-1][:, list(solved_coordinates(task.model))] = found["linear"][best]
    return np.stack(chosen)


def _least(values: Values, chunk: Chunk, keep: int) -> Arrays:
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


def _solved(method: Solver, task: Task, starts: np.ndarray, work: Work) -> list[Arrays]:
    """The distinct optima of each problem; starts are (P, S, p), or (1, S, p) for all.

    A start of NaN is none.
    """

    def best(result: Arrays) -> float:
        return float(result["value"].min() * scale_on_host(task.problems))

    solve, chunks = _solving(method, task, starts, work.memory)
    found = work.map(method.name, solve, chunks, best if task.count == 1 else None)
    keys, size = ("value", "count", "status", "members"), starts.shape[1]
    return [
        _distinct(*(np.concatenate([part[key] for part in parts]) for key in keys), floor, size)
        for parts, floor in zip(_by_problem(found, chunks), task.floors, strict=True)
    ]


def _solving(
    method: Solver, task: Task, starts: np.ndarray, memory: Memory
) -> tuple[Callable[[Sequence[Chunk]], list[Arrays]], list[Chunk]]:
    """What solves a group of chunks (and compiles only, if it is given none), and the chunks."""
    each = starts.shape[1]
    starts = np.broadcast_to(starts, (task.count, *starts.shape[1:]))
    chunks = cut(task.count, each, _lanes(task.count * each, SOLVED))
    room = max(chunk.lanes for chunk in chunks)
    floors = task.floors

    def places(chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """The chunk's starts (B, S, p), and which of them there are: the others are NaN."""
        part = starts[slice(*chunk.problems), slice(*chunk.starts)]
        return part, ~np.isnan(part).any(axis=-1)

    def queue(chunk: Chunk) -> Queue:
        part, there = places(chunk)
        owner = np.nonzero(there)[0].astype(np.int32)
        return Queue(_fields(task, chunk, chunks[0]), part[there], owner)

    def reduce(end: Lanes, chunk: Chunk) -> Arrays:
        part, there = places(chunk)
        value, status = np.full(there.shape, np.inf), np.full(there.shape, NON_FINITE)
        value[there], status[there] = end.value, end.status
        members = np.full_like(part, np.nan)
        members[there] = end.coordinates
        members = members[:, :, None]
        rows = [
            _distinct(v, np.ones_like(s), s, m, floor, each)
            for v, s, m, floor in zip(
                value, status, members, floors[slice(*chunk.problems)], strict=True
            )
        ]
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}

    def solve(group: Sequence[Chunk]) -> list[Arrays]:
        queues = _on_devices(group, chunks, queue)
        ends = solve_queues(method, task.model, task.problems, queues, room, memory)
        return [reduce(end, chunk) for end, chunk in zip(ends, group, strict=False)]

    return solve, chunks


def _distinct(
    value: np.ndarray,
    count: np.ndarray,
    status: np.ndarray,
    members: np.ndarray,
    floor: float,
    starts: int,
) -> Arrays:
    """Ends, or groups of ends, joined where their objectives agree; the best ``KEPT`` groups.

    Args:
        value: (n,) objectives.
        count: (n,) how many starts ended there.
        status: (n,) how.
        members: (n, m, p) their coordinates, the best first; NaN where there are fewer.
        floor: objectives closer than this are the same.
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
        mine = order[low:high]
        places = members[mine].reshape(-1, members.shape[-1])
        places = places[~np.isnan(places).any(axis=1)][:most]
        groups["value"][k] = ordered[low]
        groups["count"][k] = count[mine].sum()
        groups["status"][k] = CONVERGED if CONVERGED in status[mine] else status[mine[0]]
        groups["members"][k, : len(places)] = places
        low = high
    return groups


def _optimum(found: Arrays, finished: Arrays, floor: float, tried: int, solved: int) -> Optimum:
    value, count, members = found["value"], found["count"], found["members"]
    best = float(min(finished["value"][0], value[0]))
    if not np.isfinite(best):
        nowhere = np.full(members.shape[-1], np.nan)
        return Optimum(nowhere, best, -1, 0.0, 0.0, nowhere[None], None, tried, solved)
    tie = max(AGREE * best, floor)
    agree = value <= best + tie
    # A finisher that lost its way has not found the place of the value that is reported.
    at = finished["members"][0, 0] if finished["value"][0] <= best + tie else members[0, 0]
    places = members[agree].reshape(-1, len(at))
    places = places[~np.isnan(places).any(axis=1)] if agree.any() else at[None]
    others = np.flatnonzero(~agree & np.isin(found["status"], (CONVERGED, STALLED)))
    runner_up = None
    if len(others):
        k = others[0]
        runner_up = (members[k, 0], float(value[k]), float(count[k] / solved))
    # The finisher's word, unless it did not come to an end and a start's did.
    own = agree[0] and found["status"][0] == CONVERGED
    return Optimum(
        coordinates=at,
        objective=best,
        status=CONVERGED if own else int(finished["status"][0]),
        agreement=float(count[agree].sum() / solved),
        disagreement=float(AGREE * (value[0] - best) / tie),
        agreeing=places,
        runner_up=runner_up,
        tried=tried,
        solved=solved,
        ends=_ends(value, count, best, agree, solved),
    )


def _ends(
    value: np.ndarray, count: np.ndarray, best: float, agree: np.ndarray, solved: int
) -> tuple[tuple[float, float], ...]:
    """Objectives and shares of the distinct optima, those that agree with the best as one."""
    others = np.isfinite(value) & ~agree
    shares = [(best, count[agree].sum()), *zip(value[others], count[others], strict=True)]
    return tuple((float(at), float(share / solved)) for at, share in shares if share)


def _lanes(total: int, limits: tuple[int, int]) -> int:
    """Lanes of a chunk: an eighth of all, within limits 16 times as wide off the CPU."""
    factor = 1 if jax.default_backend() == "cpu" else 16
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


def _on_devices(
    group: Sequence[Chunk], chunks: Sequence[Chunk], queue: Callable[[Chunk], Queue]
) -> list[Queue]:
    """A queue for every local device, so that there is one program; some may be empty."""
    spare = queue(chunks[0])._replace(owner=np.empty(0, np.int32))  # no lanes
    idle = len(jax.local_devices()) - len(group)
    return [*map(queue, group), *[spare] * idle]


def _by_problem(results: Sequence[Arrays], chunks: Sequence[Chunk]) -> list[list[Arrays]]:
    """For each problem its rows of the chunks' results, in order."""
    found: list[list[Arrays]] = [[] for _ in range(chunks[-1].problems[1])]
    for chunk, result in zip(chunks, results, strict=True):
        for row, problem in enumerate(range(*chunk.problems)):
            found[problem].append({name: array[row] for name, array in result.items()})
    return found


def _description(
    method: Solver, task: Task, starts: np.ndarray, n_local: int | Literal[False] | None
) -> dict[str, str]:
    """What a batch is made of, in the words of a work folder's manifest."""
    first = jax.tree.map(np.asarray, task.problems)
    one = first._replace(
        **{n: jax.tree.map(lambda leaf: leaf[0], getattr(first, n)) for n in task.batched}
    )
    coordinates = tuple(starts[0])
    traced = jax.make_jaxpr(partial(predict, task.model))(one, coordinates)
    # Text holds a formula's operations and numbers, but of arrays that it closes over only the
    # shapes, and of functions that are called back their addresses in this process.
    formula = re.sub(r" at 0x[0-9a-f]+", "", str(traced)).encode()
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("jaxlaw", "jax", "jaxopt")
    ]
    settings = (method.name, method.settings, FINISHER.settings, n_local, task.model.residuals)
    sizes = (CANDIDATES, KEPT, MEMBERS, SCREENED, SOLVED, jax.default_backend())
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
