"""Size and data: what a compute budget, or a loss, is best spent on.

Hoffmann 2022, §3.3; Zheng 2024, §3, §4.2 and §5.1; Que 2024, usage 3 and App. G.3.

Inside the programs sizes, tokens and compute are logarithms of raw counts and FLOPs; the law is
evaluated in its own units. Outside, numbers are in the units of the fitted runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._jit import compiled, in_float64
from jaxlaw._typed import ConfidenceLevel, as_array, checked
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._extrapolation import beyond
from jaxlaw.fitting._transform import Array
from jaxlaw.laws._base import Law, PowerLawTerms
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    Answer,
    AnswerTable,
    Source,
    checked_number,
    interval_columns,
    law_inputs,
    measured,
    missing_draws_notes,
    require_inputs,
    source_notes,
    sources,
)
from jaxlaw.planning._solve import for_each_draw, minimise, root, root_or_infinity

Cost = Callable[[Any, Any], Any]
UserLimits = Mapping[str, tuple[float | None, float | None]]

#: Least and largest raw counts and shares that are searched. An optimum at one of them is none.
SEARCH_LIMITS = {"N": (1e3, 1e20), "D": (1e3, 1e24), "r": (0.0, 1.0)}
COMPUTES = (1e8, 1e42)  # FLOPs
LOG_6 = math.log(6.0)
_ENDLESS = math.log(1e42)  # size or tokens at which a loss is what it tends to
AT_LIMIT = 1e-6  # in logarithms: nearer to a limit is at it
AT_LIMIT_32 = 1e-4  # likewise, where an optimum may be searched in float32
NEAR_END = 1e-3  # of the searched range of log compute
REACHED = 1e-9  # relative: farther from the loss asked for, a search has not converged

# The search for the least compute with a free share.
COARSE = 33, 9  # points of size and share of the first look
BUDGETS = 40  # two nats apart, at which it looks
NEWTONS = 12  # steps in log compute from there


# Runs of a budget, inside programs.


class Limits(NamedTuple):
    """Logarithms of the least and largest size and data; shares; tokens of the corpus."""

    N: tuple[float, float]
    D: tuple[float, float]
    r: tuple[float, float] = (0.0, 1.0)
    corpus: float = math.inf  # log of r·D at most


def search_limits(log: Callable[[float], Any] = math.log) -> Limits:
    """The limits of a search that the user has not limited."""
    return Limits(*(tuple(map(log, SEARCH_LIMITS[name])) for name in ("N", "D")))


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

    largest = jnp.minimum(limits.N[1], log_size(cost, limits.D[0], log_C))
    log_N = minimise(loss, limits.N[0], largest, points)
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
    log_N = minimise(lowest_loss, limits.N[0], largest, points[0], halvings)
    return log_N, *run(log_N, best_part(log_N), log_C)


@for_each_draw("law", "cost", "share")
def _best_runs(
    law: Law, cost: Cost | None, share: bool, params: Any, log_C: Any, limits: Any, others: Any
) -> Any:
    """Best runs of (K,) budgets: arrays (draws, K)."""
    best = best_with_share if share else best_of_budget
    return jax.vmap(lambda log_C: best(law, cost, params, log_C, limits, others))(log_C)


@for_each_draw("law", "cost", "share")
def _least_compute(
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


@for_each_draw("law", "cost", "name", "by", draws=("params", "known", "value"))
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
        log_x = root_or_infinity(lambda log_x: value - loss(log_x), *limits)
    return log_x, loss(log_x)


# The plans.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Allocation(Answer):
    """How to spend a budget.

    Attributes:
        N, D: size and tokens, in the units of the fitted runs (of the law for (law, params)).
        loss: predicted loss there.
        compute: FLOPs of the run.
        r: share of the mixture, where it was searched or given; None without one.
        method: ``closed form`` or ``numerical``.
    """

    N: float
    D: float
    loss: float
    compute: float
    r: float | None = None
    method: str = "numerical"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AllocationLaw(Answer):
    """N_opt = N_coefficient·C^a and D_opt = D_coefficient·C^b for C in FLOPs.

    Attributes:
        a, b: exponents, which add up to 1.
        G: coefficient of the papers, in the law's own units: N_opt = G·(C/6)^a,
            D_opt = (C/6)^b / G.
        N_coefficient, D_coefficient: coefficients with N and D in the units of the fitted runs.
    """

    a: float
    b: float
    G: float
    N_coefficient: float
    D_coefficient: float


class Frontier(AnswerTable):
    """The best run of every budget.

    ``table`` has ``compute`` (FLOPs), ``N``, ``D``, ``r`` where it was searched, ``loss`` and
    ``tokens_per_parameter``.
    """


@checked
def allocation(
    fit: Any,
    compute: float,
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    corpus_tokens: float | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float | Literal["best"] | str,
) -> Allocation:
    """Size and tokens that a compute budget is best spent on.

    In closed form for chinchilla, cpt-chinchilla, skaling, kaplan-e and overtraining, and for dcpt,
    dcpt-l1 and dcpt-l4 at a given share; numerically for any other law with the inputs N and D, and
    wherever a limit, a cost or a free share is given: a grid, then the root of the derivative.
    farseer needs limits: far beyond its runs its floor falls to nothing with N.

    Args:
        fit: fit of the loss over N and D: a Fit, (law, params), or a bootstrap, whose draws give
            the intervals.
        compute: budget in FLOPs.
        limits: least and largest value of an input, in the units of the fitted runs, None where
            a side is open. For ``N``, ``D``, and ``r`` where it is searched.
        cost: function ``f(N, D)``, the FLOPs of a run of N parameters and D tokens (raw counts):
            pure JAX, rising in both. Left out: 6·N·D.
        corpus_tokens: number of tokens of the corpus whose share r is: r·D stays below.
        level: confidence level of the intervals.
        **inputs: values of the law's other inputs. ``r="best"`` searches the share with N and D.

    Raises:
        UsageError: the law lacks N or D, an input is missing, or no run within the limits
            fits the budget.
        DataError: the law has no optimum: its loss falls all the way to the largest or the
            smallest model (cpt-chinchilla needs β > γ and α > γ).

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> plan = jl.planning.allocation(fit, compute=1e21)
        >>> print(f"{plan.N:.3g} parameters, {plan.D:.3g} tokens, loss {plan.loss:.3f}")
        1.82e+09 parameters, 9.14e+10 tokens, loss 2.329
    """
    space = _search_space(fit, limits, corpus_tokens, inputs)
    budget = checked_number("compute", compute)
    runs = _optimal_runs(space, cost, np.array([budget]))
    if math.isnan(runs.values["N"][0, 0]):
        name = space.source.law.name
        raise DataError(f"law {name} has no best size for {budget:.3g} FLOPs: {runs.without}")
    values = {name: column[:, 0] for name, column in runs.values.items()}
    spent = values["compute"][~np.isnan(values["compute"])]
    given = ["compute"] if np.ptp(spent) <= AT_LIMIT * budget else []
    binding = _binding(space, {name: float(v[0]) for name, v in values.items()}, budget)
    return _allocation(
        space.source, values, inputs, given, "optimum", level, method=runs.method, binding=binding
    )


@checked
def frontier(
    fit: Any,
    computes: Sequence[float],
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    corpus_tokens: float | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float | Literal["best"] | str,
) -> Frontier:
    """The best run of each of many budgets; arguments and errors as :func:`allocation`.

    Args:
        fit: fit of the loss over N and D.
        computes: budgets in FLOPs.
        limits: least and largest value of an input, as for :func:`allocation`.
        cost: function ``f(N, D)`` in FLOPs.
        corpus_tokens: number of tokens of the corpus whose share r is.
        level: confidence level of the intervals.
        **inputs: values of the law's other inputs; ``r="best"`` searches the share.

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> best = jl.planning.frontier(fit, [1e20, 1e22]).table
        >>> best["tokens_per_parameter"].round(1).tolist()
        [40.1, 62.6]
    """
    space = _search_space(fit, limits, corpus_tokens, inputs)
    budgets = budgets_of(computes, "computes")
    runs = _optimal_runs(space, cost, budgets)
    values, source = dict(runs.values), space.source
    if np.isnan(values["N"][0]).all():
        raise DataError(f"law {source.law.name} has no best size at these budgets: {runs.without}")
    ratio = source.scale("D") / source.scale("N")
    values["tokens_per_parameter"] = values["D"] / values["N"] * ratio
    del values["compute"]
    table = {"compute": budgets} | {name: column[0] for name, column in values.items()}
    for name, column in values.items():
        table |= interval_columns(name, column, level, source.degrees)
    notes = [*runs_beyond(source, values), *source_notes(source)]
    notes += missing_draws_notes(values["N"].min(axis=1), "optimum at some budget")
    return Frontier(pd.DataFrame(table), level, tuple(notes))


@checked
def allocation_law(
    fit: Any, *, level: ConfidenceLevel = LEVEL, **inputs: float | str
) -> AllocationLaw:
    """How the best size and data grow with compute, counted as 6·N·D.

    Args:
        fit: fit as for :func:`allocation`, of a law with a closed form.
        level: confidence level of the intervals.
        **inputs: share r, for the D-CPT laws.

    Raises:
        UsageError: the law has no closed form.
        DataError: the law has no optimum (see :func:`allocation`).

    Example:
        >>> fit = jl.published()["zheng-2024-scratch"]
        >>> law = jl.planning.allocation_law(fit)
        >>> print(f"N = {law.N_coefficient:.3f} C^{law.a:.3f}")
        N = 0.324 C^0.429
    """
    (source,) = sources(fit)
    require_inputs(source, "N", "D")
    terms = _power_law_terms(source.law, source.params, law_inputs(source, inputs, ("N", "D")))
    if terms is None:
        raise UsageError(
            f"law {source.law.name} has no closed form; use allocation or frontier, which solve it"
        )
    G, a, b = _closed_form(terms)
    if np.isnan(G[0]):
        raise DataError(f"law {source.law.name} has no best size: {_CONDITION}")
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    flops_of_units = 6 * unit["N"] * unit["D"]
    values = {"a": a, "b": b, "G": G}
    values["N_coefficient"] = G * flops_of_units**-a / source.units["N"]
    values["D_coefficient"] = flops_of_units**-b / G / source.units["D"]
    notes = [*source_notes(source), *missing_draws_notes(G, "optimum")]
    return AllocationLaw(
        **measured(values, level, source.degrees), binding="compute", notes=tuple(notes)
    )


@checked
def min_compute(
    fit: Any,
    loss: float,
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    corpus_tokens: float | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float | Literal["best"] | str,
) -> Allocation:
    """The least compute whose best run reaches a loss, and that run.

    Args:
        fit: fit of the loss over N and D, as for :func:`allocation`.
        loss: loss to be reached, in nats.
        limits: least and largest value of an input, as for :func:`allocation`.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`allocation`.
        corpus_tokens: number of tokens of the corpus whose share r is.
        level: confidence level of the intervals.
        **inputs: values of the law's other inputs; ``r="best"`` searches the share.

    Returns:
        Allocation. Where the law never comes down to the loss, ``compute`` is infinite, N and
        D are NaN, and the note ``out-of-reach`` says how low it comes.

    Raises:
        UsageError: as :func:`allocation`.

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> print(f"{jl.planning.min_compute(fit, loss=2.2).compute:.3g} FLOPs")
        4.34e+21 FLOPs
    """
    space = _search_space(fit, limits, corpus_tokens, inputs)
    source, target = space.source, checked_number("loss", loss)
    log_C, log_N, log_D, *shares, reached = _least_compute(
        source.law, cost, space.share, source.params, target, space.limits, space.others
    )
    never = log_C >= math.log(COMPUTES[1]) * (1 - NEAR_END)
    unsolved = ~never & ~(reached <= target * (1 + REACHED))
    values = {
        "N": np.where(never, np.nan, np.exp(log_N) / source.scale("N")),
        "D": np.where(never, np.nan, np.exp(log_D) / source.scale("D")),
        "loss": np.full(len(log_C), target),
        "compute": np.where(unsolved, np.nan, np.where(never, np.inf, np.exp(log_C))),
    }
    if space.share:
        values["r"] = np.where(never, np.nan, shares[0])
    lowest = f"{reached[0]:.5g}" + ("" if space.share else f" with {COMPUTES[1]:.0e} FLOPs")
    notes = _reach_notes(values["compute"], target, lowest)
    return _allocation(
        source, values, inputs, _constant(values), "answer", level, notes, binding="loss"
    )


@checked
def tokens_or_size_for(
    fit: Any,
    *,
    N: float | None = None,
    D: float | None = None,
    loss: float | None = None,
    compute: float | None = None,
    cost: Cost | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float,
) -> Allocation:
    """The tokens for a given model, or the model for given tokens.

    A model alone asks for no number of tokens: more is always better. So one more thing is
    given, the ``loss`` to reach or the ``compute`` to spend.

    Args:
        fit: fit of the loss over N and D: a Fit, (law, params), or a bootstrap.
        N: size, in the units of the fitted runs; or give D.
        D: tokens, in the units of the fitted runs; or give N.
        loss: loss to reach, in nats; or give compute.
        compute: budget in FLOPs; or give loss.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`allocation`.
        level: confidence level of the intervals.
        **inputs: values of the law's other inputs.

    Returns:
        Allocation. A loss that no number of tokens (no size) reaches makes it infinite, with
        the note ``out-of-reach``.

    Raises:
        UsageError: not one of N and D, or not one of loss and compute.

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> print(f"{jl.planning.tokens_or_size_for(fit, N=7e9, loss=2.2).D:.3g} tokens")
        1.16e+11 tokens
    """
    (source,) = sources(fit)
    require_inputs(source, "N", "D")
    if (N is None) == (D is None) or (loss is None) == (compute is None):
        raise UsageError("give one of N and D, and one of loss and compute")
    known, name = ("N", "D") if D is None else ("D", "N")
    by, value = ("loss", loss) if compute is None else ("compute", compute)
    size = checked_number(known, N if D is None else D)
    value = checked_number(by, value)
    others = law_inputs(source, inputs, ("N", "D"))
    each = np.ones(source.rows)
    log_known = each * math.log(size * source.scale(known))
    target = each * (math.log(value) if by == "compute" else value)
    log_x, reached = other_input(
        source.law, cost, name, by, source.params, log_known, target, others
    )
    spent = flops(cost, *((log_known, log_x) if name == "D" else (log_x, log_known)))
    values_of = {
        name: np.exp(log_x) / source.scale(name),
        known: each * size,
        "loss": each * value if by == "loss" else reached,
        "compute": spent,
    }
    values = {key: values_of[key] for key in ("N", "D", "loss", "compute")}
    notes = []
    if by == "loss":
        lowest = loss_without_end(source, name, log_known[0], others)
        notes = _reach_notes(values[name], value, f"{lowest:.5g} however large {name} is")
    return _allocation(
        source, values, inputs, _constant(values), "answer", level, notes,
        binding=f"{known} and {by}",
    )  # fmt: skip


def loss_without_end(source: Source, name: str, log_known: float, others: Any) -> float:
    """What the loss tends to as N or D (``name``) grows."""
    pair = (log_known, _ENDLESS) if name == "D" else (_ENDLESS, log_known)
    return float(losses_at(source.law, source.params, *pair, others)[0])


@for_each_draw("law")
def losses_at(law: Law, params: Any, log_N: Any, log_D: Any, others: Any) -> Any:
    """The law at raw counts given by their logarithms: (draws, …)."""
    return loss_at(law, params, log_N, log_D, others)


# What is searched, and how.


class _Space(NamedTuple):
    """A checked question of size and data.

    Attributes:
        source: law with its draws.
        share: whether the share is searched with size and data.
        others: the law's other inputs, in its own units.
        user: input → (least, largest) as the user gave them, None for an open side.
        limits: the same as the programs take them, the search's own where the user set none.
        corpus: tokens of the corpus, in the user's units, or None.
    """

    source: Source
    share: bool
    others: dict[str, float]
    user: dict[str, tuple[Any, Any]]
    limits: Limits
    corpus: float | None


class _Runs(NamedTuple):
    """Best runs: values (draws, K) by name, in the user's units; why some have none."""

    values: dict[str, np.ndarray]
    method: str
    without: str


def _search_space(
    fit: Any, limits: UserLimits | None, corpus: float | None, inputs: Mapping[str, Any]
) -> _Space:
    (source,) = sources(fit)
    require_inputs(source, "N", "D")
    share = inputs.get("r") == "best"
    free = ("N", "D", "r") if share else ("N", "D")
    if share:
        require_inputs(source, "r")
    if corpus is not None and not share:
        raise UsageError("corpus_tokens limits r·D; let r be searched: r='best'")
    others = law_inputs(source, {k: v for k, v in inputs.items() if k != "r" or not share}, free)
    user = checked_limits(limits, free)
    return _Space(source, share, others, user, _log_limits(source, user, corpus), corpus)


def checked_limits(limits: UserLimits | None, allowed: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """The user's limits, with None for an open side."""
    checked = {}
    for name, (low, high) in (limits or {}).items():
        if name not in allowed:
            raise UsageError(
                f"limits on {name} make no sense here; on {', '.join(allowed)} they do."
                f"{nearest(str(name), allowed)}"
            )
        domain = "fraction" if name == "r" else "positive"
        low, high = (None if x is None else checked_number(name, x, domain) for x in (low, high))
        if low is not None and high is not None and low > high:
            raise UsageError(
                f"limits of {name}: the least, {low:g}, is above the largest, {high:g}"
            )
        checked[name] = (low, high)
    return checked


def _log_limits(source: Source, user: Mapping[str, Any], corpus: float | None) -> Limits:
    def raw(name: str) -> tuple[float, ...]:
        pairs = zip(user.get(name, (None, None)), SEARCH_LIMITS[name], strict=True)
        scale = 1.0 if name == "r" else source.scale(name)
        return tuple(limit if own is None else own * scale for own, limit in pairs)

    log_corpus = math.inf
    if corpus is not None:
        log_corpus = math.log(checked_number("corpus_tokens", corpus) * source.scale("D"))
    logs = (tuple(map(math.log, raw(name))) for name in ("N", "D"))
    return Limits(*logs, r=raw("r"), corpus=log_corpus)


def _optimal_runs(space: _Space, cost: Cost | None, budgets: np.ndarray) -> _Runs:
    source, limits = space.source, space.limits
    least = float(flops(cost, limits.N[0], limits.D[0]))
    if not budgets.min() > least:
        raise UsageError(
            f"a budget of {budgets.min():.3g} FLOPs does not pay for the least size and data "
            f"allowed, {least:.3g} FLOPs"
        )
    if not (cost or space.user or space.share):
        terms = _power_law_terms(source.law, source.params, space.others)
        if terms is not None:
            values = _by_formula(source, terms, budgets, space.others)
            return _Runs(values, "closed form", _CONDITION)
    return _by_search(space, cost, budgets)


def _by_search(space: _Space, cost: Cost | None, budgets: np.ndarray) -> _Runs:
    source = space.source
    log_N, log_D, *rest = _best_runs(
        source.law, cost, space.share, source.params, np.log(budgets), space.limits, space.others
    )
    # An optimum at the end of what is searched is none: the loss falls on beyond it.
    (least_N, most_N), (least_D, most_D) = (np.log(SEARCH_LIMITS[name]) for name in ("N", "D"))
    smallest = (log_N <= least_N + AT_LIMIT) | (log_D >= most_D - AT_LIMIT)
    largest = (log_N >= most_N - AT_LIMIT) | (log_D <= least_D + AT_LIMIT)
    values = {"N": np.exp(log_N) / source.scale("N"), "D": np.exp(log_D) / source.scale("D")}
    if space.share:
        values["r"] = rest[0]
    values |= {"loss": rest[-1], "compute": flops(cost, log_N, log_D)}
    none = smallest | largest | ~np.isfinite(rest[-1])
    values = {name: np.where(none, np.nan, column) for name, column in values.items()}
    end = "smallest" if smallest[0].any() else "largest"
    why = (
        f"its loss falls all the way to the {end} model that is searched; limits={{'N': (least, "
        "largest)} puts an end to it"
    )
    return _Runs(values, "numerical", why)


def _binding(space: _Space, at: Mapping[str, float], budget: float) -> str:
    """What stops the loss from falling further."""
    bound = ["compute"] if at["compute"] >= budget * (1 - AT_LIMIT) else []
    for name, (low, high) in space.user.items():
        if low is not None and at[name] <= low * (1 + AT_LIMIT):
            bound.append(f"{name} ≥ {low:g}")
        if high is not None and at[name] >= high * (1 - AT_LIMIT):
            bound.append(f"{name} ≤ {high:g}")
    if "r" in at and at["r"] >= 1 - AT_LIMIT:
        bound.append("r ≤ 1")
    if space.corpus is not None and at["r"] * at["D"] >= space.corpus * (1 - AT_LIMIT):
        bound.append(f"r·D ≤ {space.corpus:g}")
    return ", ".join(dict.fromkeys(bound))


def _constant(values: Mapping[str, np.ndarray]) -> list[str]:
    """Quantities that were given, not found: the same in every draw."""
    return [name for name, column in values.items() if (column == column[0]).all()]


def _allocation(
    source: Source, values: dict, inputs: Mapping[str, Any], given: Sequence[str], what: str,
    level: float, notes: Sequence[Note] = (), **more: Any,
) -> Allocation:  # fmt: skip
    answer = measured(values, level, source.degrees, given)
    if inputs.get("r") not in (None, "best"):
        answer["r"] = float(inputs["r"])
    at = {name: answer[name] for name in ("N", "D", "r") if name in answer}
    notes = (*notes, *source_notes(source, **at), *missing_draws_notes(values["compute"], what))
    return Allocation(**answer, notes=notes, **more)


def _reach_notes(found: np.ndarray, target: float, lowest: str) -> list[Note]:
    if np.isinf(found[0]):
        message = f"the law does not reach a loss of {target:g}; it comes down to {lowest}"
        return [Note("out-of-reach", "error", message)]
    if np.isnan(found[0]):
        return [Note("not-converged", "error", "the search ended before the loss was met")]
    if np.isinf(found[1:]).any():
        share = np.isinf(found[1:]).mean()
        message = f"{share:.1%} of {found.size - 1} replicates never reach a loss of {target:g}"
        return [Note("replicates-out-of-reach", "warning", message)]
    return []


def runs_beyond(source: Source, values: Mapping[str, np.ndarray]) -> list[Note]:
    """How many of a frontier's runs lie outside the fitted ranges."""
    at = {name: values[name][0] for name in ("N", "D")}
    flags = beyond(source.ranges, source.joint, at)
    outside = np.logical_or.reduce([*flags.values()])
    if not outside.any():
        return []
    *most, last = [name for name, flag in flags.items() if name in at or flag.any()]
    ranges = f"{', '.join(most)} or {last}"
    message = f"{outside.sum()} of {outside.size} runs lie outside the fitted range of {ranges}"
    return [Note("extrapolation", "warning", message)]


def budgets_of(compute: Any, name: str = "compute") -> np.ndarray:
    """(K,) checked budgets in FLOPs."""
    budgets = np.array([checked_number("compute", budget) for budget in np.atleast_1d(compute)])
    if not budgets.size:
        raise UsageError(f"{name} is empty; give one budget or more")
    return budgets


# The closed form.


_CONDITION = (
    "with E + A/N^α + B/(D^β·N^γ) and 6·N·D FLOPs there is one, growing with compute as the "
    "data does, only for β > γ, α > γ and B > 0"
)


def _power_law_terms(
    law: Law, params: dict[str, np.ndarray], others: dict[str, float]
) -> PowerLawTerms | None:
    """The terms that a closed form of the best run needs, or None for a law without one."""
    if law.power_law_terms is None:
        return None
    terms = law.power_law_terms(params, others)
    return terms._replace(gamma=terms.gamma + np.zeros_like(terms.B))


def _closed_form(terms: PowerLawTerms) -> tuple[np.ndarray, ...]:
    """G, a, b, each (draws,); NaN where the law has no optimum that grows with compute."""
    A, B, alpha, beta, gamma = terms
    total = alpha + beta - gamma
    exists = (beta > gamma) & (alpha > gamma) & (B > 0)
    with np.errstate(all="ignore"):
        G = (alpha * A / ((beta - gamma) * B)) ** (1 / total)
    exists &= (G > 0) & np.isfinite(G)
    a, b = beta / total, (alpha - gamma) / total
    return tuple(np.where(exists, value, np.nan) for value in (G, a, b))


def _by_formula(
    source: Source, terms: PowerLawTerms, budgets: np.ndarray, others: Mapping[str, float]
) -> dict[str, np.ndarray]:
    G, a, b = (column[:, None] for column in _closed_form(terms))
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    own = budgets / (6 * unit["N"] * unit["D"])
    with np.errstate(all="ignore"):  # draws of what no run determines
        N, D = G * own**a, own**b / G
    none = ~np.isfinite(N * D) | (N * D <= 0)
    N, D = np.where(none, np.nan, N), np.where(none, np.nan, D)
    with in_float64():
        columns = {name: column[:, None] for name, column in source.params.items()}
        loss = np.asarray(source.law.at_once(columns, N=N, D=D, **others))
    best = {"N": N / source.units["N"], "D": D / source.units["D"], "loss": loss}
    return best | {"compute": np.where(np.isnan(N), np.nan, budgets)}


# A plan as a pure function of arrays.


class BestRun(NamedTuple):
    """What :func:`best_run` returns; a pytree.

    Attributes:
        N, D: size and tokens, in the law's own units.
        loss: predicted loss there.

    Example:
        >>> run = jl.planning.best_run("kaplan", jl.simulate.TRUTHS["kaplan"], 1e21)
        >>> float(run.loss) < 3
        True
    """

    N: Array
    D: Array
    loss: Array


@checked
def best_run(law: str | Law, params: Mapping[str, Any], compute: Any, **inputs: Any) -> BestRun:
    """Size and tokens of the lowest loss on a budget of 6·N·D FLOPs, as a JAX function.

    Of the numbers of :func:`jaxlaw.planning.allocation`, without its checks, notes and units.
    Works inside ``jit`` and ``vmap``; differentiable in parameters, compute and inputs by the
    implicit function theorem, and with :func:`jaxlaw.fit_batch` in the data.

    Args:
        law: law or its name, with the inputs N and D; static.
        params: name → natural values in the law's own units.
        compute: FLOPs.
        **inputs: values of the law's other inputs, in its own units. All arrays broadcast.

    Returns:
        :class:`BestRun` of the broadcast shape; NaN where the law has no best size.

    Raises:
        UsageError: the law lacks N or D, or an input or a parameter is missing or unknown.

    Example:
        >>> truth = jl.simulate.TRUTHS["chinchilla"]
        >>> runs = jl.planning.best_run("chinchilla", truth, [1e20, 1e21])
        >>> runs.loss.shape
        (2,)
    """
    law = laws.get(law)
    _check_names(f"law {law.name}: input", {"N", "D", *inputs}, law.input_names)
    _check_names(f"law {law.name}: parameter", set(params), law.parameter_names)
    kind = jnp.result_type(float)
    arguments = {
        "params": {name: as_array(name, value, kind) for name, value in params.items()},
        "compute": as_array("compute", compute, kind),
        "others": {name: as_array(name, value, kind) for name, value in inputs.items()},
    }
    return _broadcast_runs(law, arguments)


@compiled(static_argnames="law")
def _broadcast_runs(law: Law, arguments: Any) -> BestRun:
    leaves, tree = jax.tree.flatten(arguments)

    def run(*leaves: Any) -> tuple[Any, ...]:
        return _differentiable_run(law, **jax.tree.unflatten(tree, leaves))

    return BestRun(*jnp.vectorize(run)(*leaves))


def _differentiable_run(law: Law, params: Any, compute: Any, others: Any) -> tuple[Any, ...]:
    log_C = jnp.log(compute)
    limits = search_limits(jnp.log)  # of the dtype that the caller works in
    fixed = jax.lax.stop_gradient((params, log_C))
    log_N, log_D, _ = best_of_budget(law, None, *fixed, limits, jax.lax.stop_gradient(others))
    inside = True
    for x, (low, high) in ((log_N, limits.N), (log_D, limits.D)):
        inside &= (x > low + AT_LIMIT_32) & (x < high - AT_LIMIT_32)
    log_N = jax.lax.stop_gradient(log_N)

    def loss(log_N: Any) -> Any:
        return loss_at(law, params, log_N, log_tokens(None, log_N, log_C), others)

    slope = jax.grad(loss)
    # A Newton step whose value is zero: its derivative is that of the optimum.
    curvature = jax.lax.stop_gradient(jax.grad(slope)(log_N))
    gradient = slope(log_N)
    log_N = log_N - (gradient - jax.lax.stop_gradient(gradient)) / curvature
    log_D = log_tokens(None, log_N, log_C)
    unit = {spec.name: spec.unit for spec in law.inputs}
    run = (jnp.exp(log_N) / unit["N"], jnp.exp(log_D) / unit["D"], loss(log_N))
    return tuple(jnp.where(inside, value, jnp.nan) for value in run)


def _check_names(what: str, names: set[str], needed: tuple[str, ...]) -> None:
    for name in sorted(names - set(needed)):
        raise UsageError(f"{what} '{name}' is unknown.{nearest(name, needed)}")
    missing = [name for name in needed if name not in names]
    if missing:
        raise UsageError(f"{what} {', '.join(missing)} is missing")
