"""Gradient descent on the rates of a run, through its areas.

Free rates never rise, and fall from ``peak`` to ``floor`` at most. That fall is shared out: one
share lies before the first knot, one between each two knots, one after the last (what is left
undone). Shares are a softmax and rates between knots straight lines, so that every limit is met
by construction, and a loss that is convex in the rates is convex in the shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlaw import schedules
from jaxlaw.area_tiles import Areas
from jaxlaw.laws.base import Law
from jaxlaw.lr_areas import PhaseAreas, areas, phase_areas
from jaxlaw.planning.answers import Source
from jaxlaw.programs import compiled
from jaxlaw.schedules import Schedule

RATE = 1.0  # Adam's, in logits; it fades to 0 over the iterations
DUST = 1e-9  # shares of the fall that are put to 0 at the end


class Target(NamedTuple):
    """One of the losses."""

    law: Law
    params: dict[str, float]
    inputs: dict[str, float]  # beside areas, in the law's own units
    weight: float
    source: Source


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
    left = np.clip(np.searchsorted(at, steps, side="right") - 1, 0, max(len(at) - 2, 0))
    width = np.diff(at)[left] if len(at) > 1 else 1.0
    return Grid(at, left, (steps - at[left]) / width)


def _free_rates(shares: Any, grid: Any, peak: Any, floor: Any, shortest_decay: int) -> Any:
    """Rates of the free steps for shares (knots + 1,) of the fall; numpy or JAX."""
    xp = jnp if isinstance(shares, jax.Array) else np
    level = xp.cumsum(shares[:0:-1])[::-1]  # what has yet to fall; small ones keep their digits
    right = np.minimum(1, len(grid.at) - 1) + grid.left
    rates = level[grid.left] * (1 - grid.fraction) + level[right] * grid.fraction
    if shortest_decay > 1:  # a mean over the last steps: no fall in one step beyond its share
        before = xp.concatenate([xp.full(shortest_decay - 1, 1.0) * rates[0], rates])
        sums = xp.concatenate([xp.zeros(1), xp.cumsum(before)])
        rates = (sums[shortest_decay:] - sums[:-shortest_decay]) / shortest_decay
    return floor + (peak - floor) * rates


def _all_rates(free: Any, warmup: int, start: Any) -> Any:
    """The warm-up, a straight line to the first free rate, which is its last step, and the rest."""
    xp = jnp if isinstance(free, jax.Array) else np
    way = np.arange(1, warmup) / max(warmup, 1)
    return xp.concatenate([start * (1 - way) + free[0] * way, free])


def schedule_of(shares: np.ndarray, run: Run, grid: Grid) -> Schedule:
    """Rounding may carry a rate past a limit; here it is put back."""
    free = _free_rates(shares, grid, run.peak, run.floor, run.shortest_decay)
    free = np.minimum.accumulate(np.clip(free, run.floor, run.peak))
    initial = run.start if run.warmup else float(free[0])
    own = Schedule(_all_rates(free, run.warmup, run.start), initial, None, "optimal")
    return own if run.after is None else schedules.join(run.after, own)


def starts_of(
    run: Run, grid: Grid, usual: list[Schedule], count: int, random: np.random.Generator
) -> np.ndarray:
    """Logits of the shares, (count, knots + 1): of the usual schedules, then random ones."""
    steps, size = np.arange(1, run.steps + 1), len(grid.at) + 1
    shares = []
    for one in usual[:count]:
        level = (np.interp(grid.at, steps, one.rates[-run.steps :]) - run.floor) / (
            run.peak - run.floor
        )
        shares.append(-np.diff(level, prepend=1.0, append=0.0))
    drawn = random.dirichlet(np.full(size, 0.3), max(count - len(usual), 0))
    # None is so small that it takes long to come back.
    return np.log(np.maximum(np.concatenate([np.array(shares), drawn]), 0) + 0.1 / size)


def ends_of(schedule: Schedule, options: Mapping[str, Any]) -> Areas | PhaseAreas:
    """Areas after the last step, as numbers."""
    found = _at_end(schedule.rates, schedule.initial_lr, schedule.boundary, **options)
    return type(found)(*map(float, found))


def _at_end(
    rates: Any, initial_lr: Any, boundary: int | None, *,
    carry_momentum: bool, count_warmup: bool, **options: Any,
) -> Areas | PhaseAreas:  # fmt: skip
    """Areas after the last step; rises of a continued phase always count; numpy or JAX."""

    def of(function: Any, **more: Any) -> Any:
        found = function(rates, initial_lr=initial_lr, at=[len(rates)], **options, **more)
        return type(found)(*(one[0] for one in found))

    if boundary is None:
        return of(areas, count_warmup=count_warmup)
    return of(
        phase_areas, boundary=boundary, carry_momentum=carry_momentum,
        count_warmup=(count_warmup, True),
    )  # fmt: skip


def by_name(ends: Areas | PhaseAreas) -> dict[str, Any]:
    """Areas under every name by which a law may ask for them."""
    if isinstance(ends, PhaseAreas):
        return ends._asdict() | ends.whole._asdict()
    return {"S1": ends.S1, "S2": ends.S2, "S1_cpt": ends.S1, "S2_cpt": ends.S2}


def predicted(law: Law, params: Any, inputs: Any, ends: Areas | PhaseAreas) -> Any:
    """What a law says of areas at the end, and of its other inputs, in its own units."""
    values = by_name(ends) | inputs
    return law(params, **{name: values[name] for name in law.input_names})


class Shape(NamedTuple):
    """What a program depends on where areas are not linear in the rates."""

    warmup: int
    shortest_decay: int
    boundary: int | None
    carry_momentum: bool
    count_warmup: bool


def solve(
    targets: tuple[Target, ...], run: Run, grid: Grid, options: Mapping[str, Any],
    starts: np.ndarray, iterations: int,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Shares (starts, knots + 1), losses (starts,) and gaps (starts,) at the end."""
    which = tuple(one.law for one in targets)
    values = [(one.weight, one.params, one.inputs) for one in targets]
    # Whether a warm-up that does not count is a rise depends on the rates, unless it starts lowest.
    certain = options["count_warmup"] or run.after is not None or run.start <= run.floor
    if options["epsilon"] is None and certain:
        # Then areas are those of the corners, the whole fall in one place, mixed by the shares.
        corners = (schedule_of(one, run, grid) for one in np.eye(starts.shape[1]))
        each = [ends_of(one, options) for one in corners]
        shape, how = None, type(each[0])(*map(np.array, zip(*each, strict=True)))
    else:
        after = run.after
        shape = Shape(run.warmup, run.shortest_decay, None if after is None else len(after),
                      options["carry_momentum"], options["count_warmup"])  # fmt: skip
        before = None if after is None else (after.rates, after.initial_lr)
        how = (grid, run.peak, run.floor, run.start, before, options["decay"], options["epsilon"])
    with jax.enable_x64(True):
        return tuple(map(np.asarray, _descend(which, shape, values, how, starts, iterations)))


def _ends(shape: Shape | None, how: Any, shares: Any) -> Areas | PhaseAreas:
    """Areas after the last step for shares of the fall."""
    if shape is None:
        return type(how)(*(shares @ one for one in how))
    grid, peak, floor, start, before, decay, epsilon = how
    free = _free_rates(shares, grid, peak, floor, shape.shortest_decay)
    rates = _all_rates(free, shape.warmup, start)
    initial = start if shape.warmup else rates[0]
    if before is not None:
        rates, initial = jnp.concatenate([before[0], rates]), before[1]
    return _at_end(
        rates, initial, shape.boundary, decay=decay, epsilon=epsilon,
        carry_momentum=shape.carry_momentum, count_warmup=shape.count_warmup,
    )  # fmt: skip


@compiled(static_argnames=("which", "shape"))
def _descend(
    which: tuple[Law, ...], shape: Shape | None, values: Any, how: Any, starts: Any,
    iterations: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Adam on the logits of every start."""

    def loss(shares: Any) -> Any:
        ends = _ends(shape, how, shares)
        each = zip(which, values, strict=True)
        return sum(weight * predicted(law, p, x, ends) for law, (weight, p, x) in each)

    # Near a corner gradients fade with the shares; Adam's steps do not, without its epsilon.
    adam = optax.scale_by_adam(b2=0.99, eps=1e-30)
    every = jax.vmap(jax.grad(lambda logits: loss(jax.nn.softmax(logits))))

    def step(i: Any, carry: Any) -> Any:
        logits, state = carry
        update, state = adam.update(every(logits), state)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * i / iterations))
        return logits - rate * update, state

    carry = jnp.asarray(starts), adam.init(jnp.asarray(starts))
    shares = jax.nn.softmax(jax.lax.fori_loop(0, iterations, step, carry)[0])
    shares = jnp.where(shares < DUST, 0, shares)
    shares /= shares.sum(axis=-1, keepdims=True)
    losses, slopes = jax.vmap(jax.value_and_grad(loss))(shares)
    # Frank and Wolfe's gap: the best that a move to one corner promises.
    gaps = (slopes * shares).sum(axis=-1) - slopes.min(axis=-1)
    return shares, losses, gaps
