"""The engine: many starts of many problems, through one compiled program.

A lane is one start of one problem. The lanes of a chunk wait in a queue; a fixed number of slots
works on them, each slot in its own state of the solver, one evaluation an iteration. Every few
iterations the lanes that have ended hand in their result and the next in the queue take their
slots, all on the device; when the queue is empty, the last few are packed into fewer slots. So no
lane waits for another, and shapes, hence programs, are few. Every device has a queue of its own.

The result of a lane depends on its start and its problem, never on its neighbours: the same chunk
of work gives the same bits on any device, in any process and at any attempt.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxlaw._devices import devices, on_accelerator
from jaxlaw._jit import SMALL_TABLES, compiled, next_power_of_two, traced_once
from jaxlaw.errors import WorkError
from jaxlaw.fitting._objective import Problem
from jaxlaw.fitting._starts import solve_coefficients, solved_coordinates, terms
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting.solvers import Solver, Status

_log = logging.getLogger(__name__)

#: Of a round, after which lanes that have ended are replaced: on a CPU and on an accelerator, where
#: replacing them takes as many kernels as an iteration.
ITERATIONS, ITERATIONS_ON_ACCELERATOR = 4, 8
#: Many slots, of an accelerator, are reduced by a factor once the queue is empty. An iteration of a
#: thousand lanes takes as long there as one of ten: reducing them further would save nothing.
PACK, FEWEST = 32, 2**13
WORKING_SET = 2**21  # bytes of one iteration's arrays that a CPU core keeps in its cache
#: Of a CPU core, at most: a single number for every stage is a single program. Fewer slots wait for
#: fewer last lanes, which may run to 300 iterations; more are a little faster for each lane.
SLOTS = 16
BLOCK = 64  # starts whose objectives are evaluated at once
#: Rounds × rows that a brief solver has in a program without optimisation, which compiles a second
#: sooner and iterates some eight times as slowly. Where lanes creep along a ridge, what is left
#: after so many rounds, about a second, is worth the program with optimisation.
BRIEF = 2**17
#: Of such a program, whose iteration takes as long as it has slots: a last lane waits for few.
BRIEF_SLOTS = 4

# A program is compiled for the lengths of its arrays, which takes longer than most searches. On a
# CPU queues are therefore padded to a few lengths, and each has fields of its own, whether they
# differ or not: a fit, its folds, its resamples and its cut-offs then run the same programs. What
# is added is skipped by loops that know how much there is, and costs its memory alone.
LANES, STARTS = 2**11, 2**9
OWN = ("high", "low", "target", "weight")  # fields of every queue
#: Problems of a queue, at least and at most, and numbers of one of their fields. Of many problems
#: each queue is long, for while its last lanes run, the other slots are idle.
PROBLEMS, NUMBERS = (2**6, 2**8), 2**18
MOST_ROWS = 2**14  # of a problem that is padded to so many problems: its fields take 16 MB

Result = TypeVar("Result")


class Lanes(NamedTuple):
    """Starts of problems and how far each has come: leading axes (P, S), (L,) inside the engine.

    Attributes:
        coordinates: (…, p); NaN where there is no start.
        value: scaled objective.
        status: a :class:`Status`, RUNNING before it is solved.
        iterations: those that it took.
        count: number of starts that it stands for; None inside the engine.
    """

    coordinates: Any
    value: Any
    status: Any
    iterations: Any
    count: Any = None


def nowhere(shape: tuple[int, int], size: int, kind=float) -> Lanes:
    """Lanes (P, S) of ``size`` coordinates from no start."""
    return Lanes(
        np.full((*shape, size), np.nan, kind),
        np.full(shape, np.inf, kind),
        np.full(shape, Status.NON_FINITE, np.int32),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.int32),
    )


class Chunk(NamedTuple):
    """A range of problems and a range of starts: the lanes that a device is given at once.

    It holds the arrays that they are computed from and no others, for it may travel to a worker.
    Here they are views of the whole, so that all chunks together take no memory of their own.

    Attributes:
        problems, starts: the ranges; their upper limits are exclusive.
        fields: fields of a :class:`Problem` that differ between the problems, (B, …) by name.
        coordinates: (S, p) starts for all its problems, or (B, S, p) with NaN for those that there
            are not.
        most: problems, and lanes, of any chunk of its stage at most: what programs depend on.
    """

    problems: tuple[int, int]
    starts: tuple[int, int]
    fields: dict[str, np.ndarray] = {}  # noqa: RUF012
    coordinates: np.ndarray = np.empty((0, 0))
    most: tuple[int, int] = (1, 1)

    @property
    def count(self) -> int:
        """Number of problems."""
        return self.problems[1] - self.problems[0]

    @property
    def lanes(self) -> int:
        """Number of (problem, start) pairs."""
        return self.count * (self.starts[1] - self.starts[0])


#: Stage and rows of a problem → lanes that devices had memory for, so far.
_room: dict[tuple[str, int], int] = {}


def retry_smaller_on_oom(
    stage: str, rows: int, work: Callable[[int], Result], lanes: int
) -> Result:
    """``work(lanes)``, or with half as many while the device has no memory for them.

    What did not fit is not tried again.

    Args:
        stage: name of the stage.
        rows: of a problem.
        work: work to do with so many lanes at once.
        lanes: how many are wanted.

    Raises:
        WorkError: there is no memory for a single lane.
    """
    while True:
        lanes = min(lanes, _room.get((stage, rows), lanes))
        try:
            return work(lanes)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            if lanes == 1:
                raise WorkError(
                    f"the device has no memory for a single start ({stage}): free some of it, fit "
                    "fewer rows, or set JAX_PLATFORMS=cpu; finished chunks are kept"
                ) from error
        # Outside of the except block: the error holds on to what it had allocated.
        _room[stage, rows] = lanes // 2
        _log.warning(
            "no memory on the device for %d starts at once (%s): %d are taken, slower, with the "
            "same result", lanes, stage, lanes // 2,
        )  # fmt: skip


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
    starts, problems = np.asarray(starts), jax.tree.map(np.asarray, problems)
    count = problem_count(problems, batched)
    starts = np.broadcast_to(starts, (count, *starts.shape[-2:]))
    each = starts.shape[1]
    fields = {name: getattr(problems, name) for name in batched}
    chunk = Chunk((0, count), (0, each), fields, starts, (count, count * each))
    return solve_chunks(solver, model, problems, [chunk])[0]


def solve_chunks(
    solver: Solver, model: Model, problems: Problem, chunks: Sequence[Chunk]
) -> list[Lanes]:
    """Run every lane of every chunk to its end, a chunk on each of the first local devices.

    Args:
        solver: the method.
        model: the law and its coordinates.
        problems: the fields that all problems share, of numpy (of JAX's arrays: another program);
            others are taken from the chunks.
        chunks: chunks of one stage, at most one for each local device.

    Returns:
        For each chunk :class:`Lanes` of numpy arrays (B, S, …), whatever the other chunks are;
        infinite where there is no start.
    """
    mesh, (most_problems, most_lanes) = _mesh(), chunks[0].most
    started = [~np.isnan(chunk.coordinates).any(axis=-1) for chunk in chunks]
    lengths = np.zeros(mesh.size, np.int32)
    lengths[: len(chunks)] = list(map(np.count_nonzero, started))
    shared, batched = _split(problems, chunks, most_problems)

    def work(slot_count):
        # Results have a row for every lane of the padded queue; lanes beyond its length never run.
        padded = next_power_of_two(max(most_lanes, 2 * slot_count if on_accelerator() else LANES))
        starts = _stacked([c.coordinates[h] for c, h in zip(chunks, started, strict=True)], padded)
        owner = _stacked([np.nonzero(here)[0].astype(np.int32) for here in started], padded)
        results = nowhere(owner.shape, starts.shape[-1], starts.dtype)._replace(count=None)
        # Settings travel as an argument, so that other tolerances need no other program.
        key, rows = solver._replace(settings=None), _points(problems)
        program, count, rounds = _run_rounds, slot_count, np.iinfo(np.int32).max
        if solver.brief and rows <= SMALL_TABLES[-1] and not on_accelerator():
            program, count, rounds = _run_brief_rounds, BRIEF_SLOTS, BRIEF // rows
        slots, begun = None, np.zeros(mesh.size, np.int32)
        while True:
            fewer = slot_count // PACK if slot_count >= FEWEST else 0
            own = batched, (starts, owner, lengths), np.full(mesh.size, fewer, np.int32)
            common = shared, solver.settings, np.int32(rounds)
            slots, results, begun = program(
                key, model, mesh, count, common, own, slots, results, begun
            )
            waiting = np.sum(lengths - np.asarray(begun))
            if not waiting + np.count_nonzero(np.asarray(slots.index) >= 0):
                return list(map(np.asarray, results[:4]))
            if fewer:
                slots, slot_count = _pack(mesh, slots, fewer), fewer
            program, count, rounds = _run_rounds, slot_count, np.iinfo(np.int32).max
            if (idle := count - slots.index.shape[1]) > 0:  # after a brief solver's few
                slots = jax.tree.map(
                    lambda leaf: np.pad(leaf, [(0, 0), (0, idle), *[(0, 0)] * (leaf.ndim - 2)]),  # noqa: B023
                    slots,
                )
                slots.index[:, -idle:] = -1

    slots = _slot_count(problems, chunks[0].coordinates.shape[-1], most_lanes)
    ended = retry_smaller_on_oom(solver.name, _points(problems), work, slots)
    found = []
    for k, here in enumerate(started):
        whole = nowhere(here.shape, ended[0].shape[-1], ended[0].dtype)
        for leaf, results in zip(whole[:4], ended, strict=True):
            leaf[here] = results[k, : lengths[k]]
        found.append(whole._replace(count=here.astype(np.int32)))
    return found


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
        shared: fields of :class:`Problem` that all problems share, the solver's settings, and the
            number of rounds at most.
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


@traced_once(static_argnums=(0, 1))
def _of_one_lane(function, model, *inputs):
    """``function(model, *inputs)``, traced once for all programs of the same data."""
    return function(model, *inputs)


def _run_rounds_of_one(solver, model, count, shared, own, slots, results, begun):
    """The rounds of one device; arguments without the device axis of :func:`_run_rounds`.

    A round refills idle slots from the queue, makes ``ITERATIONS`` iterations in all slots, and
    hands in the lanes that have ended. ``init`` and ``step`` are mapped over slots, each with the
    fields of the problem that its lane belongs to.
    """
    iterations = ITERATIONS_ON_ACCELERATOR if on_accelerator() else ITERATIONS
    (problems, settings, most), (fields, (starts, owner, length), enough) = shared, own
    axes = problem_axes(fields)
    init = jax.vmap(partial(_of_one_lane, solver.init, model), (axes, 0))
    step = jax.vmap(partial(_of_one_lane, solver.step, model), (axes, 0, None))

    def idle():
        # Shapes of a lane, without a computation of their own.
        shapes = jax.eval_shape(init, _problem(problems, fields, owner[:count]), starts[:count])
        lanes = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return _Slots(lanes, jnp.full(count, -1, jnp.int32))

    def refill(slots, begun):
        # The k-th idle slot takes the k-th lane that waits. ``init`` is computed in all slots,
        # for shapes are fixed, and used in those that take a lane; not at all where none does.
        # That of the polish is a Hessian: last lanes that go on alone paid for it every round.
        idle = slots.index < 0
        next_lane = begun + jnp.cumsum(idle, dtype=jnp.int32) - 1
        taken = idle & (next_lane < length)
        index = jnp.where(taken, next_lane, slots.index)
        at = jnp.maximum(index, 0)
        problem = _problem(problems, fields, owner[at])
        lane = jax.lax.cond(
            jnp.any(taken),
            lambda: where(taken, init(problem, starts[at]), slots.lane),
            lambda: slots.lane,
        )
        return _Slots(lane, index), problem, begun + jnp.sum(taken, dtype=jnp.int32)

    def iterate(slots, problem):
        # A lane that has ended, or is none, stays as it is: neighbours cannot change a result.
        def running(lane):
            return (lane.status == Status.RUNNING) & (slots.index >= 0)

        def iteration(carry):
            done, lane = carry
            return done + 1, where(running(lane), step(problem, lane, settings), lane)

        def more(carry):
            done, lane = carry
            return (done < iterations) & jnp.any(running(lane))

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
        done, slots, results, begun = carry
        slots, problem, begun = refill(slots, begun)
        slots, results = hand_in(iterate(slots, problem), results)
        return done + 1, slots, results, begun

    def more(carry):
        done, slots, _, begun = carry
        return ((begun < length) | (jnp.sum(slots.index >= 0) > enough)) & (done < most)

    return jax.lax.while_loop(more, one_round, (0, slots or idle(), results, begun))[1:]


#: The same for solvers that are brief, compiled without optimisation.
_run_brief_rounds = compiled(
    optimised=False, static_argnames=("solver", "model", "mesh", "count"), donate_argnums=(6, 7)
)(_run_rounds.__wrapped__)


@compiled(static_argnames=("mesh", "size"))
def _pack(mesh: Mesh, slots: _Slots, size: int) -> _Slots:
    """The slots of each device that work on a lane, in ``size`` slots."""

    def pack(_, slots):
        order = jnp.argsort(slots.index < 0, stable=True)[:size]
        return jax.tree.map(lambda leaf: leaf[order], slots)

    return _on_each(mesh, pack)((), slots)


# ---------------------------------------------------------------- screening


def evaluate_chunks(
    model: Model, problems: Problem, chunks: Sequence[Chunk]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The objective of each of a chunk's starts (S, p) in each of its problems, before solving.

    The problems share their inputs. Args as those of :func:`solve_chunks`.

    Returns:
        For each chunk what ``_starts.solve_coefficients`` gives: (B, S) the scaled objective, its
        offset profiled out, and (B, S, k) the linear coefficients that it was evaluated with.
    """
    mesh, (most_problems, most_lanes) = _mesh(), chunks[0].most
    most_starts = most_lanes // most_problems
    # How much there is of each chunk, whatever it is padded to; nothing for other devices.
    counts = np.zeros((mesh.size, 2), np.int32)
    counts[: len(chunks)] = [(chunk.count, len(chunk.coordinates)) for chunk in chunks]

    def work(at_once):
        block, several, padded = at_once, 1, max(STARTS, -(-most_starts // BLOCK) * BLOCK)
        if on_accelerator():  # all starts of a chunk, and as many problems as memory has room for
            block = min(at_once, next_power_of_two(most_starts))
            several = min(at_once // block, next_power_of_two(most_problems))
            padded = -(-most_starts // block) * block
        shared, batched = _split(problems, chunks, most_problems, several)
        each = batched, _stacked([chunk.coordinates for chunk in chunks], padded), counts
        return tuple(map(np.asarray, _evaluate(model, mesh, block, several, shared, each)))

    at_once = _lanes_in_memory(problems, 1) if on_accelerator() else BLOCK
    value, linear = retry_smaller_on_oom("screen", _points(problems), work, at_once)
    return [
        (value[k, :problems, :starts], linear[k, :problems, :starts])
        for k, (problems, starts) in enumerate(counts[: len(chunks)])
    ]


@compiled(static_argnames=("model", "mesh", "block", "several"))
def _evaluate(
    model: Model, mesh: Mesh, block: int, several: int, shared: Problem, each
) -> tuple[Array, Array]:
    """Values and coefficients of all starts: ``block`` starts of ``several`` problems at once.

    ``each`` has for every chunk its fields, its starts, and how many problems and starts there
    are: the loops end there, and what the arrays are padded with takes no time.
    """

    def one_problem(parts, fields):
        return jax.vmap(partial(solve_coefficients, model, shared._replace(**fields)))(parts)

    def one_chunk(shared, each):
        fields, starts, (n_problems, n_starts) = each

        def group_of(k):
            return jax.tree.map(
                lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, k * several, several), fields
            )

        def one_group(parts, k):
            if several > 1:
                return jax.vmap(one_problem, (None, 0))(parts, group_of(k))
            only = jax.tree.map(lambda leaf: leaf[0], group_of(k))
            return jax.tree.map(lambda leaf: leaf[None], one_problem(parts, only))

        def parts_of(first):
            # The law's terms are the same for all problems, which share inputs: computed once.
            at = jax.lax.dynamic_slice_in_dim(starts, first, block)
            return jax.vmap(partial(terms, model, shared))(at)

        # In blocks, so that no array of all starts × all points is in memory at once.
        def one_block(b, values):
            parts = parts_of(b * block)

            def write(k, values):
                at = [k * several, b * block, 0 * k]
                return jax.tree.map(
                    lambda old, new: jax.lax.dynamic_update_slice(old, new, at[: old.ndim]),
                    values, one_group(parts, k),
                )  # fmt: skip

            return jax.lax.fori_loop(0, -(-n_problems // several), write, values)

        shape = jax.tree.leaves(fields)[0].shape[0] if fields else 1, len(starts)
        linear = len(solved_coordinates(model))
        nothing = jnp.zeros(shape, starts.dtype), jnp.zeros((*shape, linear), starts.dtype)
        return jax.lax.fori_loop(0, -(-n_starts // block), one_block, nothing)

    return _on_each(mesh, one_chunk)(shared, each)


# ---------------------------------------------------------------- devices, problems, slots


def _mesh() -> Mesh:
    return Mesh(np.array(devices()), ("device",))


def _on_each(mesh: Mesh, function):
    """``function(shared, *own)`` on every device, ``own`` without its leading device axis."""
    split, replicated = PartitionSpec("device"), PartitionSpec()

    def on_one(shared, *each):
        result = function(shared, *jax.tree.map(lambda leaf: leaf[0], each))
        return jax.tree.map(lambda leaf: leaf[None], result)

    def on_all(shared, *each):
        specs = (replicated, *(split for _ in each))
        mapped = jax.shard_map(on_one, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
        return mapped(shared, *each)

    return on_all


def _split(
    problems: Problem, chunks: Sequence[Chunk], most_problems: int, several: int = 1
) -> tuple[Problem, dict[str, np.ndarray]]:
    """What all problems share, and what they do not with a leading device axis.

    The second is padded, see :data:`PROBLEMS`, on accelerators to a multiple of ``several``.
    """
    own, count = {*chunks[0].fields}, most_problems
    if on_accelerator():
        count = -(-most_problems // several) * several
    elif is_padded(problems):
        own |= {*OWN}
        count = max(problems_of_queue(problems), next_power_of_two(most_problems))
    batched = {}
    for name in sorted(own):
        # A field that all problems of the chunks share is written into the row of each.
        values = [chunk.fields.get(name, getattr(problems, name)) for chunk in chunks]
        shape = values[0].shape[1:] if name in chunks[0].fields else values[0].shape
        batched[name] = np.zeros((len(devices()), count, *shape), values[0].dtype)
        for rows, chunk, each in zip(batched[name], chunks, values, strict=False):
            rows[: chunk.count] = each
    return problems._replace(**dict.fromkeys(batched)), batched


def problems_of_queue(problems: Problem) -> int:
    """How many problems of these rows the program of a queue has room for."""
    least, most = PROBLEMS
    return max(least, min(most, next_power_of_two(NUMBERS // _points(problems) + 1) // 2))


def is_padded(problems: Problem) -> bool:
    """Whether queues of these rows have one length, and so one program, whatever is searched."""
    return not on_accelerator() and _points(problems) <= MOST_ROWS


def _stacked(arrays: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Arrays of chunks as one, (devices, length, …); what is behind their own lengths is 0."""
    first = arrays[0]
    stacked = np.zeros((len(devices()), length, *first.shape[1:]), first.dtype)
    for row, array in zip(stacked, arrays, strict=False):
        row[: len(array)] = array
    return stacked


def _slot_count(problems: Problem, size: int, lanes: int) -> int:
    """Slots, a power of two: enough to fill the device, few enough to stay in its cache."""
    if not on_accelerator():
        most = min(SLOTS, WORKING_SET // (16 * _points(problems) * size))
    else:
        most = min(2**15, _lanes_in_memory(problems, size), lanes)
    return 2 ** int(np.log2(max(8, most)))


def _points(problems: Problem) -> int:
    """Observations n, or n·K of laws with inputs per drop of the learning rate."""
    return math.prod({values.shape[-1] for values in problems.inputs.values()})


def _lanes_in_memory(problems: Problem, size: int) -> int:
    """Lanes that an accelerator has room for, if an iteration's arrays take a quarter of it.

    An evaluation keeps the Jacobian (p, n), what it is multiplied by, and some ten arrays (n,).
    """
    stats = devices()[0].memory_stats() or {}
    memory = stats.get("bytes_limit", 2**34)
    return 2 ** int(np.log2(max(8, memory // 4 // (8 * (2 * size + 10) * _points(problems)))))


def problem_count(problems: Problem, batched: frozenset[str]) -> int:
    """How many problems fields with a leading axis stand for; 1 if there are none."""
    return jax.tree.leaves(getattr(problems, min(batched)))[0].shape[0] if batched else 1


def _problem(shared: Problem, batched: dict, index: Array) -> Problem:
    return shared._replace(**jax.tree.map(lambda leaf: leaf[index], batched))


def problem_axes(batched) -> Problem:
    """``in_axes`` of problems whose fields named have a leading axis."""
    axes = {name: 0 if name in batched else None for name in Problem._fields}
    return Problem(**axes)


def where(condition: Array, new, old):
    """New leaves (L, …) for the lanes (L,) of a condition, old ones for the others."""

    def choose(a, b):
        return jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
