"""Conditions on rows: what SQL makes of the same, and what is refused, and where."""

import sqlite3

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import jaxlaw as jl
from jaxlaw._conditions import rows_where
from jaxlaw.errors import UsageError

TABLE = pd.DataFrame(
    {
        "N": [1e8, 2e8, 4e8, 7e9, np.nan],
        "k": [1, 2, 3, 4, 70_000_000_000],
        "split": ["fit", "test", "fit", None, "it's"],
        "val/loss": [3.0, 2.5, 2.0, 1.5, 1.0],
        "flag": [True, False, True, False, True],
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("1e8 < N <= 4e8", [1, 2]),
        ("k == 2 or split == 'fit' and k == 3", [1, 2]),
        ("~flag & k > 2 | k == 1", [0, 3]),
        ("`val/loss` < 2", [3, 4]),
        ("split not in ('fit',)", [1, 4]),
        ('split == "it\'s"', [4]),
        ("split != 'fit' or split is None", [1, 3, 4]),
        ("-k + 2 * k ** 2 >= 15", [2, 3, 4]),
        ("6 * k * k * k > 1e30", [4]),  # beyond int64
    ],
)
def test_what_a_condition_keeps(condition, rows):
    mask, _ = rows_where(condition, dict(TABLE.items()), "runs.csv")
    assert np.flatnonzero(mask).tolist() == rows


# With missing cells the standard is SQL, of which SQLite writes the same conditions alike.
tests = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["k", "N", "k + N", "-k"]),
              st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
              st.sampled_from(["2", "N", "k"])),
    st.sampled_from(["split == 'a'", "split != 'a'", "split in ('a', 'b')", "k not in (1, 3)",
                     "split is not None", "k is None", "N * 2 is None"]),
)  # fmt: skip
with_missing = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=6,
)
cells = st.tuples(
    st.sampled_from([1, 2, 3, None]),
    st.sampled_from([1.0, 2.0, 2.5, None]),
    st.sampled_from(["a", "b", "c", None]),
)


@given(with_missing, st.lists(cells, min_size=1, max_size=5))
def test_sql_keeps_the_same_of_missing_cells(condition, rows):
    table = pd.DataFrame(rows, columns=["k", "N", "split"])
    database = sqlite3.connect(":memory:")
    database.execute("create table runs (k integer, N real, split text)")
    database.executemany("insert into runs values (?, ?, ?)", rows)
    query = condition.replace("None", "null").replace("not (k", "not (+k")
    result = database.execute(f"select rowid - 1, {query} from runs").fetchall()
    mask, undecided = rows_where(condition, dict(table.items()), "runs.csv")
    assert np.flatnonzero(mask).tolist() == [row for row, truth in result if truth]
    assert undecided == sum(truth is None for _, truth in result)


@given(st.text("kNflag splt'\"`&|~()[],.=!<>+-*/%0123456789eis#\\µ\n", max_size=40))
@example("k > 1and flag")
@example("\x00")
def test_any_text_is_a_condition_or_refused(text):
    try:
        mask, undecided = rows_where(text, dict(TABLE.items()), "runs.csv")
    except UsageError as error:
        assert "at position " in str(error)
    else:
        assert mask.shape == (5,) and 0 <= undecided <= 5 - mask.sum()


def test_one_odd_cell_does_not_keep_every_row(tmp_path):
    """A cell that is no number makes the column one of texts, which differ from every number."""
    (tmp_path / "runs.csv").write_text("step,loss\n1000,3\n2000,2.5\nlast,2\n")
    with pytest.raises(UsageError, match=r"line 4 \('last'\); correct or empty these cells"):
        jl.read_runs(tmp_path / "runs.csv", where="step != 1000")
    assert len(jl.read_runs(tmp_path / "runs.csv", where="step != '1000'")) == 2


def test_a_missing_value_of_a_mask_keeps_no_row():
    table = {"loss": [3.0, 2.0, 1.0]}
    for where in (
        np.ma.array([True, True, False], mask=[False, True, False]),
        pd.array([True, None, False], "boolean"),
        [True, None, False],
    ):
        runs = jl.read_runs(table, where=where)
        assert runs.table["loss"].tolist() == [3.0]
        assert "keeps 1 of 3 rows; missing cells leave out 1 more" in runs.notes[0].message


@pytest.mark.parametrize(
    ("condition", "at", "message"),
    [
        ("k >", 4, "cannot be read"),
        ("kk > 1", 1, "no column kk. Did you mean 'k'"),
        ("k = 1", 3, "write == to compare"),
        ("split == 3", 1, "quote the value"),
        ("k", 1, "not true or false"),
        ("k.max() > 1", 1, "has no meaning"),
        ("@k > 1", 1, "cannot be read"),
        ("__import__('os').system('true')", 1, "has no meaning"),
        ("not " * 3000 + "flag", 1, "nested too deeply"),
    ],
)
def test_what_is_no_condition(condition, at, message):
    with pytest.raises(UsageError) as error:
        rows_where(condition, dict(TABLE.items()), "runs.csv")
    assert f"at position {at}, " in str(error.value) and message in str(error.value)
