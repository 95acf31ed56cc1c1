"""Gradient descent on the shares of a run's fall, a softmax of logits, in batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlaw.laws.base import Law
from jaxlaw.lr_areas import Areas, PhaseAreas
from jaxlaw.planning.answers import Source
from jaxlaw.planning.corners import Mixture, few_steps, lean, mixed, mixture_of, slopes
from jaxlaw.planning.falls import (
    Grid,
    Run,
    by_name,
    ends_of,
    finer_grid,
    moved,
    schedule_of,
    together,
)
from jaxlaw.programs import SEARCHED, compiled

FINER = 2  # times the knots are placed anew
DUST = 1e-9  # shares of the fall that are put to 0 at the end


class Pace(NamedTuple):
    """How a descent goes.

    Attributes:
        spare: of the fall, given to all corners alike: none is so small at the start that it
            cannot come back. What there is to clear away hides what little there is to gain.
        rate: Adam's, in logits; it fades to 0 over the iterations.
    """

    spare: float
    rate: float


AFRESH, NEAR = Pace(0.1, 1.0), Pace(1e-3, 0.3)


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


def losses_of(targets: Sequence[Target], ends: Areas | PhaseAreas) -> np.ndarray:
    """The weighted sum at the ends of schedules; areas and parameters broadcast."""
    which, values = _as_arrays(targets, None)
    with jax.enable_x64(True):
        return np.asarray(_weighted(which, values, ends))


class Search(NamedTuple):
    """Where the descents from every start ended.

    Attributes:
        grid: knots.
        nodes: steps and counts, as :func:`jaxlaw.planning.corners.few_steps` gives.
        mixture: what they went down on.
        shares: (starts, corners).
        ends: areas of each, over every step.
        losses: (starts,) there.
    """

    grid: Grid
    nodes: tuple[np.ndarray, np.ndarray]
    mixture: Mixture
    shares: np.ndarray
    ends: Areas | PhaseAreas
    losses: np.ndarray

    @property
    def best(self) -> int:
        """The start; 0 where no loss is finite."""
        finite = np.where(np.isfinite(self.losses), self.losses, np.inf)
        return int(np.argmin(finite))

    @property
    def best_ends(self) -> Areas | PhaseAreas:
        """Areas of that start, as numbers."""
        return type(self.ends)(*(float(one[self.best]) for one in self.ends))

    @property
    def loss(self) -> float:
        """The lowest."""
        return float(self.losses[self.best])


def searched(
    targets: Sequence[Target], run: Run, grid: Grid, options: Mapping[str, Any],
    starts: np.ndarray, iterations: int,
) -> Search:  # fmt: skip
    """Descents from shares (starts, corners), then again on knots where the rates fell."""
    every = [_searched(targets, run, grid, options, starts, iterations, AFRESH)]
    for _ in range(FINER):
        found = [one.shares[one.best] for one in every]
        finer = finer_grid(run, [one.grid for one in every], found)
        if finer is None or not np.isfinite(every[-1].loss):
            break
        starts = moved(every[-1].shares, every[-1].grid, finer)
        every.append(_searched(targets, run, finer, options, starts, iterations, NEAR))
    return min(every, key=lambda one: one.loss)


def _searched(
    targets: Sequence[Target], run: Run, grid: Grid, options: Mapping[str, Any],
    starts: np.ndarray, iterations: int, pace: Pace,
) -> Search:  # fmt: skip
    nodes = few_steps(run, grid, options["decay"])
    mixture = mixture_of(run, grid, options, nodes)
    shares = descend(targets, mixture, starts, iterations, pace)
    ends = together([ends_of(schedule_of(one, run, grid), options) for one in shares])
    return Search(grid, nodes, mixture, shares, ends, losses_of(targets, ends))


def gap_at(
    targets: Sequence[Target], search: Search, run: Run, options: Mapping[str, Any]
) -> float:
    """Frank and Wolfe's gap: the best that a move to one corner promises, over every step."""
    which, values = _as_arrays(targets, None)
    shares = search.shares[search.best]
    with jax.enable_x64(True):
        pull = _slope(which, values, search.best_ends)
    each = slopes(search.mixture, shares, run, search.grid, options)
    slope = sum(np.asarray(a) * b for a, b in zip(pull, each, strict=True))
    return float(slope @ shares - slope.min())


@compiled(little=SEARCHED, static_argnames="which")
def _slope(which: tuple[Law, ...], values: Any, ends: Any) -> Any:
    return jax.grad(_weighted, argnums=2)(which, values, ends)


def descend(
    targets: Sequence[Target], mixture: Mixture, starts: np.ndarray, iterations: int, pace: Pace
) -> np.ndarray:
    """Shares (starts, corners) where the descents from others end; params may have a row each."""
    which, values = _as_arrays(targets, len(starts))
    logits = np.log(np.maximum(starts, 0) + pace.spare / starts.shape[-1])
    with jax.enable_x64(True):
        found = _descend(which, values, lean(mixture), logits, iterations, pace.rate)
        return np.asarray(found)


def _as_arrays(targets: Sequence[Target], lanes: int | None) -> tuple[tuple[Law, ...], Any]:
    """Laws, and numbers of every lane (lanes,); None: as they are."""
    which = tuple(one.law for one in targets)
    values = [(one.weight, one.params, one.inputs) for one in targets]
    if lanes is not None:
        values = jax.tree.map(lambda one: np.broadcast_to(one, lanes), values)
    return which, values


@compiled(little=SEARCHED, static_argnames="which")
def _descend(
    which: tuple[Law, ...], values: Any, mixture: Mixture, starts: Any, iterations: Any,
    highest: Any,
) -> Any:  # fmt: skip
    """Adam on the logits of every lane."""

    def loss(logits: Any, own: Any) -> Any:
        return _weighted(which, own, mixed(mixture, jax.nn.softmax(logits)))

    # Near a corner gradients fade with the shares; Adam's steps do not, without its epsilon.
    adam = optax.scale_by_adam(b2=0.99, eps=1e-30)
    every = jax.vmap(jax.grad(loss))

    def step(i: Any, carry: Any) -> Any:
        logits, state = carry
        update, state = adam.update(every(logits, values), state)
        rate = highest * 0.5 * (1 + jnp.cos(jnp.pi * i / iterations))
        return logits - rate * update, state

    carry = jnp.asarray(starts), adam.init(jnp.asarray(starts))
    shares = jax.nn.softmax(jax.lax.fori_loop(0, iterations, step, carry)[0])
    shares = jnp.where(shares < DUST, 0, shares)
    return shares / shares.sum(axis=-1, keepdims=True)
