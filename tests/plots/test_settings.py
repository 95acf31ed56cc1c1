"""Plots of the settings of a run."""

import numpy as np

import jaxlaw as jl
from jaxlaw import simulate


def test_cells_over_the_size_with_bounds_hollow():
    runs = simulate.experiment("tuned-skaling", noise=0.001).table
    best = jl.planning.best_settings(runs.query("lr <= 2e-3"))
    assert (best.table["lr_bound"] == "lower").sum() == 6
    ax = best.plot()
    faces = np.concatenate(
        [one.get_facecolors() for one in ax.collections if len(one.get_offsets()) > 1]
    )
    assert (faces[:, :3] == 1).all(axis=1).sum() == 6
