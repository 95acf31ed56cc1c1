"""Posteriors: simulated truth, a reference by other means, problems together and alone."""

import importlib

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw._jit import in_float64
from jaxlaw.fitting import field_prior
from jaxlaw.forecasting import posteriors

posterior_module = importlib.import_module("jaxlaw.forecasting.posterior")

TRUTH = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}


def made(n, noise=0.004, seed=0):
    """Runs of a published law, smallest first."""
    random = np.random.default_rng(seed)
    N = np.exp(np.sort(random.uniform(np.log(5e7), np.log(2e9), n)))
    D = N * np.exp(random.uniform(np.log(5), np.log(80), n))
    loss = np.asarray(jl.laws.get("chinchilla")(TRUTH, N=N, D=D))
    return pd.DataFrame({"N": N, "D": D, "loss": loss * np.exp(noise * random.standard_normal(n))})


@pytest.fixture(scope="module")
def runs():
    return made(20)


@pytest.fixture(scope="module")
def draws(runs):
    return jl.posterior("chinchilla", runs)


def test_draws_hold_the_truth_and_the_noise(draws):
    for name in ("E", "alpha", "beta"):
        low, high = np.quantile(draws.params[name], [0.005, 0.995])
        assert low < TRUTH[name] < high
    assert 0.002 < draws.noise < 0.007
    assert draws.effective >= posterior_module.ENOUGH and draws.conflict > 0.01
    assert draws.law is jl.laws.beyond("chinchilla")


def test_the_density_that_is_drawn_is_the_one_that_is_documented(runs):
    """Importance sampling of a plain numpy density, at the draws' own moments."""
    prior, law = field_prior(), jl.laws.get("chinchilla")
    draws = jl.posterior(law, runs)
    mean, root = prior.mean_of(law), np.linalg.cholesky(prior.covariance_of(law))
    N, D, y = (runs[name].to_numpy() for name in ("N", "D", "loss"))
    below = np.log(N * D).max() - np.log(N * D)
    names = ("share", "balance", "alpha", "beta")
    with in_float64():
        found = law.scale_free.of_params({name: draws.params[name] for name in law.parameter_names})
        found = {name: np.asarray(values) for name, values in found.items()}
    level = found["log_floor"] + np.logaddexp(0, -found["share"])
    sigma = np.sqrt(draws.sigma**2 - posterior_module.LEAST_NOISE**2)
    at = np.stack([level, *(found[name] for name in names), np.log(sigma)], axis=1)
    random, centre, factor = np.random.default_rng(0), at.mean(axis=0), np.cov(at.T)
    factor = np.linalg.cholesky(factor)
    z = random.standard_t(4, (100_000, at.shape[1]))
    points = centre + 1.2 * z @ factor.T
    # The misfit below the largest run, of which draws keep none, comes from its prior.
    misfit = posterior_module.MISFIT * np.exp(
        posterior_module.MISFIT_SD * random.standard_normal((len(z), 1))
    )
    likely = np.abs(points[:, 1:5] - mean).max(axis=1) < 5
    points, z, misfit = points[likely], z[likely], misfit[likely]
    params = law.scale_free.to_params(
        np.exp(points[:, 0]), dict(zip(names, points[:, 1:5].T, strict=True))
    )
    params = {name: value[:, None] for name, value in params.items()}
    logs = np.log(params["E"] + params["A"] * N ** -params["alpha"]
                  + params["B"] * D ** -params["beta"])  # fmt: skip
    constants = posterior_module
    square = np.exp(2 * points[:, 5:6]) + misfit**2 * below**2
    square = square + constants.LEAST_NOISE**2
    each = -0.5 * np.log(square) - 3 * np.log1p((np.log(y) - logs) ** 2 / (5 * square))
    n = len(y)
    q = ((points[:, 1:5] - mean) @ np.linalg.inv(root).T) ** 2
    weight = each.sum(axis=1) / np.hypot(1, n / constants.MOST_RUNS)
    weight -= (constants.PRIOR_NU + 4) / 2 * np.log1p(q.sum(axis=1) / constants.PRIOR_NU)
    weight -= ((points[:, 5] - np.log(prior.noise)) / constants.NOISE_SD) ** 2 / 2
    weight += 2.5 * np.log1p(z**2 / 4).sum(axis=1)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    assert 1 / (weight**2).sum() > 300
    reference = weight @ points
    spread = np.sqrt(weight @ (points - reference) ** 2)
    off = (at.mean(axis=0) - reference) / spread
    assert np.abs(off).max() < 0.3
    np.testing.assert_allclose(at.std(axis=0), spread, rtol=0.3)


def test_problems_together_are_problems_alone_and_rows_of_weight_0_are_absent(runs):
    seen = jl.read_runs(runs).observations("chinchilla", free=())
    weights = np.ones((2, len(runs)))
    weights[1, 12:] = 0.0
    both = posteriors("chinchilla", seen, weights, prior=field_prior())
    for k, table in enumerate((runs, runs[:12])):
        alone = jl.posterior("chinchilla", table)
        mine, theirs = np.log(both[k].params["alpha"]), np.log(alone.params["alpha"])
        assert abs(mine.mean() - theirs.mean()) < 0.3 * theirs.std()
        assert mine.std() == pytest.approx(theirs.std(), rel=0.3)
        assert both[k].log_evidence == pytest.approx(alone.log_evidence, abs=0.5)
    top = both[1].fit.params["top_N"] * both[1].fit.params["top_D"]
    assert top == pytest.approx((runs.N * runs.D)[:12].max())


def test_same_bits_twice_and_another_seed_other_draws(runs, draws):
    again = jl.posterior("chinchilla", runs)
    np.testing.assert_array_equal(again.params["E"], draws.params["E"])
    other = jl.posterior("chinchilla", runs, seed=1)
    assert not np.array_equal(other.params["E"], draws.params["E"])
    assert other.params["E"].mean() == pytest.approx(draws.params["E"].mean(), rel=0.03)


def test_a_target_in_another_unit_moves_the_level_alone(runs, draws):
    scaled = jl.posterior("chinchilla", runs.assign(loss=100 * runs.loss))
    assert scaled.params["E"].mean() / draws.params["E"].mean() == pytest.approx(100, rel=0.02)
    assert scaled.params["alpha"].mean() == pytest.approx(draws.params["alpha"].mean(), rel=0.02)


def test_misfit_is_a_plane_beyond_the_largest_run_and_nothing_within(draws, runs):
    law, base = draws.law, jl.laws.get("chinchilla")
    params = {name: values[:5, None] for name, values in draws.params.items()}
    own = {name: params[name] for name in base.parameter_names}
    top = runs.loc[(runs.N * runs.D).idxmax()]
    at = {
        "N": np.append(top.N * np.array([0.1, 1, 10, 100]), runs.N.min()),
        "D": np.append(top.D * np.array([0.1, 1, 10, 100]), 1.5 * runs.D.max()),
    }
    ratio = np.log(np.asarray(law(params, **at)) / np.asarray(base(own, **at)))
    np.testing.assert_allclose(ratio[:, :2], 0.0, atol=1e-6)
    np.testing.assert_allclose(ratio[:, 3], 2 * ratio[:, 2], rtol=1e-4, atol=1e-6)
    sum_of_slopes = params["slope_N"][:, 0] + params["slope_D"][:, 0]
    np.testing.assert_allclose(ratio[:, 2], np.log(10) * sum_of_slopes, rtol=1e-4, atol=1e-6)
    # A small model that is trained for longer than any run.
    longer = np.log(1.5) * params["slope_D"][:, 0]
    np.testing.assert_allclose(ratio[:, 4], longer, rtol=1e-4, atol=1e-6)
    assert jl.laws.get("beyond(chinchilla)") is law


@pytest.mark.full
def test_a_fit_of_the_very_runs_says_nothing_beforehand(runs, draws):
    fit = jl.fit("chinchilla", runs, evaluation="paloma")
    again = jl.posterior("chinchilla", runs, prior=[fit])
    np.testing.assert_allclose(again.params["alpha"], draws.params["alpha"])
    others = jl.posterior("chinchilla", made(20, seed=1), prior=[fit])
    assert others.params["E"].std() < jl.posterior("chinchilla", made(20, seed=1)).params["E"].std()


@pytest.mark.full
def test_more_epochs_than_any_run_had_are_beyond_the_runs():
    runs = made(8).assign(U=lambda t: t.D / np.resize([1.0, 4.0], 8))
    draws = jl.posterior("repetition", runs)
    assert draws.fit.params["end_U"] == pytest.approx(4)
    params = {name: values[:5, None] for name, values in draws.params.items()}
    own = {name: params[name] for name in jl.laws.get("repetition").parameter_names}
    at = {"N": np.full(2, 1e8), "D": np.full(2, 2e9), "U": np.array([1e9, 1e8])}
    ratio = np.log(np.asarray(draws.law(params, **at)) / draws.law(own | {
        name: 0 * values for name, values in params.items() if name.startswith("slope_")
    } | {n: v for n, v in params.items() if n[:4] in ("top_", "end_")}, **at))  # fmt: skip
    np.testing.assert_allclose(ratio[:, 0], 0, atol=1e-6)
    np.testing.assert_allclose(ratio[:, 1], np.log(5) * params["slope_U"][:, 0], atol=1e-6)


def test_runs_overrule_a_prior_that_they_contradict(runs):
    shifted = runs.assign(loss=runs.loss * (runs.N * runs.D / 1e18) ** -0.12)
    with_prior = jl.posterior("chinchilla", shifted)
    assert with_prior.conflict < jl.posterior("chinchilla", runs).conflict
    # The answer without the prior, of which nothing is left to contradict.
    assert jl.posterior("chinchilla", shifted, prior=None).conflict == 1.0


@pytest.mark.full
def test_without_a_prior_few_runs_are_never_refused():
    few = jl.posterior("farseer", made(8), prior=None)
    assert all(np.isfinite(values).all() for values in few.params.values())
    params = {name: values[:, None] for name, values in few.params.items()}
    loss = np.asarray(few.law(params, N=np.array([1e11]), D=np.array([2e12])))
    assert np.log(loss).std() > 0.01


@pytest.mark.full
def test_noise_of_the_runs_is_found():
    clean, noisy = (jl.posterior("skaling", made(24, noise)) for noise in (0.002, 0.03))
    assert clean.noise < 0.006 and 0.012 < noisy.noise < 0.06


@pytest.mark.full
def test_checkpoints_of_a_run_count_less_than_runs():
    table = made(12)
    twice = pd.concat([table, table, table]).assign(run=[*range(12)] * 3)
    alone, together = (
        jl.posterior("chinchilla", twice),
        jl.posterior("chinchilla", twice, groups="run"),
    )
    assert together.params["alpha"].std() > alone.params["alpha"].std()


@pytest.mark.full
def test_groups_are_drawn_together():
    tables = [made(5, seed=k).assign(group=label) for k, label in enumerate("ab")]
    tables[1]["loss"] *= 1.1
    both = jl.posterior(jl.laws.grouped("chinchilla", ["a", "b"]), pd.concat(tables))
    assert both.params["E[a]"].std() < jl.posterior("chinchilla", tables[0]).params["E"].std() * 1.2
    ratio = both.fit.predict(N=1e9, D=2e10, group="b") / both.fit.predict(N=1e9, D=2e10, group="a")
    assert float(ratio) == pytest.approx(1.1, rel=0.02)


@pytest.mark.night
@pytest.mark.parametrize("name", [*jl.laws.names(), "tuned-skaling", "routed-skaling"])
def test_every_law_has_a_posterior(name):
    law = jl.laws.get(name)
    if law.inputs_per_drop:
        pytest.skip("a value for every drop of the rate is not in a table")
    random, columns = np.random.default_rng(0), {}
    for spec in law.inputs:
        low, high = spec.plausible or (0.5, 5.0)
        if spec.domain == "fraction":
            columns[spec.name] = random.uniform(0.1, 0.9, 8)
        else:
            middle = np.log(low * high) / 2
            columns[spec.name] = np.exp(middle + random.uniform(-2, 2, 8))
    total = sum(columns[name] for name in law.shares)
    columns |= {name: columns[name] / total for name in law.shares}
    columns[law.target] = random.uniform(0.3, 0.7, 8)
    units = {spec.name: 1 for spec in law.inputs if spec.unit != 1}
    found = jl.posterior(law, pd.DataFrame(columns), prior=None, units=units)
    assert all(np.isfinite(values).all() for values in found.params.values())
