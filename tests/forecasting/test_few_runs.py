"""Forecasts of three to twelve runs: what was known beforehand, and what is said of it."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.forecasting._cutoffs import (
    _noise_and_drift,
    default_laws,
    determined,
    known_beforehand,
    without_blind_priors,
)
from jaxlaw.forecasting._forecast import _beforehand
from jaxlaw.validation import candidates_of
from tests.conftest import DATA, needs_data

AT = {"N": 7e9, "D": 1.4e11}


def runs(n, seed=0, noise=0.003):
    random = np.random.default_rng(seed)
    N = np.geomspace(7e7, 9e8, n)
    D = N * random.uniform(12, 50, n)
    loss = 1.7 + 400 * N**-0.34 + 410 * D**-0.29
    return pd.DataFrame({"N": N, "D": D, "loss": loss * np.exp(noise * random.standard_normal(n))})


TRUTH = 1.7 + 400 * AT["N"] ** -0.34 + 410 * AT["D"] ** -0.29


@pytest.fixture(scope="module")
def made():
    return jl.forecast(None, runs(4), AT)


@pytest.mark.full
def test_four_runs_give_an_answer_that_says_what_it_rests_on(made):
    row = made.table.iloc[0]
    assert row["low"] < TRUTH < row["high"]
    assert 0.02 < (row["high"] - row["low"]) / 2 / row["estimate"] < 0.12
    assert 0.3 < row["prior_share"] <= row["from_parameters"]
    assert np.isfinite(row["wide_prior"]) and list(made.weights) == ["chinchilla", "skaling"]
    text = made.summary()
    assert "known beforehand: 27 experiments of 8 sources" in text and "(the prior" in text
    codes = {note.code for note in made.notes}
    assert "prior-width" in codes and "few-rows" not in codes
    assert made.prior.noise > 0


@pytest.mark.full
def test_the_file_holds_the_prior(made, tmp_path):
    made.save(tmp_path / "forecast.json")
    again = jl.load(tmp_path / "forecast.json")
    assert again.to_dict() == made.to_dict()
    np.testing.assert_array_equal(again.prior.means["skaling"], made.prior.means["skaling"])


@pytest.mark.full
def test_units_change_nothing(made):
    billions = runs(4).assign(N=lambda t: t.N / 1e9, D=lambda t: t.D / 1e9)
    again = jl.forecast(None, billions, {k: v / 1e9 for k, v in AT.items()},
                        units={"N": 1e9, "D": 1e9})  # fmt: skip
    per_byte = jl.forecast(None, runs(4).assign(loss=lambda t: t.loss / 4.3), AT)
    for name in ("estimate", "low", "high"):
        assert again.table[name][0] == pytest.approx(made.table[name][0], rel=1e-4)
        assert per_byte.table[name][0] * 4.3 == pytest.approx(made.table[name][0], rel=1e-4)


def test_laws_of_other_inputs_do_not_stand_back_behind_what_is_known():
    """Of experts the field says nothing: laws that know of them keep their part."""
    of_experts = candidates_of(["chinchilla", "routed-chinchilla"], {"prior": "field"}, {})
    of_size = candidates_of(["chinchilla", "kaplan", "farseer"], {"prior": "field"}, {})
    runs_read = jl.read_runs(runs(20))
    assert not known_beforehand(of_experts) and known_beforehand(of_size)
    assert determined(of_experts, runs_read) == of_experts
    kept = determined(of_size, runs_read)
    assert [one.label for one in kept] == ["chinchilla", "kaplan"]  # farseer has nine parameters


def test_where_tokens_are_repeated_laws_of_repetition_have_the_prior_and_others_none():
    laws = default_laws(jl.read_runs(runs(20).assign(U=lambda t: t.D / 4)))
    given = candidates_of(laws, {"prior": "field"}, {})
    taken = without_blind_priors(given)
    known = [one.label for one in taken if one.prior is not None]
    assert known == ["repetition", "repetition-geometric"] and known_beforehand(taken)
    assert [one.label for one in taken] == [one.label for one in given]
    # Laws of one set of inputs, or of inputs that no other has all of, keep theirs.
    for labels in (["chinchilla", "skaling"], ["chinchilla", "loss-compute-e"]):
        apart = candidates_of(labels, {"prior": "field"}, {})
        assert without_blind_priors(apart) == apart


def test_without_a_prior_so_few_runs_are_refused():
    with pytest.raises(jl.DataError, match="cannot determine"):
        jl.forecast(None, runs(4), AT, prior=None)


@pytest.mark.full
@pytest.mark.parametrize("count", [3, 12])
def test_intervals_shrink_with_runs_and_hold_the_truth(made, count):
    few = jl.forecast(None, runs(count), AT)
    row = few.table.iloc[0]
    assert row["low"] < TRUTH < row["high"]
    wide = [np.log(t["high"][0] / t["low"][0]) for t in (few.table, made.table)]
    assert (wide[0] < wide[1]) == (count > 4)


@pytest.mark.full
def test_a_plan_by_a_few_runs_stays_in_the_valley(made):
    plan = jl.planning.allocation(made, 1e22)
    assert 1e9 < plan.N < 1e11
    low, high = plan.interval["N"]
    assert 1e8 < low < plan.N < high < 1e13


@needs_data
@pytest.mark.full
def test_the_next_ladder_by_the_last_one():
    """Marin's routed models: three points of a ladder, after six of the one before."""
    before = pd.read_csv(f"{DATA}/marin_moe_v16_frontier.csv")
    now = pd.read_csv(f"{DATA}/marin_moe_67b_10t.csv")
    columns = {"C": "compute"}
    ledger = [jl.fit("loss-compute-e", before, columns=columns, evaluation="paloma macro")]
    later, target = {"C": 1.19e23}, 2.256  # what its authors saw; in no fit
    error = {}
    for name, prior in (("ledger", ledger), ("none", None)):
        fit = jl.fit("loss-compute-e", now, columns=columns, prior=prior)
        error[name] = abs(float(fit.predict(later)) / target - 1)
    assert error["ledger"] < 0.02 < 0.04 < error["none"]
    # A forecast takes off what laws have overestimated on public experiments, too.
    made = jl.forecast("loss-compute-e", now, at=later, columns=columns, prior=ledger)
    row = made.table.iloc[0]
    assert abs(row["estimate"] / target - 1) < 0.011
    assert row["low"] < target < row["high"] < 1.06 * target


def test_what_small_runs_are_off_by_is_distinguished_from_noise():
    """Twelve runs of 0.5 % of noise: with a drift, with none, and too few to tell."""
    prior = jl.fitting.field_prior()
    (candidate,) = candidates_of(["chinchilla"], {"prior": prior}, {})
    found = {}
    for drift, noise in ((0.015, 0.005), (0.0, 0.005)):
        table = runs(12, noise=noise)
        z = (table.N * table.D).to_numpy()
        off = drift * np.log(z.max() / z) * np.where(np.arange(12) % 2, 1.0, -1.0)
        data = jl.read_runs(table.assign(loss=table.loss * np.exp(off)), units={"N": 1, "D": 1})
        seen = data.observations(candidate.law, free=())
        found[drift] = _noise_and_drift(candidate, seen, z)
    assert 0.008 < found[0.015][1] < 0.03 and found[0.015][0] < 0.012
    assert found[0.0][1] < 0.004
    few = jl.read_runs(runs(3, noise=0.05), units={"N": 1, "D": 1})
    seen = few.observations(candidate.law, free=())
    assert _noise_and_drift(candidate, seen, np.array([1.0, 10.0, 100.0])) is None


@needs_data
@pytest.mark.full
def test_runs_whose_smallest_follow_another_law_are_noted():
    """One epoch each, from 7e15 FLOPs on: twelve of them, drawn at random."""
    t = pd.read_csv(f"{DATA}/data_constrained.csv")
    t = t[t.tokens <= t.unique_tokens * 1.001].drop_duplicates(["params", "tokens"])
    t = t.assign(N=t.params, D=t.tokens, C=6 * t.params * t.tokens).sort_values("C")
    few = t[t.C < 2e19].sample(12, random_state=0).sort_values("C")[["N", "D", "loss"]]
    prior = jl.fitting.field_prior(without="datablations")
    later, observed = t.iloc[-5:], t.loss.iloc[-5:]
    error = {}
    for name, rows in (("all", few), ("without the smallest", few.iloc[6:])):
        fit = jl.fit("skaling", rows, prior=prior)
        error[name] = np.median(np.abs(np.log(fit.predict(later[["N", "D"]]) / observed)))
        noted = any("scatter so much" in note.message for note in fit.notes)
        assert noted == (name == "all")
    assert error["without the smallest"] < 0.04 < error["all"]
    # A forecast sees to it by itself: its intervals are of runs that count less, the smaller.
    made = jl.forecast(None, few, later[["N", "D"]], prior=prior)
    assert np.median(np.abs(np.log(made.table["estimate"].to_numpy() / observed))) < error["all"]
    assert (made.table["low"].to_numpy() < observed).mean() >= 0.6
    codes = {note.code for note in made.notes}
    assert {"prior-conflict", "runs-fade"} <= codes


def test_laws_of_groups_weigh_as_the_laws_that_they_are_of():
    laws = [jl.laws.grouped(name, ["a", "b"]) for name in ("skaling", "chinchilla")]
    candidates = candidates_of(laws, {"prior": jl.fitting.field_prior()}, {})
    fits = SimpleNamespace(candidates=candidates)
    groups = _beforehand(fits, [one.label for one in candidates])
    candidates = candidates_of(["skaling", "chinchilla"], {"prior": jl.fitting.field_prior()}, {})
    plain = _beforehand(SimpleNamespace(candidates=candidates), ["skaling", "chinchilla"])
    np.testing.assert_array_equal(groups.weights, plain.weights)
    assert groups.weights[0] > 8 * groups.weights[1] and groups.drift == plain.drift > 0
