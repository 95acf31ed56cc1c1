"""Tables, values and files made to break jaxlaw, and what may come of them.

A reader, a fit or a plan may answer, or raise a jaxlaw error; nothing else. Where it answers,
the numbers are those an independent reading gives. Hypothesis draws the cases.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import fractions
import gzip
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

NAMES = ("N", "D", "loss", "note")

#: Cells that may stand where a number should: as Python has them, and as text.
CELLS = [
    *"7B 1,000 1,5 1.000.000 1_000 12% $5 0x10 +3 -1 0 -0.0 1e400 1e-400 5e-324 nan".split(),
    *"NA null inf -Infinity true - ? #N/A 2024-01-02 1d5 ١٢٣ １２ ½ ٫5 =1+1 1e . 1.".split(),
    *".5 007 1E9 --1 (5)".split(),
    *"7 b|1e9 tokens|1 000| 2e8 || |1\u00a0000|1;2|a,b|say \"x\"".split("|"), "9" * 40,
    True, None, float("nan"), float("inf"), -1, 10**400, 2**53 + 1, 1e308, 5e-324, 1j, b"1", [1.0],
    {}, object, decimal.Decimal("1.5"), decimal.Decimal("NaN"), fractions.Fraction(1, 3),
    np.float32(0.1), np.int8(3), np.array([1.0]), np.datetime64("2024-01-01"),
    datetime.date(2024, 1, 2), pd.NaT, pd.NA, pd.Timedelta("1s"), np.bool_(True), np.str_("1e9"),
]  # fmt: skip
_HEADERS = [*"|N |n|N.1|D|損失|loss\u200b|é|a,b|q\"q|x;y|🙂|N\n|__class__|index|1".split("|"),
            0, None, ("N", 1), np.nan, True]  # fmt: skip
_EMPTY = {"", "nan", "na", "n/a", "null", "none", "<na>"}
#: What pandas, in a file, takes for an empty cell beyond these.
_EMPTY_IN_FILES = {"#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "-nan", "1.#ind", "1.#qnan"}


def sound(n: int) -> list[list[Any]]:
    """n rows for chinchilla that a fit can use."""
    i = np.arange(n)
    N, D = 1e8 * 2.0 ** (i % 4), 1e9 * 3.0 ** (i // 4 % 5)
    loss = 1.7 + 400 / N**0.34 + 410 / D**0.28 + 0.003 * np.sin(7.0 * i)
    rows = zip(i, N, D, loss, strict=True)
    return [[float(a), float(b), float(c), f"run {k}"] for k, a, b, c in rows]


_COUNTED = {"N": ("params", "parameters", "param", "parameter"), "D": ("tokens", "token")}


def as_number(cell: Any, in_file: bool, name: str = "") -> float | None:
    """What a cell says, by Python alone: NaN where it is empty, None where it is no number."""
    if cell is None or cell is pd.NaT or cell is pd.NA:
        return float("nan")
    if isinstance(cell, (str, np.str_)):
        bare = cell.strip().lower()
        if bare in _EMPTY or (in_file and bare in _EMPTY_IN_FILES):
            return float("nan")
        if "_" in cell:
            return None
    if isinstance(cell, (bool, np.bool_, complex, bytes, np.datetime64, np.timedelta64)):
        return None
    if not isinstance(cell, (str, int, float, decimal.Decimal, fractions.Fraction, np.number)):
        return float(cell[0]) if isinstance(cell, np.ndarray) else None
    try:
        return float(cell)
    except OverflowError:
        return float("inf")
    except ValueError:
        return _quantity(cell, name)


def _quantity(cell: str, name: str) -> float | None:
    """The single things of ``7B`` or ``1e9 tokens`` in a column that counts such; else None."""
    text = cell.strip()
    for noun in _COUNTED.get(name, ()):
        if text.lower().endswith(noun):
            text = text[: -len(noun)].rstrip()
            break
    else:
        if name not in _COUNTED or text[-1:].upper() not in "KMBT":
            return None
    zeros = {"K": 3, "M": 6, "B": 9, "T": 12}.get(text[-1:].upper(), 0)
    text = text[:-1].rstrip() if zeros else text
    try:
        return float(decimal.Decimal(text).scaleb(zeros))
    except decimal.InvalidOperation:
        return None


@st.composite
def tables(draw: Any) -> tuple[Any, dict[str, Any], dict[str, list[Any]] | None]:
    """(source, options of read_runs, column → cells or None where no oracle is kept)."""
    n = draw(st.sampled_from([12, 12, 12, 12, 30, 6, 5, 1, 0]))
    rows, names = sound(n), list(NAMES)
    for _ in range(draw(st.integers(0, 3))):
        draw(st.sampled_from(_CHANGES))(draw, rows, names)
    form = draw(st.sampled_from([*_FORMS]))
    source, in_file = _FORMS[form](draw, rows, names)
    options: dict[str, Any] = {}
    if draw(st.integers(0, 5)) == 0:
        options = draw(st.sampled_from(_OPTIONS))
    strings = [str(name).strip() for name in names]
    known = strings if in_file else names
    cells = {
        name: [row[k] if k < len(row) else None for row in rows]
        for k, name in enumerate(known)
        if isinstance(name, str) and name in NAMES
    }
    if in_file is None or len(set(strings)) < len(strings) or options:
        return source, options, None
    return source, options, {k: [as_number(c, in_file, k) for c in v] for k, v in cells.items()}


def _one_cell(draw: Any, rows: list, names: list) -> None:
    if rows and all(rows):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, len(row) - 1))] = draw(st.sampled_from(CELLS))


def _any_text(draw: Any, rows: list, names: list) -> None:
    if rows and all(rows):
        draw(st.sampled_from(rows))[0] = draw(st.text(max_size=12))


def _any_float(draw: Any, rows: list, names: list) -> None:
    for row in filter(None, rows):
        row[draw(st.integers(0, min(2, len(row) - 1)))] = draw(st.floats())


def _written_otherwise(draw: Any, rows: list, names: list) -> None:
    """The same numbers in another form."""
    way = draw(st.sampled_from([
        repr, "{:.17e}".format, " {} ".format, "+{}".format, decimal.Decimal, fractions.Fraction,
        np.float32, np.float64, np.str_, lambda x: f"{x:f}", lambda x: f"{x:.3g}", round,
        lambda x: f"{x:.40f}", lambda x: f"000{x!r}", lambda x: repr(x).upper(),
    ]))  # fmt: skip
    k = draw(st.integers(0, 2))
    for row in rows:
        if k < len(row) and isinstance(row[k], float) and np.isfinite(row[k]):
            with np.errstate(over="ignore"):
                row[k] = way(row[k])


def _whole_column(draw: Any, rows: list, names: list) -> None:
    k, cell = draw(st.integers(0, 2)), draw(st.sampled_from(CELLS))
    for row in rows:
        if k < len(row):
            row[k] = cell


def _scaled(draw: Any, rows: list, names: list) -> None:
    k, factor = draw(st.integers(0, 2)), draw(st.sampled_from([1e-300, 1e-9, 1e9, 1e300, -1]))
    for row in rows:
        if k < len(row) and isinstance(row[k], float):
            row[k] *= factor


def _header(draw: Any, rows: list, names: list) -> None:
    if names:
        names[draw(st.integers(0, len(names) - 1))] = draw(st.sampled_from(_HEADERS))


def _drop_column(draw: Any, rows: list, names: list) -> None:
    if len(names) > 1:
        k = draw(st.integers(0, len(names) - 1))
        del names[k]
        for row in rows:
            del row[k : k + 1]


def _add_column(draw: Any, rows: list, names: list) -> None:
    names.append(draw(st.sampled_from(_HEADERS)))
    for row in rows:
        row.append(draw(st.sampled_from(CELLS[:60])))


def _ragged(draw: Any, rows: list, names: list) -> None:
    if rows:
        row = draw(st.sampled_from(rows))
        row.append("more") if draw(st.booleans()) else row.__delitem__(slice(-1, None))


_CHANGES: list[Callable[[Any, list, list], None]] = [
    _written_otherwise, _written_otherwise, _written_otherwise, _one_cell, _one_cell, _any_text,
    _any_float, _whole_column, _scaled, _header,
    _drop_column, _add_column, _ragged,
]  # fmt: skip
_OPTIONS: list[dict[str, Any]] = [  # beside those of calls, of any type
    {"columns": {"N": "D", "D": "N"}}, {"columns": {"N": "nope"}}, {"columns": {"N": ["N"]}},
    {"columns": {3: "N"}}, {"columns": {"N": None}}, {"units": {"N": "B"}}, {"units": {"N": -1}},
    {"units": {"q": 1}}, {"where": "loss > 2"}, {"where": "loss >"}, {"where": "N.sum()"},
    {"where": "__import__('os')"}, {"where": np.ones(12)}, {"weight": "N"}, {"weight": "q"},
    {"weight": -np.ones(12)}, {"weight": np.zeros(12)}, {"weight": ["a"] * 12},
    {"corpus": "general"}, {"drop_invalid": True}, {"name": "x.csv"},
]  # fmt: skip


def _frame(draw: Any, rows: list, names: list) -> tuple[Any, bool | None]:
    if any(len(row) != len(names) for row in rows):
        return [row[:] for row in rows], None
    frame = pd.DataFrame({k: pd.Series([row[k] for row in rows], dtype=object)
                          for k in range(len(names))})  # fmt: skip
    kind = draw(
        st.sampled_from(["plain", "object", "best", "category", "multi", "again", "datetime"])
    )
    oracle: bool | None = False
    if kind == "best":
        frame = frame.infer_objects().convert_dtypes()
    elif kind == "plain":
        frame = frame.infer_objects()
    elif kind == "category":
        try:
            frame = frame.astype("category")
        except TypeError:  # cells that have no hash
            pass
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    if kind == "multi":
        frame.columns = pd.MultiIndex.from_tuples([(str(name), "") for name in names])
        oracle = None
    elif kind == "again" and len(frame):
        frame.index = [0] * len(frame)
    elif kind == "datetime":
        frame.index = pd.date_range("2024-01-01", periods=len(frame))
    return frame, oracle


def _mapping(draw: Any, rows: list, names: list) -> tuple[Any, bool | None]:
    columns = {name: [row[k] for row in rows if k < len(row)] for k, name in enumerate(names)
               if not (isinstance(name, float) and name != name)}  # fmt: skip
    return columns, False if all(len(row) == len(names) for row in rows) else None


def _text(rows: list, names: list, separator: str, quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator="\n")
    writer.writerow(["" if name is None else name for name in names])
    writer.writerows(rows)
    return out.getvalue()


def _delimited(separator: str) -> Callable[..., tuple[Any, bool | None]]:
    def made(draw: Any, rows: list, names: list) -> tuple[Any, bool | None]:
        # What is written is text: the oracle reads that, not the object it was made of.
        rows[:] = [["" if cell is None else str(cell) for cell in row] for row in rows]
        text = _text(rows, names, separator, draw(st.sampled_from([0, 1])))
        how = draw(st.sampled_from(_ENCODINGS))
        odd = any("\n" in c or "\r" in c or c != c.strip() for row in rows for c in row)
        oracle: bool | None = None if odd else True
        content: Any = text
        if how == "utf8":
            content = text.encode("utf-8", "replace")
        elif how == "bom":
            content = b"\xef\xbb\xbf" + text.encode("utf-8", "replace")
        elif how == "crlf":
            content = text.replace("\n", "\r\n")
        elif how in ("latin", "utf16"):
            content, oracle = text.encode(how, "replace"), None
        elif how == "nul":
            content, oracle = text.replace("e", "\0", 1), None
        elif how == "cut":
            content, oracle = text[: draw(st.integers(0, len(text)))], None
        elif how == "gz":
            content, oracle = gzip.compress(text.encode("utf-8", "replace")), None
        stream = io.StringIO(content) if isinstance(content, str) else io.BytesIO(content)
        stream.name = draw(st.sampled_from(["runs.csv", "runs.tsv", "runs.txt", "runs"]))
        if separator == "\t" or stream.name.endswith("tsv"):
            stream.name, oracle = "runs.tsv", oracle if separator == "\t" else None
        return stream, oracle

    return made


def _json_file(draw: Any, rows: list, names: list) -> tuple[Any, bool | None]:
    keys = [str(name) for name in names]
    columns = {key: [row[k] for row in rows if k < len(row)] for k, key in enumerate(keys)}
    records = [dict(zip(keys, row, strict=False)) for row in rows]
    shapes = [columns, records, {"runs": records}, [records], [[1]], records[:1], None, 3, "N",
              {key: {"0": 1.0} for key in keys}, [records[:1], 3]]  # fmt: skip
    k = draw(st.integers(0, len(shapes) - 1))
    text = json.dumps(shapes[k], default=str)
    if draw(st.integers(0, 4)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
        k = 2
    stream = io.StringIO(text)
    stream.name = draw(st.sampled_from(["runs.json", "runs.jsonl"])) if k != 1 else "runs.json"
    return stream, None


def _lines_file(draw: Any, rows: list, names: list) -> tuple[Any, bool | None]:
    keys = [str(name) for name in names]
    lines = [json.dumps(dict(zip(keys, row, strict=False)), default=str) for row in rows]
    stream = io.StringIO("\n".join(lines))
    stream.name = "runs.jsonl"
    return stream, None


def _binary(draw: Any, rows: list, names: list) -> tuple[Any, bool | None]:
    stream = io.BytesIO(draw(st.binary(max_size=200)))
    stream.name = draw(st.sampled_from(["x.csv", "x.json", "x.parquet", "x.jsonl", "x.tsv", "x"]))
    return stream, None


_ENCODINGS = ["text"] * 3 + ["utf8", "bom", "crlf", "latin", "utf16", "nul", "cut", "gz"]
_FORMS = {
    "frame": _frame, "frame ": _frame, "dict": _mapping, "csv": _delimited(","),
    "csv ": _delimited(","), "tsv": _delimited("\t"),
    "json": _json_file, "lines": _lines_file, "binary": _binary,
}  # fmt: skip
