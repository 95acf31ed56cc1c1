"""Benchmarks that take long or need another machine: they come to their end in a small size."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.full
def test_the_accelerators_rows_run_to_their_end(monkeypatch, capfd):
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("OPENBLAS_NUM_THREADS", "JAXLAW_CACHE"):  # which the script sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    from benchmarks import accelerator

    monkeypatch.setenv("JAXLAW_CACHE", "off")
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")  # half the time
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    about, rows = device = accelerator.run("cpu", accelerator.ROWS, "trial")
    assert "later rows are missing" not in capfd.readouterr().out
    assert about["device"] == "cpu" and len(rows) >= 18
    assert all(row["seconds"] > 0 for row in rows.values())
    page = accelerator.page("a trial", device, device)
    assert page.count("| 0e+00 apart |") == sum("optimum" in row for row in rows.values())
    assert "at most" in page and "of the best 64" in page


@pytest.fixture
def small(monkeypatch):
    """Benchmarks can be imported, and what they compile is neither optimised nor kept."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("OPENBLAS_NUM_THREADS", "JAXLAW_CACHE"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


@pytest.mark.full
def test_peers_that_are_not_installed_are_named_and_left_out(small, monkeypatch, capsys):
    import peers

    find = peers.installed
    monkeypatch.setattr(peers, "installed", lambda name: find(name) if name == "scipy" else None)
    monkeypatch.setattr(sys, "argv", ["peers.py", "--quick", "vpnls", "chinchilla", "resamples"])
    peers.main()
    printed = capsys.readouterr().out
    for name in ("vpnls", "optimistix", "jaxopt", "nlsq"):
        assert f"{name} is not installed" in printed
    rows = [line for line in printed.splitlines() if line.startswith("| jaxlaw")]
    assert [row.split(" | ")[4] for row in rows] == ["100%"] * 3


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
