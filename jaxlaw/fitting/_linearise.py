"""A problem linear around one point: what diagnostics, covariances and designs are made of.

Everything that depends on how a fit would move (standard errors, influence, identifiability, the
choice of further runs) needs the same few arrays: the residuals and the natural parameters at the
optimum, and their slopes in the search coordinates. They come from one program for each law and
shape, so that a fit and all that is then asked of it compile it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled, in_float64
from jaxlaw.fitting._objective import Problem, predict
from jaxlaw.fitting._problem import FitProblem
from jaxlaw.fitting._transform import Model


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
    residuals = prediction - np.asarray(data.target)
    return Linearisation(
        prediction[:count], residuals[:count], slopes[0][:count], params, slopes[1]
    )


@compiled(optimised=False, static_argnames="model")
def _linearised(model: Model, problem: Problem, coordinates: jax.Array) -> tuple[jax.Array, ...]:
    """Prediction, natural parameters and the slopes of both, by one forward pass."""

    def values(at: jax.Array) -> Any:
        params = problem.transform(model).to_natural(tuple(at))
        prediction = jnp.broadcast_to(predict(model, problem, at), problem.target.shape)
        prediction = jnp.log(prediction) if model.residuals == "log" else prediction
        both = prediction, jnp.stack([params[name] for name in model.law.parameter_names])
        return both, both

    (rows, parameters), (prediction, params) = jax.jacfwd(values, has_aux=True)(coordinates)
    return prediction, params, rows, parameters
