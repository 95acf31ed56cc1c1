"""Notes: findings that travel with a result, by code and severity; and what to do next."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T", bound=Any)

Severity = Literal["info", "warning", "error"]
#: Code of the note on rows that share their noise, which draws of whole groups answer.
DEPENDENT_ROWS = "dependent-rows"
#: Code of the note on a column of compute that is not 6·N·D, and that is not taken.
OWN_FLOPS = "flops-differ"
#: Code of the note on columns recognised by their names.
COLUMNS_TAKEN = "columns-taken"
#: Code of the note on a plan whose fit barely constrains its sizes.
LOOSE_FIT = "loose-fit"
_ORDER = ("error", "warning", "info")
#: Codes of one severity by what their remedy would change: first what the runs are, which changes
#: every number; last what changes intervals or single parameters alone. All others are between.
_OF_RUNS = (
    "objective-disagrees", "doubtful-values", "checkpoints-as-runs", "mixed-runs",
    "implausible-value",
)  # fmt: skip
_OF_INTERVALS = ("dropped-invalid", "loose", DEPENDENT_ROWS)
#: Code of a note that says no remedy in its message → what to do about it, in Python's words.
REMEDIES = {
    LOOSE_FIT: "plan with a forecast instead of the fit",
    "optimum-at-limit": "widen the limits and plan again",
    "poor-fit": "compare other laws on these runs (jl.cross_validate, jaxlaw study)",
    "no-floor": "compare it with the law that has an irreducible loss (jaxlaw study)",
    "at-bound": "widen the range (bounds, --bounds), or set the value (fixed, --fixed)",
    "optimum-at-tried": "add runs on the far side of that optimum, where there are none",
}
#: Multiple of the largest run beyond which the distance decides what to do next.
FAR = 10.0


@dataclass(frozen=True)
class Note:
    """A finding that travels with a result.

    Attributes:
        code: stable, machine-readable name, such as ``at-bound``.
        severity: ``info`` (good to know), ``warning`` (check the number before
            you use it) or ``error`` (do not use the number).
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


def remedy_of(notes: Iterable[Note], remedies: Mapping[str, str] = REMEDIES) -> str:
    """The remedy of the gravest note; empty where its message has one, or no note decides.

    Args:
        notes: the notes of a result.
        remedies: code → what to do.

    Example:
        >>> from jaxlaw.notes import Note, remedy_of
        >>> remedy_of([Note("at-bound", "warning", "A is at 0, the end of its range")])
        'widen the range (bounds, --bounds), or set the value (fixed, --fixed)'
    """
    first = next(iter(by_weight(notes)), None)
    if first is None or not first.decides or "={" in first.message:  # which is a remedy itself
        return ""
    return remedies.get(first.code, "")


def forbid(notes: Iterable[Note]) -> bool:
    """Whether notes say not to use the numbers: then the distance is not what matters."""
    return any(note.severity == "error" for note in notes)


def beyond_step(point: Mapping[str, float | str], why: str = "the interval of a new run") -> str:
    """What to do about a law's answer far beyond its runs, in Python's words.

    Args:
        point: the run, input → number in the unit of the runs, or label.
        why: what that gives.
    """
    texts = {k: repr(v) if isinstance(v, str) else _short(v) for k, v in point.items()}
    values = ", ".join(f"'{name}': {text}" for name, text in texts.items())
    return f"jl.forecast(runs, at={{{values}}})  # {why}"


def _short(value: float) -> str:
    """A number to three digits, its exponent without sign and zeros: ``1.79e3``."""
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), f"{value:.3g}")


def largest_run_step(tokens_per_parameter: float) -> str:
    """What to do about a forecast far beyond its runs: in trials nothing narrowed it more."""
    ratio = f"{float(f'{tokens_per_parameter:.3g}'):,g}"
    return (
        f"the most informative next run is the largest you can afford, at {ratio} tokens/parameter"
    )


def by_weight(notes: Iterable[Note]) -> list[Note]:
    """Notes as results list them: errors before warnings, then by what they would change.

    Notes that change as much keep their order, which is that of the work.
    """
    ranks = {code: rank - len(_OF_RUNS) for rank, code in enumerate(_OF_RUNS)}
    ranks |= {code: rank + 1 for rank, code in enumerate(_OF_INTERVALS)}
    return sorted(notes, key=lambda n: (_ORDER.index(n.severity), ranks.get(n.code, 0)))


def in_brief(notes: Iterable[Note], verbose: bool = False) -> list[str]:
    """Notes as a summary lists them: the two that decide most, and how many others there are.

    Columns that were taken by their names are said, too.

    Args:
        notes: the notes of a result.
        verbose: whether all are listed whole.

    Returns:
        A text for each line of the list; what is longer than a line of the screen is to be wrapped.

    Example:
        >>> from jaxlaw.notes import Note, in_brief
        >>> few, kept = Note("few-rows", "warning", "9 rows"), Note("filtered", "info", "9 of 12")
        >>> in_brief([kept, few])
        ['[warning] few-rows: 9 rows', '1 more note: .notes or --verbose']
    """
    ordered = by_weight(dict.fromkeys(notes))
    whole = ordered if verbose else [note for note in ordered if note.decides][:2]
    if not verbose:  # a guess of columns is to be seen
        whole += [note for note in ordered if note.code == COLUMNS_TAKEN and note not in whole]
    others = len(ordered) - len(whole)
    more = f"{others}{' more' if whole else ''} note{'s' * (others > 1)}: .notes or --verbose"
    return [*map(str, whole), *[more] * bool(others)]


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
