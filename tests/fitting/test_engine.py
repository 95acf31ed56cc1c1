"""Many lanes at once give what each gives alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlaw.fitting import _engine as engine, _starts as starts
from jaxlaw.fitting._fit_batch import solve_inside
from jaxlaw.fitting._objective import predict, scaled_value
from jaxlaw.fitting.solvers import POLISH, SOLVERS
from tests.conftest import kept_programs
from tests.fixtures.fit_problems import evaluate_starts, fit_problem, screened, solved_for

NEWTON = SOLVERS["newton"]


@pytest.fixture
def wide():
    """Chinchilla, 64 starts from all over the starting ranges."""
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        yield p, screened(p)


def folds(problem, count=3):
    """The problem with ``count`` rows of 0/1 weights, each leaving out every third point."""
    index = np.arange(problem.target.shape[0])
    weights = np.stack([(index % count != k).astype(float) for k in range(count)])
    return problem._replace(weight=weights)


def test_padding_changes_no_result(monkeypatch):
    """Tables of many rows are not padded to many problems, which would take their memory."""
    with jax.enable_x64(True):
        p = fit_problem("loss-compute")
        several, batched = folds(p.data), frozenset({"weight"})
        first = screened(p, count=12)

        def both():
            lanes = engine.solve(NEWTON, p.model, several, first, batched)
            return lanes, evaluate_starts(p.model, several, first, batched)

        padded = both()
        monkeypatch.setattr(engine, "MOST_ROWS", 1)
        for one, other in zip(jax.tree.leaves(both()), jax.tree.leaves(padded), strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-9)
    assert padded[1].value.shape == (3, 12)


@pytest.mark.full
def test_a_long_polish_is_ended_by_the_optimised_program(wide, monkeypatch):
    p, first = wide
    found = engine.solve(POLISH, p.model, p.data, first)
    assert found.iterations.max() > engine.ITERATIONS  # more than one round
    calls, optimised = [], engine._run_rounds
    monkeypatch.setattr(engine, "BRIEF", p.data.target.size)  # one round
    monkeypatch.setattr(engine, "_run_rounds", lambda *args: calls.append(1) or optimised(*args))
    ended = engine.solve(POLISH, p.model, p.data, first)
    assert len(calls) == 1
    np.testing.assert_array_equal(ended.status, found.status)
    np.testing.assert_allclose(ended.value, found.value, rtol=1e-12)


def test_each_result_stands_where_its_start_does(wide):
    p, first = wide
    order = np.random.default_rng(0).permutation(len(first))
    lanes = engine.solve(NEWTON, p.model, p.data, first)
    shuffled = engine.solve(NEWTON, p.model, p.data, first[order])
    np.testing.assert_array_equal(shuffled.iterations[0], lanes.iterations[0, order])
    np.testing.assert_allclose(shuffled.value[0], lanes.value[0, order], rtol=1e-10)
    assert len(np.unique(lanes.iterations)) > 3  # so that a lane is known by its iterations


def test_all_at_once_inside_jit_is_the_same(wide):
    p, first = wide
    queue = engine.solve(NEWTON, p.model, p.data, first)
    inside = jax.jit(lambda u: solve_inside(NEWTON, p.model, p.data, u))(first)
    np.testing.assert_allclose(inside.value, queue.value, rtol=1e-9)
    np.testing.assert_array_equal(inside.status, queue.status)


def test_starts_are_valued_at_the_level_of_the_data(wide):
    p, _ = wide
    first = np.asarray(
        p.coordinates_of_starts(starts.sobol(p.law, 150, 0))
    )  # no multiple of a block
    values, linear = evaluate_starts(p.model, p.data, first)
    assert values.shape == (1, 150) and linear.shape == (1, 150, 3)
    known = solved_for(p.model, p.data, jnp.asarray(first[9]))[:3]
    np.testing.assert_allclose(linear[0, 9], known, rtol=1e-9)

    def best_multiple(u):  # E, A, B are the law's first three parameters, and linear
        u = solved_for(p.model, p.data, jnp.asarray(u))
        off = np.log(predict(p.model, p.data, u)) - p.data.target
        off = np.mean(off[: p.n_rows])
        return scaled_value(p.model, p.data, u * np.exp(-off * np.array([1, 1, 1, 0, 0])))

    np.testing.assert_allclose(values[0, ::40], list(map(best_multiple, first[::40])), rtol=1e-9)
    np.testing.assert_allclose(values[0, -1], best_multiple(first[-1]), rtol=1e-9)


def test_starts_of_many_problems_are_valued_as_those_of_each(wide):
    p, first = wide
    batch = evaluate_starts(p.model, folds(p.data), first, frozenset({"weight"}))[0]
    for k, weight in enumerate(folds(p.data).weight):
        alone = evaluate_starts(p.model, p.data._replace(weight=weight), first).value
        np.testing.assert_allclose(batch[k], alone[0], rtol=1e-12)
    assert len(np.unique(batch[:, 0])) == 3


def test_tolerances_data_and_delta_are_no_reason_to_compile(wide):
    p, first = wide
    engine.solve(NEWTON, p.model, p.data, first)
    programs = kept_programs()
    settings = NEWTON.settings._replace(tolerance=1e-6, max_iterations=50)
    other = p.data._replace(
        target=p.data.target + 0.1,
        delta=2 * p.data.delta,
        asymmetry=3 * p.data.asymmetry,
    )
    engine.solve(NEWTON._replace(settings=settings), p.model, other, first[::-1])
    engine.solve(NEWTON, p.model, jax.tree.map(np.asarray, p.data), first)
    assert kept_programs() == programs
