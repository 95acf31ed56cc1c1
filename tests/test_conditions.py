"""Conditions on rows: what pandas makes of the same, and what is refused, and where."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    mask = rows_where(condition, dict(table.items()), "runs.csv")
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
        ("split not in ('fit',)", [1, 3, 4]),
        ("k in [1, 2.0, 7_0]", [0, 1]),
        ("k in []", []),
        ('split == "it\'s"', [4]),
        ("split != 'fit'", [1, 3, 4]),
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
    small = TABLE.iloc[:4]
    assert kept(condition, small) == np.flatnonzero(small.eval(condition, engine="python")).tolist()


@pytest.mark.parametrize(
    ("condition", "at", "said"),
    [
        ("", 1, "the end stands where"),
        ("k >", 4, "the end stands where"),
        ("kk > 1", 1, "no column kk. Did you mean 'k'"),
        ("k = 1", 3, "write == to compare"),
        ("k > 2B", 5, "'2B' is no number"),
        ("k > 1.5.2", 5, "'1.5.2' is no number"),
        ("k > 1 k", 7, "'k' is not expected"),
        ("(k > 1", 1, "not closed"),
        ("k > 1)", 6, "')' is not expected"),
        ("k in 3", 6, "comes a list"),
        ("k in [1", 8, "has no end"),
        ("split == 'fit", 10, "has no end"),
        ("k == 'one'", 6, "'one' is text"),
        ("split > 3", 7, "does not compare"),
        ("split + 1 == 3", 1, "needs numbers"),
        ("k", 1, "not true or false"),
        ("k and flag", 1, "not true or false"),
        ("'a' == 'b'", 1, "no column is compared"),
        ("k.max() > 1", 2, "has no meaning"),
        ("@k > 1", 1, "has no meaning"),
        ("k > 1; k < 2", 6, "has no meaning"),
        ("__import__('os').system('true')", 17, "has no meaning"),
        ("flag and not " + "(" * 60 + "k > 1" + ")" * 60, 63, "nested too deeply"),
        ("not " * 3000 + "flag", 201, "nested too deeply"),
        ("-" * 3000 + "k > 1", 51, "nested too deeply"),
    ],
)
def test_what_is_no_condition(condition, at, said):
    with pytest.raises(UsageError) as error:
        kept(condition)
    message = str(error.value)
    assert f"at position {at}, " in message and said in message
    assert "runs.csv" in message and "columns: N, k, split, val/loss, flag" in message


def test_nullable_columns_and_an_index_with_duplicates():
    table = pd.DataFrame(
        {"k": pd.array([1, None, 3], "Int64"), "flag": pd.array([True, None, False], "boolean")},
        index=[7, 7, 7],
    )
    assert kept("k > 1", table) == [2] and kept("flag", table) == [0]
    assert kept("k > 1 or flag", table) == [0, 2]
