"""Results of lm-evaluation-harness: ``results_*.json``, a row for each model and task.

``results`` holds by task the metrics, called ``metric,filter`` with ``metric_stderr,filter``
beside them. The filter ``none`` is left out of the column's name; others stay in it. A checkpoint
is a revision among the model's arguments: ``pretrained=org/model,revision=step1000``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from jaxlaw.data.formats._base import Log, join_logs, read_json
from jaxlaw.errors import DataError


def read_results(paths: list[Path]) -> pd.DataFrame:
    """A row for each model, checkpoint and task.

    Columns run (the model's name), model_args, revision, and step where that says one; task,
    n_shot, N where the harness counted it, and the metrics.
    """
    logs: list[tuple[Path, dict[str, Any], pd.DataFrame]] = []
    for path in paths:
        record = read_json(path, "results", dict)
        config, shots = (_object(path, record, key) for key in ("config", "n-shot"))
        given = config.get("model_args")
        if isinstance(given, dict):
            given = ",".join(f"{name}={value}" for name, value in given.items())
        arguments = dict(part.partition("=")[::2] for part in str(given or "").split(","))
        revision = arguments.pop("revision", None)
        step = re.fullmatch(r"step[-_]?(\d+)", revision or "")
        name = record.get("model_name") or arguments.get("pretrained") or given
        model = {"run": None if name is None else str(name), "model_args": given}
        model |= {"revision": revision, "step": int(step[1]) if step else None}
        parameters = config.get("model_num_parameters")
        if isinstance(parameters, int) and parameters > 0:  # −1 where the harness does not know
            model["N"] = parameters
        rows = []
        for task, metrics in record["results"].items():
            if not isinstance(metrics, dict):
                message = f"{path}: key 'results.{task}' should hold its metrics by name"
                raise DataError(message, file=path, row=task)
            rows.append({**model, "task": task, "n_shot": shots.get(task), **_metrics(metrics)})
        # Models of one name may differ in other arguments.
        apart = ",".join(f"{key}={value}" for key, value in arguments.items())
        if rows:
            logs.append((path, {"name": name, "apart": apart}, pd.DataFrame(rows)))
    if not logs:
        raise DataError(f"{paths[0]}: key 'results' names no task", file=paths[0])
    told: dict[Any, set[str]] = {}
    for _, model, _ in logs:
        told.setdefault(model["name"], set()).add(model["apart"])
    table = join_logs(
        [
            Log(rows, path, path.resolve().parent.parts if model["name"] is None
                else (str(model["apart" if len(told[model["name"]]) > 1 else "name"]),))
            for path, model, rows in logs
        ],
        ("task", "n_shot", "revision"),
    )  # fmt: skip
    return table[["run", *table.columns.drop("run")]].dropna(axis=1, how="all")


def _object(path: Path, record: dict[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    if not isinstance(value, dict | None):
        raise DataError(f"{path}: key '{key}' should hold an object, and does not", file=path)
    return value or {}


def _metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    named = {}
    for name, value in metrics.items():
        metric, _, chosen = name.partition(",")
        if metric not in ("alias", "sample_len", "name") and isinstance(value, int | float | str):
            # A standard error that cannot be had is the text N/A.
            number = None if isinstance(value, str) else value
            named[metric if chosen in ("", "none") else name] = number
    return named
