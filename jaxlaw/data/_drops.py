"""Every drop of the learning rate before the points of a curve, as laws per drop take them.

The rate changes at nearly every step of a cosine. Where a schedule has more changes than ``MOST``,
those before a point are gathered in groups: half of the groups' limits share out the sum of
changes evenly, half divide the rates since into equal ratios, so that neither a group's size nor
how far its steps lie apart, seen from the point, is large. A group has the sum of its drops, and
their mean S_k and geometric mean η_k. Falls and rises have groups of their own.

At the published parameters the multi-power law is then off by 1e-5 nats at most on cosine and WSD
schedules that end at a tenth of their peak, 7e-5 where they end at 0, 1.5e-4 where the rate goes
up and down. A schedule with few changes, constant or in stages, is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxlaw.data._row_areas import SAME, Batch
from jaxlaw.schedules import Schedule

#: The columns that :func:`drops_along` gives.
DROPS = ("drop", "eta_k", "S_k")
MOST = 48  # changes taken one by one; more are gathered in as many groups
_FLOOR = 1e-9  # of the highest rate: what a rate of 0, which has no logarithm, counts as


def drops_along(
    schedule: Schedule,
    at: np.ndarray,
    options: Mapping[str, Any],
    batch: Batch = SAME,
) -> dict[str, np.ndarray]:
    """The drops of the rate up to some steps of a schedule, both phases as one.

    Args:
        schedule: the rates.
        at: (points,) whole numbers of steps; 0 is before the first.
        options: of :func:`~jaxlaw.data._row_areas.area_options`; ``count_warmup`` alone matters.
        batch: what an update of either phase counts as in S_k; of a schedule without boundary
            the first counts. Such a schedule is one training, whichever phase it is.

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
    few = sum(map(len, kinds)) <= MOST
    parts = [
        (_each if few else _gathered)(k, drops[k], np.maximum(rates[k], floor), sums, at)
        for k in kinds
        if len(k)
    ]
    if not parts:
        parts = [[np.zeros((len(at), 1))] * 3]
    drop, eta, since = (np.concatenate(same, axis=1) for same in zip(*parts, strict=True))
    # Where there is no drop the others stay within what they are elsewhere.
    none = drop == 0
    eta = np.where(none, max(rates.max(), floor), eta)
    since = np.where(none, sums[at, None], since)
    return dict(zip(DROPS, (drop, eta, np.maximum(since, floor)), strict=True))


def _each(
    k: np.ndarray, drops: np.ndarray, eta: np.ndarray, sums: np.ndarray, at: np.ndarray
) -> list[np.ndarray]:
    """One column a change; k (changes,) counts steps from 0."""
    done = k < at[:, None]
    shape = done.shape
    since = sums[at, None] - sums[k]
    return [np.where(done, drops, 0.0), np.broadcast_to(eta, shape), since]


def _gathered(
    k: np.ndarray, drops: np.ndarray, eta: np.ndarray, sums: np.ndarray, at: np.ndarray
) -> list[np.ndarray]:
    """One column a group; args as :func:`_each`."""
    before, now = sums[k], sums[at]
    total, logs, places = (
        np.concatenate([[0.0], np.cumsum(one)])
        for one in (drops, drops * np.log(eta), drops * before)
    )
    count = np.searchsorted(k, at)  # changes before each point
    edges = _limits(np.abs(total), before, now, count)
    low, high = edges[:, :-1], edges[:, 1:]
    drop = total[high] - total[low]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_eta = (logs[high] - logs[low]) / drop
        place = (places[high] - places[low]) / drop
    first = np.minimum(low, len(k) - 1)
    last = np.clip(high - 1, first, None)
    place = np.clip(place, before[first], before[last])  # differences of sums lose digits
    return [drop, np.exp(np.where(drop == 0, 0.0, log_eta)), now[:, None] - place]


def _limits(
    total: np.ndarray, before: np.ndarray, now: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """(points, MOST + 1) limits of the groups, as numbers of changes from the first."""
    share = np.arange(1, MOST // 2) / (MOST // 2)
    even = np.searchsorted(total, total[count, None] * share)
    furthest = now - before[0]
    nearest = now - before[np.maximum(count - 1, 0)]
    # To a point before any change there is no distance: one of no length will do.
    furthest, nearest = (np.where(count > 0, one, 1.0) for one in (furthest, nearest))
    nearest = np.maximum(nearest, 1e-12 * furthest)[:, None]
    wanted = now[:, None] - nearest * (furthest[:, None] / nearest) ** share
    graded = np.searchsorted(before, wanted)
    inner = np.concatenate([even, graded], axis=1).clip(0, count[:, None])
    ends = np.zeros((len(now), 1), int), np.sort(inner, axis=1), count[:, None]
    return np.concatenate(ends, axis=1)
