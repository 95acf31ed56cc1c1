"""Problems with known answers, one at least for every registered law.

Whoever tests a fitter takes them from here: ``for problem in PROBLEMS``. They are themselves
tested in ``test_problems.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from jaxlaw import laws, simulate
from jaxlaw.laws._base import Law

experiment = cache(simulate.experiment)


@dataclass(frozen=True)
class Problem:
    """A law, runs that obey it, and the parameters they were made with.

    name: the simulated experiment's.
    law: the law to fit.
    truth: its true parameters, natural values in the law's own units; at noise 0 the
        objective there is 0, and nothing is lower.
    """

    name: str
    law: Law
    truth: Mapping[str, float]

    def table(self, noise: float = 0.0, seed: int = 0) -> pd.DataFrame:
        """The runs: a column for each input, in the law's own units, and the target's."""
        return experiment(self.name, noise, seed).table.copy()

    def arrays(self, noise: float = 0.0, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The runs as inputs {name: (n,)} and target (n,)."""
        table = self.table(noise, seed)
        inputs = {name: table[name].to_numpy() for name in self.law.input_names}
        return inputs, table[self.law.target].to_numpy()

    def truth_vector(self) -> np.ndarray:
        """The truth, (p,) in the order of the law's parameters."""
        return np.array([self.truth[name] for name in self.law.parameter_names])

    def starts(self, n: int = 16, seed: int = 0, spread: float = 0.1) -> np.ndarray:
        """Starting points around the truth, (n, p), natural values.

        Parameters that are large only because of their unit (A carries N^alpha) would make
        the start absurd if they moved alone, so each moves with its unit: what it is at the
        centre of the data is multiplied by exp(spread · normal), as the others are.
        """
        inputs, _ = self.arrays()
        normal = np.random.default_rng(seed).standard_normal((n, len(self.law.parameters)))
        moved = self.truth_vector() * np.exp(spread * normal)
        by_name = dict(zip(self.law.parameter_names, moved.T, strict=True))
        for column, spec in enumerate(self.law.parameters):
            for name, power in (spec.centre or {}).items():
                at = np.log(inputs[name]).mean()
                if not isinstance(power, str):
                    continue
                sign, power = (-1, power[1:]) if power.startswith("-") else (1, power)
                unit = sign * at * (by_name[power] - self.truth[power])
                if spec.scale == "log":
                    moved[:, column] *= np.exp(unit)
                else:  # a logarithm: its unit adds up
                    moved[:, column] = self.truth[spec.name] + unit
        return moved


PROBLEMS = tuple(
    Problem(name, made.law, made.truth)
    for name, made in ((name, experiment(name, 0.0)) for name in simulate.TRUTHS)
)


def problem(name: str) -> Problem:
    """The problem of that name."""
    return next(each for each in PROBLEMS if each.name == name)


def laws_without_problem() -> set[str]:
    """Registered laws that no problem covers: a new law comes with one."""
    return set(laws.names()) - {each.law.name for each in PROBLEMS}
