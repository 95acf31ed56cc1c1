"""Little work step by step: every lane does what it does in the engine's one program."""

import jax
import numpy as np
import pytest
from posed import evaluate_starts, posed, screened

from jaxlaw.fitting import _engine as engine
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting import _stepwise as stepwise
from jaxlaw.fitting.solvers import FINISHER, SOLVERS

NEWTON = SOLVERS["newton"]
DERIVED, TERMS, VALUED = (
    one.for_little_work for one in (stepwise._derived, stepwise._terms, stepwise._valued)
)


def solved_both_ways(monkeypatch, *arguments):
    """Step by step, and whole; neither optimised, so that both round alike."""
    with monkeypatch.context() as patched:
        patched.setattr(stepwise, "FEW", 1000)
        found = engine.solve(*arguments)
        patched.setattr(engine, "STEPWISE", 0)
        return found, engine.solve(*arguments)


def same(one, other):
    """Lanes come to the same ends; rounding may send some there by another way.

    The law is evaluated on inputs in its own units, where exp(−α·log N) rounds by some ulps, and
    not alike in two programs.
    """
    same_end = np.isclose(one.value, other.value, rtol=1e-9, atol=0) & (one.status == other.status)
    assert same_end.mean() > 0.9
    assert (one.ticks == other.ticks)[same_end].mean() > 0.6
    np.testing.assert_allclose(one.value.min(axis=1), other.value.min(axis=1), rtol=1e-12)


@pytest.mark.parametrize("name", ["chinchilla", "kaplan", "dcpt"])
def test_lanes_end_where_they_do_in_one_program(name, monkeypatch):
    with jax.enable_x64(True):
        p = posed(name)
        first = screened(p, 21)  # a group and a part of one
        step_by_step, whole = solved_both_ways(monkeypatch, NEWTON, p.model, p.problem, first)
        same(step_by_step, whole)
        candidates = whole.coordinates[0, :4]
        same(*solved_both_ways(monkeypatch, FINISHER, p.model, p.problem, candidates))


def test_fields_of_their_own_are_each_problems(monkeypatch):
    """Weights, targets and boxes."""
    with jax.enable_x64(True):
        p = posed("chinchilla")
        first, known = screened(p, 6), jax.tree.map(np.asarray, p.problem)
        weight = np.stack([np.arange(len(known.target)) % 3 != k for k in range(3)]).astype(float)
        target = known.target + np.array([[0.0], [0.1], [0.2]])
        high = np.stack([known.high, known.high, known.high])
        high[2, 0] = np.log(1.5)
        many = known._replace(weight=weight, target=target, high=high)
        batched = frozenset({"weight", "target", "high"})
        together, whole = solved_both_ways(monkeypatch, NEWTON, p.model, many, first, batched)
    same(together, whole)
    assert together.value.shape == (3, 6) and (together.coordinates[2, :, 0] <= high[2, 0]).all()
    assert len(np.unique(together.value.min(axis=1))) == 3


@pytest.mark.parametrize("name", ["chinchilla", "kaplan", "dcpt"])
def test_starts_are_valued_as_in_one_program(name, monkeypatch):
    """For problems of other weights and boxes, in blocks of which the last is not full."""
    with jax.enable_x64(True):
        p = posed(name)
        first, known = screened(p, 150), jax.tree.map(np.asarray, p.problem)
        weight = np.stack([np.arange(len(known.target)) % 3 != k for k in range(2)]).astype(float)
        low = np.stack([known.low, known.low])
        low[1, 0] = 0.1
        many, batched = known._replace(weight=weight, low=low), frozenset({"weight", "low"})
        found = evaluate_starts(p.model, many, first, batched)
        monkeypatch.setattr(engine, "STEPWISE", 0)
        whole = evaluate_starts(p.model, many, first, batched)
    assert found.value.shape == (2, 150) and np.isfinite(found.value).mean() > 0.9
    np.testing.assert_allclose(found.value, whole.value, rtol=1e-9)
    np.testing.assert_allclose(found.linear, whole.linear, rtol=1e-7, atol=1e-12)
    assert (found.value[0] != found.value[1]).any()


def test_screening_another_law_of_as_many_coefficients_needs_its_terms_alone():
    """And asked for no starts, it makes the programs that the first starts need."""
    made = []
    with jax.enable_x64(True):
        for name in ("annealing", "dcpt-l5"):
            p = posed(name, most=80)
            first = np.asarray(p.coordinates(starts.sobol(p.model.law, 70, 0)))
            for owner in (np.empty(0, np.int32), np.zeros(70, np.int32)):
                queue = engine.Queue({}, first, owner)
                (values,) = engine.evaluate_queues(p.model, p.problem, [queue], 70)
                made.append((TERMS._cache_size(), VALUED._cache_size()))
            assert values.value.shape == (1, 70)
    assert made[0] == made[1] and made[2] == made[3]
    assert made[0][0] < made[2][0] and made[0][1] == made[2][1]


def test_of_no_lanes_programs_are_made_and_the_first_lane_makes_none():
    with jax.enable_x64(True):
        p = posed("loss-compute")
        first, problem = screened(p, 1), jax.tree.map(np.asarray, p.problem)
        for starts in (first[:0], first):
            owner = np.zeros(len(starts), np.int32)
            lanes = stepwise.solve(NEWTON, p.model, problem, {}, starts, owner, 30)
            assert lanes.coordinates.shape == starts.shape
            made = DERIVED._cache_size(), stepwise._told._cache_size()
            if not len(starts):
                before = made
    assert made == before


def test_another_law_of_as_many_parameters_needs_the_law_alone():
    def ended(name):
        p = posed(name)
        engine.solve(NEWTON, p.model, p.problem, screened(p, 8))
        return stepwise._told._cache_size(), DERIVED._cache_size()

    with jax.enable_x64(True):
        told, derived = zip(*map(ended, ("kaplan", "annealing")), strict=True)
    assert told[0] == told[1] and derived[0] < derived[1]


def test_a_lane_of_nan_ends_and_harms_no_neighbour():
    with jax.enable_x64(True):
        p = posed("chinchilla")
        first = screened(p, 8)
        clean = engine.solve(NEWTON, p.model, p.problem, first)
        first[3] = np.nan
        lanes = engine.solve(NEWTON, p.model, p.problem, first)
    others = np.arange(8) != 3
    assert not np.isfinite(lanes.value[0, 3])
    np.testing.assert_array_equal(lanes.value[0, others], clean.value[0, others])
