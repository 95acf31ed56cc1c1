"""Draws: a fitted law with values of its parameters, of resamples, a posterior or a covariance.

Every uncertain law is one: a bootstrap, the posterior of a forecast, draws of a file, a fit
with draws of its covariance, and coefficients without any. Plans take nothing else, by
:func:`as_draws`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._jit import in_float64
from jaxlaw._quantities import Quantity
from jaxlaw._result import Result
from jaxlaw.errors import UsageError
from jaxlaw.fitting import Fit, FittedLaw, StandardErrors, moved_params, predict_each
from jaxlaw.laws import Law
from jaxlaw.notes import DEPENDENT_ROWS, LOOSE_FIT, Note
from jaxlaw.uncertainty._intervals import COLUMNS, LEVEL, Interval, interval_of

#: Of the covariance of a fit: the ends of a 95% interval have an error of 0.13 of its standard
#: deviation, and a plan that is searched draw by draw takes half a minute at 1,000.
N_DRAWS = 400
_STEP = 1e-3  # of a normal draw, at which the law's tangent is taken


class DrawnParameters:
    """What draws of the parameters show, of a bootstrap as of :class:`Draws`."""

    fit: FittedLaw
    params: Mapping[str, np.ndarray]
    degrees: float

    def conf_int(self, confidence_level: float = LEVEL) -> pd.DataFrame:
        """Confidence interval of every fitted parameter that moves: percentiles of the draws.

        Args:
            confidence_level: fraction of such intervals that should hold the truth.

        Returns:
            One row per parameter, in the law's own units: ``parameter``, ``estimate``,
            ``std_err``, ``low``, ``high``.

        Raises:
            UsageError: there are no draws, or the level is outside (0, 1).

        Example:
            >>> runs = {"C": [1e18, 1e19, 1e20, 1e21], "loss": [3.0, 2.7, 2.5, 2.2]}
            >>> boot = jl.bootstrap("loss-compute", runs, n_resamples=10, n_starts=16)
            >>> boot.conf_int()["parameter"].tolist()
            ['a', 'b']
        """
        if not self.params:
            raise UsageError("a fit without draws has no intervals: bootstrap it")
        own, rows = self.fit.numbers(), []
        for name in self.fit.law.parameter_names:
            draws = np.asarray(self.params.get(name, own[name]), float)
            if name not in self.fit.fixed and np.ptp(draws):
                found = interval_of(own[name], draws, confidence_level, self.degrees)
                rows.append((name, *map(float, found)))
        return pd.DataFrame(rows, columns=["parameter", *COLUMNS])

    def interval(
        self, function: Callable[[Mapping[str, Any]], Any], confidence_level: float = LEVEL
    ) -> Interval:
        """The interval of any function of the parameters.

        Args:
            function: function of a dict name → (R,) natural values in the law's own units, to
                (R, …).
            confidence_level: as for :meth:`conf_int`.

        Returns:
            ``estimate``, ``std_err``, ``low`` and ``high``, each of the function's shape.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> boot = jl.bootstrap("chinchilla", table, n_resamples=40, progress=False)
            >>> exponent = boot.interval(lambda p: p["beta"] / (p["alpha"] + p["beta"]))
            >>> bool(exponent.low < exponent.high)
            True
        """
        own = {name: np.array([value]) for name, value in self.fit.params.items()}
        with in_float64():  # the function may be one of jax.numpy
            estimate, draws = np.asarray(function(own))[0], np.asarray(function(self.params))
        return interval_of(estimate, draws, confidence_level, self.degrees)

    def predict(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """The target at new points by every draw, (R, …).

        Args:
            table, **inputs: points as for :meth:`jaxlaw.Fit.predict`, in units of the fitted
                runs.

        Returns:
            float64 of the draws and the broadcast shape of the inputs.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> boot = jl.bootstrap("chinchilla", table, n_resamples=40, progress=False)
            >>> boot.predict(N=[7e9, 7e10], D=1e12).shape
            (40, 2)
        """
        fit, values = self.fit, self.fit.checked_inputs(table, inputs)
        if fit.law.inputs_per_drop:  # such inputs have an axis that parameters have not
            each = pd.DataFrame(dict(self.params)).to_dict("records")
            return np.stack([fit.with_params(params).predict(**values) for params in each])
        arrays = np.broadcast_arrays(*[value * fit.units[name] for name, value in values.items()])
        flat = {name: array.ravel() for name, array in zip(values, arrays, strict=True)}
        predicted = self.predicted(flat)
        return predicted.reshape(len(predicted), *arrays[0].shape)

    def predicted(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """(R, m) of flat inputs in the law's own units."""
        return predict_each(self.fit.law, self.params, inputs)


@dataclass(frozen=True, eq=False, repr=False)
class Draws(DrawnParameters, Result):
    """A fit and its parameters on resampled runs: all that a plan needs of a bootstrap.

    Attributes:
        fit: fit of the runs as they are.
        params: parameter → (R,) natural values in the law's own units; empty for a law without
            draws. Row k of two bootstraps of the same runs belongs together.
        notes: notes of the bootstrap.
        kind: what was resampled, such as ``case`` or ``wild``; empty if unknown.
        groups: columns by which rows were resampled in groups, as a :class:`jaxlaw.Bootstrap` has
            them; None where rows were resampled one by one.
        degrees: degrees of freedom of the draws' spread (:attr:`jaxlaw.Bootstrap.degrees`).
        noise: relative standard deviation of single runs; NaN if unknown.
        sigma: (R,) draws of the relative run-to-run noise; None if unknown.
        effective: effective number of draws of a posterior, of its worst coordinate.
        conflict: tail probability of the posterior under the prior: small where runs overrule it.
        log_evidence: log of the probability density of the runs under law and prior.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> boot = jl.bootstrap("chinchilla", table, n_resamples=20, n_starts=16)
        >>> boot.draws().save("draws.json")
        >>> draws = jl.uncertainty.Draws.load("draws.json")
        >>> sorted(jl.planning.allocation(draws, 1e21).interval)
        ['D', 'N', 'loss']
    """

    fit: FittedLaw
    params: Mapping[str, np.ndarray]
    notes: tuple[Note, ...] = ()
    kind: str = ""
    groups: tuple[str, ...] | None = None
    degrees: float = math.inf
    noise: float = math.nan
    sigma: np.ndarray | None = None
    effective: float = math.nan
    conflict: float = math.nan
    log_evidence: float = math.nan
    picture = "parameter_intervals"

    @property
    def standard_errors(self) -> StandardErrors:
        """The standard errors and the covariance that the draws show."""
        spread = {
            name: values
            for name, values in self.params.items()
            if np.nanmax(values) > np.nanmin(values)
        }
        draws = np.stack([*spread.values()])
        matrix = np.atleast_2d(np.cov(draws[:, np.isfinite(draws).all(axis=0)]))
        rows = [dict(zip(spread, row, strict=True)) for row in matrix.tolist()]
        return StandardErrors(
            values=dict(zip(spread, np.sqrt(np.diagonal(matrix)).tolist(), strict=True)),
            covariance=dict(zip(spread, rows, strict=True)),
            degrees=int(min(self.degrees, self.rows - 2)),
        )

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The parameters of the fit of the runs as they are."""
        return self.fit.quantities

    @property
    def headline(self) -> str:
        """How many draws there are, of what law."""
        of = f" ({self.kind})" if self.kind else ""
        count = len(next(iter(self.params.values()), ()))
        return f"{self.law.name}: {count} draws{of} of {self.fit.origin()}"

    def draws(self) -> Draws:
        """The draws themselves, as a bootstrap and a forecast give theirs."""
        return self

    @property
    def law(self) -> Law:
        """The law."""
        return self.fit.law

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Parameter → (1 + R,) natural values: of the fit itself, then of its R draws.

        Raises:
            UsageError: a parameter of the law has no draws, or the fit is a stack of several.
        """
        law, own = self.law, self.fit.numbers()
        if not self.params:
            return {name: np.array([own[name]]) for name in law.parameter_names}
        missing = [name for name in law.parameter_names if name not in self.params]
        if missing:
            raise UsageError(f"the draws lack the parameter {', '.join(missing)} of {law.name}")
        return {
            name: np.concatenate([[own[name]], np.asarray(self.params[name], float)])
            for name in law.parameter_names
        }

    @property
    def rows(self) -> int:
        """1 + R."""
        return len(next(iter(self.values.values())))

    @property
    def units(self) -> dict[str, float]:
        """Input → one of the user's units in the law's own."""
        return self.fit.units

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Input → (lowest, highest) fitted, in the user's units; NaN where a paper prints none.

        Bare parameters without a source have none: they were fitted to no known runs.
        """
        known = self.fit.source or any(low == low for low, _ in self.fit.ranges.values())
        return self.fit.ranges if known else {}

    @property
    def joint(self) -> Mapping[str, tuple[float, float]]:
        """Product or ratio of two inputs → (lowest, highest) fitted; empty if unknown."""
        return self.fit.joint_ranges or {}

    @property
    def warnings(self) -> tuple[Note, ...]:
        """The notes, of the fit and of its draws, that a plan repeats."""
        # Dependent rows leave parameters as they are. They make intervals too short, and that
        # only where single rows were drawn.
        by_rows = bool(self.params) and self.groups is None
        notes = dict.fromkeys((*self.fit.notes, *self.notes))
        return tuple(
            note for note in notes if note.inherited or (by_rows and note.code == DEPENDENT_ROWS)
        )

    def predicted(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """As of others; of normal draws on the law's tangent, by the delta method.

        Where parameters are known in their sum alone, normal draws of them bend the law: the
        90% interval of a prediction among nine runs that were fitted to 0.1% reached from 0 to 9%
        above it. So draws are taken a small step from the fit, and the change of the prediction is
        scaled up.
        """
        if self.kind != "normal":
            return super().predicted(inputs)
        near = {
            name: column[0] * (column / column[0]) ** _STEP
            if self.law.parameter(name).scale == "log" and column[0] > 0
            else column[0] + _STEP * (column - column[0])
            for name, column in self.values.items()
        }
        predicted = predict_each(self.law, near, inputs)
        at, moved = predicted[:1], predicted[1:]
        with np.errstate(all="ignore"):  # of a target below zero there is no logarithm
            return np.where(at > 0, at * (moved / at) ** (1 / _STEP), at + (moved - at) / _STEP)

    def without(self) -> Draws:
        """The fit alone, without draws."""
        return replace(self, params={})

    def inputs_taken(self, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
        """Those of the inputs, given for several laws, that this law takes."""
        return {name: v for name, v in (inputs or {}).items() if name in self.law.input_names}

    def scale(self, name: str) -> float:
        """Raw counts (parameters, tokens, FLOPs) in one of the user's units of an input."""
        return self.fit.input_units()[name][1]


def has_draws(given: Any) -> bool:
    """Whether a value gives draws by a method ``draws()``: a bootstrap, a forecast, draws."""
    return callable(getattr(type(given), "draws", None))


def as_draws(*given: Any) -> tuple[Draws, ...]:
    """The uncertain laws that a plan was given, with as many draws each.

    Args:
        *given: each a fit, (law, params), draws, or what gives draws: a bootstrap, a
            covariance, a forecast. A :class:`jaxlaw.Fit` has draws of the covariance of its
            standard errors; published coefficients and (law, params) have none, and are repeated
            beside the draws of another. With (law, params) inputs and answers are in the law's own
            units, with the others in those of the fitted runs.

    Raises:
        UsageError: something else, parameters that are not the law's, or two bootstraps of
            different length.

    Example:
        >>> from jaxlaw.uncertainty import as_draws
        >>> (law,) = as_draws(jl.published()["besiroglu-2024"])
        >>> law.rows, float(law.values["alpha"][0])
        (1, 0.347313)
    """
    every = [_draws_of(one) for one in given]
    counts = {draws.rows for draws in every} - {1}
    if len(counts) > 1:
        words = " and ".join(str(count - 1) for count in sorted(counts))
        raise UsageError(f"the bootstraps have {words} draws; give them the same number")
    size = counts.pop() - 1 if counts else N_DRAWS
    # Fits are of runs of their own, and so are their draws; a fit that is given twice has the same.
    first = [next(k for k, other in enumerate(given) if other is one) for one in given]
    every = [
        _of_covariance(one, size, seed) if isinstance(one, Fit) else draws
        for one, draws, seed in zip(given, every, first, strict=True)
    ]
    uncertain = any(draws.params for draws in every)
    for k, one in enumerate(every):
        if uncertain and not one.params:  # each of its draws is the fit itself
            params = {name: np.repeat(values, size) for name, values in one.values.items()}
            # Nothing was resampled, so that no rows were resampled one by one.
            every[k] = replace(one, params=params, groups=())
    return tuple(every)


def _draws_of(given) -> Draws:
    if isinstance(given, FittedLaw):
        return Draws(given, {})
    if has_draws(given):
        return given.draws()
    try:
        law, params = given
    except (TypeError, ValueError):
        raise UsageError(
            "give a Fit, (law, params), a bootstrap, a covariance or a forecast, not "
            f"{repr(given) if isinstance(given, str) else type(given).__name__}: fit a law first"
        ) from None
    law = laws.get(law)
    if not isinstance(params, Mapping):
        raise UsageError(f"law {law.name} has the parameters {', '.join(law.parameter_names)}")
    return Draws(FittedLaw(law, dict(params)), {})


def _of_covariance(fit: Fit, count: int, seed: int) -> Draws:
    """A fit with draws of the covariance that came with its standard errors.

    They are normal, those of what is positive by nature in its logarithm, as the draws of a
    covariance are that was read from a file. A fit whose runs leave its parameters open has none,
    and a note: with what is open held, they would be too narrow.
    """
    errors, own = fit.standard_errors or StandardErrors(), fit.numbers()
    open_ = [name for name, why in errors.missing.items() if why == "not determined"]
    if open_ or not errors.values:
        reason = f"the runs do not determine {', '.join(open_)}" if open_ else errors.reason
        fixed = {*own} <= {*fit.fixed}
        note = Note(LOOSE_FIT, "warning", f"no interval from the fit: {reason}", inherited=True)
        return Draws(fit, {}, (note,) if reason and not fixed else ())
    moves = np.random.default_rng(seed).standard_normal((count, len(errors.covariance)))
    steps = dict(zip(errors.covariance, errors.root() @ moves.T, strict=True))
    with np.errstate(over="ignore"):  # of what is hardly known: such draws have no plan
        drawn = moved_params(fit.law, fit.params, steps)
    params = {name: np.full(count, value) for name, value in own.items()} | drawn
    return Draws(fit, params, (), "normal", errors.groups or None, errors.degrees)
