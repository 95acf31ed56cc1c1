"""Plans on every law of size and data: served tokens, epochs, groups, a law that falls on."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw.errors import UsageError
from tests.conftest import numbers

TRUTHS = jl.simulate.TRUTHS
CHINCHILLA = ("chinchilla", TRUTHS["chinchilla"])
REPETITION = ("repetition", TRUTHS["repetition"])
FARSEER = ("farseer", TRUTHS["farseer"])
GROUPED = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B"])


def codes(plan) -> list[str]:
    return [note.code for note in plan.notes]


def of_groups(c4: float, pile: float) -> tuple:
    values = dict(TRUTHS["chinchilla"]) | {"B[c4]": c4, "B[pile]": pile}
    return GROUPED, {name: values[name] for name in GROUPED.parameter_names}


def test_served_tokens_are_a_part_of_the_budget():
    law, truth, budget, served = jl.laws.get("chinchilla"), dict(CHINCHILLA[1]), 1e22, 1e12

    def loss(log_N):
        N = np.exp(log_N)
        return float(law.evaluate(truth, N=N, D=(budget - 2 * N * served) / (6 * N)))

    plan = planning.allocation(CHINCHILLA, budget, served_tokens=served)
    inside = np.log([1e7, 0.99 * budget / (2 * served)])
    best = minimize_scalar(loss, bounds=inside, method="bounded", options={"xatol": 1e-6})
    assert plan.loss == pytest.approx(best.fun, rel=1e-6)
    assert plan.N == pytest.approx(np.exp(best.x), rel=0.01)
    assert 6 * plan.N * plan.D + 2 * plan.N * served == pytest.approx(budget, rel=1e-9)
    alone = planning.allocation(CHINCHILLA, budget)
    assert plan.N < alone.N and plan.loss > alone.loss


@pytest.mark.full
def test_and_of_the_least_compute_to_a_loss():
    """More is served by a smaller model, trained for longer (Sardana 2024)."""
    sizes = []
    for served in (0.0, 1e12, 1e13):
        plan = planning.min_compute(CHINCHILLA, 2.2, served_tokens=served)
        given = planning.solve(CHINCHILLA, "D", 2.2, at={"N": plan.N})
        assert given.D == pytest.approx(plan.D, rel=1e-6)
        assert given.compute + 2 * plan.N * served == pytest.approx(plan.compute, rel=1e-6)
        sizes.append(plan.N)
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 2 * sizes[2]
    table = planning.frontier(CHINCHILLA, [1e21, 1e22], served_tokens=1e12).table
    assert (6 * table["N"] * table["D"] < table["compute"]).all()


@pytest.mark.full
def test_of_a_law_that_falls_on_far_beyond_its_runs_the_plan_is_the_valley_before():
    """Farseer's floor falls to nothing with N: a huge model on hardly any tokens would be best."""
    law, truth = jl.laws.get("farseer"), dict(FARSEER[1])
    plan = planning.allocation(FARSEER, 1e22)
    assert float(law(truth, N=1e18, D=1e22 / 6e18)) < plan.loss
    for factor in (0.97, 1.03):
        assert float(law(truth, N=plan.N * factor, D=plan.D / factor)) > plan.loss
    within = planning.allocation(FARSEER, 1e22, limits={"N": (1e8, 1e12)})
    assert plan.N == pytest.approx(within.N, rel=1e-5)
    least = planning.min_compute(FARSEER, plan.loss)
    assert (least.N, least.compute) == (pytest.approx(plan.N, rel=1e-3), pytest.approx(1e22))
    run = planning.best_run("farseer", truth, 1e22)
    assert float(run.N) == pytest.approx(plan.N, rel=1e-3)


@pytest.mark.full
def test_epochs_are_limited_to_those_of_the_runs_or_as_the_user_says():
    free = planning.allocation(REPETITION, 1e23, at={"U": 1e10})
    assert free.D / 1e10 > 40 and "many-epochs" in codes(free)
    plan = planning.allocation(REPETITION, 1e23, at={"U": 1e10}, max_epochs=12)
    assert plan.D == pytest.approx(12e10) and plan.loss > free.loss
    assert "D/U ≤ 12" in plan.binding and "many-epochs" not in codes(plan)
    ranges = {"N": (1e7, 1e10), "D": (1e8, 1e12), "U": (1e8, 1e11)}
    # In billions of tokens, of which the runs went over at most 20 times.
    joint = {"U/D": (0.05, 1.0)}
    fit = jl.FittedLaw(
        jl.laws.get("repetition"), dict(REPETITION[1]), ranges=ranges, joint_ranges=joint
    )
    of_runs = planning.allocation(fit, 1e23, at={"U": 1e10})
    assert of_runs.D == pytest.approx(20e10) and "many-epochs" in codes(of_runs)
    table = planning.frontier(fit, [1e18, 1e23], at={"U": 1e10})
    assert table.table["D"][1] == pytest.approx(20e10) and "many-epochs" in codes(table)
    assert "many-epochs" not in codes(planning.allocation(fit, 1e18, at={"U": 1e10}))
    assert "U" in str(
        planning.allocation(fit, 1e20, at={"U": 1e13}).notes
    )  # beyond the runs' range
    unknown = planning.frontier(jl.published()["muennighoff-2023"], [1e20], at={"U": 1e10})
    assert "range-unknown" in codes(unknown) and "extrapolation" not in codes(unknown)
    least = planning.min_compute(fit, of_runs.loss, at={"U": 1e10}, max_epochs=40)
    assert least.compute < 1e23
    with pytest.raises(UsageError, match="unique tokens U, which law chinchilla does not take"):
        planning.allocation(CHINCHILLA, 1e22, max_epochs=4)


@pytest.mark.full
def test_plans_from_a_base_take_the_other_inputs_of_their_laws():
    """Of one group a grouped law is the law it is made of; the other law need not have groups."""
    B = TRUTHS["chinchilla"]["B"]
    pair = (of_groups(B, 1.2 * B), of_groups(B, 0.8 * B))
    alone = [("chinchilla", dict(TRUTHS["chinchilla"]) | {"B": f * B}) for f in (1.2, 0.8)]
    for plan, asked in (
        (planning.data_transferred, {"N": 1e9, "D": 1e10}),
        (planning.break_even, {"N": 1e9}),
        (planning.break_even, {}),
    ):
        grouped = plan(*pair, **asked, at={"group": "pile"})
        found = numbers(plan(*alone, **asked))
        assert numbers(grouped) == pytest.approx(found, rel=1e-9, nan_ok=True)
    mixed = planning.break_even(pair[0], alone[1], N=1e9, at={"group": "pile"}).D
    assert mixed == pytest.approx(planning.break_even(*alone, N=1e9).D, nan_ok=True)
    with pytest.raises(UsageError, match="also needs group; give"):
        planning.break_even(*pair, N=1e9)
