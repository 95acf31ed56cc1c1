"""Learning rate and batch: cells of Step Law's sweeps that were not fitted, and what a run loses.

    JAXLAW_DATA=… python benchmarks/tuning.py cells [--base skaling] [--others] [--parabola]
    JAXLAW_DATA=… python benchmarks/tuning.py few [--prior] [--simulated] [--draws 8] [--out FILE]

``cells`` fits all runs of no more parameters and no more tokens than a held-out cell
(``smaller``), with ``--others`` all runs but that cell, and predicts its runs; with ``--parabola``
the bowl has no skews: it is quadratic in the logarithms of rate and batch. ``few`` fits four
random cells of 0.43 B parameters and less, with ``--prior`` beside what other sources published,
and proposes settings for larger cells, with intervals; ``--simulated`` replaces all losses by those
of ``tuned-skaling`` with 0.2 % of noise, whose best settings are known. A proposal's regret is the
loss of the run nearest to it, in logarithms of rate and batch, above the lowest of its cell;
``step law`` is the formula that the paper prints, lr = e^0.586·N^−0.713·D^0.307,
batch = e^−0.544·D^0.571.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import jaxlaw as jl

SEQUENCE = 2048  # tokens
HELD = [(1.073742e9, 5.69e10), (4.292608e8, 1e11)]
LARGE = [(1.073742e9, 5.69e10), (1.073742e9, 2e10), (1.073742e9, 8e9)]
SMALL = 4.4e8  # parameters of the cells that a few are drawn of; larger ones are predicted
LEVEL = 0.9
QUICK = {"n_starts": 128, "n_local": 8}


def runs() -> pd.DataFrame:
    """The public runs, batches in tokens."""
    table = pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / "lr_bsz.csv")
    names = {"non_embedding_param_size": "N", "data_size": "D", "bsz": "batch", "lm_loss": "loss"}
    table = table.rename(columns=names)[["N", "D", "lr", "batch", "loss"]]
    return table.assign(batch=table["batch"] * SEQUENCE)


def is_cell(table: pd.DataFrame, N: float, D: float) -> pd.Series:
    """The runs of one size and number of tokens."""
    return (abs(table["N"] / N - 1) < 1e-3) & (abs(table["D"] / D - 1) < 1e-3)


def nearest_regret(cell: pd.DataFrame, lr: float, batch: float) -> float:
    """Loss of the run nearest to a setting above the lowest of its cell, in per cent."""
    off = np.log(cell["lr"] / lr) ** 2 + np.log(cell["batch"] / batch) ** 2
    return 100 * (cell["loss"][off.idxmin()] / cell["loss"].min() - 1)


def step_law(N: float, D: float) -> tuple[float, float]:
    """The printed optimum: rate, and batch in tokens."""
    return np.exp(0.586) * N**-0.713 * D**0.307, np.exp(-0.544) * D**0.571


def proposed(fit: jl.Fit, N: float, D: float) -> tuple[float, float]:
    """The best settings by a fit, within a hundredfold of those that were run."""
    over = {"lr": (1e-5, 1e-1), "batch": (1e4, 1e8)}
    plan = jl.planning.optimal_inputs(fit, over, at={"N": N, "D": D})
    return plan.lr, plan.batch


def cells(bases: list[str], others: bool, parabola: bool) -> pd.DataFrame:
    """How well the runs of held-out cells are predicted."""
    table, rows = runs(), []
    fixed = dict.fromkeys(["s_lr", "s_batch", "s_noise"], 0.0) if parabola else {}
    for law in map(jl.laws.tuned, bases):
        for N, D in HELD:
            held = is_cell(table, N, D)
            smaller = ~held & (table["N"] <= N * 1.001) & (table["D"] <= D * 1.001)
            fitted, mask = ("others", ~held) if others else ("smaller", smaller)
            fit, cell = jl.fit(law, table[mask], fixed=fixed, **QUICK), table[held]
            off = cell["loss"] - fit.predict(cell[list(law.input_names)])
            r2 = 1 - (off**2).sum() / ((cell["loss"] - cell["loss"].mean()) ** 2).sum()
            row = {"law": law.name, "skewed": not parabola, "N": N, "D": D, "fitted": fitted}
            row |= {
                "runs": int(mask.sum()),
                "r2": r2,
                "error_%": 100 * abs(off / cell["loss"]).mean(),
            }
            row |= {"regret_%": nearest_regret(cell, *proposed(fit, N, D))}
            rows.append(row | {"step_law_%": nearest_regret(cell, *step_law(N, D))})
            print(pd.DataFrame(rows[-1:]).round(3).to_csv(index=False), flush=True)
    return pd.DataFrame(rows)


def optimum_of_cell(cell: pd.DataFrame) -> dict[str, float]:
    """Rate and batch at the lowest point of a parabola through the runs within 0.6 % of the lowest.

    NaN where they have no lowest point among them.
    """
    near = cell[cell["loss"] <= 1.006 * cell["loss"].min()]
    logs = np.log(near[["lr", "batch"]].to_numpy())
    u, v = (logs - logs.mean(axis=0)).T
    terms = np.stack([np.ones_like(u), u, v, u**2, u * v, v**2], axis=1)
    _, *slopes, uu, uv, vv = np.linalg.lstsq(terms, np.log(near["loss"]), rcond=None)[0]
    lowest = np.linalg.solve([[2 * uu, uv], [uv, 2 * vv]], -np.array(slopes))
    inside = (abs(lowest) <= abs(np.stack([u, v])).max(axis=1)).all()
    found = inside and uu > 0 and 4 * uu * vv > uv**2
    best = np.exp(lowest + logs.mean(axis=0)) if found else [np.nan, np.nan]
    return dict(zip(["lr", "batch"], best, strict=True))


def simulated(table: pd.DataFrame) -> pd.DataFrame:
    """The same runs with losses of a known law."""
    law, inputs = jl.laws.tuned("skaling"), {name: table[name].to_numpy() for name in table}
    del inputs["loss"]
    return jl.simulate.simulate_runs(law, jl.simulate.TRUTHS[law.name], inputs, noise=0.002)


def true_optimum(N: float, D: float) -> dict[str, float]:
    """The best settings of that law."""
    truth, n, d = jl.simulate.TRUTHS["tuned-skaling"], N / 1e9, D / 2e10
    return {
        x: truth[f"{x}_0"] * n ** truth[f"{x}_N"] * d ** truth[f"{x}_D"] for x in ("lr", "batch")
    }


def few(draws: int, prior: bool, known_law: bool, out: Path | None) -> pd.DataFrame:
    """What four random small cells propose for larger ones: regret, and 90 % intervals."""
    table, rows = simulated(runs()) if known_law else runs(), []
    law = jl.laws.tuned("chinchilla")
    options = {"prior": jl.fitting.field_prior(without="stepfun")} if prior else QUICK
    small = table[table["N"] < SMALL][["N", "D"]].drop_duplicates().to_numpy()
    for seed in range(draws):
        picked = np.random.default_rng(seed).choice(len(small), 4, replace=False)
        mask = sum(is_cell(table, *small[k]) for k in picked).astype(bool)
        fit = jl.fit(law, table[mask], **options)
        # Of cells of one size the runs alone leave the best settings open, and no interval.
        known = jl.covariance(fit, table[mask], groups=["N", "D"]) if prior else fit
        for (N, D), cell in table[table["N"] > SMALL].groupby(["N", "D"]):
            found = true_optimum(N, D) if known_law else optimum_of_cell(cell)
            if np.isnan(found["lr"]) and not any(
                np.isclose([N, D], one, 1e-3).all() for one in LARGE
            ):
                continue
            at, over = {"N": N, "D": D}, {"lr": (1e-6, 1.0), "batch": (1e3, 1e9)}
            plan = jl.planning.optimal_inputs(known, over, at=at, level=LEVEL)
            row = {"seed": seed, "sizes": len({*small[picked, 0]}), "N": N, "D": D}
            row |= {"regret_%": nearest_regret(cell, plan.lr, plan.batch)}
            row |= {"step_law_%": nearest_regret(cell, *step_law(N, D))}
            row |= {"said_%": 100 * plan.regret}
            for name, best in found.items():
                low, high = plan.interval.get(name, (np.nan, np.nan))
                row |= {f"{name}_best": best, name: plan.best[name], f"{name}_low": low}
                row |= {f"{name}_high": high}
                known_best = not np.isnan([low, best]).any()
                row |= {f"{name}_inside": low <= best <= high if known_best else np.nan}
            rows.append(row)
            print(
                pd.DataFrame([row]).round(5).to_csv(index=False, header=False), end="", flush=True
            )
        if out is not None:
            pd.DataFrame(rows).to_csv(out, index=False)
    return pd.DataFrame(rows)


def summary_of_few(found: pd.DataFrame) -> pd.DataFrame:
    """Regret of the cells that are named, and all cells together; intervals of all."""
    large = sum(is_cell(found, *cell) for cell in LARGE).astype(bool)
    parts = {f"{N:.3g}, {D:.3g}": part for (N, D), part in found[large].groupby(["N", "D"])}
    rows = []
    for name, part in {**parts, "all": found}.items():
        regret = part["regret_%"]
        row = {"cell": name, "mean_%": regret.mean(), "median_%": regret.median()}
        row |= {"largest_%": regret.max(), "step_law_%": part["step_law_%"].mean()}
        row |= {"said_%": part["said_%"].median()}
        for setting in ("lr", "batch"):
            row[f"{setting}_inside"] = part[f"{setting}_inside"].mean()
            row[f"{setting}_factor"] = np.sqrt(
                part[f"{setting}_high"] / part[f"{setting}_low"]
            ).median()
        rows.append(row)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["cells", "few"])
    parser.add_argument("--base", action="append")
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--parabola", action="store_true")
    parser.add_argument("--prior", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about a fit are in its notes
        if given.what == "cells":
            bases = given.base or ["skaling", "chinchilla"]
            found = cells(bases, given.others, given.parabola)
            print(found.round(3).to_string(index=False))
        else:
            found = summary_of_few(few(given.draws, given.prior, given.simulated, given.out))
            print(found.round(3).to_string(index=False))
