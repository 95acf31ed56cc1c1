"""What a target loss takes."""

import math

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.fixtures.drawn_laws import DOMAIN, SCRATCH, TRUTHS, scattered

P = SCRATCH[1]


LAWS = [(name, TRUTHS[name]) for name in ("skaling", "kaplan-e", "overtraining")]


@pytest.mark.parametrize(
    "given, inputs", [(SCRATCH, {}), (DOMAIN, {"r": 0.5}), *((law, {}) for law in LAWS)]
)
def test_least_compute_undoes_the_allocation(given, inputs):
    budget = 2e20
    best = planning.allocation(given, budget, at=inputs)
    back = planning.min_compute(given, best.loss, at=inputs)
    assert back.compute == pytest.approx(budget, rel=1e-9)
    assert (back.N, back.D) == (pytest.approx(best.N, rel=1e-6), pytest.approx(best.D, rel=1e-6))
    assert back.binding == "loss"


def test_least_compute_in_closed_form():
    # L − E = (A·G^−α + B·G^β)·(C/6)^(−αβ/(α+β))
    how = planning.allocation_law(SCRATCH)
    level = P["A"] * how.G ** -P["alpha"] + P["B"] * how.G ** P["beta"]
    slope = P["alpha"] * P["beta"] / (P["alpha"] + P["beta"])
    expected = 6 * (level / (2.0 - P["E"])) ** (1 / slope)
    assert planning.min_compute(SCRATCH, 2.0).compute == pytest.approx(expected, rel=1e-8)


def test_limits_raise_the_compute_of_a_loss():
    free = planning.min_compute(SCRATCH, 2.0)
    small = planning.min_compute(SCRATCH, 2.0, limits={"N": (None, free.N / 2)})
    assert small.N == pytest.approx(free.N / 2, rel=1e-6) and small.compute > free.compute
    law = planning.solve(SCRATCH, "D", 2.0, at={"N": free.N / 2})
    assert small.compute == pytest.approx(law.compute, rel=1e-6)


@pytest.mark.parametrize("loss", [2.05, 2.1, 2.15])  # the last two once came out as out of reach
def test_least_compute_in_the_kink_of_a_least_number_of_tokens(loss):
    # The best size lies between one that never reaches the loss and one with tokens to spare, both
    # next to each other on the grid: the smallest that reaches it with the least tokens allowed.
    fit = ("kaplan-e", TRUTHS["kaplan-e"])
    plan = planning.min_compute(fit, loss, limits={"D": (1e11, None)})
    smallest = planning.solve(fit, "N", loss, at={"D": 1e11})
    assert plan.compute == pytest.approx(smallest.compute, rel=1e-9)


def test_least_compute_to_a_normalised_loss_below_zero():
    law, at = ("vocabulary", TRUTHS["vocabulary"]), {"N_v": 1e7}
    best = planning.allocation(law, 1e21, at=at)
    assert best.loss < 0
    assert planning.min_compute(law, best.loss, at=at).compute == pytest.approx(1e21, rel=1e-6)


def test_a_loss_below_what_the_law_reaches():
    plan = planning.min_compute(SCRATCH, 1.54)
    assert plan.compute == np.inf and np.isnan(plan.N)
    assert [(n.code, n.severity) for n in plan.notes] == [("out-of-reach", "error")]
    boot = scattered()
    near = boot.fit.params["E"] + 0.01
    found = planning.min_compute(boot, near)
    beyond = np.isinf(found.draws["compute"])
    # The last thousandths of a nat above E cost more than the 1e42 FLOPs that are searched.
    assert beyond[boot.params["E"] >= near].all()
    assert not beyond[boot.params["E"] < near - 2e-3].any() and not beyond.all()


def test_the_share_is_kept():
    assert planning.min_compute(DOMAIN, 1.9, at={"r": 0.5}).r == 0.5
    with pytest.raises(jl.UsageError, match="also needs r; give"):
        planning.min_compute(DOMAIN, 1.9)
    assert TRUTHS["dcpt"]["E"] < 1.9


def cheapest(target, corpus):
    """Brute force: the least compute over fine grids of N and r, tokens by the law's inverse."""
    p = TRUTHS["dcpt"]
    ends = least = np.array([[math.log(1e-6), 1e-9], [math.log(1e11), 1.0]])
    for _ in range(24):
        N, r = np.meshgrid(
            np.exp(np.linspace(*ends[:, 0], 201)), np.linspace(*ends[:, 1], 201), indexing="ij"
        )
        rest = target - p["E"] - p["A"] / N ** p["alpha"] - p["C"] / (r + p["eps"]) ** p["gamma"]
        rest = np.where(rest > 0, rest, np.nan)
        D = (p["B"] * r ** p["eta"] / rest) ** (1 / p["beta"])
        C = np.where(r * D <= corpus, 6e18 * N * D, np.nan)
        best = np.unravel_index(np.nanargmin(C), C.shape)
        at, width = np.array([math.log(N[best]), r[best]]), (ends[1] - ends[0]) / 8
        ends = np.clip([at - width, at + width], least[0], least[1])
    return C[best], N[best], r[best]


@pytest.mark.full
@pytest.mark.parametrize(
    "loss, corpus", [(1.7, None), (1.7, 0.05), (1.9, 0.05), (1.8, 0.02), (1.45, None)]
)
def test_least_compute_with_the_share_against_a_fine_grid(loss, corpus):
    compute, N, r = cheapest(loss, corpus or np.inf)
    plan = planning.min_compute(DOMAIN, loss, at={"r": "best"}, corpus_tokens=corpus)
    assert plan.compute == pytest.approx(compute, rel=1e-6)
    assert plan.compute <= compute * (1 + 1e-9)
    assert (plan.N, plan.r) == (pytest.approx(N, rel=1e-3), pytest.approx(r, rel=1e-3))
    held = planning.min_compute(DOMAIN, loss, at={"r": plan.r})
    assert held.compute <= plan.compute * (1 + 1e-9) and not plan.notes
    spent = planning.allocation(DOMAIN, plan.compute, at={"r": "best"}, corpus_tokens=corpus)
    assert spent.loss == pytest.approx(loss, abs=1e-7)


def test_few_tokens_of_the_corpus_may_put_a_loss_out_of_reach():
    plan = planning.min_compute(DOMAIN, 1.7, at={"r": "best"}, corpus_tokens=1e-3)
    assert plan.compute == np.inf and np.isnan(plan.r)
    assert [(n.code, n.severity) for n in plan.notes] == [("out-of-reach", "error")]
    budgets = 6e18 * np.geomspace(1e-6, 1e3, 19)
    table = planning.frontier(DOMAIN, budgets, at={"r": "best"}, corpus_tokens=1e-3).table
    assert table["loss"].min() > 1.7


@pytest.mark.full
def test_a_users_law_with_limits_and_a_share():
    limits = {"N": (None, 2.0), "r": (None, 0.8)}
    plan = planning.min_compute(
        DOMAIN, 1.9, at={"r": "best"}, limits=limits, cost=lambda N, D: 8 * N * D
    )
    back = planning.allocation(
        DOMAIN, plan.compute, at={"r": "best"}, limits=limits, cost=lambda N, D: 8 * N * D
    )
    assert back.loss == pytest.approx(1.9, abs=1e-8) and plan.r <= 0.8
    assert "N ≤ 2 B parameters" in back.binding and plan.N == pytest.approx(2.0, rel=1e-9)
    with pytest.raises(jl.UsageError, match="takes no input 'r'"):
        planning.min_compute(SCRATCH, 2.0, at={"r": "best"})
