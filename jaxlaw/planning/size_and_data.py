"""Size and data: what a compute budget, or a loss, is best spent on.

Hoffmann 2022, §3.3; Zheng 2024, §3, §4.2 and §5.1; Que 2024, usage 3 and App. G.3. Questions of N
and D, and of a share, that :mod:`jaxlaw.planning._optimise` answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._answer import Answer, Tables
from jaxlaw._arrays import numbers_of
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import Amount, checked_number, exponential, in_unit
from jaxlaw._typed import ConfidenceLevel, as_array, checked
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting import Array, outside_range
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Budget, Compute, Corpus, Cost
from jaxlaw.planning._frame import (
    MISSING,
    Inputs,
    checked_input,
    checked_tokens,
    fewest_degrees,
    inputs_as_numbers,
    law_inputs,
    missing_draws_notes,
    off_centre_notes,
    over_budgets,
    plan_answer,
    require_inputs,
    source_notes,
)
from jaxlaw.planning._optimise import (
    AT_LIMIT,
    AT_LIMIT_32,
    CONDITION,
    FLOPS_EACH,
    SEARCH_LIMITS,
    Best,
    Question,
    best_size,
    bound_notes,
    closed_form,
    crossing,
    epochs_notes,
    flops,
    log_size,
    log_tokens,
    loss_at,
    losses_at,
    question_of,
    total_cost,
    tried_ratios,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns

UserLimits = Mapping[str, tuple[float | str | None, float | str | None]]
_MOST = 1e42  # FLOPs at which a loss is said to end that is out of reach


# The question, and its best runs.


def size_and_data(
    fit: Any,
    compute: Amount = _MOST,
    *,
    loss: float | None = None,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Amount | None = None,
    at: Inputs = None,
) -> Question:
    """The question of the best N and D, and of r where ``at`` has it ``best``.

    Of a budget, or, with a ``loss``, of the least compute to it.
    """
    (source,) = as_draws(fit)
    given, limits = dict(at or {}), limits or {}
    share = isinstance(given.get("r"), str) and given.pop("r") == "best"
    free = ("N", "D", "r") if share else ("N", "D")
    require_inputs(source, *free)
    for name in limits:
        if name not in free:
            raise UsageError(
                f"there are no limits on {name} here; limit {' or '.join(free)}."
                f"{nearest(str(name), free)}"
            )
    if corpus_tokens is not None:
        if not share:
            raise UsageError("corpus_tokens limits r·D; let r be searched: at={'r': 'best'}")
        corpus_tokens = checked_tokens(source, "corpus_tokens", corpus_tokens)
    if max_epochs is not None and "U" not in source.law.input_names:
        raise UsageError(
            f"law {source.law.name} has no unique tokens U, which max_epochs is for; "
            "limits={'D': (None, most)} limits its tokens"
        )
    goal: Any = source
    subject_to: list[Any] = [Budget(compute, cost, served_tokens)]
    if loss is not None:
        goal, subject_to = Compute(cost, served_tokens), [AtMost(source, loss)]
    if corpus_tokens is not None or max_epochs is not None:
        subject_to.append(Corpus(corpus_tokens, max_epochs or 1.0))
    over = {name: limits.get(name) for name in free}
    return question_of(goal, over, subject_to, given, "limits")


class _Runs(NamedTuple):
    """The best runs of budgets: values (draws, K) by name, in the user's units, and notes."""

    values: dict[str, np.ndarray]
    best: Best
    notes: list[Note]


def _best_runs(question: Question, budgets: np.ndarray) -> _Runs:
    """Of (K,) budgets; a DataError where the fit has none of any."""
    given, source = question.given, question.reference
    least = float(flops(given.cost, given.low["N"], given.low["D"]))
    if not budgets.min() > least:
        raise UsageError(
            f"a budget of {budgets.min():.3g} FLOPs does not pay for the least size and data "
            f"allowed, {least:.3g} FLOPs"
        )
    found = question.best(budgets)
    best, notes = _held_at_tried(question, budgets, found)
    values = question.values(best)
    if np.isnan(values["N"][0]).all():
        ended = found.ended[0].any() or question.has_closed_form
        raise DataError(question.without_end(found) if ended else question.not_allowed())
    notes += epochs_notes(source, given.others[0], values["D"][0], question.epochs)
    # A limit of the user's own, or of a ratio that was run, is no side to which a law may fall.
    open_sides = not (question.limits or question.epochs or found.ended[0].any())
    if open_sides and source.law.power_law_terms is None and best.falls_on[0].any():
        notes.append(_FALLS_ON)
    return _Runs(values, best, notes)


_FALLS_ON = Note(
    "falls-on",
    "info",
    "far from its runs this law has lower losses still, such as of huge models on hardly any "
    "tokens: that is its form, and the plan is the valley next to the runs",
)


def _held_at_tried(question: Question, budgets: np.ndarray, best: Best) -> tuple[Best, list[Note]]:
    """Runs of the last D/N that was run, where a law falls on beyond it; notes of them.

    Not where no D/N is known, or the user's limits or a share are searched: they have ends of
    their own.
    """
    source, given = question.reference, question.given
    low, high = tried_ratios(source)
    apart = math.isnan(low) or question.limits or len(question.order) > 2
    if apart or question.has_closed_form or not best.ended.any():
        return best, []
    (least, _), (_, most) = SEARCH_LIMITS["N"], SEARCH_LIMITS["D"]
    smallest = (best.raw["N"] < 2 * least) | (best.raw["D"] > most / 2)
    log_C, ratio = np.log(budgets), np.where(smallest, high, low)
    log_N = (log_C - math.log(FLOPS_EACH) - ratio) / 2
    log_N = np.clip(log_N, given.low["N"], given.high["N"])
    with in_float64():
        paid = np.asarray(jnp.vectorize(partial(log_tokens, given.cost))(log_N, log_C))
        log_D = np.clip(paid, given.low["D"], min(given.high["D"], given.log_corpus))
    loss = losses_at(source, log_N, log_D, given.others[0])
    ended = best.ended
    raw = {"N": np.exp(log_N), "D": np.exp(log_D)}
    raw = {name: np.where(ended, raw[name], value) for name, value in best.raw.items()}
    point = np.where(ended, question.coordinate(log_N, log_C), best.point[..., 0])
    held = best._replace(
        raw=raw, losses=np.where(ended, loss, best.losses[..., 0])[..., None],
        ended=ended & False, kept=np.where(ended, np.isfinite(loss), best.kept),
        point=point[..., None],
    )  # fmt: skip
    notes, draws = [], ended[1:].any(axis=1)
    if ended[0].any():
        size, edge, word = (
            ("smallest", high, "an upper") if smallest[0].any() else ("largest", low, "a lower")
        )
        message = (
            f"the loss falls all the way to the {size} model that is searched: the plan is held at "
            f"{math.exp(edge):.3g} tokens a parameter, the last ratio that was run, {word} bound "
            "of the best size"
        )
        notes.append(Note("optimum-at-tried", "warning", message))
    if draws.any():
        message = (
            f"{draws.mean():.1%} of {draws.size} draws fall on to the end of the search: "
            "they are held at the last ratio that was run"
        )
        severity = "warning" if draws.mean() > MISSING else "info"
        notes.append(Note("draws-at-tried", severity, message))
    return held, notes


def _allocation(
    kind: str, source: Draws, values: Mapping[str, np.ndarray], at: Inputs, given: Sequence[str],
    what: str, level: float, notes: Sequence[Note], **more: Any,
) -> Answer:  # fmt: skip
    """An answer of values (1 + R,) of a run, with the notes that all plans of N and D have."""
    held = inputs_as_numbers(source, at or {})
    values = dict(values)
    if "r" in held and "r" not in values:
        values["r"] = np.array([held["r"]])
    run = held | {name: float(values[name][0]) for name in ("N", "D", "r") if name in values}
    notes = [*notes, *source_notes(source, **run), *missing_draws_notes(values["compute"], what)]
    rises = "loss" if np.ptp(values["loss"]) else "compute"  # the other one is given
    notes += off_centre_notes(source, values[rises], rises)
    share = ", {r} of the corpus" if "r" in values else ""
    ratio = run["D"] * source.scale("D") / (run["N"] * source.scale("N"))
    spent = f"{{N}} and {{D}}, {exponential(ratio)} tokens/parameter{share}"
    reached = "loss" in more["facts"]["binding"].split()
    sentence = (
        f"loss {{loss}}: {{compute}}, by {spent}"
        if reached
        else (f"{{compute}}: {spent}, loss {{loss}}")
    )
    return plan_answer(
        kind, sentence, source, values, level=level, at={**(at or {}), **run},
        given=[*given, "r"] if "r" in held else given, notes=notes, **more,
    )  # fmt: skip


def _valley(question: Question, values: Mapping[str, np.ndarray], level: float) -> Tables:
    """Points of a budget's valley: its loss over a decade of sizes around the plan's.

    Args:
        question: the question, of the budget or of the loss.
        values: quantity → (1 + R,) of the plan.
        level: confidence level of the bounds.

    Returns:
        ``valley``: N and D in the units of the runs, ``loss``, ``loss_low``, ``loss_high``.
    """
    given, source = question.given, question.reference
    size, compute = values["N"][0] * source.scale("N"), values["compute"][0]
    if not math.isfinite(size * compute):
        return {}
    ends = math.log(size) - math.log(10), math.log(size) + math.log(10)
    log_N = np.linspace(max(ends[0], given.low["N"]), min(ends[1], given.high["N"]), 81)
    with in_float64():
        log_D = np.asarray(
            jax.vmap(partial(log_tokens, given.cost))(log_N, log_N * 0 + np.log(compute))
        )
    others = dict(given.others[0]) | ({"r": float(values["r"][0])} if "r" in values else {})
    losses = losses_at(source, *(np.tile(x, (source.rows, 1)) for x in (log_N, log_D)), others)
    valley = {"N": np.exp(log_N) / source.scale("N"), "D": np.exp(log_D) / source.scale("D")}
    valley |= interval_columns("loss", losses, level, source.degrees)
    return {"valley": pd.DataFrame(valley)}


# The plans.


@checked
def allocation(
    fit: Any,
    compute: Amount,
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Amount | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
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

    Returns:
        Answer with ``N``, ``D``, ``loss``, ``compute`` in FLOPs, ``r`` of a mixture, and the facts
        ``method`` (``closed form`` or ``numerical``) and ``binding`` (the active constraint).

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
    asked = dict(
        limits=limits, cost=cost, served_tokens=served_tokens, max_epochs=max_epochs,
        corpus_tokens=corpus_tokens, at=at,
    )  # fmt: skip
    question = size_and_data(fit, compute, **asked)
    source, runs = question.reference, _best_runs(question, np.exp([question.given.log_C]))
    values = {name: column[:, 0] for name, column in runs.values.items()}
    best = {name: float(column[0]) for name, column in values.items()}
    spent = values["compute"][~np.isnan(values["compute"])]
    given = ["compute"] if np.ptp(spent) <= AT_LIMIT * spent[0] else []
    flat = question.near(source.noise, runs.best.point[0, 0]) if source.noise > 0 else {}
    facts = {
        "method": "closed form" if question.has_closed_form else "numerical",
        "binding": question.binding(best, {}, best["compute"]),
    }
    return _allocation(
        "allocation", source, values, at, given, "optimum", level,
        [*runs.notes, *bound_notes(source, question.limits, best)], facts=facts, flat=flat,
        curves=lambda: _valley(question, values, level),
    )  # fmt: skip


@checked
def frontier(
    fit: Any,
    computes: Sequence[Amount],
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Amount | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
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

    Returns:
        Answer whose ``table`` has a row a budget: ``compute`` in FLOPs, ``N``, ``D``, ``r`` where
        it was searched, ``loss``, ``tokens_per_parameter``.

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> best = jl.planning.frontier(fit, [1e20, 1e22]).table
        >>> best["tokens_per_parameter"].round(1).tolist()
        [40.1, 62.6]

    Shell:
        jaxlaw plan frontier fit.json --computes 1e19:1e23
    """
    budgets = budgets_of(computes, "computes")
    question = size_and_data(
        fit, budgets[0], limits=limits, cost=cost, served_tokens=served_tokens,
        max_epochs=max_epochs, corpus_tokens=corpus_tokens, at=at,
    )  # fmt: skip
    source, runs = question.reference, _best_runs(question, budgets)
    values = {name: column for name, column in runs.values.items() if name != "compute"}
    values["tokens_per_parameter"] = (
        values["D"] / values["N"] * (source.scale("D") / source.scale("N"))
    )
    table = {"compute": budgets} | {name: column[0] for name, column in values.items()}
    for name, column in values.items():
        table |= interval_columns(name, column, level, source.degrees)
    notes = [*runs_beyond(source, values, at), *source_notes(source), *runs.notes]
    notes += missing_draws_notes(values["N"].min(axis=1), "optimum at some budget")
    largest = np.argmax(budgets)
    notes += off_centre_notes(source, values["loss"][:, largest])
    run = {name: table[name][largest] for name in question.order}
    table = pd.DataFrame(table)
    return plan_answer(
        "frontier", over_budgets(table, "{compute}: {N} and {D}, loss {loss}", source), source,
        level=level, at={**(at or {}), **run}, tables={"table": table}, notes=notes,
    )  # fmt: skip


@checked
def allocation_law(
    fit: Any, *, at: Mapping[str, float | str] | None = None, level: ConfidenceLevel = LEVEL
) -> Answer:
    """How the best size and data grow with compute, counted as 6·N·D.

    Args:
        fit: fit as for :func:`allocation`, of a law with a closed form.
        at: share r, for the D-CPT laws.
        level: confidence level of the intervals.

    Returns:
        Answer with the exponents ``a`` and ``b`` = 1 − a, the papers' coefficient ``G`` in the
        law's own units, N_opt = G·(C/6)^a and D_opt = (C/6)^b/G, and ``N_coefficient`` and
        ``D_coefficient`` of N_opt = N_coefficient·C^a, in the units of the runs, C in FLOPs.

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
    form = closed_form(source.law, source.values, law_inputs(source, at, ("N", "D")))
    if form is None:
        raise UsageError(
            f"law {source.law.name} has no closed form; use allocation or frontier, which solve it"
        )
    G, a, b = form
    if np.isnan(G[0]):
        raise DataError(f"law {source.law.name} has no best size: {CONDITION}")
    unit = {spec.name: spec.unit for spec in source.law.inputs}
    flops_of_units = FLOPS_EACH * unit["N"] * unit["D"]
    values = {"a": a, "b": b, "G": G}
    values["N_coefficient"] = G * flops_of_units**-a / source.units["N"]
    values["D_coefficient"] = flops_of_units**-b / G / source.units["D"]
    notes = [*source_notes(source), *missing_draws_notes(G, "optimum")]
    if source.fit.flops is not None:
        message = "the powers are of 6·N·D; allocation and frontier count the FLOPs of the runs"
        notes.append(Note("flops-differ", "warning", message))
    budgets = np.geomspace(1e18, 1e25, 50)
    sizes = values["N_coefficient"][:, None] * budgets ** values["a"][:, None]
    sizes = {"compute": budgets, **interval_columns("N", sizes, level, source.degrees)}
    return plan_answer(
        "allocation law",
        "the best size grows as compute to the power of {a}, the tokens as that of {b}",
        source, values, level=level, notes=notes, units={"D_coefficient": "", "N_coefficient": ""},
        curves={"sizes": pd.DataFrame(sizes)},
    )  # fmt: skip


@checked
def min_compute(
    fit: Any,
    loss: float,
    *,
    limits: UserLimits | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Amount | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
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
        Answer as of :func:`allocation`. Where the law never comes down to the loss, ``compute`` is
        infinite, N and D are NaN, and the note ``out-of-reach`` says how low it comes.

    Raises:
        UsageError: as :func:`allocation`.

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> print(f"{jl.planning.min_compute(fit, loss=2.2).compute:.3g} FLOPs")
        4.34e+21 FLOPs

    Shell:
        jaxlaw plan min-compute fit.json --loss 2.1
    """
    target = checked_number("loss", loss)
    asked = dict(
        limits=limits, cost=cost, served_tokens=served_tokens, max_epochs=max_epochs,
        corpus_tokens=corpus_tokens, at=at,
    )  # fmt: skip
    question = size_and_data(fit, loss=target, **asked)
    source, best = question.reference, question.best()
    values = question.values(best._replace(ended=best.ended & False))
    values = {name: values[name][:, 0] for name in (*question.order, "compute")}
    never = ~best.kept[:, 0] & ~np.isnan(best.losses[:, 0, 0])
    values["compute"] = np.where(never, np.inf, values["compute"])
    values["loss"] = np.full(len(never), target)
    found, notes, flat = {name: float(x[0]) for name, x in values.items()}, [], {}
    if never[0]:
        # With a share of few tokens of a corpus more compute is not always better.
        ends = size_and_data(source.without(), **asked).best(np.geomspace(1e12, _MOST, 31))
        lowest = ends.losses[ends.kept].min(initial=math.inf)
        notes = _reach_notes(values["compute"], target, f"{lowest:.5g} up to {_MOST:.0e} FLOPs")
    else:
        notes = _reach_notes(values["compute"], target, "")
        notes += epochs_notes(source, question.given.others[0], found["D"], question.epochs)
        own_limits = question.limits or question.epochs or best.ended[0, 0]
        if not own_limits and source.law.power_law_terms is None and best.falls_on[0, 0]:
            notes.append(_FALLS_ON)
        if source.noise > 0 and found["compute"] == found["compute"]:
            spent = size_and_data(source, found["compute"], **asked)
            flat = spent.near(source.noise, spent.point_of(found))
    if best.ended[0, 0] and not never[0]:
        message = (
            "the least compute is that of the last size or tokens that are searched, for the loss "
            "falls on beyond: limits={'N': (least, largest)} puts an end to it"
        )
        notes.append(Note("optimum-at-limit", "warning", message))
    notes += bound_notes(source, question.limits, found)
    return _allocation(
        "least compute", source, values, at, _constant(values), "answer", level, notes,
        facts={"binding": "loss"}, flat=flat, curves=lambda: _valley(question, values, level),
    )  # fmt: skip


@checked
def tokens_or_size_for(
    fit: Any,
    *,
    N: Amount | None = None,
    D: Amount | None = None,
    loss: float | None = None,
    compute: Amount | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
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
        Answer as of :func:`allocation`. A loss that no number of tokens (no size) reaches makes it
        infinite, with the note ``out-of-reach``.

    Raises:
        UsageError: not one of N and D, or not one of loss and compute.

    Example:
        >>> fit = ("chinchilla", jl.simulate.TRUTHS["chinchilla"])
        >>> print(f"{jl.planning.tokens_or_size_for(fit, N=7e9, loss=2.2).D:.3g} tokens")
        1.16e+11 tokens

    Shell:
        jaxlaw plan tokens-or-size-for fit.json --loss 2.1 --N 7e9
    """
    (source,) = as_draws(fit)
    require_inputs(source, "N", "D")
    if (N is None) == (D is None) or (loss is None) == (compute is None):
        raise UsageError("give one of N and D, and one of loss and compute")
    known, name = ("N", "D") if D is None else ("D", "N")
    size = checked_input(source, known, N if D is None else D)
    others, cost = law_inputs(source, at, ("N", "D")), total_cost(cost, source, served_tokens)
    log_known, each = math.log(size * source.scale(known)), np.ones(source.rows)
    if loss is None:
        by, budget = "compute", checked_number("compute", in_unit(compute, 1.0, "FLOPs"))
        with in_float64():
            paid = (log_tokens if name == "D" else log_size)(cost, log_known, math.log(budget))
        log_x = each * float(paid)
    else:
        by, target = "loss", checked_number("loss", loss)
        held = {**others, known: size * source.units[known]}
        limits = map(math.log, SEARCH_LIMITS[name])
        log_x, _, _, lowest = crossing(source, name, True, target, *limits, held)
    log_N, log_D = (log_known, log_x) if name == "D" else (log_x, log_known)
    reached = losses_at(source, log_N, log_D, others)
    values = {
        name: np.exp(log_x) / source.scale(name), known: each * size,
        "loss": each * target if by == "loss" else reached,
        "compute": flops(cost, log_N, log_D),
    }  # fmt: skip
    values = {key: values[key] for key in ("N", "D", "loss", "compute")}
    notes = epochs_notes(source, others, values["D"][0], None)
    if by == "loss":
        ends = f"{lowest[0]:.5g} however large {name} is"
        notes += _reach_notes(values[name], target, ends)
    return _allocation(
        "tokens or size",
        source,
        values,
        at,
        _constant(values),
        "answer",
        level,
        notes,
        facts={"binding": f"{known} and {by}"},
    )


@checked
def tokens_per_parameter(
    fit: Any,
    loss: float,
    *,
    served_tokens: Amount | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The tokens per parameter at which a loss is reached with the least compute.

    Hoffmann 2022 finds about 20 at every budget, for its two exponents are nearly equal; where they
    differ, the ratio moves with the loss.

    Args:
        fit: fit of the loss over N and D, draws, a bootstrap, a covariance, a forecast, or
            (law, params).
        loss: loss to be reached, in nats.
        served_tokens: number of tokens that the model will serve, whose compute counts too.
        at: values of the law's other inputs; ``{"r": "best"}`` searches the share.
        level: confidence level of the intervals.

    Returns:
        Answer with ``ratio``, single tokens per single parameter (NaN where the loss is out of
        reach), and the quantities and notes of :func:`min_compute`.

    Raises:
        UsageError: as :func:`min_compute`.

    Example:
        >>> plan = jl.planning.tokens_per_parameter(jl.published()["besiroglu-2024"], loss=2.1)
        >>> f"{plan.ratio:.1f} tokens per parameter"
        '19.6 tokens per parameter'

    Shell:
        jaxlaw plan tokens-per-parameter fit.json --loss 2.1
    """
    best = min_compute(fit, loss, served_tokens=served_tokens, at=at, level=level)
    (source,) = as_draws(fit)
    values = {
        name: np.append(one.value, () if one.draws is None else one.draws)
        for name, one in best.quantities.items()
    }
    ratio = values["D"] * source.scale("D") / (values["N"] * source.scale("N"))
    sentence = "loss {loss}: {ratio} tokens a parameter, {N} and {D} for {compute}"

    def curves() -> Tables:
        """The compute at which the loss is reached, over the ratio of tokens and parameters."""
        if not math.isfinite(ratio[0]):
            return {}
        (alone,), cost = as_draws(source.without()), total_cost(None, source, served_tokens)
        others = law_inputs(
            alone, {**(at or {}), **({"r": best.r} if "r" in values else {})}, ("N", "D")
        )
        ratios = ratio[0] * np.geomspace(0.1, 10, 81)
        log_sizes, log_N = np.linspace(*map(math.log, SEARCH_LIMITS["N"]), 2001), []
        for log_ratio in np.log(ratios):
            losses = losses_at(alone, log_sizes[None], log_sizes[None] + log_ratio, others)[0]
            k = int((losses <= loss).argmax())  # 0 where none is
            pair = slice(k - 1, k + 1)
            log_N.append(np.interp(-loss, -losses[pair], log_sizes[pair]) if k else np.nan)
        log_N = np.array(log_N)
        spent = flops(cost, log_N, log_N + np.log(ratios))
        return {"ratios": pd.DataFrame({"ratio": ratios, "compute": spent})}

    return plan_answer(
        "tokens per parameter", sentence, source, {"ratio": ratio, **values}, level=level,
        at=best.point, given=["loss", *_constant(values)], notes=best.notes, facts=best.facts,
        degrees=fewest_degrees([source]), curves=curves,
    )  # fmt: skip


def _constant(values: Mapping[str, np.ndarray]) -> list[str]:
    """Quantities that were given, not found: the same in every draw."""
    return [name for name, column in values.items() if (column == column[0]).all()]


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


# In a user's own program.


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
def best_run(
    law: str | Law, params: Mapping[str, Any], compute: Any, *, at: Mapping[str, Any] | None = None
) -> BestRun:
    """Size and tokens of the lowest loss on a budget of 6·N·D FLOPs, as a JAX function.

    Of the numbers of :func:`jaxlaw.planning.allocation`, without its checks, notes and units.
    Works inside ``jit`` and ``vmap``; differentiable in parameters, compute and inputs by the
    implicit function theorem, and with :func:`jaxlaw.fit_batch` in the data.

    Args:
        law: law or its name, with the inputs N and D; static.
        params: name → natural values in the law's own units.
        compute: FLOPs.
        at: values of the law's other inputs, in its own units. All arrays broadcast.

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
    law, inputs = laws.get(law), at or {}
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
    log_N, log_D, _ = best_size(law, *jax.lax.stop_gradient((params, log_C, others)))
    inside = True
    for log_x, name in ((log_N, "N"), (log_D, "D")):
        low, high = map(math.log, SEARCH_LIMITS[name])
        inside &= (log_x > low + AT_LIMIT_32) & (log_x < high - AT_LIMIT_32)

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
