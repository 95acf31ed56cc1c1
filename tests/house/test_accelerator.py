"""What is written otherwise for accelerators: the same results, in few kernels.

No GPU is needed: the same functions run on the CPU, and programs are lowered for CUDA.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import _decayed_sum, laws, simulate
from jaxlaw.fitting import _engine, _objective
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting.solvers import SOLVERS, _newton
from tests.conftest import forget_programs

MODULES = (_decayed_sum, _engine, _newton, _objective)
NEWTON = SOLVERS["newton"]


@pytest.fixture
def accelerated(monkeypatch):
    """Makes programs as for an accelerator from here on; none of them is kept or used again."""

    def start():
        for module in MODULES:
            monkeypatch.setattr(module, "on_accelerator", lambda: True)
        forget_programs()

    monkeypatch.setenv("JAXLAW_CACHE", "off")
    yield start
    monkeypatch.undo()
    forget_programs()


def problem_of(name):
    table = simulate.experiment(name).table
    seen = jl.read_runs(table).observations(laws.get(name))
    problem = build_problem(laws.get(name), seen.inputs, seen.target, seen.weight, FitOptions())
    natural = np.array([[spec.start[0] for spec in problem.law.parameters]])
    return problem, problem.coordinates_of_starts(natural)[0]


@pytest.mark.full
@pytest.mark.parametrize("name", ["chinchilla", "dcpt"])
def test_derivatives_are_the_same(name, accelerated):
    with jax.enable_x64(True):
        problem, at = problem_of(name)
        delta, next_delta = jnp.asarray(0.5), jnp.asarray(0.1)

        def evaluated():
            return _objective.evaluate(problem.model, problem.data, at, delta, next_delta)

        expected = jax.tree.leaves(evaluated())
        accelerated()
        for one, other in zip(jax.tree.leaves(evaluated()), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12 * np.abs(other).max())


@pytest.mark.full
@pytest.mark.parametrize("size", [1, 5, 16])
@pytest.mark.parametrize("definite", [True, False])
def test_systems_have_the_same_solutions(size, definite, accelerated):
    draw = np.random.default_rng(size)
    roots = draw.normal(size=(20, size, size))
    signs = np.ones(size) if definite else draw.choice([-1.0, 1.0], (20, 1, size))
    matrices = (roots * signs) @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(size)
    right = draw.normal(size=(20, size))
    with jax.enable_x64(True):
        expected = jax.vmap(_newton.solve_definite)(jnp.array(matrices), jnp.array(right))
        accelerated()
        solved = jax.vmap(_newton.solve_definite)(jnp.array(matrices), jnp.array(right))
    np.testing.assert_allclose(solved, expected, rtol=1e-8, atol=1e-10)
    if definite:
        np.testing.assert_allclose(
            solved, np.linalg.solve(matrices, right[..., None])[..., 0], rtol=1e-5, atol=1e-8
        )


@pytest.mark.parametrize("at", [None, np.array([1, 16, 17, 400, 1000])])
def test_areas_are_the_same(at, accelerated):
    lr = jl.schedules.cosine(3e-4, 1000).rates
    expected = jl.areas(lr, 0.999, at=at)
    with jax.enable_x64(True):
        accelerated()
        areas = jl.areas(jnp.asarray(lr), 0.999, at=at)
    np.testing.assert_allclose(areas.S1, expected.S1, rtol=1e-12)
    np.testing.assert_allclose(areas.S2, expected.S2, rtol=1e-10, atol=1e-14)


@pytest.mark.full
def test_a_fit_is_the_same(accelerated):
    table = simulate.experiment("chinchilla").table
    expected = jl.fit("chinchilla", table)
    accelerated()
    fit = jl.fit("chinchilla", table)
    assert fit.objective == pytest.approx(expected.objective, rel=1e-9)
    assert fit.params == pytest.approx(expected.params, rel=1e-6)
    assert (fit.status, fit.success) == (expected.status, expected.success)


@pytest.mark.full
@pytest.mark.parametrize("name", ["kaplan"])
def test_several_problems_are_screened_at_once(name, accelerated):
    """Kaplan has no linear coefficients: arrays of none of them cannot be batched."""
    with jax.enable_x64(True):
        problem, at = problem_of(name)
        starts = at + np.random.default_rng(0).uniform(0, 0.1, (5, len(at)))
        weights = np.random.default_rng(1).integers(0, 3, (7, problem.n_rows)).astype(float)
        chunk = _engine.Chunk((0, 7), (0, 5), problem.many(weights=weights), starts, (7, 35))

        def evaluated():
            return _engine.evaluate_chunks(problem.model, problem.data, [chunk])[0]

        expected = evaluated()
        accelerated()
        for one, other in zip(evaluated(), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)


def lowered_for_cuda(name):
    """The program of an iteration's rounds, as it is given to the GPU's compiler."""
    problem, at = problem_of(name)
    lanes, slots = 64, 32
    starts, owner = np.tile(at, (1, lanes, 1)), np.zeros((1, lanes), np.int32)
    shared, own = _engine._split(problem.data, [_engine.Chunk((0, 1), (0, lanes))], 1)
    results = _engine.Lanes(starts, np.zeros((1, lanes)), owner, owner)
    program = jax.jit(
        _engine._run_rounds.__wrapped__, static_argnames=("solver", "model", "mesh", "count")
    )
    traced = program.trace(
        NEWTON._replace(settings=None), problem.model, _engine._mesh(), slots,
        (shared, NEWTON.settings, np.int32(99)), (own, (starts, owner, owner[:, 0]), owner[:, 0]),
        None, results, owner[:, 0],
    )  # fmt: skip
    return traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.full
@pytest.mark.parametrize("name", ["chinchilla"])
def test_an_iteration_is_few_kernels(name, accelerated):
    """Three loops, and no work on the factorisation entry by entry inside them.

    The loops are that of rounds, of iterations, and of the two solves of a step.
    """
    with jax.enable_x64(True):
        before = lowered_for_cuda(name)
        accelerated()
        program = lowered_for_cuda(name)
    assert before.count("stablehlo.while") > 3
    assert program.count("stablehlo.while") == 3
    assert program.count('"stablehlo.scatter"') == 4  # results that are handed in
    assert program.count("stablehlo.dynamic_update_slice") == 0
