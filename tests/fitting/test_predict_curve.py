"""A law over a schedule: its parts, what is extrapolated, and real schedules never fitted."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import schedules
from tests.conftest import kept_programs, needs_data
from tests.fixtures.curve_tables import (
    BEFORE,
    SPECS,
    TRUTH,
    TWO,
    held_out,
    logged,
    read as read_short,
    real_curves,
    real_fit,
    real_schedules,
)
from tests.fixtures.fits_at_truth import COUNTED, at_truth

OTHER = {"cpt-curve-n": {"N": 1e8}, "cpt-curve-batch": {"b": 1.0}}
LAWS = [name for name in jl.laws.names() if name.startswith("cpt-curve")]


@pytest.mark.parametrize("name", LAWS)
def test_parts_add_up_and_end_where_they_should(name):
    fit = at_truth(name)
    others = OTHER.get(name, {"r": 0.3} if "replay" in name else {})
    at = [1, 1500, 3000, 3001, 3500, 4000]
    table = fit.predict_curve(TWO, at, **others)
    assert ((table["base"] + table["annealing"]) + table["shift"] == table["loss"]).all()
    areas = jl.data.phase_areas(schedules.parse(TWO), at=at)
    given = {k: v for k, v in areas._asdict().items() if k in fit.law.input_names}
    np.testing.assert_array_equal(table["loss"], fit.predict(**given, **others))
    assert table["phase"].tolist() == ["pt"] * 3 + ["cpt"] * 3
    assert (table["shift"][:3] == 0).all() and (table["shift"][3:] != 0).all()
    np.testing.assert_array_equal(table["lr"], schedules.parse(TWO).rates[np.array(at) - 1])


def test_parts_are_the_law_without_its_coefficients():
    fit = at_truth("cpt-curve")
    table, p = fit.predict_curve(TWO, [2900, 4000]), fit.params
    areas = jl.data.phase_areas(schedules.parse(TWO), at=[2900, 4000])
    base = p["L0"] + p["A"] * (areas.S1_pt + areas.S1_cpt) ** -p["alpha"]
    np.testing.assert_allclose(table["base"], base, rtol=1e-14)
    np.testing.assert_allclose(
        table["annealing"], -p["C1"] * areas.S2_pt - p["C2"] * areas.S2_cpt, atol=1e-15
    )


def test_one_phase_of_a_law_of_two_is_pre_training_or_of_an_unknown_base():
    line = "cosine:peak=2e-4,steps=1000"
    areas = jl.areas(schedules.parse(line))
    known = at_truth("cpt-curve").predict_curve(line)
    assert "phase" not in known and (known["shift"] == 0).all()
    assert known["step"].tolist() == list(range(1, 1001))
    fit = at_truth("cpt-curve-unknown-base")
    found = fit.predict_curve(line, [0, 1, 1000])
    areas = jl.areas(schedules.parse(line), at=[0, 1, 1000], initial_lr=0.0)  # Wang 2025, App. G
    np.testing.assert_array_equal(found["loss"], fit.predict(S1_cpt=areas.S1, S2_cpt=areas.S2))
    assert found["lr"][0] == 0


def test_options_of_the_fit_are_those_of_the_prediction():
    line = "cosine:peak=2e-4,steps=2000,warmup=500"
    for options in (COUNTED | {"decay": 0.9}, COUNTED | {"count_warmup": True},
                    COUNTED | {"epsilon": 0.1}):  # fmt: skip
        fit = at_truth("annealing", areas=options)
        areas = jl.areas(
            schedules.parse(line), options["decay"],
            count_warmup=options["count_warmup"], epsilon=options["epsilon"],
        )  # fmt: skip
        np.testing.assert_array_equal(
            fit.predict_curve(line)["loss"], fit.predict(S1=areas.S1, S2=areas.S2)
        )
        given = at_truth("annealing", areas=None).predict_curve(line, area_options=options)
        np.testing.assert_array_equal(given["loss"], fit.predict_curve(line)["loss"])


def test_steps_before_the_schedule_shift_it_and_add_to_S1():
    fit = at_truth("annealing")
    line = "cosine:peak=2e-4,steps=2000"
    later = fit.predict_curve(line, [100, 150], first_step=100, S1_before=0.2)
    areas = jl.areas(schedules.parse(line), at=[0, 50], S1_before=0.2)
    np.testing.assert_array_equal(later["loss"], fit.predict(S1=areas.S1, S2=areas.S2))
    assert later["lr"].iloc[0] == 2e-4
    assert fit.predict_curve(line, first_step=100)["step"].tolist() == list(range(101, 2101))


def test_extrapolation_is_marked_row_by_row():
    fit = jl.fit("annealing", read_short())
    assert fit.params == pytest.approx(TRUTH, rel=1e-5)
    table = fit.predict_curve(SPECS["fall"], [50, 100, 4000])
    assert table["outside"].tolist() == [True, False, False]
    longer = fit.predict_curve("constant:lr=3e-4,steps=9000", [2000, 9000])
    assert longer["outside"].tolist() == [False, True]


def test_a_fit_that_does_not_know_its_areas_asks():
    fit = at_truth("annealing", areas=None)
    with pytest.raises(jl.UsageError, match="area_options={'decay'"):
        fit.predict_curve(TWO)
    with pytest.raises(jl.UsageError, match="decay"):
        fit.predict_curve(TWO, area_options={"decay": [0.9, 0.99]})


# ---------------------------------------------------------------- real curves


@pytest.mark.full
@needs_data
def test_other_schedules_are_predicted_as_by_the_published_protocol():
    fit = real_fit()
    found = [fit.params[name] for name in ("L0", "A", "alpha", "C")]
    assert found == pytest.approx([3.158, 0.514, 0.513, 0.402], abs=1e-3)
    r2, error = held_out(fit)
    assert r2 == pytest.approx(0.9979, abs=1e-4)
    assert error == pytest.approx(0.0048, abs=1e-4)
    table = fit.predict_curve(real_schedules()["constant_72000"], [70_000], **BEFORE)
    assert table["outside"].all()


@pytest.mark.full
@needs_data
def test_the_decay_is_fitted_with_one_set_of_programs():
    curves, fixed = real_curves().only(where="split == 'fit'"), real_fit()
    compiled = kept_programs()
    fit = jl.fit_decay("annealing", curves, decays=(0.99, 0.9997))
    assert kept_programs() == compiled
    assert fit.objective < fixed.objective
    assert fit.area_options["decay"] == pytest.approx(0.9981, abs=2e-4)
    assert held_out(fit)[1] < held_out(fixed)[1]
    (note,) = [note for note in fit.notes if note.code == "decay-fitted"]
    assert "within 1%" in note.message and "0.9975" in note.message
    at_end = jl.fit_decay("annealing", curves, decays=(0.9, 0.99))
    (note,) = [note for note in at_end.notes if note.code == "decay-fitted"]
    assert note.severity == "warning" and "do not distinguish it from 0.99" in note.message
    assert at_end.area_options["decay"] == pytest.approx(0.99, abs=1e-3)


@pytest.fixture(scope="module")
def fitted_decay():
    """Noisy curves, and a law fitted to them with its decay."""
    table = logged()
    table["loss"] *= np.exp(0.002 * np.random.default_rng(0).standard_normal(len(table)))
    curves = read_short(table)
    return jl.fit_decay("annealing", curves, decays=(0.99, 0.9999)), curves


@pytest.mark.full
def test_a_fit_with_its_decay_is_resampled(fitted_decay):
    """Areas of the same curves are counted with the fitted λ, and every answer says it is held."""
    fit, curves = fitted_decay
    assert fit.area_options["decay"] != COUNTED["decay"]
    drawn = jl.bootstrap(fit, curves, 60, progress=False)
    cov, held = jl.covariance(fit, curves), jl.profile(fit, curves, "C")
    for found in (drawn, cov, held):
        assert "decay-fitted" in [note.code for note in found.notes]
    spread = np.std(drawn.params["C"])
    assert cov.conf_int().set_index("parameter")["std_err"]["C"] == pytest.approx(spread, rel=0.5)
    assert len(jl.influence(fit, curves)) == len(curves.table)
    assert np.isfinite(jl.identifiability(fit, curves)["std_err"]).all()
    counted = curves.runs(**fit.area_options)
    assert jl.covariance(fit, counted).matrix.equals(cov.matrix)
    with pytest.raises(jl.UsageError, match="read with the same options"):
        jl.covariance(fit, curves.runs())
    plain = jl.covariance("annealing", curves)
    assert "decay-fitted" not in [note.code for note in plain.notes]
