"""Four of six domains fitted, the other two predicted: K1 to K4 of the cross-domain law.

    python benchmarks/cross_domain.py

Simulated six-domain data whose truth is K3, every run evaluated each 2,000 of 20,000 steps, noise
0.4 %. Rows of a table: the k's known exactly; measured on early curves with the same noise; the
domains also differing by up to 20 % in their own A, B and C, which no K can say. Means over the 15
pairs left out; mean Huber (δ 1e-3) of log losses. "order" is the rank correlation of the fitted K
with the true one over the six domains, all fitted; "effective" scores are of that fit, as in
table 7.
"""

import itertools
import time

import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting import metrics
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.laws.cross_domain import learnable_coefficient
from jaxlaw.simulate._designs import several_domains

LAWS = ("dcpt-cross-k1", "dcpt-cross-k2", "dcpt-cross", "dcpt-cross-k4")
TRUTH = "dcpt-cross"
NOISE = 0.004


def domains(noise: float) -> pd.DataFrame:
    curves = simulate.early_curves(noise, seed=1)
    return jl.data.learnability_coefficients(curves, by="domain", law="dcpt-cross-k4")


def runs(wrinkle: float) -> pd.DataFrame:
    """Runs of the six domains, each with its own A, B, C around the truth's."""
    exact, draw = domains(0.0), np.random.default_rng(2)
    table = pd.DataFrame(several_domains("dcpt-cross-k4", range(2000, 20_001, 2000)))
    parts = []
    for name, k in exact.iterrows():
        own = table[table["k1"] == k["k1"]]
        params = dict(simulate.TRUTHS[TRUTH])
        params |= {c: params[c] * (1 + wrinkle * draw.uniform(-1, 1)) for c in "ABC"}
        inputs = {key: own[key] for key in laws.get(TRUTH).input_names}
        seed = int(draw.integers(2**31))
        made = simulate.simulate_runs(TRUTH, params, inputs, NOISE, seed)
        parts.append(made[["N", "D", "r", "loss"]].assign(domain=name))
    return pd.concat(parts, ignore_index=True)


def study(law: str, table: pd.DataFrame, known: pd.DataFrame) -> dict[str, float]:
    pairs = list(itertools.combinations(known.index, 2))
    held_out = np.stack([table["domain"].isin(pair) for pair in pairs])
    observations = jl.read_runs(table.join(known, on="domain")).observations(law)
    weights = np.vstack([~held_out, np.ones(len(table))]).astype(float)
    refits = fit_many(laws.get(law), observations, weights)
    predicted = refits.predict(**observations.inputs)

    def score(k: int, mask: np.ndarray) -> tuple[float, float]:
        got = metrics(observations.target, predicted[k], mask.astype(float), 1e-3)
        return got["r2"], got["mean_huber"]

    folds = np.array([score(k, mask) for k, mask in enumerate(held_out)])
    params = {name: values[-1] for name, values in refits.params.items()}
    own = {name: known[name] for name in laws.get(law).input_names if name in known}
    exact = domains(0.0)
    true = learnable_coefficient(TRUTH, simulate.TRUTHS[TRUTH], k1=exact["k1"], k2=exact["k2"])
    K = learnable_coefficient(law, params, **own)
    whole = score(-1, np.ones(len(table), bool))
    return {
        "r2": folds[:, 0].mean(), "median": np.median(folds[:, 0]), "worst": folds[:, 0].min(),
        "huber": folds[:, 1].mean(), "whole": whole[0], "whole_huber": whole[1],
        "order": pd.Series(K).corr(true, method="spearman"), "agree": refits.agreement.min(),
    }  # fmt: skip


def main() -> None:
    print(
        "| data | K | R², two domains left out: mean | median | worst pair | mean Huber "
        "| effective R² | mean Huber | order | least agreement | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for data, k_noise, wrinkle in (
        ("k's exact", 0.0, 0.0), ("k's with noise", NOISE, 0.0), ("own A, B, C", NOISE, 0.2),
    ):  # fmt: skip
        table, known = runs(wrinkle), domains(k_noise)
        for law in LAWS:
            begun = time.perf_counter()
            got = study(law, table, known)
            seconds = time.perf_counter() - begun
            print(
                f"| {data} | K{LAWS.index(law) + 1} | {got['r2']:.4g} | {got['median']:.4f} "
                f"| {got['worst']:.4g} | {got['huber']:.2e} | {got['whole']:.4f} "
                f"| {got['whole_huber']:.2e} | {got['order']:.2f} "
                f"| {got['agree']:.0%} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
