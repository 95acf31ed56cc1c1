"""S1 and S2 against their definition in exact arithmetic, and what must hold of them."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from jaxlaw import UsageError, _areas as lr_areas, areas, read_loss_curves
from jaxlaw.data import phase_areas
from jaxlaw.schedules import constant, cosine, join, linear, warmup, wsd

STEPS = 300  # crosses rows and levels of the recurrence; one shape, few compilations
FEW = settings(max_examples=25, deadline=None)
rates_of = hnp.arrays(float, (STEPS,), elements=st.floats(0, 1, width=32))
decays = st.sampled_from([0.0, 0.5, 0.9, 0.999, 1 - 1e-9, 1.0])


def exact(lr, decay=0.999, initial=0.0):
    """The double sum of the definition, in extended precision."""
    before = np.array([initial, *lr], np.longdouble)
    distance = np.arange(len(lr))[:, None] - np.arange(len(lr))
    powers = np.where(distance >= 0, np.longdouble(decay) ** np.maximum(distance, 0), 0)
    momentum = (powers * (before[:-1] - before[1:])).sum(axis=1)
    return np.cumsum(before[1:]), np.cumsum(momentum)


def recurrence(lr, decay=0.999, initial=0.0, epsilon=0.0, peak=0):
    """The definition, step by step."""
    momentum, S2, previous, sums = 0.0, 0.0, initial, []
    for step, rate in enumerate(lr, 1):
        drop = previous - rate
        momentum = decay * momentum + (max(drop, 0.0) if step <= peak else drop)
        S2, previous = S2 + momentum * rate**epsilon, rate
        sums.append(S2)
    return np.array(sums)


def assert_same(found, expected, rtol=1e-10, atol=0.0):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


SCHEDULES = {
    "cosine": cosine(3e-4, 200, 3e-5),
    "wsd": wsd(3e-4, 200, 0.3),
    "warm-up": warmup(wsd(3e-4, 150, 0.3, final=1e-5, shape="exponential"), 50),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("decay", [0.0, 0.9, 0.999, 1 - 1e-12, 1.0])
def test_areas_are_the_double_sum(name, decay):
    schedule = SCHEDULES[name]
    result = areas(schedule, decay)
    assert result.S1.dtype == np.float64
    expected = exact(schedule, decay, schedule.initial_lr)
    # In a warm-up falls and rises cancel: relative to the larger of them.
    atol = 1e-12 * np.abs(expected[1]).max() if name == "warm-up" else 0.0
    assert_same(result, expected, atol=atol)


def test_a_long_schedule_is_the_recurrence():
    lr = warmup(cosine(3e-4, 19_000), 1_000)
    S1, S2 = areas(lr)
    assert_same((S1, S2), (np.cumsum(lr), recurrence(lr)))


@FEW
@given(rates_of, rates_of, st.floats(0.1, 2), decays)
def test_areas_are_linear_in_the_rates(one, other, factor, decay):
    both = areas(factor * one + other, decay)
    apart = zip(areas(one, decay), areas(other, decay), strict=True)
    assert_same(both, [factor * a + b for a, b in apart], atol=1e-9)


@FEW
@given(rates_of, decays, st.sampled_from([1, 100, STEPS - 1]))
def test_carried_momentum_makes_the_parts_sum_to_the_whole(lr, decay, boundary):
    whole = areas(lr, decay, 0.5)
    split = phase_areas(lr, decay, 0.5, boundary=boundary, carry_momentum=True)
    assert_same(split.whole, whole, atol=1e-10)
    assert_same(areas(lr, decay, 0.5, boundary=boundary, carry_momentum=True), split.whole)
    assert (split.S1_cpt[:boundary] == 0).all() and (split.S2_cpt[:boundary] == 0).all()
    assert (split.S2_pt[boundary:] == split.S2_pt[boundary - 1]).all()


def test_stopped_momentum_is_each_phase_in_advance():
    lr, b = np.array(join(wsd(3e-4, 200, 0.3), warmup(linear(1e-4, 60), 40))), 200
    split = phase_areas(lr, initial_lr=3e-4, boundary=b)
    assert_same(
        (split.S1_pt[:b], split.S2_pt[:b], split.S1_cpt[b:], split.S2_cpt[b:]),
        (*areas(lr[:b], initial_lr=3e-4), *areas(lr[b:], initial_lr=lr[b - 1])),
        rtol=1e-13,
    )
    carried = phase_areas(lr, initial_lr=3e-4, boundary=b, carry_momentum=True)
    assert (carried.S2_cpt[b:] > split.S2_cpt[b:]).all()  # the tail of a fall
    assert (carried.S2_pt == split.S2_pt).all() or np.allclose(carried.S2_pt, split.S2_pt, 1e-12)


@FEW
@given(rates_of, decays)
def test_falling_rates_have_positive_areas(lr, decay):
    falling = np.sort(lr)[::-1].copy()
    S1, S2 = areas(falling, decay, "first")
    assert (S2 >= 0).all() and (np.diff(S1) >= -1e-12).all()


@FEW
@given(st.floats(0, 1, allow_subnormal=False), decays)  # XLA takes subnormal numbers for 0
def test_a_constant_rate_anneals_nothing(rate, decay):
    S1, S2 = areas(np.full(STEPS, rate), decay, rate)
    assert (S2 == 0).all()
    np.testing.assert_allclose(S1, rate * np.arange(1, STEPS + 1), rtol=1e-14)


def test_a_batch_is_the_loop():
    lr = np.random.default_rng(0).random((7, STEPS))
    initial = np.linspace(0, 1, 7)
    S1, S2 = areas(lr, 0.9, initial, at=[0, 5, 300, 17])
    assert S1.shape == S2.shape == (7, 4)
    for row in range(7):
        full = areas(lr[row], 0.9, initial[row])
        picked = [np.concatenate([[0], one])[[0, 5, 300, 17]] for one in full]
        assert_same((S1[row], S2[row]), picked, rtol=1e-13)


@pytest.mark.parametrize("options", [{}, {"epsilon": 0.1}, {"count_warmup": False}])
def test_blocks_and_groups_change_nothing(monkeypatch, options):
    lr = np.random.default_rng(1).random((5, 700))
    whole = areas(lr, **options)
    monkeypatch.setattr(lr_areas, "BLOCK", 256)  # one schedule at a time, in three pieces
    assert_same(areas(lr, **options), whole, rtol=1e-12, atol=1e-13)
    assert_same(areas(lr, at=[700, 256, 1], **options), [one[:, [699, 255, 0]] for one in whole])
    monkeypatch.setattr(lr_areas, "BLOCK", 1500)  # two schedules at a time, the last alone
    assert_same(areas(lr, **options), whole, rtol=1e-12, atol=1e-13)


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [{}, {"epsilon": 0.1}, {"count_warmup": False}, {"epsilon": 0.0}, {"at": [0, 9, 200]}],
)
def test_host_and_device_agree(options):
    lr = np.array(SCHEDULES["warm-up"])[None] * np.array([[1.0], [0.0], [2.5]])
    with jax.enable_x64(True):
        there = areas(jnp.asarray(lr), 0.99, **options)
    assert isinstance(there.S1, jax.Array) and there.S1.dtype == jnp.float64
    here = areas(lr, 0.99, **options)
    assert isinstance(here.S1, np.ndarray)
    assert_same(there, here, rtol=1e-11, atol=1e-14)


def test_a_warm_up_ignored():
    lr = np.array(warmup(wsd(3e-4, 200, 0.5), 100))
    peak = int(np.argmax(lr)) + 1
    S2 = areas(lr, count_warmup=False).S2
    np.testing.assert_allclose(S2, recurrence(lr, peak=peak), rtol=1e-12)
    assert (S2[:peak] == 0).all()
    assert_same([S2[99:]], [areas(lr[99:], initial_lr="first").S2], rtol=1e-12)
    uneven = np.array([0.1, 0.5, 0.2, 1.0, 0.4, 0.7])  # the fall before the peak counts
    result = areas(uneven, 0.9, count_warmup=False).S2
    np.testing.assert_allclose(result, recurrence(uneven, 0.9, peak=4), rtol=1e-13)


def test_momentum_weighted_with_the_rate():
    lr = np.array(SCHEDULES["warm-up"])
    result = areas(lr, epsilon=0.1).S2
    np.testing.assert_allclose(result, recurrence(lr, epsilon=0.1), rtol=1e-11)
    plain = areas(lr)
    assert_same(areas(lr, epsilon=0.0), plain, rtol=1e-10, atol=1e-15)


def test_a_log_that_starts_after_its_warm_up():
    whole = warmup(cosine(3e-4, 200), 100)
    S1, S2 = areas(whole[100:], initial_lr="first", S1_before=whole[:100].sum(), at=[0, 200])
    np.testing.assert_allclose(S1, [whole[:100].sum(), whole.rates.sum()], rtol=1e-13)
    assert S2[0] == 0 and S2[1] == pytest.approx(exact(whole[101:], 0.999, whole[100])[1][-1])


def test_schedules_bring_their_initial_rate_and_boundary():
    joined = join(constant(3e-4, 50), linear(3e-4, 30))
    result = phase_areas(joined)
    assert (result.S2_pt == 0).all() and (result.S2_cpt[50:] > 0).all()
    assert_same(areas(joined), areas(joined.rates, initial_lr=3e-4, boundary=50))
    both = areas([joined, join(linear(1e-4, 50), linear(1e-5, 30))])
    assert both.S1.shape == (2, 80)
    np.testing.assert_allclose(both.S2[0], areas(joined).S2)
    at = phase_areas(joined, at=[20, 50, 70, 0])
    assert_same(at, [np.concatenate([[0], one])[[20, 50, 70, 0]] for one in result], rtol=1e-13)


@pytest.mark.full
@pytest.mark.parametrize("decay", [0.0, 0.9, 0.999, 1.0])
def test_derivatives_are_those_of_the_double_sum(decay):
    lr = np.array(SCHEDULES["warm-up"])[:60] * 1e4
    weights = np.random.default_rng(3).random((2, 60))
    with jax.enable_x64(True):

        def score(rates, decay, initial):
            return sum(
                (w * a).sum() for w, a in zip(weights, areas(rates, decay, initial), strict=True)
            )

        rates, low, high = jnp.asarray(lr), max(decay - 1e-5, 0), min(decay + 1e-5, 1)
        by_rate, by_decay, by_initial = jax.grad(score, (0, 1, 2))(rates, decay, 0.1)

        def reference(rates, decay):
            S1, S2 = exact(rates, decay, 0.1)
            return float((weights[0] * S1).sum() + (weights[1] * S2).sum())

        slope = (reference(lr, high) - reference(lr, low)) / (high - low)
        assert by_decay == pytest.approx(slope, rel=1e-6 if low < decay < high else 1e-3)
        for k in (0, 1, 15, 16, 17, 59):
            step = np.eye(60)[k] * 1e-3  # the areas are linear in the rates: any step is exact
            slope = (reference(lr + step, decay) - reference(lr - step, decay)) / 2e-3
            assert by_rate[k] == pytest.approx(slope, rel=1e-9, abs=1e-9)
        ahead = float(score(rates, decay, 1.1) - score(rates, decay, 0.1))
        assert by_initial == pytest.approx(ahead, rel=1e-9)


@pytest.mark.full
def test_derivatives_go_through_every_option():
    with jax.enable_x64(True):
        lr = jnp.asarray(np.array(join(warmup(linear(1.0, 30), 10), cosine(0.5, 20)))) + 0.1
        options = {"boundary": 40, "carry_momentum": True, "count_warmup": False}

        def last(decay, epsilon):
            result = areas(lr, decay, 0.2, epsilon=epsilon, at=np.array([60]), **options)
            return result.S2[0]

        result = jax.grad(last, (0, 1))(0.9, 0.1)
        near = [
            (last(0.9 + 1e-6, 0.1) - last(0.9 - 1e-6, 0.1)) / 2e-6,
            (last(0.9, 0.1 + 1e-6) - last(0.9, 0.1 - 1e-6)) / 2e-6,
        ]
        np.testing.assert_allclose(result, near, rtol=1e-6)
        assert np.isfinite(jax.hessian(lambda d: areas(lr, d).S2[-1])(0.9))


@pytest.mark.full
def test_inside_jit_and_vmap():
    constant_inside = jax.jit(lambda x: x * areas(np.ones(STEPS)).S1[-1])(2.0)
    assert constant_inside == 2 * STEPS
    lr = np.random.default_rng(4).random((3, STEPS)).astype(np.float32)
    inside = jax.jit(lambda rates, decay: areas(rates, decay))(lr, 0.99)
    assert inside.S2.shape == (3, STEPS) and inside.S2.dtype == jnp.float32
    outside = areas(lr, 0.99)
    assert_same(inside, outside, rtol=2e-5)
    mapped = jax.vmap(lambda row: areas(row, 0.99).S2[-1])(jnp.asarray(lr))
    np.testing.assert_allclose(mapped, outside.S2[:, -1], rtol=1e-5)


@pytest.mark.parametrize("name", ["cosine", "wsd"])
def test_float32_loses_little(name):
    rates = SCHEDULES[name].rates.astype(np.float32)
    long = np.repeat(rates, 500)  # 100,000 steps
    result = areas(jnp.asarray(long), 0.999, "first")
    assert result.S1.dtype == jnp.float32
    assert_same(result, areas(long, 0.999, "first"), rtol=2e-6)


@pytest.mark.parametrize(
    ("says", "name", "values"),
    [
        (r"decay is λ in \[0, 1\]", "decay", [1.1, -0.1, np.nan, [0.9, 2], np.full((2, 2), 0.9)]),
        ("from 1 to 9", "boundary", [0, 10, -1]),
        ("not finite", "lr", [[1, np.nan], [np.inf, 1], [1, 2, np.inf]]),
        ("negative at step 3", "lr", [[1.0, 0.0, -1e-3], [[1.0, 0, 1], [1.0, 1.0, -np.inf]]]),
        (r"must be \(steps,\)", "lr", [np.ones(shape) for shape in ((0,), (2, 0), (2, 2, 2))]),
        ("the steps are 0 to 10", "at", [[11]]),
        ("integer steps", "at", [[1.5]]),
        ("finite and not negative", "initial_lr", [-1, np.nan, np.inf]),
        ("finite and not negative", "S1_before", [-1, np.nan, np.inf]),
        ("epsilon is one finite number", "epsilon", [np.nan]),
        ("'first'", "initial_lr", ["last"]),
        ("same length", "lr", [[constant(1, 3), constant(1, 4)]]),
    ],
)
def test_numbers_that_cannot_be_right_say_so(says, name, values):
    for value in values:
        with pytest.raises(UsageError, match=says):
            areas(**{"lr": np.ones(10), name: value})
    with pytest.raises(UsageError, match="no boundary"):
        phase_areas(np.ones(10))


@pytest.mark.parametrize("options", [{}, {"at": [5, 100], "epsilon": 0.5}])
def test_a_jitted_function_is_the_same_in_and_outside_of_float64(options):
    lr = jnp.linspace(1, 0, 100, dtype=jnp.float32)
    function = jax.jit(lambda lr: areas(lr, **options))
    outside = function(lr)
    with jax.enable_x64(True):
        inside = function(lr)
    assert inside.S2.dtype == outside.S2.dtype == jnp.float32
    assert_same(inside, outside, rtol=1e-6)
    assert_same(function(lr), outside, rtol=0)


def test_one_shape_compiles_once():
    lr = jnp.linspace(1, 0, 1000)
    areas(lr)
    compiled = lr_areas._advance._cache_size()
    areas(lr[::-1], 0.99, 0.3)
    areas(lr, 0.5, S1_before=2.0)
    assert lr_areas._advance._cache_size() == compiled


DATA = os.environ.get("JAXLAW_DATA")


@pytest.mark.skipif(DATA is None, reason="JAXLAW_DATA is not set: real curves not checked")
def test_areas_of_real_runs():
    data = Path(DATA)
    logs, table = pd.read_csv(data / "lr_loss_curves.csv"), pd.read_csv(data / "lr_schedules.csv")
    for row in table.itertuples():
        log = logs[(logs.schedule == row.schedule) & (logs.model_params_millions == 25)]
        log = log.drop(columns="schedule")
        (run,) = read_loss_curves(log, fill="linear", S1_before=0).schedules.values()
        at = log.step - log.step.iloc[0] + 1
        skipped = (log.step.iloc[0] - row.warmup_steps) * row.peak_lr  # constant that long
        S1, S2 = areas(run, at=at, S1_before=row.sum_lr_warmup + skipped)
        assert S1.shape == (len(log),) and S2[0] == 0  # no jump before the log
        missed = (row.total_steps - log.step.iloc[-1]) * row.peak_lr
        assert row.sum_lr_total - missed <= S1[-1] <= row.sum_lr_total * 1.001
        closed = run.initial_lr - run[-1]  # (1 − λ)·S2 = η_0 − η_t − λ·m_t, momentum nearly spent
        if row.kind == "constant":
            assert (S2 == 0).all()
        else:
            assert 0.5 < 0.001 * S2[-1] / closed <= 1 + 1e-9


@pytest.mark.parametrize("carry", [False, True])
def test_a_pair_says_for_either_phase_whether_rises_count(carry):
    rates = np.array([1.0, 3.0, 2.0, 1.0, 4.0, 2.0, 1.0])

    def of(count_warmup):
        return phase_areas(rates, 0.9, boundary=4, carry_momentum=carry, count_warmup=count_warmup)

    both, neither, mixed = of(True), of(False), of((False, True))
    np.testing.assert_array_equal(mixed.S2_pt, neither.S2_pt)
    # The momentum that goes over the boundary is that of the first phase as it was counted.
    tail = np.cumsum(0.9 ** np.arange(1, 4)) if carry else np.zeros(3)
    m = {name: result.S2_pt[3] - result.S2_pt[2] for name, result in (("b", both), ("n", neither))}
    expected = both.S2_cpt[4:] + (m["n"] - m["b"]) * tail
    np.testing.assert_allclose(mixed.S2_cpt[4:], expected, rtol=1e-12)
    assert not np.allclose(mixed.S2_cpt, neither.S2_cpt)
    for plain, pair in ((both, (True, True)), (neither, (False, False))):
        for one, other in zip(plain, of(pair), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_spec_string_is_the_schedule_and_traced_steps_are_refused():
    line = "cosine:peak=3e-4,steps=200,final=3e-5"
    assert_same(areas(line), areas(cosine(3e-4, 200, 3e-5)))
    with pytest.raises(UsageError, match="at is traced by JAX"):
        jax.jit(lambda at: areas(np.ones(20), at=at))(np.array([10]))
    with pytest.raises(UsageError, match="peak is .*a number that JAX does not trace"):
        jax.grad(lambda peak: areas(cosine(peak, 200)).S1[-1])(3e-4)
