"""Where lanes start."""

import math
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.stats

import jaxlaw as jl
from jaxlaw import laws
from jaxlaw.errors import UsageError
from jaxlaw.fitting import _starts as starts
from tests.fixtures.fit_problems import fit_problem

NOWHERE = {}  # a centre of nothing: values stay as they are


def test_hoffmanns_grid_is_hoffmanns():
    law = laws.get("chinchilla")
    grid = starts.grid_of(law, NOWHERE)
    assert grid.shape == (4500, 5)
    assert len(np.unique(grid, axis=0)) == 4500
    e, a, b = (np.unique(np.log(grid[:, k]).round(9)) for k in range(3))
    np.testing.assert_allclose(e, [-1, -0.5, 0, 0.5, 1], atol=1e-8)
    np.testing.assert_allclose(a, [0, 5, 10, 15, 20, 25], atol=1e-8)
    np.testing.assert_allclose(b, a)
    np.testing.assert_allclose(np.unique(grid[:, 3]), [0, 0.5, 1, 1.5, 2])


def test_a_grid_is_moved_to_the_centre_of_the_data():
    law, centre = laws.get("chinchilla"), {"N": 1e9, "D": 1e10}
    plain, moved = starts.grid_of(law, NOWHERE), starts.grid_of(law, centre)
    np.testing.assert_allclose(moved[:, 1], plain[:, 1] * 1e9 ** -plain[:, 3], rtol=1e-12)
    np.testing.assert_allclose(moved[:, 2], plain[:, 2] * 1e10 ** -plain[:, 4], rtol=1e-12)
    np.testing.assert_array_equal(moved[:, [0, 3, 4]], plain[:, [0, 3, 4]])


def test_a_law_without_a_grid_says_what_to_use():
    with pytest.raises(UsageError, match=r"no starting grid \(none for Nc.*starts='sobol'"):
        starts.grid_of(laws.get("kaplan"), NOWHERE)


@pytest.mark.parametrize(
    "low,high,in_logs",
    [
        (1.0, 49.0, False),
        (1.0, 51.0, True),
        (-51.0, -1.0, True),
        (-1.0, 51.0, False),
        (0, 99, False),
    ],
)
def test_ranges_over_orders_of_magnitude_are_drawn_in_logarithms(low, high, in_logs, own_laws):
    law = jl.law(
        lambda x, *, b=jl.laws.real(low, high): b * x, name="any", formula="b·x", source=""
    )
    sample = starts.sobol(law, 256, 0)[:, 0]
    middle = np.sign(low) * np.sqrt(low * high) if in_logs else (low + high) / 2
    assert low <= sample.min() and sample.max() <= high
    assert (sample < middle).mean() == 0.5


@pytest.mark.parametrize(("dimensions", "power", "seed"), [(1, 0, 0), (5, 8, 0), (40, 6, 7)])
def test_the_sample_is_scipys_to_the_last_bit(dimensions, power, seed):
    numbers = Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz"
    sample = starts._sobol_by_numpy(dimensions, power, seed, numbers)
    by_scipy = scipy.stats.qmc.Sobol(dimensions, seed=seed).random_base2(power)
    np.testing.assert_array_equal(sample, by_scipy)


@pytest.mark.parametrize("name", laws.names())
@pytest.mark.parametrize("count", [7, 256])
def test_sobol_fills_the_starting_ranges_and_repeats_itself(name, count):
    law = laws.get(name)
    sample = starts.sobol(law, count, 0)
    assert sample.shape == (count, len(law.parameters))
    np.testing.assert_array_equal(sample, starts.sobol(law, count, 0))
    assert not np.array_equal(sample, starts.sobol(law, count, 1))
    for values, spec in zip(sample.T, law.parameters, strict=True):
        low, high = spec.start
        assert (values >= low).all() and (values <= high).all()
        if count == 256:
            share = (values - low) / (high - low)
            if spec.scale == "log" or (low > 0 and high / low >= 50):
                share = np.log(values / low) / math.log(high / low)
            # Each sixteenth of the range is hit equally often: what makes Sobol Sobol.
            assert (np.histogram(share, 16, (0, 1))[0] == 16).all()


def test_users_starts_in_three_forms_are_the_same():
    law = laws.get("chinchilla")
    values = np.array([[1.7, 400.0, 420.0, 0.3, 0.2], [1.5, 300.0, 420.0, 0.3, 0.2]])
    names = law.parameter_names
    frame = pd.DataFrame(values, columns=list(names))
    combined = {"beta": 0.2, "alpha": [0.3], "B": 420.0, "A": [400.0], "E": [1.7]}
    np.testing.assert_array_equal(starts.from_user(law, values, NOWHERE), values)
    np.testing.assert_array_equal(starts.from_user(law, frame[list(names[::-1])], NOWHERE), values)
    np.testing.assert_array_equal(starts.from_user(law, combined, NOWHERE), values[:1])
    np.testing.assert_array_equal(starts.from_user(law, values[0], NOWHERE), values[:1])
    two = starts.from_user(law, combined | {"E": [1.7, 1.5], "A": [400.0, 300.0]}, NOWHERE)
    assert len(two) == 4


@pytest.mark.parametrize(
    "given,message",
    [
        (np.ones((2, 4)), r"shape \(2, 4\); law chinchilla needs \(starts, 5\).*E, A, B"),
        (np.ones((0, 5)), r"shape \(0, 5\)"),
        ([[1, 1, 1, 1, np.nan]], "start 0 is not finite"),
        ({"E": 1.0, "A": 1.0, "B": 1.0, "alpha": 0.3}, "starts lack beta"),
        (pd.DataFrame({"E": [1.0], "apha": [0.3]}), "no parameter 'apha'.*Did you mean 'alpha'"),
    ],
)
def test_users_starts_that_cannot_be(given, message):
    with pytest.raises(UsageError, match=message):
        starts.from_user(laws.get("chinchilla"), given, NOWHERE)


@pytest.mark.parametrize(
    "law,options,count",
    [
        ("chinchilla", {}, 256),
        ("chinchilla", {"fixed": {"alpha": 0.3}}, 128),
        ("chinchilla", {"tied": {"beta": "alpha"}}, 128),
        ("dcpt", {}, 2048),
        ("chinchilla", {"n_local": False}, 4096),
    ],
)
def test_a_sample_grows_with_the_parameters_that_are_not_solved_for(law, options, count):
    with jax.enable_x64(True):
        problem = fit_problem(law, most=20, **options)
        assert len(starts.first_starts(problem)) == count
