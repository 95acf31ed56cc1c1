"""Shares of a mixture: what the general loss allows, what little domain data ask for, replay.

Que 2024, §4.3, usages 1 and 2, and App. G.1 and G.2; Zheng 2024, §5.2 and figure 4. Several
domains in one mixture are beyond the papers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._fitted_law import FittedLaw, SupportsDraws
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    Answer,
    Source,
    checked_number,
    fewest_degrees,
    interval_columns,
    law_inputs,
    law_inputs_of_each,
    measured,
    missing_draws_notes,
    require_inputs,
    source_notes,
    sources,
)
from jaxlaw.planning._budgets import SEARCH_LIMITS
from jaxlaw.planning._flat import as_good
from jaxlaw.planning._observed import least_back, meeting, read_shares, tokens_in_common
from jaxlaw.planning._solve import for_each_draw, last_true, minimise, root_or_infinity
from jaxlaw.planning._weighted_laws import across_laws

CURVE = 101  # points of the trade-off curve
GRID = 1025  # shares at which the constraint is looked at, before the root between two of them
LEAST = 1e-6  # share; an optimum there is none
AT_LEAST = 1 + 1e-6  # times a least share: within it, at it
MATTERS = 1e-6  # nats
FLAT_POINTS = 2001  # shares among which those as good as the best are looked for

# Of the dynamic programming over several domains.
PARTS = 100  # that the whole is first cut into
WINDOW = 8  # finer steps either way
ROUNDS = 26  # halvings of the step: half the digits of a double

# Of the comparison of shares.
SPREADS = 257  # points at which the spread of losses is looked at
ROWS = 41  # that a share has in the table


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Mixture(Answer):
    """The largest domain share that the general loss allows (Que's usage 1).

    Attributes:
        share: r_d in [0, 1]; NaN where no share keeps the limit.
        domain_loss, general_loss: predicted losses there.
        change: change of the general loss against its start, relative.
        limit: general loss allowed, (1 + threshold)·start.
        curve: whole trade-off: ``share``, ``domain_loss``, ``general_loss``, ``change``,
            ``allowed``; with draws ``…_low`` and ``…_high`` of the losses.
    """

    share: float
    domain_loss: float
    general_loss: float
    change: float
    limit: float
    curve: pd.DataFrame


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LimitedMixture(Answer):
    """The best share where domain data are limited (Que's usage 2).

    Attributes:
        share: r_d in (0, 1].
        D: tokens in all, corpus_tokens / share, in the units of the fitted runs.
        loss: loss of the domain, predicted there.
        loss_alone: loss of the domain corpus alone, r_d = 1.
        interior_below: tokens of the domain below which mixing pays at all, that is, the
            optimum lies inside (0, 1); infinite if always, 0 if never.
    """

    share: float
    D: float
    loss: float
    loss_alone: float
    interior_below: float


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CriticalRatio(Answer):
    """The least share of the general corpus that keeps its loss at or below the start.

    Attributes:
        share: r_g in [0, 1]; NaN where no share does.
        loss: predicted loss there.
    """

    share: float
    loss: float


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DomainShares(Answer):
    """Shares of several domains.

    Attributes:
        shares: domain → share; all NaN where the general loss cannot keep its limit.
        losses: domain → predicted loss.
        general_share: share that is left for the general corpus.
        loss: weighted sum of the domains' losses.
    """

    shares: dict[str, float]
    losses: dict[str, float]
    general_share: float
    loss: float

    @property
    def quantities(self) -> dict[str, float]:
        """Shares, then losses, by name."""
        named = {f"r[{name}]": value for name, value in self.shares.items()}
        named["r[general]"] = self.general_share
        named |= {f"loss[{name}]": value for name, value in self.losses.items()}
        return named | {"loss": self.loss}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ReplayComparison(Answer):
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

    meet: float
    least_back: float
    spread_first: float
    spread_last: float
    table: pd.DataFrame


def _losses_there(answer: Mixture, alone: Mixture, given: dict[str, Any]) -> dict[str, float]:
    """Losses of an answer's share by a law alone, and how far the domain's lies above its own."""
    if math.isnan(answer.share):
        return {}
    both = sources(given["general"], given["domain"])
    others = law_inputs_of_each(both, given.get("inputs", {}), ("r",))
    general, domain = _both_losses(both, others, np.full(both[0].rows, answer.share))
    return {
        "domain_loss_there": float(domain[0]),
        "general_loss_there": float(general[0]),
        "regret": float(domain[0]) / alone.domain_loss - 1,
    }


@across_laws(_losses_there)
@checked
def optimal_mixture(
    general: Any,
    domain: Any,
    *,
    start: float,
    threshold: float = 0.03,
    level: ConfidenceLevel = LEVEL,
    **inputs: float,
) -> Mixture:
    """The largest domain share at which the general loss rises by a factor 1 + T at most.

    Args:
        general: fit of the general loss over the general share: a Fit, (law, params), or a
            bootstrap; its law has an input r.
        domain: fit of the domain loss over the domain share.
        start: general loss before the continual training, in nats.
        threshold: T, relative; 0 asks the loss to come back to its start.
        level: confidence level of the intervals.
        **inputs: values of the laws' other inputs, such as N and D.

    Raises:
        UsageError: an input is missing or unknown, or out of its domain.

    Example:
        >>> general, domain = (("dcpt", jl.simulate.TRUTHS[n]) for n in ("dcpt-general", "dcpt"))
        >>> plan = jl.planning.optimal_mixture(general, domain, start=2.8, N=1.8, D=2.0)
        >>> print(f"{plan.share:.3f} of the domain, loss {plan.domain_loss:.3f}")
        0.893 of the domain, loss 1.747
    """
    both = sources(general, domain)
    for source in both:
        require_inputs(source, "r")
    others = law_inputs_of_each(both, inputs, ("r",))
    limit = checked_number("start", start) * (1 + _checked_threshold(threshold))
    share = _largest_share(both[0].law, both[0].params, limit, others[0])
    losses = _both_losses(both, others, share)
    values = {
        "share": share,
        "domain_loss": losses[1],
        "general_loss": losses[0],
        "change": losses[0] / start - 1,
    }
    answer = measured(values, level, fewest_degrees(both))
    curve = _tradeoff_curve(both, others, start, limit, level)
    notes = _share_notes(answer["share"], curve, limit)
    shares = (1 - answer["share"], answer["share"])
    for source, what, r in zip(both, ("general", "domain"), shares, strict=True):
        notes += source_notes(source, what, **source.taken(inputs), r=r)
    notes += missing_draws_notes(share, "allowed share")
    bound = "r_d ≤ 1" if answer["share"] == 1 else "general loss"
    flat = _flat_shares(both, others, answer["share"], limit)
    return Mixture(**answer, limit=limit, curve=curve, binding=bound, flat=flat, notes=tuple(notes))


def _flat_shares(
    both: tuple[Source, ...], others: tuple[dict[str, float], ...], share: float, limit: float
) -> dict[str, tuple[float, float]]:
    """Allowed shares whose domain loss single runs could not tell from that of the best one."""
    noise = both[1].noise
    if math.isnan(share) or not noise > 0:
        return {}
    grid = np.unique(np.append(np.linspace(0.0, 1.0, FLAT_POINTS), share))
    with in_float64():
        general, domain = (
            np.asarray(
                source.law.at_once({k: v[0] for k, v in source.params.items()}, **inputs, r=r)
            )
            for source, inputs, r in zip(both, others, (1 - grid, grid), strict=True)
        )
    best = int(np.searchsorted(grid, share))
    at_limit = domain[best]  # its general loss is the limit, to rounding
    domain = np.where(general <= limit, domain, np.inf)
    domain[best] = at_limit
    low, high = as_good(domain, best, noise)
    return {"share": (float(grid[low]), float(grid[high]))}


@across_laws()
@checked
def critical_ratio(
    general: Any,
    *,
    start: float,
    threshold: float = 0.0,
    level: ConfidenceLevel = LEVEL,
    **inputs: float,
) -> CriticalRatio:
    """The least share of the general corpus at which its loss is back at its start.

    Gu 2024 (arXiv:2407.17467, the CMR scaling law) counts from the other side: its critical mixture
    ratio is the largest share of the domain that keeps the general loss within a tolerance.

    Args:
        general: fit of the general loss over its own share: a Fit, (law, params), or a bootstrap.
        start: general loss before the continual training, in nats.
        threshold: how far it may stay above, relative.
        level: confidence level of the interval.
        **inputs: values of the law's other inputs, such as N and D.

    Raises:
        UsageError: an input is missing or unknown, or out of its domain.

    Example:
        >>> general = ("dcpt", jl.simulate.TRUTHS["dcpt-general"])
        >>> print(f"{jl.planning.critical_ratio(general, start=2.86, N=1.8, D=2.0).share:.3f}")
        0.123
    """
    (source,) = sources(general)
    require_inputs(source, "r")
    (others,) = law_inputs_of_each((source,), inputs, ("r",))
    limit = checked_number("start", start) * (1 + _checked_threshold(threshold))
    other = _largest_share(source.law, source.params, limit, others)
    with in_float64():
        loss = np.asarray(source.law.at_once(source.params, r=1 - other, **others))
    answer, notes = measured({"share": 1 - other, "loss": loss}, level, source.degrees), []
    if math.isnan(answer["share"]):
        notes = [Note("never-back", "error", f"no share brings the loss back to {limit:.5g}")]
    elif answer["share"] == 0:
        message = f"the loss is at or below {limit:.5g} without any of its corpus"
        notes = [Note("always-back", "info", message)]
    notes += source_notes(source, **inputs, r=answer["share"])
    notes += missing_draws_notes(other, "critical ratio")
    bound = "r_g ≥ 0" if answer["share"] == 0 else "general loss"
    return CriticalRatio(**answer, binding=bound, notes=tuple(notes))


@across_laws()
@checked
def optimal_mixture_data_limited(
    domain: Any,
    corpus_tokens: float,
    *,
    total: float | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float,
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
        level: confidence level of the intervals.
        **inputs: values of the law's other inputs, such as N.

    Raises:
        UsageError: an input is missing or unknown, or less tokens in all than of the domain.

    Example:
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plan = jl.planning.optimal_mixture_data_limited(domain, 0.1, N=1.8)
        >>> print(f"{plan.share:.2f} of the domain; mixing pays below {plan.interior_below:.2f}")
        0.85 of the domain; mixing pays below 0.20
    """
    (source,) = sources(domain)
    require_inputs(source, "D", "r")
    tokens = checked_number("corpus_tokens", corpus_tokens)
    others = law_inputs(source, inputs, ("D", "r"))
    least = LEAST if total is None else tokens / checked_number("total", total)
    if least > 1:
        raise UsageError(f"total, {total:g}, is less than corpus_tokens, {tokens:g}")
    unit = source.scale("D") / source.units["D"]
    limits = np.log(SEARCH_LIMITS["D"]) - math.log(unit)
    share, loss, alone, below = _best_limited(
        source.law, source.params, tokens * source.units["D"], least, limits, others
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
    answer, notes = measured(values, level, source.degrees), []
    if math.isnan(answer["share"]):
        message = (
            "the loss falls without end as the other corpus is added: total= says how many "
            "tokens there can be"
        )
        notes = [Note("no-finite-answer", "error", message)]
    elif answer["share"] == 1:
        message = "mixing does not pay with so many tokens of the domain: see interior_below"
        notes = [Note("no-interior-optimum", "info", message)]
    notes += source_notes(source, **inputs, D=answer["D"], r=answer["share"])
    notes += missing_draws_notes(share, "optimum")
    bound = "domain tokens"
    if answer["share"] == 1:
        bound = "r_d ≤ 1"
    elif total is not None and answer["share"] <= least * AT_LEAST:
        bound = f"D ≤ {total:g}"
    return LimitedMixture(**answer, binding=bound, notes=tuple(notes))


@across_laws()
@checked
def optimal_domain_weights(
    domains: Mapping[str, Any],
    *,
    general: Any = None,
    start: float | None = None,
    threshold: float = 0.0,
    weights: Mapping[str, float] | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float,
) -> DomainShares:
    """Shares of several domains that make the weighted sum of their losses least.

    The loss of a corpus is taken to depend on its own share (and N, D) alone: fits of
    mixtures of two corpora are used as they are, and transfer between domains is left out.

    Args:
        domains: name → Fit, (law, params) or bootstrap of that domain's loss over its share.
        general: fit of the general loss over the general share; left out, nothing limits the
            domains but that shares add up to 1.
        start: general loss before, in nats; it may rise to (1 + threshold)·start.
        threshold: how far it may rise, relative.
        weights: domain → weight of its loss; all 1 by default.
        level: confidence level of the intervals.
        **inputs: values of the laws' other inputs, such as N and D.

    Raises:
        UsageError: an input is missing or unknown, general without start, or weights that do not
            fit.

    Example:
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> plan = jl.planning.optimal_domain_weights({"code": domain, "law": domain}, N=1.8, D=2.0)
        >>> {name: round(share, 3) for name, share in plan.shares.items()}
        {'code': 0.5, 'law': 0.5}
    """
    names = list(domains)
    if not names or (general is None) != (start is None):
        raise UsageError("give domains by name, and general= together with start=")
    every = sources(*domains.values(), *([] if general is None else [general]))
    for source in every:
        require_inputs(source, "r")
    others = law_inputs_of_each(every, inputs, ("r",))
    values = np.array([float((weights or {}).get(name, 1.0)) for name in names])
    if set(weights or {}) - set(names) or not (values >= 0).all() or not values.any():
        hints = "".join(nearest(name, names) for name in set(weights or {}) - set(names))
        raise UsageError(
            f"weights are for {', '.join(names)}; none negative, not all 0.{hints}",
            argument="weights",
            value=weights,
        )
    limit = np.inf if start is None else checked_number("start", start) * (1 + threshold)
    laws, params = (tuple(getattr(source, name) for source in every) for name in ("law", "params"))
    shares, losses = _best_shares(laws, len(names), params, values, limit, others)
    quantities = {f"r[{name}]": shares[:, k] for k, name in enumerate(names)}
    quantities |= {"r[general]": shares[:, -1], "loss": losses @ values}
    quantities |= {f"loss[{name}]": losses[:, k] for k, name in enumerate(names)}
    answer, notes = measured(quantities, level, fewest_degrees(every)), []
    if np.isnan(shares[0, 0]):
        message = f"not even the general corpus alone keeps its loss at {limit:.5g}"
        notes = [Note("no-share-allowed", "error", message)]
    for source, name, share in zip(every, [*names, "general"], shares[0], strict=False):
        notes += source_notes(source, name, **source.taken(inputs), r=float(share))
    notes += missing_draws_notes(shares[:, 0], "allowed mixture")
    notes.append(Note("own-share-only", "info", _OWN_SHARE))
    spent = shares[0, -1] < 1e-9 or general is None
    return DomainShares(
        shares={name: answer[f"r[{name}]"] for name in names},
        losses={name: answer[f"loss[{name}]"] for name in names},
        general_share=answer["r[general]"],
        **{key: answer[key] for key in ("loss", "interval", "replicates", "level")},
        binding="shares add up to 1" if spent else "general loss",
        notes=tuple(notes),
    )


_OWN_SHARE = (
    "every corpus' loss is taken to depend on its own share alone: what domains do for each "
    "other is not in it"
)


@checked
def compare_replay(
    fit: Any,
    shares: Sequence[float] | None = None,
    *,
    start: float | None = None,
    corpus_tokens: tuple[float, float] | None = None,
    tolerance: float = 0.01,
    level: ConfidenceLevel = LEVEL,
    **inputs: float,
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
        level: confidence level of the intervals.
        **inputs: values of the law's other inputs, such as N; observed: which rows.

    Raises:
        UsageError: shares, tokens or inputs that make no sense here.
        DataError: observed curves that have no tokens of the corpus in common.

    Example:
        >>> D = np.tile(np.geomspace(1e9, 1e11, 9), 2)
        >>> r = np.repeat([0.5, 0.9], 9)
        >>> seen = {"D": D, "r": r, "loss": 2 + 400 / (r * D) ** 0.3}
        >>> jl.planning.compare_replay(seen).meet  # the losses are equal at equal r·D
        0.0
    """
    if not isinstance(fit, tuple | FittedLaw | SupportsDraws):
        return _compare_observed(fit, shares, start, corpus_tokens, tolerance, level, inputs)
    if start is not None:
        raise UsageError("start= is for observed losses; by a law, critical_ratio tells the share")
    if shares is None:
        raise UsageError("give shares= of the corpus, two or more in (0, 1]")
    (source,) = sources(fit)
    require_inputs(source, "D", "r")
    r = np.array([checked_number("r", share, "fraction") for share in shares])
    if r.size < 2 or not (r > 0).all():
        raise UsageError(
            f"shares are two or more in (0, 1], not {list(shares)}", argument="shares", value=shares
        )
    others = law_inputs(source, inputs, ("D", "r"))
    low, high = _token_range(source, r, corpus_tokens)
    limits = tuple(math.log(tokens * source.units["D"]) for tokens in (low, high))
    meet, first, last = _meeting(source.law, source.params, r, limits, tolerance, others)
    values = {"meet": meet / source.units["D"], "spread_first": first, "spread_last": last}
    answer = measured(values, level, source.degrees) | {"least_back": math.nan}
    notes = _meeting_notes(answer["meet"], tolerance, low, high)
    for share in (r.min(), r.max()):
        at = {"D": high / share, "r": float(share)}
        notes += source_notes(source._replace(warnings=()), **inputs, **at)
    notes = list(dict.fromkeys([*notes, *source_notes(source)]))
    notes += missing_draws_notes(meet, "answer")
    table = _share_table(source, r, np.geomspace(low, high, ROWS), others, inputs)
    return ReplayComparison(
        **answer, table=table, binding="equal tokens of the corpus", notes=tuple(notes)
    )


def _compare_observed(
    observed: Any, shares: Any, start: float | None, corpus_tokens: Any, tolerance: float,
    level: float, inputs: Any,
) -> ReplayComparison:  # fmt: skip
    table, curves = read_shares(observed, shares, inputs)
    low, high = tokens_in_common(curves, corpus_tokens)
    meet, first, last = meeting(curves, (low, high), tolerance)
    notes = _meeting_notes(meet, tolerance, low, high)
    least, more = math.nan, []
    if start is not None:
        least, more = least_back(curves, checked_number("start", start))
    between = "observed losses; between two points of a curve straight over log r·D, beyond none"
    notes += [*more, Note("interpolated", "info", between)]
    return ReplayComparison(
        meet=meet, least_back=least, spread_first=first, spread_last=last, table=table,
        binding="equal tokens of the corpus", interval={}, replicates={}, level=level,
        notes=tuple(notes),
    )  # fmt: skip


# Two corpora.


def _checked_threshold(threshold: float) -> float:
    return checked_number("1 + threshold", 1 + threshold) - 1


@for_each_draw("law")
def _largest_share(law: Law, params: Any, limit: Any, others: Any) -> Any:
    """Largest share of the other corpus at which a corpus' loss keeps a limit, or NaN."""
    share = last_true(lambda other: law(params, r=1.0 - other, **others) <= limit, 0.0, 1.0, GRID)
    return jnp.where(jnp.isinf(share), jnp.nan, share)


def _both_losses(both: tuple[Source, ...], others: Any, share: np.ndarray) -> list[np.ndarray]:
    """General and domain losses (draws,) at each draw's share; (draws, K) at (1, K) shares."""
    losses = []
    with in_float64():
        for source, r, fixed in zip(both, (1 - share, share), others, strict=True):
            params = source.params
            if share.ndim == 2:
                params = {name: column[:, None] for name, column in params.items()}
            losses.append(np.asarray(source.law.at_once(params, r=r, **fixed)))
    return losses


def _tradeoff_curve(
    both: tuple[Source, ...], others: Any, start: float, limit: float, level: float
) -> pd.DataFrame:
    shares = np.linspace(0, 1, CURVE)
    general, domain = _both_losses(both, others, shares[None, :])
    table = {"share": shares, "domain_loss": domain[0], "general_loss": general[0]}
    table |= {"change": general[0] / start - 1, "allowed": general[0] <= limit}
    for name, values in (("domain_loss", domain), ("general_loss", general)):
        table |= interval_columns(name, values, level, fewest_degrees(both))
    return pd.DataFrame(table)


def _share_notes(share: float, curve: pd.DataFrame, limit: float) -> list[Note]:
    if math.isnan(share):
        lowest = curve.loc[curve["general_loss"].idxmin()]
        message = (
            f"no share keeps the general loss at {limit:.5g}; it comes down to "
            f"{lowest['general_loss']:.5g}, at r_d = {lowest['share']:.2g}: allow more, or train "
            "longer"
        )
        return [Note("no-share-allowed", "error", message)]
    notes, smaller = [], curve[curve["share"] <= share]
    if share == 1:
        message = f"every share keeps the general loss at or below {limit:.5g}"
        notes.append(Note("every-share-allowed", "info", message))
    if not smaller["allowed"].all():
        message = "the general loss does not rise steadily with r_d: smaller shares break the limit"
        notes.append(Note("general-loss-not-monotone", "warning", message))
    inside = smaller[smaller["allowed"]]
    if len(inside):
        best = inside.loc[inside["domain_loss"].idxmin()]
        if best["domain_loss"] < inside["domain_loss"].iloc[-1] - MATTERS:
            message = (
                f"the domain loss is lower at the smaller share {best['share']:.2f} "
                f"({best['domain_loss']:.5g}): by this fit more of the domain does not help"
            )
            notes.append(Note("domain-loss-rises", "warning", message))
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


# Several domains. The loss of every corpus depends on its own share alone, so that the problem is
# a sum of functions of one share each: dynamic programming over a grid of shares finds its optimum
# without asking for convexity, and ever finer grids around it give the digits.


def _min_plus(left: Any, right: Any) -> tuple[Any, Any]:
    """The min over j of left[s − j] + right[j] for every s, and the j: (A + B − 1,) each."""
    size, window = left.shape[0] + right.shape[0] - 1, right.shape[0]
    padded = jnp.pad(left, window - 1, constant_values=jnp.inf)
    at = jnp.arange(size)[:, None] - jnp.arange(window)[None, :] + window - 1
    sums = padded[at] + right[None, :]
    return sums.min(axis=1), sums.argmin(axis=1)


def _split(costs: list[Any], total: int) -> tuple[list[Any], Any]:
    """Indices j_i with Σ j_i = total and Σ costs_i[j_i] least, and that sum."""
    best, choices = costs[0], []
    for cost in costs[1:]:
        best, choice = _min_plus(best, cost)
        choices.append(choice)
    picked, left = [], jnp.asarray(total)
    for choice in reversed(choices):
        picked.append(choice[left])
        left = left - picked[-1]
    return [left, *reversed(picked)], best[total]


@for_each_draw("laws", "count")
def _best_shares(
    laws: tuple[Law, ...], count: int, params: Any, weights: Any, limit: Any, others: Any
) -> Any:
    """(domains + 1,) shares, the general one last, and (domains,) losses."""

    def loss(k: int, share: Any) -> Any:
        return laws[k](params[k], r=share, **others[k])

    def cost(k: int, share: Any) -> Any:
        inside = (share >= 0) & (share <= 1)
        share = jnp.clip(share, 0.0, 1.0)
        if k < count:
            value = weights[k] * loss(k, share)
            value = jnp.where(jnp.isnan(value), jnp.inf, value)
        elif len(laws) > count:  # the general corpus: a constraint, not a part of the sum
            value = jnp.where(loss(k, share) <= limit, 0.0, jnp.inf)
        else:
            value = jnp.zeros_like(share)
        return jnp.where(inside, value, jnp.inf)

    grid = jnp.arange(PARTS + 1) / PARTS
    picked, least = _split([cost(k, grid) for k in range(count + 1)], PARTS)
    shares = jnp.stack(picked) / PARTS
    steps = jnp.arange(-WINDOW, WINDOW + 1)

    def refine(n: Any, shares: Any) -> Any:
        h = 0.5 ** (n + 1.0) / PARTS
        near = [cost(k, shares[k] + steps * h) for k in range(count + 1)]
        picked, least = _split(near, WINDOW * (count + 1))
        moved = shares + (jnp.stack(picked) - WINDOW) * h
        return jnp.where(jnp.isfinite(least), moved, shares)

    shares = jax.lax.fori_loop(0, ROUNDS, refine, shares)
    shares = jnp.where(jnp.isfinite(least), jnp.clip(shares, 0.0, 1.0), jnp.nan)
    return shares, jnp.stack([loss(k, shares[k]) for k in range(count)])


# Shares compared at equal tokens of the corpus.


def _token_range(source: Source, r: np.ndarray, wanted: Any) -> tuple[float, float]:
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
    low, high = (checked_number("corpus_tokens", tokens) for tokens in wanted)
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
    source: Source, shares: np.ndarray, tokens: np.ndarray, others: Any, inputs: Any
) -> pd.DataFrame:
    r, seen = (axis.ravel() for axis in np.meshgrid(shares, tokens, indexing="ij"))
    params = {name: column[0] for name, column in source.params.items()}
    D = seen / r
    with in_float64():
        loss = np.asarray(source.law.at_once(params, D=D * source.units["D"], r=r, **others))
    N = inputs["N"] * source.scale("N") if "N" in inputs else np.nan
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
