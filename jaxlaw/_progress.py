"""Progress of long work: what is done of it, and how it is shown on stderr, on request.

Work says which part it is in (:func:`parts`, :func:`part`) and what share of that is done. Nobody
need listen. A :class:`Display` shows it: as a bar on a terminal and in a notebook, elsewhere as a
line every ten seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from jaxlaw import _cache

T = TypeVar("T")

EVERY = 10.0  # seconds between lines
REFRESH = 0.5  # seconds between two states of a bar
_LOOK = 0.05  # seconds between looks for something to say
_BAR = 20  # characters
_LEAST, _SOON = 0.04, 5.0  # share and seconds of the work after which the rest is estimated


class Part:
    """The k-th of n equal parts of some work.

    Attributes:
        text: what it is, such as ``law 2 of 5 (skaling)``.
        k, n: which of how many it is, from 0.
        share: share of it that is done; parts inside it are counted by themselves.
        detail: how much of it is done, in words.
    """

    def __init__(self, text: str, k: int, n: int) -> None:
        self.text, self.k, self.n = text, k, n
        self.share, self.detail = 0.0, ""
        self.began = time.monotonic()


_parts: list[Part] = []  # from the outside to the inside
_displays: list[Display] = []


@contextlib.contextmanager
def part(text: str = "", k: int = 0, n: int = 1) -> Iterator[Part]:
    """The body is the k-th of n equal parts of what is done."""
    one = Part(text, k, n)
    _parts.append(one)
    try:
        yield one
    finally:
        _parts.remove(one)
        if _parts:  # what comes next goes on from here
            _parts[-1].share = (one.k + 1) / one.n
        else:
            for display in _displays:
                display.clear()


def parts(items: Sequence[T], name: Callable[[T], str], kind: str) -> Iterator[T]:
    """The items, each of which is a part of the work: ``law 2 of 5 (skaling)``."""
    for k, item in enumerate(items):
        of = f"{k + 1} of {len(items)} ({name(item)})" if len(items) > 1 else name(item)
        with part(f"{kind} {of}", k, len(items)):
            yield item


def say(text: str) -> None:
    """Show a line at once, where anything is shown."""
    for display in _displays:
        display.say(text)


def done() -> float:
    """The share of the work that is done."""
    share, size = 0.0, 1.0
    for one in list(_parts):
        share += size * one.k / one.n
        size /= one.n
    return share + size * (_parts[-1].share if _parts else 0.0)


def state() -> str:
    """What is done, in words; empty where nothing is known of it."""
    here = list(_parts)
    words = [one.text for one in here if one.text] + [one.detail for one in here if one.detail]
    # Its module imports JAX, and a command that has not yet done so compiles nothing.
    if getattr(sys.modules.get("jaxlaw._jit"), "compiling", None):
        once = "" if _cache.folder() is None else ", once on this machine"
        words.append(f"compiling{once}")
    if here and time.monotonic() - here[0].began > _SOON and done() > _LEAST:
        seconds, share = time.monotonic() - here[0].began, done()
        words.append(f"about {_duration(seconds * (1 - share) / share)} left")
    return ", ".join(words)


def say_compiling() -> None:
    """Say that programs are compiled, to a person who sits before a terminal or a notebook.

    In Python progress is shown on request. A first forecast on a machine takes ten seconds all the
    same, and would be taken for what forecasts take.
    """
    if not _displays and _overwrites(sys.stderr) and not os.environ.get("JAXLAW_QUIET"):
        once = "" if _cache.folder() is None else " once on this machine,"
        with contextlib.suppress(OSError, ValueError):
            print(f"jaxlaw: compiling,{once} before it computes", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Display:
    """Shows progress on stderr from a thread of its own, until it is closed.

    Args:
        idle: what it says where nothing is known of the work; empty to say nothing.
        began: when the work began, by ``time.monotonic()``; now if None.
    """

    def __init__(self, idle: str = "", began: float | None = None) -> None:
        self._idle = idle
        self._began = time.monotonic() if began is None else began
        self._stream: Any = sys.stderr
        self._bar = _overwrites(self._stream)
        self._width = 0  # of the bar that is on the screen
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        _displays.append(self)
        self._thread.start()

    def close(self) -> None:
        """Show nothing more, and leave no bar behind."""
        if self in _displays:
            _displays.remove(self)
        self._closed.set()
        self._thread.join(1.0)
        self.clear()

    def clear(self) -> None:
        """Take the bar off the screen."""
        with self._lock:
            if self._width:
                self._write(" " * self._width + "\r")
                self._width = 0

    def say(self, text: str) -> None:
        """Write a line."""
        self.clear()
        with self._lock:
            self._write(f"jaxlaw: {text}\n")

    def _run(self) -> None:
        wait, due, named = 0.0, 0.0, False  # when the next line is due; whether one named the work
        while not self._closed.wait(wait):
            known = bool(_parts)
            text, wait, now = state() or self._idle, _LOOK, time.monotonic()
            if text and self._bar:
                self._show_bar(text)
                wait = REFRESH
            # The first line that can name the work does not wait for its turn: a line that only
            # says that something is going on would else stand alone for ten seconds.
            elif text and (now >= due or (known and not named)):
                since = f", {now - self._began:.0f} s"
                self.say(text if text.endswith("left") else text + since)
                due, named = now + EVERY, named or known

    def _show_bar(self, text: str) -> None:
        """Write the bar and go back to the start of its line: what is printed next covers it."""
        columns = shutil.get_terminal_size().columns - 1
        full, bar = round(_BAR * done()), _parts and columns > 3 * _BAR
        line = f"[{'#' * full}{'-' * (_BAR - full)}] {text}" if bar else text
        line = line[:columns]
        with self._lock:
            if not self._closed.is_set():
                self._write(line.ljust(self._width) + "\r")
                self._width = len(line)

    def _write(self, text: str) -> None:
        # A stream may be closed, or full, and progress is no reason to fail.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._stream.write(text)
            self._stream.flush()


def _overwrites(stream: Any) -> bool:
    """Whether a carriage return goes back to the start of a line, as in notebooks."""
    try:
        return stream.isatty() or "ipykernel" in sys.modules
    except (AttributeError, ValueError):
        return False


@contextlib.contextmanager
def shown(wanted: bool) -> Iterator[None]:
    """Progress of the body is shown at once where it is wanted, and not shown already."""
    if not wanted or _displays:
        yield
        return
    display = Display()
    try:
        yield
    finally:
        display.close()
