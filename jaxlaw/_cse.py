"""Doing every distinct operation of a function once.

Derivatives taken one parameter at a time repeat the law's exponentials in each of them. XLA
merges what repeats, but first moves what never changes out of loops; two copies of log N moved
so look different to it, and so does all that is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays (or pytrees of them), with no operation done twice.

    Calls inside it are opened, rules of ``jax.custom_jvp`` with them: take the derivatives
    that need such rules inside the function.
    """

    def shared(*arguments: Any) -> Any:
        return once_of_each(function, [arguments])[0]

    return shared


def once_of_each(function: Callable[..., Any], cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What :func:`once` gives of several cases of one shape, with one trace for all of them.

    Args:
        function: of arrays (or pytrees of them).
        cases: its arguments; what two cases share is the same object, or equal numbers of numpy.
    """
    traced, shape = jax.make_jaxpr(function, return_shape=True)(*cases[0])
    structure, done = jax.tree.structure(shape), {}
    found = [_run(traced, jax.tree.leaves(case), done) for case in cases]
    return [jax.tree.unflatten(structure, leaves) for leaves in found]


def _run(traced: Any, arguments: list[Any], done: dict[Any, Any]) -> list[Any]:
    """Outputs of a traced function; ``done`` holds the results of operations by what they are."""
    jaxpr = traced.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*traced.consts, *arguments), strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        operands = [read(variable) for variable in equation.invars]
        call = equation.params.get("jaxpr" if equation.primitive.name in _CALLS else "call_jaxpr")
        if call is not None:
            results = _run(call, operands, done)
        else:
            settings = str(sorted(equation.params.items()))
            key = (equation.primitive, settings, *map(_identity, equation.invars, operands))
            if key not in done:
                results = equation.primitive.bind(*operands, **equation.params)
                results = results if equation.primitive.multiple_results else [results]
                done[key] = results, operands  # operands live on, and keep their identity
            results = done[key][0]
        values.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


_CALLS = {"jit", "pjit"}


def _identity(variable: Any, operand: Any) -> Any:
    """Arrays are the same if they are the same object, constants if they are equal."""
    array = isinstance(operand, jax.Array)  # tracers are, too
    return id(operand) if array else (variable.aval, np.asarray(operand).tobytes())
