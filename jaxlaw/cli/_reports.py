"""The commands that show a saved result: a picture of it, a page of it; needs typer, an extra."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import jaxlaw as jl
from jaxlaw._json import write_atomic
from jaxlaw.cli import _curves as curves
from jaxlaw.cli import _options as opt
from jaxlaw.cli._inputs import loaded, runs_as_fitted, with_draws
from jaxlaw.cli._options import inputs_at
from jaxlaw.cli._output import (
    HTML,
    PICTURE,
    check_out,
    print_json,
    print_table,
    write_picture,
)
from jaxlaw.errors import DataError, UsageError, nearest

_FIRST = ("N", "D", "C", "Dp", "r")  # inputs to draw a law along, where none is named
_DATA = ("runs", "observed")  # arguments of pictures that are data
_ALONE = "loss_over_input"  # which draws a law without runs, too


@opt.reads_runs
@curves.reads_curves
def plot_command(
    result: Annotated[
        str,
        opt.fit_argument("What a command wrote with --out: a fit, draws, a study, a plan (JSON)."),
    ],
    data: Annotated[
        str | None, typer.Argument(help="The data, for pictures that show runs; - for stdin.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Which picture, of those that --kind list names; its own if left out."),
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="Inputs that are held: N=7e9; repeatable.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Option of the picture: along=D, metric=r2, computes=1e20:1e24, "
            "over=lr=1e-4:1e-2,batch=100K:10M; repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where the picture goes (PNG, PDF, SVG).")
    ] = Path("plot.png"),
    as_json: opt.Json = False,
    *,
    along: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Draw a saved result.

    Example: jaxlaw plot fit.json runs.csv --out fit.png
    """
    check_out(out, PICTURE)
    source = _saved(result)
    kinds = _kinds(source)
    if kind == "list":
        needs = {name: _needs(name) for name in kinds}
        print_json(needs) if as_json else print_table(["picture", "needs"], needs.items())
        return
    chosen = _chosen(source, kinds, kind, data is not None)
    options = {name: _value(text) for name, text in opt.pairs(option, "--option").items()}
    options |= {"at": inputs_at(at)} if at else {}
    runs = None
    if data is not None and along:
        runs = curves.curves_as_fitted(source, data, along, reading)
    elif data is not None:
        runs = runs_as_fitted(source, data, reading)
    if chosen == "plan":
        write_picture(out, lambda _: source.plot(**options))
    else:
        write_picture(out, lambda plots: _draw(getattr(plots, chosen), source, runs, options))
    if as_json:
        print_json({"picture": str(out), "kind": chosen})
    else:
        print(f"picture: {out}")


class _Intervals(NamedTuple):
    """What `bootstrap --out` and `covariance --out` write: intervals of parameters at one level."""

    file: str
    level: float
    table: Any
    picture: str = "parameter_intervals"

    def conf_int(self, level: float) -> Any:
        if level != self.level:
            raise UsageError(
                f"{self.file} holds intervals of {self.level:.0%}, not {level:.0%}; of what "
                "`jaxlaw bootstrap --draws x.json` writes any are drawn"
            )
        return self.table

    def kind_of_record(self) -> str:
        return "table of intervals"


def _saved(file: str) -> Any:
    """The result of a file; of numbers that a command printed as JSON the intervals alone."""
    try:
        return loaded(file)
    except DataError as error:
        if file != "-" and (record := _printed(file)):
            import pandas as pd

            return _Intervals(file, record["level"], pd.DataFrame(record["parameters"]))
        raise DataError(
            f"{error}; of the numbers that commands print alone there is no picture, but some "
            "draw them themselves, by --out x.png"
        ) from None


def _printed(file: str) -> dict[str, Any] | None:
    """The record of a command about intervals; None of anything else."""
    try:
        record = json.loads(Path(file).read_text("utf-8"))
    except ValueError:
        return None
    known = isinstance(record, dict) and record.keys() >= {"law", "level", "parameters", "notes"}
    return record if known else None


def _kinds(result: Any) -> list[str]:
    """Names of the pictures that draw a result, its own first: by what their first argument is."""
    plots, own = _plots(), [result.picture] if result.picture else []
    own += ["plan"] * _draws_itself(result)
    names = {one.__name__ for one in type(result).__mro__} - {"Result", "Answer", "AnswerTable"}
    for name in plots.__all__:
        first, *others = _parameters(getattr(plots, name))
        of_fits = first.name == "fit" and isinstance(result, jl.FittedLaw)
        # Of runs, beside which it draws a law where there is one.
        beside = first.name == "runs" and "fit" in {one.name for one in others}
        of_fits |= beside and isinstance(result, jl.FittedLaw | jl.uncertainty.Draws | jl.Forecast)
        if of_fits or names & set(str(first.annotation).split(" | ")):
            own.append(name)
    return list(dict.fromkeys(own))


def _draws_itself(result: Any) -> bool:
    """Whether ``result.plot()`` knows more than a function of its own first argument."""
    if isinstance(result, jl.FittedLaw) or result.picture:
        return False
    from jaxlaw._result import Result  # it imports JAX, which help is not to wait for

    return getattr(result, "question", ()) is not None and type(result).plot is not Result.plot


def _plots() -> Any:
    """The module of pictures, which needs matplotlib on import or for the first of its names."""
    try:
        from jaxlaw import plots

        getattr(plots, plots.__all__[0])
    except ModuleNotFoundError as missing:
        raise UsageError(str(missing)) from None
    return plots


def _needs(kind: str) -> str:
    """What a picture needs beside the result, in words."""
    if kind == "plan":
        return ""
    needed = {name for name in _required(getattr(_plots(), kind)) if name != "along"}
    data = ["the data"] if needed & set(_DATA) and kind != _ALONE else []
    return ", ".join([*data, *(f"--option {name}=…" for name in sorted(needed - set(_DATA)))])


def _required(draw: Any) -> list[str]:
    """Arguments without a default, the result apart."""
    return [
        one.name
        for one in _parameters(draw)[1:]
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]


def _parameters(draw: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(draw).parameters.values())


def _chosen(result: Any, kinds: list[str], kind: str | None, with_data: bool) -> str:
    """The picture that is drawn; of a fit without one of its own its runs, or the law alone."""
    named = result.kind_of_record()
    if not kinds:
        raise UsageError(
            f"there is no picture of a saved {named} alone; the command that made it may draw it, "
            "by --out x.png"
        )
    if kind is None:
        of_fits = "observed_against_predicted" if with_data else _ALONE
        return of_fits if not result.picture and of_fits in kinds else kinds[0]
    found = kind.replace("-", "_")
    if found not in kinds:
        raise UsageError(
            f"there is no picture '{kind}' of a {named}; there are: {', '.join(kinds)}."
            f"{nearest(found, kinds)}"
        )
    return found


def _draw(draw: Any, result: Any, data: Any, options: dict[str, Any]) -> Any:
    """Draw a result with the data, where there are any, and the options that the picture takes."""
    if _parameters(draw)[0].name == "runs":
        return draw(data, fit=result, **options)
    leveled = isinstance(result, _Intervals | jl.uncertainty.Profile)
    own = {"level": result.level} if leveled else {}
    given, required = own | _with_data(draw, data) | options, _required(draw)
    if "along" in required:
        inputs = sorted(result.law.input_names, key=lambda name: (*_FIRST, name).index(name))
        given = {"along": inputs[0], **given}
    if missing := [f"--option {name}=…" for name in required if name not in given]:
        raise UsageError(f"the picture {draw.__name__} needs {' and '.join(missing)}")
    return draw(result, **given)


def _with_data(draw: Any, data: Any) -> dict[str, Any]:
    """The data under the name that a picture has for them."""
    takes = [one.name for one in _parameters(draw)[1:] if one.name in _DATA]
    if data is not None and not takes:
        raise UsageError(f"the picture {draw.__name__} shows no data: leave the file out")
    needs = data is None and takes and takes[0] in _required(draw)
    if needs and draw.__name__ != _ALONE:
        raise UsageError(f"the picture {draw.__name__} needs the data: jaxlaw plot RESULT DATA")
    return {takes[0]: data} if needs or data is not None else {}


def _value(text: str) -> Any:
    """A number, two of them (LOW:HIGH), true or false, ranges of inputs, or a word."""
    if text in ("true", "false"):
        return text == "true"
    if "=" in text:
        return opt.searched_in([text], "--option")
    try:
        numbers = tuple(float(part) for part in text.split(":"))
    except ValueError:
        return text
    return numbers if len(numbers) > 1 else numbers[0]


@opt.reads_runs
@curves.reads_curves
def report_command(
    result: Annotated[
        Path,
        typer.Argument(
            metavar="FIT|STUDY|FORECAST",
            help="What `jaxlaw fit --out`, `jaxlaw study --out` or `jaxlaw forecast --out` wrote.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page goes.")] = Path(
        "report.html"
    ),
    data: Annotated[
        str | None, typer.Option(help="The data of the fit: pictures and intervals from them.")
    ] = None,
    bootstrap: Annotated[
        Path | None,
        typer.Option(help="What `jaxlaw bootstrap --draws` wrote (JSON or CSV): intervals."),
    ] = None,
    groups: opt.Groups = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="A parameter whose profile to draw, from --data; repeatable."),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(help="Confidence level of all intervals; else a forecast's own, or 0.95."),
    ] = None,
    compute: Annotated[
        float | None, typer.Option(help="FLOPs: the best size and data for them, as a plan.")
    ] = None,
    general: Annotated[
        Path | None,
        typer.Option(help="Fit of the general loss beside one of a domain, for the best mixture."),
    ] = None,
    start: Annotated[
        float | None, typer.Option(help="With --general: its loss before the training.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="With --general: how far it may rise, relative.")
    ] = 0.03,
    at: Annotated[
        list[str] | None, typer.Option(help="The plans' other inputs: N=1.8e9; repeatable.")
    ] = None,
    forecast: Annotated[
        list[Path] | None,
        typer.Option(help="A forecast (JSON) to show beside a fit; repeatable."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    as_json: opt.Json = False,
    *,
    along: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Write a result as one page of HTML that stands alone.

    Example: jaxlaw report fit.json --data runs.csv -c N=n_params --compute 1e21 -o report.html
    """
    check_out(out, HTML)
    if data is None and (any(reading.values()) or along):
        raise UsageError("options say how data are read, and there are none: --data FILE")
    if result.suffix.lower() == ".csv":
        raise UsageError(
            f"{result}: a table has no laws; write the study as JSON: --out study.json"
        )
    # The kind of the file decides which options make sense; the others are refused, since a page
    # without what an option should have put on it would look complete.
    source = loaded(result, "fit", "study", "bootstrap", "forecast")
    level = getattr(source, "level", 0.95) if level is None else level
    options: dict[str, Any] = {"level": level, "title": title}
    if isinstance(source, jl.Study):
        if (data, bootstrap, groups, compute, general, profile, forecast) != (None,) * 7:
            raise UsageError(
                "--data, --bootstrap, --groups, --profile, --compute, --general and --forecast "
                "belong to a fit's report"
            )
    elif isinstance(source, jl.Forecast):
        if (data, bootstrap, groups, profile, forecast) != (None,) * 5:
            raise UsageError(
                "--data, --bootstrap, --groups, --profile and --forecast belong to a fit's report; "
                "a forecast has its runs and intervals itself"
            )
        options["plans"] = _plans(source, compute, general, start, threshold, at, level)
    else:
        drawn = source if bootstrap is None else with_draws(result, source, bootstrap)
        options["plans"] = _plans(drawn, compute, general, start, threshold, at, level)
        if isinstance(drawn, jl.uncertainty.Draws):
            source, options["intervals"] = drawn.fit, drawn
        if data is not None and along:
            options["runs"] = curves.curves_as_fitted(source, data, along, reading)
        elif data is not None:
            options["runs"] = runs_as_fitted(source, data, reading)
        if groups is not None and (data is None or "intervals" in options):
            raise UsageError(
                "--groups is for intervals from --data; draws were grouped, or not, when they "
                "were made: jaxlaw bootstrap --groups"
            )
        options["forecasts"] = [loaded(file, "forecast") for file in forecast or []]
        options["groups"] = opt.columns_named(groups)
        options["profiles"] = _profiles(source, options.get("runs"), profile or [], groups)
    text = jl.report(source, **options)
    write_atomic(out, lambda path: path.write_text(text, "utf-8"))
    if as_json:
        print_json({"report": str(out), "bytes": len(text.encode()), "of": type(source).__name__})
    else:
        print(f"report: {out}")


def _profiles(
    fit: jl.Fit, runs: Any, names: list[str], groups: str | None
) -> list[jl.uncertainty.Profile]:
    """The profiles that --profile names, of runs or curves."""
    if names and runs is None:
        raise UsageError("--profile needs the data of the fit: --data FILE")
    if isinstance(runs, jl.LossCurves) and fit.area_options is not None:
        runs = runs.runs(**fit.area_options)
    by = opt.columns_named(groups)
    return [jl.profile(fit, runs, name, groups=by) for name in names]


def _plans(
    source: Any, compute: float | None, general: Path | None, start: float | None,
    threshold: float, at: list[str] | None, level: float,
) -> list[Any]:  # fmt: skip
    """The plans that the command names."""
    inputs, plans = inputs_at(at), []
    if inputs and compute is None and general is None:
        raise UsageError("--at is for a plan: --compute, or --general with --start")
    if (general is None) != (start is None):
        raise UsageError("the best mixture needs both --general FIT and --start LOSS")
    if compute is not None:
        spent = {name: value for name, value in inputs.items() if name not in ("N", "D")}
        plans.append(jl.planning.allocation(source, compute, level=level, at=spent))
    if general is not None:
        others = {name: value for name, value in inputs.items() if name != "r"}
        other = loaded(general, "fit", "bootstrap")
        if isinstance(source, jl.uncertainty.Draws):  # draws of one corpus alone are no pairs
            source = source.fit
        plans.append(
            jl.planning.optimal_mixture(
                other, source, start=start, threshold=threshold, level=level, at=others
            )
        )
    return plans
