"""Whether rows can carry a law: valid values, plausible magnitudes, enough rows, enough variety.

Every check either returns notes or raises a DataError that names file, column, row and remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jaxlaw._quantities import exponential
from jaxlaw.data._columns import Column
from jaxlaw.data._dependence import equal_rows
from jaxlaw.errors import DataError, name_rows
from jaxlaw.laws import Law
from jaxlaw.laws._structural_identifiability import inseparable
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw.data._runs import Observations, Runs

# A declared unit may be this much beyond what is plausible (toy models are); no unit may be more.
_DECLARED_SLACK = 1e3
_UNIT_WORDS = {1.0: "single ones", 1e3: "thousands", 1e6: "millions", 1e9: "billions",
               1e12: "trillions", 2048.0: "sequences of 2,048 tokens"}  # fmt: skip
# An input of at most so many values is checked for parameters that it leaves unidentifiable.
_FEW = 3
# Rows for each parameter below which a fit cannot show that its law is wrong.
_ROWS_EACH = 2


def valid_rows(runs: Runs, law: Law, columns: dict[str, Column]) -> tuple[np.ndarray, list[Note]]:
    """(n,) mask of valid rows, and a note if others are dropped.

    Raises:
        DataError: there are others and they may not be dropped, or nothing else is left; or
            curves of a continual phase alone are given to a law of both phases.
    """
    of_curves = runs.area_options is not None
    if of_curves and "S1_pt" in law.input_names:
        pt, cpt = (runs.table[name].to_numpy().any() for name in ("S1_pt", "S1_cpt"))
        if cpt and not pt:
            other = law.continual_alone
            remedy = f", or fit law {other}, of which S1_pt is a parameter" if other else ""
            raise DataError(
                f"{runs.source}: these curves are a continual phase alone (S1_pt is 0 throughout), "
                f"and law {law.name} needs the pre-training before it: give schedules of both "
                "phases (schedules.join(first, second), or first+second in one line)" + remedy,
                file=runs.source,
                column="S1_pt",
            )
    labels, parts, first = runs.table.index.to_numpy(), [], None
    keep = np.ones(len(labels), bool)
    for column in columns.values():
        bad, spec, location = column.invalid(), column.spec, column.location
        if not bad.any():
            continue
        keep &= ~bad
        first = first or (location, labels[bad][0], column.raw[bad][0])
        kind = "finite"
        if spec.above_zero or spec.domain == "positive":
            kind = "positive and finite"
        elif spec.mixture or spec.domain == "nonnegative":
            kind = "finite and not negative"
        hint = ""
        if of_curves and spec.name in ("S1", "S1_pt"):
            if (runs.table["step"].to_numpy()[bad] == 0).all():
                hint = " (step 0, before the first update: leave it out with where='step > 0')"
        rows = location.rows(labels[bad], column.raw[bad])
        parts.append(f"column {location.column}: not {kind}: {rows}{hint}")
    if first is None:
        return keep, []
    what = f"{runs.source}: {'; '.join(parts)}"
    location, label, value = first
    if not keep.any() or not runs.drop_invalid:
        remedy = (
            "correct or remove these rows, or pass drop_invalid=True to drop them and have them "
            "counted"
            if keep.any()
            else "no valid row is left, check the columns and where=…"
        )
        raise location.error(f"{what}; {remedy}", label, value)
    message = f"{int((~keep).sum())} of {len(keep)} rows dropped as invalid: {what}"
    return keep, [Note("dropped-invalid", "warning", message, inherited=False)]


def notes_on_rows(
    seen: Observations,
    law: Law,
    columns: dict[str, Column],
    keep: np.ndarray,
    free: tuple[str, ...],
) -> list[Note]:
    """Notes on magnitudes, on too few rows or values, and on rows that stand twice.

    Args:
        seen: the valid rows.
        law: the law.
        columns: its columns, of all rows.
        keep: mask of the valid rows.
        free: parameters to be fitted.

    Raises:
        DataError: a unit must be mistaken, or the rows cannot determine the parameters.
    """
    active, source, notes = seen.weight > 0, seen.source, []

    def warn(code, message, inherited=False):
        notes.append(Note(code, "warning", message, inherited=inherited))

    for name in law.input_names:
        if message := _implausible(columns[name], columns[name].raw[keep], active, seen.rows):
            warn("implausible-value", message)
    count, enough = int(active.sum()), _ROWS_EACH * len(free)
    if count < len(free):
        raise DataError(
            f"{source}: {count} rows (of positive weight) cannot determine the {len(free)} "
            f"parameters of law {law.name} ({', '.join(free)}); add runs, fix parameters, use a "
            "law with fewer parameters, or use jl.posterior, which adds a prior",
            file=source,
        )
    if count < enough:
        says_little = (
            "R² means little, and intervals are wide or wrong"
            if count > len(free)
            else "the fit passes through all of them whether the law holds or not, and R² means "
            "nothing"
        )
        message = f"{source}: {count} rows for the {len(free)} parameters of law {law.name}: "
        message += f"{says_little}; add runs (there should be {enough} at least), fix parameters "
        warn("few-spare-rows", message + "or use a law with fewer parameters", count > len(free))
    for spec in law.inputs:
        values = seen.inputs[spec.name][active]
        if spec.per_drop and "drop" in seen.inputs and spec.name != "drop":
            # What goes with a drop of 0 says nothing.
            values = values[seen.inputs["drop"][active] != 0]
        # The first rows say as much as all where they have many values, and are sorted faster.
        distinct = np.unique(values[:4096])
        distinct = np.unique(values) if len(distinct) <= _FEW else distinct
        if not 0 < len(distinct) <= _FEW:
            continue
        known = (len(distinct),) if spec.domain == "positive" else tuple(distinct)
        if mixed := inseparable(law, spec.name, known, free):
            few = "one value" if len(distinct) == 1 else f"{len(distinct)} values"
            warn(
                "few-values",
                f"{columns[spec.name].location}: {spec.name} has {few} only, so {', '.join(mixed)} "
                f"cannot be identified; add runs with other {spec.name}, or fix some of these "
                "parameters",
            )
    # Repeats with another target are fine.
    rows = equal_rows([*law.one_number_a_row(seen.inputs).values(), seen.target])
    if (repeated := np.diff(np.maximum.accumulate(rows), prepend=-1) == 0).any():
        rows = name_rows(seen.word, seen.rows[repeated])
        message = f"{source}: duplicates of earlier rows (inputs and target): {rows}; each counts"
        warn("duplicate-rows", f"{message}; remove the copies")
    return notes


def _implausible(column: Column, raw: np.ndarray, active: np.ndarray, labels: np.ndarray) -> str:
    """What is implausible about magnitudes; empty where nothing is.

    A column read in the wrong unit is off by 1e3 or more, far more than runs differ. Its median
    then lies outside what is plausible for the input, which is refused; single rows outside are
    noted only. A unit that the user declared is believed within ``_DECLARED_SLACK``.

    Raises:
        DataError: the median is implausible, so that the unit must be mistaken.
    """
    if column.spec.plausible is None:
        return ""
    low, high = column.spec.plausible
    with np.errstate(over="ignore", invalid="ignore"):
        values = raw * column.unit
        typical = float(np.median(values[active]))
    location = column.location
    if low <= typical <= high:
        if not (odd := (values < low) | (values > high)).any():
            return ""
        rows = location.rows(labels[odd], raw[odd])
        return f"{location}: values in a different unit from the rest? {rows}"
    with np.errstate(over="ignore", invalid="ignore"):
        at = int(np.argmin(np.where(active, np.abs(values - typical), np.inf)))
        middle = float(np.median(raw[active]))
    slack = _DECLARED_SLACK if column.declared else 1.0
    unit = _UNIT_WORDS.get(column.unit, f"units of {column.unit:g}")
    message = f"{location}, {location.rows(labels[at : at + 1])}: {raw[at]:g} read as {unit} is "
    message += f"{values[at]:.3g} {column.spec.doc or column.spec.name}"
    if low / slack <= typical <= high * slack:
        return f"{message}, outside {low:g} to {high:g}; the declared unit is kept"
    # The units under which the column would make sense, likeliest first.
    usual = (1.0, 2048.0) if column.spec.name == "batch" else (1.0, 1e9, 1e6, 1e12, 1e3)
    fits = [unit for unit in usual if low <= middle * unit <= high]
    remedy = "pass " + " or ".join(
        f"units={{'{location.name}': {exponential(unit, 4)}}} for {_UNIT_WORDS[unit]}"
        for unit in fits[: 1 if fits[0] == 1.0 else 2]
    ) if fits else (
        f"no usual unit makes it plausible; check that {location.column} is the right column"
    )  # fmt: skip
    raise location.error(
        f"{message} (as in half of the column or more), outside the plausible range {low:g} to "
        f"{high:g}; {remedy}",
        labels[at],
        raw[at],
    )
