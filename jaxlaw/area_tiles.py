"""Areas of one phase: on the device in one piece, or on the host tile by tile.

Tiles bound the memory: beside the rates and the result, some ten tiles of float64, 40 MB, no
matter how long or how many the schedules are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxlaw.laws.base import power
from jaxlaw.notes import UsageError
from jaxlaw.programs import compiled, few_lengths
from jaxlaw.recurrence import ROW, decayed_sum, powers_of

TILE = 2**19  # rates of a host array worked on at a time, 4 MB: what stays in cache


class Areas(NamedTuple):
    """Forward area S1 and annealing area S2, learning rate × steps; arrays of one shape."""

    S1: Any
    S2: Any


class Rule(NamedTuple):
    """Which of the definitions of S2: see :func:`jaxlaw.lr_areas.areas`."""

    weighted: bool
    carry_momentum: bool
    count_warmup: bool

    @property
    def plain(self) -> bool:
        """Whether S2 is the recurrence of the drop; otherwise momentum itself is needed."""
        return self.count_warmup and not (self.weighted or self.carry_momentum)


@compiled(static_argnames="rule")
def advance(
    state: Any, rates: Any, powers: Any, count: Any, at: Any, epsilon: Any, peak: Any, rule: Rule
) -> tuple[Areas, Any]:
    """Areas after steps ``at`` (points,), or each of the rates (..., steps), and the state.

    A state (4, ...) is what steps hand on: S1, S2, momentum and the reference, which is η_0
    where S2 comes from the drop since then, else the rate of the last step. The one returned
    is that after ``count`` steps. Rises in the first ``peak`` (...) steps are ignored.
    """
    S1, S2, momentum, reference = state
    ones = powers_of(1.0, rates.shape[-1])
    points = None if at is None else jnp.append(at, count)
    end = functools.partial(lax.dynamic_index_in_dim, index=count - 1, axis=-1, keepdims=False)
    forward = decayed_sum(rates, ones, S1, points)
    if rule.plain:
        annealing = decayed_sum(reference[..., None] - rates, powers, S2, points)
        last = momentum, reference
    else:
        drops = jnp.concatenate([reference[..., None], rates[..., :-1]], axis=-1) - rates
        if not rule.count_warmup:
            rising = (jnp.arange(rates.shape[-1]) < peak[..., None]) & (drops < 0)
            drops = jnp.where(rising, 0, drops)
        momentum = decayed_sum(drops, powers, momentum)
        weighted = momentum * power(rates, epsilon) if rule.weighted else momentum
        annealing = decayed_sum(weighted, ones, S2, points)
        last = end(momentum), end(rates)
    if at is None:
        return Areas(forward, annealing), jnp.stack([end(forward), end(annealing), *last])
    both = Areas(forward[..., :-1], annealing[..., :-1])
    return both, jnp.stack([forward[..., -1], annealing[..., -1], *last])


class Problem(NamedTuple):
    """The rates of one or both phases, and what to find of them."""

    rates: Any  # (..., steps), or an iterator of blocks (..., steps)
    initial_lr: Any
    S1_before: Any
    epsilon: Any
    decay: Any
    at: np.ndarray | None
    boundary: int | None
    on_device: bool  # JAX arrays in, JAX arrays out
    lead: tuple[int, ...]  # () or (schedules,)

    @property
    def steps(self) -> int | None:
        """Steps of the rates, None where they come in blocks."""
        return None if isinstance(self.rates, Iterator) else self.rates.shape[-1]

    @property
    def advance(self) -> Any:
        """:func:`advance`, compiled for as much work as there is: a tile of it is little."""
        little = self.steps is not None and math.prod(self.lead) * self.steps <= TILE
        return advance.for_little_work if little else advance


def run(problem: Problem, rule: Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    """Areas of one phase from a state, and, where the rule needs it, momentum at its end."""
    if problem.on_device:
        return _run_on_device(problem, rule, state)
    # Inside somebody's jit what is concrete stays so: it is worked out while tracing.
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return _run_on_host(problem, rule, state)


def _run_on_device(problem: Problem, rule: Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    rates = jnp.asarray(problem.rates)
    rates = rates.astype(jnp.promote_types(rates.dtype, jnp.float32))
    state = jnp.stack([jnp.broadcast_to(one, problem.lead).astype(rates.dtype) for one in state])
    powers = powers_of(problem.decay, problem.steps)
    peak = None if rule.count_warmup else jnp.argmax(rates, axis=-1) + 1
    at = None if problem.at is None else np.maximum(problem.at, 1)
    inputs = state, rates, powers, problem.steps, at, problem.epsilon, peak
    found, end = problem.advance(*inputs, rule)
    if at is not None:
        both = zip(state[:2, ..., None], found, strict=True)
        found = Areas(*(jnp.where(problem.at == 0, *one) for one in both))
    return found, end[2]


def _run_on_host(problem: Problem, rule: Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    """Schedules in groups and steps in tiles: temporaries are few, and stay in cache."""
    _learn_to_reuse()
    lead, steps, wanted = problem.lead, problem.steps, slice(None)
    if problem.at is not None and 0 < len(problem.at) <= TILE // ROW:  # else found on the host
        wanted = slice(len(problem.at))
        more = few_lengths(len(problem.at)) - len(problem.at)
        problem = problem._replace(at=np.pad(problem.at, (0, more), mode="edge"))
    at = problem.at
    count = math.prod(lead)
    group = count if steps is None else max(1, min(count, TILE // steps))
    shape = (count, steps if at is None else len(at))
    out, states = Areas(np.empty(shape), np.empty(shape)), np.empty((len(state), count))
    for name, row, one in zip(("S1_before", "", "", "initial_lr"), states, state, strict=True):
        try:
            row[:] = one
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{name} is a number, or (schedules,): {error}") from None
    momentum = np.empty(count)
    for first in range(0, count, group):
        first = min(first, count - group)  # the last group overlaps: one shape, one program
        part = slice(first, first + group)
        blocks = problem.rates if steps is None else [problem.rates.reshape(count, -1)[part]]
        into = Areas(out.S1[part], out.S2[part])
        momentum[part] = _sweep(into, blocks, states[:, part], problem, rule)
    found = Areas(*(area[:, wanted].reshape(*lead, -1) for area in out))
    return found, momentum.reshape(lead)


@functools.lru_cache(1)
def _learn_to_reuse() -> None:
    """Frees a large array, never touched.

    From the largest it has seen freed, glibc learns up to which size to keep freed memory. If
    it has seen none, the buffers of every tile go back to the system and come back page by
    page, which costs more than the sums. Elsewhere this does nothing.
    """
    np.empty(2**22 - 2**12)  # just under 32 MiB, the most it learns


def _sweep(
    out: Areas, blocks: Iterable[np.ndarray], state: np.ndarray, problem: Problem, rule: Rule
) -> np.ndarray:
    """Fills ``out`` (schedules, points) from consecutive blocks of rates; momentum at the end."""
    at, done, width = problem.at, 0, max(1, TILE // len(out.S1))
    if at is not None:
        out.S1[:, at == 0], out.S2[:, at == 0] = state[:2, :, None]
    peak = None if rule.count_warmup else _peak(blocks)
    under_way, kept = None, None
    with ThreadPoolExecutor(1) as beside:
        for tile in _tiles(blocks, width):
            if under_way is not None:  # one tile is kept while the next is worked out
                if kept is not None:
                    kept.result()
                kept = beside.submit(_keep, out, at, *under_way)
            if (tile < 0).any():
                step = done + int(np.argmax((tile < 0).any(axis=0))) + 1
                raise UsageError(f"lr is negative at step {step}; rates must be 0 or more")
            steps = tile.shape[-1]
            rates = _padded(tile, width if done else 0)
            powers = powers_of(problem.decay, rates.shape[-1])
            left = None if peak is None else peak - done
            near = None  # points this tile can give by itself, if they are few
            if at is not None and len(at) * ROW <= rates.shape[-1]:
                near = (at - done).clip(1, steps)
            inputs = state, rates, powers, steps, near, problem.epsilon, left
            found, state = problem.advance(*inputs, rule)
            under_way = found, done, steps, near is not None
            done += steps
    if kept is not None:
        kept.result()
    _keep(out, at, *under_way)
    if at is not None and at.max() > done:
        raise UsageError(f"at asks for step {at.max()}, but the rates end with step {done}")
    state = np.asarray(state)
    if not np.isfinite(state[0]).all():
        raise UsageError("lr has rates that are not finite; look for NaN or inf in them")
    return state[2]


def _keep(out: Areas, at: Any, found: Areas, done: int, steps: int, picked: bool) -> None:
    """Puts the areas of a tile, ``steps`` steps after ``done``, where they belong in ``out``."""
    here = slice(done, done + steps) if at is None else (at > done) & (at <= done + steps)
    there = slice(steps) if at is None else here if picked else at[here] - done - 1
    for into, area in zip(out, found, strict=True):
        into[:, here] = np.asarray(area)[:, there]


def _peak(blocks: Iterable[np.ndarray]) -> np.ndarray:
    if isinstance(blocks, Iterator):
        raise UsageError("count_warmup=False needs the whole schedule, not blocks of it")
    return np.argmax(blocks[0], axis=-1) + 1


def _tiles(blocks: Iterable[np.ndarray], width: int) -> Iterator[np.ndarray]:
    for block in blocks:
        block = np.atleast_2d(block)
        for first in range(0, block.shape[-1], width):
            yield block[:, first : first + width]


def _padded(rates: np.ndarray, least: int) -> np.ndarray:
    """Rates (schedules, steps) with zeros after them, to one of few lengths: few compilations."""
    steps = rates.shape[-1]
    unit = max(ROW, 2 ** (steps.bit_length() - 3))
    length = max(least, -(-steps // unit) * unit)
    if length == steps:
        return rates
    padded = np.zeros((len(rates), length))  # np.pad takes ten times as long
    padded[:, :steps] = rates
    return padded
