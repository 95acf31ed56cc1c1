"""The way back of a continual run: turning length and critical point (Wang 2025, §4.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._areas import PhaseAreas
from jaxlaw._jit import SEARCHED, compiled, in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.notes import Note
from jaxlaw.planning._answers import LEVEL, Answer, measured
from jaxlaw.planning.continual_run import SETTINGS, ContinualRun, phase_ends
from jaxlaw.planning.two_losses import (
    ends_of_losses,
    loss_at,
    on_settings,
    question_of,
)

LONGEST = 1e12  # steps; what takes longer is never
_POINTS = 512
_HALVINGS = 60
_SAME = 1e-12  # nats
_SEEN = 1e-4  # nats that a validation loss shows


@dataclass(frozen=True, eq=False, kw_only=True)
class TurningLength(Answer):
    """When a loss that a continual run lifts is back where it was.

    Attributes:
        steps: the fewest after which it is; infinite: never; 0: it is never lifted.
        weight: λ1 of the loss asked about, λ1·L_pt + λ2·L_cpt.
        start: the loss before the run.
        limit: the loss at the end of an endless run.
        rise: by how much the loss is lifted at most.
        highest_at: steps after which it is (about 5 %); infinite where it rises for ever.
        critical_point: what the loss without annealing tends to on the new mixture.
        critical_S1: S1 of pre-training from which on the loss without annealing, lower than the
            critical point by then, cannot come back; infinite: it always can; NaN: the base is
            not known.
    """

    steps: float
    weight: float
    start: float
    limit: float
    rise: float
    highest_at: float
    critical_point: float
    critical_S1: float

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
        return "rise and partial fall" if fallen >= _SEEN else "rise"

    def summary(self) -> str:
        """Numbers, intervals, the pattern, what binds and the notes, for people."""
        return f"{'pattern':<12} {self.pattern}\n{super().summary()}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, the pattern among them; infinities and NaN as strings."""
        return {**super().to_dict(), "pattern": self.pattern}

    @property
    def never(self) -> bool:
        """Whether no number of steps brings the loss back."""
        return math.isinf(self.steps)


@checked
def turning_length(
    pt: Any,
    run: ContinualRun,
    *,
    cpt: Any = None,
    weight: float = 1.0,
    inputs: Mapping[str, float] | None = None,
    areas: Mapping[str, Any] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> TurningLength:
    """The fewest steps after which the loss is back at its start, and whether it ever is.

    Each number of steps is a run of its own, its rate annealed as the run says; with
    ``shape="constant"`` they are the points of one curve (Wang 2025, figure 7 c). With ``cpt``
    and a weight the loss is λ1·L_pt + λ2·L_cpt (figure 13).

    Args:
        pt, cpt: the fits; each a Fit, (law, params) or a bootstrap.
        run: the setting; its steps do not matter.
        weight: λ1, in [0, 1].
        inputs, areas, level: as for :func:`jaxlaw.planning.final_losses`.

    Raises:
        UsageError: a weight below 1 without ``cpt``, or fits that do not belong to the run.
    """
    if not 0 <= weight <= 1:
        raise UsageError(f"λ1 is {weight}; it lies in [0, 1], and λ2 is 1 − λ1")
    if weight < 1 and cpt is None:
        raise UsageError("a weight below 1 balances two losses: give cpt= and weight= together")
    given = (pt,) if cpt is None else (pt, cpt)
    question = question_of(given, run, inputs or {}, areas)
    weights = np.array([weight, 1 - weight])[: len(given)]
    times = np.geomspace(run.warmup + 1, LONGEST, _POINTS)
    fixed = {name: run.settings[name] for name in SETTINGS if name != "steps"}
    with in_float64():
        found = _turned(
            question.laws, question.layout, question.params, question.numbers, question.inputs,
            fixed, weights, times,
        )  # fmt: skip
        values = {name: np.asarray(one, float) for name, one in found.items()}
    short = values.pop("short")[0]
    values["steps"] = np.ceil(values["steps"] - 1e-6)
    steps = values["steps"][0]
    at = {name: np.array([value]) for name, value in fixed.items()}
    at["steps"] = np.array([min(max(steps, run.warmup + 1), LONGEST)])
    notes = [*_on_turning(values, short), *on_settings(question, at)]
    return TurningLength(
        **measured(values, level), weight=float(weight), notes=tuple(notes),
        binding="never" if math.isinf(steps) else "none: the loss comes back",
    )  # fmt: skip


def _on_turning(values: Mapping[str, np.ndarray], short: float) -> list[Note]:
    steps, notes = values["steps"], []
    limit, start = values["limit"][0], values["start"][0]
    if steps[0] == 0:
        notes.append(Note("never-lifted", "info", "a run of any length ends below the start"))
    elif np.isinf(steps[0]) and limit > start:
        message = f"never: after endless steps the loss is {limit - start:.4g} nats above its start"
        notes.append(Note("never", "warning", message))
    elif np.isinf(steps[0]):
        message = f"not within {LONGEST:.0e} steps, though the law ends below the start"
        notes.append(Note("never", "warning", message))
    if short > 0 and steps[0] > 0:
        message = f"runs of up to {short:.4g} steps end below the start as well: they anneal"
        notes.append(Note("short-runs-below", "info", message))
    if len(steps) > 1:
        share = np.isinf(steps[1:]).mean()
        if 0 < share < 1 or (share == 1) != np.isinf(steps[0]):
            message = f"{share:.1%} of the replicates never come back"
            notes.append(Note("replicates-never", "warning", message))
    return notes


@compiled(little=4 * SEARCHED, static_argnames=("laws", "layout"))
def _turned(
    laws: Any, layout: Any, params: Any, numbers: Any, inputs: Any, fixed: Any, weights: Any,
    times: Any,
) -> Any:  # fmt: skip
    """Each number of a TurningLength, (1 + R,)."""

    def lane(mine: Any) -> Any:
        def ends(steps: Any) -> Any:
            both = ends_of_losses(laws, layout, mine, numbers, inputs, {**fixed, "steps": steps})
            return jnp.tensordot(weights, both, 1)

        def change(steps: Any) -> Any:
            start, end = ends(steps)
            return end - start

        changes = change(times)
        lifted = changes > _SAME
        first = jnp.argmax(lifted)
        back = (jnp.arange(len(times)) > first) & ~lifted
        k = jnp.argmax(back)

        def halve(_: int, bracket: Any) -> Any:
            low, high = bracket
            middle = jnp.sqrt(low * high)
            above = change(middle) > _SAME
            return jnp.where(above, middle, low), jnp.where(above, high, middle)

        bracket = (times[jnp.maximum(k - 1, 0)], times[k])
        found = jax.lax.fori_loop(0, _HALVINGS, halve, bracket)[1]
        steps = jnp.where(back.any(), found, jnp.inf)
        start, limit = ends(jnp.inf)
        return {
            "steps": jnp.where(lifted.any(), steps, 0.0),
            "start": start,
            "limit": limit,
            "rise": jnp.maximum(changes.max(), 0.0),
            "highest_at": jnp.where(
                jnp.argmax(changes) < len(times) - 1, times[jnp.argmax(changes)], jnp.inf
            ),
            "short": jnp.where(lifted[0], 0.0, times[jnp.maximum(first - 1, 0)]),
            **_critical(laws, layout, mine, numbers, inputs, fixed, weights),
        }

    return jax.lax.map(lane, params, batch_size=64)


def _critical(laws, layout, params, numbers, inputs, fixed, weights):  # noqa: ANN001
    """Where the loss without annealing goes, and how much pre-training already ends there."""
    shares = (fixed["replay"], 1 - fixed["replay"])

    def plain(S1_pt: Any, S1_cpt: Any) -> Any:
        areas = PhaseAreas(S1_pt, S1_cpt, 0.0, 0.0)
        each = zip(laws, params, shares, inputs, strict=False)
        return sum(w * loss_at(law, p, areas, s, x)
                   for w, (law, p, s, x) in zip(weights, each, strict=True))  # fmt: skip

    S1_pt = phase_ends(layout, numbers, {**fixed, "steps": numbers["warmup"] + 1.0}).S1_pt
    point = plain(S1_pt, jnp.inf)
    if layout.pretraining is None:
        return {"critical_point": point, "critical_S1": jnp.nan * point}
    low, high = 1e-9, 1e15

    def halve(_: int, bracket: Any) -> Any:
        low, high = bracket
        middle = jnp.sqrt(low * high)
        above = plain(middle, 0.0) > point
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    found = jax.lax.fori_loop(0, _HALVINGS, halve, (low + 0.0 * point, high + 0.0 * point))[0]
    return {
        "critical_point": point,
        "critical_S1": jnp.where(plain(high, 0.0) > point, jnp.inf, found),
    }
