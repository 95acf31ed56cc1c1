"""A fit carries how its data were read: later commands need no -c, -u, --where."""

import json

import pandas as pd
import pytest

import jaxlaw as jl


@pytest.fixture
def fitted(command):
    """runs.csv with foreign columns and a test split, and fit.json of the other rows."""
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    table = table.rename(columns={"N": "n_params", "D": "tokens_b", "loss": "val_loss"})
    table["tokens_b"] /= 1e9
    table["split"] = ["test" if i % 5 == 0 else "fit" for i in range(len(table))]
    table.to_csv("runs.csv", index=False)
    columns = {"N": "n_params", "D": "tokens_b", "loss": "val_loss"}
    fit = jl.fit(
        "chinchilla", "runs.csv", columns=columns, units={"D": 1e9}, where="split != 'test'",
        n_starts=64, n_local=8,
    )  # fmt: skip
    fit.save("fit.json")
    return fit


_LINE = (
    "runs.csv: read as the fit's data were: N = n_params, D = tokens_b in 1e9, loss = val_loss; "
    "where split != 'test'"
)
_OPTIONS = ["-c", "N=n_params", "-c", "D=tokens_b", "-u", "D=1e9", "-c", "loss=val_loss"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["covariance", "fit.json", "runs.csv"],
        ["bootstrap", "fit.json", "runs.csv", "-n", "3", "--quiet"],
        ["design", "next", "fit.json", "runs.csv", "runs.csv", "-n", "1", "--criterion", "D"],
        ["backtest", "runs.csv", "--laws", "fit.json", "--cutoffs", "2"],
    ],
)
def test_commands_read_a_table_as_the_fits_was(fitted, command, arguments):
    """The same answer as with every option given, and one line on what was taken over."""
    code, out, err = command(*arguments, "--json")
    assert code == 0 and _LINE in err.splitlines()
    given = command(*arguments, *_OPTIONS, "--where", "split != 'test'", "--json")
    assert "split != 'test'" not in given[2]
    ours, theirs = json.loads(out), json.loads(given[1])
    for record in (ours, theirs):
        record.pop("notes", None)
    assert ours == theirs


def test_a_given_option_wins(fitted, command):
    """Rows of another split are not the fit's: they are refused, so the option was heeded."""
    code, _, err = command("covariance", "fit.json", "runs.csv", "--where", "split == 'test'")
    assert code == 2 and "objective" in err and "where split != 'test'" not in err


def test_points_are_read_without_the_where_of_the_fit(fitted, command):
    code, out, err = command("predict", "fit.json", "runs.csv", "--json")
    assert code == 0 and len(json.loads(out)["predicted"]) == 243
    assert "loss = val_loss" in err and "where" not in err


def test_python_reads_a_path_or_a_frame_as_the_fits_was(fitted):
    saved = jl.load("fit.json")
    assert saved.reading == fitted.reading
    wanted = jl.covariance(saved, jl.read_runs("runs.csv", **_given())).conf_int()
    for runs in ("runs.csv", pd.read_csv("runs.csv")):
        pd.testing.assert_frame_equal(jl.covariance(saved, runs).conf_int(), wanted)


def _given():
    columns = {"N": "n_params", "D": "tokens_b", "loss": "val_loss"}
    return {"columns": columns, "units": {"D": 1e9}, "where": "split != 'test'"}


def test_a_fit_of_arrays_carries_none_and_a_mask_is_named():
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    assert jl.fit("chinchilla", table, n_starts=16, n_local=2).reading is None
    mask = (table["N"] > 2e8).to_numpy()
    masked = jl.fit("chinchilla", table, where=mask, n_starts=16, n_local=2)
    assert masked.reading.where is None
    with pytest.raises(jl.UsageError, match="objective"):
        jl.covariance(masked, table)
    jl.covariance(masked, table, where=mask)
    _, taken = masked.reading.options({}, table.columns)
    assert taken == "not saved with the fit: where= (one value a row)"


def test_two_corpora_are_read_as_the_fits_were():
    table = jl.simulate.demo().table
    columns = {"N": "n_params", "D": "n_tokens", "r_d": "domain_ratio", "loss_d": "domain_loss"}
    runs = jl.read_runs(table, columns, {"N": 1, "D": 1})
    fit = jl.fit("dcpt", runs.for_corpus("domain"), n_starts=64, n_local=8)
    assert fit.reading.corpus == "domain"
    assert jl.covariance(fit, table).fit is fit
