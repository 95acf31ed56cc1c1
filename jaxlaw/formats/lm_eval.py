"""Results of lm-evaluation-harness: ``results_*.json``, a row for each model and task.

``results`` holds by task the metrics, called ``metric,filter`` with ``metric_stderr,filter``
beside them. The filter ``none`` is left out of the column's name; others stay in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw.formats.base import format_of, read_json
from jaxlaw.notes import DataError


@format_of("lm-eval", "results*.json")
def read_results(paths: list[Path]) -> pd.DataFrame:
    """Rows run (the model's name), task, n_shot, N where the harness counted it, and metrics."""
    rows = []
    for path in paths:
        record = read_json(path, "results", dict)
        shared = _model(record)
        for task, found in record["results"].items():
            if not isinstance(found, dict):
                raise DataError(f"{path}: key 'results.{task}' should hold its metrics by name")
            shots = (record.get("n-shot") or {}).get(task)
            rows.append({**shared, "task": task, "n_shot": shots, **_metrics(found)})
    if not rows:
        raise DataError(f"{paths[0]}: key 'results' names no task")
    return pd.DataFrame(rows).dropna(axis=1, how="all")


def _model(record: dict[str, Any]) -> dict[str, Any]:
    """What is said of the model; older files have less of it."""
    config = record.get("config") or {}
    arguments = config.get("model_args")
    if isinstance(arguments, dict):
        arguments = ",".join(f"{name}={value}" for name, value in arguments.items())
    known = {"run": record.get("model_name") or arguments, "model_args": arguments}
    parameters = config.get("model_num_parameters")
    if isinstance(parameters, int) and parameters > 0:  # −1 where the harness cannot tell
        known["N"] = parameters
    return known


def _metrics(found: dict[str, Any]) -> dict[str, Any]:
    named = {}
    for name, value in found.items():
        metric, _, chosen = name.partition(",")
        if metric not in ("alias", "sample_len", "name") and isinstance(value, int | float | str):
            # A standard error that cannot be had is the text N/A.
            number = None if isinstance(value, str) else value
            named[metric if chosen in ("", "none") else name] = number
    return named
