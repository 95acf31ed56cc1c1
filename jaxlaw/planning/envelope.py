"""The loss–compute frontier that curves themselves show (Zheng 2024, §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._tables import read_table
from jaxlaw._typed import ResampleCount, checked
from jaxlaw.errors import DataError, UsageError


@checked
def lowest_losses(
    table: Any,
    levels: ResampleCount | Sequence[float] = 30,
    *,
    run: str | None = None,
    cost: Callable[..., Any] | None = None,
) -> pd.DataFrame:
    """The lowest loss at each level of compute, over all runs: what compute laws fit.

    Between two points of a run its loss is taken as straight in log compute; runs say nothing
    outside their own points.

    This is data, not a fit, and has no interval: to draw runs anew could only raise a lowest
    loss. The law fitted to it has: ``jl.bootstrap("loss-compute", found, groups="N")`` (or
    ``groups="run"``) draws runs whole, since levels at which one run is lowest share its error.

    Args:
        table: columns ``N``, ``D`` (single ones) and ``loss``, a row for each point of a
            curve; or ``C`` in place of ``D``, FLOPs. A DataFrame, or a dict of arrays.
        levels: FLOPs, or how many, evenly in log compute over all runs.
        run: the column that tells runs apart; left out, every N is a run.
        cost: ``f(N, D)`` in FLOPs, on arrays; 6·N·D if None.

    Returns:
        One row for each level that some run passes: ``C``, ``loss``, ``N``, and ``run`` if
        named. ``jl.fit("loss-compute-e", …)`` (Zheng 2024, eq. 3) takes it, and ``"loss-compute"``,
        the form without an irreducible loss that Zheng 2024, §4.2, prints.

    Raises:
        UsageError: a column is missing. DataError: no run passes any level.
    """
    table = read_table(table, "table").frame
    by = run or "N"
    missing = [name for name in {by, "loss"} if name not in table]
    missing += [] if "C" in table or {"N", "D"} <= set(table) else ["D (or C)"]
    if missing:
        raise UsageError(
            f"the table lacks {', '.join(missing)}; it has {', '.join(map(str, table))}"
        )
    if "C" not in table:
        N, D = table["N"], table["D"]
        try:
            compute = np.asarray(6 * N * D if cost is None else cost(N, D), float)
        except Exception as error:  # the user's own function, or columns of text
            raise UsageError(
                f"N and D do not give FLOPs ({error}); check columns and cost"
            ) from error
        table = table.assign(C=compute)
    good = np.isfinite(table[["C", "loss"]].to_numpy(float)).all(axis=1) & (table["C"] > 0)
    if not (table := table[good]).size:
        raise DataError("no row has a finite loss and compute above 0")
    at = np.asarray(levels, float)
    if not (at.size and (at > 0).all() and np.isfinite(at).all()):
        raise UsageError("levels are FLOPs above 0, or how many levels, 1 or more")
    if at.ndim == 0:
        at = np.geomspace(table["C"].min(), table["C"].max(), int(at))
    runs = [part.sort_values("C") for _, part in table.groupby(by, sort=True)]
    losses = np.stack([_along(part, np.log(at)) for part in runs])
    passed = np.isfinite(losses).any(axis=0)
    if not passed.any():
        raise DataError("no run passes any of these levels of compute")
    first = np.argmin(np.where(np.isnan(losses), np.inf, losses), axis=0)[passed]
    found = {"C": at[passed], "loss": np.nanmin(losses[:, passed], axis=0)}
    for name in dict.fromkeys([*(["N"] if "N" in table else []), by]):
        found[name] = [runs[k][name].iloc[0] for k in first]
    return pd.DataFrame(found)


def _along(part: pd.DataFrame, log_C: np.ndarray) -> np.ndarray:
    """A run's loss at levels within its points, NaN outside."""
    return np.interp(
        log_C, np.log(part["C"].to_numpy()), part["loss"].to_numpy(), left=np.nan, right=np.nan
    )
