"""How commands end that give tables and notes; needs typer, which is an extra."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from jaxlaw.commands.terminal import print_json, print_wrapped, write_record
from jaxlaw.notes import Note


def conclude(
    record: dict[str, Any], notes: Sequence[Note], table: pd.DataFrame, say: Callable[[], None],
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Write the record (or, as CSV, the table), and print it; or say it, with the notes.

    Raises:
        typer.Exit: with 1, where a note says that the result is not to be used.
    """
    record = {**record, "notes": [dataclasses.asdict(note) for note in notes]}
    if out is not None:
        write_record(out, record, table)
    if as_json:
        print_json(record)
    else:
        say()
        for note in notes:
            print_wrapped(f"  {note}")
    if any(note.severity == "error" for note in notes):
        raise typer.Exit(1)
