"""A user's table in any format, as a DataFrame whose index names the user's rows.

CSV, JSON, JSON lines and Parquet files, streams, DataFrames and dicts of arrays. The index of
the frame is what a user would look a row up by: the line of the file (1-based, the header is
line 1), the record of a JSON list (1-based), the index label of a DataFrame.
"""

from __future__ import annotations

import csv
import dataclasses
import glob
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._arrays import plain_array
from jaxlaw._json import RepeatedKey, parse_json, standard_input
from jaxlaw.errors import DataError, UsageError, listed, nearest_file

_KINDS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".json": "json", ".jsonl": "lines",
    ".ndjson": "lines", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
# Numbers as written, to the last bit: what pandas does by itself from 3.1 on.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
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
    elif isinstance(source, pd.DataFrame):
        table = Table(source.copy(), name or "DataFrame")
    elif isinstance(source, Mapping):
        table = Table(_from_mapping(source, name or "dict"), name or "dict")
    elif is_table(source):
        table = Table(_as_pandas(source, name), name or type(source).__name__)
    elif files := _several(source):
        several = isinstance(source, list | tuple)
        label = f"{len(files)} files" if several else os.fspath(source)
        table = _one_below_the_other(files, name or label)
    else:
        table = _parse(*_content(source, name))
    return _check_table(table)


def _several(source: Any) -> list[Path]:
    """The files of a list, a folder or a glob; none of anything else."""
    if isinstance(source, list | tuple) and source:
        if not all(isinstance(path, str | os.PathLike) for path in source):
            return []
        files = [Path(path) for path in source]
        if len({path.absolute() for path in files}) < len(files):
            raise UsageError("a file is in the list twice; give each once", argument="source")
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


def _one_below_the_other(files: list[Path], label: str) -> Table:
    """Tables with all their columns, and ``file``, as much of the path as tells them apart."""
    names = short_names(path.absolute().parts for path in files)
    tables = []
    for path in files:
        name = names[path.absolute().parts]
        table = read_table(path, os.fspath(path))
        if "file" in table.frame:
            raise DataError(f"{path} has a column 'file' of its own; rename it", file=path)
        frame = table.frame.set_axis([f"{name}:{row}" for row in table.frame.index], axis=0)
        tables.append(frame.assign(file=name))
    return Table(pd.concat(tables), label, table.word)


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


def is_table(source: Any) -> bool:
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


def _as_pandas(source: Any, name: str | None) -> pd.DataFrame:
    """A table of another library, or of records, as a DataFrame."""
    if isinstance(source, list | tuple):
        return _records(list(source))
    if isinstance(source, np.ndarray):
        fields = {field: np.atleast_1d(source)[field] for field in source.dtype.names}
        return _from_mapping(fields, name or "structured array")
    what = type(source).__name__
    try:
        if hasattr(source, "to_pandas"):
            frame = source.to_pandas()
        else:
            import pyarrow

            frame = pyarrow.table(source).to_pandas()
    except ImportError:  # polars' to_pandas needs pyarrow, too
        return _from_mapping({column: list(source[column]) for column in source.columns}, what)
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{what}: to_pandas gives no DataFrame; pass a dict of columns instead")
    return frame


def _check_table(table: Table) -> Table:
    """The table, if it has rows, columns, and no two columns of one name."""
    frame, source = table.frame, table.source
    if frame.columns.nlevels > 1:
        frame.columns = frame.columns.to_flat_index()
    if not len(frame.columns):
        message = f"{source}: the table has no columns; give a table with a header and rows"
        raise DataError(message, file=source)
    repeated = [str(column) for column in frame.columns[frame.columns.duplicated()]]
    if repeated:
        raise DataError(
            f"{source}: column '{repeated[0]}' occurs more than once; rename or remove one of them",
            file=source,
            column=repeated[0],
        )
    if not len(frame):
        raise DataError(
            f"{source}: the table has columns ({listed(frame.columns)}) but no rows; "
            "add at least one row below the header",
            file=source,
        )
    # pandas takes, and compares, columns of this machine's byte order only.
    own = {
        column: kind.newbyteorder("=")
        for column, kind in frame.dtypes.items()
        if isinstance(kind, np.dtype) and not kind.isnative
    }
    return dataclasses.replace(table, frame=frame.astype(own)) if own else table


def _from_mapping(source: Mapping[Any, Any], label: str) -> pd.DataFrame:
    try:
        columns = {key: _plain(values) for key, values in source.items()}
        return pd.DataFrame(columns)
    except (ValueError, TypeError, OverflowError) as error:
        sizes = listed(
            f"{key} {len(values) if hasattr(values, '__len__') else 'scalar'}"
            for key, values in source.items()
        )
        raise DataError(
            f"{label}: not a table; give 1-D arrays of one length per column (lengths: {sizes})",
            file=label,
        ) from error


def _plain(values: Any) -> Any:
    """Arrays of any library as numpy, columns of pandas and single values as they are."""
    is_foreign = hasattr(values, "__array__") and not isinstance(values, (pd.Series, pd.Index))
    return plain_array(values) if is_foreign else values


def _content(source: Any, name: str | None) -> tuple[bytes | str, str, str]:
    """Content, name for messages and kind (maybe ``""``) of a path or stream."""
    if isinstance(source, str) and source == "-":
        label = name or "standard input"
        return standard_input(), label, _kind(label)
    if isinstance(source, (str, os.PathLike)):
        return _path_content(Path(source), name or os.fspath(source))
    if hasattr(source, "read"):
        label = name or str(getattr(source, "name", "file object"))
        try:
            return source.read(), label, _kind(label)
        except UnicodeDecodeError as error:
            raise _not_utf8(error, label) from error
    lazy = " (of a lazy table, give .collect())"
    raise UsageError(
        f"cannot read runs from {type(source).__name__}"
        f"{lazy if hasattr(source, 'collect') else ''}; give a path, '-', a file object, "
        "a DataFrame, a dict of arrays or a list of dicts"
    )


def _path_content(path: Path, label: str) -> tuple[bytes, str, str]:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"there is no file {label}.{nearest_file(path)}", file=label) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{label} cannot be opened: {error}", file=label) from error
    kind = _kind(path.with_suffix("").name if path.suffix == ".gz" else path.name)
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            message = f"{label} is not a whole gzip file ({error}); copy it again"
            raise DataError(message, file=label) from error
    return content, label, kind


def _kind(label: str) -> str:
    return _KINDS.get(Path(label).suffix.lower(), "")


def _parse(content: bytes | str, label: str, kind: str) -> Table:
    if not kind:
        head = content[:64] if isinstance(content, bytes) else content[:64].encode()
        start = head.lstrip()[:1]
        kind = "parquet" if head.startswith(b"PAR1") else "json" if start in (b"{", b"[") else "csv"
    if kind == "parquet":
        return Table(_parquet(content, label), label)
    text = _text(content, label)
    if kind == "json":
        return _json(text, label)
    if kind == "lines":
        return _json_lines(text, label)
    return _csv(text, label, "\t" if kind == "tsv" else ",")


def _parquet(content: bytes | str, label: str) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"{label}: reading Parquet needs pyarrow; `pip install pyarrow`, or save it as CSV",
            file=label,
        ) from error
    if isinstance(content, str):
        raise UsageError(f"{label}: open Parquet files in binary mode ('rb')", file=label)
    try:
        return pd.read_parquet(io.BytesIO(content), engine="pyarrow")
    except Exception as error:  # pyarrow's errors share no base with pandas' and Python's
        raise DataError(
            f"{label} is not a readable Parquet file ({error}); write it again, or save it as CSV",
            file=label,
        ) from error


def _not_utf8(error: UnicodeDecodeError, label: str) -> DataError:
    line = bytes(error.object[: error.start]).count(b"\n") + 1
    return DataError(
        f"{label}: line {line} is not UTF-8 text (byte 0x{error.object[error.start]:02x}); save "
        f"the file as {_FORMATS} in UTF-8, or read it with pandas and pass the DataFrame",
        file=label,
        row=line,
    )


def _empty(label: str) -> DataError:
    message = f"{label}: the file is empty; give a header and at least one row"
    return DataError(message, file=label)


def _text(content: bytes | str, label: str) -> str:
    """The content as text with plain line ends."""
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _not_utf8(error, label) from error
    if "\0" in content:
        line = content[: content.index("\0")].count("\n") + 1
        message = f"{label}: line {line} holds a NUL byte, this is no text; save as UTF-8"
        raise DataError(message, file=label, row=line)
    content = content.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not content.strip():
        raise _empty(label)
    return content


def _csv(text: str, label: str, separator: str) -> Table:
    """Read CSV; a ragged line is an error, where pandas would shift or fill it.

    Where decimals have a comma, programs separate cells by semicolons: a header with semicolons
    and no comma says so.
    """
    first = text.lstrip("\n").partition("\n")[0]
    if separator == "," and "," not in first and ";" in first:
        separator = ";"
    _refuse_no_table(first, label)
    header, lines = _csv_lines(text, label, separator)
    _check_header(header, label, separator)
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=separator,
            index_col=False,
            skipinitialspace=True,
            low_memory=False,
            decimal="," if separator == ";" and _has_decimal_commas(text) else ".",
            **_EXACT,
        )
    except (ValueError, OverflowError, pd.errors.ParserError) as error:
        message = f"{label}: not readable as CSV ({error}); write it again"
        raise DataError(message, file=label) from error
    if len(frame) != len(lines):
        message = f"{label}: quotes or line ends are not those of a CSV file; write it again"
        raise DataError(message, file=label)
    frame.columns = [str(column).strip() for column in frame.columns]
    frame.index = pd.Index(lines, name="line", dtype="int64")
    return Table(frame, label, "line")


def _refuse_no_table(first: str, label: str) -> None:
    """Say what a text is that is no CSV: a table of Markdown, or a trainer's log."""
    pairs = len(re.findall(r"[A-Za-z)]\s*[:=]\s*[-+]?\.?\d", first))
    what = "a table of Markdown" if first.strip().startswith("|") else "a trainer's log"
    if pairs > 1 or first.strip().startswith("|"):
        message = f"{label}: line 1 is of {what}, {first.strip():.60}…; save it as CSV"
        raise DataError(message, file=label, row=1)


def _has_decimal_commas(text: str) -> bool:
    """Whether the cells of a file with semicolons have decimal commas.

    Not where some cell has a decimal point, and not where every comma could separate thousands:
    1,234 may be either, and such cells stay text, which is refused where a number is needed.
    """
    cells = [cell.strip(' "') for cell in re.split(r"[;\n]", text)]
    if any(re.fullmatch(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", cell) for cell in cells):
        return False
    commas = [cell for cell in cells if re.fullmatch(r"[+-]?\d*,\d+([eE][+-]?\d+)?", cell)]
    return any(not re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", cell) for cell in commas)


def _csv_lines(text: str, label: str, separator: str) -> tuple[list[str], list[int]]:
    """Header cells, and the line on which each further record starts."""
    if '"' in text:
        lines, widths, header = _quoted_lines(text, label, separator)
    else:  # the same, 10 times faster
        split = text.split("\n")
        lines = [number for number, line in enumerate(split, 1) if line.strip(" ")]
        widths = [split[number - 1].count(separator) + 1 for number in lines]
        header = split[lines[0] - 1].split(separator) if lines else []
    if not lines:
        raise _empty(label)
    _check_widths(widths, lines, label, separator)
    return header, lines[1:]


def _quoted_lines(text: str, label: str, separator: str) -> tuple[list[int], list[int], list[str]]:
    """First line and width of each record, and the first record, where fields may be quoted."""
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    lines, widths, header, start = [], [], [], 1
    try:
        for record in reader:
            blank = not record or (len(record) == 1 and not record[0].strip(" "))
            if not blank:
                header = header or record
                lines.append(start)
                widths.append(len(record))
            start = reader.line_num + 1
    except csv.Error as error:
        message = f"{label}: line {start} is not CSV ({error}); correct it"
        raise DataError(message, file=label, row=start) from error
    return lines, widths, header


def _check_widths(widths: list[int], lines: list[int], label: str, separator: str) -> None:
    if len(set(widths)) == 1:
        return
    at = next(i for i, width in enumerate(widths) if width != widths[0])
    count = sum(width != widths[0] for width in widths)
    raise DataError(
        f"{label}: line {lines[at]} has {widths[at]} fields, the header has {widths[0]}"
        + (f" ({count} such lines)" if count > 1 else "")
        + "; complete the line, or quote fields that hold a "
        + ("tab" if separator == "\t" else f"'{separator}'"),
        file=label,
        row=lines[at],
    )


def _check_header(header: list[str], label: str, separator: str) -> None:
    names = [cell.strip() for cell in header]
    _check_each_once(names, label)
    other = next((mark for mark in ";\t" if mark in names[0]), None)
    if len(names) == 1 and other:
        raise DataError(
            f"{label}: the header has no '{separator}' but {other!r}; pass "
            f"pandas.read_csv(..., sep={other!r}) instead of the file",
            file=label,
            row=1,
        )
    if all(_is_number(name) for name in names):
        message = f"{label}: line 1 holds numbers; put a header with column names above it"
        raise DataError(message, file=label, row=1)


def _check_each_once(names: list[str], label: str) -> None:
    repeated = [name for name, count in Counter(names).items() if name and count > 1]
    if repeated:
        fields = " and ".join(str(i) for i, name in enumerate(names, 1) if name == repeated[0])
        raise DataError(
            f"{label}: column '{repeated[0]}' occurs more than once in the header (fields "
            f"{fields}); rename or remove one of them",
            file=label,
            column=repeated[0],
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _json(text: str, label: str) -> Table:
    """A list of records, a dict of columns, or (one value per line) JSON lines."""
    try:
        value = parse_json(text)
    except RepeatedKey as error:
        raise DataError(f"{label}: {error}; keep one of them", file=label) from None
    except (ValueError, RecursionError) as error:
        if text.strip().startswith("{") and "\n" in text.strip():
            return _json_lines(text, label)
        line = getattr(error, "lineno", 1)
        raise _not_json(label, line, error) from error
    if isinstance(value, dict):
        if value and all(isinstance(cell, list) for cell in value.values()):
            return Table(_from_mapping(value, label), label)
        value = [value]
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise DataError(f"{label}: give a list of records or a dict of columns", file=label)
    return Table(_records(value, range(1, len(value) + 1)), label, "record")


def _records(records: list[dict[str, Any]], rows: Any = None) -> pd.DataFrame:
    """Records as a table; of an object in one, ``{"train": {"lr": …}}``, column ``train.lr``."""
    if any(isinstance(cell, dict) for record in records for cell in record.values()):
        frame = pd.json_normalize(records)
        return frame if rows is None else frame.set_axis(list(rows), axis=0)
    return pd.DataFrame(records, index=rows)


def _not_json(label: str, line: int, error: Exception) -> DataError:
    message = f"{label}: line {line} is not JSON ({error}); correct it"
    return DataError(message, file=label, row=line)


def _json_lines(text: str, label: str) -> Table:
    records, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise _not_json(label, number, error) from error
        if not isinstance(record, dict):
            raise DataError(
                f"{label}: line {number} is not a record; write one {{column: value}} per line",
                file=label,
                row=number,
            )
        records.append(record)
        lines.append(number)
    return Table(_records(records, pd.Index(lines, name="line")), label, "line")
