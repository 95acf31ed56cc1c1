"""Many problems at once: the same optima alone, in chunks, on devices, in processes, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import jaxlaw as jl
from jaxlaw.errors import UsageError
from jaxlaw.fitting import _multistart as searching
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._engine import Lanes
from jaxlaw.fitting._multistart import Batch, find_optima
from jaxlaw.fitting._objective import Problem
from jaxlaw.fitting.solvers import SOLVERS, Status
from tests.fixtures.fit_problems import fit_problem, screened

NEWTON = SOLVERS["newton"]


def folds(problem, count):
    """The problem with ``count`` rows of 0/1 weights, each leaving out every so manieth point."""
    index = np.arange(problem.target.shape[0])
    weights = np.stack([(index % count != k).astype(float) for k in range(count)])
    return problem._replace(weight=weights)


@pytest.fixture
def many():
    """Chinchilla, five folds, 64 starts."""
    with jax.enable_x64(True):
        p = fit_problem("chinchilla")
        yield p, Batch(p.model, folds(p.data, 5), frozenset({"weight"})), screened(p)


@pytest.mark.full
def test_each_problem_comes_out_as_alone(many):
    p, batch, starts = many
    together = find_optima(NEWTON, batch, starts, n_local=16)
    assert len(together) == 5
    for k, found in enumerate(together):
        problem = p.data._replace(weight=batch.problems.weight[k])
        (alone,) = find_optima(NEWTON, Batch(p.model, problem), starts, n_local=16)
        assert found.objective == pytest.approx(alone.objective, rel=1e-12)
        assert (found.tried, found.solved) == (64, 16)
        assert found.agreement == alone.agreement and found.status == Status.CONVERGED
        np.testing.assert_allclose(found.coordinates, alone.coordinates, rtol=1e-6)
    assert len({round(found.objective, 9) for found in together}) == 5


@pytest.mark.full
def test_chunks_of_any_size_give_the_same(many, monkeypatch):
    _, batch, starts = many
    whole = find_optima(NEWTON, batch, starts)
    for limits in ((7, 7), (64, 64), (150, 150)):  # parts of a problem, one, and two problems
        monkeypatch.setattr(searching, "SOLVE_LANES", limits)
        parts = find_optima(NEWTON, batch, starts)
        for one, other in zip(whole, parts, strict=True):
            assert one.objective == pytest.approx(other.objective, rel=1e-12)
            assert one.agreement == pytest.approx(other.agreement, abs=1 / 64)
            assert (one.solved, one.status) == (other.solved, other.status)


@pytest.mark.full
def test_starts_that_run_out_of_iterations_go_on(many):
    p, _, starts = many
    batch = Batch(p.model, p.data)
    hasty = NEWTON._replace(settings=NEWTON.settings._replace(max_iterations=6))
    found, whole = (find_optima(each, batch, starts, n_local=8)[0] for each in (hasty, NEWTON))
    assert found.objective == pytest.approx(whole.objective, rel=1e-9)
    assert (found.agreement, found.status) == (whole.agreement, Status.CONVERGED)


def test_screening_in_chunks_chooses_the_same_starts(many, monkeypatch):
    _, batch, starts = many
    whole = searching._screen(batch, starts, 9, Work())
    for lanes in (10, 128):  # parts of a problem; blocks of two, the last of one
        monkeypatch.setattr(searching, "SCREEN_LANES", (lanes, lanes))
        parts = searching._screen(batch, starts, 9, Work())
        np.testing.assert_allclose(parts, whole, rtol=1e-14)  # the last bit may differ


@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 50), st.integers(1, 80))
def test_chunks_hold_every_lane_once(problems, starts, block, width):
    data = Problem(*[np.zeros((problems, 1))] * len(Problem._fields))
    batch, seen = Batch(None, data, frozenset({"low", "high"})), np.zeros((problems, starts), int)
    for chunk in batch.chunks(np.zeros((1, starts, 1)), (block, width, block * width)):
        seen[slice(*chunk.problems), slice(*chunk.starts)] += 1
        assert chunk.lanes <= block * width and chunk.coordinates.size == chunk.lanes
    assert (seen == 1).all()


def lanes_at(value, status, count=None):
    """Lanes of one problem, each at the number of its place in a single coordinate."""
    value, status = np.asarray(value)[None], np.asarray(status, np.int32)[None]
    places, ones = np.arange(value.size, dtype=float)[None, :, None], np.ones_like(status)
    return Lanes(places, value, status, ones, ones if count is None else np.asarray(count)[None])


ROUNDING = np.zeros(1)


def test_ends_are_joined_where_their_objectives_agree():
    value = [3.0, 1.0, np.inf, 1.0 + 1e-9, np.inf, 3.0 + 1e-7, 2.0]
    status = [2, 2, 3, Status.CONVERGED, 3, 2, Status.CONVERGED]
    ends = searching.distinct(lanes_at(value, status, [1, 1, 1, 0, 1, 1, 1]), ROUNDING)
    assert ends.value[0, :4].tolist() == [1.0, 2.0, 3.0, np.inf]
    assert ends.count[0, :4].tolist() == [1, 1, 2, 0]
    assert ends.status[0, :3].tolist() == [Status.CONVERGED, Status.CONVERGED, 2]
    assert ends.coordinates[0, :3, 0].tolist() == [1.0, 6.0, 0.0]
    assert np.isnan(ends.coordinates[0, 3:]).all()


def test_of_many_lanes_few_are_kept_and_all_are_counted(monkeypatch):
    monkeypatch.setattr(searching, "MEMBERS", 3)
    monkeypatch.setattr(searching, "KEPT", 2)
    lanes = lanes_at([1.0, 2.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0, np.inf], [1] * 9)
    few = searching._thinned(lanes, ROUNDING)
    assert few.value[0].tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, np.inf]
    assert few.count[0, :5].tolist() == [3, 1, 1, 1, 1]
    ends, whole = (searching.distinct(one, ROUNDING) for one in (few, lanes))
    np.testing.assert_array_equal(ends.count, whole.count)
    np.testing.assert_array_equal(ends.value, whole.value)


@pytest.mark.parametrize("value, at", [(0.9, 7.0), (1.0, 7.0), (2.0, 0.0), (np.inf, 0.0)])
def test_place_and_objective_of_an_optimum_belong_together(value, at):
    lanes, polished = lanes_at([1.0], [1]), lanes_at([value], [1])
    polished.coordinates[:] = 7.0
    ends, one = searching.distinct(lanes, ROUNDING), np.ones(1, int)
    (best,) = searching._optima(lanes, ends, polished, ROUNDING, one, one)
    assert (best.objective, best.coordinates) == (min(value, 1.0), at)


# A fit in a process of its own: 4,500 starts in chunks, printed to the last bit. Of a law of two
# parameters: its program is soon there.
SCRIPT = """
import sys, json
import numpy as np
import pandas as pd
import jaxlaw as jl
table = jl.simulate.experiment("loss-compute").table
starts = {"a": np.geomspace(10, 1e4, 75), "b": np.linspace(0.01, 1, 60)}
fit = jl.fit("loss-compute", table, starts=starts, n_local=False, progress=False,
             work_dir=sys.argv[1] or None)
import jax
found = {name: value.hex() for name, value in fit.params.items()}
print(json.dumps(found | {"objective": fit.objective.hex(), "agreement": fit.agreement,
                          "devices": jax.local_device_count()}))
"""


def start(work_dir="", **environment):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(work_dir)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, timeout=300):
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def undisturbed():
    return ended(start())


def same(found, expected, rel=1e-12):
    for key in ("a", "b", "objective"):
        one, other = float.fromhex(found[key]), float.fromhex(expected[key])
        assert one == pytest.approx(other, rel=rel, abs=0)
    assert found["agreement"] == expected["agreement"]


@pytest.mark.full
@pytest.mark.parametrize("devices", [2, 8])
def test_any_number_of_devices_gives_the_same(devices, undisturbed):
    found = ended(start(XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}"))
    assert found["devices"] == devices and undisturbed["devices"] == 1
    same(found, undisturbed)


@pytest.mark.full
def test_processes_with_one_folder_share_the_work_and_get_the_same_bits(undisturbed, tmp_path):
    both = [start(tmp_path / "work") for _ in range(2)]
    assert [ended(process) for process in both] == [undisturbed] * 2


@pytest.mark.full
def test_killed_at_any_moment_it_goes_on_to_the_same_bits(undisturbed, tmp_path):
    folder, kept = tmp_path / "work", 0
    draw = np.random.default_rng(0)
    for _ in range(4):
        process = start(folder)
        target = kept + int(draw.integers(0, 3))
        while process.poll() is None and len(finished(folder)) <= target:
            time.sleep(0.002)
        time.sleep(float(draw.uniform(0, 0.03)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert len(finished(folder)) >= kept  # nothing finished is lost
        kept = len(finished(folder))
    assert 0 < kept
    assert ended(start(folder)) == undisturbed


def finished(folder: Path) -> list[Path]:
    return list(folder.glob("*.npz"))


def level_law(table, looked_up=False):
    """A law that closes over an array, as its own or inside a jitted function."""
    table = np.asarray(table, float)

    @jax.jit
    def within(N):
        return jnp.interp(jnp.log(N), np.linspace(16.0, 21.0, len(table)), table)

    @jl.law(name="own-level", replace=True)
    def own(
        N, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(0.1, 10), alpha=jl.laws.exponent()
    ):
        level = within(N) if looked_up else jnp.asarray(table)[jnp.int32(N > 1e8)]
        return E + A * level * jl.laws.power(N / 1e8, -alpha)

    return own


@pytest.fixture
def level_runs():
    size = np.geomspace(2e7, 1e9, 24)
    return pd.DataFrame({"N": size, "loss": 1.7 + 0.4 * (size / 1e8) ** -0.3})


FEW = {"n_starts": 16, "n_local": 4}


@pytest.mark.full
@pytest.mark.parametrize("looked_up", [False, True])
@pytest.mark.parametrize("study", [False, True])
def test_a_folder_does_not_answer_for_a_law_of_other_constants(
    own_laws, level_runs, tmp_path, looked_up, study
):
    def asked(law):
        if study:
            return jl.cross_validate(law, level_runs, "in-sample", work_dir=tmp_path, **FEW)
        return jl.fit(law, level_runs, work_dir=tmp_path, **FEW)

    asked(level_law([1.0, 2.0], looked_up))
    asked(level_law([1.0, 2.0], looked_up))  # the same law, made again
    with pytest.raises(UsageError, match="another batch .its formula differ"):
        asked(level_law([2.0, 1.0], looked_up))
