"""Pictures show what they say they show."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from tests.conftest import named, texts
from tests.fixtures.studies import a_study

plots = pytest.importorskip("jaxlaw.plots")

pytestmark = pytest.mark.usefixtures("closed")


@pytest.fixture(scope="module")
def demo():
    """The demo's runs, and fits without a search: the truth itself."""
    demo = jl.simulate.demo()
    columns = {"N": "n_params", "D": "n_tokens", "r_d": "domain_ratio"}
    columns |= {"loss_d": "domain_loss", "loss_g": "general_loss"}
    runs = jl.read_runs(demo.table, columns, {"N": 1, "D": 1})
    fits = {
        side: at_truth(runs.for_corpus(side), getattr(demo, side)) for side in ("general", "domain")
    }
    return SimpleNamespace(runs=runs, fits=fits)


def at_truth(runs, params):
    observed = runs.observations("dcpt")
    return jl.Fit(
        law=jl.laws.get("dcpt"), params=dict(params), objective=0.0,
        metrics={"r2": 1.0, "rmse": 0.0}, status="converged", agreement=1.0, n_starts=1,
        n_solved=1, runner_up=None, notes=(), units=observed.scale, ranges=observed.ranges,
        n_observations=len(observed), n_dropped=0, delta=1e-3, residuals="log", asymmetry=1.0,
    )  # fmt: skip


def points(ax):
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


def test_every_run_is_a_point_of_the_scatter(demo, ax):
    fit, runs = demo.fits["general"], demo.runs.for_corpus("general")
    shown = points(plots.observed_against_predicted(fit, runs, ax))
    table = demo.runs.table
    expected = fit.predict(N=table["N"], D=table["D"], r=1 - table["r_d"])
    np.testing.assert_allclose(shown[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(shown[:, 1], table["loss_g"])


def test_residuals_are_percent_of_the_prediction(demo, ax):
    fit, runs = demo.fits["domain"], demo.runs.for_corpus("domain")
    predicted, percent = points(plots.residuals(fit, runs, ax)).T
    np.testing.assert_allclose(predicted * (1 + percent / 100), demo.runs.table["loss_d"])
    assert 0.3 < percent.std() < 0.5  # the noise is 0.4 %
    assert np.abs(percent).max() < ax.get_ylim()[1] == -ax.get_ylim()[0]


def test_curves_over_share_are_the_law_through_the_data(demo, ax):
    fit = demo.fits["domain"]
    plots.loss_over_share(fit, demo.runs.for_corpus("domain"), ax)
    tokens = np.unique(demo.runs.table["D"])
    assert len(ax.lines) == 4
    assert named(ax)[0] == "D = 131 M"
    assert ax.get_title() == "N = 4 B"
    for line, D in ((ax.lines[0], tokens[0]), (ax.lines[-1], tokens[-1])):
        r, curve = line.get_data()
        np.testing.assert_allclose(curve, fit.predict(N=4e9, D=D, r=r), rtol=1e-12)
    shown, table = points(ax), demo.runs.table
    assert len(shown) == 4 * table["r_d"].nunique()
    assert set(shown[:, 1]) <= set(table["loss_d"][table["N"] == 4e9])


def continual():
    """A fit of cpt-curve without a search, and its curve over two phases."""
    law = jl.laws.get("cpt-curve")
    fit = jl.Fit(
        law=law, params=dict(jl.simulate.TRUTHS["cpt-curve"]), objective=0.0,
        metrics={"r2": 1.0, "rmse": 0.0}, status="converged", agreement=1.0, n_starts=1,
        n_solved=1, runner_up=None, notes=(), units=dict.fromkeys(law.input_names, 1.0),
        ranges=dict.fromkeys(law.input_names, (0.0, 10.0)), n_observations=1, n_dropped=0,
        delta=1e-3, residuals="log", asymmetry=1.0,
    )  # fmt: skip
    line = "wsd:peak=2e-4,steps=4000+cosine:peak=1e-4,steps=1000"
    return fit.predict_curve(line, area_options={"decay": 0.999})


def test_a_loss_curve_is_shown_with_its_parts_and_its_rates(ax):
    table = continual()
    observed = {"step": [1000, 4500], "loss": [4.4, 4.2]}
    assert plots.loss_curve(table, observed, ax) is ax
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_array_equal(lines["predicted"], table["loss"])
    np.testing.assert_array_equal(lines["base"], table["base"])
    assert points_of(ax, "observed").tolist() == [[1000, 4.4], [4500, 4.2]]
    assert {"annealing", "shift", "predicted", "base", "observed"} == set(named(ax))
    low, high = ax.get_ylim()
    assert low < table["loss"].min() and 4.4 < high < table["loss"].max()
    (rates,) = ax.child_axes
    np.testing.assert_array_equal(rates.lines[0].get_ydata(), table["lr"])
    assert rates.get_xlabel() == "step" and rates.lines[1].get_xdata()[0] == 4001
    alone = plots.loss_curve(table[table["phase"] == "pt"])
    assert alone.figure is not ax.figure
    assert set(named(alone)) == {"annealing", "predicted", "base"}


def points_of(ax, label):
    (found,) = [c for c in ax.collections if c.get_label() == label]
    return np.asarray(found.get_offsets())


def test_held_out_runs_are_hollow_on_grey_ground(demo, ax):
    runs = demo.runs.for_corpus("domain")
    tokens = runs.table["D"].to_numpy()
    out = tokens > 2e9
    fit = replace(demo.fits["domain"], ranges=demo.fits["domain"].ranges | {"D": (1.4e8, 2e9)})
    plots.loss_over_input(fit, runs, "D", ax, by="r", held_out=out)
    full, hollow = ax.collections
    assert (full.get_offsets()[:, 0] <= 2e9).all() and (hollow.get_offsets()[:, 0] > 2e9).all()
    at_share = np.isin(runs.table["r_d"], [0, 0.33, 0.67, 1]) & (runs.table["N"] == 4e9)
    assert len(hollow.get_offsets()) == (out & at_share).sum()
    np.testing.assert_array_equal(hollow.get_facecolors()[0], [1, 1, 1, 1])
    left, right = sorted((one.get_x(), one.get_x() + one.get_width()) for one in ax.patches)
    assert left[1] == 1.4e8 and right[0] == 2e9 and "beyond the runs" in texts(ax)
    assert ax.get_title(loc="left") == "● fitted  ○ held out" and ax.get_title() == "N = 4 B"
    assert named(ax) == ["r = 0", "r = 0.33", "r = 0.67", "r = 1"]


def test_without_runs_the_curves_span_the_fitted_ranges(demo, ax):
    fit = demo.fits["domain"]
    plots.loss_over_input(fit, None, "N", ax, by="D", at={"r": 0.5}, curves=2)
    assert named(ax) == ["D = 131 M", "D = 2.62 B"] and ax.get_title() == "r = 0.5"
    N, loss = ax.lines[0].get_data()
    np.testing.assert_allclose(N[[0, -1]], [2.5e8, 8e9])
    np.testing.assert_allclose(loss, fit.predict(N=N, D=fit.ranges["D"][0], r=0.5))
    with pytest.raises(jl.UsageError, match="no input 'n'"):
        plots.loss_over_input(fit, None, "n")
    with pytest.raises(jl.UsageError, match="held_out has 3 values"):
        plots.loss_over_input(fit, demo.runs.for_corpus("domain"), "D", held_out=[1, 0, 1])


def test_ends_of_starts(demo, ax):
    ends = ((2.0, 0.5), (2.2, 0.25), (10.0, 0.125))
    fit = replace(demo.fits["domain"], optima=ends, n_solved=16)
    plots.starts_agreement(fit, ax)
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.25, 0.125, 0.125]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["best", "+10 %", "× 5", "others"]
    assert texts(ax) == ["8 starts", "4 starts", "2 starts", "2 starts"]
    with pytest.raises(jl.UsageError, match="fit the runs again"):
        plots.starts_agreement(demo.fits["domain"])


INTERVALS = pd.DataFrame(
    {"parameter": ["E", "A"], "estimate": [2.0, 400.0], "std_err": [0.1, 30.0],
     "low": [1.8, 300.0], "high": [2.1, 500.0]}
)  # fmt: skip


def test_intervals_share_an_axis_in_percent(ax):
    plots.parameter_intervals(INTERVALS, ax)
    lines = ax.collections[0].get_segments()
    np.testing.assert_allclose([line[:, 0] for line in lines], [[-10, 5], [-25, 25]])
    assert texts(ax)[0] == "2  (1.8 to 2.1)"
    with pytest.raises(jl.UsageError, match="no parameter"):
        plots.parameter_intervals(INTERVALS.assign(high=np.inf))


def test_a_profile_with_its_interval(chinchilla_fit, ax):
    value = np.linspace(0.28, 0.38, 21)
    table = pd.DataFrame({"value": value, "objective": 1.0, "root": (value - 0.33) / 0.01})
    found = jl.uncertainty.Profile(chinchilla_fit, "alpha", table, 0.33, 0.01, 200, ())
    plots.objective_profile(found, ax)
    low, high = found.interval().low, found.interval().high
    (ground,) = ax.patches
    assert (ground.get_x(), ground.get_x() + ground.get_width()) == pytest.approx((low, high))
    assert f"0.33 ({low:.4g} to {high:.4g})" in texts(ax) and "95%" in named(ax)
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), np.abs(table["root"]))


def test_every_fold_is_a_dot(ax):
    study = a_study()
    plots.fold_scores(study, "huber", ax, data="code")
    mine = study.frame[study.frame["data"] == "code"]
    shown = np.sort(points(ax)[:, 0][np.isfinite(points(ax)[:, 0])])
    assert set(mine["huber"]) <= set(shown)
    hollow = [c.get_offsets()[:, 0] for c in ax.collections[1::3]]
    np.testing.assert_allclose(
        np.sort(np.concatenate(hollow)), np.sort(mine["huber"][mine["extrapolates"]])
    )


# --- designs, scores, turning points


def test_scores_are_errors_of_the_observed_and_hollow_beyond_the_ranges(demo, ax):
    fit, runs = demo.fits["domain"], demo.runs.for_corpus("domain")
    narrow = replace(fit, ranges=fit.ranges | {"N": (0.0, float(runs.table["N"].median()))})
    scores = narrow.score(runs)
    scores.plot(ax)
    inside, outside = ax.collections
    flags = scores.table["outside"].to_numpy(bool)
    assert 0 < flags.sum() < len(flags)
    for drawn, own in ((inside, ~flags), (outside, flags)):
        expected = scores.table.loc[own, ["predicted", "relative_error"]] * [1, 100]
        np.testing.assert_allclose(drawn.get_offsets(), expected)
    assert any(
        f"off by {100 * scores.mean_absolute_relative_error:.3g} %" in text for text in texts(ax)
    )
    assert "○ beyond the fitted ranges" in ax.get_title()
    nothing = replace(scores, tables={"table": scores.table.iloc[:0]})
    with pytest.raises(jl.UsageError, match="no run has both"):
        nothing.plot()


# --- what is no picture


def test_what_is_missing_from_a_picture_is_named_or_taken_from_the_fit(chinchilla_fit, ax):
    low, high = chinchilla_fit.joint_ranges["N*D"]  # of the runs, which are off the edges
    plots.isoloss(chinchilla_fit, ax=ax)
    assert ax.get_xlim() == pytest.approx((6 * low / 1.3, 6 * high * 1.3))
    with pytest.raises(jl.UsageError, match=r"computes is missing.*give computes=\(1e19, 1e23\)"):
        plots.isoloss(("chinchilla", chinchilla_fit.params))
    for wrong in ([1e19, 1e20, 1e21], 1e20, (0.0, 1e20), (1e21, 1e20), ("a", "b")):
        with pytest.raises(jl.UsageError, match="isoloss: computes"):
            plots.isoloss(chinchilla_fit, wrong)
    shifts = pd.DataFrame({"run": ["a"] * 3, "S1_cpt": [0.1, 0.5, 1.0], "shift": [0.05, 0.2, 0.2]})
    with pytest.raises(jl.UsageError, match="shift_curves: ax is .*must be an Axes of matplotlib"):
        plots.shift_curves(shifts, chinchilla_fit, chinchilla_fit)
