"""At which steps to evaluate a run: the methods of Que 2024, App. I, cut to a budget."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._quantities import Quantity
from jaxlaw._typed import Between, checked
from jaxlaw.errors import UsageError

Count = Annotated[int, Between(1, 10**9)]
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
    over the first 60 % and every 2k-th after it, with the smallest k the budget allows; M4 with
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
    if method not in ("M4", *_KEPT):
        raise UsageError(f"method is M1, M2, M3 or M4, not {method!r}", argument="method")
    if rate is not None and (method != "M4" or not rate >= 0):
        raise UsageError(
            f"rate is λ ≥ 0 of method M4, not {rate} of {method}", argument="rate", value=rate
        )
    count = int(steps // every)
    if not 1 <= count <= _LARGEST:
        raise UsageError(
            f"a run of {steps} steps has {count} to evaluate every {every}; 1 to {_LARGEST:g} "
            "can be"
        )
    if method == "M4" and rate is None:
        rate = decay_rate(budget, count)
        kept = _decaying(count, rate)[: budget - 1]
        kept = np.append(kept, count) if budget < count else np.arange(1, count + 1)
    else:
        kept = _decaying(count, rate) if method == "M4" else _KEPT[method](count, budget)
    if not 1 <= len(kept) <= budget:
        with_rate = "" if rate is None else f" with λ = {rate:g}"
        raise UsageError(
            f"{method}{with_rate} takes {len(kept)} evaluations of this run, the budget is "
            f"{budget}: raise it, or take another method"
        )
    kept = kept * int(every)
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


@checked
def decay_rate(budget: Count, count: Annotated[int, Between(1, _LARGEST)]) -> float:
    """λ of M4 at which ``budget`` of ``count`` evaluations are kept.

    Σ e^(−λ·x) over x = 1…count is the budget then, so that the last one kept is the last of
    all. 0 where the budget suffices for all.

    Args:
        budget: number of evaluations kept.
        count: number of evaluations of M1.

    Example:
        >>> round(jl.design.decay_rate(48, 200), 3)
        0.02
    """
    if budget >= count:
        return 0.0
    x = np.arange(1, count + 1)
    low, high = 0.0, math.log(1 + 1 / budget)  # of infinitely many the sum is 1/(e^λ − 1)
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if np.exp(-middle * x).sum() > budget else (low, middle)
    return low


def _multiples(k: int, most: int) -> np.ndarray:
    return np.arange(k, most + 1, k)


def _thin_late_steps(count: int, budget: int) -> np.ndarray:
    """Every k-th over the first 60 %, every 2k-th after it."""
    for k in range(1, count + 1):
        early = _multiples(k, int(0.6 * count))
        last = early[-1] if len(early) else 0
        kept = np.append(early, last + _multiples(2 * k, count - last))
        if len(kept) <= budget:
            break
    return kept


def _decaying(count: int, rate: float) -> np.ndarray:
    """Which of so many evaluations, counted from 1, a density e^(−rate·x) keeps (M4).

    Those at which the summed density passes a whole number.
    """
    with np.errstate(over="ignore"):  # e^−∞ is what is meant
        density = np.cumsum(np.exp(-rate * np.arange(1, count + 1)))
    return 1 + np.searchsorted(density, np.arange(1, np.floor(density[-1]) + 1))


_KEPT = {
    "M1": lambda count, budget: _multiples(1, count),
    "M2": lambda count, budget: _multiples(math.ceil(count / budget), count),
    "M3": _thin_late_steps,
}
