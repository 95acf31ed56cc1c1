"""Size and data for a budget: the papers' numbers, closed forms, brute force, refusals."""

import dataclasses
import re

import jax
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning, uncertainty
from jaxlaw.laws.scaling import kaplan
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, SCRATCH, TRUTHS, lowest_of, scattered

KAPLAN = ("kaplan", TRUTHS["kaplan"])


def significant(value, digits):
    return float(f"{value:.{digits}g}")


def test_zhengs_allocations_as_printed():
    scratch, continual = planning.allocation_law(SCRATCH), planning.allocation_law(CONTINUAL)
    assert [round(v, 3) for v in (scratch.a, scratch.b)] == [0.429, 0.571]
    assert [round(v, 3) for v in (continual.a, continual.b)] == [0.385, 0.615]
    printed = [
        (scratch.N_coefficient, 0.324), (scratch.D_coefficient, 0.514),
        (continual.N_coefficient, 4.79), (continual.D_coefficient, 0.035),
    ]  # fmt: skip
    for found, shown in printed:
        assert round(found, len(str(shown).partition(".")[2])) == shown


@pytest.mark.parametrize(
    "plan",
    [
        lambda law: planning.allocation(law, 1e27),
        lambda law: planning.frontier(law, [1e21, 1e27]),
        lambda law: planning.min_compute(law, 1.85),
    ],
)
def test_answers_of_trillions_are_not_doubted_where_runs_count_millions(plan):
    """Numbers of a user are held against the runs' magnitudes, those of an answer are not."""
    law = dataclasses.replace(
        jl.published()["besiroglu-2024"], units={"N": 1e6, "D": 1e9},
        ranges={"N": (57.0, 12_570.0), "D": (0.875, 144.0)},
    )  # fmt: skip
    assert re.search(r"[3-7](\.\d+)? T parameters", plan(law).headline)
    with pytest.raises(jl.UsageError, match="5e12 is 5e18 parameters"):
        planning.solve(law, "D", 2.0, at={"N": 5e12})


def test_ques_allocation_as_printed():
    # a 0.6252 and G 4.1282 at a mixture of 1:1 leave the scale of the exponents open.
    alpha, beta, eta, B = 0.3748, 0.6252, 1.3, 0.06
    A = 4.1282 ** (alpha + beta) * beta * B * 0.5**eta / alpha
    law = {**TRUTHS["dcpt"], "A": A, "B": B, "alpha": alpha, "beta": beta, "eta": eta}
    how = planning.allocation_law(("dcpt", law), at={"r": 0.5})
    assert (round(how.a, 4), round(how.b, 4), round(how.G, 4)) == (0.6252, 0.3748, 4.1282)
    plan = planning.allocation(("dcpt", law), 5e19, at={"r": 0.5})
    assert (round(plan.N, 2), round(plan.D, 3)) == (15.54, 0.536)


@pytest.mark.full
@pytest.mark.parametrize(
    "given, inputs",
    [
        (SCRATCH, {}),
        (CONTINUAL, {}),
        (DOMAIN, {"r": 0.5}),
        (("dcpt-l1", TRUTHS["dcpt-l1"]), {"r": 0.3}),
        (("dcpt-l4", TRUTHS["dcpt-l4"]), {"r": 0.7}),
        *(((name, TRUTHS[name]), {}) for name in ("skaling", "kaplan-e", "overtraining")),
    ],
)
def test_closed_forms_are_what_the_search_finds(given, inputs):
    closed = planning.allocation(given, 3e20, at=inputs)
    searched = planning.allocation(
        given, 3e20, limits={"N": (closed.N / 1e3, closed.N * 1e3)}, at=inputs
    )
    assert (closed.method, searched.method) == ("closed form", "numerical")
    for name in ("N", "D", "loss"):
        assert getattr(searched, name) == pytest.approx(getattr(closed, name), rel=1e-7)


def test_a_law_without_closed_form_against_brute_force():
    plan = planning.allocation(KAPLAN, 1e21)

    def loss(log_N):
        N = np.exp(log_N)
        return np.asarray(kaplan.function(N, 1e21 / (6 * N), **TRUTHS["kaplan"]), np.float64)

    with jax.enable_x64(True):
        best = lowest_of(loss, np.linspace(np.log(1e6), np.log(1e14), 4001))
    assert plan.N == pytest.approx(np.exp(best), rel=1e-6)
    # Kaplan's closed form: at the optimum αN·(size term) = (data term).
    size = (TRUTHS["kaplan"]["Nc"] / plan.N) ** (0.076 / 0.103)
    assert 0.076 / 0.103 * size == pytest.approx(TRUTHS["kaplan"]["Dc"] / plan.D, rel=1e-9)


def test_a_users_own_law(own_laws):
    @jl.law
    def valley(N, D, *, E=jl.laws.positive(), a=jl.laws.positive()):
        """Lowest at D = 20·N by construction."""
        from jax.numpy import log

        return E + a * log(D / (20 * N)) ** 2

    plan = planning.allocation((valley, {"E": 2.0, "a": 0.1}), 1.2e22)
    assert plan.N == pytest.approx(1e10, rel=1e-9) and plan.D == pytest.approx(2e11, rel=1e-9)


@pytest.mark.full
def test_compute_counted_by_the_user():
    def with_evaluation(N, D):
        return 6 * N * D + 2e11 * N

    plan = planning.allocation(SCRATCH, 1e21, cost=with_evaluation)
    assert plan.compute == pytest.approx(1e21, rel=1e-9)

    def loss(log_N):
        N = np.exp(log_N)
        D = (1e21 - 2e11 * N) / (6 * N)
        p = SCRATCH[1]
        return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / D ** p["beta"]

    best = lowest_of(loss, np.linspace(np.log(1e7), np.log(4e9), 4001))
    assert plan.N == pytest.approx(np.exp(best), rel=1e-6)
    double = planning.allocation(SCRATCH, 1e21, cost=lambda N, D: 12 * N * D)
    half = planning.allocation(SCRATCH, 5e20)
    assert double.N == pytest.approx(half.N, rel=1e-9)
    assert double.D == pytest.approx(half.D, rel=1e-9)


def test_limits_bind_and_are_named():
    free = planning.allocation(SCRATCH, 1e21)
    assert free.binding == "compute"
    wide = planning.allocation(SCRATCH, 1e21, limits={"N": (1e6, 1e12)})
    assert wide.N == pytest.approx(free.N, rel=1e-7) and wide.binding == "compute"
    few = planning.allocation(SCRATCH, 1e21, limits={"D": (None, 1e11)})
    assert few.D == pytest.approx(1e11, rel=1e-9) and few.N == pytest.approx(1e21 / 6e11, rel=1e-9)
    assert few.binding == "compute, D ≤ 100 B tokens"
    both = planning.allocation(SCRATCH, 1e21, limits={"N": (None, 1e8), "D": (None, 1e11)})
    assert both.compute == pytest.approx(6e19, rel=1e-9)
    assert both.binding == "N ≤ 100 M parameters, D ≤ 100 B tokens"


@pytest.mark.full
def test_size_data_and_share_at_once():
    tokens = 0.1
    plan = planning.allocation(DOMAIN, 5e19, at={"r": "best"}, corpus_tokens=tokens)
    p, budget = DOMAIN[1], 5e19 / 6e18

    def loss(N, r):
        D = budget / N
        whole = p["E"] + p["A"] / N ** p["alpha"] + p["B"] * r ** p["eta"] / D ** p["beta"]
        return whole + p["C"] / (r + p["eps"]) ** p["gamma"]

    N, part = np.geomspace(40, 120, 4001)[:, None], np.linspace(0.5, 1, 501)[None, :]
    brute = loss(N, part * np.minimum(1, tokens * N / budget)).min()
    assert plan.loss == pytest.approx(brute, abs=1e-6) and plan.loss <= brute + 1e-12
    assert plan.r * plan.D <= tokens * (1 + 1e-9) and "r·D ≤ 0.1" in plan.binding
    alone = planning.allocation(DOMAIN, 5e19, at={"r": "best"})
    assert alone.r == pytest.approx(1) and "r ≤ 1" in alone.binding
    assert alone.N == pytest.approx(planning.allocation(DOMAIN, 5e19, at={"r": 1.0}).N, rel=1e-5)


@pytest.mark.parametrize("change", [{"beta": 0.05}, {"beta": 0.08}, {"gamma": 0.45, "beta": 0.6}])
def test_the_conditions_on_exponents(change):
    law = ("cpt-chinchilla", {**CONTINUAL[1], **change})
    with pytest.raises(jl.DataError, match="β > γ, α > γ"):
        planning.allocation(law, 1e21)
    with pytest.raises(jl.DataError, match="β > γ, α > γ"):
        planning.allocation_law(law)


def test_a_corpus_of_a_given_share_limits_the_tokens():
    plan = planning.allocation(DOMAIN, 5e19, at={"r": 0.5}, corpus_tokens=0.02, max_epochs=2)
    limited = planning.allocation(DOMAIN, 5e19, at={"r": 0.5}, limits={"D": (None, 0.08)})
    assert plan.D == pytest.approx(0.08, rel=1e-9) and "r·D ≤ 0.04" in plan.binding
    assert (plan.N, plan.loss) == pytest.approx((limited.N, limited.loss), rel=1e-9)


def test_without_an_optimum_a_limit_gives_the_answer():
    law = ("cpt-chinchilla", {**CONTINUAL[1], "beta": 0.05})
    plan = planning.allocation(law, 1e21, limits={"N": (None, 7e9)})
    assert plan.N == pytest.approx(7e9, rel=1e-9) and plan.binding == "compute, N ≤ 7 B parameters"
    with pytest.raises(jl.DataError, match="no best N"):
        planning.allocation(law, 1e21, cost=lambda N, D: 6 * N * D)


def test_draws_without_an_optimum_are_left_out():
    boot = scattered()
    params = {name: values.copy() for name, values in boot.params.items()}
    params["B"][:4] = np.nan
    plan = planning.allocation(uncertainty.Draws(boot.fit, params), 1e21)
    assert np.isnan(plan.draws["N"]).sum() == 4
    assert np.isfinite(plan.interval["N"]).all()
    assert "10.0% of 40" in next(n.message for n in plan.notes if n.code.startswith("draws"))


def test_a_frontier_is_the_allocation_of_every_budget():
    boot, budgets = scattered(), [1e19, 1e21, 1e23]
    table = planning.frontier(boot, budgets).table
    for k, budget in enumerate(budgets):
        plan = planning.allocation(boot, budget)
        row = table.iloc[k]
        assert row["N"] == plan.N and row["loss"] == plan.loss and row["compute"] == budget
        assert (row["N_low"], row["N_high"]) == plan.interval["N"]
        assert row["tokens_per_parameter"] == pytest.approx(plan.D / plan.N)
    steep = np.diff(np.log(table["N"])) / np.diff(np.log(budgets))
    assert steep == pytest.approx(planning.allocation_law(boot).a)
    assert len(planning.frontier(KAPLAN, budgets).table) == 3


@pytest.mark.parametrize(
    "options, says",
    [
        ({"limits": {"C": (1, 2)}}, "limits on C"),
        ({"limits": {"N": (2e9, 1e9)}}, "not below the largest"),
        ({"limits": {"N": 1e9}}, "it must be"),
        ({"limits": {"N": (1e12, None), "D": (1e12, None)}}, "does not pay for"),
    ],
)
def test_wrong_usage(options, says):
    with pytest.raises(jl.UsageError, match=says):
        planning.allocation(SCRATCH, 1e21, **options)


def test_laws_of_other_inputs_are_refused():
    with pytest.raises(jl.UsageError, match="takes no input 'N'"):
        planning.allocation(("loss-compute", TRUTHS["loss-compute"]), 1e21)
    with pytest.raises(jl.UsageError, match="no closed form"):
        planning.allocation_law(KAPLAN)
    with pytest.raises(jl.UsageError, match="positive"):
        planning.allocation(SCRATCH, -1.0)
