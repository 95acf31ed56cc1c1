"""The losses on two corpora at the end of a continual run, for many parameters at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import SEARCHED, compiled, in_float64
from jaxlaw.data._row_areas import AREAS
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import Source, held, on_source, sources
from jaxlaw.planning.continual_run import (
    SETTINGS,
    ContinualRun,
    Layout,
    counted_as,
    ends_at,
    layout_of,
    phase_ends,
)
from jaxlaw.schedules import Schedule

CORPORA = ("pt", "cpt")


class Question(NamedTuple):
    """What every plan of a continual run asks about.

    Attributes:
        sources: of the losses on the pre-training corpus and on the new one.
        run: what is held.
        layout, numbers: of :func:`jaxlaw.planning.continual_run.layout_of`.
        params: for each loss parameter → (1 + R,).
        inputs: for each loss what its law takes beside areas and r, in its own units.
    """

    sources: tuple[Source, ...]
    run: ContinualRun
    layout: Layout
    numbers: dict[str, float]
    params: tuple[dict[str, np.ndarray], ...]
    inputs: tuple[dict[str, float], ...]

    @property
    def laws(self) -> tuple[Law, ...]:
        """One for each loss."""
        return tuple(one.law for one in self.sources)


def question_of(
    given: tuple[Any, ...],
    run: ContinualRun,
    inputs: Mapping[str, float],
    counted: Mapping[str, Any] | None,
) -> Question:
    """Check fits and run for each other.

    Raises:
        UsageError: a law without areas of a continual phase, one that knows its base where the
            run does not or the reverse, a replay ratio that a law does not take, or an input
            that is missing or unknown.
    """
    if not isinstance(run, ContinualRun):
        raise UsageError(f"run is a ContinualRun, not {type(run).__name__}")
    found = sources(*given)
    for one in found:
        _check_law(one.law, run)
    taken = {name for one in found for name in one.law.input_names}
    for name in inputs:
        if name not in taken or name in (*AREAS, "r"):
            names = " and ".join(one.law.name for one in found)
            raise UsageError(f"{names} take no input '{name}' here; shares are the run's replay")
    own = tuple(
        held(one, {k: v for k, v in inputs.items() if k in one.law.input_names}, (*AREAS, "r"))
        for one in found
    )
    layout, numbers = layout_of(run, counted_as(*given, **(counted or {})))
    return Question(found, run, layout, numbers, tuple(one.params for one in found), own)


def _check_law(law: Law, run: ContinualRun) -> None:
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


def check_varied(question: Question, names: tuple[str, ...]) -> None:
    """Refuse to vary what the run or a law has no place for."""
    run = question.run
    for name in names:
        if name not in SETTINGS:
            raise UsageError(
                f"'{name}' is not a setting; settings: {', '.join(SETTINGS)}."
                f"{nearest(name, SETTINGS)}"
            )
    if "peak" in names and run.peak is None:
        raise UsageError("without a re-warm-up the peak is the last rate of pre-training; give "
                         "the run a peak=, or vary loss_potential")  # fmt: skip
    fixed = run.pretraining is None or isinstance(run.pretraining, Schedule)
    if "loss_potential" in names and (fixed or run.pretraining.shape == "constant"):
        raise UsageError("the loss potential varies with a Pretraining that anneals (wsd, "
                         "cosine, linear); this one is given as it is")  # fmt: skip
    for law in question.laws:
        if "replay" in names and "r" not in law.input_names:
            raise UsageError(f"law {law.name} knows no replay ratio; fit cpt-curve-replay-pt "
                             "and -cpt")  # fmt: skip


def checked_setting(name: str, values: Any, run: ContinualRun) -> np.ndarray:
    """The values of a setting as float64; raises UsageError on one it cannot have."""
    values = np.asarray(values, float)
    share = name in ("loss_potential", "replay")
    low = 0.0 if share else run.warmup if name == "steps" else 0.0
    good = (values >= 0) & (values <= 1) if share else (values > low) & np.isfinite(values)
    if not values.size or not good.all():
        must = "a share, in [0, 1]" if share else f"finite and above {low:g}"
        raise UsageError(f"{name} must be {must}, not {values[~good].tolist() or 'nothing'}")
    return values


def ends_of_losses(
    laws: tuple[Law, ...], layout: Layout, params: Any, numbers: Any, inputs: Any, at: Any
) -> Any:
    """Start and end of each loss, (losses, 2, …): pure JAX, for anything that broadcasts."""
    ends = phase_ends(layout, numbers, at)
    none = jnp.zeros_like(ends.S1_cpt)
    start = ends._replace(S1_cpt=none, S2_cpt=none)
    # The share of a loss's own corpus.
    shares = (at["replay"], 1 - at["replay"])
    found = []
    for law, mine, others, share in zip(laws, params, inputs, shares, strict=False):
        both = [loss_at(law, mine, areas, share, others) for areas in (start, ends)]
        found.append(jnp.stack(jnp.broadcast_arrays(*both)))
    return jnp.stack(jnp.broadcast_arrays(*found))


def loss_at(law: Law, params: Any, areas: Any, share: Any, inputs: Any) -> Any:
    """One loss for areas and the share of its own corpus."""
    values = {**areas._asdict(), "r": share, **inputs}
    return law(params, **{name: values[name] for name in law.input_names})


@compiled(little=SEARCHED, static_argnames=("laws", "layout"))
def _evaluated(laws: Any, layout: Any, params: Any, numbers: Any, inputs: Any, at: Any) -> Any:
    return ends_of_losses(laws, layout, params, numbers, inputs, at)


def evaluated(question: Question, at: Mapping[str, Any]) -> np.ndarray:
    """Start and end of each loss, (losses, 2, 1 + R, points).

    Args:
        question: what is asked about.
        at: settings → (points,), or (1 + R, points).
    """
    params = tuple({k: v[:, None] for k, v in one.items()} for one in question.params)
    with in_float64():
        return np.asarray(
            _evaluated(
                question.laws, question.layout, params, question.numbers, question.inputs, dict(at)
            )  # fmt: skip
        )


def on_settings(question: Question, at: Mapping[str, Any]) -> list[Note]:
    """Where areas and shares at (points,) settings are outside the fitted ranges; doubts."""
    with in_float64():
        areas = ends_at(question.layout, question.numbers, dict(at))
    notes, shares = [], (at["replay"], 1 - np.asarray(at["replay"]))
    for corpus, one, share in zip(CORPORA, question.sources, shares, strict=False):
        values = {**areas._asdict(), "r": share}
        worst = {}
        for name in sorted(set(values) & set(one.law.input_names)):
            own = np.ravel(np.asarray(values[name], float)) / one.units[name]
            low, high = one.ranges.get(name, (-math.inf, math.inf))
            worst[name] = max(own, key=lambda value: max(low - value, value - high))
        notes += on_source(one, corpus, **worst)
    return notes
