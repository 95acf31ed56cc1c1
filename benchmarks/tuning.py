"""Learning rate and batch: cells of Step Law's sweeps that were not fitted, and what a run loses.

    JAXLAW_DATA=… python benchmarks/tuning.py cells [--base skaling] [--others] [--parabola]
    JAXLAW_DATA=… python benchmarks/tuning.py few [--prior] [--simulated] [--draws 8]
    JAXLAW_DATA=… python benchmarks/tuning.py minima [--draws 40]
    JAXLAW_DATA=… python benchmarks/tuning.py batches
    python benchmarks/tuning.py batches --simulated [--draws 24]
    JAXLAW_DATA=… python benchmarks/tuning.py formulas

``cells`` fits all runs of no more parameters and no more tokens than a held-out cell
(``smaller``), with ``--others`` all runs but that cell, and predicts its runs; with ``--parabola``
the bowl has no skews: it is quadratic in the logarithms of rate and batch. ``few`` fits four
random cells of 0.43 B parameters and less, with ``--prior`` beside what other sources published,
and proposes settings for larger cells, with intervals; ``--simulated`` replaces all losses by those
of ``tuned-skaling`` with 0.2 % of noise, whose best settings are known. A proposal's regret is the
loss of the run nearest to it, in logarithms of rate and batch, above the lowest of its cell;
``step law`` is the formula that the paper prints, lr = e^0.586·N^−0.713·D^0.307,
batch = e^−0.544·D^0.571.

``minima`` predicts OpenEuroLLM's minima from four of its smaller ones, and says what being off
loses by the bowl of ``jl.simulate.TRUTHS``, which is that of a fit to all runs, rounded.

``batches`` compares the critical batch of a fit to all runs, and the power of the batch with which
its best rate grows, with what the runs of single sizes show without a law; ``--simulated`` counts
how often its 90 % intervals hold the truth of simulated sweeps. ``formulas`` is the
regret at all cells of the best rates and batches that papers print.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import jaxlaw as jl

SEQUENCE = 2048  # tokens
HELD = [(1.073742e9, 5.69e10), (4.292608e8, 1e11)]
LARGE = [(1.073742e9, 5.69e10), (1.073742e9, 2e10), (1.073742e9, 8e9)]
SMALL = 4.4e8  # parameters of the cells that a few are drawn of; larger ones are predicted
LEVEL = 0.9
CHOICES = ["cells", "few", "minima", "batches", "formulas"]
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
    """Rate, batch and loss at the lowest point of a parabola through the cell's best runs.

    These are within 0.6 % of the lowest. NaN where they have no lowest point among them.
    """
    near = cell[cell["loss"] <= 1.006 * cell["loss"].min()]
    logs = np.log(near[["lr", "batch"]].to_numpy())
    u, v = (logs - logs.mean(axis=0)).T
    terms = np.stack([np.ones_like(u), u, v, u**2, u * v, v**2], axis=1)
    level, *slopes, uu, uv, vv = np.linalg.lstsq(terms, np.log(near["loss"]), rcond=None)[0]
    lowest = np.linalg.solve([[2 * uu, uv], [uv, 2 * vv]], -np.array(slopes))
    inside = (abs(lowest) <= abs(np.stack([u, v])).max(axis=1)).all()
    found = inside and uu > 0 and 4 * uu * vv > uv**2
    best = [*(lowest + logs.mean(axis=0)), level + lowest @ slopes / 2]
    best = np.exp(best) if found else np.full(3, np.nan)
    return dict(zip(["lr", "batch", "loss"], best, strict=True))


def simulated(table: pd.DataFrame) -> pd.DataFrame:
    """The same runs with losses of a known law."""
    law, inputs = jl.laws.tuned("skaling"), {name: table[name].to_numpy() for name in table}
    del inputs["loss"]
    return jl.simulate.simulate_runs(law, jl.simulate.TRUTHS[law.name], inputs, noise=0.002)


def by_known_law(N: Any, D: Any, **settings: Any) -> Any:
    """Losses by that law."""
    law = jl.laws.tuned("skaling")
    return jl.FittedLaw(law, jl.simulate.TRUTHS[law.name]).predict(N=N, D=D, **settings)


def true_optimum(N: Any, D: Any) -> dict[str, Any]:
    """The best settings of that law, and the loss there."""
    truth, n, d = jl.simulate.TRUTHS["tuned-skaling"], N / 1e9, D / 2e10
    best = {
        x: truth[f"{x}_0"] * n ** truth[f"{x}_N"] * d ** truth[f"{x}_D"] for x in ("lr", "batch")
    }
    return best | {"loss": by_known_law(N, D, **best)}


def few(draws: int, prior: bool, known_law: bool) -> pd.DataFrame:
    """What four random small cells propose for larger ones: regret, and 90 % intervals."""
    table, rows = simulated(runs()) if known_law else runs(), []
    law = jl.laws.tuned("chinchilla")
    known = jl.fitting.field_prior(without="stepfun")
    small = table[table["N"] < SMALL][["N", "D"]].drop_duplicates().to_numpy()
    for seed in range(draws):
        picked = np.random.default_rng(seed).choice(len(small), 4, replace=False)
        mask = sum(is_cell(table, *small[k]) for k in picked).astype(bool)
        sizes = len({*small[picked, 0]})
        if prior:
            cells = table[mask].groupby(["N", "D"]).ngroup().to_numpy()
            source = fit = jl.posterior(law, table[mask], prior=known, groups=cells)
        else:
            fit = jl.fit(law, table[mask], **QUICK)
            try:
                source = jl.covariance(fit, table[mask], groups=["N", "D"])
            except jl.DataError:  # four cells without a prior leave something open: no interval
                source = fit
        for (N, D), cell in table[table["N"] > SMALL].groupby(["N", "D"]):
            found = true_optimum(N, D) if known_law else optimum_of_cell(cell)
            if np.isnan(found["lr"]) and not any(
                np.isclose([N, D], one, 1e-3).all() for one in LARGE
            ):
                continue
            at, over = {"N": N, "D": D}, {"lr": (1e-6, 1.0), "batch": (1e3, 1e9)}
            plan = jl.planning.optimal_inputs(source, over, at=at, level=LEVEL)
            row = {"seed": seed, "sizes": sizes, "N": N, "D": D}
            row |= {"regret_%": nearest_regret(cell, plan.lr, plan.batch)}
            row |= {"step_law_%": nearest_regret(cell, *step_law(N, D))}
            row |= {"said_%": 100 * plan.regret}
            said = {**plan.best, "loss": plan.loss}
            for name, best in found.items():
                low, high = plan.interval.get(name, (np.nan, np.nan))
                row |= {f"{name}_best": best, name: said[name], f"{name}_low": low}
                row |= {f"{name}_high": high}
                known_best = not np.isnan([low, best]).any()
                row |= {f"{name}_inside": low <= best <= high if known_best else np.nan}
            rows.append(row)
            print(
                pd.DataFrame([row]).round(5).to_csv(index=False, header=False), end="", flush=True
            )
    return pd.DataFrame(rows)


def lost_by_bowl(N: Any, D: Any, **settings: Any) -> Any:
    """What settings lose by the known law, in per cent; those not given are at their best."""
    best = true_optimum(N, D)
    least = best.pop("loss")
    return 100 * (by_known_law(N, D, **{**best, **settings}) / least - 1)


def minima(draws: int) -> pd.DataFrame:
    """OpenEuroLLM's minima above 0.44 B parameters, from four smaller ones: another recipe."""
    table = pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / "lr_batch_optima.csv")
    table = table.rename(columns={"gbsz": "batch"})
    terms = np.stack([table["N"] ** 0, np.log(table["N"] / 1e9), np.log(table["D"] / 2e10)], axis=1)
    known = jl.fitting.field_prior(without="openeurollm")
    names, rows = list(known.coordinates["tuned"]), []
    small, large = (np.flatnonzero(part) for part in (table["N"] < SMALL, table["N"] > SMALL))
    for seed in range(draws):
        picked = np.random.default_rng(seed).choice(small, 4, replace=False)
        for way in ("four minima", "with prior"):
            off, inside = {}, {}
            for x in ("lr", "batch"):
                logs = np.log(table[x].to_numpy())
                every = np.linalg.lstsq(terms, logs, rcond=None)[0]
                scatter = np.std(logs - terms @ every, ddof=3)
                information = terms[picked].T @ terms[picked] / scatter**2
                shift = terms[picked].T @ logs[picked] / scatter**2
                if way == "with prior":
                    k = [names.index(f"{x}_N"), names.index(f"{x}_D")]
                    precision = np.linalg.inv(known.covariances["tuned"][np.ix_(k, k)])
                    information[1:, 1:] += precision
                    shift[1:] += precision @ known.means["tuned"][k]
                known_to = np.linalg.pinv(information)
                off[x] = terms[large] @ (known_to @ shift) - logs[large]
                spread = np.einsum("ij,jk,ik->i", terms[large], known_to, terms[large])
                inside[x] = abs(off[x]) < norm.isf(0.05) * np.sqrt(spread + scatter**2)
            at = table["N"].to_numpy()[large], table["D"].to_numpy()[large]
            best = true_optimum(*at)
            lost = lost_by_bowl(*at, **{x: best[x] * np.exp(off[x]) for x in off})
            each = {"way": way, "lost_%": lost} | {f"{x} off": abs(off[x]) for x in off}
            each |= {f"{x} inside": inside[x] for x in inside}
            rows.append(pd.DataFrame(each))
    every = pd.concat(rows).groupby("way")
    return every.mean().join(every["lost_%"].median().rename("median lost_%")).reset_index()


def bottom(x: np.ndarray, y: np.ndarray, k: int) -> tuple[float, float]:
    """The lowest point of the parabola through the points k − 1, k and k + 1."""
    bowl = np.polyfit(x[k - 1 : k + 2] - x[k], y[k - 1 : k + 2], 2)
    off = -bowl[1] / (2 * bowl[0])
    return float(x[k] + off), float(np.polyval(bowl, off))


def lowest_over_rates(runs_: pd.DataFrame) -> tuple[float, float]:
    """Log of the best rate, and the loss there, by a parabola through the three best rates.

    NaN where fewer than four rates were run, or the best is the first or the last of them.
    """
    lowest = runs_.groupby("lr")["loss"].min().sort_index()
    k, losses = int(lowest.to_numpy().argmin()), lowest.to_numpy()
    if len(lowest) < 4 or k in (0, len(lowest) - 1):
        return np.nan, np.nan
    return bottom(np.log(lowest.index.to_numpy(float)), losses, k)


def crossing(x: Any, y: Any, level: float) -> float:
    """Where (n,) values first pass a level, between two points; NaN where they do not."""
    for k in range(len(x) - 1):
        if min(y[k], y[k + 1]) <= level <= max(y[k], y[k + 1]):
            return float(x[k] + (x[k + 1] - x[k]) * (level - y[k]) / (y[k + 1] - y[k]))
    return np.nan


def batches() -> pd.DataFrame:
    """Of each cell: the critical batch, and the rate's powers below and above the best batch."""
    table = runs()
    fit = jl.fit("tuned-skaling", table, **QUICK)
    names = ["N", "D", "batch"]
    low = pd.DataFrame(
        [(*key, *lowest_over_rates(part)) for key, part in table.groupby(names)],
        columns=[*names, "log_lr", "loss"],
    ).dropna()
    rows = []
    for (N, D), cell in low.groupby(["N", "D"]):
        if len(cell) < 4:
            continue
        size, best = low[low["N"] == N], cell.loc[cell["loss"].idxmin()]
        more = []  # log of a batch, log of the tokens to the same loss over those of the best batch
        for batch, line in size[size["batch"] >= best["batch"]].groupby("batch"):
            needed = crossing(
                np.log(line["D"].to_numpy() / D), line["loss"].to_numpy(), best["loss"]
            )
            more += [(np.log(batch), needed)] if np.isfinite(needed) else []
        shown = np.exp(crossing(*zip(*more, strict=True), np.log(1.2))) if len(more) > 1 else np.nan
        plan = jl.planning.critical_batch_size(fit, at={"N": N, "D": D})
        row = {"N": N, "D": D, "best": best["batch"], "critical": shown}
        row |= {"fit_best": plan.best_batch, "fit_critical": plan.batch, "fit_power": plan.lr_power}
        for side, part in {
            "below": cell[cell["batch"] <= best["batch"]],
            "above": cell[cell["batch"] >= best["batch"]],
        }.items():
            logs = np.log(part["batch"]), part["log_lr"]
            row[side] = np.polyfit(*logs, 1)[0] if len(part) > 2 else np.nan
        rows.append(row)
    found = pd.DataFrame(rows)
    known = found.dropna(subset=["critical"])
    off = np.log(known["fit_critical"] / known["critical"])
    print(f"{len(known)} cells: fit over runs {np.exp(off.mean()):.3f}, scatter {off.std():.3f}, ")
    print(f"median error {abs(np.expm1(off)).median():.3f}; powers of the rate, medians: below the")
    print(f"best batch {found['below'].median():.2f}, above it {found['above'].median():.2f}")
    terms = np.column_stack([np.ones(len(known)), np.log(known["N"]), np.log(known["D"])])
    for name in ("critical", "fit_critical"):
        powers = np.linalg.lstsq(terms, np.log(known[name]), rcond=None)[0][1:]
        print(f"{name}: N^{powers[0]:.2f}·D^{powers[1]:.2f}")
    return found


def batches_of_sweeps(sweeps: int) -> pd.DataFrame:
    """How often intervals hold the true critical batch, its rate and the best batch."""
    truth, rows = ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"]), []
    points = [{"N": 1e9, "D": 2e10}, {"N": 1e9, "D": 1e11}, {"N": 7e9, "D": 1e12}]
    known = [jl.planning.critical_batch_size(truth, at=at) for at in points]
    for seed in range(sweeps):
        made = jl.simulate.experiment("tuned-skaling", noise=0.002, seed=seed).table
        source = jl.covariance(jl.fit("tuned-skaling", made, n_starts=64, n_local=4), made)
        for at, true in zip(points, known, strict=True):
            plan = jl.planning.critical_batch_size(source, at=at, level=LEVEL)
            row = dict(at)
            for name in ("batch", "lr", "best_batch", "lr_power"):
                low, high = plan.interval[name]
                row |= {name: low <= getattr(true, name) <= high}
                row |= {f"{name}_factor": np.sqrt(high / low)}
            rows.append(row)
    return pd.DataFrame(rows).groupby(["N", "D"]).mean().reset_index()


def formulas() -> pd.DataFrame:
    """Regret of printed formulas at the run nearest to what they propose, over all cells."""
    rows = []
    for name in ("li-2025", "deepseek-2024", "porian-2024"):
        laws = [jl.published()[f"{name}-{setting}"] for setting in ("lr", "batch")]
        regret, off = [], []
        for (N, D), cell in runs().groupby(["N", "D"]):
            lr, batch = (float(law.predict(N=N, D=D)) for law in laws)
            regret.append(nearest_regret(cell, lr, batch))
            best = cell.loc[cell["loss"].idxmin()]
            off.append([np.log(lr / best["lr"]), np.log(batch / best["batch"])])
        factors = np.exp(np.median(off, axis=0))
        row = {"formula": name, "mean_%": np.mean(regret), "median_%": np.median(regret)}
        row |= {"largest_%": max(regret), "lr_over_best": factors[0], "batch_over_best": factors[1]}
        rows.append(row)
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
        for setting in ("lr", "batch", "loss"):
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
    parser.add_argument("what", choices=CHOICES)
    parser.add_argument("--base", action="append")
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--parabola", action="store_true")
    parser.add_argument("--prior", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--draws", type=int, default=8)
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about a fit are in its notes
        if given.what == "cells":
            bases = given.base or ["skaling", "chinchilla"]
            found = cells(bases, given.others, given.parabola)
            print(found.round(3).to_string(index=False))
        elif given.what == "minima":
            print(minima(given.draws).round(3).to_string(index=False))
        elif given.what == "formulas":
            print(formulas().round(3).to_string(index=False))
        elif given.what == "batches":
            found = batches_of_sweeps(given.draws) if given.simulated else batches()
            print(found.round(3).to_string(index=False))
        else:
            found = summary_of_few(few(given.draws, given.prior, given.simulated))
            print(found.round(3).to_string(index=False))
