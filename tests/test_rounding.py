"""Values that are equal on paper are equal, whatever their last bits."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw._rounding import first_largest, first_least, merged, ranks

TINY = np.array([0.0, 1e-16, 3e-16, -2e-15])


def test_values_that_differ_by_rounding_have_one_rank():
    values = np.r_[3.0 * (1 + TINY), 1.0, 1.0 + 1e-11, 0.0, -0.0, 1e-300, -3.0 * (1 + TINY)]
    assert ranks(values).tolist() == [5] * 4 + [3, 4, 1, 1, 2] + [0] * 4
    assert np.unique(merged(values)).tolist() == sorted(
        {(-3.0 * (1 + TINY)).max(), 0.0, 1e-300, 1.0, 1.0 + 1e-11, (3.0 * (1 + TINY)).max()}
    )
    assert ranks([]).tolist() == merged([]).tolist() == []


def test_infinity_and_what_is_no_number_equal_nothing_finite():
    values = [np.inf, 1e308, -np.inf, np.nan, np.inf, np.nan]
    assert ranks(values).tolist() == [2, 1, 0, 3, 2, 4]
    np.testing.assert_array_equal(merged(values), values)


@pytest.mark.parametrize("place", range(3))
def test_of_values_as_large_the_first_is_taken(place):
    values = np.array([0.3, 0.1 + 0.2, 0.3, -1.0, np.nan])
    values[place] *= 1 + 1e-15
    assert first_largest(values) == 0 and first_least(-values) == 0
    assert first_largest([1.0, 1.1, 1.0999], within=1e-3) == 1
    assert first_largest([np.nan, -np.inf, 2.0, np.inf]) == 3


def test_equal_numbers_of_a_table_are_equal_however_they_were_computed():
    share = np.linspace(0.05, 0.95, 19)
    ways = [share, 1 - (1 - share), share * 3 / 3, np.exp(np.log(share)), share * 100 / 100]
    computed = pd.Series(np.concatenate(ways))
    assert computed.nunique() > 19
    runs = {"N": 1e9, "D": 1e10, "r": computed, "loss": np.linspace(3.0, 2.0, len(computed))}
    seen = jl.read_runs(pd.DataFrame(runs), units={"N": 1, "D": 1}).observations("dcpt")
    assert len(np.unique(seen.inputs["r"])) == 19


def test_a_level_at_which_a_run_stops_is_one_that_it_passes():
    N, D = np.meshgrid([1e8, 1e9, 1e10], [1e9, 1e10, 7e10])
    table = pd.DataFrame({"N": N.ravel(), "D": D.ravel(), "loss": np.linspace(3.0, 2.0, 9)})
    last = 6 * 1e10 * 7e10
    for change in TINY:
        assert len(jl.papers.loss_envelope(table, levels=[last * (1 + change)])) == 1
