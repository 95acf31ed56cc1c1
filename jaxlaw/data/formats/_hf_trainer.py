"""Logs of the Hugging Face trainer: ``trainer_state.json``, its ``log_history``.

Training and evaluation log under the same step; both are in its row. ``loss`` is the training
loss, ``eval_loss`` keeps its name; ``num_input_tokens_seen`` is D, ``learning_rate`` is lr.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw.data.formats._base import Log, join_logs, read_json
from jaxlaw.errors import DataError

# The last entry sums the whole training up; its train_loss is a mean over all steps.
_SUMMARY = "train_runtime"


def read_trainer_states(paths: list[Path]) -> pd.DataFrame:
    """Rows of every run. Its checkpoints hold the beginning of its log, and are read as well."""
    logs, empty = [], {}
    for path in paths:
        history = read_json(path, "log_history", list)["log_history"]
        _check_steps(path, history)
        rows, folder = [entry for entry in history if _SUMMARY not in entry], _run_folder(path)
        if rows:
            logs.append(Log(pd.DataFrame(rows), path, folder.parts))
        else:
            empty[folder.parts] = path
    for run, path in empty.items():
        if run not in {log.run for log in logs}:
            message = f"{path}: key 'log_history' has no entry with a loss: nothing logged"
            raise DataError(message, file=path)
    return join_logs(logs)


def _run_folder(path: Path) -> Path:
    folder = path.resolve().parent
    return folder.parent if folder.name.startswith("checkpoint-") else folder


def _check_steps(path: Path, history: list[Any]) -> None:
    for entry in history:
        if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
            raise DataError(
                f"{path}: an entry of 'log_history' should have a key 'step': {entry!r}",
                file=path,
                column="step",
                value=entry,
            )
