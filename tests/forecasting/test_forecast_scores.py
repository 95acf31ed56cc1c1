"""Scores of models not yet made: laws of the loss and of the score joined, tasks that fail."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import jaxlaw as jl
from jaxlaw.errors import DataError, UsageError
from jaxlaw.forecasting import _tasks as chain
from jaxlaw.forecasting._question import LEVELS
from jaxlaw.forecasting._tasks import TaskRuns

SIZES, LENGTHS = (1e8, 2e8, 4e8, 8e8), (10.0, 20.0, 40.0, 100.0)
DATA = Path(os.environ.get("JAXLAW_DATA", ""))


def loss_of(N, D):
    return 0.5 + 120.0 / N**0.3 + 350.0 / D**0.3


def score_of(loss):
    return 0.25 + 0.6 / (1 + np.exp(5 * (loss - 1.3)))


def ladder(seed=0, checkpoints=(0.7, 0.9, 1.0)):
    """Runs with checkpoints: a task that rises, one at chance, and one that falls."""
    random, rows = np.random.default_rng(seed), []
    for run, (N, ratio) in enumerate((N, r) for N in SIZES for r in LENGTHS):
        off = random.normal(size=2)
        for share in checkpoints:
            D = N * ratio * share
            loss = loss_of(N, D) * np.exp(0.003 * off[0])
            score = score_of(loss) + 0.004 * off[1]
            chance = 0.25 + 0.006 * random.normal()
            falls = 1 - score + 0.002 * random.normal()
            rows.append((f"run{run}", N, D, loss, score, chance, falls))
    columns = ["run", "N", "D", "bpb", "acc", "acc_none", "acc_falls"]
    return pd.DataFrame(rows, columns=columns)


def task_runs(loss, score, chance=np.nan):
    rows, one = np.arange(len(loss)), np.ones(len(loss))
    arrays = (np.asarray(loss, float), np.asarray(score, float), one)
    return TaskRuns("task", *arrays, rows, chance)


AT = {"N": [3e9, 6e9], "D": [6e10, 3e11]}
TASKS = {"rises": ("bpb", "acc"), "none": ("bpb", "acc_none"), "falls": ("bpb", "acc_falls")}
CHANCE = {"rises": 0.25, "none": 0.25, "falls": 0.5}


@pytest.fixture(scope="module")
def found():
    return jl.forecast_scores(ladder(), TASKS, AT, groups="run", chance=CHANCE)


@pytest.mark.full
def test_the_truth_lies_inside_and_the_table_is_in_the_order_that_was_given(found):
    head = ["task", "N", "D", "loss", "score", "low", "high", "chance"]
    assert list(found.table)[:8] == head and len(found.table) == 6
    rows = found.table[found.table["task"] == "rises"]
    truth = score_of(loss_of(rows["N"], rows["D"])).to_numpy()
    np.testing.assert_allclose(rows["score"], truth, rtol=0.03)
    assert (rows["low"] < truth).all() and (truth < rows["high"]).all()
    assert (rows["high"] - rows["low"] < 0.15).all()
    np.testing.assert_allclose(rows[list(chain.SHARES)].sum(axis=1), 1.0)
    np.testing.assert_allclose(found.mean["score"], rows["score"])


@pytest.mark.full
def test_tasks_without_a_forecast_say_why(found):
    notes = found.table.groupby("task")["note"].first()
    assert notes["none"] == "no run is above chance; no forecast"
    assert notes["falls"].startswith("broken: the score falls as the loss falls")
    assert found.table.loc[found.table["task"] != "rises", "score"].isna().all()
    assert found.headline.endswith("; 2 without a forecast")


@pytest.mark.full
def test_other_units_and_names_of_columns_change_nothing(found):
    table = ladder().rename(columns={"N": "params", "D": "tokens"})
    again = jl.forecast_scores(
        table.assign(params=table["params"] / 1e9, tokens=table["tokens"] / 1e9),
        {"rises": TASKS["rises"]}, {"N": [3.0, 6.0], "D": [60.0, 300.0]}, groups="run",
        chance=0.25, columns={"N": "params", "D": "tokens"}, units={"N": 1e9, "D": 1e9},
    )  # fmt: skip
    first = found.table[found.table["task"] == "rises"]
    np.testing.assert_allclose(again.table["high"], first["high"], rtol=1e-3)
    assert again.headline.startswith("N 6 B parameters, D 300 B tokens")


@pytest.mark.full
def test_three_runs_have_a_wider_answer_than_all():
    runs, widths = ladder(checkpoints=(1.0,)), []
    for part in (runs.iloc[[0, 6, 15]], runs):
        found = jl.forecast_scores(part, {"mmlu": ("bpb", "acc")}, {"N": 1.6e9, "D": 6.4e10})
        row = found.table.iloc[0]
        assert row["chance"] == 0.25
        assert row["low"] < score_of(loss_of(1.6e9, 6.4e10)) < row["high"]
        widths.append(row["high"] - row["low"])
    assert widths[0] > 1.2 * widths[1]


@pytest.mark.full
def test_flops_alone_are_enough():
    table = ladder().assign(C=lambda t: 6 * t["N"] * t["D"]).drop(columns=["N", "D"])
    found = jl.forecast_scores(
        table, {"rises": TASKS["rises"]}, {"C": 2e21}, groups="run", chance=0.25
    )
    row = found.table.iloc[0]
    assert list(found.table)[:4] == ["task", "C", "loss", "score"]
    assert row["low"] < row["score"] < row["high"]


def test_runs_in_the_lower_half_of_the_rise_do_not_make_a_ceiling_of_their_best():
    random = np.random.default_rng(4)
    loss = np.linspace(3.0, 1.7, 30)

    def later(score, at):
        runs = task_runs(loss, score, 0.25)
        params = chain._Chain.of(runs, None, loss, 0).params
        return np.median(runs.law(np.array(at)[:, None], params), axis=1)

    def truth(loss):
        return 0.25 + 0.7 / (1 + (loss / 1.3) ** 4)

    score = truth(loss) + 0.003 * random.normal(size=30)
    np.testing.assert_allclose(later(score, [1.5, 1.3]), truth(np.array([1.5, 1.3])), rtol=0.03)
    # Noise alone, highest at the lowest losses: no cliff there that goes up to 1.
    score = 0.27 + 0.01 * random.normal(size=30) + 0.02 * (loss < 1.75)
    assert later(score, [1.65]) < 0.5


# ---------------------------------------------------------------- without a fit


def test_chance_is_known_by_the_name_of_the_task():
    known = {"mmlu_test": 0.25, "ARC-Challenge": 0.25, "acc_piqa_val": 0.5, "csqa": 0.2}
    known |= {"mmlu_stem_mc_5shot_test": 0.25, "mmlu_pro": 0.1, "social_iqa": 1 / 3}
    assert {task: chain.chance_of(task) for task in known} == known
    for task in ("gsm8k", "trace_qa", "embrace", "sandwich", "mmlu_redux"):
        assert np.isnan(chain.chance_of(task))


def test_checkpoints_are_grouped_by_the_column_run_where_no_task_has_a_forecast():
    tasks = {"none": TASKS["none"]}
    found = jl.forecast_scores(ladder(), tasks, {"N": ["70B"], "D": "1.4T"}, chance=0.25)
    assert found.table["N"].tolist() == [7e10] and found.headline == "no task has a forecast"
    (note,) = [note for note in found.notes if note.code == "columns-taken"]
    assert "48 rows are checkpoints of 16 runs by column run" in note.message
    every = jl.forecast_scores(ladder(), tasks, {"N": 7e10, "D": 1.4e12}, chance=0.25, groups=[])
    assert not every.notes


def test_runs_far_below_chance_are_said():
    found = jl.forecast_scores(ladder(), {"none": TASKS["none"]}, AT, chance=0.5)
    (note,) = [note for note in found.notes if note.code == "below-chance"]
    assert note.message.startswith("none (16 of 16 runs below 0.5)")


def test_tasks_that_have_no_forecast():
    random, loss = np.random.default_rng(0), np.linspace(2.0, 1.0, 12)
    guesses = 0.25 + 0.01 * random.normal(size=12)
    assert "above chance" in task_runs(loss, guesses, 0.25).trouble()
    assert task_runs(loss, guesses + np.linspace(0, 0.1, 12), 0.25).trouble() == ""
    assert "broken" in task_runs(loss, np.linspace(0.6, 0.4, 12)).trouble()
    flat = task_runs(loss[:8], 0.5 + 0.01 * np.array([1, -1, 1, -1, -1, 1, -1, 1]))
    assert flat.trouble() == "" and flat.doubt().startswith("the score hardly follows the loss")


def test_tasks_are_named_by_patterns_of_columns():
    columns = ["N", "acc_mmlu", "bpb_mmlu", "acc_piqa", "bpb_piqa", "acc_alone", "acc_norm_piqa"]
    runs = jl.read_runs(pd.DataFrame({name: [0.5, 0.6] for name in columns}))
    found = chain._tasks_of("acc_*:bpb_*", runs)
    assert found == {"mmlu": ("bpb_mmlu", "acc_mmlu"), "piqa": ("bpb_piqa", "acc_piqa")}
    assert chain._tasks_of(["acc_alone:c4"], runs) == {"acc_alone": ("c4", "acc_alone")}
    # One loss for all; another metric of a task is no task.
    assert [*chain._tasks_of("acc_*:bpb_mmlu", runs)] == ["mmlu", "piqa", "alone"]
    assert chain._tasks_of("acc_norm_*:bpb_*", runs) == {"piqa": ("bpb_piqa", "acc_norm_piqa")}
    for text in ("acc_none", "score_*:bpb_*"):
        with pytest.raises(UsageError, match="no columns are called .* a score and a loss"):
            chain._tasks_of(text, runs)


@pytest.mark.parametrize("together,width", [(0.0, np.sqrt(2)), (1.0, 0.0)])
def test_noise_of_the_loss_that_the_score_does_not_follow_counts_once(together, width):
    normal = chain._normal(np.random.default_rng(5), np.eye(2))
    seen = task_runs(np.ones(4), np.ones(4), -0.0)
    params = {"off": 0.0, "lapse": 0.0, "steep": 1.0, "middle": 1.0, "misfit": 0.0}
    errors = np.random.default_rng(1).normal(size=(2, 4000))
    errors[1] = together * errors[0] + (1 - together) * errors[1]
    quantiles = np.exp(0.04 * stats.norm.ppf(LEVELS))[:, None]
    table = pd.DataFrame({"from_noise": [1.0], "estimate": [1.0]})
    made = chain._Chain(
        seen, SimpleNamespace(quantiles=quantiles, table=table),
        {name: np.full(1000, value) for name, value in params.items()},
        np.full(1000, 0.01 / np.sqrt(5 / 3)), *errors,
    )  # fmt: skip
    drawn = made.draws(0, *normal.T)[0]  # which falls by a hundredth with 0.04 of the loss
    assert drawn.std() / 0.01 == pytest.approx(width, abs=0.3)


def test_late_checkpoints_count_more_and_many_of_a_run_little_more_than_one():
    table = pd.DataFrame({"run": list("aaaab"), "N": 1e9, "D": [1e9, 6e9, 9e9, 1e10, 1e10]})
    final, weight, _ = chain._ladder(jl.read_runs(table), "D", "run")
    assert final.tolist() == [3, 4]
    assert weight[0] == 0 and (np.diff(weight[:4]) > 0).all() and weight[4] == 1
    assert 1 < weight[:4].sum() < 1.5


@pytest.mark.parametrize(
    "change,message",
    [
        ({"at": {"N": 1e9}}, "input D is missing"),
        ({"chance": {"b": 0.25}}, "chance names task b; tasks are a"),
        ({"tasks": {}}, "tasks is a dict"),
        ({"groups": "rum"}, r"no column rum \(groups=\).*'run'"),
        ({"tasks": {"a": ("bpp", "acc")}}, r"no column bpp \(tasks=\)"),
        ({"tasks": {"a": ("bpb", "percent")}}, "column percent: rows .* divide percent by 100"),
        ({"tasks": {"a": ("zero", "acc")}}, "column zero: rows .* a loss is a positive number"),
        ({"tasks": {"a": ("gap", "acc")}}, "column gap: row.* leave the row out"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    table = ladder(checkpoints=(1.0,)).assign(zero=0.0, gap=np.nan)
    table["percent"] = 100 * table["acc"]
    call = {"tasks": {"a": ("bpb", "acc")}, "at": AT, "groups": "run"} | change
    with pytest.raises((DataError, UsageError), match=message):
        jl.forecast_scores(table, **call)


@pytest.mark.night
@pytest.mark.skipif(not (DATA / "olmo_ladder.csv").exists(), reason="JAXLAW_DATA is not set")
def test_olmos_ladder_forecasts_a_larger_size():
    table = pd.read_csv(DATA / "olmo_ladder.csv")
    names = {"mmlu": "mmlu_test", "hellaswag": "hellaswag_val", "piqa": "piqa_val"}
    tasks = {task: (f"bpb_{name}", f"acc_{name}") for task, name in names.items()}
    later = table[table["run"] == "1B-10xC"].iloc[-1]
    runs = table[table["model"].isin(["190M", "370M", "760M"])]
    found = jl.forecast_scores(runs, tasks, {"N": later["N"], "D": later["D"]}, groups="run")
    observed = np.array([later[f"acc_{name}"] for name in names.values()])
    assert np.abs(found.table["score"] / observed - 1).max() < 0.05
    assert (found.table["low"] < observed).all() and (observed < found.table["high"]).all()
