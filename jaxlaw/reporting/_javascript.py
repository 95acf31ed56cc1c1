"""A law as a function of JavaScript, for pages that predict by themselves.

The formula is traced by JAX, as for a fit, and every operation of its jaxpr is written as one line
of JavaScript: so a law of one's own needs nothing more than the built-in ones. Arrays are written
number by number. The digits are those of the browser's exp, log and pow, which differ from XLA's in
the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jaxlaw._jit import in_float64
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law

#: Primitive → its JavaScript, of operands {0}, {1}, …; numbers and booleans alike.
_OPERATIONS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "neg": "-{0}", "sign": "Math.sign({0})", "abs": "Math.abs({0})", "floor": "Math.floor({0})",
    "exp": "Math.exp({0})", "exp2": "2 ** {0}", "expm1": "Math.expm1({0})",
    "log": "Math.log({0})", "log1p": "Math.log1p({0})",
    "pow": "Math.pow({0}, {1})", "sqrt": "Math.sqrt({0})", "rsqrt": "1 / Math.sqrt({0})",
    "cbrt": "Math.cbrt({0})", "square": "{0} * {0}", "tanh": "Math.tanh({0})",
    "sinh": "Math.sinh({0})", "cosh": "Math.cosh({0})", "sin": "Math.sin({0})",
    "cos": "Math.cos({0})", "atan": "Math.atan({0})",
    "logistic": "1 / (1 + Math.exp(-{0}))",
    "max": "Math.max({0}, {1})", "min": "Math.min({0}, {1})",
    "gt": "{0} > {1}", "ge": "{0} >= {1}", "lt": "{0} < {1}", "le": "{0} <= {1}",
    "eq": "{0} === {1}", "ne": "{0} !== {1}",
    "and": "{0} && {1}", "or": "{0} || {1}", "not": "!{0}",
    "is_finite": "Number.isFinite({0})",
    "select_n": "{0} ? {2} : {1}",
    "clamp": "Math.min(Math.max({1}, {0}), {2})",
}  # fmt: skip
#: Primitives that change nothing of a number.
_SAME = {"convert_element_type", "copy", "copy_p", "stop_gradient", "reduce_precision"}
#: Primitives that fold an array into fewer numbers → how two become one.
_FOLDS = {"reduce_sum": "add", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "mul"}


def javascript_of(law: Law) -> str:
    """The law as an arrow function ``(p, x) => number``.

    Args:
        law: law whose inputs are numbers, none of them per drop.

    Returns:
        Source of a function of two arrays: the parameters in the order of ``law.parameter_names``
        and the inputs in that of ``law.input_names``, both in the law's own units.

    Raises:
        UsageError: the law takes inputs per drop, or an operation that has no JavaScript here.

    Example:
        >>> from jaxlaw.reporting._javascript import javascript_of
        >>> print(javascript_of(jl.laws.get("loss-compute")).splitlines()[0])
        (p, x) => {
    """
    if law.inputs_per_drop:
        names = ", ".join(law.inputs_per_drop)
        raise UsageError(f"law {law.name} takes a value for every drop of the rate ({names})")

    def at(p: list[Any], x: list[Any]) -> Any:
        params = dict(zip(law.parameter_names, p, strict=True))
        return law(params, **dict(zip(law.input_names, x, strict=True)))

    with in_float64():
        numbers = [1.0] * len(law.parameter_names), [1.0] * len(law.input_names)
        closed = jax.make_jaxpr(at)(*numbers)
    given = [f"p[{k}]" for k in range(len(numbers[0]))] + [
        f"x[{k}]" for k in range(len(numbers[1]))
    ]
    written = _Writer(law.name)
    (answer,) = written.run(closed.jaxpr, closed.consts, [_cell(name) for name in given])
    lines = [f"  const {name} = {text};" for text, name in written.names.items()]
    return "\n".join(["(p, x) => {", *lines, f"  return {answer.item()};", "}"])


def _cell(text: str) -> np.ndarray:
    """An array without axes that holds one operand."""
    cell = np.empty((), object)
    cell[()] = text
    return cell


def _literal(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    number = float(value)
    if math.isinf(number):
        return "Infinity" if number > 0 else "(-Infinity)"
    return "NaN" if number != number else f"({number!r})" if number < 0 else repr(number)


class _Writer:
    """Goes through a jaxpr with the names of numbers in place of numbers.

    Attributes:
        law: name of the law, for messages.
        names: expression → the constant that holds it; an expression is written once.
    """

    def __init__(self, law: str) -> None:
        self.law = law
        self.names: dict[str, str] = {}

    def run(self, jaxpr: Any, consts: Any, given: list[np.ndarray]) -> list[np.ndarray]:
        known = {
            var: np.vectorize(_literal, otypes=[object])(const)
            for var, const in zip(jaxpr.constvars, consts, strict=True)
        }
        known |= dict(zip(jaxpr.invars, given, strict=True))

        def read(var: Any) -> np.ndarray:
            if isinstance(var, core.Literal):
                return np.vectorize(_literal, otypes=[object])(var.val)
            return known[var]

        for equation in jaxpr.eqns:
            operands = [read(var) for var in equation.invars]
            values = self.apply(equation, operands)
            known |= dict(zip(equation.outvars, values, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def apply(self, equation: Any, operands: list[np.ndarray]) -> list[np.ndarray]:
        name, params = equation.primitive.name, equation.params
        inner = next((p for p in params.values() if hasattr(p, "jaxpr")), None)
        if inner is not None and name not in ("while", "cond", "scan"):
            return self.run(inner.jaxpr, inner.consts, operands)
        if name in _SAME:
            return operands
        if name == "integer_pow":
            return [self.each(f"Math.pow({{0}}, {params['y']})", operands)]
        if name in _FOLDS:
            return [self.folded(_OPERATIONS[_FOLDS[name]], operands[0], params["axes"])]
        if name in _MOVES:
            return [np.asarray(_MOVES[name](operands, params), object)]
        if name not in _OPERATIONS:
            raise UsageError(f"law {self.law} uses {name}, which has no JavaScript here")
        return [self.each(_OPERATIONS[name], operands)]

    def each(self, form: str, operands: list[np.ndarray]) -> np.ndarray:
        """An operation number by number."""
        write = np.frompyfunc(lambda *texts: self.named(form.format(*texts)), len(operands), 1)
        return np.asarray(write(*operands), object)

    def folded(self, form: str, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """An operation between all numbers along some axes."""
        for axis in sorted(axes, reverse=True):
            first, *others = np.moveaxis(array, axis, 0)
            array = np.asarray(first, object)
            for other in others:
                array = self.each(form, [array, other])
        return array

    def named(self, text: str) -> str:
        return self.names.setdefault(text, f"a{len(self.names)}")


def _broadcast(operands: list[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    array, shape = operands[0], params["shape"]
    own = [1] * len(shape)
    for axis, size in zip(params["broadcast_dimensions"], array.shape, strict=True):
        own[axis] = size
    return np.broadcast_to(array.reshape(own), shape)


def _sliced(operands: list[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    strides = params["strides"] or (1,) * operands[0].ndim
    limits = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return operands[0][tuple(slice(*limit) for limit in limits)]


#: Primitives that move numbers about.
_MOVES: dict[str, Callable[[list[np.ndarray], dict[str, Any]], np.ndarray]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda operands, params: operands[0].reshape(params["new_sizes"]),
    "squeeze": lambda operands, params: np.squeeze(operands[0], tuple(params["dimensions"])),
    "transpose": lambda operands, params: np.transpose(operands[0], params["permutation"]),
    "rev": lambda operands, params: np.flip(operands[0], params["dimensions"]),
    "concatenate": lambda operands, params: np.concatenate(operands, params["dimension"]),
    "slice": _sliced,
}
