"""Ctrl-C while the command is still importing: one line and exit code 130, as at any other time.

The imports take a second or two, before the command's own ``main`` can catch anything.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

INTERRUPTED = 130  # what a shell says of a command that Ctrl-C ended
MESSAGE = "jaxlaw: interrupted; --work-dir keeps what is finished"


def install_interrupt_handler() -> None:
    """Have Ctrl-C end in one line, if this process is the ``jaxlaw`` command and nothing else."""
    name, arguments = sys.argv[0], list(getattr(sys, "orig_argv", ()))
    as_module = name == "-m" and arguments[arguments.index("-m") + 1 :][:1] == ["jaxlaw"]
    if as_module or Path(name).stem == "jaxlaw":
        sys.excepthook = _end


def _end(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:  # what sys.excepthook is called with
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print(MESSAGE, file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)  # an exit from a hook would be reported as an error of the hook
