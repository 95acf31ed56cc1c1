"""Progress of long work: what is done of it, and how it is shown on stderr, on request.

Work says which part it is in and what share of that is done. A :class:`Display` shows it: on a
terminal and in a notebook as a bar of rich, which the command brings, elsewhere as lines.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxlaw import _cache

EVERY = 10.0  # seconds between lines
PATIENCE = 5.0  # seconds for which nothing is shown that nobody asked for
_parts: list[Part] = []  # of the work, from the outside to the inside
_displays: list[Display] = []
_compiling = [0, 0]  # laws whose programs are compiled ahead of their use, and those to be


class Part:
    """The k-th of n equal parts, from 0, of some work: what it is, and what of it is done."""

    def __init__(self, text: str, k: int, n: int) -> None:
        self.text, self.k, self.n, self.share, self.detail = text, k, n, 0.0, ""

    def now(self, share: float, detail: str = "") -> None:
        """Say what share of it is done, and in words."""
        self.share, self.detail = share, detail
        for display in _displays:
            display.show()


@contextlib.contextmanager
def part(text: str = "", k: int = 0, n: int = 1) -> Iterator[Part]:
    """The body is the k-th of n equal parts of what is done."""
    _parts.append(one := Part(text, k, n))
    try:
        yield one
    finally:
        _parts.remove(one)
        if _parts:  # what comes next goes on from here
            _parts[-1].share = (k + 1) / n


def parts(items: Sequence, name: Callable[[Any], str], kind: str) -> Iterator:
    """The items, each of which is a part of the work: ``law 2 of 5 (skaling)``."""
    for k, item in enumerate(items):
        of = f"{k + 1} of {len(items)} ({name(item)})" if len(items) > 1 else name(item)
        with part(f"{kind} {of}", k, len(items)):
            yield item


def state() -> tuple[float, str]:
    """The share of the work that is done, and in words; no words where nothing is known of it."""
    share, size = 0.0, 1.0
    for one in _parts:
        share, size = share + size * one.k / one.n, size / one.n
    words = [one.text for one in _parts] + [one.detail for one in _parts]
    done, of = _compiling
    words += [f"compiling law {done + 1} of {of}"] * (done < of)
    return share + size * (_parts[-1].share if _parts else 0.0), ", ".join(filter(None, words))


@contextlib.contextmanager
def compiling(laws: int) -> Iterator[Callable[[Any], None]]:
    """Programs of so many laws are compiled while the body runs; what it gives counts one."""
    _compiling[1] += laws

    def count(_):
        _compiling[0] += 1

    try:
        yield count
    finally:
        _compiling[:] = [0, 0]


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a stream is closed: no reason to fail
        print(f"jaxlaw: {text}", file=sys.stderr, flush=True)


def _people_see() -> bool:
    """Whether stderr is a terminal or a notebook's, and JAXLAW_QUIET is not set."""
    seen = sys.stderr and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    return bool(seen) and not os.environ.get("JAXLAW_QUIET")


def say_compiling(platform: str) -> bool:
    """Say why what takes seconds later takes longer at first; whether anybody is there to see."""
    seen = _displays or _people_see()
    if seen:
        for_it = "" if platform == "cpu" else f" for the {platform.upper()}"
        if _cache.is_writable():
            _print(f"compiling{for_it}, once on this machine")
        else:
            _print(f"compiling{for_it}, in every process (to keep it, set {_cache.VARIABLE})")
    return bool(seen)


class Display:
    """Shows progress from ``delay`` seconds on until it is closed."""

    def __init__(self, delay: float = 0.0) -> None:
        self._due, self._named = 0.0, ""
        self._start = time.monotonic() + delay
        self._first = (0.0, 1.0)  # time and share of the first report: before it, all compiles
        self._bar = None  # False where there is none
        _displays.append(self)

    def show(self) -> None:
        """Show what is done; as a line, where the work has another name or the last is old."""
        (share, text), named, now = state(), _parts[0].text if _parts else "", time.monotonic()
        if 0 < share < self._first[1]:
            self._first = now, share
        if now < self._start:
            return
        if self._bar is None:
            self._bar = _bar()
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=share, description=text)
        elif text and (now >= self._due or named != self._named):
            self._due, self._named = now + EVERY, named
            began, from_share = self._first
            left = (now - began) / (share - from_share) * (1 - share) if share > from_share else 0.0
            _print(f"{text}, {share:.0%}" + f", about {left:.0f} s left" * (left >= 1))

    def close(self) -> None:
        """Show nothing more, and leave no bar behind."""
        _displays.remove(self)
        if self._bar:
            self._bar.stop()


def _bar():
    """A bar on a terminal or in a notebook."""
    try:
        from rich.console import Console  # comes with the command, an extra
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        return False
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return False
    columns = BarColumn(20), TextColumn("{task.description}"), TimeRemainingColumn()
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task("", total=1.0)
    bar.start()
    return bar


def shown_to_people() -> contextlib.AbstractContextManager[Any]:
    """Progress of the body is shown after five seconds, if anybody sees it."""
    wanted = not _displays and _people_see()
    return contextlib.closing(Display(PATIENCE)) if wanted else contextlib.nullcontext()


def shown(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """Progress of the body is shown at once where it is wanted, and not shown already."""
    return contextlib.closing(Display()) if wanted and not _displays else contextlib.nullcontext()
