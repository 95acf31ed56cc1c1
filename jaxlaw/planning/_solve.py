"""The plans' compiled programs: one for all draws of a bootstrap; roots and minima inside them.

Everything here takes a fixed or bounded number of steps, so that it batches under ``vmap``: all
draws of a bootstrap, or all budgets of a frontier, are one call. Where a function is not traced,
use scipy.optimize.

None of these can be fooled by a second valley or a second crossing that is wider than a cell of
its grid; a narrower one it does not see.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled, in_float64

HALVINGS = 60  # of a bracket: the end is below the rounding of a double

TURNING = 65  # points among which :func:`first_root` looks

# Of :func:`minimise_in_box`.
BLOCKS = 8  # of the grid; the best point of each is refined
ROUNDS = 30  # at most
STILL = 1e-14  # relative gain of a round after which there is none to come: Newton's are quadratic
LENGTHS = tuple(0.5**k for k in range(12))  # of the steps that are tried in a round

# Of :func:`minimise_under_limits`: weights of what exceeds a limit, in turn.
FIRST_WEIGHT, HEAVIER, HEAVIEST, TIGHTENINGS = 1e3, 4.0, 1e6, 12
# Where a limit is kept, the curvature knows nothing of what is beyond it, so that the step is too
# long by the ratio of the weights.
ALL_LENGTHS = tuple(0.25**k for k in range(20))


def for_each_draw(
    *static: str, draws: tuple[str, ...] = ("params",)
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: from a function of one draw's parameters to a program for all draws.

    Args:
        static: names of the function's static arguments, such as the law.
        draws: names of its arguments that have a leading axis of draws; all others are shared.

    Returns:
        A function of the same positional arguments: it works in float64 and returns NumPy arrays
        with that leading axis.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        names = tuple(inspect.signature(function).parameters)
        arrays = [name for name in names if name not in static]
        axes = [0 if name in draws else None for name in arrays]

        @compiled(static_argnames=static)
        @functools.wraps(function)
        def program(*args: Any) -> Any:
            given = dict(zip(names, args, strict=True))
            fixed = {name: given[name] for name in static}
            over = jax.vmap(lambda *each: function(**fixed, **dict(zip(arrays, each))), axes)  # noqa: B905
            return over(*(given[name] for name in arrays))

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            with in_float64():
                return jax.tree.map(np.asarray, program(*args))

        return call

    return decorate


def root(rising: Callable[[Any], Any], low: Any, high: Any, halvings: int = HALVINGS) -> Any:
    """Where a function that rises through zero is zero, by bisection of [low, high].

    Without a change of sign it is the end nearer to one: ``high`` where the function is negative
    throughout, ``low`` where it is positive. NaN counts as negative. Only the sign is used, so
    that the function may jump, and a condition (true = positive) serves as well.
    """

    def halve(_: int, bracket: Any) -> Any:
        low, high = bracket
        middle = (low + high) / 2
        above = rising(middle) > 0
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    low, high = jnp.asarray(low, float), jnp.asarray(high, float)
    low, high = jax.lax.fori_loop(0, halvings, halve, (low, high))
    return (low + high) / 2


def root_or_infinity(rising: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """As :func:`root`; without a change of sign ∞ (negative throughout) or −∞ (positive)."""
    zero = jnp.where(rising(high) <= 0, jnp.inf, root(rising, low, high))
    return jnp.where(rising(low) >= 0, -jnp.inf, zero)


def first_root(rising: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """As :func:`root_or_infinity`, the first zero of a function that may fall again beyond it.

    At a rate or a batch that is held the loss of a tuned law falls with the size and the tokens up
    to some point, and rises beyond.
    """
    grid = jnp.linspace(low, high, TURNING)
    above = jax.vmap(rising)(grid) > 0
    return root_or_infinity(rising, low, jnp.where(above.any(), grid[jnp.argmax(above)], high))


def last_true(condition: Callable[[Any], Any], low: float, high: float, points: int) -> Any:
    """The largest number of [low, high] at which a condition holds; −∞ where it nowhere does.

    The last such point of a grid, then bisection towards the next one. ``high`` exactly, where
    the condition holds there.
    """
    grid = jnp.linspace(low, high, points)
    true = jax.vmap(condition)(grid)
    last = points - 1 - jnp.argmax(true[::-1])
    edge = root(lambda x: ~condition(x), grid[last], grid[jnp.minimum(last + 1, points - 1)])
    edge = jnp.where(true[-1], grid[-1], edge)
    return jnp.where(true.any(), edge, -jnp.inf)


def minimise(
    value: Callable[[Any], Any],
    low: Any,
    high: Any,
    points: int = 257,
    halvings: int = HALVINGS,
    open_sides: tuple[Any, Any] | None = None,
    where: Callable[[Any], Any] | None = None,
    near: Any = math.nan,
) -> Any:
    """Where a function of one number is lowest in [low, high].

    The best point of a grid, then the root of the derivative between its neighbours: to rounding
    where the function has one valley at that scale, in a kink or at an end as well. NaN counts as
    infinite.

    A minimum at a side that is open (``open_sides``: low, high) is none, since the function falls
    on beyond it. There the deepest valley inside is taken, if there is one.

    With ``near``, a number, the valley that the function falls into from there, whatever lies
    beyond the next rise; the lowest valley where it is NaN, or where the function only falls from
    there to an open side.

    With ``where``, a condition, the lowest of the numbers at which it holds: where the function
    falls across an edge of these, that edge. It must hold somewhere on the grid.

    A function of two numbers is minimised by one of these inside another: the inner one at
    ``stop_gradient`` of the outer number, since at the inner optimum the derivative along the
    outer number is the partial one (envelope theorem).
    """
    grid = low + (high - low) * jnp.linspace(0.0, 1.0, points)
    values = jax.vmap(value)(grid)
    values = jnp.where(jnp.isnan(values), math.inf, values)
    if where is not None:
        values = jnp.where(jax.vmap(where)(grid), values, math.inf)
    best = jnp.argmin(values)
    if open_sides is not None:
        inner = values[1:-1]
        # Deeper than rounding, which makes valleys where the function is flat.
        least = inner + 8 * jnp.finfo(values.dtype).eps * jnp.abs(inner)
        valley = (least < values[:-2]) & (least < values[2:])
        at_open_side = ((best == 0) & open_sides[0]) | ((best == points - 1) & open_sides[1])
        deepest = 1 + jnp.argmin(jnp.where(valley, inner, math.inf))
        best = jnp.where(at_open_side & valley.any(), deepest, best)
    start = jnp.argmin(jnp.abs(grid - near))
    around = _valley_of(values, start)
    known = jnp.isfinite(near) & jnp.isfinite(values[start])
    if open_sides is not None:
        known &= ~(((around == 0) & open_sides[0]) | ((around == points - 1) & open_sides[1]))
    best = jnp.where(known, around, best)
    left, right = grid[jnp.maximum(best - 1, 0)], grid[jnp.minimum(best + 1, points - 1)]
    if where is not None:
        left = root(where, left, grid[best])
        right = root(lambda x: ~where(x), grid[best], right)
    return root(jax.grad(value), left, right, halvings)


def _valley_of(values: Any, start: Any) -> Any:
    """Number of the lowest of (n,) values that are reached from one of them without a rise."""
    numbers, slack = jnp.arange(len(values)), 8 * jnp.finfo(values.dtype).eps
    level = values + slack * jnp.abs(values)  # a rise within rounding is none
    up = (numbers[:-1] >= start) & (values[1:] > level[:-1])
    down = (numbers[1:] <= start) & (values[:-1] > level[1:])
    last = jnp.where(up.any(), jnp.argmax(up), len(values) - 1)
    first = jnp.where(down.any(), len(values) - 1 - jnp.argmax(down[::-1]), 0)
    inside = (numbers >= first) & (numbers <= last)
    lowest = jnp.min(jnp.where(inside, values, math.inf))
    ties = inside & (values <= lowest + slack * jnp.abs(lowest))  # on a plain, the nearest
    return jnp.argmin(jnp.where(ties, jnp.abs(numbers - start), len(values)))


def minimise_in_box(
    objective: Callable[[Any], Any], grid: Any, ended: Callable[[Any], Any] | None = None
) -> Any:
    """Where a smooth function of d ≤ 4 numbers is lowest in [0, 1]^d.

    Args:
        objective: ``f(points)``, (…, d) → (…); smooth. What is not finite counts as high.
        grid: (points, d) first points, dense enough that one lies in the basin of the lowest.
        ended: ``f(point)``, whether a minimum at a point (d,) is none, since the function falls on
            beyond the box; one is returned only where no block of the grid has a better one.

    Returns:
        (d,) the point. Newton steps with the curvatures' absolute values, in the coordinates
        that the gradient does not hold at a bound.
    """
    values = _high(objective(grid))
    rows = -(-len(grid) // BLOCKS)
    short = BLOCKS * rows - len(grid)
    blocks = jnp.pad(values, (0, short), constant_values=jnp.inf).reshape(BLOCKS, rows)
    first = grid[jnp.minimum(blocks.argmin(axis=1) + rows * jnp.arange(BLOCKS), len(grid) - 1)]
    refined, values = jax.vmap(lambda point: _newton_in_box(objective, point))(first)
    if ended is not None:
        none = jax.vmap(ended)(refined)
        values = jnp.where(none & ~none.all(), jnp.inf, values)
    return refined[values.argmin()]


def minimise_under_limits(
    objective: Callable[[Any], Any], excess: Callable[[Any], Any], grid: Any
) -> Any:
    """As :func:`minimise_in_box`, among the points at which no excess is above 0.

    The augmented Lagrangian: the square of what exceeds a limit is a part of what is minimised,
    and the multiplier moves until nothing exceeds it. Its weight grows on the way, but stays small
    enough for Newton's method; without the multiplier it would have to be infinite.

    Args:
        objective: as of :func:`minimise_in_box`.
        excess: ``g(points)``, (…, d) → (…, k); smooth, of the size of 1.
        grid: as of :func:`minimise_in_box`.

    Returns:
        (d,) the point. Where no point keeps the limits, one at which little exceeds them.
    """

    def augmented(multipliers: Any, weight: Any) -> Callable[[Any], Any]:
        def value(points: Any) -> Any:
            over = jnp.maximum(excess(points) + multipliers / weight, 0.0)
            return objective(points) + weight / 2 * (over**2).sum(-1)

        return value

    def tightened(_: int, state: Any) -> Any:
        point, multipliers, weight = state
        point, _ = _newton_in_box(augmented(multipliers, weight), point, ALL_LENGTHS)
        multipliers = jnp.maximum(multipliers + weight * jnp.nan_to_num(excess(point)), 0.0)
        return point, multipliers, jnp.minimum(weight * HEAVIER, HEAVIEST)

    none = 0.0 * excess(grid[0])
    start = minimise_in_box(augmented(none, FIRST_WEIGHT), grid)
    state = start, none, jnp.asarray(FIRST_WEIGHT)
    return jax.lax.fori_loop(0, TIGHTENINGS, tightened, state)[0]


def _high(values: Any) -> Any:
    return jnp.where(jnp.isfinite(values), values, jnp.inf)


def _newton_in_box(
    objective: Callable[[Any], Any], point: Any, lengths: tuple[float, ...] = LENGTHS
) -> tuple[Any, Any]:
    """A minimum near a point, and its value; ``lengths`` are those of the steps that are tried."""

    def gradient_twice(point: Any) -> tuple[Any, Any]:
        gradient = jax.jacfwd(objective)(point)
        return gradient, gradient

    # Forward mode in few coordinates: programs half the size of those of reverse mode.
    def round_(carry: Any) -> Any:
        point, before, _, rounds = carry
        curvature, gradient = jax.jacfwd(gradient_twice, has_aux=True)(point)
        gradient = jnp.nan_to_num(gradient)
        # A coordinate whose gradient points out of the box takes no part in this step: its row
        # and column are those of the identity.
        active = ((point <= 0) & (gradient > 0)) | ((point >= 1) & (gradient < 0))

        def newton_step(active: Any) -> Any:
            slope = jnp.where(active, 0.0, gradient)
            free = ~active[:, None] & ~active[None, :]
            hessian = jnp.where(free, jnp.nan_to_num(curvature), jnp.diag(1.0 * active))
            sizes, axes = jnp.linalg.eigh(hessian)
            sizes = jnp.maximum(jnp.abs(sizes), 1e-12)
            return -axes @ ((axes.T @ slope) / sizes)

        newton = newton_step(active)
        # In a narrow valley across a bound the step leaves the box though the gradient does not,
        # and what is cut off at the bound lies beside the valley: once more along the bound.
        leaves = ((point <= 0) & (newton < 0)) | ((point >= 1) & (newton > 0))
        along = newton_step(active | leaves)
        # The steepest descent helps where the curvature is of no use, as far from a valley.
        gradient = jnp.where(active, 0.0, gradient)
        steepest = -gradient / jnp.maximum(jnp.abs(gradient).max(), 1e-300)
        steps = jnp.stack([newton, 0.1 * steepest, along])[:, None, :] * jnp.array(lengths)[:, None]
        tried = jnp.clip(point + steps.reshape(-1, point.shape[0]), 0.0, 1.0)
        tried = jnp.concatenate([point[None], tried])  # stays where nothing is lower
        values = _high(objective(tried))
        gained = before - values.min() > STILL * jnp.abs(before)
        return tried[values.argmin()], values.min(), gained | (rounds < 1), rounds + 1

    begun = (point, jnp.finfo(point.dtype).max + 0.0 * point[0], point[0] == point[0], 0)
    going = lambda carry: carry[2] & (carry[3] < ROUNDS)  # noqa: E731
    return jax.lax.while_loop(going, round_, begun)[:2]
