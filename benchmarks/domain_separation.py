"""Whether the learnable coefficient K tells domains apart (Que 2024, §3.2), simulated and real.

    JAXLAW_DATA=… python benchmarks/domain_separation.py

Simulated: 1,000 measurements of the early curves of six domains; how far K's lie apart in standard
deviations of the measurement, and how many of 15 pairs it orders right in 97.5 % of them.

Real: 23 domains (22 parts of the Pile, and Python) of one continual run of a 70 M model, half Pile
(continual_70m.csv). K of App. H, and the loss after 10,000 steps as E + F/K^μ, each domain left out
in turn, on log losses.
"""

import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from jaxlaw import simulate
from jaxlaw.laws.cross_domain import learnable_coefficient

DRAWS = 1000
STARTS = 12
LAWS = {f"K{k}": f"dcpt-cross{'' if k == 3 else f'-k{k}'}" for k in range(1, 5)}


def simulated(noise: float) -> None:
    clean = simulate.early_curves().pivot(index="domain", columns="step", values="loss")
    draw = np.random.default_rng(0).standard_normal((DRAWS, *clean.shape))
    noisy = clean.to_numpy() * np.exp(noise * draw)
    loss = {step: noisy[..., k] for k, step in enumerate(clean)}
    exact = {step: clean[step].to_numpy() for step in clean}
    for name, law in LAWS.items():
        measured, true = (K_of(law, curves) for curves in (loss, exact))
        apart, right = [], 0
        for i, j in itertools.combinations(range(len(true)), 2):
            gap = measured[:, i] - measured[:, j]
            apart.append(abs(true[i] - true[j]) / np.nanstd(gap))
            right += np.mean(gap * (true[i] - true[j]) > 0) >= 0.975
        lost = np.isnan(measured).any(axis=1).mean()
        print(f"| {noise:.1%} | {name} | {min(apart):.1f} | {np.median(apart):.1f} | {right} of 15 "
              f"| {lost:.0%} |")  # fmt: skip


def K_of(law: str, loss: dict[int, np.ndarray]) -> np.ndarray:
    k2 = loss[0] - loss[5000]
    k3 = (loss[0] - loss[1000] - loss[10_000] + loss[11_000]) / 10
    positive = {name: np.where(k > 0, k, np.nan) for name, k in (("k2", k2), ("k3", k3))}
    return learnable_coefficient(law, simulate.TRUTHS[law], k1=loss[1000], **positive)


def real() -> None:
    table = pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / "continual_70m.csv")
    table = table[table["domain"] != "PILE_WEIGHTED"]
    base = table[table["step"] == 0].set_index("domain")["loss"]
    for share, rows in table[table["step"] > 0].groupby("pile_ratio"):
        curves = rows.pivot(index="domain", columns="step", values="loss")
        print(
            f"K2 > 0 at a Pile share of {share:.3g}: {(base > curves[5000]).sum()} of {len(curves)}"
        )
    curves[0] = base
    curves = curves[curves[0] > curves[5000]]
    k1, k2, last = (v.to_numpy() for v in (curves[1000], curves[0] - curves[5000], curves[10_000]))
    forms = {
        "K1": lambda p: 1 / k1,
        "K2": lambda p: k2,
        "K3": lambda p: 1 / k1 + np.exp(p[3]) * k2,
    }
    print("\n| prediction of the last loss | K's order and the loss' | median error | largest |")
    print("|---|---|---|---|")
    for name, K in forms.items():
        errors = [left_out(K, last, k, 4 if name == "K3" else 3) for k in range(len(last))]
        order = pd.Series(K(np.zeros(4))).corr(pd.Series(last), method="spearman")
        report(name, f"{order:.2f}", np.array(errors))
    others = [np.delete(last, k).mean() for k in range(len(last))]
    report("mean of the others", "", np.log(others / last))
    report("the loss after 5,000 steps", "", np.log(curves[5000].to_numpy() / last))


def left_out(K, last: np.ndarray, k: int, size: int) -> float:
    """Error of the logarithm of domain k's last loss, by the fit of the others."""
    kept = np.arange(len(last)) != k

    def residual(p: np.ndarray) -> np.ndarray:
        return np.log(np.exp(p[0]) + np.exp(p[1]) * K(p) ** -np.exp(p[2])) - np.log(last)

    draw = np.random.default_rng(0)
    fits = [
        least_squares(lambda p: residual(p)[kept], draw.uniform(-2, 1, size), bounds=(-12, 6))
        for _ in range(STARTS)
    ]
    return residual(min(fits, key=lambda fit: fit.cost).x)[k]


def report(name: str, order: str, errors: np.ndarray) -> None:
    size = np.abs(np.expm1(errors))
    print(f"| {name} | {order} | {np.median(size):.1%} | {size.max():.1%} |", flush=True)


if __name__ == "__main__":
    print("| noise | K | least distance, sd | median | pairs in order | no K (k ≤ 0) |")
    print("|---|---|---|---|---|---|")
    for noise in (0.004, 0.01):
        simulated(noise)
    print()
    real()
