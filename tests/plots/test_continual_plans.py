"""Pictures of continual runs and of a corpus's value show the numbers of their answers."""

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
)

plots = pytest.importorskip("jaxlaw.plots")

pytestmark = pytest.mark.usefixtures("closed")

PT, CPT = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
RUN = ContinualPretraining(Pretraining(40_000, 2e-4), 10_000, 1e-4, replay=0.2, warmup=500)


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: optimal_training(PT, CPT, RUN, (0.2, 0.6, 0.8), {"replay": (0, 1)}),
         lambda found: found.table["replay"]),
        (lambda: optimal_schedule(("annealing", simulate.TRUTHS["annealing"]), 150, 1e-3),
         lambda best: best.schedule["lr"]),
    ],
)  # fmt: skip
def test_a_line_is_the_column_of_the_table(make, shown, ax):
    found = make()
    assert found.plot(ax) is ax
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), shown(found))


def test_the_value_of_a_corpus(ax):
    score = [10.0, 11.0, 12.0, 12.5, 10.0, 9.0, 9.5, 9.0]
    data = {"Dp": np.geomspace(1e9, 1e11, 8), "score": score}
    pretraining_value(data, baseline=8, target=20).plot(ax)
    shown = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    np.testing.assert_allclose(shown[:, 1], score)
