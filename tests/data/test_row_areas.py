"""Areas along a schedule: counted in tokens, where batches differ, and before the first step."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import schedules
from jaxlaw.data._row_areas import AREAS, area_options, areas_along, drops_along
from tests.fixtures.curve_tables import SPECS, TWO, logged, read as read_short
from tests.fixtures.fits_at_truth import COUNTED, at_truth

OPTIONS = area_options()
BOTH = schedules.parse(TWO)  # 3,000 and 1,000 steps
AT = np.array([0, 1, 3000, 3001, 4000])


def test_an_update_of_twice_the_tokens_sums_like_two():
    twice = schedules.join(
        schedules.Schedule(BOTH.rates[:3000], BOTH.initial_lr),
        schedules.Schedule(np.repeat(BOTH.rates[3000:], 2), 0.0),
    )
    result = areas_along(BOTH, AT, OPTIONS, batch=(1.0, 2.0))
    at = np.where(AT > 3000, 3000 + 2 * (AT - 3000), AT)
    np.testing.assert_allclose(result["S1"], areas_along(twice, at, OPTIONS)["S1"], rtol=1e-12)


@pytest.mark.parametrize("carry", [False, True])
def test_momentum_is_made_of_updates_and_weighed_by_tokens(carry):
    options = area_options(0.99, carry_momentum=carry)
    result = areas_along(BOTH, AT, options, S1_before=0.1, batch=(0.5, 0.25))
    plain = areas_along(BOTH, AT, options, S1_before=0.1)
    for name, worth in (("pt", 0.5), ("cpt", 0.25)):
        for area in ("S1_", "S2_"):
            np.testing.assert_array_equal(result[area + name], worth * plain[area + name])
    np.testing.assert_array_equal(result["S2"], result["S2_pt"] + result["S2_cpt"])


def test_drops_are_those_of_the_rate_and_the_sums_since_count_tokens():
    stages = schedules.join(schedules.constant(3e-4, 10), schedules.constant(1e-4, 10))
    drops = drops_along(stages, np.array([10, 20]), OPTIONS, batch=(1.0, 4.0))
    np.testing.assert_allclose(drops["drop"][:, 0], [0.0, 2e-4], rtol=1e-12)
    assert drops["S_k"][1, 0] == pytest.approx(10 * 4e-4)
    alone = drops_along(schedules.linear(1e-4, 10), np.array([10]), OPTIONS, (2.0, 9.0))
    assert alone["S_k"][0, 0] == pytest.approx(2 * schedules.linear(1e-4, 10).rates.sum())


def two_phases(**columns):
    frame = logged({"a": TWO, "b": TWO})
    return frame.assign(**columns)


def areas_of(curves):
    return curves.runs().table[list(AREAS)].to_numpy()


def test_a_number_a_pair_and_a_column_say_the_same():
    late = two_phases()["step"] > 3000
    wanted = areas_of(read_short(two_phases(), TWO, batch=0.25))
    tokens = two_phases(tokens=np.where(late, 0.25, 1.0))
    for same in ([1, 0.25], "tokens"):
        np.testing.assert_array_equal(areas_of(read_short(tokens, TWO, batch=same)), wanted)


def test_of_one_phase_a_number_is_its_own():
    result = areas_of(read_short(batch=2.0))
    np.testing.assert_array_equal(result, 2 * areas_of(read_short()))
    frame = logged({"fall": SPECS["fall"]}).assign(phase="cpt", b=3.0)
    for given in (3.0, "b"):
        one = read_short(frame, SPECS["fall"], batch=given)
        np.testing.assert_allclose(
            areas_of(one),
            3 * areas_of(read_short(frame, SPECS["fall"])), rtol=1e-14,
        )  # fmt: skip


@pytest.mark.parametrize(
    "batch,kind,said",
    [
        (0, jl.UsageError, "a number above 0"),
        ((1, 2, 3), jl.UsageError, "or a pair"),
        ([[1, 2]], jl.UsageError, "batch is the batch size relative"),
        (-1, jl.UsageError, "not -1"),
        ("tokns", jl.DataError, "no column tokns"),
        ("tokens", jl.DataError, "batch: column tokens has several values for run a"),
    ],
)
def test_batches_that_are_none(batch, kind, said):
    frame = two_phases(tokens=lambda f: 1 + np.arange(len(f)) % 2)
    with pytest.raises(kind, match=said):
        read_short(frame, TWO, batch=batch)


def test_a_prediction_counts_by_the_options_given():
    fit = at_truth("cpt-curve", COUNTED)
    table = fit.predict_curve(TWO, [3000, 4000], batch=0.25)
    areas = areas_along(BOTH, np.array([3000, 4000]), OPTIONS, batch=(1.0, 0.25))
    given = {name: areas[name] for name in fit.law.input_names}
    np.testing.assert_array_equal(table["loss"], fit.predict(**given))
    assert table["loss"][1] != fit.predict_curve(TWO, [4000])["loss"][0]
    with pytest.raises(jl.UsageError, match="batch"):
        fit.predict_curve(TWO, batch="tokens")


def test_two_batches_are_read_and_get_a_shift_each():
    """Wang 2025, App. F: one pre-training, continued at two batch sizes."""
    truth = jl.simulate.TRUTHS["cpt-curve-batch"]
    rows = []
    for run, worth, b in (("same", 1.0, 0.0), ("quarter", 0.25, 1.0)):
        step = np.unique(np.geomspace(3010, 4000, 40).astype(int))
        areas = areas_along(BOTH, step, OPTIONS, batch=(1.0, worth))
        given = {k: areas[k] for k in ("S1_pt", "S1_cpt", "S2_pt", "S2_cpt")}
        made = jl.simulate.simulate_runs("cpt-curve-batch", truth, given | {"b": b})
        rows.append(made[["b", "loss"]].assign(run=run, step=step, tokens=worth * 4e6))
    table = pd.concat(rows, ignore_index=True)
    table["ratio"] = table["tokens"] / 4e6
    curves = jl.read_loss_curves(table, schedule=TWO, batch="ratio")
    observed = curves.runs().observations("cpt-curve-batch")
    at_it = at_truth("cpt-curve-batch").predict(observed.inputs)
    np.testing.assert_allclose(at_it, observed.target, rtol=1e-12)


def test_a_row_before_the_first_update_is_refused_with_advice():
    frame = pd.concat([pd.DataFrame({"run": ["fall"], "step": [0], "loss": [9.0]}), logged()])
    curves = read_short(frame.reset_index(drop=True))
    with pytest.raises(jl.DataError, match=r"row 0 \(0.0\) \(step 0, .* where='step > 0'\)"):
        curves.runs().observations("annealing")
    kept = curves.only(where="step > 0").runs().observations("annealing")
    assert len(kept) == len(logged())
