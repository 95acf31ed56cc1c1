"""Logs of the Hugging Face trainer: ``trainer_state.json``, its ``log_history``.

Training and evaluation log under the same step; both are in its row. ``loss`` is the training
loss, ``eval_loss`` keeps its name; ``num_input_tokens_seen`` is D, ``learning_rate`` is lr.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from jaxlaw.formats.base import by_run_and_step, format_of, read_json, with_canonical
from jaxlaw.notes import DataError

# The last entry sums the whole training up; its train_loss is a mean over all steps.
_SUMMARY = "train_runtime"


@format_of("hf-trainer", "trainer_state.json")
def read_trainer_states(paths: list[Path]) -> pd.DataFrame:
    """Rows of every run; of a run's checkpoints the one that went furthest is read."""
    furthest: dict[Path, tuple[int, Path, list]] = {}
    for path in paths:
        history = read_json(path, "log_history", list)["log_history"]
        steps = [_step(path, entry) for entry in history]
        folder = _run_folder(path)
        reached = max(steps, default=0)
        if folder not in furthest or reached > furthest[folder][0]:
            furthest[folder] = (reached, path, history)
    parts = []
    for folder, (_, path, history) in furthest.items():
        rows = [entry for entry in history if _SUMMARY not in entry]
        if not rows:
            raise DataError(f"{path}: key 'log_history' has no entry with a loss: nothing logged")
        parts.append(with_canonical(pd.DataFrame(rows)).assign(run=folder.name or "run"))
    return by_run_and_step(parts)


def _run_folder(path: Path) -> Path:
    folder = path.resolve().parent
    return folder.parent if folder.name.startswith("checkpoint-") else folder


def _step(path: Path, entry: object) -> int:
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
        raise DataError(f"{path}: an entry of 'log_history' should have a key 'step': {entry!r}")
    return entry["step"]
