"""The walker over type hints: what it accepts, and how it says what it does not."""

import inspect
import json
from dataclasses import asdict
from typing import Annotated, Any, Literal, NotRequired

import pytest

import jaxlaw as jl
from jaxlaw import Note, UsageError
from jaxlaw._json import plain
from jaxlaw._typed import Between, ConfidenceLevel, Finite, checked, load, only, schema


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
    (str | None, [None, "a"], [(2, "is not text")]),
    (
        tuple[Note, ...],
        [(Note("at-bound", "info", "m"),)],
        [
            ([{"code": "a", "severity": "bad", "message": ""}], "severity' is one of info"),
            ([{"code": "a"}], "severity' is missing"),
            ([{**asdict(Note("a", "info", "m")), "more": 1}], "more' is none of code"),
        ],
    ),
]


@pytest.mark.parametrize(("hint", "good", "bad"), LOADED, ids=[str(one[0]) for one in LOADED])
def test_json_is_read_by_the_hint_that_its_schema_describes(hint, good, bad):
    """One walker says what a file may hold, and which JSON that is: the two must agree."""
    jsonschema = pytest.importorskip("jsonschema")
    described = schema(hint)
    for value in good:
        written = asdict(value[0]) if isinstance(value, tuple) and hint == LOADED[-1][0] else value
        written = [written] if isinstance(written, dict) and hint == LOADED[-1][0] else written
        record = json.loads(json.dumps(plain(written), allow_nan=False))
        jsonschema.validate(record, described)
        assert load(record, hint, "x.y") == value
    for record, message in bad:
        with pytest.raises((TypeError, ValueError), match=message):
            load(record, hint, "x.y")


def test_objects_of_named_fields_have_those_and_no_others():
    described = schema({"law": str, "r": NotRequired[float]})
    assert described["required"] == ["law"] and described["additionalProperties"] is False
    assert only({"a": 1}, ["a"], "f") == {"a": 1}
    with pytest.raises(ValueError, match="field 'f.b' is missing"):
        only({"a": 1}, ["a", "b"], "f")
    with pytest.raises(ValueError, match="field 'f.a' is none of b"):
        only({"a": 1, "b": 2}, ["b"], "f")


def test_keywords_that_are_handed_on_are_those_of_the_functions_that_take_them():
    from jaxlaw.data._columns import ReadingOptions
    from jaxlaw.fitting import _options

    reading = set(inspect.signature(jl.read_runs).parameters) - {"source"}
    of_fit = set(inspect.signature(jl.fit).parameters) - {"law", "runs", "reading"}
    of_boot = set(inspect.signature(jl.bootstrap).parameters)
    assert set(ReadingOptions.__annotations__) == reading
    assert set(_options.FitKeywords.__annotations__) == of_fit | reading
    study = {"strict", "columns", "units"}  # columns and units are its own, strict has no meaning
    assert set(_options.StudyKeywords.__annotations__) == (of_fit | reading) - study
    assert set(_options.BootstrapKeywords.__annotations__) == (of_fit | reading) - of_boot


def test_an_unknown_keyword_is_named_with_what_may_be_meant():
    table = jl.simulate.experiment("chinchilla").table
    for call in (
        lambda: jl.cross_validate("chinchilla", table, "k-fold:3", n_start=9),
        lambda: jl.covariance("chinchilla", table, n_start=9),
        lambda: jl.bootstrap("chinchilla", table, n_start=9),
        lambda: jl.backtest("chinchilla", table, n_start=9),
        lambda: jl.forecast("chinchilla", table, {"N": 1e11, "D": 1e12}, n_start=9),
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


@pytest.mark.parametrize("name", ["target", "y", "loss"])
def test_the_column_of_the_target_is_said_by_columns(name):
    table = jl.simulate.experiment("chinchilla").table.rename(columns={"loss": "bpb"})
    for call in (jl.fit, jl.bootstrap, jl.backtest):
        with pytest.raises(jl.UsageError, match=r"target of the law: columns={'loss': 'bpb'}"):
            call("chinchilla", table, **{name: "bpb"})
    with pytest.raises(jl.UsageError, match="columns={'loss': 'bpb'}"):
        jl.read_runs(table, **{name: "bpb"})
