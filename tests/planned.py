"""Laws, and draws around them, that the tests of plans share."""

from __future__ import annotations

import numpy as np

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.fitting._result import METRICS

TRUTHS = simulate.TRUTHS
SCRATCH = ("chinchilla", TRUTHS["from-scratch"])
CONTINUAL = ("cpt-chinchilla", TRUTHS["cpt-chinchilla"])
DOMAIN = ("dcpt", TRUTHS["dcpt"])
GENERAL = ("dcpt", TRUTHS["dcpt-general"])

_RANGES = {"N": (1e8, 1e10), "D": (1e8, 6e11), "r": (0.0, 1.0)}


def scattered() -> planning.Draws:
    """Chinchilla around its own truth."""
    return drawn(("chinchilla", TRUTHS["chinchilla"]))


def drawn(pair: tuple[str, dict], draws: int = 40, ranges: dict = _RANGES) -> planning.Draws:
    """A law at known parameters in single units, and parameters scattered around them."""
    law = jl.laws.get(pair[0])
    fit = jl.Fit(
        law=law, params=dict(pair[1]), objective=0.0, metrics=dict.fromkeys(METRICS, 1.0),
        status="converged", agreement=1.0, n_starts=1, n_solved=1, runner_up=None, notes=(),
        units={spec.name: 1 / spec.unit for spec in law.inputs},
        ranges={name: ranges.get(name, (0.0, 1.0)) for name in law.input_names}, n_observations=540,
        n_dropped=0, delta=1e-3, residuals="log", asymmetry=1.0,
    )  # fmt: skip
    random = np.random.default_rng(1)
    params = {k: v * np.exp(0.01 * random.standard_normal(draws)) for k, v in pair[1].items()}
    return planning.Draws(fit, params)


def lowest_of(value, grid):
    """Brute force: the best of a fine grid, then of a finer one around it."""
    for _ in range(4):
        values = value(grid)
        best = int(np.nanargmin(values))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        grid = np.linspace(low, high, len(grid))
    return grid[np.nanargmin(value(grid))]
