"""The best settings of each cell of a sweep, and where they only bound the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE, written
from jaxlaw._result import TARGET
from jaxlaw._typed import Between, checked
from jaxlaw.data import read_runs
from jaxlaw.laws import tuned
from jaxlaw.notes import Note
from jaxlaw.planning._answers import AnswerTable


@dataclass(frozen=True, eq=False, repr=False)
class BestSettings(AnswerTable):
    """The best run of each cell, a row each.

    Attributes:
        table: ``N``, ``D``, ``runs``, ``loss`` (the lowest), and of each setting, such as ``lr``,
            its value there, ``lr_from`` and ``lr_to``, between which the loss is within the
            tolerance of the lowest, the other setting at its best, and ``lr_bound``: ``upper``
            where the best is the smallest value of the cell's sweep, and so an upper bound of the
            optimum, ``lower`` where it is the largest, ``only`` where no other was run, else empty.
        tolerance: relative excess of the loss within which values counted as near the best.
    """

    column_units: ClassVar[Mapping[str, str]] = {
        **AnswerTable.column_units,
        "N": "parameters", "D": "tokens", "runs": "", "loss": TARGET,
        **dict.fromkeys(("lr", "lr_from", "lr_to"), ""),
        **dict.fromkeys(("batch", "batch_from", "batch_to"), "tokens"),
    }  # fmt: skip
    picture = "best_settings"

    tolerance: float = field(metadata={"unit": SHARE}, kw_only=True)

    def sentence(self) -> str:
        """How many cells there are, and in how many a setting is a bound."""
        names = [name for name in self.table if name.endswith("_bound")]
        bounds = [
            f"{name.removesuffix('_bound')} at an edge in {(self.table[name] != '').sum()}"
            for name in names
        ]
        return f"{len(self.table)} cells of N and D; {', '.join(bounds)}"


@checked
def best_settings(
    runs: Any,
    over: Sequence[str] = ("lr", "batch"),
    *,
    tolerance: Annotated[float, Between(0, 1)] = 1e-3,
) -> BestSettings:
    """The best learning rate and batch of each cell of a sweep, as they were run.

    A cell is the runs of one N and D. A best value at the edge of its sweep is no estimate of the
    optimum, only a bound of it. The table is for looking at. To predict a best setting, fit
    :func:`jaxlaw.laws.tuned` to the runs: they show on which side of such a cell the loss falls.

    Args:
        runs: runs with N, D, loss and the settings, as :func:`jaxlaw.read_runs` takes or returns
            them; ``units={"batch": 2048}`` there reads batches of sequences of 2,048 tokens.
        over: settings that were swept: ``lr``, ``batch`` or both.
        tolerance: relative excess of the loss within which values count as near the best.

    Returns:
        :class:`BestSettings`, in single parameters and tokens, with the note ``optimum-at-edge``
        where settings are bounds.

    Raises:
        DataError: a column is missing, or holds no positive numbers.
        UsageError: ``over`` names something else.

    Example:
        >>> runs = jl.simulate.experiment("tuned-skaling", noise=0.001).table
        >>> best = jl.planning.best_settings(runs[runs["lr"] <= 2e-3])
        >>> best.headline
        '9 cells of N and D; lr at an edge in 6, batch at an edge in 0'
        >>> best.table["lr"].tolist()[-3:], best.table["lr_bound"].tolist()[-3:]
        ([0.001, 0.001, 0.001], ['', '', ''])
    """
    law = tuned("chinchilla", over)
    names = law.input_names[2:]
    observed = read_runs(runs).observations(law, free=())
    table = pd.DataFrame({**observed.inputs, "loss": observed.target})
    rows = [
        {"N": N, "D": D, "runs": len(cell), "loss": cell["loss"].min()}
        | {key: value for name in names for key, value in _best_of(cell, name, tolerance).items()}
        for (N, D), cell in table.groupby(["N", "D"])
    ]
    found = pd.DataFrame(rows)
    notes = list(observed.notes)
    for name in names:
        at_edge = found[found[f"{name}_bound"] != ""]
        if len(at_edge):
            first = at_edge.iloc[0]
            bound = first[f"{name}_bound"]
            said = "no other was run" if bound == "only" else f"{bound} bound of the optimum"
            message = (
                f"the best {name} of {len(at_edge)} of {len(found)} cells lies at the edge of its "
                f"sweep (first N = {written(first['N'], 'parameters')}, D = "
                f"{written(first['D'], 'tokens')}: {said})"
            )
            notes.append(Note("optimum-at-edge", "warning", message))
    columns = {"parameters": 1.0, "tokens": 1.0}
    units = BestSettings.single_units("nats", columns)
    return BestSettings(found, np.nan, tuple(notes), units, tolerance=tolerance)


def _best_of(cell: pd.DataFrame, name: str, tolerance: float) -> dict[str, Any]:
    """The best value of a setting in a cell, the range that is as good, and whether it is a bound.

    Of each value that was run the lowest loss counts, whatever the other setting.
    """
    lowest = cell.groupby(name)["loss"].min().sort_index()
    values, losses = lowest.index.to_numpy(), lowest.to_numpy()
    best = int(losses.argmin())
    far = losses > losses[best] * (1 + tolerance)
    low = far[:best][::-1].argmax() if far[:best].any() else best
    high = far[best:].argmax() - 1 if far[best:].any() else len(values) - 1 - best
    first, last = best == 0, best == len(values) - 1
    bound = "only" if first and last else "upper" if first else "lower" if last else ""
    return {
        name: values[best], f"{name}_from": values[best - low], f"{name}_to": values[best + high],
        f"{name}_bound": bound,
    }  # fmt: skip
