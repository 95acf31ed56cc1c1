"""What errors carry beside their message: a program finds the cell without reading the text."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl

GOOD = {
    "params": ["1e8", "2e8", "4e8", "8e8", "1.6e9", "3.2e9"],
    "D": ["2e9", "4e9", "8e9", "1.6e10", "3.2e10", "6.4e10"],
    "loss": ["3.9", "3.6", "3.3", "3.0", "2.8", "2.6"],
}
CURVE = {"step": [10, 20, 30], "loss": [3.5, 3.2, 3.1], "lr": [1e-3, 1e-3, 1e-3]}


def table_with(tmp_path, column, row, cell):
    """A CSV file of good runs, but for one cell; ``row`` counts from 0."""
    table = pd.DataFrame(GOOD)
    table.loc[row, column] = cell
    path = tmp_path / "runs.csv"
    table.to_csv(path, index=False)
    return path


def error_of(call, *args, **options):
    with pytest.raises(jl.DataError) as caught:
        call(*args, **options)
    return caught.value


def fields(error):
    return error.file, error.row, error.column, error.value


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ("params", "400Q", "400Q"),
        ("params", "1_000", "1_000"),
        ("params", "-4e8", -4e8),
        ("D", "0", 0.0),
        ("D", "inf", np.inf),
        ("loss", "3,1", "3,1"),
    ],
)
def test_a_bad_cell_is_named_by_file_line_and_column(tmp_path, column, cell, value):
    path = table_with(tmp_path, column, 2, cell)
    error = error_of(jl.fit, "chinchilla", jl.read_runs(path, {"N": "params"}))
    assert fields(error) == (str(path), 4, column, value)  # the header is line 1
    assert str(path) in str(error) and "line" in str(error) and column in str(error)


def test_an_empty_cell_and_the_first_of_several(tmp_path):
    path = table_with(tmp_path, "loss", 3, "")
    error = error_of(jl.fit, "chinchilla", jl.read_runs(path, {"N": "params"}))
    assert fields(error)[:3] == (str(path), 5, "loss") and np.isnan(error.value)
    frame = pd.DataFrame(GOOD, index=list("abcdef")).astype(float)
    frame.loc[["c", "e"], "D"] = -1.0
    error = error_of(jl.fit, "chinchilla", frame.rename(columns={"params": "N"}))
    assert fields(error) == ("DataFrame", "c", "D", -1.0)
    assert type(error.value) is float  # no number of numpy


def test_shares_units_and_weights(tmp_path):
    runs = {"N": [1e9] * 3, "D": [1e10] * 3, "r": [0.2, 1.5, 0.4], "loss": [3.0, 2.9, 2.8]}
    error = error_of(jl.fit, "dcpt", runs)
    assert fields(error) == ("dict", 1, "r", 1.5)
    billions = {"N": [1.0, 2.0, 4.0], "D": [20.0, 40.0, 80.0], "loss": [3.0, 2.9, 2.8]}
    error = error_of(jl.read_runs(billions).observations, "chinchilla")
    assert fields(error)[:1] + fields(error)[2:] == ("dict", "N", 2.0)
    error = error_of(jl.read_runs, billions | {"w": [1, -1, 1]}, weight="w")
    assert fields(error) == ("dict", 1, "w", -1.0)


@pytest.mark.parametrize(
    ("cells", "options", "row", "column", "value"),
    [
        ({"step": [10, 20.5, 30]}, {}, 1, "step", 20.5),
        ({"step": [10, 30, 20]}, {}, 2, "step", 20.0),
        ({"step": [10, 20, 200]}, {}, 2, "step", 200.0),
        ({"lr": [1e-3, 1e-3, -1.0]}, {}, 2, "lr", -1.0),
        ({"lr": [1e-3, 5e-3, 1e-3]}, {}, 1, "lr", 5e-3),
        ({"phase": ["pt", "cpt", "sft"]}, {}, 2, "phase", "sft"),
        ({"batch": [1, 2, 2]}, {"batch": "batch"}, 1, "batch", 2.0),
        ({"first": [0, 5, 0]}, {"first_step": "first"}, 1, "first", 5),
    ],
)
def test_a_bad_cell_of_a_loss_curve(cells, options, row, column, value):
    options = {"schedule": "constant:lr=1e-3,steps=100"} | options
    error = error_of(jl.read_loss_curves, CURVE | cells, **options)
    assert (error.row, error.column, error.value) == (row, column, value)


def test_other_tables_name_the_cell_too():
    steps = {"step": [0, 1000, 5000], "loss": [3.0, -1.0, 2.0]}
    error = error_of(jl.data.learnability_coefficients, steps)
    assert fields(error) == ("dict", 1, "loss", -1.0)
    log = pd.DataFrame({"step": [1, 2, 2], "lr": [1e-3, 1e-3, 1e-3]})
    error = error_of(jl.read_loss_curves, log)
    assert fields(error) == ("DataFrame", 2, "step", 2.0)
    runs = jl.simulate.experiment("chinchilla").table.assign(run="a")
    runs.loc[4, "run"] = None
    error = error_of(jl.bootstrap, "chinchilla", runs, n_resamples=5, groups="run")
    assert (error.row, error.column) == (4, "run")
