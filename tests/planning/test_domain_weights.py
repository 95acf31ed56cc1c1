"""Several domains in one mixture."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.fixtures.drawn_laws import DOMAIN, GENERAL, drawn

AT = {"N": 1.8, "D": 10.0}
OTHER = ("dcpt", {**DOMAIN[1], "C": 0.3, "gamma": 0.9, "eta": 0.4})


def loss(pair, r):
    p = pair[1]
    whole = p["E"] + p["A"] / 1.8 ** p["alpha"] + p["B"] * r ** p["eta"] / 10 ** p["beta"]
    return whole + p["C"] / (r + p["eps"]) ** p["gamma"]


def test_two_domains_under_a_budget_against_brute_force():
    plan = planning.optimal_domain_weights(
        {"a": DOMAIN, "b": OTHER}, general=GENERAL, start=2.8602, threshold=0.03,
        weights={"a": 1.0, "b": 0.7}, at=AT,
    )  # fmt: skip
    most = planning.optimal_mixture(GENERAL, DOMAIN, start=2.8602, at=AT).share
    assert plan.general_share == pytest.approx(1 - most, abs=1e-6)
    assert plan.binding == "general loss"
    a = np.linspace(0, most, 1_000_001)
    whole = loss(DOMAIN, a) + 0.7 * loss(OTHER, most - a)
    assert plan.loss == pytest.approx(whole.min(), abs=1e-6)
    assert plan.shares["a"] == pytest.approx(a[whole.argmin()], abs=1e-5)
    assert plan.losses["b"] == pytest.approx(loss(OTHER, plan.shares["b"]), rel=1e-12)
    assert plan.loss == pytest.approx(plan.losses["a"] + 0.7 * plan.losses["b"], rel=1e-12)


def test_one_domain_is_usage_1():
    plan = planning.optimal_domain_weights(
        {"a": DOMAIN}, general=GENERAL, start=2.8602, threshold=0.03, at=AT
    )
    most = planning.optimal_mixture(GENERAL, DOMAIN, start=2.8602, at=AT)
    assert plan.shares["a"] == pytest.approx(most.share, abs=1e-6)
    assert plan.losses["a"] == pytest.approx(most.domain_loss, abs=1e-6)


def test_without_a_budget_equal_domains_share_equally():
    plan = planning.optimal_domain_weights({"a": DOMAIN, "b": DOMAIN, "c": DOMAIN}, at=AT)
    assert list(plan.shares.values()) == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert plan.general_share == pytest.approx(0, abs=1e-9)
    assert plan.binding == "shares add up to 1"


def test_an_optimum_in_a_corner_is_found():
    # With η below 1 the loss is not convex in the share; the best mixture leaves one out.
    odd = ("dcpt", {**DOMAIN[1], "B": 3.0, "eta": 0.05, "C": 0.05})
    plan = planning.optimal_domain_weights({"a": DOMAIN, "b": odd}, at=AT)
    r = np.linspace(0, 1, 100_001)
    whole = loss(DOMAIN, r) + loss(odd, 1 - r)
    assert plan.loss == pytest.approx(whole.min(), abs=1e-6)
    assert plan.shares["b"] == 0


def test_not_even_general_alone_keeps_the_limit():
    plan = planning.optimal_domain_weights({"a": DOMAIN}, general=GENERAL, start=2.0, at=AT)
    assert np.isnan(plan.shares["a"])
    assert ("no-share-allowed", "error") in [(n.code, n.severity) for n in plan.notes]


def test_draws_give_intervals_and_the_model_is_stated():
    plan = planning.optimal_domain_weights(
        {"a": drawn(DOMAIN), "b": drawn(OTHER)}, general=drawn(GENERAL), start=2.8602,
        threshold=0.03, at={"N": 1.8e9, "D": 1e10},
    )  # fmt: skip
    for name in ("a", "b", "general"):
        low, high = plan.interval[f"r[{name}]"]
        assert low < plan.quantities[f"r[{name}]"] < high
    sums = sum(plan.draws[f"r[{name}]"] for name in ("a", "b", "general"))
    np.testing.assert_allclose(sums, 1, atol=1e-9)
    assert plan.notes[-1].code == "own-share-only"


@pytest.mark.parametrize(
    "options, says",
    [
        ({"general": GENERAL}, "together with start="),
        ({"weights": {"c": 1.0}}, "weights: 'c' is none of a"),
        ({"weights": {"a": -1.0}}, "weights of a is -1; it must be not negative"),
        ({"weights": {}}, "weights: it does not name a"),
    ],
)
def test_wrong_usage(options, says):
    with pytest.raises(jl.UsageError, match=says):
        planning.optimal_domain_weights({"a": DOMAIN}, **options, at=AT)
