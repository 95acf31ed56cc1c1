"""The two areas of a learning-rate schedule, S1 and S2 (Tissue 2024; Wang 2025, eq. 1 and 2).

With η_i the rate of step i (from 1) and η_0 the rate before step 1::

    S1(t) = Σ_{i≤t} η_i                                      forward area
    S2(t) = Σ_{i≤t} m_i,  m_i = λ·m_{i−1} + (η_{i−1} − η_i)  annealing area, m_0 = 0
          = Σ_{i≤t} Σ_{k≤i} (η_{k−1} − η_k)·λ^{i−k}

Summed over i first, the double sum is one first-order recurrence of the drop since η_0::

    S2(t) = Σ_{k≤t} (η_0 − η_k)·λ^{t−k} = λ·S2(t−1) + (η_0 − η_t)

Nothing is divided by 1 − λ, and for rates that stay below η_0 nothing cancels.

JAX arrays are summed on their device, by :func:`~jaxlaw._decayed_sum.decayed_sum`; everything
else on the host, by numpy's cumsum and scipy's lfilter. This module is the definition of S1 and S2
for all of jaxlaw. Only :mod:`jaxlaw.planning` has formulas of its own, for lines and cosines of any
length, which are tested against this one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._arrays import numbers_of
from jaxlaw._decayed_sum import decayed_sum, powers_of
from jaxlaw._jit import compiled
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.laws._base import power
from jaxlaw.schedules import Schedule

# Rates of a host array that are summed at a time: 4 MB. Each rate passes through four or five
# arrays (sums, drops, momentum); in larger blocks these fall out of the cache, in much smaller ones
# the calls themselves take the time.
BLOCK = 2**19


class Areas(NamedTuple):
    """Forward area S1 and annealing area S2, learning rate × steps; arrays of one shape.

    Example:
        >>> jl.areas([1.0, 1.0, 0.5], decay=0.5).S1.tolist()
        [1.0, 2.0, 2.5]
    """

    S1: Any
    S2: Any


class PhaseAreas(NamedTuple):
    """The areas split at the boundary of pre-training (pt) and continued training (cpt).

    During pre-training those of cpt are 0; after it those of pt keep their last value.

    Example:
        >>> jl.data.phase_areas([1.0, 1.0, 0.5, 0.5], 0.999, boundary=2).S1_cpt.tolist()
        [0.0, 0.0, 0.5, 1.0]
    """

    S1_pt: Any
    S1_cpt: Any
    S2_pt: Any
    S2_cpt: Any

    @property
    def whole(self) -> Areas:
        """S1 = S1_pt + S1_cpt and S2 = S2_pt + S2_cpt (Wang 2025, eq. 2)."""
        return Areas(self.S1_pt + self.S1_cpt, self.S2_pt + self.S2_cpt)


@checked
def areas(
    lr: Any,
    decay: Any = 0.999,
    initial_lr: Any = None,
    *,
    at: Any = None,
    boundary: int | None = None,
    carry_momentum: bool = False,
    count_warmup: bool | tuple[bool, bool] = True,
    epsilon: Any = None,
    S1_before: Any = 0.0,
) -> Areas:
    """S1 and S2 after every step of a schedule, or after the steps ``at``.

    Args:
        lr: rates, (steps,) or (schedules, steps); a Schedule, or a list of them of one length;
            or an iterator of consecutive blocks of rates, for schedules too long to hold.
            JAX arrays, traced ones too, give JAX arrays of their dtype, differentiable in lr,
            decay, initial_lr, epsilon and S1_before. Everything else is computed in float64,
            half a million rates at a time, and gives numpy arrays.
        decay: λ in [0, 1]; or (decays,), which puts an axis before those of lr.
        initial_lr: η_0, a number or (schedules,). ``"first"``: the rate of step 1, no jump.
            Left out: a Schedule's own, else 0.
        at: (points,) steps to evaluate after, in any order; 0 is before the first.
        boundary: number of steps of pre-training; S2 is then summed phase by phase, as in
            :func:`phase_areas`. Left out: a Schedule's own, else one phase.
        carry_momentum: whether momentum goes on over the boundary, as if there were none.
        count_warmup: whether rises (negative drops) count up to and with the first step of
            the phase that has its highest rate. Falls always count. A pair is for either phase.
        epsilon: exponent of the rate that weights momentum, S2 = Σ m_i·η_i^ε (Wang 2025, App. J).
        S1_before: sum of the rates before those of ``lr``, a number or (schedules,).

    Returns:
        Areas of shape (…, steps) or (…, points), where … stands for those of the axes
        (decays, schedules) that were given.

    Raises:
        UsageError: λ outside [0, 1], rates that are not finite, or a boundary, step or shape
            that does not fit.

    Example:
        >>> S1, S2 = jl.areas([1.0, 1.0, 0.5, 0.0], decay=0.5, initial_lr=1.0)
        >>> S1.tolist(), S2.tolist()
        ([1.0, 2.0, 2.5, 2.5], [0.0, 0.0, 0.5, 1.25])
        >>> jl.areas(jl.schedules.cosine(3e-4, 1000), at=[500, 1000]).S1.round(4).tolist()
        [0.1227, 0.1498]
    """
    problem = _problem_of(lr, decay, initial_lr, S1_before, epsilon, at, boundary)
    rules = _rules(epsilon, carry_momentum, count_warmup)
    if problem.boundary is None:
        return _each_decay(problem, lambda single: _run(single, rules[0], _start(single))[0])
    return _each_decay(problem, lambda single: _split(single, rules)).whole


@checked
def phase_areas(
    lr: Any,
    decay: Any = 0.999,
    initial_lr: Any = None,
    *,
    at: Any = None,
    boundary: int | None = None,
    carry_momentum: bool = False,
    count_warmup: bool | tuple[bool, bool] = True,
    epsilon: Any = None,
    S1_before: Any = 0.0,
) -> PhaseAreas:
    """The areas of pre-training and of the continued phase, apart (Wang 2025, eq. 2 and 4).

    η_0 of the continued phase is the last rate of pre-training. By default momentum left over
    at the boundary stops there, as where the areas of each phase are computed in advance; with
    ``carry_momentum=True`` its tail counts in S2_cpt, and S2_pt + S2_cpt is the S2 of the same
    rates without a boundary.

    Arguments and errors as :func:`areas`; ``boundary`` is needed unless ``lr`` is a Schedule that
    has one.

    Example:
        >>> parts = jl.data.phase_areas([1.0, 0.5, 0.5], decay=0.5, initial_lr=1.0, boundary=2)
        >>> parts.S1_pt.tolist(), parts.S1_cpt.tolist()
        ([1.0, 1.5, 1.5], [0.0, 0.0, 0.5])
    """
    problem = _problem_of(lr, decay, initial_lr, S1_before, epsilon, at, boundary)
    if problem.boundary is None:
        raise UsageError("no boundary to split at; give boundary=, or a Schedule made by join()")
    rules = _rules(epsilon, carry_momentum, count_warmup)
    return _each_decay(problem, lambda single: _split(single, rules))


def _rules(
    epsilon: Any, carry_momentum: bool, count_warmup: bool | tuple[bool, bool]
) -> list[_Rule]:
    """The definition of S2 for the first phase and for the second."""
    each = count_warmup if isinstance(count_warmup, tuple) else (count_warmup, count_warmup)
    return [_Rule(epsilon is not None, carry_momentum, warmup) for warmup in each]


def _problem_of(
    lr: Any,
    decay: Any,
    initial_lr: Any,
    S1_before: Any,
    epsilon: Any,
    at: Any,
    boundary: int | None,
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
    initial_lr = _initial(initial_lr, begin, own_initial)
    for name, value in (("initial_lr", initial_lr), ("S1_before", S1_before)):
        value = _numbers(name, value)
        if not (isinstance(value, jax.Array) or ((value >= 0) & (value < np.inf)).all()):
            raise UsageError(f"{name} is {value}; it must be finite and not negative")
    if epsilon is not None:
        epsilon = _numbers("epsilon", epsilon)
        if epsilon.ndim or not (isinstance(epsilon, jax.Array) or np.isfinite(epsilon)):
            raise UsageError(f"epsilon is one finite number, not {epsilon}")
    numbers = (rates, decay, initial_lr, S1_before, epsilon)
    on_device = any(isinstance(number, jax.Array) for number in numbers)
    lead = begin.shape[:-1]
    problem = _Problem(
        rates, initial_lr, S1_before, epsilon, _decay(decay), at, boundary, on_device, lead
    )
    if boundary is not None and not 0 < boundary < problem.steps:
        last = problem.steps - 1
        raise UsageError(f"boundary={boundary} must leave steps on both sides: from 1 to {last}")
    return problem._replace(at=_points(at, problem.steps))


def _initial(given: Any, begin: Any, own: Any) -> Any:
    """The rate before the first step: given, the first one's, or that of the schedule."""
    if isinstance(given, str):
        if given != "first":
            raise UsageError(f"initial_lr must be a number or 'first', not {given!r}")
        return begin[..., 0]
    return own if given is None else given


def _read(lr: Any) -> tuple[Any, Any, int | None]:
    """Rates, and η_0 and boundary where a Schedule says them."""
    if isinstance(lr, Schedule):
        return lr.rates, lr.initial_lr, lr.boundary
    if isinstance(lr, list | tuple) and {type(one) for one in lr} == {Schedule}:
        return _read_several(lr)
    if isinstance(lr, Iterator):
        return (_numbers("lr", block) for block in lr), 0.0, None
    return _numbers("lr", lr), 0.0, None


def _read_several(lr: Sequence[Schedule]) -> tuple[np.ndarray, np.ndarray, int | None]:
    if len({(len(schedule), schedule.boundary) for schedule in lr}) > 1:
        raise UsageError(
            "schedules of one call must have the same length and boundary; call areas() for "
            "each of them, or for each group that has"
        )
    initial = np.array([schedule.initial_lr for schedule in lr])
    return np.stack([schedule.rates for schedule in lr]), initial, lr[0].boundary


def _numbers(name: str, values: Any) -> Any:
    """An array of float64; JAX's own arrays, traced ones too, as they are."""
    if isinstance(values, jax.Array):
        return values
    return numbers_of(name, values)


def _decay(decay: Any) -> Any:
    if isinstance(decay, jax.core.Tracer):
        return decay
    values = _numbers("decay", decay) if not isinstance(decay, jax.Array) else np.asarray(decay)
    if values.ndim > 1 or not values.size or not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"decay is λ in [0, 1], a number or (decays,), not {decay}")
    return values


def _points(at: Any, steps: int | None) -> np.ndarray | None:
    if at is None:
        return None
    points = np.asarray(_numbers("at", at))
    if points.ndim != 1 or not len(points) or not (points == np.floor(points)).all():
        raise UsageError(f"at must be whole numbers of steps, (points,), not {at!r}")
    last = np.inf if steps is None else steps
    if points.min() < 0 or points.max() > last:
        raise UsageError(f"at has {points.min()} to {points.max()}; the steps are 0 to {last}")
    return points.astype(int)


def _each_decay(problem: _Problem, run: Callable[[_Problem], Any]) -> Any:
    """The result of ``run`` for one λ; for (decays,) with their axis first."""
    if problem.decay.ndim == 0:
        return run(problem)
    if isinstance(problem.decay, jax.Array):
        return jax.vmap(lambda decay: run(problem._replace(decay=decay)))(problem.decay)
    if problem.steps is None:
        raise UsageError("blocks of rates pass once, so take one decay, not several")
    results = [run(problem._replace(decay=decay)) for decay in problem.decay]
    stack = jnp.stack if problem.on_device else np.stack
    return jax.tree.map(lambda *each: stack(each), *results)


def _start(problem: _Problem) -> tuple[Any, ...]:
    return problem.S1_before, 0.0, 0.0, problem.initial_lr


def _split(problem: _Problem, rules: list[_Rule]) -> PhaseAreas:
    """The two phases one after the other.

    η_0 of the second is the last rate of the first. Both areas of the second start from 0, and so
    does its momentum, unless it is carried over: then it enters the second phase as its state.
    """
    rates, at, boundary = problem.rates, problem.at, problem.boundary
    early, late = (None, None) if at is None else (at.clip(max=boundary), (at - boundary).clip(0))
    first = problem._replace(rates=rates[..., :boundary], at=early)
    pt, momentum = _run(first, rules[0], _start(first))
    tail = momentum if rules[1].carry_momentum else 0.0
    second = problem._replace(rates=rates[..., boundary:], at=late)
    cpt, _ = _run(second, rules[1], (0.0, 0.0, tail, rates[..., boundary - 1]))
    if at is None:
        xp = jnp if problem.on_device else np
        none = xp.zeros_like(pt.S1)
        last = (xp.broadcast_to(area[..., -1:], cpt.S1.shape) for area in pt)
        pt = Areas(*(xp.concatenate(both, axis=-1) for both in zip(pt, last, strict=True)))
        cpt = Areas(*(xp.concatenate([none, area], axis=-1) for area in cpt))
    return PhaseAreas(pt.S1, cpt.S1, pt.S2, cpt.S2)


class _Rule(NamedTuple):
    """Which definition of S2 is meant; see :func:`areas`."""

    weighted: bool
    carry_momentum: bool
    count_warmup: bool

    @property
    def plain(self) -> bool:
        """Whether S2 is one recurrence of the drop since η_0; otherwise momentum is needed."""
        return self.count_warmup and not (self.weighted or self.carry_momentum)


class _Problem(NamedTuple):
    """The rates of one phase or both, and the options."""

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
        """Number of steps; None where the rates come in blocks."""
        return None if isinstance(self.rates, Iterator) else self.rates.shape[-1]


def _run(problem: _Problem, rule: _Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    """Areas of one phase from a state, and, where the rule needs it, its final momentum.

    A state is what one step passes to the next: S1, S2, momentum and the reference rate. The
    reference is η_0 where S2 comes from the drop since then (``rule.plain``), else the rate of the
    last step.
    """
    return (_areas_on_device if problem.on_device else _areas_on_host)(problem, rule, state)


def _areas_on_device(problem: _Problem, rule: _Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    rates = jnp.asarray(problem.rates)
    rates = rates.astype(jnp.promote_types(rates.dtype, jnp.float32))
    state = jnp.stack([jnp.broadcast_to(x, problem.lead).astype(rates.dtype) for x in state])
    # Of the dtype of the rates: JAX finds the program of another again, where x64 is on.
    powers = jnp.asarray(powers_of(problem.decay, problem.steps), rates.dtype)
    epsilon = None if problem.epsilon is None else jnp.asarray(problem.epsilon, rates.dtype)
    # Step 0, before the first rate, is the state itself; it is put in place of step 1 afterwards.
    at = None if problem.at is None else np.maximum(problem.at, 1).astype(np.int32)
    result, momentum = _advance(state, rates, powers, at, epsilon, rule)
    if at is not None:
        both = zip(state[:2, ..., None], result, strict=True)
        result = Areas(*(jnp.where(problem.at == 0, *pair) for pair in both))
    return result, momentum


@compiled(static_argnames="rule")
def _advance(
    state: Any, rates: Any, powers: Any, at: Any, epsilon: Any, rule: _Rule
) -> tuple[Areas, Any]:
    """Areas after steps ``at`` (points,), or after each rate (..., steps); the final momentum.

    ``state`` is (4, ...); see :func:`_run`.
    """
    S1, S2, momentum, reference = state
    ones = powers_of(1.0, rates.shape[-1])
    forward = decayed_sum(rates, ones, S1, at)
    if rule.plain:
        return Areas(forward, decayed_sum(reference[..., None] - rates, powers, S2, at)), momentum
    drops = jnp.concatenate([reference[..., None], rates[..., :-1]], axis=-1) - rates
    if not rule.count_warmup:
        peak = jnp.argmax(rates, axis=-1)[..., None]
        drops = jnp.where((jnp.arange(rates.shape[-1]) <= peak) & (drops < 0), 0, drops)
    momentum = decayed_sum(drops, powers, momentum)
    weighted = momentum * power(rates, epsilon) if rule.weighted else momentum
    return Areas(forward, decayed_sum(weighted, ones, S2, at)), momentum[..., -1]


def _areas_on_host(problem: _Problem, rule: _Rule, state: tuple[Any, ...]) -> tuple[Areas, Any]:
    """As many schedules at a time as fit in a block, each from its first step to its last.

    Short schedules share a block; a long one takes several, and its state passes from one to the
    next. Either way all arrays in between stay as small as a block.
    """
    lead, steps = problem.lead, problem.steps
    count = math.prod(lead)
    group = count if steps is None else max(1, BLOCK // steps)
    shape = (count, steps if problem.at is None else len(problem.at))
    out, states = Areas(np.empty(shape), np.empty(shape)), np.empty((len(state), count))
    names = ("S1_before", "", "", "initial_lr")  # S2 and momentum are not the user's
    for name, row, value in zip(names, states, state, strict=True):
        try:
            row[:] = value
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{name} is a number, or (schedules,): {error}") from None
    momentum = np.empty(count)
    for first in range(0, count, group):
        part = slice(first, first + group)
        blocks = problem.rates if steps is None else [problem.rates.reshape(count, -1)[part]]
        into = Areas(out.S1[part], out.S2[part])
        with np.errstate(invalid="ignore", over="ignore"):  # _sweep refuses them
            momentum[part] = _sweep(into, blocks, states[:, part], problem, rule)
    return Areas(*(area.reshape(*lead, -1) for area in out)), momentum.reshape(lead)


def _sweep(
    out: Areas, blocks: Iterable[np.ndarray], state: np.ndarray, problem: _Problem, rule: _Rule
) -> np.ndarray:
    """Fill ``out`` (schedules, points) from consecutive blocks of rates; the final momentum.

    ``state`` is (4, schedules), as in :func:`_run`, and is updated from block to block.
    """
    at, done, width = problem.at, 0, max(1, BLOCK // len(out.S1))
    S1, S2, momentum, reference = state
    if at is not None:
        out.S1[:, at == 0], out.S2[:, at == 0] = S1[:, None], S2[:, None]
    peak = None if rule.count_warmup else _peak(blocks)
    for rates in _split_blocks(blocks, width):
        here = slice(done, done + rates.shape[1])
        if rates.min() < 0:
            step = done + int(np.argmax((rates < 0).any(axis=0))) + 1
            raise UsageError(f"lr is negative at step {step}; rates must be 0 or more")
        forward = out.S1[:, here] if at is None else np.empty_like(rates)
        np.cumsum(rates, axis=1, out=forward)
        forward += S1[:, None]
        if rule.plain:  # S2(t) = λ·S2(t−1) + (η_0 − η_t)
            annealing = _decayed_sum(reference[:, None] - rates, problem.decay, S2)
        else:  # m_i = λ·m_{i−1} + (η_{i−1} − η_i), S2 = Σ m_i·η_i^ε
            drops = np.concatenate([reference[:, None], rates[:, :-1]], axis=1) - rates
            if peak is not None:
                step = np.arange(done, done + rates.shape[1])
                drops[(step <= peak[:, None]) & (drops < 0)] = 0
            moments = _decayed_sum(drops, problem.decay, momentum)
            weighted = moments * _power(rates, problem.epsilon) if rule.weighted else moments
            annealing = np.cumsum(weighted, axis=1) + S2[:, None]
            momentum, reference = moments[:, -1], rates[:, -1]
        if at is None:
            out.S2[:, here] = annealing
        else:
            wanted = (at > here.start) & (at <= here.stop)
            row = at[wanted] - done - 1
            out.S1[:, wanted], out.S2[:, wanted] = forward[:, row], annealing[:, row]
        S1, S2, done = forward[:, -1], annealing[:, -1], here.stop
    if at is not None and at.max() > done:
        raise UsageError(f"at asks for step {at.max()}, but the rates end with step {done}")
    if not np.isfinite(S1).all():  # a NaN or an infinity anywhere reaches the last sum
        raise UsageError("lr has rates that are not finite; look for NaN or inf in them")
    return momentum


def _decayed_sum(x: np.ndarray, decay: float, before: np.ndarray) -> np.ndarray:
    """The y with y_t = λ·y_{t−1} + x_t along the steps of x (schedules, steps); y_0 = before."""
    from scipy.signal import lfilter  # slow to import, and most of jaxlaw does without

    return lfilter([1.0], [1.0, -float(decay)], x, zi=(decay * before)[:, None])[0]


def _power(rates: np.ndarray, epsilon: Any) -> np.ndarray:
    """η^ε; at a rate of 0 the limits of :func:`jaxlaw.laws.power`."""
    at_zero = 0.0 if epsilon > 0 else 1.0 if epsilon == 0 else 1e30
    return np.where(rates > 0, np.where(rates > 0, rates, 1.0) ** epsilon, at_zero)


def _peak(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """The index of the highest rate of every schedule."""
    if isinstance(blocks, Iterator):
        raise UsageError("count_warmup=False needs the whole schedule, not blocks of it")
    return np.argmax(blocks[0], axis=-1)


def _split_blocks(blocks: Iterable[np.ndarray], width: int) -> Iterator[np.ndarray]:
    """The blocks as (schedules, steps), of at most ``width`` steps each."""
    for block in blocks:
        block = np.atleast_2d(block)
        for first in range(0, block.shape[-1], width):
            yield block[:, first : first + width]
