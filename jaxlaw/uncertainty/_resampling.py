"""Resampling schemes: weights or residuals of the resamples of a bootstrap.

=============  ============================  ================================================
kind           what is drawn                 where it is used
=============  ============================  ================================================
case           rows, or whole groups of them  :func:`jaxlaw.bootstrap`
block          consecutive pieces of curves  ``papers.out_of_domain``: ``case`` with the
                                             pieces as the groups
bayesian       exponential weights           ``inflection_ratio``: no row ever has weight 0
residual       residuals of other rows       :func:`jaxlaw.bootstrap`, ``pretraining_value``
wild           the row's own, times a sign   :func:`jaxlaw.bootstrap`
=============  ============================  ================================================

All draws depend on the number of rows, their groups and the seed alone, so that two bootstraps of
the same runs (of their general and domain loss, of two laws) are paired, draw by draw.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

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


def resampled_residuals(
    residuals: np.ndarray,
    n_resamples: int,
    seed: Seed,
    kind: Literal["residual", "wild", "parametric"] = "residual",
    *,
    groups: np.ndarray | None = None,
    size: int | None = None,
    degrees: float = np.inf,
) -> np.ndarray:
    """Residuals (R, n) to put on the fitted curve.

    Args:
        residuals: (n,) residuals; of ``parametric``, the standard deviations of the noise.
        n_resamples: number of resamples R.
        seed: seed of the draws, or a generator.
        kind: ``residual`` draws from all residuals with replacement. ``wild`` keeps each where it
            is and multiplies it by a drawn number, one for each group. ``parametric`` draws
            normal noise.
        groups: (n,) groups of ``wild``; each row is one of its own unless given.
        size: number of rows of a resample of ``residual``, where it is not n.
        degrees: degrees of freedom of the residuals' estimate of the noise: where finite, a
            resample also has a scale of its own (``student_scales``).
    """
    random, shape = np.random.default_rng(seed), (n_resamples, size or len(residuals))
    if kind == "wild":
        members = np.unique(np.arange(len(residuals)) if groups is None else groups,
                            return_inverse=True)[1]  # fmt: skip
        count = members.max() + 1
        # Single rows get a sign, ±1: that leaves the density of the noise at 0, which a small δ
        # sees, as it is, E[1/|w|] = 1 (Feng, He and Hu 2011). Of few groups signs make too few
        # resamples, 64 of six, so groups get ±√½, ±1 or ±√(3/2), equally likely, which have mean
        # 0 and variance 1 too (Webb 2023).
        steps = np.sqrt([0.5, 1.0, 1.5]) if count < len(residuals) else np.ones(1)
        factors = np.append(-steps, steps)
        drawn = (
            residuals
            * factors[random.integers(len(factors), size=(n_resamples, count))][:, members]
        )
    elif kind == "parametric":
        drawn = random.standard_normal(shape) * residuals
    else:
        drawn = residuals[random.integers(len(residuals), size=shape)]
    if np.isfinite(degrees):
        drawn = drawn * student_scales(degrees, (n_resamples, 1), random)
    return drawn


def student_scales(degrees: Any, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Factors on a standard deviation that is known with so many degrees of freedom.

    Normal draws times these are draws of Student's t: of few rows the noise is known roughly.

    Args:
        degrees: degrees of freedom, a number or an array that broadcasts to ``shape``; 0 gives 0.
        shape: shape of the factors.
        random: generator, which goes on.
    """
    return np.sqrt(degrees / random.chisquare(np.maximum(degrees, 1), shape))


def kernel_draws(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Standard normal numbers (R, n), independent of those that picked the residuals."""
    return np.random.default_rng([seed, 1]).standard_normal(shape)


def score_centre(residuals: np.ndarray, delta: float, asymmetry: float) -> float:
    """The shift of residuals (n,) at which their scores sum to 0: their mean where δ is infinite.

    Residuals are prediction minus target, and the score is the slope of their Huber loss.
    """

    def score(shift: float) -> float:
        moved = residuals - shift
        return float(np.sum(np.where(moved > 0, asymmetry, 1.0) * np.clip(moved, -delta, delta)))

    low, high = residuals.min(), residuals.max()
    return float(low if low == high else brentq(score, low, high, xtol=1e-15))
