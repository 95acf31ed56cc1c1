"""A container in one line: what is in it, and arrays and tables by their shapes alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw.notes import Note

_MOST = 6  # elements of an array and items of a mapping that are shown
_LONG = 60  # characters of anything else


def short_repr(container: Any) -> str:
    """The ``__repr__`` of a dataclass whose fields may be long, without those of their default.

    Example:
        >>> jl.Schedule(np.full(1000, 1e-3), initial_lr=1e-3)
        Schedule(rates=float64 (1000,), initial_lr=0.001)
    """
    shown = []
    for field in dataclasses.fields(container):
        value = getattr(container, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if type(value) is not type(default) or getattr(value, "ndim", 0) or value != default:
            shown.append(f"{field.name}={_short(value)}")
    return f"{type(container).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, pd.DataFrame):
        return f"DataFrame {value.shape}"
    if isinstance(value, Note):
        return value.code
    if getattr(value, "ndim", 0):
        # An array that is traced has no values to show.
        few = isinstance(value, np.ndarray) and value.size <= _MOST
        return str(value.tolist()) if few else f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, Mapping):
        if len(value) > _MOST:
            return f"{len(value)} items"
        return "{" + ", ".join(f"{key}: {_short(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        if len(value) > _MOST:
            return f"{len(value)} items"
        return "(" + ", ".join(map(_short, value)) + ")"
    if isinstance(value, float):
        return f"{value:.6g}"
    if dataclasses.is_dataclass(value):
        name = getattr(getattr(value, "law", value), "name", None)  # of a fit, its law's
        return f"<{type(value).__name__}{f' {name}' if isinstance(name, str) else ''}>"
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
