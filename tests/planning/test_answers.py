"""What plans take and give, whatever the question."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.stats

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.notes import Note
from jaxlaw.planning._frame import missing_draws_notes, source_notes
from jaxlaw.uncertainty import Draws, as_draws, interval_columns, intervals
from tests.conftest import numbers
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, SCRATCH, TRUTHS, drawn, scattered


def test_a_fit_a_pair_and_a_bootstrap_give_the_same_answer():
    boot = scattered()
    plans = [
        planning.allocation(given, 1e21)
        for given in (boot.fit, ("chinchilla", boot.fit.params), boot)
    ]
    assert numbers(plans[0]) == numbers(plans[1]) == numbers(plans[2])
    assert plans[0].interval == {} and set(plans[2].interval) == {"N", "D", "loss"}
    assert plans[2].draws["N"].shape == (40,)


def test_row_k_of_the_draws_is_the_plan_of_draw_k():
    boot = scattered()
    plan = planning.allocation(boot, 1e21)
    for k in (0, 17):
        alone = {name: values[k] for name, values in boot.params.items()}
        one = planning.allocation(("chinchilla", alone), 1e21)
        assert plan.draws["N"][k] == pytest.approx(one.N, rel=1e-12)
        assert plan.draws["loss"][k] == pytest.approx(one.loss, rel=1e-12)


def test_units_are_those_of_the_fitted_runs_or_the_laws_own():
    own, single = DOMAIN, drawn(DOMAIN).fit
    one, two = (planning.allocation(given, 5e19, at={"r": 0.5}) for given in (own, single))
    assert two.N == pytest.approx(one.N * 1e9, rel=1e-12)
    assert two.D == pytest.approx(one.D * 1e9, rel=1e-12)
    assert two.loss == pytest.approx(one.loss, rel=1e-12)
    assert 6 * two.N * two.D == pytest.approx(5e19, rel=1e-12)


def test_notes_say_where_an_answer_is_an_extrapolation_and_what_the_fit_doubts():
    fit = scattered().fit
    assert not planning.allocation(fit, 1e20).notes
    (note,) = (n for n in planning.allocation(fit, 1e25).notes if n.code == "extrapolation")
    assert "N = " in note.message and "D = " in note.message
    doubtful = dataclasses.replace(
        fit, notes=(Note("unidentifiable", "warning", "E and A trade off", inherited=True),)
    )
    (note,) = planning.allocation(doubtful, 1e20).notes
    assert note.code == "doubtful-fit"
    assert note.message == "the fit has warnings, which its own notes explain: unidentifiable"


@pytest.mark.full
def test_resampled_runs_give_an_interval_around_the_truth():
    runs = jl.read_runs(simulate.experiment("chinchilla").table)
    plan = planning.allocation(jl.bootstrap("chinchilla", runs, 200), 1e21, level=0.95)
    truth = planning.allocation(("chinchilla", TRUTHS["chinchilla"]), 1e21)
    for name in ("N", "D", "loss"):
        low, high = plan.interval[name]
        assert low < getattr(truth, name) < high and high / low < 1.2


def test_failed_draws_are_left_out_and_counted():
    values = np.array([1.0, *np.arange(100.0), np.nan, np.nan])
    assert intervals({"N": values}, 0.95)["N"] == pytest.approx(
        np.quantile(np.arange(100.0), [0.025, 0.975])
    )
    (note,) = missing_draws_notes(values, "optimum")
    assert "2.0% of 102 draws" in note.message and note.severity == "info"
    (note,) = missing_draws_notes(np.array([1.0, 1.0, np.nan]), "optimum")
    assert note.severity == "warning"
    assert intervals({"N": np.array([1.0, np.nan])}, 0.95) == {}
    assert missing_draws_notes(np.ones(9), "") == []


def test_infinity_is_an_answer_of_an_interval():
    values = np.array([np.inf, *np.arange(90.0), *[np.inf] * 10])
    low, high = intervals({"D": values}, 0.95)["D"]
    assert 0 <= low < 5 and high == np.inf


def test_few_degrees_of_freedom_widen_every_interval():
    """Percentiles at the level 2Φ(t) − 1, as the bootstrap's own intervals take them."""
    wide = dataclasses.replace(scattered(), degrees=3.0)
    level = 2 * scipy.stats.norm.cdf(scipy.stats.t.ppf(0.95, 3)) - 1
    plans = [planning.allocation(wide, 1e21, level=0.9)]
    plans.append(planning.allocation(scattered(), 1e21, level=level))
    assert plans[0].interval["N"] == pytest.approx(plans[1].interval["N"], rel=1e-12)
    tables = [planning.frontier(wide, [1e21], level=0.9).table]
    assert tables[0]["N_low"][0] == pytest.approx(plans[0].interval["N"][0], rel=1e-12)
    again = Draws.from_dict(json.loads(json.dumps(wide.to_dict())))
    assert again.degrees == 3.0


@pytest.mark.parametrize(
    "given, says",
    [
        (3.0, "a Fit, (law, params), a bootstrap, a covariance or a forecast"),
        (("chinchilla", {"E": 1.0}), "E, A, B, alpha, beta"),
        (("chinchila", {}), "chinchilla"),
    ],
)
def test_what_is_no_fit_is_refused(given, says):
    with pytest.raises(jl.UsageError) as error:
        planning.allocation(given, 1e21)
    assert says in str(error.value)


def test_bootstraps_of_different_length_are_refused():
    with pytest.raises(jl.UsageError, match="30 and 40 draws"):
        as_draws(drawn(SCRATCH, 30), drawn(CONTINUAL, 40))


def test_what_people_read_is_the_same_in_every_unit_of_the_runs():
    """The number is in the unit of the runs; what is read of it is what it means."""
    fit = scattered().fit
    in_billions = jl.FittedLaw(
        fit.law, fit.params, units={"N": 1e9, "D": 1e12}, source="runs",
        ranges={"N": (0.01, 10.0), "D": (1e-4, 0.1)}, joint_ranges={"N*D": (1e-5, 0.5)},
    )  # fmt: skip
    one_by_one = dataclasses.replace(
        in_billions, units={}, ranges={"N": (1e7, 1e10), "D": (1e8, 1e11)},
        joint_ranges={"N*D": (1e16, 5e20)},
    )  # fmt: skip
    plans = [planning.allocation(each, 1e24) for each in (in_billions, one_by_one)]
    assert plans[1].N == pytest.approx(1e9 * plans[0].N)
    assert plans[0].headline == plans[1].headline and plans[0].lines() == plans[1].lines()
    assert "B parameters and" in plans[0].headline and "T tokens" in plans[0].headline
    assert plans[0].headline.endswith("330 × beyond the largest run")
    assert plans[0].unit_of("N") == ("parameters", 1e9) and plans[1].unit_of("N")[1] == 1.0
    tables = [planning.frontier(each, [1e20, 1e22]) for each in (in_billions, one_by_one)]
    assert tables[0].summary() == tables[1].summary()


@pytest.mark.parametrize(
    "column, unit",
    [("val_loss", "nats"), ("bpb_c4", "bits per byte"), ("perplexity", "")],
)
def test_a_loss_has_the_unit_of_the_runs_column(column, unit):
    fit = dataclasses.replace(scattered().fit, columns={"loss": column})
    plan = planning.allocation(fit, 1e21)
    assert plan.unit_of("loss") == (unit, 1.0) and fit.quantities["E"].unit == unit


def test_a_published_law_says_what_is_not_known_of_it():
    (known,) = as_draws(jl.published()["zheng-2024-cpt"])
    notes = {note.code: note.message for note in source_notes(known, N=1e9, D=1e10)}
    assert "no fitted range of" in notes["range-unknown"] and "extrapolation" not in notes
    (badly,) = as_draws(jl.published()["hoffmann-2022"])
    assert "badly-converged" in source_notes(badly, N=1e9, D=1e10)[-1].message


def test_a_row_whose_draws_have_no_answer_has_no_ends():
    values = np.array([[1.0, 2.0], [0.9, np.nan], [1.1, np.nan]])
    columns = interval_columns("loss", values, 0.95)
    assert columns["loss"].tolist() == [1.0, 2.0]
    assert columns["loss_low"][0] == pytest.approx(0.905)
    assert np.isnan([columns["loss_low"][1], columns["loss_high"][1]]).all()
    assert list(interval_columns("loss", values[:1], 0.95)) == ["loss"]


IN_BILLIONS = jl.FittedLaw(
    "chinchilla", TRUTHS["chinchilla"], units={"N": 1e9, "D": 1e9}, source="runs",
    ranges={"N": (0.01, 10.0), "D": (0.1, 100.0)}, joint_ranges={"N*D": (1e-3, 500.0)},
)  # fmt: skip
SHARES = jl.FittedLaw(
    "dcpt", TRUTHS["dcpt"], units={"N": 1.0, "D": 1.0}, source="runs",
    ranges={"N": (0.1, 10.0), "D": (0.1, 100.0), "r": (0.1, 0.9)},
)  # fmt: skip


@pytest.mark.parametrize(
    "plan, text, number, mistaken",
    [
        (lambda x: planning.allocation(IN_BILLIONS, 1e25, served_tokens=x), "2T", 2000.0, 2e12),
        (lambda x: planning.allocation(IN_BILLIONS, 1e22, limits={"N": (None, x)}), "7B", 7.0, 7e9),
        (lambda x: planning.solve(IN_BILLIONS, "D", 2.1, at={"N": x}), "7B", 7.0, 7e9),
        (
            lambda x: planning.optimal_mixture_data_limited(SHARES, x, at={"N": "1.8B"}),
            "100M", 0.1, 1e8,
        ),
        (
            lambda x: planning.critical_ratio(SHARES, start=2.9, at={"N": x, "D": "2B"}),
            "1.8B", 1.8, 1.8e9,
        ),
    ],
)  # fmt: skip
def test_a_quantity_says_its_unit_or_is_in_that_of_the_runs(plan, text, number, mistaken):
    by_text, by_number = plan(text), plan(number)
    for name, value in numbers(by_number).items():
        assert numbers(by_text)[name] == pytest.approx(value, rel=1e-9, nan_ok=True)
    assert by_text.headline == by_number.headline
    with pytest.raises(jl.UsageError, match=r"units of 1e9; for \S+ \S \w+ write \w+="):
        plan(mistaken)


def test_an_answer_far_beyond_all_plausible_runs_is_an_answer():
    """What was computed was meant so, however large: only what is given is questioned."""
    plan = planning.allocation(IN_BILLIONS, 1e33)
    assert plan.D * 1e9 > 1e17 and "beyond the largest run" in plan.headline
