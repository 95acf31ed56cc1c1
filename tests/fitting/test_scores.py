"""A fit, or printed numbers, scored on runs it has not seen: by hand, in other units, as files."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.notes import FitWarning
from tests.fixtures import curve_tables

RUNS = simulate.experiment("chinchilla", noise=0.004).table
LARGE = 6 * RUNS["N"] * RUNS["D"] >= 1e21
TRUTH = dict(simulate.experiment("chinchilla").truth)


def numbers(found):
    return {name: one.value for name, one in found.quantities.items()}


@pytest.fixture(scope="module")
def fit():
    return jl.fit("chinchilla", RUNS[~LARGE], n_starts=256, n_local=16)


@pytest.mark.full
def test_scores_by_hand(fit):
    found = fit.score(RUNS[LARGE])
    loss, predicted = RUNS["loss"][LARGE].to_numpy(), fit.predict(RUNS[LARGE])
    table = found.table
    assert table["row"].tolist() == RUNS.index[LARGE].tolist()
    np.testing.assert_array_equal(table["predicted"], predicted)
    np.testing.assert_allclose(table["residual"], loss - predicted, rtol=1e-12)
    np.testing.assert_allclose(table["relative_error"], 1 - predicted / loss, rtol=1e-6)
    np.testing.assert_array_equal(table["outside"], fit.is_extrapolation(RUNS[LARGE]))
    assert table["outside"].any()
    off = 1 - predicted / loss
    assert found.mean_absolute_relative_error == pytest.approx(np.abs(off).mean())
    assert found.mean_relative_error == pytest.approx(off.mean())
    assert found.max_absolute_relative_error == pytest.approx(np.abs(off).max())
    assert found.r2 == pytest.approx(1 - np.var(loss - predicted) / np.var(loss), abs=0.05)
    assert found.r2 == pytest.approx(
        1 - ((loss - predicted) ** 2).sum() / ((loss - loss.mean()) ** 2).sum()
    )


def test_the_fitted_runs_score_as_the_fit_says(fit):
    found = fit.score(RUNS[~LARGE])
    for name, value in fit.metrics.items():
        assert numbers(found)[name] == pytest.approx(value, rel=1e-9)
    assert not found.table["outside"].any()
    weight = np.linspace(0, 2, (~LARGE).sum())
    weighed = fit.score(RUNS[~LARGE], weight=weight)
    error = found.table["residual"].to_numpy()
    assert weighed.rmse == pytest.approx(np.sqrt(np.average(error**2, weights=weight)))
    assert len(weighed.table) == len(found.table)


def test_runs_in_other_units_and_names_score_the_same(fit):
    held = RUNS[LARGE]
    billions = pd.DataFrame({"size": held["N"] / 1e9, "D": held["D"], "loss": held["loss"]})
    found = fit.score(billions, columns={"N": "size"}, units={"N": 1e9})
    assert numbers(found) == pytest.approx(numbers(fit.score(held)), rel=1e-9)
    np.testing.assert_allclose(found.table["N"], held["N"] / 1e9)
    # What is not declared counts as in the fitted runs, here in billions against the law's ones.
    table = RUNS.assign(N=RUNS["N"] / 1e9)
    own = jl.fit("chinchilla", table[~LARGE], units={"N": 1e9}, n_starts=256, n_local=16)
    assert own.score(table[LARGE]).r2 == pytest.approx(fit.score(held).r2, rel=1e-4)


def test_curves_are_scored_with_the_areas_of_the_fit():
    """λ is the fit's own, not the default that Curves would take by themselves."""
    curves = curve_tables.read()
    areas = {"decay": 0.99, "carry_momentum": False, "count_warmup": False, "epsilon": None}
    own = curves.runs(**areas)
    fit = jl.fit("annealing", own, fixed=simulate.TRUTHS["annealing"])
    found = fit.score(curves)
    np.testing.assert_array_equal(found.table["S2"], own.table["S2"])
    again = {name: numbers(found)[name] for name in fit.metrics}
    assert again == pytest.approx(fit.metrics, rel=1e-9)


@pytest.mark.full
def test_all_parameters_fixed_is_a_call():
    """There is nothing to search, and the objective is that of the given values."""
    fit = jl.fit("chinchilla", RUNS, fixed=TRUTH)
    loss = TRUTH["E"] + TRUTH["A"] / RUNS["N"] ** TRUTH["alpha"]
    loss = loss + TRUTH["B"] / RUNS["D"] ** TRUTH["beta"]
    off = np.abs(np.log(loss / RUNS["loss"]))
    huber = np.where(off < 1e-3, off**2 / 2, 1e-3 * (off - 5e-4)).sum()
    assert fit.params == TRUTH and fit.n_starts == fit.n_solved == 1
    assert fit.objective == pytest.approx(huber, rel=1e-9) and fit.status == "converged"
    assert fit.notes == () and "every parameter is fixed" in fit.summary()
    again = numbers(fit.score(RUNS))
    assert fit.metrics == pytest.approx({name: again[name] for name in fit.metrics}, rel=1e-9)
    free = jl.fit("chinchilla", RUNS, n_starts=256, n_local=16)
    assert free.objective < fit.objective
    # A tie counts as fixed, where it is to a value that is.
    most = {name: value for name, value in TRUTH.items() if name != "beta"}
    with pytest.warns(FitWarning, match="poor-fit"):
        tied = jl.fit("chinchilla", RUNS, fixed=most, tied={"beta": "alpha"})
    assert tied.params == most | {"beta": TRUTH["alpha"]}
    assert "poor-fit" in {note.code for note in tied.notes}
    for ask in (jl.covariance, jl.identifiability, jl.influence, jl.bootstrap):
        with pytest.raises(jl.UsageError, match="every parameter .* is fixed"):
            ask(fit, RUNS)
    with pytest.raises(jl.UsageError, match="every parameter .* is fixed"):
        jl.profile(fit, RUNS, "E")
