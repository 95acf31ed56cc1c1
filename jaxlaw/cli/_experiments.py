"""The commands about experiments: what to evaluate and to run, what shares and domains show.

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
    law_named,
    loaded_fit,
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
    conclude,
    conclude_result,
    print_json,
    say_tables,
    write_record,
)

design = typer.Typer(
    cls=Commands,
    help="When to evaluate a run, and which runs to do next.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@design.command("plan", hidden=True)  # the old name
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


@opt.reads_runs
def slopes_command(
    data: opt.Data,
    every: Annotated[
        float | None, typer.Option(help="Least D from one evaluation to the next; all if left out.")
    ] = None,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """How fast the loss moves with D at every share.

    The differences are those of Que 2024, figure 10.

    Example: jaxlaw slopes shares.csv --corpus general -c r_d=domain_ratio -c loss_g=general_loss
    """
    from jaxlaw._result import readable

    check_out(out, JSON, CSV, PICTURE)
    result = jl.papers.loss_slopes(data, every=every, **reading)
    head = (
        f"ΔL/ΔD falls from one share to the next in {result['falls'].mean():.0%} of the steps; the "
        "implicit trend asks for all"
    )
    size, tokens = (result.attrs["units"][name] for name in ("N", "D"))
    units = {"N": ("parameters", size), "slope": ("nats per B tokens", 1.0)}
    units |= dict.fromkeys(("D_low", "D_high"), ("tokens", tokens))
    table = result.drop(columns="falls").assign(slope=result["slope"] * 1e9 / tokens)
    show = partial(say_tables, head, readable(table, units.get))
    record = {"slopes": result.to_dict("records")}
    draw = lambda plots: plots.slopes_over_share(result)  # noqa: E731
    conclude(record, None, result, show, out, as_json, draw)


def requirements_command(
    fit: Annotated[Path, opt.fit_argument("A fit of a law of N, D and r (JSON); - for stdin.")],
    out: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Whether a fitted law of mixtures behaves as it must.

    It must have what Que 2024 (§3.1) asks of one.

    Example: jaxlaw requirements domain.json
    """
    check_out(out)
    loaded = loaded_fit(fit)
    result = loaded.requirements().reset_index()
    record = {"law": loaded.law.name, "requirements": result.to_dict("records")}
    shown = result.drop(columns="formula")
    for name in ("observed", "everywhere"):
        shown[name] = ["met" if met else "not met" for met in shown[name]]
    unmet = result["requirement"][~result["everywhere"]].tolist()
    met = f"does not meet: {', '.join(unmet)}" if unmet else f"meets all {len(result)} requirements"
    head = f"{loaded.law.name} {met}; {loaded.law.target} = {loaded.law.formula}"
    conclude(record, None, result, partial(say_tables, head, shown), out, as_json)


def learnability_command(
    curves: Annotated[str, typer.Argument(help="File with step and loss; - for stdin.")],
    by: Annotated[str | None, typer.Option(help="Column that names the domain.")] = None,
    law: Annotated[str, typer.Option(help="Whose coefficients: dcpt-cross, -k4 …")] = "dcpt-cross",
    k1_step: Annotated[int, typer.Option(help="k1 is the loss after 1000 steps, or 0.")] = 1000,
    out: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """k1, k2, k3 of a domain, from the start of its loss curve.

    They are inputs of the cross-domain law.

    Example: jaxlaw learnability curves.csv --by domain --out domains.csv
    """
    check_out(out)
    result = jl.data.learnability_coefficients(curves, by, law=law_named(law), k1_step=k1_step)
    table = result if by is None else result.reset_index()
    record = {"law": law, "domains": table.to_dict("records")}
    if out is not None:
        write_record(out, record, table)
    if as_json:
        print_json(record)
    else:
        named = " and ".join(result.columns)
        of = "one domain" if by is None else f"{len(table)} domains"
        say_tables(f"{named} of {of}, which {law} takes beside N, D and r", table)
