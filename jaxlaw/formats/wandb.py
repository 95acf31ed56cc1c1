"""Exports of Weights & Biases (CSV): a chart's, a run's history, the table of runs.

A chart has its axis, ``Step``, and for each run a column ``run - metric`` with twins ``…__MIN``
and ``…__MAX`` (the same for a single run; wandb/wandb#5349). Charts of several metrics are joined
by run and step. A history (``run.history().to_csv()``) has ``_step`` and a column a metric; the
table of runs ``Name``, ``State`` and a column for each setting and summary metric.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from jaxlaw.formats.base import by_run_and_step, format_of, with_canonical
from jaxlaw.notes import DataError
from jaxlaw.tables import read_table

_BETWEEN = " - "
_TWINS = ("__MIN", "__MAX")


@format_of("wandb", "*.csv")
def read_exports(paths: list[Path]) -> pd.DataFrame:
    """Rows of all exports: one a run and step, or one a run."""
    parts = []
    for path in paths:
        frame = read_table(path).frame
        names = [str(name) for name in frame.columns]
        if any(_BETWEEN in name for name in names[1:]):
            parts.append(_chart(frame, names))
        elif "_step" in names:
            parts.append(_history(frame, path))
        elif "Name" in names:
            parts.append(with_canonical(frame.rename(columns={"Name": "run"})))
        else:
            raise DataError(
                f"{path}: no export of Weights & Biases: expected columns 'run - metric' (a "
                f"chart), '_step' (a history) or 'Name' (the table of runs), not {', '.join(names)}"
            )
    return by_run_and_step(parts)


def _chart(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Rows run, step and metrics from a column for each run and metric."""
    by_run: dict[str, dict[str, pd.Series]] = {}
    for name in names[1:]:
        run, between, metric = name.rpartition(_BETWEEN)
        if between and not metric.endswith(_TWINS):
            by_run.setdefault(run, {})[metric] = frame[name]
    axis = {names[0]: frame[names[0]]}
    parts = [
        pd.DataFrame({**axis, **metrics}).dropna(subset=list(metrics), how="all").assign(run=run)
        for run, metrics in by_run.items()
    ]
    return with_canonical(pd.concat(parts, ignore_index=True))


def _history(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    first = frame.columns[0]
    if first == "" or str(first).startswith("Unnamed"):  # the index that pandas writes
        frame = frame.drop(columns=first)
    frame = frame.drop(columns="step", errors="ignore") if "step" in frame else frame
    run = {} if "run" in frame else {"run": path.stem}
    return with_canonical(frame.rename(columns={"_step": "step"})).assign(**run)
