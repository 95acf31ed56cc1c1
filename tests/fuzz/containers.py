"""The same runs in every container, with missing cells written as each of them writes these."""

from __future__ import annotations

import decimal
import fractions
import random
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

NAMES = ("N", "D", "loss")


def columns(seed: int, missing: bool) -> dict[str, list[float | None]]:
    """Runs whose numbers every kind of number holds exactly, some of them missing."""
    made = random.Random(seed)
    rows = [
        (2.0**n, 2.0**d, 2.0 + made.randrange(64) / 64)
        for n in (27, 28, 30, 31)
        for d in (31, 33, 34, 36)
    ]
    made.shuffle(rows)
    found = {
        name: list(values) for name, values in zip(NAMES, zip(*rows, strict=True), strict=True)
    }
    if missing:
        for name in NAMES:
            found[name][made.randrange(len(rows))] = None
    return found


def as_floats(of: dict[str, list[float | None]]) -> dict[str, np.ndarray]:
    """The columns as numpy has them: NaN where a cell is missing."""
    return {name: np.array([np.nan if v is None else v for v in of[name]]) for name in of}


def containers(of: dict[str, list[float | None]]) -> Iterator[tuple[str, Any]]:
    """(name, the runs in a container of that name), each made anew."""
    plain = as_floats(of)
    gone = {name: np.isnan(values) for name, values in plain.items()}
    full = {name: np.where(gone[name], 1.0, values) for name, values in plain.items()}
    yield "lists with None", {name: list(values) for name, values in of.items()}
    yield "tuples", {name: tuple(values) for name, values in of.items()}
    yield "objects", {name: np.array(values, object) for name, values in of.items()}
    yield "records", [dict(zip(NAMES, row, strict=True)) for row in zip(*of.values(), strict=True)]
    yield "float32", {name: values.astype(np.float32) for name, values in plain.items()}
    yield "big-endian", {name: values.astype(">f8") for name, values in plain.items()}
    yield "strided", {name: np.repeat(values, 2)[::2] for name, values in plain.items()}
    yield "read-only", {name: _read_only(values) for name, values in plain.items()}
    yield "jax", {name: jnp.asarray(values, jnp.float32) for name, values in plain.items()}
    yield "masked", {name: np.ma.array(full[name], mask=gone[name]) for name in of}
    yield (
        "masked, a fill of its own",
        {name: np.ma.array(full[name], mask=gone[name], fill_value=7.0) for name in of},
    )
    yield (
        "structured",
        np.array(list(zip(*plain.values(), strict=True)), [(name, float) for name in NAMES]),
    )
    yield "texts", {name: ["" if v is None else repr(v) for v in of[name]] for name in of}
    for kind in (decimal.Decimal, fractions.Fraction, np.float64):
        yield kind.__name__, {name: [v if v is None else kind(v) for v in of[name]] for name in of}
    frame = pd.DataFrame(plain)
    yield "DataFrame", frame
    yield "nullable", pd.DataFrame({name: pd.array(of[name], "Float64") for name in of})
    yield "objects with NA", pd.DataFrame(
        {name: pd.Series([pd.NA if v is None else v for v in of[name]], dtype=object)
         for name in of}
    )  # fmt: skip
    yield (
        "whole numbers",
        pd.DataFrame(of).assign(
            N=pd.array([None if v is None else int(v) for v in of["N"]], "Int64")
        ),
    )
    yield "an index of its own", frame.set_axis([f"run {k % 3}" for k in range(len(frame))])
    yield "a Series each", {name: pd.Series(values) for name, values in plain.items()}
    yield "columns in another order", frame[[*NAMES[::-1]]].assign(note="a", other=None)
    try:
        import pyarrow
    except ModuleNotFoundError:
        return
    yield "pyarrow", pyarrow.table({name: pyarrow.array(of[name], "float64") for name in of})


def _read_only(values: np.ndarray) -> np.ndarray:
    copy = values.copy()
    copy.setflags(write=False)
    return copy
