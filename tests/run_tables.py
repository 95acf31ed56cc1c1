"""Tables and assertions that the tests of runs share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jaxlaw.data._runs import Observations


def simple(n: int = 12) -> pd.DataFrame:
    """A sound table for chinchilla and, in single units with units=1, for dcpt."""
    i = np.arange(n)
    N = 1e8 * 2.0 ** (i % 4)
    D = 1e9 * 3.0 ** (i // 4)
    r = 0.1 + 0.07 * i
    return pd.DataFrame({"N": N, "D": D, "r": r, "loss": 1.7 + 400 / N**0.34 + 410 / D**0.28})


def with_cell(row: int, column: str, value: object) -> pd.DataFrame:
    frame = simple().astype(object)
    frame.loc[row, column] = value
    return frame


def write_csv(tmp_path: Path, frame: pd.DataFrame, name: str = "runs.csv") -> str:
    path = tmp_path / name
    frame.to_csv(path, index=False)
    return str(path)


def assert_says(error: pytest.ExceptionInfo, *parts: str) -> None:
    message = str(error.value)
    for part in parts:
        assert part in message, f"{part!r} is not in {message!r}"


def assert_same(a: Observations, b: Observations) -> None:
    assert a.inputs.keys() == b.inputs.keys()
    for name in a.inputs:
        np.testing.assert_array_equal(a.inputs[name], b.inputs[name])
    np.testing.assert_array_equal(a.target, b.target)
    np.testing.assert_array_equal(a.weight, b.weight)


def codes(observations: Observations) -> list[str]:
    return [note.code for note in observations.notes]
