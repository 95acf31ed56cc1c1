"""From checked observations and a user's options to the problem that solvers see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled, few_lengths, in_float64
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._objective import LARGEST_DELTA, Problem
from jaxlaw.fitting._transform import (
    Array,
    Model,
    box,
    centred_inputs,
    coordinates_of,
    exponents_of,
    natural,
    recentre,
)
from jaxlaw.laws._base import Law

_WIDE = 1e100  # range of a coefficient whose inputs could not be centred


@dataclass(frozen=True)
class Options:
    """What a user may say about the problem itself.

    Attributes:
        delta: Huber threshold; the law's own if None, least squares if infinite.
        space: residuals in ``log`` or ``linear``; the law's own if None.
        asymmetry: factor on the loss of points below the curve; above 1 the curve is
            drawn towards the lower envelope of the data.
        fixed: parameter → value it is held at.
        tied: parameter → the parameter whose value it takes.
        bounds: parameter → (lowest, highest), either None.
    """

    delta: float | None = None
    space: Literal["log", "linear"] | None = None
    asymmetry: float = 1.0
    fixed: Mapping[str, float] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def check(self, law: Law) -> None:
        """Refuse what makes no sense.

        Raises:
            UsageError: unknown parameters, contradictions, thresholds that are not positive.
        """
        for name in (*self.fixed, *self.tied, *self.tied.values(), *self.bounds):
            law.parameter(name)
        if law.constraint is not None and law.constraint.raises in (*self.fixed, *self.bounds):
            raise UsageError(
                f"under constraint '{law.constraint.name}' parameter {law.constraint.raises} is "
                "raised above a least value, and cannot be fixed or bounded; drop the constraint"
            )
        for name in self.fixed:
            if name in self.tied or name in self.bounds:
                raise UsageError(f"parameter {name} is fixed and cannot be tied or bounded too")
            if not np.isfinite(self.fixed[name]):
                raise UsageError(f"parameter {name} is fixed at {self.fixed[name]}")
            if law.parameter(name).scale == "log" and self.fixed[name] < 0:
                raise UsageError(f"parameter {name} must be positive; fixed at {self.fixed[name]}")
        for name, other in self.tied.items():
            if name == other or other in self.tied:
                raise UsageError(f"parameter {name} is tied to {other}, which is itself tied")
        for name, (low, high) in self.bounds.items():
            if low is not None and high is not None and not low < high:
                raise UsageError(f"bounds of {name} are not in order: {low}, {high}")
        if self.space not in (None, "log", "linear"):
            hint = nearest(str(self.space), ("log", "linear"))
            raise UsageError(f"space is 'log' or 'linear', not {self.space!r}.{hint}")
        if self.delta is not None and not self.delta > 1e-100:  # its square must not vanish
            raise UsageError(f"delta must be positive, not {self.delta}")
        if not self.asymmetry > 0:
            raise UsageError(f"asymmetry must be positive, not {self.asymmetry}")

    def free(self, law: Law) -> tuple[str, ...]:
        """Names of the parameters that are fitted."""
        return tuple(
            name for name in law.parameter_names if name not in self.fixed and name not in self.tied
        )


@dataclass(frozen=True)
class Posed:
    """A problem ready for the engine, and the way back from it.

    Attributes:
        model, problem: see :mod:`jaxlaw.fitting._objective`.
        options: what was asked.
        means: input name → its geometric mean, for inputs some parameter is centred on.
        centre: those of them that parameters are centred on.
    """

    model: Model
    problem: Problem
    options: Options
    means: dict[str, float]
    centre: dict[str, float]

    def __getstate__(self) -> dict[str, Any]:
        """With arrays of numpy: JAX's own are float32 where a pickle is read outside float64."""
        return vars(self) | {"problem": jax.tree.map(np.asarray, self.problem)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With arrays of JAX again, for which the programs are."""
        vars(self).update(state | {"problem": jax.tree.map(_in_float64, state["problem"])})

    def coordinates(self, starts: np.ndarray) -> np.ndarray:
        """Search coordinates of starts (…, p), which are natural values at the centre."""
        law, fixed = self.model.law, self.options.fixed
        params = dict(zip(law.parameter_names, np.moveaxis(starts, -1, 0), strict=True))
        held = {name: np.full(starts.shape[:-1], v) for name, v in fixed.items()}
        # Held exponents before, for units depend on them; held coefficients after it.
        params = recentre(law, params | held, self.means, sign=1) | held
        return self._inside(params)

    def place(self, params: Mapping[str, Any]) -> np.ndarray:
        """Coordinates (…, p) of natural parameters in the law's own units: back from there."""
        law, context = self.model.law, self.problem.context
        values = {name: np.asarray(params[name], float) for name in law.parameter_names}
        if law.constraint is not None:
            raised = law.constraint.raises
            values[raised] = values[raised] - np.asarray(law.constraint.least(values, context))
        return self._inside(values)

    def _inside(self, params: Mapping[str, Any]) -> np.ndarray:
        """Coordinates (…, p) within the search box, of natural parameters."""
        context, centre = self.problem.context, self.problem.centre
        found = np.asarray(coordinates_of(self.model, params, context, centre))
        return np.clip(found, np.asarray(self.problem.low), np.asarray(self.problem.high))

    def boxes(self, held: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Search boxes (P, p), low and high, of versions that hold values of their own.

        Args:
            held: fixed parameter → (P,) values in the law's own units, in place of the one that
                the options fix it at; NaN leaves its version nowhere to search.
        """
        model, fixed = self.model, {**self.options.fixed, **held}
        count = len(next(iter(held.values())))
        low, high = (np.tile(side, (count, 1)) for side in (self.problem.low, self.problem.high))
        for k, (name, scale) in enumerate(
            zip(model.law.parameter_names, model.scales, strict=True)
        ):
            if name in fixed:  # not in held alone: what one means may depend on another
                values = _at_centre(model.law, name, fixed, self.centre)
                low[:, k] = high[:, k] = _coordinate(values, scale)
        return low, high

    def params(self, coordinates: np.ndarray) -> dict[str, np.ndarray]:
        """Natural parameters in the law's own units, from coordinates (…, p)."""
        coordinates = np.asarray(coordinates)
        rows, shape = coordinates.reshape(-1, coordinates.shape[-1]), coordinates.shape[:-1]
        count = len(rows)
        rows = np.pad(rows, ((0, few_lengths(count) - count), (0, 0)), mode="edge")
        with in_float64():
            found = _natural(self.model, rows, self.problem.context, self.problem.centre)
        found = {
            name: np.asarray(found[name], float)[:count].reshape(shape)
            for name in self.model.law.parameter_names
        }
        exact = {name: np.full_like(found[name], v) for name, v in self.options.fixed.items()}
        return found | exact


@compiled(optimised=False, static_argnames="model")
def _natural(model: Model, rows: Any, context: Any, centre: Mapping[str, Any]) -> dict[str, Any]:
    found = natural(model, tuple(rows.T), context, centre)
    return {name: jnp.broadcast_to(value, len(rows)) for name, value in found.items()}


def pose(
    law: Law,
    inputs: Mapping[str, Any],
    target: Any,
    weight: Any,
    options: Options,
    linear_coefficients: bool,
) -> Posed:
    """Build the problem; call inside a float64 context.

    Args:
        law: the law.
        inputs: name → (n,) in the law's own units.
        target: (n,), positive where residuals are logarithmic.
        weight: (n,).
        options: the user's.
        linear_coefficients: whether coefficients the law is linear in are moved as they are
            (the batch solver), rather than as their logarithms (the papers' L-BFGS).
    """
    options.check(law)
    space = options.space or law.space
    pinned = {*options.fixed, *options.tied, *options.tied.values(), *options.bounds}
    index = {name: k for k, name in enumerate(law.parameter_names)}
    model = Model(
        law=law,
        space=space,
        scales=tuple(
            "linear" if linear_coefficients and spec.name in law.linear else spec.scale
            for spec in law.parameters
        ),
        tied=tuple(index[options.tied.get(name, name)] for name in law.parameter_names),
        chart=law.chart is not None and not pinned & set(law.chart.low),
    )
    means = _geometric_means(law, inputs, weight)
    centre = {name: mean for name, mean in means.items() if _may_centre(law, name, options, pinned)}
    own = {name: _on_device(values) for name, values in inputs.items()}
    fixed = {name: _at_centre(law, name, options.fixed, centre) for name in options.fixed}
    low, high = _limits(model, options, fixed, set(means) - set(centre))
    delta = law.delta if options.delta is None else min(options.delta, LARGEST_DELTA)
    problem = Problem(
        inputs=own,
        target=_on_device(np.log(target) if space == "log" else target),
        weight=_on_device(weight),
        low=_on_device(low),
        high=_on_device(high),
        delta=_on_device(delta),
        asymmetry=_on_device(options.asymmetry),
        context={name: _on_device(value) for name, value in _context(law, own).items()},
        centre={name: _on_device(mean) for name, mean in centre.items()},
    )
    return Posed(model, problem, options, means, centre)


@compiled(optimised=False, static_argnames="law")
def _context(law: Law, inputs: dict[str, Any]) -> dict[str, Any]:
    return law.context(inputs)


def _on_device(values: Any) -> Array:
    return jnp.asarray(np.asarray(values, float))


def _in_float64(values: Any) -> Array:
    with in_float64():
        return jnp.asarray(values)


def _at_centre(law: Law, name: str, fixed: Mapping[str, Any], centre: Mapping[str, float]) -> Any:
    """A fixed parameter's value at the centre; the exponents it needs are fixed too."""
    relevant = {k: v for k, v in centre.items() if k in (law.parameter(name).centre or {})}
    filler = dict.fromkeys(law.parameter_names, 0.0) | dict(fixed)
    return recentre(law, filler, relevant, sign=-1)[name]


def _geometric_means(law: Law, inputs: Mapping[str, Any], weight: Any) -> dict[str, float]:
    used = np.asarray(weight, float) > 0
    return {name: _geometric_mean(inputs[name], used) for name in centred_inputs(law)}


def _geometric_mean(values: Any, used: np.ndarray) -> float:
    """Of the sizes of what is not zero; 1 where there is nothing."""
    sizes = np.abs(np.asarray(values, float)[used])
    sizes = sizes[sizes > 0]
    return float(np.exp(np.mean(np.log(sizes)))) if len(sizes) else 1.0


def _may_centre(law: Law, name: str, options: Options, pinned: set[str]) -> bool:
    """Whether an input can be centred: no pinned parameter's meaning moves with a free one's."""
    for spec in law.parameters:
        if spec.name in pinned and name in (spec.centre or {}):
            only_fixed = spec.name in options.fixed
            if not only_fixed or not exponents_of(spec, name) <= set(options.fixed):
                return False
    return True


def _coordinate(value: Any, scale: str) -> Any:
    value = np.asarray(value, float)
    return np.log(np.maximum(value, 1e-300)) if scale == "log" else value


def _limits(
    model: Model, options: Options, fixed: Mapping[str, float], uncentred: set[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The search box with the user's bounds and fixed values, in coordinates."""
    low, high = box(model)
    for k, (spec, scale) in enumerate(zip(model.law.parameters, model.scales, strict=True)):
        if uncentred & set(spec.centre or {}) and spec.scale == "log":
            low[k] = _coordinate(1 / _WIDE, scale) if scale == "log" else 0.0
            high[k] = _coordinate(_WIDE, scale)
        least, most = options.bounds.get(spec.name, (None, None))
        low[k] = low[k] if least is None else _coordinate(least, scale)
        high[k] = high[k] if most is None else _coordinate(most, scale)
        if spec.name in fixed:
            low[k] = high[k] = _coordinate(fixed[spec.name], scale)
        if model.tied[k] != k:  # not moved at all
            low[k] = high[k] = _coordinate(spec.start[0], scale)
        if low[k] > high[k]:
            raise UsageError(f"bounds of {spec.name} leave nothing of its range")
    return low, high
