"""The shift by itself: observed, fitted in either form, drawn over transfer points; patterns."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import DataError, UsageError, laws, simulate
from jaxlaw.data._row_areas import area_options, areas_along
from jaxlaw.planning import ContinualPretraining, Pretraining, turning_length

TRUTH = simulate.TRUTHS["cpt-curve"]
RATE, STEPS = 2e-4, 6_000
# Transfer points along one constant rate, as in Wang 2025, figure 2.
STARTS = {"early": 4_000, "later": 12_000, "late": 24_000}
BASE = f"constant:lr={RATE},steps=40000"
AT = np.unique(np.geomspace(20, STEPS, 25).astype(int))


def curve(name, line, steps, noise=0.0):
    """Points of a curve that obeys eq. 4; of one phase it is a hidden one."""
    areas = areas_along(jl.schedules.parse(line), steps, area_options())
    inputs = {name: areas[name] for name in laws.get("cpt-curve").input_names}
    table = simulate.simulate_runs("cpt-curve", TRUTH, inputs, noise=noise, seed=int(steps[0]))
    return pd.DataFrame({"run": name, "schedule": line, "step": steps, "loss": table["loss"]})


def continual(noise=0.0, **lines):
    lines = lines or {
        name: f"constant:lr={RATE},steps={start}+constant:lr={RATE},steps={STEPS}"
        for name, start in STARTS.items()
    }
    parts = [
        curve(name, line, jl.schedules.parse(line).boundary + AT, noise)
        for name, line in lines.items()
    ]
    return jl.read_loss_curves(pd.concat(parts, ignore_index=True))


HIDDEN = jl.read_loss_curves(curve("base", BASE, np.arange(2_000, 40_001, 20)))


def true_shift(S1_cpt):
    return TRUTH["B"] * (1 - (1 + TRUTH["E"] * S1_cpt) ** -TRUTH["beta"])


@pytest.mark.full
def test_shifts_of_all_transfer_points_lie_on_the_curve_of_eq_3():
    points = jl.fitting.observed_shift(continual(), HIDDEN)
    assert points["run"].value_counts().to_dict() == dict.fromkeys(STARTS, len(AT))
    np.testing.assert_array_equal(points["step"], np.tile(AT, 3))
    np.testing.assert_allclose(points["S1_cpt"], RATE * points["step"], rtol=1e-12)
    # The hidden curve is logged every 20 steps; between them it is taken as straight.
    np.testing.assert_allclose(points["shift"], true_shift(points["S1_cpt"]), atol=2e-6)
    np.testing.assert_allclose(points["loss"] - points["hidden"], points["shift"])
    fit = jl.fit("shift", points)
    assert fit.params == pytest.approx({k: TRUTH[k] for k in ("B", "E", "beta")}, rel=2e-3)
    other = jl.fit("shift-exp", points)
    assert fit.r2 > 0.99999 > other.r2  # the power law is the better form, as in §3.2
    assert fit.objective < 1e-3 * other.objective


def test_phases_that_count_their_own_steps_and_pairs_by_name():
    plain = continual()
    restarted = jl.read_loss_curves(plain.table.assign(phase="cpt", step=np.tile(AT, 3)))
    two = pd.concat([HIDDEN.table, HIDDEN.table.assign(run="other")], ignore_index=True)
    found = jl.fitting.observed_shift(
        restarted, jl.read_loss_curves(two), dict.fromkeys(STARTS, "base")
    )
    pd.testing.assert_frame_equal(found, jl.fitting.observed_shift(plain, HIDDEN))
    with pytest.raises(UsageError, match="run early has no hidden curve: pass pairs="):
        jl.fitting.observed_shift(restarted, jl.read_loss_curves(two))


OTHER_RATES = "wsd:peak=2e-4,steps=40000,decay=0.5"


@pytest.mark.parametrize(
    "curves,hidden,error,message",
    [
        (HIDDEN, HIDDEN, UsageError, "base has one phase.*schedules.join"),
        (None, curve("base", BASE, np.arange(2_000, 20_001, 200)), DataError,
         "goes on to step 30000, its hidden curve ends at 20000"),
        (None, curve("base", BASE, np.arange(9_000, 40_001, 200)), DataError,
         "run early, step 20 of .* begins later"),
        (None, curve("base", OTHER_RATES, np.arange(2_000, 40_001, 200)), UsageError,
         "run late has learning rate 0.0002 at step 201.., its hidden curve base 0.000199"),
    ],
)  # fmt: skip
def test_what_is_no_hidden_curve_is_refused(curves, hidden, error, message):
    hidden = jl.read_loss_curves(hidden) if isinstance(hidden, pd.DataFrame) else hidden
    with pytest.raises(error, match=message):
        jl.fitting.observed_shift(curves or continual(), hidden)


@pytest.mark.full
@pytest.mark.parametrize(
    "steps,A,pattern",
    [
        (5_000, TRUTH["A"], "rise and return"),
        (40_000, TRUTH["A"], "rise and partial fall"),
        (40_000, 1e-4, "rise"),
    ],
)
def test_the_three_patterns_have_names(steps, A, pattern):
    """Wang 2025, §4.4, by how long the base was trained; checked on the losses themselves."""
    run = ContinualPretraining(Pretraining(steps, RATE, "constant"), 1, RATE, shape="constant")
    truth = {**TRUTH, "A": A}
    found = turning_length(("cpt-curve", truth), run)
    assert found.pattern == pattern and pattern in found.summary()
    at = {"S1_pt": RATE * steps, "S2_pt": 0.0, "S2_cpt": 0.0}
    later = np.append(0.0, np.geomspace(1e-3, 1e8, 2_000))
    with jax.enable_x64(True):
        loss = np.asarray(laws.get("cpt-curve")(truth, S1_cpt=later, **at))
    change = loss - loss[0]
    assert change.max() > 0
    falls = change.max() - change[-1] > 1e-4
    said = "rise and return" if change[-1] < 0 else "rise and partial fall" if falls else "rise"
    assert said == pattern


def test_a_loss_that_is_never_lifted_has_no_rise():
    run = ContinualPretraining(Pretraining(1_000, RATE), 1, RATE, 1.0, shape="constant")
    assert turning_length(("cpt-curve", {**TRUTH, "B": -0.1}), run).pattern == "no rise"
