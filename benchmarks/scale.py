"""Many problems and many starts: bootstrap, the paper's whole grid, a whole study, memory.

    python benchmarks/scale.py [bootstrap] [related] [grid] [study] [memory]   # all: half an hour

scipy is L-BFGS-B with a hand-written numpy gradient, one BLAS thread, in a loop, on the same
objective and data; it is timed on a sample of the starts. Optima count as the same within 1e-8,
relative. Times include everything but compiling.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import resource
import sys
import time
from functools import partial

import jax
import numpy as np
from multistart import (
    AGREE,
    DELTA,
    NEWTON,
    case_of,
    chinchilla_runs,
    fit_problem,
    numpy_chinchilla,
    numpy_dcpt,
    scipy_loop,
)

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting import _multistart as search, _starts as starts
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.fitting._multistart import OWN_STARTS, Batch, find_optima
from jaxlaw.fitting._objective import scale_on_host
from jaxlaw.fitting._options import FitOptions
from jaxlaw.validation._cross_validate import _OWN_STARTS

SILENT = Work(progress=False)
CHECKED = 2  # problems of each corpus whose starts are all solved, to compare


def scipy_ms(case, natural, count):
    """Milliseconds a start, and the objectives of a sample of starts."""
    picked = np.random.default_rng(1).permutation(len(natural))[:count]
    first = case.coordinates(natural[picked])
    values, seconds, _ = scipy_loop(case, case.numpy_of(case.problem), first)
    return seconds / len(picked) * 1e3, values * DELTA


def timed(call):
    begun = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begun


def bootstrap(resamples=4000, solved=8, tried=64):
    """Case bootstrap of chinchilla, each resample from several starts."""
    runs, kind = chinchilla_runs()
    p = fit_problem("chinchilla", runs)
    n = len(runs)
    weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=resamples)
    batch = Batch(p.model, p.data._replace(weight=weights.astype(float)), frozenset({"weight"}))
    natural = starts.sobol(p.model.law, tried, 0)
    first = p.coordinates_of_starts(natural)

    def call():
        return find_optima(NEWTON, batch, first, solved, SILENT)

    call()
    found, seconds = timed(call)
    ms, _ = scipy_ms(case_of("chinchilla", runs, numpy_chinchilla), natural, 200)
    values = p.params(np.stack([one.coordinates for one in found]))
    agree = np.array([one.agreement for one in found])
    print(f"\n## Bootstrap: chinchilla, {kind}, {n} points, {resamples} resamples\n")
    whole = ms * solved * resamples / 1e3
    print(f"{tried} starts tried and {solved} solved for each: {seconds:.1f} s. scipy, {solved} "
          f"starts each, {ms:.2f} ms a start: {whole:.0f} s, ratio **{whole / seconds:.0f}**. "
          f"All starts of a resample at its best optimum in {np.mean(agree == 1):.1%} of them, "
          f"half in {np.mean(agree >= 0.5):.1%}.")  # fmt: skip
    print("\n| | standard error | 95 % interval |\n|---|---|---|")
    for name, value in values.items():
        low, high = np.percentile(value, [2.5, 97.5])
        print(f"| {name} | {value.std():.4g} | {low:.4g}, {high:.4g} |")


def grid():
    """Every start of the paper's dcpt grid."""
    table = simulate.experiment("dcpt").table
    p = fit_problem("dcpt", table)
    natural = starts.grid_of(p.model.law, p.means)
    first = p.coordinates_of_starts(natural)
    batch = Batch(p.model, p.data)
    find_optima(NEWTON, batch, first[:8192], work=SILENT)
    (found,), seconds = timed(lambda: find_optima(NEWTON, batch, first, work=SILENT))
    ms, values = scipy_ms(case_of("dcpt", table, numpy_dcpt), natural, 100)
    best = min(values.min(), found.objective * DELTA)
    print(f"\n## The paper's grid: dcpt, {len(table)} points, {len(natural)} starts\n")
    print(f"jaxlaw {seconds:.0f} s, {seconds / len(natural) * 1e3:.2f} ms a start, "
          f"{found.agreement:.1%} at the best optimum ({found.objective * DELTA:.10g}); scipy "
          f"{ms:.1f} ms a start (100 of them), {np.mean(values <= best * (1 + AGREE)):.1%} at it: "
          f"ratio **{ms * len(natural) / 1e3 / seconds:.0f}**.")  # fmt: skip


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


def related(versions=24, tried=1024, rows=120):
    """Versions of a data set whose optimum lies elsewhere: how many the search notices."""
    print("\n## Versions whose optimum lies elsewhere than that of their data set\n")
    print("| law | versions | searched as | elsewhere | noticed | long way | worse than all starts "
          "solved | by at most |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    ways = {
        "resamples": (OWN_STARTS, FitOptions(n_starts=64, n_local=8, progress=False)),
        "folds": (_OWN_STARTS, FitOptions(progress=False)),
    }
    for name in ("chinchilla", "kaplan", "dcpt", "dcpt-l2"):
        law = laws.get(name)
        for kind, (seen, fields) in planted(name, versions, rows).items():
            reference = None
            for way, (few, options) in ways.items():
                with near_optima() as near:
                    found = fit_many(law, seen, **fields, options=options, n_own_starts=few)
                if reference is None:
                    p = found.problem
                    own = dict(fields)
                    if "targets" in own:
                        own["targets"] = p.transformed(own["targets"])
                    own = p.many(**own)
                    task = Batch(p.model, p.data._replace(**own), frozenset(own))
                    first = p.coordinates_of_starts(starts.sobol(law, tried, 0))
                    whole = find_optima(NEWTON, task, first, False, SILENT)
                    scale = float(scale_on_host(p.data))
                    reference = np.array([one.objective for one in whole]) * scale
                near = near[0] * scale
                best = np.minimum.reduce([reference, near, found.objective])
                elsewhere = near > best * (1 + AGREE)
                noticed = found.n_solved > few
                worse = found.objective / best - 1
                print(f"| {name} | {kind} | {way} | {elsewhere.sum()} of {versions} "
                      f"| {(noticed & elsewhere).sum()} of {elsewhere.sum()} "
                      f"| {noticed.sum()} of {versions} | {(worse > AGREE).sum()} of {versions} "
                      f"| {max(worse.max(), 0):.1e} |", flush=True)  # fmt: skip


def planted(name, versions, rows):
    """Kinds of versions of simulated runs: (observations, fields of the versions) by name."""
    draw = np.random.default_rng(0)
    law, experiment = laws.get(name), simulate.experiment(name)
    table = experiment.table.sample(min(rows, len(experiment.table)), random_state=0)
    inputs = {spec.name: table[spec.name].to_numpy() for spec in law.inputs}

    def losses(spread, seed):
        other = {k: v * np.exp(draw.normal(0, spread)) for k, v in experiment.truth.items()}
        return simulate.simulate_runs(law, other, inputs, noise=0.004, seed=seed)["loss"].to_numpy()

    n, own = len(table), losses(0.0, 0)
    mixed = np.where(np.arange(n) % 5 < 3, own, losses(0.3, 1))
    chance = np.where(np.arange(n) % 5 < 3, 1.0, 3.0)

    def observations(loss):
        return jl.read_runs(table.assign(loss=loss)).observations(law)

    def resampled(chance):
        return draw.multinomial(n, chance / chance.sum(), size=versions).astype(float)

    others = np.stack([losses(0.5, 2 + k) for k in range(versions)])
    return {
        "resamples": (observations(own), {"weights": resampled(np.ones(n))}),
        "each of another truth": (observations(own), {"targets": others}),
        "two truths, 3:2 in the data set, 1:2 in the versions": (
            observations(mixed), {"weights": resampled(chance)},
        ),
    }  # fmt: skip


@contextlib.contextmanager
def near_optima():
    """The scaled objectives that versions come to from the optima of their data set alone."""
    found, solve = [], search._solve

    def kept(method, task, points, work, stage=None, *shape):
        solved = solve(method, task, points, work, stage, *shape)
        if stage.startswith("near-"):
            found.append(solved.value.min(axis=1))
        return solved

    search._solve = kept
    try:
        yield found
    finally:
        search._solve = solve


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
    cases = {f.__name__: f for f in (memory, bootstrap, related, grid, study)}
    chosen = sys.argv[1:] or list(cases)
    print(f"{os.cpu_count()} CPU cores, {jax.default_backend()}, jax {jax.__version__}")
    with jax.enable_x64(True):
        for name in cases:
            if name in chosen:
                cases[name]()


if __name__ == "__main__":
    main()
