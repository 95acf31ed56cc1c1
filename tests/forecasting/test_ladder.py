"""Ladders of bases: the resources that decide, forecasts of larger bases, and doubts."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.errors import DataError
from jaxlaw.forecasting import _ladder
from tests.conftest import DATA, needs_data
from tests.fixtures.command_files import LADDER

LAW = "continual-additive[C;D_cpt]"
C, D = np.meshgrid(np.geomspace(1e18, 1e20, 6), [5e8, 1e9, 4e9])
RUNS = jl.simulate.simulate_runs(LAW, LADDER, {"C": C, "D_cpt": D}, noise=0.002)
AT = {"base_compute": [1e21, 1e21], "D_cpt": ["1B", "4B"]}


def compared(runs, at=None, **options):
    return jl.compare_resources(runs, at, resources=["C"], families=["additive"], **options)


def codes(runs):
    return {note.code for note in compared(runs).notes if note.severity == "warning"}


@needs_data
def test_the_ladder_forecasts_its_largest_bases(tmp_path):
    ladder = pd.read_csv(f"{DATA}/midtraining_ladder.csv")
    small, later = (ladder[ladder["base_compute"] <= 3e20], ladder[ladder["base_compute"] > 3e20])
    found = jl.compare_resources(small, later)
    table, loss = found.forecast, later["loss"].to_numpy()
    assert np.abs(table["loss"] / loss - 1).mean() < 0.01
    assert ((table["loss_low"] <= loss) & (loss <= table["loss_high"])).sum() >= 5
    assert ((table["loss_high"] - table["loss_low"]) / table["loss"] / 2).mean() < 0.05
    assert len(found.laws) == 6 and found.laws["error"].is_monotonic_increasing
    assert found.laws["best"].sum() == pytest.approx(1) and found.notes == ()
    file = found.save(tmp_path / "ladder.json")
    ax = jl.load(tmp_path / "ladder.json" if file is None else file).plot()
    assert len(ax.lines) == 3 and ax.get_xlabel() == "training compute (FLOPs) of the base"


def test_a_forecast_is_of_canonical_names_and_of_a_condition_that_holds_out():
    found = compared(RUNS.rename(columns={"C": "base_compute"}), AT, hold_out="base_compute > 3e19")
    assert found.forecast["D_cpt"].tolist() == [1e9, 4e9]
    truth = jl.laws.get(LAW)(LADDER, C=1e21, D_cpt=np.array([1e9, 4e9]))
    np.testing.assert_allclose(found.forecast["loss"], truth, rtol=0.02)
    assert found.point["C"] == 1e21 and found.beyond == pytest.approx(10)
    assert found.laws["best"].tolist() == [1.0]
    with pytest.raises(DataError, match="too few bases"):
        compared(RUNS[RUNS["C"] < 1e19])


def test_compute_is_taken_from_size_and_tokens():
    runs = RUNS.assign(N=RUNS["C"] ** 0.5 / 11, D_base=lambda t: t["C"] / 6 / t["N"])
    found = compared(runs.drop(columns="C"), {"N": 3e9, "D_base": 5e10, "D_cpt": 4e9})
    assert found.point["C"] == pytest.approx(9e20)


def test_what_makes_a_ladder_doubtful():
    assert codes(RUNS) == set()
    assert "inputs-move-together" in codes(RUNS[:6].assign(D_cpt=RUNS["C"][:6] ** 0.5))
    larger = RUNS["C"] > 1e19
    assert "falls-too-fast" in codes(
        RUNS.assign(loss=RUNS["loss"] * np.where(larger, (RUNS["C"] / 1e19) ** -0.04, 1))
    )
    assert "outliers" in codes(RUNS.assign(loss=RUNS["loss"] * np.where(RUNS.index == 4, 1.06, 1)))


@pytest.mark.parametrize("spoilt", ["", "web"])
def test_the_evaluation_that_falls_faster_than_the_others_is_named(spoilt):
    C, D = (x.ravel() for x in np.meshgrid(np.geomspace(1e18, 1e21, 9), [5e8, 1e9, 4e9]))
    losses, better = {}, np.tile(np.random.default_rng(0).normal(1, 0.002, 9), 3)
    for k, name in enumerate(["loss", "web", "code"]):
        truth = LADDER | {"E": 0.5 + 0.4 * k, "gamma": 0.1 + 0.03 * k}
        made = jl.simulate.simulate_runs(LAW, truth, {"C": C, "D_cpt": D}, noise=0.002, seed=k)
        fall = np.where(name == spoilt, np.maximum(C / 1.9e20, 1) ** -0.04, 1)
        losses[name] = made["loss"] * better * fall
    notes = compared(made.assign(**losses), evaluations=[*losses]).notes
    said = [note.message.split(" at ")[0] for note in notes if note.code == "falls-faster"]
    assert said == [spoilt] * bool(spoilt)


@pytest.mark.parametrize(
    ("names", "rows", "web"),
    [("l", 14, 1.0), ("lw", 13, 1.0), ("lw", 12, 1.0), ("lw", 14, -1.0), ("lw", 14, "?")],
)
def test_evaluations_that_cannot_be_compared(names, rows, web):
    D, C = (x.ravel() for x in np.meshgrid([5e8, 4e9], np.geomspace(1e18, 1e20, 7)))
    runs = jl.simulate.simulate_runs(LAW, LADDER, {"C": C, "D_cpt": D}, noise=0.002)[:rows]
    runs = runs.assign(l=runs["loss"], w=web)
    with pytest.raises(DataError, match="two or more columns of positive losses, of 7 or more"):
        compared(runs, evaluations=[*names])


def test_few_held_out_bases_are_no_proof():
    errors = pd.DataFrame({"a": [0.01], "b": [0.02]})
    assert 0.5 < _ladder._shares(errors, 0)["a"] < 0.9
    assert _ladder._shares(pd.concat([errors] * 20), 0)["a"] > 0.99


def test_the_rate_and_the_tokens_that_are_enough():
    law = jl.laws.continual(lr="lr", family="additive")
    more = {"lr_0": 1e-3, "lr_C": 0.0, "h_lr": 0.03, "s_lr": 0.5, "k": 0.0}
    C, D, lr = np.meshgrid(np.geomspace(1e18, 1e20, 4), [1e9, 4e9], [3e-4, 1e-3, 3e-3])
    params = LADDER | more | {"beta_cpt": 0.6, "g_cpt": 0.1}
    runs = jl.simulate.simulate_runs(law, params, {"C": C, "D_cpt": D, "lr": lr}, noise=0.003)
    found = compared(runs, {"C": 1e20, "D_cpt": 4e9, "lr": 1e-3})
    assert 0.6e-3 < found.lr < 1.6e-3
    low, high = found.interval["D_cpt_enough"]
    assert low < found.D_cpt_enough < high and found.D_cpt_enough < 4e11
