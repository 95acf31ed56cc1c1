"""Notes: findings that travel with a result, by code and severity."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T", bound=Any)

Severity = Literal["info", "warning", "error"]
#: Code of the note on rows that share their noise, which draws of whole groups answer.
DEPENDENT_ROWS = "dependent-rows"
_ORDER = ("error", "warning", "info")
_LINES, _WIDTH = 5, 76  # of the notes of a summary, which may indent them
_DETAILS = "(details: --verbose or .notes)"
#: How a message is written for who reads it here: commands name their own options.
_wording: ContextVar[Callable[[str], str]] = ContextVar("wording", default=str)


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


@contextlib.contextmanager
def worded(wording: Callable[[str], str]) -> Iterator[None]:
    """Within it the lists of :func:`in_brief` have every message as ``wording`` writes it."""
    token = _wording.set(wording)
    try:
        yield
    finally:
        _wording.reset(token)


def by_weight(notes: Iterable[Note]) -> list[Note]:
    """Notes as results list them: what decides first, errors before warnings.

    Notes of one severity keep their order, which is that of the work.
    """
    return sorted(notes, key=lambda note: _ORDER.index(note.severity))


def in_brief(notes: Iterable[Note], verbose: bool = False) -> list[str]:
    """Notes as a summary lists them, in five lines of 80 columns at most.

    Those that decide come first, whole where there is room, and all others in one line by code.

    Args:
        notes: the notes of a result.
        verbose: whether all are listed whole.

    Returns:
        A text for each line of the list; what is longer than a line of the screen is to be wrapped.

    Example:
        >>> from jaxlaw.notes import Note, in_brief
        >>> few, kept = Note("few-rows", "warning", "9 rows"), Note("filtered", "info", "9 of 12")
        >>> in_brief([kept, few])
        ['[warning] few-rows: 9 rows', 'also: filtered (details: --verbose or .notes)']
    """
    ordered = list(map(_worded, by_weight(dict.fromkeys(notes))))
    if verbose:
        return [str(note) for note in ordered]
    deciding = [note for note in ordered if note.decides]
    texts = list(map(_wrapped, deciding))
    if len(deciding) == len(ordered) and sum(map(len, texts)) <= _LINES:
        return [str(note) for note in deciding]
    lines, cut = _fitted(texts[: _LINES - 1])
    others = [*deciding[len(lines) :], *ordered[len(deciding) :]]
    if others or cut:
        lines.append(_by_code(others, "also" if lines else "notes"))
    return lines


def _worded(note: Note) -> Note:
    """The note in the words of :func:`worded`."""
    return dataclasses.replace(note, message=_wording.get()(note.message))


def _wrapped(note: Note) -> list[str]:
    return textwrap.wrap(str(note), _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _fitted(texts: list[list[str]]) -> tuple[list[str], bool]:
    """Wrapped notes within the lines of a summary but its last one; and whether one is cut.

    Each has a line; what room is left goes to the first, which decide most.
    """
    room, lines = _LINES - 1 - len(texts), []
    for text in texts:
        more = min(len(text) - 1, room)
        room -= more
        line = " ".join(part.strip() for part in text[: 1 + more])
        whole = 1 + more == len(text)
        lines.append(line if whole else f"{line[: line.rindex(' ')].rstrip(',;:')} …")
    return lines, any(line.endswith(" …") for line in lines)


def _by_code(notes: list[Note], word: str) -> str:
    """The line that names the notes that are not listed, and says where all are whole."""
    codes = list(dict.fromkeys(note.code for note in notes))
    for count in range(len(codes), 0, -1):
        more = f" and {len(codes) - count} more" if count < len(codes) else ""
        line = f"{word}: {', '.join(codes[:count])}{more} {_DETAILS}"
        if len(line) <= _WIDTH:
            return line
    return f"{word}: {len(codes)} more {_DETAILS}" if codes else f"… {_DETAILS}"


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
