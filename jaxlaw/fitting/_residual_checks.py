"""What the residuals of a fit say against its law or against single rows, as notes.

A high R² and starts that agree say that the optimum was found, not that the law is right. Where
a law lacks a term, its residuals are a smooth function of the inputs, and a polynomial in them
predicts rows that it has not seen. Noise cannot be predicted.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxlaw._rounding import ROUNDING, first_largest, ranks
from jaxlaw.data import RunGroups, dependence_note
from jaxlaw.errors import name_rows
from jaxlaw.notes import Note

FOLDS = 10
SHARE = 0.1  # of the residual variance predicted out of fold from which on the law is in doubt
SURE = 3.0  # standard errors by which that share must exceed zero
CHANCE = 1e-3  # probability of the classical F below which means of repeated rows are off the law
FAR = 6.0  # robust standard deviations from which on a row is an outlier
_CLIP = 3.0  # robust standard deviations at which residuals are clipped: one row is no surface
_NOTHING = 1e-5  # of the target: too small to matter, and within reach of rounding
_RANK = 1e-6  # of a column: less of it is what the columns before it hold already, and rounding
_NORMAL = 1.4826  # median absolute deviation → standard deviation of a normal distribution


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of a fit with what they are judged by; all rows in one order.

    Attributes:
        target, off: (n,) what is fitted, and what of it the law leaves; logarithms where ``log``.
        slopes: (n, k) slopes of the law in the free coordinates; no misfit shows along them.
        inputs: name → (n,), or (n, K) for an input per drop of the rate, which is left out.
        weight: (n,) weight of each row; rows of weight 0 do not count.
        rows: (n,) what the rows are called.
        word: word for a row: ``line``, ``record``, ``row``.
        log: whether residuals are of logarithms.
        runs: the runs that rows may be checkpoints of, or None.
    """

    target: np.ndarray
    off: np.ndarray
    slopes: np.ndarray
    inputs: Mapping[str, np.ndarray]
    weight: np.ndarray
    rows: np.ndarray
    word: str
    log: bool
    runs: RunGroups | None = None

    @property
    def active(self) -> Residuals:
        """The rows that count."""
        kept = self.weight > 0
        inputs = {name: values[kept] for name, values in self.inputs.items()}
        arrays = {name: getattr(self, name)[kept] for name in ("target", "off", "slopes", "weight")}
        runs = None if self.runs is None else self.runs.rows(np.flatnonzero(kept))
        return dataclasses.replace(self, **arrays, inputs=inputs, rows=self.rows[kept], runs=runs)

    @property
    def scatter(self) -> float:
        """Robust standard deviation of the noise.

        A fit with a small Huber threshold passes through as many rows as it has parameters:
        these say nothing of the noise and are left out.
        """
        count, free = self.slopes.shape
        distances = np.sort(np.abs(self.off - np.median(self.off)))[min(free, count - 1) :]
        return max(_NORMAL * float(np.median(distances)), self.nothing)

    @property
    def nothing(self) -> float:
        """A residual too small to speak of."""
        return _NOTHING * (1.0 if self.log else float(np.mean(np.abs(self.target))))

    def size(self, value: float) -> str:
        """A residual in words: a percentage of the target, or a number in its unit."""
        with np.errstate(over="ignore"):  # of losses that do not occur
            return f"{np.expm1(value):+.2%}" if self.log else f"{value:+.2g}"


def residual_notes(residuals: Residuals) -> list[Note]:
    """Notes ``dependent-rows``, ``lack-of-fit`` and ``outliers``, where residuals give reason."""
    residuals = residuals.active
    if not np.isfinite(residuals.off).all() or not np.isfinite(residuals.slopes).all():
        return []
    dependent = _dependence_notes(residuals)
    # What rows of a run share would be "predicted" by other rows of the run: it is held out whole.
    members = residuals.runs.members if dependent else design_points(residuals.inputs)
    _, members = np.unique(members, return_inverse=True)
    return [
        *dependent,
        *_lack_of_fit_notes(residuals, members.reshape(-1)),
        *_outlier_notes(residuals),
    ]


def _dependence_notes(residuals: Residuals) -> list[Note]:
    if residuals.runs is None or residuals.runs.count < 2:
        return []
    off = _clipped(residuals.off, residuals.scatter)
    if off.std() < residuals.nothing:
        return []
    basis, first, root = _basis(residuals, (len(off) - residuals.slopes.shape[1] - 1) // 4)
    target = off * root
    unexplained, smooth = (
        (target - part @ (part.T @ target)) / root for part in (basis[:, :first], basis)
    )
    note = dependence_note(residuals.runs, unexplained, smooth)
    return [] if note is None else [note]


def _basis(residuals: Residuals, most: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Orthonormal basis (n, m) of what the fit can take up, then of polynomials in the inputs.

    Returns:
        The basis; how many of its columns the fit can take up; (n,) roots of the weights.
    """
    count, root = len(residuals.off), np.sqrt(residuals.weight / residuals.weight.mean())
    columns_of_fit = np.column_stack([np.ones(count), residuals.slopes])
    basis = _orthonormal(_of_unit_length(columns_of_fit * root[:, None]))
    first, surface = basis.shape[1], polynomials(residuals.inputs, most)
    if surface is not None:
        beyond = _of_unit_length(surface * root[:, None])
        for _ in range(2):  # once leaves rounding of what it removes, twice leaves none
            beyond = _orthonormal(beyond - basis @ (basis.T @ beyond))
        basis = np.column_stack([basis, beyond])
    return basis, first, root


def _of_unit_length(columns: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(columns, axis=0)
    return columns / np.where(size > 0, size, 1.0)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """Orthonormal basis of columns (n, m) of length 1 at most, but for what is rounding in them.

    By singular values: a QR without pivoting goes on from directions that are rounding, and what it
    makes orthogonal to them no longer spans the later columns.
    """
    basis, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return basis[:, singular > _RANK]


# ---------------------------------------------------------------------------- outliers


def _outlier_notes(residuals: Residuals) -> list[Note]:
    count, free = residuals.slopes.shape
    spare, scatter = count - free, residuals.scatter
    if spare < 5:
        return []
    from scipy.special import stdtrit  # only where it is needed

    # The median of few absolute deviations is uncertain itself: it is worth 37 % of as many
    # degrees of freedom, and what is far is a matter of Student's t.
    far = max(FAR, float(stdtrit(max(0.37 * spare, 1.0), 1 - CHANCE / (2 * count))))
    out = np.flatnonzero(np.abs(residuals.off) > far * scatter)
    if not len(out):
        return []
    out = out[np.argsort(-ranks(np.abs(residuals.off[out])), kind="stable")]
    noise = residuals.size(scatter).lstrip("+")
    listed = name_rows(
        residuals.word, residuals.rows[out], [residuals.size(residuals.off[k]) for k in out]
    )
    message = (
        f"far off the law, whose robust scatter is {noise}: {listed}; "
        "check what is different about them, and leave out by where= what is not of this "
        "law"
    )
    return [Note("outliers", "warning", message, inherited=False)]


# ---------------------------------------------------------------------------- lack of fit


def _lack_of_fit_notes(residuals: Residuals, members: np.ndarray) -> list[Note]:
    parts = [
        part for part in (_smooth_part(residuals, members), _off_repeated_rows(residuals)) if part
    ]
    if not parts:
        return []
    message = (
        f"{'; '.join(parts)}; beyond these runs the law may be off by more: try a law with another "
        "term, or fit runs nearer to the question"
    )
    return [Note("lack-of-fit", "warning", message, inherited=True)]


def _smooth_part(residuals: Residuals, members: np.ndarray) -> str:
    """What a polynomial in the inputs predicts of the residuals of rows it has not seen."""
    points = int(members.max()) + 1
    if points < FOLDS:
        return ""
    off = _clipped(residuals.off, residuals.scatter)
    basis, first, root = _basis(residuals, (points - residuals.slopes.shape[1] - 1) // 4)
    if basis.shape[1] == first:
        return ""
    target = off * root
    # Rows of one point of the design, or of one run, stay together.
    fold = (np.random.default_rng(0).permutation(points) % FOLDS)[members]
    plain = target - _out_of_fold(basis[:, :first], target, fold)
    smooth = target - _out_of_fold(basis, target, fold)
    gain = np.bincount(members, plain**2 - smooth**2)
    spread = np.sqrt(np.sum((gain - gain.mean()) ** 2))
    share = gain.sum() / max(np.sum(plain**2), 1e-300)
    if not (share > SHARE and gain.sum() > SURE * spread):
        return ""
    whole = basis[:, first:] @ (basis[:, first:].T @ target) / root
    most = first_largest(np.abs(whole))
    typical = float(np.sqrt(np.average(whole**2, weights=residuals.weight)))
    if typical < residuals.nothing:
        return ""
    names = [name for name, values in residuals.inputs.items() if coordinate(values) is not None]
    mean, worst = residuals.size(typical).lstrip("+"), residuals.size(whole[most])
    return (
        f"a smooth function of {', '.join(names)} predicts {share:.0%} of the residual variance of "
        f"rows held out: the runs lie {mean} off the law in the mean, {worst} near "
        f"{residuals.word} {residuals.rows[most]}"
    )


def _out_of_fold(basis: np.ndarray, target: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """(n,) least squares in an orthonormal basis (n, m), of each row by the other folds."""
    predicted, identity = np.zeros(len(target)), np.eye(basis.shape[1])
    whole = basis.T @ target
    for k in range(FOLDS):
        in_fold = fold == k
        of_fold, target_of_fold = basis[in_fold], target[in_fold]
        # The Gram matrix of all rows is the identity; a fold is subtracted from it.
        gram = identity * (1 + 1e-9) - of_fold.T @ of_fold
        predicted[in_fold] = of_fold @ np.linalg.solve(gram, whole - of_fold.T @ target_of_fold)
    return predicted


def _off_repeated_rows(residuals: Residuals) -> str:
    """The classical lack-of-fit F: means of rows of equal inputs, against their own scatter."""
    members = design_points(residuals.inputs)
    points, (count, free) = int(members.max()) + 1, residuals.slopes.shape
    between, within = points - free, count - points
    if between < 1 or within < 3:
        return ""
    off, weight = residuals.off, residuals.weight
    means = np.bincount(members, weight * off) / np.bincount(members, weight)
    inner = float(np.sum(weight * (off - means[members]) ** 2))
    outer = float(np.sum(weight * means[members] ** 2))
    if not inner > within * residuals.nothing**2:  # copies, which are no repeats
        return ""
    ratio = (outer / between) / (inner / within)
    from scipy.special import fdtrc  # only where it is needed

    chance = float(fdtrc(between, within, ratio))
    if chance > CHANCE or ratio < 2:
        return ""
    sizes = [np.sqrt(inner / within / weight.mean()), np.sqrt(outer / weight.sum())]
    pure, lack = (residuals.size(size).lstrip("+") for size in sizes)
    return (
        f"rows of equal inputs scatter by {pure}, and their means lie {lack} off the law "
        f"(F = {ratio:.3g} with {between} and {within} degrees of freedom, p = {chance:.0e})"
    )


def _clipped(off: np.ndarray, scatter: float) -> np.ndarray:
    middle = float(np.median(off))
    return np.clip(off, middle - _CLIP * scatter, middle + _CLIP * scatter)


# ---------------------------------------------------------------------------- smooth functions


def design_points(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """(n,) the number, from 0, of the point of the design that each row is at."""
    columns = [np.asarray(v, float).reshape(len(v), -1) for v in inputs.values()]
    rows = np.stack([ranks(column) for v in columns for column in v.T], axis=1)
    _, members = np.unique(rows, axis=0, return_inverse=True)
    return members.reshape(-1)


def coordinate(values: Any) -> np.ndarray | None:
    """An input on −1 to 1, logarithmic where it spans a factor of three; None if constant."""
    values = np.asarray(values, float)
    if values.ndim != 1:
        return None
    if not ranks(values).any():
        return None
    if values.min() > 0 and values.max() > 3 * (1 + ROUNDING) * values.min():
        values = np.log(values)
    low, high = values.min(), values.max()
    return 2 * (values - low) / (high - low) - 1


def polynomials(inputs: Mapping[str, np.ndarray], most: int) -> np.ndarray | None:
    """Powers and products of the inputs, (n, m) with m ≤ ``most``; None where none are so few.

    Of total degree 3 if these are few enough, else of degree 2, else powers alone.
    """
    axes = [axis for axis in map(coordinate, inputs.values()) if axis is not None]
    indices = range(len(axes))

    def up_to(*degrees: int) -> list[tuple[int, ...]]:
        every = itertools.combinations_with_replacement
        return [term for degree in degrees for term in every(indices, degree)]

    powers = [(k,) * degree for degree in (1, 2) for k in indices]
    for terms in (up_to(1, 2, 3), up_to(1, 2), powers):
        if 0 < len(terms) <= most:
            return np.stack([np.prod([axes[k] for k in term], axis=0) for term in terms], axis=1)
    return None
