"""Laws of a user's own Python file, named as ``mylaw.py:law``: the file is run, on request."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from pathlib import Path

from jaxlaw.errors import UsageError, nearest, nearest_file
from jaxlaw.laws._base import Law

_NAMED = re.compile(r"(?P<path>.*\.py)(?::(?P<name>[^:/\\]+))?", re.DOTALL)


def names_a_file(text: str) -> bool:
    """Whether a text names a Python file, or a law within one, rather than a law by its name."""
    return _NAMED.fullmatch(text) is not None


def from_file(text: str | Path) -> Law:
    """A law that a Python file defines.

    The file is run, as ``python FILE`` would run it, with all that it does: name only files that
    you trust. It is run once, and again when its content has changed. The laws that it defines
    are registered under their names, so that :func:`jaxlaw.load` finds them.

    Args:
        text: ``mylaw.py:law``, the file and the law, by the variable that holds it or by its own
            name; ``mylaw.py`` alone where the file defines one law.

    Returns:
        The :class:`jaxlaw.Law`.

    Raises:
        UsageError: there is no such file, it cannot be run (names the line), or it has no such law.

    Example:
        >>> from pathlib import Path
        >>> lines = [
        ...     "import jaxlaw as jl",
        ...     "@jl.law",
        ...     "def inverse(N, *, E=jl.laws.positive(), A=jl.laws.positive()):",
        ...     "    return E + A / N",
        ... ]
        >>> written = Path("mylaw.py").write_text(chr(10).join(lines))
        >>> jl.laws.from_file("mylaw.py:inverse").linear_parameters
        ('E', 'A')
    """
    match = _NAMED.fullmatch(str(text))
    if match is None:
        raise UsageError(f"'{text}' names no law in a Python file; write FILE.py:LAW")
    path, name = match["path"], match["name"]
    made = run_file(path)
    if name is None:
        if len(distinct := {id(law): law for law in made.values()}) == 1:
            return next(iter(distinct.values()))
        names = ", ".join(f"{path}:{name}" for name in made)
        raise UsageError(f"{path} defines {len(distinct)} laws; name one: {names}")
    by_name = {law.name: law for law in made.values()} | made
    if name in by_name:
        return by_name[name]
    raise UsageError(
        f"{path} defines no law '{name}'; it defines {', '.join(made)}.{nearest(name, by_name)} A "
        "law is a function under @jl.law"
    )


def run_file(path: str | Path) -> dict[str, Law]:
    """Run a Python file; the laws it holds by the variables that hold them, at least one.

    Raises:
        UsageError: as :func:`from_file`.
    """
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        hint = nearest_file(path) if isinstance(error, FileNotFoundError) else ""
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {path}: {reason}.{hint}") from None
    if Path(path).suffix != ".py":
        raise UsageError(f"{path} is not run: laws of your own stand in a Python file, named *.py")
    resolved, digest = str(Path(path).resolve()), hashlib.sha256(content).hexdigest()
    # A name of its own: a file called like a module that is imported already hides nothing.
    mark = hashlib.sha256(resolved.encode()).hexdigest()[:12]
    name = f"jaxlaw_file_{mark}_{Path(resolved).stem}"
    module = sys.modules.get(name)
    if getattr(module, "__digest__", "") != digest:
        spec = importlib.util.spec_from_file_location(name, resolved)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        module.__digest__ = digest
        before = list(sys.path)
        sys.path.insert(0, str(Path(resolved).parent))  # it may import its neighbours, as a script
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # whatever a user's file may raise
            del sys.modules[name]
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                     if frame.filename == resolved]  # fmt: skip
            if isinstance(error, SyntaxError) and error.filename == resolved:
                lines = [error.lineno]
            line = f", line {lines[-1]}" if lines else ""
            message = f"{path}{line}: cannot be run: {type(error).__name__}: {error}"
            raise UsageError(message) from error
        finally:
            sys.path[:] = before
    made = {name: value for name, value in vars(module).items() if isinstance(value, Law)}
    if not made:
        raise UsageError(f"{path} defines no law: write a function under @jl.law in it")
    return made
