"""Scores of lm-evaluation-harness joined with a table of models, by the models' names."""

from __future__ import annotations

from typing import Any

import pandas as pd

from jaxlaw._tables import read_table
from jaxlaw._typed import checked
from jaxlaw.data.formats import read_format
from jaxlaw.errors import DataError, UsageError, listed, nearest

_OF_A_RUN = ("run", "task", "n_shot", "model_args", "N")


@checked
def join_scores(models: Any, results: Any, *, model: str = "model") -> pd.DataFrame:
    """A table of models with their scores, a column for each metric and task.

    Args:
        models: table with a row for each model: its name, N, D, and its losses.
        results: folder with the files ``results_*.json`` that lm-evaluation-harness wrote, or a
            list of such files.
        model: column of ``models`` with the names that the harness has; the last part of a name
            is enough (``OLMo-1B`` for ``allenai/OLMo-1B``) where it is of one model alone.

    Returns:
        The table with columns ``acc_hellaswag``, ``acc_norm_piqa`` … beside its own; NaN of a
        model without a result. Where a task has results of several numbers of shots, the columns
        are ``acc_piqa_0shot`` and ``acc_piqa_5shot``.

    Raises:
        UsageError: there is no such column, or no such folder.
        DataError: no model of the table has a result, or a column is in both.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> for name, acc in (("small", 0.31), ("large", 0.42)):
        ...     record = {"results": {"piqa": {"acc,none": acc}}, "model_name": f"lab/{name}"}
        ...     Path("evals", name).mkdir(parents=True)
        ...     _ = Path("evals", name, "results_1.json").write_text(json.dumps(record))
        >>> models = pd.DataFrame({"model": ["small", "large"], "N": [1e8, 1e9]})
        >>> jl.data.join_scores(models, "evals")
           model             N  acc_piqa
        0  small  1.000000e+08      0.31
        1  large  1.000000e+09      0.42
    """
    table = read_table(models)
    frame = table.frame
    if model not in frame:
        raise UsageError(
            f"{table.source} has no column {model} with the models' names; columns: "
            f"{listed(list(frame))}.{nearest(model, list(frame))}",
            argument="model",
        )
    read = read_format(results, "lm-eval")
    wide = _wide(read.frame)
    names = frame[model].astype(str)
    found = names.map(_names(names, wide.index.astype(str)))
    if found.isna().all():
        raise DataError(
            f"no {model} of {table.source} has a result in {read.source}: names there are such as "
            f"{wide.index[0]}, in the table {names.iloc[0]}"
        )
    if both := [column for column in wide if column in frame]:
        raise DataError(f"{table.source} has {listed(both)} already; drop or rename it")
    scores = wide.reindex(found).set_axis(frame.index)
    return pd.concat([frame, scores], axis=1)


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    """(models × metrics and tasks) scores; standard errors are left out."""
    metrics = [c for c in frame if c not in _OF_A_RUN and "_stderr" not in str(c)]
    shots = frame["n_shot"] if "n_shot" in frame else pd.Series(0, frame.index)
    several = shots.groupby(frame["task"]).transform("nunique") > 1
    suffix = ("_" + shots.astype("Int64").astype(str) + "shot").where(several, "")
    long = frame.assign(task=frame["task"] + suffix)
    wide = long.pivot(index="run", columns="task", values=metrics).dropna(axis=1, how="all")
    return wide.set_axis([f"{metric}_{task}" for metric, task in wide], axis=1)


def _names(names: pd.Series, known: pd.Index) -> dict[str, str]:
    """Name in the table → name of the harness."""
    last = pd.Series(known, known.str.rpartition("/").get_level_values(2))
    alone = last[~last.index.duplicated(keep=False)]
    return {
        name: name if name in known else alone[name]
        for name in names
        if name in known or name in alone
    }
