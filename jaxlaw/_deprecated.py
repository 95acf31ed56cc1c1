"""Old public names: they work for one version, with a warning that names the new one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from jaxlaw.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


def renamed_arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Accept the old names of keyword arguments.

    The decorator stands above :func:`jaxlaw._typed.checked`, which sees the new names only.

    Args:
        names: new name of each old one, ``old="new"``.

    Raises:
        UsageError: a call gives an argument under both names.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in names.keys() & kwargs.keys():
                new = names[old]
                if new in kwargs:
                    raise UsageError(f"{old} is the old name of {new}: give one of the two")
                warn(f"argument {old} of {function.__name__}", new)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_function(old: str, function: Callable[P, T]) -> Callable[P, T]:
    """The function under its old name."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        warn(old, function.__name__)
        return function(*args, **kwargs)

    call.__name__, call.__doc__ = old, f"Deprecated name of ``{function.__name__}``."
    return call


def renamed_property(old: str, new: str) -> property:
    """A property that reads the attribute under its new name."""

    def read(self: Any) -> Any:
        warn(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)

    return property(read, doc=f"Deprecated name of ``{new}``.")


def renamed_names(module: str, members: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    """A module's ``__getattr__`` that finds members under their old names.

    Args:
        module: name of the module.
        members: its ``globals()``.
        names: new name of each old one.
    """

    def find(old: str) -> Any:
        if old not in names:
            raise AttributeError(f"module {module!r} has no attribute {old!r}")
        warn(f"{module}.{old}", f"{module}.{names[old]}")
        return members[names[old]]

    return find


def warn(old: str, new: str) -> None:
    """Warn of an old name; called from the function that the user called."""
    message = f"{old} is deprecated and will be removed in the next version: use {new}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
