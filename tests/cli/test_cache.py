"""The command ``jaxlaw cache``: what it counts, deletes and compiles."""

import json
import os

import pytest

import jaxlaw as jl
from jaxlaw import _cache, _jit
from jaxlaw.cli import _cache as caches


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXLAW_CACHE", str(tmp_path / "programs"))
    return tmp_path / "programs"


def test_the_size_is_that_of_the_kept_files_alone(command, folder):
    _cache.write("a", b"x" * 1000)
    _cache.write("b", b"y" * 2000)
    (folder / "notes.txt").write_text("mine")
    code, out, _ = command("cache", "--json")
    record = json.loads(out)
    assert (code, record["folder"]) == (0, str(folder))
    version = _cache._this_version()
    assert [(row["version"], row["files"]) for row in record["versions"]] == [(version, 2)]
    assert record["versions"][0]["bytes"] == 3064  # each with its digest
    (folder / "jaxlaw-0.1.0-jax-0.9.0_0a1b.kept").write_bytes(bytes(2**20))
    os.utime(folder / "jaxlaw-0.1.0-jax-0.9.0_0a1b.kept", (0, 0))
    assert command("cache")[1].splitlines() == [
        str(folder),
        f"{version}: 0.0 MB of at most 512 MB, files: 2",
        "jaxlaw-0.1.0-jax-0.9.0: 1.0 MB of at most 512 MB, files: 1",
    ]


def test_clearing_leaves_what_is_not_ours_and_no_folder_of_ours(command, folder):
    _cache.write("a", b"x")
    (folder / "notes.txt").write_text("mine")
    assert command("cache", "clear")[0] == 0
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    _cache.write("a", b"x")
    assert command("cache", "clear")[0] == 0
    assert not folder.exists()
    assert command("cache")[1].splitlines() == [str(folder), "no files"]
    assert _cache.read("a") is None
    assert command("cache", "clear")[0] == 0  # there is nothing, and that is no error


def test_a_cache_that_is_off_has_no_folder(command, monkeypatch):
    monkeypatch.setenv("JAXLAW_CACHE", "off")
    assert json.loads(command("cache", "--json")[1])["folder"] is None
    assert "turns the cache off" in command("cache")[1]
    code, _, err = command("cache", "warm", "chinchilla")
    assert code == 2 and "the cache is off" in err


@pytest.mark.parametrize(
    "words, said",
    [
        (["sise"], "there is no 'sise' of the cache; there are size, clear, warm. Did you mean"),
        (["warm"], "name the laws to compile"),
        (["clear", "chinchilla"], "cache clear takes no laws"),
        (["warm", "chinchila"], "there is no law 'chinchila'"),
    ],
)
def test_wrong_words_are_named(command, words, said):
    code, _, err = command("cache", *words)
    assert code == 2 and said in err


@pytest.mark.full
def test_after_warming_a_fit_compiles_no_search(command, folder, monkeypatch):
    monkeypatch.setattr(caches, "ROWS", (60,))
    _jit._forget_programs()  # of other tests: what is in memory is not compiled, and not kept
    assert command("cache", "warm", "loss-compute")[0] == 0
    files = _cache.contents()[_cache._this_version()][0]
    assert files >= 3
    _jit._forget_programs()
    jl.fit("loss-compute", jl.simulate.experiment("loss-compute").table)
    assert (
        _cache.contents()[_cache._this_version()][0] <= files + 1
    )  # the prediction at another number of rows
