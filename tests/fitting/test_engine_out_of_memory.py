"""A device out of memory: fewer lanes at once, the same result, a note; and an end to it."""

import jax
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw.errors import WorkError
from jaxlaw.fitting import _engine as engine, _starts as starts
from jaxlaw.fitting._engine import retry_smaller_on_oom
from jaxlaw.fitting._multistart import Batch, find_optima
from jaxlaw.fitting.solvers import SOLVERS
from tests.fixtures.fit_problems import evaluate_starts, fit_problem, screened

SPENT = "RESOURCE_EXHAUSTED: Out of memory allocating 1099511627776 bytes."


def refusing(program, room, calls):
    """A compiled program of the engine on a device with memory for so many lanes.

    It fails as XLA does, when a program is launched; all else is real.
    """

    def launched(*args, **kwargs):
        lanes = next(a for a in args if type(a) is int)
        calls.append(lanes)
        if lanes > room:
            raise jax.errors.JaxRuntimeError(SPENT)
        return program(*args, **kwargs)

    return launched


@pytest.fixture
def small_device(monkeypatch):
    calls = {"solve": [], "screen": []}
    monkeypatch.setattr(engine, "_room", {})
    for name, seen in zip(("_run_rounds", "_evaluate"), calls.values(), strict=True):
        monkeypatch.setattr(engine, name, refusing(getattr(engine, name), 8, seen))
    return calls


def test_it_goes_on_with_fewer_lanes_to_the_same_optimum(request):
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        first, batch = screened(p), Batch(p.model, p.data)
        (undisturbed,) = find_optima(SOLVERS["newton"], batch, first, n_local=32)
        calls = request.getfixturevalue("small_device")
        (found,) = find_optima(SOLVERS["newton"], batch, first, n_local=32)
    assert max(calls["solve"]) > 8 and max(calls["screen"]) > 8
    assert calls["screen"].count(64) == 1, "what the device has no memory for is tried once"
    assert found.objective == pytest.approx(undisturbed.objective, rel=1e-12)
    assert (found.agreement, found.status) == (undisturbed.agreement, undisturbed.status)


def test_a_fit_says_so_in_the_log(small_device, caplog):
    fit = jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table)
    assert fit.status == "converged" and fit.notes == ()
    assert "no memory on the device for 64 starts at once (screen): 32 are taken" in caplog.text


def test_without_memory_for_one_lane_it_ends_with_advice(monkeypatch):
    monkeypatch.setattr(engine, "_room", {})
    monkeypatch.setattr(engine, "_evaluate", refusing(engine._evaluate, 0, calls := []))
    with jax.enable_x64(True), pytest.raises(WorkError, match="no memory for a single start"):
        p = fit_problem("chinchilla")
        evaluate_starts(p.model, p.data, p.coordinates_of_starts(starts.sobol(p.model.law, 64, 0)))
    assert calls == [64, 32, 16, 8, 4, 2, 1]


def test_other_errors_of_a_device_come_out_as_they_are():
    def failing(lanes):
        raise jax.errors.JaxRuntimeError("INTERNAL: the device fell off the bus")

    with pytest.raises(jax.errors.JaxRuntimeError, match="fell off"):
        retry_smaller_on_oom("screen", 100, failing, 64)


def test_each_stage_and_size_has_a_measure_of_its_own(monkeypatch):
    monkeypatch.setattr(engine, "_room", {})
    seen = []

    def work(lanes):
        seen.append(lanes)
        if lanes > 10:
            raise jax.errors.JaxRuntimeError(SPENT)
        return np.zeros(lanes)

    assert len(retry_smaller_on_oom("solve", 100, work, 32)) == 8
    assert len(retry_smaller_on_oom("solve", 100, work, 64)) == 8
    assert len(retry_smaller_on_oom("screen", 100, work, 16)) == 8
    assert len(retry_smaller_on_oom("solve", 200, work, 16)) == 8
    assert seen == [32, 16, 8, 8, 16, 8, 16, 8]
