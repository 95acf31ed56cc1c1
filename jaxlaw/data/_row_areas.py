"""What laws of loss curves take at the steps of a run: areas, or every drop of its LR.

Fits, predictions, plans and simulations call the same two functions, :func:`areas_along` and
:func:`drops_along`, with the same options, so that a fit predicts from what it was fitted on.
The areas themselves are defined in :mod:`jaxlaw._areas`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from jaxlaw._areas import Areas, PhaseAreas, areas, phase_areas
from jaxlaw._arrays import real_numbers
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.schedules import Schedule

#: The columns of :func:`areas_along`.
AREAS = ("S1", "S2", "S1_pt", "S1_cpt", "S2_pt", "S2_cpt")
#: The columns of :func:`drops_along`.
DROPS = ("drop", "eta_k", "S_k")
Phase = Literal["pt", "cpt"]
#: Batch sizes relative to the reference batch: (pre-training, continual).
Batch = tuple[float, float]
SAME = (1.0, 1.0)

#: The final LR of a base model whose training is not described (Wang 2025, §6 and App. G:
#: "we assume that the final LR of all open-source models is zero"). Drops of a continual phase
#: without its pre-training are taken from it, wherever it is read, predicted, planned or simulated.
UNKNOWN_BASE_RATE = 0.0

MOST_DROPS = 48  # changes of the LR taken one by one; more are gathered in as many groups
_FLOOR = 1e-9  # of the peak LR: stands for a learning rate of 0, which has no logarithm


def for_unknown_base(schedule: Schedule) -> Schedule:
    """A continual phase alone, with the LR before its first step, from which drops are taken.

    Whatever a schedule's own η_0 is (the peak of a cosine, the learning rate a log begins with),
    that is :data:`UNKNOWN_BASE_RATE`. In S2(t) = Σ (η_0 − η_k)·λ^(t−k) this is right for a
    log that begins after a re-warm-up too, but for terms that are forgotten as λ^t.
    """
    return replace(schedule, initial_lr=UNKNOWN_BASE_RATE)


def relative_batch(batch: Any, alone: bool) -> Batch:
    """The relative batch sizes of both phases, from one number or a pair.

    Args:
        batch: number for the continual phase (or the only one), or one for each; None is 1.
        alone: whether there is one phase only.

    Raises:
        UsageError: it is neither, or not above 0.
    """
    try:
        first, *rest = np.atleast_1d(real_numbers(1.0 if batch is None else batch)).tolist()
        valid = len(rest) < 2 and all(0 < value < np.inf for value in (first, *rest))
    except (TypeError, ValueError, OverflowError):
        valid = False
    if not valid:
        raise UsageError(
            "batch is the batch size relative to the reference batch (0.25 for a quarter of its "
            "tokens): a number above 0, or a pair (pre-training, continual), not "
            f"{batch!r}"
        )
    last = rest[0] if rest else first
    return (first, last) if rest or alone else (1.0, last)


@checked
def area_options(
    decay: float = 0.999,
    carry_momentum: bool = False,
    count_warmup: bool = False,
    epsilon: float | None = None,
) -> dict[str, Any]:
    """The options of areas, as plain values that a fit can keep.

    Args:
        decay: λ in [0, 1]; one number.
        carry_momentum: see :func:`jaxlaw.data.phase_areas`.
        count_warmup: whether the rises of pre-training's warm-up count in S2. By default they
            do not: a schedule that contains its warm-up then has the areas of one that leaves
            it to S1_before, and runs of different peaks do not differ by what their warm-ups
            left behind. Rises of a continual phase always count (Wang 2025, §4.1).
        epsilon: see :func:`jaxlaw.areas`.

    Raises:
        UsageError: λ outside [0, 1], or more than one of it; an ε that is no number.
    """
    if not 0 <= decay <= 1:
        raise UsageError(f"decay is λ, one number in [0, 1], not {decay}")
    return {
        "decay": float(decay),
        "carry_momentum": carry_momentum,
        "count_warmup": count_warmup,
        "epsilon": None if epsilon is None else float(epsilon),
    }


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
        schedule: the learning rates.
        at: (points,) whole numbers of steps; 0 is before the first.
        options: options that :func:`area_options` made.
        S1_before: sum of the learning rates before the schedule.
        alone: the phase that a schedule without boundary is. The continual one, of a base that
            is unknown, has S1_pt = S2_pt = 0, and its S2_cpt starts from a final LR
            of 0 (:func:`for_unknown_base`).
        batch: relative batch sizes of the phases: an update counts as so many steps.

    Returns:
        Name of :data:`AREAS` → (points,) float64; S1 and S2 are the sums of both phases. Of a
        schedule without boundary they are those of one training, whichever phase it is: a law
        that takes S1 and S2 knows no phases.
    """
    warmup = options["count_warmup"]
    shared = {"at": at, "epsilon": options["epsilon"], "S1_before": S1_before}
    pt, cpt = batch
    if schedule.boundary is not None:
        split = phase_areas(
            schedule, options["decay"], carry_momentum=options["carry_momentum"],
            count_warmup=(warmup, True), **shared,
        )  # fmt: skip
    else:
        whole = areas(schedule, options["decay"], count_warmup=warmup, **shared)
        none = np.zeros(len(at))
        split = PhaseAreas(whole.S1, none, whole.S2, none)
        if alone == "cpt":
            own = areas(for_unknown_base(schedule), options["decay"], count_warmup=True, **shared)
            split = PhaseAreas(none, own.S1, none, own.S2)
    split = PhaseAreas(split.S1_pt * pt, split.S1_cpt * cpt, split.S2_pt * pt, split.S2_cpt * cpt)
    if schedule.boundary is None and alone == "cpt":
        whole = Areas(whole.S1 * cpt, whole.S2 * cpt)
    else:
        whole = split.whole
    return dict(zip(AREAS, (*whole, *split), strict=True))


def drops_along(
    schedule: Schedule, at: np.ndarray, options: Mapping[str, Any], batch: Batch = SAME
) -> dict[str, np.ndarray]:
    """The drops of the learning rate up to some steps of a schedule, both phases as one.

    The learning rate changes at nearly every step of a cosine. Where a schedule has more changes
    than ``MOST_DROPS``, those before a point are gathered in groups: half of the groups' limits
    share out the sum of changes evenly, half divide the learning rates since into equal ratios, so
    that neither a group's size nor the distance of its steps, seen from the point, is large. A
    group has the sum of its drops, and their mean S_k and geometric mean η_k. Falls and rises have
    groups of their own.

    At the published parameters the multi-power law is then off by 1e-5 nats at most on cosine and
    WSD schedules that end at a tenth of their peak, 7e-5 where they end at 0, 1.5e-4 where the
    learning rate goes up and down. A schedule with few changes, constant or in stages, is exact.

    Args:
        schedule: the learning rates.
        at: (points,) whole numbers of steps; 0 is before the first.
        options: options that :func:`area_options` made; ``count_warmup`` alone matters.
        batch: relative batch sizes of the phases, by which S_k counts updates; the first is
            that of a schedule without boundary, which is one training, whichever phase it is.

    Returns:
        ``drop`` (0 where a point has fewer than K), ``eta_k``, ``S_k``: (points, K) float64.
    """
    rates = schedule.rates
    drops = -np.diff(rates, prepend=schedule.initial_lr)
    if not options["count_warmup"]:
        peak = int(np.argmax(rates[: schedule.boundary])) + 1
        drops[:peak] = np.maximum(drops[:peak], 0.0)
    floor = _FLOOR * max(rates.max(), np.finfo(float).tiny)
    boundary = schedule.boundary or len(rates)
    weight = np.where(np.arange(len(rates)) < boundary, *batch)
    sums = np.concatenate([[0.0], np.cumsum(weight * rates)])
    kinds = [np.flatnonzero(drops > 0), np.flatnonzero(drops < 0)]
    gather = sum(map(len, kinds)) > MOST_DROPS
    parts = []
    for k in filter(len, kinds):
        eta, since = np.maximum(rates[k], floor), sums[at, None] - sums[k]
        done = k < at[:, None]  # k counts steps from 0
        each = [np.where(done, drops[k], 0.0), np.broadcast_to(eta, done.shape), since]
        parts.append(_gathered(k, drops[k], eta, sums, at) if gather else each)
    if not parts:
        parts = [[np.zeros((len(at), 1))] * 3]
    drop, eta, since = (np.concatenate(same, axis=1) for same in zip(*parts, strict=True))
    # Where there is no drop the others stay within what they are elsewhere.
    none = drop == 0
    eta = np.where(none, max(rates.max(), floor), eta)
    since = np.where(none, sums[at, None], since)
    return dict(zip(DROPS, (drop, eta, np.maximum(since, floor)), strict=True))


def _gathered(
    k: np.ndarray, drops: np.ndarray, eta: np.ndarray, sums: np.ndarray, at: np.ndarray
) -> list[np.ndarray]:
    """Drops, LRs and sums since, (points, MOST_DROPS), of groups of changes at steps k."""
    before, now = sums[k], sums[at]
    total, logs, sums_before = (
        np.concatenate([[0.0], np.cumsum(terms)])
        for terms in (drops, drops * np.log(eta), drops * before)
    )
    count = np.searchsorted(k, at)  # changes before each point
    # Limits of the groups, (points, MOST_DROPS + 1), as numbers of changes from the first.
    share, size = np.arange(1, MOST_DROPS // 2) / (MOST_DROPS // 2), np.abs(total)
    even = np.searchsorted(size, size[count, None] * share)
    # A point before any change has no distance to one; any positive number will do.
    furthest = np.where(count > 0, now - before[0], 1.0)
    nearest = np.where(count > 0, now - before[np.maximum(count - 1, 0)], 1.0)
    nearest = np.maximum(nearest, 1e-12 * furthest)[:, None]
    wanted = now[:, None] - nearest * (furthest[:, None] / nearest) ** share
    inner = np.concatenate([even, np.searchsorted(before, wanted)], axis=1).clip(0, count[:, None])
    edges = np.zeros((len(now), 1), int), np.sort(inner, axis=1), count[:, None]
    edges = np.concatenate(edges, axis=1)
    low, high = edges[:, :-1], edges[:, 1:]
    drop = total[high] - total[low]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_eta = (logs[high] - logs[low]) / drop
        mean = (sums_before[high] - sums_before[low]) / drop
    first = np.minimum(low, len(k) - 1)
    last = np.clip(high - 1, first, None)
    mean = np.clip(mean, before[first], before[last])  # differences of sums lose digits
    return [drop, np.exp(np.where(drop == 0, 0.0, log_eta)), now[:, None] - mean]
