"""Experiments whose truth is known, each of its paper's own design; the demo's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw import laws, schedules
from jaxlaw._arrays import numbers_of
from jaxlaw._jit import in_float64
from jaxlaw._repr import short_repr
from jaxlaw._typed import Count, LogNoise, Seed, checked
from jaxlaw.data import area_options, areas_along
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws import Law
from jaxlaw.simulate._designs import DESIGNS, LINES, OTHER_LAW, TRUTHS


@dataclass(frozen=True)
class Experiment:
    """Simulated runs and what they were made from.

    Attributes:
        name: name, as in :data:`TRUTHS`.
        law: the law that made them.
        truth: its parameters, in the law's own units.
        table: one row per run; columns named by the law's inputs, in its own units, and one
            named by its target.
        noise: standard deviation of the noise on the log of the target.

    Example:
        >>> made = jl.simulate.experiment("chinchilla")
        >>> made.law.name, len(made.table), made.truth["E"]
        ('chinchilla', 243, 1.69)
    """

    name: str
    law: Law
    truth: Mapping[str, float]
    table: pd.DataFrame
    noise: float

    __repr__ = short_repr


class Demo(NamedTuple):
    """The demo's data: one set of runs evaluated on two corpora, and the two truths.

    Attributes:
        table: columns ``n_params`` and ``n_tokens`` (single ones), ``domain_ratio``,
            ``general_loss``, ``domain_loss`` (nats).
        general, domain: parameters of the ``dcpt`` law of either loss.

    Example:
        >>> jl.simulate.demo().table.columns.tolist()
        ['n_params', 'n_tokens', 'domain_ratio', 'general_loss', 'domain_loss']
    """

    table: pd.DataFrame
    general: Mapping[str, float]
    domain: Mapping[str, float]


class ContinualCurves(NamedTuple):
    """Loss curves of a base and of runs that continue it, as a user's log would hold them.

    Attributes:
        table: one row a logged point: ``run``, ``schedule`` (a line for
            :func:`jaxlaw.schedules.parse`), ``step`` over both phases, ``replay`` (the mixture
            ratio of the pre-training corpus), ``loss_pt``, ``loss_cpt`` (nats, on either corpus).
        pt, cpt: parameters of ``cpt-curve-replay-pt`` and ``cpt-curve-replay-cpt``.

    Example:
        >>> jl.simulate.continual_curves().table["run"].nunique()
        23
    """

    table: pd.DataFrame
    pt: Mapping[str, float]
    cpt: Mapping[str, float]


@checked
def simulate_runs(
    law: str | Law,
    params: Mapping[str, float],
    inputs: Mapping[str, Any],
    noise: LogNoise = 0.0,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Make runs that obey a law.

    Args:
        law: a law or its name.
        params: natural value of every parameter, in the law's own units.
        inputs: array or number for every input, in the law's own units; broadcast.
        noise: standard deviation of the noise on the log of the target; the target is
            multiplied by ``exp(noise · normal)``.
        seed: seed of the noise.

    Returns:
        A table with a column for every input and one named by the law's target, (n,) rows.

    Raises:
        UsageError: a parameter or input is missing or unknown, noise is negative, or the
            law has no finite value at some input.

    Example:
        >>> truth = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}
        >>> table = jl.simulate.simulate_runs("chinchilla", truth, {"N": [1e8, 1e9], "D": 2e10})
        >>> table["loss"].round(3).tolist()
        [3.0, 2.58]
    """
    law = laws.get(law)
    for kind, wanted, given in (
        ("parameter", law.parameter_names, params),
        ("input", law.input_names, inputs),
    ):
        if {*given} != {*wanted}:
            raise UsageError(
                f"law {law.name} takes the {kind}s {', '.join(wanted)}, not {', '.join(given)}"
            )
    columns = np.broadcast_arrays(*(numbers_of(name, inputs[name]) for name in law.input_names))
    columns = (column.ravel() for column in columns)
    inputs = dict(zip(law.input_names, columns, strict=True))
    table = pd.DataFrame(inputs)

    def not_whole(wrong, sums, remedy):
        row = int(np.argmax(wrong))
        return UsageError(
            f"row {row}: mixture ratios add up to {sums[row]:.6g}, not to 1; {remedy}"
        )

    law.whole_mixtures(inputs, not_whole)
    with in_float64():  # in float32 the rounding alone would be noise of 1e-7
        values = {name: float(params[name]) for name in law.parameter_names}
        clean = np.asarray(law.evaluate(values, **inputs), float)
    unreachable = np.flatnonzero(~np.isfinite(clean))
    if unreachable.size:
        where = table.iloc[unreachable[0]].to_dict()
        raise UsageError(f"law {law.name} is not finite at {where} with these parameters")
    normal = np.random.default_rng(seed).standard_normal(len(table))
    return table.assign(**{law.target: clean * np.exp(noise * normal)})


@checked
def experiment(name: str, noise: LogNoise = 0.004, seed: Seed = 0) -> Experiment:
    """The experiment of a law's own paper, with known truth.

    Args:
        name: a law, or one of the other experiments in :data:`TRUTHS`: ``dcpt-general``
            (the other corpus of the runs of ``dcpt``) and ``from-scratch`` (the runs beside
            those of ``cpt-chinchilla``, obeying ``chinchilla``).
        noise: standard deviation of the noise on the log of the target.
        seed: seed of the noise.

    Returns:
        :class:`Experiment`: the table, the law and its true parameters.

    Raises:
        UsageError: there is no such experiment.

    Example:
        >>> made = jl.simulate.experiment("chinchilla", noise=0.002)
        >>> len(made.table), made.truth["alpha"]
        (243, 0.34)
    """
    if name not in DESIGNS:
        raise UsageError(
            f"there is no experiment '{name}'; experiments: {', '.join(DESIGNS)}."
            f"{nearest(name, DESIGNS)}"
        )
    law, truth = laws.built_in(OTHER_LAW.get(name, name)), TRUTHS[name]
    table = simulate_runs(law, truth, DESIGNS[name](), noise, seed)
    return Experiment(name, law, truth, table, noise)


@checked
def demo(noise: LogNoise = 0.004, seed: Seed = 0) -> Demo:
    """Que's design as a user's file would hold it: one row per run, losses of both corpora.

    Args:
        noise: standard deviation of the noise on the log of either loss.
        seed: seed of the noise, which is independent between the two losses.

    Example:
        >>> demo = jl.simulate.demo()
        >>> demo.table.columns.to_list()
        ['n_params', 'n_tokens', 'domain_ratio', 'general_loss', 'domain_loss']
    """
    domain = experiment("dcpt", noise, seed).table
    # The same runs in the same order: rows of the two tables differ in r alone.
    table = pd.DataFrame(
        {
            "n_params": np.rint(domain["N"] * 1e9).astype(np.int64),
            "n_tokens": np.rint(domain["D"] * 1e9).astype(np.int64),
            "domain_ratio": domain["r"],
            "general_loss": experiment("dcpt-general", noise, seed + 1).table["loss"],
            "domain_loss": domain["loss"],
        }
    )
    return Demo(table, TRUTHS["dcpt-general"], TRUTHS["dcpt"])


@checked
def continual_curves(
    noise: LogNoise = 0.002, seed: Seed = 0, every: Count = 500
) -> ContinualCurves:
    """Three bases and the runs that continue them at five replay ratios (Wang 2025, setting A).

    Args:
        noise: standard deviation of the noise on the log of either loss.
        seed: seed of the noise, which is independent between points and losses.
        every: number of steps between logged points.

    Example:
        >>> curves = jl.simulate.continual_curves(every=5000)
        >>> curves.table["run"].nunique(), len(curves.table)
        (23, 64)
    """
    parts = []
    for name, line in LINES.items():
        schedule = schedules.parse(line)
        first = schedule.boundary or 0  # bases up to their end, the others from there on
        step = np.arange(first + every, len(schedule) + 1, every)
        areas = pd.DataFrame(areas_along(schedule, step, area_options()))
        for replay in (0.0, 0.1, 0.2, 0.5, 0.8) if first else (1.0,):
            run = f"{name} replay {replay:g}" if first else name
            parts.append(areas.assign(run=run, schedule=line, step=step, replay=replay))
    log = pd.concat(parts, ignore_index=True)
    shown = log[["run", "schedule", "step", "replay"]]
    shares = {"pt": log["replay"], "cpt": 1 - log["replay"]}
    for k, (corpus, r) in enumerate(shares.items()):
        name = f"cpt-curve-replay-{corpus}"
        inputs = {area: log[area] for area in ("S1_pt", "S1_cpt", "S2_pt", "S2_cpt")} | {"r": r}
        made = simulate_runs(name, TRUTHS[name], inputs, noise, seed + k)
        shown = shown.assign(**{f"loss_{corpus}": made["loss"]})
    return ContinualCurves(shown, *(TRUTHS[f"cpt-curve-replay-{corpus}"] for corpus in shares))
