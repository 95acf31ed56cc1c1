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

from jaxlaw._jit import SMALL_TABLES, compiled, next_power_of_two, on_accelerator, traced_once
from jaxlaw.errors import WorkError
from jaxlaw.fitting._objective import Problem, shared_fields
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting._variable_projection import solve_coefficients, solved_coordinates, terms
from jaxlaw.fitting.solvers import Solver, Status
from jaxlaw.notes import Note

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
    """Results of lanes: leading axes (P, S), or (L,) inside the engine."""

    coordinates: Array  # (…, p)
    value: Array  # scaled objective
    status: Array  # a Status
    iterations: Array


class Queue(NamedTuple):
    """Lanes that one device is to run: their starts, and the problem that each belongs to.

    Attributes:
        fields: fields of a :class:`Problem` that differ between problems, (B, …) by name; {} for
            those of a single problem.
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
                        f"the device has no memory for a single start ({stage}): free some of it, "
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
            f"{self._wanted[stage]} starts at once ({stage}): {most} were taken instead"
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
    (lanes,) = solve_queues(solver, model, problems, [queue], len(owner), most_problems=count)
    return Lanes(*(leaf.reshape(count, each, *leaf.shape[1:]) for leaf in lanes))


def solve_queues(
    solver: Solver, model: Model, problems: Problem, queues: Sequence[Queue], most_lanes: int,
    memory: DeviceMemory | None = None, most_problems: int = 1,
) -> list[Lanes]:  # fmt: skip
    """Run every lane of every queue to its end, a queue on each of the first local devices.

    Args:
        solver: the method.
        model: the law and its coordinates.
        problems: the fields that all problems share; others are taken from the queues.
        queues: with at most ``most_problems`` problems each.
        most_lanes: no queue has more lanes. Programs depend on its size class, and not on the
            queues' lengths.
        memory: how many slots the devices had memory for, so far.
        most_problems: no queue has more problems; see ``most_lanes``.

    Returns:
        For each queue :class:`Lanes` of numpy arrays (L, …), whatever the other queues are.
    """
    most = most_problems, most_lanes
    work = partial(_solve_queues, solver, model, problems, queues, most)
    slots = _slot_count(problems, queues[0].starts.shape[1], most_lanes)
    return (memory or DeviceMemory()).retry_smaller_on_oom(solver.name, work, slots)


def _solve_queues(
    solver: Solver, model: Model, problems: Problem, queues: Sequence[Queue],
    most: tuple[int, int], slot_count: int,
) -> list[Lanes]:  # fmt: skip
    # Results have a row for every lane of the padded queue; lanes beyond its length never run.
    least = 2 * slot_count if on_accelerator() else LANES
    padded = next_power_of_two(max(most[1], least))
    starts = _stacked([queue.starts for queue in queues], padded)
    owner = _stacked([queue.owner for queue in queues], padded)
    lengths = [len(queue.owner) for queue in queues]
    waiting = (starts, owner, np.asarray(lengths, np.int32))
    shared, batched = _split(problems, queues, most[0])
    results = Lanes(
        np.zeros_like(starts),
        np.full(owner.shape, np.inf, starts.dtype),
        np.full(owner.shape, Status.NON_FINITE, np.int32),
        np.zeros_like(owner),
    )
    # Settings travel as an argument, so that other tolerances need no other program.
    key, mesh = solver._replace(settings=None), _mesh(len(queues))
    slots, begun = None, np.zeros(len(queues), np.int32)
    while True:
        rounds = _rounds_program(solver, problems, slot_count, first=slots is None)
        run_rounds, count, most_rounds = rounds
        slots = _widened(slots, count)
        fewer = slot_count // PACK if slot_count >= FEWEST else 0
        common = (shared, solver.settings, np.int32(most_rounds))
        work = (batched, waiting, np.full(len(queues), fewer, np.int32))
        slots, results, begun = run_rounds(
            key, model, mesh, count, common, work, slots, results, begun
        )
        waiting_lanes = np.sum(lengths - np.asarray(begun))
        if not waiting_lanes + np.count_nonzero(np.asarray(slots.index) >= 0):
            break
        if fewer:
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
        several = _problem(problems, fields, owner[:count])
        shapes = jax.eval_shape(init, several, starts[:count])
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


def _rounds_program(
    solver: Solver, problems: Problem, slot_count: int, first: bool
) -> tuple[Any, int, int]:
    """The program of the ``first`` or of later rounds, its slots, and its rounds at most."""
    rows = _points(problems)
    if first and solver.brief and rows <= SMALL_TABLES[-1] and not on_accelerator():
        return _run_brief_rounds, BRIEF_SLOTS, BRIEF // rows
    return _run_rounds, slot_count, np.iinfo(np.int32).max


def _widened(slots: _Slots | None, count: int) -> _Slots | None:
    """The slots of each device, with idle ones up to ``count``."""
    if slots is None or (missing := count - slots.index.shape[1]) <= 0:
        return slots

    def more(leaf: Any, value: int = 0) -> np.ndarray:
        widths = [(0, 0), (0, missing), *[(0, 0)] * (leaf.ndim - 2)]
        return np.pad(np.asarray(leaf), widths, constant_values=value)

    return _Slots(jax.tree.map(more, slots.lane), more(slots.index, -1))


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
    model: Model, problems: Problem, queues: Sequence[Queue], most_starts: int,
    memory: DeviceMemory | None = None, most_problems: int = 1,
) -> list[Values]:  # fmt: skip
    """For each queue the objective of each of its starts in each of its problems.

    The problems share their inputs. Args as those of :func:`solve_queues`; no queue has more than
    ``most_starts`` starts, and nothing is done for those without owners.
    """
    # How much there is of each queue, whatever it is padded to.
    counts = [(_count(queue), len(queue.starts) if len(queue.owner) else 0) for queue in queues]

    def work(at_once: int) -> list[Values]:
        block, several, padded = at_once, 1, max(STARTS, -(-most_starts // BLOCK) * BLOCK)
        if on_accelerator():  # all starts of a chunk, and as many problems as memory has room for
            block = min(at_once, next_power_of_two(most_starts))
            several = min(at_once // block, next_power_of_two(most_problems))
            padded = -(-most_starts // block) * block
        shared, batched = _split(problems, queues, most_problems, several)
        starts = _stacked([queue.starts for queue in queues], padded)
        each = batched, starts, np.asarray(counts, np.int32)
        values = _evaluate(model, _mesh(len(queues)), block, several, shared, each)
        value, linear = map(np.asarray, values)
        return [
            Values(value[k, :problems, :starts], linear[k, :problems, :starts])
            for k, (problems, starts) in enumerate(counts)
        ]

    at_once = _lanes_in_memory(problems, 1) if on_accelerator() else BLOCK
    return (memory or DeviceMemory()).retry_smaller_on_oom("screen", work, at_once)


@compiled(static_argnames=("model", "mesh", "block", "several"))
def _evaluate(
    model: Model, mesh: Mesh, block: int, several: int, shared: Problem, each: Any
) -> Values:
    """Values of all starts in all problems: ``block`` starts of ``several`` problems at once.

    ``each`` has for every queue its fields, its starts, and how many problems and starts there
    are: the loops end there, and what the arrays are padded with takes no time.
    """

    def one_problem(parts: Array, fields: dict[str, Array]) -> Values:
        problem = shared._replace(**fields)
        return Values(*jax.vmap(partial(solve_coefficients, model, problem))(parts))

    def one_queue(shared: Problem, each: Any) -> Values:
        fields, starts, (n_problems, n_starts) = each

        def group_of(k: Array) -> dict[str, Array]:
            return jax.tree.map(
                lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, k * several, several), fields
            )

        def one_group(parts: Array, k: Array) -> Values:
            if several > 1:
                return jax.vmap(one_problem, (None, 0))(parts, group_of(k))
            only = jax.tree.map(lambda leaf: leaf[0], group_of(k))
            return jax.tree.map(lambda leaf: leaf[None], one_problem(parts, only))

        def parts_of(first: Array) -> Array:
            # The law's terms are the same for all problems, which share inputs: computed once.
            at = jax.lax.dynamic_slice_in_dim(starts, first, block)
            return jax.vmap(partial(terms, model, shared))(at)

        # In blocks, so that no array of all starts × all points is in memory at once.
        def one_block(b: Array, values: Values) -> Values:
            parts = parts_of(b * block)

            def write(k: Array, values: Values) -> Values:
                at = [k * several, b * block, 0 * k]
                return jax.tree.map(
                    lambda old, new: jax.lax.dynamic_update_slice(old, new, at[: old.ndim]),
                    values, one_group(parts, k),
                )  # fmt: skip

            return jax.lax.fori_loop(0, -(-n_problems // several), write, values)

        shape = jax.tree.leaves(fields)[0].shape[0] if fields else 1, len(starts)
        linear = len(solved_coordinates(model))
        nothing = Values(jnp.zeros(shape, starts.dtype), jnp.zeros((*shape, linear), starts.dtype))
        return jax.lax.fori_loop(0, -(-n_starts // block), one_block, nothing)

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


def _split(
    problems: Problem, queues: Sequence[Queue], most_problems: int = 1, several: int = 1
) -> tuple[Problem, dict[str, Any]]:
    """What all problems share, and what they do not with a leading device axis.

    The second is padded, see :data:`PROBLEMS`, on accelerators to a multiple of ``several``.
    """
    own = set(queues[0].fields)
    if on_accelerator():
        count = -(-most_problems // several) * several
    elif is_padded(problems):
        own |= {*OWN}
        count = max(problems_of_queue(problems), next_power_of_two(most_problems))
    else:
        count = most_problems

    def of_queue(queue: Queue, name: str) -> Any:
        if name in queue.fields:
            return queue.fields[name]
        return jax.tree.map(  # all problems of the queue share it
            lambda leaf: np.broadcast_to(leaf, (count, *np.shape(leaf))), getattr(problems, name)
        )

    batched = {
        name: jax.tree.map(
            lambda *leaves: _stacked(leaves, count), *(of_queue(queue, name) for queue in queues)
        )
        for name in sorted(own)
    }
    return shared_fields(problems, batched), batched


def problems_of_queue(problems: Problem) -> int:
    """How many problems of these rows the program of a queue has room for."""
    least, most = PROBLEMS
    return max(least, min(most, next_power_of_two(NUMBERS // _points(problems) + 1) // 2))


def is_padded(problems: Problem) -> bool:
    """Whether queues of these rows have one length, and so one program, whatever is searched."""
    return not on_accelerator() and _points(problems) <= MOST_ROWS


def _count(queue: Queue) -> int:
    """Number of problems of a queue."""
    leaves = jax.tree.leaves(queue.fields)
    return leaves[0].shape[0] if leaves else 1


def _stacked(arrays: Sequence[Any], length: int) -> np.ndarray:
    """Arrays of queues as one, (queues, length, …); what is behind their own lengths is 0."""
    first = np.asarray(arrays[0])
    stacked = np.zeros((len(arrays), length, *first.shape[1:]), first.dtype)
    for row, array in zip(stacked, arrays, strict=True):
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
