"""Learning rates per step, as plain arrays, and small functions that compose them.

What a step is, everywhere in jaxlaw:

- steps count updates, from 1; ``rates[i]`` is the rate that update i + 1 uses;
- η_0 (``initial_lr``) is the learning rate before step 1: the formula's value at t = 0.
  A cosine starts from its peak, a warm-up from 0, so neither begins with a jump;
- step t has the formula's rate at t: step 1 is one step under way, and the final rate is
  reached at the last step;
- :func:`warmup` and :func:`join` put steps before and after others: lengths add up. A run of
  24,000 steps, 2,000 of them warm-up, is ``warmup(cosine(3e-4, 22_000), 2_000)``.

Schedules are made on the host. Inside ``jit`` and ``grad``, give :func:`jaxlaw.areas` traced rates,
such as ``peak * cosine(1.0, 22_000).rates``.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import jax
import numpy as np

from jaxlaw._arrays import numbers_of
from jaxlaw._jit import in_float64
from jaxlaw._repr import short_repr
from jaxlaw._spec_strings import parse_spec
from jaxlaw._typed import StepCount, checked
from jaxlaw.errors import UsageError, nearest

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "from_optax",
    "inverse_sqrt",
    "join",
    "linear",
    "parse",
    "two_stage",
    "warmup",
    "wsd",
]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The learning rates of a run; ``len``, indexing and numpy see the rates.

    Attributes:
        rates: (steps,) float64, the learning rate of each update; read-only.
        initial_lr: η_0, the learning rate before step 1.
        boundary: number of steps of the pre-training phase, or None where there is one phase.
        name: name for legends.

    Raises:
        UsageError: no steps, or rates that are negative or not finite.

    Example:
        >>> schedule = jl.Schedule([1e-3, 5e-4], initial_lr=1e-3)
        >>> len(schedule), schedule.boundary
        (2, None)
    """

    rates: np.ndarray
    initial_lr: float
    boundary: int | None = None
    name: str = "schedule"

    __repr__ = short_repr

    def __post_init__(self) -> None:
        rates = numbers_of(f"{self.name}: rates", self.rates).copy()
        if rates.ndim != 1 or not len(rates):
            raise UsageError(
                f"{self.name}: rates must be (steps,) with steps ≥ 1, not {rates.shape}"
            )
        bad = ~(np.isfinite(rates) & (rates >= 0))
        if bad.any():
            step = int(np.argmax(bad)) + 1
            raise UsageError(
                f"{self.name}: the rate of step {step} is {rates[step - 1]}; rates must be finite "
                "and not negative"
            )
        if not (math.isfinite(self.initial_lr) and self.initial_lr >= 0):
            raise UsageError(
                f"{self.name}: initial_lr is {self.initial_lr}; it must be finite and not negative"
            )
        if self.boundary is not None and not 0 < self.boundary < len(rates):
            raise UsageError(
                f"{self.name}: boundary={self.boundary} must leave steps on both sides, "
                f"1 to {len(rates) - 1}"
            )
        rates.flags.writeable = False
        object.__setattr__(self, "rates", rates)

    def __len__(self) -> int:
        return len(self.rates)

    def __getitem__(self, index: Any) -> Any:
        return self.rates[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.rates, dtype, copy=copy)


# ---------------------------------------------------------------- shapes


@checked
def constant(lr: float, steps: StepCount) -> Schedule:
    """A constant learning rate.

    Example:
        >>> jl.schedules.constant(3e-4, 4).rates.tolist()
        [0.0003, 0.0003, 0.0003, 0.0003]
    """
    return _schedule("constant", lambda t: np.full(t.shape, float(lr)), steps)


@checked
def linear(peak: float, steps: StepCount, final: float = 0.0) -> Schedule:
    """A straight line from ``peak`` to ``final``.

    Example:
        >>> jl.schedules.linear(1.0, 4).rates.tolist()
        [0.75, 0.5, 0.25, 0.0]
    """
    return _schedule("linear", lambda t: peak + (final - peak) * (t / steps), steps)


@checked
def cosine(peak: float, steps: StepCount, final: float = 0.0) -> Schedule:
    """Half a cosine from ``peak`` to ``final``.

    Example:
        >>> jl.schedules.cosine(1.0, 4, 0.2).rates.round(3).tolist()
        [0.883, 0.6, 0.317, 0.2]
    """

    def curve(t):
        return final + (peak - final) * (0.5 + 0.5 * np.cos(np.pi * t / steps))

    return _schedule("cosine", curve, steps)


@checked
def inverse_sqrt(peak: float, steps: StepCount, offset: float) -> Schedule:
    """peak·√(offset / (offset + t)); after a warm-up, its steps are the usual offset.

    Example:
        >>> jl.schedules.inverse_sqrt(1.0, 3, offset=1).rates.round(3).tolist()
        [0.707, 0.577, 0.5]
    """
    if not 0 < offset < math.inf:
        raise UsageError(f"offset is {offset}; it must be above 0, such as the warm-up's steps")
    return _schedule("inverse_sqrt", lambda t: peak * np.sqrt(offset / (offset + t)), steps)


@checked
def two_stage(first: float, second: float, steps: StepCount, switch: int) -> Schedule:
    """Learning rate ``first`` up to step ``switch``, ``second`` after it.

    Args:
        first: learning rate of the steps up to ``switch``.
        second: learning rate of the steps after it.
        steps: number of steps of both stages, without a warm-up, which :func:`warmup` adds.
        switch: last step of the first stage, counted as ``steps`` are: after a warm-up. In a
            line, ``steps=`` includes the warm-up and ``switch=`` does not (:func:`parse`).

    Example:
        >>> jl.schedules.two_stage(3e-4, 9e-5, 3, switch=2).rates.tolist()
        [0.0003, 0.0003, 9e-05]
    """
    _check_within("switch", switch, steps)
    return _schedule("two_stage", lambda t: np.where(t <= switch, first, second), steps)


Decay = Literal["linear", "exponential", "1-sqrt"]


@checked
def wsd(
    peak: float,
    steps: StepCount,
    decay: float = 0.2,
    final: float = 0.0,
    shape: Decay = "linear",
    decay_steps: int | None = None,
) -> Schedule:
    """Stable at ``peak``, then a decay to ``final`` (warm-up, stable, decay without the first).

    Args:
        peak: learning rate of the stable part.
        steps: number of steps, stable and decaying.
        decay: fraction of the steps that decays, in [0, 1].
        final: learning rate of the last step; above 0 for an exponential decay.
        shape: shape of the decay, with x from 0 to 1: ``linear``; ``exponential``,
            peak·(final/peak)^x; ``1-sqrt``, final + (peak − final)·(1 − √x).
        decay_steps: number of steps that decay, instead of ``decay``.

    Example:
        >>> jl.schedules.wsd(1.0, 5, decay=0.4).rates.tolist()
        [1.0, 1.0, 1.0, 0.5, 0.0]
    """
    if not 0 <= decay <= 1:
        raise UsageError(
            f"decay is a fraction of the steps, in [0, 1], not {decay}; for a number of steps use "
            "decay_steps"
        )
    if shape not in _DECAYS:
        raise UsageError(f"no decay {shape!r}; use {', '.join(_DECAYS)}.{nearest(shape, _DECAYS)}")
    if shape == "exponential" and not (final > 0 and peak > 0):
        raise UsageError("an exponential decay needs final > 0, such as peak / 10")
    count = round(decay * steps) if decay_steps is None else decay_steps
    _check_within("decay_steps", count, steps)

    def curve(t):
        return _DECAYS[shape](peak, final, np.clip((t - (steps - count)) / max(count, 1), 0, 1))

    return _schedule("wsd", curve, steps)


_DECAYS: dict[str, Callable[[float, float, np.ndarray], np.ndarray]] = {
    "linear": lambda peak, final, x: peak + (final - peak) * x,
    "exponential": lambda peak, final, x: peak * (final / peak) ** x,
    "1-sqrt": lambda peak, final, x: final + (peak - final) * (1 - np.sqrt(x)),
}


# ---------------------------------------------------------------- composition


@checked
def warmup(schedule: Schedule, steps: StepCount, start: float = 0.0) -> Schedule:
    """``steps`` steps more, before a schedule: a straight line from ``start`` up to its η_0.

    A re-warm-up is the same: the second schedule of :func:`join`, warmed up from 0 or from the
    base model's last rate.

    Example:
        >>> jl.schedules.warmup(jl.schedules.constant(1.0, 2), 2).rates.tolist()
        [0.5, 1.0, 1.0, 1.0]
    """
    if schedule.boundary is not None:
        raise UsageError("warm up the phase, then join: join(first, warmup(second, …))")
    rates = np.concatenate([linear(start, steps, schedule.initial_lr).rates, schedule.rates])
    return Schedule(rates, start, None, f"warmup+{schedule.name}")


@checked
def join(pretraining: Schedule, continued: Schedule) -> Schedule:
    """Pre-training, then a continued phase: the boundary is recorded.

    The rate before the continued phase is the last of pre-training, whatever its own η_0.

    Example:
        >>> shapes = jl.schedules
        >>> both = shapes.join(shapes.constant(1.0, 3), shapes.linear(1.0, 2))
        >>> len(both), both.boundary
        (5, 3)
    """
    if pretraining.boundary is not None or continued.boundary is not None:
        raise UsageError("a schedule has two phases at most; these have a boundary already")
    rates = np.concatenate([pretraining.rates, continued.rates])
    name = f"{pretraining.name}, {continued.name}"
    return Schedule(rates, pretraining.initial_lr, len(pretraining), name)


# ---------------------------------------------------------------- schedules from elsewhere


@checked
def from_optax(schedule: Callable[[Any], Any], steps: StepCount, count: int = 0) -> Schedule:
    """The learning rates of ``steps`` updates by an optax schedule (a function of optax's count).

    Args:
        schedule: function of optax's count.
        steps: number of updates.
        count: optax's count at step 1. In an optimizer it is 0, so the first update uses
            ``schedule(0)``, and ``optax.cosine_decay_schedule(peak, steps)`` ends one step
            short of its final rate. With 1 it ends there, like the schedules of this module.

    Returns:
        :class:`Schedule`; its η_0 is the rate one count earlier, at count 0 that of step 1 (no
        jump).

    Example:
        >>> jl.schedules.from_optax(lambda count: 1.0 / (1 + count), 4).rates.round(3).tolist()
        [1.0, 0.5, 0.333, 0.25]
    """
    counts = np.arange(count - 1, count + steps).clip(0)
    try:
        with in_float64():
            rates = np.asarray(jax.vmap(schedule)(counts), float)
    except jax.errors.ConcretizationTypeError:  # a Python function with branches
        rates = np.array([float(schedule(int(step))) for step in counts])
    except Exception as error:  # the user's own function
        raise UsageError(f"schedule(count) does not give a learning rate: {error}") from error
    return Schedule(rates[1:], float(rates[0]), None, getattr(schedule, "__name__", "optax"))


@checked
def parse(text: str) -> Schedule:
    """A schedule in one line, for the shell: ``wsd:peak=2e-4,steps=50000,decay=0.2``.

    A name of this module, a colon, and the arguments of that function. ``warmup=2000`` counts
    among the steps: the first 2,000 of them rise to where the rest begins, from ``start``
    (0 if left out); ``decay``, ``decay_steps`` and ``switch`` are about the rest: a run of 8,000
    steps, 2,000 of them warm-up, that changes its rate after step 5,000 of the run is
    ``two_stage:first=3e-4,second=9e-5,steps=8000,switch=3000,warmup=2000``. ``+`` joins
    pre-training and a continued phase:
    ``cosine:peak=3e-4,steps=9000+linear:peak=1e-4,steps=1000,warmup=100``.

    Raises:
        UsageError: an unknown name, an argument that is missing, unknown or no number, or
            what the function itself refuses.

    Example:
        >>> line = jl.schedules.parse("wsd:peak=1,steps=6,decay=0.4,warmup=1+constant:lr=0.1,steps=2")
        >>> line.rates.tolist(), line.boundary
        ([1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.1, 0.1], 6)
    """  # noqa: E501
    # A plus sign inside a number, 1e+4, is followed by a digit; a phase begins with a letter.
    phases = [_parse_phase(phase) for phase in re.split(r"\+(?=\s*[A-Za-z_])", text)]
    return reduce(join, phases)


_NAMED: dict[str, Callable[..., Schedule]] = {
    shape.__name__: shape for shape in (constant, linear, cosine, inverse_sqrt, two_stage, wsd)
}


def _parse_phase(text: str) -> Schedule:
    name, positional, named = parse_spec(text)
    if name not in _NAMED:
        raise UsageError(
            f"no schedule {name!r}; there are {', '.join(_NAMED)}.{nearest(name, _NAMED)}"
        )
    parameters = inspect.signature(_NAMED[name]).parameters
    accepted = [*parameters, "warmup", "start"]
    for part in [*positional, *(f"{key}={named[key]}" for key in named if key not in accepted)]:
        raise UsageError(
            f"{name} takes {', '.join(accepted)}, as name=value; not {part!r}."
            f"{nearest(part.partition('=')[0], accepted)}"
        )
    values = dict(named)
    for key in named.keys() - {"shape"}:
        try:
            values[key] = float(named[key])
        except ValueError:
            raise UsageError(f"{key}={named[key]} is not a number") from None
    rise, start = values.pop("warmup", 0), values.pop("start", 0.0)
    if "steps" in values and rise >= values["steps"]:
        raise UsageError(
            f"warmup={rise:g} leaves none of {values['steps']:g} steps; make it shorter"
        )
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in values]
    if missing:
        raise UsageError(f"{text.strip()!r} lacks an argument: {', '.join(missing)}")
    schedule = _NAMED[name](**{**values, "steps": values["steps"] - rise})
    return warmup(schedule, rise, start) if rise else schedule


def _schedule(name: str, curve: Callable[[np.ndarray], np.ndarray], steps: int) -> Schedule:
    """The schedule of a formula of t: η_0 at 0, the rates at 1 to ``steps``."""
    if steps < 1:
        raise UsageError(f"{name}: steps is {steps}; it must be 1 or more")
    with np.errstate(invalid="ignore"):  # the schedule refuses rates that are not finite
        rates = curve(np.arange(steps + 1.0))
    return Schedule(rates[1:], float(rates[0]), None, name)


def _check_within(name: str, value: int, steps: int) -> None:
    if not 0 <= value <= steps:
        raise UsageError(f"{name} is {value}, but the run has {steps} steps; use 0 to {steps}")
