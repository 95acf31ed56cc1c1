"""The share of one domain: what the general loss allows, and what little domain data need.

Que 2024, §4.3, usages 1 and 2, and App. G.1 and G.2; Zheng 2024, §5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Quantity, checked_number, written
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    Pictured,
    checked_tokens,
    context_of,
    fewest_degrees,
    keeps_question,
    law_inputs,
    law_inputs_of_each,
    missing_draws_notes,
    require_inputs,
    source_notes,
    without,
)
from jaxlaw.planning._budgets import SEARCH_LIMITS
from jaxlaw.planning._constraints import AtMost
from jaxlaw.planning._flat import as_good
from jaxlaw.planning._question import question_of
from jaxlaw.planning._searches import minimum
from jaxlaw.planning._solve import for_each_draw, last_true, minimise, root_or_infinity
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns, with_intervals

CURVE = 101  # points of the trade-off curve
GRID = 1025  # shares at which the constraint is looked at, before the root between two of them
LEAST = 1e-6  # share; an optimum there is none
AT_LEAST = 1 + 1e-6  # times a least share: within it, at it
MATTERS = 1e-6  # nats
FLAT_POINTS = 2001  # shares among which the near-optimal ones are searched


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Mixture(Answer):
    """The domain share that the general loss allows and the domain loss wants (Que's usage 1).

    Attributes:
        share: r_d in [0, 1]; NaN where no share keeps the limit.
        domain_loss, general_loss: predicted losses there.
        change: change of the general loss against its start, relative.
        limit: general loss allowed, (1 + threshold)·start.
        curve: whole trade-off: ``share``, ``domain_loss``, ``general_loss``, ``change``,
            ``allowed``; with draws ``…_low`` and ``…_high`` of the losses.
        tried: least and largest domain share that both fits saw; NaN if unknown.
    """

    share: float = field(metadata={"unit": SHARE})
    domain_loss: float = field(metadata={"unit": TARGET})
    general_loss: float = field(metadata={"unit": TARGET})
    change: float = field(metadata={"unit": SHARE})
    limit: float = field(metadata={"unit": TARGET})
    curve: pd.DataFrame
    tried: tuple[float, float] = (math.nan, math.nan)
    picture = "trade_off"
    csv = "curve"

    def shown(self) -> dict[str, pd.DataFrame]:
        """Every tenth point of the trade-off."""
        return {**super().shown(), "curve": self.curve.iloc[::10]}

    def sentence(self) -> str:
        """The share and both losses."""
        if math.isnan(self.share):
            return ""
        return (
            f"{self.written('share', level=True)} of the domain: its loss "
            f"{self.written('domain_loss')}, the general loss {self.written('general_loss')}, "
            f"{_signed(self.change)} from its start"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LimitedMixture(Pictured, Answer):
    """The best share where domain data are limited (Que's usage 2).

    Attributes:
        share: r_d in (0, 1].
        D: tokens in all, corpus_tokens / share, in the units of the fitted runs.
        loss: loss of the domain, predicted there.
        loss_alone: loss of the domain corpus alone, r_d = 1.
        interior_below: tokens of the domain below which mixing pays at all, that is, the
            optimum lies inside (0, 1); infinite if always, 0 if never.
    """

    share: float = field(metadata={"unit": SHARE})
    D: float = field(metadata={"unit": "tokens"})
    loss: float = field(metadata={"unit": TARGET})
    loss_alone: float = field(metadata={"unit": TARGET})
    interior_below: float = field(metadata={"unit": "tokens"})

    def sentence(self) -> str:
        """The share, the tokens in all, and what mixing is worth."""
        if math.isnan(self.share):
            return ""
        if self.share == 1:
            return f"the domain's data alone, without a mixture: loss {self.written('loss')}"
        return (
            f"{self.written('share', level=True)} of the domain in {self.written('D')}: loss "
            f"{self.written('loss')}, {self.written('loss_alone')} without a mixture"
        )

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The domain loss over the share."""
        own = question["domain"], self.D * self.share
        return "limited_domain", own, without(question, "domain", "corpus_tokens", "total")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CriticalRatio(Pictured, Answer):
    """The least share of the general corpus that keeps its loss at or below the start.

    Attributes:
        share: r_g in [0, 1]; NaN where no share does.
        loss: predicted loss there.
    """

    share: float = field(metadata={"unit": SHARE})
    loss: float = field(metadata={"unit": TARGET})

    def sentence(self) -> str:
        """The share and the loss there."""
        if math.isnan(self.share):
            return ""
        loss = self.written("loss")
        return f"{self.written('share', level=True)} of the general corpus: its loss {loss}"

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The general loss over its share, and its start."""
        return "critical_share", (question["general"],), without(question, "general")


def _signed(share: float) -> str:
    """A relative change with its sign: ``+3 %``."""
    return ("+" if share > 0 else "") + written(share, SHARE)


@checked
def optimal_mixture(
    general: Any,
    domain: Any,
    *,
    start: float,
    threshold: float = 0.03,
    largest: bool = False,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Mixture:
    """The domain share with the lowest domain loss where the general loss keeps a limit.

    That is Que 2024, eq. 10: the general loss may rise by a factor 1 + T at most. Where the domain
    loss falls with its share, as the paper's does, it is the largest share that keeps the limit.

    Args:
        general: fit of the general loss over the general share: a Fit, (law, params), or a
            bootstrap; its law has an input r.
        domain: fit of the domain loss over the domain share.
        start: general loss before the continual training, in nats.
        threshold: T, relative; 0 asks the loss to come back to its start.
        largest: whether the largest share that keeps the limit is wanted, whatever the domain
            loss is there.
        at: values of the laws' other inputs, such as N and D.
        level: confidence level of the intervals.

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
    both = as_draws(general, domain)
    for source in both:
        require_inputs(source, "r")
    others = law_inputs_of_each(both, at, ("r",))
    limit = checked_number("start", start) * (1 + _checked_threshold(threshold))
    if largest:
        share = _largest_share(both[0].law, both[0].values, limit, others[0])
    else:
        kept = AtMost(both[0], limit, rest=("r",))
        question = question_of(both[1], {"r": None}, [kept], at)
        best = minimum(question.form, question.params, question.given)
        share = np.where(best.kept, best.raw["r"], np.nan)
    losses = _both_losses(both, others, share)
    values = {
        "share": share,
        "domain_loss": losses[1],
        "general_loss": losses[0],
        "change": losses[0] / start - 1,
    }
    answer = with_intervals(values, level, fewest_degrees(both))
    curve = _tradeoff_curve(both, others, start, limit, level)
    notes = _share_notes(answer["share"], answer["domain_loss"], curve, limit)
    shares = (1 - answer["share"], answer["share"])
    for source, what, r in zip(both, ("general", "domain"), shares, strict=True):
        notes += source_notes(
            source, what, **source.inputs_taken(at or {}), r=r / source.units["r"]
        )
    notes += missing_draws_notes(share, "allowed share")
    kept = answer["general_loss"] < limit * (1 - SAME)
    sides = {0.0: "r_d ≥ 0", 1.0: "r_d ≤ 1"}
    bound = sides.get(answer["share"], "none" if kept else "general loss")
    flat = _flat_shares(both, others, answer["share"], limit)
    numbers = both[1].inputs_taken(at or {}) | {"r": answer["share"] / both[1].units["r"]}
    return Mixture(
        **answer, limit=limit, curve=curve, tried=_tried(both), binding=bound, flat=flat,
        notes=tuple(notes), **context_of(Mixture, both[1], numbers),
    )  # fmt: skip


def _tried(both: tuple[Draws, ...]) -> tuple[float, float]:
    """Least and largest domain share that both fits saw; NaN where a range is unknown."""
    general, domain = (
        np.array(source.ranges.get("r", (np.nan, np.nan))) * source.units["r"] for source in both
    )
    low, high = np.maximum(domain[0], 1 - general[1]), np.minimum(domain[1], 1 - general[0])
    return (float(low), float(high)) if low <= high else (math.nan, math.nan)


def _flat_shares(
    both: tuple[Draws, ...], others: tuple[dict[str, float], ...], share: float, limit: float
) -> dict[str, tuple[float, float]]:
    """Allowed shares whose domain loss differs from the best one by less than noise."""
    noise = both[1].noise
    if math.isnan(share) or not noise > 0:
        return {}
    grid = np.unique(np.append(np.linspace(0.0, 1.0, FLAT_POINTS), share))
    with in_float64():
        general, domain = (
            np.asarray(
                source.law.evaluate({k: v[0] for k, v in source.values.items()}, **inputs, r=r)
            )
            for source, inputs, r in zip(both, others, (1 - grid, grid), strict=True)
        )
    best = int(np.searchsorted(grid, share))
    at_limit = domain[best]  # its general loss is the limit, to rounding
    domain = np.where(general <= limit, domain, np.inf)
    domain[best] = at_limit
    low, high = as_good(domain, best, noise)
    return {"share": (float(grid[low]), float(grid[high]))}


@keeps_question
@checked
def critical_ratio(
    general: Any,
    *,
    start: float,
    threshold: float = 0.0,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> CriticalRatio:
    """The least share of the general corpus at which its loss is back at its start.

    Gu 2024 (arXiv:2407.17467, the CMR scaling law) counts from the other side: its critical mixture
    ratio is the largest share of the domain that keeps the general loss within a tolerance.

    Args:
        general: fit of the general loss over its own share: a Fit, (law, params), or a bootstrap.
        start: general loss before the continual training, in nats.
        threshold: relative excess that is allowed.
        at: values of the law's other inputs, such as N and D.
        level: confidence level of the interval.

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
    (others,) = law_inputs_of_each((source,), at, ("r",))
    limit = checked_number("start", start) * (1 + _checked_threshold(threshold))
    other = _largest_share(source.law, source.values, limit, others)
    with in_float64():
        loss = np.asarray(source.law.evaluate(source.values, r=1 - other, **others))
    answer, notes = with_intervals({"share": 1 - other, "loss": loss}, level, source.degrees), []
    if math.isnan(answer["share"]):
        notes = [Note("never-back", "error", f"no share brings the loss back to {limit:.5g}")]
    elif answer["share"] == 0:
        message = f"the loss is at or below {limit:.5g} without any of its corpus"
        notes = [Note("always-back", "info", message)]
    there = {**(at or {}), "r": answer["share"] / source.units["r"]}
    notes += source_notes(source, **there)
    notes += missing_draws_notes(other, "critical ratio")
    bound = "r_g ≥ 0" if answer["share"] == 0 else "general loss"
    return CriticalRatio(
        **answer, binding=bound, notes=tuple(notes), **context_of(CriticalRatio, source, there)
    )


@keeps_question
@checked
def optimal_mixture_data_limited(
    domain: Any,
    corpus_tokens: Quantity,
    *,
    total: Quantity | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> LimitedMixture:
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
    total = None if total is None else checked_tokens(source, "total", total)
    others = law_inputs(source, at, ("D", "r"))
    least = LEAST if total is None else tokens / total
    if least > 1:
        raise UsageError(f"total, {total:g}, is less than corpus_tokens, {tokens:g}")
    unit = source.scale("D") / source.units["D"]
    limits = np.log(SEARCH_LIMITS["D"]) - math.log(unit)
    share, loss, alone, below = _best_limited(
        source.law, source.values, tokens * source.units["D"], least, limits, others
    )
    if total is None:  # at the least share searched the loss still falls: there is no optimum
        none = share <= LEAST * AT_LEAST
        share, loss = np.where(none, np.nan, share), np.where(none, np.nan, loss)
    values = {
        "share": share,
        "D": tokens / share,
        "loss": loss,
        "loss_alone": alone,
        "interior_below": below / source.units["D"],
    }
    answer, notes = with_intervals(values, level, source.degrees), []
    if math.isnan(answer["share"]):
        message = (
            "the loss falls without end as the other corpus is added: total= says how many "
            "tokens there can be"
        )
        notes = [Note("no-finite-answer", "error", message)]
    elif answer["share"] == 1:
        message = "mixing does not pay with so many tokens of the domain: see interior_below"
        notes = [Note("no-interior-optimum", "info", message)]
    there = {**(at or {}), "D": answer["D"], "r": answer["share"] / source.units["r"]}
    notes += source_notes(source, **there)
    notes += missing_draws_notes(share, "optimum")
    bound = "domain tokens"
    if answer["share"] == 1:
        bound = "r_d ≤ 1"
    elif total is not None and answer["share"] <= least * AT_LEAST:
        bound = f"D ≤ {total:g}"
    return LimitedMixture(
        **answer, binding=bound, notes=tuple(notes), **context_of(LimitedMixture, source, there)
    )


OWN_SHARE = (
    "every corpus' loss is taken to depend on its own share alone: what domains do for each "
    "other is not in it"
)


# Two corpora.


def _checked_threshold(threshold: float) -> float:
    return checked_number("1 + threshold", 1 + threshold) - 1


@for_each_draw("law")
def _largest_share(law: Law, params: Any, limit: Any, others: Any) -> Any:
    """Largest share of the other corpus at which a corpus' loss keeps a limit, or NaN."""
    share = last_true(lambda other: law(params, r=1.0 - other, **others) <= limit, 0.0, 1.0, GRID)
    return jnp.where(jnp.isinf(share), jnp.nan, share)


def _both_losses(both: tuple[Draws, ...], others: Any, share: np.ndarray) -> list[np.ndarray]:
    """General and domain losses (draws,) at each draw's share; (draws, K) at (1, K) shares."""
    losses = []
    with in_float64():
        for source, r, fixed in zip(both, (1 - share, share), others, strict=True):
            params = source.values
            if share.ndim == 2:
                params = {name: column[:, None] for name, column in params.items()}
            losses.append(np.asarray(source.law.evaluate(params, r=r, **fixed)))
    return losses


def _tradeoff_curve(
    both: tuple[Draws, ...], others: Any, start: float, limit: float, level: float
) -> pd.DataFrame:
    shares = np.linspace(0, 1, CURVE)
    general, domain = _both_losses(both, others, shares[None, :])
    table = {"share": shares, "domain_loss": domain[0], "general_loss": general[0]}
    table |= {"change": general[0] / start - 1, "allowed": general[0] <= limit}
    for name, values in (("domain_loss", domain), ("general_loss", general)):
        table |= interval_columns(name, values, level, fewest_degrees(both))
    return pd.DataFrame(table)


def _share_notes(share: float, loss: float, curve: pd.DataFrame, limit: float) -> list[Note]:
    if math.isnan(share):
        lowest = curve.loc[curve["general_loss"].idxmin()]
        message = (
            f"no share keeps the general loss at {limit:.5g}; it comes down to "
            f"{lowest['general_loss']:.5g}, at r_d = {lowest['share']:.2g}: allow more, or train "
            "longer"
        )
        return [Note("no-share-allowed", "error", message)]
    notes, allowed = [], curve[curve["allowed"]]
    if curve["allowed"].all():
        message = f"every share keeps the general loss at or below {limit:.5g}"
        notes.append(Note("every-share-allowed", "info", message))
    elif not curve.loc[: allowed.index.max(), "allowed"].all():
        message = "the general loss does not rise steadily with r_d: smaller shares break the limit"
        notes.append(Note("general-loss-not-monotone", "warning", message))
    best, last = allowed.loc[allowed["domain_loss"].idxmin()], allowed.iloc[-1]
    if best["domain_loss"] < loss - MATTERS and best["share"] < share:
        message = (
            f"the domain loss is lower at the smaller share {best['share']:.2f} "
            f"({best['domain_loss']:.5g}): by this fit more of the domain does not help"
        )
        notes.append(Note("domain-loss-rises", "warning", message))
    if last["domain_loss"] > loss + MATTERS and last["share"] > share:
        message = (
            f"shares up to {last['share']:.2f} keep the limit, but there the domain loss is "
            f"higher ({last['domain_loss']:.5g}): by this fit more of the domain does not help"
        )
        notes.append(Note("domain-loss-rises", "info", message))
    return notes


@for_each_draw("law")
def _best_limited(law: Law, params: Any, tokens: Any, least: Any, limits: Any, others: Any) -> Any:
    """Best share, its loss, loss at share 1, tokens below which the best share lies inside."""

    def loss(r: Any, tokens: Any) -> Any:
        return law(params, D=tokens / r, r=r, **others)

    def decrease_at_1(log_tokens: Any) -> Any:
        return -jax.grad(loss)(1.0, jnp.exp(log_tokens))

    log_r = minimise(lambda log_r: loss(jnp.exp(log_r), tokens), jnp.log(least), 0.0, 513)
    share = jnp.where(log_r > -1e-12, 1.0, jnp.exp(log_r))
    below = jnp.exp(root_or_infinity(decrease_at_1, *limits))
    return share, loss(share, tokens), loss(1.0, tokens), below
