"""Results of lm-evaluation-harness: ``results_*.json``, a row for each model and task.

``results`` holds by task the metrics, called ``metric,filter`` with ``metric_stderr,filter``
beside them. The filter ``none`` is left out of the column's name; others stay in it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw.data.formats._base import Log, format_of, join_logs, read_json
from jaxlaw.errors import DataError


@format_of("lm-eval", "results*.json", "*.json")
def read_results(paths: list[Path]) -> pd.DataFrame:
    """Rows run (the model's name), task, n_shot, N where the harness counted it, and metrics."""
    files = []
    for path in paths:
        record = read_json(path, "results", dict)
        shots, model, rows = _object(path, record, "n-shot"), _model(path, record), []
        for task, metrics in record["results"].items():
            if not isinstance(metrics, dict):
                message = f"{path}: key 'results.{task}' should hold its metrics by name"
                raise DataError(message, file=path, row=task)
            rows.append({**model, "task": task, "n_shot": shots.get(task), **_metrics(metrics)})
        if rows:
            files.append((path, model, pd.DataFrame(rows)))
    if not files:
        raise DataError(f"{paths[0]}: key 'results' names no task", file=paths[0])
    arguments: dict[Any, set[Any]] = {}
    for _, model, _ in files:
        arguments.setdefault(model["run"], set()).add(model["model_args"])
    logs = []
    for path, model, frame in files:
        folder = path.resolve().parent
        # Revisions of one model have its name, and differ in the arguments.
        several = len(arguments[model["run"]]) > 1
        name = model["model_args"] if several else model["run"]
        if folder.name == _as_folder(model["run"]):  # the harness's own folder says nothing new
            folder = folder.parent
        parts = folder.parts if name is None else (*folder.parts, name)
        logs.append(Log(frame, path, parts, named=name is not None))
    table = join_logs(logs, ("task", "n_shot"))
    return table[["run", *table.columns.drop("run")]].dropna(axis=1, how="all")


def _as_folder(name: str | None) -> str | None:
    """What the harness calls the folder of a model's results."""
    return None if name is None else re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)


def _object(path: Path, record: dict[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    if not isinstance(value, dict | None):
        raise DataError(f"{path}: key '{key}' should hold an object, and does not", file=path)
    return value or {}


def _model(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The model's name, arguments and size; older files lack some of them."""
    config = _object(path, record, "config")
    arguments = config.get("model_args")
    if isinstance(arguments, dict):
        arguments = ",".join(f"{name}={value}" for name, value in arguments.items())
    arguments = None if arguments is None else str(arguments)
    name = record.get("model_name") or arguments
    known = {"run": None if name is None else str(name), "model_args": arguments}
    parameters = config.get("model_num_parameters")
    if isinstance(parameters, int) and parameters > 0:  # −1 where the harness does not know
        known["N"] = parameters
    return known


def _metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    named = {}
    for name, value in metrics.items():
        metric, _, chosen = name.partition(",")
        if metric not in ("alias", "sample_len", "name") and isinstance(value, int | float | str):
            # A standard error that cannot be had is the text N/A.
            number = None if isinstance(value, str) else value
            named[metric if chosen in ("", "none") else name] = number
    return named
