"""The frontier that curves themselves show."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import papers, planning, simulate

RUNS = simulate.experiment("from-scratch", noise=0.0).table


def test_the_lowest_run_at_each_level():
    table = pd.DataFrame(
        {
            "run": ["a", "a", "b", "b"],
            "N": [1e6, 1e6, 1e8, 1e8],
            "C": [1e15, 1e17, 1e16, 1e18],
            "loss": [4.0, 3.0, 3.7, 2.9],
        }
    )
    envelope = papers.loss_envelope(table, [1e15, 1e16, 1e17, 1e18, 1e19], run="run")
    assert envelope["C"].tolist() == [1e15, 1e16, 1e17, 1e18]
    assert envelope["loss"].tolist() == pytest.approx([4.0, 3.5, 3.0, 2.9])
    assert envelope["run"].tolist() == ["a", "a", "a", "b"]


def test_no_run_is_below_it_and_the_law_is_nowhere_above():
    envelope = papers.loss_envelope(RUNS, 40)
    at = RUNS.assign(C=6 * RUNS["N"] * RUNS["D"])
    line = np.interp(np.log(at["C"]), np.log(envelope["C"]), envelope["loss"])
    assert (at["loss"] > line - 0.12).all()
    best = planning.frontier(("chinchilla", simulate.TRUTHS["from-scratch"]), envelope["C"]).table
    assert (envelope["loss"].to_numpy() > best["loss"].to_numpy()).all()


def test_its_own_count_of_compute_and_bad_rows():
    doubled = papers.loss_envelope(RUNS.assign(C=12 * RUNS["N"] * RUNS["D"]), 10)
    plain = papers.loss_envelope(RUNS, 10)
    np.testing.assert_allclose(doubled["C"], 2 * plain["C"])
    np.testing.assert_allclose(doubled["loss"], plain["loss"])
    broken = pd.concat([RUNS, RUNS.iloc[:1].assign(loss=np.nan)])
    pd.testing.assert_frame_equal(papers.loss_envelope(broken, 10), plain)


@pytest.mark.full
def test_loss_compute_is_fitted_to_it():
    truth = simulate.TRUTHS["loss-compute"]
    sizes = np.geomspace(5e7, 5e9, 60)
    C = np.geomspace(0.2, 1, 9)[None, :] * 120 * sizes[:, None] ** 2
    # Runs that touch a power law of compute where they end.
    loss = truth["a"] * C ** -truth["b"] * (C / C[:, -1:]) ** -0.05
    table = {"N": np.repeat(sizes, 9), "C": C.ravel(), "loss": loss.ravel()}
    envelope = papers.loss_envelope(table, C[5:-5, -1])
    fit = jl.fit("loss-compute", envelope)
    assert fit.params["b"] == pytest.approx(truth["b"], rel=0.02)
    assert fit.params["a"] == pytest.approx(truth["a"], rel=0.06)


@pytest.mark.full
def test_its_interval_is_that_of_the_law_fitted_to_it():
    """Runs are drawn whole: with each level by itself the interval is too narrow."""
    lowest = papers.loss_envelope(simulate.experiment("from-scratch", noise=0.002).table, 30)
    widths = {}
    for groups in ("N", None):
        boot = jl.bootstrap("loss-compute", lowest, 40, groups=groups, n_starts=64, n_local=4)
        low, high = boot.conf_int().set_index("parameter").loc["b", ["low", "high"]]
        assert low < boot.fit.params["b"] < high
        widths[groups] = high - low
    assert widths["N"] > widths[None]


def test_wrong_usage():
    with pytest.raises(jl.DataError, match="no column loss"):
        papers.loss_envelope({"N": [1.0], "D": [1.0]})
    with pytest.raises(jl.DataError, match="neither D nor C, FLOPs"):
        papers.loss_envelope({"N": [1.0], "loss": [1.0]})
    with pytest.raises(jl.DataError, match="no run passes"):
        papers.loss_envelope(RUNS, [1e40])
