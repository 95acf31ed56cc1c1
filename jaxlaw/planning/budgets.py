"""Size and data for a compute budget: allocations, their law, the frontier over budgets.

Hoffmann 2022, §3.3; Zheng 2024, §3 and §5.1; Que 2024, usage 3 and App. G.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._extrapolation import beyond
from jaxlaw.laws._base import PowerLawTerms
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    Answer,
    AnswerTable,
    Source,
    held,
    in_domain,
    measured,
    need,
    on_replicates,
    on_source,
    sources,
    with_ends,
)
from jaxlaw.planning.placing import WALLS, Cost, Limits, best_runs, closed_terms, log_cost

AT_WALL = 1e-6  # in logarithms


@dataclass(frozen=True, eq=False, kw_only=True)
class Allocation(Answer):
    """How to spend a budget.

    Attributes:
        N, D: size and tokens, in the units of the fitted runs (of the law for (law, params)).
        loss: predicted there.
        compute: FLOPs of the run.
        r: the share of the mixture, where it was searched or given; None without one.
        method: ``closed form`` or ``numerical``.
    """

    N: float
    D: float
    loss: float
    compute: float
    r: float | None = None
    method: str = "numerical"


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocationLaw(Answer):
    """N_opt = N_coefficient·C^a and D_opt = D_coefficient·C^b for C in FLOPs.

    Attributes:
        a, b: exponents, which add up to 1.
        G: as in the papers, in the law's own units: N_opt = G·(C/6)^a, D_opt = (C/6)^b / G.
        N_coefficient, D_coefficient: with N and D in the units of the fitted runs.
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
    limits: Mapping[str, tuple[float | None, float | None]] | None = None,
    cost: Cost | None = None,
    corpus_tokens: float | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float | Literal["best"],
) -> Allocation:
    """Size and tokens that a compute budget is best spent on.

    In closed form for chinchilla, cpt-chinchilla, dcpt, dcpt-l1 and dcpt-l4 (at a given share);
    numerically for any other law with the inputs N and D, and wherever a limit, a cost or a
    free share is given: a grid, then the root of the derivative.

    Args:
        fit: a Fit, (law, params), or a bootstrap (the interval comes from its replicates).
        compute: the budget in FLOPs.
        limits: input → (least, largest), in the units of the fitted runs; None leaves a side
            open. For ``N``, ``D``, and ``r`` where it is searched.
        cost: ``f(N, D)``, the FLOPs of a run of N single parameters and D single tokens:
            pure JAX, rising in both. Left out: 6·N·D.
        corpus_tokens: tokens there are of the corpus whose share r is: r·D stays below.
        level: of the intervals.
        **inputs: the law's other inputs. ``r="best"`` searches the share with N and D.

    Raises:
        UsageError: the law lacks N or D, an input is missing, or no run within the limits
            fits the budget.
        DataError: the law has no optimum: its loss falls all the way to the largest or the
            smallest model (cpt-chinchilla needs β > γ and α > γ).
    """
    (source,) = sources(fit)
    spent = in_domain("compute", compute)
    plan = _planned(source, np.array([spent]), limits, cost, corpus_tokens, inputs)
    if math.isnan(plan.values["N"][0, 0]):
        raise DataError(f"law {source.law.name} has no best size for {spent:.3g} FLOPs: {plan.why}")
    values = {name: column[:, 0] for name, column in plan.values.items()}
    answer = measured(values, level)
    if np.ptp(values["compute"][~np.isnan(values["compute"])]) <= AT_WALL * spent:
        answer["interval"].pop("compute", None)  # all of it, always
    at = {name: answer[name] for name in ("N", "D", "r") if name in answer}
    if (share := given_share(inputs)) is not None:
        at["r"] = answer["r"] = share
    notes = [*on_source(source, **at), *on_replicates(values["N"], "optimum")]
    return Allocation(
        **answer, method=plan.method, binding=plan.binding(0), notes=tuple(notes)
    )  # fmt: skip


@checked
def frontier(
    fit: Any,
    computes: Sequence[float],
    *,
    limits: Mapping[str, tuple[float | None, float | None]] | None = None,
    cost: Cost | None = None,
    corpus_tokens: float | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float | Literal["best"],
) -> Frontier:
    """The best run of each of many budgets; arguments and errors as :func:`allocation`."""
    (source,) = sources(fit)
    budgets = np.array([in_domain("compute", one) for one in np.atleast_1d(computes)])
    if not budgets.size:
        raise UsageError("computes is empty; give one budget or more")
    plan = _planned(source, budgets, limits, cost, corpus_tokens, inputs)
    values = dict(plan.values)
    if np.isnan(values["N"][0]).all():
        raise DataError(f"law {source.law.name} has no best size at these budgets: {plan.why}")
    ratio = source.single("D") / source.single("N")
    values["tokens_per_parameter"] = values["D"] / values["N"] * ratio
    del values["compute"]
    table = {"compute": budgets} | {name: column[0] for name, column in values.items()}
    for name, column in values.items():
        table |= with_ends(name, column, level)
    notes = [*_beyond(source, values), *on_source(source)]
    notes += on_replicates(values["N"].min(axis=1), "optimum at some budget")
    return Frontier(pd.DataFrame(table), level, tuple(notes))


@checked
def allocation_law(fit: Any, *, level: ConfidenceLevel = LEVEL, **inputs: float) -> AllocationLaw:
    """How the best size and data grow with compute, counted as 6·N·D.

    Args:
        fit: as for :func:`allocation`, of a law with a closed form.
        level: of the intervals.
        **inputs: the share r, for the D-CPT laws.

    Raises:
        UsageError: the law has no closed form.
        DataError: the law has no optimum (see :func:`allocation`).
    """
    (source,) = sources(fit)
    need(source, "N", "D")
    terms = closed_terms(source.law, source.params, held(source, inputs, ("N", "D")))
    if terms is None:
        raise UsageError(
            f"law {source.law.name} has no closed form; use allocation or frontier, which solve it"
        )
    G, a, b = _closed_form(terms)
    if np.isnan(G[0]):
        raise DataError(f"law {source.law.name} has no best size: {_CONDITION}")
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    flops = 6 * unit["N"] * unit["D"]
    values = {"a": a, "b": b, "G": G}
    values["N_coefficient"] = G * flops**-a / source.units["N"]
    values["D_coefficient"] = flops**-b / G / source.units["D"]
    notes = [*on_source(source), *on_replicates(G, "optimum")]
    return AllocationLaw(**measured(values, level), binding="compute", notes=tuple(notes))


_CONDITION = (
    "with E + A/N^α + B/(D^β·N^γ) and 6·N·D FLOPs there is one, growing with compute as the "
    "data does, only for β > γ, α > γ and B > 0"
)
_ON_THE_WALL = (
    "its loss falls all the way to the {end} model that is searched; limits={{'N': (least, "
    "largest)}} puts an end to it"
)


class _Plan:
    """Values (P, K) by name in the user's units, and how they were found."""

    def __init__(
        self, values: dict[str, np.ndarray], method: str, why: str, limits: Any, user: Any,
        budgets: np.ndarray, corpus: float | None,
    ) -> None:  # fmt: skip
        self.values, self.method, self.why = values, method, why
        self.limits, self.user, self.budgets, self.corpus = limits, user, budgets, corpus

    def binding(self, k: int) -> str:
        """What stops the loss from falling further at budget k."""
        at = {name: float(column[0, k]) for name, column in self.values.items()}
        bound = ["compute"] if at["compute"] >= self.budgets[k] * (1 - AT_WALL) else []
        for name, (low, high) in self.user.items():
            if low is not None and at[name] <= low * (1 + AT_WALL):
                bound.append(f"{name} ≥ {low:g}")
            if high is not None and at[name] >= high * (1 - AT_WALL):
                bound.append(f"{name} ≤ {high:g}")
        if "r" in at and at["r"] >= 1 - AT_WALL:
            bound.append("r ≤ 1")
        if self.corpus is not None and at["r"] * at["D"] >= self.corpus * (1 - AT_WALL):
            bound.append(f"r·D ≤ {self.corpus:g}")
        return ", ".join(dict.fromkeys(bound))


def _planned(
    source: Source, budgets: np.ndarray, limits: Any, cost: Cost | None, corpus: float | None,
    inputs: Mapping[str, Any],
) -> _Plan:  # fmt: skip
    need(source, "N", "D")
    free, given = searched(source, inputs, corpus)
    share = "r" in free
    user = checked_limits(limits, free)
    box = log_limits(source, user, corpus)
    _affordable(cost, box, budgets)
    terms = None if cost or user or share else closed_terms(source.law, source.params, given)
    if terms is not None:
        values, why = _by_formula(source, terms, budgets, given), _CONDITION
        return _Plan(values, "closed form", why, box, user, budgets, corpus)
    values, why = _by_search(source, budgets, cost, box, share, given)
    return _Plan(values, "numerical", why, box, user, budgets, corpus)


def _closed_form(terms: PowerLawTerms) -> tuple[np.ndarray, ...]:
    """G, a, b, each (P,); NaN where the law has no optimum that grows with compute."""
    A, B, alpha, beta, gamma = terms
    whole = alpha + beta - gamma
    exists = (beta > gamma) & (alpha > gamma) & (B > 0)
    with np.errstate(all="ignore"):
        G = (alpha * A / ((beta - gamma) * B)) ** (1 / whole)
    exists &= (G > 0) & np.isfinite(G)
    a, b = beta / whole, (alpha - gamma) / whole
    return tuple(np.where(exists, value, np.nan) for value in (G, a, b))


def _by_formula(
    source: Source, terms: PowerLawTerms, budgets: np.ndarray, given: Mapping[str, float]
) -> dict[str, np.ndarray]:
    G, a, b = (column[:, None] for column in _closed_form(terms))
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    own = budgets / (6 * unit["N"] * unit["D"])
    with np.errstate(all="ignore"):  # replicates of what no run determines
        N, D = G * own**a, own**b / G
    none = ~np.isfinite(N * D) | (N * D <= 0)
    N, D = np.where(none, np.nan, N), np.where(none, np.nan, D)
    with in_float64():
        columns = {name: column[:, None] for name, column in source.params.items()}
        loss = np.asarray(source.law.at_once(columns, N=N, D=D, **given))
    found = {"N": N / source.units["N"], "D": D / source.units["D"], "loss": loss}
    return found | {"compute": np.where(np.isnan(N), np.nan, budgets)}


def _by_search(
    source: Source, budgets: np.ndarray, cost: Cost | None, box: Limits, share: bool,
    given: Mapping[str, float],
) -> tuple[dict[str, np.ndarray], str]:  # fmt: skip
    with in_float64():
        found = best_runs(source.law, cost, share, source.params, np.log(budgets), box, given)
        log_N, log_D, *rest = map(np.asarray, found)
        log_C = np.asarray(log_cost(cost, log_N, log_D))
    walls = [np.log(WALLS[name]) for name in ("N", "D")]
    smallest = (log_N <= walls[0][0] + AT_WALL) | (log_D >= walls[1][1] - AT_WALL)
    largest = (log_N >= walls[0][1] - AT_WALL) | (log_D <= walls[1][0] + AT_WALL)
    end = "smallest" if smallest[0].any() else "largest"
    values = {"N": np.exp(log_N) / source.single("N"), "D": np.exp(log_D) / source.single("D")}
    if share:
        values["r"] = rest[0]
    values |= {"loss": rest[-1], "compute": np.exp(log_C)}
    none = smallest | largest | ~np.isfinite(rest[-1])
    values = {name: np.where(none, np.nan, column) for name, column in values.items()}
    return values, _ON_THE_WALL.format(end=end)


def searched(
    source: Source, inputs: Mapping[str, Any], corpus: float | None
) -> tuple[tuple[str, ...], dict[str, float]]:
    """What is searched, N and D and the share where it is ``"best"``; and what is held."""
    share = inputs.get("r") == "best"
    free = ("N", "D", "r") if share else ("N", "D")
    if share:
        need(source, "r")
    if corpus is not None and not share:
        raise UsageError("corpus_tokens limits r·D; let r be searched: r='best'")
    return free, held(source, {k: v for k, v in inputs.items() if k != "r" or not share}, free)


def given_share(inputs: Mapping[str, Any]) -> float | None:
    """The share that was given, if it was."""
    share = inputs.get("r")
    return None if share is None or share == "best" else float(share)


def checked_limits(limits: Any, allowed: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """The user's limits, with None for an open side."""
    checked = {}
    for name, ends in (limits or {}).items():
        if name not in allowed:
            raise UsageError(
                f"limits on {name} make no sense here; on {', '.join(allowed)} they do."
                f"{nearest(str(name), allowed)}"
            )
        try:
            low, high = ends
        except (TypeError, ValueError):
            raise UsageError(f"limits of {name} are (least, largest), not {ends!r}") from None
        domain = "fraction" if name == "r" else "positive"
        low, high = (None if end is None else in_domain(name, end, domain) for end in (low, high))
        if low is not None and high is not None and low > high:
            raise UsageError(
                f"limits of {name}: the least, {low:g}, is above the largest, {high:g}"
            )
        checked[name] = (low, high)
    return checked


def log_limits(source: Source, user: Mapping[str, Any], corpus: float | None = None) -> Limits:
    """Limits as the programs take them; the walls where the user set none."""
    found = {}
    for name in ("N", "D"):
        ends = zip(user.get(name, (None, None)), WALLS[name], strict=True)
        found[name] = tuple(
            math.log(wall if end is None else end * source.single(name)) for end, wall in ends
        )
    shares = zip(user.get("r", (None, None)), WALLS["r"], strict=True)
    found["r"] = tuple(wall if end is None else end for end, wall in shares)
    log_corpus = math.inf
    if corpus is not None:
        log_corpus = math.log(in_domain("corpus_tokens", corpus) * source.single("D"))
    return Limits(**found, corpus=log_corpus)


def _affordable(cost: Cost | None, box: Limits, budgets: np.ndarray) -> None:
    with in_float64():
        least = float(np.exp(log_cost(cost, np.array(box.N[0]), np.array(box.D[0]))))
    if not budgets.min() > least:
        raise UsageError(
            f"a budget of {budgets.min():.3g} FLOPs does not pay for the least size and data "
            f"allowed, {least:.3g} FLOPs"
        )


def _beyond(source: Source, values: Mapping[str, np.ndarray]) -> list[Note]:
    """How many of a frontier's runs lie outside the fitted ranges."""
    at = {name: values[name][0] for name in ("N", "D")}
    flags = beyond(source.ranges, source.joint, at)
    outside = np.logical_or.reduce([*flags.values()])
    if not outside.any():
        return []
    *most, last = [name for name, one in flags.items() if name in at or one.any()]
    ranges = f"{', '.join(most)} or {last}"
    message = f"{outside.sum()} of {outside.size} runs lie outside the fitted range of {ranges}"
    return [Note("extrapolation", "warning", message)]
