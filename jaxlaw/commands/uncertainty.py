"""The command about uncertainty; needs typer, which is an extra."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import pandas as pd
import typer

import jaxlaw as jl
from jaxlaw.commands.terminal import (
    check_folder,
    finite,
    number,
    pairs,
    print_json,
    print_table,
    print_wrapped,
    unit_of,
    value_range,
    write_file,
)

Names = list[str] | None


def bootstrap_command(
    law: Annotated[str, typer.Argument(help="Name of a law, or a fit of these data (JSON).")],
    data: Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet file; - for stdin.")],
    n: Annotated[int, typer.Option("-n", "--resamples", min=2, help="Resamples.")] = 1000,
    kind: Annotated[str, typer.Option(help="case, residual or wild.")] = "case",
    groups: Annotated[
        str | None, typer.Option(help="Columns whose rows share noise: run, or N,r.")
    ] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    method: Annotated[str, typer.Option(help="percentile, basic or normal.")] = "percentile",
    at: Annotated[
        Names, typer.Option(help="Predict there too: N=7e9 or N=1e9,7e9; repeatable.")
    ] = None,
    column: Annotated[
        Names, typer.Option("--column", "-c", help="Which column is what: N=n_params; repeatable.")
    ] = None,
    unit: Annotated[
        Names, typer.Option("--unit", "-u", help="What one is worth: N=1e9; repeatable.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Rows to keep: a pandas query.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights.")] = None,
    share: Annotated[str | None, typer.Option(help="Whose loss: general or domain.")] = None,
    drop_invalid: Annotated[
        bool, typer.Option("--drop-invalid", help="Drop rows without valid numbers.")
    ] = False,
    constraint: Annotated[str | None, typer.Option(help="dcpt: paper or observed.")] = None,
    delta: Annotated[float | None, typer.Option(help="Huber threshold.")] = None,
    space: Annotated[str | None, typer.Option(help="Residuals: log or linear.")] = None,
    fix: Annotated[Names, typer.Option(help="alpha=0.34; repeatable.")] = None,
    tie: Annotated[Names, typer.Option(help="beta=alpha; repeatable.")] = None,
    bound: Annotated[Names, typer.Option(help="alpha=0.1:1; repeatable.")] = None,
    base: Annotated[Path | None, typer.Option(help="cpt-chinchilla: a from-scratch fit.")] = None,
    n_starts: Annotated[int, typer.Option(min=1, help="Starts of a resample.")] = 64,
    screen: Annotated[int, typer.Option(min=1, help="The best of them are solved.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    work_dir: Annotated[Path | None, typer.Option(help="Folder that keeps finished parts.")] = None,
    progress: Annotated[bool | None, typer.Option("--progress/--quiet", help="Show a bar.")] = None,
    distributed: Annotated[
        bool, typer.Option("--distributed", help="Share the work among a job's processes.")
    ] = False,
    compile_cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps compiled programs.")
    ] = None,
    draws: Annotated[Path | None, typer.Option(help="Write every resample's fit (CSV).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the intervals (JSON).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Intervals of a law's parameters and predictions: it is fitted to resampled runs.

    Example: jaxlaw bootstrap chinchilla runs.csv -c N=n_params -c D=n_tokens --at N=7e9 --at D=1e12
    """
    check_folder(out)
    check_folder(draws)
    if distributed:
        jl.join_processes()
    reading = {
        "columns": pairs(column, "--column"),
        "units": {name: unit_of(text) for name, text in pairs(unit, "--unit").items()},
        "where": where,
        "weight": weight,
        "share": share,
        "drop_invalid": drop_invalid,
    }
    asked = {
        "constraint": constraint,
        "delta": delta,
        "space": space,
        "fixed": {name: number(text, "--fix") for name, text in pairs(fix, "--fix").items()},
        "tied": pairs(tie, "--tie"),
        "bounds": {name: value_range(text) for name, text in pairs(bound, "--bound").items()},
        "base": jl.load(base) if base else None,
    }
    points = _points(at)
    found = jl.bootstrap(
        jl.load(law) if law.endswith(".json") else law, data, n, kind=kind,
        groups=groups.split(",") if groups else None, seed=seed, n_starts=n_starts, screen=screen,
        work_dir=work_dir, progress=progress, distributed=distributed,
        compile_cache=compile_cache, **reading, **{k: v for k, v in asked.items() if v},
    )  # fmt: skip
    if distributed and jax.process_index() > 0:
        return  # the first process speaks for all
    _show(found, level, method, points, draws, out, as_json)
    if any(note.severity == "error" for note in found.notes):
        raise typer.Exit(1)


def _points(at: Names) -> dict[str, np.ndarray]:
    """All combinations of the values given."""
    given = pairs(at, "--at")
    values = [[number(text, "--at") for text in line.split(",")] for line in given.values()]
    grids = np.meshgrid(*values, indexing="ij")
    return {name: grid.ravel() for name, grid in zip(given, grids, strict=True)}


def _show(
    found: jl.Bootstrap, level: float, method: Any, points: dict[str, np.ndarray],
    draws: Path | None, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    tables = {"parameters": found.intervals(level, method)}
    if points:
        tables["predictions"] = found.prediction(points, level=level, method=method)
    record = {
        "law": found.fit.law.name,
        "kind": found.kind,
        "resamples": len(found),
        "resampled": found.n_groups,
        "level": level,
        "method": method,
        **{name: _records(table) for name, table in tables.items()},
        "notes": [dataclasses.asdict(note) for note in found.notes],
    }
    if draws is not None:
        write_file(draws, lambda path: found.table().to_csv(path, index=False))
    if out is not None:
        from json import dumps

        write_file(out, lambda path: path.write_text(dumps(record, indent=2) + "\n"))
    if as_json:
        print_json(record)
        return
    print(f"{record['law']}: {found.fit.law.formula}")
    print(f"{len(found)} resamples ({found.kind}) of {found.n_groups}; {level:.0%} intervals")
    for table in tables.values():
        rows = [[c if isinstance(c, str) else f"{c:.5g}" for c in row] for row in table.to_numpy()]
        print_table(list(table), rows)
    for note in found.notes:
        print_wrapped(f"  {note}")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {
        name: finite(column.to_numpy())
        if pd.api.types.is_numeric_dtype(column)
        else column.tolist()
        for name, column in table.items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
