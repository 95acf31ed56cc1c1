"""How the runs of a fit were read, so that the same table can be read so again."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jaxlaw._quantities import exponential
from jaxlaw.data._columns import SIDES, Corpus, missing_column, parts_of
from jaxlaw.errors import UsageError

if TYPE_CHECKING:
    from jaxlaw.data._runs import Runs


@dataclass(frozen=True)
class Reading:
    """How the runs of a fit were read: options of :func:`jaxlaw.read_runs`, as files hold them.

    Attributes:
        columns, units, where, weight, corpus, drop_invalid, format, values, target,
            last_of: those options.
        lost: what no file holds: masks, weights by row, rows chosen in Python.
    """

    columns: dict[str, str] = field(default_factory=dict)
    units: dict[str, float] = field(default_factory=dict)
    where: str | None = None
    weight: str | None = None
    corpus: Corpus | None = None
    drop_invalid: bool = False
    format: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    target: str | None = None
    lost: tuple[str, ...] = ()
    last_of: str | None = field(default=None, metadata={"added": True})

    def options(
        self, given: Mapping[str, Any], present: Collection[Any]
    ) -> tuple[dict[str, Any], str]:
        """Options of :func:`jaxlaw.read_runs` for a table, and what of them was taken over.

        Args:
            given: options that the user gives, which win; None, {} and False are not given.
            present: names of the columns of the table.
        """
        options = {key: value for key, value in given.items() if _is_given(value)}
        named, units = options.get("columns") or {}, options.get("units") or {}
        columns = self._columns(named, present)
        there = {*present, *columns, *named}
        corpus = self.corpus if self._has_sides(there) else None
        taken: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("where", "weight", "drop_invalid", "format", "last_of")
            if name not in options
        }
        target = self.target if self.target in there else None
        others = {"corpus": corpus, "target": target}
        taken |= _select(others, set(others) - set(options))
        taken |= {"columns": columns, "units": _select(self.units, there - set(units))}
        taken |= {"values": _select(self.values, set(self.values) - there)}
        taken = {name: value for name, value in taken.items() if value}
        merged = {
            name: value | options.get(name, {}) if isinstance(value, dict) else value
            for name, value in taken.items()
        }
        lost = [what for what in self.lost if what.partition("=")[0] not in options]
        return options | merged, _describe(taken, lost)

    def _columns(self, given: dict[str, Any], present: Collection[Any]) -> dict[str, str]:
        """The mapped columns that the table has, less those that the user maps."""
        groups = {name: {plain, *sides} for plain, sides in SIDES.items() for name in sides}
        groups |= {plain: {plain, *sides} for plain, sides in SIDES.items()}
        return {
            name: column
            for name, column in self.columns.items()
            if all(part in present for part in parts_of(column, present))
            and column not in given.values()
            and not groups.get(name, {name}) & set(given)
        }

    def _has_sides(self, there: Collection[Any]) -> bool:
        """Whether there is something for ``corpus`` to choose, and no plain share beside it."""
        sides = {plain: any(name in there for name in names) for plain, names in SIDES.items()}
        return any(sides.values()) and not ("r" in there and not sides["r"])


def reading_of(
    columns: Mapping[str, Any],
    units: Mapping[str, float],
    weight: Any,
    where: Any,
    corpus: Corpus | None,
    drop_invalid: bool,
    format: str | None,
    values: Mapping[str, Any] | None,
    last_of: Any,
) -> Reading | None:
    """What a fit keeps of the options of :func:`jaxlaw.read_runs`; None where none was given."""
    rows = {"where": where, "weight": weight}
    lost = [f"{name}= (one value a row)" for name, value in rows.items() if not _is_text(value)]
    lost += [f"columns={{'{name}': …}}" for name, col in columns.items() if not _is_text(col)]
    rows = {name: value or None for name, value in rows.items() if isinstance(value, str)}
    reading = Reading(
        columns={name: column for name, column in columns.items() if isinstance(column, str)},
        units=dict(units),
        corpus=corpus,
        drop_invalid=bool(drop_invalid),
        format=format,
        values=dict(values or {}),
        lost=tuple(lost),
        last_of=",".join(last_of) if isinstance(last_of, list | tuple) else last_of,
        **rows,
    )
    return None if reading == Reading() else reading


def with_target(runs: Runs, target: Any) -> Runs:
    """The same runs, of which laws predict one column, by the user's name or the canonical one."""
    if target is None:
        return runs
    if not isinstance(target, str):
        raise UsageError(f"target is {target!r:.60}; it must be the name of a column")
    names = {runs.user_name(column): column for column in runs.table}
    column = target if target in runs.table.columns else names.get(target)
    if column is None:
        raise missing_column("target", " (target=)", target, names, runs.source, False)
    reading = dataclasses.replace(runs.reading or Reading(), target=str(target))
    return dataclasses.replace(runs, target=column, reading=reading)


def incomplete(reading: Reading | None, what: str) -> Reading:
    """A reading that does not say all any more."""
    reading = reading or Reading()
    return dataclasses.replace(reading, lost=tuple(dict.fromkeys((*reading.lost, what))))


def _is_given(value: Any) -> bool:
    """Whether an option says something; a text does that is empty, as ``where=""`` is."""
    return not (value is None or value is False or (isinstance(value, Mapping) and not value))


def _select(values: dict[str, Any], names: Collection[Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _describe(taken: Mapping[str, Any], lost: Collection[str]) -> str:
    """What was taken over, in one line; empty where nothing was, and nothing is lost."""
    columns, units = taken.get("columns", {}), taken.get("units", {})
    worth = {name: f" in {exponential(unit)}" for name, unit in units.items() if unit != 1}
    named = [f"{name} = {column}{worth.pop(name, '')}" for name, column in columns.items()]
    parts = [", ".join([*named, *(f"{name}{unit}" for name, unit in worth.items())])]
    plain = ("where", "weight", "corpus", "format", "target", "last_of")
    parts += [f"{name} {taken[name]}" for name in plain if name in taken]
    parts += [f"{name} = {value}" for name, value in taken.get("values", {}).items()]
    parts += ["without invalid rows"] * ("drop_invalid" in taken)
    parts += [f"not saved with the fit: {', '.join(lost)}"] * bool(lost)
    return "; ".join(filter(None, parts))
