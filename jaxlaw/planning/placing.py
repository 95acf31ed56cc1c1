"""Where on a budget the loss is lowest: the programs behind plans of size and data.

Sizes and tokens are logarithms of single ones here, compute of FLOPs; the law is asked in its
own units. Every program takes all replicates (and budgets) at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled
from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Law, PowerLawTerms
from jaxlaw.planning._solve import minimise, root

#: What is searched at all, in single parameters and tokens. An answer at these walls is none.
WALLS = {"N": (1e3, 1e20), "D": (1e3, 1e24), "r": (0.0, 1.0)}
COMPUTES = (1e8, 1e42)  # FLOPs
LOG_6 = math.log(6.0)
COARSE = 33, 9  # points of size and share at which a target is looked for
BUDGETS = 40  # two nats apart, at which it is
ROUGHLY = 4  # halvings of log compute, on these points
NEWTONS = 8  # steps in log compute from there

Cost = Callable[[Any, Any], Any]


class Limits(NamedTuple):
    """Logarithms of the least and largest size and data; shares; tokens of the corpus."""

    N: tuple[float, float]
    D: tuple[float, float]
    r: tuple[float, float]
    corpus: float  # log of r·D at most; infinite without such a limit


def log_cost(cost: Cost | None, log_N: Any, log_D: Any) -> Any:
    """Log FLOPs of a run: 6·N·D, or what the user's function counts."""
    if cost is None:
        return LOG_6 + log_N + log_D
    try:
        return jnp.log(cost(jnp.exp(log_N), jnp.exp(log_D)))
    except Exception as error:  # the user's own function
        raise UsageError(f"cost(N, D) does not give FLOPs in pure JAX: {error}") from error


def log_tokens(cost: Cost | None, log_N: Any, log_C: Any) -> Any:
    """Log tokens that a budget buys a model; differentiable in log_N."""
    if cost is None:
        return log_C - LOG_6 - log_N

    def excess(log_D: Any) -> Any:
        return log_cost(cost, log_N, log_D) - log_C

    found = jax.lax.stop_gradient(root(excess, *map(math.log, WALLS["D"])))
    # A step of Newton's from the root moves nothing and carries the derivative.
    slope = jax.lax.stop_gradient(jax.grad(excess)(found))
    return found - excess(found) / slope


def log_size(cost: Cost | None, log_D: Any, log_C: Any) -> Any:
    """Log parameters that a budget pays for with these tokens."""
    if cost is None:
        return log_C - LOG_6 - log_D
    walls = map(math.log, WALLS["N"])
    return root(lambda log_N: log_cost(cost, log_N, log_D) - log_C, *walls)


def loss_at(law: Law, params: Any, log_N: Any, log_D: Any, held: Any) -> Any:
    """The law at single counts given by their logarithms."""
    unit = {spec.name: spec.unit for spec in law.inputs}
    at = {"N": jnp.exp(log_N) / unit["N"], "D": jnp.exp(log_D) / unit["D"]}
    return law(params, **at, **held)


def place(
    law: Law, cost: Cost | None, params: Any, log_C: Any, limits: Any, held: Any,
    points: int = 257,
) -> Any:  # fmt: skip
    """Log size, log tokens and loss of the best run of a budget; one replicate, one budget."""

    def tokens(log_N: Any) -> Any:
        return jnp.clip(log_tokens(cost, log_N, log_C), *limits.D)

    top = jnp.minimum(limits.N[1], log_size(cost, limits.D[0], log_C))
    log_N = minimise(
        lambda log_N: loss_at(law, params, log_N, tokens(log_N), held), limits.N[0], top, points
    )
    return log_N, tokens(log_N), loss_at(law, params, log_N, tokens(log_N), held)


def place_with_share(
    law: Law, cost: Cost | None, params: Any, log_C: Any, limits: Any, held: Any,
    points: tuple[int, int] = (97, 33), halvings: int = 40,
) -> Any:  # fmt: skip
    """As :func:`place`, and the share: log size, log tokens, share, loss.

    The share is searched as a part, between 0 and 1, of what the tokens of the corpus allow: so
    its box does not move with size and compute, and at a fixed part the loss's slope in either
    of them is that of the lowest loss. No derivative goes through a search.
    """

    def run(log_N: Any, part: Any, log_C: Any) -> tuple[Any, Any, Any]:
        log_D = jnp.clip(log_tokens(cost, log_N, log_C), *limits.D)
        largest = jnp.minimum(limits.r[1], jnp.exp(jnp.minimum(limits.corpus - log_D, 0.0)))
        r = limits.r[0] + part * (largest - limits.r[0])
        loss = loss_at(law, params, log_N, log_D, {**held, "r": r})
        return log_D, r, jnp.where(largest >= limits.r[0], loss, jnp.inf)

    now = jax.lax.stop_gradient(log_C)

    def best_part(log_N: Any) -> Any:
        at = jax.lax.stop_gradient(log_N)
        return minimise(lambda part: run(at, part, now)[2], 0.0, 1.0, points[1], halvings)

    def lowest_loss(log_N: Any) -> Any:
        return run(log_N, best_part(log_N), now)[2]

    top = jnp.minimum(limits.N[1], log_size(cost, limits.D[0], now))
    log_N = minimise(lowest_loss, limits.N[0], top, points[0], halvings)
    return log_N, *run(log_N, best_part(log_N), log_C)


def least_with_share(
    law: Law, cost: Cost | None, params: Any, target: Any, ends: Any, limits: Any, held: Any
) -> Any:
    """Log of the least compute between two whose best run reaches a target; and that run.

    A coarse search brackets the compute: the first of many budgets that reaches the target,
    since with few tokens of the corpus a larger one may not. Newton's method ends it; bisection
    to the last digit would take ten times as many best runs.
    """

    def best(log_C: Any, **search: Any) -> Any:
        return place_with_share(law, cost, params, log_C, limits, held, **search)

    def coarse(log_C: Any) -> Any:
        return target - best(log_C, points=COARSE, halvings=6)[3]

    budgets = jnp.linspace(*ends, BUDGETS)
    short = jax.lax.map(coarse, budgets)
    reached = short >= 0
    first = jnp.where(reached.any(), jnp.argmax(reached), jnp.nanargmax(short))
    log_C = root(coarse, budgets[jnp.maximum(first - 1, 0)], budgets[first], ROUGHLY)

    def newton(_: int, log_C: Any) -> Any:
        loss, slope = jax.value_and_grad(lambda log_C: best(log_C)[3])(log_C)
        step = jnp.where(slope < 0, (target - loss) / jnp.minimum(slope, -1e-300), 0.0)
        return jnp.clip(log_C + jnp.clip(step, -1.0, 1.0), *ends)

    log_C = jax.lax.fori_loop(0, NEWTONS, newton, log_C)
    log_N, log_D, r, loss = best(log_C)
    never = ~reached.any() & ~(loss <= target + 1e-9)
    return jnp.where(never, ends[1], log_C), log_N, log_D, r, loss


def _over_all(one: Callable[..., Any]) -> Callable[..., Any]:
    """From one replicate and budget to (replicates, budgets)."""
    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))


@compiled(static_argnames=("law", "cost", "share"))
def best_runs(
    law: Law, cost: Cost | None, share: bool, params: Any, log_C: Any, limits: Any, held: Any
) -> Any:
    """Best runs for (P,) parameters and (K,) budgets: arrays (P, K)."""
    placed = place_with_share if share else place
    return _over_all(lambda p, c: placed(law, cost, p, c, limits, held))(params, log_C)


@compiled(static_argnames=("law", "cost", "share"))
def least_compute(
    law: Law, cost: Cost | None, share: bool, params: Any, target: Any, limits: Any, held: Any
) -> Any:
    """Log of the least compute whose best run reaches (K,) targets, and that run: (P, K) each."""

    def one(params: Any, target: Any) -> Any:
        low = jnp.maximum(math.log(COMPUTES[0]), log_cost(cost, limits.N[0], limits.D[0]) + 1e-9)
        ends = low, jnp.asarray(math.log(COMPUTES[1]))
        if share:
            return least_with_share(law, cost, params, target, ends, limits, held)

        def short_of(log_C: Any) -> Any:
            return target - place(law, cost, params, log_C, limits, held, points=65)[2]

        log_C = root(short_of, *ends)
        return log_C, *place(law, cost, params, log_C, limits, held)

    return _over_all(one)(params, target)


@compiled(static_argnames=("law", "cost", "name", "by"))
def other_input(
    law: Law, cost: Cost | None, name: str, by: str, params: Any, known: Any, value: Any, held: Any
) -> Any:
    """The log of N or D (``name``), the other (log) known, by a ``loss`` or ``compute``: (P,).

    By a loss it is ±infinite where that loss is not met between the walls.
    """
    walls = tuple(map(math.log, WALLS[name]))

    def both(log_x: Any) -> tuple[Any, Any]:
        return (log_x, known) if name == "N" else (known, log_x)

    def one(params: Any) -> Any:
        if by == "compute":
            solve = log_size if name == "N" else log_tokens
            log_x = solve(cost, known, value)
        else:

            def short_of(log_x: Any) -> Any:
                return value - loss_at(law, params, *both(log_x), held)

            log_x = root(short_of, *walls)
            log_x = jnp.where(short_of(walls[1]) <= 0, jnp.inf, log_x)
            log_x = jnp.where(short_of(walls[0]) >= 0, -jnp.inf, log_x)
        return log_x, loss_at(law, params, *both(log_x), held)

    return jax.vmap(one)(params)


def closed_terms(
    law: Law, params: dict[str, np.ndarray], held: dict[str, float]
) -> PowerLawTerms | None:
    """The terms that a closed form of the best run needs, (P,) each; None for a law without one."""
    if law.power_law_terms is None:
        return None
    terms = law.power_law_terms(params, held)
    return terms._replace(gamma=terms.gamma + np.zeros_like(terms.B))
