"""Plots of the settings of a run."""

from dataclasses import replace

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from tests.fixtures.drawn_laws import drawn

FIT = ("tuned-skaling", simulate.TRUTHS["tuned-skaling"])
OVER = {"lr": (1e-5, 1e-1), "batch": (1e4, 1e8)}


def test_curves_of_a_tuned_law_are_at_the_best_settings_beside_the_best_runs():
    runs = simulate.experiment("tuned-skaling", noise=0.0).table
    fit = drawn(FIT).fit
    billions = replace(fit, units=fit.units | {"D": 1e9, "batch": 2048.0})
    scaled = runs.assign(D=runs["D"] / 1e9, batch=runs["batch"] / 2048)
    for fitted, table, one in ((fit, runs, 1.0), (billions, scaled, 1e9)):
        ax = fitted.plot(runs=table, along="D")
        assert ax.get_title() == "lr and batch at their best; shaded: beyond the runs"
        (dots,) = [each.get_offsets() for each in ax.collections if len(each.get_offsets())]
        lowest = runs.groupby(["N", "D"])["loss"].min().reset_index()
        assert set(dots[:, 1]) == set(lowest["loss"])
        D, loss = ax.lines[0].get_xydata()[70]
        best = jl.planning.optimal_inputs(fit, OVER, at={"N": runs["N"].min(), "D": D * one})
        assert loss == pytest.approx(best.loss, rel=1e-5)
    ax = fit.plot(along="D", at={"lr": 1e-3})
    assert "lr = 0.001" in ax.get_title() and "at their best" not in ax.get_title()


def test_cells_over_the_size_with_bounds_hollow():
    runs = simulate.experiment("tuned-skaling", noise=0.001).table
    best = jl.planning.best_settings(runs.query("lr <= 2e-3"))
    assert (best.table["lr_bound"] == "lower").sum() == 6
    ax = best.plot()
    faces = np.concatenate(
        [one.get_facecolors() for one in ax.collections if len(one.get_offsets()) > 1]
    )
    assert (faces[:, :3] == 1).all(axis=1).sum() == 6
