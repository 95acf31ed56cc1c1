"""Programs and samples in the user's cache folder: found again, never trusted blindly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlaw import _cache, _jit
from jaxlaw._jit import Program, compiled

ROOT = Path(__file__).parent.parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of one's own, and JAX's own persistent cache off."""
    monkeypatch.setenv("JAXLAW_CACHE", str(tmp_path / "cache"))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    _powers._made.clear()
    yield tmp_path / "cache"
    jax.config.update("jax_compilation_cache_dir", before)


def kept(folder):
    return sorted(folder.glob("*.kept")) if folder.exists() else []


@compiled(static_argnames="power")
def _powers(values, power, shift=0.0):
    return {"sum": jnp.sum(values**power) + shift, "all": (values**power, None)}


def test_a_folder_yet_to_be_made_is_writable_where_its_parent_is(monkeypatch, tmp_path):
    monkeypatch.setenv(_cache.VARIABLE, str(tmp_path / "a" / "b"))
    assert _cache.is_writable()
    monkeypatch.setattr("os.access", lambda path, _: path != tmp_path)
    assert not _cache.is_writable()
    monkeypatch.setenv(_cache.VARIABLE, "off")
    assert not _cache.is_writable()


def test_programs_are_found_by_the_packages_own_functions_alone(folder):
    """A function of a test has no name in jaxlaw: its key is the text it is lowered to."""
    with pytest.raises(_jit._HasNoName):
        _jit._described({"law": _powers})
    assert _jit._described({"f": _jit.next_power_of_two, "n": 3}) == _jit._described(
        {"n": 3, "f": _jit.next_power_of_two}
    )


def test_what_is_kept_gives_the_same_result_in_the_same_structure(folder):
    values = np.arange(5.0)
    first = _powers(values, power=3, shift=1.0)
    assert len(kept(folder)) == 1
    _powers._made.clear()
    again = _powers(values, 3, shift=2.0)  # another number, and by position: the same program
    assert len(kept(folder)) == 1
    assert jax.tree.structure(first) == jax.tree.structure(again)
    assert float(again["sum"]) == float(first["sum"]) + 1
    _powers(values, 4)
    _powers(np.arange(6.0), 4)
    assert len(kept(folder)) == 3


def test_a_changed_formula_does_not_meet_an_old_program(folder):
    def formula(factor):
        def function(values):
            return values * factor

        function.__qualname__ = "formula"
        return Program(function)

    assert formula(2.0)(np.ones(3)).tolist() == [2, 2, 2]
    assert formula(3.0)(np.ones(3)).tolist() == [3, 3, 3]
    assert len(kept(folder)) == 2


def test_arguments_of_other_shapes_do_not_meet_a_program_that_does_not_use_them(folder):
    for count in (3, 4):
        program = Program(lambda values, unused: 2 * values)
        assert program(np.ones(2), np.ones(count)).tolist() == [2, 2]


def test_a_damaged_file_is_compiled_again(folder):
    _powers(np.arange(7.0), 2)
    (path,) = kept(folder)
    whole = path.read_bytes()
    for content in (b"", whole[:40], whole[:-1] + b"?", whole + b"more"):
        path.write_bytes(content)
        _powers._made.clear()
        assert float(_powers(np.arange(7.0), 2)["sum"]) == 91
    assert len(path.read_bytes()) == len(whole)


def test_a_program_that_was_copied_over_another_is_not_loaded(folder):
    """Both take what the other takes: only the key tells them apart."""
    _powers(np.arange(7.0), 2)
    (square,) = kept(folder)
    _powers(np.arange(7.0), 3)
    (cube,) = set(kept(folder)) - {square}
    square.write_bytes(cube.read_bytes())
    _powers._made.clear()
    assert float(_powers(np.arange(7.0), 2)["sum"]) == 91
    assert square.read_bytes() != cube.read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
@pytest.mark.parametrize("of", ["folder", "file"])
def test_what_others_can_write_is_not_loaded(folder, of, monkeypatch):
    _powers(np.arange(8.0), 2)
    (path,) = kept(folder)
    (path if of == "file" else folder).chmod(0o777)
    _powers._made.clear()

    def refuse(*_args, **_named):
        raise AssertionError("a program that others can write was loaded")

    monkeypatch.setattr(_jit.pickle, "loads", refuse)
    assert float(_powers(np.arange(8.0), 2)["sum"]) == 140


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("JAXLAW_CACHE", str(tmp_path / "file" / "cache"))
    _powers._made.clear()
    assert float(_powers(np.arange(9.0), 2)["sum"]) == 204


def test_a_full_disk_costs_nothing_and_leaves_no_part_of_a_file(folder):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # no file can be longer
    try:
        assert float(_powers(np.arange(13.0), 2)["sum"]) == 650
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert folder.exists() and kept(folder) == []


SHARED = """
from jaxlaw import _cache

_cache.LARGEST = 20_000  # of 20 keys about a half
for turn in range(200):
    key = f"key {turn % 20}"
    _cache.write(key, key.encode() * 300)
    for number in range(turn % 3, 20, 3):
        key = f"key {number}"
        assert _cache.read(key) in (None, key.encode() * 300), key
    if turn % 50 == 49:
        for path in _cache.folder().glob("*.kept"):
            path.unlink(missing_ok=True)
    print(_cache.read(key) is not None)
"""


def test_processes_that_write_read_and_delete_at_once_meet_whole_files_alone(tmp_path):
    environment = os.environ | {"JAXLAW_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SHARED]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    for process in both:
        printed, errors = process.communicate()
        assert process.returncode == 0 and not errors, errors
        assert "True" in printed


@pytest.mark.parametrize(
    "owner, changed, to",
    [
        (_jit, "__file__", "/no such folder/_jit.py"),
        (_jit, "installed", lambda *_: ["another"]),
        (_jit.platform, "machine", lambda: "another"),
    ],
)
def test_a_program_of_another_version_or_machine_is_not_met(
    folder, monkeypatch, owner, changed, to
):
    _powers(np.arange(14.0), 2)
    monkeypatch.setattr(owner, changed, to)
    _jit._surroundings.cache_clear()
    try:
        _powers._made.clear()
        assert float(_powers(np.arange(14.0), 2)["sum"]) == 819
    finally:
        _jit._surroundings.cache_clear()
    assert len(kept(folder)) == 2


@pytest.mark.parametrize("word", ["off", "OFF", "0", ""])
def test_one_word_turns_it_off(folder, monkeypatch, word):
    monkeypatch.setenv("JAXLAW_CACHE", word)
    _powers._made.clear()
    _powers(np.arange(10.0), 2)
    assert _cache.folder() is None and not folder.exists()


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("JAXLAW_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert _cache.folder() == tmp_path / "jaxlaw"


def test_the_folder_is_bounded_and_what_was_used_last_stays(folder, monkeypatch):
    monkeypatch.setattr(_cache, "LARGEST", 350)
    for number in range(6):
        _cache.write(f"key {number}", bytes(100))
        for key, path in ((f"key {n}", _cache._path(f"key {n}")) for n in range(number + 1)):
            if path.exists() and key != "key 0":
                os.utime(path, (number, int(key[-1])))
        assert _cache.read("key 0") == bytes(100)  # used again and again
    assert len(kept(folder)) <= 3
    assert _cache.read("key 5") == bytes(100) and _cache.read("key 1") is None


BESIDE_JAX = """
import sys

import jax
import numpy as np

from jaxlaw import _jit, fitting

of_jax, turned_off = sys.argv[1:]
if of_jax:
    jax.config.update("jax_compilation_cache_dir", of_jax)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
if turned_off:
    jax.jit(lambda x: x + 1)(np.ones(3))
    jax.config.update("jax_compilation_cache_dir", None)
values = np.arange(6.0)
print(jax.jit(lambda x: x)(_jit.Program(lambda x: 2 * x + x**2 / (1 + x))(values)).sum())
"""


@pytest.mark.parametrize("turned_off", ["", "turned off"])
def test_a_program_that_jax_found_in_its_own_cache_is_not_kept_again(tmp_path, turned_off):
    """It would lose its functions, and every later process would end by an error."""
    printed = set()
    for of_jax, in_ours, files in (
        (tmp_path / "jax", "first", 1),  # compiled: both keep it
        (tmp_path / "jax", "other", 0),  # found by JAX
        (tmp_path / "jax", "first", 1),  # found here
        ("", "first", 1),
        ("", "other", 1),
    ):
        done = subprocess.run(
            [sys.executable, "-c", BESIDE_JAX, str(of_jax), turned_off if of_jax else ""],
            env=os.environ | {"JAXLAW_CACHE": str(tmp_path / in_ours), "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert len(kept(tmp_path / in_ours)) == files
        printed.add(done.stdout)
    assert len(printed) == 1


LOADED = """
import sys
import time
import jax, jax.numpy as jnp, numpy as np
from jaxlaw import _jit

_jit._described = lambda value, values=True: "the same name"


@_jit.compiled()
def solve(matrix, vector):
    return jnp.linalg.solve(matrix, vector)


@_jit.compiled()
def call_back(vector):
    return jax.pure_callback(np.square, jax.ShapeDtypeStruct((2,), np.float32), vector)


one = np.ones(2, np.float32)
unit = np.eye(2, dtype=np.float32)
print((solve(unit, one) if sys.argv[1] == "solve" else call_back(one)).tolist())
"""


@pytest.mark.full
@pytest.mark.parametrize("what", ["solve", "call"])
def test_a_process_that_loads_a_program_can_call_what_the_program_calls(tmp_path, what):
    """LAPACK is looked up when a call is lowered, and a callback is an address of its process."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")}
    environment |= {"JAXLAW_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LOADED, what], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "[1.0, 1.0]\n"), done.stderr
    assert len(kept(tmp_path / "cache")) == (what == "solve")


FIRST_FIT = """
import json, sys
import jax
import jaxlaw as jl
from jaxlaw import simulate

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: compiled.append(name) if "backend_compile" in name else None
)
experiment = simulate.experiment(sys.argv[1], noise=0.004)
options = {"fixed": {}} if experiment.law.from_base else {}
fit = jl.fit(experiment.law, experiment.table, **options)
slow = sorted({"jaxopt", "scipy.stats"} & {*sys.modules})
intervals = jl.covariance(fit, experiment.table).conf_int().to_numpy().tolist()
done = {"compiled": len(compiled), "slow": slow}
print(json.dumps({"params": fit.params, "intervals": intervals} | done))
"""


@pytest.mark.full
@pytest.mark.parametrize("law", ["chinchilla", "dcpt", "cpt-curve"])
def test_a_second_process_compiles_nothing_and_finds_the_same_bits(tmp_path, law):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")}
    environment |= {"JAXLAW_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    def run():
        done = subprocess.run(
            [sys.executable, "-c", FIRST_FIT, law],
            env=environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first, second = run(), run()
    # Imports that take longer than a fit of kept programs; jaxopt is traced in the first process.
    by_signal = ["scipy.stats"] * (law == "cpt-curve")  # scipy.signal, which sums areas, imports it
    assert first["compiled"] > 3 and first["slow"] == ["jaxopt", *by_signal]
    assert {**first, "compiled": 0, "slow": by_signal} == second


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root gives files away")
def test_a_file_of_another_user_is_not_read(folder):
    _cache.write("a", b"mine")
    assert _cache.read("a") == b"mine"
    os.chown(_cache._path("a"), 12345, 12345)
    assert _cache.read("a") is None
