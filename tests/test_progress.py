"""Progress: what is done, what is left, and how a terminal, a pipe and a notebook show it."""

import io
import json
import os
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import _cache, _jit, _progress
from jaxlaw._progress import part, parts


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_parts_inside_parts_add_up_and_say_where_the_work_is():
    seen = []
    for _ in parts(["a", "b"], str, "law"):
        for k in range(4):
            with part(k=k, n=4) as inner:
                inner.now(0.5, f"{k} of 8 fits")
                seen.append(_progress.state())
            assert _progress.state()[0] == pytest.approx(len(seen) / 8)  # it never goes back
    assert [done for done, _ in seen] == [(k + 0.5) / 8 for k in range(8)]
    assert seen[0][1] == "law 1 of 2 (a), 0 of 8 fits"
    assert seen[-1][1] == "law 2 of 2 (b), 3 of 8 fits"
    assert _progress.state() == (0.0, "")


def test_the_time_left_is_not_that_of_the_first_compilation(monkeypatch, capsys):
    clock = iter([0.0, 40.0, 50.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with _progress.shown(True), part("fits") as one:
        one.now(0.2)
        one.now(0.4)
    said = ["jaxlaw: fits, 20%", "jaxlaw: fits, 40%, about 30 s left"]
    assert capsys.readouterr().err.splitlines() == said


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with _progress.shown(True), part("law a") as one:
        one.now(0.5, "2 of 4 fits")
    said = stream.getvalue()
    assert "law a, 2 of 4 fits" in said and "jaxlaw: law" not in said
    assert said.endswith("\x1b[2K")  # the line is erased


def test_nothing_is_shown_in_python_unless_asked_for(capfd):
    table = jl.simulate.experiment("loss-compute", noise=0.01).table
    jl.fit("loss-compute", table, n_starts=16, n_local=4)
    assert capfd.readouterr() == ("", "")
    jl.fit("loss-compute", table, n_starts=16, n_local=4, progress=True)
    assert "lanes" not in capfd.readouterr().err


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_person_who_waits_for_a_compiler_learns_of_it_once(monkeypatch, tmp_path, stream):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(_jit, "_compiled_for", [])
    monkeypatch.setattr(_cache, "folder", lambda: tmp_path)
    monkeypatch.delenv("JAXLAW_QUIET", raising=False)
    said = []
    for k in range(3):
        fresh = _jit.compiled()(lambda x, k=k: x + 10.7 * k)
        with jax.enable_x64(True):
            fresh(np.ones(3))
        said.append(sys.stderr.getvalue())
        _jit._compiled_for.append(5.1)
    line = "jaxlaw: compiling, once on this machine\n"
    assert said == (["", line, line] if stream is Terminal else [""] * 3)


# --- in the shell, in processes of their own, with nothing compiled

TABLE = "N,D,loss\n" + "\n".join(
    f"{N:g},{D:g},{1.7 + 400 / N**0.34 + 400 / D**0.28 + 0.004 * ((3 * i + j) % 5 - 2):.4f}"
    for i, N in enumerate((1e8, 4e8, 1.6e9, 6.4e9))
    for j, D in enumerate((2e9, 8e9, 3.2e10))
)
STUDY = "study chinchilla,kaplan runs.csv --folds k-fold:5 --n-starts 64 --n-local 4 --json"


def environment(folder):
    """Of a user, whose cache folder is empty."""
    named = {k: v for k, v in os.environ.items() if k not in ("JAXLAW_QUIET", "XLA_FLAGS")}
    return named | {"JAXLAW_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.full
def test_a_first_study_into_files_says_what_it_does(tmp_path):
    (tmp_path / "runs.csv").write_text(TABLE)
    done = subprocess.run(
        [sys.executable, "-m", "jaxlaw", *STUDY.split()], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and json.loads(done.stdout)["kind"] == "jaxlaw study"
    lines = done.stderr.splitlines()
    assert all(line.startswith("jaxlaw: ") for line in lines if "--folds" not in line)
    assert any(re.search(r"law [12] of 2 \(\w+\)", line) for line in lines)
    assert any("compiling, once on this machine" in line for line in lines)
    assert "lane" not in done.stderr and "\r" not in done.stderr
