"""Chunks on the workers of an executor that the user brings: the same bits, losses, refusals."""

import logging
import os
import signal
import sys
import types
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw.errors import UsageError, WorkError
from jaxlaw.fitting._checkpoint import ATTEMPTS, Work
from tests.conftest import compiled_with
from tests.fixtures.chunks import CHUNKS, added, sums

FEW = {"n_starts": 128, "n_local": 16, "progress": False}


def failing(group):
    raise UsageError("no such thing")


class Losing(Executor):
    """Does every call at once, and loses the first so many of them."""

    def __init__(self, losses, accepts=10**6):
        self.losses, self.accepts, self.calls = losses, accepts, 0

    def submit(self, function, *args):
        self.calls += 1
        if self.calls > self.accepts:
            raise BrokenProcessPool("a child process terminated abruptly")
        future = Future()
        if self.calls <= self.losses:
            future.set_exception(BrokenProcessPool("terminated abruptly"))
        else:
            future.set_result(function(*args))
        return future


def test_lost_chunks_are_done_again_and_only_they(tmp_path, caplog):
    pool = Losing(3)
    with caplog.at_level(logging.WARNING):
        found = Work(tmp_path / "work", executor=pool).map("s", sums, CHUNKS)
    assert added(found) == added(sums(CHUNKS)) and pool.calls == len(CHUNKS) + 3
    assert "3 chunks were lost with their workers (BrokenProcessPool" in caplog.text
    assert len(list((tmp_path / "work").glob("s-*.npz"))) == len(CHUNKS)


def test_workers_that_are_always_lost_end_the_work():
    pool = Losing(10**6)
    with pytest.raises(WorkError, match=rf"lost .*{ATTEMPTS} times .*work_dir= would keep"):
        Work(executor=pool).map("s", sums, CHUNKS)
    assert pool.calls == ATTEMPTS * len(CHUNKS)


def test_what_a_broken_executor_had_done_is_kept(tmp_path):
    """It loses two calls and then takes no more; a new one does these two."""
    folder = tmp_path / "work"
    with pytest.raises(WorkError, match=f"accepts no more work .*are kept in {folder}"):
        Work(folder, executor=Losing(2, accepts=len(CHUNKS))).map("s", sums, CHUNKS)
    again = Losing(0)
    found = Work(folder, executor=again).map("s", sums, CHUNKS)
    assert added(found) == added(sums(CHUNKS)) and again.calls == 2


class Answering(Executor):
    """Does every call, and gives what it is made to give in place of the first so many answers."""

    def __init__(self, instead, wrong):
        self.instead, self.wrong, self.answers = instead, wrong, []

    def submit(self, function, *args):
        self.answers.append(function(*args))
        future = Future()
        wrong = len(self.answers) <= self.wrong
        future.set_result(self.instead(self.answers) if wrong else self.answers[-1])
        return future


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        (lambda answers: None, "gave None and no lanes"),
        (lambda answers: answers[-1][1], "and no lanes"),  # without its call
        (lambda answers: (answers[-1][0], [1.0]), "and no lanes"),
        (lambda answers: answers[0], "the answer to another call"),
    ],
    ids=["None", "no name", "a list", "stale"],
)
def test_an_answer_that_is_none_or_another_calls_is_made_again(instead, said, caplog):
    pool = Answering(instead, 3)
    with caplog.at_level(logging.WARNING):
        found = Work(executor=pool).map("s", sums, CHUNKS)
    assert added(found) == added(sums(CHUNKS)) and said in caplog.text
    pool = Answering(instead, 10**6)
    with pytest.raises(WorkError, match=f"{ATTEMPTS} times .*{said}"):
        Work(executor=pool).map("s", sums, CHUNKS)


def test_an_error_of_the_work_itself_comes_out_as_it_is():
    pool = Losing(0)
    with pytest.raises(UsageError, match="no such thing"):
        Work(executor=pool).map("s", failing, CHUNKS)
    assert pool.calls == len(CHUNKS)


class Submitting:
    """No Executor of concurrent.futures: its futures have a result, and know nothing else."""

    def submit(self, function, *args):
        return types.SimpleNamespace(result=lambda: function(*args))


def test_an_executor_is_whatever_submits_and_has_results(tmp_path):
    found = Work(tmp_path / "work", executor=Submitting()).map("s", sums, CHUNKS)
    assert added(found) == added(sums(CHUNKS))


@pytest.fixture(scope="module")
def table():
    return jl.simulate.experiment("chinchilla", noise=0.01).table[::4]


@pytest.fixture
def workers(monkeypatch):
    """New processes, whose programs are compiled as those of the tests are."""
    monkeypatch.setenv("XLA_FLAGS", compiled_with())
    pools = []

    def spawned():
        pools.append(ProcessPoolExecutor(2, get_context("spawn")))
        return pools[-1]

    yield spawned
    for pool in pools:
        pool.shutdown()


def summary(fit):
    return fit.params, fit.objective, fit.agreement


@pytest.mark.full
def test_workers_give_the_same_bits(table, tmp_path, workers):
    """A fit, kept in a folder that a call without workers goes on from, and resamples."""
    alone = jl.fit("chinchilla", table, **FEW)
    boot = jl.bootstrap("chinchilla", table, 40, progress=False)
    with workers() as pool:
        there = jl.fit("chinchilla", table, **FEW, executor=pool, work_dir=tmp_path)
        resampled = jl.bootstrap("chinchilla", table, 40, progress=False, executor=pool)
    assert summary(there) == summary(alone)
    for path in tmp_path.glob("polish-*.npz"):
        path.unlink()
    assert list(tmp_path.glob("newton-*.npz"))
    assert summary(jl.fit("chinchilla", table, **FEW, work_dir=tmp_path)) == summary(alone)
    for name, values in boot.params.items():
        np.testing.assert_array_equal(resampled.params[name], values)


def deadly(folder):
    """A law that kills the first worker that compiles it once ``folder`` has screened chunks."""
    here, marker = os.getpid(), folder.with_name("killed")

    def formula(N, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(1, 1e4, centre={"N": "alpha"}),
                alpha=jl.laws.exponent()):  # fmt: skip
        if os.getpid() != here and list(folder.glob("screen-*.npz")):
            try:
                marker.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return E + A * jl.laws.power(N, -alpha)

    return jl.law(formula, name="deadly"), marker


@pytest.fixture
def sizes():
    N = np.geomspace(1e7, 1e10, 40)
    return {"N": N, "loss": 1.7 + 400 * N**-0.34 * np.exp(0.02 * np.sin(np.arange(40)))}


posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


@posix
@pytest.mark.full
def test_a_pool_with_a_killed_worker_is_replaced_and_the_work_goes_on(
    own_laws, sizes, tmp_path, workers
):
    folder = tmp_path / "work"
    law, marker = deadly(folder)
    with pytest.raises(WorkError, match=f"accepts no more work .*kept in {folder}"):
        jl.fit(law, sizes, **FEW, work_dir=folder, executor=workers())
    kept = {path.name for path in folder.glob("*.npz")}
    assert marker.exists() and {name.partition("-")[0] for name in kept} == {"screen"}
    there = jl.fit(law, sizes, **FEW, work_dir=folder, executor=workers())
    assert summary(there) == summary(jl.fit(law, sizes, **FEW))
