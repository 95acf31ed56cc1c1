"""Options that several commands take; needs typer, which is an extra."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw.commands.terminal import number, pairs, unit_of
from jaxlaw.formats import FORMATS
from jaxlaw.notes import UsageError, nearest
from jaxlaw.solvers import SOLVERS

PUBLISHED = "published:"  # before the name of printed coefficients, in place of a file


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

# How data are read.
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "-c", help="Which column is what: N=n_params; repeatable."),
]
Units = Annotated[
    list[str] | None,
    typer.Option("--unit", "-u", help="What one of a column is worth: N=1e9; repeatable."),
]
Where = Annotated[str | None, typer.Option(help="Rows to keep: a pandas query.")]
Weight = Annotated[str | None, typer.Option(help="Column of weights.")]
Share = Annotated[
    str | None,
    typer.Option(
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


def reading_options(
    column: list[str] | None,
    unit: list[str] | None,
    where: str | None,
    weight: str | None,
    drop_invalid: bool,
    format: str | None = None,
    values: list[str] | None = None,
) -> dict[str, Any]:
    """What :func:`jaxlaw.read_runs` is told."""
    return {
        "columns": pairs(column, "--column"),
        "units": {name: unit_of(text) for name, text in pairs(unit, "--unit").items()},
        "where": where,
        "weight": weight,
        "drop_invalid": drop_invalid,
        "format": format,
        "values": values_of(values),
    }


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


def loaded_fit(file: str | Path) -> jl.Fit:
    """The fit of a file, of standard input (``-``), or printed (``published:NAME``)."""
    text = str(file)
    if not text.startswith(PUBLISHED):
        return jl.load(file)
    name, known = text.removeprefix(PUBLISHED), jl.published()
    if name not in known:
        raise UsageError(f"nothing is published as {name}.{nearest(name, known)}")
    return known[name]
