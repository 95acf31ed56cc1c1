"""What every plan takes and returns: laws with draws in, numbers with intervals out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw import _json as records
from jaxlaw import laws
from jaxlaw._repr import short_repr
from jaxlaw._typed import load
from jaxlaw.data._dependence import CODE
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._extrapolation import beyond, in_words
from jaxlaw.fitting._fit_many import fewest_for
from jaxlaw.fitting._fitted_law import FittedLaw, SupportsDraws
from jaxlaw.fitting._saved_fits import from_dict
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.uncertainty._intervals import percentile_interval

LEVEL = 0.95
MISSING = 0.05  # share of draws without an answer from which on the others' interval misleads
HUGE = 1e100  # beyond it products of two overflow
SAME = 1e-9  # relative distance at which two numbers count as one

# Codes of a fit's warnings that a plan made with it repeats.
_INHERITED = {
    "at-bound", "badly-converged", "base-extrapolated", "decay-held", "farther-than-tested",
    "few-groups", "few-resamples", "few-rows", "few-spare-rows", "few-starts-agree",
    "intervals-failed", "lack-of-fit", "limiting-form", "misprint", "mixed-runs", "no-floor",
    "not-converged", "not-printed", "poor-fit", "prior-width", "resamples-at-bound",
    "resamples-disagree", "resamples-failed", "ridge", "solvers-disagree",
    "trend-observed", "unidentifiable", "weak-fit",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Draws:
    """A fit and its parameters on resampled runs: all that a plan needs of a bootstrap.

    Attributes:
        fit: fit of the runs as they are.
        params: parameter → (R,) natural values in the law's own units. Row k of two
            bootstraps of the same runs belongs together.
        notes: notes of the bootstrap.
        kind: what was resampled, such as ``case`` or ``wild``; empty where nobody knows.
        groups: columns that told groups of rows apart, as a :class:`jaxlaw.Bootstrap` has them;
            None where rows were resampled one by one.
        degrees: degrees of freedom of the draws' spread (:attr:`jaxlaw.Bootstrap.degrees`).
        noise: relative standard deviation of single runs; NaN where nobody knows.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> boot = jl.bootstrap("chinchilla", table, n_resamples=20, n_starts=16)
        >>> jl.planning.Draws.of(boot).save("draws.json")
        >>> draws = jl.planning.Draws.load("draws.json")
        >>> sorted(jl.planning.allocation(draws, 1e21).interval)
        ['D', 'N', 'loss']
    """

    fit: FittedLaw
    params: Mapping[str, np.ndarray]
    notes: tuple[Note, ...] = ()
    kind: str = ""
    groups: tuple[str, ...] | None = None
    degrees: float = math.inf
    noise: float = math.nan

    __repr__ = short_repr

    @classmethod
    def of(cls, bootstrap: SupportsDraws) -> Draws:
        """The draws of a bootstrap, without the runs and the refits it keeps."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(bootstrap, name) for name in names if hasattr(bootstrap, name)})

    def save(self, path: str | Path) -> None:
        """Write fit, draws and notes as one JSON file, from which plans start again."""
        records.write_record(path, self.to_dict(), None)

    def to_dict(self) -> dict[str, Any]:
        """Fit, draws and notes as plain numbers and strings; infinities and NaN as strings."""
        record = {
            "fit": self.fit.to_dict(),
            "draws": dict(self.params),
            "notes": [dataclasses.asdict(note) for note in self.notes],
            "kind": self.kind,
            "groups": None if self.groups is None else list(self.groups),
            "degrees": self.degrees,
            "noise": self.noise,
        }
        return records.plain(record)

    @classmethod
    def load(cls, path: str | Path) -> Draws:
        """Read what :meth:`save` wrote.

        Raises:
            UsageError: no such file.
            DataError: it holds something else, or was changed since.
        """
        return cls.from_dict(records.read_record(path, "bootstrap"), records.source_name(path))

    @classmethod
    def from_dict(cls, record: Any, source: str = "record") -> Draws:
        """The fit and draws of :meth:`to_dict`; raises as :meth:`load`."""
        with records.whole(source, "bootstrap"):
            draws = {name: np.array(column, float) for name, column in record["draws"].items()}
            notes, fit = load(record["notes"], tuple[Note, ...], "notes"), record["fit"]
            # Files of version 0.1 do not have what follows.
            kind, groups = load(record.get("kind", ""), str, "kind"), record.get("groups")
            groups = load(groups, tuple[str, ...] | None, "groups")
            degrees = load(record.get("degrees", math.inf), float, "degrees")
            noise = load(record.get("noise", math.nan), float, "noise")
        return cls(from_dict(fit, source), draws, notes, kind, groups, degrees, noise)


class Source(NamedTuple):
    """A law to plan with.

    Attributes:
        law: the law.
        params: parameter → (1 + R,) natural values: of the fit itself, then of its R draws.
        units: input → one of the user's units in the law's own.
        ranges: input → (lowest, highest) fitted, in the user's units; empty if unknown.
        warnings: the fit's own notes that a plan repeats.
        joint: product or ratio of two inputs → (lowest, highest) fitted; empty if unknown.
        degrees: degrees of freedom of the draws' spread.
        noise: relative standard deviation of single runs; NaN where nobody knows.
    """

    law: Law
    params: dict[str, np.ndarray]
    units: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    warnings: tuple[Note, ...]
    joint: Mapping[str, tuple[float, float]] = MappingProxyType({})
    degrees: float = math.inf
    noise: float = math.nan

    @property
    def rows(self) -> int:
        """1 + R."""
        return len(next(iter(self.params.values())))

    def taken(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the inputs, given for several laws, that this law takes."""
        return {name: v for name, v in inputs.items() if name in self.law.input_names}

    def scale(self, name: str) -> float:
        """Raw counts (parameters, tokens, FLOPs) in one of the user's units of an input."""
        (spec,) = (spec for spec in self.law.inputs if spec.name == name)
        return self.units[name] * spec.unit


def sources(*given: Any) -> tuple[Source, ...]:
    """What a plan was given, with as many replicates each.

    Args:
        *given: each a Fit, (law, params), or a bootstrap: an object with ``fit`` and
            ``params``, as :class:`Draws` and forecasts are. With (law, params) inputs and
            answers are in the law's own units, with the others in those of the fitted runs. One
            without replicates stays as it is beside the replicates of another.

    Raises:
        UsageError: something else, parameters that are not the law's, or two bootstraps of
            different length.
    """
    own = [_source(law) for law in given]
    rows = {source.rows for source in own} - {1}
    if len(rows) > 1:
        counts = " and ".join(str(row - 1) for row in sorted(rows))
        raise UsageError(f"the bootstraps have {counts} replicates; give them the same number")
    size = rows.pop() if rows else 1
    return tuple(
        source._replace(params={name: np.resize(v, size) for name, v in source.params.items()})
        if source.rows == 1
        else source
        for source in own
    )


def _source(given: Any) -> Source:
    draws = Draws.of(given) if isinstance(given, SupportsDraws) else None
    fit = given if draws is None else draws.fit
    if isinstance(fit, FittedLaw):
        notes, replicates, codes = fit.notes, None, _INHERITED
        if draws is not None:
            notes, replicates = (*fit.notes, *draws.notes), draws.params
            # Dependent rows make intervals too short where single rows were drawn.
            codes = _INHERITED | {CODE} if draws.groups is None else _INHERITED
        warnings = tuple(note for note in dict.fromkeys(notes) if note.code in codes)
        params = _rows(fit.law, fit.numbers(), replicates)
        units, ranges, joint = dict(fit.units), dict(fit.ranges), fit.joint_ranges or {}
        spread = {} if draws is None else {"degrees": draws.degrees, "noise": draws.noise}
        return Source(fit.law, params, units, ranges, warnings, joint, **spread)
    try:
        law, params = fit
    except (TypeError, ValueError):
        raise UsageError(
            f"give a Fit, (law, params), a bootstrap or a forecast, not {type(given).__name__}"
        ) from None
    law = laws.get(law)
    units = dict.fromkeys(law.input_names, 1.0)
    return Source(law, _rows(law, params, None), units, {}, ())


def _rows(law: Law, params: Any, replicates: Any) -> dict[str, np.ndarray]:
    if not isinstance(params, Mapping) or set(params) != set(law.parameter_names):
        raise UsageError(f"law {law.name} has the parameters {', '.join(law.parameter_names)}")
    if replicates is None:
        return {name: np.array([params[name]], float) for name in law.parameter_names}
    missing = [name for name in law.parameter_names if name not in replicates]
    if missing:
        raise UsageError(f"the bootstrap lacks the parameter {', '.join(missing)} of {law.name}")
    return {
        name: np.concatenate([[float(params[name])], np.asarray(replicates[name], float)])
        for name in law.parameter_names
    }


def require_inputs(source: Source, *names: str) -> None:
    """Refuse a law that lacks an input."""
    missing = [name for name in names if name not in source.law.input_names]
    if missing:
        raise UsageError(
            f"law {source.law.name} has no input {', '.join(missing)} (it takes "
            f"{', '.join(source.law.input_names)}); this plan needs {', '.join(names)}"
        )


def law_inputs(source: Source, given: Mapping[str, Any], free: Sequence[str]) -> dict[str, float]:
    """Inputs the user holds, in the law's own units: all but the free ones, and no others.

    Raises:
        UsageError: an input is missing, unknown or not a number of its domain.
    """
    law = source.law
    for name in given:
        if name not in law.input_names or name in free:
            raise UsageError(
                f"law {law.name} takes no input '{name}' here."
                f"{nearest(name, [one for one in law.input_names if one not in free])}"
            )
    missing = [name for name in law.input_names if name not in free and name not in given]
    if missing:
        raise UsageError(f"law {law.name} also needs {', '.join(f'{m}=' for m in missing)}")
    given = {
        spec.name: float(spec.codes(given[spec.name])) if spec.levels else given[spec.name]
        for spec in law.inputs
        if spec.name in given
    }
    for spec in law.inputs:
        if spec.name in given:
            checked_number(spec.name, given[spec.name], spec.domain)
    return {name: float(value) * source.units[name] for name, value in given.items()}


def law_inputs_of_each(
    every: Sequence[Source], inputs: Mapping[str, Any], free: Sequence[str]
) -> tuple[dict[str, float], ...]:
    """As :func:`law_inputs` for several laws: each takes those of the inputs that it has.

    Raises:
        UsageError: also where no law takes an input.
    """
    known = {name for source in every for name in source.law.input_names} - {*free}
    for name in inputs:
        if name not in known:
            raise UsageError(f"no law here takes an input '{name}'.{nearest(name, known)}")
    return tuple(law_inputs(source, source.taken(inputs), free) for source in every)


def checked_number(name: str, value: Any, domain: str = "positive") -> float:
    """The number; raises UsageError where it is none, or outside its domain."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} is {value!r}; it must be one number") from None
    low, high = {"positive": (1 / HUGE, HUGE), "nonnegative": (0, HUGE), "fraction": (0, 1)}.get(
        domain, (-HUGE, HUGE)
    )
    if not low <= number <= high:
        words = {"positive": "positive", "nonnegative": "not negative", "fraction": "in [0, 1]"}
        beyond = abs(number) > HUGE or 0 < abs(number) < 1 / HUGE
        least = f", of a size between {1 / HUGE:g} and {HUGE:g}" if beyond else ""
        raise UsageError(f"{name} is {number:g}; it must be {words.get(domain, 'finite')}{least}")
    return number


def fewest_degrees(sources: Sequence[Source]) -> float:
    """Degrees of freedom of what several sources' draws say together, with care."""
    return min(source.degrees for source in sources)


def intervals(
    values: Mapping[str, np.ndarray], level: float, degrees: float = math.inf
) -> dict[str, tuple[float, float]]:
    """Percentile interval of each quantity's (1 + R,) values, where a draw has an answer."""
    bounds = {}
    for name, column in values.items():
        draws = np.asarray(column, float)[1:]
        if not np.isnan(draws).all():
            low, high = percentile_interval(draws, level, degrees)
            bounds[name] = float(low), float(high)
    return bounds


def missing_draws_notes(values: np.ndarray, what: str) -> list[Note]:
    """How many of the draws in (1 + R,) values have no answer."""
    without = np.isnan(np.asarray(values)[1:])
    if not without.any():
        return []
    share = without.mean()
    message = f"{share:.1%} of {without.size} replicates have no {what}; intervals leave them out"
    severity = "warning" if share > MISSING else "info"
    return [Note("replicates-without-answer", severity, message)]


def check_resamples(n_resamples: int) -> None:
    """Refuse a single resample of a plan's own: it has no spread."""
    if n_resamples == 1:
        raise UsageError("one resample has no spread: use 0, for no interval, or hundreds")


def few_resamples_notes(count: int, level: float) -> list[Note]:
    """Whether a plan's own resamples are too few for the tails of its intervals."""
    needed = fewest_for(level)
    if not 0 < count < needed:
        return []
    message = f"{count} resamples do not tell the ends of {level:.0%} intervals: take {needed}"
    return [Note("few-resamples", "warning", f"{message} or more")]


def source_notes(source: Source, what: str = "", /, **at: float) -> list[Note]:
    """Where an answer (in the user's units) is outside the fitted range; the fit's own warnings."""
    notes, known, unknown, of = [], {}, [], f" of the {what} loss" if what else ""
    for name, value in at.items():
        if np.isnan(source.ranges.get(name, (0.0, 0.0))).any():  # of published coefficients
            unknown.append(name)
        elif np.isfinite(value) and name in source.ranges:
            known[name] = value
    flags = beyond(source.ranges, source.joint, known)
    outside = [
        in_words(label, source.ranges, source.joint, known) for label in flags if flags[label]
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
    if source.warnings:
        message = "; ".join(f"{note.code}: {note.message}" for note in source.warnings)
        severity = "error" if any(n.severity == "error" for n in source.warnings) else "warning"
        notes.append(Note("doubtful-fit", severity, f"the fit{of} says of itself: {message}"))
    return notes


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """What plans have in common; the numbers are the attributes of each plan's own answer.

    Attributes:
        binding: the constraint that binds, in words.
        interval: quantity → (low, high) at ``level``, from the replicates; empty without.
        replicates: quantity → (R,) the same plan for every replicate, NaN where it has none.
        level: confidence level of the intervals.
        notes: what to know before relying on it.
        flat: quantity → (low, high) within which the loss lies no farther above the lowest than
            single runs differ by; of a forecast, whose noise is known, and else empty.
        laws: of a forecast: what each law says alone, with its weight, and, where that can be said,
            ``regret``: by how much, relative, the loss of this answer lies above the lowest if that
            law is the true one. None without a forecast.
    """

    binding: str
    interval: dict[str, tuple[float, float]]
    replicates: dict[str, np.ndarray]
    level: float
    notes: tuple[Note, ...]
    flat: dict[str, tuple[float, float]] = field(default_factory=dict)
    laws: pd.DataFrame | None = None

    @property
    def quantities(self) -> dict[str, float]:
        """The plan's own numbers, by name."""
        own = [f.name for f in dataclasses.fields(self) if f.name not in _SHARED]
        values = {name: getattr(self, name) for name in own}
        return {name: value for name, value in values.items() if isinstance(value, float)}

    def summary(self) -> str:
        """Numbers, intervals, what binds and the notes, for people."""
        lines = [self._line(name, value) for name, value in self.quantities.items()]
        lines.append(f"{'binding':<12} {self.binding}")
        return "\n".join([*lines, *self._law_lines(), *map(str, self.notes)])

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

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()

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

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings; infinities and NaN as strings."""
        return {
            **records.plain(self.quantities),
            "binding": self.binding,
            "level": self.level,
            "interval": records.plain(self.interval),
            "notes": [dataclasses.asdict(note) for note in self.notes],
            **({"flat": records.plain(self.flat)} if self.flat else {}),
            **({} if self.laws is None else {"laws": records.plain(self.laws.to_dict("records"))}),
        }


def _differs(column: pd.Series) -> bool:
    """Whether a column tells laws apart: what was given to all of them need not be shown again."""
    if len(column) == 1 or column.dtype.kind not in "fi":
        return True
    return not np.allclose(column, column.iloc[0], rtol=SAME, atol=0.0, equal_nan=True)


_SHARED = {f.name for f in dataclasses.fields(Answer)}


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Many answers of one kind, a row each.

    Attributes:
        table: the numbers; with replicates ``…_low`` and ``…_high`` of each.
        level: confidence level of the intervals.
        notes: what to know before relying on it.
    """

    table: pd.DataFrame
    level: float
    notes: tuple[Note, ...]

    def summary(self) -> str:
        """The table and the notes, for people."""
        shown = self.table.to_string(index=False, float_format=lambda value: f"{value:.5g}")
        return "\n".join([shown, *map(str, self.notes)])

    def __repr__(self) -> str:
        """The table, cut where pandas cuts it, and the notes."""
        return "\n".join([repr(self.table), *map(str, self.notes)])


def interval_columns(
    name: str, values: np.ndarray, level: float, degrees: float = math.inf
) -> dict[str, np.ndarray]:
    """Columns of a table from (1 + R, rows) values: the fit's own, and bounds of the draws'."""
    columns = {name: values[0]}
    if len(values) > 1:
        low, high = percentile_interval(values[1:], level, degrees)
        columns |= {f"{name}_low": low, f"{name}_high": high}
    return columns


def measured(
    values: Mapping[str, np.ndarray],
    level: float,
    degrees: float = math.inf,
    given: Sequence[str] = (),
) -> dict[str, Any]:
    """An answer's numbers, intervals and draws from quantity → (1 + R,) values.

    Args:
        values: quantity → the fit's own number, then those of its R draws.
        level: confidence level of the intervals.
        degrees: degrees of freedom of the draws' spread: few ask for wider intervals.
        given: quantities that have no interval, since they were given, not found.
    """
    values = {name: np.asarray(column, float) for name, column in values.items()}
    sought = {name: column for name, column in values.items() if name not in given}
    return {
        **{name: float(column[0]) for name, column in values.items()},
        "interval": intervals(sought, level, degrees),
        "replicates": {name: column[1:] for name, column in values.items() if len(column) > 1},
        "level": level,
    }
