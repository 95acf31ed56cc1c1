"""Notes on an optimum: each appears where it should, and not on clean data."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting import _engine as engine
from jaxlaw.fitting._checks import diagnosed
from jaxlaw.fitting._multistart import Optimum
from jaxlaw.fitting._problem import linearise
from jaxlaw.fitting.solvers import SOLVERS, Status
from tests.conftest import needs_data, simulated_fit, slimpajama
from tests.fixtures.fit_problems import fit_problem, screened


def codes(fit):
    return {note.code for note in fit.notes}


def message(fit, code):
    return next(note.message for note in fit.notes if note.code == code)


@pytest.fixture(scope="module")
def optimum():
    """Chinchilla at its optimum: what is diagnosed of a good search."""
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        lanes = engine.solve(SOLVERS["newton"], p.model, p.data, screened(p))
        at = lanes.coordinates[0, np.argmin(lanes.value[0])]
        table = simulate.experiment("chinchilla", noise=0.004).table
        seen = jl.read_runs(table).observations("chinchilla")
        found = Optimum(at, 0.0, Status.CONVERGED, 0.9, 0.0, at[None], None, 64, 64)
        return p, seen, found, linearise(p, at), p.params(np.stack([at, at, at]))


def notes_with(optimum, spread=None, r2=0.99, **evidence):
    p, seen, found, linear, natural = optimum
    for name, size in (spread or {}).items():
        natural = natural | {name: natural[name] * [1, 1 - size / 2, 1 + size / 2]}
    with jax.enable_x64(True):
        notes, _ = diagnosed(
            p, seen, found._replace(**evidence), linear, natural, {"r2": r2, "rmse_log": 0.004}
        )
    return {note.code: note for note in notes}


# ------------------------------------------------------------- the search


@pytest.mark.parametrize(
    "evidence,code,severity,words",
    [
        (
            {"status": Status.STEP_LIMIT},
            "few-starts-agree",
            "warning",
            "'step limit'. The largest",
        ),
        ({"agreement": 0.05}, "few-starts-agree", "warning", "only 5.0%"),
        ({"disagreement": 1e-4}, "few-starts-agree", "warning", "1.0e-04"),
        ({"r2": 0.3}, "poor-fit", "error", "does not describe"),
        ({"r2": np.nan}, "poor-fit", "error", "nan"),
        ({"r2": 0.7}, "poor-fit", "warning", "look for outliers"),
        ({"spread": {"A": 0.5, "B": 1e-3}}, "unidentifiable", "warning", "differ in A (by up to"),
    ],
)
def test_poor_evidence_gives_its_note(optimum, evidence, code, severity, words):
    notes = notes_with(optimum, **evidence)
    assert set(notes) == {code}
    assert notes[code].severity == severity
    assert words in notes[code].message


@pytest.mark.parametrize(
    "evidence",
    [{"agreement": 0.1}, {"disagreement": 1e-7}, {"r2": 0.81}, {"spread": {"A": 1e-3}}],
)
def test_evidence_just_good_enough(optimum, evidence):
    assert notes_with(optimum, **evidence) == {}


# ------------------------------------------------------------- bounds


def test_active_bounds_are_named_by_side(optimum):
    p, at = optimum[0], optimum[2].coordinates
    assert p.active_bounds(at) == {}
    low, high = np.asarray(p.data.low), np.asarray(p.data.high)
    at_low, at_high = at.copy(), at.copy()
    at_low[0], at_high[3] = low[0], high[3]
    assert p.active_bounds(at_low) == {"E": "low"}
    assert p.active_bounds(at_high) == {"alpha": "high"}


def test_a_fixed_parameter_is_not_at_a_wall():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla", fixed={"alpha": 0.3}, tied={"beta": "alpha"})
        assert p.active_bounds(np.asarray(p.data.low)) == {"E": "low", "A": "low", "B": "low"}


def test_at_bound_says_whose_bound():
    table = simulate.experiment("chinchilla").table
    mine = jl.fit("chinchilla", table, bounds={"E": (1.8, None)})
    assert "E is at your bound (1.8)" in message(mine, "at-bound")
    assert "at-bound" not in codes(jl.fit("chinchilla", table, bounds={"E": (1.0, 2.5)}))


# ------------------------------------------------------------- what the data do not say


@pytest.mark.full
def test_parameters_that_only_go_together(own_laws):
    """They are named; in clean data none are (above)."""

    @jl.law(name="test-doubled", linear=())  # or all starts would split A + B in the same way
    def doubled(
        x, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(0.1, 10), B=jl.laws.positive(0.1, 10)
    ):
        """E + A/x + B/x"""
        return E + (A + B) / x

    x = np.geomspace(1.0, 100.0, 12)
    fit = jl.fit("test-doubled", {"x": x, "loss": 2 + 5 / x}, n_starts=256)
    ridge = message(fit, "unidentifiable").split("only a combination of ")[1].split(" (")[0]
    assert {"A", "B"} <= set(ridge.split(", "))
    assert fit.params["A"] + fit.params["B"] == pytest.approx(5, rel=1e-5)


@pytest.mark.full
def test_a_parameter_that_nothing_depends_on(own_laws):
    @jl.law(name="test-idle")
    def idle(
        x,
        *,
        E=jl.laws.positive(0.5, 3),
        A=jl.laws.positive(0.1, 10),
        z=jl.laws.real(-1, 1, low=-5, high=5),
    ):
        """E + A/x, and z for nothing"""
        return E + A / x + 0 * z

    x = np.geomspace(1.0, 100.0, 12)
    fit = jl.fit("test-idle", {"x": x, "loss": 2 + 5 / x}, n_starts=256)
    assert "do not determine z" in message(fit, "unidentifiable")
    assert fit.params["A"] == pytest.approx(5, rel=1e-6)


# ------------------------------------------------------------- the trends of the D-CPT law

TREND = {"E": 1.0, "A": 0.5, "B": 0.6, "C": 0.02, "alpha": 0.4, "beta": 0.3, "gamma": 0.5,
         "eta": 1.5, "eps": 0.1}  # fmt: skip
RANGES = {"N": (0.5, 4.0), "D": (0.1, 2.0), "r": (0.0, 1.0)}


def trends(params, **ranges):
    law = laws.get("dcpt")
    with jax.enable_x64(True):
        found = law.requirements(law, TREND | params, RANGES | ranges)
    return {note.code: note.message for note, _ in found}


def test_a_loss_that_rises_with_the_share_is_noted_where_it_does():
    assert "rises with r between" in trends({})["trend-observed"]
    assert trends({"C": 5.0}) == {}
    # Falls where there are runs, rises beyond them.
    beyond = trends({"C": 0.3}, r=(0.0, 0.2))
    assert set(beyond) == {"trend-everywhere"}
    assert "outside the observed range" in beyond["trend-everywhere"]


@pytest.mark.full
def test_a_fit_carries_the_trend_note():
    design = simulate.experiment("dcpt").table[["N", "D", "r"]]
    rising = simulate.simulate_runs("dcpt", TREND, {k: design[k] for k in "NDr"}, noise=0.002)
    (note,) = (n for n in jl.fit("dcpt", rising).notes if n.code == "trend-observed")
    assert note.severity == "warning"
    assert not any(code.startswith("trend") for code in codes(simulated_fit("dcpt")))


def test_a_rise_that_the_scatter_of_the_runs_can_make_is_no_warning():
    """The demo's truth falls, hardly, near r = 1: what noise makes of it is no finding."""
    runs = simulate.experiment("dcpt-general", noise=0.004, seed=1).table
    fit = jl.fit("dcpt", runs)
    (note,) = (n for n in fit.notes if n.code == "trend-observed")
    assert note.severity == "info" and "by 0.02%" in note.message
    assert note.message.endswith("within the run-to-run scatter, 0.37%")


@needs_data
@pytest.mark.full
def test_a_real_mixture_has_no_use_for_eta_nor_for_a_power_of_the_share():
    fit = jl.fit("dcpt", slimpajama("c4"))
    said = " ".join(note.message for note in fit.notes if note.code == "at-bound")
    assert "eta is at the low end" in said and "form of dcpt" in said
    # Without eta nothing rises with r, so no trend is broken either.
    assert not any(code.startswith("trend") for code in codes(fit))


@pytest.mark.full
def test_an_exponential_in_the_share_is_the_limiting_form():
    """γ and ε run off together where the truth is an exponential in r (dcpt-l4 with b = 1)."""
    design = simulate.experiment("dcpt-l4").table[["N", "D", "r"]]
    truth = dict(simulate.TRUTHS["dcpt-l4"]) | {"b": 1.0}
    table = simulate.simulate_runs("dcpt-l4", truth, {k: design[k] for k in "NDr"}, noise=0.001)
    fit = jl.fit("dcpt-l1", table)
    assert "form of dcpt-l4" in message(fit, "at-bound")
    error = np.log(fit.predict(table) / np.asarray(table["loss"]))
    assert np.sqrt(np.mean(error**2)) < 0.0012
    assert "at-bound" not in codes(simulated_fit("dcpt-l1"))


# ------------------------------------------------------------- no irreducible loss


def frontier(floor, noise=0.004, seed=0):
    """Lowest losses over six decades of compute: a power of it above a floor."""
    C = np.geomspace(1e17, 1e23, 30)
    noise = noise * np.random.default_rng(seed).standard_normal(30)
    return pd.DataFrame({"C": C, "loss": (floor + 260 * C**-0.14) * np.exp(noise)})


def test_losses_that_level_off_name_the_law_with_a_floor():
    fit = jl.fit("loss-compute", frontier(1.4))
    assert fit.r2 > 0.95 and "loss-compute-e" in message(fit, "no-floor")
    other = jl.fit("loss-compute-e", frontier(1.4))
    assert other.params["E"] == pytest.approx(1.4, abs=0.15) and "no-floor" not in codes(other)


def test_the_scatter_that_a_floor_would_leave_is_that_of_the_law_with_one():
    """The note's share is by one linear step, and so a little above that of the other law's fit."""
    table = frontier(1.4)
    said = int(message(jl.fit("loss-compute", table), "no-floor").split("%")[0].split()[-1])
    scatter = [jl.fit(law, table).metrics["rmse_log"] for law in ("loss-compute", "loss-compute-e")]
    assert 100 * scatter[1] / scatter[0] < said < 100 * scatter[1] / scatter[0] + 10


@pytest.mark.parametrize("seed", range(8))
def test_losses_of_a_power_law_ask_for_no_floor(seed):
    assert "no-floor" not in codes(jl.fit("loss-compute", frontier(0.0, seed=seed)))


@pytest.mark.full
@pytest.mark.parametrize("change", ["exact", "weights", "linear", "outlier"])
def test_a_floor_is_suggested_by_the_losses_alone(change):
    """Neither rounding, rows held out, the space of residuals nor one bad run decide."""
    if change == "exact":
        assert codes(jl.fit("loss-compute", frontier(0.0, noise=0.0))) == set()
        return
    plain, bent = frontier(0.0), frontier(1.4)
    if change == "weights":
        plain = pd.concat([plain.assign(weight=1.0), bent.assign(weight=0.0)])
        assert "no-floor" not in codes(jl.fit("loss-compute", plain, weight="weight"))
        return
    options = {"residuals": "linear"} if change == "linear" else {}
    if change == "outlier":
        for table in (plain, bent):
            table.loc[29, "loss"] *= 1.5
    assert "no-floor" not in codes(jl.fit("loss-compute", plain, **options))
    assert "no-floor" in codes(jl.fit("loss-compute", bent, **options))
