"""At which steps to evaluate a run: the methods of Que 2024, App. I, cut to a budget."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._quantities import Quantity
from jaxlaw._typed import Count, checked
from jaxlaw.errors import UsageError

_LARGEST = 10**7  # evaluations of one run


@checked
def evaluation_steps(
    budget: Count,
    steps: Count,
    *,
    every: Count = 1000,
    method: Literal["M1", "M2", "M3", "M4"] = "M4",
    rate: float | None = None,
) -> Answer:
    """Spend a budget of evaluations on one run.

    M1 is every ``every`` steps; the others keep some of those: M2 every k-th; M3 every k-th
    over the first 60% and every 2k-th after it, with the smallest k the budget allows; M4 with
    a density e^(−λ·x) at the x-th, λ chosen so that the budget is spent, the last step
    included (Que 2024, App. I: M2 and M3 have 40 of 200 points; M4 with λ = 0.02 has 45
    there, and 48 by the rule used here, since the paper does not state its own).

    Args:
        budget: largest number of evaluations.
        steps: number of steps of the run.
        every: shortest distance between two evaluations, in steps.
        method: M1, M2, M3 or M4.
        rate: λ of M4, in place of the one the budget gives.

    Returns:
        Answer with the table ``steps``, whose column ``step`` has the steps after which to
        evaluate; ``rate``, λ per evaluation of M1, of M4; and the facts ``method`` and ``n_steps``
        of the run.

    Raises:
        UsageError: another method, or numbers that leave nothing to evaluate.

    Example:
        >>> jl.design.evaluation_steps(budget=10, steps=20_000).steps["step"].tolist()
        [2000, 3000, 4000, 5000, 7000, 9000, 11000, 13000, 17000, 20000]

    Shell:
        jaxlaw design steps --budget 10 --steps 20000
    """
    if rate is not None and (method != "M4" or not rate >= 0):
        raise UsageError(f"rate is λ ≥ 0 of method M4, not {rate} of {method}")
    count = steps // every
    if not 1 <= count <= _LARGEST:
        raise UsageError(
            f"a run of {steps} steps has {count} to evaluate every {every}; 1 to {_LARGEST:g} "
            "can be"
        )
    x = kept = np.arange(1, count + 1)
    if method == "M2":
        k = math.ceil(count / budget)
        kept = x[k - 1 :: k]
    elif method == "M3":  # every k-th over the first 60%, every 2k-th after it
        for k in range(1, count + 1):
            early = x[k - 1 : int(0.6 * count) : k]
            last = early[-1] if len(early) else 0
            kept = np.append(early, x[last + 2 * k - 1 :: 2 * k])
            if len(kept) <= budget:
                break
    elif method == "M4":
        spent, low, high = rate is None, 0.0, math.log(1 + 1 / budget)
        # Σ e^(−λ·x) is the budget, so that the last one kept is the last of all; of infinitely many
        # it is 1/(e^λ − 1). 0 where the budget suffices for all.
        while spent and budget < count and (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if np.exp(-middle * x).sum() > budget else (low, middle)
        rate = low if spent else rate
        with np.errstate(over="ignore"):  # e^−∞ is what is meant
            density = np.cumsum(np.exp(-rate * x))
        # Those at which the summed density passes a whole number.
        kept = 1 + np.searchsorted(density, np.arange(1, np.floor(density[-1]) + 1))
        if spent:
            kept = np.append(kept[: budget - 1], count) if budget < count else x
    if not 1 <= len(kept) <= budget:
        with_rate = "" if rate is None else f" with λ = {rate:g}"
        raise UsageError(
            f"{method}{with_rate} takes {len(kept)} evaluations of this run, the budget is "
            f"{budget}: raise it, or take another method"
        )
    kept = kept * every
    decay = "" if rate is None else f", λ = {rate:.4g}"
    return Answer(
        kind="evaluation steps",
        sentence=f"{method}{decay}: {len(kept)} evaluations of {int(steps):,} steps, the first "
        f"after {kept[0]:,}",
        quantities={} if rate is None else {"rate": Quantity(float(rate))},
        tables={"steps": pd.DataFrame({"step": kept})},
        units={"step": ("", 1.0)},
        facts={"method": method, "n_steps": int(steps)},
    )
