"""The run that is under way: where it ends, when it leaves its interval, and who says so."""

import sys
import types

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.errors import DataError, UsageError
from jaxlaw.forecasting import run_line, trainer_callback
from tests.conftest import DATA, needs_data
from tests.fixtures.curve_tables import BEFORE, real_schedules

LINE = "cosine:peak=3e-4,steps=20000"
TABLE = jl.simulate.continual_curves().table
CONTINUAL = "wsd then cosine replay 0.5"


def simulated(line=LINE, noise=0.001, seed=0, **params):
    """A run by the annealing law, every 200 steps."""
    step = np.arange(200, 20_001, 200)
    curves = jl.read_loss_curves({"step": step, "loss": np.ones(100)}, schedule=line)
    law = {"L0": 2.6, "A": 0.6, "C": 0.4, "alpha": 0.45} | params
    areas = {name: curves.runs().table[name].to_numpy() for name in ("S1", "S2")}
    loss = jl.laws.get("annealing")(law, **areas)
    noisy = np.asarray(loss) * np.exp(noise * np.random.default_rng(seed).standard_normal(100))
    return pd.DataFrame({"step": step, "loss": noisy})


def upto(table, step):
    return table[table["step"] <= step]


def siblings(line=LINE, levels=(2.9, 3.2)):
    return pd.concat(
        simulated(line, seed=k + 1, L0=level).assign(run=f"{k}", schedule=line)
        for k, level in enumerate(levels)
    )


def test_siblings_of_the_recipe_narrow_the_interval_around_the_truth():
    run = simulated()
    seen, end = upto(run, 12_000), run["loss"].iloc[-1]
    alone = jl.forecast_run(seen, LINE, at=[16_000, 20_000])
    found = jl.forecast_run(seen, LINE, at=[16_000, 20_000], siblings=siblings())
    widths = []
    for one in (alone, found):
        low, high = one.interval["loss"]
        assert low < end < high and one.forecast["step"].tolist() == [16_000, 20_000]
        widths.append(high - low)
    assert widths[1] < widths[0] / 2 and abs(found.loss - end) < 0.01
    assert [note.code for note in alone.notes] == ["no-siblings"] and not found.notes
    assert found.siblings == 2 and "2 siblings, 2 of its recipe" in found.headline
    every = pd.concat([seen.assign(run="mine", schedule=LINE), siblings()])
    again = jl.forecast_run(every, siblings=every, where="run == 'mine'", at=[16_000, 20_000])
    assert again.loss == found.loss and again.siblings == 2
    other = jl.forecast_run(seen, LINE, siblings=siblings("wsd:peak=3e-4,steps=20000"))
    assert "2 siblings, 0 of its recipe" in other.headline


def test_losses_in_another_unit_scale_the_forecast():
    run, more = upto(simulated(), 12_000), siblings()
    once = jl.forecast_run(run, LINE, siblings=more)
    bits = 1 / np.log(2)
    scaled = [table.assign(loss=table["loss"] * bits) for table in (run, more)]
    twice = jl.forecast_run(scaled[0], LINE, siblings=scaled[1])
    np.testing.assert_allclose(twice.loss, bits * once.loss, rtol=1e-9)
    np.testing.assert_allclose(twice.interval["loss"], np.multiply(once.interval["loss"], bits))


def test_both_losses_of_a_continual_run(tmp_path):
    run, columns = TABLE[TABLE["run"] == CONTINUAL], {"loss_g": "loss_pt", "loss_d": "loss_cpt"}
    others = TABLE[TABLE["run"].str.contains("replay") & (TABLE["run"] != CONTINUAL)]
    found = jl.forecast_run(upto(run, 46_000), siblings=others, columns=columns)
    for name, column in columns.items():
        low, high = found.interval[name]
        assert low < run[column].iloc[-1] < high
    file = tmp_path / "run.json"
    found.save(file)
    ax = jl.load(file).plot()
    assert ax.get_ylabel() == "loss (nats)" and len(ax.child_axes) == 1


def test_a_run_that_leaves_its_interval_is_not_followed():
    run, more = upto(simulated(), 14_000), siblings()
    clean = jl.forecast_run(run, LINE, siblings=more)
    later = run["step"] > 11_000
    moved = run.assign(loss=run["loss"] + 0.05 * later)
    found = jl.forecast_run(moved, LINE, siblings=more)
    assert [note.code for note in found.notes] == ["left-interval"]
    assert abs(found.loss - clean.loss) < 0.01 and "WARNING: from step" in run_line(found)
    single = run.assign(loss=run["loss"] + 0.5 * (run["step"] == 5_000))
    again = jl.forecast_run(single, LINE, siblings=more)
    assert abs(again.loss - clean.loss) < 0.01 and not again.notes


@needs_data
def test_small_runs_are_a_template_for_the_large_one():
    table = pd.read_csv(f"{DATA}/lr_loss_curves.csv").drop(columns="lr")
    table = table[table["schedule"].isin(["cosine_24000", "wsd_20000_24000"])]
    table["run"] = table["model_params_millions"].astype(str) + " " + table["schedule"]
    table["schedule"] = table["schedule"].map(real_schedules())
    curves = jl.read_loss_curves(table, **BEFORE)
    small = [run for run in curves.schedules if not run.startswith("400")]
    for run in {*curves.schedules} - {*small}:
        seen = curves.only(run, where="step <= 15600")
        found, end = jl.forecast_run(seen, siblings=curves.only(*small)), curves.only(run).table
        low, high = found.interval["loss"]
        assert low < end["loss"].iloc[-1] < high
        assert abs(found.loss - end["loss"].iloc[-1]) < 0.01


@pytest.mark.parametrize(
    "change, options, kind, message",
    [
        ({"run": ["a"] * 30 + ["b"] * 30}, {}, UsageError, "2 runs"),
        ({}, {"at": [9_000]}, UsageError, "steps from 12000"),
        ({}, {"at": [30_000]}, UsageError, "to 20000"),
        ({}, {"where": "step < 700"}, DataError, "4 are needed"),
        ({}, {"schedule": None}, UsageError, "no schedule"),
        ({"loss": [3.0] * 59 + [0.0]}, {}, DataError, "row 59.*above 0"),
        ({}, {"siblings": siblings(levels=(60.0,))}, DataError, "same unit"),
    ],
)
def test_what_cannot_be_forecast_is_refused(change, options, kind, message):
    run = upto(simulated(), 12_000).assign(**change)
    with pytest.raises(kind, match=message):
        jl.forecast_run(run, **{"schedule": LINE} | options)


def test_the_trainer_says_where_its_run_ends(monkeypatch):
    module = types.ModuleType("transformers")
    module.TrainerCallback = object
    monkeypatch.setitem(sys.modules, "transformers", module)
    rates = jl.schedules.parse(LINE).rates
    scheduler = types.SimpleNamespace(base_lrs=[1.0], lr_lambdas=[lambda t: rates[t]])
    run, said = simulated(), []
    history = [
        {"step": int(step), "eval_loss": loss, "num_input_tokens_seen": step * 1e6}
        for step, loss in run.to_numpy()
    ]
    history.insert(0, {"step": 10, "loss": 9.0, "learning_rate": 1e-4})
    call = trainer_callback(say=said.append)
    for logged in (1, 3, 61):
        state = types.SimpleNamespace(log_history=history[:logged], max_steps=20_000)
        call.on_evaluate(None, state, None, lr_scheduler=scheduler)
    # Neither a log without the metric nor too few losses stops the training.
    assert all(line.startswith("no forecast: ") for line in said[:2]) and "eval_loss" in said[0]
    assert said[2].startswith("step 12,000 of 20,000 (60%)")
    assert said[2].endswith("8,000 steps, 8 B tokens left")


def test_a_log_is_watched_to_its_last_step(command, tmp_path):
    log = simulated().rename(columns={"loss": "eval_loss"}).assign(loss=3.0)
    log.to_csv(tmp_path / "log.csv", index=False)
    line = f"watch {tmp_path}/log.csv --every 0.1 --schedule {LINE}"
    code, out, _ = command(*line.split())
    assert code == 0 and out.startswith("step 20,000 of 20,000 (100%)")


def test_logged_rates_may_be_those_of_the_next_step():
    """A warm-up of 100 steps rises by 1% of the peak a step."""
    schedule = jl.schedules.parse("cosine:peak=3e-4,steps=1000,warmup=100")
    step = np.arange(50, 1000, 50)
    table = {"step": step, "lr": schedule.rates[step], "loss": 3 + 10 / step}
    assert len(jl.read_loss_curves(table, schedule=schedule)) == 1
    with pytest.raises(DataError, match="its schedule has"):
        jl.read_loss_curves(table | {"lr": schedule.rates[step + 4]}, schedule=schedule)
