"""The shares of corpora: of one domain beside a general corpus, of many, and of replay compared.

Que 2024, §4.3, usages 1 and 2, and App. G.1 and G.2; Zheng 2024, §5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import (
    SHARE,
    Amount,
    Quantity,
    checked_number,
    in_unit,
    written,
    written_range,
)
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import read_columns, refuse_rows
from jaxlaw.errors import DataError, UsageError, listed
from jaxlaw.fitting import FittedLaw
from jaxlaw.laws import Law, mixing
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost
from jaxlaw.planning._frame import (
    AnswerTable,
    OldAnswer,
    Pictured,
    checked_tokens,
    context_of,
    fewest_degrees,
    keeps_question,
    law_inputs,
    law_inputs_of_each,
    missing_draws_notes,
    numbers_by_name,
    range_notes,
    require_inputs,
    source_notes,
    without,
)
from jaxlaw.planning._optimise import (
    SEARCH_LIMITS,
    crossing,
    for_each_draw,
    last_true,
    lowest_on_line,
    question_of,
    root_or_infinity,
)
from jaxlaw.uncertainty import (
    LEVEL,
    Draws,
    as_draws,
    has_draws,
    interval_columns,
    intervals,
    with_intervals,
)

CURVE = 101  # points of the trade-off curve
LEAST = 1e-6  # share; an optimum there is none
AT_LEAST = 1 + 1e-6  # times a least share: within it, at it
MATTERS = 1e-6  # nats


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Mixture(OldAnswer):
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
class LimitedMixture(Pictured, OldAnswer):
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
class CriticalRatio(Pictured, OldAnswer):
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
    question = question_of(both[1], {"r": None}, [AtMost(both[0], limit, rest=("r",))], at)
    if largest:
        share = 1 - _least_share(both[0], limit, others[0])
    else:
        best = question.best()
        share = np.where(best.kept, best.raw["r"], np.nan)[:, 0]
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
    flat = {}
    if both[1].noise > 0 and not math.isnan(share[0]):
        near = question.near(both[1].noise, share[:1])
        flat = {"share": tuple(r * both[1].units["r"] for r in near["r"])}
    numbers = both[1].inputs_taken(at or {}) | {"r": answer["share"] / both[1].units["r"]}
    return Mixture(
        **answer, limit=limit, curve=curve, tried=_tried_by_both(both), binding=bound, flat=flat,
        notes=tuple(notes), **context_of(Mixture, both[1], numbers),
    )  # fmt: skip


def _tried_by_both(both: tuple[Draws, ...]) -> tuple[float, float]:
    """Least and largest domain share that both fits saw; NaN where a range is unknown."""
    general, domain = (
        np.array(source.ranges.get("r", (np.nan, np.nan))) * source.units["r"] for source in both
    )
    low, high = np.maximum(domain[0], 1 - general[1]), np.minimum(domain[1], 1 - general[0])
    return (float(low), float(high)) if low <= high else (math.nan, math.nan)


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
    share = _least_share(source, limit, others)
    with in_float64():
        loss = np.asarray(source.law.evaluate(source.values, r=share, **others))
    answer, notes = with_intervals({"share": share, "loss": loss}, level, source.degrees), []
    if math.isnan(answer["share"]):
        notes = [Note("never-back", "error", f"no share brings the loss back to {limit:.5g}")]
    elif answer["share"] == 0:
        message = f"the loss is at or below {limit:.5g} without any of its corpus"
        notes = [Note("always-back", "info", message)]
    there = {**(at or {}), "r": answer["share"] / source.units["r"]}
    notes += source_notes(source, **there)
    notes += missing_draws_notes(share, "critical ratio")
    bound = "r_g ≥ 0" if answer["share"] == 0 else "general loss"
    return CriticalRatio(
        **answer, binding=bound, notes=tuple(notes), **context_of(CriticalRatio, source, there)
    )


@keeps_question
@checked
def optimal_mixture_data_limited(
    domain: Any,
    corpus_tokens: Amount,
    *,
    total: Amount | None = None,
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


def _least_share(source: Draws, limit: float, others: Mapping[str, float]) -> np.ndarray:
    """(draws,) least share of a corpus at which its loss keeps a limit; NaN where none does."""
    share, below, *_ = crossing(source, "r", False, limit, 0.0, 1.0, others)
    return np.where(below, 0.0, np.where(np.isinf(share), np.nan, share))


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

    log_r, _ = lowest_on_line(lambda log_r: loss(jnp.exp(log_r), tokens), jnp.log(least), 0.0, 513)
    share = jnp.where(log_r > -1e-12, 1.0, jnp.exp(log_r))
    below = jnp.exp(root_or_infinity(decrease_at_1, *limits))
    return share, loss(share, tokens), loss(1.0, tokens), below


STARTS = 6  # mixtures that the search starts from, beside the natural one
_TOLERANCE = 1e-6  # within which a mixture keeps its constraints
_TINY = 1e-12
_INSIDE = 1e-4  # share at least that a search starts from
_NAMED = 4  # shares that the headline names
_LEAST = 1e-9  # share of a corpus without which a law is infinite


@dataclass(frozen=True, eq=False, repr=False)
class OptimalWeights(AnswerTable):
    """The best mixture and what it is worth.

    Attributes:
        table: a row for each corpus: ``share``, ``weight``, and, where given, ``natural`` and
            ``cap``; with draws ``weight_low`` and ``weight_high``.
        loss: weighted loss of the best mixture.
        losses: loss name → predicted loss there.
        gain: loss of what it is compared with, less its own, by name: of the ``natural`` mixture
            and of the best ``observed`` one, as the law predicts both.
        interval: intervals of ``loss`` and of each gain; empty without draws.
        kl: Kullback–Leibler divergence from the natural mixture, in nats; NaN without one.

    Example:
        >>> law = jl.laws.mixing(["web", "code"])
        >>> fit = (law, {"c": 1.0, "t[web]": 0.5, "t[code]": -0.5})
        >>> jl.planning.optimal_weights({"loss": fit}, caps={"code": 0.3}).loss.__round__(3)
        2.221
    """

    loss: float = field(metadata={"unit": TARGET})
    losses: Mapping[str, float]
    gain: Mapping[str, float]
    interval: Mapping[str, tuple[float, float]]
    kl: float = field(metadata={"unit": "nats"})
    picture = "mixture_weights"
    column_units: ClassVar[Mapping[str, str]] = {
        "weight": SHARE, "natural": SHARE, "cap": SHARE, "gain": TARGET, "losses": TARGET,
    }  # fmt: skip

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The loss, and what is gained over other mixtures."""
        return self._quantities(
            {"loss": self.loss, **{f"gain[{name}]": v for name, v in self.gain.items()}}
        )

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a number or a column; of a gain that of all."""
        return self.units.get(name.partition("[")[0])

    def _between(self, name: str, field: str = "interval") -> str:
        key = name.removeprefix("gain[").removesuffix("]")
        if field != "interval" or key not in self.interval:
            return ""
        return written_range(*self.interval[key], *self.units["loss"])

    def sentence(self) -> str:
        """The largest shares, the loss, and what is gained over the best mixture that was run."""
        rows = self.table.sort_values("weight", ascending=False).head(_NAMED)
        shares = [f"{written(row.weight, SHARE)} {row.share}" for row in rows.itertuples()]
        rest = len(self.table) - len(rows)
        shares += [f"{rest} more"] if rest else []
        sentence = f"{', '.join(shares)}: loss {self.written('loss', level=True)}"
        for name in self.gain:
            gain = self.written(f"gain[{name}]")
            sentence += f", {gain} less than the {'best ' * (name == 'observed')}{name} mixture"
        return sentence


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
) -> OptimalWeights:
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
        :class:`OptimalWeights`. The note ``no-better-than-observed`` says where the interval of the
        gain over the best observed mixture holds 0, ``held-at-tried`` which shares end at the
        largest that was run.

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
        jaxlaw plan optimal-weights python=python.json wiki=wiki.json --cap code=0.3
            --natural web=8 --natural code=1 --natural math=1 --max-kl 0.15
    """
    names, inputs = list(fits), at or {}
    if not names:
        raise UsageError("give the fit of a loss or more, by name")
    every = as_draws(*fits.values())
    shares, columns = _shares(names, every, inputs)
    weights = np.ones(len(names))
    if targets is not None:
        weights = numbers_by_name(names, targets, "targets")
    tried = _tried(shares, every, columns)
    cap = numbers_by_name(shares, caps or {}, "caps", tried, domain="fraction")
    if cap.sum() < 1 - _TOLERANCE:
        raise UsageError(
            f"caps add up to {cap.sum():.4g}: shares below them cannot add up to 1. A corpus that "
            "is not in caps= has the largest share that was run",
            argument="caps",
            value=caps,
        )
    if max_kl is not None and (natural is None or not max_kl > 0):
        raise UsageError("max_kl is positive, and needs natural=, the mixture it is counted from")
    natural_shares = None
    if natural is not None:
        natural_shares = numbers_by_name(shares, natural, "natural")
        natural_shares = natural_shares / natural_shares.sum()
    others = tuple(
        law_inputs(source, source.inputs_taken(inputs), [*of])
        for source, of in zip(every, columns, strict=True)
    )
    weights = weights / weights.sum()
    least = _least_shares(
        shares, every, columns, cap, natural_shares if max_kl is not None else None
    )
    problem = _Problem(
        tuple(shares), every, columns, others, weights, least, cap, natural_shares, max_kl
    )
    best_shares = problem.solved()
    # Of the fit's own best mixture in every draw: the best mixture of each draw is better there
    # than any other, so that a gain of these would never be none.
    values = {"loss": problem.losses_at(best_shares[0]) @ problem.weights}
    compared = {} if natural_shares is None else {"natural": natural_shares[None, :]}
    notes: list[Note] = []
    if observed is not None:
        run = _observed(observed, shares, every[0].law)
        run = run[[problem.allows(r) for r in run]]
        if len(run):
            compared["observed"] = run
        else:
            message = "no observed mixture keeps the caps and max_kl: there is none to compare with"
            notes.append(Note("none-observed-allowed", "info", message))
    for name, mixtures in compared.items():
        # The best of them by the fit itself, the same mixture in every draw.
        predicted = np.array([problem.losses_at(r)[0] @ problem.weights for r in mixtures])
        best = mixtures[int(np.argmin(predicted))]
        values[name] = problem.losses_at(best) @ problem.weights - values["loss"]
    interval = intervals(values, level, fewest_degrees(every)) if len(best_shares) > 1 else {}
    table = {"share": shares} | interval_columns(
        "weight", best_shares, level, fewest_degrees(every)
    )
    if natural_shares is not None:
        table["natural"] = natural_shares
    if caps or (cap < 1).any():
        table["cap"] = cap
    notes += _tried_notes(shares, best_shares[0], np.where(cap < tried, np.nan, tried), caps or {})
    notes += _notes(problem, best_shares, values, interval)
    numbers = {name: value for name, value in inputs.items() if not isinstance(value, str)}
    for name, source, of in zip(names, every, columns, strict=True):
        what = name if "r" in of else ""  # of the corpus's own share, which others do not have
        there = numbers | {share: best_shares[0][k] for share, k in of.items()}
        notes += range_notes(source, what, **source.inputs_taken(there))
    notes += _doubts(names, every)
    losses = problem.losses_at(best_shares[0])[0]
    first = numbers | {share: best_shares[0][k] for share, k in columns[0].items()}
    return OptimalWeights(
        pd.DataFrame(table),
        level,
        tuple(dict.fromkeys(notes)),
        **context_of(OptimalWeights, every[0], every[0].inputs_taken(first)),
        loss=float(values["loss"][0]),
        losses=dict(zip(names, map(float, losses), strict=True)),
        gain={name: float(values[name][0]) for name in compared},
        interval=interval,
        kl=math.nan if natural_shares is None else _divergence(best_shares[0], natural_shares),
    )


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


def _tried(
    shares: Sequence[str], every: Sequence[Draws], columns: Sequence[Mapping[str, int]]
) -> np.ndarray:
    """(k,) the largest share of each corpus that the runs of every law had; 1 where unknown."""
    tried = np.ones(len(shares))
    for source, of in zip(every, columns, strict=True):
        for name, k in of.items():
            high = source.ranges.get(name, (math.nan, math.nan))[1] * source.units[name]
            tried[k] = min(tried[k], high) if high > 0 else tried[k]
    return tried


def _tried_notes(
    shares: Sequence[str], best: np.ndarray, tried: np.ndarray, caps: Mapping[str, float]
) -> list[Note]:
    """Which shares end at the largest that was run, for want of a wider cap."""
    at = [
        f"{name} ({limit:.4g})"
        for name, share, limit in zip(shares, best, tried, strict=True)
        if name not in caps and limit < 1 and share >= limit - _TOLERANCE
    ]
    if not at:
        return []
    message = (
        f"held at the largest share that was run: {', '.join(at)}; more may do better, which no "
        "run shows. caps= allows more"
    )
    return [Note("held-at-tried", "warning", message)]


def _least_shares(
    shares: Sequence[str],
    every: Sequence[Draws],
    columns: Sequence[Mapping[str, int]],
    cap: np.ndarray,
    natural: np.ndarray | None,
) -> np.ndarray:
    """(k,) the least share of each corpus: above 0 where a law is infinite without it."""
    least = np.zeros(len(shares))
    for source, of in zip(every, columns, strict=True):
        for spec in source.law.inputs:
            if spec.above_zero and spec.name in of:
                least[of[spec.name]] = _LEAST
    without = least > (cap if natural is None else np.where(natural > 0, cap, 0.0))
    if without.any():
        raise UsageError(
            f"without {shares[int(np.argmax(without))]} its law has an infinite loss: allow a "
            "share of it above 0"
        )
    return least


def _observed(table: Any, shares: Sequence[str], law: Law) -> np.ndarray:
    """(n, k) mixtures that were run, each whole; raises DataError where a row is none."""
    runs = read_columns(table, dict.fromkeys(shares, ", the share of a corpus"), name="observed")
    for name in shares:
        bad = ~(runs.table[name].to_numpy() >= 0)
        refuse_rows(runs, name, bad, "give a share of 0 or more, or leave the row out")
    law = law if law.shares else mixing(shares)
    whole = law.whole_mixtures(runs.table, partial(runs.mixture_error, law))
    return np.stack([whole[name] for name in shares], axis=1)


def _divergence(r: np.ndarray, natural: np.ndarray) -> float:
    """Σ r·log(r/natural), in nats; infinite where a share has no natural one."""
    with np.errstate(divide="ignore"):
        terms = np.where(r > _TINY, r * (np.log(np.maximum(r, _TINY)) - np.log(natural)), 0.0)
    return float(terms.sum())


@dataclass(frozen=True, eq=False)
class _Problem:
    """The question, checked: laws with draws, and what mixtures are allowed."""

    shares: tuple[str, ...]
    every: tuple[Draws, ...]
    columns: tuple[dict[str, int], ...]
    others: tuple[dict[str, float], ...]
    weights: np.ndarray
    least: np.ndarray
    cap: np.ndarray
    natural: np.ndarray | None
    max_kl: float | None

    @property
    def laws(self) -> tuple[Law, ...]:
        return tuple(source.law for source in self.every)

    def params(self, draw: int) -> tuple[dict[str, float], ...]:
        return tuple({k: v[draw] for k, v in source.values.items()} for source in self.every)

    def allows(self, r: np.ndarray, slack: float = 0.01) -> bool:
        """Whether a mixture keeps caps and divergence, to the rounding of shares in a table."""
        near = self.max_kl is None or _divergence(r / r.sum(), self.natural) <= self.max_kl + slack
        return bool(near and (r <= self.cap + slack).all())

    def losses_at(self, r: np.ndarray) -> np.ndarray:
        """Losses (draws, L) at one mixture (k,)."""
        with in_float64():
            return np.stack(
                [
                    np.asarray(
                        source.law.evaluate(
                            source.values, **{name: r[k] for name, k in of.items()}, **others
                        )
                    )
                    for source, of, others in zip(
                        self.every, self.columns, self.others, strict=True
                    )
                ],
                axis=1,
            )

    def solved(self) -> np.ndarray:
        """The best mixture of every draw, (draws, k); NaN where the search fails."""
        first = self._best_of(0, self._starts())
        if first is None:
            raise DataError(
                "no mixture was found that keeps the caps and the divergence together: allow a "
                "larger max_kl, or larger caps",
                argument="max_kl",
                value=self.max_kl,
            )
        of_draws = [first]
        for draw in range(1, self.every[0].rows):
            best = self._best_of(draw, [first, self._starts()[0]])
            of_draws.append(np.full(len(first), np.nan) if best is None else best)
        return np.stack(of_draws)

    def _starts(self) -> list[np.ndarray]:
        """The natural or an even mixture, and others all over the simplex, within the caps."""
        even = self.cap / self.cap.sum()
        first = even if self.natural is None else self._within(self.natural)
        random = np.random.default_rng(0).dirichlet(np.ones(len(self.cap)), STARTS)
        if self.max_kl is not None:  # near what the divergence allows
            random = 0.7 * first + 0.3 * random
        return [first, even, *(self._within(r) for r in random)]

    def _within(self, r: np.ndarray) -> np.ndarray:
        """A mixture cut to the caps, what is cut spread over the room that is left."""
        cut = np.minimum(r / r.sum(), self.cap)
        room = self.cap - cut
        return cut if room.sum() == 0 else cut + room * (1 - cut.sum()) / room.sum()

    def _best_of(self, draw: int, starts: Sequence[np.ndarray]) -> np.ndarray | None:
        # Importing scipy.optimize takes long, and no other plan needs it.
        from scipy.optimize import minimize

        params = self.params(draw)
        columns = tuple(tuple(of.items()) for of in self.columns)

        # Searched are the roots u of the shares r = u². A law with a power of a share below 1, such
        # as the additive one, has an endless slope at a share of 0, where SLSQP on the shares
        # themselves used up its 300 iterations short of the optimum; on the roots it takes 20.
        def value(u: np.ndarray) -> tuple[float, np.ndarray]:
            with in_float64():
                loss, slope = _value_and_slope(
                    self.laws, columns, params, self.others, self.weights, u**2
                )
            return float(loss), 2 * u * np.asarray(slope)

        limits = [{"type": "eq", "fun": lambda u: (u**2).sum() - 1.0, "jac": lambda u: 2 * u}]
        cap = self.cap
        if self.max_kl is not None:
            log_own = np.log(np.maximum(self.natural, 1e-300))
            cap = np.where(self.natural > 0, cap, 0.0)
            limits.append(
                {
                    "type": "ineq",
                    "fun": lambda u: self.max_kl - _divergence(u**2, np.exp(log_own)),
                    "jac": lambda u: -2 * u * (np.log(np.maximum(u**2, _TINY)) - log_own + 1.0),
                }
            )
        best, least = None, math.inf
        for start in starts:
            # From 0 no slope leads away: it is 2·u times that in the share.
            inside = np.sqrt(np.clip(start, np.minimum(_INSIDE, cap), cap))
            result = minimize(
                value, inside, jac=True, method="SLSQP",
                bounds=list(zip(np.sqrt(self.least), np.sqrt(cap), strict=True)),
                constraints=limits, options={"maxiter": 300, "ftol": 1e-12},
            )  # fmt: skip
            r = np.clip(result.x**2, self.least, cap)
            if abs(r.sum() - 1) > _TOLERANCE or not np.isfinite(result.fun) or result.fun >= least:
                continue
            if self.max_kl is not None and (
                _divergence(r, self.natural) > self.max_kl * (1 + 1e-4) + _TOLERANCE
            ):
                continue
            best, least = r / r.sum(), result.fun
        return best


@compiled(static_argnames=("laws", "columns"))
def _value_and_slope(
    laws: tuple[Law, ...],
    columns: tuple[tuple[tuple[str, int], ...], ...],
    params: Any,
    others: Any,
    weights: Any,
    r: Any,
) -> Any:
    """The weighted loss of a mixture (k,), and its slopes."""

    def total(r: Any) -> Any:
        losses = [
            law(own, **{name: r[k] for name, k in of}, **more)
            for law, of, own, more in zip(laws, columns, params, others, strict=True)
        ]
        return jnp.dot(weights, jnp.stack(losses))

    return jax.value_and_grad(total)(r)


def _doubts(names: Sequence[str], every: Sequence[Draws]) -> list[Note]:
    """The codes of the fits' warnings, in one note for all of them."""
    codes: dict[str, list[str]] = {}
    for name, source in zip(names, every, strict=True):
        for note in source.warnings:
            codes.setdefault(note.code, []).append(name)
    if not codes:
        return []
    message = "; ".join(f"{code} of {', '.join(of)}" for code, of in codes.items())
    message = f"the fits have warnings, which their own notes explain: {message}"
    return [Note("doubtful-fit", "warning", message)]


def _notes(
    problem: _Problem,
    best_shares: np.ndarray,
    values: Mapping[str, np.ndarray],
    interval: Mapping[str, Any],
) -> list[Note]:
    notes = missing_draws_notes(best_shares[:, 0], "best mixture")
    if "observed" in values:
        low, high = interval.get("observed", (math.nan, math.nan))
        gain = float(values["observed"][0])
        if not interval:
            message = (
                f"it is predicted to be {gain:.4g} better than the best observed mixture; without "
                "the draws of a bootstrap nothing says whether that is more than noise"
            )
            notes.append(Note("gain-without-interval", "info", message))
        elif low <= 0:
            message = (
                f"the gain over the best observed mixture, {gain:.4g}, has the interval {low:.4g} "
                f"to {high:.4g}: it may be none"
            )
            notes.append(Note("no-better-than-observed", "warning", message))
    pure = best_shares[0] > 1 - 1e-6
    if pure.any():
        message = (
            f"all of the mixture is {problem.shares[int(np.argmax(pure))]}: caps, or max_kl with a "
            "natural mixture, keep the answer near what was run"
        )
        notes.append(Note("one-corpus", "warning", message))
    return notes


_SHOWN = 20  # rows of the table for people
SPREADS = 257  # points at which the spread of losses is looked at
ROWS = 41  # that a share has in the table


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ReplayComparison(OldAnswer):
    """Losses of one corpus at several shares of it, by the tokens of that corpus alone.

    Attributes:
        meet: tokens of the corpus from which on the losses lie within ``tolerance`` of each
            other: 0 if everywhere, infinite if nowhere in the range looked at.
        least_back: least observed share whose run ends at or below the loss at the start;
            NaN where none does, without ``start``, and from a law.
        spread_first, spread_last: largest less smallest loss at either end of that range, nats.
        table: ``r``, ``corpus_tokens``, ``corpus_compute`` (FLOPs, 6·N·r·D; NaN for a law
            without N), ``D`` (tokens in all), ``loss``.
    """

    meet: float = field(metadata={"unit": "tokens"})
    least_back: float = field(metadata={"unit": SHARE})
    spread_first: float = field(metadata={"unit": TARGET})
    spread_last: float = field(metadata={"unit": TARGET})
    table: pd.DataFrame
    picture = "replay_losses"
    column_units: ClassVar[Mapping[str, str]] = {
        "r": SHARE, "corpus_tokens": "tokens", "corpus_compute": "FLOPs", "D": "tokens",
    }  # fmt: skip

    def sentence(self) -> str:
        """Where the losses meet."""
        if math.isnan(self.meet):
            return ""
        last = self.written("spread_last")
        if math.isinf(self.meet):
            return f"the losses of these shares stay apart, by {last} at equal tokens of the corpus"
        if self.meet == 0:
            return f"the losses of these shares are one at equal tokens of the corpus, to {last}"
        meet = self.written("meet", level=True)
        return f"from {meet} of the corpus on the losses of these shares are one, to {last}"

    def shown(self) -> dict[str, pd.DataFrame]:
        """Some rows of the table."""
        every = max(1, len(self.table) // _SHOWN)
        return {**super().shown(), "table": self.table.iloc[::every]}


@checked
def compare_replay(
    fit: Any,
    shares: Sequence[float] | None = None,
    *,
    start: float | None = None,
    corpus_tokens: tuple[Amount, Amount] | None = None,
    tolerance: float = 0.01,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> ReplayComparison:
    """Whether a corpus' loss depends on its share, or on how much of it was seen.

    Runs with another share r of the corpus are compared at the same r·D. Where the losses
    meet, replay of the other corpus costs this one nothing but the time for it.

    Either by a law of that loss, or by observed losses alone (as in the paper): then nothing is
    extrapolated, a loss between two points of a curve lies on the straight line over log r·D,
    and there are no intervals.

    Args:
        fit: fit of the corpus' loss over its own share, with inputs D and r: a Fit,
            (law, params), or a bootstrap. Or what was observed: a file or table with columns D, r,
            loss, and N in raw parameters if compute is wanted.
        shares: shares of the corpus, two or more, in (0, 1]; left out, all that were observed.
        start: loss before training, with observed losses, for the least share that brings it
            back. By a law, the critical ratio says that for any N and D.
        corpus_tokens: (least, largest) tokens r·D to compare at, in the units of the fitted
            runs; left out, those that every share has seen (within the fitted range of D).
        tolerance: nats within which losses count as met.
        at: values of the law's other inputs, such as N; observed: which rows.
        level: confidence level of the intervals.

    Raises:
        UsageError: shares, tokens or inputs that are invalid.
        DataError: observed curves that have no tokens of the corpus in common.

    Example:
        >>> D = np.tile(np.geomspace(1e9, 1e11, 9), 2)
        >>> r = np.repeat([0.5, 0.9], 9)
        >>> seen = {"D": D, "r": r, "loss": 2 + 400 / (r * D) ** 0.3}
        >>> jl.planning.compare_replay(seen).meet  # the losses are equal at equal r·D
        0.0
    """
    inputs = at or {}
    if not (isinstance(fit, tuple | FittedLaw) or has_draws(fit)):
        return _compare_observed(fit, shares, start, corpus_tokens, tolerance, level, inputs)
    if start is not None:
        raise UsageError("start= is for observed losses; by a law, critical_ratio gives the share")
    if shares is None:
        raise UsageError("give shares= of the corpus, two or more in (0, 1]")
    (source,) = as_draws(fit)
    require_inputs(source, "D", "r")
    r = np.array([checked_number("r", share, "fraction") for share in shares])
    if r.size < 2 or not (r > 0).all():
        raise UsageError(
            f"shares are two or more in (0, 1], not {list(shares)}", argument="shares", value=shares
        )
    others = law_inputs(source, inputs, ("D", "r"))
    low, high = _token_range(source, r, corpus_tokens)
    limits = tuple(math.log(tokens * source.units["D"]) for tokens in (low, high))
    meet, first, last = _meeting(source.law, source.values, r, limits, tolerance, others)
    values = {"meet": meet / source.units["D"], "spread_first": first, "spread_last": last}
    answer = with_intervals(values, level, source.degrees) | {"least_back": math.nan}
    notes = _meeting_notes(answer["meet"], tolerance, low, high)
    for share in (r.min(), r.max()):
        notes += range_notes(source, **inputs, D=high / share, r=float(share))
    notes = list(dict.fromkeys([*notes, *source_notes(source)]))
    notes += missing_draws_notes(meet, "answer")
    table = _share_table(source, r, np.geomspace(low, high, ROWS), others, inputs)
    return ReplayComparison(
        **answer, table=table, binding="equal tokens of the corpus", notes=tuple(notes),
        **context_of(ReplayComparison, source, {**inputs, "D": high / r.min(), "r": r.min()}),
    )  # fmt: skip


def _compare_observed(
    observed: Any, shares: Any, start: float | None, corpus_tokens: Any, tolerance: float,
    level: float, inputs: Any,
) -> ReplayComparison:  # fmt: skip
    table, curves = _read_shares(observed, shares, inputs)
    low, high = _tokens_in_common(curves, corpus_tokens)
    meet, first, last = _meeting_of_curves(curves, (low, high), tolerance)
    notes = _meeting_notes(meet, tolerance, low, high)
    least, more = math.nan, []
    if start is not None:
        least, more = _least_back(curves, checked_number("start", start))
    between = "observed losses; between two points of a curve straight over log r·D, beyond none"
    notes += [*more, Note("interpolated", "info", between)]
    return ReplayComparison(
        meet=meet, least_back=least, spread_first=first, spread_last=last, table=table,
        binding="equal tokens of the corpus", interval={}, draws={}, level=level,
        notes=tuple(notes), units=ReplayComparison.single_units(), beyond=1.0,
    )  # fmt: skip


def _token_range(source: Draws, r: np.ndarray, wanted: Any) -> tuple[float, float]:
    if wanted is None:
        if "D" not in source.ranges:
            raise UsageError("(law, params) knows no fitted range: give corpus_tokens=(low, high)")
        low, high = source.ranges["D"]
        wanted = (low * r.max(), high * r.min())
        if not wanted[0] < wanted[1]:
            raise UsageError(
                "no tokens r·D are within the fitted range of D at all of these shares; give "
                "corpus_tokens=(low, high), or shares closer to each other"
            )
    low, high = (checked_tokens(source, "corpus_tokens", tokens) for tokens in wanted)
    if not low < high:
        raise UsageError(f"corpus_tokens are (least, largest), not ({low:g}, {high:g})")
    return low, high


@for_each_draw("law")
def _meeting(law: Law, params: Any, shares: Any, limits: Any, tolerance: Any, others: Any) -> Any:
    """Tokens from which on the losses are within the tolerance; spread at both ends."""

    def spread(log_tokens: Any) -> Any:
        losses = law(params, D=jnp.exp(log_tokens) / shares, r=shares, **others)
        return losses.max() - losses.min()

    last_apart = last_true(lambda log_tokens: spread(log_tokens) > tolerance, *limits, SPREADS)
    meet = jnp.where(last_apart == limits[1], jnp.inf, jnp.exp(last_apart))
    first, last = (spread(log_tokens) for log_tokens in limits)
    return jnp.where(jnp.isnan(first), jnp.nan, meet), first, last


def _share_table(
    source: Draws, shares: np.ndarray, tokens: np.ndarray, others: Any, inputs: Any
) -> pd.DataFrame:
    r, seen = (axis.ravel() for axis in np.meshgrid(shares, tokens, indexing="ij"))
    params = {name: column[0] for name, column in source.values.items()}
    D = seen / r
    with in_float64():
        loss = np.asarray(source.law.evaluate(params, D=D * source.units["D"], r=r, **others))
    N = others["N"] / source.units["N"] * source.scale("N") if "N" in others else np.nan
    compute = 6 * N * seen * source.scale("D")
    columns = {"r": r, "corpus_tokens": seen, "corpus_compute": compute, "D": D, "loss": loss}
    return pd.DataFrame(columns)


def _meeting_notes(meet: float, tolerance: float, low: float, high: float) -> list[Note]:
    if math.isinf(meet):
        message = f"the losses are not within {tolerance:g} nats of each other at {high:.3g} tokens"
        return [Note("never-meet", "info", message)]
    if meet == 0:
        where = f"between {low:.3g} and {high:.3g} tokens of the corpus"
        return [Note("always-met", "info", f"within {tolerance:g} nats everywhere {where}")]
    return []


# Observed losses, without a law.


class _Curve(NamedTuple):
    """One share's points in the order of its tokens: tokens of the corpus and loss, (points,)."""

    tokens: np.ndarray
    loss: np.ndarray

    def at(self, tokens: Any) -> np.ndarray:
        """The loss, straight in log tokens between two points."""
        return np.interp(np.log(tokens), np.log(self.tokens), self.loss)


def _read_shares(
    observed: Any, shares: Sequence[float] | None, inputs: Mapping[str, float]
) -> tuple[pd.DataFrame, dict[float, _Curve]]:
    """The rows compared, with ``corpus_tokens`` and ``corpus_compute``; a curve for each share.

    Args:
        observed: columns ``D``, ``r``, ``loss`` and, if known, ``N``: a file, a table, a dict.
        shares: those to keep; None keeps all above 0.
        inputs: values of other columns, whose rows are kept.

    Raises:
        UsageError: several sizes, or a share that was not observed.
        DataError: a column is missing, or fewer than two shares of two points.
    """
    needed = {"D": ", the tokens", "r": ", the share", "loss": "", **dict.fromkeys(inputs, "")}
    optional = [] if "N" in needed else ["N"]
    table = read_columns(observed, needed, optional, name="table").table.reset_index(drop=True)
    for name, value in inputs.items():
        table = table[np.isclose(table[name], checked_number(name, value), rtol=1e-9, atol=0)]
    if "N" in table and table["N"].nunique() > 1:
        sizes = ", ".join(f"{size:g}" for size in sorted(table["N"].unique()))
        raise UsageError(f"the table has several sizes; say which with at={{'N': …}} ({sizes})")
    table = _compared(table, shares)
    curves = {}
    for r, rows in table.groupby("r"):
        if len(rows) < 2 or rows["corpus_tokens"].duplicated().any():
            raise DataError(f"share {r:g} needs two points or more, at different tokens")
        curves[float(r)] = _Curve(rows["corpus_tokens"].to_numpy(), rows["loss"].to_numpy(float))
    if len(curves) < 2:
        raise DataError(
            f"{len(curves)} share of the corpus above 0 was observed; compare two or more"
        )
    return table, curves


def _compared(table: pd.DataFrame, shares: Sequence[float] | None) -> pd.DataFrame:
    """Rows of the shares, sorted, with what was spent on the corpus."""
    good = np.isfinite(table[["D", "r", "loss"]].to_numpy(float)).all(axis=1)
    table = table[good & (table["r"] > 0) & (table["D"] > 0)]
    if shares is not None:
        seen = table["r"].to_numpy()
        for share in shares:
            if not np.isclose(seen, share, rtol=1e-9, atol=0).any():
                known = listed(f"{value:g}" for value in np.unique(seen))
                raise UsageError(f"share {share:g} was not observed; observed: {known}")
        kept = np.isclose(seen[:, None], np.asarray(shares, float), rtol=1e-9, atol=0).any(axis=1)
        table = table[kept]
    tokens = table["r"] * table["D"]
    size = table["N"] if "N" in table else np.nan
    table = table.assign(corpus_tokens=tokens, corpus_compute=6 * size * tokens)
    columns = ["r", "corpus_tokens", "corpus_compute", "D", "loss"]
    return table.sort_values(["r", "corpus_tokens"], ignore_index=True)[columns]


def _tokens_in_common(
    curves: Mapping[float, _Curve], given: tuple[float, float] | None
) -> tuple[float, float]:
    """Tokens of the corpus that every share has seen, or what the user asks for of them."""
    low = max(curve.tokens[0] for curve in curves.values())
    high = min(curve.tokens[-1] for curve in curves.values())
    if not low < high:
        raise DataError(
            f"the shares have no tokens of the corpus in common (one begins at {low:.3g}, one ends "
            f"at {high:.3g}): leave shares out, or compare with a law"
        )
    if given is None:
        return float(low), float(high)
    least, largest = (checked_number("corpus_tokens", in_unit(end, 1.0, "tokens")) for end in given)
    slack = 1e-9 * high
    if not low - slack <= least < largest <= high + slack:
        raise UsageError(
            f"corpus_tokens must lie within {low:.4g} to {high:.4g}, which every share has seen"
        )
    return least, largest


def _meeting_of_curves(
    curves: Mapping[float, _Curve], limits: tuple[float, float], tolerance: float
) -> tuple[float, float, float]:
    """Tokens from which on the losses are within the tolerance; the spread at both ends.

    Between two points the spread of straight lines is convex: it is within the tolerance where
    it is so at both, and else leaves it once.
    """
    from scipy.optimize import brentq

    def spread(tokens: Any) -> np.ndarray:
        return np.ptp([curve.at(tokens) for curve in curves.values()], axis=0)

    inner = np.concatenate([curve.tokens for curve in curves.values()])
    knots = np.unique([limits[0], *inner[(inner > limits[0]) & (inner < limits[1])], limits[1]])
    spreads = spread(knots)
    first, last_spread = float(spreads[0]), float(spreads[-1])
    wide = np.flatnonzero(spreads > tolerance)
    if not wide.size:
        return 0.0, first, last_spread
    if wide[-1] == len(knots) - 1:
        return float("inf"), first, last_spread
    low, high = np.log(knots[wide[-1] : wide[-1] + 2])
    last = brentq(lambda log_tokens: spread(np.exp(log_tokens)) - tolerance, low, high, xtol=1e-15)
    return float(np.exp(last)), first, last_spread


def _least_back(curves: Mapping[float, _Curve], start: float) -> tuple[float, list[Note]]:
    """The least share whose run ends at or below a loss, NaN if none does; and what to know."""
    final = {r: float(curve.loss[-1]) for r, curve in sorted(curves.items())}
    back = [r for r, loss in final.items() if loss <= start]
    if not back:
        r = min(final, key=final.get)
        message = f"no share brings the loss back to {start:.5g}; {r:g} ends at {final[r]:.5g}"
        return float("nan"), [Note("never-back", "error", message)]
    notes, below = [], [r for r in final if r < back[0]]
    if below:
        message = (
            f"the least share lies between {below[-1]:g}, which ends at {final[below[-1]]:.5g}, "
            f"and {back[0]:g}, which ends at {final[back[0]]:.5g}: the start was {start:.5g}"
        )
        notes.append(Note("between-shares", "info", message))
    above = [r for r in final if r > back[0] and final[r] > start]
    if above:
        message = f"share {above[0]:g}, above it, ends higher than the start again: noise?"
        notes.append(Note("not-monotone", "warning", message))
    return back[0], notes
