"""``jaxlaw bootstrap``: intervals of a file's runs, for people and for programs."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.cli import make_app

TABLE = simulate.experiment("chinchilla").table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("runs")
    TABLE.rename(columns={"N": "size"}).to_csv(made / "runs.csv", index=False)
    return made


def run(*arguments):
    return CliRunner().invoke(make_app(), ["bootstrap", *map(str, arguments)])


@pytest.mark.full
def test_a_fit_is_resampled_and_everything_is_written(folder, chinchilla_fit):
    chinchilla_fit.save(folder / "fit.json")
    asked = ("-c", "N=size", "-n", 300, "--at", "N=7e9,7e10", "--at", "D=1e12", "--quiet")
    files = ("--draws", folder / "draws.csv", "--out", folder / "intervals.json")
    done = run(folder / "fit.json", folder / "runs.csv", *asked, *files)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.output.splitlines())) <= 80
    record = json.loads((folder / "intervals.json").read_text())
    expected = jl.bootstrap(chinchilla_fit, TABLE, 300, progress=False)
    for row, other in zip(
        record["parameters"], expected.conf_int().to_dict("records"), strict=True
    ):
        assert row == pytest.approx(other)
        assert f"{row['low']:.5g}" in done.output
    assert [row["N"] for row in record["predictions"]] == [7e9, 7e10]
    draws = pd.read_csv(folder / "draws.csv")
    assert draws["alpha"].to_numpy() == pytest.approx(expected.params["alpha"])
    printed = run(folder / "fit.json", folder / "runs.csv", *asked, "--json")
    assert json.loads(printed.output) == record


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kind", "jackknife"), "'case', 'residual' or 'wild'"),
        (("--groups", "sise"), "no column sise"),
        (("--at", "N"), "NAME=VALUE"),
        (("--out", "nowhere/x.json"), "in a folder that exists"),
        (("--delta", "1"), "delta: a fit brings these itself"),
    ],
)
def test_wrong_calls_are_refused(folder, chinchilla_fit, options, message):
    chinchilla_fit.save(folder / "fit.json")
    done = run(folder / "fit.json", folder / "runs.csv", "-c", "N=size", *options)
    assert isinstance(done.exception, jl.UsageError) and message in str(done.exception)
