"""Simulated domains of the cross-domain law: their early curves, runs and true parameters.

Que 2024 prints neither the k's of its six domains nor the run they are of. Here every domain has
a probe run of its own, L(t) = floor + drop·(1 + t/1,000 steps)^−rate, and its k's are those of
that curve; its other runs obey the law with these k's. Floors, drops and rates are ours, chosen
so that neither k1 nor k2 alone orders the domains as K does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._typed import LogNoise, Seed, StepCount, checked
from jaxlaw.data._learnability import learnability_coefficients

Inputs = dict[str, np.ndarray]

# domain: floor and drop in nats, rate.
_PROBES = {
    "code": (0.75, 0.30, 0.9),
    "math": (0.95, 0.62, 0.7),
    "law": (1.20, 0.95, 0.8),
    "music": (0.55, 0.80, 1.2),
    "chemistry": (1.45, 0.42, 0.6),
    "medical": (1.75, 1.30, 1.0),
}


@checked
def early_curves(noise: LogNoise = 0.0, seed: Seed = 0, steps: StepCount = 20_000) -> pd.DataFrame:
    """The probe runs of the six domains: columns ``domain``, ``step``, ``loss``.

    Args:
        noise: standard deviation of the noise on the log of the loss.
        seed: of the noise.
        steps: the last one; evaluated every 1,000, from 0 on.
    """
    step = np.arange(0, steps + 1, 1000)
    normal = np.random.default_rng(seed).standard_normal((len(_PROBES), len(step)))
    parts = [
        pd.DataFrame(
            {
                "domain": domain,
                "step": step,
                "loss": (floor + drop * (1 + step / 1000) ** -rate) * np.exp(noise * drawn),
            }
        )
        for (domain, (floor, drop, rate)), drawn in zip(_PROBES.items(), normal, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


@cache
def _learnabilities() -> pd.DataFrame:
    return learnability_coefficients(early_curves(), by="domain", law="dcpt-cross-k4")


def design(law: str, steps: Sequence[int] = (1000, 2000, 5000, 10_000, 20_000)) -> Inputs:
    """Six domains × the runs of Que 2024, §4.1, at some of its 20 evaluations: 810 points."""
    names = [name for name in laws.get(law).input_names if name in _learnabilities()]
    axes = np.meshgrid(
        np.arange(len(_PROBES)),
        [0.5, 1.8, 4.0],
        np.asarray(steps) * 64 * 2048 * 1e-9,
        [0.0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0],
        indexing="ij",
    )
    domain, N, D, r = (axis.ravel() for axis in axes)
    own = {name: _learnabilities()[name].to_numpy()[domain] for name in names}
    return {"N": N, "D": D, "r": r, **own}


_SHARED = dict(
    E=0.35, A=0.5, B=0.06, C=0.5, alpha=0.5, beta=0.5, gamma=0.6, eta=1.3, eps=0.15
)  # fmt: skip
#: True parameters by experiment, chosen to look like that paper's domain losses.
TRUTHS: Mapping[str, Mapping[str, float]] = {
    "dcpt-cross-k1": _SHARED | {"F": 0.4, "mu": 1.2},
    "dcpt-cross-k2": _SHARED | {"F": 0.5, "mu": 0.5},
    "dcpt-cross": _SHARED | {"F": 0.8, "mu": 1.5, "w2": 0.9},
    "dcpt-cross-k4": _SHARED | {"F": 1.2, "mu": 1.5, "w2": 0.9, "w3": 0.004},
}
