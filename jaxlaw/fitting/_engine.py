"""Many starts of many problems through one compiled program.

A lane is one start of one problem. Lanes wait in a queue; a fixed number of slots works on
them, each slot in its own state of the solver, one evaluation a tick. Every few ticks the
finished lanes hand in their result and the next in the queue take their slots, all on the
device; when the queue is empty, the last few are packed into fewer slots. So no lane waits
for another, and shapes, hence programs, are few. Every device has a queue of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxlaw._jit import compiled, few_lengths
from jaxlaw.fitting._memory import Memory
from jaxlaw.fitting._objective import Problem, shared_fields
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting._variable_projection import terms, valued
from jaxlaw.fitting.solvers import Solver
from jaxlaw.fitting.solvers._status import NON_FINITE, RUNNING

TICKS = 8  # between two looks at which lanes are done
PACK = 8  # slots shrink by this factor when the queue of much work is empty
WORKING_SET = 2**21  # bytes of one tick's arrays that a CPU core keeps close
BLOCK = 64  # starts whose objectives are evaluated at once


class Lanes(NamedTuple):
    """Where lanes ended: leading axes (P, S), or (L,) inside the engine."""

    coordinates: Array  # (…, p)
    value: Array  # scaled objective
    status: Array
    ticks: Array


class Queue(NamedTuple):
    """The lanes of one device.

    Attributes:
        fields: those fields of a :class:`Problem` that differ between problems, (B, …).
        starts: (L, p) coordinates.
        owner: (L,) which of the B problems each start is of.
    """

    fields: dict[str, Any]
    starts: np.ndarray
    owner: np.ndarray


class _Slots(NamedTuple):
    lane: Any
    index: Array  # (B,) which lane of the queue; -1 where idle


def solve(
    solver: Solver, model: Model, problems: Problem, starts: Any,
    batched: frozenset[str] = frozenset(),
) -> Lanes:  # fmt: skip
    """Run every start of every problem to its end, on one device.

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
    count = problem_count(problems, batched)
    starts = np.broadcast_to(starts, (count, *starts.shape[-2:]))
    each = starts.shape[1]
    fields = {name: getattr(problems, name) for name in batched}
    owner = np.repeat(np.arange(count, dtype=np.int32), each)
    queue = Queue(fields, starts.reshape(count * each, -1), owner)
    (found,) = solve_queues(solver, model, problems, [queue], len(owner))
    return Lanes(*(leaf.reshape(count, each, *leaf.shape[1:]) for leaf in found))


def solve_queues(
    solver: Solver, model: Model, problems: Problem, queues: Sequence[Queue], room: int,
    memory: Memory | None = None,
) -> list[Lanes]:  # fmt: skip
    """Run every lane of every queue to its end, a queue on each of the first local devices.

    Args:
        solver: the method.
        model: what is fitted.
        problems: the fields that all problems share; others are taken from the queues.
        queues: with the same number of problems B each.
        room: no queue has more lanes. Programs depend on it, and not on the queues' lengths.
        memory: how many slots the devices had memory for, so far.

    Returns:
        For each queue :class:`Lanes` of numpy arrays (L, …), whatever the other queues are.
    """
    work = partial(_solve_queues, solver, model, problems, queues, room)
    slots = _slot_count(problems, queues[0].starts.shape[1], room)
    return (memory or Memory()).within(solver.name, work, slots)


def _solve_queues(
    solver: Solver, model: Model, problems: Problem, queues: Sequence[Queue], room: int, count: int
) -> list[Lanes]:
    padded = few_lengths(max(room, 2 * count))
    starts = np.stack([_padded(queue.starts, padded) for queue in queues])
    owner = np.stack([_padded(queue.owner, padded) for queue in queues])
    lanes = [len(queue.owner) for queue in queues]
    waiting = (starts, owner, np.asarray(lanes, np.int32))
    shared, own = _split(problems, queues)
    key, mesh = solver._replace(settings=None), _mesh(len(queues))  # tolerances are dynamic
    many, no_ticks = (len(queues), padded), np.zeros_like(owner)
    nowhere, status = np.full(many, np.inf, starts.dtype), np.full(many, NON_FINITE, np.int32)
    results = Lanes(np.zeros_like(starts), nowhere, status, no_ticks)
    slots, done, run = None, np.zeros(len(queues), np.int32), partial(_rounds, key, model, mesh)
    while True:
        smaller = count // PACK if count >= PACK * 8 else 0
        work = (own, waiting, np.full(len(queues), smaller, np.int32))
        slots, results, done = run(count, (shared, solver.settings), work, slots, results, done)
        if smaller == 0 or not bool(np.any(np.asarray(slots.index) >= 0)):
            break
        slots, count = _pack(mesh, slots, smaller), smaller
    found = Lanes(*map(np.asarray, results))
    return [Lanes(*(leaf[k, :length] for leaf in found)) for k, length in enumerate(lanes)]


class Values(NamedTuple):
    """Objectives of starts and the linear coefficients they were evaluated with.

    Attributes:
        value: (P, S) scaled, at the level of the data (``objective.value_at_level``).
        linear: (P, S, k), see :mod:`jaxlaw.fitting._variable_projection`.
    """

    value: Array
    linear: Array


def evaluate_queues(
    model: Model, problems: Problem, queues: Sequence[Queue], memory: Memory | None = None
) -> list[Values]:
    """For each queue the objective of each of its starts in each of its problems.

    The problems share their inputs. Args as those of :func:`solve_queues`; all queues have as
    many starts, and nothing is done for those without owners.
    """

    def work(block: int) -> list[Values]:
        shared, own = _split(problems, queues)
        starts = np.stack([queue.starts for queue in queues])
        empty = np.array([len(queue.owner) == 0 for queue in queues])
        found = _values(model, _mesh(len(queues)), block, shared, (own, starts, empty))
        return [Values(*parts) for parts in zip(*map(np.asarray, found), strict=True)]

    return (memory or Memory()).within("screen", work, BLOCK)


@compiled(static_argnames=("model", "mesh", "block"))
def _values(model: Model, mesh: Mesh, block: int, shared: Problem, each: Any) -> Values:
    def one_queue(shared: Problem, each: Any) -> Values:
        own, starts, empty = each

        def one_block(starts: Array) -> Values:
            parts = jax.vmap(partial(terms, model, shared))(starts)  # of all problems the same

            def one_problem(fields: dict[str, Array]) -> Values:
                problem = shared._replace(**fields)
                return Values(*jax.vmap(partial(valued, model, problem))(parts))

            if own:
                return jax.lax.map(one_problem, own)
            return jax.tree.map(lambda leaf: leaf[None], one_problem({}))

        # In blocks, so that no array of all starts × all points is held.
        count, size = starts.shape
        padded = jnp.pad(starts, ((0, -count % block), (0, 0)), mode="edge")
        shapes = jax.eval_shape(one_block, padded[:block])

        def unless_empty(starts: Array) -> Values:
            nothing = partial(jax.tree.map, lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
            return jax.lax.cond(empty, nothing, lambda: one_block(starts))

        found = jax.lax.map(unless_empty, padded.reshape(-1, block, size))  # (blocks, P, block, …)

        def joined(leaf: Array) -> Array:
            leaf = jnp.moveaxis(leaf, 0, 1)
            return leaf.reshape(leaf.shape[0], len(padded), *leaf.shape[3:])[:, :count]

        return jax.tree.map(joined, found)

    return _on_each(mesh, one_queue)(shared, each)


def _mesh(count: int) -> Mesh:
    return Mesh(np.array(jax.local_devices()[:count]), ("device",))


def _on_each(mesh: Mesh, function: Any) -> Any:
    """``function(shared, *own)`` on every device, ``own`` without its leading device axis."""
    one, all_ = PartitionSpec("device"), PartitionSpec()

    def on_one(shared: Any, *own: Any) -> Any:
        found = function(shared, *jax.tree.map(lambda leaf: leaf[0], own))
        return jax.tree.map(lambda leaf: leaf[None], found)

    def on_all(shared: Any, *own: Any) -> Any:
        specs = (all_, *(one for _ in own))
        mapped = jax.shard_map(on_one, mesh=mesh, in_specs=specs, out_specs=one, check_vma=False)
        return mapped(shared, *own)

    return on_all


def _split(problems: Problem, queues: Sequence[Queue]) -> tuple[Problem, dict[str, Any]]:
    """What all problems share, and what they do not with a leading device axis."""
    own = {
        name: jax.tree.map(lambda *leaves: np.stack(leaves), *(q.fields[name] for q in queues))
        for name in sorted(queues[0].fields)
    }
    return shared_fields(problems, own), own


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    padding = ((0, length - len(array)), *((0, 0) for _ in array.shape[1:]))
    return np.pad(array, padding, mode="edge" if len(array) else "constant")


def _slot_count(problems: Problem, size: int, lanes: int) -> int:
    """Slots, a power of two: enough to fill the device, few enough to stay in its cache."""
    if jax.default_backend() == "cpu":
        fitting = WORKING_SET // (16 * _points(problems) * size)
    else:
        fitting = 2**15
    return 2 ** int(np.log2(max(8, min(fitting, lanes))))


def _points(problems: Problem) -> int:
    """Observations n, or n·K of laws with inputs per drop of the learning rate."""
    return math.prod({values.shape[-1] for values in problems.inputs.values()})


def problem_count(problems: Problem, batched: frozenset[str]) -> int:
    """How many problems fields with a leading axis stand for; 1 if there are none."""
    return jax.tree.leaves(getattr(problems, min(batched)))[0].shape[0] if batched else 1


def _problem(shared: Problem, own: dict[str, Any], index: Array) -> Problem:
    return shared._replace(**jax.tree.map(lambda leaf: leaf[index], own))


def problem_axes(batched: Any) -> Problem:
    """``in_axes`` of problems whose fields named have a leading axis."""
    axes: dict[str, Any] = {name: 0 if name in batched else None for name in Problem._fields}
    return Problem(**axes)


@compiled(static_argnames=("mesh", "size"))
def _pack(mesh: Mesh, slots: _Slots, size: int) -> _Slots:
    def pack(_, slots: _Slots) -> _Slots:
        order = jnp.argsort(slots.index < 0, stable=True)[:size]
        return jax.tree.map(lambda leaf: leaf[order], slots)

    return _on_each(mesh, pack)((), slots)


@compiled(static_argnames=("solver", "model", "mesh", "count"), donate_argnums=(6, 7))
def _rounds(solver, model, mesh, count, shared, own, slots, results, done):
    """Rounds of ticks until a queue is empty and at most ``enough`` of its lanes are running.

    Without slots it begins with so many that are idle.
    """
    work = partial(_rounds_of_one, solver, model, count)
    return _on_each(mesh, work)(shared, own, slots, results, done)


@partial(jax.jit, static_argnums=(0, 1), inline=True)
def _of_one_lane(function, model, *inputs):
    """``function(model, *inputs)``, traced once for all programs of the same data."""
    return function(model, *inputs)


def _rounds_of_one(solver, model, count, shared, own, slots, results, done):
    (problems, settings), (fields, (starts, owner, lanes), enough) = shared, own
    axes = problem_axes(fields)
    init = jax.vmap(partial(_of_one_lane, solver.init, model), (axes, 0))
    step = jax.vmap(partial(_of_one_lane, solver.step, model), (axes, 0, None))

    def idle():
        several = _problem(problems, fields, owner[:count])
        shapes = jax.eval_shape(init, several, starts[:count])  # no program of its own
        lanes = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return _Slots(lanes, jnp.full(count, -1, jnp.int32))

    def refill(slots, done):
        idle = slots.index < 0
        new = done + jnp.cumsum(idle, dtype=jnp.int32) - 1
        taken = idle & (new < lanes)
        new = jnp.where(taken, new, 0)
        fresh = init(_problem(problems, fields, owner[new]), starts[new])
        lane = where(taken, fresh, slots.lane)
        index = jnp.where(taken, new, slots.index)
        return _Slots(lane, index), done + jnp.sum(taken, dtype=jnp.int32)

    def tick_all(slots):
        mine = _problem(problems, fields, owner[jnp.maximum(slots.index, 0)])

        def running(lane):
            return (lane.status == RUNNING) & (slots.index >= 0)

        def tick(carry):
            count, lane = carry
            return count + 1, where(running(lane), step(mine, lane, settings), lane)

        def more(carry):
            count, lane = carry
            return (count < TICKS) & jnp.any(running(lane))

        return slots._replace(lane=jax.lax.while_loop(more, tick, (0, slots.lane))[1])

    def hand_in(slots, results):
        ended = (slots.lane.status != RUNNING) & (slots.index >= 0)
        at = jnp.where(ended, slots.index, results.value.shape[0])
        found = Lanes(slots.lane.coordinates, slots.lane.value, slots.lane.status, slots.lane.ticks)
        results = jax.tree.map(lambda all_, new: all_.at[at].set(new, mode="drop"), results, found)
        return slots._replace(index=jnp.where(ended, -1, slots.index)), results

    def body(carry):
        slots, results, done = carry
        slots, done = refill(slots, done)
        slots, results = hand_in(tick_all(slots), results)
        return slots, results, done

    def more(carry):
        slots, _, done = carry
        return (done < lanes) | (jnp.sum(slots.index >= 0) > enough)

    return jax.lax.while_loop(more, body, (slots or idle(), results, done))


def where(condition: Array, new: Any, old: Any) -> Any:
    """Of the lanes (L,) of a condition the new leaves (L, …), of the others the old."""

    def choose(a, b):
        return jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
