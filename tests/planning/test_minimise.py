"""The two verbs: the lowest loss over any inputs under constraints, and the input of a loss."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import FittedLaw, UsageError, planning, simulate
from jaxlaw.laws import Input, positive, power
from jaxlaw.planning import AtMost, Budget, Compute, minimise, solve
from tests.fixtures.drawn_laws import DOMAIN, GENERAL, drawn

TRUTH = ("chinchilla", simulate.TRUTHS["chinchilla"])
BOTH = {"N": None, "D": None}


def codes(answer):
    return {note.code for note in answer.notes}


@pytest.fixture
def tuned(own_laws):
    """A law of one's own: the loss rises on both sides of a best rate, which falls with D."""

    @jl.law(inputs={"lr": Input("lr", "learning rate", domain="positive"),
                    "batch": Input("batch", "tokens a step", domain="positive")})  # fmt: skip
    def with_rate(
        D, lr, batch, *, E=positive(1, 3), B=positive(1, 1e4), best=positive(1e-4, 1), k=positive()
    ):
        off = jnp.log(lr / best) + 0.1 * jnp.log(D)
        return (
            E + B * power(D, -0.3) + k * off**2 + k * jnp.log(batch / (1e6 * power(lr, 0.5))) ** 2
        )

    return with_rate, {"E": 1.7, "B": 400.0, "best": 0.05, "k": 0.02}


def test_a_budget_is_spent_in_closed_form_as_by_search():
    found = minimise(TRUTH, BOTH, subject_to=[Budget(1e21)])
    searched = minimise(TRUTH, BOTH, subject_to=[Budget(1e21, lambda N, D: 6 * N * D)])
    assert found.best == pytest.approx(searched.best, rel=1e-6)
    assert found.loss == pytest.approx(searched.loss, rel=1e-12)
    assert tuple(found.near["N"]) == pytest.approx(tuple(searched.near["N"]), rel=1e-3)
    assert found.compute == pytest.approx(1e21, rel=1e-9) and found.binding == "compute"


def test_the_least_compute_to_a_loss():
    found = minimise(Compute(), BOTH, subject_to=[AtMost(TRUTH, 2.2)])
    assert found.binding == "chinchilla loss" and "loss" not in found.quantities
    assert found.quantities["loss[chinchilla]"].value == pytest.approx(2.2, rel=1e-12)
    spent = minimise(TRUTH, BOTH, subject_to=[Budget(found.compute)])
    assert spent.best == pytest.approx(found.best, rel=1e-6)
    # D alone, at a given N: the tokens that the loss needs.
    tokens = minimise(Compute(), {"D": None}, subject_to=[AtMost(TRUTH, 2.2)], at={"N": 7e9})
    needed = solve(TRUTH, for_="D", loss=2.2, at={"N": 7e9})
    assert tokens.best["D"] == pytest.approx(needed.D, rel=1e-12) and not tokens.tables


def test_limits_that_nothing_keeps_have_no_answer():
    never = minimise(Compute(), BOTH, subject_to=[AtMost(TRUTH, 1.5)])
    assert np.isnan(never.best["N"]) and "chinchilla loss ≤ 1.5" in never.headline
    never = minimise(
        DOMAIN, {"r": None}, subject_to=[AtMost(GENERAL, 1.0, rest=("r",))],
        at={"N": 1.8, "D": 2.0},
    )  # fmt: skip
    assert np.isnan(never.best["r"]) and codes(never) >= {"out-of-reach"}
    assert not never.tables and "dcpt loss ≤ 1" in never.notes[0].message


# --- any inputs of any law


def test_two_inputs_of_a_law_of_ones_own(tuned):
    """In closed form: log lr = log best − 0.1·log D, and batch = 1e6·√lr."""
    over = {"batch": (1e3, 1e7), "lr": (1e-4, 1e-1)}
    found = minimise(tuned, over, at={"D": 1e11})
    lr = 0.05 * 1e11**-0.1
    assert list(found.best) == ["batch", "lr"]  # as they were named
    assert found.best == pytest.approx({"batch": 1e6 * lr**0.5, "lr": lr}, rel=1e-6)
    assert found.binding == "none" and "compute" not in found.quantities
    assert "compute" not in found.summary() and "optimum-at-limit" not in codes(found)
    # The profile of lr, batch at its best, is k·(log lr/best)² alone.
    width = np.sqrt(1e-3 * found.loss / 0.02)
    assert tuple(found.near["lr"]) == pytest.approx(
        (lr * np.exp(-width), lr * np.exp(width)), rel=0.02
    )
    assert found.near["batch"][0] < found.best["batch"] < found.near["batch"][1]
    narrow = minimise(tuned, over, at={"D": 1e11}, tolerance=1e-5)
    assert tuple(narrow.near["lr"]) == pytest.approx(
        (lr * np.exp(-width / 10), lr * np.exp(width / 10)), rel=0.02
    )


def test_an_input_at_its_limit_is_a_bound(tuned):
    at = {"D": 1e11, "batch": 1e5}
    found = minimise(tuned, {"lr": (1e-4, 1e-3)}, at=at)
    assert found.best["lr"] == pytest.approx(1e-3, rel=1e-9) and found.binding == "lr ≤ 0.001"
    (note,) = (note for note in found.notes if note.code == "optimum-at-limit")
    assert "more of it would do better" in note.message
    low, high = found.near["lr"]
    assert low < 1e-3 and high == pytest.approx(1e-3, rel=1e-9)


def test_the_range_of_the_runs_is_searched_and_left_with_a_note(tuned):
    law, params = tuned
    ranges = {"D": (1e9, 1e12), "lr": (1e-5, 1e-1), "batch": (1e4, 1e6)}
    fit = FittedLaw(law, params, ranges=ranges, units={"lr": 1e-3})
    fit_in_thousandths = FittedLaw(
        law, params, ranges={**ranges, "lr": (1e-2, 1e2)}, units={"lr": 1e-3}
    )
    at = {"D": 1e11, "batch": 1e5}
    plain = minimise((law, params), {"lr": (1e-5, 1e-1)}, at=at)
    found = minimise(fit_in_thousandths, {"lr": None}, at=at)
    assert found.best["lr"] == pytest.approx(1e3 * plain.best["lr"], rel=1e-6)
    assert list(found.near["lr"]) == pytest.approx([1e3 * x for x in plain.near["lr"]], rel=1e-3)
    beyond = minimise(fit, {"lr": (None, 50.0)}, at={"D": 1e14, "batch": 1e5})
    assert "extrapolation" in codes(beyond)
    with pytest.raises(
        UsageError, match="the range of lr in the fitted runs is unknown: pass over="
    ):
        minimise((law, params), {"lr": None}, at=at)


@pytest.mark.full
def test_rates_beside_a_budget_that_is_spent(own_laws):
    """N, D and a rate together: the rate's best value, and the allocation without it."""

    @jl.law(inputs={"lr": Input("lr", domain="positive")})
    def sized(N, D, lr, *, E=positive(), A=positive(), B=positive(), k=positive()):
        off = jnp.log(lr / 2e-3) + 0.2 * jnp.log(N / 1e9)
        return E + A * power(N, -0.34) + B * power(D, -0.28) + k * off**2

    params = {"E": 1.7, "A": 400.0, "B": 410.0, "k": 0.05}
    plain = ("chinchilla", {"E": 1.7, "A": 400.0, "B": 410.0, "alpha": 0.34, "beta": 0.28})
    for most in (None, 1e10):  # a limit on D leaves the optimum in a corner
        found = minimise(
            (sized, params), {"N": None, "D": (None, most), "lr": (1e-5, 1e-1)},
            subject_to=[Budget(1e21)],
        )  # fmt: skip
        plan = planning.allocation(plain, 1e21, limits={"D": (None, most)})
        lr = 2e-3 * (found.best["N"] / 1e9) ** -0.2
        assert found.best == pytest.approx({"N": plan.N, "D": plan.D, "lr": lr}, rel=1e-6)
        assert found.compute == pytest.approx(1e21, rel=1e-6)


# --- one input for a loss


def test_a_loss_that_several_values_reach(tuned):
    at = {"D": 1e11, "batch": 1e5}
    best = minimise(tuned, {"lr": (1e-4, 1e-1)}, at=at)
    found = solve(tuned, for_="lr", loss=best.loss * 1.01, between=(1e-4, 1e-1), at=at)
    assert found.lr < best.best["lr"] and "several-solutions" in codes(found)
    law, params = tuned
    there = FittedLaw(law, params).predict(lr=found.lr, **at)
    assert there == pytest.approx(best.loss * 1.01, rel=1e-12)
    none = solve(tuned, for_="lr", loss=best.loss * 0.99, between=(1e-4, 1e-1), at=at)
    assert np.isnan(none.lr) and "out-of-reach" in codes(none)
    assert f"{best.loss:.4f}" in none.notes[0].message


def test_tokens_of_a_loss_are_the_inverse_of_the_law():
    p = TRUTH[1]
    found = solve(drawn(TRUTH), for_="D", loss=2.2, at={"N": 7e9})
    rest = 2.2 - p["E"] - p["A"] / 7e9 ** p["alpha"]
    assert found.D == pytest.approx((p["B"] / rest) ** (1 / p["beta"]), rel=1e-10)
    assert found.compute == pytest.approx(42e9 * found.D, rel=1e-12)
    assert {*found.interval} == {"D", "compute"}
    assert found.interval["D"][0] < found.D < found.interval["D"][1]


def test_what_no_number_of_tokens_reaches_is_infinite():
    never = solve(TRUTH, for_="D", loss=1.0, at={"N": 7e9})
    assert never.D == np.inf and never.compute == np.inf and "out-of-reach" in codes(never)
    rising = solve(DOMAIN, for_="r", loss=9.0, at={"N": 1.8, "D": 10.0})
    assert np.isnan(rising.r) and "below 9 at every r" in rising.notes[0].message


def test_no_share_is_named_that_is_less_than_a_token():
    """Bimix is infinite at a share of 0: any loss is reached, this one at a share of 1e-18."""
    law = ("bimix", simulate.TRUTHS["bimix"])
    at = {name: 1e9 for name in jl.laws.get("bimix").input_names if name != "r"}
    none = solve(law, for_="r", loss=50.0, at=at)
    assert np.isnan(none.r) and "below 50 at every r" in none.notes[0].message
    assert none.notes[0].severity == "error" and "out-of-reach" in codes(none)


# --- what is refused


def test_normal_draws_that_bend_the_law_are_noted():
    known = drawn(TRUTH)
    # E and A known only in their sum, as from runs of one size.
    truth, z = TRUTH[1], np.random.default_rng(0).standard_normal(40)
    ratio = truth["E"] / (truth["A"] / 7e9 ** truth["alpha"])
    loose = {"E": truth["E"] * np.exp(z), "A": truth["A"] * np.exp(-ratio * z)}
    loose = dataclasses.replace(known, kind="normal", params=known.params | loose)
    asked = {"over": {"D": (1e9, 1e12)}, "at": {"N": 7e9}}
    (note,) = [n for n in minimise(loose, **asked).notes if n.code == "draws-disagree"]
    assert "too high" in note.message and note.severity == "warning"
    for well in (
        dataclasses.replace(known, kind="normal"),
        dataclasses.replace(loose, kind="case"),
    ):
        assert "draws-disagree" not in codes(minimise(well, **asked))
