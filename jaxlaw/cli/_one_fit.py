"""What one fit says of its own uncertainty, as commands; needs typer, which is an extra."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any

import pandas as pd
import typer

import jaxlaw as jl
from jaxlaw.cli import _options as opt
from jaxlaw.cli._results import conclude
from jaxlaw.cli._saved import law_or_fit
from jaxlaw.cli._terminal import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    combinations,
    numbers_of,
    print_frame,
    print_wrapped,
)
from jaxlaw.errors import UsageError
from jaxlaw.uncertainty._intervals import COLUMNS

_NAMED = 3  # runs, or parameters, that a line names

SameNoise = Annotated[
    bool, typer.Option("--same-noise", help="Take the noise to be the same for all rows.")
]
OneAt = Annotated[
    list[str] | None, typer.Option(help="Of the prediction there: N=7e9; repeatable.")
]


@opt.reads_runs
def covariance_command(
    law: opt.LawOrFit,
    data: opt.Data,
    groups: opt.Groups = None,
    same_noise: SameNoise = False,
    level: opt.Level = 0.95,
    at: opt.PredictAt = None,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Standard errors and intervals without resampling: the sandwich covariance.

    Example: jaxlaw covariance fit.json runs.csv --groups N,r --at N=7e9 --at D=1e12
    """
    check_out(out, JSON, CSV, PICTURE)
    points = combinations(at, "--at")
    found = jl.covariance(
        law_or_fit(law), data, groups=opt.columns_named(groups), robust=not same_noise,
        **reading,
    )  # fmt: skip
    tables = {"parameters": found.conf_int(level)}
    if points:
        tables["predictions"] = found.prediction(points, confidence_level=level)
    matrix = {name: dict(column) for name, column in found.matrix.items()}
    record = {"law": found.fit.law.name, "level": level, **_rows(tables), "covariance": matrix}
    say = partial(_say, found.fit, f"{level:.0%} intervals", tables.values())
    draw = lambda plots: plots.parameter_intervals(found, level=level)  # noqa: E731
    conclude(record, found.notes, tables["parameters"], say, out, as_json, draw)


@opt.reads_runs
def profile_command(
    law: opt.LawOrFit,
    data: opt.Data,
    parameter: Annotated[str | None, typer.Option(help="Of a parameter: alpha.")] = None,
    at: OneAt = None,
    groups: opt.Groups = None,
    same_noise: SameNoise = False,
    level: opt.Level = 0.95,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The interval of a parameter or a prediction by refits that hold it elsewhere.

    Example: jaxlaw profile fit.json runs.csv --parameter alpha
    """
    check_out(out, JSON, CSV, PICTURE)
    if (parameter is None) == (not at):
        raise UsageError("say what to profile: --parameter NAME, or --at NAME=VALUE for each input")
    found = jl.profile(
        law_or_fit(law), data, parameter or numbers_of(at, "--at"),
        groups=opt.columns_named(groups), robust=not same_noise, **reading,
    )  # fmt: skip
    ends = dict(zip(COLUMNS, map(float, found.interval(level)), strict=True))
    interval = pd.DataFrame([{"quantity": found.quantity, **ends}])
    tables = {"interval": interval, "profile": found.table}
    record = {"law": found.fit.law.name, "level": level, **_rows(tables)}
    say = partial(_say, found.fit, f"{level:.0%} interval", [interval])
    draw = lambda plots: plots.objective_profile(found, level=level)  # noqa: E731
    conclude(record, found.notes, found.table, say, out, as_json, draw)


@opt.reads_runs
def influence_command(
    law: opt.LawOrFit,
    data: opt.Data,
    at: OneAt = None,
    groups: Annotated[
        str | None, typer.Option(help="Columns whose rows are left out together: run, or N,r.")
    ] = None,
    refits: Annotated[
        bool, typer.Option("--refits", help="Leave each out and fit again; not to first order.")
    ] = False,
    out: opt.Out = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """How far parameters, or a prediction, move when a run is left out.

    Example: jaxlaw influence fit.json runs.csv --at N=7e9 --at D=1e12 --out influence.csv
    """
    check_out(out)
    fit, runs = _fitted(law, data, reading)
    found = jl.influence(
        fit, runs, numbers_of(at, "--at") or None, groups=opt.columns_named(groups), refits=refits
    )
    table = found.reset_index()
    estimates = {"value": float(fit.predict(**numbers_of(at, "--at")))} if at else fit.params
    head = "the runs, by their rows, that move it most when left out"
    if groups:
        head = f"the groups, by their {found.index.name}, that move it most when left out"
    record = {"law": fit.law.name, **_rows({"influence": table})}
    say = partial(_say, fit, head, [_most(found, estimates)])
    conclude(record, fit.notes, table, say, out, as_json)


@opt.reads_runs
def identifiability_command(
    law: opt.LawOrFit,
    data: opt.Data,
    groups: opt.Groups = None,
    out: opt.Out = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Which combinations of parameters the data leave open, and what to do about it.

    Example: jaxlaw identifiability chinchilla runs.csv -c N=n_params -c D=n_tokens
    """
    check_out(out)
    fit, runs = _fitted(law, data, reading)
    found = jl.identifiability(fit, runs, groups=opt.columns_named(groups))
    advice = [text for text in found["advice"] if text]
    advice = advice or ["the data determine every combination to 25 % or better"]
    head = "standard errors of combinations of parameters, relative; the loosest first"
    record = {"law": fit.law.name, **_rows({"directions": found})}
    say = partial(_say, fit, head, [_directions(found)], advice)
    conclude(record, fit.notes, found, say, out, as_json)


def _fitted(law: str, data: str, reading: dict[str, Any]) -> tuple[jl.Fit, jl.Runs]:
    """The fit that a file holds, or one of these runs; and the runs."""
    fit, runs = law_or_fit(law), jl.read_runs(data, **reading)
    return fit if isinstance(fit, jl.Fit) else jl.fit(fit, runs), runs


def _most(found: pd.DataFrame, estimates: dict[str, float]) -> pd.DataFrame:
    """Of every number asked for, the rows that move it most."""
    lines = []
    for name, change in found.items():
        largest = change.abs().nlargest(_NAMED).index
        shown = "   ".join(f"{row}: {change[row]:+.2e}" for row in largest)
        said = f"{found.index.name}: change"
        lines.append({"of": name, "estimate": estimates[name], said: shown})
    return pd.DataFrame(lines)


def _directions(found: pd.DataFrame) -> pd.DataFrame:
    """What each direction is mainly made of."""
    lines = []
    for _, row in found.iterrows():
        moves = row.drop(["std_err", "advice"]).astype(float)
        largest = moves.abs().nlargest(_NAMED).index
        shown = "   ".join(f"{name} {moves[name]:+.2g}" for name in largest)
        lines.append({"std_err": row["std_err"], "mainly": shown})
    return pd.DataFrame(lines)


def _rows(tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    return {name: table.to_dict("records") for name, table in tables.items()}


def _say(
    fit: jl.Fit, head: str, tables: Iterable[pd.DataFrame], advice: Iterable[str] = ()
) -> None:
    print(f"{fit.law.name}: {fit.law.formula}")
    print(head)
    for table in tables:
        print_frame(table)
    for line in advice:
        print_wrapped(f"  {line}")
