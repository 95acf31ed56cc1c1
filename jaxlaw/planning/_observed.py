"""What observed curves say without a law: data in, data out, no interval.

The loss envelope (Hoffmann 2022, §3.1; Zheng 2024, §4.2), data transferred between curves (Zheng
2024, figure 2), shares of a corpus compared by the tokens of it (Zheng 2024, figure 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._typed import ResampleCount, checked
from jaxlaw.data._runs import read_columns
from jaxlaw.errors import DataError, UsageError

Cost = Callable[[Any, Any], Any]


@checked
def loss_envelope(
    table: Any,
    levels: ResampleCount | Sequence[float] = 30,
    *,
    run: str | None = None,
    cost: Callable[..., Any] | None = None,
) -> pd.DataFrame:
    """The lowest loss at each level of compute, over all runs: what compute laws are fitted to.

    The loss envelope of Hoffmann 2022, §3.1, and Zheng 2024, §4.2. Between two points of a run
    its loss is taken as straight in log compute; runs say nothing outside their own points.

    This is data, not a fit, and has no interval: to draw runs anew could only raise a lowest
    loss. The law fitted to it has: ``jl.bootstrap("loss-compute", envelope, groups="N")`` (or
    ``groups="run"``) draws runs whole, since levels at which one run is lowest share its error.

    Args:
        table: columns ``N``, ``D`` (raw counts) and ``loss``, a row for each point of a
            curve; or ``C`` in place of ``D``, FLOPs. A file, a DataFrame, or a dict of arrays.
        levels: FLOPs, or how many, evenly in log compute over all runs.
        run: column that tells runs apart; left out, every N is a run.
        cost: function ``f(N, D)`` in FLOPs, on arrays; 6·N·D if None.

    Returns:
        One row for each level that some run passes: ``C``, ``loss``, ``N``, and ``run`` if
        named. ``jl.fit("loss-compute-e", …)`` (Zheng 2024, eq. 3) takes it, and ``"loss-compute"``,
        the form without an irreducible loss that Zheng 2024, §4.2, prints.

    Raises:
        UsageError: levels that are none, or N and D that give no FLOPs.
        DataError: a column is missing, or no run passes any level.

    Example:
        >>> curves = jl.simulate.experiment("from-scratch").table
        >>> jl.planning.loss_envelope(curves, 5).columns.tolist()
        ['C', 'loss', 'N']
    """
    by = run or "N"
    texts = [by] if run else []
    optional = ["C", *(name for name in ("N", "D") if name != by)]
    needed = {by: ", which tells runs apart", "loss": ""}
    table = read_columns(table, needed, optional, texts=texts, name="table").table
    if "C" not in table:
        missing = [name for name in ("N", "D") if name not in table]
        if missing:
            raise DataError(f"the table lacks {' and '.join(missing)}; or give C, FLOPs")
        table = table.assign(C=_flops(cost, table["N"], table["D"]))
    table = table[np.isfinite(table[["C", "loss"]].to_numpy(float)).all(axis=1) & (table["C"] > 0)]
    if not table.size:
        raise DataError("no row has a finite loss and compute above 0")
    at = np.asarray(levels, float)
    if not (at.size and (at > 0).all() and np.isfinite(at).all()):
        raise UsageError("levels are FLOPs above 0, or how many levels, 1 or more")
    if at.ndim == 0:
        at = np.geomspace(table["C"].min(), table["C"].max(), int(at))
    runs = [part.sort_values("C") for _, part in table.groupby(by, sort=True)]
    losses = np.stack(
        [
            np.interp(np.log(at), np.log(part["C"]), part["loss"], left=np.nan, right=np.nan)
            for part in runs
        ]
    )
    passed = np.isfinite(losses).any(axis=0)
    if not passed.any():
        raise DataError("no run passes any of these levels of compute")
    lowest = np.nanargmin(losses[:, passed], axis=0)
    found = {"C": at[passed], "loss": np.nanmin(losses[:, passed], axis=0)}
    for name in dict.fromkeys([*(["N"] if "N" in table else []), by]):
        found[name] = [runs[k][name].iloc[0] for k in lowest]
    return pd.DataFrame(found)


@checked
def observed_transfer(
    scratch: Any, continual: Any, *, by: str = "N", cost: Cost | None = None
) -> pd.DataFrame:
    """Effective data transferred and compute saved of observed curves (Zheng 2024, figure 2).

    At every point of a continual curve: the tokens at which the curve from scratch of the same
    size first comes to that loss. Of the curve from scratch the closest one that falls
    throughout is taken (isotonic regression), and between its points the monotone cubic; it says
    nothing outside them. This is data, and has no interval;
    :func:`jaxlaw.planning.data_transferred` answers by fitted laws, beyond the runs too.

    Args:
        scratch: columns ``N``, ``D`` and ``loss``, a row for each point of a curve from scratch:
            a file, a DataFrame, or a dict of arrays.
        continual: the same columns of curves from a base.
        by: column that pairs the curves; one curve from scratch for each of its values.
        cost: function ``f(N, D)`` in FLOPs, on arrays; 6·N·D if None.

    Returns:
        A row for each point of the continual curves whose size has one from scratch: ``N`` (or
        ``by``), ``D``, ``loss``, ``scratch_D``, ``transferred`` (scratch_D − D) and ``saved``
        ((C_scratch − C_continual)/C_scratch). NaN where the curve from scratch has no such loss:
        it has not come down to it, or starts below it.

    Raises:
        DataError: a column is missing, no curve has a partner, or none of their losses meet.

    Example:
        >>> D = np.geomspace(1e8, 1e10, 20)
        >>> scratch = {"N": [1e9] * 20, "D": D, "loss": 2 + 400 / D**0.3}
        >>> ahead = {"N": [1e9] * 20, "D": D, "loss": 2 + 400 / (2 * D) ** 0.3}
        >>> table = jl.planning.observed_transfer(scratch, ahead)
        >>> print(f"{table['saved'].median():.0%}")
        50%
    """
    ours, theirs = (
        _curves(table, what, by, cost)
        for table, what in ((continual, "continual"), (scratch, "scratch"))
    )
    shared = [value for value in ours if value in theirs]
    if not shared:
        raise DataError(
            f"no {by} has a curve of both kinds: scratch has {', '.join(map(str, theirs))}, "
            f"continual {', '.join(map(str, ours))}"
        )
    found = pd.concat(
        [
            ours[value].assign(scratch_D=_tokens_at(theirs[value], ours[value]["loss"].to_numpy()))
            for value in shared
        ],
        ignore_index=True,
    )
    if found["scratch_D"].isna().all():
        raise DataError("no continual loss lies within the losses of the curve from scratch")
    found["transferred"] = found["scratch_D"] - found["D"]
    if cost is None:  # at equal size; N need not be known
        ratio = found["D"] / found["scratch_D"]
    else:
        spent, needed = (_flops(cost, found["N"], found[name]) for name in ("D", "scratch_D"))
        ratio = spent / needed
    found["saved"] = 1 - ratio
    return found[[by, "D", "loss", "scratch_D", "transferred", "saved"]]


def _flops(cost: Callable[..., Any] | None, N: pd.Series, D: pd.Series) -> np.ndarray:
    """FLOPs of observed runs, 6·N·D or what the user's own function has them cost."""
    if cost is None:
        return 6 * N.to_numpy() * D.to_numpy()
    try:
        return np.asarray(cost(N.to_numpy(float), D.to_numpy(float)), float)
    except Exception as error:  # the user's own function
        raise UsageError(f"N and D do not give FLOPs ({error}); check columns and cost") from error


def _curves(table: Any, what: str, by: str, cost: Cost | None) -> dict[Any, pd.DataFrame]:
    """The points of each curve, tokens rising, by what pairs it."""
    needed = {by: ", which pairs the curves", "D": ", the tokens", "loss": ""}
    if cost is not None:
        needed["N"] = ", which the cost takes"
    texts = [] if by == "N" and cost is not None else [by]
    name = f"the {what} table"
    table = read_columns(table, needed, texts=texts, name=name).table
    good = np.isfinite(table[["D", "loss"]]).all(axis=1) & (table["D"] > 0)
    if not good.any():
        raise DataError(f"no row of {name} has a finite loss and tokens above 0")
    return {value: part.sort_values("D") for value, part in table[good].groupby(by, sort=True)}


def _tokens_at(curve: pd.DataFrame, loss: np.ndarray) -> np.ndarray:
    """Tokens at which a curve comes to each loss; NaN where it has none such."""
    from scipy.interpolate import PchipInterpolator
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(curve["loss"].to_numpy(), increasing=False)
    first = fitted.blocks[:-1]  # where each level begins; its points count as one, in their middle
    levels = fitted.x[first]
    log_D = np.add.reduceat(np.log(curve["D"].to_numpy()), first) / np.diff(fitted.blocks)
    if len(levels) < 2:
        return np.full(len(loss), np.nan)
    return np.exp(PchipInterpolator(levels[::-1], log_D[::-1], extrapolate=False)(loss))
