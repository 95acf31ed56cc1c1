"""Pictures show what they say they show."""

from types import SimpleNamespace

import numpy as np
import pytest

import jaxlaw as jl

plots = pytest.importorskip("jaxlaw.plots")

pytestmark = pytest.mark.usefixtures("closed")


@pytest.fixture(scope="module")
def demo():
    """The demo's runs, and fits without a search: the truth itself."""
    demo = jl.simulate.demo()
    columns = {"N": "n_params", "D": "n_tokens", "r_d": "domain_ratio"}
    columns |= {"loss_d": "domain_loss", "loss_g": "general_loss"}
    runs = jl.read_runs(demo.table, columns, {"N": 1, "D": 1})
    fits = {side: at_truth(runs.share(side), getattr(demo, side)) for side in ("general", "domain")}
    return SimpleNamespace(runs=runs, fits=fits)


def at_truth(runs, params):
    observed = runs.observations("dcpt")
    return jl.Fit(
        law=jl.laws.get("dcpt"), params=dict(params), objective=0.0,
        metrics={"r2": 1.0, "rmse": 0.0}, status="converged", agreement=1.0, n_starts=1,
        n_solved=1, runner_up=None, notes=(), units=observed.scale, ranges=observed.ranges,
        n_observations=len(observed), n_dropped=0, delta=1e-3, space="log", asymmetry=1.0,
    )  # fmt: skip


def points(ax):
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


DRAW = [plots.observed_against_predicted, plots.residuals, plots.loss_over_share]


@pytest.mark.parametrize("draw", DRAW)
def test_takes_and_returns_the_axes(demo, ax, draw):
    assert draw(demo.fits["domain"], demo.runs.share("domain"), ax) is ax
    assert ax.get_xlabel() and ax.get_ylabel()


@pytest.mark.parametrize("draw", DRAW)
def test_makes_its_own_axes(demo, draw):
    first, second = (draw(demo.fits["domain"], demo.runs.share("domain")) for _ in range(2))
    assert first.figure is not second.figure


def test_every_run_is_a_point_of_the_scatter(demo, ax):
    fit, runs = demo.fits["general"], demo.runs.share("general")
    shown = points(plots.observed_against_predicted(fit, runs, ax))
    table = demo.runs.table
    expected = fit.predict(N=table["N"], D=table["D"], r=1 - table["r_d"])
    np.testing.assert_allclose(shown[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(shown[:, 1], table["loss_g"])


def test_residuals_are_percent_of_the_prediction(demo, ax):
    fit, runs = demo.fits["domain"], demo.runs.share("domain")
    predicted, percent = points(plots.residuals(fit, runs, ax)).T
    np.testing.assert_allclose(predicted * (1 + percent / 100), demo.runs.table["loss_d"])
    assert 0.3 < percent.std() < 0.5  # the noise is 0.4 %
    assert np.abs(percent).max() < ax.get_ylim()[1] == -ax.get_ylim()[0]


def test_curves_over_share_are_the_law_through_the_data(demo, ax):
    fit = demo.fits["domain"]
    plots.loss_over_share(fit, demo.runs.share("domain"), ax)
    tokens = np.unique(demo.runs.table["D"])
    assert len(ax.lines) == 4
    assert [text.get_text() for text in ax.get_legend().get_texts()][0] == "D = 131 M tokens"
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
    plots.loss_over_share(demo.fits["domain"], SimpleNamespace(observations=unchecked(runs)), ax)
    assert len(ax.lines) == 1


def unchecked(runs):
    """Observations of runs with a single D, which a fit would refuse."""
    table = runs.table
    arrays = {name: table[name].to_numpy() / scale for name, scale in
              (("N", 1e9), ("D", 1e9), ("r", 1.0))}  # fmt: skip
    return lambda law: SimpleNamespace(inputs=arrays, target=table["loss"].to_numpy())


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
        delta=1e-3, space="log", asymmetry=1.0,
    )  # fmt: skip
    line = "wsd:peak=2e-4,steps=4000+cosine:peak=1e-4,steps=1000"
    return fit.predict_curve(line, areas={"decay": 0.999})


def test_a_loss_curve_is_shown_with_its_parts_and_its_rates(ax):
    table = continual()
    observed = {"step": [1000, 4500], "loss": [4.4, 4.2]}
    assert plots.loss_curve(table, observed, ax) is ax
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_array_equal(lines["predicted"], table["loss"])
    np.testing.assert_array_equal(lines["base"], table["base"])
    assert points_of(ax, "observed").tolist() == [[1000, 4.4], [4500, 4.2]]
    assert {"annealing", "shift"} <= {text.get_text() for text in ax.get_legend().get_texts()}
    low, high = ax.get_ylim()
    assert low < table["loss"].min() and 4.4 < high < table["loss"].max()
    (rates,) = ax.child_axes
    np.testing.assert_array_equal(rates.lines[0].get_ydata(), table["lr"])
    assert rates.get_xlabel() == "step" and rates.lines[1].get_xdata()[0] == 4001
    alone = plots.loss_curve(table[table["phase"] == "pt"])
    assert alone.figure is not ax.figure
    assert "shift" not in {text.get_text() for text in alone.get_legend().get_texts()}


def points_of(ax, label):
    (found,) = [c for c in ax.collections if c.get_label() == label]
    return np.asarray(found.get_offsets())
