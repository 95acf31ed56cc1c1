"""The one search of plans: the inputs at which a law predicts its lowest loss, or reaches one.

A question (:func:`question_of`) names inputs that are searched, limits and a goal: a law's loss, or
compute. Its best run is, in this order,

1. a closed form, of laws with ``power_law_terms`` whose size and data share a budget of 6·N·D;
2. on one coordinate a grid, then the root of the derivative; limits cut off the coordinate's ends;
3. on several coordinates Newton's method in the unit box, from a grid. There a cut that moves with
   another coordinate would put a kink into the loss, with the optimum in it, where Newton's method
   stops short: such a limit is a smooth inequality, as that on another loss is, and enters by an
   augmented Lagrangian.

The coordinates are N, D and the mixture ratio first, in this order. D is none where something else
determines it: the budget that pays for it, or, where compute is made least, the loss to be reached.

All draws and all budgets are lanes of one compiled program: everything takes a fixed or bounded
number of steps, so that it batches under ``vmap``. A second valley or crossing is seen where it is
wider than a cell of the grid. Programs work on raw counts and FLOPs, laws in their own units.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import UNKNOWN, checked_number, grouped, written
from jaxlaw.data import counted_flops
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws import Law, PowerLawTerms
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Budget, Compute, Constraint, Corpus, Cost, Inputs
from jaxlaw.planning._frame import (
    checked_compute,
    checked_input,
    draws_taking,
    in_unit_of_runs,
    law_inputs_of_each,
    losses_of,
    mesh,
    of_fit,
    source_notes,
)
from jaxlaw.uncertainty import Draws

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
_ENDS = (1e18, 1e24, math.inf)  # FLOPs at which the power of a law's best loss is read off
POINTS = 513  # among which a loss is looked for
LEAST_SHARE = 1e-9  # of a law that is infinite at 0: a smaller one is of no whole token

# The range of near-optimal values: grids of so many points a coordinate, each around the last.
NEAR_POINTS = {1: 2001, 2: 65, 3: 25, 4: 13}
NEAR_ROUNDS = 6

TURNING = 65  # points among which the first crossing of a loss is looked for
HALVINGS = 60  # of a bracket: the end is below the rounding of a double

# Of :func:`lowest_in_box`.
BLOCKS = 8  # of the grid; the best point of each is refined
ROUNDS = 30  # at most
STILL = 1e-14  # relative gain of a round after which there is none to come: Newton's are quadratic
LENGTHS = tuple(0.5**k for k in range(12))  # of the steps that are tried in a round

# Weights of what exceeds a limit, in turn.
FIRST_WEIGHT, HEAVIER, HEAVIEST, TIGHTENINGS = 1e3, 4.0, 1e6, 12
# Where a limit is kept, the curvature knows nothing of what is beyond it, so that the step is too
# long by the ratio of the weights.
ALL_LENGTHS = tuple(0.25**k for k in range(20))

#: Lanes up to which a program takes longer to optimise than to run.
FEW = 16


# Roots and minima of traced functions.

Function = Callable[..., Any]


def for_each_draw(
    *static: str, draws: tuple[str, ...] = ("params",)
) -> Callable[[Function], Function]:
    """Decorator: from a function of one draw's parameters to a program for all draws.

    Args:
        static: names of the function's static arguments, such as the law.
        draws: names of its arguments that have a leading axis of draws; all others are shared.

    Returns:
        A function of the same positional arguments: it works in float64 and returns NumPy arrays
        with that leading axis.
    """

    def decorate(function):
        names = tuple(inspect.signature(function).parameters)

        @functools.wraps(function)
        def over_draws(*args):
            each = dict(zip(names, args, strict=True))
            fixed = {name: each.pop(name) for name in static}
            axes = {name: 0 if name in draws else None for name in each}
            return jax.vmap(lambda each: function(**fixed, **each), (axes,))(each)

        programs = [compiled(optimised=many, static_argnames=static)(over_draws) for many in (0, 1)]

        # What it wraps is what programs are made of, so that later processes know them by its name.
        @functools.wraps(over_draws)
        def call(*args):
            lanes = len(jax.tree.leaves(args[names.index(draws[0])])[0])
            with in_float64():
                return jax.tree.map(np.asarray, programs[lanes > FEW](*args))

        return call

    return decorate


def root(rising: Function, low, high, halvings: int = HALVINGS):
    """Where a function that rises through zero is zero, by bisection of [low, high].

    Without a change of sign it is the end nearer to one: ``high`` where the function is negative
    throughout, ``low`` where it is positive. NaN counts as negative. Only the sign is used, so
    that the function may jump, and a condition (true = positive) serves as well.
    """

    def halve(_, bracket):
        low, high = bracket
        middle = (low + high) / 2
        above = rising(middle) > 0
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    low, high = jnp.asarray(low, float), jnp.asarray(high, float)
    return sum(jax.lax.fori_loop(0, halvings, halve, (low, high))) / 2


def root_or_infinity(rising: Function, low, high):
    """As :func:`root`; without a change of sign ∞ (negative throughout) or −∞ (positive)."""
    zero = jnp.where(rising(high) <= 0, jnp.inf, root(rising, low, high))
    return jnp.where(rising(low) >= 0, -jnp.inf, zero)


def lowest_on_line(
    value: Function,
    low,
    high,
    points: int,
    ended: Function,
    where: Function | None = None,
    near: Function | None = None,
):
    """Where a function of one number is lowest in [low, high].

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
        near: distance from where to begin: the valley that the function falls into from the
            nearest point, whatever lies beyond the next rise. The lowest valley where distances are
            NaN, or where the function only falls from there to such an end.
    """
    grid = low + (high - low) * jnp.linspace(0.0, 1.0, points)
    values = jax.vmap(value)(grid)
    values = jnp.where(jnp.isnan(values), math.inf, values)
    if where is not None:
        values = jnp.where(jax.vmap(where)(grid), values, math.inf)
    best, eps = jnp.argmin(values), jnp.finfo(values.dtype).eps
    at_end = jax.vmap(ended)(grid)
    at_end = at_end.at[1:].max(at_end[:-1]).at[:-1].max(at_end[1:])  # beside one, too
    inner = values[1:-1]
    # Deeper than rounding, which makes valleys where the function is flat.
    least = inner + 8 * eps * jnp.abs(inner)
    valley = (least < values[:-2]) & (least < values[2:]) & ~at_end[1:-1]
    deepest = 1 + jnp.argmin(jnp.where(valley, inner, math.inf))
    best = jnp.where(at_end[best] & valley.any(), deepest, best)
    if near is not None:
        apart = jax.vmap(near)(grid)
        start = jnp.nanargmin(jnp.where(jnp.isfinite(values), apart, jnp.nan))

        def lower(k):
            beside = jnp.clip(k + jnp.array([0, -1, 1]), 0, points - 1)  # first itself: on a plain
            return beside[jnp.argmin(values[beside])]

        found = jax.lax.while_loop(lambda k: lower(k) != k, lower, start)
        best = jnp.where(jnp.isfinite(apart[start]) & ~at_end[found], found, best)
    left, right = grid[jnp.maximum(best - 1, 0)], grid[jnp.minimum(best + 1, points - 1)]
    if where is not None:
        left = root(where, left, grid[best])
        right = root(lambda x: ~where(x), grid[best], right)

    def slope(x):
        # Where there is no value, as of sizes too small for a loss, it is beside the valley.
        here, rise = jax.value_and_grad(value)(x)
        return jnp.where(jnp.isfinite(here), rise, x - grid[best])

    x = root(slope, left, right)
    for end in (low, high):  # at an end itself, which bisection only comes close to
        x = jnp.where(jnp.abs(x - end) <= (high - low) * 2.0 * eps, end, x)
    return x


def lowest_in_box(
    objective: Function, grid, ended: Function | None = None, excess: Function | None = None
):
    """Where a smooth function of d ≤ 4 numbers is lowest in [0, 1]^d.

    Args:
        objective: ``f(points)``, (…, d) → (…); smooth. What is not finite counts as high.
        grid: (points, d) first points, dense enough that one lies in the basin of the lowest.
        ended: ``f(point)``, whether a minimum at a point (d,) is none, since the function falls on
            beyond the box; one is returned only where no block of the grid has a better one.
        excess: ``f(points)``, (…, d) → (…, k) by how much limits are exceeded; smooth, of the size
            of 1. The lowest of the points at which none is above 0; where no point keeps the
            limits, one at which little exceeds them.

    Returns:
        (d,) the point, by Newton's method from the best point of each block of the grid.
    """

    def augmented(points, multipliers, weight):
        # The square of what exceeds a limit is a part of what is minimised, and the multiplier
        # moves until nothing exceeds it: the augmented Lagrangian. The weight grows on the way, but
        # stays small enough for Newton's method; without the multiplier it would be infinite.
        values = objective(points)
        if excess is None:
            return values
        over = jnp.maximum(excess(points) + multipliers / weight, 0.0)
        return values + weight / 2 * (over**2).sum(-1)

    none = jnp.zeros(0) if excess is None else jnp.zeros_like(excess(grid[0]))
    rows, lightest = -(-len(grid) // BLOCKS), jnp.asarray(FIRST_WEIGHT)
    values = _high(augmented(grid, none, lightest))
    blocks = jnp.pad(values, (0, BLOCKS * rows - len(grid)), constant_values=jnp.inf)
    best = blocks.reshape(BLOCKS, rows).argmin(axis=1) + rows * jnp.arange(BLOCKS)
    starts = grid[jnp.minimum(best, len(grid) - 1)]
    if excess is None:
        refined, values = jax.vmap(lambda point: _newton_in_box(objective, point))(starts)
        if ended is not None:
            beyond = jax.vmap(ended)(refined)
            values = jnp.where(beyond & ~beyond.all(), jnp.inf, values)
        return refined[values.argmin()]
    first_lengths = jnp.pad(jnp.array(LENGTHS), (0, len(ALL_LENGTHS) - len(LENGTHS)))

    # First from every start, then on from the best: one loop for both, as Newton's method is most
    # of the program.
    def step(k, state):
        point, lowest, multipliers, weight = state
        looking = k < BLOCKS
        found, value = _newton_in_box(
            lambda points: augmented(points, multipliers, weight),
            jnp.where(looking, starts[jnp.minimum(k, BLOCKS - 1)], point),
            jnp.where(looking, first_lengths, jnp.array(ALL_LENGTHS)),
        )
        point = jnp.where(looking & ~(value < lowest), point, found)
        moved = jnp.maximum(multipliers + weight * jnp.nan_to_num(excess(point)), 0.0)
        heavier = jnp.minimum(weight * HEAVIER, HEAVIEST)
        later = jnp.where(looking, multipliers, moved), jnp.where(looking, weight, heavier)
        return point, jnp.minimum(lowest, value), *later

    state = starts[0], jnp.asarray(jnp.inf), none, lightest
    return jax.lax.fori_loop(0, BLOCKS + TIGHTENINGS, step, state)[0]


def _high(values):
    return jnp.where(jnp.isfinite(values), values, jnp.inf)


def _newton_in_box(objective: Function, point, lengths=LENGTHS) -> tuple:
    """A minimum near a point, and its value; ``lengths`` are those of the steps that are tried."""

    def gradient_twice(point):
        gradient = jax.jacfwd(objective)(point)
        return gradient, gradient

    # Forward mode in few coordinates: programs half the size of those of reverse mode.
    def round_(carry):
        point, before, _, rounds = carry
        curvature, gradient = jax.jacfwd(gradient_twice, has_aux=True)(point)
        gradient = jnp.nan_to_num(gradient)
        # A coordinate whose gradient points out of the box takes no part in this step: its row
        # and column are those of the identity.
        active = ((point <= 0) & (gradient > 0)) | ((point >= 1) & (gradient < 0))

        def newton_step(active):
            free = ~active[:, None] & ~active[None, :]
            hessian = jnp.where(free, jnp.nan_to_num(curvature), jnp.diag(1.0 * active))
            sizes, axes = jnp.linalg.eigh(hessian)
            sizes = jnp.maximum(jnp.abs(sizes), 1e-12)
            return -axes @ ((axes.T @ jnp.where(active, 0.0, gradient)) / sizes)

        newton = newton_step(active)
        # In a narrow valley across a bound the step leaves the box though the gradient does not,
        # and what is cut off at the bound lies beside the valley: once more along the bound.
        leaves = ((point <= 0) & (newton < 0)) | ((point >= 1) & (newton > 0))
        # The steepest descent helps where the curvature is of no use, as far from a valley.
        downhill = -jnp.where(active, 0.0, gradient)
        steepest = 0.1 * downhill / jnp.maximum(jnp.abs(downhill).max(), 1e-300)
        steps = jnp.stack([newton, steepest, newton_step(active | leaves)])
        steps = (steps[:, None, :] * jnp.array(lengths)[:, None]).reshape(-1, len(point))
        # One stays where nothing is lower. The whole Newton step is taken where it is lowest but
        # for rounding: values tell a point from others only to the root of rounding.
        tried = jnp.concatenate([point[None], jnp.clip(point + steps, 0.0, 1.0)])
        values = _high(objective(tried))
        least = values.min()
        level = values[1] - least <= 8 * jnp.finfo(values.dtype).eps * jnp.abs(least)
        best = jnp.where(level, 1, values.argmin())
        gained = before - least > STILL * jnp.abs(before)
        return tried[best], values[best], gained | (rounds < 1), rounds + 1

    begun = (point, jnp.finfo(point.dtype).max + 0.0 * point[0], point[0] == point[0], 0)
    return jax.lax.while_loop(lambda carry: carry[2] & (carry[3] < ROUNDS), round_, begun)[:2]


# Compute.


def total_cost(cost: Cost | None, source: Draws, served=None):
    """The cost of a run as programs take it, with 2·N for each token that is served.

    It is the user's, else the FLOPs of the runs' own table; None for 6·N·D.

    Served tokens are in the units of the runs. The number is an argument of the programs, which
    serve all numbers, and not a part of them, as a function of the user's is.
    """
    training, own = None, source.fit.flops
    if cost is not None:
        training = Partial(cost)
    elif own is not None:
        training = Partial(counted_flops, *own.numbers)
    if served is None:
        return training
    tokens = checked_input(source, "D", served, "nonnegative", "served_tokens")
    return Partial(_with_serving, training, tokens * source.scale("D"))


def _with_serving(training: Cost | None, tokens, N, D, **others):
    """FLOPs of training and of serving: a forward pass is 2·N a token."""
    return (FLOPS_EACH * N * D if training is None else training(N, D, **others)) + 2 * N * tokens


def log_cost(cost: Cost | None, log_N, log_D):
    """Log FLOPs of a run: 6·N·D, or what the user's function counts."""
    if cost is None:
        return math.log(FLOPS_EACH) + log_N + log_D
    try:
        return jnp.log(cost(jnp.exp(log_N), jnp.exp(log_D)))
    except Exception as error:  # the user's own function
        raise UsageError(f"cost(N, D) does not give FLOPs in pure JAX: {error}") from error


def flops(cost: Cost | None, log_N, log_D) -> np.ndarray:
    """FLOPs of runs, as NumPy has them."""
    with in_float64():
        return np.exp(np.asarray(log_cost(cost, np.asarray(log_N), np.asarray(log_D))))


def log_tokens(cost: Cost | None, log_N, log_C):
    """Log tokens that a budget buys a model; differentiable in log_N."""
    if cost is None:
        return log_C - math.log(FLOPS_EACH) - log_N

    def excess(log_D):
        return log_cost(cost, log_N, log_D) - log_C

    solution = jax.lax.stop_gradient(root(excess, *map(math.log, SEARCH_LIMITS["D"])))
    # A Newton step from the root moves nothing and carries the derivative.
    slope = jax.lax.stop_gradient(jax.grad(excess)(solution))
    return solution - excess(solution) / slope


def loss_at(law: Law, params, log_N, log_D, others):
    """The law at raw counts given by their logarithms."""
    unit = _units(law)
    return law(params, N=jnp.exp(log_N) / unit["N"], D=jnp.exp(log_D) / unit["D"], **others)


def losses_at(source: Draws, log_N, log_D, others: Mapping[str, float]) -> np.ndarray:
    """Losses (draws, …) of runs, whose (draws, …) logarithms of raw counts may be shared.

    Of shared runs, (1, K), normal draws have the losses that they predict (:class:`Draws`).
    """
    unit = _units(source.law)
    at = {"N": np.exp(log_N) / unit["N"], "D": np.exp(log_D) / unit["D"], **others}
    if source.kind != "normal" or not source.params or len(at["N"]) > 1:
        return losses_of(source, **at)
    flat = {name: np.broadcast_to(x, at["N"].shape)[0] for name, x in at.items()}
    return np.concatenate([losses_of(source.without(), **at), source.predicted(flat)])


def _units(law: Law) -> dict[str, float]:
    return {spec.name: spec.unit for spec in law.inputs}


CONDITION = (
    "with E + A/N^α + B/(D^β·N^γ) and 6·N·D FLOPs there is one, growing with compute as the "
    "data does, only for β > γ, α > γ and B > 0"
)


def closed_form(law: Law, params, others: Mapping, xp=np) -> list:
    """G, a, b of the best runs N = G·(C/6)^a and D = (C/6)^b/G of C FLOPs, in a law's own units.

    Of a law that falls with E + A/N^α + B/(D^β·N^γ), its ``power_law_terms``; NaN where there is no
    optimum that grows with compute. ``xp`` is the module of arrays, JAX's in programs.
    """
    terms = PowerLawTerms(*law.power_law_terms(params, others))  # type: ignore[misc]
    A, B, alpha, beta, gamma = map(xp.asarray, terms)
    total = alpha + beta - gamma
    G = (alpha * A / ((beta - gamma) * B)) ** (1 / total)
    exists = (beta > gamma) & (alpha > gamma) & (B > 0) & (G > 0) & xp.isfinite(G)
    return [xp.where(exists, x, math.nan) for x in (G, beta / total, (alpha - gamma) / total)]


# Programs of a question.


class Form(NamedTuple):
    """What the programs of a question are made of.

    Attributes:
        laws: each law, and the inputs of which it takes the rest to 1; first the one whose loss is
            made least, if any, then those of limited losses.
        goal: what is made least, ``loss`` or ``compute``.
        free: inputs that are coordinates, in order.
        logs: inputs whose logarithms are searched.
        paid: what determines D: ``budget``, ``loss`` (the first limited one), or nothing.
        capped: whether D has a limit that no coordinate has, where something else determines it.
        shared: whether the corpus limits r·D, both of them searched.
        priced: inputs that the cost takes beside N and D.
    """

    laws: tuple[tuple[Law, tuple[str, ...]], ...]
    goal: str
    free: tuple[str, ...]
    logs: tuple[str, ...]
    paid: str
    capped: bool = False
    shared: bool = False
    priced: tuple[str, ...] = ()


class Given(NamedTuple):
    """The numbers of a question, as its programs take them: raw, logarithms of :attr:`Form.logs`.

    Attributes:
        ends: input → least and largest value.
        open: input → whether the search ends there without a limit, at either of them.
        held: inputs that are given.
        others: inputs of each law that are given, in its own units.
        cost: cost as :func:`log_cost` takes it.
        log_C: budget; infinite without one.
        log_corpus: tokens of the corpus times its epochs; infinite without one.
        targets: largest value of each limited loss.
        tried: least and largest log D/N of the runs; NaN where they are unknown.
    """

    ends: dict[str, tuple[Any, Any]]
    open: dict[str, tuple[Any, Any]]
    held: dict[str, float]
    others: tuple[dict[str, float], ...]
    cost: Any
    log_C: float
    log_corpus: float = math.inf
    targets: tuple[float, ...] = ()
    tried: tuple[float, float] = UNKNOWN


def cost_at(form: Form, given: Given, raw: Mapping):
    """The cost of N and D, with what else it takes at its raw values."""
    priced = {name: raw[name] for name in form.priced}
    return functools.partial(given.cost, **priced) if priced else given.cost


class Point(NamedTuple):
    """What is known of a point of the coordinates, such as the best one of a draw.

    Of draws, or draws and budgets, every array has these axes first.

    Attributes:
        raw: input → raw value.
        losses: (laws,) losses.
        ended: whether it is the end of a search that nothing limits.
        kept: whether it keeps all limits.
        value: what is made least, a loss or the logarithm of the compute; infinite where no such
            run is. None where a formula has the point, and so is the next.
        excess: by how much, relative, what is no end of a coordinate exceeds its limit, (limits,).
    """

    raw: dict[str, Any]
    losses: Any
    ended: Any
    kept: Any
    value: Any = None
    excess: Any = None


def _posed(form: Form, params, given: Given) -> tuple[Any, Any, Function]:
    """A question of one draw as a function of a point of its coordinates.

    Returns:
        (d,) least and largest coordinates, and the function.
    """
    in_box, limited = len(form.free) > 1, int(form.goal == "loss")
    least, most = given.ends.get("D", UNKNOWN)

    def raw_of(x):
        free = zip(form.free, x, strict=True)
        return given.held | {name: jnp.exp(v) if name in form.logs else v for name, v in free}

    def loss(k, raw):
        (law, rest), others = form.laws[k], given.others[k]
        taken = {
            spec.name: (1 - raw[spec.name] if spec.name in rest else raw[spec.name]) / spec.unit
            for spec in law.inputs
            if spec.name not in others
        }
        return law(params[k], **taken, **others)

    def needed(raw):
        """Log tokens at which the first limited loss is reached; infinite where none are.

        Steps from the root move nothing and carry the derivatives that the search takes, one on a
        line and two in the box: the bisection has none.
        """

        def shortfall(log_D):
            return given.targets[0] - loss(limited, {**raw, "D": jnp.exp(log_D)})

        last = math.log(SEARCH_LIMITS["D"][1])
        # At a learning rate or a batch that is held the loss of a tuned law falls with the size and
        # the tokens up to some point, and rises beyond: of its crossings the first is meant. To
        # look for it costs twice as much.
        if form.laws[limited][0].best_settings:
            grid = jnp.linspace(least, last, TURNING)
            above = jax.vmap(shortfall)(grid) > 0
            last = jnp.where(above.any(), grid[jnp.argmax(above)], last)
        log_D = jax.lax.stop_gradient(root_or_infinity(shortfall, least, last))
        moved = start = jnp.where(jnp.isfinite(log_D), log_D, least)
        slope = jax.lax.stop_gradient(jax.grad(shortfall)(start))
        for _ in range(1 + in_box):
            moved = moved - shortfall(moved) / slope
        return jnp.where(jnp.isfinite(log_D), moved, jnp.where(log_D > 0, jnp.inf, least))

    ends, opened = dict(given.ends), dict(given.open)
    if form.paid == "budget":  # it pays for no larger model
        cost = cost_at(form, given, raw_of([given.ends[name][0] for name in form.free]))
        pays = log_tokens(cost and (lambda D, N: cost(N, D)), least, given.log_C)
        opened["N"] = opened["N"][0], opened["N"][1] & (pays >= ends["N"][1])
        ends["N"] = ends["N"][0], jnp.minimum(ends["N"][1], pays)
    (low, high), (open_low, open_high) = (
        jnp.array([pairs[name] for name in form.free], kind).reshape(-1, 2).T
        for pairs, kind in ((ends, float), (opened, bool))
    )

    def judged(x):
        raw, inside = raw_of(x), jnp.all(high >= low)
        ended = jnp.any((x <= low + AT_LIMIT) & open_low | (x >= high - AT_LIMIT) & open_high)
        if form.paid:
            inside &= most >= least
            if form.paid == "loss":
                log_D = needed(raw)
            else:
                log_D = log_tokens(cost_at(form, given, raw), jnp.log(raw["N"]), given.log_C)
                inside &= log_D >= least - AT_LIMIT
                log_D = jnp.maximum(log_D if in_box else jnp.minimum(log_D, most), least)
            at_low, at_high = (log_D <= least + AT_LIMIT), (log_D >= most - AT_LIMIT)
            ended |= at_low & opened["D"][0] | at_high & jnp.isfinite(log_D) & opened["D"][1]
            raw["D"] = jnp.exp(log_D)
        losses = [loss(k, raw) for k in range(len(form.laws))]
        if limited:
            value = losses[0]
        else:
            value = log_cost(cost_at(form, given, raw), jnp.log(raw["N"]), jnp.log(raw["D"]))
        over = [
            (reached - target) / jnp.abs(target)
            for reached, target in zip(losses[limited:], given.targets, strict=True)
        ][form.paid == "loss" :]  # that one is reached, whatever the coordinates
        if form.shared:
            over.append(jnp.log(raw["D"] * raw["r"]) - given.log_corpus)
        if form.capped:
            over.append(jnp.log(raw["D"]) - most)
        excess, value = jnp.array(over), jnp.where(inside, value, jnp.inf)
        kept = jnp.all(excess <= KEPT) & jnp.isfinite(value)
        return Point(raw, jnp.stack(losses), ended, kept, value, excess)

    return low, high, judged


def best_point(form: Form, params, given: Given) -> Point:
    """The best point of one draw, pure JAX."""
    low, high, judged = _posed(form, params, given)
    count = len(form.free)

    @jax.jit  # traced once for all that is made of it
    def at(u):
        return judged(low + u * (high - low))

    limited = jax.eval_shape(at, jnp.zeros(count)).excess.size > 0
    if not count:
        return at(jnp.zeros(0))
    if count == 1:

        def off_runs(t):
            """How far D/N is from the middle of those that were run."""
            raw = at(t[None]).raw
            return jnp.abs(jnp.log(raw["D"] / raw["N"]) - (given.tried[0] + given.tried[1]) / 2)

        return at(lowest_on_line(
            lambda t: at(t[None]).value, 0.0, 1.0,
            NEEDED_LINE if form.paid == "loss" else LIMITED_LINE if limited else LINE,
            lambda t: at(t[None]).ended,
            (lambda t: jnp.all(at(t[None]).excess <= 0)) if limited else None,
            off_runs if form.paid and form.free == ("N",) else None,
        )[None])  # fmt: skip
    grid = mesh((jnp.linspace(0.0, 1.0, points) for points in GRIDS[count]), jnp)
    value = jnp.vectorize(lambda u: at(u).value, signature="(d)->()")
    excess = jnp.vectorize(lambda u: at(u).excess, signature="(d)->(k)") if limited else None
    return at(lowest_in_box(value, grid, lambda u: at(u).ended, excess))


@for_each_draw("form", draws=("params", "log_C", "targets"))
def _best_points(form: Form, params, given: Given, log_C, targets) -> Point:
    """The best point of every lane: one draw with its budget, or its losses to be reached."""
    return best_point(form, params, given._replace(log_C=log_C, targets=targets))


@for_each_draw("form")
def _points_at(form: Form, params, given: Given, points) -> Point:
    """What is known of (K, d) points."""
    return jax.vmap(_posed(form, params, given)[2])(points)


def best_size(law: Law, params, log_C, others, cost: Cost | None = None):
    """Log size, log tokens and loss of a budget's best run, of one draw; pure JAX, any dtype.

    Without limits, units and the runs' ratios; at the search's own limits there is no best run.
    """
    ends = {name: tuple(map(math.log, span)) for name, span in SEARCH_LIMITS.items()}
    if law.power_law_terms is None or cost is not None:
        form = Form(((law, ()),), "loss", ("N",), ("N", "D"), "budget")
        given = Given(ends, dict.fromkeys(ends, (True, True)), {}, (others,), cost, log_C)
        best = best_point(form, (params,), given)
        return jnp.log(best.raw["N"]), jnp.log(best.raw["D"]), best.losses[0]
    most, least = (log_tokens(None, end, log_C) for end in ends["D"])
    least, most = jnp.maximum(ends["N"][0], least), jnp.minimum(ends["N"][1], most)
    unit, (G, a, _) = _units(law), closed_form(law, params, others, jnp)
    log_x = log_C - math.log(FLOPS_EACH * unit["N"] * unit["D"])
    best = jnp.clip(math.log(unit["N"]) + jnp.log(G) + a * log_x, least, most)

    def run(log_N):
        log_D = log_tokens(None, log_N, log_C)
        return log_N, log_D, loss_at(law, params, log_N, log_D, others)

    # Without an optimum that grows with compute the better end is the one to which it falls.
    end = jnp.where(run(least)[2] <= run(most)[2], least, most)
    return run(jnp.where(jnp.isnan(best), end, best))


def crossing(source: Draws, name: str, log: bool, target, low: float, high: float, others):
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
def _crossing(law: Law, name: str, log: bool, params, target, low, high, others):
    unit = _units(law)[name]

    def loss(x):
        return law(params, **{name: (jnp.exp(x) if log else x) / unit}, **others)

    grid = jnp.linspace(low, high, POINTS)
    losses = jax.vmap(loss)(grid)
    below = losses <= target
    crossed = below[1:] != below[:-1]
    first = jnp.argmax(crossed)
    falls = jnp.where(below[first], -1.0, 1.0)
    x = root(lambda x: falls * (target - loss(x)), grid[first], grid[first + 1])
    x = jnp.where(crossed.any(), x, jnp.where(below[0], -jnp.inf, jnp.inf))
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
    def has_closed_form(self) -> bool:
        """Whether N and D share 6·N·D and nothing else limits them, by a law with a formula."""
        form = self.form
        asked = form.paid and form.free == ("N",) and len(form.laws) == 1 and not form.laws[0][1]
        free = not (self.limits or self.corpus) and self.given.cost is None
        return bool(asked and free and self.reference.law.power_law_terms)

    def best(self, budgets: Any = None, targets: Any = None) -> Point:
        """The best points, (draws, K) each.

        Args:
            budgets: (K,) FLOPs; left out, one, that of the question.
            targets: (draws, K) largest values of the first limited loss; left out, likewise.
        """
        log_C = np.atleast_1d(self.given.log_C if budgets is None else np.log(budgets))
        rows, count = self.reference.rows, len(log_C) if targets is None else targets.shape[1]
        log_C = np.broadcast_to(log_C, (rows, count))
        losses = [np.full((rows, count), loss) for loss in self.given.targets]
        if targets is not None:
            losses[0] = targets
        if self.has_closed_form and (best := self._by_formula(log_C, *losses)) is not None:
            return best
        lanes = tuple(
            {n: np.repeat(v, count) for n, v in one.values.items()} for one in self.sources
        )
        reached = tuple(loss.ravel() for loss in losses)
        best = _best_points(self.form, lanes, self.given, log_C.ravel(), reached)
        return jax.tree.map(lambda x: x.reshape(rows, count, *x.shape[1:]), best)

    def _by_formula(self, log_C: np.ndarray, target: np.ndarray | None = None) -> Point | None:
        """The best runs (draws, K) of budgets, or those that reach losses.

        None where the fit itself has none by its formula, and a loss is to be reached: there the
        search may find one at its end; and where the runs do not reach the losses.
        """
        law, others, unit = self.reference.law, self.given.others[0], _units(self.reference.law)
        params = {name: column[:, None] for name, column in self.reference.values.items()}
        # Laws write their terms with jl.laws.power, too; draws may be of what no run determines.
        with in_float64(), np.errstate(all="ignore"):
            G, a, b = closed_form(law, params, others)
            each = FLOPS_EACH * unit["N"] * unit["D"]
            product = np.exp(log_C) / each
            if target is not None:
                if np.isnan(G[0, 0]):
                    return None
                # What lies between it and the floor is a power of the compute, also of laws such
                # as skaling, of which the terms are a power of that.
                ends = np.array(_ENDS) / each
                losses = law.evaluate(params, N=G * ends**a, D=ends**b / G, **others)
                low, high, floor = np.asarray(losses).T[..., None]
                power = np.log((low - floor) / (high - floor)) / math.log(ends[1] / ends[0])
                product = ends[1] * ((high - floor) / (target - floor)) ** (1 / power)
            N, D = G * product**a, product**b / G
            exists = np.isfinite(N * D) & (N * D > 0)
            N, D = np.where(exists, N, np.nan), np.where(exists, D, np.nan)
            loss = np.asarray(law.evaluate(params, N=N, D=D, **others))
            if target is not None:
                if not np.allclose(np.where(exists, loss, target), target, rtol=KEPT):
                    return None
                loss = np.where(exists, target, floor)
        raw, ended = {"N": N * unit["N"], "D": D * unit["D"]}, ~exists & (target is None)
        return Point(raw, loss[..., None], ended, exists)

    def values(self, best: Point) -> dict[str, np.ndarray]:
        """Name → (draws, K) inputs in the units of the runs, losses, compute; NaN where is none."""
        none, goal = best.ended | ~best.kept, ["loss"] * (self.form.goal == "loss")
        raw = {name: np.where(none, np.nan, column) for name, column in best.raw.items()}
        columns = {name: raw[name] / self.reference.scale(name) for name in self.order}
        for k, name in enumerate([*goal, *(f"loss[{one}]" for one in self.labels)]):
            columns[name] = np.where(none, np.nan, best.losses[..., k])
        if {"N", "D"} <= {*raw}:
            cost = cost_at(self.form, self.given, raw)
            columns["compute"] = flops(cost, np.log(raw["N"]), np.log(raw["D"]))
        return columns

    def without_end(self) -> str:
        """Why there is no optimum, and what to do."""
        law = self.reference.law.name
        if self.has_closed_form:
            return f"law {law} has no best size: {CONDITION}"
        name = "N" if "N" in self.order else self.order[0]
        what = "its loss" if self.form.goal == "loss" else "the compute"
        return (
            f"law {law} has no best {name}: {what} falls all the way to the end of the search; "
            f"{self.argument}={{'{name}': (least, largest)}} sets another end"
        )

    def not_allowed(self) -> str:
        """Which limits no values keep."""
        limits = [f"{k} loss ≤ {most:g}" for k, most in zip(self.labels, self.given.targets)]  # noqa: B905
        limits += [self.corpus] if self.corpus else []
        return f"no values that are searched keep {', '.join(limits) or 'all limits'}"

    def binding(self, values: Mapping[str, float]) -> str:
        """What stops the loss from falling further, in words.

        Args:
            values: inputs that are searched, losses and compute, as :meth:`values` names them.
        """
        given, source = self.given, self.reference
        spent = math.log(values.get("compute", math.nan)) >= given.log_C - AT_LIMIT
        bound = ["compute"] * spent
        for label, most in zip(self.labels, given.targets, strict=True):
            bound += [f"{label} loss"] * (values[f"loss[{label}]"] >= most - AT_LIMIT * abs(most))
        units = source.fit.input_units()
        bound += [f"{n} {word} {written(x, *units[n])}" for n, word, x in self._reached(values)]
        if self.corpus:
            raw = given.held | {name: values[name] * source.scale(name) for name in self.order}
            used = raw["D"] * (1.0 if self.epochs else raw.get("r", 1.0))
            bound += [self.corpus] * (used >= math.exp(given.log_corpus) * (1 - AT_LIMIT))
        return ", ".join(bound) or "none"

    def _reached(self, values: Mapping[str, float]) -> list[tuple[str, str, float]]:
        """Limits that searched inputs are at, also those of a ratio: input, ≥ or ≤, limit."""
        units, specs = self.reference.units, self.reference.law.inputs
        shares = {spec.name for spec in specs if spec.domain == "fraction"} & {*self.order}
        ends = {name: (0.0, 1 / units[name]) for name in shares} | self.limits
        return [
            (name, word, limit)
            for name, pair in ends.items()
            for word, limit, sign in zip("≥≤", pair, (1, -1), strict=True)
            if limit is not None and sign * (values[name] - limit) <= AT_LIMIT * abs(limit)
        ]

    def notes(self, values: Mapping[str, float]) -> list[Note]:
        """Where the optimum lies, and what is to be known of the fits; as :meth:`binding`.

        An optimum at a limit, or of a ratio that no run had, is no more than a bound of the best.
        """
        source, notes = self.reference, []
        best, units = {name: values[name] for name in self.order}, source.fit.input_units()
        for name, word, limit in self._reached(values):
            if name in self.limits:
                bound, more = ("an upper", "less") if word == "≥" else ("a lower", "more")
                message = (
                    f"{name} is at its limit of {written(limit, *units[name])}, where {more} of it "
                    f"would do better: this is {bound} bound of the best {name}, not the best"
                )
                notes.append(Note("optimum-at-limit", "warning", message))
        N, D = (best.get(name, math.nan) for name in ("N", "D"))
        low, high = np.exp(self.given.tried)
        ratio = D * source.scale("D") / (N * source.scale("N")) if N * D > 0 else math.nan
        if ratio < low * (1 - AT_LIMIT) or ratio > high * (1 + AT_LIMIT):
            side, edge, word = ("above", high, "most") if ratio > high else ("below", low, "least")
            # The size at the same compute 6·N·D and the last ratio that was run.
            size = written(N * math.sqrt(ratio / edge), *units["N"])
            message = (
                f"the best D/N, {grouped(ratio)}, lies {side} all that were run ({grouped(low)} to "
                f"{grouped(high)}): these runs only support a best N of at {word} {size}"
            )
            notes.append(Note("optimum-at-tried", "warning", message))
        notes += epochs_notes(source, self.given.others[0], D, self.epochs)
        labels = [*[""] * (self.form.goal == "loss"), *self.labels]
        for k, one in enumerate(self.sources):
            at = {name: value / one.units[name] for name, value in self.given.others[k].items()}
            for name in one.inputs_taken(best):
                value, (_, rest) = best[name] * source.scale(name), self.form.laws[k]
                at[name] = (1 - value if name in rest else value) / one.scale(name)
            notes += source_notes(one, labels[k] if len(labels) > 1 else "", **at)
        return notes

    def near(self, nats: float, raw: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """Input → (low, high) where the logarithm of what is least rises by so much at most.

        Of the fit itself, by grids over the coordinates. On each the profile of every coordinate,
        the least over all others, is cut at the level; the next grid covers what is left and a
        cell beside it, so that the last one is as fine as the range asks for.

        Args:
            nats: the rise, such as the run-to-run noise.
            raw: input → raw value of the optimum, or of many of which it is the first.
        """
        form, first = self.form, tuple(one.without().values for one in self.sources)
        if not form.free or not nats > 0:
            return {}
        best = of_fit(raw)
        point = [math.log(best[n]) if n in form.logs else best[n] for n in form.free]
        with in_float64():
            around = [*np.transpose(_posed(form, first, self.given)[:2])]
        count = NEAR_POINTS[len(point)]
        for _ in range(NEAR_ROUNDS):
            # The optimum is one of the points, whatever the others miss.
            axes = [
                np.sort(np.append(np.linspace(*span, count), x))
                for span, x in zip(around, point, strict=True)
            ]
            points = mesh(axes)
            found = jax.tree.map(lambda x: x[0], _points_at(form, first, self.given, points))
            values = found.value if form.goal == "loss" else np.exp(found.value)
            values = np.where(found.kept, values, np.inf)
            values = relative_excess(values, values.min())
            if np.isnan(values).all():
                return {}
            table, kept = values.reshape([count + 1] * len(point)), values <= math.expm1(nats)
            for k, (axis, x) in enumerate(zip(axes, point, strict=True)):
                profile = table.min(axis=tuple(j for j in range(table.ndim) if j != k))
                low, high = as_good(1 + profile, int(np.searchsorted(axis, x)), nats)
                kept &= (points[:, k] >= axis[low]) & (points[:, k] <= axis[high])
                around[k] = axis[max(low - 1, 0)], axis[min(high + 1, count)]
        columns = {name: found.raw[name][kept] / self.reference.scale(name) for name in self.order}
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


def relative_excess(losses, lowest):
    """How far losses lie above the lowest, as fractions of its size; a loss may be negative."""
    return (losses / lowest - 1) * np.sign(lowest)


def question_of(
    fit, over: Mapping, subject_to: Sequence[Constraint] = (), at: Inputs = None,
    argument: str = "over",
) -> Question:  # fmt: skip
    """The question of a user, checked; arguments and errors as of :func:`minimise`.

    ``argument`` is what the caller's user calls ``over``.
    """
    limited = [one for one in subject_to if isinstance(one, AtMost)]
    only = {type(one): one for one in subject_to if not isinstance(one, AtMost)}
    if len(limited) + len(only) < len(subject_to):
        raise UsageError("subject_to holds two of a kind: give one Budget and one Corpus")
    budget, corpus, goal = only.get(Budget), only.get(Corpus), "loss"
    asked, counted = [AtMost(fit, 0.0), *limited], budget
    if isinstance(fit, Compute):
        if not limited or budget is not None:
            raise UsageError(
                "the least compute is that at which a loss is reached: subject_to=[AtMost(fit, "
                "loss)], without a Budget"
            )
        asked, counted, goal = limited, fit, "compute"
    sources = draws_taking([one.fit for one in asked])
    source, at = sources[0], dict(at or {})
    ranges = searched_ranges(source, over, argument)
    limits = {name: span.limits for name, span in ranges.items() if span.limits != (None, None)}
    if corpus is not None and corpus.tokens is not None and "U" in source.law.input_names:
        if "U" in at:
            raise UsageError("U is the tokens of Corpus here: leave one of them out")
        at["U"] = corpus.tokens
    others = [
        own | {name: 1 - own[name] for name in limit.rest if name in own}
        for own, limit in zip(law_inputs_of_each(sources, at, over), asked, strict=True)
    ]
    held = {name: value * _units(source.law)[name] for name, value in others[0].items()}

    # What determines D, and the coordinates.
    both = {"N", "D"} <= {*ranges}
    paid = "loss" if goal == "compute" and "D" in ranges else ""
    if budget is not None:
        if not both:
            raise UsageError("a Budget is spent on N and D: search both, with over=")
        paid = "budget"
    ahead = [name for name in ("N", "D", "r") if name in ranges]
    free = tuple(name for name in dict.fromkeys([*ahead, *ranges]) if name != "D" or not paid)
    if len(free) > max(GRIDS):
        raise UsageError(f"{len(free)} inputs are searched; {max(GRIDS)} are the most")

    tried = UNKNOWN
    if both:
        ratio = source.scale("D") / source.scale("N")
        tried = np.log(np.multiply(source.joint.get("D/N", tried), ratio))
    # Log tokens, raw, of the corpus times its epochs, and words for that limit. Of a law with
    # unique tokens U also the largest D/U, and whether it is that of the runs.
    log_corpus, words, epochs = math.inf, "", None
    most = None if corpus is None else checked_number("max_epochs", corpus.max_epochs)
    if "U" in source.law.input_names:
        if "U" in held and "D" in over:
            if of_runs := most is None:
                least = source.joint.get("U/D", UNKNOWN)[0]
                least *= source.scale("U") / source.scale("D")
                most = 1 / least if least > 0 else None
            if most is not None:
                log_corpus, words = math.log(most * held["U"]), f"D/U ≤ {most:.4g}"
                epochs = most, of_runs
        elif most is not None:
            raise UsageError("Corpus limits D at a given U: search D, and give U")
    elif corpus is not None:
        if corpus.tokens is None:
            raise UsageError(
                f"epochs are those of unique tokens U, which law {source.law.name} does not take: "
                "say the tokens of the corpus, too"
            )
        counts = [name for name in ("r", "D") if name in source.law.input_names]
        if not {*counts} & {*over} or "D" not in {*held, *over}:
            raise UsageError(f"a Corpus limits {' and '.join(counts)}: search one, with over=")
        tokens = checked_input(source, "D", corpus.tokens, what="tokens of Corpus") * most
        log_corpus = math.log(tokens * source.scale("D"))
        words = f"{'·'.join(counts)} ≤ {tokens:g}"
    shared = bool(words) and {"D", "r"} <= {*ranges}
    if words and not shared:  # what the corpus cuts off a coordinate is its end
        name = "D" if "D" in ranges else "r"
        span, part = ranges[name], held["D"] if name == "r" else held.get("r", 1.0)
        log_most = log_corpus - math.log(1.0 if epochs else part) if part or epochs else math.inf
        most = log_most if span.log else math.exp(log_most)
        if most < span.high:
            ranges[name] = span._replace(high=most, open=(span.open[0], False))

    priced = ()
    if counted is not None and counted.cost is not None:
        taken = [*inspect.signature(counted.cost).parameters][2:]
        if {"N", "D"} & {*taken}:
            raise UsageError("cost takes N and D first, other inputs after them: cost(N, D, …)")
        priced = tuple(name for name in taken if name in source.law.input_names)

    form = Form(
        laws=tuple((one.law, limit.rest) for one, limit in zip(sources, asked, strict=True)),
        goal=goal, free=free, logs=tuple(name for name, span in ranges.items() if span.log),
        paid=paid, shared=shared, priced=priced,
        # On one coordinate a budget that buys more tokens than are allowed is not spent in full.
        capped=bool(paid) and (len(free) > 1 or paid == "loss") and not ranges["D"].open[1],
    )  # fmt: skip
    given = Given(
        ends={name: (span.low, span.high) for name, span in ranges.items()},
        open={name: span.open for name, span in ranges.items()}, held=held, others=tuple(others),
        cost=total_cost(counted and counted.cost, source, counted and counted.served_tokens),
        log_C=math.inf if budget is None else math.log(checked_compute(budget.compute)),
        log_corpus=log_corpus, tried=tuple(map(float, tried)),
        targets=tuple(checked_number("loss of AtMost", one.loss, "real") for one in limited),
    )  # fmt: skip
    its_own = sources[len(sources) - len(limited) :]
    labels = tuple(x.label or one.law.name for one, x in zip(its_own, limited, strict=True))
    if len({*labels}) < len(labels):
        raise UsageError(f"two limits are of the {labels[0]} loss: give each AtMost a label=")
    return Question(form, given, sources, labels, tuple(over), limits, words, epochs, argument)


class SearchedRange(NamedTuple):
    """A checked range of an input.

    Attributes:
        low, high: ends of its coordinate, raw; of its logarithm where ``log``.
        log: whether its logarithm is searched.
        open: whether each side is where the search ends, and no limit.
        limits: limits in the user's units, None for a side without one.
    """

    low: float
    high: float
    log: bool
    open: tuple[bool, bool]
    limits: tuple[float | None, float | None]


def searched_ranges(source: Draws, over: Mapping, argument: str) -> dict[str, SearchedRange]:
    """From where to where inputs are searched: by the user, else by the search or the runs."""
    specs, ranges = source.law.specs, {}
    if not over:
        raise UsageError(
            f"{argument}: name the inputs that are searched; law {source.law.name} takes "
            f"{', '.join(specs)}"
        )
    for name, given in over.items():
        if name not in specs:
            message = f"law {source.law.name} takes no input '{name}'.{nearest(name, specs)}"
            raise UsageError(message)
        spec, scale, unit = specs[name], source.scale(name), source.units[name]
        if spec.levels or spec.per_drop or spec.mixture:
            message = f"{argument}: {name} is no number that can be searched on its own"
            raise UsageError(
                message + "; optimal_weights searches all of them" * bool(spec.mixture)
            )
        what = f"{argument} of {name}"
        own = tuple(
            None if x is None
            else checked_number(what, in_unit_of_runs(source, name, x), spec.domain, unit)
            for x in given or (None, None)
        )  # fmt: skip
        known = name in SEARCH_LIMITS or spec.domain == "fraction"
        if name in SEARCH_LIMITS:
            ends = [x / scale for x in SEARCH_LIMITS[name]]
        else:
            ends = (0.0, 1 / unit) if known else source.ranges.get(name, UNKNOWN)
        low, high = span = tuple(end if x is None else x for x, end in zip(own, ends, strict=True))
        if not np.isfinite(span).all():
            raise UsageError(f"the range of {name} in the fitted runs is unknown: pass {argument}=")
        if not low < high:
            raise UsageError(
                f"{what}: the least value, {low:g}, is not below the largest, {high:g}; give a "
                "single value in at="
            )
        log = low > 0 and spec.domain != "fraction"
        ends = (math.log(x * scale) if log else x * scale for x in span)
        opened = tuple(name in SEARCH_LIMITS and x is None for x in own)
        ranges[name] = SearchedRange(*ends, log, opened, own if known else span)
    return ranges


def epochs_notes(
    source: Draws, others: Mapping[str, float], D, limit: tuple[float, bool] | None
) -> list[Note]:
    """How often the unique tokens are gone over, where that is often.

    Args:
        source: law with its draws.
        others: values of its other inputs.
        D: tokens.
        limit: largest D/U, and whether it is that of the runs.
    """
    if "U" not in source.law.input_names:
        return []
    epochs = np.max(D * source.scale("D") / (others["U"] * _units(source.law)["U"]))
    most, of_runs = limit or (math.inf, False)
    if of_runs and epochs >= most * (1 - AT_LIMIT):
        message = (
            f"held back at {most:.4g} epochs, the most that the runs have: the law goes on to "
            "more, which no run shows; max_epochs= sets another limit"
        )
    elif MANY_EPOCHS < epochs < math.inf:
        message = (
            f"the tokens are {epochs:.3g} epochs of U; Muennighoff 2023 finds repeating worthless "
            f"at {MANY_EPOCHS}, to which max_epochs= limits them"
        )
    else:
        return []
    return [Note("many-epochs", "warning", message)]
