"""From the errors of a back-test to the distribution of a run not yet made.

The log of a new run's target, at a distance d beyond the runs (d the log of a ratio), is

    log y = Σ_k w_k log f_k  −  s·d  +  h·B  +  ε

- f_k are the laws, w_k their weights: those under which the mixture of the laws' error
  distributions has the highest log score on the back-test at comparable distances (stacking, Yao
  et al. 2018), with a Dirichlet prior that is even.
- s·d is what laws overestimate by (see :data:`KNOWN_DRIFT`); 0 where nothing is known beforehand.
- B is the laws' common error in units of a scale h, the same for all runs beyond one cut-off.
  h² = (a² + b²·σ²)·d² + c²·(variance among the weighted laws) + their variance by parameters. Laws
  err more the farther they predict; the more they miss of the runs that they are fitted to; and
  where they and their resamples disagree. Each cut-off has given one
  B (its mean standardised error), so that the cut-off counts, not the run. With a normal-inverse-χ²
  prior, B is a shifted and scaled Student's t: of few cut-offs the prior decides, of many the data.
  Its mean moves the forecast where laws have kept erring on one side.
- ε is what single runs differ by: the noise of the residuals, and what laws miss of single runs
  beyond the common error, which grows with h as it did for the runs beyond each cut-off: variance
  σ² + κ²·h². Student's t, since single runs do go astray.

What is learned of B is calibration by whole cut-offs, as split conformal prediction is by points:
quantiles of t replace ranks, for five cut-offs have no 5 % quantile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

#: Constants of the prior: round numbers, set by hand after a random search over the data sets of
#: benchmarks/forecast.md, which says how, and on which of these sets its numbers are no hold-outs.
PER_E_FOLD = 0.002  # a: relative error of a fitted law for each factor e of distance
OF_RESIDUALS = 0.3  # b: the same in standard deviations of the law's residuals
OF_DISAGREEMENT = 0.5  # c: of the standard deviation among laws
PRIOR_CUTOFFS = 5.0  # cut-offs that the prior width counts as
#: Cut-offs of no error on average that the shift is shrunk by. The errors of cut-offs are not
#: independent (the runs beyond one are among those beyond the next), so that six on one side are
#: far less than six. Moved by all of their mean, estimates were worse on most sets left out.
PRIOR_MEAN_CUTOFFS = 10.0
FADES = 3.0  # e-folds below the latest run at which a cut-off counts 1/e
EVEN = 0.5  # cut-offs' worth of evidence for the weights before any cut-off …
#: … and where some of the laws have a prior. A single cut-off of few runs errs by hardly more than
#: their noise, and says little of which law holds.
KNOWN = 1.5
#: Weights before any cut-off of laws whose prior is known, and of a law without one beside them: by
#: how they did on the library's own experiments, each source left out in turn
#: (benchmarks/few_runs.md).
OF_PRIOR = {"skaling": 9.0, "chinchilla": 1.0}
WITHOUT_PRIOR = 0.3
#: s, where laws have a prior: what they overestimate a loss by for each factor e of distance. Of
#: the bend that a few decades of compute show, a law takes too much for its floor. Learned on the
#: library's experiments, too: from a dozen runs on, the median over sources is 0.2 to 0.3 %,
#: whichever source is left out (benchmarks/few_runs.md).
KNOWN_DRIFT = 0.002
SCATTER = 0.3  # κ² of the prior
SCATTER_RUNS = 10.0  # runs beyond cut-offs that this counts as

_NEAR = 0.7  # width of the kernel of comparable distances, in logs of the distance
_OFFSET = 0.05  # distance that counts as none, added before the log is taken
_TAIL = 4.0  # degrees of freedom of a law's errors, in stacking
_RUN_TAIL = 5.0  # degrees of freedom of a single run's scatter
_STEPS = 200  # of the EM algorithm
_CHECKED = 5  # runs beyond a cut-off by which its intervals are judged
_NODES = 160  # of each of the two distributions that are added up
_NO_CHANCE = -50.0  # log score of a law that predicts nothing there


class Beforehand(NamedTuple):
    """What is known of K laws before any cut-off.

    Attributes:
        weights: (K,) of the laws; their sum is the cut-offs that they count as.
        drift: what they overestimate by for each factor e of distance, relative: s.
    """

    weights: np.ndarray
    drift: float

    @classmethod
    def nothing(cls, n_laws: int) -> Beforehand:
        """Of laws of which nothing is known."""
        return cls(np.full(n_laws, EVEN / n_laws), 0.0)

    @classmethod
    def of_priors(cls, names: Sequence[str | None]) -> Beforehand:
        """Of laws by name, None for one without a prior."""
        weights = [WITHOUT_PRIOR if name is None else OF_PRIOR.get(name, 1.0) for name in names]
        return cls(KNOWN * np.array(weights) / sum(weights), KNOWN_DRIFT)


@dataclass(frozen=True, eq=False)
class CutoffErrors:
    """The m runs beyond one cut-off, and the predictions of K laws fitted below it.

    Attributes:
        cutoff: the largest value fitted.
        distance: (m,) log of the ratio to it.
        error: (m, K) log of observed over predicted; NaN where a law predicts nothing.
        predicted: (m, K) log of the predictions.
        parameters: (m, K) variances of these over resamples.
        residuals: (K,) standard deviation of each law's log residuals, of the runs fitted.
        weight: (m,) weights of the runs.
    """

    cutoff: float
    distance: np.ndarray
    error: np.ndarray
    predicted: np.ndarray
    parameters: np.ndarray
    residuals: np.ndarray
    weight: np.ndarray

    def without(self, drift: float) -> CutoffErrors:
        """The errors that are left of laws that are known to overestimate with the distance."""
        error = self.error + drift * self.distance[:, None]
        return dataclasses.replace(self, error=error) if drift else self


@dataclass(frozen=True, eq=False)
class Calibration:
    """Weights and error distributions for runs at one distance, learned from the back-test.

    Attributes:
        distance: the distance.
        weights: (K,) of the laws.
        mean, scale, degrees: of Student's t of the common error, in units of its scale.
        noise: standard deviation of single runs as the laws fit them, relative: σ.
        scatter: variance of their errors beyond the common one, in units of h²: κ².
        biases: (J,) mean error of the weighted laws at each cut-off, relative (log of observed
            over predicted).
        of_laws: (J, K) the same law by law.
    """

    distance: float
    weights: np.ndarray
    mean: float
    scale: float
    degrees: float
    noise: float
    scatter: float
    biases: np.ndarray
    of_laws: np.ndarray

    def quantiles(self, common: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Quantiles (q, points) of log observed less the log of the weighted laws' prediction.

        Args:
            common: (points,) scales h of the common error.
            levels: (q,) levels in (0, 1).
        """
        nodes = (np.arange(_NODES) + 0.5) / _NODES
        shared = self.mean + self.scale * stats.t.ppf(nodes, self.degrees)
        unit = np.sqrt((_RUN_TAIL - 2) / _RUN_TAIL)
        single = unit * stats.t.ppf(nodes, _RUN_TAIL)
        quantiles = np.empty((len(levels), len(common)))
        # Sums of all pairs of quantiles are draws of the sum, evenly spread and always the same.
        for point, scale in enumerate(common):
            run = np.sqrt(self.noise**2 + self.scatter * scale**2)
            sums = (scale * shared[:, None] + run * single).ravel()
            quantiles[:, point] = np.quantile(sums, levels)
        return quantiles


def disagreement(
    predicted: np.ndarray, parameters: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Variances (m,) among weighted laws and by their parameters, of logs of predictions (m, K)."""
    centre = weighted(predicted, weights)[:, None]
    return weighted((predicted - centre) ** 2, weights), weighted(parameters, weights)


def weighted(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(m,) weighted means over laws; a law without a number is left out. NaN where all are."""
    shares = np.isfinite(values) * weights
    total = shares.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return (np.where(shares > 0, values, 0.0) * shares).sum(axis=1) / total


def common_scale(
    distance: np.ndarray, among: np.ndarray, parameters: np.ndarray, residuals: float
) -> np.ndarray:
    """The scale h of the common error.

    Args:
        distance: (m,) logs of ratios.
        among, parameters: (m,) variances, as :func:`disagreement` gives them; NaN adds nothing.
        residuals: standard deviation of the weighted laws' residuals.
    """
    drift = PER_E_FOLD**2 + (OF_RESIDUALS * residuals) ** 2
    variance = OF_DISAGREEMENT**2 * np.nan_to_num(among) + np.nan_to_num(parameters)
    return np.sqrt(drift * distance**2 + variance)


def typical(residuals: np.ndarray, weights: np.ndarray) -> float:
    """The weighted laws' standard deviation of residuals: the geometric mean."""
    return float(np.exp(weights @ np.log(residuals)))


def calibrate(
    distance: float, errors: Sequence[CutoffErrors], residuals: np.ndarray, latest: float,
    beforehand: Beforehand,
) -> Calibration:  # fmt: skip
    """Learn weights and error distributions for runs at a distance from the back-test.

    Args:
        distance: log of the ratio of the forecast's value to the latest run's.
        errors: errors beyond each of J cut-offs; none where there is no back-test.
        residuals: (K,) standard deviation of each law's log residuals, of all runs.
        latest: the largest value among the runs.
        beforehand: what is known of the laws before any cut-off.
    """
    errors = [cutoff.without(beforehand.drift) for cutoff in errors]
    near = [_comparable(cutoff, distance) for cutoff in errors]
    fade = np.array([np.exp(-np.log(latest / cutoff.cutoff) / FADES) for cutoff in errors])
    weights = _stacked(errors, near, fade, residuals, beforehand.weights)
    noise = typical(residuals, weights)
    informative, standard, biases, laws = [], [], [], []
    scatter, counted = SCATTER * SCATTER_RUNS, SCATTER_RUNS
    # Each cut-off gives one value of B, its mean standardised error, and is worth at most one.
    for cutoff, rows, recency in zip(errors, near, fade, strict=True):
        error = weighted(cutoff.error, weights)
        rows = np.where(np.isfinite(error), rows, 0.0)
        error = np.where(np.isfinite(error), error, 0.0)
        rows = rows / rows.sum() if rows.sum() > 0 else rows
        mean = rows @ error
        among, parameters = disagreement(cutoff.predicted, cutoff.parameters, weights)
        missed = typical(cutoff.residuals, weights)
        scale = common_scale(cutoff.distance, among, parameters, missed)
        h = max(np.sqrt(rows @ scale**2), 1e-12)
        # ``size`` is how many runs of equal weight the weighted ones are worth (Kish 1965).
        spread, size = rows @ (error - mean) ** 2, 1 / max((rows**2).sum(), 1e-12)
        # The estimate of B of one cut-off has the noise of its runs, the more, the fewer they are.
        blur = spread / max(size, 1.0) + noise**2 / len(rows)
        informative.append(recency * h**2 / (h**2 + blur) * (rows.sum() > 0))
        standard.append(mean / h)
        overestimated = beforehand.drift * float(rows @ cutoff.distance)
        biases.append(mean - overestimated)
        laws.append([_mean(column, rows) - overestimated for column in cutoff.error.T])
        # κ²: what single runs scatter by around that mean beyond their noise, in units of h².
        if size > 1.5:
            beyond_noise = max(spread * size / (size - 1) - noise**2, 0.0)
            scatter += recency * (size - 1) * beyond_noise / h**2
            counted += recency * (size - 1)
    # Posterior of a normal-inverse-χ² prior; the next B is a Student's t of this mean and scale.
    count, t = np.array(informative), np.array(standard)
    total = PRIOR_MEAN_CUTOFFS + count.sum()
    mean = float(count @ t) / total
    degrees = PRIOR_CUTOFFS + float(count.sum())
    square = (PRIOR_CUTOFFS + float(count @ t**2) - total * mean**2) / degrees
    return Calibration(
        distance=distance,
        weights=weights,
        mean=mean,
        scale=float(np.sqrt(square * (1 + 1 / total))),
        degrees=degrees,
        noise=noise,
        scatter=float(scatter / counted),
        biases=np.array(biases),
        of_laws=np.array(laws).reshape(len(errors), len(residuals)),
    )


def backtest_coverage(
    errors: Sequence[CutoffErrors], level: float, beforehand: Beforehand
) -> np.ndarray:
    """(J,) share of the runs beyond a cut-off that a forecast made there would have held.

    It would have known the cut-offs before it, and of their errors those of the runs up to it. So
    this is the back-test of the interval, where the other is that of the laws.

    Args:
        errors: errors beyond each cut-off, in order.
        level: level of the intervals.
        beforehand: what is known of the laws before any cut-off.
    """
    covered = np.full(len(errors), np.nan)
    for j, now in enumerate(errors):
        so_far = [_up_to(earlier, now.cutoff) for earlier in errors[:j]]
        so_far = [earlier for earlier in so_far if len(earlier.distance)]
        rows = np.argsort(now.distance, kind="stable")
        rows = rows[np.isfinite(now.predicted[rows]).any(axis=1)]
        # A few runs show whether an interval holds: those beyond a cut-off share one error.
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, _CHECKED).round().astype(int))]
        inside = []
        for row in rows:
            distance, k = now.distance[row], slice(row, row + 1)
            calibration = calibrate(float(distance), so_far, now.residuals, now.cutoff, beforehand)
            among, parameters = disagreement(
                now.predicted[k], now.parameters[k], calibration.weights
            )
            h = common_scale(distance, among, parameters, calibration.noise)
            low, high = calibration.quantiles(h, np.array([(1 - level) / 2, (1 + level) / 2]))[:, 0]
            error = weighted(now.without(beforehand.drift).error[k], calibration.weights)[0]
            inside.append(low <= error <= high)
        covered[j] = np.mean(inside) if inside else np.nan
    return covered


def _up_to(errors: CutoffErrors, value: float) -> CutoffErrors:
    """The errors of the runs up to a value."""
    rows = errors.distance <= np.log(value / errors.cutoff) + 1e-9
    arrays = ("distance", "error", "predicted", "parameters", "weight")
    return dataclasses.replace(errors, **{name: getattr(errors, name)[rows] for name in arrays})


def _mean(error: np.ndarray, rows: np.ndarray) -> float:
    usable = np.isfinite(error) & (rows > 0)
    return float(rows[usable] @ error[usable] / rows[usable].sum()) if usable.any() else np.nan


def _comparable(errors: CutoffErrors, distance: float) -> np.ndarray:
    """(m,) weights, of sum 1, of the runs beyond a cut-off: those at comparable distances.

    Where no run is near that distance the farthest one counts.
    """
    deviation = np.log((errors.distance + _OFFSET) / (distance + _OFFSET)) / _NEAR
    rows = errors.weight * np.exp(-0.5 * (deviation**2 - (deviation**2).min()))
    return rows / rows.sum()


def _stacked(
    errors: Sequence[CutoffErrors], near: Sequence[np.ndarray], fade: np.ndarray,
    residuals: np.ndarray, base: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """(K,) weights of the laws: of the highest log score, each cut-off counting as it fades."""
    n_laws = len(residuals)
    if not len(errors) or n_laws == 1:
        return base / base.sum()
    rows = np.concatenate(
        [comparable * recency for comparable, recency in zip(near, fade, strict=True)]
    )
    error = np.concatenate([cutoff.error for cutoff in errors])
    squares = np.where(np.isfinite(error), error, 0.0) ** 2
    size = np.sqrt((rows[:, None] * squares).sum(axis=0) / rows.sum())
    size = np.maximum(size, residuals)
    score = stats.t.logpdf(error / size, _TAIL) - np.log(size)
    score = np.where(np.isfinite(score), score, _NO_CHANCE)
    likelihood = np.exp(score - score.max(axis=1, keepdims=True))
    rows = rows / fade.sum() * len(errors)
    weights = base / base.sum()
    for _ in range(_STEPS):
        share = likelihood * weights
        weights = rows @ (share / share.sum(axis=1, keepdims=True)) + base
        weights /= weights.sum()
    return weights
