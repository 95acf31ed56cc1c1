"""Pictures of plans show what the plans say."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.conftest import named, texts
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, GENERAL, SCRATCH, drawn, scattered

pictures = pytest.importorskip("jaxlaw.plots")

pytestmark = pytest.mark.usefixtures("closed")

AT = {"N": 1.8e9, "D": 1e10}


@pytest.fixture(scope="module")
def mixture():
    return planning.optimal_mixture(drawn(GENERAL), drawn(DOMAIN), start=2.8602, at=AT)


def test_the_trade_off(mixture, ax):
    assert mixture.plot(ax) is ax
    curve = mixture.points["curve"]
    line = next(one for one in ax.lines if len(one.get_xdata()) == len(curve))
    np.testing.assert_array_equal(line.get_xdata(), curve["general_loss"])
    assert f"r_d = {mixture.quantities['share']}" in " ".join(texts(ax))
    at = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    assert (mixture.general_loss, mixture.domain_loss) in [tuple(row) for row in at]


def test_the_trade_off_has_the_runs_next_to_it_and_says_its_size_and_tokens(ax):
    runs = jl.read_runs(
        {"N": [1.8e9, 1.8e9, 1.8e9, 4e9], "D": [9e9, 9e9, 1e9, 9e9], "r_d": [0.2, 0.6, 0.6, 0.6],
         "loss_g": [2.62, 2.7, 2.8, 2.5], "loss_d": [2.2, 1.8, 1.9, 1.7]}
    )  # fmt: skip
    plan = planning.optimal_mixture(GENERAL, DOMAIN, start=2.8, at={"N": 1.8, "D": 10.0})
    plan.plot(ax, runs=runs)
    at = [tuple(row) for c in ax.collections for row in np.asarray(c.get_offsets())]
    assert {(2.62, 2.2), (2.7, 1.8)} <= {*at} and not {(2.8, 1.9), (2.5, 1.7)} & {*at}
    title = ax.get_title().replace("\n", " ")
    assert "N = 1.8 B, D = 10 B" in title and "runs of N = 1.8 B, D = 9 B" in title


def test_little_domain_data(ax):
    little, much = (
        planning.optimal_mixture_data_limited(drawn(DOMAIN), tokens, at={"N": 1.8e9})
        for tokens in (5e7, 1e9)
    )
    assert little.plot(ax) is ax and much.plot(ax, color="red") is ax
    assert f"r_d = {little.quantities['share']}" in " ".join(texts(ax))
    assert ax.lines[0].get_ydata().min() == pytest.approx(little.loss, abs=1e-5)
    assert named(ax) == ["50 M tokens", "1 B tokens"]
    one, other = (t.get_window_extent() for t in ax.texts if "r_d" in t.get_text())
    assert not one.overlaps(other)
    for line in [each for each in ax.lines if len(each.get_xdata()) > 2]:
        path = line.get_transform().transform_path(line.get_path())
        assert not path.intersects_bbox(one) and not path.intersects_bbox(other)


def test_contours_with_the_best_size(ax):
    boot = scattered()
    assert pictures.isoloss(boot, (1e19, 1e23), ax, label="scratch") is ax
    line = ax.lines[0]
    k = 60
    budget, N = line.get_xdata()[k], line.get_ydata()[k]
    assert planning.allocation(boot, budget).N == pytest.approx(N, rel=1e-9)
    pictures.isoloss(CONTINUAL, (1e19, 1e23), ax, color="#c05621", label="continual")
    assert sorted(named(ax)) == ["continual", "scratch"]
    low, high = ax.get_ylim()
    large = jl.FittedLaw("chinchilla", scattered().fit.params | {"A": 1e6})
    least, most = pictures.isoloss(large, (1e19, 1e23), ax).get_ylim()
    assert least == pytest.approx(low) and high < planning.allocation(large, 1e23).N < most


def test_contours_of_a_fit_have_the_band_of_its_standard_errors(chinchilla_fit, ax):
    pictures.isoloss(chinchilla_fit, (1e19, 1e21), ax)
    assert "band: 90% of draws" in ax.get_title()


def test_loss_over_compute(ax):
    found = planning.frontier(scattered(), np.geomspace(1e19, 1e22, 7))
    assert found.plot(ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.table["loss"])


def test_contours_show_the_runs_and_the_fitted_range(ax):
    N, D = (np.array(scattered().fit.ranges[name]) for name in ("N", "D"))
    sizes = np.geomspace(*N, 3)
    table = {"N": np.repeat(sizes, 2), "D": np.tile(D, 3), "loss": np.linspace(3, 2, 6)}
    pictures.isoloss(scattered(), (1e19, 1e23), ax, runs=jl.read_runs(table))
    at = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    for spent, size in [(6 * n * d, n) for n in sizes for d in D]:
        assert np.isclose(at, (spent, size), rtol=1e-12).all(axis=1).any()
    pictures.isoloss(CONTINUAL, (1e19, 1e23), ax, label="continual")
    words = ax.get_title().replace("\n", " ")
    assert "shaded: beyond the runs" in words and "band: 90% of draws" in words


def test_saved_compute(ax):
    table = planning.data_transferred(SCRATCH, CONTINUAL, N=[1e9, 4e9], D=[1e9, 3e9, 1e10])
    assert table.plot(ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table.table["saved"][:3])
    around = planning.data_transferred(SCRATCH, CONTINUAL, N=1e9, D=3e9).plot().lines[0]
    assert np.interp(3e9, *around.get_data()) == pytest.approx(table.table["saved"][1], abs=1e-3)
    fits = [jl.published()[f"zheng-2024-frontier-{name}"] for name in ("scratch", "cpt")]
    frontier = planning.frontier_savings(*fits, [1e17, 1e20]).plot()
    assert frontier.get_xlabel() == "compute from scratch (FLOPs)"
