"""Gradient descent on the shares of a run's fall, a softmax of logits, in batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlaw.area_tiles import Areas
from jaxlaw.laws.base import Law
from jaxlaw.lr_areas import PhaseAreas
from jaxlaw.planning.answers import Source
from jaxlaw.planning.corners import Mixture, mixed, slopes
from jaxlaw.planning.falls import Grid, Run, by_name, ends_of, schedule_of
from jaxlaw.programs import compiled

RATE = 1.0  # Adam's, in logits; it fades to 0 over the iterations
DUST = 1e-9  # shares of the fall that are put to 0 at the end


class Target(NamedTuple):
    """One of the losses."""

    law: Law
    params: dict[str, float]
    inputs: dict[str, float]  # beside areas, in the law's own units
    weight: float
    source: Source


def predicted(law: Law, params: Any, inputs: Any, ends: Areas | PhaseAreas) -> Any:
    """What a law says of areas at the end, and of its other inputs, in its own units."""
    values = by_name(ends) | inputs
    return law(params, **{name: values[name] for name in law.input_names})


def _weighted(which: tuple[Law, ...], values: Any, ends: Any) -> Any:
    each = zip(which, values, strict=True)
    return sum(weight * predicted(law, p, x, ends) for law, (weight, p, x) in each)


def losses_of(targets: Sequence[Target], each: Sequence[Areas | PhaseAreas]) -> np.ndarray:
    """The weighted sum after the last step of each schedule, (schedules,)."""
    ends = type(each[0])(*map(np.array, zip(*each, strict=True)))
    which, values = _as_arrays(targets, 1)
    with jax.enable_x64(True):
        return np.broadcast_to(_weighted(which, values, ends), len(each))


def gap_at(
    targets: Sequence[Target], mixture: Mixture, shares: np.ndarray, run: Run, grid: Grid,
    options: Mapping[str, Any],
) -> float:  # fmt: skip
    """Frank and Wolfe's gap: the best that a move to one corner promises, over every step."""
    which, values = _as_arrays(targets, None)
    ends = ends_of(schedule_of(shares, run, grid), options)
    with jax.enable_x64(True):
        pull = _slope(which, values, ends)
    each = slopes(mixture, shares, run, grid, options)
    slope = sum(np.asarray(a) * b for a, b in zip(pull, each, strict=True))
    return float(slope @ shares - slope.min())


@compiled(static_argnames="which")
def _slope(which: tuple[Law, ...], values: Any, ends: Any) -> Any:
    return jax.grad(_weighted, argnums=2)(which, values, ends)


def descend(
    targets: Sequence[Target], mixture: Mixture, starts: np.ndarray, iterations: int
) -> np.ndarray:
    """Shares (starts, corners) where the descents end; params and starts row by row."""
    which, values = _as_arrays(targets, len(starts))
    if mixture.epsilon is None:  # then rates are not asked for: one program for all runs
        mixture = mixture._replace(rates=None)
    with jax.enable_x64(True):
        return np.asarray(_descend(which, values, mixture, starts, iterations))


def _as_arrays(targets: Sequence[Target], lanes: int | None) -> tuple[tuple[Law, ...], Any]:
    """Laws, and numbers of every lane (lanes,); None: as they are."""
    which = tuple(one.law for one in targets)
    values = [(one.weight, one.params, one.inputs) for one in targets]
    if lanes is not None:
        values = jax.tree.map(lambda one: np.broadcast_to(one, lanes), values)
    return which, values


@compiled(static_argnames="which")
def _descend(
    which: tuple[Law, ...], values: Any, mixture: Mixture, starts: Any, iterations: Any
) -> Any:
    """Adam on the logits of every lane."""

    def loss(logits: Any, own: Any) -> Any:
        return _weighted(which, own, mixed(mixture, jax.nn.softmax(logits)))

    # Near a corner gradients fade with the shares; Adam's steps do not, without its epsilon.
    adam = optax.scale_by_adam(b2=0.99, eps=1e-30)
    every = jax.vmap(jax.grad(loss))

    def step(i: Any, carry: Any) -> Any:
        logits, state = carry
        update, state = adam.update(every(logits, values), state)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * i / iterations))
        return logits - rate * update, state

    carry = jnp.asarray(starts), adam.init(jnp.asarray(starts))
    shares = jax.nn.softmax(jax.lax.fori_loop(0, iterations, step, carry)[0])
    shares = jnp.where(shares < DUST, 0, shares)
    return shares / shares.sum(axis=-1, keepdims=True)
