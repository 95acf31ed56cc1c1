"""Continual runs: losses at their end, best settings, the best run of tokens, turning lengths.

Wang 2025, §4.4, §5 and figures 5, 7, 8 and 13. A run is a few numbers. Its learning rates are
straight lines and half cosines, so that its areas are closed forms, which cost the same for any
number of steps and have derivatives in all numbers, the number of steps included (between whole
steps they are what the closed form gives there): a plan searches the length like a peak LR.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw import schedules
from jaxlaw._answer import Answer
from jaxlaw._areas import PhaseAreas
from jaxlaw._arrays import numbers_of
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import Amount, checked_number, exponential, in_unit, written
from jaxlaw._typed import ConfidenceLevel, Fraction, checked
from jaxlaw.data import (
    AREAS,
    UNKNOWN_BASE_RATE,
    LossCurves,
    area_options,
    areas_along,
    as_schedule,
    for_unknown_base,
)
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.fitting import Fit, fit
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import Inputs
from jaxlaw.planning._frame import (
    fewest_degrees,
    law_inputs_of_each,
    mesh,
    missing_draws_notes,
    of_fit,
    over_rows,
    plan_answer,
    source_notes,
    table_of,
)
from jaxlaw.planning._optimise import as_good, lowest_in_box
from jaxlaw.schedules import Schedule
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, bootstrap

#: What a plan may vary.
SETTINGS = ("loss_potential", "peak", "replay", "steps")
#: What a search may move: these, and of a ``wsd`` the fraction of the steps that decays.
SEARCHED = (*SETTINGS, "decay")
#: Setting → (lowest, highest) of what is searched.
Spans = Mapping[str, tuple[float, float]]
Shape = Literal["wsd", "cosine", "linear", "constant"]
_LOGARITHMIC = ("peak", "steps")
_CORPORA = {"pt": "general", "cpt": "domain"}  # as in names, and as in loss curves
_LOSSES = tuple(f"{what}_{corpus}" for what in ("loss", "change") for corpus in _CORPORA)
_DOMAINS = {
    "steps": "positive", "peak": "positive", "warmup": "nonnegative", "start": "nonnegative",
    **dict.fromkeys(("decay", "final", "loss_potential", "replay"), "fraction"),
}  # fmt: skip
_TRADEOFF = np.linspace(0, 1, 21)  # weights λ1 along a trade-off
# Steps of an endless run: every power of its S1 has its limit to rounding, and S1² no overflow.
_ENDLESS = 1e150


@dataclass(frozen=True)
class Pretraining:
    """How the base model was trained, up to how far its learning rate was annealed.

    Attributes:
        steps: number of steps, warm-up included.
        peak: peak LR.
        shape: ``wsd``, ``cosine`` or ``linear`` (to the loss potential), or ``constant``.
        decay: fraction of the steps after the warm-up that decays (``wsd``).
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

    def __post_init__(self) -> None:
        _check_phase(self)


@dataclass(frozen=True)
class ContinualPretraining:
    """A continual run: the settings that plans vary, and those that stay.

    Attributes:
        pretraining: training of the base model; a Schedule, whose loss potential is what it is; or
            None where its schedule is unknown (laws of an unknown base): its final LR is then 0.
        steps: number of steps of the continual phase, warm-up included.
        peak: peak LR of a re-warm-up; None continues from the final LR of pre-training.
        loss_potential: final LR of pre-training over its peak, in [0, 1] (Wang 2025,
            §3.3).
        replay: mixture ratio of the pre-training corpus in the continual mixture, in [0, 1].
        shape: ``cosine``, ``linear`` or ``wsd`` to ``final``, or ``constant``.
        final: final LR as a fraction of the peak.
        decay: fraction of the steps after the warm-up that decays (``wsd``).
        warmup: steps of a straight line from ``start`` to the peak.
        start: learning rate where the warm-up begins (0, Wang 2025, §4.1).

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
        _check_phase(self)
        if self.peak is None and self.pretraining is None:
            raise UsageError("give peak=: without a pre-training there is no LR to continue from")

    @property
    def settings(self) -> dict[str, float]:
        """Its own values of what plans may vary; the peak is NaN without a re-warm-up."""
        values = {name: getattr(self, name) for name in SETTINGS}
        if isinstance(self.pretraining, Schedule):
            rates = self.pretraining.rates
            values["loss_potential"] = rates[-1] / rates.max()
        return {name: math.nan if x is None else float(x) for name, x in values.items()}

    def base(self, loss_potential: float) -> Schedule | None:
        """The learning rates of pre-training; a Schedule as it is, whatever its loss potential."""
        pt = self.pretraining
        if not isinstance(pt, Pretraining):
            return pt
        return rates_of(pt, pt.peak, loss_potential * pt.peak)

    def schedule(self, **settings: float) -> Schedule:
        """Both phases as learning rates per step (the second alone without a pre-training)."""
        run = replace(self, **settings)
        before = run.base(run.loss_potential)
        last = UNKNOWN_BASE_RATE if before is None else float(before.rates[-1])
        peak = last if run.peak is None else run.peak
        own = rates_of(run, peak, run.final * peak, run.start)
        return for_unknown_base(own) if before is None else schedules.join(before, own)


def _check_phase(phase: Pretraining | ContinualPretraining) -> None:
    for name, domain in _DOMAINS.items():
        if (value := getattr(phase, name, None)) is not None:
            checked_number(name, value, domain)
    if phase.shape not in (shapes := get_args(Shape)):
        raise UsageError(f"shape is {phase.shape!r}; use {', '.join(shapes)}")
    if phase.warmup >= phase.steps:
        raise UsageError(f"steps is {phase.steps}, no more than the {phase.warmup} of the warmup")


def rates_of(phase: Any, peak: float, final: float, start: float = 0.0) -> Schedule:
    """The learning rates of one phase at whole steps."""
    warmup = round(phase.warmup)
    options = {} if phase.shape == "constant" else {"final": final}
    if phase.shape == "wsd":
        options["decay"] = phase.decay
    rates = getattr(schedules, phase.shape)(peak, max(round(phase.steps) - warmup, 0), **options)
    return schedules.warmup(rates, warmup, start) if phase.warmup else rates


# Its areas in closed form.


class Layout(NamedTuple):
    """What a compiled program of a run depends on.

    Attributes:
        base: ``given`` for a pre-training, ``itself`` where this run is it, None where nothing
            describes it.
        shape: shape of the run; ``lines`` for one straight line after another.
    """

    base: str | None
    shape: str


def layout_of(
    run: ContinualPretraining, options: Mapping[str, Any]
) -> tuple[Layout, dict[str, Any]]:
    """The layout of a run whose areas are counted by ``options``, and its other numbers.

    Areas and learning rates of a base are straight lines over its loss potential, so that two
    points of each say all: ``base``, S1, S2, the final LR and the one from which drops
        count.
    """
    numbers = {"lambda": options["decay"]}
    for name in ("carry_momentum", "count_warmup"):
        numbers[name] = float(options[name])
    numbers |= {name: float(getattr(run, name)) for name in ("final", "decay", "warmup", "start")}
    if run.pretraining is None:
        return Layout(None, run.shape), numbers
    base = []
    for potential in (0.0, 1.0):
        pt = run.base(potential)
        end, last = areas_along(pt, np.array([len(pt)]), options), float(pt.rates[-1])
        drops = -np.diff(pt.rates, prepend=pt.initial_lr)
        if not options["count_warmup"]:  # drops count even inside a warm-up
            rise = int(np.argmax(pt.rates)) + 1
            drops[:rise] = np.maximum(drops[:rise], 0)
        base.append([end["S1"][0], end["S2"][0], last, last + drops.sum()])
    return Layout("given", run.shape), numbers | {"base": np.array(base)}


def counted_as(*sources: Draws) -> dict[str, Any]:
    """How areas are counted: as for the fits, else as a loss curve's are.

    Raises:
        UsageError: the fits differ, or their areas have no closed form.
    """
    known = [source.fit.area_options for source in sources if source.fit.area_options]
    if any(options != known[0] for options in known):
        raise UsageError(
            f"the fits counted their areas in different ways ({'; '.join(map(str, known))})"
        )
    options = area_options(**(known[0] if known else {}))
    if options["epsilon"] is not None or not 0 < options["decay"] < 1:
        raise UsageError(
            f"the fits counted their areas by {options}: such a run is planned with momentum that "
            "is not weighted (epsilon=None) and a decay between 0 and 1; predict_curve of both "
            "fits compares schedules"
        )
    return options


def final_areas(layout: Layout, numbers: Mapping[str, Any], at: Mapping[str, Any]) -> PhaseAreas:
    """Areas after the last step.

    Args:
        layout, numbers: the run, of :func:`layout_of`.
        at: settings → arrays that broadcast; ``decay`` of a wsd; of the shape ``lines`` the
            ``lines``, (steps, final LR) of one straight line after another.
    """
    zero, peak, carries = jnp.zeros_like(at["steps"]), at["peak"], numbers["carry_momentum"]
    warmup, start, skip, S1_pt, S2_pt = numbers["warmup"], numbers["start"], False, zero, zero
    # The final LR of pre-training, and the one that its drops count from.
    if layout.base is None:
        first = last = UNKNOWN_BASE_RATE
    elif layout.base == "itself":  # rises of the first warm-up count or not, falls always do
        skip = (numbers["count_warmup"] == 0) & (start < peak)
        first = last = jnp.where((warmup > 0) & ~skip, start, peak)
    else:
        ends, potential = zip(*numbers["base"], strict=True), at.get("loss_potential", 0.0)
        S1_pt, S2_pt, last, first = (none + potential * (all_ - none) for none, all_ in ends)
    peak = jnp.where(jnp.isnan(peak), last, peak)  # without a re-warm-up
    # With its momentum carried over, S2 goes on as if there were no boundary.
    carried, counting = carries * S2_pt, (jnp.where(carries > 0, first, last), numbers["lambda"])
    S1, S2 = _piece((zero, carried + zero), warmup, start, peak, counting)
    areas, left, lines = (S1, jnp.where(skip, 0.0, S2)), at["steps"] - warmup, at.get("lines")
    if lines is None:
        decay = at.get("decay", numbers["decay"]) if layout.shape == "wsd" else 1.0
        final = peak if layout.shape == "constant" else numbers["final"] * peak
        lines = [((1 - decay) * left, peak)] * (layout.shape == "wsd") + [(decay * left, final)]
    for n, end in lines:
        areas = _piece(areas, n, peak, end, counting, layout.shape == "cosine")
        peak = end
    S1, S2 = areas
    return PhaseAreas(S1_pt + zero, S1, S2_pt + zero, S2 - carried)


_compiled_areas = compiled(static_argnames="layout")(final_areas)


def _piece(
    areas: tuple, n, start, end, counting: tuple,
    cosine: bool = False,
) -> tuple:  # fmt: skip
    """After n steps of a straight line or half a cosine from one learning rate to another.

    S2(t) = λ^t·S2(0) + Σ_k (η_0 − η_k)·λ^(t−k). Of a line the sum is that of k·λ^(t−k), which is
    (t − λ·Σ λ^(t−k)) / (1 − λ); of a cosine it is the real part of a geometric sum of e^(iπ/n).
    """
    (S1, S2), (reference, decay), n = areas, counting, jnp.asarray(n) + 0.0
    kept, whole = jnp.exp(n * jnp.log(decay)), -jnp.expm1(n * jnp.log(decay)) / (1 - decay)
    if cosine:
        level, half = (start + end) / 2, (start - end) / 2
        bend = 2 * jnp.sin(jnp.pi / (2 * n)) ** 2  # 1 − cos(π/n), without cancellation
        S1 = S1 + n * level - half
        wave = -(1 + kept) * (1 - decay + decay * bend)
        rise = half * wave / ((1 - decay) ** 2 + 2 * decay * bend)
    else:
        level, slope = start, (end - start) / jnp.maximum(n, 1e-9)
        S1 = S1 + n * start + slope * n * ((n + 1) / 2)
        rise = slope * ((n - decay * whole) / (1 - decay))
    return S1, kept * S2 + (reference - level) * whole - rise


def predicted(law: Law, params: Any, areas: PhaseAreas, inputs: Mapping[str, Any]) -> Any:
    """What a law says of areas and of its other inputs, in its own units."""
    values = {**areas._asdict(), **areas.whole._asdict(), **inputs}
    return law(params, **{name: values[name] for name in law.input_names})


# Both losses of a run.


class _Losses(NamedTuple):
    """The losses of a run on the pre-training corpus and on the new one."""

    sources: tuple[Draws, ...]
    run: ContinualPretraining
    layout: Layout
    numbers: dict
    inputs: tuple[dict[str, float], ...]  # of each loss beside areas and r, in its law's own units

    def arguments(self, params) -> tuple[Any, ...]:
        """What compiled functions take first; ``params`` shapes (1 + R,) values of parameters."""
        laws = tuple(source.law for source in self.sources)
        values = [jax.tree.map(params, source.values) for source in self.sources]
        return laws, self.layout, tuple(values), self.numbers, self.inputs

    def evaluate(self, at: Mapping[str, Any]) -> np.ndarray:
        """Losses (losses, 3, 1 + R, points) at the start, at the end, and where they go.

        The third is after endless training without annealing (Wang 2025, §4.4).

        Args:
            at: settings → (points,), or (1 + R, points).
        """
        with in_float64():
            return np.asarray(_compiled_losses(*self.arguments(lambda x: x[:, None]), dict(at)))

    def named(self, at: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Losses at the end and changes since the start by the names of ``_LOSSES``."""
        start, end, _ = np.moveaxis(self.evaluate(at), 1, 0)
        return dict(zip(_LOSSES, (*end, *(end - start)), strict=True))

    def notes(self, at: Mapping[str, Any]) -> list[Note]:
        """Where areas and mixture ratios at (points,) settings leave the fitted ranges."""
        with in_float64():
            areas = jax.device_get(_compiled_areas(self.layout, self.numbers, dict(at)))._asdict()
        values = areas | {"r": at["replay"]}, areas | {"r": 1 - np.asarray(at["replay"])}
        notes = []
        for corpus, source, own in zip(_CORPORA, self.sources, values, strict=False):
            taken = source.inputs_taken(own).items()
            known = {name: np.squeeze(x) / source.units[name] for name, x in taken}
            notes += source_notes(source, corpus, **known)
        return notes

    def answer(
        self,
        kind: str,
        sentence: str,
        values: Mapping[str, Any] = {},
        beyond: float | None = None,
        **more,
    ) -> Answer:
        """As :func:`plan_answer`, of a run that is no point of the laws' own inputs."""
        source, degrees = self.sources[0], fewest_degrees(self.sources)
        if beyond is None:  # notes say where it leaves the fitted ranges, as far as they are known
            beyond = source.fit.times_beyond(dict.fromkeys(source.ranges, 1.0))
        answer = plan_answer(kind, sentence, source, values, degrees=degrees, **more)
        return replace(answer, beyond=beyond)


def _losses_of(
    fits: Sequence, run: ContinualPretraining, inputs: Inputs, varied: Iterable[str] = ()
) -> _Losses:
    """Fits and run, checked for each other and for the settings that vary.

    Raises:
        UsageError: a law without areas of a continual phase, one that knows its base where the
            run does not or the reverse, a replay ratio that a law does not take, an input that is
            missing or unknown, or a setting that the run has no place for.
    """
    for name in varied:
        if name not in SETTINGS:
            message = f"'{name}' is not a setting; settings: {', '.join(SETTINGS)}."
            raise UsageError(message + nearest(name, SETTINGS))
    if "loss_potential" in varied and getattr(run.pretraining, "shape", "constant") == "constant":
        raise UsageError(
            "the loss potential varies with a Pretraining that anneals (wsd, cosine, linear); "
            "this one is given as it is"
        )
    sources = as_draws(*fits)
    for law in (source.law for source in sources):
        if "S1_cpt" not in law.input_names or law.target != "loss":
            raise UsageError(
                f"law {law.name} takes no areas of a continual phase, or predicts no loss; use "
                "cpt-curve, cpt-curve-replay-pt and -cpt, or theirs of an unknown base"
            )
        if (based := "S1_pt" in law.input_names) != (run.pretraining is not None):
            needs = "needs the pre-training: give the run" if based else (
                "is of an unknown base, whose final LR is taken as 0: leave out the run's"
            )  # fmt: skip
            raise UsageError(f"law {law.name} {needs} pretraining=")
        if (run.replay or "replay" in varied) and "r" not in law.input_names:
            raise UsageError(
                f"law {law.name} has no replay ratio; fit cpt-curve-replay-pt and -cpt"
            )
    others = law_inputs_of_each(sources, inputs, (*AREAS, "r"))
    return _Losses(sources, run, *layout_of(run, counted_as(*sources)), others)


def _checked(name: str, values, above: float = 0.0) -> np.ndarray:
    """The values of a setting, or of λ1, as float64; raises UsageError on one it cannot have."""
    values = numbers_of(name, values)
    for value in values.flat:
        checked_number(name, value, _DOMAINS.get(name, "fraction"))
    if not values.size or name == "steps" and values.min() <= above:
        raise UsageError(
            f"{name} is one number or several, steps more than the {above:g} of the warm-up, not "
            f"{values.tolist()}"
        )
    return values


def _ends(laws, layout: Layout, params, numbers, inputs, at):
    """Losses (losses, 3, …) at the start, at the end, and after endless training; pure JAX."""
    end = final_areas(layout, numbers, at)
    none = jnp.zeros_like(end.S1_cpt)
    start = end._replace(S1_cpt=none, S2_cpt=none)
    runs = start, end, start._replace(S1_cpt=none + _ENDLESS, S2_pt=none)
    shares = (at["replay"], 1 - at["replay"])  # of a loss's own corpus
    each = [
        [predicted(law, p, areas, {"r": r, **x}) for areas in runs]
        for law, p, x, r in zip(laws, params, inputs, shares, strict=False)
    ]
    whole = jnp.broadcast_arrays(*sum(each, []))
    return jnp.stack(whole).reshape(len(each), len(runs), *whole[0].shape)


_compiled_losses = compiled(static_argnames=("laws", "layout"))(_ends)


_BOTH = "{loss_pt} on the old corpus and {loss_cpt} on the new one"


@checked
def final_losses(
    pt: Any,
    cpt: Any,
    run: ContinualPretraining,
    *,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
    **settings: Any,
) -> Answer:
    """Final losses over loss potential, peak LR, replay ratio or steps.

    Wang 2025, figures 5 (with and without a re-warm-up) and 7. The loss at the end of a run of T
    steps, its learning rate annealed as the run says, is a point for each T.

    Args:
        pt: fit of the loss on the pre-training corpus.
        cpt: fit of the loss on the new corpus.
        run: continual run, whose settings hold where they do not vary.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        level: confidence level of the intervals.
        **settings: values of ``loss_potential``, ``peak``, ``replay`` and ``steps``, a number or
            several; all combinations. Left out: the run's.

    Returns:
        Answer whose ``table`` has a row each: ``loss_potential``, ``peak``, ``replay``, ``steps``;
        ``loss_pt``, ``loss_cpt`` at the end, ``change_pt``, ``change_cpt`` since the start, in
        nats.

    Raises:
        UsageError: a setting the run or a law has no place for, or fits that do not belong to
            such a run.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> losses = jl.planning.final_losses(pt, cpt, run, replay=[0, 0.5])
        >>> losses.table["loss_pt"].round(3).tolist()
        [3.399, 3.364]
    """
    losses = _losses_of((pt, cpt), run, at, settings)
    given = run.settings | {n: _checked(n, v, run.warmup) for n, v in settings.items()}
    points = dict(zip(SETTINGS, mesh(given[name] for name in SETTINGS).T, strict=True))
    table = table_of(points | losses.named(points), level, fewest_degrees(losses.sources))
    lowest = "lowest " * (len(table) > 1)
    return losses.answer(
        "final losses",
        over_rows(table.min().to_frame().T, f"{lowest}losses {_BOTH}", losses.sources[0]),
        level=level, tables={"table": table}, notes=losses.notes(points),
    )  # fmt: skip


# Its best settings.

Minimise = Literal["losses", "changes"]
_AT_BOUND = 1e-3  # of a range, in its own scale
_POINTS = {1: 257, 2: 33, 3: 13, 4: 8}  # a side of the grid


@checked
def optimal_training(
    pt: Any,
    cpt: Any,
    run: ContinualPretraining,
    weight: float | Sequence[float],
    over: Spans,
    *,
    at: Inputs = None,
    minimise: Minimise = "losses",
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The settings that balance both losses best (Wang 2025, eq. 5 and figure 8).

    The least λ1·L_pt + λ2·L_cpt at the end. For a given base this is that of the changes ΔL,
    which differ from the losses by constants. Bases of other loss potentials start from other
    losses: their changes would reward a base for being left unannealed, their losses do not.
    Equation 5 prints the changes, §5.1 speaks of the losses: ``minimise`` chooses.

    Args:
        pt: fit of the loss on the pre-training corpus.
        cpt: fit of the loss on the new corpus.
        run: continual run, whose settings hold where they are not searched.
        weight: weight λ1 of the first loss, in [0, 1]; λ2 is 1 − λ1. Several give the trade-off
            (figure 8), all in one program.
        over: ranges to search, setting → (lowest, highest), of any of ``loss_potential``,
            ``peak``, ``replay`` and ``steps``. Peak and steps are searched in logarithms.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        minimise: ``losses``, or as eq. 5 is printed ``changes``: λ1·ΔL_pt + λ2·ΔL_cpt, each ΔL the
            loss at the end less that at the start of the run. (The text calls ΔL_cpt a decrease;
            only where a decrease counts as negative does its least make sense.)
        level: confidence level of the intervals.

    Returns:
        Answer with ``weight`` (λ1), the best or fixed ``loss_potential``, ``peak`` (NaN without a
        re-warm-up), ``replay`` and ``steps`` (whole), the losses at the end ``loss_pt`` and
        ``loss_cpt``, their changes since the start ``change_pt`` and ``change_cpt``, and the
        ``objective``, in nats; the facts ``binding`` (active bounds of the ranges) and
        ``minimise``. Of several weights a ``table`` with a row for each, of what was searched.
        A batched grid over the ranges is refined by Newton steps from its best points, for all
        draws in one program.

    Raises:
        UsageError: as :func:`final_losses`; a weight outside [0, 1] or a range that is none.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> best = jl.planning.optimal_training(pt, cpt, run, 0.6, {"replay": (0, 1)})
        >>> round(best.replay, 3), best.binding
        (0.672, 'none: the optimum is inside its ranges')
        >>> curve = jl.planning.optimal_training(pt, cpt, run, (0.2, 0.6), {"replay": (0, 1)})
        >>> curve.table["replay"].round(3).tolist()
        [0.0, 0.672]

    Shell:
        jaxlaw plan optimal-training pt.json cpt.json --weight 0.5 --over replay=0:1
            --run wsd:steps=40000,peak=2e-4+cosine:steps=10000,peak=2e-5,warmup=500
    """
    losses = _losses_of((pt, cpt), run, at, over)
    names = [name for name in SETTINGS if name in over]
    found = _best_settings(losses, over, weight, minimise)
    notes, facts = losses.notes({name: found[name][0] for name in SETTINGS}), {"minimise": minimise}
    if np.ndim(weight):
        columns = {name: found[name] for name in (*names, *_LOSSES, "objective")}
        columns = {"weight": np.asarray(weight, float)} | columns
        table = table_of(columns, level, fewest_degrees(losses.sources))
        return losses.answer(
            "tradeoff curve",
            over_rows(table, f"weight {{weight}}: {_BOTH}", losses.sources[0]),
            level=level, tables={"table": table}, notes=notes, facts=facts,
        )  # fmt: skip
    values = {name: found[name][:, 0] for name in (*SETTINGS, *_LOSSES, "objective")}
    facts["binding"], limits = _binding(over, of_fit(values))
    peak = "" if np.isnan(values["peak"][0]) else ", peak LR {peak}"
    return losses.answer(
        "optimal training",
        f"weight {weight:g} of the old loss: replay {{replay}}{peak}, {{steps}}; losses {_BOTH}",
        {"weight": weight, **values}, given=[name for name in SETTINGS if name not in names],
        level=level, notes=[*limits, *notes, *missing_draws_notes(values["objective"], "optimum")],
        facts=facts,
    )  # fmt: skip


def _best_settings(
    losses: _Losses, over: Spans, weight,
    minimise: Minimise = "losses",
) -> dict[str, np.ndarray]:  # fmt: skip
    """Settings, losses and objective at the optima, each (1 + R, weights).

    Args:
        losses: both losses of a run.
        over: setting → (lowest, highest).
        weight: (weights,) λ1.
        minimise: see :func:`optimal_training`.
    """
    run, names = losses.run, tuple(name for name in SEARCHED if name in over)
    if not names:
        raise UsageError(f"over= needs a range of one or more of {', '.join(SETTINGS)}")
    for name in names:
        limits = _checked(name, over[name], run.warmup)
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise UsageError(f"over={{'{name}': …}} takes (lowest, highest), not {over[name]}")
    weights = np.atleast_1d(_checked("weight", weight))
    shape = losses.sources[0].rows, len(weights)
    grid = mesh([np.linspace(0, 1, _POINTS[len(names)])] * len(names))
    kind = "change" if minimise == "changes" else "loss"
    with in_float64():
        found = _optima(
            *losses.arguments(lambda x: np.repeat(x, shape[1])), names, np.tile(weights, shape[0]),
            run.settings, np.array([over[name] for name in names], float), grid,
            float(kind == "change"),
        )  # fmt: skip
    at = {name: np.array(values).reshape(shape) for name, values in found.items()}
    at["steps"] = np.clip(np.rint(at["steps"]), 1, None)
    values = losses.named(at)
    objective = weights * values[f"{kind}_pt"] + (1 - weights) * values[f"{kind}_cpt"]
    return at | values | {"objective": objective}


@compiled(static_argnames=("laws", "layout", "names"))
def _optima(
    laws, layout: Layout, params, numbers, inputs, names: tuple[str, ...], weights, fixed, limits,
    grid, starts,
):  # fmt: skip
    """Settings at the optima, each (lanes,); ``starts`` times the start is taken off the end."""

    def settings(points):
        """Settings from points in the unit box, (…, names)."""
        at = dict(fixed)
        for k, name in enumerate(names):
            (low, high), x = limits[k], points[..., k]
            logarithmic = name in _LOGARITHMIC
            at[name] = low * (high / low) ** x if logarithmic else low + (high - low) * x
        return at

    def lane(each):
        params, weight = each

        def objective(points):
            both = _ends(laws, layout, params, numbers, inputs, settings(points))
            pt, cpt = both[:, 1] - starts * both[:, 0]
            return weight * pt + (1 - weight) * cpt

        return settings(lowest_in_box(objective, grid))

    return jax.lax.map(lane, (params, weights), batch_size=64)


def _binding(
    limits: Spans, best: Mapping[str, float], most: float = math.inf
) -> tuple[str, list[Note]]:
    """The active bounds, in words, and notes on optima that are only a bound of the best.

    Args:
        limits: setting → range that was searched.
        best: setting → the best one.
        most: steps that the tokens pay for.
    """
    active, notes = [], []
    for name, ends in limits.items():
        scale = np.log if name in _LOGARITHMIC else float
        low, at, high = map(scale, (ends[0], best[name], ends[1]))
        share = (at - low) / (high - low)
        if not math.isfinite(share) or _AT_BOUND < share < 1 - _AT_BOUND:
            continue
        upper = bool(share > 0.5)
        if name == "steps" and upper and ends[1] >= most * (1 - 1e-9):
            active.append("the tokens")
            continue
        side, bound = ("upper", "a lower") if upper else ("lower", "an upper")
        what = {"loss_potential": "loss potential", "peak": "peak LR"}.get(name, name)
        value = exponential(best[name])
        active.append(f"{what} at its {side} bound ({value})")
        if _DOMAINS[name] != "fraction" or ends[upper] not in (0, 1):
            message = (
                f"{what} is at the {side} bound of its range, {value}: this is {bound} bound of "
                f"the best {what}, which may lie beyond it"
            )
            notes.append(Note("optimum-at-limit", "warning", message))
    return " and ".join(active) or "none: the optimum is inside its ranges", notes


# The best run with a token budget.

_NUMBERS = ("tokens", "steps", "replay", "peak", "decay", "loss_pt", "loss_cpt")
_RUNS = ["run", "replay", "peak", "steps", "tokens", "loss_pt", "loss_cpt"]
_LINE = 257  # points along a setting at which the loss is looked at
_LEAST = 0.05  # of the tokens, and of the steps after the warm-up: the least that is searched
_WARMUP = 0.01  # of the tokens
_SEQUENCE = 1000  # tokens; a batch of fewer was counted in sequences
_ALL = 0.995  # fraction of the steps from which on a learning rate falls all the way
_SAME_RATE = 1e-3  # of the peak, within which a logged schedule is a cosine


@checked
def continual_run(
    pt: Any,
    cpt: Any = None,
    *,
    tokens: Amount,
    batch_tokens: Amount,
    weight: float,
    base: Schedule | str | None = None,
    over: Spans | None = None,
    curves: Any = None,
    n_resamples: int = 100,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The best replay ratio, peak LR, length and decay of a continual run with a token budget.

    From the loss curves of runs at several replay ratios, or from fits of them, to the settings
    with the least λ1·L_pt + λ2·L_cpt at the end (Wang 2025, §5.1), the trade-off over λ1, and how
    far each setting may move at no cost. The learning rate warms up over a hundredth of the tokens,
    stays at its peak, and falls on a straight line to 0, or to what curves of one schedule fell to.

    Args:
        pt: fit of the loss on the pre-training corpus; or the loss curves of runs with both losses
            (``loss_g`` and ``loss_d``, mixture ratio ``r_g``), which are then fitted.
        cpt: fit of the loss on the new corpus; none with loss curves.
        tokens: most tokens that the run may have, replay included.
        batch_tokens: tokens of an update, by which tokens are steps.
        weight: weight λ1 of the loss on the pre-training corpus, in [0, 1]; λ2 is 1 − λ1.
        base: how the base was trained: a Schedule, a line such as
            ``wsd:peak=2e-4,steps=40000,final=2e-5``, or the name of one of the curves that has it.
            Logs of the continual phase alone then continue from it. Left out: that of the curves,
            if all share one; laws of an unknown base need none.
        over: ranges to search, setting → (lowest, highest), of ``replay``, ``peak``, ``steps`` and
            ``decay``; equal ones hold a setting. Left out: what the curves had of replay and peak;
            of fits, replay in their range and peaks of a tenth of the base's to all of it; steps
            from a twentieth of the tokens on; decay from 0.05 on. Curves of one schedule show
            nothing of steps and decay, whose defaults are then those of that schedule.
        curves: loss curves of fits, for the trade-off's picture and for draws of the fits.
        n_resamples: number of resamples for intervals, by the wild bootstrap with runs as groups,
            where curves are given; 0 is none. Bootstraps in place of the fits bring their own.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        level: confidence level of the intervals.

    Returns:
        Answer with ``replay``, ``peak``, ``decay`` (fraction of the steps after the warm-up in
        which the learning rate falls, on a straight line), ``tokens`` (those of replay included),
        ``steps``, ``loss_pt`` and ``loss_cpt`` at the end, ``weighted`` (λ1·loss_pt + λ2·loss_cpt)
        and the changes since the start ``change_pt``, ``change_cpt``, in nats; the given ``weight``
        and ``batch_tokens``. Tables: ``table``, the trade-off, a row for each weight; of
        curves ``runs``, at their last logged step, with their ``weighted`` loss.
        Facts: ``binding``, ``searched`` (setting → range) and ``schedule``, the learning rates of
        the continual phase as a line for :func:`jaxlaw.schedules.parse`. ``flat`` has the range of
        each setting, the others held, in which the weighted loss rises by no more than a single
        run's noise, that is the residuals' of the fits.

    Raises:
        UsageError: curves without both losses, several bases or sizes, a range that is none, or
            fits that do not belong to such a run.
        DataError: the curves do not carry the laws.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> plan = jl.planning.continual_run(
        ...     pt, cpt, tokens="20B", batch_tokens="2M", weight=0.6,
        ...     base="wsd:peak=2e-4,steps=40000", over={"steps": (10_000, 10_000)},
        ... )
        >>> round(plan.replay, 2), plan.binding
        (0.67, 'peak LR at its upper bound (0.0002)')
        >>> plan.schedule
        'wsd:peak=0.0002,steps=10000,warmup=100,final=0,decay=0.672278'

    Shell:
        jaxlaw plan continual published:wang-2025-pt published:wang-2025-cpt --tokens 20e9
            --batch-tokens 2e6 --weight 0.6 --base wsd:peak=2e-4,steps=40000
    """
    total = checked_number("tokens", in_unit(tokens, 1.0, "tokens"))
    batch = checked_number("batch_tokens", in_unit(batch_tokens, 1.0, "tokens"))
    steps, warmup, over = float(total // batch), round(_WARMUP * total / batch), over or {}
    # 1. Both fits, and how the base was trained; of curves what they had.
    fits = (pt, cpt)
    if of_curves := isinstance(pt, LossCurves):
        if cpt is not None or curves is not None:
            raise UsageError("loss curves have both losses: give no cpt= and no curves= with them")
        curves = pt
    elif cpt is None:
        raise UsageError("give fits of both losses, or loss curves that have both")
    seen = None if curves is None else _seen(curves, batch)
    if seen is not None and base is not None and {*seen.bases.values()} == {None}:
        # Logs of the continual phase alone: each run continues from the base that is given.
        seen = _seen(_after(_known_base(base, seen), curves, seen.bases), batch)
    needed = "S1_pt" in as_draws(pt)[0].law.input_names if not of_curves else (
        None not in seen.bases.values()
    )  # fmt: skip
    known = _known_base(base, seen) if needed or base is not None else None
    if of_curves:  # after what may be refused: fits take a while
        name = "cpt-curve" if seen.ends["replay"].nunique() < 2 else "cpt-curve-replay-{}"
        name += "" if needed else "-unknown-base"
        fits = tuple(fit(name.format(corpus), seen.of(corpus)) for corpus in _CORPORA)
    if seen is not None and n_resamples:
        # The wild bootstrap leaves every run in: without a base, or the only run of a mixture
        # ratio, the laws would be open. One seed for both losses: row k of either is of the same
        # resample.
        groups = "run" if len(curves) > 1 else None
        fits = tuple(
            bootstrap(each, seen.of(corpus), n_resamples, kind="wild", groups=groups)
            if isinstance(each, Fit)
            else each
            for corpus, each in zip(_CORPORA, fits, strict=True)
        )
    if not n_resamples:
        fits = tuple(as_draws(one)[0].without() if isinstance(one, Fit) else one for one in fits)
    draws = as_draws(*fits)
    # 2. What is searched, and the shape of the learning rates: cosine where all runs had one, else
    # a fall on a straight line in the end.
    shape, last = "wsd", 0.0
    limits = {"steps": (max(_LEAST * steps, 2 * warmup, 1.0), steps), "decay": (_LEAST, 1.0)}
    if seen is None:
        low, high = draws[0].ranges.get("r", (0.0, 1.0))
        limits["replay"] = (max(low, 0.0), min(high, 1.0)) if low < high else (0.0, 1.0)
        if known is not None:
            limits["peak"] = (0.1 * (highest := float(known.rates.max())), highest)
    else:
        limits |= {n: (seen.ends[n].min(), seen.ends[n].max()) for n in ("replay", "peak")}
    if seen is not None and seen.shape is not None:  # nothing tells annealing from training
        own, count = seen.shape, max(len(seen.shape) - 1, 1)
        last = float(own[-1])
        line = np.append(1.0, schedules.cosine(1.0, count, last).rates)[: len(own)]
        if "decay" not in over and np.abs(own - line).max() < _SAME_RATE:
            shape = "cosine"
        decay = max((len(own) - 1 - np.flatnonzero(own >= 1 - 1e-9)[-1]) / count, _LEAST)
        limits |= {"steps": (steps, steps), "decay": (decay, decay)}
    if "r" not in draws[0].law.input_names:
        limits["replay"] = (0.0, 0.0)
    for name, (low, high) in over.items():
        if name not in SEARCHED[1:]:
            raise UsageError(f"over: '{name}' is none of {', '.join(SEARCHED[1:])}")
        limits[name] = (float(low), float(high))
    if limits["steps"][1] > steps * (1 + 1e-9):
        raise UsageError(
            f"over: steps of {limits['steps'][1]:,.0f} are more than the tokens make, {steps:,.0f}"
        )
    if "peak" not in limits:
        raise UsageError("say which peaks to search: over={'peak': (1e-5, 1e-4)}")
    held = {name: low for name, (low, high) in limits.items() if low == high}
    limits = {name: limits[name] for name in SEARCHED if name in limits and name not in held}
    # What is searched needs some value here as well.
    first = {"steps": steps, "peak": limits.get("peak", (0.0, 1.0))[1]} | held
    run = ContinualPretraining(known, shape=shape, final=last, warmup=warmup, **first)
    losses = _losses_of(draws, run, at, {*limits} - {"decay"})
    # 3. At the weight and then along the trade-off, (1 + R, 1 + weights).
    found = _best_settings(losses, limits, [weight, *_TRADEOFF])
    found |= {"tokens": found["steps"] * batch, "weighted": found["objective"]}
    found.setdefault("decay", np.full(found["steps"].shape, run.decay))
    if seen is not None and "r" not in draws[0].law.input_names:
        # Laws without a mixture ratio are of the one that all runs had.
        found["replay"] = np.full(found["steps"].shape, seen.ends["replay"].iloc[0])
    values = {n: found[n][:, 0] for n in (*_NUMBERS, "weighted", "change_pt", "change_cpt")}
    best = {name: float(found[name][0, 0]) for name in SEARCHED}
    binding, edges = _binding(limits, best, steps)
    if batch < _SEQUENCE:
        message = f"batch_tokens is {batch:g}, less than a sequence: give tokens, not sequences"
        edges.append(Note("small-batch", "warning", message))
    line = {"peak": best["peak"], "steps": best["steps"], "warmup": warmup,
            "final": last * best["peak"], "decay": best["decay"]}  # fmt: skip
    if shape == "cosine":
        del line["decay"]
    columns = {"weight": _TRADEOFF, **{name: found[name][:, 1:] for name in _NUMBERS}}
    tables, beyond = {"table": table_of(columns, level, fewest_degrees(draws))}, math.nan
    if seen is not None:
        ends = seen.ends
        whole = weight * ends["loss_pt"] + (1 - weight) * ends["loss_cpt"]
        tables["runs"] = ends.assign(weighted=whole)
        beyond = max(best["steps"] / ends["steps"].max(), 1.0)
    # 4. The range of each setting, the others held, in which the weighted loss rises by no more
    # than noise.
    metrics = [source.fit.metrics for source in draws if isinstance(source.fit, Fit)]
    noise, flat = max((one.get("rmse_log", 0.0) for one in metrics), default=0.0), {}
    for name, ends in limits.items() if noise else ():
        spread = np.geomspace if name in _LOGARITHMIC else np.linspace
        points = np.unique([*spread(*ends, _LINE), best[name]])
        each = losses.evaluate(best | {name: points})[:, 1, 0]
        low, high = as_good(
            weight * each[0] + (1 - weight) * each[1], np.searchsorted(points, best[name]), noise
        )
        said, unit = ("tokens", batch) if name == "steps" else (name, 1.0)
        flat[said] = float(points[low] * unit), float(points[high] * unit)
    falling = "falling all the way" if best["decay"] > _ALL else "falling over its last {decay}"
    paid = f"{written(best['steps'] * batch, 'tokens')} ({best['steps']:,.0f} steps)"
    return losses.answer(
        "continual run",
        f"{paid}: replay {{replay}}, peak LR {{peak}}, {falling}; losses {{loss_pt}} on the "
        f"pre-training corpus and {{loss_cpt}} on the new one; active bounds: {binding}",
        {"weight": weight, "batch_tokens": batch, **values}, given=[*held, "tokens"], level=level,
        tables=tables,
        facts={
            "binding": binding, "searched": limits,
            "schedule": f"{shape}:" + ",".join(f"{name}={x:.6g}" for name, x in line.items()),
        },
        notes=[
            *edges, *losses.notes({name: found[name][0, :1] for name in SEARCHED}),
            *missing_draws_notes(values["weighted"], "optimum"),
        ],
        flat=flat, beyond=beyond,
    )  # fmt: skip


class _Seen(NamedTuple):
    """The continual runs of loss curves."""

    curves: LossCurves
    ends: pd.DataFrame  # a row for each: columns _RUNS
    bases: dict[str, Schedule | None]  # run → its pre-training; None where it is unknown
    shape: np.ndarray | None  # LRs after the warm-up over their peak, if all runs share them

    def of(self, corpus: str) -> LossCurves:
        """The curves of one of the losses, ``pt`` or ``cpt``."""
        return replace(self.curves, rows=self.curves.rows.for_corpus(_CORPORA[corpus]))


def _seen(curves: LossCurves, batch: float) -> _Seen:
    """The continual runs of loss curves, each at its last logged step.

    Raises:
        UsageError: they are of several sizes.
        DataError: a loss is missing, or no run has a continual phase.
    """
    table, source = curves.table, curves.rows.source
    if not {"loss_g", "loss_d"} <= set(table):
        raise DataError(
            f"{source}: a continual run balances the loss on the pre-training corpus (loss_g) and "
            "on the new one (loss_d), and r_g is the mixture ratio of the first: name their "
            f"columns by columns=; columns: {listed(table)}",
            file=source,
        )
    if "N" in table and table["N"].nunique() > 1:
        raise UsageError(f"{source}: the curves are of several sizes N; choose one with where=")
    rows, bases, shapes = [], {}, {}
    for run, followed in curves.run_schedules.items():
        schedule, boundary = followed.schedule, followed.schedule.boundary
        if boundary is None and followed.phase == "pt":
            continue  # a base by itself
        own, last = schedule.rates[boundary or 0 :], table[table["run"] == run].iloc[[-1]]
        steps, replay = float(followed.steps_done(last)[0] - (boundary or 0)), 0.0
        bases[run] = Schedule(schedule.rates[:boundary], schedule.initial_lr) if boundary else None
        relative = own / own.max()
        shapes[relative.round(9).tobytes()] = relative[np.argmax(relative >= 1 - 1e-9) :]
        for name in ("r_d", "r_g"):  # replay ratio, where a column has it
            if name in table:
                share = float(last[name].item()) * curves.rows.units.get(name, 1.0)
                replay = share if name == "r_g" else 1 - share
        losses = map(float, last[["loss_g", "loss_d"]].to_numpy()[0])
        rows.append((run, replay, own.max(), steps, steps * batch, *losses))
    if not rows:
        raise DataError(
            f"{source}: no run has a continual phase: read logs of that phase alone with "
            "values={'phase': 'cpt'}, or give schedules of both phases, first+second",
            file=source,
        )
    shape = next(iter(shapes.values())) if len(shapes) == 1 else None
    return _Seen(curves, pd.DataFrame(rows, columns=_RUNS), bases, shape)


def _known_base(base: Schedule | str | None, seen: _Seen | None) -> Schedule:
    """The pre-training that the run continues."""
    if isinstance(base, str) and seen is not None:
        base = seen.curves.schedules.get(base, base)
    elif base is None and seen is not None:
        every = {one.rates.tobytes() if one else b"": one for one in seen.bases.values()}
        base = next(iter(every.values())) if len(every) == 1 else None
    if base is None:
        raise UsageError(
            "say which base the run continues: the name of one of the curves that has it, "
            "base='RUN', a line such as 'wsd:peak=2e-4,steps=40000', or a Schedule"
        )
    schedule = as_schedule(base, "base")
    return Schedule(schedule.rates[: schedule.boundary], schedule.initial_lr, None, schedule.name)


def _after(base: Schedule, curves: LossCurves, runs: Iterable[str]) -> LossCurves:
    """Curves whose ``runs``, logs of the continual phase alone, continue from a base."""
    joined = dict(curves.run_schedules)
    for run in runs:
        if (one := joined[run]).first_step:
            raise UsageError(
                f"base: the log of run {run} starts after step {one.first_step} of the continual "
                "phase; read it with fill='linear' and first_step=0"
            )
        joined[run] = replace(one, schedule=schedules.join(base, one.schedule), phase="pt")
    return replace(curves, run_schedules=joined)


# The way back.

_LONGEST = 1e12  # steps; what takes longer is never
_LENGTHS = 512  # numbers of steps among which the sign of the change is looked for
_SAME = 1e-12  # nats
_VISIBLE = 1e-4  # nats that a validation loss shows


@checked
def turning_length(
    pt: Any,
    run: ContinualPretraining,
    *,
    cpt: Any = None,
    weight: Fraction = 1.0,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The fewest steps after which the loss returns to its start, and whether it ever does.

    Each number of steps is a run of its own, its learning rate annealed as the run says; with
    ``shape="constant"`` they are the points of one curve (Wang 2025, §4.4 and figure 7 c). With
    ``cpt`` and a weight the loss is λ1·L_pt + λ2·L_cpt (figure 13): where λ1 is small the loss on
    the new corpus carries the sum, which is never lifted; in the middle it is back after a number
    of steps; where λ1 is large, never.

    Args:
        pt: fit of the loss on the pre-training corpus.
        run: continual run; its steps do not matter.
        cpt: fit of the loss on the new corpus, for a weight below 1.
        weight: weight λ1 of the first loss, in [0, 1]; λ2 is 1 − λ1.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        level: confidence level of the intervals.

    Returns:
        Answer with ``steps`` (infinite: never; 0: the loss is never lifted), ``weight``, the loss
        ``start`` before the run and ``limit`` at the end of an endless one, ``rise``, by which it
        is lifted at most, in nats; and ``critical_point``, the limit of the loss without
        annealing on the new mixture. Facts: ``never`` and ``pattern``, which of Wang's three the
        loss follows over ever longer runs: ``rise``, it rises and stays there; ``rise and partial
        fall``, it falls again by 1e-4 nats or more, and never back to its start; ``rise and
        return``; beyond the paper ``no rise``.

    Raises:
        UsageError: a weight below 1 without ``cpt``, or fits that do not belong to the run.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> jl.planning.turning_length(pt, run).steps
        8730.0
        >>> jl.planning.turning_length(pt, run, cpt=cpt, weight=0.9).steps
        4002.0

    Shell:
        jaxlaw plan turning-length pt.json
            --run wsd:steps=10000,peak=2e-4+cosine:steps=10000,peak=2e-4,replay=0.9
    """
    if weight < 1 and cpt is None:
        raise UsageError("a weight below 1 balances two losses: give cpt= and weight= together")
    fits = (pt,) if cpt is None else (pt, cpt)
    losses, weights = _losses_of(fits, run, at), (weight, 1 - weight)[: len(fits)]
    fixed = {name: run.settings[name] for name in SETTINGS if name != "steps"}

    def ends(steps):
        """The weighted loss of runs of so many steps, (3, 1 + R, points)."""
        return np.tensordot(weights, losses.evaluate({**fixed, "steps": steps}), 1)

    # 1. The sign of the change along ever longer runs; where it is lifted and then back, the fewest
    # whole steps by bisection.
    lengths = np.geomspace(run.warmup + 1, _LONGEST, _LENGTHS)
    start, end, _ = ends(lengths)
    rise, lifted = (end - start).max(axis=-1).clip(0.0), end - start > _SAME
    back = np.maximum.accumulate(lifted, axis=-1) & ~lifted
    k = back.argmax(axis=-1)[:, None]
    low, high = np.floor(lengths[np.maximum(k - 1, 0)]), np.ceil(lengths[k])
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        start, end, _ = ends(middle)
        still = end - start > _SAME
        low, high = np.where(still, middle, low), np.where(still, high, middle)
    steps = np.where(lifted.any(axis=-1), np.inf, 0.0)
    steps = np.where(back.any(axis=-1), high[:, 0], steps)
    # 2. At the end of an endless run, and where the loss goes without annealing.
    start, limit, unannealed = ends(np.array([_ENDLESS]))[..., 0]
    values = {"weight": weight, "steps": steps, "start": start, "limit": limit, "rise": rise,
              "critical_point": unannealed}  # fmt: skip

    back, never = float(steps[0]), bool(np.isinf(steps[0]))
    notes = losses.notes(fixed | {"steps": np.clip(back, run.warmup + 1, _LONGEST)})
    if ((lost := np.isinf(steps[1:])) != never).any():
        message = f"{lost.mean():.1%} of the draws never come back"
        notes.append(Note("draws-disagree", "warning", message))
    of = "the loss" if weight == 1 else f"the loss of weight {weight:g}"
    lifted = "{start}; it rises by up to {rise}"
    pattern, sentence = "rise and return", f"is back at its start after {{steps}}, {lifted}"
    if never:
        falls = rise[0] - (limit[0] - start[0]) >= _VISIBLE
        pattern = "rise and partial fall" if falls else "rise"
        sentence = f"never comes back to its start, {lifted}"
    elif not back:
        pattern, sentence = "no rise", "never rises above its start, {start}"
    return losses.answer(
        "turning length", f"{of} {sentence}", values, level=level, notes=notes,
        facts={"pattern": pattern, "never": never},
    )  # fmt: skip
