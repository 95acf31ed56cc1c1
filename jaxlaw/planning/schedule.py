"""The learning rates a law of loss curves likes best: gradient descent through the areas.

Beyond the papers; the balance of several losses is that of Wang 2025, eq. 5, over every rate of
a run instead of its peak alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pandas as pd

from jaxlaw import schedules
from jaxlaw.arguments import checked
from jaxlaw.curves.counting import AREAS
from jaxlaw.lr_areas import Areas, PhaseAreas
from jaxlaw.notes import Note, UsageError, nearest
from jaxlaw.planning.answers import LEVEL, Source, in_domain, percentiles, sources
from jaxlaw.planning.continual_run import counted_as
from jaxlaw.planning.descent import Target, gap_at, losses_of, predicted, searched
from jaxlaw.planning.falls import Run, ends_of, grid_of, schedule_of, starts_of, together
from jaxlaw.planning.regret import fall_of, own_schedules
from jaxlaw.planning.schedule_notes import BEYOND, on_search, on_shape, on_sources
from jaxlaw.records import plain
from jaxlaw.schedules import Schedule

_FALL = ("decay_start", "decay_end")
_NUMBERS = ("loss", "gap", "agreement", *_FALL, "regret")
AGREE = 1e-5  # relative distance of losses that count as the same optimum


@dataclass(frozen=True, eq=False)
class OptimalSchedule:
    """The best schedule found, and what to compare it with.

    Attributes:
        schedule: its rates; those of ``after`` come first, with the boundary.
        loss: predicted at its last step; of several losses, their weighted sum.
        areas: at its last step: Areas, or PhaseAreas with ``after``.
        gap: nats by which ``loss`` could still fall, to first order, with these knots. Where
            the loss is convex in the rates (the annealing law, plain areas) this is a bound.
        agreement: share of the starts whose loss is that of the best (to 1e-5).
        n_starts: starts tried.
        decay_start, decay_end: steps of the run (of the continued phase) by which a tenth and
            nine tenths of the fall from the first free rate to the last are done; both the
            last step where there is no fall.
        comparison: a row each for this and the usual schedules of the same steps, peak, floor
            and warm-up: ``loss``; ``loss_1``, ``loss_2``, … where they are several; areas.
        notes: what to know before relying on it.
        usual: the schedules it is compared with, by name.
        interval: of a bootstrap, ``loss`` → (low, high) under this very schedule; of the
            first 1,000 replicates' own best schedules ``best_loss``, ``decay_start``,
            ``decay_end``; and ``regret``.
        level: of the intervals.
        regret: nats by which this schedule is worse than a replicate's own best, by its own
            law, in the median; NaN without replicates.
        replicates: a row for each of these: ``loss`` (of this schedule), ``best_loss``,
            ``regret``, ``decay_start``, ``decay_end``.
    """

    schedule: Schedule
    loss: float
    areas: Areas | PhaseAreas
    gap: float
    agreement: float
    n_starts: int
    decay_start: float
    decay_end: float
    comparison: pd.DataFrame
    notes: tuple[Note, ...]
    usual: dict[str, Schedule] = field(default_factory=dict)
    interval: dict[str, tuple[float, float]] = field(default_factory=dict)
    level: float = LEVEL
    regret: float = math.nan
    replicates: pd.DataFrame = field(default_factory=pd.DataFrame)

    def summary(self) -> str:
        """The comparison, the evidence and the notes, for people."""
        found = ""
        if "loss" in self.interval:
            low, high = self.interval["loss"]
            found = f"loss between {low:.5g} and {high:.5g}; "
        lines = [
            self.comparison.to_string(line_width=80),
            f"{found}{self.agreement:.0%} of {self.n_starts} starts agree; "
            f"at most about {self.gap:.1g} nats are left to gain",
            f"the fall begins at step {self.decay_start:.0f} and ends at {self.decay_end:.0f}",
        ]
        if "regret" in self.interval:
            begins, ends = (
                f"between {low:.0f} and {high:.0f}" for low, high in map(self.interval.get, _FALL)
            )
            lines[-1] += f"; that of {len(self.replicates)} replicates' own best"
            lines.append(
                f"begins {begins}, ends {ends}; to them this one\ncosts {self.regret:.1g} nats in "
                f"the median, {self.interval['regret'][1]:.1g} at most ({self.level:.0%} intervals)"
            )
        return "\n".join([*lines, *map(str, self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, the rates among them; infinities and NaN as strings."""
        compared = self.comparison.reset_index().to_dict(orient="records")
        return {
            **plain({name: getattr(self, name) for name in _NUMBERS}),
            "n_starts": self.n_starts,
            "areas": plain(self.areas._asdict()),
            "schedule": {
                "rates": self.schedule.rates.tolist(),
                "initial_lr": self.schedule.initial_lr,
                "boundary": self.schedule.boundary,
            },
            "comparison": plain(compared),
            "level": self.level,
            "interval": plain(self.interval),
            "notes": [dataclasses.asdict(note) for note in self.notes],
        }


@checked
def optimal_schedule(
    fit: Any,
    steps: int,
    peak: float,
    *,
    weights: Sequence[float] | None = None,
    inputs: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    floor: float = 0.0,
    warmup: int = 0,
    start: float | None = None,
    after: Schedule | None = None,
    shortest_decay: int = 1,
    decay: float | None = None,
    carry_momentum: bool | None = None,
    count_warmup: bool | None = None,
    epsilon: float | None = None,
    knots: int = 64,
    n_starts: int = 8,
    iterations: int = 300,
    seed: int = 0,
    level: float = LEVEL,
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
        fit: a Fit, (law, params) or a bootstrap; or a list of them, whose losses are balanced.
            The search is of the fit itself; a bootstrap adds intervals, and what each
            replicate's own search finds from there.
        steps: of the run, or of the continued phase; warm-up included.
        peak: the highest rate.
        weights: λ of each loss, not negative, with sum 1 (Wang 2025, eq. 5). Changes since the
            start of a phase are balanced as the losses are: they differ by a constant.
        inputs: what the law takes beside areas, such as ``{"N": 1e9}`` or ``{"r": 0.2}``, in the
            units of the fitted runs (of the law for (law, params)); for several losses, one
            mapping for all or a list.
        floor: the lowest rate after the warm-up.
        warmup: steps of a straight line from ``start`` up to the first free rate, which is at
            most the peak. 0: the first step has it, and areas count no jump before it, except
            after a pre-training, from whose last rate it rises or falls at once.
        start: where the warm-up begins: 0, or the last rate of ``after``.
        after: the pre-training that went before; its rates are kept. For rates that never
            rise, let ``peak`` be its last one; a higher peak bounds the re-warm-up.
        shortest_decay: steps that a fall from peak to floor takes at least: no step's fall is
            larger than (peak − floor) / shortest_decay.
        decay, carry_momentum, epsilon, count_warmup: how areas are counted. Left out: as they
            were for the fit, where it knows (a fit of curves does); else as
            :meth:`jaxlaw.Curves.runs` does by default.
        knots: rates that are searched, half of them spread over the steps, half as λ^(T−t),
            the memory of S2. Others lie on straight lines between them. Then, twice, as many are
            placed anew, part of them where the rates fell, and searched again.
        n_starts: wsd, linear, cosine and constant, then random ones.
        iterations: of Adam, in each of these searches.
        seed: of the random starts.
        level: of the interval.

    Returns:
        OptimalSchedule. Rates are float64, loss in nats, areas in learning rate × steps.

    Raises:
        UsageError: an argument out of its range, weights that do not sum to 1, a law without
            areas, or one that needs an input or a pre-training that is not given.
    """
    targets = _targets(fit, weights, inputs)
    run = _run(steps, peak, floor, warmup, start, after, shortest_decay)
    for target in targets:
        _check_inputs(target, after)
    if not (knots >= 2 and n_starts >= 1 and iterations >= 1):
        raise UsageError("knots must be 2 or more, n_starts and iterations 1 or more")
    given = dict(decay=decay, carry_momentum=carry_momentum, count_warmup=count_warmup,
                 epsilon=epsilon)  # fmt: skip
    options = counted_as(*_several(fit), **given)
    if not any({"S1", "S1_pt"} & set(one.law.input_names) for one in targets):
        options["count_warmup"] = True  # the base is not known: this run is the continued phase
    grid, usual = grid_of(run, knots, options["decay"]), _usual(run)
    starts = starts_of(run, grid, [*usual.values()], n_starts, np.random.default_rng(seed))
    search = searched(targets, run, grid, options, starts, iterations)
    best, losses = search.shares[search.best], search.losses
    if not np.isfinite(search.loss):
        raise UsageError("no start has a finite predicted loss; check the law's parameters")
    gap = gap_at(targets, search, run, options)
    found = schedule_of(best, run, search.grid)
    ends = [search.best_ends, *(ends_of(one, options) for one in usual.values())]
    table = _compared(targets, ["optimal", *usual], ends)
    agreement = float(np.mean(losses <= search.loss + AGREE * abs(search.loss)))
    notes = [
        *on_sources(targets, ends[0]),
        *on_shape(found.rates[-steps:][run.first - 1 :], run),
        *on_search(agreement, gap, search.loss),
        BEYOND,
    ]
    fall = [float(one[0]) for one in fall_of(best[None], search, run)]
    own = own_schedules(targets, search, run)
    regret = float(own["regret"].median()) if len(own) else math.nan
    interval = _intervals(targets, ends[0], own, level)
    return OptimalSchedule(
        found, float(table["loss"].iloc[0]), ends[0], gap, agreement, n_starts, *fall, table,
        tuple(notes), usual, interval, level, regret, own,
    )  # fmt: skip


def _several(fit: Any) -> list[Any]:
    """One or more fits as a list."""
    pair = isinstance(fit, tuple) and len(fit) == 2 and isinstance(fit[1], Mapping)
    return list(fit) if isinstance(fit, list | tuple) and not pair else [fit]


def _targets(fit: Any, weights: Any, inputs: Any) -> tuple[Target, ...]:
    fits = sources(*_several(fit))
    if weights is None and len(fits) == 1:
        weights = (1.0,)
    if weights is None or len(weights) != len(fits):
        raise UsageError(f"{len(fits)} losses need weights, one each, such as weights=(0.3, 0.7)")
    if not (min(weights) >= 0 and math.isclose(sum(weights), 1.0, abs_tol=1e-9)):
        raise UsageError(f"weights are {tuple(weights)}; none may be negative, and their sum is 1")
    given = [inputs or {}] * len(fits) if inputs is None or isinstance(inputs, Mapping) else inputs
    if len(given) != len(fits):
        raise UsageError(f"inputs are {len(given)} mappings for {len(fits)} losses; one for each")
    return tuple(map(_target, fits, given, weights))


def _target(source: Source, inputs: Mapping[str, float], weight: float) -> Target:
    params = {name: float(rows[0]) for name, rows in source.params.items()}
    values = {name: float(value) * source.units.get(name, 1.0) for name, value in inputs.items()}
    return Target(source.law, params, values, float(weight), source)


def _check_inputs(target: Target, after: Schedule | None) -> None:
    law, given = target.law, target.inputs
    if not {"S1", "S1_cpt"} & set(law.input_names):
        raise UsageError(
            f"law {law.name} takes no areas of a schedule; use a law of loss curves, such as "
            "annealing or cpt-curve"
        )
    if any(spec.per_drop for spec in law.inputs):
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
        raise UsageError(f"law {law.name} needs inputs={{'{others[0]}': …}}")


def _run(
    steps: int, peak: float, floor: float, warmup: int, start: float | None,
    after: Schedule | None, shortest_decay: int,
) -> Run:  # fmt: skip
    if not (steps >= 1 and steps == int(steps)):
        raise UsageError(f"steps is {steps}; it must be a whole number, 1 or more")
    in_domain("peak", peak)
    if not 0 <= floor < peak:
        raise UsageError(f"floor is {floor}; it must be 0 or more, and below the peak, {peak}")
    if not (0 <= warmup < steps and warmup == int(warmup)):
        raise UsageError(f"warmup is {warmup}, but the run has {steps} steps; use 0 to {steps - 1}")
    if not (shortest_decay >= 1 and shortest_decay == int(shortest_decay)):
        raise UsageError(f"shortest_decay is {shortest_decay}; it is a number of steps, 1 or more")
    if shortest_decay > _LONGEST * steps:  # such a fall never gets far; its mean needs the memory
        raise UsageError(
            f"shortest_decay is {shortest_decay}, the run has {steps} steps; {_LONGEST} times as "
            "many at most"
        )
    if after is not None and after.boundary is not None:
        raise UsageError("after= has two phases already; give the pre-training alone")
    if start is None:
        start = 0.0 if after is None else float(after.rates[-1])
    in_domain("start", start, "nonnegative")
    return Run(
        int(steps), float(peak), float(floor), int(warmup), float(start), after,
        int(shortest_decay),
    )  # fmt: skip


_LONGEST = 1000  # times the run: the longest shortest decay
_USUAL = ("wsd", "linear", "cosine", "constant")


def _usual(run: Run) -> dict[str, Schedule]:
    """The usual schedules under the same limits."""
    made = {}
    for name in _USUAL:
        final = {} if name == "constant" else {"final": run.floor}
        one = getattr(schedules, name)(run.peak, run.steps - run.warmup, **final)
        one = schedules.warmup(one, run.warmup, run.start) if run.warmup else one
        made[name] = one if run.after is None else schedules.join(run.after, one)
    return made


def _compared(
    targets: tuple[Target, ...], names: Sequence[str], ends: Sequence[Areas | PhaseAreas]
) -> pd.DataFrame:
    with jax.enable_x64(True):
        at = together(ends)
        columns = [np.asarray(predicted(t.law, t.params, t.inputs, at)) for t in targets]
    whole = sum(t.weight * column for t, column in zip(targets, columns, strict=True))
    table: dict[str, Any] = {"loss": whole}
    if len(targets) > 1:
        table |= {f"loss_{k}": column for k, column in enumerate(columns, 1)}
    table |= at._asdict()
    return pd.DataFrame(table, index=pd.Index(names, name="schedule"))


def _intervals(
    targets: tuple[Target, ...], ends: Areas | PhaseAreas, own: pd.DataFrame, level: float
) -> dict[str, tuple[float, float]]:
    """Of the loss by all replicates, and of what those that were searched found."""
    every = [t._replace(params=t.source.params) for t in targets]
    values = {"loss": np.atleast_1d(losses_of(every, ends))}
    for name in own.columns.difference(["loss"], sort=False):
        values[name] = np.append(np.nan, own[name])  # the fit itself is no replicate
    return percentiles(values, level)
