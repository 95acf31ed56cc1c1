"""``jaxlaw covariance``, ``profile``, ``influence``, ``identifiability``: Python's numbers."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.cli import make_app
from jaxlaw.errors import UsageError

TABLE = simulate.experiment("chinchilla").table
POINT = {"N": 7e10, "D": 2e12}
AT = ("--at", "N=7e10", "--at", "D=2e12")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, chinchilla_fit):
    made = tmp_path_factory.mktemp("runs")
    table = TABLE.rename(columns={"N": "size"}).assign(run=np.arange(243) // 27)
    table.to_csv(made / "runs.csv", index=False)
    chinchilla_fit.save(made / "fit.json")
    return made


@pytest.fixture
def run(folder):
    def call(name, *options, law="fit.json", data="runs.csv"):
        law = folder / law if law.endswith(".json") else law
        arguments = [name, law, folder / data, "-c", "N=size", *options]
        return CliRunner().invoke(make_app(), [*map(str, arguments)])

    return call


def answered(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_covariance_prints_and_writes_the_sandwich(run, folder, chinchilla_fit):
    options = ("--groups", "run", *AT)
    found = answered(run("covariance", *options, "--json", "--out", folder / "c.csv"))
    groups = np.arange(243) // 27
    expected = jl.covariance(chinchilla_fit, TABLE, groups=groups)
    rows = expected.conf_int().to_dict("records")
    for row, other in zip(found["parameters"], rows, strict=True):
        assert row == pytest.approx(other)
    assert found["predictions"][0] == pytest.approx(expected.prediction(POINT).iloc[0].to_dict())
    assert found["covariance"]["E"]["beta"] == pytest.approx(expected.matrix.loc["E", "beta"])
    assert "few-groups" in [note["code"] for note in found["notes"]]
    kept = pd.read_csv(folder / "c.csv")
    assert kept["high"].to_numpy() == pytest.approx(expected.conf_int()["high"].to_numpy())
    plain = jl.covariance(chinchilla_fit, TABLE, robust=False).conf_int()
    done = run("covariance", "--same-noise")
    assert f"{plain['low'][3]:.5g}" in done.output and done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 80


def test_a_profile_of_a_parameter(run, folder, chinchilla_fit):
    done = run("profile", "--parameter", "alpha", "--level", 0.9, "--out", folder / "p.json")
    expected = jl.profile(chinchilla_fit, TABLE, "alpha")
    low, high = expected.interval(0.9)[2:]
    assert f"(90 %: {low:.4g} to {high:.4g})" in done.output
    record = json.loads((folder / "p.json").read_text())
    assert (record["low"], record["high"]) == pytest.approx((low, high))
    assert [row["objective"] for row in record["table"]] == pytest.approx(
        expected.table["objective"].to_list()
    )


def test_a_profile_follows_a_prediction_and_draws_it(run, folder, chinchilla_fit):
    pytest.importorskip("matplotlib")
    done = run("profile", "--parameter", "E", *AT, "--out", folder / "floor.png")
    assert done.exit_code == 0 and (folder / "floor.png").read_bytes().startswith(b"\x89PNG")
    expected = jl.profile(chinchilla_fit, TABLE, "E", at=POINT)
    assert " ".join(expected.headline.split()) in " ".join(done.output.split())
    found = answered(run("profile", "--parameter", "E", *AT, "--json"))["profile"]
    said = [row["prediction"] for row in found]
    assert said == pytest.approx(expected.table["prediction"].to_list())


def test_influence_names_the_runs_that_move_most(run, folder, chinchilla_fit):
    found = answered(run("influence", "--json"))["influence"]
    expected = jl.influence(chinchilla_fit, TABLE)
    assert [row["beta"] for row in found] == pytest.approx(expected["beta"].to_list())
    assert [row["row"] for row in found] == list(range(2, 245))  # lines of the file
    done = run("influence", *AT, "--groups", "run", "--out", folder / "i.csv")
    grouped = jl.influence(chinchilla_fit, TABLE, POINT, groups=np.arange(243) // 27)["value"]
    largest = grouped.abs().idxmax()
    assert f"{largest}: {grouped[largest]:+.2e}" in done.output and "run: change" in done.output
    assert grouped.index.tolist() == list(range(9))
    kept = pd.read_csv(folder / "i.csv", index_col="run")
    assert kept.index.tolist() == grouped.index.tolist()
    assert kept["value"].to_numpy() == pytest.approx(grouped.to_numpy())


def test_identifiability_says_what_to_do(run, folder):
    inputs = {"N": np.tile([1e8, 1e9], 122)[:243], "D": np.geomspace(1e9, 1e11, 243)}
    truth = simulate.TRUTHS["chinchilla"]
    two = simulate.simulate_runs("chinchilla", truth, inputs, noise=0.002)
    two.rename(columns={"N": "size"}).to_csv(folder / "two.csv", index=False)
    expected = jl.identifiability("chinchilla", two)
    done = run("identifiability", law="chinchilla", data="two.csv")
    assert done.exit_code == 0
    assert expected["advice"][0] in " ".join(done.output.split())
    found = answered(run("identifiability", "--json", law="chinchilla", data="two.csv"))
    assert found["directions"][0]["std_err"] == "inf"
    assert found["directions"][1]["B"] == pytest.approx(expected["B"][1])
    assert "every combination to 25 %" in run("identifiability").output


@pytest.mark.parametrize(
    "options", [("covariance",), ("profile", "--parameter", "alpha")], ids=lambda one: one[0]
)
def test_how_sure_a_fit_is_is_drawn_where_the_file_is_named_so(run, folder, options):
    pytest.importorskip("matplotlib")
    done = run(*options, "--out", folder / "sure.png")
    assert done.exit_code == 0 and "sure.png" in done.output
    assert (folder / "sure.png").read_bytes().startswith(b"\x89PNG")


def test_a_fit_is_not_written_as_a_picture_and_says_what_draws_it(run, folder):
    done = run("fit", "--out", folder / "fit.png", law="chinchilla")
    assert isinstance(done.exception, UsageError)
    assert "writes JSON (.json)" in str(done.exception)
    assert "jaxlaw report" in str(done.exception) and not (folder / "fit.png").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("influence", ("--out", "x.png"), "this command writes JSON (.json) or CSV (.csv)"),
        ("profile", (), "say what to profile"),
        ("profile", ("--parameter", "alfa"), "no parameter 'alfa'"),
        ("influence", ("--at", "N=1e9"), "input D is missing"),
        ("covariance", ("--groups", "sise"), "no column sise"),
        ("covariance", ("--level", "95"), "level is a share"),
        ("identifiability", ("--where", "size > 1e9"), "pass the runs it was made from"),
        ("identifiability", ("--out", "nowhere/x.json"), "in a folder that exists"),
    ],
)
def test_wrong_calls_are_refused(run, name, options, message):
    done = run(name, *options)
    assert isinstance(done.exception, jl.UsageError) and message in str(done.exception)
