"""Whether rows can carry a law: valid values, plausible magnitudes, enough rows, enough variety.

Every check either returns notes or raises a DataError that names file, column, row and remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from jaxlaw._quantities import exponential
from jaxlaw.data._columns import Column
from jaxlaw.errors import DataError, name_rows
from jaxlaw.laws import Input, Law
from jaxlaw.laws._structural_identifiability import inseparable
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw.data._runs import Runs

# A declared unit may be this much beyond what is plausible (toy models are); no unit may be more.
_DECLARED_SLACK = 1e3
_UNIT_WORDS = {1.0: "single ones", 1e3: "thousands", 1e6: "millions", 1e9: "billions",
               1e12: "trillions", 2048.0: "sequences of 2,048 tokens"}  # fmt: skip
# An input of at most so many values is checked for parameters that it leaves unidentifiable.
_FEW = 3
# Rows for each parameter below which a fit cannot show that its law is wrong.
_ROWS_EACH = 2


def check_pretraining(runs: Runs, law: Law) -> None:
    """Refuse curves of a continual phase alone for a law of both phases; raises DataError."""
    if runs.area_options is None or "S1_pt" not in law.input_names:
        return
    areas = runs.table[["S1_pt", "S1_cpt"]].to_numpy()
    if areas[:, 0].any() or not areas[:, 1].any():
        return
    other = law.continual_alone
    remedy = f", or fit law {other}, of which S1_pt is a parameter" if other else ""
    raise DataError(
        f"{runs.source}: these curves are a continual phase alone (S1_pt is 0 throughout), and law "
        f"{law.name} needs the pre-training before it: give schedules of both phases "
        f"(schedules.join(first, second), or first+second in one line){remedy}",
        file=runs.source,
        column="S1_pt",
    )


def valid_rows(runs: Runs, columns: dict[str, Column]) -> tuple[np.ndarray, list[Note]]:
    """(n,) mask of valid rows, and a note if others are dropped.

    Raises:
        DataError: there are others and they may not be dropped, or nothing else is left.
    """
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
        if runs.area_options is not None and spec.name in ("S1", "S1_pt"):
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


def check_magnitude(
    column: Column, raw: np.ndarray, active: np.ndarray, labels: np.ndarray
) -> list[Note]:
    """Notes on implausible magnitudes.

    A column read in the wrong unit is off by 1e3 or more, far more than runs differ. Its median
    then lies outside what is plausible for the input, which is refused; single rows outside are
    noted only. A unit that the user declared is believed within ``_DECLARED_SLACK``.

    Raises:
        DataError: the median is implausible, so that the unit must be mistaken.
    """
    if column.spec.plausible is None:
        return []
    low, high = column.spec.plausible
    with np.errstate(over="ignore", invalid="ignore"):
        values = raw * column.unit
        typical, middle = float(np.median(values[active])), float(np.median(raw[active]))
        at = int(np.argmin(np.where(active, np.abs(values - typical), np.inf)))
    outside = not low <= typical <= high
    slack = _DECLARED_SLACK if column.declared else 1.0
    what = column.spec.doc or column.spec.name
    row = column.location.rows(labels[at : at + 1])
    unit = _UNIT_WORDS.get(column.unit, f"units of {column.unit:g}")
    message = f"{column.location}, {row}: {raw[at]:g} read as {unit} is {values[at]:.3g} {what}"
    if outside and not low / slack <= typical <= high * slack:
        raise column.location.error(
            f"{message}, as is half of the column or more; that cannot be right "
            f"({low:g} to {high:g} can); {_unit_remedy(column, middle)}",
            labels[at],
            raw[at],
        )
    if outside:
        message += f", outside {low:g} to {high:g}; the declared unit is taken as right"
        return [Note("implausible-value", "warning", message, inherited=False)]
    odd = (values < low) | (values > high)
    if not odd.any():
        return []
    rows = column.location.rows(labels[odd], raw[odd])
    message = f"{column.location}: values in another unit than the rest? {rows}"
    return [Note("implausible-value", "warning", message, inherited=False)]


def _unit_remedy(column: Column, typical: float) -> str:
    """The units under which the column would make sense, likeliest first."""
    low, high = column.spec.plausible
    usual = (1.0, 2048.0) if column.spec.name == "batch" else (1.0, 1e9, 1e6, 1e12, 1e3)
    fits = [unit for unit in usual if low <= typical * unit <= high]
    if not fits:
        return f"no usual unit makes sense of it, check that {column.location.column} is the column"
    key = column.location.name
    return "pass " + " or ".join(
        f"units={{'{key}': {exponential(unit, 4)}}} for {_UNIT_WORDS[unit]}"
        for unit in fits[: 1 if fits[0] == 1.0 else 2]
    )


def check_row_count(count: int, free: tuple[str, ...], law: Law, runs: Runs) -> list[Note]:
    """A note where rows suffice to determine the parameters and for little else.

    Raises:
        DataError: they do not suffice.
    """
    if count < len(free):
        raise DataError(
            f"{runs.source}: {count} rows (of positive weight) cannot determine the "
            f"{len(free)} parameters of law {law.name} ({', '.join(free)}); add runs, fix "
            "parameters, take a smaller law, or use jl.posterior, which adds a prior",
            file=runs.source,
        )
    if count >= _ROWS_EACH * len(free):
        return []
    message = (
        f"{runs.source}: {count} rows for the {len(free)} parameters of law {law.name}: "
        + (
            "R² says little, and intervals are wide or wrong"
            if count > len(free)
            else "the fit passes through all of them whether the law holds or not, and R² says "
            "nothing"
        )
        + f"; add runs (there should be {_ROWS_EACH * len(free)} at least), fix parameters or take "
        "a smaller law"
    )
    return [Note("few-spare-rows", "warning", message, inherited=count > len(free))]


def note_duplicates(
    law: Law, inputs: dict[str, np.ndarray], target: np.ndarray, labels: np.ndarray, runs: Runs
) -> list[Note]:
    """A note on rows equal in all inputs and the target; repeats with another target are fine."""
    values = law.one_number_a_row(inputs)
    repeated = pd.DataFrame({**values, " target": target}).duplicated().to_numpy()
    if not repeated.any():
        return []
    message = (
        f"{runs.source}: inputs and target equal to an earlier row's: "
        f"{name_rows(runs.word, labels[repeated])}; each row counts; take copies out of the table"
    )
    return [Note("duplicate-rows", "warning", message, inherited=False)]


def _distinct(spec: Input, inputs: dict[str, np.ndarray], active: np.ndarray) -> np.ndarray:
    """The values of an input; where they are many, those of the first rows."""
    values = inputs[spec.name][active]
    if spec.per_drop and "drop" in inputs and spec.name != "drop":
        values = values[inputs["drop"][active] != 0]  # what goes with a drop of 0 says nothing
    # The first rows say as much as all where they have many values, and are sorted faster.
    distinct = np.unique(values[:4096])
    return np.unique(values) if len(distinct) <= _FEW else distinct


def note_unidentifiable(
    law: Law,
    inputs: dict[str, np.ndarray],
    active: np.ndarray,
    columns: dict[str, Column],
    free: tuple[str, ...],
) -> list[Note]:
    """Notes on inputs with too few values to identify the parameters."""
    notes = []
    for spec in law.inputs:
        distinct = _distinct(spec, inputs, active)
        if not 0 < len(distinct) <= _FEW:
            continue
        known = (len(distinct),) if spec.domain == "positive" else tuple(distinct)
        mixed = inseparable(law, spec.name, known, free)
        if not mixed:
            continue
        count = "one value" if len(distinct) == 1 else f"{len(distinct)} values"
        message = (
            f"{columns[spec.name].location}: {spec.name} has {count} only, so {', '.join(mixed)} "
            f"cannot be identified; add runs with other {spec.name}, or fix some of these "
            "parameters"
        )
        notes.append(Note("few-values", "warning", message, inherited=False))
    return notes
