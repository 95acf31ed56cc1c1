"""Forecasts of what was held out: ``JAXLAW_DATA=… python -m benchmarks.forecast [PART …]``.

- ``sources``: of every public experiment of runs by size and tokens n runs are drawn from those up
  to 0.55 of the log of its compute; its largest runs (the upper eighth, at most 12) are forecast by
  the prior of all *other* sources. Means over experiments, and of interval scores geometric ones.
- ``slopes``: the misfit's scale and mean, learned with each source left out, by those forecasts.
- ``noisy``: eight runs at D = 20 N of a published law under noise, of ten times the compute.
- ``conflict``: a ladder whose floor falls with compute, with the prior and without.
- ``optima``: best sizes at isoFLOP budgets beyond the runs, each source left out of the prior.
- ``continual``: runs of two corpora in a mixture, forecast to twice their length.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

import jaxlaw as jl
from benchmarks.field import Runs, experiments, read
from jaxlaw.fitting import field_prior, predict_each
from jaxlaw.forecasting.posterior import (
    SLOPE_NU,
    SLOPE_OF_NOISE,
    SLOPE_SD,
    SLOPES,
)
from jaxlaw.uncertainty import Draws

COUNTS = (3, 6, 12, 24, 60, 0)  # 0 stands for all runs up to the cut, where they are more than 12
SEEDS = 2
OLMO = ("loss_c4_en", "loss_dolma_stack", "loss_ice")  # of eleven evaluations of the same runs
PUBLISHED = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}  # Hoffmann 2022
SKALING = jl.laws.get("skaling")
UNITS = {"N": 1, "D": 1}
SCALES, OF_NOISE, MEANS = (0.0015, 0.002, 0.0025), (0.7, 1.0, 1.4), (-0.002, -0.003)


class Case(NamedTuple):
    """Draws of a law without its misfit at m later runs, and what came."""

    runs: Runs
    count: int
    logs: np.ndarray  # (R, m)
    away: np.ndarray  # (2, m) e-folds of N and D from the largest run
    sigma: np.ndarray  # (R, 1)
    observed: np.ndarray  # (m,)
    found: Draws


def logs_of(found: Draws, at: dict[str, Any]) -> np.ndarray:
    """(R, m) logs of skaling, without its misfit."""
    params = {name: found.params[name] for name in SKALING.parameter_names}
    return np.log(predict_each(SKALING, params, at))


def sets() -> Iterator[Runs]:
    return (one for one in experiments() if one.source != "olmo" or one.name in OLMO)


def cases() -> Iterator[Case]:
    for runs in sets():
        table, prior = runs.table, field_prior(without=runs.source)
        c = np.log(6 * table.N * table.D)
        cut = c.min() + 0.55 * (c.max() - c.min())
        below, beyond = table[c <= cut], table[(c > cut) & (c >= max(c.quantile(0.875), cut))]
        beyond = beyond.sample(min(12, len(beyond)), random_state=0)
        for count in COUNTS:
            size = count or len(below)
            if len(below) < size or beyond.empty or (not count and size <= 12):
                continue
            for seed in range(SEEDS if count else 1):
                found = jl.posterior(
                    SKALING, below.sample(size, random_state=seed), prior=prior, units=UNITS
                )
                N, D = beyond.N.to_numpy(), beyond.D.to_numpy()
                yield Case(
                    runs, count, logs_of(found, {"N": N, "D": D}),
                    np.log(np.stack([N / found.params["top_N"][0], D / found.params["top_D"][0]])),
                    found.sigma[:, None], np.log(beyond.loss.to_numpy()), found,
                )  # fmt: skip


def predictive(case: Case, scale: float, of_noise: float, mean: float) -> np.ndarray:
    """(R, m) logs of new runs, under slopes of another scale and mean."""
    random, count = np.random.default_rng(0), (2, len(case.sigma), 1)
    scales = scale * np.exp(SLOPE_SD * random.standard_normal(count))
    slopes = mean + scales * random.standard_t(SLOPE_NU, count)
    slopes += of_noise * case.sigma * random.standard_t(SLOPE_NU, count[1:])
    plane = (slopes * case.away[:, None]).sum(axis=0) * np.clip(case.away.sum(axis=0), 0, 1)
    return case.logs + plane


def measures(logs: np.ndarray, sigma: np.ndarray, observed: np.ndarray) -> dict[str, float]:
    """Error, inside, half-width, log of the interval score and log density, of new runs."""
    density = stats.t.pdf((observed - logs) / sigma, 5) / sigma
    new = logs + sigma * np.random.default_rng(1).standard_t(5, logs.shape)
    low, middle, high = np.quantile(new, [0.05, 0.5, 0.95], axis=0)
    ends, truth = np.exp([low, high]), np.exp(observed)
    missed = np.maximum(ends[0] - truth, 0) + np.maximum(truth - ends[1], 0)
    return {
        "error %": 100 * float(np.median(np.abs(np.expm1(middle - observed)))),
        "inside 90 %": 100 * float(np.mean((low <= observed) & (observed <= high))),
        "half-width %": 100 * float(np.median(high - low) / 2),
        "score": float(np.log(np.mean((ends[1] - ends[0] + 20 * missed) / truth * 100))),
        "density": float(np.mean(np.log(density.mean(axis=0) + 1e-12))),
    }


def by_count(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, then over experiments; the score is its exponential: a geometric mean."""
    rows = rows.assign(n=rows.n.replace(0, 10**6))
    table = rows.groupby(["n", "set"]).mean(numeric_only=True).groupby("n").mean()
    table["score"] = np.exp(table["score"])
    return table.rename(index={10**6: "all"})


def sources(made: list[Case]) -> None:
    scale, mean = SLOPES["size"]
    rows = [
        {"n": case.count, "set": case.runs.name, "effective": case.found.effective,
         **measures(predictive(case, scale, SLOPE_OF_NOISE, mean), case.sigma, case.observed)}
        for case in made
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    print(f"\n{len(made)} forecasts, each source left out of the prior\n")
    print(by_count(table).drop(columns=["density", "effective"]).round(2).T.to_string())
    print(f"effective draws: least {table.effective.min():.0f}, under 400 in "
          f"{(table.effective < 400).mean():.0%}")  # fmt: skip
    print(table[table.n == 0].set_index("set").round(2).to_string())


def slopes(made: list[Case]) -> None:
    """Scale and mean of slopes by the log density of the other sources' forecasts."""
    grid = list(itertools.product(SCALES, OF_NOISE, MEANS))
    rows = pd.DataFrame([
        {"n": case.count, "set": case.runs.name, "source": case.runs.source, "choice": k,
         **measures(predictive(case, *choice), case.sigma, case.observed)}
        for case in made for k, choice in enumerate(grid)
    ])  # fmt: skip

    def best(given: pd.DataFrame) -> int:
        each = given.groupby(["choice", "n", "source"]).density.mean()
        return int(each.groupby(["choice", "n"]).mean().groupby("choice").mean().idxmax())

    left = []
    for source in rows.source.unique():
        choice = best(rows[rows.source != source])
        print(f"without {source}: scale, of noise, mean {grid[choice]}")
        left.append(rows[(rows.source == source) & (rows.choice == choice)])
    print(f"all: {grid[best(rows)]}; by what each source did not see:\n")
    print(by_count(pd.concat(left).drop(columns="choice")).round(2).T.to_string())


def noisy() -> None:
    N = np.geomspace(3e7, 3e9, 8)
    law, random = jl.laws.get("chinchilla"), np.random.default_rng(0)
    top = {"N": N[-1] * 10**0.5, "D": 20 * N[-1] * 10**0.5}
    for noise in (0.003, 0.02, 0.05):
        inside, widths = 0, []
        for _ in range(12):
            error = np.exp(noise * random.standard_normal(9))
            loss = np.asarray(law(PUBLISHED, N=N, D=20 * N)) * error[:8]
            row = jl.forecast({"N": N, "D": 20 * N, "loss": loss}, at=top).table.iloc[0]
            new = float(law(PUBLISHED, **top)) * error[8]
            inside += row["low"] <= new <= row["high"]
            widths.append((row["high"] - row["low"]) / 2 / row["estimate"])
        print(f"noise {noise:.1%}: {inside} of 12 inside 90 %, half-width {np.median(widths):.2%}")


def conflict() -> None:
    law, N = jl.laws.get("chinchilla"), np.geomspace(3e7, 1e9, 8)
    D = 20 * N

    def loss(N: Any, D: Any) -> Any:
        fall = 1.69 * (N * D / 1.8e16) ** -0.06
        return np.asarray(law(PUBLISHED | {"E": 0.0}, N=N, D=D)) + fall

    at = {"N": 3e10, "D": 6e11}
    truth = float(loss(**at))
    for prior in ("field", None):
        made = jl.forecast({"N": N, "D": D, "loss": loss(N, D)}, at=at, prior=prior)
        off = made.table[["estimate", "low", "high"]].iloc[0] / truth - 1
        print(f"prior {prior}: {off['estimate']:+.1%} [{off['low']:+.1%}, {off['high']:+.1%}], "
              f"p {made.draws().conflict:.2g}, {[note.code for note in made.notes]}")  # fmt: skip


def optimum(curve: pd.DataFrame) -> float:
    """Log of N at the least of a parabola through the losses within a factor 6 of the lowest."""
    x, y = np.log(curve.N.to_numpy()), np.log(curve.loss.to_numpy())
    k = int(y.argmin())
    near = np.abs(x - x[k]) < np.log(6)
    if x[k] in (x.min(), x.max()) or near.sum() < 4:
        return np.nan
    bend, slope, _ = np.polyfit(x[near], y[near], 2)
    return -slope / bend / 2 if bend > 0 else np.nan


def optima() -> None:
    table = read("isoflops")
    rows = []
    for runs in experiments():
        mine = table[(table.experiment == runs.name) & ~table.outlier.astype(bool)]
        if mine.empty:
            continue
        mine = pd.DataFrame({"N": mine.params, "D": mine.tokens, "loss": mine.loss,
                             "budget": mine.budget})  # fmt: skip
        c = 6 * mine.N * mine.D
        cut = c.min() * (c.max() / c.min()) ** 0.55
        prior = field_prior(without=runs.source)
        found = jl.posterior(SKALING, mine[c <= cut], prior=prior, units=UNITS)
        tilt = (found.params["slope_N"] - found.params["slope_D"])[:, None]
        for _, curve in mine.groupby("budget"):
            log_c, best = np.log((6 * curve.N * curve.D).median()), optimum(curve)
            if log_c < np.log(1.5 * cut) or not np.isfinite(best):
                continue
            grid = np.linspace(best - 4, best + 4, 801)
            at = {"N": np.exp(grid), "D": np.exp(log_c - grid) / 6}
            top = 6 * found.params["top_N"][0] * found.params["top_D"][0]
            gate = np.clip(log_c - np.log(top), 0, 1)
            drawn = grid[(logs_of(found, at) + gate * tilt * grid).argmin(axis=1)]
            ends = {level: np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
                    for level in (0.5, 0.9, 0.95)}  # fmt: skip
            rows.append({
                **{f"in {level:.0%}": a <= best <= b for level, (a, b) in ends.items()},
                "high/low": np.exp(np.diff(ends[0.95])[0]),
                "off": np.exp(abs(np.median(drawn) - best)),
            })  # fmt: skip
    made = pd.DataFrame(rows).astype(float)
    print(f"{len(made)} optima: " + ", ".join(
        [f"{name} {made[name].mean():.0%}" for name in made if name.startswith("in")]
        + [f"{name} {made[name].median():.2f}" for name in ("high/low", "off")]
    ))  # fmt: skip


def continual() -> None:
    columns = {"n_params": "N", "n_tokens": "D"}
    one, two = read("continual_70m"), read("mix2_github_pilecc")
    for name, table, ratio in (
        ("python", one[one.step > 0], "python_ratio"),
        ("PILE_WEIGHTED", one[one.step > 0], "pile_ratio"),
        ("Github", two, "github_ratio"),
        ("Pile-CC", two, "pilecc_ratio"),
    ):
        table = table[table.domain == name].rename(columns={**columns, ratio: "r"})
        table = table[["N", "D", "r", "loss"]].astype(float)
        before, later = (table[table.D <= 0.51 * table.D.max()], table[table.D == table.D.max()])
        made = jl.forecast(before, at=later[["N", "D", "r"]], laws="dcpt", units=UNITS).table
        loss = later.loss.to_numpy()
        inside = (made["low"] <= loss) & (loss <= made["high"])
        error = np.median(np.abs(made["estimate"] / loss - 1))
        half = np.median((made["high"] - made["low"]) / 2 / made["estimate"])
        print(f"{name}: {len(before)} rows, error {error:.2%}, inside 90 % {inside.sum()} of "
              f"{len(later)}, half-width {half:.2%}")  # fmt: skip


PARTS = {"noisy": noisy, "conflict": conflict, "optima": optima, "continual": continual}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("parts", nargs="*", default=["sources", "slopes", *PARTS])
    parts = arguments.parse_args().parts
    warnings.simplefilter("ignore")
    if {"sources", "slopes"} & {*parts}:
        made = list(cases())
        sources(made)
        if "slopes" in parts:
            slopes(made)
    for part in parts:
        if part in PARTS:
            print(f"\n{part}\n")
            PARTS[part]()


if __name__ == "__main__":
    main()
