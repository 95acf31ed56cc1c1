"""A table of foreign columns: one command that fails with the line to copy, and that line."""

import shlex

import pytest

import jaxlaw as jl
from tests.conftest import DATA, needs_data
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


def test_all_misspelt_columns_are_named_at_once(command):
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    table.columns = ["n_params", "n_tokens", "loss"]
    table.to_csv("messy.csv", index=False)
    given = ("-c", "N=n_parms", "-c", "D=n_tokns")
    code, out, err = command("fit", "chinchilla", "messy.csv", *SEARCH, *given)
    assert (code, out) == (2, "")
    assert "there are no columns n_parms (for N), n_tokns (for D); columns: n_params" in err
    words = shlex.split(err.rpartition("magnitudes: ")[2])
    assert "n_parms" not in " ".join(words) and "N=n_params" in words and "D=n_tokens" in words
    assert command(*words[1:], "--out", "fit.json")[0] == 0
    with pytest.raises(jl.errors.ColumnError, match="no columns x .for N., y .for D.*Say which"):
        jl.read_runs({"a": [1.0], "b": [2.0]}, columns={"N": "x", "D": "y"})


@pytest.mark.parametrize(
    "words",
    [("fit", "chinchilla"), ("study", "chinchilla", "kaplan"), ("bootstrap", "chinchilla"),
     ("forecast", "--laws", "chinchilla")],
)  # fmt: skip
def test_a_misspelt_column_is_named_with_the_missing_ones(command, words):
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    table = table.assign(D=table["D"] / 1e9)[["N", "D", "loss"]]
    table.columns = ["n_params", "tokens_B", "val_loss"]
    table.to_csv("messy.csv", index=False)
    at = ("--at", "N=1e10,D=400") if words[0] == "forecast" else ()
    code, out, err = command(*words, "messy.csv", "-c", "N=parms", *at)
    assert (code, out) == (2, "")
    assert "there are no columns parms (for N), D, loss, which law chinchilla needs" in err
    line = shlex.split(err.rpartition("magnitudes: ")[2])
    assert line[1 : 1 + len(words)] == [*words] and "N=parms" not in line
    assert {"N=n_params", "D=tokens_B", "D=1e9", "loss=val_loss"} <= {*line}


@pytest.mark.parametrize("given", [(), ("--schedules", "lr")])
def test_a_misspelt_column_of_loss_curves_is_named_with_the_missing_ones(command, given):
    table = two_sizes().query("step > 150 and step % 25 == 0")
    table.rename(columns={"run": "schedule"}).to_csv("log.csv", index=False)
    code, _, err = command("fit", "annealing", "log.csv", "-c", "loss=los", *SEARCH, *given)
    assert code == 2 and "there is no column los (for loss); " in err
    assert "What reading these curves needs: one size" in err
    assert command(*shlex.split(err.rpartition("magnitudes: ")[2])[1:], "--out", "f.json")[0] == 0
    assert jl.load("f.json").n_observations == 154


def test_a_column_that_has_its_name_already_need_not_be_named():
    table = {"N": [1e9, 2e9], "D": [1e10, 2e10], "loss": [3.0, 2.8]}
    with pytest.raises(jl.errors.ColumnError, match="It has a column N: leave size out"):
        jl.fit("chinchilla", table, columns={"N": "size"})


@needs_data
def test_a_size_read_from_names_is_proposed_and_its_gaps_too(command):
    code, _, err = command("fit", "chinchilla", f"{DATA}/model_curves.csv")
    words = shlex.split(err.rpartition("magnitudes: ")[2])
    assert code == 1 and words[4:] == ["-c", "N=N_from_name", "-c", "D=tokens", "--drop-invalid"]
    with pytest.raises(jl.DataError, match="columns={'N': 'N_x', 'D': '…'}"):
        jl.fit("chinchilla", {"N_x": [1e9, 2e9], "D_model": [64.0, 128.0], "loss": [3.0, 2.9]})


def test_nothing_is_guessed_of_names_that_say_nothing():
    table = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    with pytest.raises(jl.DataError, match="no columns N, D, loss.*Say which they are") as error:
        jl.fit("chinchilla", table)
    assert error.value.guess is None


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


@needs_data
@pytest.mark.full
@pytest.mark.parametrize("data", ["lr_loss_curves", "olmo_ladder"])
def test_the_line_of_the_message_works_for_real_curves(command, data):
    code, _, err = command("fit", "annealing", f"{DATA}/{data}.csv")
    assert code == 1
    words = shlex.split(err.rpartition("magnitudes: ")[2])
    assert command(*words[1:], "--out", "fit.json")[0] == 0
    assert jl.load("fit.json").agreement > 0.9


@needs_data
@pytest.mark.parametrize(
    ("data", "blanks"),
    [("continual_70m", ["PEAK", "WARMUP"]), ("model_curves", ["BATCH", "PEAK", "STEPS", "WARMUP"])],
)
def test_what_no_column_says_is_left_blank(command, data, blanks):
    code, _, err = command("fit", "annealing", f"{DATA}/{data}.csv")
    line = err.rpartition("magnitudes: ")[2]
    assert code == 1 and "learning rates, which no column has" in err
    assert all(blank in line for blank in blanks)
    assert ("-c run=model " in line) == (data == "model_curves")


def test_curves_whose_steps_repeat_are_named_by_the_column_that_nearly_tells_them_apart():
    steps = [*range(10, 400, 10), 390]  # the last point stands twice
    table = {"model": ["a"] * 40 + ["b"] * 40, "step": steps * 2, "loss": [3.0] * 39 + [2.9] * 41}
    with pytest.raises(jl.DataError, match="rows of one model are a curve once") as error:
        jl.fit("annealing", table)
    assert "taken out that repeat a step (2 of 80)" in str(error.value)
    assert error.value.guess["columns"]["run"] == "model"


@pytest.mark.parametrize("words", [("forecast",), ("backtest",)])
def test_without_a_law_the_line_is_proposed_too(command, words):
    table = jl.simulate.experiment("chinchilla", noise=0.004).table.iloc[::61]
    table = table.assign(D=table["D"] / 1e9)[["N", "D", "loss"]]
    table.columns = ["params", "tokens (B)", "val_loss"]
    table.to_csv("messy.csv", index=False)
    at = () if words == ("backtest",) else ("--at", "N=70B,D=15T")
    code, out, err = command(*words, "messy.csv", *at)
    assert (code, out) == (1, "") and "guessed from names and magnitudes: jaxlaw" in err
    line = shlex.split(err.rpartition("magnitudes: ")[2])
    assert {"N=params", "D=tokens (B)", "D=1e9", "loss=val_loss"} <= {*line}
    table.rename(columns={"params": "a", "tokens (B)": "b"}).to_csv("other.csv", index=False)
    code, _, err = command(*words, "other.csv", *at)
    assert code == 2 and "no law suits these columns by default" in err


def test_too_few_rows_for_a_law_name_the_prior_where_it_has_one(command):
    table = jl.simulate.experiment("chinchilla", noise=0.004).table.iloc[::61]
    table.to_csv("few.csv", index=False)
    code, _, err = command("fit", "chinchilla", "few.csv")
    assert code == 1 and "fix parameters, or give --prior field, or take a smaller law" in err
    code, _, err = command("fit", "farseer", "few.csv")
    assert code == 1 and "fix parameters, or take a smaller law" in err


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


def test_sizes_of_scored_models_are_guessed(command):
    table = jl.simulate.experiment("chinchilla", noise=0.004).table.iloc[::9]
    table = table.assign(bpb=table["loss"] / 2.5, acc=0.5).rename(columns={"N": "params"})
    table.to_csv("models.csv", index=False)
    code, _, err = command("scores", "models.csv", "--score", "x=acc:bpb", "--at", "N=7B,D=1T")
    assert code == 1 and err.rstrip().endswith("Perhaps --column N=params.")
    code, _, err = command("scores", "models.csv", "--score", "x=acc:bbp", "--at", "N=7B,D=1T",
                           "-c", "N=params")  # fmt: skip
    assert code == 1 and "there is no column bbp (--score)" in err
