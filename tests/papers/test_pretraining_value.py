"""The value of a pretraining corpus: every piece of advice, and the numbers behind it."""

import math

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.papers import pretraining_value
from jaxlaw.papers._pretraining_value import (
    ALONE,
    BELOW,
    CONTINUE,
    MISALIGNED,
    REACHED,
    SATURATED,
    _order,
)

TRUTH = jl.simulate.TRUTHS["downstream-bleu"]
MADE = jl.simulate.experiment("downstream-bleu", noise=0.01, seed=3).table
DP, SCORE = MADE["Dp"].to_numpy(), MADE["BLEU"].to_numpy()
CE = jl.simulate.experiment("downstream-ce", noise=0.0).table["cross-entropy"].to_numpy()
# Tables of one size: the programs of one serve all.
GOOD = {"Dp": DP, "score": SCORE, "cross_entropy": CE}
FALLING = GOOD | {"score": np.array([10.0, 11.0, 12.0, 12.5, 10.0, 9.0, 9.5, 9.0])}
BROKEN = GOOD | {"score": np.append(SCORE[:5], SCORE[4] * np.array([1.001, 1.002, 1.003]))}
FLAT = GOOD | {"score": 24 * np.exp(0.01 * np.array([-1.1, 0.9, -0.4, 1.6, -0.8, 0.2, -1.2, 0.3]))}
STILL = GOOD | {"score": np.append(SCORE[:5], [14.8, 15.3, 15.4])}  # each near the one before


def law(Dp):
    return (TRUTH["log_A"] + TRUTH["alpha"] * np.log(Dp)) ** TRUTH["beta"]


@pytest.fixture(scope="module")
def good():
    return pretraining_value(GOOD, at=5e11, target=20.0)


@pytest.mark.full
def test_the_law_predicts_with_an_interval(good):
    low, high = good.interval["predicted"]
    assert low < law(5e11) < high and high - low < 0.1 * law(5e11)
    fit = jl.FittedLaw("downstream-bleu", good.params)
    assert good.predicted == pytest.approx(float(fit.predict(Dp=5e11)))
    assert good.gain == pytest.approx(good.predicted - float(fit.predict(Dp=DP[-1])))
    assert good.monotone and "broken_at" not in good.quantities and good.at == 5e11


def test_tokens_to_the_target_are_where_the_law_is_there(good):
    fit = jl.FittedLaw("downstream-bleu", good.params)
    assert fit.predict(Dp=good.tokens_to_target) == pytest.approx(20.0, rel=1e-9)
    exact = math.exp((20 ** (1 / TRUTH["beta"]) - TRUTH["log_A"]) / TRUTH["alpha"])
    low, high = good.interval["tokens_to_target"]
    assert low < exact < high


@pytest.mark.full  # other shapes, other programs
def test_later_scores_are_predicted_by_the_law_of_the_first_four(good):
    """Isik 2024, §4: four to fit, the others to be predicted."""
    table = good.checkpoints
    assert table["predicted"].isna().tolist() == [True] * 4 + [False] * 4
    few = jl.fit("downstream-bleu", pd.DataFrame({"Dp": DP[:4], "BLEU": SCORE[:4]}))
    np.testing.assert_allclose(table["predicted"][4:], few.predict(Dp=DP[4:]), rtol=1e-4)


def test_the_curve_has_its_band(good):
    curve = good.points["law"]
    assert (curve["predicted_low"] <= curve["predicted"]).all()
    assert (curve["predicted"] <= curve["predicted_high"]).all()
    assert (np.diff(curve["predicted"]) > 0).all()


@pytest.mark.full
@pytest.mark.parametrize(
    "data,options,advice",
    [
        (GOOD, {}, CONTINUE),
        (GOOD, {"target": 15.0}, REACHED),
        (GOOD, {"target": 50.0, "at": 1e12}, BELOW),
        (GOOD, {"baseline": 60.0}, ALONE),
        (FALLING, {}, MISALIGNED),
        (BROKEN, {}, MISALIGNED),
        (FLAT, {}, SATURATED),
    ],
)
def test_advice(data, options, advice):
    valuation = pretraining_value(data, **options)
    assert valuation.advice == advice and valuation.reasons
    assert valuation.summary().startswith(advice)


def test_scores_that_fall_have_no_law():
    """Isik 2024, §3.4: non-monotone scores point to misaligned pretraining data."""
    valuation = pretraining_value(FALLING, baseline=12.5)
    assert not valuation.monotone and not {"params", "predicted"} & {*dir(valuation)}
    assert (
        "no better than no pretraining" in valuation.reasons[0]
        and "not monotone" in valuation.reasons[1]
    )
    assert valuation.points == {}


def test_the_cross_entropy_would_have_kept_the_corpus():
    """Isik 2024, §3.2: it falls all along while the score falls too."""
    valuation = pretraining_value(FALLING)
    assert valuation.checkpoints["disagree"].tolist() == [False] * 4 + [True, True, False, True]
    note = next(note for note in valuation.notes if note.code == "metrics-disagree")
    assert "2.1e+10" in note.message
    assert "metrics-disagree" not in {note.code for note in pretraining_value(GOOD).notes}


@pytest.mark.full  # other shapes, other programs
def test_the_law_breaks_where_it_breaks():
    valuation = pretraining_value(BROKEN)
    assert valuation.broken_at == DP[5] and valuation.monotone
    before = jl.fit("downstream-bleu", pd.DataFrame({"Dp": DP[:5], "BLEU": SCORE[:5]}))
    assert valuation.predicted == pytest.approx(float(before.predict(Dp=2 * DP[-1])), rel=1e-6)


def test_falls_are_judged_by_the_scatter_of_the_rows():
    """The same fall of 2 % after the sixth checkpoint, among scores that scatter little or much."""
    rise = 0.8 + 0.02 * np.arange(8.0)
    fallen = rise - np.where(np.arange(8) > 5, 0.04, 0.0)
    rough = 0.015 * np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    little, much = (_order(np.log(DP), scores, 0.002) for scores in (fallen, fallen + rough))
    assert little.falls and little.scatter == pytest.approx(0.002 * math.sqrt(4 / 7))
    assert not much.falls and much.scatter == pytest.approx(0.0076, rel=0.01)
    assert _order(np.log(DP), rise, 0.002)[:2] == (False, True)


@pytest.mark.full
@pytest.mark.parametrize("count,most", [(4, 4), (6, 5), (8, 5), (10, 5)])
def test_constant_scores_are_seldom_taken_for_falling(count, most):
    """Of 100 corpora whose scores scatter by 1 %, as is known; the test is of 1 in 100."""
    random, x = np.random.default_rng(count), np.linspace(0, 5, count)
    orders = [_order(x, 0.01 * random.standard_normal(count), 0.01) for _ in range(100)]
    assert sum(order.falls for order in orders) <= most
    assert sum(not order.falls and not order.rises for order in orders) >= 90
    fallen = 0.05 * np.arange(count) - np.where(np.arange(count) > count - 3, 0.2, 0.0)
    orders = [_order(x, fallen + 0.01 * random.standard_normal(count), 0.01) for _ in range(20)]
    assert sum(order.falls for order in orders) >= 18


def test_constant_scores_need_no_more_of_the_corpus():
    """Isik 2024, §5: with enough finetuning data there is no need to pretrain."""
    plan = pretraining_value(FLAT, n_resamples=0)
    assert plan.monotone and "broken_at" not in plan.quantities and 0.005 < plan.scatter < 0.015
    assert "constant within its scatter" in plan.reasons[0] and "baseline=" in plan.reasons[0]
    assert plan.predicted == pytest.approx(24, rel=0.01)
    assert "poor-fit" not in {note.code for note in plan.notes}


@pytest.mark.full  # other shapes, other programs
def test_three_checkpoints_determine_the_law_exactly():
    valuation = pretraining_value({"Dp": DP[:3], "score": SCORE[:3]})
    fit = jl.FittedLaw("downstream-bleu", valuation.params)
    np.testing.assert_allclose(fit.predict(Dp=DP[:3]), SCORE[:3], rtol=1e-4)
    assert "few-resamples" in {note.code for note in valuation.notes} and valuation.interval == {}
