"""Conditions on rows, and columns made of others: ``DataFrame.eval`` over a few kinds of node.

    comparisons   == != < <= > >=, also chained; in [...], not in [...]; and, or, not
    arithmetic    + - * / % ** of numbers; all of it, and all comparisons, in float64
    texts         split == 'fit'; file.str.extract('N([0-9]+)') is what the group matches

A column whose name is no identifier (``val/loss``) stands in backticks. A row with an empty cell
in a column that is named has no value: whoever asks leaves it out, and counts it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from jaxlaw._arrays import is_missing, number_in, plain_array
from jaxlaw.errors import UsageError, listed, name_rows, nearest

_NODES = (
    ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.BoolOp, ast.And, ast.Or,
    ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod,
    ast.Pow, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
)  # fmt: skip


def parsed(text: str, argument: str = "where") -> tuple[ast.expr, dict[str, str], set[str]]:
    """The tree of an expression, name in it → column, and the names of columns of texts.

    Raises:
        UsageError: it cannot be read, or holds other nodes than these, or in other places.
    """
    quoted = {}

    def identifier(match):  # texts stay as they are
        return quoted.setdefault(match[1], f"_{len(quoted)}_") if match[1] else match[0]

    try:
        plain = re.sub(r"""'[^']*'|"[^"]*"|`([^`]+)`""", identifier, text).strip()
        tree = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        hint = "; write == to compare" if re.search("[^=!<>]=[^=]", text) else ""
        raise _error(argument, text, f"it cannot be read ({error}){hint}") from None
    names, texts, placed = {name: column for column, name in quoted.items()}, set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(ast.Attribute(ast.Name(name), "str"), "extract"),
                          [ast.Constant(str()) as pattern], []):  # fmt: skip
                texts.add(name)
                placed |= {node, node.func, node.func.value, pattern}
                node.keywords = [ast.keyword("expand", ast.Constant(False))]
            case ast.Compare(
                ast.Name(name), [ast.Eq() | ast.NotEq()], [ast.Constant(str()) as one]
            ):
                texts.add(name)
                placed.add(one)
            case ast.Compare(left, [ast.In() | ast.NotIn()], [ast.List(items) | ast.Tuple(items)]):
                if not any(isinstance(part, ast.Name) for item in items for part in ast.walk(item)):
                    placed |= {node.ops[0], node.comparators[0]}
                if items and all(isinstance(getattr(i, "value", 0), str) for i in items):
                    texts.add(getattr(left, "id", ""))
                    placed |= {*items}
            case ast.Constant(bool() | int() | float()) | ast.keyword():
                placed.add(node)
            case ast.Name(name):
                names.setdefault(name, name)
        special = isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.In | ast.NotIn)
        if node not in placed and (special or not isinstance(node, _NODES)):
            shown = ast.unparse(node) or type(node).__name__
            raise _error(argument, text, f"{shown} has no meaning here")
    return tree, names, texts


class _Nots(ast.NodeTransformer):
    """``not x`` as ``(x) == False``: pandas inverts bits, and ~True of two constants is −2."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.Compare(node.operand, [ast.Eq()], [ast.Constant(False)])


def evaluate(
    text: str, table: Mapping, source: str, word: str = "row", argument: str = "where"
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) values, False or NaN where a named cell is missing; (n,) whether one is.

    Args:
        text: a condition, or an expression where ``argument`` is another than ``where``.
        table: name → (n,) values; the index of a Series names the rows in messages.
        source: name of the table, for messages.
        word: word for a row.
        argument: name of the argument, for messages.

    Raises:
        UsageError: it is none; a name is no column; a column holds other things than it is taken
            for.

    Example:
        >>> evaluate("6 * N * D < 1e21", {"N": [1e9, 2e9], "D": [1e10, None]}, "runs.csv")
        (array([ True, False]), array([False,  True]))
    """
    tree, names, texts = parsed(text, argument)
    cells = {}
    missing = False
    for name, column in names.items():
        if column not in table:
            odd = [one for one in map(str, table) if not one.isidentifier() and one in text]
            hint = nearest(column, map(str, table))
            if odd:  # at the shell backticks of "…" are a command
                hint = f" Put {odd[0]} in backticks, and the whole in single quotes: '`{odd[0]}` …'"
            what = f"{source} has no column {column}; columns: {listed(table)}.{hint}"
            raise _error(argument, text, what, column=column)
        series = pd.Series(table[column])
        values = plain_array(series)
        if values.dtype.kind in "iuf" and name not in texts:  # as below, many times faster
            cells[name] = values.astype(float)
            missing = missing | np.isnan(cells[name])
            continue
        values = values.astype(object)
        empty = np.array([is_missing(cell) or str(cell).strip() == "" for cell in values], bool)
        if name in texts:
            odd = ~empty & [not isinstance(cell, str) for cell in values]
        elif {*map(type, values[~empty])} == {bool}:
            odd, values = np.zeros(len(values), bool), np.where(empty, False, values).astype(bool)
        else:  # in float64: whole numbers of runs overflow int64 (6·N·D)
            numbers = [float(c) if isinstance(c, bool) else number_in(c) for c in values]
            odd = np.array([number is None for number in numbers], bool)
            values = np.where(odd, np.nan, numbers).astype(float)
            empty |= ~odd & np.isnan(values)
        if odd.any():
            kind, labels = "texts" if name in texts else "numbers", series.index[odd]
            rows = name_rows(word, labels, map(repr, series[odd]))
            what = f"column {column} of {source} is taken for {kind} and holds others: {rows}"
            raise _error(argument, text, what, row=labels[0], column=column)
        cells[name], missing = values, missing | empty
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            node.value = float(node.value)
    rewritten = ast.unparse(_Nots().visit(tree))
    try:
        with np.errstate(all="ignore"):
            found = pd.DataFrame(cells).eval(rewritten, engine="python").to_numpy()
    except (TypeError, AttributeError, ArithmeticError) as error:  # texts among numbers; no column
        raise _error(argument, text, f"it cannot be computed ({error})") from None
    is_truth = found.dtype == bool
    if is_truth != (argument == "where"):
        raise _error(argument, text, "it is true or false" if is_truth else "compare with a value")
    gap = False if is_truth else np.nan if found.dtype == float else None
    return np.where(missing, gap, found), missing


def rows_where(where, table: Mapping, source: str, word: str = "row") -> tuple[np.ndarray, str]:
    """(n,) rows that a condition or a mask keeps, and what a message says of empty cells."""
    if isinstance(where, str):
        keep, missing = evaluate(where, table, source, word)
    else:
        missing = np.array([is_missing(value) for value in where], bool)
        if not {*map(type, np.asarray(where)[~missing].tolist())} <= {bool}:
            raise UsageError("where: a mask holds only True and False")
        keep = np.where(missing, False, where).astype(bool)
    return keep, f"; an empty cell leaves out {missing.sum()} more" if missing.any() else ""


def _error(argument: str, text: str, what: str, **where) -> UsageError:
    return UsageError(f"{argument}: '{text:.200}': {what}", **where)
