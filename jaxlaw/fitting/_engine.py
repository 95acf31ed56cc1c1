"""The engine: many starts of many problems, through one compiled program.

A lane is one start of one problem. Lanes wait in a queue; a fixed number of slots works on
them, each slot in its own state of the solver, one evaluation an iteration. Every few iterations
the lanes that have ended hand in their result and the next in the queue take their slots, all on
the device; when the queue is empty, the last few are packed into fewer slots. So no lane waits
for another, and shapes, hence programs, are few. Every device has a queue of its own.

The result of a lane depends on its start and its problem, never on its neighbours: the same chunk
of work gives the same bits on any device, in any process and at any attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxlaw._jit import compiled, next_power_of_two, on_accelerator
from jaxlaw.errors import WorkError
from jaxlaw.fitting._objective import Problem, shared_fields
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting._variable_projection import solve_coefficients, terms
from jaxlaw.fitting.solvers import Solver, Status
from jaxlaw.notes import Note

ITERATIONS = 8  # of a round, after which lanes that have ended are replaced
PACK = 8  # factor by which the number of slots is reduced once the queue is empty …
FEWEST = 64  # … where there are at least so many
#: The same for an accelerator. An iteration of a thousand lanes takes as long there as one of ten:
#: fewer slots would save nothing, and every number of slots is a program that compiles for long.
PACK_ON_ACCELERATOR, FEWEST_ON_ACCELERATOR = 32, 2**13
WORKING_SET = 2**21  # bytes of one iteration's arrays that a CPU core keeps in its cache
BLOCK = 64  # starts whose objectives are evaluated at once

Result = TypeVar("Result")


class Lanes(NamedTuple):
    """Results of lanes: leading axes (P, S), or (L,) inside the engine."""

    coordinates: Array  # (…, p)
    value: Array  # scaled objective
    status: Array  # a Status
    iterations: Array


class Queue(NamedTuple):
    """Lanes that one device is to run: their starts, and the problem that each belongs to.

    Attributes:
        fields: fields of a :class:`Problem` that differ between problems, (B, …) by name.
        starts: (L, p) coordinates.
        owner: (L,) which of the B problems each start is of.
    """

    fields: dict[str, Any]
    starts: np.ndarray
    owner: np.ndarray


class DeviceMemory:
    """How many lanes a device has memory for at once, by stage, as far as that was met."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}
        self._wanted: dict[str, int] = {}

    def retry_smaller_on_oom(self, stage: str, work: Callable[[int], Result], lanes: int) -> Result:
        """``work(lanes)``, or with half as many while the device has no memory for them.

        Args:
            stage: name of the stage; what did not fit is not tried again in it.
            work: work to do with so many lanes at once.
            lanes: how many are wanted.

        Raises:
            WorkError: there is no memory for a single lane.
        """
        wanted = lanes
        lanes = min(lanes, self._most.get(stage, lanes))
        while True:
            try:
                return work(lanes)
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
                if lanes == 1:
                    raise WorkError(
                        f"the device has no memory for a single lane ({stage}): free some of it, "
                        "fit fewer rows, or set JAX_PLATFORMS=cpu; chunks finished before are kept"
                    ) from error
            # Outside of the except block: the error holds on to what it had allocated.
            lanes = max(1, lanes // 2)
            self._most[stage] = min(lanes, self._most.get(stage, lanes))
            self._wanted.setdefault(stage, wanted)

    @property
    def notes(self) -> tuple[Note, ...]:
        """The note of a result that was made with fewer lanes at once."""
        if not self._most:
            return ()
        parts = [
            f"{self._wanted[stage]} lanes at once ({stage}): {most} were taken instead"
            for stage, most in sorted(self._most.items())
        ]
        message = f"the device had no memory for {'; for '.join(parts)}; slower, the same result"
        return (Note("memory-short", "info", message),)


# ---------------------------------------------------------------- solving


def solve(
    solver: Solver, model: Model, problems: Problem, starts: Any,
    batched: frozenset[str] = frozenset(),
) -> Lanes:  # fmt: skip
    """Run every start of every problem to its end, on one device.

    Args:
        solver: the method.
        model: the law and its coordinates.
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
    (lanes,) = solve_queues(solver, model, problems, [queue], len(owner))
    return Lanes(*(leaf.reshape(count, each, *leaf.shape[1:]) for leaf in lanes))


def solve_queues(
    solver: Solver, model: Model, problems: Problem, queues: Sequence[Queue], most_lanes: int,
    memory: DeviceMemory | None = None,
) -> list[Lanes]:  # fmt: skip
    """Run every lane of every queue to its end, a queue on each of the first local devices.

    Args:
        solver: the method.
        model: the law and its coordinates.
        problems: the fields that all problems share; others are taken from the queues.
        queues: with the same number of problems B each.
        most_lanes: no queue has more lanes. Programs depend on it, and not on the queues' lengths.
        memory: how many slots the devices had memory for, so far.

    Returns:
        For each queue :class:`Lanes` of numpy arrays (L, …), whatever the other queues are.
    """
    work = partial(_solve_queues, solver, model, problems, queues, most_lanes)
    slots = _slot_count(problems, queues[0].starts.shape[1], most_lanes)
    return (memory or DeviceMemory()).retry_smaller_on_oom(solver.name, work, slots)


def _solve_queues(
    solver: Solver, model: Model, problems: Problem, queues: Sequence[Queue], most_lanes: int,
    slot_count: int,
) -> list[Lanes]:  # fmt: skip
    # Results have a row for every lane of the padded queue; lanes beyond its length never run.
    padded = next_power_of_two(max(most_lanes, 2 * slot_count))
    starts = np.stack([_padded(queue.starts, padded) for queue in queues])
    owner = np.stack([_padded(queue.owner, padded) for queue in queues])
    lengths = [len(queue.owner) for queue in queues]
    waiting = (starts, owner, np.asarray(lengths, np.int32))
    shared, batched = _split(problems, queues)
    results = Lanes(
        np.zeros_like(starts),
        np.full(owner.shape, np.inf, starts.dtype),
        np.full(owner.shape, Status.NON_FINITE, np.int32),
        np.zeros_like(owner),
    )
    # Settings travel as an argument, so that other tolerances need no other program.
    key, mesh = solver._replace(settings=None), _mesh(len(queues))
    slots, begun = None, np.zeros(len(queues), np.int32)
    pack, fewest = (
        (PACK_ON_ACCELERATOR, FEWEST_ON_ACCELERATOR) if on_accelerator() else (PACK, FEWEST)
    )
    while True:
        fewer = slot_count // pack if slot_count >= fewest else 0
        work = (batched, waiting, np.full(len(queues), fewer, np.int32))
        slots, results, begun = _run_rounds(
            key, model, mesh, slot_count, (shared, solver.settings), work, slots, results, begun
        )
        if fewer == 0 or not bool(np.any(np.asarray(slots.index) >= 0)):
            break
        slots, slot_count = _pack(mesh, slots, fewer), fewer
    ended = Lanes(*map(np.asarray, results))
    return [Lanes(*(leaf[k, :length] for leaf in ended)) for k, length in enumerate(lengths)]


class _Slots(NamedTuple):
    lane: Any  # the solver's state of each slot, leaves (slots, …)
    index: Array  # (slots,) which lane of the queue it works on; -1 where it is idle


@compiled(static_argnames=("solver", "model", "mesh", "count"), donate_argnums=(6, 7))
def _run_rounds(solver, model, mesh, count, shared, own, slots, results, begun):
    """Rounds on every device, until its queue is empty and few of its lanes are running.

    Args:
        solver: the method, without its settings.
        model: the law and its coordinates.
        mesh: the devices.
        count: number of slots of a device.
        shared: fields of :class:`Problem` that all problems share, and the solver's settings.
        own: for each device: fields that differ between problems; the queue (starts, owner,
            length); how many lanes may be running at the end.
        slots: slots of each device; None for ``count`` idle ones.
        results: :class:`Lanes` so far.
        begun: for each device how many lanes of its queue have begun.

    Returns:
        Slots, results and begun, after the rounds.
    """
    work = partial(_run_rounds_of_one, solver, model, count)
    return _on_each(mesh, work)(shared, own, slots, results, begun)


@partial(jax.jit, static_argnums=(0, 1), inline=True)
def _of_one_lane(function, model, *inputs):
    """``function(model, *inputs)``, traced once for all programs of the same data."""
    return function(model, *inputs)


def _run_rounds_of_one(solver, model, count, shared, own, slots, results, begun):
    """The rounds of one device; arguments without the device axis of :func:`_run_rounds`.

    A round refills idle slots from the queue, makes ``ITERATIONS`` iterations in all slots, and
    hands in the lanes that have ended. ``init`` and ``step`` are mapped over slots, each with the
    fields of the problem that its lane belongs to.
    """
    (problems, settings), (fields, (starts, owner, length), enough) = shared, own
    axes = problem_axes(fields)
    init = jax.vmap(partial(_of_one_lane, solver.init, model), (axes, 0))
    step = jax.vmap(partial(_of_one_lane, solver.step, model), (axes, 0, None))

    def idle():
        # Shapes of a lane, without a computation of their own.
        several = _problem(problems, fields, owner[:count])
        shapes = jax.eval_shape(init, several, starts[:count])
        lanes = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return _Slots(lanes, jnp.full(count, -1, jnp.int32))

    def refill(slots, begun):
        # The k-th idle slot takes the k-th lane that waits. ``init`` is computed in all slots,
        # for shapes are fixed, and used in those that take a lane.
        idle = slots.index < 0
        next_lane = begun + jnp.cumsum(idle, dtype=jnp.int32) - 1
        taken = idle & (next_lane < length)
        next_lane = jnp.where(taken, next_lane, 0)
        fresh = init(_problem(problems, fields, owner[next_lane]), starts[next_lane])
        lane = where(taken, fresh, slots.lane)
        index = jnp.where(taken, next_lane, slots.index)
        return _Slots(lane, index), begun + jnp.sum(taken, dtype=jnp.int32)

    def iterate(slots):
        # A lane that has ended, or is none, stays as it is: neighbours cannot change a result.
        problem = _problem(problems, fields, owner[jnp.maximum(slots.index, 0)])

        def running(lane):
            return (lane.status == Status.RUNNING) & (slots.index >= 0)

        def iteration(carry):
            done, lane = carry
            return done + 1, where(running(lane), step(problem, lane, settings), lane)

        def more(carry):
            done, lane = carry
            return (done < ITERATIONS) & jnp.any(running(lane))

        return slots._replace(lane=jax.lax.while_loop(more, iteration, (0, slots.lane))[1])

    def hand_in(slots, results):
        # Results of running lanes are written beyond the end of the array, which drops them.
        lane = slots.lane
        ended = (lane.status != Status.RUNNING) & (slots.index >= 0)
        at = jnp.where(ended, slots.index, results.value.shape[0])
        new = Lanes(lane.coordinates, lane.value, lane.status, lane.iterations)
        results = jax.tree.map(lambda old, new: old.at[at].set(new, mode="drop"), results, new)
        return slots._replace(index=jnp.where(ended, -1, slots.index)), results

    def one_round(carry):
        slots, results, begun = carry
        slots, begun = refill(slots, begun)
        slots, results = hand_in(iterate(slots), results)
        return slots, results, begun

    def more(carry):
        slots, _, begun = carry
        return (begun < length) | (jnp.sum(slots.index >= 0) > enough)

    return jax.lax.while_loop(more, one_round, (slots or idle(), results, begun))


@compiled(static_argnames=("mesh", "size"))
def _pack(mesh: Mesh, slots: _Slots, size: int) -> _Slots:
    """The slots of each device that work on a lane, in ``size`` slots."""

    def pack(_, slots: _Slots) -> _Slots:
        order = jnp.argsort(slots.index < 0, stable=True)[:size]
        return jax.tree.map(lambda leaf: leaf[order], slots)

    return _on_each(mesh, pack)((), slots)


# ---------------------------------------------------------------- screening


class Values(NamedTuple):
    """Objectives of starts and the linear coefficients they were evaluated with.

    Attributes:
        value: (P, S) scaled objective, its offset profiled out (``objective.profiled_value``).
        linear: (P, S, k) coefficients, see :mod:`jaxlaw.fitting._variable_projection`.
    """

    value: Array
    linear: Array


def evaluate_queues(
    model: Model, problems: Problem, queues: Sequence[Queue], memory: DeviceMemory | None = None
) -> list[Values]:
    """For each queue the objective of each of its starts in each of its problems.

    The problems share their inputs. Args as those of :func:`solve_queues`; all queues have as
    many starts, and nothing is done for those without owners.
    """

    def work(at_once: int) -> list[Values]:
        shared, batched = _split(problems, queues)
        starts = np.stack([queue.starts for queue in queues])
        empty = np.array([len(queue.owner) == 0 for queue in queues])
        block, several = at_once, 1
        if on_accelerator():  # all starts of a chunk, and as many problems as memory has room for
            block = min(at_once, next_power_of_two(starts.shape[1]))
            several = at_once // block
        values = _evaluate(
            model, _mesh(len(queues)), block, several, shared, (batched, starts, empty)
        )
        return [Values(*parts) for parts in zip(*map(np.asarray, values), strict=True)]

    at_once = _lanes_in_memory(problems, 1) if on_accelerator() else BLOCK
    return (memory or DeviceMemory()).retry_smaller_on_oom("screen", work, at_once)


@compiled(static_argnames=("model", "mesh", "block", "several"))
def _evaluate(
    model: Model, mesh: Mesh, block: int, several: int, shared: Problem, each: Any
) -> Values:
    """Values of all starts in all problems: ``block`` starts of ``several`` problems at once."""

    def one_queue(shared: Problem, each: Any) -> Values:
        of_problem, starts, empty = each

        def one_block(starts: Array) -> Values:
            # The law's terms are the same for all problems, which share inputs: computed once.
            parts = jax.vmap(partial(terms, model, shared))(starts)

            def one_problem(fields: dict[str, Array]) -> Values:
                problem = shared._replace(**fields)
                return Values(*jax.vmap(partial(solve_coefficients, model, problem))(parts))

            if of_problem:
                first = jax.tree.map(lambda leaf: leaf[0], of_problem)
                leaves = jax.tree.leaves(jax.eval_shape(one_problem, first))
                # Batches of empty arrays, of laws without linear coefficients, JAX cannot join.
                batched = several > 1 and all(leaf.size for leaf in leaves)
                return jax.lax.map(one_problem, of_problem, batch_size=several if batched else None)
            return jax.tree.map(lambda leaf: leaf[None], one_problem({}))

        # In blocks, so that no array of all starts × all points is in memory at once.
        count, size = starts.shape
        padded = jnp.pad(starts, ((0, -count % block), (0, 0)), mode="edge")
        shapes = jax.eval_shape(one_block, padded[:block])

        def unless_empty(starts: Array) -> Values:
            nothing = partial(jax.tree.map, lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
            return jax.lax.cond(empty, nothing, lambda: one_block(starts))

        values = jax.lax.map(unless_empty, padded.reshape(-1, block, size))

        def joined(leaf: Array) -> Array:
            leaf = jnp.moveaxis(leaf, 0, 1)  # (blocks, P, block, …) → (P, blocks, block, …)
            return leaf.reshape(leaf.shape[0], len(padded), *leaf.shape[3:])[:, :count]

        return jax.tree.map(joined, values)

    return _on_each(mesh, one_queue)(shared, each)


# ---------------------------------------------------------------- devices, problems, slots


def _mesh(count: int) -> Mesh:
    return Mesh(np.array(jax.local_devices()[:count]), ("device",))


def _on_each(mesh: Mesh, function: Any) -> Any:
    """``function(shared, *own)`` on every device, ``own`` without its leading device axis."""
    split, replicated = PartitionSpec("device"), PartitionSpec()

    def on_one(shared: Any, *each: Any) -> Any:
        result = function(shared, *jax.tree.map(lambda leaf: leaf[0], each))
        return jax.tree.map(lambda leaf: leaf[None], result)

    def on_all(shared: Any, *each: Any) -> Any:
        specs = (replicated, *(split for _ in each))
        mapped = jax.shard_map(on_one, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
        return mapped(shared, *each)

    return on_all


def _split(problems: Problem, queues: Sequence[Queue]) -> tuple[Problem, dict[str, Any]]:
    """What all problems share, and what they do not with a leading device axis."""
    batched = {
        name: jax.tree.map(lambda *leaves: np.stack(leaves), *(q.fields[name] for q in queues))
        for name in sorted(queues[0].fields)
    }
    return shared_fields(problems, batched), batched


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    padding = ((0, length - len(array)), *((0, 0) for _ in array.shape[1:]))
    return np.pad(array, padding, mode="edge" if len(array) else "constant")


def _slot_count(problems: Problem, size: int, lanes: int) -> int:
    """Slots, a power of two: enough to fill the device, few enough to stay in its cache."""
    if not on_accelerator():
        most = WORKING_SET // (16 * _points(problems) * size)
    else:
        most = min(2**15, _lanes_in_memory(problems, size))
    return 2 ** int(np.log2(max(8, min(most, lanes))))


def _points(problems: Problem) -> int:
    """Observations n, or n·K of laws with inputs per drop of the learning rate."""
    return math.prod({values.shape[-1] for values in problems.inputs.values()})


def _lanes_in_memory(problems: Problem, size: int) -> int:
    """Lanes that an accelerator has room for, if an iteration's arrays take a quarter of it.

    An evaluation keeps the Jacobian (p, n), what it is multiplied by, and some ten arrays (n,).
    """
    stats = jax.local_devices()[0].memory_stats() or {}
    memory = stats.get("bytes_limit", 2**34)
    return 2 ** int(np.log2(max(8, memory // 4 // (8 * (2 * size + 10) * _points(problems)))))


def problem_count(problems: Problem, batched: frozenset[str]) -> int:
    """How many problems fields with a leading axis stand for; 1 if there are none."""
    return jax.tree.leaves(getattr(problems, min(batched)))[0].shape[0] if batched else 1


def _problem(shared: Problem, batched: dict[str, Any], index: Array) -> Problem:
    return shared._replace(**jax.tree.map(lambda leaf: leaf[index], batched))


def problem_axes(batched: Any) -> Problem:
    """``in_axes`` of problems whose fields named have a leading axis."""
    axes: dict[str, Any] = {name: 0 if name in batched else None for name in Problem._fields}
    return Problem(**axes)


def where(condition: Array, new: Any, old: Any) -> Any:
    """New leaves (L, …) for the lanes (L,) of a condition, old ones for the others."""

    def choose(a, b):
        return jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
