"""All starts of one fit, solved to the end: jaxlaw against scipy.

    python benchmarks/multistart.py            # two minutes on two cores
    python benchmarks/multistart.py --quick    # small samples, to see that it runs

Both minimise the same objective (summed Huber / δ, log N and log D centred) on the same data from
the same starts, at the tightest tolerance at which they converge. scipy is timed on a random sample
of the starts. Shares count starts whose objective is within 1e-8, relative, of the best that any
method reached. Other packages are in ``peers.py``, jaxlaw's other solvers in ``solvers.py``.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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
from jaxlaw.fitting._objective import value_and_gradient
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting.solvers import SOLVERS

DELTA = 1e-3
AGREE = 1e-8
NEWTON = SOLVERS["newton"]


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


def fit_problem(name: str, runs: Any, linear: bool = True) -> Any:
    """A law on its runs as jaxlaw solves it; without ``linear`` in the papers' coordinates."""
    law = laws.get(name)
    seen = jl.read_runs(runs).observations(law)
    return build_problem(law, seen.inputs, seen.target, seen.weight, FitOptions(), linear)


class Case(NamedTuple):
    """A law on its runs, in plain coordinates: logarithms of coefficients, log N and D centred."""

    law: Any
    problem: Any
    numpy_of: Callable[[Any], Any]
    low: np.ndarray
    high: np.ndarray

    def coordinates(self, natural: np.ndarray) -> np.ndarray:
        return np.clip(self.problem.coordinates_of_starts(natural), self.low, self.high)


def case_of(name: str, runs: Any, numpy_of: Callable[[Any], Any]) -> Case:
    plain = fit_problem(name, runs, linear=False)
    plain = dataclasses.replace(plain, model=plain.model._replace(chart=False))
    specs = plain.model.law.parameters
    low = np.array([s.low if s.scale == "linear" else -20.0 for s in specs])
    high = np.array([s.high if s.scale == "linear" else 20.0 for s in specs])
    low = np.where([s.name == "eps" for s in specs], 1e-4, low)
    return Case(plain.model.law, plain, numpy_of, low, high)


def scipy_loop(case, function, first, repeats=1):
    """L-BFGS-B from every start, tolerances at the floor of float64."""
    bounds = list(zip(case.low, case.high, strict=True))
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


def every_start(problem, first, repeats):
    """Every start to the end, in chunks over all cores, as by fit()."""
    batch = search.Batch(problem.model, problem.data)

    def once():
        begun = time.perf_counter()
        search._solve(NEWTON, batch, first[None], Work(progress=False))
        return time.perf_counter() - begun

    cold = once()
    run_s = statistics.median(once() for _ in range(repeats))
    lanes = engine.solve(NEWTON, problem.model, problem.data, first)  # where each of them ends
    return lanes.value[0], run_s, cold - run_s, float(lanes.iterations.mean())


def default_fit(law, runs, repeats):
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


def measure(name, runs, natural, terms, numpy_of, sample, repeats):
    case, moved = case_of(name, runs, numpy_of), fit_problem(name, runs)
    picked = case.coordinates(natural)[np.random.default_rng(0).permutation(len(natural))[:sample]]
    jitted = jax.jit(lambda u: value_and_gradient(case.problem.model, case.problem.data, u))

    def by_jax(u):
        value, gradient = jitted(u)
        return float(value), np.asarray(gradient)

    by_jax(picked[0])
    rows = []
    for label, function in (("numpy", numpy_of(case.problem)), ("jitted", by_jax)):
        values, run_s, calls = scipy_loop(case, function, picked, repeats)
        rows.append([f"scipy L-BFGS-B, {label} gradient", sample, 0.0, run_s, values, calls])
    first = moved.coordinates_of_starts(natural)
    values, run_s, compile_s, calls = every_start(moved, first, repeats)
    rows.append(["jaxlaw, every start", len(first), compile_s, run_s, values, calls])
    fit, run_s, compile_s = default_fit(name, runs, repeats)

    best = min(*(v.min() for *_, v, _ in rows), fit.objective / DELTA)
    per_start = rows[0][3] / rows[0][1] * 1e3
    floor = floor_us(terms, len(runs))
    print(f"\n## {name}: {len(runs)} points, {len(natural)} starts")
    print(f"\nFloor of one evaluation (exponentials and logarithms alone): {floor:.2f} µs.\n")
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
    found = "found" if fit.objective <= best * DELTA * (1 + AGREE) else "MISSED"
    print(f"| jaxlaw, default fit | {fit.n_starts} | {compile_s:.1f} | {run_s:.2f} | | | | "
          f"| optimum {found} | {fit.objective:.10g} "
          f"| {whole / run_s:.0f}, of scipy from all starts |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small samples")
    quick = parser.parse_args().quick
    repeats = 1 if quick else 3
    runs, kind = chinchilla_runs()
    print(f"chinchilla data: {kind}; {os.cpu_count()} CPU cores, {jax.default_backend()}")
    with jax.enable_x64(True):
        means = {k: float(np.exp(np.log(runs[k]).mean())) for k in ("N", "D")}
        grid = starts.grid_of(laws.get("chinchilla"), means)
        measure("chinchilla", runs, grid[:: 50 if quick else 1], 2, numpy_chinchilla,
                20 if quick else 300, repeats)  # fmt: skip
        table = simulate.experiment("dcpt").table
        sample = starts.sobol(laws.get("dcpt"), 64 if quick else 2000, 0)
        measure("dcpt", table, sample, 3, numpy_dcpt, 10 if quick else 60, repeats)


if __name__ == "__main__":
    main()
