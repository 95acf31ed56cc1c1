"""From observations and options to the problem that solvers see, built here alone, and its slopes.

Everything that depends on how a fit would move (standard errors, influence, identifiability, the
choice of further runs) needs the same few arrays: the residuals and the natural parameters at the
optimum, and their slopes in the search coordinates. They come from one program for each law and
shape (:func:`linearise`), so that a fit and all its diagnostics compile it once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled, in_float64, many_rows, padded, size_class
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting._objective import LARGEST_DELTA, Problem, predict
from jaxlaw.fitting._starts import sobol
from jaxlaw.fitting._transform import (
    Array,
    Model,
    Transform,
    centred_inputs,
    coordinates_of,
    exponents_of,
    in_own_units,
)
from jaxlaw.laws import Law

if TYPE_CHECKING:
    from jaxlaw.data import Observations
    from jaxlaw.fitting._options import FitOptions

_AT_BOUND = 1e-9  # distance in coordinates from a bound at which a parameter is at it
_ALONE = 5  # rows that a user's law is evaluated at one by one
_ROWS = ("target", "weight")  # fields of a Problem with an axis of rows, beside the inputs


@dataclass(frozen=True)
class FitProblem:
    """A problem ready for the engine, and the way back from it.

    Attributes:
        model: what is fitted; static.
        data: its arrays, see :class:`jaxlaw.fitting._objective.Problem`; of numpy, but for
            problems that are made inside the caller's own programs.
        options: the user's options.
        means: input name → its geometric mean, for every input that some parameter is centred
            on. Those of them that this problem centres on are ``data.centre``: a pinned
            coefficient keeps its inputs uncentred, and starts need their means all the same.
        n_rows: number of the user's rows; any rows after them have weight 0.
    """

    model: Model
    data: Problem
    options: FitOptions
    means: Mapping[str, Any]
    n_rows: int

    @property
    def law(self) -> Law:
        """The law."""
        return self.model.law

    @property
    def transform(self) -> Transform:
        """The way between search coordinates and natural parameters."""
        return self.data.transform(self.model)

    @property
    def unpadded(self) -> Problem:
        """The data without the rows of padding."""
        cut = {name: getattr(self.data, name)[..., : self.n_rows] for name in _ROWS}
        inputs = {name: values[: self.n_rows] for name, values in self.data.inputs.items()}
        return self.data._replace(inputs=inputs, **cut)

    def many(
        self, weights: np.ndarray | None = None, targets: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Fields of the data for many problems at once: folds, resamples, other targets.

        Args:
            weights: (P, n) in place of the problem's own.
            targets: (P, n) in place of the problem's own.

        Returns:
            ``weight`` and ``target``, as far as given, with the rows of the data.
        """
        rows, fields = self.data.target.shape[-1], {}
        if weights is not None:
            fields["weight"] = _as_rows(weights, rows, fill=0.0)
        if targets is not None:
            targets = np.log(targets) if self.model.residuals == "log" else targets
            fields["target"] = _as_rows(targets, rows)
        return fields

    def coordinates_of_starts(self, starts: np.ndarray) -> np.ndarray:
        """Search coordinates of starts (…, p), which are natural values at the centre."""
        law, fixed = self.law, self.options.fixed
        params = dict(zip(law.parameter_names, np.moveaxis(starts, -1, 0), strict=True))
        fixed_values = {name: np.full(starts.shape[:-1], v) for name, v in fixed.items()}
        # Fixed exponents before, for units depend on them; fixed coefficients after it.
        return self._inside(
            in_own_units(law, params | fixed_values, self.means) | fixed_values, start=True
        )

    def coordinates(self, params: Mapping[str, Any]) -> np.ndarray:
        """Coordinates (…, p) of natural parameters (…) in the law's own units."""
        return self._inside(
            {name: np.asarray(params[name], float) for name in self.law.parameter_names}
        )

    def _inside(self, params: Mapping, start: bool = False) -> np.ndarray:
        """Coordinates (…, p), moved into the search box."""
        data = self.data
        # Without a constraint there is no excess, and a start is as any other point.
        start = start or self.law.constraint is None
        names, columns = zip(*params.items(), strict=True)
        columns = np.broadcast_arrays(*columns)
        shape, count = columns[0].shape, columns[0].size
        columns = [padded(column.ravel(), many_rows(count)) for column in columns]
        rows = dict(zip(names, columns, strict=True))
        at = coordinates_of(self.model, data.centre, data.context, rows, start=start)
        at = np.asarray(at)[:count].reshape(*shape, -1)
        return np.clip(at, data.low, data.high)

    def active_bounds(self, at: np.ndarray) -> dict[str, str]:
        """Free parameters at a bound of the search box: name → ``low`` or ``high``.

        Args:
            at: (p,) search coordinates.
        """
        sides = zip(self.law.parameter_names, self._side(at), strict=True)
        return {name: str(side) for name, side in sides if side in ("low", "high")}

    def free_and_inside(self, at: np.ndarray) -> np.ndarray:
        """(k,) indices of the coordinates that the data determine: free, and at no bound."""
        return np.flatnonzero(self._side(at) == "")

    def _side(self, at: np.ndarray) -> np.ndarray:
        low, high = self.data.low, self.data.high
        at_high = np.where(at >= high - _AT_BOUND, "high", "")
        return np.where(low < high, np.where(at <= low + _AT_BOUND, "low", at_high), "fixed")

    def bounds_with(self, fixed: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Search boxes (P, p), low and high, of problems with values of their own.

        Args:
            fixed: fixed parameter → (P,) values in the law's own units, in place of the one that
                the options fix it at; NaN leaves its problem nowhere to search.
        """
        count = len(next(iter(fixed.values())))
        low, high = (np.tile(side, (count, 1)) for side in (self.data.low, self.data.high))
        centre = {name: self.means[name] for name in self.data.centre}
        transform = Transform(self.model, centre, {})  # of numbers: these are known
        # Of all fixed ones: what a coefficient means at the centre may depend on an exponent.
        values = transform.fixed_coordinates({**self.options.fixed, **fixed})
        for k, value in values.items():
            low[:, k] = high[:, k] = value
        return low, high

    def params(self, coordinates: np.ndarray) -> dict[str, np.ndarray]:
        """Natural parameters in the law's own units, from coordinates (…, p)."""
        coordinates = np.asarray(coordinates)
        rows, shape = coordinates.reshape(-1, coordinates.shape[-1]), coordinates.shape[:-1]
        count = len(rows)
        with in_float64():
            rows = padded(rows, many_rows(count))
            params = _natural(self.model, rows, self.data.centre, self.data.context)
        params = {
            name: np.asarray(params[name], float)[:count].reshape(shape)
            for name in self.law.parameter_names
        }
        exact = {name: np.full_like(params[name], v) for name, v in self.options.fixed.items()}
        return params | exact


@compiled(optimised=False, static_argnames="model")
def _natural(model: Model, rows, centre, context) -> dict:
    params = Transform(model, centre, context).to_natural(tuple(rows.T))
    return {name: jnp.broadcast_to(value, len(rows)) for name, value in params.items()}


def problem_of(law: Law, seen: Observations, options: FitOptions) -> FitProblem:
    """The problem of a law on observations; to be called in float64.

    Raises:
        UsageError: a user's law is not elementwise, or fails on some of the rows.
    """
    problem = build_problem(law, seen.inputs, seen.target, seen.weight, options)
    if not law.program_name:  # the tests check these
        _check_elementwise(problem, seen.inputs)
    return problem


def _check_elementwise(problem: FitProblem, inputs: Mapping) -> None:
    """Refuse a law whose value at a row depends on the other rows.

    A law that takes a mean over its rows, or a cumulative sum, is another law on other rows: what
    is fitted on all of them predicts other numbers for one. Nothing in such a formula fails, so it
    is evaluated on as many rows as the fit sees, in an order of their own, and on each alone.
    """
    law, spread = problem.law, {}
    for spec in law.inputs:
        # Five rows or more, no two alike: runs may share their value. They stay within its domain.
        values = np.asarray(inputs[spec.name])
        values = values[np.arange(max(len(values), _ALONE)) % len(values)]
        step = np.linspace(0.0, -0.04 if spec.domain == "fraction" else 0.04, len(values))
        spread[spec.name] = values * (1 + step.reshape(-1, *(1,) * (values.ndim - 1)))
    size = max(map(len, spread.values()))
    count = max(problem.data.target.shape[-1], size)
    order = np.random.default_rng(0).permutation(count) % size
    rows = {name: values[order] for name, values in spread.items()}
    points = problem.params(problem.coordinates_of_starts(sobol(law, 4, 0)))
    for k in range(4):
        params = {name: float(values[k]) for name, values in points.items()}
        together, alone = map(np.asarray, _together_and_alone(law, params, rows))
        if together.shape != (count,):
            raise UsageError(
                f"law {law.name} gives an array of shape {together.shape} for {count} rows: it "
                "must return one value per row"
            )
        together = together[:_ALONE]
        scale = np.abs(together[np.isfinite(together)]).max(initial=0.0)
        # One row may be rounded otherwise than many.
        same = np.isclose(together, alone, 1e-6, 1e-9 * scale, equal_nan=True)
        if not same.all():
            row = int(np.argmin(same))
            at = ", ".join(f"{name}={rows[name][row]:.6g}" for name in law.inputs_per_row)
            raise UsageError(
                f"law {law.name} is not elementwise: at {at} it gives {alone[row]:.6g} for that "
                f"row alone and {together[row]:.6g} for the same row among {count}, so its fit "
                "could not predict a single run: replace operations across rows (mean, max, sum, "
                "cumsum, sort, shape) by a constant or an extra input"
            )


@compiled(optimised=False, static_argnames="law")
def _together_and_alone(law: Law, params: dict, rows: dict) -> tuple:
    """The law on all rows together, and on each of the first few alone."""
    each = [
        law(params, **{name: values[k : k + 1] for name, values in rows.items()}).reshape(())
        for k in range(_ALONE)
    ]
    return law(params, **rows), jnp.stack(each)


def build_problem(
    law: Law, inputs: Mapping[str, Any], target: Any, weight: Any, options: FitOptions
) -> FitProblem:
    """Build the problem of a law on its data.

    Arrays of numpy are checked data of :func:`jaxlaw.fit` and its relatives, fitted in float64:
    call this inside a float64 context. Arrays of JAX, which may be traced, are those of
    :func:`jaxlaw.fit_batch`; they keep their dtype.

    Args:
        law: the law.
        inputs: name → (n,), or (n, K) of inputs per drop, in the law's own units.
        target: (n,), positive where residuals are logarithmic; of many problems (P, n).
        weight: weights, of the target's shape; 0 leaves a row out.
        options: the user's options, checked.
    """
    xp, kind = (jnp, target.dtype) if isinstance(target, Array) else (np, float)
    inputs = {name: xp.asarray(values, kind) for name, values in inputs.items()}
    target, weight = xp.asarray(target, kind), xp.asarray(weight, kind)
    model, pinned = model_of(law, options), _pinned(options)
    # Weights of many problems say only together which rows count: then all of them do.
    counts = weight > 0 if weight.ndim == 1 else np.ones(weight.shape[-1], bool)
    means = {name: _geometric_mean(inputs[name], counts, xp) for name in centred_inputs(law)}
    # An input is centred where no pinned parameter's meaning moves with a free one's.
    uncentred = {
        name
        for spec in law.parameters
        for name in spec.centre or {}
        if spec.name in pinned
        and not {spec.name, *exponents_of(spec, name)} <= options.fixed.keys()
    }
    centre = {name: mean for name, mean in means.items() if name not in uncentred}
    low, high = Transform(model, centre, {}).bounds(options.bounds, options.fixed)
    delta = law.delta if options.delta is None else options.delta
    # Of the user's rows alone: a law's context may be a mean.
    context = _context(law, inputs) if law.chart or law.constraint else {}
    width = max((math.prod(values.shape[1:]) for values in inputs.values()), default=1)
    rows = size_class(target.shape[-1], width)
    if xp is np and model.residuals != law.residuals == "linear" and (target <= 0).any():
        raise DataError(
            f"law {law.name}: {law.target} is not positive in some rows, so residuals='log' is "
            "undefined: leave residuals linear, as the law has them"
        )
    data = Problem(
        inputs={name: _as_rows(values, rows, 0) for name, values in inputs.items()},
        target=_as_rows(xp.log(target) if model.residuals == "log" else target, rows),
        weight=_as_rows(weight, rows, fill=0.0),
        low=low,
        high=high,
        delta=xp.minimum(delta, LARGEST_DELTA),
        asymmetry=options.asymmetry,
        context=dict(context),
        centre=centre,
    )
    # Arrays of numpy stay so: ``jnp.asarray`` would compile a copy for every shape.
    traced = Array if xp is jnp else ()
    data = jax.tree.map(
        lambda leaf: leaf.astype(kind) if isinstance(leaf, traced) else np.asarray(leaf, kind), data
    )
    if xp is np:
        data = data._replace(rows=np.asarray(target.shape[-1], np.int32))
    # The problem outlives the executor, and results that hold it can be pickled.
    options = replace(options, executor=None)
    return FitProblem(model, data, options, means, target.shape[-1])


def _pinned(options: FitOptions) -> set[str]:
    return {*options.fixed, *options.tied, *options.tied.values(), *options.bounds}


def model_of(law: Law, options: FitOptions) -> Model:
    """What is static of a problem.

    The batch solver moves coefficients that the law is linear in as they are, the papers' L-BFGS
    their logarithms. A law's chart needs its parameters free.
    """
    linear = law.linear_parameters if options.method.linear_coefficients else ()
    index = {name: k for k, name in enumerate(law.parameter_names)}
    return Model(
        law=law,
        residuals=options.residuals or law.residuals,
        scales=tuple("linear" if s.name in linear else s.scale for s in law.parameters),
        tied=tuple(index[options.tied.get(name, name)] for name in law.parameter_names),
        chart=law.chart is not None and not _pinned(options) & set(law.chart.low),
    )


def _as_rows(values, rows: int, axis: int = -1, fill: float | None = None):
    """An array with an axis of rows, of the length that the programs are compiled for.

    Every such array of a problem, or of many, goes through here: inputs with their rows on the
    first axis, targets and weights on the last. The rows that are added repeat the last one, with
    weight 0, and :attr:`FitProblem.n_rows` says where they begin: tables of nearly the same
    length then find the same compiled programs. Arrays of JAX are the caller's, of any shape.

    Args:
        values: array.
        rows: that length.
        axis: axis of the rows.
        fill: value of the rows that are added, in place of the last row's, on the last axis.
    """
    if isinstance(values, Array):
        return values
    count = values.shape[axis]
    repeated = np.take(values, np.minimum(np.arange(rows), count - 1), axis)
    if fill is not None:
        repeated[..., count:] = fill
    return repeated


@compiled(optimised=False, static_argnames="law")
def _context(law: Law, inputs: dict) -> dict:
    return law.context(inputs)


def _geometric_mean(values, counts, xp):
    """Geometric mean of the sizes of what is not zero; 1 where there is nothing."""
    counts = (values != 0) & counts.reshape(-1, *(1,) * (values.ndim - 1))
    logs = xp.where(counts, xp.log(xp.where(counts, xp.abs(values), 1.0)), 0.0)
    return xp.exp(xp.sum(logs) / xp.maximum(xp.sum(counts), 1))


# ---------------------------------------------------------------- around one point


class Linearisation(NamedTuple):
    """The law and its parameters around one point of the search coordinates, on the host.

    Attributes:
        prediction: (n,) the law at every row, in the space of the residuals: its logarithm where
            residuals are of logarithms.
        residuals: (n,) prediction minus target, in that space.
        jacobian: (n, p) slopes of both in the coordinates.
        params: (p,) natural parameters in the law's own units, in the law's order.
        params_jacobian: (p, p) their slopes in the coordinates.
    """

    prediction: np.ndarray
    residuals: np.ndarray
    jacobian: np.ndarray
    params: np.ndarray
    params_jacobian: np.ndarray


def linearise(
    problem: FitProblem, at: np.ndarray, inputs: Mapping[str, np.ndarray] | None = None
) -> Linearisation:
    """The residuals of a problem and their Jacobian.

    Args:
        problem: the problem.
        at: (p,) search coordinates.
        inputs: name → (m,) points in the law's own units, in place of the problem's rows; the
            target is 0 there, so that residuals are predictions.

    Returns:
        The :class:`Linearisation`; a law without a derivative at a row has NaN there.
    """
    data, count = problem.data, problem.n_rows
    if inputs is not None:
        count = len(next(iter(inputs.values())))
        data = data._replace(
            inputs={name: np.asarray(values, float) for name, values in inputs.items()},
            target=np.zeros(count), weight=np.ones(count),
        )  # fmt: skip
    with in_float64():
        prediction, params, *slopes = jax.device_get(
            _linearised(problem.model, data, np.asarray(at, float))
        )
    residuals = prediction - data.target
    return Linearisation(
        prediction[:count], residuals[:count], slopes[0][:count], params, slopes[1]
    )


def _in_residual_space(model: Model, problem: Problem, at) -> Array:
    """(n,) the law at coordinates (p,): its logarithm where residuals are of logarithms."""
    prediction = jnp.broadcast_to(predict(model, problem, at), problem.target.shape)
    return jnp.log(prediction) if model.residuals == "log" else prediction


@compiled(optimised=False, static_argnames="model")
def _linearised(model: Model, problem: Problem, coordinates: Array) -> tuple[Array, ...]:
    """Prediction, natural parameters and the slopes of both, by one forward pass."""

    def values(at):
        params = problem.transform(model).to_natural(tuple(at))
        natural = jnp.stack([params[name] for name in model.law.parameter_names])
        both = _in_residual_space(model, problem, at), natural
        return both, both

    (rows, parameters), (prediction, params) = jax.jacfwd(values, has_aux=True)(coordinates)
    return prediction, params, rows, parameters


_POINTS = 256  # that are evaluated at once


def rows_around(
    problem: FitProblem, points: np.ndarray, moved: np.ndarray, rows: np.ndarray,
    weight: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What least squares are of, at each of several points, and its slopes.

    Args:
        problem: the problem.
        points: (R, p) search coordinates.
        moved: (m,) indices of the coordinates that slopes are taken in.
        rows: (n,) indices of the observations that are taken.
        weight: (n,) their weights.

    Returns:
        (R, n) predictions in the space of the residuals, times the roots of the weights; then their
        slopes (R, n, m).
    """
    data, shape = problem.data, size_class(len(rows))
    rows = padded(rows, shape)
    data = data._replace(
        inputs={name: values[rows] for name, values in data.inputs.items()},
        target=data.target[rows],
        weight=np.pad(weight, (0, shape - len(weight))),
    )
    parts = []
    with in_float64():
        for first in range(0, len(points), _POINTS):
            some = padded(points[first : first + _POINTS], _POINTS)
            found = _rows_around(problem.model, tuple(moved.tolist()), data, some)
            parts.append(jax.device_get(found))
    here, slopes = (np.concatenate(each)[: len(points)] for each in zip(*parts, strict=True))
    return here, slopes


@compiled(static_argnames=("model", "moved"))
def _rows_around(
    model: Model, moved: tuple[int, ...], problem: Problem, points: Array
) -> tuple[Array, Array]:
    def of_one(point):
        def rows(values):
            at = point.at[jnp.array(moved)].set(values)
            weighted = jnp.sqrt(problem.weight) * _in_residual_space(model, problem, tuple(at))
            return weighted, weighted

        slopes, here = jax.jacfwd(rows, has_aux=True)(point[jnp.array(moved)])
        return here, slopes

    return jax.vmap(of_one)(points)
