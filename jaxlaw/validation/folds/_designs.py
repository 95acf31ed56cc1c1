"""The designs: leave values out, segments, extrapolations, random folds, your own.

A design is asked for by words (``leave_k_out("r", 2)``) and applied to a table later; what
comes out are rows of 0 and 1, never other tables, so that one compiled program fits all folds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._typed import RepeatCount, Seed, checked
from jaxlaw.errors import DataError, UsageError
from jaxlaw.validation.folds._masks import (
    Design,
    Part,
    distinct_of,
    groups_of,
    joined,
    numbers_of,
    recorded,
    short,
    values_of,
)

MOST = 10_000  # folds of a design: more are a slip of the pen


@recorded
@checked
def leave_one_out(column: str | Sequence[str]) -> Design:
    """Hold out each value of a column in turn: sizes, domains, runs.

    Args:
        column: a column, or several whose combinations are the values.
    """
    return _leave_out(f"leave-one-out:{joined(column)}", column, 1)


@recorded
@checked
def leave_k_out(column: str | Sequence[str], k: int) -> Design:
    """Hold out every choice of k values of a column.

    Two of nine mixture ratios make 36 folds (Que 2024, §4.2), two of six domains 15 (§4.4).

    Args:
        column: as for :func:`leave_one_out`.
        k: how many values a fold holds out.
    """
    _whole("k", k)
    return _leave_out(f"leave-k-out:{joined(column)}:{k}", column, k)


@recorded
@checked
def segments(column: str, count: int = 3, within: str | Sequence[str] | None = None) -> Design:
    """Hold out each of equal segments along a column in turn.

    Que 2024, §4.2: the points, "uniformly divided into three segments" along D. Segments hold
    equal numbers of points, as nearly as they can, since a value is never divided.

    Args:
        column: a column of numbers.
        count: how many segments.
        within: column(s) that name a curve: each is then divided by itself; otherwise all
            points together. The same where all curves have the same points.
    """
    _whole("count", count, least=2)

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        values, place = _places(table, column, within)
        segment = np.floor(np.round(place * count, 9)).astype(int)
        for k in range(count):
            held = segment == k
            if not held.any():
                raise DataError(
                    f"folds {name}: the {len(np.unique(values))} values of {column} do not make "
                    f"{count} segments; take fewer"
                )
            yield _between(column, values, held, within, f"segment {k + 1} of {count}"), held, ~held

    name = f"segments:{column}:{count}{_within(within)}"
    return Design(name, cut)


@recorded
@checked
def largest(column: str, count: int = 1) -> Design:
    """One fold: hold out the largest values of a column, an extrapolation.

    Args:
        column: a column of numbers.
        count: how many of its values.
    """
    _whole("count", count)

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        values = numbers_of(table, column)
        distinct = distinct_of(table, column, count + 1)
        held = values >= distinct[-count]
        yield _held(column, distinct[-count:]), held, ~held

    return Design(f"largest:{column}:{count}", cut)


@recorded
@checked
def last(
    column: str,
    share: float | str | Fraction = Fraction(1, 3),
    within: str | Sequence[str] | None = None,
) -> Design:
    """One fold: hold out the last share of the points along a column.

    With 1/3 of D, what the figure beside Que's data-size study shows: the first two thirds
    are fitted.

    Args:
        column: a column of numbers; a value of it is never divided.
        share: between 0 and 1.
        within: as for :func:`segments`.
    """
    part = _share(share)

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        values, place = _places(table, column, within)
        held = np.round(place, 9) > 1 - float(part)
        label = _between(column, values, held, within, f"last {part}") if held.any() else "last"
        yield label, held, ~held

    return Design(f"last:{column}:{part}{_within(within)}", cut)


@recorded
@checked
def first(column: str, count: int, within: str | Sequence[str] | None = None) -> Design:
    """One fold: fit the first values of a column, hold out the rest.

    With four checkpoints, the study of Isik 2024, §4.

    Args:
        column: a column of numbers.
        count: how many of its values are fitted.
        within: as for :func:`segments`.
    """
    _whole("count", count)

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        values = pd.Series(numbers_of(table, column))
        distinct_of(table, column, count + 1)
        rank = values.groupby(groups_of(table, within)[0]).rank(method="dense").to_numpy()
        held = rank > count
        label = _between(column, values.to_numpy(), held, within, f"after the first {count}")
        yield label, held, ~held

    return Design(f"first:{column}:{count}{_within(within)}", cut)


@recorded
@checked
def k_fold(
    k: int = 5, repeats: RepeatCount = 1, seed: Seed = 0, groups: str | Sequence[str] | None = None
) -> Design:
    """Random folds of equal size, every row held out once per repeat.

    Args:
        k: folds.
        repeats: how many times, shuffled anew.
        seed: of the shuffling.
        groups: column(s) that name a run; the points of one run then stay together, as they
            should, since checkpoints of a run share its noise. Folds hold equal numbers of runs.
    """
    _whole("k", k, least=2)
    _whole("repeats", repeats)

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        group, count = _dealt(table, groups, k, name)
        draw = np.random.default_rng(seed)
        for repeat in range(repeats):
            fold = (draw.permutation(count) % k)[group]
            before = f"repeat {repeat + 1}, " if repeats > 1 else ""
            for one in range(k):
                held = fold == one
                yield f"{before}fold {one + 1} of {k} held out", held, ~held

    name = f"k-fold:{k}:{repeats}:{seed}" + (f":groups={joined(groups)}" if groups else "")
    return Design(name, cut)


@recorded
@checked
def random_split(
    share: float | str | Fraction = Fraction(1, 5),
    repeats: RepeatCount = 10,
    seed: Seed = 0,
    groups: str | Sequence[str] | None = None,
) -> Design:
    """Hold out a random share of the rows, again and again.

    Args:
        share: between 0 and 1, rounded to whole rows or runs, one at least.
        repeats: folds.
        seed, groups: as for :func:`k_fold`.
    """
    part = _share(share)
    _whole("repeats", repeats)

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        group, count = _dealt(table, groups, 2, name)
        size = min(max(1, round(float(part) * count)), count - 1)
        draw = np.random.default_rng(seed)
        for repeat in range(repeats):
            held = (draw.permutation(count) < size)[group]
            yield f"random {part}, draw {repeat + 1} held out", held, ~held

    name = f"random-split:{part}:{repeats}:{seed}" + (f":groups={joined(groups)}" if groups else "")
    return Design(name, cut)


@recorded
@checked
def splitter(
    other: Any, groups: str | Sequence[str] | None = None, target: str | None = None
) -> Design:
    """The folds of a scikit-learn splitter, or of anything with its ``split(X, y, groups)``.

    Args:
        other: the splitter; it is given the table, and yields (train, test) row numbers.
        groups: column(s) that name a row's group, for ``GroupKFold`` and the like.
        target: column handed over as y, for stratified ones.
    """
    if isinstance(other, str | bytes) or not callable(getattr(other, "split", None)):
        raise UsageError(f"{other!r} is no splitter: it has no split(X, y, groups)")
    kind = type(other).__name__

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        group = None if groups is None else groups_of(table, groups)[0]
        y = None if target is None else values_of(table, target)
        parts = list(other.split(table, y, group))
        for k, (train, test) in enumerate(parts):
            fitted, held = (np.zeros(len(table), bool) for _ in range(2))
            fitted[np.asarray(train)] = True
            held[np.asarray(test)] = True
            yield f"{kind}, split {k + 1} of {len(parts)} held out", held, fitted

    return Design(kind, cut)


@recorded
@checked
def own_masks(masks: Any, labels: Sequence[str] | None = None, name: str = "own") -> Design:
    """Your own folds.

    Args:
        masks: (F, n) of 0 and 1 (or truth values), one column per row of the runs as they were
            read: 1 is fitted, 0 is held out.
        labels: one per fold.
        name: of the design.
    """
    try:
        given = np.atleast_2d(np.asarray(masks, float))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"masks are (folds, rows) of 0 and 1 ({error})") from None
    if given.ndim != 2 or not np.isin(given, (0, 1)).all():
        raise UsageError(f"masks are (folds, rows) of 0 and 1, not {given.shape} of other numbers")
    if labels is not None and len(labels) != len(given):
        raise UsageError(f"{len(labels)} labels for {len(given)} masks")
    labels = [f"mask {k + 1}" for k in range(len(given))] if labels is None else list(labels)

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        if given.shape[1] != len(table):
            raise UsageError(f"masks of {given.shape[1]} rows for runs of {len(table)}")
        for label, mask in zip(labels, given > 0, strict=True):
            yield label, ~mask, mask

    return Design(name, cut, of_all_rows=True)


@recorded
def all_points() -> Design:
    """One fold that fits every point and is scored on the same: how well a law describes.

    Que 2024 calls it effectiveness (tables 1, 14, 15); it says nothing of unseen points.
    """

    def cut(table: pd.DataFrame) -> Iterator[Part]:
        every = np.ones(len(table), bool)
        yield "none held out", every, every

    return Design("all-points", cut)


def _leave_out(name: str, column: str | Sequence[str], k: int) -> Design:
    def cut(table: pd.DataFrame) -> Iterator[Part]:
        group, labels = groups_of(table, column)
        if len(labels) <= k:
            raise DataError(
                f"folds {name}: {joined(column)} has {len(labels)} value"
                f"{'' if len(labels) == 1 else 's'} ({', '.join(labels)}); with {k} held out "
                "nothing is left to fit"
            )
        if (count := math.comb(len(labels), k)) > MOST:
            raise DataError(f"folds {name}: {count} folds; take k_fold(groups=…) instead")
        for chosen in itertools.combinations(range(len(labels)), k):
            held = np.isin(group, chosen)
            yield _held(joined(column), [labels[i] for i in chosen]), held, ~held

    return Design(name, cut)


def _dealt(table: pd.DataFrame, groups: Any, least: int, name: str) -> tuple[np.ndarray, int]:
    """(n,) what is dealt out together, and how many such there are."""
    group = np.arange(len(table)) if groups is None else groups_of(table, groups)[0]
    count = int(group.max()) + 1 if len(group) else 0
    if count < least:
        what = "rows" if groups is None else f"values of {joined(groups)}"
        raise DataError(f"folds {name}: {count} {what} do not make {least} folds")
    return group, count


def _places(table: pd.DataFrame, column: str, within: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) values, and where each lies among the points (of its curve), from 0 to 1."""
    values = numbers_of(table, column)
    by_curve = pd.Series(values).groupby(groups_of(table, within)[0])
    middle = by_curve.rank(method="average") - 0.5  # equal values share one place
    return values, (middle / by_curve.transform("size")).to_numpy()


def _between(column: str, values: np.ndarray, held: np.ndarray, within: Any, what: str) -> str:
    if within is not None:
        return f"{what} of {column} held out"
    low, high = short([float(values[held].min()), float(values[held].max())])
    return f"{low} ≤ {column} ≤ {high} held out"


def _held(column: str, values: Iterable[Any]) -> str:
    return f"{column} = {', '.join(short(values))} held out"


def _within(within: Any) -> str:
    return "" if within is None else f":within={joined(within)}"


def _share(share: Any) -> Fraction:
    try:
        part = Fraction(share).limit_denominator(1000)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        part = Fraction(0)
    if not 0 < part < 1:
        raise UsageError(f"share is between 0 and 1, such as 0.2 or 1/3, not {share}")
    return part


def _whole(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} is a whole number, {least} or more, not {value!r}")
