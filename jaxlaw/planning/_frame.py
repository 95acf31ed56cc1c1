"""What every plan shares: inputs checked, numbers with intervals and notes out."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._json import plain
from jaxlaw._quantities import (
    SHARE,
    Quantity,
    checked_number,
    in_unit,
    says_unit,
    times,
    written,
    written_range,
)
from jaxlaw._result import TARGET, Result
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting import outside_range, range_message
from jaxlaw.laws import Law
from jaxlaw.notes import (
    FAR,
    LOOSE_FIT,
    OWN_FLOPS,
    REMEDIES,
    Note,
    beyond_step,
    forbid,
    in_brief,
    largest_run_step,
    remedy_of,
)
from jaxlaw.schedules import Schedule
from jaxlaw.uncertainty import Draws, intervals

#: Ratio of the ends of an interval from which on a fit is loose. In 504 fits
#: of 7 to 120 simulated runs, planned at ten times the largest, one size in four was off by more
#: than 2 where its interval was wider, and one in 25 where it was not; it held the truth in both.
_LOOSE, _SIZES = 10.0, ("N", "D", "compute")
_BEYOND = 1.05  # times the largest run from which on an answer is called beyond it
MOST_ABOVE = 0.75  # share of normal draws whose loss is above the fit's
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
    require_loss(source)


def require_loss(source: Draws) -> None:
    """Refuse a law whose target is not better when low: a score, or a learning rate."""
    law = source.law
    if law.better == "high":
        raise UsageError(f"law {law.name} predicts a score, which is better when high")
    if law.better == "neither":
        raise UsageError(
            f"law {law.name} predicts {law.target}, and this plan is of a loss; predict says what "
            "it is for a run"
        )


def _where_settings_are_searched(law: Law, missing: Sequence[str], free: Sequence[str]) -> str:
    """What else than ``at=`` helps a plan of N and D with other positive inputs; empty for none."""
    positive = {spec.name for spec in law.inputs if spec.domain == "positive"}
    if not {"N", "D"} <= {*free} or not positive & {*missing}:
        return ""
    return ", or search it with N and D by optimal_inputs(…, compute=…)"


def law_inputs(source: Draws, given: Inputs, free: Sequence[str]) -> dict[str, float]:
    """Inputs the user holds, in the law's own units: all but the free ones, and no others.

    Raises:
        UsageError: an input is missing, unknown or not a number of its domain.
    """
    law, given = source.law, given or {}
    for name in given:
        if name in free:
            raise UsageError(f"this plan searches {name} itself: leave it out of at=")
        if name not in law.input_names:
            raise UsageError(
                f"law {law.name} takes no input '{name}' here."
                f"{nearest(name, [one for one in law.input_names if one not in free])}"
            )
    missing = [name for name in law.input_names if name not in free and name not in given]
    if missing:
        also = _where_settings_are_searched(law, missing, free)
        raise UsageError(f"law {law.name} also needs {', '.join(missing)}; give it in at={also}")
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
    try:
        number = in_unit_of_runs(source, "D", value)
    except UsageError as error:
        message = re.sub(r"\bD( =|=)", rf"{name}\1", str(error))
        raise UsageError(message, argument=name, value=value) from None
    return checked_number(name, number, domain)


def checked_compute(value: Any) -> float:
    """A number of FLOPs; raises UsageError, also of ``"7B"``, which is surely not FLOPs."""
    number = in_unit(value, 1.0, "FLOPs")
    if isinstance(value, str) and says_unit(value) and "flop" not in value.lower():
        raise UsageError(f"compute is {value!r}; write FLOPs as 1e21 or '1e21 FLOPs'")
    return checked_number("compute", number)


def numbers_by_name(
    names: Sequence[str], given: Mapping[str, float], what: str, default: Any = None,
    domain: str = "nonnegative",
) -> np.ndarray:  # fmt: skip
    """(k,) numbers, not negative, of an argument that maps names to them.

    Args:
        names: names that it may have.
        given: name → number.
        what: the argument, for messages.
        default: (k,) numbers of names that are not given; None where all are to be.
        domain: domain of the numbers.

    Raises:
        UsageError: another name, a name that is left out, a number outside the domain, or nothing
            but 0.
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
            checked_number(f"{what} of {name}", given[name], domain)
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


def off_centre_notes(source: Draws, values: np.ndarray, what: str = "loss") -> list[Note]:
    """Where normal draws of parameters that are hardly known bend the law, so that losses rise.

    Positive parameters are drawn as logarithms. Of E and A, known only in their sum, one rises by
    more than the other can fall, in every draw. Draws of a covariance that has its runs follow the
    law and are not normal in the parameters; those of its file, which has no runs, are.

    Args:
        source: the law and its draws.
        values: (1 + R,) loss, or compute that a loss takes, by the fit and by its draws.
        what: which of the two it is.
    """
    above = np.nanmean(values[1:] > values[0]) if len(values) > 1 else 0.0
    if source.kind != "normal" or above <= MOST_ABOVE:
        return []
    message = (
        f"{above:.0%} of the draws have a higher {what} than the fit: parameters are hardly known, "
        f"and normal draws of them bend the law; the interval of the {what} (and a regret) is too "
        "high. Plan with the covariance itself, made from the runs in place of read from a file"
    )
    return [Note("draws-off-centre", "warning", message)]


def source_notes(source: Draws, what: str = "", /, **at: float) -> list[Note]:
    """Where an answer (in the user's units) is outside the fitted range; the fit's own warnings."""
    notes = range_notes(source, what, **at)
    said = (OWN_FLOPS, LOOSE_FIT)
    notes += [note for note in source.warnings if note.code in said]
    if warnings := [note for note in source.warnings if note.code not in said]:
        codes = ", ".join(dict.fromkeys(note.code for note in warnings))
        severity = "error" if any(n.severity == "error" for n in warnings) else "warning"
        of = f" of the {what} loss" if what else ""
        message = f"the fit{of} has warnings, which its own notes explain: {codes}"
        notes.append(Note("doubtful-fit", severity, message))
    return notes


def range_notes(source: Draws, what: str = "", /, **at: float) -> list[Note]:
    """Where an answer (in the user's units) is outside the fitted range."""
    notes, known, unknown, of = [], {}, [], f" of the {what} loss" if what else ""
    for name, value in inputs_as_numbers(source, at).items():
        if np.isnan(source.ranges.get(name, (0.0, 0.0))).any():  # of published coefficients
            unknown.append(name)
        elif np.isfinite(value) and name in source.ranges:
            known[name] = value
    flags = outside_range(source.ranges, source.joint, known)
    outside = [
        range_message(label, source.ranges, source.joint, known, source.fit.input_units())
        for label in flags
        if flags[label]
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


def context_of(kind: type[Result], source: Draws, at: Inputs = None) -> dict[str, Any]:
    """Fields of an answer that are made of the runs: their units, and how far it lies from them.

    Args:
        kind: class of the answer.
        source: law with the units and ranges of its runs.
        at: inputs of the answer, in the units of the runs, or as a user says them.

    Returns:
        ``units``, ``beyond`` and ``point``.
    """
    known = inputs_as_numbers(source, at or {})
    return {
        "units": units_of(kind, source),
        "beyond": source.fit.times_beyond(known),
        "point": _point_of(source, known, at or {}),
    }


def _point_of(
    source: Draws, numbers: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, float | str]:
    """All inputs of a run, labels as they are; empty where one is unknown."""
    point: dict[str, float | str] = {}
    for spec in source.law.inputs:
        value = given.get(spec.name) if spec.levels else numbers.get(spec.name)
        if value is None or not (spec.levels or math.isfinite(float(value))):
            return {}
        point[spec.name] = str(value) if spec.levels else float(value)
    return point


def inputs_as_numbers(source: Draws, at: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs of an answer as numbers in the units of the runs; labels are left out.

    A number is an answer here: however large, it was meant in the unit of the runs.
    """
    numbers = {
        name: in_unit_of_runs(source, name, value) if isinstance(value, str) else value
        for name, value in at.items()
        if name in source.law.input_names
    }
    return {name: value for name, value in numbers.items() if not isinstance(value, str)}


#: What a quantity or column of a plan counts, where it is no input of the law.
UNITS = {
    "N": "parameters", "D": "tokens", "U": "tokens", "tokens": "tokens", "compute": "FLOPs",
    "loss": TARGET, "r": SHARE, "saved": SHARE,
}  # fmt: skip


def unit_of(source: Draws, name: str, noun: str | None = None) -> tuple[str, float]:
    """The unit of a plan's quantity or column, and what one is worth in single things.

    Args:
        source: law with the units of its runs.
        name: name of the quantity; an input of the law has the unit of that.
        noun: ``parameters``, ``tokens``, ``FLOPs``, ``share``, ``target``, an input of the law
            whose unit it has, or what it is measured in; that of the name if None.
    """
    inputs = source.fit.input_units()
    if (counted := name if noun is None else noun) in inputs:
        return inputs[counted]
    noun = UNITS.get(name, "") if noun is None else noun
    if noun == TARGET:
        return source.fit.target_unit, 1.0
    counted = {"parameters": "N", "tokens": "D"}.get(noun)
    worth = source.scale(counted) if counted in source.law.input_names else 1.0
    return noun, worth


def plan_answer(
    kind: str, sentence: str, source: Draws, values: Mapping[str, Any] = MappingProxyType({}), *,
    level: float, at: Inputs = None, given: Collection[str] = (), degrees: float | None = None,
    units: Mapping[str, str] = MappingProxyType({}), tables: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] = MappingProxyType({}), notes: Sequence[Note] = (), **more: Any,
) -> Answer:  # fmt: skip
    """The answer of a plan: numbers with intervals and units, and how far it is from the runs.

    Args:
        kind: kind of the answer.
        sentence: the answer in a sentence, with quantities in braces (:class:`jaxlaw.Answer`).
        source: law whose units and runs it is about.
        values: quantity → number, or (1 + R,) of the fit and of its draws.
        level: confidence level of the intervals.
        at: inputs of the run that it is about, in the units of the runs, or as a user says them.
        given: quantities without an interval: they were given, not found.
        degrees: degrees of freedom of the draws' spread; the source's if None.
        units: quantity, or column of a table → what it counts, as :func:`unit_of` takes it;
            those of :data:`UNITS` need not be named.
        tables: name → table.
        facts: facts of the answer.
        notes: its notes; where a size, tokens or compute is known to no better than a decade, one
            more says that the fit is loose.
        **more: other fields of the answer.
    """
    degrees = source.degrees if degrees is None else degrees
    quantities = {}
    for name, column in values.items():
        column = np.atleast_1d(np.asarray(column, float))
        draws = column[1:] if len(column) > 1 else None
        bounds = (math.nan, math.nan)
        if draws is not None and name not in given:
            bounds = intervals({name: column}, level, degrees).get(name, bounds)
        unit = unit_of(source, name, units.get(name, units.get(name.partition("[")[0])))
        quantities[name] = Quantity(float(column[0]), *unit, *map(float, bounds), draws)
    tables = dict(tables or {})
    columns = {str(column) for table in tables.values() for column in table}
    known = inputs_as_numbers(source, at or {})
    forecast = {"forecast": True} if source.noise > 0 else {}
    sizes = {name: [(one.low, one.high)] for name, one in quantities.items() if name in _SIZES}
    for table in tables.values():
        of_rows = [name for name in _SIZES if f"{name}_low" in table]
        sizes |= {n: table[[f"{n}_low", f"{n}_high"]].to_numpy() for n in of_rows}
    wide = [name for name, rows in sizes.items() if any(high > _LOOSE * low for low, high in rows)]
    if wide and not forecast and all(note.code != LOOSE_FIT for note in notes):
        message = (
            f"the interval of {' and '.join(wide)} spans more than a factor of {_LOOSE:g}: a "
            "forecast, which adds what public experiments show, is the better source"
        )
        notes = (Note(LOOSE_FIT, "warning", message), *notes)
    return Answer(
        kind=kind, sentence=sentence, quantities=quantities, tables=tables, level=level,
        units={name: unit_of(source, name, units.get(name)) for name in columns},
        facts={**facts, **forecast}, beyond=source.fit.times_beyond(known),
        point=_point_of(source, known, at or {}), notes=tuple(notes), **more,
    )  # fmt: skip


def over_budgets(table: pd.DataFrame, form: str, source: Draws) -> str:
    """A sentence for the least and the largest of several budgets; empty where all are unknown.

    Args:
        table: a row a budget, with a column ``compute``.
        form: the sentence, with names of columns in braces.
        source: law with the units of its runs.
    """
    names = re.findall(r"{(\w+)}", form)
    known = table[~table[names].isna().any(axis=1)].sort_values("compute")
    ends = known.iloc[[0, -1] if len(known) > 1 else slice(None)].to_dict("records")
    texts = ({n: written(row[n], *unit_of(source, n)) for n in names} for row in ends)
    return "; ".join(form.format(**row) for row in texts)


# The classes below go: plans return jaxlaw.Answer by plan_answer.


def context_of_inputs(kind: type[Result], source: Draws, at: Inputs) -> dict[str, Any]:
    """As :func:`context_of`, of an answer whose numbers are named as the law's inputs are."""
    context = context_of(kind, source, at)
    return {**context, "units": {**source.fit.input_units(), **context["units"]}}


def units_of(kind: type[Result], source: Draws) -> dict[str, tuple[str, float]]:
    """Number or column of a result → its unit, and what one is worth in single things.

    Args:
        kind: class of the result.
        source: law with the units of its runs.
    """
    worth = {
        unit: source.scale(name)
        for unit, name in (("parameters", "N"), ("tokens", "D"))
        if name in source.law.input_names
    }
    units = kind.single_units(source.fit.target_unit, worth)
    return {name: unit for name, unit in units.items() if name not in ("level", "beyond")}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OldAnswer(Result):
    """What plans have in common; the numbers are the attributes of each plan's own answer.

    Attributes:
        binding: the constraint that binds, in words.
        interval: quantity → (low, high) at ``level``, from the draws; empty without.
        draws: quantity → (R,) the same plan for every draw, NaN where it has none.
        level: confidence level of the intervals.
        notes: findings to know before relying on it.
        units: quantity, or column of a table → (unit, what one is worth in single things).
        beyond: times the largest fitted run, in compute; 1 up to it, NaN where it is unknown.
        point: all inputs of the run that it is about, in the units of the runs; empty without one.
        flat: quantity → (low, high) within which the loss lies no farther above the lowest than
            single runs differ by; of a forecast, whose noise is known, and else empty.
    """

    binding: str
    interval: dict[str, tuple[float, float]]
    draws: dict[str, np.ndarray] = field(default_factory=dict, metadata={"saved": False})
    level: float = field(metadata={"unit": SHARE})
    notes: tuple[Note, ...]
    units: dict[str, tuple[str, float]]
    beyond: float = field(default=math.nan, metadata={"unit": ""})
    point: dict[str, float | str] = field(default_factory=dict, metadata={"added": True})
    flat: dict[str, tuple[float, float]] = field(default_factory=dict)
    #: Name of the table that the command writes as CSV, in place of the numbers in one row.
    csv: ClassVar[str] = ""
    #: Argument of its plan that limits what is searched.
    limited_by: ClassVar[str] = "limits"

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The plan's own numbers, by name."""
        own = [f.name for f in dataclasses.fields(self) if f.name not in _SHARED]
        values = {name: getattr(self, name) for name in own}
        return self._quantities({n: x for n, x in values.items() if isinstance(x, float)})

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a number or a column; of one of many, such as ``loss[code]``, that of all."""
        return self.units.get(name) or self.units.get(name.partition("[")[0])

    @property
    def headline(self) -> str:
        """The answer, how far it is from the runs, and what makes it doubtful."""
        return headline_of(self.sentence(), self.beyond, self.notes)

    @property
    def next_step(self) -> str:
        """What to do about its distance from the runs, or about the note that decides most."""
        limit, remedies = f"{self.limited_by}=", {}
        if not any(limit in note.message for note in self.notes):
            remedies = {"optimum-at-limit": f"widen {limit} where that is possible"}
        return _step_of(self, bool(self.interval), bool(self.flat), remedies)

    def sentence(self) -> str:
        """The answer in words; empty where there is none."""
        return ""

    def shown(self) -> dict[str, pd.DataFrame]:
        """Its tables, and what lies within the noise of a run."""
        if not self.flat:
            return self.tables
        rows = [{"quantity": name, "from … to": self._between(name, "flat")} for name in self.flat]
        flat = pd.DataFrame(rows)
        return {**self.tables, "as good as the best, to the noise of a run": flat}

    def lines(self) -> list[str]:
        """Numbers with their intervals, what binds, and what lies within the noise of a run."""
        flat = [
            f"{name} {self._between(name, 'flat')} lies within a run's noise of the lowest loss"
            for name in self.flat
        ]
        return [*self.number_lines(), f"{'binding':<12} {self.binding}", *flat]

    def _between(self, name: str, field: str = "interval") -> str:
        limits = getattr(self, field)
        if name not in limits:
            return ""
        return written_range(*limits[name], *(self.unit_of(name) or ("", 1.0)))

    def _known_lines(self) -> list[str]:
        """A line for each number that is known."""
        known = self.quantities.items()
        return self.number_lines([n for n, one in known if not np.isnan(one.value)])


def headline_of(sentence: str, beyond: float, notes: Sequence[Note]) -> str:
    """An answer in one sentence: itself, its distance from the runs, and what makes it doubtful.

    Args:
        sentence: the answer; empty where there is none.
        beyond: times the largest fitted run; NaN where it is unknown.
        notes: notes of the answer; those that are errors stand in place of one that is missing.
    """
    errors = [note for note in notes if note.severity == "error"]
    if not sentence:
        return errors[0].message if errors else ""
    codes = {note.code for note in notes}
    parts = [sentence]
    if beyond >= _BEYOND:
        parts.append(f"{times(beyond)} beyond the largest run")
    elif "extrapolation" in codes:
        parts.append("outside the fitted runs")
    elif "range-unknown" in codes:
        parts.append("how far that is from the runs is unknown")
    elif beyond == beyond:
        parts.append("within the fitted runs")
    parts += ["FLOPs are 6·N·D"] * (OWN_FLOPS in codes)
    parts += [f"do not use it: {errors[0].code}"] if errors else []
    return "; ".join(parts)


def _step_of(
    answer: OldAnswer | AnswerTable, intervals: bool, forecast: bool, remedies: Mapping[str, str]
) -> str:  # fmt: skip
    """What to do next about a plan.

    Args:
        answer: the plan's answer.
        intervals: whether it has intervals.
        forecast: whether its law is a forecast's.
        remedies: remedies of notes besides those of all results.
    """
    point, far = answer.point, answer.beyond >= FAR
    if forbid(answer.notes) or not (far and {"N", "D"} <= {*point}):
        return remedy_of(answer.notes, {**REMEDIES, **remedies})
    if not forecast:
        return beyond_step(point, intervals=intervals)
    worth = {name: answer.units.get(name, ("", math.nan))[1] for name in ("N", "D")}
    ratio = point["D"] * worth["D"] / (point["N"] * worth["N"])
    return largest_run_step(ratio) if math.isfinite(ratio) else ""


_SHARED = {f.name for f in dataclasses.fields(OldAnswer)}


@dataclass(frozen=True, eq=False, repr=False)
class AnswerTable(Result):
    """Many answers of one kind, a row each.

    Attributes:
        table: the numbers; with draws ``…_low`` and ``…_high`` of each.
        level: confidence level of the intervals.
        notes: findings to know before relying on it.
        units: column → (unit, what one is worth in single things).
        beyond: times the largest fitted run that the largest of these is, as of an
            :class:`OldAnswer`.
        point: all inputs of that run.
    """

    column_units: ClassVar[Mapping[str, str]] = {
        "compute": "FLOPs", "loss": TARGET, "multiplier": "", "saved": SHARE,
        "continual_compute": "FLOPs",
    }  # fmt: skip
    csv: ClassVar[str] = "table"

    table: pd.DataFrame
    level: float = field(metadata={"unit": SHARE})
    notes: tuple[Note, ...]
    units: dict[str, tuple[str, float]]
    beyond: float = field(default=math.nan, kw_only=True, metadata={"unit": ""})
    point: dict[str, float | str] = field(
        default_factory=dict, kw_only=True, metadata={"added": True}
    )

    @property
    def quantities(self) -> dict[str, Quantity]:
        """None: its numbers are in the table."""
        return {}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a column."""
        return self.units.get(name)

    @property
    def headline(self) -> str:
        """The answers in one sentence: of the first and the last of many."""
        return headline_of(self.sentence(), self.beyond, self.notes)

    @property
    def next_step(self) -> str:
        """The same as of one answer, of the run that takes most compute."""
        source = (getattr(self, "question", None) or {}).get("fit")
        forecast = isinstance(source, Result) and source.kind_of_record() == "forecast"
        intervals = any(str(name).endswith("_low") for name in self.table)
        return _step_of(self, intervals, forecast, {})

    def sentence(self) -> str:
        """The answers in words; empty where there is none."""
        return ""

    def over_budgets(self, form: str) -> str:
        """A sentence for the least and the largest of several budgets; empty where all are unknown.

        Args:
            form: the sentence, with names of columns in braces.
        """
        names = re.findall(r"{(\w+)}", form)
        known = self.table[~self.table[names].isna().any(axis=1)].sort_values("compute")
        ends = known.iloc[[0, -1] if len(known) > 1 else slice(None)]
        rows = (
            {name: written(row[name], *(self.unit_of(name) or ("", 1.0))) for name in names}
            for _, row in ends.iterrows()
        )
        return "; ".join(form.format(**row) for row in rows)

    def __repr__(self) -> str:
        """The headline, the table, cut where pandas cuts it, and the notes."""
        shown = repr(self.readable(self.table))
        return "\n".join([*self.opening(), shown, *in_brief(self.notes)])


def _planning(name: str) -> Any:
    """A class that this package lists, whose modules stand above this one."""
    return getattr(importlib.import_module("jaxlaw.planning"), name)


def draw(picture: str, *args: Any, **options: Any) -> Any:
    """Draw by the name of a function of :mod:`jaxlaw.plots`, which stands above all plans."""
    return getattr(importlib.import_module("jaxlaw.plots"), picture)(*args, **options)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Pictured:
    """Of an answer whose picture needs the fit as well, which its files hold for that.

    Attributes:
        question: argument of the plan → what was given for it; None where a file has none, since
            a cost of the user's own, a function, cannot be written.
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
            UsageError: the answer was read from a file that does not hold the fit.
        """
        if self.question is None:
            kind = type(self).kind_of_record()  # type: ignore[attr-defined]
            raise UsageError(
                f"the picture of this {kind} needs the fit, and its file holds none: draw it where "
                "it is planned"
            )
        picture, args, own = self._drawn(without(self.question, "level"))
        return draw(picture, *args, ax=ax, **{**own, **options})

    def file_record(self) -> dict[str, Any]:
        """The answer, and the question with its fits, unless a function is part of it."""
        record = super().file_record()  # type: ignore[misc]
        try:
            json.dumps(question := plain(_named(self.question or {})))
        except TypeError:
            return record
        return record | ({"question": question} if question else {})

    @classmethod
    def _read_fields(cls, record: dict[str, Any]) -> Any:
        answer = super()._read_fields(without(record, "question"))  # type: ignore[misc]
        question = record.get("question")
        if question is None:
            return answer
        if not isinstance(question, dict):
            raise TypeError(f"field 'question' is {type(question).__name__}, not an object")
        return dataclasses.replace(answer, question=_as_given(question))

    def __getstate__(self) -> dict[str, Any]:
        # Other processes get the answer as files do: a cost of the user's own may not be pickled.
        return {**self.__dict__, "question": None}


#: Classes of what a question is made of beside fits: files hold their fields, and this name.
_OBJECTS = ("AtMost", "Budget", "Compute", "ContinualPretraining", "Corpus", "Pretraining",
            "Schedule")  # fmt: skip


def _named(value: Any) -> Any:
    """A question with the fields of its objects, and their class, in place of them."""
    if (name := type(value).__name__) in _OBJECTS:
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {"object": name} | {key: _named(item) for key, item in fields.items()}
    if isinstance(value, Mapping):
        return {key: _named(item) for key, item in value.items()}
    # Not a named tuple: a forecast's parts are written as they are.
    return list(map(_named, value)) if type(value) in (list, tuple) else value


def _as_given(value: Any) -> Any:
    """What a file holds of a question, as a plan takes it: records are results, lists tuples."""
    if isinstance(value, dict):
        if "kind" in value:
            return Result.from_dict(value, "field 'question'")
        items = {name: _as_given(item) for name, item in value.items()}
        if (name := value.get("object")) in _OBJECTS:
            kind = Schedule if name == "Schedule" else _planning(name)
            return kind(**without(items, "object"))
        return items
    return tuple(map(_as_given, value)) if isinstance(value, list) else value


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
