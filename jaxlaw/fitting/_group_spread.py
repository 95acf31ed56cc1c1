"""How much the groups of a law vary: the spread that their runs show, and what they leave open.

Few groups say little of it. What a fit knows of a group is therefore averaged over the spreads that
the runs allow: by their marginal likelihood with the law linear around the optimum (Laplace's
approximation), and the scaled inverse χ² of the spread before any is seen. With the spread taken as
known, intervals of groups that vary much are too narrow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from jaxlaw.fitting._prior_evidence import PriorEvidence, off_prior
from jaxlaw.fitting._problem import FitProblem

#: Groups that have shown the spread of experiments of one source before any is seen.
GROUPS = 1.0
_DRAWS = 64
#: Spreads of a coordinate lie within this factor of the estimate and of that before, in logs.
_REACH = 2.0
_TRIED = 41


def expected_spread(
    each: np.ndarray, covariance: np.ndarray, there: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """(k,) spread expected of groups' coordinates (G, k), whose posterior has (Gk, Gk).

    Args:
        each: coordinates of the groups.
        covariance: their posterior covariance, group by group.
        there: numbers of the groups that have runs.
        before: (k,) spread before any group is seen, which counts as :data:`GROUPS` groups.
    """
    size, count = each.shape[1], len(there)
    total = GROUPS * before**2
    for j in range(size):
        rows = there * size + j
        off = each[there, j] - each[there, j].mean()
        block = covariance[np.ix_(rows, rows)]
        # Of deviations from the groups' mean: the trace of the centred covariance.
        total[j] += off @ off + np.trace(block) - block.sum() / count
    return np.sqrt(total / (count - 1 + GROUPS))


class Around(NamedTuple):
    """Runs and prior linear around an optimum: of m moving and k scale-free coordinates.

    Attributes:
        of_runs: (m, m) information of the runs.
        off: (k,) scale-free coordinates less the prior's mean.
        slopes: (k, m) of these.
        covariance: (k, k) of the prior by which it is the optimum.
    """

    of_runs: np.ndarray
    off: np.ndarray
    slopes: np.ndarray
    covariance: np.ndarray


class GivenPriors(NamedTuple):
    """What a fit would be by each of R other priors.

    Attributes:
        moved: (R, m) from the optimum.
        covariance: (R, m, m) around there.
        log_likelihood: (R,) of the prior, the coordinates integrated out, less a constant.
    """

    moved: np.ndarray
    covariance: np.ndarray
    log_likelihood: np.ndarray


def given_priors(around: Around, covariances: np.ndarray) -> GivenPriors:
    """What a fit would be by priors of the same mean and other covariances (R, k, k)."""
    slopes, off = around.slopes, around.off
    inverse = np.linalg.inv(covariances)
    by_prior = inverse @ off
    # At the optimum the runs pull as hard as the prior does, to the other side.
    pull = slopes.T @ np.linalg.solve(around.covariance, off) - by_prior @ slopes
    covariance = np.linalg.inv(around.of_runs + slopes.T @ inverse @ slopes)
    moved = np.einsum("rij,rj->ri", covariance, pull)
    log_likelihood = (
        np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(inverse)[1]
        + (moved * pull).sum(axis=1) - by_prior @ off
    ) / 2  # fmt: skip
    return GivenPriors(moved, covariance, log_likelihood)


def _given_spreads(
    problem: FitProblem, at: np.ndarray, evidence: PriorEvidence, moving: np.ndarray,
    spreads: np.ndarray | None = None,
) -> GivenPriors:  # fmt: skip
    """What a fit of groups would be by other spreads (R, k), or by those that its prior drew."""
    prior, law = problem.options.prior, problem.law
    off, slopes = off_prior(problem, at)
    # Heavy tails leave a part of the prior's information: as if its covariance were larger.
    now, others = prior.covariance_of(law), prior.given_spreads(law, spreads)
    around = Around(
        evidence.of_runs[np.ix_(moving, moving)], off, slopes[:, moving], now / evidence.pull
    )
    return given_priors(around, others / evidence.pull)


def draw_spreads(
    problem: FitProblem, at: np.ndarray, evidence: PriorEvidence, before: np.ndarray
) -> np.ndarray:
    """(R, k) draws of the posterior of the spread, of each coordinate by the others' estimates.

    Args:
        problem: problem of the groups, whose prior has the estimated spread.
        at: (p,) its optimum.
        evidence: what runs and prior know there.
        before: (k,) spread before any group is seen, which counts as :data:`GROUPS` groups.
    """
    spread = np.array([*problem.options.prior.spread.values()])
    uniform = qmc.LatinHypercube(len(spread), seed=0).random(_DRAWS)
    drawn = np.empty_like(uniform)
    for j, (here, scale) in enumerate(zip(spread, before, strict=True)):
        low, high = np.log(min(here, scale)) - _REACH, np.log(max(here, scale)) + _REACH
        logs = np.linspace(low, high, _TRIED)
        tried = np.tile(spread, (_TRIED, 1))
        tried[:, j] = np.exp(logs)
        given = _given_spreads(problem, at, evidence, np.arange(len(at)), tried)
        of_prior = -GROUPS * (logs + np.square(scale / tried[:, j]) / 2)
        log_density = given.log_likelihood + of_prior
        below = np.cumsum(np.exp(log_density - log_density.max()))
        drawn[:, j] = np.exp(np.interp(uniform[:, j], below / below[-1], logs))
    return drawn


def covariance_over_spreads(
    problem: FitProblem, at: np.ndarray, evidence: PriorEvidence, moving: np.ndarray
) -> np.ndarray:
    """(m, m) posterior covariance around the optimum, over the spreads that the runs allow.

    Args:
        problem: problem of the groups.
        at: (p,) its optimum.
        evidence: what runs and prior know there.
        moving: (m,) indices of the search coordinates that move.
    """
    moved, covariance, _ = _given_spreads(problem, at, evidence, moving)
    return covariance.mean(axis=0) + moved.T @ moved / len(moved)
