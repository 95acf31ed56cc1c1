"""A fit, a study or a forecast as one page of HTML that stands alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._arrays import check_level
from jaxlaw._json import write_atomic
from jaxlaw._quantities import Quantity
from jaxlaw._result import Result
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw._version import __version__
from jaxlaw.data import LossCurves, ReadingOptions, Runs, without_dependence_note
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import Fit, FittedLaw, runs_of, score_text
from jaxlaw.forecasting import Backtest, Forecast
from jaxlaw.notes import Note
from jaxlaw.reporting._explorer import explorer
from jaxlaw.reporting._figures import (
    along_figures,
    backtest_figure,
    can_draw,
    curve_figures,
    evidence_figures,
    forecast_figure,
    plan_figures,
    profile_figure,
    study_figures,
)
from jaxlaw.reporting._html import (
    Html,
    Section,
    element,
    folded,
    inner,
    note_list,
    pairs,
    table,
    tiles,
    whole_page,
)
from jaxlaw.uncertainty import (
    COLUMNS,
    Bootstrap,
    Covariance,
    covariance,
    has_draws,
    interval_of,
    profile_interval,
)
from jaxlaw.validation import VERDICTS, Study

_ROWS = 40  # of a plan's table
_FEW = 12  # rows of a plan's table that is not folded
_FOLDS = 400  # rows of the table of folds: a study has thousands
_SPREADS = 20  # rows of the table of parameters that are shown at once
_SCORES = {"huber": "Huber", "r2": "R²"}
NO_CURVES = (
    "Curves over their steps need their schedules: in Python runs=jl.read_loss_curves(…), in the "
    "command RUNS and --schedules."
)
NO_FIGURES = "Figures need matplotlib: pip install 'jaxlaw[plot]'."

#: Title, lead, first numbers and sections of a page.
_Parts = tuple[str, str, Html, list[Section]]


@checked
def report(
    result: FittedLaw | Study | Forecast,
    out: str | Path | None = None,
    *,
    runs: Any = None,
    intervals: Any = None,
    groups: Any = None,
    plans: Sequence[Any] = (),
    profiles: Sequence[Any] = (),
    forecasts: Sequence[Forecast] = (),
    level: ConfidenceLevel | None = None,
    title: str | None = None,
    **reading: Unpack[ReadingOptions],
) -> str:
    """A fit, a study or a forecast as one page of HTML that stands alone.

    It opens with what was asked for (plans, forecasts, else the fit): in one sentence each, with a
    picture of the runs and the target, and a table of intervals; the evidence follows, and what
    few look at is folded. Nothing in it is fetched, and it runs no script but its own.

    Args:
        result: :class:`jaxlaw.FittedLaw`, :class:`jaxlaw.Fit`, :class:`jaxlaw.Study` or
            :class:`jaxlaw.Forecast`.
        out: file to write; None writes none.
        runs: runs that a fit was made from, as :func:`jaxlaw.read_runs` takes or returns them.
            They give the sandwich intervals, and figures with data. Of a fit to loss curves, the
            :class:`jaxlaw.LossCurves`: they are drawn over their steps.
        intervals: :class:`jaxlaw.Bootstrap` or :class:`jaxlaw.uncertainty.Covariance` of a fit, the
            table of their ``conf_int()``, or draws (an object with ``fit``, ``params`` and
            ``notes``). The page then shows no other intervals of the parameters.
        groups: columns or labels of rows that share noise, with ``runs``, as for
            :func:`jaxlaw.covariance`; what ``intervals`` holds was grouped, or not, when it was
            made.
        plans: results for a fit or a forecast, such as :func:`jaxlaw.planning.allocation` gives:
            their numbers, tables, notes and pictures.
        profiles: profiles of a fit by :func:`jaxlaw.profile`: a figure each, and the interval
            of its parameter where ``intervals`` gives none.
        forecasts: forecasts (:func:`jaxlaw.forecast`) that the page of a fit is to show.
        level: confidence level of all intervals on the page; None takes that of the plans, or of
            the forecast that is reported, else 0.95. Forecasts are restated at it.
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
    plans, profiles, forecasts = tuple(plans), tuple(profiles), tuple(forecasts)
    for plan in plans:
        if not isinstance(plan, Result):
            raise UsageError(f"a plan is an answer of jaxlaw.planning, not {type(plan).__name__}")
    level = _page_level(level, plans, getattr(result, "level", 0.95))
    given = any(value is not None for value in (runs, intervals, groups))
    of_fit = given or profiles or reading or forecasts
    if isinstance(result, Study):
        if of_fit or plans:
            raise UsageError(
                "runs, intervals, groups, plans, profiles and forecasts belong to a fit; a study "
                "has its folds"
            )
        parts = _study_parts(result)
    elif isinstance(result, Forecast):
        if of_fit:
            raise UsageError(
                "runs, intervals, groups, profiles and forecasts belong to a fit; a forecast has "
                "its runs and intervals itself"
            )
        parts = _forecast_parts(_restated(result, level), plans)
    else:
        if groups is not None and (runs is None or intervals is not None):
            raise UsageError(
                "groups is about intervals from runs: give runs= and no intervals=; a bootstrap "
                "or a covariance takes groups= itself",
                argument="groups",
                value=groups,
            )
        if runs is None and reading:
            raise UsageError(f"{', '.join(reading)}: how to read runs, and there are none: runs=")
        curves = runs if isinstance(runs, LossCurves) else None
        read = None if runs is None else runs_of(result, runs, reading)
        forecasts = tuple(_restated(forecast, level) for forecast in forecasts)
        parts = _fit_parts(
            result, read, curves, intervals, plans, profiles, forecasts, level, groups
        )
    heading, *rest = parts
    text = whole_page(title or heading, *rest, f"Made by jaxlaw {__version__}.")
    if out is not None:
        write_atomic(out, lambda file: file.write_text(text, "utf-8"))
    return text


def _page_level(level: float | None, plans: Sequence[Result], usual: float) -> float:
    """The one level of all intervals on a page.

    Raises:
        UsageError: intervals of plans are of another one.
    """
    levels = sorted({plan.level for plan in plans if _has_intervals(plan)})
    if level is None:
        level = levels[0] if levels else usual
    check_level(level)
    if others := [other for other in levels if other != level]:
        raise UsageError(
            f"the page has intervals of {level:.0%}, a plan of {others[0]:.0%}: make all plans "
            f"with level={level:g}, and give it here",
            argument="level",
            value=level,
        )
    return level


def _has_intervals(plan: Result) -> bool:
    tables = plan.tables.values()
    return bool(getattr(plan, "interval", {})) or any(
        str(column).endswith("_low") for table in tables for column in table
    )


def _restated(forecast: Forecast, level: float) -> Forecast:
    """A forecast with its intervals at another level."""
    if forecast.level == level:
        return forecast
    low, high = forecast.interval(level)
    table = forecast.table.assign(low=low, high=high)
    return dataclasses.replace(forecast, level=level, table=table)


def _opening(asked: Sequence[Result], notes: Sequence[Note], first: Html) -> Html:
    """What a page begins with: answers in a sentence each, and notes that forbid to use them."""
    said = [
        element("p", text, class_=kind)
        for one in asked
        for kind, text in (("headline", one.headline), ("next", _next(one)))
        if text
    ]
    grave = [note for note in notes if note.severity == "error"]
    return inner([*said, note_list(grave) if grave else "", first])


def _next(result: Result) -> str:
    """What to do next, as the reader's door has it."""
    step = result.next_step
    return f"Next: {step}" * bool(step)


# A fit


def _fit_parts(
    fit: FittedLaw, runs: Runs | None, curves: LossCurves | None, intervals: Any,
    plans: Sequence[Any], profiles: Sequence[Any], forecasts: Sequence[Forecast], level: float,
    groups: Any,
) -> _Parts:  # fmt: skip
    for profile in profiles:
        if getattr(profile, "kind", "") != "profile":
            kind = type(profile).__name__
            raise UsageError(f"a profile is the result of jl.profile, not {kind}")
        if profile.params != fit.params:
            raise UsageError(f"the profile of {profile.quantity} is one of another fit")
    uncertainty = _uncertainty(fit, runs, intervals, profiles, level, groups)
    notes = [*without_dependence_note(fit.notes, uncertainty.groups), *uncertainty.notes]
    notes += [n for profile in profiles for n in profile.notes if n not in notes]
    none = element("p", "Neither data nor search gave reason for a warning.")
    shown = _Figures.of(fit, runs, curves, uncertainty.table, profiles)
    record = json.dumps(fit.to_dict(), indent=1, ensure_ascii=False)
    sections = [
        *_answers(plans, forecasts, uncertainty.draws or fit, runs),
        *([Section("Fit", shown.main)] if shown.main and not (plans or forecasts) else []),
        Section("What to know first", (note_list(notes) if notes else none,)),
        Section("Parameters", _parameters(fit, uncertainty, level)),
        Section("Try it", explorer(uncertainty.draws or fit, level)),
        Section("Law", _law(fit)),
        Section("Evidence", (*([_tiles(fit)] if plans or forecasts else []), _evidence(fit))),
        Section("Figures", (*(shown.main if plans or forecasts else ()), *shown.others)),
        Section("Bookkeeping", (
            folded("Data, and the ranges that were fitted", *_data(fit, runs)),
            folded("The fit as jaxlaw saves it (JSON)", element("pre", record, id="fit-json")),
        )),
    ]  # fmt: skip
    title = f"{fit.law.name}: a scaling law of {fit.source or 'runs'}"
    asked = [*plans, *forecasts] or [fit]
    if not isinstance(fit, Fit):
        lead = f"{fit.origin()[0].upper()}{fit.origin()[1:]}"
        return title, lead, _opening(asked, notes, Html("")), sections
    dropped = f" ({fit.n_dropped} dropped)" if fit.n_dropped else ""
    lead = f"{fit.n_observations} observations{dropped} from {fit.source or 'runs'}"
    first = Html("") if plans or forecasts else _tiles(fit)
    return title, lead, _opening(asked, notes, first), sections


def _tiles(fit: FittedLaw) -> Html:
    """The few numbers that say how good a fit is."""
    if not isinstance(fit, Fit):
        return Html("")
    return tiles(
        [
            ("R²", f"{fit.r2:.5f}"),
            ("RMSE", f"{fit.rmse:.4g}"),
            ("observations", f"{fit.n_observations}"),
            ("starts that agree", f"{fit.agreement:.0%}"),
            ("search", fit.status),
        ]
    )


def _answers(
    plans: Sequence[Result], forecasts: Sequence[Forecast], source: Any, runs: Runs | None
) -> list[Section]:
    """What was asked for, each with its picture before its numbers."""
    sections = []
    for forecast in forecasts:
        known = (note_list(forecast.notes),) if forecast.notes else ()
        sections.append(Section("Forecast", (*_forecast(forecast), *known)))
    if plans:
        parts = [part for plan in plans for part in _plan(plan, source, runs)]
        sections.append(Section("Plan", tuple(parts)))
    return sections


class _Uncertainty(NamedTuple):
    """Intervals of the parameters, and where they come from."""

    table: pd.DataFrame | None = None
    source: str = "No intervals are known."
    notes: tuple[Note, ...] = ()
    groups: tuple[str, ...] | None = None
    draws: Any = None  # for the intervals of plans


def _uncertainty(
    fit: FittedLaw, runs: Runs | None, intervals: Any, profiles: Sequence[Answer], level: float,
    groups: Any,
) -> _Uncertainty:  # fmt: skip
    """From what the caller gave; else the sandwich of the runs, with the profiles' intervals."""
    if intervals is not None:
        known = _given_intervals(fit, intervals, level)
        return known._replace(notes=tuple(n for n in known.notes if n not in fit.notes))
    if not isinstance(fit, Fit):
        return _Uncertainty()
    if runs is None:
        errors = fit.standard_errors
        if errors is not None and errors.values:
            return _Uncertainty(fit.conf_int(level), f"Intervals: {errors.source()}.")
        message = "no intervals: give the data the fit was made from, or a bootstrap of them"
        return _Uncertainty(notes=(Note("no-intervals", "warning", message),))
    try:
        known = _given_intervals(fit, covariance(fit, runs, groups=groups), level)
    except DataError as error:
        return _Uncertainty(notes=(Note("no-intervals", "warning", f"no intervals: {error}"),))
    profiled = {profile.quantity: profile for profile in profiles}
    names = [name for name in known.table["parameter"] if name in profiled]
    for name in names:
        row, one = known.table["parameter"] == name, profiled[name]
        known.table.loc[row, COLUMNS[1:]] = [one.std_err, *profile_interval(one, level)]
    more = f" Of {', '.join(names)} it is the profile's." if names else ""
    notes = tuple(note for note in known.notes if note not in fit.notes)
    return known._replace(source=known.source + more, notes=notes)


def _given_intervals(fit: FittedLaw, intervals: Any, level: float) -> _Uncertainty:
    if isinstance(intervals, pd.DataFrame):
        if missing := [name for name in ("parameter", *COLUMNS) if name not in intervals]:
            raise UsageError(
                f"intervals: a table of them has no column '{missing[0]}'",
                argument="intervals",
                value=intervals,
            )
        return _Uncertainty(intervals, "Intervals: as given.")
    draws = intervals if has_draws(intervals) else None
    if isinstance(intervals, Bootstrap | Covariance):
        frame = intervals.conf_int(level)
    elif draws is not None:
        rows = [
            (name, *map(float, interval_of(fit.params[name], draws.draws().params[name], level)))
            for name in fit.law.parameter_names
            if name not in fit.fixed
        ]
        frame = pd.DataFrame(rows, columns=["parameter", *COLUMNS])
    else:
        raise UsageError(
            "intervals is a Bootstrap, a Covariance, the table of either, or draws, not "
            f"{type(intervals).__name__}",
            argument="intervals",
            value=intervals,
        )
    groups = getattr(intervals, "groups", None)  # draws need not know how they were made
    details = [f"rows in groups by {', '.join(groups)}"] if groups else []
    if isinstance(intervals, Covariance):
        source = "the covariance of the fit"
    else:
        count = draws.draws().rows - 1
        source = f"percentiles of {count} resamples of the runs"
        kind = getattr(draws, "kind", "")
        details = ([kind] if kind else []) + details
    more = f" ({', '.join(details)})" if details else ""
    text = f"Intervals: {source}{more}; they take the law to be right."
    return _Uncertainty(frame, text, tuple(intervals.notes), groups, draws)


def _law(fit: FittedLaw) -> tuple[Any, ...]:
    law = fit.law
    items = [("name", law.name), ("source", law.source or "a law of your own")]
    if law.constraint is not None:
        items.append(("constraint", law.constraint.name))
    items += [(name, f"fixed at {value:.6g}") for name, value in fit.fixed.items()]
    if isinstance(fit, Fit):
        items += [(name, f"tied to {other}") for name, other in fit.tied.items()]
        items += [(n, f"bounded, {_limits(*limits)}") for n, limits in fit.bounds.items()]
    formula = element("p", f"{law.target} = {law.formula}", class_="formula")
    return formula, pairs(items, "The law and its constraints")


def _limits(low: float | None, high: float | None) -> str:
    return " ".join(
        f"{word} {limit:.6g}" for word, limit in (("from", low), ("to", high)) if limit is not None
    )


def _data(fit: FittedLaw, runs: Runs | None) -> tuple[Any, ...]:
    docs = {spec.name: spec for spec in fit.law.inputs}
    if runs is None:
        rows = [
            (name, docs[name].doc, _number(fit.units[name] * docs[name].unit), *map(_known, limits))
            for name, limits in fit.ranges.items()
        ]
        head = ("input", "what it is", "one is worth", "lowest", "highest")
    else:
        seen = runs.observations(fit.law).describe()
        rows = [
            (row["name"], docs[row["name"]].doc if row["name"] in docs else "what is predicted",
             row["column"], *(_number(row[column]) for column in ("unit", "min", "max")),
             row["distinct"])
            for row in seen.to_dict("records")
        ]  # fmt: skip
        head = ("name", "what it is", "column", "one is worth", "lowest", "highest", "distinct")
    text = "The runs behind these coefficients are not here."
    if isinstance(fit, Fit):
        text = f"{fit.n_observations} rows fitted, {fit.n_dropped} dropped as invalid."
    return table(head, rows, "Fitted ranges, in the units of the runs"), element("p", text)


def _number(value: Any, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _known(value: float) -> str:
    return "not given" if np.isnan(value) else _number(value)


def _parameters(fit: FittedLaw, uncertainty: _Uncertainty, level: float) -> tuple[Any, ...]:
    frame, rows = uncertainty.table, []
    known = {} if frame is None else {row["parameter"]: row for _, row in frame.iterrows()}
    for spec in fit.law.parameters:
        row = known.get(spec.name)
        cells = ("", "", "") if row is None else [f"{row[name]:.4g}" for name in COLUMNS[1:]]
        unit = "" if spec.unit == "1" else spec.unit
        doc = "fixed" if spec.name in fit.fixed else spec.doc
        rows.append((spec.name, f"{fit.params[spec.name]:.6g}", *cells, unit, doc))
    head = ("parameter", "estimate", "standard error", f"{level:.0%} from", "to", "unit", "")
    if frame is None:
        rows = [(*row[:2], *row[5:]) for row in rows]
        head = (*head[:2], *head[5:])
    caption = "Parameters, in the law's own units"
    shown = table(head, rows, caption, words=(len(head) - 1,))
    return shown, element("p", uncertainty.source)


def _of_log(score: str) -> str:
    """A score of logarithms; nothing where the target, which may be negative, has none."""
    return "" if score == "nan" else f"; of the logarithm {score}"


def _evidence(fit: FittedLaw) -> Html:
    if not isinstance(fit, Fit):
        text = "There is none: these are coefficients of a paper, or were returned by JAX."
        return element("p", text)
    get = fit.metrics
    items = [
        ("objective", f"{fit.objective:.8g} (sum of Huber, δ {fit.delta:g}, {fit.residuals})"),
        ("R²", f"{get['r2']:.5f}" + _of_log(f"{get['r2_log']:.5f}")),
        ("RMSE", f"{get['rmse']:.4g}" + _of_log(f"{get['rmse_log']:.4g}")),
        ("status", fit.status),
        ("agreement", f"{fit.agreement:.0%} of {fit.n_solved} solved starts end at this optimum"),
        ("starts", f"{fit.n_starts} tried, {fit.n_solved} solved ({fit.solver}), "
                   "the best finished by jaxopt's L-BFGS"),
        ("runner-up", "none: no other optimum was found" if fit.runner_up is None else
         f"objective {fit.runner_up.objective:.8g} ({fit.runner_up.share:.0%} of starts)"),
    ]  # fmt: skip
    if fit.asymmetry != 1:
        items.append(("asymmetry", f"{fit.asymmetry:g} below the curve"))
    if fit.area_options is not None:
        items.append(("areas", f"counted with λ {fit.area_options['decay']:.6g}"))
    return pairs(items, "What the fit rests on")


class _Figures(NamedTuple):
    """The picture of a fit with its runs, and those that are evidence."""

    main: tuple[Any, ...]
    others: tuple[Any, ...]

    @classmethod
    def of(
        cls, fit: FittedLaw, runs: Runs | None, curves: LossCurves | None,
        intervals: pd.DataFrame | None, profiles: Sequence[Answer],
    ) -> _Figures:  # fmt: skip
        """Those that can be drawn of a fit, or why there are none."""
        if not can_draw():
            return cls((), (NO_FIGURES,))
        along = along_figures(fit, runs)
        if fit.area_options is not None and curves is not None and runs is not None:
            along += curve_figures(fit, curves, runs)
        others = evidence_figures(fit, runs, intervals)
        others += [profile_figure(profile) for profile in profiles]
        text: Any = ""
        if fit.area_options is not None and curves is None:
            text = element("p", NO_CURVES)
        elif not along and not others:
            text = element("p", "None: these coefficients come without ranges to draw over.")
        main = (element("div", along[0], class_="figures"),) if along else ()
        rest = element("div", *along[1:], *others, class_="figures")
        return cls(main, (rest, text))


def _plan(plan: Result, source: Any, runs: Runs | None) -> list[Any]:
    """A plan, or another result: its figure, its numbers, and all else."""
    heading, *rest = _result(plan)
    return [heading, *(plan_figures(plan, source, runs) if can_draw() else []), *rest]


def _result(result: Result) -> list[Any]:
    """What every result has: numbers with their intervals, words, tables, notes."""
    parts: list[Any] = [element("h3", result.kind_name.capitalize())]
    if numbers := result.quantities:
        parts.append(_numbers(result, numbers))
    facts = getattr(result, "facts", {}).items()
    if words := [(n.replace("_", " "), one) for n, one in facts if one and isinstance(one, str)]:
        parts.append(pairs(words, "In words"))
    for name, given in result.shown().items():
        frame = result.readable(given)
        cells = list(frame.head(_ROWS).itertuples(index=False))
        caption = f"{name.capitalize()}: {len(cells)} of {len(frame)} rows"
        shown = table([str(column).replace("_", " ") for column in frame], cells, caption)
        parts.append(folded(caption, shown) if len(cells) > _FEW else shown)
    return [*parts, *([note_list(result.notes)] if result.notes else [])]


def _numbers(result: Result, numbers: dict[str, Quantity]) -> Html:
    """Numbers, with the intervals where the result has any."""
    rows = [
        (name.replace("_", " "), _number(one.value), *_between(one), str(one))
        for name, one in numbers.items()
    ]
    head = (
        "quantity",
        "value",
        f"{getattr(result, 'level', 0.95):.0%} from",
        "to",
        "with its unit",
    )
    if not any(one.interval for one in numbers.values()):
        rows, head = [(*row[:2], row[-1]) for row in rows], (*head[:2], head[-1])
    return table(head, rows, "In the units of the runs", words=(len(head) - 1,))


def _between(one: Quantity) -> tuple[str, str]:
    """The two ends of an interval; empty where it has none."""
    return (f"{one.low:.5g}", f"{one.high:.5g}") if one.interval else ("", "")


# A forecast


def _forecast_parts(forecast: Forecast, plans: Sequence[Any]) -> _Parts:
    """A forecast, what it rests on, and plans that were made with it."""
    none = element("p", "Nothing in the runs gave reason for a warning.")
    laws = [(law, f"{weight:.0%}") for law, weight in forecast.weights.items()]
    known = note_list(forecast.notes) if forecast.notes else none
    record = json.dumps(forecast.to_dict(), indent=1, ensure_ascii=False)
    sections = [
        Section("Forecast", _forecast(forecast)),
        *_answers(plans, (), forecast, None),
        Section("What to know first", (known,)),
        Section("Try it", explorer(forecast, forecast.level)),
        Section("Law", (pairs(laws, "Posterior probability of the laws"),)),
    ]
    if forecast.backtest is not None:
        sections.append(Section("Back-test", _backtest(forecast.backtest)))
    whole = folded("The forecast as jaxlaw saves it (JSON)", element("pre", record, id="json"))
    sections.append(Section("Bookkeeping", (whole,)))
    count, source = len(forecast.observed), forecast.source
    items = [("made", forecast.created), ("runs", f"{count} from {source}")]
    title = f"{forecast.target.capitalize()} of runs not yet made"
    lead = f"{forecast.level:.0%} intervals for a new run, from {count} runs of {source}"
    return title, lead, _opening([forecast, *plans], forecast.notes, tiles(items)), sections


def _forecast(forecast: Forecast) -> tuple[Any, ...]:
    """The points with their intervals, and what the widths come from."""
    made = (
        f"Made {forecast.created} from {len(forecast.observed)} runs of fingerprint "
        f"{forecast.fingerprint[:12]}…"
    )
    frame = forecast.readable(forecast.shown()["table"])
    head = [name.replace("_", " ") for name in frame]
    caption = f"{forecast.target.capitalize()} of a new run"
    shown = table(head, frame.itertuples(index=False), caption)
    picture = element("div", forecast_figure(forecast), class_="main") if can_draw() else NO_FIGURES
    return picture, shown, element("p", f"{made}; shares are of the variance.")


def _backtest(backtest: Backtest) -> tuple[Any, ...]:
    """How far forecasts at earlier cut-offs were off."""
    _, *shown = _result(backtest)
    if not can_draw():
        return tuple(shown)
    return *shown, element("div", backtest_figure(backtest), class_="figures")


# A study


def _study_parts(study: Study) -> _Parts:
    names = ", ".join(study.laws)
    none = element("p", "Nothing in the fits gave reason for a warning.")
    sections = [
        Section("Ranking", _ranking(study)),
        Section("Scores", _scores(study)),
        Section("What to know first", (note_list(study.notes) if study.notes else none,)),
        Section("Figures", tuple(study_figures(study)) if can_draw() else (NO_FIGURES,)),
        Section("Laws and folds", _design(study)),
        Section("Parameters", _spreads(study)),
        Section("Folds", _folds(study)),
    ]
    first = tiles(
        [
            ("laws", f"{len(study.laws)}"),
            ("data sets", f"{study.frame['data'].nunique()}"),
            ("folds", f"{study.n_folds}"),
            ("fits", f"{len(study.frame)}"),
            ("failed", f"{study.n_failed}"),
        ]
    )
    lead = f"Fitted on parts of the runs, scored on the rest: {study.design}"
    return f"A study of {names}", lead, _opening([study], study.notes, first), sections


def _design(study: Study) -> tuple[Any, ...]:
    laws = [
        (label, name, constraint or "none", study.sizes[label])
        for label, (name, constraint) in study.laws.items()
    ]
    log = "" if (study.frame["huber"] == study.frame["huber_linear"]).any() else "log "
    items = [
        ("folds", study.design),
        ("target", study.target),
        ("score", f"Huber loss of {log}residuals, summed, δ {study.delta:g}, and R²"),
        ("data sets", ", ".join(study.frame["data"].unique())),
    ]
    head = ("called", "law", "constraint", "fitted parameters")
    return table(head, laws, "The laws"), pairs(items, "The design")


def _scores(study: Study) -> tuple[Any, ...]:
    parts = []
    for centre in ("mean", "median") if study.n_folds > 2 else ("mean",):
        scores = study.score_table(centre=centre)
        for metric, name in _SCORES.items():
            rows = [
                (law, *(score_text(metric, value) for value in row))
                for law, row in zip(scores.index, scores[metric].to_numpy(float), strict=True)
            ]
            caption = f"{name} of held-out points, {centre}"
            parts.append(table(("law", *map(str, scores[metric].columns)), rows, caption))
    return (element("div", *parts, class_="side"),)


def _ranking(study: Study) -> tuple[Any, ...]:
    if len(study.laws) == 1:
        return (element("p", "One law: there is nothing to rank."),)
    ranked = study.ranking
    rows = [
        (law, row.parameters, f"{row['mean']:.3g}", f"{row.ratio:.3g}",
         "" if pd.isna(row.p) else f"{row.p:.2g}", f"{row.wins:.0%}", row.failed,
         VERDICTS.get(row.verdict, row.verdict))
        for law, row in ranked.iterrows()
    ]  # fmt: skip
    head = ("law", "parameters", "Huber, mean of folds", "× best", "p", "folds won", "failed",
            "verdict")  # fmt: skip
    text = (
        "Laws are compared by the ratio of their held-out Huber, fold by fold: a paired t-test, "
        "corrected for folds that share points and for several laws."
    )
    return table(head, rows, "Laws, the best first", words=(7,)), element("p", text)


def _spreads(study: Study) -> tuple[Any, ...]:
    rows = [
        (row["parameter"], row["law"], row["data"],
         *(f"{row[column]:.4g}" for column in ("mean", "std", "min", "max")))
        for row in study.spread.to_dict("records")
    ]  # fmt: skip
    head = ("parameter", "law", "data", "mean", "deviation", "lowest", "highest")
    whole = table(head, rows, "How far parameters move from fold to fold")
    return (folded(f"{len(rows)} parameters", whole) if len(rows) > _SPREADS else whole,)


def _folds(study: Study) -> tuple[Any, ...]:
    frame = study.frame
    failed = frame[frame["failed"]]
    parts = [element("p", f"{len(failed)} of {len(frame)} fits failed.")]
    if len(failed):
        parts.append(_fold_table(failed, "Fits that failed"))
    return *parts, folded("Every fold", _fold_table(frame, "Every fold"))


def _fold_table(frame: pd.DataFrame, caption: str) -> Html:
    shown = frame.head(_FOLDS)
    if len(shown) < len(frame):
        caption += f": the first {len(shown)} of {len(frame)}; the rest is in the saved study"
    rows = [
        (*(row[column] for column in ("held_out", "law", "data", "n_fitted", "n_held_out")),
         f"{row['huber']:.3g}", score_text("r2", row["r2"]), score_text("r2", row["train_r2"]),
         f"{row['agreement']:.0%}", row["status"])
        for row in shown.to_dict("records")
    ]  # fmt: skip
    head = ("held out", "law", "data", "rows fitted", "rows held out", "Huber", "R²", "R² fitted",
            "starts agree", "status")  # fmt: skip
    return table(head, rows, caption)
