"""Conditions on rows, sound ones with the rows they keep and broken ones, by Python alone.

A cell is known or missing, and a comparison with a missing one is neither true nor false (Kleene):
a row is kept where the condition is known to hold.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

Row = dict[str, Any]
Truth = Callable[[Row], bool | None]

N_ROWS = 24
NUMBERS, TEXTS = ("N", "D", "step"), ("split", "run name")
_COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = ("fit", "test", "10B", "é", "a b")
#: What no condition is, or what compares a column with other things than it holds.
BROKEN = (
    "N >", "> 3", "N = 3", "N => 3", "N 3", "split == fit", "split == 'fit", "nope > 3",
    "N > 'x'", "N == 'fit'", "split == 3", "split > 'a'", "split < '10B'", "split + 1 > 2",
    "N in 3", "N in [", "N in []", "N in [split]", "not", "N and D", "(N > 3", "N > 3)",
    "N.sum() > 3", "@x", "__import__('os')", "N > 3; D > 4", "lambda: 3", "N if D else step",
    "N[0] > 3", "(" * 9000 + "N > 3" + ")" * 9000, "N > 1e", "N ** ", "`N > 3", "N > 3 #",
    "3", "'fit'", "split", "N > None", "split == None", "[N]", "{N: 1}", "N > 3 or",
)  # fmt: skip


def rows(seed: int) -> list[Row]:
    """Rows with missing cells, by Python: numbers, texts, None."""
    made = random.Random(seed)

    def cell(values: tuple[Any, ...]) -> Any:
        return None if made.random() < 0.2 else made.choice(values)

    return [
        {
            "N": cell((1e8, 2e8, 7e9)),
            "D": cell((0.0, 1.5, 3.0)),
            "step": cell((0, 1000, 2000)),
            "split": cell(_WORDS),
            "run name": cell(_WORDS[:2]),
            "loss": 2.0 + k / 100,
        }
        for k in range(N_ROWS)
    ]


def tables(of: list[Row]) -> Iterator[tuple[str, Any]]:
    """The rows in every container that a user may have."""
    columns = {name: [row[name] for row in of] for name in of[0]}
    yield "dict of lists", columns
    yield "list of dicts", of
    yield "DataFrame", pd.DataFrame(columns)
    yield "objects", pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in columns.items()})
    yield "nullable", pd.DataFrame(columns).convert_dtypes()
    kinds = {name: "category" for name in TEXTS}
    yield "categories", pd.DataFrame(columns).astype(kinds)
    masked = {
        name: np.ma.array([0.0 if v is None else v for v in columns[name]],
                          mask=[v is None for v in columns[name]])
        for name in NUMBERS
    }  # fmt: skip
    yield "masked arrays", columns | masked


def condition(made: random.Random, depth: int = 0) -> tuple[str, Truth]:
    """A sound condition, and whether it holds of a row: True, False, or None where unknown."""
    kind = made.randrange(8 if depth < 3 else 5)
    if kind == 5:
        text, holds = condition(made, depth + 1)
        return f"{made.choice(('not ', '~'))}({text})", lambda row: _not(holds(row))
    if kind > 5:
        (left, a), (right, b) = condition(made, depth + 1), condition(made, depth + 1)
        both = kind == 6
        word = made.choice(("and", "&") if both else ("or", "|"))
        decided = False if both else True
        return f"({left}) {word} ({right})", lambda row: _both(a(row), b(row), decided)
    if kind < 2:
        name, value = made.choice(NUMBERS), made.choice((0, 1.5, 1000, 2e8, -3, 1e300))
        sign = made.choice([*_COMPARED])
        factor = made.choice((None, 1, 2))
        shown = name if factor is None else f"{name} * {factor}"
        if made.random() < 0.2:
            return f"{value!r} {sign} {shown}", _compared(
                sign, lambda row: value, lambda row: _times(row[name], factor)
            )
        return f"{shown} {sign} {value!r}", _compared(
            sign, lambda row: _times(row[name], factor), lambda row: value
        )
    name, value = made.choice(TEXTS), made.choice(_WORDS)
    shown = f"`{name}`" if " " in name else name
    if kind == 2:
        sign = made.choice(("==", "!="))
        return f"{shown} {sign} '{value}'", _compared(
            sign, lambda row: row[name], lambda row: value
        )
    if kind == 3:
        low, high = sorted(made.sample((0, 1000, 1500, 2e8), 2))
        number = made.choice(NUMBERS)
        return (
            f"{low!r} < {number} <= {high!r}",
            lambda row: None if row[number] is None else low < row[number] <= high,
        )
    values, word = made.sample(_WORDS, 2), made.choice(("in", "not in"))
    listed = ", ".join(f'"{text}"' for text in values)
    return (
        f"{shown} {word} [{listed}]",
        lambda row: None if row[name] is None else (row[name] in values) == (word == "in"),
    )


def _times(value: Any, factor: int | None) -> Any:
    return value if value is None or factor is None else value * factor


def _compared(sign: str, left: Callable[[Row], Any], right: Callable[[Row], Any]) -> Truth:
    def holds(row: Row) -> bool | None:
        a, b = left(row), right(row)
        return None if a is None or b is None else bool(_COMPARED[sign](a, b))

    return holds


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _both(a: bool | None, b: bool | None, decided: bool) -> bool | None:
    """``and`` where False decides, ``or`` where True does."""
    if decided in (a, b):
        return decided
    return None if None in (a, b) else not decided
