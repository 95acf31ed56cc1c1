"""Any inputs of a law: where its loss, or the compute, is least, and where it reaches a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE, Quantity, checked_number
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.errors import DataError
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Budget, Corpus
from jaxlaw.planning._frame import (
    OldAnswer,
    Pictured,
    context_of_inputs,
    fewest_degrees,
    keeps_question,
    law_inputs,
    missing_draws_notes,
    off_centre_notes,
    source_notes,
    without,
)
from jaxlaw.planning._optimise import (
    LEAST_SHARE,
    crossing,
    epochs_notes,
    flops,
    question_of,
    searched_inputs,
    searched_range,
    total_cost,
)
from jaxlaw.uncertainty import LEVEL, as_draws, with_intervals


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Minimum(Pictured, OldAnswer):
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
    def quantities(self) -> dict[str, Quantity]:
        """The best inputs, the losses there and the compute, those that there are."""
        named = {**self.best, "loss": self.loss}
        named |= {f"loss[{label}]": value for label, value in self.limited.items()}
        named |= {"compute": self.compute}
        return self._quantities(
            {
                name: value
                for name, value in named.items()
                if name in self.best or name in self.interval or not math.isnan(value)
            }
        )

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
        known = [
            n
            for n in ("loss", "compute")
            if not (n not in self.quantities or math.isnan(self.quantities[n].value))
        ]
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
    found = question.best()
    if found.ended[0, 0] and (question.has_closed_form or found.kept[0, 0]):
        raise DataError(question.without_end(found))
    reference = question.reference
    columns = {name: column[:, 0] for name, column in question.values(found).items()}
    given = [name for name, column in columns.items() if np.ptp(column) <= SAME * abs(column[0])]
    answer = with_intervals(columns, level, fewest_degrees(question.sources), given)
    best = {name: answer.pop(name) for name in question.order}
    limited = {label: answer.pop(f"loss[{label}]") for label in question.labels}
    loss, spent = answer.pop("loss", math.nan), answer.pop("compute", math.nan)
    notes = [*question.notes(best), *missing_draws_notes(columns[question.order[0]], "optimum")]
    notes += off_centre_notes(reference, columns.get("loss", np.empty(0)))
    bound, near, flat = "none", {}, {}
    if found.kept[0, 0]:
        bound = question.binding(best, limited, spent)
        near = question.near(math.log1p(tolerance), found.point[0, 0])
        if question.form.law is not None and reference.noise > 0:
            flat = question.near(reference.noise, found.point[0, 0])
    else:
        notes.insert(0, Note("none-allowed", "error", question.not_allowed()))
    return Minimum(
        best=best, loss=loss, limited=limited, compute=spent, near=near, tolerance=tolerance,
        flat=flat, binding=bound, notes=tuple(dict.fromkeys(notes)), **answer,
        **context_of_inputs(Minimum, reference, {**reference.inputs_taken(at), **best}),
    )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solution(Pictured, OldAnswer):
    """The value of an input at which a loss is reached.

    Attributes:
        input: name of the input.
        value: its value, in the units of the fitted runs; infinite where no size or no number of
            tokens reaches the loss, NaN where no other value does.
        loss: loss that is reached, in nats.
        compute: FLOPs of the run, 6·N·D; NaN for a law without N or D.
    """

    input: str
    value: float = field(metadata={"unit": ""})  # that of the input, which its name tells
    loss: float = field(metadata={"unit": TARGET, "setting": True})
    compute: float = field(metadata={"unit": "FLOPs"})

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The input, the loss, and the compute where there is one."""
        compute = {} if math.isnan(self.compute) else {"compute": self.compute}
        return self._quantities({self.input: self.value, "loss": self.loss, **compute})

    def sentence(self) -> str:
        """The value, and what it reaches."""
        if not math.isfinite(self.value):
            return ""
        spent = "" if math.isnan(self.compute) else f", {self.written('compute')}"
        value = self.written(self.input, level=True)
        return f"loss {self.written('loss')}: {self.input} {value}{spent}"

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        asked = question["fit"], question["for_"], question["loss"]
        return "solution", asked, {"answer": self, **without(question, "fit", "for_", "loss")}


@keeps_question
@checked
def solve(
    fit: Any,
    for_: str,
    loss: float,
    *,
    between: tuple[float | str | None, float | str | None] | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Solution:
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
        :class:`Solution`. Where several values reach the loss it is the least of them, with the
        note ``several-solutions``; where none does, the note ``out-of-reach``.

    Raises:
        UsageError: an input is missing or unknown, or a range is empty or unknown.

    Example:
        >>> fit = jl.published()["besiroglu-2024"]
        >>> print(f"{jl.planning.solve(fit, for_='D', loss=2.1, at={'N': 7e9}).value:.3g} tokens")
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
    answer = with_intervals(values, level, source.degrees, ["loss"])
    value = answer.pop(for_)
    notes = [
        *_crossing_notes(for_, target, x[0], int(count[0]), float(lowest[0])),
        *source_notes(source, **{**(at or {}), for_: value}),
        *missing_draws_notes(raw, "solution"),
    ]
    if for_ == "D":
        notes += epochs_notes(source, others, value, None)
    return Solution(
        input=for_, value=value, compute=answer.pop("compute", math.nan), binding="loss",
        notes=tuple(notes), **answer,
        **context_of_inputs(Solution, source, {**(at or {}), for_: value}),
    )  # fmt: skip


def _crossing_notes(name: str, target: float, x: float, count: int, lowest: float) -> list[Note]:
    if x == math.inf:
        message = (
            f"the law does not reach a loss of {target:g} at any {name} that is searched; it comes "
            f"down to {lowest:.5g}"
        )
        return [Note("out-of-reach", "error", message)]
    if x == -math.inf:
        message = f"the loss is below {target:g} at every {name} that is searched"
        return [Note("out-of-reach", "error", message)]
    if count > 1:
        message = (
            f"the law has a loss of {target:g} at {count} values of {name}; this is the least: "
            "between= says where another is to be searched"
        )
        return [Note("several-solutions", "warning", message)]
    return []
