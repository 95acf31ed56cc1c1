"""Little work, step by step from the host: the law in one program, all algebra in others.

The program of a whole solver compiles for seconds, anew for every law and number of points. Here
the algebra is in programs that all laws of so many parameters share: one makes the objective's
derivatives of the law's, another, told what came of one evaluation, asks for the next. Only the
law's own derivatives, and for screening its terms, are compiled for the law at hand, and the
finisher takes the solver's. Lanes do the same as in the engine; a tick costs a little more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import Program, Shelf, compiled
from jaxlaw.fitting._objective import (
    Derivatives,
    Evaluation,
    Problem,
    coupled_places,
    derivatives,
    evaluation,
    levelled,
    linear_mask,
    shared_fields,
)
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting._variable_projection import Linear, linear_part, terms, valued
from jaxlaw.fitting.solvers import Solver
from jaxlaw.fitting.solvers._status import RUNNING
from jaxlaw.fitting.solvers._views import Facts, View, facts_of

GROUP = 16  # lanes of a call: few, so that little is done for lanes that have ended
_OF_LAW = ("inputs", "context", "centre")  # fields of a problem
FEW = 2**8  # observations of which an evaluation is not worth optimising


def evaluate(
    model: Model, problems: Problem, fields: dict[str, Any], starts: np.ndarray,
    owner: np.ndarray, points: int, block: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The objective of every start in every problem, and its linear coefficients.

    Args:
        model: what is fitted.
        problems: the data that all problems share, inputs and context among it.
        fields: those fields of a :class:`Problem` that differ between them, (B, …).
        starts: (S, p) coordinates.
        owner: (S,); where it is empty the programs are made, on a start of the first problem.
        points: observations of a problem.
        block: starts of a call.

    Returns:
        (B, S), scaled, at the level of the data; and (B, S, k).
    """
    starts, shared = starts[: max(1, len(owner))], shared_fields(problems, fields)
    _make_room(model, shared, fields)
    linear, many = linear_part(model, shared._replace(**fields))
    count = len(next(iter(fields.values()))) if fields and len(owner) else 1
    each = [
        many._replace(**{name: getattr(many, name)[k] for name in fields}) for k in range(count)
    ]
    formula, of_terms, value = _formula(shared), _sized(_terms, points), _sized(_valued, points)
    padded = np.pad(starts, ((0, -len(starts) % block), (0, 0)), mode="edge")
    found = []
    for part in padded.reshape(-1, block, starts.shape[1]):
        parts = of_terms(model, formula, part)
        found.append([value(linear, problem, parts) for problem in each])

    def joined(leaf: int) -> np.ndarray:
        blocks = [np.stack([one[leaf] for one in block]) for block in found]
        return np.concatenate(blocks, axis=1)[:, : len(starts)]

    return joined(0), joined(1)


def solve(
    solver: Solver, model: Model, problems: Problem, fields: dict[str, Any], starts: np.ndarray,
    owner: np.ndarray, points: int,
) -> Any:  # fmt: skip
    """Run every lane to its end.

    Args:
        solver: one of single evaluations.
        model, problems, fields, points: as those of :func:`evaluate`.
        starts: (L, p) coordinates.
        owner: (L,) which of the B problems each start is of; where it is empty the programs are
            made, and no more.

    Returns:
        The solver's lanes, leaves (L, …) of numpy.
    """
    count, shared = len(owner), shared_fields(problems, fields)
    if not count:
        starts, owner = np.zeros((1, starts.shape[1])), np.zeros(1, np.int32)
    own = _only(jax.tree.map(lambda leaf: np.asarray(leaf)[owner], fields))
    facts = _facts(model, _whole(shared, own), starts.shape)
    method, settings = solver._replace(settings=None), solver.settings  # tolerances are dynamic
    derived, weighed, told = _sized(_derived, points), _sized(_weighed, points), _told.alone
    formula, data, places = _formula(shared), _data(shared), coupled_places(model)
    _make_room(model, shared, fields, method)

    def evaluated(own: Problem, asked: Any) -> Any:
        at, *how = asked
        found = derived(model, formula, _formula(own), at)
        return weighed(model.space, data, _data(own), found, places, *how)

    def begun(own: Problem, facts: Facts, start: Any) -> tuple[Any, ...]:
        if solver.levelled:
            found = derived(model, formula, _formula(own), start)
            there = start, found.prediction, linear_mask(model)
            start = _levelled.alone(model.space, data, _data(own), *there)
        asked = _asked.alone(method, facts, start, settings)
        found = evaluated(own, asked) if asked else ()
        return own, facts, *told(method, facts, start, found, settings)

    def moved(own: Problem, facts: Facts, lanes: Any, asked: Any) -> tuple[Any, ...]:
        found = evaluated(own, asked)
        return own, facts, *told(method, facts, lanes, found, settings)

    rows = np.arange(len(owner))
    groups = [(part, begun(*given)) for part, given in _groups(rows, (own, facts, starts))]
    ends = jax.tree.map(np.copy, _joined(groups)[2])
    while groups:
        groups = [(part, moved(*state)) for part, state in groups]
        if not count:
            break
        running = [np.asarray(state[2].status)[: len(part)] == RUNNING for part, state in groups]
        running = np.flatnonzero(np.concatenate(running))
        if len(groups) > math.ceil(len(running) / GROUP):  # fewer do: those that have ended go
            rows, whole = np.concatenate([part for part, _ in groups]), _joined(groups)
            for all_, some in zip(*map(jax.tree.leaves, (ends, whole[2])), strict=True):
                all_[rows] = some
            groups = [(rows[part], state) for part, state in _groups(running, whole)]
    return jax.tree.map(lambda leaf: leaf[:count], ends)


def _groups(rows: np.ndarray, trees: Any) -> Iterator[tuple[np.ndarray, Any]]:
    """Rows of trees by the group, and which they are; the last group has some more than once."""
    for first in range(0, len(rows), GROUP):
        part = rows[first : first + GROUP]
        group = np.resize(part, GROUP)
        yield part, jax.tree.map(lambda leaf, group=group: leaf[group], trees)


def _joined(groups: Sequence[tuple[np.ndarray, Any]]) -> Any:
    """The trees of groups as one, of numpy, each row once."""

    def join(*leaves: Any) -> np.ndarray:
        parts = zip(leaves, groups, strict=True)
        return np.concatenate([np.asarray(leaf)[: len(part)] for leaf, (part, _) in parts])

    return jax.tree.map(join, *(state for _, state in groups))


def _facts(model: Model, problems: Problem, shape: tuple[int, int]) -> Facts:
    """Of every lane, leaves (L, …)."""
    facts = facts_of(model, problems)
    shapes = Facts(low=shape, high=shape, reach=shape, delta=shape[:1], floor=shape[:1])
    return Facts(*map(np.broadcast_to, facts, shapes))


def _formula(problem: Problem) -> Problem:
    """What a law needs of a problem."""
    return _only({name: getattr(problem, name) for name in _OF_LAW})


def _data(problem: Problem) -> Problem:
    """The rest of it."""
    return problem._replace(**dict.fromkeys(_OF_LAW))


def _only(fields: dict[str, Any]) -> Problem:
    return Problem(**{**dict.fromkeys(Problem._fields), **fields})


def _whole(shared: Problem, own: Problem) -> Problem:
    """Fields that problems share, and those of one."""
    pairs = zip(shared, own, strict=True)
    return Problem(*(one if other is None else other for one, other in pairs))


@compiled(static_argnames="model")
def _terms(model: Model, shared: Problem, starts: Array) -> Array:
    return jax.vmap(partial(terms, model, shared))(starts)


@compiled(static_argnames="linear")
def _valued(linear: Linear, problem: Problem, parts: Array) -> tuple[Array, Array]:
    return jax.vmap(partial(valued, linear, problem))(parts)


@compiled(static_argnames="model")
def _derived(model: Model, shared: Problem, own: Problem, at: Array) -> Derivatives:
    return jax.vmap(lambda own, at: derivatives(model, _whole(shared, own), at))(own, at)


@compiled(static_argnames="space")
def _weighed(
    space: str, shared: Problem, own: Problem, found: Derivatives, places: Array, *how: Array
) -> tuple[Array, Evaluation]:
    def one(own: Problem, found: Derivatives, *how: Array) -> tuple[Array, Evaluation]:
        return evaluation(space, _whole(shared, own), found, places, *how)

    return jax.vmap(one)(own, found, *how)


@compiled(optimised=False, static_argnames="space")
def _levelled(
    space: str, shared: Problem, own: Problem, starts: Array, predicted: Array, linear: Array
) -> Array:
    def one(own: Problem, start: Array, predicted: Array) -> Array:
        return levelled(space, _whole(shared, own), start, predicted, linear)

    return jax.vmap(one)(own, starts, predicted)


_kept = Shelf(_terms, _valued, _derived, _weighed, _levelled)


def _make_room(model: Model, shared: Problem, fields: dict[str, Any], *key: Any) -> None:
    _kept.make_room(model, *key, tuple(map(np.shape, jax.tree.leaves((shared, fields)))))


def _sized(program: Program, points: int) -> Any:
    return (program.for_little_work if points <= FEW else program).alone


@compiled(optimised=False, static_argnames="method")
def _asked(method: Solver, facts: Facts, states: Any, settings: Any) -> Any:
    """The evaluation that each start, or lane, needs next; () where it needs none."""
    return jax.vmap(partial(_needed, method), (0, 0, None))(facts, states, settings)


@compiled(optimised=False, static_argnames="method")
def _told(method: Solver, facts: Facts, states: Any, found: Any, settings: Any) -> tuple[Any, Any]:
    """Starts, or lanes, after the evaluation that they needed, and the one they need next."""

    def one(facts: Facts, state: Any, found: Any) -> tuple[Any, Any]:
        lane = _ticked(method, facts, lambda *_: found, state, settings)
        if isinstance(state, tuple):  # what has ended stays as it is
            lane = jax.tree.map(partial(jnp.where, state.status == RUNNING), lane, state)
        return lane, _needed(method, facts, lane, settings)

    return jax.vmap(one)(facts, states, found)


def _needed(method: Solver, facts: Facts, state: Any, settings: Any) -> tuple[Array, ...]:
    needed: list[tuple[Array, ...]] = []
    nowhere = jnp.zeros_like(facts.low)
    nothing = Evaluation(jnp.zeros_like(facts.delta), nowhere, jnp.diag(nowhere), nowhere)

    def ask(*points: Array) -> tuple[Array, Evaluation]:
        needed.append(points)
        return nothing.value, nothing

    _ticked(method, facts, ask, state, settings)
    return needed[0] if needed else ()


def _ticked(method: Solver, facts: Facts, law: Any, state: Any, settings: Any) -> Any:
    """A lane one tick on, or a lane of a start."""

    def value_and_gradient(at: Array) -> tuple[Array, Array]:
        value, found = law(at, facts.delta, facts.delta, jnp.ones_like(facts.delta))
        return value, found.gradient

    view = View(facts, law, value_and_gradient)
    if isinstance(state, tuple):
        return method.step(view, state, settings)
    return method.init(view, state)
