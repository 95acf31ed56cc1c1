"""Shares of a corpus compared at equal tokens of it: what replay costs (Zheng 2024, figure 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import FittedLaw
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    Answer,
    checked_number,
    law_inputs,
    measured,
    missing_draws_notes,
    range_notes,
    require_inputs,
    source_notes,
)
from jaxlaw.planning._observed import least_back, meeting, read_shares, tokens_in_common
from jaxlaw.planning._solve import for_each_draw, last_true
from jaxlaw.uncertainty import Draws, as_draws, has_draws

SPREADS = 257  # points at which the spread of losses is looked at
ROWS = 41  # that a share has in the table


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
    picture = "replay_losses"


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
    answer = measured(values, level, source.degrees) | {"least_back": math.nan}
    notes = _meeting_notes(answer["meet"], tolerance, low, high)
    for share in (r.min(), r.max()):
        at = {"D": high / share, "r": float(share)}
        notes += range_notes(source, **inputs, **at)
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
        binding="equal tokens of the corpus", interval={}, draws={}, level=level,
        notes=tuple(notes),
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
    source: Draws, shares: np.ndarray, tokens: np.ndarray, others: Any, inputs: Any
) -> pd.DataFrame:
    r, seen = (axis.ravel() for axis in np.meshgrid(shares, tokens, indexing="ij"))
    params = {name: column[0] for name, column in source.values.items()}
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
