"""``jaxlaw design``, ``inflection``, ``learnability``: the numbers and refusals of Python."""

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


def test_a_plan_is_the_one_of_python(command, tmp_path):
    expected = jl.design.evaluation_steps(10, 20_000)
    asked = ("design", "steps", "--budget", 10, "--steps", 20_000)
    code, out, _ = command(*asked, "--out", tmp_path / "steps.csv")
    assert code == 0 and " ".join(map(str, expected.steps)) in out
    assert pd.read_csv(tmp_path / "steps.csv")["step"].tolist() == expected.steps.tolist()
    found = json.loads(command(*asked, "--method", "M2", "--json")[1])
    assert found["steps"] == jl.design.evaluation_steps(10, 20_000, method="M2").steps.tolist()
    assert found["rate"] is None
    code, _, err = command(*asked, "--method", "M5")
    assert code == 2 and "methods: M1, M2, M3, M4" in err


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*AT,), "say how many runs to choose (--runs) or what they may cost (--budget)"),
        (("-n", 2), "criterion 'c' needs --at"),
        ((*AT, "-n", 2, "--cost", "price"), "the candidates have no column price"),
        ((*AT, "-n", 2, "--group", "run"), "the candidates have no column run"),
    ],
)
def test_wrong_choices_are_refused(command, files, options, message):
    code, out, err = command("design", "next", *files, *options)
    assert (code, out) == (2, "") and message in err


def test_costs_that_are_no_numbers_are_refused(command, files, tmp_path):
    CANDIDATES.assign(flops="expensive").to_csv(tmp_path / "candidates.csv", index=False)
    code, _, err = command("design", "next", *files[:3], *AT, "-n", 2, "--cost", "flops",
                           "-c", "N=size", "-c", "D=tokens")  # fmt: skip
    assert code == 2 and "cost needs 6 positive numbers" in err


def test_candidates_need_the_laws_inputs(command, files, tmp_path):
    pd.DataFrame({"size": [1e9]}).to_csv(tmp_path / "candidates.csv", index=False)
    code, _, err = command("design", "next", *files, *AT, "-n", 1)
    assert code == 1 and "D" in err and "candidates.csv" in err


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


def test_learnability_is_that_of_python(command, tmp_path):
    curves = simulate.early_curves()
    curves.to_csv(tmp_path / "curves.csv", index=False)
    asked = ("learnability", "curves.csv", "--by", "domain")
    code, out, _ = command(*asked, "--out", tmp_path / "domains.csv")
    expected = jl.data.learnability_coefficients(curves, "domain")
    assert code == 0 and f"{expected.loc['music', 'k1']:.5g}" in out
    kept = pd.read_csv(tmp_path / "domains.csv", index_col="domain")
    assert kept.to_numpy() == pytest.approx(expected.to_numpy())
    found = json.loads(command(*asked, "--law", "dcpt-cross-k4", "--json")[1])
    k3 = jl.data.learnability_coefficients(curves, "domain", law="dcpt-cross-k4")["k3"].to_list()
    assert [row["k3"] for row in found["domains"]] == pytest.approx(k3)
    code, _, err = command("learnability", "curves.csv")
    assert code == 1 and "say --by which column names the domain" in err
