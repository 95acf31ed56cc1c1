"""The learning rates at whose end a law of loss curves predicts the lowest loss, and its limits.

Beyond the papers; the balance of several losses is that of Wang 2025, eq. 5, over every rate of
a run instead of its peak alone.

Candidates rise to a level, keep it, fall once on a straight line, and keep the rate below. Where
areas are plain (``epsilon=None``) no schedule that never rises after its warm-up is better: S1 and
S2 at the end are linear in the rates, and such rates are mixtures of those that fall once, at step
k, from the peak to the floor. Of these S2 over S1 is a concave curve (a fall at k adds Σ λ^j over
the steps that remain), so that every pair of areas within reach belongs to three numbers: the
level, the step at which the fall begins, and its depth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw import schedules
from jaxlaw._answer import Answer
from jaxlaw._areas import PhaseAreas
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import checked_number, written
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, StepCount, checked
from jaxlaw.data import AREAS, UNKNOWN_BASE_RATE, areas_along
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._continual_pretraining import (
    ContinualPretraining,
    Layout,
    counted_as,
    final_areas,
    layout_of,
    predicted,
)
from jaxlaw.planning._frame import fewest_degrees, law_inputs, plan_answer, source_notes
from jaxlaw.schedules import Schedule
from jaxlaw.uncertainty import LEVEL, Draws, as_draws

# Whether momentum is weighted with the rate → points of the first grid along the numbers of a
# point, of the finer ones around the best, and by how much closer each of these is.
_GRIDS = {
    False: ((9, 257, 5), (7, 13, 7), 1 / 3),
    True: ((3, 33, 3, 5, 4, 4), (3, 5, 3, 3, 3, 3), 1 / 2),
}
_MOST = 1000  # draws whose own best schedule is searched
_SUDDEN = 0.05  # share of the steps; a fall within fewer is a cliff
_IDLE = 0.05  # share of the steps; more of them without a rate are worth a warning
_DRAWN = 200  # steps of a picture


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
) -> Answer:
    """The rates of a run of fixed length at whose end the predicted loss is lowest.

    What such a law cannot know:

    - Where areas are plain (``epsilon=None``) and S2 lowers the loss, the best rates are always
      the peak, then, at once, the floor. S1 does not ask when a rate was used, and momentum
      forgets an early one: given its sum, every rate is best used early. The law was fitted to
      smooth schedules and says nothing against a cliff; ``shortest_decay`` does.
    - Nothing limits what S2 is worth, and it grows while the rate is at 0, where nothing is
      trained: hence long tails at the floor. A floor above 0, or the variant that weights
      momentum with the rate (``epsilon``, a law fitted with such areas), limits them.
    - Stability at high rates, noise and batch size are not in it: by it more peak is better.
    - A schedule far from the fitted ones is an extrapolation. S1 and S2 outside the fitted
      ranges are noted; a new pair of values inside them is not. Try it at small scale first.

    Args:
        fit: Fit, (law, params) or bootstrap; or a list of them, whose losses are balanced.
            The search is of the fit itself; a bootstrap adds intervals and, where areas are
            plain, what is best for each of the first 1,000 draws.
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
            the fit, or None. With it the length of the fall is searched too.
        level: confidence level of the intervals.

    Returns:
        Answer with ``loss`` at the last step (of several losses their weighted sum), in nats;
        ``decay_start`` and ``decay_end``, the steps by which a tenth and nine tenths of the fall
        are done (both the last step where there is none); with draws ``regret``, the nats by which
        this schedule is worse than a draw's own best, by its own law, in the median. Tables:
        ``schedule``, ``step`` and ``lr`` of the run; ``comparison``, a row for it (``optimal``) and
        each of the usual schedules of the same steps, peak, floor and warm-up: ``loss``;
        ``loss_1``, … where they are several; areas, in learning rate × steps. Fact: ``initial_lr``,
        the rate before the first step.

    Raises:
        UsageError: an argument out of its range, weights that do not sum to 1, a law without
            areas, or one that needs an input or a pre-training that is not given.

    Example:
        >>> law = ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.5, "C": 2.0})
        >>> best = jl.planning.optimal_schedule(law, 200, 0.01, floor=1e-3, shortest_decay=40)
        >>> best.comparison["schedule"][best.comparison["loss"].idxmin()], len(best.schedule)
        ('optimal', 200)

    Shell:
        jaxlaw plan optimal-schedule curve-fit.json --steps 24000 --peak 3e-4 --floor 3e-5
            --shortest-decay 5000
    """
    pair = isinstance(fit, tuple) and len(fit) == 2 and isinstance(fit[1], Mapping)
    fits = list(fit) if isinstance(fit, list | tuple) and not pair else [fit]
    sources, inputs = _targets(fits, at, after)
    weights = (1.0,) if weights is None and len(fits) == 1 else tuple(weights or ())
    whole = math.isclose(sum(weights), 1.0, abs_tol=1e-9) and min(weights, default=0) >= 0
    if len(weights) != len(fits) or not whole:
        raise UsageError(
            f"{len(fits)} losses need a weight each, with sum 1, such as (0.3, 0.7), not {weights}"
        )
    if start is None:
        start = 0.0 if after is None else float(after.rates[-1])
    checked_number("start", start, "nonnegative")
    if not 0 <= floor < peak:
        raise UsageError(f"floor is {floor}; it must be 0 or more, and below the peak, {peak}")
    if not (shortest_decay >= 1 and shortest_decay == int(shortest_decay)):
        raise UsageError(f"shortest_decay is {shortest_decay}; it is a number of steps, 1 or more")
    options = counted_as(
        *fits, decay=decay, carry_momentum=carry_momentum, count_warmup=count_warmup,
        epsilon=epsilon,
    )  # fmt: skip
    # Of a law of an unknown base this run is the continued phase; any other begins by itself.
    based = after is not None or all("S1" not in source.law.input_names for source in sources)
    run = ContinualPretraining(after, steps, peak, shape="wsd", warmup=warmup, start=start)
    layout, numbers = layout_of(run, options)
    layout = layout._replace(shape="lines", **{} if based else {"pretraining": "itself"})
    laws = tuple(source.law for source in sources)
    falls = _Falls(laws, inputs, weights, layout, numbers, run, floor, shortest_decay)
    best = falls.lowest(tuple({k: v[0] for k, v in source.values.items()} for source in sources))

    each = {"optimal": falls.schedule(best)}
    for name in ("wsd", "linear", "cosine", "constant"):
        end = {} if name == "constant" else {"final": floor}
        usual = getattr(schedules, name)(peak, steps - warmup, **end)
        each[name] = schedules.warmup(usual, warmup, start) if warmup else usual
    ends = pd.concat(
        pd.DataFrame(areas_along(
            one if after is None else schedules.join(after, one),
            np.array([steps + len(after or ())]), options, alone="cpt" if based else "pt",
        ))
        for one in each.values()
    )  # fmt: skip
    areas = PhaseAreas(*(ends[name].to_numpy() for name in PhaseAreas._fields))
    params = tuple(source.values for source in sources)
    with in_float64():
        # (losses, 1 + R, schedules)
        alone = np.stack([
            np.broadcast_to(predicted(law, _column(p), areas, x), (sources[0].rows, len(each)))
            for law, p, x in zip(laws, params, inputs, strict=True)
        ])  # fmt: skip
    losses = np.tensordot(weights, alone, 1)
    if not np.isfinite(losses[0, 0]):
        raise UsageError("no schedule has a finite predicted loss; check the law's parameters")
    comparison = pd.DataFrame({"schedule": [*each], "loss": losses[0]})
    if len(fits) > 1:
        comparison = comparison.assign(**{f"loss_{k}": x[0] for k, x in enumerate(alone, 1)})
    comparison = comparison.assign(**(areas.whole if after is None else areas)._asdict())

    values = {"loss": losses[:, 0], **falls.dated(best)}
    if len(losses) > 1 and not layout.weighted:
        few = tuple(_column({k: v[1 : _MOST + 1] for k, v in p.items()}) for p in params)
        own = falls.lowest(few, len(losses[1 : _MOST + 1]))
        theirs, ours = (falls.losses(x, few)[:, 0] for x in (own[:, None], best[None, None]))
        own = np.where((ours > theirs)[:, None], own, best)
        regret = np.maximum(ours - theirs, 0.0)
        values["regret"] = np.append(np.median(regret), regret)
        for name, dates in falls.dated(own).items():
            values[name] = np.append(values[name], dates)
    usual = comparison.loc[1:, "loss"]
    gain = written(usual.min() - losses[0, 0], sources[0].fit.target_unit)
    rates = each["optimal"]
    drawn = np.unique(np.linspace(1, steps, _DRAWN).astype(int))
    return plan_answer(
        "optimal schedule",
        f"loss {{loss}} after {steps:,} steps, {gain} below the best usual schedule "
        f"({comparison['schedule'][usual.idxmin()]}): the fall begins after {{decay_start}} and "
        "ends after {decay_end}",
        sources[0], values, level=level, degrees=fewest_degrees(sources),
        units={
            **dict.fromkeys(("regret", *comparison.filter(like="loss")), TARGET),
            **dict.fromkeys(("decay_start", "decay_end", "step"), "steps"),
        },
        tables={
            "schedule": pd.DataFrame({"step": np.arange(1, steps + 1), "lr": rates.rates}),
            "comparison": comparison,
        },
        facts={"initial_lr": UNKNOWN_BASE_RATE if based and after is None else rates.initial_lr},
        notes=[
            *_range_notes(sources, inputs, areas),
            *_shape_notes(rates.rates[max(warmup, 1) - 1 :], peak),
        ],
        curves={"rates": pd.DataFrame({
            "step": drawn, **{name: one.rates[drawn - 1] for name, one in each.items()}
        })},
    )  # fmt: skip


def _column(params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters (rows,) as (rows, 1), beside an axis of schedules."""
    return {name: rows[:, None] for name, rows in params.items()}


def _targets(
    fits: Sequence[Any], at: Any, after: Schedule | None
) -> tuple[tuple[Draws, ...], tuple[dict[str, float], ...]]:
    """The losses, and of each its inputs beside areas, in its law's own units."""
    sources = as_draws(*fits)
    each = [at] * len(fits) if at is None or isinstance(at, Mapping) else at
    for source in sources:
        law = source.law
        if not {"S1", "S1_cpt"} & {*law.input_names} or law.target != "loss" or law.inputs_per_drop:
            raise UsageError(
                f"law {law.name} takes no areas of a schedule, or predicts no loss from them "
                "alone; use one such as annealing or cpt-curve, or compare by predict_curve"
            )
        if after is None and "S1_pt" in law.input_names:
            raise UsageError(f"law {law.name} needs the pre-training: give after=, its Schedule")
    return sources, tuple(law_inputs(*one, AREAS) for one in zip(sources, each, strict=True))


class _Falls(NamedTuple):
    """Schedules that fall once, and the losses at their ends.

    A point is (level, step, depth), each in [0, 1]: the rate before the fall as a share of the way
    from floor to peak; where the fall begins, 1 for none; the share of that rate (above the floor)
    that falls off. Where momentum is weighted with the rate, three more numbers bend the fall: how
    long it takes beyond the shortest, and at which shares of its steps and of its depth it goes on
    at another slope.
    """

    laws: tuple[Law, ...]
    inputs: tuple[dict[str, float], ...]
    weights: tuple[float, ...]
    layout: Layout
    numbers: dict[str, float]
    run: ContinualPretraining
    floor: float
    shortest: int

    def lines(self, points: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Steps and last rate of each line of points (…, d): level, two of the fall, the rest."""
        level, step, depth, *bend = np.moveaxis(points, -1, 0)
        longer, share, of_depth = bend or (0.0, 1.0, 1.0)
        span, free = self.run.peak - self.floor, self.run.steps - self.run.warmup
        level = self.floor + level * span
        # The first step has the level. Denser towards the end, where each step counts.
        to_go = np.rint((self.run.steps - max(self.run.warmup, 1)) * (1 - step) ** 2)
        whole = self.shortest + np.rint(longer * np.maximum(to_go - self.shortest, 0))
        first, drop = np.rint(share * whole), depth * (level - self.floor)
        # Neither line may fall faster than from peak to floor in the shortest time.
        most, rest = (n * span / self.shortest for n in (first, whole - first))
        bent = np.clip(of_depth * drop, drop - rest, most)

        def rate(n: np.ndarray) -> np.ndarray:
            second = (drop - bent) * (n - first) / np.maximum(whole - first, 1)
            return level - np.where(n <= first, bent * n / np.maximum(first, 1), bent + second)

        lasts = np.minimum(to_go, whole)  # a late fall is cut off by the end
        begun = np.minimum(first, lasts)
        middle, end = rate(begun), rate(lasts)
        return [(free - to_go, level), (begun, middle), (lasts - begun, end), (to_go - lasts, end)]

    def losses(self, points: np.ndarray, params: Any) -> np.ndarray:
        """The weighted sum of the losses of points (…, d)."""
        lines = self.lines(points)
        at = {"steps": np.full_like(lines[0][1], self.run.steps), "peak": lines[0][1]}
        with in_float64():
            losses = _losses(
                self.laws, self.layout, params, self.inputs, self.weights, self.numbers,
                {**at, "lines": lines},
            )  # fmt: skip
        return np.broadcast_to(losses, (*np.shape(losses)[: points.ndim - 2], points.shape[-2]))

    def lowest(self, params: Any, rows: int = 0) -> np.ndarray:
        """The best points (d,), or (rows, d) where parameters have rows (rows, 1).

        A grid over everything, then ever finer ones around the best point. The loss is smooth in
        the numbers of a point, so that no optimum hides between the points of the first grid.
        """

        def best_of(points: np.ndarray) -> np.ndarray:
            losses = np.broadcast_to(self.losses(points, params), points.shape[:-1])
            best = np.where(np.isnan(losses), np.inf, losses).argmin(axis=-1)
            return np.take_along_axis(points, best[..., None, None], axis=-2)[..., 0, :]

        def grid(counts: Sequence[int]) -> np.ndarray:
            sides = [np.linspace(0, 1, count) for count in counts]
            return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(counts))

        first, finer, closer = _GRIDS[self.layout.weighted]
        coarse, fine = grid(first), grid(finer) - 0.5
        best = best_of(np.broadcast_to(coarse, (*[rows] * bool(rows), *coarse.shape)))
        width = 3 / (np.array(first) - 1)  # a cell and a half to either side
        while width[0] > 1e-9 or width[1] * self.run.steps > 0.25:
            # The best point itself is in the middle: no step makes it worse.
            best = best_of(np.clip(best[..., None, :] + fine * width, 0, 1))
            width = width * closer
        return best

    def dated(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Steps (…) by which a tenth and nine tenths of the fall are done; without one the last."""
        (begin, level), (first, middle), (second, end), _ = self.lines(points)
        fall, bent = level - end, level - middle
        least, dates = 1e-300, {}
        for name, share in (("decay_start", 0.1), ("decay_end", 0.9)):
            beyond = share * fall - bent  # of the first line
            steps = np.where(
                beyond <= 1e-12 * fall, first * share * fall / np.maximum(bent, least),
                first + second * beyond / np.maximum(fall - bent, least),
            )  # fmt: skip
            date = self.run.warmup + begin + np.ceil(steps - 1e-9)
            dates[name] = np.where(fall > 1e-6 * self.run.peak, date, self.run.steps)
        return dates

    def schedule(self, point: np.ndarray) -> Schedule:
        """The schedule of a point (d,)."""
        lines, warmup, start = self.lines(point), int(self.run.warmup), self.run.start
        free, before = [], lines[0][1]
        for steps, rate in lines:
            free.append(before + (rate - before) * np.arange(1, steps + 1) / max(steps, 1))
            before = rate
        # The warm-up is a straight line to the first free rate, which is its last step.
        free = np.concatenate([[lines[0][1]] * bool(warmup), *free])
        # Rounding must not carry a rate past a limit, or make one rise.
        free = np.minimum.accumulate(np.clip(free, self.floor, self.run.peak))
        way = np.arange(1, warmup) / max(warmup, 1)
        rates = np.concatenate([start * (1 - way) + free[0] * way, free])
        return Schedule(rates, start if warmup else float(free[0]), None, "optimal")


@compiled(static_argnames=("laws", "layout"))
def _losses(
    laws: Any, layout: Layout, params: Any, inputs: Any, weights: Any, numbers: Any, at: Any
) -> Any:
    """The weighted sum of the losses; parameters and settings broadcast."""
    areas = final_areas(layout, numbers, at)
    each = zip(weights, laws, params, inputs, strict=True)
    return sum(weight * predicted(law, p, areas, x) for weight, law, p, x in each)


def _range_notes(
    sources: Sequence[Draws], inputs: Sequence[Mapping[str, float]], areas: PhaseAreas
) -> list[Note]:
    """Where the best schedule is outside what a fit has seen; the fits' own warnings."""
    notes, ends = [], areas._asdict() | areas.whole._asdict()
    for k, (source, own) in enumerate(zip(sources, inputs, strict=True), 1):
        values = {name: float(area[0]) for name, area in ends.items()} | dict(own)
        at = {name: values[name] / source.units[name] for name in source.law.input_names}
        notes += source_notes(source, "" if len(sources) == 1 else f"loss_{k}", **at)
    return notes


def _shape_notes(free: np.ndarray, peak: float) -> list[Note]:
    """Falls that are cliffs and tails that train nothing."""
    notes, fall = [], free[0] - free[-1]
    begun, ended = ((free >= free[0] - share * fall).sum() for share in (0.1, 0.9))
    if fall > 0.1 * peak and ended - begun < _SUDDEN * len(free):
        message = (
            f"the rate falls from {free[0]:.3g} to {free[-1]:.3g} in {ended - begun + 1} steps: "
            "the law, fitted to smooth schedules, says nothing against it; shortest_decay= does"
        )
        notes.append(Note("cliff", "warning", message))
    idle = int((free <= 1e-3 * peak).sum())
    if idle > _IDLE * len(free):
        message = (
            f"the last {idle} steps have a rate below a thousandth of the peak, where nothing is "
            "trained; the law credits their annealing area all the same: use a floor above 0"
        )
        notes.append(Note("idle-tail", "warning", message))
    return notes
