"""Pictures of continual runs and of a corpus's value show what they say they show."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.papers import pretraining_value
from jaxlaw.planning import (
    ContinualPretraining,
    Pretraining,
    optimal_schedule,
    optimal_training,
    turning_length,
)
from tests.conftest import named, texts

plots = pytest.importorskip("jaxlaw.plots")

pytestmark = pytest.mark.usefixtures("closed")

PT, CPT = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
RUN = ContinualPretraining(Pretraining(40_000, 2e-4), 10_000, 1e-4, replay=0.2, warmup=500)


def test_the_best_replay_over_weights(ax):
    found = optimal_training(PT, CPT, RUN, (0.2, 0.6, 0.8), {"replay": (0, 1)})
    assert found.plot(ax) is ax
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), found.table["replay"])


def test_the_way_back(ax):
    level = ContinualPretraining(Pretraining(5_000, 2e-4), 1, 2e-4, 1.0, 0.5, shape="constant")
    found = turning_length(PT, level)
    found.plot(ax)
    assert ax.lines[-1].get_xdata()[0] == found.steps
    assert "back after 8,730 steps" in texts(ax)


def test_the_value_of_a_corpus(ax):
    score = [10.0, 11.0, 12.0, 12.5, 10.0, 9.0, 9.5, 9.0]
    data = {"Dp": np.geomspace(1e9, 1e11, 8), "score": score}
    pretraining_value(data, baseline=8, target=20).plot(ax)
    shown = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    np.testing.assert_allclose(shown[:, 1], score)
    assert ax.get_title() == "suspect misalignment"
    assert sorted(named(ax)) == ["target", "without\npretraining"]


def test_the_best_rates_beside_the_usual_ones(ax):
    best = optimal_schedule(("annealing", simulate.TRUTHS["annealing"]), 150, 1e-3)
    assert best.plot(ax) is ax
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), best.schedule["lr"])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), jl.schedules.wsd(1e-3, 150).rates)
    assert f"optimal {best.loss:.4f}" in named(ax) and len(named(ax)) == 5
