"""The bootstrap: what is drawn, what is fitted, what is said of it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.fitting import student_interval
from jaxlaw.fitting._objective import kernel_width
from jaxlaw.uncertainty._bootstrap import degrees_of, resamples
from jaxlaw.uncertainty._covariance import moved_by_leaving_out
from jaxlaw.uncertainty._fit_problem import fit_with_data
from jaxlaw.uncertainty._groups import group_numbers
from jaxlaw.uncertainty._intervals import interval_of, percentile_interval
from jaxlaw.uncertainty._resampling import (
    resampled_residuals,
    resampled_weights,
    wild_residuals,
)
from tests.conftest import chinchilla_runs, needs_data

TABLE = simulate.experiment("chinchilla").table
TRUTH = simulate.TRUTHS["chinchilla"]


@pytest.fixture(scope="module")
def drawn(chinchilla_fit) -> jl.Bootstrap:
    return jl.bootstrap(chinchilla_fit, TABLE, 300, progress=False)


def test_what_a_file_holds_gives_the_same_intervals(drawn, chinchilla_fit, tmp_path):
    """Of a bootstrap and of a covariance."""
    for result in (drawn, jl.covariance(chinchilla_fit, TABLE)):
        result.save(tmp_path / "kept.json")
        again = jl.load(tmp_path / "kept.json")
        pd.testing.assert_frame_equal(again.conf_int(0.9), result.conf_int(0.9))
        assert again.to_dict() == result.to_dict() and again.summary() == result.summary()
        result.save(tmp_path / "kept.csv")
        kept = pd.read_csv(tmp_path / "kept.csv")
        pd.testing.assert_frame_equal(kept, result.conf_int(), check_dtype=False)
    drawn.save(tmp_path / "kept.json")
    again, at = jl.load(tmp_path / "kept.json"), {"N": [7e9, 7e10], "D": 1e12}
    assert (
        jl.planning.allocation(again, 1e21).interval == jl.planning.allocation(drawn, 1e21).interval
    )
    both = (jl.uncertainty.prediction(one, at=at) for one in (drawn, again))
    before, after = (one.tables["points"] for one in both)
    pd.testing.assert_frame_equal(after, before)


@pytest.mark.full
def test_intervals_hold_the_truth_and_are_as_wide_as_the_spread(drawn):
    table = drawn.conf_int(0.95)
    assert list(table["parameter"]) == list(TRUTH)
    for row in table.to_dict("records"):
        assert row["low"] < TRUTH[row["parameter"]] < row["high"]
        assert row["low"] < row["estimate"] < row["high"]
        width = np.log(row["high"] / row["low"])
        spread = np.log(drawn.params[row["parameter"]]).std()
        assert width == pytest.approx(2 * 1.96 * spread, rel=0.2)


def test_predictions_are_known_better_than_parameters(drawn):
    at = {"N": [1e9, 7e9, 7e10], "D": 1e12}
    predicted = drawn.predict(**at)
    assert predicted.shape == (300, 3)
    one = {name: values[7] for name, values in drawn.params.items()}
    np.testing.assert_allclose(
        predicted[7], one["E"] + one["A"] / np.array(at["N"]) ** one["alpha"]
        + one["B"] / 1e12 ** one["beta"], rtol=1e-9,
    )  # fmt: skip
    table = jl.uncertainty.prediction(drawn, at=at).tables["points"]
    truth = TRUTH["E"] + 406.4 / table["N"] ** 0.34 + 410.7 / 1e12**0.28
    assert ((table["loss_low"] < truth) & (truth < table["loss_high"])).all()
    assert (predicted.std(axis=0) / table["loss"] < 0.02).all()
    assert drawn.params["A"].std() / TRUTH["A"] > 0.02


def test_any_function_of_the_parameters_has_an_interval(drawn):
    def ratio(params):
        return params["alpha"] / params["beta"]

    result = drawn.interval(ratio)
    assert result.low < TRUTH["alpha"] / TRUTH["beta"] < result.high
    assert result.estimate == drawn.fit.params["alpha"] / drawn.fit.params["beta"]


@pytest.mark.full
def test_bootstraps_of_the_same_runs_are_paired(chinchilla_fit, drawn):
    """Twice the loss is twice E, A and B in every resample, not only on average."""
    twice = jl.bootstrap("chinchilla", TABLE.assign(loss=2 * TABLE["loss"]), 300, progress=False)
    for name in "EAB":
        np.testing.assert_allclose(twice.params[name], 2 * drawn.params[name], rtol=1e-4)
    other = jl.bootstrap(chinchilla_fit, TABLE, 300, seed=1, progress=False)
    assert not np.isclose(other.params["alpha"], drawn.params["alpha"]).any()


@pytest.mark.full
def test_the_wild_bootstrap_is_as_wide_as_the_sandwich(chinchilla_fit):
    bootstrap = jl.bootstrap(chinchilla_fit, TABLE, 300, kind="wild", progress=False)
    errors = jl.covariance(chinchilla_fit, TABLE).conf_int().set_index("parameter")["std_err"]
    for name, values in bootstrap.params.items():
        assert np.std(values) == pytest.approx(errors[name], rel=0.15)


def test_residuals_as_if_left_out_are_those_of_fits_without_them(chinchilla_fit):
    """In least squares; of groups, by the block of the hat matrix."""
    squares = replace(chinchilla_fit, delta=np.inf)
    problem = replace(fit_with_data(chinchilla_fit, TABLE), fit=squares)
    slopes, off = problem.linear.jacobian, problem.linear.residuals
    basis, _ = np.linalg.qr(slopes)
    hat = basis @ basis.T
    rows = moved_by_leaving_out(problem, np.arange(len(TABLE)))
    np.testing.assert_allclose(off + rows, off / (1 - np.diagonal(hat)), atol=1e-9)
    members = np.arange(len(TABLE)) % 27
    result = off + moved_by_leaving_out(problem, members)
    for group in (0, 26):
        own = members == group
        left = np.linalg.solve(np.eye(own.sum()) - hat[np.ix_(own, own)], off[own])
        np.testing.assert_allclose(result[own], left, atol=1e-9)


def test_whole_groups_are_drawn():
    groups = np.repeat(np.arange(9), 27)
    counts = resampled_weights(groups, 50, 0)
    by_group = counts.reshape(50, 9, 27)
    assert (by_group == by_group[:, :, :1]).all()
    assert (counts.sum(axis=1) == 243).all() and len(np.unique(counts)) > 2
    factors = wild_residuals(np.ones(243), 2000, 0, groups).reshape(2000, 9, 27)
    assert (factors == factors[:, :, :1]).all()
    np.testing.assert_allclose(np.unique(factors) ** 2, [1.5, 1, 0.5, 0.5, 1, 1.5])
    assert factors.mean() == pytest.approx(0, abs=0.02)
    assert factors.var() == pytest.approx(1, abs=0.02)
    signs = wild_residuals(np.ones(243), 50, 0, np.arange(243))
    assert set(signs.flat) == {-1.0, 1.0}


def test_residuals_are_smoothed_where_the_fit_sees_their_density(chinchilla_fit):
    """Not for least squares: there resamples are the fit and its residuals, as if left out."""
    problem, rows = fit_with_data(chinchilla_fit, TABLE), np.arange(243)
    squares = replace(problem, fit=replace(chinchilla_fit, delta=np.inf))
    drawn = {}
    for name, one in {"huber": problem, "squares": squares}.items():
        _, targets = resamples(one, 200, "wild", rows, 0)
        drawn[name] = np.abs(np.log(targets) - one.linear.prediction)
    np.testing.assert_allclose(drawn["squares"], drawn["squares"][:1].repeat(200, 0), rtol=1e-6)
    off = problem.linear.residuals + moved_by_leaving_out(problem, rows)
    spread = (drawn["huber"] ** 2).mean() - (off**2).mean()
    assert np.sqrt(spread) == pytest.approx(kernel_width(off), rel=0.05)


def test_bayesian_weights_leave_no_group_out():
    groups = np.repeat(np.arange(9), 3)
    weights = resampled_weights(groups, 4000, 0, "bayesian")
    assert weights.min() > 0 and (weights[:, ::3] == weights[:, 1::3]).all()
    assert weights.mean() == pytest.approx(1, abs=0.02)
    assert weights.var() == pytest.approx(1, abs=0.05)


def test_residuals_have_one_scale_a_resample_and_students_t_degrees():
    left = np.array([1.0, -1.0])
    more = resampled_residuals(left, 50, 0, size=5, degrees=3)
    assert more.shape == (50, 5)
    np.testing.assert_allclose(np.abs(more), np.abs(more[:, :1]).repeat(5, 1))
    square = resampled_residuals(left, 20_000, 0, size=1, degrees=9) ** 2
    assert square.mean() == pytest.approx(9 / 7, rel=0.03)  # the variance of t with 9 degrees


def test_groups_are_columns_or_labels():
    table = pd.DataFrame(
        {"size": [1e7, 1e7, 2e7, 2e7, 3e7] * 2, "D": [1e9] * 5 + [2e9] * 5,
         "loss": np.linspace(3, 2, 10), "run": list("aabbcaabbc")}
    )  # fmt: skip
    table.loc[9, "loss"] = np.nan
    runs = jl.read_runs(table, {"N": "size"}, drop_invalid=True)
    seen = runs.observations("chinchilla")
    by_run = [0, 0, 1, 1, 2, 0, 0, 1, 1]
    for groups in ("run", "N", "size", table["run"].to_numpy()):
        assert group_numbers(runs, seen, groups).tolist() == by_run
    both = group_numbers(runs, seen, ["run", "D"])
    assert both.tolist() == [0, 0, 1, 1, 2, 3, 3, 4, 4]
    with pytest.raises(jl.UsageError, match="no column ran.*Did you mean 'run'"):
        group_numbers(runs, seen, "ran")
    with pytest.raises(jl.UsageError, match="10 runs"):
        group_numbers(runs, seen, np.arange(9))
    with pytest.raises(jl.DataError, match="one group"):
        group_numbers(runs, seen, np.zeros(10))
    table.loc[3, "run"] = None
    with pytest.raises(jl.DataError, match="row 3: no group"):
        group_numbers(jl.read_runs(table.iloc[:9], {"N": "size"}), seen, "run")


def test_percentiles_that_are_infinite_are_draws():
    draws = np.stack([np.append(np.arange(90.0), np.full(10, np.inf)), np.arange(100.0)], axis=1)
    low, high = percentile_interval(draws)
    assert low[0] == 5 and high[0] == np.inf
    assert (low[1], high[1]) == pytest.approx(tuple(np.quantile(draws[:, 1], [0.05, 0.95])))
    draws[::2] = np.nan  # no answer there
    assert percentile_interval(draws[:, 1]) == pytest.approx(
        tuple(np.quantile(np.arange(1.0, 100, 2), [0.05, 0.95]))
    )
    wide = percentile_interval(draws[:, 1], degrees=3)
    assert wide[0] < percentile_interval(draws[:, 1])[0]
    assert np.isnan(percentile_interval(np.full(5, np.nan))).all()
    with pytest.raises(jl.UsageError, match=r"between 0 and 1, such as 0\.9, not 95"):
        percentile_interval(draws, 95)


def test_intervals_of_known_draws():
    draws = np.concatenate([np.exp(np.linspace(-1, 1, 2001)), [np.nan, np.inf]])
    low, high = interval_of(1.0, draws)[2:]
    np.testing.assert_allclose([low, high], np.exp([-0.9, 0.9]), rtol=1e-3)
    assert np.isnan(interval_of(1.0, np.full(10, np.nan)).low)


def test_intervals_of_few_degrees_go_as_far_out_as_students_t():
    """Of normal draws: estimate ± 2.0150 standard deviations with 5 degrees."""
    from scipy.special import ndtri

    draws = ndtri((np.arange(100_000) + 0.5) / 100_000)
    low, high = interval_of(0.0, draws, degrees=5)[2:]
    np.testing.assert_allclose([low, high], [-2.0150, 2.0150], rtol=1e-3)
    assert student_interval(1.0, 400.0, 0.95, 1, True) == (0.0, np.inf)  # and no warning
    widths = [np.ptp(interval_of(0.0, draws, degrees=d)[2:]) for d in (3, 5, 20, 200, np.inf)]
    assert (np.diff(widths) < 0).all()


def test_degrees_are_those_of_what_is_drawn(chinchilla_fit):
    problem = fit_with_data(chinchilla_fit, TABLE)
    rows, nine = np.arange(243), np.arange(243) // 27
    result = [degrees_of(problem, kind, rows) for kind in ("case", "wild")]
    assert result == [np.inf, 238]
    assert [degrees_of(problem, kind, nine) for kind in ("case", "wild")] == [8, 8]


@pytest.mark.full
def test_notes_say_what_the_resamples_were_short_of(chinchilla_fit):
    labels = np.arange(len(TABLE)) // 27
    few = jl.bootstrap(chinchilla_fit, TABLE, 300, groups=labels, progress=False)
    assert few.n_groups == 9 and "few-groups" in [note.code for note in few.notes]
    walled = jl.bootstrap("chinchilla", TABLE, 300, bounds={"E": (None, 1.66)}, progress=False)
    assert "at-bound" in [note.code for note in walled.notes]
    assert walled.params["E"].max() <= 1.66


def test_other_runs_than_the_fits_are_refused(chinchilla_fit):
    with pytest.raises(jl.UsageError, match="pass the runs it was fitted to"):
        jl.bootstrap(chinchilla_fit, TABLE.iloc[:200])


@needs_data
@pytest.mark.full
def test_the_published_standard_errors_and_intervals_of_chinchilla():
    """Besiroglu 2024, table 1 and its repository; 4,000 resamples."""
    published = {
        "E": (0.0257, 1.769, 1.871),
        "A": (124.5, 285.2, 743.6),
        "B": (1293, 1042, 5810),
        "alpha": (0.0154, 0.317, 0.373),
        "beta": (0.0206, 0.331, 0.415),
    }
    result = jl.bootstrap("chinchilla", chinchilla_runs(), 4000, progress=False).conf_int(0.95)
    for row in result.to_dict("records"):
        error, *ends = published[row["parameter"]]
        assert row["std_err"] == pytest.approx(error, rel=0.15)
        mine, theirs = [row["low"], row["high"]], np.array(ends)
        if row["parameter"] in "AB":
            mine, theirs = np.log(mine), np.log(theirs)
        assert np.abs(mine - theirs).max() < 0.1 * np.ptp(theirs)
