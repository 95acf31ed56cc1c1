"""Results go to other processes and come back: the same numbers, the same laws."""

import os
import pickle
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.laws import _base as base
from tests.conftest import kept_programs, simulated_fit
from tests.fixtures import importable_law

POINT = {"N": 7e9, "D": 1e12}
# Every worker imports every module of tests: these laws are not to be among the others' laws.
for _name in ("importable", "assigned"):
    base._REGISTRY.pop(_name, None)


def through(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("name", [*base._BUILT_IN])
def test_a_built_in_law_comes_back_as_the_registered_one(name):
    assert through(base._BUILT_IN[name]) is base._BUILT_IN[name]


@pytest.fixture(scope="module")
def chinchilla():
    return simulated_fit("chinchilla", most=60), simulate.experiment("chinchilla").table


@pytest.mark.full
def test_a_fit_predicts_the_same_with_the_same_programs(chinchilla):
    fit, _ = chinchilla
    before, compiled = fit.predict(**POINT), kept_programs()
    again = through(fit)
    assert again.law is fit.law and again.to_dict() == fit.to_dict()
    assert again.predict(**POINT) == before and kept_programs() == compiled


@pytest.mark.full
def test_uncertainty_is_the_same_in_float64():
    table = simulate.experiment("chinchilla").table.iloc[::4]
    fit = jl.fit("chinchilla", table, n_starts=64, n_local=8)
    boot, cov = jl.bootstrap(fit, table, 5), jl.covariance(fit, table)
    profile = jl.profile(fit, table, "alpha")
    assert not jax.config.jax_enable_x64
    again = through(boot)
    np.testing.assert_array_equal(again.predict(**POINT), boot.predict(**POINT))
    pd.testing.assert_frame_equal(again.conf_int(), boot.conf_int())
    there = through(cov)
    assert there.problem.fit_problem.data.target.dtype == np.float64
    np.testing.assert_array_equal(there.draws().predict(POINT), cov.draws().predict(POINT))
    assert through(profile).interval == profile.interval
    pd.testing.assert_frame_equal(jl.influence(through(fit), table), jl.influence(fit, table))


@pytest.mark.full
def test_studies_runs_curves_and_notes_come_back(chinchilla):
    _, table = chinchilla
    runs = jl.read_runs(table.iloc[:40])
    study = jl.cross_validate("chinchilla", runs, "in-sample", n_starts=16, n_local=4)
    pd.testing.assert_frame_equal(through(study).frame, study.frame)
    assert through(study).notes == study.notes
    pd.testing.assert_frame_equal(through(runs).table, runs.table)


@pytest.mark.parametrize("law", [importable_law.importable, importable_law.assigned])
def test_a_law_of_a_module_comes_back_as_the_modules(law):
    assert through(law) is law


def local_law(factor):
    return jl.law(lambda N, *, E=jl.laws.positive(0.5, 3): E * factor + 0 * N, name="local")


def test_a_law_without_a_place_is_refused_by_pickle_and_taken_by_cloudpickle(own_laws):
    law = local_law(2.0)
    with pytest.raises((AttributeError, pickle.PicklingError), match="local_law"):
        pickle.dumps(law)
    cloudpickle = pytest.importorskip("cloudpickle")
    assert pickle.loads(cloudpickle.dumps(law)) is law


SCRIPT = """
import concurrent.futures, multiprocessing, pickle, sys
import numpy as np
import jaxlaw as jl
from tests.fixtures.importable_law import importable

@jl.law
def of_main(N, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(0.1, 10)):
    return E + A * jl.laws.power(N / 1e8, -0.3)

def asked(fit):
    return fit, fit.predict(N=[1e9]), fit.law is importable

if __name__ == "__main__":
    N = np.geomspace(1e7, 1e9, 9)
    few, table = {"n_starts": 16, "n_local": 4}, {"N": N, "loss": 1.5 + (N / 1e8) ** -0.3}
    fits = [jl.fit(law, table, **few) for law in (importable, of_main)]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
        for fit, (back, predicted, same) in zip(fits, pool.map(asked, fits)):
            assert back.law is fit.law and predicted == fit.predict(N=[1e9])
            assert same or fit.law is of_main
    if len(sys.argv) > 1:
        import joblib
        for fit, (back, predicted, _) in zip(
            fits, joblib.Parallel(2)(joblib.delayed(asked)(fit) for fit in fits)
        ):
            assert back.law is fit.law and predicted == fit.predict(N=[1e9])
    print("done")
"""


@pytest.mark.full
def test_fits_of_ones_own_laws_go_to_process_pools_and_joblib(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = os.pathsep.join(filter(None, sys.path))
    try:
        import joblib  # noqa: F401
    except ImportError:
        with_joblib = []
    else:
        with_joblib = ["joblib"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py", *with_joblib], cwd=tmp_path, text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
    assert laws.get("chinchilla") is laws.built_in("chinchilla")
