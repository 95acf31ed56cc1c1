"""A table of foreign columns: one command that fails with the line to copy, and that line."""

import shlex

import pytest

import jaxlaw as jl


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
    search = ("--n-starts", "64", "--n-local", "8", "--quiet")
    code, out, err = command("fit", "chinchilla", "messy.csv", *search, *given)
    assert (code, out) == (1, "") and "guessed from names and magnitudes" in err
    words = shlex.split(err.rpartition("magnitudes: ")[2])
    assert words[0] == "jaxlaw"
    assert command(*words[1:], "--out", "fit.json")[0] == 0
    assert jl.load("fit.json").params["alpha"] == pytest.approx(wanted, rel=1e-6)


def test_nothing_is_guessed_of_names_that_say_nothing():
    table = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    with pytest.raises(jl.DataError, match="no columns N, D, loss.*Say which they are") as error:
        jl.fit("chinchilla", table)
    assert error.value.guess is None
