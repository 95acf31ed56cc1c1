"""The inflection ratio r_i: below it the loss rises with D, above it it falls (Que 2024, App. I.3).

The D-CPT law, whose data term has one sign, is fitted to the smaller and to the larger mixture
ratios apart, with B of either sign; r_i is where the two fits meet, as the paper proposes. Where
the trend turns smoothly the two run side by side and hardly cross, so the trends of the data
themselves stand beside: the loss surely rises with D at one mixture ratio, surely falls at another,
and r_i lies between, whatever the law.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._answer import Answer
from jaxlaw._quantities import SHARE, Quantity, written, written_range
from jaxlaw._typed import ConfidenceLevel, ResampleCount, Seed, StartCount, checked
from jaxlaw.data import read_runs
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import FitOptions, fit_many
from jaxlaw.notes import Note
from jaxlaw.uncertainty import LEVEL, few_resamples_notes, percentile_interval, resampled_weights

_CLEAR = 2.0  # standard errors of a slope
_SIGNED = {"B": (-1e3, 1e3)}  # nats at a billion tokens
_FINE = 512  # mixture ratios at which the two laws are compared
_BRACKET = "rely on the bracket"


@checked
def inflection_ratio(
    runs: Any,
    *,
    at: dict[str, float] | None = None,
    n_resamples: ResampleCount = 100,
    level: ConfidenceLevel = LEVEL,
    n_starts: StartCount = 512,
    n_local: int = 16,
    seed: Seed = 0,
) -> Answer:
    """Find the mixture ratio at which the loss turns from rising to falling with D.

    Args:
        runs: runs as :func:`jaxlaw.read_runs` takes or returns them, with columns N, D, r, loss:
            r the mixture ratio of the corpus the loss is of. Runs with r = 0 are left out: there
            the law has no data term.
        at: N and D, in the law's own units (billions), at which the fits are compared; the
            geometric means if None. Their meeting point depends on them.
        n_resamples: number of resamples of the runs, each with random weights (exponential, a
            Bayesian bootstrap); two or more; with fewer than 19 a 90% interval is too narrow.
        level: confidence level of the interval.
        n_starts: number of starts of every fit.
        n_local: number of starts that are solved, as for :func:`jaxlaw.fit`.
        seed: seed of the starts and of the weights.

    Returns:
        Answer with the mixture ratios ``ratio``, at which the two fits meet, with the percentiles
        of where resampled fits do; ``zero_slope``, at which the slopes in D, drawn straight between
        mixture ratios, pass zero; and ``split``. A number that is not there is left out. Table
        ``trends``: a row a mixture ratio, ``r``, ``slope`` of log loss over log D, ``error``, its
        standard error. Facts: ``bracket``, the largest mixture ratio at which the loss surely rises
        with D and the smallest above it at which it surely falls; ``below`` and ``above``, the
        parameters of the two fits, in the law's own units, each a law by ``jl.FittedLaw("dcpt",
        …)``; ``left_out``, the number of runs with r = 0. Notes say where the interval is too
        narrow, or does not hold the ratio, and where no mixture ratio's trend turns.

    Raises:
        UsageError: the call makes no sense, or one side of the split has too few runs.
        DataError: mixture ratios without two values of D, or too few runs.

    Example:
        >>> jl.papers.inflection_ratio(jl.simulate.experiment("dcpt").table).headline
        'no inflection within the data: the loss falls with D at every mixture ratio down to 10%'

    Shell:
        jaxlaw inflection runs.csv --corpus general -c r_d=domain_ratio,loss_g=general_loss
    """
    if n_resamples < 2:
        raise UsageError(f"n_resamples is 2 or more, not {n_resamples}")
    at = dict(at or {})
    if others := sorted(set(at) - {"N", "D"}):
        raise UsageError(f"at takes N and D, not {', '.join(others)}")
    seen = read_runs(runs).observations("dcpt")
    shares, law = seen.inputs["r"], laws.built_in("dcpt")
    notes, used = [*seen.notes], np.where(shares <= 0, 0.0, seen.weight)
    # 1. The data alone: at which mixture ratios the loss rises with D. With no change of sign
    # nothing is fitted.
    records = []
    for one in np.unique(shares[used > 0]):
        # The slope of log loss over log D, with a level for every size.
        rows = (shares == one) & (used > 0)
        size = np.unique(seen.inputs["N"][rows], return_inverse=True)[1]
        x = _within(np.log(seen.inputs["D"][rows]), size, used[rows])
        y = _within(np.log(seen.target[rows]), size, used[rows])
        weight, square = used[rows], used[rows] @ x**2
        spare = rows.sum() - size.max() - 2
        if not square > 1e-12 or spare < 1:
            raise DataError(
                f"{seen.source}: {rows.sum()} rows at r = {one:g} do not show how the loss moves "
                "with D; add evaluations, or leave this mixture ratio out (where=)"
            )
        slope = (weight * x) @ y / square
        records.append((one, slope, np.sqrt((weight @ (y - slope * x) ** 2) / spare / square)))
    trends = pd.DataFrame(records, columns=["r", "slope", "error"])
    quantities, facts = {}, {}
    if count := int((shares <= 0).sum()):  # there the law has no data term
        facts["left_out"] = count
    r, slope, clear = trends["r"], trends["slope"], _CLEAR * trends["error"]
    rising = r[slope > clear]
    falling = r[(slope < -clear) & (r > rising.max())] if len(rising) else rising
    if len(falling):
        bracket = float(rising.max()), float(falling.min())
        inside = trends[r.between(*bracket)]
        k = int(np.argmax(inside["slope"].to_numpy() <= 0))  # the first that does not rise
        (r0, s0), (r1, s1) = inside[["r", "slope"]].to_numpy()[k - 1 : k + 1]
        flat = float(r0 + (r1 - r0) * s0 / (s0 - s1))
        sentence = (
            f"the loss turns from rising to falling with D at a mixture ratio of "
            f"{written_range(*bracket, SHARE)}; slopes pass zero at {{zero_slope}}"
        )
        quantities["zero_slope"], facts["bracket"] = Quantity(flat, SHARE), bracket
        # 2. A law for each side of the split, between the mixture ratios where the slope changes
        # its sign. A side is the rows of weight above 0, so that both sides of all runs (rows 0 and
        # 1 of the fits) and of every resample are one batch.
        split = float(np.sqrt(r0 * r1))
        sides = [used * (shares < split), used * (shares >= split)]
        for side, word in zip(sides, ("below", "at or above"), strict=True):
            if (side > 0).sum() < len(law.parameters):
                raise UsageError(
                    f"{(side > 0).sum()} runs have a mixture ratio {word} {split:.4g}; the law's "
                    f"{len(law.parameters)} parameters need more: add runs"
                )
        drawn = resampled_weights(np.arange(len(seen)), n_resamples, seed, "bayesian")
        weights = [side * each for each in (np.ones(len(seen)), *drawn) for side in sides]
        options = FitOptions(bounds=_SIGNED, n_starts=n_starts, n_local=n_local, seed=seed)
        fits = fit_many(law, seen, np.stack(weights), options=options)
        # 3. Where the two laws predict the same loss, for all runs and for each resample.
        for name in ("N", "D"):
            at.setdefault(name, float(np.exp(np.average(np.log(seen.inputs[name]), weights=used))))
        # Looked for next to the split, up to the second mixture ratio on either side: further out
        # one of the laws knows nothing.
        left, right = (np.unique(shares[side > 0]) for side in sides)
        fine = np.geomspace(left[-2:][0], right[:2][-1], _FINE)
        values = np.log(fits.predict(r=fine, **{n: np.full(_FINE, x) for n, x in at.items()}))
        apart = values[0::2] - values[1::2]
        turning = apart[:, 1:] * apart[:, :-1] <= 0
        crossings = np.full(len(apart), np.nan)
        for row, gap in enumerate(apart):
            turns = np.flatnonzero(turning[row])
            if len(turns) and np.isfinite(gap).all():
                share = gap[turns] / (gap[turns] - gap[turns + 1])
                met = fine[turns] + share * (fine[turns + 1] - fine[turns])
                crossings[row] = met[np.argmin(np.abs(np.log(met / split)))]
        below, above = ({name: float(v[k]) for name, v in fits.params.items()} for k in (0, 1))
        facts |= {"below": below, "above": above}
        ratio, resampled = float(crossings[0]), crossings[1:]
        missing = np.isnan(resampled).mean()
        doubts = []
        if np.isnan(ratio):
            doubts.append("the two fits do not meet near the split")
        elif turning[0].sum() > 1:
            doubts.append("the two fits meet more than once")
        elif missing > 0.1:
            doubts.append(f"{missing:.0%} of the resampled fits do not meet")
        if ratio < bracket[0] or ratio > bracket[1]:
            doubts.append("the fits meet outside the mixture ratios between which the trend turns")
        if below["B"] >= 0 or above["B"] <= 0:
            doubts.append(
                f"B is {below['B']:.3g} below the split and {above['B']:.3g} above it, where "
                "negative and positive are expected"
            )
        quantities["split"] = Quantity(split, SHARE)
        if np.isfinite(ratio):
            met, low, high = resampled[np.isfinite(resampled)], np.nan, np.nan
            notes += few_resamples_notes(len(met), level)
            if len(met) > 1:
                low, high = map(float, percentile_interval(met, level))
                if not low <= ratio <= high:
                    doubts.append("the resampled fits meet to one side of the ratio")
            quantities["ratio"] = Quantity(ratio, SHARE, 1.0, low, high, resampled)
            sentence += "; the fits below and above {split} meet at {ratio}"
        notes += [Note("crossing-unclear", "warning", f"{one}: {_BRACKET}") for one in doubts]
    else:
        sentence = "no inflection within the data: the loss " + (
            f"rises with D up to {written(rising.max(), SHARE)}, and falls at none above it"
            if len(rising)
            else f"falls with D at every mixture ratio down to {written(r.min(), SHARE)}"
        )
    return Answer(
        kind="inflection ratio", sentence=sentence, quantities=quantities,
        tables={"trends": trends}, facts=facts, level=level, notes=notes,
        units={"r": (SHARE, 1.0), "slope": ("", 1.0), "error": ("", 1.0)},
    )  # fmt: skip


def _within(values: np.ndarray, group: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Values less the weighted mean of their group."""
    means = np.bincount(group, weight * values) / np.bincount(group, weight)
    return values - means[group]
