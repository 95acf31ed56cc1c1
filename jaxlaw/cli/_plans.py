"""The commands ``jaxlaw plan …`` of size and data; needs typer, which is an extra."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw.cli._options import (
    Columns,
    Format,
    Json,
    Level,
    Values,
    fit_argument,
    reads_runs,
    values_of,
)
from jaxlaw.cli._plan_output import (
    ANSWER,
    At,
    Draws,
    Limit,
    Out,
    budgets_of,
    inputs_at,
    plan,
    show,
    tell,
)
from jaxlaw.cli._saved import loaded_fits
from jaxlaw.cli._terminal import check_out, pairs, ranges_of
from jaxlaw.errors import UsageError

FitFile = Annotated[Path, fit_argument("A fit that `jaxlaw fit --out` wrote.")]
ScratchFile = Annotated[Path, fit_argument("A fit of runs from scratch (JSON).")]
ContinualFile = Annotated[Path, fit_argument("A fit of runs from a base (JSON).")]
CorpusTokens = Annotated[
    float | None, typer.Option(help="With r=best: tokens there are of that corpus.")
]


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
    check_out(out, *ANSWER)
    (loaded,) = loaded_fits([fit], bootstrap)
    options = {
        "limits": ranges_of(limit, "--limit"),
        "corpus_tokens": corpus_tokens,
        **inputs_at(at),
    }
    found = planning.allocation(loaded, compute, level=level, **options)
    around = (compute / 1e3, compute * 10)
    tell(
        found, out, as_json, draw=lambda plots: plots.isoloss(loaded, around, mark=found, **options)
    )


@plan.command("allocation-law")
def allocation_law_command(
    fit: FitFile,
    at: Annotated[list[str] | None, typer.Option(help="r=0.5: other inputs; repeatable.")] = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Exponents and coefficients of the best size and tokens, where they are powers of compute.

    Example: jaxlaw plan allocation-law fit.json
    """
    check_out(out, *ANSWER)
    (loaded,) = loaded_fits([fit], bootstrap)
    inputs = inputs_at(at)
    found = planning.allocation_law(loaded, level=level, **inputs)
    tell(found, out, as_json, draw=lambda plots: plots.isoloss(loaded, (1e18, 1e24), **inputs))


@plan.command("frontier")
@reads_runs
def frontier_command(
    fit: FitFile,
    compute: Annotated[str, typer.Option(help="FLOPs: 1e19,1e20 or 1e19:1e23 (13 of them).")],
    data: Annotated[str | None, typer.Option(help="The runs of the fit, for the picture.")] = None,
    at: At = None,
    limit: Limit = None,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The best run of every budget; as a picture, on contours of equal loss.

    Example: jaxlaw plan frontier fit.json --compute 1e19:1e23 --data runs.csv --out frontier.png
    """
    check_out(out, *ANSWER)
    if data is None and any(reading.values()):
        raise UsageError("options say how data are read, and there are none: --data FILE")
    (loaded,) = loaded_fits([fit], bootstrap)
    budgets = budgets_of(compute)
    options = {"limits": ranges_of(limit, "--limit"), **inputs_at(at)}
    found = planning.frontier(loaded, budgets, level=level, **options)
    ends = (min(budgets), max(budgets))
    runs = None if data is None else jl.read_runs(data, **reading)
    show(
        found.table, found.notes, out, as_json,
        lambda p: p.isoloss(loaded, ends, runs=runs, **options),
    )  # fmt: skip


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
    check_out(out, *ANSWER)
    (loaded,) = loaded_fits([fit], bootstrap)
    inputs = inputs_at(at)
    if {"N", "D"} & set(inputs):
        if limit or corpus_tokens or "best" in inputs.values():
            raise UsageError(
                "--limit, --corpus-tokens and r=best are for the least compute; with N or D given "
                "none is needed"
            )
        found = planning.tokens_or_size_for(
            loaded, loss=loss, compute=compute, level=level, **inputs
        )
    elif loss is None or compute is not None:
        raise UsageError("give --loss; or --at N=… (or D=…) with --loss or --compute")
    else:
        found = planning.min_compute(
            loaded, loss, limits=ranges_of(limit, "--limit"), corpus_tokens=corpus_tokens,
            level=level, **inputs,
        )  # fmt: skip
    around = found.compute if 0 < found.compute < np.inf else 1e21
    drawn: dict[str, Any] = {name: value for name, value in inputs.items() if name == "r"}
    drawn |= {"limits": ranges_of(limit, "--limit"), "corpus_tokens": corpus_tokens}
    ends = around / 100, around * 100
    tell(found, out, as_json, draw=lambda plots: plots.isoloss(loaded, ends, mark=found, **drawn))


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
    check_out(out, *ANSWER)
    fits = loaded_fits([scratch, continual], bootstrap)
    inputs = inputs_at(at)
    if "N" in inputs:
        found = planning.data_transferred(*fits, loss=loss, level=level, **inputs)
    elif loss is None or inputs:
        raise UsageError("give --at N=… with --at D=… or --loss; or --loss alone")
    else:
        found = planning.compute_savings(*fits, loss, level=level)
    if "N" not in inputs:
        tell(found, out, as_json, draw=lambda plots: plots.both_ways(*fits, found=found))
        return
    tokens = np.geomspace(found.D / 100, found.D * 10, 41)
    table = partial(planning.transfer_table, *fits, [found.N], tokens)
    tell(found, out, as_json, draw=lambda plots: plots.compute_saved(table()))


@plan.command("savings")
def savings_command(
    scratch: Annotated[Path, fit_argument("A law of the compute C, from scratch (JSON).")],
    continual: Annotated[Path, fit_argument("A law of the compute C, from a base (JSON).")],
    compute: Annotated[str, typer.Option(help="FLOPs: 1e19,1e20 or 1e19:1e23 (13 of them).")],
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compute saved by a base at equal loss, by two laws of the lowest loss over compute.

    Example: jaxlaw plan savings published:zheng-2024-frontier-scratch
    published:zheng-2024-frontier-cpt --compute 1e17,1e20,1e23
    """
    check_out(out, *ANSWER)
    fits = loaded_fits([scratch, continual], bootstrap)
    found = planning.frontier_savings(*fits, budgets_of(compute), level=level)
    show(found.table, found.notes, out, as_json, lambda plots: plots.compute_saved(found.table))


@plan.command("observed-transfer")
def observed_transfer_command(
    scratch: Annotated[str, typer.Argument(help="Curves from scratch: columns N, D and loss.")],
    continual: Annotated[str, typer.Argument(help="Curves from a base: the same columns.")],
    column: Columns = None,
    format: Format = None,
    value: Values = None,
    by: Annotated[str, typer.Option(help="Column that pairs the curves.")] = "N",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Data transferred and compute saved by a base at equal loss, of observed curves.

    Example: jaxlaw plan observed-transfer scratch.csv continual.csv --out transfer.csv
    """
    check_out(out, *ANSWER)
    columns, values = pairs(column, "--column"), values_of(value)
    found = planning.observed_transfer(
        *(
            jl.read_runs(data, columns, format=format, values=values).table
            for data in (scratch, continual)
        ),
        by=by,
    )
    show(found, (), out, as_json, lambda plots: plots.data_transferred(found))


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
    check_out(out, *ANSWER)
    fits = loaded_fits([scratch, continual], bootstrap)
    options = {"compute": compute, **inputs_at(at)}
    found = planning.break_even(*fits, level=level, **options)
    tell(
        found, out, as_json, more={"pays": found.pays},
        draw=lambda plots: plots.both_ways(*fits, found=found, **options),
    )  # fmt: skip


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
    """The lowest loss at each level of compute: a table for `jaxlaw fit loss-compute-e`.

    Example: jaxlaw plan envelope runs.csv -c N=n_params -c D=n_tokens --out frontier.csv
    """
    check_out(out, *ANSWER)
    columns, values = pairs(column, "--column"), values_of(value)
    table = jl.read_runs(data, columns, format=format, values=values).table
    found = planning.loss_envelope(table, levels, run=run)
    show(found, (), out, as_json, lambda plots: plots.lowest_of_runs(found, table))
