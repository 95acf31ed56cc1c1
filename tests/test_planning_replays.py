"""Replay ratios at equal compute on one corpus."""

import numpy as np
import pytest
from planned import DOMAIN, drawn

import jaxlaw as jl
from jaxlaw import planning

# Of the rival laws this one knows nothing but the tokens of the corpus once σ is small.
TOKENS_ONLY = ("dcpt-l5", {**jl.simulate.TRUTHS["dcpt-l5"], "sigma": 1e-6})
HELPED = ("dcpt-l5", {**jl.simulate.TRUTHS["dcpt-l5"], "sigma": 0.05})


def test_losses_that_depend_on_the_corpus_tokens_alone_always_meet():
    plan = planning.compare_replay(TOKENS_ONLY, [0.2, 0.9], corpus_tokens=(0.1, 10), N=1.8)
    assert plan.meet == 0 and [n.code for n in plan.notes] == ["always-met"]
    losses = plan.table.pivot(index="corpus_tokens", columns="r", values="loss")
    np.testing.assert_allclose(losses[0.2], losses[0.9], rtol=1e-4)


def test_where_the_losses_meet_against_a_fine_grid():
    plan = planning.compare_replay(
        HELPED, [0.2, 0.5, 0.9], corpus_tokens=(0.01, 100), tolerance=0.02, N=1.8
    )
    p, x = HELPED[1], np.geomspace(0.01, 100, 2_000_001)

    def loss(r):
        seen = x + (1 - r) * p["sigma"]
        return p["E"] + p["A"] / 1.8 ** p["alpha"] + p["B"] / seen ** p["beta"]

    spread = np.abs(loss(0.2) - loss(0.9))
    assert plan.meet == pytest.approx(x[spread > 0.02].max(), rel=1e-5)
    assert plan.spread_first == pytest.approx(spread[0], rel=1e-9)
    assert plan.spread_last == pytest.approx(spread[-1], rel=1e-9)


def test_losses_that_never_meet():
    plan = planning.compare_replay(DOMAIN, [0.2, 0.9], corpus_tokens=(0.1, 10), N=1.8)
    assert plan.meet == np.inf and [n.code for n in plan.notes] == ["never-meet"]


def test_the_fitted_range_is_the_default_and_units_are_the_runs():
    boot = drawn(HELPED)
    plan = planning.compare_replay(boot, [0.2, 0.9], tolerance=0.02, N=1.8e9)
    tokens = plan.table["corpus_tokens"]
    assert (tokens.min(), tokens.max()) == pytest.approx((0.9e8, 0.2 * 6e11))
    np.testing.assert_allclose(plan.table["corpus_compute"], 6 * 1.8e9 * tokens)
    np.testing.assert_allclose(plan.table["D"] * plan.table["r"], tokens)
    low, high = plan.interval["meet"]
    assert low < plan.meet < high and not plan.notes
    beyond = planning.compare_replay(boot, [0.2, 0.9], corpus_tokens=(1e8, 1e13), N=1.8e9)
    assert "extrapolation" in [n.code for n in beyond.notes]


@pytest.mark.parametrize(
    "shares, options, says",
    [
        ([0.5], {}, "two or more"),
        ([0.0, 0.5], {}, r"in \(0, 1\]"),
        ([0.2, 0.5], {}, "give corpus_tokens"),
        ([0.2, 0.5], {"corpus_tokens": (2, 1)}, "least, largest"),
    ],
)
def test_wrong_usage(shares, options, says):
    with pytest.raises(jl.UsageError, match=says):
        planning.compare_replay(DOMAIN, shares, N=1.8, **options)
