"""The run that is under way: from the losses so far and the whole schedule to its end.

The loss of a run is the annealing law (Tissue 2024; Wang 2025, eq. 4) and what it errs by:

    L(t) = L0 + A·S(t)^−α − C·a(t) + B·shift(t) + δ(t) + e

S sums the learning rates to a power q, a is the learning rate's drop from its peak as momentum
follows it (S2·(1 − λ)), and the shift is that of a continual phase. Given q, λ, α and the shift's
speed all of it is linear, so its posterior is a normal distribution; over these four it is a sum
over a grid. Coefficients differ between runs by a covariance that earlier runs show (siblings). δ
is a Gaussian process: a part that runs share wherever their progress and learning rates agree, one
that only runs of a recipe share, which makes them a template, and a part of each run, which ties
the forecast to the last losses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Unpack

import numpy as np
import pandas as pd
from scipy import special
from scipy.linalg import solve_triangular
from scipy.signal import lfilter

from jaxlaw._answer import Answer
from jaxlaw._quantities import Quantity, written
from jaxlaw._typed import Between, checked
from jaxlaw.data import LossCurves, ReadingOptions, as_schedule, read_loss_curves
from jaxlaw.errors import DataError, UsageError
from jaxlaw.notes import Note
from jaxlaw.schedules import Schedule

LEFT = "left-interval"  # code of a note
#: Powers q of the learning rate, λ, α, and speeds of the shift, in those of the phase.
GRID = ((1.0, 0.5), (0.99, 0.995, 0.998, 0.999), (0.3, 0.4, 0.5, 0.6))
_SPEEDS = (3.0, 30.0, 300.0)
# In parts of the run's loss, of L0, A (at the middle of the losses so far), C and B: mean and
# standard deviation of a run without siblings, of pre-training and of a continual phase. A full
# decay lowers the loss of pre-training by some 4 %, in both public sources of whole curves.
_MEAN = np.array([0.8, 0.2, 0.04, 0.0])
_SD = np.array([[0.3, 0.15, 0.015, 0.1], [0.3, 0.15, 0.03, 0.3]])
# … and of the differences between siblings before they are seen: of each, and of A and C together.
_APART, _TOGETHER = np.array([0.1, 0.004, 0.004, 0.02]), 0.15 * np.array([0.0, 0.12, 0.04, 0.0])
_WORTH = 3.0  # siblings that these count as
_ROUNDS = 8  # of expectation and maximisation, for what siblings show
# δ, in parts of the loss: what all runs share, those of a recipe, and what is a run's own; how far
# these reach, in logs of progress and in parts of the peak learning rate.
_SHARED, _RECIPE, _OWN = 0.0035, 0.0035, 0.0015
_REACH, _RATE_REACH, _OWN_REACH = 0.4, 0.5, 1.5
_EARLY = 0.01  # progress that is added to it before its log is taken
_BINS, _SIBLING_BINS, _FEWEST = 30, 20, 4  # of losses
_MOST = 16  # siblings that are taken
_SAME_RECIPE = 0.02  # of the peak, by which learning rates of one recipe differ at equal progress
_ALIKE, _NEAR = 1.1, 0.05  # logs by which losses of siblings may differ, and of those of one size
_CALM = 2.0  # siblings' worth of an interval that is as wide as it should be
_LEFT, _CHECKS = 4.0, (0.6, 0.7, 0.8, 0.9)  # standard deviations, and parts of the losses so far
_LIKELY = 0.02  # weight of a point of the grid, over the largest, that checks go over
_POINTS, _LINE = 60, 400  # of the curve and of the schedule that are drawn
_NAMES = {"loss": "loss", "loss_g": "general loss", "loss_d": "domain loss"}


class _Curve(NamedTuple):
    """The losses of one run in the phase that is under way, T steps; rates are over its peak."""

    step: np.ndarray  # (n,) updates done in the phase
    loss: np.ndarray  # (n,)
    rates: np.ndarray  # (T,) learning rates of the phase
    before: np.ndarray  # those of the phase before
    initial: float  # that before its first step
    continual: bool
    first: int  # the run's step at which the phase begins
    up: int  # steps of warm-up
    recipe: int = 0  # the same of runs whose learning rates agree


class _Rows(NamedTuple):
    """Losses as the model takes them: m bins, with the law's columns at g points of the grid."""

    X: np.ndarray  # (g, m, 4)
    y: np.ndarray  # (m,)
    noise: np.ndarray  # (m,) variance
    single: float  # variance of a single loss
    place: np.ndarray  # (m,) log of progress
    rate: np.ndarray  # (m,)
    continual: bool
    recipe: int


@checked
def forecast_run(
    curve: Any,
    schedule: Schedule | str | None = None,
    at: Sequence[int] | None = None,
    *,
    siblings: Any = None,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """Where the loss of a run that is under way will end, with an interval.

    Args:
        curve: the run's losses so far: anything that :func:`jaxlaw.read_loss_curves` reads or
            returns, of one run, with columns ``step`` and ``loss``; or ``loss_d`` and ``loss_g``,
            of the domain's corpus and the general one, which are forecast both.
        schedule: the whole schedule, a line such as ``cosine:peak=3e-4,steps=24000`` or a Schedule.
            The phase under way is the last: of a continual run, ``first + second``. A continual run
            whose base is not part of the schedule has a column ``phase`` of ``cpt``.
        at: steps to forecast; the last of the schedule if None.
        siblings: complete runs on the same evaluation, of other sizes or schedules: a table with
            the same columns, ``run``, and ``schedule`` or ``lr``; or what
            :func:`jaxlaw.read_loss_curves` returns. Where some have the run's own recipe (learning
            rates at equal progress within 2 % of the peak), these are used and those whose losses
            are within 5 % of the run's, else all; the last sixteen.
        level: share of the intervals that should hold the loss.
        **reading: options of :func:`jaxlaw.read_runs` for both tables, but for ``where``, which
            chooses the run: ``siblings`` may be the same table, whose other runs are taken.

    Returns:
        Answer. ``forecast``, a row a step of ``at``: ``step``, ``loss``, ``loss_low``,
        ``loss_high``, of each loss. Quantity ``loss`` (or ``loss_d`` and ``loss_g``), at the last.
        Facts: ``step`` and ``steps``, of the last loss and of the schedule; ``done``, the share of
        the phase; ``siblings``, how many were used; ``tokens_left``, if the run logs D.

    Raises:
        UsageError: no schedule, several runs, or steps that are not ahead.
        DataError: too few losses after the warm-up, or what :func:`jaxlaw.read_loss_curves` raises.

    Example:
        >>> runs = jl.simulate.continual_curves().table.query("run in ('wsd', 'cosine')")
        >>> columns = {"loss": "loss_pt"}
        >>> run = runs[(runs["run"] == "cosine") & (runs["step"] <= 26_000)]
        >>> found = jl.forecast_run(run, siblings=runs.query("run == 'wsd'"), columns=columns)
        >>> low, high = found.interval["loss"]
        >>> bool(low < runs.query("run == 'cosine'")["loss_pt"].iloc[-1] < high)
        True

    Shell:
        jaxlaw forecast-run log.csv --schedule cosine:peak=3e-4,steps=24000 --siblings small.csv
    """
    read = _read(curve, schedule, reading)
    if len(read) != 1:
        raise UsageError(f"{read.rows.source} has {len(read)} runs: choose one with where=")
    ((name, followed),) = read.run_schedules.items()
    of_all = {k: v for k, v in reading.items() if k != "where"}  # which chooses the run
    earlier = None if siblings is None else _read(siblings, None, of_all)
    targets = [name for name in ("loss_d", "loss_g") if name in read.table] or ["loss"]
    quantities, columns, points, notes = {}, {}, {}, []
    for target in targets:
        run = _curves(read, target)[0]
        now, last = (int(run.first + t) for t in (run.step[-1], len(run.rates)))
        steps = np.array([last] if at is None else at, int).ravel()
        if not len(steps) or (steps < now).any() or (steps > last).any():
            raise UsageError(f"at is steps from {now}, that of the last loss, to {last}")
        chosen, same = _chosen(run, [] if earlier is None else _curves(earlier, target, name))
        fan = np.unique(np.r_[np.linspace(now, last, _POINTS).astype(int), steps])
        mean, sd, left = _forecast(run, chosen, same, fan - run.first)
        # The spread between runs is known from few of them.
        known = _WORTH + len(chosen) if chosen else np.inf
        sd = sd * special.stdtrit(known, (1 + level) / 2)
        ends = {target: mean, f"{target}_low": mean - sd, f"{target}_high": mean + sd}
        points[target] = pd.DataFrame({"step": fan} | ends)
        here = {name: values[np.searchsorted(fan, steps)] for name, values in ends.items()}
        columns |= here
        middle, low, high = (float(values[-1]) for values in here.values())
        quantities[target] = Quantity(middle, "nats", 1.0, low, high)
        notes += left
    if not chosen:
        notes.append(Note(
            "no-siblings", "info",
            "what the coming decay gains is taken from public runs: pass siblings=, complete runs "
            "on the same evaluation, for a narrower interval",
        ))  # fmt: skip
    words = " and ".join(f"{_NAMES[name]} {{{name}}}" for name in targets)
    of = f"from {len(chosen)} sibling{'s' * (len(chosen) != 1)}, {same} of its recipe"
    rates = followed.schedule.rates
    thin = np.unique(np.linspace(0, len(rates) - 1, _LINE).astype(int))
    drawn = {
        "losses": read.table[["step", *targets]],
        "rates": pd.DataFrame({"step": followed.first_step + 1 + thin, "lr": rates[thin]}),
    }
    done = float(run.step[-1] / len(run.rates))
    facts = {"step": now, "steps": last, "done": done, "siblings": len(chosen)}
    if "D" in read.table:
        seen = read.table[["step", "D"]].dropna().astype(float).iloc[-1]
        facts["tokens_left"] = (
            seen["D"] * (read.rows.units.get("D") or 1.0) / seen["step"] * (last - now)
        )
    return Answer(
        kind="run",
        sentence=f"{words} at step {steps[-1]:,}; {done:.0%} of the steps are done; "
        f"{of if chosen else 'without siblings'}",
        quantities=quantities, tables={"forecast": pd.DataFrame({"step": steps} | columns)},
        units=dict.fromkeys(columns, ("nats", 1.0)),
        facts=facts, level=level,
        notes=[*notes, *read.rows.notes], curves=drawn | points,
    )  # fmt: skip


def _read(source: Any, schedule: Any, reading: ReadingOptions) -> LossCurves:
    """The curves of a table; logged learning rates may have gaps."""
    if isinstance(source, LossCurves):
        return source
    return read_loss_curves(source, schedule=schedule, fill="linear", **reading)


def _curves(read: LossCurves, target: str, left_out: str | None = None) -> list[_Curve]:
    """The curves of one loss, without the losses of warm-up, and without one run."""
    found = []
    for run, own in read.table.groupby("run", sort=False):
        if run == left_out:
            continue
        own, one = own[own[target].notna()], read.run_schedules[str(run)]
        before = np.full(one.first_step, one.S1_before / max(one.first_step, 1))
        rates, boundary = np.concatenate([before, one.schedule.rates]), one.schedule.boundary
        continual = boundary is not None or one.phase == "cpt"
        first = 0 if boundary is None else one.first_step + boundary
        peak, step = rates[first:].max(), one.steps_done(own) + one.first_step - first
        up = int(rates[first:].argmax()) + 1
        keep = step >= (0 if continual else max(1.5 * up, 0.02 * (len(rates) - first)))
        loss, place = own[target].to_numpy(float), read.rows.location(target)
        bad = ~(np.isfinite(loss) & (loss > 0))
        if bad.any():
            raise place.of_run(str(run), own, int(bad.argmax()), "losses are finite and above 0")
        if keep.sum() < _FEWEST or not peak > 0:
            raise place.error(
                f"run {run} has {keep.sum()} losses of its last phase, after the warm-up "
                f"to {peak:.3g}; {_FEWEST} are needed"
            )
        initial = rates[first - 1] if first else one.schedule.initial_lr
        found.append(_Curve(
            step[keep], loss[keep], rates[first:] / peak,
            rates[:first] / peak, initial / peak, continual, first, up,
        ))  # fmt: skip
    return found


def _same(one: _Curve, other: _Curve) -> bool:
    """Whether two runs have one recipe: the same learning rates at equal progress."""
    u = np.linspace(0, 1, 201)[1:]
    a, b = (
        np.interp(u * len(c.rates), np.arange(1, len(c.rates) + 1), c.rates) for c in (one, other)
    )
    return bool(np.abs(a - b).max() < _SAME_RECIPE)


def _chosen(run: _Curve, earlier: list[_Curve]) -> tuple[list[_Curve], int]:
    """The siblings that are used, and how many of them have the run's own recipe."""
    earlier = [one for one in earlier if one.continual == run.continual]
    off = [float(np.log(np.median(one.loss) / np.median(run.loss))) for one in earlier]
    if earlier and max(map(abs, off)) > _ALIKE:
        ratio = np.exp(max(off, key=abs))
        raise DataError(
            f"a sibling's losses are {ratio:.3g} times the run's: siblings have the same "
            "evaluation, in the same unit"
        )
    same = [one for one in earlier if _same(run, one)]
    # Those of other recipes tell what a decay gains, if they are of about the run's size.
    near = [one for one, far in zip(earlier, off, strict=True)
            if abs(far) < _NEAR and not _same(run, one)]  # fmt: skip
    return ([*near, *same] if same else earlier)[-_MOST:], len(same)


def _rows(curve: _Curve, grid: Sequence[tuple[float, ...]], bins: int | None) -> _Rows:
    """The losses in bins, or each by itself, and the law's columns there at each point of the grid.

    The median of a bin holds against single spikes; the mean of the columns is that of the law,
    which is linear in them.
    """
    total, t = len(curve.rates), curve.step
    sums, lags = {}, {}
    drop = 1 - curve.rates
    start = max(1 - curve.initial, 0.0) if curve.continual else 0.0
    if not curve.continual:
        drop[: curve.up] = 0.0  # warm-up is no annealing
    for power, decay, *_ in grid:
        if power not in sums:
            sums[power] = np.concatenate([[0.0], np.cumsum(curve.rates**power)])
        if decay not in lags:
            lagged, _ = lfilter([1 - decay], [1, -decay], drop, zi=[decay * start])
            lags[decay] = np.concatenate([[start], lagged])
    # Of a base that is unknown: it was trained for three times as long.
    known = len(curve.before) or not curve.continual
    place = np.log(t / total + _EARLY)
    rate = np.concatenate([[curve.initial], curve.rates])[t]
    # Bins are even in what δ takes for distance: a short decay has its own.
    moved = np.hypot(np.diff(place) / _REACH, np.diff(rate) / _RATE_REACH)
    way = np.concatenate([[0.0], np.cumsum(moved)])
    edges = way[1:] if bins is None else np.linspace(0, way[-1], bins + 1)[1:-1]
    starts = np.unique(np.searchsorted(way, [0.0, *edges]))
    starts = starts[starts < len(t)]
    count = np.diff(starts, append=len(t))

    def middle(values: np.ndarray) -> np.ndarray:
        """(m, …) means over the bins of values (n, …)."""
        return (np.add.reduceat(values, starts).T / count).T

    X = np.ones((len(grid), len(t), 4))
    for k, (power, decay, alpha, speed) in enumerate(grid):
        done, whole = sums[power][t], sums[power][-1]
        S = done + (np.sum(curve.before**power) if known else 3 * whole)
        X[k, :, 1], X[k, :, 2] = S**-alpha, -lags[decay][t]
        X[k, :, 3] = 1 - (1 + speed * done / whole) ** -0.5
    level, bend = np.median(curve.loss), np.diff(curve.loss, 2)
    single = (1.4826**2 * np.median(bend**2) / 6 if len(bend) else 0.0) + (1e-4 * level) ** 2
    X = middle(X.swapaxes(0, 1)).swapaxes(0, 1)
    y = np.array([np.median(part) for part in np.split(curve.loss, starts[1:])])
    return _Rows(
        X, y, single / count, single, middle(place), middle(rate), curve.continual, curve.recipe
    )


def _predict(
    run: _Rows, siblings: list[_Rows], ahead: _Rows, points: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances (k,) of the losses ahead, without noise, and weights of the points."""
    runs, level = [*siblings, run], np.median(run.y)
    y = np.concatenate([one.y for one in runs]) / level
    noise = np.concatenate([one.noise for one in runs]) / level**2
    every = [*runs, ahead]
    place, rate = (np.concatenate([getattr(one, n) for one in every]) for n in ("place", "rate"))
    label = np.repeat([*range(len(runs)), len(siblings)], [len(one.place) for one in every])
    own, n = label[:, None] == label, len(y)
    apart = np.abs(place[:, None] - place)
    square = (apart / _REACH) ** 2 + ((rate[:, None] - rate) / _RATE_REACH) ** 2
    recipe = np.array([one.recipe for one in runs])[label]
    shared = _SHARED**2 + (recipe[:, None] == recipe) * _RECIPE**2
    error = shared * np.exp(-square / 2) + own * _OWN**2 * np.exp(-apart / _OWN_REACH)
    error[np.arange(n), np.arange(n)] += noise
    # Precisions of the siblings' losses, each alone.
    blocks = [np.flatnonzero(label[:n] == k) for k in range(len(siblings))]
    precise = [np.linalg.inv(error[np.ix_(p, p)]) for p in blocks]
    between = np.diag(_APART**2) + np.outer(_TOGETHER, _TOGETHER)
    prior = np.diag(_SD[int(run.continual)] ** 2)
    logs, means, variances = [], [], []
    for k in points:
        X = np.concatenate([one.X[k] for one in every])
        X[:, 1] /= np.median(run.X[k][:, 1])
        spread = np.zeros((4, 4))
        if siblings:
            weighed = [X[p].T @ K for p, K in zip(blocks, precise, strict=True)]
            A = np.array([W @ X[p] for W, p in zip(weighed, blocks, strict=True)])
            b = np.array([W @ y[p] for W, p in zip(weighed, blocks, strict=True)])
            spread = _spread(A, b, (_MEAN, np.linalg.inv(prior)), between)
        K = error + X @ prior @ X.T + own * (X @ spread @ X.T)
        root = np.linalg.cholesky(K[:n, :n])
        left = solve_triangular(root, y - X[:n] @ _MEAN, lower=True)
        across = solve_triangular(root, K[:n, n:], lower=True)
        logs.append(-left @ left / 2 - np.log(np.diag(root)).sum())
        means.append(X[n:] @ _MEAN + across.T @ left)
        variances.append(np.diag(K)[n:] - (across**2).sum(axis=0))
    weights = special.softmax(np.array(logs))
    mean = weights @ means
    variance = weights @ (np.array(variances) + (np.array(means) - mean) ** 2)
    return level * mean, level**2 * variance, weights


def _spread(
    A: np.ndarray, b: np.ndarray, first: tuple[np.ndarray, np.ndarray], between: np.ndarray
) -> np.ndarray:
    """(4, 4) covariance of the coefficients between runs, by expectation and maximisation.

    Args:
        A, b: (R, 4, 4) precisions of the siblings' coefficients, and (R, 4) these times estimates.
        first: mean (4,) and precision (4, 4) of a run's coefficients before any is seen.
        between: (4, 4) covariance before the siblings are seen, which counts as some of them.
    """
    mean = np.linalg.solve(A.sum(axis=0) + first[1], b.sum(axis=0) + first[1] @ first[0])
    spread = between
    for _ in range(_ROUNDS):
        inverse = np.linalg.inv(spread)
        each = np.linalg.inv(A + inverse)
        at = (each @ (b + inverse @ mean)[..., None])[..., 0]
        mean = at.mean(axis=0)
        found = each.sum(axis=0) + (at - mean).T @ (at - mean)
        spread = (_WORTH * between + found) / (_WORTH + len(A))
    return spread


def _forecast(
    run: _Curve, siblings: list[_Curve], same: int, ahead: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[Note]]:
    """Mean and standard deviation (k,) of losses at steps ahead of the phase."""
    grid = [*itertools.product(*GRID, _SPEEDS if run.continual else (0.0,))]
    every = [*siblings, run]
    first = [next(k for k, other in enumerate(every) if _same(other, one)) for one in every]
    *siblings, run = [one._replace(recipe=k) for one, k in zip(every, first, strict=True)]
    others = [_rows(one, grid, _SIBLING_BINS) for one in siblings]

    def at(curve: _Curve, steps: np.ndarray) -> _Rows:
        """Steps of a curve as rows, each by itself."""
        return _rows(curve._replace(step=steps, loss=np.ones(len(steps))), grid, None)

    def between(curve: _Curve, low: float, high: float) -> _Curve:
        keep = (curve.step > low) & (curve.step <= high)
        return curve._replace(step=curve.step[keep], loss=curve.loss[keep])

    notes, now = [], run.step[-1]
    rows, there = _rows(run, grid, _BINS), at(run, ahead)
    mean, variance, weights = _predict(rows, others, there, range(len(grid)))
    likely = np.flatnonzero(weights > _LIKELY * weights.max())
    # Has the run left what its earlier losses led to expect? Then these alone are followed.
    for part in _CHECKS:
        before = between(run, -1, part * now)
        tenth = between(run, part * now, (part + 0.1) * now)
        if len(before.step) < _FEWEST or not len(tenth.step):
            continue
        later = _rows(tenth, grid, 1)
        expected, unsure, _ = _predict(_rows(before, grid, _BINS), others, later, likely)
        off = (later.y - expected)[0]
        sd = float(np.sqrt(unsure + later.noise * np.pi / 2)[0])
        if abs(off) > _LEFT * sd:
            where = run.first + tenth.step[0]
            notes.append(Note(
                LEFT, "warning",
                f"from step {where:,.0f} on the loss is {abs(off):.3g} nats "
                f"{'above' if off > 0 else 'below'} the forecast from the steps before "
                f"({abs(off) / sd:.0f} standard deviations): a spike or a change of the data; this "
                "forecast uses the steps before only", inherited=True,
            ))  # fmt: skip
            rows = _rows(before, grid, _BINS)
            mean, variance, weights = _predict(rows, others, there, range(len(grid)))
            likely = np.flatnonzero(weights > _LIKELY * weights.max())
            break
    # How wide intervals have to be: each sibling's end from its own losses up to the same share,
    # and from the other siblings, without its recipe where the run's own is new.
    squares, share = [], run.step[-1] / len(run.rates)
    for k, one in enumerate(siblings):
        rest = [other for j, other in enumerate(others)
                if j != k and (same or other.recipe != one.recipe)]  # fmt: skip
        start = between(one, -1, share * len(one.rates))
        if not rest or len(start.step) < _FEWEST or len(start.step) == len(one.step):
            continue
        end, unsure, _ = _predict(_rows(start, grid, _BINS), rest, at(one, one.step[-1:]), likely)
        squares.append((one.loss[-1] - end[0]) ** 2 / (unsure[0] + others[k].single))
    # They only widen: few siblings that end where they should are no proof.
    wide = max((_CALM + np.minimum(squares, 9.0).sum()) / (_CALM + len(squares)), 1.0)
    return mean, np.sqrt(variance * wide + rows.single), notes


def run_line(found: Answer) -> str:
    """The forecast of a run in one line: where it is, where it will end, and what is left.

    Example:
        >>> from jaxlaw.forecasting import run_line
        >>> table = {"step": [200, 400, 600, 800], "loss": [3.9, 3.6, 3.45, 3.4]}
        >>> run_line(jl.forecast_run(table, "cosine:peak=3e-4,steps=1000"))[:42]
        'step 800 of 1,000 (80%): loss 3.4 now, 3.3'
    """
    step, steps = found.facts["step"], found.facts["steps"]
    ends = "; ".join(
        f"{_NAMES[name]} {found.points['losses'][name].iloc[-1]:.4g} now, {one.value:.4g} at the "
        f"end ({found.level:.0%}: {one.low:.4g} to {one.high:.4g})"
        for name, one in found.quantities.items()
    )
    left = f"{steps - step:,} steps"
    if "tokens_left" in found.facts:
        left += f", {written(found.facts['tokens_left'], 'tokens')}"
    warned = [note.message for note in found.notes if note.code == LEFT]
    line = f"step {step:,} of {steps:,} ({found.facts['done']:.0%}): {ends}; {left} left"
    return "; WARNING: ".join([line, *warned])


def trainer_callback(
    schedule: Schedule | str | None = None,
    *,
    siblings: Any = None,
    metric: str = "eval_loss",
    say: Callable[[str], Any] = print,
) -> Any:
    """A callback for Hugging Face's Trainer: :func:`run_line` at each evaluation.

    Args:
        schedule: the whole schedule; if None, that of the trainer's own scheduler.
        siblings: complete runs: see :func:`jaxlaw.forecast_run`.
        metric: name of the loss in the trainer's log.
        say: what is called with each line.

    Raises:
        ModuleNotFoundError: transformers is not installed: ``pip install 'jaxlaw[trainer]'``.

    Example::

        trainer.add_callback(jl.forecasting.trainer_callback(siblings="small_runs.csv"))
    """
    from transformers import TrainerCallback  # not needed by anything else

    class Forecast(TrainerCallback):
        def on_evaluate(self, args, state, control, lr_scheduler=None, **others):
            try:
                say(self.line(state, lr_scheduler))
            except Exception as error:  # whatever it is, training goes on
                say(f"no forecast: {type(error).__name__}: {error}")

        def line(self, state, lr_scheduler):
            rates = schedule
            if rates is None:
                steps = range(state.max_steps)
                rates = [lr_scheduler.base_lrs[0] * lr_scheduler.lr_lambdas[0](t) for t in steps]
            log = pd.DataFrame(state.log_history)
            log = log[log[metric].notna()].rename(columns={"num_input_tokens_seen": "D"})
            table = log[[n for n in ("step", "D") if n in log]].assign(loss=log[metric])
            return run_line(forecast_run(table, as_schedule(rates), siblings=siblings))

    return Forecast()
