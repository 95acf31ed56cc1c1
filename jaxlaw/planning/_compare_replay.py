"""Shares of a corpus compared at equal tokens of it: what replay costs (Zheng 2024, figure 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Quantity, checked_number, in_unit
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import read_columns
from jaxlaw.errors import DataError, UsageError, listed
from jaxlaw.fitting import FittedLaw
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    checked_tokens,
    context_of,
    law_inputs,
    missing_draws_notes,
    range_notes,
    require_inputs,
    source_notes,
)
from jaxlaw.planning._solve import for_each_draw, last_true
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, has_draws, with_intervals

_SHOWN = 20  # rows of the table for people
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
    corpus_tokens: tuple[Quantity, Quantity] | None = None,
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
