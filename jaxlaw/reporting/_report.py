"""A fit, a study or a forecast as one self-contained HTML page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw import plots
from jaxlaw._arrays import LEVEL
from jaxlaw._json import write_atomic
from jaxlaw._result import Result
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw._version import __version__
from jaxlaw.data import AREAS, LossCurves, ReadingOptions, Runs, without_dependence_note
from jaxlaw.errors import UsageError
from jaxlaw.fitting import Fit, FittedLaw, runs_of
from jaxlaw.forecasting import Forecast
from jaxlaw.notes import Note
from jaxlaw.reporting._explorer import explorer
from jaxlaw.reporting._html import (
    Html,
    Section,
    element,
    folded,
    inner,
    note_list,
    pairs,
    table,
    whole_page,
)
from jaxlaw.uncertainty import COLUMNS, Bootstrap, Covariance, Draws, has_draws, profile_interval
from jaxlaw.validation import Study

_ROWS = 400  # of a table: a study has thousands of folds
_FEW = 12  # rows of a table that is not folded
_ALONG = ("N", "D", "C", "Dp", "r")  # inputs to draw a law along: areas mean little to the eye
_STEPS = 400  # of a curve that is drawn
_SIZE = (5.0, 3.6)  # inches; with letters of 11 points readable on a telephone
_FONTS = "'DejaVu Sans', Verdana, sans-serif"
_CAN_DRAW = find_spec("matplotlib") is not None  # an extra: a page without it has no figures


@checked
def report(
    result: FittedLaw | Study | Forecast,
    out: str | Path | None = None,
    *,
    runs: Any = None,
    intervals: Bootstrap | Covariance | Draws | None = None,
    plans: Sequence[Result] = (),
    level: ConfidenceLevel | None = None,
    title: str | None = None,
    **reading: Unpack[ReadingOptions],
) -> str:
    """A fit, a study or a forecast as one self-contained HTML page.

    It opens with what was asked for (plans, forecasts, else the fit): in one sentence each, with a
    picture and a table of intervals; the evidence follows, and what
    few look at is folded. Nothing in it is fetched, and it runs no script but its own.

    Args:
        result: :class:`jaxlaw.FittedLaw`, :class:`jaxlaw.Fit`, :class:`jaxlaw.Study` or
            :class:`jaxlaw.Forecast`.
        out: file to write; None writes none.
        runs: runs that a fit was made from, as :func:`jaxlaw.read_runs` takes or returns them,
            for figures with data. Of a fit to loss curves, the :class:`jaxlaw.LossCurves`.
        intervals: what the parameters' intervals come from in place of the fit's own standard
            errors: a :class:`jaxlaw.Bootstrap`, a :class:`jaxlaw.uncertainty.Covariance` or draws.
        plans: answers to show first: plans, such as :func:`jaxlaw.planning.allocation` gives,
            forecasts, and profiles.
        level: confidence level of all intervals on the page; None takes that of the plans, or of
            the forecast that is reported, else 0.9. Forecasts and profiles are restated at it.
        title: title of the page; says law and source if None.
        **reading: options of :func:`jaxlaw.read_runs`.

    Returns:
        The page. Numbers are those of ``summary()`` and ``save``.

    Raises:
        UsageError: the call makes no sense, plans have intervals of another level, or these are
            not the runs of the fit.
        DataError: the runs cannot be read.

    Example:
        >>> page = jl.report(jl.published()["hoffmann-2022"])
        >>> page.startswith("<!DOCTYPE html>")
        True
    """
    # Of those with intervals, which can be stated at another level of forecasts and profiles alone.
    fixed = [one for one in plans if not isinstance(one, Forecast) and one.kind_name != "profile"]
    levels = sorted({one.level for one in fixed if getattr(one, "interval", None)})
    if level is None:
        level = (levels or [getattr(result, "level", LEVEL)])[0]
    if others := [other for other in levels if other != level]:
        raise UsageError(
            f"the page has intervals of {level:.0%}, a plan of {others[0]:.0%}: make all plans "
            f"with level={level:g}, and give it here"
        )
    plans = [_restated(plan, level) for plan in plans]
    if not isinstance(result, FittedLaw) and (runs is not None or intervals is not None or reading):
        raise UsageError("runs and intervals belong to a fit; a study or a forecast has its own")
    result = _restated(result, level)
    read = None if runs is None else runs_of(result, runs, reading)
    asked, notes = [result, *plans], list(result.notes)
    if isinstance(result, Study):
        lead = f"Fitted on parts of the runs, scored on the rest: {result.lines()[0]}"
        heading, sections = f"A study of {', '.join(result.laws)}", _study(result)
    elif isinstance(result, Forecast):
        lead = (
            f"{level:.0%} intervals for a new run, from {len(result.observed)} runs of "
            f"{result.source}; made {result.created}"
        )
        heading, sections = f"{result.target.capitalize()} of new runs", _forecast(result)
    else:
        heading = f"{result.law.name}: a scaling law of {result.source or 'runs'}"
        origin = result.origin()
        lead = f"{origin[0].upper()}{origin[1:]}"
        curves = runs if isinstance(runs, LossCurves) else None
        notes, sections = _fit(result, read, curves, intervals, plans, level)
        asked = plans or [result]
    answers = []
    for k, plan in enumerate(plans, 1):
        name = plan.kind_name.capitalize() + f" ({k})" * (len(plans) > 1)
        answers.append(Section(name, [*_picture(plan, read), *_shown(plan)]))
    known = [note_list(notes) if notes else element("p", "No warnings.")]
    # A study's ranking and a forecast's points are what was asked for.
    at = 0 if isinstance(result, FittedLaw) else 1
    sections[at:at] = [*answers, Section("Caveats", known)]
    opening = []
    for one in asked:
        opening.append(element("p", one.headline, class_="headline"))
        if one.next_step:
            opening.append(element("p", f"Next: {one.next_step}", class_="next"))
    if grave := [note for note in notes if note.severity == "error"]:
        opening.append(note_list(grave))
    made_by = f"Made by jaxlaw {__version__}."
    if not _CAN_DRAW:
        made_by += " Figures need matplotlib: pip install 'jaxlaw[plot]'."
    text = whole_page(title or heading, lead, inner(opening), sections, made_by)
    if out is not None:
        write_atomic(out, lambda file: file.write_text(text, "utf-8"))
    return text


def _restated(result, level: float):
    """A result with its intervals at another level, where it can be stated there."""
    if result.kind_name == "profile":
        low, high = profile_interval(result, level)
        own = replace(result.quantities[result.quantity], low=low, high=high)
        return replace(result, level=level, quantities={**result.quantities, result.quantity: own})
    if isinstance(result, Forecast) and result.level != level:
        low, high = result.interval(level)
        return replace(result, level=level, table=result.table.assign(low=low, high=high))
    return result


# What every page has


def _shown(result: Result) -> list:
    """Numbers with their intervals, words, tables, notes."""
    parts = []
    if numbers := result.quantities:
        rows = [(name.replace("_", " "), one.number, one.interval) for name, one in numbers.items()]
        head = ("quantity", "value", f"{getattr(result, 'level', LEVEL):.0%} interval")
        parts.append(table(head, rows, "With their units"))
    facts = getattr(result, "facts", {}).items()
    if words := [(n.replace("_", " "), one) for n, one in facts if one and isinstance(one, str)]:
        parts.append(pairs(words, "In words"))
    parts += [_frame(result, frame, name.capitalize()) for name, frame in result.shown().items()]
    return [*parts, *([note_list(result.notes)] if result.notes else [])]


def _frame(result: Result, frame: pd.DataFrame, caption: str) -> Html:
    """A table of a result, folded where it is long."""
    shown = result.readable(frame.head(_ROWS))
    if len(shown) < len(frame):
        caption += f": the first {len(shown)} of {len(frame)}; the rest is in what was saved"
    head = [str(name).replace("_", " ") for name in shown]
    whole = table(head, shown.itertuples(index=False), caption)
    return folded(f"{caption}: {len(shown)} rows", whole) if len(frame) > _FEW else whole


def _figure(
    draw: Callable[[Any], Any], alt: str, caption: str, rows: int | None = None
) -> list[Html]:
    """A figure as SVG, with its caption; none without matplotlib.

    Args:
        draw: function that draws on Axes.
        alt: text that says what it shows, for those who do not see it.
        caption: caption below it.
        rows: number of rows of the figure, one below the other; a few need less room.
    """
    if not _CAN_DRAW:
        return []
    import matplotlib
    from matplotlib.figure import Figure

    width, height = _SIZE
    height = height if rows is None else min(height, 1.0 + 0.4 * rows)
    drawn, text = Figure(figsize=(width, height), layout="constrained"), io.StringIO()
    # Names of clips and markers must differ between the figures of a page, not between runs.
    settings = {"svg.fonttype": "none", "svg.hashsalt": caption, "font.size": 11}
    with matplotlib.rc_context(settings):
        draw(drawn.subplots())
        drawn.savefig(
            text, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None}
        )
    # As part of a page: no prolog, no metadata, no size of its own.
    svg = re.sub(r"<metadata>.*?</metadata>", "", text.getvalue(), flags=re.DOTALL)
    start, _, rest = svg[svg.index("<svg") :].partition(">")
    box = re.search(r'viewBox="[\d. -]+"', start)[0]
    label = element("svg", role="img", aria_label=alt).removesuffix("></svg>")
    rest = re.sub(r"'DejaVu Sans'[^;\"]*", _FONTS, rest)
    caption = element("figcaption", caption)
    return [element("figure", Html(f"{label} {box}>{rest}"), caption, class_="plot")]


def _picture(result, runs: Runs | None = None) -> list[Html]:
    """The picture of a result, if it has one; that of a mixture with runs of both losses."""
    if not _CAN_DRAW or not result.picture:  # whose look-up needs matplotlib, too
        return []
    alt = f"{result.headline}. The numbers are in the tables."
    draw = result.plot
    if runs and result.kind_name == "mixture" and {"loss_d", "loss_g"} <= {*runs.table}:
        draw = partial(draw, runs=runs)
    drawn = _figure(draw, alt, result.kind_name.capitalize())
    return [element("div", *drawn, class_="main")]


# A fit


def _fit(
    fit: FittedLaw, runs: Runs | None, curves: LossCurves | None, intervals,
    plans: Sequence, level: float,
) -> tuple[list[Note], list[Section]]:  # fmt: skip
    """Notes and sections of a fit's page."""
    frame, origin, groups = None, "No intervals are known.", None
    notes = list(fit.notes)
    if intervals is not None:
        frame, groups = intervals.conf_int(level), getattr(intervals, "groups", None)
        by = f", rows in groups by {', '.join(groups)}" if groups else ""
        origin = f"Intervals: {intervals.kind_name}{by}; they assume that the law is correct."
        notes += [note for note in intervals.notes if note not in notes]
    elif isinstance(fit, Fit) and fit.standard_errors is not None:
        frame, text = fit.conf_int(level), fit.standard_errors.text()
        origin = f"{text[0].upper()}{text[1:]}."
    notes = list(without_dependence_note(notes, groups))
    law, figures = fit.law, []
    target, inputs = law.target, law.input_names
    # Of coefficients of a paper nobody knows the ranges, and areas mean little to the eye.
    if not np.isnan([*fit.ranges.values()]).any() and set(inputs) <= set(_ALONG):
        for along in inputs:
            figures += _figure(
                lambda ax, along=along: plots.loss_over_input(fit, runs, along, ax),
                f"Fitted curves of {target} along {along}, with the runs where they are given.",
                f"{target.capitalize()} along {along}; shaded: beyond the runs",
            )
    if curves is not None and fit.area_options is not None:
        figures += _run_figure(fit, curves)
    if runs is not None and isinstance(fit, Fit):  # coefficients of a paper have no scores
        figures += _figure(
            lambda ax: plots.observed_against_predicted(fit, runs, ax),
            f"Observed over predicted {target} of {fit.n_observations} runs, with the line "
            f"where both are equal, R² {fit.r2:.4f}; below, the residuals in percent.",
            f"Observed against predicted {target}, and residuals",
        )
    if frame is not None and np.isfinite(frame["low"]).any():
        figures += _figure(
            lambda ax: plots.parameter_intervals(frame, ax),
            "Intervals of the parameters relative to their estimates; the numbers are in "
            "the table of parameters.",
            "Uncertainty of each parameter",
            len(frame),
        )
    items = [("source", law.source or "a law of your own")]
    items += [("constraint", law.constraint.name)] if law.constraint is not None else []
    if isinstance(fit, Fit):
        items += [(name, f"tied to {other}") for name, other in fit.tied.items()]
        items += [(n, f"bounded, {low} to {high}") for n, (low, high) in fit.bounds.items()]
    formula = element("p", f"{target} = {law.formula}", class_="formula")
    ranges = [
        (spec.name, spec.doc, (fit.columns or {}).get(spec.name, ""), fit.units[spec.name],
         *fit.ranges[spec.name])
        for spec in law.inputs
    ]  # fmt: skip
    data = table(("input", "what it is", "column", "one is worth", "lowest", "highest"), ranges,
                 "Fitted ranges, in the units of the runs")  # fmt: skip
    ends = list(COLUMNS[1:])
    known = {} if frame is None else {row["parameter"]: row[ends] for _, row in frame.iterrows()}
    rows = [
        (spec.name, f"{fit.params[spec.name]:.6g}", *known.get(spec.name, [np.nan] * 3),
         "" if spec.unit == "1" else spec.unit, "fixed" if spec.name in fit.fixed else spec.doc)
        for spec in law.parameters
    ]  # fmt: skip
    head = ("parameter", "estimate", "standard error", f"{level:.0%} from", "to", "unit", "")
    parameters = table(head, rows, "Parameters, in the law's own units", words=(6,))
    # The text of a fit ends with what its intervals are.
    evidence = "\n".join([*fit.details(), *"\n".join(fit.lines()).split("\n\n")[2:]])
    return notes, [
        *([Section("Fit", [element("div", figures[0], class_="main")])] if figures else []),
        Section("Parameters", [parameters, element("p", origin)]),
        Section("Try it", explorer(intervals if has_draws(intervals) else fit, level)),
        Section("Law", [formula, pairs(items, "The law and its constraints")]),
        Section("Evidence", [
            element("pre", evidence or "There is none: nothing was fitted here."),
            element("div", *figures[1:], class_="figures"),
        ]),
        Section("Data", [folded("The ranges that were fitted", data)]),
    ]  # fmt: skip


def _run_figure(fit: FittedLaw, curves: LossCurves) -> list[Html]:
    """The longest run, of two phases if there is one: its losses, the prediction and its parts."""
    # Of one phase alone, a law predicts a curve of the one that its areas count first.
    phase = "pt" if {"S1", "S1_pt"} & {*fit.law.input_names} else "cpt"
    lengths = {
        run: (one.schedule.boundary is not None, one.last_step)
        for run, one in curves.run_schedules.items()
        if one.schedule.boundary is not None or one.phase == phase
    }
    if not lengths:
        return []
    run = max(lengths, key=lengths.get)
    own, one = curves.only(run), curves.run_schedules[run]
    seen = runs_of(fit, own).observations(fit.law, free=())
    counted = {*AREAS, *fit.law.inputs_per_drop}
    inputs = fit.law.labelled({name: x[:1] / fit.units[name] for name, x in seen.inputs.items()})
    held = {name: x[0] for name, x in inputs.items() if name not in counted}
    steps = np.unique(np.linspace(one.first_step + 1, one.last_step, _STEPS).round())
    line = fit.predict_curve(
        one.schedule, steps, first_step=one.first_step, S1_before=one.S1_before, batch=one.batch,
        **held,
    )  # fmt: skip
    logged = {"step": one.first_step + one.steps_done(own.table), "loss": seen.target}
    return _figure(
        lambda ax: plots.loss_curve(line, logged, ax),
        f"Logged {fit.law.target} of run {run} over its steps, the prediction, and its parts "
        "(base, annealing, shift); below, the learning rate.",
        f"Run {run}: logged and predicted {fit.law.target}",
    )


# A forecast


def _forecast(forecast: Forecast) -> list[Section]:
    """The points with their intervals, and what the widths come from."""
    shown = _frame(
        forecast, forecast.shown()["table"], f"{forecast.target.capitalize()} of a new run"
    )
    made = f"{forecast.made_of()}; fingerprint {forecast.fingerprint[:12]}…; parts of variance."
    sections = [
        Section("Forecast", [*_picture(forecast), shown, element("p", made)]),
        Section("Try it", explorer(forecast, forecast.level)),
    ]
    if (one := forecast.backtest) is not None:
        sections.append(Section("Back-test", [*_shown(one), *_picture(one)]))
    return sections


# A study


def _study(study: Study) -> list[Section]:
    """Sections of a study's page."""
    how = element(
        "p",
        "Laws are compared by the ratio of their held-out Huber, fold by fold: a paired t-test, "
        "corrected for folds that share points and for several laws. Huber losses are of "
        f"{'' if (study.frame['huber'] == study.frame['huber_linear']).any() else 'log '}"
        f"residuals, summed, δ {study.delta:g}.",
    )
    columns = ["held_out", "law", "data", "n_fitted", "n_held_out", "huber", "r2", "train_r2",
               "agreement", "status"]  # fmt: skip
    tables = [_frame(study, table, name.capitalize()) for name, table in study.shown().items()]
    spread = _frame(study, study.spread, "How far parameters move between folds")
    return [
        Section("Scores", [*tables, how]),
        Section("Figures", _picture(study)),
        Section("Parameters", [spread]),
        Section("Folds", [_frame(study, study.frame[columns], "Every fold")]),
    ]
