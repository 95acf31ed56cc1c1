"""What a fit gives back: a fitted law with the evidence for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from jaxlaw._quantities import SHARE, written
from jaxlaw._typed import NotNegative, only
from jaxlaw.data import Reading
from jaxlaw.fitting._fitted_law import MAPPED, FittedLaw, of_parameters, register_as_tree
from jaxlaw.fitting._prior import Experiment, Prior
from jaxlaw.fitting._scores import Metric, WithMetrics, accuracy_line
from jaxlaw.notes import by_weight


@dataclass(frozen=True)
class RunnerUp:
    """The next best optimum.

    Attributes:
        objective: summed Huber loss there.
        share: share of the starts that ended there.
        params: name → value there.
    """

    objective: float
    share: float
    params: dict[str, float]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Fit(WithMetrics, FittedLaw):
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
        agreement: share of the solved starts that ended at the best objective (to 1e-6).
        n_starts: number of starts tried.
        n_solved: number of these that were solved to the end.
        runner_up: next best optimum, or None.
        n_observations: number of rows fitted.
        n_dropped: number of rows dropped on request.
        delta, residuals, asymmetry: settings of the objective.
        tied, bounds: parameters that were tied, and bounds that were set.
        solver: name of what solved the starts.
        optima: (objective, share of the solved starts) of the distinct optima where starts ended,
            the best first, eight at most.
        reading: how the runs were read: columns, units, rows. Whatever takes this fit with a table
            of the same columns reads that table so, unless options differ; None if unknown, as
            of arrays.
        prior: what was known beforehand, with the noise that weighed it; None for nothing.
        experiment: what the fit says of a next experiment, for priors; None of a law that takes
            none, and where a parameter ended at a bound.
        sample: (2, k) observed and predicted target of some rows, for a picture; not saved.

    Example:
        >>> fit = jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table, n_starts=256)
        >>> fit.status, fit.success, fit.n_observations
        ('converged', True, 243)
    """

    objective: NotNegative = field(metadata={"unit": ""})
    metrics: dict[Metric, float]
    status: str
    agreement: NotNegative = field(metadata={"unit": SHARE})
    n_starts: int
    n_solved: int
    runner_up: RunnerUp | None
    n_observations: int
    n_dropped: int
    residuals: Literal["log", "linear"]
    asymmetry: NotNegative = field(metadata={"unit": ""})
    solver: str = "newton"
    tied: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    optima: tuple[tuple[NotNegative, NotNegative], ...] = ()
    reading: Reading | None = None
    prior: Prior | None = None
    experiment: Experiment | None = None
    sample: np.ndarray | None = field(default=None, metadata={"saved": False})

    @property
    def success(self) -> bool:
        """Whether the search converged and no note says not to use the numbers."""
        errors = any(note.severity == "error" for note in self.notes)
        return self.status == "converged" and not errors

    @property
    def headline(self) -> str:
        """How well the law describes how many runs, and what makes that doubtful."""
        off = self.metrics["rmse_log"]
        error = written(off, SHARE) if math.isfinite(off) else written(self.rmse, self.target_unit)
        largest = self.largest_compute()
        up_to = f" up to {written(largest, 'FLOPs')}" if largest == largest else ""
        agreeing = "all" if self.agreement == 1 else f"{self.agreement:.0%} of"
        parts = [
            f"{self.law.name}: {self.n_observations} rows{up_to} to within {error} (RMSE), R² "
            f"{self.r2:.4f}",
            f"{agreeing} starts agree" if self.status == "converged" else self.status,
        ]
        deciding = [note for note in by_weight(self.notes) if note.decides][:1]
        words = {"error": "do not use it", "warning": "first to look at"}
        parts += [f"{words[note.severity]}: {note.code}" for note in deciding]
        return "; ".join(parts)

    def origin(self) -> str:
        """Where the parameters come from, in words."""
        dropped = f" ({self.n_dropped} dropped)" if self.n_dropped else ""
        source = f" from {self.source}" if self.source else ""
        return f"{self.n_observations} observations{dropped}{source}"

    def lines(self) -> list[str]:
        """The formula, where the rows come from, the parameters, and the evidence for them."""
        formula, *rest = super().lines()
        return [formula, self.origin(), *rest]

    def _evidence(self) -> list[str]:
        evidence = [
            f"  objective {self.objective:.8g} (sum of Huber, δ {self.delta:g}, {self.residuals})",
            accuracy_line(self.metrics),
            f"  {self.status}; {self.agreement:.0%} of {self.n_solved} solved starts agree "
            f"({self.n_starts} tried)",
        ]
        if self.runner_up is not None:
            evidence.append(
                f"  runner-up objective {self.runner_up.objective:.8g} "
                f"({self.runner_up.share:.0%} of starts)"
            )
        return [*evidence, *super()._evidence()]

    @classmethod
    def _consistent(cls, values: dict[str, Any]) -> dict[str, Any]:
        values = super()._consistent(values)
        law = values["law"]
        if values["runner_up"] is not None:
            only(values["runner_up"].params, law.parameter_names, "runner_up.params.")
        tied = {name: law.parameter(other).name for name, other in values["tied"].items()}
        bounds = of_parameters(law, values["bounds"])
        return values | {"tied": of_parameters(law, tied), "bounds": bounds}


register_as_tree(Fit, notes=(MAPPED,))
