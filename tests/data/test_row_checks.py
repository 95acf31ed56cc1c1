"""Values are checked for the law, and garbage is refused in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from jaxlaw.data._runs import read_runs
from jaxlaw.errors import DataError
from tests.fixtures.run_tables import assert_says, codes, simple, with_cell, write_csv

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -2.5])
@pytest.mark.parametrize("column", ["N", "D", "loss"])
def test_invalid_values(tmp_path, column, value):
    frame = simple()
    frame.loc[[2, 7], column] = value
    path = write_csv(tmp_path, frame)
    with pytest.raises(DataError) as error:
        read_runs(path).observations("chinchilla")
    assert_says(error, "runs.csv", f"column {column}", f"lines 4 ({value}), 9",
                "positive and finite", "drop_invalid=True")  # fmt: skip
    dropped = read_runs(path, drop_invalid=True).observations("chinchilla")
    assert dropped.dropped == 2 and len(dropped) == 10
    assert codes(dropped) == ["dropped-invalid"] and "2 of 12" in dropped.notes[0].message
    np.testing.assert_array_equal(dropped.rows, [2, 3, 5, 6, 7, 8, 10, 11, 12, 13])


def test_shares_outside_zero_and_one(tmp_path):
    units = {"N": 1, "D": 1}
    path = write_csv(tmp_path, simple().assign(r=np.linspace(0, 100, 12)))
    with pytest.raises(DataError) as error:
        read_runs(path, units=units, drop_invalid=True).observations("dcpt")
    assert_says(error, "runs.csv", "column r", "lines 3 (9.0", "percent", "units={'r': 0.01}")
    with pytest.raises(DataError) as error:
        read_runs(with_cell(4, "r", -0.5), units=units).observations("dcpt")
    assert_says(error, "outside [0, 1]", "row 4 (-0.5)", "correct these rows")
    edge = read_runs(with_cell(4, "r", 1 + 1e-12), units=units).observations("dcpt")
    assert edge.inputs["r"][4] == 1.0


def test_fewer_points_than_parameters(tmp_path):
    path = write_csv(tmp_path, simple(4))
    with pytest.raises(DataError) as error:
        read_runs(path).observations("chinchilla")
    assert_says(error, "runs.csv", "4 rows", "5 parameters", "chinchilla", "E, A", "add runs")
    assert len(read_runs(path).observations("chinchilla", free=["A", "E", "B", "beta"])) == 4


@pytest.mark.parametrize(
    ("law", "column", "value", "mixed"),
    [
        ("chinchilla", "N", 1e8, "E, A, alpha"),
        ("chinchilla", "D", 1e9, "E, B, beta"),
        ("dcpt", "D", 1e9, "B, beta"),
        ("dcpt", "r", 0.5, "E, B, C, gamma, eta, eps"),
        ("kaplan", "N", 1e8, "Nc, alpha_N"),
    ],
)
def test_constant_input(law, column, value, mixed):
    runs = read_runs(simple().assign(**{column: value}), units={"N": 1, "D": 1})
    result = [note for note in runs.observations(law).notes if note.code == "few-values"]
    assert len(result) == 1 and result[0].severity == "warning"
    assert f"column {column}: {column} has one value only, so {mixed} cannot" in result[0].message


def test_constant_input_that_does_no_harm_or_whose_parameters_are_fixed():
    frame = simple().assign(N=1e8)
    assert codes(read_runs(frame).observations("chinchilla", free=["E", "B", "beta"])) == []
    two = simple().assign(N=[1e8, 2e8] * 6)
    assert codes(read_runs(two).observations("chinchilla")) == ["few-values"]
    assert codes(read_runs(two).observations("kaplan")) == []


def test_duplicate_rows(tmp_path):
    frame = pd.concat([simple(), simple().iloc[[0, 3]], simple().iloc[[5]].assign(loss=9.0)])
    result = read_runs(write_csv(tmp_path, frame)).observations("chinchilla")
    assert codes(result) == ["duplicate-rows"] and len(result) == 15
    assert "runs.csv: duplicates of earlier rows" in result.notes[0].message
    assert "lines 14, 15;" in result.notes[0].message


def test_the_users_table_stays_as_it_is():
    frame = with_cell(3, "N", "2e8").assign(w=1)
    before = frame.copy(deep=True)
    runs = read_runs(frame, {"D": "D"}, {"N": 1}, weight="w", where="loss > 0")
    runs.table["D"] = 0.0
    pd.testing.assert_frame_equal(frame, before)
    runs = read_runs(frame)
    runs.table.loc[0, "D"] = -1.0
    read_runs(frame).observations("chinchilla").inputs["N"][:] = 0
    pd.testing.assert_frame_equal(frame, before)


# ---------------------------------------------------------------- properties

positive = st.floats(1e5, 1e13)
losses = st.floats(0.05, 50, allow_subnormal=False)


@st.composite
def tables(draw):
    n = draw(st.integers(9, 20))
    columns = {name: draw(st.lists(positive, min_size=n, max_size=n)) for name in ("N", "D")}
    columns["r"] = draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))
    columns["loss"] = draw(st.lists(losses, min_size=n, max_size=n))
    return pd.DataFrame(columns)


def observe(source, **options):
    return read_runs(source, units={"N": 1, "D": 1}, **options).observations("dcpt")


@QUICK
@given(tables(), st.sampled_from([1e3, 1e6, 1e9, 1e12, "K", "M", "B", "T"]))
def test_a_unit_is_a_factor(frame, unit):
    worth = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(unit, unit)
    scaled = read_runs(frame.assign(N=frame["N"] / worth), units={"N": unit, "D": 1})
    scaled, expected = scaled.observations("dcpt"), observe(frame)
    np.testing.assert_allclose(scaled.inputs["N"], expected.inputs["N"], rtol=1e-14)
    np.testing.assert_array_equal(scaled.inputs["D"], expected.inputs["D"])
    np.testing.assert_allclose(scaled.ranges["N"][1] * worth, expected.ranges["N"][1])
