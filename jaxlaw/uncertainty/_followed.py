"""Draws of a covariance, carried from the tangent of a law to the law itself.

A covariance is of first order: a draw of it says how far the predictions of the runs move, J·δ.
Where parameters are hardly known, as from few runs or few groups, the law bends on the way: E and
A, known only in their sum, are drawn as logarithms, and one rises by more than the other can fall.
So parameters are fitted to what a draw says of the runs: they make

    ‖f(θ) − f(θ̂) − J·δ‖²,

weighted as the fit is, least (randomize, then optimize: Bardsley, Solonen, Haario and Laine 2014).
To first order that is the normal draw, so that of many runs nothing changes. It keeps within the
ranges of the parameters.

What missing the best settings costs differs from cell to cell of a sweep by factors, and sweeps
show it well within each. These parameters (:attr:`jaxlaw.laws.Law.settings_parameters`) stay as
they are drawn, and the others follow beside them: where all followed, intervals of the best batch
of four cells went from 1.5 times to more than 4 times up and down.

Not taken: scaling a draw back until its objective is what it should be, which would cut off what
lies along a curved valley; and solving for the coefficients alone, whose exponents, left as they
were drawn, took lower limits of the loss of four cells to 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jaxlaw.fitting import rows_around
from jaxlaw.uncertainty._fit_problem import FitWithData

ROWS = 256  # of the runs, at most: more say the same of where a draw goes
ITERATIONS = 60  # of Levenberg and Marquardt; two to five where the law hardly bends
SETTLED = 1e-8  # fraction of ‖J·δ‖² that a further step would gain
LEAST_DAMPING = 1e-9  # in units that make the diagonal 1
STUCK = 1e8  # damping beyond which no step is better


def followed(
    problem: FitWithData, moves: np.ndarray, of_base: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Search coordinates (R, p) of draws of a covariance.

    Args:
        problem: fit with its data.
        moves: (R, k) draws of how far the coordinates move that the data determine, and then those
            of values from a base.
        of_base: parameter → (R,) drawn value of those from a base, beside which the others follow.

    Returns:
        The coordinates; of each draw the same, whatever the others are.
    """
    built, free = problem.fit_problem, problem.free_and_inside
    names = np.array(built.law.parameter_names)
    held = np.flatnonzero(np.isin(names, [*of_base]))
    moves, moves_of_base = np.split(moves, [len(free)], axis=1)
    settings = np.isin(names[free], built.law.settings_parameters)
    at = np.repeat(problem.coordinates[None], len(moves), axis=0)
    at[:, free[settings]] += moves[:, settings]
    moved, moves_of = free[~settings], moves[:, ~settings]
    if not len(moved):
        return at
    # To first order a draw goes where it is drawn, whichever rows it is followed on, as long as
    # they determine the law. Of many those are taken that say most, in order, each as often as its
    # leverage and one over their number say together.
    kept = problem.active
    weight = problem.observations.weight[kept]
    if len(kept) > ROWS:
        root = np.linalg.qr(np.sqrt(weight)[:, None] * problem.linear.jacobian[kept][:, free])[0]
        share = np.sum(root**2, axis=1) / root.shape[1] + 1 / len(kept)
        those = np.searchsorted(np.cumsum(share) / share.sum(), (np.arange(ROWS) + 0.5) / ROWS)
        those = np.minimum(those, len(kept) - 1)
        kept, times = kept[those], (weight / share)[those]
        weight = times * weight.sum() / times.sum()

    def around(points, moved=moved):
        """Rows (R, n) at points (R, p), and their slopes (R, n, m) in what moves."""
        return rows_around(built, points, moved, kept, weight)

    here, tangent = around(problem.coordinates[None])
    target = (around(at)[0] if settings.any() else here) + moves_of @ tangent[0].T
    if of_base:
        target = target + moves_of_base @ around(problem.coordinates[None], held)[1][0].T
        at[:, held] = built.bounds_with(of_base)[0][:, held]
    low, high = (np.asarray(side)[moved] for side in (built.data.low, built.data.high))
    at[:, moved] = _least(around, at, moved, target, low, high)
    # A drawn bowl may be so steep that nothing is left to follow: such a draw is the normal one.
    lost = ~np.isfinite(target).all(axis=1)
    at[np.ix_(lost, moved)] += moves_of[lost]
    return at


def _least(around, at: np.ndarray, moved: np.ndarray, target: np.ndarray, low, high) -> np.ndarray:
    """The coordinates (R, m) whose rows are nearest to the targets (R, n), within a box.

    Levenberg and Marquardt's method for all draws at once. Every draw has a damping of its own and
    rests once it is done, so that it ends where it would end alone.
    """
    best, damping = at.copy(), np.full(len(at), 1e-3)
    open_ = np.flatnonzero(np.isfinite(target).all(axis=1))
    rows, slopes = around(best)
    off = rows - target
    value = np.sum(off**2, axis=1)
    gain = SETTLED * value
    gradient, curved = _normal_equations(off, slopes)
    for _ in range(ITERATIONS):
        if not len(open_):
            break
        here, slope, size = best[open_][:, moved], gradient[open_], curved[open_]
        # A coordinate at a bound that its slope pushes against rests.
        rests = ((here <= low) & (slope > 0)) | ((here >= high) & (slope < 0))
        slope = np.where(rests, 0.0, slope)
        size = np.where(rests[:, :, None] | rests[:, None, :], 0.0, size)
        # In units in which every coordinate moves the rows alike; one that moves none stays.
        diagonal = np.diagonal(size, axis1=1, axis2=2)
        floor = np.maximum(1e-12 * diagonal.max(axis=1, keepdims=True), 1e-300)
        unit = 1 / np.sqrt(np.maximum(diagonal, floor))
        size = size * unit[:, :, None] * unit[:, None, :]
        size = size + np.eye(len(moved)) * (damping[open_][:, None, None] + rests[:, :, None])
        step = -unit * np.linalg.solve(size, (unit * slope)[..., None])[..., 0]
        trial = best[open_]
        trial[:, moved] = np.clip(here + step, low, high)
        rows, slopes = around(trial)
        off = rows - target[open_]
        found = np.sum(off**2, axis=1)
        better = found < value[open_]
        to = open_[better]
        best[to], value[to] = trial[better], found[better]
        gradient[to], curved[to] = _normal_equations(off[better], slopes[better])
        damping[open_] = np.maximum(damping[open_] * np.where(better, 0.1, 10.0), LEAST_DAMPING)
        ended = (-np.sum(slope * step, axis=1) <= gain[open_]) | (damping[open_] > STUCK)
        open_ = open_[~ended]
    return best[:, moved]


def _normal_equations(off: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (R, m) and Gauss–Newton matrix (R, m, m) of half the squares of rows (R, n)."""
    across = np.swapaxes(slopes, 1, 2)
    return (across @ off[..., None])[..., 0], across @ slopes
