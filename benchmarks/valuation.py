"""Which of 30 pretrained models is best after fine-tuning, from few samples; and by which law.

    JAXLAW_DATA=… python benchmarks/valuation.py [choice] [curse] [coverage] [falls]

``coverage``: how often the 95 % intervals of ``papers.pretraining_value`` hold the truth, on 400
simulated experiments of 8 checkpoints each (Isik 2024), noise of 1 % in the score. ``choice``:
finetune_transfer.csv: 30 models × 3 datasets × 15 sample counts, 0 to 1,638,400. A law is fitted
to the losses of each model up to 1/γ of all samples, asked for its loss at all of them, and the
model of the least predicted loss is chosen. Regret is by how much its true loss exceeds that of
the best model; ρ is Spearman's, r Pearson's correlation of predicted and true losses. ``rectified``
can see the loss before fine-tuning too (``from 0``), ``downstream-ce`` (a power law and a constant)
cannot. Beside them, without a law: the loss at the most samples seen, and before fine-tuning.
``sure``: in how many resamples the chosen model is the best; ``held``: whether its interval has
its true loss. ``curse``: the same on simulated models, where the truth is known. ``falls``: what
``pretraining_value`` advises where scores are constant, rise or fall, by their number and scatter.
"""

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw import papers, simulate

SATURATED = "stop: the score is saturated"
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
    rows = table[table["dataset"].str.lower() == dataset]
    return rows.pivot_table(index="model", columns="n_finetune_samples", values="loss")


LAWS = ("rectified from 0", "rectified", "downstream-ce")
DRAWS = {"downstream-ce": 400}  # resamples


def chosen(law: str, table: pd.DataFrame, at: float) -> papers.ModelChoice:
    """The choice of a law fitted to each row; all models in one call."""
    least = 0 if law.endswith("from 0") else 1
    rows = table.rename_axis(columns="D").stack().rename("loss").reset_index()
    return papers.choose_model(
        rows[rows["D"] >= least], at=at, law=law.removesuffix(" from 0"),
        n_resamples=DRAWS.get(law, 0),
    )  # fmt: skip


def predicted(found: papers.ModelChoice, table: pd.DataFrame, at: np.ndarray) -> np.ndarray:
    """(models, at) losses, models as in the table."""
    return found.curves(at)[table.index].to_numpy().T


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(pd.Series(a).rank(), pd.Series(b).rank())[0, 1])


def selection(table: pd.DataFrame, dataset: str) -> None:
    full, truth = table.columns[-1], table.iloc[:, -1]
    best, worst = truth.min(), truth.max()
    for gamma in GAMMAS:
        seen = table.loc[:, table.columns <= full / gamma]
        choices = {law: chosen(law, seen, full) for law in LAWS}
        ways = {law: predicted(one, table, [full])[:, 0] for law, one in choices.items()}
        ways |= {"loss seen last": seen.iloc[:, -1].to_numpy(), "loss before": table[0].to_numpy()}
        for way, scores in ways.items():
            loss = truth.iloc[scores.argmin()]
            share = (worst - loss) / (worst - best)
            printed = dict(zip(("rectified from 0", "downstream-ce"), PRINTED[dataset][gamma],
                               strict=True))  # fmt: skip
            print(
                f"| {dataset} | 1/{gamma} | {way} | {loss / best - 1:.1%} | {share:.3f} "
                f"| {spearman(scores, truth):.3f} | {np.corrcoef(scores, truth)[0, 1]:.3f} "
                f"| {printed.get(way, '')} | {sure(choices.get(way), truth)} |"
            )
            sys.stdout.flush()


def sure(found: papers.ModelChoice | None, truth: pd.Series) -> str:
    """The reported uncertainty of the choice, and whether its interval holds the truth."""
    if found is None or not found.interval:
        return " | "
    low, high = found.interval["predicted"]
    covered = low <= truth[found.chosen] <= high
    return f"{found.probability:.0%} | {'yes' if covered else 'no'}"


def whole(table: pd.DataFrame, dataset: str) -> None:
    """RMSD of log losses of fits to every sample count."""
    row = [dataset]
    for law in LAWS:
        kept = table.columns[table.columns >= (0 if law.endswith("from 0") else 1)]
        choice = chosen(law, table, table.columns[-1])
        off = np.log(predicted(choice, table, kept) / table[kept].to_numpy())
        row.append(f"{np.sqrt((off**2).mean(axis=1)).mean():.4f}")
    row += [f"{one:.4f}" for one in RMSD[dataset]]
    print("| " + " | ".join(row) + " |")


DESIGNS = {  # of simulated models: E, A at 1,000 samples, α
    "apart": lambda draw, n: (draw.uniform(1, 1.6, n), draw.uniform(0.5, 1.5, n),
                              draw.uniform(0.2, 0.5, n)),
    "near": lambda draw, n: (1.3 + 0.02 * draw.standard_normal(n), draw.uniform(0.9, 1.1, n),
                             draw.uniform(0.28, 0.32, n)),
    "equal": lambda draw, n: (np.full(n, 1.3), np.ones(n), np.full(n, 0.3)),
}  # fmt: skip


def curse(count: int = 300, models: int = 6, noise: float = 0.003, first: int = 5000) -> None:
    """Whether intervals hold the loss of the chosen model, and shares say how often it is best."""
    sizes = 200.0 * 2.0 ** np.arange(8)
    at, names = 32 * sizes[-1], np.array([f"model-{k}" for k in range(models)])
    print("| models | held | chosen is best | said | regret | said | predicted off | corrected |")
    print("|---|---|---|---|---|---|---|---|")
    for design, make in DESIGNS.items():
        rows = []
        for seed in range(first, first + count):
            draw = np.random.default_rng(seed)
            E, A, alpha = make(draw, models)
            power = (np.append(sizes, at) / 1e3) ** -alpha[:, None]
            clean = E[:, None] + A[:, None] * power
            losses = clean[:, :-1] * np.exp(noise * draw.standard_normal((models, len(sizes))))
            table = {"model": np.repeat(names, len(sizes)), "D": np.tile(sizes, models)}
            choice = papers.choose_model(table | {"loss": losses.ravel()}, at=at, seed=seed)
            loss, (low, high) = clean[names == choice.chosen, -1][0], choice.interval["predicted"]
            regret = loss - clean[:, -1].min()
            rows.append(
                [
                    low <= loss <= high,
                    regret < 1e-12,
                    choice.probability,
                    regret,
                    choice.regret,
                    choice.predicted / loss - 1,
                    choice.corrected / loss - 1,
                ]
            )
        held, right, said, regret, told, off, corrected = np.mean(np.array(rows, float), axis=0)
        print(
            f"| {design} | {held:.1%} ± {math.sqrt(held * (1 - held) / count):.1%} | {right:.0%} "
            f"| {said:.0%} | {regret:.4f} | {told:.4f} | {off:+.2%} | {corrected:+.2%} |"
        )
        sys.stdout.flush()


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


def choice() -> None:
    begun = time.perf_counter()
    tables = {name: losses(name) for name in PRINTED}
    print(f"| dataset | {' | '.join(LAWS)} | published: rectified | plain power law |")
    print("|---|---|---|---|---|---|")
    for name, table in tables.items():
        whole(table, name)
    print(
        "\n| dataset | seen | by | regret | of worst to best | ρ | r | r printed (%) "
        "| sure | held |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, table in tables.items():
        selection(table, name)
    print(f"\n{time.perf_counter() - begun:.0f} s, compiling included")


if __name__ == "__main__":
    for table in sys.argv[1:] or ("choice", "curse", "coverage", "falls"):
        globals()[table]()
