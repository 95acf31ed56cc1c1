"""Drops of the rate, one by one or gathered, and the law that takes them, over whole curves."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import schedules, simulate
from jaxlaw.data._row_areas import DROPS, MOST_DROPS, drops_along
from jaxlaw.fitting._fit_many import Refits
from tests.fixtures.fits_at_truth import at_truth

PLAIN, COUNTED = {"count_warmup": False}, {"count_warmup": True}
TRUTH = simulate.TRUTHS["multi-power"]


def every_drop(schedule, t, counted):
    """The drops up to step t as the definition has them, the warm-up's rises or not."""
    rates = np.maximum(schedule.rates, 1e-9 * schedule.rates.max())
    drop = -np.diff(schedule.rates, prepend=schedule.initial_lr)
    if not counted:
        peak = np.argmax(schedule.rates[: schedule.boundary]) + 1
        drop[:peak] = drop[:peak].clip(0)
    since = schedule.rates[:t][::-1].cumsum()[::-1]
    return drop[:t], rates[:t], since


def paid(drop, eta_k, S_k):
    """What drops take off the loss (Luo 2025), (…, K) to (…)."""
    far = (1 + TRUTH["C"] * eta_k ** -TRUTH["gamma"] * S_k) ** -TRUTH["beta"]
    return TRUTH["B"] * np.sum(drop * (1 - far), axis=-1)


def by_definition(schedule, at, counted):
    return np.array([paid(*every_drop(schedule, t, counted)) for t in at])


STAGES = schedules.two_stage(3e-4, 3e-5, 300, 100)


def test_few_changes_are_taken_one_by_one():
    at = np.array([0, 1, 100, 101, 300])
    drops = drops_along(STAGES, at, PLAIN)
    assert drops["drop"].shape == (5, 1)
    np.testing.assert_allclose(drops["drop"][:, 0], [0, 0, 0, 2.7e-4, 2.7e-4], rtol=1e-12)
    np.testing.assert_allclose(drops["eta_k"][3:, 0], 3e-5)
    np.testing.assert_allclose(drops["S_k"][3:, 0], [3e-5, 200 * 3e-5], rtol=1e-12)


def test_a_point_without_drops_has_plausible_numbers_in_their_place():
    drops = drops_along(schedules.constant(3e-4, 50), np.array([1, 50]), PLAIN)
    assert (drops["drop"] == 0).all() and drops["drop"].shape == (2, 1)
    assert (drops["eta_k"] == 3e-4).all()
    np.testing.assert_allclose(drops["S_k"][:, 0], [3e-4, 50 * 3e-4])


# The largest error of the law, in nats, as the module says it.
SMOOTH = {
    "cosine:peak=3e-4,steps=24000,final=3e-5": 1e-5,
    "wsd:peak=3e-4,steps=24000,final=3e-5,shape=exponential": 1e-5,
    "cosine:peak=3e-4,steps=24000": 7e-5,
    "wsd:peak=3e-4,steps=24000,shape=1-sqrt": 7e-5,
    "cosine:peak=3e-4,steps=9000,warmup=900+cosine:peak=1e-4,steps=3000,warmup=300": 1.5e-4,
}


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("line", SMOOTH)
def test_gathered_drops_are_worth_what_they_are_one_by_one(line, counted):
    schedule = schedules.parse(line)
    at = np.unique(np.linspace(1, len(schedule), 40).astype(int))
    drops = drops_along(schedule, at, {"count_warmup": counted})
    assert drops["drop"].shape[1] <= 2 * MOST_DROPS
    error = np.abs(paid(**drops) - by_definition(schedule, at, counted))
    assert 0 < error.max() < SMOOTH[line]
    if counted:
        whole = schedule.initial_lr - schedule.rates[at - 1]
        np.testing.assert_allclose(drops["drop"].sum(axis=1), whole, atol=1e-15)


def test_a_rate_that_goes_up_and_down_is_gathered_too():
    t = np.arange(20_000)
    schedule = schedules.Schedule(2e-4 + 1e-4 * np.cos(t / 200), 3e-4)
    at = np.linspace(100, 20_000, 30).astype(int)
    error = paid(**drops_along(schedule, at, PLAIN)) - by_definition(schedule, at, False)
    assert np.abs(error).max() < 1.5e-4


def test_rises_of_a_warm_up_count_on_request_and_those_of_a_continual_phase_always():
    one = schedules.parse("constant:lr=3e-4,steps=60,warmup=20")
    at = np.array([10, 60])
    assert (drops_along(one, at, PLAIN)["drop"] == 0).all()
    counted = drops_along(one, at, COUNTED)["drop"].sum(axis=1)
    np.testing.assert_allclose(counted, [-1.5e-4, -3e-4], rtol=1e-12)
    both = schedules.join(one, one)
    result = drops_along(both, np.array([60, 61, 120]), PLAIN)["drop"].sum(axis=1)
    np.testing.assert_allclose(result, [0, 2.85e-4, 0], atol=1e-18)


def test_memory_and_time_do_not_grow_with_the_steps():
    schedule = schedules.cosine(3e-4, 2_000_000)
    drops = drops_along(schedule, np.array([10, 2_000_000]), PLAIN)
    assert all(drops[name].shape == (2, MOST_DROPS - 1) for name in DROPS)
    assert (drops["S_k"] >= 0).all() and np.isfinite(drops["eta_k"]).all()


# ---------------------------------------------------------------- curves

LINES = {
    "cosine": "cosine:peak=3e-4,steps=6000,final=3e-5,warmup=300",
    "stable": "constant:lr=3e-4,steps=6000,warmup=300",
    "stages": "two_stage:first=3e-4,second=9e-5,steps=6000,switch=2000,warmup=300",
    "deep": "two_stage:first=3e-4,second=1e-5,steps=6000,switch=3000,warmup=300",
}


@pytest.fixture(scope="module")
def curves():
    """Curves that obey the law, drops summed one by one."""
    parts = []
    for run, line in LINES.items():
        schedule, step = schedules.parse(line), np.arange(400, 6001, 200)
        S1 = np.cumsum(schedule.rates)[step - 1]
        loss = TRUTH["L0"] + TRUTH["A"] * S1 ** -TRUTH["alpha"]
        loss -= by_definition(schedule, step, False)
        parts.append(pd.DataFrame({"run": run, "schedule": line, "step": step, "loss": loss}))
    return jl.read_loss_curves(pd.concat(parts, ignore_index=True))


@pytest.fixture(scope="module")
def fitted(curves):
    return jl.fit("multi-power", curves)


@pytest.mark.full
def test_a_fit_finds_the_law_that_made_the_curves(fitted, curves, tmp_path):
    assert fitted.params == pytest.approx(TRUTH, rel=0.02)
    assert fitted.rmse < 1e-5 and fitted.status == "converged" and fitted.agreement > 0.5
    fitted.save(tmp_path / "fit.json")
    again = jl.load(tmp_path / "fit.json")
    line = "wsd:peak=3e-4,steps=6000,final=3e-5,warmup=300"
    table = fitted.predict_curve(line)
    pd.testing.assert_frame_equal(table, again.predict_curve(line), check_exact=True)
    later = table["step"] > 400
    assert not table["outside"][later].any() and table["outside"][:300].all()
    truth = by_definition(schedules.parse(line), [6000], False)
    assert -table["annealing"].iloc[-1] == pytest.approx(truth[0], rel=1e-3)
    longer = fitted.predict_curve("constant:lr=3e-4,steps=9000,warmup=300", [9000])
    lower = fitted.predict_curve("two_stage:first=3e-4,second=1e-6,steps=6000,switch=3000", [5000])
    assert longer["outside"].all() and lower["outside"].all()


@pytest.mark.full
def test_a_thinned_fit_and_plain_numbers_agree(fitted, curves):
    observed = curves.runs().observations("multi-power")
    assert observed.inputs["drop"].shape == (len(observed), MOST_DROPS - 1)
    predicted = fitted.predict(observed.inputs)
    assert predicted.shape == (len(observed),)
    np.testing.assert_allclose(predicted, observed.target, atol=1e-4)
    one = fitted.predict(S1=1.0, drop=2.1e-4, eta_k=9e-5, S_k=0.3)
    many = fitted.predict(S1=1.0, drop=[2.1e-4, 0.0], eta_k=[9e-5, 1e-4], S_k=[0.3, 0.1])
    assert one.shape == many.shape == () and one == pytest.approx(many, rel=1e-14)


def test_the_parts_are_base_and_annealing(curves):
    fit = at_truth("multi-power")
    table = fit.predict_curve(LINES["cosine"], [400, 6000])
    assert (table["base"] + table["annealing"] == table["loss"]).all()
    assert (table["shift"] == 0).all() and (table["annealing"] < 0).all()
    mine = curves.only("cosine").table["loss"].to_numpy()[[0, -1]]
    np.testing.assert_allclose(table["loss"], mine, atol=2e-5)


def test_curves_of_one_course_are_padded_to_those_of_another(curves):
    inputs = curves.runs().observations("multi-power").inputs
    runs = curves.table["run"].to_numpy()
    stages = inputs["drop"][runs == "stages"]
    assert ((stages != 0).sum(axis=1) <= 1).all() and (inputs["drop"][runs == "stable"] == 0).all()
    assert (inputs["eta_k"] > 0).all() and (inputs["S_k"] >= 0).all()
    some = curves.only("stages", "stable").runs().observations("multi-power").inputs
    assert some["drop"].shape[1] == 1


def test_versions_of_a_fit_predict_points_with_drops(curves):
    inputs = curves.runs().observations("multi-power").inputs
    versions = {name: np.array([value, 1.01 * value]) for name, value in TRUTH.items()}
    problem = SimpleNamespace(law=jl.laws.get("multi-power"))
    predicted = Refits(problem, versions, *[None] * 6).predict(**inputs)
    assert predicted.shape == (2, len(curves.table))
    np.testing.assert_allclose(predicted[0], at_truth("multi-power").predict(inputs), rtol=1e-12)


@pytest.mark.full
def test_the_array_core_takes_drops(curves):
    law, observed = jl.laws.get("multi-power"), curves.only("stages", "deep").runs()
    observed = observed.observations(law)
    near = np.array([[TRUTH[name] for name in law.parameter_names]])
    fits = jl.fit_batch(law, observed.inputs, observed.target, starts=near)
    assert float(fits.objective[0]) < 1e-6
    with pytest.raises(jl.UsageError, match="input S1 has shape"):
        jl.fit_batch(law, observed.inputs | {"S1": observed.inputs["drop"]}, observed.target)


def test_what_curves_cannot_determine_is_noted(curves):
    result = curves.only("stable").runs().observations("multi-power").notes
    (message,) = [note.message for note in result if note.code == "few-values"]
    assert "drop has one value only, so B, C, beta, gamma cannot be identified" in message
    two = curves.only("stable", "stages").runs().observations("multi-power").notes
    assert any("eta_k has one value only, so C, gamma" in note.message for note in two)
