"""How many programs are compiled, which is what a first call is made of: the numbers only fall.

Programs are few because a fit, its folds, its resamples and its cut-offs run the same ones, and so
do tables of nearly as many rows (see ``jaxlaw.fitting._engine.PROBLEMS``).
"""

from collections import Counter

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import _jit, simulate
from jaxlaw.fitting import FitOptions, _multistart, compiled_ahead, fit_many

#: Of one law: screening, the solver, the polish; coordinates there and back, the linearised law and
#: its predictions.
FIT = Counter(_evaluate=1, _run_rounds=2, coordinates_of=1, _natural=1, _linearised=1, _program=1)
#: What comes on top of a fit, by name.
AFTER_A_FIT = {
    "the same again": {},
    "other rows": {"_program": 1},
    "bootstrap": {"_program": 2},
    "study": {"_predict": 1},
    "forecast": {"_program": 1},
}


def made() -> Counter:
    """How many programs this process has, by the name of their function."""
    sizes = Counter()
    for program in list(_jit._programs):
        sizes[program.__name__] += program._cache_size()
    return +sizes


def added(call) -> Counter:
    before = made()
    call()
    return made() - before


@pytest.fixture(scope="module")
def runs():
    return simulate.experiment("chinchilla", noise=0.004).table


def calls(runs, law="chinchilla"):
    point = {"N": 7e10, "D": 1.4e12}
    return {
        "the same again": lambda: jl.fit(law, runs),
        "other rows": lambda: jl.fit(law, runs.iloc[:-3]),
        "bootstrap": lambda: jl.bootstrap(law, runs, n_resamples=80),
        "study": lambda: jl.cross_validate([law], runs, jl.folds.k_fold(4)),
        "forecast": lambda: jl.forecast([law], runs, at=point),
    }


def test_folds_resamples_and_cutoffs_run_the_programs_of_a_fit(runs):
    _jit._forget_programs()
    assert added(lambda: jl.fit("chinchilla", runs)) <= FIT
    for name, call in calls(runs).items():
        more = added(call)
        assert more <= Counter(AFTER_A_FIT[name]), name


@pytest.mark.full
def test_a_forecast_by_the_default_laws_has_the_programs_of_five_fits(runs):
    _jit._forget_programs()
    at = {"N": 7e10, "D": 1.4e12}
    more = added(lambda: jl.forecast(None, runs, at=at))
    assert more["_run_rounds"] <= 10
    assert more["_evaluate"] <= 5
    assert more.total() <= 38, more
    assert added(lambda: jl.forecast(None, runs.iloc[:-3], at=at)) <= Counter(_context=3)


def test_what_is_compiled_ahead_is_what_is_run(runs):
    law, options = jl.laws.get("kaplan-e"), FitOptions()
    seen = jl.read_runs(runs).observations(law)
    _jit._forget_programs()
    _multistart._prepared.clear()
    with compiled_ahead([(law, seen, options), (law, seen, options)]):
        pass
    assert made()["_run_rounds"] >= 2
    more = added(lambda: fit_many(law, seen, np.ones((3, len(seen)))))
    assert not {"_run_rounds", "_evaluate"} & set(more)
