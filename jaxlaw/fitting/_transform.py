"""Between a law's natural parameters and what the solvers move.

Three steps lie between the two, each undone on the way back:

- *scale*: a parameter is moved as it is or as its logarithm;
- *chart*: a law may name coordinates in which its valley is straight;
- *centre*: A / N0^α, with N0 the geometric mean of the inputs N, stands in for A: the size of a
  term in the middle of the data, where A itself cannot be told from α.

All three act on parameters alone. The law is always evaluated with its natural parameters on
inputs in its own units, so that a centre that does not suit a formula can slow the search down,
but never fits another law.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import Program, compiled
from jaxlaw.laws._base import Law
from jaxlaw.laws._parameters import Parameter

Array = jax.Array


class Model(NamedTuple):
    """What is fitted; static, so that one compiled program serves all data of its shape.

    Attributes:
        law: the law.
        space: residuals of the ``log`` of the target or ``linear`` in it.
        scales: for each parameter, whether its coordinate is its ``log`` or ``linear``.
        tied: for each parameter the index of the one whose value it takes (itself, if free).
        chart: whether the law's chart stands between coordinates and parameters.
    """

    law: Law
    space: str
    scales: tuple[str, ...]
    tied: tuple[int, ...]
    chart: bool


def linear_coordinates(model: Model) -> tuple[int, ...]:
    """Which coordinates the prediction is linear in, the others held.

    A coordinate that several parameters take their value from is one where all of them are
    linear; what takes its value from another is no coordinate at all.
    """
    linear = {
        k
        for k, (spec, scale) in enumerate(zip(model.law.parameters, model.scales, strict=True))
        if scale == "linear" and spec.name in model.law.linear
    }
    others = {source for k, source in enumerate(model.tied) if k not in linear}
    return tuple(k for k in sorted(linear) if model.tied[k] == k and k not in others)


def natural(
    model: Model, coordinates: Any, context: Mapping[str, Any], centre: Mapping[str, Any]
) -> dict[str, Array]:
    """Natural parameters in the law's own units, from search coordinates (p,).

    Args:
        model: what is fitted.
        coordinates: (p,).
        context: what the law's chart and constraint know of the data.
        centre: input name → its geometric mean, for the inputs that parameters are centred on.
    """
    law = model.law
    params = {
        name: jnp.exp(u) if scale == "log" else u
        for name, scale, u in zip(law.parameter_names, model.scales, coordinates, strict=True)
    }
    if model.chart:
        params |= law.chart.to_natural(params, context)
    params = {
        name: params[law.parameter_names[source]]
        for name, source in zip(law.parameter_names, model.tied, strict=True)
    }
    params = recentre(law, params, centre, sign=1)
    if law.constraint is not None:
        raised = law.constraint.raises
        params[raised] = params[raised] + law.constraint.least(params, context)
    return params


def from_natural(
    model: Model, params: Mapping[str, Any], context: Mapping[str, Any], centre: Mapping[str, Any]
) -> Array:
    """Search coordinates (…, p) of natural parameters, the one a constraint raises as its excess.

    Pure JAX, so that it can stand inside a caller's program. Coefficients at or below zero, which
    a logarithm cannot hold, become 1e-12. Arguments as those of :func:`natural`.
    """
    values = {name: jnp.asarray(value) for name, value in params.items()}
    values = recentre(model.law, values, centre, sign=-1)
    if model.chart:
        values |= model.law.chart.from_natural(values, context)
    columns = [
        jnp.log(jnp.maximum(values[name], 1e-12)) if scale == "log" else values[name]
        for name, scale in zip(model.law.parameter_names, model.scales, strict=True)
    ]
    return jnp.stack(jnp.broadcast_arrays(*columns), axis=-1)


#: The same as one program, for numbers that are known: called as it is, it compiles each operation.
coordinates_of: Program = compiled(optimised=False, static_argnames="model")(from_natural)


def box(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The law's own search box in coordinates: low (p,), high (p,)."""
    low, high = [], []
    for spec, scale in zip(model.law.parameters, model.scales, strict=True):
        if model.chart and spec.name in model.law.chart.low:
            least, most = model.law.chart.low[spec.name], model.law.chart.high[spec.name]
            if scale == "log":
                least, most = np.log(max(least, spec.low)), np.log(most)
        elif scale == "log":
            least, most = np.log(spec.low), np.log(spec.high)
        else:
            least, most = (0.0 if spec.scale == "log" else spec.low), spec.high
        low.append(least)
        high.append(most)
    return np.array(low, float), np.array(high, float)


def moved(
    spec: Parameter, value: Any, params: Mapping[str, Any], centre: Mapping[str, float], sign: int
) -> Any:
    """A parameter's value in another unit of the inputs.

    Args:
        spec: the parameter.
        value: its value.
        params: the others, for the exponents.
        centre: input name → size of the new unit (``sign`` −1) or of the present one (+1).
        sign: −1 into units of the centre, +1 back.
    """
    for name, exponent in (spec.centre or {}).items():
        if name not in centre:
            continue
        power = _exponent(exponent, params) * sign
        # In JAX not by ``**``: the derivative of exp is one product, that of pow many operations.
        exp, log = (jnp.exp, jnp.log) if isinstance(centre[name], jax.Array) else (np.exp, np.log)
        if spec.scale != "log":
            value = value + power * log(centre[name])
        elif isinstance(exponent, str):
            value = value * exp(power * log(centre[name]))
        else:
            value = value * centre[name] ** power
    return value


def recentre(
    law: Law, params: Mapping[str, Any], centre: Mapping[str, float], sign: int
) -> dict[str, Any]:
    """All parameters in another unit of the inputs; see :func:`moved`."""
    return {
        spec.name: moved(spec, params[spec.name], params, centre, sign) for spec in law.parameters
    }


def centred_inputs(law: Law) -> tuple[str, ...]:
    """Inputs that some parameter of a law is centred on, in the law's order."""
    named = {name for spec in law.parameters for name in (spec.centre or {})}
    return tuple(name for name in law.input_names if name in named)


def exponents_of(spec: Parameter, name: str) -> set[str]:
    """Parameters that a parameter's unit in one input depends on."""
    exponent = (spec.centre or {}).get(name, 0)
    return {exponent.lstrip("-")} if isinstance(exponent, str) else set()


def _exponent(exponent: str | float, params: Mapping[str, Any]) -> Any:
    if not isinstance(exponent, str):
        return exponent
    return -params[exponent[1:]] if exponent.startswith("-") else params[exponent]
