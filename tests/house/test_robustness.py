"""Bad input is refused by name or read right: tables, arguments of every function, saved fits.

``benchmarks/robustness.py`` tries the same things ten thousand times over.
"""

import ast
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import jaxlaw as jl
from jaxlaw._typed import checked
from tests.fixtures.command_files import a_forecast, prepare
from tests.fuzz import (
    calls as hostile_calls,
    commands,
    files as hostile_files,
    tables as hostile,
    trials,
)

PACKAGE = Path(jl.__file__).parent


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A work folder called '7B' is a good one: not here."""
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- tables


@pytest.mark.full
@trials.settled(150, derandomize=True)
@given(hostile.tables())
def test_tables_are_refused_or_read_right(case):
    assert trials.read(case) in ("refused", "read")


def test_numbers_too_large_to_add_are_refused_without_a_warning():
    frame = pd.DataFrame(hostile.sound(12), columns=[*hostile.NAMES]).assign(N=1.5e308)
    assert trials.read((frame, {}, None)) == "refused"


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::jaxlaw.notes.FitWarning")  # no law describes such losses
@trials.settled(6, derandomize=True)
@given(trials.losses())
def test_impossible_losses_are_fitted_alike_in_any_order(loss):
    assert trials.fitted(loss) in ("refused", "fitted", "fitted, with warnings")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::jaxlaw.notes.FitWarning")  # the notes are counted instead
def test_losses_without_a_law_are_never_fitted_without_a_warning():
    result = trials.lawless(36)  # every way at every size
    assert sum(result.values()) == 36
    assert {
        what for what in result if not what.startswith(("error", "warning", "refused"))
    } == set()


# ---------------------------------------------------------------- conditions


# ---------------------------------------------------------------- containers


# ---------------------------------------------------------------- command lines


@pytest.fixture(scope="module")
def prepared_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    prepare(folder)
    return folder


@pytest.mark.full
def test_command_lines_end_with_an_answer_or_one_error(command, prepared_files, monkeypatch):
    """And what they read is as it was."""
    monkeypatch.chdir(prepared_files)
    before = {path.name: path.read_bytes() for path in prepared_files.iterdir()}
    piped = (prepared_files / "runs.csv").read_text()
    codes = Counter()
    for line in commands.lines(0, 80):
        code, out, err = command(*line, stdin=piped)
        assert code in (0, 1, 2) and (code == 0 or err or out), line
        if code and err.startswith("jaxlaw: "):
            assert len(err.splitlines()) == 1, line
        codes[code] += 1
        after = {path.name: path.read_bytes() for path in prepared_files.iterdir()}
        assert {name: after.get(name) for name in before} == before, line
        assert not [name for name in after if name.startswith(".jaxlaw-")], line
    assert min(codes[0], codes[2]) > 5  # the lines are neither all sound nor all hopeless


# ---------------------------------------------------------------- arguments


@pytest.mark.full
@pytest.mark.parametrize("name", hostile_calls.CALLS)
def test_no_argument_ends_in_an_error_from_deep_inside(name):
    broken = [
        f"{argument}={hostile_calls.VALUES[k]!r:.40}: {error!r:.100}"
        for argument, k, what, error in hostile_calls.outcomes(name, hostile_calls.VALUES)
        if what == "broken"
    ]
    assert broken == []


@pytest.mark.parametrize("name", sorted(hostile_calls.CALLS.keys() - trials.REFUSED_AS_THEY_ARE))
def test_sound_calls_are_answered(name):
    hostile_calls.public_functions()[name](**hostile_calls.CALLS[name]())


def test_annotations_are_what_is_checked():
    @checked
    def asked(count: int, share: float = 0.5, names: "tuple[str, str] | None" = None, **more: bool):
        return count, share, names, more

    assert asked(3.0, np.float32(0.25), ["a", "b"], yes=1) == (3, 0.25, ("a", "b"), {"yes": True})
    for wrong in ((2.5,), (True,), (3, "x"), (3, 0.5, ("a",)), (3, 0.5, ("a", 1))):
        with pytest.raises(jl.UsageError, match="it must be"):
            asked(*wrong)
    with pytest.raises(jl.UsageError, match="yes is 'no'; it must be True or False"):
        asked(1, yes="no")


# ---------------------------------------------------------------- saved fits


def test_a_broken_file_is_refused_or_says_the_same(tmp_path):
    fit, path = jl.published()["besiroglu-2024"], tmp_path / "fit.json"
    fit.save(path)
    text = path.read_text("utf-8")
    result = {what: hostile_files.outcome(path, content, fit)
             for what, content in hostile_files.broken(text, 40)}  # fmt: skip
    assert {what: came for what, came in result.items() if came not in ("refused", "same")} == {}
    assert result["formatted anew"] == result["with a byte order mark"] == "same"
    assert result["of law kaplan"] == result["params.E = 1.5"] == "refused"


def test_a_forecast_that_was_changed_is_refused(tmp_path):
    """With its digest, without, with another: a pre-registration is of one day."""
    path = tmp_path / "forecast.json"
    a_forecast().save(path)
    sound = jl.load(path).to_dict()
    made, text = random.Random(0), path.read_text("utf-8")
    record = json.loads(text)
    leaves = list(hostile_files.paths(record))
    for place in made.sample(leaves, 60):
        changed = hostile_files.changed(record, place, made.choice(hostile_files.EDITS))
        unsealed = {name: value for name, value in changed.items() if name != "digest"}
        for what in (changed, unsealed, unsealed | {"digest": "0" * 64}):
            path.write_text(json.dumps(what))
            try:
                assert jl.load(path).to_dict() == sound, place  # the same value again
            except jl.DataError as error:
                assert str(path) in str(error)
    path.write_text(text.replace('"level": 0.9', '"level": 0.9, "level": 0.8', 1))
    with pytest.raises(jl.DataError, match="key 'level' occurs twice"):
        jl.load(path)


def test_fields_are_checked_without_a_digest_too(tmp_path, chinchilla_fit):
    """A file that somebody wrote by hand: no digest, and nothing taken on trust."""
    record, path = chinchilla_fit.to_dict(), tmp_path / "fit.json"
    kept = {"params", "units", "ranges", "delta", "asymmetry", "residuals", "notes", "n_starts",
            "tied", "status", "metrics", "area_options", "runner_up", "bounds",
            "fixed"}  # fmt: skip
    path.write_text(json.dumps(record))
    assert jl.load(path).to_dict() == record
    for name in kept:
        for wrong in ([1], "x", {"N": "x"}, True):
            path.write_text(json.dumps(record | {name: wrong}))
            if name == "status" and wrong == "x":
                continue  # any text
            with pytest.raises(jl.DataError, match="fit.json is not a complete jaxlaw result"):
                jl.load(path)
    path.write_text(json.dumps(record | {"params": record["params"] | {"E": "nan"}}))
    with pytest.raises(jl.DataError, match="params.E' is nan; it must be a finite number"):
        jl.load(path)


@pytest.mark.full
def test_another_formula_under_the_same_name_is_refused(tmp_path, own_laws):
    def law_of(power):
        @jl.law(name="mine")
        def mine(
            N, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(0.1, 10), alpha=jl.laws.exponent()
        ):
            return E + A * jl.laws.power(N / 1e8, -power * alpha)

        return mine

    N = np.geomspace(1e7, 1e10, 8)
    fit = jl.fit(law_of(1.0), {"N": N, "loss": 2 + (N / 1e8) ** -0.3}, n_starts=64, n_local=8)
    fit.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").params == fit.params
    law_of(2.0)
    with pytest.raises(jl.DataError, match="law mine gives .* its formula has changed"):
        jl.load(tmp_path / "fit.json")


_NEVER = {"eval", "exec", "compile", "__import__", "open_code"}
_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}
_WRITES = {"dumps"}
_OF_PANDAS = {"eval", "query", "read_pickle"}


@pytest.mark.full
def test_the_package_executes_nothing_it_reads():
    result = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "")]
                if _MODULES & {(name or "").partition(".")[0] for name in names}:
                    result.append((path.name, "import"))
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            if isinstance(function, ast.Name) and function.id in _NEVER:
                result.append((path.name, function.id))
            of_module = isinstance(getattr(function, "value", None), ast.Name)
            if of_module and function.value.id in _MODULES and function.attr not in _WRITES:
                result.append((path.name, f"{function.value.id}.{function.attr}"))
            if isinstance(function, ast.Attribute) and function.attr in _OF_PANDAS:
                result.append((path.name, function.attr))
            for word in node.keywords:
                if word.arg == "allow_pickle" and ast.unparse(word.value) != "False":
                    result.append((path.name, "allow_pickle"))
    # pandas evaluates conditions whose nodes are known (tests/test_where.py). A law asks whether it
    # can be pickled; kept programs are machine code, and loaded from a folder that only the user
    # can write (tests/test_cache.py). A worker of an executor reads what this process has sent it,
    # as the executor itself does. Columns of designs are formulas of the package's own file.
    assert set(result) <= {
        ("_base.py", "import"),
        ("_checkpoint.py", "import"),
        ("_checkpoint.py", "pickle.loads"),
        ("_designs.py", "eval"),
        ("_where.py", "eval"),
        ("_jit.py", "import"),
        ("_jit.py", "pickle.loads"),
    }, result
