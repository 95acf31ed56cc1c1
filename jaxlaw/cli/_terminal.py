"""Between the command line's text and Python's values: options read, results printed."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._json import plain, write_whole
from jaxlaw.data.formats import FORMATS
from jaxlaw.errors import UsageError
from jaxlaw.fitting._result import Fit

_PAGE = 78  # columns of a table, between its margins
_HALF = 38  # of them, the most that one column insists on
_GAP = 3  # between columns


def pairs(items: Sequence[str] | None, option: str) -> dict[str, str]:
    """``["N=n_params"]`` → ``{"N": "n_params"}``."""
    pairs = {}
    for item in items or ():
        name, sign, value = item.partition("=")
        if not sign or not name or not value:
            raise UsageError(f"{option} takes NAME=VALUE, not '{item}'")
        if name in pairs:
            raise UsageError(f"{option} names {name} twice")
        pairs[name] = value
    return pairs


def number(text: str, option: str) -> float:
    """The number, or a complaint that names the option."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a number") from None


def unit_of(text: str) -> Any:
    """A number, or a word such as B for read_runs to judge."""
    try:
        return float(text)
    except ValueError:
        return text


def numbers_of(items: Sequence[str] | None, option: str) -> dict[str, float]:
    """``["N=1e9"]`` → ``{"N": 1e9}``."""
    return {name: number(text, option) for name, text in pairs(items, option).items()}


def ranges_of(
    items: Sequence[str] | None, option: str
) -> dict[str, tuple[float | None, float | None]]:
    """``["alpha=0.1:1"]`` → ``{"alpha": (0.1, 1)}``."""
    return {name: value_range(text, option) for name, text in pairs(items, option).items()}


def value_range(text: str, option: str) -> tuple[float | None, float | None]:
    """``0.1:1`` → (0.1, 1), either side may be empty."""
    low, colon, high = text.partition(":")
    if not colon:
        raise UsageError(f"{option} takes LOW:HIGH, either may be empty, not '{text}'")
    return number(low, option) if low else None, number(high, option) if high else None


def combinations(items: Sequence[str] | None, option: str) -> dict[str, np.ndarray]:
    """``["N=1e9,7e9", "D=1e12"]`` → arrays (k,) by name, of all k combinations."""
    given = pairs(items, option)
    values = [[number(one, option) for one in text.split(",")] for text in given.values()]
    grids = np.meshgrid(*values, indexing="ij")
    return {name: grid.ravel() for name, grid in zip(given, grids, strict=True)}


# What commands write, by the endings of file names that ask for it.
JSON, CSV, PICTURE, HTML = "JSON", "CSV", "a picture", "HTML"
_ENDINGS = {
    JSON: (".json",),
    CSV: (".csv",),
    PICTURE: (".png", ".pdf", ".svg"),
    HTML: (".html", ".htm"),
}
# Endings that promise something which no command writes.
_NEVER = (".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".eps", ".ps", ".webp", ".tsv", ".xls", ".xlsx",
          ".parquet", ".feather", ".jsonl", ".md", ".tex", ".zip", ".gz", ".py")  # fmt: skip


def is_picture(out: Path | None) -> bool:
    """Whether a file's name asks for a picture."""
    return out is not None and out.suffix.lower() in _ENDINGS[PICTURE]


def write_picture(out: Path, draw: Callable[[Any], Any]) -> None:
    """Draw with the module of pictures, to Axes, and write their figure."""
    try:
        from jaxlaw import plots
    except ModuleNotFoundError:
        raise UsageError("pictures need matplotlib: pip install 'jaxlaw[plot]'") from None
    figure = draw(plots).figure
    write_whole(out, lambda path: figure.savefig(path, dpi=150, bbox_inches="tight"))


def check_out(
    out: Path | None, *kinds: str, option: str = "--out", instead: str | None = None
) -> None:
    """Refuse, before a long fit and not after it, what a command cannot write.

    Args:
        out: the file asked for.
        *kinds: what the command writes there; JSON and CSV where none is given.
        option: the command's name for it.
        instead: how to get what the command does not write, for the message.

    Raises:
        UsageError: no folder, or a name that ends like a file of another kind. A name without a
            known ending is taken as it is.
    """
    if out is None:
        return
    if out.is_dir() or not out.parent.is_dir():
        raise UsageError(f"cannot write {out}: give a file in a folder that exists")
    kinds, ending = kinds or (JSON, CSV), out.suffix.lower()
    written = [one for kind in kinds for one in _ENDINGS[kind]]
    if ending in written or ending not in (*_NEVER, *itertools.chain(*_ENDINGS.values())):
        return
    told = " or ".join(f"{kind} ({', '.join(_ENDINGS[kind])})" for kind in kinds)
    more = f"; {instead}" if instead else ""
    raise UsageError(
        f"{option} {out}: this command writes {told}, and no {ending} file; give "
        f"{out.stem}{written[0]}{more}"
    )


# Options that name what a command writes.
_WRITTEN = ("out", "draws")
# Texts and folders that no command reads as a file, whatever they are called.
_NO_FILES = {*_WRITTEN, "title", "work_dir", "compile_cache"}


def keeps_inputs(command: Callable[..., None]) -> Callable[..., None]:
    """The command, refusing to write over a file that it reads, before it does anything."""

    @functools.wraps(command)
    def call(**given: Any) -> None:
        written = {name: given[name] for name in _WRITTEN if given.get(name) is not None}
        places = {os.path.realpath(out) for out in written.values()}
        if len(places) < len(written):
            raise UsageError("--out and --draws name one file; give each its own")
        for name, out in written.items():
            for read in _files_read(given, out):
                raise UsageError(
                    f"--{name} {out} would overwrite {read}, which this command reads; give "
                    "another name"
                )
        command(**given)

    # What typer makes the options of; annotations are texts that only this module's names resolve.
    call.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
    return call


def _files_read(given: dict[str, Any], out: Path) -> Iterator[str]:
    """Arguments of a command that name the file which ``out`` names, links followed."""
    if not out.is_file():
        return
    patterns = FORMATS[given["format"]][0] if given.get("format") in FORMATS else ()
    for name, value in given.items():
        if name in _NO_FILES or (name == "law" and value in laws.names()):
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(one, str | Path):
                continue
            # NAME=FILE as well as FILE.
            for text in dict.fromkeys((str(one), str(one).partition("=")[2])):
                try:
                    same = bool(text) and os.path.samefile(text, out)
                except (OSError, ValueError):
                    continue
                inside = Path(text).is_dir() and any(
                    os.path.samefile(file, out)
                    for pattern in patterns
                    for file in Path(text).rglob(pattern)
                )
                if same or inside:
                    yield text


_ARGUMENTS: tuple[tuple[str, Any], ...] = (
    (r"schedules=\{[^}]*\}", "--schedules FILE (name and line of each)"),
    (r"area_options=\{'decay': ([\d.]+)\}", r"--decay \1"),
    (
        r"Import the module that defines it first",
        "Give the file that defines it: --law-file FILE.py",
    ),
    (r"\barea_options=", "--decay"),
    (r"fill='(\w+)'", r"--fill \1"),
    (r"first_step=(\d)", r"--first-step \1"),
    (r"\bfirst_step\b", "--first-step"),
    (r"\bS1_before\b", "--s1-before"),
    (r"read the table with jl\.read_loss_curves", "add --schedules"),
    (r"^values: ", "--value: "),
    (r"\bwhere='([^']+)'", r'--where "\1"'),
    (r"\(where=\)", "(--where)"),
    (r"\(n=\)", "(-n)"),
    (r"\(n=(\d+)\)", r"(-n \1)"),
    (r"\(n_resamples=(\d+)\)", r"(-n \1)"),
    (r"\bn_resamples\b", "-n"),
    (r"\(budget=\)", "(--budget)"),
    (r"\bpredict=", "--at"),
    (r"\bby= ", "--by "),
    (r"\breplay=", "--replay"),
    (r"weights=\(([\d., ]+)\)", lambda found: f"--weight {found[1].replace(' ', '')}"),
    (r"give after=, its Schedule", "give --after, its schedule"),
    (r"inputs=\{'(\w+)': …\}", r"--input \1=…"),
    (r"\bjl\.identifiability\b", "jaxlaw identifiability"),
)


def in_options(message: str) -> str:
    """What a message says of Python's arguments, in options of the command."""
    for argument, option in (("columns", "--column"), ("units", "--unit")):
        pattern = rf"(?:pass )?{argument}=\{{'([^']*)': '?([^'}}]*)'?\}}"
        message = re.sub(pattern, rf"{option} \1=\2", message)
    message = message.replace(
        "pass base=fit of law chinchilla, or fixed={}", "pass --base, or --no-base"
    )
    for pattern, option in _ARGUMENTS:
        message = re.sub(pattern, option, message)
    return message.replace("drop_invalid=True", "--drop-invalid")


def write_record(out: Path, record: Any, table: pd.DataFrame) -> None:
    """A table where the file's name ends in .csv, else the whole record as JSON."""
    if out.suffix.lower() == ".csv":
        write_whole(out, lambda path: table.to_csv(path, index=False))
    else:
        write_json(out, record)


def write_table(out: Path, table: pd.DataFrame, record: Any) -> None:
    """The record as JSON where the file's name ends in .json, else the table as CSV."""
    if out.suffix.lower() == ".json":
        write_json(out, record)
    else:
        write_whole(out, lambda path: table.to_csv(path, index=False))


def print_json(record: Any) -> None:
    """For programs; numbers only as JSON knows them, infinities and NaN as strings."""
    print(json.dumps(plain(record), indent=2, allow_nan=False))


def write_json(path: Path, record: Any) -> None:
    """The same into a file."""
    text = json.dumps(plain(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda path: path.write_text(text, "utf-8"))


def print_notes(fit: Fit) -> None:
    """A fit's notes, indented."""
    for note in fit.notes:
        print_wrapped(f"  {note}")


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
    # Text may break between words, numbers and names do not; but nothing takes half a page.
    least = [
        min(_HALF, max((len(word) for cell in column for word in cell.split()), default=0))
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
        [format(one, form) if isinstance(one, float) else str(one) for one in row]
        for row in table.itertuples(index=False)
    ]
    print_table(list(map(str, table)), rows)
