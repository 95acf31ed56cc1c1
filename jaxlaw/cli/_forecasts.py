"""The commands about back-tests and forecasts; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw._json import sealed
from jaxlaw.cli import _options as opt
from jaxlaw.cli._inputs import laws_and_fits, runs_as_fitted
from jaxlaw.cli._output import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    conclude,
    is_picture,
    print_wrapped,
    write_picture,
)
from jaxlaw.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

LawsAndData = Annotated[
    list[str],
    typer.Argument(
        metavar="[LAW]... DATA",
        help=f"Names of laws, {opt.OWN_LAW}, or fits (JSON), none for those that suit the "
        "columns; then the data, - for stdin.",
        autocompletion=opt.completed(opt.law_names),
    ),
]
Along = Annotated[
    str, typer.Option(help="What runs are cut along: compute (C, or 6·N·D), or a column.")
]
Cutoffs = Annotated[
    str, typer.Option(help="How many cut-offs; or the largest values fitted: 1e20,1e21.")
]
Starts = Annotated[int, typer.Option(min=1, help="Size of the Sobol sample.")]


@opt.works_long
@opt.sets_objective
@opt.reads_runs
def backtest_command(
    laws_and_data: LawsAndData,
    along: Along = "compute",
    cutoffs: Cutoffs = "6",
    groups: opt.Groups = None,
    n_starts: Starts = 1024,
    n_local: opt.Local = 16,
    solver: opt.Solver = "newton",
    seed: opt.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Write every prediction (CSV), all of it (JSON), or draw it (PNG, …)."),
    ] = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
    objective: dict[str, Any],
    working: dict[str, Any],
) -> None:
    """Fit laws below cut-offs and see what they say of the runs beyond.

    Example: jaxlaw backtest chinchilla runs.csv -c N=n_params -c D=n_tokens --cutoffs 3
    """
    check_out(out, JSON, CSV, PICTURE)
    laws, runs, own = _laws_and_runs(laws_and_data, reading, objective)
    result = jl.backtest(
        laws, runs, per_law=own, along=along, cutoffs=_cutoffs(cutoffs),
        groups=opt.columns_named(groups), n_starts=n_starts, n_local=n_local, solver=solver,
        seed=seed, **objective, **working,
    )  # fmt: skip
    if opt.is_silent(working):
        return
    conclude(
        result.to_dict(), result.notes, result.frame, lambda: print_wrapped(result.summary()), out,
        as_json, lambda plots: plots.backtest_errors(result),
    )  # fmt: skip


@opt.works_long
@opt.sets_objective
@opt.reads_runs
def forecast_command(
    laws_and_data: LawsAndData,
    at: Annotated[
        list[str],
        typer.Option(help="A run not yet made: N=7e10,D=1.4e12; repeatable, a run each."),
    ],
    level: opt.Level = 0.9,
    along: Along = "compute",
    cutoffs: Cutoffs = "6",
    groups: opt.Groups = None,
    n_resamples: Annotated[
        int, typer.Option("--resamples", min=2, help="Number of resamples of the runs.")
    ] = 16,
    n_starts: Starts = 1024,
    n_local: opt.Local = 16,
    solver: opt.Solver = "newton",
    seed: Annotated[int, typer.Option(min=0, help="Seed of resamples and starts.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write it: for `jaxlaw score` (JSON), the table (CSV); or draw it (PNG, …)."
        ),
    ] = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
    objective: dict[str, Any],
    working: dict[str, Any],
) -> None:
    """The target of runs that were not yet made, with an interval that a back-test has taught.

    Example: jaxlaw forecast chinchilla runs.csv --at N=7e9,D=1e12 --out forecast.json
    """
    check_out(out, JSON, CSV, PICTURE)
    points = points_at(at)
    laws, runs, own = _laws_and_runs(laws_and_data, reading, objective)
    result = jl.forecast(
        laws, runs, points, per_law=own, level=level, along=along, cutoffs=_cutoffs(cutoffs),
        groups=opt.columns_named(groups), n_resamples=n_resamples, n_starts=n_starts,
        n_local=n_local, solver=solver, seed=seed, **objective, **working,
    )  # fmt: skip
    if opt.is_silent(working):
        return
    if out is not None and not is_picture(out):
        result.save(out)
    elif out is not None:
        write_picture(out, lambda plots: plots.forecast_intervals(result))
    conclude(
        sealed(result.to_dict()), result.notes, result.table,
        lambda: print_wrapped(result.summary()), None, as_json,
    )  # fmt: skip


@opt.reads_runs
def score_command(
    forecasts_and_data: Annotated[
        list[str],
        typer.Argument(
            metavar="FORECAST... DATA",
            help="Files of forecasts (JSON), or folders with them, then the runs that were made "
            "since, - for stdin.",
        ),
    ],
    rtol: Annotated[
        float, typer.Option(help="How far a run's inputs may lie from the point, relative.")
    ] = 0.02,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the scores (CSV), all of it (JSON), or draw the calibration."),
    ] = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """How forecasts went: runs inside their intervals or not, and by how much.

    Example: jaxlaw score forecast.json later.csv
    """
    check_out(out, JSON, CSV, PICTURE)
    *files, data = forecasts_and_data
    if not files:
        raise UsageError("name one forecast or more, then the data: jaxlaw score f.json runs.csv")
    from jaxlaw.forecasting import load_all, score

    result = score(load_all(files), jl.read_runs(data, **reading), rtol=rtol)
    conclude(
        result.to_dict(), result.notes, result.table, lambda: print_wrapped(result.summary()), out,
        as_json, lambda plots: plots.forecast_calibration(result),
    )  # fmt: skip


def points_at(items: list[str]) -> dict[str, np.ndarray]:
    """``["N=1e9,2e9,D=1e12"]`` → arrays (k,) by name; a name that comes again begins a new run."""
    runs: list[list[str]] = [[]]
    for item in items:
        parts = opt.split_pairs(item)
        names = {part.partition("=")[0] for part in parts}
        if names & {part.partition("=")[0] for part in runs[-1]}:
            runs.append([])
        runs[-1] += parts
    import numpy as np

    points = [opt.combinations(parts, "--at") for parts in runs]
    for columns in points[1:]:
        if set(columns) != set(points[0]):
            raise UsageError(f"--at: every run needs {', '.join(points[0])}")
    return {name: np.concatenate([columns[name] for columns in points]) for name in points[0]}


def _laws_and_runs(
    words: list[str], reading: dict[str, Any], objective: dict[str, Any]
) -> tuple[Any, jl.Runs, dict[str, Any]]:
    """The laws, the runs, and what of its fit a law has of its own."""
    *named, data = words
    laws, own, fit = laws_and_fits(named, objective)
    return laws or None, runs_as_fitted(fit, data, reading), own


def _cutoffs(text: str) -> int | list[float]:
    if text.isdigit() and len(text) < 4:
        return int(text)
    return [opt.number(item, "--cutoffs") for item in text.split(",")]
