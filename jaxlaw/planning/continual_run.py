"""A continual run by a few numbers, and its areas at the end.

Rates are straight lines and half cosines, so that areas cost the same for any number of steps,
and have derivatives in all of the numbers, the number of steps included (between whole steps they
are what the closed form gives there).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxlaw import schedules
from jaxlaw._areas import PhaseAreas
from jaxlaw._jit import SEARCHED, compiled
from jaxlaw.data._row_areas import (
    UNKNOWN_BASE_RATE,
    areas_along,
    chosen_options,
    of_unknown_base,
)
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._result import Fit
from jaxlaw.planning.pieces import LONG, Counting, Sums, half_cosine, straight
from jaxlaw.schedules import Schedule

#: What a plan may vary.
SETTINGS = ("loss_potential", "peak", "replay", "steps")
Shape = Literal["wsd", "cosine", "linear", "constant"]
_SHAPES = ("wsd", "cosine", "linear", "constant")


@dataclass(frozen=True)
class Pretraining:
    """How the base model was trained, up to how far its rate was annealed.

    Attributes:
        steps: warm-up included.
        peak: the highest rate.
        shape: ``wsd``, ``cosine`` or ``linear`` (to the loss potential), or ``constant``.
        decay: share of the steps after the warm-up that decays (``wsd``).
        warmup: steps of a straight line from 0 to the peak.
    """

    steps: float
    peak: float
    shape: Shape = "wsd"
    decay: float = 0.2
    warmup: float = 0


@dataclass(frozen=True)
class ContinualRun:
    """A continual run: what plans vary, and what they hold.

    Attributes:
        pretraining: of the base model; a Schedule, whose loss potential is what it is; or None
            where nobody tells (laws of an unknown base): the last rate is then taken as 0.
        steps: of the continual phase, warm-up included.
        peak: the highest rate of a re-warm-up; None goes on from the last rate of pre-training.
        loss_potential: last rate of pre-training over its peak, in [0, 1] (Wang 2025, §3.3).
        replay: share of the pre-training corpus in the continual mixture, in [0, 1].
        shape: ``cosine``, ``linear`` or ``wsd`` to ``final``, or ``constant``.
        final: the last rate as a share of the peak.
        decay: share of the steps after the warm-up that decays (``wsd``).
        warmup: steps of a straight line from ``start`` to the peak; none without a re-warm-up.
        start: the rate where the warm-up begins (0, Wang 2025, §4.1).
    """

    pretraining: Pretraining | Schedule | None
    steps: float
    peak: float | None = None
    loss_potential: float = 0.0
    replay: float = 0.0
    shape: Shape = "cosine"
    final: float = 0.0
    decay: float = 0.2
    warmup: float = 0
    start: float = 0.0

    def __post_init__(self) -> None:
        pt = self.pretraining
        if isinstance(pt, Pretraining):
            _check_phase(pt, "pretraining.")
        _check_phase(self, "")
        for name in ("loss_potential", "replay", "final"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise UsageError(f"{name} is {value}; it is a share, in [0, 1]")
        if not (math.isfinite(self.start) and self.start >= 0):
            raise UsageError(f"start is {self.start}; a learning rate is finite, not negative")
        if self.peak is None and pt is None:
            raise UsageError("give peak=: without a pre-training there is no rate to go on from")
        if self.peak is None and self.warmup:
            raise UsageError("a warm-up needs peak=, the rate to which it rises")

    @property
    def settings(self) -> dict[str, float]:
        """Its own values of what plans may vary; the peak is NaN without a re-warm-up."""
        own = {name: getattr(self, name) for name in SETTINGS}
        if isinstance(self.pretraining, Schedule):
            rates = self.pretraining.rates
            own["loss_potential"] = float(rates[-1] / rates.max())
        return {name: math.nan if value is None else float(value) for name, value in own.items()}

    def schedule(self, **settings: float) -> Schedule:
        """Both phases as rates per step (the second alone without a pre-training)."""
        run = dataclasses.replace(self, **settings)
        pt, steps = run.pretraining, _whole(run.steps) - _whole(run.warmup)
        before, last = None, UNKNOWN_BASE_RATE
        if isinstance(pt, Pretraining):
            last = run.loss_potential * pt.peak
            stable = _whole(pt.steps) - _whole(pt.warmup)
            before = _rates(pt.shape, pt.peak, stable, last, pt.decay)
            before = schedules.warmup(before, _whole(pt.warmup)) if pt.warmup else before
        elif pt is not None:
            before, last = pt, float(pt.rates[-1])
        peak = last if run.peak is None else run.peak
        own = _rates(run.shape, peak, steps, run.final * peak, run.decay)
        own = schedules.warmup(own, _whole(run.warmup), run.start) if run.warmup else own
        if before is not None:
            return schedules.join(before, own)
        return of_unknown_base(own)


def _check_phase(phase: Any, word: str) -> None:
    if phase.shape not in _SHAPES:
        hint = nearest(str(phase.shape), _SHAPES)
        raise UsageError(f"{word}shape is {phase.shape!r}; use {', '.join(_SHAPES)}.{hint}")
    if phase.peak is not None and not (math.isfinite(phase.peak) and phase.peak > 0):
        raise UsageError(f"{word}peak is {phase.peak}; it must be a rate above 0")
    if not 0 < phase.decay <= 1:
        raise UsageError(f"{word}decay is {phase.decay}; it is a share, above 0 and up to 1")
    if not 0 <= phase.warmup < phase.steps < math.inf:
        raise UsageError(
            f"{word}steps is {phase.steps} and {word}warmup {phase.warmup}; steps are finite and "
            "more than those of the warm-up"
        )


def _whole(steps: float) -> int:
    return max(int(round(steps)), 0)


def _rates(shape: str, peak: float, steps: int, final: float, decay: float) -> Schedule:
    if shape == "constant":
        return schedules.constant(peak, steps)
    more = {"decay": decay} if shape == "wsd" else {}
    return getattr(schedules, shape)(peak, steps, final=final, **more)


class Layout(NamedTuple):
    """What a program depends on."""

    pretraining: str | None  # its shape; "given" for a Schedule
    warmed_before: bool
    shape: str
    rewarmed: bool
    warmed: bool
    carry_momentum: bool
    count_warmup: bool
    weighted: bool  # momentum with the rate, by ε


def layout_of(run: ContinualRun, options: Mapping[str, Any]) -> tuple[Layout, dict[str, float]]:
    """The run's layout, and its other numbers."""
    pt = run.pretraining
    shape, warmed = None if pt is None else "given", False
    if isinstance(pt, Pretraining):
        shape, warmed = pt.shape, bool(pt.warmup)
    layout = Layout(
        shape, warmed, run.shape, run.peak is not None, bool(run.warmup), options["carry_momentum"],
        options["count_warmup"], options["epsilon"] is not None,
    )  # fmt: skip
    numbers = {name: float(getattr(run, name)) for name in ("final", "decay", "warmup", "start")}
    numbers["lambda"] = options["decay"]
    if layout.weighted:
        numbers["epsilon"] = options["epsilon"]
    if isinstance(pt, Pretraining):
        mine = {f.name: getattr(pt, f.name) for f in dataclasses.fields(pt) if f.name != "shape"}
        numbers |= {f"pt_{name}": float(value) for name, value in mine.items()}
    elif pt is not None:
        ends, plain = (
            areas_along(pt, np.array([len(pt)]), options | one) for one in ({}, {"epsilon": None})
        )
        drops = -np.diff(pt.rates, prepend=pt.initial_lr)
        if not options["count_warmup"]:  # falls count even there
            rise = int(np.argmax(pt.rates)) + 1
            drops[:rise] = np.maximum(drops[:rise], 0)
        last = float(pt.rates[-1])
        numbers |= {"S1_pt": float(ends["S1"][0]), "S2_pt": float(plain["S2"][0])}
        numbers["weighted_pt"] = float(ends["S2"][0])
        numbers |= {"last": last, "first": last + float(drops.sum())}
    return layout, numbers


def counted_as(*given: Any, **own: Any) -> dict[str, Any]:
    """How areas are counted: as said, else as for the fits, else as read_loss_curves does.

    Raises:
        UsageError: the fits differ.
    """
    fits = [getattr(one, "fit", one) for one in given]
    known = [one.areas for one in fits if isinstance(one, Fit) and one.areas]
    if any(one != known[0] for one in known):
        said = "; ".join(map(str, known))
        raise UsageError(f"the fits counted their areas in different ways ({said})")
    said = {name: value for name, value in own.items() if value is not None}
    return chosen_options((known[0] if known else {}) | said)


def phase_ends(layout: Layout, numbers: Mapping[str, Any], at: Mapping[str, Any]) -> PhaseAreas:
    """Areas after the last step.

    Args:
        layout, numbers: of :func:`layout_of`.
        at: settings → arrays that broadcast.
    """
    before, first, last = _base_ends(layout, numbers, at)
    decay, epsilon = numbers["lambda"], numbers["epsilon"] if layout.weighted else None
    # With its momentum carried over, S2 goes on as if there were no boundary.
    reference = first if layout.carry_momentum else last
    zero = jnp.zeros_like(at["steps"])
    state = Sums(zero, before.S2 if layout.carry_momentum else zero, zero)
    how, warmup = Counting(reference, decay, epsilon), numbers["warmup"]
    peak = at["peak"] if layout.rewarmed else last
    steps = jnp.minimum(at["steps"], LONG) if layout.weighted else at["steps"]
    if layout.warmed:
        state = straight(state, warmup, numbers["start"], peak, how)
    end = numbers["final"] * peak if layout.shape != "constant" else peak
    state = _shaped(layout.shape, state, steps - warmup, peak, end, numbers["decay"], how)
    if layout.weighted:
        S1 = state.S1 * (at["steps"] / steps)
        return PhaseAreas(before.S1, S1, before.weighted, state.weighted)
    endless = jnp.isinf(steps)
    # After endless training every momentum but that of the last rate is forgotten.
    S2 = jnp.where(endless, (reference - end) / (1 - decay), state.S2)
    S2 = S2 - before.S2 if layout.carry_momentum else S2
    return PhaseAreas(before.S1, jnp.where(endless, jnp.inf, state.S1), before.S2, S2)


def _base_ends(
    layout: Layout, numbers: Mapping[str, Any], at: Mapping[str, Any]
) -> tuple[Sums, Any, Any]:
    """After pre-training: its sums, the rate its drops count from, its last rate."""
    zero = jnp.zeros_like(at["steps"])
    none = Sums(zero, zero, zero)
    if layout.pretraining is None:
        return none, UNKNOWN_BASE_RATE, UNKNOWN_BASE_RATE
    if layout.pretraining == "given":
        sums = Sums(*(numbers[name] + zero for name in ("S1_pt", "S2_pt", "weighted_pt")))
        return sums, numbers["first"], numbers["last"]
    peak, warmup = numbers["pt_peak"], numbers["pt_warmup"]
    last = at["loss_potential"] * peak if layout.pretraining != "constant" else peak
    first = 0.0 if layout.warmed_before and layout.count_warmup else peak
    how = Counting(first, numbers["lambda"], numbers["epsilon"] if layout.weighted else None)
    sums = none
    if layout.warmed_before:
        sums = straight(none, warmup, 0.0, peak, how)
        sums = sums if layout.count_warmup else Sums(sums.S1, zero, zero)
    length = numbers["pt_steps"] - warmup
    sums = _shaped(layout.pretraining, sums, length, peak, last, numbers["pt_decay"], how)
    return sums, first, last


def _shaped(
    shape: str, before: Sums, n: Any, peak: Any, end: Any, share: Any, how: Counting
) -> Sums:
    """After n steps of a schedule that goes from its peak to an end, the last ``share`` of wsd."""
    if shape == "cosine":
        return half_cosine(before, n, peak, end, how)
    if shape == "wsd":
        before = straight(before, (1 - share) * n, peak, peak, how)
        return straight(before, share * n, peak, end, how)
    return straight(before, n, peak, end, how)


@compiled(little=SEARCHED, static_argnames="layout")
def ends_at(layout: Layout, numbers: Any, at: Any) -> PhaseAreas:
    """:func:`phase_ends`, compiled."""
    return phase_ends(layout, numbers, at)
