"""``jaxlaw plan``: the same numbers as Python, intervals from a table, exit codes."""

import json
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, GENERAL, SCRATCH, drawn

pytest.importorskip("typer")
from jaxlaw import cli  # noqa: E402, F401 (the commands join)
from jaxlaw.cli._plans import make_plans  # noqa: E402


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


def test_critical_limited_and_shares(command):
    code, out, _ = command("critical-ratio", "general.json", "--start", 2.8602, *AT, "--json")
    assert code == 0 and 0.1 < json.loads(out)["share"] < 0.2
    limited = ("optimal-mixture-data-limited", "domain.json", "--corpus-tokens", 5e7)
    code, out, _ = command(*limited, "--at", "N=1.8e9", "--json")
    assert code == 0 and json.loads(out)["share"] == pytest.approx(0.7232, abs=1e-3)
    code, out, _ = command(
        "optimal-domain-weights", "a=domain.json", "b=domain.json", "--general", "general.json",
        "--start", 2.8602, *AT, "--json",
    )  # fmt: skip
    record = json.loads(out)
    assert code == 0 and record["shares"]["a"] == pytest.approx(record["shares"]["b"], abs=1e-6)


@pytest.mark.full
def test_allocation_frontier_and_target(command):
    code, out, _ = command("allocation", "scratch.json", "--compute", 1e21, "--json")
    plan = planning.allocation(SCRATCH, 1e21)
    assert code == 0 and json.loads(out)["N"] == pytest.approx(plan.N, rel=1e-9)
    code, out, _ = command(
        "allocation", "domain.json", "--compute", 5e19, "--at", "r=best", "--corpus-tokens", 1e8,
        "--json",
    )  # fmt: skip
    assert code == 0 and 0.5 < json.loads(out)["r"] < 1
    code, out, _ = command(
        "allocation", "scratch.json", "--compute", 1e21, "--limit", "N=5e9:", "--json"
    )
    assert code == 0 and json.loads(out)["N"] == pytest.approx(5e9)
    code, out, _ = command("frontier", "scratch.json", "--compute", "1e19:1e22", "--json")
    assert code == 0 and len(json.loads(out)["table"]) == 13
    code, out, _ = command("target", "scratch.json", "--loss", plan.loss, "--json")
    assert code == 0 and json.loads(out)["compute"] == pytest.approx(1e21, rel=1e-6)
    code, out, _ = command("target", "scratch.json", "--loss", 2.1, "--at", "N=1e9", "--json")
    assert code == 0 and json.loads(out)["N"] == 1e9
    asked = ("--loss", 1.9, "--at", "r=best", "--corpus-tokens", 5e7)
    code, out, _ = command("target", "domain.json", *asked, "--json")
    plan = planning.min_compute(DOMAIN, 1.9, at={"r": "best"}, corpus_tokens=0.05)
    assert code == 0 and json.loads(out)["compute"] == pytest.approx(plan.compute, rel=1e-9)
    assert json.loads(out)["r"] == pytest.approx(plan.r, rel=1e-6)
    assert command("target", "domain.json", *asked, "--at", "N=1e9")[0] == 2
    code, out, _ = command("target", "scratch.json", "--loss", 1.0)
    assert code == 1 and "out-of-reach" in out


def test_transfer_breakeven_and_replay(command):
    both = ("scratch.json", "cpt.json")
    run = ("transfer", *both, "--at", "N=1e9", "--at", "D=1e9", "--json")
    plan = planning.data_transferred(SCRATCH, CONTINUAL, N=1e9, D=1e9)
    code, out, _ = command(*run)
    assert code == 0 and json.loads(out)["saved"] == pytest.approx(plan.saved, rel=1e-9)
    code, out, _ = command("break-even", *both, "--at", "N=1.4e9", "--json")
    assert code == 0 and json.loads(out)["pays"] == "below"
    code, out, _ = command(
        "compare-replay", "domain.json", "--shares", "0.2,0.9", "--corpus-tokens", "1e8:1e9",
        "--at", "N=1.8e9", "--out", "replay.csv",
    )  # fmt: skip
    assert code == 0 and "never-meet" in out
    assert set(pd.read_csv("replay.csv")["r"]) == {0.2, 0.9}
    seen = {"r": [0.5, 0.5, 1, 1], "tokens": [2, 200, 1, 100], "loss": [3, 2, 3.4, 2.1]}
    pd.DataFrame(seen).to_csv("seen.csv", index=False)
    asked = ("compare-replay", "seen.csv", "-c", "D=tokens", "--tolerance", 0.2, "--start", 2.05)
    code, out, _ = command(*asked, "--json")
    plan = planning.compare_replay(
        pd.DataFrame(seen).rename(columns={"tokens": "D"}), tolerance=0.2, start=2.05
    )
    record = json.loads(out)
    assert code == 0 and record["meet"] == plan.meet and record["least_back"] == 0.5
    assert command("compare-replay", "domain.json", "-c", "D=tokens")[0] == 2


@pytest.mark.full
def test_constraints_are_read_as_objects(command):
    line = ("minimise", "domain.json", "--over", "r", "--over", "N", "--over", "D=:1e12", "--json")
    limits = ("--subject-to", "budget:1e21", "--subject-to", "corpus:5e10,max_epochs=2")
    code, out, _ = command(*line, *limits)
    fit, over = drawn(DOMAIN).fit, {"r": None, "N": None, "D": (None, 1e12)}
    found = planning.minimise(
        fit, over, subject_to=[planning.Budget(1e21), planning.Corpus(5e10, max_epochs=2)]
    )
    assert code == 0 and json.loads(out)["best"] == found.best
    limit = ("--subject-to", "at-most:general.json,loss=2.884,rest=r,label=general", *AT)
    code, out, _ = command(*line[:4], "--json", *limit)
    found = planning.minimise(
        fit, {"r": None}, at={"N": 1.8e9, "D": 1e10},
        subject_to=[planning.AtMost(drawn(GENERAL).fit, 2.884, rest=("r",), label="general")],
    )  # fmt: skip
    assert code == 0 and json.loads(out)["limited"] == found.limited
    code, out, _ = command("solve", "scratch.json", "--for", "N", "--loss", 2.3, "--at", "D=20B",
                           "--between", "1e8:", "--json")  # fmt: skip
    value = planning.solve(
        drawn(SCRATCH).fit, for_="N", loss=2.3, between=(1e8, None), at={"D": "20B"}
    )
    assert code == 0 and json.loads(out)["value"] == value.value


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


def test_files_and_pictures(command):
    code, out, _ = command("allocation", "scratch.json", "--compute", 1e21, "--out", "a.json")
    assert code == 0
    assert json.loads(Path("a.json").read_text())["binding"] == "compute"
    pytest.importorskip("matplotlib")
    code, out, _ = command("allocation", "scratch.json", "--compute", 1e21, "--out", "a.png")
    assert code == 0 and "picture: a.png" in out and Path("a.png").stat().st_size > 1e4
    code, _, err = command("allocation", "scratch.json", "--compute", 1e21, "--out", "no/a.json")
    assert code == 2


@pytest.mark.full
@pytest.mark.parametrize(
    "arguments",
    [
        ("critical-ratio", "general.json", "--start", 2.8602, *AT),
        ("allocation", "domain.json", "--compute", 5e19, "--at", "r=best", "--corpus-tokens", 1e8),
        ("allocation-law", "scratch.json"),
        ("target", "scratch.json", "--loss", 2.1),
        ("target", "scratch.json", "--loss", 2.1, "--at", "N=7e9"),
        ("target", "domain.json", "--loss", 1.7, "--at", "r=best", "--corpus-tokens", 1e8),
        ("transfer", "scratch.json", "cpt.json", "--loss", 2.4),
        ("break-even", "scratch.json", "cpt.json", "--at", "N=1.4e9"),
        ("break-even", "scratch.json", "cpt.json", "--compute", 1e20),
        ("break-even", "scratch.json", "cpt.json"),
        ("loss-envelope", "runs.csv"),
        (
            "optimal-weights",
            "law=domain.json",
            "code=domain.json",
            "--at",
            "N=1.8e9",
            "--at",
            "D=1e10",
        ),
    ],
)
def test_every_answer_has_a_picture(command, arguments):
    pytest.importorskip("matplotlib")
    if arguments[0] == "loss-envelope":
        simulate.experiment("from-scratch").table.to_csv("runs.csv", index=False)
    code, out, err = command(*arguments, "--out", "answer.png")
    assert (code, err) == (0, "") and Path("answer.png").read_bytes().startswith(b"\x89PNG")


def test_lines_fit_a_terminal_of_80(command):
    commands = [MIXTURE, ("frontier", "scratch.json", "--compute", "1e18:1e24", "--bootstrap",
                          "scratch.csv")]  # fmt: skip
    for arguments in commands:
        _, out, _ = command(*arguments)
        assert max(map(len, out.splitlines())) <= 80, out


@pytest.mark.parametrize("name", [one.name for one in make_plans().registered_commands])
def test_every_command_has_help_with_an_example(command, name):
    code, out, _ = command(name, "--help")
    assert code == 0 and f"jaxlaw plan {name}" in out and "--json" in out


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
