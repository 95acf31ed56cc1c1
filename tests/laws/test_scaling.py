"""Laws of size and data beyond their runs: real experiments, the expensive end held out."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.conftest import DATA, needs_data


@cache
def farseer() -> pd.DataFrame:
    return pd.read_csv(Path(DATA) / "farseer.csv")


@cache
def repeated() -> pd.DataFrame:
    names = {"params": "N", "tokens": "D", "unique_tokens": "U"}
    return pd.read_csv(Path(DATA) / "data_constrained.csv").rename(columns=names)


def error(law: str, cheap: pd.DataFrame, expensive: pd.DataFrame) -> float:
    """Mean absolute relative error on runs that are not fitted."""
    fit = jl.fit(law, cheap[["N", "D", "loss"]])
    assert fit.status == "converged" and fit.agreement > 0.5
    return float(np.mean(np.abs(fit.predict(expensive) / expensive["loss"] - 1)))


@pytest.mark.full
@needs_data
def test_a_coupling_of_size_and_data_predicts_farseers_larger_models():
    runs = farseer()
    cheap, expensive = (runs[runs["split"] == split] for split in ("train", "test"))
    assert error("chinchilla", cheap, expensive) == pytest.approx(0.0299, abs=1e-4)
    assert error("skaling", cheap, expensive) == pytest.approx(0.0047, abs=1e-4)
    assert error("farseer", cheap, expensive) < 0.0045


@needs_data
def test_farseers_own_numbers_give_its_losses():
    """Its repository's values, rounded as printed, on runs they are and are not of."""
    runs, law = farseer(), jl.published()["farseer-2025"]
    off = np.abs(law.predict(runs[["N", "D"]]) / runs["loss"] - 1)
    assert off[runs["split"] == "train"].mean() < 0.0025
    assert off[runs["split"] == "test"].mean() < 0.005


@pytest.mark.full
def test_a_fit_that_ends_at_a_power_law_of_size_says_so():
    """Of losses whose three parts are powers of N, farseer's a, b and q near 0."""
    # As many rows as farseer's own runs are padded to: the program is that of the test above.
    designs = [jl.simulate.experiment(name).table[["N", "D"]] for name in ("skaling", "farseer")]
    truth = jl.simulate.TRUTHS["overtraining"]
    fit = jl.fit("farseer", jl.simulate.simulate_runs("overtraining", truth, pd.concat(designs)))
    assert "at-bound" in [note.code for note in fit.notes]


@pytest.mark.full
@needs_data
def test_published_numbers_of_repeated_data_are_those_of_a_local_optimum():
    """R² 0.7722 on the 182 runs; a fit halves the objective, and R_N then has no upper bound."""
    published, runs = jl.published()["muennighoff-2023"], repeated()
    scores = published.score(runs)
    assert scores.r2 == pytest.approx(0.7722, abs=5e-5)
    fit = jl.fit("repetition", runs)
    assert fit.r2 > 0.93 and fit.objective < 0.5 * scores.huber
    assert "at-bound" in [note.code for note in fit.notes]
    assert fit.params["R_D"] == pytest.approx(25.2, abs=0.1)


@pytest.mark.full
@needs_data
def test_the_geometric_decay_fits_repeated_data_as_well_with_a_number_less():
    runs = repeated()
    fit = jl.fit("repetition-geometric", runs)
    assert (
        fit.r2 > 0.93
        and fit.agreement > 0.9
        and fit.params["delta"] == pytest.approx(0.0382, abs=1e-4)
    )


def test_tokens_seen_once_are_worth_what_they_are():
    """Up to one epoch both laws are chinchilla's, however large the corpus."""
    for name in ("repetition", "repetition-geometric"):
        law, truth = jl.laws.get(name), dict(jl.simulate.TRUTHS[name])
        size = 1e8  # below what is best for these tokens
        expected = (
            truth["E"] + truth["A"] / size ** truth["alpha"] + truth["B"] / 1e10 ** truth["beta"]
        )
        for unique in (1e10, 1e12):
            assert float(law(truth, N=size, D=1e10, U=unique)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["repetition", "repetition-geometric"])
def test_a_small_corpus_is_planned_with_the_epochs_it_is_good_for(name):
    pair = (name, jl.simulate.TRUTHS[name])
    rich, poor = (planning.allocation(pair, 1e22, at={"U": U}) for U in (1e12, 1e10))
    assert rich.D < 1e12 and poor.loss > rich.loss
    assert poor.D / 1e10 > 3  # more epochs than a few still pay
    law = jl.laws.get(name)
    for factor in (0.97, 1.03):
        other = law(dict(pair[1]), N=poor.N * factor, D=poor.D / factor, U=1e10)
        assert float(other) > poor.loss
