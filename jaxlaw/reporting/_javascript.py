"""A law as a function of JavaScript, for pages that predict by themselves.

The formula is traced by JAX, as for a fit, and every operation of its jaxpr is written as one line
of JavaScript: so a law of one's own needs nothing more than the built-in ones. Arrays are written
number by number, but for what a law takes for every drop of the rate: how many drops there are is
known to the page alone, so these are arrays of JavaScript. The digits are those of the browser's
exp, log and pow, which differ from XLA's in the last place.
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
    "pow": "Math.pow({0}, {1})", "integer_pow": "Math.pow({0}, {y})",
    "sqrt": "Math.sqrt({0})", "rsqrt": "1 / Math.sqrt({0})",
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
#: Length by which an axis of drops is recognised in a jaxpr: no law has so many numbers of another
#: kind. An operand with this axis is the name of an array of JavaScript, on an axis of length 1.
_DROPS = 9973


def javascript_of(law: Law) -> str:
    """The law as an arrow function ``(p, x) => number``.

    Args:
        law: law to write.

    Returns:
        Source of a function of two arrays: the parameters in the order of ``law.parameter_names``
        and the inputs in that of ``law.input_names``, both in the law's own units. An input per
        drop is an array of any length.

    Raises:
        UsageError: the law uses an operation that has no JavaScript here.

    Example:
        >>> from jaxlaw.reporting._javascript import javascript_of
        >>> print(javascript_of(jl.laws.get("loss-compute")).splitlines()[0])
        (p, x) => {
    """

    def at(p: list[Any], x: list[Any]) -> Any:
        params = dict(zip(law.parameter_names, p, strict=True))
        return law(params, **dict(zip(law.input_names, x, strict=True)))

    with in_float64():
        inputs = [np.ones(_DROPS) if spec.per_drop else 1.0 for spec in law.inputs]
        closed = jax.make_jaxpr(at)([1.0] * len(law.parameter_names), inputs)
    given = [_cell(f"p[{k}]", 0) for k in range(len(law.parameter_names))]
    given += [_cell(f"x[{k}]", np.ndim(value)) for k, value in enumerate(inputs)]
    drops = [f"x[{k}]" for k, spec in enumerate(law.inputs) if spec.per_drop]
    written = _Writer(law.name, drops)
    (answer,) = written.run(closed.jaxpr, closed.consts, given)
    lines = [f"  const {name} = {text};" for text, name in written.names.items()]
    return "\n".join(["(p, x) => {", *lines, f"  return {answer.item()};", "}"])


def _cell(text: str, axes: int) -> np.ndarray:
    """An array that holds one operand."""
    return np.array(text, object).reshape((1,) * axes)


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
        arrays: names of operands that are arrays of JavaScript, a number a drop.
        names: expression → the constant that holds it; an expression is written once.
    """

    def __init__(self, law: str, drops: list[str]) -> None:
        self.law = law
        self.arrays = drops
        self.names: dict[str, str] = {}

    def run(self, jaxpr: Any, consts: Any, given: list[np.ndarray]) -> list[np.ndarray]:
        known = {
            var: np.vectorize(_literal, otypes=[object])(self.constant(const))
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

    def constant(self, values: Any) -> Any:
        if _DROPS in np.shape(values):
            raise UsageError(f"law {self.law} numbers the drops of the rate: no JavaScript here")
        return values

    def apply(self, equation: Any, operands: list[np.ndarray]) -> list[np.ndarray]:
        name, params = equation.primitive.name, equation.params
        inner = next((p for p in params.values() if hasattr(p, "jaxpr")), None)
        if inner is not None and name not in ("while", "cond", "scan"):
            return self.run(inner.jaxpr, inner.consts, operands)
        if name in _SAME:
            return operands
        if name not in (*_OPERATIONS, *_FOLDS, *_MOVES):
            raise UsageError(f"law {self.law} uses {name}, which has no JavaScript here")
        before, after = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
        if name in _FOLDS:
            form = _OPERATIONS[_FOLDS[name]]
            return [self.folded(form, operands[0], params["axes"], before)]
        if name in _MOVES:
            return [self.moved(name, operands, params, _DROPS in (*before, *after), after)]
        form = _OPERATIONS[name].replace("{y}", str(params.get("y")))
        return [self.each(form, operands, after)]

    def moved(
        self, name: str, operands: list[np.ndarray], params: Any, drops: bool,
        shape: tuple[int, ...],
    ) -> np.ndarray:  # fmt: skip
        """Numbers in other places of a result of that shape; those of drops keep theirs."""
        if drops and name not in _OF_AXES:
            raise UsageError(f"law {self.law} uses {name} of drops, which has no JavaScript here")
        values = np.asarray(_MOVES[name](operands, params), object)
        return self.each("{0}", [values], shape) if _DROPS in shape else values

    def each(self, form: str, operands: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """An operation number by number, to a result of that shape."""
        one = self.for_each_drop if _DROPS in shape else self.named
        write = np.frompyfunc(lambda *texts: one(form, *texts), len(operands), 1)
        return np.asarray(write(*operands), object)

    def for_each_drop(self, form: str, *texts: str) -> str:
        """The array of an operation drop by drop; a number is that of every drop."""
        arrays = [text for text in texts if text in self.arrays]
        if form == "{0}" and arrays:
            return texts[0]
        each = "{}.map((_, k) => {})".format(
            (arrays or self.arrays)[0],
            form.format(*(f"{text}[k]" if text in arrays else text for text in texts)),
        )
        name = self.named("{0}", each)
        self.arrays.append(name)
        return name

    def folded(
        self, form: str, array: np.ndarray, axes: tuple[int, ...], shape: tuple[int, ...]
    ) -> np.ndarray:
        """An operation between all numbers along some axes of an array of that shape."""
        for axis in sorted(axes, reverse=True):
            first, *others = np.moveaxis(array, axis, 0)
            array, rest = np.asarray(first, object), shape[:axis] + shape[axis + 1 :]
            if shape[axis] == _DROPS:
                array = self.each(f"{{0}}.reduce((u, v) => {form.format('u', 'v')})", [array], rest)
            for other in others:
                array = self.each(form, [array, other], rest)
            shape = rest
        return array

    def named(self, form: str, *texts: str) -> str:
        return self.names.setdefault(form.format(*texts), f"a{len(self.names)}")


def _broadcast(operands: list[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    array, shape = operands[0], _shape_of(params["shape"])
    own = [1] * len(shape)
    for axis, size in zip(params["broadcast_dimensions"], array.shape, strict=True):
        own[axis] = size
    return np.broadcast_to(array.reshape(own), shape)


def _shape_of(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array of names: an axis of drops has the length 1."""
    return tuple(1 if size == _DROPS else size for size in sizes)


def _sliced(operands: list[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    strides = params["strides"] or (1,) * operands[0].ndim
    limits = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return operands[0][tuple(slice(*limit) for limit in limits)]


#: Primitives that move numbers about.
_MOVES: dict[str, Callable[[list[np.ndarray], dict[str, Any]], np.ndarray]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda operands, params: operands[0].reshape(_shape_of(params["new_sizes"])),
    "squeeze": lambda operands, params: np.squeeze(operands[0], tuple(params["dimensions"])),
    "transpose": lambda operands, params: np.transpose(operands[0], params["permutation"]),
    "rev": lambda operands, params: np.flip(operands[0], params["dimensions"]),
    "concatenate": lambda operands, params: np.concatenate(operands, params["dimension"]),
    "stack": lambda operands, params: np.stack(operands, params["axis"]),
    "slice": _sliced,
}
#: Those of them that may have an axis of drops: they move none of its numbers.
_OF_AXES = ("broadcast_in_dim", "reshape", "squeeze", "transpose", "stack")
