"""What ``--json`` prints, as a JSON Schema for each command; needs typer, which is an extra.

Each record is described by type hints, which :func:`jaxlaw._typed.schema` writes as a schema;
what a plan prints is described by the class that its function returns.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, get_type_hints

import typer

import jaxlaw as jl
from jaxlaw.cli._options import Json
from jaxlaw.cli._output import (
    JSON,
    check_out,
    print_json,
    print_table,
    write_json,
)
from jaxlaw.errors import UsageError, nearest
from jaxlaw.notes import Note

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Cell = float | str | bool | None
_Rows = list[dict[str, _Cell]]  # of a table, with its columns' names
_Notes = list[Note]
_INTERVAL_ROW = {
    "parameter": str,
    "estimate": float,
    "std_err": float,
    "low": float,
    "high": float,
}
_CORPUS = {
    "true": dict[str, float],
    "fitted": dict[str, float],
    "rms_error": float,
    "r2": float,
    "objective": float,
    "agreement": float,
}
_PREDICTIONS = {"predictions": NotRequired[_Rows]}
_OUTSIDE = {"outside": list[bool]}


def _columns(*names: str) -> dict[str, Any]:
    """A table, a list for each column."""
    return {name: list[float] for name in names}


def _answer(cls: type, **more: Any) -> dict[str, Any]:
    """A plan with one answer: its numbers, what binds, intervals and notes."""
    from jaxlaw.planning._answers import Answer

    shared = {field.name for field in dataclasses.fields(Answer)}
    numbers = [
        f.name for f in dataclasses.fields(cls) if f.name not in shared and f.type == "float"
    ]
    last = {"binding": str, "level": float, "interval": dict[str, tuple[float, float]]}
    of_forecast = {"flat": NotRequired[dict[str, tuple[float, float]]], "laws": NotRequired[_Rows]}
    return {**dict.fromkeys(numbers, float), **last, "notes": _Notes, **of_forecast, **more}


def _fit(cls: type) -> dict[str, Any]:
    """A fit, or a law with its parameters, as its class declares it; its law is named."""
    hints = get_type_hints(cls)
    fields = {
        field.name: hints[field.name] for field in dataclasses.fields(cls) if field.name != "sample"
    }
    named = {"schema": int, "law": str, "constraint": str | None}
    return fields | named | {"area_options": dict[str, _Cell] | None}


#: Plans whose record is not the class that their function of planning returns.
_OF_PLANS: dict[str, tuple[str, ...]] = {
    "plan mixture": ("optimal_mixture",),
    "plan critical": ("critical_ratio",),
    "plan limited": ("optimal_mixture_data_limited",),
    "plan allocation-law": ("allocation_law",),
    "plan transfer": ("data_transferred", "compute_savings"),
    "plan replay": ("compare_replay",),
}


@cache
def schemas() -> dict[str, Schema]:
    """Command → the schema of what it prints with ``--json``."""
    from jaxlaw._typed import schema

    plans = jl.planning

    def answer(function: str, **more: Any) -> dict[str, Any]:
        return _answer(get_type_hints(getattr(plans, function))["return"], **more)

    shares = {name: kind for name, kind in answer("optimal_domain_weights").items()
              if name != "general_share"}  # fmt: skip
    fit = _fit(jl.Fit)
    hints: dict[str, Any] = {
        "laws": (_Rows, _fit(jl.FittedLaw)),
        "demo": {"general": _CORPUS, "domain": _CORPUS, "picture": str | None},
        "fit": fit,
        "bootstrap": {
            "law": str, "kind": Literal["case", "residual", "wild"], "resamples": int,
            "resampled": int, "groups": list[str] | None, "level": float, "method": str,
            "parameters": [_INTERVAL_ROW], "notes": _Notes, **_PREDICTIONS,
        },
        "study": {
            "kind": Literal["jaxlaw study"], "schema": int, "design": str,
            "laws": dict[str, list[str | None]], "sizes": dict[str, int], "target": str,
            "delta": float, "frame": dict[str, list[_Cell]], "parameters": dict[str, list[_Cell]],
            "notes": _Notes, "ranking": _Rows,
        },
        "backtest": {
            "along": str, "target": str, "cutoffs": list[float], "table": _Rows, "frame": _Rows,
            "notes": _Notes,
        },
        "forecast": {
            "kind": Literal["jaxlaw forecast"], "schema": int, "level": float, "target": str,
            "along": str, "weights": dict[str, list[float]], "units": dict[str, float],
            "runs": dict[str, _Cell], "created": str, "versions": dict[str, str],
            "backtest_coverage": float | None, "table": dict[str, list[float]],
            "quantiles": list[list[float]],
            "fits": dict[str, _fit(jl.FittedLaw)], "notes": _Notes,
            "resamples": dict[str, dict[str, list[float]]], "errors": dict[str, list[float]],
            "digest": str,
        },
        "score": {"scores": _Rows, "calibration": _Rows, "notes": _Notes},
        "covariance": {
            "law": str, "level": float, "parameters": _Rows,
            "covariance": dict[str, dict[str, float]], "notes": _Notes, **_PREDICTIONS,
        },
        "profile": {
            "law": str, "level": float, "interval": _Rows, "profile": _Rows, "notes": _Notes,
        },
        "influence": {"law": str, "influence": _Rows, "notes": _Notes},
        "identifiability": {"law": str, "directions": _Rows, "notes": _Notes},
        "design steps": {"method": str, "rate": float | None, "steps": list[int]},
        "design next": {
            "criterion": str, "before": float, "after": float, "noise": float, "chosen": _Rows,
            "notes": _Notes,
        },
        "inflection": {
            "ratio": float | None, "interval": list[float | None], "level": float,
            "bracket": list[float | None], "flat": float | None, "split": float | None,
            "below": dict[str, _Cell], "above": dict[str, _Cell], "trends": _Rows, "notes": _Notes,
        },
        "slopes": {"slopes": _Rows, "notes": _Notes},
        "requirements": {"law": str, "requirements": _Rows, "notes": _Notes},
        "learnability": {"law": str, "domains": _Rows},
        "report": {"report": str, "bytes": int, "of": str},
        "plan allocation": answer("allocation", r=NotRequired[float]),
        "plan target": answer("min_compute", r=NotRequired[float]),
        "plan breakeven": answer("break_even", pays=str),
        "plan turning": answer("turning_length", pattern=str),
        "plan model": answer("choose_model", choice=str, law=str, models=_Rows),
        "plan valuation": answer("pretraining_value", advice=str, reasons=list[str], monotone=bool),
        "plan optimal-weights": {
            "loss": float, "kl": float, "losses": dict[str, float], "gain": dict[str, float],
            "table": dict[str, list[_Cell]], "level": float,
            "interval": dict[str, tuple[float, float]], "notes": _Notes,
        },
        "plan schedule": {
            **dict.fromkeys(("loss", "agreement", "decay_start", "decay_end", "regret"), float),
            "n_starts": int, "areas": dict[str, float],
            "schedule": {"rates": list[float], "initial_lr": float, "boundary": int | None},
            "comparison": _Rows, "level": float, "interval": dict[str, tuple[float, float]],
            "notes": _Notes,
        },
    }  # fmt: skip
    for command, functions in _OF_PLANS.items():
        kinds = tuple(answer(function) for function in functions)
        hints[command] = kinds if len(kinds) > 1 else kinds[0]
    by_name = {name: schema(hint) for name, hint in hints.items()}

    def table(more: Any, columns: dict[str, Any]) -> Schema:
        """Columns, and others that hold ``more``."""
        return schema(columns) | {"additionalProperties": schema(list[more])}

    # Columns of predictions; beside them scores, where there were targets to compare with.
    by_name["predict"] = table(_Cell, _OUTSIDE | {"scores": NotRequired[dict[str, float]]})
    by_name["areas"] = table(float, _columns("step", "lr"))
    parts = _columns("step", "lr", "base", "annealing", "shift") | _OUTSIDE
    by_name["curve"] = {"anyOf": [table(_Cell, parts), schema({"picture": str})]}
    for command, columns in {
        "frontier": ("compute", "N", "D", "loss", "tokens_per_parameter"),
        "savings": ("compute", "loss", "continual_compute", "saved"),
        "compute-multiplier": ("compute", "loss", "multiplier"),
        "observed-transfer": ("D", "loss", "scratch_D", "transferred", "saved"),
        "envelope": ("loss",),
    }.items():
        by_name[f"plan {command}"] = table(_Cell, _columns(*columns) | {"notes": _Notes})
    losses = table(_Cell, _columns("loss_pt", "loss_cpt") | {"notes": _Notes})
    by_name["plan training"] = {"anyOf": [schema(answer("optimal_training")), losses]}
    curve = _columns("step", "lr", "loss_pt", "loss_cpt", "loss_ood") | _OUTSIDE
    by_name["plan out-of-domain"] = schema(answer("out_of_domain"))
    by_name["plan out-of-domain"]["properties"]["curve"] = table(str, curve)
    by_name["plan shares"] = schema(shares) | {
        "patternProperties": {r"^(r|loss)\[.*\]$": schema(float)}
    }
    return by_name | {"schema": {"type": "object"}}


def schema_of(command: str) -> Schema:
    """The JSON Schema of a command's ``--json``; raises UsageError for an unknown one."""
    if command not in schemas():
        raise UsageError(
            f"there is no command '{command}' with a schema.{nearest(command, schemas())}"
        )
    return {"$schema": _DIALECT, "title": f"jaxlaw {command} --json", **schemas()[command]}


def schema_command(
    command: Annotated[
        list[str] | None, typer.Argument(help="Such as fit, or plan mixture; none lists them.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it (JSON).")] = None,
    as_json: Json = False,
) -> None:
    """The JSON Schema of what a command prints with --json.

    Example: jaxlaw schema plan mixture
    """
    check_out(out, JSON)
    if not command:
        every = {name: schema_of(name) for name in schemas()}
        if out is not None:
            write_json(out, every)
        if as_json:
            print_json(every)
        else:
            rows = [[name, ", ".join(_keys(record))] for name, record in schemas().items()]
            print_table(["command", "keys of its JSON"], rows)
        return
    found_schema = schema_of(" ".join(command))
    if out is not None:
        write_json(out, found_schema)
    print_json(found_schema)


def _keys(schema: Schema) -> list[str]:
    return list(schema.get("properties", {})) or [
        key for branch in schema.get("anyOf", ()) for key in branch.get("properties", {})
    ]
