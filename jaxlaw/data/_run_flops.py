"""FLOPs of runs as their table counts them, beside the 6·N·D of papers.

Of small models the head and attention, which 6·N·D leaves out, cost as much again or more, and an
N that counts embeddings says too much. The factor goes with the size, not with the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jaxlaw._quantities import exponential
from jaxlaw.data._columns import Column
from jaxlaw.laws import Law
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw.data._runs import Runs

_SAME = 1.01  # factor up to which a column is 6·N·D
_MOST = 300.0  # factor beyond which a column is no compute, or in another unit
_LEAST = -0.9  # power of the size in the factor: a larger model costs more


@dataclass(frozen=True)
class RunFlops:
    """FLOPs of runs: 6·N·D·scale·N^power, the factor held between those of the fitted runs.

    Attributes:
        scale, power: the factor at a size N, counted in single parameters.
        low, high: its least and largest among the runs.
        largest: FLOPs of the largest run.
    """

    scale: float
    power: float
    low: float
    high: float
    largest: float

    @property
    def numbers(self) -> tuple[float, ...]:
        """The first arguments of :func:`counted_flops`."""
        return self.scale, self.power, self.low, self.high


def counted_flops(
    scale: Any, power: Any, low: Any, high: Any, N: Any, D: Any, **others: Any
) -> Any:
    """FLOPs of runs, of raw counts as arrays of NumPy or JAX; see :class:`RunFlops`."""
    return 6.0 * N * D * (scale * N**power).clip(low, high)


def training_flops(inputs: Mapping[str, Any], own: RunFlops | None = None) -> np.ndarray:
    """FLOPs of runs of raw inputs: C, else those of N and D; NaN where neither is there."""
    if "C" in inputs:
        return np.asarray(inputs["C"], float)
    N, D = (np.asarray(inputs.get(name, np.nan), float) for name in ("N", "D"))
    return 6.0 * N * D if own is None else counted_flops(*own.numbers, N, D)


def run_flops(
    law: Law, runs: Runs, columns: dict[str, Column], keep: np.ndarray
) -> tuple[RunFlops | None, list[Note]]:
    """The FLOPs of column C, where they are not 6·N·D, and a note on how they differ.

    Args:
        law: the law; of one without N and D, or with C, there is nothing to say.
        runs: the runs, with a column C.
        columns: the columns of the law.
        keep: (n,) mask of the valid rows.
    """
    if not {"N", "D"} <= {*law.input_names} or "C" in law.input_names:
        return None, []
    where, unit = runs.location("C"), runs.units.get("C", 1.0)
    spent = pd.to_numeric(runs.table["C"], errors="coerce").to_numpy(float)[keep] * unit
    N, D = (columns[one].raw[keep] * columns[one].unit for one in ("N", "D"))
    valid = (spent > 0) & np.isfinite(spent)
    if not valid.any():
        return None, []
    factor, N, largest = (spent / (6.0 * N * D))[valid], N[valid], float(spent[valid].max())
    low, middle, high = np.quantile(factor, [0.0, 0.5, 1.0]).tolist()
    if not 1 / _MOST < middle < _MOST:
        message = (
            f"{where}: {exponential(middle)} times 6·N·D in the median, and so not taken for "
            "FLOPs; units={'C': …} gives its unit"
        )
        return None, [Note("flops-differ", "warning", message, inherited=True)]
    if 1 / _SAME <= low and high <= _SAME:
        return None, []
    times = f"{where} is {low:.3g} to {high:.3g} times 6·N·D (median {middle:.3g})"
    logs = np.log(N) - np.log(N).mean()
    slopes = np.stack([np.ones(len(N)), logs], axis=1)
    level, power = np.linalg.lstsq(slopes, np.log(factor), rcond=None)[0]
    power = max(float(power), _LEAST)
    off = np.expm1(np.abs(np.log(factor) - level - power * logs).max())
    message = (
        f"{times}: FLOPs are those of the column, the factor as N^{power:.2f} to within {off:.0%}, "
        "and beyond the sizes of the runs as at their ends"
    )
    own = RunFlops(float(np.exp(level - power * np.log(N).mean())), power, low, high, largest)
    return own, [Note("flops-of-table", "info", message)]
