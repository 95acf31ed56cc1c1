"""The commands of continual runs, of a corpus's value and of published laws."""

import json

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import papers, planning

pytest.importorskip("typer")

PAIR = ["published:wang-2025-pt", "published:wang-2025-cpt"]
BASE = ["--pretraining", "wsd:steps=40000,peak=2e-4"]
RUN = ["--run", "cosine:steps=10000,peak=1e-4,warmup=500", "--replay", "0.2"]


def test_published_laws_are_listed_shown_and_kept(command, tmp_path):
    code, out, _ = command("laws", "--published")
    printed = [name for name in jl.published() if not name.startswith("field-")]
    assert code == 0 and all(name in out for name in printed) and "--field" in out
    assert max(map(len, out.splitlines())) <= 80
    kept = tmp_path / "fit.json"
    code, out, _ = command("laws", "--name", "hoffmann-2022", "--out", kept)
    assert code == 0 and "badly-converged" in out
    assert jl.load(kept).params == jl.published()["hoffmann-2022"].params
    code, _, err = command("laws", "--name", "hofmann-2022")
    assert code == 2 and "Did you mean 'hoffmann-2022'" in err


def test_turning_length(command):
    level = ["--run", "constant:steps=1,peak=2e-4", "--replay", "0.5"]
    code, out, _ = command("plan", "turning-length", PAIR[0], *BASE, *level, "--loss-potential", 1)
    assert code == 0 and "never" in out


def test_valuation(command, tmp_path):
    score = [10.0, 11.0, 12.0, 12.5, 10.0, 9.0, 9.5, 9.0]
    table = pd.DataFrame({"Dp": np.geomspace(1e9, 1e11, 8), "bleu": score})
    table.to_csv(tmp_path / "scores.csv", index=False)
    code, out, _ = command("plan", "pretraining-value", tmp_path / "scores.csv", "-c", "score=bleu")
    assert code == 0 and out.startswith("suspect misalignment; best score so far 12.5")


@pytest.fixture
def losses(tmp_path):
    """Losses of three sets along a curve, the third a mixture."""
    pt, cpt = np.linspace(3.2, 3.4, 30), np.linspace(3.1, 2.7, 30) ** 1.02
    table = pd.DataFrame({"step": np.arange(30), "loss_pt": pt, "loss_cpt": cpt})
    table.assign(code=0.3 * pt + 0.6 * cpt).to_csv(tmp_path / "losses.csv", index=False)
    return ["losses.csv", "-c", "loss_ood=code"]


WHOLE = "wsd:peak=2e-4,steps=40000+cosine:peak=1e-4,steps=10000,warmup=500"
AHEAD = ["--pt", PAIR[0], "--cpt", PAIR[1], "--schedule", WHOLE, "--replay", "0.2"]


def test_out_of_domain_is_the_plan_of_python(command, losses, tmp_path):
    found = papers.out_of_domain("losses.csv", columns={"loss_ood": "code"})
    code, out, _ = command("plan", "out-of-domain", *losses, "--json")
    assert code == 0 and json.loads(out) == found.to_dict()
    code, out, _ = command("plan", "out-of-domain", *losses, *AHEAD, "--json")
    fits = [jl.published()[name.partition(":")[2]] for name in PAIR]
    curve = found.predict_curve(*fits, jl.schedules.parse(WHOLE), replay=0.2)
    assert code == 0 and json.loads(out)["curve"]["loss_ood"] == curve["loss_ood"].tolist()
    command("plan", "out-of-domain", *losses, *AHEAD, "--out", "written.json")
    assert jl.load("written.json").to_dict() == found.to_dict()  # the curve is beside it
    code, out, _ = command("plan", "out-of-domain", *losses, *AHEAD, "--out", "ood.svg")
    assert code == 0 and "picture: ood.svg" in out and "50000 " in out
    assert max(map(len, out.splitlines())) <= 80
    code, _, _ = command("plan", "out-of-domain", *losses, "--out", "mixture.csv")
    np.testing.assert_allclose(pd.read_csv("mixture.csv")["mixture"], found.table["mixture"])


def test_weights_that_may_be_negative(command, losses):
    table = pd.read_csv("losses.csv")
    table["code"] = 1.2 * table["loss_cpt"] - 0.2 * table["loss_pt"]
    table.to_csv("losses.csv", index=False)
    for free, weight in (([], 0.0), (["--free"], -0.2)):
        code, out, _ = command("plan", "out-of-domain", *losses, *free, "--json")
        assert code == 0 and json.loads(out)["weight_pt"] == pytest.approx(weight)


def test_the_best_schedule_of_two_losses(command):
    search = ["--steps", 1_000, "--peak", 2e-4, "--after", "wsd:peak=2e-4,steps=4000,final=2e-5"]
    search += ["--warmup", 50, "--floor", 2e-5, "--weight", "0.7"]
    shares = ["--at", "r=0.2,0.8"]
    code, out, _ = command("plan", "optimal-schedule", *PAIR, *search, *shares, "--json")
    fits = [jl.published()[name.partition(":")[2]] for name in PAIR]
    best = planning.optimal_schedule(
        fits, 1_000, 2e-4, weights=(0.7, 1 - 0.7), at=[{"r": 0.2}, {"r": 0.8}], warmup=50,
        after=jl.schedules.wsd(2e-4, 4_000, final=2e-5), floor=2e-5,
    )  # fmt: skip
    assert code == 0 and json.loads(out) == best.to_dict()
    code, out, _ = command(
        "plan", "optimal-schedule", *PAIR, *search, *shares, "--out", "rates.csv"
    )
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert pd.read_csv("rates.csv")["lr"].tolist() == best.schedule.rates.tolist()


@pytest.mark.parametrize(
    "arguments,message",
    [
        ([*PAIR, *BASE, *RUN], "give --vary"),
        ([*PAIR, *BASE, *RUN, "--weight", "0.5"], "give --vary"),
        ([*PAIR, *BASE, *RUN, "--weight", "0.5", "--over", "replay=0:"], "LOW:HIGH"),
        ([*PAIR, "--pretraining", "wsd:steps=9", *RUN, "--vary", "steps=9"], "needs steps= and"),
        ([*PAIR, *BASE, "--run", "cosine:rate=3", "--vary", "steps=9"], "not rate"),
        (["published:wang", PAIR[1], *BASE, *RUN, "--vary", "steps=9"], "nothing is published"),
    ],
)
def test_wrong_usage(command, arguments, message):
    code, _, err = command("plan", "optimal-training", *arguments)
    assert code == 2 and message in err
