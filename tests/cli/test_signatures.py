"""Options come from signatures that are read without importing what they belong to."""

import dataclasses
import inspect
import subprocess
import sys
import types
import typing

import pytest

import jaxlaw
from jaxlaw.fitting import FitOptions

pytest.importorskip("typer")
from jaxlaw.cli import (  # noqa: E402
    _fit,
)


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
