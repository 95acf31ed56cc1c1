"""A function as a command: its arguments are options of the same names, its docstring is the help.

The signature says which options there are, and the type of each how its text is read
(:mod:`jaxlaw.cli._values`). What is a file or a law comes first, without an option's name.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np
from cyclopts import App, Group, Parameter

import jaxlaw as jl
from jaxlaw._tables import read_table
from jaxlaw._typed import meaning, option_kinds
from jaxlaw.cli import _show, _values
from jaxlaw.data import OF_SCHEDULES, ReadingOptions, as_schedule, read_source
from jaxlaw.errors import UsageError
from jaxlaw.fitting import read_as_fitted, runs_of
from jaxlaw.notes import COLUMNS_TAKEN

#: Arguments that are saved results; a name of a table stays a text, which the function reads.
_SAVED = frozenset(
    ("fit", "scratch", "continual", "general", "domain", "pt", "cpt", "base", "result", "intervals")
)
#: Arguments that are tables, or laws: with the saved results all that needs no option's name.
_TABLES = frozenset(
    ("runs", "table", "candidates", "checkpoints", "observed", "transfers", "curve", "siblings")
)
_FIRST = _SAVED | _TABLES | {"law", "laws", "fits", "forecasts", "schedule"}
#: Arguments whose texts hold commas and colons of their own.
_VERBATIM = frozenset(
    ("where", "weight", "target", "last_of", "schedule", "tasks", "work_dir", "folds")
)
_PYTHON_ONLY = frozenset(("progress", "name", "out"))  # --quiet, the file's own name, --out
_CURVES = ("schedule", "first_step", "S1_before", "fill", "batch")  # how loss curves are read

_OWN = Group("Options", sort_key=1)
_TABLE = Group("Reading the table", sort_key=2)
_OF_CURVES = Group("Loss curves", sort_key=3)
_SEARCH = Group("Fitting", sort_key=4)
_OUTPUT = Group("Output", sort_key=5)


def _output(
    *,
    out: Annotated[
        Path | None,
        Parameter(
            alias="-o", help="File to write: JSON; the table as CSV; the picture as PNG, PDF, SVG."
        ),
    ] = None,
    json: Annotated[bool, Parameter(help="Print JSON, and nothing else.")] = False,
    quiet: Annotated[bool, Parameter(help="Show no progress.")] = False,
    verbose: Annotated[
        bool, Parameter(help="Print all notes in full, and log the steps on stderr.")
    ] = False,
    law_file: Annotated[
        Path | None, Parameter(help="Python file with laws of your own, which is run first.")
    ] = None,
) -> None:
    """What every command takes."""


def as_command(name: str, function: Callable[..., Any]) -> App:
    """The command of a function: it reads the texts, calls, shows the result; 0, 1 is its code."""
    arguments = _arguments(function)
    helps = _described(function)
    code = inspect.unwrap(function).__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parameters = [
        _option(one, helps.get(one.name, ""), one.name in own) for one in arguments.values()
    ]
    ending = inspect.signature(_output, eval_str=True).parameters
    grouped = Parameter(group=_OUTPUT, negative=(), show_default=False)
    parameters += [
        one.replace(annotation=Annotated[one.annotation, grouped]) for one in ending.values()
    ]
    # Files come first, and what must be given before what may be left out.
    parameters.sort(key=lambda one: (one.kind, one.default is not one.empty))

    def command(*files, **given):
        said = {name: given.pop(name, one.default) for name, one in ending.items()}
        names = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]
        given |= dict(zip(names, files, strict=False))
        own_out = inspect.signature(function).parameters.get("out")
        if writes := own_out is not None:  # its page or picture itself
            given["out"] = said["out"] = said["out"] or own_out.default
        return _show.run(lambda: _call(function, arguments, given), given, writes, **said)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {}
    # Below the options: the docstring's lead, and its example.
    text = inspect.getdoc(function) or ""
    _, _, rest = text.partition("\n\n")
    lead = re.split(r"(?m)^(?:Args|Returns|Raises|Example|Attributes|Shell):\n", rest)[0]
    about = [_plain(re.sub(r"(?<=\S)\n(?=\w)", " ", lead).strip())]  # a paragraph is a line
    if shell := re.search(r"Shell:\n((?:    .*\n?)+)", text):
        about.append(" ".join(["Example:", *(s.strip(" \\") for s in shell[1].splitlines())]))
    app = App(name=name, help_epilogue="\n\n".join(filter(None, about)), help_format="plaintext")
    app.default(command)
    return app


def _arguments(function: Callable) -> dict[str, inspect.Parameter]:
    """The arguments of a function that a command takes, with types in place of their texts.

    Keywords of a TypedDict are listed; a function that takes loss curves also takes how these are
    read.
    """
    names = inspect.unwrap(function).__globals__
    found, added = {}, {}
    for one in inspect.signature(function).parameters.values():
        hint = meaning(one.annotation, names)
        if get_origin(hint) is typing.Unpack:
            added |= option_kinds(get_args(hint)[0])
        elif one.kind is one.VAR_KEYWORD:
            found[one.name] = one.replace(
                annotation=Mapping[str, Any], kind=one.KEYWORD_ONLY, default=None
            )
        else:
            found[one.name] = one.replace(annotation=hint)
    of_curves = {"curves", "starts", "result"} & found.keys()
    if of_curves or _reads_table(found.keys() | added.keys()):
        added |= option_kinds(ReadingOptions)
    if of_curves:
        kinds = inspect.signature(jl.read_loss_curves).parameters
        names = inspect.unwrap(jl.read_loss_curves).__globals__
        added |= {name: meaning(kinds[name].annotation, names) for name in _CURVES}
    defaults = inspect.signature(jl.read_runs).parameters
    for name, kind in added.items():
        if name not in found:
            default = defaults[name].default if name in defaults else None
            found[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
    # A function or an executor can only be made in Python.
    return {
        name: one
        for name, one in found.items()
        if name not in _PYTHON_ONLY
        and not {getattr(kind, "__name__", "") for kind in _origins(one.annotation)}
        <= {"Callable", "Executor"}
    }


def _reads_table(arguments: Collection[str]) -> bool:
    """Whether a function is given its runs read, and so takes no options of reading."""
    return "table" in arguments or "runs" in arguments and "columns" not in arguments


def _union(hint) -> list:
    """The types of a hint, without None and ranges."""
    if get_origin(hint) is Annotated:
        return _union(get_args(hint)[0])
    if get_origin(hint) in (typing.Union, types.UnionType):
        return [one for part in get_args(hint) for one in _union(part)]
    return [] if hint is type(None) else [hint]


def _origins(hint) -> set:
    return {get_origin(kind) or kind for kind in _union(hint)}


def _is_mapping(hint) -> bool:
    return bool(_origins(hint) & {collections.abc.Mapping, dict})


def _native(hint):
    """The hint that the parser reads by itself: a number, a text, a flag, one of some words."""
    if len(kinds := _union(hint)) != 1:
        return None
    plain = kinds[0] in (bool, int, float, str) or get_origin(kinds[0]) is Literal
    return kinds[0] if plain else None


def _option(one: inspect.Parameter, text: str, is_own: bool) -> inspect.Parameter:
    """The parameter that the parser is given for an argument."""
    name, hint, default = one.name, one.annotation, one.default
    flag = "--" + name.rstrip("_").replace("_", "-")
    required, of_law = default is one.empty, name in ("law", "laws")
    complete = (lambda _: [*jl.laws.names()]) if of_law else None
    # A file or a law needs no option's name; laws may be left out beside runs that come first.
    positional = name in _FIRST and one.kind is one.POSITIONAL_OR_KEYWORD
    if positional and (name not in ("laws", "schedule") or required):
        kind = Annotated[
            str if required else str | None,
            Parameter(
                help=text, metavar=name.upper(), completer=complete, allow_leading_hyphen=True
            ),
        ]
        return one.replace(kind=one.POSITIONAL_ONLY, annotation=kind)
    # How a text is written that the parser does not read.
    origins = _origins(hint)
    metavar = "VALUE" if origins == {float, str} else None
    for kind, written in ((tuple, "LOW:HIGH"), (collections.abc.Sequence, "LIST")):
        metavar = written if kind in origins else metavar
    # Among the function's own arguments, or among those that many share.
    group = _OF_CURVES if name in _CURVES else _SEARCH
    if name in ("decay", "carry_momentum", "count_warmup", "epsilon"):
        group = _OF_CURVES
    elif is_own or name in ("seed", "evaluation"):
        group = _OWN
    elif name in ReadingOptions.__annotations__:
        group = _TABLE
    shown = Parameter(
        name=[flag, *{"columns": ["-c"], "units": ["-u"]}.get(name, [])],
        help=text,
        metavar="NAME=VALUE" if _is_mapping(hint) else metavar,
        show_default=default is not False and None,
        group=group,
        negative=() if default is not True else None,
        completer=complete,
    )
    native = _native(hint)
    if native is None or name in ("tasks", "laws"):
        listed = name == "at" and collections.abc.Sequence not in origins  # points, not steps
        several = _is_mapping(hint) or listed or name in ("tasks", "subject_to")
        native = list[str] if several else str
        default = default if isinstance(default, str | int | float) else None
    if not required and default in (None, ""):
        native, default = native | None, None
    return one.replace(
        kind=one.KEYWORD_ONLY,
        annotation=Annotated[native, shown],
        default=one.empty if required else default,
    )


def _call(function: Callable, arguments: Mapping[str, inspect.Parameter], given: dict):
    """The result of a function for what a command line says."""
    values = {
        name: _read(name, one, given[name])
        for name, one in arguments.items()
        if given.get(name) is not None and given[name] != one.default
    }
    if "fill" in arguments:
        _read_curves(values)
    # Laws of fits in place of these, and the runs read as the first fit's were.
    laws = values.get("laws", ())
    for fit in [law for law in laws if isinstance(law, jl.FittedLaw)][:1]:
        reading = {n: values.pop(n) for n in ReadingOptions.__annotations__ if n in values}
        values["laws"] = [getattr(law, "law", law) for law in laws]
        values["runs"] = runs_of(fit, values["runs"], reading)
        for note in values["runs"].notes:
            if note.code == COLUMNS_TAKEN:
                print(note.message, file=sys.stderr)
    takes = inspect.signature(function).parameters
    keywords = [name for name, one in takes.items() if one.kind is one.VAR_KEYWORD]
    if _reads_table(takes) and not keywords:
        name = "table" if "table" in takes else "runs"
        reading = {n: values.pop(n) for n in ReadingOptions.__annotations__ if n in values}
        runs = jl.read_runs(values[name], **reading)
        values[name] = runs.table if name == "table" else runs
    for name in keywords:
        values |= values.pop(name, {})
    files = [
        values.pop(name)
        for name, one in takes.items()
        if one.kind is one.POSITIONAL_ONLY and name in values
    ]
    return function(*files, **values, **({"out": given["out"]} if "out" in given else {}))


def _read(name: str, one: inspect.Parameter, text):
    """An argument's value from its text or texts."""
    hint, origins = one.annotation, _origins(one.annotation)
    if not isinstance(text, str | list):  # the parser has read it
        return text
    if name in ("law", "laws") and _native(hint) is None:
        if name == "law":
            return _values.law_or_fit(text)
        return [*map(_values.law_or_fit, text.split(","))]
    if name == "fits":
        return {k: _values.saved(f) for k, f in _values.by_name([text], name, str).items()}
    if name == "forecasts" and one.kind is one.POSITIONAL_OR_KEYWORD:
        return text.split(",")  # files, and folders of them
    if name == "plans":
        return [*map(_values.saved, text.split(","))]
    if name == "fit" and not _values.is_saved(text):
        raise UsageError(
            f"fit: {text} is no saved result (.json): first fit a law to the runs, jaxlaw fit "
            f"chinchilla {text} --out fit.json"
        )
    if name in _SAVED and _values.is_saved(text):
        if name == "fit" and "," in text:  # of a plan that balances several
            return [_values.saved(file) for file in text.split(",")]
        return _values.saved(text)
    if name == "candidates":
        return read_table(text).frame
    if name in _SAVED | _TABLES or name in _VERBATIM and float not in origins:
        return text
    if name == "subject_to":
        return [_values.constraint(item) for item in text]
    if name == "run" and str not in origins:
        return _values.continual_run(text)
    if name == "at" and isinstance(text, list) and not _is_mapping(hint):
        return _values.points(text)
    if isinstance(text, list):
        if {str, float} & origins and "=" not in text[0]:
            return _values.value(text[0])  # one value for all, or a name
        return _values.by_name(
            text, name, str if name in ("columns", "tied") else _values.value, bare=name == "over"
        )
    if any(getattr(kind, "__name__", "") == "Schedule" for kind in origins):
        return text if str in origins else as_schedule(text)
    if str in origins and len(origins) == 1:
        return text
    value = _values.value(text)
    if collections.abc.Sequence not in origins:
        return value
    if isinstance(value, tuple):
        low, high = value
        both = isinstance(low, int | float) and isinstance(high, int | float)
        if not (both and 0 < low < high):
            raise UsageError(f"{name} takes LOW:HIGH or a list, not '{text}'")
        return [*np.geomspace(low, high, 13)]
    return value if isinstance(value, list) or {int, float} & origins else [value]


def _read_curves(values: dict) -> None:
    """Read the table as loss curves, in place, for a law of such, if it has no areas itself."""
    along = {name: values.pop(name) for name in _CURVES if name in values}
    law = next((values[n] for n in ("law", "laws", "result") if n in values), None)
    law = law[0] if isinstance(law, list) else law
    name = next((n for n in ("pt", "curves") if isinstance(values.get(n), str)), "")
    if not name and isinstance(values.get("runs"), str) and law is not None:
        law_of = getattr(law, "law", None) or (jl.laws.get(law) if isinstance(law, str) else law)
        if OF_SCHEDULES & {*getattr(law_of, "input_names", ())}:
            name = "runs"
            if values.get("format") is None:
                values[name] = table = read_source(values[name], values.get("name"))
                there = OF_SCHEDULES & {*table.frame, *(values.get("columns") or ())}
                name = "" if there else name
    if not name:
        if along:
            raise UsageError(f"{', '.join(along)}: only for laws of loss curves")
        return
    reading = {
        n: values.pop(n)
        for n in ReadingOptions.__annotations__
        if n in values and not (name == "pt" and n == "weight")  # a plan's own weight, λ1
    }
    table = values[name]
    if getattr(law, "reading", None) is not None:
        table, reading, taken = read_as_fitted(law, table, reading)
        if taken:
            print(f"{table.source}: {taken}", file=sys.stderr)
    if target := reading.pop("target", None):
        reading["columns"] = {"loss": target} | (reading.get("columns") or {})
    values[name] = jl.read_loss_curves(table, **along, **reading)


def _plain(text: str) -> str:
    """A docstring's text without its markup."""
    text = re.sub(r":\w+:`~?(?:jaxlaw\.)?([^`]*)`", r"\1", text)
    return text.replace("``", "").replace("::\n", ":\n")


def _described(function: Callable) -> dict[str, str]:
    """Argument → its description, the first sentence; of others' docstrings where it has none."""
    module = import_module(function.__module__)
    beside = [one for one in vars(module).values() if inspect.isfunction(one)]
    found = {}
    for one in (jl.read_runs, jl.read_loss_curves, jl.fit, *beside, function):
        _, _, section = (inspect.getdoc(one) or "").partition("\nArgs:\n")
        section = section.partition("\n\n")[0]
        for names, text in re.findall(r"^    (\S[^:\n]*): (.*(?:\n     .*)*)", section, re.M):
            words = _plain(" ".join(text.split()))
            sentence = re.split(r"(?<!App)(?<!Fig)(?<!eq)\.\s", words, maxsplit=1)[0].rstrip(".")
            first = sentence[:1].upper() if sentence[:1].isascii() else sentence[:1]
            for name in (name.strip(" *") for name in names.split(",")):
                if one is function or name not in found:
                    found[name] = first + sentence[1:] + "."
    return found
