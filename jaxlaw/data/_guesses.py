"""Which columns, in which units, were probably meant: for messages, never taken by itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._arrays import number_in
from jaxlaw._quantities import exponential
from jaxlaw.data._columns import USUAL, bare
from jaxlaw.errors import DataError, listed
from jaxlaw.laws import Input, Law

_UNITS = (1.0, 1e3, 1e6, 1e9, 1e12)
# What names of columns end in: tokens_B, params (millions), n_params_1e9.
_ENDINGS = {
    1e3: ("k", "thousand", "thousands", "1e3"),
    1e6: ("m", "mil", "million", "millions", "1e6"),
    1e9: ("b", "bn", "billion", "billions", "1e9", "g"),
    1e12: ("t", "trillion", "trillions", "1e12"),
}
_ALIKE = 0.75  # least likeness of names


def without_columns(
    lacking: list[str], law: Law, table: pd.DataFrame, source: str, shown: Iterable[Any]
) -> DataError:
    """The error on columns that a law needs and a table lacks, with a guess of each.

    Args:
        lacking: names of these columns.
        law: law that needs them.
        table: columns that may be meant.
        source: name of the table.
        shown: names of all its columns, as the user knows them.
    """
    guesses = guessed_columns(lacking, table)
    units = guessed_units([spec for spec in law.inputs if spec.name in lacking], guesses, table)
    columns = {name: guesses.get(name, "…") for name in lacking}
    of_units = ", ".join(f"'{name}': {exponential(unit)}" for name, unit in units.items())
    words = f"columns={columns}" + f", units={{{of_units}}}" * bool(units)
    lead = "Perhaps, guessed from names and magnitudes" if guesses else "Say which they are"
    there = "there is no column" if len(lacking) == 1 else "there are no columns"
    error = DataError(
        f"{source}: {there} {', '.join(lacking)}, which law {law.name} needs; columns: "
        f"{listed(shown)}. {lead}: {words}",
        file=source,
        column=lacking[0],
    )
    error.guess = {"columns": columns, "units": units} if guesses else None
    return error


def guessed_columns(names: Iterable[str], table: pd.DataFrame) -> dict[str, Any]:
    """Name → the column of numbers that it probably is, each column once; a part of the names.

    Names that usually stand for a quantity go first, then those nearly so.
    """
    free = [column for column in table if isinstance(column, str) and _numbers(table[column]).size]
    scores = [
        (_likeness(name, column), -order, name, column)
        for name in names
        for order, column in enumerate(free)
    ]
    guesses: dict[str, Any] = {}
    for score, _, name, column in sorted(scores, reverse=True):
        if score >= _ALIKE and name not in guesses and column not in guesses.values():
            guesses[name] = column
    return {name: guesses[name] for name in names if name in guesses}


def guessed_units(specs: Iterable[Input], guesses: Mapping[str, Any], table: Any) -> dict[str, Any]:
    """Input → raw units per unit of its guessed column, where that is not the law's own."""
    units = {}
    for spec in specs:
        if spec.name not in guesses:
            continue
        values = _numbers(table[guesses[spec.name]])
        if spec.domain == "fraction" and 1 < values.max() <= 100:
            units[spec.name] = 0.01
        if spec.plausible is None or not pd.api.types.is_numeric_dtype(table[guesses[spec.name]]):
            continue
        low, high = spec.plausible
        middle, said = float(np.median(values)), _ending(guesses[spec.name])[1]
        fits = [
            u for u in (said, spec.unit, *_UNITS) if u is not None and low <= middle * u <= high
        ]
        if fits and fits[0] != spec.unit:
            units[spec.name] = fits[0]
    return units


def _numbers(column: pd.Series) -> np.ndarray:
    """The finite numbers of a column, those with a unit (7B) too."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return np.empty(0)
    if pd.api.types.is_numeric_dtype(column.dtype):
        values = column.to_numpy(dtype="float64", na_value=np.nan)
    else:
        cells = [re.sub(r"(?<=\d)\s*[kKmMbBtT]\b.*$", "", str(cell)) for cell in column]
        values = np.array([np.nan if (n := number_in(c)) is None else n for c in cells], float)
    return values[np.isfinite(values)]


def _ending(column: str) -> tuple[str, float | None]:
    """A name without the unit that it ends in, and that unit."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", column) if word]
    for unit, endings in _ENDINGS.items():
        if len(words) > 1 and words[-1].lower() in endings:
            return "".join(words[:-1]), unit
    return column, None


def _likeness(name: str, column: str) -> float:
    """How much a column's name is like those that usually stand for a quantity, 0 to 1."""
    own = bare(_ending(column)[0])
    usual = [bare(word) for word in USUAL.get(name, name).split()] + [bare(name)]
    if own in usual:
        return 1.0 - 0.001 * usual.index(own)
    if name.startswith(("loss", "cross")) and own.endswith("loss"):
        return 0.95
    longer = [word for word in usual if len(word) > 3]
    if any(word in own for word in longer):
        return 0.85
    return 0.9 * max((difflib.SequenceMatcher(None, own, w).ratio() for w in longer), default=0)
