"""Priors: coordinates without units, the library of the field, one's own ledger."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import jaxlaw as jl
from jaxlaw.fitting import _prior, field_prior, ledger_prior, run_hashes
from jaxlaw.fitting._prior import FLOOR, LAWS, Experiment

TRUTH = {"E": 1.7, "A": 400.0, "B": 410.0, "alpha": 0.34, "beta": 0.30}


def chinchilla(N, D, p=TRUTH):
    return p["E"] + p["A"] * N ** -p["alpha"] + p["B"] * D ** -p["beta"]


def table(n=3, noise=0.0, seed=0, p=TRUTH):
    """So many runs of a known law."""
    random = np.random.default_rng(seed)
    N = np.geomspace(5e7, 3e9, n)[random.permutation(n)]
    D = N * random.uniform(10, 60, n)
    loss = chinchilla(N, D, p) * np.exp(noise * random.standard_normal(n))
    return pd.DataFrame({"N": N, "D": D, "loss": loss})


# --- coordinates


@pytest.mark.parametrize("name", LAWS)
@given(seed=st.integers(0, 1000), unit=st.floats(0.1, 10.0))
def test_coordinates_have_an_inverse_and_no_unit(name, seed, unit):
    law, random = jl.laws.get(name), np.random.default_rng(seed)
    values = {
        key: random.normal(0.0 if key != "gamma" else -2.0, 0.7) for key in law.scale_free.words
    }
    with jax.enable_x64(True):
        params = law.scale_free.to_params(3.1, values)
        back = law.scale_free.of_params(params)
        for key, value in values.items():
            assert float(back[key]) == pytest.approx(value, abs=1e-9)
        assert float(law(params, **law.scale_free.reference)) == pytest.approx(3.1)
        # The same runs in another unit of the loss: other E, A, B, the same coordinates.
        other = law.scale_free.of_params(law.scale_free.to_params(3.1 * unit, values))
    for key, value in values.items():
        assert float(other[key]) == pytest.approx(value, abs=1e-9)
    assert float(other[FLOOR] - back[FLOOR]) == pytest.approx(np.log(unit), abs=1e-9)


@pytest.mark.parametrize("name", ["repetition", "repetition-geometric"])
def test_laws_of_repetition_are_chinchillas_while_tokens_are_new(name):
    law, base = jl.laws.get(name), jl.laws.get("chinchilla")
    values = {"share": 0.4, "balance": -0.2, "alpha": -1.0, "beta": -1.1}
    rest = {"R_D": 15.0, "R_N": 1e11} if name == "repetition" else {"delta": 0.1}
    assert set(law.scale_free.open) == set(rest)
    with jax.enable_x64(True):
        params = law.scale_free.to_params(3.1, values)
        back = law.scale_free.of_params(params | rest)
        new = law(params | rest, **law.scale_free.reference)
        once = law(params | rest, N=7e8, D=3e10, U=3e10)
        again = law(params | rest, N=7e8, D=3e10, U=1e10)
        assert float(new) == pytest.approx(3.1, rel=1e-6)
        assert float(once) == pytest.approx(float(base(params, N=7e8, D=3e10)), rel=1e-6)
        assert float(again) > float(once)
    assert {key: float(back[key]) for key in values} == pytest.approx(values)
    known = field_prior()
    np.testing.assert_array_equal(known.mean_of(law), known.mean_of(base))


# --- the library


def test_the_field_leaves_sources_out_by_name():
    whole, without = field_prior(), field_prior(without=["olmo", "kempner"])
    gone = {"olmo", "kempner"}
    assert gone <= set(whole.experiments["source"])
    assert not gone & set(without.experiments["source"])
    assert (without.means["skaling"] != whole.means["skaling"]).all()
    for prior in (whole, without):
        for law in LAWS:
            spread = np.sqrt(np.diag(prior.covariances[law]))
            assert np.linalg.eigvalsh(prior.covariances[law]).min() > 0
            assert (spread > 0.1).all() and (spread < 1.0).all()
    with pytest.raises(jl.UsageError, match="no source 'olmoo'.*olmo"):
        field_prior(without="olmoo")
    with pytest.raises(jl.UsageError, match="leaves no source"):
        field_prior(without=set(whole.experiments["source"]))


def made_up(mean, covariance, noise, count, seed, errors):
    """Experiments whose coordinates are drawn from a known distribution, one of each source."""
    random = np.random.default_rng(seed)
    names = _prior._names("chinchilla")
    found = []
    for k in range(count):
        true = random.multivariate_normal(mean, covariance)
        error = errors * np.eye(5)
        seen = np.concatenate([[0.5], true]) + random.multivariate_normal(np.zeros(5), error)
        found.append(Experiment(f"s{k}", f"e{k}", "", "chinchilla", seen,
                                error / _prior.INFLATION, noise, 50, {}, ""))  # fmt: skip
    return found, names


def test_random_effects_recover_a_known_distribution():
    mean = np.array([0.3, -0.1, -1.0, -0.9])
    covariance = np.diag([0.3, 0.4, 0.2, 0.25]) ** 2
    covariance[0, 1] = covariance[1, 0] = 0.05
    # Errors of fits as large as the spread: their variance must not count as spread.
    known, names = made_up(mean, covariance, 0.004, 400, 0, 0.09)
    found, spread, sources = _prior._random_effects(known, names)
    assert sources == 400
    np.testing.assert_allclose(found, mean, atol=0.1)  # four standard errors
    np.testing.assert_allclose(np.diag(spread), np.diag(covariance), rtol=0.35)


def test_experiments_of_a_source_count_as_one():
    """Ten copies of one experiment teach no more than it alone."""
    known, names = made_up(np.zeros(4), np.eye(4) * 0.04, 0.004, 6, 1, 1e-4)
    copies = [dataclasses.replace(known[0], name=f"copy {k}") for k in range(9)]
    once = _prior._random_effects(known, names)
    again = _prior._random_effects([*known, *copies], names)
    np.testing.assert_allclose(once[0], again[0], atol=1e-9)
    np.testing.assert_allclose(once[1], again[1], atol=1e-9)


def test_what_a_fit_leaves_open_weighs_little():
    known, names = made_up(np.zeros(4), np.eye(4) * 0.01, 0.004, 8, 2, 1e-4)
    mean, _, _ = _prior._random_effects(known, names)
    odd = dataclasses.replace(known[0], source="odd", mean=known[0].mean + 5.0,
                              covariance=np.eye(5) * 1e4)  # fmt: skip
    moved, _, _ = _prior._random_effects([*known, odd], names)
    np.testing.assert_allclose(moved, mean, atol=0.05)


# --- one's own ledger


def ladder(floor, name="mine", size=0.02):
    mean = np.array([np.log(floor), 0.2, 0.0, -1.0, -1.0])
    return Experiment("lab", name, "paloma", "chinchilla", mean, np.eye(5) * size**2, 0.003, 30, {},
                      "")  # fmt: skip


class Fitted:
    def __init__(self, experiment):
        self.experiment = experiment


def test_a_ledger_draws_towards_its_own_and_tightens_with_each():
    wide = field_prior().covariances["chinchilla"]
    one = ledger_prior([Fitted(ladder(1.5))])
    two = ledger_prior([Fitted(ladder(1.5)), Fitted(ladder(1.52, "other"))])
    assert one.evaluation == "paloma" and one.coordinates["chinchilla"][0] == FLOOR
    assert one.means["chinchilla"][0] == pytest.approx(np.log(1.5), abs=0.01)
    assert one.means["chinchilla"][3] == pytest.approx(-1.0, abs=0.05)  # not the field's −0.9
    spread = [np.diag(p.covariances["chinchilla"]) for p in (one, two)]
    assert (spread[0][1:] < np.diag(wide)).all() and (spread[1] < spread[0]).all()
    # Laws of which the ledger has none are as the field has them.
    np.testing.assert_array_equal(one.means["skaling"], field_prior().means["skaling"])
    apart = ledger_prior([Fitted(ladder(1.3)), Fitted(ladder(1.8, "other"))])
    assert apart.covariances["chinchilla"][0, 0] > 1.5 * two.covariances["chinchilla"][0, 0]


def test_ladders_of_several_files_are_of_one_source_and_each_counts():
    """Each fit names its own file: how they vary is learned from all of them."""
    files = [dataclasses.replace(ladder(floor), source=f"{floor}.csv") for floor in (1.3, 1.8)]
    same = [dataclasses.replace(one, source="runs.csv") for one in files]
    several, one_name = (ledger_prior([Fitted(one) for one in each]) for each in (files, same))
    assert len(several.experiments) == len(one_name.experiments) == 2
    assert set(several.experiments["source"]) == {"own"}
    np.testing.assert_allclose(
        several.covariances["chinchilla"], one_name.covariances["chinchilla"], rtol=1e-9
    )
    near = ledger_prior([Fitted(ladder(1.5)), Fitted(ladder(1.52))])
    assert several.covariances["chinchilla"][0, 0] > 1.5 * near.covariances["chinchilla"][0, 0]


def test_ledgers_that_make_no_sense_are_refused(tmp_path):
    other = dataclasses.replace(ladder(1.5), evaluation="c4")
    with pytest.raises(jl.UsageError, match="several evaluations, 'c4', 'paloma'"):
        ledger_prior([Fitted(ladder(1.5)), Fitted(other)])
    assert ledger_prior([Fitted(ladder(1.5)), Fitted(other)], "c4").evaluation == "c4"
    with pytest.raises(jl.DataError, match="evaluation="):
        ledger_prior([])
    with pytest.raises(jl.UsageError, match="no folder"):
        ledger_prior(tmp_path / "none")
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(jl.DataError, match="make no prior"):
        ledger_prior(tmp_path)
    with pytest.raises(jl.UsageError, match="prior is a float"):
        _prior.prior_of(3.0)


def test_an_experiment_counts_once_however_many_copies_of_its_runs_there_are():
    """In another order and unit, with more runs; five copies had made the floor's spread .083."""
    runs = table(40, 0.004)
    seen, later = (jl.read_runs(t, units={"N": 1, "D": 1}).observations("chinchilla")
                   for t in (runs.iloc[:30], runs))  # fmt: skip
    billions = jl.read_runs(runs.iloc[29::-1].assign(D=runs.D / 1e9), units={"N": 1, "D": 1e9})
    hashes, of_more = run_hashes(seen), run_hashes(later)
    assert hashes == run_hashes(billions.observations("chinchilla"))
    of_compute = runs.iloc[:30].assign(C=6 * runs.N * runs.D)
    assert hashes == run_hashes(jl.read_runs(of_compute).observations("loss-compute-e"))
    mine = dataclasses.replace(ladder(1.5), hashes=hashes)
    larger = dataclasses.replace(ladder(1.6), hashes=of_more, runs=40)
    other = dataclasses.replace(ladder(1.52), hashes=run_hashes(
        jl.read_runs(table(30, 0.004, seed=1), units={"N": 1, "D": 1}).observations("chinchilla")
    ))  # fmt: skip
    once = ledger_prior([Fitted(larger)])
    copies = ledger_prior([Fitted(one) for one in (mine, mine, larger, mine)])
    np.testing.assert_array_equal(copies.covariances["chinchilla"], once.covariances["chinchilla"])
    assert copies.noise == once.noise and len(copies.experiments) == 1
    # The very runs that are forecast are no earlier experiment.
    both = ledger_prior([Fitted(mine), Fitted(other)])
    without = both.without_runs(of_more)
    np.testing.assert_allclose(
        without.covariances["chinchilla"], ledger_prior([Fitted(other)]).covariances["chinchilla"]
    )
    assert both.without_runs(()) is both
    nothing = once.without_runs(hashes)
    np.testing.assert_array_equal(nothing.means["chinchilla"], field_prior().means["chinchilla"])
    assert nothing.evaluation == ""


@pytest.mark.full
def test_a_ledger_is_a_folder_of_saved_fits(tmp_path):
    fit = jl.fit("chinchilla", table(40, 0.004), evaluation="c4")
    assert fit.experiment.evaluation == "c4" and fit.experiment.runs == 40
    assert fit.experiment.ranges["N"] == pytest.approx(fit.ranges["N"])
    fit.save(tmp_path / "first.json")
    jl.fit("kaplan", table(40, 0.004), evaluation="c4").save(tmp_path / "kaplan.json")
    prior = _prior.prior_of(tmp_path)
    assert prior.evaluation == "c4" and len(prior.experiments) == 1
    assert np.exp(prior.means["chinchilla"][0]) == pytest.approx(TRUTH["E"], rel=0.1)
    assert prior.means["chinchilla"][3] == pytest.approx(np.log(TRUTH["alpha"]), abs=0.15)
    # In another unit of N: the same experiment.
    billions = table(40, 0.004).assign(N=lambda t: t.N / 1e9)
    again = jl.fit("chinchilla", billions, units={"N": 1e9, "D": 1}, evaluation="c4").experiment
    np.testing.assert_allclose(again.mean, fit.experiment.mean, atol=1e-4)
    np.testing.assert_allclose(again.covariance, fit.experiment.covariance, rtol=0.02)


# --- how best settings move


def test_recipes_say_what_they_printed_and_leave_open_what_they_did_not():
    of_recipe = {one.source: one for one in _prior.recipes()}
    names = list(_prior.field_prior().coordinates["tuned"])
    assert names == ["lr_N", "lr_D", "batch_N", "batch_D"] and "stepfun" not in of_recipe
    deepseek, along = of_recipe["deepseek"], np.array([0.524, 0.476, 0.0, 0.0])
    assert along @ deepseek.mean[1:] == pytest.approx(-0.125, abs=1e-3)
    spread = deepseek.covariance[1:, 1:]
    assert along @ spread @ along < 0.06**2  # of a power of C it knows the sum, and no more
    across = np.array([1.0, -1.0, 0.0, 0.0])
    assert across @ spread @ across > 1.0
    assert (np.sqrt(np.diag(of_recipe["cerebras"].covariance[1:, 1:]))[:2] > 1.0).all()


def test_a_tuned_law_is_known_by_its_base_and_its_recipes():
    prior, law = field_prior(), jl.laws.tuned("chinchilla")
    assert prior.knows(law) and len(prior.mean_of(law)) == 4 + len(prior.coordinates["tuned"])
    mean, spread = prior.mean_of(law), prior.covariance_of(law)
    assert mean[:4] == pytest.approx(prior.means["chinchilla"])
    assert spread[4:, 4:] == pytest.approx(prior.covariances["tuned"]) and not spread[:4, 4:].any()
    fewer = field_prior(without=["lingle", "openeurollm"])
    assert np.diag(fewer.covariances["tuned"])[0] > np.diag(prior.covariances["tuned"])[0]
    assert fewer.means["chinchilla"] == pytest.approx(prior.means["chinchilla"])
    assert not prior.knows(jl.laws.tuned("chinchilla", "lr"))
    # Of groups it says of each what it says of the law.
    grouped = jl.laws.get("skaling[E,A,alpha,B,beta,kappa of a|b]")
    np.testing.assert_array_equal(prior.covariance_of(grouped), prior.covariances["skaling"])
    values = {"E": [1.7, 2], "A": [400, 500], "B": [2e3, 1e3], "alpha": [0.3, 0.4],
              "beta": [0.3, 0.2], "kappa": [0.8, 1.1]}  # fmt: skip
    params = {f"{k}[{g}]": ends[i] for k, ends in values.items() for i, g in enumerate("ab")}
    known = grouped.scale_free.of_params(params)
    level = np.exp(known["log_floor"] + np.logaddexp(0, -known["share"]))
    assert grouped.scale_free.to_params(level, known) == pytest.approx(params, rel=1e-4)
