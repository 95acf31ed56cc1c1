"""Bad input is refused by name or read right: tables, arguments of every function, saved fits.

``benchmarks/robustness.py`` tries the same things ten thousand times over.
"""

import ast
import copy
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import jaxlaw as jl
from jaxlaw._json import digest_of
from jaxlaw._typed import checked
from tests.fixtures.command_files import a_forecast, prepare
from tests.fuzz import calls as hostile_calls
from tests.fuzz import commands, conditions, containers, trials
from tests.fuzz import files as hostile_files
from tests.fuzz import tables as hostile

PACKAGE = Path(jl.__file__).parent


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A work folder called '7B' is a good one: not here."""
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- tables


@pytest.mark.full
@trials.settled(300, derandomize=True)
@given(hostile.tables())
def test_tables_are_refused_or_read_right(case):
    assert trials.read(case) in ("refused", "read")


def test_the_independent_reading_would_notice():
    rows = hostile.sound(6)
    cells = {name: [row[k] for row in rows] for k, name in enumerate(("N", "D", "loss"))}
    frame = pd.DataFrame(rows, columns=[*hostile.NAMES])
    assert trials.read((frame, {}, cells)) == "read"
    assert trials.read((frame.assign(D=frame["D"] * 2), {}, cells)).startswith("wrong: D")
    assert trials.read((frame, {"no_such_option": 1}, cells)) == "refused"


def test_numbers_too_large_to_add_are_refused_without_a_warning():
    frame = pd.DataFrame(hostile.sound(12), columns=[*hostile.NAMES]).assign(N=1.5e308)
    assert trials.read((frame, {}, None)) == "refused"


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::jaxlaw.notes.FitWarning")  # no law describes such losses
@trials.settled(15, derandomize=True)
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


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_conditions_keep_the_rows_of_which_they_are_known_to_hold(seed):
    """Whatever container the rows came in; each condition by Python's own comparisons."""
    made, rows = random.Random(seed), conditions.rows(seed)
    for _ in range(12):
        text, holds = conditions.condition(made)
        wanted = [row["loss"] for row in rows if holds(row)]
        for name, table in conditions.tables(rows):
            try:
                kept = jl.read_runs(table, where=text).table["loss"].tolist()
            except jl.DataError:  # there is no row to read
                kept = []
            assert kept == wanted, (name, text)


def test_what_is_no_condition_is_refused_in_every_container():
    rows = conditions.rows(0)
    for name, table in conditions.tables(rows):
        for text in conditions.BROKEN:
            with pytest.raises(jl.JaxlawError) as error:
                jl.read_runs(table, where=text)
            assert len(str(error.value)) < 700, (name, text)


def test_an_empty_condition_keeps_all_rows():
    rows = conditions.rows(0)
    for name, table in conditions.tables(rows):
        for text in ("", " "):
            assert len(jl.read_runs(table, where=text).table) == len(rows), name


# ---------------------------------------------------------------- containers


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_runs_are_the_same_in_every_container(seed):
    for missing in (False, True):
        columns = containers.columns(seed, missing)
        expected = read_with_gaps(containers.as_floats(columns))
        for name, table in containers.containers(columns):
            before = copy.deepcopy(table)
            result = read_with_gaps(table)
            assert result[:2] == expected[:2], (name, result, expected)
            assert repr(table) == repr(before), name


def read_with_gaps(table):
    """The runs that chinchilla takes of a table; what it makes of missing cells by default."""
    seen = jl.read_runs(table, drop_invalid=True).observations("chinchilla")
    rows = list(zip(seen.inputs["N"].tolist(), seen.inputs["D"].tolist(), seen.target.tolist(),
                    strict=True))  # fmt: skip
    try:
        jl.read_runs(table).observations("chinchilla")
    except jl.DataError as error:
        return rows, "refused", str(error)
    return rows, "read", ""


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
    for line in commands.lines(0, 150):
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


def test_every_public_function_has_a_sound_call():
    assert set(hostile_calls.CALLS) == set(hostile_calls.public_functions())


QUICK = [name for name, (_, slow) in hostile_calls.CALLS.items() if not slow]


@pytest.mark.full
@pytest.mark.parametrize("name", QUICK)
def test_no_argument_ends_in_an_error_from_deep_inside(name):
    broken = [
        f"{argument}={hostile_calls.VALUES[k]!r:.40}: {error!r:.100}"
        for argument, k, what, error in hostile_calls.outcomes(name, hostile_calls.VALUES)
        if what == "broken"
    ]
    assert broken == []


SOUND = [name for name in QUICK if name not in trials.REFUSED_AS_THEY_ARE]


@pytest.mark.parametrize("name", SOUND)
def test_sound_calls_are_answered(name):
    hostile_calls.public_functions()[name](**hostile_calls.CALLS[name][0]())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"compute": "7B"}, "compute is '7B'; write FLOPs as 1e21 or"),
        ({"compute": float("nan")}, "compute is nan"),
        ({"compute": 10**400}, "a number below 1e308"),
        ({"compute": 1e308}, "of a size between 1e-100 and 1e"),
        ({"compute": 1e21, "level": 95}, "level is 95; it must be between 0 and 1"),
        ({"compute": 1e21, "limits": {"N": (1, "x")}}, "limits of N must be one number: 'x'"),
        ({"compute": 1e21, "cost": 3}, "cost is 3; it must be a function"),
        ({"compute": 1e21, "cost": len}, "cost(N, D) does not give FLOPs"),
        ({"compute": 1e21, "at": {"D": 1.0}}, "this plan searches D itself"),
        ({"compute": 1e21, "limit": {}}, "there is no option 'limit'. Did you mean 'limits'"),
        ({"compute": 1e21, "r": 0.5}, "An input of the law goes into at={'r': 0.5}"),
        ({}, "missing a required argument: 'compute'"),
    ],
)
def test_a_slip_is_named(given, says):
    with pytest.raises(jl.UsageError) as error:
        jl.planning.allocation(("chinchilla", jl.published()["hoffmann-2022"].params), **given)
    assert says in str(error.value)


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
            with pytest.raises(jl.DataError, match="fit.json is not a whole jaxlaw fit"):
                jl.load(path)
    path.write_text(json.dumps(record | {"params": record["params"] | {"E": "nan"}}))
    with pytest.raises(jl.DataError, match=r"params.E.* cannot be 'nan'"):
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
    with pytest.raises(jl.DataError, match="law mine gives .* its formula here is another"):
        jl.load(tmp_path / "fit.json")


def test_a_digest_does_not_depend_on_how_json_is_written():
    record = {"a": 1.0, "b": [1, {"c": None}], "d": "é"}
    again = json.loads(json.dumps({"d": "é", "b": [1.0, {"c": None}], "a": 1}))
    assert digest_of(record) == digest_of(again)
    assert digest_of(record) != digest_of(record | {"a": 1.0000000000000002})


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
    # A law asks whether it can be pickled; kept programs are machine code, and loaded from a folder
    # that only the user can write (tests/test_cache.py). A worker of an executor reads what
    # this process has sent it, as the executor itself does.
    assert set(result) <= {
        ("_base.py", "import"),
        ("_checkpoint.py", "import"),
        ("_checkpoint.py", "pickle.loads"),
        ("_jit.py", "import"),
        ("_jit.py", "pickle.loads"),
    }, result
