"""A container in one line: what is in it, and arrays and tables by their shapes alone."""

from __future__ import annotations

import dataclasses
import reprlib


class _Short(reprlib.Repr):
    """Values in short; a method is named after the class that it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.maxdict = self.maxlist = self.maxtuple = 6
        self.maxother = self.maxstring = 60

    def repr_ndarray(self, value, level: int) -> str:
        few = value.size <= self.maxlist
        return str(value.tolist()) if few else f"{value.dtype} {value.shape}"

    repr_ArrayImpl = repr_ndarray  # of JAX

    def repr_DataFrame(self, value, level: int) -> str:
        return f"DataFrame {value.shape}"

    def repr_float(self, value: float, level: int) -> str:
        return f"{value:.6g}"


def short_repr(container) -> str:
    """The ``__repr__`` of a dataclass or named tuple with long fields, without defaults.

    Example:
        >>> jl.Schedule(np.full(1000, 1e-3), initial_lr=1e-3)
        Schedule(rates=float64 (1000,), initial_lr=0.001)
    """
    short, shown = _Short(), []
    if isinstance(container, tuple):
        shown = [f"{name}={short.repr(value)}" for name, value in container._asdict().items()]
        return f"{type(container).__name__}({', '.join(shown)})"
    for field in dataclasses.fields(container):
        value, default = getattr(container, field.name), field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if (text := short.repr(value)) != short.repr(default):  # arrays and tables do not compare
            shown.append(f"{field.name}={text}")
    return f"{type(container).__name__}({', '.join(shown)})"
