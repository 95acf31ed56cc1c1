"""The objective and its hand-assembled derivatives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlaw import laws, simulate
from jaxlaw._jit import compiled
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting._objective import (
    coupled_pairs,
    evaluate,
    predict,
    rescale_linear_coefficients,
    residual,
    scaled_value,
    value_and_gradient,
)
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting._scores import metrics
from tests.conftest import jitted_for_once
from tests.fixtures.solver_problems import SIGNED

CASES = [
    *((name, None, "linear" if name in SIGNED else "log") for name in laws.names()),
    ("dcpt", "paper", "log"), ("dcpt", "observed", "log"),
    ("chinchilla", None, "linear"), ("dcpt", "paper", "linear"), ("rectified", None, "linear"),
]  # fmt: skip


def fit_problem(name, constraint=None, linear=True, noise=0.01, **options):
    law = laws.get(name, constraint)
    experiment = simulate.experiment(name, noise=noise)
    table = experiment.table.iloc[::7]
    inputs = {key: table[key].to_numpy() for key in law.input_names}
    target = table[law.target].to_numpy()
    options |= {} if linear else {"solver": "lbfgs"}
    return build_problem(law, inputs, target, np.ones(len(table)), FitOptions(**options))


def a_point(problem):
    """A start brought to the level of the data, off the bounds and off the kinks."""
    model, data = problem.model, problem.data

    @jitted_for_once
    def at_level(start):
        at = rescale_linear_coefficients(model, data, start)
        inside = jnp.all((at > data.low) & (at < data.high))
        return at, inside & jnp.isfinite(scaled_value(model, data, at))

    for start in problem.coordinates_of_starts(starts.sobol(model.law, 8, 3)):
        at, good = at_level(jnp.asarray(start))
        if good:
            return at
    raise AssertionError("no start inside the box")


@pytest.mark.full
@pytest.mark.parametrize("name,constraint,residuals", CASES)
def test_derivatives_are_those_of_the_value(name, constraint, residuals):
    """A pair of parameters taken for uncoupled that is not would show in the Hessian."""
    with jax.enable_x64(True):
        # A wide threshold keeps every residual in the quadratic part, where the Hessian of
        # the value is the Hessian; asymmetry and weights take part. (Not wider: the reference
        # loses digits to the threshold.)
        p = fit_problem(name, constraint, residuals=residuals, delta=1e3, asymmetry=3.0)
        problem = p.data._replace(weight=jnp.asarray(p.data.weight).at[::2].set(0.5))
        at = a_point(p)

        @jitted_for_once
        def ours(u):
            found = evaluate(p.model, problem, u, problem.delta, problem.delta)
            return found, value_and_gradient(p.model, problem, u)

        def slope(u):
            known, gradient = jax.value_and_grad(partial(scaled_value, p.model, problem))(u)
            return gradient, (known, gradient)

        autodiff = jitted_for_once(jax.jacfwd(slope, has_aux=True))
        ((value, found), again), (hessian, (known, gradient)) = ours(at), autodiff(at)
        scale = np.abs(hessian).max()
        np.testing.assert_allclose(value, known, rtol=1e-12)
        np.testing.assert_allclose(
            found.gradient, gradient, rtol=1e-8, atol=1e-10 * np.abs(gradient).max()
        )
        np.testing.assert_allclose(found.hessian, hessian, rtol=1e-6, atol=1e-9 * scale)
        np.testing.assert_allclose(again[0], known, rtol=1e-12)
        np.testing.assert_allclose(again[1], found.gradient, rtol=1e-12)


@compiled(optimised=False, static_argnames="model")
def value_and_gradients(model, problem, at):
    """The objective, its gradient by autodiff, and ours."""
    value, gradient = jax.value_and_grad(partial(scaled_value, model, problem))(at)
    _, found = evaluate(model, problem, at, problem.delta, problem.delta)
    return value, gradient, found.gradient


def _residuals(p, at):
    """(n,) residuals of the rows that count."""
    found = residual(p.model.residuals, p.data, predict(p.model, p.data, at))
    return found[: p.n_rows]


@pytest.mark.parametrize("residuals", ["log", "linear"])
def test_asymmetry_in_the_linear_part_of_huber(residuals):
    """Every residual beyond the threshold: the value is linear, and steeper below the curve."""
    with jax.enable_x64(True):
        p = fit_problem("chinchilla", residuals=residuals, delta=1e-7, asymmetry=3.0)
        problem, at = p.data, a_point(p)
        prediction = p.model.law(p.transform.to_natural(tuple(at)), **problem.inputs)
        known = jnp.exp(problem.target) if residuals == "log" else problem.target
        off = jnp.log(prediction / known) if residuals == "log" else prediction - known
        assert float(jnp.abs(off).min()) > 1e-7
        assert 0 < int(jnp.sum(off > 0)) < len(off)
        factor = problem.weight * jnp.where(off > 0, 3.0, 1.0)
        expected = jnp.sum(factor * (jnp.abs(off) - 0.5e-7))
        value, gradient, found = value_and_gradients(p.model, problem, at)
        np.testing.assert_allclose(value, expected, rtol=1e-10)
        np.testing.assert_allclose(found, gradient, rtol=1e-9)


def test_without_curvature_the_hessian_is_gauss_newton_and_never_indefinite():
    with jax.enable_x64(True):
        p = fit_problem("dcpt")
        at = a_point(p)
        one = jnp.asarray(1.0)
        _, found = jitted_for_once(lambda at: evaluate(p.model, p.data, at, one, one, 0.0))(at)
        assert np.linalg.eigvalsh(found.hessian).min() >= -1e-6 * np.abs(found.hessian).max()


def test_value_is_the_summed_huber_loss_of_log_residuals():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        at = a_point(p)
        law, problem = p.model.law, p.data
        prediction = law(p.transform.to_natural(tuple(at)), **problem.inputs)
        residual = jnp.log(prediction) - problem.target
        losses = optax.huber_loss(residual, delta=1e-3)
        expected = jnp.sum(problem.weight * losses) / 1e-3
        np.testing.assert_allclose(scaled_value(p.model, problem, at), expected, rtol=1e-13)


def test_terms_couple_only_their_own_parameters():
    p = fit_problem("chinchilla")
    names = p.model.law.parameter_names
    coupled = {frozenset((names[i], names[j])) for i, j in coupled_pairs(p.model)}
    assert coupled == {
        frozenset({"A", "alpha"}), frozenset({"alpha"}),
        frozenset({"B", "beta"}), frozenset({"beta"}),
    }  # fmt: skip


def problem_of_groups(**options):
    """Runs of chinchilla in two groups by turns, A and alpha of each their own."""
    law = laws.grouped("chinchilla", ["a", "b"], own=["A", "alpha"])
    table = simulate.experiment("chinchilla", noise=0.01).table.iloc[::7]
    inputs = {name: table[name].to_numpy() for name in "ND"} | {"group": np.arange(len(table)) % 2}
    loss = table["loss"].to_numpy()
    return build_problem(law, inputs, loss, np.ones(len(loss)), FitOptions(**options))


def test_groups_couple_only_their_own_parameters():
    names = problem_of_groups().model.law.parameter_names

    def coupled(**options):
        pairs = coupled_pairs(problem_of_groups(**options).model)
        return {frozenset((names[i], names[j])) for i, j in pairs}

    assert {pair for pair in coupled() if len(pair) > 1} == {
        frozenset({"A[a]", "alpha[a]"}), frozenset({"A[b]", "alpha[b]"}), frozenset({"B", "beta"}),
    }  # fmt: skip
    # Of tied parameters one group's is the other's.
    assert frozenset({"A[a]", "alpha[b]"}) in coupled(tied={"alpha[a]": "alpha[b]"})


@pytest.mark.full
@pytest.mark.parametrize("tied", [{}, {"alpha[a]": "alpha[b]"}])
def test_derivatives_of_groups_are_those_of_the_value(tied):
    with jax.enable_x64(True):
        p = problem_of_groups(tied=tied, delta=1e3)
        truth = simulate.TRUTHS["chinchilla"]
        names = p.model.law.parameter_names
        at = p.coordinates({name: np.asarray(1.1 * truth[name.split("[")[0]]) for name in names})
        found = jitted_for_once(
            lambda u: evaluate(p.model, p.data, u, p.data.delta, p.data.delta)[1].hessian
        )(at)
        known = jitted_for_once(jax.hessian(partial(scaled_value, p.model, p.data)))(at)
        np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-9 * np.abs(known).max())


def test_what_is_coupled_leaves_no_trace_in_the_program_that_asks_first():
    """Else its program is one of its own, and one kept from an earlier process is not found."""
    model = fit_problem("chinchilla").model
    coupled_pairs.cache_clear()
    assert not jax.make_jaxpr(lambda: len(coupled_pairs(model)))().eqns


def test_metrics_by_hand():
    target, prediction = np.array([1.0, 2.0, 4.0]), np.array([1.1, 1.9, 4.0])
    found = metrics(target, prediction, np.ones(3), 0.05)
    assert found["r2"] == pytest.approx(1 - 0.02 / np.sum((target - target.mean()) ** 2))
    assert found["rmse"] == pytest.approx(np.sqrt(0.02 / 3))
    # The tables of Que 2024 hold sums over the points scored; the mean has a name of its own.
    assert found["huber_linear"] == pytest.approx(2 * (0.05 * 0.1 - 0.05**2 / 2))
    assert found["mean_huber_linear"] == pytest.approx(found["huber_linear"] / 3)
    log = np.log(prediction / target)
    assert found["rmse_log"] == pytest.approx(np.sqrt(np.mean(log**2)))
    losses = [0.05 * abs(log[0]) - 0.05**2 / 2, 0.05 * abs(log[1]) - 0.05**2 / 2, 0.0]
    assert found["huber"] == pytest.approx(sum(losses))
    assert found["mean_huber"] == pytest.approx(sum(losses) / 3)
    weighed = metrics(target, prediction, np.array([2.0, 0.5, 4.0]), 0.05)
    assert weighed["huber"] == pytest.approx(2 * losses[0] + 0.5 * losses[1])
    assert weighed["mean_huber"] == pytest.approx(weighed["huber"] / 6.5)


def test_metrics_leave_out_points_without_weight():
    target, weight = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0])
    assert metrics(target, np.array([1.0, 2.0, 99.0]), weight, 1e-3)["r2"] == 1.0
    assert np.isnan(metrics(np.ones(3), np.ones(3), np.ones(3), 1e-3)["r2"])


def test_linear_coefficients_are_rescaled_by_one_common_factor():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla", noise=0.0)
        at = jnp.array([1e-3, 1e-3, 1e-3, 0.3, 0.3])
        moved = rescale_linear_coefficients(p.model, p.data, at)
        np.testing.assert_allclose(moved[:3] / at[:3], (moved / at)[0], rtol=1e-12)
        np.testing.assert_array_equal(moved[3:], at[3:])
        off = jnp.log(p.model.law(p.transform.to_natural(tuple(moved)), **p.data.inputs))
        assert abs(float(jnp.mean((off - p.data.target)[: p.n_rows]))) < 1e-12
