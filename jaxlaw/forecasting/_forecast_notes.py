"""What makes a forecast doubtful: the notes beside its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from jaxlaw._quantities import exponential
from jaxlaw._rounding import SAME
from jaxlaw.fitting import FittedLaw, outside_range, range_message
from jaxlaw.forecasting._calibration import PRIOR_CUTOFFS, Calibration
from jaxlaw.forecasting._cutoffs import FEW_CUTOFFS, Along, CutoffFits
from jaxlaw.notes import Note

_TELLING = 0.1  # weight of a law above which the side that it errs on counts
_ONE_BUDGET = 1.5  # ratio of the largest value to the least, up to which runs are of one budget
_THIN = 4  # runs for each parameter of the smallest law, below which a note says so
_SHORT = 1.5  # standard errors of the share held, below the level, at which it counts as too low
_FARTHER = 1.5  # times the farthest distance back-tested

#: Inputs that grow with what runs are put in order by: a distance says how far beyond they lie.
_GROWING = {"compute": ("N", "D", "C"), "step": ("S1", "S2", "D")}


def notes_of_backtest(
    fits: CutoffFits, calibrations: Sequence[Calibration], table: pd.DataFrame, laws: Sequence[str]
) -> Iterator[Note]:
    """What the runs and their back-test leave open.

    Args:
        fits: laws fitted up to each cut-off.
        calibrations: what the back-test teaches for each distance of a point.
        table: the points of the forecast, with ``distance`` and ``shift``.
        laws: labels of the laws that have a finite fit.
    """
    rows = int((fits.weight > 0).sum())
    free = {candidate.label: len(candidate.free) for candidate in fits.candidates}
    if rows < _THIN * min(free[label] for label in laws):
        most = max(laws, key=free.__getitem__)
        yield Note(
            "few-rows", "warning",
            f"{rows} runs for the {free[most]} parameters of {most}: fits of so few runs follow "
            "their noise, and nothing shows where a law does not suit; run more, smaller ones too",
            inherited=True,
        )  # fmt: skip
    values = fits.z[(fits.weight > 0) & (fits.z > 0)]
    if values.max() <= _ONE_BUDGET * values.min():
        first, last = exponential(values.min()), exponential(values.max())
        least = first if first == last else f"{first} to {last}"
        yield Note(
            "one-budget", "warning",
            f"all runs have about the same {fits.along}, {least}: "
            "how the target changes with it is known of the laws' forms alone; add runs with less "
            "or more of it",
            inherited=True,
        )  # fmt: skip
    count = len(fits.cutoffs)
    if count < FEW_CUTOFFS:
        what = f"{count} cut-off{'' if count == 1 else 's'}" if count else "no cut-off"
        yield Note(
            "prior-width", "warning",
            f"the runs allow {what}: beyond them the width is mostly a prior, learned from other "
            f"data sets (it counts as {PRIOR_CUTOFFS:g} cut-offs), and not from these runs",
            inherited=True,
        )  # fmt: skip
    farthest = max((d.max() for d in fits.distance), default=0.0)
    far = table["distance"].max()
    if count and far > _FARTHER * farthest * (1 + SAME):  # budgets of equal steps: a tie
        yield Note(
            "farther-than-tested", "warning",
            f"points lie up to ×{np.exp(far):.3g} beyond the runs, and the back-test reaches "
            f"×{np.exp(farthest):.3g}: how the width grows from there on is assumed, not tested",
            inherited=True,
        )  # fmt: skip
    if count >= FEW_CUTOFFS:
        yield from _one_sided(calibrations, table, count)
    if len(laws) == 1:
        yield Note(
            "one-law", "warning",
            f"{laws[0]} alone: the interval knows nothing of what another law would say, and such "
            "intervals have held fewer runs than those of several laws; add others where any suit",
            inherited=True,
        )  # fmt: skip


def _one_sided(
    calibrations: Sequence[Calibration], table: pd.DataFrame, count: int
) -> Iterator[Note]:
    """The first distance at which all laws that count erred on one side at every cut-off."""
    for calibration in calibrations:
        sides = np.sign(calibration.of_laws[:, calibration.weights > _TELLING])
        if not calibration.distance or not ((sides == 1).all() or (sides == -1).all()):
            continue
        points = table[table["distance"] == calibration.distance]
        side = "low" if sides[0, 0] > 0 else "high"
        yield Note(
            # The estimate is moved and the width has learned of it: intervals hold as often.
            "one-sided", "info",
            f"×{np.exp(calibration.distance):.3g} beyond, all laws with a weight above "
            f"{_TELLING:g} predicted too {side} at all {count} cut-offs, by "
            f"{abs(np.expm1(calibration.biases)).mean():.2%} on average: the estimate is moved "
            f"by {points['shift'].mean():+.2%}",
        )  # fmt: skip
        return


def notes_of_coverage(coverage: np.ndarray, level: float) -> Iterator[Note]:
    """Whether the intervals of forecasts made at the cut-offs would have failed too often.

    Args:
        coverage: (J,) share of the runs beyond each cut-off that they would have held; NaN where
            there is none.
        level: share that they should hold.
    """
    count = int(np.isfinite(coverage).sum())
    if not count:
        return
    # The cut-off counts, not the run: runs beyond one share the error of one fit.
    mean, chance = float(np.nanmean(coverage)), np.sqrt(level * (1 - level) / count)
    if mean < level - _SHORT * chance:
        yield Note(
            "intervals-failed", "warning",
            f"made at the {count} cut-off{'s' if count > 1 else ''} of the back-test, {level:.0%} "
            f"intervals would have held {mean:.0%} of the runs then to come: the laws do not suit "
            "these runs, and the interval here may hold no more often",
            inherited=True,
        )  # fmt: skip


def notes_of_points(
    fits: Mapping[str, FittedLaw], points: Mapping[str, np.ndarray], distance: np.ndarray,
    along: Along,
) -> Iterator[Note]:  # fmt: skip
    """Points that lie beyond the runs in a direction of which the back-test says nothing.

    Args:
        fits: label → the law fitted to all runs.
        points: input → (m,) values, in the units of the runs.
        distance: (m,) log of the ratio to the largest run; 0 inside the runs.
        along: what distances are of, as :func:`jaxlaw.backtest` takes it.
    """
    of_column = isinstance(along, str)
    # A distance of the user's own may be of any direction: where it is above 0, it is known.
    known = (distance > 0) & (not of_column)
    yield from _unseen_ratios(next(iter(fits.values())), points, known)
    named = set()
    for fit in fits.values():
        inputs = fit.law.labelled({name: points[name] for name in fit.law.input_names})
        flags = outside_range(fit.ranges, {}, fit.checked_inputs(None, inputs))
        for name, out in flags.items():
            # Of one value, such as S2 of 0 before a rate ever falls, runs show nothing at all.
            values_differ = fit.ranges[name][0] < fit.ranges[name][1]
            grows = not of_column or name in (*_GROWING.get(along, ()), along)
            # A distance above 0 is what the interval already grows with.
            unseen = out & (distance == 0) if grows and values_differ else out
            if name in named or not unseen.any():
                continue
            named.add(name)
            values = _values_at(points, unseen)
            yield Note(
                "unseen-input", "warning",
                range_message(name, fit.ranges, {}, values, fit.input_units())
                + f": the distance, of {along if of_column else 'along='}, says "
                "nothing of errors in that direction, nor has the back-test tried it; "
                + (f"give along={name!r}" if values_differ else "no run shows what it does"),
                inherited=False,
            )  # fmt: skip


def _unseen_ratios(
    fit: FittedLaw, points: Mapping[str, np.ndarray], known: np.ndarray
) -> Iterator[Note]:
    """Points whose ratio of two inputs no run had, but for those (m,) whose distance says it."""
    ratios = {name: limits for name, limits in (fit.joint_ranges or {}).items() if "/" in name}
    for label, (low, high) in ratios.items():
        first, _, second = label.partition("/")
        if first not in points or second not in points:
            continue
        ratio = points[first] / points[second]
        unseen = ((ratio < low * (1 - SAME)) | (ratio > high * (1 + SAME))) & ~known
        if unseen.any():
            yield Note(
                "unseen-ratio", "warning",
                range_message(label, {}, ratios, _values_at(points, unseen), fit.input_units())
                + ": the back-test says nothing of errors in that direction",
                inherited=False,
            )  # fmt: skip


def _values_at(points: Mapping[str, np.ndarray], flags: np.ndarray) -> dict[str, float]:
    """The first of the points that are flagged."""
    first = int(np.flatnonzero(flags)[0])
    return {name: float(values[first]) for name, values in points.items()}
