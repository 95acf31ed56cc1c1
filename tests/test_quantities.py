"""Quantities as people write them: in points, in cells of tables, in the shell."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import jaxlaw as jl
from jaxlaw._quantities import in_unit, mistaken_unit, readable, single_things
from jaxlaw.errors import DataError, UsageError


@pytest.fixture(scope="module")
def fit():
    """A law of runs that count N in millions and D in billions."""
    return jl.FittedLaw(
        "chinchilla",
        jl.simulate.TRUTHS["chinchilla"],
        units={"N": 1e6, "D": 1e9},
        ranges={"N": (37.0, 30e3), "D": (0.7, 600.0)},
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("70B", 7e10),
        ("15T", 1.5e13),
        ("15 T tokens", 1.5e13),
        ("552M", 5.52e8),
        ("1.1b", 1_100_000_000.0),
        ("7e10 parameters", 7e10),
        ("1e25 FLOPs", 1e25),
        (".5k", 500.0),
        ("70", None),
        ("1e25", None),
        ("seven", None),
        ("7Q", None),
        ("B", None),
    ],
)
def test_texts_say_their_unit(text, count):
    assert single_things(text) == count


@given(st.decimals(0, 10**6, places=6), st.sampled_from("KMBT"))
def test_a_suffix_is_exact(number, name):
    exponent = {"K": 3, "M": 6, "B": 9, "T": 12}[name]
    assert single_things(f"{number:f} {name}") == float(f"{number:f}e{exponent}")


@given(st.floats(1.0, 9e14))
def test_what_is_shown_is_read_back(count):
    assert math.isclose(in_unit(readable(count, "tokens"), 1.0, "tokens"), count, rel_tol=6e-3)


def test_the_next_name_where_rounding_reaches_it():
    assert readable(999_600) == "1 M"
    assert readable(999_400) == "999 K"
    assert readable(1.5e22, "tokens") == "1.5e22 tokens"


def test_another_thing_is_refused():
    with pytest.raises(UsageError, match="'15T tokens' is a number of tokens; parameters"):
        in_unit("15T tokens", 1.0, "parameters")


@pytest.mark.parametrize("D", ["15T", "15e3 B tokens", ["15T"], np.array("15T"), 15_000])
def test_predict_reads_units(fit, D):
    expected = fit.predict(N=70_000, D=15_000)
    assert np.ravel(fit.predict(N="70B", D=D)) == expected
    table = pd.DataFrame({"N": ["70B"], "D": [np.ravel(D)[0]]})
    assert fit.predict(table) == expected


@pytest.mark.parametrize(
    ("point", "readings"),
    [
        ({"N": "70B", "D": 15e12}, ("1.5e22 tokens", "15 T tokens", "D=15000", "D=15T")),
        ({"N": 70e9, "D": "15T"}, ("7e16 parameters", "70 B parameters", "N=70000", "N=70B")),
        ({"N": [70e3, 70e9], "D": 20}, ("7e16 parameters", "N=70000")),
    ],
)
@pytest.mark.parametrize("entry", ["predict", "is_extrapolation"])
def test_a_mistaken_unit_is_refused_with_both_readings(fit, entry, point, readings):
    with pytest.raises(DataError) as error:
        getattr(fit, entry)(**point)
    assert all(reading in str(error.value) for reading in readings)


def test_a_number_with_its_unit_is_taken_as_it_is(fit):
    assert fit.predict(N="7e16 parameters", D="1.5e22 tokens") > 0


def test_far_points_in_the_unit_of_the_runs_are_no_mistake(fit):
    assert fit.predict(N=[1e6, 1e-3], D=1e6).shape == (2,)  # 1 T parameters, 1 K; 1e15 tokens
    single = jl.FittedLaw(fit.law, fit.params, ranges={"N": (1e8, 1e10), "D": (1e9, 1e11)})
    assert single.predict(N=1e30, D=1e30) > 0  # the floor
    with pytest.raises(DataError, match="70 parameters"):
        single.predict(N=70, D=1e12)
    with pytest.raises(DataError, match="for 70 M parameters write N=70000000 or N=70M"):
        single.predict(N=70_000, D=1e10)


def test_toy_runs_may_be_toys():
    toy = mistaken_unit(np.array([3.0]), 1.0, (1e3, 1e15), (1.0, 100.0))
    assert toy is None
    unknown = mistaken_unit(np.array([3.0]), 1.0, (1e3, 1e15), (math.nan, math.nan))
    assert unknown is None


def test_cells_with_units_of_several_kinds():
    table = {
        "N": ["552M", "1.02B", "2.1 B parameters", 7e9],
        "D": ["15T", "20B", "1e12 tokens", "300"],
        "loss": [3.0, 2.5, 2.2, 2.0],
    }
    runs = jl.read_runs(table, units={"D": 1e9}, where="N > 1e9")
    assert runs.table["N"].tolist() == [1.02e9, 2.1e9, 7e9]
    assert [float(cell) for cell in runs.table["D"]] == [20.0, 1000.0, 300.0]
    assert runs.units == {"N": 1.0, "D": 1e9}


def test_cells_that_count_something_else(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("n,D,loss\n7B,1e11,2.5\n5B tokens,1e11,2.4\n")
    with pytest.raises(DataError, match="column n, line 3: '5B tokens' is a number of tokens"):
        jl.read_runs(path, {"N": "n"})


def test_the_shell_reads_and_echoes_units(fit, tmp_path, command):
    path = tmp_path / "fit.json"
    fit.save(path)
    code, shown, _ = command("predict", path, "--at", "N=70B", "--at", "D=15000")
    assert code == 0
    assert shown.startswith("N 70 B parameters (70000 × 1e6), D 15 T tokens (15000 × 1e9): loss ")
    code, shown, _ = command("predict", path, "--at", "N=70B,7B", "--at", "D=15T", "--json")
    assert [row["N"] for row in json.loads(shown)["tables"]["points"]] == [70_000.0, 7_000.0]
    code, _, error = command("predict", path, "--at", "N=70B", "--at", "D=15e12")
    assert code != 0
    assert "for 15 T tokens write D=15000 or D=15T" in error


def test_plans_read_units(fit):
    at = jl.planning.break_even(fit, fit, N="7B", at={}).summary()
    assert at == jl.planning.break_even(fit, fit, N=7_000).summary()
    best = jl.planning.frontier(fit, ["1e20 FLOPs", 1e22]).table
    assert best["compute"].tolist() == [1e20, 1e22]


def test_a_share_has_no_unit_to_mistake():
    fit = jl.FittedLaw("dcpt", jl.simulate.TRUTHS["dcpt"], ranges={"r": (0.1, 0.9)})
    assert fit.in_unit_of_runs("r", 0.5) == 0.5
