"""Observed losses of one corpus at several shares of it, read and compared between their points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw.data._runs import Runs, read_runs
from jaxlaw.errors import DataError, UsageError
from jaxlaw.notes import Note
from jaxlaw.planning._answers import in_domain

_HALVINGS = 80


class Curve(NamedTuple):
    """One share's points in the order of its tokens: tokens of the corpus and loss, (points,)."""

    tokens: np.ndarray
    loss: np.ndarray

    def at(self, tokens: Any) -> np.ndarray:
        """The loss, straight in log tokens between two points."""
        return np.interp(np.log(tokens), np.log(self.tokens), self.loss)


def read_shares(
    observed: Any, shares: Sequence[float] | None, inputs: Mapping[str, float]
) -> tuple[pd.DataFrame, dict[float, Curve]]:
    """The rows compared, with ``corpus_tokens`` and ``corpus_compute``; a curve for each share.

    Args:
        observed: columns ``D``, ``r``, ``loss`` and, if known, ``N``: a file, a table, a dict.
        shares: those to keep; None keeps all above 0.
        inputs: values of other columns, whose rows are kept.

    Raises:
        UsageError: a column is missing, several sizes, or a share that was not observed.
        DataError: fewer than two shares of two points.
    """
    table = observed if isinstance(observed, Runs | Mapping) else read_runs(observed)
    table = pd.DataFrame(getattr(table, "table", table)).reset_index(drop=True)
    missing = [name for name in ("D", "r", "loss", *inputs) if name not in table]
    if missing:
        raise UsageError(f"the table lacks {', '.join(missing)}; it has {', '.join(table)}")
    for name, value in inputs.items():
        table = table[np.isclose(table[name], in_domain(name, value), rtol=1e-9, atol=0)]
    if "N" in table and table["N"].nunique() > 1:
        sizes = ", ".join(f"{size:g}" for size in sorted(table["N"].unique()))
        raise UsageError(f"the table has several sizes; say which with N= ({sizes})")
    table = _compared(table, shares)
    curves = {}
    for r, rows in table.groupby("r"):
        if len(rows) < 2 or rows["corpus_tokens"].duplicated().any():
            raise DataError(f"share {r:g} needs two points or more, at different tokens")
        curves[float(r)] = Curve(rows["corpus_tokens"].to_numpy(), rows["loss"].to_numpy(float))
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
                known = ", ".join(f"{one:g}" for one in np.unique(seen))
                raise UsageError(f"share {share:g} was not observed; observed: {known}")
        kept = np.isclose(seen[:, None], np.asarray(shares, float), rtol=1e-9, atol=0).any(axis=1)
        table = table[kept]
    tokens = table["r"] * table["D"]
    size = table["N"] if "N" in table else np.nan
    table = table.assign(corpus_tokens=tokens, corpus_compute=6 * size * tokens)
    columns = ["r", "corpus_tokens", "corpus_compute", "D", "loss"]
    return table.sort_values(["r", "corpus_tokens"], ignore_index=True)[columns]


def common_tokens(
    curves: Mapping[float, Curve], given: tuple[float, float] | None
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
    least, largest = (in_domain("corpus_tokens", end) for end in given)
    slack = 1e-9 * high
    if not low - slack <= least < largest <= high + slack:
        raise UsageError(
            f"corpus_tokens must lie within {low:.4g} to {high:.4g}, which every share has seen"
        )
    return least, largest


def meeting(
    curves: Mapping[float, Curve], ends: tuple[float, float], tolerance: float
) -> tuple[float, float, float]:
    """Tokens from which on the losses are within the tolerance; the spread at both ends.

    Between two points the spread of straight lines is convex: it is within the tolerance where
    it is so at both, and else leaves it once.
    """

    def spread(tokens: Any) -> np.ndarray:
        return np.ptp([curve.at(tokens) for curve in curves.values()], axis=0)

    inner = np.concatenate([curve.tokens for curve in curves.values()])
    knots = np.unique([ends[0], *inner[(inner > ends[0]) & (inner < ends[1])], ends[1]])
    spreads = spread(knots)
    first, last = float(spreads[0]), float(spreads[-1])
    wide = np.flatnonzero(spreads > tolerance)
    if not wide.size:
        return 0.0, first, last
    if wide[-1] == len(knots) - 1:
        return float("inf"), first, last
    low, high = np.log(knots[wide[-1] : wide[-1] + 2])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if spread(np.exp(middle)) > tolerance else (low, middle)
    return float(np.exp(high)), first, last


def least_back(curves: Mapping[float, Curve], start: float) -> tuple[float, list[Note]]:
    """The least share whose run ends at or below a loss, NaN if none does; and what to know."""
    ends = {r: float(curve.loss[-1]) for r, curve in sorted(curves.items())}
    back = [r for r, loss in ends.items() if loss <= start]
    if not back:
        r = min(ends, key=ends.get)
        message = f"no share brings the loss back to {start:.5g}; {r:g} ends at {ends[r]:.5g}"
        return float("nan"), [Note("never-back", "error", message)]
    notes, below = [], [r for r in ends if r < back[0]]
    if below:
        message = (
            f"the least share lies between {below[-1]:g}, which ends at {ends[below[-1]]:.5g}, and "
            f"{back[0]:g}, which ends at {ends[back[0]]:.5g}: the start was {start:.5g}"
        )
        notes.append(Note("between-shares", "info", message))
    above = [r for r in ends if r > back[0] and ends[r] > start]
    if above:
        message = f"share {above[0]:g}, above it, ends higher than the start again: noise?"
        notes.append(Note("not-monotone", "warning", message))
    return back[0], notes
