"""The sandwich covariance: standard errors from one fit, without resampling.

An optimum of Σ wᵢ ρ(eᵢ) has the covariance H⁻¹ S H⁻¹, with S the scatter of the scores
sᵢ = wᵢ ψ(eᵢ) ∂eᵢ, summed over a group where noise is shared within one, and
H = Σ wᵢ E[ψ'(eᵢ)] ∂eᵢ ∂eᵢᵀ (Huber 1967; White 1982). With δ = 1e-3 the Huber loss has its curvature
at the few points within δ of the curve, and its Hessian at the optimum is a matter of chance: so ψ'
is smoothed, averaged over a normal kernel around each residual (Powell 1991, as for medians), whose
width is Silverman's, 0.9 · min(sd, IQR/1.34) · n^(−1/5). Of least squares (δ = ∞) nothing changes.

A fit bends towards its points, so that the scores at the optimum are smaller than the noise makes
them, most where few points decide. Each row, or group, is therefore treated as if it had not been
fitted: the covariance is (G−1)/G Σ dᵍ dᵍᵀ with dᵍ = (H − Hᵍ)⁻¹ sᵍ, the way the optimum goes when
the group is left out. Of least squares that is the jackknife by groups, CR3, and by rows HC3
(MacKinnon and White 1985; MacKinnon, Nielsen and Webb 2023, who show it to hold best of few
groups). Intervals take Student's t with n−p degrees of freedom, or G−1 of G groups.

The law is assumed correct. :func:`jaxlaw.posterior` has what it may miss, and a prior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Unpack

import jax
import numpy as np
import pandas as pd

from jaxlaw._arrays import check_level
from jaxlaw._jit import in_float64
from jaxlaw._typed import checked
from jaxlaw.data import without_dependence_note
from jaxlaw.errors import DataError
from jaxlaw.fitting import (
    Fit,
    FitKeywords,
    FittedLaw,
    lists_options,
    moved_params,
    moves_of_base,
    sandwich_root,
    student_interval,
    student_rows,
)
from jaxlaw.fitting._objective import leave_group_out_steps, smoothed_score
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.uncertainty._draws import Draws
from jaxlaw.uncertainty._fit_problem import FitWithData, fit_with_data
from jaxlaw.uncertainty._followed import followed
from jaxlaw.uncertainty._groups import few_groups, group_numbers, names_of
from jaxlaw.uncertainty._intervals import LEVEL, Interval, ParameterIntervals


@dataclass(frozen=True, eq=False, repr=False)
class Covariance(ParameterIntervals):
    """The covariance of a fit's parameters.

    Attributes:
        fit: fit whose covariance it is.
        coordinates: (k, k) covariance of the search coordinates that the data determine, and then
            of those of values from a base.
        jacobian: (p, k) slopes of the natural parameters, in the law's own units, in these.
        bread: inverse of the smoothed Hessian of the summed objective in the first of these, those
            that the data determine.
        degrees: degrees of freedom of Student's t: n−p of n rows, G−1 of G groups.
        notes: what to know before relying on it.
        groups: columns that name the groups of rows, as a :class:`jaxlaw.Bootstrap` has them.
        problem: the fit with its data; None where it was read from a file.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> cov = jl.covariance("chinchilla", table)
        >>> cov.degrees, list(cov.matrix)
        (238, ['E', 'A', 'B', 'alpha', 'beta'])
    """

    fit: Fit
    coordinates: np.ndarray
    jacobian: np.ndarray
    bread: np.ndarray
    degrees: int
    notes: tuple[Note, ...]
    groups: tuple[str, ...] | None = None
    problem: FitWithData | None = field(default=None, compare=False)

    def how(self) -> str:
        """Which covariance it is, in words."""
        by = "" if self.groups is None else f", rows in groups by {', '.join(self.groups)}"
        return f"sandwich covariance{by}"

    @property
    def matrix(self) -> pd.DataFrame:
        """Covariance of the natural parameters that moved, in the law's own units."""
        names = self.fit.law.parameter_names
        slopes = self.jacobian
        covariance = slopes @ self.coordinates @ slopes.T
        moved = np.abs(slopes).max(axis=1, initial=0.0) > 0
        kept = [name for name, moves in zip(names, moved, strict=True) if moves]
        return pd.DataFrame(covariance[np.ix_(moved, moved)], index=kept, columns=kept)

    def interval(
        self, function: Callable[[Mapping[str, Any]], Any], confidence_level: float = LEVEL
    ) -> Interval:
        """The interval of any function of the parameters, by the delta method.

        Args:
            function: function of a dict name → natural value in the law's own units, in
                ``jax.numpy``.
            confidence_level: fraction of such intervals that should hold the truth.

        Returns:
            ``estimate``, ``std_err``, ``low`` and ``high``, each of the function's shape.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> cov = jl.covariance("chinchilla", table)
            >>> exponent = cov.interval(lambda p: p["beta"] / (p["alpha"] + p["beta"]))
            >>> bool(exponent.low < exponent.high)
            True
        """
        with in_float64():
            params = {name: np.asarray(value) for name, value in self.fit.params.items()}
            estimate, outer = np.asarray(function(params), float), jax.jacfwd(function)(params)
        check_level(confidence_level)
        by_name = np.stack([outer[name] for name in self.fit.law.parameter_names], axis=-1)
        moved = self.jacobian.any(axis=1)  # what is held moves nothing
        slopes = by_name[..., moved] @ self.jacobian[moved]
        spread = np.sqrt(np.einsum("...i,ij,...j", slopes, self.coordinates, slopes))
        between = student_interval(estimate, spread, confidence_level, self.degrees, log=False)
        return Interval(estimate, spread, *between)

    def conf_int(self, confidence_level: float = LEVEL) -> pd.DataFrame:
        """Confidence interval of every fitted parameter, on the log scale if positive by nature.

        Args:
            confidence_level: fraction of such intervals that should hold the truth.

        Returns:
            One row per parameter, in the law's own units: ``parameter``, ``estimate``,
            ``std_err``, ``low``, ``high``; a parameter at a bound of its range has the standard
            error 0 and no width.

        Raises:
            UsageError: a level outside (0, 1).

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> list(jl.covariance("chinchilla", table).conf_int(0.9))
            ['parameter', 'estimate', 'std_err', 'low', 'high']
        """
        spread = np.sqrt(np.einsum("...i,ij,...j", self.jacobian, self.coordinates, self.jacobian))
        errors = dict(zip(self.fit.law.parameter_names, spread.tolist(), strict=True))
        return student_rows(self.fit, errors, confidence_level, self.degrees)

    def draws(self, n_draws: int = 1000, seed: int = 0) -> Draws:
        """Draws of the parameters with this covariance, for plans and pictures.

        Each is a normal draw of what the runs show, and the parameters with which the law comes
        nearest to it (:mod:`jaxlaw.uncertainty._followed`). Plans take the covariance itself, too,
        and draw as often as is the default here.

        Args:
            n_draws: number of draws.
            seed: seed of the generator.

        Returns:
            Draws whose spread is known with :attr:`degrees` degrees of freedom. Those of a
            covariance that was read from a file, which holds no runs, are normal in the parameters,
            in the logarithms of positive ones: where these are hardly known they bend the law.
            Predictions, and losses of a budget's best run, are then taken from the law's tangent;
            those of other plans come out too high (note ``draws-disagree``).

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> cov = jl.covariance("chinchilla", table)
            >>> sorted(jl.planning.allocation(cov, 1e21).interval)
            ['D', 'N', 'loss']
        """
        if (n_draws, seed) not in self._kept:
            sizes, axes = np.linalg.eigh(self.coordinates)
            root = axes * np.sqrt(np.maximum(sizes, 0.0))
            moves = np.random.default_rng(seed).standard_normal((n_draws, len(sizes))) @ root.T
            fit, steps = self.fit, (moves @ self.jacobian.T).T
            named = dict(zip(fit.law.parameter_names, steps, strict=True))
            drawn, kind = moved_params(fit.law, fit.params, named), "normal"
            if self.problem is not None:
                kind, values = "covariance", () if fit.base is None else fit.base.values
                of_base = {name: drawn[name] for name in values}
                drawn = self.problem.fit_problem.params(followed(self.problem, moves, of_base))
                drawn |= of_base
            made = Draws(fit, drawn, self.notes, kind, self.groups, self.degrees)
            self._kept[n_draws, seed] = made
        return self._kept[n_draws, seed]

    @cached_property
    def _kept(self) -> dict[tuple[int, int], Draws]:
        """Number and seed → draws: a plan asks for the same ones several times."""
        return {}


@lists_options
@checked
def covariance(
    law: str | Law | FittedLaw, runs: Any, *, groups: Any = None, **options: Unpack[FitKeywords]
) -> Covariance:
    """The sandwich covariance of a fit, whose law is assumed correct.

    Noise may differ from row to row: each row or group is treated as if it had not been
    fitted (HC3; CR3 of groups).

    Its intervals are of the parameters of a law that is assumed correct: the interval of a new run
    is that of :func:`jaxlaw.forecast`, which adds what laws miss beyond their runs.

    Args:
        law: fit of these runs; or a law or its name, to be fitted first.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        groups: columns or labels of rows that share noise, as for :func:`jaxlaw.bootstrap`; of a
            sweep, whose cells a law of learning rate and batch misses each in its own
            way, ``["N", "D"]``.
        **options: other options of :func:`jaxlaw.fit`; with a fit only those about reading.

    Returns:
        The :class:`Covariance`.

    Raises:
        UsageError: the call makes no sense, or these are not the fit's runs.
        DataError: the data leave some combination of the parameters open.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> rows = jl.covariance("chinchilla", table).conf_int().set_index("parameter")
        >>> bool(rows["std_err"]["alpha"] < 0.01)
        True

    Shell:
        jaxlaw covariance fit.json runs.csv --groups N,r
    """
    return covariance_of(fit_with_data(law, runs, **options), groups)


def covariance_of(problem: FitWithData, groups: Any = None) -> Covariance:
    """:func:`covariance` of a fit with its data."""
    slopes, weight, score, score_slope = sandwich_parts(problem)
    count, size = slopes.shape
    bread = inverse((slopes.T * (weight * score_slope)) @ slopes, problem)
    members = group_numbers(problem.runs, problem.observations, groups)[problem.active]
    total, degrees = count, max(count - size, 1)
    notes, what = [*without_dependence_note(problem.notes, groups)], "rows"
    if groups is not None:
        total, what = len(np.unique(members)), "groups"
        degrees = max(total - 1, 1)
        notes += few_groups(total, "their variance is roughly estimated, so intervals are wide")
    # H⁻¹ S H⁻¹ with S = Σ sᵢ sᵢᵀ of the scores at the optimum (HC0) is too small, most for rows of
    # high leverage, whose residuals the fit has made small. HC3 takes the score of each row at the
    # optimum of the others instead, for the step from there to here is −(H − Hᵢ)⁻¹ sᵢ; CR3 does it
    # by whole groups, where dividing rows by 1 − h would miss what the rows of a group share. The
    # factor (G−1)/G is the jackknife's. A group without which H is singular has no such step.
    root, decided = sandwich_root(slopes, weight, score, score_slope, members)
    whole = root.T @ root
    if decided.any():
        message = (
            f"{decided.sum()} of the {total} {what} alone determine some combination of the "
            "parameters: its uncertainty cannot be estimated from their scatter, so standard "
            "errors are too small"
        )
        notes.append(Note("decided-by-one", "warning", message, inherited=False))
    jacobian = problem.linear.params_jacobian[:, problem.free_and_inside]
    of_base = moves_of_base(
        problem.fit_problem, problem.coordinates, problem.linear, weight * score_slope
    )
    if len(of_base):
        base, names = problem.fit.base, problem.fit.law.parameter_names
        moving = [*problem.free_and_inside, *map(names.index, base.values)]
        whole = np.pad(whole, (0, len(of_base))) + of_base[:, moving].T @ of_base[:, moving]
        jacobian = problem.linear.params_jacobian[:, moving]
        degrees = min(degrees, base.degrees)
    named = names_of(groups, len(problem.runs))
    return Covariance(problem.fit, whole, jacobian, bread, degrees, tuple(notes), named, problem)


def pooled_noise(problem: FitWithData) -> float:
    """τ: the noise of a row as the Huber loss weighs it, taken to be the same everywhere.

    With a small δ as many residuals as there are parameters lie within it, whatever the noise: the
    curve goes through their points, and their density there would come out too high. So each is
    the geometric mean of the residual and that of a fit without its row; of least squares this is
    the standardised residual e/√(1−h).
    """
    slopes, weight, score, _ = sandwich_parts(problem)
    count, size = slopes.shape
    widened = np.average(score**2, weights=weight) * count / max(count - size, 1)
    off = problem.linear.residuals[problem.active]
    left_out = off + moved_by_leaving_out(problem, np.arange(count))
    standard = np.sign(left_out) * np.sqrt(np.abs(off * left_out))
    _, score_slope = smoothed_score(standard, problem.fit.delta, problem.fit.asymmetry)
    return float(np.sqrt(widened) / max(np.average(score_slope, weights=weight), 1e-300))


def sandwich_parts(problem: FitWithData) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The parts of the sandwich, for the rows that count.

    Returns:
        Slopes (n, k) of the residuals in the moving coordinates; weights, slope of the loss at
        each residual and its smoothed curvature (n,).
    """
    active, linear = problem.active, problem.linear
    score, score_slope = smoothed_score(
        linear.residuals[active], problem.fit.delta, problem.fit.asymmetry
    )
    weight = problem.observations.weight[active]
    return linear.jacobian[active][:, problem.free_and_inside], weight, score, score_slope


def moved_by_leaving_out(problem: FitWithData, members: np.ndarray) -> np.ndarray:
    """The change (n,) of residuals where their own row or group is not fitted.

    A fit bends towards every point: its residuals are smaller than the noise, most where few
    points determine the law. In least squares, groups of one: h/(1−h) times the residual, h its
    leverage.
    """
    slopes, weight, score, score_slope = sandwich_parts(problem)
    moves, _ = leave_group_out_steps(slopes, weight, score, score_slope, members)
    _, members = np.unique(members, return_inverse=True)
    return np.sum(slopes * moves[members], axis=1)


def inverse(hessian: np.ndarray, problem: FitWithData) -> np.ndarray:
    """Of a Hessian (k, k) of any scale.

    Raises:
        DataError: it is singular, or of no parameter.
    """
    if not hessian.size:
        raise DataError(
            f"{problem.observations.source}: every free parameter of law {problem.fit.law.name} is "
            "at a bound of its range, and has no standard error: fit another law, or widen bounds="
        )
    size = np.sqrt(np.maximum(np.diagonal(hessian), 1e-300))
    scaled = hessian / np.outer(size, size)
    if not np.isfinite(scaled).all() or np.linalg.cond(scaled) > 1e12:
        raise DataError(
            f"{problem.observations.source}: the data do not determine some combination of the "
            f"parameters of law {problem.fit.law.name}; jl.identifiability says which"
        )
    return np.linalg.inv(scaled) / np.outer(size, size)
