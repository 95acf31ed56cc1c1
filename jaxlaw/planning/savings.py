"""From scratch against continual without a law of size and data (Zheng 2024).

Between two laws of the lowest loss over compute (§4.2), and between the curves themselves
(figure 2). The base's own training is not counted, as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._tables import read_table
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import DataError, UsageError
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    SAME,
    AnswerTable,
    Source,
    in_domain,
    on_source,
    sources,
    with_ends,
)
from jaxlaw.planning._solve import root
from jaxlaw.planning.placing import Cost

_WALLS = (0.0, math.log(1e60))  # of log compute in FLOPs


@checked
def frontier_savings(
    scratch: Any, continual: Any, compute: Sequence[float], *, level: ConfidenceLevel = LEVEL
) -> AnswerTable:
    """Compute saved at equal loss, by two laws of the lowest loss over compute (Zheng 2024, §4.2).

    The paper's two fits, as it prints them, save 48, 45 and 43 % at 1e17, 1e20 and 1e23 FLOPs:
    ``frontier_savings(*(jl.published()[f"zheng-2024-frontier-{one}"] for one in ("scratch",
    "cpt")), [1e17, 1e20, 1e23])``.

    Args:
        scratch, continual: laws of the compute C alone, such as ``loss-compute-e`` fitted to
            what :func:`jaxlaw.planning.lowest_losses` returned: each a Fit, (law, params), or a
            bootstrap.
        compute: FLOPs (K,) spent from scratch.
        level: of the intervals.

    Returns:
        AnswerTable of K rows: ``compute`` and ``loss`` from scratch, ``continual_compute`` to
        that loss, and ``saved``, the share 1 − continual_compute/compute; with replicates
        ``…_low`` and ``…_high`` of the last three. A continual law that never comes to the loss
        has an infinite compute, and saves −∞.

    Raises:
        UsageError: a law that takes more or less than C, or a compute that is not positive.
    """
    both = tuple(_of_compute(one) for one in sources(scratch, continual))
    budgets = np.array([in_domain("compute", one) for one in np.atleast_1d(compute)])
    if not budgets.size:
        raise UsageError("compute is empty; give one budget or more")
    with in_float64():
        loss, log_C = _at_equal_loss(
            both[0].law, both[1].law, both[0].params, both[1].params, np.log(budgets)
        )
    found = {"loss": np.asarray(loss), "continual_compute": np.exp(np.asarray(log_C))}
    found["saved"] = 1 - found["continual_compute"] / budgets
    table = {"compute": budgets} | {name: values[0] for name, values in found.items()}
    for name, values in found.items():
        table |= with_ends(name, values, level)
    notes: list[Note] = []
    ends = (budgets, found["continual_compute"][0])
    for one, what, used in zip(both, ("from-scratch", "continual"), ends, strict=True):
        for at in {used.min(), used.max()}:
            notes += on_source(one, what, C=at / one.units["C"])
    return AnswerTable(
        pd.DataFrame(table), level, (*_on_savings(found["saved"][0]), *dict.fromkeys(notes))
    )


@checked
def observed_transfer(
    scratch: Any, continual: Any, *, by: str = "N", cost: Cost | None = None
) -> pd.DataFrame:
    """Effectively transferred data and saved compute of observed curves (Zheng 2024, figure 2).

    At every point of a continual curve: the tokens at which the curve from scratch of the same
    size first comes to that loss. Of the curve from scratch the closest one that falls
    throughout is taken (isotonic regression), and between its points the monotone cubic; it says
    nothing outside them. This is data, and has no interval;
    :func:`jaxlaw.planning.transferred` answers by fitted laws, beyond the runs too.

    Args:
        scratch, continual: columns ``N``, ``D`` and ``loss``, a row for each point of a curve:
            a file, a DataFrame, or a dict of arrays.
        by: the column that pairs the curves; one curve from scratch for each of its values.
        cost: ``f(N, D)`` in FLOPs, on arrays; 6·N·D if None.

    Returns:
        A row for each point of the continual curves whose size has one from scratch: ``N`` (or
        ``by``), ``D``, ``loss``, ``scratch_D``, ``transferred`` (scratch_D − D) and ``saved``
        ((C_scratch − C_continual)/C_scratch). NaN where the curve from scratch has no such loss:
        it has not come down to it, or starts below it.

    Raises:
        UsageError: a column is missing. DataError: no curve has a partner, or none of their
            losses meet.

    Example:
        ``planning.observed_transfer("scratch.csv", "continual.csv")``
    """
    ours, theirs = _curves(continual, "continual", by, cost), _curves(scratch, "scratch", by, cost)
    shared = [value for value in ours if value in theirs]
    if not shared:
        raise DataError(
            f"no {by} has a curve of both kinds: scratch has {', '.join(map(str, theirs))}, "
            f"continual {', '.join(map(str, ours))}"
        )
    parts = []
    for value in shared:
        part = ours[value].copy()
        part["scratch_D"] = _tokens_at(theirs[value], part["loss"].to_numpy())
        parts.append(part)
    found = pd.concat(parts, ignore_index=True)
    if found["scratch_D"].isna().all():
        raise DataError("no continual loss lies within the losses of the curve from scratch")
    found["transferred"] = found["scratch_D"] - found["D"]
    if cost is None:
        ratio = found["D"] / found["scratch_D"]
    else:
        ratio = _flops(cost, found["N"], found["D"]) / _flops(cost, found["N"], found["scratch_D"])
    found["saved"] = 1 - ratio
    return found[[*dict.fromkeys([by]), "D", "loss", "scratch_D", "transferred", "saved"]]


def _of_compute(one: Source) -> Source:
    if one.law.input_names != ("C",):
        raise UsageError(
            f"law {one.law.name} takes {', '.join(one.law.input_names)}; savings between "
            "frontiers need laws of the compute C alone, such as loss-compute; for laws of N and "
            "D use saved_compute or transferred"
        )
    return one


@compiled(static_argnames=("law", "other"))
def _at_equal_loss(law: Law, other: Law, params: Any, others: Any, log_C: Any) -> Any:
    """(P, K) losses at log compute (K,), and the log compute at which another law has them."""

    def one(params: Any, others: Any, log_C: Any) -> Any:
        loss = law(params, C=jnp.exp(log_C))

        def short_of(at: Any) -> Any:
            return loss - other(others, C=jnp.exp(at))

        found = jnp.where(short_of(_WALLS[1]) <= 0, jnp.inf, root(short_of, *_WALLS))
        return loss, found

    over = jax.vmap(one, in_axes=(None, None, 0))
    return jax.vmap(over, in_axes=(0, 0, None))(params, others, log_C)


def _on_savings(saved: np.ndarray) -> list[Note]:
    if np.isneginf(saved).any():
        message = "by its law no compute brings the continual runs to some of these losses"
        return [Note("no-finite-answer", "warning", message)]
    if (saved < -SAME).any():
        message = "scratch comes to some of these losses with less compute than the base does"
        return [Note("negative-transfer", "warning", message)]
    return []


def _curves(table: Any, what: str, by: str, cost: Cost | None) -> dict[Any, pd.DataFrame]:
    """The points of each curve, tokens rising, by what pairs it."""
    table = read_table(table, what).frame
    needed = dict.fromkeys([by, "D", "loss", *([] if cost is None else ["N"])])
    missing = [name for name in needed if name not in table]
    if missing:
        raise UsageError(
            f"the {what} table lacks {', '.join(missing)}; it has {', '.join(map(str, table))}"
        )
    table = table[list(needed)].copy()
    for name in ("D", "loss"):
        table[name] = pd.to_numeric(table[name], errors="coerce").astype(float)
    good = np.isfinite(table[["D", "loss"]]).all(axis=1) & (table["D"] > 0)
    if not good.any():
        raise DataError(f"no row of the {what} table has a finite loss and tokens above 0")
    return {value: part.sort_values("D") for value, part in table[good].groupby(by, sort=True)}


def _tokens_at(curve: pd.DataFrame, loss: np.ndarray) -> np.ndarray:
    """Tokens at which a curve comes to each loss; NaN where it has none such."""
    from scipy.interpolate import PchipInterpolator
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(curve["loss"].to_numpy(), increasing=False)
    ends = fitted.blocks[:-1]  # where each level begins; its points count as one, in their middle
    levels = fitted.x[ends]
    log_D = np.add.reduceat(np.log(curve["D"].to_numpy()), ends) / np.diff(fitted.blocks)
    if len(levels) < 2:
        return np.full(len(loss), np.nan)
    along = PchipInterpolator(levels[::-1], log_D[::-1], extrapolate=False)
    return np.exp(along(loss))


def _flops(cost: Cost, N: pd.Series, D: pd.Series) -> np.ndarray:
    """What a user's own function has a run cost."""
    try:
        return np.asarray(cost(N.to_numpy(float), D.to_numpy(float)), float)
    except Exception as error:  # the user's own function, or columns of text
        raise UsageError(f"N and D do not give FLOPs ({error}); check columns and cost") from error
