"""The shapes of schedules by their formulas, and how they compose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from jaxlaw._typed import StepCount, checked
from jaxlaw.errors import UsageError, nearest


@dataclass(frozen=True, eq=False)
class Schedule:
    """Rates of a run.

    Attributes:
        rates: (steps,) float64, the rate each update uses; read-only.
        initial_lr: η_0, the rate before step 1.
        boundary: steps of the pre-training phase, or None where there is one phase.
        name: for legends.

    Raises:
        UsageError: no steps, or rates that are negative or not finite.
    """

    rates: np.ndarray
    initial_lr: float
    boundary: int | None = None
    name: str = "schedule"

    def __post_init__(self) -> None:
        rates = np.array(self.rates, float)
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
        _rate(f"{self.name}: initial_lr", self.initial_lr)
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


@checked
def constant(lr: float, steps: StepCount) -> Schedule:
    """One rate at every step."""
    return _schedule("constant", lambda t: np.full(t.shape, _rate("lr", lr)), steps)


@checked
def linear(peak: float, steps: StepCount, final: float = 0.0) -> Schedule:
    """A straight line from ``peak`` to ``final``."""
    peak, final = _rate("peak", peak), _rate("final", final)
    return _schedule("linear", lambda t: peak + (final - peak) * (t / steps), steps)


@checked
def cosine(peak: float, steps: StepCount, final: float = 0.0) -> Schedule:
    """Half a cosine from ``peak`` to ``final``."""
    peak, final = _rate("peak", peak), _rate("final", final)

    def curve(t: np.ndarray) -> np.ndarray:
        return final + (peak - final) * (0.5 + 0.5 * np.cos(np.pi * t / steps))

    return _schedule("cosine", curve, steps)


@checked
def inverse_sqrt(peak: float, steps: StepCount, offset: float) -> Schedule:
    """peak·√(offset / (offset + t)); after a warm-up, its steps are the usual offset."""
    peak = _rate("peak", peak)
    if not 0 < offset < math.inf:
        raise UsageError(f"offset is {offset}; it must be above 0, such as the warm-up's steps")
    return _schedule("inverse_sqrt", lambda t: peak * np.sqrt(offset / (offset + t)), steps)


@checked
def two_stage(first: float, second: float, steps: StepCount, switch: int) -> Schedule:
    """Rate ``first`` up to step ``switch``, ``second`` after it."""
    first, second = _rate("first", first), _rate("second", second)
    switch = _within("switch", switch, whole_number("steps", steps))
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
        decay: the share of the steps that decays, in [0, 1].
        final: the rate of the last step; an exponential decay needs one above 0.
        shape: of the decay, with x from 0 to 1: ``linear``; ``exponential``,
            peak·(final/peak)^x; ``1-sqrt``, final + (peak − final)·(1 − √x).
        decay_steps: the steps that decay, instead of ``decay``.
    """
    peak, final, steps = _rate("peak", peak), _rate("final", final), whole_number("steps", steps)
    if not 0 <= decay <= 1:
        raise UsageError(f"decay is the share of the steps, in [0, 1], not {decay}; for a number "
                         "of steps use decay_steps")  # fmt: skip
    if shape not in _DECAYS:
        raise UsageError(f"no decay {shape!r}; use {', '.join(_DECAYS)}.{nearest(shape, _DECAYS)}")
    if shape == "exponential" and not (final > 0 and peak > 0):
        raise UsageError("an exponential decay needs a final rate above 0, such as peak / 10")
    count = round(decay * steps) if decay_steps is None else decay_steps
    count = _within("decay_steps", count, steps)

    def curve(t: np.ndarray) -> np.ndarray:
        share = np.clip((t - (steps - count)) / max(count, 1), 0, 1)
        return _DECAYS[shape](peak, final, share)

    return _schedule("wsd", curve, steps)


_DECAYS: dict[str, Callable[[float, float, np.ndarray], np.ndarray]] = {
    "linear": lambda peak, final, x: peak + (final - peak) * x,
    "exponential": lambda peak, final, x: peak * (final / peak) ** x,
    "1-sqrt": lambda peak, final, x: final + (peak - final) * (1 - np.sqrt(x)),
}


@checked
def warmup(schedule: Schedule, steps: StepCount, start: float = 0.0) -> Schedule:
    """``steps`` steps more, before a schedule: a straight line from ``start`` up to its η_0.

    A re-warm-up is the same: the second schedule of :func:`join`, warmed up from 0 or from the
    base model's last rate.
    """
    if schedule.boundary is not None:
        raise UsageError("warm up the phase, then join: join(first, warmup(second, …))")
    rise = linear(_rate("start", start), whole_number("warm-up steps", steps), schedule.initial_lr)
    rates = np.concatenate([rise.rates, schedule.rates])
    return Schedule(rates, start, None, f"warmup+{schedule.name}")


@checked
def join(pretraining: Schedule, continued: Schedule) -> Schedule:
    """Pre-training, then a continued phase: the boundary is recorded.

    The rate before the continued phase is the last of pre-training, whatever its own η_0.
    """
    if pretraining.boundary is not None or continued.boundary is not None:
        raise UsageError("a schedule has two phases at most; these have a boundary already")
    rates = np.concatenate([pretraining.rates, continued.rates])
    name = f"{pretraining.name}, {continued.name}"
    return Schedule(rates, pretraining.initial_lr, len(pretraining), name)


def _schedule(name: str, curve: Callable[[np.ndarray], np.ndarray], steps: int) -> Schedule:
    """The schedule of a formula of t: η_0 at 0, the rates at 1 to ``steps``."""
    rates = curve(np.arange(whole_number("steps", steps) + 1.0))
    return Schedule(rates[1:], float(rates[0]), None, name)


def _rate(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{name} is {value}; a learning rate must be finite and not negative")
    return float(value)


def whole_number(name: str, value: int) -> int:
    """A count of steps, 1 or more, or a complaint that names it."""
    if not (value >= 1 and value == int(value)):
        raise UsageError(f"{name} is {value}; it must be a whole number, 1 or more")
    return int(value)


def _within(name: str, value: int, steps: int) -> int:
    if not (0 <= value <= steps and value == int(value)):
        raise UsageError(f"{name} is {value}, but the run has {steps} steps; use 0 to {steps}")
    return int(value)
