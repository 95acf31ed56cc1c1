"""Conditions on rows: what pandas makes of the same, and what is refused, and where."""

import io
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


def kept(condition, table=TABLE):
    """The rows that a condition keeps, as a list of their numbers."""
    mask, _ = rows_where(condition, dict(table.items()), "runs.csv")
    assert mask.dtype == bool and mask.shape == (len(table),)
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("N > 1e8", [1, 2, 3]),
        ("1e8 < N <= 4e8", [1, 2]),
        ("split == 'fit' and k >= 3", [2]),
        ("split == 'fit' or k == 2", [0, 1, 2]),
        ("k == 2 or split == 'fit' and k == 3", [1, 2]),
        ("(k == 2 or split == 'fit') and k == 3", [2]),
        ("not flag", [1, 3]),
        ("flag == True and not k == 1", [2, 4]),
        ("~flag & k > 2 | k == 1", [0, 3]),
        ("`val/loss` < 2", [3, 4]),
        ("'val/loss' < 2", [3, 4]),
        ('2 >= "val/loss"', [2, 3, 4]),
        ("split in ['fit', 'test']", [0, 1, 2]),
        ("split not in ('fit',)", [1, 4]),
        ("k in [1, 2.0, 7_0]", [0, 1]),
        ("k in []", []),
        ('split == "it\'s"', [4]),
        ("split != 'fit'", [1, 4]),
        ("not split == 'fit'", [1, 4]),
        ("split != 'fit' or split is None", [1, 3, 4]),
        ("split is not None and N is not None", [0, 1, 2]),
        ("N * 2 is None", [4]),
        ("N != 1e8 or flag", [0, 1, 2, 3, 4]),
        ("k < 0x10", [0, 1, 2, 3]),
        ("k % 2 == 0", [1, 3, 4]),
        ("-k + 2 * k ** 2 >= 15", [2, 3, 4]),
        ("6 * k * k * k > 1e30", [4]),  # beyond int64
        ("k > 2 ** 3 ** 2", [4]),
        ("N == N", [0, 1, 2, 3]),
        ("k == 70_000_000_000", [4]),
        ("True", [0, 1, 2, 3, 4]),
    ],
)
def test_what_a_condition_keeps(condition, rows):
    assert kept(condition) == rows


numbers = st.sampled_from(["1", "2.5", "1e8", ".5", "3e-1", "(k + 1)", "k", "N", "-k", "N * 2"])
comparisons = st.one_of(
    st.builds("{} {} {}".format, numbers, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
              st.sampled_from(["k", "N", "N / k", "k % 3"])),
    st.sampled_from(["split == 'fit'", "split in ['fit', 'test']", "k not in [1, 3]", "flag"]),
)  # fmt: skip
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("{} and {}".format, inner, inner),
        st.builds("{} or {}".format, inner, inner),
        st.builds("not ({})".format, inner),
        st.builds("({})".format, inner),
    ),
    max_leaves=8,
)


@given(conditions)
def test_pandas_keeps_the_same(condition):
    small = TABLE.iloc[:3]  # without missing cells, of which pandas makes something else
    assert kept(condition, small) == np.flatnonzero(small.eval(condition, engine="python")).tolist()


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


def containers(frame):
    """The same table in other containers, by name."""
    import pyarrow

    def masked(name, fill):
        data = frame[name].where(frame[name].notna(), fill).to_numpy()
        return np.ma.array(list(data), mask=frame[name].isna())

    return {
        "objects": frame.astype(object).where(frame.notna(), None),
        "nullable": frame.convert_dtypes(),
        "pyarrow columns": frame.convert_dtypes(dtype_backend="pyarrow"),
        "categories": frame.astype({"split": "category"}),
        "pyarrow table": pyarrow.Table.from_pandas(frame),
        "CSV": io.StringIO(frame.to_csv(index=False)),
        "JSON": io.StringIO(frame.to_json(orient="records")),
        "dict of lists": {k: [None if pd.isna(x) else x for x in v] for k, v in frame.items()},
        "masked arrays": {k: masked(k, f) for k, f in {"k": 1, "split": "a", "ok": True}.items()},
        "empty texts": frame.fillna({"split": ""}),
    }


@pytest.mark.parametrize(
    ("condition", "rows", "undecided"),
    [
        ("split != 'a'", [1, 3], 2),
        ("not split == 'a'", [1, 3], 2),
        ("split is None", [2, 4], 0),
        ("k != 1", [1, 2], 2),
        ("ok", [0, 2], 1),
        ("not ok or k == 1", [0, 1, 3], 1),
    ],
)
def test_a_condition_is_the_same_in_every_container(condition, rows, undecided):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "k": [1, 2, 3, None, None],
            "split": ["a", "b", None, "b", None],
            "ok": [True, False, True, False, None],
        }
    )
    for name, table in containers(frame).items():
        runs = jl.read_runs(table, where=condition)
        kept = (runs.table.index - runs.table.index[0] + rows[0]).tolist()
        assert kept == rows, name
        (note,) = runs.notes
        counted = f"; missing cells leave out {undecided} more" if undecided else ""
        assert f"keeps {len(rows)} of 5 rows{counted}" in note.message, name


@given(st.text("kNflag splt'\"`&|~()[],.=!<>+-*/%0123456789eis#\\µ\n", max_size=40))
@example("k > 1and flag")
@example("µ > 1")
@example("\x00")
@example("`")
def test_any_text_is_a_condition_or_refused(text):
    try:
        mask, undecided = rows_where(text, dict(TABLE.items()), "runs.csv")
    except UsageError as error:
        assert "at position " in str(error)
    else:
        assert mask.shape == (5,) and 0 <= undecided <= 5 - mask.sum()


@given(
    st.text("abéµ²Å _-./'\"\\#&", min_size=1).filter(str.strip), st.text("aé'\\#& \n", max_size=9)
)
def test_any_name_in_backticks_and_any_text_in_quotes(name, text):
    column = {name: pd.Series([text, "other"])}
    quote = '"' if "'" in text else "'"
    mask, _ = rows_where(f"`{name}` == {quote}{text}{quote}", column, "runs.csv")
    assert mask.tolist() == [bool(text.strip()), False]


def test_names_beyond_ascii_need_no_backticks():
    columns = {"µ": [1.0, 3.0], "größe": [1, 2], "μ": [3.0, 1.0]}  # two letters mu
    assert rows_where("µ > 2 and größe == 2", columns, "")[0].tolist() == [False, True]


def test_one_odd_cell_does_not_keep_every_row(tmp_path):
    """A cell that is no number makes the column one of texts, which differ from every number."""
    (tmp_path / "runs.csv").write_text("step,loss\n1000,3\n2000,2.5\nlast,2\n")
    with pytest.raises(
        UsageError, match=r"line 4 \('last'\); correct or empty these cells"
    ) as error:
        jl.read_runs(tmp_path / "runs.csv", where="step != 1000")
    assert (error.value.row, error.value.column) == (4, "step")
    assert len(jl.read_runs(tmp_path / "runs.csv", where="step != '1000'")) == 2
    texts = {"step": ["1000", "2_0", "n/a", "2000"]}
    with pytest.raises(UsageError, match="row 1 "):
        rows_where("step != 1000", texts, "runs")
    del texts["step"][1]
    assert rows_where("step != 1000", texts, "runs")[0].tolist() == [False, False, True]
    mixed = {"size": [7, "7B"]}
    with pytest.raises(UsageError, match=r"row 0 \(7\); correct or empty"):
        rows_where("size != '7'", mixed, "runs")


@pytest.mark.parametrize("condition", ["date > '2024-01-01'", "date == '2024-01-01'", "date > 0"])
def test_dates_are_compared_by_a_mask(condition):
    columns = {"date": pd.Series(pd.to_datetime(["2024-01-01", None])), "k": [1, 2]}
    with pytest.raises(UsageError, match=r"texts have no size|give a mask of rows"):
        rows_where(condition, columns, "runs")
    assert rows_where("date is None", columns, "runs")[0].tolist() == [False, True]


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
    with pytest.raises(UsageError, match=r"where gives 1\.0, not true or false"):
        jl.read_runs(table, where=[1.0, 0.0, np.nan])


def test_messages_name_twenty_columns_of_five_thousand():
    table = {f"metric/{k}": [1.0] for k in range(5000)} | {"loss": [2.0], "step": [1]}
    for call in (
        lambda: jl.read_runs(table, where="los > 1"),
        lambda: jl.read_runs(table, where="loss > 2"),
        lambda: jl.read_runs(table, weight="wait"),
        lambda: jl.read_runs(table, columns={"N": "size"}),
        lambda: jl.fit("chinchilla", table),
        lambda: jl.read_loss_curves(table, schedules="lines"),
        lambda: jl.schedules.from_column(pd.DataFrame(table)),
    ):
        with pytest.raises(jl.JaxlawError, match=r"metric/0, .*… \(4,982 more\)") as error:
            call()
        assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("condition", "at", "message"),
    [
        ("", 1, "the condition is empty"),
        ("k >", 4, "cannot be read"),
        ("kk > 1", 1, "no column kk. Did you mean 'k'"),
        ("flag & kk > 1", 8, "no column kk"),
        ("split == 'fit'|kk > 1", 16, "no column kk"),
        ("k = 1", 3, "write == to compare"),
        ("k > 2B", 5, "invalid decimal literal"),
        ("k > 1 k", 7, "cannot be read"),
        ("(k > 1", 1, "never closed"),
        ("k > 1)", 6, "unmatched"),
        ("k in 3", 6, "comes a list"),
        ("k in [1", 6, "never closed"),
        ("split == 'fit", 10, "has no end"),
        ("k == 'one'", 6, "'one' is text"),
        ("k == 1e8 or 'one' == k", 13, "'one' is text"),
        ("split == 3", 1, "rows 0 ('fit'), 1 ('test'), 2 ('fit'), 4 (\"it's\"); quote the value"),
        ("split + 1 == 3", 1, "column split is taken as numbers"),
        ("split == k", 1, "column split is taken as numbers"),
        ("split > 'fit'", 9, "texts have no size"),
        ("split <= split", 10, "texts have no size"),
        ("split == None", 10, "write 'is None'"),
        ("k in [1, None]", 10, "write 'is None'"),
        ("k is 1", 6, "asks for missing cells"),
        ("k", 1, "not true or false"),
        ("k and flag", 1, "not true or false"),
        ("k == 1 == flag or (k > 1) == flag", 20, "join them by and, or"),
        ("'a' == 'b'", 1, "no column is compared"),
        ("k == 1j", 6, "no number, text or column"),
        ("k == b'x'", 7, "cannot be read"),
        ("k == f'{k}'", 7, "cannot be read"),
        ("split == 'a' 'b'", 14, "cannot be read"),
        ("k if flag else 2", 1, "has no meaning"),
        ("k.max() > 1", 1, "has no meaning"),
        ("k[0] > 1", 1, "has no meaning"),
        ("(k := 1) > 1", 2, "has no meaning"),
        ("[k for k in k] == 1", 1, "has no meaning"),
        ("(lambda: k) == 1", 2, "has no meaning"),
        ("k // 2 == 1", 1, "has no meaning"),
        ("@k > 1", 1, "cannot be read"),
        ("k > 1; k < 2", 6, "cannot be read"),
        ("k > 1 # all of them", 7, "has no meaning"),
        ("k ≥ 1", 3, "has no meaning"),
        ("k > " + "9" * 400, 5, "no number below 1e308"),
        ("__import__('os').system('true')", 1, "has no meaning"),
        ("not " * 3000 + "flag", 1, "nested too deeply"),
        ("-" * 3000 + "k > 1", 1, "nested too deeply"),
    ],
)
def test_what_is_no_condition(condition, at, message):
    with pytest.raises(UsageError) as error:
        kept(condition)
    text = str(error.value)
    assert f"at position {at}, " in text and message in text
    assert "runs.csv" in text and "columns: N, k, split, val/loss, flag" in text


def test_nullable_columns_and_an_index_with_duplicates():
    table = pd.DataFrame(
        {"k": pd.array([1, None, 3], "Int64"), "flag": pd.array([True, None, False], "boolean")},
        index=[7, 7, 7],
    )
    assert kept("k > 1", table) == [2] and kept("flag", table) == [0]
    assert kept("k > 1 or flag", table) == [0, 2]
