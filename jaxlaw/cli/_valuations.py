"""The commands ``jaxlaw plan valuation``, ``model``, ``laws --published``; needs typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw.cli._options import OWN_LAW, Columns, Json, Level, Where
from jaxlaw.cli._plan_output import (
    ANSWER,
    Out,
    tell,
)
from jaxlaw.cli._saved import law_named
from jaxlaw.cli._terminal import (
    CSV,
    JSON,
    check_out,
    pairs,
    print_json,
    print_table,
    print_wrapped,
    write_table,
)
from jaxlaw.errors import UsageError, nearest

Resamples = Annotated[int, typer.Option(help="For intervals; 0 for none.")]
Seed = Annotated[int, typer.Option(help="Of the resamples.")]


def valuation_command(
    data: Annotated[str, typer.Argument(help="File with Dp, score[, cross_entropy].")],
    at: Annotated[float | None, typer.Option(help="A larger Dp [twice the last].")] = None,
    target: Annotated[float | None, typer.Option(help="The score that is wanted.")] = None,
    least_gain: Annotated[
        float | None, typer.Option(help="Least gain up to --at that is worth it.")
    ] = None,
    baseline: Annotated[float | None, typer.Option(help="Score without pretraining.")] = None,
    column: Columns = None,
    noise: Annotated[float, typer.Option(help="Falls up to this share are noise.")] = 0.01,
    shortfall: Annotated[float, typer.Option(help="Log of predicted over observed score "
                                             "beyond which the law breaks.")] = 0.1,
    resamples: Resamples = 400,
    seed: Seed = 0,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Whether to go on pretraining on a corpus, for a task's sake (Isik 2024, §3.4).

    Example: jaxlaw plan valuation checkpoints.csv --target 25 --baseline 12 --at 1e12
    """
    check_out(out, *ANSWER)
    found = planning.pretraining_value(
        data, at=at, target=target, least_gain=least_gain, baseline=baseline,
        columns=pairs(column, "--column"), noise=noise, shortfall=shortfall, n_resamples=resamples,
        seed=seed, level=level,
    )  # fmt: skip
    tell(found, out, as_json, draw=lambda plots: plots.value(found, target))


def model_command(
    data: Annotated[str, typer.Argument(help="File with model, D (data), loss or score.")],
    at: Annotated[float, typer.Option(help="The full size, in the unit of D.")],
    law: Annotated[
        str,
        typer.Option(
            help=f"Of one input: downstream-ce, rectified, downstream-bleu (scores), or {OWN_LAW}."
        ),
    ] = "downstream-ce",
    column: Columns = None,
    where: Where = None,
    resamples: Resamples = 400,
    seed: Seed = 0,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Which model is best finetuned on all data, by their losses on little of it (Lin 2024).

    With --law downstream-bleu: which corpus is best, by scores after few tokens (Isik 2024).

    Example: jaxlaw plan model samples.csv --at 1e6
    """
    check_out(out, *ANSWER)
    found = planning.choose_model(
        data, at=at, law=law_named(law), columns=pairs(column, "--column"), where=where,
        n_resamples=resamples, seed=seed, level=level,
    )  # fmt: skip
    tell(found, out, as_json, table=found.table, draw=lambda plots: plots.model_losses(found))


def show_published(save: str | None, out: Path | None, as_json: bool) -> None:
    """What ``jaxlaw laws --published`` does."""
    table = jl.published_table()
    check_out(out, *((JSON,) if save is not None else (CSV, JSON)))
    if save is not None:
        known = jl.published()
        if save not in known:
            raise UsageError(f"nothing is published as {save}.{nearest(save, known)}")
        if out is not None:
            known[save].save(out)
        print_json(known[save].to_dict()) if as_json else print_wrapped(known[save].summary())
        return
    if out is not None:
        write_table(out, table, table.to_dict(orient="records"))
    if as_json:
        print_json(table.to_dict(orient="records"))
        return
    print_table(["name", "law", "parameters"], table[["name", "law", "parameters"]])
    print("--name shows one with its source, uncertainty and gaps; --out keeps it as a fit.")
