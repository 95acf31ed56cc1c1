"""Between a law's natural parameters and the coordinates that the solvers move.

Three steps lie between the two, each undone on the way back:

- *scale*: a parameter is moved as it is, or as its logarithm;
- *chart*: a law may name coordinates in which a curved valley of its objective is straight;
- *centre*: A / N0^α, with N0 the geometric mean of the inputs N, stands in for A. It is the size
  of the term in the middle of the data, which the data determine well, where A itself is a value
  at N = 1, far outside of them, that can hardly be separated from α.

All three act on parameters alone. The law is always evaluated with its natural parameters on
inputs in its own units, so that a centre that does not suit a formula can slow the search down,
but can never fit another law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law, Parameter

Array = jax.Array

_WIDE = 1e100  # range of a coefficient whose inputs could not be centred


class Model(NamedTuple):
    """What is fitted; static, so that one compiled program serves all data of its shape.

    Attributes:
        law: the law.
        residuals: ``log`` for residuals of the target's logarithm, ``linear`` for its own.
        scales: for each parameter, whether its coordinate is its ``log`` or ``linear``.
        tied: for each parameter the index of the one whose value it takes (itself, if free).
        chart: whether the law's chart stands between coordinates and parameters.
    """

    law: Law
    residuals: str
    scales: tuple[str, ...]
    tied: tuple[int, ...]
    chart: bool


def linear_coordinates(model: Model) -> tuple[int, ...]:
    """Indices of the coordinates that the prediction is linear in while the others are constant.

    A coordinate that several parameters take their value from counts only where the prediction is
    linear in all of them; a parameter that takes its value from another has no coordinate.
    """
    linear = {
        k
        for k, (spec, scale) in enumerate(zip(model.law.parameters, model.scales, strict=True))
        if scale == "linear" and spec.name in model.law.linear_parameters
    }
    others = {source for k, source in enumerate(model.tied) if k not in linear}
    return tuple(k for k in sorted(linear) if model.tied[k] == k and k not in others)


@dataclass(frozen=True)
class Transform:
    """The way from search coordinates to natural parameters and back.

    Its methods are pure ``jax.numpy``, for use inside ``jit``, ``vmap`` and ``grad``.

    Attributes:
        model: the law and its coordinates.
        centre: input name → its geometric mean, for the inputs that parameters are centred on.
        context: facts of the data for the law's chart and constraint.
    """

    model: Model
    centre: Mapping[str, Any]
    context: Mapping[str, Any]

    def to_natural(self, coordinates: Any) -> dict[str, Array]:
        """Natural parameters in the law's own units, from search coordinates (p,)."""
        law = self.model.law
        params = {
            name: jnp.exp(u) if scale == "log" else u
            for name, scale, u in zip(
                law.parameter_names, self.model.scales, coordinates, strict=True
            )
        }
        if self.model.chart:
            params |= law.chart.to_natural(params, self.context)
        params = {
            name: params[law.parameter_names[source]]
            for name, source in zip(law.parameter_names, self.model.tied, strict=True)
        }
        return from_excess(law, in_own_units(law, params, self.centre), self.context)

    def from_natural(self, params: Mapping[str, Any], start: bool = False) -> Array:
        """Search coordinates (…, p) of natural parameters (…): the inverse of the other way.

        Coefficients at or below zero, which a logarithm cannot hold, become 1e-12. Of a start the
        parameter that a constraint raises is given as its excess.
        """
        law = self.model.law
        values = {name: jnp.asarray(value) for name, value in params.items()}
        if law.constraint is not None and not start:
            values[law.constraint.raises] -= law.constraint.least(values, self.context)
        values = at_centre(law, values, self.centre)
        if self.model.chart:
            values |= law.chart.from_natural(values, self.context)
        columns = [
            jnp.log(jnp.maximum(values[name], 1e-12)) if scale == "log" else values[name]
            for name, scale in zip(law.parameter_names, self.model.scales, strict=True)
        ]
        return jnp.stack(jnp.broadcast_arrays(*columns), axis=-1)

    def bounds(
        self,
        given: Mapping[str, tuple[float | None, float | None]] | None = None,
        fixed: Mapping[str, float] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The search box in coordinates, low (p,) and high (p,), made on the host.

        Args:
            given: parameter → (lowest, highest), in place of the law's own range.
            fixed: parameter → its value; low and high are then equal.

        Raises:
            UsageError: bounds that leave nothing of a parameter's range.
        """
        law, given = self.model.law, given or {}
        uncentred = set(centred_inputs(law)) - set(self.centre)
        chart, box = law.chart if self.model.chart else None, []
        for k, (spec, scale) in enumerate(zip(law.parameters, self.model.scales, strict=True)):
            least, most = 0.0 if spec.scale == "log" != scale else spec.low, spec.high
            if spec.scale == "log" and uncentred & set(spec.centre or {}):
                # The law's range is that of sizes at the centre; A itself may be almost anything.
                least, most = (1 / _WIDE if scale == "log" else 0.0), _WIDE
            elif chart and spec.name in chart.low:
                least, most = chart.low[spec.name], chart.high[spec.name]
                least = max(least, spec.low) if scale == "log" else least
            sides = [np.log(least), np.log(most)] if scale == "log" else [least, most]
            sides = [
                own if side is None else _coordinate(side, scale)
                for own, side in zip(sides, given.get(spec.name, (None, None)), strict=True)
            ]
            if self.model.tied[k] != k:  # it takes the value of another: its own is not moved
                sides = [_coordinate(spec.start[0], scale)] * 2
            if sides[0] > sides[1]:
                raise UsageError(f"bounds of {spec.name} leave nothing of its range")
            box.append(sides)
        low, high = np.array(box, float).T.copy()
        for k, value in self.fixed_coordinates(fixed or {}).items():
            low[k] = high[k] = value
        return low, high

    def fixed_coordinates(self, fixed: Mapping[str, Any]) -> dict[int, np.ndarray]:
        """Index → coordinates (…) of fixed parameters (…), on the host.

        A coefficient that is centred has its exponents fixed too, or its input is not centred.
        """
        both = zip(self.model.law.parameters, self.model.scales, strict=True)
        return {
            k: _coordinate(_moved(spec, fixed, self.centre, -1), scale)
            for k, (spec, scale) in enumerate(both)
            if spec.name in fixed
        }


# Called on the host as it is, the method would compile each of its operations.
@compiled(optimised=False, static_argnames=("model", "start"))
def coordinates_of(
    model: Model, centre: Mapping, context: Mapping,
    params: Mapping, start: bool = False,
) -> Array:  # fmt: skip
    """Search coordinates (…, p) of natural parameters, or of a start; see :class:`Transform`."""
    return Transform(model, centre, context).from_natural(params, start)


def at_centre(law: Law, params: Mapping, centre: Mapping) -> dict:
    """Parameters with each coefficient as the size of its term at the centre of the data.

    Args:
        law: the law.
        params: name → natural value (…) in the law's own units.
        centre: input name → its geometric mean.
    """
    return {spec.name: _moved(spec, params, centre, -1) for spec in law.parameters}


def in_own_units(law: Law, params: Mapping, centre: Mapping) -> dict:
    """Natural parameters in the law's own units: the inverse of :func:`at_centre`."""
    return {spec.name: _moved(spec, params, centre, 1) for spec in law.parameters}


def from_excess(law: Law, params: dict, context: Mapping) -> dict:
    """Natural parameters, from those with the one that a constraint raises as its excess."""
    if law.constraint is None:
        return params
    raised = law.constraint.raises
    return params | {raised: params[raised] + law.constraint.least(params, context)}


def _moved(spec: Parameter, params: Mapping, centre: Mapping, sign: int):
    """A parameter's value in another unit of the inputs: −1 to the centre's, +1 back."""
    value = params[spec.name]
    for name, exponent in (spec.centre or {}).items():
        if name not in centre:
            continue
        turned = isinstance(exponent, str) and exponent.startswith("-")
        power = params[exponent.lstrip("-")] if isinstance(exponent, str) else exponent
        power = -power * sign if turned else power * sign
        # In JAX not by ``**``: the derivative of exp is one product, that of pow many operations.
        in_jax = any(isinstance(one, jax.Array) for one in (value, power, centre[name]))
        exp, log = (jnp.exp, jnp.log) if in_jax else (np.exp, np.log)
        if spec.scale != "log":
            value = value + power * log(centre[name])
        elif isinstance(exponent, str):
            value = value * exp(power * log(centre[name]))
        else:
            value = value * centre[name] ** power
    return value


def centred_inputs(law: Law) -> tuple[str, ...]:
    """Inputs that some parameter of a law is centred on, in the law's order."""
    named = {name for spec in law.parameters for name in (spec.centre or {})}
    return tuple(name for name in law.input_names if name in named)


def exponents_of(spec: Parameter, name: str) -> set[str]:
    """Parameters that a parameter's unit in one input depends on."""
    exponent = (spec.centre or {}).get(name, 0)
    return {exponent.lstrip("-")} if isinstance(exponent, str) else set()


def _coordinate(value, scale: str):
    value = np.asarray(value, float)
    return np.log(np.maximum(value, 1e-300)) if scale == "log" else value
