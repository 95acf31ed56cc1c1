"""``import jaxlaw`` is quick: a public name is imported when it is first used."""

import ast
import subprocess
import sys
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
        found = getattr(jl, name)
        home = sys.modules[module]
        assert found is home or found is getattr(home, name), name  # a module, or a member


def test_every_public_name_is_listed_and_unknown_ones_are_refused():
    assert set(jl.__all__) <= set(dir(jl))
    with pytest.raises(AttributeError, match="no attribute 'fits'"):
        _ = jl.fits


@pytest.mark.parametrize("script", ["import jaxlaw", "import jaxlaw; dir(jaxlaw)"])
def test_import_waits_for_nothing_heavy(script):
    """JAX, pandas and scipy take two seconds to import, which tab completion would wait for."""
    check = "import sys; print(sorted({'jax', 'numpy', 'pandas', 'scipy'} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{script}; {check}"], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr


@pytest.mark.parametrize("name", ["folds", "planning", "fit"])
def test_a_name_can_be_the_first_thing_imported(name):
    ended = subprocess.run(
        [sys.executable, "-c", f"from jaxlaw import {name}; print({name}.__name__)"],
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip().endswith(name), ended.stderr
