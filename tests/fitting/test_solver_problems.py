"""The problems themselves: their answers are answers, and their data are possible data."""

import jax
import numpy as np
import optax
import pytest

from tests.conftest import jitted_for_once
from tests.fixtures.solver_problems import PROBLEMS, SIGNED, laws_without_problem

each_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)


def objective(problem, params, inputs, target):
    """Summed Huber of log residuals, written out apart from the package's own."""
    of = np.asarray if problem.law.name in SIGNED else np.log
    with jax.enable_x64(True):
        residual = of(np.asarray(problem.law(dict(params), **inputs))) - of(target)
        return float(np.asarray(optax.huber_loss(residual, delta=problem.law.delta)).sum())


def test_every_registered_law_has_a_problem():
    assert laws_without_problem() == set()


@each_problem
def test_objective_is_zero_at_the_truth_and_only_there(problem):
    inputs, target = problem.arrays()
    assert objective(problem, problem.truth, inputs, target) < 1e-24
    for name, value in problem.truth.items():
        # The a1 that Wang prints hardly matters: a hundredth of it is not seen.
        moved = {**problem.truth, name: value + 0.01 if name == "a1" else value * 1.01}
        assert objective(problem, moved, inputs, target) > 1e-9, name


@each_problem
def test_parameters_are_identifiable(problem):
    """The sensitivities of the log target to each parameter are far from dependent.

    But where S1_pt is fitted: L0, A, alpha and S1_pt are seen through one bend; so are the three
    numbers of each c·N^p + C of farseer.
    """
    inputs, _ = problem.arrays()
    of = jax.numpy.asarray if problem.law.name in SIGNED else jax.numpy.log
    with jax.enable_x64(True):
        log_target = jitted_for_once(jax.jacfwd(lambda p: of(problem.law(p, **inputs))))
        sensitivity = log_target(dict(problem.truth))
    columns = np.stack([np.asarray(sensitivity[name]) for name in problem.truth], axis=1)
    singular = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
    least = 1e-4 if "S1_pt" in problem.truth else 1e-6 if problem.name == "farseer" else 1e-3
    assert singular[-1] / singular[0] > least


@each_problem
def test_inputs_lie_in_their_domains_and_plausible_ranges(problem):
    inputs, target = problem.arrays()
    assert (target > 0).all() or problem.law.name in SIGNED
    for spec in problem.law.inputs:
        values = inputs[spec.name]
        assert np.isfinite(values).all()
        if spec.domain == "positive":
            assert (values > 0).all()
        if spec.domain == "fraction":
            assert values.min() >= 0 and values.max() <= 1
        if spec.plausible:
            low, high = spec.plausible
            assert low < (values * spec.unit).min() and (values * spec.unit).max() < high


@each_problem
def test_truth_lies_within_the_bounds_of_the_law(problem):
    inputs, _ = problem.arrays()
    assert tuple(sorted(problem.truth)) == tuple(sorted(problem.law.parameter_names))
    for spec in problem.law.parameters:
        value = problem.truth[spec.name]
        for name, power in (spec.centre or {}).items():
            at = np.log(inputs[name]).mean()
            if isinstance(power, str):
                power = problem.truth[power.lstrip("-")] * (-1 if power.startswith("-") else 1)
            value = value * np.exp(-power * at) if spec.scale == "log" else value - power * at
        assert spec.low <= value <= spec.high, spec.name
