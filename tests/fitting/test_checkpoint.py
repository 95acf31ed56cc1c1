"""Work in chunks: all of it, in order, kept, refused, interrupted."""

import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from jaxlaw.errors import UsageError
from jaxlaw.fitting._checkpoint import MANIFEST, Work, folder_name
from tests.fixtures.chunks import CHUNKS, added, sums


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_chunk_comes_out_and_ends_the_work(threads, monkeypatch):
    begun = []

    def failing(group):
        begun.extend(group)
        if group and group[0] == CHUNKS[1]:
            raise RuntimeError("chunk 1")
        time.sleep(0.01)
        return sums(group)

    monkeypatch.setattr("jaxlaw.fitting._checkpoint._threads", lambda devices: threads)
    with pytest.raises(RuntimeError, match="chunk 1"):
        Work().map("s", failing, CHUNKS)
    assert len(begun) < len(CHUNKS)


def test_finished_chunks_are_not_done_again(tmp_path):
    work, calls = Work(tmp_path / "work"), []

    def counted(group):
        calls.extend(group)
        return sums(group)

    first = work.map("s", counted, CHUNKS)
    assert sorted(calls) == CHUNKS
    again = work.map("s", counted, CHUNKS)
    assert len(calls) == len(CHUNKS)
    assert added(again) == added(first)
    assert not list((tmp_path / "work").glob("*.part"))


@pytest.mark.parametrize("spoil", [b"", b"not an archive", None])
def test_a_spoilt_chunk_is_done_again(tmp_path, spoil):
    work = Work(tmp_path / "work")
    first = work.map("s", sums, CHUNKS)
    file = sorted((tmp_path / "work").glob("s-*.npz"))[2]
    file.write_bytes(file.read_bytes()[:-7] if spoil is None else spoil)
    calls = []
    again = work.map("s", lambda group: calls.extend(group) or sums(group), CHUNKS)
    assert calls == [CHUNKS[2]] and added(again) == added(first)


def test_a_chunk_under_the_name_of_another_is_done_again(tmp_path):
    """A file that was copied over another, or renamed, does not answer for it."""
    work = Work(tmp_path / "work")
    first = work.map("s", sums, CHUNKS)
    copied, over = tmp_path / "work" / "s-000001.npz", tmp_path / "work" / "s-000002.npz"
    over.write_bytes(copied.read_bytes())
    copied.rename(tmp_path / "work" / "t-000001.npz")  # of another stage
    calls = []
    again = work.map("s", lambda group: calls.extend(group) or sums(group), CHUNKS)
    assert sorted(calls) == CHUNKS[1:3]  # threads take them in any order
    assert added(again) == added(first)
    calls.clear()
    work.map("t", lambda group: calls.extend(group) or sums(group), CHUNKS)
    assert CHUNKS[1] in calls


def test_a_folder_of_another_batch_is_refused_by_name(tmp_path):
    folder = tmp_path / "work"
    Work(folder).claim({"law": "dcpt", "data": "a", "options": "x"})
    Work(folder).claim({"law": "dcpt", "data": "a", "options": "x"})
    with pytest.raises(UsageError, match=rf"{folder}.*another batch \(its data, options differ"):
        Work(folder).claim({"law": "dcpt", "data": "b", "options": "y"})


@pytest.mark.parametrize("spoilt", ['{"law": ', '["law"]'])
def test_a_folder_with_a_spoilt_manifest_is_refused(tmp_path, spoilt):
    (tmp_path / MANIFEST).write_text(spoilt)
    with pytest.raises(UsageError, match="another batch"):
        Work(tmp_path).claim({"law": "dcpt"})


def test_what_a_kill_left_half_written_is_no_other_file(tmp_path):
    """Nor is what another process of the same work is about to write."""
    (tmp_path / f"{MANIFEST}.7-7.part").write_text('{"law": ')
    Work(tmp_path).claim({"law": "dcpt"})
    assert json.loads((tmp_path / MANIFEST).read_text()) == {"law": "dcpt"}


def test_a_label_is_a_folder_within_the_work_folder(tmp_path):
    labels = ["dcpt", "dcpt-l1", "Δ law", "", ".", "..", "../x", "/etc", "a/b", "a%2Fb", "a\\b"]
    labels += ["C:", "x.", "x ", "a" * 300, "a" * 301, "\0", "\n", "α" * 90 + "/..", "\ud800"]
    names = [folder_name(label) for label in labels]
    assert names[:2] == labels[:2] and len(set(names)) == len(labels)
    for name in names:
        (tmp_path / "work" / name / "0").mkdir(parents=True)
    assert len(list((tmp_path / "work").iterdir())) == len(labels)
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file sizes are POSIX")
def test_a_full_disk_loses_nothing(tmp_path):
    """Files beyond a limit fail as on a full disk; with room again the work goes on."""
    script = f"""
import resource, signal, sys
import numpy as np
from jaxlaw.fitting._checkpoint import Work
from tests.fixtures.chunks import CHUNKS, lanes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
def function(group):
    return [lanes(np.zeros(10 if c.problems[0] < 1 else 1000)) for c in group]
Work({str(tmp_path / "work")!r}, progress=False).map("s", function, CHUNKS)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 1 and "WorkError: cannot write" in ended.stderr
    kept = sorted(path.name for path in (tmp_path / "work").iterdir())
    assert {f"s-{k:06d}.npz" for k in range(3)} >= set(kept) - {MANIFEST}
    assert not any(name.endswith(".part") for name in kept)


@pytest.fixture
def ctrl_c():
    """Ctrl-C interrupts, even where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_keeps_what_is_under_way(tmp_path, monkeypatch, ctrl_c):
    monkeypatch.setattr("jaxlaw.fitting._checkpoint._threads", lambda devices: 2)
    main, sent = threading.main_thread().ident, threading.Event()

    def interrupting(group):
        if group and group[0] == CHUNKS[3]:
            sent.set()
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(1.0 if sent.is_set() else 0.1)  # a loaded machine takes it up late
        return sums(group)

    work = Work(tmp_path / "work")
    with pytest.raises(KeyboardInterrupt) as stopped:
        work.map("s", interrupting, CHUNKS)
    assert "repeat the call to resume" in stopped.value.__notes__[0]
    kept = sorted((tmp_path / "work").glob("s-*.npz"))
    assert 3 <= len(kept) < len(CHUNKS)
    assert f"s-{3:06d}.npz" in {path.name for path in kept}
    calls = []
    found = work.map("s", lambda group: calls.extend(group) or sums(group), CHUNKS)
    assert len(calls) == len(CHUNKS) - len(kept)
    assert added(found) == added(sums(CHUNKS))
