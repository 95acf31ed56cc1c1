"""The documentation site: every public name, picture and law is in it, and its build is strict."""

import ast
import importlib
import inspect
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import jaxlaw as jl

SITE = Path(__file__).parents[2] / ".github" / "site"


@pytest.fixture(autouse=True)
def site_modules(monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))


def module(name):
    return importlib.import_module(name)


def listed_names():
    """Every name of every ``__all__``, as a user writes it, beside what it is."""
    for path in sorted((SITE.parents[1] / "jaxlaw").rglob("__init__.py")):
        package = ".".join(("jaxlaw", *path.parent.relative_to(SITE.parents[1] / "jaxlaw").parts))
        if package in ("jaxlaw.cli", "jaxlaw.planning.plots"):  # a command; listed by jaxlaw.plots
            continue
        for name in getattr(importlib.import_module(package), "__all__", ()):
            yield f"{package}.{name}", getattr(importlib.import_module(package), name)


def test_every_listed_name_has_one_entry_on_one_page():
    reference = module("reference")
    lines = [line for text in reference.pages().values() for line in text.splitlines()]
    entries = [line.split(":: ")[1] for line in lines if line.startswith((".. auto", ".. py:data"))]
    assert len(entries) == len(set(entries))
    documented = reference.documented()
    names = [name for name, value in listed_names() if not inspect.ismodule(value)]
    assert len(names) > 150
    assert {documented[name] for name in names} <= set(entries)


def test_the_gallery_has_every_picture_with_lines_that_draw_it():
    from jaxlaw import plots

    pictures = list(module("gallery").pictures())
    assert [picture.name for picture in pictures] == list(plots.__all__)
    for picture in pictures:
        last = ast.parse(picture.lines).body[-1].value
        assert ast.unparse(last.func) == f"plots.{picture.name}", picture.lines


@pytest.mark.parametrize("name", jl.law_table()["name"])
def test_every_law_is_typeset_with_all_its_symbols(name):
    law = jl.laws.get(name)
    made = module("formulas").mathml(law.formula)
    text = "".join(ElementTree.fromstring(f"<p>{made}</p>").itertext())
    letters = {sign for sign in law.formula if sign.isalnum()} - {"Σ"}
    assert letters <= set(text)
    assert f"### {name}\n" in module("laws_page").page()


def test_the_side_bar_has_every_chapter():
    build = module("build")
    listed = {entry for entries in build.CONTENTS.values() for entry in entries}
    chapters = {
        path.relative_to(build.ROOT).with_name("index").as_posix()
        for path in (build.ROOT / "jaxlaw").rglob("README.md")
    }
    assert chapters <= listed


def teardown_module():
    """Modules of short names are not left to others."""
    for name in ("build", "conf", "formulas", "gallery", "laws_page", "reference"):
        sys.modules.pop(name, None)
