"""Options that several commands take; needs typer, which is an extra."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import pandas as pd
import typer

import jaxlaw as jl
from jaxlaw._tables import read_table
from jaxlaw.cli._saved import PUBLISHED, loaded_fit
from jaxlaw.cli._terminal import number, numbers_of, pairs, ranges_of, unit_of
from jaxlaw.data._columns import SIDES, missing_column, numbers, usual_columns
from jaxlaw.data._runs import target_column
from jaxlaw.data.formats import FORMATS
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting.solvers import SOLVERS


def completed(values: Iterable[str] | Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """What the shell offers for the beginning of a word."""

    def matching(incomplete: str) -> list[str]:
        every = values() if callable(values) else values
        return [one for one in every if one.startswith(incomplete)]

    return matching


def _published_fits() -> list[str]:
    return [PUBLISHED + name for name in jl.published()]


def fit_argument(help: str) -> Any:
    """Of a fit: its file, ``-``, or coefficients that a paper prints."""
    return typer.Argument(help=help, autocompletion=completed(_published_fits))


Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]

#: What the help of every command that takes a law says of a user's own.
OWN_LAW = "FILE.py:LAW for one of your own (runs that Python file)"
LawOrFit = Annotated[
    str,
    typer.Argument(
        help=f"Name of a law, {OWN_LAW}, or a fit of these data (JSON).",
        metavar="LAW",
        autocompletion=completed(jl.laws.names),
    ),
]
Data = Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet file; - for stdin.")]
Groups = Annotated[str | None, typer.Option(help="Columns whose rows share noise: run, or N,r.")]
Level = Annotated[float, typer.Option(help="Of the intervals.")]
PredictAt = Annotated[
    list[str] | None, typer.Option(help="Predict there too: N=7e9 or N=1e9,7e9; repeatable.")
]

Out = Annotated[Path | None, typer.Option(help="Write it (JSON, or the table as CSV).")]
OutOrPicture = Annotated[
    Path | None,
    typer.Option(help="Write it (JSON, or the table as CSV) or draw it (PNG, PDF, SVG)."),
]

# How data are read.
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "-c", help="Which column is what: N=n_params; repeatable."),
]
Units = Annotated[
    list[str] | None,
    typer.Option("--unit", "-u", help="What one of a column is worth: N=1e9; repeatable."),
]
Where = Annotated[
    str | None,
    typer.Option(
        help="Rows to keep, by ==, !=, <, <=, >, >=, in [..], and, or, not: "
        "\"split == 'fit' and N > 1e8\"."
    ),
]
Weight = Annotated[str | None, typer.Option(help="Column of weights.")]
Corpus = Annotated[
    str | None,
    typer.Option(
        "--corpus",
        "--share",
        help="Whose share and loss, by r_d, r_g: general or domain.",
        autocompletion=completed(("general", "domain")),
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="The tool that wrote the files: wandb, tensorboard, lm-eval or hf-trainer.",
        autocompletion=completed(FORMATS),
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        help="What the data do not say: N=1e9, or N=runA:1e9,runB:7e9; repeatable.",
    ),
]
DropInvalid = Annotated[
    bool, typer.Option("--drop-invalid", help="Drop rows without valid numbers.")
]

# What is fitted.
Constraint = Annotated[
    str | None,
    typer.Option(help="dcpt: paper or observed.", autocompletion=completed(("paper", "observed"))),
]
Delta = Annotated[float | None, typer.Option(help="Huber threshold.")]
Space = Annotated[
    str | None,
    typer.Option(help="Residuals: log or linear.", autocompletion=completed(("log", "linear"))),
]
Fix = Annotated[list[str] | None, typer.Option(help="alpha=0.34; repeatable.")]
Tie = Annotated[list[str] | None, typer.Option(help="beta=alpha; repeatable.")]
Bound = Annotated[list[str] | None, typer.Option(help="alpha=0.1:1; repeatable.")]
Base = Annotated[Path | None, typer.Option(help="cpt-chinchilla: a from-scratch fit (JSON).")]

# How it is searched for.
Starts = Annotated[int, typer.Option(min=1, help="Size of the Sobol sample.")]
Screen = Annotated[int, typer.Option(min=1, help="The best of them are solved.")]
NoScreen = Annotated[bool, typer.Option("--no-screen", help="Solve all.")]
Solver = Annotated[str, typer.Option(help="newton or lbfgs.", autocompletion=completed(SOLVERS))]

# How long work is done.
WorkDir = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps finished parts; killed, the command goes on there."),
]
Progress = Annotated[
    bool | None,
    typer.Option("--progress/--quiet", help="Show a bar; by default on terminals only."),
]
Distributed = Annotated[
    bool,
    typer.Option("--distributed", help="Share the work among the processes of a cluster job."),
]
CompileCache = Annotated[
    Path | None, typer.Option(help="Folder that keeps compiled programs for later calls.")
]


def columns_named(text: str | None) -> list[str] | None:
    """``N,r`` → ``["N", "r"]``."""
    return text.split(",") if text else None


def read_points(
    fit: jl.Fit, source: Any, columns: dict[str, str], corpus: str | None, where: str | None = None
) -> jl.Runs:
    """A table of points; columns not said have the fitted runs' names, or the law's."""
    table = read_table(source)
    columns = usual_columns(fit, table.frame, columns, corpus)
    return jl.read_runs(table, columns, corpus=corpus, where=where)


def points_of(fit: jl.Fit, runs: jl.Runs) -> dict[str, np.ndarray]:
    """The inputs of a law, in a table of points in the units of the fitted runs."""
    return {name: _input_column(runs, name) for name in fit.law.input_names}


def observed_target(fit: jl.Fit, runs: jl.Runs) -> tuple[str, np.ndarray] | None:
    """The column of a table of points that holds the law's target, and its (n,) values.

    A row that was not observed has NaN. None where no row was, or where nothing says which of two
    corpora is meant: neither hinders a prediction.
    """
    try:
        name = target_column(runs, fit.law)
    except UsageError:
        return None
    if name not in runs.table:
        return None
    values = numbers(runs.table[name], runs.location(name))
    return (name, values) if np.isfinite(values).any() else None


def other_columns(runs: jl.Runs, inputs: Iterable[str], found: Iterable[str]) -> dict[str, Any]:
    """The columns of a table of points that are no inputs; renamed where a result has the name."""
    return {
        f"{name} (as in the file)" if name in found else name: _cells(runs.table[name])
        for name in runs.table
        if name not in inputs
    }


def _cells(column: pd.Series) -> Any:
    """Numbers as they are, and anything else as JSON and CSV can hold it."""
    values = column.to_numpy()
    if values.dtype.kind in "iufb":
        return values
    kept = (str, bool, int, float)
    missing = column.isna().to_numpy()
    cells = [None if gone else one if isinstance(one, kept) else str(one)
             for gone, one in zip(missing, values, strict=True)]  # fmt: skip
    return np.array(cells, object)


def _input_column(runs: jl.Runs, name: str) -> np.ndarray:
    """A column of points; r also from the share of the other corpus."""
    mine, flip = name, False
    if runs.corpus and name in SIDES and name not in runs.table:
        mine, other = sorted(SIDES[name], key=lambda side: side[-1] != runs.corpus[0])
        if mine not in runs.table and other in runs.table:
            mine, flip = other, True
    if mine not in runs.table:
        raise missing_column(name, " (an input of the law)", mine, runs.table, runs.source)
    place = runs.location(mine)
    values = numbers(runs.table[mine], place)
    bad = ~np.isfinite(values)
    if bad.any():
        rows = place.rows(runs.table.index[bad], values[bad])
        raise DataError(f"{place}: no number in {rows}; leave these rows out")
    return 1 - values if flip else values


def values_of(items: list[str] | None) -> dict[str, Any] | None:
    """``["N=1e9"]`` → ``{"N": 1e9}``, ``["N=a:1,b:2"]`` → ``{"N": {"a": 1.0, "b": 2.0}}``."""
    found = {}
    for name, text in pairs(items, "--value").items():
        if ":" not in text:
            found[name] = number(text, "--value")
            continue
        by_run = [one.rpartition(":") for one in text.split(",")]
        found[name] = {run: number(value, "--value") for run, _, value in by_run}
    return found or None


# Options that come together: name → its kind and default.
_READING: dict[str, tuple[Any, Any]] = {
    "column": (Columns, None),
    "unit": (Units, None),
    "where": (Where, None),
    "weight": (Weight, None),
    "corpus": (Corpus, None),
    "drop_invalid": (DropInvalid, False),
    "format": (Format, None),
    "value": (Values, None),
}
_POSING: dict[str, tuple[Any, Any]] = {
    "constraint": (Constraint, None),
    "delta": (Delta, None),
    "space": (Space, None),
    "fix": (Fix, None),
    "tie": (Tie, None),
    "bound": (Bound, None),
    "base": (Base, None),
}
_WORKING: dict[str, tuple[Any, Any]] = {
    "work_dir": (WorkDir, None),
    "progress": (Progress, None),
    "distributed": (Distributed, False),
    "compile_cache": (CompileCache, None),
}

Command = Callable[..., None]


def reads_runs(command: Command) -> Command:
    """The command, with the options of how runs are read; it is given ``reading``.

    That is what :func:`jaxlaw.read_runs` is told. An option that the command has in a form of its
    own stays with it.
    """
    return _with_options(command, "reading", _READING, _reading)


def poses_fits(command: Command) -> Command:
    """The command, with the options of what is fitted; it is given ``posing``.

    That is what :func:`jaxlaw.fit` is told of the problem, without what was left out.
    """
    return _with_options(command, "posing", _POSING, _posing)


def works_long(command: Command) -> Command:
    """The command, with the options of long work; it is given ``working``, in a job joined."""
    return _with_options(command, "working", _WORKING, _working)


def is_silent(working: dict[str, Any]) -> bool:
    """Whether this is a process of a job whose first one speaks for all."""
    return working["distributed"] and jax.process_index() > 0


def _with_options(
    command: Command, into: str, options: dict[str, tuple[Any, Any]], told: Callable[..., Any]
) -> Command:
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.name != into]
    taken = {one.name for one in own}
    added = {name: of for name, of in options.items() if name not in taken}

    @functools.wraps(command)
    def call(**given: Any) -> None:
        asked = {name: given.pop(name) for name in added}
        command(**given, **{into: told(**asked)})

    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in added.items()
    ]
    call.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return call


def _reading(
    column: list[str] | None,
    unit: list[str] | None,
    value: list[str] | None,
    **others: Any,
) -> dict[str, Any]:
    return {
        "columns": pairs(column, "--column"),
        "units": {name: unit_of(text) for name, text in pairs(unit, "--unit").items()},
        "values": values_of(value),
        **others,
    }


def _posing(
    fix: list[str] | None,
    tie: list[str] | None,
    bound: list[str] | None,
    base: Path | None = None,
    **others: Any,
) -> dict[str, Any]:
    asked = {
        **others,
        "fixed": numbers_of(fix, "--fix"),
        "tied": pairs(tie, "--tie"),
        "bounds": ranges_of(bound, "--bound"),
        "base": loaded_fit(base) if base else None,
    }
    return {name: value for name, value in asked.items() if value not in (None, {})}


def _working(distributed: bool, **others: Any) -> dict[str, Any]:
    if distributed:
        jl.join_processes()
    return {"distributed": distributed, **others}
