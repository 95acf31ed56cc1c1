"""The size of the house: counts that fall, and never rise by more than a small mend takes.

``ratchet.json`` holds the lowest counts so far; ``python tests/house/test_ratchet.py`` prints those
of this checkout, and writes down what is lower.
"""

import ast
import io
import json
import os
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("ratchet.json")
LOWEST = json.loads(FILE.read_text("utf-8"))
SLACK = 1.01
KINDS = {"NAME", "OP", "NUMBER", "STRING", "FSTRING_START"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FIRST_FIT = """
import sys, jaxlaw as jl
jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table[::9], n_starts=8, n_local=2)
print(sum(name.partition(".")[0] == "jaxlaw" for name in sys.modules))
"""


def tokens(text: str, tree: ast.Module) -> Iterator[tokenize.TokenInfo]:
    """Names, operators, numbers and strings of a source, its docstrings left out."""
    owners = (n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, *FUNCTIONS)))
    docstrings = {n.body[0].lineno for n in owners if ast.get_docstring(n) is not None}
    inside = 0  # of f-strings, which are one token, as they are to Python 3.11
    for one in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[one.type]
        inside -= kind == "FSTRING_END"
        docstring = kind == "STRING" and one.start[0] in docstrings
        if kind in KINDS and not inside and not docstring:
            yield one
        inside += kind == "FSTRING_START"


def counts() -> dict[str, int]:
    result, used, private = {}, Counter(), set()
    for folder in ("benchmarks", "tests", "jaxlaw"):
        used.clear()
        number = 0
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            tree = ast.parse(text)
            found = [*tokens(text, tree)]
            number += len(found)
            if folder == "jaxlaw":
                used.update(one.string for one in found if one.type == tokenize.NAME)
                names = [node.name for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
                private |= {name for name in names if name[0] == "_" and name[:2] != "__"}
        result[f"tokens of {folder}"] = number
    return result | {"private functions used once": sum(used[name] == 2 for name in private)}


def files_of_a_first_fit() -> dict[str, int]:
    """Modules of the package that a process has imported when its first fit is done."""
    environment = os.environ | {"JAXLAW_QUIET": "1"}  # on a slow machine progress is imported too
    run = [sys.executable, "-W", "ignore", "-c", FIRST_FIT]
    done = subprocess.run(
        run, capture_output=True, text=True, cwd=ROOT, check=True, env=environment
    )
    return {"files of a first fit": int(done.stdout)}


@pytest.mark.parametrize(
    "count", [counts, pytest.param(files_of_a_first_fit, marks=pytest.mark.full)]
)
def test_no_count_rises(count):
    grown = {what: n for what, n in count().items() if n > LOWEST[what] * SLACK}
    assert not grown, f"delete elsewhere what is more than {LOWEST}"


if __name__ == "__main__":
    now = counts() | files_of_a_first_fit()
    print(json.dumps(now, indent=2))
    lowest = {what: min(number, LOWEST.get(what, number)) for what, number in now.items()}
    FILE.write_text(json.dumps(lowest, indent=2) + "\n", encoding="utf-8")
