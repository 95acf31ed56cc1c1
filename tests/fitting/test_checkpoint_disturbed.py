"""Long work disturbed: folders that cannot be written, full disks, company, clocks, losses."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import jaxlaw as jl
from jaxlaw.errors import UsageError
from jaxlaw.fitting._checkpoint import MANIFEST, Work
from tests.conftest import HEEDS
from tests.fixtures.chunks import CHUNKS, added, sums

PARTS = {"law": "dcpt", "data": "a"}
posix = pytest.mark.skipif(sys.platform == "win32", reason="users and limits are POSIX")


def python(script, *arguments, **environment):
    """A process of its own."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HEEDS + script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


FORKED = """
import os, sys, time
import numpy as np
import jaxlaw as jl
N = np.geomspace(1e8, 1e10, 12)
runs = {"N": N, "D": 20 * N[::-1], "loss": 1.7 + 400 * N**-0.34 + 9.0 * N[::-1] ** -0.1}
fit = jl.published()["hoffmann-2022"]
if "used" in sys.argv:
    fit.predict(N=1e9, D=1e10)
for call in (
    lambda: fit.predict(N=np.full(7, 1e9), D=1e10),
    lambda: jl.fit("chinchilla", runs, n_starts=4, n_local=2),
    lambda: jl.fit_batch("chinchilla", {"N": N, "D": N}, runs["loss"], starts=2),
):
    if (child := os.fork()) == 0:
        try:
            call()
            os.write(1, b"done;")
        except jl.JaxlawError as error:
            os.write(1, f"{str(error)[:35]};".encode())
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.full
@posix
@pytest.mark.parametrize("used", [True, False])
def test_a_child_forked_after_jax_was_used_says_so_and_does_not_hang(used):
    """The threads that compile are the parent's; forked before, a child has its own."""
    process = python(FORKED, "used" if used else "fresh")
    try:
        said = process.communicate(timeout=150)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("a forked child hangs")
    assert said == ("this process was forked from one in;" if used else "done;") * 3


BOTH = """
import sys, time
from pathlib import Path
from jaxlaw.fitting._checkpoint import Work
from tests.fixtures.chunks import CHUNKS, added, sums
done = 0
def slowly(group):
    global done
    done += len(group)
    time.sleep(0.03)
    return sums(group)
work = Work(sys.argv[1], progress=False)
while len(list(Path(sys.argv[1]).glob("s-*.npz"))) < int(sys.argv[3]):
    time.sleep(0.001)
work.claim({"law": "dcpt"})
found = work.map(sys.argv[2], slowly, CHUNKS)
print(done, added(found))
"""


@pytest.mark.full
def test_two_processes_on_one_folder_get_the_same(tmp_path):
    """They may do a chunk twice, but neither reads half a file, and what is there is taken."""
    both = [python(BOTH, tmp_path / "work", "s", there) for there in (0, 3)]
    ends = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    counts, results = zip(*(out.splitlines()[-1].split(" ", 1) for out, _ in ends), strict=True)
    assert results[0] == results[1] == str(added(sums(CHUNKS)))
    assert sum(map(int, counts)) < 2 * len(CHUNKS)
    assert not list((tmp_path / "work").glob("*.part"))


def test_of_two_batches_that_begin_at_once_one_is_refused(tmp_path, monkeypatch):
    """The other's manifest arrives after a look for it, and before one's own is written."""
    folder = tmp_path / "work"

    def too_late(path, *args, really=os.path.exists):
        monkeypatch.setattr(os.path, "exists", really)
        Work(folder).claim(PARTS | {"data": "b"})
        return False

    monkeypatch.setattr(os.path, "exists", too_late)
    with pytest.raises(UsageError, match="another batch"):
        Work(folder).claim(PARTS)
    assert json.loads((folder / MANIFEST).read_text())["data"] == "b"


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """A fit by the command, of some chunks."""
    folder = tmp_path_factory.mktemp("command")
    jl.simulate.experiment("chinchilla").table[::4].to_csv(folder / "runs.csv", index=False)
    line = "fit chinchilla runs.csv --n-starts 2048 --n-local false --work-dir work --quiet --json"
    script = "import sys; from jaxlaw.cli import main; sys.argv[1:] = sys.argv[1].split(); main()"

    def begin(**environment):
        before = os.getcwd()
        os.chdir(folder)
        try:
            return python(script, line, **environment)
        finally:
            os.chdir(before)

    return folder / "work", begin


@posix
@pytest.mark.full
def test_ctrl_c_at_the_command_keeps_what_is_done_and_it_goes_on(command):
    folder, begin = command
    process = begin()
    while process.poll() is None and not list(folder.glob("newton-*.npz")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 130 and out == ""
    assert "--work-dir keeps finished chunks" in err and "Traceback" not in err
    kept = {path.name: path.read_bytes() for path in folder.glob("newton-*.npz")}
    again = begin()
    out, err = again.communicate(timeout=300)
    assert again.returncode == 0, err
    assert json.loads(out)["status"] == "converged"
    assert len(list(folder.glob("newton-*.npz"))) > len(kept) > 0
    assert all((folder / name).read_bytes() == content for name, content in kept.items())


@pytest.mark.full
@pytest.mark.parametrize("platform", ["nonsense", "cuda"])
def test_a_platform_that_is_not_there_is_named(tmp_path, platform):
    calls = """
import jaxlaw as jl
try:
    jl.fit("loss-compute", {"C": [1e18, 1e19, 1e20], "loss": [3, 2.8, 2.7]})
except jl.UsageError as error:
    print(error)
"""
    said, err = python(calls, JAX_PLATFORMS=platform).communicate(timeout=120)
    if not (said or err) and platform == "cuda":
        pytest.skip("this machine has a GPU")
    assert f"JAX_PLATFORMS={platform}" in said and "set JAX_PLATFORMS=cpu" in said, err
