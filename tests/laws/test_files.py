"""Laws of a user's own Python file: named on the command line, fitted, saved and read again."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.laws import _base as base, _files as files

pytest.importorskip("cyclopts")

MINE = '''
"""A law of a user's."""
import jaxlaw as jl
from beside import FLOOR


@jl.law(name="own-power")
def mine(N, *, A=jl.laws.positive(0.1, 10, centre={"N": "alpha"}), alpha=jl.laws.exponent()):
    """FLOOR + A/N^α"""
    return FLOOR + A * jl.laws.power(N, -alpha)
'''
SIZES = np.geomspace(1e7, 1e10, 24)
NOISE = np.exp(0.004 * np.random.default_rng(0).standard_normal(24))
RUNS = pd.DataFrame({"N": SIZES, "loss": (1.5 + 300 * SIZES**-0.3) * NOISE})
QUICK = ("--n-starts", "256", "--n-local", "16", "--quiet")


@pytest.fixture(autouse=True)
def as_new(own_laws):
    """Every test begins with no file run, and leaves no law behind."""
    forget()


def forget():
    """As a new process knows it."""
    for name in [name for name in sys.modules if name.startswith("jaxlaw_file_")]:
        del sys.modules[name]
    base._REGISTRY.pop("own-power", None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mylaw.py").write_text(MINE)
    (tmp_path / "beside.py").write_text("FLOOR = 1.5\n")
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    RUNS.to_csv(tmp_path / "runs.csv", index=False)
    return tmp_path


def test_a_law_is_named_by_its_variable_its_own_name_or_the_file_alone(folder):
    result = jl.laws.from_file("mylaw.py:mine")
    assert result.name == "own-power" and "own-power" in jl.laws.names()
    assert jl.laws.from_file("mylaw.py:own-power") is result
    assert jl.laws.from_file(folder / "mylaw.py") is result  # run once: programs are found again
    path = list(sys.path)
    (folder / "mylaw.py").write_text(MINE.replace("A/N", "A / N"))
    again = jl.laws.from_file("mylaw.py")
    assert again is not result and again.formula == "FLOOR + A / N^α" and sys.path == path
    names = ("a/b.py:c", "b.py", "chinchilla", "fit.json", "mylaw.pyc", "runs.csv")
    assert [files.names_a_file(name) for name in names] == [True] * 2 + [False] * 4


@pytest.mark.parametrize(
    ("content", "asked", "said"),
    [
        (None, "mylow.py:mine", "cannot read mylow.py.*Did you mean 'mylaw.py'"),
        (MINE, "mylaw.py:min", "defines no law 'min'; it defines mine. Did you mean 'mine'"),
        ("x = 1\n", "mylaw.py:x", "mylaw.py defines no law"),
        ("a = 1\nb = a +\n", "mylaw.py:x", "mylaw.py, line 2: .*SyntaxError"),
        ("import sys\n\nsys.exit(3)\n", "mylaw.py", "line 3: cannot be run: SystemExit"),
        ("\n1 / 0\n", "mylaw.py", "line 2: .*ZeroDivisionError: division by zero"),
        (MINE.replace("own-power", "kaplan"), "mylaw.py", "line 7: .*that of a built-in law"),
        (MINE.replace("jl.laws.exponent()", "1.0"), "mylaw.py",
         "parameter 'alpha' .*specification"),
        (MINE + MINE.replace("mine", "other").replace("own-power", "o"), "mylaw.py",
         "defines 2 laws; name one: mylaw.py:mine, mylaw.py:other"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(folder, content, asked, said):
    if content is not None:
        (folder / "mylaw.py").write_text(content)
    with pytest.raises(jl.UsageError, match=said):
        jl.laws.from_file(asked)


@pytest.mark.full
def test_a_law_of_a_file_is_fitted_saved_and_read_where_the_file_is_given(folder, command):
    code, _, err = command("fit", "mylaw.py:mine", "runs.csv", *QUICK, "--out", "fit.json")
    assert (code, err) == (0, "")
    record = json.loads((folder / "fit.json").read_text())
    assert record["law"] == "own-power" and "mylaw" not in json.dumps(record)
    ours = jl.fit(jl.laws.from_file("mylaw.py:mine"), RUNS, n_starts=256, n_local=16)
    assert record["params"] == pytest.approx(ours.params, rel=1e-9)
    forget()
    at = ("--at", "N=1e11", "--json")
    code, out, err = command("predict", "fit.json", *at)
    assert (code, out) == (2, "") and "there is no law 'own-power'" in err
    assert "--law-file FILE.py" in err
    forget()
    code, out, err = command("predict", "fit.json", *at, "--law-file=mylaw.py")
    assert (code, err) == (0, "")
    assert json.loads(out)["quantities"]["loss"]["value"] == float(ours.predict(N=1e11))
    code, out, _ = command("laws", "--law-file", "mylaw.py", "--json")
    assert "own-power" in {row["name"] for row in json.loads(out)["tables"]["laws"]}
    # The formula has changed since: the fit's own number tells.
    forget()
    (folder / "mylaw.py").write_text(MINE.replace("FLOOR + A", "1.1 * FLOOR + A"))
    code, out, err = command("predict", "fit.json", *at, "--law-file", "mylaw.py")
    assert (code, out) == (1, "") and "its formula has changed" in err


def test_a_law_file_is_not_written_over(folder, command):
    for line in (("fit", "mylaw.py:mine", "runs.csv"), ("laws", "--law-file", "mylaw.py")):
        code, out, err = command(*line, "--out", "mylaw.py")
        assert (code, out) == (2, "") and "out" in err
    assert (folder / "mylaw.py").read_text() == MINE


@pytest.mark.parametrize("name", ["mylaw.txt", "mylaw", "mylaw.PY", "mylaw.pyc"])
def test_a_law_file_of_another_kind_is_refused(folder, command, name):
    (folder / name).write_text(MINE)
    code, out, err = command("laws", "--law-file", name)
    assert (code, out) == (2, "") and f"{name} is not run" in err and "*.py" in err


@pytest.mark.full
@pytest.mark.parametrize(
    "line",
    [
        ("covariance", "mylaw.py:mine", "runs.csv"),
        ("profile", "mylaw.py:mine", "runs.csv", "--quantity", "alpha"),
        ("influence", "mylaw.py:mine", "runs.csv"),
        ("identifiability", "mylaw.py:mine", "runs.csv"),
        ("bootstrap", "mylaw.py:mine", "runs.csv", "--n-resamples", "40", *QUICK),
        ("study", "mylaw.py:own-power", "runs.csv", "--folds", "k-fold:3", *QUICK),
    ],
    ids=lambda line: line[0],
)  # fmt: skip
def test_every_command_that_takes_a_law_takes_one_of_a_file(folder, command, line):
    code, out, err = command(*line, "--json")
    assert (code, err) == (0, "")
    # A table of moves or of directions names no law.
    assert "own-" in json.dumps(json.loads(out)) or line[0] in ("influence", "identifiability")


def test_help_says_that_a_file_is_run(folder):
    for name in ("fit", "covariance", "study"):
        done = subprocess.run(
            [sys.executable, "-m", "jaxlaw", name, "--help"], capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        said = " ".join(done.stdout.replace("│", " ").split())
        assert "FILE.py:LAW" in said or name != "fit"
        assert "--law-file" in said and "which is run first" in said
