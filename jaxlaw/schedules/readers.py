"""Schedules from elsewhere: an optax schedule, the rates a run logged, a line of text."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._tables import read_table
from jaxlaw._typed import StepCount, checked
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.schedules.shapes import (
    Schedule,
    constant,
    cosine,
    inverse_sqrt,
    join,
    linear,
    two_stage,
    warmup,
    whole_number,
    wsd,
)


@checked
def from_optax(schedule: Callable[[Any], Any], steps: StepCount, count: int = 0) -> Schedule:
    """The rates that an optax schedule (any callable of optax's count) gives to ``steps`` updates.

    Args:
        count: optax's count at step 1. In an optimizer it is 0, so the first update uses
            ``schedule(0)``, and ``optax.cosine_decay_schedule(peak, steps)`` ends one step
            short of its final rate. With 1 it ends there, like the schedules of this module.

    η_0 is the rate one count earlier; at count 0 that of step 1, no jump.
    """
    counts = np.arange(count - 1, count + whole_number("steps", steps)).clip(0)
    try:
        with in_float64():
            rates = np.asarray(jax.vmap(schedule)(counts), float)
    except jax.errors.ConcretizationTypeError:  # a Python function with branches
        rates = np.array([float(schedule(int(one))) for one in counts])
    except Exception as error:  # the user's own function
        raise UsageError(f"schedule(count) does not give a rate: {error}") from error
    name = getattr(schedule, "__name__", "optax")
    return Schedule(rates[1:], float(rates[0]), None, name)


@checked
def from_column(
    runs: Any,
    steps: str = "step",
    lr: str = "lr",
    fill: Literal["hold", "linear"] | None = None,
) -> Schedule:
    """The rates a run logged.

    Args:
        runs: DataFrame; path of a CSV; or (rows, 2) array of steps and rates.
        steps: column of the steps, which increase by 1.
        lr: column of the rate each step used.
        fill: what unlogged steps between logged ones had: the rate logged last (``hold``) or
            a straight line to the next (``linear``). Left out, they are an error.

    η_0 is the first logged rate: no jump. Step 1 of the schedule is the first logged step; what
    went before it, a warm-up say, goes to ``areas(…, S1_before=)`` as the sum of its rates.

    Raises:
        DataError: a missing column, or a row whose step or rate does not fit.
    """
    at, rates, source = _columns(runs, steps, lr)
    bad = ~(np.isfinite(rates) & (rates >= 0) & (at == np.floor(at)))
    gaps = np.diff(at)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{source}, row {row}: step {at[row]:g}, rate {rates[row]:g}; steps must be whole "
            "numbers, rates finite and not negative: correct or drop that row"
        )
    if (gaps <= 0).any():
        row = int(np.argmax(gaps <= 0)) + 1
        raise DataError(
            f"{source}, row {row}: step {at[row]:.0f} after {at[row - 1]:.0f}; steps must "
            "increase: sort the rows, and keep one run and one row a step"
        )
    if fill is None and (gaps > 1).any():
        row = int(np.argmax(gaps > 1)) + 1
        raise DataError(
            f"{source}, row {row}: steps {at[row - 1] + 1:.0f} to {at[row] - 1:.0f} are missing; "
            "fill='hold' repeats the rate logged last, fill='linear' draws a line between"
        )
    every = np.arange(at[0], at[-1] + 1)
    if fill == "hold":
        filled = rates[np.searchsorted(at, every, side="right") - 1]
    elif fill in ("linear", None):
        filled = np.interp(every, at, rates)
    else:
        raise UsageError(f"fill must be 'hold' or 'linear', not {fill!r}")
    return Schedule(filled, float(rates[0]), None, source)


@checked
def parse(text: str) -> Schedule:
    """A schedule in one line, for the shell: ``wsd:peak=2e-4,steps=50000,decay=0.2``.

    A name of this module, a colon, and the arguments of that function. ``warmup=2000`` counts
    among the steps: the first 2,000 of them rise to where the rest begins, from ``start``
    (0 if left out); ``decay``, ``decay_steps`` and ``switch`` are about the rest. ``+`` joins
    pre-training and a continued phase:
    ``cosine:peak=3e-4,steps=9000+linear:peak=1e-4,steps=1000,warmup=100``.

    Raises:
        UsageError: an unknown name, an argument that is missing, unknown or no number, or
            what the function itself refuses.
    """
    # A plus sign inside a number, 1e+4, is followed by a digit; a phase begins with a letter.
    phases = [_parse_phase(one) for one in re.split(r"\+(?=\s*[A-Za-z_])", text)]
    if len(phases) > 2:
        raise UsageError(f"{text!r} has {len(phases)} phases; '+' joins two at most")
    return join(*phases) if len(phases) == 2 else phases[0]


def _parse_phase(text: str) -> Schedule:
    name, _, rest = text.strip().partition(":")
    if name not in _NAMED:
        raise UsageError(
            f"no schedule {name!r}; there are {', '.join(_NAMED)}.{nearest(name, _NAMED)}"
        )
    accepted = [*inspect.signature(_NAMED[name]).parameters, "warmup", "start"]
    given: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = (one.strip() for one in part.partition("="))
        if not equals or key not in accepted:
            hint = nearest(key, accepted)
            raise UsageError(
                f"{name} takes {', '.join(accepted)}, as name=value; not {part!r}.{hint}"
            )
        given[key] = value if key == "shape" else _number(key, value)
    rise, start = given.pop("warmup", 0), given.pop("start", 0.0)
    if "steps" in given and rise >= given["steps"]:
        raise UsageError(
            f"warmup={rise:g} leaves none of {given['steps']:g} steps; make it shorter"
        )
    needed = inspect.signature(_NAMED[name]).parameters.values()
    missing = [one.name for one in needed if one.default is one.empty and one.name not in given]
    if missing:
        raise UsageError(f"{text.strip()!r} lacks an argument: {', '.join(missing)}")
    schedule = _NAMED[name](**{**given, "steps": given["steps"] - rise})
    return warmup(schedule, rise, start) if rise else schedule


_NAMED: dict[str, Callable[..., Schedule]] = {
    one.__name__: one for one in (constant, linear, cosine, inverse_sqrt, two_stage, wsd)
}


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{key}={value} is not a number") from None


def _columns(runs: Any, steps: str, lr: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Steps, rates, and what to call their source."""
    source = type(runs).__name__
    if isinstance(runs, str | os.PathLike):
        table = read_table(runs)
        source, runs = os.path.basename(table.source), table.frame
    if not isinstance(runs, pd.DataFrame):
        try:
            values = np.asarray(runs, float)
        except (TypeError, ValueError, OverflowError):
            values = np.zeros(0)
        if values.ndim != 2 or values.shape[1] != 2:
            raise UsageError(
                "a log is a DataFrame, a file, or an array (rows, 2) of steps and rates, not "
                f"{source} of shape {values.shape}"
            )
        runs = pd.DataFrame(values, columns=[steps, lr])
    for column in (steps, lr):
        if column not in runs:
            names = [str(one) for one in runs.columns]
            raise DataError(
                f"{source} has no column {column!r}; it has {', '.join(names)}"
                f"{nearest(column, names)}"
            )
    if not len(runs):
        raise DataError(f"{source} has no rows")
    numbers = (pd.to_numeric(runs[one], errors="coerce") for one in (steps, lr))
    step, rate = (np.asarray(one, float) for one in numbers)
    return step, rate, source
