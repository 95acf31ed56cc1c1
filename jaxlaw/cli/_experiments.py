"""The commands about experiments: what to evaluate and to run, and where the trend with D turns.

Needs typer, which is an extra.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw.cli import _options as opt
from jaxlaw.cli._help import Commands
from jaxlaw.cli._inputs import (
    one_fit,
    points_of,
    read_points,
    runs_as_fitted,
)
from jaxlaw.cli._options import combinations, numbers_of
from jaxlaw.cli._output import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    conclude_result,
    say_tables,
)

design = typer.Typer(
    cls=Commands,
    help="When to evaluate a run, and which runs to do next.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@design.command("steps")
def steps_command(
    budget: Annotated[int, typer.Option(help="Evaluations at most.")],
    steps: Annotated[int, typer.Option(help="Length of the run.")],
    every: Annotated[int, typer.Option(help="Shortest distance between two.")] = 1000,
    method: Annotated[str, typer.Option(help="M1, M2, M3 or M4 (Que 2024, App. I).")] = "M4",
    rate: Annotated[
        float | None, typer.Option(help="λ of M4, in place of what the budget gives.")
    ] = None,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
) -> None:
    """The steps after which to evaluate a run, within a budget of evaluations.

    Example: jaxlaw design steps --budget 10 --steps 20000
    """
    check_out(out, JSON, CSV, PICTURE)
    result = jl.design.evaluation_steps(budget, steps, every=every, method=method, rate=rate)
    conclude_result(result, out, as_json)


@design.command("next")
@opt.reads_runs
def next_command(
    fit: Annotated[Path, opt.fit_argument("A fit that `jaxlaw fit --out` wrote; - for stdin.")],
    data: Annotated[str, typer.Argument(help="The runs it was fitted on.")],
    candidates: Annotated[
        str, typer.Argument(help="File of runs that could be done, a column an input.")
    ],
    at: Annotated[
        list[str] | None,
        typer.Option(help="Point of the prediction: N=7e10 or N=1e9,7e9; repeatable."),
    ] = None,
    n: Annotated[int | None, typer.Option("-n", "--runs", help="How many to choose.")] = None,
    criterion: Annotated[
        str, typer.Option(help="c: the prediction's variance; D: all parameters'.")
    ] = "c",
    cost: Annotated[str | None, typer.Option(help="Column of costs of the candidates.")] = None,
    budget: Annotated[float | None, typer.Option(help="Cost of all at most.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of the run a candidate is an evaluation of.")
    ] = None,
    groups: opt.Groups = None,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The runs that most reduce the variance of a prediction, within a budget.

    Candidates have the columns and units of the runs. Of a forecast make the largest run instead
    that can be paid for, at the tokens per parameter of the run that is forecast.

    Example: jaxlaw design next fit.json runs.csv candidates.csv --at N=7e10 --at D=1e12 -n 4
    """
    check_out(out, JSON, CSV, PICTURE)
    loaded = one_fit(fit, "design next", evidence=True)
    from jaxlaw._tables import read_table

    listed = read_table(candidates)
    known = {k: v for k, v in reading["columns"].items() if v in listed.frame}
    points = points_of(loaded, read_points(loaded, listed, known, reading["corpus"]))
    predictions = combinations(at, "--at")
    result = jl.design.next_runs(
        loaded, runs_as_fitted(loaded, data, reading), listed.frame.assign(**points),
        predict=predictions or None, n=n, criterion=criterion, cost=cost, budget=budget,
        group=group, groups=opt.columns_named(groups),
    )  # fmt: skip
    chosen = listed.frame.iloc[result.table.index].reset_index(drop=True)
    chosen = chosen.assign(sd=result.table["sd"].to_numpy())
    show = partial(say_tables, result.headline, result.readable(chosen), notes=result.notes)
    conclude_result(dataclasses.replace(result, table=chosen), out, as_json, show=show)


@opt.reads_runs
def inflection_command(
    data: opt.Data,
    split: Annotated[
        float | None, typer.Option(help="Shares below and above it are fitted apart.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="N and D, in billions, at which the fits are compared."),
    ] = None,
    resamples: Annotated[int, typer.Option(min=2, help="Number of resamples of the runs.")] = 100,
    resample: Annotated[
        str, typer.Option(help="points; or runs, whose points share noise.")
    ] = "points",
    level: opt.Level = 0.95,
    n_starts: opt.Starts = 512,
    n_local: opt.Local = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws and of the starts.")] = 0,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The share below which the loss rises with D.

    Que 2024, appendix I.3. No inflection within the data is an answer too.

    Example: jaxlaw inflection shares.csv --corpus general -c r_d=domain_ratio -c loss_g=general_loss
    """  # noqa: E501
    check_out(out, JSON, CSV, PICTURE)
    result = jl.papers.inflection_ratio(
        jl.read_runs(data, **reading), split=split, at=numbers_of(at, "--at"),
        n_resamples=resamples, level=level, resample=resample, n_starts=n_starts, n_local=n_local,
        seed=seed,
    )  # fmt: skip
    head = "\n".join([result.headline, *result.lines()])
    show = partial(say_tables, head, result.readable(result.trends), notes=result.notes)
    conclude_result(result, out, as_json, show=show)
