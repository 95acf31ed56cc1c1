"""Beside peers in one run: a default fit, 4,500 starts, 1,000 resamples, 36 folds.

    JAXLAW_DATA=… python benchmarks/peers.py            # some six CPU minutes
    python benchmarks/peers.py --quick                  # small samples, to see that it runs
    python benchmarks/peers.py vpnls chinchilla dcpt resamples folds   # any of these
    python benchmarks/peers.py gpu                      # on an accelerator, some minutes

Peers are never dependencies: who is not installed is named and left out. ``optimistix`` and
``NLSQ`` (Python 3.12 or later) come from the package index, ``vpnls`` from its repository,
Open-Athena/vpnls. scipy, the baseline, is L-BFGS-B in a loop, with a hand-written numpy gradient
and one BLAS thread.

Every method minimises the summed Huber of log residuals (δ 0.001) over the same rows from the same
starts, at the tightest tolerance at which it converges; vpnls, whose objective is the Huber of
plain residuals, has a table of its own, where jaxlaw minimises that. An optimum counts as the best
within 1e-8, relative, of the lowest that any method reached. CPU seconds of all threads, compiling
left out, medians of repeats by turns; peers are timed on samples, and their time for all of the
work is by what one start takes. ``gpu`` has the methods under ``jax.vmap`` beside jaxlaw on the
default device, from 64 to 100,000 starts and resamples, in seconds on the wall.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # scipy's L-BFGS-B is lost otherwise

import argparse
import importlib
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from multistart import (
    AGREE,
    DELTA,
    NEWTON,
    Case,
    case_of,
    chinchilla_runs,
    fit_problem,
    numpy_chinchilla,
    numpy_dcpt,
    scipy_loop,
)
from scale import held_out_pairs

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.fitting import _engine as engine, _starts as starts
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.fitting._multistart import OWN_STARTS, Batch, _solve
from jaxlaw.fitting._objective import predict, scaled_value, value_and_gradient
from jaxlaw.fitting._options import FitOptions
from jaxlaw.validation._cross_validate import _OWN_STARTS as OWN_STARTS_OF_A_FOLD

SILENT = FitOptions(progress=False)


def installed(name: str) -> Any:
    """A peer, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def resampled(case: Case, weight: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs and target of the rows, each as often as it counts."""
    rows, data = np.repeat(np.arange(len(weight)), weight.astype(int)), case.problem.unpadded
    return {name: values[rows] for name, values in data.inputs.items()}, data.target[rows]


# ---------------------------------------------------------------- the methods
# Each takes a case, weights (L, n) and first coordinates (L, p) of L lanes, and returns a function
# that solves them all and returns the objectives (L,) that they end at, divided by δ.


def by_scipy(case: Case, weights: np.ndarray, first: np.ndarray) -> Callable[[], np.ndarray]:
    functions = []
    for k, weight in enumerate(weights):
        if k and (weight == weights[k - 1]).all():
            functions.append(functions[-1])
            continue
        inputs, target = resampled(case, weight)
        part = SimpleNamespace(inputs=inputs, target=target, centre=case.problem.data.centre)
        functions.append(case.numpy_of(SimpleNamespace(unpadded=part)))

    def solve() -> np.ndarray:
        lanes = zip(functions, first, strict=True)
        return np.concatenate([scipy_loop(case, one, [at]) for one, at in lanes])

    return solve


def vmapped(case: Case, weights: np.ndarray, first: np.ndarray, run: Any) -> Callable[[], Any]:
    """``run(objective, objective with its gradient, start)`` under vmap, for all lanes."""
    model = case.problem.model
    data = jax.tree.map(jnp.asarray, case.problem.unpadded)  # without the rows that jaxlaw pads

    def lane(weight: Any, start: Any) -> Any:
        own = data._replace(weight=weight)
        at = run(
            lambda u: scaled_value(model, own, u),
            lambda u: value_and_gradient(model, own, u),
            start,
        )
        return scaled_value(model, own, at)

    program = jax.jit(jax.vmap(lane))
    weights, first = jnp.asarray(weights), jnp.asarray(first)
    return lambda: np.asarray(program(weights, first))


def by_jaxopt(case: Case, weights: np.ndarray, first: np.ndarray) -> Callable[[], np.ndarray]:
    jaxopt = installed("jaxopt")

    def run(_: Any, with_gradient: Any, start: Any) -> Any:
        method = jaxopt.LBFGS(
            with_gradient, value_and_grad=True, tol=1e-9, maxiter=500, implicit_diff=False
        )
        return method.run(start)[0]

    return vmapped(case, weights, first, run)


def by_optimistix(case: Case, weights: np.ndarray, first: np.ndarray) -> Callable[[], np.ndarray]:
    optimistix = installed("optimistix")

    def run(objective: Any, _: Any, start: Any) -> Any:
        solver = optimistix.BFGS(rtol=1e-9, atol=1e-9)
        return optimistix.minimise(
            lambda u, _: objective(u), solver, start, max_steps=500, throw=False
        ).value

    return vmapped(case, weights, first, run)


def by_nlsq(case: Case, weights: np.ndarray, first: np.ndarray) -> Callable[[], np.ndarray]:
    """A loop of its trust-region method with its own Huber loss, of log residuals."""
    logging.disable(logging.WARNING)
    fitter, problem, data = installed("nlsq").CurveFit(), case.problem, case.problem.unpadded
    names, given = list(data.inputs), [resampled(case, weight) for weight in weights]
    data = jax.tree.map(jnp.asarray, data)
    value = jax.jit(lambda u, w: scaled_value(problem.model, data._replace(weight=w), u))

    def formula(x: Any, *u: Any) -> Any:
        seen = data._replace(inputs=dict(zip(names, x, strict=True)))
        return jnp.log(predict(problem.model, seen, jnp.stack(u)))

    def at_end_of(weight: np.ndarray, start: np.ndarray, rows: Any) -> float:
        inputs, target = rows
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                at, _ = fitter.curve_fit(
                    formula, np.stack([inputs[name] for name in names]), target, p0=start,
                    method="trf", loss="huber", f_scale=DELTA, bounds=(case.low, case.high),
                    ftol=1e-12, xtol=1e-12, gtol=1e-12, max_nfev=1000,
                )  # fmt: skip
        except (RuntimeError, ValueError):  # of a search that did not converge
            return np.inf
        return float(value(jnp.asarray(at), jnp.asarray(weight)))

    return lambda: np.array(list(map(at_end_of, weights, first, given)))


#: Name, the package that it needs, and the method.
METHODS = (
    ("scipy L-BFGS-B, loop", "scipy", by_scipy),
    ("optimistix BFGS, `jax.vmap`", "optimistix", by_optimistix),
    ("jaxopt L-BFGS, `jax.vmap`", "jaxopt", by_jaxopt),
    ("NLSQ, loop", "nlsq", by_nlsq),
)

# ---------------------------------------------------------------- one task


class Timed(NamedTuple):
    """Of a method: seconds of all the work, and the share that is at the best optimum.

    CPU seconds of all threads; on an accelerator, where the CPU waits, those on the wall.
    """

    name: str
    sample: str
    each_ms: float
    whole: float
    share: float
    solved: float  # problems, or starts of one, that end at the best optimum in a second


def seconds_of(call: Callable[[], Any]) -> tuple[Any, float]:
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    begun = clock()
    result = call()
    return result, clock() - begun


def by_turns(calls: list[Callable[[], Any]], repeats: int) -> list[tuple[Any, float]]:
    """The last result of each call, and the median of its seconds; first calls compile."""
    for call in calls:
        call()
    turns = [[seconds_of(call) for call in calls] for _ in range(repeats)]
    return [
        (each[-1][0], statistics.median(seconds for _, seconds in each))
        for each in zip(*turns, strict=True)
    ]


def task(
    case: Case, weights: np.ndarray, first: np.ndarray, samples: dict[str, int],
    own: dict[str, Callable[[], np.ndarray]], repeats: int,
) -> list[Timed]:  # fmt: skip
    """Peers on samples of the problems beside jaxlaw on all of them.

    Args:
        weights: (P, n) of the problems.
        first: (P, S, p) starts of each.
        samples: package of a peer → how many problems it solves.
        own: name → a call of jaxlaw, which returns objectives (P,) or, of starts that are counted
            one by one, (P, S).
    """
    count, each = first.shape[:2]
    chosen = np.random.default_rng(0).permutation(count)
    asked = [one for one in METHODS if samples.get(one[1])]
    present = [one for one in asked if installed(one[1]) is not None]
    for name, package, _ in asked:
        if installed(package) is None:
            print(f"{name}: {package} is not installed, and left out.")
    calls, sizes = [], []
    for _, package, make in present:
        some = chosen[: samples[package]]
        lanes = np.repeat(weights[some], each, axis=0), first[some].reshape(-1, first.shape[-1])
        calls.append(make(case, *lanes))
        sizes.append(len(some))
    timed = by_turns([*calls, *own.values()], repeats)
    theirs = [
        values.reshape(size, each).min(1)
        for (values, _), size in zip(timed[: len(calls)], sizes, strict=True)
    ]
    best = np.full(count, np.inf)
    for values, size in zip(theirs, sizes, strict=True):
        best[chosen[:size]] = np.minimum(best[chosen[:size]], values)
    for values, _ in timed[len(calls) :]:
        best = np.minimum(best, np.broadcast_to(values, best.shape))
    if each == 1:  # starts of one problem: one best optimum
        best = np.full(count, best.min())
    rows = []
    for (name, *_), size, values, (_, seconds) in zip(
        present, sizes, theirs, timed[: len(calls)], strict=True
    ):
        at_best = np.mean(values <= best[chosen[:size]] * (1 + AGREE))
        rows.append(Timed(name, f"{size} of {count}", seconds / size / each * 1e3,
                          seconds / size * count, at_best, at_best * size / seconds))  # fmt: skip
    for name, (values, seconds) in zip(own, timed[len(calls) :], strict=True):
        at_best = np.mean(values <= best[: np.size(values)] * (1 + AGREE))
        each_ms = seconds / count / each * 1e3 if np.size(values) > 1 else np.nan
        solved = at_best * np.size(values) / seconds
        rows.append(Timed(f"jaxlaw, {name}", "all", each_ms, seconds, at_best, solved))
    return rows


def print_table(title: str, rows: list[Timed]) -> None:
    print(f"\n## {title}\n\n| method | timed | ms a start | all of it, s | at the best optimum "
          f"| at the best a second | against {rows[0].name.split(',')[0]} "
          "|\n|---|---|---|---|---|---|---|")  # fmt: skip
    for row in rows:
        each = "" if np.isnan(row.each_ms) else f"{row.each_ms:.3g}"
        print(f"| {row.name} | {row.sample} | {each} | {row.whole:.3g} | {row.share:.0%} "
              f"| {row.solved:.3g} | {rows[0].whole / row.whole:.3g} |", flush=True)  # fmt: skip


# ---------------------------------------------------------------- the tasks


def all_starts(
    name: str, runs: Any, case: Case, natural: np.ndarray, quick: bool, samples: Any = None
) -> list[Timed]:
    """Every start to its end, and beside it the default fit."""
    moved = fit_problem(name, runs)
    first, batch = moved.coordinates_of_starts(natural), Batch(moved.model, moved.data)

    def every_start() -> np.ndarray:
        lanes = engine.solve(NEWTON, moved.model, moved.data, first)
        return lanes.value[0]

    def in_chunks() -> np.ndarray:
        _solve(NEWTON, batch, first[None], Work(progress=False))
        return ends

    def default() -> np.ndarray:
        return np.array([jl.fit(name, runs, progress=False).objective / DELTA])

    ends = every_start()
    weights = np.ones((len(natural), len(runs)))
    few = (40, 16, 4, 4) if name == "dcpt" else (100, 64, 16, 4)
    samples = samples or dict(zip(("scipy", "optimistix", "jaxopt", "nlsq"), few, strict=True))
    samples = dict.fromkeys(samples, 2) if quick else samples
    own = {"every start": in_chunks, "default fit": default}
    plain = case.coordinates(natural)[:, None]
    return task(case, weights, plain, samples, own, 1 if quick else 3)


def problems(case: Case, runs: Any, weights: np.ndarray, own_starts: int, options: FitOptions,
             quick: bool, samples: Any = None) -> list[Timed]:  # fmt: skip
    """Each problem from the optimum of all rows and a few starts of its own."""
    fit, seen = jl.fit(case.law, runs, progress=False), jl.read_runs(runs).observations(case.law)
    at_optimum = np.clip(case.problem.coordinates(fit.params), case.low, case.high)
    own = case.coordinates(starts.sobol(case.law, own_starts, 0))
    first = np.broadcast_to(
        np.concatenate([at_optimum[None], own]), (len(weights), own_starts + 1, own.shape[1])
    )

    def refitted() -> np.ndarray:
        found = fit_many(case.law, seen, weights, options=options, n_own_starts=own_starts)
        return found.objective / DELTA

    few = (4, 2, 1, 1) if case.law.name == "dcpt" else (16, 16, 4, 2)
    samples = samples or dict(zip(("scipy", "optimistix", "jaxopt", "nlsq"), few, strict=True))
    samples = dict.fromkeys(samples, 1) if quick else samples
    return task(case, weights, first, samples, {"all": refitted}, 1 if quick else 3)


def chinchilla_starts(quick: bool) -> None:
    runs, kind = chinchilla_runs()
    case = case_of("chinchilla", runs, numpy_chinchilla)
    means = {k: float(np.exp(np.log(runs[k]).mean())) for k in ("N", "D")}
    grid = starts.grid_of(case.law, means)[:: 500 if quick else 1]
    rows = all_starts("chinchilla", runs, case, grid, quick)
    print_table(f"chinchilla, {len(runs)} {kind} runs, {len(grid)} starts", rows)


def dcpt_starts(quick: bool) -> None:
    runs = simulate.experiment("dcpt").table
    case = case_of("dcpt", runs, numpy_dcpt)
    sample = starts.sobol(case.law, 8 if quick else 2000, 0)
    rows = all_starts("dcpt", runs, case, sample, quick)
    print_table(f"dcpt, {len(runs)} simulated runs, {len(sample)} starts", rows)


def resamples(quick: bool, count: int = 1000, samples: Any = None) -> None:
    runs, kind = chinchilla_runs()
    case, n = case_of("chinchilla", runs, numpy_chinchilla), len(runs)
    draw = np.random.default_rng(0)
    weights = draw.multinomial(n, np.full(n, 1 / n), size=3 if quick else count).astype(float)
    options = FitOptions(n_starts=64, n_local=8, progress=False)  # those of a bootstrap
    rows = problems(case, runs, weights, OWN_STARTS, options, quick, samples)
    title = f"chinchilla, {n} {kind} runs, {len(weights)} resamples, {1 + OWN_STARTS} starts each"
    print_table(title, rows)


def folds(quick: bool) -> None:
    runs = simulate.experiment("dcpt").table
    case = case_of("dcpt", runs, numpy_dcpt)
    weights = held_out_pairs(runs)[: 2 if quick else None]
    rows = problems(case, runs, weights, OWN_STARTS_OF_A_FOLD, SILENT, quick)
    print_table(f"dcpt, {len(runs)} simulated runs, {len(weights)} folds, "
                f"{1 + OWN_STARTS_OF_A_FOLD} starts each", rows)  # fmt: skip


def on_accelerator(quick: bool) -> None:
    """The methods that a GPU can run, on all of the work; jaxopt on at most 4,096 starts of it."""
    cases = {"chinchilla": (chinchilla_runs()[0], numpy_chinchilla),
             "dcpt": (simulate.experiment("dcpt").table, numpy_dcpt)}  # fmt: skip
    for name, (runs, function) in cases.items():
        case = case_of(name, runs, function)
        for count in (64,) if quick else (64, 4096, 2**15, 100_000):
            natural = starts.sobol(case.law, count, 0)
            samples = {"optimistix": count, "jaxopt": min(count, 4096)}
            rows = all_starts(name, runs, case, natural, quick, samples)
            print_table(f"{name}, {len(runs)} runs, {count} starts", rows)
    for count in (4_000, 100_000):
        resamples(quick, count, {"optimistix": count, "jaxopt": min(count, 1000)})


def plain_residuals(quick: bool) -> None:
    """vpnls and jaxlaw, each by its own search, on the objectives that vpnls has."""
    if installed("vpnls") is None:
        print("vpnls is not installed, and left out.")
        return
    vpnls = importlib.import_module("vpnls.api")
    runs, kind = chinchilla_runs()
    N, D, L = (np.array(runs[name], float) for name in ("N", "D", "loss"))
    print(f"\n## chinchilla, {len(runs)} {kind} runs, residuals as they are\n\n| objective "
          "| method | CPU ms | objective reached | α | β | against jaxlaw |"
          "\n|---|---|---|---|---|---|---|")  # fmt: skip
    for label, delta, loss in (("Huber, δ 0.001", DELTA, vpnls.huber(DELTA)),
                               ("least squares", np.inf, None)):  # fmt: skip

        def jaxlaw(delta=delta) -> dict[str, float]:
            return jl.fit(
                "chinchilla", runs, delta=delta, residuals="linear", progress=False
            ).params

        def theirs(method: str, loss=loss) -> dict[str, float]:
            found = vpnls.fit_vpnls(N / 1e6, D / 1e9, L, method=method, loss=loss)
            a, b = found.alpha, found.beta
            return {
                "E": found.E,
                "A": found.A * 1e6**a,
                "B": found.B * 1e9**b,
                "alpha": a,
                "beta": b,
            }

        calls = {"jaxlaw, default fit": jaxlaw,
                 "vpnls, `grid`, exponents of two digits": lambda: theirs("grid"),
                 "vpnls, `scipy`, from that grid": lambda: theirs("scipy")}  # fmt: skip
        timed = by_turns(list(calls.values()), 1 if quick else 5)
        for name, (p, seconds) in zip(calls, timed, strict=True):
            off = L - (p["E"] + p["A"] * N ** -p["alpha"] + p["B"] * D ** -p["beta"])
            within = np.clip(off, -delta, delta)
            value = np.sum(within * (off - within / 2))
            print(f"| {label} | {name} | {seconds * 1e3:.0f} | {value:.8g} | {p['alpha']:.4f} "
                  f"| {p['beta']:.4f} | {timed[0][1] / seconds:.2g} |", flush=True)  # fmt: skip


TASKS = {
    "vpnls": plain_residuals,
    "chinchilla": chinchilla_starts,
    "dcpt": dcpt_starts,
    "resamples": resamples,
    "folds": folds,
    "gpu": on_accelerator,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--quick", action="store_true", help="small samples")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} CPU cores, {jax.default_backend()}, jax {jax.__version__}")
    with jax.enable_x64(True):
        for name in asked.tasks or [name for name in TASKS if name != "gpu"]:
            TASKS[name](asked.quick)


if __name__ == "__main__":
    main()
