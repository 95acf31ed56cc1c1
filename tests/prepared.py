"""The files that the examples of the commands' help name, made small."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
from planned import CONTINUAL, DOMAIN, GENERAL, SCRATCH, TRUTHS, drawn

from jaxlaw import simulate
from jaxlaw.curves.counting import area_options

PAIRS = {
    "fit": ("chinchilla", TRUTHS["chinchilla"]),
    "scratch": SCRATCH,
    "continual": CONTINUAL,
    "domain": DOMAIN,
    "general": GENERAL,
    "code": DOMAIN,
    "law": DOMAIN,
}


def prepare(folder: Path) -> None:
    """Write them all: fits of known parameters with draws, runs, checkpoints, early curves."""
    for name, pair in PAIRS.items():
        boot = drawn(pair)
        boot.fit.save(folder / f"{name}.json")
        pd.DataFrame(boot.params).to_csv(folder / f"{name}-draws.csv", index=False)
    runs = simulate.experiment("chinchilla", noise=0.004).table
    runs = runs.assign(n_params=runs["N"], n_tokens=runs["D"], r=np.resize([0.2, 0.5], len(runs)))
    runs.to_csv(folder / "runs.csv", index=False)
    mixtures = simulate.experiment("dcpt", noise=0.004).table
    mixtures.iloc[::4].to_csv(folder / "mixtures.csv", index=False)
    tokens = np.geomspace(1e9, 1e11, 10)
    scores = pd.DataFrame({"Dp": tokens, "score": (3.0 + 0.9 * np.log(tokens / 1e8)) ** 1.2})
    scores.to_csv(folder / "checkpoints.csv", index=False)
    simulate.early_curves().query("step <= 5000").to_csv(folder / "curves.csv", index=False)
    ranges = {"S1": (0.1, 10.0), "S2": (0.0, 10.0)}
    annealing = drawn(("annealing", TRUTHS["annealing"]), ranges=ranges).fit
    dataclasses.replace(annealing, areas=area_options(0.999)).save(folder / "curve-fit.json")
