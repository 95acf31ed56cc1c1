"""Every result can be drawn; those of a question are drawn again from their files."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.conftest import texts
from tests.fixtures.drawn_laws import drawn

plots = pytest.importorskip("jaxlaw.plots")
pytestmark = pytest.mark.usefixtures("closed")


def from_its_file(result, folder):
    """What is written in the picture of a result, as made and as read; the former's axes."""
    result.save(folder / "result.json")
    ax, read = result.plot(), jl.load(folder / "result.json").plot()
    assert seen(read) == seen(ax)
    return ax


def seen(ax):
    limits = np.round([*ax.get_xlim(), *ax.get_ylim()], 12).tolist()
    return ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), limits, texts(ax)


def last_dot(ax):
    return tuple([c.get_offsets()[0] for c in ax.collections if len(c.get_offsets()) == 1][-1])


AT = {"N": 1e9, "D": 2e10}


def test_two_settings_are_contours_around_the_best(tmp_path):
    tuned = ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"])
    over = {"lr": (1e-5, 0.1), "batch": (1e4, 1e8)}
    plan = planning.optimal_inputs(tuned, over, at=AT)
    ax = from_its_file(plan, tmp_path)
    assert last_dot(ax) == pytest.approx((plan.lr, plan.batch))
    grid = plan.points["around"]
    law = jl.FittedLaw(*tuned)
    losses = law.predict(N=1e9, D=2e10, lr=grid["lr"], batch=grid["batch"])
    np.testing.assert_allclose(grid["loss"], losses, rtol=1e-9)
    assert len(grid) == 196 and grid["loss"].max() > 1.02 * plan.loss
    one = planning.optimal_inputs(drawn(tuned), {"lr": (1e-5, 0.1)}, at={**AT, "batch": 4e5})
    ax = from_its_file(one, tmp_path)
    assert last_dot(ax) == pytest.approx((one.lr, one.loss)) and "band: 90%" in ax.get_title()
