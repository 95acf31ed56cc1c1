"""Fit a law to runs: starts, screening, batch solve, polishing, evidence.

The stages of a default fit:

1. starts from a Sobol sample of the law's ranges, of chinchilla 256, of dcpt 2,048 (``starts``,
   ``n_starts``);
2. at each start the coefficients that the law is linear in are solved for and the objective is
   evaluated; the 64 best starts go on (``n_local``; None solves all of them as they are);
3. the batch solver takes every one of them to a local optimum (``solver``); where fewer than nine
   in ten reach the same one, further starts follow (all of them for few rows);
4. jaxopt's L-BFGS polishes the best distinct optima, and the best of these is reported.

Of more than 50,000 rows a sample goes through all four, and the best optima are then solved on
all rows: the time of a search grows with starts × rows, that of the last solve with rows alone.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

import numpy as np

from jaxlaw import laws
from jaxlaw._arrays import number_in
from jaxlaw._cache import cache_folder
from jaxlaw._jit import in_float64
from jaxlaw._quantities import single_things
from jaxlaw._typed import checked
from jaxlaw.data import AREAS, Observations, Runs, known_columns, read_runs
from jaxlaw.errors import DataError, listed
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._diagnostics import SearchEvidence, diagnosed
from jaxlaw.fitting._elementwise import check_elementwise
from jaxlaw.fitting._extrapolation import joint_ranges
from jaxlaw.fitting._multistart import Batch, Optimum, find_optima
from jaxlaw.fitting._objective import (
    AGREE,
    LARGEST_DELTA,
    rounding_floor,
    scale_on_host,
    summed_huber,
)
from jaxlaw.fitting._options import (
    FitKeywords,
    FitOptions,
    law_and_options,
    lists_options,
    split_options,
)
from jaxlaw.fitting._prior import LAWS, Experiment, experiment_of, run_hashes
from jaxlaw.fitting._problem import (
    FitProblem,
    Linearisation,
    build_problem,
    linearise,
)
from jaxlaw.fitting._result import Fit, RunnerUp
from jaxlaw.fitting._scores import metrics
from jaxlaw.fitting._starts import first_starts
from jaxlaw.fitting.solvers import Status
from jaxlaw.laws import Law
from jaxlaw.notes import Note, warns_of_errors

_log = logging.getLogger(__name__)

MANY_ROWS = 50_000  # beyond this the starts are searched on a sample of so many rows at most
LEAST_NOISE = 0.0005  # of an experiment: losses are printed to three or four digits
_FROM_SAMPLE = 4  # starts on all rows, of those that agreed on the sample


class _SampleSearch(NamedTuple):
    """A search on a sample of the rows: its optimum, and (S, p) starts on all of them."""

    optimum: Optimum
    starts: np.ndarray
    note: Note


@lists_options(FitKeywords)
@warns_of_errors
@checked
def fit(law: str | Law, runs: Any, *, strict: bool = False, **options: Unpack[FitKeywords]) -> Fit:
    """Fit a law to runs by the summed Huber loss, from many starts.

    Args:
        law: law or its name.
        runs: whatever :func:`jaxlaw.read_runs` takes or returns.
        strict: whether to raise where the result is too poor to use, rather than to note it.
        columns, units, weight, where, corpus, drop_invalid, name, format, values, target, last_of:
            options of :func:`jaxlaw.read_runs`.
        constraint: for dcpt, ``"paper"`` (Que 2024, App. E.3: the loss falls with r
            everywhere) or ``"observed"`` (over the observed range). The default is none:
            on real mixtures the paper's form halves R², and a fit without it reports where
            the loss rises with r.
        starts: ``"sobol"``, ``"grid"`` (the source's; where that prints none, jaxlaw's own, see
            :func:`jaxlaw.laws.law_table`), (S, p) array, DataFrame, or dict of the values to
            combine.
        n_starts: size of the Sobol sample. Coefficients that the law is linear in are solved for at
            every start, so that the sample has to cover the others alone: for k of them it has
            64 · 2^k starts by default, at most 2,048, and 4,096 where all are solved as they are.
            Evaluating a start is cheap; more help where the note ``few-starts-agree`` appears.
        n_local: number of the best starts to solve, which takes most of the time. Where fewer
            than nine in ten of them agree, more are solved, up to 65,536 rows × starts, and
            (8/p)² of that for a law of p > 8 parameters. None or False solves all starts, as they
            are.
        solver: ``"newton"``, or ``"lbfgs"`` for jaxopt's on every start, as in the papers.
        delta: Huber threshold; the law's own if None; ``inf`` for least squares.
        residuals: ``"log"`` for residuals of the target's logarithm, ``"linear"`` for the
            target's own; the law's choice if None.
        asymmetry: factor on the loss of points below the curve; above 1 the curve is drawn
            towards the lower envelope of the data.
        fixed: parameter → its value, which is not searched.
        tied: parameter → the parameter whose value it takes.
        bounds: parameter → (lowest, highest), either None.
        evaluation: name of what the target was measured on: the fit then says what it knows of the
            next experiment of that evaluation, for ``jl.posterior(…, prior=[fit])``.
        base: from-scratch fit that cpt-chinchilla takes E, A and alpha from, with their
            covariance, which goes into all intervals; a bootstrap of one; or a dict of their
            values, which are then taken as known. ``fixed={}`` fits all six.
        seed: seed of the Sobol sequence.
        work_dir: folder that keeps finished parts of a long fit. The same call after a crash goes
            on from there, and ends with the same result to the last bit. Processes that make the
            same call with the same folder share the work.
        progress: whether progress is shown on stderr; the command shows it by itself.
        executor: what does the work in place of this process: anything with a method ``submit``
            that returns futures with ``result``, such as
            ``concurrent.futures.ProcessPoolExecutor`` (with ``spawn``), dask's
            ``client.get_executor()``, loky's, submitit's, ``mpi4py.futures``'. What a lost worker
            had under way is done again; the result is the same to the last bit.
        compile_cache: folder that keeps compiled programs for later processes, in place of the
            user's cache folder (the environment variable ``JAXLAW_CACHE``); False for none.

    Returns:
        The :class:`Fit`.

    Raises:
        UsageError: the call is invalid; the message says how to correct it.
        DataError: the runs cannot carry the law; with ``strict``, neither can the fit.
        WorkError: the work folder cannot be written, or the executor has lost its workers.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.004).table
        >>> fit = jl.fit("chinchilla", runs)
        >>> fit.status, round(fit.params["alpha"], 2)
        ('converged', 0.33)
    """
    of_fit, reading = split_options(options)
    law, fit_options = law_and_options(law, **of_fit)
    return fit_with(law, read_runs(runs, **reading), fit_options, strict)


def fit_with(law: Law, runs: Runs, options: FitOptions, strict: bool = False) -> Fit:
    """As :func:`fit`, of runs that are read and options that are checked."""
    with cache_folder(options.compile_cache):
        result, binds = _fitted(law, runs, options)
        if binds:
            free = dataclasses.replace(options.within("without-constraint"), starts="sobol")
            without, _ = _fitted(laws.get(law.name), runs, free)
            result = _with_cost(result, without)
    if strict:
        _refuse(result)
    return result


def _fitted(law: Law, runs: Runs, options: FitOptions) -> tuple[Fit, bool]:
    """The fit, and whether the law's constraint binds."""
    if not options.free(law):  # there is nothing to search: the fixed values are the one start
        options = dataclasses.replace(options, n_starts=1)
    observations = runs.observations(law, free=options.free(law))
    work, method = options.work(), options.method
    with in_float64():
        problem = build_problem(
            law, *in_order(law, observations), options, method.linear_coefficients
        )
        check_elementwise(problem, observations.inputs)
        sample = None
        if options.n_local and (observations.weight > 0).sum() > MANY_ROWS:
            sample = _search_sample(problem, observations, work)
            # The sample's work is in the folder itself, where other files would be refused.
            work = options.work("all-rows")
        first = first_starts(problem) if sample is None else sample.starts
        n_local = options.n_local if sample is None else False
        (optimum,) = find_optima(method, Batch(problem.model, problem.data), first, n_local, work)
        if sample is not None:
            optimum = _with_evidence(optimum, sample.optimum)
        if not np.isfinite(optimum.objective):
            raise DataError(
                f"law {law.name} reaches no finite objective from any of {optimum.solved} "
                "starts: check units, bounds and fixed values"
            )
        result = _report(problem, observations, optimum)
    sampled = () if sample is None else (sample.note,)
    notes = (*result.notes, *sampled, *work.notes)
    result = dataclasses.replace(result, notes=notes)
    _log.info("law %s: objective %.8g, %s", law.name, result.objective, result.status)
    return result, law.constraint is not None and _binds(problem, optimum.coordinates)


def _search_sample(
    problem: FitProblem, observations: Observations, work: Work
) -> _SampleSearch | None:
    """Where the starts lead on a sample of the rows; None where that is nowhere finite.

    The rows are ordered by weight, target and inputs, and every k-th of them is taken: all levels
    of the target are in the sample as they are in the whole.
    """
    inputs, target, weight = in_order(problem.law, observations)
    active = np.flatnonzero(weight > 0)
    every = -(-len(active) // MANY_ROWS)
    rows = active[every // 2 :: every]
    options = problem.options
    few = build_problem(
        problem.law, {name: values[rows] for name, values in inputs.items()}, target[rows],
        weight[rows], options, options.method.linear_coefficients,
    )  # fmt: skip
    batch = Batch(few.model, few.data)
    (optimum,) = find_optima(options.method, batch, first_starts(few), options.n_local, work)
    if not np.isfinite(optimum.objective):
        return None
    agreeing = np.linspace(0, len(optimum.agreeing) - 1, _FROM_SAMPLE).round().astype(int)
    points = [optimum.coordinates, *optimum.agreeing[np.unique(agreeing)]]
    if optimum.runner_up is not None:
        points.append(optimum.runner_up[0])
    natural = few.params(np.stack(points))  # the centre of the sample is not that of all rows
    message = (
        f"{observations.source}: the starts were searched on {len(rows)} of {len(active)} rows, "
        f"and the best optima were solved on all of them; the agreement of starts and the shares "
        "of other optima are those of the search"
    )
    note = Note("searched-on-sample", "info", message)
    return _SampleSearch(optimum, problem.coordinates(natural), note)


def _with_evidence(optimum: Optimum, sampled: Optimum) -> Optimum:
    """The optimum on all rows with the evidence of the search that led there."""
    other = 0.0 if sampled.runner_up is None else sampled.runner_up[2]
    shares = (sampled.agreement, other)
    distinct = tuple(
        (value, share) for (value, _), share in zip(optimum.distinct, shares, strict=False)
    )
    runner_up = optimum.runner_up
    return optimum._replace(
        agreement=sampled.agreement, tried=sampled.tried, solved=sampled.solved,
        distinct=distinct,
        runner_up=None if runner_up is None else (*runner_up[:2], other),
    )  # fmt: skip


def in_order(
    law: Law, observations: Observations
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Inputs, target and weight, rows in an order of their own: sums do not see the table's."""
    order = row_order(law, observations)
    inputs = {name: values[order] for name, values in observations.inputs.items()}
    return inputs, observations.target[order], observations.weight[order]


def row_order(law: Law, observations: Observations) -> np.ndarray:
    """(n,) the order of :func:`in_order`, as indices of the observations."""
    inputs = law.one_number_a_row(observations.inputs)
    return np.lexsort([observations.weight, observations.target, *inputs.values()])


def _report(problem: FitProblem, observations: Observations, optimum: Optimum) -> Fit:
    """The fit of an optimum, with its evidence and notes.

    A search has its rows in an order of their own (:func:`in_order`), and a table in the user's.
    Metrics and predictions here are in that of the table; diagnostics are in that of the search,
    whose residuals they take from the linearised problem.
    """
    law, options, data = problem.law, problem.options, problem.in_numpy
    delta, scale = float(data.delta), scale_on_host(data)
    linear = linearise(problem, optimum.coordinates)
    params, agreeing = _natural(problem, optimum)
    order = row_order(law, observations)
    # By the formula itself, outside of the programs that searched: what is reported is what the
    # fit will predict, and _objective_notes holds the search's own objective against it.
    predicted = np.asarray(law.evaluate(params, **observations.inputs))
    measured = {
        name: float(value)
        for name, value in metrics(
            observations.target, predicted, observations.weight, delta
        ).items()
    }
    evidence = SearchEvidence(
        agreement=optimum.agreement, disagreement=optimum.disagreement,
        status=Status(optimum.status), r2=measured["r2"], scatter=measured["rmse_log"],
        spread=_spread(problem, agreeing),
        ranges={name: (v.min(), v.max()) for name, v in observations.inputs.items()},
        rows=observations.rows[order], word=observations.word,
        runs=None if observations.runs is None else observations.runs.rows(order),
        others=observations.others.iloc[order], positions=observations.positions[order],
        relative_slopes=_relative_slopes(law, observations, params, linear.params_jacobian),
    )  # fmt: skip
    at = optimum.coordinates
    found, errors = diagnosed(problem, at, linear, params, evidence)
    notes = (
        *_size_notes(law, observations),
        *observations.notes,
        *found,
        *_objective_notes(problem, optimum, predicted[order]),
        *(() if options.free(law) else (_ALL_FIXED,)),
        *_base_notes(options),
    )
    # Objectives of the search are sums over the scale of the problem, see _objective.scale_of; a
    # fit reports the sums. Threshold, residuals and asymmetry are those that were used, whether
    # the law or the user chose them.
    return Fit(
        law=law,
        params=params,
        objective=optimum.objective * scale,
        metrics=measured,
        status=Status(optimum.status).label,
        agreement=optimum.agreement,
        n_starts=optimum.tried,
        n_solved=optimum.solved,
        runner_up=_runner_up(problem, optimum, scale),
        notes=notes,
        units=dict(observations.scale),
        ranges={name: tuple(map(float, observations.ranges[name])) for name in law.input_names},
        joint_ranges=dict(joint_ranges(law.inputs, _of_users(observations))),
        n_observations=int((observations.weight > 0).sum()),
        n_dropped=observations.dropped,
        delta=float("inf") if delta >= LARGEST_DELTA else delta,
        residuals=problem.model.residuals,
        asymmetry=float(data.asymmetry),
        fixed=dict(options.fixed),
        tied=dict(options.tied),
        bounds=dict(options.bounds),
        solver=options.solver,
        source=observations.source,
        area_options=None if observations.area_options is None else dict(observations.area_options),
        optima=tuple((value * scale, share) for value, share in optimum.distinct),
        columns=dict(observations.mapped),
        flops=observations.flops,
        reading=observations.reading,
        base=options.base,
        experiment=_experiment(problem, observations, optimum, linear),
        standard_errors=errors,
    )


def _experiment(
    problem: FitProblem, observations: Observations, optimum: Optimum, linear: Linearisation
) -> Experiment | None:
    """What the fit says of a next experiment, where an evaluation is named.

    None of a law that takes no prior, and where a parameter ended at a bound.
    """
    law, active, options = problem.law, problem.in_numpy.weight > 0, problem.options
    # Coordinates are of all parameters, and on the scale of relative noise.
    held = options.fixed or options.tied or problem.active_bounds(optimum.coordinates)
    if not options.evaluation or law.name not in LAWS or held or problem.model.residuals != "log":
        return None
    residuals = linear.residuals[active]
    spare = max(len(residuals) - len(law.parameters), 1)
    noise = np.sqrt(residuals @ residuals / spare)
    noise = max(min(noise, 3 * 1.4826 * np.median(np.abs(residuals))), LEAST_NOISE)
    return experiment_of(
        law, linear.jacobian[active] * np.sqrt(problem.in_numpy.weight[active])[:, None],
        linear.params, linear.params_jacobian, float(noise), source=observations.source,
        name=observations.target_name,
        evaluation=options.evaluation, runs=int(active.sum()),
        ranges={
            name: tuple(float(v * observations.units[name]) for v in observations.ranges[name])
            for name in law.input_names
        },
        reference="", hashes=run_hashes(observations),
    )  # fmt: skip


_ALL_FIXED = Note(
    "all-fixed", "info",
    "every parameter is fixed: nothing was searched, and the objective and the scores are those "
    "of the given values on these runs",
)  # fmt: skip


def _size_notes(law: Law, observations: Observations) -> list[Note]:
    """Whether loss curves of several sizes are fitted as of one, by a law that knows no size."""
    grouped = any(spec.levels for spec in law.inputs)
    if "N" in law.input_names or grouped or not {*AREAS} & {*law.input_names}:
        return []
    table = observations.others[observations.weight > 0]
    named = [column for column in table if re.search("model|size", str(column), re.IGNORECASE)]
    for column in ["N"] if "N" in table else [*known_columns(table, ("N",)).get("N", named)]:
        cells = table[column].dropna().unique()
        sizes = {size: cell for cell in cells if (size := _size_in(cell)) is not None}
        if len(sizes) < 2 or len({_size_in(cell) for cell in cells} - {*sizes}):
            continue
        shown, largest = [sizes[size] for size in sorted(sizes)], sizes[max(sizes)]
        largest = largest.item() if hasattr(largest, "item") else largest
        message = (
            f"{len(sizes)} sizes in one fit ({column} is {listed(shown, 6)}), and law {law.name} "
            f'has no N: fit one of them, where="`{column}` == {largest!r}", or take a law with N'
        )
        return [Note("several-sizes", "warning", message, inherited=True)]
    return []


def _size_in(cell: Any) -> float | None:
    """A number, or that of the size in a name such as pythia-70m."""
    said = re.search(r"(?<![a-z\d.])\d+(\.\d+)?[kmb](?![a-z\d])", str(cell), re.IGNORECASE)
    return number_in(cell) if said is None else single_things(said[0])


def _base_notes(options: FitOptions) -> list[Note]:
    """Whether values are held from a base whose covariance is not known."""
    if options.base is None or not options.base.missing:
        return []
    message = (
        f"{', '.join(options.base.missing)} of the base came without standard errors and are taken "
        "as known: intervals are too narrow; base= a fit, or its bootstrap, brings them"
    )
    return [Note("base-held", "warning", message, inherited=True)]


def _runner_up(problem: FitProblem, optimum: Optimum, scale: float) -> RunnerUp | None:
    """The next best optimum in the law's own units; None where there is none."""
    if optimum.runner_up is None:
        return None
    where, value, share = optimum.runner_up
    values = {name: float(v) for name, v in problem.params(where).items()}
    return RunnerUp(value * scale, share, values)


def _objective_notes(problem: FitProblem, optimum: Optimum, predicted: np.ndarray) -> list[Note]:
    """A note of severity error if the law, at the reported parameters, has another objective.

    The search evaluates the law at coordinates, inside programs; this is the formula itself, at
    the reported parameters on the runs as they were read.
    """
    data = problem.in_numpy
    objective = optimum.objective * scale_on_host(data)
    recomputed = summed_huber(data, problem.model.residuals, predicted)
    floor = float(rounding_floor(problem.model, data)) * scale_on_host(data)
    if abs(recomputed - objective) <= max(AGREE * objective, floor):
        return []
    message = (
        f"the search reported an objective of {objective:.8g}, but the law gives "
        f"{recomputed:.8g} at the reported parameters: use neither number; most likely the law is "
        "not a pure function of its inputs and parameters"
    )
    return [Note("objective-disagrees", "error", message, inherited=True)]


def _natural(
    problem: FitProblem, optimum: Optimum
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Natural parameters of the optimum, and (k,) of the starts that agree, by one program."""
    natural = problem.params(np.concatenate([optimum.coordinates[None], optimum.agreeing]))
    params = {name: float(values[0]) for name, values in natural.items()}
    return params, {name: values[1:] for name, values in natural.items()}


def _relative_slopes(
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
    return {name: values / observations.scale[name] for name, values in observations.inputs.items()}


def _spread(problem: FitProblem, agreeing: Mapping[str, np.ndarray]) -> dict[str, float]:
    """How far starts that agree on the objective lie apart, relative, by parameter."""
    return {
        name: float(np.ptp(agreeing[name]) / max(np.abs(np.median(agreeing[name])), 1e-12))
        for name in problem.options.free(problem.law)
    }


def _binds(problem: FitProblem, coordinates: np.ndarray) -> bool:
    """Whether the law's constraint holds a parameter at its least value."""
    law = problem.law
    bound = problem.active_bounds(coordinates)
    k = law.parameter_names.index(law.constraint.raises)
    spare = coordinates[k] if problem.model.scales[k] == "linear" else np.exp(coordinates[k])
    active = any(bound.get(name) == side for name, side in law.constraint.active_at.items())
    return law.constraint.raises in bound or spare < 1e-6 or active


def _with_cost(result: Fit, without: Fit) -> Fit:
    message = (
        f"constraint '{result.law.constraint.name}' binds: objective {result.objective:.4g} "
        f"against {without.objective:.4g} without it, R² {result.r2:.3f} against {without.r2:.3f}"
    )
    note = Note("constraint-binds", "warning", message, inherited=False)
    return dataclasses.replace(result, notes=(*result.notes, note))


def _refuse(result: Fit) -> None:
    severe = [note for note in result.notes if note.severity == "error"]
    if result.status != "converged":
        severe += [note for note in result.notes if note.code == "not-converged"]
    if severe:
        raise DataError("; ".join(note.message for note in severe))
