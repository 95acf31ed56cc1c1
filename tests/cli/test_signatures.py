"""Options come from signatures that are read without importing what they belong to."""

import dataclasses
import inspect
import re
import subprocess
import sys
import types
import typing

import pytest

import jaxlaw
from jaxlaw import papers, planning
from jaxlaw.data.formats import FORMATS
from jaxlaw.fitting import FitOptions
from jaxlaw.fitting.solvers import SOLVERS

pytest.importorskip("typer")
from jaxlaw.cli import (  # noqa: E402
    _experiments,
    _fit,
    _forecasts,
    _options,
    _plans,
    _uncertainty,
)
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
    for command in _plans.make_plans().registered_commands:
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


def plain_types(kind):
    """The types of a hint, of literals those of their values."""
    if typing.get_origin(kind) is typing.Annotated:
        return plain_types(kind.__origin__)
    if typing.get_origin(kind) is typing.Literal:
        return {type(value) for value in typing.get_args(kind)}
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return set().union(*map(plain_types, typing.get_args(kind)))
    return {kind}


#: Options of a fit that the shell has by another name (the singular of what is repeated), or not.
NOT_IN_THE_SHELL = {"fixed", "tied", "bounds", "executor"}


def test_options_of_a_fit_are_the_same_in_the_shell():
    """Names, types and defaults are declared by FitOptions, and written out for typer."""
    declared = {field.name: field for field in dataclasses.fields(FitOptions)}
    kinds = typing.get_type_hints(FitOptions, include_extras=True)
    shell = inspect.signature(_fit.fit_command).parameters
    assert set(declared) - set(shell) == NOT_IN_THE_SHELL
    for name in set(declared) & set(shell):
        default, python = declared[name].default, plain_types(kinds[name])
        assert shell[name].default == (None if default == "" else default), name
        mine = plain_types(shell[name].annotation) - {type(None)}
        assert mine <= python or typing.Any in python, name
    python = inspect.signature(jaxlaw.fit).parameters
    assert set(python) - set(shell) - set(declared) == {
        "runs", "columns", "units", "values", "name"  # an argument, and what is repeated
    }  # fmt: skip
    assert shell["strict"].default == python["strict"].default


@pytest.mark.parametrize(
    "command,function",
    [
        (_uncertainty.bootstrap_command, jaxlaw.bootstrap),
        (_forecasts.study_command, jaxlaw.cross_validate),
        (_forecasts.backtest_command, jaxlaw.backtest),
        (_forecasts.forecast_command, jaxlaw.forecast),
        (_experiments.inflection_command, jaxlaw.papers.inflection_ratio),
    ],
)
def test_the_shell_has_the_defaults_of_the_function(command, function):
    shell, python = (inspect.signature(one).parameters for one in (command, function))
    same = {"n_starts", "n_local", "solver", "seed", "level", "n_resamples", "along", "kind"}
    same &= set(shell) & set(python)
    assert "seed" in same
    for name in same:
        assert shell[name].default == python[name].default, name
