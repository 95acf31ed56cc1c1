"""The two areas of a learning-rate schedule, S1 and S2 (Tissue 2024; Wang 2025, eq. 1 and 2).

With η_i the rate of step i (from 1) and η_0 the rate before step 1::

    S1(t) = Σ_{i≤t} η_i                                      forward area
    S2(t) = Σ_{i≤t} m_i,  m_i = λ·m_{i−1} + (η_{i−1} − η_i)  annealing area, m_0 = 0
          = Σ_{i≤t} Σ_{k≤i} (η_{k−1} − η_k)·λ^{i−k}

Summed over i first, the double sum is one first-order recurrence of the drop since η_0::

    S2(t) = Σ_{k≤t} (η_0 − η_k)·λ^{t−k} = λ·S2(t−1) + (η_0 − η_t)

Nothing is divided by 1 − λ, and for rates that stay below η_0 nothing cancels: both areas are
one :func:`~jaxlaw.recurrence.decayed_sum`, S1 with λ = 1.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw.laws.base import power
from jaxlaw.notes import UsageError
from jaxlaw.recurrence import ROW, decayed_sum, powers_of
from jaxlaw.schedules import Schedule

TILE = 2**18  # rates of a host array worked on at a time: what stays in cache


class Areas(NamedTuple):
    """Forward area S1 and annealing area S2, learning rate × steps; arrays of one shape."""

    S1: Any
    S2: Any


class PhaseAreas(NamedTuple):
    """The areas split at the boundary of pre-training (pt) and continued training (cpt).

    During pre-training those of cpt are 0; after it those of pt keep their last value.
    """

    S1_pt: Any
    S1_cpt: Any
    S2_pt: Any
    S2_cpt: Any

    @property
    def whole(self) -> Areas:
        """S1 = S1_pt + S1_cpt and S2 = S2_pt + S2_cpt (Wang 2025, eq. 2)."""
        return Areas(self.S1_pt + self.S1_cpt, self.S2_pt + self.S2_cpt)


def areas(
    lr: Any,
    decay: Any = 0.999,
    initial_lr: Any = None,
    *,
    at: Any = None,
    boundary: int | None = None,
    carry_momentum: bool = False,
    count_warmup: bool = True,
    epsilon: Any = None,
    S1_before: Any = 0.0,
) -> Areas:
    """S1 and S2 after every step of a schedule, or after the steps ``at``.

    Args:
        lr: rates, (steps,) or (schedules, steps); a Schedule, or a list of them of one length;
            or an iterator of consecutive blocks of rates, for schedules too long to hold.
            JAX arrays, traced ones too, give JAX arrays of their dtype, differentiable in lr,
            decay, initial_lr, epsilon and S1_before. Everything else is worked on in float64,
            some hundred thousand rates at a time, and gives numpy arrays.
        decay: λ in [0, 1]; or (decays,), which puts an axis before those of lr.
        initial_lr: η_0, a number or (schedules,). ``"first"``: the rate of step 1, no jump.
            Left out: a Schedule's own, else 0.
        at: (points,) steps to evaluate after, in any order; 0 is before the first.
        boundary: steps of pre-training; S2 is then summed phase by phase, as in
            :func:`phase_areas`. Left out: a Schedule's own, else one phase.
        carry_momentum: momentum goes on over the boundary, as if there were none.
        count_warmup: False ignores rises (negative drops) up to and with the first step of
            the phase that has its highest rate. Falls always count.
        epsilon: weights momentum with the rate, S2 = Σ m_i·η_i^ε (Wang 2025, App. J).
        S1_before: sum of the rates before those of ``lr``, a number or (schedules,).

    Returns:
        Areas of shape (…, steps) or (…, points), where … is (decays, schedules), what there
        is of them.

    Raises:
        UsageError: λ outside [0, 1], rates that are not finite, or a boundary, step or shape
            that does not fit.
    """
    problem = _pose(lr, decay, initial_lr, S1_before, at, boundary)
    rule = _Rule(epsilon, carry_momentum, count_warmup)
    if problem.boundary is None:
        return _each_decay(problem, lambda one: _run(one, rule, _start(one))[0])
    return _each_decay(problem, lambda one: _split(one, rule)).whole


def phase_areas(
    lr: Any,
    decay: Any = 0.999,
    initial_lr: Any = None,
    *,
    at: Any = None,
    boundary: int | None = None,
    carry_momentum: bool = False,
    count_warmup: bool = True,
    epsilon: Any = None,
    S1_before: Any = 0.0,
) -> PhaseAreas:
    """The areas of pre-training and of the continued phase, apart (Wang 2025, eq. 2 and 4).

    η_0 of the continued phase is the last rate of pre-training. By default momentum left over
    at the boundary stops there, as where the areas of each phase are computed in advance; with
    ``carry_momentum=True`` its tail counts in S2_cpt, and S2_pt + S2_cpt is the S2 of the same
    rates without a boundary.

    Args and errors as :func:`areas`; ``boundary`` is needed unless ``lr`` is a Schedule that
    has one.
    """
    problem = _pose(lr, decay, initial_lr, S1_before, at, boundary)
    if problem.boundary is None:
        raise UsageError("no boundary to split at; give boundary=, or a Schedule made by join()")
    rule = _Rule(epsilon, carry_momentum, count_warmup)
    return _each_decay(problem, lambda one: _split(one, rule))


class _Rule(NamedTuple):
    epsilon: Any
    carry_momentum: bool
    count_warmup: bool

    @property
    def plain(self) -> bool:
        """Whether S2 is the recurrence of the drop; otherwise momentum itself is needed."""
        return self.epsilon is None and self.count_warmup and not self.carry_momentum


@functools.partial(jax.jit, static_argnames="plain")
def _advance(
    state: Any, rates: Any, powers: Any, epsilon: Any, peak: Any, plain: bool
) -> tuple[Areas, Any]:
    """Areas after each of the rates (..., steps), and momentum where it was needed.

    ``state`` (4, ...) is what the steps before hand on: S1, S2, momentum and the reference,
    which is η_0 where S2 comes from the drop since then, else the rate of the last step.
    Rises in the first ``peak`` (...) steps are ignored, where that is given.
    """
    S1, S2, momentum, reference = state
    ones = powers_of(1.0, rates.shape[-1])
    forward = decayed_sum(rates, ones, S1)
    if plain:
        return Areas(forward, decayed_sum(reference[..., None] - rates, powers, S2)), None
    drops = jnp.concatenate([reference[..., None], rates[..., :-1]], axis=-1) - rates
    if peak is not None:
        rising = (jnp.arange(rates.shape[-1]) < peak[..., None]) & (drops < 0)
        drops = jnp.where(rising, 0, drops)
    momentum = decayed_sum(drops, powers, momentum)
    weighted = momentum if epsilon is None else momentum * power(rates, epsilon)
    return Areas(forward, decayed_sum(weighted, ones, S2)), momentum


# What is asked


class _Problem(NamedTuple):
    rates: Any  # (..., steps), or an iterator of blocks (..., steps)
    initial_lr: Any
    S1_before: Any
    decay: Any
    at: np.ndarray | None
    boundary: int | None
    on_device: bool  # JAX arrays in, JAX arrays out
    lead: tuple[int, ...]  # () or (schedules,)

    @property
    def steps(self) -> int | None:
        """Steps of the rates, None where they come in blocks."""
        return None if isinstance(self.rates, Iterator) else self.rates.shape[-1]


def _pose(
    lr: Any, decay: Any, initial_lr: Any, S1_before: Any, at: Any, boundary: int | None
) -> _Problem:
    rates, own_initial, own_boundary = _read(lr)
    boundary = own_boundary if boundary is None else boundary
    begin = rates
    if isinstance(rates, Iterator):
        if at is None or boundary is not None:
            raise UsageError("blocks of rates need at=, the steps to evaluate, and no boundary")
        begin = next(rates, np.zeros(0))
        rates = itertools.chain([begin], rates)
    if begin.ndim not in (1, 2) or 0 in begin.shape:
        raise UsageError(f"lr has shape {begin.shape}; it must be (steps,) or (schedules, steps)")
    if isinstance(initial_lr, str):
        if initial_lr != "first":
            raise UsageError(f"initial_lr must be a number or 'first', not {initial_lr!r}")
        initial_lr = begin[..., 0]
    initial_lr = own_initial if initial_lr is None else initial_lr
    on_device = any(isinstance(one, jax.Array) for one in (rates, decay, initial_lr, S1_before))
    problem = _Problem(
        rates, initial_lr, S1_before, _decay(decay), at, boundary, on_device, begin.shape[:-1]
    )
    if boundary is not None and not 0 < boundary < problem.steps:
        last = problem.steps - 1
        raise UsageError(f"boundary={boundary} must leave steps on both sides: from 1 to {last}")
    return problem._replace(at=_points(at, problem.steps))


def _read(lr: Any) -> tuple[Any, Any, int | None]:
    """Rates, and η_0 and boundary where a Schedule says them."""
    if isinstance(lr, Schedule):
        return lr.rates, lr.initial_lr, lr.boundary
    if isinstance(lr, list | tuple) and lr and all(isinstance(one, Schedule) for one in lr):
        if len({(len(one), one.boundary) for one in lr}) > 1:
            raise UsageError(
                "schedules of one call must have the same length and boundary; call areas() for "
                "each of them, or for each group that has"
            )
        initial = np.array([one.initial_lr for one in lr])
        return np.stack([one.rates for one in lr]), initial, lr[0].boundary
    if isinstance(lr, Iterator):
        return (np.asarray(block, float) for block in lr), 0.0, None
    return lr if isinstance(lr, jax.Array) else np.asarray(lr, float), 0.0, None


def _decay(decay: Any) -> Any:
    if isinstance(decay, jax.core.Tracer):
        return decay
    values = np.asarray(decay, float)
    if values.ndim > 1 or not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"decay is λ in [0, 1], a number or (decays,), not {decay}")
    return values


def _points(at: Any, steps: int | None) -> np.ndarray | None:
    if at is None:
        return None
    points = np.asarray(at)
    if points.ndim != 1 or not len(points) or (points != np.floor(points)).any():
        raise UsageError(f"at must be whole numbers of steps, (points,), not {at!r}")
    last = np.inf if steps is None else steps
    if points.min() < 0 or points.max() > last:
        raise UsageError(f"at has {points.min()} to {points.max()}; the steps are 0 to {last}")
    return points.astype(int)


def _each_decay(problem: _Problem, run: Callable[[_Problem], Any]) -> Any:
    """What ``run`` gives for one λ; for (decays,) with their axis first."""
    if problem.decay.ndim == 0:
        return run(problem)
    if isinstance(problem.decay, jax.Array):
        return jax.vmap(lambda decay: run(problem._replace(decay=decay)))(problem.decay)
    if problem.steps is None:
        raise UsageError("blocks of rates pass once, so take one decay, not several")
    found = [run(problem._replace(decay=decay)) for decay in problem.decay]
    stack = jnp.stack if problem.on_device else np.stack
    return jax.tree.map(lambda *each: stack(each), *found)


# How it is worked out


def _start(problem: _Problem) -> tuple[Any, ...]:
    return problem.S1_before, 0.0, 0.0, problem.initial_lr


def _split(problem: _Problem, rule: _Rule) -> PhaseAreas:
    """The two phases one after the other, each with its own η_0."""
    rates, at, boundary = problem.rates, problem.at, problem.boundary
    early, late = (None, None) if at is None else (at.clip(max=boundary), (at - boundary).clip(0))
    first = problem._replace(rates=rates[..., :boundary], at=early)
    pt, momentum = _run(first, rule, _start(first))
    tail = momentum if rule.carry_momentum else 0.0
    second = problem._replace(rates=rates[..., boundary:], at=late)
    cpt, _ = _run(second, rule, (0.0, 0.0, tail, rates[..., boundary - 1]))
    if at is None:
        xp = jnp if problem.on_device else np
        none = xp.zeros_like(pt.S1)
        held = (xp.broadcast_to(one[..., -1:], cpt.S1.shape) for one in pt)
        pt = Areas(*(xp.concatenate(both, axis=-1) for both in zip(pt, held, strict=True)))
        cpt = Areas(*(xp.concatenate([none, one], axis=-1) for one in cpt))
    return PhaseAreas(pt.S1, cpt.S1, pt.S2, cpt.S2)


def _run(problem: _Problem, rule: _Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    """Areas of one phase from a state, and the momentum at its end where it was needed."""
    if problem.on_device:
        return _run_on_device(problem, rule, state)
    with jax.enable_x64(True):
        return _run_on_host(problem, rule, state)


def _run_on_device(problem: _Problem, rule: _Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    rates = jnp.asarray(problem.rates)
    rates = rates.astype(jnp.promote_types(rates.dtype, jnp.float32))
    state = jnp.stack([jnp.broadcast_to(one, problem.lead).astype(rates.dtype) for one in state])
    powers = powers_of(problem.decay, problem.steps)
    peak = None if rule.count_warmup else jnp.argmax(rates, axis=-1) + 1
    found, momentum = _advance(state, rates, powers, rule.epsilon, peak, rule.plain)
    tail = None if momentum is None else momentum[..., -1]
    if problem.at is None:
        return found, tail
    picked = (one[..., np.maximum(problem.at - 1, 0)] for one in found)
    both = zip(state[:2, ..., None], picked, strict=True)
    return Areas(*(jnp.where(problem.at == 0, *one) for one in both)), tail


def _run_on_host(problem: _Problem, rule: _Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    """Schedules in groups and steps in tiles: temporaries are few, and stay in cache."""
    lead, steps, at = problem.lead, problem.steps, problem.at
    count = math.prod(lead)
    group = count if steps is None else max(1, min(count, TILE // steps))
    shape = (count, steps if at is None else len(at))
    out, states = Areas(np.empty(shape), np.empty(shape)), np.empty((len(state), count))
    for row, one in zip(states, state, strict=True):
        row[:] = one
    momentum = np.empty(count)
    for first in range(0, count, group):
        first = min(first, count - group)  # the last group overlaps: one shape, one program
        part = slice(first, first + group)
        blocks = problem.rates if steps is None else [problem.rates.reshape(count, -1)[part]]
        into = Areas(out.S1[part], out.S2[part])
        momentum[part] = _sweep(into, blocks, states[:, part], problem, rule)
    return Areas(out.S1.reshape(*lead, -1), out.S2.reshape(*lead, -1)), momentum.reshape(lead)


def _sweep(
    out: Areas, blocks: Iterable[np.ndarray], state: np.ndarray, problem: _Problem, rule: _Rule
) -> np.ndarray:
    """Fills ``out`` (schedules, points) from consecutive blocks of rates; momentum at the end."""
    at, done, width = problem.at, 0, max(1, TILE // len(out.S1))
    if at is not None:
        out.S1[:, at == 0], out.S2[:, at == 0] = state[:2, :, None]
    peak = None if rule.count_warmup else _peak(blocks)
    for tile in _tiles(blocks, width):
        steps = tile.shape[-1]
        rates = _padded(tile, width if done else 0)
        powers = powers_of(problem.decay, rates.shape[-1])
        left = None if peak is None else peak - done
        found = _advance(state, rates, powers, rule.epsilon, left, rule.plain)
        (S1, S2), momentum = jax.tree.map(np.asarray, found)
        here = slice(done, done + steps) if at is None else (at > done) & (at <= done + steps)
        there = slice(steps) if at is None else at[here] - done - 1
        out.S1[:, here], out.S2[:, here] = S1[:, there], S2[:, there]
        last = state[2:] if rule.plain else (momentum[:, steps - 1], tile[:, -1])
        state = np.array((S1[:, steps - 1], S2[:, steps - 1], *last))
        done += steps
    if at is not None and at.max() > done:
        raise UsageError(f"at asks for step {at.max()}, but the rates end with step {done}")
    if not np.isfinite(state[0]).all():
        raise UsageError("lr has rates that are not finite; look for NaN or inf in them")
    return state[2]


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
    unit = max(ROW, 2 ** (steps.bit_length() - 4))
    length = max(least, -(-steps // unit) * unit)
    if length == steps:
        return rates
    padded = np.zeros((len(rates), length))  # np.pad takes ten times as long
    padded[:, :steps] = rates
    return padded
