"""What the runs of a fit say against the experiment rather than against the law, as notes.

A table may mix corpora, tokenizers, evaluations or versions of the code, its columns may be
swapped, capped or rounded, and a law fits all of that smoothly. What is left to see are values
that no healthy experiment has, and residuals that fall into groups: by a column the law does not
use, by the order of the rows, by size, or by nothing in the table. Whatever the fit and a smooth
function of the inputs can take up is removed from the groups before they are judged.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw._rounding import ranks
from jaxlaw.data import RunGroups, dependence_note, name_rows
from jaxlaw.fitting._residual_checks import CHANCE, Residuals, _basis, _clipped, coordinate
from jaxlaw.laws import Law
from jaxlaw.notes import Note

VOCABULARY = 1_000_000  # tokens, more than any tokenizer has
GUESS = math.log(VOCABULARY)  # nats that an even guess among them loses
RATES = ("lr", "learning_rate", "peak_lr", "max_lr", "peak_learning_rate")
COARSE = 0.5  # of the scatter: rounding by as much hides what the law leaves
PILED = 2  # times as many rows at the largest D as at any other: a cap, or a design
WIDE = 10.0  # factor in N from which on one learning rate cannot be best for all sizes
FOLLOWS = 0.25  # of its variance at most is left of what rises and falls with inputs
APART = 0.1  # of the residual variance that a group must explain
# Of the residual variance, within the two groups that leave least: the most that is left of two
# kinds. Normal residuals leave 36 %, evenly spread ones 25 %, the two ends of a smooth misfit 19 %;
# by chance fewer rows leave less, 0.33 − 1/√spare in 1 of 1,000 tables.
ONE_KIND = 0.17
ALIKE = 0.7  # of the largest sum of squares: an explanation about as good
FEWEST = 0.15  # of the rows, below which what is far off is a matter of outliers
_ROUNDS = 20
_STARTS = 8  # of the search for two groups, beside the residuals themselves
_MANY = 2000  # rows, from which on the residuals themselves are start enough
_EACH = 3  # rows each side of a difference
_LEVELS = 8  # of a column, more are no groups
_MOST = 5000  # rows in which groups are looked for
_COLUMNS = 100  # the first so many of a wide table
_GROUPED = "mixed-runs"


class Group(NamedTuple):
    """Rows whose residuals differ from the others'.

    Attributes:
        chance: probability that noise alone does as much, for all that was tried of the kind.
        square: sum of squares that it explains.
        text: what the rows are, and by how much they are off.
        rest: (n,) residuals without the difference.
    """

    chance: float
    square: float
    text: str
    rest: np.ndarray


class _Left(NamedTuple):
    """What the fit leaves: residuals y (n,) orthogonal to the columns of Q (n, m), by √weight."""

    Q: np.ndarray
    y: np.ndarray
    root: np.ndarray

    @property
    def spare(self) -> int:
        return len(self.y) - self.Q.shape[1]

    def share(self, columns: np.ndarray) -> tuple[float, int, np.ndarray]:
        """Share of the variance that columns (n, q) explain, how many count, their part of y."""
        apart = columns - self.Q @ (self.Q.T @ columns)
        left, singular, _ = np.linalg.svd(apart, full_matrices=False)
        left = left[:, singular > 1e-3 * np.linalg.norm(columns)]
        part = left @ (left.T @ self.y)
        return float(part @ part / (self.y @ self.y)), left.shape[1], part

    def without(self, column: np.ndarray) -> _Left:
        """The same, with a column (n, 1) taken up as well."""
        apart = column - self.Q @ (self.Q.T @ column)
        if np.linalg.norm(apart) <= 1e-3 * np.linalg.norm(column):
            return self
        apart = apart / np.linalg.norm(apart)
        return _Left(np.hstack([self.Q, apart]), self.y - (apart @ (apart.T @ self.y)), self.root)

    def chance(self, share: float, count: int) -> float:
        """Probability of F that noise has such a share in ``count`` columns."""
        from scipy.special import fdtrc  # only where it is needed

        spare = self.spare - count
        if count < 1 or spare < _EACH:
            return 1.0
        return float(fdtrc(count, spare, share / count / max((1 - share) / spare, 1e-300)))


def experiment_notes(
    law: Law,
    residuals: Residuals,
    others: pd.DataFrame | None = None,
    order: np.ndarray | None = None,
    *,
    misfit: bool = False,
) -> list[Note]:
    """Notes ``doubtful-values`` and ``mixed-runs``, where the runs give reason.

    Args:
        law: the law.
        residuals: of its fit.
        others: (n rows) columns of the user's table that the law does not use.
        order: (n,) where in the user's table the rows are.
        misfit: whether the law lacks a term, whose two ends are no groups.
    """
    kept = residuals.weight > 0
    others = None if others is None else others[kept]
    order = None if order is None else np.asarray(order)[kept]
    residuals = residuals.active
    if not np.isfinite(residuals.off).all() or not np.isfinite(residuals.slopes).all():
        return []
    sizes = _in_single_ones(law, residuals)
    values = [
        *_no_nats(law, residuals),
        *_swapped(law, sizes),
        *_rounded(residuals),
        *_piled(sizes, residuals),
        *_one_rate(sizes, others),
    ]
    every = -(-len(residuals.off) // _MOST)
    if every > 1:  # of very many rows a sample shows groups as well
        some = np.arange(len(residuals.off)) % every == 0
        residuals = dataclasses.replace(residuals, weight=residuals.weight * some).active
        sizes = {name: values[some] for name, values in sizes.items()}
        others = None if others is None else others[some]
        order = None if order is None else order[some]
    return [
        *(Note("doubtful-values", "warning", text, inherited=True) for text in values),
        *_grouped(residuals, sizes, others, order, misfit),
    ]


def _in_single_ones(law: Law, residuals: Residuals) -> dict[str, np.ndarray]:
    """N and D of a law that has both, in parameters and tokens; else nothing."""
    units = {spec.name: spec.unit for spec in law.inputs if spec.name in ("N", "D")}
    return {k: residuals.inputs[k] * units[k] for k in ("N", "D")} if len(units) == 2 else {}


# ---------------------------------------------------------------------------- values


def _no_nats(law: Law, residuals: Residuals) -> Iterator[str]:
    """Losses above that of a guess among all tokens: percent, perplexities, sums over tokens."""
    target = np.exp(residuals.target) if residuals.log else residuals.target
    if law.target == "loss" and target.min() > GUESS:
        yield (
            f"the lowest loss is {target.min():.4g}, and a guess among {VOCABULARY:,} tokens loses "
            f"{GUESS:.1f} nats: are these percent, perplexities or sums? Give nats a token"
        )


def _swapped(law: Law, sizes: dict[str, np.ndarray]) -> Iterator[str]:
    continual = law.from_base or any(spec.domain == "fraction" for spec in law.inputs)
    if not sizes or continual:  # whose tokens may be few
        return
    below = int((sizes["D"] < sizes["N"]).sum())
    if 2 * below > len(sizes["N"]):
        yield (
            f"D is below N in {below} of {len(sizes['N'])} rows, fewer tokens than parameters: are "
            "the two columns swapped, or is D counted in sequences or steps?"
        )


def _rounded(residuals: Residuals) -> Iterator[str]:
    # A law with nearly as many parameters as rows passes through them and leaves no scatter.
    if len(residuals.target) - residuals.slopes.shape[1] < 2 * _EACH:
        return
    target = np.exp(residuals.target) if residuals.log else residuals.target
    step = _grid(target)
    if step is None:
        return
    typical = float(np.mean(np.abs(target))) if residuals.log else 1.0
    scatter = float(np.std(residuals.off))
    if step / np.sqrt(12) / typical < COARSE * scatter:
        return
    yield (
        f"the target is rounded to {step:g}, {residuals.size(step / typical).lstrip('+')} of it, "
        "which is most of the scatter about the law: read the runs with more digits"
    )


def _grid(values: np.ndarray) -> float | None:
    """The coarsest decimal or binary grid that all values lie on, from 1 to 1e-3; else None."""
    for step in sorted([*(10.0**-k for k in range(4)), *(2.0**-k for k in range(1, 11))])[::-1]:
        if np.all(np.abs(values / step - np.round(values / step)) < 1e-6):
            return step
    return None


def _piled(sizes: dict[str, np.ndarray], residuals: Residuals) -> Iterator[str]:
    """Many rows at the largest D, whose losses differ by what D does not say."""
    if not sizes:
        return
    rank = ranks(sizes["D"])
    count = np.bincount(rank)
    spare = len(sizes["D"]) - residuals.slopes.shape[1]
    if len(count) < 2 or count[-1] < max(_EACH, PILED * count[:-1].max()) or spare < 2 * _EACH:
        return
    from scipy.special import fdtrc  # only where it is needed

    left = _left(residuals, 0)
    at = rank == rank.max()
    ratio = np.mean(left.y[at] ** 2) / max(np.mean(left.y[~at] ** 2), residuals.nothing**2)
    free = [max(1.0, k.sum() * left.spare / len(at)) for k in (at, ~at)]
    if ratio > 2 and fdtrc(*free, ratio) < 0.01:
        yield (
            f"{count[-1]} of {len(at)} rows have the same largest D, {sizes['D'].max():.3g}, and "
            f"scatter {np.sqrt(ratio):.1f} times as far about the law as the others: is D recorded "
            "up to a cap only?"
        )


def _one_rate(sizes: dict[str, np.ndarray], others: pd.DataFrame | None) -> Iterator[str]:
    if not sizes or others is None or sizes["N"].max() < WIDE * sizes["N"].min():
        return
    for name, values in others.items():
        if str(name).lower() not in RATES or not pd.api.types.is_numeric_dtype(values):
            continue
        if values.nunique(dropna=False) == 1 and values.notna().all():
            yield (
                f"column {name} is {values.iloc[0]} in every row, for sizes that differ by a "
                f"factor of {sizes['N'].max() / sizes['N'].min():.0f}: unless the rate is scaled "
                "elsewhere (μP), it is too high for the largest, whose loss is then too high"
            )


# ---------------------------------------------------------------------------- groups


def _left(residuals: Residuals, most: int) -> _Left:
    basis, first, root = _basis(residuals, max(most, 0))
    basis = basis if most > 0 else basis[:, :first]
    target = _clipped(residuals.off, residuals.scatter) * root
    return _Left(basis, target - basis @ (basis.T @ target), root)


def _grouped(
    residuals: Residuals,
    sizes: dict[str, np.ndarray],
    others: pd.DataFrame | None,
    order: np.ndarray | None,
    misfit: bool,
) -> list[Note]:
    count, free = residuals.slopes.shape
    if count - free < 2 * _EACH:
        return []
    left = _left(residuals, (count - free - 1) // 4)
    if left.spare < 2 * _EACH or left.y.std() < residuals.nothing:
        return []
    everything, along = _left(residuals, 0), _Along(residuals.inputs)
    found = [
        *_by_column(residuals, left, others, along),
        *_by_order(residuals, left, order, along),
        *(() if misfit else _by_size(residuals, left, sizes)),
    ]
    least = APART * (everything.y @ everything.y)
    found = [group for group in found if group.chance < CHANCE and group.square > least]
    found = [group for group in found if _independent(residuals.runs, group.rest)]
    text = _named_group(found)
    # In the target's own unit the noise differs from row to row, which looks like groups.
    if not found and residuals.log:
        text = _two_clusters(residuals, left if misfit else everything)
    if not text:
        return []
    message = (
        f"{text}; one law fitted to both is right for neither: check what differs (corpus, "
        "tokenizer, evaluation, schedule, code), and fit them apart"
    )
    return [Note(_GROUPED, "warning", message, inherited=True)]


def _named_group(found: list[Group]) -> str:
    """The text of the first group that explains about as much as the best; empty if none.

    What a column names comes first, and is more than a place that explains it about as well.
    """
    most = max((group.square for group in found), default=0.0)
    return next((group.text for group in found if group.square > ALIKE * most), "")


def _independent(runs: RunGroups | None, rest: np.ndarray) -> bool:
    """Whether rows that may be of one run are independent once a group is accounted for."""
    return runs is None or runs.count < 2 or not dependence_note(runs, rest, rest)


def _group(left: _Left, columns: np.ndarray, tried: int, text: str) -> Group:
    share, count, part = left.share(columns * left.root[:, None])
    rest = (left.y - part) / left.root
    return Group(left.chance(share, count) * tried, float(part @ part), text, rest)


def _by_column(
    residuals: Residuals, left: _Left, others: pd.DataFrame | None, along: _Along
) -> Iterator[Group]:
    columns = {} if others is None else dict(_levels(residuals, others, along))
    axes = [np.log(v) for v in residuals.inputs.values() if v.ndim == 1 and v.min() > 0]
    axes = [(axis - axis.mean()) / axis.std() for axis in axes if axis.std() > 0]
    for name, (codes, labels) in columns.items():
        of_level = np.eye(len(labels))[codes][:, 1:]
        means = np.bincount(codes, left.y / left.root) / np.bincount(codes)
        high, low = int(np.argmax(means)), int(np.argmin(means))
        text = (
            f"residuals follow column {name}, which the law does not use: {labels[high]} lies "
            f"{residuals.size(means[high] - means[low])} off {labels[low]}"
        )
        tilted = np.hstack([of_level, *(of_level * axis[:, None] for axis in axes)])
        for kind in (of_level, tilted):
            yield _group(left, kind, 2 * len(columns), text)


def _levels(
    residuals: Residuals, others: pd.DataFrame, along: _Along
) -> Iterator[tuple[Any, tuple[np.ndarray, np.ndarray]]]:
    """Columns of few values, each in several rows, that do not rise and fall with the inputs."""
    inputs = [ranks(values) for values in residuals.inputs.values() if values.ndim == 1]
    for name, values in itertools.islice(others.items(), _COLUMNS):
        try:
            codes, labels = pd.factorize(values, use_na_sentinel=False)
        except TypeError:  # lists and the like
            continue
        if not 2 <= len(labels) <= _LEVELS or np.bincount(codes).min() < _EACH:
            continue
        labels = np.asarray(labels)
        if _are_ranges(codes, len(labels), inputs):
            continue
        if labels.dtype.kind in "iuf" and np.isfinite(labels).all():
            if along.says(np.argsort(np.argsort(labels))[codes].astype(float)):
                continue
        yield name, (codes, labels)


def _are_ranges(codes: np.ndarray, count: int, inputs: list[np.ndarray]) -> bool:
    """Whether levels are ranges of one input, such as classes of size."""
    in_order = (codes[np.lexsort((codes, of_input))] for of_input in inputs)
    return any(np.sum(rows[1:] != rows[:-1]) < count for rows in in_order)


def _by_order(
    residuals: Residuals, left: _Left, order: np.ndarray | None, along: _Along
) -> Iterator[Group]:
    if order is None:
        return
    ranked = np.argsort(order, kind="stable")
    place = np.argsort(ranked).astype(float)
    if along.says(place):
        return
    first = _best_split(left, ranked, np.arange(_EACH, len(order) - _EACH + 1))
    if first is None:
        return
    split, tried = first
    later = place >= split
    word, row = residuals.word, residuals.rows[ranked[split]]
    means = [float(np.mean((left.y / left.root)[side])) for side in (later, ~later)]
    text = (
        f"rows from {word} {row} on lie {residuals.size(means[0] - means[1])} off those before, in "
        "the order of the table"
    )
    yield _group(left, later[:, None].astype(float), tried, text)


class _Along:
    """What rises or falls with the inputs: their logarithms and their ranks, taken together."""

    def __init__(self, inputs: Mapping[str, np.ndarray]) -> None:
        axes = [axis for axis in map(coordinate, inputs.values()) if axis is not None]
        # Rows sorted by one of few sizes, then by tokens, are a staircase: so ranks as well.
        columns = [np.ones(len(next(iter(inputs.values())))), *axes, *map(ranks, axes)]
        left, singular, _ = np.linalg.svd(np.column_stack(columns), full_matrices=False)
        self.basis = left[:, singular > 1e-9 * singular[0]]

    def says(self, values: np.ndarray) -> bool:
        """Whether values rise or fall with the inputs, so that they are nothing of their own."""
        rest = values - self.basis @ (self.basis.T @ values)
        return bool(np.var(rest) < FOLLOWS * np.var(values))


def _by_size(residuals: Residuals, left: _Left, sizes: dict[str, np.ndarray]) -> Iterator[Group]:
    """A step in N or D: no law has one, and a bend at the same size does not explain it."""
    if len(residuals.inputs) > len(sizes):  # laws of more inputs may bend in more ways
        return
    for name, values in sizes.items():
        rank = ranks(values)
        ranked = np.argsort(rank, kind="stable")
        at = np.flatnonzero(np.diff(rank[ranked])) + 1
        at = at[(at >= _EACH) & (at <= len(values) - _EACH)]
        best = _best_split(left, ranked, at)
        if best is None:
            continue
        split, tried = best
        larger = rank >= rank[ranked[split]]
        axis = np.log(values / values[ranked[split]])
        bend = np.maximum(axis, 0)[:, None] * left.root[:, None]
        left_of_bend = left.without(bend)
        means = [float(np.mean((left.y / left.root)[side])) for side in (larger, ~larger)]
        text = (
            f"runs of {name} from {values[ranked[split]]:.3g} on are "
            f"{'higher' if means[0] > means[1] else 'lower'} than the smaller ones predict, by a "
            "step that no smooth law has"
        )
        step = larger[:, None].astype(float)
        both = (_group(of, step, tried, text) for of in (left, left_of_bend))
        yield max(both, key=lambda group: group.chance)


def _best_split(left: _Left, ranked: np.ndarray, at: np.ndarray) -> tuple[int, int] | None:
    """Where a step explains most, rows in an order; and how many places were tried."""
    if not len(at):
        return None
    Q, y, root = left.Q[ranked], left.y[ranked], left.root[ranked]
    # A step from k on has the sums of the rows before k as its products, but for the sign.
    sums = np.cumsum(Q * root[:, None], axis=0)[at - 1]
    size = np.cumsum(root**2)[at - 1]
    apart = size - np.sum(sums**2, axis=1)
    seen = apart > 0.02 * size * (1 - size / np.sum(root**2))
    if not seen.any():
        return None
    share = np.where(seen, np.cumsum(y * root)[at - 1] ** 2 / np.where(seen, apart, 1.0), 0.0)
    return int(at[np.argmax(share)]), int(seen.sum())


def _two_clusters(residuals: Residuals, left: _Left) -> str:
    """Residuals of two kinds that nothing in the table distinguishes; empty where there is one."""
    count, free = left.Q.shape
    starts, random = [left.y], np.random.default_rng(0)
    # The residuals of fits to half of the rows, too: one search ends at a poor division.
    for _ in range(_STARTS if count <= _MANY else 0):
        half = random.permutation(count)[: max(free + 2, count // 2)]
        of_half, *_ = np.linalg.lstsq(left.Q[half], left.y[half], rcond=None)
        starts.append(left.y - left.Q @ of_half)
    within, apart, upper = _two_kinds(left, np.stack(starts))
    if within > min(ONE_KIND, 0.33 - left.spare**-0.5):
        return ""
    fewer = np.flatnonzero(upper == (upper.mean() < 0.5))
    named = name_rows(residuals.word, residuals.rows[fewer])
    return (
        f"residuals fall into two groups {residuals.size(abs(apart)).lstrip('+')} apart, of "
        f"{len(fewer)} and {count - len(fewer)} rows; the smaller: {named}"
    )


def _two_kinds(left: _Left, starts: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Rows in two groups, the law fitted beside their difference, until none changes its group.

    Args:
        left: what the fit leaves.
        starts: (S, n) residuals to begin with.

    Returns:
        Of the best start the share of the variance that is left, the difference, and (n,) whether
        a row is of the upper group.
    """
    upper = _upper(starts / left.root)
    for _ in range(_ROUNDS):
        columns = upper * left.root
        apart = columns - columns @ left.Q @ left.Q.T
        length = np.sum(apart**2, axis=1)
        seen = length > 0.01 * len(left.y)  # else the law takes up the difference itself
        size = np.where(seen, apart @ left.y / np.where(seen, length, 1.0), 0.0)
        rest = left.y - size[:, None] * apart
        again = _upper(rest / left.root + size[:, None] * upper)
        if (again == upper)[seen].all():
            break
        upper = again
    best = int(np.argmin(np.sum(rest**2, axis=1)))
    share = np.sum(rest[best] ** 2) / (left.y @ left.y)
    return float(share), float(size[best]), columns[best] > 0


def _upper(off: np.ndarray) -> np.ndarray:
    """(S, n) whether a row is of the upper of the two groups that leave least within them."""
    count = off.shape[1]
    ranked = np.sort(off, axis=1)
    sums = np.cumsum(ranked - ranked.mean(axis=1, keepdims=True), axis=1)[:, :-1]
    below = np.arange(1, count)
    between = sums**2 / (below * below[::-1])
    fewest = max(_EACH, int(np.ceil(FEWEST * count)))
    between[:, : fewest - 1] = between[:, count - fewest :] = 0.0
    highest = np.take_along_axis(ranked, np.argmax(between, axis=1)[:, None], axis=1)
    return off > highest
