"""The uncertainty of a fit with a prior: normal posterior, profile, influence, what is refused."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.fitting import field_prior, fit_many
from jaxlaw.fitting._objective import scale_on_host, scaled_value
from jaxlaw.uncertainty._fit_problem import fit_with_data

AT = {"N": 7e10, "D": 1e12}
pytestmark = pytest.mark.full


def runs(n, noise, seed=0):
    """So many runs of the law that the field's prior thinks most likely."""
    random, law, prior = np.random.default_rng(seed), jl.laws.get("chinchilla"), field_prior()
    known = dict(zip(prior.coordinates["chinchilla"], prior.means["chinchilla"], strict=True))
    N = np.geomspace(5e7, 3e9, n)
    D = N * random.uniform(10, 60, n)
    loss = np.asarray(law(law.scale_free.to_params(3.1, known), N=N, D=D))
    return pd.DataFrame({"N": N, "D": D, "loss": loss * np.exp(noise * random.standard_normal(n))})


@pytest.fixture(scope="module")
def five():
    table = runs(5, 0.003)
    return jl.fit("chinchilla", table, prior="field", n_starts=64), table


def test_at_the_priors_own_law_it_is_the_inverse_hessian():
    """Residuals and distance are 0 there, so that nothing of the Hessian is left out."""
    table = runs(6, 0.0)
    problem = fit_with_data("chinchilla", table, takes_prior=True, prior="field", n_starts=64)
    built, noise = problem.fit_problem, problem.fit.prior.noise
    with jax.enable_x64(True):
        curved = jax.hessian(lambda at: scaled_value(built.model, built.data, at))(
            problem.coordinates
        )
    known = noise**2 * np.linalg.inv(np.asarray(curved) * scale_on_host(built.data))
    covariance = jl.covariance(problem.fit, table)
    np.testing.assert_allclose(covariance.coordinates, known, rtol=1e-3, atol=1e-9)
    assert covariance.method == "posterior covariance"
    # Six rows and the prior's four degrees, of which the fit takes what the runs determine.
    assert 4 < covariance.degrees < 10


def test_it_is_what_draws_of_runs_and_prior_scatter_by(five):
    fit, table = five
    covariance = jl.covariance(fit, table)
    drawn = jl.bootstrap(fit, table, n_resamples=300, n_starts=1)
    points = [each.prediction(**AT)["std_err"][0] for each in (covariance, drawn)]
    assert points[0] == pytest.approx(points[1], rel=0.2)
    alpha = [t.conf_int().set_index("parameter")["std_err"]["alpha"] for t in (covariance, drawn)]
    assert alpha[0] == pytest.approx(alpha[1], rel=0.25)


def test_with_many_runs_and_next_to_no_prior_it_is_that_of_the_runs():
    table = runs(60, 0.004)
    wide = jl.fit("chinchilla", table, prior=field_prior().widened(100.0), n_starts=64)
    alone = jl.fit("chinchilla", table, delta=wide.delta, n_starts=64)
    errors = [
        t.conf_int()["std_err"].to_numpy()
        for t in (jl.covariance(wide, table), jl.covariance(alone, table, robust=False))
    ]
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.3)


def test_rows_that_share_an_error_count_as_one(five):
    fit, table = five
    twice = pd.concat([table.assign(run="abcde"[k], n=k) for k in range(2)])
    twice["run"] = list("abcde") * 2
    again = jl.fit("chinchilla", twice, prior=field_prior(), n_starts=64)
    apart, shared = (
        jl.covariance(again, twice, groups=groups).prediction(**AT)["std_err"][0]
        for groups in (None, "run")
    )
    assert apart < 0.9 * shared
    # The second copies say nothing: two rows of one error are worth one, but for the prior's part.
    assert shared == pytest.approx(
        jl.covariance(fit, table).prediction(**AT)["std_err"][0], rel=0.3
    )


def test_the_profile_is_near_it_and_has_the_priors_part(five):
    fit, table = five
    profile = jl.profile(fit, table, AT)
    assert profile.table["objective"].min() == pytest.approx(fit.objective, rel=1e-6)
    low, high = profile.interval(0.5)[2:]
    normal = jl.covariance(fit, table).prediction(**AT, confidence_level=0.5).iloc[0]
    assert float(high - low) == pytest.approx(normal["high"] - normal["low"], rel=0.25)
    alone = jl.profile(fit, table, "E")
    assert (np.diff(alone.table["root"]) > 0).all()
    # Five runs determine five parameters: without the prior's part it would be flat.
    assert alone.table["root"].abs().iloc[[0, -1]].min() > 2.5


def test_the_rise_is_of_runs_and_of_the_prior(five):
    fit, table = five
    floor = jl.profile(fit, table, "E", at=AT)
    parts = floor.table[["from_runs", "from_prior"]].sum(axis=1)
    np.testing.assert_allclose(parts, floor.table["root"] ** 2, atol=1e-3)
    middle = floor.table.iloc[len(floor.table) // 2]
    assert middle["prediction"] == pytest.approx(float(fit.predict(**AT)))
    assert abs(middle["from_prior"]) < 1e-6
    # Far out at a higher floor both lose, and a higher floor is a higher loss.
    assert (floor.table.iloc[-1][["from_runs", "from_prior"]] > 1).all()
    assert (np.diff(floor.table["prediction"]) > 0).all()


def test_runs_of_a_lower_floor_than_the_fields_pull_down_and_the_prior_up():
    C = np.geomspace(1e18, 3e20, 6)
    ladder = pd.DataFrame({"C": C, "loss": 1.45 + 2.07 * (C / 1e18) ** -0.085})
    torn = jl.profile("loss-compute-e", ladder, "E", at={"C": 1e23}, prior="field", n_starts=64)
    lower, table = torn.table["value"] < torn.estimate, torn.table
    assert 1.45 < torn.estimate < 2.2
    assert table["from_runs"].min() < -0.2 and lower[table["from_runs"].idxmin()]
    assert table["from_prior"].min() < -0.2 and not lower[table["from_prior"].idxmin()]


def test_influence_is_the_derivative_of_fits_with_the_prior(five):
    fit, table = five
    problem = fit_with_data(fit, table, takes_prior=True)
    change = jl.influence(fit, table, AT)["value"].to_numpy()
    weight = np.ones((5, 5)) - 1e-4 * np.eye(5)
    refits = fit_many(
        fit.law, problem.observations, weight, options=problem.options,
        extra_starts=np.array([[*fit.params.values()]]),
    )  # fmt: skip
    moved = np.asarray(refits.predict(**{k: np.array([v]) for k, v in AT.items()}))[:, 0]
    moved = (moved - float(fit.predict(**AT))) / 1e-4
    np.testing.assert_allclose(change, moved, atol=0.03 * np.abs(change).max())
    left_out = jl.influence(fit, table, AT, refits=True)["value"]
    one = jl.fit("chinchilla", table.drop(index=4), prior=fit.prior, delta=fit.delta, n_starts=64)
    assert float(one.predict(**AT)) - float(fit.predict(**AT)) == pytest.approx(
        left_out[4], abs=0.3 * abs(left_out).max()
    )


def test_what_runs_alone_determine_is_refused_with_the_reason(five):
    fit, table = five
    with pytest.raises(jl.UsageError, match="what runs alone determine.*jl.covariance"):
        jl.identifiability(fit, table)


def test_the_next_runs_are_those_of_runs_and_prior(five):
    fit, table = five
    more = pd.DataFrame({"N": [1e8, 1e10], "D": [3e9, 3e11]})
    chosen = jl.design.next_runs(fit, table, more, predict=AT, n=1)
    known = jl.covariance(fit, table).prediction(AT)
    assert chosen.before == pytest.approx((known["std_err"] / known["estimate"]).item(), rel=1e-6)
    assert chosen.table["N"].item() == 1e10 and not chosen.notes
    # Refitted with that run, where the law lies: as well known as was predicted.
    row = chosen.table[["N", "D"]].assign(loss=float(fit.predict(N=1e10, D=3e11)))
    longer = pd.concat([table, row], ignore_index=True)
    again = jl.fit("chinchilla", longer, prior=fit.prior, delta=fit.delta, n_starts=64)
    known = jl.covariance(again, longer).prediction(AT)
    relative = (known["std_err"] / known["estimate"]).item()
    # The noise, estimated again of six runs, has changed too.
    assert chosen.after == pytest.approx(relative * fit.prior.noise / again.prior.noise, rel=0.1)
    assert chosen.after < 0.8 * chosen.before
