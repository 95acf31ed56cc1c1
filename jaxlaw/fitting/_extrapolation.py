"""Where a point lies beyond the fitted runs: input by input, and two inputs together.

A range of each input is a box, and runs seldom fill one: with 20 tokens/parameter everywhere, a
small model on the tokens of the largest lies inside both ranges and is an extrapolation all the
same. So the products and ratios of any two positive inputs have ranges too: in logarithms the box
loses its corners. A hull of the points themselves would be tighter; this one can be put in words,
D/N = 1,000 where the runs have 10 to 40, and saved in four numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from jaxlaw._quantities import grouped, written, written_range
from jaxlaw._rounding import SAME
from jaxlaw.data import AREAS
from jaxlaw.laws import Input

Ranges = Mapping[str, tuple[float, float]]

ANNEALED = 0.02  # of the fitted range of S2: a law is linear in it, and does not distinguish these
SPAN = 0.05  # of the shorter of two logarithmic ranges, for their product and ratio


def joint_ranges(specs: Sequence[Input], inputs: Mapping[str, np.ndarray]) -> Ranges:
    """Ranges of the products and ratios of any two positive inputs.

    Areas of learning rates are left out: schedules of different shapes are what their laws are for.

    Args:
        specs: the law's inputs.
        inputs: name → (n,) of the fitted runs, in the unit of the ranges.

    Returns:
        ``"N*D"`` and ``"D/N"`` → (lowest, highest), for each pair.
    """
    ranges, names = {}, []
    for spec in specs:
        positive = spec.domain == "real" and inputs[spec.name].min() > 0
        if (positive or spec.domain == "positive") and not spec.per_drop and spec.name not in AREAS:
            names.append(spec.name)
    with np.errstate(over="ignore", under="ignore"):
        for first, second in itertools.combinations(names, 2):
            for label in (f"{first}*{second}", f"{second}/{first}"):
                values = _joint(label, inputs)
                if np.isfinite(values).all() and (values > 0).all():
                    ranges[label] = (float(values.min()), float(values.max()))
    return ranges


def parts_of(label: str) -> tuple[str, str]:
    """The two inputs of a product or ratio."""
    first, _, second = label.replace("/", "*").partition("*")
    return first, second


def _joint(label: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
    first, second = (np.asarray(values[name], float) for name in parts_of(label))
    return first / second if "/" in label else first * second


def outside_range(
    ranges: Ranges, joint: Ranges, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Which points lie beyond the runs, by input and by product or ratio of two.

    Args:
        ranges: input → (lowest, highest) fitted. Everything lies outside a range that is unknown
            (NaN), and nothing outside one that is left out.
        joint: ranges of products and ratios, as of :func:`joint_ranges`. They are applied to
            points inside both single ranges.
        values: input → values of any shape, of one unit with the ranges.

    Returns:
        Input, product or ratio → flags, of the shape of its values.
    """
    values, outside = {name: np.asarray(value, float) for name, value in values.items()}, {}
    for name, value in values.items():
        low, high = ranges.get(name, (-np.inf, np.inf))
        slack = SAME * max(abs(low), abs(high)) if np.isfinite([low, high]).all() else 0.0
        if name in AREAS and name.startswith("S2") and slack:
            # Not S1: a law is a power of it, and steps before the first fitted one are far away.
            slack = max(slack, ANNEALED * (high - low))
        outside[name] = np.logical_not((value >= low - slack) & (value <= high + slack))
    for label, (low, high) in joint.items():
        pair = parts_of(label)
        if not (set(pair) <= set(values) and all(ranges[name][0] > 0 for name in pair)):
            continue
        with np.errstate(all="ignore"):
            span = min(np.log(ranges[name][1] / ranges[name][0]) for name in pair)
            near, at = np.exp(SPAN * span) * (1 + SAME), _joint(label, values)
            inside = (at >= low / near) & (at <= high * near)
        # Where a single range is left, that says it.
        outside[label] = np.logical_not(inside | outside[pair[0]] | outside[pair[1]])
    return outside


def range_message(
    label: str,
    ranges: Ranges,
    joint: Ranges,
    values: Mapping[str, float],
    units: Mapping[str, tuple[str, float]],
) -> str:
    """A number that lies beyond the runs, in words; ``units`` as of ``FittedLaw.input_units``."""
    low, high = ranges[label] if label in ranges else joint[label]
    value = values[label] if label in ranges else float(_joint(label, values))
    unit = units.get(label, ("", 1.0))
    if label not in ranges:
        # Of single things, as people say it: 20 tokens/parameter, whatever the runs count in.
        first, second = (units.get(name, ("", 1.0))[1] for name in parts_of(label))
        worth = first / second if "/" in label else first * second
        value, low, high = worth * value, worth * low, worth * high
        if "/" in label:  # as plans write tokens/parameter
            return f"{label} = {grouped(value)} (fitted {grouped(low)} to {grouped(high)})"
    fitted = written(low, *unit) if low == high else written_range(low, high, *unit)
    return f"{label} = {written(value, *unit)} (fitted {fitted})"
