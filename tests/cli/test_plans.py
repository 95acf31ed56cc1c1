"""``jaxlaw plan``: the same numbers as Python, intervals from a table, exit codes."""

import json
from functools import partial

import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, GENERAL, SCRATCH, drawn

pytest.importorskip("typer")
from jaxlaw import cli  # noqa: E402, F401 (the commands join)


@pytest.fixture
def command(command, tmp_path):
    """Run ``jaxlaw plan …`` in a folder with fits and draws: exit code, stdout, stderr."""
    every = {"scratch": SCRATCH, "cpt": CONTINUAL, "domain": DOMAIN, "general": GENERAL}
    for name, pair in every.items():
        boot = drawn(pair)
        boot.fit.save(tmp_path / f"{name}.json")
        pd.DataFrame(boot.params).assign(objective=0.1).to_csv(f"{name}.csv", index=False)
    return partial(command, "plan")


AT = ("--at", "N=1.8e9,D=1e10")
MIXTURE = ("optimal-mixture", "general.json", "domain.json", "--start", 2.8602, *AT)


def test_mixture_is_the_plan_of_python(command):
    code, out, _ = command(*MIXTURE, "--json")
    plan = planning.optimal_mixture(
        drawn(GENERAL).fit, drawn(DOMAIN).fit, start=2.8602, at={"N": 1.8e9, "D": 1e10}
    )
    assert code == 0 and json.loads(out)["share"] == plan.share
    few = ("--at", "N=1.8e9,D=1e8", "--start", 4, "--json")
    (best, _), (most, binding) = (
        [json.loads(command(*MIXTURE[:3], *few, *flag)[1])[key] for key in ("share", "binding")]
        for flag in ((), ("--largest",))
    )
    assert best < most == 1 and binding == "r_d ≤ 1"


@pytest.mark.full
def test_draws_of_every_fit_give_the_interval(command):
    draws = ("--bootstrap", "general.csv", "--bootstrap", "domain.csv")
    code, out, _ = command(*MIXTURE, *draws, "--json")
    plan = planning.optimal_mixture(
        drawn(GENERAL), drawn(DOMAIN), start=2.8602, at={"N": 1.8e9, "D": 1e10}
    )
    assert code == 0 and json.loads(out)["interval"]["share"] == list(plan.interval["share"])
    code, _, err = command(*MIXTURE, *draws[:2])
    assert code == 2 and "1 times for 2 fits" in err
    code, _, err = command(*MIXTURE, "--bootstrap", "cpt.csv", "--bootstrap", "domain.csv")
    assert code == 1 and "no draws of law dcpt" in err


def test_an_answer_not_to_be_used_ends_with_1(command):
    code, out, _ = command(*MIXTURE[:4], 2.0, *AT)
    assert code == 1 and "no-share-allowed" in out


def test_critical_and_limited(command):
    code, out, _ = command("critical-ratio", "general.json", "--start", 2.8602, *AT, "--json")
    assert code == 0 and 0.1 < json.loads(out)["share"] < 0.2
    limited = ("optimal-mixture-data-limited", "domain.json", "--corpus-tokens", 5e7)
    code, out, _ = command(*limited, "--at", "N=1.8e9", "--json")
    assert code == 0 and json.loads(out)["share"] == pytest.approx(0.7232, abs=1e-3)


@pytest.mark.full
def test_constraints_are_read_as_objects(command):
    line = ("minimise", "domain.json", "--over", "r", "--over", "N", "--over", "D=:1e12", "--json")
    limits = ("--subject-to", "budget:1e21", "--subject-to", "corpus:5e10,max_epochs=2")
    code, out, _ = command(*line, *limits)
    fit, over = drawn(DOMAIN).fit, {"r": None, "N": None, "D": (None, 1e12)}
    found = planning.minimise(
        fit, over, subject_to=[planning.Budget(1e21), planning.Corpus(5e10, max_epochs=2)]
    )
    assert code == 0 and json.loads(out)["facts"]["best"] == found.best
    limit = ("--subject-to", "at-most:general.json,loss=2.884,rest=r,label=general", *AT)
    code, out, _ = command(*line[:4], "--json", *limit)
    found = planning.minimise(
        fit, {"r": None}, at={"N": 1.8e9, "D": 1e10},
        subject_to=[planning.AtMost(drawn(GENERAL).fit, 2.884, rest=("r",), label="general")],
    )  # fmt: skip
    said = json.loads(out)["quantities"]["loss[general]"]["value"]
    assert code == 0 and said == found.quantities["loss[general]"].value
    code, out, _ = command("solve", "scratch.json", "--for", "N", "--loss", 2.3, "--at", "D=20B",
                           "--between", "1e8:", "--json")  # fmt: skip
    value = planning.solve(
        drawn(SCRATCH).fit, for_="N", loss=2.3, between=(1e8, None), at={"D": "20B"}
    )
    assert code == 0 and json.loads(out)["quantities"]["N"]["value"] == value.N


def test_envelope_makes_what_loss_compute_is_fitted_to(command):
    table = simulate.experiment("from-scratch").table.rename(columns={"N": "n", "D": "d"})
    table.to_csv("runs.csv", index=False)
    code, out, _ = command(
        "loss-envelope", "runs.csv", "-c", "N=n", "-c", "D=d", "--levels", 12, "--out", "best.csv"
    )
    assert code == 0 and out == ""
    assert len(jl.read_runs("best.csv")) == 12
    code, _, err = command("loss-envelope", "runs.csv", "-c", "N=n")
    assert code == 1 and "has neither D nor C" in err


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("frontier", "scratch.json", "--compute", "1e20:"), "LOW:HIGH"),
        (("allocation", "scratch.json", "--compute", 1e21, "--at", "r=half"), "not a number"),
        (("target", "scratch.json"), "--loss"),
        (("transfer", "scratch.json", "cpt.json"), "--at N"),
        (("minimise", "scratch.json", "--over", "N", "--subject-to", "budgt:1"), "'budget'"),
        (("minimise", "scratch.json", "--over", "N", "--subject-to", "budget"), "needs more"),
        (("minimise", "scratch.json", "--over", "N", "--subject-to", "budget:1,c=2"), "no c."),
        (("minimise", "scratch.json", "--over", "N=3"), "LOW:HIGH"),
        (("solve", "scratch.json", "--loss", 2, "--for", "X"), "takes no input 'X'"),
        (("allocation", "none.json", "--compute", 1e21), "none.json"),
    ],
)
def test_wrong_usage_is_one_line(command, arguments, says):
    code, out, err = command(*arguments)
    assert code == 2 and says in err and out == "" and len(err.strip().splitlines()) == 1
