"""What ``--json`` prints, as a JSON Schema for each command; needs typer, which is an extra.

Each record is described by type hints, which :func:`jaxlaw._typed.schema` writes as a schema;
what a plan prints is described by the class that its function returns.
"""

from __future__ import annotations

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
from jaxlaw.cli._signatures import home, with_command
from jaxlaw.errors import UsageError, nearest
from jaxlaw.notes import Note

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Cell = float | str | bool | None
_Rows = list[dict[str, _Cell]]  # of a table, with its columns' names
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
#: What every answer ends with: notes, and what to do next.
_CLOSING = {"notes": list[Note], "next_step": str}
_UNITS = {"units": dict[str, tuple[str, float]]}  # what one is worth in single things
_OUTSIDE = {"outside": list[bool]}


def _columns(*names: str) -> dict[str, Any]:
    """A table, a list for each column."""
    return {name: list[float] for name in names}


#: Plan → the functions whose result it prints, of those that are no commands by themselves.
_PLANS: dict[str, tuple[str, ...]] = {
    "frontier": ("frontier",),
    "target": ("min_compute",),
    "transfer": ("data_transferred", "compute_savings"),
    "best-settings": ("best_settings",),
    "compare-replay": ("compare_replay",),
    "optimal-training": ("optimal_training", "final_losses", "tradeoff_curve"),
    "turning-length": ("turning_length",),
    "out-of-domain": ("papers.out_of_domain",),
    "optimal-schedule": ("optimal_schedule",),
}


@cache
def schemas() -> dict[str, Schema]:
    """Command → the schema of what it prints with ``--json``."""
    from jaxlaw._typed import schema

    def result(*functions: str) -> Schema:
        """What functions return, as their classes describe themselves."""
        named = [home(one) for one in functions]
        found = [getattr(getattr(jl, package), name) for package, name in named]
        kinds = [get_type_hints(one)["return"].json_schema() for one in found]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}

    hints: dict[str, Any] = {
        "laws": (_Rows, jl.FittedLaw),
        "demo": {"general": _CORPUS, "domain": _CORPUS, "picture": str | None},
        "fit": jl.Fit,
        "bootstrap": {
            "law": str, "kind": Literal["case", "residual", "wild"], "resamples": int,
            "resampled": int, "groups": list[str] | None, "level": float, "method": str,
            "parameters": [_INTERVAL_ROW], **_CLOSING, **_UNITS, **_PREDICTIONS,
        },
        "study": jl.Study,
        "backtest": jl.forecasting.Backtest,
        "forecast": jl.Forecast,
        "scores": jl.forecasting.ScoreForecast,
        "compute-for-score": jl.forecasting.ScoreCompute,
        "score": jl.forecasting.Backtest,
        "covariance": {
            "law": str, "level": float, "parameters": _Rows,
            "covariance": dict[str, dict[str, float]], **_CLOSING, **_UNITS, **_PREDICTIONS,
        },
        "profile": {
            "law": str, "level": float, "interval": _Rows, "profile": _Rows, **_CLOSING,
            **_UNITS,
        },
        "influence": {"law": str, "influence": _Rows, **_CLOSING},
        "identifiability": {"law": str, "directions": _Rows, **_CLOSING},
        "design steps": jl.design.EvaluationSteps,
        "design next": jl.design.NextRuns,
        "inflection": jl.papers.InflectionRatio,
        "slopes": {"slopes": _Rows, **_CLOSING},
        "requirements": {"law": str, "requirements": _Rows, **_CLOSING},
        "learnability": {"law": str, "domains": _Rows},
        "plot": ({"picture": str, "kind": str}, dict[str, str]),
        "report": {"report": str, "bytes": int, "of": str},
        "cache": {"folder": str | None, "versions": _Rows},
    }  # fmt: skip
    by_name = {name: schema(hint) for name, hint in hints.items()}

    def table(more: Any, columns: dict[str, Any]) -> Schema:
        """Columns, and others that hold ``more``."""
        return schema(columns) | {"additionalProperties": schema(list[more])}

    # Columns of predictions; beside them scores, where there were targets to compare with.
    more = {"scores": NotRequired[dict[str, float]], "next_step": str}
    by_name["predict"] = table(_Cell, _OUTSIDE | _UNITS | more)
    by_name["areas"] = table(float, _columns("step", "lr"))
    parts = _columns("step", "lr", "base", "annealing", "shift") | _OUTSIDE
    by_name["curve"] = {"anyOf": [table(_Cell, parts), schema({"picture": str})]}
    for command, columns in {
        "observed-transfer": ("D", "loss", "scratch_D", "transferred", "saved"),
        "loss-envelope": ("loss",),
    }.items():
        by_name[f"plan {command}"] = table(_Cell, _columns(*columns) | _CLOSING)
    # The digest, which shows whether a forecast was changed.
    by_name["forecast"]["properties"]["digest"] = schema(str)
    by_name["forecast"]["required"].append("digest")
    plans = _PLANS | {command: (function,) for command, function in with_command().items()}
    by_name |= {f"plan {command}": result(*functions) for command, functions in plans.items()}
    curve = _columns("step", "lr", "loss_pt", "loss_cpt", "loss_ood") | _OUTSIDE
    by_name["plan out-of-domain"]["properties"]["curve"] = table(str, curve)
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
        list[str] | None,
        typer.Argument(help="Such as fit, or plan optimal-mixture; none lists them."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it (JSON).")] = None,
    as_json: Json = False,
) -> None:
    """The JSON Schema of what a command prints with --json.

    Example: jaxlaw schema plan optimal-mixture
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
