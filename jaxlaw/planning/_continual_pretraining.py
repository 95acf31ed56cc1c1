"""A continual run by a few numbers, and its areas after the last step.

Rates are straight lines and half cosines, so that areas are closed forms, which cost the same for
any number of steps and have derivatives in all numbers, the number of steps included (between whole
steps they are what the closed form gives there). A plan so searches the length like a rate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxlaw import schedules
from jaxlaw._areas import PhaseAreas
from jaxlaw._jit import compiled
from jaxlaw.data import (
    UNKNOWN_BASE_RATE,
    areas_along,
    chosen_options,
    for_unknown_base,
)
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting import FittedLaw
from jaxlaw.laws import Law
from jaxlaw.schedules import Schedule
from jaxlaw.uncertainty import has_draws

#: What a plan may vary.
SETTINGS = ("loss_potential", "peak", "replay", "steps")
#: What a search may move: these, and of a ``wsd`` the share of the steps that decays.
SEARCHED = (*SETTINGS, "decay")
Shape = Literal["wsd", "cosine", "linear", "constant"]
_SHAPES = ("wsd", "cosine", "linear", "constant")


@dataclass(frozen=True)
class Pretraining:
    """How the base model was trained, up to how far its rate was annealed.

    Attributes:
        steps: number of steps, warm-up included.
        peak: highest rate.
        shape: ``wsd``, ``cosine`` or ``linear`` (to the loss potential), or ``constant``.
        decay: share of the steps after the warm-up that decays (``wsd``).
        warmup: steps of a straight line from 0 to the peak.

    Example:
        >>> jl.planning.Pretraining(steps=40_000, peak=2e-4).shape
        'wsd'
    """

    steps: float
    peak: float
    shape: Shape = "wsd"
    decay: float = 0.2
    warmup: float = 0


@dataclass(frozen=True)
class ContinualPretraining:
    """A continual run: the settings that plans vary, and those that stay.

    Attributes:
        pretraining: training of the base model; a Schedule, whose loss potential is what it is; or
            None where nobody describes it (laws of an unknown base): its last rate is then 0.
        steps: number of steps of the continual phase, warm-up included.
        peak: highest rate of a re-warm-up; None goes on from the last rate of pre-training.
        loss_potential: last rate of pre-training over its peak, in [0, 1] (Wang 2025, §3.3).
        replay: share of the pre-training corpus in the continual mixture, in [0, 1].
        shape: ``cosine``, ``linear`` or ``wsd`` to ``final``, or ``constant``.
        final: last rate as a share of the peak.
        decay: share of the steps after the warm-up that decays (``wsd``).
        warmup: steps of a straight line from ``start`` to the peak.
        start: rate where the warm-up begins (0, Wang 2025, §4.1).

    Raises:
        UsageError: a number out of its range, or no peak without a pre-training.

    Example:
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> len(run.schedule()), run.schedule().boundary
        (50000, 40000)
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
        if isinstance(self.pretraining, Pretraining):
            _check_phase(self.pretraining, "pretraining.")
        _check_phase(self, "")
        for name in ("loss_potential", "replay", "final"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise UsageError(f"{name} is {value}; it is a share, in [0, 1]")
        if self.peak is None and self.pretraining is None:
            raise UsageError("give peak=: without a pre-training there is no rate to go on from")

    @property
    def settings(self) -> dict[str, float]:
        """Its own values of what plans may vary; the peak is NaN without a re-warm-up."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        if isinstance(self.pretraining, Schedule):
            rates = self.pretraining.rates
            settings["loss_potential"] = float(rates[-1] / rates.max())
        return {
            name: math.nan if value is None else float(value) for name, value in settings.items()
        }

    def schedule(self, **settings: float) -> Schedule:
        """Both phases as rates per step (the second alone without a pre-training)."""
        run = dataclasses.replace(self, **settings)
        pt, before, last = run.pretraining, None, UNKNOWN_BASE_RATE
        if isinstance(pt, Pretraining):
            last = run.loss_potential * pt.peak
            before = _rates(pt, pt.peak, last)
        elif pt is not None:
            before, last = pt, float(pt.rates[-1])
        peak = last if run.peak is None else run.peak
        own = _rates(run, peak, run.final * peak, run.start)
        return for_unknown_base(own) if before is None else schedules.join(before, own)


def _check_phase(phase: Any, prefix: str) -> None:
    if phase.shape not in _SHAPES:
        hint = nearest(str(phase.shape), _SHAPES)
        raise UsageError(f"{prefix}shape is {phase.shape!r}; use {', '.join(_SHAPES)}.{hint}")
    if phase.peak is not None and not (math.isfinite(phase.peak) and phase.peak > 0):
        raise UsageError(f"{prefix}peak is {phase.peak}; it must be a rate above 0")
    if not 0 < phase.decay <= 1:
        raise UsageError(f"{prefix}decay is {phase.decay}; it is a share, above 0 and up to 1")
    if not 0 <= phase.warmup < phase.steps < math.inf:
        raise UsageError(
            f"{prefix}steps is {phase.steps} and {prefix}warmup {phase.warmup}; steps are finite "
            "and more than those of the warm-up"
        )


def _rates(phase: Any, peak: float, final: float, start: float = 0.0) -> Schedule:
    """The rates of one phase at whole steps."""
    warmup = int(round(phase.warmup))
    steps = max(int(round(phase.steps)) - warmup, 0)
    options: dict[str, float] = {} if phase.shape == "constant" else {"final": final}
    if phase.shape == "wsd":
        options["decay"] = phase.decay
    rates = getattr(schedules, phase.shape)(peak, steps, **options)
    return schedules.warmup(rates, warmup, start) if phase.warmup else rates


# Its areas in closed form


class Layout(NamedTuple):
    """What a compiled program of a run depends on."""

    pretraining: str | None  # its shape; "given" for a Schedule; "itself" where this run is it
    warmed_before: bool
    shape: str
    rewarmed: bool
    warmed: bool
    carry_momentum: bool
    count_warmup: bool
    weighted: bool  # momentum is weighted with the rate, by ε


def layout_of(
    run: ContinualPretraining, options: Mapping[str, Any]
) -> tuple[Layout, dict[str, float]]:
    """The layout of a run whose areas are counted by ``options``, and its other numbers."""
    pt = run.pretraining
    shape, warmed = None if pt is None else "given", False
    if isinstance(pt, Pretraining):
        shape, warmed = pt.shape, bool(pt.warmup)
    epsilon = options["epsilon"]
    layout = Layout(
        shape, warmed, run.shape, run.peak is not None, bool(run.warmup), options["carry_momentum"],
        options["count_warmup"], epsilon is not None,
    )  # fmt: skip
    numbers = {name: float(getattr(run, name)) for name in ("final", "decay", "warmup", "start")}
    numbers |= {"lambda": options["decay"]} | ({"epsilon": epsilon} if layout.weighted else {})
    if isinstance(pt, Pretraining):
        names = (field.name for field in dataclasses.fields(pt) if field.name != "shape")
        numbers |= {f"pt_{name}": float(getattr(pt, name)) for name in names}
    elif pt is not None:
        weighted, plain = (
            areas_along(pt, np.array([len(pt)]), {**options, "epsilon": value})
            for value in (epsilon, None)
        )
        drops = -np.diff(pt.rates, prepend=pt.initial_lr)
        if not options["count_warmup"]:  # drops count even inside a warm-up
            rise = int(np.argmax(pt.rates)) + 1
            drops[:rise] = np.maximum(drops[:rise], 0)
        last = float(pt.rates[-1])
        numbers |= {"S1_pt": float(plain["S1"][0]), "S2_pt": float(plain["S2"][0])}
        numbers |= {"weighted_pt": float(weighted["S2"][0])}
        numbers |= {"last": last, "first": last + float(drops.sum())}
    return layout, numbers


def counted_as(*fits: Any, **chosen: Any) -> dict[str, Any]:
    """How areas are counted: as chosen, else as for the fits, else as a loss curve's are.

    Raises:
        UsageError: the fits differ, or an option is unknown.
    """
    fits = [given.draws().fit if has_draws(given) else given for given in fits]
    known = [fit.area_options for fit in fits if isinstance(fit, FittedLaw) and fit.area_options]
    if any(options != known[0] for options in known):
        listed = "; ".join(map(str, known))
        raise UsageError(f"the fits counted their areas in different ways ({listed})")
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return chosen_options((known[0] if known else {}) | chosen)


class _Sums(NamedTuple):
    """Areas after some steps of a phase."""

    S1: Any
    S2: Any  # of plain momentum, Σ m
    weighted: Any = 0.0  # Σ m·η^ε, where momentum is weighted


class _Counting(NamedTuple):
    """How a phase counts: η_0 that its drops start from, λ, and ε or None."""

    reference: Any
    decay: Any
    epsilon: Any = None


def final_areas(layout: Layout, numbers: Mapping[str, Any], at: Mapping[str, Any]) -> PhaseAreas:
    """Areas after the last step.

    Args:
        layout, numbers: the run, of :func:`layout_of`.
        at: settings → arrays that broadcast; ``decay`` of a wsd; of the shape ``lines`` the
            ``lines``, (steps, last rate) of one straight line after another.
    """
    zero, peak = jnp.zeros_like(at["steps"]), at["peak"]
    decay, epsilon = numbers["lambda"], numbers["epsilon"] if layout.weighted else None
    warmup = numbers["warmup"] if layout.warmed else None
    before, skip = _Sums(zero, zero, zero), False
    if layout.pretraining == "itself":
        first = last = peak
        if layout.warmed:
            # Rises of the first warm-up count or not, falls always do.
            skip = False if layout.count_warmup else numbers["start"] < peak
            first = last = jnp.where(skip, peak, numbers["start"])
    else:
        before, first, last = _base_areas(layout, numbers, at)
        peak = peak if layout.rewarmed else last
    # With its momentum carried over, S2 goes on as if there were no boundary.
    reference = first if layout.carry_momentum else last
    state = _Sums(zero, before.S2 if layout.carry_momentum else zero, zero)
    steps = jnp.minimum(at["steps"], _LONG) if layout.weighted else at["steps"]
    end = peak if layout.shape in ("constant", "lines") else numbers["final"] * peak
    lines = at["lines"] if layout.shape == "lines" else _lines(
        layout.shape, steps - numbers["warmup"], peak, end, at.get("decay", numbers["decay"])
    )  # fmt: skip
    state = _phase(
        state, _Counting(reference, decay, epsilon), warmup, numbers["start"], peak, lines, skip,
        layout.shape == "cosine",
    )  # fmt: skip
    if layout.weighted:
        return PhaseAreas(
            before.S1, state.S1 * (at["steps"] / steps), before.weighted, state.weighted
        )
    endless = jnp.isinf(steps)
    # After endless training every momentum but that of the last rate is forgotten.
    S2 = jnp.where(endless, (reference - end) / (1 - decay), state.S2)
    S2 = S2 - before.S2 if layout.carry_momentum else S2
    return PhaseAreas(before.S1, jnp.where(endless, jnp.inf, state.S1), before.S2, S2)


compiled_areas = compiled(static_argnames="layout")(final_areas)


def predicted(law: Law, params: Any, areas: PhaseAreas, inputs: Mapping[str, Any]) -> Any:
    """What a law says of areas and of its other inputs, in its own units."""
    values = {**areas._asdict(), **areas.whole._asdict(), **inputs}
    return law(params, **{name: values[name] for name in law.input_names})


def _base_areas(
    layout: Layout, numbers: Mapping[str, Any], at: Mapping[str, Any]
) -> tuple[_Sums, Any, Any]:
    """After pre-training: its sums, the rate its drops count from, its last rate."""
    zero = jnp.zeros_like(at["steps"])
    sums = _Sums(zero, zero, zero)
    if layout.pretraining is None:
        return sums, UNKNOWN_BASE_RATE, UNKNOWN_BASE_RATE
    if layout.pretraining == "given":
        sums = _Sums(*(numbers[name] + zero for name in ("S1_pt", "S2_pt", "weighted_pt")))
        return sums, numbers["first"], numbers["last"]
    peak, counts = numbers["pt_peak"], layout.count_warmup
    last = at["loss_potential"] * peak if layout.pretraining != "constant" else peak
    first = 0.0 if layout.warmed_before and counts else peak
    counting = _Counting(first, numbers["lambda"], numbers["epsilon"] if layout.weighted else None)
    length = numbers["pt_steps"] - numbers["pt_warmup"]
    sums = _phase(
        sums, counting, numbers["pt_warmup"] if layout.warmed_before else None, 0.0, peak,
        _lines(layout.pretraining, length, peak, last, numbers["pt_decay"]), not counts,
        layout.pretraining == "cosine",
    )  # fmt: skip
    return sums, first, last


def _lines(shape: str, steps: Any, peak: Any, end: Any, decay: Any) -> list[tuple[Any, Any]]:
    """The steps and the last rate of each piece of a shape."""
    if shape == "wsd":
        return [((1 - decay) * steps, peak), (decay * steps, end)]
    return [(steps, end)]


def _phase(
    state: _Sums, counting: _Counting, warmup: Any, start: Any, peak: Any, lines: Any, skip: Any,
    cosine: bool,
) -> _Sums:  # fmt: skip
    """After a phase.

    Args:
        state: sums before it.
        counting: how it counts.
        warmup: steps of a line from ``start`` to the peak; None for none.
        lines: steps and last rate of each piece after it.
        skip: whether the changes of the warm-up do not count.
        cosine: whether the pieces are half cosines.
    """
    if warmup is not None:
        state = _piece(state, warmup, start, peak, counting)
        state = _Sums(state.S1, *(jnp.where(skip, 0.0, sums) for sums in state[1:]))
    for steps, end in lines:
        state = _piece(state, steps, peak, end, counting, cosine)
        peak = end
    return state


def _piece(
    before: _Sums, n: Any, start: Any, end: Any, counting: _Counting, cosine: bool = False
) -> _Sums:
    """After n steps of a straight line or half a cosine from one rate to another.

    S2(t) = λ^t·S2(0) + Σ_k (η_0 − η_k)·λ^(t−k). Of a line the sum is that of k·λ^(t−k), which is
    (t − λ·Σ λ^(t−k)) / (1 − λ); of a cosine it is the real part of a geometric sum of e^(iπ/n).
    """
    # Sums over steps put an axis before those of n: n gets all axes of what goes with it.
    shape = jnp.broadcast_shapes(
        *(jnp.shape(array) for array in (n, before.S1, start, end, counting.reference))
    )
    n, decay = jnp.broadcast_to(jnp.asarray(n) + 0.0, shape), counting.decay
    if cosine:
        level, half = (start + end) / 2, (start - end) / 2
        bend = 2 * jnp.sin(jnp.pi / (2 * n)) ** 2  # 1 − cos(π/n), without cancellation

        def rate(t: Any) -> Any:
            return level + half * jnp.cos(jnp.pi * t / n)

        def rise(t: Any, kept: Any, _: Any) -> Any:
            # At t = n the sine is 0 and the cosine −1.
            turned = decay * jnp.sin(jnp.pi / n) * jnp.sin(jnp.pi * t / n)
            wave = (jnp.cos(jnp.pi * t / n) - kept) * (1 - decay + decay * bend) + turned
            return half * wave / ((1 - decay) ** 2 + 2 * decay * bend)

        S1 = before.S1 + n * level - half
    else:
        level, slope = start, (end - start) / jnp.maximum(n, 1e-9)
        near = decay > 1 - 1e-12

        def rate(t: Any) -> Any:
            return start + slope * t

        def rise(t: Any, _: Any, whole: Any) -> Any:
            ramp = (t - decay * whole) / jnp.where(near, 1.0, 1 - decay)
            return slope * jnp.where(near, t * (t + 1) / 2, ramp)

        S1 = before.S1 + n * start + slope * n * (n + 1) / 2

    def S2(t: Any) -> Any:
        kept, whole = _memory(t, decay)
        return kept * before.S2 + (counting.reference - level) * whole - rise(t, kept, whole)

    def momentum(t: Any) -> Any:
        """Of step t, times η^ε: S2(t) = λ·S2(t−1) + (η_0 − η_t) gives m_t = S2(t) − S2(t−1)."""
        plain = counting.reference - rate(t) - (1 - decay) * S2(t - 1)
        trained = rate(t) > 0
        return jnp.where(trained, plain * jnp.where(trained, rate(t), 1.0) ** counting.epsilon, 0.0)

    if counting.epsilon is None:
        return _Sums(S1, S2(n))
    return _Sums(S1, S2(n), before.weighted + sum_over_steps(momentum, n))


def _memory(n: Any, decay: Any) -> tuple[Any, Any]:
    """λ^n and Σ λ^(n−k) over k = 1…n, also for λ of 0 and of 1."""
    near = decay > 1 - 1e-12
    log = jnp.where(near, -1.0, jnp.log(jnp.where(near | (decay <= 0), 0.5, decay)))
    forgotten = jnp.where(n > 0, 0.0, 1.0)  # λ = 0
    kept = jnp.where(near, 1.0, jnp.where(decay <= 0, forgotten, jnp.exp(n * log)))
    whole = -jnp.expm1(n * log) / jnp.where(near, 1.0, 1 - decay)
    return kept, jnp.where(near, n, jnp.where(decay <= 0, 1.0 - forgotten, whole))


# Momentum weighted with the rate (ε; Wang 2025, App. J) has no closed form. Real schedules through
# ``areas`` cannot stand in for one: a turning length is looked for up to 1e12 steps, and a search
# needs derivatives in the number of steps. So the sum over a piece is Euler's and Maclaurin's: the
# steps at both ends one by one, and between them an integral and the first correction. Momentum
# changes within some 1/(1 − λ) steps of either end, however long the piece is; a tanh–sinh rule
# puts its nodes there. Gauss–Legendre's first node would lie at 4e-4 of the piece, too far in.
_SINGLE = 16  # steps at either end that are summed one by one
_ROUNDING = 1e-6  # of a step: a piece of so little more than n steps has n
_LONG = 1e11  # steps; in a weighted sum longer phases, endless ones too, have these


def _tanh_sinh(count: int = 61, reach: float = 3.1) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in (0, 1) and weights of an integral."""
    u = np.linspace(-reach, reach, count)
    bend = np.pi / 2 * np.sinh(u)
    weights = np.pi / 4 * np.cosh(u) / np.cosh(bend) ** 2
    return (1 + np.tanh(bend)) / 2, weights / weights.sum()


_NODES, _WEIGHTS = _tanh_sinh()


def sum_over_steps(term: Callable[[Any], Any], n: Any) -> Any:
    """Σ term(k) over k = 1…n, for smooth terms of any number of steps; n may be fractional.

    Args:
        term: function of steps (…) whose trailing axes are those of n.
        n: array (…).
    """
    n = jnp.asarray(n)

    def rows(numbers: Any) -> Any:
        return np.reshape(numbers, (-1, *[1] * n.ndim))

    single, near = rows(np.arange(_SINGLE, dtype=float)), rows([-1.0, 0.0, 1.0])
    whole, rest = n - _ROUNDING, n - _SINGLE
    long = rest > _SINGLE
    low, high = float(_SINGLE), jnp.where(long, rest, _SINGLE + 1.0)
    inside = low + (high - low) * rows(_NODES)
    # All in one call: terms take long to trace and to compile.
    at = [jnp.maximum(n - single, 1e-9), single + 1, inside, low + near, high + near]
    at = [jnp.broadcast_to(steps, (len(steps), *n.shape)) for steps in at]
    values = jnp.split(term(jnp.concatenate(at)), np.cumsum([len(steps) for steps in at])[:-1])
    last, first, inside, lowest, highest = values
    last = jnp.where(single < whole, last, 0.0).sum(axis=0)
    first = jnp.where(single < whole - _SINGLE, first, 0.0).sum(axis=0)
    middle = (high - low) * (rows(_WEIGHTS) * inside).sum(axis=0) + (highest[1] - lowest[1]) / 2
    slopes = highest[2] - highest[0] - lowest[2] + lowest[0]
    return last + first + jnp.where(long, middle + slopes / 24, 0.0)
