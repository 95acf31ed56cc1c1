"""Plots of the settings of a run."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import UsageError, simulate
from jaxlaw import plots as pictures
from tests.fixtures.drawn_laws import drawn

FIT = ("tuned-skaling", simulate.TRUTHS["tuned-skaling"])
OVER = {"lr": (1e-5, 1e-1), "batch": (1e4, 1e8)}
AT = {"N": 1e9, "D": 2e10}


@pytest.mark.full
def test_a_bowl_has_runs_of_its_cell_the_best_and_stripes_beyond_the_runs():
    runs = simulate.experiment("tuned-skaling", noise=0.002).table
    plan = jl.planning.optimal_inputs(drawn(FIT), OVER, at=AT)
    ax = plan.plot(runs=runs)
    dots = [one.get_offsets() for one in ax.collections if len(one.get_offsets()) == 20]
    assert len(dots) == 1 and set(dots[0][:, 0]) == set(runs["lr"])  # of the nine cells one
    ((x, y),) = [one.get_offsets()[0] for one in ax.collections if len(one.get_offsets()) == 1][-1:]
    assert (x, y) == pytest.approx((plan.lr, plan.batch))
    assert "striped: beyond the runs" in ax.get_title() and "shaded: 0.1 %" in ax.get_title()
    assert ax.get_xscale() == ax.get_yscale() == "log"


@pytest.mark.full
def test_one_setting_is_a_curve_with_a_band_and_the_flat_range():
    law = jl.laws.tuned("dcpt", "lr")
    params = dict(simulate.TRUTHS["dcpt"]) | {"h_lr": 0.02, "s_lr": 0.9, "k": 0.0}
    params |= {"lr_0": 1e-3, "lr_N": -0.5, "lr_D": 0.2}
    held = {"N": 1e9, "D": 2e10}
    plan = jl.planning.optimal_inputs(
        drawn((law, params)), {"r": (0.2, 1.0)}, at=held | {"lr": 1e-3}
    )
    ax = plan.plot()
    line = ax.lines[0].get_xydata()
    assert line[:, 1].min() == pytest.approx(plan.loss, rel=1e-3)
    assert "band" in ax.get_title() and ax.get_xscale() == "linear"
    assert np.ptp(line[:, 0]) == pytest.approx(0.8)


def test_three_settings_are_refused():
    with pytest.raises(UsageError, match="one or two inputs, not 3"):
        pictures.settings(FIT, OVER | {"N": None}, at={"D": 2e10})


def test_cells_over_the_size_with_bounds_hollow():
    runs = simulate.experiment("tuned-skaling", noise=0.001).table
    best = jl.planning.best_settings(runs.query("lr <= 2e-3"))
    assert (best.table["lr_bound"] == "lower").sum() == 6
    ax = best.plot()
    faces = np.concatenate(
        [one.get_facecolors() for one in ax.collections if len(one.get_offsets()) > 1]
    )
    assert (faces[:, :3] == 1).all(axis=1).sum() == 6
    with pytest.raises(UsageError, match="no column batch"):
        pictures.best_settings(jl.planning.best_settings(runs, ["lr"]), setting="batch")
