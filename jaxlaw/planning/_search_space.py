"""Which sizes, tokens and shares a plan may choose: the user's limits, the corpus, the epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlaw._quantities import checked_number
from jaxlaw.errors import UsageError, nearest
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Inputs,
    checked_tokens,
    in_unit_of_runs,
    law_inputs,
    require_inputs,
)
from jaxlaw.planning._budgets import AT_LIMIT, SEARCH_LIMITS, Cost, Limits, total_cost
from jaxlaw.uncertainty import Draws, as_draws

UserLimits = Mapping[str, tuple[float | str | None, float | str | None]]
MANY_EPOCHS = 40  # at which repeating is worthless (Muennighoff 2023, figure 1)


class SearchSpace(NamedTuple):
    """A checked question of size and data.

    Attributes:
        source: law with its draws.
        share: whether the share is searched with size and data.
        others: the law's other inputs, in its own units.
        user: input → (least, largest) as the user gave them, None for an open side.
        limits: the same as the programs take them, the search's own where the user set none.
        corpus: tokens of the corpus, in the user's units, or None.
        epochs: largest D/U, raw, and whether it is that of the runs; None without one.
        cost: FLOPs of a run, those of serving included, as programs take it; None for 6·N·D.
    """

    source: Draws
    share: bool
    others: dict[str, float]
    user: dict[str, tuple[Any, Any]]
    limits: Limits
    corpus: float | None
    epochs: tuple[float, bool] | None = None
    cost: Any = None


def search_space(
    fit: Any, limits: UserLimits | None, corpus: Any, max_epochs: float | None, at: Inputs,
    cost: Cost | None = None, served: Any = None,
) -> SearchSpace:  # fmt: skip
    """What is searched, checked: the law, its other inputs, limits on size and tokens, the cost."""
    (source,) = as_draws(fit)
    inputs = at or {}
    share = isinstance(inputs.get("r"), str) and inputs["r"] == "best"
    free = ("N", "D", "r") if share else ("N", "D")
    require_inputs(source, *free)
    if corpus is not None:
        if not share:
            raise UsageError("corpus_tokens limits r·D; let r be searched: at={'r': 'best'}")
        corpus = checked_tokens(source, "corpus_tokens", corpus)
    others = law_inputs(source, {k: v for k, v in inputs.items() if k != "r" or not share}, free)
    user = _checked_limits(source, limits, free)
    log_limits, epochs = _log_limits(source, user, corpus), epochs_limit(source, max_epochs)
    if epochs is not None:
        low, high = log_limits.D
        most = math.log(epochs[0] * _unique_tokens(source, others))
        log_limits = log_limits._replace(D=(low, max(low, min(high, most))))
    cost = total_cost(cost, source, served)
    return SearchSpace(source, share, others, user, log_limits, corpus, epochs, cost)


def epochs_limit(source: Draws, most: float | None) -> tuple[float, bool] | None:
    """The largest D/U, raw, and whether it is that of the fitted runs; None without one."""
    if "U" not in source.law.input_names:
        if most is not None:
            raise UsageError(
                f"law {source.law.name} has no unique tokens U, which max_epochs is for; "
                "limits={'D': (None, most)} limits its tokens"
            )
        return None
    if most is not None:
        return checked_number("max_epochs", most), False
    least = source.joint.get("U/D", (math.nan, math.nan))[0] * source.scale("U") / source.scale("D")
    return (1 / least, True) if least > 0 else None


def _checked_limits(
    source: Draws, limits: UserLimits | None, allowed: Sequence[str]
) -> dict[str, tuple[Any, Any]]:
    """The user's limits, with None for an open side."""
    checked = {}
    for name, (low, high) in (limits or {}).items():
        if name not in allowed:
            raise UsageError(
                f"there are no limits on {name} here; limit {' or '.join(allowed)}."
                f"{nearest(str(name), allowed)}"
            )
        domain = "fraction" if name == "r" else "positive"
        low, high = (
            None
            if x is None
            else checked_number(f"limits of {name}", in_unit_of_runs(source, name, x), domain)
            for x in (low, high)
        )
        if low is not None and high is not None and low > high:
            raise UsageError(
                f"limits of {name}: the least, {low:g}, is above the largest, {high:g}"
            )
        checked[name] = (low, high)
    return checked


def _log_limits(source: Draws, user: Mapping[str, Any], corpus: float | None) -> Limits:
    def raw(name: str) -> tuple[float, ...]:
        pairs = zip(user.get(name, (None, None)), SEARCH_LIMITS[name], strict=True)
        scale = 1.0 if name == "r" else source.scale(name)
        return tuple(limit if own is None else own * scale for own, limit in pairs)

    log_corpus = math.inf
    if corpus is not None:
        log_corpus = math.log(corpus * source.scale("D"))
    logs = (tuple(map(math.log, raw(name))) for name in ("N", "D"))
    return Limits(*logs, r=raw("r"), corpus=log_corpus, near=middle_ratio(source))


def tried_ratios(source: Draws) -> tuple[float, float]:
    """Logarithms of the least and largest D/N of the runs, raw; NaN where they are unknown."""
    low, high = source.joint.get("D/N", (math.nan, math.nan))
    if not 0 < low <= high < math.inf:
        sizes, tokens = (source.ranges.get(name, (math.nan, math.nan)) for name in ("N", "D"))
        low, high = tokens[0] / sizes[0], tokens[1] / sizes[1]  # of runs that grow in both
        low, high = min(low, high), max(low, high)
    if not 0 < low <= high < math.inf:
        return math.nan, math.nan
    unit = source.scale("D") / source.scale("N")
    return math.log(low * unit), math.log(high * unit)


def middle_ratio(source: Draws) -> float:
    """Logarithm of a D/N, raw, in the middle of those of the runs; NaN where they are unknown."""
    return sum(tried_ratios(source)) / 2


def _unique_tokens(source: Draws, others: Mapping[str, float]) -> float:
    """U as a raw count, of other inputs in the law's own units."""
    (spec,) = (spec for spec in source.law.inputs if spec.name == "U")
    return others["U"] * spec.unit


def epochs_of(source: Draws, others: Mapping[str, float], D: Any) -> Any:
    """D/U of tokens in the user's units; other inputs are in the law's own."""
    return D * source.scale("D") / _unique_tokens(source, others)


def epochs_notes(
    source: Draws, others: Mapping[str, float], D: Any, limit: tuple[float, bool] | None,
    other: str = "max_epochs= sets another limit",
) -> list[Note]:  # fmt: skip
    """How often the unique tokens are gone over, where that is often.

    Args:
        source: law with its draws.
        others: values of its other inputs.
        D: tokens.
        limit: largest D/U, and whether it is that of the runs.
        other: how the caller's user sets another limit.
    """
    if "U" not in source.law.input_names:
        return []
    epochs, (most, of_runs) = np.max(epochs_of(source, others, D)), limit or (math.inf, False)
    if of_runs and epochs >= most * (1 - AT_LIMIT):
        message = (
            f"held back at {most:.4g} epochs, the most that the runs have: the law goes on to "
            f"more, which no run shows; {other}"
        )
        return [Note("epochs-limited", "warning", message)]
    if epochs <= MANY_EPOCHS or not np.isfinite(epochs):
        return []
    message = (
        f"the tokens are {epochs:.3g} epochs of U; Muennighoff 2023 finds repeating worthless at "
        f"{MANY_EPOCHS}"
    )
    return [Note("many-epochs", "warning", message)]
