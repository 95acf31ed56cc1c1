"""How commands end: files and pictures written, tables, notes and JSON printed.

Nothing here imports JAX or pandas before a command has something to show: help and completion
must not wait for them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from jaxlaw._json import plain, write_atomic
from jaxlaw.errors import UsageError
from jaxlaw.notes import Note, in_brief

if TYPE_CHECKING:
    import pandas as pd

    from jaxlaw._result import Result
    from jaxlaw.planning import AnswerTable

_PAGE = 78  # columns of a table, between its margins
_HALF = 38  # of them, the most that one column insists on
_GAP = 3  # between columns


# What commands write, by the endings of file names that ask for it.
JSON, CSV, PICTURE, HTML = "JSON", "CSV", "a picture", "HTML"
_ENDINGS = {
    JSON: (".json",),
    CSV: (".csv",),
    PICTURE: (".png", ".pdf", ".svg"),
    HTML: (".html", ".htm"),
}


def is_picture(out: Path | None) -> bool:
    """Whether a file's name asks for a picture."""
    return out is not None and out.suffix.lower() in _ENDINGS[PICTURE]


def write_picture(out: Path, draw: Callable[[Any], Any]) -> None:
    """Draw with the module of pictures, to Axes, and write their figure."""
    from jaxlaw import plots

    try:
        figure = draw(plots).figure
    except ModuleNotFoundError as missing:
        raise UsageError(str(missing)) from None
    write_atomic(out, lambda path: figure.savefig(path, dpi=150, bbox_inches="tight"))


def check_out(
    out: Path | None, *kinds: str, option: str = "--out", instead: str | None = None
) -> None:
    """Refuse, before a long fit and not after it, what a command cannot write.

    Args:
        out: file that the user names.
        *kinds: kinds of file that the command writes; JSON and CSV where none is given.
        option: the command's name for it.
        instead: advice on how to get what the command does not write, for the message.

    Raises:
        UsageError: no folder, or a name that ends like a file of another kind. A name without an
            ending is taken as it is.
    """
    if out is None:
        return
    if out.is_dir() or not out.parent.is_dir():
        raise UsageError(f"cannot write {out}: give a file in a folder that exists")
    kinds, ending = kinds or (JSON, CSV), out.suffix.lower()
    written = [ending for kind in kinds for ending in _ENDINGS[kind]]
    if not ending or ending in written:
        return
    allowed = " or ".join(f"{kind} ({', '.join(_ENDINGS[kind])})" for kind in kinds)
    more = f"; {instead}" if instead else ""
    raise UsageError(
        f"{option} {out}: this command writes {allowed}, and no {ending} file; give "
        f"{out.stem}{written[0]}{more}"
    )


def write_record(out: Path, record: Any, table: pd.DataFrame) -> None:
    """A table where the file's name ends in .csv, else the whole record as JSON."""
    if out.suffix.lower() == ".csv":
        write_atomic(out, lambda path: table.to_csv(path, index=False))
    else:
        write_json(out, record)


def write_table(out: Path, table: pd.DataFrame, record: Any) -> None:
    """The record as JSON where the file's name ends in .json, else the table as CSV."""
    if out.suffix.lower() == ".json":
        write_json(out, record)
    else:
        write_atomic(out, lambda path: table.to_csv(path, index=False))


def print_json(record: Any) -> None:
    """For programs; numbers only as JSON knows them, infinities and NaN as strings."""
    print(json.dumps(plain(record), indent=2, allow_nan=False))


def write_json(path: Path, record: Any) -> None:
    """The same into a file."""
    text = json.dumps(plain(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(path, lambda path: path.write_text(text, "utf-8"))


def print_notes(notes: Iterable[Note]) -> None:
    """Notes, what decides first; whole with ``--verbose``."""
    for line in in_brief(notes, _verbose()):
        print_wrapped(line)


def print_summary(result: Result) -> None:
    """The headline, the numbers and the notes of a result; these whole with ``--verbose``."""
    print_wrapped(result.summary(verbose=_verbose()))


def _verbose() -> bool:
    """Whether ``--verbose`` was given: notes are then listed whole."""
    return logging.getLogger("jaxlaw").isEnabledFor(logging.INFO)


def print_wrapped(text: str) -> None:
    """Lines of at most 80 columns."""
    for line in text.splitlines():
        if len(line) <= 80:
            print(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        print(textwrap.fill(line, 80, subsequent_indent=indent, break_on_hyphens=False))


def print_table(head: list[str], rows: Any) -> None:
    """A table of at most 80 columns; where it is wider, several with the same first column."""
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    cells = [[str(cell) for cell in row] for row in rows]
    for widths in _pages(head, cells):
        _print_page(head, cells, widths)


def _pages(head: list[str], cells: list[list[str]]) -> list[dict[int, int]]:
    """Which columns go into which table, and how wide each is there."""
    columns = [[name, *(row[k] for row in cells)] for k, name in enumerate(head)]
    natural = [max(map(len, column)) for column in columns]
    # Text may break between words, numbers with their units and names do not; but nothing takes
    # half a page.
    least = [
        min(_HALF, max((len(word) for cell in column for word in _words(cell)), default=0))
        for column in columns
    ]
    least[0] = min(_HALF, natural[0])  # the first has names: they stay in one piece
    pages = [{0: least[0]}]
    for k in range(1, len(head)):
        if (
            sum(pages[-1].values()) + least[k] + _GAP * len(pages[-1]) > _PAGE
            and len(pages[-1]) > 1
        ):
            pages.append({0: least[0]})
        pages[-1][k] = least[k]
    for page in pages:
        spare = _PAGE - sum(page.values()) - _GAP * (len(page) - 1)
        for k in sorted(page, key=lambda k: natural[k] - least[k]):
            more = min(natural[k] - page[k], spare)
            page[k], spare = page[k] + more, spare - more
    return pages


def _words(cell: str) -> list[str]:
    """What stays in one piece of a cell."""
    return [cell] if cell[:1].isdigit() or cell[:1] == "-" else cell.split()


def _print_page(head: list[str], cells: list[list[str]], widths: dict[int, int]) -> None:
    rule = "─" * (sum(widths.values()) + _GAP * (len(widths) - 1))
    lines = [*_lines(head, widths, above=True), f" {rule}"]
    for row in cells:
        lines += _lines(row, widths)
    print("\n".join(lines))


def _lines(row: list[str], widths: dict[int, int], above: bool = False) -> list[str]:
    """A row in as many lines as its longest cell needs; the others leave room below or above."""
    from rich.cells import set_cell_size

    columns = [_folded(row[k], width) for k, width in widths.items()]
    height = max(map(len, columns))
    for column in columns:
        room = [""] * (height - len(column))
        column[:] = room + column if above else column + room
    gap, sizes = " " * _GAP, widths.values()
    lines = (gap.join(map(set_cell_size, parts, sizes)) for parts in zip(*columns, strict=True))
    return [f" {line}".rstrip() for line in lines if line.strip()]


def _folded(cell: str, width: int) -> list[str]:
    """The lines of a cell; rich, which takes a millisecond, folds those that need it."""
    from rich.cells import cell_len

    if cell_len(cell) <= width and cell.isprintable():
        return [cell]
    from rich.console import Console
    from rich.text import Text

    return [line.plain for line in Text(cell).wrap(Console(width=80), width, overflow="fold")]


def print_frame(table: pd.DataFrame, digits: int = 5) -> None:
    """A table whose numbers have so many digits; whole numbers have all of theirs."""
    form = f".{digits}g"
    rows = [
        [format(cell, form) if isinstance(cell, float) else str(cell) for cell in row]
        for row in table.itertuples(index=False)
    ]
    print_table(list(map(str, table)), rows)


def conclude(
    record: dict[str, Any], result: Result | None, table: pd.DataFrame, show: Callable[[], None],
    out: Path | None, as_json: bool, draw: Callable[[Any], Any] | None = None,
    file: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write the record (as CSV the table, or a picture), and print it; or say it.

    Args:
        record: what is printed as JSON; the notes and what to do next are added.
        result: the result that has both; None of numbers that have neither.
        table: the result as a table.
        show: prints the result and its notes for people.
        out: the file to write; a picture only where there is ``draw``.
        as_json: whether the record is printed instead.
        draw: draws it with the module of pictures, to Axes.
        file: what a file holds in place of the record: a result, which can be read.

    Raises:
        UsageError: ``out`` is a picture, and there is none of this result.
        typer.Exit: with 1, where a note says that the result is not to be used.
    """
    notes, step = getattr(result, "notes", ()), getattr(result, "next_step", "")
    record = {**record, "next_step": step, "notes": list(map(dataclasses.asdict, notes))}
    if out is not None and is_picture(out):
        if draw is None:
            raise UsageError(f"there is no picture of this answer; write JSON, not {out.suffix}")
        write_picture(out, draw)
    elif out is not None:
        write_record(out, file or record, table)
    if as_json:
        print_json(record)
    else:
        show()
        if is_picture(out):
            print(f"picture: {out}")
    if any(note.severity == "error" for note in notes):
        raise typer.Exit(1)


def conclude_result(
    result: Result, out: Path | None, as_json: bool,
    draw: Callable[[Any], Any] | None = None, show: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Write a result (as CSV its main table, or a picture), and print it.

    Args:
        result: the result.
        out: the file to write.
        as_json: whether its record is printed.
        draw: draws it with the module of pictures, to Axes, in place of its own picture.
        show: prints it for people, in place of its summary.

    Raises:
        UsageError: ``out`` is a picture, and there is none of this result.
        typer.Exit: with 1, where a note says that the result is not to be used.
    """
    if out is not None and is_picture(out):
        write_picture(out, draw or (lambda _: result.plot()))
    elif out is not None:
        result.save(out)
    if as_json:
        print_json(result.to_dict())
    else:
        show() if show is not None else print_summary(result)
        if is_picture(out):
            print(f"picture: {out}")
    if any(note.severity == "error" for note in result.notes):
        raise typer.Exit(1)


def say_tables(head: str, *tables: pd.DataFrame, notes: Iterable[Note] = ()) -> None:
    """A line, tables below it, and notes."""
    print_wrapped(head)
    for table in tables:
        print_frame(table)
    print_notes(notes)


# Plans: an answer is a few numbers, or a table of them.
ANSWER = (JSON, CSV, PICTURE)  # what a plan is written as
_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
_SHOWN = 24  # rows of a plan's table


def conclude_plan(
    answer: Any, out: Path | None, as_json: bool, draw: Any = None, table: Any = None,
    more: Mapping[str, Any] = _NO_FIELDS, head: str = "",
) -> None:  # fmt: skip
    """Write, draw or print what a plan found; an answer that is not to be used ends with 1.

    Args:
        answer: an answer with ``summary()``; or a table, alone or as ``table`` of a result.
        out: the file to write.
        as_json: whether its record is printed.
        draw: draws it with the module of pictures, to Axes.
        table: the table of an answer, in place of its numbers in one row.
        more: further fields of the record.
        head: what a table says, in a sentence.
    """
    import pandas as pd

    import jaxlaw as jl

    file = {}
    if isinstance(answer, pd.DataFrame):
        record, result = {name: column.tolist() for name, column in answer.items()}, None
        table, show = answer, lambda: _say_some(head, answer)
    else:
        record, result = {**answer.to_dict(), **more}, answer
        file = {**answer.file_record(), **more}
        show = lambda: print_summary(answer)  # noqa: E731
        if isinstance(answer, jl.planning.AnswerTable):
            table, show = answer.table, lambda: _print_plan(answer)
        elif table is None:
            name = getattr(answer, "csv", "")
            table = answer.tables[name] if name else pd.DataFrame([_in_one_row(answer)])
    # A table is in the file then.
    if table is answer or isinstance(answer, jl.planning.AnswerTable):
        show = show if out is None or is_picture(out) else lambda: None
    conclude(record, result, table, show, out, as_json, draw, file)


def _say_some(head: str, table: pd.DataFrame) -> None:
    """A sentence, and some rows of a table."""
    print_wrapped(head)
    print_frame(_some(table), 4)
    _say_left_out(table)


def _in_one_row(answer: Any) -> dict[str, Any]:
    """Numbers and words of an answer, with the limits of their intervals beside them."""
    record = answer.to_dict()
    row = {name: v for name, v in record.items() if isinstance(v, str | int | float)}
    row = {name: v for name, v in row.items() if name not in ("kind", "schema")}
    row |= plain(answer.quantities)
    for name, limits in (("interval", ""), ("flat", "_flat")):
        for quantity, (low, high) in record.get(name, {}).items():
            row |= {f"{quantity}{limits}_low": low, f"{quantity}{limits}_high": high}
    return row


def _print_plan(answer: AnswerTable) -> None:
    """The headline, some rows of the tables, and the notes."""
    for line in answer.opening():
        print(line)
    for table in answer.shown().values():
        shown = answer.readable(_some(table))
        print_frame(shown.rename(columns=lambda n: n.replace("_per_", "/").replace("_", " ")))
        _say_left_out(table)
    for line in answer.number_lines():
        print(line)
    print_notes(answer.notes)


def _some(table: pd.DataFrame) -> pd.DataFrame:
    return table.iloc[:: _every(table)]


def _every(table: pd.DataFrame) -> int:
    """Of so many rows one is shown."""
    return max(1, -(-len(table) // _SHOWN))


def _say_left_out(table: pd.DataFrame) -> None:
    if (every := _every(table)) > 1:
        print(f"one row of {every} is shown; --out FILE.csv writes all {len(table):,}")
