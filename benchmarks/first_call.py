"""What a first fit costs before it computes: tracing and compiling, and what was done about it.

    python benchmarks/first_call.py

Every row is the median of three new processes; CPU seconds, of all threads. "plain" compiles as
``jax.jit`` does, "quick" as :mod:`jaxlaw._jit` does, "kept" finds in a folder
(``compile_cache=``) what an earlier process compiled. The second fit is of the
same shapes, compiled: the options must not cost there what they save.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile

LAWS = ("chinchilla", "dcpt", "cpt-curve")
SCRIPT = """
import json, sys, time
import jaxlaw as jl
from jaxlaw import _jit as programs
law, way, folder = sys.argv[1:]
if way == "plain":
    programs.QUICK = programs.UNOPTIMISED = {}
made = jl.simulate.experiment(law, noise=0.004)
def cpu(fit):
    began = time.process_time()
    found = fit()
    return time.process_time() - began, found
one = lambda: jl.fit(made.law, made.table, compile_cache=folder if way == "kept" else None)
many = lambda: jl.fit(made.law, made.table, n_starts=4096, n_local=False)
(first, fit), (second, _) = cpu(one), cpu(one)
cpu(many)
(large, _) = cpu(many)
print(json.dumps([first, second, large, fit.objective, bool(programs.compiler_options())]))
"""


def measured(law: str, way: str) -> list[float]:
    """CPU seconds of first, second and large fit, the objective, and whether options are known."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SCRIPT, law, way, folder]
        runs = [
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(3 + (way == "kept"))
        ]
    runs = runs[-3:]  # the first fills the folder
    return [statistics.median(values) for values in zip(*runs, strict=True)]


def main() -> None:
    """Print the table."""
    print("| law | way | first fit | second | 4,096 starts solved | first, of plain | objective |")
    print("|---|---|---|---|---|---|---|")
    for law in LAWS:
        plain = measured(law, "plain")
        for way in ("plain", "quick", "kept"):
            first, second, large, objective, known = plain if way == "plain" else measured(law, way)
            way += "" if known or way == "plain" else " (not known to this jaxlib)"
            print(
                f"| {law} | {way} | {first:.1f} | {second:.3f} | {large:.2f} | "
                f"{first / plain[0]:.0%} | {objective:.10g} |"
            )


if __name__ == "__main__":
    main()
