"""What readers of tools' files share: logs of runs as one table, canonical names.

A format is a function from files to one DataFrame. It gives columns their canonical name where
the tool's own says what they are (``learning_rate`` is ``lr``) and keeps all others as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw._json import parse_json
from jaxlaw._tables import short_names
from jaxlaw.errors import DataError

# What loggers call things, by canonical name; the first that is there is meant.
USUAL: dict[str, tuple[str, ...]] = {
    "step": ("step", "_step", "Step", "global_step", "train/global_step", "trainer/global_step"),
    "lr": ("lr", "learning_rate", "train/learning_rate", "train/lr"),
    "loss": ("loss", "train/loss", "train_loss", "Loss/train"),
    "D": ("D", "num_input_tokens_seen", "train/num_input_tokens_seen"),
}

# What a logger says of its own clock differs whenever something is logged twice.
_CLOCK = re.compile(r"(runtime|_per_second|timestamp|wall.?time)$", re.IGNORECASE)


def read_json(path: Path, key: str, kind: type) -> dict[str, Any]:
    """A JSON file that holds a key with a value of a kind.

    Raises:
        DataError: it does not.
    """
    try:
        record = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a JSON file: {error}", file=path) from None
    if not isinstance(record, dict) or not isinstance(record.get(key), kind):
        what = {list: "a list", dict: "an object"}[kind]
        raise DataError(f"{path}: key '{key}' should hold {what}, and does not", file=path)
    return record


def with_canonical(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns renamed where a logger's name says what they are."""
    names = {}
    for canonical, usual in USUAL.items():
        present = [name for name in usual if name in frame]
        names |= {name: canonical for name in present[:1]}
    return frame.rename(columns=names)


@dataclass(frozen=True, eq=False)
class Log:
    """Rows of one run, as one file holds them.

    Attributes:
        frame: its rows; the columns that distinguish them (``step``) have canonical names.
        file: their path, for messages.
        run: what names the run: its own name, as the file has it; else the parts of its path.
    """

    frame: pd.DataFrame
    file: Path
    run: tuple[str, ...]


def join_logs(logs: Iterable[Log], keys: tuple[str, ...] = ("step",)) -> pd.DataFrame:
    """Logs as one table, a row for each run and key.

    Args:
        logs: rows of runs; several files may log different things of one run.
        keys: columns that, with the run, distinguish rows.

    Returns:
        Columns ``run``, the keys and all that was logged, under canonical names. Logs without
        the keys (a chart over another axis) are put one below the other.

    Raises:
        DataError: two rows of one run and key differ, only some logs have the keys, or two folders
            log the same of runs of one name.
    """
    logs = list(logs)
    if "step" in keys:
        _refuse_namesakes(logs)
    names = short_names(log.run for log in logs)
    frames = [
        with_canonical(log.frame.drop(columns="run", errors="ignore")).assign(run=names[log.run])
        for log in logs
    ]
    # The logs of one run follow each other, where its first one stands.
    order = sorted(range(len(logs)), key=lambda k: list(names).index(logs[k].run))
    frame = pd.concat([frames[k] for k in order], ignore_index=True)
    files = [logs[k].file for k in order for _ in range(len(frames[k]))]
    if not {*keys} <= {*frame}:
        return frame
    if "step" in keys and (missing := frame["step"].isna()).any():
        without = files[int(missing.argmax())]
        raise DataError(
            f"{without}: it has rows without a step, which cannot be joined to logs of steps; read "
            "this file by itself",
            file=without,
            column="step",
        )
    by = ["run", *keys]
    again = frame[frame.duplicated(by, keep=False)]
    for column in again.columns.difference(by, sort=False):
        cells = again[column].dropna().map(repr)  # lists and objects of JSON have no hash
        groups = [again.loc[cells.index, name] for name in by]
        first = cells.index.to_series().groupby(groups, dropna=False).transform("first")
        differs = cells.to_numpy() != cells[first].to_numpy()
        if _CLOCK.search(str(column)) or not differs.any():
            continue
        second = cells.index[differs.argmax()]
        here, other = files[first[second]], files[second]
        what = f"{here} and {other} both hold" if here != other else f"{here} holds twice"
        where = ", ".join(f"{name} {again.loc[second, name]}" for name in by)
        raise DataError(
            f"{what} {where}, and they differ: {column} is {cells[first[second]]} and "
            f"{cells[second]}; give different runs different names, or pass a list of the "
            "files that count",
            file=here,
            row=where,
            column=column,
            value=again.loc[first[second], column],
        )
    # last() takes of each column the last value that is there, whichever file logged it.
    merged = frame.groupby(by, sort=False, as_index=False, dropna=False).last()
    return merged.sort_values(by, kind="stable", ignore_index=True) if "step" in keys else merged


def _refuse_namesakes(logs: list[Log]) -> None:
    """Raise where two folders log one thing of runs of one name: steps of two runs would mix."""
    first: dict[Any, Path] = {}
    for log in logs:
        if len(log.run) > 1:  # named by its path
            continue
        for column in log.frame.columns.difference(["step", "run"], sort=False):
            other = first.setdefault((log.run, column), log.file)
            if other.parent != log.file.parent and not _CLOCK.search(str(column)):
                raise DataError(
                    f"{other} and {log.file} both log {column} of a run {log.run[0]}: read two "
                    "runs apart, or give them different names; put the files of one into one "
                    "folder",
                    file=log.file,
                    column=column,
                )
