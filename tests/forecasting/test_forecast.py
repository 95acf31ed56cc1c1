"""Forecasts: intervals for new runs, what they are made of, their files, and how they went."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.forecasting import score
from jaxlaw.forecasting._question import quantiles_of
from tests.fixtures.command_files import a_forecast

AT = {"N": [5e9, 2e10], "D": [1e11, 4e11]}
TRUTH = jl.simulate.TRUTHS["chinchilla"]


def codes(result):
    return [note.code for note in result.notes]


def of_truth(N, D):
    return TRUTH["E"] + TRUTH["A"] / N ** TRUTH["alpha"] + TRUTH["B"] / D ** TRUTH["beta"]


def few(n, noise=0.003, seed=0):
    random, N = np.random.default_rng(seed), np.geomspace(7e7, 9e8, n)
    loss = of_truth(N, 20 * N) * np.exp(noise * random.standard_normal(n))
    return pd.DataFrame({"N": N, "D": 20 * N, "loss": loss})


# --- the numbers


def test_the_interval_holds_the_truth_and_grows_with_distance(made_forecast):
    table = made_forecast.table
    truth = of_truth(table["N"], table["D"])
    assert (table["low"] < truth).all() and (truth < table["high"]).all()
    assert (table["low"] < table["estimate"]).all() and (table["estimate"] < table["high"]).all()
    width = np.log(table["high"] / table["low"])
    assert 2 * 1.6 * made_forecast.posterior.noise < width[0] < width[1]
    np.testing.assert_allclose(table.filter(like="from_").sum(axis=1), 1.0)
    assert (table.filter(like="from_") >= 0).all(axis=None)
    assert (table["from_misfit"] > 0.5).all() and made_forecast.weights == {"skaling": 1.0}


def test_within_the_runs_the_law_has_no_misfit(ladder):
    row = jl.forecast(ladder, {"N": 1e9, "D": 2e10}).table.iloc[0]
    assert (row["distance"], row["from_misfit"]) == (0, 0) and row["from_noise"] > 0.5


def test_the_parts_are_the_variances_of_the_draws():
    """Of draws that differ by a standard normal, and noise of none, a quantile is the normal's."""
    logs = np.random.default_rng(0).standard_normal((20_000, 1))
    found = np.log(quantiles_of(logs, np.full(20_000, 1e-9), 0)[:, 0])
    np.testing.assert_allclose(found[40:-40], np.linspace(-3.3, 3.3, 265)[40:-40], atol=0.06)


def test_levels_are_nested(made_forecast):
    low, high = made_forecast.interval(0.9)
    np.testing.assert_allclose(low, made_forecast.table["low"])
    inner, outer = made_forecast.interval(0.5), made_forecast.interval(0.99)
    assert (outer[0] < low).all() and (low < inner[0]).all() and (high < outer[1]).all()
    with pytest.raises(jl.UsageError, match="level"):
        made_forecast.interval(1.0)


def test_units_change_nothing_and_texts_say_theirs(ladder, made_forecast):
    rows = ladder.assign(N=ladder["N"] / 1e9, D=ladder["D"] / 1e9)
    at = {"N": ["5B", "20B"], "D": [100, 400]}
    again = jl.forecast(rows, at, units={"N": 1e9, "D": 1e9})
    for name in ("estimate", "low", "high", "distance"):
        np.testing.assert_allclose(again.table[name], made_forecast.table[name], rtol=1e-5)
    assert again.table["N"].tolist() == [5, 20] and "N 20 B parameters" in again.headline


def test_of_several_laws_the_one_of_most_evidence_is_taken(ladder):
    point = {"N": 2e10, "D": 4e11}
    found = jl.forecast(ladder, point, {"one": "kaplan", "other": "skaling"}, backtest=True)
    assert found.weights["other"] > 0.9 and sum(found.weights.values()) == pytest.approx(1)
    assert "law other 100%, one 0%" in found.summary()
    alone = jl.forecast(ladder, point, "skaling", backtest=True)
    pd.testing.assert_frame_equal(found.table, alone.table)
    chosen = found.backtest.frame.merge(alone.backtest.frame, on=["forecast", "row"])
    assert (chosen["estimate_x"] == chosen["estimate_y"]).mean() > 0.5
    plan = jl.planning.allocation(found, 1e22)
    assert plan.interval["N"][0] < plan.N < plan.interval["N"][1]


@pytest.mark.full
def test_three_runs_are_enough_and_more_narrow_the_interval():
    widths = []
    for count in (3, 12):
        row = jl.forecast(few(count), {"N": 7e9, "D": 1.4e11}).table.iloc[0]
        assert row["low"] < of_truth(7e9, 1.4e11) < row["high"]
        widths.append(row["high"] - row["low"])
    assert widths[1] < widths[0]


@pytest.mark.full
def test_without_a_prior_few_runs_are_not_refused_but_wide():
    known = jl.forecast(few(6), {"N": 7e9, "D": 1.4e11}).table.iloc[0]
    row = jl.forecast(few(6), {"N": 7e9, "D": 1.4e11}, prior=None).table.iloc[0]
    assert row["high"] - row["low"] > known["high"] - known["low"]
    assert row["from_prior"] == 0 < known["from_prior"]


# --- what is said of it


@pytest.mark.full
def test_runs_that_contradict_the_prior_say_so_first_with_both_answers(ladder):
    odd = ladder.assign(loss=4.0 * (6 * ladder["N"] * ladder["D"] / 1e18) ** -0.3)
    found = jl.forecast(odd, {"N": 2e10, "D": 4e11})
    assert codes(found)[0] == "prior-conflict"
    without = jl.forecast(odd, {"N": 2e10, "D": 4e11}, prior=None)
    assert f"{without.table['estimate'][0]:.4g}" in found.notes[0].message
    assert "prior-conflict" not in codes(without)


def test_no_note_stands_on_a_forecast_of_sound_runs(made_forecast):
    assert not [note for note in made_forecast.notes if note.decides]


def test_far_beyond_what_the_runs_span_a_note_says_so(ladder):
    assert "farther-than-tested" in codes(jl.forecast(ladder, {"N": 1e13, "D": 1e15}))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda t: t.assign(D=t["D"] / 4096), "doubtful-values"),
        (lambda t: t.assign(N=t["D"], D=t["N"]), "doubtful-values"),
        (lambda t: t.assign(
            corpus=np.resize(["a", "b"], len(t)),
            loss=t["loss"] * np.resize([1.0, 1.05], len(t)),
        ), "mixed-runs"),
    ],
)  # fmt: skip
def test_defects_of_an_experiment_are_noted_as_by_a_fit(ladder, change, code):
    assert code in codes(jl.forecast(change(ladder), {"N": 2e10, "D": 4e11}))


def test_an_input_that_no_run_had_is_noted():
    law = jl.simulate.TRUTHS["dcpt"]
    inputs = {"N": np.repeat([0.5, 1.8], 12), "D": np.tile([1.0, 2.0, 4.0], 8),
              "r": np.resize([0.1, 0.2, 0.33, 0.5], 24)}  # fmt: skip
    runs = jl.simulate.simulate_runs("dcpt", law, inputs, noise=0.002)
    inside, outside = (
        codes(jl.forecast(runs, {"N": 1.8, "D": 8.0, "r": r}, units={"N": 1e9, "D": 1e9}))
        for r in (0.4, 1.0)
    )
    assert "unseen-input" not in inside and "unseen-input" in outside


# --- labels, files


@pytest.mark.full
def test_groups_are_labels_in_the_table_and_in_the_score(ladder):
    """Labels 1 and 0 were compared with the codes 0 and 1, which swapped them all."""
    labels = np.resize([1, 0], len(ladder))
    table = ladder.assign(group=labels, loss=ladder["loss"] * np.where(labels == 1, 1.2, 1.0))
    law = jl.laws.grouped("skaling", ["1", "0"])
    at = {"N": [5e9, 5e9], "D": [1e11, 1e11], "group": [1, 0]}
    found = jl.forecast(table, at, law)
    assert found.table["group"].tolist() == ["1", "0"]
    ratio = found.table["estimate"][0] / found.table["estimate"][1]
    assert ratio == pytest.approx(1.2, rel=0.02)
    later = pd.DataFrame(at).assign(loss=found.table["estimate"])
    np.testing.assert_allclose(found.score(later).frame["error"], 0, atol=1e-9)


def test_a_saved_forecast_is_read_again_as_it_was(made_forecast, tmp_path):
    made_forecast.save(tmp_path / "forecast.json")
    again = jl.load(tmp_path / "forecast.json")
    assert again.table.equals(made_forecast.table)
    assert again.summary() == made_forecast.summary()
    plans = [jl.planning.allocation(one, 1e22).summary() for one in (again, made_forecast)]
    assert plans[0] == plans[1]


def test_the_fingerprint_is_of_the_runs_and_not_of_their_order(ladder, made_forecast):
    again = jl.forecast(ladder.sample(frac=1, random_state=1), AT)
    assert again.fingerprint == made_forecast.fingerprint
    assert jl.forecast(ladder.iloc[1:], AT).fingerprint != made_forecast.fingerprint


def test_the_command_gives_the_numbers_of_the_function(command, ladder, made_forecast):
    ladder.to_csv("runs.csv", index=False)
    code, out, err = command(
        "forecast", "runs.csv", "--json", "--out", "f.json", "--at", "N=5e9,D=1e11",
        "--at", "N=20B,D=400B",
    )  # fmt: skip
    assert (code, err) == (0, "")
    printed = pd.DataFrame(json.loads(out)["table"])
    pd.testing.assert_frame_equal(printed, made_forecast.table, check_dtype=False)
    assert jl.load("f.json").table["estimate"][0] == printed["estimate"][0]


# --- how it went


def test_scores_by_hand(made_forecast):
    table = made_forecast.table
    losses = [table["estimate"][0] * 1.001, table["high"][1] + 0.1, 2.0]
    made = pd.DataFrame({"N": [5e9, 2.01e10, 1e9], "D": [1e11, 4e11, 1e11], "loss": losses})
    found = made_forecast.score(made)
    assert found.frame["row"].tolist() == [0, 1] and found.frame["inside"].tolist() == [True, False]
    np.testing.assert_allclose(found.frame["error"], table["estimate"] / losses[:2] - 1)
    assert found.calibration.set_index("level")["inside"][0.5] == 0.5
    assert found.headline.startswith("90% intervals covered 1 of 2 later runs at 1 forecast")
    billions = made.assign(N=made["N"] / 1e9)
    again = score([made_forecast, made_forecast], billions, units={"N": 1e9})
    pd.testing.assert_frame_equal(again.frame, found.frame, check_exact=False)
    with pytest.raises(jl.DataError, match="no run was made where"):
        made_forecast.score({"N": [1e9], "D": [1e9], "loss": [2.0]})


def test_a_run_that_was_fitted_is_no_forecast_that_came_true(ladder):
    at = ladder[["N", "D"]].iloc[-3:]
    found = jl.forecast(ladder, at)
    with pytest.raises(jl.DataError, match="3 runs are those that the forecasts were fitted to"):
        found.score(ladder)
    again = ladder.iloc[-3:].assign(loss=lambda t: t["loss"] * 1.001)
    assert len(found.score(pd.concat([ladder, again])).frame) == 3


def test_a_folder_of_forecasts_is_scored_together(made_forecast, tmp_path, command):
    table = made_forecast.table
    other = dataclasses.replace(made_forecast, quantiles=made_forecast.quantiles * 0.5)
    for name, one in {"a": made_forecast, "b": other}.items():
        one.save(tmp_path / f"{name}.json")
    made_forecast.draws().save(tmp_path / "draws.json")
    made = table[["N", "D"]].assign(loss=table["estimate"])
    made.to_csv(tmp_path / "runs.csv", index=False)
    code, out, err = command("score", str(tmp_path), str(tmp_path / "runs.csv"), "--json")
    assert (code, err) == (0, "")
    below = np.array([row["below"] for row in json.loads(out)["frame"]])
    assert (np.abs(2 * below - 1) < 0.9).tolist() == [True, True, False, False]


# --- what is refused


@pytest.mark.parametrize(
    ("at", "kind", "message"),
    [
        ({"N": -1.0, "D": 1e12}, jl.DataError, "N"),
        ({"N": [], "D": 1e12}, jl.UsageError, "at has no point"),
        (7, jl.UsageError, "at is a dict"),
    ],
)
def test_points_that_make_no_sense_are_refused(ladder, at, kind, message):
    with pytest.raises(kind, match=message):
        jl.forecast(ladder, at)


def test_what_cannot_be_forecast_is_refused(ladder):
    with pytest.raises(jl.DataError, match="no column N .*, D .*which law skaling needs"):
        jl.forecast({"x": [1, 2, 3], "loss": [1, 2, 3]}, {"x": 1})
    with pytest.raises(jl.UsageError, match="every drop of a learning rate"):
        jl.forecast(ladder, AT, "multi-power")
    with pytest.raises(jl.UsageError, match="listed twice"):
        jl.forecast(ladder, AT, ["skaling", "skaling"])
    with pytest.raises(jl.UsageError, match="one takes D, N; other takes C"):
        jl.forecast(ladder, AT, {"one": "skaling", "other": "loss-compute-e"})
    with pytest.raises(jl.UsageError, match="the largest you can afford"):
        jl.design.next_runs(a_forecast(), ladder, {"N": [1e9], "D": [1e10]}, n=1)
