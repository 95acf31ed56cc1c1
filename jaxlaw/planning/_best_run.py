"""The best run of a budget as a pure JAX function: inside jit, vmap and grad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlaw import laws
from jaxlaw._jit import compiled
from jaxlaw._typed import as_array, checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting import Array
from jaxlaw.laws import Law
from jaxlaw.planning._budgets import (
    AT_LIMIT_32,
    best_of_budget,
    log_tokens,
    loss_at,
    search_limits,
)


class BestRun(NamedTuple):
    """What :func:`best_run` returns; a pytree.

    Attributes:
        N, D: size and tokens, in the law's own units.
        loss: predicted loss there.

    Example:
        >>> run = jl.planning.best_run("kaplan", jl.simulate.TRUTHS["kaplan"], 1e21)
        >>> float(run.loss) < 3
        True
    """

    N: Array
    D: Array
    loss: Array


@checked
def best_run(
    law: str | Law, params: Mapping[str, Any], compute: Any, *, at: Mapping[str, Any] | None = None
) -> BestRun:
    """Size and tokens of the lowest loss on a budget of 6·N·D FLOPs, as a JAX function.

    Of the numbers of :func:`jaxlaw.planning.allocation`, without its checks, notes and units.
    Works inside ``jit`` and ``vmap``; differentiable in parameters, compute and inputs by the
    implicit function theorem, and with :func:`jaxlaw.fit_batch` in the data.

    Args:
        law: law or its name, with the inputs N and D; static.
        params: name → natural values in the law's own units.
        compute: FLOPs.
        at: values of the law's other inputs, in its own units. All arrays broadcast.

    Returns:
        :class:`BestRun` of the broadcast shape; NaN where the law has no best size.

    Raises:
        UsageError: the law lacks N or D, or an input or a parameter is missing or unknown.

    Example:
        >>> truth = jl.simulate.TRUTHS["chinchilla"]
        >>> runs = jl.planning.best_run("chinchilla", truth, [1e20, 1e21])
        >>> runs.loss.shape
        (2,)
    """
    law, inputs = laws.get(law), at or {}
    _check_names(f"law {law.name}: input", {"N", "D", *inputs}, law.input_names)
    _check_names(f"law {law.name}: parameter", set(params), law.parameter_names)
    kind = jnp.result_type(float)
    arguments = {
        "params": {name: as_array(name, value, kind) for name, value in params.items()},
        "compute": as_array("compute", compute, kind),
        "others": {name: as_array(name, value, kind) for name, value in inputs.items()},
    }
    return _broadcast_runs(law, arguments)


@compiled(static_argnames="law")
def _broadcast_runs(law: Law, arguments: Any) -> BestRun:
    leaves, tree = jax.tree.flatten(arguments)

    def run(*leaves: Any) -> tuple[Any, ...]:
        return _differentiable_run(law, **jax.tree.unflatten(tree, leaves))

    return BestRun(*jnp.vectorize(run)(*leaves))


def _differentiable_run(law: Law, params: Any, compute: Any, others: Any) -> tuple[Any, ...]:
    log_C = jnp.log(compute)
    limits = search_limits(jnp.log)  # of the dtype that the caller works in
    fixed = jax.lax.stop_gradient((params, log_C))
    log_N, log_D, _ = best_of_budget(law, None, *fixed, limits, jax.lax.stop_gradient(others))
    inside = True
    for x, (low, high) in ((log_N, limits.N), (log_D, limits.D)):
        inside &= (x > low + AT_LIMIT_32) & (x < high - AT_LIMIT_32)
    log_N = jax.lax.stop_gradient(log_N)

    def loss(log_N: Any) -> Any:
        return loss_at(law, params, log_N, log_tokens(None, log_N, log_C), others)

    slope = jax.grad(loss)
    # A Newton step whose value is zero: its derivative is that of the optimum.
    curvature = jax.lax.stop_gradient(jax.grad(slope)(log_N))
    gradient = slope(log_N)
    log_N = log_N - (gradient - jax.lax.stop_gradient(gradient)) / curvature
    log_D = log_tokens(None, log_N, log_C)
    unit = {spec.name: spec.unit for spec in law.inputs}
    run = (jnp.exp(log_N) / unit["N"], jnp.exp(log_D) / unit["D"], loss(log_N))
    return tuple(jnp.where(inside, value, jnp.nan) for value in run)


def _check_names(what: str, names: set[str], needed: tuple[str, ...]) -> None:
    for name in sorted(names - set(needed)):
        raise UsageError(f"{what} '{name}' is unknown.{nearest(name, needed)}")
    missing = [name for name in needed if name not in names]
    if missing:
        raise UsageError(f"{what} {', '.join(missing)} is missing")
