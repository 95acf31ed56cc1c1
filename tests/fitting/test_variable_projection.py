"""Linear coefficients solved for at given exponents."""

import jax
import numpy as np
import pytest
from scipy.optimize import nnls

from jaxlaw import laws, simulate
from jaxlaw._jit import compiled
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting._objective import predict
from jaxlaw.fitting._starts import best_coefficients, solved_coordinates, terms
from tests.fixtures.fit_problems import fit_problem, solved_for


def linear_laws():
    return [name for name in laws.names() if laws.get(name).linear_parameters]


@pytest.mark.full
@pytest.mark.parametrize("name", linear_laws())
def test_true_exponents_give_back_true_coefficients(name):
    with jax.enable_x64(True):
        p = fit_problem(name, noise=0.0)
        truth = p.coordinates_of_starts(starts.to_centre(p.law, true_values(name), p.means))[0]
        linear, spoilt = list(solved_coordinates(p.model)), truth.copy()
        spoilt[linear] = 0.7
        solved = np.asarray(solved_for(p.model, p.data, spoilt))
        np.testing.assert_allclose(solved[linear], truth[linear], rtol=1e-5)


def true_values(name):
    experiment = simulate.experiment(name, noise=0.0)
    return np.array([[experiment.truth[n] for n in experiment.law.parameter_names]])


def a_start(p, seed):
    return p.coordinates_of_starts(starts.sobol(p.law, 4, seed))[2]


@compiled(optimised=False, static_argnames="model")
def projected(model, problem, at):
    """Terms (1 + k, n), their coefficients (k,) and what both, and the law there, predict (n,)."""
    parts = terms(model, problem, at)
    found = best_coefficients(model, problem, parts)
    there = predict(model, problem, solved_for(model, problem, at))
    return parts, found, parts[0] + found @ parts[1:], there


@pytest.mark.parametrize(
    "name, options",
    [
        ("chinchilla", {}),
        ("chinchilla", {"tied": {"B": "A"}}),
        ("chinchilla", {"tied": {"A": "B", "E": "B"}}),
        ("chinchilla", {"tied": {"alpha": "A"}}),
        pytest.param("dcpt", {}, marks=pytest.mark.full),
        pytest.param("dcpt", {"constraint": "paper"}, marks=pytest.mark.full),
    ],
)
def test_none_is_below_zero_and_none_other_is_better(name, options):
    """No coefficients within their bounds, tied ones in common, are closer in relative squares."""
    with jax.enable_x64(True):
        p = fit_problem(name, **options)
        for seed in range(4):
            at = a_start(p, seed)
            parts, found, together, predicted = map(np.asarray, projected(p.model, p.data, at))
            target = np.exp(np.asarray(p.data.target))
            matrix, right = (parts[1:] / target).T, (target - parts[0]) / target
            matrix, right = matrix[: p.n_rows], right[: p.n_rows]  # the others have no weight
            _, rest = nnls(matrix, right)
            np.testing.assert_allclose(np.linalg.norm(matrix @ found - right), rest, rtol=1e-6)
            assert (found >= 0).all()
            np.testing.assert_allclose(together, predicted, rtol=1e-10)


def test_fixed_and_bounded_coefficients_are_kept():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla", fixed={"E": 2.5})
        found = solved_for(p.model, p.data, a_start(p, 0))
        assert found[0] == 2.5
        p = fit_problem("chinchilla", bounds={"E": (1.9, 1.95)})
        found = solved_for(p.model, p.data, a_start(p, 0))
        assert 1.9 <= found[0] <= 1.95


def test_points_of_no_weight_do_not_count():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        half = np.arange(len(p.data.target)) % 2 == 0
        some = p.data._replace(weight=half.astype(float))
        spoilt = some._replace(target=np.where(half, some.target, 9.0))
        at = a_start(p, 1)
        np.testing.assert_allclose(
            solved_for(p.model, spoilt, at), solved_for(p.model, some, at), rtol=1e-9
        )


def solved_names(tied):
    with jax.enable_x64(True):
        model = fit_problem("chinchilla", tied=tied).model
    return {model.law.parameter_names[k] for k in solved_coordinates(model)}


def test_tied_coefficients_are_one():
    """Whose value another takes stands for both, if the law is linear in both."""
    assert solved_names({}) == {"E", "A", "B"}
    assert solved_names({"B": "A"}) == {"E", "A"}
    assert solved_names({"A": "B", "E": "B"}) == {"B"}
    assert solved_names({"beta": "alpha"}) == {"E", "A", "B"}
    assert solved_names({"alpha": "A"}) == {"E", "B"}  # not linear in alpha
    assert solved_names({"A": "alpha"}) == {"E", "B"}
