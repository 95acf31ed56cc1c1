"""Conditions and expressions: equal to plain Python, row by row; what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from jaxlaw._where import evaluate, rows_where
from jaxlaw.errors import UsageError

TABLE = pd.DataFrame(
    {
        "N": [1_000_000_000, 2_000_000_000, 3, 4],
        "D": [1e10, None, 3.0, 4.0],
        "split": ["fit", "test", None, "fit"],
        "val/loss": ["1.5", "2.5", "", "3.5"],
        "crashed": [True, False, None, False],
        "file": ["c_N12_D3.csv", "c_N13_D4.csv", "c_N14_D5.csv", "c.csv"],
        "date": pd.date_range("2026-01-01", periods=4),
    },
    index=[2, 3, 4, 5],
)

number = st.floats(-1e6, 1e6).map(lambda x: round(x, 3)) | st.integers(-(10**20), 10**20)
numbers = st.recursive(
    st.sampled_from(["N", "D"]) | number.map(lambda x: f"({x!r})"),
    lambda parts: st.tuples(parts, st.sampled_from("+-*/%"), parts).map(
        lambda t: f"({' '.join(t)})"
    ),
    max_leaves=6,
)
words = st.sampled_from(["fit", "test", "a b", "N"])
comparisons = (
    st.tuples(numbers, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), numbers).map(" ".join)
    | st.tuples(st.sampled_from(["==", "!="]), words).map(lambda t: f"split {t[0]} '{t[1]}'")
    | st.tuples(st.sampled_from(["in", "not in"]), st.lists(words, min_size=1, max_size=3)).map(
        lambda t: f"split {t[0]} {t[1]}"
    )
    | st.tuples(numbers, numbers, numbers).map(lambda t: f"{t[0]} < {t[1]} <= {t[2]}")
)
conditions = st.recursive(
    comparisons,
    lambda parts: (
        st.tuples(parts, st.sampled_from(["and", "or"]), parts).map(lambda t: f"({' '.join(t)})")
        | parts.map(lambda text: f"(not {text})")
    ),
    max_leaves=4,
)
rows = st.lists(
    st.tuples(
        st.integers(1, 10**12) | st.none(),
        st.floats(1, 1e15) | st.none(),
        st.sampled_from(["fit", "test", None]),
    ),
    min_size=1,
    max_size=5,
)


def by_python(text, row, names):
    """What Python says of a row, in floats; None where a named cell is missing."""
    cells = dict(zip(("N", "D", "split"), row, strict=True))
    if any(cells[name] is None for name in names):
        return None
    given = {n: c if isinstance(c, str) else float(c) for n, c in cells.items() if c is not None}
    return eval(text, {"__builtins__": {}}, given)


def in_floats(text):
    """The same text with its whole numbers as floats, as they are computed."""
    return re.sub(r"\((-?\d+)\)", r"(\1.0)", text)


def table_of(rows):
    table = pd.DataFrame(rows, columns=["N", "D", "split"])
    return table.astype({"N": "Int64", "D": "float64", "split": object})


@given(conditions, rows)
def test_a_condition_is_what_python_says(text, rows):
    names = {name for name in ("N", "D", "split") if name in text.replace("'N'", "")}
    if not names:
        return
    try:
        expected = [by_python(in_floats(text), row, names) for row in rows]
    except (ZeroDivisionError, OverflowError):
        return
    try:
        keep, missing = evaluate(text, table_of(rows), "runs.csv")
    except UsageError as error:  # of numbers of the text alone
        assert "division by zero" in str(error) or "modulo" in str(error)
        return
    assert keep.tolist() == [value is True for value in expected]
    assert missing.tolist() == [value is None for value in expected]


@given(numbers, rows)
def test_an_expression_is_what_python_computes(text, rows):
    names = {name for name in ("N", "D") if name in text}
    if not names:
        return
    try:
        expected = [by_python(in_floats(text), row, names) for row in rows]
    except (ZeroDivisionError, OverflowError):
        return
    try:
        values, _ = evaluate(text, table_of(rows), "runs.csv", argument="columns")
    except UsageError as error:
        assert "division by zero" in str(error) or "modulo" in str(error)
        return
    for value, wanted in zip(values, expected, strict=True):
        same = math.isnan(value) if wanted is None else value == wanted or math.isnan(wanted)
        assert same, (text, value, wanted)


@pytest.mark.parametrize(
    ("text", "kept", "missing"),
    [
        ("6*N*N > 10**18", [2, 3], 0),  # int64 would overflow
        ("N < 10**30", [2, 3, 4, 5], 0),
        ("split != 'fit'", [3], 1),
        ("not split == 'fit'", [3], 1),
        ("split in ('fit', 'other') and D > 3", [2, 5], 2),
        ("`val/loss` > 2", [3, 5], 1),
        ("crashed", [2], 1),
        ("not crashed and N > 3", [3, 5], 1),
        ("-N < -4 or not 1 == 1", [2, 3], 0),
    ],
)
def test_rows_that_are_kept(text, kept, missing):
    keep, gone = evaluate(text, TABLE, "runs.csv", "line")
    assert TABLE.index[keep].tolist() == kept and gone.sum() == missing


def test_what_a_text_says_in_a_group():
    values, _ = evaluate("file.str.extract('_N([0-9]+)_')", TABLE, "runs.csv", argument="columns")
    assert values[:3].tolist() == ["12", "13", "14"] and pd.isna(values[3])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("N = 3", "write == to compare"),
        ("(N", "cannot be read"),
        ("", "cannot be read"),
        ("n > 3", "no column n.*Did you mean 'N'"),
        ("val/loss < 3", "no column val.*Put val/loss in backticks.*'`val/loss` …'"),
        ("split > 3", r"column split .* lines 2 \('fit'\), 3 \('test'\)"),
        ("split < 'g'", "no meaning"),
        ("N == 'fit'", "taken for texts"),
        ("date > 3", "column date"),
        ("split * 2 == 'fitfit'", "split"),
        ("split is None", "no meaning"),
        ("N in D", "no meaning"),
        ("N in [D]", "no meaning"),
        ("N == [3, 4]", "no meaning"),
        ("N > 1 & D < 2", "no meaning"),
        ("N", "compare with a value"),
        ("N and D", "comput|compare"),
        ("1 < 2", "comput"),
        ("__import__('os').system('true')", "no meaning"),
        ("N.__class__ == 3", "no meaning"),
        ("[n for n in N]", "no meaning"),
        ("split.str.len() > 3", "no meaning"),
        ("(lambda: 1)() > N", "no meaning"),
        ("@N > 3", "cannot be read"),
    ],
)
def test_what_is_no_condition(text, said):
    with pytest.raises(UsageError, match=said):
        evaluate(text, TABLE, "runs.csv", "line")


def test_masks_of_every_container():
    for mask in ([True, False], np.array([True, False]), pd.array([True, None], "boolean")):
        keep, said = rows_where(np.asarray(mask, object), {}, "runs.csv")
        assert keep.tolist() == [True, False] and bool(said) == (mask[1] is pd.NA)
    with pytest.raises(UsageError, match="only True and False"):
        rows_where(np.array([0, 1]), {}, "runs.csv")
