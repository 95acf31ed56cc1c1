"""Predictions as answers: the target at points, and the loss over a schedule, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._quantities import Quantity, exponential, readable, written_range
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import ReadingOptions, as_schedule
from jaxlaw.errors import UsageError
from jaxlaw.fitting import runs_for
from jaxlaw.fitting._schedule_areas import areas_of_schedule
from jaxlaw.uncertainty._draws import Draws, as_draws
from jaxlaw.uncertainty._intervals import LEVEL, interval_columns

_SHOWN = 20  # points of a curve in its table


@checked
def prediction(
    fit: Any,
    runs: Any = None,
    *,
    at: Any = None,
    level: ConfidenceLevel = LEVEL,
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """Predict the target at new points, with intervals where the parameters have draws.

    The interval is of the law's mean, which is assumed correct; that of a new run is
    :func:`jaxlaw.forecast`'s. A table that has the target, too, is scored (:meth:`jaxlaw.FittedLaw.score`).

    Args:
        fit: saved fit, bootstrap, covariance or forecast.
        runs: table of points, with the columns and units of the fitted runs.
        at: points in place of a table: input → value or values, such as N=7e9,D=1e12.
        level: confidence level of the intervals.
        **reading: options of :func:`jaxlaw.read_runs`.

    Returns:
        Answer of kind ``prediction``: the target (``loss``) of one point as a quantity, of
        several as the table ``points``; or the scores of observations.

    Raises:
        UsageError, DataError: no points, or as :meth:`jaxlaw.FittedLaw.predict` raises.

    Example:
        >>> found = jl.uncertainty.prediction(jl.published()["hoffmann-2022"], at={"N": 7e10, "D": 1.4e12})
        >>> print(found.quantities["loss"])
        1.937 nats

    Shell:
        jaxlaw predict fit.json --at N=1e9,7e9,D=1e12
    """  # noqa: E501
    (draws,) = as_draws(fit)
    fitted, law, target = draws.fit, draws.fit.law, draws.fit.law.target
    if (runs is None) == (at is None):
        raise UsageError("give either a table of points or at= (--at N=1e9)")
    given = at
    if runs is not None:
        read = runs_for(fitted, runs, reading).table
        if target in read and np.isfinite(read[target].to_numpy(float)).all():
            return fitted.score(runs, **reading)
        given = {name: read[name] for name in law.input_names if name in read}
    inputs = fitted.checked_inputs(None, given)
    arrays = map(np.atleast_1d, np.broadcast_arrays(*inputs.values()))
    points = law.labelled(dict(zip(inputs, arrays, strict=True)))
    values, table = _by_every_draw(draws, points), pd.DataFrame(points)
    found = interval_columns(target, values, level, draws.degrees)
    outside = np.broadcast_to(fitted.is_extrapolation(**points), values[0].shape)
    units = fitted.input_units()
    if len(table) > 1:
        table = table.assign(**found, outside=outside)
        between = written_range(values[0].min(), values[0].max(), *units[target])
        sentence = f"{len(table):,} points: {target} {between} {units[target][0]}".rstrip()
        sentence += f"; {int(outside.sum()):,} of them outside the fitted range"
        return Answer(
            kind="prediction", sentence=sentence, tables={"points": table}, units=units, level=level
        )  # fmt: skip
    # Of a single point: its inputs, the prediction, and how far it is from the runs.
    row = table.iloc[0].to_dict()
    words = []
    for spec in law.inputs:  # of counts what they mean, too: D 15 T tokens (15000 × 1e9)
        value, unit = row[spec.name], units[spec.name][1]
        own = value if spec.levels else exponential(value, 12)
        if spec.counts:
            own = f" ({own} × {exponential(unit)})" if unit != 1 else ""
            own = f"{readable(value * unit, spec.counts)}{own}"
        words.append(f"{spec.name} {own}")
    where = ", ".join(words)
    bounds = [float(found[f"{target}_{end}"][0]) for end in ("low", "high") if len(found) > 1]
    quantity = Quantity(float(found[target][0]), *units[target], *bounds)
    beyond = fitted.times_beyond({k: v for k, v in row.items() if not isinstance(v, str)})
    far = beyond > 1
    sentence = f"{where}: {target} {{{target}}}"
    if outside[0] and not far:
        sentence += "; outside the fitted range"
    return Answer(
        kind="prediction", sentence=sentence, quantities={target: quantity}, units=units,
        level=level, beyond=beyond if far or not outside[0] else np.nan, point=row,
        facts={"outside": bool(outside[0])},
    )  # fmt: skip


def _by_every_draw(draws: Draws, points: Mapping) -> np.ndarray:
    """(1 + R, k) predictions at k points in the units of the runs, of the fit and of its draws."""
    own = draws.fit.predict(**points)[None]
    return np.concatenate([own, draws.predict(**points)]) if draws.params else own


@checked
def predicted_curve(
    fit: Any,
    schedule: Any,
    *,
    steps: Any = None,
    at: Mapping[str, Any] | None = None,
    first_step: int = 0,
    S1_before: float = 0.0,
    area_options: Mapping[str, Any] | None = None,
    batch: Any = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """Predict the loss over the steps of a schedule, with the interval of every step.

    Args:
        fit: saved fit of loss curves, or a bootstrap or covariance of it, whose draws give the
            intervals.
        schedule: Schedule, or a line such as wsd:peak=2e-4,steps=50000,warmup=500.
        steps: steps of the table; 20 of the schedule's by default.
        at: the law's other inputs, in units of the fitted runs.
        first_step: step after which the schedule begins, as ``steps`` counts.
        S1_before: sum of the learning rates up to there.
        area_options: options of the areas, such as ``decay``, for a law that does not know them.
        batch: batch size relative to the reference batch: a number, or a pair for both phases.
        level: confidence level of the intervals.

    Returns:
        Answer of kind ``curve``: the target after the last step, and the table ``curve`` with a
        row a step, as :meth:`jaxlaw.FittedLaw.predict_curve` has it.

    Raises:
        UsageError, DataError: as :meth:`jaxlaw.FittedLaw.predict_curve` raises.

    Example:
        >>> wang = jl.published()["wang-2025-pt"]
        >>> line = "cosine:peak=2e-4,steps=40000 + constant:lr=2e-4,steps=10000"
        >>> found = jl.uncertainty.predicted_curve(wang, line, steps=[50_000], at={"r": 0.5})
        >>> list(found.quantities)
        ['loss']

    Shell:
        jaxlaw curve curve-fit.json wsd:peak=3e-4,steps=24000,warmup=2000
    """
    (draws,) = as_draws(fit)
    fitted, schedule = draws.fit, as_schedule(schedule)
    target, inputs = fitted.law.target, dict(at or {})
    if steps is None:
        last = len(schedule)
        count = min(_SHOWN, last)
        steps = first_step + np.unique(np.linspace(last / count, last, count).astype(int))
    options = {
        "first_step": first_step, "S1_before": S1_before, "area_options": area_options,
        "batch": batch,
    }  # fmt: skip

    def along(at_steps):
        table = fitted.predict_curve(schedule, at_steps, **options, **inputs)
        if draws.rows > 1:
            areas = areas_of_schedule(fitted, schedule, at_steps, **options)[1]
            values = _by_every_draw(draws, areas | inputs)
            table = table.assign(**interval_columns(target, values, level, draws.degrees))
        return table

    table = along(np.atleast_1d(steps))
    end = table.loc[table["step"].idxmax()]
    bounds = [float(end[f"{target}_{side}"]) for side in ("low", "high") if draws.rows > 1]
    parts = [f"{target} {{{target}}}"]
    parts += [f"{name} {end[name]:+.3g}" for name in ("annealing", "shift") if end[name]]
    share = table["outside"].mean()
    where = f"{share:.0%} of these steps lie beyond" if share else "within"
    sentence = f"after {end['step']:,} steps: {', '.join(parts)}; {where} the fitted curves"
    units = dict.fromkeys((target, "base", "annealing", "shift"), fitted.input_units()[target])
    return Answer(
        kind="curve", sentence=sentence,
        quantities={target: Quantity(float(end[target]), *units[target], *bounds)},
        tables={"curve": table}, units=units, level=level,
        curves=lambda: {"curve": along(None)},
    )  # fmt: skip
