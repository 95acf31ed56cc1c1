"""The turning length: steps after which the loss on the old corpus is back (Wang 2025, §4.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._areas import PhaseAreas
from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import written
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    AnswerTable,
    Pictured,
    keeps_question,
    units_of,
    without,
)
from jaxlaw.planning._continual import _loss, _start_and_end, losses_of
from jaxlaw.planning._continual_pretraining import (
    SETTINGS,
    ContinualPretraining,
    final_areas,
)
from jaxlaw.planning._solve import root, root_or_infinity
from jaxlaw.uncertainty import LEVEL, as_draws, with_intervals

_LONGEST = 1e12  # steps; what takes longer is never


_LENGTHS = 512  # numbers of steps among which the sign of the change is looked for


_SAME = 1e-12  # nats


_VISIBLE = 1e-4  # nats that a validation loss shows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TurningLength(Pictured, Answer):
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
    losses = losses_of(fits, run, at, area_options)
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
