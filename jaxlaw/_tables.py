"""A user's table in any format, as a DataFrame whose index names the user's rows.

CSV, JSON, JSON lines and Parquet files, streams, DataFrames and dicts of arrays. The index of
the frame is what a user would look a row up by: the line of the file (1-based, the header is
line 1), the record of a JSON list (1-based), the index label of a DataFrame.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._arrays import plain_array
from jaxlaw._json import parse_json, standard_input
from jaxlaw.errors import DataError, UsageError, listed, nearest_file

_KINDS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".json": "json", ".jsonl": "lines",
    ".ndjson": "lines", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
# Numbers as written, to the last bit: what pandas does by itself from 3.1 on.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
_FORMATS = "CSV, TSV, JSON, JSON lines or Parquet (CSV, TSV and JSON also gzipped)"


@dataclass(frozen=True, eq=False)
class Table:
    """A table as the user has it.

    Attributes:
        frame: (n, columns) DataFrame, indexed by what its rows are called.
        source: the file's name, for messages.
        word: word for a row of it: ``line``, ``record`` or ``row``.
    """

    frame: pd.DataFrame
    source: str
    word: str = "row"


def read_table(source: Any, name: str | None = None) -> Table:
    """Read a table.

    Args:
        source: path, list of paths, folder or glob, ``-`` (standard input), file object,
            DataFrame of pandas or polars, table of pyarrow (or anything with columns and
            ``to_pandas`` or ``__arrow_c_stream__``),
            dict of 1-D arrays, list of dicts, structured array of numpy, or a Table. It is never
            changed.
        name: its name in messages; of a stream, its suffix also says the format
            (CSV otherwise, unless the content is plainly JSON or Parquet).

    Returns:
        A :class:`Table` of at least one row and one column, each column with its own name.

    Raises:
        UsageError: no such file, or a kind of source that cannot be read.
        DataError: the content is empty, ragged, not UTF-8 or not what its name says.
    """
    if isinstance(source, Table):
        table = source
    elif is_table(source):
        label = name or ("dict" if isinstance(source, Mapping) else type(source).__name__)
        table = Table(_as_pandas(source, label), label)
    elif files := _several(source):
        # All their columns, and ``file``, as much of the path as tells them apart.
        label = f"{len(files)} files" if isinstance(source, list | tuple) else os.fspath(source)
        names, frames = short_names(path.absolute().parts for path in files), []
        for path in files:
            table, own = read_table(path, os.fspath(path)), names[path.absolute().parts]
            if "file" in table.frame:
                raise _error(table.source, "it has a column 'file' of its own; rename it")
            rows = [f"{own}:{row}" for row in table.frame.index]
            frames.append(table.frame.set_axis(rows, axis=0).assign(file=own))
        table = Table(pd.concat(frames), name or label, table.word)
    else:
        table = _parse(*_content(source, name))
    frame, source = table.frame, table.source
    if frame.columns.nlevels > 1:
        frame.columns = frame.columns.to_flat_index()
    if not len(frame.columns):
        raise _error(source, "the table has no columns; give a table with a header and rows")
    for column in frame.columns[frame.columns.duplicated()]:
        message = f"column '{column}' occurs more than once; rename or remove one of them"
        raise _error(source, message, column=str(column))
    if not len(frame):
        message = f"the table has columns ({listed(frame.columns)}) but no rows; add at least one"
        raise _error(source, message)
    return table


def _error(label: str, message: str, **where) -> DataError:
    return DataError(f"{label}: {message}", file=label, **where)


def _several(source) -> list[Path]:
    """The files of a list, a folder or a glob; none of anything else."""
    if isinstance(source, list | tuple) and source:
        if not all(isinstance(path, str | os.PathLike) for path in source):
            return []
        files = [Path(path) for path in source]
        if len({path.absolute() for path in files}) < len(files):
            raise UsageError("a file is in the list twice; give each once")
        return files
    if not isinstance(source, str | os.PathLike) or source == "-":
        return []
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if _kind(file.name.removesuffix(".gz")))
        if not files:
            raise UsageError(f"{path}: no file in it is {_FORMATS}", file=path)
        return files
    if path.exists() or not set("*?[") & set(str(path)):
        return []
    return sorted(map(Path, glob.glob(str(path), recursive=True)))


def short_names(paths: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Each path's last parts, as many for all of them as distinguish them.

    Example:
        >>> short_names([("out", "1e-4", "seed0"), ("out", "3e-4", "seed0")])
        {('out', '1e-4', 'seed0'): '1e-4/seed0', ('out', '3e-4', 'seed0'): '3e-4/seed0'}
    """
    distinct = list(dict.fromkeys(paths))
    longest = max(map(len, distinct), default=0)
    depth = next(
        (k for k in range(1, longest) if len({path[-k:] for path in distinct}) == len(distinct)),
        longest,
    )
    # A run less deep than the others is not named by a folder that all of them are in.
    shared = len(os.path.commonprefix([path[:-1] for path in distinct]))
    return {path: "/".join(path[max(shared, len(path) - depth) :]) for path in distinct}


def is_table(source) -> bool:
    """Whether an object in memory is a whole table: not a path, and not a column."""
    if isinstance(source, pd.DataFrame | Mapping):
        return True
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(record, Mapping) for record in source)
    if isinstance(source, np.ndarray):
        return source.dtype.names is not None
    # A column of polars or pyarrow has some of these, too, but no attribute columns.
    protocols = ("to_pandas", "__arrow_c_stream__")
    return hasattr(source, "columns") and any(hasattr(source, protocol) for protocol in protocols)


def _as_pandas(source, label: str) -> pd.DataFrame:
    """A table in memory as a DataFrame of its own."""
    if isinstance(source, pd.DataFrame):
        return source.copy()
    if isinstance(source, Mapping):
        return _from_mapping(source, label)
    if isinstance(source, list | tuple):
        return _records(list(source))
    if isinstance(source, np.ndarray):
        fields = {field: np.atleast_1d(source)[field] for field in source.dtype.names}
        return _from_mapping(fields, label)
    try:
        if hasattr(source, "to_pandas"):
            return source.to_pandas()
        import pyarrow  # an extra: what has its protocol brings it along

        return pyarrow.table(source).to_pandas()
    except ImportError:  # polars' to_pandas needs pyarrow, too
        return _from_mapping({column: list(source[column]) for column in source.columns}, label)


def _from_mapping(source: Mapping, label: str) -> pd.DataFrame:
    def plain(values):  # columns of pandas and single values as they are
        is_foreign = hasattr(values, "__array__") and not isinstance(values, pd.Series | pd.Index)
        return plain_array(values) if is_foreign else values

    try:
        return pd.DataFrame({key: plain(values) for key, values in source.items()})
    except (ValueError, TypeError, OverflowError) as error:
        raise _error(label, f"not a table of 1-D columns of one length: {error}") from error


def _content(source, name: str | None) -> tuple[bytes | str, str, str]:
    """Content, name for messages and kind (maybe ``""``) of a path or stream."""
    if isinstance(source, str) and source == "-":
        label = name or "standard input"
        return standard_input(), label, _kind(label)
    if isinstance(source, str | os.PathLike):
        path, label = Path(source), name or os.fspath(source)
        packed = path.suffix == ".gz"
        try:
            content = path.read_bytes()
            content = gzip.decompress(content) if packed else content
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(
                f"there is no file {label}.{nearest_file(path)}", file=label
            ) from error
        except (OSError, ValueError, EOFError, zlib.error) as error:  # gzip's are of three kinds
            raise _error(label, f"it cannot be read ({error})") from error
        return content, label, _kind(path.stem if packed else path.name)
    if hasattr(source, "read"):
        label = name or str(getattr(source, "name", "file object"))
        return source.read(), label, _kind(label)
    raise UsageError(
        f"cannot read runs from {type(source).__name__}; give a path, '-', a file object, a "
        "DataFrame, a dict of arrays or a list of dicts"
    )


def _kind(label: str) -> str:
    return _KINDS.get(Path(label).suffix.lower(), "")


def _parse(content: bytes | str, label: str, kind: str) -> Table:
    if not kind:
        head = content[:64] if isinstance(content, bytes) else content[:64].encode()
        start = head.lstrip()[:1]
        kind = "parquet" if head.startswith(b"PAR1") else "json" if start in (b"{", b"[") else "csv"
    if kind == "parquet":
        try:
            return Table(pd.read_parquet(io.BytesIO(content), engine="pyarrow"), label)  # type: ignore[arg-type]
        except Exception as error:  # pyarrow's errors share no base with pandas' and Python's
            message = f"not readable as Parquet ({error}); write it again, or save it as CSV"
            raise _error(label, message) from error
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            message = f"not text in UTF-8 ({error}); save it so, as {_FORMATS}"
            raise _error(label, message) from error
    if "\0" in content:  # pandas ends a cell there
        line = content[: content.index("\0")].count("\n") + 1
        raise _error(label, f"line {line} holds a NUL byte: this is no text in UTF-8", row=line)
    text = content.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise _error(label, "the file is empty; give a header and at least one row")
    if kind == "json":
        return _json(text, label)
    if kind == "lines":
        return _json_lines(text, label)
    return _csv(text, label, "\t" if kind == "tsv" else ",")


def _csv(text: str, label: str, separator: str) -> Table:
    """Read CSV; a ragged line is an error, where pandas would shift or fill it.

    A header without a comma may separate its names by semicolons or tabs.
    """
    first = text.lstrip("\n").partition("\n")[0]
    pairs = len(re.findall(r"[A-Za-z)]\s*[:=]\s*[-+]?\.?\d", first))
    if pairs > 1 or first.strip().startswith("|"):
        what = "a trainer's log" if pairs > 1 else "a table of Markdown"
        raise _error(label, f"line 1 is of {what}, {first.strip():.60}…; save it as CSV", row=1)
    if separator == "," and "," not in first:
        separator = ";" if ";" in first else "\t" if "\t" in first.strip() else ","
    dialect = {"delimiter": separator, "skipinitialspace": True}
    try:
        # (First line, number of fields) of each record that is not blank, the header's too.
        records, start = [], 1
        if '"' not in text:  # the same, 10 times faster
            each = enumerate(text.split("\n"), 1)
            records = [(k, line.count(separator) + 1) for k, line in each if line.strip(" ")]
        else:
            reader = csv.reader(io.StringIO(text), **dialect)
            for record in reader:
                if len(record) > 1 or (record and record[0].strip(" ")):
                    records.append((start, len(record)))
                start = reader.line_num + 1
        odd = [(line, width) for line, width in records if width != records[0][1]]
        header = next(csv.reader(io.StringIO(text.lstrip(" \n")), **dialect))
        frame = pd.DataFrame() if odd else pd.read_csv(
            io.StringIO(text), index_col=False, low_memory=False, **dialect, **_EXACT
        )  # fmt: skip
    except (csv.Error, ValueError, OverflowError, pd.errors.ParserError) as error:
        raise _error(label, f"not readable as CSV ({error}); write it again") from error
    for line, width in odd:
        message = f"line {line} has {width} fields, the header has {records[0][1]}; complete it"
        raise _error(label, f"{message}, or quote fields that hold {separator!r}", row=line)
    if len(frame) != len(records) - 1:
        raise _error(label, "quotes or line ends are not those of a CSV file; write it again")
    # Those of pandas number a name that occurs twice, which is refused.
    named = zip(frame.columns, header, strict=True)
    frame.columns = [str(own).strip() or str(column) for column, own in named]
    frame.index = pd.Index([line for line, _ in records[1:]], name="line", dtype="int64")
    return Table(frame, label, "line")


def _json(text: str, label: str) -> Table:
    """A list of records, a dict of columns, or (one value per line) JSON lines."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError) as error:
        if text.strip().startswith("{") and "\n" in text.strip() and hasattr(error, "lineno"):
            return _json_lines(text, label)
        line = getattr(error, "lineno", 1)
        raise _error(label, f"line {line} is not JSON ({error}); correct it", row=line) from error
    if isinstance(value, dict):
        if value and all(isinstance(cell, list) for cell in value.values()):
            return Table(_from_mapping(value, label), label)
        value = [value]
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise _error(label, "give a list of records or a dict of columns")
    return Table(_records(value, range(1, len(value) + 1)), label, "record")


def _records(records: list[dict], rows=None) -> pd.DataFrame:
    """Records as a table; of an object in one, ``{"train": {"lr": …}}``, column ``train.lr``."""
    nested = any(isinstance(cell, dict) for record in records for cell in record.values())
    frame = pd.json_normalize(records) if nested else pd.DataFrame(records)
    return frame if rows is None else frame.set_axis(rows, axis=0)


def _json_lines(text: str, label: str) -> Table:
    records = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            records[number] = parse_json(line)
        except (ValueError, RecursionError) as error:
            message = f"line {number} is not JSON ({error}); correct it"
            raise _error(label, message, row=number) from error
        if not isinstance(records[number], dict):
            message = f"line {number} is not a record; write one {{column: value}} per line"
            raise _error(label, message, row=number)
    return Table(_records([*records.values()], pd.Index([*records], name="line")), label, "line")
