"""Around every command: what it reads is not overwritten, and errors name its own options."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.models import OptionInfo

import jaxlaw as jl
from jaxlaw._json import source_name
from jaxlaw.cli._help import Command, write_forms
from jaxlaw.errors import JaxlawError, UsageError
from jaxlaw.notes import worded

# Options that name what a command writes.
_WRITTEN = ("out", "draws")
_RANKS = ("JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")  # of a cluster job's processes
_SILENT = 2.0  # seconds for which a command may say nothing
# Texts and folders that no command reads as a file, whatever they are called.
_NO_FILES = {*_WRITTEN, "title", "work_dir", "compile_cache"}


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which refuses to write over a file that it reads, before it does anything.

    Its errors say of options what Python says of arguments.
    """
    signature = inspect.signature(command, eval_str=True)
    write_forms(signature)

    @functools.wraps(command)
    def call(**given: Any) -> None:
        try:
            _keep_inputs(given)
            with _progress_of(given), worded(lambda text: note_in_options(text, _flags(signature))):
                command(**given)
        except JaxlawError as error:
            flags = _flags(signature)
            error.args = (in_options(error, flags),)
            raise

    # What typer makes the options of; annotations are texts that only this module's names resolve.
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _progress_of(given: dict[str, Any]) -> Iterator[None]:
    """After two seconds of a command its progress is shown, unless it is to be quiet."""
    wanted, quiet = given.get("progress"), os.environ.get("JAXLAW_QUIET")
    ranks = [os.environ.get(name, "0") for name in _RANKS] if given.get("distributed") else []
    asked = bool(wanted) or (wanted is None and not quiet)
    if not asked or any(map(int, ranks)):
        os.environ["JAXLAW_QUIET"] = "1"  # what is computed is quiet, too
        try:
            yield
        finally:
            del os.environ["JAXLAW_QUIET"]
            if quiet is not None:
                os.environ["JAXLAW_QUIET"] = quiet
        return
    displays: list[Any] = []
    lock, over, began = threading.Lock(), threading.Event(), time.monotonic()

    def begin() -> None:  # its module is imported by commands that take so long, and no others
        from jaxlaw._progress import Display

        with lock:
            if not over.is_set():
                displays.append(Display(idle="working", began=began))

    timer = threading.Timer(0.0 if wanted else _SILENT, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            over.set()
        for display in displays:
            display.close()


def guard_every(group: typer.Typer) -> None:
    """Guard all commands of a group; their help has groups, and below it what every one takes."""
    for command in group.registered_commands:
        if command.cls is Command:  # guarded before, for another app of this process
            continue
        command.callback = guarded(command.callback)
        command.cls = Command
        command.epilog = (
            "--verbose says on stderr what is done. --law-file FILE.py runs a file of yours "
            "first, so that fits of the laws it defines can be read."
        )
    for inner in group.registered_groups:
        guard_every(inner.typer_instance)


def _keep_inputs(given: dict[str, Any]) -> None:
    written = {name: given[name] for name in _WRITTEN if given.get(name) is not None}
    if len({os.path.realpath(out) for out in written.values()}) < len(written):
        raise UsageError("--out and --draws name one file; give each its own")
    for name, out in written.items():
        for read in _files_read(given, out):
            raise UsageError(
                f"--{name} {out} would overwrite {read}, which this command reads; give "
                "another name"
            )


def _files_read(given: dict[str, Any], out: Path) -> Iterator[str]:
    """Arguments of a command that name the file which ``out`` names, links followed.

    ``-`` names the file behind standard input.
    """
    if not out.is_file():
        return
    from jaxlaw.data.formats import FORMATS

    patterns = FORMATS[given["format"]][0] if given.get("format") in FORMATS else ()
    for name, value in given.items():
        if name in _NO_FILES or (name == "law" and value in jl.laws.names()):
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(item, str | Path):
                continue
            # NAME=FILE as well as FILE.
            for text in dict.fromkeys((str(item), str(item).partition("=")[2])):
                try:
                    same = bool(text) and os.path.samefile(0 if text == "-" else text, out)
                except (OSError, ValueError):
                    continue
                inside = Path(text).is_dir() and any(
                    os.path.samefile(file, out)
                    for pattern in patterns
                    for file in Path(text).rglob(pattern)
                )
                if same or inside:
                    yield source_name(text)


# Arguments of Python whose option has another name, beyond the singular of it.
_OPTIONS = {
    "fixed": "fix",
    "tied": "tie",
    "bounds": "bound",
    "predict": "at",
    "resamples": "n",
    "n_resamples": "n",
    "computes": "compute",
    "area_options": "decay",
    "tasks": "score",
}
# What stands for an empty dict.
_EMPTY = {"fixed": "no_base"}
# What stands for a dict, where the option does not take NAME=VALUE.
_DICTS = {"--schedules": "FILE (name and line of each)"}
# What messages propose to pass, which they write as Python does: units={'N': 1e9}. It is the one
# thing that is read out of a message; which argument is wrong, an error says itself.
_CALL = re.compile(
    r"""\b(?P<name>\w+)=                             # an argument, and what it is to be:
    (?:\{(?P<empty>)\}                              # an empty dict,
    |\{'(?P<key>[^']*)':\ '?(?P<item>[^'}]*)'?\}    # a dict of one item,
    |\{(?P<pairs>'[^}]*)\}                          # a dict of numbers,
    |'(?P<text>[^']*)'                             # text,
    |\[(?P<items>'[^\]]*)\]                         # a list of texts,
    |\((?P<many>[\d., ]+)\)                        # numbers,
    |(?P<flag>True)\b                              # a flag,
    |(?P<none>None)\b                              # nothing, by its name,
    |(?P<blank>…)                                  # what only the user knows,
    |(?P<number>\d[\d.e+-]*\d|\d)(?![\w.])          # a number,
    |(?P<left>(?=[\s,;:)]|$)))                      # or left out""",
    re.VERBOSE,
)


def _flags(signature: inspect.Signature) -> dict[str, str]:
    """Options of a command by the names of its arguments: ``{"value": "--input"}``."""
    flags = {}
    for name, parameter in signature.parameters.items():
        for kind in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(kind, OptionInfo):
                # Typer takes the first of Option("--input") for a default until it reads it.
                named = [flag for flag in (kind.default, *(kind.param_decls or ()))
                         if isinstance(flag, str) and flag.startswith("--")]  # fmt: skip
                flags[name] = (named or ["--" + name.replace("_", "-")])[0]
    return flags


def in_options(error: JaxlawError, options: dict[str, str]) -> str:
    """An error's message, with the options of a command for what it says of arguments."""
    message = str(error)
    if error.argument and (name := _option(error.argument, options)):
        message = _with_option(message, error.argument, name)
    return _CALL.sub(lambda match: _proposal(match, options), message)


def _with_option(message: str, argument: str, option: str) -> str:
    """A message that begins with the argument, or with the function that takes it."""
    function, _, rest = message.partition(": ")
    for text in (message, rest if function.isidentifier() else ""):
        for lead in ("a name in ", ""):
            head, begins, tail = text.partition(lead + argument)
            if begins and not head and not tail[:1].isidentifier():
                return lead + option + tail
    return message


def _option(name: str, options: dict[str, str]) -> str | None:
    """The option of a command for an argument of Python; None where it has none."""
    lower = name.lower() if len(name) > 1 else name  # N is an input, and no n
    for known in (lower, lower.removesuffix("s"), _OPTIONS.get(lower)):
        if known in options:
            return options[known]
    return None


def _proposal(match: re.Match[str], options: dict[str, str]) -> str:
    """What a message proposes to pass, as a command takes it."""
    name, parts = _option(match["name"], options), match.groupdict()
    if parts["empty"] is not None:
        return options.get(_EMPTY.get(match["name"], ""), match[0])
    if name is None:
        return match[0]
    if parts["key"] is not None:
        key, item = parts["key"], _range(parts["item"])
        whole = f"{item}" if name == "--decay" else f"{key}={item}"
        return f"{name} {_DICTS.get(name, whole)}"
    if parts["pairs"]:
        pairs = re.findall(r"'([^']*)': '?([^,']*)", parts["pairs"])
        return " ".join(f"{name} {key}={value}" for key, value in pairs)
    text = _text_of(parts)
    if " " in text:
        return f'{name} "{text}"'
    return f"{name} {text}" if text else name


def _text_of(parts: dict[str, Any]) -> str:
    """What a match of :data:`_CALL` passes, as options take it; empty for a flag."""
    if several := parts["many"] or parts["items"]:
        return re.sub(r"'| (?=[\d.])|(?<=,) ", "", several)
    return parts["text"] or parts["number"] or parts["blank"] or "none" * bool(parts["none"])


def _range(item: str) -> str:
    """A pair of Python's as options take it: ``(0.1, None)`` is ``0.1:``."""
    pair = re.fullmatch(r"\((.*), (.*)\)", item)
    return ":".join("" if side == "None" else side for side in pair.groups()) if pair else item


def note_in_options(message: str, options: dict[str, str]) -> str:
    """A note's message, with commands for what it says of functions, and their options.

    An option that this command lacks is one of ``jaxlaw fit``, whose fit is at hand.

    Args:
        message: message in the words of Python, such as ``jl.bootstrap(…, groups='run')``.
        options: options of this command by the names of its arguments.
    """

    def command(match: re.Match[str]) -> str:
        if match["name"] == "conf_int":  # whose options the command has itself
            return _CALL.sub(lambda m: _proposal(m, options), match["given"])
        words = _command_of(match["package"], match["name"])
        if words is None:
            return match[0]
        flags = flags_of(words)
        given = _CALL.sub(lambda m: _proposal(m, flags), match["given"] or "").replace(", ", " ")
        return " ".join(["jaxlaw", words, *filter(None, [given])])

    def of_fit(match: re.Match[str]) -> str:
        shown = _proposal(match, flags_of("fit"))
        return shown if shown == match[0] else f"{shown} of jaxlaw fit"

    message = _FUNCTION.sub(command, message)
    message = _CALL.sub(lambda match: _proposal(match, options), message)
    return _CALL.sub(of_fit, message)


@functools.cache
def flags_of(command: str) -> dict[str, str]:
    """Options of a command, such as ``plan allocation``, by the names of its arguments."""
    group, _, name = command.rpartition(" ")
    # By name, for the commands are made of functions that this module guards.
    if group == "plan":
        made = import_module("jaxlaw.cli._plans").make_plans(name)
    elif group == "design":
        made = import_module("jaxlaw.cli._experiments").design
    else:
        made = import_module("jaxlaw.cli").make_app(name)
    for known in made.registered_commands:
        if known.name == name:
            return _flags(inspect.signature(known.callback, eval_str=True))
    raise KeyError(command)


#: A function that a note names, or a method of a fit, with what it is to be given.
_FUNCTION = re.compile(
    r"\b(?:(?:jl|fit|boot)\.)(?:(?P<package>planning|design)\.)?(?P<name>[a-z_]+)\b"
    r"(?:\((?P<given>(?:[^()]|\([^()]*\))*)\))?"
)
# Commands that are not called as their function is.
_COMMANDS = {"cross_validate": "study", "evaluation_steps": "design steps",
             "next_runs": "design next"}  # fmt: skip
# Functions of the top level, and methods of a fit, that are commands by their own name.
_OWN = ("fit", "bootstrap", "covariance", "profile", "influence", "identifiability", "backtest",
        "forecast", "predict", "report", "plot")  # fmt: skip


def _command_of(package: str | None, name: str) -> str | None:
    """The command of a function of Python; None where there is none."""
    if package == "planning":
        return f"plan {name.replace('_', '-')}"
    return _COMMANDS.get(name, name if name in _OWN else None)
