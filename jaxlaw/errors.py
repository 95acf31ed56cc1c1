"""Errors that jaxlaw raises on purpose, and suggestions for their messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_MOST_NAMED = 5  # rows in one message


class JaxlawError(ValueError):
    """Base of every error jaxlaw raises on purpose; its message says what to do.

    Args:
        message: text that says what is wrong, where, and what to do.
        value: value of the cell of a table.
        file: file that is wrong, or what the message calls a table in memory (``DataFrame``).
        row: row of the table, as the message names it: the first one where several are wrong.
        column: column of the table, by the user's own name.

    The arguments are attributes of the same names; one that does not apply is None.

    Example:
        >>> table = {"N": [1e9, 2e9], "D": ["1e10", "2 billion"], "loss": [3.0, 2.8]}
        >>> try:
        ...     jl.fit("chinchilla", table)
        ... except jl.DataError as error:
        ...     print(error.file, error.row, error.column, error.value)
        dict 1 D 2 billion
    """

    def __init__(
        self,
        message: object = "",
        *,
        value: Any = None,
        file: str | Path | None = None,
        row: Any = None,
        column: Any = None,
    ) -> None:
        super().__init__(message)
        self.value: Any = _plain(value)
        self.file: str | Path | None = file
        self.row: Any = _plain(row)
        self.column: Any = column


class DataError(JaxlawError):
    """The data cannot support the request (exit code 1 on the command line).

    Example:
        >>> try:
        ...     jl.fit("chinchilla", {"N": [1e9], "D": [1e10], "loss": [-2.0]})
        ... except jl.DataError as error:
        ...     print(error)
        dict: column loss: not positive and finite: row 0 (-2.0); ...
    """


class ColumnError(DataError):
    """The call names a column that the table does not have (exit code 2 on the command line).

    Example:
        >>> table = {"size": [1e9], "D": [1e10], "loss": [2.0]}
        >>> try:
        ...     jl.fit("chinchilla", table, columns={"N": "sise"})
        ... except jl.errors.ColumnError as error:
        ...     print(error)
        dict: there is no column sise (for N); ...
    """


class NotHereError(Exception):
    """A record names what this process does not have, such as a law of the user's own."""


class WorkError(JaxlawError):
    """Long work could not go on; what was finished is kept (exit code 1)."""


class UsageError(JaxlawError):
    """The call itself is wrong (exit code 2 on the command line).

    Example:
        >>> try:
        ...     jl.fit("chinchila", {})
        ... except jl.UsageError as error:
        ...     print(error)
        there is no law 'chinchila'. Did you mean 'chinchilla' or 'cpt-chinchilla'?
    """


def _plain(value):
    """A number of numpy as one of Python, so that it prints as what it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def nearest(name: Any, choices: Iterable[Any]) -> str:
    """A suggestion to append to an error message: `` Did you mean 'x'?``, or nothing."""
    choices = [str(choice) for choice in choices]
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=3, cutoff=0.6)
    if not close:
        return ""
    names = " or ".join(f"'{by_lower[match]}'" for match in close)
    return f" Did you mean {names}?"


def listed(names: Iterable[Any], most: int = 20) -> str:
    """Names in a message, such as a table's columns, the first ones where they are many."""
    names = [name if len(name) <= 60 else name[:60] + "…" for name in map(str, names)]
    more = f" … ({len(names) - most:,} more)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def name_rows(word: str, labels: Iterable[Any], values: Iterable[Any] | None = None) -> str:
    """Rows in words, at most five of them, each with its value if given."""
    labels = list(labels)
    shown = [str(label) for label in labels[:_MOST_NAMED]]
    if values is not None:
        shown = [f"{row} ({value})" for row, value in zip(shown, values, strict=False)]
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return f"{word}{'s' if len(labels) > 1 else ''} {', '.join(shown)}{more}"


def nearest_file(path: str | Path) -> str:
    """A suggestion among the files of the same folder, for a path that is none."""
    path = Path(path)
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    return nearest(path.name, [entry.name for entry in beside])
