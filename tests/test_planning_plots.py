"""Pictures of plans show what the plans say."""

import numpy as np
import pytest
from conftest import named, texts
from planned import CONTINUAL, DOMAIN, GENERAL, SCRATCH, drawn, scattered

from jaxlaw import planning

pictures = pytest.importorskip("jaxlaw.plots")

pytestmark = pytest.mark.usefixtures("closed")

AT = {"N": 1.8e9, "D": 1e10}


@pytest.fixture(scope="module")
def mixture():
    return planning.optimal_mixture(drawn(GENERAL), drawn(DOMAIN), start=2.8602, **AT)


def test_the_trade_off(mixture, ax):
    assert pictures.trade_off(mixture, ax) is ax
    (line,) = (one for one in ax.lines if len(one.get_xdata()) == len(mixture.curve))
    np.testing.assert_array_equal(line.get_xdata(), mixture.curve["general_loss"])
    low, high = mixture.interval["share"]
    assert f"r_d = {mixture.share:.3f} ({low:.3f} to {high:.3f})" in " ".join(texts(ax))
    at = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    assert (mixture.general_loss, mixture.domain_loss) in [tuple(row) for row in at]


def test_a_trade_off_without_an_answer_is_still_a_curve(ax):
    plan = planning.optimal_mixture(GENERAL, DOMAIN, start=2.0, N=1.8, D=10.0)
    assert "r_d =" not in " ".join(texts(pictures.trade_off(plan, ax)))


def test_little_domain_data(ax):
    boot = drawn(DOMAIN)
    assert pictures.limited_domain(boot, [5e7, 1e9], ax, N=1.8e9) is ax
    first = planning.optimal_mixture_limited(boot, 5e7, N=1.8e9)
    assert f"{first.share:.3f}" in texts(ax) and "1.000" in texts(ax)
    curve = ax.lines[0].get_ydata()
    assert curve.min() == pytest.approx(first.loss, abs=1e-5)
    assert named(ax) == ["50 M tokens", "1 B tokens"]


def test_shares_of_domains(ax):
    plan = planning.optimal_shares({"code": DOMAIN, "law": DOMAIN}, N=1.8, D=10.0)
    assert pictures.domain_shares(plan, ax) is ax
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.5, 0.5, 0], abs=1e-6)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["code", "law", "general"]


def test_contours_with_the_best_size(ax):
    boot = scattered()
    assert pictures.isoloss(boot, (1e19, 1e23), ax, label="scratch") is ax
    line = ax.lines[0]
    k = 60
    budget, N = line.get_xdata()[k], line.get_ydata()[k]
    assert planning.allocation(boot, budget).N == pytest.approx(N, rel=1e-9)
    pictures.isoloss(CONTINUAL, (1e19, 1e23), ax, color="#c05621", label="continual")
    assert sorted(named(ax)) == ["continual", "scratch"]


def test_loss_over_compute(ax):
    found = planning.frontier(scattered(), np.geomspace(1e19, 1e22, 7))
    observed = {"C": np.array([1e20]), "loss": np.array([2.7])}
    assert pictures.loss_frontier(found, ax, observed=observed) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.table["loss"])


def test_saved_compute(ax):
    table = planning.transfer_table(SCRATCH, CONTINUAL, [1e9, 4e9], [1e9, 3e9, 1e10])
    assert pictures.compute_saved(table, ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["saved"][:3])
    assert texts(ax) == ["N = 1 B", "N = 4 B"]


def test_replay(ax):
    plan = planning.compare_replay(DOMAIN, [0.2, 0.9], corpus_tokens=(0.1, 10), N=1.8)
    assert pictures.replay_losses(plan, ax) is ax and len(ax.lines) == 2
    assert "compute" in ax.get_xlabel()
    met = planning.compare_replay(
        DOMAIN, [0.8, 0.9], corpus_tokens=(0.1, 10), tolerance=plan.spread_last / 8, N=1.8
    )
    lines = len(pictures.replay_losses(met).lines)
    assert lines == 2 + (0 < met.meet < np.inf)


def test_each_makes_its_own_axes(mixture):
    assert pictures.trade_off(mixture) is not pictures.trade_off(mixture)
