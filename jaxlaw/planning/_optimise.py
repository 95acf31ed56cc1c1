"""The one search of plans: the inputs at which a law predicts its lowest loss, or reaches one.

A question (:func:`question_of`) names inputs that are searched, limits and a goal: a law's loss, or
compute. Its best run is, in this order,

1. a closed form, of laws with ``power_law_terms`` whose size and data share a budget of 6·N·D;
2. on one coordinate a grid, then the root of the derivative; limits cut off the coordinate's ends;
3. on several coordinates Newton's method in the unit box, from a grid. There a cut that moves with
   another coordinate would put a kink into the loss, with the optimum in it, where Newton's method
   stops short: such a limit is a smooth inequality, as that on another loss is, and enters by an
   augmented Lagrangian.

The coordinates are N, D and shares first, in this order. D is none where something else determines
it: the budget that pays for it, or, where compute is made least, the loss to be reached.

All draws and all budgets are lanes of one compiled program: everything takes a fixed or bounded
number of steps, so that it batches under ``vmap``. A second valley or crossing is seen where it is
wider than a cell of the grid. Programs work on raw counts and FLOPs, laws in their own units.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import checked_number, written
from jaxlaw.data import counted_flops
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws import Input, Law, PowerLawTerms
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Budget, Compute, Constraint, Corpus, Cost
from jaxlaw.planning._frame import (
    Inputs,
    checked_compute,
    checked_tokens,
    in_unit_of_runs,
    law_inputs,
    require_loss,
    source_notes,
)
from jaxlaw.uncertainty import Draws, as_draws

#: Least and largest raw counts that are searched. An optimum at one of them is none.
SEARCH_LIMITS = {"N": (1e3, 1e20), "D": (1e3, 1e24)}
FLOPS_EACH = 6.0  # of a parameter and token, forward and backward
AT_LIMIT = 1e-6  # in logarithms: nearer to a limit is at it
AT_LIMIT_32 = 1e-4  # likewise, where an optimum may be searched in float32
MANY_EPOCHS = 40  # at which repeating is worthless (Muennighoff 2023, figure 1)

#: Points of the first grid along each coordinate, by their number.
GRIDS = {2: (97, 17), 3: (33, 9, 9), 4: (13, 7, 7, 5)}
LINE = 257  # points of the grid on one coordinate
LIMITED_LINE = 1025  # where another loss is limited
NEEDED_LINE = 129  # where each point has a root of its own
KEPT = 1e-8  # relative: a limited loss that exceeds its limit by less keeps it
REACHED = 1e-9  # relative: a lower loss elsewhere is lower by more
_FAR = 1e24  # FLOPs at which the floor of a law is read off its formula
POINTS = 513  # among which a loss is looked for
LEAST_SHARE = 1e-9  # of a law that is infinite at 0: a smaller one is of no whole token

# The range of near-optimal values: grids of so many points a coordinate, each around the last.
NEAR_POINTS = {1: 2001, 2: 65, 3: 25, 4: 13}
NEAR_ROUNDS = 6

TURNING = 65  # points among which :func:`first_root` looks
HALVINGS = 60  # of a bracket: the end is below the rounding of a double

# Of :func:`lowest_in_box`.
BLOCKS = 8  # of the grid; the best point of each is refined
ROUNDS = 30  # at most
STILL = 1e-14  # relative gain of a round after which there is none to come: Newton's are quadratic
LENGTHS = tuple(0.5**k for k in range(12))  # of the steps that are tried in a round

# Of :func:`lowest_under_limits`: weights of what exceeds a limit, in turn.
FIRST_WEIGHT, HEAVIER, HEAVIEST, TIGHTENINGS = 1e3, 4.0, 1e6, 12
# Where a limit is kept, the curvature knows nothing of what is beyond it, so that the step is too
# long by the ratio of the weights.
ALL_LENGTHS = tuple(0.25**k for k in range(20))


#: Lanes up to which a program takes longer to optimise than to run.
FEW = 16


# Roots and minima of traced functions.


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

        @functools.wraps(function)
        def over_draws(*args: Any) -> Any:
            given = dict(zip(names, args, strict=True))
            fixed = {name: given[name] for name in static}
            over = jax.vmap(lambda *each: function(**fixed, **dict(zip(arrays, each))), axes)  # noqa: B905
            return over(*(given[name] for name in arrays))

        programs = [compiled(optimised=many, static_argnames=static)(over_draws) for many in (0, 1)]

        # What it wraps is what programs are made of, so that later processes know them by its name.
        @functools.wraps(over_draws)
        def call(*args: Any) -> Any:
            lanes = len(jax.tree.leaves(args[names.index(draws[0])])[0])
            with in_float64():
                return jax.tree.map(np.asarray, programs[lanes > FEW](*args))

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


def lowest_on_line(
    value: Callable[[Any], Any],
    low: Any,
    high: Any,
    points: int = LINE,
    ended: Callable[[Any], Any] | None = None,
    where: Callable[[Any], Any] | None = None,
    near: Any = math.nan,
) -> tuple[Any, Any]:
    """Where a function of one number is lowest in [low, high], and the lowest value of a grid.

    The best point of a grid, then the root of the derivative between its neighbours: to rounding
    where the function has one valley at that scale, in a kink or at an end as well. NaN counts as
    infinite.

    Args:
        value: the function, ``f(x)``.
        low, high: ends of the search.
        points: number of points of the grid.
        ended: condition, where a search ends that nothing limits. A minimum there is none, since
            the function falls on beyond; the deepest valley elsewhere is taken, if there is one.
        where: condition, which must hold somewhere on the grid: the lowest of the numbers at which
            it holds, where the function falls across an edge of these, that edge.
        near: a number: the valley that the function falls into from there, whatever lies beyond
            the next rise. The lowest valley where it is NaN, or where the function only falls from
            there to such an end.
    """
    grid = low + (high - low) * jnp.linspace(0.0, 1.0, points)
    values = jax.vmap(value)(grid)
    values = jnp.where(jnp.isnan(values), math.inf, values)
    if where is not None:
        values = jnp.where(jax.vmap(where)(grid), values, math.inf)
    best, start = jnp.argmin(values), jnp.argmin(jnp.abs(grid - near))
    around = _valley_of(values, start)
    known = jnp.isfinite(near) & jnp.isfinite(values[start])
    if ended is not None:
        at_end = jax.vmap(ended)(grid)
        at_end = at_end.at[1:].max(at_end[:-1]).at[:-1].max(at_end[1:])  # beside one, too
        inner = values[1:-1]
        # Deeper than rounding, which makes valleys where the function is flat.
        least = inner + 8 * jnp.finfo(values.dtype).eps * jnp.abs(inner)
        valley = (least < values[:-2]) & (least < values[2:]) & ~at_end[1:-1]
        deepest = 1 + jnp.argmin(jnp.where(valley, inner, math.inf))
        best = jnp.where(at_end[best] & valley.any(), deepest, best)
        known &= ~at_end[around]
    best = jnp.where(known, around, best)
    left, right = grid[jnp.maximum(best - 1, 0)], grid[jnp.minimum(best + 1, points - 1)]
    if where is not None:
        left = root(where, left, grid[best])
        right = root(lambda x: ~where(x), grid[best], right)
    x = root(jax.grad(value), left, right)
    # At an end itself, which bisection only comes close to.
    rounding = (high - low) * 2.0 * jnp.finfo(values.dtype).eps
    for end in (low, high):
        x = jnp.where(jnp.abs(x - end) <= rounding, end, x)
    return x, values.min()


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


def lowest_in_box(
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
    first = _best_of_blocks(objective(grid), grid)
    refined, values = jax.vmap(lambda point: _newton_in_box(objective, point))(first)
    if ended is not None:
        none = jax.vmap(ended)(refined)
        values = jnp.where(none & ~none.all(), jnp.inf, values)
    return refined[values.argmin()]


def lowest_under_limits(both: Callable[[Any], tuple[Any, Any]], grid: Any) -> Any:
    """As :func:`lowest_in_box`, among the points at which no excess is above 0.

    The augmented Lagrangian: the square of what exceeds a limit is a part of what is minimised,
    and the multiplier moves until nothing exceeds it. Its weight grows on the way, but stays small
    enough for Newton's method; without the multiplier it would have to be infinite.

    Args:
        both: ``f(points)``, (…, d) → (…) values as of :func:`lowest_in_box`, and (…, k) by how
            much limits are exceeded; smooth, of the size of 1.
        grid: as of :func:`lowest_in_box`.

    Returns:
        (d,) the point. Where no point keeps the limits, one at which little exceeds them.
    """

    def augmented(points: Any, multipliers: Any, weight: Any) -> Any:
        values, over = both(points)
        return values + weight / 2 * (jnp.maximum(over + multipliers / weight, 0.0) ** 2).sum(-1)

    none, lightest = jnp.zeros_like(both(grid[0])[1]), jnp.asarray(FIRST_WEIGHT)
    starts = _best_of_blocks(augmented(grid, none, lightest), grid)
    first_lengths = jnp.pad(jnp.array(LENGTHS), (0, len(ALL_LENGTHS) - len(LENGTHS)))

    # First from every start, then on from the best: one loop for both, as Newton's method is most
    # of the program.
    def step(k: Any, state: Any) -> Any:
        point, lowest, multipliers, weight = state
        looking = k < BLOCKS
        found, value = _newton_in_box(
            lambda points: augmented(points, multipliers, weight),
            jnp.where(looking, starts[jnp.minimum(k, BLOCKS - 1)], point),
            jnp.where(looking, first_lengths, jnp.array(ALL_LENGTHS)),
        )
        point = jnp.where(looking & ~(value < lowest), point, found)
        moved = jnp.maximum(multipliers + weight * jnp.nan_to_num(both(point)[1]), 0.0)
        heavier = jnp.minimum(weight * HEAVIER, HEAVIEST)
        return (
            point, jnp.minimum(lowest, value), jnp.where(looking, multipliers, moved),
            jnp.where(looking, weight, heavier),
        )  # fmt: skip

    state = starts[0], jnp.asarray(jnp.inf), none, lightest
    return jax.lax.fori_loop(0, BLOCKS + TIGHTENINGS, step, state)[0]


def _best_of_blocks(values: Any, grid: Any) -> Any:
    """The best point of each block of a grid."""
    rows = -(-len(grid) // BLOCKS)
    short = BLOCKS * rows - len(grid)
    blocks = jnp.pad(_high(values), (0, short), constant_values=jnp.inf).reshape(BLOCKS, rows)
    return grid[jnp.minimum(blocks.argmin(axis=1) + rows * jnp.arange(BLOCKS), len(grid) - 1)]


def _high(values: Any) -> Any:
    return jnp.where(jnp.isfinite(values), values, jnp.inf)


def _newton_in_box(
    objective: Callable[[Any], Any], point: Any, lengths: Any = LENGTHS
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


# Compute.


def total_cost(cost: Cost | None, source: Draws | None = None, served: Any = None) -> Any:
    """The cost of a run as programs take it, with 2·N for each token that is served.

    It is the user's, else the FLOPs of the runs' own table; None for 6·N·D.

    Served tokens are in the units of the runs. The number is an argument of the programs, which
    serve all numbers, and not a part of them, as a function of the user's is.
    """
    own = None if source is None else source.fit.flops
    training = None if own is None else Partial(counted_flops, *own.numbers)
    training = training if cost is None else Partial(cost)
    if served is None or source is None:
        return training
    tokens = checked_tokens(source, "served_tokens", served, "nonnegative") * source.scale("D")
    return Partial(_with_serving, training, tokens)


def _with_serving(training: Cost | None, tokens: Any, N: Any, D: Any, **others: Any) -> Any:
    """FLOPs of training and of serving: a forward pass is 2·N a token."""
    return (FLOPS_EACH * N * D if training is None else training(N, D, **others)) + 2 * N * tokens


def log_cost(cost: Cost | None, log_N: Any, log_D: Any) -> Any:
    """Log FLOPs of a run: 6·N·D, or what the user's function counts."""
    if cost is None:
        return math.log(FLOPS_EACH) + log_N + log_D
    try:
        return jnp.log(cost(jnp.exp(log_N), jnp.exp(log_D)))
    except Exception as error:  # the user's own function
        raise UsageError(f"cost(N, D) does not give FLOPs in pure JAX: {error}") from error


def flops(cost: Cost | None, log_N: Any, log_D: Any) -> np.ndarray:
    """FLOPs of runs, as NumPy has them."""
    if cost is None:
        return np.exp(np.asarray(log_cost(None, log_N, log_D)))
    with in_float64():
        return np.exp(np.asarray(log_cost(cost, np.asarray(log_N), np.asarray(log_D))))


def log_tokens(cost: Cost | None, log_N: Any, log_C: Any) -> Any:
    """Log tokens that a budget buys a model; differentiable in log_N."""
    if cost is None:
        return log_C - math.log(FLOPS_EACH) - log_N

    def excess(log_D: Any) -> Any:
        return log_cost(cost, log_N, log_D) - log_C

    solution = jax.lax.stop_gradient(root(excess, *map(math.log, SEARCH_LIMITS["D"])))
    # A Newton step from the root moves nothing and carries the derivative.
    slope = jax.lax.stop_gradient(jax.grad(excess)(solution))
    return solution - excess(solution) / slope


def log_size(cost: Cost | None, log_D: Any, log_C: Any) -> Any:
    """Log parameters that a budget pays for with these tokens."""
    if cost is None:
        return log_C - math.log(FLOPS_EACH) - log_D
    limits = map(math.log, SEARCH_LIMITS["N"])
    return root(lambda log_N: log_cost(cost, log_N, log_D) - log_C, *limits)


def loss_at(law: Law, params: Any, log_N: Any, log_D: Any, others: Any) -> Any:
    """The law at raw counts given by their logarithms."""
    unit = {spec.name: spec.unit for spec in law.inputs}
    at = {"N": jnp.exp(log_N) / unit["N"], "D": jnp.exp(log_D) / unit["D"]}
    return law(params, **at, **others)


def losses_at(source: Draws, log_N: Any, log_D: Any, others: Mapping[str, float]) -> np.ndarray:
    """Losses (draws, …) of runs, whose (draws, …) logarithms of raw counts may be shared."""
    N, D = (np.exp(log_x) for log_x in (log_N, log_D))
    axes = (1,) * (max(np.ndim(N), np.ndim(D), 1) - 1)
    params = {name: column.reshape(-1, *axes) for name, column in source.values.items()}
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    with in_float64():
        return np.asarray(source.law.evaluate(params, N=N / unit["N"], D=D / unit["D"], **others))


CONDITION = (
    "with E + A/N^α + B/(D^β·N^γ) and 6·N·D FLOPs there is one, growing with compute as the "
    "data does, only for β > γ, α > γ and B > 0"
)


class ClosedForm(NamedTuple):
    """The best runs of E + A/N^α + B/(D^β·N^γ) on 6·N·D FLOPs, in a law's own units.

    NaN where there is no optimum that grows with compute.

    Attributes:
        G, a, b: N = G·(C/6)^a and D = (C/6)^b/G.
        K, e: what the loss is above its floor there, K·(C/6)^−e.
    """

    G: Any
    a: Any
    b: Any
    K: Any
    e: Any


def power_law_runs(law: Law, params: Any, others: Mapping[str, Any], xp: Any = np) -> ClosedForm:
    """Of a law with ``power_law_terms``; ``xp`` is the module of arrays, JAX's in programs."""
    terms = PowerLawTerms(*law.power_law_terms(params, others))  # type: ignore[misc]
    A, B, alpha, beta, gamma = map(xp.asarray, terms)
    total = alpha + beta - gamma
    exists = (beta > gamma) & (alpha > gamma) & (B > 0)
    G = (alpha * A / ((beta - gamma) * B)) ** (1 / total)
    K = A * G**-alpha + B * G ** (beta - gamma)
    every = (G, beta / total, (alpha - gamma) / total, K, alpha * beta / total)
    exists &= (G > 0) & xp.isfinite(G)
    return ClosedForm(*(xp.where(exists, x, math.nan) for x in every))


def closed_form(law: Law, params: Any, others: Mapping[str, float]) -> tuple[Any, ...] | None:
    """G, a, b of (draws,) laws, as :class:`ClosedForm` has them; None for a law without one."""
    return None if law.power_law_terms is None else _on_host(law, params, others)[:3]


def _on_host(law: Law, params: Any, others: Mapping[str, float]) -> ClosedForm:
    # Laws write their terms with jl.laws.power, too; draws may be of what no run determines.
    with in_float64(), np.errstate(all="ignore"):
        return power_law_runs(law, params, others)


# Programs of a question.


class Form(NamedTuple):
    """What the programs of a question are made of.

    Attributes:
        law: law whose loss is made least; None for the compute.
        limits: law of each limited loss, and the inputs of which it takes the rest to 1.
        free: inputs that are coordinates of the box, in order.
        logs: inputs whose logarithms are searched.
        paid: what determines D: ``budget``, ``loss`` (the first limited one), or nothing.
        budget, corpus: whether there is one.
        capped: whether D has a limit where something else than a coordinate determines it.
        share: input that is the corpus's share of D.
        priced: inputs that the cost takes beside N and D.
    """

    law: Law | None
    limits: tuple[tuple[Law, tuple[str, ...]], ...]
    free: tuple[str, ...]
    logs: tuple[str, ...]
    paid: str
    budget: bool
    corpus: bool
    capped: bool
    share: str
    priced: tuple[str, ...]

    @property
    def in_box(self) -> bool:
        """Whether there are several coordinates."""
        return len(self.free) > 1


class Given(NamedTuple):
    """The numbers of a question, as its programs take them: raw, logarithms of :attr:`Form.logs`.

    Attributes:
        low, high: input → least and largest value.
        open_low, open_high: input → whether the search ends there without a limit.
        held: N, D and the corpus's share, where they are given.
        others: inputs of each law that are given, in its own units.
        cost: cost as :func:`log_cost` takes it.
        log_C: budget; infinite without one.
        log_corpus: tokens of the corpus times its epochs; infinite without one.
        targets: largest value of each limited loss.
        near: D/N in the middle of those that were run; NaN where none is known.
    """

    low: dict[str, float]
    high: dict[str, float]
    open_low: dict[str, bool]
    open_high: dict[str, bool]
    held: dict[str, float]
    others: tuple[dict[str, float], ...]
    cost: Any
    log_C: float
    log_corpus: float
    targets: tuple[float, ...]
    near: float


class Best(NamedTuple):
    """The best point of every draw.

    Attributes:
        raw: input → (draws,) values, raw.
        losses: (draws, laws) losses there.
        ended: (draws,) whether it is the end of a search that nothing limits.
        kept: (draws,) whether it keeps all limits.
        point: (draws, d) coordinates in the box.
        falls_on: (draws,) whether it is the valley next to the runs, and what is least is lower
            still elsewhere; known of one coordinate.

    Of several budgets every array has an axis of them after that of the draws.
    """

    raw: dict[str, Any]
    losses: Any
    ended: Any
    kept: Any
    point: Any
    falls_on: Any


def cost_with(form: Form, given: Given, raw: Mapping[str, Any]) -> Any:
    """The cost of N and D, with what else it takes at its raw values."""
    return partial(given.cost, **{n: raw[n] for n in form.priced}) if form.priced else given.cost


def best_point(form: Form, params: Any, given: Given) -> Best:
    """The best point of one draw, pure JAX."""

    @jax.jit  # traced once for all that is made of it
    def all_of(point: Any) -> tuple[Any, Any, Any]:
        at = _placed(form, params, given, point)
        return _value(form, params, given, at), _excess(form, params, given, at), at.ended

    def value(point: Any) -> Any:
        return all_of(point)[0]

    def ended(point: Any) -> Any:
        return all_of(point)[2]

    count, lowest = len(form.free), jnp.inf
    if count == 0:
        point = jnp.zeros(0)
    elif count == 1:
        excess = lambda point: all_of(point)[1]  # noqa: E731
        point, lowest = _on_line(form, params, given, value, excess, ended)
    else:
        axes = [jnp.linspace(0.0, 1.0, points) for points in GRIDS[count]]
        grid = jnp.stack([axis.ravel() for axis in jnp.meshgrid(*axes, indexing="ij")], axis=1)
        if jax.eval_shape(all_of, grid[0])[1].shape[0]:
            both = lambda point: all_of(point)[:2]  # noqa: E731
            point = lowest_under_limits(jnp.vectorize(both, signature="(d)->(),(k)"), grid)
        else:
            point = lowest_in_box(jnp.vectorize(value, signature="(d)->()"), grid, ended)
    at = _placed(form, params, given, point)
    least, losses = _value(form, params, given, at), _losses(form, params, given, at.raw)
    over = _excess(form, params, given, at)
    kept = at.inside & jnp.all(over <= KEPT) & jnp.isfinite(least)
    falls_on = lowest < least - REACHED * jnp.abs(least)
    return Best(at.raw, jnp.stack(losses), at.ended, kept, point, falls_on)


@for_each_draw("form", draws=("params", "log_C", "targets"))
def _best_points(form: Form, params: Any, given: Given, log_C: Any, targets: Any) -> Best:
    """The best point of every lane: one draw with its budget, or its losses to be reached."""
    return best_point(form, params, given._replace(log_C=log_C, targets=targets))


def best_size(law: Law, params: Any, log_C: Any, others: Any, cost: Cost | None = None) -> Any:
    """Log size, log tokens and loss of a budget's best run, of one draw; pure JAX, any dtype.

    Without limits, units and the runs' ratios; at the search's own limits there is no best run.
    """
    ends = [jnp.log(jnp.asarray(SEARCH_LIMITS[name])) for name in ("N", "D")]
    if law.power_law_terms is not None and cost is None:
        least, most = jnp.maximum(ends[0][0], log_tokens(None, ends[1][1], log_C)), ends[0][1]
        most = jnp.minimum(most, log_tokens(None, ends[1][0], log_C))
        unit = {spec.name: spec.unit for spec in law.inputs}
        known = power_law_runs(law, params, others, jnp)
        log_x = log_C - math.log(FLOPS_EACH * unit["N"] * unit["D"])
        best = jnp.clip(math.log(unit["N"]) + jnp.log(known.G) + known.a * log_x, least, most)
        # Without an optimum that grows with compute the better end is the one to which it falls.
        sizes = jnp.stack([jnp.where(jnp.isnan(best), least, best), least, most])
        losses = jax.vmap(
            lambda log_N: loss_at(law, params, log_N, log_tokens(None, log_N, log_C), others)
        )(sizes)
        k = jnp.where(jnp.isnan(best), jnp.argmin(losses), 0)
        return sizes[k], log_tokens(None, sizes[k], log_C), losses[k]
    form = Form(law, (), ("N",), ("N", "D"), "budget", True, False, False, "", ())
    low, high = (dict(zip(("N", "D"), end, strict=True)) for end in zip(*ends, strict=True))
    opened = {"N": True, "D": True}
    given = Given(low, high, opened, opened, {}, (others,), cost, log_C, math.inf, (), math.nan)
    best = best_point(form, (params,), given)
    return jnp.log(best.raw["N"]), jnp.log(best.raw["D"]), best.losses[0]


@for_each_draw("form")
def values_at(form: Form, params: Any, given: Given, points: Any) -> Any:
    """What is least at (K, d) points, infinite where a limit is broken, and the raw values."""

    def at(point: Any) -> Any:
        placed = _placed(form, params, given, point)
        value = _value(form, params, given, placed)
        kept = jnp.all(_excess(form, params, given, placed) <= KEPT) & jnp.isfinite(value)
        value = jnp.exp(value) if form.law is None else value
        return jnp.where(kept, value, jnp.inf), placed.raw

    return jax.vmap(at)(points)


def _on_line(form: Form, params: Any, given: Given, value: Any, excess: Any, ended: Any) -> Any:
    """The best point of a single coordinate, (1,), and the lowest value of the grid."""
    name = form.free[0]
    limited = len(form.limits) > (form.paid == "loss")
    where = (lambda u: jnp.all(excess(u[None]) <= 0)) if limited else None
    low, high = given.low[name], given.high[name]
    top = jnp.minimum(high, _most(form, given, name, given.held))
    near = (jnp.clip(_near(form, params, given), low, top) - low) / (top - low)
    points = LIMITED_LINE if limited else NEEDED_LINE if form.paid == "loss" else LINE
    point, lowest = lowest_on_line(
        lambda u: value(u[None]), 0.0, 1.0, points, lambda u: ended(u[None]), where, near
    )
    return point[None], lowest


def _near(form: Form, params: Any, given: Given) -> Any:
    """Log size of a run with a D/N as the runs had, where D is determined by the size; or NaN."""
    if form.free[0] != "N" or not form.paid:
        return jnp.nan
    if form.paid == "budget":
        return (given.log_C - math.log(FLOPS_EACH) - given.near) / 2

    def reached(log_N: Any) -> Any:
        raw = {**given.held, "N": jnp.exp(log_N), "D": jnp.exp(log_N + given.near)}
        return -_excess_of(form, params, given, raw, 0)

    log_N = root(reached, given.low["N"], given.high["N"])
    return jnp.where(jnp.isnan(given.near), jnp.nan, log_N)


class _Placed(NamedTuple):
    """A point's raw values, whether its box is not empty, whether a search without limit ended."""

    raw: dict[str, Any]
    inside: Any
    ended: Any


def _placed(form: Form, params: Any, given: Given, point: Any) -> _Placed:
    raw: dict[str, Any] = dict(given.held)
    inside, ended = jnp.asarray(True), jnp.asarray(False)

    def end(name: str, x: Any, top: Any) -> Any:
        at_high = (x >= top - AT_LIMIT) & (top >= given.high[name]) & given.open_high[name]
        return at_high | (x <= given.low[name] + AT_LIMIT) & given.open_low[name]

    # What the cost takes comes first: the tokens that a budget buys depend on it.
    for k, name in sorted(enumerate(form.free), key=lambda one: one[1] not in form.priced):
        top = jnp.minimum(given.high[name], _most(form, given, name, raw))
        x = given.low[name] + point[k] * (top - given.low[name])
        raw[name] = jnp.exp(x) if name in form.logs else x
        inside &= top >= given.low[name]
        ended |= end(name, x, top)
        if name == "N" and form.paid == "budget":
            top = _most_tokens(form, given, raw)
            log_D = log_tokens(cost_with(form, given, raw), x, given.log_C)
            log_D = jnp.maximum(log_D if form.in_box else jnp.minimum(log_D, top), given.low["D"])
            raw["D"], inside = jnp.exp(log_D), inside & (top >= given.low["D"])
            ended |= end("D", log_D, top)
    if form.paid == "loss":
        top = _most_tokens(form, given, raw)
        log_D = _needed(form, params, given, raw, math.log(SEARCH_LIMITS["D"][1]))
        log_D = log_D if form.in_box else jnp.where(log_D <= top, log_D, jnp.inf)
        raw["D"] = jnp.exp(log_D)
        ended |= end("D", log_D, top) & jnp.isfinite(log_D)
    return _Placed({name: raw[name] for name in raw if name not in given.held}, inside, ended)


def _most_tokens(form: Form, given: Given, raw: Mapping[str, Any]) -> Any:
    """Log of the most tokens, where something else than a coordinate determines them."""
    return jnp.minimum(given.high["D"], _most(form, given, "D", raw))


def _most(form: Form, given: Given, name: str, raw: Mapping[str, Any]) -> Any:
    """The largest value of an input that budget and corpus allow beside those that are known."""
    if name == form.share and form.corpus and not form.in_box:
        return jnp.exp(given.log_corpus) / raw["D"]
    if name == "N" and form.budget:
        log_D = jnp.log(raw["D"]) if "D" in raw else given.low["D"]
        return log_size(cost_with(form, given, raw), log_D, given.log_C)
    if name != "D":
        return jnp.inf
    by_budget = form.budget and form.paid != "budget"
    cost = cost_with(form, given, raw)
    paid = log_tokens(cost, jnp.log(raw["N"]), given.log_C) if by_budget else jnp.inf
    if form.share in form.free:  # beside a share that is searched the corpus limits that instead
        return paid
    return jnp.minimum(paid, given.log_corpus - jnp.log(raw.get(form.share, 1.0)))


def _needed(form: Form, params: Any, given: Given, raw: Mapping[str, Any], top: Any) -> Any:
    """Log tokens at which the first limited loss is reached; infinite where none up to ``top`` are.

    Steps from the root move nothing and carry the derivatives that the search takes, one on a line
    and two in the box: the bisection has none.
    """
    raw = {name: value for name, value in raw.items() if name != "D"}

    def shortfall(log_D: Any) -> Any:
        return -_excess_of(form, params, given, {**raw, "D": jnp.exp(log_D)}, 0)

    # The first crossing costs twice as much, and only tuned laws have several.
    crossing = first_root if form.limits[0][0].best_settings else root_or_infinity
    log_D = jax.lax.stop_gradient(crossing(shortfall, given.low["D"], top))
    start = jnp.where(jnp.isfinite(log_D), log_D, given.low["D"])
    moved, slope = start, jax.lax.stop_gradient(jax.grad(shortfall)(start))
    for _ in range(1 + form.in_box):
        moved = moved - shortfall(moved) / slope
    inner = jnp.isfinite(log_D)
    return jnp.where(inner, moved, jnp.where(log_D > 0, jnp.inf, given.low["D"]))


def _losses(form: Form, params: Any, given: Given, raw: Mapping[str, Any]) -> list[Any]:
    """The losses of all laws, the one that is made least first."""
    own = [] if form.law is None else [(form.law, ())]
    losses = []
    for k, (law, rest) in enumerate([*own, *form.limits]):
        taken = {}
        for spec in law.inputs:
            if spec.name in raw and spec.name not in given.others[k]:
                value = raw[spec.name]
                taken[spec.name] = (1 - value if spec.name in rest else value) / spec.unit
        losses.append(law(params[k], **taken, **given.others[k]))
    return losses


def _value(form: Form, params: Any, given: Given, placed: _Placed) -> Any:
    """What is made least: a loss, or the logarithm of the compute."""
    if form.law is not None:
        value = _losses(form, params, given, placed.raw)[0]
    else:
        known = {**given.held, **placed.raw}
        cost = cost_with(form, given, known)
        value = log_cost(cost, jnp.log(known["N"]), jnp.log(known["D"]))
    return jnp.where(placed.inside, value, jnp.inf)


def _excess(form: Form, params: Any, given: Given, placed: _Placed) -> Any:
    """By how much, relative, what is no end of the box exceeds its limit; (limits,)."""
    raw = {**given.held, **placed.raw}
    first = int(form.paid == "loss")  # which is reached, whatever the coordinates
    every = [_excess_of(form, params, given, raw, k) for k in range(first, len(form.limits))]
    if form.in_box and form.corpus and form.share in form.free:
        every.append(jnp.log(raw["D"] * raw[form.share]) - given.log_corpus)
    if form.in_box and form.capped:
        every.append(jnp.log(raw["D"]) - _most_tokens(form, given, raw))
    return jnp.stack(every) if every else jnp.zeros(0)


def _excess_of(form: Form, params: Any, given: Given, raw: Mapping[str, Any], k: int) -> Any:
    loss = _losses(form, params, given, raw)[k + (form.law is not None)]
    return (loss - given.targets[k]) / jnp.abs(given.targets[k])


def crossing(
    source: Draws, name: str, log: bool, target: Any, low: float, high: float, others: Any
) -> Any:
    """Where the laws of all draws first have a loss, (draws,) of each.

    Args:
        source: law with its draws.
        name: input that is searched.
        log: whether its logarithm is.
        target: loss, or (draws,) of them.
        low, high: raw values between which it is searched, or their logarithms.
        others: values of the law's other inputs, in its own units.

    Returns:
        The raw value, or its logarithm: without any ∞ where the loss lies above the target
        throughout, −∞ where it lies below; whether the loss is below at the low end; how many
        values there are; the lowest loss.
    """
    targets = np.broadcast_to(target, source.rows)
    return _crossing(source.law, name, log, source.values, targets, low, high, others)


@for_each_draw("law", "name", "log", draws=("params", "target"))
def _crossing(
    law: Law, name: str, log: bool, params: Any, target: Any, low: Any, high: Any, others: Any
) -> Any:
    (unit,) = (spec.unit for spec in law.inputs if spec.name == name)

    def loss(x: Any) -> Any:
        return law(params, **{name: (jnp.exp(x) if log else x) / unit}, **others)

    grid = jnp.linspace(low, high, POINTS)
    losses = jax.vmap(loss)(grid)
    below = losses <= target
    crossed = below[1:] != below[:-1]
    first = jnp.argmax(crossed)
    falls = jnp.where(below[first], -1.0, 1.0)
    x = root(lambda x: falls * (target - loss(x)), grid[first], grid[first + 1])
    none = jnp.where(below[0], -jnp.inf, jnp.inf)
    x = jnp.where(crossed.any(), x, none)
    return x, below[0], crossed.sum(), jnp.nanmin(losses)


# The question of a user.


@dataclass(frozen=True, eq=False)
class Question:
    """A checked question.

    Attributes:
        sources: the law whose loss is made least, if any, then those of the limited losses.
        labels: names of the limited losses.
        order: inputs that are searched.
        limits: their limits, of the user or of the runs, in the units of the runs.
        corpus: words for the limit of the corpus.
        epochs: largest D/U, raw, and whether it is that of the runs; None without one.
        argument: what the user calls the limits.
    """

    form: Form
    given: Given
    sources: tuple[Draws, ...]
    labels: tuple[str, ...]
    order: tuple[str, ...]
    limits: dict[str, tuple[Any, Any]]
    corpus: str
    epochs: tuple[float, bool] | None
    argument: str

    @property
    def reference(self) -> Draws:
        """The law in whose units the answer is."""
        return self.sources[0]

    @property
    def params(self) -> tuple[dict[str, np.ndarray], ...]:
        """Of each law, parameter → (1 + R,)."""
        return tuple(source.values for source in self.sources)

    @property
    def has_closed_form(self) -> bool:
        """Whether N and D share 6·N·D and nothing else limits them, by a law with a formula."""
        form = self.form
        own = [(self.reference.law, ())] if form.paid == "loss" else []
        asked = form.paid and form.free == ("N",) and [*form.limits] == own
        free = asked and not (self.limits or form.capped) and self.given.cost is None
        return bool(free and self.reference.law.power_law_terms)

    def best(self, budgets: Any = None, targets: Any = None) -> Best:
        """The best points, (draws, K) each.

        Args:
            budgets: (K,) FLOPs; left out, one, that of the question.
            targets: (draws, K) largest values of the first limited loss; left out, likewise.
        """
        log_C = np.atleast_1d(self.given.log_C if budgets is None else np.log(budgets))
        rows, count = self.reference.rows, len(log_C) if targets is None else targets.shape[1]
        log_C = np.tile(np.broadcast_to(log_C, count), rows)
        losses = [np.full(rows * count, loss) for loss in self.given.targets]
        if targets is not None:
            losses[0] = targets.ravel()
        if self.has_closed_form:
            losses = [loss.reshape(rows, count) for loss in losses]
            best = self._by_formula(log_C.reshape(rows, count), *losses)
            if best is not None:
                return best
        lanes = tuple({n: np.repeat(v, count) for n, v in own.items()} for own in self.params)
        losses = tuple(loss.ravel() for loss in losses)
        best = _best_points(self.form, lanes, self.given, log_C, losses)
        return jax.tree.map(lambda x: x.reshape(rows, count, *x.shape[1:]), best)

    def _by_formula(self, log_C: np.ndarray, target: np.ndarray | None = None) -> Best | None:
        """The best runs (draws, K) of budgets, or those that reach losses.

        None where the fit itself has none by its formula, and a loss is to be reached: there the
        search may find one at its end.
        """
        law, others = self.reference.law, self.given.others[0]
        unit = {spec.name: spec.unit for spec in law.inputs}
        params = {name: column[:, None] for name, column in self.params[0].items()}
        G, a, b, K, e = _on_host(law, params, others)
        if target is not None and np.isnan(G[0, 0]):
            return None

        def run(product: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            N, D = G * product**a, product**b / G
            none = ~np.isfinite(N * D) | (N * D <= 0)
            N, D = np.where(none, np.nan, N), np.where(none, np.nan, D)
            with in_float64():
                return N, D, np.asarray(law.evaluate(params, N=N, D=D, **others))

        with np.errstate(all="ignore"):  # draws of what no run determines
            far = _FAR if target is not None else np.exp(log_C)
            product = np.full(log_C.shape, far) / (FLOPS_EACH * unit["N"] * unit["D"])
            N, D, loss = run(product)
            if target is not None:  # what lies between it and the floor is a power of the compute
                floor = loss - K * product**-e
                product = (K / (target - floor)) ** (1 / e)
                N, D = G * product**a, product**b / G
                loss = np.where(np.isfinite(N), target, floor)
            raw = {"N": N * unit["N"], "D": D * unit["D"]}
            none = ~np.isfinite(N)
            point = self.coordinate(np.log(raw["N"]), log_C)
        ended = none if target is None else none & False
        return Best(raw, loss[..., None], ended, ~none, point[..., None], none & False)

    def coordinate(self, log_N: Any, log_C: Any) -> np.ndarray:
        """Of log sizes that a budget pays for, in the box."""
        cost, low = self.given.cost, self.given.low["N"]
        with in_float64() if cost else contextlib.nullcontext():
            paid = np.asarray(log_size(cost, self.given.low["D"], log_C))
        top = np.minimum(self.given.high["N"], paid)
        return (log_N - low) / (top - low)

    def point_of(self, at: Mapping[str, float]) -> np.ndarray:
        """(d,) coordinates of a run, in the units of the runs, that the budget pays for."""
        raw, (_, *more) = {n: at[n] * self.reference.scale(n) for n in self.order}, self.form.free
        low, high = self.given.low, self.given.high
        first = self.coordinate(math.log(raw["N"]), self.given.log_C)
        return np.array([first, *((raw[n] - low[n]) / (high[n] - low[n]) for n in more)])

    def values(self, best: Best) -> dict[str, np.ndarray]:
        """Name → (draws, K) inputs in the units of the runs, losses, compute; NaN where is none."""
        none = best.ended | ~best.kept
        raw = {name: np.where(none, np.nan, column) for name, column in best.raw.items()}
        columns = {name: raw[name] / self.reference.scale(name) for name in self.order}
        named = [f"loss[{label}]" for label in self.labels]
        named = named if self.form.law is None else ["loss", *named]
        for k, name in enumerate(named):
            columns[name] = np.where(none, np.nan, best.losses[..., k])
        return columns | self.compute(raw)

    def compute(self, raw: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """FLOPs of runs, by name; empty for a law without N or D."""
        known = {**self.given.held, **raw}
        if not {"N", "D"} <= set(known):
            return {}
        some = 0.0 * next(iter(raw.values()))
        cost = cost_with(self.form, self.given, known)
        return {"compute": flops(cost, *(np.log(known[n] + some) for n in ("N", "D")))}

    def without_end(self, best: Best) -> str:
        """Why there is no optimum, and what to do."""
        law = self.reference.law.name
        if self.has_closed_form:
            return f"law {law} has no best size: {CONDITION}"
        name, side = self.order[0], "last"
        for one in (one for one in ("D", "N") if one in self.order):
            low, high = SEARCH_LIMITS[one]
            value = best.raw[one].flat[0]
            if not low * (1 + AT_LIMIT) < value < high * (1 - AT_LIMIT):
                name, side = one, "smallest" if value < 2 * low else "largest"
        if name == "D" and self.form.paid == "budget":  # what is left of it buys the largest model
            name, side = "N", {"smallest": "largest", "largest": "smallest"}[side]
        what = "the compute" if self.form.law is None else "its loss"
        return (
            f"law {law} has no best {name}: {what} falls all the way to the "
            f"{side} {name} that is searched; {self.argument}={{'{name}': (least, largest)}} puts "
            "an end to it"
        )

    def not_allowed(self) -> str:
        """Which limits no values keep."""
        limits = [
            f"{label} loss ≤ {most:g}"
            for label, most in zip(self.labels, self.given.targets, strict=True)
        ]
        limits += [self.corpus] if self.form.corpus else []
        return f"no values that are searched keep {', '.join(limits) or 'all limits'}"

    def binding(
        self, best: Mapping[str, float], limited: Mapping[str, float], compute: float,
        budget: float | None = None,
    ) -> str:  # fmt: skip
        """What stops the loss from falling further, in words; ``budget`` in place of its own."""
        log_C = self.given.log_C if budget is None else math.log(budget)
        bound = ["compute"] if self.form.budget and math.log(compute) >= log_C - AT_LIMIT else []
        for (label, loss), most in zip(limited.items(), self.given.targets, strict=True):
            bound += [f"{label} loss"] if loss >= most - AT_LIMIT * abs(most) else []
        units = self.reference.fit.input_units()
        fractions = [s.name for s in self.reference.law.inputs if s.domain == "fraction"]
        ends = {n: (0.0, 1 / self.reference.units[n]) for n in self.order if n in fractions}
        for name, (low, high) in {**ends, **self.limits}.items():
            if low is not None and best[name] <= low + AT_LIMIT * abs(low):
                bound.append(f"{name} ≥ {written(low, *units[name])}")
            if high is not None and best[name] >= high - AT_LIMIT * abs(high):
                bound.append(f"{name} ≤ {written(high, *units[name])}")
        if self.form.corpus:
            raw = {name: best[name] * self.reference.scale(name) for name in self.order}
            known = {**self.given.held, **raw}
            used = known["D"] * known.get(self.form.share, 1.0)
            uses_up = used >= math.exp(self.given.log_corpus) * (1 - AT_LIMIT)
            bound += [self.corpus] if uses_up else []
        return ", ".join(bound) or "none"

    def notes(self, best: Mapping[str, float]) -> list[Note]:
        """Where the optimum lies, and what is to be known of the fits."""
        notes: list[Note] = []
        if not any(map(math.isnan, best.values())):
            notes = bound_notes(self.reference, self.limits, best)
            if "D" in best:
                others = self.given.others[0]
                other = "a corpus with max_epochs in subject_to= sets another limit"
                notes += epochs_notes(self.reference, others, best["D"], self.epochs, other)
        own = len(self.sources) - len(self.labels)
        limits = [((), "")] * own + [
            (rest, label) for (_, rest), label in zip(self.form.limits, self.labels, strict=True)
        ]
        for source, others, (rest, label) in zip(
            self.sources, self.given.others, limits, strict=True
        ):
            at = {name: value / source.units[name] for name, value in others.items()}
            for name in source.inputs_taken(best):
                value = best[name] * self.reference.scale(name)
                at[name] = (1 - value if name in rest else value) / source.scale(name)
            notes += source_notes(source, label, **at)
        return notes

    def near(self, nats: float, point: np.ndarray) -> dict[str, tuple[float, float]]:
        """Input → (low, high) where the logarithm of what is least rises by so much at most.

        Of the fit itself, by grids over the coordinates. On each the profile of every coordinate,
        the least over all others, is cut at the level; the next grid covers what is left and a
        cell beside it, so that the last one is as fine as the range asks for.

        Args:
            nats: the rise, such as the noise of single runs.
            point: (d,) coordinates of the optimum.
        """
        if not len(point):
            return {}
        count, around = NEAR_POINTS[len(point)], [(0.0, 1.0)] * len(point)
        first = tuple({name: v[:1] for name, v in own.items()} for own in self.params)
        for _ in range(NEAR_ROUNDS):
            # The optimum is one of the points, whatever the others miss.
            axes = [
                np.sort(np.append(np.linspace(*span, count), x))
                for span, x in zip(around, point, strict=True)
            ]
            points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
            (values,), raw = values_at(self.form, first, self.given, points)
            if not (least := values.min()) > 0:  # of a negative loss the excess is of its size
                if not least < 0:
                    return {}
                values = np.exp(relative_excess(values, least))
            table, cut = values.reshape([count + 1] * len(point)), []
            for own, (axis, x) in enumerate(zip(axes, point, strict=True)):
                profile = table.min(axis=tuple(k for k in range(table.ndim) if k != own))
                cut.append(as_good(profile, int(np.searchsorted(axis, x)), nats))
            around = [
                (axis[max(low - 1, 0)], axis[min(high + 1, count)])
                for axis, (low, high) in zip(axes, cut, strict=True)
            ]
        kept = values <= values.min() * math.exp(nats)
        for axis, (low, high), x in zip(axes, cut, points.T, strict=True):
            kept &= (x >= axis[low]) & (x <= axis[high])
        scale = self.reference.scale
        columns = {name: raw[name][0][kept] / scale(name) for name in self.order}
        return {name: (float(x.min()), float(x.max())) for name, x in columns.items()}


def as_good(losses: np.ndarray, best: int, noise: float) -> tuple[int, int]:
    """First and last point around the best whose losses differ from its own by less than noise.

    Args:
        losses: (n,) losses along a line; NaN and infinity where there is no run.
        best: number of the best point.
        noise: relative standard deviation of single runs.
    """
    far = ~(losses <= losses[best] * math.exp(noise))
    far[best] = False
    below, above = np.flatnonzero(far[:best]), np.flatnonzero(far[best:])
    low = below[-1] + 1 if len(below) else 0
    return int(low), int(best + above[0] - 1 if len(above) else len(losses) - 1)


def relative_excess(losses: Any, lowest: Any) -> Any:
    """How far losses lie above the lowest, as shares of its size; a loss may be negative."""
    return (losses / lowest - 1) * np.sign(lowest)


def question_of(
    fit: Any, over: Mapping[str, Any], subject_to: Sequence[Constraint] = (), at: Inputs = None,
    argument: str = "over",
) -> Question:  # fmt: skip
    """The question of a user, checked; arguments and errors as of :func:`minimise`.

    ``argument`` is what the caller's user calls ``over``.
    """
    budget, corpus = _one(subject_to, Budget), _one(subject_to, Corpus)
    limited = tuple(one for one in subject_to if isinstance(one, AtMost))
    compute = fit if isinstance(fit, Compute) else None
    if compute is not None and (not limited or budget is not None):
        raise UsageError(
            "the least compute is that at which a loss is reached: subject_to=[AtMost(fit, loss)], "
            "without a Budget"
        )
    every = as_draws(*([fit] if compute is None else []), *(limit.fit for limit in limited))
    for one in every:
        require_loss(one)
    source, of_limits = every[0], every[len(every) - len(limited) :]
    specs = searched_inputs(source, tuple(over))
    ranges = {n: searched_range(source, spec, over[n], argument) for n, spec in specs.items()}

    goal = [AtMost(None, 0.0)] * (len(every) - len(limited))
    others = _given_inputs(every, [*goal, *limited], corpus, tuple(over), at or {})
    units = {spec.name: spec.unit for spec in source.law.inputs}
    held = {name: value * units[name] for name, value in others[0].items()}

    paid = ""  # what determines D, if anything does
    if compute is not None:
        paid = "loss" if "D" in ranges else ""
    elif budget is not None:
        if not {"N", "D"} <= {*ranges, *held} or not {"N", "D"} & {*ranges}:
            raise UsageError("a Budget limits N and D: search one of them or both, with over=")
        paid = "budget" if {"N", "D"} <= {*ranges} else ""
    limit = _corpus_limit(source, corpus, held, tuple(over))
    bounded = math.isfinite(limit.log)
    share = "" if corpus is None or corpus.share not in {*ranges, *held} else corpus.share
    ahead = [name for name in ("N", "D", share) if name in ranges]
    free = [*ahead, *(name for name in ranges if name not in ahead)]
    free = tuple(name for name in free if not (name == "D" and paid))
    if len(free) > max(GRIDS):
        raise UsageError(f"{len(free)} inputs are searched; {max(GRIDS)} are the most")
    counted = budget or compute
    form = Form(
        law=source.law if compute is None else None,
        limits=tuple((law.law, one.rest) for law, one in zip(of_limits, limited, strict=True)),
        free=free,
        logs=tuple(name for name, span in ranges.items() if span.log),
        paid=paid,
        budget=budget is not None,
        corpus=bounded,
        capped=bool(paid) and (bounded and share not in ranges or not ranges["D"].open[1]),
        share=share,
        priced=_priced(None if counted is None else counted.cost, source.law),
    )
    cost = None if counted is None else counted.cost
    cost = total_cost(cost, source, None if counted is None else counted.served_tokens)
    log_C = math.inf if budget is None else math.log(checked_compute(budget.compute))
    targets = tuple(checked_number("loss of AtMost", one.loss, "real") for one in limited)
    sides = [{name: span.sides[k] for name, span in ranges.items()} for k in range(4)]
    sized = {"N", "D"} <= {*source.law.input_names}
    near = sum(tried_ratios(source)) / 2 if sized else math.nan
    given = Given(*sides, held, others, cost, log_C, limit.log, targets, near)
    plain = [one.label or law.law.name for one, law in zip(limited, of_limits, strict=True)]
    labels = tuple(
        name if plain.count(name) == 1 else f"{name} {k + 1}" for k, name in enumerate(plain)
    )
    limits = {name: span.limits for name, span in ranges.items() if span.limits != (None, None)}
    return Question(
        form, given, every, labels, tuple(over), limits, limit.words, limit.epochs, argument
    )


def _one(constraints: Sequence[Constraint], kind: type) -> Any:
    """The one constraint of a kind; None without one."""
    own = [one for one in constraints if isinstance(one, kind)]
    if len(own) > 1:
        raise UsageError(f"subject_to holds {len(own)} of {kind.__name__}; give one")
    return own[0] if own else None


def _priced(cost: Cost | None, law: Law) -> tuple[str, ...]:
    """Inputs of the law that the cost takes by name, beside N and D."""
    if cost is None:
        return ()
    try:
        taken = list(inspect.signature(cost).parameters)[2:]
    except (TypeError, ValueError):
        return ()  # what is no function, or has no signature, is refused or called
    if {"N", "D"} & {*taken}:
        raise UsageError("cost takes N and D first, other inputs after them: cost(N, D, …)")
    return tuple(name for name in taken if name in law.input_names)


def _given_inputs(
    every: Sequence[Draws], limits: Sequence[AtMost], corpus: Corpus | None,
    order: Sequence[str], at: Mapping[str, Any],
) -> tuple[dict[str, float], ...]:  # fmt: skip
    """Of each law the inputs that are not searched, in its own units, its rests among them."""
    known = {name for source in every for name in source.law.input_names} - {*order}
    for name in at:
        if name not in known:
            raise UsageError(
                f"no law here takes an input '{name}' that is not searched.{nearest(name, known)}"
            )
    if corpus is not None and corpus.tokens is not None and "U" in known:
        if "U" in at:
            raise UsageError("U is the tokens of Corpus here: leave one of them out")
        at = {**at, "U": corpus.tokens}
    given = []
    for source, limit in zip(every, limits, strict=True):
        alone = limit.at or {}
        own = law_inputs(source, {**source.inputs_taken(at), **alone}, order)
        rest = (name for name in limit.rest if name in at and name not in alone)
        given.append(own | {name: 1 - own[name] for name in rest})
    return tuple(given)


def searched_inputs(
    source: Draws, order: Sequence[str], argument: str = "over"
) -> dict[str, Input]:
    """Specifications of the inputs that are searched, named by an argument."""
    specs = {spec.name: spec for spec in source.law.inputs}
    if not order:
        raise UsageError("over names no input; name one or more that are searched")
    for name in order:
        if name not in specs:
            raise UsageError(
                f"{argument}: law {source.law.name} takes no input '{name}'.{nearest(name, specs)}",
                argument=argument,
            )
        if specs[name].levels or specs[name].per_drop or specs[name].mixture:
            why = "one share of a mixture: optimal_weights searches all of them together"
            why = why if specs[name].mixture else "no number that can be searched"
            raise UsageError(f"{argument}: {name} is {why}", argument=argument)
    return {name: specs[name] for name in order}


class SearchedRange(NamedTuple):
    """A checked range of an input.

    Attributes:
        raw: from where to where it is searched.
        log: whether its logarithm is.
        open: whether each side is where the search ends, and no limit.
        limits: limits in the user's units, None for a side without one.
    """

    raw: tuple[float, float]
    log: bool
    open: tuple[bool, bool]
    limits: tuple[float | None, float | None]

    @property
    def sides(self) -> tuple[Any, ...]:
        """From where to where its coordinate goes, and whether each side is open."""
        return (*(math.log(x) if self.log else x for x in self.raw), *self.open)


def searched_range(source: Draws, spec: Input, given: Any, argument: str = "over") -> SearchedRange:
    """From where to where an input is searched: by the user, else by the search or the runs."""
    name, scale, unit = spec.name, source.scale(spec.name), source.units[spec.name]
    own = tuple(
        side
        if side is None
        else checked_number(
            f"{argument} of {name}", in_unit_of_runs(source, name, side), spec.domain, unit
        )
        for side in given or (None, None)
    )
    known = name in SEARCH_LIMITS or spec.domain == "fraction"
    if name in SEARCH_LIMITS:
        ends = tuple(x / scale for x in SEARCH_LIMITS[name])
    elif known:
        ends = 0.0, 1 / unit
    else:
        ends = source.ranges.get(name, (math.nan, math.nan))
    span = tuple(end if x is None else x for x, end in zip(own, ends, strict=True))
    if not np.isfinite(span).all():
        raise UsageError(
            f"the range of {name} in the fitted runs is unknown: say by {argument}= between which "
            "values it is searched",
            argument=argument,
        )
    if not span[0] < span[1]:
        raise UsageError(
            f"{argument} of {name}: the least value, {span[0]:g}, is not below the largest, "
            f"{span[1]:g}; give a single value in at=",
            argument=argument,
        )
    return SearchedRange(
        raw=(span[0] * scale, span[1] * scale),
        log=span[0] > 0 and spec.domain != "fraction",
        open=tuple(name in SEARCH_LIMITS and x is None for x in own),
        limits=own if known else span,
    )


class _CorpusLimit(NamedTuple):
    """Log tokens of a corpus times its epochs, raw; words for it; the epochs of a law with U."""

    log: float = math.inf
    words: str = ""
    epochs: tuple[float, bool] | None = None


def _corpus_limit(
    source: Draws, corpus: Corpus | None, held: Mapping[str, float], order: Sequence[str]
) -> _CorpusLimit:
    """What a corpus, or the epochs of the runs of a law with unique tokens U, allow."""
    most = None if corpus is None else checked_number("max_epochs", corpus.max_epochs)
    if "U" in source.law.input_names:
        if "U" not in held or "D" not in order:
            if most is not None:
                raise UsageError("Corpus limits D at a given U: search D, and give U")
            return _CorpusLimit()
        of_runs = most is None
        if of_runs:
            scale = source.scale("U") / source.scale("D")
            least = source.joint.get("U/D", (math.nan, math.nan))[0] * scale
            if not least > 0:
                return _CorpusLimit()
            most = 1 / least
        return _CorpusLimit(math.log(most * held["U"]), f"D/U ≤ {most:.4g}", (most, of_runs))
    if corpus is None:
        return _CorpusLimit()
    if corpus.tokens is None:
        raise UsageError("Corpus needs tokens: the law has no unique tokens U that would say them")
    share = [corpus.share] if corpus.share in source.law.input_names else []
    if not {"D", *share} & {*order} or "D" not in {*held, *order}:
        raise UsageError(f"a Corpus limits {' and '.join([*share, 'D'])}: search one, with over=")
    tokens = checked_tokens(source, "tokens of Corpus", corpus.tokens) * most
    words = f"{'·'.join([*share, 'D'])} ≤ {tokens:g}"
    return _CorpusLimit(math.log(tokens * source.scale("D")), words)


def tried_ratios(source: Draws) -> tuple[float, float]:
    """Logarithms of the least and largest D/N of the runs, raw; NaN where they are unknown."""
    low, high = source.joint.get("D/N", (math.nan, math.nan))
    if not 0 < low <= high < math.inf:
        sizes, tokens = (source.ranges.get(name, (math.nan, math.nan)) for name in ("N", "D"))
        low, high = tokens[0] / sizes[0], tokens[1] / sizes[1]  # of runs that grow in both
        low, high = min(low, high), max(low, high)
    if not 0 < low <= high < math.inf:
        return math.nan, math.nan
    unit = source.scale("D") / source.scale("N")
    return math.log(low * unit), math.log(high * unit)


def epochs_notes(
    source: Draws, others: Mapping[str, float], D: Any, limit: tuple[float, bool] | None,
    other: str = "max_epochs= sets another limit",
) -> list[Note]:  # fmt: skip
    """How often the unique tokens are gone over, where that is often.

    Args:
        source: law with its draws.
        others: values of its other inputs.
        D: tokens.
        limit: largest D/U, and whether it is that of the runs.
        other: how the caller's user sets another limit.
    """
    if "U" not in source.law.input_names:
        return []
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    epochs = np.max(D * source.scale("D") / (others["U"] * unit["U"]))
    most, of_runs = limit or (math.inf, False)
    if of_runs and epochs >= most * (1 - AT_LIMIT):
        message = (
            f"held back at {most:.4g} epochs, the most that the runs have: the law goes on to "
            f"more, which no run shows; {other}"
        )
        return [Note("epochs-limited", "warning", message)]
    if epochs <= MANY_EPOCHS or not np.isfinite(epochs):
        return []
    message = (
        f"the tokens are {epochs:.3g} epochs of U; Muennighoff 2023 finds repeating worthless at "
        f"{MANY_EPOCHS}"
    )
    return [Note("many-epochs", "warning", message)]


def bound_notes(
    source: Draws, limits: Mapping[str, tuple[Any, Any]], at: Mapping[str, float]
) -> list[Note]:
    """An optimum at a limit, or of a ratio that no run had, is no more than a bound of the best.

    Args:
        source: the law, with the ratios D/N that were run.
        limits: input → (least, largest) as the user gave them, None for an open side.
        at: the optimum, in the units of the runs; of its ratio D/N only where it has both.
    """
    notes, units = [], source.fit.input_units()
    for name, (low, high) in limits.items():
        for limit, word, further in ((low, "an upper", "less"), (high, "a lower", "more")):
            if limit is not None and abs(at[name] - limit) <= AT_LIMIT * max(limit, AT_LIMIT):
                message = (
                    f"{name} is at its limit of {written(limit, *units[name])}, where {further} of "
                    f"it would do better: this is {word} bound of the best {name}, not the best"
                )
                notes.append(Note("optimum-at-limit", "warning", message))
    if not {"N", "D"} <= set(at):
        return notes
    unit = source.scale("D") / source.scale("N")
    low, high = np.exp(tried_ratios(source))  # of single things, as they are said below
    if not np.isfinite([low, high, at["N"] * at["D"]]).all():
        return notes
    ratio = unit * at["D"] / at["N"]
    if not low * (1 - AT_LIMIT) <= ratio <= high * (1 + AT_LIMIT):
        side, edge, word = ("below", low, "a lower") if ratio < low else ("above", high, "an upper")
        # The size at the same compute 6·N·D and the last ratio that was run.
        size = at["N"] * math.sqrt(ratio / edge)
        message = (
            f"the best D/N, {ratio:.3g}, lies {side} all that were run ({low:.3g} to {high:.3g}): "
            f"the runs speak for N = {written(size, *units['N'])} as {word} bound of the best "
            "size, and for none beyond it"
        )
        notes.append(Note("optimum-beyond-tried", "warning", message))
    return notes
