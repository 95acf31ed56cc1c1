"""Losses at the end of a continual run, and the settings that balance two of them (Wang 2025, §5).

Plans take the fits of the loss on the pre-training corpus (``pt``) and on the new one (``cpt``),
each a Fit, (law, params) or a bootstrap; row k of two bootstraps belongs together.
"""

from __future__ import annotations

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
from jaxlaw._quantities import SHARE, written
from jaxlaw._result import TARGET, Result
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import AREAS
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    AnswerTable,
    Inputs,
    Pictured,
    context_of,
    fewest_degrees,
    keeps_question,
    law_inputs,
    missing_draws_notes,
    source_notes,
    without,
)
from jaxlaw.planning._continual_pretraining import (
    SETTINGS,
    ContinualPretraining,
    Layout,
    Pretraining,
    compiled_areas,
    counted_as,
    final_areas,
    layout_of,
)
from jaxlaw.planning._solve import minimise_in_box
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns, with_intervals

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


def losses_of(
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
        _check_law(source.law, run)
    taken = set().union(*(source.law.input_names for source in each)) - {*AREAS, "r"}
    for name in inputs:
        if name not in taken:
            names = " and ".join(source.law.name for source in each)
            raise UsageError(f"{names} take no input '{name}' here; shares are the run's replay")
    free = (*AREAS, "r")
    others = tuple(law_inputs(source, source.inputs_taken(inputs), free) for source in each)
    layout, numbers = layout_of(run, counted_as(*fits, **(area_options or {})))
    return _Losses(each, run, layout, numbers, tuple(source.values for source in each), others)


def _check_law(law: Law, run: ContinualPretraining) -> None:
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
            f"law {law.name} is of an unknown base, whose last rate is taken as 0: give the run "
            "pretraining=None"
        )
    if run.replay and "r" not in law.input_names:
        raise UsageError(
            f"law {law.name} knows no replay ratio, so the run cannot have one; fit "
            "cpt-curve-replay-pt and -cpt"
        )


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
    losses = losses_of((pt, cpt), run, at, area_options)
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
class OptimalTraining(Pictured, Answer):
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
    losses = losses_of((pt, cpt), run, at, area_options)
    names, values = best_settings(losses, over, [weight], minimise)
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
        weight=float(weight), binding=binding_of(names, over, best), notes=tuple(notes),
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
    losses = losses_of((pt, cpt), run, at, area_options)
    names, values = best_settings(losses, over, weights, minimise)
    table: dict[str, Any] = {"weight": np.asarray(weights, float)}
    for name in (*names, *_LOSSES, "objective"):
        table |= interval_columns(name, values[name].T, level, losses.degrees)
    at = {name: values[name][:, 0] for name in SETTINGS}
    rows = pd.DataFrame(at).to_dict("records")
    table["binding"] = [binding_of(names, over, best) for best in rows]
    return TradeoffCurve(
        pd.DataFrame(table), level, tuple(losses.notes(at)), **losses.context(TradeoffCurve)
    )


def best_settings(
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

        return minimise_in_box(objective, grid)

    return jax.lax.map(lane, (params, weights), batch_size=64)


def binding_of(
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
