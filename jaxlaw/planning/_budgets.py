"""Programs of size and data: the best run of a budget, the least compute to a loss.

Sizes, tokens and compute are logarithms of raw counts and FLOPs; the law is evaluated in its own
units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxlaw._jit import in_float64
from jaxlaw.data import counted_flops
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law
from jaxlaw.planning._answers import checked_tokens
from jaxlaw.planning._solve import first_root, for_each_draw, minimise, root
from jaxlaw.uncertainty import Draws

Cost = Callable[..., Any]

#: Least and largest raw counts and shares that are searched. An optimum at one of them is none.
SEARCH_LIMITS = {"N": (1e3, 1e20), "D": (1e3, 1e24), "r": (0.0, 1.0)}
COMPUTES = (1e8, 1e42)  # FLOPs
FLOPS_EACH = 6.0  # of a parameter and token, forward and backward
LOG_6 = math.log(FLOPS_EACH)
AT_LIMIT = 1e-6  # in logarithms: nearer to a limit is at it
AT_LIMIT_32 = 1e-4  # likewise, where an optimum may be searched in float32

# The search for the least compute with a free share.
COARSE = 33, 9  # points of size and share of the first look
BUDGETS = 40  # two nats apart, at which it looks
NEWTONS = 12  # steps in log compute from there


class Limits(NamedTuple):
    """Logarithms of the least and largest size and data; shares; tokens of the corpus.

    ``near`` is the logarithm of a D/N, raw, in the middle of those that were run; NaN where none
    is known. An optimum is that of the valley there.
    """

    N: tuple[float, float]
    D: tuple[float, float]
    r: tuple[float, float] = (0.0, 1.0)
    corpus: float = math.inf  # log of r·D at most
    near: float = math.nan

    def size_near(self, log_C: Any) -> Any:
        """Log size of a run of this budget, counted as 6·N·D, with a D/N as those that were run."""
        return (log_C - LOG_6 - self.near) / 2


def search_limits(log: Callable[[float], Any] = math.log) -> Limits:
    """The limits of a search that the user has not limited."""
    return Limits(*(tuple(map(log, SEARCH_LIMITS[name])) for name in ("N", "D")))


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
        return LOG_6 + log_N + log_D
    try:
        return jnp.log(cost(jnp.exp(log_N), jnp.exp(log_D)))
    except Exception as error:  # the user's own function
        raise UsageError(f"cost(N, D) does not give FLOPs in pure JAX: {error}") from error


def flops(cost: Cost | None, log_N: Any, log_D: Any) -> np.ndarray:
    """FLOPs of runs, as NumPy has them."""
    with in_float64():
        return np.exp(np.asarray(log_cost(cost, np.asarray(log_N), np.asarray(log_D))))


def log_tokens(cost: Cost | None, log_N: Any, log_C: Any) -> Any:
    """Log tokens that a budget buys a model; differentiable in log_N."""
    if cost is None:
        return log_C - LOG_6 - log_N

    def excess(log_D: Any) -> Any:
        return log_cost(cost, log_N, log_D) - log_C

    solution = jax.lax.stop_gradient(root(excess, *map(math.log, SEARCH_LIMITS["D"])))
    # A Newton step from the root moves nothing and carries the derivative.
    slope = jax.lax.stop_gradient(jax.grad(excess)(solution))
    return solution - excess(solution) / slope


def log_size(cost: Cost | None, log_D: Any, log_C: Any) -> Any:
    """Log parameters that a budget pays for with these tokens."""
    if cost is None:
        return log_C - LOG_6 - log_D
    limits = map(math.log, SEARCH_LIMITS["N"])
    return root(lambda log_N: log_cost(cost, log_N, log_D) - log_C, *limits)


def loss_at(law: Law, params: Any, log_N: Any, log_D: Any, others: Any) -> Any:
    """The law at raw counts given by their logarithms."""
    unit = {spec.name: spec.unit for spec in law.inputs}
    at = {"N": jnp.exp(log_N) / unit["N"], "D": jnp.exp(log_D) / unit["D"]}
    return law(params, **at, **others)


def best_of_budget(
    law: Law, cost: Cost | None, params: Any, log_C: Any, limits: Any, others: Any,
    points: int = 257,
) -> Any:  # fmt: skip
    """Log size, log tokens and loss of the best run of a budget; one draw, one budget."""

    def tokens(log_N: Any) -> Any:
        return jnp.clip(log_tokens(cost, log_N, log_C), *limits.D)

    def loss(log_N: Any) -> Any:
        return loss_at(law, params, log_N, tokens(log_N), others)

    with_least_D = log_size(cost, limits.D[0], log_C)
    largest = jnp.minimum(limits.N[1], with_least_D)
    # Far beyond its runs the floor of farseer falls to nothing with N: on any budget its loss is
    # lowest for the largest model that is searched, and the optimum is the valley before.
    low, high = (math.log(limit) for limit in SEARCH_LIMITS["N"])
    least_D = math.log(SEARCH_LIMITS["D"][0]) + AT_LIMIT_32
    open_sides = (
        limits.N[0] <= low + AT_LIMIT_32,
        jnp.where(
            limits.N[1] <= with_least_D, limits.N[1] >= high - AT_LIMIT_32, limits.D[0] <= least_D
        ),
    )
    near = jnp.clip(limits.size_near(log_C), limits.N[0], largest)
    log_N = minimise(loss, limits.N[0], largest, points, open_sides=open_sides, near=near)
    return log_N, tokens(log_N), loss(log_N)


def best_with_share(
    law: Law, cost: Cost | None, params: Any, log_C: Any, limits: Any, others: Any,
    points: tuple[int, int] = (97, 33), halvings: int = 40,
) -> Any:  # fmt: skip
    """As :func:`best_of_budget`, and the share: log size, log tokens, share, loss.

    The share is searched as a part, between 0 and 1, of what the tokens of the corpus allow: so
    its box does not move with size and compute, and at a fixed part the loss's slope in either
    of them is that of the lowest loss. No derivative goes through a search.
    """

    def run(log_N: Any, part: Any, log_C: Any) -> tuple[Any, Any, Any]:
        log_D = jnp.clip(log_tokens(cost, log_N, log_C), *limits.D)
        largest = jnp.minimum(limits.r[1], jnp.exp(jnp.minimum(limits.corpus - log_D, 0.0)))
        r = limits.r[0] + part * (largest - limits.r[0])
        loss = loss_at(law, params, log_N, log_D, {**others, "r": r})
        return log_D, r, jnp.where(largest >= limits.r[0], loss, jnp.inf)

    now = jax.lax.stop_gradient(log_C)

    def best_part(log_N: Any) -> Any:
        at = jax.lax.stop_gradient(log_N)
        return minimise(lambda part: run(at, part, now)[2], 0.0, 1.0, points[1], halvings)

    def lowest_loss(log_N: Any) -> Any:
        return run(log_N, best_part(log_N), now)[2]

    largest = jnp.minimum(limits.N[1], log_size(cost, limits.D[0], now))
    near = jnp.clip(limits.size_near(now), limits.N[0], largest)
    log_N = minimise(lowest_loss, limits.N[0], largest, points[0], halvings, near=near)
    return log_N, *run(log_N, best_part(log_N), log_C)


@for_each_draw("law", "share")
def best_runs(
    law: Law, cost: Cost | None, share: bool, params: Any, log_C: Any, limits: Any, others: Any
) -> Any:
    """Best runs of (K,) budgets: arrays (draws, K)."""
    best = best_with_share if share else best_of_budget
    return jax.vmap(lambda log_C: best(law, cost, params, log_C, limits, others))(log_C)


@for_each_draw("law", "share")
def least_compute(
    law: Law, cost: Cost | None, share: bool, params: Any, target: Any, limits: Any, others: Any
) -> Any:
    """Log of the least compute whose best run reaches a loss, and that run: (draws,) each."""
    low = jnp.maximum(math.log(COMPUTES[0]), log_cost(cost, limits.N[0], limits.D[0]) + 1e-9)
    bracket = low, jnp.asarray(math.log(COMPUTES[1]))
    if share:
        return _least_with_share(law, cost, params, target, bracket, limits, others)

    def shortfall(log_C: Any) -> Any:
        return target - best_of_budget(law, cost, params, log_C, limits, others, points=65)[2]

    log_C = root(shortfall, *bracket)
    return log_C, *best_of_budget(law, cost, params, log_C, limits, others)


def _least_with_share(
    law: Law, cost: Cost | None, params: Any, target: Any, bracket: Any, limits: Any, others: Any
) -> Any:
    """The same with a free share.

    A coarse search tells roughly: the first of many budgets that reaches the target, since with
    few tokens of the corpus a larger one may not. Newton's method ends it. The search for the
    best run is large to compile, so that it stands in this program twice only: once coarse, and
    once in the Newton step, which hands on the run at the compute it starts from.
    """

    def best(log_C: Any, **search: Any) -> Any:
        return best_with_share(law, cost, params, log_C, limits, others, **search)

    def coarse(log_C: Any) -> Any:
        return target - best(log_C, points=COARSE, halvings=6)[3]

    budgets = jnp.linspace(*bracket, BUDGETS)
    shortfall = jax.lax.map(coarse, budgets)
    reached = shortfall >= 0
    first = jnp.where(reached.any(), jnp.argmax(reached), jnp.nanargmax(shortfall))

    def loss_and_run(log_C: Any) -> Any:
        run = best(log_C)
        return run[3], run

    def newton(_: int, state: Any) -> Any:
        log_C, *_, within = state
        (loss, run), slope = jax.value_and_grad(loss_and_run, has_aux=True)(log_C)
        within |= loss <= target  # what coarse points miss may be within reach all the same
        step = (target - loss) / jnp.minimum(slope, -1e-300)
        step = jnp.where(within & (slope < 0), step, 0.0)
        return jnp.clip(log_C + jnp.clip(step, -1.0, 1.0), *bracket), log_C, run, within

    start = budgets[first]
    state = start, start, (0.0 * start,) * 4, reached.any()
    _, log_C, run, within = jax.lax.fori_loop(0, NEWTONS, newton, state)
    return jnp.where(within, log_C, bracket[1]), *run


@for_each_draw("law", "name", "by", draws=("params", "known", "value"))
def other_input(
    law: Law,
    cost: Cost | None,
    name: str,
    by: str,
    params: Any,
    known: Any,
    value: Any,
    others: Any,
) -> Any:  # fmt: skip
    """The log of N or D (``name``), the other (log) known, by a ``loss`` or ``compute``; its loss.

    By a loss it is ±infinite where that loss is not met between the search's limits.
    """

    def loss(log_x: Any) -> Any:
        pair = (log_x, known) if name == "N" else (known, log_x)
        return loss_at(law, params, *pair, others)

    if by == "compute":
        log_x = (log_size if name == "N" else log_tokens)(cost, known, value)
    else:
        limits = map(math.log, SEARCH_LIMITS[name])
        log_x = first_root(lambda log_x: value - loss(log_x), *limits)
    return log_x, loss(log_x)


@for_each_draw("law")
def losses_at(law: Law, params: Any, log_N: Any, log_D: Any, others: Any) -> Any:
    """The law at raw counts given by their logarithms: (draws, …)."""
    return loss_at(law, params, log_N, log_D, others)
