"""The command about reports; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw._json import write_whole
from jaxlaw.cli import _curves as curves
from jaxlaw.cli import _options as opt
from jaxlaw.cli._inputs import loaded, runs_as_fitted, with_draws
from jaxlaw.cli._options import inputs_at
from jaxlaw.cli._output import (
    HTML,
    check_out,
    print_json,
)
from jaxlaw.errors import UsageError


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
        typer.Option(help="Draws that `jaxlaw bootstrap --draws` wrote: intervals from them."),
    ] = None,
    groups: opt.Groups = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="A parameter whose profile to draw, from --data; repeatable."),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
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
    write_whole(out, lambda path: path.write_text(text, "utf-8"))
    if as_json:
        print_json({"report": str(out), "bytes": len(text.encode()), "of": type(source).__name__})
    else:
        print(f"report: {out}")


def _profiles(
    fit: jl.Fit, runs: Any, names: list[str], groups: str | None
) -> list[jl.uncertainty.Profile]:
    """The profiles asked for, of runs or curves."""
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
    """The plans asked for."""
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
