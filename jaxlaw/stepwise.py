"""Little work, tick by tick from the host: the law in one program, solvers' algebra in others.

The program of a whole solver compiles for seconds, anew for every law and number of points. Here
the algebra is a program that all laws of so many parameters share: told what came of one
evaluation, it asks for the next. Only the evaluation is compiled for the law at hand, and the
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

from jaxlaw.coordinates import Array, Model
from jaxlaw.objective import Evaluation, Problem, evaluate, to_level
from jaxlaw.programs import Shelf, compiled
from jaxlaw.solvers import Solver
from jaxlaw.solvers.status import RUNNING
from jaxlaw.solvers.views import Facts, View, facts_of

GROUP = 16  # lanes of a call: few, so that little is done for lanes that have ended
FEW = 2**8  # observations of which an evaluation is not worth optimising


def solve(
    solver: Solver, model: Model, shared: Problem, fields: dict[str, Any], starts: np.ndarray,
    owner: np.ndarray, points: int,
) -> Any:  # fmt: skip
    """Run every lane to its end.

    Args:
        solver: one of single evaluations.
        model: what is fitted.
        shared: the data that all problems share.
        fields: those fields of a :class:`Problem` that differ between them, (B, …).
        starts: (L, p) coordinates; of none, the programs are made, and no more.
        owner: (L,) which of the B problems each start is of.
        points: observations of a problem.

    Returns:
        The solver's lanes, leaves (L, …) of numpy.
    """
    count = len(owner)
    if not count:
        starts, owner = np.zeros((1, starts.shape[1])), np.zeros(1, np.int32)
    own = jax.tree.map(lambda leaf: np.asarray(leaf)[owner], fields)
    facts = _facts(model, shared._replace(**own), starts.shape)
    method, settings = solver._replace(settings=None), solver.settings  # tolerances are dynamic
    evaluated = _evaluated.for_little_work if points <= FEW else _evaluated
    law, told = partial(evaluated.alone, model, shared), _told.alone
    _kept.make_room(method, model, tuple(map(np.shape, jax.tree.leaves((shared, fields)))))

    def begun(own: Any, facts: Facts, start: Any) -> tuple[Any, ...]:
        if solver.levelled:
            start = _levelled(model, shared, own, start)
        asked = _asked(method, facts, start, settings)
        found = law(own, asked) if asked else ()
        return own, facts, *told(method, facts, start, found, settings)

    def moved(own: Any, facts: Facts, lanes: Any, asked: Any) -> tuple[Any, ...]:
        found = law(own, asked)
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


@compiled(static_argnames="model")
def _evaluated(model: Model, shared: Problem, own: Any, asked: Any) -> tuple[Array, Evaluation]:
    def one(own: Any, asked: Any) -> tuple[Array, Evaluation]:
        return evaluate(model, shared._replace(**own), *asked)

    return jax.vmap(one)(own, asked)


@compiled(optimised=False, static_argnames="model")
def _levelled(model: Model, shared: Problem, own: Any, starts: Array) -> Array:
    return jax.vmap(lambda own, at: to_level(model, shared._replace(**own), at))(own, starts)


_kept = Shelf(_evaluated, _levelled)


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
