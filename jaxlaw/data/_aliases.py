"""Which column of a table is which quantity: by its name, by the alias table, by a fit's own.

A name is known where all its words are: ``config.model.n_params`` is a number of parameters, and
``params_embedding``, ``batch_tokens`` or ``flops_per_token`` are nothing that is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._arrays import number_in
from jaxlaw._quantities import single_things
from jaxlaw._where import parsed
from jaxlaw.errors import UsageError
from jaxlaw.laws._parameters import INPUTS

#: Mixture ratios and losses of the two sides of a two-corpus mixture, by the plain name they stand
#: for.
SIDES = {"r": ("r_d", "r_g"), "loss": ("loss_d", "loss_g")}
#: Each of these names → all that stand for the same.
SAME = {name: {plain, *sides} for plain, sides in SIDES.items() for name in (plain, *sides)}

#: Columns that say where on which curve a row is (:mod:`jaxlaw.data`).
CURVE_COLUMNS = ("run", "step", "lr", "schedule", "phase")

#: Computed from a schedule, never logged.
OF_SCHEDULES = {"S1", "S2", "S1_pt", "S1_cpt", "S2_pt", "S2_cpt", "drop", "eta_k", "S_k"}

# Quantity → words of which a name holds one, after those that may stand beside them are gone.
NAMES = {
    "N": ("params parameters param modelsize", "n num total model count size config nonembedding"),
    "D": ("tokens token", "n num total train trained training seen consumed input count data "
                          "config"),
    "C": ("flops flop flos compute", "train training total budget config count"),
    "loss": ("loss bpb bpc nll crossentropy celoss",
             "val valid validation eval evaluation test train training final held out heldout lm"),
    "lr": ("lr learningrate", "train training config optimizer optim"),
    "step": ("step steps iteration iterations iter iters update updates",
             "global current train trainer training"),
    # Columns that also distinguish the runs of rows, see _dependence.RUN_COLUMNS.
    "run": ("runid runname name", ""),
}  # fmt: skip
# What names of columns end in: tokens_B, params (millions), n_params_1e9.
_UNITS = {
    "k": 1e3, "thousand": 1e3, "thousands": 1e3, "1e3": 1e3,
    "m": 1e6, "million": 1e6, "millions": 1e6, "1e6": 1e6,
    "b": 1e9, "bn": 1e9, "billion": 1e9, "billions": 1e9, "1e9": 1e9,
    "t": 1e12, "trillion": 1e12, "trillions": 1e12, "1e12": 1e12,
}  # fmt: skip


def known_columns(
    table: pd.DataFrame, names: Iterable[str] = tuple(NAMES)
) -> dict[str, dict[Any, float | None]]:
    """Quantity → the columns that are called so, with the unit that a name says.

    Of several with the same numbers the first. Parameters without embeddings are a part of the
    model: they count where no column has the whole.

    Example:
        >>> table = pd.DataFrame({"params_M": [125.0], "params_head": [39.0], "val_loss": [3.1]})
        >>> jl.data.known_columns(table)
        {'N': {'params_M': 1000000.0}, 'loss': {'val_loss': None}}
    """
    found = {}
    for column in table:
        if column == "cross_entropy":  # an input of laws of scores has this very name
            continue
        own = _words(str(column))
        for name in names:
            words, unit, (heads, beside) = own, None, NAMES.get(name, ("", ""))
            if name in ("N", "D", "C") and len(words) > 1 and words[-1] in _UNITS:
                words, unit = words[:-1], _UNITS[words[-1]]
            rest = "".join([word for word in words if word not in beside.split()])
            called = not {rest, "".join(words)}.isdisjoint(heads.split())
            if not called or not _holds(table[column], name, unit):
                continue
            same = found.setdefault(name, {})
            if not any(table[column].equals(table[c]) and u == unit for c, u in same.items()):
                same[column] = unit
    N = found.get("N", {})
    whole = {c: unit for c, unit in N.items() if "nonembedding" not in _words(str(c))}
    return found | ({"N": whole} if whole else {})


def _words(column: str) -> list[str]:
    """The words of a name, in small letters; nonemb and its like as ``nonembedding``."""
    words = re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", column)
    text = " ".join(word.lower() for word in words if word)
    return re.sub(r"\bnon ?emb\w*", "nonembedding", text).split()


def _holds(cells: pd.Series, name: str, unit: float | None) -> bool:
    """Whether a column has numbers, or names of runs, and such as its unit lets one expect."""
    if name == "run":
        return True
    if pd.api.types.is_bool_dtype(cells.dtype):
        return False
    values = cells.dropna().to_numpy()
    if not pd.api.types.is_numeric_dtype(cells.dtype):
        read = [number_in(cell) for cell in values]
        values = [
            single_things(cell) if number is None and isinstance(cell, str) else number
            for number, cell in zip(read, values, strict=True)
        ]
        if None in values:
            return False
    if not len(values):
        return False
    low, high = getattr(INPUTS.get(name), "plausible", None) or (0, np.inf)
    # Raw counts in a column params_M would be of models of implausible size.
    return unit is None or low <= np.nanmedian(np.array(values, float)) * unit <= high / 100


def parts_of(column, present: Collection) -> list:
    """The columns that together name a run: ``["size", "seed"]``, or in one text ``size,seed``."""
    if isinstance(column, list | tuple):
        return list(column)
    if not isinstance(column, str) or column in present:
        return [column]
    parts = [part.strip() for part in column.split(",")]
    return parts if len(parts) > 1 and any(part in present for part in parts) else [column]


def is_there(column, present: Collection) -> bool:
    """Whether a table has a column, or all columns of an expression."""
    if all(part in present for part in parts_of(column, present)):
        return True
    try:
        return isinstance(column, str) and {*parsed(column, "columns")[1].values()} <= {*present}
    except UsageError:
        return False


def input_columns(fit: Any, table: Any, names: Collection[str] | None = None) -> dict[str, str]:
    """Which columns of a table hold the inputs of a fit.

    Args:
        fit: a :class:`jaxlaw.Fit`; it remembers which columns its own runs had.
        table: DataFrame or dict.
        names: names of the inputs; all of the law's if None.

    Returns:
        Input → column, for those that are there.

    Raises:
        UsageError: a table has a column of an input's name and the one that the fit was made
            from, with other values, so that either could be meant.
    """
    present, columns = set(table.keys()), {}
    for name in fit.law.input_names if names is None else names:
        usual = (getattr(fit, "columns", None) or {}).get(name, name)
        both = name != usual and {name, usual} <= present
        if both and not np.array_equal(table[name], table[usual]):
            raise UsageError(
                f"input {name}: the table has a column {name} and {usual}, the column that the "
                f"fit took for {name}, and they differ; leave one of them out, or pass {name}= by "
                "name",
                column=usual,
            )
        if {name, usual} & present:
            columns[name] = name if name in present else usual
    return columns


def usual_columns(
    fit: Any, table: Any, columns: Mapping[str, Any], corpus: str | None = None
) -> dict[str, Any]:
    """A mapping of a table's columns, completed by those that the fitted runs had.

    Args:
        fit: a :class:`jaxlaw.Fit`.
        table: DataFrame.
        columns: canonical name → the user's column, as far as the user maps them.
        corpus: corpus whose mixture ratio is meant; r is then made of r_d or r_g.

    Raises:
        UsageError: as :func:`input_columns`, of inputs that ``columns`` does not map.
    """
    own = getattr(fit, "columns", None) or {}
    known = {plain for plain, sides in SIDES.items() if corpus or {plain, *sides} & set(columns)}
    others = [n for n in dict.fromkeys([*fit.law.input_names, *own]) if n not in {*columns, *known}]
    usual = input_columns(fit, table, others)
    there = {*table, *usual, *known_columns(table)}
    computed = {
        name: column
        for name, column in own.items()
        if name in others and name not in usual and is_there(column, there)
    }
    return {n: c for n, c in usual.items() if n != c} | computed | dict(columns)
