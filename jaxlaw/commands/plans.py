"""The commands ``jaxlaw plan …`` of mixtures, size and data; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw.commands.options import (
    Columns,
    Format,
    Json,
    Level,
    Values,
    fit_argument,
    values_of,
)
from jaxlaw.commands.plan_output import (
    At,
    Draws,
    Limit,
    Out,
    budgets_of,
    inputs_at,
    show,
    tell,
)
from jaxlaw.commands.saved import PUBLISHED, loaded_fits
from jaxlaw.commands.terminal import check_folder, number, numbers_of, pairs, ranges_of, value_range
from jaxlaw.notes import UsageError

plan: typer.Typer = typer.Typer(
    help="Answer a question with a fitted law.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FitFile = Annotated[Path, fit_argument("A fit that `jaxlaw fit --out` wrote.")]
GeneralFile = Annotated[Path, fit_argument("A fit of the general loss (JSON).")]
DomainFile = Annotated[Path, fit_argument("A fit of the domain loss (JSON).")]
ScratchFile = Annotated[Path, fit_argument("A fit of runs from scratch (JSON).")]
ContinualFile = Annotated[Path, fit_argument("A fit of runs from a base (JSON).")]
CorpusTokens = Annotated[
    float | None, typer.Option(help="With r=best: tokens there are of that corpus.")
]
Start = Annotated[float, typer.Option(help="That loss before the continual training.")]


@plan.command("mixture")
def mixture_command(
    general: GeneralFile,
    domain: DomainFile,
    start: Start,
    threshold: Annotated[float, typer.Option(help="How far it may rise, relative.")] = 0.03,
    at: At = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The largest domain share that the general loss allows, and the whole trade-off.

    Example: jaxlaw plan mixture general.json domain.json --start 2.86 --at N=2e9 --at D=1e10
    """
    check_folder(out)
    fits = loaded_fits([general, domain], bootstrap)
    found = planning.optimal_mixture(
        *fits, start=start, threshold=threshold, level=level, **inputs_at(at)
    )
    tell(found, out, as_json, found.curve, lambda plots: plots.trade_off(found))


@plan.command("critical")
def critical_command(
    general: GeneralFile,
    start: Start,
    threshold: Annotated[float, typer.Option(help="How far above it may stay, relative.")] = 0.0,
    at: At = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The least share of the general corpus that brings its loss back to the start.

    Example: jaxlaw plan critical general.json --start 2.86 --at N=1.8e9 --at D=1e10
    """
    check_folder(out)
    (fit,) = loaded_fits([general], bootstrap)
    found = planning.critical_ratio(
        fit, start=start, threshold=threshold, level=level, **inputs_at(at)
    )
    tell(found, out, as_json)


@plan.command("limited")
def limited_command(
    domain: DomainFile,
    tokens: Annotated[float, typer.Option(help="Of the domain, in the units of the fit.")],
    total: Annotated[float | None, typer.Option(help="The most tokens in all.")] = None,
    at: At = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The best domain share where domain data are limited.

    Example: jaxlaw plan limited domain.json --tokens 5e7 --at N=1.8e9
    """
    check_folder(out)
    (fit,) = loaded_fits([domain], bootstrap)
    options = {"total": total, "level": level, **inputs_at(at)}
    found = planning.optimal_mixture_limited(fit, tokens, **options)
    tell(found, out, as_json, draw=lambda plots: plots.limited_domain(fit, tokens, **options))


@plan.command("shares")
def shares_command(
    domains: Annotated[list[str], typer.Argument(help="code=code.json math=math.json …")],
    general: Annotated[Path | None, typer.Option(help="A fit of the general loss.")] = None,
    start: Annotated[float | None, typer.Option(help="The general loss before.")] = None,
    threshold: Annotated[float, typer.Option(help="How far it may rise, relative.")] = 0.0,
    weight: Annotated[list[str] | None, typer.Option(help="code=2; repeatable.")] = None,
    at: At = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Shares of several domains at once, under a budget on the general loss.

    Example: jaxlaw plan shares code=code.json law=law.json --general general.json
    --start 2.9 --at N=2e9 --at D=1e10
    """
    check_folder(out)
    files = {name: Path(path) for name, path in pairs(domains, "the domains").items()}
    every = [*files.values(), *([] if general is None else [general])]
    fits = loaded_fits(every, bootstrap)
    found = planning.optimal_shares(
        dict(zip(files, fits, strict=False)),
        general=None if general is None else fits[-1],
        start=start,
        threshold=threshold,
        weights=numbers_of(weight, "--weight"),
        level=level,
        **inputs_at(at),
    )
    tell(found, out, as_json, draw=lambda plots: plots.domain_shares(found))


@plan.command("allocation")
def allocation_command(
    fit: FitFile,
    compute: Annotated[float, typer.Option(help="FLOPs, counted as 6·N·D.")],
    at: Annotated[
        list[str] | None, typer.Option(help="r=0.5: other inputs; r=best searches it; repeatable.")
    ] = None,
    limit: Limit = None,
    corpus_tokens: CorpusTokens = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Size and tokens that a compute budget is best spent on.

    Example: jaxlaw plan allocation fit.json --compute 1e21
    """
    check_folder(out)
    (loaded,) = loaded_fits([fit], bootstrap)
    options = {
        "limits": ranges_of(limit, "--limit"),
        "corpus_tokens": corpus_tokens,
        **inputs_at(at),
    }
    found = planning.allocation(loaded, compute, level=level, **options)
    around = (compute / 1e3, compute * 10)
    tell(found, out, as_json, draw=lambda plots: plots.isoloss(loaded, around, **options))


@plan.command("frontier")
def frontier_command(
    fit: FitFile,
    compute: Annotated[str, typer.Option(help="FLOPs: 1e19,1e20 or 1e19:1e23 (13 of them).")],
    at: At = None,
    limit: Limit = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The best run of every budget; as a picture, on contours of equal loss.

    Example: jaxlaw plan frontier fit.json --compute 1e19:1e23 --out frontier.png
    """
    check_folder(out)
    (loaded,) = loaded_fits([fit], bootstrap)
    budgets = budgets_of(compute)
    options = {"limits": ranges_of(limit, "--limit"), **inputs_at(at)}
    found = planning.frontier(loaded, budgets, level=level, **options)
    ends = (min(budgets), max(budgets))
    show(found.table, found.notes, out, as_json, lambda p: p.isoloss(loaded, ends, **options))


@plan.command("target")
def target_command(
    fit: FitFile,
    loss: Annotated[float | None, typer.Option(help="To be reached, in nats.")] = None,
    compute: Annotated[float | None, typer.Option(help="With N or D: FLOPs to spend.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="N=7e9: tokens for this size; D=1e12: size for these; r=0.5, or r=best; "
            "repeatable."
        ),
    ] = None,
    limit: Limit = None,
    corpus_tokens: CorpusTokens = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The least compute to a loss; at a given N or D, the other one.

    Example: jaxlaw plan target fit.json --loss 2.1 --at N=7e9
    """
    check_folder(out)
    (loaded,) = loaded_fits([fit], bootstrap)
    inputs = inputs_at(at)
    if {"N", "D"} & set(inputs):
        if limit or corpus_tokens or "best" in inputs.values():
            raise UsageError(
                "--limit, --corpus-tokens and r=best are for the least compute; with N or D given "
                "none is needed"
            )
        found = planning.allocation_at(loaded, loss=loss, compute=compute, level=level, **inputs)
    elif loss is None or compute is not None:
        raise UsageError("give --loss; or --at N=… (or D=…) with --loss or --compute")
    else:
        found = planning.smallest_compute(
            loaded, loss, limits=ranges_of(limit, "--limit"), corpus_tokens=corpus_tokens,
            level=level, **inputs,
        )  # fmt: skip
    tell(found, out, as_json)


@plan.command("transfer")
def transfer_command(
    scratch: ScratchFile,
    continual: ContinualFile,
    loss: Annotated[float | None, typer.Option(help="Of both, in nats.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="N=1.4e9 and D=1e10, of the continual run; repeatable."),
    ] = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Data transferred and compute saved by a base; without N, each at its best size.

    Example: jaxlaw plan transfer scratch.json continual.json --at N=1.4e9 --at D=1e10
    """
    check_folder(out)
    fits = loaded_fits([scratch, continual], bootstrap)
    inputs = inputs_at(at)
    if "N" in inputs:
        found = planning.transferred(*fits, loss=loss, level=level, **inputs)
    elif loss is None or inputs:
        raise UsageError("give --at N=… with --at D=… or --loss; or --loss alone")
    else:
        found = planning.saved_compute(*fits, loss, level=level)
    tokens = np.geomspace(found.D / 100, found.D * 10, 41) if "N" in inputs else None
    table = None if tokens is None else lambda: planning.transfer_table(*fits, [found.N], tokens)
    tell(found, out, as_json, draw=table and (lambda plots: plots.compute_saved(table())))


@plan.command("breakeven")
def breakeven_command(
    scratch: ScratchFile,
    continual: ContinualFile,
    compute: Annotated[float | None, typer.Option(help="At this budget, over the size.")] = None,
    at: Annotated[list[str] | None, typer.Option(help="N=1.4e9: over the tokens.")] = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Where a base stops paying: at a size, at a budget, or of all budgets.

    Example: jaxlaw plan breakeven scratch.json continual.json --at N=1.4e9
    """
    check_folder(out)
    fits = loaded_fits([scratch, continual], bootstrap)
    found = planning.break_even(*fits, compute=compute, level=level, **inputs_at(at))
    tell(found, out, as_json, more={"pays": found.pays})


@plan.command("replay")
def replay_command(
    fit: Annotated[
        Path, typer.Argument(help="A fit (JSON), or observed losses: columns D, r, loss[, N].")
    ],
    shares: Annotated[
        str | None, typer.Option(help="Of the corpus: 0.2,0.5,0.9; observed: [all].")
    ] = None,
    start: Annotated[
        float | None, typer.Option(help="Observed: the loss before, for the least replay.")
    ] = None,
    corpus_tokens: Annotated[
        str | None, typer.Option(help="Compare between these: 1e8:1e10 tokens of the corpus.")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Nats within which losses have met.")] = 0.01,
    at: At = None,
    column: Columns = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Shares compared at equal compute on the corpus: where their losses meet.

    Example: jaxlaw plan replay domain.json --shares 0.2,0.5,0.8 --at N=1.8e9
    """
    check_folder(out)
    by_law = fit.suffix.lower() == ".json" or str(fit).startswith(PUBLISHED)
    if by_law and column:
        raise UsageError("--column is for a table of observed losses; a fit knows its columns")
    if by_law:
        (loaded,) = loaded_fits([fit], bootstrap)
    else:
        loaded = jl.read_runs(fit, pairs(column, "--column")).table
    ends = None
    if corpus_tokens is not None:
        ends = value_range(corpus_tokens, "--corpus-tokens")
        if None in ends:
            raise UsageError("--corpus-tokens takes LOW:HIGH")
    found = planning.compare_replay(
        loaded,
        shares and [number(one, "--shares") for one in shares.split(",")],
        start=start,
        corpus_tokens=ends,
        tolerance=tolerance,
        level=level,
        **inputs_at(at),
    )
    tell(found, out, as_json, found.table, lambda plots: plots.replay_losses(found))


@plan.command("envelope")
def envelope_command(
    data: Annotated[str, typer.Argument(help="Points of curves: columns N, D (or C) and loss.")],
    column: Columns = None,
    format: Format = None,
    value: Values = None,
    run: Annotated[str | None, typer.Option(help="Column that tells runs apart [N].")] = None,
    levels: Annotated[int, typer.Option(min=2, help="How many levels of compute.")] = 30,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The lowest loss at each level of compute: a table for `jaxlaw fit loss-compute`.

    Example: jaxlaw plan envelope runs.csv -c N=n_params -c D=n_tokens --out frontier.csv
    """
    check_folder(out)
    columns, values = pairs(column, "--column"), values_of(value)
    table = jl.read_runs(data, columns, format=format, values=values).table
    show(planning.lowest_losses(table, levels, run=run), (), out, as_json)
