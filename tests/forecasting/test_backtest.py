"""Back-tests: forecasts from the runs below each cut-off, against those beyond."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl


@pytest.fixture(scope="module")
def found(ladder):
    return jl.backtest(ladder)


def compute(table):
    return 6 * table["N"] * table["D"]


def test_later_runs_are_held_as_often_as_intervals_say(found):
    assert 0.75 < found.frame["inside"].mean() <= 1 and found.frame["error"].abs().median() < 0.03
    assert found.headline.startswith("90% intervals covered ")


def test_a_cutoff_is_the_forecast_of_the_runs_below_it(ladder, found):
    label = found.frame["forecast"].iloc[-1]
    rows = found.frame[found.frame["forecast"] == label]
    later = ladder.loc[rows["row"]]
    cutoff = compute(later).iloc[0] / np.exp(rows["distance"].iloc[0])
    below = ladder[compute(ladder) <= cutoff * (1 + 1e-9)]
    assert len(below) + len(later) == len(ladder)
    alone = jl.forecast(below, later[["N", "D"]])
    np.testing.assert_allclose(alone.table["estimate"], rows["estimate"], rtol=2e-3)
    np.testing.assert_allclose(alone.table["high"], rows["high"], rtol=5e-3)


def test_the_cutoff_counts_before_its_runs(found):
    table, frame = found.table, found.frame
    assert table["runs"].sum() == len(frame)
    last = frame[frame["distance"] > np.log(20)]
    row = table[table["beyond"] == "more than ×20"].iloc[0]
    assert row["bias"] == pytest.approx(last.groupby("forecast")["error"].mean().mean())


def test_cutoffs_are_values_or_begin_with_the_first_runs(ladder):
    levels = np.sort(compute(ladder).unique())
    one = jl.backtest(ladder, cutoffs=[levels[-2] * 1.01])
    assert one.frame["forecast"].unique().tolist() == [f"compute ≤ {levels[-2]:.3g}"]
    few = ladder.iloc[-6:].assign(N=np.geomspace(1e8, 3e9, 6), D=np.geomspace(2e9, 6e10, 6))
    said = jl.backtest(few, first=4)
    assert said.frame.groupby("forecast", sort=False).size().tolist() == [2, 1]


def test_budgets_with_jitter_are_not_divided_and_checkpoints_stay_with_their_run(ladder):
    random = np.random.default_rng(0)
    budget = np.repeat([1e18, 1e19, 1e20, 1e21, 1e22], 6)
    N = np.tile(np.geomspace(1e8, 1e10, 6), 5)
    rows = pd.DataFrame({"N": N, "D": budget * np.exp(0.03 * random.standard_normal(30)) / 6 / N})
    rows["loss"] = jl.published()["besiroglu-2024"].predict(rows)
    assert {*jl.backtest(rows).frame.groupby("forecast").size()} <= {6, 12, 18, 24}
    run = np.arange(len(ladder)) // 3
    grouped = jl.backtest(ladder.assign(run=run), groups="run", cutoffs=2)
    held = grouped.frame.assign(run=pd.Series(run, ladder.index)[grouped.frame["row"]].to_numpy())
    assert (held.groupby(["forecast", "run"]).size() == 3).mean() > 0.7


def test_along_a_column_or_a_function(ladder):
    by_size = jl.backtest(ladder, along="N", cutoffs=1)
    assert by_size.along == "N"
    apart = jl.backtest(ladder, along=lambda t: np.where(t["D"] > 2e10, 2.0, 1.0), cutoffs=[1])
    assert len(apart.frame) == (ladder["D"] > 2e10).sum()
    with pytest.raises(jl.DataError, match="no column tokens"):
        jl.backtest(ladder, along="tokens")


def test_what_cannot_be_held_out_is_refused(ladder):
    with pytest.raises(jl.UsageError, match="no run lies below one"):
        jl.backtest(ladder, cutoffs=[1e3])
    with pytest.raises(jl.DataError, match="too few to be held out"):
        jl.backtest(ladder.iloc[:3])


def test_a_forecast_is_back_tested_on_request_and_saved_with_it(ladder, found, tmp_path):
    made = jl.forecast(ladder, {"N": 2e10, "D": 4e11}, backtest=True)
    pd.testing.assert_frame_equal(made.backtest.frame, found.frame)
    second = " ".join(made.lines()[0].split())
    assert second.startswith(f"backtest: {found.coverage()}; the forecast run is ")
    assert "the backtest reached" in second and made.lines()[0] in made.summary()
    page = jl.report(made)
    assert "Back-test" in page and "run-to-run noise" in page
    made.save(tmp_path / "forecast.json")
    assert jl.load(tmp_path / "forecast.json").summary() == made.summary()
