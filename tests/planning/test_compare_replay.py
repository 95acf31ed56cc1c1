"""Replay ratios at equal compute on one corpus."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning

P = {**jl.simulate.TRUTHS["dcpt-l5"], "sigma": 0.05}  # tokens of other corpora help a little


def loss_at(seen, r):
    """The loss after so many tokens of the corpus at its share r."""
    helped = seen + (1 - r) * P["sigma"]
    return P["E"] + P["A"] / 1.8 ** P["alpha"] + P["B"] / helped ** P["beta"]


def curves(shares, points=400, top=10.0):
    """Losses along runs of one total length."""
    D = np.geomspace(0.01, top, points)
    rows = [pd.DataFrame({"r": r, "D": D, "N": 1.8, "loss": loss_at(r * D, r)}) for r in shares]
    return pd.concat(rows, ignore_index=True)


def test_where_the_losses_meet_against_a_fine_grid():
    shares = [0.2, 0.5, 0.9]
    plan = planning.compare_replay(curves(shares).sample(frac=1, random_state=0), tolerance=0.02)
    x = np.geomspace(0.9 * 0.01, 0.2 * 10, 200_001)
    spread = np.ptp([loss_at(x, r) for r in shares], axis=0)
    assert plan.meet == pytest.approx(x[spread > 0.02].max(), rel=1e-3)
    assert plan.spread_first == pytest.approx(spread[0], rel=1e-3)
    assert plan.spread_last == pytest.approx(spread[-1], rel=1e-3)
    assert plan.interval == {} and not plan.notes and len(plan.table) == 1200
    np.testing.assert_allclose(plan.table["corpus_compute"], 10.8 * plan.table["corpus_tokens"])


def test_straight_lines_meet_where_paper_and_pencil_say():
    table = {"r": [0.5] * 2 + [1.0] * 2, "D": [2.0, 200.0, 1.0, 100.0], "loss": [3, 2, 3.4, 2]}
    plan = planning.compare_replay(table, tolerance=0.1)
    assert plan.spread_first == pytest.approx(0.4) and plan.spread_last == pytest.approx(0)
    assert plan.meet == pytest.approx(100**0.75)  # three quarters of the way in log tokens
    assert planning.compare_replay(table, tolerance=0.5).meet == 0
    table["loss"] = [3, 2, 3.4, 2.2]
    apart = planning.compare_replay(table, tolerance=0.1)
    assert apart.meet == np.inf and "stay apart" in apart.headline
    assert np.isnan(plan.table["corpus_compute"]).all()


def test_the_least_observed_replay_that_brings_the_loss_back():
    """English rises first, and comes back the later the less of it is replayed (Zheng, fig. 4)."""
    D, shares = np.geomspace(1, 100, 30), [0.01, 0.05, 0.1, 0.5]
    table = pd.concat(
        pd.DataFrame({"share": r, "D": D, "loss": 2.4 + 1.2 / D**0.3 - 0.5 * r**0.25})
        for r in shares
    )
    ends = {r: 2.4 + 1.2 / 100**0.3 - 0.5 * r**0.25 for r in shares}
    least = min(r for r in shares if ends[r] <= 2.44)
    given = {"columns": {"r": "share"}}
    plan = planning.compare_replay(table[table["share"] > 0.02], start=2.44, **given)
    assert plan.least_back == least == 0.1 and plan.back_between == [0.05, 0.1]
    assert "least_back" in plan.summary()
    plan = planning.compare_replay(table[table["share"] > 0.02], start=1.0, **given)
    assert np.isnan(plan.least_back) and "out-of-reach" in [n.code for n in plan.notes]


def test_observed_losses_that_cannot_be_compared():
    table = curves([0.2, 0.9], points=5)
    for bad, says in (
        (table.drop(columns="r"), "no column r"),
        (table[table["r"] > 0.5], "1 shares of the corpus"),
        (curves([0.001, 0.9], points=5, top=5.0), "tokens of it in common"),
        (pd.concat([table, table.assign(N=3.0)]), "several sizes N"),
        (pd.concat([table, table]), "at the same r and D"),
    ):
        with pytest.raises(jl.DataError, match=says):
            planning.compare_replay(bad)
