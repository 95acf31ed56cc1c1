"""Conditions on the rows of a table, such as ``split == 'fit' and N > 1e8``.

The grammar is small and closed: what is written is parsed here and compared by pandas, and
nothing in it is ever run as a program, whoever wrote it.

    condition   := all ("or" all)*                        also: |
    all         := negation ("and" negation)*             also: &
    negation    := "not" negation | comparison            also: ~
    comparison  := value (("==" | "!=" | "<" | "<=" | ">" | ">=") value)*
                 | value ["not"] "in" "[" literal ("," literal)* "]"
    value       := term (("+" | "-") term)*
    term        := factor (("*" | "/" | "%") factor)*
    factor      := ("-" | "+") factor | atom ["**" factor]
    atom        := number | 'text' | column | `any column` | True | False | "(" condition ")"

A name that is no identifier (``val/loss``) stands in backticks; in quotes it names a column where
it is compared with a number or a text. ``&`` and ``|`` bind as ``and`` and ``or`` do.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from jaxlaw.errors import UsageError, nearest

EXAMPLE = "split == 'fit' and N > 1e8"

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>[^\W\d]\w*)
    |`(?P<column>[^`]+)`
    |'(?P<single>[^']*)'|"(?P<double>[^"]*)"
    |(?P<sign>\*\*|==|!=|<=|>=|<|>|[-+*/%()\[\],&|~])
    |(?P<end>$)
    )""",
    re.VERBOSE,
)
_COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
                ">": operator.gt, ">=": operator.ge}  # fmt: skip
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
               "%": operator.mod, "**": operator.pow}  # fmt: skip
_WORDS = {"and", "or", "not", "in"}
_SAME = {"&": "and", "|": "or", "~": "not"}
_MAX_DEPTH = 50


@dataclass(frozen=True)
class _Token:
    kind: str
    value: Any
    at: int  # position of its first character, from 1


@dataclass(frozen=True)
class _Value:
    """A column, a number, a text or a truth value, and where it was written."""

    value: Any
    at: int

    @property
    def is_column(self) -> bool:
        return isinstance(self.value, pd.Series)


def rows_where(condition: str, columns: Mapping[Any, Any], source: str) -> np.ndarray:
    """The rows of a table for which a condition holds.

    Args:
        condition: text in the grammar above.
        columns: name → (n,) values; names that are no text cannot be written in a condition.
        source: what the table is called, for messages.

    Returns:
        (n,) boolean mask. An empty cell fulfils no comparison but ``!=``.

    Raises:
        UsageError: it is no condition; names the position of what is wrong.

    Example:
        >>> rows_where("N > 1e8 and split in ['fit']", {"N": [1e9], "split": ["fit"]}, "runs.csv")
        array([ True])
    """
    return _Parser(condition, columns, source).mask()


class _Parser:
    """Reads a condition from left to right and compares as it goes."""

    def __init__(self, text: str, columns: Mapping[Any, Any], source: str) -> None:
        self.text, self.source, self.depth = text, source, 0
        self.columns = {name: of for name, of in columns.items() if isinstance(name, str)}
        self.size = len(next(iter(columns.values()), ()))
        self.tokens = self._tokens()
        self.next = 0

    def mask(self) -> np.ndarray:
        result = self._any()
        token = self._peek()
        if token.kind != "end":
            self._refuse(f"{self._shown(token)} is not expected here", token.at)
        return self._truth(result)

    # --- tokens

    def _tokens(self) -> list[_Token]:
        tokens, at = [], 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self.text, at)
            if match is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                self._refuse_character(at)
            kind, value = match.lastgroup, match[match.lastgroup]
            start = match.start(kind) + (kind not in ("column", "single", "double"))
            if kind == "name" and value in _WORDS:
                kind = "sign"
            tokens.append(_Token(kind, _SAME.get(value, value) if kind == "sign" else value, start))
            at = match.end()
        return tokens

    def _refuse_character(self, at: int) -> NoReturn:
        rest = self.text[at:]
        character = rest[0]
        if character == "=":
            self._refuse("write == to compare", at + 1)
        if character in "'\"`":
            self._refuse(f"the text that begins with {character} has no end", at + 1)
        word = re.match(r"[\w.]+", rest)
        if character.isdigit() and word:
            self._refuse(f"'{word[0]}' is no number", at + 1)
        self._refuse(
            f"{character!r} has no meaning here; a condition compares columns with numbers and "
            "texts, and a column of another name stands in `backticks`",
            at + 1,
        )

    def _peek(self) -> _Token:
        return self.tokens[self.next]

    def _take(self, *signs: str) -> _Token | None:
        """The next token, if it is one of these signs."""
        token = self._peek()
        if token.kind == "sign" and token.value in signs:
            self.next += 1
            return token
        return None

    def _shown(self, token: _Token) -> str:
        return "the end" if token.kind == "end" else f"'{token.value}'"

    # --- conditions

    def _any(self) -> _Value:
        left = self._all()
        while self._take("or"):
            right = self._all()
            left = _Value(pd.Series(self._truth(left) | self._truth(right)), left.at)
        return left

    def _all(self) -> _Value:
        left = self._negation()
        while self._take("and"):
            right = self._negation()
            left = _Value(pd.Series(self._truth(left) & self._truth(right)), left.at)
        return left

    def _negation(self) -> _Value:
        token = self._take("not")
        if token is None:
            return self._comparison()
        self._deeper(token)
        result = _Value(pd.Series(~self._truth(self._negation())), token.at)
        self.depth -= 1
        return result

    def _comparison(self) -> _Value:
        left = self._value()
        masks = []
        while True:
            before = self.next
            negated = self._take("not")
            if token := self._take("in"):
                result = self._in(left)
                masks.append(~result if negated else result)
                continue
            self.next = before
            if (token := self._take(*_COMPARISONS)) is None:
                break
            right = self._value()
            masks.append(self._compared(token, left, right))
            left = right
        return _Value(pd.Series(np.logical_and.reduce(masks)), left.at) if masks else left

    def _in(self, left: _Value) -> np.ndarray:
        opened = self._take("[", "(")
        if opened is None:
            self._refuse("after 'in' comes a list, as in ['fit', 'test']", self._peek().at)
        closing = "]" if opened.value == "[" else ")"
        result = np.zeros(self.size, bool)
        while not (ended := self._take(closing)):
            result |= self._compared(_Token("sign", "==", opened.at), left, self._value())
            if not self._take(","):
                ended = self._take(closing)
                break
        if not ended:
            self._refuse(f"the list has no end: '{closing}'", self._peek().at)
        return result

    def _compared(self, sign: _Token, left: _Value, right: _Value) -> np.ndarray:
        left, right = self._as_column(left, right), self._as_column(right, left)
        if not (left.is_column or right.is_column):
            self._refuse("no column is compared here", left.at)
        for operand, other in ((left, right), (right, left)):
            if operand.is_column and pd.api.types.is_numeric_dtype(operand.value.dtype):
                if isinstance(other.value, str):
                    self._refuse(f"'{other.value}' is text, and the column holds numbers", other.at)
        try:
            result = _COMPARISONS[sign.value](left.value, right.value)
        except (TypeError, ValueError) as error:
            self._refuse(f"'{sign.value}' does not compare these: {error}", sign.at)
        return result.to_numpy(dtype=bool, na_value=False)

    def _as_column(self, operand: _Value, other: _Value) -> _Value:
        """A quoted name of a column, compared with what is none, is that column."""
        named = isinstance(operand.value, str) and operand.value in self.columns
        return self._named(operand.value, operand.at) if named and not other.is_column else operand

    def _truth(self, result: _Value) -> np.ndarray:
        """(n,) mask of a part of a condition."""
        if isinstance(result.value, bool):
            return np.full(self.size, result.value)
        if result.is_column and pd.api.types.is_bool_dtype(result.value.dtype):
            return result.value.to_numpy(dtype=bool, na_value=False)
        kind = f"of type {result.value.dtype}" if result.is_column else repr(result.value)
        self._refuse(f"this is {kind}, not true or false; compare it with a value", result.at)

    # --- values

    def _value(self) -> _Value:
        left = self._term()
        while sign := self._take("+", "-"):
            left = self._computed(sign, left, self._term())
        return left

    def _term(self) -> _Value:
        left = self._factor()
        while sign := self._take("*", "/", "%"):
            left = self._computed(sign, left, self._factor())
        return left

    def _factor(self) -> _Value:
        if sign := self._take("-", "+"):
            self._deeper(sign)
            result = self._computed(sign, _Value(0, sign.at), self._factor())
            self.depth -= 1
            return result
        base = self._atom()
        if sign := self._take("**"):
            self._deeper(sign)
            base = self._computed(sign, base, self._factor())
            self.depth -= 1
        return base

    def _computed(self, sign: _Token, left: _Value, right: _Value) -> _Value:
        """Arithmetic in float64: whole numbers of runs overflow int64 (6·N·D)."""
        sides = []
        for operand in (left, right):
            if operand.is_column and not pd.api.types.is_numeric_dtype(operand.value.dtype):
                self._refuse(f"'{sign.value}' needs numbers, and the column holds none", operand.at)
            if isinstance(operand.value, str | bool):
                self._refuse(f"'{sign.value}' needs numbers, not {operand.value!r}", operand.at)
            if operand.is_column:
                sides.append(operand.value.astype("float64"))
            else:
                sides.append(np.float64(operand.value))
        with np.errstate(all="ignore"):
            result = _ARITHMETIC[sign.value](*sides)
        return _Value(result if isinstance(result, pd.Series) else float(result), left.at)

    def _atom(self) -> _Value:
        token = self._peek()
        self.next += 1
        if token.kind == "number":
            text = token.value.replace("_", "")
            whole = text.isdigit() and len(text) < 19
            return _Value(int(text) if whole else float(text), token.at)
        if token.kind in ("single", "double"):
            return _Value(token.value, token.at)
        if token.kind == "name" and token.value in ("True", "False"):
            return _Value(token.value == "True", token.at)
        if token.kind in ("name", "column"):
            return self._column(token)
        self.next -= 1
        if opened := self._take("("):
            self._deeper(opened)
            result = self._any()
            self.depth -= 1
            if not self._take(")"):
                self._refuse("the parenthesis is not closed", opened.at)
            return result
        self._refuse(
            f"{self._shown(token)} stands where a column, a number or a text should", token.at
        )

    def _column(self, token: _Token) -> _Value:
        if token.value not in self.columns:
            hint = nearest(token.value, self.columns)
            self._refuse(f"there is no column {token.value}{hint and '.' + hint}", token.at)
        return self._named(token.value, token.at)

    def _named(self, name: str, at: int) -> _Value:
        return _Value(pd.Series(self.columns[name]).reset_index(drop=True), at)

    def _deeper(self, token: _Token) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self._refuse("the condition is nested too deeply", token.at)

    def _refuse(self, what: str, at: int) -> NoReturn:
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        raise UsageError(
            f"where: {shown!r} is no condition on {self.source}: at position {at}, {what}"
            f"{'' if what.endswith('?') else ';'} columns: {', '.join(self.columns)}; write for "
            f'example "{EXAMPLE}"',
            argument="where",
            value=self.text,
        )
