"""Pictures show what they say they show."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from tests.conftest import named, texts
from tests.fixtures.studies import a_study, profile_of

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
    (below,) = ax.child_axes
    predicted, percent = points(below).T
    np.testing.assert_allclose(predicted * (1 + percent / 100), table["loss_g"])
    assert 0.3 < percent.std() < 0.5  # the noise is 0.4 %
    assert np.abs(percent).max() < below.get_ylim()[1] == -below.get_ylim()[0]


def points_of(ax, label):
    (found,) = [c for c in ax.collections if c.get_label() == label]
    return np.asarray(found.get_offsets())


def test_held_out_runs_are_hollow_on_shaded_ground(demo, ax):
    runs = demo.runs.for_corpus("domain")
    tokens = runs.table["D"].to_numpy()
    out = tokens > 2e9
    fit = replace(demo.fits["domain"], ranges=demo.fits["domain"].ranges | {"D": (1.4e8, 2e9)})
    plots.loss_over_input(fit, runs, "D", ax, by="r", held_out=out)
    full, hollow = ax.collections
    assert (full.get_offsets()[:, 0] <= 2e9).all() and (hollow.get_offsets()[:, 0] > 2e9).all()
    assert len(hollow.get_offsets()) == (out & (runs.table["N"] == 4e9)).sum()
    np.testing.assert_array_equal(hollow.get_facecolors()[0], [1, 1, 1, 1])
    left, right = sorted((one.get_x(), one.get_x() + one.get_width()) for one in ax.patches)
    assert left[1] == 1.4e8 and right[0] == 2e9 and "shaded: beyond the runs" in ax.get_title()
    assert ax.get_title().startswith("N = 4 B; ● fitted  ○ held out")
    assert named(ax) == [f"r = {share:g}" for share in sorted(1 - runs.table["r_d"].unique())]


def test_without_runs_the_curves_span_the_fitted_ranges(demo, ax):
    fit = demo.fits["domain"]
    plots.loss_over_input(fit, None, "N", ax, by="D", at={"r": 0.5})
    assert named(ax)[::3] == ["D = 131 M", "D = 2.62 B"]
    assert ax.get_title() == "r = 0.5; shaded: beyond the runs"
    N, loss = ax.lines[0].get_data()
    np.testing.assert_allclose(N[[0, -1]], [2.5e8, 8e9])
    np.testing.assert_allclose(loss, fit.predict(N=N, D=fit.ranges["D"][0], r=0.5))
    with pytest.raises(jl.UsageError, match="no input 'n'"):
        plots.loss_over_input(fit, None, "n")
    with pytest.raises(jl.UsageError, match="held_out has 3 values"):
        plots.loss_over_input(fit, demo.runs.for_corpus("domain"), "D", held_out=[1, 0, 1])


@pytest.fixture(scope="module")
def five():
    """A fit of five sizes at five ratios each, and its runs."""
    law, sizes = jl.published()["hoffmann-2022"], [1.25e8, 3.5e8, 7.6e8, 1.3e9, 2.7e9]
    N, ratio = (each.ravel() for each in np.meshgrid(sizes, [5, 20, 50, 100, 200]))
    runs = pd.DataFrame({"N": N, "D": N * ratio})
    noise = 0.004 * np.random.default_rng(0).normal(size=len(runs))
    return jl.fit("chinchilla", runs.assign(loss=law.predict(runs) * np.exp(noise)))


def test_a_saved_fit_has_a_curve_for_each_size_with_its_runs(five, ax, tmp_path):
    five.save(tmp_path / "fit.json")
    jl.load(tmp_path / "fit.json").plot(ax)
    assert named(ax) == ["N = 125 M", "N = 350 M", "N = 760 M", "N = 1.3 B", "N = 2.7 B"]
    shown = {tuple(row) for row in points(ax)}
    assert shown == set(five.observed[["D", "loss"]].itertuples(index=False, name=None))
    low, high = ax.get_ylim()
    assert low < five.observed["loss"].min() and five.observed["loss"].max() < high


def test_a_target_and_its_interval_are_inside_the_frame(five, ax):
    five.plot(ax, at={"N": "13B", "D": "2T"})
    assert len(named(ax)) == 6 and "N = 13 B" in named(ax)
    (bar,) = [one for one in ax.collections if not len(one.get_offsets()) > 1 and one.get_paths()
              and len(one.get_paths()[0].vertices) == 2]  # fmt: skip
    found = jl.uncertainty.prediction(five, at={"N": 13e9, "D": 2e12}).quantities["loss"]
    (at, bottom), (_, top) = bar.get_paths()[0].vertices
    assert (at, bottom, top) == pytest.approx((2e12, found.low, found.high))
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert left < at < right and low < bottom < top < high
    assert any(text.endswith(f"\n{found}") for text in texts(ax))


def test_coefficients_of_unknown_ranges_need_runs_or_a_target(ax):
    published = jl.published()["besiroglu-2024"]
    with pytest.raises(jl.UsageError, match="fitted ranges are unknown: pass runs="):
        published.plot(ax)
    published.plot(ax, at={"N": "7B", "D": "1T"})
    assert f"N = 7 B\n{published.predict(N='7B', D='1T'):.4g} nats" in texts(ax)


def test_a_size_beyond_the_runs_is_shaded_over_all_tokens(five, ax):
    five.plot(ax, at={"N": "13B"})
    (shade,) = ax.patches
    assert (shade.get_x(), shade.get_x() + shade.get_width()) == pytest.approx(ax.get_xlim())


def test_of_many_sizes_eight_have_curves_and_all_runs_are_drawn(ax):
    runs = jl.simulate.experiment("chinchilla", noise=0.004).table
    fit = jl.FittedLaw("chinchilla", jl.simulate.TRUTHS["chinchilla"])
    plots.loss_over_input(fit, runs, ax=ax)
    assert len(named(ax)) == 8 and len(points(ax)) == len(runs)


def test_colours_can_be_seen_on_a_dark_ground(five):
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb

    with plt.style.context("dark_background"):
        ax = five.plot()
    drawn = [to_rgb(one.get_color()) for one in (*ax.lines, *ax.texts, ax.title)]
    assert all(max(color) > 0.5 for color in drawn)


@pytest.mark.parametrize("values", [[1e-5, 2e-4], [2.60001, 2.60002], [1e5, 3e5]])
def test_ticks_have_no_offset(ax, values):
    from jaxlaw._axes import tidy

    ax.plot([1, 2], values)
    tidy(ax).figure.canvas.draw()
    assert ax.yaxis.get_offset_text().get_text() == ""


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
    found = profile_of(chinchilla_fit, table, 0.33, (0.31, 0.35))
    plots.objective_profile(found, ax)
    low, high = found.interval["alpha"]
    (ground,) = ax.patches
    assert (ground.get_x(), ground.get_x() + ground.get_width()) == pytest.approx((low, high))
    assert f"0.33 ({low:.4g} to {high:.4g})" in texts(ax) and "95%" in named(ax)
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), np.abs(table["root"]))


def test_every_fold_is_a_dot(ax):
    study = a_study()
    plots.fold_scores(study, ax, data="code")
    mine = study.frame[study.frame["data"] == "code"]
    shown = np.sort(points(ax)[:, 0][np.isfinite(points(ax)[:, 0])])
    assert set(mine["huber"]) <= set(shown)
    hollow = [c.get_offsets()[:, 0] for c in ax.collections[1::3]]
    np.testing.assert_allclose(
        np.sort(np.concatenate(hollow)), np.sort(mine["huber"][mine["extrapolates"]])
    )
