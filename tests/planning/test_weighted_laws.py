"""Plans with a forecast: which law wants what, what the choice costs, and what is as good."""

import dataclasses
import math
import os
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw._jit import in_float64
from jaxlaw.cli import main
from jaxlaw.forecasting._forecast import LEVELS
from jaxlaw.laws import _base as base
from jaxlaw.laws._weighted import parameter_of, weight_of, weighted
from jaxlaw.notes import Note

SEARCH = {"n_starts": 64, "n_local": 4}
BUDGET = 1e22
CHINCHILLA = jl.simulate.TRUTHS["chinchilla"]
#: A law whose best models are larger: data count for less.
LARGER = CHINCHILLA | {"B": CHINCHILLA["B"] / 2}


def codes(answer):
    return {note.code for note in answer.notes}


def forecast_of(laws, weights, *, noise=0.003, shift=0.0, common=0.0, spread=0.0, **fitted):
    """A forecast whose laws are given: label → (law, parameters)."""
    random = np.random.default_rng(1)
    fits = {
        label: jl.FittedLaw(law, params, ranges={"N": (1e8, 1e10), "D": (1e9, 1e12)}, **fitted)
        for label, (law, params) in laws.items()
    }
    point = {"N": [1e10], "D": [BUDGET / 6e10], "distance": [1.0], "laws": [2.2], "shift": [0.0]}
    numbers = {"shift": shift, "per_e_fold": common, "degrees": 9.0, "noise": noise, "scatter": 0.3}
    return jl.Forecast(
        table=pd.DataFrame(point | {"estimate": [2.2], "low": [2.1], "high": [2.3]}),
        level=0.9, target="loss", along="compute",
        weights={label: np.array([weight]) for label, weight in zip(laws, weights, strict=True)},
        fits=fits, quantiles=np.full((len(LEVELS), 1), 2.2), units={}, runs={"count": 9},
        created="", package_versions={},
        resamples={
            label: {
                name: value * np.exp(spread * random.standard_normal(8))
                for name, value in fit.params.items()
            }
            for label, fit in fits.items()
        },
        error_model={name: np.array([value]) for name, value in numbers.items()},
        notes=(),
    )  # fmt: skip


TWO = {"small": ("chinchilla", CHINCHILLA), "large": ("chinchilla", LARGER)}


@pytest.fixture(scope="module")
def plan():
    return planning.allocation(forecast_of(TWO, [0.7, 0.3], spread=0.005), BUDGET)


# --- the weighted law


def test_weighted_laws_are_their_geometric_mean_in_any_units():
    laws = {"a": jl.laws.get("chinchilla"), "b": jl.laws.get("dcpt")}
    both = weighted(laws)
    assert weighted(laws) is both and pickle.loads(pickle.dumps(both)) is both
    assert both.program_name == "weighted laws (a: chinchilla, b: dcpt)"
    params = {"shift": 0.1, weight_of("a"): 0.25, weight_of("b"): 0.75}
    for label, own in (("a", CHINCHILLA), ("b", jl.simulate.TRUTHS["dcpt"])):
        params |= {parameter_of(name, label): value for name, value in own.items()}
    with in_float64():
        found = float(both(params, N=1e9, D=2e9, r=0.5))
        first = float(laws["a"](CHINCHILLA, N=1e9, D=2e9))
        second = float(laws["b"](jl.simulate.TRUTHS["dcpt"], N=1.0, D=2.0, r=0.5))
    assert found == pytest.approx(math.exp(0.1 + 0.25 * math.log(first) + 0.75 * math.log(second)))


def test_a_law_of_no_weight_counts_for_nothing_where_it_has_no_value():
    @jl.law(name="test-negative")
    def negative(N, *, c=jl.laws.real(-9.0, 9.0)):
        return c - jl.laws.power(N, 0.5)

    both = weighted({"good": jl.laws.get("chinchilla"), "negative": negative})
    assert both.program_name is None  # of a law of a user's nothing is kept
    params = {"shift": 0.0, weight_of("good"): 1.0, weight_of("negative"): 0.0, "c[negative]": 0.0}
    params |= {parameter_of(name, "good"): value for name, value in CHINCHILLA.items()}
    value, slope = jax.value_and_grad(lambda N: both(params, N=N, D=jnp.asarray(1e11)))(1e9)
    assert value == pytest.approx(float(jl.laws.get("chinchilla")(CHINCHILLA, N=1e9, D=1e11)))
    assert np.isfinite(slope) and slope < 0


def test_laws_of_different_targets_are_not_weighted():
    with pytest.raises(jl.UsageError, match="of the same target"):
        weighted({"a": jl.laws.get("chinchilla"), "b": jl.laws.get("downstream-bleu")})


# --- the decision across laws


def test_the_interval_goes_over_the_laws_and_each_is_named(plan):
    own = {label: planning.allocation(law, BUDGET) for label, law in TWO.items()}
    table = plan.laws.set_index("law")
    assert list(table.index) == ["small", "large"] and table["weight"].tolist() == [0.7, 0.3]
    for label, alone in own.items():
        assert table["N"][label] == pytest.approx(alone.N, rel=1e-6)
        assert table["loss"][label] == pytest.approx(alone.loss, rel=1e-9)
    low, high = plan.interval["N"]
    assert low < own["small"].N < plan.N < own["large"].N < high
    # The laws' weighted mean has its best between theirs, and nearer the heavier one's.
    near, far = (abs(math.log(plan.N / own[label].N)) for label in TWO)
    assert near < far


def test_regret_is_what_the_choice_costs_if_that_law_is_the_true_one(plan):
    for label, law in TWO.items():
        own = jl.FittedLaw(*law)
        there, best = own.predict(N=plan.N, D=plan.D), planning.allocation(law, BUDGET).loss
        row = plan.laws.set_index("law").loc[label]
        assert row["regret"] == pytest.approx(float(there) / best - 1, rel=1e-4)
        assert row["regret"] > 0
    best = planning.allocation(forecast_of(TWO, [1.0, 0.0]), BUDGET).laws.set_index("law")
    assert best["regret"]["small"] == pytest.approx(0, abs=1e-12)
    assert np.isnan(best["N"]["large"])  # of no weight, and not planned with


@jl.law(name="test-nothing")
def nothing(N, D, *, c=jl.laws.real(-1.0, 1.0)):
    return c * 0.0 * (N + D)


@jl.law(name="test-falls-on")
def falls_on(N, D, *, k=jl.laws.positive(0.1, 10), a=jl.laws.exponent()):
    """Of the budget's runs the largest model is best, however large."""
    return 1.0 + k * jl.laws.power(N, -a)


@jl.law(name="test-second-valley")
def second_valley(
    N, D, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(0.1, 10), B=jl.laws.positive(0.1, 10),
    alpha=jl.laws.exponent(), beta=jl.laws.exponent(),
):  # fmt: skip
    loss = E + A * jl.laws.power(N, -alpha) + B * jl.laws.power(D, -beta)
    return loss * (1 - 0.99 * jnp.exp(-((jnp.log(N) - jnp.log(1e15)) ** 2) / 8))


for _law in (nothing, falls_on, second_valley):  # of these tests alone
    del base._REGISTRY[_law.name]


ODD = {
    "zero": (nothing, {"c": 0.0}),
    "falls": (falls_on, {"k": 50.0, "a": 0.2}),
    "second": (second_valley, CHINCHILLA),
}


def odd(label, weight):
    return forecast_of({"small": TWO["small"], label: ODD[label]}, [1 - weight, weight])


def test_a_law_whose_loss_is_0_is_named_and_stops_no_plan():
    plan = planning.allocation(odd("zero", 0.1), BUDGET)
    assert plan.loss == 0 and "law-without-loss" in codes(plan)
    assert 1e8 < plan.N < 1e11  # where all sizes are alike, one whose D/N was run
    regret = plan.laws.set_index("law")["regret"]
    assert np.isnan(regret["zero"]) and regret["small"] >= 0


def test_the_plan_is_the_valley_next_to_the_runs_and_says_where_the_loss_falls_on():
    own = planning.allocation(TWO["small"], BUDGET)
    plan = planning.allocation(odd("second", 0.9), BUDGET)
    assert plan.N == pytest.approx(own.N, rel=1e-3) and "falls-on" in codes(plan)
    assert plan.laws["N"].to_numpy() == pytest.approx([own.N] * 2, rel=1e-3)


@pytest.mark.full
def test_an_optimum_that_leaves_the_runs_names_the_bound_it_stands_on():
    # With a little of a law that has one, there is an optimum, but at a D/N that nobody ran.
    plan = planning.allocation(odd("falls", 0.95), BUDGET)
    assert plan.D / plan.N < 1 and "optimum-beyond-tried" in codes(plan)
    # By a law without one the plan stands at the least D/N of the runs.
    (held,) = (note for note in plan.notes if note.code == "optimum-at-tried")
    assert held.message.startswith("falls alone: the loss falls all the way to the largest")
    alone = planning.allocation(forecast_of({"falls": ODD["falls"]}, [1.0]), BUDGET)
    assert "optimum-at-tried" in codes(alone) and "falls-on" not in codes(alone)
    assert alone.D / alone.N == pytest.approx(10)
    assert alone.compute == pytest.approx(BUDGET)
    least = planning.min_compute(forecast_of({"falls": ODD["falls"]}, [1.0]), 1.5)
    assert "optimum-at-limit" in codes(least)


def test_sizes_within_the_noise_of_a_run_are_all_answers(plan):
    noise = 0.003
    law = forecast_of(TWO, [0.7, 0.3]).draws().fit
    (low, high), tokens = plan.flat["N"], plan.flat["D"]
    assert low < plan.N < high and tokens[0] < plan.D < tokens[1]
    for N, D in ((low, tokens[1]), (high, tokens[0])):
        assert 6 * N * D == pytest.approx(BUDGET)
        assert float(law.predict(N=N, D=D)) == pytest.approx(plan.loss * math.exp(noise), rel=1e-4)
    louder = planning.allocation(forecast_of(TWO, [0.7, 0.3], noise=0.01), BUDGET)
    assert louder.flat["N"][0] < low and high < louder.flat["N"][1]
    assert planning.allocation(TWO["small"], BUDGET).flat == {}
    assert "lies within a run's noise of the lowest loss" in plan.summary()


@pytest.mark.full
def test_a_loss_to_reach_has_the_laws_common_error_in_its_compute():
    sure = planning.min_compute(forecast_of(TWO, [1.0, 0.0]), 2.2)
    moved = planning.min_compute(forecast_of(TWO, [1.0, 0.0], shift=0.01), 2.2)
    wide = planning.min_compute(forecast_of(TWO, [1.0, 0.0], common=0.01), 2.2)
    assert sure.compute == pytest.approx(planning.min_compute(TWO["small"], 2.2).compute, rel=1e-6)
    expected = planning.min_compute(TWO["small"], 2.2 / math.exp(0.01)).compute
    assert moved.compute == pytest.approx(expected, rel=1e-6)
    low, high = wide.interval["compute"]
    assert low < sure.compute / 1.2 and sure.compute * 1.2 < high
    # Which size is best at a budget does not depend on an error that all sizes share.
    still = planning.allocation(forecast_of(TWO, [1.0, 0.0], common=0.01), BUDGET)
    assert np.ptp(still.interval["N"]) < 1e-6 * still.N


def test_an_optimum_at_an_end_of_what_was_tried_is_called_a_bound():
    free = planning.allocation(TWO["small"], BUDGET)
    for limits, word in (((None, free.N / 2), "a lower bound"), ((free.N * 2, None), "an upper")):
        at = planning.allocation(TWO["small"], BUDGET, limits={"N": limits})
        (note,) = (note for note in at.notes if note.code == "optimum-at-limit")
        assert word in note.message and "best N" in note.message
    assert "optimum-at-limit" not in codes(free)
    ratio = free.D / free.N
    for tried, word in (((ratio * 4, ratio * 100), "lower"), ((ratio / 100, ratio / 4), "upper")):
        known = {"N*D": (1e17, 1e22), "D/N": tried}
        beyond = planning.allocation(forecast_of(TWO, [1.0, 0.0], joint_ranges=known), BUDGET)
        (note,) = (note for note in beyond.notes if note.code == "optimum-beyond-tried")
        # At four times fewer or more tokens a parameter the size is half, or twice, the best.
        size = free.N * (0.5 if word == "lower" else 2)
        assert f"{word} bound" in note.message
        assert f"N = {size / 1e9:.3g} B parameters" in note.message


def test_a_plan_knows_of_a_forecast_no_more_than_its_draws(plan):
    draws = forecast_of(TWO, [0.7, 0.3], spread=0.005).draws()
    by_draws = planning.allocation(draws, BUDGET)
    assert by_draws.summary() == plan.summary() and len(by_draws.laws) == 2
    assert [share.weight for share in draws.by_law.values()] == [0.7, 0.3]
    alone = planning.allocation(draws.by_law["large"].draws, BUDGET)
    assert alone.laws is None and alone.N == plan.laws.set_index("law")["N"]["large"]


def test_what_makes_a_forecast_doubtful_makes_its_plans_doubtful():
    code = "prior-width"
    doubted = dataclasses.replace(
        forecast_of(TWO, [0.7, 0.3]), notes=(Note(code, "warning", "do not bet", inherited=True),)
    )
    (note,) = (n for n in planning.allocation(doubted, BUDGET).notes if n.code == "doubtful-fit")
    assert note.message.endswith(f"explain: {code}")


def test_far_from_the_forecasts_points_a_note_says_so(plan):
    assert "away-from-forecast" not in codes(plan)
    far = planning.allocation(forecast_of(TWO, [0.7, 0.3]), BUDGET / 100)
    assert "away-from-forecast" in codes(far)


def test_an_interval_of_the_size_that_trials_found_too_narrow_says_so(plan):
    assert "inner-level" not in codes(plan)
    inner = planning.allocation(forecast_of(TWO, [0.7, 0.3]), BUDGET, level=0.8)
    (note,) = (note for note in inner.notes if note.code == "inner-level")
    assert "the 80% interval of the best size is too narrow" in note.message


def test_a_forecast_in_place_of_a_fit_is_refused_with_advice():
    with pytest.raises(jl.UsageError, match="make the largest run that can be paid for"):
        jl.design.next_runs(forecast_of(TWO, [0.7, 0.3]), {}, {"N": [1e9], "D": [1e10]}, n=1)
    with pytest.raises(jl.UsageError, match="fit is a tuple; it must be a FittedLaw"):
        jl.design.next_runs(TWO["small"], {}, {"N": [1e9], "D": [1e10]}, n=1)


# --- other plans


def test_where_laws_disagree_a_break_even_says_on_which_side_each_is():
    cheaper = {label: (law, own | {"B": own["B"] * 0.8, "E": own["E"] + 0.02})
               for label, (law, own) in TWO.items()}  # fmt: skip
    scratch, continual = forecast_of(TWO, [0.7, 0.3]), forecast_of(cheaper, [0.7, 0.3])
    found = planning.break_even(scratch, continual, N=1e9)
    table = found.laws.set_index("law")
    for label in TWO:
        own = planning.break_even(TWO[label], cheaper[label], N=1e9)
        assert table["D"][label] == pytest.approx(own.D, rel=1e-6)
        assert table["pays"][label] == own.pays == "below"
    assert found.interval["D"][0] == pytest.approx(table["D"].min(), rel=1e-3)
    assert found.interval["D"][1] == pytest.approx(table["D"].max(), rel=1e-3)
    assert "forecasts-compared" in codes(found)
    with_a_fit = planning.break_even(scratch, cheaper["small"], N=1e9)
    assert "forecasts-compared" not in codes(with_a_fit)


def test_the_common_errors_of_forecasts_of_different_runs_do_not_cancel():
    """Drawn in one order they did: intervals of break-evens held half of what they say."""
    law, own = TWO["small"]
    cheaper = {"small": (law, own | {"B": own["B"] * 0.8, "E": own["E"] + 0.02})}
    scratch = forecast_of({"small": (law, own)}, [1.0], common=0.002)
    widths = [
        np.ptp(np.log(planning.break_even(scratch, base, N=1e9).interval["D"]))
        for base in (forecast_of(cheaper, [1.0], common=common) for common in (0.0, 0.002))
    ]
    assert widths[1] == pytest.approx(np.sqrt(2) * widths[0], rel=0.3)


def test_last_bits_of_the_runs_choose_no_other_draws():
    """The seed was made of the runs' digits: an interval moved by 8 % of its width."""
    law, own = TWO["small"]
    near = own | {"E": own["E"] * (1 + 1e-14)}
    one, other = (
        forecast_of({"small": (law, params)}, [1.0], common=0.002) for params in (own, near)
    )
    other = dataclasses.replace(other, runs={"count": 9, "fingerprint": "another"})
    np.testing.assert_allclose(
        one.draws().params["shift"], other.draws().params["shift"], rtol=1e-9
    )


def test_a_mixture_has_its_losses_by_each_law_and_shares_as_good():
    truth, general = jl.simulate.TRUTHS["dcpt"], jl.simulate.TRUTHS["dcpt-general"]
    ranges = {"N": (0.5, 4.0), "D": (0.1, 5.0), "r": (0.0, 1.0)}
    options = {"at": {"N": 1.8, "D": 2.0}, "start": 2.8}
    domains = {"one": ("dcpt", truth), "other": ("dcpt", truth | {"C": truth["C"] * 1.3})}
    domain = forecast_of(domains, [0.6, 0.4])
    domain = dataclasses.replace(domain, fits={
        label: dataclasses.replace(fit, ranges=ranges) for label, fit in domain.fits.items()
    })  # fmt: skip
    found = planning.optimal_mixture(("dcpt", general), domain, **options)
    exact = planning.optimal_mixture(("dcpt", general), ("dcpt", truth), **options)
    assert found.share == pytest.approx(exact.share, rel=1e-6)
    table = found.laws.set_index("law")
    assert table["domain_loss"]["one"] == pytest.approx(exact.domain_loss, rel=1e-6)
    assert table["regret"]["one"] == pytest.approx(0, abs=1e-9)
    assert table["general_loss_there"]["one"] == pytest.approx(found.limit, rel=1e-6)
    low, high = found.flat["share"]
    assert low < found.share == high
    at_low = float(domain.draws().fit.predict(N=1.8, D=2.0, r=low))
    assert at_low == pytest.approx(found.domain_loss * math.exp(0.003), rel=1e-4)


@pytest.mark.full
def test_weights_of_many_corpora_go_over_the_laws_too():
    law = jl.laws.mixing(["web", "code"])
    steep, even = ({"c": 1.0, "t[web]": 0.0, "t[code]": slope} for slope in (-1.0, 1.0))
    made = forecast_of({"steep": (law, steep), "even": (law, even)}, [0.6, 0.4])
    ranges = {"web": (0.0, 1.0), "code": (0.0, 1.0)}
    fits = {name: dataclasses.replace(fit, ranges=ranges) for name, fit in made.fits.items()}
    found = planning.optimal_weights({"loss": dataclasses.replace(made, fits=fits)})
    code = found.table.set_index("share").loc["code"]
    assert (code["weight_low"], code["weight_high"]) == pytest.approx((0.0, 1.0), abs=1e-6)


def test_the_laws_of_a_plan_are_in_its_record(plan):
    record = plan.to_dict()
    assert {row["law"] for row in record["laws"]} == set(TWO) and set(record["flat"]) == {"N", "D"}
    assert planning.allocation(TWO["small"], BUDGET).to_dict()["laws"] is None


@pytest.mark.full
def test_any_inputs_are_searched_by_every_law():
    made = forecast_of(TWO, [0.7, 0.3])
    over, budget = {"N": None, "D": None}, planning.Budget(BUDGET)
    found, plan = (
        planning.minimise(made, over, subject_to=[budget]),
        planning.allocation(made, BUDGET),
    )
    assert found.best["N"] == pytest.approx(plan.N, rel=1e-6)
    columns = ["weight", "N", "D", "loss", "loss_there", "regret"]
    np.testing.assert_allclose(found.laws[columns], plan.laws[columns], rtol=1e-6, atol=1e-12)
    limit = planning.AtMost(made, 2.2)
    least = planning.minimise(planning.Compute(), over, subject_to=[limit])
    alone = planning.min_compute(made, 2.2)
    assert least.compute == pytest.approx(alone.compute, rel=1e-9)
    np.testing.assert_allclose(
        least.laws[["N", "compute"]], alone.laws[["N", "compute"]], rtol=1e-6
    )
    value = planning.solve(made, for_="D", loss=2.2, at={"N": 7e9})
    by_loss = planning.tokens_or_size_for(made, N=7e9, loss=2.2)
    np.testing.assert_allclose(value.laws["D"], by_loss.laws["D"], rtol=1e-9)


# --- forecasts of runs


@pytest.fixture(scope="module")
def found():
    runs = jl.simulate.experiment("chinchilla", noise=0.005).table
    at = {"N": [1e10, 1e11], "D": [4e11, 4e12]}
    return jl.forecast(["chinchilla", "kaplan"], runs, at, cutoffs=3, n_resamples=8, **SEARCH)


@pytest.mark.full
def test_the_true_optimum_is_inside_and_a_saved_forecast_plans_the_same(
    found, tmp_path, capsys, monkeypatch
):
    budget = 6 * 1e10 * 4e11
    answer = planning.allocation(found, budget)
    truth = planning.allocation(("chinchilla", CHINCHILLA), budget)
    low, high = answer.interval["N"]
    assert low < truth.N < high and answer.flat["N"][0] < truth.N < answer.flat["N"][1]
    assert answer.laws["law"].tolist() == ["chinchilla", "kaplan"]
    found.save(tmp_path / "forecast.json")
    again = planning.allocation(jl.load(tmp_path / "forecast.json"), budget)
    assert again.summary() == answer.summary()
    command = ["jaxlaw", "plan", "allocation", str(tmp_path / "forecast.json")]
    monkeypatch.setattr(sys, "argv", [*command, "--compute", str(budget)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed == " ".join(answer.summary().split())


def test_draws_are_of_the_laws_as_they_weigh(found):
    draws = found.draws()
    for label, weight in found.weights.items():
        assert draws.params[weight_of(label)].mean() == pytest.approx(weight.mean(), abs=0.01)
    alone = found.draws("kaplan")
    fit = found.fits["kaplan"]
    shift = math.exp(found.error_model["shift"].mean())
    np.testing.assert_allclose(
        alone.fit.predict(N=1e10, D=4e11), fit.predict(N=1e10, D=4e11) * shift
    )
    with pytest.raises(jl.UsageError, match="no law 'kaplan-e'"):
        found.draws("kaplan-e")


@pytest.mark.full
@pytest.mark.skipif("JAXLAW_DATA" not in os.environ, reason="JAXLAW_DATA is not set")
def test_laws_of_farseer_disagree_on_the_best_size_and_the_plan_says_by_how_much():
    table = pd.read_csv(f"{os.environ['JAXLAW_DATA']}/farseer.csv")
    compute = 6 * table["N"] * table["D"]
    # As many as there are of the simulated runs above: chinchilla is not compiled again.
    runs = table[compute <= 1e21].sample(243, random_state=0)
    at = {"N": 1e11, "D": 1e24 / 6e11}
    forecast = jl.forecast(["chinchilla", "skaling"], runs, at, cutoffs=3, n_resamples=8, **SEARCH)
    answer = planning.allocation(forecast, 1e24)
    by_law = answer.laws.set_index("law")
    own = {label: planning.allocation(fit, 1e24).N for label, fit in forecast.fits.items()}
    assert by_law["N"].to_dict() == pytest.approx(own, rel=1e-5)
    assert by_law["weight"]["skaling"] > by_law["weight"]["chinchilla"]
    assert (by_law["regret"] >= 0).all() and answer.interval["N"][0] < answer.N
