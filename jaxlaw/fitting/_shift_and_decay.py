"""Of loss curves: the decay λ of the annealing area, fitted with a law; and the observed shift.

The shift of a continual run is its loss less that of the hidden pre-training curve. Wang 2025,
§2.2: the hidden curve is the loss of the same base that goes on with its own corpus under the same
learning rates. What a continual curve lies above (or below) it is the shift, ΔL of eq. 3, which
does not depend on where the base was left (figure 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import numpy as np
import pandas as pd
import scipy  # scipy.optimize takes a tenth of a second to import: scipy does where it is used

from jaxlaw import laws
from jaxlaw._typed import checked
from jaxlaw.data import Corpus, LossCurves, Observations, optimizer_steps
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.fitting._fit import fit
from jaxlaw.fitting._options import FitKeywords, lists_options
from jaxlaw.fitting._result import Fit
from jaxlaw.laws import Law
from jaxlaw.notes import Note, warns_of_errors

_GRID = 7  # number of the first values of λ
_CLOSE = 0.02  # tolerance of log(1 − λ): 2% of 1 − λ
_SECTION = (3 - np.sqrt(5)) / 2  # the smaller part of a golden section
_WORSE = 1.01  # objectives up to this many times the best count as equal to it
_RATES = 5e-3  # of the highest rate: schedules that differ by more are not the same
_LOSS = "annealing"  # any law of a loss whose inputs all curves have


@lists_options
@warns_of_errors
@checked
def fit_decay(
    law: str | Law,
    curves: LossCurves,
    decays: tuple[float, float] = (0.9, 0.9999),
    *,
    carry_momentum: bool = False,
    count_warmup: bool = False,
    epsilon: float | None = None,
    strict: bool = False,
    **options: Unpack[FitKeywords],
) -> Fit:
    """Fit a law and λ: the least objective over λ, each with a fit of its own.

    The objective is searched over log(1 − λ): on a grid, then by golden sections between the
    neighbours of its best value. That takes about 17 fits, which share their compiled programs,
    for only the values of the areas differ.

    Args:
        law: law or its name.
        curves: curves as :func:`jaxlaw.read_loss_curves` returns them.
        decays: lowest and highest λ, within (0, 1).
        carry_momentum, count_warmup, epsilon: see :meth:`jaxlaw.LossCurves.runs`.
        strict, **options: options of :func:`jaxlaw.fit`.

    Returns:
        The :class:`Fit`; λ is ``fit.area_options["decay"]``. :func:`jaxlaw.bootstrap`,
        :func:`jaxlaw.covariance`, :func:`jaxlaw.profile` … of this fit and the same curves count
        the areas with that λ and take it as known. A note
        ``decay-fitted`` has the range of λ in which the objective is within 1% of the least, read
        off the values that were tried. With some 400 independent points that is about a 95%
        interval; errors of neighbours on a curve are alike, and the true interval is then wider.
        It is a warning where that range reaches a limit of ``decays``.

    Raises:
        UsageError: curves are not LossCurves, or decays are not in order.

    Example:
        >>> table = jl.simulate.continual_curves().table.rename(columns={"loss_pt": "loss"})
        >>> curves = jl.read_loss_curves(table[table["step"] % 4000 == 0])
        >>> fit = jl.fit_decay("cpt-curve", curves, (0.99, 0.9999), n_starts=64, n_local=4)
        >>> "decay-fitted" in {note.code for note in fit.notes}
        True
    """
    law = laws.get(law)
    if not any(name.startswith("S2") for name in law.input_names):
        raise UsageError(f"law {law.name} takes no annealing area, so it has no decay")
    low, high = decays
    if not 0 < low < high < 1:
        raise UsageError(f"decays are the lowest and highest λ, within (0, 1), not {decays}")
    tried = {}

    def objective(x):
        if x not in tried:
            runs = curves.runs(
                -np.expm1(x), carry_momentum=carry_momentum, count_warmup=count_warmup,
                epsilon=epsilon,
            )  # fmt: skip
            tried[x] = fit(law, runs, strict=strict, **options)
        return tried[x].objective

    grid = np.linspace(np.log1p(-high), np.log1p(-low), _GRID)
    best = int(np.argmin([objective(x) for x in grid]))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]

    def between(x):
        """The objective between the neighbours of the best; infinite at them and beyond."""
        return objective(x) if left < x < right else np.inf

    # Not Brent's method, which needs fewer fits: the range within 1% of the least is read off the
    # values tried, and golden sections leave some on either side of it at every distance.
    inside = left + _SECTION * (right - left)
    tolerance = _CLOSE / abs(left + right)  # scipy takes it relative to the size of x
    scipy.optimize.minimize_scalar(between, (left, inside, right), method="golden", tol=tolerance)
    x = np.array(sorted(tried))
    values = np.array([tried[key].objective for key in x])
    k, worse = int(np.argmin(values)), _WORSE * values.min()

    def edge(side):
        """Where, from the best outwards, a line through the values tried gets worse."""
        beyond = np.flatnonzero(values[side] > worse)
        if not len(beyond):
            return None
        near, far = side[beyond[0] - 1], side[beyond[0]]
        share = (worse - values[near]) / (values[far] - values[near])
        return -np.expm1(x[near] + share * (x[far] - x[near]))

    edges = [(edge(np.arange(k, len(x))), low), (edge(np.arange(k, -1, -1)), high)]
    shown = [f"{limit if value is None else value:.5g}" for value, limit in edges]
    message = (
        f"λ = {-np.expm1(x[k]):.6g} has the lowest objective of {len(x)} values tried; λ from "
        f"{shown[0]} to {shown[1]} is within 1% of it; intervals treat λ as known"
    )
    if open_ := [f"{limit:g}" for value, limit in edges if value is None]:
        message += (
            f": the curves do not distinguish it from {' or '.join(open_)}, the end of its range; "
            "widen decays=, or add curves with other learning-rate drops"
        )
    fitted = tried[x[k]]
    note = Note("decay-fitted", "warning" if open_ else "info", message)
    return replace(fitted, notes=(*fitted.notes, note))


@checked
def observed_shift(
    continual: LossCurves,
    hidden: LossCurves,
    pairs: Mapping[str, str] | None = None,
    *,
    corpus: Corpus | None = None,
) -> pd.DataFrame:
    """The observed shift over the continual phase of every curve (Wang 2025, figures 2, 6 and 14).

    Args:
        continual: curves of two phases, read with their schedules (``schedules.join``).
        hidden: curves of bases that went on with their own corpus at the same learning rates, steps
            counted from the base's first. Of a fit ``fit.without("shift")`` predicts it.
        pairs: continual run → run of ``hidden``. A run that is left out has the only hidden curve,
            or that of its own name.
        corpus: ``"general"`` or ``"domain"``, for curves with the losses of both corpora.

    Returns:
        One row a point of a continual phase: ``run``; ``step``, from the boundary; ``S1_cpt``
        (learning rate × steps); ``loss`` and ``hidden`` (nats; between logged points of a hidden
        curve a straight line); ``shift``, their difference. ``jl.fit("shift", table)`` and
        ``jl.fit("shift-exp", table)`` fit it.

    Raises:
        UsageError: curves of one phase, or a run without a hidden curve of the same learning rates.
        DataError: a hidden curve that does not reach as far as the continual one.

    Example:
        >>> both = "constant:lr=1e-3,steps=100 + constant:lr=1e-3,steps=100"
        >>> table = {"step": [120, 150, 200], "loss": [3.2, 3.12, 3.05]}
        >>> continual = jl.read_loss_curves(table, schedule=both)
        >>> table, line = {"step": [100, 200], "loss": [3.0, 2.9]}, "constant:lr=1e-3,steps=200"
        >>> hidden = jl.read_loss_curves(table, schedule=line)
        >>> jl.fitting.observed_shift(continual, hidden)["shift"].round(3).tolist()
        [0.22, 0.17, 0.15]
    """
    for run, followed in continual.run_schedules.items():
        if followed.schedule.boundary is None:
            raise UsageError(
                f"run {run} has one phase, and the shift begins at the boundary of two: give its "
                "schedule both, schedules.join(first, second) or first+second in one line"
            )
    (seen, table), (curve, rows) = (_seen(curves, corpus) for curves in (continual, hidden))
    below, known, pairs = np.full(len(table), np.nan), hidden.run_schedules, pairs or {}
    for run, followed in continual.run_schedules.items():
        name = pairs.get(run, next(iter(known)) if len(hidden) == 1 else run)
        if name not in known:
            raise UsageError(
                f"run {run} has no hidden curve: pass pairs={{'{run}': …}}, one of "
                f"{listed(known)}.{nearest(str(name), known)}"
            )
        # Step by step, where both have a schedule.
        both = followed, known[name]
        first, last = max(one.first_step for one in both), min(one.last_step for one in both)
        own_rates, hidden_rates = (
            one.schedule.rates[first - one.first_step : last - one.first_step] for one in both
        )
        off = np.abs(own_rates - hidden_rates) > _RATES * followed.schedule.rates.max()
        if off.any():
            k = int(np.argmax(off))
            raise UsageError(
                f"run {run} has learning rate {own_rates[k]:.4g} at step {first + k + 1}, its "
                f"hidden curve {name} {hidden_rates[k]:.4g}: give the hidden curve of the same "
                "schedule"
            )
        of_run, other = (table["run"] == run).to_numpy(), (rows["run"] == name).to_numpy()
        at, steps = table["at"][of_run], rows["at"][other].to_numpy()
        if at.max() > steps.max():
            raise DataError(
                f"run {run} goes on to step {at.max():.0f}, its hidden curve ends at "
                f"{steps.max():.0f}; keep the points up to there: "
                f"only(where='step <= {steps.max():.0f}')"
            )
        order = np.argsort(steps)
        below[of_run] = np.interp(at, steps[order], curve.target[other][order], left=np.nan)
    # A table counts the steps of a run from the base's first; the shift begins at the boundary.
    boundaries = {
        run: entry.first_step + entry.schedule.boundary
        for run, entry in continual.run_schedules.items()
    }
    points = table[["run"]].assign(
        step=table["at"] - table["run"].map(boundaries), S1_cpt=table["S1_cpt"], loss=seen.target,
        hidden=below, shift=seen.target - below,
    )  # fmt: skip
    points = points[points["step"] > 0].reset_index(drop=True)
    if (early := points["hidden"].isna()).any():
        first = points[early].iloc[0]
        raise DataError(
            f"run {first['run']}, step {first['step']:.0f} of its continual phase: its hidden "
            "curve begins later; leave the points before that out"
        )
    return points


def _seen(curves: LossCurves, corpus: Corpus | None) -> tuple[Observations, pd.DataFrame]:
    """What a law takes of all points, and their rows with ``at``, the steps of the whole run."""
    runs, schedules = curves.runs(), curves.run_schedules
    first = runs.table["run"].map({run: entry.first_step for run, entry in schedules.items()})
    table = runs.table.assign(at=optimizer_steps(runs.table, schedules) + first)
    runs = replace(runs, table=table.reset_index(drop=True))
    seen = (runs.for_corpus(corpus) if corpus else runs).observations(laws.get(_LOSS), ())
    return seen, runs.table.loc[seen.rows].reset_index(drop=True)
