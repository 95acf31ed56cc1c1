"""The walker over type hints: what it accepts, and how it says what it does not."""

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import UsageError
from jaxlaw._json import plain
from jaxlaw._typed import (
    Between,
    ConfidenceLevel,
    Finite,
    checked,
    load,
    load_table,
)
from jaxlaw.notes import Note


@checked
def plan(n: int, *, share: Annotated[float, Between(0, 1)] = 0.5, level: ConfidenceLevel = 0.95,
         counts: Annotated[int, Between(1, 9)] | list[str] = 1):  # fmt: skip
    return n, share, level, counts


def test_a_range_belongs_to_the_annotation_and_not_to_the_name():
    """Once any argument called n, steps, levels, noise or level had a range of its own."""
    assert plan(-7)[0] == -7
    assert plan(1, share=0)[1] == 0 and plan(1, share=1)[1] == 1
    with pytest.raises(UsageError, match=r"^plan: share is 1.5; it must be 0 or more, 1 at most$"):
        plan(1, share=1.5)
    for level in (0, 1, -0.1):
        with pytest.raises(UsageError, match="level is .*between 0 and 1, such as 0.95"):
            plan(1, level=level)


def test_a_range_within_a_union_is_that_of_its_member():
    assert plan(1, counts=["a"])[3] == ["a"]
    with pytest.raises(UsageError, match="counts is 10; it must be 1 or more, 9 at most or a list"):
        plan(1, counts=10)


def test_an_error_carries_the_argument_and_its_value():
    with pytest.raises(UsageError) as caught:
        plan(1, counts=[3])
    assert (caught.value.argument, caught.value.value) == ("counts", 3)
    assert "counts[0] is 3; it must be text" in str(caught.value)


INF = float("inf")
#: Type hint → values that it describes, and JSON that is none, with what is said of it.
LOADED: list[tuple[Any, list[Any], list[tuple[Any, str]]]] = [
    (float, [1.5, 3.0, INF, -INF], [("x", "'x.y' is not a number"), (True, "not a number")]),
    (int, [0, 7], [(-1, "must be a non-negative integer"), (1.5, "non-negative integer")]),
    (str, ["a"], [(1, "'x.y' is not text: 1")]),
    (bool, [True, False], [(1, "is not true or false")]),
    (Finite, [2.5], [("inf", "cannot be 'inf'"), ("nan", "cannot be 'nan'")]),
    (Literal["log", "linear"], ["log"], [("ln", "'x.y' is one of log, linear, not 'ln'")]),
    (dict[str, float], [{"a": 1.0}, {}], [([], "no object"), ({"a": "b"}, "'x.y.a' is not a num")]),
    (tuple[float, float], [(1.0, INF)], [([1], "is no list of 2"), ({}, "is no list")]),
    (tuple[int, ...], [(1, 2), ()], [([1, "a"], "must be a non-negative integer")]),
    (tuple[str, str | None], [("a", None)], [(["a"], "is no list of 2"), ([1, "a"], "'x.y' is")]),
    (
        dict[Literal["low", "high"], float],
        [{"low": 1.0, "high": INF}],
        [({"low": 1.0}, "'x.y.high' is missing"), ({"low": 1, "high": 1, "a": 1}, "'x.y.a' is no")],
    ),
    (str | None, [None, "a"], [(2, "is not text")]),
    (
        tuple[Note, ...],
        [(Note("at-bound", "info", "m"),)],
        [
            (
                [{"code": "a", "severity": "bad", "message": "", "inherited": False}],
                "severity' is one of info",
            ),
            ([{"code": "a"}], "severity' is missing"),
            ([{**asdict(Note("a", "info", "m")), "more": 1}], "more' is none of code"),
        ],
    ),
]


@pytest.mark.parametrize(("hint", "good", "bad"), LOADED, ids=[str(one[0]) for one in LOADED])
def test_json_is_read_by_its_hint(hint, good, bad):
    for value in good:
        written = asdict(value[0]) if isinstance(value, tuple) and hint == LOADED[-1][0] else value
        written = [written] if isinstance(written, dict) and hint == LOADED[-1][0] else written
        record = json.loads(json.dumps(plain(written), allow_nan=False))
        assert load(record, hint, "x.y") == value
    for record, message in bad:
        with pytest.raises((TypeError, ValueError), match=message):
            load(record, hint, "x.y")


def test_arrays_have_their_axes_and_whole_numbers_again():
    for array in (np.arange(6).reshape(2, 3), np.array([[0.5, INF]]), np.array([])):
        again = load(json.loads(json.dumps(plain(array))), np.ndarray, "x")
        np.testing.assert_array_equal(again, array)
        assert again.dtype == array.dtype
    wrongs = {
        "'x' has rows of different": [[1, 2], [1]],
        r"x\[0\]\[1\]": [[1, "a"]],
        "'x' is no list": 1.5,
    }
    for message, wrong in wrongs.items():
        with pytest.raises((TypeError, ValueError), match=message):
            load(wrong, np.ndarray, "x")


def test_columns_of_a_table_are_of_their_kind():
    kinds = {"name": str, "size": float, "count": int, "done": bool}
    rows = [{"name": "inf", "size": "nan", "count": 1, "done": True, "more": "inf"}]
    table = load_table(rows, "t", kinds)
    assert table["name"].tolist() == ["inf"] and table["more"].tolist() == [INF]
    assert [kind.kind for kind in table.dtypes[["size", "count", "done"]]] == ["f", "i", "b"]
    assert list(load_table([], "t", kinds)) == list(kinds)
    for wrong, message in (({"size": "x"}, r"t\[0\].size"), ({"count": 0.5}, r"t\[0\].count")):
        with pytest.raises((TypeError, ValueError), match=message):
            load_table([rows[0] | wrong], "t", kinds)
    with pytest.raises(ValueError, match=r"t\[1\].more' is missing"):
        load_table([rows[0], {k: v for k, v in rows[0].items() if k != "more"}], "t", kinds)


def test_an_unknown_keyword_is_named_with_what_may_be_meant():
    table = jl.simulate.experiment("chinchilla").table
    for call in (
        lambda: jl.cross_validate("chinchilla", table, "k-fold:3", n_start=9),
        lambda: jl.covariance("chinchilla", table, n_start=9),
        lambda: jl.bootstrap("chinchilla", table, n_start=9),
    ):
        with pytest.raises(jl.UsageError, match=r"no option 'n_start'.*'n_starts'") as caught:
            call()
        assert caught.value.argument == "n_start"
    for call in (
        lambda: jl.fit("chinchilla", table, wher="N > 1"),
        lambda: jl.read_runs(table, wher="N > 1"),
        lambda: jl.forecasting.score([], table, wher="N > 1"),
    ):
        with pytest.raises(jl.UsageError, match="there is no option 'wher'.*'where'"):
            call()


@pytest.mark.parametrize("name", ["y", "loss"])
def test_the_column_of_the_target_is_named_by_columns(name):
    table = jl.simulate.experiment("chinchilla").table.rename(columns={"loss": "bpb"})
    for call in (jl.fit, jl.bootstrap, jl.backtest):
        with pytest.raises(jl.UsageError, match=r"target of the law: columns={'loss': 'bpb'}"):
            call("chinchilla", table, **{name: "bpb"})
    with pytest.raises(jl.UsageError, match="columns={'loss': 'bpb'}"):
        jl.read_runs(table, **{name: "bpb"})
