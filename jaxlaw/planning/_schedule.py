"""The learning rates at whose end a law of loss curves predicts the lowest loss, and its limits.

Beyond the papers; the balance of several losses is that of Wang 2025, eq. 5, over every rate of
a run instead of its peak alone.

Where areas are plain (``epsilon=None``) the search is exhaustive. S1 and S2 at the end of a run are
linear in its rates, and the rates that never rise are mixtures of those that fall once: from the
peak to the floor, beginning at step k. Of these, S2 over S1 is a concave curve (a fall at k adds
Σ λ^j over the steps that remain), so that every pair of areas within reach belongs to three
numbers: the level before the fall, the step it begins at, and its depth. These are scanned. Where
momentum is weighted with the rate (``epsilon``) S2 is not linear, and candidates of one fall each
are tried, of any begin, length, depth and curvature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw import schedules
from jaxlaw._areas import Areas, PhaseAreas, areas, phase_areas
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import SHARE, checked_number, written
from jaxlaw._result import TARGET, Result
from jaxlaw._typed import (
    ConfidenceLevel,
    StepCount,
    checked,
)
from jaxlaw.data import AREAS, UNKNOWN_BASE_RATE, for_unknown_base
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._continual_pretraining import counted_as
from jaxlaw.planning._frame import fewest_degrees, source_notes, units_of
from jaxlaw.schedules import Schedule
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, intervals

_FALL = ("decay_start", "decay_end")
_USUAL = ("wsd", "linear", "cosine", "constant")
_LONGEST = 1000  # times the run: the longest shortest decay
_BEGINS = 129  # steps at which a fall may begin in the first scan, evenly spread; as many denser
_ROUNDS, _CANDIDATES, _CLOSER = 24, 64, 0.8  # of the search with epsilon
_MOST = 1000  # draws whose own best schedule is searched
_SUDDEN = 0.05  # share of the steps; a fall within fewer is a cliff
_IDLE = 0.05  # share of the steps; more of them without a rate are worth a warning

_BEYOND = Note(
    "beyond-the-law",
    "info",
    "the law knows S1 and S2 only: not the stability of training at high rates, its noise, or "
    "schedules unlike those it was fitted to; try this one at small scale first",
)


@dataclass(frozen=True, eq=False, repr=False)
class OptimalSchedule(Result):
    """The best schedule found, and what to compare it with.

    Attributes:
        schedule: best rates; those of ``after`` come first, with the boundary.
        loss: predicted loss at the last step, in nats; of several losses, their weighted sum.
        areas: areas at the last step: Areas, or PhaseAreas with ``after``.
        decay_start, decay_end: steps of the run (of the continued phase) by which a tenth and
            nine tenths of the fall from the first free rate to the last are done; both the
            last step where there is no fall.
        comparison: a row each for this and the usual schedules of the same steps, peak, floor
            and warm-up: ``loss``; ``loss_1``, ``loss_2``, … where they are several; areas.
        notes: findings to know before relying on it.
        units: quantity, or column of a table → (unit, what one is worth in single things).
        limits: what the rates keep: ``steps``, ``peak``, ``floor``, ``warmup``, ``start`` (the rate
            where the warm-up begins), ``shortest_decay``, and ``base_known``, 0 where nobody
            describes the pre-training.
        interval: quantity → (low, high) of a bootstrap: ``loss`` under this very schedule; where
            areas are plain, also of the first 1,000 draws' own best schedules ``best_loss``,
            ``decay_start``, ``decay_end`` and ``regret``.
        level: confidence level of the intervals.
        regret: nats by which this schedule is worse than a draw's own best, by its own
            law, in the median; NaN without draws, and with ``epsilon``.
        draws: table of a row for each of these: ``loss`` (of this schedule), ``best_loss``,
            ``regret``, ``decay_start``, ``decay_end``.

    Example:
        >>> law = ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.5, "C": 2.0})
        >>> best = jl.planning.optimal_schedule(law, 200, 0.01, floor=1e-3, shortest_decay=40)
        >>> len(best.schedule), list(best.usual)
        (200, ['wsd', 'linear', 'cosine', 'constant'])
    """

    schedule: Schedule
    loss: float = field(metadata={"unit": TARGET})
    areas: Areas | PhaseAreas
    decay_start: float = field(metadata={"unit": "steps"})
    decay_end: float = field(metadata={"unit": "steps"})
    comparison: pd.DataFrame = field(metadata={"index": "schedule"})
    notes: tuple[Note, ...]
    units: dict[str, tuple[str, float]]
    limits: dict[str, float] = field(default_factory=dict, metadata={"added": True})
    interval: dict[str, tuple[float, float]] = field(default_factory=dict)
    level: float = field(default=LEVEL, metadata={"unit": SHARE})
    regret: float = field(default=math.nan, metadata={"unit": TARGET})
    draws: pd.DataFrame = field(default_factory=pd.DataFrame, metadata={"saved": False})
    picture = "best_rates"
    column_units: ClassVar[Mapping[str, str]] = {**dict.fromkeys(AREAS, ""), "best_loss": TARGET}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a number or a column; of one of several losses that of all."""
        return self.units.get(name) or self.units.get(name.rstrip("0123456789_"))

    @property
    def usual(self) -> dict[str, Schedule]:
        """The usual schedules of the same limits, by name; none where a file lacks the limits."""
        if not self.limits:
            return {}
        boundary, after = self.schedule.boundary, None
        if boundary is not None:
            after = Schedule(self.schedule.rates[:boundary], self.schedule.initial_lr)
        whole = {name: int(self.limits[name]) for name in ("steps", "warmup", "shortest_decay")}
        return _usual(_Run(**{**self.limits, **whole}, after=after))

    @property
    def headline(self) -> str:
        """The loss, what it is worth against the usual schedules, and where the rates fall."""
        usual = self.comparison["loss"].iloc[1:]
        codes = {note.code for note in self.notes}
        gain = written(float(usual.min() - self.loss), *self.unit_of("loss"))
        beyond = "; outside the fitted runs" if "extrapolation" in codes else ""
        return (
            f"loss {self.written('loss', level=True)} after {len(self.schedule):,} steps, {gain} "
            f"below the best usual schedule ({usual.idxmin()}): the fall begins at step "
            f"{self.decay_start:,.0f} and ends at {self.decay_end:,.0f}{beyond}"
        )

    def lines(self) -> list[str]:
        """The comparison and the evidence."""
        lines = [self.readable(self.comparison).to_string(index=False, line_width=80)]
        if "regret" in self.interval:
            begin, end = (
                f"between {low:.0f} and {high:.0f}" for low, high in map(self.interval.get, _FALL)
            )
            lines.append(
                f"the fall of {len(self.draws)} draws' own best begins {begin}, ends {end}; to "
                f"them this one costs {written(self.regret, *self.unit_of('regret'))} in the "
                f"median, {self.interval['regret'][1]:.2g} at most"
            )
        return lines


@checked
def optimal_schedule(
    fit: Any,
    steps: StepCount,
    peak: float,
    *,
    weights: Sequence[float] | None = None,
    at: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    floor: float = 0.0,
    warmup: int = 0,
    start: float | None = None,
    after: Schedule | None = None,
    shortest_decay: int = 1,
    decay: float | None = None,
    carry_momentum: bool | None = None,
    count_warmup: bool | None = None,
    epsilon: float | None = None,
    level: ConfidenceLevel = LEVEL,
) -> OptimalSchedule:
    """The rates of a run of fixed length at whose end the predicted loss is lowest.

    What such a law cannot know, and the result's notes recall:

    - Where areas are plain (``epsilon=None``) and S2 lowers the loss, the best rates are always
      the peak, then, at once, the floor. S1 does not ask when a rate was used, and momentum
      forgets an early one: given its sum, every rate is best used early. The law was fitted to
      smooth schedules and says nothing against a cliff; ``shortest_decay`` does.
    - Nothing limits what S2 is worth, and it grows while the rate is at 0, where nothing is
      trained: hence long tails at the floor. A floor above 0, or the variant that weights
      momentum with the rate (``epsilon``, a law fitted with such areas), limits them.
    - Stability at high rates, noise and batch size are not in it: by it more peak is better.
    - A schedule far from the fitted ones is an extrapolation. S1 and S2 outside the fitted
      ranges are noted; a new pair of values inside them is not.

    Args:
        fit: Fit, (law, params) or bootstrap; or a list of them, whose losses are balanced.
            The search is of the fit itself; a bootstrap adds intervals and, where areas are
            plain, what is best for each draw.
        steps: number of steps of the run, or of the continued phase; warm-up included.
        peak: highest rate.
        weights: weight λ of each loss, not negative, with sum 1 (Wang 2025, eq. 5). Changes since
            the start of a phase are balanced as the losses are: they differ by a constant.
        at: values of what the law takes beside areas, such as ``{"N": 1e9}`` or
            ``{"r": 0.2}``, in the units of the fitted runs (of the law for (law, params)); for
            several losses, one mapping for all or a list.
        floor: lowest rate after the warm-up.
        warmup: steps of a straight line from ``start`` up to the first free rate, which is at
            most the peak. 0: the first step has it, and areas count no jump before it, except
            after a pre-training, from whose last rate it rises or falls at once, and for laws of
            an unknown base, whose last rate is 0 (Wang 2025, App. G).
        start: rate where the warm-up begins: 0, or the last rate of ``after``.
        after: pre-training that went before; its rates are kept. For rates that never
            rise, let ``peak`` be its last one; a higher peak bounds the re-warm-up.
        shortest_decay: steps that a fall from peak to floor takes at least: no step's fall is
            larger than (peak − floor) / shortest_decay.
        decay: decay λ of the areas; left out, that of the fit, or 0.999 where it knows none.
        carry_momentum: whether momentum goes on over the boundary
            (:func:`jaxlaw.data.phase_areas`); left out, as for the fit, or False.
        count_warmup: whether rises of a warm-up count (:func:`jaxlaw.areas`); left out, as for the
            fit, or False.
        epsilon: exponent of the rate that weights momentum (Wang 2025, App. J); left out, as for
            the fit, or None. With it 1,536 falls are tried, of any begin, length, depth and
            curvature: within 6e-5 of the lowest loss that gradients over all rates found.
        level: confidence level of the intervals.

    Returns:
        OptimalSchedule. Rates are float64, loss in nats, areas in learning rate × steps.

    Raises:
        UsageError: an argument out of its range, weights that do not sum to 1, a law without
            areas, or one that needs an input or a pre-training that is not given.

    Example:
        >>> law = ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.5, "C": 2.0})
        >>> best = jl.planning.optimal_schedule(law, 200, 0.01, floor=1e-3, shortest_decay=40)
        >>> best.comparison["loss"].idxmin()
        'optimal'
    """
    targets = _targets(fit, weights, at, after)
    run = _run(steps, peak, floor, warmup, start, after, shortest_decay)
    options = counted_as(
        *_several(fit), decay=decay, carry_momentum=carry_momentum, count_warmup=count_warmup,
        epsilon=epsilon,
    )  # fmt: skip
    if not any({"S1", "S1_pt"} & set(target.law.input_names) for target in targets):
        # The base is not known: this run is the continued phase, and its rises count.
        options["count_warmup"] = True
        run = run._replace(base_known=after is not None)
    usual, draws = _usual(run), pd.DataFrame()
    if options["epsilon"] is None:
        reach = _Reach(run, options)
        point = _scan(targets, reach)
        best = _schedule_of(run, reach.free_rates(point))
        draws = _best_of_draws(targets, reach, point)
    else:
        best = _tried(targets, run, options)
    final = [_final_areas(schedule, options) for schedule in (best, *usual.values())]
    table = _compare(targets, ["optimal", *usual], final)
    loss = float(table["loss"].iloc[0])
    if not np.isfinite(loss):
        raise UsageError("no schedule has a finite predicted loss; check the law's parameters")
    free = best.rates[-steps:][run.first - 1 :]
    return OptimalSchedule(
        best, loss, final[0], *_fall_of(free, run), table,
        notes=(
            *_range_notes(targets, final[0]), *_shape_notes(free, run), _BEYOND,
        ),
        limits=run.limits,
        interval=_intervals(targets, final[0], draws, level), level=level,
        regret=float(draws["regret"].median()) if len(draws) else math.nan,
        units=units_of(OptimalSchedule, targets[0].source),
        draws=draws,
    )  # fmt: skip


class _Target(NamedTuple):
    """One of the losses."""

    law: Law
    params: dict[str, Any]
    inputs: dict[str, float]  # beside areas, in the law's own units
    weight: float
    source: Draws


class _Run(NamedTuple):
    """The limits that the rates keep."""

    steps: int
    peak: float
    floor: float
    warmup: int
    start: float
    after: Schedule | None
    shortest_decay: int
    base_known: bool = True  # False: a continual phase whose pre-training nobody describes

    @property
    def limits(self) -> dict[str, float]:
        """All but the pre-training, as files hold it."""
        return {name: float(v) for name, v in self._asdict().items() if name != "after"}

    @property
    def first(self) -> int:
        """The first step whose rate is free."""
        return max(self.warmup, 1)

    @property
    def n_free(self) -> int:
        """Number of steps whose rate is free."""
        return self.steps - self.first + 1


def _several(fit: Any) -> list[Any]:
    """One or more fits as a list."""
    pair = isinstance(fit, tuple) and len(fit) == 2 and isinstance(fit[1], Mapping)
    return list(fit) if isinstance(fit, list | tuple) and not pair else [fit]


def _targets(fit: Any, weights: Any, inputs: Any, after: Schedule | None) -> tuple[_Target, ...]:
    fits = as_draws(*_several(fit))
    if weights is None and len(fits) == 1:
        weights = (1.0,)
    if weights is None or len(weights) != len(fits):
        raise UsageError(f"{len(fits)} losses need weights, one each, such as weights=(0.3, 0.7)")
    if not (min(weights) >= 0 and math.isclose(sum(weights), 1.0, abs_tol=1e-9)):
        raise UsageError(
            f"weights are {tuple(weights)}; none may be negative, and their sum is 1",
            argument="weights",
            value=weights,
        )
    given = [inputs or {}] * len(fits) if inputs is None or isinstance(inputs, Mapping) else inputs
    if len(given) != len(fits):
        raise UsageError(
            f"at is {len(given)} mappings for {len(fits)} losses; one for each",
            argument="at",
            value=inputs,
        )
    targets = []
    for source, values, weight in zip(fits, given, weights, strict=True):
        params = {name: float(rows[0]) for name, rows in source.values.items()}
        values = {name: float(v) * source.units.get(name, 1.0) for name, v in values.items()}
        targets.append(_Target(source.law, params, values, float(weight), source))
        _check_inputs(targets[-1], after)
    return tuple(targets)


def _check_inputs(target: _Target, after: Schedule | None) -> None:
    law, given = target.law, target.inputs
    if not {"S1", "S1_cpt"} & set(law.input_names) or law.target != "loss":
        raise UsageError(
            f"law {law.name} takes no areas of a schedule, or predicts no loss; use a law of loss "
            "curves, such as annealing or cpt-curve"
        )
    if law.inputs_per_drop:
        raise UsageError(
            f"law {law.name} takes every drop of a schedule, and this search areas at its end "
            "alone; use annealing or cpt-curve, or compare schedules with predict_curve"
        )
    for name in given:
        if name not in law.input_names:
            raise UsageError(
                f"law {law.name} has no input '{name}'.{nearest(name, law.input_names)}"
            )
    missing = [name for name in law.input_names if name not in given]
    if after is None and {"S1_pt", "S2_pt"} & set(missing):
        raise UsageError(f"law {law.name} needs the pre-training: give after=, its Schedule")
    others = [name for name in missing if name not in AREAS]
    if others:
        raise UsageError(f"law {law.name} needs at={{'{others[0]}': …}}")


def _run(
    steps: int, peak: float, floor: float, warmup: int, start: float | None,
    after: Schedule | None, shortest_decay: int,
) -> _Run:  # fmt: skip
    if not _is_whole(steps, 1):
        raise UsageError(
            f"steps is {steps}; it must be a whole number, 1 or more", argument="steps", value=steps
        )
    checked_number("peak", peak)
    if not 0 <= floor < peak:
        raise UsageError(
            f"floor is {floor}; it must be 0 or more, and below the peak, {peak}",
            argument="floor",
            value=floor,
        )
    if not _is_whole(warmup, 0, steps - 1):
        raise UsageError(
            f"warmup is {warmup}, but the run has {steps} steps; use 0 to {steps - 1}",
            argument="warmup",
            value=warmup,
        )
    if not _is_whole(shortest_decay, 1):
        raise UsageError(
            f"shortest_decay is {shortest_decay}; it is a number of steps, 1 or more",
            argument="shortest_decay",
            value=shortest_decay,
        )
    if shortest_decay > _LONGEST * steps:  # such a fall never gets far
        raise UsageError(
            f"shortest_decay is {shortest_decay}, the run has {steps} steps; {_LONGEST} times as "
            "many at most",
            argument="shortest_decay",
            value=shortest_decay,
        )
    if after is not None and after.boundary is not None:
        raise UsageError("after= has two phases already; give the pre-training alone")
    if start is None:
        start = 0.0 if after is None else float(after.rates[-1])
    checked_number("start", start, "nonnegative")
    return _Run(
        int(steps), float(peak), float(floor), int(warmup), float(start), after,
        int(shortest_decay),
    )  # fmt: skip


def _is_whole(value: float, least: float, most: float = np.inf) -> bool:
    return least <= value <= most and value == int(value)


def _schedule_of(run: _Run, free: np.ndarray) -> Schedule:
    """The whole schedule of the free rates; where rounding broke a limit it is restored."""
    free = np.minimum.accumulate(np.clip(free, run.floor, run.peak))
    initial = run.start if run.warmup else float(free[0])
    # The warm-up is a straight line to the first free rate, which is its last step.
    way = np.arange(1, run.warmup) / max(run.warmup, 1)
    rates = np.concatenate([run.start * (1 - way) + free[0] * way, free])
    return _completed(run, Schedule(rates, initial, None, "optimal"))


def _completed(run: _Run, schedule: Schedule) -> Schedule:
    """The run after its pre-training, or after the one nobody describes."""
    schedule = schedule if run.base_known else for_unknown_base(schedule)
    return schedule if run.after is None else schedules.join(run.after, schedule)


def _usual(run: _Run) -> dict[str, Schedule]:
    """The usual schedules under the same limits."""
    made = {}
    for name in _USUAL:
        final = {} if name == "constant" else {"final": run.floor}
        schedule = getattr(schedules, name)(run.peak, run.steps - run.warmup, **final)
        schedule = schedules.warmup(schedule, run.warmup, run.start) if run.warmup else schedule
        made[name] = _completed(run, schedule)
    return made


def _final_areas(schedule: Schedule, options: Mapping[str, Any]) -> Areas | PhaseAreas:
    """Areas after the last step, as numbers; rises of a continued phase always count."""
    at = [len(schedule)]
    if schedule.boundary is None:
        rest = {name: v for name, v in options.items() if name != "carry_momentum"}
        values = areas(schedule, at=at, **rest)
    else:
        counts = (options["count_warmup"], True)
        values = phase_areas(schedule, at=at, **{**options, "count_warmup": counts})
    return type(values)(*(float(value[0]) for value in values))


def _by_name(final: Areas | PhaseAreas) -> dict[str, Any]:
    """Areas under every name by which a law may ask for them."""
    if isinstance(final, PhaseAreas):
        return final._asdict() | final.whole._asdict()
    return {"S1": final.S1, "S2": final.S2, "S1_cpt": final.S1, "S2_cpt": final.S2}


def _predicted(law: Law, params: Any, inputs: Any, final: Areas | PhaseAreas) -> Any:
    """What a law says of areas at the end, and of its other inputs, in its own units."""
    values = _by_name(final) | inputs
    return law(params, **{name: values[name] for name in law.input_names})


@compiled(static_argnames="which")
def _weighted(which: tuple[Law, ...], values: Any, final: Any) -> Any:
    """The weighted sum of the losses; parameters and areas broadcast."""
    each = zip(which, values, strict=True)
    return sum(weight * _predicted(law, p, x, final) for law, (weight, p, x) in each)


def _losses(targets: Sequence[_Target], final: Areas | PhaseAreas) -> np.ndarray:
    """The weighted sum at the ends of schedules, on the host."""
    which = tuple(target.law for target in targets)
    values = [(target.weight, target.params, target.inputs) for target in targets]
    with in_float64():
        return np.asarray(_weighted(which, values, final))


class _Reach:
    """Areas within reach of a run, where they are plain, in closed form.

    A point is (level, step, depth), each in [0, 1]: the rate before the fall as a share of the way
    from floor to peak; where the fall begins among ``begins``, 1 for no fall; and the share of
    that rate (above the floor) that falls off, within ``shortest_decay`` steps.

    Attributes:
        begins: steps to go at the falls of a first scan, from most to none. Half of them are evenly
            spread; the others lie ever denser towards the end, where a fall of a step more or
            less counts as long as momentum remembers it. Between them other steps are found later.
    """

    def __init__(self, run: _Run, options: Mapping[str, Any]) -> None:
        self.run = run
        # Without a fall, areas are linear in the level of the rates on either side of the level
        # where the warm-up turns from a rise (which may not count) into a fall (which does).
        turn = np.clip((run.start - run.floor) / (run.peak - run.floor), 0, 1)
        self.levels = np.array([0.0, turn, 1.0])
        flat = [np.full(run.n_free, run.floor + x * (run.peak - run.floor)) for x in self.levels]
        final = [_final_areas(_schedule_of(run, level), options) for level in flat]
        self.flat = type(final[0])(*map(np.array, zip(*final, strict=True)))
        # A fall by 1 with m steps to go takes m off S1 and adds Σ_{j<m} λ^j to S2. Falls within
        # shortest_decay steps are the mean of as many such falls, and a mean over consecutive m
        # is a difference of two sums.
        to_go = np.arange(run.n_free + 1)
        remembered = np.append(0.0, np.cumsum(float(options["decay"]) ** to_go[:-1]))
        self.off_S1, self.on_S2 = (
            (sums - sums[np.maximum(to_go - run.shortest_decay, 0)]) / run.shortest_decay
            for sums in (np.cumsum(to_go, dtype=float), np.cumsum(remembered))
        )

        most = run.n_free - 1
        dense = np.geomspace(1, most, _BEGINS) if most else 0
        begins = np.append(np.linspace(0, most, _BEGINS), dense)
        self.begins = np.unique(np.rint(begins))[::-1]

    def _steps_to_go(self, step: np.ndarray) -> np.ndarray:
        position = step * (len(self.begins) - 1)
        return np.rint(np.interp(position, np.arange(len(self.begins)), self.begins)).astype(int)

    def areas(self, points: np.ndarray) -> Areas | PhaseAreas:
        """Areas at the end of the schedules of points (…, 3)."""
        level, step, depth = np.moveaxis(points, -1, 0)
        fall = level * depth * (self.run.peak - self.run.floor)
        flat = {
            name: np.interp(level, self.levels, areas)
            for name, areas in self.flat._asdict().items()
        }
        S1, S2 = ("S1", "S2") if isinstance(self.flat, Areas) else ("S1_cpt", "S2_cpt")
        to_go = self._steps_to_go(step)
        flat[S1] = flat[S1] - fall * self.off_S1[to_go]
        flat[S2] = flat[S2] + fall * self.on_S2[to_go]
        return type(self.flat)(**flat)

    def fall_of(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps (…) by which a tenth and nine tenths of the fall are done; without one the last."""
        level, step, depth = np.moveaxis(points, -1, 0)
        to_go, run = self._steps_to_go(step), self.run
        lasts = np.minimum(to_go, run.shortest_decay)  # a late fall is cut off by the end
        none = level * depth * lasts / run.shortest_decay <= 1e-6
        begin = run.first + run.n_free - to_go - 1
        return tuple(
            np.where(none, run.steps, begin + np.ceil(share * lasts - 1e-9)) for share in (0.1, 0.9)
        )

    def free_rates(self, point: np.ndarray) -> np.ndarray:
        """The free rates of one point (3,)."""
        run, (level, step, depth) = self.run, point
        begin = run.n_free - int(self._steps_to_go(step))
        fallen = np.clip((np.arange(run.n_free) - begin + 1) / run.shortest_decay, 0, 1)
        rates = run.floor + level * (run.peak - run.floor) * (1 - depth * fallen)
        return np.clip(rates, run.floor, run.peak)  # rounding may carry a rate past a limit


def _scan(targets: Sequence[_Target], reach: _Reach, rows: int = 0) -> np.ndarray:
    """The best points (3,), or (rows, 3) where parameters have rows (rows, 1).

    A grid over everything, then ever finer ones around the best point. The loss is smooth in the
    three numbers, so that no optimum hides between the points of the first grid.
    """
    shape = (rows,) if rows else ()

    def best_of(points: np.ndarray) -> np.ndarray:
        losses = np.broadcast_to(_losses(targets, reach.areas(points)), points.shape[:-1])
        losses = np.where(np.isnan(losses), np.inf, losses)
        return np.take_along_axis(points, losses.argmin(axis=-1)[..., None, None], axis=-2)[
            ..., 0, :
        ]

    def grid(*counts: int) -> np.ndarray:
        sides = [np.linspace(0, 1, count) for count in counts]
        return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 3)

    # One size for all runs: the law is compiled for it once.
    coarse, fine = grid(9, 2 * _BEGINS, 5), grid(7, 13, 7) - 0.5
    best = best_of(np.broadcast_to(coarse, (*shape, *coarse.shape)))
    apart = np.diff(reach.begins, append=0).min()
    widest = -apart * len(reach.begins)  # steps in a unit of the second number
    width = np.array([3 / 8, 3 / (2 * _BEGINS - 1), 3 / 4])  # a cell and a half to either side
    while width[0] > 1e-9 or width[1] * widest > 0.5:
        # The best point itself is in the middle: no step makes it worse.
        around = np.clip(best[..., None, :] + fine * width, 0, 1)
        best, width = best_of(around), width / 3
    return best


def _best_of_draws(targets: Sequence[_Target], reach: _Reach, best: np.ndarray) -> pd.DataFrame:
    """``OptimalSchedule.draws``, for the point that is best for the fits themselves."""
    count = min(targets[0].source.rows - 1, _MOST)
    if not count:
        return pd.DataFrame()
    each = [
        target._replace(params={k: v[1 : count + 1, None] for k, v in target.source.values.items()})
        for target in targets
    ]
    own_points = _scan(each, reach, count)
    losses, own_losses = (
        np.broadcast_to(_losses(each, reach.areas(points)), (count, 1))[:, 0]
        for points in (best[None, None], own_points[:, None])
    )
    better = losses > own_losses
    own_points = np.where(better[:, None], own_points, best)
    columns = {"loss": losses, "best_loss": np.where(better, own_losses, losses)}
    columns["regret"] = columns["loss"] - columns["best_loss"]
    return pd.DataFrame(columns | dict(zip(_FALL, reach.fall_of(own_points), strict=True)))


def _fall_of(free: np.ndarray, run: _Run) -> tuple[float, float]:
    """Steps by which a tenth and nine tenths of the fall are done; without one the last."""
    fall = free[0] - free[-1]
    if fall <= 1e-6 * run.peak:
        return float(run.steps), float(run.steps)
    # The last digits of rates on a straight line must not decide on a step.
    done = (free[0] - free) / fall + 1e-9
    begun, ended = (float(run.first + np.argmax(done >= share)) for share in (0.1, 0.9))
    return begun, ended


def _tried(targets: Sequence[_Target], run: _Run, options: Mapping[str, Any]) -> Schedule:
    """The best of many falls from one level, where areas are no closed form of the rates.

    A candidate is (level, begin, length, depth, and two exponents of the curve of its fall), each
    in [0, 1]. Candidates are spread over all, then ever closer around the best one.
    """
    to_go = np.arange(run.n_free, 0, -1)  # of each free step
    way = np.arange(1, run.warmup) / max(run.warmup, 1)

    def free_rates(points: np.ndarray) -> np.ndarray:
        """Rates (n, free steps) of candidates (n, 6)."""
        level, step, length, depth, *powers = points.T[:, :, None]
        rest = run.n_free * (1 - step) ** 2  # denser towards the end
        done = np.clip((rest - to_go + 1) / np.maximum(length * rest, 1), 0, 1)
        a, b = (np.exp(3 * power - 1.5) for power in powers)
        # No fall in one step is beyond its share: each is the mean of as many.
        sums = np.cumsum(1 - (1 - done**a) ** b, axis=1)
        before = np.pad(sums, ((0, 0), (min(run.shortest_decay, run.n_free), 0)))
        fallen = (sums - before[:, : run.n_free]) / run.shortest_decay
        return run.floor + (run.peak - run.floor) * level * (1 - depth * fallen)

    def loss(free: Any) -> Any:
        rates = jnp.concatenate([run.start * (1 - way) + free[0] * way, free])
        initial = run.start if run.warmup else free[0]
        initial = initial if run.base_known else UNKNOWN_BASE_RATE
        rest = {name: v for name, v in options.items() if name != "carry_momentum"}
        if run.after is None:
            final = areas(rates, initial_lr=initial, at=[run.steps], **rest)
        else:
            counts, before = (options["count_warmup"], True), run.after
            final = phase_areas(
                jnp.concatenate([before.rates, rates]), initial_lr=before.initial_lr,
                at=[len(before) + run.steps], boundary=len(before),
                **{**options, "count_warmup": counts},
            )  # fmt: skip
        final = type(final)(*(area[0] for area in final))
        return sum(t.weight * _predicted(t.law, t.params, t.inputs, final) for t in targets)

    losses = jax.jit(jax.vmap(loss))
    random = np.random.default_rng(0)
    best, least, width, rates = np.full(6, 0.5), math.inf, 1.0, np.full(run.n_free, run.peak)
    for _ in range(_ROUNDS):
        points = np.clip(best + width * random.uniform(-1, 1, (_CANDIDATES, 6)), 0, 1)
        free = free_rates(points)
        with in_float64():
            found = np.asarray(losses(jnp.asarray(free)))
        k = int(np.argmin(np.where(np.isfinite(found), found, math.inf)))
        if found[k] < least:
            best, least, rates = points[k], found[k], free[k]
        width *= _CLOSER
    return _schedule_of(run, rates)


def _compare(
    targets: tuple[_Target, ...], names: Sequence[str], final: Sequence[Areas | PhaseAreas]
) -> pd.DataFrame:
    at = type(final[0])(*map(np.array, zip(*final, strict=True)))
    table: dict[str, Any] = {"loss": _losses(targets, at)}
    if len(targets) > 1:
        alone = [_losses([target._replace(weight=1.0)], at) for target in targets]
        table |= {f"loss_{k}": column for k, column in enumerate(alone, 1)}
    return pd.DataFrame(table | at._asdict(), index=pd.Index(names, name="schedule"))


def _intervals(
    targets: tuple[_Target, ...], final: Areas | PhaseAreas, own: pd.DataFrame, level: float
) -> dict[str, tuple[float, float]]:
    """Intervals of the loss by all draws, and of what is best for those searched."""
    every = [t._replace(params=t.source.values) for t in targets]
    values = {"loss": np.atleast_1d(_losses(every, final))}
    for name in own.columns.difference(["loss"], sort=False):
        values[name] = np.append(np.nan, own[name])  # the fit itself is no draw
    return intervals(values, level, fewest_degrees([target.source for target in targets]))


_WHICH = ("first", "second", "third")


def _range_notes(targets: tuple[_Target, ...], final: Areas | PhaseAreas) -> list[Note]:
    """Where the best schedule is outside what a fit has seen; the fits' own warnings."""
    notes = []
    for k, target in enumerate(targets):
        which = "" if len(targets) == 1 else _WHICH[k] if k < len(_WHICH) else f"{k + 1}th"
        values, source = _by_name(final) | target.inputs, target.source
        at = {name: values[name] / source.units[name] for name in source.law.input_names}
        notes += source_notes(source, which, **at)
    return notes


def _shape_notes(free: np.ndarray, run: _Run) -> list[Note]:
    """Falls that are cliffs and tails that train nothing."""
    notes, fall = [], free[0] - free[-1]
    begun, ended = ((free >= free[0] - share * fall).sum() for share in (0.1, 0.9))
    if fall > 0.1 * run.peak and ended - begun < _SUDDEN * len(free):
        message = (
            f"the rate falls from {free[0]:.3g} to {free[-1]:.3g} within {ended - begun + 1} steps "
            f"near step {run.first + begun}: the law, fitted to smooth schedules, says nothing "
            "against it; shortest_decay= does"
        )
        notes.append(Note("cliff", "warning", message))
    idle = int((free <= 1e-3 * run.peak).sum())
    if idle > _IDLE * len(free):
        message = (
            f"the last {idle} steps have a rate below a thousandth of the peak, where nothing is "
            "trained; the law credits their annealing area all the same: use a floor above 0"
        )
        notes.append(Note("idle-tail", "warning", message))
    return notes
