"""``jaxlaw design``, ``inflection``: the numbers and refusals of Python."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate

pytest.importorskip("typer")

TABLE = simulate.experiment("chinchilla").table.assign(lab=np.arange(243) // 27)
AT = ("--at", "N=7e10", "--at", "D=1.4e12")
N, D = np.meshgrid([1e9, 1e10], [1e10, 1e11, 1e12])
CANDIDATES = pd.DataFrame({"N": N.ravel(), "D": D.ravel(), "flops": 6 * (N * D).ravel()})


@pytest.fixture
def files(tmp_path, chinchilla_fit):
    named = {"N": "size", "D": "tokens"}
    TABLE.rename(columns=named).to_csv(tmp_path / "runs.csv", index=False)
    CANDIDATES.rename(columns=named).to_csv(tmp_path / "candidates.csv", index=False)
    chinchilla_fit.save(tmp_path / "fit.json")
    named["loss"] = "loss"  # which candidates do not have
    mapped = [part for name, column in named.items() for part in ("-c", f"{name}={column}")]
    return ["fit.json", "runs.csv", "candidates.csv", *mapped]


def test_the_next_runs_are_those_of_python(command, files, tmp_path, chinchilla_fit):
    options = (*AT, "-n", 2, "--cost", "flops", "--budget", 1e22)
    code, out, _ = command("design", "next", *files, *options, "--out", tmp_path / "next.csv")
    expected = jl.design.next_runs(
        chinchilla_fit, TABLE, CANDIDATES, predict={"N": 7e10, "D": 1.4e12}, n=2, cost="flops",
        budget=1e22,
    )  # fmt: skip
    assert code == 0 and out.startswith(expected.summary().splitlines()[0])
    kept = pd.read_csv(tmp_path / "next.csv")
    assert list(kept) == ["size", "tokens", "flops", "sd"]
    assert kept.to_numpy() == pytest.approx(expected.table.to_numpy())
    found = json.loads(command("design", "next", *files, *options, "--json")[1])
    assert found["table"] == kept.to_dict("records")
    assert found["after"] == pytest.approx(expected.after) and found["criterion"] == "c"
    grouped = (*options, "--groups", "lab", "--json")
    shared = json.loads(command("design", "next", *files, *grouped)[1])
    by_lab = jl.design.next_runs(
        chinchilla_fit, TABLE, CANDIDATES, predict={"N": 7e10, "D": 1.4e12}, n=2, cost="flops",
        budget=1e22, groups="lab",
    )  # fmt: skip
    assert shared["noise"] == pytest.approx(by_lab.noise)
    assert shared["noise"] != pytest.approx(found["noise"], rel=0.01)


def test_the_fit_may_come_through_a_pipe_but_not_from_a_paper(command, files):
    saved = Path("fit.json").read_text("utf-8")
    asked = ("design", "next", "-", *files[1:], *AT, "-n", 1)
    assert command(*asked, stdin=saved) == command("design", "next", *files, *AT, "-n", 1)
    code, out, err = command(*asked[:2], "published:besiroglu-2024", *asked[3:])
    assert (code, out) == (2, "") and "the optimum of no runs that are here" in err
    code, _, err = command(*asked[:2], "published:besiroglu", *asked[3:])
    assert code == 2 and "'besiroglu-2024'" in err


def test_no_inflection_is_an_answer(command, tmp_path):
    demo = simulate.demo().table
    demo.to_csv(tmp_path / "runs.csv", index=False)
    named = {"N": "n_params", "D": "n_tokens", "r_d": "domain_ratio", "loss_g": "general_loss"}
    mapped = [part for name, column in named.items() for part in ("-c", f"{name}={column}")]
    asked = ["inflection", "runs.csv", *mapped, "-u", "N=1", "-u", "D=1", "--corpus", "general"]
    code, out, _ = command(*asked)
    assert code == 0 and out.startswith("no inflection within the data")
    runs = jl.read_runs(demo, named, {"N": 1, "D": 1}, corpus="general")
    expected = jl.papers.inflection_ratio(runs)
    found = json.loads(command(*asked, "--json")[1])
    assert found["ratio"] == "nan" and found["bracket"] == ["nan", "nan"]
    assert [row["slope"] for row in found["trends"]] == pytest.approx(
        expected.trends["slope"].to_list()
    )
    assert [note["code"] for note in found["notes"]][-1] == "no-inflection"
    code, _, err = command(*asked, "--split", 0.005)
    assert code == 2 and "choose another split" in err
