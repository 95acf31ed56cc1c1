"""Coefficients that papers print, and the library of the field, as laws without data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._quantities import written_range
from jaxlaw.data import area_options
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._prior import Experiment, field_experiments
from jaxlaw.notes import Note


@dataclass(frozen=True)
class _Printed:
    """What a source prints.

    Attributes:
        law: its name.
        params: parameter → value in the law's own units.
        source: paper and place.
        notes: notes beside the source's own.
        uncertainty: uncertainty as the source gives it.
        ranges: input → (lowest, highest) of its runs, where it says so.
        area_options: options of its areas.
        search: where the values are from.
    """

    law: str
    params: Mapping[str, float]
    source: str
    notes: tuple[Note, ...] = ()
    uncertainty: str = "none given"
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    area_options: Mapping[str, Any] | None = None
    search: str = "no data, no search"


#: Begins the names of fits of the library of the field.
FIELD = "field-"


def published() -> dict[str, FittedLaw]:
    """Coefficients that papers print, and the library of the field, as laws without data.

    Of papers there was no search and there are no data, so they have no evidence. A range that the
    source does not print is NaN, so that :meth:`jaxlaw.FittedLaw.is_extrapolation` is True there.
    Inputs are in the law's own units. Notes give the uncertainty, what the source leaves out, and
    what was put in its place.

    The library of the field is what the default prior rests on: public experiments, each fitted by
    skaling and chinchilla (``benchmarks/field.py``), and the frontier of skaling by loss-compute-e.
    Notes say who made the runs, under which licence, how many there are and how they scatter.

    Returns:
        Name → :class:`jaxlaw.FittedLaw`; those of the field are named
        ``field-SOURCE-EXPERIMENT-LAW``.

    Example:
        >>> float(jl.published()["hoffmann-2022"].predict(N=70e9, D=1.4e12).round(3))
        1.937
        >>> floor = jl.published()["field-stepfun-farseer-chinchilla"].params["E"]
        >>> bool(0.3 < floor < 0.6)  # per byte
        True
    """
    return {name: _fitted(name, printed) for name, printed in _all().items()}


def published_table() -> pd.DataFrame:
    """The coefficients of :func:`published` as a table, one row each.

    Returns:
        Columns ``name``, ``law``, ``parameters``, ``units``, ``source``, ``uncertainty`` and
        ``left_out``.

    Example:
        >>> "besiroglu-2024" in set(jl.published_table()["name"])
        True
    """
    rows = []
    for name, printed in _all().items():
        params = ", ".join(f"{key} {value:.6g}" for key, value in printed.params.items())
        left_out = "; ".join(note.message for note in printed.notes)
        units = laws.units_of(laws.built_in(printed.law))
        rows.append(
            (name, printed.law, params, units, printed.source, printed.uncertainty, left_out)
        )
    names = ["name", "law", "parameters", "units", "source", "uncertainty", "left_out"]
    return pd.DataFrame(rows, columns=names)


@cache
def _all() -> dict[str, _Printed]:
    """What papers print (``published.toml``), then the library of the field."""
    read = tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8"))
    known = {name: Note(**note) for name, note in read.pop("notes").items()}
    printed = {
        name: _Printed(
            **entry
            | {"notes": tuple(known[key] for key in entry.get("notes", ()))}
            | {"ranges": {key: tuple(ends) for key, ends in entry.get("ranges", {}).items()}}
            | ({"area_options": area_options(**options)} if options else {})
        )
        for name, entry in read.items()
        for options in [entry.get("area_options")]
    }
    return printed | {field_name(one): _of_field(one) for one in field_experiments()}


def field_name(one: Experiment) -> str:
    """What an experiment of the library of the field is called here."""
    return f"{FIELD}{one.source}-{one.name}-{one.law}"


def _of_field(one: Experiment) -> _Printed:
    """The fit of an experiment: natural parameters of its coordinates, and what is known of it."""
    law = laws.built_in(one.law)
    names = ("log_floor", *law.scale_free.words)
    known = dict(zip(names, one.mean, strict=True))
    # The loss at the reference point, of which the floor is the share that is said.
    loss = np.exp(known["log_floor"]) * (1 + np.exp(-known["share"]))
    params = law.scale_free.to_params(loss, known)
    errors = zip(names, np.sqrt(np.diag(one.covariance)), strict=True)
    counts = {spec.name: spec.counts for spec in law.inputs}
    ranges = "; ".join(
        f"{name} {written_range(*pair, counts[name], 1.0)}" for name, pair in one.ranges.items()
    )
    message = (
        f"{one.runs} runs of {one.source}, evaluation {one.evaluation}; {ranges}; a run lies "
        f"{one.noise:.2%} off the law"
    )
    return _Printed(
        one.law,
        {name: float(params[name]) for name in law.parameter_names},
        one.reference,
        (Note("of-the-field", "info", message),),
        "standard errors of the coordinates "
        + ", ".join(f"{name} {error:.2g}" for name, error in errors),
        ranges=one.ranges,
        search="fitted by jaxlaw to runs that are not shipped",
    )


def _fitted(name: str, printed: _Printed) -> FittedLaw:
    law = laws.built_in(printed.law)
    notes = [
        Note("published", "info", f"{name}: {printed.source}; {printed.search}"),
        Note("published", "info", f"of the coefficients: {printed.uncertainty}"),
        *printed.notes,
    ]
    unknown = [key for key in law.input_names if key not in printed.ranges]
    if unknown:
        missing = ", ".join(unknown)
        message = f"the source prints no range of {missing}: every point counts as outside"
        notes.append(Note("range-unknown", "info", message))
    return FittedLaw(
        law, dict(printed.params), ranges=dict(printed.ranges), source=printed.source,
        notes=tuple(notes),
        area_options=None if printed.area_options is None else dict(printed.area_options),
    )  # fmt: skip
