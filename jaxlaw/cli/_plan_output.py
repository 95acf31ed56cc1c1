"""What every ``jaxlaw plan …`` takes and prints; needs typer, which is an extra."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from jaxlaw.cli._terminal import (
    CSV,
    JSON,
    PICTURE,
    is_picture,
    number,
    pairs,
    print_frame,
    print_json,
    print_wrapped,
    value_range,
    write_picture,
    write_record,
)
from jaxlaw.errors import UsageError
from jaxlaw.planning._answers import Answer
from jaxlaw.planning._schedule import OptimalSchedule

_SHOWN = 24  # rows of a table

plan: typer.Typer = typer.Typer(
    help="Answer a question with a fitted law.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ANSWER = (JSON, CSV, PICTURE)  # what a plan is written as

At = Annotated[
    list[str] | None,
    typer.Option(help="N=1.8e9: an input, in the units of the fitted runs; repeatable."),
]
Draws = Annotated[
    list[Path] | None,
    typer.Option(
        "--bootstrap",
        help="Table (CSV) of a fit on resamples, a column a parameter: intervals. One for "
        "each fit, in their order. What `jaxlaw bootstrap --draws` wrote as JSON needs none: "
        "it stands in place of the fit.",
    ),
]
Limit = Annotated[
    list[str] | None, typer.Option(help="N=1e8:7e10, either side may be empty; repeatable.")
]
Out = Annotated[
    Path | None, typer.Option(help="Write the answer (JSON, CSV) or draw it (PNG, PDF, SVG).")
]


def inputs_at(at: list[str] | None) -> dict[str, Any]:
    """``["N=1e9", "r=best"]`` → numbers by name, and what r=best stands for."""
    named = pairs(at, "--at")
    best = {"r": "best"} if named.get("r") == "best" else {}
    return {name: number(v, "--at") for name, v in named.items() if name not in best} | best


def budgets_of(text: str) -> list[float]:
    """``1e19,1e20``, or 13 of them between ``1e19:1e23``."""
    if ":" not in text:
        return [number(one, "--compute") for one in text.split(",")]
    ends = value_range(text, "--compute")
    if None in ends or not 0 < ends[0] < ends[1]:
        raise UsageError(f"--compute takes LOW:HIGH or a list, not '{text}'")
    return list(np.geomspace(*ends, 13))


def tell(
    found: Answer | OptimalSchedule,
    out: Path | None,
    as_json: bool,
    table: pd.DataFrame | None = None,
    draw: Any = None,
    more: dict[str, Any] | None = None,
) -> None:
    """Write, draw or print an answer; one that is not to be used ends with 1."""
    record = found.to_dict() | (more or {})
    if out is not None:
        _written(out, record, table, draw)
    if as_json:
        print_json(record)
    else:
        print_wrapped(found.summary())
        if is_picture(out):
            print(f"picture: {out}")
    if any(note.severity == "error" for note in found.notes):
        raise typer.Exit(1)


def _written(out: Path, record: dict[str, Any], table: pd.DataFrame | None, draw: Any) -> None:
    if is_picture(out):
        if draw is None:
            raise UsageError(f"there is no picture of this answer; write JSON, not {out.suffix}")
        write_picture(out, draw)
    else:
        write_record(out, record, table if table is not None else pd.DataFrame([_flat(record)]))


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Numbers, with the ends of their intervals beside them."""
    row = {name: v for name, v in record.items() if name not in ("interval", "notes")}
    for name, (low, high) in record["interval"].items():
        row |= {f"{name}_low": low, f"{name}_high": high}
    return row


def show(
    table: pd.DataFrame,
    notes: Any,
    out: Path | None,
    as_json: bool,
    draw: Any = None,
    hide: Any = (),
) -> None:
    """Write, draw or print a table (but for the columns to hide) and its notes."""
    record = {
        **{name: column.tolist() for name, column in table.items()},
        "notes": [dataclasses.asdict(note) for note in notes],
    }
    if out is not None:
        _written(out, record, table, draw)
    if as_json:
        print_json(record)
    elif out is None or is_picture(out):
        hidden = {*hide, *(name for name in table if name.startswith("tokens_per_parameter_"))}
        shown = table[[name for name in table if name not in hidden]]
        step = max(1, -(-len(shown) // _SHOWN))
        named = shown.iloc[::step].rename(
            columns=lambda n: n.replace("_per_", "/").replace("_", " ")
        )
        print_frame(named, 4)
        for note in notes:
            print_wrapped(str(note))
