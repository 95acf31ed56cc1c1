"""The forecast of a run not yet made: estimate, interval, what its width comes from, and a file."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Unpack

import jax
import numpy as np
import pandas as pd
from scipy import stats

from jaxlaw import _progress
from jaxlaw._arrays import real_numbers
from jaxlaw._quantities import SHARE, in_unit, times, written, written_range
from jaxlaw._result import Result
from jaxlaw._tables import is_table, read_table
from jaxlaw._typed import Between, Seed, checked
from jaxlaw._version import __version__
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting import (
    FittedLaw,
    ForecastKeywords,
    Prior,
    PriorEvidence,
    Refits,
    conflict_notes,
    excludes_prior,
    field_remedies,
    fit_many,
    joint_ranges,
    linearise,
    lists_options,
    prior_evidence,
)
from jaxlaw.forecasting._backtest import SEARCH, Backtest, laws_and_data, make_backtest
from jaxlaw.forecasting._calibration import (
    OF_DISAGREEMENT,
    Beforehand,
    Calibration,
    CutoffErrors,
    backtest_coverage,
    calibrate,
    common_scale,
    disagreement,
    weighted,
)
from jaxlaw.forecasting._cutoffs import (
    N_CUTOFFS,
    Along,
    CutoffFits,
    compute_of,
    fit_cutoffs,
    fit_resamples,
    known_beforehand,
    values_along,
)
from jaxlaw.forecasting._forecast_notes import (
    notes_of_backtest,
    notes_of_coverage,
    notes_of_points,
)
from jaxlaw.forecasting._weighted_laws import weighted_draws
from jaxlaw.laws import Input
from jaxlaw.notes import FAR, REMEDIES, Note, forbid, largest_run_step, remedy_of
from jaxlaw.uncertainty import Draws
from jaxlaw.validation import Candidate, DataSet

#: Levels of the quantiles that a forecast keeps, close together in the tails.
LEVELS = stats.norm.cdf(np.linspace(-3.3, 3.3, 265))
SHARES = ("from_noise", "from_parameters", "from_choice", "from_common")
_WIDTHS = dict(
    zip(
        SHARES,
        ("the noise of single runs", "the parameters", "the choice among laws",
         "the laws' common error"),
        strict=True,
    )
)  # fmt: skip
_SHORT = dict(zip(SHARES, ("noise", "parameters", "choice of law", "common error"), strict=True))
_COLUMNS = dict.fromkeys(
    ("distance", "laws", "shift", "estimate", "low", "high", *SHARES, "prior_share", "wide_prior"),
    float,
)
_WIDTH = 0.05  # half-width of an interval, relative, from which it is wide
_ROUNDING = 1e-6  # of a distance
_WIDE = 5.0  # factor of a prior's standard deviations, to see how much it moves


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Result):
    """A forecast of runs that were not yet made; :func:`jaxlaw.load` reads its file.

    Attributes:
        table: one row a point: the inputs, in the units of the runs; ``distance`` (log of the
            ratio to the largest run; 0 inside the runs); ``laws``, what the weighted laws say;
            ``shift``, relative correction for the bias that laws have shown with the distance, on
            public experiments and in the back-test (0.02 raises the estimate by 2 %);
            ``estimate``, the median; ``low`` and ``high``, the interval for a new run at ``level``;
            and the shares of the variance, of sum 1:
            ``from_noise`` (what single runs differ by), ``from_parameters``, ``from_choice``
            (among laws), ``from_common`` (what all laws err by at that distance); and
            ``prior_share``, the share of the variance that what was known beforehand leaves, a
            part of ``from_parameters``; ``wide_prior``, what the heaviest law with a prior would
            say by one five times as wide (NaN without any): how much the prior moves.
        level: share of such intervals that should hold the run.
        target: name of what is predicted.
        along: what distances are of.
        weights: label of a law → (m,) its weight at each point.
        fits: label of a law → the law fitted to all runs.
        quantiles: (265, m) quantiles of the target at Φ(z), z even from −3.3 to 3.3.
        units: input → raw units of one of the table's.
        runs: number of runs, ``fingerprint`` of their inputs, targets and weights, ``source``.
        created: date and time, UTC, in ISO 8601.
        package_versions: package → version.
        resamples: label of a law → parameter → (R,) values of its fits to resampled runs.
        error_model: what plans need of each point, (m,), all relative: ``shift``, the log of the
            factor by which the estimate is moved; ``per_e_fold``, the scale of the laws' common
            error for each factor e of distance, and the ``degrees`` of freedom of its Student's t;
            ``noise``, the standard deviation of single runs, and ``scatter``, the variance of what
            they differ by beyond it, in units of the squared scale of the laws' errors.
        prior: what was known beforehand, with the noise of these runs; None for nothing.
        backtest_coverage: share of later runs inside the intervals that forecasts made at the
            cut-offs of the back-test would have had at this level, each cut-off counting once;
            None without one.
        notes: what to know before betting on it.
        observed: (n,) of the runs, for pictures: ``along``, what distances are of, and ``target``.
        backtest: the back-test it rests on; None of a forecast read from a file, and of one whose
            runs were too few for any.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> forecast = jl.forecast(
        ...     ["chinchilla", "kaplan"], runs, at={"N": 1e10, "D": 4e11}, n_starts=64
        ... )
        >>> row = forecast.table.iloc[0]
        >>> bool(row["low"] < row["estimate"] < row["high"])
        True
        >>> float(row.filter(like="from_").sum().round(6))
        1.0
    """

    picture = "forecast_intervals"

    table: pd.DataFrame = field(metadata={"columns": _COLUMNS})
    level: float = field(metadata={"unit": SHARE})
    target: str
    along: str
    weights: dict[str, np.ndarray]
    fits: dict[str, FittedLaw]
    quantiles: np.ndarray
    units: dict[str, float]
    runs: dict[str, Any]
    created: str
    package_versions: dict[str, str]
    resamples: dict[str, dict[str, np.ndarray]]
    error_model: dict[Literal["shift", "per_e_fold", "degrees", "noise", "scatter"], np.ndarray]
    notes: tuple[Note, ...]
    prior: Prior | None = None
    backtest_coverage: float | None = field(default=None, metadata={"unit": SHARE})
    observed: dict[str, np.ndarray] = field(default_factory=dict)
    backtest: Backtest | None = field(default=None, metadata={"saved": False})

    @property
    def inputs(self) -> list[str]:
        """Names of the columns that say where the points are."""
        return list(self.table.columns[: list(self.table).index("distance")])

    def draws(self, law: str | None = None) -> Draws:
        """The weighted laws as one law with draws, as plans take it; they take a forecast, too.

        Weights, shift and common error are the means over the forecast's points. Each draw is one
        of the laws, as often as it weighs, fitted to a resample of the runs, with its share of the
        laws' common error; single runs' noise is not in it.

        Args:
            law: label of a law that is to stand alone; None takes all of them as they weigh.

        Raises:
            UsageError: there is no such law, or the laws cannot be weighted.

        Example:
            >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
            >>> forecast = jl.forecast("chinchilla", runs, at={"N": 1e10, "D": 4e11}, n_starts=64)
            >>> sorted(jl.planning.allocation(forecast, 2e22).interval)
            ['D', 'N', 'loss']
        """
        if law is None:
            return self._weighted
        if law not in self.fits:
            raise UsageError(
                f"the forecast has no law '{law}'; it has {', '.join(self.fits)}."
                f"{nearest(law, self.fits)}"
            )
        return self._weighted.by_law[law].draws

    @cached_property
    def _weighted(self) -> Draws:
        """All laws as they weigh: what a plan looks at many times."""
        weights = {label: float(np.mean(values)) for label, values in self.weights.items()}
        common = self.error_model["per_e_fold"] * self.table["distance"].to_numpy()
        errors = self.error_model | {"common": common}
        errors = {name: float(np.mean(values)) for name, values in errors.items()}
        # Forecasts of other runs draw their common errors apart. Six digits of the parameters: the
        # runs' fingerprint is another where their last bits are, and so were the intervals.
        params = {label: fit.numbers().items() for label, fit in self.fits.items()}
        digits = [f"{label} {k}={v:.6g}" for label in sorted(params) for k, v in params[label]]
        seed = zlib.crc32(" ".join(digits).encode())
        return weighted_draws(
            self.fits, weights, self.resamples, errors, self.notes, seed, self._computes()
        )

    def _computes(self) -> tuple[float, float]:
        """Least and largest training compute of the points, FLOPs; NaN without N and D, or C."""
        raw = {name: self.table[name] * self.units.get(name, 1.0) for name in self.inputs}
        try:
            own = next((fit.flops for fit in self.fits.values() if fit.flops), None)
            compute = compute_of(raw, "the forecast", own=own)
        except UsageError:
            return np.nan, np.nan
        return float(compute.min()), float(compute.max())

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """The interval for a new run at another level: (m,) low and high.

        Args:
            level: between 0 and 0.999.

        Raises:
            UsageError: another level.

        Example:
            >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
            >>> forecast = jl.forecast("chinchilla", runs, at={"N": 1e10, "D": 4e11}, n_starts=64)
            >>> low, high = forecast.interval(0.5)
            >>> bool((forecast.table["low"] < low).all() and (high < forecast.table["high"]).all())
            True
        """
        if not 0 < level <= 0.999:
            raise UsageError(f"level is between 0 and 0.999, not {level}")
        return _quantile(self.quantiles, (1 - level) / 2), _quantile(
            self.quantiles, (1 + level) / 2
        )

    def probability_below_at(self, points: Any, observed: Any) -> np.ndarray:
        """(k,) probability of a lower target: evenly spread over (0, 1) if forecasts are good.

        Args:
            points: (k,) numbers of the table's rows.
            observed: (k,) target of a run made there.
        """
        normal_scores = stats.norm.ppf(LEVELS)
        return np.array([
            stats.norm.cdf(np.interp(np.log(y), np.log(self.quantiles[:, point]), normal_scores))
            for point, y in zip(points, observed, strict=True)
        ])  # fmt: skip

    @property
    def quantities(self) -> dict[str, float]:
        """None: its numbers are those of its points, in the table."""
        return {}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of an input, of what is predicted, or of a share."""
        if name in ("laws", "estimate", "low", "high", "wide_prior"):
            return next(iter(self.fits.values())).target_unit, 1.0
        if name in ("shift", "prior_share") or name in SHARES:
            return SHARE, 1.0
        known = (fit.input_units() for fit in self.fits.values())
        unit = next((units[name][0] for units in known if name in units), "")
        return unit, self.units.get(name, 1.0)

    def shown(self) -> dict[str, pd.DataFrame]:
        """Each point with its interval, its distance, and most of what its width comes from."""
        labels, far = self._labels(), np.exp(self.table["distance"])
        columns: dict[str, Any] = {
            name: labels[name].labels_of(self.table[name]) if name in labels else self.table[name]
            for name in self.inputs
        }
        columns |= {"estimate": self.table["estimate"]}
        columns |= {f"estimate_{side}": self.table[side] for side in ("low", "high")}
        columns["beyond the runs"] = [times(one) if one > 1 else "inside" for one in far]
        shares = self.table[list(SHARES)].rename(columns=_SHORT).T
        columns["width from"] = [
            ", ".join(f"{name} {written(share, SHARE)}" for name, share in own.nlargest(2).items())
            for _, own in shares.items()
        ]
        return {"table": pd.DataFrame(columns)}

    def _labels(self) -> dict[str, Input]:
        """Input whose values are labels, such as groups → what it knows of them."""
        return {s.name: s for fit in self.fits.values() for s in fit.law.inputs if s.levels}

    @property
    def headline(self) -> str:
        """The run farthest from the others, with its interval and what that comes from."""
        if self.table.empty:
            return ""
        row = self.table.loc[self.table["distance"].idxmax()]
        most = max(SHARES, key=lambda name: row[name])
        more = f"; {len(self.table) - 1} more below" if len(self.table) > 1 else ""
        return f"{self._point(row)}; most of the width is from {_WIDTHS[most]}{more}"

    @property
    def next_step(self) -> str:
        """The largest run that can be paid for, where it narrows the interval; or a remedy."""
        laws = [fit.law.name for fit in self.fits.values()]
        of_few = field_remedies(laws, self.prior, int(self.runs["count"]))
        step = remedy_of(self.notes, {**REMEDIES, **of_few})
        if step or self.table.empty or forbid(self.notes):
            return step
        row = self.table.loc[self.table["distance"].idxmax()]
        wide = (row["high"] - row["low"]) / 2 >= _WIDTH * row["estimate"]
        narrows = max(SHARES, key=lambda name: row[name]) != "from_noise"
        far = np.exp(row["distance"]) >= FAR or (wide and row["distance"] > 0)
        if not (far and narrows and {"N", "D"} <= {*self.inputs}):
            return ""
        tokens, size = (row[name] * self.units.get(name, 1.0) for name in ("D", "N"))
        return largest_run_step(tokens / size)

    def _point(self, row: pd.Series) -> str:
        """A run, its estimate and interval, and how far it is from the runs."""
        labels = self._labels()
        inputs = [
            f"{name} {labels[name].labels_of(row[name])}"
            if name in labels
            else f"{name} {written(row[name], *self.unit_of(name))}"
            for name in self.inputs
        ]
        where, unit = ", ".join(inputs), self.unit_of("estimate")
        between = written_range(row["low"], row["high"], *unit)
        far = "within the runs"
        if row["distance"]:
            of = "largest run" if self.along == "compute" else f"runs in {self.along}"
            far = f"{times(np.exp(row['distance']))} beyond the {of}"
        return (
            f"{where}: {self.target} of a new run {written(row['estimate'], *unit)} "
            f"({100 * self.level:g} %: {between}); {far}"
        )

    def lines(self) -> list[str]:
        """Each point with its interval, and what the width comes from."""
        lines = [f"{self.runs['count']} runs from {self.runs['source']}"]
        if self.backtest_coverage is not None:
            lines.append("made at earlier cut-offs, such intervals held "
                         f"{self.backtest_coverage:.0%} of the runs then to come")  # fmt: skip
        lines += self._prior_line()
        for k, row in self.table.iterrows():
            lines += [
                *([self._point(row)] if len(self.table) > 1 else []),
                f"  the laws say {written(row['laws'], *self.unit_of('laws'))}, moved by "
                f"{row['shift']:+.2%}",
                f"  width from noise {row['from_noise']:.0%}, parameters "
                f"{row['from_parameters']:.0%}{_of_prior(row)}, the choice among laws "
                f"{row['from_choice']:.0%}, their common error {row['from_common']:.0%}",
                "  laws " + ", ".join(f"{law} {w[k]:.2f}" for law, w in self._heaviest(k)),
                *self._wide_line(row),
            ]
        return lines

    def _prior_line(self) -> list[str]:
        """What was known beforehand, in words."""
        if self.prior is None:
            return []
        known, name = self.prior.experiments, self.prior.evaluation
        of = f"of evaluation {name}" if name else f"of {known['source'].nunique()} sources"
        return [f"known beforehand: {len(known)} experiments {of}; noise of a run "
                f"{self.prior.noise:.2%}"]  # fmt: skip

    def _wide_line(self, row: pd.Series) -> list[str]:
        """What a wider prior would say, where that is another number."""
        laws, wide = (written(row[name], *self.unit_of(name)) for name in ("laws", "wide_prior"))
        if not np.isfinite(row["wide_prior"]) or wide == laws:
            return []
        change = row["wide_prior"] / row["laws"] - 1
        return [f"  by a prior {_WIDE:g} times as wide {wide} ({change:+.2%})"]

    def _heaviest(self, k: int) -> list[tuple[str, np.ndarray]]:
        return sorted(self.weights.items(), key=lambda item: -item[1][k])

    @classmethod
    def _consistent(cls, values: dict[str, Any]) -> dict[str, Any]:
        shape = (len(LEVELS), len(values["table"]))
        if values["quantiles"].shape != shape:
            raise ValueError(f"field 'quantiles' has shape {values['quantiles'].shape}")
        return values


def _of_prior(row: pd.Series) -> str:
    """The prior's part of the width, in words."""
    return f" (the prior {row['prior_share']:.0%})" if row["prior_share"] >= 0.005 else ""


@lists_options(ForecastKeywords, **SEARCH)
@checked
def forecast(
    laws: Any,
    runs: Any,
    at: Any,
    *,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    along: Along = "compute",
    cutoffs: Any = N_CUTOFFS,
    groups: Any = None,
    n_resamples: Annotated[int, Between(2, 10_000)] = 16,
    seed: Seed = 0,
    prior: Any = "field",
    per_law: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Unpack[ForecastKeywords],
) -> Forecast:
    """The target of runs that were not yet made, with an interval for a **new run**.

    The laws are back-tested on these runs (:func:`jaxlaw.backtest`) and weighted by what they
    predicted of runs they had not seen, at distances comparable with the forecast's (stacking, Yao
    et al. 2018). The interval adds the scatter of single runs, the parameters' uncertainty, the
    choice among laws, and the error that all laws share and that grows with distance, whose size
    and side the cut-offs of the back-test teach. Where laws have a prior, what they overestimate
    with the distance on public experiments is taken off first. Where the runs allow few cut-offs,
    or none, a prior width decides, and a note says so. The chapter
    ``jaxlaw/forecasting/README.md`` has the method and its limits.

    Args:
        laws: as :func:`jaxlaw.backtest` takes them; None takes those that suit the columns.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        at: points: a dict of numbers or arrays that broadcast, or a table, with every input of the
            laws, in the units of the runs; and the column of ``along``, if that is one.
        level: share of such intervals that should hold the run.
        along, cutoffs, groups: as :func:`jaxlaw.backtest` takes them.
        n_resamples: resamples of the runs for the parameters' share, at every cut-off.
        seed: seed of the resamples and of the Sobol sample of starts.
        prior: what is known beforehand of the laws skaling, chinchilla and loss-compute-e, and of
            those of repetition, which are chinchilla's while tokens are new (where they take part,
            laws that do not know of repetition have none):
            ``"field"`` for what public experiments say, one's own earlier fits or a folder of
            them (made with ``evaluation=``), a :class:`jaxlaw.fitting.Prior`, or None. With it
            three runs are enough. Where parameters are fixed or tied, or residuals linear,
            ``"field"`` is left out.
        per_law, **options: as :func:`jaxlaw.backtest` takes them.

    Returns:
        The :class:`Forecast`.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry a law, or a point is no number.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> points = {"N": [1e10, 2e10], "D": 4e11}
        >>> forecast = jl.forecast("chinchilla", runs, at=points, n_starts=64)
        >>> forecast.table[["N", "D"]].to_numpy().tolist()
        [[10000000000.0, 400000000000.0], [20000000000.0, 400000000000.0]]
    """
    own = [options, *(per_law or {}).values()]
    if isinstance(prior, str) and prior == "field" and any(map(excludes_prior, own)):
        prior = None
    given = options | {"seed": seed, "prior": prior}
    candidates, data = laws_and_data(laws, runs, per_law, given, needed=False)
    values_along(data, candidates, along)
    _points(data, {one.label: _unfitted(one, data) for one in candidates}, at, along)
    with _progress.part(k=0, n=2):
        cutoff_fits = fit_cutoffs(candidates, data, along, cutoffs, groups, needed=False)
    labels = [candidate.label for candidate in cutoff_fits.candidates]
    with _progress.part(k=1, n=2):
        refits = {
            label: fit_resamples(cutoff_fits, label, n_resamples, seed)
            for label in _progress.parts(labels, str, "resamples of law")
        }
    return make_forecast(cutoff_fits, refits, at, level=level, along=along)


def make_forecast(
    cutoff_fits: CutoffFits, refits: Mapping[str, Refits], at: Any, *, level: float, along: Along
) -> Forecast:
    """The forecast that fits of cut-offs, and of resamples, amount to.

    The docstring of :mod:`jaxlaw.forecasting._calibration` has the formula whose terms the comments
    name: log y = Σ_k w_k log f_k − s·d + h·B + ε.

    Args:
        cutoff_fits: laws fitted up to each cut-off and to all runs.
        refits: label → the same on resamples (:func:`fit_resamples`).
        at, level, along: as :func:`forecast` takes them.
    """
    # The laws f_k, fitted to all runs, and how far each point d lies beyond the largest of these.
    fits, notes = _fits(cutoff_fits)
    points, z = _points(cutoff_fits.data, fits, at, along)
    latest = float(cutoff_fits.z[cutoff_fits.weight > 0].max())
    distance = np.log(np.maximum(z / latest, 1.0))
    distance[distance < _ROUNDING] = 0.0
    alone = [_log(fit.predict(fit.law.labelled(_of(points, fit)))) for fit in fits.values()]
    predicted = np.stack(alone, axis=1)
    if not np.isfinite(predicted).any(axis=1).all():
        raise DataError("no law has a positive finite prediction at some of these points")
    # What the back-test teaches: the laws' errors beyond each cut-off; σ of each law; and at the
    # points the variances by their parameters.
    errors, varied = _errors(cutoff_fits, fits, refits, points)
    residuals = np.array([_residual(cutoff_fits, label, -1) for label in fits])
    beforehand = _beforehand(cutoff_fits, list(fits))
    calibrations: dict[float, Calibration] = {}
    rows, quantiles, weights, models = [], [], [], []
    for k, far in enumerate(distance):
        # Distributions of B and ε, and the weights w, depend on the distance alone.
        if far not in calibrations:
            calibrations[far] = calibrate(float(far), errors, residuals, latest, beforehand)
        calibration = calibrations[far]
        # A law that predicts nothing here leaves its weight to the others.
        w = np.where(np.isfinite(predicted[k]), calibration.weights, 0.0)
        w = w / w.sum()
        # Σ_k w_k log f_k, and h, the scale of the laws' common error.
        centre = weighted(predicted[k : k + 1], w)
        among, parameters = disagreement(predicted[k : k + 1], varied[k : k + 1], w)
        h = common_scale(distance[k : k + 1], among, parameters, calibration.noise)
        # −s·d and the mean of h·B move the estimate; quantiles are those of h·B + ε about it.
        overestimated = beforehand.drift * float(far)
        shift = float(h[0] * calibration.mean) - overestimated
        at_levels = np.exp(centre - overestimated + calibration.quantiles(h, LEVELS))
        rows.append({
            **{name: values[k] for name, values in points.items()},
            "distance": far,
            "laws": float(np.exp(centre[0])),
            "shift": float(np.expm1(shift)),
            "estimate": float(np.exp(centre[0] + shift)),
            "low": float(_quantile(at_levels, (1 - level) / 2)[0]),
            "high": float(_quantile(at_levels, (1 + level) / 2)[0]),
            **_shares(
                calibration, float(among[0]), float(np.nan_to_num(parameters[0])), float(h[0])
            ),
        })  # fmt: skip
        quantiles.append(at_levels[:, 0])
        weights.append(w)
        # Plans go to other points. For them h is kept for a distance of 1, without what the laws
        # disagree by here: draws go from law to law and from resample to resample themselves.
        drift = float(common_scale(np.ones(1), np.zeros(1), np.zeros(1), calibration.noise)[0])
        models.append({
            "shift": shift,
            "per_e_fold": drift * calibration.scale,
            "degrees": calibration.degrees,
            "noise": calibration.noise,
            "scatter": calibration.scatter,
        })  # fmt: skip
    table = pd.DataFrame(rows)
    back = make_backtest(cutoff_fits) if len(cutoff_fits.cutoffs) else None
    # The back-test's own note on few cut-offs is prior-width here, which says what follows.
    notes += cutoff_fits.notes
    coverage = backtest_coverage(errors, level, beforehand)
    notes += notes_of_backtest(cutoff_fits, list(calibrations.values()), table, list(fits))
    notes += notes_of_coverage(coverage, level)
    notes += notes_of_points(fits, points, distance, along)
    known = [one for one in cutoff_fits.candidates if one.prior is not None and one.label in fits]
    evidence = {one.label: _evidence(cutoff_fits, one.label) for one in known}
    shares = _shares_of_prior(cutoff_fits, fits, points, np.array(weights), evidence)
    table["prior_share"] = table["from_parameters"] * shares
    table["wide_prior"] = np.nan
    heaviest = max(known, key=lambda one: weights[0][list(fits).index(one.label)], default=None)
    if heaviest is not None:
        problem = cutoff_fits.refits[heaviest.label].problem
        notes += conflict_notes(problem, evidence[heaviest.label])
        table["wide_prior"] = _by_wide_prior(cutoff_fits, heaviest, points)
    first = cutoff_fits.observations(next(iter(fits)))
    return Forecast(
        table=table,
        level=level,
        target=first.target_name,
        along=cutoff_fits.along,
        weights=dict(zip(fits, np.array(weights).T, strict=True)),
        fits=fits,
        quantiles=np.array(quantiles).T,
        units={n: first.units.get(n, cutoff_fits.data.runs.units.get(n, 1.0)) for n in points},
        runs={
            "count": int((cutoff_fits.weight > 0).sum()),
            "source": first.source,
            "fingerprint": fingerprint(cutoff_fits),
        },
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        package_versions={"jaxlaw": __version__, "jax": jax.__version__, "numpy": np.__version__},
        resamples={label: _of_all_runs(refits[label], len(cutoff_fits.cutoffs)) for label in fits},
        prior=None if heaviest is None else heaviest.prior,
        error_model={name: np.array([row[name] for row in models]) for name in models[0]},
        backtest_coverage=float(np.nanmean(coverage)) if np.isfinite(coverage).any() else None,
        notes=tuple(dict.fromkeys(notes)),
        observed={
            "along": cutoff_fits.z[cutoff_fits.weight > 0],
            "target": cutoff_fits.observed[cutoff_fits.weight > 0],
        },
        backtest=back,
    )


def _of_all_runs(refits: Refits, n_cutoffs: int) -> dict[str, np.ndarray]:
    """Parameters (R,) of the fits to resamples of all runs, without those that failed."""
    count = len(refits.objective) // (n_cutoffs + 1)
    good = np.isfinite(refits.objective[-count:])
    good = good if good.any() else ~good
    return {name: values[-count:][good] for name, values in refits.params.items()}


def _quantile(quantiles: np.ndarray, level: float) -> np.ndarray:
    """(m,) a quantile of the target from those at LEVELS, (265, m)."""
    at, normal_scores = stats.norm.ppf(level), stats.norm.ppf(LEVELS)
    return np.array([np.exp(np.interp(at, normal_scores, np.log(point))) for point in quantiles.T])


def fingerprint(cutoff_fits: CutoffFits) -> str:
    """SHA-256 of inputs, targets and weights, whatever the order of the rows."""
    first = cutoff_fits.observations(cutoff_fits.candidates[0].label)
    inputs = {
        name: values
        for seen in cutoff_fits.data.observations.values()
        for name, values in seen.inputs.items()
        if values.ndim == 1
    }
    columns = [*(inputs[name] for name in sorted(inputs)), first.target, first.weight]
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return hashlib.sha256(repr((sorted(inputs), rows)).encode()).hexdigest()


def _fits(cutoff_fits: CutoffFits) -> tuple[dict[str, FittedLaw], list[Note]]:
    """The laws fitted to all runs; those without a finite fit are left out, with a note."""
    fits, notes = {}, []
    active = cutoff_fits.weight > 0
    for candidate in cutoff_fits.candidates:
        label = candidate.label
        refits, seen = cutoff_fits.refits[label], cutoff_fits.observations(label)
        if not np.isfinite(cutoff_fits.predicted[label][-1][active]).all():
            message = f"{label} has no finite fit of all runs and is left out"
            notes.append(Note("law-failed", "warning", message, inherited=False))
            continue
        users = {name: values / seen.scale[name] for name, values in seen.inputs.items()}
        fits[label] = FittedLaw(
            candidate.law,
            {name: float(values[-1]) for name, values in refits.params.items()},
            units=dict(seen.scale),
            ranges={
                name: tuple(map(float, seen.ranges[name])) for name in candidate.law.input_names
            },
            joint_ranges=dict(joint_ranges(candidate.law.inputs, users)),
            fixed=dict(candidate.options.fixed),
            area_options=None if seen.area_options is None else dict(seen.area_options),
            columns=dict(seen.mapped),
            source=seen.source,
            flops=seen.flops,
        )
    if not fits:
        raise DataError("no law has a finite fit of these runs: there is no forecast")
    return fits, notes


def _unfitted(candidate: Candidate, data: DataSet) -> FittedLaw:
    """A law that has no parameters yet, by which points are checked before anything is fitted."""
    params = dict.fromkeys(candidate.law.parameter_names, np.nan)
    columns = dict(data.observations[candidate.label].mapped)
    return FittedLaw(candidate.law, params, columns=columns)


def _in_unit_of_runs(fits: Mapping[str, FittedLaw], name: str, value: Any) -> Any:
    """Quantities of an input, such as 70B, as numbers in the unit of the runs."""
    for fit in fits.values():
        for spec in fit.law.inputs:
            if spec.name == name and spec.counts:
                return in_unit(value, fit.units[name] * spec.unit, spec.counts)
    return value


def _points(
    data: DataSet, fits: Mapping[str, FittedLaw], at: Any, along: Along
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The points' inputs (m,), and (m,) what distances are of."""
    if is_table(at) and not isinstance(at, Mapping):
        at = dict(read_table(at).frame.items())
    if not isinstance(at, Mapping) or not at:
        raise UsageError(
            "at is a dict of the laws' inputs, at={'N': 7e10, 'D': 1.4e12}, or a table"
        )
    input_of = {
        column: name for fit in fits.values() for name, column in (fit.columns or {}).items()
    }
    given = {input_of.get(str(name), str(name)): value for name, value in at.items()}
    inputs = list(dict.fromkeys(name for fit in fits.values() for name in fit.law.input_names))
    extra = [along] if isinstance(along, str) and along not in (*inputs, "compute") else []
    extra = [input_of.get(name, name) for name in extra if input_of.get(name, name) not in inputs]
    for name in given:
        if name not in (*inputs, *extra) and not callable(along):
            raise UsageError(f"at has '{name}', which no law takes; they take {', '.join(inputs)}")
    for name in [*inputs, *extra]:
        if name not in given:
            what = "along=" if name in extra else "an input of the laws"
            raise UsageError(f"at lacks {name} ({what}); it takes {', '.join([*inputs, *extra])}")
    try:
        specs = {spec.name: spec for fit in fits.values() for spec in fit.law.inputs if spec.levels}
        given = {
            k: specs[k].codes(v) if k in specs else _in_unit_of_runs(fits, k, v)
            for k, v in given.items()
        }
        arrays = [real_numbers(value) for value in given.values()]
        arrays = [values.ravel() for values in np.broadcast_arrays(*arrays)]
    except (TypeError, ValueError) as error:
        raise UsageError(f"at: numbers, or arrays of them that broadcast ({error})") from None
    if not arrays[0].size:
        empty = ", ".join(name for name, value in given.items() if not np.size(value))
        raise UsageError(f"at has no point: {empty} is empty; give a number, or several")
    points = dict(zip(given, arrays, strict=True))
    ordered = {name: points[name] for name in [*inputs, *extra]}
    ordered |= {name: values for name, values in points.items() if name not in ordered}
    for fit in fits.values():
        fit.checked_inputs(None, fit.law.labelled(_of(ordered, fit)))
    return ordered, _along_points(data, ordered, along)


def _along_points(data: DataSet, points: Mapping[str, np.ndarray], along: Along) -> np.ndarray:
    name = getattr(along, "__name__", str(along))
    if callable(along):
        try:
            z = np.asarray(along(pd.DataFrame(dict(points))), float)
        except (TypeError, ValueError, KeyError) as error:
            raise UsageError(
                f"along={name} gives no numbers for the points of at, which have "
                f"{', '.join(points)}: {type(error).__name__} {error}",
                argument="along",
            ) from None
    elif along == "compute":
        first = {n: u for seen in data.observations.values() for n, u in seen.units.items()}
        raw = {name: values * first.get(name, 1.0) for name, values in points.items()}
        own = next((seen.flops for seen in data.observations.values() if seen.flops), None)
        z = compute_of(raw, "at", own=own)
    else:
        mapped = {c: n for seen in data.observations.values() for n, c in seen.columns.items()}
        z = points[along if along in points else mapped[along]]
    if z.shape != next(iter(points.values())).shape or not (np.isfinite(z) & (z >= 0)).all():
        raise UsageError(f"{name} of the points is no positive number for each")
    return z


def _of(points: Mapping[str, np.ndarray], fit: FittedLaw) -> dict[str, np.ndarray]:
    return {name: points[name] for name in fit.law.input_names}


def _log(values: np.ndarray) -> np.ndarray:
    """Logs, NaN of what is not positive and finite."""
    good = np.isfinite(values) & (values > 0)
    return np.where(good, np.log(np.where(good, values, 1.0)), np.nan)


def _errors(
    cutoff_fits: CutoffFits, fits: Mapping[str, FittedLaw], refits: Mapping[str, Refits],
    points: Mapping[str, np.ndarray],
) -> tuple[list[CutoffErrors], np.ndarray]:  # fmt: skip
    """The errors beyond each cut-off, and (m, K) variances at the points over resamples."""
    spread, varied = {}, []
    for label, fit in fits.items():
        refit, seen = refits[label], cutoff_fits.observations(label)
        count = len(refit.objective) // (len(cutoff_fits.cutoffs) + 1)
        lost = ~np.isfinite(refit.objective)

        # Resamples of few rows vary too little: what they scatter by are the residuals of a fit
        # that has absorbed some of the noise, a degree of freedom for each parameter.
        numbers = range(len(cutoff_fits.cutoffs) + 1)
        taken = np.array([[_spare(cutoff_fits, label, number)] for number in numbers])

        def variance(
            inputs: Mapping[str, np.ndarray], refit=refit, lost=lost, count=count, taken=taken
        ):
            logs = _log(np.asarray(refit.predict(**inputs)))
            logs[lost] = np.nan
            logs = logs.reshape(-1, count, logs.shape[-1])
            finite = np.isfinite(logs)
            total = np.maximum(finite.sum(axis=1), 1)
            mean = np.where(finite, logs, 0.0).sum(axis=1) / total
            square = np.where(finite, (logs - mean[:, None]) ** 2, 0.0).sum(axis=1)
            return square / np.maximum(total - 1, 1) / taken

        spread[label] = variance(seen.inputs)
        scaled = {n: np.asarray(v) * fit.units[n] for n, v in _of(points, fit).items()}
        varied.append(variance(scaled)[-1])
    errors = []
    for j, cutoff in enumerate(cutoff_fits.cutoffs):
        rows = np.flatnonzero(~cutoff_fits.fitted[j] & (cutoff_fits.weight > 0))
        missed = np.array([_residual(cutoff_fits, label, j) for label in fits])
        logs = np.stack([_log(cutoff_fits.predicted[label][j, rows]) for label in fits], axis=1)
        errors.append(CutoffErrors(
            cutoff=float(cutoff),
            distance=cutoff_fits.distance[j, rows],
            error=np.log(cutoff_fits.observed[rows])[:, None] - logs,
            predicted=logs,
            parameters=np.stack([spread[label][j, rows] for label in fits], axis=1),
            residuals=missed,
            weight=cutoff_fits.weight[rows],
        ))  # fmt: skip
    return errors, np.stack(varied, axis=1)


def _beforehand(cutoff_fits: CutoffFits, labels: list[str]) -> Beforehand:
    """What is known of the laws before any cut-off."""
    candidates = [one for one in cutoff_fits.candidates if one.label in labels]
    if not known_beforehand(candidates):
        return Beforehand.nothing(len(labels))
    # A law of groups is weighted as the law that it is of.
    laws = [None if one.prior is None else one.law.scale_free.of or one.law for one in candidates]
    return Beforehand.of_priors([law and law.name for law in laws])


def _evidence(cutoff_fits: CutoffFits, label: str) -> PriorEvidence:
    """What the prior of a law does in its fit of all runs."""
    refits = cutoff_fits.refits[label]
    return prior_evidence(refits.problem, refits.coordinates[-1])


def _shares_of_prior(
    cutoff_fits: CutoffFits, fits: Mapping[str, FittedLaw], points: Mapping[str, np.ndarray],
    weights: np.ndarray, evidence: Mapping[str, PriorEvidence],
) -> np.ndarray:  # fmt: skip
    """(m,) share of the parameters' variance that is the prior's, over the laws as they weigh."""
    total = np.zeros(len(weights))
    for label, one in evidence.items():
        refits, fit = cutoff_fits.refits[label], fits[label]
        inputs = {n: np.asarray(v, float) * fit.units[n] for n, v in _of(points, fit).items()}
        slopes = linearise(refits.problem, refits.coordinates[-1], inputs).jacobian
        total += weights[:, list(fits).index(label)] * one.share_of_prior(slopes)
    return total


def _by_wide_prior(
    cutoff_fits: CutoffFits, candidate: Candidate, points: Mapping[str, np.ndarray]
) -> np.ndarray:
    """(m,) what a law would say by a prior five times as wide."""
    seen, law = cutoff_fits.observations(candidate.label), candidate.law
    wide = dataclasses.replace(
        candidate.options, prior=candidate.prior.widened(_WIDE), work_dir=None, progress=False
    )
    again = fit_many(law, seen, seen.weight[None], options=wide)
    inputs = {n: np.asarray(points[n], float) * seen.scale[n] for n in law.input_names}
    return again.predict(**inputs)[0]


def _spare(cutoff_fits: CutoffFits, label: str, number: int) -> float:
    """Rows that a fit has beyond its parameters, as a share of its rows."""
    candidate = next(candidate for candidate in cutoff_fits.candidates if candidate.label == label)
    count = int((cutoff_fits.refit_weights()[number] > 0).sum())
    return max(count - len(candidate.free), 1) / count


def _residual(cutoff_fits: CutoffFits, label: str, number: int) -> float:
    """Standard deviation of a law's log residuals, of the rows fitted; of all where it failed."""
    candidate = next(one for one in cutoff_fits.candidates if one.label == label)
    if candidate.prior is not None:  # which knows the noise better than a few residuals do
        return candidate.prior.noise
    weight = cutoff_fits.refit_weights()[number]
    squares = (np.log(cutoff_fits.observed) - _log(cutoff_fits.predicted[label][number])) ** 2
    if not np.isfinite(squares[weight > 0]).all():
        return _residual(cutoff_fits, label, -1) if number != -1 else np.nan
    mean = weight @ np.nan_to_num(squares) / weight.sum()
    return float(np.sqrt(mean / _spare(cutoff_fits, label, number))) + 1e-9


def _shares(
    calibration: Calibration, among: float, parameters: float, h: float
) -> dict[str, float]:
    """Where the variance comes from: the noise, and the parts of the scale of the laws' errors."""
    of_scale = calibration.scatter + calibration.scale**2 * calibration.degrees / (
        calibration.degrees - 2
    )
    choice = OF_DISAGREEMENT**2 * among
    parts = np.array([parameters, choice, h**2 - parameters - choice])
    variances = np.append(calibration.noise**2, of_scale * np.maximum(parts, 0.0))
    return dict(zip(SHARES, (variances / variances.sum()).tolist(), strict=True))
