"""Fold designs: which points are fitted and which are held out.

A design is made once (``leave_p_groups_out("r", 2)``) and applied to any table. What comes out are
rows of 0 and 1 over that table, never other tables, so that one compiled program fits all folds.
The names are scikit-learn's where it has the design, and whatever has its ``split(X, y, groups)``
is a design as well; a *group* is a value of a column.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
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
            of each fold.
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
        seen = np.flatnonzero(usable | self.of_all_rows)
        labels, masks = [], []
        try:
            for label, *parts in self.cut(table.iloc[seen]):
                both = np.zeros((2, len(table)), bool)
                both[:, seen] = parts
                both &= usable
                for what, mask in zip(("held out", "left to fit"), both, strict=True):
                    if not mask.any():
                        raise DataError(f"fold '{label}' has no row {what}")
                labels.append(label)
                masks.append(both)
            if not labels:
                raise DataError("there are too few values for a fold")
        except DataError as error:
            raise type(error)(f"folds {self.name}: {error}") from None
        held_out, fitted = np.stack(masks, axis=1)
        return Folds(tuple(labels), fitted, held_out)


def _design(cut: Callable[[pd.DataFrame], Parts], name: str, *given, **columns) -> Design:
    """A design whose name has its arguments, as :func:`as_design` reads them."""
    words = [name, *map(_names, given)]
    words += [f"{key}={_names(value)}" for key, value in columns.items() if value]
    return Design(":".join(words), cut)


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
    return replace(leave_p_groups_out(column, 1), name=f"leave-one-group-out:{_names(column)}")


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

    def cut(table):
        group, labels = _groups_of(table, column)
        if (count := math.comb(len(labels), p)) > _MAX_FOLDS:
            raise DataError(f"{count} folds; take k_fold(groups=…) instead")
        # It would reserve room for p, however large.
        for chosen in itertools.combinations(range(len(labels)), min(p, len(labels) + 1)):
            held_out = np.isin(group, chosen)
            values = ", ".join(labels[k] for k in chosen)
            yield f"{_names(column)} = {values} held out", held_out, ~held_out

    return _design(cut, "leave-p-groups-out", column, p)


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

    def cut(table):
        values, quantile = _quantiles(table, column, within)
        block = np.floor(np.round(quantile * n_blocks, 9)).astype(int)
        for k in range(n_blocks):
            held_out = block == k
            label = _range_label(column, values, held_out, within, f"block {k + 1} of {n_blocks}")
            yield label, held_out, ~held_out

    return _design(cut, "contiguous-blocks", column, n_blocks, within=within)


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
        which: ``largest`` holds out the ``amount`` largest values; ``last`` the last fraction of
            the points; ``after`` all but the ``amount`` smallest values, such as the first four
            checkpoints (Isik 2024, §4).
        amount: number of values, 1 unless given, for ``largest`` and ``after``; for ``last`` a
            fraction between 0 and 1, a third unless given, as the figure beside Que's data-size
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
        amount = _share(Fraction(1, 3) if amount is None else amount)
    elif amount is None:
        amount = 1
    elif isinstance(amount, bool) or not isinstance(amount, int) or amount < 1:
        raise UsageError(f"amount is a whole number, 1 or more, not {amount!r}")

    def cut(table):
        values, quantile = _quantiles(table, column, within)
        if which == "last":
            held_out = np.round(quantile, 9) > 1 - float(amount)
        else:
            by_curve = pd.Series(values).groupby(_groups_of(table, within)[0])
            rank = by_curve.rank(method="dense", ascending=which == "after").to_numpy()
            held_out = rank > amount if which == "after" else rank <= amount
        what = f"{which} {amount}"
        yield _range_label(column, values, held_out, within, what), held_out, ~held_out

    return _design(cut, "hold-out", column, which, amount, within=within)


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

    def cut(table):
        # Rows, or groups of them, are shuffled as one.
        group = np.arange(len(table)) if groups is None else _groups_of(table, groups)[0]
        count, random = len(np.unique(group)), np.random.default_rng(seed)
        for repeat in range(n_repeats):
            fold = (random.permutation(count) % n_splits)[group]
            before = f"repeat {repeat + 1}, " if n_repeats > 1 else ""
            for k in range(n_splits):
                yield f"{before}fold {k + 1} of {n_splits} held out", fold == k, fold != k

    return _design(cut, "k-fold", n_splits, n_repeats, seed, groups=groups)


@checked
def in_sample() -> Design:
    """One fold that fits every point and is scored on the same: how well a law describes.

    Que 2024 calls it effectiveness (tables 1, 14, 15); it says nothing of unseen points.

    Example:
        >>> jl.folds.in_sample().split(pd.DataFrame({"N": [1, 2]})).labels
        ('none held out',)
    """

    def cut(table):
        every = np.ones(len(table), bool)
        yield "none held out", every, every

    return Design("in-sample", cut)


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
    name = type(splitter).__name__

    def cut(table):
        group = None if groups is None else _groups_of(table, groups)[0]
        for k, (train, test) in enumerate(splitter.split(table, None, group), 1):
            fitted, held_out = np.zeros((2, len(table)), bool)
            fitted[np.asarray(train)] = True
            held_out[np.asarray(test)] = True
            yield f"{name}, split {k} held out", held_out, fitted

    return Design(name, cut)


@checked
def predefined_split(masks: Any) -> Design:
    """Folds that you have made yourself.

    Args:
        masks: (F, n) of 0 and 1 (or truth values), one column per row of the runs as they were
            read: 1 is fitted, 0 is held out.

    Raises:
        UsageError: masks of other numbers.

    Example:
        >>> design = jl.folds.predefined_split([[1, 1, 0]])
        >>> design.split(pd.DataFrame({"N": [1, 2, 3]})).held_out
        array([[False, False,  True]])
    """
    try:
        fitted = np.atleast_2d(np.asarray(masks)).astype(float, casting="safe")
    except (TypeError, ValueError) as error:
        raise UsageError(f"masks are (folds, rows) of 0 and 1 ({error})") from None
    if fitted.ndim != 2 or not np.isin(fitted, (0, 1)).all():
        raise UsageError(f"masks are (folds, rows) of 0 and 1, not {fitted.shape} of other numbers")

    def cut(table):
        if fitted.shape[1] != len(table):
            raise UsageError(f"masks of {fitted.shape[1]} rows for runs of {len(table)}")
        for k, mask in enumerate(fitted > 0, 1):
            yield f"mask {k}", ~mask, mask

    return Design("predefined", cut, of_all_rows=True)


#: Design by its name in text.
DESIGNS: dict[str, Callable[..., Design]] = {
    design.__name__.replace("_", "-"): design
    for design in (
        leave_one_group_out, leave_p_groups_out, contiguous_blocks, hold_out, k_fold, in_sample,
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
    if name not in DESIGNS:
        raise UsageError(
            f"there is no fold design '{name}'; designs: {', '.join(DESIGNS)}."
            + (f" Did you mean 'k-fold:{name}'?" if name.isdigit() else nearest(name, [*DESIGNS]))
        )
    given = {key: _argument(text) for key, text in named.items()}
    return DESIGNS[name](*map(_argument, positional), **given)


def _argument(text: str):
    """An argument of a design from its text: a whole number, columns, or the text itself."""
    if text.removeprefix("-").isdecimal():
        return int(text)
    return text.split("+") if "+" in text else text


def _quantiles(table: pd.DataFrame, column: str, within) -> tuple[np.ndarray, np.ndarray]:
    """(n,) values, and the quantile, from 0 to 1, of each among the points (of its curve)."""
    values = _values_of(table, column)
    if values.dtype.kind not in "iuf":
        raise DataError(f"column {column} is no column of numbers, and has no order", column=column)
    values = values.astype(float)
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
    return np.array([float(f"{value:.12g}") for value in merged(values)])


def _groups_of(table: pd.DataFrame, columns: Columns | None) -> tuple[np.ndarray, list[str]]:
    """(n,) number of each row's group, in order of the values, and the groups' names."""
    if not columns:
        return np.zeros(len(table), int), ["all"]
    names = [columns] if isinstance(columns, str) else list(columns)
    frame = pd.DataFrame({name: _values_of(table, name) for name in names})
    group = frame.groupby(names, sort=True, observed=True).ngroup().to_numpy()
    heads = frame.iloc[np.unique(group, return_index=True)[1]]
    return group, ["/".join(row) for row in zip(*map(format_values, heads.T.values), strict=True)]


def _range_label(column: str, values: np.ndarray, held_out: np.ndarray, within, what: str) -> str:
    held = np.unique(values[held_out])
    if within is not None or not len(held):
        return f"{what} of {column} held out"
    low, high = format_values([held[0], held[-1]])
    return f"{column} = {low} held out" if len(held) == 1 else f"{low} ≤ {column} ≤ {high} held out"


def _names(columns) -> str:
    """Names of columns, or another argument, as names of designs have them."""
    return "+".join(map(str, columns)) if isinstance(columns, list | tuple) else str(columns)


def _share(value) -> Fraction:
    try:
        share = Fraction(value).limit_denominator(1000)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise UsageError(f"amount is a fraction between 0 and 1, such as 0.2 or 1/3, not {value}")
    return share
