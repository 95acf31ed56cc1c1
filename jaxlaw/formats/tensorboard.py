"""TensorBoard: event files, a folder a run, and the CSV that its page downloads, a file a tag.

Event files are read by the package ``tensorboard``, which need not be installed otherwise. The
CSV has ``Wall time,Step,Value``; run and tag are in its name, ``run-RUN-tag-TAG.csv``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from jaxlaw.formats.base import by_run_and_step, format_of, with_canonical
from jaxlaw.notes import DataError, UsageError
from jaxlaw.tables import read_table

_CSV = ["Wall time", "Step", "Value"]


@format_of("tensorboard", "*tfevents*", "*.csv")
def read_scalars(paths: list[Path]) -> pd.DataFrame:
    """Rows run and step, a column a tag; a tag is called as it was written."""
    events = [path for path in paths if "tfevents" in path.name]
    parts = [_downloaded(path) for path in paths if path not in events]
    for folder in dict.fromkeys(path.parent for path in events):
        parts += _scalars(folder)
    if not parts:
        raise DataError(f"{paths[0]}: its events hold no scalars: log a loss with add_scalar")
    return with_canonical(by_run_and_step(parts))


def _scalars(folder: Path) -> list[pd.DataFrame]:
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray
    except ModuleNotFoundError:
        raise UsageError(
            f"{folder}: event files need tensorboard: pip install tensorboard, or download the "
            "scalars as CSV from its page"
        ) from None
    log = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    run, parts = folder.resolve().name, []
    for tag in log.Tags()["scalars"]:
        rows = [(one.step, one.value) for one in log.Scalars(tag)]
        parts.append(pd.DataFrame(rows, columns=["step", tag]).assign(run=run))
    for tag in log.Tags()["tensors"]:  # TensorFlow 2 writes scalars as tensors of no axes
        values = [(one.step, make_ndarray(one.tensor_proto)) for one in log.Tensors(tag)]
        rows = [(step, float(value)) for step, value in values if value.ndim == 0]
        parts += [pd.DataFrame(rows, columns=["step", tag]).assign(run=run)] if rows else []
    return parts


def _downloaded(path: Path) -> pd.DataFrame:
    frame = read_table(path).frame
    if list(frame.columns) != _CSV:
        raise DataError(
            f"{path}: no scalars of TensorBoard: expected columns {', '.join(_CSV)}, not "
            f"{', '.join(map(str, frame.columns))}"
        )
    named = re.fullmatch(r"run-(.+)-tag-(.+)", path.stem)
    run, tag = named.groups() if named else (path.stem, "value")
    # A tag's slash is an underscore in the name of the file.
    return frame[["Step", "Value"]].set_axis(["step", tag], axis=1).assign(run=run)
