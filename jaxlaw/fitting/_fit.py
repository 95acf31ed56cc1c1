"""Fit a law to runs: starts, screening, batch solve, finish, evidence.

The stages of a default fit:

1. 4,096 starts from a Sobol sample of the law's ranges (``starts``, ``n_starts``);
2. the coefficients the law is linear in are solved for at each, the objective is evaluated and
   the 64 best go on (``screen``; False solves all as they are);
3. the batch solver takes every one of them to its end (``solver``);
4. jaxopt's L-BFGS finishes the best distinct candidates, and what it finds is reported.

Of more than 50,000 rows a sample goes through all four, and the best optima are then solved on
all rows: the time of a search grows with starts × rows, that of the last solve with rows alone.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxlaw import laws
from jaxlaw._jit import in_float64, programs_in
from jaxlaw._typed import Seed, StartCount, checked
from jaxlaw.data._runs import Observations, read_runs
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._diagnostics import AGREE, all_notes, at_walls
from jaxlaw.fitting._elementwise import check_elementwise
from jaxlaw.fitting._extrapolation import joint_ranges
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._linearise import linearise
from jaxlaw.fitting._multistart import Optimum, Task, find_optima
from jaxlaw.fitting._objective import (
    LARGEST_DELTA,
    metrics,
    rounding_floor,
    scale_on_host,
    summed_huber,
)
from jaxlaw.fitting._problem import Options, Posed, pose
from jaxlaw.fitting._result import Fit, RunnerUp
from jaxlaw.fitting._starts import first_starts, on_grid
from jaxlaw.fitting.solvers import SOLVERS, Solver
from jaxlaw.fitting.solvers._status import NAMES
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note

_log = logging.getLogger(__name__)

MANY_ROWS = 50_000  # beyond this the starts are searched on a sample of so many rows at most
_FROM_SAMPLE = 4  # starts on all rows, of those that agreed on the sample


class _Rough(NamedTuple):
    """A search on a sample of the rows: what it came to, and (S, p) starts on all of them."""

    optimum: Optimum
    starts: np.ndarray
    note: Note


@checked
def fit(
    law: str | Law,
    runs: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    units: Mapping[str, Any] | None = None,
    constraint: Literal["paper", "observed"] | None = None,
    starts: Any = "sobol",
    n_starts: StartCount = 4096,
    screen: int | Literal[False] = 64,
    solver: str = "newton",
    delta: float | None = None,
    space: Literal["log", "linear"] | None = None,
    asymmetry: float = 1.0,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    base: FittedLaw | Mapping[str, float] | None = None,
    seed: Seed = 0,
    strict: bool = False,
    work_dir: str | Path | None = None,
    progress: bool | None = None,
    distributed: bool = False,
    compile_cache: str | Path | None = None,
    **reading: Any,
) -> Fit:
    """Fit a law to runs.

    Args:
        law: a law or its name.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        columns, units, **reading: handed to :func:`jaxlaw.read_runs`.
        constraint: for dcpt, ``"paper"`` (Que 2024, App. E.3: the loss falls with r
            everywhere) or ``"observed"`` (over the observed range). The default is none:
            on real mixtures the paper's form halves R², and a fit without it reports where
            the loss rises with r.
        starts: ``"sobol"``, ``"grid"`` (the source's; where that prints none and jaxlaw has its
            own, a note says so), (S, p) array, DataFrame, or dict of the values to combine.
        n_starts: size of the Sobol sample.
        screen: how many of the best starts are solved; False for all.
        solver: ``"newton"``, or ``"lbfgs"`` for jaxopt's on every start, as in the papers.
        delta: Huber threshold; the law's own if None; ``inf`` for least squares.
        space: residuals in ``"log"`` or ``"linear"``; the law's own if None.
        asymmetry: factor on the loss of points below the curve.
        fixed, tied, bounds: parameters held at a value, equal to another, in a range.
        base: a from-scratch fit that cpt-chinchilla takes E, A and alpha from;
            ``fixed={}`` fits all six.
        seed: of the Sobol sample.
        strict: raise where the result is too poor to use, rather than note it.
        work_dir: folder that keeps finished parts of a long fit; killed, the same call goes on
            from there, and ends with the same result to the last bit.
        progress: a bar on stderr; None shows one in terminals and notebooks only.
        distributed: share the work among the processes of ``jax.distributed``, which all make
            this call and all get the result.
        compile_cache: folder that keeps compiled programs for later processes.

    Returns:
        The :class:`Fit`.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry the law; with ``strict``, neither can the fit.
        WorkError: the work folder cannot be written.
    """
    law = laws.get(law, constraint)
    check_counts(n_starts=n_starts, screen=screen)
    options = options_for(
        law, delta=delta, space=space, asymmetry=asymmetry, fixed=fixed, tied=tied,
        bounds=bounds, base=base,
    )  # fmt: skip
    if not options.free(law):  # there is nothing to search: the given values are the one start
        n_starts = 1
    method = solver_named(solver)
    work = Work(work_dir, progress, distributed)
    observations = observed(law, runs, options, columns=columns, units=units, **reading)
    with programs_in(compile_cache), in_float64():
        posed = pose(law, *in_order(observations), options, method.linear_coefficients)
        check_elementwise(posed, observations.inputs)
        rough, searched = None, screen
        if screen is not False and (observations.weight > 0).sum() > MANY_ROWS:
            rough = _on_sample(posed, observations, method, starts, n_starts, seed, screen, work)
            # The sample's work is in the folder itself, where other files would be refused.
            folder = None if work_dir is None else Path(work_dir, "all-rows")
            work = Work(folder, progress, distributed)
        if rough is None:
            first = first_starts(posed, starts, n_starts, seed)
        else:
            first, searched = rough.starts, False
        (optimum,) = find_optima(method, Task(posed.model, posed.problem), first, searched, work)
        if rough is not None:
            optimum = _with_shares(optimum, rough.optimum)
        if not np.isfinite(optimum.objective):
            raise DataError(
                f"law {law.name} comes to no finite objective from any of {optimum.solved} "
                "starts: check units, bounds and fixed values"
            )
        result = _report(posed, observations, optimum, solver)
        sampled = () if rough is None else (rough.note,)
        notes = (*result.notes, *sampled, *on_grid(law, starts), *work.memory.notes)
        result = dataclasses.replace(result, notes=notes)
        _log.info("law %s: objective %.8g, %s", law.name, result.objective, result.status)
    if law.constraint is not None and _binds(posed, optimum.coordinates):
        without = fit(
            laws.get(law.name), runs, columns=columns, units=units, n_starts=n_starts,
            screen=screen, solver=solver, delta=delta, space=space, asymmetry=asymmetry,
            fixed=fixed, tied=tied, bounds=bounds, seed=seed, progress=progress,
            work_dir=None if work_dir is None else Path(work_dir, "without-constraint"),
            distributed=distributed, compile_cache=compile_cache, **reading,
        )  # fmt: skip
        result = _with_cost(result, without)
    if strict:
        _refuse(result)
    return result


def _on_sample(
    posed: Posed, observations: Observations, method: Solver, starts: Any, n_starts: int,
    seed: int, screen: int, work: Work,
) -> _Rough | None:  # fmt: skip
    """Where the starts lead on a sample of the rows; None where that is nowhere finite.

    The rows are ordered by weight, target and inputs, and every k-th of them is taken: all levels
    of the target are in the sample as they are in the whole.
    """
    inputs, target, weight = in_order(observations)
    active = np.flatnonzero(weight > 0)
    every = -(-len(active) // MANY_ROWS)
    rows = active[every // 2 :: every]
    few = pose(
        posed.model.law, {name: values[rows] for name, values in inputs.items()}, target[rows],
        weight[rows], posed.options, method.linear_coefficients,
    )  # fmt: skip
    first = first_starts(few, starts, n_starts, seed)
    (optimum,) = find_optima(method, Task(few.model, few.problem), first, screen, work)
    if not np.isfinite(optimum.objective):
        return None
    agreeing = np.linspace(0, len(optimum.agreeing) - 1, _FROM_SAMPLE).round().astype(int)
    places = [optimum.coordinates, *optimum.agreeing[np.unique(agreeing)]]
    if optimum.runner_up is not None:
        places.append(optimum.runner_up[0])
    natural = few.params(np.stack(places))  # the centre of the sample is not that of all rows
    message = (
        f"{observations.source}: the starts were searched on {len(rows)} of {len(active)} rows, "
        f"and the best optima were solved on all of them; the agreement of starts and the shares "
        "of other optima are those of the search"
    )
    note = Note("searched-on-sample", "info", message)
    return _Rough(optimum, posed.place(natural), note)


def _with_shares(optimum: Optimum, rough: Optimum) -> Optimum:
    """The optimum on all rows with the evidence of the search that led there."""
    other = 0.0 if rough.runner_up is None else rough.runner_up[2]
    shares = (rough.agreement, other)
    ends = tuple((value, share) for (value, _), share in zip(optimum.ends, shares, strict=False))
    runner_up = optimum.runner_up
    return optimum._replace(
        agreement=rough.agreement, tried=rough.tried, solved=rough.solved, ends=ends,
        runner_up=None if runner_up is None else (*runner_up[:2], other),
    )  # fmt: skip


def check_counts(n_starts: int, screen: int | bool) -> None:
    """Refuse numbers of starts that make no sense; raises UsageError."""
    if n_starts < 1:
        raise UsageError(f"n_starts must be at least 1, not {n_starts}")
    if screen is not False and screen < 1:
        raise UsageError(f"screen must be at least 1, or False to solve all, not {screen}")


def solver_named(name: str) -> Solver:
    """The solver of that name; raises UsageError."""
    if name not in SOLVERS:
        raise UsageError(
            f"there is no solver '{name}'; solvers: {', '.join(SOLVERS)}.{nearest(name, SOLVERS)}"
        )
    return SOLVERS[name]


def _fixed(law: Law, fixed: Mapping[str, float] | None, base: Any) -> dict[str, float]:
    if base is None:
        if law.from_base and fixed is None:
            raise UsageError(
                f"law {law.name} takes {', '.join(law.from_base)} from a from-scratch fit: pass "
                "base=fit of law chinchilla, or fixed={} to fit all its parameters"
            )
        return dict(fixed or {})
    params = base.params if isinstance(base, FittedLaw) else base
    missing = [name for name in law.from_base if name not in params]
    if missing or not law.from_base:
        raise UsageError(
            f"base has no parameter {', '.join(missing)}"
            if missing
            else f"law {law.name} takes no base; use fixed="
        )
    return {name: float(params[name]) for name in law.from_base} | dict(fixed or {})


def options_for(
    law: Law,
    *,
    delta: float | None = None,
    space: Literal["log", "linear"] | None = None,
    asymmetry: float = 1.0,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    base: FittedLaw | Mapping[str, float] | None = None,
) -> Options:
    """What :func:`fit` was told of the problem itself, checked; raises UsageError."""
    options = Options(
        delta, space, asymmetry, _fixed(law, fixed, base), dict(tied or {}), dict(bounds or {})
    )
    options.check(law)
    return options


def observed(law: Law, runs: Any, options: Options, **reading: Any) -> Observations:
    """The observations a law with these options takes from what :func:`fit` was given."""
    return read_runs(runs, **reading).observations(law, free=options.free(law))


def in_order(observations: Observations) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Inputs, target and weight, rows in an order of their own: sums do not see the table's."""
    order = row_order(observations)
    inputs = {name: values[order] for name, values in observations.inputs.items()}
    return inputs, observations.target[order], observations.weight[order]


def row_order(observations: Observations) -> np.ndarray:
    """(n,) the order of :func:`in_order`, as indices of the observations."""
    columns = [observations.weight, observations.target, *observations.inputs.values()]
    return np.lexsort([one if one.ndim == 1 else one.sum(axis=1) for one in columns])


def _report(posed: Posed, observations: Observations, optimum: Optimum, solver: str) -> Fit:
    model, problem = posed.model, posed.problem
    scale = scale_on_host(problem)
    linear = linearise(posed, optimum.coordinates)
    params, agreeing = _natural(posed, optimum)
    predicted = np.asarray(model.law.at_once(params, **observations.inputs))
    measured = metrics(observations.target, predicted, observations.weight, float(problem.delta))
    order = row_order(observations)
    evidence = {
        "agreement": optimum.agreement,
        "disagreement": optimum.disagreement,
        "status": NAMES[optimum.status],
        "r2": measured["r2"],
        "scatter": measured["rmse_log"],
        "spread": _spread(posed, agreeing),
        "ranges": {name: (v.min(), v.max()) for name, v in observations.inputs.items()},
        "rows": observations.rows[order],
        "word": observations.word,
        "runs": None if observations.runs is None else observations.runs.rows(order),
        "relative_slopes": _at_the_centre(model.law, observations, params, linear.params_jacobian),
    }
    notes = all_notes(posed, optimum.coordinates, linear, params, evidence)
    notes += _on_the_objective(posed, optimum.objective * scale, predicted[order])
    if not posed.options.free(model.law):
        message = (
            "every parameter is fixed: nothing was searched, and the objective and the scores are "
            "those of the given values on these runs"
        )
        notes.append(Note("all-fixed", "info", message))
    runner_up = None
    if optimum.runner_up is not None:
        where, value, share = optimum.runner_up
        there = {name: float(v) for name, v in posed.params(where).items()}
        runner_up = RunnerUp(value * scale, share, there)
    return Fit(
        law=model.law,
        params=params,
        objective=optimum.objective * scale,
        metrics=measured,
        status=NAMES[optimum.status],
        agreement=optimum.agreement,
        n_starts=optimum.tried,
        n_solved=optimum.solved,
        runner_up=runner_up,
        notes=(*observations.notes, *notes),
        units=dict(observations.scale),
        ranges={
            name: tuple(map(float, observations.ranges[name])) for name in model.law.input_names
        },
        joint_ranges=dict(joint_ranges(model.law.inputs, _of_users(observations))),
        n_observations=int((observations.weight > 0).sum()),
        n_dropped=observations.dropped,
        delta=float("inf") if float(problem.delta) >= LARGEST_DELTA else float(problem.delta),
        space=model.space,
        asymmetry=float(problem.asymmetry),
        fixed=dict(posed.options.fixed),
        tied=dict(posed.options.tied),
        bounds=dict(posed.options.bounds),
        solver=solver,
        source=observations.source,
        area_options=None if observations.area_options is None else dict(observations.area_options),
        optima=tuple((value * scale, share) for value, share in optimum.ends),
        columns=dict(observations.mapped),
    )


def _on_the_objective(posed: Posed, objective: float, predicted: np.ndarray) -> list[Note]:
    """An error where the law, with the parameters told, does not have the objective told.

    The search evaluates the law at coordinates, inside programs; this is the formula itself, at
    the reported parameters on the runs as they were read.
    """
    problem = posed.problem
    there = summed_huber(problem, posed.model.space, predicted)
    floor = float(rounding_floor(posed.model, jax.device_get(problem))) * scale_on_host(problem)
    if abs(there - objective) <= max(AGREE * objective, floor):
        return []
    message = (
        f"the search came to an objective of {objective:.8g}, and the law with the parameters told "
        f"has {there:.8g} on these runs: use neither; is the law a pure function of its inputs "
        "and parameters?"
    )
    return [Note("objective-disagrees", "error", message)]


def _natural(posed: Posed, optimum: Optimum) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Natural parameters of the optimum, and (k,) of the starts that agree, by one program."""
    natural = posed.params(np.concatenate([optimum.coordinates[None], optimum.agreeing]))
    params = {name: float(values[0]) for name, values in natural.items()}
    return params, {name: values[1:] for name, values in natural.items()}


def _at_the_centre(
    law: Law, observations: Observations, params: Mapping[str, float], slopes: np.ndarray
) -> np.ndarray:
    """Slopes (p, p) of log |parameter|, a coefficient counted at the geometric mean of the data.

    How well A is known in A/N^α depends on the unit of N; how well A/N0^α is known does not.
    """
    active, relative = observations.weight > 0, []
    by_name = dict(zip(law.parameter_names, slopes, strict=True))
    for spec in law.parameters:
        shift, moved = 0.0, np.zeros(len(slopes))
        for name, exponent in (spec.centre or {}).items():
            if isinstance(exponent, str):
                sign = -1.0 if exponent.startswith("-") else 1.0
                middle = sign * np.log(observations.inputs[name][active]).mean()
                shift += middle * params[exponent.lstrip("-")]
                moved += middle * by_name[exponent.lstrip("-")]
        value = params[spec.name]
        if spec.scale == "linear":  # it is a logarithm itself: its unit adds
            relative.append((by_name[spec.name] - moved) / (abs(value - shift) or 1.0))
        else:
            relative.append(by_name[spec.name] / (abs(value) or 1.0) - moved)
    return np.stack(relative)


def _of_users(observations: Observations) -> dict[str, np.ndarray]:
    """Inputs in the units of the runs, as ranges are."""
    return {name: one / observations.scale[name] for name, one in observations.inputs.items()}


def _spread(posed: Posed, found: Mapping[str, np.ndarray]) -> dict[str, float]:
    """How far starts that agree on the objective lie apart, relative, by parameter."""
    free = posed.options.free(posed.model.law)
    return {
        name: float(np.ptp(found[name]) / max(np.abs(np.median(found[name])), 1e-12))
        for name in free
    }


def _binds(posed: Posed, coordinates: np.ndarray) -> bool:
    """Whether the law's constraint holds a parameter at its least value."""
    law = posed.model.law
    walls = at_walls(posed, coordinates)
    k = law.parameter_names.index(law.constraint.raises)
    spare = coordinates[k] if posed.model.scales[k] == "linear" else np.exp(coordinates[k])
    active = any(walls.get(name) == side for name, side in law.constraint.active_at.items())
    return law.constraint.raises in walls or spare < 1e-6 or active


def _with_cost(result: Fit, without: Fit) -> Fit:
    message = (
        f"constraint '{result.law.constraint.name}' binds: objective {result.objective:.4g} "
        f"against {without.objective:.4g} without it, R² {result.r2:.3f} against {without.r2:.3f}"
    )
    note = Note("constraint-binds", "warning", message)
    return dataclasses.replace(result, notes=(*result.notes, note))


def _refuse(result: Fit) -> None:
    severe = [note for note in result.notes if note.severity == "error"]
    if result.status != "converged":
        severe += [note for note in result.notes if note.code == "not-converged"]
    if severe:
        raise DataError("; ".join(note.message for note in severe))
