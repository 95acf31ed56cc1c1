"""Which parameters a formula is linear in, read off its trace.

A fit solves for such coefficients by least squares (variable projection), which makes far better
starts. Every value of the traced formula is followed: what it depends on, and whether it is
affine in that. The rules are few and never wrong: what they do not know counts as not linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Sums, and whatever only moves, repeats or leaves out elements.
_LINEAR = {
    "add", "add_any", "sub", "neg", "reduce_sum", "cumsum", "broadcast_in_dim", "reshape",
    "squeeze", "expand_dims", "transpose", "concatenate", "stack", "unstack", "split", "slice",
    "rev", "copy", "copy_p",
}  # fmt: skip
_PRODUCTS = {"mul", "dot_general"}
_CALLS = {"pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint"}


class _Depends(NamedTuple):
    """Parameters a value depends on: those it is affine in, and the others."""

    affine: frozenset[str] = frozenset()
    other: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        return self.affine | self.other


def linear_parameters(
    function: Callable, inputs: Mapping[str, bool], parameters: tuple[str, ...]
) -> tuple[str, ...]:
    """Parameters that a formula is affine in, all of them together, the others held.

    Args:
        function: ``function(*inputs, **parameters)``.
        inputs: name → whether the input has a value for every drop of the learning rate.
        parameters: names of the parameters.

    Returns:
        Names, in the order of ``parameters``. Of two coefficients that are multiplied with each
        other the first; none where the function cannot be traced on plain arrays.
    """
    kind = jnp.result_type(float)
    rows = [
        jax.ShapeDtypeStruct((3, 2) if per_drop else (3,), kind) for per_drop in inputs.values()
    ]
    values = {name: jax.ShapeDtypeStruct((), kind) for name in parameters}
    try:
        traced = jax.make_jaxpr(lambda rows, values: function(*rows, **values))(rows, values)
    except Exception:  # whatever a user's function may raise: the fit itself says what is wrong
        return ()
    # Dictionaries are flattened in the order of their sorted keys.
    names = [None] * len(rows) + sorted(parameters)
    start = [_Depends(frozenset(() if name is None else (name,))) for name in names]
    coupled = set()
    outcome = _join(_follow(traced.jaxpr, start, coupled))
    chosen = []
    for name in parameters:
        alone = all(frozenset((name, other)) not in coupled for other in chosen)
        if name in outcome.affine and alone:
            chosen.append(name)
    return tuple(chosen)


def _join(several: list[_Depends]) -> _Depends:
    """Of a sum: affine in what every part is affine in."""
    other = frozenset().union(*(depends.other for depends in several))
    return _Depends(frozenset().union(*(depends.affine for depends in several)) - other, other)


def _follow(traced, start: list[_Depends], coupled: set[frozenset[str]]) -> list[_Depends]:
    """What the outputs of a traced function depend on, given what its inputs do."""
    known = dict(zip(traced.invars, start, strict=True))

    def look(var):
        return _Depends() if hasattr(var, "val") else known.get(var, _Depends())

    for equation in traced.eqns:
        rule, operands = equation.primitive.name, [look(var) for var in equation.invars]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        everything = frozenset().union(*(operand.all for operand in operands))
        if rule in _CALLS and inner is not None:
            results = _follow(getattr(inner, "jaxpr", inner), operands, coupled)
        elif rule in _LINEAR or (
            rule == "convert_element_type"
            and jnp.issubdtype(equation.params["new_dtype"], jnp.floating)
        ):
            results = [_join(operands)] * len(equation.outvars)
        elif rule in _PRODUCTS:
            first, second = operands
            both = first.all & second.all
            coupled |= {frozenset((a, b)) for a in first.all for b in second.all if a != b}
            results = [_join([first, second, _Depends(other=both)])]
        elif rule == "div":
            results = [_join([operands[0], _Depends(other=operands[1].all)])]
        elif rule == "select_n":
            results = [_join([*operands[1:], _Depends(other=operands[0].all)])]
        else:
            results = [_Depends(other=everything)] * len(equation.outvars)
        known.update(zip(equation.outvars, results, strict=True))
    return [look(var) for var in traced.outvars]
