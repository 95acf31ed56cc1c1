"""``import jaxlaw`` is quick: a public name is imported when it is first used."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jaxlaw as jl

SOURCE = Path(jl.__file__)


def for_type_checkers() -> dict[str, str]:
    """Public name → where ``if TYPE_CHECKING:`` of the package imports it from."""
    tree = ast.parse(SOURCE.read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        one.asname: f"jaxlaw.{one.name}" if node.module == "jaxlaw" else node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }


def test_type_checkers_see_the_names_that_python_finds():
    """A name in one of the two lists only would be missing for people or for their editors."""
    seen = for_type_checkers()
    assert sorted(seen) == jl.__all__
    for name, module in seen.items():
        result = getattr(jl, name)
        home = sys.modules[module]
        assert result is home or result is getattr(home, name), name  # a module, or a member


def test_every_public_name_is_listed_and_unknown_ones_are_refused():
    assert dir(jl) == jl.__all__
    with pytest.raises(AttributeError, match="no attribute 'fits'"):
        _ = jl.fits


def test_plots_are_there_before_matplotlib_is(monkeypatch):
    """``jl.plots`` and its names can be listed; the function that needs matplotlib says so."""
    assert dir(jl.plots) == jl.plots.__all__ and "isoloss" in dir(jl.plots)
    script = "import jaxlaw as jl, sys; jl.plots; print('matplotlib' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr
    monkeypatch.delattr(jl.plots, "isoloss")  # as before its first use
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jaxlaw\[plot\]'"):
        _ = jl.plots.isoloss
    with pytest.raises(AttributeError, match="no attribute 'isolos'"):
        _ = jl.plots.isolos


@pytest.mark.parametrize("script", ["import jaxlaw", "import jaxlaw; dir(jaxlaw)"])
def test_import_waits_for_nothing_heavy(script):
    """JAX, pandas and scipy take two seconds to import, which tab completion would wait for."""
    check = "import sys; print(sorted({'jax', 'numpy', 'pandas', 'scipy'} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{script}; {check}"], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr


@pytest.mark.full
@pytest.mark.parametrize("name", ["folds", "planning", "fit"])
def test_a_name_can_be_the_first_thing_imported(name):
    ended = subprocess.run(
        [sys.executable, "-c", f"from jaxlaw import {name}; print({name}.__name__)"],
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip().endswith(name), ended.stderr


@pytest.mark.full
def test_a_checkout_that_is_not_installed_does_all_that_asks_for_the_version(
    tmp_path, monkeypatch, capsys
):
    """No distribution named jaxlaw is found; those of its dependencies are."""
    distribution = importlib.metadata.distribution

    def installed(name):
        if name == "jaxlaw":
            raise importlib.metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(importlib.metadata, "distribution", installed)
    runs = jl.simulate.experiment("loss-compute", noise=0.01).table
    quick = {"n_starts": 16, "n_local": 4}
    fit = jl.fit("loss-compute", runs, work_dir=tmp_path / "work", **quick)
    assert f"jaxlaw {jl.__version__}, jax" in (tmp_path / "work/manifest.json").read_text()
    last = {"C": 10 * runs["C"].max()}
    forecast = jl.forecast(runs, last)
    assert forecast.package_versions["jaxlaw"] == jl.__version__
    assert f"Made by jaxlaw {jl.__version__}" in jl.report(fit)
    monkeypatch.setattr(sys, "argv", ["jaxlaw", "--version"])
    with pytest.raises(SystemExit, match="0"):
        importlib.import_module("jaxlaw.cli").main()
    assert capsys.readouterr().out.startswith(f"jaxlaw {jl.__version__}, jax")


def test_the_version_is_that_of_the_changelog_and_of_the_package():
    """``pyproject.toml`` reads it where it is written."""
    root = SOURCE.parent.parent
    heading = re.search(r"^## \[(.+?)\]", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    assert heading[1] == jl.__version__
    assert project["project"]["dynamic"] == ["version"] and "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": "jaxlaw/_version.py"}
