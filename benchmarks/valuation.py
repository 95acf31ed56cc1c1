"""Which of 30 pretrained models is best after fine-tuning, from few samples; and by which law.

    JAXLAW_DATA=… python benchmarks/valuation.py [choice] [coverage]

``coverage``: how often the 95 % intervals of ``planning.pretraining_value`` hold the truth, on 400
simulated experiments of 8 checkpoints each (Isik 2024), noise of 1 % in the score. ``choice``:
finetune_transfer.csv: 30 models × 3 datasets × 15 sample counts, 0 to 1,638,400. A law is fitted
to the losses of each model up to 1/γ of all samples, asked for its loss at all of them, and the
model of the least predicted loss is chosen. Regret is by how much its true loss exceeds that of
the best model; ρ is Spearman's, r Pearson's correlation of predicted and true losses. ``rectified``
can see the loss before fine-tuning too (``from 0``), ``downstream-ce`` (a power law and a constant)
cannot. Beside them, without a law: the loss at the most samples seen, and before fine-tuning.
"""

import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.refits import refit

GAMMAS = (8, 32, 128, 512)
# Lin 2024, table 2 and its repository: Pearson's r (%) of the rectified law and the plain one.
PRINTED = {
    "flan": {8: (77.9, 34.7), 32: (54.4, 43.1), 128: (54.9, 41.4), 512: (36.8, 20.7)},
    "wmt19": {8: (95.0, 94.4), 32: (91.1, 79.6), 128: (78.9, 35.2), 512: (61.5, 56.5)},
    "gigaword": {8: (97.0, 95.1), 32: (88.3, 91.0), 128: (83.6, 47.3), 512: (78.5, 79.3)},
}
# RMSD of log losses over all sample counts, as published: rectified law, plain power law.
RMSD = {"flan": (0.0065, 0.0358), "gigaword": (0.0052, 0.0106), "wmt19": (0.0123, 0.0629)}


def losses(dataset: str) -> pd.DataFrame:
    """Models × sample counts."""
    table = pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / "finetune_transfer.csv")
    mine = table[table["dataset"].str.lower() == dataset]
    return mine.pivot_table(index="model", columns="n_finetune_samples", values="loss")


LAWS = ("rectified from 0", "rectified", "downstream-ce")


def counted(law: str, table: pd.DataFrame) -> np.ndarray:
    """(counts,) whether a law sees the losses of a sample count."""
    return table.columns.to_numpy(float) >= (0 if law.endswith("from 0") else 1)


def predicted(law: str, table: pd.DataFrame, at: np.ndarray) -> np.ndarray:
    """(models, at) losses by a law fitted to each row; all models in one call."""
    counts, kept = table.columns.to_numpy(float), counted(law, table)
    # downstream-ce counts tokens; 1,000 of them a sample changes nothing but the unit.
    name, unit = ("Dp", 1000.0) if law == "downstream-ce" else ("Df", 1.0)
    law = jl.laws.get(law.removesuffix(" from 0"))
    rows = pd.DataFrame({name: counts[kept] * unit, law.target: table.iloc[0, kept].to_numpy()})
    found = refit(
        law, jl.read_runs(rows).observations(law), targets=table.loc[:, kept].to_numpy(),
        n_starts=512, screen=32,
    )  # fmt: skip
    return found.predict(**{name: np.asarray(at, float) * unit})


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(pd.Series(a).rank(), pd.Series(b).rank())[0, 1])


def selection(table: pd.DataFrame, dataset: str) -> None:
    full, truth = table.columns[-1], table.iloc[:, -1].to_numpy()
    best, worst = truth.min(), truth.max()
    for gamma in GAMMAS:
        seen = table.loc[:, table.columns <= full / gamma]
        ways = {law: predicted(law, seen, [full])[:, 0] for law in LAWS}
        ways |= {"loss seen last": seen.iloc[:, -1].to_numpy(), "loss before": table[0].to_numpy()}
        for way, scores in ways.items():
            chosen = truth[scores.argmin()]
            share = (worst - chosen) / (worst - best)
            printed = dict(zip(("rectified from 0", "downstream-ce"), PRINTED[dataset][gamma],
                               strict=True))  # fmt: skip
            said = printed.get(way, "")
            print(
                f"| {dataset} | 1/{gamma} | {way} | {chosen / best - 1:.1%} | {share:.3f} "
                f"| {spearman(scores, truth):.3f} | {np.corrcoef(scores, truth)[0, 1]:.3f} "
                f"| {said} |"
            )
            sys.stdout.flush()


def whole(table: pd.DataFrame, dataset: str) -> None:
    """RMSD of log losses of fits to every sample count."""
    counts = table.columns.to_numpy(float)
    row = [dataset]
    for law in LAWS:
        kept = counted(law, table)
        off = np.log(predicted(law, table, counts[kept]) / table.loc[:, kept].to_numpy())
        row.append(f"{np.sqrt((off**2).mean(axis=1)).mean():.4f}")
    row += [f"{one:.4f}" for one in RMSD[dataset]]
    print("| " + " | ".join(row) + " |")


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
        one = planning.pretraining_value(
            table.rename(columns={"BLEU": "score"}), at=at, target=target, seed=seed
        )
        found.append(one.interval)
        advice.append(one.advice)
    print("| quantity | truth | experiments | held by 95 % intervals | median width |")
    print("|---|---|---|---|---|")
    for quantity, right in truth.items():
        ends = np.array([one.get(quantity, (np.nan, np.nan)) for one in found])
        inside = ((ends[:, 0] <= right) & (right <= ends[:, 1])).mean()
        error = math.sqrt(inside * (1 - inside) / count)
        width = np.nanmedian(ends[:, 1] - ends[:, 0]) / right
        print(f"| {quantity} | {right:.4g} | {count} | {inside:.1%} ± {error:.1%} | {width:.1%} |")
    print("\n" + ", ".join(f"{advice.count(one)} × {one}" for one in sorted(set(advice))))


def choice() -> None:
    begun = time.perf_counter()
    tables = {name: losses(name) for name in PRINTED}
    print(f"| dataset | {' | '.join(LAWS)} | published: rectified | plain power law |")
    print("|---|---|---|---|---|---|")
    for name, table in tables.items():
        whole(table, name)
    print("\n| dataset | seen | by | regret | of worst to best | ρ | r | r printed (%) |")
    print("|---|---|---|---|---|---|---|---|")
    for name, table in tables.items():
        selection(table, name)
    print(f"\n{time.perf_counter() - begun:.0f} s, compiling included")


if __name__ == "__main__":
    for table in sys.argv[1:] or ("choice", "coverage"):
        globals()[table]()
