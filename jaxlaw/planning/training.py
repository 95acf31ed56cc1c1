"""The training of a continual run: losses at its end, the way back, the best settings.

Wang 2025, §4 and §5. A plan takes the fits of the loss on the pre-training corpus (pt) and on the
new one (cpt), each a Fit, (law, params) or a bootstrap; replicates of the two belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import SEARCHED, compiled, in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.planning._answers import (
    LEVEL,
    Answer,
    AnswerTable,
    measured,
    on_replicates,
    with_ends,
)
from jaxlaw.planning._solve import minimise_in_box
from jaxlaw.planning.continual_run import SETTINGS, ContinualRun
from jaxlaw.planning.two_losses import (
    CORPORA,
    Question,
    check_varied,
    checked_setting,
    ends_of_losses,
    evaluated,
    on_settings,
    question_of,
)

Minimise = Literal["losses", "changes"]
WHAT = {"losses": 0.0, "changes": 1.0}  # how many times the start is taken off the end
AT_END = 1e-6  # of a range, in its own scale
_LOGARITHMIC = ("peak", "steps")
_POINTS = {1: 257, 2: 33, 3: 13, 4: 8}  # a side of the grid


class FinalLosses(AnswerTable):
    """Losses at the end of continual runs.

    ``table`` has a row each: ``loss_potential``, ``peak``, ``replay``, ``steps``; ``loss_pt``,
    ``loss_cpt`` at the end, ``change_pt``, ``change_cpt`` since the start.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class OptimalTraining(Answer):
    """The settings with the least λ1·L_pt + λ2·L_cpt at the end, or λ1·ΔL_pt + λ2·ΔL_cpt.

    Attributes:
        weight: λ1; λ2 is 1 − λ1.
        loss_potential, peak, replay, steps: the best settings, and those held; the peak is NaN
            without a re-warm-up.
        loss_pt, loss_cpt: at the end; change_pt, change_cpt: since the start.
        objective: λ1·loss_pt + λ2·loss_cpt; of ``minimise="changes"`` the same of the changes.
        schedule: the rates of the best run.
        minimise: ``losses`` or ``changes``, as it was asked.
    """

    weight: float
    loss_potential: float
    peak: float
    replay: float
    steps: float
    loss_pt: float
    loss_cpt: float
    change_pt: float
    change_cpt: float
    objective: float
    schedule: Any = None
    minimise: str = "losses"


class BalanceCurve(AnswerTable):
    """The best settings over λ1.

    ``table`` has a row for each ``weight`` (λ1), with the numbers of :class:`OptimalTraining`
    and ``binding``.
    """


@checked
def final_losses(
    pt: Any,
    cpt: Any,
    run: ContinualRun,
    *,
    inputs: Mapping[str, float] | None = None,
    areas: Mapping[str, Any] | None = None,
    level: ConfidenceLevel = LEVEL,
    **settings: Any,
) -> FinalLosses:
    """Losses at the end over loss potential, peak rate, replay ratio or steps.

    Wang 2025, figures 5 (with and without a re-warm-up) and 7. The loss at the end of a run of T
    steps, its rate annealed as the run says, is a point for each T.

    Args:
        pt, cpt: the fits.
        run: what is held.
        inputs: what the laws take beside areas and r, in units of the fitted runs.
        areas: how they are counted, for fits that do not know, as :meth:`jaxlaw.LossCurves.runs`.
        level: of the intervals.
        **settings: ``loss_potential``, ``peak``, ``replay``, ``steps``: a number or several; all
            combinations. Left out: the run's.

    Raises:
        UsageError: a setting the run or a law has no place for, or fits that do not belong to
            such a run.
    """
    question = question_of((pt, cpt), run, inputs or {}, areas)
    check_varied(question, tuple(settings))
    axes = {name: np.atleast_1d(checked_setting(name, v, run)) for name, v in settings.items()}
    axes = {name: axes.get(name, np.array([run.settings[name]])) for name in SETTINGS}
    mesh = np.meshgrid(*axes.values(), indexing="ij")
    at = {name: one.ravel() for name, one in zip(axes, mesh, strict=True)}
    table = dict(at)
    for name, values in _named(evaluated(question, at)).items():
        table |= with_ends(name, values, level)
    return FinalLosses(pd.DataFrame(table), level, tuple(on_settings(question, at)))


def _named(both: np.ndarray) -> dict[str, np.ndarray]:
    """Names for (losses, 2, …) starts and ends."""
    named = {f"loss_{corpus}": one[1] for corpus, one in zip(CORPORA, both, strict=True)}
    changes = {f"change_{c}": one[1] - one[0] for c, one in zip(CORPORA, both, strict=True)}
    return named | changes


@checked
def optimal_training(
    pt: Any,
    cpt: Any,
    run: ContinualRun,
    weight: float,
    over: Mapping[str, tuple[float, float]],
    *,
    inputs: Mapping[str, float] | None = None,
    areas: Mapping[str, Any] | None = None,
    minimise: Minimise = "losses",
    level: ConfidenceLevel = LEVEL,
) -> OptimalTraining:
    """The settings that balance both losses best (Wang 2025, eq. 5 and figure 8).

    The least λ1·L_pt + λ2·L_cpt at the end. For a given base this is that of the changes ΔL,
    which differ from the losses by constants. Bases of other loss potentials start from other
    losses: their changes would reward a base for being left unannealed, their losses do not.
    Equation 5 prints the changes, §5.1 speaks of the losses: ``minimise`` chooses.

    Args:
        pt, cpt, run, inputs, areas, level: as for :func:`final_losses`.
        weight: λ1, in [0, 1]; λ2 is 1 − λ1.
        over: setting → (lowest, highest), of any of ``loss_potential``, ``peak``, ``replay`` and
            ``steps``; others are held. Peak and steps are searched in logarithms.
        minimise: ``losses``, or as eq. 5 is printed ``changes``: λ1·ΔL_pt + λ2·ΔL_cpt, each ΔL the
            loss at the end less that at the start of the run. (The text calls ΔL_cpt a decrease;
            only where a decrease counts as negative does its least make sense.)

    Returns:
        OptimalTraining; the steps are whole. A batched grid over the ranges is refined by Newton
        steps from its best points, for all replicates in one program.

    Raises:
        UsageError: as :func:`final_losses`; a weight outside [0, 1] or a range that is none.

    Example:
        ``optimal_training(pt, cpt, run, 0.3, {"loss_potential": (0, 1)}, minimise="changes")``.
    """
    question, names, ends = _posed(pt, cpt, run, over, inputs, areas)
    found = _solved(question, names, ends, _weights([weight]), minimise)
    binding = _binding(names, ends, found, 0)
    values = {name: found[name][0] for name in (*SETTINGS, *_LOSSES, "objective")}
    at = {name: values[name][:1] for name in SETTINGS}
    notes = [*on_settings(question, at), *on_replicates(values["objective"], "optimum")]
    best = {name: float(values[name][0]) for name in SETTINGS}
    varied = best if run.peak is not None else best | {"peak": None}
    if not hasattr(run.pretraining, "shape"):
        varied = {name: value for name, value in varied.items() if name != "loss_potential"}
    return OptimalTraining(
        **measured(values, level), weight=float(weight), binding=binding, notes=tuple(notes),
        schedule=run.schedule(**varied), minimise=minimise,
    )  # fmt: skip


@checked
def balance_curve(
    pt: Any,
    cpt: Any,
    run: ContinualRun,
    over: Mapping[str, tuple[float, float]],
    weights: Sequence[float] = tuple(np.linspace(0, 1, 21)),
    *,
    inputs: Mapping[str, float] | None = None,
    areas: Mapping[str, Any] | None = None,
    minimise: Minimise = "losses",
    level: ConfidenceLevel = LEVEL,
) -> BalanceCurve:
    """The best settings over λ1 (Wang 2025, figure 8), all in one program.

    Args and errors as :func:`optimal_training`, with ``weights`` the values of λ1.
    """
    question, names, ends = _posed(pt, cpt, run, over, inputs, areas)
    weights = _weights(weights)
    found = _solved(question, names, ends, weights, minimise)
    table = {"weight": weights}
    for name in (*names, *_LOSSES, "objective"):
        table |= with_ends(name, found[name].T, level)
    table["binding"] = [_binding(names, ends, found, k) for k in range(len(weights))]
    at = {name: found[name][:, 0] for name in SETTINGS}
    return BalanceCurve(pd.DataFrame(table), level, tuple(on_settings(question, at)))


_LOSSES = tuple(f"{what}_{corpus}" for what in ("loss", "change") for corpus in CORPORA)


def _posed(
    pt: Any, cpt: Any, run: ContinualRun, over: Mapping[str, tuple[float, float]],
    inputs: Mapping[str, float] | None, areas: Mapping[str, Any] | None,
) -> tuple[Question, tuple[str, ...], np.ndarray]:  # fmt: skip
    """The question, what is searched and its ranges, (settings, 2)."""
    question = question_of((pt, cpt), run, inputs or {}, areas)
    names = tuple(name for name in SETTINGS if name in over)
    check_varied(question, tuple(over))
    if not names:
        raise UsageError(f"over= needs a range of one or more of {', '.join(SETTINGS)}")
    for name in names:
        ends = checked_setting(name, over[name], run)
        if ends.shape != (2,) or not ends[0] < ends[1]:
            raise UsageError(f"over={{'{name}': …}} takes (lowest, highest), not {over[name]}")
    return question, names, np.array([over[name] for name in names], float)


def _weights(weights: Sequence[float]) -> np.ndarray:
    values = np.asarray(weights, float)
    if values.ndim != 1 or not len(values) or not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"λ1 is {weights}; it lies in [0, 1], and λ2 is 1 − λ1")
    return values


def _binding(
    names: tuple[str, ...], ends: np.ndarray, found: Mapping[str, np.ndarray], row: int
) -> str:
    """Ranges at whose end the optimum lies."""
    said = []
    for name, (low, high) in zip(names, ends, strict=True):
        value, log = found[name][row, 0], name in _LOGARITHMIC
        scale = np.log if log else np.asarray
        place = (scale(value) - scale(low)) / (scale(high) - scale(low))
        if place < AT_END or place > 1 - AT_END:
            said.append(f"{name} at its {'lowest' if place < 0.5 else 'highest'} ({value:g})")
    return "; ".join(said) or "none: the optimum is inside its ranges"


def _solved(
    question: Question, names: tuple[str, ...], ends: np.ndarray, weights: np.ndarray,
    minimise: str,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Settings, losses and objective at the optima, each (weights, 1 + R)."""
    if minimise not in WHAT:
        raise UsageError(f"minimise is 'losses' or 'changes', not '{minimise}'")
    fixed = {name: v for name, v in question.run.settings.items() if name not in names}
    side = np.linspace(0, 1, _POINTS[len(names)])
    grid = np.stack([g.ravel() for g in np.meshgrid(*[side] * len(names), indexing="ij")], -1)
    size = question.sources[0].rows
    log = np.array([name in _LOGARITHMIC for name in names])
    lanes = jax.tree.map(lambda one: np.tile(one, len(weights)), question.params)
    with in_float64():
        places = _optima(
            question.laws, question.layout, names, lanes, np.repeat(weights, size),
            question.numbers, question.inputs, fixed, (ends, log), grid, WHAT[minimise],
        )  # fmt: skip
        at = {k: np.array(v) for k, v in _settings(names, places, fixed, (ends, log)).items()}
    at["steps"] = np.clip(np.rint(at["steps"]), 1, None)
    at = {name: np.broadcast_to(v, (len(weights) * size,)) for name, v in at.items()}
    at = {name: v.reshape(len(weights), size) for name, v in at.items()}
    both = evaluated(question, {name: v.T for name, v in at.items()})  # (2, 2, 1 + R, weights)
    named = {name: v.T for name, v in _named(both).items()}
    pt, cpt = (named[f"{'change' if WHAT[minimise] else 'loss'}_{one}"] for one in CORPORA)
    composite = weights[:, None] * pt + (1 - weights[:, None]) * cpt
    return at | named | {"objective": composite}


def _settings(names: tuple[str, ...], places: Any, fixed: Mapping[str, Any], scale: Any) -> Any:
    """Settings from places in the unit box, (…, settings)."""
    ends, log = scale
    at = dict(fixed)
    for k, name in enumerate(names):
        low, high = ends[k, 0], ends[k, 1]
        safe = jnp.where(log[k], low, 1.0)
        rising = safe * (jnp.where(log[k], high, 1.0) / safe) ** places[..., k]
        at[name] = jnp.where(log[k], rising, low + (high - low) * places[..., k])
    return at


@compiled(little=8 * SEARCHED, static_argnames=("laws", "layout", "names"))
def _optima(
    laws: Any, layout: Any, names: tuple[str, ...], params: Any, weights: Any, numbers: Any,
    inputs: Any, fixed: Any, scale: Any, grid: Any, starts: Any,
) -> Any:  # fmt: skip
    """Places of the optima in the unit box, (lanes, settings); ``starts`` times are taken off."""

    def lane(mine: Any) -> Any:
        params, weight = mine

        def objective(places: Any) -> Any:
            at = _settings(names, places, fixed, scale)
            both = ends_of_losses(laws, layout, params, numbers, inputs, at)
            pt, cpt = both[:, 1] - starts * both[:, 0]
            return weight * pt + (1 - weight) * cpt

        return minimise_in_box(objective, grid)

    return jax.lax.map(lane, (params, weights), batch_size=64)
