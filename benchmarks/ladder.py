"""Ladders of bases: forecasts of larger bases and budgets, and how often the notes are right.

    JAXLAW_DATA=… python benchmarks/ladder.py [real] [notes]   # twenty CPU minutes

``real`` fits the bases of a public ladder (midtraining_ladder.csv: nine bases, three continual
budgets, loss on mathematics) up to each cutoff, and forecasts the next base and the largest one;
and from two budgets the third. Beside ``jl.compare_resources`` stand two laws without a prior: at
each budget a power law of the base's compute with a floor, by scipy's least squares of log losses;
and E + A/C^a + B/D_cpt^b, by ``jl.fit``. ``notes`` counts the notes on simulated ladders, clean
ones and spoilt ones.
"""

import itertools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import jaxlaw as jl

NOISES = (0.001, 0.003, 0.005, 0.01)
SEEDS = 7  # of each design and noise
#: Continual tokens of the runs of each base; a fraction is one of the base's own tokens.
BUDGETS = {"one budget": [1e9], "two budgets": [1e9, 4e9], "three budgets": [5e8, 1e9, 4e9],
           "a fixed fraction": [0.05]}  # fmt: skip


def tool(fitted: pd.DataFrame, later: pd.DataFrame) -> np.ndarray:
    """(3, m) forecast, low and high."""
    found = jl.compare_resources(fitted, later).forecast
    return found[["loss", "loss_low", "loss_high"]].to_numpy().T


def power_laws(fitted: pd.DataFrame, later: pd.DataFrame) -> np.ndarray:
    """(1, m) by a law of each budget; NaN where a budget was not fitted."""
    found = pd.Series(np.nan, later.index)

    def law(p: np.ndarray, table: pd.DataFrame) -> np.ndarray:
        return np.logaddexp(p[0], p[1] - p[2] * np.log(table["base_compute"] / 1e20))

    for budget, runs in fitted.groupby("D_cpt"):
        y, own = np.log(runs["loss"]), later[later["D_cpt"] == budget]
        fits = [
            least_squares(lambda p, x=runs, y=y: law(p, x) - y, (y.min() + a, y.min() + b, gamma))
            for a, b, gamma in itertools.product((-3, -0.7, -0.1), (-2, -0.7, 0), (0.05, 0.15, 0.4))
        ]
        found[own.index] = np.exp(law(min(fits, key=lambda fit: fit.cost).x, own))
    return found.to_numpy()[None]


def additive(fitted: pd.DataFrame, later: pd.DataFrame) -> np.ndarray:
    """(1, m) by one law of all budgets."""
    fit = jl.fit(jl.laws.continual(family="additive"), fitted, columns={"C": "base_compute"})
    return fit.predict(C=later["base_compute"], D_cpt=later["D_cpt"])[None]


WAYS = {"compare_resources": tool, "power law and floor, each budget": power_laws,
        "E + A/C^a + B/D_cpt^b": additive}  # fmt: skip


def show(title: str, fitted: pd.DataFrame, later: pd.DataFrame) -> None:
    """Print a row for each way: errors of the forecasts, and what the intervals hold."""
    observed = later["loss"].to_numpy()
    for way, forecast in WAYS.items():
        loss, *ends = forecast(fitted, later)
        off, cells = np.abs(loss / observed - 1), ["", ""]
        if ends:
            inside = (ends[0] <= observed) & (observed <= ends[1])
            half = ((ends[1] - ends[0]) / loss / 2).mean()
            cells = [f"{inside.sum()} of {len(later)}", f"±{half:.1%}"]
        if np.isfinite(loss).all():
            print(f"| {title} | {way} | {off.mean():.2%} | {off.max():.2%} | {' | '.join(cells)} |")


def real() -> None:
    runs = pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / "midtraining_ladder.csv")
    compute, budget = runs["base_compute"], runs["D_cpt"]
    levels = np.unique(compute)
    print("| fitted → forecast | by | mean error | largest | inside 90 % | half-width |")
    print("|---|---|---|---|---|---|")
    for k in range(4, len(levels)):
        for beyond in dict.fromkeys([levels[k], levels[-1]]):
            title = f"≤ {levels[k - 1]:.0e} → {beyond:.0e}"
            show(title, runs[compute < levels[k]], runs[compute == beyond])
    show("0.5 and 1 B → 4 B tokens", runs[budget < 4e9], runs[budget == 4e9])


#: Ranges of the truths: E, A/E at 1e20 FLOPs, and the other parameters of the law.
RANGES = {"E": (0.5, 1.5), "A": (0.1, 0.9), "gamma": (0.08, 0.2), "g_cpt": (0.2, 0.7),
          "beta_cpt": (0.1, 0.5), "delta": (0.0, 0.06)}  # fmt: skip


def simulated(budgets: list[float], noise: float, seed: int) -> pd.DataFrame:
    """A clean ladder of seven to nine bases: three evaluations, each of a random law of its own.

    Half of the variance of the noise is shared by the runs of a base.
    """
    random = np.random.default_rng([seed, len(budgets), int(1e4 * noise)])
    ends = random.uniform([18, 20.3], [18.7, 22])
    C, D = np.meshgrid(np.logspace(*ends, random.integers(7, 10)), budgets)
    N = np.sqrt(C / 120)
    D = np.where(D < 1, 20 * N * D, D)
    runs = {"C": C.ravel(), "N": N.ravel(), "D_base": 20 * N.ravel(), "D_cpt": D.ravel()}
    for name in ("loss", "web", "code"):
        truth = {key: random.uniform(*ends) for key, ends in RANGES.items()}
        truth["A"] *= truth["E"] * 1e20 ** truth["gamma"]
        clean = np.asarray(jl.laws.continual()(truth, C=C, D_cpt=D))
        error = random.standard_normal(C.shape) + random.standard_normal(C.shape[1])
        runs[name] = (clean * np.exp(noise * error / np.sqrt(2))).ravel()
    return pd.DataFrame(runs)


def too_low(fall: float, bases: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """The largest bases are too low, by so much for each e-fold of compute beyond the others."""

    def factors(runs: pd.DataFrame) -> np.ndarray:
        x = np.log(runs["C"].to_numpy())
        return np.exp(-fall * np.maximum(x - np.unique(x)[-bases - 1], 0))

    return factors


def one_off(by: float) -> Callable[[pd.DataFrame], np.ndarray]:
    """The third run is off."""
    return lambda runs: np.where(np.arange(len(runs)) == 2, 1 + by, 1.0)


CODES = ("inputs-move-together", "falls-too-fast", "falls-faster", "outliers")
#: What factors the first evaluation has: the others have none.
SPOILT = {
    "clean": one_off(0.0),
    "two largest 4 % low per e-fold": too_low(0.04, 2),
    "two largest 2 % low per e-fold": too_low(0.02, 2),
    "largest 4 % low per e-fold": too_low(0.04, 1),
    "one run 5 % off": one_off(0.05),
    "one run 3 % off": one_off(0.03),
}


def notes() -> None:
    rows = []
    for design, noise in itertools.product(BUDGETS, NOISES):
        for seed, (kind, factors) in itertools.product(range(SEEDS), SPOILT.items()):
            runs = simulated(BUDGETS[design], noise, seed)
            runs["loss"] *= factors(runs)
            columns = ["loss", "web", "code"]
            found = jl.compare_resources(runs, resources=["C"], evaluations=columns)
            codes = [note.code for note in found.notes]
            row = {"runs": kind, "budgets": design, "noise": f"{noise:.1%}"}
            rows.append(row | {code: code in codes for code in CODES})
    table = pd.DataFrame(rows)
    for by in ("budgets", "noise"):
        print(f"\n| runs | {by} | ladders | {' | '.join(CODES)} |\n|---|---|---|---|---|---|---|")
        for (kind, value), part in table.groupby(["runs", by], sort=False):
            shares = " | ".join(f"{part[code].mean():.0%}" for code in CODES)
            print(f"| {kind} | {value} | {len(part)} | {shares} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or ("real", "notes"):
        {"real": real, "notes": notes}[part]()
        print()
