"""Programs and samples in the user's cache folder: found again, never trusted blindly."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import _cache, _jit
from jaxlaw._jit import Program, compiled
from jaxlaw.fitting import _starts as starts

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


def test_arguments_of_other_names_do_not_meet_a_program_of_the_same_text(folder):
    for name in "ab":
        program = Program(lambda values, name=name: 2 * values[name])
        assert program({name: np.ones(2)}).tolist() == [2, 2]


def test_arguments_of_other_shapes_do_not_meet_a_program_that_does_not_use_them(folder):
    for count in (3, 4):
        program = Program(lambda values, unused: 2 * values)
        assert program(np.ones(2), np.ones(count)).tolist() == [2, 2]


def test_a_program_made_below_a_function_called_callback_is_kept(folder):
    """The text of a program has names of the Python functions that it was made in."""

    def callback():
        return _powers(np.arange(12.0), 2)

    callback()
    assert len(kept(folder)) == 1


def test_a_damaged_file_is_compiled_again(folder):
    _powers(np.arange(7.0), 2)
    (path,) = kept(folder)
    whole = path.read_bytes()
    for content in (b"", whole[:40], whole[:-1] + b"?", whole + b"more"):
        path.write_bytes(content)
        _powers._made.clear()
        assert float(_powers(np.arange(7.0), 2)["sum"]) == 91
    assert len(path.read_bytes()) == len(whole)


def test_content_that_is_no_program_is_compiled_again(folder, monkeypatch):
    write = _cache.write
    monkeypatch.setattr(_cache, "write", lambda key, _content: write(key, b"no program"))
    _powers(np.arange(7.0), 2)
    assert len(kept(folder)) == 1
    _powers._made.clear()
    assert float(_powers(np.arange(7.0), 2)["sum"]) == 91


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


@pytest.mark.parametrize("junk", [b"", b"junk", b"x" * 8, np.full(64, np.nan).tobytes()])
def test_a_kept_sample_with_junk_inside_is_drawn_again(folder, monkeypatch, junk):
    law = jl.laws.get("kaplan")  # four parameters
    drawn, write = starts.sobol(law, 16, 0), _cache.write
    (path,) = kept(folder)
    path.unlink()
    monkeypatch.setattr(_cache, "write", lambda key, _content: write(key, junk))
    starts.sobol(law, 16, 0)
    assert len(kept(folder)) == 1
    np.testing.assert_array_equal(starts.sobol(law, 16, 0), drawn)


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


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_chosen_folder_that_others_can_write_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    table = {
        "N": [1e7, 1e8, 1e9, 2e9, 3e9, 4e9],
        "D": [1e9] * 6,
        "loss": [4, 3.5, 3, 2.9, 2.8, 2.7],
    }
    with pytest.raises(jl.UsageError, match="others can write to this folder.*chmod go-w"):
        jl.fit("chinchilla", table, compile_cache=tmp_path)


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("JAXLAW_CACHE", str(tmp_path / "file" / "cache"))
    _powers._made.clear()
    assert float(_powers(np.arange(9.0), 2)["sum"]) == 204


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
    with _cache.cache_folder(tmp_path / "other"):
        assert _cache.folder() == tmp_path / "other"
        with _cache.cache_folder(False):
            assert _cache.folder() is None
        with _cache.cache_folder(None):
            assert _cache.folder() == tmp_path / "other"
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


def test_nothing_is_kept_where_jax_keeps_programs_itself(folder):
    """What JAX found in its own cache loses its functions when it is serialised again."""
    jax.config.update("jax_compilation_cache_dir", str(folder / "of-jax"))
    _powers._made.clear()
    _powers(np.arange(11.0), 2)
    assert kept(folder) == []


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
intervals = jl.covariance(fit, experiment.table).conf_int().to_numpy().tolist()
print(json.dumps({"params": fit.params, "intervals": intervals, "compiled": len(compiled)}))
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
    assert first["compiled"] > 3 and second["compiled"] == 0
    assert {**first, "compiled": 0} == second


def test_what_was_not_used_for_months_is_deleted(monkeypatch, tmp_path):
    monkeypatch.setenv(_cache.VARIABLE, str(tmp_path))
    for key in ("old", "recent"):
        _cache.write(key, b"content")
    day = 86_400
    for key, days in (("old", _cache.OLDEST + 1), ("recent", _cache.OLDEST - 1)):
        then = time.time() - days * day
        os.utime(_cache._path(key), (then, then))
    _cache.write("new", b"content")
    assert [_cache.read(key) for key in ("old", "recent", "new")] == [None, b"content", b"content"]
