"""The value of one input at which a law reaches a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._quantities import checked_number
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    Pictured,
    context_of_inputs,
    keeps_question,
    law_inputs,
    missing_draws_notes,
    source_notes,
    without,
)
from jaxlaw.planning._budgets import flops, total_cost
from jaxlaw.planning._question import searched_inputs, searched_range
from jaxlaw.planning._search_space import epochs_notes
from jaxlaw.planning._solve import for_each_draw, root
from jaxlaw.uncertainty import LEVEL, as_draws, with_intervals

POINTS = 513  # among which the loss is looked for
LEAST_SHARE = 1e-9  # of a law that is infinite at 0: a smaller one is of no whole token


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solution(Pictured, Answer):
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
    def quantities(self) -> dict[str, float]:
        """The input, the loss, and the compute where there is one."""
        compute = {} if math.isnan(self.compute) else {"compute": self.compute}
        return {self.input: self.value, "loss": self.loss, **compute}

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
    x, count, lowest = _crossing(source.law, for_, log, source.values, target, low, high, others)
    # Without a crossing it lies beyond an end of the search, where nothing limits that.
    raw = np.where(np.isnan(x), np.nan, np.exp(x) if log else x)
    raw = np.where((x == np.inf) & ~span.open[1] | (x == -np.inf) & ~span.open[0], np.nan, raw)
    values = {for_: raw / source.scale(for_), "loss": np.full(len(raw), target)}
    units = {spec.name: spec.unit for spec in source.law.inputs}
    known = {name: np.full(len(raw), value * units[name]) for name, value in others.items()}
    known[for_] = raw
    if {"N", "D"} <= set(known):
        with np.errstate(divide="ignore"):
            values["compute"] = flops(
                total_cost(None, source), np.log(known["N"]), np.log(known["D"])
            )
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


@for_each_draw("law", "name", "log")
def _crossing(
    law: Law, name: str, log: bool, params: Any, target: Any, low: Any, high: Any, others: Any
) -> Any:
    """The first value at which the law has a loss, how many there are, and its lowest loss.

    Without any it is ∞ where the loss lies above the target throughout, −∞ where it lies below.
    """
    (unit,) = (spec.unit for spec in law.inputs if spec.name == name)

    def loss(x: Any) -> Any:
        return law(params, **{name: (jnp.exp(x) if log else x) / unit}, **others)

    grid = jnp.linspace(low, high, POINTS)
    losses = jax.vmap(loss)(grid)
    below = losses <= target
    crossed = below[1:] != below[:-1]
    first = jnp.argmax(crossed)
    falls = jnp.where(below[first], -1.0, 1.0)
    x = root(lambda x: falls * (target - loss(x)), grid[first], grid[first + 1])
    none = jnp.where(below[0], -jnp.inf, jnp.inf)
    return jnp.where(crossed.any(), x, none), crossed.sum(), jnp.nanmin(losses)
