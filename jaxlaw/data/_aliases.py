"""The alias table: columns that are taken for a quantity since their names say so.

A name is known where all its words are: ``config.model.n_params`` is a number of parameters, and
``params_embedding``, ``batch_tokens`` or ``flops_per_token`` are nothing that is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._arrays import number_in
from jaxlaw._quantities import single_things
from jaxlaw.laws._parameters import INPUTS

# Quantity → words of which a name holds one, after those that may stand beside them are gone.
_NAMES = {
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
    table: pd.DataFrame, names: Iterable[str] = tuple(_NAMES)
) -> dict[str, dict[Any, float | None]]:
    """Quantity → the columns that are called so, with the unit that a name says.

    Of several with the same numbers the first. Parameters without embeddings are a part of the
    model: they count where no column has the whole.

    Example:
        >>> table = pd.DataFrame({"params_M": [125.0], "params_head": [39.0], "val_loss": [3.1]})
        >>> jl.data.known_columns(table)
        {'N': {'params_M': 1000000.0}, 'loss': {'val_loss': None}}
    """
    found: dict[str, dict[Any, float | None]] = {}
    for column in table:
        if column == "cross_entropy":  # an input of laws of scores has this very name
            continue
        for name in names:
            words, unit = _words(str(column)), None
            if name in ("N", "D", "C") and len(words) > 1 and words[-1] in _UNITS:
                words, unit = words[:-1], _UNITS[words[-1]]
            heads, beside = (text.split() for text in _NAMES.get(name, ("", "")))
            rest = "".join(word for word in words if word not in beside)
            if {rest, "".join(words)} & {*heads} and _holds(table[column], name, unit):
                found.setdefault(name, {})[column] = unit
    whole = {
        c: unit for c, unit in found.get("N", {}).items() if "nonembedding" not in _words(str(c))
    }
    found |= {"N": whole} if whole else {}
    return {name: _distinct(table, columns) for name, columns in found.items()}


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
    values: Any = cells.dropna().to_numpy()
    if not pd.api.types.is_numeric_dtype(cells.dtype):
        read = [number_in(cell) for cell in values]
        values = [
            single_things(cell) if number is None and isinstance(cell, str) else number
            for number, cell in zip(read, values, strict=True)
        ]
    if not len(values) or any(value is None for value in values):
        return False
    low, high = getattr(INPUTS.get(name), "plausible", None) or (0, np.inf)
    # Raw counts in a column params_M would be of models that nobody has.
    return unit is None or low <= np.nanmedian(np.array(values, float)) * unit <= high / 100


def _distinct(table: pd.DataFrame, columns: Mapping[Any, float | None]) -> dict[Any, float | None]:
    first: dict[Any, float | None] = {}
    for column, unit in columns.items():
        if not any(table[column].equals(table[other]) and u == unit for other, u in first.items()):
            first[column] = unit
    return first
