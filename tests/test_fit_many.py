"""Versions of the same runs, fitted at once: the same numbers as one fit each."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting._fit_many import fit_many

LAW = laws.get("chinchilla")
RUNS = jl.read_runs(simulate.experiment("chinchilla").table)


@pytest.fixture(scope="module")
def masks() -> np.ndarray:
    keep = np.ones((3, len(RUNS)))
    keep[1, :40], keep[2, 203:] = 0, 0  # as many rows left: the same programs
    return keep


def test_a_mask_gives_what_a_fit_of_the_rows_left_gives(masks):
    found = fit_many(LAW, RUNS.observations(LAW), masks)
    for k, mask in enumerate(masks):
        alone = jl.fit(LAW, RUNS.table[mask > 0])
        np.testing.assert_allclose(found.objective[k], alone.objective, rtol=1e-9)
        for name, value in alone.params.items():
            np.testing.assert_allclose(found.params[name][k], value, rtol=1e-4)
    again = found.problem.params(found.coordinates)  # outside of any float64 context
    np.testing.assert_allclose(again["A"], found.params["A"], rtol=1e-12)
    at = {"N": np.array([1e9, 7e9]), "D": np.array([1e11, 1e12])}
    assert found.predict(**at).shape == (3, 2)
    one = {name: values[1] for name, values in found.params.items()}
    np.testing.assert_allclose(found.predict(**at)[1], np.asarray(LAW(one, **at)), rtol=1e-6)


def test_targets_are_replaced(masks):
    observations = RUNS.observations(LAW)
    targets = np.stack([observations.target, observations.target * 2])
    found = fit_many(LAW, observations, targets=targets)
    # Twice the loss is twice every coefficient; the exponents stay.
    for name in "EAB":
        np.testing.assert_allclose(found.params[name][1], 2 * found.params[name][0], rtol=1e-4)


@pytest.mark.parametrize("weights", [None, np.ones(5), np.ones((2, 5))])
def test_versions_of_another_shape_are_refused(weights):
    with pytest.raises(jl.UsageError, match=r"\(versions, 243\)"):
        fit_many(LAW, RUNS.observations(LAW), weights)
