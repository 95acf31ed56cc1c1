"""Continual runs: losses at their end, best settings, the best run of tokens, turning lengths.

Wang 2025, §4.4, §5 and figures 5, 7, 8 and 13.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._areas import PhaseAreas
from jaxlaw._arrays import numbers_of
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import (
    SHARE,
    Amount,
    checked_number,
    exponential,
    in_unit,
    readable,
    written,
)
from jaxlaw._result import TARGET, Result
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import AREAS, LossCurves, as_schedule, optimizer_steps
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.fitting import Fit, fit
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._continual_pretraining import (
    SEARCHED,
    SETTINGS,
    ContinualPretraining,
    Layout,
    Pretraining,
    Shape,
    compiled_areas,
    counted_as,
    final_areas,
    layout_of,
)
from jaxlaw.planning._frame import (
    AnswerTable,
    Inputs,
    OldAnswer,
    Pictured,
    context_of,
    fewest_degrees,
    keeps_question,
    law_inputs,
    missing_draws_notes,
    source_notes,
    units_of,
    without,
)
from jaxlaw.planning._optimise import as_good, lowest_in_box, root, root_or_infinity
from jaxlaw.schedules import Schedule, cosine
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, bootstrap, interval_columns, with_intervals

_CORPORA = ("pt", "cpt")
_UNITS = {
    "weight": "", "loss_potential": SHARE, "peak": "", "replay": SHARE, "steps": "steps",
    **{f"{what}_{corpus}": TARGET for what in ("loss", "change") for corpus in _CORPORA},
    "objective": TARGET,
}  # fmt: skip


class _Losses(NamedTuple):
    """The losses of a run on the pre-training corpus and on the new one."""

    sources: tuple[Draws, ...]
    run: ContinualPretraining
    layout: Layout
    numbers: dict[str, float]
    params: tuple[dict[str, np.ndarray], ...]  # of each loss parameter → (1 + R,)
    inputs: tuple[dict[str, float], ...]  # of each loss beside areas and r, in its law's own units

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The laws, the layout and the numbers that compiled functions take first."""
        laws = tuple(source.law for source in self.sources)
        return laws, self.layout, self.params, self.numbers, self.inputs

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the draws' spread."""
        return fewest_degrees(self.sources)

    def evaluate(self, at: Mapping[str, Any]) -> np.ndarray:
        """Start and end of each loss, (losses, 2, 1 + R, points).

        Args:
            at: settings → (points,), or (1 + R, points).
        """
        laws, layout, params, *rest = self.arguments
        params = tuple({k: v[:, None] for k, v in each.items()} for each in params)
        with in_float64():
            return np.asarray(_compiled_losses(laws, layout, params, *rest, dict(at)))

    def notes(self, at: Mapping[str, Any]) -> list[Note]:
        """Where areas and shares at (points,) settings leave the fitted ranges."""
        with in_float64():
            areas = compiled_areas(self.layout, self.numbers, dict(at))
        notes, shares = [], (at["replay"], 1 - np.asarray(at["replay"]))
        for corpus, source, share in zip(_CORPORA, self.sources, shares, strict=False):
            values, worst = {**areas._asdict(), "r": share}, {}
            for name in sorted(set(values) & set(source.law.input_names)):
                each = np.ravel(np.asarray(values[name], float)) / source.units[name]
                low, high = source.ranges.get(name, (-math.inf, math.inf))
                worst[name] = each[np.argmax(np.fmax(low - each, each - high))]
            notes += source_notes(source, corpus, **worst)
        return notes

    def context(self, kind: type[Result]) -> dict[str, Any]:
        """Fields of an answer that are made of the runs."""
        context = context_of(kind, self.sources[0], dict.fromkeys(self.sources[0].ranges, 1.0))
        return context | {"point": {}}  # the ones above say which ranges are known, and no run

    def check_varied(self, names: Sequence[str], known: Sequence[str] = SETTINGS) -> None:
        """Refuse to vary what the run or a law has no place for."""
        pt = self.run.pretraining
        for name in names:
            if name not in known:
                raise UsageError(
                    f"'{name}' is not a setting; settings: {', '.join(known)}."
                    f"{nearest(name, known)}"
                )
        if "peak" in names and self.run.peak is None:
            raise UsageError(
                "without a re-warm-up the peak is the last rate of pre-training; give the run a "
                "peak=, or vary loss_potential"
            )
        if "loss_potential" in names and getattr(pt, "shape", "constant") == "constant":
            raise UsageError(
                "the loss potential varies with a Pretraining that anneals (wsd, cosine, linear); "
                "this one is given as it is"
            )
        for source in self.sources:
            if "replay" in names and "r" not in source.law.input_names:
                raise UsageError(
                    f"law {source.law.name} knows no replay ratio; fit cpt-curve-replay-pt and -cpt"
                )


def _losses_of(
    fits: tuple[Any, ...],
    run: ContinualPretraining,
    inputs: Inputs,
    area_options: Mapping[str, Any] | None,
) -> _Losses:
    """Fits and run, checked for each other.

    Raises:
        UsageError: a law without areas of a continual phase, one that knows its base where the
            run does not or the reverse, a replay ratio that a law does not take, or an input
            that is missing or unknown.
    """
    if not isinstance(run, ContinualPretraining):
        raise UsageError(
            f"run is a ContinualPretraining, not {type(run).__name__}", argument="run", value=run
        )
    inputs, each = inputs or {}, as_draws(*fits)
    for source in each:
        law = source.law
        if "S1_cpt" not in law.input_names or law.target != "loss":
            raise UsageError(
                f"law {law.name} takes no areas of a continual phase, or predicts no loss; use "
                "cpt-curve, cpt-curve-replay-pt and -cpt, or theirs of an unknown base"
            )
        knows = "S1_pt" in law.input_names
        if knows and run.pretraining is None:
            raise UsageError(f"law {law.name} needs the pre-training: give the run pretraining=")
        if not knows and run.pretraining is not None:
            raise UsageError(
                f"law {law.name} is of an unknown base, whose last rate is taken as 0: give the "
                "run pretraining=None"
            )
        if run.replay and "r" not in law.input_names:
            raise UsageError(
                f"law {law.name} knows no replay ratio, so the run cannot have one; fit "
                "cpt-curve-replay-pt and -cpt"
            )
    taken = set().union(*(source.law.input_names for source in each)) - {*AREAS, "r"}
    for name in inputs:
        if name not in taken:
            names = " and ".join(source.law.name for source in each)
            raise UsageError(f"{names} take no input '{name}' here; shares are the run's replay")
    free = (*AREAS, "r")
    others = tuple(law_inputs(source, source.inputs_taken(inputs), free) for source in each)
    layout, numbers = layout_of(run, counted_as(*fits, **(area_options or {})))
    return _Losses(each, run, layout, numbers, tuple(source.values for source in each), others)


def _checked_setting(name: str, values: Any, run: ContinualPretraining) -> np.ndarray:
    """The values of a setting as float64; raises UsageError on one it cannot have."""
    values = numbers_of(name, values)
    share = name in ("loss_potential", "replay", "decay")
    low = run.warmup if name == "steps" else 0.0
    good = (values >= 0) & (values <= 1) if share else (values > low) & np.isfinite(values)
    if not values.size or not good.all():
        must = "a share, in [0, 1]" if share else f"finite and above {low:g}"
        raise UsageError(f"{name} must be {must}, not {values[~good].tolist() or 'nothing'}")
    return values


def _start_and_end(
    laws: tuple[Law, ...], layout: Layout, params: Any, numbers: Any, inputs: Any, at: Any
) -> Any:
    """Start and end of each loss, (losses, 2, …): pure JAX, for anything that broadcasts."""
    end = final_areas(layout, numbers, at)
    none = jnp.zeros_like(end.S1_cpt)
    start = end._replace(S1_cpt=none, S2_cpt=none)
    shares = (at["replay"], 1 - at["replay"])  # of a loss's own corpus
    each = [
        jnp.stack(jnp.broadcast_arrays(*(_loss(law, p, a, share, x) for a in (start, end))))
        for law, p, x, share in zip(laws, params, inputs, shares, strict=False)
    ]
    return jnp.stack(jnp.broadcast_arrays(*each))


_compiled_losses = compiled(static_argnames=("laws", "layout"))(_start_and_end)


def _loss(law: Law, params: Any, areas: PhaseAreas, share: Any, inputs: Any) -> Any:
    values = {**areas._asdict(), "r": share, **inputs}
    return law(params, **{name: values[name] for name in law.input_names})


def _by_name(values: np.ndarray) -> dict[str, np.ndarray]:
    """(losses, 2, …) starts and ends as ``loss_pt``, ``loss_cpt``, ``change_pt`` and so on."""
    each = list(zip(_CORPORA, values, strict=True))
    changes = {f"change_{corpus}": both[1] - both[0] for corpus, both in each}
    return {f"loss_{corpus}": both[1] for corpus, both in each} | changes


def _both(row: pd.Series) -> str:
    old, new = (written(row[f"loss_{corpus}"], "nats") for corpus in _CORPORA)
    return f"{old} on the old corpus and {new} on the new one"


class _OverSettings:
    """Tables of what a continual run comes to, over some of its settings."""

    table: pd.DataFrame

    column_units: ClassVar[Mapping[str, str]] = _UNITS

    def shown(self) -> dict[str, pd.DataFrame]:
        """Some rows; of two losses without their changes, for which there is no room."""
        table = self.table[[n for n in self.table if not n.startswith(("change", "objective"))]]
        return {"table": table.iloc[:: max(1, len(table) // _SHOWN)]}


class FinalLosses(_OverSettings, AnswerTable):
    """Losses at the end of continual runs.

    ``table`` has a row each: ``loss_potential``, ``peak``, ``replay``, ``steps``; ``loss_pt``,
    ``loss_cpt`` at the end, ``change_pt``, ``change_cpt`` since the start.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> table = jl.planning.final_losses(pt, cpt, run, replay=[0, 0.5]).table
        >>> bool(table["change_pt"].is_monotonic_decreasing)
        True
    """

    picture = "losses_over"

    def sentence(self) -> str:
        """Both losses of one run, or where each is lowest among several."""
        lowest = [self.table.loc[self.table[f"loss_{corpus}"].idxmin()] for corpus in _CORPORA]
        if len(self.table) == 1:
            return f"losses {_both(lowest[0])}"
        return "; ".join(
            f"lowest loss on the {word} corpus, {written(row[f'loss_{corpus}'], 'nats')}, at "
            + ", ".join(f"{name} {written(row[name], _UNITS[name])}" for name in self._varied())
            for word, corpus, row in zip(("old", "new"), _CORPORA, lowest, strict=True)
        )

    def _varied(self) -> list[str]:
        """The settings that vary among the rows."""
        return [name for name in SETTINGS if self.table[name].nunique() > 1]


@checked
def final_losses(
    pt: Any,
    cpt: Any,
    run: ContinualPretraining,
    *,
    at: Mapping[str, float | str] | None = None,
    area_options: Mapping[str, Any] | None = None,
    level: ConfidenceLevel = LEVEL,
    **settings: Any,
) -> FinalLosses:
    """Losses at the end over loss potential, peak rate, replay ratio or steps.

    Wang 2025, figures 5 (with and without a re-warm-up) and 7. The loss at the end of a run of T
    steps, its rate annealed as the run says, is a point for each T.

    Args:
        pt: fit of the loss on the pre-training corpus.
        cpt: fit of the loss on the new corpus.
        run: continual run, whose settings hold where they do not vary.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        area_options: options by which areas are counted, for fits that do not know them.
        level: confidence level of the intervals.
        **settings: values of ``loss_potential``, ``peak``, ``replay`` and ``steps``, a number or
            several; all combinations. Left out: the run's.

    Returns:
        FinalLosses; losses in nats.

    Raises:
        UsageError: a setting the run or a law has no place for, or fits that do not belong to
            such a run.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> losses = jl.planning.final_losses(pt, cpt, run, replay=[0, 0.5])
        >>> losses.table["loss_pt"].round(3).tolist()
        [3.399, 3.364]
    """
    losses = _losses_of((pt, cpt), run, at, area_options)
    losses.check_varied(tuple(settings))
    varied = {name: np.atleast_1d(_checked_setting(name, v, run)) for name, v in settings.items()}
    axes = [varied.get(name, np.array([run.settings[name]])) for name in SETTINGS]
    mesh = np.meshgrid(*axes, indexing="ij")
    at = {name: axis.ravel() for name, axis in zip(SETTINGS, mesh, strict=True)}
    table = dict(at)
    for name, values in _by_name(losses.evaluate(at)).items():
        table |= interval_columns(name, values, level, losses.degrees)
    return FinalLosses(
        pd.DataFrame(table), level, tuple(losses.notes(at)), **losses.context(FinalLosses)
    )


# Its best settings

Minimise = Literal["losses", "changes"]
_SHOWN = 24  # rows of a table for people
_AT_BOUND = 1e-6  # of a range, in its own scale
_LOGARITHMIC = ("peak", "steps")
_POINTS = {1: 257, 2: 33, 3: 13, 4: 8}  # a side of the grid
_LOSSES = tuple(f"{what}_{corpus}" for what in ("loss", "change") for corpus in _CORPORA)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OptimalTraining(Pictured, OldAnswer):
    """The settings with the least λ1·L_pt + λ2·L_cpt at the end, or λ1·ΔL_pt + λ2·ΔL_cpt.

    Attributes:
        weight: λ1; λ2 is 1 − λ1.
        loss_potential: best or fixed loss potential.
        peak: best or fixed peak; NaN without a re-warm-up.
        replay: best or fixed replay ratio.
        steps: best or fixed number of steps.
        loss_pt, loss_cpt: losses at the end, in nats.
        change_pt, change_cpt: changes of the losses since the start, in nats.
        objective: λ1·loss_pt + λ2·loss_cpt; of ``minimise="changes"`` the same of the changes.
        schedule: rates of the best run.
        minimise: ``losses`` or ``changes``.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> jl.planning.optimal_training(pt, cpt, run, 0.6, {"replay": (0, 1)}).binding
        'none: the optimum is inside its ranges'
    """

    weight: float = field(metadata={"unit": ""})
    loss_potential: float = field(metadata={"unit": SHARE})
    peak: float = field(metadata={"unit": ""})
    replay: float = field(metadata={"unit": SHARE})
    steps: float = field(metadata={"unit": "steps"})
    loss_pt: float = field(metadata={"unit": TARGET})
    loss_cpt: float = field(metadata={"unit": TARGET})
    change_pt: float = field(metadata={"unit": TARGET})
    change_cpt: float = field(metadata={"unit": TARGET})
    objective: float = field(metadata={"unit": TARGET})
    schedule: Any = field(default=None, metadata={"saved": False})
    minimise: str = "losses"

    def sentence(self) -> str:
        """The settings and both losses."""
        if math.isnan(self.objective):
            return ""
        peak = "" if math.isnan(self.peak) else f", peak {self.written('peak')}"
        return (
            f"weight {self.weight:g} of the old loss: replay {self.written('replay', level=True)}"
            f"{peak}, {self.written('steps')}; losses {self.written('loss_pt')} on the old corpus "
            f"and {self.written('loss_cpt')} on the new one"
        )

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The first of the settings that were searched, over all weights, with this one marked."""
        curve = tradeoff_curve(**without(question, "weight"), level=self.level)
        return "balance", (curve, next(iter(question["over"]))), {"mark": self}


class TradeoffCurve(_OverSettings, AnswerTable):
    """The best settings over λ1.

    ``table`` has a row for each ``weight`` (λ1), with the numbers of :class:`OptimalTraining`
    and ``binding``.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> curve = jl.planning.tradeoff_curve(pt, cpt, run, {"replay": (0, 1)}, (0.2, 0.6))
        >>> curve.table["binding"][0]
        'replay at its lowest (0)'
    """

    picture = "balance"

    def sentence(self) -> str:
        """Both losses at either end."""
        ends = self.table.iloc[[0, -1] if len(self.table) > 1 else [0]]
        return "; ".join(f"weight {row['weight']:g}: {_both(row)}" for _, row in ends.iterrows())


@keeps_question
@checked
def optimal_training(
    pt: Any,
    cpt: Any,
    run: ContinualPretraining,
    weight: float,
    over: Mapping[str, tuple[float, float]],
    *,
    at: Mapping[str, float | str] | None = None,
    area_options: Mapping[str, Any] | None = None,
    minimise: Minimise = "losses",
    level: ConfidenceLevel = LEVEL,
) -> OptimalTraining:
    """The settings that balance both losses best (Wang 2025, eq. 5 and figure 8).

    The least λ1·L_pt + λ2·L_cpt at the end. For a given base this is that of the changes ΔL,
    which differ from the losses by constants. Bases of other loss potentials start from other
    losses: their changes would reward a base for being left unannealed, their losses do not.
    Equation 5 prints the changes, §5.1 speaks of the losses: ``minimise`` chooses.

    Args:
        pt: fit of the loss on the pre-training corpus.
        cpt: fit of the loss on the new corpus.
        run: continual run, whose settings hold where they are not searched.
        weight: weight λ1 of the first loss, in [0, 1]; λ2 is 1 − λ1.
        over: ranges to search, setting → (lowest, highest), of any of ``loss_potential``,
            ``peak``, ``replay`` and ``steps``. Peak and steps are searched in logarithms.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        area_options: options by which areas are counted, for fits that do not know them.
        minimise: ``losses``, or as eq. 5 is printed ``changes``: λ1·ΔL_pt + λ2·ΔL_cpt, each ΔL the
            loss at the end less that at the start of the run. (The text calls ΔL_cpt a decrease;
            only where a decrease counts as negative does its least make sense.)
        level: confidence level of the intervals.

    Returns:
        OptimalTraining; the steps are whole. A batched grid over the ranges is refined by Newton
        steps from its best points, for all draws in one program.

    Raises:
        UsageError: as :func:`final_losses`; a weight outside [0, 1] or a range that is none.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> best = jl.planning.optimal_training(pt, cpt, run, 0.6, {"replay": (0, 1)})
        >>> round(best.replay, 3)
        0.672
    """
    losses = _losses_of((pt, cpt), run, at, area_options)
    names, values = _best_settings(losses, over, [weight], minimise)
    values = {name: rows[0] for name, rows in values.items()}
    best = {name: float(values[name][0]) for name in SETTINGS}
    notes = losses.notes({name: values[name][:1] for name in SETTINGS})
    notes += missing_draws_notes(values["objective"], "optimum")
    varied = best if run.peak is not None else best | {"peak": None}
    if not isinstance(run.pretraining, Pretraining):
        varied = {name: value for name, value in varied.items() if name != "loss_potential"}
    numbers = {name: values[name] for name in (*SETTINGS, *_LOSSES, "objective")}
    return OptimalTraining(
        **with_intervals(numbers, level, losses.degrees),
        weight=float(weight), binding=_binding_of(names, over, best), notes=tuple(notes),
        schedule=run.schedule(**varied), minimise=minimise, **losses.context(OptimalTraining),
    )  # fmt: skip


@checked
def tradeoff_curve(
    pt: Any,
    cpt: Any,
    run: ContinualPretraining,
    over: Mapping[str, tuple[float, float]],
    weights: Sequence[float] = tuple(np.linspace(0, 1, 21)),
    *,
    at: Mapping[str, float | str] | None = None,
    area_options: Mapping[str, Any] | None = None,
    minimise: Minimise = "losses",
    level: ConfidenceLevel = LEVEL,
) -> TradeoffCurve:
    """The best settings over λ1 (Wang 2025, figure 8), all in one program.

    Args:
        pt: fit of the loss on the pre-training corpus.
        cpt: fit of the loss on the new corpus.
        run: continual run, whose settings hold where they are not searched.
        over: ranges to search, as for :func:`optimal_training`.
        weights: weights λ1 of the first loss, in [0, 1].
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        area_options: options by which areas are counted, for fits that do not know them.
        minimise: ``losses`` or ``changes``, as for :func:`optimal_training`.
        level: confidence level of the intervals.

    Returns:
        TradeoffCurve, a row for each weight.

    Raises:
        UsageError: as :func:`optimal_training`.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=40_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
        >>> curve = jl.planning.tradeoff_curve(pt, cpt, run, {"replay": (0, 1)}, (0.2, 0.6))
        >>> curve.table["replay"].round(3).tolist()
        [0.0, 0.672]
    """
    losses = _losses_of((pt, cpt), run, at, area_options)
    names, values = _best_settings(losses, over, weights, minimise)
    table: dict[str, Any] = {"weight": np.asarray(weights, float)}
    for name in (*names, *_LOSSES, "objective"):
        table |= interval_columns(name, values[name].T, level, losses.degrees)
    at = {name: values[name][:, 0] for name in SETTINGS}
    rows = pd.DataFrame(at).to_dict("records")
    table["binding"] = [_binding_of(names, over, best) for best in rows]
    return TradeoffCurve(
        pd.DataFrame(table), level, tuple(losses.notes(at)), **losses.context(TradeoffCurve)
    )


def _best_settings(
    losses: _Losses,
    over: Mapping[str, tuple[float, float]],
    weights: Sequence[float],
    minimise: Minimise = "losses",
    known: Sequence[str] = SETTINGS,
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """What was searched, and settings, losses and objective at the optima, each (weights, 1 + R).

    Args:
        losses: both losses of a run.
        over: setting → (lowest, highest).
        weights: (weights,) λ1.
        minimise: see :func:`optimal_training`.
        known: settings that may be searched.
    """
    run = losses.run
    losses.check_varied(tuple(over), known)
    names = tuple(name for name in known if name in over)
    if not names:
        raise UsageError(f"over= needs a range of one or more of {', '.join(known)}")
    for name in names:
        limits = _checked_setting(name, over[name], run)
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise UsageError(f"over={{'{name}': …}} takes (lowest, highest), not {over[name]}")
    weights = numbers_of("weights", weights)
    if weights.ndim != 1 or not len(weights) or not ((weights >= 0) & (weights <= 1)).all():
        raise UsageError(f"λ1 is {weights.tolist()}; it lies in [0, 1], and λ2 is 1 − λ1")
    if minimise not in ("losses", "changes"):
        raise UsageError(
            f"minimise is 'losses' or 'changes', not '{minimise}'",
            argument="minimise",
            value=minimise,
        )

    fixed = {name: value for name, value in run.settings.items() if name not in names}
    side = np.linspace(0, 1, _POINTS[len(names)])
    grid = np.stack([g.ravel() for g in np.meshgrid(*[side] * len(names), indexing="ij")], -1)
    size, shape = losses.sources[0].rows, (len(weights), losses.sources[0].rows)
    scale = np.array([over[name] for name in names], float), np.isin(names, _LOGARITHMIC)
    laws, layout, params, numbers, others = losses.arguments
    lanes = jax.tree.map(lambda values: np.tile(values, len(weights)), params)
    # How many times the start is taken off the end.
    starts = 1.0 if minimise == "changes" else 0.0
    with in_float64():
        points = _optima(
            laws, layout, names, lanes, np.repeat(weights, size), numbers, others, fixed, scale,
            grid, starts,
        )  # fmt: skip
        at = {k: np.array(v) for k, v in _settings(names, points, fixed, scale).items()}
    at["steps"] = np.clip(np.rint(at["steps"]), 1, None)
    at = {k: np.broadcast_to(v, shape[0] * shape[1]).reshape(shape) for k, v in at.items()}
    # Draws come before points: (losses, 2, 1 + R, weights).
    values = _by_name(losses.evaluate({name: v.T for name, v in at.items()}))
    values = {name: v.T for name, v in values.items()}
    pt, cpt = (values[f"{'change' if starts else 'loss'}_{corpus}"] for corpus in _CORPORA)
    objective = weights[:, None] * pt + (1 - weights[:, None]) * cpt
    return names, at | values | {"objective": objective}


def _settings(names: tuple[str, ...], points: Any, fixed: Mapping[str, Any], scale: Any) -> Any:
    """Settings from points in the unit box, (…, settings)."""
    limits, log = scale
    at = dict(fixed)
    for k, name in enumerate(names):
        low, high = limits[k, 0], limits[k, 1]
        safe = jnp.where(log[k], low, 1.0)
        rising = safe * (jnp.where(log[k], high, 1.0) / safe) ** points[..., k]
        at[name] = jnp.where(log[k], rising, low + (high - low) * points[..., k])
    return at


@compiled(static_argnames=("laws", "layout", "names"))
def _optima(
    laws: Any, layout: Any, names: tuple[str, ...], params: Any, weights: Any, numbers: Any,
    inputs: Any, fixed: Any, scale: Any, grid: Any, starts: Any,
) -> Any:  # fmt: skip
    """The optima as points of the unit box, (lanes, settings)."""

    def lane(each: Any) -> Any:
        params, weight = each

        def objective(points: Any) -> Any:
            at = _settings(names, points, fixed, scale)
            both = _start_and_end(laws, layout, params, numbers, inputs, at)
            pt, cpt = both[:, 1] - starts * both[:, 0]
            return weight * pt + (1 - weight) * cpt

        return lowest_in_box(objective, grid)

    return jax.lax.map(lane, (params, weights), batch_size=64)


def _binding_of(
    names: tuple[str, ...], over: Mapping[str, tuple[float, float]], best: Mapping[str, float]
) -> str:
    """The bounds of the ranges that are active at the optimum."""
    active = []
    for name in names:
        scale = math.log if name in _LOGARITHMIC else float
        low, high, value = (scale(number) for number in (*over[name], best[name]))
        share = (value - low) / (high - low)
        if not _AT_BOUND <= share <= 1 - _AT_BOUND:
            which = "lowest" if share < 0.5 else "highest"
            active.append(f"{name} at its {which} ({best[name]:g})")
    return "; ".join(active) or "none: the optimum is inside its ranges"


_CORPUS_OF = {"pt": "general", "cpt": "domain"}
_NUMBERS = (
    "tokens", "steps", "replay", "peak", "decay", "loss_pt", "loss_cpt", "weighted",
    "change_pt", "change_cpt",
)  # fmt: skip
_RUNS = ["run", "replay", "peak", "steps", "tokens", "loss_pt", "loss_cpt"]
_WORDS = {"replay": "replay", "peak": "peak rate", "steps": "steps", "decay": "decay"}
_WEIGHTS = tuple(np.linspace(0, 1, 21))
_LINE = 257  # points along a setting at which the loss is looked at
_LEAST = 0.05  # of the tokens, and of the steps after the warm-up: the least that is searched
_WARMUP = 0.01  # of the tokens
_AT_EDGE = 1e-3  # of a range
_ALL = 0.995  # share of the steps from which on a rate falls all the way
_FLAT = "as good"  # beginning of the name of the table of what costs nothing
_SAME_RATE = 1e-3  # of the peak, within which a logged schedule is a cosine
_BEST_RUNS = 5  # that a summary shows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ContinualRun(OldAnswer):
    """The continual run of a number of tokens with the least λ1·L_pt + λ2·L_cpt at its end.

    Attributes:
        weight: λ1, the weight of the loss on the pre-training corpus; λ2 is 1 − λ1.
        tokens: tokens of the run, those of replay included.
        steps: its updates.
        replay: share of the pre-training corpus.
        peak: highest learning rate.
        decay: share of the steps after the warm-up in which the rate falls, on a straight line.
        loss_pt, loss_cpt: losses at its end, in nats.
        weighted: λ1·loss_pt + λ2·loss_cpt, in nats.
        change_pt, change_cpt: changes of the losses since its start, in nats.
        batch_tokens: tokens of an update.
        searched: range of each setting that was searched.
        table: the trade-off, a row for each weight: best settings and both losses.
        runs: the continual runs behind the fits at their last logged step: ``run``, ``replay``,
            ``peak``, ``steps``, ``tokens``, ``loss_pt``, ``loss_cpt``, ``weighted`` (λ1·loss_pt +
            λ2·loss_cpt); without rows where only fits are known.
        schedule: rates of the best run, after those of its base where they are known.
    """

    weight: float = field(metadata={"unit": "", "setting": True})
    tokens: float = field(metadata={"unit": "tokens"})
    steps: float = field(metadata={"unit": "steps"})
    replay: float = field(metadata={"unit": SHARE})
    peak: float = field(metadata={"unit": ""})
    decay: float = field(metadata={"unit": SHARE})
    loss_pt: float = field(metadata={"unit": TARGET})
    loss_cpt: float = field(metadata={"unit": TARGET})
    weighted: float = field(metadata={"unit": TARGET})
    change_pt: float = field(metadata={"unit": TARGET})
    change_cpt: float = field(metadata={"unit": TARGET})
    batch_tokens: float = field(metadata={"unit": "tokens", "setting": True})
    searched: dict[str, tuple[float, float]]
    table: pd.DataFrame
    runs: pd.DataFrame
    schedule: Any = field(default=None, metadata={"saved": False})
    picture = "continual_run"
    limited_by = "over"

    def sentence(self) -> str:
        """The run: its settings, both losses with intervals, what binds."""
        if math.isnan(self.weighted):
            return ""
        falling = f"falling over the last {written(self.decay, SHARE)} of it"
        falling = "falling all the way" if self.decay > _ALL else falling
        return (
            f"{readable(self.tokens, 'tokens')} ({self.steps:,.0f} steps): replay "
            f"{self.written('replay', level=True)}, peak rate {exponential(self.peak)}, {falling}; "
            f"losses {self.written('loss_pt')} on the pre-training corpus and "
            f"{self.written('loss_cpt')} on the new one; what binds: {self.binding}"
        )

    def shown(self) -> dict[str, pd.DataFrame]:
        """A few rows of the trade-off, and of the runs those with the lowest weighted loss."""
        settings = [name for name in self.table if not name.endswith(("_low", "_high"))]
        every = max(1, (len(self.table) - 1) // 5)
        shown = {"trade-off over λ1": self.table[settings].iloc[::every]}
        if len(self.runs):
            head = self.runs.sort_values("weighted").head(_BEST_RUNS)
            shown[f"the best {len(head)} of {len(self.runs)} runs by the weighted loss"] = head
        flat = {name: rows for name, rows in super().shown().items() if name.startswith(_FLAT)}
        return shown | flat

    def lines(self) -> list[str]:
        """Numbers with their intervals, what binds, the trade-off and the best runs."""
        lines = super().lines()
        for name, table in self.shown().items():
            if not name.startswith(_FLAT):  # which are lines already
                lines += [f"{name}:", *self.readable(table).to_string(index=False).split("\n")]
        return lines


@checked
def continual_run(
    pt: Any,
    cpt: Any = None,
    *,
    tokens: Amount,
    batch_tokens: Amount,
    weight: float,
    base: Schedule | str | None = None,
    over: Mapping[str, tuple[float, float]] | None = None,
    warmup_tokens: Amount | None = None,
    final: float | None = None,
    curves: Any = None,
    n_resamples: int = 100,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> ContinualRun:
    """The best replay, peak rate, length and decay of a continual run of so many tokens.

    From the loss curves of runs at several replay ratios, or from fits of them, to the settings
    with the least λ1·L_pt + λ2·L_cpt at the end (Wang 2025, §5.1), the trade-off over λ1, and how
    far each setting may move at no cost. The rate warms up, stays at its peak, and falls on a
    straight line.

    Args:
        pt: fit of the loss on the pre-training corpus; or the loss curves of runs with both losses
            (``loss_g`` and ``loss_d``, share ``r_g``), which are then fitted.
        cpt: fit of the loss on the new corpus; none with loss curves.
        tokens: most tokens that the run may have, replay included.
        batch_tokens: tokens of an update, by which tokens are steps.
        weight: weight λ1 of the loss on the pre-training corpus, in [0, 1]; λ2 is 1 − λ1.
        base: how the base was trained: a Schedule, a line such as
            ``wsd:peak=2e-4,steps=40000,final=2e-5``, or the name of one of the curves that has it.
            Left out: that of the curves, if all share one; laws of an unknown base need none.
        over: ranges to search, setting → (lowest, highest), of ``replay``, ``peak``, ``steps`` and
            ``decay``; equal ones hold a setting. Left out: what the curves had of replay and peak;
            of fits, replay in their range and peaks of a tenth of the base's to all of it; steps
            from a twentieth of the tokens on; decay from 0.05 on. Curves of one schedule show
            nothing of steps and decay, whose defaults are then those of that schedule.
        warmup_tokens: tokens of the warm-up to the peak; a hundredth of the tokens by default.
        final: last rate as a share of the peak; 0, or of curves of one schedule what it had.
        curves: loss curves of fits, for the trade-off's picture and for draws of the fits.
        n_resamples: number of resamples for intervals, by the wild bootstrap with runs as groups,
            where curves are given; 0 is none. Bootstraps in place of the fits bring their own.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        level: confidence level of the intervals.

    Returns:
        ContinualRun. ``flat`` has the range of each setting, the others held, in which the
        weighted loss rises by no more than a single run's noise, that is the residuals' of the
        fits.

    Raises:
        UsageError: curves without both losses, several bases or sizes, a range that is none, or
            fits that do not belong to such a run.
        DataError: the curves do not carry the laws.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> plan = jl.planning.continual_run(
        ...     pt, cpt, tokens="20B", batch_tokens="2M", weight=0.6,
        ...     base="wsd:peak=2e-4,steps=40000", over={"steps": (10_000, 10_000)},
        ... )
        >>> round(plan.replay, 2), plan.binding
        (0.67, 'peak rate at its highest (0.0002)')

    Shell:
        jaxlaw plan continual published:wang-2025-pt published:wang-2025-cpt --tokens 20e9
            --batch-tokens 2e6 --weight 0.6 --base wsd:peak=2e-4,steps=40000
    """
    total, batch = (
        checked_number(name, in_unit(value, 1.0, "tokens"))
        for name, value in (("tokens", tokens), ("batch_tokens", batch_tokens))
    )
    if total < 2 * batch:
        raise UsageError(
            f"tokens are {total:g}, which is less than two updates of {batch:g}",
            argument="tokens",
            value=tokens,
        )
    if warmup_tokens is None:
        warmup_tokens = batch * round(_WARMUP * total / batch)
    warmup = checked_number("warmup_tokens", in_unit(warmup_tokens, 1.0, "tokens"), "nonnegative")
    if warmup > total / 2:
        raise UsageError(
            f"warmup_tokens are {warmup:g}, more than half of the {total:g} tokens",
            argument="warmup_tokens",
            value=warmup_tokens,
        )
    if not 0 <= weight <= 1:
        raise UsageError(f"weight is {weight}; λ1 lies in [0, 1], and λ2 is 1 − λ1")
    seen, fits, known = _given(pt, cpt, curves, base, batch)
    draws = _draws_of(fits, seen, n_resamples)
    steps, over = float(total // batch), dict(over or {})
    limits, held = _limits(over, seen, draws[0], known, steps, warmup / batch)
    shape, last = _shape(seen, over, final)
    # What is searched needs some value here as well.
    first = {"steps": steps, "peak": limits.get("peak", (0.0, 1.0))[1]}
    run = ContinualPretraining(
        known, shape=shape, final=last, warmup=warmup / batch, **{**first, **held}
    )
    losses = _losses_of(draws, run, at, None)
    # At the weight and then along the trade-off, (1 + weights, 1 + R).
    _, found = _best_settings(losses, limits, [weight, *_WEIGHTS], known=SEARCHED)
    found |= {"tokens": found["steps"] * batch, "weighted": found["objective"]}
    found.setdefault("decay", np.full(found["steps"].shape, run.decay))
    if seen is not None and "r" not in draws[0].law.input_names:
        # Laws without a share are of the one that all runs had.
        found["replay"] = np.full(found["steps"].shape, seen.ends["replay"].iloc[0])
    values = {name: rows[0] for name, rows in found.items()}
    best = {name: float(values[name][0]) for name in SEARCHED}
    binding, edges = _binding(limits, best, steps)
    notes = [*edges, *losses.notes({name: np.array([value]) for name, value in best.items()})]
    notes += missing_draws_notes(values["objective"], "optimum")
    settings = {name: value for name, value in best.items() if name != "loss_potential"}
    ends = pd.DataFrame(columns=_RUNS, dtype=float) if seen is None else seen.ends
    table: dict[str, Any] = {"weight": _WEIGHTS}
    for name in _NUMBERS:
        if name not in ("weighted", "change_pt", "change_cpt"):  # another sum at each weight
            table |= interval_columns(name, found[name][1:].T, level, losses.degrees)
    return ContinualRun(
        **with_intervals({name: values[name] for name in _NUMBERS}, level, losses.degrees),
        weight=float(weight), batch_tokens=batch, searched=limits, binding=binding,
        flat=_flat(losses, limits, best, weight, batch),
        table=pd.DataFrame(table),
        runs=ends.assign(weighted=weight * ends["loss_pt"] + (1 - weight) * ends["loss_cpt"]),
        schedule=run.schedule(**settings), notes=tuple(dict.fromkeys(notes)),
        units=units_of(ContinualRun, draws[0]),
        beyond=math.nan if seen is None else max(best["steps"] / ends["steps"].max(), 1.0),
    )  # fmt: skip


def _given(
    pt: Any, cpt: Any, curves: Any, base: Any, batch: float
) -> tuple[_Seen | None, tuple[Any, Any], Schedule | None]:
    """The runs, as far as there are curves, both fits, and how the base was trained."""
    if isinstance(pt, LossCurves):
        if cpt is not None or curves is not None:
            raise UsageError("loss curves have both losses: give no cpt= and no curves= with them")
        seen = _seen(pt, batch)
        known = _known_base(base, seen, seen.known)  # before the fits, which take a while
        end = "" if seen.known else "-unknown-base"
        names = [f"cpt-curve-replay-{corpus}{end}" for corpus in _CORPUS_OF]
        if seen.shares < 2:
            names = [f"cpt-curve{end}"] * 2
        pt, cpt = (
            fit(name, seen.of(corpus)) for name, corpus in zip(names, _CORPUS_OF, strict=True)
        )
        return seen, (pt, cpt), known
    if cpt is None:
        raise UsageError("give fits of both losses, or loss curves that have both", argument="cpt")
    seen = None if curves is None else _seen(curves, batch)
    needed = "S1_pt" in as_draws(pt)[0].law.input_names
    return seen, (pt, cpt), _known_base(base, seen, needed)


# What the curves had.


class _Seen(NamedTuple):
    """The continual runs of loss curves."""

    curves: LossCurves
    ends: pd.DataFrame  # a row for each: columns _RUNS
    bases: dict[str, Schedule | None]  # run → its pre-training; None where nobody describes it
    shapes: int  # number of different schedules of the continual phase, peaks apart

    @property
    def known(self) -> bool:
        """Whether the pre-training is known."""
        return None not in self.bases.values()

    @property
    def shares(self) -> int:
        """Number of different shares of replay."""
        return self.ends["replay"].nunique()

    def of(self, corpus: str) -> LossCurves:
        """The curves of one of the losses, ``pt`` or ``cpt``."""
        return dataclasses.replace(
            self.curves, rows=self.curves.rows.for_corpus(_CORPUS_OF[corpus])
        )


def _seen(curves: Any, batch: float) -> _Seen:
    """The continual runs of loss curves, each at its last logged step.

    Raises:
        UsageError: these are no loss curves, or of several sizes.
        DataError: a loss is missing, or no run has a continual phase.
    """
    _check_curves(curves)
    table = curves.table
    done = optimizer_steps(table, curves.run_schedules)
    rows, bases, shapes = [], {}, set()
    for run, followed in curves.run_schedules.items():
        schedule, boundary = followed.schedule, followed.schedule.boundary
        if boundary is None and followed.phase == "pt":
            continue  # a base by itself
        own = schedule.rates[boundary or 0 :]
        last = int(np.flatnonzero(table["run"] == run)[-1])
        steps = float(done[last] - (boundary or 0))
        bases[run] = Schedule(schedule.rates[:boundary], schedule.initial_lr) if boundary else None
        shapes.add((own / own.max()).round(9).tobytes())
        cells, replay = table.iloc[last], 0.0
        for name in ("r_d", "r_g"):  # the share of the pre-training corpus, where a column has it
            if name in table:
                share = float(cells[name]) * curves.rows.units.get(name, 1.0)
                replay = share if name == "r_g" else 1 - share
        rows.append((run, replay, own.max(), steps, steps * batch,
                     float(cells["loss_g"]), float(cells["loss_d"])))  # fmt: skip
    if not rows:
        raise DataError(
            f"{curves.rows.source}: no run has a continual phase: give schedules of both phases, "
            "first+second, or a column phase that says cpt",
            file=curves.rows.source,
        )
    return _Seen(curves, pd.DataFrame(rows, columns=_RUNS), bases, len(shapes))


def _check_curves(curves: Any) -> None:
    """Refuse what has not both losses of one size."""
    if not isinstance(curves, LossCurves):
        raise UsageError(
            f"curves are what jl.read_loss_curves returns, not {type(curves).__name__}",
            argument="curves",
        )
    table, source = curves.table, curves.rows.source
    if not {"loss_g", "loss_d"} <= set(table):
        lacking = [name for name in ("loss_g", "loss_d", "r_g") if name not in table]
        raise DataError(
            f"{source}: a continual run balances the loss on the pre-training corpus (loss_g) and "
            f"on the new one (loss_d), and r_g is the share of the first; columns: {listed(table)}."
            f" Say which they are: columns={dict.fromkeys(lacking, '…')}",
            file=source,
            column=lacking[0],
        )
    if "N" in table and table["N"].nunique() > 1:
        raise UsageError(f"{source}: the curves are of several sizes N; choose one with where=")


def _known_base(base: Schedule | str | None, seen: _Seen | None, needed: bool) -> Schedule | None:
    """The pre-training that the run goes on from; None where nobody describes it."""
    if base is None and not needed:
        return None
    if isinstance(base, str) and ":" not in base and seen is not None:
        schedules = seen.curves.schedules
        if base not in schedules:
            raise UsageError(
                f"base: there is no run '{base}'; runs: {listed(schedules)}."
                f"{nearest(base, schedules)}",
                argument="base",
                value=base,
            )
        base = schedules[base]
    if base is None and seen is not None:
        several = {run: b.rates.tobytes() if b else b"" for run, b in seen.bases.items()}
        runs = list({rates: run for run, rates in reversed(several.items())}.values())
        if len(runs) > 1:
            raise UsageError(
                f"the curves have {len(runs)} bases; say which the run goes on from: "
                f"base='{runs[0]}', or another run that has it ({listed(runs)})",
                argument="base",
            )
        base = next(iter(seen.bases.values()))
    if base is None:
        raise UsageError(
            "say how the base was trained: base='wsd:peak=2e-4,steps=40000', or a Schedule",
            argument="base",
        )
    schedule = as_schedule(base, "base")
    return Schedule(schedule.rates[: schedule.boundary], schedule.initial_lr, None, schedule.name)


def _draws_of(fits: tuple[Any, Any], seen: _Seen | None, n_resamples: int) -> tuple[Draws, ...]:
    """Both fits with draws: their own, or by the wild bootstrap where their runs are known.

    The wild one leaves every run in: without a base, or the only run of a share, the laws would be
    open. One seed for both losses, so that row k of either is of the same resample.
    """
    if seen is None or not n_resamples:
        return as_draws(*fits)
    groups = "run" if len(seen.curves) > 1 else None
    return as_draws(
        *(
            bootstrap(each, seen.of(corpus), n_resamples, kind="wild", groups=groups)
            if isinstance(each, Fit)
            else each
            for corpus, each in zip(_CORPUS_OF, fits, strict=True)
        )
    )


# The search of a run.


def _limits(
    over: Mapping[str, tuple[float, float]], seen: _Seen | None, pt: Draws, base: Schedule | None,
    steps: float, warmup: float,
) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:  # fmt: skip
    """Setting → range that is searched, and the settings that are held."""
    known = (*_WORDS,)
    for name in over:
        if name not in known:
            raise UsageError(
                f"over: '{name}' is none of {', '.join(known)}.{nearest(name, known)}",
                argument="over",
                value=over,
            )
    # What the runs had; of fits alone, what is near their base.
    limits = {"steps": (max(_LEAST * steps, 2 * warmup, 1.0), steps), "decay": (_LEAST, 1.0)}
    if seen is not None:
        for name in ("replay", "peak"):
            limits[name] = (float(seen.ends[name].min()), float(seen.ends[name].max()))
        if seen.shapes == 1:  # nothing tells annealing from training
            own = _one_schedule(seen)
            falling = len(own) - 1 - np.flatnonzero(own >= 1 - 1e-9)[-1]
            decay = max(falling / max(len(own) - 1, 1), _LEAST)
            limits |= {"steps": (steps, steps), "decay": (decay, decay)}
    else:
        low, high = pt.ranges.get("r", (0.0, 1.0))
        limits["replay"] = (max(low, 0.0), min(high, 1.0)) if low < high else (0.0, 1.0)
        if base is not None:
            peak = float(base.rates.max())
            limits["peak"] = (0.1 * peak, peak)
    if "r" not in pt.law.input_names:
        limits["replay"] = (0.0, 0.0)
    limits |= {name: (float(low), float(high)) for name, (low, high) in over.items()}
    if limits["steps"][1] > steps * (1 + 1e-9):
        raise UsageError(
            f"over: steps of {limits['steps'][1]:,.0f} are more than the tokens make, {steps:,.0f}",
            argument="over",
            value=over,
        )
    if "peak" not in limits:
        raise UsageError("say which peaks to search: over={'peak': (1e-5, 1e-4)}", argument="over")
    held = {name: low for name, (low, high) in limits.items() if low == high}
    return {name: limits[name] for name in SEARCHED if name in set(limits) - set(held)}, held


def _one_schedule(seen: _Seen) -> np.ndarray:
    """The rates of the first run after its warm-up, over their peak."""
    schedule = seen.curves.schedules[next(iter(seen.bases))]
    own = schedule.rates[schedule.boundary or 0 :]
    highest = int(np.flatnonzero(own >= own.max() * (1 - 1e-9))[0])
    return own[highest:] / own.max()


def _shape(seen: _Seen | None, over: Mapping[str, Any], final: float | None) -> tuple[Shape, float]:
    """The shape of a run's rates, and its last one over the peak.

    ``cosine`` where all runs had one; else ``wsd``, which is a straight line at a decay of 1.
    """
    if seen is None or seen.shapes > 1:
        return "wsd", final or 0.0
    own = _one_schedule(seen)
    final = float(own[-1]) if final is None else final
    line = np.append(1.0, cosine(1.0, max(len(own) - 1, 1), own[-1]).rates)[: len(own)]
    as_cosine = "decay" not in over and np.abs(own - line).max() < _SAME_RATE
    return "cosine" if as_cosine else "wsd", final


def _binding(
    limits: Mapping[str, tuple[float, float]], best: Mapping[str, float], steps: float
) -> tuple[str, list[Note]]:
    """What binds, in words, and notes on optima that are only a bound of the best."""
    active, notes = [], []
    for name, (low, high) in limits.items():
        share = (best[name] - low) / (high - low)
        if _AT_EDGE < share < 1 - _AT_EDGE:
            continue
        side = "lowest" if share < 0.5 else "highest"
        if name == "steps" and side == "highest" and high >= steps * (1 - 1e-9):
            active.append("the tokens")
            continue
        active.append(f"{_WORDS[name]} at its {side} ({best[name]:.3g})")
        natural = {"replay": (0.0, 1.0), "decay": (0.0, 1.0)}.get(name, ())
        if limits[name][share >= 0.5] not in natural:
            bound = "an upper" if side == "lowest" else "a lower"
            message = (
                f"{name} is at the {side} that was searched, {best[name]:.3g}: this is {bound} "
                f"bound of the best {_WORDS[name]}, not the best"
            )
            notes.append(Note("optimum-at-limit", "warning", message))
    return " and ".join(active) or "nothing: the optimum is inside its ranges", notes


def _flat(
    losses: Any, limits: Mapping[str, tuple[float, float]], best: Mapping[str, float],
    weight: float, batch: float,
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """Setting → range in which the weighted loss, the others held, rises by no more than noise."""
    fits = [source.fit for source in losses.sources]
    known = [each.metrics for each in fits if isinstance(each, Fit)]
    noise = max((metrics.get("rmse_log", 0.0) for metrics in known), default=0.0)
    flat = {}
    for name, (low, high) in limits.items() if noise else ():
        spread = np.geomspace if name in ("peak", "steps") else np.linspace
        line = np.unique([*spread(low, high, _LINE), best[name]])
        at = {key: np.full(len(line), value) for key, value in best.items()} | {name: line}
        pt, cpt = losses.evaluate(at)[:, 1, 0]
        first, last = as_good(
            weight * pt + (1 - weight) * cpt, int(np.searchsorted(line, best[name])), noise
        )
        flat[name] = (float(line[first]), float(line[last]))
    if "steps" in flat:
        low, high = flat.pop("steps")
        flat["tokens"] = (low * batch, high * batch)
    return flat


_LONGEST = 1e12  # steps; what takes longer is never
_LENGTHS = 512  # numbers of steps among which the sign of the change is looked for
_SAME = 1e-12  # nats
_VISIBLE = 1e-4  # nats that a validation loss shows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TurningLength(Pictured, OldAnswer):
    """When a loss that a continual run lifts is back where it was.

    Attributes:
        steps: fewest steps after which it is; infinite: never; 0: it is never lifted.
        weight: λ1 of the loss, λ1·L_pt + λ2·L_cpt.
        start: loss before the run, in nats.
        limit: loss at the end of an endless run.
        rise: nats by which the loss is lifted at most.
        highest_at: steps after which it is (about 5 %); infinite where it rises for ever.
        critical_point: limit of the loss without annealing on the new mixture.
        critical_S1: S1 of pre-training from which on the loss without annealing, lower than the
            critical point by then, cannot come back; infinite: it always can; NaN: the base is
            not known.

    Example:
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> jl.planning.turning_length(jl.published()["wang-2025-pt"], run).pattern
        'rise and return'
    """

    steps: float = field(metadata={"unit": "steps"})
    weight: float = field(metadata={"unit": ""})
    start: float = field(metadata={"unit": TARGET})
    limit: float = field(metadata={"unit": TARGET})
    rise: float = field(metadata={"unit": TARGET})
    highest_at: float = field(metadata={"unit": "steps"})
    critical_point: float = field(metadata={"unit": TARGET})
    critical_S1: float = field(metadata={"unit": ""})

    def sentence(self) -> str:
        """After how many steps the loss is back, or why never."""
        of = "the loss" if self.weight == 1 else f"the loss of weight {self.weight:g}"
        if self.steps == 0:
            return f"{of} never rises above its start, {self.written('start')}"
        rise = f"it rises by up to {self.written('rise')}"
        if self.never:
            return f"{of} never comes back to its start, {self.written('start')}; {rise}"
        steps = self.written("steps", level=True)
        return f"{of} is back at its start, {self.written('start')}, after {steps}; {rise}"

    @property
    def pattern(self) -> str:
        """Which of Wang's three patterns (§4.4) the loss follows over ever longer runs.

        ``rise``: it rises and stays there; ``rise and partial fall``: after ``highest_at`` steps,
        which may be out of reach, it falls again by 1e-4 nats or more, and never back to its
        start; ``rise and return``: it goes below its start, from ``steps`` on. Beyond the paper
        ``no rise``: it is never lifted.
        """
        if self.steps == 0:
            return "no rise"
        if not self.never:
            return "rise and return"
        fallen = self.rise - (self.limit - self.start)
        return "rise and partial fall" if fallen >= _VISIBLE else "rise"

    def lines(self) -> list[str]:
        """The pattern, then numbers with their intervals and what binds."""
        return [f"{'pattern':<12} {self.pattern}", *super().lines()]

    @property
    def never(self) -> bool:
        """Whether no number of steps brings the loss back."""
        return math.isinf(self.steps)

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """Of one loss its way over the steps; of two, all weights, with this one marked."""
        if question.get("cpt") is None:
            own = without(question, "pt", "run", "cpt", "weight")
            return "recovery", (question["pt"], question["run"]), {"plan": self, **own}
        lengths = turning_lengths(**without(question, "weight"), level=self.level)
        return "turning_lengths", (lengths,), {"mark": self}


@keeps_question
@checked
def turning_length(
    pt: Any,
    run: ContinualPretraining,
    *,
    cpt: Any = None,
    weight: float = 1.0,
    at: Mapping[str, float | str] | None = None,
    area_options: Mapping[str, Any] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> TurningLength:
    """The fewest steps after which the loss is back at its start, and whether it ever is.

    Each number of steps is a run of its own, its rate annealed as the run says; with
    ``shape="constant"`` they are the points of one curve (Wang 2025, figure 7 c). With ``cpt``
    and a weight the loss is λ1·L_pt + λ2·L_cpt (figure 13).

    Args:
        pt: fit of the loss on the pre-training corpus.
        run: continual run; its steps do not matter.
        cpt: fit of the loss on the new corpus, for a weight below 1.
        weight: weight λ1 of the first loss, in [0, 1]; λ2 is 1 − λ1.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        area_options: options by which areas are counted, for fits that do not know them.
        level: confidence level of the intervals.

    Returns:
        TurningLength.

    Raises:
        UsageError: a weight below 1 without ``cpt``, or fits that do not belong to the run.

    Example:
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> jl.planning.turning_length(jl.published()["wang-2025-pt"], run).steps
        8730.0
    """
    if not 0 <= weight <= 1:
        raise UsageError(f"λ1 is {weight}; it lies in [0, 1], and λ2 is 1 − λ1")
    if weight < 1 and cpt is None:
        raise UsageError("a weight below 1 balances two losses: give cpt= and weight= together")
    fits = (pt,) if cpt is None else (pt, cpt)
    losses = _losses_of(fits, run, at, area_options)
    weights = np.array([weight, 1 - weight])[: len(fits)]
    times = np.geomspace(run.warmup + 1, _LONGEST, _LENGTHS)
    fixed = {name: run.settings[name] for name in SETTINGS if name != "steps"}
    with in_float64():
        answers = _turning(*losses.arguments, fixed, weights, times)
        values = {name: np.asarray(answer, float) for name, answer in answers.items()}
    short = values.pop("short")[0]
    values["steps"] = np.ceil(values["steps"] - 1e-6) + 0.0  # of −0.0 it makes 0.0
    steps = values["steps"][0]
    at = {name: np.array([value]) for name, value in fixed.items()}
    at["steps"] = np.array([min(max(steps, run.warmup + 1), _LONGEST)])
    return TurningLength(
        **with_intervals(values, level, losses.degrees), weight=float(weight),
        notes=(*_turning_notes(values, short), *losses.notes(at)),
        binding="never" if math.isinf(steps) else "none: the loss comes back",
        **losses.context(TurningLength),
    )  # fmt: skip


class TurningLengths(AnswerTable):
    """Turning lengths over λ1.

    ``table`` has a row for each ``weight`` (λ1): ``steps`` (infinite: never; 0: it is never
    lifted), ``pattern`` (see :attr:`TurningLength.pattern`), ``start``, ``limit`` and ``rise`` of
    λ1·L_pt + λ2·L_cpt in nats.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> run = jl.planning.ContinualPretraining(jl.planning.Pretraining(40_000, 2e-4), 1, 2e-4)
        >>> jl.planning.turning_lengths(pt, cpt, run, (0.2, 0.9)).table["pattern"].tolist()
        ['no rise', 'rise and partial fall']
    """

    picture = "turning_lengths"
    column_units: ClassVar[Mapping[str, str]] = {
        "weight": "", "steps": "steps", "start": TARGET, "limit": TARGET, "rise": TARGET,
    }  # fmt: skip

    def sentence(self) -> str:
        """From which weight on the loss never comes back."""
        rows = self.table.sort_values("weight")
        never = rows.loc[np.isinf(rows["steps"]), "weight"]
        back = rows.loc[rows["steps"].between(0, 1e300, inclusive="right")]
        parts = []
        if len(back):
            last = back.iloc[-1]
            steps = written(last["steps"], "steps")
            parts = [f"at weight {last['weight']:g} the loss is back after {steps}"]
        parts += [f"from weight {never.min():g} on it never comes back"] if len(never) else []
        return ", ".join(parts) or "the loss never rises above its start, at any of these weights"


@checked
def turning_lengths(
    pt: Any,
    cpt: Any,
    run: ContinualPretraining,
    weights: Sequence[float] = tuple(np.linspace(0, 1, 21)),
    *,
    at: Mapping[str, float | str] | None = None,
    area_options: Mapping[str, Any] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> TurningLengths:
    """The turning length of λ1·L_pt + λ2·L_cpt over λ1 (Wang 2025, figure 13).

    Where λ1 is small the loss on the new corpus carries the sum, which is never lifted; in the
    middle it is back after a number of steps; where λ1 is large, never.

    Args:
        pt: fit of the loss on the pre-training corpus.
        cpt: fit of the loss on the new corpus.
        run: continual run; its steps do not matter.
        weights: weights λ1 of the first loss, in [0, 1].
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        area_options: options by which areas are counted, for fits that do not know them.
        level: confidence level of the intervals.

    Returns:
        TurningLengths, a row for each weight.

    Raises:
        UsageError: as :func:`turning_length`, or no weight.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> base = jl.planning.Pretraining(steps=5_000, peak=2e-4)
        >>> run = jl.planning.ContinualPretraining(base, 1, 2e-4, 1.0, replay=0.5, shape="constant")
        >>> jl.planning.turning_lengths(pt, cpt, run, (0.5, 0.9, 1)).table["steps"].tolist()
        [0.0, 4002.0, 8730.0]
    """
    if not len(weights):
        raise UsageError("weights= is empty: give one λ1 or more", argument="weights")
    options = {"at": at, "area_options": area_options, "level": level}
    plans = [turning_length(pt, run, cpt=cpt, weight=weight, **options) for weight in weights]
    rows = []
    for plan in plans:
        row: dict[str, Any] = {"weight": plan.weight}
        for name in ("steps", "start", "limit", "rise"):
            row[name] = getattr(plan, name)
            if name in plan.interval:
                row[f"{name}_low"], row[f"{name}_high"] = plan.interval[name]
        rows.append(row | {"pattern": plan.pattern})
    # Which of the weights have no way back the table says; the rest are notes on the laws.
    own = ("never-lifted", "never", "short-runs-below", "draws-never")
    notes = dict.fromkeys(note for plan in plans for note in plan.notes if note.code not in own)
    units = units_of(TurningLengths, as_draws(pt)[0])
    return TurningLengths(pd.DataFrame(rows), level, tuple(notes), units, beyond=plans[0].beyond)


def _turning_notes(values: Mapping[str, np.ndarray], short: float) -> list[Note]:
    steps, notes = values["steps"], []
    limit, start = values["limit"][0], values["start"][0]
    if steps[0] == 0:
        notes.append(Note("never-lifted", "info", "a run of any length ends below the start"))
    elif np.isinf(steps[0]) and limit > start:
        message = f"never: after endless steps the loss is {limit - start:.4g} nats above its start"
        notes.append(Note("never", "warning", message))
    elif np.isinf(steps[0]):
        message = f"not within {_LONGEST:.0e} steps, though the law ends below the start"
        notes.append(Note("never", "warning", message))
    if short > 0 and steps[0] > 0:
        message = f"runs of up to {short:.4g} steps end below the start as well: they anneal"
        notes.append(Note("short-runs-below", "info", message))
    if len(steps) > 1:
        share = np.isinf(steps[1:]).mean()
        if 0 < share < 1 or (share == 1) != np.isinf(steps[0]):
            message = f"{share:.1%} of the draws never come back"
            notes.append(Note("draws-never", "warning", message))
    return notes


@compiled(static_argnames=("laws", "layout"))
def _turning(
    laws: Any, layout: Any, params: Any, numbers: Any, inputs: Any, fixed: Any, weights: Any,
    times: Any,
) -> Any:  # fmt: skip
    """Each number of a TurningLength, (1 + R,); ``short`` is the longest run that is not lifted."""

    def lane(params: Any) -> Any:
        def start_and_end(steps: Any) -> Any:
            at = {**fixed, "steps": steps}
            both = _start_and_end(laws, layout, params, numbers, inputs, at)
            return jnp.tensordot(weights, both, 1)

        def change(steps: Any) -> Any:
            start, end = start_and_end(steps)
            return end - start

        changes = change(times)
        lifted = changes > _SAME
        first = jnp.argmax(lifted)
        back = (jnp.arange(len(times)) > first) & ~lifted
        k = jnp.argmax(back)
        log = jnp.log(times)
        crossing = root(lambda x: _SAME - change(jnp.exp(x)), log[jnp.maximum(k - 1, 0)], log[k])
        steps = jnp.where(back.any(), jnp.exp(crossing), jnp.inf)
        start, limit = start_and_end(jnp.inf)
        highest = jnp.argmax(changes)
        return {
            "steps": jnp.where(lifted.any(), steps, 0.0),
            "start": start,
            "limit": limit,
            "rise": jnp.maximum(changes.max(), 0.0),
            "highest_at": jnp.where(highest < len(times) - 1, times[highest], jnp.inf),
            "short": jnp.where(lifted[0], 0.0, times[jnp.maximum(first - 1, 0)]),
            **_critical(laws, layout, params, numbers, inputs, fixed, weights),
        }

    return jax.lax.map(lane, params, batch_size=64)


def _critical(
    laws: Any, layout: Any, params: Any, numbers: Any, inputs: Any, fixed: Any, weights: Any
) -> dict[str, Any]:
    """Where the loss without annealing goes, and how much pre-training already ends there."""
    shares = (fixed["replay"], 1 - fixed["replay"])

    def unannealed(S1_pt: Any, S1_cpt: Any) -> Any:
        areas = PhaseAreas(S1_pt, S1_cpt, 0.0, 0.0)
        each = zip(weights, laws, params, shares, inputs, strict=False)
        return sum(weight * _loss(law, p, areas, share, x) for weight, law, p, share, x in each)

    S1_pt = final_areas(layout, numbers, {**fixed, "steps": numbers["warmup"] + 1.0}).S1_pt
    point = unannealed(S1_pt, jnp.inf)
    if layout.pretraining is None:
        return {"critical_point": point, "critical_S1": jnp.nan * point}
    # In log S1: without annealing the loss of a base falls with S1.
    crossing = root_or_infinity(
        lambda x: point - unannealed(jnp.exp(x), 0.0), math.log(1e-9), math.log(1e15)
    )
    return {"critical_point": point, "critical_S1": jnp.exp(crossing)}
