"""How commands end that give tables and notes; needs typer, which is an extra."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from jaxlaw.cli._terminal import (
    is_picture,
    print_json,
    print_wrapped,
    write_picture,
    write_record,
)
from jaxlaw.notes import Note


def conclude(
    record: dict[str, Any], notes: Sequence[Note], table: pd.DataFrame, say: Callable[[], None],
    out: Path | None, as_json: bool, draw: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Write the record (as CSV the table, or a picture), and print it; or say it, with the notes.

    Args:
        record, table, notes: what was found.
        say: prints it for people.
        out: where it is written; a picture only where there is ``draw``.
        as_json: whether the record is printed instead.
        draw: draws it with the module of pictures, to Axes.

    Raises:
        typer.Exit: with 1, where a note says that the result is not to be used.
    """
    record = {**record, "notes": [dataclasses.asdict(note) for note in notes]}
    if is_picture(out) and draw is not None:
        write_picture(out, draw)
    elif out is not None:
        write_record(out, record, table)
    if as_json:
        print_json(record)
    else:
        say()
        for note in notes:
            print_wrapped(f"  {note}")
        if is_picture(out):
            print(f"picture: {out}")
    if any(note.severity == "error" for note in notes):
        raise typer.Exit(1)
