"""The best settings of a run, such as learning rate and batch: in sweeps, and by laws of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Amount, Quantity, checked_number, times, written
from jaxlaw._result import TARGET
from jaxlaw._typed import Between, ConfidenceLevel, checked
from jaxlaw.data import read_runs
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws import Law, tuned
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import Budget
from jaxlaw.planning._frame import (
    AnswerTable,
    Inputs,
    OldAnswer,
    Pictured,
    context_of_inputs,
    fewest_degrees,
    in_unit_of_runs,
    keeps_question,
    law_inputs,
    missing_draws_notes,
    require_inputs,
    source_notes,
    units_of,
    without,
)
from jaxlaw.planning._optimise import (
    AT_LIMIT,
    for_each_draw,
    relative_excess,
    root,
    root_or_infinity,
)
from jaxlaw.planning.inputs import Minimum, minimise
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, with_intervals


@dataclass(frozen=True, eq=False, repr=False)
class BestSettings(AnswerTable):
    """The best run of each cell, a row each.

    Attributes:
        table: ``N``, ``D``, ``runs``, ``loss`` (the lowest), and of each setting, such as ``lr``,
            its value there, ``lr_from`` and ``lr_to``, between which the loss is within the
            tolerance of the lowest, the other setting at its best, and ``lr_bound``: ``upper``
            where the best is the smallest value of the cell's sweep, and so an upper bound of the
            optimum, ``lower`` where it is the largest, ``only`` where no other was run, else empty.
        tolerance: relative excess of the loss within which values counted as near the best.
    """

    column_units: ClassVar[Mapping[str, str]] = {
        **AnswerTable.column_units,
        "N": "parameters", "D": "tokens", "runs": "", "loss": TARGET,
        **dict.fromkeys(("lr", "lr_from", "lr_to"), ""),
        **dict.fromkeys(("batch", "batch_from", "batch_to"), "tokens"),
    }  # fmt: skip
    picture = "best_settings"

    tolerance: float = field(metadata={"unit": SHARE}, kw_only=True)

    def sentence(self) -> str:
        """How many cells there are, and in how many a setting is a bound."""
        names = [name for name in self.table if name.endswith("_bound")]
        bounds = [
            f"{name.removesuffix('_bound')} at an edge in {(self.table[name] != '').sum()}"
            for name in names
        ]
        return f"{len(self.table)} cells of N and D; {', '.join(bounds)}"


@checked
def best_settings(
    runs: Any,
    over: Sequence[str] = ("lr", "batch"),
    *,
    tolerance: Annotated[float, Between(0, 1)] = 1e-3,
) -> BestSettings:
    """The best learning rate and batch of each cell of a sweep, as they were run.

    A cell is the runs of one N and D. A best value at the edge of its sweep is no estimate of the
    optimum, only a bound of it. The table is for looking at. To predict a best setting, fit
    :func:`jaxlaw.laws.tuned` to the runs: they show on which side of such a cell the loss falls.

    Args:
        runs: runs with N, D, loss and the settings, as :func:`jaxlaw.read_runs` takes or returns
            them; ``units={"batch": 2048}`` there reads batches of sequences of 2,048 tokens.
        over: settings that were swept: ``lr``, ``batch`` or both.
        tolerance: relative excess of the loss within which values count as near the best.

    Returns:
        :class:`BestSettings`, in single parameters and tokens, with the note ``optimum-at-edge``
        where settings are bounds.

    Raises:
        DataError: a column is missing, or holds no positive numbers.
        UsageError: ``over`` names something else.

    Example:
        >>> runs = jl.simulate.experiment("tuned-skaling", noise=0.001).table
        >>> best = jl.planning.best_settings(runs[runs["lr"] <= 2e-3])
        >>> best.headline
        '9 cells of N and D; lr at an edge in 6, batch at an edge in 0'
        >>> best.table["lr"].tolist()[-3:], best.table["lr_bound"].tolist()[-3:]
        ([0.001, 0.001, 0.001], ['', '', ''])
    """
    law = tuned("chinchilla", over)
    names = law.input_names[2:]
    observed = read_runs(runs).observations(law, free=())
    table = pd.DataFrame({**observed.inputs, "loss": observed.target})
    rows = [
        {"N": N, "D": D, "runs": len(cell), "loss": cell["loss"].min()}
        | {key: value for name in names for key, value in _best_of(cell, name, tolerance).items()}
        for (N, D), cell in table.groupby(["N", "D"])
    ]
    found = pd.DataFrame(rows)
    notes = list(observed.notes)
    for name in names:
        at_edge = found[found[f"{name}_bound"] != ""]
        if len(at_edge):
            first = at_edge.iloc[0]
            bound = first[f"{name}_bound"]
            said = "no other was run" if bound == "only" else f"{bound} bound of the optimum"
            message = (
                f"the best {name} of {len(at_edge)} of {len(found)} cells lies at the edge of its "
                f"sweep (first N = {written(first['N'], 'parameters')}, D = "
                f"{written(first['D'], 'tokens')}: {said})"
            )
            notes.append(Note("optimum-at-edge", "warning", message))
    columns = {"parameters": 1.0, "tokens": 1.0}
    units = BestSettings.single_units("nats", columns)
    return BestSettings(found, np.nan, tuple(notes), units, tolerance=tolerance)


def _best_of(cell: pd.DataFrame, name: str, tolerance: float) -> dict[str, Any]:
    """The best value of a setting in a cell, the range that is as good, and whether it is a bound.

    Of each value that was run the lowest loss counts, whatever the other setting.
    """
    lowest = cell.groupby(name)["loss"].min().sort_index()
    values, losses = lowest.index.to_numpy(), lowest.to_numpy()
    best = int(losses.argmin())
    far = losses > losses[best] * (1 + tolerance)
    low = far[:best][::-1].argmax() if far[:best].any() else best
    high = far[best:].argmax() - 1 if far[best:].any() else len(values) - 1 - best
    first, last = best == 0, best == len(values) - 1
    bound = "only" if first and last else "upper" if first else "lower" if last else ""
    return {
        name: values[best], f"{name}_from": values[best - low], f"{name}_to": values[best + high],
        f"{name}_bound": bound,
    }  # fmt: skip


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
    def quantities(self) -> dict[str, Quantity]:
        """The best inputs, the loss there, and the cost of what is run."""
        costs = {"excess": self.excess, "regret": self.regret}
        known = {name: value for name, value in costs.items() if value > 0}
        return {**super().quantities, **self._quantities(known)}

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
    compute: Amount | None = None,
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


_TABLE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # shares of more tokens, a row each
_WIDEST = math.log(1e6)  # times the best batch or rate, up to which one is searched
_HALVINGS = 44  # of such a bracket: 1e-12


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CriticalBatchSize(Pictured, OldAnswer):
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
    def quantities(self) -> dict[str, Quantity]:
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
