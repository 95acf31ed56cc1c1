"""Readers of tools' files: from paths to one table of runs, a function a tool.

Each makes logs of runs and joins them. Columns keep the tool's names, but for ``run`` and ``step``;
:func:`jaxlaw.read_runs` takes those that it knows (``learning_rate`` for ``lr``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from jaxlaw._json import parse_json
from jaxlaw._tables import read_table, short_names
from jaxlaw.data._aliases import known_columns
from jaxlaw.errors import DataError, UsageError, listed

# What a logger says of its own clock differs whenever something is logged twice.
_CLOCK = re.compile(r"(runtime|_per_second|timestamp|wall.?time)$", re.IGNORECASE)
_DOWNLOAD = ["Wall time", "Step", "Value"]  # columns of what TensorBoard's page downloads
_BETWEEN = " - "  # run and metric in a chart of Weights & Biases


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


def read_trainer_states(paths: list[Path]) -> pd.DataFrame:
    """Hugging Face's ``trainer_state.json``: rows of its ``log_history``, one a run and step.

    Training and evaluation log under the same step; both are in its row. ``loss`` is the training
    loss, ``eval_loss`` keeps its name. Checkpoints of a run hold the beginning of its log, and are
    read as well.
    """
    logs = []
    for path in paths:
        history = _read_json(path, "log_history", list)["log_history"]
        folder = path.resolve().parent
        folder = folder.parent if folder.name.startswith("checkpoint-") else folder
        # The last entry sums the whole training up; its train_loss is a mean over all steps.
        rows = [entry for entry in history if "train_runtime" not in entry]
        logs.append(Log(pd.DataFrame(rows), path, folder.parts))
    filled = [log for log in logs if len(log.frame)]
    for log in logs:
        if log.run not in {one.run for one in filled}:
            message = f"{log.file}: key 'log_history' has no entry with a loss: nothing logged"
            raise DataError(message, file=log.file)
    return _join(filled)


def read_results(paths: list[Path]) -> pd.DataFrame:
    """lm-evaluation-harness' ``results_*.json``: a row for each model, checkpoint and task.

    ``results`` holds by task the metrics, called ``metric,filter`` with ``metric_stderr,filter``
    beside them. The filter ``none`` is left out of the column's name; others stay in it. A
    checkpoint is a revision among the arguments: ``pretrained=org/model,revision=step1000``.

    Returns:
        Columns run (the model's name), model_args, revision, and step where that says one; task,
        n_shot, N where the harness counted it, and the metrics.
    """
    read = []
    for path in paths:
        record = _read_json(path, "results", dict)
        config, shots = record.get("config") or {}, record.get("n-shot") or {}
        given = config.get("model_args")
        if isinstance(given, dict):
            given = ",".join(f"{name}={value}" for name, value in given.items())
        arguments = dict(part.partition("=")[::2] for part in str(given or "").split(","))
        revision = arguments.pop("revision", None)
        step = re.fullmatch(r"step[-_]?(\d+)", revision or "")
        name = record.get("model_name") or arguments.get("pretrained") or given
        model = {"model_args": given, "revision": revision, "step": int(step[1]) if step else None}
        parameters = config.get("model_num_parameters")
        if isinstance(parameters, int) and parameters > 0:  # −1 where the harness does not know
            model["N"] = parameters
        rows = []
        for task, metrics in record["results"].items():
            row = {**model, "task": task, "n_shot": shots.get(task)}
            for key, value in metrics.items():
                metric, _, chosen = key.partition(",")
                if metric in ("alias", "sample_len", "name"):
                    continue
                if isinstance(value, int | float | str):
                    # A standard error that cannot be had is the text N/A.
                    number = None if isinstance(value, str) else value
                    row[metric if chosen in ("", "none") else key] = number
            rows.append(row)
        if rows:
            apart = ",".join(f"{key}={value}" for key, value in arguments.items())
            run = path.resolve().parent.parts if name is None else (str(name),)
            read.append((name, apart, Log(pd.DataFrame(rows), path, run)))
    if not read:
        raise DataError(f"{paths[0]}: key 'results' names no task", file=paths[0])
    # Models of one name may differ in other arguments, which then are their names.
    several = {name for name, apart, _ in read if {a for n, a, _ in read if n == name} != {apart}}
    logs = [
        replace(log, run=(apart,)) if name is not None and name in several else log
        for name, apart, log in read
    ]
    table = _join(logs, ("task", "n_shot", "revision"))
    return table[["run", *table.columns.drop("run")]].dropna(axis=1, how="all")


def read_scalars(paths: list[Path]) -> pd.DataFrame:
    """TensorBoard: rows run and step, a column a tag, called as it was written.

    Event files, a folder a run, are read by the package ``tensorboard``; the CSV that its page
    downloads, a file a tag, has ``Wall time,Step,Value`` in any order, and run and tag in its name,
    ``run-RUN-tag-TAG.csv``.
    """
    logs, by_folder = [], {}
    for path in paths:
        if "tfevents" in path.name:
            by_folder.setdefault(path.parent, []).append(path)
            continue
        frame = read_table(path).frame
        if sorted(frame.columns) != sorted(_DOWNLOAD):
            raise DataError(
                f"{path}: no scalars of TensorBoard: expected columns {', '.join(_DOWNLOAD)}, not "
                f"{listed(frame.columns)}",
                file=path,
            )
        named = re.fullmatch(r"run-(.+)-tag-(.+)", path.stem)
        run, tag = named.groups() if named else (path.stem, "value")
        # A tag's slash is an underscore in the name of the file.
        rows = frame[["Step", "Value"]].set_axis(["step", tag], axis=1)
        logs.append(Log(rows, path, (run,) if named else (*path.resolve().parent.parts, run)))
    for folder, files in by_folder.items():
        # A run that was resumed from a checkpoint logs the steps after it once more, in a new file.
        # As in TensorBoard, the steps that the resumed run left behind do not count. A file that
        # begins no later than the one before it is no continuation, and is compared with it.
        begins, first = {}, len(logs)
        for file in sorted(files, reverse=True):  # names begin with the time of their making
            for tag, rows in reversed(_scalars_by_tag(file).items()):
                steps, after = rows["step"], begins.get(tag, math.inf)
                rows = rows[steps < after] if steps.min() < after else rows
                logs.insert(first, Log(rows, file, folder.resolve().parts))
                begins[tag] = min(steps.min(), after)
    if not logs:
        message = f"{paths[0]}: its events hold no scalars: log a loss with add_scalar"
        raise DataError(message, file=paths[0])
    return _join(logs)


def _scalars_by_tag(file: Path) -> dict[str, pd.DataFrame]:
    """Steps and values of every scalar in an event file."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ModuleNotFoundError:
        raise UsageError(
            f"{file}: event files need tensorboard: pip install tensorboard, or download the "
            "scalars as CSV from its page"
        ) from None
    log = EventAccumulator(str(file), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    scalars = {
        tag: [(event.step, event.value) for event in log.Scalars(tag)]
        for tag in log.Tags()["scalars"]
    }
    for tag in log.Tags()["tensors"]:  # TensorFlow 2 writes scalars as tensors of no axes
        values = [(event.step, make_ndarray(event.tensor_proto)) for event in log.Tensors(tag)]
        scalars[tag] = [(step, float(value)) for step, value in values if value.ndim == 0]
    return {tag: pd.DataFrame(rows, columns=["step", tag]) for tag, rows in scalars.items() if rows}


def read_exports(paths: list[Path]) -> pd.DataFrame:
    """Exports of Weights & Biases (CSV): a chart's, a run's history, the table of runs.

    A chart has its axis, ``Step``, and for each run a column ``run - metric`` with twins ``…__MIN``
    and ``…__MAX`` (the same for a single run; wandb/wandb#5349). Charts of several metrics are
    joined by run and step. A history (``run.history().to_csv()``) has ``_step`` and a column a
    metric; the table of runs ``Name``, ``State`` and a column for each setting and summary metric.

    Returns:
        Rows of all exports: one a run and step, or one a run.
    """
    logs, tables = [], []
    for path in paths:
        frame = read_table(path).frame.rename(columns=str)
        axis, *names = frame
        if "Name" in frame:
            tables.append(frame.rename(columns={"Name": "run"}))
        elif any(_BETWEEN in name for name in names):
            by_run = {}
            for name in names:
                run, between, metric = name.rpartition(_BETWEEN)
                if between and not metric.endswith(("__MIN", "__MAX")):
                    by_run.setdefault(run, {})[metric] = frame[name]
            step = "step" if known_columns(frame[[axis]], ["step"]) else axis
            for run, metrics in by_run.items():
                rows = pd.DataFrame({step: frame[axis], **metrics})
                logs.append(Log(rows.dropna(subset=[*metrics], how="all"), path, (run,)))
        elif "_step" in frame:
            # The index that pandas writes is none of the metrics.
            index = [axis] * (axis == "" or axis.startswith("Unnamed"))
            frame = frame.drop(columns=[*index, "step"], errors="ignore")
            frame = frame.rename(columns={"_step": "step"})
            if "run" in frame:
                parts = frame.groupby("run", sort=False, dropna=False)
                logs += [Log(part, path, (str(run),)) for run, part in parts]
            else:
                logs.append(Log(frame, path, (*path.resolve().parent.parts, path.stem)))
        else:
            raise DataError(
                f"{path}: no export of Weights & Biases: expected columns 'run - metric' (a "
                "chart), '_step' (a history) or 'Name' (the table of runs), not "
                f"{listed(frame)}",
                file=path,
            )
    if tables and logs:
        file = logs[0].file
        message = f"{file} logs steps, and another file is a table of runs: read them one at a time"
        raise DataError(message, file=file)
    return pd.concat(tables, ignore_index=True) if tables else _join(logs)


def _read_json(path: Path, key: str, kind: type) -> dict:
    """A JSON file that holds a key with a value of a kind; raises DataError where it does not."""
    try:
        record = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a JSON file: {error}", file=path) from None
    if not isinstance(record, dict) or not isinstance(record.get(key), kind):
        what = {list: "a list", dict: "an object"}[kind]
        raise DataError(f"{path}: key '{key}' should hold {what}, and does not", file=path)
    return record


def _join(logs: Iterable[Log], keys: tuple[str, ...] = ("step",)) -> pd.DataFrame:
    """Logs as one table, a row for each run and key.

    Args:
        logs: rows of runs; several files may log different things of one run.
        keys: columns that, with the run, distinguish rows.

    Returns:
        Columns ``run``, the keys and all that was logged. Logs without
        the keys (a chart over another axis) are put one below the other.

    Raises:
        DataError: two rows of one run and key differ, only some logs have the keys, or two folders
            log the same of runs of one name.
    """
    logs, by_step = list(logs), "step" in keys
    first_of = {}
    for log in logs:
        # A run that has a name of its own may be another's namesake: steps of two would mix.
        if not by_step or len(log.run) > 1:
            continue
        for column in log.frame.columns.difference(["step", "run"], sort=False):
            other = first_of.setdefault((log.run, column), log.file)
            if other.parent != log.file.parent and not _CLOCK.search(str(column)):
                raise DataError(
                    f"{other} and {log.file} both log {column} of a run {log.run[0]}: read two "
                    "runs apart, or give them different names; put the files of one into one "
                    "folder",
                    file=log.file,
                    column=column,
                )
    names = short_names(log.run for log in logs)
    # The logs of one run follow each other, where its first one stands.
    logs.sort(key=lambda log: [*names].index(log.run))
    frame = pd.concat([log.frame.assign(run=names[log.run]) for log in logs], ignore_index=True)
    files = [log.file for log in logs for _ in range(len(log.frame))]
    if not {*keys} <= {*frame}:
        return frame
    if by_step and (missing := frame["step"].isna()).any():
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
        )
    # last() takes of each column the last value that is there, whichever file logged it.
    merged = frame.groupby(by, sort=False, as_index=False, dropna=False).last()
    return merged.sort_values(by, kind="stable", ignore_index=True) if by_step else merged
