"""Lazy imports: the names that a package lists, each imported when first used (PEP 562).

Importing JAX, pandas and all of jaxlaw takes two seconds, which neither ``jaxlaw --help`` nor a
command that needs a third of the modules should wait for.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def face(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The names are those that its ``__init__.py`` imports under ``if TYPE_CHECKING:``, so that type
    checkers and Python read one list.

    Args:
        package: name of the package, ``__name__`` in its own file.

    Example:
        >>> from jaxlaw._faces import face
        >>> find, _, names = face("jaxlaw.design")
        >>> "next_runs" in names, find("next_runs").__module__
        (True, 'jaxlaw.design._next_runs')
    """
    homes, module = listed(package), sys.modules[package]

    def find(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, own = homes[name]
        # A module of the package itself: to ask the package for it would lead here again.
        value = None if home == package else getattr(importlib.import_module(home), own, None)
        value = importlib.import_module(f"{home}.{own}") if value is None else value
        setattr(module, name, value)
        return value

    return find, lambda: sorted(homes), sorted(homes)


@cache
def listed(package: str) -> dict[str, tuple[str, str]]:
    """Name → (module, name there) of what a package's ``if TYPE_CHECKING:`` imports."""
    spec = sys.modules[package].__spec__
    assert spec is not None and spec.loader is not None
    tree = ast.parse(spec.loader.get_source(package))  # type: ignore[attr-defined]
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for block in blocks
        for node in block.body
        if ast.unparse(block.test) == "TYPE_CHECKING" and isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
