"""Conditions on the rows of a table, such as ``split == 'fit' and N > 1e8``.

Python's own grammar reads a condition, and a visitor knows the few nodes that it may have; nothing
in it is ever run as a program:

    comparisons   == != < <= > >=, also chained; in [...], not in [...]; is None, is not None
    logic         and, or, not; also & | ~, which bind as these words do
    arithmetic    + - * / % ** in float64
    values        numbers, True, False, 'texts' (as they stand, without escapes), columns

A name that is no identifier (``val/loss``) stands in backticks; in quotes it names a column where
it is compared with a number or a text.

A condition holds for the values of a row, whatever container they came in. A missing cell (NaN,
None, NA, an empty text) fulfils no comparison, != and ``not`` neither, as in SQL: whether it would
is not known, and a row is kept where the condition is known to hold. ``is None`` asks for it.
"""

from __future__ import annotations

import ast
import bisect
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from jaxlaw._arrays import is_missing, is_number, number_in, plain_array
from jaxlaw.errors import UsageError, listed, name_rows, nearest

EXAMPLE = "split == 'fit' and N > 1e8"

_EQUALITY: dict[type, Callable[[Any, Any], Any]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_ORDER: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge
}  # fmt: skip
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
# What Python would read in another way: texts have no escapes here, & and | bind loosely, and the
# letters of names are not normalised.
_OTHER = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>[^"]*)"
    |`(?P<column>[^`]+)`|(?P<name>(?=\w*[^\x00-\x7F])[^\W\d]\w*)
    |(?P<sign>[&|~])|(?P<space>\s+)
    |(?P<open>['"`])|(?P<strange>[^\x20-\x7E]|[#\\])""",
    re.VERBOSE,
)
_WORDS = {"&": " and ", "|": " or ", "~": " not "}


def rows_where(
    condition: str, columns: Mapping[Any, Any], source: str, word: str = "row"
) -> tuple[np.ndarray, int]:
    """The rows of a table for which a condition holds.

    Args:
        condition: text, as above.
        columns: name → (n,) values; the index of a Series names the rows in messages. Names that
            are no text cannot be written in a condition.
        source: name of the table, for messages.
        word: word for a row.

    Returns:
        (n,) boolean mask, and the number of rows that are left out since a missing cell leaves
        open whether the condition holds.

    Raises:
        UsageError: it is no condition, which names the position of what is wrong; or a column
            holds other things than it is compared with, which names the rows.

    Example:
        >>> rows_where("N > 1e8 and split != 'test'", {"N": [1e9, 2e9], "split": ["fit", None]}, "")
        (array([ True, False]), 1)
    """
    result = _Visitor(condition, columns, source, word).result()
    return result.to_numpy(dtype=bool, na_value=False), int(result.isna().sum())


def truth_of(mask: np.ndarray, argument: str) -> tuple[np.ndarray, int]:
    """A mask of rows as booleans, and how many of its values are missing and so keep no row.

    Args:
        mask: (n,) what :func:`jaxlaw._arrays.plain_array` made of a user's mask.
        argument: name of the argument, for messages.

    Raises:
        UsageError: it holds something else than True and False.
    """
    if mask.dtype == bool:
        return mask, 0
    missing = np.array([is_missing(value) for value in mask.flat], bool).reshape(mask.shape)
    for value in mask[~missing].flat:
        if not isinstance(value, bool | np.bool_):
            raise UsageError(
                f"{argument} gives {value}, not true or false; compare with a value",
                argument=argument,
                value=value,
            )
    return np.where(missing, False, mask).astype(bool), int(missing.sum())


def undecided(rows: int) -> str:
    """What a message says of rows for which a missing cell leaves a condition open."""
    return f"; missing cells leave out {rows} more ('is None' asks for them)" if rows else ""


@dataclass
class _Column:
    """Values of a column, or what arithmetic made of columns: (n,), and which are missing.

    Attributes:
        name: name of the column; empty where it is computed.
        cells: (n,) values; None, NaN or an empty text where one is missing.
        labels: (n,) names of the rows.
    """

    name: str
    cells: np.ndarray
    labels: Any

    @cached_property
    def missing(self) -> np.ndarray:
        """(n,) whether a cell is empty."""
        if self.cells.dtype != object:
            return pd.isna(self.cells)
        empty = [cell == "" or cell.isspace() if isinstance(cell, str) else is_missing(cell)
                 for cell in self.cells]  # fmt: skip
        return np.array(empty, bool)

    @cached_property
    def kinds(self) -> set[str]:
        """Kinds of the cells that are there: numbers, texts, others."""
        if self.cells.dtype.kind in "iufb":
            return {"numbers"} if not self.missing.all() else set()
        return {_kind(cell) for cell in self.cells[~self.missing]}

    @property
    def is_truth(self) -> bool:
        """Whether all cells that are there are True or False."""
        present = self.cells[~self.missing]
        return self.cells.dtype == bool or all(
            isinstance(cell, bool | np.bool_) for cell in present
        )


def _kind(cell: Any) -> str:
    if isinstance(cell, str):
        return "texts"
    return "numbers" if is_number(cell) or isinstance(cell, bool | np.bool_) else "others"


class _Visitor(ast.NodeVisitor):
    """Evaluates the syntax tree of a condition: truths are pandas' of three values."""

    def __init__(self, text: str, columns: Mapping[Any, Any], source: str, word: str) -> None:
        self.text, self.source, self.word = text, source, word
        self.columns = {name: of for name, of in columns.items() if isinstance(name, str)}
        self.size = len(next(iter(columns.values()), ()))
        self.known: dict[str, _Column] = {}
        self.quoted: dict[str, tuple[str, bool]] = {}  # placeholder → text, whether a column
        self.mark = "q"
        while self.mark in text:
            self.mark += "q"
        # Where parts begin in Python's text and in the user's, and whether as it was written.
        self.parts: list[tuple[int, int, bool]] = [(0, 0, True)]

    def result(self) -> BooleanArray:
        if not self.text.strip():
            self._refuse("the condition is empty", 1)
        plain = self._as_python()
        # Python refuses spaces before the first word.
        shift = len(plain) - len(plain.lstrip())
        self.parts = [(there - shift, here, same) for there, here, same in self.parts]
        try:
            body = ast.parse(plain.strip(), mode="eval").body
            return self._truth(self.visit(body), body)
        except SyntaxError as error:
            at = (error.offset or len(plain) + 1) - 1
            is_equal = plain.strip()[at : at + 2].strip() == "="
            what = "write == to compare" if is_equal else f"this cannot be read ({error.msg})"
            self._refuse(what, self._position(at))
        except (RecursionError, MemoryError):
            self._refuse("the condition is nested too deeply", 1)

    # --- from the user's text to Python's and back

    def _as_python(self) -> str:
        """The condition with placeholders for what Python would read in another way."""
        pieces: list[str] = []
        size = last = 0
        for match in _OTHER.finditer(self.text):
            kind, (start, end) = match.lastgroup, match.span()
            piece = self._replace_token(kind, match[kind], start)
            pieces += [self.text[last:start], piece]
            size += start - last
            self.parts.append((size, start, False))
            size, last = size + len(piece), end
            self.parts.append((size, end, True))
        return "".join([*pieces, self.text[last:]])

    def _replace_token(self, kind: str | None, text: str, at: int) -> str:
        if kind == "open":
            self._refuse(f"the text that begins with {text} has no end", at + 1)
        if kind == "strange":
            self._refuse(
                f"{text!r} has no meaning here; a condition compares columns with numbers and "
                "texts, and a column of another name stands in `backticks`",
                at + 1,
            )
        if kind == "space":
            return " "
        if kind == "sign":
            return _WORDS[text]
        placeholder = f"{self.mark}{len(self.quoted)}"
        self.quoted[placeholder] = text, kind in ("column", "name")
        return f" {placeholder} "

    def _position(self, offset: int) -> int:
        """Position from 1 in the user's text of an offset in Python's."""
        last = bisect.bisect_right(self.parts, offset, key=operator.itemgetter(0)) - 1
        there, here, same = self.parts[last]
        return here + same * (offset - there) + 1

    # --- logic

    def visit_BoolOp(self, node: ast.BoolOp) -> BooleanArray:
        parts = [self._truth(self.visit(value), value) for value in node.values]
        result = parts[0]
        for part in parts[1:]:
            result = result & part if isinstance(node.op, ast.And) else result | part
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return ~self._truth(value, node.operand)
        return self._compute(node, ast.Sub if isinstance(node.op, ast.USub) else ast.Add, 0, value)

    def visit_Compare(self, node: ast.Compare) -> BooleanArray:
        result, left, at = None, self.visit(node.left), node.left
        for sign, other in zip(node.ops, node.comparators, strict=True):
            if isinstance(sign, ast.In | ast.NotIn):
                part = self._among(left, at, other)
                part = ~part if isinstance(sign, ast.NotIn) else part
            elif isinstance(sign, ast.Is | ast.IsNot):
                if not (isinstance(other, ast.Constant) and other.value is None):
                    self._refuse("'is' asks for missing cells only, as 'is None'", other)
                gone = self._column(left, at).missing
                gone = ~gone if isinstance(sign, ast.IsNot) else gone
                part = BooleanArray(gone.copy(), np.zeros(self.size, bool))
            else:
                right = self.visit(other)
                part = self._compare(type(sign), left, right, at, other)
                left, at = right, other
            result = part if result is None else result & part
        return result

    def _among(self, left: Any, at: ast.expr, items: ast.expr) -> BooleanArray:
        if not isinstance(items, ast.List | ast.Tuple):
            self._refuse("after 'in' comes a list, as in ['fit', 'test'] or ('fit',)", items)
        result = self._everywhere(False)
        for item in items.elts:
            result = result | self._compare(ast.Eq, left, self.visit(item), at, item)
        return result

    def _truth(self, value: Any, node: ast.expr) -> BooleanArray:
        """The three-valued truth of a part of a condition."""
        if isinstance(value, BooleanArray):
            return value
        if isinstance(value, bool):
            return self._everywhere(value)
        if isinstance(value, _Column) and value.is_truth:
            truths = np.where(value.missing, False, value.cells).astype(bool)
            return BooleanArray(truths, value.missing.copy())
        what = (
            f"a column of {', '.join(sorted(value.kinds))}"
            if isinstance(value, _Column)
            else repr(value)
        )
        self._refuse(f"this is {what}, not true or false; compare it with a value", node)

    def _everywhere(self, value: bool) -> BooleanArray:
        return BooleanArray(np.full(self.size, value), np.zeros(self.size, bool))

    # --- comparisons

    def _compare(
        self, sign: type, left: Any, right: Any, left_node: ast.expr, right_node: ast.expr
    ) -> BooleanArray:
        named = self._resolve_name(left, right), self._resolve_name(right, left)
        nodes = left_node, right_node
        columns = self._compared_columns(named, nodes)
        missing = np.logical_or.reduce([column.missing for column in columns])
        if any(not column.kinds for column in columns):  # of no kind, for all cells are missing
            return BooleanArray(np.zeros(self.size, bool), missing)
        texts = any(isinstance(side, str) for side in named)
        texts |= len(columns) == 2 and all(column.kinds == {"texts"} for column in columns)
        if texts and sign in _ORDER:
            self._refuse(
                "texts have no size ('9B' < '10B' is false for letters); compare numbers, name "
                "the texts (in ['9B', '10B']), or give a mask of rows in place of a condition",
                right_node,
            )
        of = self._texts if texts else self._numbers
        sides = [of(named[k], nodes[k], named[1 - k], nodes[1 - k]) for k in (0, 1)]
        for side in () if texts else sides:  # texts such as 'n/a' are no numbers either
            missing = missing | np.isnan(side)
        result = np.broadcast_to((_EQUALITY | _ORDER)[sign](*sides), self.size)
        return BooleanArray(result & ~missing, missing)

    def _compared_columns(self, named: tuple[Any, Any], nodes: tuple[ast.expr, ast.expr]) -> list:
        """The columns of a comparison; refuses what cannot be a side of one."""
        for side, node in zip(named, nodes, strict=True):
            if isinstance(side, BooleanArray):
                self._refuse("a comparison is compared here; join them by and, or", node)
            if side is None:
                self._refuse("a missing cell equals nothing; write 'is None', 'is not None'", node)
        columns = [side for side in named if isinstance(side, _Column)]
        if not columns:
            self._refuse("no column is compared here", nodes[0])
        return columns

    def _resolve_name(self, side: Any, other: Any) -> Any:
        """A quoted name of a column, compared with what is none, is that column."""
        named = isinstance(side, str) and side in self.columns and not isinstance(other, _Column)
        return self._column_named(side) if named else side

    def _texts(self, side: Any, node: ast.expr, other: Any, other_node: ast.expr) -> Any:
        """A text or a column of texts, as objects."""
        if isinstance(side, str):
            return side
        if isinstance(side, _Column):
            if side.kinds == {"numbers"}:
                what = f"'{other}'" if isinstance(other, str) else f"column {other.name}"
                self._refuse(f"{what} is text, and the column holds numbers", other_node)
            self._refuse_cells(side, [_kind(cell) != "texts" for cell in side.cells], "texts", node)
            return np.where(side.missing, "", side.cells).astype(object)
        self._refuse(f"{side} is a number, compared with a text", node)

    def _numbers(self, side: Any, node: ast.expr, *_other: Any) -> Any:
        """A number, or a column as numbers, NaN where one is missing; texts are read as numbers."""
        if isinstance(side, _Column):
            if side.cells.dtype.kind in "iufb":
                return side.cells
            truth = bool | np.bool_
            values = [float(c) if isinstance(c, truth) else number_in(c) for c in side.cells]
            self._refuse_cells(side, [value is None for value in values], "numbers", node)
            return np.array(values, float)
        if isinstance(side, str):
            self._refuse(f"a number stands here, not the text '{side}'", node)
        return side

    def _refuse_cells(self, column: _Column, odd: Any, must: str, node: ast.expr) -> None:
        """Refuse cells that are not of the kind that a column is compared as."""
        odd = np.asarray(odd, bool) & ~column.missing
        if not odd.any():
            return
        labels, cells = np.asarray(column.labels)[odd], column.cells[odd]
        shown = [repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:40] + "…" for cell in cells]
        remedy = "quote the value" if must == "numbers" else "write the value without quotes"
        if "others" in {_kind(cell) for cell in cells}:
            remedy = "give a mask of rows in place of a condition on dates and the like"
        elif not odd[~column.missing].all():
            remedy = "correct or empty these cells"
        self._refuse(
            f"column {column.name} is taken as {must} and holds others: "
            f"{name_rows(self.word, labels, shown)}; {remedy}",
            node,
            row=labels[0], column=column.name,
        )  # fmt: skip

    # --- values

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._compute(node, type(node.op), self.visit(node.left), self.visit(node.right))

    def visit_Name(self, node: ast.Name) -> Any:
        name, is_column = self.quoted.get(node.id, (node.id, True))
        if not is_column:
            return name
        if name not in self.columns:
            hint = nearest(name, self.columns)
            self._refuse(f"there is no column {name}{hint and '.' + hint}", node)
        return self._column_named(name)

    def visit_Constant(self, node: ast.Constant) -> Any:
        value = node.value
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if abs(value) < 2**63 else self._large(value, node)
        self._refuse(f"{value!r} is no number, text or column", node)

    def _large(self, value: int, node: ast.expr) -> float:
        try:
            return float(value)
        except OverflowError:
            self._refuse("this is no number below 1e308", node)

    def generic_visit(self, node: ast.AST) -> NoReturn:
        self._refuse(
            "this has no meaning here; a condition compares columns with numbers and texts, joined "
            "by and, or, not; + - * / % ** compute, and a column of another name stands in "
            "`backticks`",
            node,
        )

    def _compute(self, node: ast.expr, sign: type, *sides: Any) -> Any:
        """Arithmetic in float64: whole numbers of runs overflow int64 (6·N·D)."""
        if sign not in _ARITHMETIC:
            self.generic_visit(node)
        numbers = []
        for side in sides:
            if not isinstance(side, _Column | int | float) or isinstance(side, bool):
                self._refuse("arithmetic needs numbers", node)
            numbers.append(np.asarray(self._numbers(side, node), float))
        with np.errstate(all="ignore"):
            result = _ARITHMETIC[sign](*numbers)
        if np.ndim(result) == 0:
            return float(result)
        labels = next(side.labels for side in sides if isinstance(side, _Column))
        return _Column("", result, labels)

    def _column(self, value: Any, node: ast.expr) -> _Column:
        value = self._resolve_name(value, None)
        if not isinstance(value, _Column):
            self._refuse("no column stands here", node)
        return value

    def _column_named(self, name: str) -> _Column:
        if name not in self.known:
            series = pd.Series(self.columns[name])
            self.known[name] = _Column(name, plain_array(series), series.index)
        return self.known[name]

    def _refuse(
        self, what: str, at: int | ast.AST, row: Any = None, column: Any = None
    ) -> NoReturn:
        position = at if isinstance(at, int) else self._position(getattr(at, "col_offset", 0))
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        raise UsageError(
            f"where: {shown!r} is no condition on {self.source}: at position {position}, {what}"
            f"{'' if what.endswith('?') else ';'} columns: {listed(self.columns)}; write for "
            f'example "{EXAMPLE}"',
            argument="where",
            value=self.text,
            file=self.source,
            row=row,
            column=column,
        )
