"""Errors name the options of a command, and not the arguments of Python."""

import pickle

import pytest

from jaxlaw import DataError, UsageError

pytest.importorskip("typer")
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
        ("pass fill='linear' (a line)", "pass --fill linear (a line)"),
        ("area_options={'decay': 0.99}", "--decay 0.99"),
        ("as many (n_resamples=12)", "as many (--resamples 12)"),
        ("weights=(0.3, 0.7)", "--weight 0.3,0.7"),
        ("needs at={'r': …}", "needs --at r=…"),
        ("pass drop_invalid=True", "pass --drop-invalid"),
        # What is no option of this command stays, and so does what only looks like one.
        ("gtol=1e-9", "gtol=1e-9"),
        ("the first fit", "the first fit"),
    ],
)
def test_what_python_calls_an_argument_is_an_option(message, said):
    assert in_options(UsageError(message), OPTIONS) == said


def test_errors_keep_what_they_carry_between_processes():
    error = DataError("bad", file="runs.csv", row=3, column="N", value="x")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.row, again.column, again.value, again.argument) == (
        "bad", "runs.csv", 3, "N", "x", None,
    )  # fmt: skip
