"""The walker over type hints: what it accepts, and how it says what it does not."""

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
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
        with pytest.raises(UsageError, match="level is .*between 0 and 1, such as 0.9"):
            plan(1, level=level)


def test_a_range_within_a_union_is_that_of_its_member():
    assert plan(1, counts=["a"])[3] == ["a"]
    with pytest.raises(UsageError, match="counts is 10; it must be 1 or more, 9 at most or a list"):
        plan(1, counts=10)


INF = float("inf")
#: Type hint → values that it describes, and JSON that is none, with what is said of it.
LOADED: list[tuple[Any, list[Any], list[tuple[Any, str]]]] = [
    (
        float,
        [1.5, 3.0, INF, -INF],
        [("x", "'x.y' is 'x'; it must be a number"), (True, "a number")],
    ),
    (int, [0, 7], [(1.5, "an integer")]),
    (str, ["a"], [(1, "'x.y' is 1; it must be text")]),
    (bool, [True, False], [(2, "must be True or False")]),
    (Finite, [2.5], [("inf", "'x.y' is inf"), ("nan", "'x.y' is nan")]),
    (Literal["log", "linear"], ["log"], [("ln", "'x.y' is 'ln'; it must be 'log' or 'linear'")]),
    (
        dict[str, float],
        [{"a": 1.0}, {}],
        [([], "a dict"), ({"a": "b"}, "'x.y.a' is 'b'; it must be a num")],
    ),
    (tuple[float, float], [(1.0, INF)], [([1], "must be 2 values, not 1"), ({}, "must be a list")]),
    (tuple[int, ...], [(1, 2), ()], [([1, "a"], r"'x.y\[1\]' is 'a'")]),
    (
        tuple[str, str | None],
        [("a", None)],
        [(["a"], "must be 2 values"), ([1, "a"], r"'x.y\[0\]' is 1")],
    ),
    (
        dict[Literal["low", "high"], float],
        [{"low": 1.0, "high": INF}],
        [({"low": 1.0}, "'x.y.high' is missing"), ({"low": 1, "high": 1, "a": 1}, "'x.y.a' is no")],
    ),
    (str | None, [None, "a"], [(2, "must be text")]),
    (
        tuple[Note, ...],
        [(Note("at-bound", "info", "m"),)],
        [
            (
                [{"code": "a", "severity": "bad", "message": "", "inherited": False}],
                "severity' is 'bad'; it must be 'info'",
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
        "'x' must be numbers: .*inhomogeneous": [[1, 2], [1]],
        "'x' must be numbers: .*'a'": [[1, "a"]],
        "'x' is 1.5; it must be a list": 1.5,
    }
    for message, wrong in wrongs.items():
        with pytest.raises((TypeError, ValueError), match=message):
            load(wrong, np.ndarray, "x")


def test_columns_of_a_table_are_of_their_kind():
    rows = [{"name": "b", "size": "nan", "count": 1, "done": True, "more": "inf"}]
    table = load(rows, pd.DataFrame, "t")
    assert table["name"].tolist() == ["b"] and table["more"].tolist() == [INF]
    assert [kind.kind for kind in table.dtypes[["size", "count", "done"]]] == ["f", "i", "b"]


def test_an_unknown_keyword_is_named_with_what_may_be_meant():
    table = jl.simulate.experiment("chinchilla").table
    for call in (
        lambda: jl.cross_validate("chinchilla", table, "k-fold:3", n_start=9),
        lambda: jl.bootstrap("chinchilla", table, n_start=9),
    ):
        with pytest.raises(jl.UsageError, match=r"no option 'n_start'.*'n_starts'"):
            call()
    for call in (
        lambda: jl.fit("chinchilla", table, wher="N > 1"),
        lambda: jl.forecasting.score([], table, wher="N > 1"),
    ):
        with pytest.raises(jl.UsageError, match="there is no option 'wher'.*'where'"):
            call()
