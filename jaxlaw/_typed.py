"""What a type hint says of a value: arguments are checked by it, and fields of files read.

``@checked`` refuses an argument of another kind than its annotation says, by name, before it
fails deep inside as an error of Python's. It knows numbers, integers, booleans, text,
choices, dicts, sequences and classes; anything else passes. A range belongs to the annotation too:
``Annotated[float, Between(0, 1)]``.

:func:`load` reads a value of a JSON file by such hints.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin

import jax
import numpy as np
import pandas as pd

from jaxlaw._arrays import is_missing, is_number, plain_array
from jaxlaw._devices import refuse_forked
from jaxlaw.errors import UsageError, nearest

P = ParamSpec("P")
T = TypeVar("T")
_LARGEST = 2**63
#: Packages whose classes are refused where a value is of another; of others anything passes.
_WHOSE_CLASSES = ("jaxlaw", "matplotlib", "pandas")


@dataclasses.dataclass(frozen=True)
class Between:
    """A range in an annotation: ``Annotated[int, Between(0, 10_000)]``.

    Attributes:
        low: the least value.
        high: the largest value.
        strict: whether the two limits themselves are refused.
        must: words of a message for such values; made of the limits where it is empty.
    """

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    must: str = ""

    def check(self, value: Any, where: str) -> Any:
        """The number; raises where it is outside, as NaN is."""
        inside = self.low < value < self.high if self.strict else self.low <= value <= self.high
        if not inside:
            raise _Wrong(where, value, str(self))
        return value

    def __str__(self) -> str:
        most = f", {self.high:.15g} at most" * math.isfinite(self.high)
        return self.must or f"{self.low:.15g} or more{most}"


# Kinds of argument that many functions take. The upper limits of counts are far beyond any use:
# more is a typing error, and would fill the memory first.
ConfidenceLevel = Annotated[float, Between(0, 1, strict=True, must="between 0 and 1, such as 0.9")]
Seed = Annotated[int, Between(0)]
StartCount = Annotated[int, Between(0, 2**24)]
ResampleCount = Annotated[int, Between(0, 10**6)]
RepeatCount = Annotated[int, Between(0, 10**4)]
StepCount = Annotated[int, Between(0, 10**9)]
LogNoise = Annotated[float, Between(0, 10, must="a standard deviation of a logarithm, 0 to 10")]
Finite = Annotated[float, Between(-sys.float_info.max, sys.float_info.max, must="a finite number")]
NotNegative = Annotated[float, Between(0)]
Fraction = Annotated[float, Between(0, 1)]
Count = Annotated[int, Between(1, 10**9)]


class _Wrong(Exception):
    """A value is of the wrong kind; says where within it, and what it must be."""

    def __init__(self, where: str, value, must: str) -> None:
        self.where, self.value, self.must = where, value, must

    def __str__(self) -> str:
        return f"{self.where} is {_short(self.value)}; it must be {self.must}"


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with a UsageError where an argument is not of the annotated kind."""
    signature = inspect.signature(function)
    own = [name for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD]
    more = len(own) < len(signature.parameters)

    # Hints are read at the first call: a name in them may be defined below the function, and
    # reading those of all public functions would slow down the import.
    @functools.cache
    def hints():
        names = dict(getattr(function, "__globals__", {}))
        return {
            name: meaning(parameter.annotation, names)
            for name, parameter in signature.parameters.items()
        }

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            if not more:
                _refuse_unknown(function.__name__, kwargs, own)
            raise UsageError(f"{function.__name__}: {error}") from None
        try:
            for name, value in bound.arguments.items():
                kind = signature.parameters[name].kind
                if kind is inspect.Parameter.VAR_KEYWORD:
                    # **inputs: Any has one hint for all; **options: Unpack[Keywords] has one for
                    # each name, and no other names.
                    kinds = dict.fromkeys(value, hints()[name])
                    if get_origin(hints()[name]) is Unpack:
                        kinds = option_kinds(get_args(hints()[name])[0])
                        _refuse_unknown(function.__name__, value, [*own, *kinds])
                    many = {key: _check(item, kinds[key], key) for key, item in value.items()}
                    bound.arguments[name] = many
                elif kind is not inspect.Parameter.VAR_POSITIONAL:
                    bound.arguments[name] = _check(value, hints()[name], name)
        except _Wrong as wrong:
            raise UsageError(f"{function.__name__}: {wrong}") from None
        refuse_forked()
        return function(*bound.args, **bound.kwargs)

    return call


@functools.cache
def option_kinds(options: type) -> dict:
    """The keywords of a ``TypedDict`` that functions take as ``**options``, and their kinds."""
    return typing.get_type_hints(options, include_extras=True)


def _refuse_unknown(function: str, options: Mapping, names: Sequence[str]) -> None:
    """Refuse keywords that are none of the names."""
    for name in options:
        if name not in names:
            message = f"{function}: there is no option '{name}'."
            message += nearest(name, names) or f" Options: {', '.join(names)}."
            raise UsageError(message)


def meaning(annotation, names: dict):
    """The type an annotation stands for; Any where it is unknown at run time."""
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["it"]
    except NameError:  # imported for type checkers only
        return Any


# JSON has no infinities and no NaN: in records they are these texts.
NOT_FINITE = ("inf", "-inf", "nan")


def load(value: Any, hint: Any, name: str) -> Any:
    """A value of a JSON file as a type hint has it: what :func:`jaxlaw._json.plain` wrote.

    Args:
        value: the parsed JSON.
        hint: a type hint. NaN passes every range without an upper limit: it stands for what is
            not known.
        name: name of the field, for messages.

    Raises:
        ValueError: it is something else; the message names the field.
    """
    origin, members = get_origin(hint) or hint, get_args(hint)
    if origin in READERS:
        return READERS[origin](value, name)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in members:
            return None
        *others, last = (member for member in members if member is not type(None))
        for member in others:
            with contextlib.suppress(ValueError):
                return load(value, member, name)
        return load(value, last, name)
    if origin is float and value in NOT_FINITE:
        return float(value)
    try:
        if origin is Annotated:
            number, limits = load(value, members[0], name), members[1]
            unknown = number != number and limits.high == math.inf
            return number if unknown else limits.check(number, name)
        if origin is Literal and value not in members:
            raise _Wrong(name, value, " or ".join(map(repr, members)))
        if origin in (Mapping, dict):
            of_key, of_value = members or (Any, Any)
            if get_origin(of_key) is Literal:
                only(value, get_args(of_key), f"{name}.")
            pairs = _check(value, dict, name).items()
            return {key: load(item, of_value, f"{name}.{key}") for key, item in pairs}
        if origin in (tuple, list, np.ndarray, pd.DataFrame) and not isinstance(value, list):
            raise _Wrong(name, value, "a list")
        if origin in (tuple, list):
            one_kind = origin is list or members[-1] is ...
            kinds = members[:1] * len(value) if one_kind else members
            if len(kinds) != len(value):
                raise _Wrong(name, value, f"{len(kinds)} values, not {len(value)}")
            each = enumerate(zip(value, kinds, strict=True))
            return origin(load(item, kind, f"{name}[{k}]") for k, (item, kind) in each)
        if hint is Any or origin in _SCALARS or origin is Literal:
            value = _check(value, hint, name)
            return float(value) if hint is float else value
    except _Wrong as wrong:
        message = f"field '{wrong.where}' is {_short(wrong.value)}; it must be {wrong.must}"
        raise ValueError(message) from None
    if hint is np.ndarray:
        try:
            array = np.array(value)
            return array if array.dtype.kind in "iu" else array.astype(float)
        except (ValueError, TypeError) as error:  # of another kind, or its rows of other lengths
            raise ValueError(f"field '{name}' must be numbers: {error}") from None
    if hint is pd.DataFrame:
        table = pd.DataFrame(load(value, list[dict[str, Any]], name))
        for column in table:  # of numbers, but for infinities and NaN, which files have as texts
            cells = table[column].tolist()
            if all(isinstance(cell, float) for cell in cells if cell not in NOT_FINITE):
                table[column] = [float(cell) for cell in cells]
        return table
    hints = typing.get_type_hints(hint, include_extras=True)
    record = only(load(value, dict[str, Any], name), in_files(hint), f"{name}.")
    return hint(**{k: load(item, hints[k], f"{name}.{k}") for k, item in record.items()})


def only(record: dict, names: Sequence[str], where: str) -> dict:
    """An object of a JSON file, with these names and no others; raises ValueError.

    Args:
        record: the object.
        names: its names.
        where: what stands before a name in messages, such as ``runner_up.``.
    """
    for key in names:
        if key not in record:
            raise ValueError(f"field '{where}{key}' is missing")
    unknown = [key for key in record if key not in names]
    if unknown:
        raise ValueError(f"field '{where}{unknown[0]}' is none of {', '.join(names)}")
    return record


def in_files(cls: type) -> list[str]:
    """The fields of a dataclass or named tuple that a file holds: all that say what is equal."""
    if hasattr(cls, "_fields"):
        return list(cls._fields)
    return [field.name for field in dataclasses.fields(cls) if field.compare]


#: Class → the function (JSON, name of the field) that reads it, of those that write themselves by
#: ``to_dict`` or ``to_json``.
READERS: dict[type, Callable[[Any, str], Any]] = {}


def _check(value, kind, where: str):
    """An argument as a type hint has it; raises :class:`_Wrong`.

    Args:
        value: the value given.
        kind: the type hint.
        where: name of the value, and the place within it, for messages.
    """
    origin, members = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in members:
            return None
        words = []
        for member in members:
            try:
                return _check(value, member, where)
            except _Wrong as wrong:
                if wrong.where != where:  # of the right kind itself; something in it is not
                    raise
                words.append(wrong.must)
        raise _Wrong(where, value, " or ".join(dict.fromkeys(words)))
    if origin is Annotated:
        value = _check(value, members[0], where)
        # A list stands for a number in a sequence only; one that JAX traces has no value yet.
        if is_number(value) and not hasattr(value, "aval"):
            for limits in members[1:]:  # two where a kind that has limits got more of them
                limits.check(value, where)
        return value
    if origin is Literal:
        if any(value is choice or isinstance(value, str) and value == choice for choice in members):
            return value
        raise _Wrong(where, value, " or ".join(map(repr, members)))
    if origin in (Mapping, dict):
        of_key, of_value = members or (Any, Any)
        if not (hasattr(value, "keys") and hasattr(value, "__getitem__")):
            raise _Wrong(where, value, "a dict")
        return {
            _check(name, of_key, f"a name in {where}"): _check(
                value[name], of_value, f"{where}[{name!r}]"
            )
            for name in value.keys()  # a DataFrame and a Series have them, too
        }
    if origin in (tuple, Sequence, list):
        members = members or (Any,)
        member, one_kind = members[0], origin is not tuple or members[-1] is ...
        if one_kind and member is float and is_number(value):
            return [_scalar(value, float, where)]  # one number stands for a list of one
        if not isinstance(value, list | tuple | range) and getattr(value, "ndim", 0) != 1:
            raise _Wrong(where, value, "a list" + " of numbers" * (member is float))
        if not one_kind and len(members) != len(value):
            raise _Wrong(where, value, f"{len(members)} values, not {len(value)}")
        if one_kind and not isinstance(value, list | tuple | range):
            if member is float and not isinstance(value, jax.Array):
                value = plain_array(value)
            dtype = getattr(getattr(value, "dtype", None), "kind", "O")
            if dtype in "iuf" and member in (float, Any):
                if np.isnan(np.asarray(value, float)).any():
                    raise _Wrong(where, np.nan, "numbers that are known")
                return value
        each = enumerate(zip(value, [member] * len(value) if one_kind else members, strict=True))
        items = [_check(item, one, f"{where}[{k}]") for k, (item, one) in each]
        return tuple(items) if origin is tuple else items
    if origin in _SCALARS:
        return _scalar(value, origin, where)
    if kind in (os.PathLike, Path) and not isinstance(value, os.PathLike):
        raise _Wrong(where, value, "a path")
    package = getattr(kind, "__module__", "").partition(".")[0] if inspect.isclass(kind) else ""
    if package in _WHOSE_CLASSES and not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        of = "" if package == "jaxlaw" else f" of {package}"
        raise _Wrong(where, value, f"{article} {kind.__name__}{of}")
    if origin is Callable and (not callable(value) or isinstance(value, type)):
        raise _Wrong(where, value, "a function")
    return value


_SCALARS = {
    float: "a number", int: "an integer", bool: "True or False", str: "text",
    type(None): "None",
}  # fmt: skip


def _scalar(value, kind, where: str):
    """A number, an integer, a boolean, a text, or None."""
    must = _SCALARS[kind]
    if kind in (float, int) and is_number(value):
        if isinstance(value, jax.core.Tracer):
            raise _Wrong(where, value, f"{must} that JAX does not trace (a static argument)")
        if isinstance(value, jax.Array):
            return value
        try:
            if kind is int and float(value) == int(value) and abs(value) < _LARGEST:
                return int(value)
            if kind is float and not (is_missing(value) or math.isnan(float(value))):
                return value
            must = "a number that is known" if kind is float else must
        except OverflowError:
            must = "a number below 1e308" if kind is float else must
        except (TypeError, ValueError):  # NaN is no integer
            pass
    elif kind is bool and (
        isinstance(value, np.bool_) or isinstance(value, int) and value in (0, 1)
    ):
        return bool(value)
    elif kind in (str, type(None)) and isinstance(value, kind):
        return value
    if kind is float and isinstance(value, str):
        must += " without quotes or unit, such as 7e9"
    raise _Wrong(where, value, must)


def _short(value) -> str:
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number too long to print"
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= 40 else shown[:40] + "…"
    plain = isinstance(value, str | int | float | list | tuple | dict | type(None))
    return shown if plain else f"{shown} ({type(value).__name__})"
