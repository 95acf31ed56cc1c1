"""Many problems and many starts: a whole study, and memory.

    python benchmarks/scale.py [study] [memory]

Optima count as the same within 1e-8, relative. Times include everything but compiling.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import sys
import time
from functools import partial

import jax
import numpy as np
from multistart import AGREE, DELTA, NEWTON, fit_problem

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.fitting._multistart import Batch, find_optima
from jaxlaw.fitting._options import FitOptions
from jaxlaw.validation._cross_validate import _OWN_STARTS

SILENT = Work(progress=False)
CHECKED = 2  # problems of each corpus whose starts are all solved, to compare


def timed(call):
    begun = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begun


def domains(**changed):
    """Six domains of Que's design, general losses, then domain losses.

    Args:
        changed: parameters of the general truth, in place of its own.

    Yields:
        ``general`` or ``domain``, inputs, and of each domain its parameters and losses (n,).
    """
    draw = np.random.default_rng(0)
    for side, name in (("general", "dcpt-general"), ("domain", "dcpt")):
        experiment, made = simulate.experiment(name), []
        inputs = {k: experiment.table[k].to_numpy() for k in "NDr"}
        truth = dict(experiment.truth) | (changed if side == "general" else {})
        for seed in range(6):
            own = {k: v * np.exp(draw.normal(0, 0.1)) for k, v in truth.items()}
            runs = simulate.simulate_runs("dcpt", own, inputs, noise=0.004, seed=seed)
            made.append((own, runs["loss"].to_numpy()))
        yield side, inputs, made


def held_out_pairs(inputs):
    """Weights (36, n): any two of the nine shares held out."""
    shares = np.unique(inputs["r"])
    pairs = [(a, b) for i, a in enumerate(shares) for b in shares[i + 1 :]]
    return np.stack([~np.isin(inputs["r"], pair) for pair in pairs]).astype(float)


def study():
    """36 folds × 6 domains × G/D × 5 laws, default stages; losses over their own corpus's share."""
    print("\n## Que's mixture-ratio study: 36 folds × 6 domains × G/D × 5 laws\n")
    print("| law | losses | problems | s | CPU s | of them the long way | agreed (least, median) |")
    print("|---|---|---|---|---|---|---|")
    options, total, cpu, all_found = FitOptions(progress=False), 0.0, 0.0, {}
    for name in ("dcpt-l1", "dcpt-l2", "dcpt", "dcpt-l4", "dcpt-l5"):
        law = laws.get(name)
        for side, inputs, made in domains():
            masks, targets = held_out_pairs(inputs), [loss for _, loss in made]
            weights, of = np.tile(masks, (6, 1)), np.repeat(np.arange(6), len(masks))
            losses = np.repeat(targets, len(masks), axis=0)
            seen = jl.read_runs(inputs | {"loss": targets[0]}).observations(law)
            call = partial(
                fit_many,
                law,
                seen,
                weights,
                losses,
                options,
                data_sets=of,
                n_own_starts=_OWN_STARTS,
            )
            for _ in range(2):  # the first compiles
                before = time.process_time()
                found, seconds = timed(call)
                used = time.process_time() - before
            long = np.mean(found.n_solved > _OWN_STARTS)
            print(f"| {name} | {side} | {len(weights)} | {seconds:.1f} | {used:.0f} | {long:.0%} "
                  f"| {found.agreement.min():.0%}, {np.median(found.agreement):.0%} |",
                  flush=True)  # fmt: skip
            total, cpu = total + seconds, cpu + used
            all_found[name, side] = found, weights, losses
    problems = sum(len(found.objective) for found, _, _ in all_found.values())
    print(f"\n{problems} problems in **{total:.0f} s**, {cpu:.0f} CPU seconds.\n")
    same, checked = 0, 0
    for (name, side), (found, weights, losses) in all_found.items():
        some = np.random.default_rng(0).permutation(len(weights))[:CHECKED]
        p = found.problem
        fields = p.many(weights=weights[some], targets=losses[some])
        first = p.coordinates_of_starts(starts.sobol(p.model.law, 4096, 0))
        batch = Batch(p.model, p.data._replace(**fields), frozenset(fields))
        whole = find_optima(NEWTON, batch, first, False, SILENT)
        worse = [
            found.objective[k] / (one.objective * DELTA) - 1
            for k, one in zip(some, whole, strict=True)
        ]
        good = sum(one <= AGREE for one in worse)
        print(
            f"{name}, {side}: {good} of {len(some)} are no worse than all 4,096 starts solved "
            f"(at most by {max(worse):.0e}).", flush=True
        )  # fmt: skip
        same, checked = same + good, checked + len(some)
    print(f"\n{same} of {checked} checked are no worse.")


def memory():
    """36 folds × the paper's grid, ten million lanes; each ended after two iterations."""
    table = simulate.experiment("dcpt").table
    p = fit_problem("dcpt", table)
    weights = np.ones((36, len(table)))
    batch = Batch(p.model, p.data._replace(weight=weights), frozenset({"weight"}))
    first = p.coordinates_of_starts(starts.grid_of(p.model.law, p.means))
    short = NEWTON._replace(settings=NEWTON.settings._replace(max_iterations=2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    _, seconds = timed(lambda: find_optima(short, batch, first, work=SILENT))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n## Memory: 36 folds × {len(first)} starts, {36 * len(first)} lanes\n")
    print(f"Two iterations each, {seconds:.0f} s: at most **{after:.2f} GiB** of host memory "
          f"({before:.2f} before).")  # fmt: skip


def main() -> None:
    cases = {f.__name__: f for f in (memory, study)}
    chosen = sys.argv[1:] or list(cases)
    print(f"{os.cpu_count()} CPU cores, {jax.default_backend()}, jax {jax.__version__}")
    with jax.enable_x64(True):
        for name in cases:
            if name in chosen:
                cases[name]()


if __name__ == "__main__":
    main()
