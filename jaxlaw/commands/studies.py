"""The command about cross-validation; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import jax
import typer

import jaxlaw as jl
from jaxlaw.commands.terminal import (
    check_folder,
    number,
    pairs,
    print_json,
    print_wrapped,
    unit_of,
    value_range,
    write_file,
)
from jaxlaw.notes import UsageError


def study_command(
    laws_and_data: Annotated[
        list[str],
        typer.Argument(metavar="LAW... DATA", help="Names of laws, then the file; - for stdin."),
    ],
    folds: Annotated[
        str,
        typer.Option(
            help="leave-one-out:N, leave-k-out:r:2, segments:D:3, largest:N, last:D:1/3, "
            "first:Dp:4, k-fold:5:groups=run, random-split:0.2:10, all-points."
        ),
    ],
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", help="Which column is what: N=n_params; repeatable."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option("--unit", "-u", help="What one of a column is worth: N=1e9; repeatable."),
    ] = None,
    where: Annotated[str | None, typer.Option(help="Rows to keep: a pandas query.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights.")] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(help="Whose share and loss: general, domain; repeated, a data set each."),
    ] = None,
    drop_invalid: Annotated[
        bool, typer.Option("--drop-invalid", help="Drop rows without valid numbers.")
    ] = False,
    constraint: Annotated[
        list[str] | None, typer.Option(help="Of a law: dcpt=paper; repeatable.")
    ] = None,
    n_starts: Annotated[int, typer.Option(min=1, help="Size of the Sobol sample.")] = 4096,
    screen: Annotated[int, typer.Option(min=1, help="The best of them are solved.")] = 64,
    no_screen: Annotated[bool, typer.Option("--no-screen", help="Solve all.")] = False,
    solver: Annotated[str, typer.Option(help="newton or lbfgs.")] = "newton",
    delta: Annotated[float | None, typer.Option(help="Huber threshold.")] = None,
    space: Annotated[str | None, typer.Option(help="Residuals: log or linear.")] = None,
    fix: Annotated[list[str] | None, typer.Option(help="alpha=0.34; repeatable.")] = None,
    bound: Annotated[list[str] | None, typer.Option(help="alpha=0.1:1; repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the Sobol sample.")] = 0,
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps finished parts; killed, the command goes on there."),
    ] = None,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--quiet", help="Show a bar; by default on terminals only."),
    ] = None,
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="Share the work among the processes of a cluster job."),
    ] = False,
    compile_cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps compiled programs for later calls.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write every fold: a table (CSV), or all of it (JSON).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Fit laws on parts of the runs, score them on the rest, and compare.

    Example: jaxlaw study dcpt dcpt-l1 runs.csv --folds leave-k-out:r:2 --out folds.csv
    """
    check_folder(out)
    if len(laws_and_data) < 2:
        raise UsageError("name one law or more, then the data: jaxlaw study dcpt dcpt-l1 runs.csv")
    *laws, data = laws_and_data
    design = jl.folds.parse(folds)
    if distributed:
        jl.join_processes()
    runs = jl.read_runs(
        data,
        pairs(column, "--column"),
        {name: unit_of(text) for name, text in pairs(unit, "--unit").items()},
        weight=weight,
        where=where,
        drop_invalid=drop_invalid,
    )
    study = jl.cross_validate(
        laws,
        {side: runs.share(side) for side in share} if share else runs,
        design,
        per_law={
            law: {"constraint": name} for law, name in pairs(constraint, "--constraint").items()
        },
        n_starts=n_starts,
        screen=False if no_screen else screen,
        solver=solver,
        delta=delta,
        space=space,
        fixed={name: number(text, "--fix") for name, text in pairs(fix, "--fix").items()} or None,
        bounds={name: value_range(text) for name, text in pairs(bound, "--bound").items()},
        seed=seed,
        work_dir=work_dir,
        progress=progress,
        distributed=distributed,
        compile_cache=compile_cache,
    )
    if distributed and jax.process_index() > 0:
        return  # the first process speaks for all
    _show(study, out, as_json)
    if study.n_failed == len(study.frame):
        raise typer.Exit(1)


def _show(study: jl.Study, out: Path | None, as_json: bool) -> None:
    if out is not None:
        write_file(out, study.save)
    if not as_json:
        print_wrapped(study.summary())
        return
    record: dict[str, Any] = study.to_dict()
    ranking = study.ranking().reset_index().astype(object)
    record["ranking"] = ranking.where(ranking.notna(), None).to_dict(orient="records")
    print_json(record)
