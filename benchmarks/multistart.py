"""All starts of one fit, solved to the end: jaxlaw against scipy and against jaxopt under vmap.

    python benchmarks/multistart.py            # about ten minutes on two cores
    python benchmarks/multistart.py --quick    # small samples, to see that it runs
    python benchmarks/multistart.py --default  # default fits against scipy alone, CPU time beside

Every method minimises the same objective (summed Huber / δ, log N and log D centred) on the
same data from the same starts, at the tightest tolerance at which it converges. scipy and
vmap of jaxopt are timed on a random sample of the starts. Shares count starts whose
objective is within 1e-8, relative, of the best any method found.

Data: the 240 runs of the Chinchilla replication (``JAXLAW_DATA``; simulated where it is
unset) with the replication's grid of 4,500 starts, and a simulated D-CPT experiment of
Que's design (540 points, noise 0.4 %) with 2,000 Sobol starts.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # scipy's L-BFGS-B is lost otherwise

import argparse
import dataclasses
import statistics
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.optimize import minimize

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting import _engine as engine
from jaxlaw.fitting import _multistart as search
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._objective import scaled_value, value_and_gradient
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting.solvers import SOLVERS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jaxopt

DELTA = 1e-3
AGREE = 1e-8


def chinchilla_runs() -> tuple[pd.DataFrame, str]:
    folder = os.environ.get("JAXLAW_DATA")
    if folder is None:
        return simulate.experiment("chinchilla").table, "simulated"
    table = pd.read_csv(Path(folder) / "chinchilla_points.csv")
    table = table[table.excluded_in_paper_fit == 0]
    return table.rename(columns={"n_params": "N", "n_tokens": "D"})[["N", "D", "loss"]], "real"


def numpy_chinchilla(problem):
    """Value and gradient of one start in numpy, exponentials shared: scipy's best case."""
    data = problem.in_numpy
    log_n, log_d = (np.log(data.inputs[k] / data.centre[k]) for k in ("N", "D"))
    target = data.target

    def function(u):
        e, a, b, alpha, beta = u
        E, A, B = np.exp(e), np.exp(a - alpha * log_n), np.exp(b - beta * log_d)
        total = E + A + B
        r = np.log(total) - target
        pull = np.clip(r, -DELTA, DELTA)
        value = np.sum(np.where(np.abs(r) <= DELTA, 0.5 * r * r, DELTA * (np.abs(r) - DELTA / 2)))
        share = pull / total
        grad_a, grad_b = share * A, share * B
        gradient = (share.sum() * E, grad_a.sum(), grad_b.sum(), -grad_a @ log_n, -grad_b @ log_d)
        return value / DELTA, np.array(gradient) / DELTA

    return function


def numpy_dcpt(problem):
    """The same for the D-CPT law, in plain coordinates (no chart)."""
    data = problem.in_numpy
    log_n, log_d = (np.log(data.inputs[k] / data.centre[k]) for k in ("N", "D"))
    r = data.inputs["r"]
    positive = r > 0
    log_r = np.log(np.where(positive, r, 1.0))
    target = data.target

    def function(u):
        e, a, b, c, alpha, beta, gamma, eta, eps = u
        log_share = np.log(r + eps)
        E, A = np.exp(e), np.exp(a - alpha * log_n)
        B = np.where(positive, np.exp(b + eta * log_r - beta * log_d), 0.0)
        C = np.exp(c - gamma * log_share)
        total = E + A + B + C
        d = np.log(total) - target
        pull = np.clip(d, -DELTA, DELTA)
        value = np.sum(np.where(np.abs(d) <= DELTA, 0.5 * d * d, DELTA * (np.abs(d) - DELTA / 2)))
        share = pull / total
        ga, gb, gc = share * A, share * B, share * C
        gradient = (
            share.sum() * E, ga.sum(), gb.sum(), gc.sum(), -ga @ log_n, -gb @ log_d,
            -gc @ log_share, gb @ log_r, -gamma * np.sum(gc / (r + eps)),
        )  # fmt: skip
        return value / DELTA, np.array(gradient) / DELTA

    return function


def scipy_loop(function, first, bounds, repeats):
    """L-BFGS-B from every start, tolerances at the floor of float64."""
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 10}
    seconds = []
    for _ in range(repeats):
        begun, values, calls = time.perf_counter(), [], 0
        with np.errstate(all="ignore"):
            for start in first:
                result = minimize(
                    function, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
                )
                values.append(result.fun if np.isfinite(result.fun) else np.inf)
                calls += result.nfev
        seconds.append(time.perf_counter() - begun)
    return np.array(values), statistics.median(seconds), calls / len(first)


def jaxopt_vmap(model, problem, first, repeats):
    """jax.vmap of jaxopt's run, as it comes."""
    method = jaxopt.LBFGS(
        lambda u: value_and_gradient(model, problem, u),
        value_and_grad=True, tol=1e-9, maxiter=500, implicit_diff=False,
    )  # fmt: skip
    run = jax.jit(jax.vmap(lambda u: method.run(u)[0]))
    values_of = jax.jit(jax.vmap(lambda u: scaled_value(model, problem, u)))
    begun = time.perf_counter()
    jax.block_until_ready(run(first))
    cold = time.perf_counter() - begun
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        result = jax.block_until_ready(run(first))
        seconds.append(time.perf_counter() - begun)
    run_s = statistics.median(seconds)
    values = np.nan_to_num(np.asarray(values_of(result)), nan=np.inf)
    return values, run_s, cold - run_s


def jaxlaw_all(method, problem, first, repeats):
    """Every start to the end, in chunks over all cores, as by fit()."""
    solver, batch = SOLVERS[method], search.Batch(problem.model, problem.data)

    def once():
        begun = time.perf_counter()
        search._solve(solver, batch, first[None], Work(progress=False))
        return time.perf_counter() - begun

    cold = once()
    run_s = statistics.median(once() for _ in range(repeats))
    lanes = engine.solve(solver, problem.model, problem.data, first)  # where each of them ends
    return lanes.value[0], run_s, cold - run_s, float(lanes.iterations.mean())


def jaxlaw_default(law, runs, repeats):
    """The default stages of fit(), reading, evidence and notes included."""

    def once():
        begun = time.perf_counter()
        fit = jl.fit(law, runs)
        return fit, time.perf_counter() - begun

    _, cold = once()
    timed = [once() for _ in range(repeats)]
    run_s = statistics.median(seconds for _, seconds in timed)
    return timed[0][0], run_s, cold - run_s


def floor_us(terms, points):
    """Microseconds that the exponentials of one evaluation take, and one logarithm a point."""
    exp = jax.jit(lambda x: (jnp.exp(x), jnp.log(x))[0])
    log = jax.jit(jnp.log)
    x = jnp.asarray(np.random.default_rng(0).uniform(0.1, 2.0, (64, points)))
    total = 0.0
    for function, times in ((exp, terms), (log, 1)):
        jax.block_until_ready(function(x))
        seconds = []
        for _ in range(50):
            begun = time.perf_counter()
            jax.block_until_ready(function(x))
            seconds.append(time.perf_counter() - begun)
        total += times * statistics.median(seconds) / 64 * 1e6
    return total


def case(name, runs, natural, terms, make_numpy, sample, small, repeats):
    law = laws.get(name)
    observed = jl.read_runs(runs).observations(law)
    data = (law, observed.inputs, observed.target, observed.weight, FitOptions())
    moved = build_problem(*data, linear_coefficients=True)  # the batch solver's coordinates
    plain = build_problem(*data, linear_coefficients=False)  # the papers' coordinates
    no_chart = dataclasses.replace(plain, model=plain.model._replace(chart=False))
    first, logs = (p.coordinates_of_starts(natural) for p in (moved, no_chart))
    low = [s.low if s.scale == "linear" else -20.0 for s in law.parameters]
    high = [s.high if s.scale == "linear" else 20.0 for s in law.parameters]
    low = [1e-4 if s.name == "eps" else v for v, s in zip(low, law.parameters, strict=True)]
    logs = np.clip(logs, low, high)
    simple = no_chart.model
    chosen = np.random.default_rng(0).permutation(len(natural))
    bounds = list(zip(low, high, strict=True))

    rows = []
    jitted = jax.jit(lambda u: value_and_gradient(simple, plain.data, u))

    def as_numpy(u):
        value, gradient = jitted(u)
        return float(value), np.asarray(gradient)

    as_numpy(logs[0])
    for label, function in (("numpy", make_numpy(plain)), ("jitted", as_numpy)):
        picked = chosen[:sample]
        values, run_s, calls = scipy_loop(function, logs[picked], bounds, repeats)
        rows.append([f"scipy L-BFGS-B, {label} gradient", sample, 0.0, run_s, values, calls])
    picked = chosen[:small]
    values, run_s, compile_s = jaxopt_vmap(simple, plain.data, jnp.asarray(logs[picked]), 1)
    rows.append(["vmap(jaxopt.LBFGS.run)", small, compile_s, run_s, values, np.nan])
    lb = plain.coordinates_of_starts(natural[picked])
    values, run_s, compile_s, calls = jaxlaw_all("lbfgs", plain, lb, 1)
    rows.append(["jaxlaw, every start, lbfgs", small, compile_s, run_s, values, calls])
    values, run_s, compile_s, calls = jaxlaw_all("newton", moved, first, repeats)
    rows.append(["jaxlaw, every start, newton", len(first), compile_s, run_s, values, calls])
    fit, run_s, compile_s = jaxlaw_default(name, runs, repeats)
    default = np.array([fit.objective / DELTA])

    best = min(min(v.min() for *_, v, _ in rows), default[0])
    per_start = rows[0][3] / rows[0][1] * 1e3
    floor = floor_us(terms, len(observed))
    print(f"\n### {name}: {len(observed)} points, {len(natural)} starts")
    print(f"\nfloor of one evaluation (exponentials and logarithms alone): {floor:.2f} µs\n")
    print("| method | starts | compile s | run s | ms a start | evaluations | µs an evaluation "
          "| × floor | at the best optimum | best objective | ratio |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for label, count, compile_s_, run_s_, values, calls in rows:
        ms = run_s_ / count * 1e3
        share = np.mean(values <= best * (1 + AGREE))
        each = ms * 1e3 / calls
        print(f"| {label} | {count} | {compile_s_:.1f} | {run_s_:.2f} | {ms:.3f} | {calls:.0f} "
              f"| {each:.1f} | {each / floor:.1f} | {share:.1%} | {values.min() * DELTA:.10g} "
              f"| {per_start / ms:.1f} |")  # fmt: skip
    whole = per_start * len(natural) / 1e3
    print(f"| jaxlaw, default stages | {fit.n_starts} | {compile_s:.1f} | {run_s:.2f} | | | | "
          f"| optimum {'found' if default[0] <= best * (1 + AGREE) else 'MISSED'} "
          f"| {fit.objective:.10g} | {whole / run_s:.0f} (of (a)'s whole grid) |")  # fmt: skip


def default_stages(name, runs, count, make_numpy, bounded=(), repeats=15):
    """A default fit against scipy's loop over ``count`` starts, wall and CPU seconds of either.

    CPU seconds are those of all threads, and say more where other work shares the machine.
    """
    law = laws.get(name)
    seen = jl.read_runs(runs).observations(law)
    plain = build_problem(law, seen.inputs, seen.target, seen.weight, FitOptions(), False)
    plain = dataclasses.replace(plain, model=plain.model._replace(chart=False))
    low = [s.low if s.scale == "linear" else -20.0 for s in law.parameters]
    high = [s.high if s.scale == "linear" else 20.0 for s in law.parameters]
    low = [1e-4 if s.name in bounded else v for v, s in zip(low, law.parameters, strict=True)]
    first = np.clip(plain.coordinates_of_starts(starts.sobol(law, 60, 0)), low, high)
    fits, walls, cpus, scipys = [jl.fit(law, runs)], [], [], []
    for k in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        fits.append(jl.fit(law, runs))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        if k % 5 == 0:  # scipy between them, so that the machine's load is the same for both
            cpu, bounds = time.process_time(), list(zip(low, high, strict=True))
            values, wall, _ = scipy_loop(make_numpy(plain), first, bounds, 1)
            scipys.append([wall, time.process_time() - cpu, values.min()])
    wall, cpu, best = np.median(scipys, axis=0) / [len(first), len(first), 1] * [count, count, 1]
    ours = statistics.median(walls), statistics.median(cpus)
    found = fits[-1].objective <= best * DELTA * (1 + AGREE)
    print(f"| {name} | {fits[-1].n_starts} | {ours[0] * 1e3:.0f} | {ours[1] * 1e3:.0f} "
          f"| {wall:.1f} | {cpu:.1f} | {wall / ours[0]:.0f} | **{cpu / ours[1]:.0f}** "
          f"| {'found' if found else 'MISSED'} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small samples")
    parser.add_argument("--default", action="store_true", help="default fits alone")
    asked = parser.parse_args()
    quick = asked.quick
    repeats = 1 if quick else 3
    runs, kind = chinchilla_runs()
    print(f"chinchilla data: {kind}; {os.cpu_count()} CPU cores, {jax.default_backend()}")
    if asked.default:
        print("\n| law | starts | wall ms | CPU ms | scipy wall s | scipy CPU s | ratio, wall "
              "| ratio, CPU | optimum |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
        with jax.enable_x64(True):
            default_stages("chinchilla", runs, 4500, numpy_chinchilla)
            default_stages("dcpt", simulate.experiment("dcpt").table, 2000, numpy_dcpt, ("eps",))
        return
    with jax.enable_x64(True):
        law = laws.get("chinchilla")
        means = {k: float(np.exp(np.log(runs[k]).mean())) for k in ("N", "D")}
        grid = starts.grid_of(law, means)
        case("chinchilla", runs, grid[:: 50 if quick else 1], 2, numpy_chinchilla,
             20 if quick else 300, 10 if quick else 100, repeats)  # fmt: skip
        table = simulate.experiment("dcpt").table
        sample = starts.sobol(laws.get("dcpt"), 64 if quick else 2000, 0)
        case("dcpt", table, sample, 3, numpy_dcpt,
             10 if quick else 60, 8 if quick else 30, repeats)  # fmt: skip


if __name__ == "__main__":
    main()
