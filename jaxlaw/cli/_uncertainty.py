"""The command about uncertainty; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import jaxlaw as jl
from jaxlaw._json import write_whole
from jaxlaw.cli import _options as opt
from jaxlaw.cli._results import conclude
from jaxlaw.cli._saved import law_or_fit, loaded
from jaxlaw.cli._terminal import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    combinations,
    print_frame,
)


@opt.works_long
@opt.poses_fits
@opt.reads_runs
def bootstrap_command(
    law: opt.LawOrFit,
    data: opt.Data,
    n: Annotated[int, typer.Option("-n", "--resamples", min=2, help="Resamples.")] = 1000,
    kind: Annotated[
        str,
        typer.Option(
            help="case, residual or wild.",
            autocompletion=opt.completed(("case", "residual", "wild")),
        ),
    ] = "case",
    groups: opt.Groups = None,
    base: Annotated[
        Path | None,
        typer.Option(
            help="cpt-chinchilla: a from-scratch fit, or its bootstrap (--draws x.json), each "
            "resample then holding its own E, A and alpha."
        ),
    ] = None,
    level: opt.Level = 0.95,
    method: Annotated[
        str,
        typer.Option(
            help="percentile, basic, normal or bca.",
            autocompletion=opt.completed(("percentile", "basic", "normal", "bca")),
        ),
    ] = "percentile",
    at: opt.PredictAt = None,
    n_starts: Annotated[int, typer.Option(min=1, help="Starts of a resample.")] = 64,
    screen: Annotated[int, typer.Option(min=1, help="The best of them are solved.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    draws: Annotated[
        Path | None,
        typer.Option(
            help="Write every resample's fit: a table (CSV), or with fit and notes what "
            "`jaxlaw plan` takes in place of a fit (JSON)."
        ),
    ] = None,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
    posing: dict[str, Any],
    working: dict[str, Any],
) -> None:
    """Intervals of a law's parameters and predictions: it is fitted to resampled runs.

    Example: jaxlaw bootstrap chinchilla runs.csv -c N=n_params -c D=n_tokens --at N=7e9 --at D=1e12
    """
    check_out(out, JSON, CSV, PICTURE)
    check_out(draws, CSV, JSON, option="--draws")
    points = combinations(at, "--at")
    found = jl.bootstrap(
        law_or_fit(law), data, n, kind=kind, groups=opt.columns_named(groups), seed=seed,
        base=loaded(base, "fit", "bootstrap") if base else None,
        n_starts=n_starts, screen=screen, **reading, **posing, **working,
    )  # fmt: skip
    if opt.is_silent(working):
        return
    _show(found, level, method, points, draws, out, as_json)


def _show(
    found: jl.Bootstrap, level: float, method: Any, points: dict[str, np.ndarray],
    draws: Path | None, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    tables = {"parameters": found.conf_int(level, method)}
    if points:
        tables["predictions"] = found.prediction(points, confidence_level=level, method=method)
    record = {
        "law": found.fit.law.name,
        "kind": found.kind,
        "resamples": len(found),
        "resampled": found.n_groups,
        "groups": None if found.groups is None else list(found.groups),
        "level": level,
        "method": method,
        **{name: table.to_dict("records") for name, table in tables.items()},
    }
    if draws is not None:
        if draws.suffix.lower() == ".json":
            whole = jl.planning.Draws(
                found.fit, found.params, found.notes, found.kind, found.groups
            )
            whole.save(draws)
        else:
            write_whole(draws, lambda path: _table(found).to_csv(path, index=False))

    by = "" if found.groups is None else f" groups by {', '.join(found.groups)}"

    def say() -> None:
        print(f"{record['law']}: {found.fit.law.formula}")
        print(
            f"{len(found)} resamples ({found.kind}) of {found.n_groups}{by}; {level:.0%} intervals"
        )
        for table in tables.values():
            print_frame(table)

    def draw(plots: Any) -> Any:
        return plots.parameter_intervals(tables["parameters"], level=level)

    conclude(record, found.notes, tables["parameters"], say, out, as_json, draw)


def _table(found: jl.Bootstrap) -> pd.DataFrame:
    """The draws with how they were drawn, in every row: a table has no other place for it."""
    return found.table().assign(kind=found.kind, groups=",".join(found.groups or ()))
