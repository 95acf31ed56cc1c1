"""The size and shape of the house: counts that may fall, and never rise.

``ratchet.json`` holds the limits. Whoever makes a count smaller writes the smaller number there:
``python tests/house/test_ratchet.py`` prints all counts of this checkout.
"""

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "jaxlaw"
LIMITS = json.loads((Path(__file__).parent / "ratchet.json").read_text("utf-8"))
#: What is built on the core: it takes from the core only what a package lists.
APPLICATIONS = {"cli", "forecasting", "papers", "planning", "plots", "reporting"}
BRANCHES = (
    ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case,
)  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def sources() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def room(path: Path) -> str:
    """The package that a file is in; empty on the ground floor."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def lines(paths) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def private_names_taken() -> list[tuple[str, str]]:
    """(package, name) of each import of another package's private module or private name."""
    taken = set()
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "jaxlaw."
            ):
                continue
            module = node.module.split(".")[1:]
            elsewhere = (PACKAGE / module[0]).is_dir() and module[0] != room(path)
            private = any(part.startswith("_") for part in module)
            for alias in node.names:
                if elsewhere and (private or alias.name.startswith("_")):
                    taken.add((room(path), str(path), node.module, alias.name))
    return [(own, name) for own, *_, name in taken]


def branches(function: ast.FunctionDef) -> int:
    """How often a function branches, functions and classes inside it left out."""
    count, nodes = 0, list(function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        count += isinstance(node, BRANCHES)
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        count += len(node.ifs) if isinstance(node, ast.comprehension) else 0
        nodes.extend(ast.iter_child_nodes(node))
    return count


def longest_chain() -> int:
    """Modules on the longest chain of imports at the top of modules.

    A name that a package lists is imported from its own module, and the package's file before it.
    """
    trees = sources()
    names = {
        ".".join(["jaxlaw", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): path
        for path in trees
    }

    def homes(package: str) -> dict[str, str]:
        blocks = [node for node in trees[names[package]].body if isinstance(node, ast.If)]
        lazily = [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]
        return {
            alias.name: node.module
            for block in lazily
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        } if names[package].name == "__init__.py" else {}  # fmt: skip

    imported = defaultdict(set)
    for name, path in names.items():
        for node in trees[path].body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    imported[name].add(inner if inner in names else node.module)
                    if node.module in names and alias.name in (listed := homes(node.module)):
                        imported[name].add(listed[alias.name])
    depths: dict[str, int] = {}

    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        if name not in depths:
            inner = [one for one in imported[name] if one in names and one not in (*above, name)]
            depths[name] = 1 + max((depth(one, (*above, name)) for one in inner), default=0)
        return depths[name]

    return max(map(depth, names))


IMPORTED = """
import sys
from jaxlaw.cli import main
sys.argv = ["jaxlaw", "plan", "allocation", "published:besiroglu-2024", "--compute", "1e21"]
try:
    main()
except SystemExit:
    pass
print(len([name for name in sys.modules if name.partition(".")[0] == "jaxlaw"]), file=sys.stderr)
"""


def modules_of_a_plan() -> int:
    """Modules that ``jaxlaw plan allocation`` imports."""
    run = [sys.executable, "-c", IMPORTED]
    quiet = os.environ | {"JAXLAW_QUIET": "1"}  # on a slow machine progress would be imported, too
    done = subprocess.run(
        run, capture_output=True, text=True, cwd=PACKAGE.parent, check=True, env=quiet
    )
    return int(done.stderr.split()[-1])


@cache
def counts() -> dict[str, int]:
    import jaxlaw

    trees, taken = sources(), private_names_taken()
    functions = [f for tree in trees.values() for f in ast.walk(tree) if isinstance(f, FUNCTIONS)]
    return {
        "lines of the core": lines(path for path in trees if room(path) not in APPLICATIONS),
        "lines of applications": lines(path for path in trees if room(path) in APPLICATIONS),
        "private names across packages": len(taken),
        "private names across packages, by applications": sum(o in APPLICATIONS for o, _ in taken),
        "public names at the top": len(jaxlaw.__all__),
        "functions of more than ten branches": sum(branches(f) > 10 for f in functions),
        "modules on the longest chain of imports": longest_chain(),
    }


@pytest.mark.parametrize("what", [name for name in LIMITS if name != "modules of a plan"])
def test_counts_only_fall(what):
    assert counts()[what] <= LIMITS[what], f"{what}: make it smaller elsewhere, or say why not"


def test_a_plan_imports_few_modules():
    assert modules_of_a_plan() <= LIMITS["modules of a plan"]


def test_branches_are_counted():
    text = "def f(x):\n if x and x > 1:\n  return [y for y in x if y]\n def g():\n  if x: pass\n"
    assert branches(ast.parse(text).body[0]) == 4


if __name__ == "__main__":
    print(json.dumps(counts() | {"modules of a plan": modules_of_a_plan()}, indent=2))
