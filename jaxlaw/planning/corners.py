"""Areas at the end of a run as functions of the shares of its fall, in small arrays.

A corner has its whole fall in one place. Rates are mixtures of those of the corners, and with
them S1, momentum and, where areas are plain, S2. Where momentum is weighted with the rate,
S2 = Σ m_i·η_i^ε is no mixture, but both factors are. Between knots they are smooth, so that a
few steps, the nodes of a quadrature, stand for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxlaw.laws.base import power
from jaxlaw.lr_areas import Areas, PhaseAreas
from jaxlaw.planning.falls import Grid, Run, areas_at, ends_of, schedule_of, together
from jaxlaw.schedules import Schedule

#: Lobatto's nodes in [−1, 1]: the first and the last step of a piece are among them.
NODES = np.array([-1, -np.sqrt(3 / 7), 0, np.sqrt(3 / 7), 1])
APART = 3.0  # pieces after a knot, where momentum settles, grow by this factor


class Corners(NamedTuple):
    """Areas of the corners, to be mixed by shares (corners,).

    Attributes:
        ends: (corners,) each, after the last step; with ε S2 of the run is not to be used.
        momentum: (corners, nodes), times the steps that each node stands for; None without ε.
    """

    ends: Areas | PhaseAreas
    momentum: Any


class Mixture(NamedTuple):
    """All that a search needs of a run and its knots.

    Attributes:
        corners: of a warm-up that rises; and, where its rises do not count and it may fall
            as well, those of one that falls.
        rates: (corners, nodes).
        start, peak: of the warm-up and of the first free rate, above the floor.
        epsilon: or None.
    """

    corners: tuple[Corners, ...]
    rates: Any
    start: Any
    peak: Any
    epsilon: Any


def mixture_of(run: Run, grid: Grid, options: Mapping[str, Any], nodes: Any) -> Mixture:
    """Corners at the nodes, a pair of steps and counts from :func:`few_steps`."""
    steps, counts = nodes
    certain = options["count_warmup"] or run.after is not None or run.start <= run.floor
    ways = [options] if certain else [options, {**options, "count_warmup": True}]
    rates, found = [], []
    for one in _schedules(run, grid):
        rates.append(one.rates[-run.steps :][steps - 1])
        found.append([_corner(one, run, way, steps) for way in ways])
    each = []
    for ends, momentum in (zip(*corners, strict=True) for corners in zip(*found, strict=True)):
        momentum = None if momentum[0] is None else np.array(momentum) * counts
        ends = together(ends)
        if momentum is not None and run.after is not None:  # S2_pt, which is that of any corner
            ends = ends._replace(S2_pt=np.full(len(rates), ends_of(one, options).S2_pt))
        each.append(Corners(ends, momentum))
    if not certain:
        each[0].ends.S2[0] = 0.0  # of the corner whose warm-up falls; rising, it would have none
        if each[0].momentum is not None:
            each[0].momentum[0] = 0.0
    above = run.start - run.floor, run.peak - run.floor
    return Mixture(tuple(each), np.array(rates), *above, options["epsilon"])


def mixed(mixture: Mixture, shares: Any) -> Areas | PhaseAreas:
    """Areas after the last step for shares (corners,) of the fall; JAX."""
    each = []
    for corners in mixture.corners:
        ends = type(corners.ends)(*(shares @ one for one in corners.ends))
        if mixture.epsilon is not None:
            weight = power(jnp.maximum(shares @ mixture.rates, 0), mixture.epsilon)
            ends = ends._replace(**{of_run(ends): (shares @ corners.momentum * weight).sum()})
        each.append(ends)
    if len(each) == 1:
        return each[0]
    both = zip(*each, strict=True)
    return type(each[0])(*(jnp.where(_rises(mixture, shares), *one) for one in both))


def lean(mixture: Mixture) -> Mixture:
    """Without the rates where areas do not ask for them: one program for all runs."""
    return mixture if mixture.epsilon is not None else mixture._replace(rates=None)


def _rises(mixture: Mixture, shares: Any) -> Any:
    """Whether the warm-up does: its first share lies before the first free rate."""
    return mixture.peak * (1 - shares[0]) >= mixture.start


def slopes(
    mixture: Mixture, shares: np.ndarray, run: Run, grid: Grid, options: Mapping[str, Any]
) -> Areas | PhaseAreas:
    """Derivatives of the areas in the shares, (corners,) each, over every step of the run."""
    falls = len(mixture.corners) == 2 and not _rises(mixture, shares)
    found = mixture.corners[int(falls)].ends
    if options["epsilon"] is None:
        return found
    rises = len(mixture.corners) == 2 and not falls
    options = {**options, "count_warmup": options["count_warmup"] or falls}
    momentum, rates = _of_each_step(schedule_of(shares, run, grid), run, options)
    there = rates > 0  # where there is no rate the derivative is taken as 0, as in `power`
    level = np.where(there, rates, 1.0)
    weight = np.where(there, level ** options["epsilon"], options["epsilon"] == 0)
    pull = np.where(there, options["epsilon"] * weight / level, 0.0) * momentum
    S2 = []
    for one in _schedules(run, grid):
        own, rates = _of_each_step(one, run, options)
        S2.append((own @ weight if S2 or not rises else 0.0) + pull @ rates)
    return found._replace(**{of_run(found): np.array(S2)})


def of_run(ends: Areas | PhaseAreas) -> str:
    """The S2 that the rates of this run change."""
    return "S2" if isinstance(ends, Areas) else "S2_cpt"


def _corner(
    schedule: Schedule, run: Run, options: Mapping[str, Any], steps: np.ndarray
) -> tuple[Areas | PhaseAreas, np.ndarray | None]:
    """Areas at the end; with ε momentum after some steps, by what each adds to plain S2."""
    if options["epsilon"] is None:
        return ends_of(schedule, options), None
    steps = steps + len(schedule) - run.steps
    at = np.concatenate([steps - 1, steps, [len(schedule)]])
    found = areas_at(schedule, {**options, "epsilon": None}, at)
    S2 = getattr(found, of_run(found))
    return type(found)(*(one[-1] for one in found)), S2[len(steps) : -1] - S2[: len(steps)]


def _schedules(run: Run, grid: Grid) -> Iterator[Schedule]:
    return (schedule_of(one, run, grid) for one in np.eye(len(grid.at) + 1))


def _of_each_step(
    schedule: Schedule, run: Run, options: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Momentum and rates, (steps,)."""
    found = areas_at(schedule, {**options, "epsilon": None})
    momentum = np.diff(getattr(found, of_run(found))[-run.steps :], prepend=0.0)
    return momentum, schedule.rates[-run.steps :]


def few_steps(run: Run, grid: Grid, decay: float) -> tuple[np.ndarray, np.ndarray]:
    """Steps (nodes,) of a run, ascending, and how many steps each stands for.

    Pieces begin at knots, and where a knot leaves the mean over the shortest decay; after each
    the memory of momentum, 1/(1 − λ) steps, cuts them further, and a warm-up, whose powers bend
    most at its first steps, is cut as it goes on. Any polynomial of degree 4 over a
    piece is summed exactly, and of short pieces every step is a node. Filled up with nodes of no
    weight to one of few lengths: few compilations.
    """
    knots, end = np.ceil(grid.at), run.steps + 1
    scale = APART ** np.arange(np.ceil(np.log(end) / np.log(APART)))
    warming = np.append(1, 1 + scale[scale < run.first])
    begin = [warming, [run.first, run.first + 1], knots, knots + run.shortest_decay]
    begin = np.unique(np.concatenate(begin))
    begin = begin[begin < end]
    if decay < 1:
        cuts = begin[:, None] + np.append(0, np.ceil(scale / (1 - decay)))
        begin = np.unique(cuts[cuts < np.append(begin[1:], end)[:, None]])
    counts = np.diff(begin, append=end)
    short = counts <= len(NODES)
    every = [np.arange(b, b + n) for b, n in zip(begin[short], counts[short], strict=True)]
    steps, weights = _lobatto(begin[~short], counts[~short])
    weights = np.append(np.ones(sum(map(len, every))), weights)
    steps = np.concatenate([*every, steps.ravel()]).astype(int)
    order = np.argsort(steps)
    spare = -len(steps) % max(64, 2 ** (len(steps).bit_length() - 3))
    steps = np.append(steps[order], np.full(spare, run.steps))
    return steps, np.append(weights[order], np.zeros(spare))


def _lobatto(begin: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps and weights (pieces, nodes) for sums over consecutive steps."""
    half = (counts[:, None] - 1) / 2
    at = np.rint(half * (1 + NODES))
    n, zero = counts, np.zeros(len(counts))  # sums of powers of the distance from the middle
    moments = [n, zero, n * (n**2 - 1) / 12, zero, n * (n**2 - 1) * (3 * n**2 - 7) / 240]
    powers = np.arange(len(NODES))
    table = ((at - half) / half)[:, None, :] ** powers[:, None]
    right = np.stack(moments, axis=-1) / half**powers
    return begin[:, None] + at, np.linalg.solve(table, right[..., None])[..., 0]
