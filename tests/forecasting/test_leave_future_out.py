"""Leave-future-out: forecasts of the first runs alone, each as it would have been made."""

import json

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.forecasting import leave_future_out
from jaxlaw.forecasting._leave_future_out import LeaveFutureOut, _chosen, _in_order
from tests.conftest import DATA, needs_data

AT = {"N": 7e9, "D": 1.4e11}
LAW = "chinchilla"


def ladder(n=6, noise=0.003, seed=0):
    random = np.random.default_rng(seed)
    N = np.geomspace(7e7, 9e8, n)
    loss = 1.7 + 400 * N**-0.34 + 410 * (20 * N) ** -0.29
    loss = loss * np.exp(noise * random.standard_normal(n))
    return pd.DataFrame({"N": N, "D": 20 * N, "loss": loss})


@pytest.fixture(scope="module")
def said():
    return leave_future_out(LAW, ladder(), counts=[3, 5], n_resamples=8)


# --- the order of the runs, without a fit


def order_of(table, order="compute", groups=None, along="compute", **reading):
    return _in_order(LAW, jl.read_runs(table, **reading), order, along, groups)


def test_runs_come_in_order_of_compute_whatever_the_order_of_the_table():
    shuffled = ladder().sample(frac=1, random_state=1)
    made = order_of(shuffled)
    np.testing.assert_allclose(made.inputs["N"], np.sort(shuffled["N"]))
    assert made.counts.tolist() == [1, 2, 3, 4, 5, 6]
    first, later = made.split(4)
    assert shuffled["N"].iloc[first].max() < shuffled["N"].iloc[later].min()


def test_runs_of_one_budget_come_together():
    """Budgets of 6·N·D that are equal on paper differ in the last digit."""
    budgets = np.repeat([1e19, 1e20, 1e21], 4)
    N = np.tile([1e8, 2e8, 4e8, 8e8], 3)
    table = pd.DataFrame({"N": N, "D": budgets / 6 / N * (1 + 1e-15), "loss": 3.0})
    assert order_of(table).counts.tolist() == [4, 8, 12]
    jittered = table.assign(D=table.D * (1 + 0.01 * np.arange(12) % 0.03))
    assert order_of(jittered).counts.tolist() == [4, 8, 12]
    assert _chosen(np.array([4, 8]), [3, 4, 5], "runs") == [4, 8]


def test_runs_come_in_order_of_a_column_of_texts_or_numbers():
    days = ["2026-03-01", "2026-01-15", "2026-02-01", "2026-04-01", "2026-02-01", "2026-05-01"]
    made = order_of(ladder().assign(day=days), order="day")
    assert made.positions.tolist() == [1, 2, 4, 0, 3, 5] and made.counts.tolist() == [1, 3, 4, 5, 6]
    assert order_of(ladder().assign(k=[5, 4, 3, 2, 1, 0]), order="k").positions[0] == 5
    mine = ladder().rename(columns={"N": "size"})
    assert order_of(mine, order="size", columns={"N": "size"}).positions.tolist() == [*range(6)]


def test_a_run_is_there_with_its_last_checkpoint():
    table = ladder().assign(run=["a", "b", "a", "b", "c", "d"])
    made = order_of(table, groups="run")
    assert made.counts.tolist() == [1, 2, 3, 4]
    first, _ = made.split(2)
    assert sorted(first) == [0, 1, 2, 3]


def test_rows_of_no_weight_and_no_number_are_no_runs():
    table = ladder().assign(w=[1, 1, 1, 0, 1, 1])
    assert order_of(table, weight="w").positions.tolist() == [0, 1, 2, 4, 5]
    table.loc[1, "N"] = np.nan
    assert order_of(table, drop_invalid=True).positions.tolist() == [0, 2, 3, 4, 5]


def test_too_many_counts_are_chosen_evenly_in_their_logarithm():
    chosen = _chosen(np.arange(1, 200), None, "runs")
    assert len(chosen) <= 12 and chosen[0] == 3 and chosen[-1] == 199 and chosen[1] == 4
    assert _chosen(np.array([2, 3, 7]), None, "runs") == [3, 7]


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        (ladder(3), {}, "3 runs and a later one are needed"),
        (ladder(), {"counts": [2]}, "numbers of first runs, 3 to 5"),
        (ladder(), {"counts": [6]}, "numbers of first runs, 3 to 5"),
        (ladder(), {"counts": [np.nan]}, "numbers of first runs"),
        (ladder(), {"counts": []}, "numbers of first runs"),
        (ladder(), {"order": "day"}, r"no column day \(order=\)"),
        (ladder().assign(day=[1, 2, np.nan, 4, 5, 6]), {"order": "day"}, "row 2: no value of day"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_fit(table, given, message):
    with pytest.raises((jl.UsageError, jl.DataError), match=message):
        leave_future_out(LAW, table, **given)


# --- forecasts


@pytest.mark.full
def test_each_row_is_the_forecast_of_the_first_runs_alone(said):
    table = ladder()
    assert said.table["n_runs"].tolist() == [3, 3, 3, 5]
    alone = jl.forecast(LAW, table.iloc[:3], table.iloc[3:][["N", "D"]], n_resamples=8)
    for name in ("estimate", "low", "high", "distance"):
        np.testing.assert_allclose(said.table[name][:3], alone.table[name], rtol=1e-9)
    # What came later is not in it: other later losses, the same forecasts.
    other = table.assign(loss=[*table.loss[:3], 9.0, 8.0, 7.0])
    again = leave_future_out(LAW, other, counts=[3], n_resamples=8)
    np.testing.assert_array_equal(again.table["estimate"], said.table["estimate"][:3])
    assert again.table["observed"].tolist() == [9.0, 8.0, 7.0]


@pytest.mark.full
def test_what_came_is_beside_it(said):
    table = ladder()
    assert said.table["observed"].tolist() == [*table.loss[3:], table.loss[5]]
    assert said.table["row"].tolist() == [3, 4, 5, 5]
    np.testing.assert_allclose(said.table["error"], said.table.estimate / said.table.observed - 1)
    by_count = said.by_count.set_index("n_runs")
    assert by_count["came"].to_dict() == {3: 3, 5: 1}
    assert by_count["inside"].sum() == said.inside.sum() == 4
    assert by_count["half_width"][5] < by_count["half_width"][3]
    assert said.headline.startswith("4 of 4 later runs inside the 90% intervals of 2 forecasts")
    lines = said.summary().splitlines()
    assert "said (nats)   90 % of said came (nats)" in lines[2] and max(map(len, lines)) <= 80


@pytest.mark.full
def test_a_file_holds_it_all_and_is_scored_later(said, tmp_path):
    said.save(tmp_path / "said.json")
    again = jl.load(tmp_path / "said.json")
    assert isinstance(again, LeaveFutureOut) and again.to_dict() == said.to_dict()
    scores = jl.forecasting.score(tmp_path / "said.json", ladder())
    assert len(scores.table) == 4 and scores.calibration["forecasts"][0] == 2
    assert scores.table["forecast"].iloc[0].endswith("said.json, 3 runs")
    np.testing.assert_allclose(scores.table["estimate"], said.table["estimate"])
    same = jl.forecasting.score(said.forecasts, ladder())
    np.testing.assert_array_equal(same.table["below"], scores.table["below"])
    assert jl.forecasting.score(tmp_path, ladder()).calibration["forecasts"][0] == 2
    record = json.loads((tmp_path / "said.json").read_text())
    record["table"][0]["n_runs"] = 4
    record.pop("digest")
    with pytest.raises(jl.DataError, match="forecasts"):
        LeaveFutureOut.from_dict(record)


@pytest.mark.full
def test_a_target_that_was_not_made_is_said_by_every_count(tmp_path, command, monkeypatch):
    billions = ladder().assign(N=lambda t: t.N / 1e9, D=lambda t: t.D / 1e9)
    target = {"N": 7.0, "D": 140.0}
    said = leave_future_out(
        LAW, billions, target, counts=[3, 6], n_resamples=8, units={"N": 1e9, "D": 1e9}
    )
    assert said.table["n_runs"].tolist() == [3, 6] and said.table["observed"].isna().all()
    assert said.table["row"].isna().all() and not said.inside.any()
    assert "7 B parameters" in said.headline and "3 runs say" in said.headline
    assert "N 7 B parameters\nD 140 B tokens" in [text.get_text() for text in said.plot().texts]
    billions.to_csv(tmp_path / "few.csv", index=False)
    monkeypatch.chdir(tmp_path)
    line = "leave-future-out chinchilla few.csv -u N=1e9 -u D=1e9 --at N=7,D=140 --counts 3,6"
    code, out, err = command(*line.split(), "--resamples", "8", "--out", "said.json", "--json")
    assert (code, err) == (0, "")
    table = pd.DataFrame(json.loads(out)["table"])
    np.testing.assert_allclose(table["estimate"], said.table["estimate"], rtol=1e-6)
    later = pd.DataFrame({"N": [7.0], "D": [140.0], "loss": [2.2]})
    scores = jl.forecasting.score("said.json", later)
    assert scores.table["observed"].tolist() == [2.2, 2.2]


@pytest.mark.full
def test_counts_that_allow_no_forecast_are_noted():
    """Without a prior a law of five parameters needs more than five runs."""
    said = leave_future_out(LAW, ladder(9), prior=None, counts=[3, 8], n_resamples=4, n_starts=64)
    assert list(said.forecasts) == ["8 runs"]
    assert [note.code for note in said.notes] == ["no-forecast"]
    assert said.notes[0].message.startswith("3 runs: ")
    with pytest.raises(jl.DataError, match="cannot determine"):
        leave_future_out(LAW, ladder(), prior=None, counts=[3], n_starts=64)


@needs_data
@pytest.mark.full
def test_the_ladder_of_a_lab_held_its_later_points():
    table = pd.read_csv(f"{DATA}/marin_moe_v16_frontier.csv")
    said = leave_future_out("loss-compute-e", table, columns={"C": "compute"}, n_resamples=8)
    assert said.table["n_runs"].tolist() == [3, 3, 3, 4, 4, 5]
    assert said.inside.all() and said.table["error"].abs().max() < 0.03
