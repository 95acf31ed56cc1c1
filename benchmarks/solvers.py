"""Which solver takes the mass of the starts: every law on its data, 64 Sobol starts as they are.

    JAXLAW_DATA=… python benchmarks/solvers.py        # some ten minutes on two cores

Each start is solved to its end by either solver, neither screened nor finished. Shares count
starts within 1e-6, relative, of the best objective that either found.
"""

import os
import time

import jax
import numpy as np
from slimpajama import read

import jaxlaw as jl
from jaxlaw import engine, laws, simulate, starts
from jaxlaw.posing import Options, pose
from jaxlaw.solvers import SOLVERS

COUNT = 64
AGREE = 1e-6


def cases():
    """(name, law, observations)."""
    for name in laws.names():
        experiment = simulate.experiment(name)
        yield "simulated", experiment.law, jl.read_runs(experiment.table).observations(name)
    if "JAXLAW_DATA" in os.environ:
        for name in ("dcpt", "dcpt-l1", "dcpt-l2", "dcpt-l4", "dcpt-l5"):
            yield "SlimPajama c4", laws.get(name), read("c4").observations(name)


def solved(law, seen, solver):
    posed = pose(law, seen.inputs, seen.target, seen.weight, Options(), solver.linear_coefficients)
    first = posed.coordinates(starts.sobol(law, COUNT, 0))
    for _ in range(2):  # the first compiles
        begun = time.perf_counter()
        lanes = engine.solve(solver, posed.model, posed.problem, first)
        seconds = time.perf_counter() - begun
    scale = min(float(posed.problem.delta), 1.0)
    values = np.where(np.isfinite(lanes.value[0]), lanes.value[0], np.inf) * scale
    return values, seconds / COUNT * 1e3, lanes.ticks.mean()


def main() -> None:
    print(f"{os.cpu_count()} CPU cores, {jax.default_backend()}, jax {jax.__version__}\n")
    print("| data | law | points | solver | ms a start | ticks | starts at the best optimum "
          "| best objective |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    with jax.enable_x64(True):
        for data, law, seen in cases():
            found = {name: solved(law, seen, solver) for name, solver in SOLVERS.items()}
            best = min(values.min() for values, *_ in found.values())
            floor = 1e-18 * len(seen.target)
            for name, (values, ms, ticks) in found.items():
                share = np.mean(values <= best * (1 + AGREE) + floor)
                row = (data, law.name, len(seen.target), name, f"{ms:.2f}", f"{ticks:.0f}",
                       f"{share:.0%}", f"{values.min():.6g}")  # fmt: skip
                print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
