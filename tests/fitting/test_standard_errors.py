"""Standard errors of a fit: those of the sandwich covariance, or why there are none."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.fitting._standard_errors import standard_errors
from jaxlaw.fitting.solvers import Status
from jaxlaw.uncertainty._fit_problem import fit_with_data

TABLE = simulate.experiment("chinchilla", noise=0.004).table
FAST = {"n_starts": 64, "n_local": 8}


def assert_those_of_the_covariance(fit, runs, groups=None):
    """Of what has one the standard error and the interval are those of jl.covariance."""
    covariance = jl.covariance(fit, runs, groups=groups)
    ours, theirs = (
        fit.conf_int(0.9).set_index("parameter"),
        covariance.conf_int(0.9).set_index("parameter"),
    )
    theirs.loc[list(fit.standard_errors.missing), ["std_err", "low", "high"]] = np.nan
    assert fit.standard_errors.degrees == covariance.degrees
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-6)
    assert not set(fit.standard_errors.missing) & set(fit.standard_errors.values)


@pytest.mark.parametrize("count", [12, 243])
def test_they_are_those_of_the_covariance(count):
    """In any order and units, and with rows that do not count."""
    rows = TABLE.sample(count, random_state=3)
    runs = jl.read_runs(
        rows.assign(N=rows["N"] / 1e6, weight=1.0 * (np.arange(count) % 5 > 0)),
        units={"N": 1e6}, weight="weight",
    )  # fmt: skip
    fit = jl.fit("chinchilla", runs, **FAST)
    assert set(fit.standard_errors.values) == set(fit.law.parameter_names)
    assert_those_of_the_covariance(fit, runs)


@pytest.mark.full
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_of_a_thousand_rows_by_either_solver(solver):
    """Their search coordinates differ: coefficients as they are, and as logarithms."""
    draw = np.random.default_rng(0)
    size, data = 10 ** draw.uniform(7, 10, 1000), 10 ** draw.uniform(9, 12, 1000)
    loss = 1.7 + 400 / size**0.34 + 410 / data**0.28
    table = pd.DataFrame({"N": size, "D": data, "loss": loss * np.exp(draw.normal(0, 0.01, 1000))})
    fit = jl.fit("chinchilla", table, solver=solver, n_starts=16, n_local=2)
    assert_those_of_the_covariance(fit, table)


@pytest.mark.full
def test_what_is_held_or_at_a_bound_has_none():
    options = {"fixed": {"E": 1.69}, "tied": {"beta": "alpha"}, **FAST}
    fit = jl.fit("chinchilla", TABLE, **options)
    errors = fit.standard_errors
    assert set(errors.values) == {"A", "B", "alpha", "beta"} and not errors.missing
    assert errors.values["alpha"] == errors.values["beta"] and errors.degrees == 243 - 3
    assert_those_of_the_covariance(fit, TABLE)

    fit = jl.fit("chinchilla", TABLE, bounds={"alpha": (0.4, None)}, **FAST)
    assert fit.standard_errors.missing == {"alpha": "at a bound"}
    assert_those_of_the_covariance(fit, TABLE)

    held = jl.fit("chinchilla", TABLE, fixed=simulate.TRUTHS["chinchilla"])
    assert held.standard_errors.reason == "every parameter is fixed"
    assert "no standard errors: every parameter is fixed" in held.summary()
    assert held.conf_int().empty


def test_what_the_runs_do_not_determine_has_none():
    """At one D, B and β are open; and E, which B/D^β adds to, with them."""
    same = TABLE.assign(D=1e11, loss=TABLE["loss"] - 410 / TABLE["D"] ** 0.28)
    fit = jl.fit("chinchilla", same, **FAST)
    assert "unidentifiable" in {note.code for note in fit.notes}
    assert {"B", "beta"} <= set(fit.standard_errors.missing)
    assert fit.conf_int().set_index("parameter")["std_err"].isna()["beta"]


def test_of_as_many_rows_as_parameters_there_are_none():
    few = TABLE.iloc[::60]
    assert len(few) == 5
    fit = jl.fit("chinchilla", few, **FAST)
    assert fit.standard_errors.reason == "5 rows for 5 parameters leave no scatter"
    assert fit.conf_int()["std_err"].isna().all()


def test_of_a_search_that_did_not_converge_there_are_none(chinchilla_fit):
    problem = fit_with_data(chinchilla_fit, TABLE)
    parts = problem.fit_problem, problem.coordinates, problem.linear
    assert standard_errors(*parts, Status.CONVERGED, (), None).values
    none = standard_errors(*parts, Status.STALLED, (), None)
    assert not none.values and "stalled" in none.reason
    broken = problem.linear._replace(jacobian=np.full_like(problem.linear.jacobian, np.nan))
    assert "no slope" in standard_errors(*parts[:2], broken, Status.CONVERGED, (), None).reason
    with pytest.raises(jl.UsageError, match="a confidence level is between 0 and 1"):
        chinchilla_fit.conf_int(95)


@pytest.mark.filterwarnings("ignore:poor-fit")
def test_parameters_that_are_all_at_bounds_have_none():
    table = jl.simulate.experiment("loss-compute").table
    bounds = {"a": (None, 2.0), "b": (0.2, None)}
    fit = jl.fit("loss-compute", table, bounds=bounds, n_starts=16)
    assert fit.standard_errors.missing == {"a": "at a bound", "b": "at a bound"}
    with pytest.raises(jl.DataError, match="every free parameter .* is at a bound"):
        jl.covariance(fit, table)
    boot = jl.bootstrap(fit, table, 40)
    assert "no parameter has a standard error" in boot.headline


def test_rows_of_one_run_are_one_group():
    """Checkpoints share their run's noise: by rows standard errors would be several times less."""
    table = TABLE.assign(run=np.arange(243) // 9)
    noise = np.random.default_rng(1).normal(0, 0.01, 27)
    table["loss"] *= np.exp(noise[table["run"]])
    fit = jl.fit("chinchilla", table, **FAST)
    assert "dependent-rows" in {note.code for note in fit.notes}
    assert fit.standard_errors.groups == ("run",) and fit.standard_errors.degrees == 26
    assert_those_of_the_covariance(fit, table, groups="run")


def test_what_one_run_alone_decides_has_none():
    """Of runs with one at another D: without it B and E are not to be told apart."""
    same = TABLE.assign(D=1e11, loss=TABLE["loss"] - 410 / TABLE["D"] ** 0.28)
    same.loc[same.index[-1], ["D", "loss"]] = [1e9, same["loss"].iloc[-1] + 1.0]
    fit = jl.fit("chinchilla", same, fixed={"beta": 0.28}, **FAST)
    assert not fit.standard_errors.values and "alone determine" in fit.standard_errors.reason


@pytest.mark.full
@pytest.mark.skipif("JAXLAW_DATA" not in os.environ, reason="needs JAXLAW_DATA")
def test_of_hoffmanns_runs_they_are_as_besiroglu_prints_them():
    """Besiroglu 2024, table 1: E 0.03, A 124.58, B 1293.23, α 0.02, β 0.02 by a bootstrap."""
    runs = jl.read_runs(
        Path(os.environ["JAXLAW_DATA"]) / "chinchilla_points.csv",
        columns={"N": "n_params", "D": "n_tokens"}, where="excluded_in_paper_fit == 0",
    )  # fmt: skip
    fit = jl.fit("chinchilla", runs)
    assert fit.standard_errors.values["alpha"] == pytest.approx(0.02, abs=0.006)
    assert fit.standard_errors.values["beta"] == pytest.approx(0.02, abs=0.006)
    assert_those_of_the_covariance(fit, runs)
