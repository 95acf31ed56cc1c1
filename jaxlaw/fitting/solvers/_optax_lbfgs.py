"""optax's L-BFGS behind the same two functions: the heir of jaxopt, which is no longer maintained.

Frames, tests of convergence and the rule by which a step near a candidate is taken are those of
:mod:`jaxlaw.fitting.solvers._lbfgs`; the memory and, for starts anywhere, the line search are
optax's.
"""

from __future__ import annotations

import importlib
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlaw.fitting._objective import Problem, scaled_value
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting.solvers import _lbfgs
from jaxlaw.fitting.solvers._lbfgs import MAXLS, Lane, Settings


class Memory(NamedTuple):
    """Where optax's L-BFGS stands.

    Attributes:
        value, grad: objective and gradient (p,) at the lane's ``z``.
        state: optax's state; near a candidate that from before the step at ``z`` is proposed, so
            that a step that is refused leaves no trace.
    """

    value: Array
    grad: Array
    state: Any


def init(model: Model, problem: Problem, start: Array) -> Lane:
    """Make a lane anywhere in the box, as :func:`jaxlaw.fitting.solvers._lbfgs.init` does."""

    def remember(fun: Any, z: Array) -> Memory:
        return Memory(*fun(z), _with_line_search().init(z))

    return _lbfgs.init(model, problem, start, remember)


def init_near(model: Model, problem: Problem, candidate: Array) -> Lane:
    """Make a lane at a candidate, as :func:`jaxlaw.fitting.solvers._lbfgs.init_near` does."""

    def remember(fun: Any, z: Array) -> Memory:
        return Memory(*fun(z), _near().init(z))

    return _lbfgs.init_near(model, problem, candidate, remember)


def step(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """Make one update, its line search included."""

    def value_of(z: Array) -> Array:
        return scaled_value(model, problem, lane.frame.coordinates(z))

    def advance(fun: Any, lane: Lane) -> tuple[Array, Memory]:
        value, grad, state = lane.memory
        move, state = _with_line_search().update(
            grad, state, lane.z, value=value, grad=grad, value_fn=value_of
        )
        searched = state[-1]
        return lane.z + move, Memory(searched.value, searched.grad, state)

    return _lbfgs.step(model, problem, lane, settings, advance)


def step_near(model: Model, problem: Problem, lane: Lane, settings: Settings) -> Lane:
    """Evaluate once: a step that gains enough is taken, another is halved."""

    def advance(fun: Any, lane: Lane) -> tuple[Array, Memory]:
        _, grad, state = lane.memory
        direction, state = _near().update(grad, state, lane.z)
        z = lane.z - lane.step_length * direction
        value, new = fun(z)
        # optax learns of this step at its next update; if sᵀy ≤ 0 it is to begin anew.
        curved = (z - lane.z) @ (new - grad) > 0
        state = jax.tree.map(partial(jnp.where, curved), state, _near().init(z))
        return z, Memory(value, new, state)

    return _lbfgs.step_near(model, problem, lane, settings, advance)


@cache
def _near() -> Any:
    """Without a scale of its own: whitened, the identity is the right first matrix."""
    return _optax().scale_by_lbfgs(scale_init_precond=False)


@cache
def _with_line_search() -> Any:
    optax = _optax()
    return optax.lbfgs(linesearch=optax.scale_by_zoom_linesearch(max_linesearch_steps=MAXLS))


def _optax() -> Any:
    """The package, imported where a program that uses it is traced."""
    return importlib.import_module("optax")
