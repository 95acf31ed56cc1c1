"""Recipes compared: the compute that one is worth against another, at equal loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._quantities import Quantity
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._allocation import (
    NEAR_END,
    budgets_of,
    runs_beyond,
)
from jaxlaw.planning._answers import AnswerTable, context_of, source_notes
from jaxlaw.planning._budgets import (
    COMPUTES,
    Cost,
    best_of_budget,
    log_cost,
)
from jaxlaw.planning._search_space import epochs_notes, search_space
from jaxlaw.planning._solve import for_each_draw, root
from jaxlaw.uncertainty import LEVEL, interval_columns


class ComputeMultiplier(AnswerTable):
    """What a recipe is worth, a row for each budget.

    ``table`` has ``compute``, ``loss`` and ``multiplier``.
    """

    picture = "compute_multiplier"

    def sentence(self) -> str:
        """What the recipe is worth at the least and the largest budget."""
        return self.over_budgets("{compute}: the recipe is worth {multiplier} × the compute")


@checked
def compute_multiplier(
    fit: Any,
    compute: Sequence[float],
    *,
    reference: Mapping[str, float | str],
    cost: Cost | None = None,
    served_tokens: Quantity | None = None,
    max_epochs: float | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> ComputeMultiplier:
    """How much compute a recipe is worth against a reference, at equal loss.

    Each of the two is trained at its own best size, on its own best number of tokens. A multiplier
    of 2 says that the recipe reaches the reference's loss with half of the reference's compute.

    Args:
        fit: fit of a law of N and D with another input, such as the ``group`` of
            :func:`jaxlaw.laws.grouped`: a Fit, (law, params), or a bootstrap, whose draws of
            both recipes belong together.
        compute: (K,) budgets of the reference, in FLOPs.
        reference: inputs of the reference, such as ``{"group": "c4"}``.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        served_tokens: number of tokens that either model will serve: a part of both budgets.
        max_epochs: largest D/U of either recipe, as for :func:`jaxlaw.planning.allocation`.
        at: inputs of the recipe that is compared with it, such as ``{"group": "pile"}``.
        level: confidence level of the intervals.

    Returns:
        :class:`ComputeMultiplier` of K rows: ``compute``, the reference's ``loss`` there and the
        ``multiplier``; with draws ``…_low`` and ``…_high`` of the last two. It is 0 where the
        recipe never reaches that loss. The note ``order-turns`` says where the multiplier passes 1
        among the budgets, and ``order-unclear`` that its interval holds 1.

    Raises:
        UsageError: the law lacks N or D, or an input is missing or unknown.

    Example:
        >>> law = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B"])
        >>> params = jl.simulate.TRUTHS["chinchilla"] | {"B[c4]": 410.7, "B[pile]": 300.0}
        >>> params = {name: params[name] for name in law.parameter_names}
        >>> plan = jl.planning.compute_multiplier(
        ...     (law, params), [1e21], reference={"group": "c4"}, at={"group": "pile"}
        ... )
        >>> plan.table["multiplier"].round(2).tolist()
        [3.07]

    Shell:
        jaxlaw plan compute-multiplier groups.json --compute 1e19,1e21
            --reference group=c4 --at group=pile
    """
    both = [
        search_space(fit, None, None, max_epochs, given, cost, served_tokens)
        for given in (reference, at)
    ]
    source, budgets = both[0].source, budgets_of(compute)
    loss, log_N, log_D, log_ratio, log_needed, own_log_D = _multipliers(
        source.law, both[0].cost, source.values, np.log(budgets),
        [space.limits for space in both], [space.others for space in both],
    )  # fmt: skip
    never = log_needed >= math.log(COMPUTES[1]) * (1 - NEAR_END)
    multiplier = np.where(never, 0.0, np.exp(log_ratio))
    table = {"compute": budgets, "loss": loss[0], "multiplier": multiplier[0]}
    for name, values in (("loss", loss), ("multiplier", multiplier)):
        table |= interval_columns(name, values, level, source.degrees)
    frame = pd.DataFrame(table)
    runs = {name: np.exp(log) / source.scale(name) for name, log in (("N", log_N), ("D", log_D))}
    notes = [*_order_notes(frame), *runs_beyond(source, runs, reference), *source_notes(source)]
    for space, log_tokens in zip(both, (log_D, own_log_D), strict=True):
        tokens = np.exp(log_tokens[0]) / source.scale("D")
        notes += epochs_notes(source, space.others, tokens, space.epochs)
    largest = {name: values[0][budgets.argmax()] for name, values in runs.items()}
    context = context_of(ComputeMultiplier, source, {**reference, **largest})
    return ComputeMultiplier(frame, level, tuple(dict.fromkeys(notes)), **context)


@for_each_draw("law")
def _multipliers(
    law: Law, cost: Cost | None, params: Any, log_C: Any, limits: Any, others: Any
) -> Any:
    """Loss and run of the reference, log multiplier, log compute and log tokens of the recipe.

    (draws, K) each. Limits and other inputs are those of the reference and of the recipe. The
    tokens of the recipe are asked of laws of epochs alone: they cost a search more to compile.
    """
    least = log_cost(cost, limits[1].N[0], limits[1].D[0])
    low = jnp.maximum(math.log(COMPUTES[0]), least + 1e-9)

    def best(k: int, log_C: Any, **points: int) -> Any:
        return best_of_budget(law, cost, params, log_C, limits[k], others[k], **points)

    def at(log_C: Any) -> Any:
        log_N, log_D, target = best(0, log_C)

        def shortfall(log_needed: Any) -> Any:
            return target - best(1, log_needed, points=65)[2]

        log_needed = root(shortfall, low, jnp.asarray(math.log(COMPUTES[1])))
        own_log_D = best(1, log_needed)[1] if "U" in law.input_names else log_D
        return target, log_N, log_D, log_C - log_needed, log_needed, own_log_D

    return jax.lax.map(at, log_C)


def _order_notes(table: pd.DataFrame) -> list[Note]:
    """Where the better of the two changes among the budgets, and where the interval holds both."""
    notes, better = [], table["multiplier"].to_numpy() > 1
    for k in np.flatnonzero(better[1:] != better[:-1]):
        before, after = table["compute"].iloc[[k, k + 1]]
        message = (
            f"the better recipe changes between {before:.3g} and {after:.3g} FLOPs: which one to "
            "take depends on the budget"
        )
        notes.append(Note("order-turns", "warning", message))
    if "multiplier_low" in table:
        unclear = (table["multiplier_low"] < 1) & (table["multiplier_high"] > 1)
        if unclear.any():
            message = (
                f"at {int(unclear.sum())} of {len(table)} budgets the interval of the multiplier "
                "holds 1: these runs do not say which recipe is better there"
            )
            notes.append(Note("order-unclear", "warning", message))
    return notes
