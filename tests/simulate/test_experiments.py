"""Simulated experiments: of the papers' designs, repeatable, and as noisy as they say."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from pandas.testing import assert_frame_equal

import jaxlaw as jl
from jaxlaw import laws, simulate

# Of designs that papers print.
SIZES = {"chinchilla": 243, "cpt-chinchilla": 420, "dcpt": 540, "dcpt-cross": 810, "kaplan": 48}


def test_continual_curves_obey_their_laws_along_the_lines_they_name(tmp_path):
    made = simulate.continual_curves(noise=0)
    made.table.to_csv(tmp_path / "curves.csv", index=False)
    columns = {"r_g": "replay", "loss_g": "loss_pt", "loss_d": "loss_cpt"}
    for side, corpus in (("general", "pt"), ("domain", "cpt")):
        law = laws.get(f"cpt-curve-replay-{corpus}")
        curves = jl.read_loss_curves(tmp_path / "curves.csv", columns, corpus=side)
        seen = curves.runs().observations(law)
        with jax.enable_x64(True):
            np.testing.assert_allclose(law(getattr(made, corpus), **seen.inputs), seen.target)
    assert len(curves) == 23  # three bases, four continued schedules at five replay ratios
    assert (made.table.groupby("run")["step"].diff().dropna() > 0).all()


@pytest.mark.parametrize("name", simulate.TRUTHS)
def test_rows_and_columns(name):
    made = simulate.experiment(name)
    assert list(made.table.columns) == [*made.law.input_names, made.law.target]
    assert len(made.table) == SIZES.get(name, len(made.table)) > 0
    assert (made.table[made.law.target] > 0).all() or made.law.residuals == "linear"
    assert not made.table.duplicated(list(made.law.input_names)).any()
    assert all(dtype == np.float64 for dtype in made.table.dtypes)


@pytest.mark.parametrize("name", simulate.TRUTHS)
def test_same_seed_same_numbers(name):
    made = simulate.experiment(name, seed=5)
    assert_frame_equal(made.table, simulate.experiment(name, seed=5).table, check_exact=True)
    other = simulate.experiment(name, seed=6)
    assert (made.table[made.law.target] != other.table[made.law.target]).all()


@pytest.mark.full
def test_same_numbers_in_another_process():
    code = "from jaxlaw import simulate; print(simulate.experiment('dcpt').table.loss.sum().hex())"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert float.fromhex(said) == simulate.experiment("dcpt").table["loss"].sum()


@pytest.mark.parametrize("noise", [0.001, 0.004, 0.02])
def test_noise_is_what_it_says(noise):
    clean = simulate.experiment("dcpt", noise=0.0).table["loss"]
    residual = np.log(simulate.experiment("dcpt", noise=noise).table["loss"] / clean)
    # 540 draws: the standard deviation is known to 3 %, the mean to 4 % of it.
    assert residual.std() == pytest.approx(noise, rel=0.12)
    assert abs(residual.mean()) < 0.18 * noise


def test_que_design():
    table = simulate.experiment("dcpt").table
    assert sorted(table["N"].unique()) == [0.5, 1.8, 4.0]
    assert sorted(table["r"].unique()) == [0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1]
    steps = np.unique(table["D"]) / (64 * 2048e-9)
    np.testing.assert_allclose(steps, np.arange(1000, 20001, 1000), rtol=1e-12)


def test_general_and_domain_are_the_same_runs():
    domain, general = (simulate.experiment(name).table for name in ("dcpt", "dcpt-general"))
    assert_frame_equal(domain[["N", "D"]], general[["N", "D"]])
    np.testing.assert_allclose(domain["r"] + general["r"], 1, atol=1e-12)
    assert sorted(general["r"].unique()) == [0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1]


def test_hoffmann_runs_lie_on_isoflop_curves():
    table = simulate.experiment("chinchilla").table
    compute = 6 * table["N"] * table["D"]
    assert len(np.unique(np.round(np.log(compute), 9))) == 9
    # Each curve has its lowest loss inside, not at an end.
    clean = simulate.experiment("chinchilla", noise=0.0).table["loss"].to_numpy().reshape(9, 27)
    assert ((clean.argmin(axis=1) > 0) & (clean.argmin(axis=1) < 26)).all()


def test_zheng_runs_end_at_twenty_tokens_a_parameter():
    table = simulate.experiment("cpt-chinchilla").table
    ends = (table["D"] / table["N"]).groupby(table["N"]).max()
    assert len(ends) == 42
    assert (ends.index.min(), ends.index.max()) == (49e6, 5534e6)
    np.testing.assert_allclose(ends, 20, rtol=1e-12)


def test_transfer_helps_up_to_the_crossing_of_the_printed_laws():
    """Zheng's printed parameters cross: continual pre-training is ahead only at smaller D.

    B'/(D^β'·N^γ) = B/D^β at D = (B·N^γ/B')^(1/(β−β')), 2.5 tokens a parameter at N = 1e9.
    """
    scratch = simulate.experiment("from-scratch", noise=0.0).table
    continued = simulate.experiment("cpt-chinchilla", noise=0.0).table
    assert_frame_equal(scratch[["N", "D"]], continued[["N", "D"]])
    crossing = (719.5 * scratch["N"] ** 0.08 / 433.3) ** (1 / (0.30 - 0.20))
    ahead = continued["loss"] < scratch["loss"]
    assert (ahead == (scratch["D"] < crossing)).all()
    assert 0.3 < ahead.mean() < 0.7


@pytest.mark.parametrize("name", ["dcpt", "dcpt-general"])
def test_dcpt_truths_meet_the_constraint(name):
    made = simulate.experiment(name, noise=0.0)
    p, D_min = made.truth, made.table["D"].min()
    C0 = p["B"] * p["eta"] * (1 + p["eps"]) ** (p["gamma"] + 1) / (p["gamma"] * D_min ** p["beta"])
    assert p["C"] > C0 and p["eta"] > 1
    falls = made.table.groupby(["N", "D"])["loss"].apply(
        lambda loss: np.diff(loss.loc[made.table.loc[loss.index, "r"].sort_values().index]) < 0
    )
    assert all(step.all() for step in falls)


def test_general_truth_passes_near_que_table_5():
    printed = {0.1: 2.9052, 0.09: 2.9193, 0.076: 2.9445, 0.06: 2.9848, 0.0: 3.4667}
    table = simulate.simulate_runs(
        "dcpt", simulate.TRUTHS["dcpt-general"], {"N": 1.8, "D": 10.0, "r": list(printed)}
    )
    np.testing.assert_allclose(table["loss"], list(printed.values()), rtol=0.004)


def test_values_are_float64_whatever_the_global_setting():
    truth, inputs = simulate.TRUTHS["chinchilla"], {"N": [1e9], "D": [2e10]}
    expected = 1.69 + 406.4 / 1e9**0.34 + 410.7 / 2e10**0.28
    assert not jax.config.jax_enable_x64
    loss = simulate.simulate_runs("chinchilla", truth, inputs)["loss"][0]
    assert loss == pytest.approx(expected, rel=1e-14)
    assert not jax.config.jax_enable_x64


def test_a_law_itself_will_do():
    law = laws.get("dcpt", constraint="paper")
    inputs = {"N": 1.0, "D": 1.0, "r": 0.5}
    table = simulate.simulate_runs(law, simulate.TRUTHS["dcpt"], inputs)
    assert_frame_equal(table, simulate.simulate_runs("dcpt", simulate.TRUTHS["dcpt"], inputs))
