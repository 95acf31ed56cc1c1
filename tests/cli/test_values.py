"""Texts of a command line, and what they stand for."""

import pytest

from jaxlaw.cli._values import by_name, value
from jaxlaw.errors import UsageError


@pytest.mark.parametrize(
    "text, meant",
    [
        ("1e9", 1e9), ("6", 6), ("-0.5", -0.5), ("70B", "70B"), ("run", "run"), ("true", True),
        ("1e9,7e9", [1e9, 7e9]), ("N,r", ["N", "r"]), ("0.1:1", (0.1, 1)), (":7e9", (None, 7e9)),
        ("1B:", ("1B", None)), ("a:1e9,b:7e9", {"a": 1e9, "b": 7e9}), ("run-1:5", {"run-1": 5}),
    ],
)  # fmt: skip
def test_a_text_is_read_by_its_form(text, meant):
    assert value(text) == meant and type(value(text)) is type(meant)


def test_names_are_given_once_or_several_times():
    once = {"N": [1e9, 7e9], "D": "2T", "group": "c4"}
    assert by_name(["N=1e9,7e9,D=2T,group=c4"], "at") == once
    assert by_name(["N=1e9,7e9", "D=2T", "group=c4"], "at") == once
    assert by_name(["lr=1e-4:1e-2,batch", "N"], "over", bare=True) == {
        "lr": (1e-4, 1e-2), "batch": None, "N": None
    }  # fmt: skip
    assert by_name(["D=compute/(6*params)"], "columns", str) == {"D": "compute/(6*params)"}
    assert by_name(["{}"], "fixed") == {}


@pytest.mark.parametrize("texts", [["N"], ["N="], ["=3"], ["N=1", "N=2"]])
def test_what_is_no_name_with_a_value_is_refused(texts):
    with pytest.raises(UsageError, match="^at "):
        by_name(texts, "at")
