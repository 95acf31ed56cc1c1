"""The weighted laws of a forecast as one law with draws, which is what plans take.

The law is the weighted laws' mean (:mod:`jaxlaw.laws._weighted`), moved as the forecast is. Each
draw is one of the laws, as often as it weighs, fitted to a resample of the runs, and has its share
of the laws' common error: so the interval of any plan goes over laws, parameters and that error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from jaxlaw.fitting import FittedLaw
from jaxlaw.laws import SHIFT, parameter_of, weight_of, weighted
from jaxlaw.notes import Note
from jaxlaw.uncertainty import Draws, LawShare

N_DRAWS = 256


def weighted_draws(
    fits: Mapping[str, FittedLaw],
    weights: Mapping[str, float],
    resamples: Mapping[str, Mapping[str, np.ndarray]],
    errors: Mapping[str, float],
    notes: tuple[Note, ...],
    seed: int,
    computes: tuple[float, float],
) -> Draws:
    """The weighted laws as one, with draws, and each of them alone.

    Args:
        fits: label → the law fitted to all runs.
        weights: label → weight, of sum 1.
        resamples: label → parameter → (R,) values of its fits to resamples.
        errors: ``shift``, ``common``, ``degrees`` and ``noise`` of the forecast, as numbers.
        notes: what to know of the forecast.
        seed: seed of the order in which draws of the common error meet those of the laws. In a
            plan by two forecasts their laws go in step, for the same law is right for both; their
            common errors do not, so that forecasts of different runs have different seeds. With
            one order for all, the errors cancelled: 95 % intervals of break-evens held 50 %.
        computes: least and largest training compute of the forecast's points.
    """

    def drawn(shares: Mapping[str, float], **by_law: Any) -> Draws:
        return Draws(
            *_params_and_draws(fits, shares, resamples, errors, seed),
            notes,
            kind="weighted laws",
            groups=(),
            degrees=float(min(len(next(iter(each.values()))) for each in resamples.values()) - 1),
            noise=errors["noise"],
            **by_law,
        )

    alone = {
        label: LawShare(weight, drawn(dict.fromkeys(fits, 0.0) | {label: 1.0}))
        for label, weight in weights.items()
    }
    return drawn(weights, by_law=alone, computes=computes)


def _params_and_draws(
    fits: Mapping[str, FittedLaw],
    weights: Mapping[str, float],
    resamples: Mapping[str, Mapping[str, np.ndarray]],
    errors: Mapping[str, float],
    seed: int,
) -> tuple[FittedLaw, dict[str, np.ndarray]]:
    """The weighted law, and its parameters' draws."""
    labels = list(fits)
    law = weighted({label: fit.law for label, fit in fits.items()})
    share = np.array([weights[label] for label in labels])
    evenly = (np.arange(N_DRAWS) + 0.5) / N_DRAWS
    drawn = np.minimum(np.searchsorted(np.cumsum(share), evenly), len(labels) - 1)
    error = errors["common"] * stats.t.ppf(evenly, errors["degrees"])
    params: dict[str, float] = {SHIFT: errors["shift"]}
    draws = {SHIFT: errors["shift"] + np.random.default_rng(seed).permutation(error)}
    for k, label in enumerate(labels):
        params[weight_of(label)] = float(share[k])
        draws[weight_of(label)] = (drawn == k).astype(float)
        # Each draw of a law takes the next of its resamples, and of other laws nothing.
        turn = np.cumsum(drawn == k) - 1
        for name, value in fits[label].params.items():
            values = np.asarray(resamples[label][name], float)
            params[parameter_of(name, label)] = value
            again = values[np.maximum(turn, 0) % len(values)]
            draws[parameter_of(name, label)] = np.where(drawn == k, again, value)
    return _fit_of(law, params, fits), draws


def _fit_of(law: Any, params: dict[str, float], fits: Mapping[str, FittedLaw]) -> FittedLaw:
    """The weighted law with the units and ranges of the laws it is made of."""
    merged: dict[str, dict[str, Any]] = {}
    for field in ("units", "ranges", "joint_ranges", "columns"):
        merged[field] = {}
        for fit in fits.values():
            merged[field] = {**(getattr(fit, field) or {}), **merged[field]}
    first = next(iter(fits.values()))
    others = {"area_options": first.area_options, "flops": first.flops}
    return FittedLaw(law, params, **merged, source=first.source, **others)
