"""Replay ratios compared at equal compute per corpus (Zheng 2024, §5.2 and figure 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
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
)
from jaxlaw.planning._solve import root
from jaxlaw.planning.replay_curves import common_tokens, least_back, meeting, read_shares

GRID = 257  # points at which the spread is looked at
CURVE = 41  # rows a share has in the table


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayComparison(Answer):
    """Losses of one corpus at several shares of it, by the tokens of that corpus alone.

    Attributes:
        meet: tokens of the corpus from which on the losses lie within ``tolerance`` of each
            other: 0 if everywhere, infinite if nowhere in the range looked at.
        least_back: the least observed share whose run ends at or below the loss at the start;
            NaN where none does, without ``start``, and from a law.
        spread_first, spread_last: largest less smallest loss at the ends of that range, nats.
        table: ``r``, ``corpus_tokens``, ``corpus_compute`` (FLOPs, 6·N·r·D; NaN for a law
            without N), ``D`` (tokens in all), ``loss``.
    """

    meet: float
    least_back: float
    spread_first: float
    spread_last: float
    table: pd.DataFrame


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
        fit: of the corpus' loss over its own share, with inputs D and r: a Fit, (law, params),
            or a bootstrap. Or what was observed: a file or table with columns D, r, loss, and
            N in single parameters if compute is wanted.
        shares: of the corpus, two or more, in (0, 1]; left out, all that were observed.
        start: observed losses: this one before training, for the least share that brings it
            back. By a law :func:`jaxlaw.planning.critical_ratio` tells it for any N and D.
        corpus_tokens: (least, largest) tokens r·D to compare at, in the units of the fitted
            runs; left out, those that every share has seen (within the fitted range of D).
        tolerance: nats within which losses count as met.
        level: of the intervals.
        **inputs: the law's other inputs, such as N; observed: which rows.

    Raises:
        UsageError: shares, tokens or inputs that make no sense here.
        DataError: observed curves that have no tokens of the corpus in common.
    """
    if not (isinstance(fit, tuple) or hasattr(fit, "law") or hasattr(fit, "fit")):
        return _observed(fit, shares, start, corpus_tokens, tolerance, level, inputs)
    if start is not None:
        raise UsageError("start= is for observed losses; by a law, critical_ratio tells the share")
    if shares is None:
        raise UsageError("give shares= of the corpus, two or more in (0, 1]")
    (source,) = sources(fit)
    need(source, "D", "r")
    r = np.array([in_domain("r", one, "fraction") for one in shares])
    if r.size < 2 or not (r > 0).all():
        raise UsageError(f"shares are two or more in (0, 1], not {list(shares)}")
    given = held(source, inputs, ("D", "r"))
    low, high = _range(source, r, corpus_tokens)
    ends = tuple(math.log(end * source.units["D"]) for end in (low, high))
    with in_float64():
        meet, first, last = map(
            np.asarray, _meeting(source.law, source.params, r, ends, tolerance, given)
        )
        table = _table(source, r, np.geomspace(low, high, CURVE), given, inputs)
    values = {"meet": meet / source.units["D"], "spread_first": first, "spread_last": last}
    answer = measured(values, level) | {"least_back": math.nan}
    notes = _on_meeting(answer["meet"], tolerance, low, high)
    for share in (r.min(), r.max()):
        at = {"D": high / share, "r": float(share)}
        notes += on_source(source._replace(doubts=()), **inputs, **at)
    notes = list(dict.fromkeys([*notes, *on_source(source)]))
    notes += on_replicates(meet, "answer")
    return ReplayComparison(
        **answer, table=table, binding="equal tokens of the corpus", notes=tuple(notes)
    )


def _observed(
    observed: Any, shares: Any, start: float | None, corpus_tokens: Any, tolerance: float,
    level: float, inputs: Any,
) -> ReplayComparison:  # fmt: skip
    table, curves = read_shares(observed, shares, inputs)
    low, high = common_tokens(curves, corpus_tokens)
    meet, first, last = meeting(curves, (low, high), tolerance)
    notes = _on_meeting(meet, tolerance, low, high)
    least, more = math.nan, []
    if start is not None:
        least, more = least_back(curves, in_domain("start", start))
    notes += [*more, Note("interpolated", "info", _BETWEEN)]
    return ReplayComparison(
        meet=meet, least_back=least, spread_first=first, spread_last=last, table=table,
        binding="equal tokens of the corpus", interval={}, replicates={}, level=level,
        notes=tuple(notes),
    )  # fmt: skip


_BETWEEN = "observed losses; between two points of a curve straight over log r·D, beyond none"


def _range(source: Source, r: np.ndarray, given: Any) -> tuple[float, float]:
    if given is None:
        if "D" not in source.ranges:
            raise UsageError("(law, params) knows no fitted range: give corpus_tokens=(low, high)")
        low, high = source.ranges["D"]
        given = (low * r.max(), high * r.min())
        if not given[0] < given[1]:
            raise UsageError(
                "no tokens r·D are within the fitted range of D at all of these shares; give "
                "corpus_tokens=(low, high), or shares closer to each other"
            )
    low, high = (in_domain("corpus_tokens", end) for end in given)
    if not low < high:
        raise UsageError(f"corpus_tokens are (least, largest), not ({low:g}, {high:g})")
    return low, high


@compiled(static_argnames="law")
def _meeting(law: Law, params: Any, shares: Any, ends: Any, tolerance: Any, given: Any) -> Any:
    """(P,) tokens from which on the losses are within the tolerance; spread at both ends."""

    def one(params: Any) -> Any:
        def apart(log_tokens: Any) -> Any:
            losses = law(params, D=jnp.exp(log_tokens) / shares, r=shares, **given)
            return losses.max() - losses.min()

        grid = jnp.linspace(*ends, GRID)
        wide = jax.vmap(apart)(grid) > tolerance
        last = GRID - 1 - jnp.argmax(wide[::-1])
        edge = root(
            lambda x: tolerance - apart(x), grid[last], grid[jnp.minimum(last + 1, GRID - 1)]
        )
        meet = jnp.where(wide[-1], jnp.inf, jnp.where(wide.any(), jnp.exp(edge), 0.0))
        spreads = apart(grid[0]), apart(grid[-1])
        return jnp.where(jnp.isnan(spreads[0]), jnp.nan, meet), *spreads

    return jax.vmap(one)(params)


def _table(
    source: Source, shares: np.ndarray, tokens: np.ndarray, given: Any, inputs: Any
) -> pd.DataFrame:
    r, seen = (axis.ravel() for axis in np.meshgrid(shares, tokens, indexing="ij"))
    point = {name: column[0] for name, column in source.params.items()}
    D = seen / r
    loss = np.asarray(source.law.at_once(point, D=D * source.units["D"], r=r, **given))
    N = inputs["N"] * source.single("N") if "N" in inputs else np.nan
    compute = 6 * N * seen * source.single("D")
    columns = {"r": r, "corpus_tokens": seen, "corpus_compute": compute, "D": D, "loss": loss}
    return pd.DataFrame(columns)


def _on_meeting(meet: float, tolerance: float, low: float, high: float) -> list[Note]:
    where = f"between {low:.3g} and {high:.3g} tokens of the corpus"
    if math.isinf(meet):
        message = f"the losses are not within {tolerance:g} nats of each other at {high:.3g} tokens"
        return [Note("never-meet", "info", message)]
    if meet == 0:
        return [Note("always-met", "info", f"within {tolerance:g} nats everywhere {where}")]
    return []
