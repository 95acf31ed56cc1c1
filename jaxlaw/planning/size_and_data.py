"""Size and data: what a compute budget, or a loss, is best spent on.

Hoffmann 2022, §3.3; Zheng 2024, §3, §4.2 and §5.1; Que 2024, usage 3 and App. G.3. Questions of N
and D, and of a mixture ratio, that :mod:`jaxlaw.planning._optimise` answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw import laws
from jaxlaw._answer import Answer, Tables
from jaxlaw._arrays import as_array
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import Amount, checked_number, grouped
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import Array
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Budget, Compute, Corpus, Cost, Inputs, Ranges
from jaxlaw.planning._frame import (
    checked_compute,
    draws_taking,
    inputs_as_numbers,
    law_inputs,
    missing_draws_notes,
    of_fit,
    over_rows,
    plan_answer,
    source_notes,
    table_of,
)
from jaxlaw.planning._optimise import (
    AT_LIMIT,
    AT_LIMIT_32,
    CONDITION,
    FLOPS_EACH,
    SEARCH_LIMITS,
    Point,
    Question,
    best_size,
    closed_form,
    epochs_notes,
    flops,
    log_tokens,
    loss_at,
    losses_at,
    question_of,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws

_MOST = 1e42  # FLOPs at which a loss is said to end that is out of reach


# The question, and its best runs.


def size_and_data(
    fit: Any,
    compute: Amount = _MOST,
    *,
    loss: float | None = None,
    limits: Ranges | None = None,
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
    for name in set(limits) - set(free):
        raise UsageError(f"there are no limits on {name} here; limit {' or '.join(free)}")
    goal, subject_to = source, [Budget(compute, cost, served_tokens)]
    if loss is not None:
        goal, subject_to = Compute(cost, served_tokens), [AtMost(source, loss)]
    if corpus_tokens is not None or max_epochs is not None:
        subject_to.append(Corpus(corpus_tokens, 1.0 if max_epochs is None else max_epochs))
    over = {name: limits.get(name) for name in free}
    return question_of(goal, over, subject_to, given, "limits")


def _best_runs(question: Question, budgets: np.ndarray) -> tuple[Point, dict[str, np.ndarray]]:
    """The best runs of (K,) budgets, and their values (draws, K) by name, in the user's units.

    Raises:
        DataError: the fit has no best run of any budget.
    """
    given = question.given
    least = float(flops(given.cost, given.ends["N"][0], given.ends["D"][0]))
    if not budgets.min() > least:
        raise UsageError(
            f"a budget of {budgets.min():.3g} FLOPs does not pay for the least size and data "
            f"allowed, {least:.3g} FLOPs"
        )
    best = question.best(budgets)
    values = question.values(best)
    source = question.reference
    if source.kind == "normal" and "loss" in values:
        # At an optimum the loss moves with the parameters alone, to first order: so it has the
        # interval of a prediction there. Losses at the optima of normal draws come out too high.
        run = {name: x[:1] for name, x in best.raw.items()}
        others = given.others[0] | {name: x for name, x in run.items() if name == "r"}
        losses = losses_at(source, np.log(run["N"]), np.log(run["D"]), others)
        values["loss"] = np.where(np.isnan(values["loss"]), np.nan, losses)
    if np.isnan(values["N"][0]).all():
        none = best.ended[0].any() or question.has_closed_form
        raise DataError(question.without_end() if none else question.not_allowed())
    return best, values


def _allocation(
    kind: str, source: Draws, values: Mapping[str, np.ndarray], at: Inputs, given: Sequence[str],
    what: str, level: float, notes: Sequence[Note], **more,
) -> Answer:  # fmt: skip
    """An answer of values (1 + R,) of a run, with the notes that all plans of N and D have."""
    held, values = inputs_as_numbers(source, at or {}), dict(values)
    if "r" in held and "r" not in values:
        values["r"], given = np.array([held["r"]]), [*given, "r"]
    run = held | {name: float(values[name][0]) for name in ("N", "D", "r") if name in values}
    notes = [*notes, *missing_draws_notes(values["compute"], what)]
    ratio = run["D"] * source.scale("D") / (run["N"] * source.scale("N"))
    spent = f"{{N}} and {{D}}, {grouped(ratio)} tokens/parameter"
    spent += ", {r} of the corpus" * ("r" in values)
    to_loss = "loss" in more["facts"]["binding"].split()
    return plan_answer(
        kind, f"loss {{loss}}: {{compute}}, by {spent}" if to_loss
        else f"{{compute}}: {spent}, loss {{loss}}",
        source, values, level=level, at={**(at or {}), **run}, given=given, notes=notes, **more,
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
    log_size_, log_C = math.log(values["N"][0] * source.scale("N")), np.log(values["compute"][0])
    if not math.isfinite(log_size_ + log_C):
        return {}
    decade = log_size_ + math.log(10) * np.array([-1, 1])
    log_N = np.linspace(*np.clip(decade, *given.ends["N"]), 81)
    with in_float64():
        log_D = np.asarray(jax.vmap(lambda x: log_tokens(given.cost, x, log_C))(log_N))
    others = given.others[0] | ({"r": float(values["r"][0])} if "r" in values else {})
    losses = losses_at(source, log_N[None], log_D[None], others)
    valley = {"N": np.exp(log_N) / source.scale("N"), "D": np.exp(log_D) / source.scale("D")}
    valley["loss"] = losses
    return {"valley": table_of(valley, level, source.degrees)}


# The plans.


@checked
def allocation(
    fit: Any,
    compute: Amount,
    *,
    limits: Ranges | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Amount | None = None,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """Size and tokens that a compute budget is best spent on.

    In closed form for chinchilla, cpt-chinchilla, skaling, kaplan-e and overtraining, and for dcpt,
    dcpt-l1 and dcpt-l4 at a given mixture ratio; numerically for any other law with the inputs N
    and D, and wherever a limit, a cost or a free mixture ratio is given: a grid, then the root of
    the derivative. Far beyond its runs farseer's floor falls to nothing with N: the plan is the
    valley of its loss that is next to the runs.

    Args:
        fit: fit of the loss over N and D: a Fit, (law, params), or a bootstrap, whose draws give
            the intervals; or a :class:`jaxlaw.Forecast`, whose draws have its misfit.
        compute: budget in FLOPs.
        limits: least and largest value of an input, in the units of the fitted runs, None where
            a side is open. For ``N``, ``D``, and ``r`` where it is searched.
        cost: function ``f(N, D)``, the FLOPs of a run of N parameters and D tokens (raw counts):
            pure JAX, rising in both. Left out: 6·N·D, or the FLOPs of the runs' own column, where
            one is mapped to C.
        served_tokens: number of tokens that the model will serve, in the units of D: 2·N FLOPs for
            each are a part of the budget (Sardana 2024, arXiv 2401.00448), and of ``compute``.
        max_epochs: largest D/U, of laws with unique tokens U. Left out: that of the fitted runs,
            where it is known; the note ``many-epochs`` says where it holds the plan back. Of other
            laws how often ``corpus_tokens`` may be gone over, once if left out.
        corpus_tokens: number of tokens of a corpus: r·D stays below, D of a law without a mixture
            ratio r.
        at: values of the law's other inputs. ``{"r": "best"}`` searches the mixture ratio with N
            and D.
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
    question = size_and_data(
        fit, compute, limits=limits, cost=cost, served_tokens=served_tokens, max_epochs=max_epochs,
        corpus_tokens=corpus_tokens, at=at,
    )  # fmt: skip
    source, budgets = question.reference, np.exp([question.given.log_C])
    best, runs = _best_runs(question, budgets)
    values = {name: column[:, 0] for name, column in runs.items()}
    found = of_fit(values)
    spent = values["compute"][~np.isnan(values["compute"])]
    given = ["compute"] if np.ptp(spent) <= AT_LIMIT * spent[0] else []
    facts = {
        "method": "closed form" if question.has_closed_form else "numerical",
        "binding": question.binding(found),
    }
    return _allocation(
        "allocation", source, values, at, given, "optimum", level,
        question.notes(found), facts=facts,
        flat=question.near(source.noise, best.raw),
        curves=lambda: _valley(question, values, level),
    )  # fmt: skip


@checked
def frontier(
    fit: Any,
    computes: Sequence[Amount],
    *,
    limits: Ranges | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Amount | None = None,
    at: Inputs = None,
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
        corpus_tokens: number of tokens of the corpus, as for :func:`allocation`.
        at: values of the law's other inputs; ``{"r": "best"}`` searches the mixture ratio.
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
    source, (_, values) = question.reference, _best_runs(question, budgets)
    del values["compute"]
    ratio = source.scale("D") / source.scale("N") * values["D"] / values["N"]
    columns = {"compute": budgets, **values, "tokens_per_parameter": ratio}
    table, largest = table_of(columns, level, source.degrees), np.argmax(budgets)
    notes = [
        *source_notes(source, **{**(at or {}), "N": values["N"][0], "D": values["D"][0]}),
        *epochs_notes(source, question.given.others[0], values["D"][0], question.epochs),
        *missing_draws_notes(values["N"].min(axis=1), "optimum at some budget"),
    ]  # fmt: skip
    return plan_answer(
        "frontier", over_rows(table, "{compute}: {N} and {D}, loss {loss}", source), source,
        level=level, at={**(at or {}), **table.loc[largest, [*question.order]].to_dict()},
        tables={"table": table}, notes=notes,
    )  # fmt: skip


@checked
def allocation_law(fit: Any, *, at: Inputs = None, level: ConfidenceLevel = LEVEL) -> Answer:
    """How the best size and data grow with compute, counted as 6·N·D.

    Args:
        fit: fit as for :func:`allocation`, of a law with a closed form.
        at: mixture ratio r, for the D-CPT laws.
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
    (source,) = draws_taking([fit], "N", "D")
    others = law_inputs(source, at, ("N", "D"))
    if source.law.power_law_terms is None:
        raise UsageError(
            f"law {source.law.name} has no closed form; use allocation or frontier, which solve it"
        )
    with in_float64(), np.errstate(all="ignore"):  # draws may be of what no run determines
        G, a, b = closed_form(source.law, source.values, others)
    if np.isnan(G[0]):
        raise DataError(f"law {source.law.name} has no best size: {CONDITION}")
    each = {name: source.scale(name) / source.units[name] for name in ("N", "D")}
    flops_each = FLOPS_EACH * each["N"] * each["D"]
    values = {
        "a": a, "b": b, "G": G, "N_coefficient": G * flops_each**-a / source.units["N"],
        "D_coefficient": flops_each**-b / G / source.units["D"],
    }  # fmt: skip
    notes = [*source_notes(source), *missing_draws_notes(G, "optimum")]
    if source.fit.flops is not None:
        message = "the powers are of 6·N·D; allocation and frontier count the FLOPs of the runs"
        notes.append(Note("flops-differ", "warning", message))
    return plan_answer(
        "allocation law",
        "the best size grows as compute to the power of {a}, the tokens as that of {b}",
        source, values, level=level, notes=notes,
    )  # fmt: skip


@checked
def min_compute(
    fit: Any,
    loss: float,
    *,
    limits: Ranges | None = None,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    corpus_tokens: Amount | None = None,
    at: Inputs = None,
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
        corpus_tokens: number of tokens of the corpus, as for :func:`allocation`.
        at: values of the law's other inputs; ``{"r": "best"}`` searches the mixture ratio.
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
    target = checked_number("loss", loss, "real")
    asked = dict(
        limits=limits, cost=cost, served_tokens=served_tokens, max_epochs=max_epochs,
        corpus_tokens=corpus_tokens, at=at,
    )  # fmt: skip
    question = size_and_data(fit, loss=target, **asked)
    source, best = question.reference, question.best()
    values = question.values(best._replace(ended=np.zeros_like(best.ended)))
    values = {name: values[name][:, 0] for name in (*question.order, "compute")}
    never, ended = ~best.kept[:, 0] & ~np.isnan(best.losses[:, 0, 0]), best.ended[0, 0]
    values["compute"] = np.where(never, np.inf, values["compute"])
    values["loss"] = np.full(len(never), target)
    found, notes, flat = of_fit(values), [], {}
    if not best.kept[0, 0]:
        # With a mixture ratio of few tokens of a corpus more compute is not always better.
        ends = size_and_data(source.without(), **asked).best(np.geomspace(1e12, _MOST, 31))
        least = ends.losses[ends.kept].min(initial=math.inf)
        message = (
            f"the law does not reach a loss of {target:g}; it comes down to {least:.5g} up to "
        )
        notes.append(Note("out-of-reach", "error", f"{message}{_MOST:.0e} FLOPs"))
    else:
        if ended:
            message = (
                "the least compute is that of the last size or tokens that are searched, for the "
                "loss falls on beyond: limits={'N': (least, largest)} sets another end"
            )
            notes.append(Note("optimum-at-limit", "warning", message))
        if source.noise > 0:
            spent = size_and_data(source, found["compute"], **asked)
            flat = spent.near(source.noise, best.raw)
    notes += question.notes(found)
    given = [name for name, column in values.items() if (column == column[0]).all()]
    return _allocation(
        "least compute", source, values, at, given, "answer", level, notes,
        facts={"binding": "loss"}, flat=flat, curves=lambda: _valley(question, values, level),
    )  # fmt: skip


def budgets_of(compute: Any, name: str = "compute") -> np.ndarray:
    """(K,) checked budgets in FLOPs."""
    budgets = np.array([checked_compute(one) for one in np.atleast_1d(compute)])
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
    for what, own, given in (
        ("inputs", law.input_names, {"N", "D", *inputs}),
        ("parameters", law.parameter_names, {*params}),
    ):
        if given != {*own}:
            said = f"{', '.join(own)}, not {', '.join(sorted(given))}"
            raise UsageError(f"law {law.name} has the {what} {said}")
    kind = jnp.result_type(float)
    arguments = [
        {name: as_array(name, value, kind) for name, value in own.items()}
        for own in (params, inputs, {"compute": compute})
    ]
    return _best_runs_of(law, arguments)


@compiled(static_argnames="law")
def _best_runs_of(law: Law, arguments) -> BestRun:
    leaves, tree = jax.tree.flatten(arguments)
    unit = {spec.name: spec.unit for spec in law.inputs}

    def best(*leaves):
        params, others, budget = jax.tree.unflatten(tree, leaves)
        log_C, (low, high) = (
            jnp.log(budget["compute"]),
            jnp.log(jnp.array([*SEARCH_LIMITS.values()])).T,
        )
        log_N, log_D, _ = best_size(law, *jax.lax.stop_gradient((params, log_C, others)))
        run = jnp.stack([log_N, log_D])
        inside = jnp.all((run > low + AT_LIMIT_32) & (run < high - AT_LIMIT_32))

        def loss(log_N):
            return loss_at(law, params, log_N, log_tokens(None, log_N, log_C), others)

        slope = jax.grad(loss)
        # A Newton step whose value is zero: its derivative is that of the optimum.
        curvature = jax.lax.stop_gradient(jax.grad(slope)(log_N))
        gradient = slope(log_N)
        log_N = log_N - (gradient - jax.lax.stop_gradient(gradient)) / curvature
        log_D = log_tokens(None, log_N, log_C)
        found = (jnp.exp(log_N) / unit["N"], jnp.exp(log_D) / unit["D"], loss(log_N))
        return tuple(jnp.where(inside, value, jnp.nan) for value in found)

    return BestRun(*jnp.vectorize(best)(*leaves))
