"""Optimal schedules: their limits hold, nothing found otherwise is better, and what they say."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings, strategies as st

import jaxlaw as jl
from jaxlaw import UsageError, laws, simulate, uncertainty
from jaxlaw.data._row_areas import area_options
from jaxlaw.planning import optimal_schedule, schedule as searching
from jaxlaw.schedules import Schedule, constant, cosine, join, warmup, wsd
from tests.conftest import simulated_fit

ANNEALING = ("annealing", simulate.TRUTHS["annealing"])
PT = ("cpt-curve-replay-pt", simulate.TRUTHS["cpt-curve-replay-pt"])
CPT = ("cpt-curve-replay-cpt", simulate.TRUTHS["cpt-curve-replay-cpt"])
SHARES = [{"r": 0.2}, {"r": 0.8}]  # of the replayed corpus, for each loss its own

# 200 steps whose S2 remembers 20 of them: the best switch lies well inside the run.
STEPS, PEAK, DECAY = 200, 0.01, 0.95
STRONG = ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.5, "C": 2.0})


def loss_of(rates, law=STRONG, initial="first", **options):
    """The law at the end of a run, jax."""
    S1, S2 = jl.areas(rates, initial_lr=initial, at=[len(rates)], **options)
    return laws.get(law[0])(law[1], S1=S1[0], S2=S2[0])


def cliff(switch, steps=STEPS):
    return np.where(np.arange(steps) < switch, PEAK, 0.0)


def best_of(law=STRONG, steps=STEPS, peak=PEAK, counted=None, **limits):
    """The best schedule by a law whose areas are counted so."""
    options = area_options(**{"decay": DECAY, **(counted or {})})
    return optimal_schedule(jl.FittedLaw(*law, area_options=options), steps, peak, **limits)


def test_a_gain_in_the_last_steps_alone_is_found():
    """Momentum that remembers 10 of 3,000 steps: the best fall begins near the end."""
    law = ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.3, "C": 4.0})
    best = best_of(law, 3_000, counted={"decay": 0.9})
    with jax.enable_x64(True):
        tried = [float(loss_of(cliff(k, 3_000), law, decay=0.9)) for k in range(2_950, 3_001)]
    assert np.argmin(tried) < 50
    assert best.loss <= min(tried) * (1 + 1e-12)


def test_the_loss_is_that_of_the_rates_and_the_least_compared():
    best = best_of()
    assert best.loss == pytest.approx(
        float(loss_of(best.schedule["lr"].to_numpy(), decay=0.95)), rel=1e-6
    )
    assert best.comparison["loss"].idxmin() == 0


def test_plain_areas_like_a_cliff():
    """The peak, then nothing: found by trying every switch."""
    best = best_of()
    with jax.enable_x64(True):
        tried = [float(loss_of(cliff(k), decay=DECAY)) for k in range(1, 201)]
    switch = int(np.argmin(tried)) + 1
    assert 20 < 200 - switch < 150
    assert best.loss <= min(tried) * (1 + 1e-12)  # the last step of the peak may be in between
    np.testing.assert_allclose(best.schedule["lr"].to_numpy(), cliff(switch), atol=1e-2 * 0.01)
    fall, tail = best.notes
    assert fall.code == tail.code == "extrapolation"
    assert "shortest_decay= does" in fall.message and "use a floor above 0" in tail.message


@pytest.mark.full
def test_scipy_finds_the_same_over_all_rates():
    """SLSQP on the shares of the fall at every step: every monotone schedule there is."""
    floor, peak, steps = 1e-3, 0.01, 80

    def loss(shares):
        return loss_of(peak - (peak - floor) * jnp.cumsum(shares)[:-1], decay=DECAY)

    both = jax.jit(jax.value_and_grad(loss))

    def numbers(shares):
        value, slope = both(jnp.asarray(shares))
        return float(value), np.asarray(slope)

    with jax.enable_x64(True):
        found = scipy.optimize.minimize(
            numbers,
            np.full(steps + 1, 1 / (steps + 1)),
            jac=True,
            bounds=[(0, 1)] * (steps + 1),
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1,
                         "jac": lambda x: np.ones_like(x)},
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-12},
        )  # fmt: skip
    best = best_of(steps=steps, floor=floor)
    assert found.success
    assert best.loss == pytest.approx(found.fun, rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    steps=st.integers(70, 400),
    peak=st.floats(1e-5, 1.0),
    floor=st.floats(0, 0.9),
    warmup=st.integers(0, 5),
    shortest=st.integers(1, 100),
    C=st.floats(0.0, 10.0),
)
def test_limits_hold_exactly(steps, peak, floor, warmup, shortest, C):
    law = ("annealing", STRONG[1] | {"C": C})
    floor = floor * peak
    counted = {"count_warmup": True}
    best = best_of(law, steps, peak, counted, floor=floor, warmup=warmup, shortest_decay=shortest)
    rates, first = best.schedule["lr"].to_numpy(), max(warmup, 1) - 1
    free = rates[first:]
    assert len(rates) == steps and free.min() >= floor and free.max() <= peak
    falls = -np.diff(free)
    assert (falls >= 0).all()
    assert falls.max() <= (peak - floor) / shortest * (1 + 1e-9) + 1e-15 * peak
    if warmup:
        assert best.initial_lr == 0.0
        line = np.linspace(best.initial_lr, free[0], warmup + 1)[1:]
        np.testing.assert_allclose(rates[:warmup], line, rtol=1e-12)
    else:
        assert best.initial_lr == rates[0]


def test_few_steps_down_to_one():
    for steps in (1, 2, 5):
        best = optimal_schedule(ANNEALING, steps, 1e-3)
        assert best.schedule["lr"].to_numpy() == pytest.approx(np.full(steps, 1e-3), rel=1e-6)


def test_a_bounded_fall_gives_a_decay():
    best = best_of(shortest_decay=40)
    by_hand = [
        float(loss_of(np.clip(1 - (np.arange(200) - k) / 40, 0, 1) * 0.01, decay=0.95))
        for k in range(200)
    ]
    assert best.loss == pytest.approx(min(by_hand), rel=1e-4)
    assert not any("shortest_decay" in note.message for note in best.notes)


def continued(weights, fits=(PT, CPT), at=SHARES):
    fits = [jl.FittedLaw(*pair, area_options=area_options()) for pair in fits]
    after = wsd(2e-4, 4_000, 0.2, final=2e-5)
    return optimal_schedule(fits, 1_000, 2e-4, weights=weights, after=after, warmup=50, at=at)


@pytest.mark.full
def test_one_weight_is_one_loss():
    for weights, alone, k in (((1, 0), PT, 0), ((0, 1), CPT, 1)):
        both = continued(weights)
        single = continued(None, [alone], at=SHARES[k])
        assert both.loss == pytest.approx(single.loss, rel=1e-9)
        assert both.comparison[f"loss_{k + 1}"].to_numpy() == pytest.approx(
            single.comparison["loss"].to_numpy()
        )


def test_a_balance_is_a_weighted_sum_and_trades():
    found = [continued((weight, 1 - weight)) for weight in (0.0, 0.5, 1.0)]
    table = found[1].comparison
    np.testing.assert_allclose(table["loss"], 0.5 * table["loss_1"] + 0.5 * table["loss_2"])
    ours = np.array([one.comparison.loc[0, ["loss_1", "loss_2"]] for one in found])
    assert (np.diff(ours[:, 0]) <= 1e-9).all() and (np.diff(ours[:, 1]) >= -1e-9).all()
    # For the corpus left behind alone, the best is not to train.
    assert found[2].comparison["S1_cpt"][0] < 0.1 * found[0].comparison["S1_cpt"][0]


def test_without_rewarmup_rates_never_rise():
    after = wsd(2e-4, 1_000, 0.2, final=2e-5)
    peak = after[-1]
    best = optimal_schedule(CPT, 300, peak, at={"r": 1.0}, after=after, floor=1e-6)
    assert (np.diff(best.schedule["lr"].to_numpy()) <= 0).all()
    usual = join(after, cosine(peak, 300, 1e-6))
    assert best.comparison.set_index("schedule").loc["cosine", "S2_cpt"] == pytest.approx(
        jl.data.phase_areas(usual, at=[1_300]).S2_cpt[0]
    )


@pytest.mark.parametrize("carry", [False, True])
def test_rises_of_the_first_warmup_may_be_ignored(carry):
    counted, ignored = (
        best_of(counted={"carry_momentum": carry, "count_warmup": count}, warmup=50)
        for count in (True, False)
    )
    assert ignored.comparison["S2"][0] > counted.comparison["S2"][0]
    assert ignored.loss < counted.loss
    after = warmup(constant(1e-3, 60), 20)
    again = best_of(counted={"carry_momentum": carry}, warmup=50, after=after)
    # Nothing else is forgotten: the areas after a pre-training that never rose.
    level = join(constant(1e-3, 80), Schedule(again.schedule["lr"], 1e-3))
    expected = jl.data.phase_areas(level, 0.95, at=[280], carry_momentum=carry)
    assert again.comparison["S2_cpt"][0] == pytest.approx(expected.S2_cpt[0], rel=1e-9)
    assert again.comparison["S2_pt"][0] == pytest.approx(0, abs=1e-12)


def around(pair, count, scale=0.05):
    """Draws of all parameters, independent."""
    random = np.random.default_rng(0)
    return {k: v * np.exp(scale * random.standard_normal(count)) for k, v in pair[1].items()}


def fit_with(draws, decay):
    fit = simulated_fit("annealing")
    fit = dataclasses.replace(fit, params=dict(STRONG[1]), area_options=area_options(decay))
    return uncertainty.Draws(fit, draws)


def test_each_replicate_is_given_its_own_best():
    """Plain areas like a cliff: of each draw the best switch by trying all of them."""
    steps, peak, draws = 400, 0.01, around(STRONG, 40)
    best = optimal_schedule(fit_with(draws, 0.97), steps, peak)
    cliffs = np.array([cliff(k, steps) for k in range(1, steps + 1)])
    S1, S2 = jl.areas(cliffs, 0.97, "first", at=[steps])
    with jax.enable_x64(True):
        losses = laws.get("annealing")({k: v[:, None] for k, v in draws.items()},
                                       S1=S1[:, 0], S2=S2[:, 0])  # fmt: skip
        under = laws.get("annealing")(
            draws, S1=best.comparison["S1"][0], S2=best.comparison["S2"][0]
        )
    losses, table = np.asarray(losses), best.draws
    switch = np.argmin(losses, axis=1) + 1
    assert np.ptp(switch) > 5
    np.testing.assert_allclose(table["decay_start"], switch, atol=2)
    np.testing.assert_allclose(table["loss"], under, rtol=1e-12)
    # Switches far from the one found have knots of the first search alone, 6 steps apart.
    short = table["loss"] - table["regret"] - losses.min(axis=1)
    assert short.max() < 2e-5 and np.median(short) < 1e-7 < 1e-5 < best.regret
    assert (table["regret"] >= 0).all() and best.regret == np.median(table["regret"])
    for name, (low, high) in best.interval.items():
        ends = np.quantile(table[name], (0.05, 0.95))
        assert (low, high) == pytest.approx(tuple(ends), rel=1e-9), name
    low, high = best.interval["decay_start"]
    assert low < best.decay_start < high


def test_the_fall_is_dated_by_its_tenths():
    """Exactly by all rates; a run that never falls has its last step."""
    best = best_of(steps=2_000, counted={"decay": 0.99}, shortest_decay=300, warmup=20)
    free = best.schedule["lr"].to_numpy()[19:]
    done = (free[0] - free) / (free[0] - free[-1])
    by_rates = [20 + int(np.argmax(done >= share)) for share in (0.1, 0.9)]
    assert [best.decay_start, best.decay_end] == pytest.approx(by_rates, abs=1)
    flat = best_of(("annealing", STRONG[1] | {"C": 0.0}))
    assert flat.decay_start == flat.decay_end == 200


def test_another_length_and_peak_compile_nothing():
    optimal_schedule(ANNEALING, 500, 1e-3)
    programs = searching._losses._cache_size()
    optimal_schedule(STRONG, 3_000, 2e-3, floor=1e-4, shortest_decay=50)
    optimal_schedule(STRONG, 20, 2e-3)
    assert searching._losses._cache_size() == programs


def test_areas_are_counted_as_for_the_fit():
    fit = simulated_fit("annealing")
    counted, other = (
        dataclasses.replace(fit, area_options=area_options(decay)) for decay in (0.99, 0.9)
    )
    default, known = (optimal_schedule(one, 40_000, 2e-4) for one in (fit, counted))
    assert known.loss != default.loss
    with pytest.raises(UsageError, match="different ways"):
        optimal_schedule([counted, other], 400, 2e-4, weights=(0.5, 0.5))
