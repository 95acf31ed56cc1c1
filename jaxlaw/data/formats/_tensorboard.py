"""TensorBoard: event files, a folder a run, and the CSV that its page downloads, a file a tag.

Event files are read by the package ``tensorboard``, which need not be installed otherwise. The
CSV has ``Wall time,Step,Value``, in any order; run and tag are in its name,
``run-RUN-tag-TAG.csv``.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd

from jaxlaw._tables import read_table
from jaxlaw.data.formats._base import Log, join_logs
from jaxlaw.errors import DataError, UsageError, listed

_CSV = ["Wall time", "Step", "Value"]


def read_scalars(paths: list[Path]) -> pd.DataFrame:
    """Rows run and step, a column a tag; a tag is called as it was written."""
    events = [path for path in paths if "tfevents" in path.name]
    logs = [_read_download(path) for path in paths if path not in events]
    for folder in dict.fromkeys(path.parent for path in events):
        logs += _scalars([path for path in events if path.parent == folder])
    if not logs:
        message = f"{paths[0]}: its events hold no scalars: log a loss with add_scalar"
        raise DataError(message, file=paths[0])
    return join_logs(logs)


def _scalars(files: list[Path]) -> list[Log]:
    """The scalars of one run: the event files of one folder, a log for each file and tag."""
    run = files[0].resolve().parent.parts
    logs = [
        Log(pd.DataFrame(rows, columns=["step", tag]), file, run)
        for file in sorted(files)  # their names begin with the time of their making
        for tag, rows in _scalars_by_tag(file).items()
        if rows
    ]
    # A run that was resumed from a checkpoint logs the steps after it once more, in a new file.
    # As in TensorBoard, the steps that the resumed run left behind do not count. A file that
    # begins no later than the one before it is no continuation, and is compared with it.
    begins: dict[str, int] = {}
    kept = []
    for log in reversed(logs):
        tag, steps = log.frame.columns[1], log.frame["step"]
        after = begins.get(tag, math.inf)
        kept.append(replace(log, frame=log.frame[steps < after]) if steps.min() < after else log)
        begins[tag] = min(steps.min(), after)
    return kept[::-1]


def _scalars_by_tag(file: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of every scalar in an event file."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ModuleNotFoundError:
        raise UsageError(
            f"{file}: event files need tensorboard: pip install tensorboard, or download the "
            "scalars as CSV from its page",
            file=file,
        ) from None
    log = EventAccumulator(str(file), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    scalars = {
        tag: [(event.step, event.value) for event in log.Scalars(tag)]
        for tag in log.Tags()["scalars"]
    }
    for tag in log.Tags()["tensors"]:  # TensorFlow 2 writes scalars as tensors of no axes
        values = [(event.step, make_ndarray(event.tensor_proto)) for event in log.Tensors(tag)]
        scalars[tag] = [(step, float(value)) for step, value in values if value.ndim == 0]
    return scalars


def _read_download(path: Path) -> Log:
    frame = read_table(path).frame
    if sorted(frame.columns) != sorted(_CSV):
        raise DataError(
            f"{path}: no scalars of TensorBoard: expected columns {', '.join(_CSV)}, not "
            f"{listed(frame.columns)}",
            file=path,
        )
    named = re.fullmatch(r"run-(.+)-tag-(.+)", path.stem)
    run, tag = named.groups() if named else (path.stem, "value")
    # A tag's slash is an underscore in the name of the file.
    rows = frame[["Step", "Value"]].set_axis(["step", tag], axis=1)
    return Log(rows, path, (run,) if named else (*path.resolve().parent.parts, run))
