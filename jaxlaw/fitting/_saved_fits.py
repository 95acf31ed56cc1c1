"""Saved fits, read again: every field checked, the law asked for a number it gave before."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np

from jaxlaw import _json as records
from jaxlaw import laws
from jaxlaw._typed import Between, Finite, NotNegative, only, register
from jaxlaw._typed import load as read
from jaxlaw.data._row_areas import chosen_options
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting._extrapolation import parts_of
from jaxlaw.fitting._fitted_law import SCHEMA, FittedLaw
from jaxlaw.fitting._result import METRICS, Fit
from jaxlaw.laws._base import Law

_FITTED_LAW = {field.name for field in dataclasses.fields(FittedLaw)}
_EVIDENCE = {field.name for field in dataclasses.fields(Fit)} - _FITTED_LAW - {"sample"}
#: Fields that older files lack, by the schema that brought them; they are None there.
_SINCE = {"area_options": 2, "tied": 3, "bounds": 3, "optima": 4, "columns": 5, "joint_ranges": 5}
_SAME_LAW = 1e-9  # relative difference of predictions by one formula, wherever they are computed


def from_dict(record: Any, source: str = "record") -> Fit | FittedLaw:
    """The fit of :meth:`jaxlaw.FittedLaw.to_dict`; raises as :func:`jaxlaw.load`."""
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
        constraint = read(record["constraint"], str | None, "constraint")
        law = laws.get(read(record["law"], str, "law"), constraint)
    except UsageError as error:
        raise UsageError(
            f"{source}: {error} Import the module that defines it first; a command runs it by "
            "--law-file FILE.py.",
            file=source,
        ) from None
    except TypeError as error:
        raise DataError(f"{source} is not a whole jaxlaw fit: {error}") from None
    with records.whole(source, "fit"):
        if schema < 5:
            record = {**record, "metrics": _with_sums(record)}
        # Older versions wrote coefficients without a search as fits whose scores are all NaN.
        if schema < 6 and record["status"] in ("published", "mapped", "piece"):
            kind = FittedLaw
        loaded = kind(law=law, **_fields(kind, law, record))
        _check_probe(loaded, record.get("probe"))
    return loaded


for _kind in (FittedLaw, Fit):
    register(_kind, from_dict)


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
    metrics = only(read(record["metrics"], dict[str, float], "metrics"), old, "metrics")
    objective = read(record["objective"], float, "objective")
    mean = metrics["huber" if record["residuals"] == "log" else "huber_linear"]
    total = float(read(record["n_observations"], int, "n_observations"))
    if record["asymmetry"] == 1 and mean > 0:
        total = objective / mean
    for name in ("huber", "huber_linear"):
        metrics |= {f"mean_{name}": metrics[name], name: metrics[name] * total}
    return metrics


def _check_probe(fit: FittedLaw, probe: Any) -> None:
    """Refuse a law that does not give again what it gave when the fit was written."""
    if probe is None:
        return
    target = fit.law.target
    probe = only(read(probe, dict[str, Any], "probe"), ("inputs", target), "probe")
    point = read(probe["inputs"], dict[str, float], "probe.inputs")
    point = only(point, fit.law.input_names, "probe.inputs")
    then = read(probe[target], float, f"probe.{target}")
    now = fit.at_point(point)
    if not np.isclose(now, then, rtol=_SAME_LAW, atol=0.0, equal_nan=True):
        where = ", ".join(f"{name} {value:.6g}" for name, value in point.items())
        raise ValueError(
            f"law {fit.law.name} gives {now:.10g} at {where}, and gave {then:.10g} when the fit "
            "was written: its formula here is another, fit again"
        )


#: Fields that a file has to hold in a stricter form than their class says.
_STRICT: dict[str, Any] = {
    "params": dict[str, Finite],
    "units": dict[str, Annotated[float, Between(1e-300, sys.float_info.max)]],
    "fixed": dict[str, Finite],
    "delta": NotNegative,
    "objective": NotNegative,
    "agreement": NotNegative,
    "asymmetry": NotNegative,
    "residuals": Literal["log", "linear"],
    "optima": tuple[tuple[NotNegative, NotNegative], ...] | None,
}


def _fields(kind: type[FittedLaw], law: Law, record: dict[str, Any]) -> dict[str, Any]:
    """The fields of a fit but for its law: each of the kind that its class says, and the law's."""
    hints = get_type_hints(kind) | _STRICT
    names = [
        field.name for field in dataclasses.fields(kind) if field.name not in ("law", "sample")
    ]
    fields = {name: read(record[name], hints[name], name) for name in names}
    of_law = {"params": law.parameter_names, "units": law.input_names, "ranges": law.input_names}
    for name, keys in (of_law | {"metrics": METRICS}).items():
        if name in fields:
            only(fields[name], keys, name)
    for label in fields["joint_ranges"] or ():
        if not set(parts_of(label)) <= set(law.input_names):
            raise ValueError(f"field 'joint_ranges' has '{label}', which is not of two inputs")
    for field in ("ranges", "joint_ranges"):
        for name, (low, high) in (fields[field] or {}).items():
            if low > high:
                raise ValueError(f"field '{field}.{name}' is not in order: {low}, {high}")
    for name in fields["columns"] or ():
        if name not in law.input_names:
            raise ValueError(f"field 'columns.{name}' is no input of law {law.name}")
    if fields["area_options"] is not None:
        fields["area_options"] = chosen_options(fields["area_options"])
    if fields.get("runner_up") is not None:
        only(fields["runner_up"].params, law.parameter_names, "runner_up.params")
    # Names of parameters may be written in more than one way; a fit has the law's own.
    for field in ("fixed", "bounds", "tied"):
        if fields.get(field) is not None:
            fields[field] = {
                law.parameter(name).name: value for name, value in fields[field].items()
            }
    if fields.get("tied") is not None:
        fields["tied"] = {
            name: law.parameter(partner).name for name, partner in fields["tied"].items()
        }
    return fields
