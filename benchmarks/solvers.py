"""Which solver takes the mass of the starts, and whether a race among them would pay.

    JAXLAW_DATA=… python benchmarks/solvers.py [LAW …]     # all laws: an hour on two cores

Every law on its data, 64 starts solved to their ends and not finished: the first of a Sobol
sample as they are by either solver, and the best of 4,096 as by default. Shares count starts
within 1e-6, relative, of the best objective that any found. Lost are the evaluations spent on
starts that end elsewhere: all that a race could save that knew from the first which they are.
"""

import os
import sys
import time

import jax
import numpy as np
from slimpajama import read

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting import _engine as engine
from jaxlaw.fitting import _multistart as search
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting.solvers import SOLVERS

COUNT = 64
AGREE = 1e-6


def cases():
    """(name, law, observations)."""
    names = sys.argv[1:] or laws.names()
    for name in names:
        experiment = simulate.experiment(name)
        yield "simulated", experiment.law, jl.read_runs(experiment.table).observations(name)
    if "JAXLAW_DATA" in os.environ:
        for name in [name for name in names if name.startswith("dcpt")]:
            yield "SlimPajama c4", laws.get(name), read("c4").observations(name)


def solved(law, seen, solver, screen):
    """Objectives (COUNT,), evaluations of each start, ms a start."""
    problem = build_problem(
        law, seen.inputs, seen.target, seen.weight, FitOptions(), solver.linear_coefficients
    )
    first = problem.coordinates_of_starts(starts.sobol(law, 4096 if screen else COUNT, 0))
    if screen:
        (first,) = search._screen(search.Batch(problem.model, problem.data), first, COUNT, Work())
    for _ in range(2):  # the first compiles
        begun = time.perf_counter()
        lanes = engine.solve(solver, problem.model, problem.data, first)
        seconds = time.perf_counter() - begun
    scale = min(float(problem.data.delta), 1.0)
    values = np.where(np.isfinite(lanes.value[0]), lanes.value[0], np.inf) * scale
    return values, lanes.iterations[0], seconds / COUNT * 1e3


def main() -> None:
    print(f"{os.cpu_count()} CPU cores, {jax.default_backend()}, jax {jax.__version__}\n")
    print("| data | law | points | starts | ms a start | evaluations | lost | at the best optimum "
          "| best objective |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    ways = {
        "lbfgs": (SOLVERS["lbfgs"], False),
        "lbfgs-optax": (SOLVERS["lbfgs-optax"], False),
        "newton": (SOLVERS["newton"], False),
        "newton, screened": (SOLVERS["newton"], True),
    }
    with jax.enable_x64(True):
        for data, law, seen in cases():
            found = {name: solved(law, seen, *way) for name, way in ways.items()}
            best = min(values.min() for values, *_ in found.values())
            floor = 1e-18 * len(seen.target)
            for name, (values, count, ms) in found.items():
                there = values <= best * (1 + AGREE) + floor
                row = (data, law.name, len(seen.target), name, f"{ms:.2f}", f"{count.mean():.0f}",
                       f"{count[~there].sum() / count.sum():.0%}", f"{there.mean():.0%}",
                       f"{values.min():.6g}")  # fmt: skip
                print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
