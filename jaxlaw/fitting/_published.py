"""Published coefficients, and fits of public experiments, as laws without data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._quantities import written_range
from jaxlaw.data import area_options as options_of_areas
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._prior import Experiment, field_experiments
from jaxlaw.notes import Note


def published() -> dict[str, FittedLaw]:
    """Published coefficients, and fits of public experiments, as laws without data.

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
    return {name: _fitted(name, entry) for name, entry in _all().items()}


def published_table() -> pd.DataFrame:
    """The coefficients of :func:`published` as a table, one row each.

    Returns:
        Columns ``name``, ``law``, ``parameters``, ``units``, ``source``, ``uncertainty`` and
        ``left_out``.

    Example:
        >>> "besiroglu-2024" in set(jl.published_table()["name"])
        True
    """
    table = pd.DataFrame({"name": name, **entry} for name, entry in _all().items())
    params, notes = table["params"], table["notes"]
    table["parameters"] = [", ".join(f"{k} {v:.6g}" for k, v in one.items()) for one in params]
    table["units"] = [laws.units_of(laws.built_in(law)) for law in table["law"]]
    table["left_out"] = ["; ".join(note.message for note in one) for one in notes]
    return table[["name", "law", "parameters", "units", "source", "uncertainty", "left_out"]]


@cache
def _all() -> dict[str, dict]:
    """What papers print (``published.toml``), then the library of the field, for ``_fitted``."""
    read = tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8"))
    known = {name: Note(**note) for name, note in read.pop("notes").items()}
    plain = {"uncertainty": "none given", "ranges": {}, "search": "no data, no search"}
    printed = {
        name: plain | entry | {"notes": [known[key] for key in entry.get("notes", ())]}
        for name, entry in read.items()
    }
    for one in field_experiments():
        # Natural parameters of an experiment's coordinates, and what is known of it.
        law = laws.built_in(one.law)
        names = ("log_floor", *law.scale_free.words)
        coordinates = dict(zip(names, one.mean, strict=True))
        # The loss at the reference point, of which the floor is the share that is said.
        loss = np.exp(coordinates["log_floor"]) * (1 + np.exp(-coordinates["share"]))
        params = law.scale_free.to_params(loss, coordinates)
        errors = zip(names, np.sqrt(np.diag(one.covariance)), strict=True)
        within = [f"{spec.name} {written_range(*one.ranges[spec.name], spec.counts, 1.0)}"
                  for spec in law.inputs if spec.name in one.ranges]  # fmt: skip
        message = (
            f"{one.runs} runs of {one.source}, evaluation {one.evaluation}; {'; '.join(within)}; "
            f"run-to-run noise {one.noise:.2%}"
        )
        printed[field_name(one)] = {
            "law": one.law,
            "params": {name: float(params[name]) for name in law.parameter_names},
            "source": one.reference,
            "notes": [Note("published", "info", message)],
            "uncertainty": "standard errors of the coordinates "
            + ", ".join(f"{name} {error:.2g}" for name, error in errors),
            "ranges": one.ranges,
            "search": "fitted by jaxlaw to runs that are not shipped",
        }
    return printed


def field_name(one: Experiment) -> str:
    """What an experiment of the library of the field is called here."""
    return f"field-{one.source}-{one.name}-{one.law}"


def _fitted(name: str, entry: Mapping) -> FittedLaw:
    """An entry's law, with notes on where its coefficients are from and what the source lacks."""
    law, areas = laws.built_in(entry["law"]), entry.get("area_options")
    texts = [f"{name}: {entry['source']}; {entry['search']}"]
    texts += [f"of the coefficients: {entry['uncertainty']}"]
    notes = [*(Note("published", "info", text) for text in texts), *entry["notes"]]
    if unknown := ", ".join(key for key in law.input_names if key not in entry["ranges"]):
        text = f"the source gives no range of {unknown}: every point counts as outside"
        notes.append(Note("published", "info", text))
    return FittedLaw(
        law, dict(entry["params"]), source=entry["source"], notes=tuple(notes),
        ranges={key: tuple(pair) for key, pair in entry["ranges"].items()},
        area_options=None if areas is None else options_of_areas(**areas),
    )  # fmt: skip
