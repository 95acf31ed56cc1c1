"""The shift of a continual run, as observed: its loss less that of the hidden pre-training curve.

Wang 2025, §2.2: the hidden curve is the loss of the same base that goes on with its own corpus
under the same learning rates. What a continual curve lies above (or below) it is the shift, ΔL
of eq. 3, which does not depend on where the base was left (figure 2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._typed import checked
from jaxlaw.data import Corpus, LossCurves, Observations, RunSchedule, optimizer_steps
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.fitting._fitted_law import FittedLaw

_RATES = 5e-3  # of the highest rate: schedules that differ by more are not the same
_LOSS = "annealing"  # any law of a loss whose inputs all curves have


@checked
def observed_shift(
    continual: LossCurves,
    hidden: LossCurves | FittedLaw,
    pairs: Mapping[str, str] | None = None,
    *,
    corpus: Corpus | None = None,
) -> pd.DataFrame:
    """The observed shift over the continual phase of every curve (Wang 2025, figures 2, 6 and 14).

    Args:
        continual: curves of two phases, read with their schedules (``schedules.join``).
        hidden: curves of bases that went on with their own corpus under the same rates, steps
            counted from the base's first; or a fit of this loss in areas (``annealing``,
            ``cpt-curve`` …), whose prediction without its shift is then the hidden curve.
        pairs: continual run → run of ``hidden``. A run that is left out has the only hidden curve,
            or that of its own name.
        corpus: ``"general"`` or ``"domain"``, for curves with the losses of both corpora.

    Returns:
        One row a point of a continual phase: ``run``; ``step``, from the boundary; ``S1_cpt``
        (learning rate × steps); ``loss`` and ``hidden`` (nats; between logged points of a hidden
        curve a straight line); ``shift``, their difference. ``jl.fit("shift", table)`` and
        ``jl.fit("shift-exp", table)`` fit it, :func:`jaxlaw.plots.shift_curves` draws it.

    Raises:
        UsageError: curves of one phase, a run without a hidden curve or with one of other rates,
            or a fit that is of no loss in areas, or does not know how these are counted.
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
    _check_curves(continual, hidden, pairs)
    below, table, target = (
        _below_of_fit(continual, hidden, corpus)
        if isinstance(hidden, FittedLaw)
        else _below_of_curves(continual, hidden, corpus, pairs or {})
    )
    # A table counts the steps of a run from the base's first; the shift begins at the boundary.
    boundaries = {
        run: entry.first_step + entry.schedule.boundary
        for run, entry in continual.run_schedules.items()
    }
    points = table[["run"]].assign(
        step=table["at"] - table["run"].map(boundaries), S1_cpt=table["S1_cpt"], loss=target,
        hidden=below, shift=target - below,
    )  # fmt: skip
    points = points[points["step"] > 0].reset_index(drop=True)
    if (early := points["hidden"].isna()).any():
        first = points[early].iloc[0]
        raise DataError(
            f"run {first['run']}, step {first['step']:.0f} of its continual phase: its hidden "
            "curve begins later; leave the points before that out"
        )
    return points


def _check_curves(continual: Any, hidden: Any, pairs: Any) -> None:
    """Refuse what is no curve of two phases, or no hidden curve; raises UsageError."""
    if not isinstance(continual, LossCurves) or not isinstance(hidden, LossCurves | FittedLaw):
        raise UsageError("observed_shift takes what jl.read_loss_curves returns; as the hidden "
                         "curve that or a fit")  # fmt: skip
    if not isinstance(pairs, Mapping | None):
        raise UsageError(
            "pairs is a dict, continual run → run of the hidden curves",
            argument="pairs",
            value=pairs,
        )
    for run, followed in continual.run_schedules.items():
        if followed.schedule.boundary is None:
            raise UsageError(
                f"run {run} has one phase, and the shift begins at the boundary of two: give its "
                "schedule both, schedules.join(first, second) or first+second in one line"
            )


def _below_of_fit(
    continual: LossCurves, hidden: FittedLaw, corpus: Corpus | None
) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """The hidden curve (n,) as a fit predicts it, the points' table, and their losses."""
    if hidden.area_options is None or hidden.law.target != "loss":
        raise UsageError(
            f"the fit of law {hidden.law.name} has no hidden curve, or does not know how areas "
            "are counted; fit annealing or cpt-curve to what jl.read_loss_curves returns"
        )
    # Areas are counted as they were for the fit, whose parameters belong to that way alone.
    seen, table = _seen(continual, corpus, hidden.law.name, **hidden.area_options)
    inputs = {name: values / hidden.units[name] for name, values in seen.inputs.items()}
    return hidden.without("shift").predict(hidden.law.labelled(inputs)), table, seen.target


def _below_of_curves(
    continual: LossCurves, hidden: LossCurves, corpus: Corpus | None, pairs: Mapping[str, str]
) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """The hidden curve (n,) between its logged points, the points' table, and their losses."""
    seen, table = _seen(continual, corpus)
    curve, rows = _seen(hidden, corpus)
    below = np.full(len(seen), np.nan)
    for run, followed in continual.run_schedules.items():
        name = _hidden_name(run, hidden, pairs)
        _check_rates(run, followed, name, hidden.run_schedules[name])
        of_run, other = (table["run"] == run).to_numpy(), (rows["run"] == name).to_numpy()
        below[of_run] = _between(table["at"][of_run], rows["at"][other], curve.target[other], run)
    return below, table, seen.target


def _seen(
    curves: LossCurves, corpus: Corpus | None, law: str = _LOSS, **counted: object
) -> tuple[Observations, pd.DataFrame]:
    """What a law takes of all points, and their rows with ``at``, the steps of the whole run."""
    runs = curves.runs(**counted)  # type: ignore[arg-type]
    first = runs.table["run"].map(
        {run: entry.first_step for run, entry in curves.run_schedules.items()}
    )
    table = runs.table.assign(at=optimizer_steps(runs.table, curves.run_schedules) + first)
    runs = dataclasses.replace(runs, table=table.reset_index(drop=True))
    seen = (runs.for_corpus(corpus) if corpus else runs).observations(laws.get(law), ())
    return seen, runs.table.loc[seen.rows].reset_index(drop=True)


def _hidden_name(run: str, hidden: LossCurves, pairs: Mapping[str, str]) -> str:
    only = next(iter(hidden.run_schedules)) if len(hidden) == 1 else run
    name = pairs.get(run, only)
    if name not in hidden.run_schedules:
        known = list(hidden.run_schedules)
        raise UsageError(
            f"run {run} has no hidden curve: pass pairs={{'{run}': …}}, one of "
            f"{listed(known)}.{nearest(str(name), known)}"
        )
    return name


def _check_rates(run: str, followed: RunSchedule, name: str, hidden: RunSchedule) -> None:
    """Refuse a hidden curve of other rates, step by step, where both have a schedule."""
    first, last = (
        max(followed.first_step, hidden.first_step),
        min(followed.last_step, hidden.last_step),
    )
    own_rates, hidden_rates = (
        entry.schedule.rates[first - entry.first_step : last - entry.first_step]
        for entry in (followed, hidden)
    )
    off = np.abs(own_rates - hidden_rates) > _RATES * followed.schedule.rates.max()
    if off.any():
        k = int(np.argmax(off))
        raise UsageError(
            f"run {run} has rate {own_rates[k]:.4g} at step {first + k + 1}, its hidden curve "
            f"{name} {hidden_rates[k]:.4g}: a hidden curve goes on under the same rates. Give that "
            "of the same schedule, or a fit, which predicts one for any"
        )


def _between(at: pd.Series, steps: pd.Series, losses: np.ndarray, run: str) -> np.ndarray:
    """Hidden losses (points,) at steps of a run, between those logged; before them NaN."""
    order = np.argsort(steps.to_numpy())
    steps, losses = steps.to_numpy()[order], losses[order]
    if at.max() > steps[-1]:
        raise DataError(
            f"run {run} goes on to step {at.max():.0f}, its hidden curve ends at {steps[-1]:.0f}; "
            f"keep the points up to there: only(where='step <= {steps[-1]:.0f}')"
        )
    return np.interp(at, steps, losses, left=np.nan)
