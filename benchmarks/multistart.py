"""One objective and scipy on it, for peers.py, scale.py, uncertainty.py and accelerator.py.

All minimise the same objective (summed Huber / δ, log N and log D centred) on the same data from
the same starts, at the tightest tolerance at which they converge. Data: the 240 runs of the
Chinchilla replication (``JAXLAW_DATA``; simulated where it is unset).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # scipy's L-BFGS-B is lost otherwise

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import build_problem
from jaxlaw.fitting.solvers import SOLVERS

DELTA = 1e-3
AGREE = 1e-8
NEWTON = SOLVERS["newton"]


def chinchilla_runs() -> tuple[pd.DataFrame, str]:
    folder = os.environ.get("JAXLAW_DATA")
    if folder is None:
        return simulate.experiment("chinchilla").table, "simulated"
    table = pd.read_csv(Path(folder) / "chinchilla_points.csv")
    table = table[table.excluded_in_paper_fit == 0]
    return table.rename(columns={"n_params": "N", "n_tokens": "D"})[["N", "D", "loss"]], "real"


def numpy_chinchilla(problem):
    """Value and gradient of one start in numpy, exponentials shared: scipy's best case."""
    data = problem.unpadded
    log_n, log_d = (np.log(data.inputs[k] / data.centre[k]) for k in ("N", "D"))
    target = data.target

    def function(u):
        e, a, b, alpha, beta = u
        E, A, B = np.exp(e), np.exp(a - alpha * log_n), np.exp(b - beta * log_d)
        total = E + A + B
        r = np.log(total) - target
        pull = np.clip(r, -DELTA, DELTA)
        value = np.sum(np.where(np.abs(r) <= DELTA, 0.5 * r * r, DELTA * (np.abs(r) - DELTA / 2)))
        share = pull / total
        grad_a, grad_b = share * A, share * B
        gradient = (share.sum() * E, grad_a.sum(), grad_b.sum(), -grad_a @ log_n, -grad_b @ log_d)
        return value / DELTA, np.array(gradient) / DELTA

    return function


def numpy_dcpt(problem):
    """The same for the D-CPT law, in plain coordinates (no chart)."""
    data = problem.unpadded
    log_n, log_d = (np.log(data.inputs[k] / data.centre[k]) for k in ("N", "D"))
    r = data.inputs["r"]
    positive = r > 0
    log_r = np.log(np.where(positive, r, 1.0))
    target = data.target

    def function(u):
        e, a, b, c, alpha, beta, gamma, eta, eps = u
        log_share = np.log(r + eps)
        E, A = np.exp(e), np.exp(a - alpha * log_n)
        B = np.where(positive, np.exp(b + eta * log_r - beta * log_d), 0.0)
        C = np.exp(c - gamma * log_share)
        total = E + A + B + C
        d = np.log(total) - target
        pull = np.clip(d, -DELTA, DELTA)
        value = np.sum(np.where(np.abs(d) <= DELTA, 0.5 * d * d, DELTA * (np.abs(d) - DELTA / 2)))
        share = pull / total
        ga, gb, gc = share * A, share * B, share * C
        gradient = (
            share.sum() * E, ga.sum(), gb.sum(), gc.sum(), -ga @ log_n, -gb @ log_d,
            -gc @ log_share, gb @ log_r, -gamma * np.sum(gc / (r + eps)),
        )  # fmt: skip
        return value / DELTA, np.array(gradient) / DELTA

    return function


def fit_problem(name: str, runs: Any, linear: bool = True) -> Any:
    """A law on its runs as jaxlaw solves it; without ``linear`` in the papers' coordinates."""
    law = laws.get(name)
    seen = jl.read_runs(runs).observations(law)
    options = FitOptions(solver="newton" if linear else "lbfgs")
    return build_problem(law, seen.inputs, seen.target, seen.weight, options)


class Case(NamedTuple):
    """A law on its runs, in plain coordinates: logarithms of coefficients, log N and D centred."""

    law: Any
    problem: Any
    numpy_of: Callable[[Any], Any]
    low: np.ndarray
    high: np.ndarray

    def coordinates(self, natural: np.ndarray) -> np.ndarray:
        return np.clip(self.problem.coordinates_of_starts(natural), self.low, self.high)


def case_of(name: str, runs: Any, numpy_of: Callable[[Any], Any]) -> Case:
    plain = fit_problem(name, runs, linear=False)
    plain = dataclasses.replace(plain, model=plain.model._replace(chart=False))
    specs = plain.model.law.parameters
    low = np.array([s.low if s.scale == "linear" else -20.0 for s in specs])
    high = np.array([s.high if s.scale == "linear" else 20.0 for s in specs])
    low = np.where([s.name == "eps" for s in specs], 1e-4, low)
    return Case(plain.model.law, plain, numpy_of, low, high)


def scipy_loop(case, function, first):
    """Objectives that L-BFGS-B ends at from every start, tolerances at the floor of float64."""
    bounds = list(zip(case.low, case.high, strict=True))
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 10}
    with np.errstate(all="ignore"):
        found = [
            minimize(function, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            for start in first
        ]
    return np.array([one.fun if np.isfinite(one.fun) else np.inf for one in found])
