"""Curves in: which schedule a row belongs to, which areas it gets, and everything refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import jaxlaw as jl
from jaxlaw import schedules
from jaxlaw.data._row_areas import AREAS
from tests.conftest import needs_data
from tests.fixtures.curve_tables import (
    SPECS,
    TRUTH,
    TWO,
    logged,
    read,
    real_curves,
    real_schedules,
    scheduled,
    two_sizes,
)
from tests.fixtures.run_tables import assert_says


def areas_of(curves, **options):
    return curves.runs(**options).table[list(AREAS)]


# ---------------------------------------------------------------- areas


def test_rows_get_the_areas_after_their_step():
    curves = read()
    result = curves.runs(decay=0.99)
    for run, line in SPECS.items():
        mine = result.table[result.table["run"] == run]
        every = jl.areas(schedules.parse(line), 0.99, count_warmup=False)
        np.testing.assert_allclose(mine["S1"], every.S1[mine["step"].astype(int) - 1], rtol=1e-12)
        np.testing.assert_allclose(mine["S2"], every.S2[mine["step"].astype(int) - 1], atol=1e-15)
    assert (result.table["S1_pt"] == result.table["S1"]).all()
    assert (result.table[["S1_cpt", "S2_cpt"]] == 0).all(axis=None)
    assert result.area_options == {
        "decay": 0.99, "carry_momentum": False, "count_warmup": False, "epsilon": None,
    }  # fmt: skip
    assert result.observations("annealing").area_options == result.area_options


def test_a_column_may_hold_lines_or_schedules():
    frame = logged()
    made = {run: schedules.parse(line) for run, line in SPECS.items()}
    pd.testing.assert_frame_equal(areas_of(read(frame, made)), areas_of(read()))
    named = scheduled(frame).rename(columns={"schedule": "plan"})
    curves = jl.read_loss_curves(named, {"schedule": "plan"})
    assert list(curves.schedules) == list(SPECS)
    assert areas_of(curves)["S1"].tolist() == areas_of(read())["S1"].tolist()
    # Without a column run, the rows of one line are a curve; runs of one line share its areas.
    by_line = jl.read_loss_curves(named.drop(columns="run"), {"schedule": "plan"})
    assert list(by_line.schedules) == list(SPECS.values())
    twice = pd.concat([frame.assign(run=f"{k}-" + frame["run"]) for k in "ab"])
    twice = jl.read_loss_curves(twice.assign(schedule=twice["run"].str[2:].map(SPECS)))
    assert twice.schedules["a-fall"] is twice.schedules["b-fall"] and len(twice) == 4
    for cell, said in (("cosyne:peak=1", "cosyne"), (SPECS["hold"], "several values for run fall"),
                       (None, "row 3 .*every row needs its schedule")):  # fmt: skip
        broken = named.assign(plan=named["plan"].where(named.index != 3, cell))
        with pytest.raises(jl.JaxlawError, match=said):
            jl.read_loss_curves(broken, {"schedule": "plan"})


def test_all_curves_at_once_are_the_curves_one_by_one():
    alone = [areas_of(read().only(run)) for run in SPECS]
    pd.testing.assert_frame_equal(areas_of(read()), pd.concat(alone), check_exact=True)


def test_a_warmup_in_the_log_and_one_before_it_have_the_same_areas():
    with_it = read(where="step > 200")
    line = SPECS["fall"].replace("steps=4000", "steps=3800").replace(",warmup=200", "")
    other = SPECS["hold"].replace("steps=3000", "steps=2800").replace(",warmup=200", "")
    before = schedules.parse(SPECS["fall"]).rates[:200].sum()
    without = read(
        logged().assign(before=before), {"fall": line, "hold": other}, where="step > 200",
        first_step=200, S1_before="before",
    )  # fmt: skip
    np.testing.assert_allclose(areas_of(with_it), areas_of(without), rtol=1e-12, atol=1e-15)
    counted = areas_of(with_it, count_warmup=True)
    assert (counted["S2"] < areas_of(with_it)["S2"]).all()


@pytest.mark.parametrize("carry", [False, True])
def test_two_phases_ignore_the_first_warmup_and_count_the_second(carry):
    line = TWO.replace("steps=3000", "steps=3000,warmup=200")
    frame = logged({"both": line})
    result = areas_of(read(frame, line), carry_momentum=carry)
    schedule = schedules.parse(line)
    # The same rates without the rise: η_0 and the warm-up at the peak.
    level = np.where(np.arange(4000) < 200, schedule.rates[:3000].max(), schedule.rates)
    expected = jl.data.phase_areas(
        level, 0.999, level[0], at=frame["step"], boundary=3000, carry_momentum=carry
    )
    np.testing.assert_allclose(result["S2_pt"], expected.S2_pt, atol=1e-14)
    np.testing.assert_allclose(result["S2_cpt"], expected.S2_cpt, atol=1e-14)
    own = jl.data.phase_areas(schedule, at=frame["step"])
    assert (own.S2_cpt < 0).any()  # the second warm-up
    np.testing.assert_allclose(result["S1_cpt"], own.S1_cpt, rtol=1e-12)


def test_a_phase_that_counts_its_own_steps_is_the_run_that_counts_on():
    frame = logged({"both": TWO})
    late = frame["step"] > 3000
    restarted = frame.assign(phase=np.where(late, "CPT ", "pt"), step=frame["step"] - 3000 * late)
    pd.testing.assert_frame_equal(areas_of(read(frame, TWO)), areas_of(read(restarted, TWO)))
    # Logged rates make the same schedule, boundary and all.
    every = logged({"both": TWO}, every=1)
    late = every["step"] > 3000
    log = every.assign(phase=np.where(late, "cpt", "pt"), step=every["step"] - 3000 * late)
    from_log = read(log, None)
    assert from_log.schedules["both"].boundary == 3000
    np.testing.assert_allclose(
        areas_of(from_log), areas_of(read(every, TWO)), rtol=1e-12, atol=1e-15
    )


def test_a_continual_phase_alone_is_refused_by_laws_of_both():
    table = pd.DataFrame({"run": "a", "step": [50.0, 100.0], "phase": "cpt", "loss": [3.0, 2.9]})
    curves = jl.read_loss_curves(table.assign(r=0.5), schedule="constant:lr=1e-3,steps=100")
    for law, other in (
        ("cpt-curve", "cpt-curve-unknown-base"),
        ("cpt-curve-replay-pt", "cpt-curve-replay-pt-unknown-base"),
    ):
        with pytest.raises(jl.DataError, match=f"continual phase alone.*fit law {other}, of which"):
            curves.runs().observations(law, ())
    assert len(curves.runs().observations("cpt-curve-unknown-base", ())) == 2


# ---------------------------------------------------------------- logged rates


def test_every_logged_rate_is_the_schedule():
    every = logged({"fall": SPECS["fall"]}, every=1)
    curves = read(every, None)
    np.testing.assert_array_equal(
        curves.schedules["fall"].rates, schedules.parse(SPECS["fall"]).rates
    )
    # Losses are logged at some steps only; the rates of the others count.
    some = read(every.assign(loss=every["loss"].where(every["step"] % 50 == 0)), None)
    np.testing.assert_allclose(
        areas_of(some), areas_of(curves)[every["step"].to_numpy() % 50 == 0], rtol=1e-12
    )
    assert [note.code for note in some.rows.notes] == ["filtered"]
    with pytest.raises(jl.DataError, match="no learning rate is logged at steps 51 to 99"):
        read(every, None, where="step % 50 == 0", first_step=49, S1_before=0)


def test_rows_of_other_metrics_are_left_out():
    """An evaluation repeats the step of a training row; tags "vs samples" count samples as steps.

    Each is logged in a row of its own, and neither is a row of the other loss.
    """
    rates = {"lr": [3e-4, 2e-4, 1e-4]}
    train = pd.DataFrame({"step": [1, 2, 3], **rates, "loss": [6.0, 5.0, 4.0]})
    other = pd.DataFrame({"step": [2, 3, 256, 512], "val": [5.5, 4.5, np.nan, np.nan]})
    log = pd.concat([train, other.assign(tag=1.0)]).sort_values("step", kind="stable")
    by_train = jl.read_loss_curves(log)
    assert by_train.table["step"].tolist() == [1, 2, 3] and len(by_train.rows.notes) == 1
    by_val = jl.read_loss_curves(log, {"loss": "val"})
    assert by_val.table["loss"].tolist() == [5.5, 4.5]
    np.testing.assert_array_equal(areas_of(by_val), areas_of(by_train)[1:])


def test_a_rate_at_step_0_is_that_before_the_first():
    frame = pd.DataFrame({"step": [0, 1, 2, 3], "lr": [0.0, 1.0, 2.0, 2.0], "loss": [9, 4, 3, 2.0]})
    curves = jl.read_loss_curves(frame, name="a.csv")
    (schedule,) = curves.schedules.values()
    assert list(curves.run_schedules) == ["a"]
    assert schedule.initial_lr == 0.0 and schedule.rates.tolist() == [1.0, 2.0, 2.0]
    from_zero = jl.read_loss_curves(frame, first_step=-1)  # row 0 is after the first update
    assert next(iter(from_zero.schedules.values())).rates.tolist() == [0.0, 1.0, 2.0, 2.0]
    assert from_zero.runs().table["S1"].tolist() == [0.0, 1.0, 3.0, 5.0]


@pytest.mark.parametrize("fill,rate", [("hold", 4.0), ("linear", 3.0)])
def test_gaps_are_filled_on_request(fill, rate):
    frame = pd.DataFrame({"step": [1, 2, 4], "lr": [4.0, 4.0, 2.0], "loss": [3.0, 2.0, 1.0]})
    curves = jl.read_loss_curves(frame, fill=fill)
    assert next(iter(curves.schedules.values())).rates.tolist() == [4.0, 4.0, rate, 2.0]


def test_a_log_that_begins_late_needs_what_came_before():
    late = logged({"fall": SPECS["fall"]}, every=1).query("step >= 200")
    with pytest.raises(jl.UsageError) as error:
        read(late, None)
    assert_says(error, "run fall", "begins after step 199", "S1_before")
    before = schedules.parse(SPECS["fall"]).rates[:199].sum()
    result = areas_of(read(late, None, S1_before=before))
    whole = areas_of(read(logged({"fall": SPECS["fall"]}, every=1), None))
    np.testing.assert_allclose(result, whole[199:], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "change",
    [
        lambda lr: lr * 0.1,
        lambda lr: lr.shift(-2, fill_value=0.0),  # that of the next step is as trainers log it
        lambda lr: lr.shift(1, fill_value=0.0),
        lambda lr: lr.shift(-200),
        lambda lr: lr.where(lr.index != 3000, 1e-3),
    ],
)
def test_logged_rates_are_checked_against_the_declared(change):
    line = "cosine:peak=3e-4,steps=4000,warmup=200"
    table = logged({"a": line}, every=1)
    with pytest.raises(jl.DataError) as error:
        read(table.assign(lr=change(table["lr"])), line)
    assert_says(error, "column lr", "run a", "row ", "logged LR", "its schedule has", "warmup=")


def test_rows_that_where_leaves_out_are_not_those_of_another_run():
    table = two_sizes().sort_values("step", ignore_index=True)
    kept = read(table, None, where="size == 400")
    alone = read(table[table["size"] == 400], None)
    pd.testing.assert_frame_equal(areas_of(kept), areas_of(alone))
    table["before"] = table["size"] * 1e-3
    late = read(table, None, where="size == 400 and step > 100", S1_before="before")
    assert late.run_schedules["fall"].S1_before == 0.4
    with pytest.raises(jl.DataError, match="one loss a step|several values"):
        read(table, None)


def test_a_run_may_be_named_by_several_columns():
    table = two_sizes().rename(columns={"run": "schedule"})
    options = {"lines": None, "columns": {"run": ["size", "schedule"]}}
    curves = read(table, **options)
    assert list(curves.run_schedules) == ["25 fall", "400 fall"]
    alone = read(two_sizes().query("size == 400"), None)
    pd.testing.assert_frame_equal(areas_of(curves.only("400 fall")), areas_of(alone))
    assert "schedule" in curves.table and "size" in curves.table
    # A text with commas is the same.
    in_shell = read(table, None, columns={"run": "size, schedule"})
    assert list(in_shell.run_schedules) == list(curves.run_schedules)
    # A fit keeps it: the same columns name the runs of the next table.
    again, _ = in_shell.rows.reading.options({}, table.columns)
    assert again["columns"] == {"run": "size,schedule"}
    with pytest.raises(jl.DataError, match="no column sched .*Did you mean 'schedule'"):
        read(table, None, columns={"run": ["size", "sched"]})
    table.loc[7, "schedule"] = None
    with pytest.raises(jl.DataError, match="row 7 .*every row needs its run"):
        read(table, **options)


@pytest.mark.parametrize("unit", [1 / 2_097_152, "1/2097152"])
def test_steps_may_be_counted_in_tokens(unit):
    table = logged({"fall": SPECS["fall"]})
    tokens = table.assign(tokens=table["step"] * 2_097_152 + 1000.0).drop(columns="step")
    read_so = {"columns": {"step": "tokens"}, "units": {"step": unit}}
    curves = read(tokens, SPECS["fall"], **read_so)
    pd.testing.assert_frame_equal(areas_of(curves), areas_of(read(table, SPECS["fall"])))
    assert curves.rows.reading.units["step"] == pytest.approx(1 / 2_097_152)
    with pytest.raises(jl.UsageError, match="'1/0' is not a unit"):
        read(tokens, columns={"step": "tokens"}, units={"step": "1/0"})


# ---------------------------------------------------------------- what is refused


@pytest.mark.full
def test_a_fit_of_several_sizes_says_so():
    table = two_sizes().assign(size=lambda f: f["size"].map({25: "m-25M", 400: "m-400M"}))
    table = table.rename(columns={"size": "model"}).iloc[::100]
    table = table.drop(columns="lr")
    named = {"columns": {"run": ["run", "model"]}, "schedule": SPECS["fall"]}
    both = jl.read_loss_curves(table, **named)
    options = {"n_starts": 4, "n_local": 2}
    (note,) = [n for n in jl.fit("annealing", both, **options).notes if n.code == "mixed-runs"]
    assert "2 sizes in one fit (model is m-25M, m-400M)" in note.message
    where = "`model` == 'm-400M'"
    assert where in note.message
    one = jl.read_loss_curves(table, **named, where=where)
    codes = [note.code for note in jl.fit("annealing", one, **options).notes]
    assert "mixed-runs" not in codes


# ---------------------------------------------------------------- files


def test_files_of_one_run_each_are_one_table(tmp_path):
    frame, paths = scheduled(logged()), []
    for run, part in frame.groupby("run"):
        paths.append(tmp_path / f"{run}.csv")
        part.drop(columns="run").to_csv(paths[-1], index=False)
    curves = jl.read_loss_curves(paths)
    assert list(curves.run_schedules) == ["fall", "hold"]
    np.testing.assert_allclose(areas_of(curves), areas_of(read()), rtol=1e-12)
    part.assign(step=1.5).drop(columns="run").to_csv(paths[1], index=False)
    with pytest.raises(jl.DataError, match=r"lines hold\.csv:2 \(1\.5\)"):
        jl.read_loss_curves(paths)


rate = st.floats(0, 1, allow_subnormal=False)


@given(st.lists(rate, min_size=1, max_size=30), st.integers(0, 40), st.floats(0, 10))
def test_a_log_of_every_step_is_the_schedule_it_was_written_from(values, first, before):
    steps = np.arange(first + 1, first + 1 + len(values))
    frame = pd.DataFrame({"step": steps, "lr": values, "loss": 1.0})
    course = jl.read_loss_curves(frame, S1_before=before).run_schedules["DataFrame"]
    assert course.schedule.rates.tolist() == values
    assert (course.first_step, course.S1_before) == (first, before)


# ---------------------------------------------------------------- parts of curves


def test_only_and_without_part_the_rows():
    curves = read()
    assert list(curves.only("hold").schedules) == list(curves.without("fall").schedules) == ["hold"]
    late = curves.only(where="step > 2500")
    assert late.table["step"].min() == 2600 and len(late) == 2
    both = [curves.only("fall", where="step > 2500"), curves.without("fall", where="step > 2500")]
    assert sum(len(part.table) for part in both) == len(curves.table)
    weighted = read(weight="loss").only("hold")
    np.testing.assert_array_equal(weighted.rows.weight, weighted.table["loss"])
    with pytest.raises(jl.UsageError, match="Did you mean 'fall'"):
        curves.only("fal")
    with pytest.raises(jl.DataError, match="none of 70 rows is kept"):
        curves.without("fall", "hold")
    with pytest.raises(jl.DataError, match="none of 70 rows is kept"):
        curves.only(where="step > 1e9")


# ---------------------------------------------------------------- fits


def test_a_fit_of_curves_finds_the_truth_and_keeps_how_areas_were_counted(tmp_path):
    curves = read()
    fit = jl.fit("annealing", curves)
    assert fit.params == pytest.approx(TRUTH, rel=1e-5)
    assert fit.area_options == curves.runs().area_options
    assert "λ 0.999" in fit.summary(verbose=True)
    fit.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").area_options == fit.area_options


@needs_data
def test_real_rates_are_those_of_the_declared_schedules():
    curves = real_curves()
    assert len(curves) == 9
    for run, rows in curves.table.groupby("run"):
        rates = np.append(3e-4, real_schedules()[run].rates)  # the rate before is the peak
        np.testing.assert_allclose(rows["lr"], rates[rows["step"].astype(int) - 2160], rtol=1e-9)
