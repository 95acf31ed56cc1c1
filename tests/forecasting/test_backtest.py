"""Back-tests: laws fitted below each cut-off predict what lies beyond, and nothing they saw."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.forecasting import _backtest, _cutoffs
from jaxlaw.forecasting._backtest import naive_rules

SEARCH = {"n_starts": 64, "n_local": 4}


@pytest.fixture(scope="module")
def table():
    return jl.simulate.experiment("chinchilla").table


@pytest.fixture(scope="module")
def found(table):
    return jl.backtest(["chinchilla", "kaplan"], table, cutoffs=[1e20, 1e21], **SEARCH)


@pytest.mark.full
def test_a_cutoff_is_a_fit_of_the_runs_below_it(found, table):
    compute = 6 * table["N"] * table["D"]
    for cutoff in found.cutoffs:
        assert cutoff in compute.values
        fit = jl.fit("chinchilla", table[compute <= cutoff], **SEARCH)
        rows = found.frame.query("law == 'chinchilla' and cutoff == @cutoff")
        beyond = table[compute > cutoff]
        assert rows["row"].tolist() == beyond.index.tolist()
        np.testing.assert_allclose(rows["predicted"], fit.predict(beyond), rtol=1e-4)
        np.testing.assert_allclose(rows["observed"], beyond["loss"])
        np.testing.assert_allclose(np.exp(rows["distance"]), compute[beyond.index] / cutoff)
        np.testing.assert_allclose(rows["error"], rows["predicted"] / rows["observed"] - 1)


def test_bias_and_spread_are_of_cutoffs_before_they_are_of_runs(found):
    table = found.by_distance([1e9])
    frame = found.frame.query("law == 'kaplan'")
    means = frame.groupby("cutoff")["error"].mean()
    row = table.loc[("kaplan", "up to ×1e+09")]
    assert row["cutoffs"] == 2 and row["bias"] == pytest.approx(means.mean())
    assert row["between"] == pytest.approx(means.std())
    assert "kaplan" in found.summary() and "few-cutoffs" in {note.code for note in found.notes}
    with pytest.raises(jl.UsageError, match="ratios above 1"):
        found.by_distance([5, 2])


def test_a_law_that_is_true_has_no_bias_and_beats_the_naive_rules(found):
    worst = found.table["rmse"].groupby("law").max()
    assert worst["chinchilla"] < 0.01 < worst[["last-run", "best-so-far", "power-law"]].min()


def test_naive_rules_by_hand(found):
    rules = naive_rules(found.fits)
    z, y = found.fits.z, found.fits.observed
    below = z <= found.cutoffs[0]
    assert rules["best-so-far"][0, 0] == y[below].min()
    assert rules["last-run"][0, 0] == y[z == found.cutoffs[0]].min()
    slope, level = np.polyfit(np.log(z), np.log(rules["power-law"][0]), 1)
    np.testing.assert_allclose(rules["power-law"][0], np.exp(level) * z**slope)
    assert slope < 0


@pytest.mark.full
def test_automatic_cutoffs_leave_rows_on_both_sides_and_divide_no_budget():
    random = np.random.default_rng(0)
    budget = np.repeat([1e18, 1e19, 1e20, 1e21, 1e22], 8)
    N = np.geomspace(1e8, 1e10, 8)[np.tile(np.arange(8), 5)]
    jitter = np.exp(0.03 * random.standard_normal(40))
    rows = pd.DataFrame({"N": N, "D": budget * jitter / 6 / N})
    fit = jl.published()["besiroglu-2024"]
    rows["loss"] = fit.predict(rows) * np.exp(1e-3 * random.standard_normal(40))
    found = jl.backtest("chinchilla", rows, units={"N": 1, "D": 1}, **SEARCH)
    fitted = found.fits.fitted.sum(axis=1)
    assert set(fitted) <= {16, 24, 32} and len(fitted) >= 3


@pytest.mark.parametrize("seed", range(8))
def test_automatic_cutoffs_are_levels_with_enough_rows_and_values_below(seed):
    """Against a count at every level; 10,000 rows have as many, and are counted at once."""
    random = np.random.default_rng(seed)
    N = random.choice(np.geomspace(1e8, 1e10, 2 + seed), 60)
    D = random.choice(np.geomspace(1e9, 1e11, 3 + seed % 3), 60)
    table = pd.DataFrame({"N": N, "D": D, "loss": 3 + random.uniform(size=60)})
    candidates, data = _backtest.laws_and_data("kaplan", table, None, {}, needed=False)
    name, z = _cutoffs.values_along(data, candidates, "compute")
    chosen = _cutoffs._automatic(data, candidates, name, z, 1000)
    levels = _cutoffs.levels_of(z)
    enough = [
        level
        for level in levels
        if (z <= level).sum() >= 8
        and (z > level).sum() >= 2
        and all(len(set(v[z <= level])) >= min(3, len(set(v))) for v in (N, D))
    ]
    assert 1 < len(enough) < len(levels)
    assert chosen.tolist() == enough


@pytest.mark.full
def test_budgets_that_differ_by_rounding_alone_are_one():
    """6·N·D of a budget's runs are equal on paper; a cut-off between two budgets has a tie."""
    budget, size = np.repeat([1e18, 1e19, 1e20, 1e21, 1e22], 8), np.geomspace(1e8, 1e10, 8)
    rows = pd.DataFrame({"N": np.tile(size, 5), "D": budget / 6 / np.tile(size, 5)})
    assert (6 * rows["N"] * rows["D"] != budget).any()
    rows["loss"] = jl.published()["besiroglu-2024"].predict(rows)
    options = {"units": {"N": 1, "D": 1}, **SEARCH}
    found = []
    for seed in range(3):
        change = 1 + 3e-16 * np.random.default_rng(seed).choice([-1, 0, 1], 40)
        by_hand = jl.backtest(
            "chinchilla", rows.assign(D=rows["D"] * change), cutoffs=[1e20], **options
        )
        assert by_hand.fits.fitted.sum() == 24
        automatic = jl.backtest(
            "chinchilla", rows.assign(D=rows["D"] * change), cutoffs=2, **options
        )
        found.append(automatic.fits.fitted.sum(axis=1).tolist())
    assert found[0] == found[1] == found[2] and set(found[0]) <= {16, 24, 32}


def test_a_run_with_checkpoints_is_held_out_whole():
    rows = pd.DataFrame(
        [(n, d, f"{n:g}") for n in np.geomspace(1e8, 1e10, 6) for d in (1e9, 4e9, 1.6e10)],
        columns=["N", "D", "run"],
    )
    rows["loss"] = jl.published()["besiroglu-2024"].predict(rows[["N", "D"]])
    found = jl.backtest(
        "chinchilla", rows, units={"N": 1, "D": 1}, groups="run", cutoffs=[3e20], **SEARCH
    )
    held = rows.loc[found.frame.query("law == 'chinchilla'")["row"], "run"]
    fitted = rows["run"][found.fits.fitted[0]]
    assert not set(held) & set(fitted) and len(held) + len(fitted) == len(rows)


@pytest.mark.full
def test_along_a_column_and_along_a_function_are_the_same(table):
    one = jl.backtest("chinchilla", table, along="D", cutoffs=[1e10], **SEARCH)
    other = jl.backtest(
        "chinchilla", table, along=lambda rows: rows["D"] * 2, cutoffs=[2e10], **SEARCH
    )
    np.testing.assert_allclose(one.frame["error"], other.frame["error"])
    assert one.along == "D" and (one.frame["distance"] > 0).all()


def test_units_do_not_matter_to_compute(table, found):
    rows = table.assign(N=table["N"] / 1e9)
    again = jl.backtest("chinchilla", rows, units={"N": 1e9, "D": 1}, cutoffs=[1e20, 1e21],
                        **SEARCH)  # fmt: skip
    np.testing.assert_allclose(again.cutoffs, found.cutoffs)


def test_laws_by_default_are_those_of_the_columns():
    runs = jl.read_runs({"N": [1e9], "D": [1e10], "loss": [2.0]})
    names = jl.forecasting.default_laws(runs)
    assert {"chinchilla", "kaplan"} <= set(names) <= set(jl.laws.names())
    repeated = jl.read_runs({"N": [1e9], "D": [1e10], "U": [1e9], "loss": [2.0]})
    assert {"repetition", *names} <= set(jl.forecasting.default_laws(repeated))
    with pytest.raises(jl.UsageError, match="name laws"):
        jl.forecasting.default_laws(jl.read_runs({"x": [1.0], "loss": [2.0]}))


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        ({"cutoffs": [1e30]}, jl.UsageError, "nothing to predict"),
        ({"cutoffs": [1.0]}, jl.UsageError, "nothing to fit"),
        ({"cutoffs": 0}, jl.UsageError, "1 to 1,000"),
        ({"cutoffs": "many"}, jl.UsageError, "a number of them"),
        ({"cutoffs": [6.1e18], "where": "N < 4.3e7 or D > 6e10"}, jl.DataError, "cannot determine"),
        ({"along": "step"}, jl.DataError, "step"),
        ({"along": lambda rows: [1.0]}, jl.UsageError, "one number for each row"),
        ({"along": lambda rows: -rows["N"]}, jl.DataError, "must not be negative"),
        ({"along": lambda rows: rows["N"] * np.nan}, jl.DataError, "row 0"),
        ({"where": "N < 6.5e7"}, jl.DataError, "too few"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(table, changed, kind, message):
    with pytest.raises(kind, match=message):
        jl.backtest("chinchilla", table, **changed, **SEARCH)


def test_targets_that_have_no_ratio_are_refused():
    drop = jl.law(
        lambda x, *, a=jl.laws.real(): a * x, name="signed-target-of-a-test", target="drop",
        formula="a·x",
    )  # fmt: skip
    rows = {"x": [1.0, 2.0, 3.0, 4.0], "drop": [-1.0, 1.0, 2.0, 3.0]}
    with pytest.raises(jl.DataError, match="positive"):
        jl.backtest(drop, rows, along="x", cutoffs=[3.0], **SEARCH)


@pytest.mark.full
def test_runs_of_several_corpora_in_one_table_are_noted(table):
    """Mixed without a word they would be forecast as of one corpus."""
    made = {"cutoffs": [1e20], **SEARCH}
    other = table.assign(loss=table["loss"] * 1.1)
    both = pd.concat([table.assign(corpus="c4"), other.assign(corpus="pile")], ignore_index=True)
    (note,) = (n for n in jl.backtest("chinchilla", both, **made).notes if n.code == "mixed-runs")
    assert "rows differ by corpus" in note.message and "those of pile by +" in note.message
    alike = table.assign(corpus=["c4", "pile", "wiki"] * (len(table) // 3))
    assert "mixed-runs" not in {n.code for n in jl.backtest("chinchilla", alike, **made).notes}
