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

import logging
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._jit import in_float64
from jaxlaw._typed import checked
from jaxlaw.data import Observations, Runs, read_runs
from jaxlaw.errors import DataError
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._checks import diagnosed, several_sizes
from jaxlaw.fitting._extrapolation import joint_ranges
from jaxlaw.fitting._multistart import Batch, Optimum, find_optima
from jaxlaw.fitting._objective import (
    AGREE,
    LARGEST_DELTA,
    metrics,
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
from jaxlaw.fitting._problem import FitProblem, Linearisation, linearise, problem_of
from jaxlaw.fitting._result import LAWS, Experiment, Fit, RunnerUp
from jaxlaw.fitting._starts import first_starts
from jaxlaw.fitting.solvers import Status
from jaxlaw.laws import Law
from jaxlaw.notes import Note, warns_of_errors

_log = logging.getLogger(__name__)

MANY_ROWS = 50_000  # beyond this the starts are searched on a sample of so many rows at most
LEAST_NOISE = 0.0005  # of an experiment: losses are printed to three or four digits
_DRAWN = 2000  # runs up to which a fit keeps them for pictures
_FROM_SAMPLE = 4  # starts on all rows, of those that agreed on the sample


@lists_options
@warns_of_errors
@checked
def fit(law: str | Law, runs: Any, *, strict: bool = False, **options: Unpack[FitKeywords]) -> Fit:
    """Fit a law to runs by the summed Huber loss, from many starts.

    Args:
        law: law or its name.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
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
        device: ``"auto"`` runs small searches on the CPU and large ones on the GPU or TPU that JAX
            has, unless ``jax.default_device`` names one; ``"cpu"``, ``"gpu"`` and ``"tpu"`` decide.

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
    result, active = _fitted(law, runs, options)
    if active:
        free = replace(options.within("without-constraint"), starts="sobol")
        without, _ = _fitted(laws.get(law.name), runs, free)
        message = (
            f"constraint '{law.constraint.name}' is active: objective {result.objective:.4g} "
            f"against {without.objective:.4g} without it, R² {result.r2:.3f} against "
            f"{without.r2:.3f}"
        )
        note = Note("constraint-binds", "warning", message)
        result = replace(result, notes=(*result.notes, note))
    if strict and not result.success:
        raise DataError(
            "; ".join(
                note.message
                for note in result.notes
                if note.severity == "error" or note.code == "few-starts-agree"
            )
        )
    return result


def _fitted(law: Law, runs: Runs, options: FitOptions) -> tuple[Fit, bool]:
    """The fit, and whether the law's constraint is active."""
    if not options.free(law):  # there is nothing to search: the fixed values are the one start
        options = replace(options, n_starts=1)
    seen = runs.observations(law, free=options.free(law))
    # Rows in an order of their own, so that sums do not see the table's.
    columns = law.one_number_a_row(seen.inputs).values()
    seen = seen.at(np.lexsort([seen.weight, seen.target, *columns]))
    work, few, note = options.work(), None, ()
    active = np.flatnonzero(seen.weight > 0)
    with in_float64():
        problem, n_local = problem_of(law, seen, options), options.n_local
        if n_local and len(active) > MANY_ROWS:
            # The rows are ordered by weight, target and inputs, and every k-th of them is taken:
            # all levels of the target are in the sample as they are in the whole.
            every = -(-len(active) // MANY_ROWS)
            rows = active[every // 2 :: every]
            few = problem_of(law, seen.at(rows), options)
            on_sample = _search(few, first_starts(few), n_local, work)
            # The sample's work is in the folder itself, where other files would be refused.
            work = options.within("all-rows").work()
        if few is None or not np.isfinite(on_sample.objective):
            optimum = _search(problem, first_starts(problem), n_local, work)
        else:
            agreeing = np.linspace(0, len(on_sample.agreeing) - 1, _FROM_SAMPLE).round().astype(int)
            points = [on_sample.coordinates, *on_sample.agreeing[np.unique(agreeing)]]
            points += [] if on_sample.runner_up is None else [on_sample.runner_up[0]]
            natural = few.params(np.stack(points))  # its centre is not that of all rows
            optimum = _search(problem, problem.coordinates(natural), False, work)
            # Of all rows the optimum, of the sample the evidence of the search that led there.
            other = 0.0 if on_sample.runner_up is None else on_sample.runner_up[2]
            shares, runner_up = (on_sample.agreement, other), optimum.runner_up
            optimum = optimum._replace(
                agreement=on_sample.agreement, tried=on_sample.tried, solved=on_sample.solved,
                distinct=tuple(
                    (value, share)
                    for (value, _), share in zip(optimum.distinct, shares, strict=False)
                ),
                runner_up=None if runner_up is None else (*runner_up[:2], other),
            )  # fmt: skip
            message = (
                f"{seen.source}: the starts were searched on {len(rows)} of {len(active)} rows, "
                "and the best optima were solved on all of them; start agreement and the shares "
                "of other optima are from the search"
            )
            note = (Note("searched-on-sample", "info", message),)
        if not np.isfinite(optimum.objective):
            raise DataError(
                f"law {law.name} reaches no finite objective from any of {optimum.solved} "
                "starts: check units, bounds and fixed values"
            )
        result = replace(_report(problem, seen, optimum), device=work.platform)
    result = replace(result, notes=(*result.notes, *note))
    _log.info("law %s: objective %.8g, %s", law.name, result.objective, result.status)
    if law.constraint is None:
        return result, False
    # Whether the constraint holds a parameter at its least value.
    bound = problem.active_bounds(optimum.coordinates)
    k = law.parameter_names.index(law.constraint.raises)
    excess = optimum.coordinates[k]
    excess = excess if problem.model.scales[k] == "linear" else np.exp(excess)
    active = any(bound.get(name) == side for name, side in law.constraint.active_at.items())
    return result, law.constraint.raises in bound or excess < 1e-6 or active


def _search(problem: FitProblem, starts: np.ndarray, n_local, work: Work) -> Optimum:
    batch = Batch(problem.model, problem.data)
    lanes = n_local or len(starts)
    with work.on_device_for(lanes, batch):
        return find_optima(problem.options.method, batch, starts, n_local, work)[0]


def _report(problem: FitProblem, seen: Observations, optimum: Optimum) -> Fit:
    """The fit of an optimum, with its evidence and notes."""
    law, options, data, at = problem.law, problem.options, problem.unpadded, optimum.coordinates
    delta, scale, active = float(data.delta), scale_on_host(data), seen.weight > 0
    linear = linearise(problem, at)
    natural = problem.params(np.concatenate([at[None], optimum.agreeing]))  # by one program
    params = {name: float(values[0]) for name, values in natural.items()}
    # By the formula itself, outside of the programs that searched: what is reported is what the
    # fit will predict, and the search's own objective is held against it.
    predicted = np.asarray(law.evaluate(params, **seen.inputs))
    measured = metrics(seen.target, predicted, seen.weight, delta)
    measured = {name: float(value) for name, value in measured.items()}
    found, errors = diagnosed(problem, seen, optimum, linear, natural, measured)
    sizes = several_sizes(law, seen)
    if sizes:  # which residuals that follow the size say again
        found = [note for note in found if note.code != sizes[0].code]
    notes = [*sizes, *seen.notes, *found]
    # Objectives of the search are sums over the scale of the problem, see _objective.scale_of; a
    # fit reports the sums.
    objective = optimum.objective * scale
    with np.errstate(divide="ignore", invalid="ignore"):
        predicted = np.log(predicted) if problem.model.residuals == "log" else predicted
    recomputed = summed_huber(data, predicted - data.target)
    floor = float(rounding_floor(problem.model, data)) * scale
    if not abs(recomputed - objective) <= max(AGREE * objective, floor):
        message = (
            f"the search reported an objective of {objective:.8g}, but the law gives "
            f"{recomputed:.8g} at the reported parameters: use neither number; the law is probably "
            "not a pure function of its inputs and parameters"
        )
        notes.append(Note("objective-disagrees", "error", message, inherited=True))
    if options.base is not None and options.base.missing:
        message = (
            f"{', '.join(options.base.missing)} of the base came without standard errors and are "
            "treated as known, so intervals are too narrow: pass base= a fit, or its bootstrap"
        )
        notes.append(Note("base-held", "warning", message, inherited=True))
    runner_up = None
    if optimum.runner_up is not None:
        where, value, share = optimum.runner_up
        values = {name: float(v) for name, v in problem.params(where).items()}
        runner_up = RunnerUp(value * scale, share, values)
    of_users = {name: values / seen.scale[name] for name, values in seen.inputs.items()}
    observed = None
    if active.sum() <= _DRAWN and not law.inputs_per_drop:
        observed = pd.DataFrame(law.labelled(of_users) | {law.target: seen.target})[active]
        observed = observed.reset_index(drop=True)
    # Threshold, residuals and asymmetry are those that were used, whether the law or the user
    # chose them.
    return Fit(
        law=law,
        params=params,
        objective=objective,
        metrics=measured,
        status=Status(optimum.status).label,
        agreement=optimum.agreement,
        n_starts=optimum.tried,
        n_solved=optimum.solved,
        runner_up=runner_up,
        notes=tuple(notes),
        units=dict(seen.scale),
        ranges={name: tuple(map(float, seen.ranges[name])) for name in law.input_names},
        joint_ranges=dict(joint_ranges(law.inputs, of_users)),
        n_observations=int(active.sum()),
        n_dropped=seen.dropped,
        delta=float("inf") if delta >= LARGEST_DELTA else delta,
        residuals=problem.model.residuals,
        asymmetry=float(data.asymmetry),
        fixed=dict(options.fixed),
        tied=dict(options.tied),
        bounds=dict(options.bounds),
        solver=options.solver,
        source=seen.source,
        area_options=None if seen.area_options is None else dict(seen.area_options),
        optima=tuple((value * scale, share) for value, share in optimum.distinct),
        columns=dict(seen.mapped),
        flops=seen.flops,
        reading=seen.reading,
        base=options.base,
        experiment=_experiment(problem, seen, at, linear),
        standard_errors=errors,
        observed=observed,
    )


def _experiment(
    problem: FitProblem, seen: Observations, at: np.ndarray, linear: Linearisation
) -> Experiment | None:
    """What the fit says of a next experiment, where an evaluation is named.

    None of a law that takes no prior, and where a parameter ended at a bound.
    """
    law, active, options = problem.law, problem.unpadded.weight > 0, problem.options
    # Coordinates are of all parameters, and on the scale of relative noise.
    held = options.fixed or options.tied or problem.active_bounds(at)
    if not options.evaluation or law.name not in LAWS or held or problem.model.residuals != "log":
        return None
    from jaxlaw.fitting._prior import experiment_of, run_hashes  # of named evaluations alone

    residuals = linear.residuals[active]
    noise = np.sqrt(residuals @ residuals / max(len(residuals) - len(law.parameters), 1))
    noise = max(min(noise, 3 * 1.4826 * np.median(np.abs(residuals))), LEAST_NOISE)
    return experiment_of(
        law, linear.jacobian[active] * np.sqrt(problem.unpadded.weight[active])[:, None],
        linear.params, linear.params_jacobian, float(noise), source=seen.source,
        name=seen.target_name,
        evaluation=options.evaluation, runs=int(active.sum()),
        ranges={
            name: tuple(float(v * seen.units[name]) for v in seen.ranges[name])
            for name in law.input_names
        },
        reference="", hashes=run_hashes(seen),
    )  # fmt: skip
