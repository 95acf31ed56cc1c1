"""The share of a mixture: what the general loss allows, what little domain data ask for.

Que 2024, §4.3, usages 1 and 2, and App. G.1 and G.2; Zheng 2024, §5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.planning._allocation import SEARCH_LIMITS
from jaxlaw.planning._answers import (
    LEVEL,
    Answer,
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
from jaxlaw.planning._solve import minimise, root

CURVE = 101  # points of the trade-off curve
GRID = 1025  # shares at which the constraint is looked at, before the root between two of them
LEAST = 1e-6  # share; an optimum there is none
MATTERS = 1e-6  # nats


@dataclass(frozen=True, eq=False, kw_only=True)
class Mixture(Answer):
    """The largest domain share that the general loss allows (Que's usage 1).

    Attributes:
        share: r_d in [0, 1]; NaN where no share keeps the limit.
        domain_loss, general_loss: predicted there.
        change: of the general loss against its start, relative.
        limit: the general loss allowed, (1 + threshold)·start.
        curve: the whole trade-off: ``share``, ``domain_loss``, ``general_loss``, ``change``,
            ``allowed``; with replicates ``…_low`` and ``…_high`` of the losses.
    """

    share: float
    domain_loss: float
    general_loss: float
    change: float
    limit: float
    curve: pd.DataFrame


@dataclass(frozen=True, eq=False, kw_only=True)
class LimitedMixture(Answer):
    """The best share where domain data are limited (Que's usage 2).

    Attributes:
        share: r_d in (0, 1].
        D: tokens in all, corpus_tokens / share, in the units of the fitted runs.
        loss: of the domain, predicted there.
        loss_alone: of the domain corpus alone, r_d = 1.
        interior_below: tokens of the domain below which mixing pays at all, that is, the
            optimum lies inside (0, 1); infinite if always, 0 if never.
    """

    share: float
    D: float
    loss: float
    loss_alone: float
    interior_below: float


@dataclass(frozen=True, eq=False, kw_only=True)
class CriticalRatio(Answer):
    """The least share of the general corpus that keeps its loss at or below the start.

    Attributes:
        share: r_g in [0, 1]; NaN where no share does.
        loss: predicted there.
    """

    share: float
    loss: float


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
        general: of the general loss over the general share: a Fit, (law, params), or a
            bootstrap; its law has an input r.
        domain: likewise of the domain loss over the domain share.
        start: the general loss before the continual training, in nats.
        threshold: T, relative; 0 asks the loss to come back to its start.
        level: of the intervals.
        **inputs: the laws' other inputs, such as N and D.

    Raises:
        UsageError: an input is missing or unknown, or out of its domain.
    """
    both = sources(general, domain)
    given = [_inputs_of(one, both, inputs) for one in both]
    limit = in_domain("start", start) * (1 + _checked_threshold(threshold))
    laws = tuple(one.law for one in both)
    with in_float64():
        share = np.asarray(_largest(laws[0], both[0].params, limit, given[0]))
        losses = _both_losses(laws, both, given, share)
    answer = measured(
        {
            "share": share,
            "domain_loss": losses[1],
            "general_loss": losses[0],
            "change": losses[0] / start - 1,
        },
        level,
    )
    curve = _curve(laws, both, given, start, limit, level)
    notes = [
        *_on_share(answer["share"], curve, limit),
        *_sources_noted(both, inputs, answer["share"]),
        *on_replicates(share, "allowed share"),
    ]
    bound = "r_d ≤ 1" if answer["share"] == 1 else "general loss"
    return Mixture(**answer, limit=limit, curve=curve, binding=bound, notes=tuple(notes))


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

    Args:
        general: of the general loss over its own share: a Fit, (law, params), or a bootstrap.
        start: that loss before the continual training, in nats.
        threshold: how far it may stay above, relative.
        level: of the interval.
        **inputs: the law's other inputs, such as N and D.
    """
    (source,) = sources(general)
    given = _inputs_of(source, (source,), inputs)
    limit = in_domain("start", start) * (1 + _checked_threshold(threshold))
    with in_float64():
        other = np.asarray(_largest(source.law, source.params, limit, given))
        loss = np.asarray(source.law.at_once(source.params, r=1 - other, **given))
    answer = measured({"share": 1 - other, "loss": loss}, level)
    notes = [
        *_on_critical(answer["share"], limit),
        *on_source(source, **inputs, r=answer["share"]),
        *on_replicates(other, "critical ratio"),
    ]
    bound = "r_g ≥ 0" if answer["share"] == 0 else "general loss"
    return CriticalRatio(**answer, binding=bound, notes=tuple(notes))


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
        domain: of the domain loss over the domain share, with inputs D and r: a Fit,
            (law, params), or a bootstrap.
        corpus_tokens: of the domain, in the units of the fitted runs.
        total: the most tokens that can be trained on in all, in the same units.
        level: of the intervals.
        **inputs: the law's other inputs, such as N.
    """
    (source,) = sources(domain)
    need(source, "D", "r")
    tokens = in_domain("corpus_tokens", corpus_tokens)
    given = held(source, inputs, ("D", "r"))
    least = LEAST if total is None else tokens / in_domain("total", total)
    if least > 1:
        raise UsageError(f"total, {total:g}, is less than corpus_tokens, {tokens:g}")
    walls = np.log(SEARCH_LIMITS["D"]) - math.log(_single(source, "D"))
    with in_float64():
        share, loss, alone, below = map(
            np.asarray,
            _limited(source.law, source.params, tokens * source.units["D"], least, walls, given),
        )
    none = (share <= LEAST * (1 + 1e-6)) if total is None else np.zeros(len(share), bool)
    share, loss = np.where(none, np.nan, share), np.where(none, np.nan, loss)
    values = {
        "share": share,
        "D": tokens / share,
        "loss": loss,
        "loss_alone": alone,
        "interior_below": below / source.units["D"],
    }
    answer = measured(values, level)
    at = {"D": answer["D"], "r": answer["share"]}
    notes = [
        *_on_limited(answer["share"]),
        *on_source(source, **inputs, **at),
        *on_replicates(share, "optimum"),
    ]
    return LimitedMixture(
        **answer, binding=_limited_binding(answer["share"], least, total), notes=tuple(notes)
    )


def _single(source: Source, name: str) -> float:
    return source.single(name) / source.units[name]


def _limited_binding(share: float, least: float, total: float | None) -> str:
    if share == 1:
        return "r_d ≤ 1"
    if total is not None and share <= least * (1 + 1e-6):
        return f"D ≤ {total:g}"
    return "domain tokens"


def _checked_threshold(threshold: float) -> float:
    return in_domain("1 + threshold", 1 + threshold) - 1


def _inputs_of(source: Source, among: tuple[Source, ...], inputs: Mapping[str, float]) -> dict:
    """The inputs that this law takes, of those given for all of them."""
    need(source, "r")
    known = {name for one in among for name in one.law.input_names} - {"r"}
    for name in inputs:
        if name not in known:
            raise UsageError(f"no law here takes an input '{name}'.{nearest(name, known)}")
    mine = {k: v for k, v in inputs.items() if k in source.law.input_names}
    return held(source, mine, ("r",))


def _sources_noted(both: Any, inputs: Mapping[str, float], share: float) -> list[Note]:
    notes = []
    for one, what, r in zip(both, ("general", "domain"), (1 - share, share), strict=True):
        mine = {k: v for k, v in inputs.items() if k in one.law.input_names}
        notes += on_source(one, what, **mine, r=r)
    return notes


@compiled(static_argnames="law")
def _largest(law: Law, params: Any, limit: Any, given: Any) -> Any:
    """(P,) largest share of the other corpus at which a corpus' loss keeps a limit, or NaN."""

    def one(params: Any) -> Any:
        def excess(other: Any) -> Any:
            return law(params, r=1.0 - other, **given) - limit

        grid = jnp.linspace(0.0, 1.0, GRID)
        kept = jax.vmap(excess)(grid) <= 0
        last = GRID - 1 - jnp.argmax(kept[::-1])
        edge = root(excess, grid[last], grid[jnp.minimum(last + 1, GRID - 1)])
        edge = jnp.where(last == GRID - 1, 1.0, edge)
        return jnp.where(kept.any(), edge, jnp.nan)

    return jax.vmap(one)(params)


def _both_losses(laws: Any, both: Any, given: Any, share: np.ndarray) -> list[np.ndarray]:
    own = (1 - share, share)
    return [
        np.asarray(law.at_once(one.params, r=r, **fixed))
        for law, one, r, fixed in zip(laws, both, own, given, strict=True)
    ]


def _curve(
    laws: Any, both: Any, given: Any, start: float, limit: float, level: float
) -> pd.DataFrame:
    shares = np.linspace(0, 1, CURVE)
    columns = [
        one._replace(params={name: v[:, None] for name, v in one.params.items()}) for one in both
    ]
    with in_float64():
        general, domain = _both_losses(laws, columns, given, shares)
    table = {"share": shares, "domain_loss": domain[0], "general_loss": general[0]}
    table |= {"change": general[0] / start - 1, "allowed": general[0] <= limit}
    for name, values in (("domain_loss", domain), ("general_loss", general)):
        table |= with_ends(name, values, level)
    return pd.DataFrame(table)


def _on_share(share: float, curve: pd.DataFrame, limit: float) -> list[Note]:
    if math.isnan(share):
        message = (
            f"no share keeps the general loss at {limit:.5g}; it comes down to "
            f"{curve['general_loss'].min():.5g}, at r_d = "
            f"{curve['share'][curve['general_loss'].idxmin()]:.2g}: allow more, or train longer"
        )
        return [Note("no-share-allowed", "error", message)]
    notes = []
    if share == 1:
        message = f"every share keeps the general loss at or below {limit:.5g}"
        notes.append(Note("every-share-allowed", "info", message))
    inside = curve[curve["allowed"] & (curve["share"] <= share)]
    if not curve["allowed"][curve["share"] <= share].all():
        message = "the general loss does not rise steadily with r_d: smaller shares break the limit"
        notes.append(Note("general-loss-not-monotone", "warning", message))
    if len(inside):
        best = inside.loc[inside["domain_loss"].idxmin()]
        if best["domain_loss"] < inside["domain_loss"].iloc[-1] - MATTERS:
            message = (
                f"the domain loss is lower at the smaller share {best['share']:.2f} "
                f"({best['domain_loss']:.5g}): by this fit more of the domain does not help"
            )
            notes.append(Note("domain-loss-rises", "warning", message))
    return notes


def _on_critical(share: float, limit: float) -> list[Note]:
    if math.isnan(share):
        return [Note("never-back", "error", f"no share brings the loss back to {limit:.5g}")]
    if share == 0:
        message = f"the loss is at or below {limit:.5g} without any of its corpus"
        return [Note("always-back", "info", message)]
    return []


@compiled(static_argnames="law")
def _limited(law: Law, params: Any, tokens: Any, least: Any, walls: Any, given: Any) -> Any:
    """(P,) best share, its loss, loss at share 1, tokens below which it lies inside."""

    def one(params: Any) -> Any:
        def loss(r: Any, tokens: Any) -> Any:
            return law(params, D=tokens / r, r=r, **given)

        def falling(log_tokens: Any) -> Any:
            return -jax.grad(loss)(1.0, jnp.exp(log_tokens))

        log_r = minimise(lambda x: loss(jnp.exp(x), tokens), jnp.log(least), 0.0, 513)
        share = jnp.where(log_r > -1e-12, 1.0, jnp.exp(log_r))
        below = jnp.exp(root(falling, *walls))
        below = jnp.where(falling(walls[0]) >= 0, 0.0, below)
        below = jnp.where(falling(walls[1]) <= 0, jnp.inf, below)
        return share, loss(share, tokens), loss(1.0, tokens), below

    return jax.vmap(one)(params)


def _on_limited(share: float) -> list[Note]:
    if math.isnan(share):
        message = (
            "the loss falls without end as the other corpus is added: total= says how many "
            "tokens there can be"
        )
        return [Note("no-finite-answer", "error", message)]
    if share == 1:
        message = "mixing does not pay with so many tokens of the domain: see interior_below"
        return [Note("no-interior-optimum", "info", message)]
    return []
