"""From runs to a fitted law: the papers' numbers, recovery, options, error paths."""

import dataclasses
import inspect
import re
from contextlib import nullcontext

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import least_squares

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.data import ReadingOptions
from jaxlaw.fitting import FitKeywords, FitOptions, _fit as fitting
from jaxlaw.notes import FitWarning
from tests.conftest import chinchilla_runs, kept_programs, needs_data, slimpajama, some_rows

PUBLISHED = {"A": 477.84, "B": 2143.86, "E": 1.81724, "alpha": 0.347313, "beta": 0.367183}


def test_what_type_checkers_are_told_of_options_is_what_there_is():
    declared = {field.name: field.default for field in dataclasses.fields(FitOptions)}
    told = FitKeywords.__annotations__.keys() - ReadingOptions.__annotations__.keys()
    assert told == declared.keys() | {"constraint"}
    listed = inspect.signature(jl.fit).parameters
    for name, default in declared.items():
        assert listed[name].default == (None if default is dataclasses.MISSING else default)
        assert re.search(rf"^        {name}[:,]|[ ,] {name}[:,]", jl.fit.__doc__, re.MULTILINE)


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("options", [{"starts": "grid", "n_local": False}, {}])
def test_chinchilla_is_the_published_summed_objective_fit(options):
    fit = jl.fit("chinchilla", chinchilla_runs(), **options)
    assert fit.objective <= 0.0010183
    assert fit.n_observations == 240
    assert fit.params == pytest.approx(PUBLISHED, rel=1e-3)
    assert fit.status == "converged"
    assert fit.agreement > 0.9
    if options:
        assert fit.n_starts == fit.n_solved == 4500


@needs_data
@pytest.mark.full
def test_the_papers_protocol_finds_the_same_optimum_on_a_sample_of_its_grid():
    grid = {spec.name: spec.grid for spec in laws.get("chinchilla").parameters}
    few = {name: values[2::3] for name, values in grid.items()}
    fit = jl.fit("chinchilla", chinchilla_runs(), starts=few, n_local=False, solver="lbfgs")
    assert fit.objective <= 0.0010183
    assert fit.params == pytest.approx(PUBLISHED, rel=1e-3)


@needs_data
@pytest.mark.full
@pytest.mark.parametrize(
    "name,constraint,known", [("dcpt", "paper", 0.2280), ("dcpt-l2", None, 0.05896)]
)
def test_real_mixtures_end_at_one_optimum_no_worse_than_known(name, constraint, known):
    """Objectives that scipy reached from 24 screened starts, and all starts of two seeds."""
    poor = pytest.warns(FitWarning, match="poor-fit") if constraint else nullcontext()
    with poor:  # the paper's form halves R² of these mixtures
        first, second = (
            jl.fit(name, slimpajama("github"), constraint=constraint, seed=seed) for seed in (0, 1)
        )
    assert float(f"{first.objective:.4g}") <= known
    assert first.status == second.status == "converged"
    assert second.objective == pytest.approx(first.objective, rel=1e-6)
    if constraint:
        binding = [note.message for note in first.notes if note.code == "constraint-binds"]
        assert binding and "without it" in binding[0]


@pytest.mark.full
def test_two_stage_transfer_recovers_the_truth():
    scratch = jl.fit("chinchilla", simulate.experiment("from-scratch", noise=0.0).table)
    transfer = simulate.experiment("cpt-chinchilla", noise=0.0)
    fit = jl.fit("cpt-chinchilla", transfer.table, base=scratch)
    assert {n: fit.params[n] for n in ("E", "A", "alpha")} == {
        n: scratch.params[n] for n in ("E", "A", "alpha")
    }
    assert fit.params == pytest.approx(transfer.truth, rel=1e-6)
    assert set(fit.fixed) == {"E", "A", "alpha"}


@pytest.mark.full
def test_fixed_tied_and_bounded_parameters(chinchilla_fit):
    table = simulate.experiment("chinchilla").table
    fixed = jl.fit("chinchilla", table, fixed={"alpha": 0.34})
    assert fixed.params["alpha"] == 0.34 and fixed.fixed == {"alpha": 0.34}
    tied = jl.fit("chinchilla", table, tied={"beta": "alpha"})
    assert tied.params["beta"] == tied.params["alpha"]
    bounded = jl.fit("chinchilla", table, bounds={"E": (None, 1.6)})
    assert bounded.params["E"] == pytest.approx(1.6, abs=1e-9)
    assert any(note.code == "at-bound" and "your bound" in note.message for note in bounded.notes)
    loose = jl.fit("chinchilla", table, bounds={"A": (1.0, 1e6)})
    assert loose.objective == pytest.approx(chinchilla_fit.objective, rel=1e-9)
    pinned = jl.fit("chinchilla", table, fixed={"A": chinchilla_fit.params["A"]})
    assert pinned.objective == pytest.approx(chinchilla_fit.objective, rel=1e-8)
    for fit in (fixed, tied, bounded):
        assert fit.objective > chinchilla_fit.objective


def test_least_squares_is_scipys():
    table = simulate.experiment("chinchilla", noise=0.01).table
    fit = jl.fit("chinchilla", table, delta=np.inf, residuals="linear")
    N, D, loss = (table[name].to_numpy() for name in ("N", "D", "loss"))

    def residual(u):
        E, a, b, alpha, beta = u
        return E + np.exp(a) * (N / 1e9) ** -alpha + np.exp(b) * (D / 1e10) ** -beta - loss

    p = fit.params
    at = [p["E"], np.log(p["A"] * 1e9 ** -p["alpha"]), np.log(p["B"] * 1e10 ** -p["beta"])]
    theirs = least_squares(
        residual, [*at, p["alpha"], p["beta"]], method="lm", xtol=1e-15, ftol=1e-15
    )
    assert fit.objective == pytest.approx(theirs.cost, rel=1e-9)
    assert fit.params["alpha"] == pytest.approx(theirs.x[3], rel=1e-5)


def test_asymmetry_draws_the_curve_to_the_lower_envelope(chinchilla_fit):
    table = simulate.experiment("chinchilla").table
    below = jl.fit("chinchilla", table, asymmetry=10.0)
    residual = np.log(table["loss"] / below.predict(table))
    plain = np.log(table["loss"] / chinchilla_fit.predict(table))
    assert np.mean(residual < 0) < 0.15 < 0.35 < np.mean(plain < 0)


def test_zero_weight_is_a_row_left_out():
    table = simulate.experiment("from-scratch").table
    weight = np.ones(len(table))
    left_out = np.random.default_rng(0).permutation(len(table))[243:]  # programs are there
    weight[left_out] = 0
    weighted = jl.fit("chinchilla", table.assign(w=weight), weight="w")
    removed = jl.fit("chinchilla", table[weight > 0])
    assert weighted.params == pytest.approx(removed.params, rel=1e-7)
    assert weighted.n_observations == removed.n_observations


@pytest.mark.full
@pytest.mark.parametrize("law", ["chinchilla", "dcpt"])
def test_a_search_on_a_sample_ends_at_the_optimum_of_all_rows(monkeypatch, tmp_path, law):
    table = simulate.experiment(law, noise=0.004).table
    whole = jl.fit(law, table, n_starts=512)
    weight = np.ones(len(table))
    assert "searched-on-sample" not in {note.code for note in whole.notes}
    monkeypatch.setattr(fitting, "MANY_ROWS", 80)
    options = {"n_starts": 512, "weight": weight, "work_dir": tmp_path}
    sampled = jl.fit(law, table, **options)
    assert sampled.params == pytest.approx(whole.params, rel=1e-6)
    assert sampled.objective == pytest.approx(whole.objective, rel=1e-9)
    assert (sampled.n_starts, sampled.n_solved) == (512, 64) and sampled.agreement > 0.5
    (note,) = (note for note in sampled.notes if note.code == "searched-on-sample")
    every = -(-len(table) // 80)
    assert f"on {len(range(every // 2, len(table), every))} of {len(table)} rows" in note.message
    again = jl.fit(law, table, **options)  # from the finished work
    assert again.params == sampled.params and again.objective == sampled.objective
    # All starts of a protocol are solved as they are, on all rows.
    some = {spec.name: [whole.params[spec.name]] for spec in whole.law.parameters}
    exhaustive = jl.fit(law, table, starts=some, n_local=False)
    assert "searched-on-sample" not in {note.code for note in exhaustive.notes}


def test_order_of_rows_and_units_change_nothing(chinchilla_fit):
    table = simulate.experiment("chinchilla").table
    shuffled = jl.fit("chinchilla", table.sample(frac=1, random_state=1))
    assert shuffled.objective == pytest.approx(chinchilla_fit.objective, rel=1e-12)
    billions = table.assign(N=table["N"] / 1e9, D=table["D"] / 1e6)
    scaled = jl.fit("chinchilla", billions, units={"N": 1e9, "D": 1e6})
    ours, theirs = chinchilla_fit.predict(N=7e9, D=1e11), scaled.predict(N=7, D=1e5)
    assert theirs == pytest.approx(ours, rel=1e-9)
    assert scaled.params == pytest.approx(chinchilla_fit.params, rel=1e-6)


def test_same_call_same_bits(chinchilla_fit):
    again = jl.fit("chinchilla", simulate.experiment("chinchilla").table)
    assert again.params == chinchilla_fit.params and again.objective == chinchilla_fit.objective


def test_a_second_fit_of_the_same_shapes_compiles_nothing(chinchilla_fit):
    compiled = kept_programs()
    other = simulate.experiment("chinchilla", seed=5).table
    jl.fit("chinchilla", other, delta=2e-3, asymmetry=1.5)
    assert kept_programs() == compiled


@pytest.mark.full
def test_strict_refuses_a_poor_fit():
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"N": 10 ** random.uniform(7, 10, 60), "D": 10 ** random.uniform(9, 11, 60)}
    ).assign(loss=random.uniform(1, 5, 60))
    with pytest.warns(FitWarning, match="poor-fit"):
        fit = jl.fit("chinchilla", table)
    assert any(note.code == "poor-fit" and note.severity == "error" for note in fit.notes)
    with pytest.raises(jl.DataError, match="does not describe"):
        jl.fit("chinchilla", table, strict=True)


@pytest.mark.full
def test_tied_coefficients_have_the_same_search(own_laws):
    """Two peaks of one height: a search that does not solve for the height misses some places."""

    @jl.law(linear=("E", "A", "B", "C"), residuals="linear")
    def peaks(
        x, *, E=jl.laws.positive(0.1, 3), A=jl.laws.real(-5, 5), B=jl.laws.real(-5, 5),
        C=jl.laws.real(-5, 5), m=jl.laws.real(0, 10, low=0, high=10),
        n=jl.laws.real(0, 10, low=0, high=10), o=jl.laws.real(0, 10, low=0, high=10),
        w=jl.laws.positive(0.05, 2),
    ):  # fmt: skip
        heights = ((A, m), (B, n), (C, o))
        return E + sum(height * jnp.exp(-(((x - at) / w) ** 2)) for height, at in heights)

    x = np.linspace(0, 10, 60)
    heights = ((1.5, 2.0), (1.5, 5.3), (-0.8, 8.0))
    loss = 4 + sum(height * np.exp(-(((x - at) / 0.4) ** 2)) for height, at in heights)
    runs = {"x": x, "loss": loss + 0.1 * np.random.default_rng(0).normal(size=60)}
    truth = [4.0, 1.5, 1.5, -0.8, 2.0, 5.3, 8.0, 0.4]
    best = jl.fit(peaks, runs, tied={"B": "A"}, starts=[truth]).objective
    found = [jl.fit(peaks, runs, tied={"B": "A"}, n_starts=256, seed=seed) for seed in range(5)]
    # Five of five here; where the height was not solved for, two of five ended 60 % above.
    assert sum(fit.objective <= best * (1 + 1e-6) for fit in found) >= 4
    for fit in found:
        assert fit.params["B"] == fit.params["A"]
        missed = fit.objective > best * (1 + 1e-6)
        assert not missed or "few-starts-agree" in [note.code for note in fit.notes]


@pytest.mark.full
def test_more_starts_are_solved_where_the_first_do_not_agree():
    """The best 64 of 2,048 screened starts all lie in basins whose optima are 3 to 40 % worse.

    The known objectives are those of 4,096 starts, all of them solved, of two other seeds.
    """
    law, known = "cpt-curve-replay-cpt-unknown-base", (1.5922329e-05, 1.664448e-05, 5.5815103e-06)
    for seed, best in enumerate(known):
        table = simulate.experiment(law, noise=0.004, seed=seed).table
        evenly = np.linspace(0, len(table) - 1, 18).round().astype(int)
        fit = jl.fit(law, table.iloc[evenly])
        assert fit.objective <= best * (1 + 1e-5)
        assert fit.n_solved == fit.n_starts == 2048
        assert "few-starts-agree" in [note.code for note in fit.notes]


@pytest.mark.full
def test_exponentials_of_the_share_are_fitted_where_the_loss_rises_steeply_with_it():
    """b goes to 1e10 and B to 1e-11: every start was still on its way after 300 iterations."""
    table = some_rows(simulate.experiment("dcpt-general", noise=0.004).table, 90)
    fit = jl.fit("dcpt-l4", table.assign(r=1 - table["r"]), n_starts=512, n_local=32)
    # The other starts come to the optimum where the two exponentials have changed parts: since
    # they do not agree, more than 32 are solved.
    assert fit.status == "converged" and fit.n_solved > 32 and fit.agreement > 0.2
    assert fit.objective == pytest.approx(2.54549652544e-4, rel=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("rises", [True, False])
def test_starts_lead_to_the_best_optimum_whether_the_loss_rises_or_falls_with_the_share(rises):
    """With c of all starts above 1 the rising loss came to 5.361e-4, and 86 % of them agreed."""
    table = some_rows(simulate.experiment("dcpt-general", noise=0.004).table, 180)
    fit = jl.fit("dcpt-l4", table.assign(r=1 - table["r"]) if rises else table)
    # The best of 512 starts, all solved as they are; the law of 1 − r is the law itself.
    assert fit.objective == pytest.approx(5.28751347561e-4, rel=1e-9)
    assert fit.agreement > 0.4
