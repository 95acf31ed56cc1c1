"""Fold designs: which points are fitted and which are held out.

A design is made once (``leave_p_groups_out("r", 2)``) and applied to any table. What comes out are
rows of 0 and 1 over that table, never other tables, so that one compiled program fits all folds.
The names are scikit-learn's where it has the design, and whatever has its ``split(X, y, groups)``
is a design as well; a *group* is a value of a column.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from jaxlaw._repr import short_repr
from jaxlaw._rounding import merged
from jaxlaw._spec_strings import parse_spec
from jaxlaw._typed import Between, RepeatCount, Seed, checked
from jaxlaw.data._columns import format_values
from jaxlaw.errors import ColumnError, DataError, UsageError, listed, name_rows, nearest

__all__ = [
    "Design",
    "Folds",
    "as_design",
    "contiguous_blocks",
    "from_sklearn",
    "hold_out",
    "in_sample",
    "k_fold",
    "leave_one_group_out",
    "leave_p_groups_out",
    "predefined_split",
    "shuffle_split",
]

_MAX_FOLDS = 10_000  # of a design; more are a typing error
Columns = str | Sequence[str]
Parts = Iterator[tuple[str, np.ndarray, np.ndarray]]  # label, held out (n,), fitted (n,)


@dataclass(frozen=True, eq=False)
class Folds:
    """The F folds of one table of n rows.

    Attributes:
        labels: one per fold: what is held out.
        fitted: (F, n) True where a fold fits the row.
        held_out: (F, n) True where a fold scores the row; a row may be in neither.

    Example:
        >>> folds = jl.folds.leave_one_group_out("N").split(pd.DataFrame({"N": [1, 1, 2, 3]}))
        >>> len(folds), folds.labels[0]
        (3, 'N = 1 held out')
        >>> folds.fitted[0]
        array([False, False,  True,  True])
    """

    labels: tuple[str, ...]
    fitted: np.ndarray
    held_out: np.ndarray

    __repr__ = short_repr

    def __len__(self) -> int:
        """The number of folds F."""
        return len(self.labels)


@dataclass(frozen=True)
class Design:
    """A way to cut any table into folds.

    Attributes:
        name: name on the command line, such as ``leave-p-groups-out:r:2``.
        cut: function from a table to the label, the rows held out (n,) and the rows fitted (n,)
            of each fold; picklable, for the design to be.
        of_all_rows: whether ``cut`` takes every row of the table, usable or not.

    Example:
        >>> design = jl.folds.leave_p_groups_out("n_params", 2)  # of three sizes
        >>> design.name, len(design.split(jl.simulate.demo().table))
        ('leave-p-groups-out:n_params:2', 3)
    """

    name: str
    cut: Callable[[pd.DataFrame], Iterable[tuple[str, np.ndarray, np.ndarray]]]
    of_all_rows: bool = False

    def split(self, table: pd.DataFrame, usable: np.ndarray | None = None) -> Folds:
        """The folds of a table.

        Args:
            table: DataFrame of n rows, with values as labels shall show them.
            usable: (n,) False for rows that no fold may have.

        Raises:
            DataError: a column is missing or has holes, it has too few values, or a fold
                would have nothing to fit or nothing to hold out.

        Example:
            >>> table = pd.DataFrame({"D": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
            >>> jl.folds.hold_out("D", "last", 1 / 3).split(table).held_out
            array([[False, False, False, False,  True,  True]])
        """
        usable = np.ones(len(table), bool) if usable is None else np.asarray(usable, bool)
        seen = np.ones_like(usable) if self.of_all_rows else usable
        labels, masks = [], {"held out": [], "left to fit": []}
        try:
            for label, *parts in self.cut(table.iloc[np.flatnonzero(seen)]):
                labels.append(label)
                for (what, rows), part in zip(masks.items(), parts, strict=True):
                    mask = np.zeros(len(table), bool)
                    mask[seen] = part
                    mask &= usable
                    if not mask.any():
                        raise DataError(f"fold '{label}' has no row {what}")
                    rows.append(mask)
        except DataError as error:
            raise type(error)(f"folds {self.name}: {error}") from None
        held_out, fitted = (np.stack(rows) for rows in masks.values())
        return Folds(tuple(labels), fitted, held_out)


def _design(cut: Callable[..., Parts], *given: Any, **columns: Any) -> Design:
    """The design that cuts by a function of a table: it is called as that function is."""
    columns = {key: value for key, value in columns.items() if value}
    words = [_names(value) for value in given]
    words += [f"{key}={_names(value)}" for key, value in columns.items()]
    name = cut.__name__.strip("_").replace("_", "-")
    return Design(":".join([name, *words]), partial(cut, given=given, **columns))


@checked
def leave_one_group_out(column: Columns) -> Design:
    """Hold out each value of a column in turn: sizes, domains, runs (``LeaveOneGroupOut``).

    Args:
        column: column whose values are the groups, or several whose combinations are.

    Example:
        >>> table = pd.DataFrame({"domain": ["code", "code", "law", "maths"]})
        >>> jl.folds.leave_one_group_out("domain").split(table).labels
        ('domain = code held out', 'domain = law held out', 'domain = maths held out')
    """
    return _design(_leave_one_group_out, column)


def _leave_one_group_out(table: pd.DataFrame, given: Any) -> Parts:
    return _leave_p_groups_out(table, (*given, 1))


@checked
def leave_p_groups_out(column: Columns, p: Annotated[int, Between(1)]) -> Design:
    """Hold out every choice of p values of a column (``LeavePGroupsOut``).

    Two of nine mixture ratios make 36 folds (Que 2024, §4.2), two of six domains 15 (§4.4).

    Args:
        column: column, or columns, as for :func:`leave_one_group_out`.
        p: number of values that a fold holds out.

    Example:
        >>> table = pd.DataFrame({"r": [0.0, 0.1, 0.2, 0.33]})
        >>> len(jl.folds.leave_p_groups_out("r", 2).split(table))
        6
    """
    return _design(_leave_p_groups_out, column, p)


def _leave_p_groups_out(table: pd.DataFrame, given: Any) -> Parts:
    column, p = given
    group, labels = _groups_of(table, column)
    if len(labels) <= p:
        raise DataError(
            f"{_names(column)} has {len(labels)} value{'' if len(labels) == 1 else 's'} "
            f"({', '.join(labels)}); with {p} held out nothing is left to fit"
        )
    if (count := math.comb(len(labels), p)) > _MAX_FOLDS:
        raise DataError(f"{count} folds; take k_fold(groups=…) instead")
    for chosen in itertools.combinations(range(len(labels)), p):
        held_out = np.isin(group, chosen)
        yield _held_label(column, [labels[i] for i in chosen]), held_out, ~held_out


@checked
def contiguous_blocks(
    column: str, n_blocks: Annotated[int, Between(2)] = 3, within: Columns | None = None
) -> Design:
    """Hold out each of equal blocks along a column in turn.

    Que 2024, §4.2: the points, "uniformly divided into three segments" along D. Blocks hold
    equal numbers of points, as nearly as they can, since a value is never divided.

    Args:
        column: column of numbers.
        n_blocks: number of blocks.
        within: column(s) that name a curve: each is then divided by itself; otherwise all
            points together. The same where all curves have the same points.

    Example:
        >>> table = pd.DataFrame({"D": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
        >>> jl.folds.contiguous_blocks("D", 3).split(table).labels
        ('1 ≤ D ≤ 2 held out', '3 ≤ D ≤ 4 held out', '5 ≤ D ≤ 6 held out')
    """
    return _design(_contiguous_blocks, column, n_blocks, within=within)


def _contiguous_blocks(table: pd.DataFrame, given: Any, within: Any = None) -> Parts:
    column, n_blocks = given
    values, quantile = _quantiles(table, column, within)
    block = np.floor(np.round(quantile * n_blocks, 9)).astype(int)
    for k in range(n_blocks):
        held_out = block == k
        if not held_out.any():
            raise DataError(
                f"the {len(np.unique(values))} values of {column} do not make {n_blocks} blocks; "
                "take fewer"
            )
        label = _range_label(column, values, held_out, within, f"block {k + 1} of {n_blocks}")
        yield label, held_out, ~held_out


@checked
def hold_out(
    column: str,
    which: Literal["largest", "last", "after"] = "largest",
    amount: int | float | str | Fraction | None = None,
    within: Columns | None = None,
) -> Design:
    """One fold: hold out one end of a column, an extrapolation.

    Args:
        column: column of numbers; a value of it is never divided.
        which: ``largest`` holds out the ``amount`` largest values; ``last`` the last share of
            the points; ``after`` all but the ``amount`` smallest values, such as the first four
            checkpoints (Isik 2024, §4).
        amount: number of values, 1 unless given, for ``largest`` and ``after``; for ``last`` a
            share between 0 and 1, a third unless given, as the figure beside Que's data-size
            study has it.
        within: column(s) that name a curve, each of which is then cut by itself.

    Raises:
        UsageError: an amount that is none.

    Example:
        >>> table = pd.DataFrame({"N": [1e8, 1e9, 1e9, 1e10]})
        >>> jl.folds.hold_out("N").split(table).labels
        ('N = 1e+10 held out',)
        >>> jl.folds.hold_out("N", "after", 1).split(table).labels
        ('1e+09 ≤ N ≤ 1e+10 held out',)
    """
    if which == "last":
        amount = _share("amount", Fraction(1, 3) if amount is None else amount)
    elif amount is None:
        amount = 1
    elif isinstance(amount, bool) or not isinstance(amount, int) or amount < 1:
        raise UsageError(f"amount is a whole number, 1 or more, not {amount!r}")
    return _design(_hold_out, column, which, amount, within=within)


def _hold_out(table: pd.DataFrame, given: Any, within: Any = None) -> Parts:
    column, which, amount = given
    if which == "last":
        values, quantile = _quantiles(table, column, within)
        held_out = np.round(quantile, 9) > 1 - float(amount)
        what = f"last {amount}"
        label = _range_label(column, values, held_out, within, what) if held_out.any() else "last"
        yield label, held_out, ~held_out
        return
    values = _numbers_of(table, column)
    distinct = np.unique(values)
    if len(distinct) < amount + 1:
        raise DataError(
            f"{column} has {len(distinct)} values; that needs {amount + 1} at least, some to fit "
            "and some to hold out"
        )
    by_curve = pd.Series(values).groupby(_groups_of(table, within)[0])
    rank = by_curve.rank(method="dense", ascending=which == "after").to_numpy()
    held_out = rank > amount if which == "after" else rank <= amount
    if which == "after":
        label = _range_label(column, values, held_out, within, f"after the first {amount}")
    elif within is None:
        label = _held_label(column, distinct[-amount:])
    else:
        label = f"largest {amount} of {column} held out"
    yield label, held_out, ~held_out


@checked
def k_fold(
    n_splits: Annotated[int, Between(2)] = 5,
    n_repeats: Annotated[RepeatCount, Between(1)] = 1,
    seed: Seed = 0,
    groups: Columns | None = None,
) -> Design:
    """Random folds of equal size, every row held out once per repeat (``RepeatedKFold``).

    Args:
        n_splits: number of folds.
        n_repeats: number of times the rows are shuffled and cut anew.
        seed: seed of the shuffling.
        groups: column(s) that name a run; the points of one run then stay together, as they
            should, since checkpoints of a run share its noise. Folds hold equal numbers of runs.

    Example:
        >>> jl.folds.k_fold(2).split(pd.DataFrame({"N": range(6)})).held_out.sum(axis=1)
        array([3, 3])
    """
    return _design(_k_fold, n_splits, n_repeats, seed, groups=groups)


def _k_fold(table: pd.DataFrame, given: Any, groups: Any = None) -> Parts:
    n_splits, n_repeats, seed = given
    group, count = _units(table, groups, n_splits)
    random = np.random.default_rng(seed)
    for repeat in range(n_repeats):
        fold = (random.permutation(count) % n_splits)[group]
        before = f"repeat {repeat + 1}, " if n_repeats > 1 else ""
        for k in range(n_splits):
            yield f"{before}fold {k + 1} of {n_splits} held out", fold == k, fold != k


@checked
def shuffle_split(
    test_size: float | str | Fraction = Fraction(1, 5),
    n_splits: Annotated[RepeatCount, Between(1)] = 10,
    seed: Seed = 0,
    groups: Columns | None = None,
) -> Design:
    """Hold out a random share of the rows, again and again (``ShuffleSplit``).

    Args:
        test_size: share held out, between 0 and 1, rounded to whole rows or runs, one at least.
        n_splits: number of folds.
        seed: seed of the shuffling.
        groups: column(s) that name a run, as for :func:`k_fold`.

    Example:
        >>> table = pd.DataFrame({"N": range(10)})
        >>> jl.folds.shuffle_split(0.2, n_splits=3).split(table).held_out.sum(axis=1)
        array([2, 2, 2])
    """
    return _design(_shuffle_split, _share("test_size", test_size), n_splits, seed, groups=groups)


def _shuffle_split(table: pd.DataFrame, given: Any, groups: Any = None) -> Parts:
    test_size, n_splits, seed = given
    group, count = _units(table, groups, 2)
    size = min(max(1, round(float(test_size) * count)), count - 1)
    random = np.random.default_rng(seed)
    for k in range(n_splits):
        held_out = (random.permutation(count) < size)[group]
        yield f"random {test_size}, draw {k + 1} held out", held_out, ~held_out


def in_sample() -> Design:
    """One fold that fits every point and is scored on the same: how well a law describes.

    Que 2024 calls it effectiveness (tables 1, 14, 15); it says nothing of unseen points.

    Example:
        >>> jl.folds.in_sample().split(pd.DataFrame({"N": [1, 2]})).labels
        ('none held out',)
    """
    return _design(_in_sample)


def _in_sample(table: pd.DataFrame, given: Any) -> Parts:
    every = np.ones(len(table), bool)
    yield "none held out", every, every


@checked
def from_sklearn(splitter: Any, groups: Columns | None = None) -> Design:
    """The folds of a scikit-learn splitter, or of anything with its ``split(X, y, groups)``.

    Args:
        splitter: object that is given the table, and yields (train, test) row numbers.
        groups: column(s) that name a row's group, for ``GroupKFold`` and the like.

    Raises:
        UsageError: it has no ``split``.

    Example:
        >>> from sklearn.model_selection import GroupKFold
        >>> table = pd.DataFrame({"run": ["a", "a", "b", "c"]})
        >>> len(jl.folds.from_sklearn(GroupKFold(3), groups="run").split(table))
        3
    """
    if isinstance(splitter, str | bytes) or not callable(getattr(splitter, "split", None)):
        raise UsageError(f"{splitter!r} is no splitter: it has no split(X, y, groups)")
    return Design(type(splitter).__name__, partial(_split, splitter=splitter, groups=groups))


def _split(table: pd.DataFrame, splitter: Any, groups: Any) -> Parts:
    group = None if groups is None else _groups_of(table, groups)[0]
    parts = list(splitter.split(table, None, group))
    for k, (train, test) in enumerate(parts):
        fitted, held_out = (np.zeros(len(table), bool) for _ in range(2))
        fitted[np.asarray(train)] = True
        held_out[np.asarray(test)] = True
        kind = type(splitter).__name__
        yield f"{kind}, split {k + 1} of {len(parts)} held out", held_out, fitted


@checked
def predefined_split(masks: Any, labels: Sequence[str] | None = None) -> Design:
    """Folds that you have made yourself.

    Args:
        masks: (F, n) of 0 and 1 (or truth values), one column per row of the runs as they were
            read: 1 is fitted, 0 is held out.
        labels: one per fold; numbered unless given.

    Raises:
        UsageError: masks of other numbers, or of another number than labels.

    Example:
        >>> design = jl.folds.predefined_split([[1, 1, 0]], labels=["the last"])
        >>> design.split(pd.DataFrame({"N": [1, 2, 3]})).held_out
        array([[False, False,  True]])
    """
    try:
        fitted = np.atleast_2d(np.asarray(masks)).astype(float, casting="safe")
    except (TypeError, ValueError) as error:
        raise UsageError(f"masks are (folds, rows) of 0 and 1 ({error})") from None
    if fitted.ndim != 2 or not np.isin(fitted, (0, 1)).all():
        raise UsageError(f"masks are (folds, rows) of 0 and 1, not {fitted.shape} of other numbers")
    if labels is not None and len(labels) != len(fitted):
        raise UsageError(f"{len(labels)} labels for {len(fitted)} masks")
    labels = labels or [f"mask {k + 1}" for k in range(len(fitted))]
    parts = partial(_mask_parts, fitted=fitted > 0, labels=list(labels))
    return Design("predefined", parts, of_all_rows=True)


def _mask_parts(table: pd.DataFrame, fitted: np.ndarray, labels: list[str]) -> Parts:
    if fitted.shape[1] != len(table):
        raise UsageError(f"masks of {fitted.shape[1]} rows for runs of {len(table)}")
    for label, mask in zip(labels, fitted, strict=True):
        yield label, ~mask, mask


#: Design by its name in text.
DESIGNS: dict[str, Callable[..., Design]] = {
    design.__name__.replace("_", "-"): design
    for design in (
        leave_one_group_out, leave_p_groups_out, contiguous_blocks, hold_out, k_fold,
        shuffle_split, in_sample,
    )
}  # fmt: skip


@checked
def as_design(folds: Any) -> Design:
    """A design, its name, a scikit-learn splitter or masks as a design.

    Args:
        folds: what :func:`jaxlaw.cross_validate` takes as ``folds``. A name has its arguments in
            order or by name, columns joined by ``+``: ``leave-p-groups-out:r:2``,
            ``contiguous-blocks:D:3:within=N+r``, ``hold-out:D:last:1/3``, ``k-fold:5:groups=run``.

    Raises:
        UsageError: it is none of these; no such design, or arguments it does not take.

    Example:
        >>> jl.folds.as_design("k-fold:5:groups=run").name
        'k-fold:5:1:0:groups=run'
    """
    if isinstance(folds, Design):
        return folds
    if isinstance(folds, np.ndarray | list | tuple):
        return predefined_split(folds)
    if not isinstance(folds, str):
        return from_sklearn(folds)
    name, positional, named = parse_spec(folds)
    if (build := DESIGNS.get(name)) is None:
        raise UsageError(
            f"there is no fold design '{name}'; designs: {', '.join(DESIGNS)}."
            f"{nearest(name, list(DESIGNS))}"
        )
    signature = inspect.signature(build)
    try:
        given = signature.bind(*positional, **named).arguments
    except TypeError as error:
        wanted = ":".join([name, *(key.upper() for key in signature.parameters)])
        raise UsageError(f"folds {folds}: {error}; write {wanted}") from None
    for key, value in given.items():
        if key in ("column", "within", "groups"):
            given[key] = value.split("+") if "+" in value else value
        elif value.removeprefix("-").isdecimal():
            given[key] = int(value)
    return build(**given)


def _units(table: pd.DataFrame, groups: Any, least: int) -> tuple[np.ndarray, int]:
    """(n,) number of the row or group that is shuffled as one, and how many there are."""
    group = np.arange(len(table)) if groups is None else _groups_of(table, groups)[0]
    count = int(group.max()) + 1 if len(group) else 0
    if count < least:
        what = "rows" if groups is None else f"values of {_names(groups)}"
        raise DataError(f"{count} {what} do not make {least} folds")
    return group, count


def _quantiles(table: pd.DataFrame, column: str, within: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) values, and the quantile, from 0 to 1, of each among the points (of its curve)."""
    values = _numbers_of(table, column)
    by_curve = pd.Series(values).groupby(_groups_of(table, within)[0])
    rank = by_curve.rank(method="average") - 0.5  # equal values have one quantile
    return values, (rank / by_curve.transform("size")).to_numpy()


def _values_of(table: pd.DataFrame, name: str) -> np.ndarray:
    """(n,) values; floats that differ by rounding alone are equal, and have 12 digits."""
    if name not in table.columns:
        shown = [str(column) for column in table.columns]
        raise ColumnError(
            f"there is no column {name}; columns: {listed(shown)}.{nearest(name, shown)}",
            column=name,
        )
    series = table[name]
    if series.isna().any():
        empty = table.index[series.isna()]
        message = f"column {name} is empty in {name_rows('row', empty)}; fill it or leave these out"
        raise DataError(message, row=empty[0], column=name)
    values = series.to_numpy()
    if values.dtype.kind != "f":
        return values
    distinct, number = np.unique(merged(values), return_inverse=True)
    return np.array([float(f"{value:.12g}") for value in distinct])[number]


def _numbers_of(table: pd.DataFrame, name: str) -> np.ndarray:
    values = _values_of(table, name)
    if values.dtype.kind not in "iuf":
        message = f"column {name} is no column of numbers, and has no order"
        raise DataError(message, column=name)
    return values.astype(float)


def _groups_of(table: pd.DataFrame, columns: Columns | None) -> tuple[np.ndarray, list[str]]:
    """(n,) number of each row's group, in order of the values, and the groups' names."""
    if columns is None:
        return np.zeros(len(table), int), ["all"]
    names = [columns] if isinstance(columns, str) else list(columns)
    frame = pd.DataFrame({name: _values_of(table, name) for name in names})
    group = frame.groupby(names, sort=True, observed=True).ngroup().to_numpy()
    heads = frame.iloc[np.unique(group, return_index=True)[1]]
    return group, ["/".join(row) for row in zip(*map(format_values, heads.T.values), strict=True)]


def _range_label(
    column: str, values: np.ndarray, held_out: np.ndarray, within: Any, what: str
) -> str:
    if within is not None:
        return f"{what} of {column} held out"
    low, high = format_values([float(values[held_out].min()), float(values[held_out].max())])
    return f"{low} ≤ {column} ≤ {high} held out"


def _held_label(column: Columns, values: Iterable[Any]) -> str:
    return f"{_names(column)} = {', '.join(format_values(values))} held out"


def _names(columns: Any) -> str:
    """Names of columns, or another argument, as names of designs have them."""
    return "+".join(map(str, columns)) if isinstance(columns, list | tuple) else str(columns)


def _share(name: str, value: Any) -> Fraction:
    try:
        share = Fraction(value).limit_denominator(1000)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise UsageError(f"{name} is a share between 0 and 1, such as 0.2 or 1/3, not {value}")
    return share
