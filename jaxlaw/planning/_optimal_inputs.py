"""The best settings of a run, such as its learning rate and batch, and what missing them costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any

import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Quantity, checked_number, written
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    fewest_degrees,
    in_unit_of_runs,
    keeps_question,
    law_inputs,
    units_of,
)
from jaxlaw.planning._budgets import AT_LIMIT
from jaxlaw.planning._constraints import Budget
from jaxlaw.planning._flat import relative_excess
from jaxlaw.planning._minimise import Minimum, minimise
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, with_intervals

_MOST_POINTS = 100_000  # of a grid of settings that can be run
_FIRST = ("optimum-at-limit", "optimum-outside-tried")  # notes that a headline begins with


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OptimalInputs(Minimum):
    """The best values of inputs; each is an attribute too, such as ``plan.lr``.

    Attributes:
        run: input → value to run: the best of the ``grid``, or the best itself where none was
            given, in the units of the fitted runs.
        excess: how far the loss of ``run`` lies above the lowest, relative.
        regret: mean over the draws of how far the loss of ``run`` lies above the lowest of the same
            draw, relative: what not knowing the law costs. NaN without draws.
        off: input → relative excess of the loss at half its best value, and at twice, all other
            inputs at their best. Of N, D and shares there is none.
    """

    run: dict[str, float]
    excess: float = field(metadata={"unit": SHARE})
    regret: float = field(metadata={"unit": SHARE})
    off: dict[str, tuple[float, float]]

    def __getattr__(self, name: str) -> Any:
        best = self.__dict__.get("best", {})  # while a copy is made there is none
        if name in best:
            return best[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def quantities(self) -> dict[str, float]:
        """The best inputs, the loss there, and the cost of what is run."""
        costs = {"excess": self.excess, "regret": self.regret}
        known = {name: value for name, value in costs.items() if value > 0}
        return {**super().quantities, **known}

    def sentence(self) -> str:
        """What makes the optimum a bound, the best inputs, and the range that is as good."""
        best = super().sentence()
        if not best:
            return ""
        first = [note.message for note in self.notes if note.code in _FIRST]
        rounded = "" if self.run == self.best else f"; run {self._written(self.run)}"
        near = ", ".join(f"{name} {self._between(name, 'near')}" for name in self.near)
        return "; ".join([*first, best + rounded, *([f"{self._within}: {near}"] if near else [])])

    def _written(self, values: Mapping[str, float]) -> str:
        units = ((name, self.unit_of(name) or ("", 1.0)) for name in values)
        return ", ".join(f"{name} {written(values[name], *unit)}" for name, unit in units)

    def shown(self) -> dict[str, pd.DataFrame]:
        """Ranges of near-optimal values, and the cost of missing the best by a factor of 2."""
        rows = [(name, *(written(x, SHARE) for x in self.off[name])) for name in self.off]
        off = pd.DataFrame(rows, columns=["input", "at half of it", "at twice"])
        return {**super().shown(), **({"loss above the lowest": off} if rows else {})}

    def lines(self) -> list[str]:
        """Its numbers, ranges, what is to be run, and the cost of missing the best."""
        run = [] if self.run == self.best else [f"to be run: {self._written(self.run)}"]
        off = [
            f"{name} off by a factor of 2: loss +{written(low, SHARE)} at half of it, "
            f"+{written(high, SHARE)} at twice"
            for name, (low, high) in self.off.items()
        ]
        return [*super().lines(), *run, *off]

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        held = {**(question.get("at") or {}), **self.best}
        at = {name: value for name, value in held.items() if name not in self.best}
        searched = [name for name in self.best if name not in ("N", "D")][:2]
        at |= {name: self.best[name] for name in self.best if name not in searched}
        ranges = question.get("over") or {}
        searched = {name: ranges.get(name) for name in searched}
        return "settings", (question["fit"], searched), {"at": at, "answer": self}


@keeps_question
@checked
def optimal_inputs(
    fit: Any,
    over: Mapping[str, tuple[float | str | None, float | str | None] | None] | None = None,
    *,
    at: Mapping[str, float | str] | None = None,
    grid: Mapping[str, Sequence[float]] | None = None,
    compute: Quantity | None = None,
    tolerance: Annotated[float, Between(0, 1)] = 1e-3,
    level: ConfidenceLevel = LEVEL,
) -> OptimalInputs:
    """The best settings of a run, such as its learning rate and batch.

    For any law and any of its inputs; :func:`jaxlaw.laws.tuned` has those two. The exponents with
    which best settings move are ill determined, as several of them fit the same sweeps; what a run
    loses by the settings that are proposed is not, and that is ``regret``.

    Args:
        fit: fit of the loss: a Fit, (law, params), a bootstrap, draws or a forecast.
        over: input → (least, largest) between which it is searched, in the units of the fitted
            runs, or None: an input other than N, D and a share is then searched over the range of
            the runs. Left out, the learning rate and the batch of a tuned law.
        at: values of all other inputs, in the units of the fitted runs.
        grid: input → values that can be run, such as powers of 2 of a batch; the combination with
            the lowest loss is what is to be run.
        compute: budget in FLOPs, where N, D or both are searched too.
        tolerance: relative excess of the loss within which values count as near the best.
        level: confidence level of the intervals.

    Returns:
        :class:`OptimalInputs`. An optimum at the edge of what is searched, or outside of what was
        run, is what its headline begins with.

    Raises:
        UsageError: as :func:`minimise`; also where ``over`` is left out for a law that has no
            settings of its own, or ``grid`` names an input that is not searched,
            or holds no number of its kind.
        DataError: as :func:`minimise`.

    Example:
        >>> fit = ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"])
        >>> over = {"lr": (1e-4, 1e-2), "batch": (6e4, 4e6)}
        >>> plan = jl.planning.optimal_inputs(fit, over, at={"N": 1e9, "D": 2e10})
        >>> f"{plan.lr:.4f}, {plan.near['lr'][0]:.4f} to {plan.near['lr'][1]:.4f}"
        '0.0010, 0.0007 to 0.0014'
        >>> f"{plan.batch:.3g} tokens, loss {plan.loss:.3f}"
        '3.5e+05 tokens, loss 2.069'

    Shell:
        jaxlaw plan hyperparameters tuned.json --at N=7e9,D=1e12 --over lr=1e-5:1e-1,batch=1e4:1e8
    """
    budget = [] if compute is None else [Budget(compute)]
    over = _settings_of(fit, at or {}) if over is None else over
    found = minimise(fit, over, subject_to=budget, at=at, tolerance=tolerance, level=level)
    (source,) = as_draws(fit)
    shared = {one.name: getattr(found, one.name) for one in dataclasses.fields(Minimum)}
    shared["units"] = {**units_of(OptimalInputs, source), **found.units}
    if any(map(math.isnan, found.best.values())):
        return OptimalInputs(**shared, run=found.best, excess=math.nan, regret=math.nan, off={})
    held = source.inputs_taken(at or {})
    run = _best_of_grid(source, held, found.best, grid or {})
    shared["notes"] = (*_outside_notes(source, found), *found.notes)
    excess, off = _excesses(source, held, found.best, run)
    regret = math.nan
    if "loss" in found.draws:
        lowest = np.append(found.loss, found.draws["loss"])
        each = np.maximum(relative_excess(_losses(source, held, [run])[:, 0], lowest), 0.0)
        own = with_intervals({"regret": each}, level, fewest_degrees([source]))
        regret = float(np.nanmean(each[1:]))
        shared |= {name: shared[name] | own[name] for name in ("interval", "draws")}
    return OptimalInputs(**shared, run=run, excess=excess, regret=regret, off=off)


def _settings_of(fit: Any, at: Mapping[str, Any]) -> dict[str, None]:
    """The settings of a tuned law, each to be searched over the range of the runs."""
    (source,) = as_draws(fit)
    settings = [name for name in source.law.best_settings if name not in at]
    if not settings:
        takes = ", ".join(source.law.input_names)
        raise UsageError(
            f"over: name the inputs that are searched; law {source.law.name} takes {takes}",
            argument="over",
        )
    return dict.fromkeys(settings)


def _excesses(
    source: Draws, held: Mapping[str, Any], best: Mapping[str, float], run: Mapping[str, float]
) -> tuple[float, dict[str, tuple[float, float]]]:
    """Relative excess of the loss at ``run``; input → those at half its best value and at twice."""
    positive = {spec.name for spec in source.law.inputs if spec.domain == "positive"}
    names = [name for name in best if name in positive - {"N", "D"}]
    settings = [best, run]
    settings += [{**best, name: factor * best[name]} for name in names for factor in (0.5, 2)]
    (losses,) = _losses(dataclasses.replace(source, params={}), held, settings)
    excess = [float(each) for each in relative_excess(losses, losses[0])]
    return excess[1], dict(zip(names, zip(excess[2::2], excess[3::2], strict=True), strict=True))


def _losses(
    source: Draws, held: Mapping[str, Any], settings: Sequence[Mapping[str, float]]
) -> np.ndarray:
    """Losses (1 + R, S) of settings, by the fit and each of its draws."""
    every = [law_inputs(source, {**held, **one}, ()) for one in settings]
    inputs = {name: np.array([one[name] for one in every]) for name in source.law.input_names}
    params = {name: values[:, None] for name, values in source.values.items()}
    with in_float64():
        return np.asarray(source.law.evaluate(params, **inputs), float)


def _best_of_grid(
    source: Draws,
    held: Mapping[str, Any],
    best: Mapping[str, float],
    grid: Mapping[str, Sequence[float]],
) -> dict[str, float]:
    """The settings that can be run with the lowest loss; inputs without a grid at their best."""
    axes = {}
    for name, values in grid.items():
        if name not in best:
            message = f"grid: '{name}' is not searched.{nearest(name, best)}"
            raise UsageError(message, argument="grid")
        domain = next(spec.domain for spec in source.law.inputs if spec.name == name)
        axes[name] = [
            checked_number(f"grid of {name}", in_unit_of_runs(source, name, value), domain)
            for value in values
        ]
        if not axes[name]:
            raise UsageError(f"grid of {name} is empty", argument="grid")
    if (count := math.prod(map(len, axes.values()))) > _MOST_POINTS:
        raise UsageError(f"grid has {count:,} settings; {_MOST_POINTS:,} are the most")
    settings = [
        {**best, **dict(zip(axes, values, strict=True))} for values in product(*axes.values())
    ]
    alone = dataclasses.replace(source, params={})
    return settings[int(np.argmin(_losses(alone, held, settings)[0]))]


def _outside_notes(source: Draws, found: Minimum) -> list[Note]:
    """Best settings that lie outside of all that were tried."""
    notes = []
    for name, value in found.best.items():
        low, high = source.ranges.get(name, (math.nan, math.nan))
        if name in ("N", "D") or low * (1 - AT_LIMIT) <= value <= high * (1 + AT_LIMIT):
            continue
        if math.isfinite(low) and math.isfinite(high):
            side = "below" if value < low else "above"
            unit = found.unit_of(name) or ("", 1.0)
            tried = f"{written(low, *unit)} to {written(high, *unit)}"
            message = (
                f"the best {name}, {written(value, *unit)}, lies {side} all that were tried "
                f"({tried})"
            )
            notes.append(Note("optimum-outside-tried", "warning", message))
    return notes
