"""When to evaluate and what to run next: budgets are kept, choices are the best, gains are real."""

import itertools

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.design._evaluation_steps import evaluation_steps
from jaxlaw.design._next_runs import next_runs
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.fitting._options import FitOptions

LAW = laws.get("chinchilla")
TABLE = simulate.experiment("chinchilla").table
FAR = {"N": 7e10, "D": 1.4e12}
GRID = [(N, D) for N in (1e9, 1e10) for D in (1e10, 1e11, 1e12)]
CANDIDATES = pd.DataFrame(GRID, columns=["N", "D"]).assign(flops=lambda t: 6 * t["N"] * t["D"])


@pytest.mark.parametrize(
    ("method", "steps"),
    [
        ("M1", range(1000, 200_001, 1000)),
        ("M2", range(5000, 200_001, 5000)),
        ("M3", [*range(4000, 120_001, 4000), *range(128_000, 200_001, 8000)]),
    ],
)
def test_plans_are_the_papers_at_its_budgets(method, steps):
    """Que 2024, App. I.1, for runs of 200,000 steps."""
    plan = evaluation_steps(len(steps), 200_000, method=method)
    np.testing.assert_allclose(plan.steps["step"], steps)
    assert not plan.quantities


def test_m4_with_the_papers_rate_is_the_design():
    steps = evaluation_steps(200, 200_000, rate=0.02).steps["step"]
    assert steps.iloc[[0, 1, 2, -2, -1]].tolist() == [2000, 3000, 4000, 150_000, 175_000]
    assert len(steps) == 48  # the paper's rule, unstated, gives 45


@pytest.mark.parametrize("method", ["M2", "M3", "M4"])
@pytest.mark.parametrize("budget", [1, 2, 7, 19, 20, 50])
def test_no_plan_spends_more_than_its_budget(method, budget):
    plan = evaluation_steps(budget, 20_000, method=method)
    steps = plan.steps["step"].to_numpy()
    assert 1 <= len(steps) <= budget
    assert (np.diff(steps) > 0).all() and (steps % 1000 == 0).all()
    assert 1000 <= steps[0] and steps[-1] <= 20_000
    if method == "M4":
        assert len(steps) == min(budget, 20) and steps[-1] == 20_000
    if method == "M4" and 1 < budget < 20:
        x = np.arange(1, 21)
        assert np.exp(-plan.rate * x).sum() == pytest.approx(budget, rel=1e-9)


def rows_of(params, inputs):
    """∂ log loss / ∂ log parameter, (m, p), from the formula alone."""
    with jax.enable_x64(True):
        names = list(params)
        logs = np.log([params[name] for name in names])

        def log_loss(logs):
            return jax.numpy.log(LAW(dict(zip(names, jax.numpy.exp(logs), strict=True)), **inputs))

        return np.asarray(jax.jacfwd(log_loss)(logs))


def every_choice(fit, table, candidates, size, criterion):
    """(value, rows) of each set of candidates, least first: a prediction's variance, or det."""
    rows, more, asked = (
        rows_of(fit.params, {k: np.asarray(v[k], float) for k in "ND"})
        for v in (table, candidates, {k: [v] for k, v in FAR.items()})
    )
    result = []
    for chosen in itertools.combinations(range(len(candidates)), size):
        M = rows.T @ rows + more[list(chosen)].T @ more[list(chosen)]
        c, D = (asked @ np.linalg.inv(M) @ asked.T).item(), 1 / np.linalg.det(M)
        result.append((c if criterion == "c" else D, chosen))
    return sorted(result)


@pytest.mark.full
@pytest.mark.parametrize(("criterion", "size"), [("c", 1), ("c", 3), ("D", 1), ("D", 3)])
def test_the_choice_is_the_best_of_all(chinchilla_fit, criterion, size):
    table = TABLE
    best = every_choice(chinchilla_fit, table, CANDIDATES, size, criterion)[0][1]
    selection = next_runs(
        chinchilla_fit, table, CANDIDATES, predict=FAR, n=size, criterion=criterion
    )
    assert sorted(selection.table["candidate"]) == list(best)
    assert selection.criterion == criterion and selection.after < selection.before
    assert (np.diff(selection.table["sd"]) < 0).all() and selection.table["sd"].iloc[
        -1
    ] == selection.after


def test_variance_is_that_of_the_formula(chinchilla_fit):
    none, one = (
        every_choice(chinchilla_fit, TABLE, CANDIDATES, size, "c")[0][0] for size in (0, 1)
    )
    selection = next_runs(chinchilla_fit, TABLE, CANDIDATES, predict=FAR, n=1)
    assert selection.before == pytest.approx(selection.noise * np.sqrt(none), rel=1e-6)
    assert selection.after == pytest.approx(selection.noise * np.sqrt(one), rel=1e-6)
    # Between least squares, σ, and least absolute deviations, σ·√(π/2), for noise of 0.004.
    assert 0.004 * 0.9 < selection.noise < 0.004 * np.sqrt(np.pi / 2) * 1.15


@pytest.fixture(scope="module")
def noisier_at_large_sizes():
    """A fit of runs whose noise grows 30-fold from the smallest size to the largest, and they."""
    table = simulate.experiment("chinchilla", noise=0).table
    rank = table["N"].rank(pct=True).to_numpy()
    noise = np.random.default_rng(8).standard_normal(len(table)) * 0.004 * 30 ** (rank - 0.5)
    table["loss"] *= np.exp(noise)
    return jl.fit("chinchilla", table), table


@pytest.mark.parametrize("groups", [None, np.arange(243) // 9], ids=["rows", "groups"])
def test_the_deviation_before_new_runs_is_the_covariances(noisier_at_large_sizes, groups):
    fit, table = noisier_at_large_sizes
    selection = next_runs(fit, table, CANDIDATES, predict=FAR, n=2, groups=groups)
    covariance = jl.covariance(fit, table, groups=groups)
    predicted = covariance.interval(lambda params: fit.law(params, **FAR))
    relative = float(predicted.std_err / predicted.estimate)
    assert selection.before == pytest.approx(relative, rel=1e-6)
    assert selection.after < selection.before


@pytest.mark.full
def test_the_deviation_before_new_runs_is_the_bootstraps_spread(noisier_at_large_sizes):
    """A noise pooled over all rows would predict less than half of it."""
    fit, table = noisier_at_large_sizes
    selection = next_runs(fit, table, CANDIDATES, predict=FAR, n=1)
    drawn = jl.bootstrap(fit, table, 300, progress=False).predict(FAR)
    assert selection.before == pytest.approx(np.log(drawn).std(), rel=0.2)


def test_a_prediction_may_be_a_function_of_the_parameters(chinchilla_fit):
    def log_loss(params):
        return jax.numpy.log(LAW(params, **FAR))

    asked, direct = (
        next_runs(chinchilla_fit, TABLE, CANDIDATES, predict=each, n=2) for each in (log_loss, FAR)
    )
    assert asked.after == pytest.approx(direct.after, rel=1e-9)
    pd.testing.assert_frame_equal(asked.table, direct.table, rtol=1e-9)


def test_cost_and_budget_are_kept(chinchilla_fit):
    selection = next_runs(chinchilla_fit, TABLE, CANDIDATES, predict=FAR, cost="flops", budget=7e21)
    assert 0 < selection.table["flops"].sum() <= 7e21
    expensive = next_runs(chinchilla_fit, TABLE, CANDIDATES, predict=FAR, n=1)
    assert expensive.table["flops"].item() > 7e21
    none = next_runs(chinchilla_fit, TABLE, CANDIDATES, predict=FAR, cost="flops", budget=1.0)
    assert none.table.empty and none.after == none.before


def test_the_evaluations_of_a_run_come_together(chinchilla_fit):
    selection = next_runs(
        chinchilla_fit, TABLE, CANDIDATES, predict=FAR, n=1, group="N", cost="flops"
    )
    assert selection.table["N"].nunique() == 1 and len(selection.table) == 3
    assert selection.table["sd"].nunique() == 1


def test_other_runs_than_the_fits_are_refused(chinchilla_fit):
    with pytest.raises(jl.UsageError, match="pass the runs it was fitted to"):
        next_runs(chinchilla_fit, TABLE[:100], CANDIDATES, predict=FAR, n=1)


@pytest.mark.full
def test_refits_with_the_chosen_runs_vary_as_predicted(chinchilla_fit):
    """120 simulated experiments, each fitted without and with the eight runs chosen."""
    repeats = pd.concat([CANDIDATES] * 4, ignore_index=True)
    selection = next_runs(chinchilla_fit, TABLE, repeats, predict=FAR, n=8)
    truth, versions = simulate.TRUTHS["chinchilla"], 120
    inputs = {k: np.concatenate([TABLE[k], selection.table[k]]) for k in "ND"}
    clean = simulate.simulate_runs(LAW, truth, inputs)
    noise = 0.004 * np.random.default_rng(3).standard_normal((versions, len(clean)))
    weights = np.ones((2, len(clean)))
    weights[0, -8:] = 0
    refits = fit_many(
        LAW, jl.read_runs(clean).observations(LAW), np.repeat(weights, versions, axis=0),
        np.tile(clean["loss"].to_numpy() * np.exp(noise), (2, 1)),
        FitOptions(n_starts=256, n_local=4),
    )  # fmt: skip
    predicted = refits.predict(**{k: np.array([v]) for k, v in FAR.items()})
    before, after = np.log(predicted).reshape(2, versions).std(axis=1)
    # A standard deviation of 120 is known to 6.5 %; τ, of 243 residuals, to about 10 %.
    assert before == pytest.approx(selection.before, rel=0.3)
    assert after == pytest.approx(selection.after, rel=0.3)
    assert after / before == pytest.approx(selection.after / selection.before, rel=0.12)
    assert selection.after < 0.85 * selection.before
