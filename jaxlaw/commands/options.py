"""Options that several commands take; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jaxlaw.commands.terminal import pairs, unit_of

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
    str | None, typer.Option(help="Whose share and loss, by r_d, r_g: general or domain.")
]
DropInvalid = Annotated[
    bool, typer.Option("--drop-invalid", help="Drop rows without valid numbers.")
]

# What is fitted.
Constraint = Annotated[str | None, typer.Option(help="dcpt: paper or observed.")]
Delta = Annotated[float | None, typer.Option(help="Huber threshold.")]
Space = Annotated[str | None, typer.Option(help="Residuals: log or linear.")]
Fix = Annotated[list[str] | None, typer.Option(help="alpha=0.34; repeatable.")]
Tie = Annotated[list[str] | None, typer.Option(help="beta=alpha; repeatable.")]
Bound = Annotated[list[str] | None, typer.Option(help="alpha=0.1:1; repeatable.")]
Base = Annotated[Path | None, typer.Option(help="cpt-chinchilla: a from-scratch fit (JSON).")]

# How it is searched for.
Starts = Annotated[int, typer.Option(min=1, help="Size of the Sobol sample.")]
Screen = Annotated[int, typer.Option(min=1, help="The best of them are solved.")]
NoScreen = Annotated[bool, typer.Option("--no-screen", help="Solve all.")]
Solver = Annotated[str, typer.Option(help="newton or lbfgs.")]

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
) -> dict[str, Any]:
    """What :func:`jaxlaw.read_runs` is told."""
    return {
        "columns": pairs(column, "--column"),
        "units": {name: unit_of(text) for name, text in pairs(unit, "--unit").items()},
        "where": where,
        "weight": weight,
        "drop_invalid": drop_invalid,
    }
