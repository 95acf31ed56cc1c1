"""The best settings of a run: closed forms, draws, grids, edges, units, errors."""

import dataclasses

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import UsageError, planning, simulate
from tests.fixtures.drawn_laws import drawn

LAW = jl.laws.tuned("chinchilla", "lr")
TRUTH = dict(simulate.TRUTHS["chinchilla"])
TRUTH |= {"lr_0": 1e-3, "lr_N": -0.6, "lr_D": 0.23, "h_lr": 0.013, "s_lr": 0.9, "k": -0.1}
AT = {"N": 4e9, "D": 1e11}
BEST = 1e-3 * 4**-0.6 * 5**0.23
OVER = {"lr": (1e-5, 1e-1)}


def rise(lr, p=TRUTH, N=4e9, D=1e11):
    """How far the loss lies above the lowest, by hand."""
    z = np.log(lr / (p["lr_0"] * (N / 1e9) ** p["lr_N"] * (D / 2e10) ** p["lr_D"]))
    phi = (np.exp(p["s_lr"] * z) - 1 - p["s_lr"] * z) / p["s_lr"] ** 2
    return (N / 1e9 * D / 2e10) ** p["k"] * p["h_lr"] * phi


def codes(plan):
    return [note.code for note in plan.notes]


def test_the_best_rate_its_range_and_its_cost_are_those_of_the_formula():
    plan = planning.optimal_inputs((LAW, TRUTH), OVER, at=AT)
    assert plan.lr == plan.best["lr"] == plan.run["lr"] == pytest.approx(BEST, rel=1e-6)
    base = jl.laws.get("chinchilla")(simulate.TRUTHS["chinchilla"], **AT)
    assert plan.loss == pytest.approx(float(base), rel=1e-6)
    # The ends of the range are the last points of a fine grid within it.
    assert rise(np.array(plan.near["lr"])) == pytest.approx(1e-3, rel=5e-3)
    assert not {"excess", "regret"} & {*plan.quantities}


def test_what_is_searched_without_ranges_are_the_settings_of_a_tuned_law():
    fit = drawn((LAW, TRUTH)).fit
    plan = planning.optimal_inputs(fit, at=AT)
    asked = planning.optimal_inputs(fit, {"lr": None}, at=AT)
    assert plan.best == asked.best and set(plan.best) == {"lr"}
    assert plan.plot().get_xlabel() == "lr"
    both = drawn(("tuned-skaling", simulate.TRUTHS["tuned-skaling"])).fit
    assert set(planning.optimal_inputs(both, at=AT | {"batch": 1e6}).best) == {"lr"}
    with pytest.raises(UsageError, match="over: name the inputs .* law chinchilla takes N, D"):
        planning.optimal_inputs(("chinchilla", simulate.TRUTHS["chinchilla"]), at={"N": 1e9})


def test_a_grid_is_rounded_to_where_the_loss_is_least(tmp_path):
    # The nearest of these in the logarithm is above, and costs more than the one below.
    below, above = BEST / 1.9, BEST * 1.85
    assert rise(below) < rise(above)
    plan = planning.optimal_inputs((LAW, TRUTH), OVER, at=AT, grid={"lr": [below, above, 1e-5]})
    assert plan.run == {"lr": below} and plan.lr == pytest.approx(BEST, rel=1e-6)
    assert plan.excess == pytest.approx(rise(below), rel=1e-5) and "; run lr" in plan.headline
    plan.save(tmp_path / "plan.json")
    again = jl.load(tmp_path / "plan.json")
    assert again.lr == plan.lr and again.run == plan.run and again.headline == plan.headline


def test_an_edge_comes_first():
    plan = planning.optimal_inputs((LAW, TRUTH), {"lr": (2 * BEST, 1e-1)}, at=AT)
    assert plan.headline.startswith("lr is at its limit") and "upper bound" in plan.headline
    ranges = {"N": (1e8, 1e10), "D": (1e9, 1e12), "lr": (4 * BEST, 8 * BEST)}
    fit = jl.FittedLaw(LAW, TRUTH, ranges=ranges)
    plan = planning.optimal_inputs(fit, OVER, at=AT)
    assert plan.headline.endswith("outside the fitted runs") and "extrapolation" in codes(plan)
    # Without a range of the user's it is searched where it was run, and so ends at a limit.
    assert "optimum-at-limit" in codes(planning.optimal_inputs(fit, {"lr": None}, at=AT))
    with pytest.raises(UsageError, match="range of lr in the fitted runs is unknown"):
        planning.optimal_inputs((LAW, TRUTH), {"lr": None}, at=AT)


def test_draws_give_intervals_and_regret():
    moved = np.exp(np.random.default_rng(0).normal(0, 0.3, 200))
    boot = drawn((LAW, TRUTH), draws=200)
    params = {name: np.full(200, value) for name, value in TRUTH.items()}
    boot = dataclasses.replace(boot, params=params | {"lr_0": TRUTH["lr_0"] * moved})
    plan = planning.optimal_inputs(boot, OVER, at=AT)
    assert plan.draws["lr"] == pytest.approx(BEST * moved, rel=1e-5)
    by_hand = [rise(BEST, TRUTH | {"lr_0": TRUTH["lr_0"] * factor}) for factor in moved]
    assert plan.draws["regret"] == pytest.approx(np.array(by_hand), abs=1e-9)
    assert plan.regret == pytest.approx(np.mean(by_hand), rel=1e-6)
    assert plan.interval["lr"][0] < BEST < plan.interval["lr"][1] and "regret" in plan.summary()


def test_units_of_the_runs():
    fit = jl.FittedLaw(LAW, TRUTH, units={"N": 1e9, "D": 1e9, "lr": 1e-3})
    plan = planning.optimal_inputs(
        fit, {"lr": (1e-2, 1e2)}, at={"N": 4, "D": 100}, grid={"lr": [1]}
    )
    assert plan.lr == pytest.approx(BEST / 1e-3, rel=1e-6) and plan.run == {"lr": 1.0}
    assert plan.excess == pytest.approx(rise(1e-3), rel=1e-5)


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"grid": {"batch": [1.0]}}, "'batch' is not searched"),
        ({"grid": {"lr": [-1e-3]}}, "lr is -0.001"),
    ],
)
def test_misuse_says_what_to_do(asked, message):
    with pytest.raises(UsageError, match=message):
        planning.optimal_inputs((LAW, TRUTH), **({"over": OVER, "at": AT} | asked))


def test_tokens_to_a_loss_at_a_held_rate_are_found_though_the_loss_rises_again():
    """Far beyond the tokens that the rate and the batch are for, the loss of a tuned law rises."""
    fit = jl.FittedLaw("tuned-skaling", simulate.TRUTHS["tuned-skaling"])
    at = {"lr": 1e-3, "batch": 3.5e5}
    tokens = planning.solve(fit, "D", 2.2, at={"N": 1e9, **at})
    size = planning.solve(fit, "N", 2.2, at={"D": 2e10, **at})
    assert fit.predict(N=size.N, D=2e10, **at) == pytest.approx(2.2)
    never = planning.solve(fit, "D", 1.6, at={"N": 1e9, **at})
    lowest = planning.optimal_inputs(fit, {"D": (1e8, 1e16)}, at={"N": 1e9, **at}).loss
    said = never.notes[0].message.partition("comes down to ")[2].split()[0]
    assert float(said) == pytest.approx(lowest, rel=1e-3)
    least = planning.minimise(
        planning.Compute(), {"lr": (1e-5, 1e-1), "D": None},
        subject_to=[planning.AtMost(fit, 2.2)], at={"N": 1e9, "batch": 3.5e5},
    )  # fmt: skip
    assert least.best["D"] <= tokens.D
