"""What holds for every law: exact data give it back, noisy ones nearly, the solver converges.

The three tests of a law follow each other, in one process: they share its programs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw._jit import compiled
from jaxlaw.fitting import _engine as engine
from jaxlaw.fitting._objective import evaluate, scale_of
from jaxlaw.fitting.solvers import SOLVERS, Status
from jaxlaw.fitting.solvers._newton import definite_inverse_root
from tests.conftest import FEW, simulated_fit, some_rows
from tests.fixtures.fit_problems import LIKE_A_FIT, fit_problem, screened
from tests.fixtures.solver_problems import PROBLEMS


@pytest.fixture(scope="module", params=[problem.name for problem in PROBLEMS])
def name(request):
    return request.param


@compiled(optimised=False, static_argnames="model")
def still_promised(model, problem, at):
    """The objective at coordinates (p,), and the decrease that a full Newton step promises there.

    A gradient that a wall of the box holds back promises none.
    """
    value, found = evaluate(model, problem, at, problem.delta, problem.delta)
    held = ((at <= problem.low) & (found.gradient >= 0)) | (
        (at >= problem.high) & (found.gradient <= 0)
    )
    gradient = jnp.where(held, 0.0, found.gradient)
    root = definite_inverse_root(found, (gradient != 0).astype(float))
    return value, jnp.sum((root.T @ gradient) ** 2)


@pytest.mark.night
def test_exact_data_give_it_back(name):
    experiment = simulate.experiment(name, noise=0.0)
    fit = simulated_fit(name, noise=0.0, most=FEW)
    clean = experiment.table[experiment.law.target].to_numpy()
    predicted = fit.predict(experiment.table)
    assert np.max(np.abs(np.log(predicted / clean))) < 1e-9
    assert fit.params == pytest.approx(experiment.truth, rel=1e-6)


@pytest.mark.night
def test_noisy_data_give_predictions_within_the_noise(name):
    experiment = simulate.experiment(name, noise=0.0)
    exact = some_rows(experiment.table, FEW)
    clean = exact[experiment.law.target].to_numpy()
    fit = simulated_fit(name, most=FEW)
    predicted, size = fit.predict(exact), 1.0
    off = np.log(predicted / clean)
    if experiment.law.residuals == "linear":  # which does not look at the smallest values
        off, size = predicted - clean, np.sqrt(np.mean(clean**2))
    error = np.sqrt(np.mean(off**2)) / size
    # Of n points with noise σ, p parameters leave σ·√(p/n) in the predictions (median-like
    # fits half as much again).
    expected = 0.004 * np.sqrt(len(fit.params) / len(clean))
    assert error < 2.5 * expected
    assert fit.status == "converged"


@pytest.mark.night
def test_newton_ends_at_an_optimum_inside_the_box(name):
    fit = simulated_fit(name, most=FEW)
    with jax.enable_x64(True):
        p = fit_problem(name, most=FEW)
        lanes = engine.solve(SOLVERS["newton"], p.model, p.data, screened(p, *LIKE_A_FIT))
        low, high = np.asarray(p.data.low), np.asarray(p.data.high)
        assert (lanes.coordinates >= low).all() and (lanes.coordinates <= high).all()
        best = int(np.argmin(lanes.value[0]))
        value, promised = still_promised(p.model, p.data, lanes.coordinates[0, best])
        assert lanes.status[0, best] == Status.CONVERGED
        assert float(value) == pytest.approx(lanes.value[0, best], rel=1e-12)
        assert promised <= 1e-9 * value
        assert lanes.value[0, best] * float(scale_of(p.data.delta)) == pytest.approx(
            fit.objective, rel=1e-9
        )


# Isik 2024, tables 3 and 5: log A, α and β of all rows that can be read.
ISIK = [
    (-180.75, 9.0, 0.75), (-1.68e3, 84.04, 0.49), (-1.64e8, 9.91e6, 0.19),
    (-1.82e4, 8.98e2, 0.42), (-2.33e4, 1.21e3, 0.40), (5.08e3, 4.61e8, 0.16),
    (-36.02, 1.77, 1.28), (-115.03, 5.69, 0.89), (-1.82e4, 9.04e2, 0.40), (-1.88, 0.15, 3.30),
    (-1.81e4, 896.12, 0.28), (1.02e-7, 104.92, 0.42), (1.00, 2.57e-5, 1.11e4),
    (-6.38e7, 3.43e6, 0.20),
]  # fmt: skip


@pytest.mark.parametrize("log_A, alpha, beta", ISIK)
def test_printed_laws_of_scores_are_found_again_however_flat(log_A, alpha, beta):
    """Steep and flat ones: β from 0.16 to 11,100, α up to 4.6e8."""
    Dp = simulate.experiment("downstream-bleu").table["Dp"].to_numpy()
    fit = jl.fit("downstream-bleu", {"Dp": Dp, "BLEU": (log_A + alpha * np.log(Dp)) ** beta})
    assert fit.status == "converged" and fit.objective < 1e-24 and fit.agreement > 0.9
    assert fit.params["beta"] == pytest.approx(beta, rel=1e-6)


def test_scores_that_are_a_power_of_the_data_end_at_the_wall_of_the_law():
    """β grows without end there, and the note says so; predictions are right all the same."""
    Dp = simulate.experiment("downstream-bleu").table["Dp"].to_numpy()
    score = 3 * (Dp / 1e9) ** 0.3
    fit = jl.fit("downstream-bleu", {"Dp": Dp, "BLEU": score})
    np.testing.assert_allclose(fit.predict(Dp=Dp), score, rtol=1e-5)
    assert [note.code for note in fit.notes] == ["at-bound"] and fit.params["beta"] > 1e5
