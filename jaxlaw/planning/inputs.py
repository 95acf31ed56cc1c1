"""Any inputs of a law: where its loss, or the compute, is least, and where it reaches a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer, Tables
from jaxlaw._quantities import checked_number
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.errors import DataError
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Budget, Corpus
from jaxlaw.planning._frame import (
    fewest_degrees,
    law_inputs,
    missing_draws_notes,
    off_centre_notes,
    plan_answer,
    source_notes,
)
from jaxlaw.planning._optimise import (
    LEAST_SHARE,
    Best,
    Question,
    crossing,
    epochs_notes,
    flops,
    question_of,
    relative_excess,
    searched_inputs,
    searched_range,
    total_cost,
    values_at,
)
from jaxlaw.uncertainty import LEVEL, as_draws, interval_columns


@checked
def minimise(
    fit: Any,
    over: Mapping[str, tuple[float | str | None, float | str | None] | None],
    *,
    subject_to: Sequence[Budget | Corpus | AtMost] = (),
    at: Mapping[str, float | str] | None = None,
    tolerance: Annotated[float, Between(0, 1)] = 1e-3,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The inputs at which a law predicts its lowest loss, under constraints.

    For any law and any of its inputs, also for a law of your own with a learning rate or a batch.
    :func:`allocation`, :func:`min_compute` and :func:`optimal_mixture` answer special cases of it
    and say more of each.

    Args:
        fit: fit of the loss: a Fit, (law, params), a bootstrap, draws or a forecast; or
            :class:`Compute`, which is then made least under a limit on a loss.
        over: input → (least, largest) between which it is searched, in the units of the fitted
            runs, None for an open side. Or input → None: N from 1e3 to 1e20, D from 1e3 to 1e24, a
            share from 0 to 1, any other input over the range of the runs.
        subject_to: constraints, each a :class:`Budget`, a :class:`Corpus` or an :class:`AtMost`.
        at: values of all other inputs, in the units of the fitted runs.
        tolerance: relative excess of the loss (or compute) within which values count as near the
            best.
        level: confidence level of the intervals.

    Returns:
        Answer with each input's best value by its name, ``loss`` there (of a law whose loss is made
        least), ``loss[label]`` of each limited loss, ``compute`` in FLOPs, those of serving
        included (of laws with N and D), the facts ``best``, input → best value, and ``binding``,
        the active constraints, and the table ``near``, whose two rows are the ends between which
        each input may lie so that the loss, or compute, is within ``tolerance`` of the lowest, all
        others at their best. Where no values keep all limits its numbers are NaN, with the note
        ``none-allowed``, and there are no ends.

    Raises:
        UsageError: an input is missing or unknown, a range is empty or unknown, a constraint
            limits nothing that is searched, or too many inputs are.
        DataError: the loss falls all the way to the end of a search that nothing limits.

    Example:
        >>> from jaxlaw.laws import positive, power
        >>> @jl.law
        ... def with_rate(D, lr, *, E=positive(1, 3), B=positive(1, 1e3), best=positive(1e-4, 0.1)):
        ...     return E + B * power(D, -0.3) * (1 + power(lr / best, 1) + power(best / lr, 1))
        >>> fit = (with_rate, {"E": 1.7, "B": 400.0, "best": 2e-3})
        >>> plan = jl.planning.minimise(fit, over={"lr": (1e-4, 1e-2)}, at={"D": 1e11})
        >>> f"{plan.best['lr']:.4f}, {plan.near['lr'][0]:.4f} to {plan.near['lr'][1]:.4f}"
        '0.0020, 0.0018 to 0.0022'

    Shell:
        jaxlaw plan minimise fit.json --over N --over D=:1e12 --subject-to budget:1e22
    """
    question = question_of(fit, over, subject_to, at)
    found = question.best()
    if found.ended[0, 0] and (question.has_closed_form or found.kept[0, 0]):
        raise DataError(question.without_end(found))
    reference = question.reference
    values = {name: column[:, 0] for name, column in question.values(found).items()}
    given = [name for name, column in values.items() if np.ptp(column) <= SAME * abs(column[0])]
    numbers = {name: float(column[0]) for name, column in values.items()}
    best = {name: numbers[name] for name in question.order}
    notes = [*question.notes(best), *missing_draws_notes(values[question.order[0]], "optimum")]
    notes += off_centre_notes(reference, values.get("loss", np.empty(0)))
    facts, near, flat = {"binding": "none"}, {}, {}
    if found.kept[0, 0]:
        limited = {label: numbers[f"loss[{label}]"] for label in question.labels}
        facts["binding"] = question.binding(best, limited, numbers.get("compute", math.nan))
        near = question.near(math.log1p(tolerance), found.point[0, 0])
        if question.form.law is not None and reference.noise > 0:
            flat = question.near(reference.noise, found.point[0, 0])
    else:
        notes.insert(0, Note("none-allowed", "error", question.not_allowed()))
    sentence = "best " + ", ".join(f"{name} {{{name}}}" for name in best)
    known = [name for name in ("loss", "compute") if name in numbers]
    sentence += ": " + ", ".join(f"{name} {{{name}}}" for name in known)
    if near:
        near = {"near": pd.DataFrame({f"within {100 * tolerance:.3g}%": ("from", "to"), **near})}
    return plan_answer(
        "minimum", sentence, reference, values, level=level, given=given, flat=flat,
        degrees=fewest_degrees(question.sources), at={**reference.inputs_taken(at), **best},
        notes=dict.fromkeys(notes), facts={**facts, "best": best}, tables=near,
        units={"loss": TARGET}, curves=lambda: _around(question, found, level),
    )  # fmt: skip


def _around(question: Question, found: Best, level: float) -> Tables:
    """What is least along the one coordinate (``line``), or over the first two (``grid``).

    All others are at their best. It goes as far as the loss rises by 10 % on a line and by 2 % on
    a grid, and compute to the thirtyfold.
    """
    point, free = found.point[0, 0], question.form.free[:2]
    if not free or not found.kept[0, 0]:
        return {}
    count, rise = ((101, 0.1), (14, 0.02))[len(free) - 1]
    rise = 29.0 if question.form.law is None else rise
    fit = tuple({name: v[:1] for name, v in own.items()} for own in question.params)
    sides = []
    for k in range(len(free)):
        points = np.tile(point, (2001, 1))
        points[:, k] = np.linspace(0, 1, 2001)
        (values,), _ = values_at(question.form, fit, question.given, points)
        shown = points[relative_excess(values, values.min()) <= rise, k]
        sides.append(np.linspace(shown[0], shown[-1], count))
    points = np.tile(point, (count ** len(free), 1))
    points[:, : len(free)] = np.stack([axis.ravel() for axis in np.meshgrid(*sides)], axis=1)
    draws = question.params if len(free) == 1 else fit
    values, raw = values_at(question.form, draws, question.given, points)
    values = np.where(np.isfinite(values), values, np.nan)
    table = {name: raw[name][0] / question.reference.scale(name) for name in (*free, *raw)}
    what = "compute" if question.form.law is None else "loss"
    table |= interval_columns(what, values, level, fewest_degrees(question.sources))
    return {"line" if len(free) == 1 else "grid": pd.DataFrame(table)}


@checked
def solve(
    fit: Any,
    for_: str,
    loss: float,
    *,
    between: tuple[float | str | None, float | str | None] | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The value of one input at which a law reaches a loss, all others given.

    For any law and any of its inputs. :func:`tokens_or_size_for` answers for N and D, also by a
    budget.

    Args:
        fit: fit of the loss: a Fit, (law, params), a bootstrap, draws or a forecast.
        for_: name of the input.
        loss: loss to reach, in nats.
        between: least and largest value between which it is searched, in the units of the fitted
            runs, None for an open side; left out, as ``over`` of :func:`minimise` has it.
        at: values of all other inputs, in the units of the fitted runs.
        level: confidence level of the interval.

    Returns:
        Answer with the input's value by its name, ``loss``, and ``compute`` in FLOPs of laws with
        N and D. Where several values reach the loss it is the least of them, with the note
        ``several-solutions``; where none does, it is infinite of N and D and else NaN, with the
        note ``out-of-reach``.

    Raises:
        UsageError: an input is missing or unknown, or a range is empty or unknown.

    Example:
        >>> fit = jl.published()["besiroglu-2024"]
        >>> print(f"{jl.planning.solve(fit, for_='D', loss=2.1, at={'N': 7e9}).D:.3g} tokens")
        6.11e+11 tokens

    Shell:
        jaxlaw plan solve fit.json --for D --loss 2.1 --at N=7e9
    """
    (source,) = as_draws(fit)
    (spec,) = searched_inputs(source, (for_,), "for_").values()
    target = checked_number("loss", loss, "real")
    others = law_inputs(source, at, (for_,))
    span = searched_range(source, spec, between, "between")
    log, (low, high, *_) = span.log, span.sides
    if spec.domain == "fraction" and spec.above_zero:
        low = max(low, LEAST_SHARE)
    x, _, count, lowest = crossing(source, for_, log, target, low, high, others)
    # Without a crossing it lies beyond an end of the search, where nothing limits that.
    raw = np.where(np.isnan(x), np.nan, np.exp(x) if log else x)
    raw = np.where((x == np.inf) & ~span.open[1] | (x == -np.inf) & ~span.open[0], np.nan, raw)
    values = {for_: raw / source.scale(for_), "loss": np.full(len(raw), target)}
    units = {spec.name: spec.unit for spec in source.law.inputs}
    known = {name: np.full(len(raw), value * units[name]) for name, value in others.items()}
    known[for_] = raw
    if {"N", "D"} <= set(known):
        with np.errstate(divide="ignore"):
            cost = total_cost(None, source)
            values["compute"] = flops(cost, np.log(known["N"]), np.log(known["D"]))
    value, notes = float(values[for_][0]), []
    if np.isinf(x[0]):
        end = f"; it comes down to {lowest[0]:.5g}"
        message = f"the law does not reach a loss of {target:g} at any {for_} that is searched{end}"
        if x[0] < 0:
            message = f"the loss is below {target:g} at every {for_} that is searched"
        notes.append(Note("out-of-reach", "error", message))
    elif count[0] > 1:
        message = (
            f"the law has a loss of {target:g} at {count[0]} values of {for_}; this is the least: "
            "between= says where another is to be searched"
        )
        notes.append(Note("several-solutions", "warning", message))
    there = {**(at or {}), for_: value}
    notes += [*source_notes(source, **there), *missing_draws_notes(raw, "solution")]
    notes += epochs_notes(source, others, value, None) if for_ == "D" else []
    spent = ", {compute}" * ("compute" in values)
    return plan_answer(
        "solution", f"loss {{loss}}: {for_} {{{for_}}}{spent}", source, values, level=level,
        at=there, given=["loss"], notes=notes,
    )  # fmt: skip
