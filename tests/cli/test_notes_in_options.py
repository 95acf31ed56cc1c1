"""What a note proposes exists: arguments of the function that gives it, options of commands."""

import ast
import importlib
import inspect
import re
import typing
from pathlib import Path

import pytest

import jaxlaw as jl
from jaxlaw import planning

pytest.importorskip("typer")
from jaxlaw.cli import make_app  # noqa: E402
from jaxlaw.cli._experiments import design  # noqa: E402
from jaxlaw.cli._guard import _CALL, _FUNCTION, flags_of, note_in_options  # noqa: E402
from jaxlaw.cli._plans import make_plans  # noqa: E402
from jaxlaw.notes import REMEDIES, Note, in_brief, worded  # noqa: E402

PACKAGE = Path(jl.__file__).parent
GROUPS = {"": make_app(), "plan ": make_plans(), "design ": design}
COMMANDS = [
    group + command.name for group, app in GROUPS.items() for command in app.registered_commands
]
#: Texts of notes that are put together outside of the function that makes the note.
PARTS = {"_bound_that_parts"}
#: Packages whose notes are those of one function, or of several with the same options.
OWNERS = {
    "notes.py": [jl.fit], "data": [jl.fit], "laws": [jl.fit], "fitting": [jl.fit],
    "validation": [jl.cross_validate],
    "forecasting": [jl.forecast, jl.backtest],
    "uncertainty/_bootstrap.py": [jl.bootstrap], "uncertainty/_profile.py": [jl.profile],
    "fitting/_fit_decay.py": [jl.fit_decay],
    "planning/_question.py": [jl.planning.minimise],
    "planning/_search_space.py": [jl.planning.allocation, jl.planning.min_compute,
                                  jl.planning.compute_multiplier],
}  # fmt: skip


def strings(node: ast.AST):
    """Texts of a function, not its docstring and errors; an ellipsis for what is filled in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise):
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "…" for v in child.values)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        else:
            yield from strings(child)


def proposals():
    """(Module, function, text) of every note that proposes an argument or names a function."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            makers = {"Note", "epochs_notes"}
            made = any(getattr(getattr(n, "func", None), "id", "") in makers
                       for n in ast.walk(function))  # fmt: skip
            if made or function.name in PARTS:
                for text in strings(function):
                    if _CALL.search(text) or _FUNCTION.search(text):
                        yield path.relative_to(PACKAGE).as_posix(), function.name, text


PROPOSALS = [*proposals(), *(("notes.py", "remedy_of", text) for text in REMEDIES.values())]


def owners(module: str, maker: str):
    """The public functions that give a note: the one that makes it, or those of its module."""
    package = module.split("/")[0]
    if known := OWNERS.get(module, OWNERS.get(package)):
        return known
    face = importlib.import_module(f"jaxlaw.{package}")
    public = [getattr(face, name) for name in face.__all__]
    public = [item for item in public if inspect.isfunction(item)]
    name = module.removesuffix(".py").rpartition("/")[2]
    own = [item for item in public if item.__module__.endswith(f".{name}")]
    return [item for item in own if item.__name__ == maker] or own


def arguments(function) -> set[str]:
    """Its arguments, and the keywords that its ``**options`` stand for."""
    names = set(inspect.signature(function).parameters)
    for hint in typing.get_type_hints(function).values():
        if typing.get_origin(hint) is typing.Unpack:
            names |= set(typing.get_args(hint)[0].__annotations__)
    return names


def test_there_are_notes_to_look_at():
    modules = {module.split("/")[0] for module, *_ in PROPOSALS}
    assert {"data", "fitting", "validation", "uncertainty", "planning", "forecasting"} <= modules
    assert len(PROPOSALS) > 15


@pytest.mark.parametrize(("module", "maker", "text"), PROPOSALS)
def test_every_argument_that_a_note_proposes_is_one_of_its_function(module, maker, text):
    for call in _FUNCTION.finditer(text):
        owner = {"fit": jl.Fit, "boot": jl.Bootstrap}.get(call[0].partition(".")[0], jl)
        function = getattr(getattr(owner, call["package"] or "", owner), call["name"])
        for argument in _CALL.finditer(call["given"] or ""):
            assert argument["name"] in arguments(function), text
    for argument in _CALL.finditer(_FUNCTION.sub("", text)):
        assert owners(module, maker), f"who gives the notes of {module}?"
        for function in owners(module, maker):
            assert argument["name"] in arguments(function), (function.__name__, text)


@pytest.mark.parametrize(
    ("answer", "plans"),
    [
        (planning.Allocation, [planning.allocation, planning.min_compute]),
        (planning.Frontier, [planning.frontier]),
        (planning.Minimum, [planning.minimise]),
        (planning.OptimalInputs, [planning.optimal_inputs]),
        (planning.ContinualRun, [planning.continual_run]),
    ],
)
def test_what_limits_a_search_is_an_argument_of_its_plan(answer, plans):
    """It is what ``next_step`` proposes to widen."""
    for plan in plans:
        assert getattr(answer, "limited_by", "limits") in arguments(plan)


def wrong_options(text: str, command: str):
    """Options in a text for the shell that neither the command has nor the one that it names."""
    named = r"jaxlaw ((?:plan |design )?[a-z-]+)"
    for match in re.finditer(r"--[a-z][a-z0-9-]*", text):
        before, after = text[: match.start()], text[match.end() :]
        other = re.search(rf"{named} …[^;:]*$", before)
        of_fit = re.match(rf"(?: \S+)? of {named}", after)
        owner = other[1] if other else of_fit[1] if of_fit else command
        if match[0] not in flags_of(owner).values():
            yield f"{match[0]} of {owner}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_a_note_names_in_the_shell_is_one_of_a_command(command):
    flags = flags_of(command)
    for *_, text in PROPOSALS:
        shown = note_in_options(text, flags)
        assert not list(wrong_options(shown, command)), shown
        for call in re.finditer(r"jaxlaw ((?:plan |design )?[a-z-]+) …", shown):
            assert call[1] in COMMANDS, shown


def test_in_the_shell_nothing_is_left_in_the_words_of_python():
    """Of notes on runs and fits, in the command that fits; arguments of other functions stay."""
    for module, _, text in PROPOSALS:
        if module.split("/")[0] in ("data", "fitting") or "validation" in module:
            command = "study" if "validation" in module else "fit"
            shown = note_in_options(text, flags_of(command))
            assert not _CALL.search(shown) and "jl." not in shown, shown


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        ("fit", "try more starts (n_starts=)", "try more starts (--n-starts)"),
        ("covariance", "more starts (n_starts=)", "more starts (--n-starts of jaxlaw fit)"),
        ("fit", "jl.bootstrap(…, groups=['N', 'r']) has", "jaxlaw bootstrap … --groups N,r has"),
        ("fit", "jl.bootstrap(…, groups='run') has", "jaxlaw bootstrap … --groups run has"),
        ("study", "bounds={'eps': (1e-05, None)}. Use", "--bound eps=1e-05:. Use"),
        ("plan allocation", "limits={'N': (least, largest)}", "--limit N=least:largest"),
        ("forecast", "prior=None leaves it out", "--prior none leaves it out"),
        ("fit", "fit.requirements() has the details", "jaxlaw requirements has the details"),
        ("bootstrap", "or boot.conf_int(method='normal'): with", "or --method normal: with"),
        ("fit", "jl.laws.get(…) stays", "jl.laws.get(…) stays"),
    ],
)
def test_a_note_is_worded_for_the_shell(command, message, shown):
    flags = flags_of(command)
    assert note_in_options(message, flags) == shown
    note = Note("few-starts-agree", "warning", message)
    with worded(lambda text: note_in_options(text, flags)):
        assert in_brief([note]) == [f"[warning] few-starts-agree: {shown}"]
    assert in_brief([note]) == [str(note)]


def test_a_command_shows_notes_with_its_options(command, tmp_path, monkeypatch):
    """The file keeps the words of Python, which a program reads."""
    monkeypatch.chdir(tmp_path)
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    table.loc[3, "loss"] *= 1.5
    table.to_csv("runs.csv", index=False)
    code, out, _ = command("--verbose", "fit", "chinchilla", "runs.csv", "--n-starts", "64",
                           "--n-local", "8", "--out", "fit.json")  # fmt: skip
    assert code == 0
    words = " ".join(out.split())
    assert "leave out by --where what is not of this law" in words and "where=" not in words
    assert "where= what" in " ".join(note.message for note in jl.load("fit.json").notes)
