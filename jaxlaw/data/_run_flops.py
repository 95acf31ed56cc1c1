"""FLOPs of runs as their table counts them, beside the 6·N·D of papers.

Of small models the head and attention, which 6·N·D leaves out, cost as much again or more, and an
N that counts embeddings says too much. The factor goes with the size, not with the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxlaw._quantities import exponential
from jaxlaw.data._columns import Column, numbers
from jaxlaw.data._guesses import compute_column
from jaxlaw.laws import Law
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw.data._runs import Runs

_SAME = 1.01  # factor up to which a mapped column is 6·N·D
_ALIKE = 1.1  # the same of a column that is not mapped
_MOST = 30.0  # factor beyond which a column that is not mapped is no compute, or in another unit


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
    """The FLOPs of a column that is mapped to C, and a note on those of any column of compute.

    Args:
        law: the law; of one without N and D, or with C, there is nothing to say.
        runs: the runs.
        columns: the columns of the law.
        keep: (n,) mask of the valid rows.
    """
    if not {"N", "D"} <= {*law.input_names} or "C" in law.input_names:
        return None, []
    mapped = "C" in runs.table
    name = (
        "C"
        if mapped
        else compute_column(runs.table.drop(columns=[*runs.columns, *columns], errors="ignore"))
    )
    if name is None:
        return None, []
    N, D = (columns[name].raw[keep] * columns[name].unit for name in ("N", "D"))
    spent = numbers(runs.table[name], runs.location(name))[keep] * runs.units.get("C", 1.0)
    valid = (spent > 0) & np.isfinite(spent)
    if not valid.any():
        return None, []
    factor, N, spent = spent[valid] / (6.0 * N * D)[valid], N[valid], spent[valid]
    middle = float(np.median(factor))
    ends = float(factor.min()), float(factor.max())
    user, same = runs.user_name(name), _SAME if mapped else _ALIKE
    if mapped and not 1 / _MOST < middle < _MOST:
        raise runs.location(name).error(
            f"{runs.location(name)}: {exponential(middle)} times 6·N·D in the median: give its "
            f"unit in FLOPs, units={{'C': …}}, or leave it out"
        )
    if 1 / same <= ends[0] and ends[1] <= same or not 1 / _MOST < middle < _MOST:
        return None, []
    many = f"column {user} is {ends[0]:.3g} to {ends[1]:.3g} times 6·N·D (median {middle:.3g})"
    if not mapped:
        message = f"{many}: plans and distances count 6·N·D; columns={{'C': '{user}'}} takes it"
        return None, [Note("flops-differ", "warning", message, inherited=True)]
    slopes = np.stack([np.ones(len(N)), np.log(N) - np.log(N).mean()], axis=1)
    level, power = np.linalg.lstsq(slopes, np.log(factor), rcond=None)[0]
    power = max(float(power), -0.9)  # a larger model costs more
    scale = float(np.exp(level - power * np.log(N).mean()))
    off = float(np.exp(np.abs(np.log(factor) - np.log(scale * N**power)).max())) - 1
    message = (
        f"{many}: FLOPs are those of the column, the factor as N^{power:.2f} to within {off:.0%}, "
        "and beyond the sizes of the runs as at their ends"
    )
    own = RunFlops(scale, power, *ends, float(spent.max()))
    return own, [Note("flops-of-table", "info", message)]
