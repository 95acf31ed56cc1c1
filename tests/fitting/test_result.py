"""What a fit gives back: predictions, files, notes."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.notes import FitWarning, Note, warns_of_errors
from tests.conftest import compiled_with, simulated_fit


def codes(fit):
    return {note.code for note in fit.notes}


def test_predict_broadcasts_and_takes_tables(chinchilla_fit):
    fit = chinchilla_fit
    grid = fit.predict(N=np.array([1e8, 1e9])[:, None], D=[1e10, 1e11, 1e12])
    assert grid.shape == (2, 3) and grid.dtype == np.float64
    table = pd.DataFrame({"N": [1e8], "D": [1e11], "other": ["x"]})
    # A power of one number and of many may round the last bit another way: jaxlib 0.12 does.
    for alone in (fit.predict(table)[0], fit.predict(N=1e8, D=1e11)):
        assert alone == pytest.approx(grid[0, 1], rel=1e-15, abs=0)
    p = fit.params
    by_hand = p["E"] + p["A"] / 1e8 ** p["alpha"] + p["B"] / 1e11 ** p["beta"]
    assert grid[0, 1] == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    "inputs,error,message",
    [
        ({"N": 1e9}, jl.UsageError, "input D is missing"),
        ({"N": 1e9, "D": 1e10, "d": 1}, jl.UsageError, "Did you mean 'D'"),
        ({"compute": 1e23}, jl.UsageError, "plan allocation --compute"),
        ({"N": -1.0, "D": 1e10}, jl.DataError, "must be finite and positive"),
        ({"N": "many", "D": 1e10}, jl.DataError, "not numeric"),
        ({"N": np.nan, "D": 1e10}, jl.DataError, "must be finite and positive"),
        (
            {"N": [1e9, 2e9], "D": [1e10] * 3},
            jl.DataError,
            r"N \(2,\), D \(3,\); give each one val",
        ),
        ({"N": [[1e9, 2e9], [1e9]], "D": 1e10}, jl.DataError, "input N is not numeric"),
    ],
)
def test_predict_refuses(chinchilla_fit, inputs, error, message):
    with pytest.raises(error, match=message):
        chinchilla_fit.predict(**inputs)


def test_predict_follows_the_columns_of_the_fitted_runs(tmp_path, command, chinchilla_fit):
    """A table's own column N is not the input where the runs had N in another one."""
    table = simulate.experiment("chinchilla", noise=0.004).table
    users = table.rename(columns={"N": "n_params"}).assign(N=table["N"].to_numpy()[::-1])
    fit = jl.fit("chinchilla", users, columns={"N": "n_params"}, n_starts=64)
    assert fit.columns == {"N": "n_params"} and chinchilla_fit.columns == {}
    expected = fit.predict(N=users["n_params"], D=users["D"])
    np.testing.assert_array_equal(fit.predict(users.drop(columns="N")), expected)
    np.testing.assert_array_equal(fit.predict(table), expected)  # N by its own name
    np.testing.assert_array_equal(fit.predict(table.assign(n_params=table["N"])), expected)
    for ask in (fit.predict, fit.is_extrapolation):
        with pytest.raises(jl.UsageError, match="a column N and n_params, .* and they differ"):
            ask(users)
    np.testing.assert_array_equal(fit.predict(users, N=users["n_params"]), expected)
    with pytest.raises(jl.UsageError, match="and they differ"):
        fit.score(users)
    for scored in (fit.score(users.drop(columns="N")), fit.score(users, columns=fit.columns)):
        np.testing.assert_allclose(scored.table["predicted"], expected, rtol=1e-12)

    fit.save(tmp_path / "fit.json")
    again = jl.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(again.predict(users.drop(columns="N")), expected)
    users.to_csv(tmp_path / "users.csv", index=False)
    code, _, err = command("predict", "fit.json", "users.csv")
    assert code == 2 and "a column N and n_params" in err
    users.drop(columns="N").to_csv(tmp_path / "points.csv", index=False)
    for asked in (("points.csv",), ("users.csv", "-c", "N=n_params")):
        code, out, _ = command("predict", "fit.json", *asked, "--json")
        found = [row["predicted"] for row in json.loads(out)["tables"]["table"]]
        assert code == 0 and found == pytest.approx(expected.tolist(), rel=1e-12)


def test_shares_that_are_one_minus_a_column_are_no_such_column():
    table = simulate.experiment("dcpt", noise=0.0).table.rename(columns={"r": "domain share"})
    columns = {"r_d": "domain share"}
    domain = jl.read_runs(table, columns, corpus="domain").observations("dcpt")
    assert domain.mapped == {"r": "domain share"}
    assert jl.read_runs(table, columns, corpus="general").observations("dcpt").mapped == {}


@pytest.mark.full
def test_a_saved_fit_predicts_the_same_bits_in_another_process(tmp_path):
    fit = simulated_fit("dcpt")
    path = tmp_path / "fit.json"
    fit.save(path)
    program = (
        "import jaxlaw as jl, sys; fit = jl.load(sys.argv[1]); "
        "print([x.hex() for x in fit.predict(N=1.3, D=0.7, r=[0.0, 0.21, 1.0]).tolist()])"
    )
    # Compiled as here: how far the compiler optimises decides about last bits.
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True,
        env={**os.environ, "XLA_FLAGS": compiled_with()},
    )  # fmt: skip
    ours = [x.hex() for x in fit.predict(N=1.3, D=0.7, r=[0.0, 0.21, 1.0]).tolist()]
    assert done.stdout.strip() == str(ours)
    again = jl.load(path)
    assert again.to_dict() == fit.to_dict() and again.summary() == fit.summary()


@pytest.mark.full
def test_a_constrained_fit_loads_with_its_constraint(tmp_path):
    fit = simulated_fit("dcpt", constraint="paper")
    fit.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").law is fit.law


def test_missing_names_of_the_law_are_named(tmp_path, chinchilla_fit):
    record = chinchilla_fit.to_dict()
    path = tmp_path / "fit.json"
    path.write_text(json.dumps({k: v for k, v in record.items() if k != "next_step"}))
    assert jl.load(path).to_dict() == record  # which is for readers of the file alone
    for name in ("params", "units", "ranges"):
        broken = json.loads(json.dumps(record))
        del broken[name]["alpha" if name == "params" else "N"]
        path.write_text(json.dumps(broken))
        with pytest.raises(jl.DataError, match=f"{name}\\."):
            jl.load(path)


@pytest.mark.parametrize(
    "change,error,message",
    [
        ({"schema": 99}, jl.DataError, "schema 99"),
        ({"law": "no-such-law"}, jl.UsageError, "Import the module"),
        ({"params": {"E": "text"}}, jl.DataError, "not a complete"),
        ({"law": 3}, jl.DataError, "field 'law' is no name of a law"),
        ({"surprise": 3}, jl.DataError, "field 'surprise' is none of"),
        ({"objective": None}, jl.DataError, "objective"),
        ({"optima": [[1.0]]}, jl.DataError, "not a complete"),
        ({"area_options": {"decay": 2.0}}, jl.DataError, "one number in"),
        ({"area_options": {"lambda": 0.9}}, jl.DataError, "not a complete"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, chinchilla_fit, change, error, message):
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(chinchilla_fit.to_dict() | change))
    with pytest.raises(error, match=message):
        jl.load(path)


@pytest.mark.full
@pytest.mark.parametrize("options", [{}, {"asymmetry": 2.0}, {"residuals": "linear", "delta": 0.1}])
def test_the_huber_of_a_fit_is_the_sum(options):
    """Without asymmetry the sum is the objective; in the logarithm, where residuals are that."""
    made = simulate.experiment("chinchilla").table
    fit = jl.fit("chinchilla", made, n_starts=256, n_local=16, **options)
    name = "huber_linear" if "residuals" in options else "huber"
    if "asymmetry" not in options:
        assert fit.metrics[name] == pytest.approx(fit.objective, rel=1e-9)
    total = fit.metrics["huber"]
    assert total == pytest.approx(fit.mean_huber * fit.n_observations, rel=1e-12)


def test_ties_and_bounds_survive_a_file(tmp_path, chinchilla_fit):
    asked = {"tied": {"beta": "alpha"}, "bounds": {"A": (None, 1e6), "E": (0.5, float("inf"))}}
    dataclasses.replace(chinchilla_fit, **asked).save(tmp_path / "fit.json")
    loaded = jl.load(tmp_path / "fit.json")
    assert {"tied": loaded.tied, "bounds": loaded.bounds} == asked


def test_infinities_survive_a_file(tmp_path):
    table = simulate.experiment("chinchilla").table.assign(loss=2.0)
    with pytest.warns(FitWarning, match="poor-fit"):
        fit = jl.fit("chinchilla", table)  # a constant target: R² is not a number
    fit.save(tmp_path / "fit.json")
    assert np.isnan(jl.load(tmp_path / "fit.json").r2)
    least = jl.fit("chinchilla", simulate.experiment("chinchilla").table, delta=np.inf)
    least.save(tmp_path / "least.json")
    assert jl.load(tmp_path / "least.json").delta == np.inf


@pytest.mark.full
def test_the_constraint_of_dcpt_says_what_it_costs():
    # Shares that the paper's form cannot describe: the loss rises with r towards 1.
    truth = simulate.experiment("dcpt").truth | {"C": 0.02, "B": 0.6, "eta": 2.0}
    table = simulate.experiment("dcpt").table[["N", "D", "r"]]
    made = simulate.simulate_runs("dcpt", truth, table, noise=0.004)
    free = jl.fit("dcpt", made)
    assert "trend-observed" in codes(free)
    with pytest.warns(FitWarning, match="poor-fit"):
        bound = jl.fit("dcpt", made, constraint="paper")
    message = next(n.message for n in bound.notes if n.code == "constraint-binds")
    assert f"{bound.objective:.4g}" in message and f"{free.r2:.3f}" in message
    assert "trend-observed" not in codes(bound)
    assert bound.objective > free.objective


def test_a_fitted_law_needs_a_law_and_parameters_only():
    params = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}
    fitted = jl.FittedLaw("chinchilla", params)
    assert fitted.predict(N=70e9, D=1.4e12) == jl.published()["hoffmann-2022"].predict(
        N=70e9, D=1.4e12
    )
    assert fitted.is_extrapolation(N=1e9, D=1e10) and fitted.units == {"N": 1.0, "D": 1.0}
    with pytest.raises(jl.UsageError, match="has the parameters E, A, B"):
        jl.FittedLaw("chinchilla", {"E": 1.0})


def test_success_is_convergence_without_an_error(chinchilla_fit):
    assert chinchilla_fit.success
    assert not dataclasses.replace(chinchilla_fit, status="stalled").success
    wrong = (Note("poor-fit", "error", "R² is 0.1"),)
    assert not dataclasses.replace(chinchilla_fit, notes=wrong).success


def noise(law="chinchilla"):
    """Runs whose losses have nothing to do with their inputs."""
    table = simulate.experiment(law).table
    return table.assign(loss=np.random.default_rng(0).uniform(2, 3, len(table)))


@pytest.mark.full
def test_a_fit_not_to_be_used_warns_once_where_the_user_gets_it():
    with pytest.warns(FitWarning, match="poor-fit: R² is") as caught:
        fit = jl.fit("chinchilla", noise(), n_starts=64, n_local=8)
    assert not fit.success and len(caught) == 1 and caught[0].filename == __file__


@pytest.mark.full
def test_inner_fits_do_not_warn(chinchilla_fit):
    """Refits of folds and resamples, and the fits that a fit makes on its way."""
    made = noise().iloc[:60]
    jl.cross_validate(["chinchilla"], made, "in-sample", n_starts=64, n_local=8, progress=False)
    poor = Note("poor-fit", "error", "R² is 0.1")
    inner = warns_of_errors(lambda: dataclasses.replace(chinchilla_fit, notes=(poor,)))
    outer = warns_of_errors(lambda: dataclasses.replace(inner(), notes=()))
    assert not outer().notes
    with pytest.warns(FitWarning, match="R² is 0.1"):
        inner()
