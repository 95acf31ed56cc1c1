"""The sandwich covariance: standard errors from one fit, without resampling.

An optimum of Σ wᵢ ρ(eᵢ) has the covariance H⁻¹ S H⁻¹, with S = Σ sᵢ sᵢᵀ the scatter of the scores
sᵢ = wᵢ ψ(eᵢ) ∂eᵢ, summed over a group before the product where noise is shared within one, and
H = Σ wᵢ E[ψ'(eᵢ)] ∂eᵢ ∂eᵢᵀ (Huber 1967; White 1982). With δ = 1e-3 the Huber loss has its curvature
at the few points within δ of the curve, and its Hessian at the optimum is a matter of chance: so ψ'
is smoothed, averaged over a normal kernel around each residual (Powell 1991, as for medians), whose
width is Silverman's, 0.9 · min(sd, IQR/1.34) · n^(−1/5). Of least squares (δ = ∞) nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw.arguments import checked
from jaxlaw.coordinates import Model
from jaxlaw.laws.base import Law
from jaxlaw.notes import DataError, Note
from jaxlaw.objective import LARGEST_DELTA, Problem, predict, residual
from jaxlaw.programs import EVALUATED, compiled
from jaxlaw.result import Fit
from jaxlaw.uncertainty.intervals import (
    Interval,
    at_points,
    check_level,
    of_parameters,
    student_ends,
)
from jaxlaw.uncertainty.posed_fit import Fitted, fitted
from jaxlaw.uncertainty.resampling import few_groups, group_numbers


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of a fit's parameters.

    Attributes:
        fit: the fit.
        problem: what it solves.
        coordinates: (k, k) covariance of the search coordinates ``problem.moving``.
        bread: (k, k) inverse of the smoothed Hessian of the summed objective.
        degrees: of freedom, for Student's t: rows, or groups, less parameters.
        notes: what to know before relying on it.
    """

    fit: Fit
    problem: Fitted
    coordinates: np.ndarray
    bread: np.ndarray
    degrees: int
    notes: tuple[Note, ...]

    @property
    def matrix(self) -> pd.DataFrame:
        """Covariance of the natural parameters that moved, in the law's own units."""
        names = self.fit.law.parameter_names
        _, slopes = self.problem.natural()
        whole = slopes @ self.coordinates @ slopes.T
        moved = np.abs(slopes).max(axis=1, initial=0.0) > 0
        kept = [name for name, moves in zip(names, moved, strict=True) if moves]
        return pd.DataFrame(whole[np.ix_(moved, moved)], index=kept, columns=kept)

    def slopes(self, function: Callable[[Mapping[str, Any]], Any]) -> np.ndarray:
        """Slopes (…, k) in the moving coordinates of a function of the parameters."""
        values, inner = self.problem.natural()
        names = self.fit.law.parameter_names
        with jax.enable_x64(True):
            outer = jax.jacfwd(function)(dict(zip(names, values, strict=True)))
        return self._along(outer, inner)

    def _along(self, outer: Mapping[str, Any], inner: np.ndarray) -> np.ndarray:
        """Slopes (…, k) in the moving coordinates, of slopes (…) in the parameters by name."""
        by_name = np.stack([outer[name] for name in self.fit.law.parameter_names], axis=-1)
        moved = inner.any(axis=1)  # what is held moves nothing
        return by_name[..., moved] @ inner[moved]

    def interval(
        self,
        function: Callable[[Mapping[str, Any]], Any],
        level: float = 0.95,
        log: bool = False,
    ) -> Interval:
        """The interval of any function of the parameters, by the delta method.

        Args:
            function: of a dict name → natural value in the law's own units, in ``jax.numpy``.
            level: share of such intervals that should hold the truth.
            log: take it of the logarithm, where the function is positive.
        """
        with jax.enable_x64(True):
            estimate = np.asarray(function(self.fit.params), float)
        return self._interval(estimate, self.slopes(function), level, log)

    def _interval(
        self, estimate: np.ndarray, slopes: np.ndarray, level: float, log: bool
    ) -> Interval:
        check_level(level)
        spread = np.sqrt(np.einsum("...i,ij,...j", slopes, self.coordinates, slopes))
        low, high = student_ends(estimate, spread, level, self.degrees, log)
        return Interval(estimate, spread, low, high)

    def intervals(self, level: float = 0.95) -> pd.DataFrame:
        """Every fitted parameter's interval, on the log scale if positive by nature.

        Returns:
            One row a parameter: ``parameter``, ``estimate``, ``standard error``, ``low``,
            ``high``; 0 and no width at a wall of its range.
        """
        _, slopes = self.problem.natural()
        of = dict(zip(self.fit.law.parameter_names, slopes, strict=True))

        def one(name: str, log: bool) -> Interval:
            return self._interval(np.asarray(self.fit.params[name]), of[name], level, log)

        return of_parameters(self.fit, one)

    def prediction(
        self, table: Any = None, /, *, level: float = 0.95, **inputs: Any
    ) -> pd.DataFrame:
        """The law's interval at new points: of the mean, without the noise of a new run.

        Args:
            table, **inputs: as for :meth:`jaxlaw.Fit.predict`, in units of the fitted runs.
            level: share of such intervals that should hold the truth.

        Returns:
            One row a point: the inputs, then as :meth:`intervals`.
        """
        law, units = self.fit.law, self.fit.units
        _, inner = self.problem.natural()

        def at(points: dict[str, np.ndarray]) -> Interval:
            own = {name: values.ravel() * units[name] for name, values in points.items()}
            with jax.enable_x64(True):
                estimate, outer = jax.device_get(_predicted(law, self.fit.params, own))
            return self._interval(estimate, self._along(outer, inner), level, law.space == "log")

        return at_points(self.fit, table, inputs, at)


@compiled(little=EVALUATED, static_argnames="law")
def _predicted(law: Law, params: Any, inputs: Any) -> tuple[Any, dict[str, Any]]:
    """Values (n,) of a law at points, and their slopes (n,) in its parameters by name."""

    def values(params: Any) -> Any:
        return law(params, **inputs)

    return values(params), jax.jacfwd(values)(params)


@checked
def covariance(
    law: str | Law | Fit, runs: Any, *, groups: Any = None, robust: bool = True, **options: Any
) -> Covariance:
    """The sandwich covariance of a fit.

    Args:
        law: a fit of these runs; or a law or its name, to be fitted first.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        groups: rows that share noise, as for :func:`jaxlaw.bootstrap`.
        robust: let noise differ from row to row; False takes it to be the same everywhere, and
            for least squares gives the textbook's s² (JᵀJ)⁻¹.
        **options: what else :func:`jaxlaw.fit` takes; with a fit only those about reading.

    Returns:
        The :class:`Covariance`, with the usual factor n/(n−p), or G/(G−1) for groups.

    Raises:
        UsageError: the call makes no sense, or these are not the fit's runs.
        DataError: the data leave some combination of the parameters open.
    """
    return covariance_of(fitted(law, runs, **options), groups, robust)


def covariance_of(problem: Fitted, groups: Any = None, robust: bool = True) -> Covariance:
    """As :func:`covariance`, of a problem."""
    notes: list[Note] = []
    slopes, weight, pull, stiff = linearised(problem)
    count, size = slopes.shape
    if not robust:
        stiff = np.full(count, np.average(stiff, weights=weight))
    hessian = (slopes.T * (weight * stiff)) @ slopes
    bread = inverse(hessian, problem)
    scores = slopes * (weight * pull)[:, None]
    degrees = max(count - size, 1)
    factor = count / degrees
    if groups is not None:
        members = group_numbers(problem.runs, problem.observations, groups)
        members = members[problem.active]
        scores = np.stack([np.bincount(members, column) for column in scores.T], axis=1)
        total = len(np.unique(members))
        degrees, factor = max(total - 1, 1), total / (total - 1)
        notes += few_groups(total, "standard errors come out too small")
    elif not robust:
        scores = slopes * (weight * np.sqrt(np.average(pull**2, weights=weight)))[:, None]
    whole = factor * bread @ (scores.T @ scores) @ bread
    return Covariance(problem.fit, problem, whole, bread, degrees, (*problem.notes, *notes))


def pooled_noise(problem: Fitted) -> float:
    """τ: the noise of a row as the Huber loss weighs it, taken to be the same everywhere.

    :func:`covariance` with ``robust=False`` is τ²·(JᵀWJ)⁻¹ where weights are 1.
    """
    slopes, weight, pull, stiff = linearised(problem)
    count, size = slopes.shape
    widened = np.average(pull**2, weights=weight) * count / max(count - size, 1)
    return float(np.sqrt(widened) / max(np.average(stiff, weights=weight), 1e-300))


def linearised(problem: Fitted) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What the sandwich is made of, of the rows that count.

    Returns:
        Slopes (n, k) of the residuals in the moving coordinates; weights, slope of the loss at
        each residual and its smoothed curvature (n,).
    """
    active = problem.active
    slopes, off = residual_slopes(problem)
    pull, stiff = smoothed(off[active], problem.fit.delta, problem.fit.asymmetry)
    return slopes[active][:, problem.moving], problem.observations.weight[active], pull, stiff


def moved_by_leaving_out(problem: Fitted, members: np.ndarray) -> np.ndarray:
    """How far residuals (n,) move when their own group is not fitted, to first order.

    A fit bends towards every point: its residuals are smaller than the noise, most where few
    points determine the law. In least squares, groups of one: leverage times residual.
    """
    slopes, weight, pull, stiff = linearised(problem)
    slopes = slopes / np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
    # What the data leave open moves no residual.
    bread = np.linalg.pinv((slopes.T * (weight * stiff)) @ slopes, 1e-12, hermitian=True)
    _, members = np.unique(members, return_inverse=True)
    scores = slopes * (weight * pull)[:, None]
    whole = np.stack([np.bincount(members, column) for column in scores.T], axis=1)
    return np.sum(slopes @ bread * whole[members], axis=1)


def residual_slopes(problem: Fitted) -> tuple[np.ndarray, np.ndarray]:
    """Slopes (n, p) of the residuals in all coordinates, and the residuals (n,)."""
    with jax.enable_x64(True):
        posed = problem.posed
        return tuple(map(np.asarray, _residuals(posed.model, posed.problem, problem.coordinates)))


@compiled(little=EVALUATED, static_argnames="model")
def _residuals(model: Model, problem: Problem, coordinates: Any) -> tuple[Any, Any]:
    """Slopes (n, p) of the residuals, and the residuals (n,)."""

    def off(at: Any) -> Any:
        return residual(model.space, problem, predict(model, problem, at))

    return jax.jacfwd(off)(jnp.asarray(coordinates)), off(jnp.asarray(coordinates))


def smoothed(off: np.ndarray, delta: float, asymmetry: float) -> tuple[np.ndarray, np.ndarray]:
    """Slope of the loss at each residual (n,), and its slope, averaged over the kernel."""
    from scipy.special import ndtr

    delta = min(delta, LARGEST_DELTA)
    pull = np.where(off > 0, asymmetry, 1.0) * np.clip(off, -delta, delta)
    quartiles = np.percentile(off, [25, 75])
    width = 0.9 * min(off.std(), np.ptp(quartiles) / 1.34) * len(off) ** -0.2
    width = max(width, 1e-300)
    below, middle, above = (ndtr((end - off) / width) for end in (-delta, 0.0, delta))
    return pull, asymmetry * (above - middle) + (middle - below)


def inverse(hessian: np.ndarray, problem: Fitted) -> np.ndarray:
    """Of a Hessian (k, k) of any scale.

    Raises:
        DataError: it is singular.
    """
    size = np.sqrt(np.maximum(np.diagonal(hessian), 1e-300))
    scaled = hessian / np.outer(size, size)
    if not np.isfinite(scaled).all() or np.linalg.cond(scaled) > 1e12:
        raise DataError(
            f"{problem.observations.source}: the data leave some combination of the parameters "
            f"of law {problem.fit.law.name} open; jl.identifiability says which"
        )
    return np.linalg.inv(scaled) / np.outer(size, size)
