"""Signatures and docstrings of public functions, read from their source.

A command takes its options from the function that it calls. To import that function would import
JAX, which takes two seconds, and neither ``--help`` nor the completion of a word can wait for
them: so the source is parsed instead. A test compares what is read here with
:func:`inspect.signature`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parent.parent
REQUIRED: Any = ...  # in place of a default
_HEADING = "Shell:\n"  # of the section of a docstring
_DEF_OR_SHELL = re.compile(rf"^def (\w+)|^    {_HEADING} +jaxlaw plan (\S+)", re.M)


@dataclass(frozen=True)
class Argument:
    """An argument of a function.

    Attributes:
        name: its name.
        hint: its annotation, as text, without ``| None``.
        default: its default; REQUIRED where it has none.
        help: its text in the docstring.
    """

    name: str
    hint: str
    default: Any
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that ``Literal[…]`` lists."""
        if not self.hint.startswith("Literal["):
            return ()
        return ast.literal_eval(f"({self.hint[8:-1]},)")


@dataclass(frozen=True)
class Signature:
    """What the source of a function says of it.

    Attributes:
        summary: first line of its docstring.
        arguments: its arguments, by name.
        shell: command line of the section ``Shell:`` of its docstring; empty without one.
    """

    summary: str
    arguments: dict[str, Argument]
    shell: str = ""


def home(function: str) -> tuple[str, str]:
    """The package of a function that a command calls, and its name there.

    Args:
        function: name of a function of :mod:`jaxlaw.planning`, or ``papers.`` and its name.
    """
    package, _, name = function.rpartition(".")
    return package or "planning", name


@cache
def signature(package: str, function: str) -> Signature:
    """The signature of a function that a subpackage exports, such as ``planning``."""
    node, module = _definition(f"jaxlaw.{package}", function)
    if not isinstance(node, ast.FunctionDef):
        raise LookupError(f"jaxlaw.{package} has no function {function}")
    text = ast.get_docstring(node) or ""
    described = _described(text)
    declared = node.args
    positional = [*declared.posonlyargs, *declared.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(declared.defaults))
    pairs = zip(
        [*positional, *declared.kwonlyargs],
        [*defaults, *declared.defaults, *declared.kw_defaults],
        strict=True,
    )
    arguments = {
        node.arg: Argument(
            node.arg,
            _hint(node.annotation, module),
            REQUIRED if default is None else _value(default, module),
            described.get(node.arg) or _documented_beside(module).get(node.arg, ""),
        )
        for node, default in pairs
    }
    return Signature(text.partition("\n")[0], arguments, _shell(text))


def with_command() -> dict[str, str]:
    """Command → function, as :func:`home` takes it, of functions that are commands by themselves.

    These are the functions of planning and papers whose docstrings have a section ``Shell:`` with
    an example, whose command it is.
    """
    found = {}
    for package in ("planning", "papers"):
        before = "" if package == "planning" else f"{package}."
        for name, module in _face(f"jaxlaw.{package}").items():
            if name in (commands := _commands_in(module)):
                found[commands[name]] = before + name
    return found


@cache
def _commands_in(module: str) -> dict[str, str]:
    """Function → command of those of a module that are commands; by its text, which is quick."""
    found, function = {}, ""
    for name, command in _DEF_OR_SHELL.findall(_text(module)):
        function = name or function
        if command:
            found[function] = command
    return found


def _face(package: str) -> dict[str, str]:
    """Name → module of what a package lists."""
    imports = (node for node in _statements(package) if isinstance(node, ast.ImportFrom))
    return {
        alias.asname or alias.name: node.module or ""
        for node in imports
        for alias in node.names
        if (node.module or "").startswith(f"{package}.")
    }


@cache
def _documented_beside(module: str) -> dict[str, str]:
    """What the docstrings of a module say of arguments, which others leave to them."""
    functions = [node for node in _tree(module).body if isinstance(node, ast.FunctionDef)]
    described: dict[str, str] = {}
    for function in functions:
        described = {**_described(ast.get_docstring(function) or ""), **described}
    return described


@cache
def _text(module: str) -> str:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text("utf-8")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_text(module))


def _statements(module: str) -> list[ast.stmt]:
    """The statements of a module, those for type checkers among them: a package's face is there."""
    body = _tree(module).body
    return [inner for node in body for inner in (node.body if isinstance(node, ast.If) else [node])]


def _definition(module: str, name: str) -> tuple[ast.AST | None, str]:
    """Where a name is defined, imports within the package followed, and in which module."""
    for node in _statements(module):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node, module
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value, module
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxlaw"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(node.module or "", alias.name)
    return None, module


def _hint(annotation: ast.expr | None, module: str) -> str:
    """An annotation with other names for types resolved, and without ranges."""

    def meaning(match: re.Match[str]) -> str:
        meant, home = _definition(module, match[0])
        if not isinstance(meant, ast.Subscript):  # a class
            return match[0]
        return _hint(meant, home)

    text = ast.unparse(annotation) if annotation else "Any"
    text = re.sub(r"\b[A-Z]\w+\b(?!\[)", meaning, text)
    text = re.sub(r"Annotated\[(\w+), Between\([^)]*\)\]", r"\1", text)
    return text.removesuffix(" | None")


def _value(default: ast.expr, module: str) -> Any:
    if isinstance(default, ast.Name):
        meant, module = _definition(module, default.id)
        assert isinstance(meant, ast.expr), default.id
        return _value(meant, module)
    try:
        return ast.literal_eval(default)
    except ValueError:
        return None  # made by a call: the function knows its default itself


def _shell(docstring: str) -> str:
    """The command line below the heading ``Shell:``, which may go over several lines."""
    _, _, lines = docstring.partition(_HEADING.strip("\n") + "\n")
    own = []
    for line in lines.splitlines():
        if not line.startswith("    "):
            break
        own.append(line.strip().removesuffix("\\").strip())
    return " ".join(own)


def _described(docstring: str) -> dict[str, str]:
    """What ``Args:`` of a docstring says of each argument."""
    _, _, lines = docstring.partition("\nArgs:\n")
    described: dict[str, str] = {}
    name = ""
    for line in lines.splitlines():
        if not line.strip() or not line.startswith("    "):
            break
        if line.startswith("        "):
            described[name] += f" {line.strip()}"
        else:
            name, _, text = line.strip().partition(": ")
            described[name] = text.strip()
    return {
        name.strip(" *"): re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "")
        for names, text in described.items()
        for name in names.split(",")
    }
