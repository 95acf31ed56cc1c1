"""A fit together with the problem it solves, which its uncertainty is a matter of."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxlaw import laws
from jaxlaw._jit import in_float64
from jaxlaw.data._runs import Observations, Runs, read_runs
from jaxlaw.errors import UsageError
from jaxlaw.fitting._diagnostics import at_walls
from jaxlaw.fitting._fit import fit as fit_runs
from jaxlaw.fitting._fit import observed, options_for
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._linearise import Linearisation, linearise
from jaxlaw.fitting._objective import residual_huber, rounding_floor, scale_on_host
from jaxlaw.fitting._problem import Options, Posed, pose
from jaxlaw.fitting._result import Fit
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note

#: Options of :func:`jaxlaw.fit` that say what is fitted; a fit brings its own.
PROBLEM = ("constraint", *list(inspect.signature(options_for).parameters)[1:])
#: … that say how it is searched for.
SEARCH = ("starts", "n_starts", "screen", "solver", "strict", "seed", "work_dir", "progress",
          "distributed", "compile_cache")  # fmt: skip
_SAME = 1e-6  # relative distance of objectives that may be of the same runs


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit and its problem.

    Attributes:
        fit: the fit.
        runs: the runs it was made from.
        observations: of them.
        options: of the fit.
        posed: its problem, coefficients moved as they are.
        coordinates: (p,) its optimum there.
    """

    fit: Fit
    runs: Runs
    observations: Observations
    options: Options
    posed: Posed
    coordinates: np.ndarray

    @property
    def notes(self) -> tuple[Note, ...]:
        """The fit's, and what its uncertainty leaves out."""
        if all(note.code != "decay-fitted" for note in self.fit.notes):
            return self.fit.notes
        decay = self.fit.area_options["decay"]
        message = (
            f"λ was fitted too, and is held at {decay:.6g} here: what is not known of it is not in "
            "these intervals"
        )
        return (*self.fit.notes, Note("decay-held", "warning", message))

    @property
    def moving(self) -> np.ndarray:
        """(k,) indices of coordinates that the data settle: not held, tied or at a wall."""
        low, high = np.asarray(self.posed.problem.low), np.asarray(self.posed.problem.high)
        names = self.posed.model.law.parameter_names
        walls = at_walls(self.posed, self.coordinates)
        free = [low[k] < high[k] and names[k] not in walls for k in range(len(names))]
        return np.flatnonzero(free)

    @property
    def active(self) -> np.ndarray:
        """(k,) indices of the observations that count."""
        return np.flatnonzero(self.observations.weight > 0)

    @functools.cached_property
    def linear(self) -> Linearisation:
        """The problem linear around the optimum."""
        return linearise(self.posed, self.coordinates)

    def natural(self) -> tuple[np.ndarray, np.ndarray]:
        """Natural parameters (p,), in the law's own units, and slopes (p, k) in what moves."""
        return self.linear.params, self.linear.params_jacobian[:, self.moving]


def fitted(law: str | Law | FittedLaw, runs: Any, **options: Any) -> Fitted:
    """A fit, made here unless given, and its problem.

    Args:
        law: a fit; or a law or its name, to be fitted.
        runs: what :func:`jaxlaw.read_runs` takes or returns; of Curves a fit's areas are counted
            as they were for it.
        **options: as :func:`jaxlaw.fit` takes them; with a fit only those about reading.

    Raises:
        UsageError: options that a given fit brings itself, or runs it was not made from.
        DataError: the runs cannot carry the law.
    """
    problem = {name: options.pop(name) for name in PROBLEM if name in options}
    search = {name: options.pop(name) for name in SEARCH if name in options}
    if isinstance(law, FittedLaw) and law.area_options is not None and hasattr(type(runs), "runs"):
        runs = runs.runs(**law.area_options)  # curves: areas counted as for the fit, at its λ
    runs = read_runs(runs, **options)
    if isinstance(law, FittedLaw):
        if problem or search:
            raise UsageError(
                f"{', '.join([*problem, *search])}: a fit brings these itself; pass the law's name "
                "to fit it otherwise"
            )
        if not isinstance(law, Fit):
            raise UsageError(
                f"{law.source or law.law.name}: coefficients that a paper prints, or that went "
                "through JAX, are the optimum of no runs that are here; fit your runs, and pass "
                "that fit"
            )
        fit = law
    else:
        fit = fit_runs(law, runs, **problem, **search)
    asked = Options(
        fit.delta, fit.space, fit.asymmetry, fit.fixed, fit.tied or {}, fit.bounds or {}
    )
    law = laws.get(fit.law)
    if not asked.free(law):
        raise UsageError(
            f"every parameter of this fit of law {law.name} is fixed: nothing was estimated, so "
            "there is no uncertainty to tell; leave a parameter free"
        )
    seen = observed(law, runs, asked)
    with in_float64():
        posed = pose(law, seen.inputs, seen.target, seen.weight, asked, True)
        problem = Fitted(fit, runs, seen, asked, posed, posed.place(fit.params))
        _check_same(problem)
    return problem


def _check_same(problem: Fitted) -> None:
    fit, posed, seen = problem.fit, problem.posed, problem.observations
    scale = scale_on_host(posed.problem)
    here = residual_huber(posed.problem, problem.linear.residuals)
    floor = float(rounding_floor(posed.model, jax.device_get(posed.problem))) * scale
    if not abs(here - fit.objective) <= max(_SAME * fit.objective, floor):
        remedy = "pass the runs it was made from, read in the same way"
        if (
            fit.area_options is not None
            and seen.area_options is not None
            and fit.area_options != seen.area_options
        ):
            remedy = (
                f"their areas are counted with {_listed(seen.area_options)}, the fit's with "
                f"{_listed(fit.area_options)}; pass the curves, or curves.runs(**fit.area_options)"
            )
        raise UsageError(
            f"{seen.source}: the fit's objective is {fit.objective:.8g}, and on these runs it is "
            f"{here:.8g}: {remedy}"
        )


def _listed(areas: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in areas.items())
