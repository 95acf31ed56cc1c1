"""What holds for every law: exact data give it back, noisy ones nearly, the solver converges.

The three tests of a law follow each other, in one process: they share its programs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import FEW, simulated_fit, some_rows
from posed import LIKE_A_FIT, posed, screened
from problems import PROBLEMS

from jaxlaw import engine, simulate
from jaxlaw.objective import evaluate, scale_of
from jaxlaw.programs import compiled
from jaxlaw.solvers import SOLVERS
from jaxlaw.solvers.newton import definite_inverse_root
from jaxlaw.solvers.status import CONVERGED


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


def test_exact_data_give_it_back(name):
    experiment = simulate.experiment(name, noise=0.0)
    fit = simulated_fit(name, noise=0.0, most=FEW)
    clean = experiment.table[experiment.law.target].to_numpy()
    predicted = fit.predict(experiment.table)
    assert np.max(np.abs(np.log(predicted / clean))) < 1e-9
    assert fit.params == pytest.approx(experiment.truth, rel=1e-6)


def test_noisy_data_give_predictions_within_the_noise(name):
    experiment = simulate.experiment(name, noise=0.0)
    exact = some_rows(experiment.table, FEW)
    clean = exact[experiment.law.target].to_numpy()
    fit = simulated_fit(name, most=FEW)
    error = np.sqrt(np.mean(np.log(fit.predict(exact) / clean) ** 2))
    # Of n points with noise σ, p parameters leave σ·√(p/n) in the predictions (median-like
    # fits half as much again).
    expected = 0.004 * np.sqrt(len(fit.params) / len(clean))
    assert error < 2.5 * expected
    assert fit.status == "converged"


def test_newton_ends_at_an_optimum_inside_the_box(name):
    fit = simulated_fit(name, most=FEW)
    with jax.enable_x64(True):
        p = posed(name, most=FEW)
        lanes = engine.solve(SOLVERS["newton"], p.model, p.problem, screened(p, *LIKE_A_FIT))
        low, high = np.asarray(p.problem.low), np.asarray(p.problem.high)
        assert (lanes.coordinates >= low).all() and (lanes.coordinates <= high).all()
        best = int(np.argmin(lanes.value[0]))
        value, promised = still_promised(p.model, p.problem, lanes.coordinates[0, best])
        assert lanes.status[0, best] == CONVERGED
        assert float(value) == pytest.approx(lanes.value[0, best], rel=1e-12)
        assert promised <= 1e-9 * value
        assert lanes.value[0, best] * float(scale_of(p.problem.delta)) == pytest.approx(
            fit.objective, rel=1e-9
        )
