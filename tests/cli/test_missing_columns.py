"""A table of foreign columns: one command that fails with the line to copy, and that line."""

import shlex

import pytest

import jaxlaw as jl
from tests.fixtures.curve_tables import two_sizes

SEARCH = ("--n-starts", "64", "--n-local", "8", "--quiet")


@pytest.mark.parametrize(
    ("names", "scales", "given"),
    [
        (("n_params", "tokens_B", "val_loss"), (1, 1e9, 1), ()),
        (("Model Size (M)", "train tokens", "final_eval_loss"), (1e6, 1, 1), ()),
        (("n_params", "tokens_B", "val_loss"), (1, 1e9, 1), ("-c", "N=n_params")),
    ],
)
def test_the_line_of_the_message_works(command, names, scales, given):
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    wanted = jl.fit("chinchilla", table, n_starts=64, n_local=8).params["alpha"]
    table = table[["loss", "D", "N"]]
    for old, new, scale in zip(("N", "D", "loss"), names, scales, strict=True):
        table = table.assign(**{old: table[old] / scale}).rename(columns={old: new})
    table.to_csv("messy.csv", index=False)
    code, out, err = command("fit", "chinchilla", "messy.csv", *SEARCH, *given)
    assert (code, out) == (1, "") and "guessed from names and magnitudes" in err
    words = shlex.split(err.rpartition("magnitudes: ")[2])
    assert words[0] == "jaxlaw"
    assert command(*words[1:], "--out", "fit.json")[0] == 0
    assert jl.load("fit.json").params["alpha"] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("given", [(), ("--schedules", "lr"), ("--where", "split == 'fit'")])
def test_the_line_of_the_message_works_for_loss_curves(command, given):
    table = two_sizes().query("step > 150 and step % 25 == 0").assign(split="fit")
    table.rename(columns={"run": "schedule", "size": "n_params_M"}).to_csv("log.csv", index=False)
    code, out, err = command("fit", "annealing", "log.csv", *SEARCH, *given)
    assert (code, out) == (1, "") and "What reading these curves needs: " in err
    words = shlex.split(err.rpartition("magnitudes: ")[2])
    assert words[0] == "jaxlaw" and words.count("--schedules") == 1
    assert words.count("--where") == 1  # of two sizes, which the law does not know
    assert command(*words[1:], "--out", "fit.json")[0] == 0
    fit = jl.load("fit.json")
    assert fit.n_observations == 154
    assert fit.params["L0"] == pytest.approx(3.1, abs=1e-3)


def test_columns_of_sweeps_are_guessed(command):
    """Of these names N was taken for the data, and the batch for nothing."""
    table = jl.simulate.experiment("tuned-skaling", noise=0.002).table
    names = {"N": "non_embedding_param_size", "D": "data_size", "batch": "bsz", "loss": "lm_loss"}
    table.rename(columns=names).to_csv("sweeps.csv", index=False)
    code, _, err = command("plan", "best-settings", "sweeps.csv")
    assert code == 1
    assert {f"{name}={column}" for name, column in names.items()} <= {*shlex.split(err)}
    code, out, _ = command(*shlex.split(err.rpartition("magnitudes: ")[2])[1:])
    assert code == 0 and out.startswith("9 cells of N and D") and "row of" not in out
