"""The best inputs of a run, such as size, learning rate and batch: by laws, and in sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._quantities import SHARE, Amount, Quantity, checked_number, times, written
from jaxlaw._rounding import SAME
from jaxlaw._typed import Between, ConfidenceLevel, Fraction, checked
from jaxlaw.data import read_runs
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.laws import Law, tuned
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import AtMost, Budget, Corpus, Inputs, Ranges
from jaxlaw.planning._frame import (
    draws_taking,
    fewest_degrees,
    in_unit_of_runs,
    law_inputs,
    losses_of,
    missing_draws_notes,
    of_fit,
    plan_answer,
    source_notes,
    table_of,
    unit_of,
)
from jaxlaw.planning._optimise import (
    LEAST_SHARE,
    as_good,
    crossing,
    epochs_notes,
    flops,
    for_each_draw,
    question_of,
    relative_excess,
    root,
    root_or_infinity,
    searched_ranges,
    total_cost,
)
from jaxlaw.uncertainty import LEVEL, as_draws, intervals

# Any inputs of any law.


@checked
def minimise(
    fit: Any,
    over: Ranges,
    *,
    subject_to: Sequence[Budget | Corpus | AtMost] = (),
    at: Inputs = None,
    tolerance: Fraction = 1e-3,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The inputs at which a law predicts its lowest loss, under constraints.

    For any law and any of its inputs, also for a law of your own with a learning rate or a batch.
    :func:`allocation`, :func:`min_compute` and :func:`optimal_mixture` answer special cases of it
    and say more of each.

    Args:
        fit: fit of the loss: a Fit, (law, params), a bootstrap, draws or a forecast; or
            :class:`Compute`, which is then made least under a limit on a loss.
        over: input → (least, largest) between which it is searched, in the units of the fitted
            runs, None for an open side. Or input → None: N from 1e3 to 1e20, D from 1e3 to 1e24, a
            mixture ratio from 0 to 1, any other input over the range of the runs.
        subject_to: constraints, each a :class:`Budget`, a :class:`Corpus` or an :class:`AtMost`.
        at: values of all other inputs, in the units of the fitted runs.
        tolerance: relative excess of the loss (or compute) within which values count as near the
            best.
        level: confidence level of the intervals.

    Returns:
        Answer with each input's best value by its name, ``loss`` there (of a law whose loss is made
        least), ``loss[label]`` of each limited loss, ``compute`` in FLOPs, those of serving
        included (of laws with N and D), the facts ``best``, input → best value, and ``binding``,
        the active constraints, and the table ``near``, whose two rows are the ends between which
        each input may lie so that the loss, or compute, is within ``tolerance`` of the lowest, all
        others at their best. Where no values keep all limits its numbers are NaN, with the note
        ``out-of-reach``, and there are no ends.

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
    found, reference = question.best(), question.reference
    kept = found.kept[0, 0]
    if found.ended[0, 0] and (question.has_closed_form or kept):
        raise DataError(question.without_end())
    values = {name: column[:, 0] for name, column in question.values(found).items()}
    numbers = of_fit(values)
    best = {name: numbers[name] for name in question.order}
    notes = [] if kept else [Note("out-of-reach", "error", question.not_allowed())]
    notes += question.notes(numbers) + missing_draws_notes(values[question.order[0]], "optimum")
    near = question.near(math.log1p(tolerance), found.raw) if kept else {}
    within = {f"within {100 * tolerance:.3g}%": ("from", "to"), **near}
    of_loss = kept and question.form.goal == "loss"
    said = ", ".join(f"{name} {{{name}}}" for name in best)
    known = ", ".join(f"{name} {{{name}}}" for name in ("loss", "compute") if name in numbers)
    return plan_answer(
        "minimum", f"best {said}: {known}", reference, values, level=level,
        given=[name for name, column in values.items() if np.ptp(column) <= SAME * abs(column[0])],
        flat=question.near(reference.noise, found.raw) if of_loss else {},
        degrees=fewest_degrees(question.sources), at={**reference.inputs_taken(at), **best},
        tables={"near": pd.DataFrame(within)} if near else {}, notes=notes,
        facts={"binding": question.binding(numbers) if kept else "none", "best": best},
    )  # fmt: skip


@checked
def solve(
    fit: Any,
    for_: str,
    loss: float,
    *,
    between: tuple[Amount | None, Amount | None] | None = None,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The value of one input at which a law reaches a loss, all others given.

    For any law and any of its inputs.

    Args:
        fit: fit of the loss: a Fit, (law, params), a bootstrap, draws or a forecast.
        for_: name of the input.
        loss: loss to reach, in nats.
        between: least and largest value between which it is searched, in the units of the fitted
            runs, None for an open side; left out, as ``over`` of :func:`minimise` has it.
        at: values of all other inputs, in the units of the fitted runs.
        level: confidence level of the interval.

    Returns:
        Answer with the input's value by its name, ``loss``, and ``compute`` in FLOPs of laws with
        N and D. Where several values reach the loss it is the least of them, with the note
        ``several-solutions``; where none does, it is infinite of N and D and else NaN, with the
        note ``out-of-reach``.

    Raises:
        UsageError: an input is missing or unknown, or a range is empty or unknown.

    Example:
        >>> fit = jl.published()["besiroglu-2024"]
        >>> print(f"{jl.planning.solve(fit, for_='D', loss=2.1, at={'N': 7e9}).D:.3g} tokens")
        6.11e+11 tokens

    Shell:
        jaxlaw plan solve fit.json --for D --loss 2.1 --at N=7e9
    """
    (source,) = as_draws(fit)
    (span,) = searched_ranges(source, {for_: between}, "between").values()
    target = checked_number("loss", loss, "real")
    specs = source.law.specs
    others, low = law_inputs(source, at, (for_,)), span.low
    if not span.log and specs[for_].above_zero:
        low = max(low, LEAST_SHARE)
    x, _, count, lowest = crossing(source, for_, span.log, target, low, span.high, others)
    # Without a crossing it lies beyond an end of the search, where nothing limits that.
    inside = np.isfinite(x) | np.where(x > 0, span.open[1], span.open[0]) & ~np.isnan(x)
    raw = np.where(inside, np.exp(x) if span.log else x, np.nan)
    values = {for_: raw / source.scale(for_), "loss": np.full(len(raw), target)}
    sentence = f"loss {{loss}}: {for_} {{{for_}}}"
    if {"N", "D"} <= {*specs}:
        known = others | {for_: raw / specs[for_].unit}
        with np.errstate(divide="ignore"):
            logs = [np.log(np.full_like(raw, known[n] * specs[n].unit)) for n in ("N", "D")]
        values["compute"] = flops(total_cost(None, source), *logs)
        sentence += ", {compute}"
    notes = []
    if np.isinf(x[0]):
        message = (
            f"the law does not reach a loss of {target:g} at any {for_} that is searched; it comes "
            f"down to {lowest[0]:.5g}"
        )
        if x[0] < 0:
            message = f"the loss is below {target:g} at every {for_} that is searched"
        notes.append(Note("out-of-reach", "error", message))
    elif count[0] > 1:
        message = (
            f"the law has a loss of {target:g} at {count[0]} values of {for_}; this is the least: "
            "between= says where another is to be searched"
        )
        notes.append(Note("several-solutions", "warning", message))
    there = {**(at or {}), for_: float(values[for_][0])}
    notes += [*source_notes(source, **there), *missing_draws_notes(raw, "solution")]
    notes += epochs_notes(source, others, there["D"], None) if for_ == "D" else []
    return plan_answer(
        "solution", sentence, source, values, level=level, at=there, given=["loss"], notes=notes
    )  # fmt: skip


# Settings of a run.


@checked
def best_settings(
    runs: Any, over: Sequence[str] = ("lr", "batch"), *, tolerance: Fraction = 1e-3
) -> Answer:
    """The best LR and batch of each cell of a sweep, as they were run.

    A cell is the runs of one N and D. A best value at the edge of its sweep is no estimate of the
    optimum, only a bound of it. The table is for looking at. To predict a best setting, fit
    :func:`jaxlaw.laws.tuned` to the runs: they show on which side of such a cell the loss falls.

    Args:
        runs: runs with N, D, loss and the settings, as :func:`jaxlaw.read_runs` takes or returns
            them; ``units={"batch": 2048}`` there reads batches of sequences of 2,048 tokens.
        over: settings that were swept: ``lr``, ``batch`` or both.
        tolerance: relative excess of the loss within which values count as near the best.

    Returns:
        Answer whose ``table`` has a row a cell, in single parameters and tokens: ``N``, ``D``,
        ``runs``, ``loss`` (the lowest), and of each setting, such as ``lr``, its value there,
        ``lr_from`` and ``lr_to``, between which the loss is within the tolerance of the lowest,
        the other setting at its best, and ``lr_bound``: ``upper`` where the best is the smallest
        value of the cell's sweep, and so an upper bound of the optimum, ``lower`` where it is the
        largest, ``only`` where no other was run, else empty. The note ``optimum-at-limit`` says
        that there are bounds.

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

    Shell:
        jaxlaw plan best-settings sweeps.csv --units batch=2048
    """
    law = tuned("chinchilla", over)
    names = law.input_names[2:]
    observed = read_runs(runs).observations(law, free=())
    table = pd.DataFrame({**observed.inputs, "loss": observed.target})
    rows = []
    for (N, D), cell in table.groupby(["N", "D"]):
        row = {"N": N, "D": D, "runs": len(cell), "loss": cell["loss"].min()}
        for name in names:
            # Of each value that was run the lowest loss counts, whatever the other setting.
            lowest = cell.groupby(name)["loss"].min()
            best, last = int(lowest.argmin()), len(lowest) - 1
            low, high = as_good(lowest.to_numpy(), best, math.log1p(tolerance))
            bound = {0: "upper", last: "lower"}.get(best, "") if last else "only"
            own = {"": best, "_from": low, "_to": high}
            row |= {f"{name}{end}": lowest.index[k] for end, k in own.items()}
            row[f"{name}_bound"] = bound
        rows.append(row)
    found = pd.DataFrame(rows)
    notes, said = list(observed.notes), []
    for name in names:
        at_edge = found[found[f"{name}_bound"] != ""]
        said.append(f"{name} at an edge in {len(at_edge)}")
        if len(at_edge):
            message = (
                f"the best {name} of {len(at_edge)} of {len(found)} cells lies at the edge of its "
                f"sweep, so that it bounds the optimum: {name}_bound says from which side"
            )
            notes.append(Note("optimum-at-limit", "warning", message))
    counted = {"N": "parameters", "D": "tokens", "loss": "nats", "batch": "tokens"}
    units = {name: (counted.get(name.partition("_")[0], ""), 1.0) for name in found}
    return Answer(
        kind="best settings", sentence=f"{len(found)} cells of N and D; {', '.join(said)}",
        tables={"table": found}, facts={"tolerance": tolerance}, units=units, notes=notes,
    )  # fmt: skip


@checked
def optimal_inputs(
    fit: Any,
    over: Ranges | None = None,
    *,
    at: Inputs = None,
    grid: Mapping[str, Sequence[float]] | None = None,
    compute: Amount | None = None,
    tolerance: Fraction = 1e-3,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The best settings of a run, such as its learning rate and batch.

    For any law and any of its inputs; :func:`jaxlaw.laws.tuned` has those two. The exponents with
    which best settings move are ill determined, as several of them fit the same sweeps; what a run
    loses by the settings that are proposed is not, and that is ``regret``.

    Args:
        fit: fit of the loss: a Fit, (law, params), a bootstrap, draws or a forecast.
        over: input → (least, largest) between which it is searched, in the units of the fitted
            runs, or None: an input other than N, D and r is then searched over the range of
            the runs. Left out, the learning rate and the batch of a tuned law.
        at: values of all other inputs, in the units of the fitted runs.
        grid: input → values that can be run, such as powers of 2 of a batch; the combination with
            the lowest loss is what is to be run.
        compute: budget in FLOPs, where N and D are searched too.
        tolerance: relative excess of the loss within which values count as near the best.
        level: confidence level of the intervals.

    Returns:
        Answer as of :func:`minimise`, and the fact ``run``, input → value to run: the best of the
        ``grid``, or the best itself without one. With a grid ``excess`` is how far the loss of
        ``run`` lies above the lowest, relative; with draws ``regret`` is its mean over them, each
        beside its own lowest: what not knowing the law costs. An optimum at the edge of what is
        searched is what the headline begins with.

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
    (source,) = as_draws(fit)
    if over is None:
        over = {name: None for name in source.law.best_settings if name not in (at or {})}
    budget = [] if compute is None else [Budget(compute)]
    found = minimise(fit, over, subject_to=budget, at=at, tolerance=tolerance, level=level)
    if not found.sentence:
        return replace(found, kind="optimal inputs")
    best, held = found.best, source.inputs_taken(at)

    def losses_at(points):
        """Losses (1 + R, S) of settings, by the fit and each of its draws."""
        every = [law_inputs(source, {**held, **one}, ()) for one in points]
        return losses_of(source, **{n: np.array([[x[n] for x in every]]) for n in every[0]})

    for name in {*(grid or {})} - {*best}:
        raise UsageError(f"grid: '{name}' is not searched.{nearest(name, best)}")
    grid = {
        name: [in_unit_of_runs(source, name, value) for value in values]
        for name, values in (grid or {}).items()
    }
    runs = [best, *(best | dict(zip(grid, some, strict=True)) for some in product(*grid.values()))]
    losses, costs, draws = losses_at(runs), {}, found.draws.get("loss")
    k = 1 + losses[0, 1:].argmin()
    if grid:
        costs["excess"] = Quantity(float(relative_excess(losses[0, k], losses[0, 0])), SHARE)
    if draws is not None:
        # Of each draw beside its own lowest; the mean alone says what to expect.
        regret = np.maximum(relative_excess(losses[:, k], np.append(found.loss, draws)), 0.0)
        bounds = intervals({"regret": regret}, level, source.degrees).get("regret", ())
        mean = float(np.nanmean(regret[1:]))
        costs["regret"] = Quantity(mean, SHARE, 1.0, *bounds, draws=regret[1:])
    sentence = [note.message for note in found.notes if note.code == "optimum-at-limit"]
    sentence.append(found.sentence)
    if (run := runs[k]) != best:
        values = (f"{name} {written(x, *unit_of(source, name))}" for name, x in run.items())
        sentence.append(f"run {', '.join(values)}")

    positive = {spec.name for spec in source.law.inputs if spec.domain == "positive"}
    names = [name for name in best if name in positive - {"N", "D"}]

    def around():
        """The loss over one setting, or over two, where it is up to some 2% above the lowest."""
        count = 101 if len(names) == 1 else 14
        drawn = [
            np.geomspace(*(best[n] * (end / best[n]) ** 5 for end in found.near[n]), count)
            for n in names[:2]
        ]
        points = [dict(zip(names, values)) for values in product(*drawn)]  # noqa: B905
        columns = pd.DataFrame(points).to_dict("series")
        losses = losses_at([best | one for one in points])
        return {"around": table_of(columns | {"loss": losses}, level, source.degrees)}

    return replace(
        found, kind="optimal inputs", curves=around if names else {}, sentence="; ".join(sentence),
        quantities={**found.quantities, **costs}, facts={**found.facts, "run": run},
    )  # fmt: skip


_TABLE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # fractions of more tokens, a row each
_WIDEST = math.log(1e6)  # times the best batch or learning rate, up to which one is searched
_HALVINGS = 44  # of such a bracket: 1e-12
_COLUMNS = ("batch", "lr", "D", "steps", "lr_power", "loss")


@checked
def critical_batch_size(
    fit: Any,
    *,
    at: Inputs = None,
    overhead: Annotated[float, Between(0, strict=True, must="above 0, such as 0.2")] = 0.2,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The largest batch that needs few more tokens, and the learning rate that goes with it.

    A run of N parameters and D tokens at its best settings reaches some loss. With a larger batch
    and the best LR for it, it needs more tokens for the same loss, and fewer steps: up to the
    critical batch no more than a fraction ``overhead`` of them. 0.2 is Zhang's definition; on the
    curve of McCandlish, (S/S_min − 1)·(E/E_min − 1) = 1 for S steps and E tokens, the critical
    batch is that of an overhead of 1. There E is least for the smallest batches; in sweeps of runs
    at equal tokens, to which laws of :func:`jaxlaw.laws.tuned` are fitted, a batch can be too small
    as well, and E is least at the best one. How close it is to what the runs of such sweeps show
    without a law is in ``benchmarks/tuning.md``.

    Args:
        fit: fit of a law with ``batch`` among its best settings, of :func:`jaxlaw.laws.tuned`: a
            Fit, (law, params), a bootstrap, draws or a forecast by this law alone.
        at: values of N, D and all other inputs but ``lr`` and ``batch``, in the units of the fitted
            runs; D is that of the run with the best settings.
        overhead: fraction of more tokens, above 0, that the critical batch may need.
        level: confidence level of the intervals. Each draw has its own loss at the best settings.

    Returns:
        Answer with ``batch``, the critical one, in the unit of the runs, ``D`` and ``steps`` of a
        run with it, ``best_batch`` and ``best_steps``, the same of the batch that needs the fewest
        tokens, and the ``loss`` that both reach. Of laws with a learning rate also ``lr``, the best
        one there, ``best_lr``, and ``lr_power``, the power of the batch with which the best LR
        grows from the best batch to the critical one (0.5 by the √B rule, 1 by the linear one). The
        ``table`` has the same for several fractions ``overhead``
        of more tokens. Where no batch is too large ``batch`` is infinite, with the note
        ``out-of-reach``.

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
    (source,) = draws_taking([fit], "D", "batch")
    law = source.law
    if "batch" not in law.best_settings:
        raise UsageError(
            f"law {law.name} does not say by itself which batch is best: fit a law of "
            "jl.laws.tuned, such as tuned-skaling; of a forecast, one by such a law alone"
        )
    settings = tuple(name for name in ("lr", "batch") if name in law.best_settings)
    held = law_inputs(source, at, settings)
    # One call of one program has all: at the best batch, at the critical one, and the table's.
    count = source.rows
    rows = [*range(count), *range(count), *[0] * len(_TABLE)]
    shares = np.concatenate([np.zeros(count), np.full(count, overhead), _TABLE])
    params = {name: column[rows] for name, column in source.values.items()}
    found = _largest_batch(law, settings, params, shares, held)
    of_D = source.scale("D") / source.units["D"]  # tokens in one of the law's own units
    worth = {"steps": 1 / of_D, **{name: source.units[name] for name in ("D", *settings)}}
    found = {name: found[name] / worth.get(name, 1.0) for name in _COLUMNS if name in found}
    best, values, table = (
        {name: column[part] for name, column in found.items()}
        for part in (slice(count), slice(count, 2 * count), slice(2 * count, None))
    )
    values |= {f"best_{name}": best[name] for name in ("batch", "lr", "steps") if name in best}
    del table["loss"]
    first = of_fit(values)
    there = {**(at or {}), **{name: first[name] for name in ("D", *settings)}}
    notes = [
        *source_notes(source, **there),
        *missing_draws_notes(values["batch"], "critical batch"),
    ]
    sentence = ""
    if math.isinf(first["batch"]):
        message = (
            "no batch up to a million times the best one needs so many more tokens: add runs with "
            "larger batches, which show what those cost"
        )
        notes.insert(0, Note("out-of-reach", "error", message))
    else:
        sentence = (
            f"critical batch {{batch}}, {times(first['batch'] / first['best_batch'])} the best "
            f"one, {{best_batch}}: {written(overhead, SHARE)} more tokens reach the loss {{loss}} "
            f"in {times(first['best_steps'] / first['steps'])} fewer steps"
        )
        sentence += ", at lr {lr}" * ("lr" in values)
    return plan_answer(
        "critical batch size", sentence, source, values, level=level, at=there, given=["D"],
        notes=notes, facts={"overhead": overhead},
        tables={"table": pd.DataFrame({"overhead": _TABLE, **table})},
    )  # fmt: skip


# The fraction of more tokens is given, and the batch is searched: at so many tokens the lowest loss
# over the learning rates rises with the batch, from the best one on, and passes once the loss that
# is to be reached. The other way round, many batches would have no answer: with a batch that is far
# too large no number of tokens reaches that loss.
@for_each_draw("law", "settings", draws=("params", "overhead"))
def _largest_batch(law: Law, settings: tuple[str, ...], params, overhead, held) -> dict:
    """The largest batch with which so many more tokens reach the loss, and its best LR."""

    def best(D):
        return {name: law.best_settings[name](params, {**held, "D": D}) for name in settings}

    def loss(D, batch, lr=0.0):
        """The loss at a batch and a learning rate so far above the best ones, in logarithms."""
        above = {"batch": batch, "lr": lr}
        at = {name: value * jnp.exp(above[name]) for name, value in best(D).items()}
        return law(params, **{**held, "D": D}, **at)

    def rate(batch):
        if "lr" not in settings:
            return 0.0
        return root(jax.grad(lambda lr: loss(D, batch, lr)), -_WIDEST, _WIDEST, _HALVINGS)

    reached, D = loss(held["D"], 0.0), held["D"] * (1 + overhead)
    widest = root_or_infinity(lambda batch: loss(D, batch, rate(batch)) - reached, 0.0, _WIDEST)
    batch, at_best = jnp.where(overhead > 0, widest, 0.0), best(D)
    found = {"D": D, "batch": at_best["batch"] * jnp.exp(batch), "loss": reached}
    found["steps"] = D / found["batch"]
    if "lr" in settings:
        lr, known = rate(batch), jnp.isfinite(batch)
        found["lr"] = jnp.where(known, at_best["lr"] * jnp.exp(lr), jnp.nan)
        found["lr_power"] = jnp.where(known & (overhead > 0), lr / batch, jnp.nan)
    return found
