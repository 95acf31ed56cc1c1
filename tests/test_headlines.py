"""The first line of every kind of answer, side by side: their words, whatever the numbers."""

import functools
import re

import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.conftest import simulated_fit

FIT = functools.partial(simulated_fit, "chinchilla")
RUNS = jl.simulate.experiment("chinchilla", noise=0.004).table
AT = {"N": 7e9, "D": 1e12}
HEADLINES = {
    "chinchilla: RMSE 0.4%, R² 0.9988 on 243 rows up to 3e21 FLOPs; 64 of 64 restarts agree":
        FIT,
    "chinchilla, sandwich covariance; best determined: E 1.67 nats (90%: 1.642 to 1.698); "
    "least: A (±10%)": lambda: jl.covariance(FIT(), RUNS),
    "chinchilla, 50 resamples (case) of 243; best determined: E 1.67 nats (90%: 1.635 to 1.696); "
    "least: A (±10%)": lambda: jl.bootstrap(FIT(), RUNS, n_resamples=50),
    "alpha: 0.3307 (90%: 0.3179 to 0.3418), standard error 0.005968":
        lambda: jl.profile(FIT(), RUNS, "alpha"),
    "prior: 27 public experiments (8 sources), 5 published recipes; run-to-run noise 0.57%":
        lambda: jl.fitting.field_prior(),
    "chinchilla on DataFrame: mean absolute error 0.304% over 243 observations":
        lambda: FIT().score(RUNS),
    "N 7 B parameters, D 1 T tokens: loss 2.033 nats (90%: 1.998 to 2.058); 14 × "
    "beyond the largest run":
        lambda: jl.uncertainty.prediction(FIT(), at=AT),
    "3 runs: the standard deviation of the prediction falls from 0.126% to 0.123%":
        lambda: jl.design.next_runs(FIT(), RUNS, RUNS[-9:], predict=AT, n=3),
    "chinchilla: median held-out R² 0.9987 over 4 folds":
        lambda: jl.cross_validate("chinchilla", RUNS, jl.folds.k_fold(4)),
    "1e22 FLOPs: 5.28 B parameters (90%: 5.15 to 5.51 B) and 316 B tokens (303 to 323 B), 59.8 "
    "tokens/parameter, loss 2.134 nats (2.129 to 2.139); 3.3 × beyond the largest run":
        lambda: planning.allocation(FIT(), 1e22),
    "loss 2.045 nats (90% for a new run: 2 to 2.088) at N 7 B parameters, D 1 T tokens, 14 × "
    "beyond the largest run": lambda: jl.forecast(RUNS[::9], at=AT),
}  # fmt: skip


def words(sentence: str) -> str:
    """A sentence without its numbers."""
    return re.sub(r"[-−+±]?\d[\d.,]*\d(e-?\d+)?|\d", "#", sentence).replace(" %", "%")


@pytest.mark.parametrize("expected", HEADLINES)
def test_the_first_line_says_the_answer(expected):
    assert words(HEADLINES[expected]().headline) == words(expected)
