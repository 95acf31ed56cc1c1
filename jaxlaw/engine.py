"""The only place that batches: many starts of many problems through one compiled program.

A lane is one start of one problem. Lanes wait in a queue; a fixed number of slots works on
them, each slot in its own state of the solver, one evaluation a tick. Every few ticks the
finished lanes hand in their result and the next in the queue take their slots, all on the
device; when the queue is empty, the last few are packed into fewer slots. So no lane waits
for another, and shapes, hence programs, are few.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw.coordinates import Array, Model
from jaxlaw.objective import Problem, scaled_value, to_level
from jaxlaw.solvers import Solver
from jaxlaw.solvers.status import NON_FINITE, RUNNING

TICKS = 8  # between two looks at which lanes are done
PACK = 8  # slots shrink by this factor when the queue is empty
WORKING_SET = 2**21  # bytes of one tick's arrays that a CPU core keeps close


class Lanes(NamedTuple):
    """Where lanes ended: leading axes (P, S), or (L,) inside the engine."""

    coordinates: Array  # (…, p)
    value: Array  # scaled objective
    status: Array
    ticks: Array


class _Slots(NamedTuple):
    lane: Any
    index: Array  # (B,) which lane of the chunk; -1 where idle


def solve(
    solver: Solver,
    model: Model,
    problems: Problem,
    starts: Any,
    batched: frozenset[str] = frozenset(),
) -> Lanes:
    """Run every start of every problem to its end.

    Args:
        solver: the method.
        model: what is fitted.
        problems: the data; fields named in ``batched`` have a leading axis P.
        starts: (S, p) coordinates for all problems, or (P, S, p).
        batched: names of the fields of ``problems`` with a leading problem axis.

    Returns:
        :class:`Lanes` of numpy arrays (P, S, …).
    """
    starts = np.asarray(starts)
    count = _problem_count(problems, batched) if batched else 1
    starts = np.broadcast_to(starts, (count, *starts.shape[-2:]))
    per_problem, size = starts.shape[1:]
    total = count * per_problem
    flat = starts.reshape(total, size)
    owner = np.repeat(np.arange(count, dtype=np.int32), per_problem)
    workers = _workers()
    slots = _slot_count(problems, size, -(-total // workers))
    length = max(1, min(-(-total // workers), max(64 * slots, 4096)))
    chunks = [slice(low, min(low + length, total)) for low in range(0, total, length)]
    enabled = jax.config.jax_enable_x64

    def work(chunk: slice, lanes: int | None = None) -> Lanes:
        with jax.enable_x64(enabled):  # the setting is per thread
            return _solve_chunk(
                solver, model, problems, batched, flat[chunk], owner[chunk], slots, lanes
            )

    if workers == 1 or len(chunks) == 1:
        found = [work(chunk) for chunk in chunks]
    else:
        work(chunks[0], lanes=0)  # compiles once, before two threads would both
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(work, chunks))
    return Lanes(
        *(
            np.concatenate(parts).reshape(count, per_problem, *parts[0].shape[1:])
            for parts in zip(*found, strict=True)
        )
    )


def evaluate_starts(
    model: Model, problems: Problem, starts: Any, batched: frozenset[str] = frozenset()
) -> np.ndarray:
    """Scaled objective of starts (S, p), brought to level, for every problem: (P, S)."""
    return np.asarray(_values(model, problems, jnp.asarray(starts), batched))


@partial(jax.jit, static_argnames=("model", "batched"))
def _values(model: Model, problems: Problem, starts: Array, batched: frozenset[str]) -> Array:
    def one_problem(problem: Problem) -> Array:
        # In blocks, so that no array of all starts × all points is held.
        def value(u):
            return scaled_value(model, problem, to_level(model, problem, u))

        return jax.lax.map(value, starts, batch_size=64)

    if not batched:
        return one_problem(problems)[None]
    return jax.lax.map(
        lambda k: one_problem(_problem(problems, batched, k)),
        jnp.arange(_problem_count(problems, batched)),
    )


def _workers() -> int:
    """Host threads that feed the device: one per core on CPU, where a program runs on one."""
    if jax.default_backend() != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _slot_count(problems: Problem, size: int, lanes: int) -> int:
    """Slots, a power of two: enough to fill the device, few enough to stay in its cache."""
    if jax.default_backend() == "cpu":
        points = problems.weight.shape[-1]
        fitting = WORKING_SET // (16 * points * size)
    else:
        fitting = 2**15
    return 2 ** int(np.log2(max(8, min(fitting, lanes))))


def _problem_count(problems: Problem, batched: frozenset[str]) -> int:
    return jax.tree.leaves(getattr(problems, min(batched)))[0].shape[0]


def _problem(problems: Problem, batched: frozenset[str], index: Array) -> Problem:
    return problems._replace(
        **{name: jax.tree.map(lambda a: a[index], getattr(problems, name)) for name in batched}
    )


def problem_axes(batched: frozenset[str]) -> Problem:
    """``in_axes`` of problems whose fields named have a leading axis."""
    return Problem(*(0 if name in batched else None for name in Problem._fields))


def _solve_chunk(
    solver: Solver,
    model: Model,
    problems: Problem,
    batched: frozenset[str],
    starts: np.ndarray,
    owner: np.ndarray,
    count: int,
    only: int | None = None,
) -> Lanes:
    """One queue of lanes, on one device; ``only`` the first so many of them."""
    lanes, size = starts.shape
    padded = 2 ** int(np.ceil(np.log2(max(lanes, 2 * count))))  # few lengths, few programs
    lanes = lanes if only is None else only
    starts = jnp.asarray(np.pad(starts, ((0, padded - len(starts)), (0, 0)), mode="edge"))
    owner = jnp.asarray(np.pad(owner, (0, padded - len(owner)), mode="edge"))
    results = Lanes(
        jnp.zeros((padded, size), starts.dtype),
        jnp.full(padded, jnp.inf, starts.dtype),
        jnp.full(padded, NON_FINITE, jnp.int32),
        jnp.zeros(padded, jnp.int32),
    )
    queue = (starts, owner, jnp.asarray(lanes, jnp.int32))
    key = solver._replace(settings=None)  # tolerances are dynamic
    settings = jax.tree.map(jnp.asarray, solver.settings)
    run = partial(_rounds, key, model, batched, problems, settings, queue)
    slots = _idle(key, model, batched, problems, queue, count)
    waiting = jnp.asarray(0, jnp.int32)
    while True:
        smaller = count // PACK if count >= PACK * 8 else 0
        slots, results, waiting = run(slots, results, waiting, jnp.asarray(smaller, jnp.int32))
        if smaller == 0 or not bool(np.any(np.asarray(slots.index) >= 0)):
            break
        slots, count = _pack(slots, smaller), smaller
    return Lanes(*(np.asarray(leaf)[:lanes] for leaf in results))


@partial(jax.jit, static_argnames=("solver", "model", "batched", "count"))
def _idle(solver, model, batched, problems, queue, count) -> _Slots:
    """Slots with nothing in them; only the shapes of a lane are needed, not its program."""
    starts, owner, _ = queue
    lane = jax.eval_shape(
        lambda: solver.init(model, _problem(problems, batched, owner[0]), starts[0])
    )
    lane = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), lane)
    return _Slots(lane, jnp.full(count, -1, jnp.int32))


@partial(jax.jit, static_argnames=("size",))
def _pack(slots: _Slots, size: int) -> _Slots:
    order = jnp.argsort(slots.index < 0, stable=True)[:size]
    return jax.tree.map(lambda leaf: leaf[order], slots)


@partial(jax.jit, static_argnames=("solver", "model", "batched"), donate_argnums=(6, 7))
def _rounds(solver, model, batched, problems, settings, queue, slots, results, waiting, enough):
    """Rounds of ticks until the queue is empty and at most ``enough`` lanes are running."""
    starts, owner, lanes = queue
    axes = problem_axes(batched)
    init = jax.vmap(partial(solver.init, model), (axes, 0))
    step = jax.vmap(partial(solver.step, model), (axes, 0, None))

    def refill(slots, waiting):
        idle = slots.index < 0
        new = waiting + jnp.cumsum(idle, dtype=jnp.int32) - 1
        taken = idle & (new < lanes)
        new = jnp.where(taken, new, 0)
        fresh = init(_problem(problems, batched, owner[new]), starts[new])
        lane = _where(taken, fresh, slots.lane)
        index = jnp.where(taken, new, slots.index)
        return _Slots(lane, index), waiting + jnp.sum(taken, dtype=jnp.int32)

    def tick_all(slots):
        mine = _problem(problems, batched, owner[jnp.maximum(slots.index, 0)])

        def tick(_, lane):
            running = (lane.status == RUNNING) & (slots.index >= 0)
            return _where(running, step(mine, lane, settings), lane)

        return slots._replace(lane=jax.lax.fori_loop(0, TICKS, tick, slots.lane))

    def hand_in(slots, results):
        done = (slots.lane.status != RUNNING) & (slots.index >= 0)
        at = jnp.where(done, slots.index, results.value.shape[0])
        found = Lanes(slots.lane.coordinates, slots.lane.value, slots.lane.status, slots.lane.ticks)
        results = jax.tree.map(lambda all_, new: all_.at[at].set(new, mode="drop"), results, found)
        return slots._replace(index=jnp.where(done, -1, slots.index)), results

    def body(carry):
        slots, results, waiting = carry
        slots, waiting = refill(slots, waiting)
        slots, results = hand_in(tick_all(slots), results)
        return slots, results, waiting

    def more(carry):
        slots, _, waiting = carry
        return (waiting < lanes) | (jnp.sum(slots.index >= 0) > enough)

    return jax.lax.while_loop(more, body, (slots, results, waiting))


def _where(condition: Array, new: Any, old: Any) -> Any:
    def choose(a, b):
        return jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def solve_inside(
    solver: Solver,
    model: Model,
    problems: Problem,
    starts: Array,
    batched: frozenset[str] = frozenset(),
) -> Lanes:
    """Like :func:`solve`, for use inside ``jit`` and ``vmap``: all lanes at once, no queue.

    Args and returns as :func:`solve`, in JAX arrays.
    """
    count = _problem_count(problems, batched) if batched else 1
    starts = jnp.broadcast_to(starts, (count, *starts.shape[-2:]))

    def one_problem(problem: Problem, starts: Array) -> Lanes:
        lane = jax.vmap(partial(solver.init, model, problem))(starts)

        def tick(lane):
            new = jax.vmap(lambda one: solver.step(model, problem, one, solver.settings))(lane)
            return _where(lane.status == RUNNING, new, lane)

        lane = jax.lax.while_loop(lambda lane: jnp.any(lane.status == RUNNING), tick, lane)
        return Lanes(lane.coordinates, lane.value, lane.status, lane.ticks)

    if not batched:
        problems = jax.tree.map(lambda leaf: leaf[None], problems)
        return jax.vmap(one_problem)(problems, starts)
    return jax.vmap(one_problem, (problem_axes(batched), 0))(problems, starts)
