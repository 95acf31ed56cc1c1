"""Resampling schemes: weights or residuals of the resamples of a bootstrap.

=============  ============================  ================================================
kind           what is drawn                 where it is used
=============  ============================  ================================================
case           rows, or whole groups of them  :func:`jaxlaw.bootstrap`
block          consecutive pieces of curves  ``papers.out_of_domain``: ``case`` with the
                                             pieces as the groups
bayesian       exponential weights           ``inflection_ratio``: no row ever has weight 0
residual       residuals of other rows       ``pretraining_value``
wild           the row's own, times a sign   :func:`jaxlaw.bootstrap`
=============  ============================  ================================================

All draws depend on the number of rows, their groups and the seed alone, so that two bootstraps of
the same runs (of their general and domain loss, of two laws) are paired, draw by draw.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

#: A seed, or a generator where draws go on from those before.
Seed = int | np.random.Generator


def resampled_weights(
    groups: np.ndarray, n_resamples: int, seed: Seed, kind: Literal["case", "bayesian"] = "case"
) -> np.ndarray:
    """Factors (R, n) on the weights of the rows.

    Args:
        groups: (n,) label of the group, block or run that each row belongs to; ``np.arange(n)``
            resamples row by row. Rows of one group get one factor.
        n_resamples: number of resamples R.
        seed: seed of the draws, or a generator.
        kind: ``case`` counts how often each of the G groups comes among G draws with replacement;
            ``bayesian`` draws exponential factors of mean 1 (Rubin 1981), which leave no group
            out, so that a law stays determined where few rows determine it.
    """
    _, members = np.unique(groups, return_inverse=True)
    count, random = members.max() + 1, np.random.default_rng(seed)
    if kind == "bayesian":
        drawn = random.exponential(size=(n_resamples, count))
    else:
        drawn = random.multinomial(count, np.full(count, 1 / count), n_resamples)
    return drawn[:, members].astype(float)


def wild_residuals(
    residuals: np.ndarray, n_resamples: int, seed: Seed, groups: np.ndarray
) -> np.ndarray:
    """Residuals (R, n), each where it is, times a drawn number of its group.

    Args:
        residuals: (n,) residuals.
        n_resamples: number of resamples R.
        seed: seed of the draws, or a generator.
        groups: (n,) labels; each row is one of its own in ``np.arange(n)``.
    """
    _, members = np.unique(groups, return_inverse=True)
    count, random = members.max() + 1, np.random.default_rng(seed)
    # Single rows get a sign, ±1: that leaves the density of the noise at 0, which a small δ sees,
    # as it is, E[1/|w|] = 1 (Feng, He and Hu 2011). Of few groups signs make too few resamples, 64
    # of six, so groups get ±√½, ±1 or ±√(3/2), equally likely, which have mean 0 and variance 1
    # too (Webb 2023).
    steps = np.sqrt([0.5, 1.0, 1.5]) if count < len(residuals) else np.ones(1)
    factors = np.append(-steps, steps)
    return residuals * factors[random.integers(len(factors), size=(n_resamples, count))][:, members]


def resampled_residuals(
    residuals: np.ndarray, n_resamples: int, seed: Seed, *, size: int, degrees: float
) -> np.ndarray:
    """Residuals (R, ``size``) drawn from all (n,) with replacement.

    Args:
        residuals: (n,) residuals.
        n_resamples: number of resamples R.
        seed: seed of the draws, or a generator.
        size: number of rows of a resample.
        degrees: degrees of freedom of the residuals' estimate of the noise: a resample has a scale
            of its own, by which normal draws are of Student's t.
    """
    random = np.random.default_rng(seed)
    drawn = residuals[random.integers(len(residuals), size=(n_resamples, size))]
    return drawn * np.sqrt(degrees / random.chisquare(max(degrees, 1), (n_resamples, 1)))
