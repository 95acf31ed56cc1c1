"""Folds as rows of 0 and 1 over one table, and the columns that designs are made of."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec

import numpy as np
import pandas as pd

from jaxlaw.data._columns import name_rows
from jaxlaw.errors import DataError, UsageError, nearest

Part = tuple[str, np.ndarray, np.ndarray]  # label, held out (n,), fitted (n,)
P = ParamSpec("P")


@dataclass(frozen=True, eq=False)
class Folds:
    """The folds of one table of n rows.

    Attributes:
        name: of the design.
        labels: one per fold: what is held out.
        fitted: (F, n) True where a fold fits the row.
        held_out: (F, n) True where it asks for the row afterwards; a row may be in neither.
    """

    name: str
    labels: tuple[str, ...]
    fitted: np.ndarray
    held_out: np.ndarray

    def __len__(self) -> int:
        """The number of folds F."""
        return len(self.labels)

    @property
    def weights(self) -> np.ndarray:
        """(F, n) 1 where the row is fitted, 0 elsewhere."""
        return self.fitted.astype(float)


def _made_again(make: Callable[..., Design], args: Any, named: Any) -> Design:
    return make(*args, **named)


def recorded(make: Callable[P, Design]) -> Callable[P, Design]:
    """A function that makes designs, as one whose designs know the call that made them."""

    @functools.wraps(make)
    def making(*args: P.args, **named: P.kwargs) -> Design:
        return dataclasses.replace(make(*args, **named), made_by=(making, args, named))

    return making


@dataclass(frozen=True)
class Design:
    """A way to cut any table into folds.

    Attributes:
        name: as on the command line, such as ``leave-k-out:r:2``.
        cut: table → its parts.
        of_all_rows: whether it speaks of every row of the table, usable or not.
        made_by: the function that made it and what that was given, from which a pickled design
            is made again; None of a design of one's own, whose ``cut`` must then be picklable.
    """

    name: str
    cut: Callable[[pd.DataFrame], Iterable[Part]]
    of_all_rows: bool = False
    made_by: tuple[Callable[..., Design], tuple[Any, ...], dict[str, Any]] | None = field(
        default=None, repr=False, compare=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        """As the call that made it: ``cut`` is a function inside another, which has no name."""
        if self.made_by is None:
            return Design, (self.name, self.cut, self.of_all_rows)
        return _made_again, self.made_by

    def split(self, table: pd.DataFrame, usable: np.ndarray | None = None) -> Folds:
        """The folds of a table.

        Args:
            table: n rows; columns hold values as labels shall show them.
            usable: (n,) False for rows that no fold may have.

        Raises:
            DataError: a column is missing or has holes, it has too few values, or a fold
                would have nothing to fit or nothing to hold out.
        """
        if not isinstance(table, pd.DataFrame):
            own = getattr(table, "columns", {})
            table = getattr(table, "table", None)
            if table is None:
                raise UsageError("folds are of a DataFrame, or of what read_runs returned")
            table = with_own_names(table, own)
        usable = np.ones(len(table), bool) if usable is None else np.asarray(usable, bool)
        seen = np.ones_like(usable) if self.of_all_rows else usable
        labels, masks = [], {"held out": [], "left to fit": []}
        for label, *parts in self.cut(table.iloc[np.flatnonzero(seen)]):
            labels.append(label)
            for (what, rows), part in zip(masks.items(), parts, strict=True):
                mask = np.zeros(len(table), bool)
                mask[seen] = part
                mask &= usable
                if not mask.any():
                    raise DataError(f"folds {self.name}: fold '{label}' has no row {what}")
                rows.append(mask)
        held, fitted = (np.stack(rows) for rows in masks.values())
        return Folds(self.name, tuple(labels), fitted, held)


def with_own_names(table: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A table in which a column of runs goes by the user's name for it too.

    Args:
        table: columns under their canonical names.
        columns: canonical name → the user's, as runs were read.
    """
    more = {own: name for name, own in columns.items() if own not in table and name in table}
    return table.assign(**{str(own): table[name] for own, name in more.items()})


def values_of(table: pd.DataFrame, name: str) -> np.ndarray:
    """(n,) values; numbers without the dust of conversions, so that equal ones are equal."""
    if name not in table.columns:
        shown = [str(column) for column in table.columns]
        raise DataError(
            f"folds: there is no column {name}; columns: {', '.join(shown)}.{nearest(name, shown)}"
        )
    series = table[name]
    if series.isna().any():
        rows = name_rows("row", table.index[series.isna()])
        raise DataError(f"folds: column {name} is empty in {rows}; fill it or leave these rows out")
    values = series.to_numpy()
    if values.dtype.kind != "f":
        return values
    distinct, place = np.unique(values, return_inverse=True)
    return np.array([float(f"{value:.12g}") for value in distinct])[place]


def numbers_of(table: pd.DataFrame, name: str) -> np.ndarray:
    """The same, of a column of numbers."""
    values = values_of(table, name)
    if values.dtype.kind not in "iuf":
        raise DataError(f"folds: column {name} is no column of numbers, and has no order")
    return values.astype(float)


def distinct_of(table: pd.DataFrame, column: str, least: int) -> np.ndarray:
    """The distinct values, at least so many."""
    distinct = np.unique(numbers_of(table, column))
    if len(distinct) < least:
        raise DataError(
            f"folds: {column} has {len(distinct)} values; that needs {least} at least, some to "
            "fit and some to hold out"
        )
    return distinct


def groups_of(table: pd.DataFrame, columns: str | Sequence[str] | None) -> tuple[Any, list[str]]:
    """(n,) number of each row's group, in order of the values, and the groups' names."""
    if columns is None:
        return np.zeros(len(table), int), ["all"]
    names = [columns] if isinstance(columns, str) else list(columns)
    if not names:
        raise UsageError("folds: name one column or more, or leave the argument out")
    frame = pd.DataFrame({name: values_of(table, name) for name in names})
    try:
        group = frame.groupby(names, sort=True, observed=True).ngroup().to_numpy()
    except TypeError:  # values of several kinds have no order
        group = frame.astype(str).groupby(names, sort=True).ngroup().to_numpy()
    heads = frame.iloc[np.unique(group, return_index=True)[1]]
    shown = [short(heads[name]) for name in names]
    if len(names) == 1:
        return group, shown[0]
    return group, ["/".join(row) for row in zip(*shown, strict=True)]


def short(values: Iterable[Any]) -> list[str]:
    """Values as labels show them: with six digits, or more where these do not tell them apart."""
    values = list(values)
    if not all(isinstance(value, float) for value in values):
        return [str(value) for value in values]
    shown = [f"{value:.6g}" for value in values]
    return shown if len(set(shown)) == len(set(values)) else [f"{value:.12g}" for value in values]


def joined(columns: Any) -> str:
    """Names of columns as designs by name have them."""
    return columns if isinstance(columns, str) else "+".join(map(str, columns))
