"""What the start of a domain's loss curve shows: k1, k2, k3 of the cross-domain law.

Que 2024, App. H. The curve is of one continual run on the domain, its loss that of the domain;
compare domains by runs of one base model, one mixture and one schedule.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._typed import checked
from jaxlaw.data._runs import read_columns
from jaxlaw.errors import DataError, UsageError
from jaxlaw.laws._base import Law
from jaxlaw.laws.cross_domain import COEFFICIENTS

# Thousands of steps after which a coefficient needs the loss; k1 may be of the start as well.
_STEPS = {"k1": (), "k2": (0, 5), "k3": (0, 1, 10, 11)}


@checked
def learnability_coefficients(
    curves: Any, by: Hashable | None = None, *, law: str | Law = "dcpt-cross", k1_step: int = 1000
) -> pd.DataFrame:
    """The coefficients a cross-domain law needs, from domains' own early curves.

    k1 is the loss after 1,000 steps; k2 = L(0) − L(5,000 steps); k3 the mean over i = 0…9 of
    ΔL_(i+1) − ΔL_i, with ΔL_i = L((i+1)·1,000) − L(i·1,000) (Que 2024, App. H). The differences
    cancel within the sum of k3: it is (ΔL_10 − ΔL_0)/10.

    Args:
        curves: file, DataFrame or dict with columns ``step`` (updates done) and ``loss``.
        by: the column that names the domain; None: all rows are of one domain.
        law: which coefficients are needed: dcpt-cross needs k1 and k2, dcpt-cross-k4 k3 too.
        k1_step: 1000 as in App. H, or 0: the main text calls k1 the initial loss.

    Returns:
        A row for each domain, in order of appearance, a column for each coefficient: what a
        table of runs is merged with, or ``fit.predict`` takes.

    Raises:
        DataError: a step is missing or there twice, a loss is no positive number, or a
            coefficient is not positive: the law then has no K for the domain.
        UsageError: the law takes no coefficients, or k1_step is neither 0 nor 1000.
    """
    law = laws.get(law)
    needed = [name for name in law.input_names if name in COEFFICIENTS]
    if not needed:
        raise UsageError(f"law {law.name} takes none of {', '.join(COEFFICIENTS)}; try dcpt-cross")
    if k1_step not in (0, 1000):
        raise UsageError(f"k1_step is 1000 (App. H) or 0 (the initial loss), not {k1_step}")
    columns = {"step": ", the updates done", "loss": ""}
    labels = {} if by is None else {by: ", which names the domain"}
    runs = read_columns(curves, columns | labels, texts=labels)
    parts = [("the curve", runs.table)] if by is None else runs.table.groupby(by, sort=False)
    found = {
        name: _coefficients(_losses(part, f"{runs.source}: {name}", needed, k1_step), k1_step)
        for name, part in parts
    }
    for name, values in found.items():
        _check_positive(values, needed, f"{runs.source}: {name}")
    result = pd.DataFrame.from_dict(found, orient="index", columns=[*COEFFICIENTS])[needed]
    return result.reset_index(drop=True) if by is None else result.rename_axis(by)


def _losses(part: pd.DataFrame, what: str, needed: list[str], k1_step: int) -> dict[int, float]:
    """Step → loss, at the steps that are needed."""
    steps, losses = part["step"].to_numpy(), part["loss"].to_numpy()
    wanted = sorted({1000 * k for name in needed for k in _STEPS[name]} | {k1_step})
    missing = [step for step in wanted if step not in steps]
    if missing:
        raise DataError(
            f"{what}: {', '.join(needed)} need the loss after {', '.join(map(str, wanted))} steps; "
            f"there is none after {', '.join(map(str, missing))}. Evaluate there, or give the "
            "losses between evaluations yourself"
        )
    found = {}
    for step in wanted:
        (here,) = np.nonzero(steps == step)
        if len(here) > 1:
            raise DataError(
                f"{what}: {len(here)} losses after {step} steps; keep one, or say by= which "
                "column names the domain"
            )
        found[step] = float(losses[here[0]])
        if not 0 < found[step] < np.inf:
            raise DataError(f"{what}: the loss after {step} steps is {found[step]}")
    return found


def _coefficients(loss: dict[int, float], k1_step: int) -> list[float]:
    """k1, k2, k3; NaN where the steps are not there."""

    def fall(start: int, end: int) -> float:
        return loss.get(1000 * start, np.nan) - loss.get(1000 * end, np.nan)

    # ΔL_i is minus the fall from i to i + 1 thousand.
    return [loss[k1_step], fall(0, 5), (fall(0, 1) - fall(10, 11)) / 10]


def _check_positive(values: list[float], needed: list[str], what: str) -> None:
    for name, value in zip(COEFFICIENTS, values, strict=True):
        if name in needed and not value > 0:
            reason = {
                "k2": "its loss does not fall over the first 5,000 steps",
                "k3": "the fall of its loss does not slacken",
            }.get(name, "")
            raise DataError(
                f"{what}: {name} is {value:.3g}: {reason}, and K would not be positive; take its "
                "curve from a run with a larger share of the domain, or leave the domain out"
            )
