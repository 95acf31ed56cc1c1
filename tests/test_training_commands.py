"""The commands of continual runs, of a corpus's value and of published laws."""

import json

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl

pytest.importorskip("typer")

PAIR = ["published:wang-2025-pt", "published:wang-2025-cpt"]
BASE = ["--pretraining", "wsd:steps=40000,peak=2e-4"]
RUN = ["--run", "cosine:steps=10000,peak=1e-4,warmup=500", "--replay", "0.2"]


def test_published_laws_are_listed_shown_and_kept(command, tmp_path):
    code, out, _ = command("laws", "--published")
    assert code == 0 and all(name in out for name in jl.published())
    assert max(map(len, out.splitlines())) <= 80
    kept = tmp_path / "fit.json"
    code, out, _ = command("laws", "--name", "hoffmann-2022", "--out", kept)
    assert code == 0 and "badly-converged" in out
    assert jl.load(kept).params == jl.published()["hoffmann-2022"].params
    code, _, err = command("laws", "--name", "hofmann-2022")
    assert code == 2 and "Did you mean 'hoffmann-2022'" in err


def test_best_settings(command, tmp_path):
    draws = []
    for k, name in enumerate(("wang-2025-pt", "wang-2025-cpt")):
        params = jl.published()[name].params
        noise = np.random.default_rng(k).standard_normal((5, len(params)))
        table = pd.DataFrame(np.exp(0.01 * noise) * [*params.values()], columns=[*params])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        draws += ["--bootstrap", tmp_path / f"{name}.csv"]
    search = ["--weight", "0.6", "--over", "replay=0:1"]
    code, out, _ = command("plan", "training", *PAIR, *BASE, *RUN, *search, *draws, "--json")
    found = json.loads(out)
    low, high = found["interval"]["replay"]
    assert code == 0 and low < found["replay"] < high


def test_tables_and_pictures(command, tmp_path):
    picture = tmp_path / "losses.png"
    vary = ["--vary", "loss_potential=0,0.5,1", "--vary", "steps=5000,20000"]
    code, out, _ = command("plan", "training", *PAIR, *BASE, *RUN, *vary)
    assert code == 0 and "loss cpt" in out and max(map(len, out.splitlines())) <= 80
    code, out, _ = command("plan", "training", *PAIR, *BASE, *RUN, *vary, "--out", picture)
    assert code == 0 and picture.read_bytes().startswith(b"\x89PNG")


def test_turning_length(command):
    level = ["--run", "constant:steps=1,peak=2e-4", "--replay", "0.5"]
    code, out, _ = command("plan", "turning", PAIR[0], *BASE, *level, "--loss-potential", 1)
    assert code == 0 and "never" in out


def test_valuation(command, tmp_path):
    score = [10.0, 11.0, 12.0, 12.5, 10.0, 9.0, 9.5, 9.0]
    table = pd.DataFrame({"Dp": np.geomspace(1e9, 1e11, 8), "bleu": score})
    table.to_csv(tmp_path / "scores.csv", index=False)
    code, out, _ = command("plan", "valuation", tmp_path / "scores.csv", "-c", "score=bleu")
    assert code == 0 and out.startswith("advice: suspect misalignment")


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
    code, _, err = command("plan", "training", *arguments)
    assert code == 2 and message in err
