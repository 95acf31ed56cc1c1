"""What a report says of a fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw.data import LossCurves
from jaxlaw.data._dependence import unanswered
from jaxlaw.data._runs import Runs
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._result import Fit
from jaxlaw.notes import Note
from jaxlaw.planning._answers import Answer, AnswerTable
from jaxlaw.reporting.page import (
    Html,
    Section,
    element,
    folded,
    note_list,
    pairs,
    table,
    tiles,
)
from jaxlaw.reporting.pictures import can_draw, of_curves, of_fit, of_plan, of_profile
from jaxlaw.uncertainty import Profile, covariance
from jaxlaw.uncertainty._intervals import COLUMNS, interval_of

_ROWS = 40  # of a plan's table
NO_CURVES = (
    "Curves over their steps need their schedules: in Python runs=jl.read_loss_curves(…), in the "
    "command --data and --schedules."
)
NO_PICTURES = "Pictures need matplotlib: pip install 'jaxlaw[plot]'."


def fit_parts(
    fit: FittedLaw, runs: Runs | None, curves: LossCurves | None, sure: Any, plans: Sequence[Any],
    profiles: Sequence[Any], level: float, groups: Any,
) -> tuple[str, str, Html, list[Section]]:  # fmt: skip
    """Title, lead, first numbers and sections of the report on a fit."""
    _check_profiles(fit, profiles)
    given, failure = sure is not None, ""
    if not given and runs is not None and isinstance(fit, Fit):
        sure, failure = _sandwich(fit, runs, groups)
    intervals = None if sure is None else intervals_of(fit, sure, level)
    # One interval a number: what the caller gave stands alone; else a profile, where there is one.
    shown = None if given else level
    profiled = [] if given or intervals is None else _put_profiles(intervals, profiles, level)
    notes = [*unanswered(fit.notes, getattr(sure, "groups", None)), *_own_notes(fit, sure, failure)]
    notes += [n for one in profiles for n in one.notes if n.code == "profile-found-better"]
    sections = [
        Section("What to know first", _warnings(notes)),
        Section("Law", _law(fit)),
        Section("Data", _data(fit, runs)),
        Section("Parameters", _parameters(fit, sure, intervals, level, profiled)),
        Section("Evidence", (_evidence(fit),)),
        Section("Pictures", _pictures(fit, runs, curves, intervals, profiles, shown)),
    ]  # fmt: skip
    if plans:
        source = sure if isinstance(getattr(sure, "params", None), dict) else fit
        parts = [part for plan in plans for part in _plan(plan, source)]
        sections.append(Section("Plan", tuple(parts)))
    record = json.dumps(fit.to_dict(), indent=1, ensure_ascii=False)
    whole = folded("The fit as jaxlaw saves it (JSON)", element("pre", record, id="fit-json"))
    sections.append(Section("All numbers", (whole,)))
    title = f"{fit.law.name}: a scaling law of {fit.source or 'runs'}"
    return title, _lead(fit), _first(fit) if isinstance(fit, Fit) else Html(""), sections


def _check_profiles(fit: FittedLaw, profiles: Sequence[Any]) -> None:
    for one in profiles:
        if not isinstance(one, Profile):
            raise UsageError(f"a profile is what jl.profile found, not {type(one).__name__}")
        if one.fit.params != fit.params:
            raise UsageError(f"the profile of {one.quantity} is one of another fit")


def _pictures(
    fit: FittedLaw, runs: Runs | None, curves: LossCurves | None, intervals: pd.DataFrame | None,
    profiles: Sequence[Profile], level: float | None,
) -> tuple[Any, ...]:  # fmt: skip
    if not can_draw():
        return (NO_PICTURES,)
    shown = of_fit(fit, runs, intervals)
    shown += [of_profile(one, level) for one in profiles]
    said = ""
    if fit.area_options is not None and curves is not None and runs is not None:
        shown += of_curves(fit, curves, runs)
    elif fit.area_options is not None:
        said = element("p", NO_CURVES)
    elif not shown:
        said = element("p", "None: whoever gave these coefficients told no ranges to draw over.")
    return element("div", *shown, class_="pictures"), said


def _sandwich(fit: FittedLaw, runs: Runs, groups: Any) -> tuple[Any, str]:
    try:
        return covariance(fit, runs, groups=groups), ""
    except DataError as error:
        return None, str(error)


def _put_profiles(intervals: pd.DataFrame, profiles: Sequence[Profile], level: float) -> list[str]:
    """Put the intervals of profiles into the table; the parameters that have one."""
    found = {one.quantity: one.interval(level) for one in profiles}
    names = [name for name in intervals["parameter"] if name in found]
    for name in names:
        _, error, low, high = found[name]
        row = intervals["parameter"] == name
        intervals.loc[row, COLUMNS[1:]] = [error, float(low), float(high)]
    return names


def intervals_of(fit: FittedLaw, sure: Any, level: float) -> pd.DataFrame:
    """Intervals of the parameters: from what has them, or from the draws of a bootstrap."""
    if isinstance(sure, pd.DataFrame):
        if missing := [name for name in ("parameter", *COLUMNS) if name not in sure]:
            raise UsageError(f"intervals: a table of them has no column '{missing[0]}'")
        return sure
    if hasattr(sure, "intervals"):
        return sure.conf_int(level)
    if not hasattr(sure, "params"):
        raise UsageError(
            "intervals is a Bootstrap, a Covariance, the table of either, or draws, not "
            f"{type(sure).__name__}"
        )
    rows = [
        (name, *map(float, interval_of(fit.params[name], sure.params[name], level)))
        for name in fit.law.parameter_names
        if name not in fit.fixed
    ]
    return pd.DataFrame(rows, columns=["parameter", *COLUMNS])


def _own_notes(fit: FittedLaw, sure: Any, failure: str) -> list[Note]:
    notes = [note for note in getattr(sure, "notes", ()) if note not in fit.notes]
    if not isinstance(fit, Fit):
        return notes
    if failure:
        notes.append(Note("no-intervals", "warning", f"no intervals: {failure}"))
    elif sure is None:
        message = "no intervals: give the data the fit was made from, or a bootstrap of them"
        notes.append(Note("no-intervals", "warning", message))
    return notes


def _warnings(notes: Sequence[Note]) -> tuple[Any, ...]:
    if notes:
        return (note_list(notes),)
    return (element("p", "Neither data nor search gave reason for a warning."),)


def _lead(fit: FittedLaw) -> str:
    if not isinstance(fit, Fit):
        return f"{fit.origin()[0].upper()}{fit.origin()[1:]}"
    dropped = f" ({fit.n_dropped} dropped)" if fit.n_dropped else ""
    return f"{fit.n_observations} observations{dropped} from {fit.source or 'runs'}"


def _first(fit: FittedLaw) -> Html:
    return tiles(
        [
            ("R²", f"{fit.r2:.5f}"),
            ("RMSE", f"{fit.rmse:.4g}"),
            ("observations", f"{fit.n_observations}"),
            ("starts that agree", f"{fit.agreement:.0%}"),
            ("search", fit.status),
        ]
    )


def _law(fit: FittedLaw) -> tuple[Any, ...]:
    law = fit.law
    items = [("name", law.name), ("source", law.source or "a law of your own")]
    if law.constraint is not None:
        items.append(("constraint", law.constraint.name))
    items += [(name, f"held at {value:.6g}") for name, value in fit.fixed.items()]
    if isinstance(fit, Fit):
        items += [(name, f"tied to {other}") for name, other in (fit.tied or {}).items()]
        items += [(n, f"bounded, {_ends(*ends)}") for n, ends in (fit.bounds or {}).items()]
    formula = element("p", f"{law.target} = {law.formula}", class_="formula")
    return formula, pairs(items, "The law and what was asked of it")


def _ends(low: float | None, high: float | None) -> str:
    return " ".join(
        f"{word} {end:.6g}" for word, end in (("from", low), ("to", high)) if end is not None
    )


def _data(fit: FittedLaw, runs: Runs | None) -> tuple[Any, ...]:
    docs = {spec.name: spec for spec in fit.law.inputs}
    if runs is None:
        rows = [
            (name, docs[name].doc, _number(fit.units[name] * docs[name].unit), *map(_end, ends))
            for name, ends in fit.ranges.items()
        ]
        head = ("input", "what it is", "one is worth", "lowest", "highest")
    else:
        seen = runs.observations(fit.law).describe()
        rows = [
            (row["name"], docs[row["name"]].doc if row["name"] in docs else "what is predicted",
             row["column"], *(_number(row[one]) for one in ("unit", "min", "max")),
             row["distinct"])
            for row in seen.to_dict("records")
        ]  # fmt: skip
        head = ("name", "what it is", "column", "one is worth", "lowest", "highest", "distinct")
    said = "The runs behind these coefficients are not here."
    if isinstance(fit, Fit):
        said = f"{fit.n_observations} rows fitted, {fit.n_dropped} dropped as invalid."
    return table(head, rows, "Fitted ranges, in the units of the runs"), element("p", said)


def _number(value: Any, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _end(value: float) -> str:
    return "not given" if np.isnan(value) else _number(value)


def _parameters(
    fit: FittedLaw, sure: Any, found: pd.DataFrame | None, level: float, profiled: Sequence[str]
) -> tuple[Any, ...]:
    known = {} if found is None else {row["parameter"]: row for _, row in found.iterrows()}
    rows = []
    for spec in fit.law.parameters:
        row = known.get(spec.name)
        ends = ("", "", "") if row is None else [f"{row[name]:.4g}" for name in COLUMNS[1:]]
        unit = "" if spec.unit == "1" else spec.unit
        held = "held" if spec.name in fit.fixed else ""
        rows.append((spec.name, f"{fit.params[spec.name]:.6g}", *ends, unit, held or spec.doc))
    head = ("parameter", "estimate", "standard error", f"{level:.0%} from", "to", "unit", "")
    if found is None:
        rows = [(*row[:2], *row[5:]) for row in rows]
        head = (*head[:2], *head[5:])
    said = "No intervals are known." if found is None else f"Intervals: {_way(sure)}"
    said += f" Of {', '.join(profiled)} it is the profile's." if profiled else ""
    caption = "Parameters, in the law's own units"
    return table(head, rows, caption, words=(len(head) - 1,)), element("p", said)


def _way(sure: Any) -> str:
    if isinstance(sure, pd.DataFrame):
        return "as given."
    names, kind = getattr(sure, "groups", None), getattr(sure, "kind", "")
    groups = [f"rows in groups by {', '.join(names)}"] if names else []
    if hasattr(sure, "coordinates"):
        way, more = "the sandwich covariance of the fit", groups
    else:
        count = len(next(iter(sure.params.values())))
        way, more = f"percentiles of {count} resamples of the runs", [kind] * bool(kind) + groups
    more = f" ({', '.join(more)})" if more else ""
    return f"{way}{more}; they take the law to be right."


def _evidence(fit: FittedLaw) -> Html:
    if not isinstance(fit, Fit):
        return element("p", "Coefficients of a paper, or that went through JAX: there is none.")
    get = fit.metrics
    items = [
        ("objective", f"{fit.objective:.8g} (sum of Huber, δ {fit.delta:g}, {fit.space})"),
        ("R²", f"{get['r2']:.5f}; of the logarithm {get['r2_log']:.5f}"),
        ("RMSE", f"{get['rmse']:.4g}; of the logarithm {get['rmse_log']:.4g}"),
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


def _plan(plan: Any, source: Any) -> list[Any]:
    """An answer, or a table of them, and its picture."""
    name = "".join(f" {c.lower()}" if c.isupper() else c for c in type(plan).__name__).strip()
    parts: list[Any] = [element("h3", name.capitalize())]
    if isinstance(plan, AnswerTable):
        shown = plan.table.head(_ROWS)
        cells = [[_number(value, 5) for value in row] for row in shown.itertuples(index=False)]
        parts.append(table(list(shown), cells, f"{len(shown)} of {len(plan.table)} rows"))
    elif isinstance(plan, Answer):
        rows = [
            (key.replace("_", " "), _number(value), *_interval(plan, key))
            for key, value in plan.quantities.items()
        ]
        head = ("quantity", "value", f"{plan.level:.0%} from", "to")
        if not plan.interval:
            rows, head = [row[:2] for row in rows], head[:2]
        parts += [
            table(head, rows, "In the units of the runs"),
            element("p", f"What binds: {plan.binding}."),
        ]
    else:
        raise UsageError(f"a plan is an answer of jaxlaw.planning, not {type(plan).__name__}")
    parts += [note_list(plan.notes)] if plan.notes else []
    return [*parts, *(of_plan(plan, source) if can_draw() else [])]


def _interval(plan: Answer, key: str) -> tuple[str, str]:
    low, high = plan.interval.get(key, (np.nan, np.nan))
    return ("", "") if np.isnan([low, high]).all() else (f"{low:.5g}", f"{high:.5g}")
