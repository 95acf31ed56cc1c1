"""Fold designs: which points are fitted and which are held out.

A design is made once (``leave_p_groups_out("r", 2)``) and applied to any table. What comes out are
rows of 0 and 1 over that table, never other tables, so that one compiled program fits all folds.
The names are scikit-learn's where it has the design; a *group* is a value of a column.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Concatenate, Literal, ParamSpec

import numpy as np
import pandas as pd

from jaxlaw._arrays import plain_array
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
    "parse",
    "predefined_split",
    "shuffle_split",
]

P = ParamSpec("P")
_MAX_FOLDS = 10_000  # of a design; more are a typing error
Columns = str | Sequence[str]
Parts = Iterator[tuple[str, np.ndarray, np.ndarray]]  # label, held out (n,), fitted (n,)


@dataclass(frozen=True, eq=False)
class Folds:
    """The F folds of one table of n rows.

    Attributes:
        name: name of the design.
        labels: one per fold: what is held out.
        fitted: (F, n) True where a fold fits the row.
        held_out: (F, n) True where a fold scores the row; a row may be in neither.

    Example:
        >>> folds = jl.folds.leave_one_group_out("N").split(pd.DataFrame({"N": [1, 1, 2, 3]}))
        >>> len(folds), folds.labels[0]
        (3, 'N = 1 held out')
        >>> folds.weights[0]
        array([0., 0., 1., 1.])
    """

    name: str
    labels: tuple[str, ...]
    fitted: np.ndarray
    held_out: np.ndarray

    __repr__ = short_repr

    def __len__(self) -> int:
        """The number of folds F."""
        return len(self.labels)

    @property
    def weights(self) -> np.ndarray:
        """(F, n) 1 where the row is fitted, 0 elsewhere."""
        return self.fitted.astype(float)


@dataclass(frozen=True)
class Design:
    """A way to cut any table into folds.

    Attributes:
        name: name on the command line, such as ``leave-p-groups-out:r:2``.
        cut: function from a table to the label, the rows held out (n,) and the rows fitted (n,)
            of each fold. It must be picklable for the design to be, as all designs here are.
        of_all_rows: whether ``cut`` takes every row of the table, usable or not.

    Example:
        >>> design = jl.folds.leave_p_groups_out("n_params", 2)  # of three sizes
        >>> design.name, len(design.split(jl.simulate.demo().table))
        ('leave-p-groups-out:n_params:2', 3)
    """

    name: str
    cut: Callable[[pd.DataFrame], Iterable[tuple[str, np.ndarray, np.ndarray]]]
    of_all_rows: bool = False

    def split(self, table: Any, usable: np.ndarray | None = None) -> Folds:
        """The folds of a table.

        Args:
            table: DataFrame of n rows, with values as labels shall show them; or runs, whose
                columns go by the user's names too.
            usable: (n,) False for rows that no fold may have.

        Raises:
            DataError: a column is missing or has holes, it has too few values, or a fold
                would have nothing to fit or nothing to hold out.

        Example:
            >>> table = pd.DataFrame({"D": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
            >>> jl.folds.hold_out("D", "last", 1 / 3).split(table).held_out
            array([[False, False, False, False,  True,  True]])
        """
        if not isinstance(table, pd.DataFrame):
            table = _table_of(table)
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
        return Folds(self.name, tuple(labels), fitted, held_out)


def _table_of(runs: Any) -> pd.DataFrame:
    """The table of runs, its columns under the user's names, too."""
    columns, table = getattr(runs, "columns", {}), getattr(runs, "table", None)
    if table is None:
        raise UsageError("folds are of a DataFrame, or of what read_runs returned")
    users = {column: name for name, column in columns.items() if name in table}
    return table.assign(
        **{str(own): table[name] for own, name in users.items() if own not in table}
    )


def _design(cut: Callable[Concatenate[pd.DataFrame, P], Parts]) -> Callable[P, Design]:
    """The public function of a design, made of the generator of its parts of a table."""
    signature = inspect.signature(cut)
    signature = signature.replace(parameters=[*signature.parameters.values()][1:])

    @functools.wraps(cut)
    def make(*args: P.args, **kwargs: P.kwargs) -> Design:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if "which" in given:
            given["amount"] = _amount(given["which"], given["amount"])
        if "test_size" in given:
            given["test_size"] = _share("test_size", given["test_size"])
        curves = {key: given[key] for key in ("within", "groups") if given.get(key)}
        words = [_join_names(given[key]) for key in given if key not in ("within", "groups")]
        words += [f"{key}={_join_names(value)}" for key, value in curves.items()]
        name = ":".join([cut.__name__.replace("_", "-"), *words])
        return Design(name, partial(_cut, maker=cut.__name__, given=given))

    make.__signature__ = signature  # type: ignore[attr-defined]
    _CUTS[cut.__name__] = cut
    return checked(make)


_CUTS: dict[str, Callable[..., Parts]] = {}


def _cut(table: pd.DataFrame, *, maker: str, given: dict[str, Any]) -> Parts:
    """The parts of a table. A design refers to its generator by name, so that it can be pickled."""
    yield from _CUTS[maker](table, **given)


@_design
def leave_one_group_out(table: pd.DataFrame, column: Columns) -> Parts:
    """Hold out each value of a column in turn: sizes, domains, runs.

    It is scikit-learn's ``LeaveOneGroupOut``.

    Args:
        column: column whose values are the groups, or several whose combinations are.

    Example:
        >>> table = pd.DataFrame({"domain": ["code", "code", "law", "maths"]})
        >>> jl.folds.leave_one_group_out("domain").split(table).labels
        ('domain = code held out', 'domain = law held out', 'domain = maths held out')
    """
    return _leave_out(table, column, 1)


@_design
def leave_p_groups_out(
    table: pd.DataFrame, column: Columns, p: Annotated[int, Between(1)]
) -> Parts:
    """Hold out every choice of p values of a column.

    It is scikit-learn's ``LeavePGroupsOut``. Two of nine mixture ratios make 36 folds (Que 2024,
    §4.2), two of six domains 15 (§4.4).

    Args:
        column: column, or columns, as for :func:`leave_one_group_out`.
        p: number of values that a fold holds out.

    Example:
        >>> table = pd.DataFrame({"r": [0.0, 0.1, 0.2, 0.33]})
        >>> len(jl.folds.leave_p_groups_out("r", 2).split(table))
        6
    """
    return _leave_out(table, column, p)


def _leave_out(table: pd.DataFrame, column: Columns, p: int) -> Parts:
    group, labels = _groups_of(table, column)
    if len(labels) <= p:
        raise DataError(
            f"{_join_names(column)} has {len(labels)} value{'' if len(labels) == 1 else 's'} "
            f"({', '.join(labels)}); with {p} held out nothing is left to fit"
        )
    if (count := math.comb(len(labels), p)) > _MAX_FOLDS:
        raise DataError(f"{count} folds; take k_fold(groups=…) instead")
    for chosen in itertools.combinations(range(len(labels)), p):
        held_out = np.isin(group, chosen)
        yield _held_label(_join_names(column), [labels[i] for i in chosen]), held_out, ~held_out


@_design
def contiguous_blocks(
    table: pd.DataFrame,
    column: str,
    n_blocks: Annotated[int, Between(2)] = 3,
    within: Columns | None = None,
) -> Parts:
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


@_design
def hold_out(
    table: pd.DataFrame,
    column: str,
    which: Literal["largest", "last", "after"] = "largest",
    amount: int | float | str | Fraction | None = None,
    within: Columns | None = None,
) -> Parts:
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
        UsageError: no such end, or an amount that is none.

    Example:
        >>> table = pd.DataFrame({"N": [1e8, 1e9, 1e9, 1e10]})
        >>> jl.folds.hold_out("N").split(table).labels
        ('N = 1e+10 held out',)
        >>> jl.folds.hold_out("N", "after", 1).split(table).labels
        ('1e+09 ≤ N ≤ 1e+10 held out',)
    """
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
    if which == "after":
        held_out = by_curve.rank(method="dense").to_numpy() > amount
        yield (
            _range_label(column, values, held_out, within, f"after the first {amount}"),
            held_out,
            ~held_out,
        )
    else:
        held_out = by_curve.rank(method="dense", ascending=False).to_numpy() <= amount
        label = _held_label(column, distinct[-amount:])
        yield (
            label if within is None else f"largest {amount} of {column} held out",
            held_out,
            ~held_out,
        )


@_design
def k_fold(
    table: pd.DataFrame,
    n_splits: Annotated[int, Between(2)] = 5,
    n_repeats: Annotated[RepeatCount, Between(1)] = 1,
    seed: Seed = 0,
    groups: Columns | None = None,
) -> Parts:
    """Random folds of equal size, every row held out once per repeat.

    It is scikit-learn's ``RepeatedKFold``, of whole runs with ``groups``.

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
    group, count = _units(table, groups, n_splits)
    random = np.random.default_rng(seed)
    for repeat in range(n_repeats):
        fold = (random.permutation(count) % n_splits)[group]
        before = f"repeat {repeat + 1}, " if n_repeats > 1 else ""
        for k in range(n_splits):
            yield f"{before}fold {k + 1} of {n_splits} held out", fold == k, fold != k


@_design
def shuffle_split(
    table: pd.DataFrame,
    test_size: float | str | Fraction = Fraction(1, 5),
    n_splits: Annotated[RepeatCount, Between(1)] = 10,
    seed: Seed = 0,
    groups: Columns | None = None,
) -> Parts:
    """Hold out a random share of the rows, again and again.

    It is scikit-learn's ``ShuffleSplit``, of whole runs with ``groups``.

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
    group, count = _units(table, groups, 2)
    size = min(max(1, round(float(test_size) * count)), count - 1)
    random = np.random.default_rng(seed)
    for k in range(n_splits):
        held_out = (random.permutation(count) < size)[group]
        yield f"random {test_size}, draw {k + 1} held out", held_out, ~held_out


@_design
def in_sample(table: pd.DataFrame) -> Parts:
    """One fold that fits every point and is scored on the same: how well a law describes.

    Que 2024 calls it effectiveness (tables 1, 14, 15); it says nothing of unseen points.

    Example:
        >>> jl.folds.in_sample().split(pd.DataFrame({"N": [1, 2]})).labels
        ('none held out',)
    """
    every = np.ones(len(table), bool)
    yield "none held out", every, every


@checked
def from_sklearn(splitter: Any, groups: Columns | None = None, target: str | None = None) -> Design:
    """The folds of a scikit-learn splitter, or of anything with its ``split(X, y, groups)``.

    Args:
        splitter: object that is given the table, and yields (train, test) row numbers.
        groups: column(s) that name a row's group, for ``GroupKFold`` and the like.
        target: column handed over as y, for stratified splitters.

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
    kind = type(splitter).__name__
    return Design(kind, partial(_split, splitter=splitter, groups=groups, target=target))


def _split(table: pd.DataFrame, *, splitter: Any, groups: Any, target: str | None) -> Parts:
    group = None if groups is None else _groups_of(table, groups)[0]
    y = None if target is None else _values_of(table, target)
    parts = list(splitter.split(table, y, group))
    for k, (train, test) in enumerate(parts):
        fitted, held_out = (np.zeros(len(table), bool) for _ in range(2))
        fitted[np.asarray(train)] = True
        held_out[np.asarray(test)] = True
        kind = type(splitter).__name__
        yield f"{kind}, split {k + 1} of {len(parts)} held out", held_out, fitted


@checked
def predefined_split(
    masks: Any, labels: Sequence[str] | None = None, name: str = "predefined"
) -> Design:
    """Folds that you have made yourself.

    Args:
        masks: (F, n) of 0 and 1 (or truth values), one column per row of the runs as they were
            read: 1 is fitted, 0 is held out.
        labels: one per fold; numbered unless given.
        name: name of the design.

    Raises:
        UsageError: masks of other numbers, or of another number than labels.

    Example:
        >>> design = jl.folds.predefined_split([[1, 1, 0]], labels=["the last"])
        >>> design.split(pd.DataFrame({"N": [1, 2, 3]})).held_out
        array([[False, False,  True]])
    """
    try:
        values = plain_array(masks)
        if values.dtype.kind == "c":  # numpy would drop the imaginary part
            raise TypeError("complex numbers are none")
        fitted = np.atleast_2d(np.asarray(values, float))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"masks are (folds, rows) of 0 and 1 ({error})", argument="masks", value=masks
        ) from None
    if fitted.ndim != 2 or not np.isin(fitted, (0, 1)).all():
        raise UsageError(
            f"masks are (folds, rows) of 0 and 1, not {fitted.shape} of other numbers",
            argument="masks",
            value=masks,
        )
    if labels is not None and len(labels) != len(fitted):
        raise UsageError(f"{len(labels)} labels for {len(fitted)} masks")
    labels = [f"mask {k + 1}" for k in range(len(fitted))] if labels is None else list(labels)
    return Design(name, partial(_mask_parts, fitted=fitted > 0, labels=labels), of_all_rows=True)


def _mask_parts(table: pd.DataFrame, *, fitted: np.ndarray, labels: list[str]) -> Parts:
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
def parse(text: str) -> Design:
    """A design from its name, as on the command line.

    Args:
        text: name and arguments, in order or by name, columns joined by ``+``:
            ``leave-p-groups-out:r:2``, ``contiguous-blocks:D:3:within=N+r``,
            ``hold-out:D:last:1/3``, ``k-fold:5:groups=run``.

    Raises:
        UsageError: no such design, or arguments it does not take.

    Example:
        >>> jl.folds.parse("k-fold:5:groups=run").name
        'k-fold:5:1:0:groups=run'
    """
    name, positional, named = parse_spec(text)
    build = DESIGNS.get(name)
    if build is None:
        raise UsageError(
            f"there is no fold design '{name}'; designs: {', '.join(DESIGNS)}."
            f"{nearest(name, list(DESIGNS))}"
        )
    signature = inspect.signature(build)
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        wanted = ":".join([name, *(key.upper() for key in signature.parameters)])
        raise UsageError(f"folds {text}: {error}; write {wanted}") from None
    return build(**{key: _argument(key, value, text) for key, value in bound.arguments.items()})


def _argument(key: str, value: str, text: str) -> Any:
    """An argument of a design from its text."""
    if key in ("column", "within", "groups"):
        return value.split("+") if "+" in value else value
    if key in ("which", "test_size", "amount"):
        return int(value) if value.isdecimal() else value
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"folds {text}: {key} is a whole number, not '{value}'") from None


@checked
def as_design(folds: Any) -> Design:
    """A design, its name, a scikit-learn splitter or masks as a design.

    Args:
        folds: what :func:`jaxlaw.cross_validate` takes as ``folds``.

    Raises:
        UsageError: it is none of these.

    Example:
        >>> jl.folds.as_design("leave-one-group-out:N").name
        'leave-one-group-out:N'
    """
    if isinstance(folds, Design):
        return folds
    if isinstance(folds, str):
        return parse(folds)
    if callable(getattr(folds, "split", None)) and hasattr(folds, "get_n_splits"):
        return from_sklearn(folds)
    if isinstance(folds, np.ndarray | list | tuple):
        return predefined_split(folds)
    raise UsageError(
        "folds is a design such as folds.leave_one_group_out('N'), its name, a scikit-learn "
        f"splitter or (folds, rows) masks, not {type(folds).__name__}",
        argument="folds",
        value=folds,
    )


def _units(table: pd.DataFrame, groups: Any, least: int) -> tuple[np.ndarray, int]:
    """(n,) number of the row or group that is shuffled as one, and how many there are."""
    group = np.arange(len(table)) if groups is None else _groups_of(table, groups)[0]
    count = int(group.max()) + 1 if len(group) else 0
    if count < least:
        what = "rows" if groups is None else f"values of {_join_names(groups)}"
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
        rows = name_rows("row", empty)
        message = f"column {name} is empty in {rows}; fill it or leave these rows out"
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
    if not names:
        raise UsageError("folds: name one column or more, or leave the argument out")
    frame = pd.DataFrame({name: _values_of(table, name) for name in names})
    try:
        group = frame.groupby(names, sort=True, observed=True).ngroup().to_numpy()
    except TypeError:  # values of several kinds have no order
        group = frame.astype(str).groupby(names, sort=True).ngroup().to_numpy()
    heads = frame.iloc[np.unique(group, return_index=True)[1]]
    return group, ["/".join(row) for row in zip(*map(format_values, heads.T.values), strict=True)]


def _range_label(
    column: str, values: np.ndarray, held_out: np.ndarray, within: Any, what: str
) -> str:
    if within is not None:
        return f"{what} of {column} held out"
    low, high = format_values([float(values[held_out].min()), float(values[held_out].max())])
    return f"{low} ≤ {column} ≤ {high} held out"


def _held_label(column: str, values: Iterable[Any]) -> str:
    return f"{column} = {', '.join(format_values(values))} held out"


def _join_names(columns: Any) -> str:
    """Names of columns, or another argument, as names of designs have them."""
    return "+".join(map(str, columns)) if isinstance(columns, list | tuple) else str(columns)


def _amount(which: str, amount: Any) -> Any:
    """The amount of :func:`hold_out`: a share of points, or a number of values."""
    if which not in (choices := ("largest", "last", "after")):
        raise UsageError(
            f"which is one of {', '.join(choices)}, not {which!r}.{nearest(which, choices)}",
            argument="which",
            value=which,
        )
    if which == "last":
        return _share("amount", Fraction(1, 3) if amount is None else amount)
    amount = 1 if amount is None else amount
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 1:
        raise UsageError(
            f"amount is a whole number, 1 or more, not {amount!r}", argument="amount", value=amount
        )
    return amount


def _share(name: str, value: Any) -> Fraction:
    try:
        share = Fraction(value).limit_denominator(1000)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise UsageError(f"{name} is a share between 0 and 1, such as 0.2 or 1/3, not {value}")
    return share
