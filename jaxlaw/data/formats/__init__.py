"""Files that other tools write, as tables with jaxlaw's names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw._tables import Table, read_table
from jaxlaw.data.formats._readers import (
    read_exports,
    read_results,
    read_scalars,
    read_trainer_states,
)
from jaxlaw.errors import DataError, UsageError, listed, nearest, nearest_file

#: Name of a format → (globs of its files in a folder, of which the first that finds any decides;
#: what reads them).
FORMATS: dict[str, tuple[tuple[str, ...], Callable[[list[Path]], pd.DataFrame]]] = {
    "hf-trainer": (("trainer_state.json",), read_trainer_states),
    "lm-eval": (("results*.json", "*.json"), read_results),
    "tensorboard": (("*tfevents*", "*.csv"), read_scalars),
    "wandb": (("*.csv",), read_exports),
}


def read_format(source: Any, name: str) -> Table:
    """The table that files of a tool hold.

    Args:
        source: a file, a folder (searched to its depth) or a list of files.
        name: name of the format.

    Returns:
        A :class:`jaxlaw._tables.Table` with canonical columns where the tool says what they are,
        all others as they were.

    Raises:
        UsageError: no such format, or no such file.
        DataError: not a file of this format; names the file, the key and what was expected.
    """
    if name not in FORMATS:
        message = f"there is no format '{name}'; formats: {', '.join(FORMATS)}."
        raise UsageError(message + nearest(name, FORMATS))
    patterns, reader = FORMATS[name]
    sources = source if isinstance(source, list | tuple) and source else [source]
    files = []
    for path in sources:
        if not isinstance(path, str | os.PathLike) or str(path) == "-":
            raise UsageError(f"format '{name}' reads files and folders, not {path!r}")
        path = Path(path)
        if not path.exists():
            raise UsageError(f"there is no file {path}.{nearest_file(path)}")
        found = [sorted(path.rglob(one)) for one in patterns] if path.is_dir() else [[path]]
        if not any(found):
            expected = " or ".join(patterns)
            message = f"{path}: no file of format '{name}' in it; expected {expected}"
            raise DataError(message, file=path)
        files += next(filter(None, found))
    label = os.fspath(sources[0]) if len(sources) == 1 else f"{len(sources)} files"
    frame = reader(files)
    return Table(frame.set_axis(pd.RangeIndex(1, len(frame) + 1)), label, "record")


def read_source(source: Any, name: str | None = None, format: str | None = None) -> Table:
    """The table of a source, by the format of the tool that its files are named for.

    Args:
        source: anything that :func:`jaxlaw._tables.read_table` reads, or files of a tool.
        name: name of the source in messages, where it is no file of a tool.
        format: name of the format; None where the names of the files are to say it.
    """
    paths = source if isinstance(source, list | tuple) and source else [source]
    if format is None and all(isinstance(path, str | os.PathLike) for path in paths):
        for own, pattern in (("hf-trainer", "trainer_state.json"), ("tensorboard", "*tfevents*")):
            if all(
                any(path.rglob(pattern)) if path.is_dir() else path.match(pattern)
                for path in map(Path, paths)
            ):
                format = own
    return read_table(source, name) if format is None else read_format(source, format)


def with_values(table: Table, values: Mapping[str, Any]) -> Table:
    """Columns for what the files do not say: a number, or one for each run; a phase is a word.

    Raises:
        UsageError: a column of that name is there already, or a run has no value.
    """
    frame = table.frame
    for name, value in values.items():
        problem, by_run = "", isinstance(value, Mapping)
        if name in frame:
            problem = f"{table.source} has a column '{name}' of its own"
        elif by_run and "run" not in frame:
            problem = f"{name} is given by run, and {table.source} has no column run"
        elif by_run:
            known, runs = {str(run): one for run, one in value.items()}, frame["run"].map(str)
            frame = frame.assign(**{name: runs.map(known)})
            if odd := {*known} ^ {*runs}:
                problem = f"{name} is given for {listed(known)}, and the runs are "
                problem += f"{listed(runs.unique())}: not in both {listed(odd)}"
        else:
            try:
                frame = frame.assign(**{name: value if name == "phase" else float(value)})
            except (TypeError, ValueError):
                problem = f"{name} is {value!r}; give a number"
        if problem:
            raise UsageError(f"values: {problem}")
    return Table(frame, table.source, table.word)
