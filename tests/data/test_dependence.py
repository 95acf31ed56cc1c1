"""Checkpoints of one run are no independent runs: recognised, said, grouped, remembered."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.data._dependence import correlation_within, run_groups, successive_correlation
from jaxlaw.errors import ColumnError
from jaxlaw.notes import DEPENDENT_ROWS
from tests.conftest import DATA, needs_data

SIZES, STEPS = 22, 35


def checkpoints(shared=0.01, seed=0):
    """22 runs of 35 checkpoints each, whose noise is mostly that of their run."""
    design = {
        "N": np.repeat(np.geomspace(5e7, 6e9, SIZES), STEPS),
        "D": np.tile(np.geomspace(1e9, 1e11, STEPS), SIZES),
    }
    table = simulate.simulate_runs(
        "chinchilla", simulate.TRUTHS["chinchilla"], design, noise=0.001, seed=seed
    )
    of_run = np.random.default_rng(seed).standard_normal(SIZES)
    return table.assign(loss=table["loss"] * np.exp(shared * np.repeat(of_run, STEPS)))


def named(table):
    return table.assign(run=[f"run {k // STEPS}" for k in range(len(table))])


def of(notes):
    return [note for note in notes if note.code == DEPENDENT_ROWS]


@pytest.fixture(scope="module")
def grouped_fit():
    runs = jl.read_runs(named(checkpoints()))
    return jl.fit("chinchilla", runs, n_starts=256), runs


# ------------------------------------------------------------- recognised


@pytest.mark.full
def test_rows_of_one_run_are_noted(grouped_fit):
    fit, _ = grouped_fit
    (note,) = of(fit.notes)
    assert note.severity == "warning"
    assert "770 rows are of 22 runs (column run)" in note.message
    # Its own standard errors are by run already: the note is of intervals by row.
    assert fit.standard_errors.groups == ("run",) and "standard errors" not in note.message
    assert "use jl.bootstrap(…, groups='run')" in note.message


def test_rows_that_differ_in_tokens_alone_are_noted_where_residuals_show_it():
    """The same design of separate runs, with noise of their own, is left alone."""
    (note,) = of(jl.fit("chinchilla", checkpoints(), n_starts=256).notes)
    assert "22 groups of equal N, as checkpoints of one run are" in note.message
    separate = checkpoints(shared=0.0)
    for table in (separate, named(separate)):
        assert jl.fit("chinchilla", table, n_starts=256).notes == ()


def test_a_smooth_misfit_is_not_taken_for_checkpoints():
    table = checkpoints(shared=0.0)
    bend = np.log(table["N"] / 5e8) * np.log(table["D"] / 1e10)
    fit = jl.fit("chinchilla", table.assign(loss=table["loss"] * np.exp(0.003 * bend)))
    assert [note.code for note in fit.notes] == ["lack-of-fit"]


def test_a_column_of_the_users_own_name_and_few_rows():
    table = pd.DataFrame({"N": [1.0, 1, 2, 2, 3, 3], "D": [1.0, 2, 1, 2, 1, 2]})
    inputs = {name: table[name].to_numpy() for name in "ND"}
    assert run_groups(table, inputs, {}) is None  # two rows of each size: nothing
    groups = run_groups(table.assign(run=[1, 1, 2, 2, 3, 3]), inputs, {"run": "trial"})
    assert groups.columns == ("trial",) and groups.count == 3 and groups.named
    assert run_groups(table.assign(run=range(6)), inputs, {}) is None
    assert run_groups(table.assign(run=None), inputs, {}) is None
    few = named(checkpoints()).iloc[[run * STEPS + step for run in range(9) for step in (3, 30)]]
    (note,) = of(jl.fit("chinchilla", few, n_starts=256).notes)
    assert "18 rows are of 9 runs (column run), too few to test" in note.message


@pytest.mark.parametrize("rows", [12, 240])
def test_a_line_that_stands_twice_makes_no_checkpoints(rows):
    """Neither in a table whose runs have names, nor in a grid of sizes and tokens."""
    table = checkpoints(shared=0.0).sample(rows - 1, random_state=0)
    twice = pd.concat([table, table.iloc[[3]]], ignore_index=True)
    for runs in (twice, twice.assign(run=[*range(rows - 1), 3])):
        notes = jl.fit("chinchilla", runs, n_starts=64).notes
        assert not of(notes) and "duplicate-rows" in {note.code for note in notes}


def test_seeds_tell_runs_of_equal_inputs_apart():
    table = checkpoints().assign(seed=0)
    both = pd.concat([table, checkpoints(seed=1).assign(seed=1)], ignore_index=True)
    inputs = {name: both[name].to_numpy() for name in "ND"}
    assert run_groups(both.drop(columns="seed"), inputs, {}) is None
    groups = run_groups(both, inputs, {})
    assert groups.columns == ("N", "seed") and groups.count == 44 and not groups.named


def histories(runs=3, points=40, rate=None):
    """Losses logged every 1e9 tokens by runs of three sizes."""
    N, D = np.geomspace(1e8, 1e9, runs), 1e9 * np.arange(1, points + 1)
    design = {"N": np.repeat(N, points), "D": np.tile(D, runs)}
    table = simulate.simulate_runs("chinchilla", simulate.TRUTHS["chinchilla"], design, noise=0.003)
    table["run"] = np.repeat([f"run {k}" for k in range(runs)], points)
    return table if rate is None else table.assign(lr=rate(np.tile(D, runs) / D[-1]))


def test_loss_curves_are_not_taken_for_finished_runs():
    """Curves under a decaying rate end a fit of finals at E = 0; at a constant rate they do not."""

    def codes(table, law="chinchilla"):
        return [note.code for note in jl.read_runs(table).observations(law).notes]

    said, logged = ["checkpoints-as-runs"], histories()
    assert codes(logged) == codes(logged.drop(columns="run")) == said
    assert codes(histories(rate=lambda part: 1 - part)) == said
    assert "checkpoints-as-runs" not in codes(logged.assign(r=0.5), "dcpt")
    assert codes(histories(rate=np.ones_like)) == []
    assert codes(checkpoints()) == []  # spaced in equal ratios, as grids of finished runs are


@pytest.mark.parametrize("named", ["run", "N", ["run", "N"], "run,N"])
def test_the_last_row_of_each_run_counts(named):
    logged = histories().sample(frac=1, random_state=0).reset_index(drop=True)
    logged.loc[(logged["D"] > 3.95e10) & (logged["run"] == "run 1"), "loss"] = np.nan
    runs = jl.read_runs(logged, last_of=named, weight="D")
    ends = runs.table.set_index("run")["D"].to_dict()
    assert ends == {"run 0": 4e10, "run 1": 3.9e10, "run 2": 4e10}
    assert runs.weight.tolist() == runs.table["D"].tolist() and runs.dropped == 117
    options, taken = runs.reading.options({}, logged.columns)
    assert jl.read_runs(logged, **options).table.equals(runs.table) and "last_of" in taken
    kept = jl.read_runs(logged, last_of=named, where="D < 2e10").table
    assert (kept["D"] == 1.9e10).all()
    with pytest.raises(ColumnError, match="there is no column rum"):
        jl.read_runs(logged, last_of="rum")


def test_correlations_of_what_is_known():
    random = np.random.default_rng(0)
    members = np.repeat(np.arange(200), 5)
    noise = random.standard_normal(1000)
    shared = noise + 2 * np.repeat(random.standard_normal(200), 5)
    assert correlation_within(shared, members)[0] == pytest.approx(0.8, abs=0.05)
    result = successive_correlation(shared, members, np.tile(np.arange(5), 200))
    assert result[0] == pytest.approx(0.8, abs=0.05) and result[2] == 800
    assert abs(correlation_within(noise, members)[1]) < 3
    alternating = np.tile([1.0, -1.0], 500)
    assert successive_correlation(alternating, np.zeros(1000, int), np.arange(1000))[0] == -1


@needs_data
def test_a_real_grid_of_separate_runs_is_left_alone():
    runs = jl.read_runs(Path(DATA) / "farseer.csv", where="split == 'train'")
    assert not of(jl.fit("chinchilla", runs, n_starts=256).notes)
