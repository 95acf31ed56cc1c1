"""What ``--json`` prints, as a JSON Schema for each command; needs typer, which is an extra."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxlaw.cli._options import Json
from jaxlaw.cli._terminal import (
    JSON,
    check_out,
    print_json,
    print_table,
    write_json,
)
from jaxlaw.errors import UsageError, nearest
from jaxlaw.planning._allocation import Allocation, AllocationLaw
from jaxlaw.planning._answers import Answer
from jaxlaw.planning._continual import OptimalTraining, TurningLength
from jaxlaw.planning._downstream import ModelChoice, Valuation
from jaxlaw.planning._mixture import (
    CriticalRatio,
    DomainShares,
    LimitedMixture,
    Mixture,
    ReplayComparison,
)
from jaxlaw.planning._out_of_domain import OutOfDomain
from jaxlaw.planning._transfer import BreakEven, Saving, Transfer

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# JSON has no infinities and no NaN: they are these strings.
NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TRUTH: Schema = {"type": "boolean"}


def record(optional: Schema | None = None, /, **fields: Schema) -> Schema:
    """An object with these fields, perhaps the optional ones, and no others."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
        "additionalProperties": False,
    }


def list_of(item: Schema) -> Schema:
    """An array of any length."""
    return {"type": "array", "items": item}


def by_name(item: Schema) -> Schema:
    """An object with names of the user's or the law's for keys."""
    return {"type": "object", "additionalProperties": item}


def or_null(item: Schema) -> Schema:
    """The same, or null where there is none."""
    return {"anyOf": [item, {"type": "null"}]}


def columns_of(*names: str, more: Schema | None = None, **others: Schema) -> Schema:
    """A table, a list for each column; ``more`` says what further columns hold."""
    every = {name: list_of(NUMBER) for name in names} | others
    return record(**every) | ({} if more is None else {"additionalProperties": list_of(more)})


PAIR: Schema = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}
NOTE = record(code=TEXT, severity={"enum": ["info", "warning", "error"]}, message=TEXT)
NOTES = list_of(NOTE)
CELL: Schema = {"anyOf": [*NUMBER["anyOf"], TEXT, TRUTH, {"type": "null"}]}
ROWS = list_of(by_name(CELL))  # of a table, with its columns' names

FITTED_LAW = {
    "schema": COUNT,
    "law": TEXT,
    "constraint": or_null(TEXT),
    "params": by_name(NUMBER),
    "units": by_name(NUMBER),
    "ranges": by_name(PAIR),
    "joint_ranges": or_null(by_name({"type": "array", "items": NUMBER})),
    "fixed": by_name(NUMBER),
    "area_options": or_null(by_name(CELL)),
    "columns": or_null(by_name(TEXT)),
    "source": TEXT,
    "notes": NOTES,
    "delta": NUMBER,
}
EVIDENCE = dict(
    objective=NUMBER,
    metrics=by_name(NUMBER),
    status=TEXT,
    agreement=NUMBER,
    n_starts=COUNT,
    n_solved=COUNT,
    runner_up=or_null(record(objective=NUMBER, share=NUMBER, params=by_name(NUMBER))),
    n_observations=COUNT,
    n_dropped=COUNT,
    space={"enum": ["log", "linear"]},
    asymmetry=NUMBER,
    solver=TEXT,
    tied=or_null(by_name(TEXT)),
    bounds=or_null(by_name({"type": "array", "items": or_null(NUMBER)})),
    optima=or_null({"type": "array", "items": {"type": "array", "items": NUMBER}}),
)
FIT = record(**FITTED_LAW, **EVIDENCE)
INTERVAL_ROW = {
    "parameter": TEXT,
    "estimate": NUMBER,
    "std_err": NUMBER,
    "low": NUMBER,
    "high": NUMBER,
}


def answer(cls: type[Answer], optional: Schema | None = None, /, **more: Schema) -> Schema:
    """Of a plan with one answer: its numbers, what binds, intervals and notes."""
    shared = {field.name for field in dataclasses.fields(Answer)}
    own = [f for f in dataclasses.fields(cls) if f.name not in shared and f.type == "float"]
    return record(
        optional,
        **{field.name: NUMBER for field in own},
        binding=TEXT,
        level=NUMBER,
        interval=by_name(PAIR),
        notes=NOTES,
        **more,
    )


def table(*names: str) -> Schema:
    """Of a plan with many answers: these columns, ends of intervals, settings; and notes."""
    return columns_of(*names, more=CELL, notes=NOTES)


def _scored(columns: Schema) -> Schema:
    """Columns of predictions; beside them scores, where there were targets to compare with."""
    columns["properties"]["scores"] = by_name(NUMBER)
    return columns


_SHARES = answer(DomainShares)
_SHARES["properties"].pop("general_share")
_SHARES["required"].remove("general_share")
_SHARES["patternProperties"] = {r"^(r|loss)\[.*\]$": NUMBER}

_CORPUS = record(
    true=by_name(NUMBER),
    fitted=by_name(NUMBER),
    rms_error=NUMBER,
    r2=NUMBER,
    objective=NUMBER,
    agreement=NUMBER,
)
_FOLDS = by_name(list_of(CELL))  # columns of a study's frames

#: Command → the schema of what it prints with ``--json``.
SCHEMAS: dict[str, Schema] = {
    "laws": {"anyOf": [ROWS, record(**FITTED_LAW)]},
    "demo": record(general=_CORPUS, domain=_CORPUS, picture=or_null(TEXT)),
    "fit": FIT,
    "predict": _scored(columns_of(more=CELL, outside=list_of(TRUTH))),
    "areas": columns_of("step", "lr", more=NUMBER),
    "curve": {
        "anyOf": [
            columns_of(
                "step",
                "lr",
                "base",
                "annealing",
                "shift",
                more=CELL,
                outside=list_of(TRUTH),
            ),
            record(picture=TEXT),
        ]
    },
    "bootstrap": record(
        {"predictions": ROWS},
        law=TEXT,
        kind={"enum": ["case", "residual", "wild"]},
        resamples=COUNT,
        resampled=COUNT,
        groups=or_null(list_of(TEXT)),
        level=NUMBER,
        method=TEXT,
        parameters=list_of(record(**INTERVAL_ROW)),
        notes=NOTES,
    ),
    "study": record(
        kind={"const": "jaxlaw study"},
        schema=COUNT,
        design=TEXT,
        laws=by_name({"type": "array", "items": or_null(TEXT)}),
        sizes=by_name(COUNT),
        target=TEXT,
        delta=NUMBER,
        frame=_FOLDS,
        parameters=_FOLDS,
        notes=NOTES,
        ranking=ROWS,
    ),
    "covariance": record(
        {"predictions": ROWS},
        law=TEXT,
        level=NUMBER,
        parameters=ROWS,
        covariance=by_name(by_name(NUMBER)),
        notes=NOTES,
    ),
    "profile": record(law=TEXT, level=NUMBER, interval=ROWS, profile=ROWS, notes=NOTES),
    "influence": record(law=TEXT, influence=ROWS, notes=NOTES),
    "identifiability": record(law=TEXT, directions=ROWS, notes=NOTES),
    "sampling plan": record(method=TEXT, rate=or_null(NUMBER), steps=list_of(COUNT)),
    "sampling next": record(
        criterion=TEXT, before=NUMBER, after=NUMBER, noise=NUMBER, chosen=ROWS, notes=NOTES
    ),
    "inflection": record(
        ratio=or_null(NUMBER),
        interval=list_of(or_null(NUMBER)),
        level=NUMBER,
        bracket=list_of(or_null(NUMBER)),
        flat=or_null(NUMBER),
        split=or_null(NUMBER),
        below=by_name(CELL),
        above=by_name(CELL),
        trends=ROWS,
        notes=NOTES,
    ),
    "slopes": record(slopes=ROWS, notes=NOTES),
    "requirements": record(law=TEXT, requirements=ROWS, notes=NOTES),
    "learnability": record(law=TEXT, domains=ROWS),
    "report": record(report=TEXT, bytes=COUNT, of=TEXT),
    "plan mixture": answer(Mixture),
    "plan critical": answer(CriticalRatio),
    "plan limited": answer(LimitedMixture),
    "plan shares": _SHARES,
    "plan allocation": answer(Allocation, {"r": NUMBER}),
    "plan allocation-law": answer(AllocationLaw),
    "plan frontier": table("compute", "N", "D", "loss", "tokens_per_parameter"),
    "plan target": answer(Allocation, {"r": NUMBER}),
    "plan transfer": {"anyOf": [answer(Transfer), answer(Saving)]},
    "plan savings": table("compute", "loss", "continual_compute", "saved"),
    "plan observed-transfer": table("D", "loss", "scratch_D", "transferred", "saved"),
    "plan breakeven": answer(BreakEven, pays=TEXT),
    "plan replay": answer(ReplayComparison),
    "plan envelope": table("loss"),
    "plan training": {"anyOf": [answer(OptimalTraining), table("loss_pt", "loss_cpt")]},
    "plan turning": answer(TurningLength, pattern=TEXT),
    "plan out-of-domain": answer(
        OutOfDomain,
        {
            "curve": columns_of(
                "step", "lr", "loss_pt", "loss_cpt", "loss_ood", more=TEXT, outside=list_of(TRUTH)
            )
        },
    ),
    "plan schedule": record(
        loss=NUMBER,
        agreement=NUMBER,
        decay_start=NUMBER,
        decay_end=NUMBER,
        regret=NUMBER,
        n_starts=COUNT,
        areas=by_name(NUMBER),
        schedule=record(rates=list_of(NUMBER), initial_lr=NUMBER, boundary=or_null(COUNT)),
        comparison=ROWS,
        level=NUMBER,
        interval=by_name(PAIR),
        notes=NOTES,
    ),
    "plan model": answer(ModelChoice, choice=TEXT, law=TEXT, models=ROWS),
    "plan valuation": answer(Valuation, advice=TEXT, reasons=list_of(TEXT), monotone=TRUTH),
}


def schema_of(command: str) -> Schema:
    """The JSON Schema of a command's ``--json``; raises UsageError for an unknown one."""
    if command not in SCHEMAS:
        raise UsageError(
            f"there is no command '{command}' with a schema.{nearest(command, SCHEMAS)}"
        )
    return {"$schema": _DIALECT, "title": f"jaxlaw {command} --json", **SCHEMAS[command]}


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
        every = {name: schema_of(name) for name in SCHEMAS}
        if out is not None:
            write_json(out, every)
        if as_json:
            print_json(every)
        else:
            rows = [[name, ", ".join(_keys(SCHEMAS[name]))] for name in SCHEMAS]
            print_table(["command", "keys of its JSON"], rows)
        return
    found = schema_of(" ".join(command))
    if out is not None:
        write_json(out, found)
    print_json(found)


def _keys(schema: Schema) -> list[str]:
    return list(schema.get("properties", {})) or [
        key for one in schema.get("anyOf", ()) for key in one.get("properties", {})
    ]


SCHEMAS["schema"] = {"type": "object"}
