"""Rates of a run that never rise, as shares of their fall.

Free rates fall from ``peak`` to ``floor`` at most. That fall is shared out: one share lies before
the first knot, one between each two knots, one after the last (what is left undone). Rates
between knots are straight lines, so that every limit is met by construction, and a loss that is
convex in the rates is convex in the shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlaw import schedules
from jaxlaw.lr_areas import Areas, PhaseAreas, areas, phase_areas
from jaxlaw.schedules import Schedule

TRACE = 1e-3  # of the fall between two knots: there finer ones pay


class Run(NamedTuple):
    """The limits that the rates keep."""

    steps: int
    peak: float
    floor: float
    warmup: int
    start: float
    after: Schedule | None
    shortest_decay: int

    @property
    def first(self) -> int:
        """The first step whose rate is free."""
        return max(self.warmup, 1)


class Grid(NamedTuple):
    """Knots in steps, (knots,), and where the free steps lie between them, (free steps,)."""

    at: np.ndarray
    left: np.ndarray
    fraction: np.ndarray


def grid_of(run: Run, knots: int, decay: float) -> Grid:
    """Every step, where they are few; else half the knots evenly, half as λ^(T−t)."""
    steps = np.arange(run.first, run.steps + 1.0)
    if len(steps) <= knots:
        at = steps
    else:
        passed = (steps - steps[0]) / (steps[-1] - steps[0])
        memory = np.power(float(decay), steps[-1] - steps)
        recent = (memory - memory[0]) / (1 - memory[0]) if memory[0] < 1 else passed
        at = np.interp(np.linspace(0, 1, knots), (passed + recent) / 2, steps)
    return _grid(at, steps)


def _grid(at: np.ndarray, steps: np.ndarray) -> Grid:
    left = np.clip(np.searchsorted(at, steps, side="right") - 1, 0, max(len(at) - 2, 0))
    width = np.diff(at)[left] if len(at) > 1 else 1.0
    return Grid(at, left, (steps - at[left]) / width)


def finer_grid(run: Run, grids: Sequence[Grid], found: Sequence[np.ndarray]) -> Grid | None:
    """As many knots, an equal part of them each: as in the first grid, and where rates fell.

    Args:
        run: its limits.
        grids: of the searches so far.
        found: the shares (corners,) that each of them found.

    Returns:
        None where no rate falls between knots, or every step is one.
    """
    at = grids[0].at
    ways = [(at, np.linspace(0, 1, len(at)))]
    for grid, shares in zip(grids, found, strict=True):
        falls = shares[1:-1] > TRACE
        beside = np.append(falls[1:], False) | np.append(False, falls[:-1])
        passed = np.append(0, np.cumsum(falls | beside))
        if not passed[-1]:
            return None
        ways.append((grid.at, passed / passed[-1]))
    steps = np.arange(run.first, run.steps + 1.0)
    if len(steps) <= len(at):
        return None
    every = np.unique(np.concatenate([edges for edges, _ in ways]))
    whole = np.mean([np.interp(every, *one) for one in ways], axis=0)
    return _grid(np.interp(np.linspace(0, 1, len(at)), whole, every), steps)


def moved(shares: np.ndarray, old: Grid, new: Grid) -> np.ndarray:
    """Shares (rows, corners) of nearly the same rates, on other knots."""
    return _shares_of(np.array([np.interp(new.at, old.at, one) for one in _level_of(shares)]))


def _level_of(shares: np.ndarray) -> np.ndarray:
    """What has yet to fall at the knots (…, knots); small shares keep their digits."""
    return np.cumsum(shares[..., :0:-1], axis=-1)[..., ::-1]


def _shares_of(level: np.ndarray) -> np.ndarray:
    """Shares (…, corners) of the fall, from what has yet to fall at the knots."""
    return -np.diff(level, prepend=1.0, append=0.0)


def _free_rates(shares: np.ndarray, run: Run, grid: Grid) -> np.ndarray:
    """Rates of the free steps for shares (knots + 1,) of the fall."""
    level = _level_of(shares)
    right = np.minimum(1, len(grid.at) - 1) + grid.left
    rates = level[grid.left] * (1 - grid.fraction) + level[right] * grid.fraction
    width = run.shortest_decay
    if width > 1:  # a mean over the last steps: no fall in one step beyond its share
        before = np.concatenate([np.full(width - 1, rates[0]), rates])
        sums = np.concatenate([np.zeros(1), np.cumsum(before)])
        rates = (sums[width:] - sums[:-width]) / width
    return run.floor + (run.peak - run.floor) * rates


def schedule_of(shares: np.ndarray, run: Run, grid: Grid) -> Schedule:
    """Rounding may carry a rate past a limit; here it is put back."""
    free = _free_rates(shares, run, grid)
    free = np.minimum.accumulate(np.clip(free, run.floor, run.peak))
    initial = run.start if run.warmup else float(free[0])
    # The warm-up is a straight line to the first free rate, which is its last step.
    way = np.arange(1, run.warmup) / max(run.warmup, 1)
    rates = np.concatenate([run.start * (1 - way) + free[0] * way, free])
    own = Schedule(rates, initial, None, "optimal")
    return own if run.after is None else schedules.join(run.after, own)


def starts_of(
    run: Run, grid: Grid, usual: list[Schedule], count: int, random: np.random.Generator
) -> np.ndarray:
    """Shares (count, knots + 1): of the usual schedules, then random ones."""
    steps, size = np.arange(1, run.steps + 1), len(grid.at) + 1
    shares = []
    for one in usual[:count]:
        level = (np.interp(grid.at, steps, one.rates[-run.steps :]) - run.floor) / (
            run.peak - run.floor
        )
        shares.append(_shares_of(level))
    drawn = random.dirichlet(np.full(size, 0.3), max(count - len(usual), 0))
    return np.concatenate([np.array(shares), drawn])


def together(each: Sequence[Areas | PhaseAreas]) -> Areas | PhaseAreas:
    """Areas of several schedules as arrays."""
    return type(each[0])(*map(np.array, zip(*each, strict=True)))


def ends_of(schedule: Schedule, options: Mapping[str, Any]) -> Areas | PhaseAreas:
    """Areas after the last step, as numbers."""
    found = areas_at(schedule, options, [len(schedule)])
    return type(found)(*(float(one[0]) for one in found))


def areas_at(schedule: Schedule, options: Mapping[str, Any], at: Any = None) -> Areas | PhaseAreas:
    """Areas after some steps, or each; rises of a continued phase always count."""
    if schedule.boundary is None:
        rest = {name: v for name, v in options.items() if name != "carry_momentum"}
        return areas(schedule, at=at, **rest)
    counts = (options["count_warmup"], True)
    return phase_areas(schedule, at=at, **{**options, "count_warmup": counts})


def by_name(ends: Areas | PhaseAreas) -> dict[str, Any]:
    """Areas under every name by which a law may ask for them."""
    if isinstance(ends, PhaseAreas):
        return ends._asdict() | ends.whole._asdict()
    return {"S1": ends.S1, "S2": ends.S2, "S1_cpt": ends.S1, "S2_cpt": ends.S2}
