"""Plans from what :func:`jaxlaw.bootstrap` gave, from the runs to the answer."""

import json
from dataclasses import replace

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning, schedules, simulate
from jaxlaw.planning import ContinualPretraining, Pretraining
from jaxlaw.uncertainty import Draws, as_draws
from tests.conftest import numbers
from tests.fixtures.drawn_laws import CONTINUAL, SCRATCH, TRUTHS

TABLE = simulate.experiment("chinchilla").table
SIZE = 300  # resamples; programs of this shape serve other tests too


@pytest.fixture(scope="module")
def drawn(chinchilla_fit) -> jl.Bootstrap:
    return jl.bootstrap(chinchilla_fit, TABLE, SIZE, progress=False)


PLANS = {
    "allocation": lambda fit: planning.allocation(fit, 1e21),
    "searched": lambda fit: planning.allocation(fit, 1e21, limits={"N": (1e8, None)}),
    "allocation_law": planning.allocation_law,
    "min_compute": lambda fit: planning.min_compute(fit, 2.3),
    "solve": lambda fit: planning.solve(fit, "D", 2.5, at={"N": 1e9}),
    "transferred": lambda fit: planning.data_transferred(fit, CONTINUAL, N=1e9, D=1e9),
    "break_even": lambda fit: planning.break_even(SCRATCH, fit, N=1e9),
}


def checked(name, ours, draws, of_fit, of_one):
    """The plan of a bootstrap: the fit's own numbers, and every draw's plan as a draw."""
    for quantity, value in numbers(of_fit).items():
        assert getattr(ours, quantity) == pytest.approx(value, rel=1e-9, nan_ok=True), name
    assert ours.interval, name
    for quantity, (low, high) in ours.interval.items():
        assert low <= getattr(ours, quantity) <= high, (name, quantity)
        assert ours.draws[quantity].shape == (len(draws),)
        alone = getattr(of_one, quantity)
        assert ours.draws[quantity][7] == pytest.approx(alone, rel=1e-6), (name, quantity)


@pytest.mark.full
@pytest.mark.parametrize("name", PLANS)
def test_plans_of_size_and_data(drawn, name):
    one = ("chinchilla", {key: column[7] for key, column in drawn.params.items()})
    checked(name, PLANS[name](drawn), drawn, PLANS[name](drawn.fit), PLANS[name](one))


def test_tables_have_the_ends_of_intervals(drawn):
    table = planning.frontier(drawn, [1e20, 1e21]).table
    assert (table["N_low"] < table["N"]).all() and (table["N"] < table["N_high"]).all()
    table = planning.data_transferred(drawn, CONTINUAL, N=1e9, D=[1e9, 1e10]).table
    assert (table["saved_low"] < table["saved_high"]).all()


@pytest.mark.full
def test_what_the_bootstrap_doubts_is_in_the_answer(drawn):
    assert not planning.allocation(drawn, 1e21).notes
    (note,) = planning.allocation(drawn, 1e27).notes
    assert note.code == "extrapolation"
    walled = jl.bootstrap("chinchilla", TABLE, SIZE, bounds={"E": (None, 1.66)}, progress=False)
    (note,) = planning.allocation(walled, 1e21).notes
    assert note.code == "doubtful-fit" and note.severity == "warning"
    said, _, named = note.message.partition(": ")
    assert said == "the fit has warnings, which its own notes explain"
    assert "at-bound" in named.split(", ")


def test_saved_draws_stand_in_place_of_a_fit(drawn, tmp_path, command):
    TABLE.to_csv("runs.csv", index=False)
    drawn.fit.save("fit.json")
    asked = ["--n-resamples", SIZE, "--quiet", "--out", "boot.json"]
    assert command("bootstrap", "fit.json", "runs.csv", *asked)[0] == 0
    kept, ours = jl.load("boot.json").draws(), planning.allocation(drawn, 1e21)
    assert kept.notes == drawn.notes and kept.fit.params == drawn.fit.params
    for name, column in drawn.params.items():
        assert kept.params[name].tolist() == column.tolist()
    _, printed, _ = command("plan", "allocation", "boot.json", "--compute", "1e21", "--json")
    N = json.loads(printed)["quantities"]["N"]
    assert (N["low"], N["high"]) == pytest.approx(ours.interval["N"])
    (tmp_path / "half.json").write_text('{"draws": {}}')
    with pytest.raises(jl.DataError, match="half.json is not a jaxlaw draws"):
        Draws.load("half.json")


AT = {"N": 1.8, "D": 2.0}
MIXTURES = {
    "mixture": lambda g, d: planning.optimal_mixture(g, d, start=2.8, at=AT),
    "critical": lambda g, d: planning.critical_ratio(g, start=2.86, at=AT),
    "limited": lambda g, d: planning.optimal_mixture_data_limited(d, 0.15, at={"N": 1.8}),
    "least": lambda g, d: planning.min_compute(d, 1.8, at={"r": "best"}, corpus_tokens=0.1),
}


@pytest.mark.full
def test_plans_of_mixtures():
    general, domain = (
        jl.bootstrap("dcpt", simulate.experiment(name).table, 12, n_starts=16, n_local=2)
        for name in ("dcpt-general", "dcpt")
    )
    ones = [("dcpt", {key: v[7] for key, v in b.params.items()}) for b in (general, domain)]
    said = "few-resamples: 12 resamples are too few for a 90% interval: at least 19"
    assert said in " ".join(str(note) for note in general.notes)
    for name, plan in MIXTURES.items():
        checked(name, plan(general, domain), domain, plan(general.fit, domain.fit), plan(*ones))


@pytest.mark.full
def test_plans_of_a_continual_run():
    """One law is resampled; the other, given as it is, stays as it is."""
    law = "cpt-curve-replay-pt"
    table = simulate.experiment(law).table.iloc[::4]
    pt = jl.bootstrap(law, table, 12, n_starts=16, n_local=2)
    cpt = ("cpt-curve-replay-cpt", TRUTHS["cpt-curve-replay-cpt"])
    run = ContinualPretraining(Pretraining(40_000, 2e-4), 10_000, 1e-4, replay=0.2, warmup=500)
    row = planning.final_losses(pt, cpt, run).table.iloc[0]
    assert row["loss_pt_low"] < row["loss_pt"] < row["loss_pt_high"]
    assert row["loss_cpt_low"] == row["loss_cpt"]
    best = planning.optimal_training(pt, cpt, run, 0.6, {"replay": (0, 1)})
    low, high = best.interval["replay"]
    assert low < best.replay < high and best.draws["replay"].shape == (12,)
    curve = planning.optimal_training(pt, cpt, run, (0.5, 0.6), {"replay": (0, 1)}).table
    assert curve["replay"][1] == pytest.approx(best.replay, abs=1e-9)
    assert (curve["replay_low"] < curve["replay_high"]).all()
    back = planning.turning_length(pt, replace(run, replay=0.9))
    assert len(back.draws["steps"]) == 12
    options = {"after": schedules.wsd(2e-4, 4_000), "at": [{"r": 0.5}] * 2}
    found = planning.optimal_schedule([pt, cpt], 400, 2e-4, weights=(0.5, 0.5), **options)
    low, high = found.interval["loss"]
    assert low < found.loss < high and "90%: " in found.summary()


def test_a_plan_of_a_fit_has_the_interval_of_its_covariance(chinchilla_fit):
    alone = planning.allocation(chinchilla_fit, 1e21)
    drawn = planning.allocation(jl.covariance(chinchilla_fit, TABLE), 1e21)
    for name in ("N", "D", "loss"):
        np.testing.assert_allclose(alone.interval[name], drawn.interval[name], rtol=0.02)
    assert not planning.allocation((chinchilla_fit.law, chinchilla_fit.params), 1e21).interval
    assert not planning.allocation(jl.published()["besiroglu-2024"], 1e21).interval


def test_values_from_a_base_are_drawn_beside_those_that_follow_them():
    table = simulate.experiment("cpt-chinchilla").table
    base = jl.fit("chinchilla", simulate.experiment("from-scratch").table)
    fit = jl.fit("cpt-chinchilla", table, base=base)
    alone = planning.allocation(fit, 1e22)
    drawn = planning.allocation(jl.covariance(fit, table), 1e22)
    for name in ("N", "D"):
        np.testing.assert_allclose(alone.interval[name], drawn.interval[name], rtol=0.05)


def test_a_fit_that_is_given_twice_has_one_set_of_draws(chinchilla_fit):
    other = replace(chinchilla_fit)
    one, again, apart = as_draws(chinchilla_fit, chinchilla_fit, other)
    assert (one.params["E"] == again.params["E"]).all()
    assert abs(np.corrcoef(one.params["E"], apart.params["E"])[0, 1]) < 0.15
    (beside,) = as_draws(chinchilla_fit, one.draws())[:1]
    assert beside.rows == one.rows


def test_a_plan_of_a_loose_fit_says_so_first():
    few = jl.fit("chinchilla", TABLE.sample(9, random_state=0))
    plan = planning.allocation(few, 1e22)
    assert "loose fit" in plan.headline and "jl.forecast(runs" in plan.next_step
    assert plan.interval["N"][1] > 10 * plan.interval["N"][0]
    open_ = replace(few, standard_errors=jl.fitting.StandardErrors(reason="2 rows alone decide"))
    plan = planning.allocation(open_, 1e22)
    assert not plan.interval and "loose fit" in plan.headline
    assert "2 rows alone decide" in next(n.message for n in plan.notes if n.code == "loose-fit")
