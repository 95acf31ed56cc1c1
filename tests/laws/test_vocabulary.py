"""The law of vocabularies, whose losses may be negative: what takes them, and what refuses them."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.errors import DataError, UsageError
from tests.conftest import DATA, needs_data

MADE = simulate.experiment("vocabulary", noise=0.003)
OVER = {"N": None, "D": None, "N_v": (1e6, 1e11)}
QUICK = {"n_starts": 64, "n_local": 4}


@pytest.fixture(scope="module")
def fit():
    return jl.fit("vocabulary", MADE.table, **QUICK)


def cost(N, D, N_v):
    return 6 * (N + N_v) * D


def test_negative_losses_are_fitted_and_their_optimum_found(fit):
    assert (MADE.table["unigram_normalized_loss"] < 0).mean() > 0.9
    assert fit.success and fit.r2 > 0.999 and fit.notes == ()
    at = {"N": 1e9, "N_v": 1e8, "D": 2e10}
    truth = float(fit.law(MADE.truth, **at))
    assert float(fit.predict(**at)) == pytest.approx(truth, abs=0.01)
    low, high = np.quantile(jl.covariance(fit, MADE.table).draws().predict(**at), [0.025, 0.975])
    assert low < truth < high
    # There is no logarithm of such a loss, and nothing is said of it.
    assert "in log" not in fit.summary() and "nan" not in fit.summary()
    assert "of the logarithm" not in jl.report(fit, runs=MADE.table)
    scores = fit.score(MADE.table)
    assert "nan" not in scores.summary() and scores.mean_absolute_relative_error > 0


def test_costs_of_missing_the_best_are_shares_of_the_size_of_the_loss(fit):
    known, law = (fit.law, MADE.truth), jl.FittedLaw(fit.law, MADE.truth)
    held = {"N": 1e9, "D": 2e10}
    plan = planning.optimal_inputs(known, {"N_v": OVER["N_v"]}, at=held, grid={"N_v": [1e8]})
    p, n = MADE.truth, plan.N_v  # where the two terms of N_v balance
    balance = p["alpha_v"] * p["A_v"] * 2e10 ** p["beta"] / (p["gamma"] * p["B"])
    assert n == pytest.approx(balance ** (1 / (p["alpha_v"] + p["gamma"])), rel=1e-3)
    assert plan.loss < 0 and plan.run == {"N_v": 1e8}
    loss = float(law.predict(**held, N_v=1e8))
    assert plan.excess == pytest.approx((loss - plan.loss) / abs(plan.loss), rel=1e-4)
    assert plan.excess > 0
    for end in plan.near["N_v"]:
        excess = 1 - float(law.predict(**held, N_v=end)) / plan.loss
        assert excess == pytest.approx(1e-3, rel=0.1)


def test_draws_of_a_negative_loss_have_a_positive_regret(fit):
    draws = jl.covariance(fit, MADE.table)
    plan = planning.optimal_inputs(
        draws, {"N_v": OVER["N_v"]}, at={"N": 1e9, "D": 2e10}, grid={"N_v": [2e7]}
    )
    assert 0.5 * plan.excess < plan.regret < 2 * plan.excess


def test_a_budget_counts_the_vocabulary(fit):
    plans = [
        planning.minimise((fit.law, MADE.truth), OVER, subject_to=[planning.Budget(C, cost)])
        for C in (1e20, 1e21)
    ]
    small, large = (plan.best for plan in plans)
    assert cost(**small) == pytest.approx(1e20, rel=1e-6)
    assert 0.3 < np.log10(large["N_v"] / small["N_v"]) < 0.6  # slower than N
    with pytest.raises(UsageError, match="cost takes N and D first"):
        budget = planning.Budget(1e20, lambda N, N_v, D: 6 * (N + N_v) * D)
        planning.minimise((fit.law, MADE.truth), OVER, subject_to=[budget])


def test_folds_are_scored_by_residuals():
    study = jl.cross_validate(["vocabulary"], MADE.table, "k-fold:3", **QUICK)
    assert study.n_failed == 0 and study.frame["r2"].min() > 0.99
    np.testing.assert_array_equal(study.frame["huber"], study.frame["huber_linear"])
    assert "huber" in jl.report(study)


def test_what_needs_a_logarithm_says_so(fit):
    for residuals, law in (("log", "vocabulary"), (None, "chinchilla")):
        runs = MADE.table.assign(loss=MADE.table["unigram_normalized_loss"])
        with pytest.raises(DataError, match="not positive"):
            jl.fit(law, runs, residuals=residuals)
    for call in (jl.backtest, jl.forecast):
        at = {} if call is jl.backtest else {"at": {"N": 7e9, "N_v": 1e8, "D": 1e12}}
        with pytest.raises(DataError, match="must be positive"):
            call(MADE.table, laws="vocabulary", **at)


@needs_data
@pytest.mark.full
def test_tao_s_runs():
    """Vocabularies that were not fitted, beside Tao's form; its printed coefficients.

    These fit their own runs only where tokens are counted as in the authors' code.
    """
    table = pd.read_csv(f"{DATA}/vocab.csv").rename(columns={"non_vocab_parameters": "N"})
    width = table["N"].map(dict(zip(sorted(table["N"].unique()), WIDTHS, strict=True)))
    per_character = tokens_per_character(table["vocab_size"])
    table = table.assign(N_v=table["vocab_size"] * width, D=table["num_characters"] * per_character)
    assert (table["D"] / 1e6).sub((table["D"] / 1e6).round()).abs().max() < 1e-6  # whole steps
    held, rest = table[table["split"] == "test"], table[table["split"] == "train"]
    loss = "unigram_normalized_loss"

    def r2(predicted, rows):
        return 1 - ((predicted - rows[loss]) ** 2).sum() / rows[loss].var(ddof=0) / len(rows)

    columns = ["N", "N_v", "D", loss]
    fits = [jl.fit("vocabulary", rest[columns], fixed=fixed) for fixed in ({}, {"gamma": 0.0})]
    reached = [r2(fit.predict(held[columns]), held) for fit in fits]
    np.testing.assert_allclose(reached, [0.975, 0.960], atol=0.003)
    assert fits[0].success and fits[0].agreement > 0.9

    printed = dict(E=-5.5327847, A=1.8313852, A_v=0.1958424, B=2.1241123)
    printed |= dict(alpha=0.4466063, alpha_v=0.6707375, beta=0.4466063, gamma=0.0)
    in_thousands = table["num_characters"] * tokens_per_character(table["vocab_size"] / 1e3)
    counted = {"N": table["N"] / 1e6, "N_v": table["N_v"] / 1e6}
    by_tokens = [
        r2(jl.FittedLaw("vocabulary", printed).predict(**counted, D=D / 1e9), table)
        for D in (in_thousands, table["D"])
    ]
    np.testing.assert_allclose(by_tokens, [0.982, 0.145], atol=0.001)


WIDTHS = [512, 768, 768, 1024, 1536, 2048]  # of Tao's six models


def tokens_per_character(words):
    """As the authors fit it."""
    logs = np.log(words)
    return 0.00639222 * logs**2 - 0.15811069 * logs + 1.20470122
