"""The lowest loss, or the least compute, over any inputs of a law, under constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.errors import DataError
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    Pictured,
    context_of_inputs,
    fewest_degrees,
    keeps_question,
    missing_draws_notes,
    off_centre_notes,
    without,
)
from jaxlaw.planning._constraints import AtMost, Budget, Corpus
from jaxlaw.planning._flat import as_good, relative_excess
from jaxlaw.planning._question import Question, question_of
from jaxlaw.planning._searches import minimum, values_at
from jaxlaw.uncertainty import LEVEL, with_intervals

# The range of near-optimal values: grids of so many points a coordinate, each around the last.
NEAR_POINTS = {1: 2001, 2: 65, 3: 25, 4: 13}
NEAR_ROUNDS = 6


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Minimum(Pictured, Answer):
    """The best values of inputs.

    Attributes:
        best: input → best value, in the units of the fitted runs.
        loss: loss there, in nats; NaN where compute is made least.
        limited: label of a limited loss → that loss there, in nats.
        compute: FLOPs of the run, those of serving included; NaN for a law without N or D.
        near: input → (low, high) between which the loss, or compute, lies within ``tolerance`` of
            the lowest, all other inputs at their best.
        tolerance: relative excess of ``near``.
    """

    best: dict[str, float]
    loss: float = field(metadata={"unit": TARGET})
    limited: dict[str, float]
    compute: float = field(metadata={"unit": "FLOPs"})
    near: dict[str, tuple[float, float]]
    tolerance: float = field(metadata={"setting": True, "unit": SHARE})
    limited_by = "over"

    @property
    def quantities(self) -> dict[str, float]:
        """The best inputs, the losses there and the compute, those that there are."""
        named = {**self.best, "loss": self.loss}
        named |= {f"loss[{label}]": value for label, value in self.limited.items()}
        named |= {"compute": self.compute}
        return {
            name: value
            for name, value in named.items()
            if name in self.best or name in self.interval or not math.isnan(value)
        }

    @property
    def _within(self) -> str:
        """What the ranges of near-optimal values are, in words."""
        what = "compute" if math.isnan(self.loss) else "loss"
        return f"within {100 * self.tolerance:.3g}% of the lowest {what}"

    def shown(self) -> dict[str, pd.DataFrame]:
        """The ranges of near-optimal values."""
        rows = [(name, self._between(name, "near")) for name in self.near]
        near = pd.DataFrame(rows, columns=["quantity", "from … to"])
        return {**super().shown(), **({self._within: near} if rows else {})}

    def sentence(self) -> str:
        """The best inputs, and what is reached there."""
        if any(map(math.isnan, self.best.values())):
            return ""
        names, level = [], True
        for name in self.best:
            names.append(f"{name} {self.written(name, level=level and name in self.interval)}")
            level = level and name not in self.interval
        known = [n for n in ("loss", "compute") if not math.isnan(self.quantities.get(n, math.nan))]
        reached = ", ".join(f"{name} {self.written(name)}" for name in known)
        return f"best {', '.join(names)}: {reached}"

    def lines(self) -> list[str]:
        """Its numbers, what binds, and the ranges of near-optimal values."""
        near = [f"{self._within}: {name} {self._between(name, 'near')}" for name in self.near]
        return [*super().lines(), *near]

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        own = without(question, "fit", "over", "tolerance")
        return "minimum", (question["fit"], question["over"]), {"answer": self, **own}


@keeps_question
@checked
def minimise(
    fit: Any,
    over: Mapping[str, tuple[float | str | None, float | str | None] | None],
    *,
    subject_to: Sequence[Budget | Corpus | AtMost] = (),
    at: Mapping[str, float | str] | None = None,
    tolerance: Annotated[float, Between(0, 1)] = 1e-3,
    level: ConfidenceLevel = LEVEL,
) -> Minimum:
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
        :class:`Minimum`. Where no values keep all limits its numbers are NaN, with the note
        ``none-allowed``.

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
    raw, losses, ended, kept, point = minimum(question.form, question.params, question.given)
    if ended[0]:
        raise DataError(question.without_end(raw))
    none, reference = ended | ~kept, question.reference
    raw = {name: np.where(none, np.nan, column) for name, column in raw.items()}
    columns = {name: raw[name] / reference.scale(name) for name in question.order}
    losses = np.where(none[:, None], np.nan, losses)
    columns |= dict(zip(question.losses, losses.T, strict=True))
    columns |= question.compute(raw)
    given = [name for name, column in columns.items() if np.ptp(column) <= SAME * abs(column[0])]
    answer = with_intervals(columns, level, fewest_degrees(question.sources), given)
    best = {name: answer.pop(name) for name in question.order}
    limited = {label: answer.pop(f"loss[{label}]") for label in question.labels}
    loss, spent = answer.pop("loss", math.nan), answer.pop("compute", math.nan)
    notes = [*question.notes(best), *missing_draws_notes(raw[question.order[0]], "optimum")]
    notes += off_centre_notes(reference, columns.get("loss", np.empty(0)))
    bound, near, flat = "none", {}, {}
    if none[0]:
        notes.insert(0, Note("none-allowed", "error", question.not_allowed()))
    else:
        bound = question.binding(best, limited, spent)
        near = _near(question, math.log1p(tolerance), point[0])
        if question.form.law is not None and reference.noise > 0:
            flat = _near(question, reference.noise, point[0])
    return Minimum(
        best=best, loss=loss, limited=limited, compute=spent, near=near, tolerance=tolerance,
        flat=flat, binding=bound, notes=tuple(dict.fromkeys(notes)), **answer,
        **context_of_inputs(Minimum, reference, {**reference.inputs_taken(at), **best}),
    )  # fmt: skip


def _near(question: Question, nats: float, point: np.ndarray) -> dict[str, tuple[float, float]]:
    """Input → (low, high) where the logarithm of what is least rises by so much at most.

    Of the fit itself, by grids over the coordinates. On each the profile of every coordinate,
    the least over all others, is cut at the level; the next grid covers what is left and a
    cell beside it, so that the last one is as fine as the range asks for.
    """
    if not len(point):
        return {}
    count, around = NEAR_POINTS[len(point)], [(0.0, 1.0)] * len(point)
    first = tuple({name: v[:1] for name, v in own.items()} for own in question.params)
    for _ in range(NEAR_ROUNDS):
        axes = _axes(around, point, count)
        points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        (values,), raw = values_at(question.form, first, question.given, points)
        if not (least := values.min()) > 0:  # of a negative loss the excess is of its size
            if not least < 0:
                return {}
            values = np.exp(relative_excess(values, least))
        cut = _cut(values.reshape([count + 1] * len(point)), axes, point, nats)
        around = [
            (axis[max(low - 1, 0)], axis[min(high + 1, count)])
            for axis, (low, high) in zip(axes, cut, strict=True)
        ]
    kept = values <= values.min() * math.exp(nats)
    for axis, (low, high), x in zip(axes, cut, points.T, strict=True):
        kept &= (x >= axis[low]) & (x <= axis[high])
    scale = question.reference.scale
    return {
        name: (float(raw[name][0][kept].min() / scale(name)),
               float(raw[name][0][kept].max() / scale(name)))
        for name in question.order
    }  # fmt: skip


def _axes(around: Sequence[Any], point: np.ndarray, count: int) -> list[np.ndarray]:
    """Points along each coordinate; the optimum is one of them, whatever the others miss."""
    return [
        np.sort(np.append(np.linspace(*span, count), x))
        for span, x in zip(around, point, strict=True)
    ]


def _cut(
    values: np.ndarray, axes: Sequence[np.ndarray], point: np.ndarray, nats: float
) -> list[tuple[int, int]]:
    """First and last point of every axis at which its profile lies near the lowest."""
    numbers = range(values.ndim)
    profiles = (values.min(axis=tuple(k for k in numbers if k != own)) for own in numbers)
    best = (int(np.searchsorted(axis, x)) for axis, x in zip(axes, point, strict=True))
    return [as_good(profile, k, nats) for profile, k in zip(profiles, best, strict=True)]
