"""Tables that are not for a law: the columns that a function takes, by their names, as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from jaxlaw._rounding import merged
from jaxlaw._tables import is_table
from jaxlaw.data._columns import Location, missing_column, numbers
from jaxlaw.data._runs import Runs, read_runs
from jaxlaw.errors import UsageError, nearest


def read_columns(
    source: Any,
    needed: Mapping[str, str],
    optional: Collection[str] = (),
    columns: Mapping[str, Any] | None = None,
    *,
    texts: Collection[str] = (),
    where: Any = None,
    name: str | None = None,
) -> Runs:
    """The columns that a function takes of a table which is not for a law.

    Args:
        source: anything that :func:`read_runs` takes.
        needed: name → what it is, for the message where it is missing: ``", the amount of data"``.
        optional: names of columns that may be missing, unless ``columns`` maps them.
        columns: name → the user's column; None where the function has no such argument.
        texts: those of the columns that are labels, which stay as they are.
        where: see :func:`read_runs`; None where the function has no such argument.
        name: name in messages of a table that is no file.

    Returns:
        :class:`Runs` with these columns alone, under these names; numbers are float64, NaN where a
        cell is empty. See :func:`refuse_rows` for further checks.

    Raises:
        UsageError: ``columns`` maps another name.
        DataError: a column is missing, or a cell is no number.
    """
    runs = read_runs(source, where=where, name=name if is_table(source) else None)
    wanted, mapping = [*needed, *optional], dict(columns or {})
    for key in mapping:
        if key not in wanted:
            raise UsageError(
                f"{runs.source} takes the columns {', '.join(map(str, wanted))}, not '{key}'."
                f"{nearest(str(key), wanted)}",
                file=runs.source,
                argument="columns",
                value=key,
            )
    present, options = runs.table.columns, ["columns"] * (columns is not None)
    own = {column: name for name, column in runs.columns.items()}
    options += ["where"] * (where is not None)
    values, names = {}, {}
    for key in wanted:
        column = mapping.get(key, key)
        column = column if column in present else own.get(column, column)
        if column not in present:
            if key in optional and key not in mapping:
                continue
            shown, doc = map(runs.user_name, present), needed.get(key, "")
            raise missing_column(key, doc, column, shown, runs.source, columns is not None)
        names[key] = runs.user_name(column)
        location = Location(runs.source, runs.word, names[key], key, options)
        series = runs.table[column]
        values[key] = series.to_numpy() if key in texts else merged(numbers(series, location))
    table = pd.DataFrame(values, index=runs.table.index)
    return dataclasses.replace(runs, table=table, columns=names, units={}, weight=None, corpus=None)
