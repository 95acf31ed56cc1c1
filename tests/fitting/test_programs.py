"""How many programs are compiled, which is what a first call is made of: the numbers only fall.

Programs are few because a fit, its folds, its resamples and its cut-offs run the same ones, and so
do tables of nearly as many rows (see ``jaxlaw.fitting._engine.PROBLEMS``).
"""

import os
from collections import Counter
from functools import partial

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import _decayed_sum, _jit, simulate
from jaxlaw.fitting import (
    FitOptions,
    _engine,
    _fit_many,
    _multistart,
    _objective,
    compiled_ahead,
    fit_many,
)
from jaxlaw.fitting.solvers import _newton
from tests.conftest import forget_programs

#: Of one law: screening, the solver, the polish; coordinates there and back, the linearised law and
#: its predictions.
FIT = Counter(_evaluate=1, _run_rounds=2, coordinates_of=1, _natural=1, _linearised=1, _program=1)
#: What comes on top of a fit, by name.
AFTER_A_FIT = {
    "the same again": {},
    "other rows": {},
    "bootstrap": {"_program": 2},
    "study": {"_predict": 1},
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
    return {
        "the same again": lambda: jl.fit(law, runs),
        "other rows": lambda: jl.fit(law, runs.iloc[:-3]),
        "bootstrap": lambda: jl.bootstrap(law, runs, n_resamples=80),
        "study": lambda: jl.cross_validate([law], runs, jl.folds.k_fold(4)),
    }


def test_folds_and_resamples_run_the_programs_of_a_fit(runs):
    forget_programs()
    assert added(lambda: jl.fit("chinchilla", runs)) <= FIT
    for name, call in calls(runs).items():
        more = added(call)
        assert more <= Counter(AFTER_A_FIT[name]), name


def test_a_forecast_is_few_programs_which_other_rows_and_points_share(runs):
    forget_programs()
    at = {"N": 7e10, "D": 1.4e12}
    more = added(lambda: jl.forecast(runs.iloc[:20], at=at))
    assert more["_sample_each"] == 1 and more.total() <= 3, more
    again = added(lambda: jl.forecast(runs.iloc[:25], at={"N": [7e10, 8e10], "D": 1.4e12}))
    assert again <= Counter(_context=1)


@pytest.mark.parametrize("accelerated", [False, True])
def test_what_is_compiled_ahead_is_what_is_run(runs, accelerated, monkeypatch):
    law, options = jl.laws.get("kaplan-e"), FitOptions(n_starts=64, n_local=8)
    seen = jl.read_runs(runs).observations(law)
    weights = np.random.default_rng(0).integers(0, 2, (20, len(seen))).astype(float)
    call = partial(fit_many, law, seen, weights, options=options)
    if accelerated:  # there programs depend on the number of refits
        for module in (_decayed_sum, _engine, _fit_many, _multistart, _newton, _objective):
            monkeypatch.setattr(module, "on_accelerator", lambda: True)
    forget_programs()
    _multistart._prepared.clear()
    with compiled_ahead([call]):
        pass
    assert made()["_run_rounds"] >= 2
    assert not {"_run_rounds", "_evaluate", "_pack"} & set(added(call))
    forget_programs()


def own_law(k: int) -> jl.Law:
    return jl.law(
        lambda N, *, E=jl.laws.positive(0.5, 3), a=jl.laws.exponent(): (
            E + (1 + k / 1e6) * jl.laws.power(N, -a)
        ),
        name=f"own {k}", formula="E + (1 + k/1e6)/N^a", source="",
    )  # fmt: skip


def open_files_and_threads() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


@pytest.mark.full
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts are those of Linux")
def test_many_laws_one_after_another_leave_nothing_behind(monkeypatch, own_laws):
    """Each law of one's own has programs of its own, some 40 MB of them."""
    forget_programs()
    monkeypatch.setattr(_jit, "MOST_PROGRAMS", 20)
    N = np.geomspace(1, 1e6, 20)
    runs = {"N": N, "loss": 1.5 + N**-0.3 * np.exp(np.random.default_rng(0).normal(0, 0.01, 20))}
    seen = []
    for k in range(6):
        law = own_law(k)
        jl.fit(law, runs, n_starts=16, n_local=4)
        seen.append((*open_files_and_threads(), _jit.memory_maps()))
        assert made().total() <= 20 + 1
    (files, threads, _), (last_files, last_threads, last_maps) = seen[1], seen[-1]
    assert last_files <= files and last_threads <= threads
    assert last_maps <= 1.2 * max(maps for *_, maps in seen[:3])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts are those of Linux")
@pytest.mark.parametrize("call", ["fit", pytest.param("forecast", marks=pytest.mark.full)])
def test_different_fits_and_forecasts_open_and_keep_no_more_than_the_first(call, runs):
    """Whatever their rows and options are: a notebook makes hundreds of them."""

    def once(k):
        some = runs.sample(70 + 9 * k, random_state=k)
        if call == "fit":
            jl.fit("chinchilla", some, delta=(1e-3, 2e-3, 5e-3)[k % 3], seed=k)
        else:
            jl.forecast(some, at={"N": 7e10 + k, "D": 1.4e12})

    once(0), once(18)  # the programs and threads of all sizes
    files, threads, programs = *open_files_and_threads(), made().total()
    for k in range(1, 12 if call == "fit" else 5):
        once(k)
    last_files, last_threads = open_files_and_threads()
    assert last_files <= files and last_threads <= threads
    assert made().total() <= programs
