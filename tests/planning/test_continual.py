"""Plans of a continual run: areas in closed form, losses, the way back, optima, other sets."""

import dataclasses
import itertools
import math

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import DataError, UsageError, simulate
from jaxlaw.data._row_areas import area_options
from jaxlaw.papers import out_of_domain
from jaxlaw.planning import (
    ContinualPretraining,
    Pretraining,
    continual,
    final_losses,
    optimal_training,
    turning_length,
)
from jaxlaw.planning.continual import _compiled_areas, layout_of
from jaxlaw.uncertainty import Draws

TRUTHS = simulate.TRUTHS
PT = ("cpt-curve-replay-pt", TRUTHS["cpt-curve-replay-pt"])
CPT = ("cpt-curve-replay-cpt", TRUTHS["cpt-curve-replay-cpt"])
RUN = ContinualPretraining(Pretraining(40_000, 2e-4), 10_000, 1e-4, replay=0.2, warmup=500)
LEVEL = ContinualPretraining(Pretraining(40_000, 2e-4), 10_000, 2e-4, 1.0, 0.5, shape="constant")


def as_fit(given, areas=None, ranges=(0.0, 100.0)):
    """A fit without a search: the truth itself."""
    law = jl.laws.get(given[0])
    return jl.Fit(
        law=law, params=dict(given[1]), objective=0.0, metrics={}, status="converged",
        agreement=1.0, n_starts=1, n_solved=1, runner_up=None, notes=(),
        units=dict.fromkeys(law.input_names, 1.0), ranges=dict.fromkeys(law.input_names, ranges),
        n_observations=1, n_dropped=0, delta=1e-3, residuals="log", asymmetry=1.0,
        area_options=areas,
    )  # fmt: skip


def bootstrap(given, size, spread=0.01, seed=0):
    normal = np.random.default_rng(seed).standard_normal((len(given[1]), size))
    draws = zip(given[1].items(), normal, strict=True)
    return Draws(as_fit(given), {k: v * np.exp(spread * z) for (k, v), z in draws})


def predicted(given, schedule, share, **more):
    """Start and end of a loss, by the steps of the schedule."""
    counted = {"decay": 0.999, **more}
    at = [schedule.boundary, len(schedule)]
    table = as_fit(given).predict_curve(schedule, at, area_options=counted, r=share)
    return table["loss"].to_numpy()


# Areas


@pytest.mark.full
@pytest.mark.parametrize("warmup", [0, 40])
@pytest.mark.parametrize("shape", ["wsd", "cosine", "linear", "constant"])
def test_areas_are_those_of_the_steps(shape, warmup):
    before = Pretraining(400, 2e-3, shape, warmup=warmup)
    potential = 1.0 if shape == "constant" else 0.3
    run = ContinualPretraining(
        before, 330, 1e-3, potential, 0.0, shape, 0.1, 0.2, 30 if warmup else 0
    )
    given = dataclasses.replace(run, pretraining=jl.Schedule(run.schedule().rates[:400], 0.0))
    for decay, carry, count in [(0.999, False, False), (0.9, True, True), (0.99, True, False)]:
        options = area_options(decay, carry, count)
        for each in (run, given):
            schedule = each.schedule()
            expected = jl.data.phase_areas(
                schedule, decay, at=[len(schedule)], carry_momentum=carry,
                count_warmup=(count, True),
            )  # fmt: skip
            layout, numbers = layout_of(each, options)
            with jax.enable_x64(True):
                at = {name: np.asarray(value) for name, value in each.settings.items()}
                found = _compiled_areas(layout, numbers, at)
            expected = [one[0] for one in expected]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


# Losses at the end


def test_final_losses_are_those_of_the_curves():
    found = final_losses(PT, CPT, RUN, loss_potential=[0, 0.5], steps=[5_000, 20_000], replay=0.3)
    assert len(found.table) == 4
    for row in found.table.itertuples():
        schedule = RUN.schedule(loss_potential=row.loss_potential, steps=row.steps)
        for given, share, end, change in (
            (PT, 0.3, row.loss_pt, row.change_pt),
            (CPT, 0.7, row.loss_cpt, row.change_cpt),
        ):
            start, last = predicted(given, schedule, share)
            assert end == pytest.approx(last, rel=1e-12)
            assert change == pytest.approx(last - start, rel=1e-9)
    assert "loss_potential" in found.summary() and found.notes == ()


@pytest.mark.full
@pytest.mark.parametrize("peak", [None, 2e-5])
def test_bases_that_were_not_annealed_learn_the_new_corpus_best(peak):
    """Wang 2025, finding 3 and figure 5, with (10 % of the peak) and without a re-warm-up."""
    run = dataclasses.replace(RUN, peak=peak, warmup=0, shape="linear")
    losses = final_losses(PT, CPT, run, loss_potential=np.linspace(0, 1, 11)).table["loss_cpt"]
    assert (np.diff(losses) < 0).all()


def test_a_higher_peak_learns_more_and_forgets_more():
    """Wang 2025, figure 7 a and b."""
    table = final_losses(PT, CPT, RUN, peak=np.linspace(2e-5, 2e-4, 10)).table
    assert (np.diff(table["loss_cpt"]) < 0).all() and (np.diff(table["loss_pt"]) > 0).all()


def test_draws_give_intervals():
    pt, cpt = bootstrap(PT, 40), bootstrap(CPT, 40, seed=1)
    row = final_losses(pt, cpt, RUN).table.iloc[0]
    each = [
        predicted((PT[0], {k: v[i] for k, v in pt.params.items()}), RUN.schedule(), 0.2)[1]
        for i in range(40)
    ]
    ends = np.quantile(each, [0.05, 0.95])
    assert (row["loss_pt_low"], row["loss_pt_high"]) == pytest.approx(tuple(ends), rel=1e-9)
    assert row["loss_cpt_low"] < row["loss_cpt"] < row["loss_cpt_high"]
    with pytest.raises(UsageError, match="39 and 40 draws"):
        final_losses(pt, bootstrap(CPT, 39), RUN)


# The best settings

OVER = {"peak": (1e-5, 1e-3), "replay": (0.0, 1.0)}


def least_by_brute_force(weight, axes):
    table = final_losses(PT, CPT, RUN, **axes).table
    whole = weight * table["loss_pt"] + (1 - weight) * table["loss_cpt"]
    return whole.min(), table.loc[whole.idxmin()]


@pytest.mark.full
@pytest.mark.parametrize("weight", [0.0, 0.55, 0.9])
def test_nothing_on_a_fine_grid_is_better(weight):
    best = optimal_training(PT, CPT, RUN, weight, OVER)
    axes = {"peak": np.geomspace(1e-5, 1e-3, 401), "replay": np.linspace(0, 1, 801)}
    least, row = least_by_brute_force(weight, axes)
    assert best.objective <= least + 1e-12 and best.objective == pytest.approx(least, abs=1e-6)
    assert best.replay == pytest.approx(row["replay"], abs=2e-3)
    schedule = RUN.schedule(peak=best.peak)
    ends = [predicted(PT, schedule, best.replay), predicted(CPT, schedule, 1 - best.replay)]
    assert best.loss_pt == pytest.approx(ends[0][1]) and best.loss_cpt == pytest.approx(ends[1][1])
    assert best.change_pt == pytest.approx(ends[0][1] - ends[0][0], rel=1e-6)
    assert best.objective == pytest.approx(weight * best.loss_pt + (1 - weight) * best.loss_cpt)


@pytest.mark.full
def test_changes_are_balanced_as_eq_5_prints_them():
    """Bases of other loss potentials begin elsewhere: losses and changes choose other ones."""
    short = dataclasses.replace(RUN, steps=1_000, peak=2e-5)
    over, weight = {"loss_potential": (0.0, 1.0), "replay": (0.0, 1.0)}, 0.6
    axes = {"loss_potential": np.linspace(0, 1, 401), "replay": np.linspace(0, 1, 401)}
    table = final_losses(PT, CPT, short, **axes).table
    whole = weight * table["change_pt"] + (1 - weight) * table["change_cpt"]
    row = table.loc[whole.idxmin()]
    best = optimal_training(PT, CPT, short, weight, over, minimise="changes")
    assert best.objective <= whole.min() + 1e-12
    assert best.objective == pytest.approx(whole.min(), abs=1e-5)
    assert best.loss_potential == pytest.approx(row["loss_potential"], abs=5e-3)
    assert best.objective == pytest.approx(
        weight * best.change_pt + (1 - weight) * best.change_cpt, rel=1e-12
    )
    losses = optimal_training(PT, CPT, short, weight, over)
    assert (best.minimise, losses.minimise) == ("changes", "losses")
    assert (best.loss_potential, losses.loss_potential) == (1.0, 0.0)
    assert losses.change_pt != pytest.approx(best.change_pt, abs=1e-3)
    # Of one base the two differ by a constant, and so have one optimum.
    ours = [optimal_training(PT, CPT, RUN, (0.3, 0.55), OVER, minimise=one).table
            for one in ("losses", "changes")]  # fmt: skip
    for name in ("peak", "replay", "loss_pt"):
        np.testing.assert_allclose(ours[0][name], ours[1][name], rtol=1e-6)


@pytest.mark.full
def test_the_best_number_of_steps_is_found_inside_its_range():
    """Annealing gains first, a shift that sets in slowly lifts later."""
    slow = (PT[0], {**PT[1], "E": 0.3, "C2": 0.5})
    run = dataclasses.replace(RUN, peak=None, warmup=0, shape="linear", loss_potential=0.5)
    best = optimal_training(slow, CPT, run, 0.9, {"steps": (10, 1e6)})
    steps = np.unique(np.geomspace(10, 1e6, 4000).round())
    table = final_losses(slow, CPT, run, steps=steps).table
    whole = 0.9 * table["loss_pt"] + 0.1 * table["loss_cpt"]
    assert best.objective == pytest.approx(whole.min(), abs=1e-7) and best.objective <= whole.min()
    assert best.binding.startswith("none")
    assert best.steps == pytest.approx(steps[whole.idxmin()], rel=5e-3) and best.steps % 1 == 0


@pytest.mark.full
def test_the_curve_of_optima_is_that_of_single_ones():
    weights = (0.0, 0.3, 0.55, 0.9, 1.0)
    table = optimal_training(PT, CPT, RUN, weights, OVER).table
    assert (np.diff(table["replay"]) >= 0).all()  # Wang 2025, figure 8 c
    for k, weight in ((2, 0.55), (3, 0.9)):
        single = optimal_training(PT, CPT, RUN, weight, OVER)
        assert table["replay"][k] == pytest.approx(single.replay, abs=1e-9)
        assert table["objective"][k] == pytest.approx(single.objective, abs=1e-12)


@pytest.mark.full
def test_draws_are_optima_of_their_own():
    pt, cpt = bootstrap(PT, 5), bootstrap(CPT, 5, seed=1)
    best = optimal_training(pt, cpt, RUN, 0.55, OVER)
    low, high = best.interval["replay"]
    assert low < best.replay < high and len(best.draws["objective"]) == 5
    own = [(g[0], {k: v[3] for k, v in r.params.items()}) for g, r in ((PT, pt), (CPT, cpt))]
    alone = optimal_training(*own, RUN, 0.55, OVER)
    assert best.draws["replay"][3] == pytest.approx(alone.replay, abs=1e-7)


def test_other_numbers_compile_nothing():
    optimal_training(PT, CPT, RUN, 0.55, OVER)
    programs = continual._optima._cache_size()
    other = ContinualPretraining(
        Pretraining(10_000, 3e-4, decay=0.3), 700, 2e-4, 0.5, 0.1, warmup=50
    )
    optimal_training(CPT_LIKE_PT, CPT, other, 0.2, {"peak": (1e-6, 1e-4), "replay": (0.1, 0.9)})
    assert continual._optima._cache_size() == programs


CPT_LIKE_PT = (PT[0], {**PT[1], "B": 0.4})


def test_what_lies_outside_the_fitted_ranges_is_noted():
    fits = [as_fit(one, area_options(), (0.0, 2.0)) for one in (PT, CPT)]
    best = optimal_training(*fits, RUN, 0.55, OVER)
    notes = [note for note in best.notes if note.code == "extrapolation"]
    assert len(notes) == 1 and "pt and cpt losses: S1_pt = 7.2 (fitted 0 to 2)" in notes[0].message


# The way back


def test_turning_length_is_the_step_at_which_the_curve_is_back():
    """Wang 2025, figure 7 c: a base that was trained little comes back, one trained long never."""
    little = dataclasses.replace(LEVEL, pretraining=Pretraining(5_000, 2e-4))
    found = turning_length(PT, little)
    schedule = little.schedule(steps=int(found.steps))
    ends = predicted(PT, schedule, 0.5), predicted(PT, little.schedule(steps=found.steps - 1), 0.5)
    assert ends[0][1] <= ends[0][0] < ends[1][1]
    assert found.steps > 1_000 and found.rise > 0.1 and not found.never
    long = turning_length(PT, LEVEL)
    assert long.never and long.limit > long.start and "never comes back" in long.headline
    assert long.to_dict()["quantities"]["steps"]["value"] == "inf"


def test_the_critical_point_is_in_closed_form():
    found, p = turning_length(PT, LEVEL), PT[1]
    share = 1 - math.exp(-p["a2"] * 0.5)
    assert found.critical_point == pytest.approx(p["L0"] + p["B"] * share, rel=1e-12)
    expected = (p["A"] / (p["B"] * share)) ** (1 / p["alpha"])
    assert found.limit == pytest.approx(found.critical_point, rel=1e-12)  # nothing anneals
    around = [
        turning_length(PT, dataclasses.replace(LEVEL, pretraining=Pretraining(steps, 2e-4)))
        for steps in (0.98 * expected / 2e-4, 1.02 * expected / 2e-4)
    ]
    assert not around[0].never and around[1].never


def test_the_limit_is_that_of_very_long_runs():
    found = turning_length(PT, RUN)
    last = final_losses(PT, CPT, RUN, steps=1e30).table["loss_pt"][0]
    assert found.limit == pytest.approx(last, rel=1e-9)


def test_a_weight_on_the_new_corpus_brings_the_sum_back():
    """Wang 2025, figure 13: below its start throughout, back at some step, or never."""
    kinds = [turning_length(PT, LEVEL, cpt=CPT, weight=w) for w in (0.2, 0.7, 1.0)]
    assert kinds[0].steps == 0 and 0 < kinds[1].steps < math.inf and kinds[2].never
    assert "never rises above its start" in kinds[0].headline and kinds[0].rise == 0
    assert math.copysign(1, kinds[0].steps) == 1  # no −0 steps
    patterns = [plan.pattern for plan in kinds]
    assert patterns == ["no rise", "rise and return", "rise and partial fall"]
    with pytest.raises(UsageError, match="weight="):
        turning_length(PT, LEVEL, weight=0.5)


def test_draws_may_never_come_back():
    near = dataclasses.replace(LEVEL, pretraining=Pretraining(22_000, 2e-4))
    found = turning_length(bootstrap(PT, 30), near)
    low, high = found.interval["steps"]
    assert math.isfinite(low) and high == math.inf
    assert "draws-disagree" in {note.code for note in found.notes}
    aside = bootstrap(PT, 30)
    aside.params["B"] *= 1.05
    assert "steps and rise does not contain" in str(turning_length(aside, near).notes)


@pytest.mark.parametrize("options", [{"epsilon": 0.1}, {"decay": 1.0}])
def test_areas_without_a_closed_form_are_refused(options):
    pt, cpt = (as_fit(one, area_options(**options)) for one in (PT, CPT))
    with pytest.raises(UsageError, match="predict_curve"):
        optimal_training(pt, cpt, RUN, 0.55, {"replay": (0, 1)})


# Other validation sets


def curves(noise=0.0, weights=(0.3, 0.6)):
    at = np.arange(41_000, 50_001, 100)
    parts = []
    for run, replay in enumerate((0.1, 0.5)):
        schedule = RUN.schedule()
        pt, cpt = (
            as_fit(g, area_options()).predict_curve(schedule, at, r=r)["loss"]
            for g, r in ((PT, replay), (CPT, 1 - replay))
        )
        parts.append(pd.DataFrame({"run": run, "loss_pt": pt, "loss_cpt": cpt}))
    table = pd.concat(parts, ignore_index=True)
    table["loss_ood"] = weights[0] * table["loss_pt"] + weights[1] * table["loss_cpt"]
    normal = np.random.default_rng(0).standard_normal(len(table))
    return table.assign(loss_ood=table["loss_ood"] * np.exp(noise * normal))


def test_weights_of_another_set_are_found():
    exact = out_of_domain(curves())
    assert (exact.weight_pt, exact.weight_cpt) == pytest.approx((0.3, 0.6), rel=1e-9)
    assert exact.balance == pytest.approx(1 / 3) and exact.r2 == pytest.approx(1)
    noisy = out_of_domain(curves(0.002), level=0.95)
    for name, true in (("weight_pt", 0.3), ("weight_cpt", 0.6), ("balance", 1 / 3)):
        low, high = noisy.interval[name]
        assert low < true < high and high - low < 0.1


def test_negative_weights_are_held_at_zero():
    table = curves(weights=(-0.2, 1.2))
    held = out_of_domain(table)
    from scipy.optimize import nnls

    expected = nnls(table[["loss_pt", "loss_cpt"]].to_numpy(), table["loss_ood"].to_numpy())[0]
    assert (held.weight_pt, held.weight_cpt) == pytest.approx(tuple(expected))
    assert held.weight_pt == 0 and held.binding == "λ1' at 0" and held.balance == 0


@pytest.mark.parametrize(
    "change,error,message",
    [
        (lambda t: t.drop(columns="loss_ood"), DataError, "no column loss_ood"),
        (lambda t: t[:2], DataError, "2 points"),
        (lambda t: t.assign(loss_cpt=t["loss_pt"] * 2), DataError, "proportional"),
        (lambda t: t.assign(loss_ood=np.nan), DataError, "column loss_ood: rows 0"),
    ],
)
def test_curves_that_tell_no_weights(change, error, message):
    with pytest.raises(error, match=message):
        out_of_domain(change(curves()))


# An unknown base


UNKNOWN = ("cpt-curve-unknown-base", TRUTHS["cpt-curve-unknown-base"])
# Schedules that begin at their own peak, below it after a warm-up, and away from 0.
LINES = {
    "constant": "constant:lr=2e-4,steps=4000",
    "cosine": "cosine:peak=2e-4,steps=4000",
    "wsd": "wsd:peak=1e-4,steps=4000,warmup=200",
    "started": "linear:peak=1e-4,steps=4000,warmup=200,start=2e-5",
}


@pytest.mark.full
def test_curves_of_an_unknown_base_are_recovered_however_their_schedules_begin():
    """Wang 2025, App. G: the last rate of the base is 0, whatever the continual phase begins with.

    The areas are summed here as eq. 1 prints them, from η_0 = 0, and not by the package.
    """
    law, steps, parts = (
        jl.laws.get(UNKNOWN[0]),
        np.unique(np.geomspace(10, 4_000, 60).astype(int)),
        [],
    )
    for name, line in LINES.items():
        rates = jl.schedules.parse(line).rates
        momentum, S2 = 0.0, []
        for before, rate in itertools.pairwise([0.0, *rates]):
            momentum = 0.999 * momentum + before - rate
            S2.append(momentum)
        areas = {"S1_cpt": np.cumsum(rates)[steps - 1], "S2_cpt": np.cumsum(S2)[steps - 1]}
        with jax.enable_x64(True):
            loss = np.asarray(law(UNKNOWN[1], **areas))
        parts.append(pd.DataFrame({"run": name, "schedule": line, "step": steps, "loss": loss}))
    table = pd.concat(parts, ignore_index=True).assign(phase="cpt")
    fit = jl.fit(law, jl.read_loss_curves(table))
    assert fit.r2 > 1 - 1e-12
    assert fit.params == pytest.approx(UNKNOWN[1], rel=1e-5)
    # A log of the rates is counted as the schedule that made them is.
    logged = pd.concat([
        part.merge(pd.DataFrame({"step": np.arange(1, 4_001), "lr": rates}), "right")
        .assign(run=name, phase="cpt").ffill().bfill()
        for part, (name, line) in zip(parts, LINES.items(), strict=True)
        for rates in [jl.schedules.parse(line).rates]
    ])  # fmt: skip
    every = jl.read_loss_curves(logged.drop(columns="schedule")).runs().table
    again = every.merge(table[["run", "step"]])[["S1_cpt", "S2_cpt"]]
    declared = jl.read_loss_curves(table).runs().table[["S1_cpt", "S2_cpt"]]
    np.testing.assert_allclose(again, declared, rtol=1e-12, atol=1e-18)


@pytest.mark.full
@pytest.mark.parametrize("shape", ["constant", "cosine", "linear", "wsd"])
@pytest.mark.parametrize("warmup,start", [(0, 0.0), (500, 0.0), (500, 2e-5)])
def test_plans_and_curves_of_an_unknown_base_say_one_number(shape, warmup, start):
    fit = as_fit(UNKNOWN, area_options())
    run = ContinualPretraining(None, 4_000, 2e-4, shape=shape, warmup=warmup, start=start)
    planned = final_losses(fit, fit, run).table["loss_pt"][0]
    for schedule in (run.schedule(), dataclasses.replace(run.schedule(), initial_lr=2e-4)):
        curve = fit.predict_curve(schedule)["loss"].iloc[-1]
        assert curve == pytest.approx(planned, rel=1e-12)


@pytest.mark.parametrize("warmup", [0, 200])
def test_the_best_schedule_of_an_unknown_base_is_predicted_as_it_was_planned(warmup):
    fit = as_fit(UNKNOWN, area_options())
    found = jl.planning.optimal_schedule(fit, 1_000, 2e-4, warmup=warmup)
    assert found.initial_lr == 0
    rates = jl.schedules.cosine(2e-4, 1_000 - warmup)
    cosine = jl.schedules.warmup(rates, warmup) if warmup else rates
    losses = found.comparison.set_index("schedule")["loss"]
    for name, one in (("optimal", found.schedule["lr"]), ("cosine", cosine)):
        curve = fit.predict_curve(one)["loss"].iloc[-1]
        assert curve == pytest.approx(losses[name], rel=1e-12)


@pytest.mark.parametrize("law", ["annealing", "multi-power"])
def test_a_law_that_knows_no_phases_reads_a_continual_phase_as_it_predicts_it(law):
    line = LINES["started"]
    table = pd.DataFrame({"run": "a", "schedule": line, "step": range(100, 4_001, 100)})
    fit = as_fit((law, TRUTHS[law]), area_options())
    for phase in ("pt", "cpt"):
        runs = jl.read_loss_curves(table.assign(phase=phase, loss=3.0)).runs()
        read = fit.predict(runs.observations(law).inputs)
        np.testing.assert_array_equal(fit.predict_curve(line, table["step"])["loss"], read)


@pytest.mark.full
def test_the_start_of_a_run_of_an_unknown_base_predicts_its_end():
    """Wang 2025, App. G: S1_pt fitted, the last rate of the base 0, a stand-in corpus."""
    name = "cpt-curve-replay-pt-unknown-base"
    truth = (name, TRUTHS[name])
    run = ContinualPretraining(None, 10_000, 2e-4, replay=0.5, warmup=500)
    steps = np.unique(np.geomspace(10, 5_000, 80).astype(int))  # the first half
    S1, S2 = jl.areas(run.schedule(), at=steps)
    inputs = {name: np.tile(v, 3) for name, v in (("S1_cpt", S1), ("S2_cpt", S2))}
    inputs["r"] = np.repeat([0.0, 0.33, 0.67], len(steps))
    fit = jl.fit(name, simulate.simulate_runs(*truth, inputs, 0.001))
    found, exact = (final_losses(one, one, run) for one in (fit, truth))
    assert found.table["loss_pt"][0] == pytest.approx(exact.table["loss_pt"][0], rel=5e-3)
    assert "extrapolation" in {note.code for note in found.notes}  # S1_cpt doubles
