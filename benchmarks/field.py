"""Make the library of the field: ``JAXLAW_DATA=… python -m benchmarks.field``.

Every public experiment is fitted by skaling and chinchilla, and the frontier of its skaling law by
loss-compute-e; what the fits say of a next experiment is written to ``jaxlaw/fitting/field.json``:
numbers, counts, ranges and sources, no runs. What published recipes say of how the best learning
rate and batch move is there, too.

An experiment is one recipe, one corpus, one evaluation, runs trained to their end. Left out are
tables whose rows are checkpoints of a schedule (slimpajama_mixtures, mix2, model_curves): a loss
in the middle of a schedule falls with other exponents than the loss at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import approx_fprime, least_squares

import jaxlaw as jl
from jaxlaw._jit import in_float64
from jaxlaw._json import plain
from jaxlaw.fitting import Experiment, run_hashes
from jaxlaw.fitting._fit import LEAST_NOISE
from jaxlaw.fitting._prior import SPREAD, TUNED, experiment_of

LAWS = ("skaling", "chinchilla")
OUT = Path(__file__).parents[1] / "jaxlaw" / "fitting" / "field.json"
#: Keeps what an experiment leaves open within what laws can be; it decides nothing else.
WEAK = {"share": (0.3, 1.5), "balance": (0.0, 1.0), "alpha": (np.log(0.35), 0.6),
        "beta": (np.log(0.35), 0.6), "kappa": (np.log(0.7), 0.8)}  # fmt: skip


class Runs(NamedTuple):
    """The runs of one experiment: N, D in single ones, and the loss."""

    source: str
    name: str
    evaluation: str
    table: pd.DataFrame
    reference: str


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / f"{name}.csv")


def tidy(N, D, loss) -> pd.DataFrame:
    """Positive numbers; of runs of equal N and D the best, as tuning leaves it."""
    table = pd.DataFrame({"N": N, "D": D, "loss": loss}).astype(float).dropna()
    table = table[(table > 0).all(axis=1)]
    return table.groupby(["N", "D"], as_index=False).loss.min()


def experiments() -> Iterator[Runs]:
    t = read("chinchilla_points")
    t = t[t.excluded_in_paper_fit == 0]
    yield Runs("hoffmann", "chinchilla_points", "massivetext", tidy(t.n_params, t.n_tokens, t.loss),
               "Hoffmann 2022, figure 4, read off by Epoch (analyzing-chinchilla)")  # fmt: skip
    t = read("isoflops")
    t = t[~t.outlier.astype(bool)]
    whose = {"epochai": "hoffmann", "ml": "hoffmann", "llama": "llama", "marin": "marin",
             "misfitting": "misfitting"}  # fmt: skip
    for name, rows in t.groupby("experiment"):
        source = whose[name.split("_")[0]]
        evaluation = "massivetext" if source == "hoffmann" else name
        yield Runs(source, name, evaluation, tidy(rows.params, rows.tokens, rows.loss),
                   "Open-Athena/scaling-law-analysis (states no licence)")  # fmt: skip
    t = read("farseer")
    yield Runs("stepfun", "farseer", "farseer, per byte", tidy(t.N, t.D, t.loss),
               "Farseer 2025, arXiv 2506.10972 (CC-BY-4.0)")  # fmt: skip
    t = read("step_law_dense")
    yield Runs("stepfun", "step_law", "step-law", tidy(t.N, t.D, t.loss),
               "Step Law 2025, arXiv 2503.04715, best of cells (states no licence)")  # fmt: skip
    t = read("loss_to_loss")
    for corpus, rows in t.groupby("data"):
        table = tidy(rows.params, rows.tokens, rows.c4_val_loss)
        yield Runs("kempner", corpus, "kempner c4", table,
                   "Brandfonbrener 2024, arXiv 2411.12925 (states no licence)")  # fmt: skip
    t = read("data_constrained")
    t = t[t.tokens <= t.unique_tokens * 1.001]
    yield Runs("datablations", "data_constrained", "datablations c4",
               tidy(t.params, t.tokens, t.loss),
               "Muennighoff 2023, arXiv 2305.16264, one epoch (Apache-2.0)")  # fmt: skip
    t = read("olmo_ladder").sort_values("step").groupby("run").tail(1)
    for column in (name for name in t if name.startswith("loss_")):
        yield Runs("olmo", column, f"olmo {column}", tidy(t.N, t.D, t[column]),
                   "OLMo ladder 2024, arXiv 2412.04403 (Apache-2.0)")  # fmt: skip


def frontier(made: Experiment) -> Experiment:
    """The lowest loss of every compute, E + A/C^γ, of an experiment of skaling."""
    law = jl.laws.get("skaling")
    names = ("log_floor", *law.scale_free.words)

    def coordinates(values: np.ndarray) -> np.ndarray:
        known = dict(zip(names, values, strict=True))
        odds = np.exp(known["share"])
        loss = np.exp(known["log_floor"]) * (1 + odds) / odds
        p = law.scale_free.to_params(loss, known)
        alpha, beta, kappa = p["alpha"], p["beta"], p["kappa"]
        exponent = alpha * beta / (alpha + beta)
        # At N·D = C/6 the best terms are A/N^α = β/(α+β)·S and B/D^β = α/(α+β)·S.
        log_s = (beta * np.log(p["A"] * alpha) + alpha * np.log(p["B"] * beta)) / (
            alpha + beta
        ) + np.log((alpha + beta) / (alpha * beta))
        log_term = kappa * (log_s - exponent * np.log(1e8 * 2e9))
        return np.array([known["log_floor"], known["log_floor"] - log_term,
                         np.log(kappa * exponent)])  # fmt: skip

    step = 1e-5
    slopes = np.stack(
        [(coordinates(made.mean + step * e) - coordinates(made.mean - step * e)) / (2 * step)
         for e in np.eye(len(made.mean))], axis=1,
    )  # fmt: skip
    covariance = slopes @ made.covariance @ slopes.T
    low, high = (6 * made.ranges["N"][k] * made.ranges["D"][k] for k in (0, 1))
    return replace(made, law="loss-compute-e", mean=coordinates(made.mean), covariance=covariance,
                   ranges={"C": (low, high)})  # fmt: skip


@in_float64()
def made_of(runs: Runs) -> list[Experiment]:
    """What fits of all runs by Huber's loss, beside weak priors, say of a next experiment."""
    found = []
    for law in map(jl.laws.get, LAWS):
        seen = jl.read_runs(runs.table, units={"N": 1, "D": 1}).observations(law)
        names = tuple(law.scale_free.words)
        mean, spread = np.array([WEAK[name] for name in names]).T

        def natural(at: np.ndarray, law=law, names=names) -> np.ndarray:
            """Parameters (p,) at the log of the level and the scale-free coordinates."""
            params = law.scale_free.to_params(np.exp(at[0]), dict(zip(names, at[1:], strict=True)))
            return np.array([params[name] for name in law.parameter_names], float)

        def off(at: np.ndarray, law=law, seen=seen, natural=natural) -> np.ndarray:
            params = dict(zip(law.parameter_names, natural(at), strict=True))
            return np.log(law.evaluate(params, **seen.inputs)) - np.log(seen.target)

        noise = 0.004
        for _ in range(4):
            found_from = [
                least_squares(
                    lambda at, off=off, noise=noise, mean=mean, spread=spread: np.r_[
                        off(at) / noise, (at[1:] - mean) / spread
                    ],
                    np.r_[np.log(np.median(seen.target)), mean + wide * spread],
                    loss="huber", f_scale=1.345,
                )
                for wide in (-1, 0, 1)
            ]  # fmt: skip
            best = min(found_from, key=lambda each: each.cost).x
            size = np.abs(off(best))
            noise = np.sqrt(size @ size / max(len(size) - len(best), 1))
            noise = float(max(min(noise, 3 * 1.4826 * np.median(size)), LEAST_NOISE))
        one = experiment_of(
            law, approx_fprime(best, off), natural(best), approx_fprime(best, natural), noise,
            source=runs.source, name=runs.name, evaluation=runs.evaluation, runs=len(seen),
            ranges=seen.ranges, reference=runs.reference, hashes=run_hashes(seen),
        )  # fmt: skip
        if one is None:
            raise SystemExit(f"{runs.name}, {law.name}: the fit says nothing of a next experiment")
        found.append(one)
    return [*found, frontier(found[0])]


PRINTED = 0.05  # standard error of an exponent that is printed without one
#: Source, reference, number of optima that it rests on (0 where it does not say), and (power of N,
#: power of D, value, standard error) for the rate, and for the batch: the value is that of the sum
#: of the two exponents, so weighted, that the source knows.
RECIPES = (
    ("openeurollm", "dense_english_scaling_laws: least squares of the minima of its sweeps", 45,
     ((1, 0, -0.417, 0.034), (0, 1, 0.086, 0.030)), ((1, 0, 0.145, 0.022), (0, 1, 0.460, 0.019))),
    ("lingle", "Lingle 2025, optimal LR and batch size, III: least squares of its best runs", 18,
     ((1, 0, -0.477, 0.023), (0, 1, 0.262, 0.040)), ((1, 0, 0.050, 0.045), (0, 1, 0.574, 0.078))),
    # Powers of the compute at its own best sizes, N ∝ C^0.524 and D ∝ C^0.476.
    ("deepseek", "Bi 2024, eq. 1", 0,
     ((0.524, 0.476, -0.125, PRINTED),), ((0.524, 0.476, 0.327, PRINTED),)),
    # Powers of the size at some 20 tokens a parameter.
    ("porian", "Porian 2024, the tuned optimiser", 0,
     ((1, 1, -0.36, PRINTED),), ((1, 1, 0.703, PRINTED),)),
    # Its rates are of µP, which holds them fixed over sizes: another parametrisation.
    ("cerebras", "Bergsma 2025, figure 1", 0,
     (), ((1, 0, 0.0, PRINTED), (0, 1, 0.383, PRINTED))),
)  # fmt: skip


def recipes() -> Iterator[Experiment]:
    """Recipes as experiments: of what a source leaves open it says something wide."""
    names = ("lr_N", "lr_D", "batch_N", "batch_D")
    for source, reference, optima, lr, batch in RECIPES:
        known = np.diag([(10 * SPREAD[name]) ** -2.0 for name in names])
        shift = np.zeros(4)
        for first, exponents in ((0, lr), (2, batch)):
            for size, tokens, value, error in exponents:
                row = np.zeros(4)
                row[first : first + 2] = size, tokens
                known, shift = known + np.outer(row, row) / error**2, shift + row * value / error**2
        covariance = np.zeros((5, 5))  # the floor, of which it says nothing, first
        covariance[1:, 1:] = np.linalg.inv(known)
        mean = np.concatenate([[np.nan], covariance[1:, 1:] @ shift])
        yield Experiment(source, source, "", TUNED, mean, covariance, np.nan, optima, {}, reference)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out", type=Path, default=OUT)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    known = []
    for runs in experiments():
        known += made_of(runs)
        one = known[-3]
        print(f"{runs.source:13}{runs.name[:38]:39}{len(runs.table):4} runs, noise "
              f"{one.noise:.2%}, {np.round(one.mean, 2)}", flush=True)  # fmt: skip
    rounded = [
        {**one, "mean": np.round(one["mean"], 6).tolist(),
         "covariance": [[float(f"{v:.6g}") for v in row] for row in one["covariance"]],
         "noise": round(one["noise"], 6),
         "ranges": {k: [float(f"{v:.4g}") for v in pair] for k, pair in one["ranges"].items()}}
        for one in plain(known)
    ]  # fmt: skip
    record = {"experiments": rounded, "recipes": plain([*recipes()])}
    given.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
