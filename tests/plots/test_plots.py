"""Pictures show what they say they show."""

import inspect
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from tests.conftest import named, texts
from tests.fixtures.studies import a_study

plots = pytest.importorskip("jaxlaw.plots")
from jaxlaw import _axes as style  # noqa: E402

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


@pytest.mark.parametrize("times", [1.1, 1.6, 2.0, 2.6, 4, 4.6, 10, 300, 1e6])
@pytest.mark.parametrize("least", [1.1, 2.2, 5.5, 9.5])
def test_a_logarithmic_axis_has_two_labels_or_more(ax, least, times):
    ax.plot([least, least * times], [1, 2])
    style.log_axis(ax.xaxis)
    low, high = ax.get_xlim()
    assert sum(low <= tick <= high for tick in ax.get_xticks()) >= 2


DRAW = [plots.observed_against_predicted, plots.residuals, plots.loss_over_share]


@pytest.mark.parametrize("draw", DRAW)
def test_takes_and_returns_the_axes(demo, ax, draw):
    assert draw(demo.fits["domain"], demo.runs.for_corpus("domain"), ax) is ax
    assert ax.get_xlabel() and ax.get_ylabel()


@pytest.mark.parametrize("draw", DRAW)
def test_makes_its_own_axes(demo, draw):
    first, second = (draw(demo.fits["domain"], demo.runs.for_corpus("domain")) for _ in range(2))
    assert first.figure is not second.figure


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


def test_one_token_count_gives_one_curve(demo, ax):
    runs = jl.read_runs(
        demo.runs.table.query("D == D.max()"),
        {"r": "r_d", "loss": "loss_d"},
        {"N": 1, "D": 1},
    )  # fmt: skip
    plots.loss_over_share(demo.fits["domain"], runs, ax)  # a fit would refuse a single D
    assert len(ax.lines) == 1


@pytest.mark.full
def test_the_figure_of_the_demo_has_a_row_a_corpus(demo, tmp_path):
    figure = plots.demo_figure(demo.fits, demo.runs)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["general corpus, N = 4 B", "domain corpus, N = 4 B"]
    assert len(figure.axes) == 6
    figure.savefig(tmp_path / "demo.png", dpi=40)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


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


def test_residuals_below_the_predictions(demo, ax):
    fit, runs = demo.fits["domain"], demo.runs.for_corpus("domain")
    plots.observed_against_predicted(fit, runs, ax, residual_panel=True)
    (below,) = ax.child_axes
    assert len(points(below)) == len(runs) and below.get_xlabel() == "predicted loss (nats)"


@pytest.mark.parametrize("draw", [plots.observed_against_predicted, plots.residuals])
def test_runs_may_be_a_file_a_table_or_read_already(chinchilla_fit, tmp_path, draw):
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    table.to_csv(tmp_path / "runs.csv", index=False)
    again = table.set_axis([0] * len(table), axis=0)
    expected = draw(chinchilla_fit, jl.read_runs(table)).collections[0].get_offsets()
    for runs in (tmp_path / "runs.csv", str(tmp_path / "runs.csv"), table, again, dict(table)):
        shown = draw(chinchilla_fit, runs).collections[0].get_offsets()
        np.testing.assert_allclose(shown, expected, rtol=1e-12)
    with pytest.raises(jl.UsageError, match="no file none.csv"):
        draw(chinchilla_fit, "none.csv")
    with pytest.raises(jl.DataError, match="no column D"):
        draw(chinchilla_fit, table.drop(columns="D"))


@pytest.mark.full
def test_tables_are_drawn_over_shares_inputs_and_compute(chinchilla_fit, ax):
    table = jl.simulate.experiment("dcpt", noise=0.004).table
    again = table.rename(columns={"N": "n_params"}).set_axis([7] * len(table), axis=0)
    again["n_params"] /= 1e9
    fit = jl.fit("dcpt", again, columns={"N": "n_params"}, units={"N": 1e9}, n_starts=64)
    shown = plots.loss_over_share(fit, again, ax).collections[0].get_offsets()
    read = jl.read_runs(again, {"N": "n_params"}, {"N": 1e9})
    expected = plots.loss_over_share(fit, read).collections[0].get_offsets()
    np.testing.assert_array_equal(shown, expected)
    bad = again.assign(loss=[np.nan, *again["loss"][1:]])
    held_out = np.arange(len(bad)) % 2 == 0
    runs = jl.read_runs(bad, {"N": "n_params"}, {"N": 1e9}, drop_invalid=True)
    plots.loss_over_input(fit, runs, "D", held_out=held_out)
    few = jl.simulate.experiment("chinchilla").table.iloc[:2]
    drawn = plots.isoloss(chinchilla_fit, (1e19, 1e21), runs=few)
    assert any(len(one.get_offsets()) == 2 for one in drawn.collections)


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


def test_runs_that_share_no_value_have_the_colours_of_their_own(chinchilla_fit, ax):
    runs = jl.read_runs(jl.simulate.experiment("chinchilla", noise=0.004).table)
    plots.loss_over_input(chinchilla_fit, runs, "D", ax)
    (shown,) = ax.collections
    assert len(shown.get_offsets()) == len(runs)
    colors = shown.get_facecolors()[:, :3]
    largest = np.argmax(runs.table["N"])
    np.testing.assert_allclose(colors[largest], ax.lines[-1].get_color()[:3])
    assert len(np.unique(colors, axis=0)) > 50


def test_ends_of_starts(demo, ax):
    ends = ((2.0, 0.5), (2.2, 0.25), (10.0, 0.125))
    fit = replace(demo.fits["domain"], optima=ends, n_solved=16)
    plots.starts_agreement(fit, ax)
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.25, 0.125, 0.125]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["best", "+10 %", "× 5", "others"]
    assert texts(ax) == ["8 starts", "4 starts", "2 starts", "2 starts"]
    with pytest.raises(jl.UsageError, match="fit the runs again"):
        plots.starts_agreement(demo.fits["domain"])


def test_a_fit_knows_where_its_starts_ended(chinchilla_fit):
    (objective, share), *_ = chinchilla_fit.optima
    assert objective == pytest.approx(chinchilla_fit.objective, rel=1e-6)
    assert share == chinchilla_fit.agreement and sum(s for _, s in chinchilla_fit.optima) <= 1


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


def test_a_table_of_scores_is_dark_where_a_law_is_behind(ax):
    study = a_study()
    plots.score_table(study, "huber", ax)
    scores = study.table["huber"].to_numpy()
    behind = np.asarray(ax.images[0].get_array())
    expected = np.log(np.minimum(scores / scores.min(axis=0), 10))
    np.testing.assert_allclose(behind, expected)
    bold = [text.get_text() for text in ax.texts if text.get_fontweight() == "bold"]
    assert sorted(bold) == sorted(f"{one:.3g}" for one in scores.min(axis=0))
    plots.score_table(study, "r2", centre="median")
    data = study.frame["data"]
    alone = replace(study, frame=study.frame[data == data.iloc[0]])
    assert [text.get_text() for text in plots.score_table(alone).get_xticklabels()] == [""]


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


def test_names_that_would_touch_move_apart(ax):
    ax.set_ylim(0, 1)
    style.label_curves(ax, [(0.5, "a", "k"), (0.5, "b", "k"), (0.99, "c", "k"), (1.0, "d", "k")])
    heights = [text.xy[1] for text in ax.texts]
    assert np.diff(heights).min() > 0.03 and heights[-1] <= 1
    assert abs(heights[0] - 0.5) < 1e-12


@pytest.mark.parametrize(
    "low,high,words,labels",
    [
        (1e8, 1e12, True, ["100 M", "1 B", "10 B", "100 B", "1 T"]),
        (1e8, 3e9, True, ["100 M", "300 M", "1 B", "3 B"]),
        (1e19, 1e22, False, ["10¹⁹", "10²⁰", "10²¹", "10²²"]),
    ],
)
def test_ticks_of_logarithms_can_be_read(ax, low, high, words, labels):
    ax.set_xlim(low, high)
    style.log_axis(ax.xaxis, words=words)
    ax.figure.canvas.draw()
    shown = [tick.label1.get_text() for tick in ax.xaxis.get_major_ticks()
             if low * 0.99 <= tick.get_loc() <= high * 1.01]  # fmt: skip
    assert shown == labels


def test_a_loose_parameter_does_not_flatten_the_other_intervals(ax):
    estimate = np.array([300.0, 400.0, 1.7, 0.34])
    table = pd.DataFrame(
        {"parameter": ["A", "B", "E", "alpha"], "estimate": estimate, "low": 0.9 * estimate,
         "high": [330.0, 9e4, 1.8, 0.36]}
    )  # fmt: skip
    plots.parameter_intervals(table, ax)
    low, high = ax.get_xlim()
    assert -15 < low < -10 and 10 < high < 15  # per cent: those of A, not the 22,000 of B
    beyond = [at for at in points(ax) if abs(at[0]) > 0.99 * 10]
    assert [at[1] for at in beyond] == [2]  # one arrow, in the row of B
    assert "goes on" in ax.get_xlabel()
    assert "400  (360 to 9e+04)" in texts(ax)


def test_intervals_of_like_length_are_drawn_whole(ax):
    plots.parameter_intervals(INTERVALS, ax)
    assert "goes on" not in ax.get_xlabel()
    segments = np.concatenate(ax.collections[0].get_segments())
    assert segments[:, 0].min() >= ax.get_xlim()[0] and segments[:, 0].max() <= ax.get_xlim()[1]


def test_a_count_of_tokens_under_any_name_is_logarithmic(own_laws, chinchilla_fit, ax):
    known = chinchilla_fit.law
    spec = {"D": jl.laws.Input("U"), "N": jl.laws.Input("N", "parameters", 1.0, "positive")}
    law = replace(known, name="of-unique-tokens", inputs=(spec["N"], spec["D"]))
    ranges = {"N": chinchilla_fit.ranges["N"], "U": chinchilla_fit.ranges["D"]}
    fit = replace(chinchilla_fit, law=law, ranges=ranges, units={"N": 1.0, "U": 1.0})
    plots.loss_over_input(fit, None, "U", ax)
    assert ax.get_xscale() == "log"
    assert ax.get_xlim() == pytest.approx(ranges["U"])  # the law may not exist beyond


def test_labels_of_steps_do_not_touch():
    schedule = jl.schedules.cosine(3e-4, 1_000_000)
    figure, axes = matplotlib_figure((4.8, 3.4), font=11)
    prediction = pd.DataFrame(
        {"step": np.arange(1, 1_000_001, 1000), "lr": schedule.rates[::1000]}
    ).assign(loss=3.0, base=3.0, annealing=0.0)
    plots.loss_curve(prediction, ax=axes)
    figure.canvas.draw()
    below = axes.child_axes[0]
    boxes = [one.get_window_extent() for one in below.get_xticklabels() if one.get_text()]
    boxes = sorted((box.x0, box.x1) for box in boxes)
    assert len(boxes) > 2
    assert all(left[1] < right[0] for left, right in zip(boxes, boxes[1:], strict=False))


def matplotlib_figure(size, font):
    """A figure as a report draws it: small, with letters that are readable on a telephone."""
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": font}):
        return plt.subplots(figsize=size, layout="constrained")


def test_slopes_over_the_share_are_those_of_the_table():
    grid = np.meshgrid([0.5, 1.8], [0.5, 1.0, 1.5, 2.0], [0.1, 0.5, 0.9], indexing="ij")
    inputs = dict(zip("NDr", (axis.ravel() for axis in grid), strict=True))
    made = jl.simulate.simulate_runs("dcpt", jl.simulate.TRUTHS["dcpt"], inputs)
    table = jl.papers.loss_slopes(made).query("N == 1.8")
    for ax in (plots.slopes_over_share(made), plots.slopes_over_share(table, N=1.8)):
        lines = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 3]
        np.testing.assert_array_equal(np.concatenate(lines), table["slope"])
        named = [text.get_text() for text in ax.texts if text.get_text()]
        assert named == ["D 1 B tokens", "D 2 B tokens"] and ax.get_title() == "N 1.8 B parameters"
        assert "nats per 1 B tokens" in ax.get_ylabel()
    bare = pd.DataFrame(table.to_dict("list"))  # as of a file, which says no unit
    ax = plots.slopes_over_share(bare)
    assert "per unit of D" in ax.get_ylabel() and ax.get_title() == "N = 1.8"
    with pytest.raises(jl.UsageError, match="no run has N = 7"):
        plots.slopes_over_share(made, N=7)


# --- designs, scores, turning points


def test_evaluations_are_counted_up_to_their_budget(ax):
    chosen = jl.design.evaluation_steps(10, 20_000)
    assert chosen.plot(ax) is ax
    np.testing.assert_array_equal(points(ax)[:10], np.c_[chosen.steps, np.arange(1, 11)])
    assert ax.get_title() == "M4, λ = 0.07469: 10 evaluations; dashed: at equal distances"
    assert "6 of 10 in the first half" in texts(ax)


def next_runs(rows, **more):
    units = {"N": ("parameters", 1e9), "sd": ("share", 1.0)}
    units |= dict.fromkeys(("before", "after"), ("share", 1.0))
    return jl.design.NextRuns(rows, 0.02, float(rows["sd"].iloc[-1]), 0.004, "c", (), units, **more)


def test_every_run_lowers_the_standard_deviation_in_its_own_row(ax):
    """The evaluations of a run share a row; numbers have their units, words their column."""
    rows = {"N": [1.0, 7.0, 7.0], "corpus": ["c4", "pile", "pile"], "sd": [0.015, 0.01, 0.01]}
    next_runs(pd.DataFrame(rows)).plot(ax)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["now", "+ N 1 B, corpus c4", "+ N 7 B, corpus pile"]
    np.testing.assert_array_equal(points(ax)[:3], [[0.02, 2], [0.015, 1], [0.01, 0]])
    assert ax.get_title() == "2 runs: 2 % → 1 %"
    none = plots.runs_to_make(next_runs(pd.DataFrame(rows).iloc[:1]))
    assert none.get_title() == "1 run: 2 % → 1.5 %"


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
    assert any(f"off by {100 * scores.relative_error:.3g} %" in text for text in texts(ax))
    assert "○ beyond the fitted ranges" in ax.get_title()
    nothing = replace(scores, table=scores.table.iloc[:0])
    with pytest.raises(jl.UsageError, match="no run has both"):
        nothing.plot()


def test_the_turn_of_the_trend_is_between_what_rises_and_what_falls(ax):
    trends = pd.DataFrame({"r": [0.05, 0.1, 0.2], "slope": [0.01, 0.002, -0.02], "error": 1e-3})
    turn = jl.papers.InflectionRatio(
        ratio=0.11, interval=(0.1, 0.12), bracket=(0.05, 0.2), flat=0.11, trends=trends
    )
    turn.plot(ax)
    assert "the fits meet at 11 % (95%: 10 to 12 %)" in texts(ax)
    assert ax.get_title().startswith("the loss turns at a share of 5 to 20 % (band)")
    replace(turn, ratio=np.nan).plot(second := style.new_axes())
    assert "slopes pass zero at 11 %" in texts(second)
    none = replace(turn, bracket=(np.nan, np.nan)).plot()
    assert none.get_title().startswith("no inflection") and not texts(none)


# --- what is no picture


NOT_DRAWN = [
    object(), 3, "x", {}, [], None, [1.0, 2.0], np.ones(3), pd.DataFrame(), {"N": [1.0]},
    pd.DataFrame({"a": [1.0]}), jl.published(),
]  # fmt: skip


@pytest.mark.parametrize("name", plots.__all__)
def test_what_cannot_be_drawn_is_refused_by_name(name):
    """Every picture, without arguments, with others, and with what are no axes."""
    draw = getattr(plots, name)
    required = [
        parameter
        for parameter in inspect.signature(draw).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    with pytest.raises(jl.UsageError, match="missing a required argument"):
        draw()
    for value in NOT_DRAWN:
        with pytest.raises(jl.JaxlawError):
            draw(*(value for _ in required))
    if "ax" in inspect.signature(draw).parameters:
        with pytest.raises(jl.UsageError, match="must be"):
            draw(*(object() for _ in required), ax=3)


def test_a_fit_draws_itself_with_runs_and_without(chinchilla_fit, ax):
    alone = chinchilla_fit.plot(ax)
    assert alone is ax and ax.get_xlabel() == "training tokens D" and not ax.collections
    runs = jl.simulate.experiment("chinchilla", noise=0.004).table
    over = chinchilla_fit.plot(runs=runs, along="N")
    assert over.get_xlabel() == "model parameters N" and over.collections


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
