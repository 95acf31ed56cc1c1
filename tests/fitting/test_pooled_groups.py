"""What runs say of their prior: groups drawn together by as much as their runs show they vary."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import jaxlaw as jl
from jaxlaw.fitting import field_prior
from jaxlaw.fitting._group_spread import Around, expected_spread, given_priors

BASE = jl.laws.get("loss-compute-e")
OWN = ["E", "A", "gamma"]
LABELS = [f"g{k}" for k in range(5)]
LAW = jl.laws.grouped(BASE, LABELS, own=OWN)
AT = {"C": 1e23}


def experiment(spread, seed, noise=0.003, runs=6):
    """Runs of groups whose coordinates differ by a spread, and their true losses far out."""
    random, tables, true = np.random.default_rng(seed), [], []
    for label in LABELS:
        share, gamma, level = np.array([0.2, -1.8, 1.2]) + spread * random.standard_normal(3)
        params = BASE.scale_free.to_params(np.exp(level), {"share": share, "gamma": gamma})
        C = np.geomspace(1e18, 1e20, runs) * np.exp(0.3 * random.standard_normal(runs))
        loss = np.asarray(BASE(params, C=C)) * np.exp(noise * random.standard_normal(runs))
        tables.append(pd.DataFrame({"C": C, "loss": loss, "group": label}))
        true.append(float(BASE(params, **AT)))
    return pd.concat(tables, ignore_index=True), np.array(true)


# --- coordinates


def test_coordinates_of_groups_have_an_inverse():
    random = np.random.default_rng(1)
    names = list(LAW.scale_free.words)
    assert names[:3] == ["level[g0]", "share[g0]", "gamma[g0]"] and len(names) == 15
    assert tuple(LAW.of_groups) == tuple(LABELS) and LAW.scale_free.of is BASE
    values = {name: random.normal(-1.0, 0.3) for name in names}
    with jax.enable_x64(True):
        back = LAW.scale_free.of_params(LAW.scale_free.to_params(2.0, values))
    for name, value in values.items():
        shift = np.log(2.0) if name.startswith("level") else 0.0
        assert float(back[name]) == pytest.approx(value + shift, abs=1e-9)


def test_shared_parameters_are_those_of_every_group():
    law = jl.laws.grouped("chinchilla", ["a", "b"], own=["E"])
    params = {"E[a]": 1.5, "E[b]": 2.0, "A": 400.0, "B": 410.0, "alpha": 0.34, "beta": 0.3}
    with jax.enable_x64(True):
        known = law.scale_free.of_params(params)
    for name in ("balance", "alpha", "beta"):
        assert float(known[f"{name}[a]"]) == float(known[f"{name}[b]"])
    size = 1.5 + 400.0 * 1e8**-0.34 + 410.0 * 2e9**-0.3
    assert float(known["level[a]"]) == pytest.approx(np.log(size))
    assert jl.laws.grouped("kaplan", ["a", "b"], own=["Nc"]).scale_free is None


# --- the prior of all groups


def test_groups_have_the_prior_in_common_and_their_spread_apart():
    prior = field_prior()
    assert prior.pools(LAW) and prior.knows(LAW) and not prior.pools(BASE)
    spread = np.array([0.1, 0.2, 0.3])
    made = prior.pooled(LAW, 1.1, spread)
    assert not made.pools(LAW) and made.knows(LAW)
    assert made.coordinates_of(LAW) == tuple(LAW.scale_free.words)
    assert made.spread == {"level": 0.1, "share": 0.2, "gamma": 0.3}
    assert "share 0.2" in made.headline
    covariance = made.covariances[LAW.name].reshape(5, 3, 5, 3)
    common = prior.covariances[BASE.name]
    np.testing.assert_allclose(covariance[0, 1:, 3, 1:], common)
    np.testing.assert_allclose(covariance[2, 1:, 2, 1:], common + np.diag(spread[1:] ** 2))
    mean = made.means[LAW.name].reshape(5, 3)
    np.testing.assert_allclose(mean, np.tile([1.1, *prior.means[BASE.name]], (5, 1)))
    # Without runs nobody knows how much groups vary.
    for call in (
        lambda: prior.term(LAW),
        lambda: jl.fit_batch(LAW, {"C": [1e20], "group": [0]}, [3.0], prior=prior),
    ):
        with pytest.raises(jl.UsageError, match=r"learned from runs: give the prior of a fit"):
            call()


def test_what_cannot_be_pooled_is_refused_or_fitted_without():
    table, _ = experiment(0.1, 0)
    with pytest.raises(jl.DataError, match=r"row 0: input group is 'g9'; it takes g0, g1"):
        jl.fit(LAW, table.assign(group="g9"), prior="field")
    with pytest.raises(jl.UsageError, match=r"E\[g0\] is fixed or tied, and a fit"):
        jl.fit(LAW, table, prior="field", fixed={"E[g0]": 1.0})
    kaplan = jl.laws.grouped("kaplan", ["a", "b"], own=["Nc"])
    assert not field_prior().knows(kaplan)  # as of any law that no prior is of


def test_the_level_of_a_ledger_is_that_of_its_floor():
    """Draws of floor and share, as levels: mean and covariance to first order."""
    law = jl.laws.grouped("chinchilla", ["a", "b"], own=["E", "A"])
    covariance = np.diag([0.02, 0.05, 0.1, 0.1, 0.1]) ** 2
    covariance[0, 1] = covariance[1, 0] = 3e-4
    ledger = jl.fitting.Prior(
        coordinates={"chinchilla": ("log_floor", "share", "balance", "alpha", "beta")},
        means={"chinchilla": np.array([0.5, 0.4, 0.0, -1.0, -1.0])},
        covariances={"chinchilla": covariance},
        noise=0.004,
        experiments=pd.DataFrame(columns=["source", "name", "evaluation", "runs"]),
    )
    made = ledger.pooled(law, 99.0, np.full(5, 0.01))
    drawn = ledger.sample(jl.laws.get("chinchilla"), 20_000)
    levels = drawn[:, 0] + np.log1p(np.exp(-drawn[:, 1]))
    assert made.means[law.name][0] == pytest.approx(levels.mean(), abs=1e-3)
    seen = np.cov(levels, drawn[:, 1])
    np.testing.assert_allclose(made.covariances[law.name][:2, 5:7], seen, rtol=0.05, atol=1e-5)


def test_the_spread_expected_is_the_textbooks():
    """Of groups that are known exactly it is their standard deviation, with that before."""
    each, before = np.random.default_rng(0).normal(0, 0.5, (40, 2)), np.array([0.1, 0.2])
    there = np.arange(40)
    exact = expected_spread(each, np.zeros((80, 80)), there, before)
    np.testing.assert_allclose(exact**2 * 40, 40 * each.var(axis=0) + before**2, rtol=1e-6)
    # What is not known of them adds to what they scatter by.
    wide = expected_spread(each, 0.09 * np.eye(80), there, before)
    np.testing.assert_allclose(wide**2 - exact**2, 0.09 * 39 / 40, rtol=1e-6)
    # Groups without runs say nothing, and one alone says no more.
    np.testing.assert_allclose(
        expected_spread(each, np.zeros((80, 80)), there[:20], before),
        expected_spread(each[:20], np.zeros((40, 40)), there[:20], before),
    )
    np.testing.assert_allclose(expected_spread(each, np.eye(80), there[:1], before), before)


def test_what_another_spread_would_say_is_that_of_the_linear_model():
    """Runs of groups and normal priors: the posterior and the marginal likelihood are known."""
    random = np.random.default_rng(3)
    rows, size = random.normal(size=(7, 6)), 6
    slopes, mean, noise = random.normal(size=(6, 6)), random.normal(size=6), 0.3
    y = random.normal(size=7)

    def exact(covariance):
        prior = np.linalg.inv(covariance)
        known = rows.T @ rows / noise**2 + slopes.T @ prior @ slopes
        right = rows.T @ y / noise**2 + slopes.T @ prior @ mean
        # y = rows x + e and slopes x ~ N(mean, covariance).
        back = rows @ np.linalg.inv(slopes)
        marginal = back @ covariance @ back.T + noise**2 * np.eye(7)
        log_density = multivariate_normal(back @ mean, marginal).logpdf(y)
        return np.linalg.solve(known, right), np.linalg.inv(known), log_density

    now, *others = (np.diag(random.uniform(0.1, 2.0, size)) + 0.3 for _ in range(4))
    at, _, here = exact(now)
    around = Around(rows.T @ rows / noise**2, slopes @ at - mean, slopes, now)
    given = given_priors(around, np.array([now, *others]))
    for k, covariance in enumerate((now, *others)):
        there, spread, log_density = exact(covariance)
        np.testing.assert_allclose(at + given.moved[k], there, atol=1e-9)
        np.testing.assert_allclose(given.covariance[k], spread, atol=1e-9)
        change = given.log_likelihood[k] - given.log_likelihood[0]
        assert change == pytest.approx(log_density - here, abs=1e-8)


def test_draws_of_the_prior_have_spreads_of_their_own():
    prior = field_prior()
    made = prior.pooled(LAW, 1.1, np.array([0.1, 0.2, 0.3]))
    plain = made.draws(LAW, 5, seed=2)
    np.testing.assert_array_equal(plain["mean"], made.sample(LAW, 6, seed=2)[1:])
    assert list(plain) == ["mean"]
    spreads = np.array([[0.1, 0.2, 0.3], [0.5, 0.01, 0.3]])
    named = dict(zip(made.spread, spreads.T, strict=True))
    drawn = dataclasses.replace(made, spread_draws=named).draws(LAW, 4000)
    for k, spread in enumerate(spreads):
        wanted = prior.pooled(LAW, 1.1, spread).covariances[LAW.name]
        whiten = drawn["whiten"][k]
        np.testing.assert_allclose(np.linalg.inv(whiten.T @ whiten), wanted, atol=1e-9)
        # Groups differ from one another by the spread of their draw.
        each = drawn["mean"][k::2].reshape(-1, 5, 3)
        np.testing.assert_allclose(each.std(axis=1, ddof=1).mean(axis=0) / spread, 0.94, atol=0.03)


# --- recovery


@pytest.fixture(scope="module")
def found():
    """spread → way → errors of eight experiments, and the estimated spreads."""
    shared, ways = jl.laws.grouped(BASE, LABELS, own=["E"]), {}
    for spread in (0.0, 0.15, 0.8):
        each = {"own": [], "pooled": [], "shared": [], "spread": [], "held": []}
        for seed in range(8):
            table, true = experiment(spread, seed)
            for way, law, prior in (
                ("pooled", LAW, "field"), ("own", LAW, None), ("shared", shared, None)
            ):  # fmt: skip
                fit = jl.fit(law, table, prior=prior, n_starts=256)
                each[way].append(np.log(fit.predict(**AT, group=LABELS) / true))
                if prior is not None:
                    each["spread"].append(np.mean([*fit.prior.spread.values()]))
                    said = jl.covariance(fit, table).prediction(**AT, group=LABELS)
                    each["held"].append((said["low"] < true) & (true < said["high"]))
        ways[spread] = {way: np.sqrt(np.mean(np.square(rows))) for way, rows in each.items()}
        ways[spread]["held"] = np.mean(each["held"])
    return ways


@pytest.mark.full
def test_without_a_spread_groups_are_nearly_one(found):
    assert found[0.0]["spread"] < 0.12
    assert found[0.0]["pooled"] < 1.3 * found[0.0]["shared"]
    assert found[0.0]["pooled"] < 0.8 * found[0.0]["own"]


@pytest.mark.full
def test_of_a_moderate_spread_pooling_beats_both(found):
    assert 0.07 < found[0.15]["spread"] < 0.3
    assert found[0.15]["pooled"] < 0.9 * found[0.15]["own"]
    assert found[0.15]["pooled"] < 0.5 * found[0.15]["shared"]


@pytest.mark.full
def test_of_a_large_spread_groups_are_nearly_their_own(found):
    assert 0.4 < found[0.8]["spread"] < 1.2
    assert found[0.8]["pooled"] < found[0.8]["own"]
    assert found[0.8]["pooled"] < 0.5 * found[0.8]["shared"]


@pytest.mark.full
def test_intervals_of_pooled_groups_hold_the_truth(found):
    """120 of 95 %, a thousand times beyond the runs."""
    assert np.mean([ways["held"] for ways in found.values()]) > 0.8


# --- groups of few runs, or none


@pytest.fixture(scope="module")
def uneven():
    """Six runs of one group, one of another, none of the third."""
    table, _ = experiment(0.1, 4)
    kept = (table["group"] == "g0") | (table.index == table.index[table["group"] == "g1"][2])
    law = jl.laws.grouped(BASE, LABELS[:3])
    return law, table[kept], jl.fit(law, table[kept], prior="field")


@pytest.mark.full
def test_a_group_of_one_run_and_one_of_none_take_from_the_others(uneven, tmp_path):
    law, table, fit = uneven
    assert fit.params["gamma[g1]"] == pytest.approx(fit.params["gamma[g0]"], rel=0.2)
    assert fit.params["gamma[g2]"] == pytest.approx(fit.params["gamma[g0]"], rel=0.2)
    said = jl.covariance(fit, table).prediction(**AT, group=LABELS[:3])
    assert said["std_err"].is_monotonic_increasing
    # Taken over the spreads that three groups allow it is wider than by the estimated one alone.
    known = dataclasses.replace(fit, prior=dataclasses.replace(fit.prior, spread_draws={}))
    by_one = jl.covariance(known, table).prediction(**AT, group=LABELS[:3])["std_err"]
    assert (said["std_err"] > by_one).all() and said["std_err"][2] > 1.05 * by_one[2]
    notes = {note.code: note.message for note in fit.notes}
    assert notes["groups-pooled"].startswith("3 groups are drawn together: by their runs")
    assert ", of group g2 (" in notes["prior-decides"] and "unidentifiable" not in notes
    fit.save(tmp_path / "groups.json")
    again = jl.load(tmp_path / "groups.json")
    assert again.prior.spread == fit.prior.spread
    for name, draws in fit.prior.spread_draws.items():
        np.testing.assert_array_equal(again.prior.spread_draws[name], draws)
    # The prior of a fit is that of the next fit of these groups, and of a batch.
    later = jl.fit(law, table, prior=again.prior)
    assert later.params["gamma[g1]"] == pytest.approx(fit.params["gamma[g1]"], rel=0.05)
    assert later.prior.spread == fit.prior.spread


@pytest.mark.full
def test_units_and_the_losses_own_change_nothing(uneven):
    law, table, fit = uneven
    other = table.assign(C=table["C"] / 1e18, loss=1000 * table["loss"])
    again = jl.fit(law, other, units={"C": 1e18}, prior="field")
    here, there = (
        one.predict(C=AT["C"] / unit, group=LABELS[:3]) for one, unit in ((fit, 1), (again, 1e18))
    )
    np.testing.assert_allclose(there, 1000 * here, rtol=1e-5)
    for name, size in fit.prior.spread.items():
        assert again.prior.spread[name] == pytest.approx(size, rel=1e-3)


@pytest.mark.full
def test_draws_take_pooled_groups(uneven):
    law, table, fit = uneven
    points = {"C": 1e21, "group": LABELS[:3]}
    near = jl.covariance(fit, table)
    drawn = jl.bootstrap(fit, table, n_resamples=100, n_starts=1)
    for made in (near, drawn):
        assert "law-taken-as-right" in [note.code for note in made.notes if note.decides]
        assert "take the law to be right" in made.summary()
    near, drawn = near.prediction(**points), drawn.prediction(**points)
    np.testing.assert_allclose(near["std_err"], drawn["std_err"], rtol=0.35)
