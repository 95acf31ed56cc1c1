"""Benchmarks that no machine here can run whole: they come to their end in a small size."""

import os
import sys
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
