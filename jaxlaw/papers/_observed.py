"""What observed curves say without a law of the loss: data in, data out.

The loss envelope (Hoffmann 2022, §3.1; Zheng 2024, §4.2), data transferred between curves (Zheng
2024, figure 2) and the law of it (§3.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression, least_squares
from scipy.stats import t

from jaxlaw._answer import Answer
from jaxlaw._arrays import numbers_of
from jaxlaw._quantities import Quantity
from jaxlaw._rounding import merged
from jaxlaw._typed import ConfidenceLevel, ResampleCount, checked
from jaxlaw.data import read_columns
from jaxlaw.errors import DataError, UsageError, listed
from jaxlaw.notes import Note
from jaxlaw.uncertainty import LEVEL


@checked
def loss_envelope(
    table: Any,
    levels: ResampleCount | Sequence[float] = 30,
    *,
    run: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """The lowest loss at each level of compute, over all runs: what compute laws are fitted to.

    The loss envelope of Hoffmann 2022, §3.1, and Zheng 2024, §4.2. Between two points of a run
    its loss is taken as straight in log compute; runs say nothing outside their own points.

    This is data, not a fit, and has no interval: to draw runs anew could only raise a lowest
    loss. The law fitted to it has: ``jl.bootstrap("loss-compute", envelope, groups="N")`` (or
    ``groups="run"``) draws runs whole, since levels at which one run is lowest share its error.

    Args:
        table: columns ``N``, ``D`` (raw counts) and ``loss``, a row for each point of a
            curve; or ``C``, FLOPs, which are 6·N·D without it. A file, a DataFrame, or a dict of
            arrays.
        levels: FLOPs, or how many, evenly in log compute over all runs.
        run: column that distinguishes runs; left out, every N is a run.
        columns: name → column, where they are called otherwise.

    Returns:
        One row for each level that some run passes: ``C``, ``loss``, ``N``, and ``run`` if
        named. ``jl.fit("loss-compute-e", …)`` (Zheng 2024, eq. 3) takes it, and ``"loss-compute"``,
        the form without an irreducible loss that Zheng 2024, §4.2, prints.

    Raises:
        UsageError: levels that are none.
        DataError: a column is missing, or no run passes any level.

    Example:
        >>> curves = jl.simulate.experiment("from-scratch").table
        >>> jl.papers.loss_envelope(curves, 5).columns.tolist()
        ['C', 'loss', 'N']
    """
    by = run or "N"
    optional = ["C", *(name for name in ("N", "D") if name != by)]
    needed = {by: ", which distinguishes runs", "loss": ""}
    read = read_columns(
        table, needed, optional, columns or {}, texts=[run] if run else [], name="table"
    )
    table = read.table
    if "C" not in table:
        if missing := [name for name in ("N", "D") if name not in table]:
            raise DataError(f"{read.source} has neither {' and '.join(missing)} nor C, FLOPs")
        table = table.assign(C=6.0 * table["N"] * table["D"])
    table = table[np.isfinite(table[["C", "loss"]].to_numpy(float)).all(axis=1) & (table["C"] > 0)]
    if not table.size:
        raise DataError("no row has a finite loss and compute above 0")
    at = numbers_of("levels", levels)
    if not (at.size and (at > 0).all() and np.isfinite(at).all()):
        raise UsageError("levels are FLOPs above 0, or how many levels, 1 or more")
    if at.ndim == 0:
        at = np.geomspace(table["C"].min(), table["C"].max(), int(at))
    # A level at which a run stops is one that it passes, however its compute was rounded.
    both = merged(np.r_[table["C"], at])
    table, at = table.assign(C=both[: len(table)]), both[len(table) :]
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
    envelope = {"C": at[passed], "loss": np.nanmin(losses[:, passed], axis=0)}
    for name in dict.fromkeys([*(["N"] if "N" in table else []), by]):
        envelope[name] = [runs[k][name].iloc[0] for k in lowest]
    return pd.DataFrame(envelope)


@checked
def observed_transfer(
    scratch: Any, continual: Any, *, columns: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Effective data transferred and compute saved of observed curves (Zheng 2024, figure 2).

    At every point of a continual curve: the tokens at which the curve from scratch of the same
    size first reaches that loss. Of the curve from scratch the closest one that falls
    throughout is taken (isotonic regression), and between its points the monotone cubic; it says
    nothing outside them. This is data, and has no interval;
    :func:`jaxlaw.planning.data_transferred` answers by fitted laws, beyond the runs too.

    Args:
        scratch: columns ``N``, ``D`` and ``loss``, a row for each point of a curve from scratch:
            a file, a DataFrame, or a dict of arrays.
        continual: the same columns of curves from a base.
        columns: name → column of both tables, where they are called otherwise.

    Returns:
        A row for each point of the continual curves whose size has one from scratch: ``N``, ``D``,
        ``loss``, ``scratch_D``, ``transferred`` (scratch_D − D) and ``saved`` ((C_scratch −
        C_continual)/C_scratch at 6·N·D FLOPs). NaN where the curve from scratch has no such loss:
        it has not come down to it, or starts below it.

    Raises:
        DataError: a column is missing, no curve has a partner, or none of their losses meet.

    Example:
        >>> D = np.geomspace(1e8, 1e10, 20)
        >>> scratch = {"N": [1e9] * 20, "D": D, "loss": 2 + 400 / D**0.3}
        >>> ahead = {"N": [1e9] * 20, "D": D, "loss": 2 + 400 / (2 * D) ** 0.3}
        >>> table = jl.papers.observed_transfer(scratch, ahead)
        >>> print(f"{table['saved'].median():.0%}")
        50%
    """
    curves = []
    needed = {"N": ", which pairs the curves", "D": ", the tokens", "loss": ""}
    for name, given in {"continual": continual, "scratch": scratch}.items():
        name = f"the {name} table"
        table = read_columns(given, needed, (), columns or {}, texts=["N"], name=name).table
        table = table[np.isfinite(table[["D", "loss"]]).all(axis=1) & (table["D"] > 0)]
        if table.empty:
            raise DataError(f"no row of {name} has a finite loss and tokens above 0")
        curves.append({size: part.sort_values("D") for size, part in table.groupby("N")})
    ours, theirs = curves
    shared = [size for size in ours if size in theirs]
    if not shared:
        raise DataError(
            f"no N has a curve of both kinds: scratch has {listed(theirs)}, continual "
            f"{listed(ours)}"
        )
    parts = []
    for size in shared:
        curve, part = theirs[size], ours[size].assign(scratch_D=np.nan)
        fitted = isotonic_regression(curve["loss"].to_numpy(), increasing=False)
        first = fitted.blocks[
            :-1
        ]  # where levels begin; the points of one count as one, in their middle
        levels = fitted.x[first]
        log_D = np.add.reduceat(np.log(curve["D"].to_numpy()), first) / np.diff(fitted.blocks)
        if len(levels) > 1:
            reached = PchipInterpolator(levels[::-1], log_D[::-1], extrapolate=False)
            part["scratch_D"] = np.exp(reached(part["loss"].to_numpy()))
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    if table["scratch_D"].isna().all():
        raise DataError("no continual loss lies within the losses of the curve from scratch")
    table["transferred"] = table["scratch_D"] - table["D"]
    table["saved"] = 1 - table["D"] / table["scratch_D"]
    return table[["N", "D", "loss", "scratch_D", "transferred", "saved"]]


@checked
def transfer_law(
    transfers: Any, *, columns: Mapping[str, str] | None = None, level: ConfidenceLevel = LEVEL
) -> Answer:
    """Effective data transferred as a law k·D^a·N^b of tokens and size (Zheng 2024, §3.2).

    Least squares of log(D + k·D^a·N^b), the tokens that a run from scratch needs: those are what
    curves show, and where little is transferred, their noise is most of it. The points of a curve
    share its errors, so intervals are of the jackknife that leaves out whole sizes, with
    Student's t.

    Args:
        transfers: table that :func:`jaxlaw.papers.observed_transfer` returned: ``N``, ``D`` and
            ``transferred``. Rows without a number are left out.
        columns: name → column, where they are called otherwise.
        level: confidence level of the intervals.

    Returns:
        Answer with ``k``, of D, N and what is transferred counted one by one, and the exponents
        ``a`` of the tokens and ``b`` of the size (above 0 larger models transfer more), with
        intervals from three sizes on; ``scatter``, the standard deviation of the logs of the tokens
        from scratch around the law. Table ``table``: the points that were fitted, ``N``, ``D`` and
        ``transferred``.

    Raises:
        DataError: a column is missing, fewer than two sizes or tokens, or nothing is transferred.

    Example:
        >>> D = np.tile(np.geomspace(1e8, 1e10, 5), 4)
        >>> N = np.repeat([1e8, 3e8, 1e9, 3e9], 5)
        >>> law = jl.papers.transfer_law({"N": N, "D": D, "transferred": 2 * D**0.6 * N**0.3})
        >>> round(law.k, 6), round(law.a, 6), round(law.b, 6)
        (2.0, 0.6, 0.3)
    """
    needed = {"N": ", the parameters", "D": ", the tokens", "transferred": ""}
    read = read_columns(transfers, needed, (), columns or {}, name="table")
    table = read.table[np.isfinite(read.table).all(axis=1)]
    table = table[(table["N"] > 0) & (table["D"] > 0) & (table["D"] + table["transferred"] > 0)]
    positive, sizes = table[table["transferred"] > 0], table["N"].unique()
    if positive[["N", "D"]].nunique().min() < 2 or len(positive) < 3:
        raise DataError(
            f"{read.source} has {len(positive)} rows with data transferred, of "
            f"{positive['N'].nunique()} sizes; the law needs three or more, of two sizes and two "
            "numbers of tokens"
        )
    coefficients, scatter = _least_squares(table)
    notes, reach = [], np.full(3, np.nan)
    if len(positive) < len(table):
        message = (
            f"{len(table) - len(positive)} of {len(table)} points transfer nothing: the law has "
            "no such case; rely on it at sizes and tokens where something is transferred"
        )
        notes.append(Note("nothing-transferred", "warning", message))
    without = [table[table["N"] != size] for size in sizes]
    if all(rows.loc[rows["transferred"] > 0, ["N", "D"]].nunique().min() > 1 for rows in without):
        others = np.array([_least_squares(rows)[0] for rows in without])
        spread = np.sqrt((len(sizes) - 1) * others.var(axis=0))
        reach = spread * t.ppf((1 + level) / 2, len(sizes) - 1)
    else:
        message = f"{len(sizes)} sizes are too few to leave one out: no interval; add sizes"
        notes.append(Note("few-resamples", "warning", message))
    numbers = np.stack([coefficients, coefficients - reach, coefficients + reach])
    numbers[:, 0] = np.exp(numbers[:, 0])
    return Answer(
        kind="transfer law", sentence="tokens transferred = {k} · D^{a} · N^{b}", level=level,
        quantities={
            name: Quantity(value, "", 1.0, low, high)
            for name, (value, low, high) in zip("kab", numbers.T.tolist(), strict=True)
        }
        | {"scatter": Quantity(scatter)},
        tables={"table": table[["N", "D", "transferred"]].reset_index(drop=True)},
        units={"N": ("parameters", 1.0), "D": ("tokens", 1.0), "transferred": ("tokens", 1.0)},
        notes=notes,
    )  # fmt: skip


def _least_squares(table: pd.DataFrame) -> tuple[np.ndarray, float]:
    """The coefficients (3,) log k, a and b, and the standard deviation of what they leave."""
    log_D, log_N = np.log(table["D"].to_numpy()), np.log(table["N"].to_numpy())
    needed, more = np.log(table["D"] + table["transferred"]).to_numpy(), table["transferred"] > 0
    # Centred, or the logs and their constant are nearly one direction.
    inputs = np.stack([np.ones_like(log_D), log_D - log_D.mean(), log_N - log_N.mean()], axis=1)

    def left(coefficients):
        return np.logaddexp(log_D, inputs @ coefficients) - needed

    start = np.linalg.lstsq(inputs[more], np.log(table["transferred"][more]), rcond=None)[0]
    best = least_squares(left, start, "3-point", xtol=1e-12, ftol=1e-12, gtol=1e-12)
    log_k = best.x[0] - best.x[1] * log_D.mean() - best.x[2] * log_N.mean()
    return np.append(log_k, best.x[1:]), math.sqrt(2 * best.cost / max(len(table) - 3, 1))
