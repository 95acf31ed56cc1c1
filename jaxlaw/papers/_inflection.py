"""The inflection ratio r_i: below it the loss rises with D, above it it falls (Que 2024, App. I.3).

The D-CPT law, whose data term has one sign, is fitted to the smaller and to the larger shares
apart, with B of either sign; r_i is where the two fits meet, as the paper proposes. Where the trend
turns smoothly the two run side by side and hardly cross, so the trends of the data themselves
stand beside: the loss surely rises with D at one share, surely falls at another, and r_i lies
between, whatever the law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._quantities import SHARE, written_range
from jaxlaw._result import Result
from jaxlaw._typed import ConfidenceLevel, ResampleCount, Seed, StartCount, checked
from jaxlaw.data import Observations, ReadingOptions, read_runs
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import FitOptions, FittedLaw, Refits, Scores, fit_many, score_fit
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.uncertainty import fewest_for, percentile_interval, resampled_weights

_CLEAR = 2.0  # standard errors of a slope
_SIGNED = {"B": (-1e3, 1e3)}  # nats at a billion tokens
_FINE = 512  # shares at which the two laws are compared
_NONE = (np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class PiecewiseLaw:
    """The D-CPT law in two pieces, one below the inflection ratio and one from it on.

    Que 2024, App. I.3: below r_i, B is negative and the loss rises with D. The pieces were fitted
    apart and meet at the N and D at which their fits were compared; elsewhere the loss takes a
    step at r_i (:meth:`step`).

    Attributes:
        ratio: inflection ratio r_i.
        below, above: pieces, each a fitted law ``dcpt``.

    Example:
        >>> truth = jl.simulate.TRUTHS["dcpt"]
        >>> answer = jl.papers.InflectionRatio(ratio=0.1, below=truth | {"B": -0.1}, above=truth)
        >>> answer.law().predict(N=1.8, D=[1.0, 2.0], r=0.05).round(3).tolist()
        [2.534, 2.535]
    """

    ratio: float
    below: FittedLaw
    above: FittedLaw

    def predict(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """The loss at new points; args, shape and errors as of :meth:`jaxlaw.Fit.predict`."""
        r = self.above.checked_inputs(table, inputs)["r"] * self.above.units["r"]
        losses = [law.predict(table, **inputs) for law in (self.below, self.above)]
        return np.where(r < self.ratio, *losses)

    @property
    def law(self) -> Law:
        """The law of both pieces."""
        return self.above.law

    @property
    def units(self) -> dict[str, float]:
        """Input → what one unit of the runs is worth in the law's own unit."""
        return self.above.units

    @property
    def delta(self) -> float:
        """Huber threshold of the scores."""
        return self.above.delta

    def is_extrapolation(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """Whether points lie outside the runs; as :meth:`jaxlaw.FittedLaw.is_extrapolation`."""
        return self.above.is_extrapolation(table, **inputs)

    def step(self, N: Any, D: Any) -> np.ndarray:
        """The loss just above r_i less that just below it, at sizes N and tokens D, in nats.

        Args:
            N, D: numbers or arrays that broadcast with each other, in the units of the runs.
        """
        r = self.ratio / self.above.units["r"]
        return self.above.predict(N=N, D=D, r=r) - self.below.predict(N=N, D=D, r=r)

    def score(self, runs: Any, **reading: Unpack[ReadingOptions]) -> Scores:
        """How well the pieces predict runs; as :meth:`jaxlaw.Fit.score`."""
        return score_fit(self, runs, reading)


@dataclass(frozen=True, eq=False, repr=False)
class InflectionRatio(Result):
    """Where the trend of the loss with D turns.

    Attributes:
        ratio: share at which the two fits meet; NaN where they do not, or nothing turns.
        interval: (low, high) of it, percentiles of ``crossings``; NaN likewise, and where fewer
            than two meet. Notes say where it is too narrow, or does not hold ``ratio``.
        bracket: (low, high), the largest share at which the loss surely rises with D and the
            smallest above it at which it surely falls; NaN where there is none.
        flat: share at which the slopes in D, drawn straight between shares, pass zero.
        split: share below which and from which on runs were fitted apart.
        trends: table of a row a share: ``r``, ``slope`` of log loss over log D, ``error``
            (standard).
        below, above: parameters of the two fits, in the law's own units.
        crossings: (resamples,) shares where resampled fits meet, NaN where they do not.
        level: confidence level of the interval.
        notes: findings to know before relying on it.
        units: input → one unit of the runs in the law's own unit.
        ranges: input → (lowest, highest) of the runs, in the runs' units.

    Example:
        >>> answer = jl.papers.inflection_ratio(jl.simulate.experiment("dcpt").table)
        >>> answer.ratio, answer.summary().splitlines()[0]
        (nan, 'no inflection within the data')
    """

    ratio: float = field(default=np.nan, metadata={"unit": SHARE})
    interval: tuple[float, float] = _NONE
    bracket: tuple[float, float] = _NONE
    flat: float = field(default=np.nan, metadata={"unit": SHARE})
    split: float = field(default=np.nan, metadata={"unit": SHARE})
    trends: pd.DataFrame = field(default_factory=pd.DataFrame)
    below: dict[str, float] = field(default_factory=dict)
    above: dict[str, float] = field(default_factory=dict)
    crossings: np.ndarray = field(default_factory=lambda: np.empty(0))
    level: float = field(default=0.95, metadata={"unit": SHARE})
    notes: tuple[Note, ...] = ()
    units: dict[str, float] = field(default_factory=lambda: dict.fromkeys("NDr", 1.0))
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    picture = "trends_over_share"

    def law(self, ratio: float | None = None) -> PiecewiseLaw:
        """The law on both sides of the inflection ratio, as one object that predicts.

        Args:
            ratio: where the pieces change; if None, where the two fits meet, or, where they do
                not, where the slopes in D pass zero (``flat``).

        Raises:
            UsageError: there is no inflection within the data, so that there are no pieces, or
                ``ratio`` is no share.
        """
        if not self.below:
            raise UsageError(
                "there is no inflection within these runs, and so no law in two pieces: fit the "
                "law dcpt to all of them, or give split= to fit two sides all the same"
            )
        for turn in (ratio, self.ratio, self.flat, self.split):
            if turn is not None and not np.isnan(turn):
                break
        if not 0 < turn < 1:
            raise UsageError(
                f"ratio is {turn}; it must be a share between 0 and 1",
                argument="ratio",
                value=ratio,
            )
        sides = [
            FittedLaw(
                laws.built_in("dcpt"), params, notes=self.notes, units=self.units,
                ranges=self.ranges, source=f"a piece {word} r = {turn:.4g}",
            )
            for params, word in ((self.below, "below"), (self.above, "from"))
        ]  # fmt: skip
        return PiecewiseLaw(float(turn), *sides)

    column_units: ClassVar[Mapping[str, str]] = {"r": SHARE, "slope": "", "error": ""}

    @property
    def headline(self) -> str:
        """Where the loss turns, or that it does not."""
        if np.isnan(self.bracket[0]):
            return "no inflection within the data"
        return (
            f"the loss turns from rising to falling with D at a share of "
            f"{written_range(*self.bracket, SHARE)}; slopes pass zero at {self.written('flat')}"
        )

    def lines(self) -> list[str]:
        """The evidence."""
        if np.isnan(self.ratio):
            return []
        low, high = self.interval
        within = f" ({100 * self.level:g} %: {written_range(low, high, SHARE)})"
        known = "" if np.isnan(low) else within
        return [
            f"the fits below and above a share of {self.written('split')} meet at "
            f"{self.written('ratio')}{known}"
        ]


@checked
def inflection_ratio(
    runs: Any,
    *,
    split: float | None = None,
    at: dict[str, float] | None = None,
    n_resamples: ResampleCount = 100,
    level: ConfidenceLevel = 0.95,
    resample: Literal["points", "runs"] = "points",
    n_starts: StartCount = 512,
    n_local: int = 16,
    seed: Seed = 0,
) -> InflectionRatio:
    """Find the share at which the loss turns from rising to falling with D.

    Args:
        runs: runs as :func:`jaxlaw.read_runs` takes or returns them, with columns N, D, r, loss:
            r the share of the corpus the loss is of. Runs with r = 0 are left out: there the
            law has no data term.
        split: share below which and from which on runs are fitted apart; if None, between the
            two shares where the slope in D changes its sign.
        at: N and D, in the law's own units (billions), at which the fits are compared; the
            geometric means if None. Their meeting point depends on them.
        n_resamples: number of resamples of the runs, each with random weights (exponential, a
            Bayesian bootstrap); two or more; below 39 an interval of 95 % is too narrow.
        level: confidence level of the interval.
        resample: ``points``, which get weights of their own, or whole ``runs`` (all D of one N
            and r), for noise that a run's points share.
        n_starts: number of starts of every fit.
        n_local: number of starts that are solved, as for :func:`jaxlaw.fit`.
        seed: seed of the starts and of the weights.

    Returns:
        :class:`InflectionRatio`. Where no share's trend turns, ratio and bracket are NaN and
        a note says so.

    Raises:
        UsageError: the call makes no sense, or the split leaves one side empty.
        DataError: shares without two values of D, or too few runs.

    Example:
        >>> jl.papers.inflection_ratio(jl.simulate.experiment("dcpt").table).notes[-1].code
        'no-inflection'
    """
    if n_resamples < 2 or not 0 < level < 1:
        raise UsageError(f"n_resamples ≥ 2 and 0 < level < 1, not {n_resamples} and {level}")
    if resample not in ("points", "runs"):
        raise UsageError(
            f"resample is 'points' or 'runs', not {resample!r}", argument="resample", value=resample
        )
    seen = read_runs(runs).observations("dcpt")
    shares, law = seen.inputs["r"], laws.built_in("dcpt")
    notes, used = [*seen.notes], np.where(shares <= 0, 0.0, seen.weight)
    if count := int((shares <= 0).sum()):
        message = f"{count} runs with r = 0 left out: there the law has no data term"
        notes.append(Note("zero-share", "info", message))
    # 1. The data alone: at which shares the loss rises with D. With no change of sign nothing is
    # fitted, unless the user gives the share at which to split.
    trends = _trends(seen, used)
    bracket, between, flat = _bracket(trends)
    answer = InflectionRatio(
        bracket=bracket, flat=flat, trends=trends, level=level, units=dict(seen.scale),
        ranges=dict(seen.ranges),
    )  # fmt: skip
    none = [_no_inflection(trends)] if np.isnan(bracket[0]) else []
    if none and split is None:
        return replace(answer, notes=(*notes, *none))
    # 2. A law for each side of the split. A side is the rows of weight above 0, so that both sides
    # of all runs (rows 0 and 1 of the fits) and of every resample are one batch.
    split = float(np.sqrt(np.prod(between))) if split is None else split
    sides = [used * (shares < split), used * (shares >= split)]
    for side, word in zip(sides, ("below", "at or above"), strict=True):
        if (side > 0).sum() < len(law.parameters):
            raise UsageError(
                f"{(side > 0).sum()} runs have a share {word} {split:.4g}; the law's "
                f"{len(law.parameters)} parameters need more: choose another split"
            )
    point = _comparison_point(seen, used, at)
    groups = np.arange(len(seen))
    if resample == "runs":
        groups = pd.DataFrame({name: seen.inputs[name] for name in "Nr"}).groupby([*"Nr"]).ngroup()
    drawn = resampled_weights(np.asarray(groups), n_resamples, seed, "bayesian")
    weights = [side * each for each in (np.ones(len(seen)), *drawn) for side in sides]
    options = FitOptions(bounds=_SIGNED, n_starts=n_starts, n_local=n_local, seed=seed)
    fits = fit_many(law, seen, np.stack(weights), options=options)
    # 3. Where the two laws predict the same loss, for all runs and for each resample.
    crossings, several = _crossings(fits, point, split, shares[used > 0])
    ratio, resampled = float(crossings[0]), crossings[1:]
    interval, doubts = _interval(ratio, resampled, level)
    below, above = ({name: float(v[k]) for name, v in fits.params.items()} for k in (0, 1))
    notes += [*_crossing_notes(ratio, resampled, several, bracket, below, above), *doubts, *none]
    return replace(
        answer, ratio=ratio, interval=interval, split=split, below=below, above=above,
        crossings=resampled, notes=tuple(notes),
    )  # fmt: skip


@checked
def loss_slopes(
    runs: Any, *, every: float | None = None, **reading: Unpack[ReadingOptions]
) -> pd.DataFrame:
    """How fast the loss moves with D at every share: ΔL/ΔD between evaluations of a run.

    The implicit trend of Que 2024 (eq. 5) is that ∂L/∂D falls with r. The paper reads it off
    these differences over every 5,000 steps, drawn over r (App. E.2, figure 10).

    Args:
        runs: runs as :func:`jaxlaw.read_runs` takes or returns them, with columns N, D, r, loss;
            rows of one N, r and D are averaged.
        every: least D from one evaluation to the next, in the unit of the runs; None takes all.
        **reading: options of :func:`jaxlaw.read_runs`.

    Returns:
        One row a size, interval of D and share, in the units of the runs: ``N``, ``D_low``,
        ``D_high``, ``r``, ``slope`` (nats per unit of D) and ``falls``, 1 where the slope is below
        that at the next smaller share, else 0; NaN at the smallest. ``attrs["units"]`` has what one
        of N and of D is worth in single parameters and tokens.

    Raises:
        DataError: no run has two evaluations that far apart.

    Example:
        >>> runs = jl.simulate.experiment("dcpt", noise=0.0).table
        >>> float(jl.papers.loss_slopes(runs)["falls"].mean())  # the implicit trend holds
        1.0
    """
    seen = read_runs(runs, **reading).observations("dcpt", free=())
    table = pd.DataFrame({name: v / seen.scale[name] for name, v in seen.inputs.items()})
    table = table.assign(loss=seen.target)[seen.weight > 0]
    records = []
    for (N, r), run in table.groupby(["N", "r"]):
        loss = run.groupby("D")["loss"].mean()
        D, loss = _spaced(loss.index.to_numpy(), loss.to_numpy(), every or 0.0)
        slopes = np.diff(loss) / np.diff(D)
        steps = zip(D[:-1], D[1:], slopes, strict=True)
        records += [(N, first, last, r, slope) for first, last, slope in steps]
    if not records:
        raise DataError(
            f"{seen.source}: no run (rows of one N and r) has two evaluations "
            + (f"{every:g} of D apart; ask for less (every=)" if every else "of different D")
        )
    table = pd.DataFrame(records, columns=["N", "D_low", "D_high", "r", "slope"])
    table = table.sort_values(["N", "D_low", "D_high", "r"], ignore_index=True)
    change = table.groupby(["N", "D_low", "D_high"])["slope"].diff()
    table = table.assign(falls=np.where(change.isna(), np.nan, change < 0))
    table.attrs["units"] = {name: seen.units[name] for name in ("N", "D")}
    return table


def _spaced(D: np.ndarray, loss: np.ndarray, every: float) -> tuple[np.ndarray, np.ndarray]:
    """Evaluations at least so far apart, from the first on; D is in ascending order."""
    kept = [0]
    for k in range(1, len(D)):
        if D[k] - D[kept[-1]] >= every * (1 - 1e-9):  # steps may be rounded
            kept.append(k)
    return D[kept], loss[kept]


def _trends(seen: Observations, used: np.ndarray) -> pd.DataFrame:
    """Slope of log loss over log D at every share, with a level of its own for every size."""
    records = []
    for r in np.unique(seen.inputs["r"][used > 0]):
        rows = (seen.inputs["r"] == r) & (used > 0)
        size = np.unique(seen.inputs["N"][rows], return_inverse=True)[1]
        x = _within(np.log(seen.inputs["D"][rows]), size, used[rows])
        y = _within(np.log(seen.target[rows]), size, used[rows])
        weight, square = used[rows], used[rows] @ x**2
        spare = rows.sum() - size.max() - 2
        if not square > 1e-12 or spare < 1:
            raise DataError(
                f"{seen.source}: {rows.sum()} rows at r = {r:g} do not show how the loss moves "
                "with D; add evaluations, or leave this share out (where=)"
            )
        slope = (weight * x) @ y / square
        error = np.sqrt((weight @ (y - slope * x) ** 2) / spare / square)
        records.append((float(r), float(slope), float(error)))
    return pd.DataFrame(records, columns=["r", "slope", "error"])


def _within(values: np.ndarray, group: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Values less the weighted mean of their group."""
    means = np.bincount(group, weight * values) / np.bincount(group, weight)
    return values - means[group]


def _bracket(
    trends: pd.DataFrame,
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Between which shares the trend surely turns, between which slopes pass zero, and where."""
    r, slope, clear = trends["r"], trends["slope"], _CLEAR * trends["error"]
    rising = r[slope > clear]
    falling = r[(slope < -clear) & (r > rising.max())] if len(rising) else rising
    if not len(falling):
        return _NONE, _NONE, np.nan
    low, high = rising.max(), falling.min()
    inside = trends[(r >= low) & (r <= high)]
    k = int(np.argmax(inside["slope"].to_numpy() <= 0))  # the first that does not rise
    (r0, s0), (r1, s1) = inside[["r", "slope"]].to_numpy()[k - 1 : k + 1]
    flat = r0 + (r1 - r0) * s0 / (s0 - s1)
    return (float(low), float(high)), (float(r0), float(r1)), float(flat)


def _comparison_point(
    seen: Observations, used: np.ndarray, at: dict[str, float] | None
) -> dict[str, float]:
    at = dict(at or {})
    if others := sorted(set(at) - {"N", "D"}):
        raise UsageError(f"at takes N and D, not {', '.join(others)}", argument="at", value=at)
    logs = {name: np.average(np.log(seen.inputs[name]), weights=used) for name in ("N", "D")}
    return {name: float(np.exp(log)) for name, log in logs.items()} | at


def _crossings(
    fits: Refits, at: dict[str, float], split: float, shares: np.ndarray
) -> tuple[np.ndarray, bool]:
    """(1 + resamples,) where the two fits meet next to the split; whether the first do twice.

    Looked for up to the second share on either side: further out one of them knows nothing.
    """
    below, above = np.unique(shares[shares < split]), np.unique(shares[shares >= split])
    r = np.geomspace(below[-2:][0], above[:2][-1], _FINE)
    points = {name: np.full(_FINE, value) for name, value in at.items()} | {"r": r}
    values = np.log(fits.predict(**points))
    apart = values[0::2] - values[1::2]
    result = np.full(len(apart), np.nan)
    for k, gap in enumerate(apart):
        turns = np.flatnonzero(gap[1:] * gap[:-1] <= 0)
        if len(turns) and np.isfinite(gap).all():
            share = gap[turns] / (gap[turns] - gap[turns + 1])
            met = r[turns] + share * (r[turns + 1] - r[turns])
            result[k] = met[np.argmin(np.abs(np.log(met / split)))]
    return result, bool((apart[0][1:] * apart[0][:-1] <= 0).sum() > 1)


def _no_inflection(trends: pd.DataFrame) -> Note:
    r, slope = trends["r"], trends["slope"]
    clear = np.abs(slope) > _CLEAR * trends["error"]
    rising = clear & (slope > 0)
    how = (
        f"the loss falls with D at every share down to r = {r.min():.3g}, or is flat"
        if not rising.any()
        else f"the loss rises with D up to r = {r[rising].max():.3g}, and at no share above it "
        "does it surely fall"
    )
    return Note("no-inflection", "info", how)


def _interval(
    ratio: float, crossings: np.ndarray, level: float
) -> tuple[tuple[float, float], list[Note]]:
    """Percentiles of the resampled crossings, and what is wrong with them."""
    met = crossings[np.isfinite(crossings)]
    if not np.isfinite(ratio):
        return _NONE, []
    needed, notes = fewest_for(level), []
    if len(met) < needed:
        message = (
            f"{len(met)} of {len(crossings)} resampled fits meet; a {level:.0%} interval of fewer "
            f"than {needed} is too narrow: ask for more resamples"
        )
        notes.append(Note("few-crossings", "warning", message))
    if len(met) < 2:
        return _NONE, notes
    low, high = percentile_interval(met, level)
    if not low <= ratio <= high:
        message = "the resampled fits meet to one side of the ratio; rely on the bracket"
        notes.append(Note("interval-elsewhere", "warning", message))
    return (float(low), float(high)), notes


def _crossing_notes(
    ratio: float, resampled: np.ndarray, several: bool, bracket: tuple[float, float],
    below: dict[str, float], above: dict[str, float],
) -> list[Note]:  # fmt: skip
    notes = []
    missing = float(np.isnan(resampled).mean())
    if np.isnan(ratio) or missing > 0.1 or several:
        what = (
            "the two fits do not meet"
            if np.isnan(ratio)
            else "the two fits meet more than once"
            if several
            else f"{missing:.0%} of the resampled fits do not meet"
        )
        message = f"{what} near the split: the trend turns smoothly there; rely on the bracket"
        notes.append(Note("crossing-unclear", "warning", message))
    if np.isfinite(ratio) and not bracket[0] <= ratio <= bracket[1]:
        message = "the fits meet outside the shares between which the trend turns; rely on these"
        notes.append(Note("crossing-outside", "warning", message))
    if below["B"] >= 0 or above["B"] <= 0:
        message = (
            f"B is {below['B']:.3g} below the split and {above['B']:.3g} above it, where negative "
            "and positive are expected: the split may be wrong"
        )
        notes.append(Note("unexpected-sign", "warning", message))
    return notes
