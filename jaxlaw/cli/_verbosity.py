"""What ``jaxlaw --verbose`` says on stderr: rows, stages with their times, compiling."""

from __future__ import annotations

import logging
import sys
import time
from functools import cache
from typing import Any

_COMPILED = "/jax/core/compile/backend_compile_duration"
_PREPARED = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
)


class Teller(logging.Handler):
    """Prints what the package logs, each line with the seconds since the start.

    Compiling since the line before stands at its end, and is summed up by :meth:`end`. Threads
    compile at once, so it may take more seconds than passed.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._began = time.perf_counter()
        self._compiling = self._told = 0.0
        self._programs = 0

    def hear(self, event: str, seconds: float) -> None:
        """Take note of one of JAX's own measurements."""
        if event == _COMPILED or event in _PREPARED:
            self._compiling += seconds
            self._programs += event == _COMPILED

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        new, self._told = self._compiling - self._told, self._compiling
        compiling = f" (compiling {new:.2f} s)" if new >= 0.005 else ""
        seconds = time.perf_counter() - self._began
        print(f"jaxlaw: {seconds:6.2f} s  {record.getMessage()}{compiling}", file=sys.stderr)

    def end(self) -> None:
        """The last line."""
        self._told = self._compiling
        message = f"done; {self._programs} programs compiled in {self._compiling:.2f} s of threads"
        self.emit(logging.makeLogRecord({"msg": message}))


def begin() -> Teller:
    """Print from here on what is done."""
    teller = Teller()
    log = logging.getLogger("jaxlaw")
    log.addHandler(teller)
    log.setLevel(logging.INFO)
    _listen()
    _LISTENERS[:] = [teller]  # JAX has no way to take a listener back
    return teller


def finish(teller: Teller) -> None:
    """Say how long it took, and be quiet again."""
    teller.end()
    log = logging.getLogger("jaxlaw")
    log.removeHandler(teller)
    log.setLevel(logging.NOTSET)
    _LISTENERS.clear()


_LISTENERS: list[Teller] = []


@cache
def _listen() -> None:
    import jax

    def heard(event: str, seconds: float, **_: Any) -> None:
        for teller in _LISTENERS:
            teller.hear(event, seconds)

    jax.monitoring.register_event_duration_secs_listener(heard)
