"""What a first fit and a command cost before they compute, and what was done about it.

    python benchmarks/first_call.py

Every row is the median of three new processes; CPU seconds, of all threads. "plain" compiles as
``jax.jit`` does, "quick" as :mod:`jaxlaw._jit` does, "kept" finds in a cache folder what an earlier
process compiled. The second fit is of the same shapes, compiled: the options must not cost there
what they save. Another length is a table with a few rows fewer, of the same size class.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

LAWS = ("chinchilla", "dcpt", "cpt-curve")
SCRIPT = """
import json, sys, time
import jaxlaw as jl
from jaxlaw import _jit as programs
law, way, folder = sys.argv[1:]
if way == "plain":
    programs.QUICK = programs.UNOPTIMISED = {}
made = jl.simulate.experiment(law, noise=0.004)
jl.fit  # imported before the clock starts
def cpu(fit):
    began = time.process_time()
    found = fit()
    return time.process_time() - began, found
kept = folder if way == "kept" else False
one = lambda: jl.fit(made.law, made.table, compile_cache=kept)
many = lambda: jl.fit(made.law, made.table, n_starts=4096, n_local=False, compile_cache=kept)
fewer = lambda: jl.fit(made.law, made.table.iloc[:-2], compile_cache=kept)
(first, fit), (second, _), (other, _) = cpu(one), cpu(one), cpu(fewer)
cpu(many)
(large, _) = cpu(many)
print(json.dumps([first, second, other, large, fit.objective, bool(programs.compiler_options())]))
"""
COMMANDS = (
    "--help",
    "laws",
    "fit chinchilla runs.csv --out fit.json",
    "predict fit.json --at N=1e9 --at D=1e11",
)


def measured(law: str, way: str) -> list[float]:
    """Medians of what the script prints, over three processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SCRIPT, law, way, folder]
        runs = [
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(3 + (way == "kept"))
        ]
    runs = runs[-3:]  # the first fills the folder
    return [statistics.median(values) for values in zip(*runs, strict=True)]


def of_commands(folder: str) -> None:
    """Print CPU and wall seconds of commands whose programs are kept."""
    make = "import jaxlaw as jl; jl.simulate.experiment('chinchilla').table.to_csv('runs.csv')"
    subprocess.run([sys.executable, "-c", make], cwd=folder, check=True)
    environment = os.environ | {"JAXLAW_CACHE": os.path.join(folder, "cache")}
    for line in COMMANDS:
        command, seconds = [sys.executable, "-m", "jaxlaw", *line.split()], []
        for _ in range(4):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
            wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            seconds.append((cpu, wall))
        cpu, wall = (statistics.median(values) for values in zip(*seconds[1:], strict=True))
        print(f"| `jaxlaw {line}` | {cpu:.2f} | {wall:.2f} |")


def main() -> None:
    """Print the tables."""
    columns = (
        "law",
        "way",
        "first fit",
        "second",
        "another length",
        "4,096 starts",
        "first, of plain",
        "objective",
    )
    print(f"| {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|---|")
    for law in LAWS:
        plain = measured(law, "plain")
        for way in ("plain", "quick", "kept"):
            first, second, other, large, objective, known = (
                plain if way == "plain" else measured(law, way)
            )
            way += "" if known or way == "plain" else " (not known to this jaxlib)"
            print(
                f"| {law} | {way} | {first:.2f} | {second:.3f} | {other:.3f} | {large:.2f} | "
                f"{first / plain[0]:.0%} | {objective:.10g} |"
            )
    print("\n| command, programs kept | CPU s | wall s |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        of_commands(folder)


if __name__ == "__main__":
    main()
