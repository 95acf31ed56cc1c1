"""Schedules: what each step uses, how they compose, what they refuse, and real ones."""

import os
from pathlib import Path

import numpy as np
import optax
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from jaxlaw import DataError, UsageError, read_loss_curves, schedules
from jaxlaw.schedules import (
    constant,
    cosine,
    from_optax,
    inverse_sqrt,
    join,
    linear,
    parse,
    two_stage,
    warmup,
    wsd,
)

EVERY = [
    constant(3e-4, 40),
    linear(3e-4, 40, 1e-5),
    cosine(3e-4, 40, 1e-5),
    inverse_sqrt(3e-4, 40, 10),
    two_stage(3e-4, 1e-4, 40, 25),
    wsd(3e-4, 40, 0.25),
    wsd(3e-4, 40, final=1e-5, shape="exponential"),
    wsd(3e-4, 40, final=1e-5, shape="1-sqrt", decay_steps=7),
]


@pytest.mark.parametrize("schedule", EVERY, ids=lambda one: one.name)
def test_a_schedule_starts_at_its_peak_and_never_rises(schedule):
    assert len(schedule) == 40 and schedule.rates.dtype == np.float64
    assert schedule.initial_lr == 3e-4 and schedule.boundary is None
    assert (np.diff(schedule.rates, prepend=schedule.initial_lr) <= 0).all()


def test_values_of_single_steps():
    assert cosine(2.0, 4)[1] == pytest.approx(1.0)  # step 2 of 4 is half-way
    assert linear(4.0, 4).rates.tolist() == [3, 2, 1, 0]
    assert inverse_sqrt(1.0, 30, 10)[29] == pytest.approx(0.5)  # √(10/40)
    assert two_stage(3.0, 1.0, 4, 3).rates.tolist() == [3, 3, 3, 1]
    assert wsd(4.0, 6, decay_steps=4).rates.tolist() == [4, 4, 3, 2, 1, 0]
    assert wsd(16.0, 4, 1, final=1, shape="exponential").rates.tolist() == [8, 4, 2, 1]
    assert wsd(1.0, 4, 1, shape="1-sqrt")[0] == pytest.approx(0.5)
    assert wsd(1.0, 4, 0).rates.tolist() == [1] * 4


@given(
    start=st.floats(0, 1), peak=st.floats(0, 1), rise=st.integers(1, 20), rest=st.integers(1, 20)
)
def test_warm_up_comes_before_and_arrives(start, peak, rise, rest):
    base = cosine(peak, rest)
    warmed = warmup(base, rise, start)
    assert len(warmed) == rise + rest and warmed.initial_lr == start
    assert warmed[rise - 1] == pytest.approx(peak)
    assert (warmed[rise:] == base.rates).all()
    np.testing.assert_allclose(
        np.diff(warmed[:rise], prepend=start), (peak - start) / rise, atol=1e-15
    )


def test_join_records_the_boundary():
    whole = join(cosine(3e-4, 30, 3e-5), warmup(linear(1e-4, 10), 5, 3e-5))
    assert (len(whole), whole.boundary, whole.initial_lr) == (45, 30, 3e-4)
    assert whole[29] == pytest.approx(3e-5) and whole[34] == pytest.approx(1e-4)
    with pytest.raises(UsageError, match="two phases at most"):
        join(whole, constant(1e-5, 3))
    with pytest.raises(UsageError, match="then join"):
        warmup(whole, 5)


def test_optax_schedules_equal_ours():
    pairs = [
        (optax.constant_schedule(3e-4), constant(3e-4, 50)),
        (optax.cosine_decay_schedule(3e-4, 50, alpha=0.1), cosine(3e-4, 50, 3e-5)),
        (optax.linear_schedule(3e-4, 1e-5, 50), linear(3e-4, 50, 1e-5)),
        (
            optax.warmup_cosine_decay_schedule(1e-5, 3e-4, 10, 50, 2e-5),
            warmup(cosine(3e-4, 40, 2e-5), 10, 1e-5),
        ),
    ]
    for theirs, ours in pairs:
        result = from_optax(theirs, 50, count=1)
        np.testing.assert_allclose(result.rates, ours.rates, rtol=1e-12)
        assert result.initial_lr == pytest.approx(ours.initial_lr, rel=1e-12)


def test_the_count_of_optax():
    decay = optax.linear_schedule(1.0, 0.0, 10)
    first = from_optax(decay, 10)  # as in an optimizer: the first update uses schedule(0)
    assert (first[0], first.initial_lr) == (1.0, 1.0)
    assert first[-1] == pytest.approx(0.1)
    assert from_optax(decay, 10, count=1)[-1] == pytest.approx(0, abs=1e-7)
    branching = from_optax(lambda count: 1.0 if count < 3 else 0.5, 5)
    assert branching.rates.tolist() == [1, 1, 1, 0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("wsd:peak=2e-4,steps=500,decay=0.2", wsd(2e-4, 500, 0.2)),
        ("cosine:peak=1e-3, steps=60, warmup=10", warmup(cosine(1e-3, 50), 10)),
        (
            "cosine:peak=3e-4,steps=90 + linear:peak=1e+0,steps=20,warmup=5,start=3e-5",
            join(cosine(3e-4, 90), warmup(linear(1, 15), 5, 3e-5)),
        ),
        (
            "wsd:peak=2e-4,steps=50,decay_steps=9,shape=exponential,final=1e-5",
            wsd(2e-4, 50, decay_steps=9, shape="exponential", final=1e-5),
        ),
    ],
)
def test_a_schedule_in_one_line(text, same):
    result = parse(text)
    assert (result.rates == same.rates).all()
    assert (result.initial_lr, result.boundary) == (same.initial_lr, same.boundary)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cosine:peak=1", "lacks an argument: steps"),
        ("cosine:peak=1,steps=5,peak=2", "has peak twice"),
        ("cosine:peak=1,steps=5,warmup=5", "warmup=5 leaves none of 5 steps"),
    ],
)
def test_a_line_that_is_wrong(text, says):
    with pytest.raises(UsageError, match=says):
        parse(text)


def test_rates_cannot_be_changed_behind_a_schedule():
    with pytest.raises(ValueError, match="read-only"):
        EVERY[0].rates[0] = 1.0


DATA = os.environ.get("JAXLAW_DATA")


@pytest.mark.skipif(DATA is None, reason="JAXLAW_DATA is not set: real schedules not checked")
def test_real_schedules_have_the_sums_their_source_states():
    """Theirs have the rate of step 0 and not the last: the sum differs by half a trapezoid."""
    table = pd.read_csv(Path(DATA, "lr_schedules.csv"))
    for row in table.itertuples():
        rest = row.total_steps - row.warmup_steps
        stable = 0 if np.isnan(row.stable_end_step) else int(row.stable_end_step) - row.warmup_steps
        made = {
            "cosine": lambda r=row, n=rest: cosine(r.peak_lr, n, r.final_lr),
            "constant": lambda r=row, n=rest: constant(r.peak_lr, n),
            "two_stage_constant": lambda r=row, n=rest, s=stable: two_stage(
                r.peak_lr, r.final_lr, n, s
            ),
            "wsd_exponential_decay": lambda r=row, n=rest, s=stable: wsd(
                r.peak_lr, n, final=r.final_lr, shape="exponential", decay_steps=n - s
            ),
            "wsd_linear_decay": lambda r=row, n=rest, s=stable: wsd(
                r.peak_lr, n, final=r.final_lr, decay_steps=n - s
            ),
        }[row.kind]()
        shift = made.initial_lr - made[-1] if row.kind != "two_stage_constant" else 0.0
        total = row.sum_lr_warmup + made.rates.sum() + shift
        assert total == pytest.approx(row.sum_lr_total, rel=1e-9), row.schedule


@pytest.mark.skipif(DATA is None, reason="JAXLAW_DATA is not set: real logs not checked")
def test_real_logs_follow_their_schedules():
    logs = pd.read_csv(Path(DATA, "lr_loss_curves.csv"))
    log = logs[(logs.model_params_millions == 25) & (logs.schedule == "cosine_24000")]
    log = log.drop(columns="schedule")
    with pytest.raises(DataError, match="no learning rate is logged at"):
        read_loss_curves(log)
    (result,) = read_loss_curves(log, fill="linear", S1_before=0).schedules.values()
    ours = cosine(3e-4, 24000 - 2160, 3e-5)
    assert result.initial_lr == ours.initial_lr
    np.testing.assert_allclose(result[1:], ours[: len(result) - 1], rtol=1e-3)


@settings(max_examples=30)
@given(st.sampled_from(EVERY), st.sampled_from(EVERY))
def test_joined_phases_keep_their_rates(first, second):
    both = join(first, second)
    assert (both.rates == np.concatenate([first, second])).all()
    assert schedules.Schedule is type(both)
