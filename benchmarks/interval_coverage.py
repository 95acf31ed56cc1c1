"""How often 95 % intervals hold the truth: settings × seeds of simulated experiments.

    python benchmarks/interval_coverage.py [chinchilla] [dcpt] [curves] [small] [plans]
        [--seeds 200] [--resamples 200]

Every seed is an experiment of the paper's design with noise of its own. All resamples of all seeds
are one batch: 200 seeds × 200 resamples are 40,000 fits by one call. A share of 95 % over 200 seeds
has a standard error of 1.5 %. ``small`` are the designs of small budgets: ten rows, 30, isoFLOP
curves of 35, a grid of 144, and six runs of 20 checkpoints. ``plans`` are those designs by the
draws of a covariance, as plans take them, beside draws that are normal in the parameters, as those
of its file are.
"""

import argparse
import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.fitting._options import FitOptions
from jaxlaw.uncertainty import _bootstrap as bootstrapping
from jaxlaw.uncertainty._fit_problem import fit_with_data
from jaxlaw.uncertainty._groups import group_numbers
from jaxlaw.uncertainty._intervals import interval_of, percentile_interval

NOISE = 0.004
SILENT = FitOptions(progress=False)
#: Where the law is asked for: within the runs, and beyond them (units of the law).
POINTS = {
    "chinchilla": {"N": np.array([1e9, 1e11]), "D": np.array([2e10, 2e12])},
    "dcpt": {"N": np.array([1.8, 7.0]), "D": np.array([1.5, 10.0]), "r": np.array([0.4, 0.15])},
}


def curves_of(table):
    """The columns whose values name a curve."""
    return [name for name in ("N", "r") if name in table]


def isoflop():
    """Five budgets, seven sizes around 20 tokens a parameter in each."""
    budgets = np.geomspace(1e18, 1e21, 5).repeat(7)
    size = np.sqrt(budgets / 120) * np.tile(np.geomspace(0.2, 5, 7), 5)
    return {"N": size, "D": budgets / 6 / size}


def grid(sizes, lengths, largest=5e9):
    N, D = np.meshgrid(np.geomspace(5e7, largest, sizes), np.geomspace(1e9, 1e11, lengths))
    return {"N": N.T.ravel(), "D": D.T.ravel()}


def ten():
    """Five sizes at two lengths each, from 6 to 60 tokens a parameter."""
    size = np.geomspace(5e7, 5e9, 5).repeat(2)
    return {"N": size, "D": 20 * size * np.tile([0.3, 1, 3, 0.5, 2], 2)}


ROWS = ("sandwich", "case", "wild")
#: name → inputs, noise, ways.
SMALL = {
    "ten rows": (ten(), "normal", ROWS),
    "30 rows": (grid(5, 6), "normal", ROWS),
    "isoFLOP, 35 rows": (isoflop(), "normal", ROWS),
    "144 rows": (grid(12, 12, 1e10), "normal", ROWS),
    "six runs of 20 checkpoints": (
        grid(6, 20), "shared",
        ("sandwich", "sandwich grouped", "case", "case grouped", "wild grouped"),
    ),
}  # fmt: skip


def noisy(law, table, kind, seeds):
    """(seeds, n) targets: the law's own, times noise."""
    draw = np.random.default_rng(11)
    clean, shape = table["loss"].to_numpy(), (seeds, len(table))
    if kind == "normal":
        noise = draw.standard_normal(shape)
    elif kind == "heavy":  # Student's t of 3 degrees, scaled to the same standard deviation
        noise = draw.standard_t(3, shape) / np.sqrt(3)
    elif kind == "growing":  # three times as wide at the smallest size as at the largest
        rank = table["N"].rank(pct=True).to_numpy()
        noise = draw.standard_normal(shape) * (1.5 - rank)
    else:  # half of the variance is shared by the checkpoints of a curve
        _, curve = np.unique(table[curves_of(table)].to_numpy(), axis=0, return_inverse=True)
        shared = draw.standard_normal((seeds, curve.max() + 1))[:, curve.ravel()]
        noise = (draw.standard_normal(shape) + shared) / np.sqrt(2)
    return clean * np.exp(NOISE * noise)


def fits_of(name, table, targets, truth):
    """One fit of each seed's experiment, all by one call, as Fits."""
    first = jl.fit(name, table.assign(loss=targets[0]))
    seen = jl.read_runs(table).observations(name)
    start = np.array([list(truth.values())])
    refits = fit_many(first.law, seen, targets=targets, extra_starts=start,
                     options=dataclasses.replace(SILENT, n_starts=256, n_local=16))  # fmt: skip
    return [
        dataclasses.replace(
            first, objective=float(refits.objective[k]),
            params={key: float(values[k]) for key, values in refits.params.items()},
        )
        for k in range(len(targets))
    ]  # fmt: skip


def quantities(law, params):
    """Every parameter, and the predictions: name → (…)."""
    columns = {name: np.asarray(value)[..., None] for name, value in params.items()}
    with jax.enable_x64(True):
        predicted = np.asarray(law(columns, **POINTS[law.name]))
    return dict(params) | {"within": predicted[..., 0], "beyond": predicted[..., 1]}


def by_bootstrap(fits, table, targets, kind, groups, resamples, solved):
    """method → quantity → (seeds, 2) ends; ``solved`` starts each."""
    law = fits[0].law
    weights, others, degrees = [], [], []
    for k, fit in enumerate(fits):
        problem = fit_with_data(fit, table.assign(loss=targets[k]))
        seen = problem.observations
        members = np.arange(len(seen))
        if groups:
            members = group_numbers(problem.runs, seen, groups)
        weight, target = bootstrapping.resamples(problem, resamples, kind, members, k)
        degrees.append(bootstrapping.degrees_of(problem, kind, members))
        weights.append(np.ones((resamples, len(seen))) if weight is None else weight)
        others.append(np.tile(targets[k], (resamples, 1)) if target is None else target)
    begun = time.perf_counter()
    weights, others = np.concatenate(weights), np.concatenate(others)
    options = dataclasses.replace(SILENT, n_starts=32, n_local=solved)
    refits = fit_many(law, seen, weights, others, options,
                     extra_starts=np.array([list(fits[0].params.values())]))  # fmt: skip
    seconds = time.perf_counter() - begun
    draws = quantities(law, {k: v.reshape(len(fits), -1) for k, v in refits.params.items()})
    each = [quantities(law, {k: np.asarray(v) for k, v in fit.params.items()}) for fit in fits]
    bounds = {
        "percentile": {
            name: np.array([
                interval_of(each[k][name], draws[name][k], 0.95, degrees[k])[2:]
                for k in range(len(fits))
            ])
            for name in draws
        }
    }  # fmt: skip
    return bounds, seconds


def by_sandwich(fits, table, targets, groups):
    law, names, rows = fits[0].law, list(fits[0].params), []
    for k, fit in enumerate(fits):
        cov = jl.covariance(fit, table.assign(loss=targets[k]), groups=groups)
        inner = cov.conf_int()[["low", "high"]].to_numpy()
        predicted = cov.interval(lambda params: jnp.log(law(params, **POINTS[law.name])))
        outer = np.exp(np.stack([predicted.low, predicted.high], axis=1))
        rows.append(np.concatenate([inner, outer]))
    bounds = np.moveaxis(np.array(rows), 1, 0)
    return {"sandwich": dict(zip([*names, "within", "beyond"], bounds, strict=True))}


def plans(title, inputs, kind, seeds):
    """Loss and size of the best run of 1e23 FLOPs, and predictions, by draws of a covariance."""
    name, budget = "chinchilla", 1e23
    truth = dict(simulate.TRUTHS[name])
    table = simulate.simulate_runs(name, truth, inputs, noise=0.0)
    targets = noisy(name, table, kind, seeds)
    law = jl.laws.get(name)
    best = jl.planning.allocation((name, truth), budget)
    predicted = quantities(law, {k: np.asarray(v) for k, v in truth.items()})
    true = {key: float(predicted[key]) for key in ("within", "beyond")}
    true |= {"best loss": best.loss, "best size": best.N}
    held = {way: {key: [] for key in true} for way in ("normal", "draws")}
    width = {way: {key: [] for key in true} for way in held}
    for k, fit in enumerate(fits_of(name, table, targets, truth)):
        groups = curves_of(table) if kind == "shared" else None
        covariance = jl.covariance(fit, table.assign(loss=targets[k]), groups=groups)
        ways = {"normal": dataclasses.replace(covariance, problem=None), "draws": covariance}
        for way, source in ways.items():
            draws = source.draws()
            drawn = quantities(law, draws.params)
            plan = jl.planning.allocation(draws, budget)
            ends = {key: percentile_interval(drawn[key], 0.95, draws.degrees)
                    for key in ("within", "beyond")}  # fmt: skip
            ends |= {"best loss": plan.interval["loss"], "best size": plan.interval["N"]}
            for key, (low, high) in ends.items():
                held[way][key].append(low <= true[key] <= high)
                width[way][key].append(np.log(high / low) / 2)
    for way in held:
        cells = " | ".join(
            f"{np.mean(held[way][key]):.0%}, ±{np.expm1(np.median(width[way][key])):.1%}"
            for key in true
        )
        print(f"| {title} | {way} | {cells} |", flush=True)


def report(head, ends, truth, seconds):
    for method, quantity in ends.items():
        shares = [
            np.mean((low <= truth[name]) & (truth[name] <= high))
            for name, (low, high) in ((name, values.T) for name, values in quantity.items())
        ]
        inside = np.mean([0.92 <= share <= 0.98 for share in shares])
        cells = " | ".join(f"{share:.1%}" for share in shares)
        print(f"| {head} | {method} | {cells} | {inside:.0%} | {seconds:.0f} |", flush=True)


def setting(name, kind, ways, seeds, resamples, solved, inputs=None, title=None):
    truth = dict(simulate.TRUTHS[name])
    table = simulate.experiment(name, noise=0.0).table
    if inputs is not None:
        table = simulate.simulate_runs(name, truth, inputs, noise=0.0)
    targets = noisy(name, table, kind, seeds)
    fits = fits_of(name, table, targets, truth)
    true = quantities(fits[0].law, {k: np.asarray(v) for k, v in truth.items()})
    print(f"\n### {title or name}, {kind} noise, {len(table)} points, {seeds} seeds, "
          f"{resamples} resamples\n")  # fmt: skip
    print(f"| way | interval | {' | '.join(true)} | in 92–98 % | s |")
    print("|---|---|" + "---|" * (len(true) + 2))
    for way in ways:
        groups = curves_of(table) if way.endswith("grouped") else None
        begun = time.perf_counter()
        if way.startswith("sandwich"):
            bounds = by_sandwich(fits, table, targets, groups)
            seconds = time.perf_counter() - begun
        else:
            bounds, seconds = by_bootstrap(
                fits, table, targets, way.split()[0], groups, resamples, solved
            )
        report(way, bounds, true, seconds)


SETTINGS = {
    "chinchilla": [
        ("chinchilla", "normal", ("sandwich", "case", "wild"), 2),
        ("chinchilla", "heavy", ("sandwich", "case", "wild"), 2),
        ("chinchilla", "growing", ("sandwich", "case", "wild"), 2),
    ],
    "dcpt": [
        ("dcpt", "normal", ("sandwich", "case", "wild"), 4),
        ("dcpt", "heavy", ("sandwich", "case", "wild"), 4),
    ],
    "curves": [
        ("dcpt", "shared", ("sandwich", "sandwich grouped", "case", "case grouped",
                            "wild grouped"), 4),
    ],
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("which", nargs="*", default=[*SETTINGS, "small"])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=200)
    arguments = parser.parse_args()
    for title, (inputs, kind, ways) in SMALL.items() if "small" in arguments.which else ():
        setting("chinchilla", kind, ways, arguments.seeds, arguments.resamples, 2, inputs, title)
    if "plans" in arguments.which:
        print(
            "| design | by | within | beyond | best loss | best size |\n|---|---|---|---|---|---|"
        )
        for title, (inputs, kind, _) in SMALL.items():
            plans(title, inputs, kind, arguments.seeds)
    for which in arguments.which:
        if which in ("small", "plans"):
            continue
        for name, kind, ways, solved in SETTINGS[which]:
            setting(name, kind, ways, arguments.seeds, arguments.resamples, solved)


if __name__ == "__main__":
    main()
