"""Saved fits, read again: every field checked, the law asked for a number it gave before."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from jaxlaw import _json as records
from jaxlaw import laws
from jaxlaw._typed import checked
from jaxlaw.data._row_areas import chosen_options
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting._extrapolation import parts_of
from jaxlaw.fitting._fitted_law import SCHEMA, FittedLaw
from jaxlaw.fitting._result import METRICS, Fit, RunnerUp
from jaxlaw.laws._base import Law

_FITTED_LAW = {one.name for one in dataclasses.fields(FittedLaw)}
_EVIDENCE = {one.name for one in dataclasses.fields(Fit)} - _FITTED_LAW - {"sample"}
#: Fields that older files lack, by the schema that brought them; they are None there.
_SINCE = {"area_options": 2, "tied": 3, "bounds": 3, "optima": 4, "columns": 5, "joint_ranges": 5}
_AT_LEAST_ZERO = ("objective", "agreement", "asymmetry")
_COUNTS = ("n_starts", "n_solved", "n_observations", "n_dropped")
_SAME_LAW = 1e-9  # relative difference of predictions by one formula, wherever they are computed


@checked
def load(path: str | Path) -> FittedLaw:
    """Read what :meth:`jaxlaw.FittedLaw.save` wrote; ``-`` is standard input.

    Nothing in the file is executed. It is checked as a whole (its digest), field by field, and
    by a prediction it holds, which the law in this process must give again.

    Raises:
        UsageError: no such file, or the law is not registered in this process.
        DataError: not a fit, changed since it was written, of a newer schema, of another
            formula, or a field missing or malformed (named).
    """
    return from_dict(records.read_record(path, "fit"), records.place_of(path))


def from_dict(record: Any, source: str = "record") -> FittedLaw:
    """The fit of :meth:`jaxlaw.FittedLaw.to_dict`; raises as :func:`load`."""
    if not isinstance(record, dict) or "schema" not in record:
        raise DataError(f"{source} is not a jaxlaw fit: field 'schema' is missing")
    schema = record["schema"]
    if isinstance(schema, bool) or not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        raise DataError(
            f"{source} has schema {schema}; this jaxlaw reads 1 to {SCHEMA}: "
            + ("install a newer jaxlaw" if newer else "save the fit again")
        )
    record = _renamed(record, schema)
    kind = Fit if schema < 6 or _EVIDENCE & set(record) else FittedLaw
    names = sorted({*_FITTED_LAW, *(_EVIDENCE if kind is Fit else ()), "constraint"})
    for name in names:
        if _SINCE.get(name, 1) > schema:
            record = {**record, name: None}
        if name not in record:
            raise DataError(f"{source} is not a whole jaxlaw fit: field '{name}' is missing")
    try:
        constraint = record["constraint"]
        constraint = constraint if constraint is None else records.text(constraint, "constraint")
        law = laws.get(records.text(record["law"], "law"), constraint)
    except UsageError as error:
        raise UsageError(f"{source}: {error} Import the module that defines it first.") from None
    except TypeError as error:
        raise DataError(f"{source} is not a whole jaxlaw fit: {error}") from None
    with records.whole(source, "fit"):
        if schema < 5:
            record = {**record, "metrics": _with_sums(record)}
        # Older versions wrote coefficients without a search as fits whose scores are all NaN.
        if schema < 6 and record["status"] in ("published", "mapped", "piece"):
            kind = FittedLaw
        loaded = kind(**_shared(law, record), **(_evidence(law, record) if kind is Fit else {}))
        _check_probe(loaded, record.get("probe"))
    return loaded


def _renamed(record: dict[str, Any], schema: int) -> dict[str, Any]:
    """The record with today's names of its fields."""
    if schema >= 6:
        return record
    names = {"areas": "area_options", "ends": "optima", "space": "residuals"}
    return {names.get(name, name): value for name, value in record.items()}


def _with_sums(record: dict[str, Any]) -> dict[str, float]:
    """The metrics of a fit of schema 1 to 4, whose Huber losses were means per observation.

    The sum of the weights is the objective over its mean, where that is the mean of the same
    losses; where it is not (asymmetry, an objective of 0), it is taken as the number of
    observations, which is exact where all weights are 1.
    """
    old = ("r2", "rmse", "huber_linear", "r2_log", "rmse_log", "huber")
    found = records.fields(record["metrics"], "metrics", old)
    found = {name: records.number(value, f"metrics.{name}") for name, value in found.items()}
    objective = records.number(record["objective"], "objective")
    mean = found["huber" if record["residuals"] == "log" else "huber_linear"]
    total = float(records.count(record["n_observations"], "n_observations"))
    if record["asymmetry"] == 1 and mean > 0:
        total = objective / mean
    for name in ("huber", "huber_linear"):
        found |= {f"mean_{name}": found[name], name: found[name] * total}
    return found


def _check_probe(fit: FittedLaw, probe: Any) -> None:
    """Refuse a law that does not give again what it gave when the fit was written."""
    if probe is None:
        return
    probe = records.fields(probe, "probe", ("inputs", fit.law.target))
    point = records.fields(probe["inputs"], "probe.inputs", fit.law.input_names)
    point = {name: records.number(value, f"probe.inputs.{name}") for name, value in point.items()}
    then = records.number(probe[fit.law.target], f"probe.{fit.law.target}")
    now = fit.at_point(point)
    if not np.isclose(now, then, rtol=_SAME_LAW, atol=0.0, equal_nan=True):
        where = ", ".join(f"{name} {value:.6g}" for name, value in point.items())
        raise ValueError(
            f"law {fit.law.name} gives {now:.10g} at {where}, and gave {then:.10g} when the fit "
            "was written: its formula here is another, fit again"
        )


def _shared(law: Law, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a fitted law, checked."""
    number, fields = records.number, records.fields
    params = fields(values["params"], "params", law.parameter_names)
    units = fields(values["units"], "units", law.input_names)
    ranges = fields(values["ranges"], "ranges", law.input_names)
    fixed = fields(values["fixed"], "fixed", (), others=True)
    options = values["area_options"]
    return {
        "law": law,
        "params": {n: number(v, f"params.{n}", known=True) for n, v in params.items()},
        "units": {n: number(v, f"units.{n}", 1e-300, known=True) for n, v in units.items()},
        "ranges": {n: _range(ends, f"ranges.{n}") for n, ends in ranges.items()},
        "joint_ranges": _joint_ranges(law, values["joint_ranges"]),
        "fixed": {
            law.parameter(name).name: number(value, f"fixed.{name}", known=True)
            for name, value in fixed.items()
        },
        "area_options": None
        if options is None
        else chosen_options(fields(options, "area_options", (), others=True)),
        "columns": _columns(law, values["columns"]),
        "source": records.text(values["source"], "source"),
        "notes": records.notes_of(values["notes"]),
        "delta": number(values["delta"], "delta", 0.0),
    }


def _evidence(law: Law, values: dict[str, Any]) -> dict[str, Any]:
    """The fields that only a fit has, checked."""
    number, fields = records.number, records.fields
    metrics = fields(values["metrics"], "metrics", METRICS)
    return {
        "metrics": {name: number(value, f"metrics.{name}") for name, value in metrics.items()},
        "runner_up": _runner_up(law, values["runner_up"]),
        "tied": _tied(law, values["tied"]),
        "bounds": _bounds(law, values["bounds"]),
        "optima": _optima(values["optima"]),
        "residuals": records.text(values["residuals"], "residuals", ("log", "linear")),
        **{name: records.text(values[name], name) for name in ("status", "solver")},
        **{name: number(values[name], name, 0.0) for name in _AT_LEAST_ZERO},
        **{name: records.count(values[name], name) for name in _COUNTS},
    }


def _range(ends: Any, name: str) -> tuple[float, float]:
    if not isinstance(ends, list) or len(ends) != 2:
        raise TypeError(f"field '{name}' is no pair of lowest and highest")
    low, high = (records.number(end, name) for end in ends)
    if low > high:
        raise ValueError(f"field '{name}' is not in order: {low}, {high}")
    return low, high


def _joint_ranges(law: Law, value: Any) -> dict[str, tuple[float, float]] | None:
    if value is None:
        return None
    found = records.fields(value, "joint_ranges", (), others=True)
    for label in found:
        if not set(parts_of(label)) <= set(law.input_names):
            raise ValueError(f"field 'joint_ranges' has '{label}', which is not of two inputs")
    return {label: _range(ends, f"joint_ranges.{label}") for label, ends in found.items()}


def _runner_up(law: Law, value: Any) -> RunnerUp | None:
    if value is None:
        return None
    value = records.fields(value, "runner_up", ("objective", "share", "params"))
    params = records.fields(value["params"], "runner_up.params", law.parameter_names)
    return RunnerUp(
        records.number(value["objective"], "runner_up.objective", 0.0),
        records.number(value["share"], "runner_up.share", 0.0),
        {name: records.number(one, f"runner_up.params.{name}") for name, one in params.items()},
    )


def _tied(law: Law, value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    pairs = records.fields(value, "tied", (), others=True)
    return {
        law.parameter(name).name: law.parameter(records.text(other, f"tied.{name}")).name
        for name, other in pairs.items()
    }


def _bounds(law: Law, value: Any) -> dict[str, tuple[float | None, float | None]] | None:
    if value is None:
        return None
    found = {}
    for name, ends in records.fields(value, "bounds", (), others=True).items():
        if not isinstance(ends, list) or len(ends) != 2:
            raise TypeError(f"field 'bounds.{name}' is no pair of lowest and highest")
        found[law.parameter(name).name] = tuple(
            None if end is None else records.number(end, f"bounds.{name}") for end in ends
        )
    return found


def _columns(law: Law, value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    named = records.fields(value, "columns", (), others=True)
    for name in named:
        if name not in law.input_names:
            raise ValueError(f"field 'columns.{name}' is no input of law {law.name}")
    return {name: records.text(column, f"columns.{name}") for name, column in named.items()}


def _optima(value: Any) -> tuple[tuple[float, float], ...] | None:
    if value is None:
        return None
    return tuple(
        (records.number(objective, "optima", 0.0), records.number(share, "optima", 0.0))
        for objective, share in value
    )
