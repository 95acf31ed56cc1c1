"""Size and data: what a compute budget, or a loss, is best spent on.

Hoffmann 2022, §3.3; Zheng 2024, §3, §4.2 and §5.1; Que 2024, usage 3 and App. G.3.

Numbers are in the units of the fitted runs; those of the programs (:mod:`jaxlaw.planning._budgets`)
are raw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._arrays import numbers_of
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Quantity, checked_number, exponential, in_unit, written
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import outside_range
from jaxlaw.laws import Law, PowerLawTerms
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    MISSING,
    Answer,
    AnswerTable,
    Inputs,
    Pictured,
    checked_compute,
    checked_input,
    context_of,
    inputs_as_numbers,
    keeps_question,
    law_inputs,
    missing_draws_notes,
    off_centre_notes,
    require_inputs,
    source_notes,
    without,
)
from jaxlaw.planning._budgets import (
    AT_LIMIT,
    COMPUTES,
    SEARCH_LIMITS,
    Cost,
    best_runs,
    flops,
    least_compute,
    log_tokens,
    losses_at,
    other_input,
    total_cost,
)
from jaxlaw.planning._flat import as_good, bound_notes
from jaxlaw.planning._search_space import (
    SearchSpace,
    UserLimits,
    epochs_notes,
    epochs_of,
    search_space,
    tried_ratios,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns, with_intervals

_GROWN = 257  # sizes, or numbers of tokens, among which the loss comes lowest
_ENDLESS = math.log(1e42)  # size or tokens at which a loss is what it tends to
NEAR_END = 1e-3  # of the searched range of log compute
REACHED = 1e-9  # relative: farther from the loss wanted, a search has not converged

# The range of sizes around the best whose loss differs from it by less than the noise of a run.
FLAT = 12.0  # nats of size, either way
FLAT_POINTS = 4801
LINE_POINTS = 513  # of sizes, where lower losses are looked for
_USUAL = 1e21  # FLOPs around which a plan without an answer is drawn


# The plans.


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Allocation(Pictured, Answer):
    """How to spend a budget.

    Attributes:
        N, D: size and tokens, in the units of the fitted runs (of the law for (law, params)).
        loss: predicted loss there.
        compute: FLOPs of the run.
        r: share of the mixture, where it was searched or given; None without one.
        method: ``closed form`` or ``numerical``.
    """

    N: float = field(metadata={"unit": "parameters"})
    D: float = field(metadata={"unit": "tokens"})
    loss: float = field(metadata={"unit": TARGET})
    compute: float = field(metadata={"unit": "FLOPs"})
    r: float | None = field(default=None, metadata={"unit": SHARE})
    method: str = "numerical"

    def sentence(self) -> str:
        """The run, what it costs and what it reaches."""
        if not math.isfinite(self.N * self.D * self.compute):
            return ""
        ratio = self.D * self.units["D"][1] / (self.N * self.units["N"][1])
        size, tokens = self.written("N", level=True), self.written("D")
        run = f"{size} and {tokens}, {exponential(ratio)} a parameter"
        share = "" if self.r is None else f", {self.written('r')} of the corpus"
        if "loss" in self.binding.split():
            return f"loss {self.written('loss')}: {self.written('compute')}, by {run}{share}"
        return f"{self.written('compute')}: {run}{share}, loss {self.written('loss')}"

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """Contours of equal loss around its compute, and the run on them."""
        around = self.compute if 0 < self.compute < math.inf else _USUAL
        options = without(question, "fit", "compute", "loss", "N", "D")
        return "isoloss", (question["fit"], (around / 100, around * 100)), {"mark": self, **options}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AllocationLaw(Pictured, Answer):
    """N_opt = N_coefficient·C^a and D_opt = D_coefficient·C^b for C in FLOPs.

    Attributes:
        a, b: exponents, which add up to 1.
        G: coefficient of the papers, in the law's own units: N_opt = G·(C/6)^a,
            D_opt = (C/6)^b / G.
        N_coefficient, D_coefficient: coefficients with N and D in the units of the fitted runs.
    """

    a: float = field(metadata={"unit": ""})
    b: float = field(metadata={"unit": ""})
    G: float = field(metadata={"unit": ""})
    N_coefficient: float = field(metadata={"unit": ""})
    D_coefficient: float = field(metadata={"unit": ""})

    def sentence(self) -> str:
        """The two exponents."""
        return (
            f"the best size grows as compute to the power of {self.written('a', level=True)}, the "
            f"tokens as that of {self.written('b')}"
        )

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """Contours of equal loss with the best size of every budget."""
        return "isoloss", (question["fit"], (1e18, 1e24)), without(question, "fit")


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Pictured, AnswerTable):
    """The best run of every budget.

    ``table`` has ``compute`` (FLOPs), ``N``, ``D``, ``r`` where it was searched, ``loss`` and
    ``tokens_per_parameter``.
    """

    column_units: ClassVar[Mapping[str, str]] = {
        "N": "parameters",
        "D": "tokens",
        "r": SHARE,
        "tokens_per_parameter": "",
    }

    def sentence(self) -> str:
        """The runs of the least and of the largest budget."""
        return self.over_budgets("{compute}: {N} and {D}, loss {loss}")

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The best sizes on contours of equal loss."""
        budgets = self.table["compute"]
        extremes = float(budgets.min()), float(budgets.max())
        return "isoloss", (question["fit"], extremes), without(question, "fit", "computes")


@keeps_question
@checked
def allocation(
    fit: Any,
    compute: Quantity,
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    served_tokens: Quantity | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Quantity | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Allocation:
    """Size and tokens that a compute budget is best spent on.

    In closed form for chinchilla, cpt-chinchilla, skaling, kaplan-e and overtraining, and for dcpt,
    dcpt-l1 and dcpt-l4 at a given share; numerically for any other law with the inputs N and D, and
    wherever a limit, a cost or a free share is given: a grid, then the root of the derivative.
    Far beyond its runs farseer's floor falls to nothing with N: the plan is the valley of its loss,
    and the note ``falls-on`` says that there are lower losses beyond.

    Args:
        fit: fit of the loss over N and D: a Fit, (law, params), or a bootstrap, whose draws give
            the intervals; or a :class:`jaxlaw.Forecast`, whose draws go over its weighted laws.
        compute: budget in FLOPs.
        limits: least and largest value of an input, in the units of the fitted runs, None where
            a side is open. For ``N``, ``D``, and ``r`` where it is searched.
        cost: function ``f(N, D)``, the FLOPs of a run of N parameters and D tokens (raw counts):
            pure JAX, rising in both. Left out: 6·N·D, or the FLOPs of the runs' own column, where
            one is mapped to C.
        served_tokens: number of tokens that the model will serve, in the units of D: 2·N FLOPs for
            each are a part of the budget (Sardana 2024, arXiv 2401.00448), and of ``compute``.
        max_epochs: largest D/U, of laws with unique tokens U. Left out: that of the fitted runs,
            where it is known; the note ``epochs-limited`` says where it holds the plan back.
        corpus_tokens: number of tokens of the corpus whose share r is: r·D stays below.
        at: values of the law's other inputs. ``{"r": "best"}`` searches the share with N and D.
        level: confidence level of the intervals.

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

    Shell:
        jaxlaw plan allocation fit.json --compute 1e21
    """
    space = search_space(fit, limits, corpus_tokens, max_epochs, at, cost, served_tokens)
    budget = checked_compute(compute)
    runs = _optimal_runs(space, np.array([budget]))
    if math.isnan(runs.values["N"][0, 0]):
        name = space.source.law.name
        raise DataError(f"law {name} has no best size for {budget:.3g} FLOPs: {runs.without}")
    values = {name: column[:, 0] for name, column in runs.values.items()}
    spent = values["compute"][~np.isnan(values["compute"])]
    given = ["compute"] if np.ptp(spent) <= AT_LIMIT * budget else []
    best = {name: float(v[0]) for name, v in values.items()}
    notes = [
        *runs.notes,
        *_notes_of_runs(space, runs.values, runs.held),
        *bound_notes(space.source, space.user, best),
    ]
    return _allocation(
        space.source, values, at, given, "optimum", level, notes, method=runs.method,
        binding=_binding(space, best, budget), flat=_flat_range(space, best),
    )  # fmt: skip


@keeps_question
@checked
def frontier(
    fit: Any,
    computes: Sequence[Quantity],
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    served_tokens: Quantity | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Quantity | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Frontier:
    """The best run of each of many budgets; arguments and errors as :func:`allocation`.

    Args:
        fit: fit of the loss over N and D.
        computes: budgets in FLOPs.
        limits: least and largest value of an input, as for :func:`allocation`.
        cost: function ``f(N, D)`` in FLOPs.
        served_tokens: number of tokens that the model will serve, as for :func:`allocation`.
        max_epochs: largest D/U, as for :func:`allocation`.
        corpus_tokens: number of tokens of the corpus whose share r is.
        at: values of the law's other inputs; ``{"r": "best"}`` searches the share.
        level: confidence level of the intervals.

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> best = jl.planning.frontier(fit, [1e20, 1e22]).table
        >>> best["tokens_per_parameter"].round(1).tolist()
        [40.1, 62.6]
    """
    space = search_space(fit, limits, corpus_tokens, max_epochs, at, cost, served_tokens)
    budgets = budgets_of(computes, "computes")
    runs = _optimal_runs(space, budgets)
    values, source = dict(runs.values), space.source
    if np.isnan(values["N"][0]).all():
        raise DataError(f"law {source.law.name} has no best size at these budgets: {runs.without}")
    ratio = source.scale("D") / source.scale("N")
    values["tokens_per_parameter"] = values["D"] / values["N"] * ratio
    del values["compute"]
    table = {"compute": budgets} | {name: column[0] for name, column in values.items()}
    for name, column in values.items():
        table |= interval_columns(name, column, level, source.degrees)
    notes = [*runs_beyond(source, values, at), *source_notes(source)]
    notes += [*runs.notes, *_notes_of_runs(space, runs.values, runs.held)]
    notes += missing_draws_notes(values["N"].min(axis=1), "optimum at some budget")
    largest = np.nanargmax(budgets)
    notes += off_centre_notes(source, runs.values["loss"][:, largest])
    run = {name: table[name][largest] for name in ("N", "D", "r") if name in table}
    context = context_of(Frontier, source, {**(at or {}), **run})
    return Frontier(pd.DataFrame(table), level, tuple(notes), **context)


@keeps_question
@checked
def allocation_law(
    fit: Any, *, at: Mapping[str, float | str] | None = None, level: ConfidenceLevel = LEVEL
) -> AllocationLaw:
    """How the best size and data grow with compute, counted as 6·N·D.

    Args:
        fit: fit as for :func:`allocation`, of a law with a closed form.
        at: share r, for the D-CPT laws.
        level: confidence level of the intervals.

    Raises:
        UsageError: the law has no closed form.
        DataError: the law has no optimum (see :func:`allocation`).

    Example:
        >>> fit = jl.published()["zheng-2024-scratch"]
        >>> law = jl.planning.allocation_law(fit)
        >>> print(f"N = {law.N_coefficient:.3f} C^{law.a:.3f}")
        N = 0.324 C^0.429

    Shell:
        jaxlaw plan allocation-law fit.json
    """
    (source,) = as_draws(fit)
    require_inputs(source, "N", "D")
    terms = _power_law_terms(source.law, source.values, law_inputs(source, at, ("N", "D")))
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
    if source.fit.flops is not None:
        message = "the powers are of 6·N·D; allocation and frontier count the FLOPs of the runs"
        notes.append(Note("flops-differ", "warning", message))
    return AllocationLaw(
        **with_intervals(values, level, source.degrees), binding="compute", notes=tuple(notes),
        **context_of(AllocationLaw, source),
    )  # fmt: skip


@keeps_question
@checked
def min_compute(
    fit: Any,
    loss: float,
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    served_tokens: Quantity | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Quantity | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Allocation:
    """The least compute whose best run reaches a loss, and that run.

    Args:
        fit: fit of the loss over N and D, as for :func:`allocation`.
        loss: loss to be reached, in nats.
        limits: least and largest value of an input, as for :func:`allocation`.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`allocation`.
        served_tokens: number of tokens that the model will serve, as for :func:`allocation`.
        max_epochs: largest D/U, as for :func:`allocation`.
        corpus_tokens: number of tokens of the corpus whose share r is.
        at: values of the law's other inputs; ``{"r": "best"}`` searches the share.
        level: confidence level of the intervals.

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
    space = search_space(fit, limits, corpus_tokens, max_epochs, at, cost, served_tokens)
    source, target = space.source, checked_number("loss", loss)
    log_C, log_N, log_D, *shares, reached = least_compute(
        source.law, space.cost, space.share, source.values, target, space.limits, space.others
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
    ended = bool(np.any([side[0] for side in _at_ends(log_N, log_D)]))
    if not never[0]:
        columns = {name: v[:, None] for name, v in values.items()}
        notes += _notes_of_runs(space, columns, held=ended)
    if ended and not never[0]:
        message = (
            "the least compute is that of the last size or tokens that are searched, for the loss "
            "falls on beyond: limits={'N': (least, largest)} puts an end to it"
        )
        notes.append(Note("optimum-at-limit", "warning", message))
    best = {name: float(v[0]) for name, v in values.items()}
    return _allocation(
        source, values, at, _constant(values), "answer", level,
        [*notes, *bound_notes(source, space.user, best)], binding="loss",
        flat=_flat_range(space, best),
    )  # fmt: skip


@keeps_question
@checked
def tokens_or_size_for(
    fit: Any,
    *,
    N: Quantity | None = None,
    D: Quantity | None = None,
    loss: float | None = None,
    compute: Quantity | None = None,
    cost: Cost | None = None,
    served_tokens: Quantity | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
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
        served_tokens: number of tokens that the model will serve, as for :func:`allocation`.
        at: values of the law's other inputs.
        level: confidence level of the intervals.

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
    (source,) = as_draws(fit)
    require_inputs(source, "N", "D")
    if (N is None) == (D is None) or (loss is None) == (compute is None):
        raise UsageError("give one of N and D, and one of loss and compute")
    known, name = ("N", "D") if D is None else ("D", "N")
    by, value = ("loss", loss) if compute is None else ("compute", compute)
    size = checked_input(source, known, N if D is None else D)
    value = checked_number(by, in_unit(value, 1.0, "FLOPs") if by == "compute" else value)
    others = law_inputs(source, at, ("N", "D"))
    cost = total_cost(cost, source, served_tokens)
    each = np.ones(source.rows)
    log_known = each * math.log(size * source.scale(known))
    target = each * (math.log(value) if by == "compute" else value)
    log_x, reached = other_input(
        source.law, cost, name, by, source.values, log_known, target, others
    )
    spent = flops(cost, *((log_known, log_x) if name == "D" else (log_x, log_known)))
    values_of = {
        name: np.exp(log_x) / source.scale(name),
        known: each * size,
        "loss": each * value if by == "loss" else reached,
        "compute": spent,
    }
    values = {key: values_of[key] for key in ("N", "D", "loss", "compute")}
    notes = epochs_notes(source, others, values["D"][0], None)
    if by == "loss":
        lowest = lowest_loss(source, name, log_known[0], others)
        notes += _reach_notes(values[name], value, f"{lowest:.5g} however large {name} is")
    return _allocation(
        source, values, at, _constant(values), "answer", level, notes,
        binding=f"{known} and {by}",
    )  # fmt: skip


def lowest_loss(source: Draws, name: str, log_known: float, others: Any) -> float:
    """What the loss comes down to as N or D (``name``) grows."""
    grown = np.append(np.linspace(*map(math.log, SEARCH_LIMITS[name]), _GROWN), _ENDLESS)
    pair = (log_known, grown) if name == "D" else (grown, log_known)
    return float(np.nanmin(losses_at(source.law, source.values, *pair, others)[0]))


# What is searched, and how.


class _Runs(NamedTuple):
    """Best runs: values (draws, K) by name, in the user's units; why some have none; notes."""

    values: dict[str, np.ndarray]
    method: str
    without: str
    notes: Sequence[Note] = ()

    @property
    def held(self) -> bool:
        """Whether the fit's own run is held at a ratio that was run."""
        return any(note.code == "optimum-at-tried" for note in self.notes)


def _optimal_runs(space: SearchSpace, budgets: np.ndarray) -> _Runs:
    source, limits = space.source, space.limits
    least = float(flops(space.cost, limits.N[0], limits.D[0]))
    if not budgets.min() > least:
        raise UsageError(
            f"a budget of {budgets.min():.3g} FLOPs does not pay for the least size and data "
            f"allowed, {least:.3g} FLOPs"
        )
    if not (space.cost or space.user or space.share):
        terms = _power_law_terms(source.law, source.values, space.others)
        if terms is not None:
            values = _by_formula(source, terms, budgets, space.others)
            return _Runs(values, "closed form", _CONDITION)
    return _by_search(space, budgets)


def _by_search(space: SearchSpace, budgets: np.ndarray) -> _Runs:
    source = space.source
    log_N, log_D, *rest = best_runs(
        source.law,
        space.cost,
        space.share,
        source.values,
        np.log(budgets),
        space.limits,
        space.others,
    )
    smallest, largest = _at_ends(log_N, log_D)
    values = {"N": np.exp(log_N) / source.scale("N"), "D": np.exp(log_D) / source.scale("D")}
    if space.share:
        values["r"] = rest[0]
    values |= {"loss": rest[-1], "compute": flops(space.cost, log_N, log_D)}
    ended = smallest | largest
    held = _at_tried(space, budgets, smallest) if ended.any() else {}
    notes = _held_notes(space, ended, smallest[0]) if held else []
    values = {name: np.where(ended, held.get(name, np.nan), v) for name, v in values.items()}
    none = ~np.isfinite(values["loss"])
    values = {name: np.where(none, np.nan, column) for name, column in values.items()}
    end = "smallest" if smallest[0].any() else "largest"
    why = (
        f"its loss falls all the way to the {end} model that is searched; limits={{'N': (least, "
        "largest)} puts an end to it"
    )
    return _Runs(values, "numerical", why, notes)


def _at_ends(log_N: np.ndarray, log_D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether runs are at the smallest or the largest size that is searched.

    An optimum there is none: the loss falls on beyond it.
    """
    (least_N, most_N), (least_D, most_D) = (np.log(SEARCH_LIMITS[name]) for name in ("N", "D"))
    smallest = (log_N <= least_N + AT_LIMIT) | (log_D >= most_D - AT_LIMIT)
    return smallest, (log_N >= most_N - AT_LIMIT) | (log_D <= least_D + AT_LIMIT)


def _at_tried(
    space: SearchSpace, budgets: np.ndarray, smallest: np.ndarray
) -> dict[str, np.ndarray]:
    """Runs (draws, K) of the last D/N that was run, for laws that fall on beyond it.

    Empty where no D/N is known, or the user's limits or a share are searched: they have ends of
    their own.
    """
    source, limits = space.source, space.limits
    low, high = tried_ratios(source)
    if math.isnan(low) or space.user or space.share:
        return {}
    log_C = np.log(budgets)
    near = limits._replace(near=np.where(smallest, high, low))
    log_N = np.clip(near.size_near(log_C), *limits.N)
    with in_float64():
        paid = jax.vmap(jax.vmap(lambda x, c: log_tokens(space.cost, x, c)), (0, None))(
            log_N, log_C
        )
        log_D = np.clip(np.asarray(paid), *limits.D)
    columns = {name: column[:, None] for name, column in source.values.items()}
    with in_float64():
        at = {"N": np.exp(log_N), "D": np.exp(log_D)}
        own = {
            spec.name: at[spec.name] / spec.unit for spec in source.law.inputs if spec.name in at
        }
        loss = np.asarray(source.law.evaluate(columns, **own, **space.others))
    return {
        **{name: value / source.scale(name) for name, value in at.items()},
        "loss": loss,
        "compute": flops(space.cost, log_N, log_D),
    }


def _held_notes(space: SearchSpace, ended: np.ndarray, smallest: np.ndarray) -> list[Note]:
    low, high = (math.exp(ratio) for ratio in tried_ratios(space.source))
    notes, draws = [], ended[1:].any(axis=1)
    if ended[0].any():
        size, edge, word = (
            ("smallest", high, "an upper") if smallest.any() else ("largest", low, "a lower")
        )
        message = (
            f"the loss falls all the way to the {size} model that is searched: the plan is held at "
            f"{edge:.3g} tokens a parameter, the last ratio that was run, {word} bound of the best "
            "size"
        )
        notes.append(Note("optimum-at-tried", "warning", message))
    if draws.any():
        message = (
            f"{draws.mean():.1%} of {draws.size} draws fall on to the end of the search: "
            "they are held at the last ratio that was run"
        )
        severity = "warning" if draws.mean() > MISSING else "info"
        notes.append(Note("draws-at-tried", severity, message))
    return notes


def _binding(space: SearchSpace, at: Mapping[str, float], budget: float) -> str:
    """What stops the loss from falling further."""
    bound = ["compute"] if at["compute"] >= budget * (1 - AT_LIMIT) else []
    units = space.source.fit.input_units()
    for name, (low, high) in space.user.items():
        if low is not None and at[name] <= low * (1 + AT_LIMIT):
            bound.append(f"{name} ≥ {written(low, *units[name])}")
        if high is not None and at[name] >= high * (1 - AT_LIMIT):
            bound.append(f"{name} ≤ {written(high, *units[name])}")
    if space.epochs is not None:
        if epochs_of(space.source, space.others, at["D"]) >= space.epochs[0] * (1 - AT_LIMIT):
            bound.append(f"D/U ≤ {space.epochs[0]:.4g}")
    if "r" in at and at["r"] >= 1 - AT_LIMIT:
        bound.append("r ≤ 1")
    if space.corpus is not None and at["r"] * at["D"] >= space.corpus * (1 - AT_LIMIT):
        bound.append(f"r·D ≤ {space.corpus:g}")
    return ", ".join(dict.fromkeys(bound))


def _notes_of_runs(space: SearchSpace, values: Mapping[str, np.ndarray], held: bool) -> list[Note]:
    """What is to be known of the fit's own best runs, values (draws, K) by name."""
    source = space.source
    notes = epochs_notes(source, space.others, values["D"][0], space.epochs)
    # A limit of the user's own is no side to which a law may fall.
    own_limits = held or space.user or space.share or space.epochs is not None
    if own_limits or source.law.power_law_terms is not None:
        return notes
    if _lower_elsewhere(space, values):
        message = (
            "far from its runs this law has lower losses still, such as of huge models on hardly "
            "any tokens: that is its form, and the plan is the valley next to the runs"
        )
        notes.append(Note("falls-on", "info", message))
    return notes


def _lower_elsewhere(space: SearchSpace, values: Mapping[str, np.ndarray]) -> bool:
    """Whether a run of the same compute, of any size that is searched, has a lower loss."""
    source, limits = space.source, space.limits
    first = {name: column[:1] for name, column in source.values.items()}
    log_N, log_C = (
        axis.ravel()
        for axis in np.meshgrid(
            np.linspace(*limits.N, LINE_POINTS), np.log(values["compute"][0]), indexing="ij"
        )
    )
    with in_float64():
        log_D = np.asarray(jax.vmap(lambda x, c: log_tokens(space.cost, x, c))(log_N, log_C))
    paid = (log_D >= limits.D[0]) & (log_D <= limits.D[1])
    loss = losses_at(source.law, first, log_N, np.clip(log_D, *limits.D), space.others)[0]
    best = np.broadcast_to(values["loss"][0], (LINE_POINTS, values["loss"].shape[1])).ravel()
    return bool((paid & (loss < best * (1 - REACHED))).any())


def _flat_range(space: SearchSpace, at: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Sizes and tokens of the same compute whose loss differs from the lowest by less than noise.

    Of the fit itself, at its own share; where the noise of single runs is known.
    """
    source, limits = space.source, space.limits
    if not (source.noise > 0 and np.isfinite([at["N"], at["D"], at["loss"]]).all()):
        return {}
    here = math.log(at["N"] * source.scale("N"))
    log_C = math.log(at["compute"])
    span = max(limits.N[0], here - FLAT), min(limits.N[1], here + FLAT)
    log_N = np.unique(np.append(np.linspace(*span, FLAT_POINTS), here))
    with in_float64():
        log_D = np.asarray(jax.vmap(lambda x: log_tokens(space.cost, x, log_C))(jnp.asarray(log_N)))
    log_D = np.clip(log_D, *limits.D)
    others = space.others | ({"r": at["r"]} if space.share else {})
    first = {name: column[:1] for name, column in source.values.items()}
    loss = losses_at(source.law, first, log_N, log_D, others)[0]
    low, high = as_good(loss, int(np.searchsorted(log_N, here)), source.noise)
    return {
        "N": tuple(float(np.exp(log_N[k]) / source.scale("N")) for k in (low, high)),
        "D": tuple(float(np.exp(log_D[k]) / source.scale("D")) for k in (high, low)),
    }


def _constant(values: Mapping[str, np.ndarray]) -> list[str]:
    """Quantities that were given, not found: the same in every draw."""
    return [name for name, column in values.items() if (column == column[0]).all()]


def _allocation(
    source: Draws, values: dict, inputs: Inputs, given: Sequence[str], what: str,
    level: float, notes: Sequence[Note] = (), **more: Any,
) -> Allocation:  # fmt: skip
    answer = with_intervals(values, level, source.degrees, given)
    held = inputs_as_numbers(source, inputs or {})
    if "r" in held:
        answer["r"] = held["r"]
    at = held | {name: answer[name] for name in ("N", "D", "r") if name in answer}
    notes = (*notes, *source_notes(source, **at), *missing_draws_notes(values["compute"], what))
    rises = "loss" if np.ptp(values["loss"]) else "compute"  # the other one is given
    notes += tuple(off_centre_notes(source, values[rises], rises))
    context = context_of(Allocation, source, {**(inputs or {}), **at})
    return Allocation(**answer, notes=notes, **context, **more)


def _reach_notes(reached: np.ndarray, target: float, lowest: str) -> list[Note]:
    if np.isinf(reached[0]):
        message = f"the law does not reach a loss of {target:g}; it comes down to {lowest}"
        return [Note("out-of-reach", "error", message)]
    if np.isnan(reached[0]):
        return [Note("not-converged", "error", "the search ended before the loss was met")]
    if np.isinf(reached[1:]).any():
        share = np.isinf(reached[1:]).mean()
        message = f"{share:.1%} of {reached.size - 1} draws never reach a loss of {target:g}"
        return [Note("draws-out-of-reach", "warning", message)]
    return []


def runs_beyond(source: Draws, values: Mapping[str, np.ndarray], inputs: Inputs) -> list[Note]:
    """How many of a frontier's runs, at these inputs, lie outside the fitted ranges."""
    runs = {name: values[name][0] for name in ("N", "D")}
    at = runs | {
        name: np.full_like(runs["N"], v)
        for name, v in inputs_as_numbers(source, inputs or {}).items()
    }
    unknown = [n for n in at if np.isnan(source.ranges.get(n, (0.0, 0.0))).any()]
    if unknown:  # of published coefficients
        message = f"no fitted range of {', '.join(unknown)} is known: whether these runs are an "
        return [Note("range-unknown", "warning", f"{message}extrapolation is unknown")]
    flags = outside_range(source.ranges, source.joint, at)
    outside = np.logical_or.reduce([*flags.values()])
    if not outside.any():
        return []
    *most, last = [name for name, flag in flags.items() if name in at or flag.any()]
    ranges = f"{', '.join(most)} or {last}"
    message = f"{outside.sum()} of {outside.size} runs lie outside the fitted range of {ranges}"
    return [Note("extrapolation", "warning", message)]


def budgets_of(compute: Any, name: str = "compute") -> np.ndarray:
    """(K,) checked budgets in FLOPs."""
    budgets = np.array(
        [
            checked_number("compute", budget)
            for budget in np.atleast_1d(numbers_of(name, in_unit(compute, 1.0, "FLOPs")))
        ]
    )
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
    with in_float64():  # laws write their terms with jl.laws.power, too
        terms = PowerLawTerms(*map(np.asarray, law.power_law_terms(params, others)))
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
    source: Draws, terms: PowerLawTerms, budgets: np.ndarray, others: Mapping[str, float]
) -> dict[str, np.ndarray]:
    G, a, b = (column[:, None] for column in _closed_form(terms))
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    size_times_tokens = budgets / (6 * unit["N"] * unit["D"])
    with np.errstate(all="ignore"):  # draws of what no run determines
        N, D = G * size_times_tokens**a, size_times_tokens**b / G
    none = ~np.isfinite(N * D) | (N * D <= 0)
    N, D = np.where(none, np.nan, N), np.where(none, np.nan, D)
    with in_float64():
        columns = {name: column[:, None] for name, column in source.values.items()}
        loss = np.asarray(source.law.evaluate(columns, N=N, D=D, **others))
    best = {"N": N / source.units["N"], "D": D / source.units["D"], "loss": loss}
    return best | {"compute": np.where(np.isnan(N), np.nan, budgets)}
