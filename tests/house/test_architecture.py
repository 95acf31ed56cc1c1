"""The house keeps its shape: who may import whom, names, sizes, and a quiet import."""

import ast
import graphlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jaxlaw"

# A package imports only from packages above its own, so that data takes one way through the
# house. The modules of one package may import each other, as long as no import goes round.
PACKAGES = [
    "root",
    "laws",
    "schedules",
    "areas",
    "data",
    "fitting",
    "validation",
    "uncertainty",
    "design",
    "planning",
    "papers",
    "forecasting",
    "simulate",
    "plots",
    "reporting",
    "front door",
    "cli",
]
# Modules of the top level, where they are not in "root", which knows nothing of laws.
OWN_FLOOR = {
    "jaxlaw": "front door",
    "jaxlaw._areas": "areas",
    "jaxlaw._decayed_sum": "areas",
    "jaxlaw.__main__": "cli",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def package(module: str) -> str:
    """The package of :data:`PACKAGES` that a module belongs to."""
    if module in OWN_FLOOR:
        return OWN_FLOOR[module]
    name = module.split(".")[1]
    return "root" if name.startswith("_") or name in ("errors", "notes") else name


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING:``, which only name a type."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for other in node.orelse:
                yield other
                yield from executed(other)
        else:
            yield node
            yield from executed(node)


def listed(path: Path) -> dict[str, str]:
    """Name → module of what a package's file imports for type checkers, and Python when used."""
    blocks = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.If)]
    return {
        alias.name: node.module or ""
        for block in blocks
        if ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


FACES = {name: listed(path) for name, path in MODULES.items() if path.name == "__init__.py"}


def imports(module: str, source: str, is_package: bool, known: set[str]) -> set[str]:
    """Modules of the package that a source imports when it runs, inside functions too."""
    result = set()
    for node in executed(ast.parse(source)):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = module.split(".")[: None if is_package and node.level == 1 else -1]
                up = up[: len(up) - (node.level - 1 - (is_package and node.level > 1))]
                base = ".".join([*up, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                result.add(inner if inner in known else base)
                if base != "jaxlaw" and alias.name in FACES.get(base, {}):
                    result.add(FACES[base][alias.name])
    return {name for name in result if name.partition(".")[0] == "jaxlaw"}


def imports_of(module: str) -> set[str]:
    path = MODULES[module]
    return imports(module, path.read_text("utf-8"), path.name == "__init__.py", set(MODULES))


def wrong_way(module: str, imported: set[str]) -> list[str]:
    """The imports that lead to a later package, or to the front door."""
    here = PACKAGES.index(package(module))
    return [
        f"{module} imports {other}"
        for other in sorted(imported)
        if PACKAGES.index(package(other)) > here
    ]


def test_every_module_is_in_a_package():
    homeless = [module for module in MODULES if package(module) not in PACKAGES]
    assert homeless == [], "give these a place in PACKAGES"


def test_imports_go_one_way():
    wrong = [line for module in MODULES for line in wrong_way(module, imports_of(module))]
    assert wrong == []


def test_no_import_goes_round():
    graph = {module: imports_of(module) & set(MODULES) - {module} for module in MODULES}
    list(graphlib.TopologicalSorter(graph).static_order())


# Read on request, with an error that says what to install: tables as Parquet, TensorBoard's logs,
# draws for ArviZ. cloudpickle takes laws of a notebook to workers.
ON_REQUEST = {"cloudpickle", "pyarrow", "tensorboard"}


def test_what_is_imported_is_a_declared_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {
        re.match(r"[\w-]+", one)[0]
        for one in [*project["dependencies"], *extras["cli"], *extras["plot"], *extras["trainer"]]
    }
    imported = {
        name.split(".")[0]
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
        for name in ([node.module] if hasattr(node, "module") else [a.name for a in node.names])
    }
    others = imported - set(sys.stdlib_module_names) - {"jaxlaw"} - ON_REQUEST
    assert others >= {"jax", "scipy"} and others <= declared


def test_files_stay_readable_in_one_sitting():
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > 1500} == {}


QUIET = """
import json, sys
import jax
from jax._src import xla_bridge
before = dict(jax.config.values)
import jaxlaw
after = dict(jax.config.values)
backends = getattr(xla_bridge, "_backends", None)
with open(sys.argv[1], "w") as out:
    changed = [key for key in after if after[key] != before.get(key, after[key])]
    json.dump({"changed": changed, "backends": None if backends is None else list(backends)}, out)
"""


def test_import_is_quiet_and_touches_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", QUIET, str(tmp_path / "seen.json")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["changed"] == []
    if seen["backends"] is None:
        pytest.skip("this jax does not show its backends")
    assert seen["backends"] == []
