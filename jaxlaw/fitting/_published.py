"""Coefficients that papers print, and the library of the field, as laws without data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._quantities import written_range
from jaxlaw.data import area_options as options_of_areas
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._prior import Experiment, field_experiments
from jaxlaw.notes import Note

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
    return {name: _fitted(name, **entry) for name, entry in _all().items()}


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
    for name, entry in _all().items():
        rows.append({
            "name": name,
            "law": entry["law"],
            "parameters": ", ".join(f"{k} {value:.6g}" for k, value in entry["params"].items()),
            "units": laws.units_of(laws.built_in(entry["law"])),
            "source": entry["source"],
            "uncertainty": entry["uncertainty"],
            "left_out": "; ".join(note.message for note in entry["notes"]),
        })  # fmt: skip
    return pd.DataFrame(rows)


@cache
def _all() -> dict[str, dict[str, Any]]:
    """What papers print (``published.toml``), then the library of the field, for ``_fitted``."""
    read = tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8"))
    known = {name: Note(**note) for name, note in read.pop("notes").items()}
    plain = {"uncertainty": "none given", "ranges": {}, "search": "no data, no search"}
    printed = {
        name: plain | entry | {"notes": [known[key] for key in entry.get("notes", ())]}
        for name, entry in read.items()
    }
    return printed | {field_name(one): _of_field(one) for one in field_experiments()}


def field_name(one: Experiment) -> str:
    """What an experiment of the library of the field is called here."""
    return f"{FIELD}{one.source}-{one.name}-{one.law}"


def _of_field(one: Experiment) -> dict[str, Any]:
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
    return {
        "law": one.law,
        "params": {name: float(params[name]) for name in law.parameter_names},
        "source": one.reference,
        "notes": [Note("published", "info", message)],
        "uncertainty": "standard errors of the coordinates "
        + ", ".join(f"{name} {error:.2g}" for name, error in errors),
        "ranges": one.ranges,
        "search": "fitted by jaxlaw to runs that are not shipped",
    }


def _fitted(
    name: str, law: str, params: Mapping[str, float], source: str, notes: Sequence[Note],
    uncertainty: str, ranges: Mapping[str, Sequence[float]], search: str,
    area_options: Mapping[str, Any] | None = None,
) -> FittedLaw:  # fmt: skip
    """A law by coefficients in its own units, with notes on where they are from.

    Args:
        name: what it is called.
        law: the law's name.
        params: parameter → value.
        source: paper and place.
        notes: what the source leaves out.
        uncertainty: uncertainty as the source gives it.
        ranges: input → lowest and highest of its runs, where it says so.
        search: where the values are from.
        area_options: options of its areas.
    """
    messages = [f"{name}: {source}; {search}", f"of the coefficients: {uncertainty}"]
    unknown = ", ".join(key for key in laws.built_in(law).input_names if key not in ranges)
    ends = [f"the source prints no range of {unknown}: every point counts as outside"]
    before, after = (
        [Note("published", "info", message) for message in texts]
        for texts in (messages, ends if unknown else ())
    )
    return FittedLaw(
        laws.built_in(law), dict(params), ranges={key: tuple(pair) for key, pair in ranges.items()},
        source=source, notes=(*before, *notes, *after),
        area_options=None if area_options is None else options_of_areas(**area_options),
    )  # fmt: skip
