"""What every plan shares: inputs checked, numbers with intervals and notes out."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from jaxlaw._quantities import checked_number, in_unit, says_unit
from jaxlaw._result import Result
from jaxlaw._rounding import SAME
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting import outside_range, range_message
from jaxlaw.notes import Note, by_weight
from jaxlaw.uncertainty import Draws

MISSING = 0.05  # share of draws without an answer from which on the others' interval misleads
Inputs = Mapping[str, Any] | None  # what ``at=`` of a plan is


def require_inputs(source: Draws, *names: str) -> None:
    """Refuse a law that lacks an input."""
    missing = [name for name in names if name not in source.law.input_names]
    if missing:
        raise UsageError(
            f"law {source.law.name} has no input {', '.join(missing)} (it takes "
            f"{', '.join(source.law.input_names)}); this plan needs {', '.join(names)}"
        )


def law_inputs(source: Draws, given: Inputs, free: Sequence[str]) -> dict[str, float]:
    """Inputs the user holds, in the law's own units: all but the free ones, and no others.

    Raises:
        UsageError: an input is missing, unknown or not a number of its domain.
    """
    law, given = source.law, given or {}
    for name in given:
        if name not in law.input_names or name in free:
            raise UsageError(
                f"law {law.name} takes no input '{name}' here."
                f"{nearest(name, [one for one in law.input_names if one not in free])}"
            )
    missing = [name for name in law.input_names if name not in free and name not in given]
    if missing:
        raise UsageError(f"law {law.name} also needs {', '.join(missing)}; give it in at=")
    given = {
        spec.name: float(spec.codes(given[spec.name])) if spec.levels else given[spec.name]
        for spec in law.inputs
        if spec.name in given
    }
    given = {name: in_unit_of_runs(source, name, value) for name, value in given.items()}
    for spec in law.inputs:
        if spec.name in given:
            domain = "nonnegative" if spec.mixture else spec.domain
            unit = source.units[spec.name] if domain == "fraction" else 1.0
            checked_number(spec.name, given[spec.name], domain, unit)
    held = [name for name in law.shares if name in given]
    if held and len(held) < len(law.shares):
        raise UsageError(
            f"{', '.join(held)}: one share of a mixture is not held while others are searched; "
            f"caps={{'{held[0]}': …}} limits it",
            argument=held[0],
        )
    own = {name: float(value) * source.units[name] for name, value in given.items()}
    return law.whole_mixtures(own, _not_whole(held)) if held else own


def _not_whole(names: Sequence[str]) -> Callable[[Any, Any, str], UsageError]:
    def refuse(_: Any, sums: Any, remedy: str) -> UsageError:
        total = f"{float(sums):.6g}"
        return UsageError(
            f"{', '.join(names)} add up to {total}, shares of one mixture to 1; {remedy}",
            argument=names[0],
        )

    return refuse


def law_inputs_of_each(
    every: Sequence[Draws], inputs: Inputs, free: Sequence[str]
) -> tuple[dict[str, float], ...]:
    """As :func:`law_inputs` for several laws: each takes those of the inputs that it has.

    Raises:
        UsageError: also where no law takes an input.
    """
    known = {name for source in every for name in source.law.input_names} - {*free}
    inputs = inputs or {}
    for name in inputs:
        if name not in known:
            raise UsageError(f"no law here takes an input '{name}'.{nearest(name, known)}")
    return tuple(law_inputs(source, source.inputs_taken(inputs), free) for source in every)


def in_unit_of_runs(source: Draws, name: str, value: Any) -> Any:
    """A user's value of an input as a number in the unit of the runs; raises UsageError."""
    try:
        return source.fit.in_unit_of_runs(name, value)
    except (DataError, UsageError) as error:
        raise UsageError(str(error), argument=name, value=value) from None


def checked_input(source: Draws, name: str, value: Any, domain: str = "positive") -> float:
    """A number, or ``"70B"``, of an input in the unit of the runs; raises UsageError."""
    return checked_number(name, in_unit_of_runs(source, name, value), domain)


def checked_tokens(source: Draws, name: str, value: Any, domain: str = "positive") -> float:
    """A number of tokens, in the units of D, or a text such as ``"2T"``; raises UsageError."""
    return checked_number(name, in_unit(value, source.scale("D"), "tokens"), domain)


def checked_compute(value: Any) -> float:
    """A number of FLOPs; raises UsageError, also of ``"7B"``, which is surely not FLOPs."""
    number = in_unit(value, 1.0, "FLOPs")
    if isinstance(value, str) and says_unit(value) and "flop" not in value.lower():
        raise UsageError(f"compute is {value!r}; write FLOPs as 1e21 or '1e21 FLOPs'")
    return checked_number("compute", number)


def numbers_by_name(
    names: Sequence[str], given: Mapping[str, float], what: str, default: Any = None
) -> np.ndarray:
    """(k,) numbers, not negative, of an argument that maps names to them.

    Args:
        names: names that it may have.
        given: name → number.
        what: the argument, for messages.
        default: (k,) numbers of names that are not given; None where all are to be.

    Raises:
        UsageError: another name, a name that is left out, a negative number, or nothing but 0.
    """
    for name in given:
        if name not in names:
            raise UsageError(
                f"{what}: '{name}' is none of {', '.join(names)}.{nearest(name, names)}",
                argument=what,
                value=given,
            )
    missing = [name for name in names if name not in given]
    if missing and default is None:
        raise UsageError(
            f"{what}: it does not name {', '.join(missing)}: give each a number, 0 where it does "
            "not count",
            argument=what,
            value=given,
        )
    values = np.array(
        [
            checked_number(f"{what} of {name}", given[name], "nonnegative")
            if name in given
            else default[k]
            for k, name in enumerate(names)
        ],
        float,
    )
    if not values.any():
        raise UsageError(f"{what} are all 0", argument=what, value=given)
    return values


def fewest_degrees(sources: Sequence[Draws]) -> float:
    """Degrees of freedom of what several sources' draws say together, with care."""
    return min(source.degrees for source in sources)


def missing_draws_notes(values: np.ndarray, what: str) -> list[Note]:
    """How many of the draws in (1 + R,) values have no answer."""
    without = np.isnan(np.asarray(values)[1:])
    if not without.any():
        return []
    share = without.mean()
    message = f"{share:.1%} of {without.size} draws have no {what}; intervals leave them out"
    severity = "warning" if share > MISSING else "info"
    return [Note("draws-without-answer", severity, message)]


def source_notes(source: Draws, what: str = "", /, **at: float) -> list[Note]:
    """Where an answer (in the user's units) is outside the fitted range; the fit's own warnings."""
    notes = range_notes(source, what, **at)
    if source.warnings:
        codes = ", ".join(dict.fromkeys(note.code for note in source.warnings))
        severity = "error" if any(n.severity == "error" for n in source.warnings) else "warning"
        of = f" of the {what} loss" if what else ""
        message = f"the fit{of} has warnings, which its own notes explain: {codes}"
        notes.append(Note("doubtful-fit", severity, message))
    return notes


def range_notes(source: Draws, what: str = "", /, **at: float) -> list[Note]:
    """Where an answer (in the user's units) is outside the fitted range."""
    notes, known, unknown, of = [], {}, [], f" of the {what} loss" if what else ""
    for name, value in at.items():
        if np.isnan(source.ranges.get(name, (0.0, 0.0))).any():  # of published coefficients
            unknown.append(name)
        elif np.isfinite(value) and name in source.ranges:
            known[name] = value
    flags = outside_range(source.ranges, source.joint, known)
    outside = [
        range_message(label, source.ranges, source.joint, known) for label in flags if flags[label]
    ]
    if outside:
        message = f"outside the fitted range{of}: {', '.join(outside)}; an extrapolation"
        notes.append(Note("extrapolation", "warning", message))
    if unknown:
        message = (
            f"no fitted range of {', '.join(unknown)} is known{of}: whether this is an "
            "extrapolation is unknown"
        )
        notes.append(Note("range-unknown", "warning", message))
    return notes


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Answer(Result):
    """What plans have in common; the numbers are the attributes of each plan's own answer.

    Attributes:
        binding: the constraint that binds, in words.
        interval: quantity → (low, high) at ``level``, from the draws; empty without.
        draws: quantity → (R,) the same plan for every draw, NaN where it has none.
        level: confidence level of the intervals.
        notes: findings to know before relying on it.
        flat: quantity → (low, high) within which the loss lies no farther above the lowest than
            single runs differ by; of a forecast, whose noise is known, and else empty.
        laws: of a forecast: what each law says alone, with its weight, and, where that can be said,
            ``regret``: by how much, relative, the loss of this answer lies above the lowest if that
            law is the true one. None without a forecast.
    """

    binding: str
    interval: dict[str, tuple[float, float]]
    draws: dict[str, np.ndarray] = field(default_factory=dict, metadata={"saved": False})
    level: float
    notes: tuple[Note, ...]
    flat: dict[str, tuple[float, float]] = field(default_factory=dict)
    laws: pd.DataFrame | None = None
    #: Name of the table that the command writes as CSV, in place of the numbers in one row.
    csv: ClassVar[str] = ""

    @property
    def quantities(self) -> dict[str, float]:
        """The plan's own numbers, by name."""
        own = [f.name for f in dataclasses.fields(self) if f.name not in _SHARED]
        values = {name: getattr(self, name) for name in own}
        return {name: value for name, value in values.items() if isinstance(value, float)}

    def shown(self) -> dict[str, pd.DataFrame]:
        """Its tables, and what lies within the noise of a run."""
        if not self.flat:
            return self.tables()
        rows = [(name, *limits) for name, limits in self.flat.items()]
        flat = pd.DataFrame(rows, columns=["quantity", "low", "high"])
        return {**self.tables(), "as good as the best, to the noise of a run": flat}

    def lines(self) -> list[str]:
        """Numbers with their intervals, what binds, and what each law says alone."""
        lines = [self._line(name, value) for name, value in self.quantities.items()]
        return [*lines, f"{'binding':<12} {self.binding}", *self._law_lines()]

    def _law_lines(self) -> list[str]:
        """What laws say alone, and what lies within the noise of a run."""
        lines = [
            f"{name} {low:.4g} to {high:.4g} lies within a run's noise of the lowest loss"
            for name, (low, high) in self.flat.items()
        ]
        if self.laws is not None:
            shown = self.laws[[name for name in self.laws if _differs(self.laws[name])]]
            form = {"float_format": lambda value: f"{value:.4g}", "na_rep": ""}
            lines += ["each law alone:", *shown.to_string(index=False, **form).split("\n")]
        return lines

    def _known_lines(self) -> list[str]:
        """A line for each number that is known."""
        known = {name: v for name, v in self.quantities.items() if not np.isnan(v)}
        return [self._line(name, value) for name, value in known.items()]

    def _line(self, name: str, value: float) -> str:
        line = f"{name:<12} {value:>12.6g}"
        if name in self.interval:
            low, high = self.interval[name]
            line += f"   {self.level:.0%} interval {low:.5g} to {high:.5g}"
        return line


def _differs(column: pd.Series) -> bool:
    """Whether a column differs between laws: what was given to all need not be shown again."""
    if len(column) == 1 or column.dtype.kind not in "fi":
        return True
    return not np.allclose(column, column.iloc[0], rtol=SAME, atol=0.0, equal_nan=True)


_SHARED = {f.name for f in dataclasses.fields(Answer)}


@dataclass(frozen=True, eq=False, repr=False)
class AnswerTable(Result):
    """Many answers of one kind, a row each.

    Attributes:
        table: the numbers; with draws ``…_low`` and ``…_high`` of each.
        level: confidence level of the intervals.
        notes: findings to know before relying on it.
    """

    table: pd.DataFrame
    level: float
    notes: tuple[Note, ...]
    csv: ClassVar[str] = "table"

    def lines(self) -> list[str]:
        """The table."""
        return [self.table.to_string(index=False, float_format=lambda value: f"{value:.5g}")]

    def __repr__(self) -> str:
        """The table, cut where pandas cuts it, and the notes."""
        return "\n".join([repr(self.table), *map(str, by_weight(self.notes))])


def draw(picture: str, *args: Any, **options: Any) -> Any:
    """Draw by the name of a function of :mod:`jaxlaw.plots`, which stands above all plans."""
    return getattr(importlib.import_module("jaxlaw.plots"), picture)(*args, **options)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Pictured:
    """Of an answer whose picture needs the fit as well, which the answer's files do not hold.

    Attributes:
        question: argument of the plan → what was given for it; None of an answer from a file.
    """

    question: Mapping[str, Any] | None = field(default=None, metadata={"saved": False})

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """Name, arguments and options of the picture; ``question`` without the level."""
        raise NotImplementedError

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw it with the fit that it was planned with; needs matplotlib.

        Args:
            ax: axes to draw on; new ones if None.
            **options: options of the function of :mod:`jaxlaw.plots` that draws it.

        Raises:
            UsageError: the answer was read from a file, which does not hold the fit.
        """
        if self.question is None:
            kind = type(self).kind_of_record()  # type: ignore[attr-defined]
            raise UsageError(
                f"the picture of a result of kind '{kind}' needs the fit, which "
                "its file does not hold: draw it where it is planned, or plan again"
            )
        picture, args, own = self._drawn(without(self.question, "level"))
        return draw(picture, *args, ax=ax, **{**own, **options})

    def __getstate__(self) -> dict[str, Any]:
        # Other processes get the answer as files do: a cost of the user's own may not be pickled.
        return {**self.__dict__, "question": None}


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The items of a dict but for some."""
    return {name: value for name, value in values.items() if name not in names}


def keeps_question(plan: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a plan whose answer is :class:`Pictured`: it keeps what was asked."""
    signature = inspect.signature(plan)

    @functools.wraps(plan)
    def run(*args: Any, **options: Any) -> Any:
        answer = plan(*args, **options)
        return dataclasses.replace(answer, question=signature.bind(*args, **options).arguments)

    return run
