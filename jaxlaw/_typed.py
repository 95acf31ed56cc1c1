"""What a type hint says of a value: one walker that checks it, and reads it from JSON.

``@checked`` refuses an argument of another kind than its annotation says, by name, before it
fails deep inside as an error of Python's. It knows numbers, whole numbers, truth values, text,
choices, dicts, sequences, functions and classes; anything else passes. A range belongs to the
annotation too: ``Annotated[float, Between(0, 1)]``.

:func:`load` reads a value of a JSON file by the same hints.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import os
import re
import sys
import traceback
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
)

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._arrays import is_missing, is_number, plain_array, real_numbers
from jaxlaw.errors import UsageError, nearest

P = ParamSpec("P")
T = TypeVar("T")
_LARGEST = 2**63
#: What other packages call the option that says which column is predicted.
_TARGETS = ("target", "y", "loss")
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

    def holds(self, value: Any) -> bool:
        """Whether a number lies in the range; NaN does not."""
        if self.strict:
            return bool(self.low < value < self.high)
        return bool(self.low <= value <= self.high)

    def __str__(self) -> str:
        if self.must:
            return self.must
        low, high = (f"{end:.15g}" for end in (self.low, self.high))
        if self.high == math.inf:
            return f"{low} or more"
        return f"{low} or more, {high} at most"


# Kinds of argument that many functions take. The upper limits of counts are far beyond any use:
# more is a typing error, and would fill the memory first.
ConfidenceLevel = Annotated[float, Between(0, 1, strict=True, must="between 0 and 1, such as 0.95")]
Seed = Annotated[int, Between(0)]
StartCount = Annotated[int, Between(0, 2**24)]
ResampleCount = Annotated[int, Between(0, 10**6)]
RepeatCount = Annotated[int, Between(0, 10**4)]
StepCount = Annotated[int, Between(0, 10**9)]
LogNoise = Annotated[float, Between(0, 10, must="a standard deviation of a logarithm, 0 to 10")]


class _Wrong(Exception):
    """An argument is of the wrong kind; says where within it, and what it must be."""

    def __init__(self, where: str, value: Any, must: str) -> None:
        self.where, self.value, self.must = where, value, must


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with a UsageError where an argument is not of the annotated kind."""
    signature = inspect.signature(function)

    # Hints are read at the first call: a name in them may be defined below the function, and
    # reading those of all public functions would slow down the import.
    @functools.cache
    def hints() -> dict[str, Any]:
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
            _refuse_unknown(function.__name__, kwargs, (), signature)
            raise UsageError(f"{function.__name__}: {error}") from None
        with _raise_wrong_kind(function.__name__):
            for name, value in bound.arguments.items():
                kind = signature.parameters[name].kind
                if kind is inspect.Parameter.VAR_KEYWORD:
                    # **inputs: Any has one hint for all; **options: Unpack[Keywords] has one for
                    # each name, and no other names.
                    kinds = dict.fromkeys(value, hints()[name])
                    if get_origin(hints()[name]) is Unpack:
                        kinds = option_kinds(get_args(hints()[name])[0])
                        _refuse_unknown(function.__name__, value, kinds, signature)
                    many = {key: check(item, kinds[key], key) for key, item in value.items()}
                    bound.arguments[name] = many
                elif kind is not inspect.Parameter.VAR_POSITIONAL:
                    bound.arguments[name] = check(value, hints()[name], name)
        # JAX starts at the first use, so that a platform that is not there shows up only in here.
        refuse_forked()
        try:
            return function(*bound.args, **bound.kwargs)
        except (RuntimeError, AssertionError) as error:
            if (reason := no_platform(error)) is None:
                raise
            raise UsageError(reason) from None

    return call


@contextlib.contextmanager
def _raise_wrong_kind(function: str) -> Iterator[None]:
    """Raise a UsageError of a function where a value is of the wrong kind."""
    try:
        yield
    except _Wrong as wrong:
        raise UsageError(
            f"{function}: {wrong.where} is {_short(wrong.value)}; it must be {wrong.must}",
            argument=re.match(r"(?:a name in )?(\w*)", wrong.where)[1],
            value=wrong.value,
        ) from None


def check_options(owner: str, given: Mapping[str, Any], options: type) -> None:
    """Refuse options of the wrong kind in a dict, as :func:`checked` does in a call.

    Args:
        owner: what the options are given to, for messages.
        given: the options by name, each of them in ``options``.
        options: a ``TypedDict``.
    """
    with _raise_wrong_kind(owner):
        for name, value in given.items():
            check(value, option_kinds(options)[name], name)


@functools.cache
def option_kinds(options: type) -> dict[str, Any]:
    """The keywords of a ``TypedDict`` that functions take as ``**options``, and their kinds."""
    return typing.get_type_hints(options, include_extras=True)


def _refuse_unknown(
    function: str, options: Mapping[str, Any], more: Iterable[str], signature: inspect.Signature
) -> None:
    """Refuse keywords that are neither parameters nor one of ``more``.

    Without ``more`` a function whose last parameter takes any keyword takes these, too.
    """
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if not more and inspect.Parameter.VAR_KEYWORD in kinds:
        return
    names = [*more, *(name for name, parameter in signature.parameters.items()
                      if parameter.kind is not parameter.VAR_KEYWORD)]  # fmt: skip
    for name, value in options.items():
        if name in names:
            continue
        remedy = nearest(name, names)
        if name in _TARGETS and "columns" in names:
            column = value if isinstance(value, str) else "my_column"
            remedy = f" Say which column is the target of the law: columns={{'loss': '{column}'}}"
        takes_at = "at" in names and "Mapping" in str(signature.parameters["at"].annotation)
        if takes_at and not remedy:
            remedy = f" An input of the law goes into at={{'{name}': {value!r:.20}}}"
        if name == "prior":
            remedy = " A prior belongs to jl.posterior and what is built on it, as jl.forecast"
        raise UsageError(
            f"{function}: there is no option '{name}'.{remedy}", argument=name, value=value
        )


_forked = False  # whether this process has JAX's state of another one, and not its threads


def _after_fork() -> None:
    global _forked
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public word for it
    _forked = _forked or bool(getattr(bridge, "_backends", None))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_forked() -> None:
    """Raise a UsageError in a child that was forked after its parent had used JAX: it would hang.

    The threads that compile and compute stay behind in the parent.
    """
    if _forked:
        raise UsageError(
            "this process was forked from one in which JAX had run already, and JAX would wait "
            "here for threads that it has only there: start workers with "
            "multiprocessing.get_context('spawn'), or with joblib, or fork before anything is "
            "fitted or predicted"
        )


def no_platform(error: Exception) -> str | None:
    """What to say where JAX has not found the platform that JAX_PLATFORMS names; else None."""
    message = " ".join(str(error).split())
    last = traceback.extract_tb(error.__traceback__)[-1:]
    if isinstance(error, AssertionError) and last and last[0].filename.endswith("xla_bridge.py"):
        # Of cuda without its plugin JAX says nothing itself.
        message = "JAX has no such backend here"
    elif not message.startswith("Unable to initialize backend"):
        return None
    platform = os.environ.get("JAX_PLATFORMS") or jax.config.jax_platforms
    return (
        f"JAX cannot run on the platform it has to use (JAX_PLATFORMS={platform}): "
        f"{message.split('--------')[0].strip()}; install jaxlib for it, or set JAX_PLATFORMS=cpu"
    )


def as_real(value: Any) -> Any:
    """Whole numbers as floats, whatever else as it is.

    Outside ``in_float64()`` JAX keeps whole numbers in 32 bits: 7e10 parameters would be
    an OverflowError as a number, and silently another number as an array.

    Raises:
        UsageError: a whole number beyond 1e308.
    """
    if isinstance(value, jax.Array | float):
        return value
    try:
        array = np.asarray(value)
        whole = array.dtype.kind in "iu" or (
            array.dtype == object
            and all(
                isinstance(element, int) and not isinstance(element, bool) for element in array.flat
            )
        )
        if not whole or not array.size:
            return value
        real = array.astype(float)
    except OverflowError:
        raise UsageError(f"{_short(value)} is no number below 1e308") from None
    except ValueError:  # ragged: the law says what it makes of that
        return value
    return real if real.ndim else float(real)


def as_array(name: str, given: Any, kind: Any = None) -> jax.Array:
    """Numbers as an array; raises UsageError where they are none."""
    try:
        if not isinstance(given, jax.Array | int | float):
            given = plain_array(given)
            if given.dtype.kind not in "iufbV":
                given = real_numbers(given)
        given = as_real(given)
        array = jnp.asarray(given, kind)
        return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{name} must be an array of numbers: {error}") from None


def not_of_parameters(name: str, error: Exception) -> UsageError:
    """What to say of a user's function that cannot be called or differentiated."""
    return UsageError(
        f"{name} must be a function of a dict of parameters to a number, in jax.numpy; it ended in "
        f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    )


def meaning(annotation: Any, names: dict[str, Any]) -> Any:
    """The type an annotation stands for; Any where it is unknown at run time."""
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["it"]
    except NameError:  # imported for type checkers only
        return Any


def check(value: Any, kind: Any, where: str) -> Any:
    """The value as a type hint has it; raises :class:`_Wrong`.

    Args:
        value: the value given.
        kind: the type hint.
        where: name of the value, and the place within it, for messages.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _check_union(get_args(kind), value, where)
    if origin is Annotated:
        return _check_annotated(get_args(kind), value, where)
    known = _KINDS.get(origin or kind) if isinstance(origin or kind, Hashable) else None
    if known is not None:
        return known(kind, value, where)
    if kind is None or kind is type(None):
        if value is not None:
            raise _Wrong(where, value, "None")
        return value
    package = getattr(kind, "__module__", "").partition(".")[0] if inspect.isclass(kind) else ""
    if package in _WHOSE_CLASSES and not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        of = "" if package == "jaxlaw" else f" of {package}"
        raise _Wrong(where, value, f"{article} {kind.__name__}{of}")
    return value


def _check_annotated(members: tuple[Any, ...], value: Any, where: str) -> Any:
    """A value of ``Annotated[…]``: of its kind, and in each range beside it."""
    kind, *others = members
    value = check(value, kind, where)
    for limits in others:
        # A number that JAX traces has no value yet; a list stands for one in _sequence only.
        if isinstance(limits, Between) and is_number(value) and not hasattr(value, "aval"):
            if not limits.holds(value):
                raise _Wrong(where, value, str(limits))
    return value


def _check_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    words = []
    for kind in kinds:
        try:
            return check(value, kind, where)
        except _Wrong as wrong:
            if wrong.where != where:  # of the right kind itself; something in it is not
                raise
            words.append(wrong.must)
    raise _Wrong(where, value, " or ".join(dict.fromkeys(words)))


def _number(kind: Any, value: Any, where: str) -> Any:
    if not is_number(value):
        raise _Wrong(where, value, "a number" + _unit_hint(value))
    if hasattr(value, "aval"):  # traced
        return value
    try:
        unknown = is_missing(value) or math.isnan(float(value))
    except OverflowError:
        raise _Wrong(where, value, "a number below 1e308") from None
    except (TypeError, ValueError):
        unknown = True
    if unknown:
        raise _Wrong(where, value, "a number that is known")
    return value


def _unit_hint(value: Any) -> str:
    return " without quotes or unit, such as 7e9" if isinstance(value, str) else ""


def _whole(kind: Any, value: Any, where: str) -> Any:
    if hasattr(value, "aval"):
        return value
    try:
        is_whole = is_number(value) and float(value) == int(value) and abs(value) < _LARGEST
    except (TypeError, ValueError, OverflowError):
        is_whole = False
    if not is_whole:
        raise _Wrong(where, value, "a whole number")
    return int(value)


def _truth(kind: Any, value: Any, where: str) -> Any:
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise _Wrong(where, value, "True or False")


def _text(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, str):
        raise _Wrong(where, value, "text")
    if "\0" in value:
        raise _Wrong(where, value, "text without NUL bytes")
    return value


def _choice(kind: Any, value: Any, where: str) -> Any:
    """Of the kind the choices are of: which of them, the function says better."""
    choices = get_args(kind)
    alike = isinstance(value, str) and any(isinstance(choice, str) for choice in choices)
    if alike or any(value is choice for choice in choices):
        return value
    raise _Wrong(where, value, " or ".join(repr(choice) for choice in choices))


def _check_mapping(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        if not (hasattr(value, "keys") and hasattr(value, "__getitem__")):
            raise _Wrong(where, value, "a dict")
        value = {name: value[name] for name in value.keys()}  # a DataFrame, a Series
    of_key, of_value = get_args(kind) or (Any, Any)
    return {
        check(name, of_key, f"a name in {where}"): check(item, of_value, f"{where}[{name!r}]")
        for name, item in value.items()
    }


def _tuple(kind: Any, value: Any, where: str) -> Any:
    members = get_args(kind)
    if not (isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1):
        raise _Wrong(where, value, f"{len(members)} values, as (…, …)")
    if len(members) != len(value):
        raise _Wrong(where, value, f"{len(members)} values, not {len(value)}")
    pairs = zip(members, value, strict=True)
    return tuple(check(item, kind, f"{where}[{k}]") for k, (kind, item) in enumerate(pairs))


def _sequence(kind: Any, value: Any, where: str) -> Any:
    (member,) = get_args(kind) or (Any,)
    if member is float and is_number(value):  # one number stands for a list of one
        return [_number(member, value, where)]
    is_list = isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) == 1
    if member is float and is_list and not isinstance(value, list | tuple | range | jax.Array):
        value = plain_array(value)
    if not is_list:
        raise _Wrong(where, value, "a list" + (" of numbers" if member is float else ""))
    numeric = getattr(getattr(value, "dtype", None), "kind", "O") in "iuf"
    if numeric and member in (float, Any):
        bad = np.isnan(np.asarray(value, float))
        if bad.any():
            raise _Wrong(f"{where}[{int(bad.argmax())}]", np.nan, "a number that is known")
        return value
    return [check(item, member, f"{where}[{k}]") for k, item in enumerate(value)]


def _function(kind: Any, value: Any, where: str) -> Any:
    if not callable(value):
        raise _Wrong(where, value, "a function")
    return value


def _hashable(kind: Any, value: Any, where: str) -> Any:
    try:
        hash(value)
    except TypeError:
        raise _Wrong(where, value, "one plain name") from None
    return value


def _path(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, str | os.PathLike):
        raise _Wrong(where, value, "a path")
    if isinstance(value, str):  # where text and paths are allowed, what is no text is no path
        _text(str, value, where)
    return value


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number too long to print"
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= 40 else shown[:40] + "…"
    plain = isinstance(value, str | int | float | list | tuple | dict | type(None))
    return shown if plain else f"{shown} ({type(value).__name__})"


_KINDS: dict[Any, Callable[[Any, Any, str], Any]] = {
    float: _number,
    int: _whole,
    bool: _truth,
    str: _text,
    Literal: _choice,
    Mapping: _check_mapping,
    dict: _check_mapping,
    tuple: _tuple,
    Sequence: _sequence,
    list: _sequence,
    Callable: _function,
    Hashable: _hashable,
    os.PathLike: _path,
    Path: _path,
}


# JSON has no infinities and no NaN: in records they are these texts.
NOT_FINITE = ("inf", "-inf", "nan")

Finite = Annotated[float, Between(-sys.float_info.max, sys.float_info.max)]
NotNegative = Annotated[float, Between(0)]


def load(value: Any, hint: Any, name: str) -> Any:
    """A value of a JSON file as a type hint has it: what :func:`jaxlaw._json.plain` wrote.

    Args:
        value: the parsed JSON.
        hint: a type hint; ``int`` is a count, 0 or more. NaN passes every
            range without an upper limit.
        name: name of the field, for messages.

    Raises:
        TypeError, ValueError: it is something else; the message names the field.
    """
    origin = get_origin(hint)
    for origins, loader in _LOADERS_OF_ORIGIN:
        if origin in origins:
            return loader(value, hint, name)
    if _has_fields(hint) and hint not in _LOADERS:
        kinds = typing.get_type_hints(hint, include_extras=True)
        record = load(value, dict[str, Any], name)
        fields = getattr(hint, "__dataclass_fields__", {})
        older = {key for key, one in fields.items() if one.metadata.get("added")} - {*record}
        only(record, [key for key in kinds if key not in older], f"{name}.")
        return hint(
            **{key: load(item, kinds[key], f"{name}.{key}") for key, item in record.items()}
        )
    if hint is Any:
        return value
    return _LOADERS[hint](value, name)


def _load_union(value: Any, hint: Any, name: str) -> Any:
    """The first kind that it is; the error is that of the last."""
    members = get_args(hint)
    if value is None and type(None) in members:
        return None
    *others, last = (member for member in members if member is not type(None))
    for member in others:
        with contextlib.suppress(TypeError, ValueError):
            return load(value, member, name)
    return load(value, last, name)


def _load_in_range(value: Any, hint: Any, name: str) -> Any:
    # NaN lies in no range; it stands in files for what is not known, where there is no limit.
    kind, limits, *_ = get_args(hint)
    loaded = load(value, kind, name)
    if not limits.holds(loaded) and not (loaded != loaded and limits.high == math.inf):
        raise ValueError(f"field '{name}' cannot be {_short(value)}")
    return loaded


def _load_choice(value: Any, hint: Any, name: str) -> Any:
    if load(value, str, name) not in get_args(hint):
        listed = ", ".join(get_args(hint))
        raise ValueError(f"field '{name}' is one of {listed}, not {_short(value)}")
    return value


def _load_mapping(value: Any, hint: Any, name: str) -> dict[str, Any]:
    of_key, of_value = get_args(hint)
    if not isinstance(value, dict):
        raise TypeError(f"field '{name}' is no object with named fields: {_short(value)}")
    if names := _choices(of_key):
        only(value, names, f"{name}.")
    return {key: load(item, of_value, f"{name}.{key}") for key, item in value.items()}


def _load_sequence(value: Any, hint: Any, name: str) -> Any:
    origin, members = get_origin(hint), get_args(hint)
    if not isinstance(value, list):
        raise TypeError(f"field '{name}' is no list: {_short(value)}")
    if origin is tuple and members[-1] is not ...:
        if len(value) != len(members):
            raise TypeError(f"field '{name}' is no list of {len(members)}: {_short(value)}")
    else:  # tuple[float, ...] and list[float]: one kind for all
        members = members[:1] * len(value)
    return (origin if origin in (list, tuple) else list)(
        load(item, kind, name) for item, kind in zip(value, members, strict=True)
    )


_LOADERS_OF_ORIGIN: tuple[tuple[tuple[Any, ...], Callable[[Any, Any, str], Any]], ...] = (
    ((Union, types.UnionType), _load_union),
    ((Annotated,), _load_in_range),
    ((Literal,), _load_choice),
    ((dict, Mapping), _load_mapping),
    ((list, tuple, Sequence), _load_sequence),
)


def _choices(hint: Any) -> tuple[str, ...]:
    """The texts that a hint allows, of a Literal or a union of them; empty where any will do."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(itertools.chain(*map(_choices, get_args(hint))))


def _has_fields(hint: Any) -> bool:
    """Whether a class names its fields: a dataclass, or a named tuple."""
    return dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")


def only(record: dict[str, Any], names: Sequence[str], where: str) -> dict[str, Any]:
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


def _load_number(value: Any, name: str) -> float:
    is_text = isinstance(value, str) and value in NOT_FINITE
    if isinstance(value, bool) or not (isinstance(value, int | float) or is_text):
        raise TypeError(f"field '{name}' is not a number: {_short(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"field '{name}' is too large: {_short(value)}") from None


def _load_count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise TypeError(f"field '{name}' must be a non-negative integer, not {_short(value)}")
    return value


def _load_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"field '{name}' is not text: {_short(value)}")
    return value


def _load_truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"field '{name}' is not true or false: {_short(value)}")
    return value


def _load_array(value: Any, name: str) -> np.ndarray:
    """An array of any number of axes: of whole numbers where all were written so."""
    if not isinstance(value, list):
        raise TypeError(f"field '{name}' is no list: {_short(value)}")
    try:
        return np.array(_load_numbers(value, name))
    except ValueError as error:
        if str(error).startswith("field"):
            raise
        raise ValueError(f"field '{name}' has rows of different lengths") from None


def _load_numbers(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_load_numbers(item, f"{name}[{k}]") for k, item in enumerate(value)]
    number = _load_number(value, name)
    return value if isinstance(value, int) and abs(value) < _LARGEST else number


def load_table(value: Any, name: str, kinds: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table from its rows, each of the same columns.

    Args:
        value: the parsed JSON.
        name: name of the field, for messages.
        kinds: column → type of its cells. Of another column numbers are those that all are: there
            infinities and NaN were texts.

    Raises:
        TypeError, ValueError: it is something else; the message names the field.
    """
    kinds, rows = kinds or {}, load(value, list[dict[str, Any]], name)
    if not rows:
        return pd.DataFrame(columns=[*kinds])
    names = [*dict.fromkeys((*kinds, *rows[0]))]
    for k, row in enumerate(rows):
        only(row, names, f"{name}[{k}].")
    return pd.DataFrame(
        {
            column: _load_column([row[column] for row in rows], kinds.get(column), name, column)
            for column in rows[0]
        }
    )


def _load_column(cells: list[Any], kind: Any, table: str, column: str) -> list[Any]:
    if kind is not None:
        return [load(cell, kind, f"{table}[{k}].{column}") for k, cell in enumerate(cells)]
    if all(isinstance(cell, float) for cell in cells if cell not in NOT_FINITE):
        return [float(cell) for cell in cells]
    return cells


_LOADERS: dict[Any, Callable[[Any, str], Any]] = {
    float: _load_number,
    int: _load_count,
    str: _load_text,
    bool: _load_truth,
    np.ndarray: _load_array,
    pd.DataFrame: load_table,
}


def register(kind: type, loader: Callable[[Any, str], Any]) -> None:
    """Let :func:`load` know a class that writes itself by ``to_dict``."""
    _LOADERS[kind] = loader
