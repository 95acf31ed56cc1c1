"""Which evaluations to keep, and which runs to do next: what the errors come to.

    python benchmarks/sampling.py [methods] [runs]

``methods``: table 13 of Que 2024 on simulated data of its design: one size (1.8 B), nine ratios,
200,000 steps with an evaluation every 1,000, noise 0.4 %, the D-CPT law with A and α held (one
size does not tell them). R² and mean Huber (δ 1e-3, log) on the points a method leaves out, and the
root mean square error of log loss against the noiseless law, on all 200 points and at twice the
steps; medians over 24 experiments.

``runs``: eight more runs for a chinchilla fit of 81 small ones, chosen in several ways among 75
candidates, three times in each list, of at most 1e22 FLOPs; the standard deviation of the log loss
at N 70 B, D 1.4 T that the choice predicts, and that of 200 simulated experiments fitted again.
"""

import sys

import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw import design, laws, simulate
from jaxlaw.fitting import metrics
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.fitting._options import FitOptions

NOISE, SEEDS, STEPS = 0.004, 24, 200_000
FAR = {"N": 7e10, "D": 1.4e12}


def methods() -> None:
    plans = {"M1": design.evaluation_steps(200, STEPS, method="M1")}
    for budget in (40, 20, 10):
        for method in ("M2", "M3", "M4"):
            plans[f"{method} ({budget})"] = design.evaluation_steps(budget, STEPS, method=method)
    plans["M4 (λ 0.02)"] = design.evaluation_steps(200, STEPS, rate=0.02)
    print("| loss | method | points | R², left out | mean Huber | RMSE, all | RMSE at 2 × D |")
    print("|---|---|---|---|---|---|---|")
    for side, name in (("G", "dcpt-general"), ("D", "dcpt")):
        for method, line in of_side(name, plans).items():
            r2, huber, error, beyond = line
            print(
                f"| {side} | {method} | {len(plans[method].steps)} | {r2:.4f} | {huber:.2e} "
                f"| {error:.5f} | {beyond:.5f} |",
                flush=True,
            )


def of_side(name: str, plans: dict[str, jl.Answer]) -> dict[str, np.ndarray]:
    truth, per_step = simulate.TRUTHS[name], 64 * 2048e-9
    steps = np.arange(1000, STEPS + 1, 1000)
    ratios = np.array([0.0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0])
    at, r = (axis.ravel() for axis in np.meshgrid(steps, ratios, indexing="ij"))
    clean = simulate.simulate_runs("dcpt", truth, {"N": 1.8, "D": at * per_step, "r": r})
    normal = np.random.default_rng(0).standard_normal((SEEDS, len(clean)))
    losses = clean["loss"].to_numpy() * np.exp(NOISE * normal)
    kept = np.stack([np.isin(at, plan.steps["step"]) for plan in plans.values()])
    fixed = {name: truth[name] for name in ("A", "alpha")}
    free = [name for name in laws.get("dcpt").parameter_names if name not in fixed]
    refits = fit_many(
        laws.get("dcpt"), jl.read_runs(clean).observations("dcpt", free=free),
        np.repeat(kept, SEEDS, axis=0).astype(float), np.tile(losses, (len(plans), 1)),
        FitOptions(fixed=fixed, n_starts=512, n_local=8),
    )  # fmt: skip
    far = {"N": np.full(9, 1.8), "D": np.full(9, 2 * STEPS * per_step), "r": ratios}
    later = simulate.simulate_runs("dcpt", truth, far)["loss"].to_numpy()
    here = refits.predict(**{key: clean[key].to_numpy() for key in "NDr"})
    error = np.log(here / clean["loss"].to_numpy())
    beyond = np.log(refits.predict(**far) / later)
    lines = {}
    for k, method in enumerate(plans):
        seeds = slice(k * SEEDS, (k + 1) * SEEDS)
        left_out = 1.0 - kept[k] if not kept[k].all() else np.ones(len(clean))
        scores = [
            metrics(loss, guess, left_out, 1e-3)
            for loss, guess in zip(losses, here[seeds], strict=True)
        ]
        lines[method] = np.median(
            [
                [score["r2"], score["mean_huber"], np.sqrt(np.mean(e**2)), np.sqrt(np.mean(b**2))]
                for score, e, b in zip(scores, error[seeds], beyond[seeds], strict=True)
            ],
            axis=0,
        )
    return lines


def runs() -> None:
    every = simulate.experiment("chinchilla", NOISE).table
    small = every[6 * every["N"] * every["D"] < 4e19].reset_index(drop=True)
    fit = jl.fit("chinchilla", small)
    grid = [(N, D) for N in np.geomspace(3e8, 3e10, 9) for D in np.geomspace(2e9, 3e11, 9)]
    grid = pd.DataFrame(grid, columns=["N", "D"]).assign(flops=lambda t: 6 * t["N"] * t["D"])
    grid = grid[grid["flops"] <= 1e22].loc[lambda t: t.index.repeat(3)].reset_index(drop=True)
    most_expensive = grid.sort_values("flops", kind="stable").index[-8:]
    draw = np.random.default_rng(0).choice(len(grid), 8, replace=False)
    sets = {
        "c-optimal": design.next_runs(fit, small, grid, predict=FAR, n=8).table,
        "D-optimal": design.next_runs(fit, small, grid, criterion="D", n=8).table,
        "the most expensive eight": grid.loc[most_expensive],
        "eight at random": grid.loc[draw],
    }
    spent = sets["c-optimal"]["flops"].sum() / 4
    cheap = design.next_runs(fit, small, grid, predict=FAR, cost="flops", budget=spent, n=8)
    sets["c-optimal, a quarter of the cost"] = cheap.table
    print("| eight runs | FLOPs | predicted | simulated | RMSE of the prediction |")
    print("|---|---|---|---|---|")
    before, *_ = simulated(small, small.iloc[:0])
    now = design.next_runs(fit, small, grid, predict=FAR, n=1).before
    print(f"| none | 0 | {now:.5f} | {before[0]:.5f} | {before[1]:.5f} |", flush=True)
    for name, table in sets.items():
        only = design.next_runs(fit, small, table, predict=FAR, n=len(table))
        (sd, rmse), *_ = simulated(small, table)
        print(
            f"| {name} | {table['flops'].sum():.1e} | {only.after:.5f} | {sd:.5f} | {rmse:.5f} |",
            flush=True,
        )


def simulated(small: pd.DataFrame, more: pd.DataFrame) -> list[tuple[float, float]]:
    """Standard deviation and RMSE of the predicted log loss, 200 experiments."""
    law, truth = laws.get("chinchilla"), simulate.TRUTHS["chinchilla"]
    padded = pd.concat([more, small.iloc[: 8 - len(more)]]) if len(more) < 8 else more
    inputs = {key: np.concatenate([small[key], padded[key]]) for key in "ND"}
    weight = np.ones(len(small) + 8)
    weight[len(small) + len(more) :] = 0
    clean = simulate.simulate_runs(law, truth, inputs)
    normal = np.random.default_rng(5).standard_normal((200, len(clean)))
    refits = fit_many(
        law, jl.read_runs(clean).observations(law), np.tile(weight, (200, 1)),
        clean["loss"].to_numpy() * np.exp(NOISE * normal), FitOptions(n_starts=512, n_local=8),
    )  # fmt: skip
    far = {key: np.array([value]) for key, value in FAR.items()}
    error = np.log(refits.predict(**far)[:, 0] / simulate.simulate_runs(law, truth, far)["loss"][0])
    return [(float(error.std()), float(np.sqrt(np.mean(error**2))))]


if __name__ == "__main__":
    for table in sys.argv[1:] or ("methods", "runs"):
        {"methods": methods, "runs": runs}[table]()
        print()
