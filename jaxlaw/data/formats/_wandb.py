"""Exports of Weights & Biases (CSV): a chart's, a run's history, the table of runs.

A chart has its axis, ``Step``, and for each run a column ``run - metric`` with twins ``…__MIN``
and ``…__MAX`` (the same for a single run; wandb/wandb#5349). Charts of several metrics are joined
by run and step. A history (``run.history().to_csv()``) has ``_step`` and a column a metric; the
table of runs ``Name``, ``State`` and a column for each setting and summary metric.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from jaxlaw._tables import read_table
from jaxlaw.data.formats._base import USUAL, Log, join_logs, with_canonical
from jaxlaw.errors import DataError, listed

_BETWEEN = " - "
_TWINS = ("__MIN", "__MAX")


def read_exports(paths: list[Path]) -> pd.DataFrame:
    """Rows of all exports: one a run and step, or one a run."""
    logs: list[Log] = []
    tables: dict[Path, pd.DataFrame] = {}
    for path in paths:
        frame = read_table(path).frame
        names = [str(name) for name in frame.columns]
        if "Name" in names:
            tables[path] = with_canonical(frame.rename(columns={"Name": "run"}))
        elif any(_BETWEEN in name for name in names[1:]):
            logs += _chart(frame, names, path)
        elif "_step" in names:
            logs += _history(frame, path)
        else:
            raise DataError(
                f"{path}: no export of Weights & Biases: expected columns 'run - metric' (a "
                "chart), '_step' (a history) or 'Name' (the table of runs), not "
                f"{listed(names)}",
                file=path,
            )
    if tables and logs:
        raise DataError(
            f"{next(iter(tables))} is a table of runs, and {logs[0].file} logs steps; read one of "
            "them at a time",
            file=next(iter(tables)),
        )
    return pd.concat(tables.values(), ignore_index=True) if tables else join_logs(logs)


def _chart(frame: pd.DataFrame, names: list[str], path: Path) -> list[Log]:
    """Rows step and metrics of each run, from a column for each run and metric."""
    by_run: dict[str, dict[str, pd.Series]] = {}
    for name in names[1:]:
        run, between, metric = name.rpartition(_BETWEEN)
        if between and not metric.endswith(_TWINS):
            by_run.setdefault(run, {})[metric] = frame[name]
    axis = "step" if names[0] in USUAL["step"] else names[0]
    logs = []
    for run, metrics in by_run.items():
        rows = pd.DataFrame({axis: frame[names[0]], **metrics}).dropna(subset=[*metrics], how="all")
        logs.append(Log(rows, path, (run,)))
    return logs


def _history(frame: pd.DataFrame, path: Path) -> list[Log]:
    first = frame.columns[0]
    if first == "" or str(first).startswith("Unnamed"):  # the index that pandas writes
        frame = frame.drop(columns=first)
    frame = frame.drop(columns="step", errors="ignore").rename(columns={"_step": "step"})
    if "run" not in frame:
        return [Log(frame, path, (*path.resolve().parent.parts, path.stem))]
    return [
        Log(part, path, (str(run),)) for run, part in frame.groupby("run", sort=False, dropna=False)
    ]
