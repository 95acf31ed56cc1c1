"""What a fit takes: the columns a law needs, as arrays that have been checked for it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._deprecated import renamed_property
from jaxlaw.data._columns import (
    SIDES,
    Column,
    Place,
    check_fraction,
    missing_column,
    name_rows,
    numbers,
)
from jaxlaw.data._dependence import RunGroups, run_groups
from jaxlaw.errors import DataError, UsageError
from jaxlaw.laws._base import Law
from jaxlaw.laws._parameters import Input
from jaxlaw.laws._structural_identifiability import inseparable
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw.data._runs import Runs

_log = logging.getLogger(__name__)

# A declared unit may be this much beyond what is plausible (toy models are); no unit may be more.
_DECLARED_SLACK = 1e3
_UNIT_WORDS = {1.0: "single ones", 1e3: "thousands", 1e6: "millions", 1e9: "billions",
               1e12: "trillions"}  # fmt: skip
# Up to this many values, it is asked whether they are enough to tell the parameters apart.
_FEW = 3
# Rows for each parameter below which a fit cannot show that its law is wrong.
_ROWS_EACH = 2
# A cross-entropy is a loss; a column of that name serves where a law predicts it.
_TARGET_ALIASES = {"cross-entropy": ("loss",)}


@dataclass(frozen=True, eq=False)
class Observations:
    """Checked observations of one law; all arrays numpy, finite, of one length n.

    Attributes:
        law: name of the law they were checked for.
        inputs: name → (n,) float64 in the law's own units; of those per drop of the learning
            rate (n, K), where the schedules are known.
        target: (n,) float64.
        weight: (n,) float64, non-negative, not all zero; ones unless given.
        scale: name → factor from the user's unit to the law's.
        units: name → what one of the user's units is worth in single things.
        ranges: name → (lowest, highest) in the user's units.
        columns: name (inputs and the target) → the user's own column.
        target_name: what the law predicts.
        rows: (n,) what the rows are called in the user's table.
        source: the file's name.
        word: what a row is called there (``line``, ``record``, ``row``).
        dropped: rows dropped as invalid, on request.
        notes: findings.
        runs: the runs that rows may be checkpoints of, or None.
        area_options: how areas of learning rates were counted, as :class:`jaxlaw.Runs` have it.
        positions: (n,) where in the runs' table the observations are.
        mapped: input → the user's column that holds it as it is, where that has another name.
    """

    law: str
    inputs: dict[str, np.ndarray]
    target: np.ndarray
    weight: np.ndarray
    scale: dict[str, float]
    units: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    columns: dict[str, Any]
    target_name: str
    rows: np.ndarray
    source: str
    word: str = "row"
    dropped: int = 0
    notes: tuple[Note, ...] = ()
    area_options: Mapping[str, Any] | None = None
    positions: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    mapped: Mapping[str, str] = field(default_factory=dict)
    runs: RunGroups | None = None

    areas = renamed_property("areas", "area_options")

    def __len__(self) -> int:
        """The number of observations."""
        return len(self.target)

    def describe(self) -> pd.DataFrame:
        """One row per input and for the target: column, unit, min, max, distinct values.

        Minimum and maximum are in the user's units; ``unit`` is what one of them is worth.
        """
        records = [
            (name, self.columns[name], self.units[name], *self.ranges[name], _distinct(values))
            for name, values in self.inputs.items()
        ]
        low, high = float(self.target.min()), float(self.target.max())
        target = self.target_name
        records.append((target, self.columns[target], 1.0, low, high, _distinct(self.target)))
        names = ["name", "column", "unit", "min", "max", "distinct"]
        return pd.DataFrame(records, columns=names)


def observe(runs: Runs, law: str | Law, free: Collection[str] | None = None) -> Observations:
    """Check runs for a law and turn its columns into arrays.

    Args:
        runs: what :func:`jaxlaw.read_runs` returned.
        law: a law or its name.
        free: the parameters to be fitted; all of the law's unless given.

    Raises:
        DataError: the data cannot carry this law; names file, row, column and remedy.
        UsageError: ``corpus`` is needed, or of no use.
    """
    law = laws.get(law)
    free = tuple(law.parameter_names) if free is None else tuple(sorted(free))
    counted = any(spec.per_drop for spec in law.inputs) and runs.drops is not None
    drops = runs.drops(runs.table) if counted else {}
    columns = {
        spec.name: _counted(runs, spec, drops[spec.name])
        if spec.name in drops
        else _input(runs, law, spec)
        for spec in law.inputs
    }
    columns[law.target] = _target(runs, law)
    keep, dropped_note = _validity(runs, columns)
    labels = runs.table.index.to_numpy()[keep]
    weight = np.ones(len(keep)) if runs.weight is None else runs.weight
    weight = weight[keep].astype("float64")
    if not weight.any():
        raise DataError(f"{runs.source}: all rows left have weight 0; give some a positive weight")
    active = weight > 0
    notes = [*runs.notes, *dropped_note]
    for name in law.input_names:
        notes += _magnitude(columns[name], columns[name].raw[keep], active, labels)
    notes += _enough(int(active.sum()), free, law, runs)
    inputs = {name: columns[name].values[keep] for name in law.input_names}
    target = columns[law.target].values[keep]
    notes += _separability(law, inputs, active, columns, free)
    notes += _duplicates(inputs, target, labels, runs)
    _log.info(
        "%s: %d observations for law %s, %d rows dropped as invalid",
        runs.source, int(keep.sum()), law.name, int((~keep).sum()),
    )  # fmt: skip
    return Observations(
        law=law.name,
        inputs=inputs,
        target=target,
        weight=weight,
        scale={name: columns[name].factor for name in inputs},
        units={name: columns[name].unit for name in inputs},
        ranges={name: columns[name].range(keep) for name in inputs},
        columns={name: column.place.column for name, column in columns.items()},
        target_name=law.target,
        rows=labels,
        source=runs.source,
        word=runs.word,
        dropped=int((~keep).sum()),
        notes=tuple(notes),
        area_options=runs.area_options,
        positions=np.flatnonzero(keep),
        mapped=_mapped(runs, columns, law),
        runs=run_groups(runs.table[keep], inputs, runs.columns),
    )


def _mapped(runs: Runs, columns: Mapping[str, Column], law: Law) -> dict[str, str]:
    """Inputs under other names in the user's table; not r where it is 1 minus a column."""
    found = {name: columns[name].place.column for name in law.input_names}
    return {
        name: column
        for name, column in found.items()
        if isinstance(column, str) and column != name and not _side(runs, name)[1]
    }


def _distinct(values: np.ndarray) -> int:
    return len(np.unique(values))


def _side(runs: Runs, plain: str) -> tuple[str, bool]:
    """Which column stands for ``r`` or ``loss`` by the corpus asked for; True: 1 minus it.

    A mapped column goes before one that happens to have the name.
    """
    sides = SIDES.get(plain, ())
    mapped = [name for name in sides if name in runs.columns]
    present = [name for name in sides if name in runs.table.columns]
    plain_mapped, plain_present = plain in runs.columns, plain in runs.table.columns
    if plain_mapped or not present or (plain_present and not mapped and runs.corpus is None):
        if plain == "r" and runs.corpus is not None and plain_present:
            raise UsageError(
                f"{runs.source}: corpus='{runs.corpus}' is given, but column "
                f"{runs.columns.get('r', 'r')} does not say whose share it is; map it as the "
                "domain's, columns={'r_d': …}, or the general corpus's, columns={'r_g': …}"
            )
        return plain, False
    if runs.corpus is None:
        raise UsageError(
            f"{runs.source}: {' and '.join(present)} need to know which corpus the loss is of; "
            "pass corpus='general' or corpus='domain', or use runs.for_corpus('general')"
        )
    domain, general = sides
    own, other = (general, domain) if runs.corpus == "general" else (domain, general)
    if own in mapped or (own in present and other not in mapped) or plain != "r":
        return own, False
    return other, True


def _series(runs: Runs, name: str, doc: str, canonical: str) -> tuple[pd.Series, Place]:
    asked = runs.columns.get(name, name)
    if name not in runs.table.columns:
        shown = [runs.user_name(column) for column in runs.table.columns]
        raise missing_column(canonical, doc, asked, shown, runs.source)
    return runs.table[name], Place(runs.source, runs.word, asked, name)


def _input(runs: Runs, law: Law, spec: Input) -> Column:
    name, complement = _side(runs, spec.name)
    doc = f", which law {law.name} needs" + (f" ({spec.doc})" if spec.doc else "")
    doc += "; jl.read_loss_curves works it out from schedules" if spec.per_drop else ""
    series, place = _series(runs, name, doc, spec.name)
    raw = numbers(series, place)
    default = runs.units.get(spec.name, spec.unit)
    unit = runs.units.get(name, default)
    declared = name in runs.units or spec.name in runs.units
    if spec.domain == "fraction":
        labels = series.index.to_numpy()
        share = check_fraction(raw if unit == 1.0 else raw * unit, place, labels)
        share = 1.0 - share if complement else share
        raw = share if unit == 1.0 else share / unit
    return Column(place, raw, unit / spec.unit, unit, declared, spec)


def _counted(runs: Runs, spec: Input, values: np.ndarray) -> Column:
    """A column per drop, (n, K), worked out from the schedules."""
    return Column(Place(runs.source, runs.word, spec.name, spec.name), values, 1.0, 1.0, True, spec)


def target_column(runs: Runs, law: Law) -> str:
    """The column that holds what a law predicts, whether or not the table has it.

    Raises:
        UsageError: two corpora have one, and nothing says which is meant.
    """
    present = [law.target, *_TARGET_ALIASES.get(law.target, ())]
    found = next((n for n in present if n in runs.table.columns), law.target)
    return _side(runs, found)[0]


def _target(runs: Runs, law: Law) -> Column:
    name = target_column(runs, law)
    series, place = _series(runs, name, f", which law {law.name} predicts", law.target)
    positive = law.space == "log" or law.target == "loss"
    spec = Input(law.target, domain="positive" if positive else "real")
    return Column(place, numbers(series, place), 1.0, 1.0, False, spec)


def _validity(runs: Runs, columns: dict[str, Column]) -> tuple[np.ndarray, list[Note]]:
    """(n,) mask of valid rows, and a note if others are dropped.

    Raises:
        DataError: there are others and they may not be dropped, or nothing else is left.
    """
    labels, parts = runs.table.index.to_numpy(), []
    keep = np.ones(len(labels), bool)
    for column in columns.values():
        bad = column.invalid()
        if not bad.any():
            continue
        keep &= ~bad
        must = {"positive": "positive and finite", "nonnegative": "finite and not negative"}
        places = column.place.rows(labels[bad], column.raw[bad])
        parts.append(
            f"column {column.place.column}: not {must.get(column.spec.domain, 'finite')}: {places}"
            + _before_training(runs, column, bad)
        )
    if not parts:
        return keep, []
    found = f"{runs.source}: {'; '.join(parts)}"
    if not keep.any():
        raise DataError(f"{found}; no valid row is left, check the columns and where=…")
    if not runs.drop_invalid:
        raise DataError(
            f"{found}; correct or remove these rows, or pass drop_invalid=True to drop them "
            "and have them counted"
        )
    message = f"{int((~keep).sum())} of {len(keep)} rows dropped as invalid: {found}"
    return keep, [Note("dropped-invalid", "warning", message)]


def _before_training(runs: Runs, column: Column, bad: np.ndarray) -> str:
    """A hint where an area is 0 for there was no update yet."""
    at_zero = runs.area_options is not None and column.spec.name in ("S1", "S1_pt")
    if not at_zero or not (runs.table["step"].to_numpy()[bad] == 0).all():
        return ""
    return " (step 0, before the first update: leave it out with where='step > 0')"


def _magnitude(
    column: Column, raw: np.ndarray, active: np.ndarray, labels: np.ndarray
) -> list[Note]:
    """Notes on magnitudes beyond belief.

    Raises:
        DataError: the median is, so that the unit must be mistaken.
    """
    if column.spec.plausible is None:
        return []
    low, high = column.spec.plausible
    with np.errstate(over="ignore", invalid="ignore"):
        single = raw * column.unit
        typical, middle = float(np.median(single[active])), float(np.median(raw[active]))
        at = int(np.argmin(np.where(active, np.abs(single - typical), np.inf)))
    outside = not low <= typical <= high
    slack = _DECLARED_SLACK if column.declared else 1.0
    what = column.spec.doc or column.spec.name
    row = column.place.rows(labels[at : at + 1])
    unit = _UNIT_WORDS.get(column.unit, f"units of {column.unit:g}")
    found = f"{column.place}, {row}: {raw[at]:g} read as {unit} is {single[at]:.3g} {what}"
    if outside and not low / slack <= typical <= high * slack:
        raise DataError(
            f"{found}, as is half of the column or more; that cannot be right "
            f"({low:g} to {high:g} can); {_unit_remedy(column, middle)}"
        )
    if outside:
        message = f"{found}, outside {low:g} to {high:g}; the declared unit is taken as right"
        return [Note("implausible-unit", "warning", message)]
    odd = (single < low) | (single > high)
    if not odd.any():
        return []
    places = column.place.rows(labels[odd], raw[odd])
    message = f"{column.place}: values in another unit than the rest? {places}"
    return [Note("implausible-value", "warning", message)]


def _unit_remedy(column: Column, typical: float) -> str:
    """The units under which the column would make sense, likeliest first."""
    low, high = column.spec.plausible
    fits = [u for u in (1.0, 1e9, 1e6, 1e12, 1e3) if low <= typical * u <= high]
    if not fits:
        return f"no usual unit makes sense of it, check that {column.place.column} is the column"
    fits = fits[:1] if fits[0] == 1.0 else fits[:2]
    key = column.place.name
    options = [f"units={{'{key}': {u:.0e}}}".replace("e+0", "e").replace("1e0", "1") for u in fits]
    words = [f"{option} for {_UNIT_WORDS[u]}" for option, u in zip(options, fits, strict=True)]
    return "pass " + " or ".join(words)


def _enough(count: int, free: tuple[str, ...], law: Law, runs: Runs) -> list[Note]:
    """A note where rows suffice to fix the parameters and to little else.

    Raises:
        DataError: they do not suffice.
    """
    if count < len(free):
        raise DataError(
            f"{runs.source}: {count} rows (of positive weight) cannot determine the "
            f"{len(free)} parameters of law {law.name} ({', '.join(free)}); add runs, fix "
            "parameters or take a smaller law"
        )
    if count >= _ROWS_EACH * len(free):
        return []
    if count > len(free):
        message = (
            f"{runs.source}: {count} rows for the {len(free)} parameters of law {law.name}: R² "
            "says little, and intervals are wide or wrong; add runs (there should be "
            f"{_ROWS_EACH * len(free)} at least), fix parameters or take a smaller law"
        )
        return [Note("few-spare-rows", "warning", message)]
    message = (
        f"{runs.source}: as many rows as parameters of law {law.name}, {count}: the fit passes "
        "through all of them whether the law holds or not, and R² says nothing; add runs"
    )
    return [Note("no-spare-rows", "warning", message)]


def _duplicates(
    inputs: dict[str, np.ndarray], target: np.ndarray, labels: np.ndarray, runs: Runs
) -> list[Note]:
    """A note on rows equal in all inputs and the target; repeats with another target are fine."""
    # Of curves the sum of the rates is enough to tell a point from others on its curve.
    plain = {name: values for name, values in inputs.items() if values.ndim == 1}
    sums = {name: values.sum(axis=1) for name, values in inputs.items() if values.ndim > 1}
    repeated = pd.DataFrame({**plain, **sums, " target": target}).duplicated().to_numpy()
    if not repeated.any():
        return []
    places = name_rows(runs.word, labels[repeated])
    message = (
        f"{runs.source}: inputs and target equal to an earlier row's: {places}; each row counts, "
        "so remove those that are copies"
    )
    return [Note("duplicate-rows", "warning", message)]


def _separability(
    law: Law,
    inputs: dict[str, np.ndarray],
    active: np.ndarray,
    columns: dict[str, Column],
    free: tuple[str, ...],
) -> list[Note]:
    """Notes on inputs with too few values to tell parameters apart."""
    notes = []
    for name, values in inputs.items():
        values = values[active]
        if values.ndim > 1:  # what goes with a drop of 0 says nothing
            values = values[(inputs["drop"][active] != 0) | (name == "drop")]
            if not len(values):
                continue
        some = np.unique(values[:4096])
        some = np.unique(values) if len(some) <= _FEW else some
        if len(some) > _FEW:
            continue
        spec = next(spec for spec in law.inputs if spec.name == name)
        held = (len(some),) if spec.domain == "positive" else tuple(some)
        mixed = inseparable(law, name, held, free)
        if not mixed:
            continue
        one = len(some) == 1
        column = columns[name]
        message = (
            f"{column.place}: {name} has {'one value' if one else f'{len(some)} values'} only, so "
            f"{', '.join(mixed)} cannot be told apart; add runs with other {name}, or fix "
            "some of these parameters"
        )
        notes.append(Note("constant-input" if one else "few-values", "warning", message))
    return notes
