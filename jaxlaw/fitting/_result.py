"""What a fit gives back: a fitted law with the evidence for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from jaxlaw._arrays import LEVEL, check_level
from jaxlaw._quantities import SHARE, written
from jaxlaw._typed import NotNegative, only
from jaxlaw.data import Reading
from jaxlaw.fitting._fitted_law import MAPPED, FittedLaw, digits, of_parameters, register_as_tree
from jaxlaw.laws import Law
from jaxlaw.notes import OWN_FLOPS, REMEDIES, beyond_step, by_weight, remedy_of

Metric = Literal[
    "r2", "rmse", "huber_linear", "mean_huber_linear",
    "r2_log", "rmse_log", "huber", "mean_huber",
]  # fmt: skip
LAWS = ("skaling", "chinchilla", "loss-compute-e")  # of the library of the field
_FEW = 40  # runs up to which public experiments may well say more than they
_LARGER = 3.0  # times the largest N and D: the run whose forecast is proposed


@dataclass(frozen=True, eq=False)
class Experiment:
    """What one fitted experiment says of the next.

    Attributes:
        source: who made it: experiments of one source are alike beyond what laws are.
        name: what it is called.
        evaluation: name of what its target was measured on; empty if unknown.
        law: name of the law.
        mean: (k,) ``log_floor``, then the law's scale-free coordinates.
        covariance: (k, k) of its fit.
        noise: relative standard deviation of its runs about the law.
        runs: number of its runs.
        ranges: input → (least, largest), in single parameters, tokens, FLOPs.
        reference: where it was published, and under which licence.
        hashes: those of its runs, see :func:`run_hashes`.
    """

    source: str
    name: str
    evaluation: str
    law: str
    mean: np.ndarray
    covariance: np.ndarray
    noise: float
    runs: int
    ranges: dict[str, tuple[float, float]]
    reference: str
    hashes: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunnerUp:
    """The next best optimum.

    Attributes:
        objective: summed Huber loss there.
        share: fraction of the starts that ended there.
        params: name → value there.
    """

    objective: float
    share: float
    params: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class StandardErrors:
    """Standard errors of the parameters of a fit, or why there are none.

    They are those of :func:`jaxlaw.covariance`.

    Attributes:
        values: parameter → standard error, in the law's own units.
        missing: parameter → why it has none, though others have one.
        reason: why no parameter has one; empty where some have.
        degrees: degrees of freedom of Student's t: n−p of n rows, G−1 of G groups.
        groups: columns that name the groups of rows whose noise is shared; of independent rows
            there are none.
        covariance: parameter → parameter → covariance, of those that have a standard error, and of
            values from a base.

    Example:
        >>> fit = jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table)
        >>> errors = fit.standard_errors
        >>> sorted(errors.values), errors.degrees
        (['A', 'B', 'E', 'alpha', 'beta'], 238)
    """

    values: dict[str, NotNegative] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    degrees: int = 0
    groups: tuple[str, ...] = ()
    covariance: dict[str, dict[str, float]] = field(default_factory=dict)

    def root(self) -> np.ndarray:
        """The root (m, m) of the covariance, whose product with its transpose it is.

        The symmetric one of the correlations, which a processor does not choose as it does the
        signs of eigenvectors.
        """
        matrix = np.array([[*row.values()] for row in self.covariance.values()])
        size = np.sqrt(np.diagonal(matrix))
        by = np.where(size > 0, size, 1.0)  # 0 of what runs without noise determine
        value, vector = np.linalg.eigh(matrix / np.outer(by, by))  # units differ by decades
        return size[:, None] * (vector * np.sqrt(np.maximum(value, 0.0))) @ vector.T

    def text(self) -> str:
        """How they were made, or why there are none, as a line of a summary."""
        if self.reason:
            return f"no standard errors: {self.reason}"
        return f"standard errors: {self.source()}"

    def source(self) -> str:
        """How they were made, in words."""
        groups = f", rows in groups by {', '.join(self.groups)}" if self.groups else ""
        degrees = f"{self.degrees} degree{'' if self.degrees == 1 else 's'} of freedom"
        return f"sandwich covariance, t with {degrees}{groups}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Fit(FittedLaw):
    """A law fitted to runs: a :class:`jaxlaw.FittedLaw` with the evidence for its parameters.

    To JAX it is the tree of its parameters, and comes back as a :class:`jaxlaw.FittedLaw`: of other
    parameters this evidence would not be true.

    Attributes:
        objective: summed Huber loss of residuals at the optimum.
        metrics: ``r2``, ``rmse``, ``huber_linear`` in the target, ``r2_log``, ``rmse_log``,
            ``huber`` in its logarithm. Huber losses are summed over the observations, as in the
            tables of Que 2024; ``mean_huber`` and ``mean_huber_linear`` are per observation.
        status: end of the best lane: ``converged``, or with something left to gain
            ``stalled`` or ``step limit``.
        agreement: fraction of the solved starts that ended at the best objective (to 1e-6).
        n_starts: number of starts tried.
        n_solved: number of these that were solved to the end.
        runner_up: next best optimum, or None.
        n_observations: number of rows fitted.
        n_dropped: number of rows dropped on request.
        delta, residuals, asymmetry: settings of the objective.
        tied, bounds: parameters that were tied, and bounds that were set.
        solver: name of what solved the starts.
        device: platform that solved them: cpu, gpu or tpu.
        optima: (objective, fraction of the solved starts) of the distinct optima, the best first,
            eight at most.
        reading: how the runs were read: columns, units, rows. Whatever takes this fit with a table
            of the same columns reads that table so, unless options differ; None if unknown, as
            of arrays.
        base: standard errors of the fixed values that came from a base, which are in those of this
            fit; None without a base.
        experiment: what the fit says of a next experiment, for the prior of a posterior; None
            without ``evaluation=``, of a law that has none, and where a parameter ended at a bound.
        standard_errors: standard errors of the parameters, or why there are none; None of a file
            that was written without them.
        observed: the fitted runs, for pictures: inputs in their units, and the target; None of
            more than 2,000 runs, and of a file that was written without them.

    Example:
        >>> fit = jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table, n_starts=256)
        >>> fit.status, fit.success, fit.n_observations
        ('converged', True, 243)
    """

    objective: NotNegative
    metrics: dict[Metric, float]
    status: str
    agreement: NotNegative
    n_starts: int
    n_solved: int
    runner_up: RunnerUp | None
    n_observations: int
    n_dropped: int
    residuals: Literal["log", "linear"]
    asymmetry: NotNegative
    solver: str = "newton"
    device: str = "cpu"
    tied: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    optima: tuple[tuple[NotNegative, NotNegative], ...] = ()
    reading: Reading | None = None
    base: StandardErrors | None = None
    experiment: Experiment | None = None
    standard_errors: StandardErrors | None = None
    observed: pd.DataFrame | None = None

    @property
    def r2(self) -> float:
        """R² in the target."""
        return self.metrics["r2"]

    @property
    def rmse(self) -> float:
        """Root mean square error in the target."""
        return self.metrics["rmse"]

    @property
    def mean_huber(self) -> float:
        """Huber loss of log residuals per observation."""
        return self.metrics["mean_huber"]

    @property
    def success(self) -> bool:
        """Whether the search converged and no note says not to use the numbers."""
        errors = any(note.severity == "error" for note in self.notes)
        return self.status == "converged" and not errors

    @property
    def headline(self) -> str:
        """The error of the law on its runs, whether restarts agree, and the gravest note."""
        off = self.metrics["rmse_log"]
        error = written(off, SHARE) if math.isfinite(off) else written(self.rmse, self.target_unit)
        largest = self.largest_compute()
        up_to = f" up to {written(largest, 'FLOPs')}" if largest == largest else ""
        up_to += " (6·N·D)" * any(note.code == OWN_FLOPS for note in self.notes)
        parts = [
            f"{self.law.name}: RMSE {error}, R² {self.r2:.4f} on {self.n_observations} rows{up_to}",
            f"{self._agreeing()} restarts agree" if self.status == "converged" else self.status,
        ]
        deciding = [note for note in by_weight(self.notes) if note.decides][:1]
        words = {"error": "do not use it", "warning": "caution"}
        parts += [f"{words[note.severity]}: {note.code}" for note in deciding]
        return "; ".join(parts)

    @property
    def next_step(self) -> str:
        """The remedy of the gravest note; a forecast where rows are few."""
        few = self.law.name in LAWS and self.n_observations <= _FEW
        larger = {name: _LARGER * high for name, (_, high) in self.ranges.items()}
        step = beyond_step(larger, "a larger run, under a prior from public experiments")
        codes = ("few-rows", "few-spare-rows", "loose") if few else ()
        return remedy_of(self.notes, {**REMEDIES, **dict.fromkeys(codes, step)})

    def conf_int(self, confidence_level: float = LEVEL) -> pd.DataFrame:
        """Standard errors and confidence intervals of the fitted parameters.

        They are those of :func:`jaxlaw.covariance`, on the log scale of what is positive by
        nature, with rows of one run as one group where the note ``dependent-rows`` appears.

        Args:
            confidence_level: fraction of such intervals that should hold the truth.

        Returns:
            One row per parameter that was fitted, in the law's own units: ``parameter``,
            ``estimate``, ``std_err``, ``low``, ``high``; NaN where there is no standard error to
            rely on, which :attr:`standard_errors` has the reason of.

        Raises:
            UsageError: a level outside (0, 1).

        Example:
            >>> fit = jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table)
            >>> rows = fit.conf_int().set_index("parameter")
            >>> bool(rows["low"]["alpha"] < fit.params["alpha"] < rows["high"]["alpha"])
            True
        """
        errors = self.standard_errors or StandardErrors()
        return student_rows(self, errors.values, confidence_level, errors.degrees)

    def _spreads(self) -> dict[str, tuple[str, str]]:
        errors = self.standard_errors
        if errors is None or not errors.values:
            return {}
        return {
            row.parameter: ("", errors.missing[row.parameter])
            if math.isnan(row.std_err)
            else (digits(row.std_err, 2), f"{digits(row.low, 4)} to {digits(row.high, 4)}")
            for row in self.conf_int().itertuples()
        }

    def origin(self) -> str:
        """The source of the parameters."""
        dropped = f" ({self.n_dropped} dropped)" if self.n_dropped else ""
        source = f" from {self.source}" if self.source else ""
        return f"{self.n_observations} observations{dropped}{source}"

    def lines(self) -> list[str]:
        """The formula, where the rows come from, the parameters, and what their intervals are."""
        formula, *rest = super().lines()
        known = [] if self.standard_errors is None else [self.standard_errors.text()]
        if known and any(note.code == "decay-fitted" for note in self.notes):
            known = [f"{known[0]}, λ held"]
        if known and self.base is not None and self.base.values:
            known = [f"{known[0]}, with those of {', '.join(self.base.values)} of the base"]
        return [formula, self.origin(), *rest, *(["", *known] if known else [])]

    def _agreeing(self) -> str:
        return f"{round(self.agreement * self.n_solved)} of {self.n_solved}"

    def details(self) -> list[str]:
        """How good the fit is, and how its starts ended."""
        of_log = ", in log: R² {r2_log:.5f}, RMSE {rmse_log:.4g}".format(**self.metrics)
        evidence = [
            f"objective {self.objective:.8g} (sum of Huber, δ {self.delta:g}, {self.residuals})",
            f"R² {self.r2:.5f}, RMSE {self.rmse:.4g}"
            + of_log * (not math.isnan(self.metrics["rmse_log"])),
            f"{self.status}; {self._agreeing()} restarts reached the same optimum "
            f"({self.n_starts} screened{f', on the {self.device}' * (self.device != 'cpu')})",
        ]
        if self.runner_up is not None:
            evidence.append(
                f"runner-up objective {self.runner_up.objective:.8g} "
                f"({self.runner_up.share:.0%} of starts)"
            )
        return [*evidence, *super().details()]

    @classmethod
    def _consistent(cls, values: dict) -> dict:
        values = super()._consistent(values)
        law = values["law"]
        if values["runner_up"] is not None:
            only(values["runner_up"].params, law.parameter_names, "runner_up.params.")
        if (errors := values.get("standard_errors")) is not None:
            of_parameters(law, {**errors.values, **errors.missing})
        tied = {name: law.parameter(other).name for name, other in values["tied"].items()}
        bounds = of_parameters(law, values["bounds"])
        return values | {"tied": of_parameters(law, tied), "bounds": bounds}


def student_interval(
    estimate: np.ndarray, spread: np.ndarray, confidence_level: float, degrees: float, log: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds estimate ± t · spread; of the logarithm, to first order, where ``log``."""
    reach = stdtrit(degrees, (1 + confidence_level) / 2) * spread
    if log:
        with np.errstate(over="ignore"):  # of what is not known at all the upper one is infinite
            return estimate * np.exp(-reach / estimate), estimate * np.exp(reach / estimate)
    return estimate - reach, estimate + reach


def student_rows(
    fit: Fit, errors: Mapping[str, float], confidence_level: float, degrees: float
) -> pd.DataFrame:
    """A row for each fitted parameter: value, standard error (NaN of none), bounds."""
    check_level(confidence_level)
    rows = []
    for spec in fit.law.parameters:
        if spec.name not in fit.fixed:
            known = fit.params[spec.name], errors.get(spec.name, math.nan)
            ends = student_interval(*known, confidence_level, degrees, spec.scale == "log")
            rows.append((spec.name, *known, *map(float, ends)))
    return pd.DataFrame(rows, columns=["parameter", "estimate", "std_err", "low", "high"])


def moved_params(
    law: Law, params: Mapping[str, float], steps: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Parameters (R,) after steps (R,) of them; those positive by nature move in their logarithm.

    Args:
        law: the law.
        params: natural values of its parameters.
        steps: parameter → steps, of those that move.
    """
    return {
        name: params[name] * np.exp(step / params[name])
        if law.parameter(name).scale == "log" and params[name] > 0
        else params[name] + step
        for name, step in steps.items()
    }


register_as_tree(Fit, notes=(MAPPED,))
