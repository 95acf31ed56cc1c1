"""The table of formats, and what they share: search for files, canonical names.

A format is a function from files to one DataFrame. It gives columns their canonical name where
the tool's own says what they are (``learning_rate`` is ``lr``) and keeps all others as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw._json import parse_json
from jaxlaw._tables import Table, read_table, short_names
from jaxlaw.errors import DataError, UsageError, nearest, nearest_file

Reader = Callable[[list[Path]], pd.DataFrame]

#: Name of a format → (patterns of its files in a folder, what reads them).
FORMATS: dict[str, tuple[tuple[str, ...], Reader]] = {}

#: Format → pattern of files that no other tool writes.
OWN_NAMES = {"hf-trainer": "trainer_state.json", "tensorboard": "*tfevents*"}

# What loggers call things, by canonical name; the first that is there is meant.
USUAL: dict[str, tuple[str, ...]] = {
    "step": ("step", "_step", "Step", "global_step", "train/global_step", "trainer/global_step"),
    "lr": ("lr", "learning_rate", "train/learning_rate", "train/lr"),
    "loss": ("loss", "train/loss", "train_loss", "Loss/train"),
    "D": ("D", "num_input_tokens_seen", "train/num_input_tokens_seen"),
}


def format_of(name: str, *patterns: str) -> Callable[[Reader], Reader]:
    """Enter a reader in the table of formats.

    Args:
        name: name of the format for users.
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
        name: name of the format.

    Returns:
        A :class:`jaxlaw._tables.Table` with canonical columns where the tool says what they are,
        all others as they were.

    Raises:
        UsageError: no such format, or no such file.
        DataError: not a file of this format; names the file, the key and what was expected.
    """
    if name not in FORMATS:
        hint = nearest(str(name), FORMATS)
        message = f"there is no format '{name}'; formats: {', '.join(FORMATS)}.{hint}"
        raise UsageError(message, argument="format", value=name)
    patterns, reader = FORMATS[name]
    sources = source if isinstance(source, list | tuple) else [source]
    if not sources:
        raise UsageError(f"format '{name}' reads files and folders: the list is empty")
    for path in sources:
        if not isinstance(path, str | os.PathLike) or str(path) == "-":
            message = f"format '{name}' reads files and folders, not {path!r}"
            raise UsageError(message, argument="source", value=path)
    files = [file for path in sources for file in _files(Path(path), name, patterns)]
    frame = reader(files)
    label = os.fspath(sources[0]) if len(sources) == 1 else f"{len(sources)} files"
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return Table(frame, label, "record")


def read_source(source: Any, name: str | None = None, format: str | None = None) -> Table:
    """The table of a source, by the format of the tool that its files are named for.

    Args:
        source: anything that :func:`jaxlaw._tables.read_table` reads, or files of a tool.
        name: name of the source in messages, where it is no file of a tool.
        format: name of the format; None where the names of the files are to say it.
    """
    format = format or format_of_names(source)
    return read_table(source, name) if format is None else read_format(source, format)


def format_of_names(source: Any) -> str | None:
    """The format of a file, a folder or a list, where names that one tool alone gives say it."""
    paths = source if isinstance(source, list | tuple) else [source]
    if not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
        return None
    for name, pattern in OWN_NAMES.items():
        if all(_has_file(Path(path), pattern) for path in paths):
            return name
    return None


def _has_file(path: Path, pattern: str) -> bool:
    return any(path.rglob(pattern)) if path.is_dir() else path.match(pattern)


def _files(path: Path, name: str, patterns: tuple[str, ...]) -> list[Path]:
    if not path.is_dir():
        if not path.exists():
            raise UsageError(f"there is no file {path}.{nearest_file(path)}", file=path)
        return [path]
    for pattern in patterns:
        if files := sorted(path.rglob(pattern)):
            return files
    message = f"{path}: no file of format '{name}' in it; expected {' or '.join(patterns)}"
    raise DataError(message, file=path, argument="format", value=name)


def read_json(path: Path, key: str, kind: type) -> dict[str, Any]:
    """A JSON file that holds a key with a value of a kind.

    Raises:
        DataError: it does not.
    """
    try:
        record = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a JSON file: {error}", file=path) from None
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        what = {list: "a list", dict: "an object"}[kind]
        raise DataError(f"{path}: key '{key}' should hold {what}, and does not", file=path)
    return record


def with_canonical(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns renamed where a logger's name says what they are."""
    names = {}
    for canonical, usual in USUAL.items():
        present = [name for name in usual if name in frame]
        if present and present[0] != canonical:
            names[present[0]] = canonical
    return frame.rename(columns=names)


@dataclass(frozen=True, eq=False)
class Log:
    """Rows of one run, as one file holds them.

    Attributes:
        frame: its rows; the columns that distinguish them (``step``) have canonical names.
        file: their path, for messages.
        run: parts of the path that names the run: the folders, and last the run itself.
        named: whether the file says the run's name. The same name in another folder then means
            the same run, unless both folders log the same thing; a name taken from the path
            never does.
    """

    frame: pd.DataFrame
    file: Path
    run: tuple[str, ...]
    named: bool = False


# What a logger says of its own clock differs whenever something is logged twice.
_CLOCK = re.compile(r"(runtime|_per_second|timestamp|wall.?time)$", re.IGNORECASE)


def join_logs(logs: Iterable[Log], keys: tuple[str, ...] = ("step",)) -> pd.DataFrame:
    """Logs as one table, a row for each run and key.

    Args:
        logs: rows of runs; several files may log different things of one run.
        keys: columns that, with the run, distinguish rows.

    Returns:
        Columns ``run``, the keys and all that was logged, under canonical names. Logs without
        the keys (a chart over another axis) are put one below the other.

    Raises:
        DataError: two rows of one run and key differ, or only some logs have the keys.
    """
    logs = _same_runs(list(logs), keys)
    names = short_names(log.run for log in logs)
    by_run: dict[str, list[Log]] = {}
    for log in logs:
        by_run.setdefault(names[log.run], []).append(log)
    frames, files = [], []
    for name, logs_of_run in by_run.items():
        frame = pd.concat([log.frame for log in logs_of_run], ignore_index=True)
        frames.append(with_canonical(frame.drop(columns="run", errors="ignore")).assign(run=name))
        files += [log.file for log in logs_of_run for _ in range(len(log.frame))]
    frame = pd.concat(frames, ignore_index=True)
    if not set(keys) <= set(frame):
        return frame
    if "step" in keys:
        _check_steps(frame, files)
    by = ["run", *keys]
    again = frame.duplicated(by, keep=False)
    if again.any():
        _refuse_differences(frame[again], by, files)
    # last() takes of each column the last value that is there, whichever file logged it.
    merged = frame.groupby(by, sort=False, as_index=False, dropna=False).last()
    return merged.sort_values(by, kind="stable", ignore_index=True) if "step" in keys else merged


def _check_steps(frame: pd.DataFrame, files: list[Path]) -> None:
    missing = frame["step"].isna()
    if missing.any():
        without = files[int(missing.argmax())]
        raise DataError(
            f"{without}: it has rows without a step, which cannot be joined to logs of steps; read "
            "this file by itself",
            file=without,
            column="step",
        )


def _same_runs(logs: list[Log], keys: tuple[str, ...]) -> list[Log]:
    """Runs of one name in several folders as one run, where no two folders log the same."""
    folders: dict[str, dict[tuple[str, ...], set[Any]]] = {}
    for log in logs:
        if not log.named:
            continue
        logged = folders.setdefault(log.run[-1], {}).setdefault(log.run, set())
        of_rows = keys != ("step",) and set(keys) <= set(log.frame)
        entries = log.frame[list(keys)].itertuples(index=False, name=None) if of_rows else log.frame
        logged |= {entry for entry in entries if entry != "step"}
    one_run = {
        name
        for name, folders_of_run in folders.items()
        if sum(map(len, folders_of_run.values())) == len(set().union(*folders_of_run.values()))
    }
    first = {name: next(iter(folders_of_run)) for name, folders_of_run in folders.items()}
    return [
        replace(log, run=first[log.run[-1]]) if log.named and log.run[-1] in one_run else log
        for log in logs
    ]


def _refuse_differences(frame: pd.DataFrame, by: list[str], files: list[Path]) -> None:
    """Raise where rows of one run and key have different values of one column."""
    for column in frame.columns.difference(by, sort=False):
        known = frame[frame[column].notna()]
        cells = known[column]
        if cells.dtype == object:  # lists and objects of JSON have no hash
            cells = cells.map(lambda x: x if isinstance(x, str | int | float) else repr(x))
        groups = [known[name] for name in by]
        differs = cells != cells.groupby(groups, dropna=False).transform("first")
        if _CLOCK.search(str(column)) or not differs.any():
            continue
        second = differs.index[differs.argmax()]
        rows = known.index.to_series().groupby(groups, dropna=False)
        first = rows.transform("first")[second]
        here, other = files[first], files[second]
        what = f"{here} and {other} both hold" if here != other else f"{here} holds twice"
        where = ", ".join(f"{name} {known.loc[second, name]}" for name in by)
        raise DataError(
            f"{what} {where}, and they differ: {column} is {known.loc[first, column]} and "
            f"{known.loc[second, column]}; keep different runs in folders of their own, or pass a "
            "list of the files that count",
            file=here,
            row=where,
            column=column,
            value=known.loc[first, column],
        )


def with_values(table: Table, values: Mapping[str, Any] | None) -> Table:
    """Columns for what the files do not say: a number, or one for each run.

    Raises:
        UsageError: a column of that name is there already, or a run has no value.
    """
    frame = table.frame
    for name, value in (values or {}).items():
        if name in frame:
            message = f"values: {table.source} has a column '{name}' of its own"
            raise UsageError(message, argument="values", file=table.source, column=name)
        if isinstance(value, Mapping):
            frame = frame.assign(**{name: _values_by_run(name, value, table)})
            continue
        try:
            frame = frame.assign(**{name: float(value)})
        except (TypeError, ValueError):
            message = f"values: {name} is {value!r}; give a number"
            raise UsageError(message, argument="values", value=value) from None
    return Table(frame, table.source, table.word)


def _values_by_run(name: str, values: Mapping[str, Any], table: Table) -> list[float]:
    if "run" not in table.frame:
        message = f"values: {name} is given by run, and there is no column run"
        raise UsageError(message, argument="values", file=table.source, column="run")
    runs = table.frame["run"].astype(str)
    by_run = {str(run): value for run, value in values.items()}
    for run in by_run:
        if run not in set(runs):
            message = f"values: there is no run '{run}'.{nearest(run, set(runs))}"
            raise UsageError(message, argument="values", value=run)
    for run in runs:
        if run not in by_run:
            message = f"values: run '{run}' has no {name}; give every run one"
            raise UsageError(message, argument="values", value=run)
    return [float(by_run[run]) for run in runs]
