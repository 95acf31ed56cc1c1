"""The two areas of a learning-rate schedule, S1 and S2 (Tissue 2024; Wang 2025, eq. 1 and 2).

With η_i the rate of step i (from 1) and η_0 the learning rate before step 1::

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
from collections.abc import Callable
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
from jaxlaw.schedules import Schedule, parse

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
        lr: rates, (steps,) or (schedules, steps); a Schedule or its spec string
            (:func:`jaxlaw.schedules.parse`), or a list of Schedules of one length.
            JAX arrays, traced ones too, give JAX arrays of their dtype, differentiable in lr,
            decay, initial_lr, epsilon and S1_before. Everything else is computed in float64,
            half a million rates at a time, and gives numpy arrays.
        decay: λ in [0, 1].
        initial_lr: η_0, a number or (schedules,). ``"first"``: that of step 1, no jump.
            Left out: a Schedule's own, else 0.
        at: (points,) steps to evaluate after, in any order; 0 is before the first.
        boundary: number of steps of pre-training; S2 is then summed phase by phase, as in
            :func:`phase_areas`. Left out: a Schedule's own, else one phase.
        carry_momentum: whether momentum goes on over the boundary, as if there were none.
        count_warmup: whether rises (negative drops) count up to and with the first step of
            the phase that has its highest rate. Falls always count. A pair is for either phase.
        epsilon: exponent of the learning rate that weights momentum, S2 = Σ m_i·η_i^ε
            (Wang 2025, App. J).
        S1_before: sum of the learning rates before those of ``lr``, a number or (schedules,).

    Returns:
        Areas of shape (…, steps) or (…, points), where … stands for the axis of schedules, if any.

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
    problem = _problem_of(
        lr, decay, initial_lr, S1_before, epsilon, at, boundary, carry_momentum, count_warmup
    )
    return _run(problem, 0, problem.start)[0] if problem.boundary is None else _split(problem).whole


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
    problem = _problem_of(
        lr, decay, initial_lr, S1_before, epsilon, at, boundary, carry_momentum, count_warmup
    )
    if problem.boundary is None:
        raise UsageError("no boundary to split at; give boundary=, or a Schedule made by join()")
    return _split(problem)


class _Problem(NamedTuple):
    """The rates of one phase or both, and the options."""

    rates: Any  # (..., steps)
    initial_lr: Any
    S1_before: Any
    epsilon: Any
    decay: Any
    at: np.ndarray | None
    boundary: int | None
    carry_momentum: bool
    count_warmup: tuple[bool, bool]  # in either phase
    on_device: bool  # JAX arrays in, JAX arrays out

    @property
    def start(self) -> tuple[Any, ...]:
        """What one step passes to the next, before the first: S1, S2, momentum, reference rate."""
        return self.S1_before, 0.0, 0.0, self.initial_lr


def _problem_of(
    lr, decay, initial_lr, S1_before, epsilon, at,
    boundary: int | None, carry_momentum: bool, count_warmup: bool | tuple[bool, bool],
) -> _Problem:  # fmt: skip
    """The checked arguments of :func:`areas`."""
    own_initial = 0.0
    lr = parse(lr) if isinstance(lr, str) else lr
    if isinstance(lr, Schedule):
        rates, own_initial, own_boundary = lr.rates, lr.initial_lr, lr.boundary
    elif isinstance(lr, list | tuple) and {type(one) for one in lr} == {Schedule}:
        if len({(len(schedule), schedule.boundary) for schedule in lr}) > 1:
            raise UsageError(
                "schedules of one call must have the same length and boundary; call areas() for "
                "each of them, or for each group that has"
            )
        rates, own_boundary = np.stack([schedule.rates for schedule in lr]), lr[0].boundary
        own_initial = np.array([schedule.initial_lr for schedule in lr])
    else:
        rates, own_boundary = _numbers("lr", lr), None
    boundary = own_boundary if boundary is None else boundary
    if rates.ndim not in (1, 2) or 0 in rates.shape:
        raise UsageError(f"lr has shape {rates.shape}; it must be (steps,) or (schedules, steps)")
    if isinstance(initial_lr, str):
        if initial_lr != "first":
            raise UsageError(f"initial_lr must be a number or 'first', not {initial_lr!r}")
        initial_lr = rates[..., 0]
    initial_lr = own_initial if initial_lr is None else initial_lr
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
    known = _numbers("decay", decay)
    if known.ndim or not (isinstance(known, jax.core.Tracer) or 0 <= known <= 1):
        raise UsageError(f"decay is λ in [0, 1], one number, not {decay}")
    steps = rates.shape[-1]
    if boundary is not None and not 0 < boundary < steps:
        raise UsageError(
            f"boundary={boundary} must leave steps on both sides: from 1 to {steps - 1}"
        )
    if at is not None:
        if isinstance(at, jax.core.Tracer):
            raise UsageError("at is traced by JAX: pass steps that are known (a static argument)")
        points = np.asarray(_numbers("at", at))
        if points.ndim != 1 or not len(points) or not (points == np.floor(points)).all():
            raise UsageError(f"at must be integer steps, (points,), not {at!r}")
        if points.min() < 0 or points.max() > steps:
            raise UsageError(f"at has {points.min()} to {points.max()}; the steps are 0 to {steps}")
        at = points.astype(int)
    warmup = count_warmup if isinstance(count_warmup, tuple) else (count_warmup, count_warmup)
    return _Problem(
        rates, initial_lr, S1_before, epsilon, known, at, boundary, carry_momentum, warmup,
        on_device,
    )  # fmt: skip


def _numbers(name: str, values):
    """An array of float64; JAX's own arrays, traced ones too, as they are."""
    return values if isinstance(values, jax.Array) else numbers_of(name, values)


def _split(problem: _Problem) -> PhaseAreas:
    """The two phases one after the other.

    η_0 of the second is the last rate of the first. Both areas of the second start from 0, and so
    does its momentum, unless it is carried over: then it enters the second phase as its state.
    """
    rates, at, boundary = problem.rates, problem.at, problem.boundary
    early, late = (None, None) if at is None else (at.clip(max=boundary), (at - boundary).clip(0))
    pt, momentum = _run(problem._replace(rates=rates[..., :boundary], at=early), 0, problem.start)
    tail = momentum if problem.carry_momentum else 0.0
    second = problem._replace(rates=rates[..., boundary:], at=late)
    cpt, _ = _run(second, 1, (0.0, 0.0, tail, rates[..., boundary - 1]))
    if at is None:
        xp = jnp if problem.on_device else np
        none = xp.zeros_like(pt.S1)
        last = (xp.broadcast_to(area[..., -1:], cpt.S1.shape) for area in pt)
        pt = Areas(*(xp.concatenate(both, axis=-1) for both in zip(pt, last, strict=True)))
        cpt = Areas(*(xp.concatenate([none, area], axis=-1) for area in cpt))
    return PhaseAreas(pt.S1, cpt.S1, pt.S2, cpt.S2)


def _run(problem: _Problem, phase: int, state: tuple) -> tuple[Areas, Any]:
    """Areas of one phase from a state, and, where it is needed, its final momentum.

    The reference rate of the state is η_0 where S2 comes from the drop since then, else the rate
    of the last step.
    """
    warmup = problem.count_warmup[phase]
    # Whether S2 is one recurrence of the drop since η_0; otherwise momentum is needed.
    plain = warmup and problem.epsilon is None and not problem.carry_momentum
    along = _areas_on_device if problem.on_device else _areas_on_host
    return along(problem, state, plain, warmup)


def _areas_after(
    xp, summed: Callable, rates, state, plain: bool, uncounted,
    weights,
):  # fmt: skip
    """S1, S2 and momentum after each rate; of numpy or jax.numpy.

    Args:
        xp: that module.
        summed: (x, whether it decays, what is before) → y_t = λ·y_{t−1} + x_t, or the plain sum;
            ``every=True`` for all steps, where only some are wanted.
        rates: (..., steps).
        state: S1, S2, momentum and reference rate before; see :func:`_run`.
        plain: whether S2 is one recurrence of the drop since the reference.
        uncounted: (..., steps) whether a rise is left out; None: none is.
        weights: (..., steps) η^ε, or None.
    """
    S1, S2, momentum, reference = state
    forward = summed(rates, False, S1)
    if plain:  # S2(t) = λ·S2(t−1) + (η_0 − η_t)
        return forward, summed(reference[..., None] - rates, True, S2), momentum[..., None]
    # m_i = λ·m_{i−1} + (η_{i−1} − η_i), S2 = Σ m_i·η_i^ε
    drops = xp.concatenate([reference[..., None], rates[..., :-1]], axis=-1) - rates
    if uncounted is not None:
        drops = xp.where(uncounted & (drops < 0), 0, drops)
    moments = summed(drops, True, momentum, every=True)
    return forward, summed(moments if weights is None else moments * weights, False, S2), moments


def _areas_on_device(
    problem: _Problem, state: tuple, plain: bool, warmup: bool
) -> tuple[Areas, Any]:
    rates = jnp.asarray(problem.rates)
    rates = rates.astype(jnp.promote_types(rates.dtype, jnp.float32))
    state = jnp.stack([jnp.broadcast_to(x, rates.shape[:-1]).astype(rates.dtype) for x in state])
    # Of the dtype of the rates: JAX finds the program of another again, where x64 is on.
    powers = jnp.asarray(powers_of(problem.decay, rates.shape[-1]), rates.dtype)
    epsilon = None if problem.epsilon is None else jnp.asarray(problem.epsilon, rates.dtype)
    # Step 0, before the first rate, is the state itself; it is put in place of step 1 afterwards.
    at = None if problem.at is None else np.maximum(problem.at, 1).astype(np.int32)
    result, momentum = _advance(state, rates, powers, at, epsilon, plain, warmup)
    if at is not None:
        both = zip(state[:2, ..., None], result, strict=True)
        result = Areas(*(jnp.where(problem.at == 0, *pair) for pair in both))
    return result, momentum


@compiled(static_argnames=("plain", "warmup"))
def _advance(state, rates, powers, at, epsilon, plain: bool, warmup: bool) -> tuple[Areas, Any]:
    """Areas after steps ``at`` (points,), or after each rate (..., steps); the final momentum."""
    steps = rates.shape[-1]
    ones = powers_of(1.0, steps)

    def summed(x, decays, before, every=False):
        return decayed_sum(x, powers if decays else ones, before, None if every else at)

    uncounted = None if warmup else jnp.arange(steps) <= jnp.argmax(rates, axis=-1)[..., None]
    weights = None if epsilon is None else power(rates, epsilon)
    *result, moments = _areas_after(jnp, summed, rates, state, plain, uncounted, weights)
    return Areas(*result), moments[..., -1]


def _areas_on_host(problem: _Problem, state: tuple, plain: bool, warmup: bool) -> tuple[Areas, Any]:
    """As many schedules at a time as fit in a block, each from its first step to its last.

    Short schedules share a block; a long one takes several, and its state passes from one to the
    next. Either way all arrays in between stay as small as a block.
    """
    from scipy.signal import lfilter  # slow to import, and most of jaxlaw does without

    *lead, steps = problem.rates.shape
    rates, at, decay = problem.rates.reshape(-1, steps), problem.at, float(problem.decay)
    out = np.empty((2, len(rates), steps if at is None else len(at)))
    states = np.empty((4, len(rates)))
    names = ("S1_before", "", "", "initial_lr")  # S2 and momentum are not the user's
    for name, row, value in zip(names, states, state, strict=True):
        try:
            row[:] = value
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{name} is a number, or (schedules,): {error}") from None
    if at is not None:
        out[..., at == 0] = states[:2, :, None]
    peak = None if warmup else np.argmax(rates, axis=-1)[:, None]

    def summed(x, decays, before, every=False):
        if decays:
            return lfilter([1.0], [1.0, -decay], x, zi=(decay * before)[:, None])[0]
        y = np.cumsum(x, axis=1)
        y += before[:, None]
        return y

    group = min(max(1, BLOCK // steps), len(rates))
    width = max(1, BLOCK // group)
    for first, done in itertools.product(range(0, len(rates), group), range(0, steps, width)):
        part = slice(first, first + group)
        block, own = rates[part, done : done + width], states[:, part]
        until = done + block.shape[1]
        if block.min() < 0:
            step = done + int(np.argmax((block < 0).any(axis=0))) + 1
            raise UsageError(f"lr is negative at step {step}; learning rates must be 0 or more")
        uncounted = None if peak is None else np.arange(done, until) <= peak[part]
        weights = None if problem.epsilon is None else _power(block, problem.epsilon)
        with np.errstate(invalid="ignore", over="ignore"):  # refused below
            *result, moments = _areas_after(np, summed, block, own, plain, uncounted, weights)
        for area, values in zip(out, result, strict=True):
            if at is None:
                area[part, done:until] = values
            else:
                wanted = (at > done) & (at <= until)
                area[part, wanted] = values[:, at[wanted] - done - 1]
        own[:3] = result[0][:, -1], result[1][:, -1], moments[:, -1]
        if not plain:
            own[3] = block[:, -1]
    if not np.isfinite(states[0]).all():  # a NaN or an infinity anywhere reaches the last sum
        raise UsageError("lr has learning rates that are not finite (NaN or inf)")
    S1, S2 = out.reshape(2, *lead, -1)
    return Areas(S1, S2), states[2].reshape(lead)


def _power(rates: np.ndarray, epsilon) -> np.ndarray:
    """η^ε; at a rate of 0 the limits of :func:`jaxlaw.laws.power`."""
    at_zero = 0.0 if epsilon > 0 else 1.0 if epsilon == 0 else 1e30
    return np.where(rates > 0, np.where(rates > 0, rates, 1.0) ** epsilon, at_zero)
