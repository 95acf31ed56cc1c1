"""Errors name the options of a command, and not the arguments of Python."""

import os
import pickle

import pytest

from jaxlaw import DataError, UsageError

pytest.importorskip("typer")
from jaxlaw.cli import _guard  # noqa: E402
from jaxlaw.cli._guard import in_options  # noqa: E402

OPTIONS = {
    "column": "--column",
    "unit": "--unit",
    "where": "--where",
    "n": "--resamples",
    "n_starts": "--n-starts",
    "first_step": "--first-step",
    "s1_before": "--s1-before",
    "fill": "--fill",
    "decay": "--decay",
    "fix": "--fix",
    "at": "--at",
    "weight": "--weight",
    "budget": "--budget",
    "drop_invalid": "--drop-invalid",
    "no_base": "--no-base",
    "schedules": "--schedules",
}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no column N: pass columns={'N': 'n_params'}", "no column N: pass --column N=n_params"),
        ("say units={'N': 1e9}", "say --unit N=1e9"),
        ("pass S1_before= too", "pass --s1-before too"),
        ("pass fill='linear' (a line)", "pass --fill linear (a line)"),
        ("where='N > 1e8 and r < 1'", '--where "N > 1e8 and r < 1"'),
        ("area_options={'decay': 0.99}", "--decay 0.99"),
        ("as many (n_resamples=12)", "as many (--resamples 12)"),
        ("the cost (budget=)", "the cost (--budget)"),
        ("weights=(0.3, 0.7)", "--weight 0.3,0.7"),
        ("needs at={'r': …}", "needs --at r=…"),
        ("leave the row out with where=…, or", "leave the row out with --where …, or"),
        ("give predict=, or more", "give --at, or more"),
        ("pass drop_invalid=True", "pass --drop-invalid"),
        ("or fixed={} to fit all", "or --no-base to fit all"),
        ("pass schedules={'a': 'cosine:…'}", "pass --schedules FILE (name and line of each)"),
        # What is no option of this command stays, and so does what only looks like one.
        ("gtol=1e-9", "gtol=1e-9"),
        ("the first fit", "the first fit"),
    ],
)
def test_what_python_calls_an_argument_is_an_option(message, said):
    assert in_options(UsageError(message), OPTIONS) == said


def test_the_argument_that_an_error_carries_is_named_by_its_option():
    error = UsageError("fit: n_starts is 0; it must be 1 or more", argument="n_starts", value=0)
    assert in_options(error, OPTIONS) == "--n-starts is 0; it must be 1 or more"
    error = UsageError("first_step is a whole number", argument="first_step", value=0.5)
    assert in_options(error, OPTIONS) == "--first-step is a whole number"
    error = UsageError("weights: give one for each row", argument="weights")
    assert in_options(error, OPTIONS) == "--weight: give one for each row"
    # An error of something else that only looks like it begins with the argument.
    error = UsageError("runs.csv: where is the loss?", argument="where")
    assert in_options(error, OPTIONS) == "runs.csv: where is the loss?"
    error = UsageError("fit: fixed['E'] is 'x'; it must be a number", argument="fixed", value="x")
    assert in_options(error, OPTIONS) == "--fix['E'] is 'x'; it must be a number"
    unknown = UsageError("fit: N is 'x'; it must be a number", argument="N", value="x")
    assert in_options(unknown, OPTIONS) == "fit: N is 'x'; it must be a number"


def test_errors_keep_what_they_carry_between_processes():
    error = DataError("bad", file="runs.csv", row=3, column="N", value="x")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.row, again.column, again.value, again.argument) == (
        "bad", "runs.csv", 3, "N", "x", None,
    )  # fmt: skip


@pytest.mark.parametrize("before", [None, "yes"])
def test_a_quiet_command_hushes_what_it_computes_and_leaves_the_setting(monkeypatch, before):
    if before is None:
        monkeypatch.delenv("JAXLAW_QUIET", raising=False)
    else:
        monkeypatch.setenv("JAXLAW_QUIET", before)
    with _guard._progress_of({"progress": False}):
        assert os.environ["JAXLAW_QUIET"]
    assert os.environ.get("JAXLAW_QUIET") == before
