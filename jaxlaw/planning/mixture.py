"""The mixture ratios of corpora: of one domain beside a general corpus, and of many.

Que 2024, §4.3, usages 1 and 2, and App. G.1 and G.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._answer import Answer
from jaxlaw._quantities import SHARE, UNKNOWN, Amount, checked_number, written
from jaxlaw._rounding import SAME
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import read_columns, refuse_rows
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.laws import Law, mixing
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Inputs
from jaxlaw.planning._frame import (
    checked_input,
    draws_taking,
    fewest_degrees,
    law_inputs,
    losses_of,
    missing_draws_notes,
    of_fit,
    plan_answer,
    source_notes,
    table_of,
)
from jaxlaw.planning._optimise import (
    SEARCH_LIMITS,
    crossing,
    for_each_draw,
    lowest_in_box,
    lowest_on_line,
    question_of,
    root_or_infinity,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, intervals

CURVE = 101  # points of a curve over mixture ratios
LEAST = 1e-6  # mixture ratio; an optimum there is none


def _tried(source: Draws) -> dict[str, list[float]]:
    """The fact ``tried``: range of mixture ratios that were run; none where it is unknown."""
    low, high = (end * source.units["r"] for end in source.ranges.get("r", UNKNOWN))
    return {"tried": [low, high]} if low <= high else {}


# Two corpora.


def _allowed(start: float, threshold: float) -> float:
    """The general loss that is allowed, (1 + threshold)·start."""
    if threshold >= 1:
        raise UsageError(f"threshold is {threshold:g}, relative to start: 0.03 allows 3%")
    return checked_number("start", start) * checked_number("1 + threshold", 1 + threshold)


@checked
def optimal_mixture(
    general: Any,
    domain: Any,
    *,
    start: float,
    threshold: float = 0.03,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The domain mixture ratio with the lowest domain loss under a limit on the general loss.

    That is Que 2024, eq. 10: the general loss may rise by a factor 1 + T at most. Where the domain
    loss falls with its mixture ratio, as the paper's does, it is the largest mixture ratio that
    keeps the limit; that one is 1 less the :func:`critical_ratio` of the same threshold everywhere.

    Args:
        general: fit of the general loss over the general mixture ratio: a Fit, (law, params), or a
            bootstrap; its law has an input r.
        domain: fit of the domain loss over the domain mixture ratio.
        start: general loss before the continual training, in nats.
        threshold: T, relative; 0 asks the loss to come back to its start.
        at: values of the laws' other inputs, such as N and D.
        level: confidence level of the intervals.

    Returns:
        Answer with ``share``, r_d in [0, 1], NaN where no mixture ratio keeps the limit;
        ``domain_loss`` and ``general_loss`` there; ``change``, relative, of the general loss
        against its start; ``limit``, the general loss allowed; the facts ``binding`` and ``tried``,
        the least and largest domain mixture ratio that was run, where that is known.
        ``points["curve"]`` is the whole trade-off: ``share``, ``domain_loss``, ``general_loss``,
        ``change``, ``allowed``; with draws ``…_low`` and ``…_high`` of the losses.

    Raises:
        UsageError: an input is missing or unknown, or out of its domain.

    Example:
        >>> general, domain = (("dcpt", jl.simulate.TRUTHS[n]) for n in ("dcpt-general", "dcpt"))
        >>> plan = jl.planning.optimal_mixture(general, domain, start=2.8, at={"N": 1.8, "D": 2.0})
        >>> print(f"{plan.share:.3f} of the domain, loss {plan.domain_loss:.3f}")
        0.893 of the domain, loss 1.747

    Shell:
        jaxlaw plan optimal-mixture general.json domain.json --start 2.86
            --at N=2e9 --at D=1e10
    """
    of_general, of_domain = both = draws_taking((general, domain), "r")
    limit, degrees = _allowed(start, threshold), fewest_degrees(both)
    question = question_of(of_domain, {"r": None}, [AtMost(of_general, limit, rest=("r",))], at)
    domain_at, general_at = question.given.others
    best = question.best()
    share = np.where(best.kept, best.raw["r"], np.nan)
    # The answer of every draw, then the whole trade-off.
    shares = np.linspace(0, 1, CURVE)
    r = np.column_stack([share, np.tile(shares, (len(share), 1))])
    of_r = {
        "share": r, "domain_loss": losses_of(of_domain, r=r, **domain_at),
        "general_loss": (general_loss := losses_of(of_general, r=1 - r, **general_at)),
        "change": general_loss / start - 1,
    }  # fmt: skip
    values = {name: column[:, 0] for name, column in of_r.items()} | {"limit": limit}
    allowed, lowest = general_loss[0, 1:] <= limit, general_loss[0, 1:].argmin()
    curve = {name: column[:, 1:] for name, column in of_r.items()}
    curve |= {"share": shares, "change": curve["change"][0], "allowed": allowed}

    first, notes, flat = of_fit(values), [], {}
    r_d = first["share"]
    if math.isnan(r_d):
        message = (
            f"no mixture ratio keeps the general loss at {limit:.5g}; it comes down to "
            f"{general_loss[0, 1 + lowest]:.5g}, at r_d = {shares[lowest]:.2g}: allow more, or "
            "train longer"
        )
        notes.append(Note("out-of-reach", "error", message))
    else:
        near = question.near(of_domain.noise, best.raw)
        flat = {"share": tuple(x * of_domain.units["r"] for x in near["r"])} if near else {}
        if (allowed[1:] & ~allowed[:-1]).any():
            message = (
                "the general loss does not rise steadily with r_d: some smaller r_d break the limit"
            )
            notes.append(Note("several-solutions", "warning", message))
    for source, what, own in ((of_general, "general", 1 - r_d), (of_domain, "domain", r_d)):
        at_r = source.inputs_taken(at) | {"r": own / source.units["r"]}
        notes += source_notes(source, what, **at_r)
    kept = "none" if first["general_loss"] < limit * (1 - SAME) else "general loss"
    sign = "+" if first["general_loss"] > start else ""
    return plan_answer(
        "mixture",
        "{share} of the domain: its loss {domain_loss}, the general loss {general_loss}, "
        f"{sign}{written(first['change'], SHARE)} from its start",
        of_domain, values, level=level, at=at_r, degrees=degrees,
        facts={"binding": {0.0: "r_d ≥ 0", 1.0: "r_d ≤ 1"}.get(r_d, kept), **_tried(of_domain)},
        flat=flat, notes=[*notes, *missing_draws_notes(values["share"], "allowed mixture ratio")],
        curves={"curve": table_of(curve, level, degrees)},
    )  # fmt: skip


@checked
def critical_ratio(
    general: Any,
    *,
    start: float,
    threshold: float = 0.0,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The lowest mixture ratio of the general corpus that returns its loss to its start.

    Gu 2024 (arXiv:2407.17467, the CMR scaling law) counts from the other side: its critical mixture
    ratio is the largest mixture ratio of the domain that keeps the general loss within a tolerance.

    Args:
        general: fit of the general loss over its own mixture ratio: a Fit, (law, params), or a
            bootstrap.
        start: general loss before the continual training, in nats.
        threshold: relative excess that is allowed.
        at: values of the law's other inputs, such as N and D.
        level: confidence level of the interval.

    Returns:
        Answer with ``share``, r_g in [0, 1], NaN where no mixture ratio brings the loss back;
        ``loss`` there, and the fact ``binding``.

    Raises:
        UsageError: an input is missing or unknown, or out of its domain.

    Example:
        >>> general = ("dcpt", jl.simulate.TRUTHS["dcpt-general"])
        >>> plan = jl.planning.critical_ratio(general, start=2.86, at={"N": 1.8, "D": 2.0})
        >>> print(f"{plan.share:.3f}")
        0.123

    Shell:
        jaxlaw plan critical-ratio general.json --start 2.86 --at N=1.8e9 --at D=1e10
    """
    (source,) = draws_taking([general], "r")
    others, limit, notes = law_inputs(source, at, ("r",)), _allowed(start, threshold), []
    share, below, *_ = crossing(source, "r", False, limit, 0.0, 1.0, others)
    share = np.where(below, 0.0, np.where(np.isinf(share), np.nan, share))
    if math.isnan(share[0]):
        alone = float(losses_of(source, r=np.ones(1), **others).flat[0])
        message = (
            f"no mixture ratio brings the general loss down to {limit:.4g}: at 100% of the general "
            f"corpus it is {alone:.4g}; allow a larger threshold= or train on more tokens"
        )
        notes = [Note("out-of-reach", "error", message)]
    there = {**(at or {}), "r": share[0] / source.units["r"]}
    notes += [*source_notes(source, **there), *missing_draws_notes(share, "critical ratio")]
    return plan_answer(
        "critical ratio", "{share} of the general corpus: its loss {loss}", source,
        {"share": share, "loss": losses_of(source, r=share, **others)}, level=level, at=there,
        facts={"binding": "r_g ≥ 0" if share[0] == 0 else "general loss"},
        notes=notes,
    )  # fmt: skip


@checked
def optimal_mixture_data_limited(
    domain: Any, corpus_tokens: Amount, *, at: Inputs = None, level: ConfidenceLevel = LEVEL
) -> Answer:
    """The mixture ratio with the lowest domain loss when domain tokens are limited.

    All of the domain data are used: D = corpus_tokens / r_d. An optimum inside (0, 1) exists
    where the loss rises with the mixture ratio at r_d = 1; for dcpt that is
    corpus_tokens < (B(η+β)(1+ε)^(γ+1) / (γC))^(1/β). Otherwise the answer is r_d = 1. With a limit
    on the tokens in all, :func:`minimise` searches r and D under a :class:`Corpus`.

    Args:
        domain: fit of the domain loss over the domain mixture ratio, with inputs D and r: a Fit,
            (law, params), or a bootstrap.
        corpus_tokens: number of tokens of the domain, in the units of the fitted runs.
        at: values of the law's other inputs, such as N.
        level: confidence level of the intervals.

    Returns:
        Answer with ``share``, r_d in (0, 1]; ``D``, the tokens in all; ``loss`` of the domain
        there, and ``loss_alone`` of its corpus alone, at r_d = 1; ``interior_below``, the tokens of
        the domain below which mixing pays at all, that is, the optimum lies inside (0, 1):
        infinite if always, 0 if never; ``corpus_tokens``. Tokens are in the units of the runs.
        Facts: ``binding``, and ``tried`` as of :func:`optimal_mixture`.

    Raises:
        UsageError: an input is missing or unknown.

    Example:
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plan = jl.planning.optimal_mixture_data_limited(domain, 0.1, at={"N": 1.8})
        >>> print(f"{plan.share:.2f} of the domain; mixing pays below {plan.interior_below:.2f}")
        0.85 of the domain; mixing pays below 0.20

    Shell:
        jaxlaw plan optimal-mixture-data-limited domain.json --corpus-tokens 5e7
            --at N=1.8e9
    """
    (source,) = draws_taking([domain], "D", "r")
    tokens = checked_input(source, "D", corpus_tokens, what="corpus_tokens")
    others, unit = law_inputs(source, at, ("D", "r")), source.units["D"]
    limits = np.log(SEARCH_LIMITS["D"]) - math.log(source.scale("D") / unit)
    found = _best_limited(source.law, source.values, tokens * unit, limits, others)
    share, loss, loss_alone, below = found
    # At the least mixture ratio that is searched the loss still falls: there is no optimum.
    share, loss = (np.where(share > LEAST * (1 + 1e-6), x, np.nan) for x in (share, loss))
    values = {
        "share": share, "D": tokens / share, "loss": loss, "loss_alone": loss_alone,
        "interior_below": below / unit, "corpus_tokens": tokens,
    }  # fmt: skip
    sentence = "{share} of the domain in {D}: loss {loss}, {loss_alone} without a mixture"
    notes, bound = [], "domain tokens"
    if math.isnan(share[0]):
        message = (
            "the loss falls without end as the other corpus is added: limit the tokens in all, by "
            "minimise with over={'r': None, 'D': (None, most)} and a Corpus"
        )
        notes = [Note("out-of-reach", "error", message)]
    elif share[0] == 1:
        sentence, bound = "the domain's data alone, without a mixture: loss {loss}", "r_d ≤ 1"
    there = {**(at or {}), "D": values["D"][0], "r": share[0] / source.units["r"]}
    notes += [*source_notes(source, **there), *missing_draws_notes(share, "optimum")]

    def curves():
        """The loss over the mixture ratio, all of the domain's tokens used."""
        r = np.linspace(0.02, 1, 197)
        losses = losses_of(source, D=tokens * unit / r[None], r=r[None], **others)
        return {"curve": table_of({"share": r, "loss": losses}, level, source.degrees)}

    return plan_answer(
        "limited mixture", sentence, source, values, level=level, at=there,
        facts={"binding": bound, **_tried(source)}, notes=notes, curves=curves,
    )  # fmt: skip


@for_each_draw("law")
def _best_limited(law: Law, params, tokens, limits, others):
    """Best ratio, its loss, loss at ratio 1, tokens below which the best ratio lies inside."""

    def loss(r, tokens):
        return law(params, D=tokens / r, r=r, **others)

    def decrease_at_1(log_tokens):
        return -jax.grad(loss)(1.0, jnp.exp(log_tokens))

    log_r = lowest_on_line(
        lambda x: loss(jnp.exp(x), tokens), math.log(LEAST), 0.0, 513, lambda x: x > 0
    )
    share = jnp.where(log_r > -1e-12, 1.0, jnp.exp(log_r))
    below = jnp.exp(root_or_infinity(decrease_at_1, *limits))
    return share, loss(share, tokens), loss(1.0, tokens), below


# Many corpora.

STARTS = 6  # mixtures that the search starts from, beside the natural one
_KEPT = 1e-6  # within which a mixture keeps its limits
_ROUNDING = 0.01  # the same, of an observed mixture: that of mixture ratios in a table
_INSIDE = 1e-4  # least ratio that a search starts from: at the root of 0 no slope leads away
_NAMED = 4  # mixture ratios that the headline names
_LEAST = 1e-9  # mixture ratio of a corpus without which a law is infinite


@checked
def optimal_weights(
    fits: Mapping[str, Any],
    *,
    targets: Mapping[str, float] | None = None,
    natural: Mapping[str, float] | None = None,
    max_kl: float | None = None,
    caps: Mapping[str, float] | None = None,
    observed: Any = None,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """Mixture ratios of many corpora that minimise a weighted sum of losses.

    The mixture ratios lie between 0 and their caps and add up to 1. A corpus of T tokens that may
    be gone over k times in a run of D tokens has the cap k·T/D, 1 at most. Far from all mixtures
    that were run a law is not to be relied on: no mixture ratio goes beyond the largest that was
    run unless ``caps`` allows it, and ``max_kl`` keeps the answer near the natural mixture.

    Args:
        fits: loss name → fit over the mixture ratios, such as of :func:`jaxlaw.laws.mixing`: a Fit,
            (law, params) or a bootstrap. All of them take the same mixture ratios: their inputs
            that are fractions. Or corpus → fit over its own mixture ratio ``r``, such as of
            ``bimix`` or ``dcpt``: the mixture ratios are then called as the corpora.
        targets: loss name → weight in the sum, of every loss, 0 for one that does not count; all
            alike by default.
        natural: mixture ratio → its size in the natural mixture, such as the corpora's own, of
            every corpus; they are scaled to add up to 1.
        max_kl: largest Kullback–Leibler divergence from the natural mixture, in nats.
        caps: mixture ratio → its largest value, 0 to 1; where none is given, the largest mixture
            ratio in the fitted runs, and 1 where no runs are known.
        observed: table with the mixture ratios' columns, whole mixtures that were run: the answer
            is compared with the best of them that keeps caps and divergence.
        at: values of the laws' other inputs.
        level: confidence level of the intervals.

    Returns:
        Answer with ``loss``, the weighted loss of the best mixture, and ``loss[name]`` of each of
        several losses there; ``gain_natural`` and ``gain_observed``, how much higher the law
        predicts the weighted loss of the natural and of the best observed mixture; ``kl``, the
        divergence from the natural mixture, in nats. Its ``table`` has a row for each corpus:
        ``share``, ``weight``, and, where given, ``natural`` and ``cap``; with draws ``weight_low``
        and ``weight_high``. The note ``draws-disagree`` says where the interval of
        ``gain_observed`` holds 0, ``optimum-at-tried`` which mixture ratios end at the largest
        tried.

    Raises:
        UsageError: laws of different mixture ratios, unknown names, targets or natural mixture
            ratios of some names only, caps above 1 or that leave no mixture, or max_kl without a
            natural mixture.
        DataError: no mixture keeps caps and divergence together, or rows of ``observed`` are no
            whole mixtures.

    Example:
        >>> law = jl.laws.mixing(["web", "code", "math"])
        >>> low = {"c": 1.0, "t[web]": 0.5, "t[code]": -0.5, "t[math]": 0.2}
        >>> high = low | {"t[web]": -0.5, "t[code]": 0.9}
        >>> plan = jl.planning.optimal_weights(
        ...     {"python": (law, low), "wiki": (law, high)}, caps={"web": 0.5}
        ... )
        >>> plan.table["weight"].round(3).tolist()
        [0.5, 0.357, 0.143]

    Shell:
        jaxlaw plan optimal-weights python=python.json,wiki=wiki.json --caps code=0.3
            --natural web=8 --natural code=1 --natural math=1 --max-kl 0.15
    """
    if not fits:
        raise UsageError("fits is empty: give loss name → fit")
    at, caps, notes = at or {}, caps or {}, []
    names, sources = list(fits), as_draws(*fits.values())
    source, degrees = sources[0], fewest_degrees(sources)
    # Mixture ratios are the inputs that are fractions, the same of every law, or they have the
    # names of the losses, where each law takes the mixture ratio of its own corpus.
    ratios = [
        [s.name for s in one.law.inputs if s.domain == "fraction" and s.name not in at]
        for one in sources
    ]
    own_shares = len(names) > 1 and all(of == ["r"] for of in ratios)
    shares = names if own_shares else ratios[0]
    for name, of in zip(names, ratios, strict=True):
        if not own_shares and (len(of) < 2 or {*of} != {*shares}):
            raise UsageError(
                f"the fit of {name} takes the ratios {', '.join(of) or '—'}, that of {names[0]} "
                f"{', '.join(shares)}: give fits over the same mixture ratios, or of two corpora "
                "or more fits over the own mixture ratio r of each"
            )
    numbered = {name: k for k, name in enumerate(shares)}
    # Of each loss the source, which of the ratios its inputs are, and its other inputs, in its own
    # units.
    every = [
        (
            one, {"r": numbered[name]} if own_shares else numbered,
            law_inputs(one, one.inputs_taken(at), of),
        )
        for name, one, of in zip(names, sources, ratios, strict=True)
    ]  # fmt: skip
    weights = _numbers_by_name(names, targets or dict.fromkeys(names, 1.0), "targets")
    weights = weights / weights.sum()
    if natural is not None:
        natural = _numbers_by_name(shares, natural, "natural")
        natural = natural / natural.sum()
    if max_kl is not None and (natural is None or not max_kl > 0):
        raise UsageError("max_kl is positive, and needs natural=, the mixture it is counted from")
    # 1. Between which mixture ratios: up to the caps, else the largest that was run.
    tried, least = np.ones(len(shares)), np.zeros(len(shares))
    for one, numbers, _ in every:
        for spec in one.law.inputs:
            if (k := numbers.get(spec.name)) is not None:
                high = one.ranges.get(spec.name, (0.0, 0.0))[1] * one.units[spec.name]
                tried[k] = min(tried[k], high) if high > 0 else tried[k]
                # Above 0 where the law is infinite without this corpus.
                least[k] = max(least[k], _LEAST * spec.above_zero)
    cap = _numbers_by_name(shares, caps, "caps", tried, domain="fraction")
    if cap.sum() < 1 - _KEPT:
        raise UsageError(
            f"caps add up to {cap.sum():.4g}: mixture ratios below them cannot add up to 1. The "
            "cap of a corpus that is not in caps= is the largest mixture ratio that was run"
        )
    if max_kl is not None:
        cap = np.where(natural > 0, cap, 0.0)  # of no other corpus is the divergence finite
    if (least > cap).any():
        raise UsageError(
            f"without {shares[np.argmax(least > cap)]} its law has an infinite loss: allow a ratio "
            "of it above 0"
        )
    # 2. The best mixture of every draw, (draws, k); NaN where the search fails.
    even = cap / cap.sum()
    near = even if natural is None else natural
    spread = np.random.default_rng(0).dirichlet(np.ones(len(cap)), STARTS)
    if max_kl is not None:
        spread = 0.7 * near + 0.3 * spread
    starts = np.clip([near, even, *spread], np.minimum(_INSIDE, cap), cap)
    found, excess = _best_mixture(
        tuple(one.law for one in sources), tuple(tuple(of.items()) for _, of, _ in every),
        tuple(one.values for one in sources), tuple(held for *_, held in every), weights,
        np.sqrt(least), np.sqrt(cap), (near, math.inf if max_kl is None else max_kl), starts,
    )  # fmt: skip
    of_draws = np.where(excess <= _KEPT, found / found.sum(axis=1, keepdims=True), np.nan)
    best = of_draws[0]
    if np.isnan(best).any():
        raise DataError(
            "no mixture was found that keeps the caps and the divergence together: allow a "
            "larger max_kl, or larger caps"
        )

    def losses(mixtures):
        """(draws, n, losses) of (n, k) mixtures."""
        r = mixtures[None]
        return np.stack([
            losses_of(one, **{n: r[..., k] for n, k in of.items()}, **others)
            for one, of, others in every
        ], axis=-1)  # fmt: skip

    # 3. Of the fit's own best mixture in every draw: the best mixture of each draw is better there
    # than any other, so that a gain of these would never be none.
    each = losses(best[None])[:, 0]
    values, compared = {"loss": each @ weights}, {}
    table = {"share": shares, "weight": of_draws}
    if natural is not None:
        values["kl"], table["natural"] = _divergence(best, natural), natural
        compared["natural"] = natural[None]
    if caps or (cap < 1).any():
        table["cap"] = cap
    table = table_of(table, level, degrees)
    if observed is not None:
        runs = read_columns(
            observed, dict.fromkeys(shares, ", the mixture ratio of a corpus"), name="observed"
        )
        for name in shares:
            bad = ~(runs.table[name].to_numpy() >= 0)
            refuse_rows(runs, name, bad, "give a mixture ratio of 0 or more, or leave the row out")
        law = source.law if source.law.shares else mixing(shares)
        whole = law.whole_mixtures(runs.table, partial(runs.mixture_error, law))
        mixtures = np.stack([whole[name] for name in shares], axis=1)
        kept = (mixtures <= cap + _ROUNDING).all(axis=1)
        if max_kl is not None:
            kept &= _divergence(mixtures, natural) <= max_kl + _ROUNDING
        compared |= {"observed": mixtures[kept]} if kept.any() else {}
    for name, mixtures in compared.items():
        of_each = losses(mixtures) @ weights
        # The best of them by the fit itself, the same mixture in every draw.
        values[f"gain_{name}"] = of_each[:, of_each[0].argmin()] - values["loss"]
    if len(names) > 1:
        values |= {f"loss[{name}]": each[:, k] for k, name in enumerate(names)}

    held = [
        f"{name} ({limit:.4g})"
        for name, share, limit, most in zip(shares, best, tried, cap, strict=True)
        if name not in caps and most == limit < 1 and share >= limit - _KEPT
    ]
    if held:
        message = (
            f"at the largest mixture ratio that was run: {', '.join(held)}; more may do better, "
            "which no run shows. caps= allows more"
        )
        notes.append(Note("optimum-at-tried", "warning", message))
    notes += missing_draws_notes(of_draws[:, 0], "best mixture")
    gain = values.get("gain_observed", np.empty(0))
    low, high = intervals({"gain": gain}, level, degrees).get("gain", (math.inf, math.inf))
    if low <= 0:
        message = (
            f"the gain over the best observed mixture, {gain[0]:.4g}, has the interval {low:.4g} "
            f"to {high:.4g}: it may be none"
        )
        notes.append(Note("draws-disagree", "warning", message))
    if best.max() > 1 - _KEPT:
        message = (
            f"all of the mixture is {shares[best.argmax()]}: caps, or max_kl with a natural "
            "mixture, keep the answer near what was run"
        )
        notes.append(Note("optimum-at-limit", "warning", message))
    points = [
        one.inputs_taken(at) | {name: best[k] for name, k in of.items()} for one, of, _ in every
    ]
    for name, one, point in zip(names, sources, points, strict=True):
        what = name if own_shares else ""  # of its own ratio, which others do not have
        notes += source_notes(one, what, **point)
    rows = table.sort_values("weight", ascending=False).head(_NAMED)
    largest = [f"{written(round(row.weight, 6), SHARE)} {row.share}" for row in rows.itertuples()]
    largest += [f"{len(table) - len(rows)} more"] * (len(table) > len(rows))
    gains = [
        f", {{gain_{name}}} less than the {'best ' * (name == 'observed')}{name} mixture"
        for name in compared
    ]
    return plan_answer(
        "optimal weights", f"{', '.join(largest)}: loss {{loss}}{''.join(gains)}", source, values,
        level=level, at=points[0], degrees=degrees, tables={"table": table},
        units={"share": "", "weight": SHARE},
        notes=notes,
    )  # fmt: skip


def _numbers_by_name(
    names: Sequence[str], given: Mapping[str, float], what: str, default = None,
    domain: str = "nonnegative",
) -> np.ndarray:  # fmt: skip
    """(k,) numbers of an argument that maps names to them; ``default`` of those not given.

    Raises:
        UsageError: another name, one that is left out without a default, a number outside the
            domain, or nothing but 0.
    """
    numbers = {} if default is None else dict(zip(names, default, strict=True))
    numbers |= {name: checked_number(f"{what} of {name}", x, domain) for name, x in given.items()}
    if {*numbers} != {*names} or not any(numbers.values()):
        each = "each of " if default is None else ""
        meant = [nearest(name, names) for name in given if name not in names]
        raise UsageError(
            f"{what} names {', '.join(given) or 'nothing'}: give {each}{', '.join(names)} a "
            f"number, and not all of them 0.{''.join(meant)}"
        )
    return np.array([numbers[name] for name in names], float)


def _divergence(r, natural, xp=np):
    """Σ r·log(r/natural) of mixtures (…, k), in nats; ``xp`` is NumPy or ``jax.numpy``."""
    return (r * xp.log(xp.maximum(r, 1e-12) / xp.maximum(natural, 1e-300))).sum(-1)


@for_each_draw("laws", "columns")
def _best_mixture(
    laws: tuple[Law, ...], columns: tuple[tuple[tuple[str, int], ...], ...], params, others,
    weights, low, high, limits, starts,
):  # fmt: skip
    """The best mixture ratios (k,), and by how much they break a limit, (1,).

    Searched are the roots u of the mixture ratios r = u², between ``low`` and ``high``: a law with
    a power of a mixture ratio below 1, such as the additive one, has an endless slope at a mixture
    ratio of 0.
    """
    width = jnp.where(high > low, high - low, 1.0)

    def shares(point):
        return (low + point * (high - low)) ** 2

    @partial(jnp.vectorize, signature="(k)->()")
    def total(point):
        r = shares(point)
        losses = [
            law(own, **{name: r[k] for name, k in of}, **more)
            for law, of, own, more in zip(laws, columns, params, others, strict=True)
        ]
        return jnp.dot(weights, jnp.stack(losses))

    def excess(point):
        r, (natural, most) = shares(point), limits
        more = r.sum(-1) - 1
        return jnp.stack([more, -more, _divergence(r, natural, jnp) - most], axis=-1)

    grid = (jnp.sqrt(starts) - low) / width
    point = lowest_in_box(total, grid, excess=excess)
    over = jnp.where(jnp.isfinite(total(point)), excess(point).max(), jnp.inf)
    return shares(point), over[None]
