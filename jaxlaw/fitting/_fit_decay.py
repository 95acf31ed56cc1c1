"""The decay λ of the annealing area, fitted together with a law."""

from __future__ import annotations

import dataclasses
from typing import Unpack

import numpy as np

from jaxlaw import laws
from jaxlaw._typed import checked
from jaxlaw.data import LossCurves
from jaxlaw.errors import UsageError
from jaxlaw.fitting._fit import fit
from jaxlaw.fitting._options import FitKeywords, lists_options
from jaxlaw.fitting._result import Fit
from jaxlaw.laws import Law
from jaxlaw.notes import Note, warns_of_errors

_GRID = 7  # number of the first values of λ
_CLOSE = 0.02  # tolerance of log(1 − λ): 2 % of 1 − λ
_SECTION = (3 - np.sqrt(5)) / 2  # the smaller part of a golden section
_WORSE = 1.01  # objectives up to this many times the best count as equal to it


@lists_options(FitKeywords)
@warns_of_errors
@checked
def fit_decay(
    law: str | Law,
    curves: LossCurves,
    decays: tuple[float, float] = (0.9, 0.9999),
    *,
    carry_momentum: bool = False,
    count_warmup: bool = False,
    epsilon: float | None = None,
    strict: bool = False,
    **options: Unpack[FitKeywords],
) -> Fit:
    """Fit a law and λ: the least objective over λ, each with a fit of its own.

    The objective is searched over log(1 − λ): on a grid, then by golden sections between the
    neighbours of its best value. That takes about 17 fits, which share their compiled programs,
    for only the values of the areas differ.

    Args:
        law: law or its name.
        curves: curves as :func:`jaxlaw.read_loss_curves` returns them.
        decays: lowest and highest λ, within (0, 1).
        carry_momentum, count_warmup, epsilon: see :meth:`jaxlaw.LossCurves.runs`.
        strict, **options: options of :func:`jaxlaw.fit`.

    Returns:
        The :class:`Fit`; λ is ``fit.area_options["decay"]``. :func:`jaxlaw.bootstrap`,
        :func:`jaxlaw.covariance`, :func:`jaxlaw.profile` … of this fit and the same curves count
        the areas with that λ and take it as known. A note
        ``decay-fitted`` has the range of λ in which the objective is within 1 % of the least, read
        off the values that were tried. With some 400 independent points that is about a 95 %
        interval; errors of neighbours on a curve are alike, and the true interval is then wider.
        A warning ``decay-undetermined`` appears where that range reaches a limit of ``decays``.

    Raises:
        UsageError: curves are not LossCurves, or decays are not in order.

    Example:
        >>> table = jl.simulate.continual_curves().table.rename(columns={"loss_pt": "loss"})
        >>> curves = jl.read_loss_curves(table[table["step"] % 4000 == 0])
        >>> fit = jl.fit_decay("cpt-curve", curves, (0.99, 0.9999), n_starts=64, n_local=4)
        >>> "decay-fitted" in {note.code for note in fit.notes}
        True
    """
    if not isinstance(curves, LossCurves):
        raise UsageError(
            "fit_decay takes what jl.read_loss_curves returns: areas depend on the decay"
        )
    if not any(name.startswith("S2") for name in laws.get(law).input_names):
        raise UsageError(f"law {laws.get(law).name} takes no annealing area, so it has no decay")
    from scipy.optimize import minimize_scalar  # a tenth of a second, only where it is needed

    low, high = map(float, decays)
    if not 0 < low < high < 1:
        raise UsageError(
            f"decays are the lowest and highest λ, within (0, 1), not {decays}",
            argument="decays",
            value=decays,
        )
    tried: dict[float, Fit] = {}

    def objective(x: float) -> float:
        if x not in tried:
            runs = curves.runs(
                -np.expm1(x), carry_momentum=carry_momentum, count_warmup=count_warmup,
                epsilon=epsilon,
            )  # fmt: skip
            tried[x] = fit(law, runs, strict=strict, **options)
        return tried[x].objective

    grid = np.linspace(np.log1p(-high), np.log1p(-low), _GRID)
    best = int(np.argmin([objective(x) for x in grid]))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]

    def between(x: float) -> float:
        """The objective between the neighbours of the best; infinite at them and beyond."""
        return objective(x) if left < x < right else np.inf

    # Not Brent's method, which needs fewer fits: the range within 1 % of the least is read off the
    # values tried, and golden sections leave some on either side of it at every distance.
    inside = left + _SECTION * (right - left)
    tolerance = _CLOSE / abs(left + right)  # scipy takes it relative to the size of x
    minimize_scalar(between, (left, inside, right), method="golden", tol=tolerance)
    fitted = min(tried.values(), key=lambda fit: fit.objective)
    return dataclasses.replace(fitted, notes=(*fitted.notes, *_notes(tried, (low, high))))


def _notes(tried: dict[float, Fit], bounds: tuple[float, float]) -> list[Note]:
    x = np.array(sorted(tried))
    values = np.array([tried[key].objective for key in x])
    k, worse = int(np.argmin(values)), _WORSE * values.min()

    def edge(side: np.ndarray) -> float | None:
        """Where, from the best outwards, a line through the values tried gets worse."""
        beyond = np.flatnonzero(values[side] > worse)
        if not len(beyond):
            return None
        near, far = side[beyond[0] - 1], side[beyond[0]]
        share = (worse - values[near]) / (values[far] - values[near])
        return -np.expm1(x[near] + share * (x[far] - x[near]))

    upper, lower = edge(np.arange(k, -1, -1)), edge(np.arange(k, len(x)))
    edges = list(zip((lower, upper), bounds, strict=True))
    shown = [f"{limit if value is None else value:.5g}" for value, limit in edges]
    message = (
        f"λ = {-np.expm1(x[k]):.6g} has the least objective of {len(x)} tried; it is within 1 % of "
        f"that from λ = {shown[0]} to {shown[1]}; intervals take λ as known"
    )
    notes = [Note("decay-fitted", "info", message)]
    if lower is None or upper is None:
        open_ = [f"{limit:g}" for value, limit in edges if value is None]
        message = (
            f"the curves do not distinguish λ from {' or '.join(open_)}, the end of its range: "
            "widen it (decays=), or add curves with other drops of the rate"
        )
        notes.append(Note("decay-undetermined", "warning", message, inherited=False))
    return notes
