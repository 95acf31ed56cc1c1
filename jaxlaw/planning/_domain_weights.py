"""The best mixture of several domains, each with a law of its own share; beyond the papers.

The loss of every corpus depends on its own share alone, so that the problem is a sum of functions
of one share each: dynamic programming over a grid of shares finds its optimum without asking for
convexity, and ever finer grids around it give the digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._quantities import SHARE, checked_number
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    context_of,
    fewest_degrees,
    law_inputs_of_each,
    missing_draws_notes,
    numbers_by_name,
    require_inputs,
    source_notes,
)
from jaxlaw.planning._optimise import for_each_draw
from jaxlaw.planning.mixture import OWN_SHARE
from jaxlaw.uncertainty import LEVEL, as_draws, with_intervals

PARTS = 100  # that the whole is first cut into
WINDOW = 8  # finer steps either way
ROUNDS = 26  # halvings of the step: half the digits of a double


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
    general_share: float = field(metadata={"unit": SHARE})
    loss: float = field(metadata={"unit": TARGET})
    picture = "domain_shares"
    column_units: ClassVar[Mapping[str, str]] = {"r": SHARE}

    def sentence(self) -> str:
        """The shares and the loss that they make least."""
        if math.isnan(self.loss):
            return ""
        parts = [f"{self.written(f'r[{name}]')} {name}" for name in (*self.shares, "general")]
        return f"{', '.join(parts)}: weighted loss {self.written('loss', level=True)}"

    @property
    def quantities(self) -> dict[str, float]:
        """Shares, then losses, by name."""
        named = {f"r[{name}]": value for name, value in self.shares.items()}
        named["r[general]"] = self.general_share
        named |= {f"loss[{name}]": value for name, value in self.losses.items()}
        return named | {"loss": self.loss}


@checked
def optimal_domain_weights(
    domains: Mapping[str, Any],
    *,
    general: Any = None,
    start: float | None = None,
    threshold: float = 0.0,
    weights: Mapping[str, float] | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> DomainShares:
    """Shares of several domains that make the weighted sum of their losses least.

    The loss of a corpus is taken to depend on its own share (and N, D) alone: fits of
    mixtures of two corpora are used as they are, and transfer between domains is left out.

    Args:
        domains: name → Fit, (law, params) or bootstrap of that domain's loss over its share.
        general: fit of the general loss over the general share; left out, nothing limits the
            domains but that shares add up to 1.
        start: general loss before, in nats; it may rise to (1 + threshold)·start.
        threshold: relative rise that is allowed.
        weights: domain → weight of its loss, of every domain; all 1 by default.
        at: values of the laws' other inputs, such as N and D.
        level: confidence level of the intervals.

    Raises:
        UsageError: an input is missing or unknown, general without start, or weights that do not
            fit.

    Example:
        >>> domain = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> domains, at = {"code": domain, "law": domain}, {"N": 1.8, "D": 2.0}
        >>> plan = jl.planning.optimal_domain_weights(domains, at=at)
        >>> {name: round(share, 3) for name, share in plan.shares.items()}
        {'code': 0.5, 'law': 0.5}

    Shell:
        jaxlaw plan optimal-domain-weights code=code.json law=law.json
            --general general.json --start 2.9 --at N=2e9 --at D=1e10
    """
    names = list(domains)
    if not names or (general is None) != (start is None):
        raise UsageError("give domains by name, and general= together with start=")
    every = as_draws(*domains.values(), *([] if general is None else [general]))
    for source in every:
        require_inputs(source, "r")
    others = law_inputs_of_each(every, at, ("r",))
    values = np.ones(len(names))
    if weights is not None:
        values = numbers_by_name(names, weights, "weights")
    limit = np.inf if start is None else checked_number("start", start) * (1 + threshold)
    laws = tuple(source.law for source in every)
    params = tuple(source.values for source in every)
    shares, losses = _best_shares(laws, len(names), params, values, limit, others)
    quantities = {f"r[{name}]": shares[:, k] for k, name in enumerate(names)}
    quantities |= {"r[general]": shares[:, -1], "loss": losses @ values}
    quantities |= {f"loss[{name}]": losses[:, k] for k, name in enumerate(names)}
    answer, notes = with_intervals(quantities, level, fewest_degrees(every)), []
    if np.isnan(shares[0, 0]):
        message = f"not even the general corpus alone keeps its loss at {limit:.5g}"
        notes = [Note("no-share-allowed", "error", message)]
    for source, name, share in zip(every, [*names, "general"], shares[0], strict=False):
        r = float(share) / source.units["r"]
        notes += source_notes(source, name, **source.inputs_taken(at or {}), r=r)
    notes += missing_draws_notes(shares[:, 0], "allowed mixture")
    notes.append(Note("own-share-only", "info", OWN_SHARE))
    spent = shares[0, -1] < 1e-9 or general is None
    first = {**every[0].inputs_taken(at or {}), "r": float(shares[0, 0]) / every[0].units["r"]}
    return DomainShares(
        shares={name: answer[f"r[{name}]"] for name in names},
        losses={name: answer[f"loss[{name}]"] for name in names},
        general_share=answer["r[general]"],
        **{key: answer[key] for key in ("loss", "interval", "draws", "level")},
        binding="shares add up to 1" if spent else "general loss",
        notes=tuple(notes),
        **context_of(DomainShares, every[0], first),
    )


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
