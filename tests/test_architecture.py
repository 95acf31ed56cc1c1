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

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jaxlaw"

# Top to bottom: a module imports only from rooms above its own. A name stands for the module
# or for the whole package below it, the longest that fits. A new module needs a place here,
# and in the README's picture of the house.
ROOMS = [
    "jaxlaw.interrupts",
    "jaxlaw.notes",
    "jaxlaw.conditions",
    "jaxlaw.arguments",
    "jaxlaw.records",
    "jaxlaw.programs",
    "jaxlaw.laws.specs",
    "jaxlaw.laws.base",
    "jaxlaw.laws.scaling",
    "jaxlaw.laws.requirements",
    "jaxlaw.laws.mixture",
    "jaxlaw.laws.cross_domain",
    "jaxlaw.laws.transfer",
    "jaxlaw.laws.curves",
    "jaxlaw.laws.downstream",
    "jaxlaw.laws",
    "jaxlaw.tables",
    "jaxlaw.recurrence",
    "jaxlaw.schedules.shapes",
    "jaxlaw.schedules.readers",
    "jaxlaw.schedules",
    "jaxlaw.lr_areas",
    "jaxlaw.formats.base",
    "jaxlaw.formats",
    "jaxlaw.columns",
    "jaxlaw.domain_curves",
    "jaxlaw.separability",
    "jaxlaw.dependence",
    "jaxlaw.observations",
    "jaxlaw.runs",
    "jaxlaw.curves.counting",
    "jaxlaw.curves.logged",
    "jaxlaw.curves.courses",
    "jaxlaw.curves.drops",
    "jaxlaw.curves.checks",
    "jaxlaw.curves.sampling",
    "jaxlaw.curves.reading",
    "jaxlaw.curves.predicting",
    "jaxlaw.curves",
    "jaxlaw.extrapolation",
    "jaxlaw.coordinates",
    "jaxlaw.sharing",
    "jaxlaw.objective",
    "jaxlaw.starts",
    "jaxlaw.posing",
    "jaxlaw.elementwise",
    "jaxlaw.solvers",
    "jaxlaw.projection",
    "jaxlaw.memory",
    "jaxlaw.stepwise",
    "jaxlaw.engine",
    "jaxlaw.batch",
    "jaxlaw.chunks",
    "jaxlaw.residual_checks",
    "jaxlaw.findings",
    "jaxlaw.search",
    "jaxlaw.scores",
    "jaxlaw.result",
    "jaxlaw.bare_fits",
    "jaxlaw.saved_fits",
    "jaxlaw.printed_laws",
    "jaxlaw.fitting",
    "jaxlaw.decay_fit",
    "jaxlaw.shifts",
    "jaxlaw.refits",
    "jaxlaw.folds",
    "jaxlaw.study",
    "jaxlaw.uncertainty",
    "jaxlaw.information",
    "jaxlaw.optimal_design",
    "jaxlaw.sampling",
    "jaxlaw.inflection",
    "jaxlaw.planning",
    "jaxlaw.curve_designs",
    "jaxlaw.domain_designs",
    "jaxlaw.simulate",
    "jaxlaw.plots.style",
    "jaxlaw.plots.inputs",
    "jaxlaw.plots.fits",
    "jaxlaw.plots.curves",
    "jaxlaw.plots.sureness",
    "jaxlaw.plots.studies",
    "jaxlaw.plots.plans",
    "jaxlaw.plots.crossings",
    "jaxlaw.plots.training",
    "jaxlaw.plots",
    "jaxlaw.reporting",
    "jaxlaw",
    "jaxlaw.commands.terminal",
    "jaxlaw.commands.saved",
    "jaxlaw.commands.options",
    "jaxlaw.commands.results",
    "jaxlaw.commands.verbosity",
    "jaxlaw.commands.curves",
    "jaxlaw.commands.demonstration",
    "jaxlaw.commands.uncertainty",
    "jaxlaw.commands.one_fit",
    "jaxlaw.commands.studies",
    "jaxlaw.commands.experiments",
    "jaxlaw.commands.plan_output",
    "jaxlaw.commands.plans",
    "jaxlaw.commands.mixtures",
    "jaxlaw.commands.training",
    "jaxlaw.commands.valuations",
    "jaxlaw.commands.reports",
    "jaxlaw.commands.schemas",
    "jaxlaw.commands",
    "jaxlaw.cli",
    "jaxlaw.__main__",
]
# Everything is inside jaxlaw: only the package's own __init__ is in that room.
ROOT_ROOM = "jaxlaw"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room(module: str) -> str | None:
    while module not in ROOMS:
        module = module.rpartition(".")[0]
    return module


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


def imports(module: str, source: str, is_package: bool, known: set[str]) -> set[str]:
    """Modules of the package that a source imports when it runs, inside functions too."""
    found = set()
    for node in executed(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = module.split(".")[: None if is_package and node.level == 1 else -1]
                up = up[: len(up) - (node.level - 1 - (is_package and node.level > 1))]
                base = ".".join([*up, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in known else base)
    return {name for name in found if name.partition(".")[0] == "jaxlaw"}


def imports_of(module: str) -> set[str]:
    path = MODULES[module]
    return imports(module, path.read_text("utf-8"), path.name == "__init__.py", set(MODULES))


def wrong_way(module: str, imported: set[str]) -> list[str]:
    """The imports that lead down the house, or to the package's front door."""
    here = ROOMS.index(room(module))
    return [
        f"{module} imports {other}" for other in sorted(imported) if ROOMS.index(room(other)) > here
    ]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_room(module):
    assert module == ROOT_ROOM or room(module) != ROOT_ROOM, f"give {module} a place in ROOMS"


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_up(module):
    assert wrong_way(module, imports_of(module)) == []


def test_no_import_goes_round():
    graph = {module: imports_of(module) & set(MODULES) - {module} for module in MODULES}
    list(graphlib.TopologicalSorter(graph).static_order())


def test_the_reader_of_imports_sees_what_it_should():
    known = {"jaxlaw", "jaxlaw.notes", "jaxlaw.laws", "jaxlaw.laws.base", "jaxlaw.solvers.lbfgs"}
    source = """
import jaxlaw.cli as cli
import numpy
from jaxlaw import laws, fit
from jaxlaw.laws.base import Law
from .. import notes
from . import lbfgs
from .other import x
def late():
    from jaxlaw.engine import solve
if TYPE_CHECKING:
    from jaxlaw.report import Table
else:
    from jaxlaw.runs import Runs
"""
    found = imports("jaxlaw.solvers.newton", source, False, known)
    assert found == {
        "jaxlaw.cli",
        "jaxlaw.laws",
        "jaxlaw",
        "jaxlaw.laws.base",
        "jaxlaw.notes",
        "jaxlaw.solvers.lbfgs",
        "jaxlaw.solvers.other",
        "jaxlaw.engine",
        "jaxlaw.runs",
    }
    assert imports("jaxlaw.solvers", "from . import lbfgs", True, known) == {"jaxlaw.solvers.lbfgs"}
    assert imports("jaxlaw.solvers", "from .. import notes", True, known) == {"jaxlaw.notes"}
    assert wrong_way("jaxlaw.solvers.newton", found) == [
        "jaxlaw.solvers.newton imports jaxlaw",
        "jaxlaw.solvers.newton imports jaxlaw.cli",
        "jaxlaw.solvers.newton imports jaxlaw.engine",
    ]


# Read on request, with an error that says what to install: tables as Parquet, TensorBoard's logs.
ON_REQUEST = {"pyarrow", "tensorboard"}


def test_what_is_imported_is_a_declared_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {
        re.match(r"[\w-]+", one)[0]
        for one in [*project["dependencies"], *extras["cli"], *extras["plot"]]
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


def test_no_public_function_shares_its_name_with_a_module():
    stems = {module.rpartition(".")[2] for module in MODULES}
    shared = [
        f"{module}.{node.name}"
        for module, path in MODULES.items()
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in stems
    ]
    assert shared == []


@pytest.mark.parametrize("module", MODULES)
def test_files_stay_readable_in_one_sitting(module):
    assert len(MODULES[module].read_text("utf-8").splitlines()) <= 1000


def test_no_file_is_a_drawer_for_everything():
    stems = {module.rpartition(".")[2] for module in MODULES}
    assert not stems & {"utils", "util", "misc", "common", "helpers"}


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
