"""Numbers that must not depend on how the same runs are written down, and limits of honesty.

All fits are of 243 chinchilla runs but where said, by programs of one shape.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.laws import _base as base
from jaxlaw.notes import FitWarning
from tests.conftest import simulated_fit

DESIGN = simulate.experiment("chinchilla", noise=0.0)
TRUTH = DESIGN.truth


def table(noise=0.004, seed=0, truth=TRUTH):
    return simulate.simulate_runs("chinchilla", truth, DESIGN.table[["N", "D"]], noise, seed)


def at(made, N=1.0, D=1.0):
    return {"N": made["N"].to_numpy() / N, "D": made["D"].to_numpy() / D}


def apart(a, b):
    """Largest relative difference."""
    return float(np.max(np.abs(np.asarray(a) / np.asarray(b) - 1)))


NOISY = table(0.05)  # far from the law: rounding shows where residuals are large


@pytest.fixture(scope="module")
def noisy():
    return jl.fit("chinchilla", NOISY)


# ---------------------------------------------------------------- the same runs, otherwise


def test_the_order_of_rows_changes_nothing(noisy):
    for seed in range(4):
        again = jl.fit("chinchilla", NOISY.sample(frac=1, random_state=seed))
        assert again.params == noisy.params  # the same bits: rows are sorted before sums
        assert apart(again.objective, noisy.objective) <= 1e-12
        for name, value in noisy.metrics.items():
            assert again.metrics[name] == pytest.approx(value, rel=1e-12)
        assert [note.code for note in again.notes] == [note.code for note in noisy.notes]


@pytest.mark.parametrize("unit", [1.0, 1e6, 1e9])
def test_units_leave_predictions_unchanged(noisy, unit):
    scaled = NOISY.assign(N=NOISY["N"] / unit, D=NOISY["D"] / unit)
    fit = jl.fit("chinchilla", scaled, units={"N": unit, "D": unit})
    assert apart(fit.predict(at(scaled)), noisy.predict(at(NOISY))) <= 1e-12
    assert max(apart(fit.params[k], noisy.params[k]) for k in TRUTH) <= 1e-9


def test_losses_may_be_in_bits_per_byte(noisy):
    bits = jl.fit("chinchilla", NOISY.assign(loss=NOISY["loss"] / np.log(2) / 4.2))
    assert apart(bits.predict(NOISY) * np.log(2) * 4.2, noisy.predict(NOISY)) < 2e-6


def test_a_row_twice_is_a_row_of_twice_the_weight():
    third = np.arange(len(NOISY)) % 3
    weighted = jl.fit("chinchilla", NOISY, weight=2.0 - third)  # the last third has weight 0
    twice = pd.concat([NOISY[third == 0], NOISY[third == 0], NOISY[third == 1]])  # as many rows
    doubled = jl.fit("chinchilla", twice)
    assert apart(doubled.predict(at(NOISY)), weighted.predict(at(NOISY))) <= 1e-12
    assert apart(doubled.objective, weighted.objective) <= 1e-12
    assert "duplicate-rows" in {note.code for note in doubled.notes}


@pytest.mark.parametrize("factor", [1e-6, 7.0, 1e6])
def test_a_factor_on_all_weights_is_one_on_the_objective(noisy, factor):
    fit = jl.fit("chinchilla", NOISY, weight=np.full(len(NOISY), factor))
    assert apart(fit.predict(at(NOISY)), noisy.predict(at(NOISY))) <= 1e-12
    assert fit.objective == pytest.approx(factor * noisy.objective, rel=1e-12)


def test_a_second_run_gives_the_same_bits(noisy):
    assert jl.fit("chinchilla", NOISY).to_dict() == noisy.to_dict()


PROGRAM = """
import json, sys
import jaxlaw as jl
print(json.dumps(jl.fit("chinchilla", sys.argv[1]).to_dict()))
"""


@pytest.mark.full
def test_a_second_process_gives_the_same_bits(noisy, tmp_path):
    """Whether it compiles its programs, or finds them in the folder of the first."""
    NOISY.to_csv(tmp_path / "runs.csv", index=False)

    def fit_elsewhere():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "runs.csv")],
            env=os.environ | {"JAXLAW_CACHE": str(tmp_path / "cache")},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    assert fit_elsewhere() == fit_elsewhere()
    assert jl.fit("chinchilla", tmp_path / "runs.csv").params == noisy.params


@pytest.mark.full
def test_a_mixture_law_keeps_its_predictions_too():
    """dcpt, nine parameters: a line search alone left 2e-10 of the order of the rows."""
    experiment = simulate.experiment("dcpt", noise=0.004)
    fit = simulated_fit("dcpt")
    inputs = experiment.table[["N", "D", "r"]]
    shuffled = jl.fit("dcpt", experiment.table.sample(frac=1, random_state=1))
    # Not the same bits: in one run of many the last two digits differed, for a reason unknown.
    assert list(shuffled.params.values()) == pytest.approx(list(fit.params.values()), rel=1e-12)
    single = experiment.table.assign(N=1e9 * inputs["N"], D=1e9 * inputs["D"])
    scaled = jl.fit("dcpt", single, units={"N": 1, "D": 1})
    assert apart(scaled.predict(single), fit.predict(inputs)) <= 1e-12


# ---------------------------------------------------------------- batches and precision


# ---------------------------------------------------------------- data at its limits


def test_without_noise_the_truth_is_found_to_twelve_digits():
    fit = jl.fit("chinchilla", DESIGN.table)
    for name, value in TRUTH.items():
        assert fit.params[name] == pytest.approx(value, rel=1e-12)
    assert fit.status == "converged" and fit.rmse < 1e-14


def test_losses_all_equal_are_fitted_with_a_note():
    made = DESIGN.table.assign(loss=2.0)
    with pytest.warns(FitWarning, match="poor-fit"):
        fit = jl.fit("chinchilla", made)
    assert apart(fit.predict(at(made)), 2.0) < 1e-9
    assert np.isnan(fit.r2)
    notes = {note.code: note for note in fit.notes}
    assert notes["poor-fit"].severity == "error"
    with pytest.raises(jl.DataError):
        jl.fit("chinchilla", made, strict=True)


@pytest.mark.parametrize(("signs", "most", "worse"), [((1, 1), 0.01, 1.5), ((1, -1), 0.005, 3.0)])
def test_a_fifth_of_outliers_hardly_moves_huber(signs, most, worse):
    """Losses a tenth off: on one side they shift the middle of the noise, on two they do not."""
    made, draw = table(0.004), np.random.default_rng(3)
    wild = draw.permutation(len(made)) < len(made) // 5
    made["loss"] *= np.where(wild, np.exp(0.1 * draw.choice(signs, len(made))), 1.0)
    huber, squares = jl.fit("chinchilla", made), jl.fit("chinchilla", made, delta=np.inf)
    off = [apart(fit.predict(at(made)), DESIGN.table["loss"]) for fit in (huber, squares)]
    assert off[0] < most and off[1] > worse * off[0]


def test_twelve_orders_of_magnitude_of_size():
    N, D = (
        axis.ravel()
        for axis in np.meshgrid(np.geomspace(1e3, 1e15, 27), DESIGN.table["D"].unique())
    )
    keep = np.linspace(0, len(N) - 1, len(NOISY)).astype(int)
    made = simulate.simulate_runs("chinchilla", TRUTH, {"N": N[keep], "D": D[keep]})
    fit = jl.fit("chinchilla", made)
    assert apart(fit.predict(at(made)), made["loss"]) < 1e-12
    for name, value in TRUTH.items():
        assert fit.params[name] == pytest.approx(value, rel=1e-9)


def test_shares_of_nought_and_one_are_data_and_points():
    experiment = simulate.experiment("dcpt", noise=0.004)
    assert {0.0, 1.0} <= set(experiment.table["r"])
    fit = simulated_fit("dcpt")
    ends = fit.predict(N=1.8, D=2.0, r=[0.0, 1.0])
    assert np.isfinite(ends).all() and not fit.is_extrapolation(N=1.8, D=2.0, r=[0.0, 1.0]).any()
    truth = base.get("dcpt")(experiment.truth, N=1.8, D=2.0, r=np.array([0.0, 1.0]))
    assert apart(ends, truth) < 2e-3


def test_one_point_a_parameter_is_noted_to_prove_nothing():
    made = table(0.004)
    five = np.isin(np.arange(len(made)), [0, 7, 100, 161, 242]).astype(float)
    fit = jl.fit("chinchilla", made, weight=five)
    (note,) = (note for note in fit.notes if note.code == "few-spare-rows")
    assert note.severity == "warning" and "5" in note.message and fit.r2 > 0.999
    with pytest.raises(jl.DataError, match="4 rows .* cannot determine the 5 parameters"):
        jl.fit("chinchilla", made.iloc[:4])
