"""Forecasts: intervals for new runs, what they are made of, their files, and how they went."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import jaxlaw as jl
from jaxlaw._json import add_digest
from jaxlaw.forecasting import _cutoffs, score
from jaxlaw.forecasting._backtest import fit_at_cutoffs
from jaxlaw.forecasting._calibration import (
    KNOWN,
    KNOWN_DRIFT,
    OF_DISAGREEMENT,
    OF_RESIDUALS,
    PER_E_FOLD,
    PRIOR_CUTOFFS,
    PRIOR_MEAN_CUTOFFS,
    Beforehand,
    Calibration,
    CutoffErrors,
    backtest_coverage,
    calibrate,
    common_scale,
)
from jaxlaw.forecasting._forecast_notes import notes_of_backtest, notes_of_points
from jaxlaw.validation._cross_validate import candidates_of, data_set
from jaxlaw.validation.folds import in_sample
from tests.fixtures.command_files import a_forecast
from tests.fixtures.drawn_laws import TRUTHS

SEARCH = {"n_starts": 64, "n_local": 4}
NOISE = 0.005
AT = {"N": [1e10, 1e11], "D": [4e11, 4e12]}


@pytest.fixture(scope="module")
def runs():
    return jl.simulate.experiment("chinchilla", noise=NOISE).table


@pytest.fixture(scope="module")
def found(runs):
    return jl.forecast(["chinchilla", "kaplan"], runs, AT, prior=None, **SEARCH)


def no_fit(*_, **__):
    raise AssertionError("a fit was made")


def codes(result):
    return {note.code for note in result.notes}


# --- the numbers


@pytest.mark.full
def test_the_interval_is_of_a_new_run_and_grows_with_distance(found):
    table = found.table
    width = np.log(table["high"] / table["low"])
    # A new run alone varies by ± 1.645 standard deviations of the noise.
    assert (width > 2 * 1.6 * NOISE).all() and width[1] > width[0]
    assert table["distance"].is_monotonic_increasing and table["distance"][0] > 0
    assert (table.filter(like="from_") >= 0).all(axis=None)
    np.testing.assert_allclose(table.filter(like="from_").sum(axis=1), 1.0)
    assert table["from_common"][1] > table["from_common"][0]


def test_the_true_law_is_weighted_most_and_the_truth_is_inside(found, runs):
    assert (found.weights["chinchilla"] > 0.8).all()
    np.testing.assert_allclose(sum(found.weights.values()), 1.0)
    truth = jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table, **SEARCH)
    expected = truth.predict(AT)
    table = found.table
    assert (table["low"] < expected).all() and (expected < table["high"]).all()
    np.testing.assert_allclose(table["estimate"], table["laws"] * (1 + table["shift"]))


def test_levels_are_nested_and_quantiles_agree_with_the_interval(found):
    low, high = found.interval(0.9)
    np.testing.assert_allclose(low, found.table["low"], rtol=2e-5)
    np.testing.assert_allclose(high, found.table["high"], rtol=2e-5)
    inner, outer = found.interval(0.5), found.interval(0.99)
    assert (outer[0] < low).all() and (low < inner[0]).all() and (high < outer[1]).all()
    np.testing.assert_allclose(
        found.probability_below_at([0, 1], found.table["low"]), 0.05, atol=2e-3
    )
    with pytest.raises(jl.UsageError, match="level"):
        found.interval(1.0)


def test_inside_the_runs_a_forecast_is_the_noise_of_a_run(runs):
    inside = jl.forecast("chinchilla", runs, {"N": 1e9, "D": 2e10}, prior=None, **SEARCH)
    row = inside.table.iloc[0]
    assert row["distance"] == 0 and row["from_noise"] > 0.9 and abs(row["shift"]) < 1e-3
    sides = np.log(row["high"] / row["low"]) / 2 / NOISE
    assert 1.4 < sides < 2.1
    (note,) = (note for note in inside.notes if note.code == "one-law")
    assert note.severity == "warning" and note.message.startswith("chinchilla alone")


@pytest.mark.full
def test_where_laws_err_on_one_side_the_estimate_moves_towards_the_truth(runs):
    """Held below its irreducible loss, the law predicts too low beyond every cut-off."""
    compute = 6 * runs["N"] * runs["D"]
    later = runs[compute > 5e20]
    found = jl.forecast(
        "chinchilla",
        runs[compute <= 5e20],
        later[["N", "D"]],
        fixed={"E": 0.8},
        cutoffs=3,
        **SEARCH,
    )
    table, observed = found.table, later["loss"].to_numpy()
    before, after = (np.log(observed / table[name]).mean() for name in ("laws", "estimate"))
    assert before > 0.002 and (table["shift"] > 0).all() and abs(after) < before
    (note,) = (note for note in found.notes if note.code == "one-sided")
    assert "too low at all 3 cut-offs" in note.message and "moved by +" in note.message
    assert note.severity == "info"  # what it says is in the estimate and in the width


@pytest.mark.full
def test_few_runs_get_a_priors_width_and_say_so(runs):
    found = jl.forecast("chinchilla", runs.iloc[::40], {"N": 1e10, "D": 4e11}, **SEARCH)
    assert "prior-width" in codes(found) and found.backtest is None
    row = found.table.iloc[0]
    assert row["low"] < row["laws"] < row["high"]
    # Nothing is learned: what laws with a prior are known to overestimate is all it is moved by.
    assert row["shift"] == pytest.approx(np.expm1(-KNOWN_DRIFT * row["distance"]), rel=1e-12)
    without = jl.forecast("chinchilla", runs.iloc[::40], AT, prior=None, **SEARCH)
    assert without.table["shift"].tolist() == [0.0, 0.0]


def test_few_cutoffs_are_one_note_of_a_forecast(runs):
    """The back-test's note on few cut-offs says nothing that prior-width does not."""
    at = {"N": 1e10, "D": 4e11}
    found = jl.forecast("chinchilla", runs, at, cutoffs=1, **SEARCH)
    assert "few-cutoffs" in {note.code for note in found.backtest.notes}
    assert "prior-width" in codes(found) and "few-cutoffs" not in codes(found)


def curve(seed, bend, count=13):
    """A fine-tuned model's losses over its samples, which fall ever faster: no rectified law."""
    samples = 200.0 * 2 ** np.arange(count)
    noise = 0.002 * np.random.default_rng(seed).standard_normal(count)
    loss = 3.5 * np.exp(-bend * np.log(samples / 100) ** 2 + noise)
    return pd.DataFrame({"Df": samples, "loss": loss})


@pytest.mark.full
def test_few_runs_of_a_law_that_does_not_suit_are_wide_and_noted():
    """Thirteen runs, and a law that errs more the farther: its residuals say how far it may err."""
    table = curve(0, 0.008)
    seen, later = table[:-2], table[-2:]
    found = jl.forecast("rectified", seen, later[["Df"]], along="Df", **SEARCH)
    assert {"few-rows", "one-law"} <= codes(found)
    assert len(found.backtest.cutoffs) >= 4  # with two rows more than parameters, too
    assert score(found, later).table["inside"].all()
    coverage = found.backtest_coverage
    assert 0 <= coverage <= 1 and f"held {coverage:.0%} of the" in found.summary()


def test_runs_of_one_budget_are_noted(runs):
    """Sizes at one compute, jittered: of how the loss falls with compute they show nothing."""
    jitter = 1 + 0.05 * np.random.default_rng(0).standard_normal(len(runs))
    isoflop = runs.assign(D=3e20 * jitter / (6 * runs["N"]))
    data = {"N": isoflop["N"], "D": isoflop["D"], "loss": runs["loss"]}
    some = {name: values[::27] for name, values in data.items()}
    fits = fit_at_cutoffs("chinchilla", some, "compute", 6, None, None, SEARCH, needed=False)
    table = pd.DataFrame({"distance": [1.0], "shift": [0.0]})
    notes = {note.code: note for note in notes_of_backtest(fits, [], table, ["chinchilla"])}
    assert notes["one-budget"].inherited and "the same compute" in notes["one-budget"].message
    two = dataclasses.replace(fits, z=fits.z * np.where(np.arange(len(fits.z)) % 2, 1, 3))
    notes = notes_of_backtest(two, [], table, ["chinchilla"])
    assert "one-budget" not in {note.code for note in notes}


def test_far_beyond_the_backtest_a_note_says_so(found, runs):
    far = jl.forecast("chinchilla", runs, {"N": 1e12, "D": 1e14}, **SEARCH)
    assert "farther-than-tested" in codes(far)
    odd = jl.forecast("chinchilla", runs, {"N": 1e12, "D": 1e10}, **SEARCH)
    assert "unseen-ratio" in codes(odd)


def test_a_ratio_that_all_runs_have_is_seen_however_it_was_rounded():
    N = np.geomspace(1.1e8, 7e10, 60)
    runs = {"D/N": (20.0 * (1 - 2e-16), 20.0)}
    fit = dataclasses.replace(jl.published()["besiroglu-2024"], joint_ranges=runs)
    fit = dataclasses.replace(fit, ranges={"N": (N[0], N[-1]), "D": (1e9, 2e12)})
    points = {"N": N, "D": 20.3 / 7 * N * 7 / 20.3 * 20}
    assert len(np.unique(points["D"] / N)) > 2
    assert not list(notes_of_points({"law": fit}, points, np.zeros(60), "compute"))
    points["D"] = points["D"] * 1.001
    (note,) = notes_of_points({"law": fit}, points, np.zeros(60), "compute")
    assert note.code == "unseen-ratio"


def test_a_ratio_that_the_distance_measures_is_not_called_unknown():
    """A function of the inputs as along= may grow with D/N: then the back-test has tried it."""
    fit = dataclasses.replace(
        jl.published()["besiroglu-2024"], joint_ranges={"D/N": (10.0, 40.0)},
        ranges={"N": (1e8, 1e10), "D": (1e9, 4e11)},
    )  # fmt: skip
    points = {"N": np.array([1e9]), "D": np.array([9e10])}

    def ratio(N, D):
        return D / N

    for along, distance, expected in (
        ("compute", 1.0, ["unseen-ratio"]), (ratio, 0.8, []), (ratio, 0.0, ["unseen-ratio"]),
    ):  # fmt: skip
        notes = notes_of_points({"law": fit}, points, np.array([distance]), along)
        assert [note.code for note in notes] == expected


def test_an_input_that_no_run_had_is_noted_where_the_distance_does_not_measure_it(runs):
    """Inside in N, tokens far beyond would get the interval of a run among those fitted."""
    found = jl.forecast("chinchilla", runs, {"N": 1e9, "D": 1e14}, along="N", **SEARCH)
    (note,) = (one for one in found.notes if one.code == "unseen-input")
    assert (
        "D = 100 T tokens (fitted 745 M to 600 B)" in note.message
        and "give along='D'" in note.message
    )


@pytest.fixture(scope="module")
def curve_runs():
    """A curve under a falling rate, which the annealing law obeys."""
    lines = {"a": "cosine:peak=1e-3,steps=4000"}
    steps = np.arange(200, 4001, 50)
    table = {"run": ["a"] * len(steps), "step": steps, "loss": np.ones(len(steps))}
    rows = jl.read_loss_curves(table, schedules=lines).runs()
    areas = rows.table
    loss = 2.5 + 0.6 * areas["S1"] ** -0.5 - 0.3 * areas["S2"]
    noise = 0.001 * np.random.default_rng(0).standard_normal(len(steps))
    return jl.read_loss_curves({**table, "loss": loss * np.exp(noise)}, schedules=lines)


@pytest.mark.full
def test_the_rest_of_a_loss_curve_is_forecast_from_its_prefix(curve_runs):
    rest = curve_runs.only(where="step > 2500").runs().table.iloc[::6]
    seen = curve_runs.only(where="step <= 2500")
    found = jl.forecast(None, seen, rest[["S1", "S2", "step"]], along="step", cutoffs=3, **SEARCH)
    assert list(found.fits) == ["annealing"] and found.along == "step"
    inside = found.table["low"].lt(rest["loss"].to_numpy()) & found.table["high"].gt(
        rest["loss"].to_numpy()
    )
    assert inside.mean() > 0.7 and "unseen-input" not in codes(found)


@pytest.mark.full
def test_a_prefix_before_the_rate_falls_says_nothing_of_what_its_fall_does():
    lines = {"a": "wsd:peak=1e-3,steps=4000"}
    steps = np.arange(200, 4001, 100)
    table = {"run": ["a"] * len(steps), "step": steps, "loss": 2.5 + 3.0 * steps**-0.5}
    curves = jl.read_loss_curves(table, schedules=lines)
    last = curves.runs().table.iloc[[-1]][["S1", "S2", "step"]]
    seen = curves.only(where="step <= 2500")
    made = {"cutoffs": 1, "n_resamples": 2, **SEARCH}
    found = jl.forecast("annealing", seen, last, along="step", **made)
    (note,) = (one for one in found.notes if one.code == "unseen-input")
    assert "S2 = " in note.message and "no run shows what it does" in note.message


def test_laws_of_curves_are_refused_with_what_to_do(curve_runs):
    with pytest.raises(jl.UsageError, match="give along='step'"):
        jl.forecast("annealing", curve_runs, {"S1": 1, "S2": 1})
    with pytest.raises(jl.UsageError, match="every drop of a learning rate"):
        jl.forecast("multi-power", curve_runs, {"S1": 1}, along="step")
    # Inputs of two dimensions are no columns of a table: the back-test of such laws failed.
    candidates = candidates_of("multi-power", {}, {})
    data = data_set(None, curve_runs.runs(), in_sample(), candidates, {})
    assert data.observations["multi-power"].inputs["drop"].ndim == 2


@pytest.mark.full
def test_units_change_nothing(runs, found):
    rows = runs.assign(N=runs["N"] / 1e9, D=runs["D"] / 1e9)
    again = jl.forecast(
        ["chinchilla", "kaplan"], rows, {"N": [10, 100], "D": [400, 4000]},
        units={"N": 1e9, "D": 1e9}, prior=None, **SEARCH,
    )  # fmt: skip
    np.testing.assert_allclose(again.table["estimate"], found.table["estimate"], rtol=1e-4)
    np.testing.assert_allclose(again.table["distance"], found.table["distance"])


# --- the calibration


def errors_of(mean, count=40, scatter=1e-4, cutoff=1.0, laws=1, seed=0):
    """Runs at distance 1 beyond a cut-off, with a common error."""
    random = np.random.default_rng(seed)
    error = mean + scatter * random.standard_normal((count, 1)) + np.zeros((1, laws))
    zero = np.zeros((count, laws))
    residuals = np.full(laws, 1e-4)
    return CutoffErrors(cutoff, np.ones(count), error, zero, zero, residuals, np.ones(count))


RESIDUALS, NOTHING = np.array([1e-4]), Beforehand.nothing(1)


def test_a_cutoff_counts_once_however_many_runs_lie_beyond():
    few = [errors_of(0.003, 40), errors_of(-0.003, 40)]
    many = [errors_of(0.003, 4000), errors_of(-0.003, 4000)]
    one, other = (calibrate(1.0, errors, RESIDUALS, 1.0, NOTHING) for errors in (few, many))
    assert one.degrees == pytest.approx(PRIOR_CUTOFFS + 2, abs=0.05)
    assert other.degrees == pytest.approx(one.degrees, abs=0.05)
    assert other.scale == pytest.approx(one.scale, rel=0.02) and abs(one.mean) < 0.02


def test_without_a_backtest_the_prior_decides():
    one = calibrate(2.0, [], RESIDUALS, 1.0, NOTHING)
    assert (one.mean, one.degrees) == (0.0, PRIOR_CUTOFFS)
    assert one.scale == pytest.approx(
        np.sqrt(1 + 1 / PRIOR_MEAN_CUTOFFS)
    ) and one.weights.tolist() == [1.0]


def test_errors_on_one_side_move_the_mean_and_many_cutoffs_decide():
    standard = 2.0  # in units of the scale
    errors = [errors_of(standard * PER_E_FOLD, seed=k) for k in range(600)]
    one = calibrate(1.0, errors, RESIDUALS, 1.0, NOTHING)
    assert one.mean == pytest.approx(standard * 600 / (600 + PRIOR_MEAN_CUTOFFS), rel=0.02)
    assert one.scale < 0.5
    old = [errors_of(standard * PER_E_FOLD, cutoff=1e-9)]
    faded = calibrate(1.0, old, RESIDUALS, 1.0, NOTHING)  # of long ago: it hardly counts
    assert abs(faded.mean) < 0.05


def test_the_law_that_predicted_is_weighted_and_one_that_failed_is_not():
    random = np.random.default_rng(0)
    errors = []
    for _ in range(4):
        error = 1e-3 * random.standard_normal((30, 3))
        error[:, 1] += 0.02
        error[:, 2] = np.nan
        zero = np.zeros((30, 3))
        own = np.full(3, 1e-3)
        errors.append(CutoffErrors(1.0, np.ones(30), error, zero, zero, own, np.ones(30)))
    one = calibrate(1.0, errors, np.full(3, 1e-3), 1.0, Beforehand.nothing(3))
    assert one.weights[0] > 0.9 > 0.1 > one.weights[1] >= one.weights[2]
    assert np.isfinite(one.mean) and np.isnan(one.of_laws[:, 2]).all()


def test_quantiles_are_those_of_the_sum_of_both_errors():
    one = Calibration(1.0, np.ones(1), 0.5, 1.2, 7.0, 0.0035, 0.4, np.zeros(3), np.zeros((3, 1)))
    levels = np.array([0.05, 0.5, 0.95])
    random = np.random.default_rng(0)
    draws = 0.003 * (0.5 + 1.2 * stats.t.rvs(7, size=400_000, random_state=random))
    run = np.sqrt(0.0035**2 + 0.4 * 0.003**2)
    draws += run * np.sqrt(3 / 5) * stats.t.rvs(5, size=400_000, random_state=random)
    expected = np.quantile(draws, levels)
    np.testing.assert_allclose(one.quantiles(np.array([0.003]), levels)[:, 0], expected, atol=8e-5)


def test_the_scale_grows_with_distance_residuals_and_disagreement():
    away, among, parameters = (np.array(pair) for pair in ([0.0, 2.0], [0.0, 4e-4], [0.0, 5e-4]))
    scale = common_scale(away, among, parameters, 0.01)
    drift = 2 * np.hypot(PER_E_FOLD, OF_RESIDUALS * 0.01)
    np.testing.assert_allclose(scale, [0.0, np.sqrt(drift**2 + OF_DISAGREEMENT**2 * 4e-4 + 5e-4)])


def test_what_laws_are_known_to_overestimate_is_not_learned_again():
    """Errors of just that size are none: the shift by the back-test is that of what is beyond."""
    known = Beforehand.of_priors(["skaling", None])
    assert known.weights.sum() == pytest.approx(KNOWN) and known.weights[0] > known.weights[1]
    errors = [errors_of(-known.drift, laws=2, seed=k) for k in range(20)]
    residuals = np.full(2, 1e-4)
    one = calibrate(1.0, errors, residuals, 1.0, known)
    other = calibrate(1.0, errors, residuals, 1.0, Beforehand.nothing(2))
    assert abs(one.mean) < 0.02 and other.mean < -0.3
    np.testing.assert_allclose(one.biases, -known.drift, atol=1e-4)  # as they were observed
    assert backtest_coverage(errors, 0.9, known).mean() == 1.0


def test_intervals_of_earlier_cutoffs_are_judged_by_what_came_then():
    """Errors that double from cut-off to cut-off lie outside; those that do not grow, inside."""
    at = np.exp(np.arange(5.0))
    steady = [errors_of(0.004, cutoff=z, seed=k) for k, z in enumerate(at)]
    assert backtest_coverage(steady, 0.9, NOTHING).tolist() == [1.0] * 5
    growing = [errors_of(0.02 * 2.0**k, cutoff=z, seed=k) for k, z in enumerate(at)]
    assert np.mean(backtest_coverage(growing, 0.9, NOTHING)) < 0.5


def test_the_picture_shows_compute_as_powers_of_ten(found):
    """FLOPs are no parameters or tokens: 1e21 is not "1e+09 T"."""
    pytest.importorskip("matplotlib")
    from jaxlaw import plots

    ax = plots.forecast_intervals(found)
    ax.figure.canvas.draw()
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert "10²¹" in labels
    assert not any(label.endswith(("T", "B", "M", "k")) for label in labels)


def test_the_picture_holds_runs_curves_and_what_came_later(found, tmp_path):
    """Of a file the picture was one bar in an empty frame: it knew no runs."""
    pytest.importorskip("matplotlib")
    from jaxlaw import plots

    found.save(tmp_path / "forecast.json")
    again = jl.load(tmp_path / "forecast.json")
    row = found.table.iloc[0]
    later = {"N": [row["N"]], "D": [row["D"]], found.target: [1.001 * row["estimate"]]}
    ax = plots.forecast_intervals(again, later=pd.DataFrame(later))
    dots = [np.asarray(one.get_offsets()) for one in ax.collections if len(one.get_offsets())]
    assert len(dots[0]) == found.runs["count"]
    np.testing.assert_allclose(np.sort(dots[0][:, 1]), np.sort(found.observed["target"]))
    (made,) = dots[-1]
    assert made == pytest.approx([6 * row["N"] * row["D"], 1.001 * row["estimate"]])
    words = [text.get_text() for text in ax.texts]
    numbers = f"forecast {row['estimate']:.4g} ({row['low']:.4g} to {row['high']:.4g})"
    assert numbers in words and "came later" in words
    heavy = [law for law, w in found.weights.items() if (w > 0.05).any()]
    assert all(any(word.startswith(law) for word in words) for law in heavy)
    # Every law's curve goes through its own prediction at the point.
    compute = float(6 * row["N"] * row["D"])
    for law in heavy:
        alone = float(found.fits[law].predict(N=row["N"], D=row["D"]))
        near = [np.interp(np.log(compute), np.log(line.get_xdata()), line.get_ydata())
                for line in ax.lines if len(line.get_xdata()) > 10]  # fmt: skip
        assert np.abs(np.array(near) - alone).min() < 1e-4
    largest = found.observed["along"].max()
    stripes = [p for p in ax.patches if p.get_hatch()]
    assert max(p.get_x() for p in stripes) == pytest.approx(largest)
    with pytest.raises(jl.DataError, match="loss"):
        plots.forecast_intervals(again, later={"N": [1e9], "D": [1e9]})


# --- files


def test_a_saved_forecast_is_read_again_as_it_was(found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found.save("forecast.json")
    again = jl.load("forecast.json")
    assert isinstance(again, jl.Forecast) and again.table.equals(found.table)
    np.testing.assert_array_equal(again.quantiles, found.quantiles)
    assert again.summary() == found.summary() and again.notes == found.notes
    assert again.fits["kaplan"].params == found.fits["kaplan"].params
    assert (
        len(again.runs["fingerprint"]) == 64
        and "T" in again.created
        and again.package_versions["jax"]
    )
    found.save("table.csv")
    assert len(pd.read_csv("table.csv")) == 2


def test_the_command_gives_the_numbers_of_the_function(command, runs, tmp_path, monkeypatch):
    """``test_commands`` leaves this one out: the record says when a forecast was made."""
    monkeypatch.chdir(tmp_path)
    runs.to_csv("runs.csv", index=False)
    options = "--at N=1e10,D=4e11 --cutoffs 2 --resamples 2 --n-starts 64 --n-local 4 --seed 3"
    code, out, err = command(
        "forecast", "chinchilla", "runs.csv", "--json", "--out", "f.json", *options.split()
    )
    assert (code, err) == (0, "")
    expected = jl.forecast(
        "chinchilla", "runs.csv", {"N": 1e10, "D": 4e11}, cutoffs=2, n_resamples=2, seed=3,
        **SEARCH,
    ).to_dict()  # fmt: skip
    record = json.loads(out)
    (tmp_path / "printed.json").write_text(out)
    assert jl.load("printed.json").level == 0.9
    del record["digest"]  # of the date, too
    for each in (record, expected):
        each.pop("created")
    assert record == json.loads(json.dumps(expected))
    assert jl.load("f.json").table["estimate"][0] == record["table"][0]["estimate"]


def test_a_changed_file_and_a_field_that_is_missing_are_refused(found, tmp_path):
    path = tmp_path / "forecast.json"
    found.save(path)
    record = json.loads(path.read_text())
    record["table"][0]["low"] *= 0.9
    path.write_text(json.dumps(record))
    with pytest.raises(jl.DataError, match="was changed after"):
        jl.load(path)
    del record["digest"]
    path.write_text(json.dumps(record))
    with pytest.raises(jl.DataError, match="is not sealed: without field 'digest'"):
        jl.load(path)
    with pytest.raises(jl.DataError, match="is not sealed"):
        score(tmp_path, {"N": [1e10], "D": [4e11], "loss": [2.0]})
    del record["weights"]
    path.write_text(json.dumps(add_digest(record)))
    with pytest.raises(jl.DataError, match="whole jaxlaw forecast: field .weights. is missing"):
        jl.load(path)
    without = [{name: cell for name, cell in row.items() if name != "low"}
               for row in found.to_dict()["table"]]  # fmt: skip
    path.write_text(json.dumps(add_digest(found.to_dict() | {"table": without})))
    with pytest.raises(jl.DataError, match=r"field 'table\[0\].low' is missing"):
        jl.load(path)
    fewer = found.to_dict() | {"quantiles": found.to_dict()["quantiles"][:-1]}
    path.write_text(json.dumps(add_digest(fewer)))
    with pytest.raises(jl.DataError, match="field 'quantiles' has shape"):
        jl.load(path)
    path.write_text(json.dumps(add_digest(record | {"schema": 99})))
    with pytest.raises(jl.DataError, match="schema 99"):
        jl.load(path)


@pytest.mark.full
def test_the_fingerprint_is_of_the_runs_and_not_of_their_order(found, runs):
    shuffled = jl.forecast(
        ["chinchilla", "kaplan"], runs.sample(frac=1, random_state=1), AT, **SEARCH
    )
    assert shuffled.runs["fingerprint"] == found.runs["fingerprint"]
    fewer = jl.forecast(["chinchilla", "kaplan"], runs.iloc[1:], AT, **SEARCH)
    assert fewer.runs["fingerprint"] != found.runs["fingerprint"]


# --- how it went


def test_scores_by_hand(found):
    table = found.table
    inside = table["estimate"][0] * 1.001
    outside = table["high"][1] + 0.1
    made = pd.DataFrame(
        {"N": [1e10, 1.01e11, 5e9], "D": [4e11, 4e12, 1e11], "loss": [inside, outside, 2.0]}
    )
    scores = score(found, made)
    assert scores.table["row"].tolist() == [0, 1]
    assert scores.table["inside"].tolist() == [True, False]
    width = table["high"] - table["low"]
    np.testing.assert_allclose(scores.table["interval_score"], [width[0], width[1] + 2 / 0.1 * 0.1])
    assert scores.table["surprise"][0] < 1 < scores.table["surprise"][1]
    assert scores.calibration["inside"].tolist()[0] == 0.5
    assert {"matched-nearly", "few-forecasts"} <= codes(scores)
    assert "1 of 2 runs inside" in scores.summary()
    other = dataclasses.replace(found, level=0.8)
    both = score({"a": found, "b": other}, made)
    assert both.table["forecast"].tolist() == ["a", "a", "b", "b"]
    billions = made.assign(N=made["N"] / 1e9)
    again = score(found, billions, units={"N": 1e9})
    np.testing.assert_allclose(again.table["interval_score"], scores.table["interval_score"])


def test_a_run_and_a_forecast_that_are_given_twice_count_once(found, tmp_path):
    made = pd.DataFrame({"N": [1e10, 1e11], "D": [4e11, 4e12], "loss": found.table["estimate"]})
    expected = score(found, made)
    later = dataclasses.replace(found, created="2030-01-01T00:00:00+00:00")
    again = score({"a": found, "b": later}, pd.concat([made, made], ignore_index=True))
    assert again.table["row"].tolist() == [0, 1] and set(again.table["forecast"]) == {"a"}
    pd.testing.assert_frame_equal(again.calibration, expected.calibration)
    said = {note.code: note.message for note in again.notes}
    assert said["same-forecast"] == "counted once: b is the forecast a"
    assert "counted once: rows 2, 3" in said["duplicate-rows"]
    found.save(tmp_path / "f.json")
    for named in ([tmp_path / "f.json"] * 2, [tmp_path, str(tmp_path / "f.json")]):
        assert "f.json (again) is the forecast" in score(named, made).notes[0].message
    repeated = score(found, pd.concat([made, made.assign(loss=made["loss"] * 1.001)]))
    assert len(repeated.table) == 4 and "duplicate-rows" not in codes(repeated)


def test_the_calibration_is_over_all_forecasts_of_a_folder(found, tmp_path, command):
    """One forecast held both runs, another neither; a third is of a run not yet made."""
    table = found.table
    made = pd.DataFrame({"N": [1e10, 1e11], "D": [4e11, 4e12], "loss": table["estimate"]})
    low = dataclasses.replace(found, quantiles=found.quantiles * 0.5, table=table.assign(
        low=table["low"] * 0.5, high=table["high"] * 0.5, estimate=table["estimate"] * 0.5
    ))  # fmt: skip
    later = dataclasses.replace(found, table=table.assign(N=9e12))
    for name, one in {"a": found, "b": low, "c": later}.items():
        one.save(tmp_path / f"{name}.json")
    found.fits["kaplan"].save(tmp_path / "fit.json")
    found.draws().save(tmp_path / "draws.json")
    scores = score(tmp_path, made)
    assert [Path(name).stem for name in scores.table["forecast"]] == ["a", "a", "b", "b"]
    row = scores.calibration.set_index("level").loc[0.9]
    assert (row["forecasts"], row["runs"], row["inside"]) == (2, 4, 0.5)
    assert row["std_err"] == pytest.approx(0.5) and "not-made-yet" in codes(scores)
    made.to_csv(tmp_path / "runs.csv", index=False)
    code, out, err = command("score", str(tmp_path), str(tmp_path / "runs.csv"), "--json")
    assert (code, err) == (0, "") and json.loads(out)["calibration"][2]["inside"] == 0.5
    pytest.importorskip("matplotlib")
    from jaxlaw import plots

    line = plots.forecast_calibration(scores).lines[-1]
    assert line.get_ydata()[[0, -1]].tolist() == [50.0, 100.0]
    with pytest.raises(jl.UsageError, match="no forecast among its 0 files"):
        (tmp_path / "empty").mkdir()
        score(tmp_path / "empty", made)


def test_runs_that_were_not_forecast_and_other_things_are_refused(found):
    with pytest.raises(jl.DataError, match="none of 1 runs was made where"):
        score(found, {"N": [1e9], "D": [1e9], "loss": [2.0]})
    with pytest.raises(jl.DataError, match="loss"):
        score(found, {"N": [1e10], "D": [4e11]})
    with pytest.raises(jl.UsageError, match="not Fit"):
        score([jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table, **SEARCH)], {})
    with pytest.raises(jl.UsageError, match="no forecast"):
        score([], {})


@pytest.mark.parametrize(
    ("at", "kind", "message"),
    [
        ({"N": 1e10}, jl.UsageError, "at lacks D"),
        ({"N": 1e10, "D": 1e12, "x": 1}, jl.UsageError, "which no law takes"),
        ({"N": "many", "D": 1e12}, jl.UsageError, "numbers"),
        ({"N": -1.0, "D": 1e12}, jl.DataError, "N"),
        ({"N": [], "D": []}, jl.UsageError, "at has no point: N, D is empty"),
        ({"N": [], "D": 1e12}, jl.UsageError, "at has no point: N is empty"),
        ({}, jl.UsageError, "at is a dict"),
        (7, jl.UsageError, "at is a dict"),
    ],
)
def test_points_that_make_no_sense_are_refused_before_anything_is_fitted(
    runs, monkeypatch, at, kind, message
):
    monkeypatch.setattr(_cutoffs, "fit_many", no_fit)
    with pytest.raises(kind, match=message):
        jl.forecast("chinchilla", runs, at, **SEARCH)


def test_what_points_lie_along_is_checked_before_anything_is_fitted(runs, monkeypatch):
    monkeypatch.setattr(_cutoffs, "fit_many", no_fit)
    with pytest.raises(jl.DataError, match="no column tokens"):
        jl.forecast("chinchilla", runs, AT, along="tokens", **SEARCH)
    with pytest.raises(jl.UsageError, match="points of at, which have N, D: KeyError 'loss'"):
        jl.forecast("chinchilla", runs, AT, along=lambda table: 1 / table["loss"], **SEARCH)


@pytest.mark.full
@pytest.mark.skipif("JAXLAW_DATA" not in os.environ, reason="JAXLAW_DATA names no folder of data")
def test_intervals_hold_the_largest_runs_of_farseer():
    table = pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / "farseer.csv")
    train, later = table[table["split"] == "train"], table[table["split"] == "test"]
    found = jl.forecast(
        ["chinchilla", "skaling"], train[["N", "D", "loss"]], later[["N", "D"]],
        units={"N": 1, "D": 1}, cutoffs=3, **SEARCH,
    )  # fmt: skip
    scores = score(found, later[["N", "D", "loss"]])
    # chinchilla's own 95 % intervals hold none of these seven.
    assert scores.table["inside"].sum() >= 6
    assert scores.table["error"].abs().median() < 0.01


def test_tables_for_people_name_groups_and_have_units():
    """The number of a group stood where the headline has its label, and a log where a factor."""
    made = a_forecast()
    law = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B"])
    truth = dict(TRUTHS["chinchilla"])
    truth |= dict.fromkeys(("B[c4]", "B[pile]"), truth.pop("B"))
    table = made.table.copy()
    table.insert(0, "group", 1.0)
    grouped = dataclasses.replace(made, table=table, fits={"chinchilla": jl.FittedLaw(law, truth)})
    html, latex = grouped._repr_html_(), grouped.to_latex()
    assert "group pile, N 20 B parameters" in grouped.headline
    for cell in (
        "pile",
        "20 B",
        "400 B",
        "2.046 to 2.115",
        "15 ×",
        "noise 40 %, common error 30 %",
    ):
        assert f"<td>{cell}</td>" in html, cell
    assert "<th>90 % of estimate</th>" in html and "from_noise" not in html
    assert latex.splitlines()[6].startswith("pile & ")
    inside = dataclasses.replace(made, table=made.table.assign(distance=0.0))
    assert "<td>inside</td>" in inside._repr_html_()


def test_ratios_are_of_single_tokens_and_parameters_whatever_the_runs_count_in():
    """Sizes of "238M" and tokens in billions made D/N = 2.143e-7 of 214 tokens a parameter."""
    fit = jl.FittedLaw("chinchilla", TRUTHS["chinchilla"], units={"N": 1.0, "D": 1e9},
                       ranges={"N": (1e8, 1e9), "D": (2.0, 20.0)},
                       joint_ranges={"N*D": (2e8, 2e10), "D/N": (1e-8, 4e-8)})  # fmt: skip
    plan = jl.planning.allocation(fit, 1e24)
    said = {note.code: note.message for note in plan.notes}
    assert f"the best D/N, {1e9 * plan.D / plan.N:.3g}, lies above" in said["optimum-beyond-tried"]
    assert "all that were run (10 to 40)" in said["optimum-beyond-tried"]
    points = {"N": np.array([5e8]), "D": np.array([50.0])}
    (note,) = notes_of_points({"chinchilla": fit}, points, np.ones(1), "compute")
    assert "D/N = 100 (fitted 10 to 40)" in note.message
