"""The shares of corpora: of one domain beside a general corpus, of many, and of replay compared.

Que 2024, §4.3, usages 1 and 2, and App. G.1 and G.2; Zheng 2024, §5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.optimize import brentq

from jaxlaw._answer import Answer, Tables
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Amount, Quantity, checked_number, written
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import read_columns, refuse_rows
from jaxlaw.errors import DataError, UsageError
from jaxlaw.laws import Law, mixing
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost
from jaxlaw.planning._frame import (
    checked_tokens,
    fewest_degrees,
    law_inputs,
    missing_draws_notes,
    numbers_by_name,
    plan_answer,
    require_inputs,
    source_notes,
)
from jaxlaw.planning._optimise import (
    SEARCH_LIMITS,
    crossing,
    for_each_draw,
    lowest_on_line,
    lowest_under_limits,
    question_of,
    root_or_infinity,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns, intervals

CURVE = 101  # points of a curve over shares
LEAST = 1e-6  # share; an optimum there is none
AT_LEAST = 1 + 1e-6  # times a least share: within it, at it
_UNITS = {
    "share": SHARE, "domain_loss": TARGET, "general_loss": TARGET, "change": SHARE,
    "limit": TARGET, "loss_alone": TARGET, "interior_below": "tokens", "corpus_tokens": "tokens",
}  # fmt: skip


def _losses(source: Draws, **inputs: Any) -> np.ndarray:
    """Losses (draws,) of a run, or of one a draw; (draws, K) of (1, K) runs.

    Args:
        source: the law and its draws.
        **inputs: all inputs, in the law's own units.
    """
    axes = (1,) * (max(map(np.ndim, inputs.values())) - 1)
    params = {name: column.reshape(-1, *axes) for name, column in source.values.items()}
    with in_float64():
        return np.asarray(source.law.evaluate(params, **inputs))


def _tried(source: Draws) -> dict[str, list[float]]:
    """The fact ``tried``: least and largest share that was run; none where they are unknown."""
    low, high = (end * source.units["r"] for end in source.ranges.get("r", (math.nan, math.nan)))
    return {"tried": [low, high]} if low <= high else {}


# Two corpora.


def _allowed(start: float, threshold: float) -> float:
    """The general loss that is allowed, (1 + threshold)·start."""
    return checked_number("start", start) * checked_number("1 + threshold", 1 + threshold)


@checked
def optimal_mixture(
    general: Any,
    domain: Any,
    *,
    start: float,
    threshold: float = 0.03,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The domain share with the lowest domain loss where the general loss keeps a limit.

    That is Que 2024, eq. 10: the general loss may rise by a factor 1 + T at most. Where the domain
    loss falls with its share, as the paper's does, it is the largest share that keeps the limit;
    that one is 1 less the :func:`critical_ratio` of the same threshold everywhere.

    Args:
        general: fit of the general loss over the general share: a Fit, (law, params), or a
            bootstrap; its law has an input r.
        domain: fit of the domain loss over the domain share.
        start: general loss before the continual training, in nats.
        threshold: T, relative; 0 asks the loss to come back to its start.
        at: values of the laws' other inputs, such as N and D.
        level: confidence level of the intervals.

    Returns:
        Answer with ``share``, r_d in [0, 1], NaN where no share keeps the limit; ``domain_loss``
        and ``general_loss`` there; ``change``, relative, of the general loss against its start;
        ``limit``, the general loss allowed; the facts ``binding`` and ``tried``, the least and
        largest domain share that was run, where that is known. ``points["curve"]`` is the whole
        trade-off: ``share``, ``domain_loss``, ``general_loss``, ``change``, ``allowed``; with draws
        ``…_low`` and ``…_high`` of the losses.

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
    of_general, of_domain = both = as_draws(general, domain)
    for source in both:
        require_inputs(source, "r")
    limit, degrees = _allowed(start, threshold), fewest_degrees(both)
    question = question_of(of_domain, {"r": None}, [AtMost(of_general, limit, rest=("r",))], at)
    domain_at, general_at = question.given.others
    best = question.best()
    share = np.where(best.kept, best.raw["r"], np.nan)[:, 0]
    # The answer of every draw, then the whole trade-off.
    shares = np.linspace(0, 1, CURVE)
    r = np.column_stack([share, np.tile(shares, (len(share), 1))])
    losses = {
        "domain_loss": _losses(of_domain, r=r, **domain_at),
        "general_loss": _losses(of_general, r=1 - r, **general_at),
    }
    values = {"share": share} | {name: column[:, 0] for name, column in losses.items()}
    general_loss = values["general_loss"]
    values |= {"change": general_loss / start - 1, "limit": limit}
    curve = {"share": shares} | {name: column[0, 1:] for name, column in losses.items()}
    curve["change"] = curve["general_loss"] / start - 1
    curve["allowed"] = allowed = curve["general_loss"] <= limit
    for name, column in losses.items():
        curve |= interval_columns(name, column[:, 1:], level, degrees)

    r_d, notes = share[0], []
    if math.isnan(r_d):
        least = curve["general_loss"].argmin()
        message = (
            f"no share keeps the general loss at {limit:.5g}; it comes down to "
            f"{curve['general_loss'][least]:.5g}, at r_d = {shares[least]:.2g}: allow more, or "
            "train longer"
        )
        notes.append(Note("out-of-reach", "error", message))
    elif (np.diff(allowed.astype(int)) > 0).any():
        message = "the general loss does not rise steadily with r_d: smaller shares break the limit"
        notes.append(Note("several-solutions", "warning", message))
    for source, what, own in ((of_general, "general", 1 - r_d), (of_domain, "domain", r_d)):
        at_r = source.inputs_taken(at) | {"r": own / source.units["r"]}
        notes += source_notes(source, what, **at_r)
    notes += missing_draws_notes(share, "allowed share")
    flat = {}
    if of_domain.noise > 0 and not math.isnan(r_d):
        near = question.near(of_domain.noise, {"r": share})["r"]
        flat = {"share": tuple(r * of_domain.units["r"] for r in near)}
    kept = "none" if general_loss[0] < limit * (1 - SAME) else "general loss"
    sign = "+" if general_loss[0] > start else ""
    return plan_answer(
        "mixture",
        "{share} of the domain: its loss {domain_loss}, the general loss {general_loss}, "
        f"{sign}{written(values['change'][0], SHARE)} from its start",
        of_domain, values, level=level, at=at_r, degrees=degrees, units=_UNITS,
        facts={"binding": {0.0: "r_d ≥ 0", 1.0: "r_d ≤ 1"}.get(r_d, kept), **_tried(of_domain)},
        flat=flat, notes=notes, curves={"curve": pd.DataFrame(curve)},
    )  # fmt: skip


@checked
def critical_ratio(
    general: Any,
    *,
    start: float,
    threshold: float = 0.0,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The least share of the general corpus at which its loss is back at its start.

    Gu 2024 (arXiv:2407.17467, the CMR scaling law) counts from the other side: its critical mixture
    ratio is the largest share of the domain that keeps the general loss within a tolerance.

    Args:
        general: fit of the general loss over its own share: a Fit, (law, params), or a bootstrap.
        start: general loss before the continual training, in nats.
        threshold: relative excess that is allowed.
        at: values of the law's other inputs, such as N and D.
        level: confidence level of the interval.

    Returns:
        Answer with ``share``, r_g in [0, 1], NaN where no share brings the loss back; ``loss``
        there, and the fact ``binding``.

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
    (source,) = as_draws(general)
    require_inputs(source, "r")
    others, limit, notes = law_inputs(source, at, ("r",)), _allowed(start, threshold), []
    share, below, *_ = crossing(source, "r", False, limit, 0.0, 1.0, others)
    share = np.where(below, 0.0, np.where(np.isinf(share), np.nan, share))
    if math.isnan(share[0]):
        notes = [Note("out-of-reach", "error", f"no share brings the loss back to {limit:.5g}")]
    there = {**(at or {}), "r": share[0] / source.units["r"]}
    notes += [*source_notes(source, **there), *missing_draws_notes(share, "critical ratio")]
    return plan_answer(
        "critical ratio", "{share} of the general corpus: its loss {loss}", source,
        {"share": share, "loss": _losses(source, r=share, **others)}, level=level, at=there,
        units=_UNITS, facts={"binding": "r_g ≥ 0" if share[0] == 0 else "general loss"},
        notes=notes,
    )  # fmt: skip


@checked
def optimal_mixture_data_limited(
    domain: Any,
    corpus_tokens: Amount,
    *,
    total: Amount | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The share at which limited domain data serve the domain loss best.

    All of the domain data are used: D = corpus_tokens / r_d. An optimum inside (0, 1) exists
    where the loss rises with the share at r_d = 1; for dcpt that is
    corpus_tokens < (B(η+β)(1+ε)^(γ+1) / (γC))^(1/β). Otherwise the answer is r_d = 1.

    Args:
        domain: fit of the domain loss over the domain share, with inputs D and r: a Fit,
            (law, params), or a bootstrap.
        corpus_tokens: number of tokens of the domain, in the units of the fitted runs.
        total: largest number of tokens that can be trained on in all, in the same units.
        at: values of the law's other inputs, such as N.
        level: confidence level of the intervals.

    Returns:
        Answer with ``share``, r_d in (0, 1]; ``D``, the tokens in all; ``loss`` of the domain
        there, and ``loss_alone`` of its corpus alone, at r_d = 1; ``interior_below``, the tokens of
        the domain below which mixing pays at all, that is, the optimum lies inside (0, 1):
        infinite if always, 0 if never; ``corpus_tokens``. Tokens are in the units of the runs.
        Facts: ``binding``, and ``tried`` as of :func:`optimal_mixture`.

    Raises:
        UsageError: an input is missing or unknown, or less tokens in all than of the domain.

    Example:
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plan = jl.planning.optimal_mixture_data_limited(domain, 0.1, at={"N": 1.8})
        >>> print(f"{plan.share:.2f} of the domain; mixing pays below {plan.interior_below:.2f}")
        0.85 of the domain; mixing pays below 0.20

    Shell:
        jaxlaw plan optimal-mixture-data-limited domain.json --corpus-tokens 5e7
            --at N=1.8e9
    """
    (source,) = as_draws(domain)
    require_inputs(source, "D", "r")
    tokens = checked_tokens(source, "corpus_tokens", corpus_tokens)
    others, unit, least = law_inputs(source, at, ("D", "r")), source.units["D"], LEAST
    if total is not None:
        total = checked_tokens(source, "total", total)
        if (least := tokens / total) > 1:
            raise UsageError(f"total, {total:g}, is less than corpus_tokens, {tokens:g}")
    limits = np.log(SEARCH_LIMITS["D"]) - math.log(source.scale("D") / unit)
    found = _best_limited(source.law, source.values, tokens * unit, least, limits, others)
    share, loss, alone, below = found
    if total is None:  # at the least share searched the loss still falls: there is no optimum
        none = share <= LEAST * AT_LEAST
        share, loss = np.where(none, np.nan, share), np.where(none, np.nan, loss)
    values = {
        "share": share, "D": tokens / share, "loss": loss, "loss_alone": alone,
        "interior_below": below / unit, "corpus_tokens": tokens,
    }  # fmt: skip
    sentence = "{share} of the domain in {D}: loss {loss}, {loss_alone} without a mixture"
    notes, bound = [], "domain tokens"
    if math.isnan(share[0]):
        message = (
            "the loss falls without end as the other corpus is added: total= says how many "
            "tokens there can be"
        )
        notes = [Note("out-of-reach", "error", message)]
    elif share[0] == 1:
        sentence, bound = "the domain's data alone, without a mixture: loss {loss}", "r_d ≤ 1"
    elif total is not None and share[0] <= least * AT_LEAST:
        bound = f"D ≤ {total:g}"
    there = {**(at or {}), "D": values["D"][0], "r": share[0] / source.units["r"]}
    notes += [*source_notes(source, **there), *missing_draws_notes(share, "optimum")]

    def curves() -> Tables:
        """The loss over the share, all of the domain's tokens used."""
        r = np.linspace(0.02, 1, 197)
        losses = _losses(source, D=tokens * unit / r[None], r=r[None], **others)
        columns = interval_columns("loss", losses, level, source.degrees)
        return {"curve": pd.DataFrame({"share": r, **columns})}

    return plan_answer(
        "limited mixture", sentence, source, values, level=level, at=there, units=_UNITS,
        facts={"binding": bound, **_tried(source)}, notes=notes, curves=curves,
    )  # fmt: skip


@for_each_draw("law")
def _best_limited(law: Law, params: Any, tokens: Any, least: Any, limits: Any, others: Any) -> Any:
    """Best share, its loss, loss at share 1, tokens below which the best share lies inside."""

    def loss(r: Any, tokens: Any) -> Any:
        return law(params, D=tokens / r, r=r, **others)

    def decrease_at_1(log_tokens: Any) -> Any:
        return -jax.grad(loss)(1.0, jnp.exp(log_tokens))

    log_r = lowest_on_line(lambda log_r: loss(jnp.exp(log_r), tokens), jnp.log(least), 0.0, 513)
    share = jnp.where(log_r > -1e-12, 1.0, jnp.exp(log_r))
    below = jnp.exp(root_or_infinity(decrease_at_1, *limits))
    return share, loss(share, tokens), loss(1.0, tokens), below


# Many corpora.

STARTS = 6  # mixtures that the search starts from, beside the natural one
_KEPT = 1e-6  # within which a mixture keeps its limits
_ROUNDING = 0.01  # the same, of an observed mixture: that of shares in a table
_TINY = 1e-12
_INSIDE = 1e-4  # share at least that a search starts from: at the root of 0 no slope leads away
_NAMED = 4  # shares that the headline names
_LEAST = 1e-9  # share of a corpus without which a law is infinite


@checked
def optimal_weights(
    fits: Mapping[str, Any],
    *,
    targets: Mapping[str, float] | None = None,
    natural: Mapping[str, float] | None = None,
    max_kl: float | None = None,
    caps: Mapping[str, float] | None = None,
    observed: Any = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """Shares of many corpora that make a weighted sum of losses least.

    The shares lie between 0 and their caps and add up to 1. A corpus of T tokens that may be gone
    over k times in a run of D tokens has the cap k·T/D, 1 at most. Far from all mixtures that were
    run a law is not to be relied on: no share goes beyond the largest that was run unless ``caps``
    allows it, and ``max_kl`` keeps the answer near the natural mixture.

    Args:
        fits: loss name → fit over the shares, such as of :func:`jaxlaw.laws.mixing`: a Fit, (law,
            params) or a bootstrap. All of them take the same shares: their inputs that are
            fractions. Or corpus → fit over its own share ``r``, such as of ``bimix`` or ``dcpt``:
            the shares are then called as the corpora.
        targets: loss name → weight in the sum, of every loss, 0 for one that does not count; all
            alike by default.
        natural: share → its size in the natural mixture, such as the corpora's own, of every
            corpus; they are scaled to add up to 1.
        max_kl: largest Kullback–Leibler divergence from the natural mixture, in nats.
        caps: share → its largest value, 0 to 1; where none is given, the largest share in the
            fitted runs, and 1 where no runs are known.
        observed: table with the shares' columns, whole mixtures that were run: the answer is
            compared with the best of them that keeps caps and divergence.
        at: values of the laws' other inputs.
        level: confidence level of the intervals.

    Returns:
        Answer with ``loss``, the weighted loss of the best mixture, and ``loss[name]`` of each of
        several losses there; ``gain_natural`` and ``gain_observed``, how much higher the law
        predicts the weighted loss of the natural and of the best observed mixture; ``kl``, the
        divergence from the natural mixture, in nats. Its ``table`` has a row for each corpus:
        ``share``, ``weight``, and, where given, ``natural`` and ``cap``; with draws ``weight_low``
        and ``weight_high``. The note ``draws-disagree`` says where the interval of
        ``gain_observed`` holds 0, ``optimum-at-tried`` which shares end at the largest tried.

    Raises:
        UsageError: laws of different shares, unknown names, targets or natural shares of some
            names only, caps above 1 or that leave no mixture, or max_kl without a natural mixture.
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
    names, inputs, caps, notes = list(fits), at or {}, caps or {}, []
    every = as_draws(*fits.values())
    degrees, (shares, columns) = fewest_degrees(every), _shares(names, every, inputs)
    weights = numbers_by_name(names, targets or dict.fromkeys(names, 1.0), "targets")
    weights = weights / weights.sum()
    if natural is not None:
        natural = numbers_by_name(shares, natural, "natural")
        natural = natural / natural.sum()
    if max_kl is not None and (natural is None or not max_kl > 0):
        raise UsageError("max_kl is positive, and needs natural=, the mixture it is counted from")
    # 1. Between which shares: up to the caps, else the largest that was run.
    tried, least = np.ones(len(shares)), np.zeros(len(shares))
    for source, of in zip(every, columns, strict=True):
        for spec in source.law.inputs:
            if (k := of.get(spec.name)) is not None:
                high = source.ranges.get(spec.name, (0.0, 0.0))[1] * source.units[spec.name]
                tried[k] = min(tried[k], high) if high > 0 else tried[k]
                # Above 0 where the law is infinite without this corpus.
                least[k] = max(least[k], _LEAST * spec.above_zero)
    cap = numbers_by_name(shares, caps, "caps", tried, domain="fraction")
    if cap.sum() < 1 - _KEPT:
        raise UsageError(
            f"caps add up to {cap.sum():.4g}: shares below them cannot add up to 1. A corpus that "
            "is not in caps= has the largest share that was run",
            argument="caps",
            value=caps,
        )
    if max_kl is not None:
        cap = np.where(natural > 0, cap, 0.0)  # of no other corpus is the divergence finite
    if (least > cap).any():
        raise UsageError(
            f"without {shares[np.argmax(least > cap)]} its law has an infinite loss: allow a share "
            "of it above 0"
        )
    # 2. The best mixture of every draw, (draws, k); NaN where the search fails.
    others = tuple(
        law_inputs(source, source.inputs_taken(inputs), [*of])
        for source, of in zip(every, columns, strict=True)
    )
    even = cap / cap.sum()
    near = even if natural is None else natural
    spread = np.random.default_rng(0).dirichlet(np.ones(len(cap)), STARTS)
    if max_kl is not None:
        spread = 0.7 * near + 0.3 * spread
    starts = np.clip([near, even, *spread], np.minimum(_INSIDE, cap), cap)
    found, excess = _best_mixture(
        tuple(source.law for source in every), tuple(tuple(of.items()) for of in columns),
        tuple(source.values for source in every), others, weights, np.sqrt(least), np.sqrt(cap),
        (near, math.inf if max_kl is None else max_kl), starts,
    )  # fmt: skip
    of_draws = np.where(excess <= _KEPT, found / found.sum(axis=1, keepdims=True), np.nan)
    best = of_draws[0]
    if np.isnan(best).any():
        raise DataError(
            "no mixture was found that keeps the caps and the divergence together: allow a "
            "larger max_kl, or larger caps",
            argument="max_kl",
            value=max_kl,
        )

    def losses(r: np.ndarray) -> np.ndarray:
        """Losses (draws, L) at one mixture (k,)."""
        laws = zip(every, columns, others, strict=True)
        own = [_losses(one, **{n: r[k] for n, k in of.items()}, **more) for one, of, more in laws]
        return np.stack(own, axis=1)

    # 3. Of the fit's own best mixture in every draw: the best mixture of each draw is better there
    # than any other, so that a gain of these would never be none.
    each = losses(best)
    values, compared = {"loss": each @ weights}, {}
    table = {"share": shares} | interval_columns("weight", of_draws, level, degrees)
    if natural is not None:
        values["kl"], table["natural"] = _divergence(best, natural), natural
        compared["natural"] = natural[None]
    if caps or (cap < 1).any():
        table["cap"] = cap
    table = pd.DataFrame(table)
    if observed is not None:
        runs = _observed_mixtures(observed, shares, every[0].law)
        runs = runs[(runs <= cap + _ROUNDING).all(axis=1)]
        if max_kl is not None:
            runs = runs[_divergence(runs, natural) <= max_kl + _ROUNDING]
        compared |= {"observed": runs} if len(runs) else {}
    for name, mixtures in compared.items():
        # The best of them by the fit itself, the same mixture in every draw.
        lowest = np.argmin([losses(r)[0] @ weights for r in mixtures])
        values[f"gain_{name}"] = losses(mixtures[lowest]) @ weights - values["loss"]
    if len(names) > 1:
        values |= {f"loss[{name}]": each[:, k] for k, name in enumerate(names)}

    held = [
        f"{name} ({limit:.4g})"
        for name, share, limit, most in zip(shares, best, tried, cap, strict=True)
        if name not in caps and most == limit < 1 and share >= limit - _KEPT
    ]
    if held:
        message = (
            f"held at the largest share that was run: {', '.join(held)}; more may do better, "
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
    points = [inputs | {name: best[k] for name, k in of.items()} for of in columns]
    for name, source, of, point in zip(names, every, columns, points, strict=True):
        what = name if "r" in of else ""  # of the corpus's own share, which others do not have
        notes += source_notes(source, what, **source.inputs_taken(point))
    rows = table.sort_values("weight", ascending=False).head(_NAMED)
    largest = [f"{written(round(row.weight, 6), SHARE)} {row.share}" for row in rows.itertuples()]
    largest += [f"{len(table) - len(rows)} more"] * (len(table) > len(rows))
    gains = [
        f", {{gain_{name}}} less than the {'best ' * (name == 'observed')}{name} mixture"
        for name in compared
    ]
    return plan_answer(
        "optimal weights", f"{', '.join(largest)}: loss {{loss}}{''.join(gains)}", every[0],
        values, level=level, at=every[0].inputs_taken(points[0]), degrees=degrees,
        units={"weight": SHARE, "natural": SHARE, "cap": SHARE, "kl": "nats",
               "gain_natural": TARGET, "gain_observed": TARGET, "loss": TARGET},
        tables={"table": table}, notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _shares(
    names: Sequence[str], every: Sequence[Draws], inputs: Mapping[str, Any]
) -> tuple[list[str], tuple[dict[str, int], ...]]:
    """Names of the shares, and of each law its inputs that are shares → which of them.

    They are the inputs that are fractions, the same of every law, or the names of the losses,
    where each law takes the share of its own corpus.
    """
    of_each = [
        [s.name for s in source.law.inputs if s.domain == "fraction" and s.name not in inputs]
        for source in every
    ]
    if len(names) > 1 and all(own == ["r"] for own in of_each):
        return list(names), tuple({"r": k} for k in range(len(names)))
    for name, own in zip(names, of_each, strict=True):
        if len(own) < 2 or set(own) != set(of_each[0]):
            raise UsageError(
                f"the fit of {name} takes the shares {', '.join(own) or '—'}, that of {names[0]} "
                f"{', '.join(of_each[0])}: give fits over the same shares, two or more, or of two "
                "corpora or more fits over the own share r of each"
            )
    return of_each[0], tuple({n: k for k, n in enumerate(of_each[0])} for _ in every)


def _observed_mixtures(table: Any, shares: Sequence[str], law: Law) -> np.ndarray:
    """(n, k) mixtures that were run, each whole; raises DataError where a row is none."""
    runs = read_columns(table, dict.fromkeys(shares, ", the share of a corpus"), name="observed")
    for name in shares:
        bad = ~(runs.table[name].to_numpy() >= 0)
        refuse_rows(runs, name, bad, "give a share of 0 or more, or leave the row out")
    law = law if law.shares else mixing(shares)
    whole = law.whole_mixtures(runs.table, partial(runs.mixture_error, law))
    return np.stack([whole[name] for name in shares], axis=1)


def _divergence(r: Any, natural: Any, xp: Any = np) -> Any:
    """Σ r·log(r/natural) of mixtures (…, k), in nats; ``xp`` is NumPy or ``jax.numpy``."""
    return (r * xp.log(xp.maximum(r, _TINY) / xp.maximum(natural, 1e-300))).sum(-1)


@for_each_draw("laws", "columns")
def _best_mixture(
    laws: tuple[Law, ...], columns: tuple[tuple[tuple[str, int], ...], ...], params: Any,
    others: Any, weights: Any, low: Any, high: Any, limits: Any, starts: Any,
) -> Any:  # fmt: skip
    """The best shares (k,), and by how much they break a limit, (1,).

    Searched are the roots u of the shares r = u², between ``low`` and ``high``: a law with a power
    of a share below 1, such as the additive one, has an endless slope at a share of 0.
    """
    width = jnp.where(high > low, high - low, 1.0)

    def shares(point: Any) -> Any:
        return (low + point * (high - low)) ** 2

    @partial(jnp.vectorize, signature="(k)->()")
    def total(point: Any) -> Any:
        r = shares(point)
        losses = [
            law(own, **{name: r[k] for name, k in of}, **more)
            for law, of, own, more in zip(laws, columns, params, others, strict=True)
        ]
        return jnp.dot(weights, jnp.stack(losses))

    def excess(point: Any) -> Any:
        r, (natural, most) = shares(point), limits
        more = r.sum(-1) - 1
        return jnp.stack([more, -more, _divergence(r, natural, jnp) - most], axis=-1)

    grid = (jnp.sqrt(starts) - low) / width
    point = lowest_under_limits(lambda points: (total(points), excess(points)), grid)
    over = jnp.where(jnp.isfinite(total(point)), excess(point).max(), jnp.inf)
    return shares(point), over[None]


# Shares compared at equal tokens of the corpus.


@checked
def compare_replay(
    observed: Any,
    *,
    start: float | None = None,
    tolerance: float = 0.01,
    columns: Mapping[str, str] | None = None,
) -> Answer:
    """Whether a corpus' loss depends on its share, or on how much of it was seen (Zheng, fig. 4).

    Runs with another share r of the corpus are compared at the same r·D, as far as every share has
    seen it. Where the losses meet, replay of the other corpus costs this one nothing but the time
    for it. Nothing is extrapolated: a loss between two points of a curve lies on the straight line
    over log r·D, and there are no intervals.

    Args:
        observed: file or table with columns ``D`` (tokens in all), ``r`` and ``loss`` of the
            corpus, of one size; and ``N`` in raw parameters if compute is wanted.
        start: loss before training, for the least share that brings it back. By a law,
            :func:`critical_ratio` says that for any N and D.
        tolerance: nats within which losses count as met.
        columns: name → column, where they are called otherwise.

    Returns:
        Answer with ``meet``, the tokens of the corpus from which on the losses lie within
        ``tolerance`` of each other: 0 if everywhere, infinite if nowhere; ``spread_first`` and
        ``spread_last``, largest less smallest loss at either end of what every share has seen; with
        ``start``, ``least_back``, the least observed share whose run ends at or below it, NaN where
        none does, and the fact ``back_between``, that share and the one below it. Its ``table`` has
        the columns ``r``, ``corpus_tokens``, ``corpus_compute`` (FLOPs, 6·N·r·D; NaN without N),
        ``D`` and ``loss``.

    Raises:
        DataError: fewer than two shares, several sizes, two losses of one run, or shares that have
            no tokens of the corpus in common.

    Example:
        >>> D = np.tile(np.geomspace(1e9, 1e11, 9), 2)
        >>> r = np.repeat([0.5, 0.9], 9)
        >>> seen = {"D": D, "r": r, "loss": 2 + 400 / (r * D) ** 0.3}
        >>> jl.planning.compare_replay(seen).meet  # the losses are equal at equal r·D
        0.0

    Shell:
        jaxlaw plan compare-replay replay.csv --start 2.22
    """
    needed = {"D": ", the tokens", "r": ", the share", "loss": ""}
    table = read_columns(observed, needed, ["N"], columns or {}, name="table").table
    table = table[(table[["D", "r"]] > 0).all(axis=1)].dropna(subset="loss")
    tokens = table["r"] * table["D"]
    N = table["N"] if "N" in table else pd.Series(np.nan, table.index)
    table = table.assign(corpus_tokens=tokens, corpus_compute=6 * N * tokens)
    table = table.sort_values(["r", "corpus_tokens"], ignore_index=True)
    if N.nunique() > 1 or table.duplicated(["r", "corpus_tokens"]).any():
        raise DataError("runs of several sizes N, or several at the same r and D: keep one of each")
    groups = table.groupby("r")
    curves = [(np.log(rows["corpus_tokens"]), rows["loss"]) for _, rows in groups]
    low = max((x.iloc[0] for x, _ in curves), default=0.0)
    high = min((x.iloc[-1] for x, _ in curves), default=0.0)
    if len(curves) < 2 or not low < high:
        raise DataError(
            f"{len(curves)} shares of the corpus above 0: compare two or more that have tokens of "
            f"it in common (one begins at {math.exp(low):.3g}, one ends at {math.exp(high):.3g})"
        )

    def spread(log_tokens: Any) -> Any:
        return np.ptp([np.interp(log_tokens, *one) for one in curves], axis=0)

    # Between two points the spread of straight lines is convex: it is within the tolerance where
    # it is so at both, and else leaves it once.
    knots = np.unique(np.clip(np.concatenate([x for x, _ in curves]), low, high))
    spreads, meet = spread(knots), 0.0
    apart = np.flatnonzero(spreads > tolerance)
    if apart.size:
        meet, between = math.inf, knots[apart[-1] : apart[-1] + 2]
        if len(between) > 1:
            meet = math.exp(brentq(lambda x: spread(x) - tolerance, *between, xtol=1e-15))
    values = {"meet": meet, "spread_first": spreads[0], "spread_last": spreads[-1]}
    facts, notes = {}, []
    if start is not None:
        ends = groups["loss"].last()
        back, values["least_back"] = ends.index[ends <= checked_number("start", start)], math.nan
        if len(back):
            values["least_back"] = least = float(back[0])
            if (ends.index < least).any():
                facts["back_between"] = [float(ends.index[ends.index < least][-1]), least]
            if (again := ends.index[(ends.index > least) & (ends > start)]).size:
                message = f"share {again[0]:g}, above it, ends higher than the start again: noise?"
                notes.append(Note("several-solutions", "warning", message))
        else:
            message = (
                f"no share brings the loss back to {start:.5g}; {ends.idxmin():g} ends at "
                f"{ends.min():.5g}"
            )
            notes.append(Note("out-of-reach", "error", message))
    sentence = "from {meet} of the corpus on the losses of these shares are one, to {spread_last}"
    if math.isinf(meet):
        sentence = "the losses of these shares stay apart, by {spread_last} at equal tokens"
    elif meet == 0:
        sentence = (
            "the losses of these shares are one at equal tokens of the corpus, to {spread_last}"
        )
    table = table[["r", "corpus_tokens", "corpus_compute", "D", "loss"]]
    units = dict.fromkeys([*values, "loss"], ("nats", 1.0))
    units |= dict.fromkeys(("r", "least_back"), (SHARE, 1.0))
    units |= dict.fromkeys(("meet", "corpus_tokens", "D"), ("tokens", 1.0))
    units["corpus_compute"] = ("FLOPs", 1.0)
    return Answer(
        kind="replay comparison", sentence=sentence, beyond=1.0, units=units,
        quantities={name: Quantity(float(x), *units[name]) for name, x in values.items()},
        tables={"table": table}, facts=facts, notes=tuple(notes),
    )  # fmt: skip
