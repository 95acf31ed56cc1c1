"""The two methods, one lane at a time in meaning, through the engine in fact."""

import dataclasses
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import jaxlaw as jl
from jaxlaw.fitting import _engine as engine, _starts as starts
from jaxlaw.fitting._objective import Evaluation, value_and_gradient
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting.solvers import POLISH, SOLVERS, Status, _lbfgs as lbfgs, _newton as newton
from jaxlaw.fitting.solvers._newton import definite_inverse_root, solve_definite
from tests.conftest import jitted_for_once
from tests.fixtures.fit_problems import LIKE_A_FIT, fit_problem, screened
from tests.fixtures.solver_problems import problem

NEWTON, LBFGS = SOLVERS["newton"], SOLVERS["lbfgs"]
NOWHERE = 1e10


def lane_sized(solver, **settings):
    return solver._replace(settings=solver.settings._replace(**settings))


# ------------------------------------------------------------- the linear algebra


def random_symmetric(size, eigenvalues):
    rotation, _ = np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))
    return rotation @ np.diag(eigenvalues) @ rotation.T


@pytest.mark.full
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_a_definite_system_is_solved(size):
    matrix = random_symmetric(size, np.linspace(0.5, 2.0, size))
    right = np.random.default_rng(0).standard_normal(size)
    with jax.enable_x64(True):
        found = solve_definite(jnp.asarray(matrix), jnp.asarray(right))
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("eigenvalues", [(-1, 0.5, 1), (-1, -2, -3), (0, 0, 1), (0, 0, 0)])
def test_an_indefinite_system_still_gives_descent(eigenvalues):
    matrix = random_symmetric(3, np.array(eigenvalues, float))
    gradient = np.array([0.3, -1.0, 0.7])
    with jax.enable_x64(True):
        move = -np.asarray(solve_definite(jnp.asarray(matrix), jnp.asarray(gradient)))
    assert np.isfinite(move).all()
    assert gradient @ move < 0


def test_the_inverse_root_makes_the_hessian_one_and_holds_what_is_held():
    hessian = random_symmetric(4, np.array([1e-3, 1.0, 20.0, 1e4]))
    free = np.array([1.0, 1.0, 0.0, 1.0])
    with jax.enable_x64(True):
        root = np.asarray(definite_inverse_root(at_hessian(hessian), jnp.asarray(free)))
    np.testing.assert_allclose(root.T @ hessian @ root, np.diag(free), atol=1e-8)
    assert (root[2] == 0).all()


def at_hessian(hessian):
    flat = jnp.zeros(len(hessian))
    return Evaluation(flat[0], flat, jnp.asarray(hessian), jnp.abs(jnp.diagonal(hessian)), flat[0])


def test_the_inverse_root_moves_with_the_units_of_the_coordinates():
    hessian = random_symmetric(4, np.array([1e-3, 1.0, 20.0, 1e4]))
    units = np.array([1.0, 1e-9, 1e6, 1e12])
    with jax.enable_x64(True):
        plain, scaled = (
            np.asarray(definite_inverse_root(at_hessian(one), jnp.ones(4)))
            for one in (hessian, hessian * units[:, None] * units)
        )
    np.testing.assert_allclose(scaled * units[:, None], plain, rtol=1e-6, atol=1e-12)


@pytest.mark.full
def test_a_coordinate_that_moves_much_does_not_make_the_others_converged(own_laws):
    """A term of 1e17 per unit once made all other steps, and what they promise, seem nothing."""
    law = jl.law(
        lambda x, *, a=jl.laws.real(), b=jl.laws.real(1, 5): (
            a * 1e17 * jnp.exp(-x) + 2 + jnp.cos(b * x)
        ),
        name="uneven", formula="1e17·a·e^(−x) + 2 + cos(b·x)", source="", linear=("a",),
        residuals="linear",
    )  # fmt: skip
    x = np.linspace(0.1, 3, 40)
    runs = {"x": x, "loss": 2 * np.exp(-x) + 2 + np.cos(3.0 * x)}
    fit = jl.fit(law, runs, starts={"a": [1e-17], "b": [2.9]}, n_local=False, delta=np.inf)
    assert fit.status == "converged"
    assert fit.params == pytest.approx({"a": 2e-17, "b": 3.0}, rel=1e-6)


# ------------------------------------------------------------- newton


def test_a_lane_that_is_not_finite_ends_so_and_harms_no_neighbour():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        first = screened(p, *LIKE_A_FIT)
        clean = engine.solve(NEWTON, p.model, p.data, first)
        spoilt = first.copy()
        spoilt[5] = p.data.low  # predicts 0, which has no logarithm
        lanes = engine.solve(NEWTON, p.model, p.data, spoilt)
    assert lanes.status[0, 5] == Status.NON_FINITE
    assert lanes.iterations[0, 5] == 1 and lanes.count.sum() == len(first)
    others = np.arange(len(first)) != 5
    np.testing.assert_array_equal(lanes.status[0, others], clean.status[0, others])
    np.testing.assert_allclose(lanes.value[0, others], clean.value[0, others], rtol=1e-12)


def test_the_step_limit_is_a_status_and_costs_no_program():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        first = screened(p, *LIKE_A_FIT)
        engine.solve(NEWTON, p.model, p.data, first)
        programs = engine._run_rounds._cache_size()
        lanes = engine.solve(lane_sized(NEWTON, max_iterations=3), p.model, p.data, first)
        assert engine._run_rounds._cache_size() == programs
    assert (lanes.status == Status.STEP_LIMIT).all()
    assert (lanes.iterations == 3).all()


def test_what_was_spent_in_vain_at_one_threshold_does_not_count_against_the_next():
    """It ended lanes short of the optimum: one in 1,000 of few losses, which by their last bits."""
    with jax.enable_x64(True):
        p = fit_problem("downstream-ce")
        data = jax.tree.map(jnp.asarray, p.data)
        least_squares = p.data._replace(delta=np.inf)
        found = engine.solve(NEWTON, p.model, least_squares, screened(p, *LIKE_A_FIT))
        lane = newton.init(p.model, data, found.coordinates[0, found.value[0].argmin()])
        step = jitted_for_once(partial(newton.step, p.model))
        while lane.threshold == newton.FIRST_THRESHOLD:  # that of least squares: nothing to gain
            spent = lane._replace(n_without_progress=jnp.asarray(newton.PATIENCE, jnp.int32))
            lane = step(data, spent, NEWTON.settings)
    assert lane.n_without_progress == 0


def test_bounds_are_kept_and_a_fixed_coordinate_stays():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla", fixed={"alpha": 0.3}, bounds={"E": (1.0, 1.5)})
        lanes = engine.solve(NEWTON, p.model, p.data, screened(p, *LIKE_A_FIT))
        params = p.params(lanes.coordinates[0])
    assert (params["alpha"] == 0.3).all()
    assert (params["E"] >= 1.0).all() and (params["E"] <= 1.5).all()
    best = np.argmin(lanes.value[0])
    assert params["E"][best] == 1.5


def test_exact_data_end_at_zero():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla", noise=0.0)
        lanes = engine.solve(NEWTON, p.model, p.data, screened(p, *LIKE_A_FIT))
    assert np.min(lanes.value) < 1e-15
    assert lanes.status[0, np.argmin(lanes.value[0])] == Status.CONVERGED


# ------------------------------------------------------------- L-BFGS, jaxopt's


@pytest.mark.parametrize("law", ["chinchilla", pytest.param("dcpt", marks=pytest.mark.full)])
def test_polishing_stays_at_an_optimum_and_comes_back_from_nearby(law):
    with jax.enable_x64(True):
        p = fit_problem(law)
        lanes = engine.solve(NEWTON, p.model, p.data, screened(p, *LIKE_A_FIT))
        best = int(np.argmin(lanes.value[0]))
        near = lanes.coordinates[0, best] * (1 + 1e-3 * np.array([[0], [1], [-1], [2], [-2]]))
        ended = engine.solve(POLISH, p.model, p.data, near)
    np.testing.assert_allclose(ended.value[0], lanes.value[0, best], rtol=1e-10)
    np.testing.assert_allclose(ended.coordinates[0, 0], lanes.coordinates[0, best], rtol=1e-6)
    assert (ended.value[0, 0] <= lanes.value[0, best] * (1 + 1e-14)).all()
    assert (ended.status == Status.CONVERGED).all()
    assert ended.iterations[0, 0] < 20 and ended.iterations.max() < 100  # of 1000


def test_without_jaxopt_a_fit_is_polished_by_newtons_method_and_says_so(monkeypatch, caplog):
    monkeypatch.setenv("JAXLAW_CACHE", "off")
    monkeypatch.setitem(sys.modules, "jaxopt", None)
    runs = jl.simulate.experiment("loss-compute", noise=0.004).table
    law = dataclasses.replace(jl.laws.get("loss-compute"), formula="its programs are not kept")
    fit = jl.fit(law, runs, n_starts=16, n_local=8)
    assert "jaxopt cannot be imported" in caplog.text and "Newton's method polishes" in caplog.text
    assert fit.status == "converged"
    assert fit.objective == pytest.approx(jl.fit("loss-compute", runs).objective, rel=1e-9)


@pytest.mark.full
def test_polishing_takes_no_step_out_of_sight_where_nothing_curves():
    # Half of the points above and half below, all beyond δ: the objective is flat, and a Newton
    # step is rounding over rounding.
    loss = [6.575, 5.696, 4.969, 4.387, 3.924, 3.524, 3.309, 3.096, 2.947, 2.763]
    loss += [2.636, 2.524, 2.441, 2.341, 2.252, 2.189, 2.115, 2.058, 2.004, 1.952]
    C, loss = np.geomspace(5.76e15, 3.675e21, 20), np.array(loss)
    law = jl.laws.get("loss-compute")
    with jax.enable_x64(True):
        p = build_problem(law, {"C": C}, loss, np.ones(20), FitOptions())
        for b in (0.073, 0.0745, 0.076):
            middle = np.median(np.log(loss) + b * np.log(C))
            candidate = jnp.asarray(p.coordinates({"a": np.exp(middle), "b": b}))
            lane = lbfgs.init_near(p.model, p.data, candidate)
            np.testing.assert_allclose(lane.coordinates, candidate, rtol=2e-3)
            value = value_and_gradient(p.model, p.data, candidate)[0]
            assert float(lane.value) == pytest.approx(float(value), rel=1e-9)
    fit = jl.fit(law, {"C": C, "loss": loss}, n_starts=64, n_local=8)
    off = np.abs(np.log(fit.predict(C=C) / loss))
    huber = np.where(off < 1e-3, off**2 / 2, 1e-3 * (off - 5e-4)).sum()
    assert fit.objective == pytest.approx(huber, rel=1e-9)


def test_the_whole_box_frame_covers_the_box_and_nothing_else():
    low, high = jnp.array([-1.0, 0.0, 2.0]), jnp.array([1.0, 5.0, 2.0])
    frame = lbfgs._Box(low, high)
    z = 30 * np.random.default_rng(0).standard_normal((200, 3))
    at = np.asarray(jax.vmap(frame.coordinates)(jnp.asarray(z)))
    assert (at >= np.asarray(low) - 1e-6).all() and (at <= np.asarray(high) + 1e-6).all()
    assert (at[:, 2] == 2.0).all()
    assert at[:, 0].min() < -0.99 and at[:, 1].max() > 4.95
    slope = jax.jacfwd(frame.coordinates)(jnp.zeros(3))
    np.testing.assert_allclose(np.diag(slope)[:2], 1.0, rtol=1e-6)  # coordinates in the middle


def scipy_best(p, first):
    """The best of L-BFGS-B on the same objective, from the same starts."""
    jitted = jitted_for_once(partial(value_and_gradient, p.model))

    def function(u):
        value, gradient = jitted(p.data, u)
        if not np.isfinite(value):  # a negative loss has no logarithm; scipy cannot step back
            return NOWHERE, np.zeros(len(u))
        return float(value), np.asarray(gradient)

    bounds = list(zip(np.asarray(p.data.low), np.asarray(p.data.high), strict=True))
    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-10}
    ends = [
        minimize(function, u, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for u in first
    ]
    best = min(end.fun for end in ends)
    assert best < NOWHERE
    return best


@pytest.mark.full
@pytest.mark.parametrize("name", ["annealing", "chinchilla", "downstream-ce", "kaplan"])
def test_jaxopts_answer_is_scipys_or_better(name):
    with jax.enable_x64(True):
        p = fit_problem(name, linear=False, most=40)
        natural = problem(name).starts(4, seed=1)
        centred = starts.to_centre(p.model.law, natural, p.means)
        first = p.coordinates_of_starts(centred)
        lanes = engine.solve(LBFGS, p.model, p.data, first)
        theirs = scipy_best(p, first)
    assert lanes.value.min() <= theirs * (1 + 1e-9)


def test_a_wide_coordinate_is_taken_from_its_lower_wall():
    with jax.enable_x64(True):
        frame = lbfgs._Box(jnp.array([1e-6, -1e8]), jnp.array([1e9, 1e8]))
        at = jnp.array([3.0, 0.25])
        np.testing.assert_allclose(frame.coordinates(frame.inverse(at)), at, atol=1e-6)
        slope = np.diag(jax.jacfwd(frame.coordinates)(frame.inverse(at)))
        assert ((slope > 0.9) & (slope <= 1.0)).all()
