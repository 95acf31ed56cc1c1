"""The command about cross-validation; needs typer, which is an extra."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw.cli import _options as opt
from jaxlaw.cli._inputs import laws_and_fits, runs_as_fitted
from jaxlaw.cli._options import pairs
from jaxlaw.cli._output import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    conclude_result,
)
from jaxlaw.errors import UsageError


def _designs() -> Iterable[str]:
    from jaxlaw.validation.folds import DESIGNS

    return DESIGNS


@opt.works_long
@opt.sets_objective
@opt.reads_runs
def study_command(
    laws_and_data: Annotated[
        list[str],
        typer.Argument(
            metavar="LAW... DATA",
            help=f"Names of laws, {opt.OWN_LAW}, or fits (JSON); then the data, - for stdin.",
            autocompletion=opt.completed(opt.law_names),
        ),
    ],
    folds: Annotated[
        str,
        typer.Option(
            help="leave-one-group-out:N, leave-p-groups-out:r:2, contiguous-blocks:D:3, "
            "hold-out:N:largest:1, hold-out:D:last:1/3, hold-out:Dp:after:4, "
            "k-fold:5:groups=run, shuffle-split:0.2:10, in-sample.",
            autocompletion=opt.completed(_designs),
        ),
    ],
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            "--share",
            help="Whose share and loss: general, domain; repeated, a data set each.",
            autocompletion=opt.completed(("general", "domain")),
        ),
    ] = None,
    constraint: Annotated[
        list[str] | None, typer.Option(help="Constraint of a law: dcpt=paper; repeatable.")
    ] = None,
    n_starts: opt.Starts = None,
    n_local: opt.Local = 64,
    no_screen: opt.NoScreen = False,
    solver: opt.Solver = "newton",
    seed: opt.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write every fold: a table (CSV), all of it (JSON), or draw it (PNG, …)."
        ),
    ] = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
    objective: dict[str, Any],
    working: dict[str, Any],
) -> None:
    """Fit laws on parts of the runs, score them on the rest, and compare.

    Example: jaxlaw study dcpt dcpt-l1 mixtures.csv --folds leave-p-groups-out:r:2 --out folds.csv
    """
    check_out(out, JSON, CSV, PICTURE)
    if len(laws_and_data) < 2:
        raise UsageError("name one law or more, then the data: jaxlaw study dcpt dcpt-l1 runs.csv")
    *laws, data = laws_and_data
    design = jl.folds.parse(folds)
    laws, own, fit = laws_and_fits(laws, objective)
    runs = runs_as_fitted(fit, data, reading)
    for law, name in pairs(constraint, "--constraint").items():
        own[law] = own.get(law, {}) | {"constraint": name}
    study = jl.cross_validate(
        laws,
        {side: runs.for_corpus(side) for side in corpus} if corpus else runs,
        design,
        per_law=own,
        n_starts=n_starts,
        n_local=False if no_screen else n_local,
        solver=solver,
        seed=seed,
        **objective,
        **working,
    )
    if opt.is_silent(working):
        return
    conclude_result(study, out, as_json)
    if study.n_failed == len(study.frame):
        raise typer.Exit(1)
