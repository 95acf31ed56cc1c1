"""The data of a study: the rows all laws can use, and the folds of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._tables import is_table
from jaxlaw.data._runs import Observations, Runs, read_runs
from jaxlaw.errors import DataError, UsageError
from jaxlaw.validation._contenders import Contender
from jaxlaw.validation.folds import Design, Folds


@dataclass(frozen=True, eq=False)
class DataSet:
    """One set of runs: its folds, and what each law makes of the same m rows.

    ``folds`` have one column for each of these rows.
    """

    name: tuple[str, ...]
    runs: Runs
    folds: Folds
    observations: dict[str, Observations]


def sources_of(runs: Any) -> list[tuple[tuple[str, ...] | None, Any]]:
    """Names and sources; None for the one that has no name."""
    kinds = (Runs, str, Path)
    several = isinstance(runs, Mapping) and all(
        isinstance(v, kinds) or is_table(v) or hasattr(type(v), "runs") for v in runs.values()
    )
    if not several:
        return [(None, runs)]
    if not runs:
        raise UsageError("there is no data set to study")
    return [
        (tuple(map(str, name)) if isinstance(name, tuple) else (str(name),), source)
        for name, source in runs.items()
    ]


def data_set(
    name: tuple[str, ...] | None,
    source: Any,
    design: Design,
    contenders: list[Contender],
    reading: Mapping[str, Any],
) -> DataSet:
    """The rows that are valid for all laws, and their folds.

    Args:
        name: of the data set; None for what its runs are called.
        source: what :func:`jaxlaw.read_runs` takes or returns.
        design: cuts the folds.
        contenders: the laws.
        reading: handed to :func:`jaxlaw.read_runs`.

    Raises:
        DataError: the runs cannot carry a law, or the folds.
        UsageError: the laws predict different columns.
    """
    given = {key: value for key, value in reading.items() if value is not None}
    runs = source if isinstance(source, Runs) and not given else read_runs(source, **given)
    name = (runs.corpus or runs.source,) if name is None else name
    if not runs.table.index.is_unique:
        runs = dataclasses.replace(runs, table=runs.table.reset_index(drop=True))
    seen = {c.label: runs.observations(c.law, free=c.free) for c in contenders}
    targets = {one.columns[one.target_name] for one in seen.values()}
    if len(targets) > 1:
        raise UsageError(
            f"laws of different targets ({', '.join(map(str, sorted(targets)))}) have no scores "
            "that could be compared; study them apart"
        )
    usable = np.ones(len(runs.table), bool)
    for one in seen.values():
        usable &= runs.table.index.isin(one.rows[one.weight > 0])
    if not usable.any():
        raise DataError(f"{runs.source}: no row is valid for all of these laws")
    table = runs.table.copy(deep=False)
    for one in reversed(seen.values()):
        for column, values in one.inputs.items():  # the share asked for, and no thousands
            table[column] = pd.Series(values / one.scale[column], one.rows).reindex(table.index)
    folds = design.split(dataclasses.replace(runs, table=table), usable)
    folds = dataclasses.replace(
        folds, fitted=folds.fitted[:, usable], held_out=folds.held_out[:, usable]
    )
    labels = runs.table.index[usable]
    same = {label: _rows(one, labels) for label, one in seen.items()}
    found = DataSet(name, runs, folds, same)
    _check_sizes(found, contenders)
    return found


def _rows(observations: Observations, labels: pd.Index) -> Observations:
    """The observations of these rows, in their order."""
    at = pd.Index(observations.rows).get_indexer(labels)
    return dataclasses.replace(
        observations,
        inputs={name: values[at] for name, values in observations.inputs.items()},
        target=observations.target[at],
        weight=observations.weight[at],
        rows=observations.rows[at],
        positions=observations.positions[at],
    )


def _check_sizes(data: DataSet, contenders: list[Contender]) -> None:
    fitted = data.folds.fitted.sum(axis=1)
    least = int(fitted.argmin())
    for contender in contenders:
        if fitted[least] < len(contender.free):
            raise DataError(
                f"{data.runs.source}: fold '{data.folds.labels[least]}' leaves "
                f"{fitted[least]} rows to fit, which cannot determine the {len(contender.free)} "
                f"parameters of law {contender.label}; hold out less, or take a smaller law"
            )
