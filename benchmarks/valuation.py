"""How often intervals of a corpus' value hold the truth, and how often falls of a score are seen.

    python benchmarks/valuation.py [coverage] [falls]

``coverage``: how often the 95 % intervals of ``papers.pretraining_value`` hold the truth, on 400
simulated experiments of 8 checkpoints each (Isik 2024), noise of 1 % in the score. ``falls``: what
``pretraining_value`` advises where scores are constant, rise or fall, by their number and scatter.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import jaxlaw as jl
from jaxlaw import papers, simulate

SATURATED = "stop: the score is saturated"


def coverage(count: int = 400, target: float = 22.0, at: float = 1e12, first: int = 1000) -> None:
    """Tokens to a target, and the score at more tokens; seeds that nothing was tuned on."""
    name = "downstream-bleu"
    law, p = jl.laws.get(name), simulate.TRUTHS[name]
    score = [
        float(law(p, Dp=tokens)) for tokens in (at, simulate.experiment(name).table["Dp"].max())
    ]
    truth = {
        "tokens_to_target": math.exp((target ** (1 / p["beta"]) - p["log_A"]) / p["alpha"]),
        "predicted": score[0],
        "gain": score[0] - score[1],
    }
    found, advice = [], []
    for seed in range(first, first + count):
        table = simulate.experiment(name, noise=0.01, seed=seed).table
        value = papers.pretraining_value(
            table.rename(columns={"BLEU": "score"}), at=at, target=target, seed=seed
        )
        found.append(value.interval)
        advice.append(value.advice)
    print("| quantity | truth | experiments | held by 95 % intervals | median width |")
    print("|---|---|---|---|---|")
    for quantity, right in truth.items():
        bounds = np.array([value.get(quantity, (np.nan, np.nan)) for value in found])
        inside = ((bounds[:, 0] <= right) & (right <= bounds[:, 1])).mean()
        error = math.sqrt(inside * (1 - inside) / count)
        width = np.nanmedian(bounds[:, 1] - bounds[:, 0]) / right
        print(f"| {quantity} | {right:.4g} | {count} | {inside:.1%} ± {error:.1%} | {width:.1%} |")
    print("\n" + ", ".join(f"{advice.count(value)} × {value}" for value in sorted(set(advice))))


#: Scores over t, from 0 at the first checkpoint to 1 at the last, evenly in log Dp.
SCORES = {
    "constant": lambda t: 24 + 0 * t,
    "rise by 3 %": lambda t: 24 * (1 + 0.03 * t),
    "rise by Isik's law (4 to 18)": lambda t: (5.77 + 43.8 * t) ** 0.75,
    "rise, then fall by 5 %": lambda t: 24 * np.minimum(1 + 0.5 * t, 1.25 - 0.125 * (t - 0.5)),
    "rise, then fall by 10 %": lambda t: 24 * np.minimum(1 + 0.5 * t, 1.25 - 0.25 * (t - 0.5)),
    "rise, then down by 10 % at once": lambda t: np.where(t < 0.74, 24 * (1 + 0.4 * t), 27.0),
    "fall by 5 %": lambda t: 24 * (1 - 0.05 * t),
}


def falls(count: int = 60, first: int = 9000) -> None:
    """How often each design is called misaligned, and saturated, by checkpoints and scatter."""
    scatters = (0.001, 0.005, 0.01, 0.02)
    print("| scores | checkpoints | " + " | ".join(f"{s:.1%}" for s in scatters) + " |")
    print("|---|---|" + "---|" * len(scatters))
    for name, score in SCORES.items():
        for n in (4, 6, 8, 10):
            cells = []
            for scatter in scatters:
                found = [_advice_on(score, n, scatter, first + k) for k in range(count)]
                shares = [found.count(a) / count for a in ("suspect misalignment", SATURATED)]
                cells.append(" / ".join(f"{share:.0%}" for share in shares))
            print(f"| {name} | {n} | " + " | ".join(cells) + " |", flush=True)


def _advice_on(score: Callable[[Any], Any], n: int, scatter: float, seed: int) -> str:
    noise = np.random.default_rng(seed).standard_normal(n)
    scores = score(np.linspace(0, 1, n)) * np.exp(scatter * noise)
    table = {"Dp": np.geomspace(1e9, 1.3e11, n), "score": scores}
    return papers.pretraining_value(table, n_resamples=0).advice


if __name__ == "__main__":
    for table in sys.argv[1:] or ("coverage", "falls"):
        globals()[table]()
