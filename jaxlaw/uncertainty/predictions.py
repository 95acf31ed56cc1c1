"""Predictions as answers: the target at points, and the loss over a schedule, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._jit import in_float64
from jaxlaw._quantities import Quantity, with_unit, written_range
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import ReadingOptions, as_schedule, read_runs, usual_columns
from jaxlaw.data.formats import read_source
from jaxlaw.errors import UsageError
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

    The interval is of the law's mean, which is taken as right; that of a new run is
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
    law, target = draws.fit.law, draws.fit.law.target
    if (runs is None) == (at is None):
        raise UsageError("say where to predict: a table of points, or at={'N': …}, not both")
    if runs is None:
        given = {name: at[name] for name in at}
    else:
        source = read_source(runs, None, reading.get("format"))
        own = {**reading, "format": None}
        columns = dict(own.pop("columns", None) or {})
        columns = usual_columns(draws.fit, source.frame, columns, reading.get("corpus"))
        given = read_runs(source, columns, **own).table
        if target in given and np.isfinite(given[target].to_numpy(float)).all():
            return draws.fit.score(runs, **reading)
    inputs = draws.fit.checked_inputs(None, {name: given[name] for name in law.input_names}
                                      if runs is not None else given)  # fmt: skip
    points = dict(
        zip(inputs, map(np.atleast_1d, np.broadcast_arrays(*inputs.values())), strict=True)
    )
    values = _of_every_draw(draws, points)
    labels = {spec.name for spec in law.inputs if spec.levels}
    table = pd.DataFrame({name: given[name] if name in labels else points[name]
                          for name in points})  # fmt: skip
    found = interval_columns(target, values, level, draws.degrees)
    outside = np.broadcast_to(draws.fit.is_extrapolation(**points), values[0].shape)
    units = draws.fit.input_units()
    if len(table) == 1:
        return _of_one(draws, table.iloc[0].to_dict(), found, bool(outside[0]), units, level)
    table = table.assign(**found, outside=outside)
    between = written_range(values[0].min(), values[0].max(), *units[target])
    sentence = f"{len(table):,} points: {target} {between} {units[target][0]}".rstrip()
    sentence += f"; {int(outside.sum()):,} of them outside the fitted range"
    return Answer(
        kind="prediction", sentence=sentence, tables={"points": table}, units=units, level=level
    )  # fmt: skip


def _of_one(
    draws: Draws, row: dict[str, Any], found: Mapping[str, np.ndarray], outside: bool,
    units: dict[str, tuple[str, float]], level: float,
) -> Answer:  # fmt: skip
    """The answer of a single point: its inputs, the prediction, and how far it is from the runs."""
    fit, target = draws.fit, draws.fit.law.target
    where = ", ".join(
        with_unit(spec.name, row[spec.name], units[spec.name][1], spec.counts)
        if not spec.levels
        else f"{spec.name} {row[spec.name]}"
        for spec in fit.law.inputs
    )
    bounds = [float(found[f"{target}_{end}"][0]) for end in ("low", "high") if len(found) > 1]
    quantity = Quantity(float(found[target][0]), *units[target], *bounds)
    numbers = {name: value for name, value in row.items() if not isinstance(value, str)}
    beyond = fit.times_beyond(numbers)
    sentence = f"{where}: {target} {{{target}}}"
    if outside and not beyond > 1:
        sentence += "; outside the fitted range"
    return Answer(
        kind="prediction", sentence=sentence, quantities={target: quantity}, units=units,
        level=level, beyond=beyond if not outside or beyond > 1 else np.nan, point=row,
        facts={"outside": outside},
    )  # fmt: skip


def _of_every_draw(draws: Draws, points: Mapping[str, np.ndarray]) -> np.ndarray:
    """(1 + R, k) predictions at k points in the units of the runs, of the fit and of its draws."""
    fit, values = draws.fit, draws.values
    size = len(next(iter(points.values())))
    if fit.law.inputs_per_drop:  # their inputs have an axis that parameters have not
        every = [{name: one[row] for name, one in values.items()} for row in range(draws.rows)]
        return np.stack([fit.with_params(params).predict(**points) for params in every])
    params = {name: np.repeat(one, size) for name, one in values.items()}
    inputs = {name: np.tile(one * fit.units[name], draws.rows) for name, one in points.items()}
    with in_float64():
        return np.asarray(fit.law.evaluate(params, **inputs)).reshape(draws.rows, size)


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
        S1_before: sum of the rates of the steps up to there.
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
    options: dict[str, Any] = {
        "first_step": first_step, "S1_before": S1_before, "area_options": area_options,
        "batch": batch,
    }  # fmt: skip

    def along(at_steps: Any) -> pd.DataFrame:
        table = fitted.predict_curve(schedule, at_steps, **options, **inputs)
        if draws.rows > 1:
            areas = areas_of_schedule(fitted, schedule, at_steps, **options)[1]
            points = fitted.checked_inputs(areas, inputs)
            arrays = np.broadcast_arrays(*points.values())
            values = _of_every_draw(draws, dict(zip(points, arrays, strict=True)))
            table = table.assign(**interval_columns(target, values, level, draws.degrees))
        return table

    table = along(np.atleast_1d(steps))
    end = table.loc[table["step"].idxmax()]
    bounds = [float(end[f"{target}_{side}"]) for side in ("low", "high") if draws.rows > 1]
    parts = [f"{target} {{{target}}}"]
    parts += [f"{name} {end[name]:+.3g}" for name in ("annealing", "shift") if end[name]]
    share = table["outside"].mean()
    where = (
        f"{share:.0%} of these steps lie beyond the fitted curves"
        if share
        else ("within the fitted curves")
    )
    units = dict.fromkeys((target, "base", "annealing", "shift"), fitted.input_units()[target])
    return Answer(
        kind="curve", sentence=f"after {end['step']:,} steps: {', '.join(parts)}; {where}",
        quantities={target: Quantity(float(end[target]), *units[target], *bounds)},
        tables={"curve": table}, units=units, level=level,
        curves=lambda: {"curve": along(None)},
    )  # fmt: skip
