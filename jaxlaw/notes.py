"""Notes: what a result says about itself."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T", bound=Any)

Severity = Literal["info", "warning", "error"]
_ORDER = ("error", "warning", "info")


@dataclass(frozen=True)
class Note:
    """A finding that travels with a result.

    Attributes:
        code: stable, machine-readable name, such as ``at-bound``.
        severity: ``info`` (good to know), ``warning`` (think before you rely on the
            number) or ``error`` (do not use the number).
        message: one sentence for people.
        inherited: whether a plan made with the result repeats it: what makes the parameters of a
            law or their draws doubtful makes every number doubtful that is computed from them.

    Example:
        >>> from jaxlaw.notes import Note
        >>> print(Note("at-bound", "warning", "A has gone to zero: its term is not needed"))
        [warning] at-bound: A has gone to zero: its term is not needed
    """

    code: str
    severity: Severity
    message: str
    inherited: bool = False

    @property
    def decides(self) -> bool:
        """Whether it questions the number, and does not only say how the number was made."""
        return self.severity != "info"

    def __str__(self) -> str:
        return f"[{self.severity}] {self.code}: {self.message}"


def by_weight(notes: Iterable[Note]) -> list[Note]:
    """Notes as results list them: what decides first, errors before warnings.

    Notes of one severity keep their order, which is that of the work.
    """
    return sorted(notes, key=lambda note: _ORDER.index(note.severity))


class FitWarning(UserWarning):
    """A fit that a user gets has a note of severity ``error``: do not use its numbers."""


_inside: ContextVar[bool] = ContextVar("inside", default=False)


def warns_of_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Issue a :class:`FitWarning` for every error among the notes of a function's result.

    So it reaches those who read nothing but ``fit.params``. A call that another such function
    makes on its way is silent: only what the user gets is warned of.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        outermost, token = not _inside.get(), _inside.set(True)
        try:
            result = function(*args, **kwargs)
        finally:
            _inside.reset(token)
        for note in result.notes if outermost else ():
            if note.severity == "error":
                warnings.warn(f"{note.code}: {note.message}", FitWarning, stacklevel=2)
        return result

    return call
