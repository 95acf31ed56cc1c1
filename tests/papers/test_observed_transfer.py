"""From scratch against continual, by frontiers of compute and by curves."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import papers, planning, simulate
from tests.fixtures.drawn_laws import CONTINUAL, SCRATCH, drawn

FRONTIERS = tuple(jl.published()[f"zheng-2024-frontier-{way}"] for way in ("scratch", "cpt"))
FLOORED = (
    ("loss-compute-e", {"E": 1.55, "A": 1500.0, "gamma": 0.17}),
    ("loss-compute-e", {"E": 1.55, "A": 1100.0, "gamma": 0.165}),
)
TOKENS = np.geomspace(2e7, 2e10, 60)


def curve(pair, N=1e9, noise=0.0, seed=0, tokens=TOKENS):
    inputs = {"N": np.full(len(tokens), N), "D": tokens}
    return simulate.simulate_runs(*pair, inputs, noise=noise, seed=seed)


# ------------------------------------------------------------- frontiers


def test_the_papers_frontiers_save_what_they_say():
    """Zheng 2024, §4.2: 48, 45 and 43 % at 1e17, 1e20 and 1e23 FLOPs."""
    savings = planning.frontier_savings(*FRONTIERS, [1e17, 1e20, 1e23])
    assert savings.table["saved"].tolist() == pytest.approx([0.4777, 0.4520, 0.4250], abs=5e-5)
    a, b = (FRONTIERS[1].params[name] for name in "ab")
    loss = FRONTIERS[0].predict(C=savings.table["compute"].to_numpy())
    np.testing.assert_allclose(savings.table["loss"], loss, rtol=1e-12)
    np.testing.assert_allclose(savings.table["continual_compute"], (a / loss) ** (1 / b), rtol=1e-9)
    assert "range-unknown" in {note.code for note in savings.notes}


def test_both_forms_of_the_law_may_meet():
    savings = planning.frontier_savings(FRONTIERS[0], FLOORED[1], [1e18, 1e20])
    law, params = FLOORED[1]
    at = jl.laws.get(law)(params, C=savings.table["continual_compute"].to_numpy())
    np.testing.assert_allclose(at, savings.table["loss"], rtol=1e-6)


def test_the_same_law_saves_nothing():
    savings = planning.frontier_savings(FLOORED[0], FLOORED[0], [1e17, 1e22])
    np.testing.assert_allclose(savings.table["saved"], 0.0, atol=1e-9)
    assert savings.notes == ()


def test_a_loss_that_no_compute_reaches_is_noted():
    high = ("loss-compute-e", FLOORED[1][1] | {"E": 2.5})
    savings = planning.frontier_savings(FLOORED[0], high, [1e17, 1e23])
    assert np.isneginf(savings.table["saved"].iloc[-1])
    assert [note.code for note in savings.notes] == ["out-of-reach"]
    back = planning.frontier_savings(FLOORED[1], FLOORED[0], [1e20])
    assert (back.table["saved"] < 0).all() and not back.notes


def test_draws_give_intervals_and_extrapolation_is_noted():
    ranges = {"C": (1e17, 1e21)}
    both = [drawn(one, ranges=ranges) for one in FLOORED]
    savings = planning.frontier_savings(*both, [1e18, 1e20])
    table = savings.table
    for name in ("loss", "continual_compute", "saved"):
        assert (table[f"{name}_low"] < table[name]).all() and (
            table[name] < table[f"{name}_high"]
        ).all()
    assert savings.notes == ()
    beyond = planning.frontier_savings(*both, [1e18, 1e23])
    said = [note.message for note in beyond.notes if note.code == "extrapolation"]
    assert len(said) == 2 and "from-scratch" in said[0] and "continual" in said[1]


# ------------------------------------------------------------- curves


def test_observed_curves_give_what_their_laws_say():
    """Zheng 2024, figure 2: D_scratch − D_continual at equal loss, for each size."""
    tables = [pd.concat([curve(pair, N) for N in (1e9, 4e9)]) for pair in (SCRATCH, CONTINUAL)]
    transfer = papers.observed_transfer(*tables)
    truth = planning.data_transferred(SCRATCH, CONTINUAL, N=[1e9, 4e9], D=TOKENS).table
    inside = truth["scratch_D"].between(TOKENS[0], TOKENS[-1]).to_numpy()
    assert transfer["scratch_D"].notna().tolist() == inside.tolist()
    for name in ("scratch_D", "transferred", "saved"):
        one, other = transfer[name][inside], truth[name][inside]
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3 * other.abs().max())


def test_noise_does_not_move_what_curves_give():
    truth = planning.data_transferred(SCRATCH, CONTINUAL, N=1e9, D=TOKENS).table["scratch_D"]
    errors = [
        papers.observed_transfer(
            curve(SCRATCH, noise=0.004, seed=seed), curve(CONTINUAL, noise=0.004, seed=99 + seed)
        )["scratch_D"].to_numpy()
        / truth
        for seed in range(20)
    ]
    middle = np.log(np.stack(errors)[:, 10:50])
    assert abs(middle.mean()) < 0.01 and middle.std() < 0.08


def test_of_its_own_curve_nothing_is_transferred():
    transfer = papers.observed_transfer(curve(SCRATCH), curve(SCRATCH))
    np.testing.assert_allclose(transfer["transferred"] / transfer["D"], 0, atol=1e-12)


def test_losses_that_scratch_does_not_reach_have_no_answer():
    short = curve(SCRATCH, tokens=TOKENS[:30])
    transfer = papers.observed_transfer(short, curve(CONTINUAL))
    lower = transfer["loss"] < short["loss"].min()
    assert lower.any() and transfer["scratch_D"].isna()[lower].all()
    assert transfer["saved"].isna()[lower].all()
    with pytest.raises(jl.DataError, match="no continual loss lies within"):
        papers.observed_transfer(short, curve(CONTINUAL).assign(loss=1.0))
    with pytest.raises(jl.DataError, match="no continual loss lies within"):
        papers.observed_transfer(short.assign(loss=3.0), curve(CONTINUAL))


def test_columns_of_ones_own():
    mine = {"N": "n_params", "D": "n_tokens"}
    tables = [curve(pair) for pair in (SCRATCH, CONTINUAL)]
    theirs = [table.rename(columns=mine) for table in tables]
    pd.testing.assert_frame_equal(
        papers.observed_transfer(*theirs, columns=mine), papers.observed_transfer(*tables)
    )
    pd.testing.assert_frame_equal(
        papers.loss_envelope(theirs[0], 5, columns=mine), papers.loss_envelope(tables[0], 5)
    )
    with pytest.raises(jl.UsageError, match="'M'"):
        papers.observed_transfer(*theirs, columns=mine | {"M": "n_params"})


def transferred(sizes=5, noise=0.0, seed=0):
    """Points of 2·D^0.6·N^0.3, each size with an error of its own."""
    N = np.repeat(np.geomspace(1e8, 3e9, sizes), 8)
    D = np.tile(np.geomspace(1e8, 1e10, 8), sizes)
    errors = np.repeat(np.random.default_rng(seed).standard_normal(sizes), 8)
    return pd.DataFrame(
        {"N": N, "D": D, "transferred": 2 * D**0.6 * N**0.3 * np.exp(noise * errors)}
    )


@pytest.mark.full
def test_the_law_of_what_is_transferred():
    """Zheng 2024, §3.2: k·D^a·N^b, after Hernandez 2021."""
    law = papers.transfer_law(transferred())
    assert [law.k, law.a, law.b] == pytest.approx([2.0, 0.6, 0.3], rel=1e-9)
    assert law.scatter < 1e-9 and law.notes == ()
    noisy = [papers.transfer_law(transferred(noise=0.1, seed=seed)) for seed in range(100)]
    inside = [low <= 0.3 <= high for low, high in (law.interval["b"] for law in noisy)]
    assert 88 <= sum(inside) <= 99
    wide = papers.transfer_law(transferred(noise=0.1), level=0.99).interval["b"]
    assert wide[0] < noisy[0].interval["b"][0] < noisy[0].interval["b"][1] < wide[1]


def test_what_the_law_of_transfer_leaves_out_or_refuses():
    rows = transferred()
    rows.loc[3, "transferred"] = np.nan
    assert papers.transfer_law(rows).a == pytest.approx(0.6, rel=1e-9)
    rows.loc[[7, 15], "transferred"] = [-1e8, 0.0]
    assert "2 of 39 points transfer nothing" in papers.transfer_law(rows).notes[0].message
    two = papers.transfer_law(transferred(sizes=2))
    assert two.interval == {} and [note.code for note in two.notes] == ["few-resamples"]
    with pytest.raises(jl.DataError, match="of 1 sizes"):
        papers.transfer_law(transferred(sizes=1))
    with pytest.raises(jl.DataError, match="0 rows with data transferred"):
        papers.transfer_law(rows.assign(transferred=-1.0))
