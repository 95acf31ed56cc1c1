"""The commands ``jaxlaw plan …`` of shares of a mixture; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw.cli._options import Columns, Json, Level, fit_argument
from jaxlaw.cli._plan_output import (
    ANSWER,
    At,
    Draws,
    Out,
    inputs_at,
    plan,
    tell,
)
from jaxlaw.cli._saved import PUBLISHED, loaded_fits
from jaxlaw.cli._terminal import check_out, number, numbers_of, pairs, value_range
from jaxlaw.errors import UsageError

GeneralFile = Annotated[Path, fit_argument("A fit of the general loss (JSON).")]
DomainFile = Annotated[Path, fit_argument("A fit of the domain loss (JSON).")]
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
    check_out(out, *ANSWER)
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
    check_out(out, *ANSWER)
    (fit,) = loaded_fits([general], bootstrap)
    options = {"threshold": threshold, **inputs_at(at)}
    found = planning.critical_ratio(fit, start=start, level=level, **options)
    tell(found, out, as_json, draw=lambda plots: plots.share_back(fit, start, **options))


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
    check_out(out, *ANSWER)
    (fit,) = loaded_fits([domain], bootstrap)
    options = {"total": total, "level": level, **inputs_at(at)}
    found = planning.optimal_mixture_data_limited(fit, tokens, **options)
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
    check_out(out, *ANSWER)
    files = {name: Path(path) for name, path in pairs(domains, "the domains").items()}
    every = [*files.values(), *([] if general is None else [general])]
    fits = loaded_fits(every, bootstrap)
    found = planning.optimal_domain_weights(
        dict(zip(files, fits, strict=False)),
        general=None if general is None else fits[-1],
        start=start,
        threshold=threshold,
        weights=numbers_of(weight, "--weight"),
        level=level,
        **inputs_at(at),
    )
    tell(found, out, as_json, draw=lambda plots: plots.domain_shares(found))


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
    check_out(out, *ANSWER)
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
        None if shares is None else [number(one, "--shares") for one in shares.split(",")],
        start=start,
        corpus_tokens=ends,
        tolerance=tolerance,
        level=level,
        **inputs_at(at),
    )
    tell(found, out, as_json, found.table, lambda plots: plots.replay_losses(found))
