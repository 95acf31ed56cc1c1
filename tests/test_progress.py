"""Progress: what is done, what is left, and how a terminal, a pipe and a notebook show it."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import _cache, _jit, _progress
from jaxlaw._jit import Program
from jaxlaw._progress import Display, part, parts


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen(written):
    """What a terminal shows: a carriage return goes back to the start of the line."""
    lines = []
    for line in written.split("\n"):
        shown = []
        for piece in line.split("\r"):
            shown[: len(piece)] = piece
        lines.append("".join(shown).rstrip())
    return lines


def test_parts_inside_parts_add_up_and_say_where_the_work_is():
    seen = []
    for _ in parts(["a", "b"], str, "law"):
        for k in range(4):
            with part(k=k, n=4) as inner:
                inner.share, inner.detail = 0.5, f"{k} of 8 fits"
                seen.append((_progress.done(), _progress.state()))
            between = _progress.done()
            assert between == pytest.approx((len(seen)) / 8)  # it never goes back
    assert [done for done, _ in seen] == [(k + 0.5) / 8 for k in range(8)]
    assert seen[0][1] == "law 1 of 2 (a), 0 of 8 fits"
    assert seen[-1][1] == "law 2 of 2 (b), 3 of 8 fits"
    assert (_progress.done(), _progress.state()) == (0.0, "")


@pytest.mark.parametrize("folder,once", [(None, ", once on this machine"), ("off", "")])
def test_compiling_is_said_and_a_single_law_has_no_number(monkeypatch, folder, once):
    if folder:
        monkeypatch.setenv("JAXLAW_CACHE", folder)
    seen = []

    class Lowered:
        in_tree = out_tree = ""
        as_text = lambda self: "a program that no cache holds"  # noqa: E731

        def compile(self):
            seen.append(_progress.state())
            raise RuntimeError("out of memory")

    program = Program(lambda x: x + 1)
    monkeypatch.setattr(program, "_lowered", lambda *_: Lowered())
    with pytest.raises(RuntimeError):
        for _ in parts(["a"], str, "law"):
            program(np.ones(3))
    assert seen == [f"law a, compiling{once}"] and _progress.state() == ""


def test_the_rest_is_estimated_from_what_is_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with part("law 1 of 4", 0, 4) as law:
        assert "left" not in _progress.state()
        for now[0], law.share, said in (
            (3.0, 0.5, "law 1 of 4"),  # too early
            (60.0, 0.01, "law 1 of 4"),  # too little
            (60.0, 0.5, "law 1 of 4, about 7 min left"),
            (60.0, 1.0, "law 1 of 4, about 3 min left"),
            (6.0, 1.0, "law 1 of 4, about 20 s left"),
            (36e3, 1.0, "law 1 of 4, about 30.0 h left"),
        ):
            assert _progress.state() == said


def test_the_work_is_named_as_soon_as_it_is_known(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    display = Display(idle="working")
    try:
        time.sleep(0.2)
        for _ in parts(["a", "b"], str, "law"):
            time.sleep(0.2)
    finally:
        display.close()
    assert stream.getvalue() == "jaxlaw: working, 0 s\njaxlaw: law 1 of 2 (a), 0 s\n"


def test_a_pipe_gets_lines_that_say_how_long_it_has_been(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "EVERY", 0.02)
    display = Display(idle="working")
    try:
        time.sleep(0.1)
        for _ in parts(["a", "b"], str, "law"):
            time.sleep(0.1)
            _progress.say("work folder w: 1 of 3 parts are there")
    finally:
        display.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "jaxlaw: working, 0 s" and "jaxlaw: law 2 of 2 (b), 0 s" in lines
    assert lines.count("jaxlaw: work folder w: 1 of 3 parts are there") == 2
    assert "\r" not in stream.getvalue()
    before = stream.getvalue()
    time.sleep(0.1)
    assert stream.getvalue() == before


def test_a_terminal_has_a_bar_of_its_own_width_that_leaves_nothing_behind(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "REFRESH", 0.01)
    monkeypatch.setenv("COLUMNS", "70")
    display = Display()
    try:
        with part("a law whose name is far longer than the terminal is wide", 1, 2):
            time.sleep(0.1)
        shown = screen(stream.getvalue())
        assert shown == [""]  # the work is over: what is printed now begins on a clean line
        with part("short", 1, 4):
            time.sleep(0.05)
            _progress.say("said")
    finally:
        display.close()
    bars = {one.strip() for one in re.split(r"[\r\n]", stream.getvalue())} - {""}
    assert "[##########----------] a law whose name is far longer than the termin" in bars
    assert "[#####---------------] short" in bars and max(map(len, bars)) == 69
    assert screen(stream.getvalue()) == ["jaxlaw: said", ""]


def test_a_narrow_terminal_has_words_and_no_bar(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "30")
    with _progress.shown(True), part("law 2 of 5 (skaling), 60 of 300 fits", 1, 2):
        time.sleep(0.1)
    assert stream.getvalue().split("\r")[0] == "law 2 of 5 (skaling), 60 of 3"


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
        _jit._compiled_for.append(2.1)
    line = "jaxlaw: compiling, once on this machine, before it computes\n"
    assert said == (["", line, line] if stream is Terminal else [""] * 3)


@pytest.mark.parametrize("hush", ["a display", "a variable"])
def test_a_wait_is_not_said_where_something_else_says_it_or_nothing_is_wanted(monkeypatch, hush):
    monkeypatch.setattr(sys, "stderr", Terminal())
    if hush == "a display":
        monkeypatch.setattr(_progress, "_displays", [object()])
    else:
        monkeypatch.setenv("JAXLAW_QUIET", "1")
    _progress.say_compiling()
    assert sys.stderr.getvalue() == ""


# --- in the shell, in processes of their own, with nothing compiled

TABLE = "N,D,loss\n" + "\n".join(
    f"{N:g},{D:g},{1.7 + 400 / N**0.34 + 400 / D**0.28 + 0.004 * ((3 * i + j) % 5 - 2):.4f}"
    for i, N in enumerate((1e8, 4e8, 1.6e9, 6.4e9))
    for j, D in enumerate((2e9, 8e9, 3.2e10))
)
STUDY = (
    "study",
    "chinchilla",
    "kaplan",
    "runs.csv",
    "--n-starts",
    "64",
    "--n-local",
    "4",
    "--json",
)


def environment(folder):
    """Of a user, whose cache folder is empty."""
    named = {k: v for k, v in os.environ.items() if k not in ("JAXLAW_QUIET", "XLA_FLAGS")}
    return named | {"JAXLAW_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.full
def test_a_first_study_into_files_says_what_it_does(tmp_path):
    (tmp_path / "runs.csv").write_text(TABLE)
    done = subprocess.run(
        [sys.executable, "-m", "jaxlaw", *STUDY], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and json.loads(done.stdout)["kind"] == "jaxlaw study"
    lines = done.stderr.splitlines()
    assert all(line.startswith("jaxlaw: ") for line in lines if "--folds" not in line)
    assert any(re.search(r"law [12] of 2 \(\w+\)", line) for line in lines)
    assert any("compiling, once on this machine" in line for line in lines)
    assert "lane" not in done.stderr and "\r" not in done.stderr


@pytest.mark.full
def test_a_first_study_on_a_terminal_has_a_bar(tmp_path):
    (tmp_path / "runs.csv").write_text(TABLE)
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "jaxlaw", *STUDY], cwd=tmp_path, stdout=subprocess.PIPE,
        env=environment(tmp_path) | {"COLUMNS": "100"}, stderr=theirs, text=True,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    while True:
        try:
            written += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    out, _ = running.communicate()
    os.close(ours)
    assert running.returncode == 0 and json.loads(out)
    shown = written.decode().replace("\r\n", "\n")
    assert re.search(r"\[#*-+\] law 1 of 2 \(chinchilla\)", shown)
    assert all(len(piece) < 100 for piece in re.split(r"[\r\n]", shown) if piece.startswith("["))
    assert not any(line.startswith("[") for line in screen(shown))  # no bar is left behind
