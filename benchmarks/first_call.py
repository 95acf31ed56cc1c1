"""What first calls and a command cost before they compute, and what was done about it.

    python benchmarks/first_call.py             all tables
    python benchmarks/first_call.py calls       that of first calls alone

The table of first calls has one process with an empty cache folder, and a second one that finds
what the first compiled. In the others every row is the median of three new processes. CPU seconds
are of all threads. "plain" compiles as ``jax.jit`` does, "quick" as :mod:`jaxlaw._jit` does, "kept"
finds in a cache folder what an earlier process compiled. The second fit is of the same shapes,
compiled: the options must not cost there what they save. Another length is a table with a few rows
fewer, of the same size class.
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
import json, os, sys, time
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
os.environ["JAXLAW_CACHE"] = folder if way == "kept" else "off"
one = lambda: jl.fit(made.law, made.table)
many = lambda: jl.fit(made.law, made.table, n_starts=4096, n_local=False)
fewer = lambda: jl.fit(made.law, made.table.iloc[:-2])
(first, fit), (second, _), (other, _) = cpu(one), cpu(one), cpu(fewer)
cpu(many)
(large, _) = cpu(many)
print(json.dumps([first, second, other, large, fit.objective, bool(programs.compiler_options())]))
"""
#: Calls one after another in a process, the same calls in a second one.
CALLS = """
import json, sys, time, warnings
import jaxlaw as jl
warnings.simplefilter("ignore")
runs = jl.simulate.experiment("chinchilla", noise=0.004).table
at = {"N": 7e10, "D": 1.4e12}
laws = ["chinchilla", "skaling", "kaplan", "kaplan-e", "farseer"]
forecast = lambda rows: lambda: jl.forecast(runs.iloc[:rows], at=at)
bootstrap = lambda count: lambda: jl.bootstrap("chinchilla", runs, n_resamples=count)
fit = lambda: jl.fit("chinchilla", runs)
study = lambda: jl.cross_validate(laws, runs, jl.folds.k_fold(20))
calls = {
    "forecast of 20 runs": forecast(20), "the same again": forecast(20), "of 17 runs": forecast(17),
    "forecast of 243 runs": forecast(243), "the same, again": forecast(243),
    "fit": fit, "a second fit": fit,
    "bootstrap of 1,000": bootstrap(1000), "then 4,000": bootstrap(4000),
    "study, five laws, 20 folds": study, "a second study": study,
}
jl.fit, jl.bootstrap, jl.cross_validate, jl.forecast  # imported before the clock starts
for name in sys.argv[1].split("; "):
    cpu, wall = time.process_time(), time.perf_counter()
    calls[name]()
    print(json.dumps([name, time.process_time() - cpu, time.perf_counter() - wall]))
"""
#: The calls of each process.
TOGETHER = (
    "forecast of 20 runs; the same again; of 17 runs",
    "forecast of 243 runs; the same, again",
    "fit; a second fit",
    "bootstrap of 1,000; then 4,000",
    "study, five laws, 20 folds; a second study",
)
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


def of_calls() -> None:
    """Print CPU and wall seconds of calls in a process that compiles, and in a second one."""
    print("| call | first process: CPU s | wall s | second process: CPU s | wall s |")
    print("|---|---|---|---|---|")
    for names in TOGETHER:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"JAXLAW_CACHE": folder}
            command = [sys.executable, "-c", CALLS, names]
            processes = [
                subprocess.run(
                    command, env=environment, capture_output=True, text=True, check=True
                ).stdout.splitlines()
                for _ in range(2)
            ]
        for lines in zip(*processes, strict=True):
            (name, *first), (_, *second) = map(json.loads, lines)
            print(f"| {name} | {' | '.join(f'{value:.2f}' for value in (*first, *second))} |")


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
    of_calls()
    if sys.argv[1:] == ["calls"]:
        return
    print()
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
