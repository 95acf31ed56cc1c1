"""Replay ratios at equal compute on one corpus."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.fixtures.drawn_laws import DOMAIN, drawn

# Of the rival laws this one knows nothing but the tokens of the corpus once σ is small.
TOKENS_ONLY = ("dcpt-l5", {**jl.simulate.TRUTHS["dcpt-l5"], "sigma": 1e-6})
HELPED = ("dcpt-l5", {**jl.simulate.TRUTHS["dcpt-l5"], "sigma": 0.05})


def test_losses_that_depend_on_the_corpus_tokens_alone_always_meet():
    plan = planning.compare_replay(TOKENS_ONLY, [0.2, 0.9], corpus_tokens=(0.1, 10), at={"N": 1.8})
    assert plan.meet == 0 and "are one at equal tokens" in plan.headline
    losses = plan.table.pivot(index="corpus_tokens", columns="r", values="loss")
    np.testing.assert_allclose(losses[0.2], losses[0.9], rtol=1e-4)


def test_where_the_losses_meet_against_a_fine_grid():
    plan = planning.compare_replay(
        HELPED, [0.2, 0.5, 0.9], corpus_tokens=(0.01, 100), tolerance=0.02, at={"N": 1.8}
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
    plan = planning.compare_replay(DOMAIN, [0.2, 0.9], corpus_tokens=(0.1, 10), at={"N": 1.8})
    assert plan.meet == np.inf and "stay apart" in plan.headline


def test_the_fitted_range_is_the_default_and_units_are_the_runs():
    boot = drawn(HELPED)
    plan = planning.compare_replay(boot, [0.2, 0.9], tolerance=0.02, at={"N": 1.8e9})
    tokens = plan.table["corpus_tokens"]
    assert (tokens.min(), tokens.max()) == pytest.approx((0.9e8, 0.2 * 6e11))
    np.testing.assert_allclose(plan.table["corpus_compute"], 6 * 1.8e9 * tokens)
    np.testing.assert_allclose(plan.table["D"] * plan.table["r"], tokens)
    low, high = plan.interval["meet"]
    assert low < plan.meet < high and not plan.notes
    beyond = planning.compare_replay(boot, [0.2, 0.9], corpus_tokens=(1e8, 1e13), at={"N": 1.8e9})
    assert "extrapolation" in [n.code for n in beyond.notes]


def curves(shares, points=400, top=10.0):
    """Losses of HELPED along runs of one total length."""
    rows = [
        {"r": r, "D": D, "N": 1.8, "loss": float(loss)}
        for r in shares
        for D, loss in zip(
            np.geomspace(0.01, top, points),
            _helped(r, np.geomspace(0.01, top, points)),
            strict=True,
        )
    ]
    return pd.DataFrame(rows)


def _helped(r, D):
    p = HELPED[1]
    seen = r * D + (1 - r) * p["sigma"]
    return p["E"] + p["A"] / 1.8 ** p["alpha"] + p["B"] / seen ** p["beta"]


def test_observed_losses_meet_where_those_of_the_law_do():
    shares = [0.2, 0.5, 0.9]
    seen = planning.compare_replay(curves(shares).sample(frac=1, random_state=0), tolerance=0.02)
    ends = (0.9 * 0.01, 0.2 * 10)
    law = planning.compare_replay(HELPED, shares, corpus_tokens=ends, tolerance=0.02, at={"N": 1.8})
    assert 0.01 < law.meet < 1.9 and seen.meet == pytest.approx(law.meet, rel=1e-3)
    assert seen.spread_first == pytest.approx(law.spread_first, rel=1e-3)
    assert seen.spread_last == pytest.approx(law.spread_last, rel=1e-3)
    assert list(seen.table) == list(law.table) and len(seen.table) == 1200
    assert seen.interval == {} and [n.code for n in seen.notes] == ["interpolated"]
    np.testing.assert_allclose(seen.table["corpus_compute"], 10.8 * seen.table["corpus_tokens"])
    two = planning.compare_replay(curves(shares), [0.5, 0.9], tolerance=0.02)
    assert two.meet < seen.meet and set(two.table["r"]) == {0.5, 0.9}


def test_straight_lines_meet_where_paper_and_pencil_say():
    table = {"r": [0.5] * 2 + [1.0] * 2, "D": [2.0, 200.0, 1.0, 100.0], "loss": [3, 2, 3.4, 2]}
    plan = planning.compare_replay(table, tolerance=0.1)
    assert plan.spread_first == pytest.approx(0.4) and plan.spread_last == pytest.approx(0)
    assert plan.meet == pytest.approx(100**0.75)  # three quarters of the way in log tokens
    assert planning.compare_replay(table, tolerance=0.5).meet == 0
    table["loss"] = [3, 2, 3.4, 2.2]
    assert planning.compare_replay(table, tolerance=0.1).meet == np.inf
    assert np.isnan(plan.table["corpus_compute"]).all()


def test_the_least_observed_replay_that_brings_the_loss_back():
    """English rises first, and comes back the later the less of it is replayed (Zheng, fig. 4)."""
    D, shares = np.geomspace(1, 100, 30), [0.01, 0.05, 0.1, 0.5]
    rows = [
        pd.DataFrame({"r": r, "D": D, "loss": 2.4 + 1.2 / D**0.3 - 0.5 * r**0.25}) for r in shares
    ]
    table = pd.concat(rows)
    ends = {r: 2.4 + 1.2 / 100**0.3 - 0.5 * r**0.25 for r in shares}
    least = min(r for r in shares if ends[r] <= 2.44)
    plan = planning.compare_replay(table, [0.05, 0.1, 0.5], start=2.44)
    assert plan.least_back == least == 0.1 and "between 0.05" in str(plan.notes)
    assert "least_back" in plan.summary()
    plan = planning.compare_replay(table, [0.1, 0.5], start=1.0)
    assert np.isnan(plan.least_back) and "never-back" in [n.code for n in plan.notes]


@pytest.mark.parametrize(
    "change, error, says",
    [
        ({"columns": {"r": "share"}}, jl.DataError, "no column r"),
        ({"shares": [0.2, 0.3]}, jl.UsageError, "share 0.3 was not observed"),
        ({"shares": [0.2]}, jl.DataError, "compare two or more"),
        ({"corpus_tokens": (0.001, 1.0)}, jl.UsageError, "which every share has seen"),
        ({"at": {"N": 7.0}}, jl.DataError, "compare two or more"),
        ({"start": -1.0}, jl.UsageError, "start is -1"),
    ],
)
def test_observed_losses_that_cannot_be_compared(change, error, says):
    change = dict(change)
    table = curves([0.2, 0.9], points=5).rename(columns=change.pop("columns", {}))
    with pytest.raises(error, match=says):
        planning.compare_replay(table, **change)


def test_shares_without_tokens_in_common_and_several_sizes():
    table = curves([0.001, 0.9], points=5, top=5.0)
    with pytest.raises(jl.DataError, match="no tokens of the corpus in common"):
        planning.compare_replay(table)
    both = pd.concat([table, table.assign(N=3.0)])
    with pytest.raises(jl.UsageError, match=r"say which with at={'N': …} \(1.8, 3\)"):
        planning.compare_replay(both)
    with pytest.raises(jl.UsageError, match="critical_ratio"):
        planning.compare_replay(DOMAIN, [0.2, 0.9], start=2.0, at={"N": 1.8})


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
        planning.compare_replay(DOMAIN, shares, at={"N": 1.8}, **options)
