"""Groups of rows that share noise, such as the checkpoints of one run: ``groups=`` read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._arrays import plain_array
from jaxlaw._rounding import merged
from jaxlaw.data import Observations, Runs
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.notes import Note

LABELS = ("labels",)  # stands for groups that were given row by row
FEW_GROUPS = 20  # below this many, intervals come out too short


def group_numbers(runs: Runs, observations: Observations, groups: Any) -> np.ndarray:
    """(n,) number, from 0, of the group each observation is in.

    Args:
        runs: table of runs.
        observations: observations (n,) that a law made of its rows.
        groups: column or several (names of inputs, canonical names, or the user's own), rows
            equal in all of them being one group; or one label for each row of the runs. None: each
            row is one of its own.

    Raises:
        UsageError: no such column, or labels of another length.
        DataError: a label is missing, or there is one group only.
    """
    if groups is None:
        return np.arange(len(observations))
    frame = group_labels(runs, observations, groups)
    if frame.isna().any(axis=None):
        first, column = np.argwhere(frame.isna().to_numpy())[0]
        row, name = observations.rows[first], frame.columns[column]
        message = f"{runs.source}, {runs.word} {row}: no group; give every row one"
        raise DataError(message, file=runs.source, row=row, column=name)
    numbers = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    if len(np.unique(numbers[observations.weight > 0])) < 2:
        message = f"{runs.source}: all rows are in one group; resampling needs several"
        raise DataError(message, file=runs.source)
    return numbers


def group_labels(runs: Runs, observations: Observations, groups) -> pd.DataFrame:
    """The labels of each observation's group, (n,) a column; one column named ``group`` of labels.

    Raises:
        UsageError: no such column, or labels of another length.
    """
    names = names_of(groups, len(runs))
    if names is not None and names != LABELS:
        return pd.DataFrame({name: _column(runs, observations, name) for name in names})
    return pd.DataFrame({"group": _select_observed(runs, observations, plain_array(groups))})


def names_of(groups, size: int) -> tuple[str, ...] | None:
    """The columns that ``groups`` names; :data:`LABELS` where it labels ``size`` rows; or None."""
    if groups is None:
        return None
    if isinstance(groups, str):
        return (groups,)
    named = isinstance(groups, Sequence) and all(isinstance(name, str) for name in groups)
    return tuple(groups) if named and 0 < len(groups) != size else LABELS


def few_groups(count: int, effect: str) -> list[Note]:
    """A note that names the effect, where groups are too few to estimate their spread."""
    if count >= FEW_GROUPS:
        return []
    return [Note("few-groups", "warning", f"only {count} groups: {effect}", inherited=True)]


def _column(runs: Runs, observations: Observations, name: str) -> np.ndarray:
    if name in observations.inputs:
        return observations.inputs[name]
    by_name = {str(runs.user_name(column)): column for column in runs.table}
    if name not in runs.table and name not in by_name:
        raise UsageError(
            f"groups: {runs.source} has no column {name}; columns: {listed(by_name)}."
            f"{nearest(name, by_name)}",
            file=runs.source,
            column=name,
        )
    column = runs.table[name if name in runs.table else by_name[name]]
    values = column.to_numpy()
    return _select_observed(
        runs, observations, merged(values) if values.dtype.kind == "f" else values
    )


def _select_observed(runs: Runs, observations: Observations, values: np.ndarray) -> np.ndarray:
    """Of one value for each row of the runs, those of the observations."""
    if values.shape != (len(runs),):
        raise UsageError(
            f"groups: shape {values.shape}, but there are {len(runs)} runs; name columns, or give "
            "one label for each run"
        )
    return values[observations.positions]
