"""Options come from signatures that are read without importing what they belong to."""

import inspect
import re
import subprocess
import sys

import pytest

import jaxlaw
from jaxlaw import papers, planning
from jaxlaw.data.formats import FORMATS
from jaxlaw.fitting.solvers import SOLVERS

pytest.importorskip("typer")
from jaxlaw.cli import _options, _plans  # noqa: E402
from jaxlaw.cli._signatures import REQUIRED, signature  # noqa: E402

FUNCTIONS = [
    (package, name)
    for package in (papers, planning)
    for name in package.__all__
    if inspect.isfunction(getattr(package, name))
]


@pytest.mark.parametrize("package,name", FUNCTIONS)
def test_the_source_says_what_the_function_says(package, name):
    real = inspect.signature(getattr(package, name))
    seen = signature(package.__name__.removeprefix("jaxlaw."), name)
    named = [p for p in real.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    assert list(seen.arguments) == [one.name for one in named]
    for one in named:
        default = seen.arguments[one.name].default
        if one.default is one.empty:
            assert default is REQUIRED
        elif default is not None:  # None also stands for what a call makes
            assert default == one.default


def test_choices_written_out_for_completion_are_those_there_are():
    assert set(_options.SOLVERS) == set(SOLVERS)
    assert set(_options.FORMATS) == set(FORMATS)


def test_every_option_made_of_a_signature_says_what_it_is(capsys):
    """A plan's docstring is the help of its command: an argument without a line has none."""
    for command in _plans.plan.registered_commands:
        for name, one in inspect.signature(command.callback).parameters.items():
            (info,) = one.annotation.__metadata__
            assert info.help and re.match(r"\S", info.help), (command.name, name)


@pytest.mark.parametrize("line", ["--help", "--version", "fit --help", "plan allocation --help"])
def test_help_waits_for_nothing_heavy(line):
    script = (
        "import sys; from jaxlaw.cli import main; sys.argv = ['jaxlaw', *sys.argv[1:]]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'jax', 'numpy', 'pandas', 'scipy'} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, *line.split()], capture_output=True, text=True
    )
    assert ended.stdout and ended.stderr == "[]\n"


def test_the_shell_has_the_defaults_of_the_function():
    """Options of the search; those of reading and of the objective are None or off in both."""
    from jaxlaw.cli import _fit as command

    shell = inspect.signature(command.fit_command).parameters
    python = inspect.signature(jaxlaw.fit).parameters
    same = {"starts", "n_starts", "n_local", "solver", "asymmetry", "seed", "strict"}
    assert {name: shell[name].default for name in same} == {
        name: python[name].default for name in same
    }
    assert set(python) - set(shell) == {
        # a Python object, or by another name: the shell's singular for what is repeated
        "runs", "columns", "units", "values", "name", "fixed", "tied", "bounds", "executor",
    }  # fmt: skip
