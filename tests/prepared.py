"""The files that the examples of the commands' help name, made small."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
from planned import CONTINUAL, DOMAIN, GENERAL, SCRATCH, TRUTHS, drawn

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.data._row_areas import area_options

# Where `jaxlaw fit` ends on runs.csv: the example of that command is held against it.
OPTIMUM = {
    "E": 1.669772456894259,
    "A": 348.5022865348486,
    "B": 398.6085699569787,
    "alpha": 0.33072985997097165,
    "beta": 0.2781757597702555,
}
OBJECTIVE = 0.0006646774922688968

ABOVE = {
    "E": 1.78, "A": 0.8, "B": 0.1, "C": 0.22, "alpha": 0.5, "beta": 0.5, "gamma": 0.4, "eta": 1.0,
    "eps": 0.018,
}  # fmt: skip

PAIRS = {
    "fit": ("chinchilla", OPTIMUM),
    "scratch": SCRATCH,
    "continual": CONTINUAL,
    "domain": DOMAIN,
    "general": GENERAL,
    "code": DOMAIN,
    "law": DOMAIN,
    "groups": (
        "chinchilla[B of c4|pile]",
        {name: OPTIMUM[name] for name in ("E", "A", "alpha", "beta")}
        | {"B[c4]": OPTIMUM["B"], "B[pile]": 0.9 * OPTIMUM["B"]},
    ),
    "python": (
        "mixing[web|code|math]", {"c": 1.2, "t[web]": 0.9, "t[code]": -1.0, "t[math]": 0.3}
    ),
    "wiki": ("mixing[web|code|math]", {"c": 2.0, "t[web]": -0.5, "t[code]": 0.6, "t[math]": 0.4}),
}  # fmt: skip


def turning() -> pd.DataFrame:
    """Mixtures whose general loss rises with D where the general share r is below 0.07."""
    shares = [0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.33, 0.5, 0.8]
    N, D, r = np.meshgrid([0.5, 1.8, 4.0], np.arange(1, 11) / 4, shares)
    rises = ABOVE | {"E": 1.505, "B": -0.06, "C": 0.34, "eta": 0.2}
    falls, rises = (
        simulate.simulate_runs("dcpt", law, {"N": N, "D": D, "r": r}, noise=0.002)
        for law in (ABOVE, rises)
    )
    found = falls.where(falls["r"] > 0.07, rises)
    return found.assign(domain_ratio=1 - found.pop("r"), general_loss=found.pop("loss"))


def a_forecast() -> jl.Forecast:
    """A forecast of made-up numbers."""
    quantiles = 2.08 * np.exp(0.01 * np.linspace(-3.3, 3.3, 265))[:, None]
    row = {"N": 2e10, "D": 4e11, "distance": 2.7, "laws": 2.09, "shift": 0.0, "estimate": 2.08,
           "low": 2.046, "high": 2.115, "from_noise": 0.4, "from_parameters": 0.1,
           "from_choice": 0.2, "from_common": 0.3}  # fmt: skip
    return jl.Forecast(
        table=pd.DataFrame([row]), level=0.9, target="loss", along="compute",
        weights={"chinchilla": np.ones(1)},
        fits={"chinchilla": jl.FittedLaw("chinchilla", OPTIMUM)}, quantiles=quantiles,
        units={"N": 1.0, "D": 1.0},
        runs={"count": 243, "source": "runs.csv", "fingerprint": "0" * 64},
        created="2026-01-01T00:00:00+00:00", versions={"jaxlaw": "0.2.0"},
        resamples={"chinchilla": {name: np.full(8, value) for name, value in OPTIMUM.items()}},
        errors={"shift": np.zeros(1), "per_e_fold": np.full(1, 0.002), "degrees": np.full(1, 9.0),
                "noise": np.full(1, 0.004), "scatter": np.full(1, 0.3)}, notes=(),
    )  # fmt: skip


def prepare(folder: Path) -> None:
    """Write them all: fits of known parameters with draws, runs, checkpoints, early curves."""
    for name, pair in PAIRS.items():
        boot = drawn(pair)
        fit = boot.fit
        if name == "fit":
            fit = dataclasses.replace(fit, objective=OBJECTIVE, n_observations=243)
        fit.save(folder / f"{name}.json")
        pd.DataFrame(boot.params).to_csv(folder / f"{name}-draws.csv", index=False)
    runs = simulate.experiment("chinchilla", noise=0.004).table
    runs = runs.assign(n_params=runs["N"], n_tokens=runs["D"], r=np.resize([0.2, 0.5], len(runs)))
    runs.to_csv(folder / "runs.csv", index=False)
    one = pd.DataFrame({"N": [2e10], "D": [4e11], "loss": [2.07]})
    one.to_csv(folder / "later.csv", index=False)
    a_forecast().save(folder / "forecast.json")
    mixtures = simulate.demo().table
    own = {"N": mixtures["n_params"] / 1e9, "D": mixtures["n_tokens"] / 1e9}
    mixtures = mixtures.assign(**own, r=mixtures["domain_ratio"], loss=mixtures["domain_loss"])
    mixtures.iloc[::4].to_csv(folder / "mixtures.csv", index=False)
    turning().to_csv(folder / "shares.csv", index=False)
    for name, experiment in (("scratch", "from-scratch"), ("continual", "cpt-chinchilla")):
        simulate.experiment(experiment, noise=0.002).table.to_csv(
            folder / f"{name}.csv", index=False
        )
    candidates = pd.DataFrame({"N": [1e8, 1e9, 1e10] * 2, "D": [1e11] * 3 + [1e12] * 3})
    candidates.to_csv(folder / "candidates.csv", index=False)
    tokens = np.geomspace(1e9, 1e11, 8)
    scores = pd.DataFrame({"Dp": tokens, "score": (3.0 + 0.9 * np.log(tokens / 1e8)) ** 1.2})
    scores.to_csv(folder / "checkpoints.csv", index=False)
    made = [
        simulate.experiment("downstream-ce", 0.003, seed).table.assign(model=f"model-{seed}")
        for seed in range(3)
    ]
    samples = pd.concat(made).rename(columns={"cross-entropy": "loss"})
    samples["loss"] += samples["model"].str[-1].astype(int) / 10
    samples.assign(D=samples["Dp"] / 1e6).to_csv(folder / "samples.csv", index=False)
    simulate.early_curves().query("step <= 5000").to_csv(folder / "curves.csv", index=False)
    step = np.arange(1000, 11_000, 100)
    old, new = 3.0 + 0.1 * np.log(step / 1e3), 2.6 + 900 / step  # one rises, the other falls
    both = {"loss_pt": old, "loss_cpt": new, "code_loss": (0.3 * old + 0.6 * new) ** 1.01}
    pd.DataFrame({"step": step, **both}).to_csv(folder / "losses.csv", index=False)
    ranges = {"S1": (0.1, 10.0), "S2": (0.0, 10.0)}
    annealing = drawn(("annealing", TRUTHS["annealing"]), ranges=ranges).fit
    dataclasses.replace(annealing, area_options=area_options(0.999)).save(folder / "curve-fit.json")
