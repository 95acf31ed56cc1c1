"""The areas a law takes at the steps of a curve, counted one way for fits and for predictions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from jaxlaw._areas import PhaseAreas, areas, phase_areas
from jaxlaw.errors import UsageError, nearest
from jaxlaw.schedules import Schedule

#: The columns that :func:`areas_along` gives.
AREAS = ("S1", "S2", "S1_pt", "S1_cpt", "S2_pt", "S2_cpt")
Phase = Literal["pt", "cpt"]
#: What an update of either phase counts as, in steps: (pre-training, continual).
Batch = tuple[float, float]
SAME = (1.0, 1.0)

#: The last rate of a base model whose training nobody describes (Wang 2025, §6 and App. G: "we
#: assume that the final LR of all open-source models is zero"). A continual phase without its
#: pre-training is counted from it, wherever it is read, predicted, planned or simulated.
UNKNOWN_BASE_RATE = 0.0


def of_unknown_base(schedule: Schedule) -> Schedule:
    """A continual phase alone, with the rate before its first step that areas count from.

    Whatever a schedule's own η_0 is (the peak of a cosine, the rate a log begins with), drops are
    counted from :data:`UNKNOWN_BASE_RATE`. In S2(t) = Σ (η_0 − η_k)·λ^(t−k) this is right for a
    log that begins after a re-warm-up too, but for terms that are forgotten as λ^t.
    """
    return dataclasses.replace(schedule, initial_lr=UNKNOWN_BASE_RATE)


def batch_of(given: Any, alone: bool) -> Batch:
    """What updates count as, from one number or a pair.

    Args:
        given: that of the continual phase (or of the only one), or of both; None is 1.
        alone: whether there is one phase only.

    Raises:
        UsageError: neither, or not above 0.
    """
    try:
        values = np.atleast_1d(np.asarray(1.0 if given is None else given, float))
    except (TypeError, ValueError, OverflowError):
        values = np.zeros(0)
    if (
        len(values) not in (1, 2)
        or values.ndim != 1
        or not (np.isfinite(values).all() and (values > 0).all())
    ):
        raise UsageError(
            "batch is what an update counts as, in steps of a reference batch (0.25 for a quarter "
            f"of its tokens): a number above 0, or one for either phase, not {given!r}"
        )
    first, last = float(values[0]), float(values[-1])
    return (first, last) if len(values) == 2 or alone else (1.0, last)


def area_options(
    decay: float = 0.999,
    carry_momentum: bool = False,
    count_warmup: bool = False,
    epsilon: float | None = None,
) -> dict[str, Any]:
    """How areas are counted, as plain values that a fit can keep.

    Args:
        decay: λ in [0, 1].
        carry_momentum: see :func:`jaxlaw.phase_areas`.
        count_warmup: whether the rises of pre-training's warm-up count in S2. By default they
            do not: a schedule that contains its warm-up then has the areas of one that leaves
            it to S1_before, and runs of different peaks do not differ by what their warm-ups
            left behind. Rises of a continual phase always count (Wang 2025, §4.1).
        epsilon: see :func:`jaxlaw.areas`.

    Raises:
        UsageError: λ outside [0, 1], or more than one of it; an ε that is no number.
    """
    try:
        known = np.ndim(decay) == 0 and 0 <= float(decay) <= 1
        epsilon = None if epsilon is None else float(epsilon)
    except (TypeError, ValueError, OverflowError):
        known = False
    if not known:
        raise UsageError(
            f"decay is λ, one number in [0, 1], not {decay}; epsilon is a number, not {epsilon}"
        )
    return {
        "decay": float(decay),
        "carry_momentum": bool(carry_momentum),
        "count_warmup": bool(count_warmup),
        "epsilon": epsilon,
    }


def chosen_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """:func:`area_options` of what a user or a file names; raises UsageError of other names."""
    known = inspect.signature(area_options).parameters
    for name in given:
        if name not in known:
            raise UsageError(
                f"areas are counted by {', '.join(known)}, not by '{name}'.{nearest(name, known)}"
            )
    return area_options(**given)


def areas_along(
    schedule: Schedule,
    at: np.ndarray,
    options: Mapping[str, Any],
    S1_before: float = 0.0,
    alone: Phase = "pt",
    batch: Batch = SAME,
) -> dict[str, np.ndarray]:
    """All areas after some steps of a schedule.

    Where batches differ, an update counts as many steps as its tokens are worth: S1 = Σ w·η and
    S2 = Σ w·m. Momentum m itself is made of updates, so λ stays what it is for one of them.

    Args:
        schedule: the rates.
        at: (points,) whole numbers of steps; 0 is before the first.
        options: of :func:`area_options`.
        S1_before: sum of the rates before the schedule.
        alone: which phase a schedule without boundary is. The continual one, of a base that
            nobody describes, has S1_pt = S2_pt = 0, and its S2_cpt counts from a last rate of
            0 (:func:`of_unknown_base`).
        batch: what an update of either phase counts as.

    Returns:
        name of :data:`AREAS` → (points,) float64; S1 and S2 are the sums of both phases. Of a
        schedule without boundary they are those of one training, whichever phase it is: a law
        that takes S1 and S2 knows no phases.
    """
    count_warmup = options["count_warmup"]
    counted = {"at": at, "epsilon": options["epsilon"], "S1_before": S1_before}
    if schedule.boundary is None:
        mine = areas(schedule, options["decay"], count_warmup=count_warmup, **counted)
        none = np.zeros(len(at))
        split = PhaseAreas(mine.S1, none, mine.S2, none)
        if alone == "cpt":
            mine = mine._replace(S1=mine.S1 * batch[1], S2=mine.S2 * batch[1])
            own = areas(of_unknown_base(schedule), options["decay"], count_warmup=True, **counted)
            split = PhaseAreas(none, own.S1, none, own.S2)
    else:
        split = phase_areas(
            schedule, options["decay"], carry_momentum=options["carry_momentum"],
            count_warmup=(count_warmup, True), **counted,
        )  # fmt: skip
    pt, cpt = batch
    split = PhaseAreas(split.S1_pt * pt, split.S1_cpt * cpt, split.S2_pt * pt, split.S2_cpt * cpt)
    whole = mine if schedule.boundary is None and alone == "cpt" else split.whole
    return dict(zip(AREAS, (whole.S1, whole.S2, *split), strict=True))
