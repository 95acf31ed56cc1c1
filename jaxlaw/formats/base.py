"""The table of formats, and what they share: files found, names made canonical.

A format is a function from files to one DataFrame. It gives columns their canonical name where
the tool's own says what they are (``learning_rate`` is ``lr``) and keeps all others as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw.notes import DataError, UsageError, nearest, nearest_file
from jaxlaw.tables import Table

Reader = Callable[[list[Path]], pd.DataFrame]

#: Name of a format → (patterns of its files in a folder, what reads them).
FORMATS: dict[str, tuple[tuple[str, ...], Reader]] = {}

# What loggers call things, by canonical name; the first that is there is meant.
_USUAL = {
    "step": ("step", "_step", "Step", "global_step", "train/global_step", "trainer/global_step"),
    "lr": ("lr", "learning_rate", "train/learning_rate", "train/lr"),
    "loss": ("loss", "train/loss", "train_loss", "Loss/train"),
    "D": ("D", "num_input_tokens_seen", "train/num_input_tokens_seen"),
}


def format_of(name: str, *patterns: str) -> Callable[[Reader], Reader]:
    """Enter a reader in the table of formats.

    Args:
        name: what users call the format.
        *patterns: globs of its files in a folder; the first that finds any decides.
    """

    def enter(reader: Reader) -> Reader:
        FORMATS[name] = (patterns, reader)
        return reader

    return enter


def read_format(source: Any, name: str) -> Table:
    """The table that files of a tool hold.

    Args:
        source: a file, a folder (searched to its depth) or a list of files.
        name: of the format.

    Returns:
        A :class:`jaxlaw.tables.Table` with canonical columns where the tool says what they are,
        all others as they were.

    Raises:
        UsageError: no such format, or no such file.
        DataError: not a file of this format; names the file, the key and what was expected.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no format '{name}'; formats: {', '.join(FORMATS)}."
                         f"{nearest(str(name), FORMATS)}")  # fmt: skip
    patterns, reader = FORMATS[name]
    sources = source if isinstance(source, list | tuple) else [source]
    for one in sources:
        if not isinstance(one, str | os.PathLike) or str(one) == "-":
            raise UsageError(f"format '{name}' reads files and folders, not {one!r}")
    frame = reader([path for one in sources for path in _files(Path(one), name, patterns)])
    label = os.fspath(sources[0]) if len(sources) == 1 else f"{len(sources)} files"
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return Table(frame, label, "record")


def _files(path: Path, name: str, patterns: tuple[str, ...]) -> list[Path]:
    if not path.is_dir():
        if not path.exists():
            raise UsageError(f"there is no file {path}.{nearest_file(path)}")
        return [path]
    for pattern in patterns:
        if found := sorted(path.rglob(pattern)):
            return found
    raise DataError(f"{path}: no file of format '{name}' in it; expected {' or '.join(patterns)}")


def read_json(path: Path, key: str, kind: type) -> dict[str, Any]:
    """A JSON file that holds a key with a value of a kind.

    Raises:
        DataError: it does not.
    """
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a JSON file: {error}") from None
    found = record.get(key) if isinstance(record, dict) else None
    if not isinstance(found, kind):
        what = {list: "a list", dict: "an object"}[kind]
        raise DataError(f"{path}: key '{key}' should hold {what}, and does not")
    return record


def with_canonical(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns renamed where a logger's name says what they are."""
    names = {}
    for canonical, usual in _USUAL.items():
        there = [name for name in usual if name in frame]
        if there and there[0] != canonical:
            names[there[0]] = canonical
    return frame.rename(columns=names)


def by_run_and_step(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Logs of one or several metrics each as one table, a row a run and step; last logged wins."""
    frame = pd.concat(list(parts), ignore_index=True)
    keys = [name for name in ("run", "step") if name in frame]
    if "step" not in keys:
        return frame
    return frame.groupby(keys, sort=False, as_index=False).last().sort_values(
        keys, kind="stable", ignore_index=True
    )  # fmt: skip


def with_values(table: Table, values: Mapping[str, Any] | None) -> Table:
    """Columns for what the files do not say: a number, or one for each run.

    Raises:
        UsageError: a column of that name is there already, or a run has no value.
    """
    frame = table.frame
    for name, given in (values or {}).items():
        if name in frame:
            raise UsageError(f"values: {table.source} has a column '{name}' of its own")
        if isinstance(given, Mapping):
            frame = frame.assign(**{name: _of_runs(name, given, table)})
            continue
        try:
            frame = frame.assign(**{name: float(given)})
        except (TypeError, ValueError):
            raise UsageError(f"values: {name} is {given!r}; give a number") from None
    return Table(frame, table.source, table.word)


def _of_runs(name: str, given: Mapping[str, Any], table: Table) -> list[float]:
    if "run" not in table.frame:
        raise UsageError(f"values: {name} is given by run, and there is no column run")
    runs = table.frame["run"].astype(str)
    by_run = {str(run): value for run, value in given.items()}
    for run in by_run:
        if run not in set(runs):
            raise UsageError(f"values: there is no run '{run}'.{nearest(run, set(runs))}")
    for run in runs:
        if run not in by_run:
            raise UsageError(f"values: run '{run}' has no {name}; give every run one")
    return [float(by_run[run]) for run in runs]
