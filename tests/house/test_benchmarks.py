"""Benchmarks that take long or need another machine: they come to their end in a small size."""

import ast
import importlib.util
import os
import sys
import tomllib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
#: Packages that benchmarks compare with, which need not be installed.
PEERS = ("lmfit", "optimistix")


@pytest.fixture
def small(monkeypatch):
    """Benchmarks can be imported, and what they compile is neither optimised nor kept."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("OPENBLAS_NUM_THREADS", "JAXLAW_CACHE"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def test_the_leaderboard_has_rows_of_every_split(small):
    """In each section that has the kind of data: a set that is added is scored."""
    import leaderboard

    sets = tomllib.loads((BENCHMARKS / "leaderboard.toml").read_text("utf-8"))
    page = (BENCHMARKS / "leaderboard.md").read_text("utf-8")
    errors, _, largest, r2, *_ = page.split("\n## ")[1:]
    assert errors.startswith("Mean absolute error") and r2.startswith("R²")
    for about in sets.values():
        for split in about["split"]:
            row = f"| {about['title']} | {split['name']} |"
            sections = [errors, largest, *([r2] if about["laws"] in leaderboard.WITH_R2 else [])]
            assert all(section.count(row) == 1 for section in sections), row
            assert split.get("published", "") in r2
    for columns in leaderboard.COLUMNS.values():
        assert f"| data | split | rows | {' | '.join(columns)} |" in errors


def test_the_leaderboard_has_the_scores_of_the_page_of_scores(small):
    import leaderboard

    section = "\n".join([leaderboard.OF_TASKS, "", *leaderboard.of_tasks()])
    assert section in (BENCHMARKS / "leaderboard.md").read_text("utf-8")
    assert "| OLMo, 190 M to 1B |" in section and "two-steps" in section


def test_scripts_import_what_there_is():
    """Also inside functions: the helpers of a script that was deleted are missed by others."""
    own = {path.stem for path in BENCHMARKS.glob("*.py")}
    for path in BENCHMARKS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and "." not in node.module:
                known = node.module in {*own, *sys.stdlib_module_names, *PEERS}
                assert known or importlib.util.find_spec(node.module), (path.name, node.module)
