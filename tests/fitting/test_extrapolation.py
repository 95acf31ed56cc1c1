"""What lies beyond the fitted runs: by input, two inputs together, and areas that no law tells."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate

TRUTH = simulate.TRUTHS["chinchilla"]


@pytest.fixture(scope="module")
def compute_optimal():
    """Runs of 10 to 40 tokens a parameter, N over two decades."""
    ratio = np.tile([10.0, 20.0, 40.0], 8)
    N = np.repeat(np.geomspace(1e8, 1e10, 8), 3)
    table = simulate.simulate_runs("chinchilla", TRUTH, {"N": N, "D": N * ratio}, noise=0.003)
    return jl.fit("chinchilla", table, n_starts=256)


def test_tokens_a_parameter_beyond_the_runs_are_an_extrapolation(compute_optimal):
    """N and D each are inside."""
    fit = compute_optimal
    assert not fit.is_extrapolation(N=[1e8, 1e9, 1e10], D=[2e9, 2e10, 2e11]).any()
    assert fit.is_extrapolation(N=[2e8, 5e9], D=[2e11, 5e9]).all()  # 1,000 and 1
    assert fit.joint_ranges["D/N"] == pytest.approx((10, 40))
    assert not fit.is_extrapolation(N=1e9, D=4.4e10)  # within 5 % of the logarithmic ranges
    assert fit.is_extrapolation(N=1e9, D=6e10)


def test_a_plan_says_so_too(compute_optimal):
    from jaxlaw.planning._frame import source_notes
    from jaxlaw.uncertainty import as_draws

    (source,) = as_draws(compute_optimal)
    (note,) = source_notes(source, N=2e8, D=2e11)
    assert note.code == "extrapolation"
    assert "D/N = 1,000 (fitted 10 to 40)" in note.message and "(fitted 1e+08" not in note.message
    assert source_notes(source, N=1e9, D=2e10) == []


def test_units_of_the_runs_are_those_of_the_ranges(compute_optimal):
    table = simulate.simulate_runs(
        "chinchilla", TRUTH, {"N": np.geomspace(1e8, 1e10, 24), "D": 2e10}, noise=0.003
    ).assign(D=lambda t: t["N"] * 20)
    table["loss"] = compute_optimal.predict(table)
    small = table.assign(N=table["N"] / 1e9, D=table["D"] / 1e9)
    fit = jl.fit("chinchilla", small, units={"N": 1e9, "D": 1e9}, n_starts=256)
    assert fit.joint_ranges["D/N"] == pytest.approx((20, 20))
    assert fit.is_extrapolation(N=0.2, D=200.0) and not fit.is_extrapolation(N=1.0, D=20.0)


@pytest.mark.full
def test_all_stable_steps_of_another_schedule_are_inside():
    """Fitted on cosines, whose areas are never quite 0; a stable rate has an area of 0."""
    lines = {
        "cosine": "cosine:peak=3e-4,steps=40000,warmup=500,final=3e-5",
        "short": "cosine:peak=3e-4,steps=10000,warmup=500,final=3e-5",
    }
    parts = []
    for run, line in lines.items():
        schedule = jl.schedules.parse(line)
        step = np.arange(1000, len(schedule) + 1, 250)
        parts.append(pd.DataFrame({"run": run, "step": step, "loss": 3.0, "schedule": line}))
    log = pd.concat(parts, ignore_index=True)
    areas = jl.read_loss_curves(log).runs().table
    made = simulate.simulate_runs(
        "annealing", simulate.TRUTHS["annealing"], {k: areas[k].to_numpy() for k in ("S1", "S2")},
        noise=0.001,
    )  # fmt: skip
    curves = jl.read_loss_curves(log.assign(loss=made["loss"].to_numpy()))
    fit = jl.fit("annealing", curves, n_starts=256)
    assert fit.ranges["S2"][0] > 0
    wsd = jl.schedules.parse("wsd:peak=3e-4,steps=20000,warmup=500,decay_steps=4000")
    curve = fit.predict_curve(wsd)
    stable = curve.query("1000 <= step <= 15000")
    assert not stable["outside"].any()
    low, high = fit.ranges["S2"]
    assert fit.is_extrapolation(S1=fit.ranges["S1"][1] / 2, S2=high + 0.1 * (high - low))


def test_saved_fits_keep_it(compute_optimal, tmp_path):
    compute_optimal.save(tmp_path / "fit.json")
    again = jl.load(tmp_path / "fit.json")
    assert again.joint_ranges == compute_optimal.joint_ranges
    assert again.is_extrapolation(N=2e8, D=2e11)


def test_unknown_ranges_have_no_inside():
    known = jl.published()["besiroglu-2024"]
    assert known.joint_ranges is None
    bare = dataclasses.replace(known, ranges={"N": (np.nan, np.nan), "D": (1e9, 1e12)})
    assert bare.is_extrapolation(N=1e9, D=1e10)
