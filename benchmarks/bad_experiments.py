"""How often the notes of a fit see a bad experiment, and how often they doubt a healthy one.

    python benchmarks/bad_experiments.py [--half score] [--seeds 4]
    python benchmarks/bad_experiments.py --real        # the notes on public experiments

Eleven defects of tables of runs, on simulated experiments of 12 to 250 rows. The constants of
`jaxlaw/fitting/_checks.py` were chosen on the half ``choose``: other designs, other
truths and other seeds than those of the half ``score``, which bad_experiments.md reports.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import slimpajama

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.notes import FitWarning

#: Where an error is measured: 70 billion parameters, 1.4 trillion tokens.
FAR = {"N": 70e9, "D": 1.4e12}
#: Notes on the experiment, and those on law and rows that there were before them.
OF_EXPERIMENT = ("doubtful-values", "mixed-runs")
OF_LAW = ("lack-of-fit", "outliers", "poor-fit")
_HEALTHY = 3  # times as many healthy tables as of each defect
# Another corpus: its floor and its terms are a little higher.
OTHER = 1.06


# ---------------------------------------------------------------------------- designs


def grid(sizes, lengths):
    return lambda random: _crossed(np.geomspace(5e7, 5e9, sizes), np.geomspace(1e9, 1e11, lengths))


def isoflop(budgets, sizes):
    def made(random):
        budget, width = np.geomspace(1e19, 1e21, budgets), np.geomspace(0.25, 4, sizes)
        C, w = (v.ravel() for v in np.meshgrid(budget, width, indexing="ij"))
        N = np.sqrt(C / 120) * w
        return N, C / (6 * N)

    return made


def ladder(sizes, ratios):
    def made(random):
        N, ratio = _crossed(np.geomspace(5e7, 5e9, sizes), np.asarray(ratios, float))
        return N, N * ratio

    return made


def scattered(rows):
    def made(random):
        N = np.exp(random.uniform(np.log(5e7), np.log(5e9), rows))
        return N, N * np.exp(random.uniform(np.log(4), np.log(200), rows))

    return made


def _crossed(first, second):
    return tuple(v.ravel() for v in np.meshgrid(first, second, indexing="ij"))


HALVES = {
    "choose": {
        "designs": {
            "grid 4 × 4": grid(4, 4),
            "grid 6 × 6": grid(6, 6),
            "isoFLOP 5 × 7": isoflop(5, 7),
            "ladder 10 × 3": ladder(10, [10, 20, 40]),
            "scattered 120": scattered(120),
        },
        "truths": ("chinchilla", "kaplan-e"),
        "seed": 0,
    },
    "score": {
        "designs": {
            "grid 3 × 4": grid(3, 4),
            "grid 5 × 9": grid(5, 9),
            "grid 10 × 25": grid(10, 25),
            "isoFLOP 4 × 6": isoflop(4, 6),
            "isoFLOP 9 × 14": isoflop(9, 14),
            "ladder 8 × 4": ladder(8, [5, 20, 80, 160]),
            "scattered 50": scattered(50),
        },
        "truths": ("chinchilla", "skaling", "farseer"),
        "seed": 1_000_000,
    },
}


# ---------------------------------------------------------------------------- defects


class Made:
    """Runs as they were made (size, tokens, loss), and as a table has them."""

    def __init__(self, law, design, noise, random):
        self.law, self.random, self.noise = law, random, noise
        self.N, self.D = design(random)
        self.size = self.N.copy(), self.D.copy()
        self.loss = (
            simulate.simulate_runs(law, simulate.TRUTHS[law], {"N": self.N, "D": self.D})["loss"]
            .to_numpy()
            .copy()
        )
        self.one_rate = False  # whether one learning rate serves all sizes
        self.kind = None  # (n,) which rows are of another kind, where some are
        self.name = ""  # of the column that would say so

    def some(self, share, name):
        """A random part of the rows as those of another kind."""
        count = len(self.N)
        self.kind, self.name = np.zeros(count, bool), name
        self.kind[self.random.permutation(count)[: round(share * count)]] = True
        return self.kind

    def table(self, column, block):
        """The runs as a table.

        Args:
            column: whether a column says which rows are of another kind.
            block: whether rows of one kind stand together; else in random order.
        """
        random, count = self.random, len(self.N)
        loss = self.loss * np.exp(self.noise * random.standard_normal(count))
        true_N = self.size[0]
        table = pd.DataFrame(
            {
                "N": self.N, "D": self.D, "loss": loss,
                "layers": np.round(np.cbrt(true_N / 4e3) / 10).astype(int),
                "lr": 3e-4 * (1e9 / true_N) ** 0.3,
                "seed": random.integers(0, 3, count),
                "cluster": random.choice(["a", "b", "c", "d"], count),
            }
        )  # fmt: skip
        if self.one_rate:
            table["lr"] = 3e-4
        if not column:
            table = table.drop(columns="lr")
        if self.kind is not None and column:
            table[self.name] = np.where(self.kind, "new", "old")
        if not block:
            order = random.permutation(count)
        elif self.kind is not None:
            order = np.argsort(self.kind, kind="stable")
        else:
            order = np.arange(count)
        return table.iloc[order].reset_index(drop=True)


def two_corpora(runs):
    runs.loss[runs.some(1 / 2, "corpus")] *= OTHER


def larger_half(runs):
    runs.kind, runs.name = np.median(runs.N) < runs.N, "corpus"
    runs.loss[runs.kind] *= OTHER


def swapped(runs):
    runs.N, runs.D = runs.D, runs.N


def rates_not_tuned(runs):
    """The rate of the smallest size everywhere, and a bowl around the best one, ∝ N^−0.4."""
    runs.one_rate = True
    away = 0.4 * np.log(runs.N / runs.N.min())
    runs.loss *= 1 + 0.01 * away**2


def capped(runs):
    """Tokens recorded up to a cap, such as the size of the corpus, and trained beyond it."""
    runs.D = np.minimum(runs.D, np.quantile(runs.D, 0.65, method="nearest"))


def rounded(runs):
    runs.digits = 1


def mid_decay(runs):
    """Losses before the learning rate has decayed, 1 to 4 % above those after it."""
    third = runs.some(1 / 3, "stage")
    runs.loss[third] *= 1 + runs.random.uniform(0.01, 0.04, third.sum())


def tokenizer(runs):
    third = runs.some(1 / 3, "tokenizer")
    runs.D = np.where(third, 1.35 * runs.D, runs.D)


def embeddings(runs):
    """N with the embeddings of 50,000 tokens in half of the rows, of width ∝ N^(1/3)."""
    half = runs.some(1 / 2, "counted_by")
    runs.N = runs.N + half * 5e4 * np.cbrt(10.7 * runs.N)


def other_evaluation(runs):
    """A third evaluated on another validation set."""
    runs.loss[runs.some(1 / 3, "evaluation")] *= 1.02


def new_trainer(runs):
    """A change of the trainer in the midst of the campaign, whose runs are in order of date."""
    runs.loss[runs.some(0.4, "version")] *= 0.985


DEFECTS = {
    "two corpora mixed": two_corpora,
    "larger half on another corpus": larger_half,
    "N and D swapped": swapped,
    "rates not tuned with size": rates_not_tuned,
    "D capped in the table": capped,
    "losses rounded to 0.1": rounded,
    "a third mid-decay": mid_decay,
    "another tokenizer's tokens in a third": tokenizer,
    "embeddings counted in half": embeddings,
    "a third on another validation set": other_evaluation,
    "trainer changed in the midst": new_trainer,
    "healthy": lambda runs: None,
}


def cases(half, seeds):
    """(defect, what it was made by, table) of one half; every defect on the same experiments."""
    part = HALVES[half]
    for design_number, (design_name, design) in enumerate(part["designs"].items()):
        for truth_number, truth in enumerate(part["truths"]):
            for seed in range(_HEALTHY * seeds):
                for number, (defect, spoil) in enumerate(DEFECTS.items()):
                    if seed >= seeds and defect != "healthy":
                        continue
                    random = np.random.default_rng(
                        [part["seed"], design_number, truth_number, seed, number]
                    )
                    noise = float(np.exp(random.uniform(np.log(0.002), np.log(0.01))))
                    runs = Made(truth, design, noise, random)
                    spoil(runs)
                    column, block = bool(seed % 2), bool(seed // 2 % 2)
                    if defect == "trainer changed in the midst":
                        block = True
                    table = runs.table(column, block)
                    if hasattr(runs, "digits"):
                        table["loss"] = table["loss"].round(runs.digits)
                    about = {
                        "defect": defect, "design": design_name, "truth": truth, "seed": seed,
                        "noise": noise,
                        "column": column and (runs.kind is not None or runs.one_rate),
                        "block": block,
                    }  # fmt: skip
                    yield about, table


def fitted(about, table, law):
    """One fit as a record: what its notes say, and how far off it is at a large model."""
    fit = jl.fit(law, table)
    codes = [note.code for note in fit.notes]
    truth = simulate.simulate_runs(about["truth"], simulate.TRUTHS[about["truth"]], FAR)["loss"][0]
    return about | {
        "law": law, "own": law == about["truth"],
        "noted": any(code in OF_EXPERIMENT for code in codes),
        "before": any(code in OF_LAW for code in codes),
        "error": abs(float(fit.predict(**FAR)) / truth - 1),
        "said": [note.message for note in fit.notes if note.code in OF_EXPERIMENT],
    }  # fmt: skip


def records(half, seeds):
    """Every table fitted by the law that made it, and healthy ones by chinchilla, too."""
    made = []
    for about, table in cases(half, seeds):
        others = {"chinchilla"} if about["defect"] == "healthy" else set()
        made += [fitted(about, table, law) for law in sorted({about["truth"]} | others)]
    return pd.DataFrame(made)


def show(found):
    own = found[found["own"]]
    print("| defect | fits | noted | a column says it | rows stand together | neither "
          "| doubted before | median error |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for defect, part in own.groupby("defect", sort=False):
        kinds = part["column"], part["block"] & ~part["column"], ~part["block"] & ~part["column"]
        kinds = [part.loc[kind, "noted"] for kind in kinds]
        rates = " | ".join(f"{kind.mean():.0%}" if len(kind) else "" for kind in kinds)
        print(f"| {defect} | {len(part)} | {part['noted'].mean():.0%} | {rates} | "
              f"{part['before'].mean():.0%} | {part['error'].median():.1%} |")  # fmt: skip
    other = found[~found["own"]]
    rates = [f"{other[kind].mean():.1%}" for kind in ("noted", "before")]
    print(f"\nHealthy runs of another law, by chinchilla: {len(other)} fits; noted {rates[0]}, "
          f"doubted before {rates[1]}\n")  # fmt: skip
    healthy = own["defect"] == "healthy"
    rates = own.groupby(["design", healthy.map({True: "healthy", False: "bad"})])["noted"]
    print(rates.mean().unstack().map("{:.0%}".format).to_string())
    for said in found.loc[found["defect"] == "healthy", "said"]:
        for message in said:
            print("healthy:", message)


# ---------------------------------------------------------------------------- real runs


PARAMS = {"N": "params", "D": "tokens"}
BATCHES = {"N": "non_embedding_param_size", "D": "data_size", "loss": "lm_loss"}
REPEATED = PARAMS | {"U": "unique_tokens"}
LOSSES = PARAMS | {"loss": "c4_val_loss"}
#: Name, law, file, columns and condition of public runs.
REAL = (
    ("chinchilla points", "chinchilla", "chinchilla_points", {"N": "n_params", "D": "n_tokens"},
     "excluded_in_paper_fit == 0"),
    ("farseer", "chinchilla", "farseer", {}, "split == 'train'"),
    ("farseer", "farseer", "farseer", {}, "split == 'train'"),
    ("loss to loss, six corpora at once", "chinchilla", "loss_to_loss", LOSSES, "split == 'sweep'"),
    ("step law, all rates and batches", "chinchilla", "step_law_dense", {}, None),
    ("rates and batches", "chinchilla", "lr_bsz", BATCHES, None),
    ("optima of rate and batch", "chinchilla", "lr_batch_optima", {}, None),
    ("repeated tokens", "repetition", "data_constrained", REPEATED, None),
    ("one epoch", "chinchilla", "data_constrained", PARAMS, "tokens <= unique_tokens"),
    ("OLMo ladder", "chinchilla", "olmo_ladder", {"loss": "loss_c4_en"}, "D > 5 * N"),
)  # fmt: skip


def real():
    """(name, law, runs) of public experiments with N and D, each as a user would read it."""
    folder = Path(os.environ["JAXLAW_DATA"])
    for name, law, file, columns, where in REAL:
        yield name, law, jl.read_runs(folder / f"{file}.csv", columns, where=where)
    for file, by, columns, where in (
        ("isoflops", "experiment", PARAMS, "outlier == False"),
        ("loss_to_loss", "data", LOSSES, "split == 'sweep'"),
    ):
        for name, part in pd.read_csv(folder / f"{file}.csv").query(where).groupby(by):
            yield f"{file}, {name}", "chinchilla", jl.read_runs(part, columns)
    steps = pd.read_csv(folder / "step_law_dense.csv")
    best = steps.loc[steps.groupby(["N", "D"])["loss"].idxmin()]
    yield "step law, best rate and batch", "chinchilla", best
    for name in ("arxiv", "c4"):
        yield f"mixtures, {name}", "dcpt", slimpajama.read(name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=sorted(HALVES), default="score")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", FitWarning)
    if not options.real:
        return show(records(options.half, options.seeds))
    for name, law, runs in real():
        fit = jl.fit(law, runs)
        said = [note.message for note in fit.notes if note.code in OF_EXPERIMENT]
        print(f"{name}, {law}, {fit.n_observations} rows:", *(said or ["nothing"]), flush=True)


if __name__ == "__main__":
    main()
