"""Answers: what plans, papers' analyses, scores and tables return. The kind is a field.

An answer is a sentence, quantities with units and intervals, tables, and notes. Its text, file,
LaTeX, notebook's view and command follow from these. A picture is optional: the function of
:data:`PICTURES` for its kind, which draws the answer's own numbers and the points of its curves.
"""

from __future__ import annotations

import importlib
import math
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from jaxlaw import _typed
from jaxlaw._json import plain
from jaxlaw._quantities import Quantity, times, written_range
from jaxlaw._result import Result, level_in_words, table_lines
from jaxlaw.errors import UsageError
from jaxlaw.notes import (
    FAR,
    LOOSE_FIT,
    OWN_FLOPS,
    REMEDIES,
    Note,
    beyond_step,
    forbid,
    largest_run_step,
    remedy_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Tables = dict[str, pd.DataFrame]
#: Kind of an answer → the function ``(answer, ax, **options) -> Axes`` that draws it.
PICTURES: dict[str, Callable[..., Any]] = {}
#: Modules whose import fills :data:`PICTURES`: all need matplotlib.
_DRAWN_BY = (
    "planning.plots", "papers.plots", "plots._fits", "plots._forecasts", "plots._intervals",
)  # fmt: skip
# Facts that the headline and the notes have.
_SAID = ("forecast", "outside", "step", "steps", "done", "siblings")
_BEYOND = 1.05  # times the largest run from which on an answer is called beyond it
_ROWS = 24  # of a table in a text
#: Kind whose table has a row a budget → rows that a summary shows of it, unless it is verbose.
_BRIEF = {"frontier": 6}


def picture(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function ``(answer, ax, **options)`` draws the answers of a kind."""

    def keep(draw):
        PICTURES[kind] = draw
        return draw

    return keep


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Answer(Result):
    """An answer to one question: numbers and tables by name, which are attributes as well.

    ``answer.N`` is the number of ``answer.quantities["N"]``; a table and a fact are attributes
    of their names, too.

    Attributes:
        kind: what it is, in words: ``allocation``.
        sentence: the answer in one sentence. A name in braces stands for the quantity with its
            unit and interval; where one of these is not finite, the sentence is empty.
        quantities: name → :class:`Quantity`.
        tables: name → table, the main one first; of ``x`` with ``x_low`` and ``x_high`` these
            are the bounds of its interval.
        units: column of a table → its unit, and what one is worth in single things.
        facts: name → text, truth value, count, or a list or dict of such, such as ``binding``.
        level: confidence level of the intervals.
        notes: findings to know before relying on it.
        beyond: times the largest fitted run that it is about, in compute; 1 up to it, NaN where
            that is unknown.
        point: inputs of the run that it is about, in the units of the runs; empty without one.
        flat: quantity → (low, high) within which the loss lies no farther above the lowest than
            single runs differ by; of a forecast, whose noise is known, and else empty.
        curves: tables of the points that its picture draws, or a function that computes them when
            they are needed; see :attr:`points`.

    Example:
        >>> plan = jl.planning.allocation(jl.published()["hoffmann-2022"], 1e21)
        >>> plan.kind, f"{plan.N:.3g}", plan.quantities["N"].unit, plan.binding
        ('allocation', '1.82e+09', 'parameters', 'compute')
    """

    kind: str = field(default="answer", compare=False)  # files begin with it
    sentence: str = ""
    quantities: dict[str, Quantity] = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    units: dict[str, tuple[str, float]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    level: float = math.nan
    notes: tuple[Note, ...] = ()
    beyond: float = math.nan
    point: dict[str, float | str] = field(default_factory=dict)
    flat: dict[str, tuple[float, float]] = field(default_factory=dict)
    curves: Tables | Callable[[], Tables] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        sentence = _filled(self.sentence, self.quantities, self.level)
        own = {"kind_name": self.kind, "notes": tuple(self.notes), "sentence": sentence}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Only for what is no field; __dict__, for while it is copied there are none.
        own, known = self.__dict__, []
        for group in ("quantities", "tables", "facts"):
            held = own.get(group, {})
            if name in held:
                return held[name].value if group == "quantities" else held[name]
            known += held
        raise AttributeError(
            f"this {own.get('kind', 'answer')} has no {name}; it has {', '.join(known)}"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.quantities, *self.tables, *self.facts]

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Quantity → (low, high) at ``level``, of those that have an interval."""
        known = self.quantities.items()
        return {name: (one.low, one.high) for name, one in known if not math.isnan(one.low)}

    @property
    def draws(self) -> dict[str, np.ndarray]:
        """Quantity → (R,) the same for every draw of the parameters, NaN where it has none."""
        known = self.quantities.items()
        return {name: one.draws for name, one in known if one.draws is not None}

    @property
    def points(self) -> Tables:
        """The points that its picture draws: tables, computed at the first use."""
        if callable(self.curves):
            object.__setattr__(self, "curves", self.curves())
        return self.curves

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a quantity or a column; of one of many, such as ``loss[code]``, of all."""
        for key in (name, name.partition("[")[0]):
            if key in self.quantities:
                return self.quantities[key].unit, self.quantities[key].worth
            if key in self.units:
                return self.units[key]
        return None

    @property
    def headline(self) -> str:
        """The answer in a sentence, how far it is from the runs, and what makes it doubtful."""
        errors = [note for note in self.notes if note.severity == "error"]
        if not self.sentence:
            return errors[0].message if errors else ""
        codes = {note.code for note in self.notes}
        parts = [self.sentence]
        if self.beyond >= _BEYOND:
            parts.append(f"{times(self.beyond)} beyond the largest run")
        elif "extrapolation" in codes:
            parts.append("outside the fitted runs")
        elif "range-unknown" in codes:
            parts.append("how far that is from the runs is unknown")
        elif self.beyond == self.beyond:
            parts.append("within the fitted runs")
        parts += ["FLOPs are 6·N·D"] * (OWN_FLOPS in codes)
        parts += ["loose fit: a forecast is the better source"] * (LOOSE_FIT in codes)
        parts += [f"do not use it: {errors[0].code}"] if errors else []
        return "; ".join(parts)

    @property
    def next_step(self) -> str:
        """What to do about its distance from the runs, or about the note that decides most."""
        point, far = self.point, self.beyond >= FAR
        if not forbid(self.notes) and any(note.code == LOOSE_FIT for note in self.notes):
            return beyond_step(point, REMEDIES[LOOSE_FIT]) if {"N", "D"} <= {*point} else ""
        if forbid(self.notes) or not (far and {"N", "D"} <= {*point}):
            return remedy_of(self.notes)
        if not self.facts.get("forecast"):
            return beyond_step(point)
        worth = {name: (self.unit_of(name) or ("", math.nan))[1] for name in ("N", "D")}
        ratio = point["D"] * worth["D"] / (point["N"] * worth["N"])
        return largest_run_step(ratio) if math.isfinite(ratio) else ""

    def _flat_ranges(self) -> dict[str, str]:
        """Quantity → its range in :attr:`flat` in words."""
        return {
            name: written_range(low, high, *(self.unit_of(name) or ("", 1.0)))
            for name, (low, high) in self.flat.items()
        }

    def shown(self) -> Tables:
        """Its tables, and the range within run-to-run noise of the best."""
        ranges = self._flat_ranges()
        flat = pd.DataFrame({"quantity": [*ranges], "from … to": [*ranges.values()]})
        named = {"as good as the best within run-to-run noise": flat} if ranges else {}
        return {**self.tables, **named}

    def lines(self) -> list[str]:
        """Numbers with their intervals, facts, what lies within a run's noise, and tables."""
        facts = [
            f"{name:<12} {value}"
            for name, value in self.facts.items()
            if isinstance(value, str | int | float) and name not in _SAID
        ]
        flat = [
            f"{name} {between} lies within a run's noise of the lowest loss"
            for name, between in self._flat_ranges().items()
        ]
        lines = [*self.number_lines(), *facts, *flat]
        if brief := _BRIEF.get(self.kind):
            # Rows from the first to the last, and of the columns those that fit side by side.
            table = next(iter(self.tables.values()))
            kept = np.unique(np.linspace(0, len(table) - 1, brief).round().astype(int))
            lines += table_lines(self.readable(table.iloc[kept], beside=True))[: len(kept) + 1]
            return [*lines, f"({len(kept)} of {len(table)} rows; all columns: --verbose or .table)"]
        return lines + self._whole_tables()

    def details(self) -> list[str]:
        """The tables that the summary else has in brief."""
        return self._whole_tables() if self.kind in _BRIEF else []

    def _whole_tables(self) -> list[str]:
        lines = []
        for table in self.tables.values():
            # A column of one value that the numbers above have says nothing more.
            said = {
                name
                for name, one in self.quantities.items()
                if name in table and len(table) > 3 and (table[name] == one.value).all()
            }
            ends = {f"{name}_{end}" for name in said for end in ("low", "high")}
            table = table.drop(columns=[name for name in table if name in said | ends])
            every = max(1, -(-len(table) // _ROWS))
            lines += table_lines(self.readable(table.iloc[::every]))
            if every > 1:
                lines.append(f"(one row of {every} of {len(table):,}; a .csv file has all)")
        return lines

    def _file_record(self) -> dict:
        points = self.points
        return self.to_dict() | ({"points": plain(points)} if points else {})

    @classmethod
    def _read_fields(cls, record: dict) -> Self:
        points = _typed.load(record.get("points", {}), Tables, "points")
        saved = {name: value for name, value in record.items() if name != "points"}
        kind = record["kind"].removeprefix("jaxlaw ")
        return replace(super()._read_fields(saved), kind=kind, curves=points)

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw it, on ``ax`` or a new figure; options are those of the picture of its kind."""
        if not self.picture:
            return super().plot(ax)  # which refuses it
        try:
            ax = ax or importlib.import_module("jaxlaw._axes").new_axes()
            return PICTURES[self.kind](self, ax, **options)
        except KeyError:
            if self.points:
                raise
            raise UsageError(f"this {self.kind} has no points to draw: nothing was found") from None

    @property
    def picture(self) -> str:
        """Name of the function that draws its kind; empty if none does. Needs matplotlib."""
        for module in _DRAWN_BY if self.kind not in PICTURES else ():
            importlib.import_module(f"jaxlaw.{module}")
        return PICTURES[self.kind].__name__ if self.kind in PICTURES else ""

    def __getstate__(self) -> dict[str, Any]:
        # Other processes get the answer with its points: a function may not be pickled.
        return {**self.__dict__, "curves": self.points}


# A dataclass takes the defaults of fields off the class, where properties of Result would then be.
Answer.quantities = Answer.tables = MappingProxyType({})  # type: ignore[assignment]


def _filled(sentence: str, quantities: Mapping[str, Quantity], level: float) -> str:
    """A sentence with quantities in place of ``{name}``; the first interval says its level."""
    names = [name for _, name, _, _ in string.Formatter().parse(sentence) if name]
    if not all(math.isfinite(quantities[name].value) for name in names):
        return ""
    texts = {name: str(quantities[name]) for name in names}
    for name in names:
        if bounds := quantities[name].interval:
            texts[name] = f"{quantities[name].number} ({level_in_words(level)}: {bounds})"
            break
    return sentence.format(**texts) if names else sentence
