"""What others import has a type that pyright knows, and using it is checked as it should be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: A user's program. Each ``pyright: ignore`` is a mistake that has to be noticed: one that hides
#: nothing is itself an error.
PROGRAM = """
# pyright: basic, reportUnnecessaryTypeIgnoreComment=true
from typing import Any, assert_type

import jax
import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw.notes import Note
from jaxlaw._result import Result


@jl.law
def shifted(
    N: Any, *, E: Any = jl.laws.positive(0.5, 3), alpha: Any = jl.laws.exponent()
) -> jax.Array:
    return E + jl.laws.power(N, -alpha)


@jl.law(name="another", target="score")
def another(N: Any, *, E: Any = jl.laws.real()) -> jax.Array:
    return E + 0 * N


def decide(table: pd.DataFrame) -> float:
    assert_type(shifted, jl.Law)
    assert_type(another, jl.Law)
    runs = jl.read_runs(table, columns={"N": "n_params"}, units={"N": 1})
    assert_type(runs, jl.Runs)
    fit = jl.fit("chinchilla", runs, starts="grid", n_local=False, fixed={"E": 1.7})
    assert_type(fit, jl.Fit)
    assert_type(fit.params, dict[str, float])
    assert_type(fit.notes, tuple[Note, ...])
    assert_type(fit.predict(N=[1e9, 2e9], D=1e10), np.ndarray)
    assert_type(jl.law_table(), pd.DataFrame)
    batch = jl.fit_batch(shifted, {"N": table["n"].to_numpy()}, table["loss"].to_numpy())
    assert_type(batch, jl.fitting.BatchFit)
    assert_type(batch.params["E"], jax.Array)
    assert_type(jl.bootstrap(fit, runs, 1000).conf_int(), pd.DataFrame)
    study = jl.cross_validate(["dcpt"], runs, jl.folds.leave_p_groups_out("r", 2))
    assert_type(study, jl.Study)
    loaded = jl.load("fit.json")
    assert_type(
        loaded,
        jl.Fit | jl.FittedLaw | jl.Study | jl.Forecast | jl.uncertainty.Draws | Result,
    )
    loaded.r2  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(loaded, jl.Fit):
        assert_type(loaded.r2, float)
    jl.cross_validate("dcpt", runs, jl.folds.k_fold(3), delta=1e-2, starts="grid", where="N > 1")
    jl.cross_validate("dcpt", runs, "k-fold:3", n_start=9)  # pyright: ignore[reportCallIssue]
    jl.bootstrap("dcpt", runs, delta="x")  # pyright: ignore[reportArgumentType]
    jl.bootstrap("dcpt", runs, work_dir="work", n_local=16)
    jl.bootstrap("dcpt", runs, work_dri="work")  # pyright: ignore[reportCallIssue]
    jl.forecast(runs, {"N": 1e9}, "dcpt", prior=None, seed=1)
    jl.forecast(runs, {"N": 1e9}, sed=1)  # pyright: ignore[reportCallIssue]
    jl.covariance("dcpt", runs, units={"N": 1}, constraint="paper")
    fit.score(table, wher="N > 1")  # pyright: ignore[reportCallIssue]
    jl.fit("chinchilla", runs, drop_invalid=True, corpus="domain")
    jl.fit("chinchilla", runs, residuals="logs")  # pyright: ignore[reportArgumentType]
    jl.fit("chinchilla", runs, delta="1e-3")  # pyright: ignore[reportArgumentType]
    fit.parameters  # pyright: ignore[reportAttributeAccessIssue]
    assert_type(jl.planning.best_run(shifted, batch.params, 1e21).N, jax.Array)
    return jl.planning.allocation(fit, 1e21).N
"""


def pyright(*arguments, folder):
    """What it reports; skips where it is not installed, or cannot get its own program."""
    pytest.importorskip("pyright", reason="pyright is not installed: pip install pyright")
    ended = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
        + list(arguments),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
    )
    if not ended.stdout.lstrip().startswith("{"):
        pytest.skip(f"pyright does not start: {ended.stderr.strip()[-200:]}")
    return json.loads(ended.stdout)


@pytest.mark.full
def test_every_public_name_has_a_type(tmp_path):
    """But for the command's, which nobody imports."""
    result = pyright("--verifytypes", "jaxlaw", "--ignoreexternal", folder=tmp_path)
    completeness = result["typeCompleteness"]
    assert completeness["exportedSymbolCounts"]["withKnownType"] > 200
    unknown = [
        (symbol["name"], [one["message"] for one in symbol["diagnostics"]])
        for symbol in completeness["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
        if not symbol["name"].startswith(("jaxlaw.cli.", "jaxlaw.cli."))
    ]
    assert unknown == []


@pytest.mark.full
def test_a_users_program_is_checked(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    result = pyright("program.py", folder=tmp_path)
    assert [one["message"] for one in result["generalDiagnostics"]] == []
    assert result["summary"]["filesAnalyzed"] == 1
