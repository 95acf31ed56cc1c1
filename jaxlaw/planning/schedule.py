"""The learning rates at whose end a law of loss curves predicts the lowest loss, and its limits.

Beyond the papers; the balance of several losses is that of Wang 2025, eq. 5, over every learning
LR of a run instead of its peak alone.

Candidates rise to a level, keep it, fall once on a straight line, and keep the learning rate below.
No schedule that never rises after its warm-up is better: S1 and S2 at the end are linear in the
learning rates, and such learning rates are mixtures of those that fall once, at step k, from the
peak to the floor. Of these S2 over S1 is a concave curve (a fall at k adds Σ λ^j over the steps
that remain), so that every pair of areas within reach belongs to three numbers: the level, the step
at which the fall begins, and its depth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw import schedules
from jaxlaw._answer import Answer
from jaxlaw._areas import PhaseAreas
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import written
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, Count, StepCount, checked
from jaxlaw.data import AREAS, UNKNOWN_BASE_RATE, areas_along
from jaxlaw.errors import UsageError
from jaxlaw.notes import Note
from jaxlaw.planning._frame import (
    fewest_degrees,
    law_inputs,
    mesh,
    of_fit,
    plan_answer,
    source_notes,
)
from jaxlaw.planning.continual import (
    ContinualPretraining,
    Layout,
    counted_as,
    final_areas,
    layout_of,
    predicted,
    rates_of,
)
from jaxlaw.schedules import Schedule
from jaxlaw.uncertainty import LEVEL, as_draws

# Points of the first grid along the numbers of a point, of the finer ones around the best, and by
# how much closer each of these is.
_GRID, _FINER, _CLOSER = (9, 257, 5), (7, 13, 7), 1 / 3
_MOST = 1000  # draws whose own best schedule is searched
_SUDDEN = 0.05  # fraction of the steps; a fall within fewer is a cliff
_IDLE = 0.05  # fraction of the steps; more of them without a learning rate are worth a warning
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
    after: Schedule | None = None,
    shortest_decay: Count = 1,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The learning-rate schedule of fixed length with the lowest predicted final loss.

    What such a law cannot know:

    - Where S2 lowers the loss, the best LRs are always the peak, then, at once, the floor. S1
      does not ask when a learning rate was used, and momentum forgets an early one: given its sum,
      every learning rate is best used early. The law was fitted to smooth schedules and says
      nothing against a cliff; ``shortest_decay`` does.
    - Nothing limits what S2 is worth, and it grows while the learning rate is at 0, where nothing
      is trained: hence long tails at the floor. A floor above 0 limits them.
    - Stability at high learning rates, noise and batch size are not in it: it prefers the
      highest peak.
    - A schedule far from the fitted ones is an extrapolation. S1 and S2 outside the fitted
      ranges are noted; a new pair of values inside them is not. Try it at small scale first.

    Args:
        fit: Fit, (law, params) or bootstrap; or a list of them, whose losses are balanced.
            The search is of the fit itself; a bootstrap adds intervals, and what is best for each
            of the first 1,000 draws. Areas are counted as for the fit, and by
            :func:`jaxlaw.data.area_options` where it does not say.
        steps: number of steps of the run, or of the continued phase; warm-up included.
        peak: peak LR.
        weights: weight λ of each loss, not negative, with sum 1 (Wang 2025, eq. 5). Changes since
            the start of a phase are balanced as the losses are: they differ by a constant.
        at: values of what the law takes beside areas, such as ``{"N": 1e9}`` or
            ``{"r": 0.2}``, in the units of the fitted runs (of the law for (law, params)); for
            several losses, one mapping for all or a list.
        floor: lowest learning rate after the warm-up.
        warmup: steps of a straight line from 0, or from the final LR of ``after``, up to
            the first free learning rate, which is at most the peak. 0: the first step has it, and
            areas count no jump before it, except after a pre-training, from whose final LR
            it rises or falls at once, and for laws of an unknown base, whose final LR
            is 0 (Wang 2025, App. G).
        after: pre-training that went before; its learning rates are kept. For learning rates that
            never rise, let ``peak`` be its last one; a higher peak bounds the re-warm-up.
        shortest_decay: steps that a fall from peak to floor takes at least: no step's fall is
            larger than (peak − floor) / shortest_decay.
        level: confidence level of the intervals.

    Returns:
        Answer with ``loss`` at the last step (of several losses their weighted sum), in nats;
        ``decay_start`` and ``decay_end``, the steps by which a tenth and nine tenths of the fall
        are done (both the last step where there is none); with draws ``regret``, the nats by which
        this schedule is worse than a draw's own best, by its own law, in the median. Tables:
        ``schedule``, ``step`` and ``lr`` of the run; ``comparison``, a row for it (``optimal``) and
        each of the usual schedules of the same steps, peak, floor and warm-up: ``loss``;
        ``loss_1``, … where they are several; areas, in learning rate × steps. Fact: ``initial_lr``,
        the learning rate before the first step.

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
    sources, inputs = as_draws(*fits), []
    each_at = [at] * len(fits) if at is None or isinstance(at, Mapping) else at
    for source, own in zip(sources, each_at, strict=True):
        law = source.law
        if not {"S1", "S1_cpt"} & {*law.input_names} or law.target != "loss" or law.inputs_per_drop:
            raise UsageError(
                f"law {law.name} takes no areas of a schedule, or predicts no loss from them "
                "alone; use one such as annealing or cpt-curve, or compare by predict_curve"
            )
        if after is None and "S1_pt" in law.input_names:
            raise UsageError(f"law {law.name} needs the pre-training: give after=, its Schedule")
        inputs.append(law_inputs(source, own, AREAS))
    weights = (1.0,) if weights is None and len(fits) == 1 else tuple(weights or ())
    whole = math.isclose(sum(weights), 1.0, abs_tol=1e-9) and min(weights, default=0) >= 0
    if len(weights) != len(fits) or not whole:
        raise UsageError(
            f"{len(fits)} losses need a weight each, with sum 1, such as (0.3, 0.7), not {weights}"
        )
    if not 0 <= floor < peak:
        raise UsageError(f"floor is {floor}; it must be 0 or more, and below the peak, {peak}")
    # 1. The best schedule of the fit, and of each draw.
    options = counted_as(*sources)
    # Of a law of an unknown base this run is the continued phase; any other begins by itself.
    based = after is not None or all("S1" not in source.law.input_names for source in sources)
    start = 0.0 if after is None else float(after.rates[-1])
    run = ContinualPretraining(after, steps, peak, shape="wsd", warmup=warmup, start=start)
    layout, numbers = layout_of(run, options)
    layout = Layout(layout.base if based else "itself", "lines")
    laws = tuple(source.law for source in sources)
    falls = _Falls(run, floor, shortest_decay)
    params = tuple({k: v[:, None] for k, v in source.values.items()} for source in sources)
    few = tuple({k: v[: _MOST + 1] for k, v in own.items()} for own in params)

    def losses_of(points):
        """The weighted sum of the losses, (rows, n), of points (n, 3), or (rows, n, 3)."""
        lines = falls.lines(points)
        level = lines[0][1]
        at = {"steps": np.full_like(level, steps), "peak": level, "lines": lines}
        with in_float64():
            return np.asarray(_losses(laws, layout, few, tuple(inputs), weights, numbers, at))

    def best_of(points):
        losses = losses_of(points)
        best = np.where(np.isnan(losses), np.inf, losses).argmin(axis=-1)
        return np.broadcast_to(points, (*losses.shape, 3))[np.arange(len(best)), best]

    # A grid over everything, then ever finer ones around the best point. The loss is smooth in the
    # numbers of a point, so that no optimum hides between the points of the first grid.
    coarse, fine = (mesh(np.linspace(0, 1, n) for n in counts) for counts in (_GRID, _FINER))
    found, width = best_of(coarse), 3 / (np.array(_GRID) - 1)
    while width[0] > 1e-9 or width[1] * steps > 0.25:
        # A cell and a half to either side; the best point itself is in the middle, so that no
        # step makes it worse.
        found = best_of(np.clip(found[:, None] + (fine - 0.5) * width, 0, 1))
        width = width * _CLOSER
    # 2. Beside the usual ones: areas as any schedule's, and what the laws say of them.
    each = {"optimal": falls.schedule(found[0])}
    for name in ("wsd", "linear", "cosine", "constant"):
        each[name] = rates_of(replace(run, shape=name), peak, floor, start)
    ends = pd.concat(
        pd.DataFrame(areas_along(
            one if after is None else schedules.join(after, one),
            np.array([steps + len(after or ())]), options, alone="cpt" if based else "pt",
        ))
        for one in each.values()
    )  # fmt: skip
    areas = PhaseAreas(*(ends[name].to_numpy() for name in PhaseAreas._fields))
    with in_float64():
        # (losses, 1 + R, schedules)
        alone = np.stack([
            np.broadcast_to(predicted(law, p, areas, x), (sources[0].rows, len(each)))
            for law, p, x in zip(laws, params, inputs, strict=True)
        ])  # fmt: skip
    losses = np.tensordot(weights, alone, 1)
    if not np.isfinite(losses[0, 0]):
        raise UsageError("no schedule has a finite predicted loss; check the law's parameters")
    of_each = {f"loss_{k}": x[0] for k, x in enumerate(alone, 1)} if len(fits) > 1 else {}
    shown = (areas.whole if after is None else areas)._asdict()
    comparison = pd.DataFrame({"schedule": [*each], "loss": losses[0], **of_each, **shown})
    # 3. What the fit's own schedule costs by each draw, beside that draw's own best.
    theirs, ours = (losses_of(x)[:, 0] for x in (found[:, None], found[:1]))
    own = np.where((ours > theirs)[:, None], found, found[0])
    values = {"loss": losses[:, 0], **falls.dated(own)}
    if len(losses) > 1:
        regret = np.maximum(ours - theirs, 0.0)[1:]
        values["regret"] = np.append(np.median(regret), regret)
    rates, notes = each["optimal"], []
    for k, (source, own) in enumerate(zip(sources, inputs, strict=True), 1):
        points = of_fit(areas._asdict() | areas.whole._asdict())
        points = {n: (points | own)[n] / source.units[n] for n in source.law.input_names}
        notes += source_notes(source, f"loss_{k}" * (len(fits) > 1), **points)
    # Falls that are cliffs and tails that train nothing, which no fitted schedule had.
    messages, free = [], rates.rates[max(warmup, 1) - 1 :]
    fall = free[0] - free[-1]
    begun, ended = ((free >= free[0] - share * fall).sum() for share in (0.1, 0.9))
    if fall > 0.1 * peak and ended - begun < _SUDDEN * len(free):
        messages.append(
            f"the LR falls from {free[0]:.3g} to {free[-1]:.3g} in {ended - begun + 1} steps: "
            "the law, fitted to smooth schedules, says nothing against it; shortest_decay= does"
        )
    idle = int((free <= 1e-3 * peak).sum())
    if idle > _IDLE * len(free):
        messages.append(
            f"the last {idle} steps have an LR below a thousandth of the peak, where nothing is "
            "trained; the law credits their annealing area all the same: use a floor above 0"
        )
    notes += [Note("extrapolation", "warning", message) for message in messages]
    usual = comparison.loc[1:, "loss"]
    gain = written(usual.min() - losses[0, 0], sources[0].fit.target_unit)
    drawn = np.unique(np.linspace(1, steps, _DRAWN).astype(int))
    return plan_answer(
        "optimal schedule",
        f"loss {{loss}} after {steps:,} steps, {gain} below the best usual schedule "
        f"({comparison['schedule'][usual.idxmin()]}): the fall begins after {{decay_start}} and "
        "ends after {decay_end}",
        sources[0], values, level=level, degrees=fewest_degrees(sources),
        units=dict.fromkeys(comparison.filter(like="loss"), TARGET),
        tables={
            "schedule": pd.DataFrame({"step": np.arange(1, steps + 1), "lr": rates.rates}),
            "comparison": comparison,
        },
        facts={"initial_lr": UNKNOWN_BASE_RATE if based and after is None else rates.initial_lr},
        notes=notes,
        curves={"rates": pd.DataFrame({
            "step": drawn, **{name: one.rates[drawn - 1] for name, one in each.items()}
        })},
    )  # fmt: skip


class _Falls(NamedTuple):
    """Schedules that fall once.

    A point is (level, step, depth), each in [0, 1]: the LR before the fall as a fraction of the way
    from floor to peak; where the fall begins, 1 for none; the fraction of that LR (above the floor)
    that falls off.
    """

    run: ContinualPretraining
    floor: float
    shortest: int

    def lines(self, points: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Steps and final LR of each line of points (…, 3): the level, the fall, the rest."""
        level, step, depth = np.moveaxis(points, -1, 0)
        level = self.floor + level * (self.run.peak - self.floor)
        # The first step has the level. Denser towards the end, where each step counts.
        to_go = np.rint((self.run.steps - max(self.run.warmup, 1)) * (1 - step) ** 2)
        falling = np.minimum(to_go, self.shortest)  # a late fall is cut off by the end
        end = level - depth * (level - self.floor) * falling / self.shortest
        before = self.run.steps - self.run.warmup - to_go
        return [(before, level), (falling, end), (to_go - falling, end)]

    def dated(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Steps (…) by which a tenth and nine tenths of the fall are done; without one the last."""
        (before, level), (falling, end), _ = self.lines(points)
        begin, falls = self.run.warmup + before, level - end > 1e-6 * self.run.peak
        dates = {"decay_start": 0.1, "decay_end": 0.9}
        return {
            name: np.where(falls, begin + np.ceil(share * falling - 1e-9), self.run.steps)
            for name, share in dates.items()
        }

    def schedule(self, point: np.ndarray) -> Schedule:
        """The schedule of a point (3,)."""
        lines, warmup, start = self.lines(point), int(self.run.warmup), self.run.start
        # The warm-up is a straight line to the first free learning rate, which is its last step.
        counts, ends = zip((warmup, lines[0][1]), *lines, strict=True)
        rates = np.interp(np.arange(1, self.run.steps + 1), np.cumsum([0, *counts]), [start, *ends])
        # Rounding must not carry a learning rate past a limit, or make one rise.
        free = rates[max(warmup - 1, 0) :]
        free[:] = np.minimum.accumulate(np.clip(free, self.floor, self.run.peak))
        return Schedule(rates, start if warmup else float(free[0]), None, "optimal")


@compiled(static_argnames=("laws", "layout"))
def _losses(laws, layout: Layout, params, inputs, weights, numbers, at):
    """The weighted sum of the losses; parameters and settings broadcast."""
    areas = final_areas(layout, numbers, at)
    each = zip(weights, laws, params, inputs, strict=True)
    return sum(weight * predicted(law, p, areas, x) for weight, law, p, x in each)
