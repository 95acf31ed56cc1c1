"""A fit with its data and its optimisation problem, which all of its uncertainty is made of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxlaw._jit import in_float64
from jaxlaw.data import Observations, Runs, read_runs
from jaxlaw.errors import UsageError
from jaxlaw.fitting import (
    Fit,
    FitOptions,
    FitProblem,
    FittedLaw,
    Linearisation,
    fit_with,
    law_and_options,
    linearise,
    problem_of,
    runs_of,
    split_options,
)
from jaxlaw.fitting._objective import rounding_floor, scale_on_host, summed_huber
from jaxlaw.fitting._options import OBJECTIVE
from jaxlaw.laws import Law
from jaxlaw.notes import Note

_SAME = 1e-6  # relative distance of objectives that may be of the same runs


@dataclass(frozen=True, eq=False)
class FitWithData:
    """A fit with its data and its optimisation problem.

    Attributes:
        fit: the fit.
        runs: runs it was made from.
        observations: observations that the law makes of these runs.
        options: options of the fit.
        fit_problem: problem of which the fit is an optimum, with coefficients at the reference
            values of the data.
        coordinates: (p,) search coordinates of the optimum.
    """

    fit: Fit
    runs: Runs
    observations: Observations
    options: FitOptions
    fit_problem: FitProblem
    coordinates: np.ndarray

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes of the fit."""
        return self.fit.notes

    @property
    def free_and_inside(self) -> np.ndarray:
        """(k,) indices of the coordinates that the data determine: free, and at no bound."""
        return self.fit_problem.free_and_inside(self.coordinates)

    @property
    def active(self) -> np.ndarray:
        """(k,) indices of the observations that count."""
        return np.flatnonzero(self.observations.weight > 0)

    @functools.cached_property
    def linear(self) -> Linearisation:
        """The problem linear around the optimum."""
        return linearise(self.fit_problem, self.coordinates)


def fit_with_data(law: str | Law | FittedLaw, runs: Any, **options: Any) -> FitWithData:
    """A fit, made here unless given, with its data and its problem.

    Args:
        law: fit; or a law or its name, to be fitted.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns; of Curves a fit's areas are counted as they were for
            it, and a table is read as the fit's was.
        **options: as :func:`jaxlaw.fit` takes them; with a fit only those about reading.

    Raises:
        UsageError: options that a given fit brings itself, or runs it was not made from.
        DataError: the runs cannot carry the law.
    """
    of_fit, reading = split_options(options)
    # Of a fit its own runs: read as they were for it, areas of curves counted at its λ.
    if isinstance(law, FittedLaw):
        runs = runs_of(law, runs, reading)
        if of_fit:
            raise UsageError(
                f"{', '.join(of_fit)}: a fit brings these itself; pass the law's name "
                "to fit it otherwise"
            )
        if not isinstance(law, Fit):
            raise UsageError(
                f"{law.source or law.law.name}: published coefficients, or coefficients that went "
                "through JAX, come without runs: fit your runs, and pass that fit"
            )
        fit = law
    else:
        law, fit_options = law_and_options(law, **of_fit)
        runs = read_runs(runs, **reading)
        fit = fit_with(law, runs, fit_options)
    law, fit_options = law_and_options(fit.law, **{name: getattr(fit, name) for name in OBJECTIVE})
    if not fit_options.free(law):
        raise UsageError(
            f"every parameter of this fit of law {law.name} is fixed: nothing was estimated, so "
            "there is no uncertainty to report; leave at least one parameter free"
        )
    seen = runs.observations(law, free=fit_options.free(law))
    with in_float64():
        built = problem_of(law, seen, fit_options)
        problem = FitWithData(fit, runs, seen, fit_options, built, built.coordinates(fit.params))
        data = built.unpadded
        here = summed_huber(data, problem.linear.residuals)
        floor = float(rounding_floor(built.model, data)) * scale_on_host(data)
        if not abs(here - fit.objective) <= max(_SAME * fit.objective, floor):
            raise UsageError(
                f"{seen.source}: the fit's objective is {fit.objective:.8g}, and on these runs it "
                f"is {here:.8g}: pass the runs it was fitted to, read with the same options"
            )
    return problem
