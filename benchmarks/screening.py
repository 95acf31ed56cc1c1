"""How many starts a search needs: optima lost with fewer, for every law and on real runs.

    JAXLAW_DATA=… python benchmarks/screening.py [LAW …]     # all laws: half an hour on two cores

Every law is fitted to two simulated experiments of its own, laws of mixtures to the general losses
of six simulated domains over the domain's share, with which they rise, and laws of N and D, of
mixtures and of fine-tuning to real runs, from Sobol samples of four seeds and of many sizes: of
each sample the 64 best starts are solved, as by default. An optimum is lost where the objective is
worse, by more than 1e-8 or by what rounding hides, than the best that any of these searches came
to. "nonlinear" counts the parameters that a start is made of: screening solves for the others.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scale

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw._jit import in_float64
from jaxlaw.fitting import _multistart as search
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._engine import Queue, evaluate_queues
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting._starts import first_starts, nonlinear_count
from jaxlaw.fitting._variable_projection import solved_coordinates
from jaxlaw.fitting.solvers import SOLVERS

SIZES = [64 * 2**k for k in range(7)]
SEEDS = range(4)
SOLVED = 64
AGREE = 1e-8
SIMULATED = 2
UNITS = (None, {"N": 1, "D": 1})  # of laws in billions
OF_SIZES = ("chinchilla", "kaplan")
OF_MIXTURES = ("dcpt", "dcpt-l1", "dcpt-l2", "dcpt-l4", "dcpt-l5")


def real(law: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Names of real data sets that a law is fitted to, with their tables."""
    folder = Path(os.environ["JAXLAW_DATA"])
    if law in OF_SIZES:
        table = pd.read_csv(folder / "chinchilla_points.csv").query("excluded_in_paper_fit == 0")
        yield "chinchilla points", table.rename(columns={"n_params": "N", "n_tokens": "D"})
        table = pd.read_csv(folder / "farseer.csv").query("split == 'train'")
        yield "farseer", table
        table = pd.read_csv(folder / "isoflops.csv").rename(columns={"params": "N", "tokens": "D"})
        for name, part in table.groupby("experiment"):
            yield f"isoflops {name}", part
    if law in OF_MIXTURES:
        table = pd.read_csv(folder / "slimpajama_mixtures.csv")
        for name in (column[7:] for column in table if column.startswith("weight_")):
            renamed = {"n_params": "N", "n_tokens": "D", f"weight_{name}": "r"}
            yield name, table.rename(columns={**renamed, f"{name}_loss": "loss"})
    if law == "rectified":
        table = pd.read_csv(folder / "finetune_transfer.csv")
        renamed = table.rename(columns={"n_finetune_samples": "Df"})
        for name, part in renamed.groupby(["model", "dataset"]):
            yield " ".join(name), part


def data_sets(law: str) -> Iterator[tuple[str, Any]]:
    """Simulated experiments of a law, losses that rise with the share, then real runs."""
    for seed in range(SIMULATED):
        made = simulate.experiment(law, noise=0.004, seed=seed)
        yield f"simulated {seed}", jl.read_runs(made.table).observations(made.law)
    if law in OF_MIXTURES:
        _, inputs, domains = next(scale.domains())
        for k, (_, loss) in enumerate(domains):
            rising = inputs | {"r": 1 - inputs["r"], "loss": loss}
            yield f"rising {k}", jl.read_runs(rising).observations(laws.get(law))
    if "JAXLAW_DATA" in os.environ:
        for name, table in real(law):
            try:
                runs = jl.read_runs(table, units=UNITS[law in OF_MIXTURES], drop_invalid=True)
                yield name, runs.observations(laws.get(law))
            except (jl.JaxlawError, KeyError) as error:
                print(f"{law}, {name}: {error}", file=sys.stderr)


def objectives(law: str, seen: Any) -> tuple[np.ndarray, float, int]:
    """Best objectives (seeds, sizes) of a data set, what rounding hides, and nonlinear count."""
    work, options = Work(progress=False), FitOptions(n_starts=SIZES[-1])
    problem = build_problem(laws.get(law), seen.inputs, seen.target, seen.weight, options)
    batch = search.Batch(problem.model, problem.data)
    linear = list(solved_coordinates(problem.model))
    found = np.empty((len(SEEDS), len(SIZES)))
    for seed in SEEDS:
        starts = first_starts(replace(problem, options=replace(options, seed=seed)))
        queue = Queue({}, starts, np.zeros(len(starts), np.int32))
        (values,) = evaluate_queues(batch.model, batch.problems, [queue], len(starts))
        value = np.where(np.isfinite(values.value[0]), values.value[0], np.inf)
        for k, size in enumerate(SIZES):
            best = np.argsort(value[:size], kind="stable")[:SOLVED]
            chosen = starts[best]
            chosen[:, linear] = values.linear[0, best]
            solved = search._solve(SOLVERS["newton"], batch, batch.inside(chosen[None]), work)
            found[seed, k] = solved["value"].min()
    return found, float(batch.floors[0]), nonlinear_count(problem)


def main() -> None:
    """Print one row a law."""
    print(f"| law | nonlinear | data sets | {' | '.join(f'{size:,}' for size in SIZES)} |")
    print("|---|---|---|" + "---|" * len(SIZES))
    with in_float64():
        for law in sys.argv[1:] or sorted(laws.law_table()["name"]):
            lost, count, nonlinear = np.zeros(len(SIZES), int), 0, 0
            for name, seen in data_sets(law):
                found, floor, nonlinear = objectives(law, seen)
                best = found.min()
                worse = found > best + max(AGREE * best, floor)
                lost += worse.sum(axis=0)
                count += 1
                if worse.any():
                    shares = " ".join(str(one) for one in worse.sum(axis=0))
                    excess = " ".join(f"{x:.0e}" for x in found.max(axis=0) / best - 1)
                    print(f"{law}, {name}: lost {shares}; worst {excess}", file=sys.stderr)
            cells = " | ".join(f"{one}" for one in lost)
            print(f"| {law} | {nonlinear} | {count} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
