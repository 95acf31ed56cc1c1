"""A plan as a pure function of arrays, for programs of one's own: jit, vmap, grad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlaw import laws
from jaxlaw._jit import compiled
from jaxlaw._typed import as_array, checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._transform import Array
from jaxlaw.laws._base import Law
from jaxlaw.planning.placing import WALLS, Limits, log_tokens, loss_at, place

AT_WALL = 1e-4  # in logarithms, for float32 too


class BestRun(NamedTuple):
    """What :func:`best_run` returns; a pytree.

    Attributes:
        N, D: size and tokens, in the law's own units.
        loss: predicted there.
    """

    N: Array
    D: Array
    loss: Array


@checked
def best_run(law: str | Law, params: Mapping[str, Any], compute: Any, **inputs: Any) -> BestRun:
    """Size and tokens of the lowest loss on a budget of 6·N·D FLOPs, as a JAX function.

    Of the numbers of :func:`jaxlaw.planning.allocation`, without its checks, notes and units.
    Works inside ``jit`` and ``vmap``; differentiable in parameters, compute and inputs by the
    implicit function theorem, and with :func:`jaxlaw.fit_batch` in the data.

    Args:
        law: a law or its name, with the inputs N and D; static.
        params: name → natural values in the law's own units.
        compute: FLOPs.
        **inputs: the law's other inputs, in its own units. All arrays broadcast.

    Returns:
        :class:`BestRun` of the broadcast shape; NaN where the law has no best size.

    Raises:
        UsageError: the law lacks N or D, or an input or a parameter is missing or unknown.
    """
    law = laws.get(law)
    _named(f"law {law.name}: input", {"N", "D", *inputs}, law.input_names)
    _named(f"law {law.name}: parameter", set(params), law.parameter_names)
    kind = jnp.result_type(float)
    given = {
        "params": {name: as_array(name, value, kind) for name, value in params.items()},
        "compute": as_array("compute", compute, kind),
        "held": {name: as_array(name, value, kind) for name, value in inputs.items()},
    }
    return _each(law, given)


@compiled(static_argnames="law")
def _each(law: Law, given: Any) -> BestRun:
    leaves, tree = jax.tree.flatten(given)
    arrays = jnp.broadcast_arrays(*leaves)

    def one(*leaves: Any) -> BestRun:
        return _one(law, **jax.tree.unflatten(tree, leaves))

    for _ in range(arrays[0].ndim):
        one = jax.vmap(one)
    return one(*arrays)


def _one(law: Law, params: Any, compute: Any, held: Any) -> BestRun:
    log_C = jnp.log(compute)
    limits = Limits(**{name: _wall(name) for name in ("N", "D")}, r=(0.0, 1.0), corpus=jnp.inf)
    fixed = jax.lax.stop_gradient((params, log_C))
    log_N, log_D, _ = place(law, None, *fixed, limits, jax.lax.stop_gradient(held))
    ends = [(log_N, limits.N), (log_D, limits.D)]
    inside = jnp.all(
        jnp.stack([(x > low + AT_WALL) & (x < high - AT_WALL) for x, (low, high) in ends])
    )
    log_N = jax.lax.stop_gradient(log_N)

    def slope(log_N: Any) -> Any:
        def loss(log_N: Any) -> Any:
            return loss_at(law, params, log_N, log_tokens(None, log_N, log_C), held)

        return jax.grad(loss)(log_N)

    # A step of Newton's whose value is zero: its derivative is that of the optimum.
    curvature = jax.lax.stop_gradient(jax.grad(slope)(log_N))
    moving = slope(log_N)
    log_N = log_N - (moving - jax.lax.stop_gradient(moving)) / curvature
    log_D = log_tokens(None, log_N, log_C)
    unit = {spec.name: spec.unit for spec in law.inputs}
    found = (jnp.exp(log_N) / unit["N"], jnp.exp(log_D) / unit["D"])
    loss = loss_at(law, params, log_N, log_D, held)
    return BestRun(*(jnp.where(inside, value, jnp.nan) for value in (*found, loss)))


def _wall(name: str) -> tuple[Any, Any]:
    low, high = WALLS[name]
    return jnp.log(low), jnp.log(high)


def _named(what: str, given: set[str], needed: tuple[str, ...]) -> None:
    for name in sorted(given - set(needed)):
        raise UsageError(f"{what} '{name}' is unknown.{nearest(name, needed)}")
    missing = [name for name in needed if name not in given]
    if missing:
        raise UsageError(f"{what} {', '.join(missing)} is missing")
