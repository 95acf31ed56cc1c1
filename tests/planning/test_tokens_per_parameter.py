"""Tokens per parameter at which a loss is reached most cheaply."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.planning import min_compute, tokens_per_parameter

TRUTH = ("chinchilla", simulate.TRUTHS["chinchilla"])


@pytest.mark.parametrize("loss", [2.0, 2.3, 2.6])
def test_it_is_the_ratio_of_the_closed_form(loss):
    """At the cheapest run of a loss α·A/N^α = β·B/D^β."""
    E, A, B, alpha, beta = (TRUTH[1][name] for name in ("E", "A", "B", "alpha", "beta"))
    of_size = (loss - E) * beta / (alpha + beta)
    N, D = (A / of_size) ** (1 / alpha), (B / (loss - E - of_size)) ** (1 / beta)
    found = tokens_per_parameter(TRUTH, loss)
    assert found.ratio == pytest.approx(D / N, rel=1e-6)
    assert (found.N, found.D, found.compute) == pytest.approx((N, D, 6 * N * D), rel=1e-6)
    assert found.loss == loss and found.binding == "loss"


def test_draws_give_the_interval_of_the_ratio(chinchilla_fit):
    table = simulate.experiment("chinchilla", noise=0.004).table
    drawn = jl.covariance(chinchilla_fit, table)
    found, run = tokens_per_parameter(drawn, 2.2), min_compute(drawn, 2.2)
    np.testing.assert_allclose(found.draws["ratio"], run.draws["D"] / run.draws["N"])
    low, high = found.interval["ratio"]
    assert low < found.ratio < high and high / low < 1.5
    # N and D move against each other, so that the ratio is known worse than either.
    assert high / low > run.interval["D"][1] / run.interval["D"][0]


def test_what_is_out_of_reach_has_no_ratio():
    found = tokens_per_parameter(TRUTH, 1.0)
    assert np.isnan(found.ratio) and "out-of-reach" in {note.code for note in found.notes}
