"""How large a batch may be: the tokens, steps and learning rate of a run by its batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE, times, written
from jaxlaw._result import TARGET
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Answer,
    Inputs,
    Pictured,
    context_of_inputs,
    keeps_question,
    law_inputs,
    missing_draws_notes,
    require_inputs,
    source_notes,
    without,
)
from jaxlaw.planning._solve import for_each_draw, root, root_or_infinity
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, with_intervals

_TABLE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # shares of more tokens, a row each
_WIDEST = math.log(1e6)  # times the best batch or rate, up to which one is searched
_HALVINGS = 44  # of such a bracket: 1e-12


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CriticalBatchSize(Pictured, Answer):
    """The largest batch at which a run needs so many more tokens and no more.

    Attributes:
        batch: the critical batch, in the unit of the runs; infinite where no batch is too large.
        lr: the best learning rate there; NaN of a law without one.
        D: tokens of a run with that batch, in the units of the fitted runs.
        steps: number of its steps.
        best_batch, best_lr, best_steps: the same of the batch that needs the fewest tokens.
        lr_power: power of the batch with which the best rate grows from the best batch to the
            critical one: 0.5 by the √B rule, 1 by the linear one.
        sqrt_rule: relative excess of the loss at the critical batch, where the rate is taken from
            the best batch by the √B rule in place of the best one.
        loss: loss that all of them reach, in nats.
        overhead: share of more tokens that the critical batch needs.
        table: the same for several shares ``overhead`` of more tokens, a row each: ``batch``,
            ``lr``, ``D``, ``steps``, ``lr_power`` and ``sqrt_rule``.
    """

    batch: float = field(metadata={"unit": "tokens"})
    lr: float = field(metadata={"unit": ""})
    D: float = field(metadata={"unit": "tokens"})
    steps: float = field(metadata={"unit": "steps"})
    best_batch: float = field(metadata={"unit": "tokens"})
    best_lr: float = field(metadata={"unit": ""})
    best_steps: float = field(metadata={"unit": "steps"})
    lr_power: float = field(metadata={"unit": ""})
    sqrt_rule: float = field(metadata={"unit": SHARE})
    loss: float = field(metadata={"unit": TARGET})
    overhead: float = field(metadata={"unit": SHARE, "setting": True})
    table: pd.DataFrame

    @property
    def quantities(self) -> dict[str, float]:
        """Its numbers without what was chosen; those of a rate where the law has one."""
        chosen = ("overhead",) if math.isfinite(self.lr) else ("overhead", "lr", "best_lr", *_RATE)
        return without(super().quantities, *chosen)

    def sentence(self) -> str:
        """The critical batch, what it costs and saves, and the rate that it asks for."""
        if not math.isfinite(self.batch):
            return ""
        batch = f"critical batch {self.written('batch', level=True)}"
        ratio = f"{times(self.batch / self.best_batch)} the best one, {self.written('best_batch')}"
        costs = (
            f"{written(self.overhead, SHARE)} more tokens reach the loss {self.written('loss')} in "
            f"{times(self.best_steps / self.steps)} fewer steps"
        )
        rate = f", at lr {self.written('lr')}" if math.isfinite(self.lr) else ""
        return f"{batch}, {ratio}: {costs}{rate}"

    def lines(self) -> list[str]:
        """Its numbers, and the batch, rate and steps for several shares of more tokens."""
        rows = self.readable(self.table).to_string(index=False).split("\n")
        return [*super().lines(), "more tokens for a larger batch:", *map(str.rstrip, rows)]

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        own = without(question, "fit")
        return "larger_batches", (question["fit"],), {"answer": self, **own}


_RATE = ("lr_power", "sqrt_rule")
_COLUMNS = ("batch", "lr", "D", "steps", *_RATE)


@keeps_question
@checked
def critical_batch_size(
    fit: Any,
    *,
    at: Mapping[str, float | str] | None = None,
    overhead: Annotated[float, Between(0, 10)] = 0.2,
    level: ConfidenceLevel = LEVEL,
) -> CriticalBatchSize:
    """The largest batch that needs few more tokens, and the learning rate that goes with it.

    A run of N parameters and D tokens at its best settings reaches some loss. With a larger batch
    and the best rate for it, it needs more tokens for the same loss, and fewer steps: up to the
    critical batch no more than a share ``overhead`` of them. 0.2 is Zhang's definition; on the
    curve of McCandlish, (S/S_min − 1)·(E/E_min − 1) = 1 for S steps and E tokens, the critical
    batch is that of an overhead of 1. There E is least for the smallest batches; in sweeps of runs
    at equal tokens, to which laws of :func:`jaxlaw.laws.tuned` are fitted, a batch can be too small
    as well, and E is least at the best one. How near it comes to what the runs of such sweeps show
    without a law is in ``benchmarks/tuning.md``.

    Args:
        fit: fit of a law with ``batch`` among its best settings, of :func:`jaxlaw.laws.tuned`: a
            Fit, (law, params), a bootstrap, draws or a forecast by this law alone.
        at: values of N, D and all other inputs but ``lr`` and ``batch``, in the units of the fitted
            runs; D is that of the run with the best settings.
        overhead: share of more tokens, above 0, that the critical batch may need.
        level: confidence level of the intervals. Each draw has its own loss at the best settings.

    Returns:
        :class:`CriticalBatchSize`. Where no batch is too large ``batch`` is infinite, with the note
        ``no-critical-batch``.

    Raises:
        UsageError: the law has no best batch, or an input is missing or unknown.

    Source:
        Zhang 2024, arXiv 2410.21676; McCandlish 2018, arXiv 1812.06162.

    Example:
        >>> fit = ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"])
        >>> plan = jl.planning.critical_batch_size(fit, at={"N": 7e9, "D": 1e12})
        >>> f"{plan.batch:.2g} of {plan.best_batch:.2g} tokens, lr {plan.lr:.2g}"
        '7.2e+06 of 2.4e+06 tokens, lr 0.001'

    Shell:
        jaxlaw plan critical-batch-size tuned.json --at N=7e9 --at D=1e12
    """
    (source,) = as_draws(fit)
    law = source.law
    require_inputs(source, "D", "batch")
    if "batch" not in law.best_settings:
        raise UsageError(
            f"law {law.name} does not say by itself which batch is best: fit a law of "
            "jl.laws.tuned, such as tuned-skaling; of a forecast, one by such a law alone"
        )
    if overhead == 0:
        raise UsageError("overhead is 0: give the share of more tokens, such as 0.2")
    settings = tuple(name for name in ("lr", "batch") if name in law.best_settings)
    held = law_inputs(source, at, settings)
    columns, table = _numbers(source, settings, held, overhead)
    answer = with_intervals(columns, level, source.degrees, ["D"])
    missing = dict.fromkeys(("lr", "best_lr", *_RATE), math.nan)
    numbers = missing | {name: answer.pop(name) for name in columns}
    there = {**(at or {}), **{name: numbers[name] for name in ("D", *settings)}}
    notes = [
        *_no_limit_notes(numbers["batch"]),
        *source_notes(source, **there),
        *missing_draws_notes(columns["batch"], "critical batch"),
    ]
    context = context_of_inputs(CriticalBatchSize, source, there)
    # The batch has a unit of its own: runs may count it in sequences, and D in billions.
    of_batch = source.fit.input_units()["batch"]
    context["units"] |= {"batch": of_batch, "best_batch": of_batch}
    return CriticalBatchSize(
        **numbers, overhead=overhead, table=table, binding="none", notes=tuple(notes),
        **answer, **context,
    )  # fmt: skip


def _numbers(
    source: Draws, settings: tuple[str, ...], held: Inputs, overhead: float
) -> tuple[dict[str, np.ndarray], pd.DataFrame]:
    """Number → (1 + R,) values in the units of the runs, and the table of the fit alone.

    One call of one program has them all: at the best batch, at the critical one, and the table's.
    """
    count, values = source.rows, source.values
    rows = [*range(count), *range(count), *[0] * len(_TABLE)]
    shares = np.concatenate([np.zeros(count), np.full(count, overhead), _TABLE])
    every = {name: values[name][rows] for name in values}
    found = _largest_batch(source.law, settings, every, shares, held)
    of_D = source.scale("D") / source.units["D"]  # tokens in one of the law's own units
    worth = {"steps": 1 / of_D, **{name: source.units[name] for name in ("D", *settings)}}
    found = {
        name: found[name] / worth.get(name, 1.0) for name in (*_COLUMNS, "loss") if name in found
    }
    columns = {name: values[count : 2 * count] for name, values in found.items()}
    columns |= {f"best_{n}": found[n][:count] for n in ("batch", "lr", "steps") if n in found}
    table = {name: found[name][2 * count :] for name in _COLUMNS if name in found}
    return columns, pd.DataFrame({"overhead": _TABLE, **table})


# The share of more tokens is given, and the batch is searched: at so many tokens the lowest loss
# over the rates rises with the batch, from the best one on, and passes once the loss that is to be
# reached. The other way round, many batches would have no answer: with a batch that is far too
# large no number of tokens reaches that loss.
@for_each_draw("law", "settings", draws=("params", "overhead"))
def _largest_batch(
    law: Law, settings: tuple[str, ...], params: Any, overhead: Any, held: Any
) -> dict[str, Any]:
    """The largest batch with which so many more tokens reach the loss, and its best rate."""

    def best(D: Any) -> dict[str, Any]:
        return {name: law.best_settings[name](params, {**held, "D": D}) for name in settings}

    def loss(D: Any, above: Mapping[str, Any]) -> Any:
        at = {name: value * jnp.exp(above.get(name, 0.0)) for name, value in best(D).items()}
        return law(params, **{**held, "D": D}, **at)

    def rate(batch: Any) -> Any:
        if "lr" not in settings:
            return jnp.zeros(())
        slope = jax.grad(lambda lr: loss(D, {"lr": lr, "batch": batch}))
        return root(slope, -_WIDEST, _WIDEST, _HALVINGS)

    reached, D = loss(held["D"], {}), held["D"] * (1 + overhead)
    widest = root_or_infinity(
        lambda batch: loss(D, {"lr": rate(batch), "batch": batch}) - reached, 0.0, _WIDEST
    )
    batch = jnp.where(overhead > 0, widest, 0.0)
    lr, known = rate(batch), jnp.isfinite(batch)
    at_best = best(D)
    found = {"D": D, "batch": at_best["batch"] * jnp.exp(batch), "loss": reached}
    found["steps"] = D / found["batch"]
    if "lr" not in settings:
        return found
    by_rule = loss(D, {"lr": batch / 2, "batch": batch})
    sqrt_rule = by_rule / loss(D, {"lr": lr, "batch": batch}) - 1
    known_beyond = known & (overhead > 0)
    return found | {
        "lr": jnp.where(known, at_best["lr"] * jnp.exp(lr), jnp.nan),
        "lr_power": jnp.where(known_beyond, lr / batch, jnp.nan),
        "sqrt_rule": jnp.where(known_beyond, sqrt_rule, jnp.nan),
    }


def _no_limit_notes(batch: float) -> list[Note]:
    """What makes a critical batch that is infinite or unknown no answer."""
    if not math.isinf(batch):
        return []
    message = (
        "no batch up to a million times the best one needs so many more tokens: the runs do not "
        "show what a batch that is too large costs"
    )
    return [Note("no-critical-batch", "error", message)]
