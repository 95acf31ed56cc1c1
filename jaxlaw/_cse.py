"""Common subexpressions of a function, computed once.

Derivatives taken one parameter at a time repeat the law's exponentials in each of them. XLA
merges what repeats, but only after it has moved out of loops what never changes in them; two
copies of log N moved so look different to it, and so does all that is computed from them. Here
repetitions are removed from the trace, before XLA sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np


def share_subexpressions(function: Callable) -> Callable:
    """The same function of arrays (or pytrees of them), with no operation done twice.

    Calls inside it are inlined, rules of ``jax.custom_jvp`` with them: take the derivatives
    that need such rules inside the function.
    """

    def shared(*arguments):
        return share_across_cases(function, [arguments])[0]

    return shared


def share_across_cases(function: Callable, cases: Sequence[tuple]) -> list:
    """Results of a function for several cases of one shape, with no operation done twice.

    Args:
        function: a function of arrays (or pytrees of them); it is traced once.
        cases: its arguments; what two cases share is the same object, or equal numbers of numpy.
    """
    traced, shape = jax.make_jaxpr(function, return_shape=True)(*cases[0])
    structure, done = jax.tree.structure(shape), {}
    results = [_evaluate(traced, jax.tree.leaves(case), done) for case in cases]
    return [jax.tree.unflatten(structure, leaves) for leaves in results]


def _evaluate(traced, arguments: list, done: dict) -> list:
    """Outputs of a traced function.

    Args:
        traced: its jaxpr.
        arguments: its flat arguments.
        done: results of operations so far, by primitive, parameters and operands; it is added to.
    """
    jaxpr = traced.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*traced.consts, *arguments), strict=True))

    def read(variable):  # or literal, whose class takes long to import
        return variable.val if hasattr(variable, "val") else values[variable]

    for equation in jaxpr.eqns:
        operands = [read(variable) for variable in equation.invars]
        call = equation.params.get("jaxpr" if equation.primitive.name in _CALLS else "call_jaxpr")
        if call is not None:
            results = _evaluate(call, operands, done)
        else:
            settings = str(sorted(equation.params.items()))
            # Arrays (and tracers) are the same if they are the same object, constants if equal.
            known = [
                id(one) if isinstance(one, jax.Array) else (own.aval, np.asarray(one).tobytes())
                for own, one in zip(equation.invars, operands, strict=True)
            ]
            key = (equation.primitive, settings, *known)
            if key not in done:
                results = equation.primitive.bind(*operands, **equation.params)
                results = results if equation.primitive.multiple_results else [results]
                # The operands are kept alive with the results, so that no later array takes the
                # ``id`` of one of them.
                done[key] = results, operands
            results = done[key][0]
        values.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


_CALLS = {"jit", "pjit"}
