"""The commands about the uncertainty of a fit; needs typer, which is an extra."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw._json import write_atomic
from jaxlaw.cli import _options as opt
from jaxlaw.cli._curves import reads_curves, runs_along
from jaxlaw.cli._inputs import law_or_fit, loaded
from jaxlaw.cli._options import combinations, numbers_of
from jaxlaw.cli._output import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    conclude,
    print_frame,
    print_notes,
    print_wrapped,
)
from jaxlaw.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from jaxlaw.uncertainty import Covariance, Profile

_NAMED = 3  # runs, or parameters, that a line names

SameNoise = Annotated[
    bool, typer.Option("--same-noise", help="Take the noise to be the same for all rows.")
]
OneAt = Annotated[
    list[str] | None, typer.Option(help="Input of the prediction that is meant: N=7e9; repeatable.")
]


@opt.works_long
@opt.sets_objective
@opt.reads_runs
@reads_curves
def bootstrap_command(
    law: opt.LawOrFit,
    data: opt.Data,
    n: Annotated[int, typer.Option("-n", "--resamples", min=2, help="Resamples.")] = 1000,
    kind: Annotated[
        str,
        typer.Option(
            help="case, residual or wild.",
            autocompletion=opt.completed(("case", "residual", "wild")),
        ),
    ] = "case",
    groups: opt.Groups = None,
    base: Annotated[
        Path | None,
        typer.Option(
            help="cpt-chinchilla: a from-scratch fit, or its bootstrap (--draws x.json), each "
            "resample then holding its own E, A and alpha."
        ),
    ] = None,
    level: opt.Level = 0.95,
    method: Annotated[
        str,
        typer.Option(
            help="percentile, basic, normal or bca.",
            autocompletion=opt.completed(("percentile", "basic", "normal", "bca")),
        ),
    ] = "percentile",
    at: opt.PredictAt = None,
    n_starts: Annotated[int, typer.Option(min=1, help="Starts of a resample.")] = 64,
    n_local: opt.Local = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    draws: Annotated[
        Path | None,
        typer.Option(
            help="Write every resample's fit: a table (CSV), or with fit and notes what "
            "`jaxlaw plan` takes in place of a fit (JSON)."
        ),
    ] = None,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    along: dict[str, Any],
    reading: dict[str, Any],
    objective: dict[str, Any],
    working: dict[str, Any],
) -> None:
    """Intervals by fits to resampled runs.

    Example: jaxlaw bootstrap chinchilla runs.csv -c N=n_params -c D=n_tokens --at N=7e9 --at D=1e12
    """
    check_out(out, JSON, CSV, PICTURE)
    check_out(draws, CSV, JSON, option="--draws")
    points = combinations(at, "--at")
    fitted = law_or_fit(law)
    runs, read = runs_along(data, along, reading, fitted)
    result = jl.bootstrap(
        fitted, runs, n, kind=kind, groups=opt.columns_named(groups), seed=seed,
        base=loaded(base, "fit", "bootstrap") if base else None,
        n_starts=n_starts, n_local=n_local, **read, **objective, **working,
    )  # fmt: skip
    if opt.is_silent(working):
        return
    _show(result, level, method, points, draws, out, as_json)


def _show(
    boot: jl.Bootstrap, level: float, method: Any, points: dict[str, np.ndarray],
    draws: Path | None, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    tables = {"parameters": boot.conf_int(level, method)}
    if points:
        tables["predictions"] = boot.prediction(points, confidence_level=level, method=method)
    record = {
        "law": boot.fit.law.name,
        "kind": boot.kind,
        "resamples": len(boot),
        "resampled": boot.n_groups,
        "groups": None if boot.groups is None else list(boot.groups),
        "level": level,
        "method": method,
        "units": boot.fit.quantity_units | boot.fit.input_units(),
        **{name: table.to_dict("records") for name, table in tables.items()},
    }
    if draws is not None:
        if draws.suffix.lower() == ".json":
            boot.draws().save(draws)
        else:
            write_atomic(draws, lambda path: _table(boot).to_csv(path, index=False))

    show = partial(_say, boot, boot.sentence(level, method), tables)

    def draw(plots: Any) -> Any:
        return plots.parameter_intervals(tables["parameters"], level=level)

    conclude(record, boot, tables["parameters"], show, out, as_json, draw)


def _table(boot: jl.Bootstrap) -> pd.DataFrame:
    """The draws with how they were drawn, in every row: a table has no other place for it."""
    groups = ",".join(boot.groups or ())
    return boot.table.assign(kind=boot.kind, groups=groups, degrees=boot.degrees)


@opt.reads_runs
@reads_curves
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
    along: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Standard errors and intervals without resampling.

    They come of the sandwich covariance.

    Example: jaxlaw covariance fit.json runs.csv --groups N,r --at N=7e9 --at D=1e12
    """
    check_out(out, JSON, CSV, PICTURE)
    points = combinations(at, "--at")
    fitted = law_or_fit(law)
    runs, read = runs_along(data, along, reading, fitted)
    result = jl.covariance(
        fitted, runs, groups=opt.columns_named(groups), robust=not same_noise, **read
    )
    tables = {"parameters": result.conf_int(level)}
    if points:
        tables["predictions"] = result.prediction(points, confidence_level=level)
    matrix = {name: dict(column) for name, column in result.matrix.items()}
    record = {"law": result.fit.law.name, "level": level, **_rows(tables), "covariance": matrix}
    record["units"] = result.fit.quantity_units | result.fit.input_units()
    show = partial(_say, result, result.sentence(level), tables)
    draw = lambda plots: plots.parameter_intervals(result, level=level)  # noqa: E731
    conclude(record, result, tables["parameters"], show, out, as_json, draw)


@opt.reads_runs
@reads_curves
def profile_command(
    law: opt.LawOrFit,
    data: opt.Data,
    parameter: Annotated[str | None, typer.Option(help="Parameter to profile: alpha.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="Point, as for predict, whose prediction is profiled; beside --parameter: whose "
            "prediction is followed."
        ),
    ] = None,
    groups: opt.Groups = None,
    same_noise: SameNoise = False,
    level: opt.Level = 0.95,
    out: opt.OutOrPicture = None,
    as_json: opt.Json = False,
    *,
    along: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """The interval of one parameter or prediction, by refits.

    Each refit holds it at another value.

    Example: jaxlaw profile fit.json runs.csv --parameter alpha
    """
    check_out(out, JSON, CSV, PICTURE)
    if parameter is None and not at:
        raise UsageError("say what to profile: --parameter NAME, or --at NAME=VALUE for each input")
    fitted = law_or_fit(law)
    runs, read = runs_along(data, along, reading, fitted)
    result = jl.profile(
        fitted, runs, parameter or numbers_of(at, "--at"),
        at=numbers_of(at, "--at") if parameter and at else None,
        groups=opt.columns_named(groups), robust=not same_noise, level=level, **read,
    )  # fmt: skip
    import pandas as pd

    from jaxlaw.uncertainty import COLUMNS

    bounds = dict(zip(COLUMNS, map(float, result.interval()), strict=True))
    interval = pd.DataFrame([{"quantity": result.quantity, **bounds}])
    tables = {"interval": interval, "profile": result.table}
    units = {name: result.unit_of("estimate") for name in ("value", *COLUMNS)}
    record = {"law": result.fit.law.name, "level": level, **_rows(tables), "units": units}
    show = partial(_say, result, result.headline, {})
    draw, file = (lambda _: result.plot()), result.file_record()
    conclude(record, result, result.table, show, out, as_json, draw, file)


@opt.reads_runs
@reads_curves
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
    along: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """How far results move when a run is left out.

    Results are the parameters, or a prediction.

    Example: jaxlaw influence fit.json runs.csv --at N=7e9 --at D=1e12 --out influence.csv
    """
    check_out(out)
    fit, runs = _fitted(law, data, along, reading)
    result = jl.influence(
        fit, runs, numbers_of(at, "--at") or None, groups=opt.columns_named(groups), refits=refits
    )
    table = result.reset_index()
    estimates = {"value": float(fit.predict(**numbers_of(at, "--at")))} if at else fit.params
    head = _most_moved(result, estimates, "row")
    if groups:
        head = _most_moved(result, estimates, str(result.index.name))
    record = {"law": fit.law.name, **_rows({"influence": table})}
    show = partial(_say_rows, head, _most(result, estimates), fit)
    conclude(record, fit, table, show, out, as_json)


@opt.reads_runs
@reads_curves
def identifiability_command(
    law: opt.LawOrFit,
    data: opt.Data,
    groups: opt.Groups = None,
    out: opt.Out = None,
    as_json: opt.Json = False,
    *,
    along: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Which parameters the data leave open, and what helps.

    Example: jaxlaw identifiability chinchilla runs.csv -c N=n_params -c D=n_tokens
    """
    check_out(out)
    fit, runs = _fitted(law, data, along, reading)
    result = jl.identifiability(fit, runs, groups=opt.columns_named(groups))
    advice = [text for text in result["advice"] if text]
    head = advice.pop(0) if advice else "the data determine every combination to 25 % or better"
    head = f"{fit.law.name}: {head}"
    record = {"law": fit.law.name, **_rows({"directions": result})}
    show = partial(_say_rows, head, _directions(result), fit, advice)
    conclude(record, fit, result, show, out, as_json)


def _fitted(
    law: str, data: str, along: dict[str, Any], reading: dict[str, Any]
) -> tuple[jl.Fit, jl.Runs]:
    """The fit that a file holds, or one of these runs; and the runs."""
    fit = law_or_fit(law)
    runs, read = runs_along(data, along, reading, fit)
    runs = jl.read_runs(runs, **read) if read else runs
    return fit if isinstance(fit, jl.Fit) else jl.fit(fit, runs), runs


def _most_moved(changes: pd.DataFrame, estimates: dict[str, float], what: str) -> str:
    """The row without which a number moves most, relative to it."""
    relative = {name: (change / estimates[name]).abs() for name, change in changes.items()}
    name = max(relative, key=lambda name: relative[name].max())
    row = relative[name].idxmax()
    moved = changes[name][row] / estimates[name]
    of = "the prediction" if name == "value" else name
    return f"{of} moves most, by {moved:+.2%}, without {what} {row}"


def _most(changes: pd.DataFrame, estimates: dict[str, float]) -> pd.DataFrame:
    """Of every number that is reported, the rows that change it most."""
    import pandas as pd

    lines = []
    for name, change in changes.items():
        largest = change.abs().nlargest(_NAMED).index
        shown = "   ".join(f"{row}: {change[row]:+.2e}" for row in largest)
        title = f"{changes.index.name}: change"
        lines.append({"of": name, "estimate": estimates[name], title: shown})
    return pd.DataFrame(lines)


def _directions(table: pd.DataFrame) -> pd.DataFrame:
    """What each direction is mainly made of."""
    import pandas as pd

    lines = []
    for _, row in table.iterrows():
        moves = row.drop(["std_err", "advice"]).astype(float)
        largest = moves.abs().nlargest(_NAMED).index
        shown = "   ".join(f"{name} {moves[name]:+.2g}" for name in largest)
        lines.append({"std_err": row["std_err"], "mainly": shown})
    return pd.DataFrame(lines)


def _rows(tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    return {name: table.to_dict("records") for name, table in tables.items()}


def _say(
    result: jl.Bootstrap | Covariance | Profile, sentence: str, tables: dict[str, pd.DataFrame]
) -> None:
    """A sentence, intervals with their units, and notes."""
    from jaxlaw._result import readable
    from jaxlaw.uncertainty import COLUMNS, with_units

    fit = result.fit
    units = {**fit.input_units(), **dict.fromkeys(COLUMNS, (fit.target_unit, 1.0))}
    print("\n".join(result.opening(sentence)))
    for name, table in tables.items():
        parameters = name == "parameters"
        print_frame(with_units(fit, table) if parameters else readable(table, units.get))
    print_notes(result.notes)


def _say_rows(head: str, table: pd.DataFrame, fit: jl.Fit, advice: Iterable[str] = ()) -> None:
    """A sentence, what to do about the fit, a table and advice; the notes of the fit."""
    print("\n".join(fit.opening(head)))
    print_frame(table)
    for line in advice:
        print_wrapped(f"  {line}")
    print_notes(fit.notes)
