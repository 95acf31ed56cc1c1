"""The next runs that most reduce the variance of a prediction: c- and D-optimal design.

J is the Jacobian of the (log) loss at the runs there are, and M = JᵀWJ. A prediction of gradient g
has the variance τ²·gᵀM⁻¹g, and a candidate with row j adds j·jᵀ to M. Which candidates are best
does not depend on τ. It is measured by the sandwich (:mod:`jaxlaw.uncertainty._covariance`): τ² is
the variance that this gives to the prediction, over gᵀM⁻¹g, as the profile is calibrated. The
standard deviation before any new run is therefore :func:`jaxlaw.covariance`'s standard error, with
noise that differs from row to row and groups that share it, and new runs are taken to be as noisy
as those the prediction rests on now. Atkinson, Donev and Tobias 2007, Optimum Experimental Designs,
ch. 10 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._arrays import numbers_of
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Quantity
from jaxlaw._rounding import first_largest, first_least
from jaxlaw._typed import ResampleCount, checked
from jaxlaw.errors import DataError, UsageError, listed
from jaxlaw.fitting import FittedLaw, linearise
from jaxlaw.notes import Note
from jaxlaw.uncertainty import covariance_of, fit_with_data, has_draws, pooled_noise

_SINGULAR = 1e-10  # least eigenvalue of the matrix; below, a direction is not determined at all
_ALIKE = 1e-9  # fraction of a variance by which candidates that count as equal may differ


@checked
def next_runs(
    fit: Any,
    runs: Any,
    candidates: Any,
    *,
    predict: Mapping[str, Any] | Callable[..., Any] | None = None,
    n: ResampleCount | None = None,
    criterion: Literal["c", "D"] = "c",
    cost: Hashable | None = None,
    budget: float | None = None,
    group: Hashable | None = None,
    groups: Any = None,
) -> Answer:
    """Choose the runs that most reduce the variance of a prediction.

    Greedy, by gain per cost, then exchanges of one for another until none helps: not always
    the very best set, seldom far from it. Each candidate is taken once at most; list it twice
    to allow a repeat.

    Args:
        fit: fit of the runs there are, of one law. A forecast is refused: the most informative
            next run for it is the largest you can afford.
        runs: those runs, as they were fitted.
        candidates: DataFrame or dict of (m,) inputs, in units of the fitted runs.
        predict: points of the predictions that matter: inputs by name, in units of the fitted
            runs, numbers or arrays; or a function of the parameters (a dict, in the law's own
            units) in JAX, such as an optimum. Criterion c needs it.
        n: number of runs to choose.
        criterion: quantity to minimise: ``c``, the (mean) variance of the prediction; ``D``, the
            volume of the parameters' confidence ellipsoid.
        cost: column of the candidates' costs, positive numbers; 1 each unless given.
        budget: largest total cost.
        group: column that names the run of which a row is an evaluation: the rows of a run come
            together, and cost what the most expensive of them does.
        groups: rows of ``runs`` that share noise, as for :func:`jaxlaw.covariance`; standard
            deviations are then those of ``groups`` there.

    Returns:
        Answer whose ``table`` has the chosen rows, best first, with ``candidate``, the number of
        the row among the candidates, and ``sd``: the standard deviation of the prediction once
        this run and those above are there (relative where the fit is of logarithms; root mean
        square over several predictions). Without a prediction (criterion D) that of the
        parameters' joint ellipsoid, relative to now. ``before`` and ``after``: the same without any
        of them, and with all; ``before`` is the standard error that :func:`jaxlaw.covariance` gives
        the prediction. ``noise``: τ, to which these are proportional. Fact: ``criterion``.

    Raises:
        UsageError: the call is invalid, or the first argument is no fit.
        DataError: inputs outside their domain, or the law has no derivatives somewhere.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table.query("N * D < 1e19")
        >>> small = jl.fit("chinchilla", table)
        >>> more = pd.DataFrame({"N": [1e9, 3e9, 1e10], "D": [3e10, 1e11, 1e11]})
        >>> far = {"N": 7e10, "D": 1.4e12}
        >>> jl.design.next_runs(small, table, more, predict=far, n=1).table[["N", "D"]].values
        array([[1.e+10, 1.e+11]])

    Shell:
        jaxlaw design next fit.json runs.csv candidates.csv --predict N=7e10,D=1e12 --n 4
    """
    if not isinstance(fit, FittedLaw):
        message = f"fit is a {type(fit).__name__}; it must be a FittedLaw, the fit of one law"
        if has_draws(fit):
            # Candidates by the variance expected to be left of a forecast were the largest run in
            # 22 of 24 simulated trials: there is nothing to search for.
            message = (
                "next_runs chooses for the fit of one law; the most informative next run of a "
                "forecast is the largest you can afford, at its tokens per parameter"
            )
        raise UsageError(message)
    if criterion == "c" and predict is None:
        raise UsageError("criterion 'c' needs predict=: inputs of the prediction that matters")
    if n is None and budget is None:
        raise UsageError("pass n=, the number of runs to choose, or budget=, what they may cost")
    frame = pd.DataFrame(candidates).reset_index(drop=True).rename_axis("candidate")
    for column in (group, cost):
        if column is not None and column not in frame:
            raise UsageError(f"the candidates have no column {column}; columns: {listed(frame)}")
    each = np.ones(len(frame)) if cost is None else numbers_of("cost", frame[cost])
    if not (np.isfinite(each) & (each > 0)).all():
        raise UsageError("cost needs positive numbers")
    number, names = pd.factorize(
        frame.index if group is None else frame[group], use_na_sentinel=False
    )
    price = np.zeros(len(names))
    np.maximum.at(price, number, each)
    # c is gᵀM⁻¹g and D is −log det M; a candidate adds its j·jᵀ, the rows of one run together.
    # Neither depends on τ, so the noise is needed for the answer only.
    with in_float64():
        problem = fit_with_data(fit, runs)
        at, free, seen = problem.coordinates, problem.free_and_inside, problem.observations
        jacobian = problem.linear.jacobian[:, free]
        # Units of the coordinates in which the diagonal of M is 1.
        scale = np.sqrt(seen.weight @ jacobian**2)
        scale = np.where(scale > 0, scale, 1.0)
        jacobian = jacobian / scale
        matrix = (jacobian.T * seen.weight) @ jacobian
        notes = [note for note in fit.notes if note.code == "at-bound"]  # these are taken as known
        if np.linalg.eigvalsh(matrix)[0] < _SINGULAR:
            message = (
                "the runs do not determine some combination of the parameters: the standard "
                "deviations before the new runs mean nothing, and the choice favours runs that "
                "determine it"
            )
            notes.append(Note("unidentifiable", "warning", message))
            matrix = matrix + _SINGULAR * np.eye(len(free))
        try:
            variance = covariance_of(problem, groups).coordinates[: len(free), : len(free)]
            variance = variance * np.outer(scale, scale)
        except DataError:  # an open direction: the choice looks for runs that close it
            variance = pooled_noise(problem) ** 2 * np.linalg.inv(matrix)

        def scaled(slopes):
            slopes = np.asarray(slopes)[:, free] / scale
            if not np.isfinite(slopes).all():
                row = int(np.argmin(np.isfinite(slopes).all(axis=1)))
                raise DataError(f"the law has no derivatives at point {row}; leave it out")
            return slopes

        def slopes_at(points):
            """(m, q) gradients of the prediction at points in units of the fitted runs."""
            values = fit.checked_inputs(points, {})
            columns = np.broadcast_arrays(*(np.atleast_1d(value) for value in values.values()))
            own = {name: column.ravel() * fit.units[name]
                   for name, column in zip(values, columns, strict=True)}  # fmt: skip
            return scaled(linearise(problem.fit_problem, at, own).jacobian)

        rows = slopes_at(frame)
        infos = np.zeros((len(names), rows.shape[1], rows.shape[1]))
        np.add.at(infos, number, rows[:, :, None] * rows[:, None, :])
        directions = None
        if isinstance(predict, Mapping):
            directions = slopes_at({k: np.atleast_1d(values) for k, values in predict.items()})
            if not len(directions):
                raise UsageError("predict has no point; give a number, or several, for each input")
        elif predict is not None:
            natural = problem.fit_problem.transform.to_natural
            try:
                directions = scaled(
                    jax.jacfwd(lambda at: jnp.atleast_1d(predict(natural(tuple(at)))))(
                        jnp.asarray(at)
                    )
                )
            except (TypeError, ValueError) as error:
                raise UsageError(
                    "predict must be a function of a dict of parameters to a number, in jax.numpy; "
                    f"it ended in {type(error).__name__}: {' '.join(str(error).split())[:200]}"
                ) from error
            if not directions.any(axis=1).all():
                raise UsageError("predict does not move with any parameter: nothing can narrow it")
    value = partial(_value, directions if criterion == "c" else None)
    # Greedy choice alone often stops at a set that one exchange betters: the first run it takes is
    # the best alone, not the best beside the others (Fedorov's exchange algorithm).
    most = len(infos) if n is None else min(n, len(infos))
    limit = np.inf if budget is None else budget
    chosen = []

    def affordable(taken):
        left = price <= (limit - price[taken].sum()) * (1 + 1e-12)
        left[taken] = False
        return np.flatnonzero(left)

    while len(chosen) < most and len(open_ := affordable(chosen)):
        now = matrix + infos[chosen].sum(axis=0)
        gain = (value(now) - value(now + infos[open_])) / price[open_]
        chosen.append(int(open_[first_largest(gain, _ALIKE)]))
    limit = price[chosen].sum() if budget is None else limit
    best, improved = value(matrix + infos[chosen].sum(axis=0)), True
    while improved:
        improved = False
        for position in range(len(chosen)):
            rest = chosen[:position] + chosen[position + 1 :]
            open_ = affordable(rest)
            if not len(open_):
                continue
            values = value(matrix + infos[rest].sum(axis=0) + infos[open_])
            k = first_least(values, _ALIKE)
            if values[k] < best - _ALIKE * abs(best):
                chosen = [*rest[:position], int(open_[k]), *rest[position:]]
                best, improved = values[k], True
    order = []  # the best first
    while len(order) < len(chosen):
        rest = [k for k in chosen if k not in order]
        now = matrix + infos[order].sum(axis=0)
        order.append(rest[first_least(value(now + infos[rest]), _ALIKE)])
    path = [matrix + infos[order[:k]].sum(axis=0) for k in range(len(order) + 1)]
    # τ: the root of the mean sandwich variance over the mean gᵀM⁻¹g, of the coordinates themselves
    # where no prediction is given.
    asked = np.eye(len(free)) if directions is None else directions
    plain = np.einsum("ki,ik->", asked, np.linalg.solve(matrix, asked.T))
    noise = float(np.sqrt(np.einsum("ki,ij,kj->", asked, variance, asked) / plain))
    if directions is None:
        logs = np.array([_value(None, each) for each in path]) / (2 * len(free))
        sd = np.exp(logs - logs[0])
    else:
        sd = np.array([noise * np.sqrt(_value(directions, each)) for each in path])
    parts = [frame[number == k].assign(sd=s) for k, s in zip(order, sd[1:], strict=True)]
    table = pd.concat(parts) if parts else frame.iloc[:0].assign(sd=[])
    of_sd = (SHARE if criterion == "D" or fit.law.residuals == "log" else fit.target_unit, 1.0)
    what = "the prediction" if criterion == "c" else "all parameters, relative to now,"
    return Answer(
        kind="next runs",
        sentence=f"{len(table)} run{'s' * (len(table) != 1)}: the standard deviation of {what} "
        "falls from {before} to {after}",
        quantities={
            "before": Quantity(float(sd[0]), *of_sd),
            "after": Quantity(float(sd[-1]), *of_sd),
            "noise": Quantity(noise),
        },
        tables={"table": table.reset_index()},
        units={**fit.input_units(), "candidate": ("", 1.0), "sd": of_sd},
        facts={"criterion": criterion},
        notes=notes,
    )


def _value(gradients: np.ndarray | None, information: np.ndarray) -> np.ndarray:
    """What is minimised, of (…, q, q): mean variance of the predictions, or −log det."""
    if gradients is None:
        return -np.linalg.slogdet(information)[1]
    right = np.broadcast_to(gradients.T, (*information.shape[:-1], len(gradients)))
    spread = np.linalg.solve(information, right)
    return np.einsum("kq,...qk->...", gradients, spread) / len(gradients)
