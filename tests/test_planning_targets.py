"""What a target loss takes."""

import numpy as np
import pytest
from planned import DOMAIN, SCRATCH, TRUTHS, scattered

import jaxlaw as jl
from jaxlaw import planning

P = SCRATCH[1]


@pytest.mark.parametrize("given, inputs", [(SCRATCH, {}), (DOMAIN, {"r": 0.5})])
def test_least_compute_undoes_the_allocation(given, inputs):
    budget = 2e20
    best = planning.allocation(given, budget, **inputs)
    back = planning.smallest_compute(given, best.loss, **inputs)
    assert back.compute == pytest.approx(budget, rel=1e-9)
    assert (back.N, back.D) == (pytest.approx(best.N, rel=1e-6), pytest.approx(best.D, rel=1e-6))
    assert back.binding == "loss"


def test_least_compute_in_closed_form():
    # L − E = (A·G^−α + B·G^β)·(C/6)^(−αβ/(α+β))
    how = planning.allocation_law(SCRATCH)
    level = P["A"] * how.G ** -P["alpha"] + P["B"] * how.G ** P["beta"]
    slope = P["alpha"] * P["beta"] / (P["alpha"] + P["beta"])
    expected = 6 * (level / (2.0 - P["E"])) ** (1 / slope)
    assert planning.smallest_compute(SCRATCH, 2.0).compute == pytest.approx(expected, rel=1e-8)


def test_limits_make_a_loss_dearer():
    free = planning.smallest_compute(SCRATCH, 2.0)
    small = planning.smallest_compute(SCRATCH, 2.0, limits={"N": (None, free.N / 2)})
    assert small.N == pytest.approx(free.N / 2, rel=1e-6) and small.compute > free.compute
    law = planning.allocation_at(SCRATCH, N=free.N / 2, loss=2.0)
    assert small.compute == pytest.approx(law.compute, rel=1e-6)


def test_a_loss_below_what_the_law_reaches():
    plan = planning.smallest_compute(SCRATCH, 1.54)
    assert plan.compute == np.inf and np.isnan(plan.N)
    assert [(n.code, n.severity) for n in plan.notes] == [("out-of-reach", "error")]
    boot = scattered()
    near = boot.fit.params["E"] + 0.01
    found = planning.smallest_compute(boot, near)
    beyond = np.isinf(found.replicates["compute"])
    # The last thousandths of a nat above E cost more than the 1e42 FLOPs that are searched.
    assert beyond[boot.params["E"] >= near].all()
    assert not beyond[boot.params["E"] < near - 2e-3].any() and not beyond.all()


def test_tokens_for_a_size_and_size_for_tokens():
    tokens = planning.allocation_at(SCRATCH, N=1e9, loss=2.1)
    rest = 2.1 - P["E"] - P["A"] / 1e9 ** P["alpha"]
    assert tokens.D == pytest.approx((P["B"] / rest) ** (1 / P["beta"]), rel=1e-10)
    assert tokens.compute == pytest.approx(6e9 * tokens.D, rel=1e-12)
    assert tokens.binding == "N and loss"
    size = planning.allocation_at(SCRATCH, D=tokens.D, loss=2.1)
    assert size.N == pytest.approx(1e9, rel=1e-8)
    spent = planning.allocation_at(SCRATCH, N=1e9, compute=1e21)
    assert spent.D == pytest.approx(1e21 / 6e9, rel=1e-12)
    assert spent.loss == pytest.approx(
        P["E"] + P["A"] / 1e9 ** P["alpha"] + P["B"] / spent.D ** P["beta"], rel=1e-12
    )
    own = planning.allocation_at(SCRATCH, D=1e11, compute=1e21, cost=lambda N, D: 12 * N * D)
    assert own.N == pytest.approx(1e21 / 1.2e12, rel=1e-12)


def test_no_number_of_tokens_reaches_the_loss():
    floor = P["E"] + P["A"] / 1e9 ** P["alpha"]
    plan = planning.allocation_at(SCRATCH, N=1e9, loss=floor - 1e-3)
    assert plan.D == np.inf and plan.compute == np.inf
    (note,) = plan.notes
    assert note.code == "out-of-reach" and f"{floor:.4f}"[:5] in note.message


def test_intervals_are_of_what_was_found():
    found = planning.allocation_at(scattered(), N=1e9, loss=2.5)
    assert set(found.interval) == {"D", "compute"}
    low, high = found.interval["D"]
    assert low < found.D < high


TWICE = {"N": 1e9, "loss": 2.0, "compute": 1e20}


@pytest.mark.parametrize("given", [{}, {"N": 1e9}, {**TWICE, "D": 1e9}, TWICE, {"loss": 2.0}])
def test_exactly_two_are_given(given):
    with pytest.raises(jl.UsageError, match="one of N and D"):
        planning.allocation_at(SCRATCH, **given)


def test_the_share_is_kept():
    assert planning.smallest_compute(DOMAIN, 1.9, r=0.5).r == 0.5
    with pytest.raises(jl.UsageError, match="also needs r="):
        planning.smallest_compute(DOMAIN, 1.9)
    assert TRUTHS["dcpt"]["E"] < 1.9
