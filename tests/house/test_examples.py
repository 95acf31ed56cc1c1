"""The examples of public docstrings run, and print what is shown."""

import doctest
import importlib
import inspect
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PACKAGES = (
    "data",
    "design",
    "errors",
    "fitting",
    "forecasting",
    "laws",
    "notes",
    "papers",
    "planning",
    "plots",
    "schedules",
    "simulate",
    "uncertainty",
    "validation.folds",
)


def public():
    """What a user can name: members of the package and of its public modules, by name."""
    result = {}
    for name in jl.__all__:
        member = getattr(jl, name)
        if not isinstance(member, ModuleType):
            result[f"jl.{name}"] = member
    for package in PACKAGES:
        module = importlib.import_module(f"jaxlaw.{package}")
        for name in getattr(module, "__all__", None) or vars(module):
            member = getattr(module, name)
            ours = (getattr(member, "__module__", None) or "").startswith("jaxlaw")
            if ours and not name.startswith("_") and not isinstance(member, ModuleType):
                result[f"jl.{package}.{name}"] = member
    return result


def examples():
    """Doctests of public members and of their methods, each once."""
    finder, seen = doctest.DocTestFinder(exclude_empty=True), set()
    for name, member in public().items():
        if not (inspect.isclass(member) or inspect.isroutine(member)) or id(member) in seen:
            continue
        seen.add(id(member))
        for test in finder.find(inspect.unwrap(member), name, module=False, globs={}):
            if test.examples:
                yield test


@pytest.mark.night
@pytest.mark.parametrize("example", list(examples()), ids=lambda test: test.name)
def test_an_example_runs_and_prints_what_is_shown(example, tmp_path, monkeypatch, own_laws, closed):
    monkeypatch.chdir(tmp_path)
    example.globs.update(jl=jl, np=np, pd=pd)
    said = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(example, out=said.append)
    assert not said, "".join(said)
