"""Scores of lm-evaluation-harness joined with a table of models, by the models' names."""

from __future__ import annotations

from typing import Any

import pandas as pd

from jaxlaw._tables import read_table
from jaxlaw._typed import checked
from jaxlaw.data._columns import missing_column
from jaxlaw.data.formats import read_format
from jaxlaw.errors import DataError, listed

_OF_A_RUN = ("run", "task", "n_shot", "model_args", "revision", "step", "N")


@checked
def join_scores(models: Any, results: Any, *, model: str = "model") -> pd.DataFrame:
    """A table of models with their scores, a column for each metric and task.

    Args:
        models: table with a row for each model: its name, N, D, and its losses; or for each
            checkpoint, such as the rows of a loss curve, whose ``step`` is then the one that the
            harness's revision says (``revision=step1000``). Models of which no revision says a
            step are found by their names alone.
        results: folder with the files ``results_*.json`` that lm-evaluation-harness wrote, or a
            list of such files.
        model: column of ``models`` with the names that the harness has; the last part of a name
            is enough (``OLMo-1B`` for ``allenai/OLMo-1B``) where it is of one model alone.

    Returns:
        The table with columns ``acc_hellaswag``, ``acc_norm_piqa`` … beside its own; NaN of a
        model without a result. Where a task has results of several numbers of shots, the columns
        are ``acc_piqa_0shot`` and ``acc_piqa_5shot``.

    Raises:
        UsageError: there is no such folder.
        DataError: there is no such column, no model of the table has a result, or none at its
            step, a column is in both, or there are several revisions of a model and no column says
            which.

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
    table, results = read_table(models), read_format(results, "lm-eval")
    frame, read = table.frame, results.frame
    if model not in frame:
        raise missing_column(model, " with the models' names", model, frame, table.source, False)
    by_step = "step" in read and "step" in frame
    if by_step:  # −1 of results without one, such as those of a model's last state
        read = read.assign(step=read["step"].fillna(-1))
    rows = ["run", "step"] if by_step else ["run"]
    if "revision" in read and read.groupby(rows)["revision"].nunique(dropna=False).max() > 1:
        raise DataError(
            f"{results.source} has several revisions of one model: {table.source} needs a column "
            "step to say which, or give the files of one"
        )
    # A column for each metric and task; standard errors are left out.
    shots = read["n_shot"] if "n_shot" in read else pd.Series(0, read.index)
    several = shots.groupby(read["task"]).transform("nunique") > 1
    suffix = ("_" + shots.astype("Int64").astype(str) + "shot").where(several, "")
    wide = read.assign(task=read["task"] + suffix).pivot(
        index=rows,
        columns="task",
        values=[c for c in read if c not in _OF_A_RUN and "_stderr" not in str(c)],
    ).dropna(axis=1, how="all")  # fmt: skip
    wide = wide.set_axis([f"{metric}_{task}" for metric, task in wide], axis=1)
    # The whole name, or its last part, where it is of one model alone.
    known = pd.Series(dict.fromkeys(read["run"].astype(str)), dtype=object).index.to_series()
    last = known.set_axis(known.str.rpartition("/")[2])
    names = frame[model].astype(str)
    found = names.map({**last[~last.index.duplicated(keep=False)], **known})
    if found.isna().all():
        raise DataError(
            f"no {model} of {table.source} has a result in {results.source}: names there are such "
            f"as {known.iloc[0]}, in the table {names.iloc[0]}"
        )
    if both := [column for column in wide if column in frame]:
        raise DataError(f"{table.source} has {listed(both)} already; drop or rename it")
    at = found
    if by_step:
        stepped = found.isin(read["run"][read["step"] >= 0])
        at = pd.MultiIndex.from_arrays([found, frame["step"].where(stepped).fillna(-1)])
        if not at.isin(wide.index).any():
            (run, step), (row, own) = wide.index[0], at[0]
            raise DataError(
                f"no model of {table.source} has a result in {results.source} at its step: "
                f"results there are such as of {run} at {step:.0f}, rows as of {row} at {own:.0f}"
            )
    return pd.concat([frame, wide.reindex(at).set_axis(frame.index)], axis=1)
