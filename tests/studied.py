"""A study and a profile with made-up numbers, that the tests of pictures and reports share."""

from __future__ import annotations

import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw.notes import Note

EVIL = '<script>alert("x")</script>'


def a_profile(fit: jl.Fit) -> jl.Profile:
    """Of alpha: lopsided, flatter above."""
    value = fit.params["alpha"] + np.linspace(-0.05, 0.05, 21)
    root = np.linspace(-5, 5, 21)
    root = np.where(root > 0, 0.8 * root, root)
    table = pd.DataFrame({"value": value, "objective": 1e-3 * (1 + root**2), "root": root})
    return jl.Profile(fit, "alpha", table, fit.params["alpha"], 0.01, 100, ())


def a_study() -> jl.Study:
    """Two laws, two data sets, four folds; one law is called what a page must not run."""
    random, laws = np.random.default_rng(0), {"dcpt": 9, EVIL: 8}
    rows = [
        {
            "law": law, "data": data, "corpus": data, "fold": fold,
            "held_out": f"r = {fold} {EVIL}",
            "n_fitted": 400, "n_held_out": 60, "extrapolates": fold == 1,
            **{name: size * 1e-6 * np.exp(random.standard_normal())
               for name in ("huber", "mean_huber", "huber_linear", "rmse", "train_huber")},
            "r2": 0.99, "train_r2": 0.999, "objective": 1e-3, "status": "converged",
            "agreement": 0.9, "spread": 0.0, "failed": False,
        }
        for law, size in laws.items() for data in ("code", "law & order") for fold in range(1, 5)
    ]  # fmt: skip
    keys = ("law", "data", "corpus", "fold", "held_out")
    parameters = [
        {key: row[key] for key in keys} | {"parameter": "E", "value": 1.5, "at_bound": ""}
        for row in rows
    ]
    return jl.Study(
        design="leave-one-group-out:r", laws={"dcpt": ("dcpt", None), EVIL: ("dcpt-l1", None)},
        sizes=laws, target="loss", delta=1e-3, frame=pd.DataFrame(rows),
        parameters=pd.DataFrame(parameters), notes=(Note("far-folds", "warning", EVIL),),
    )  # fmt: skip
