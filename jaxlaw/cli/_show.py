"""How every command runs and ends: its result printed, as text or JSON, and written or drawn."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from json import dumps
from pathlib import Path
from typing import Any

import jaxlaw as jl
from jaxlaw._answer import Answer
from jaxlaw._json import plain, write_atomic
from jaxlaw._progress import PATIENCE, Display
from jaxlaw.cli._values import saved
from jaxlaw.errors import UsageError
from jaxlaw.laws import run_file
from jaxlaw.notes import COLUMNS_TAKEN, LOOSE_FIT, REMEDIES

PICTURES = (".png", ".pdf", ".svg")
_WRITTEN = (".json", ".csv", *PICTURES, ".html", "")
_RANKS = ("JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")  # of a cluster job's processes


def run(
    call: Callable[[], Any], given: Mapping[str, Any], writes: bool, *, out: Path | None,
    json: bool, quiet: bool, verbose: bool, law_file: Path | None,
) -> int:  # fmt: skip
    """Run a command, write or draw its result, and print it; its exit code.

    The code is 1 where a note says that the result is not to be used.

    Args:
        call: the work.
        given: texts of the command line by argument: what may be files that it reads.
        writes: whether the work writes ``out`` itself: a page, or a picture.
        out, json, quiet, verbose, law_file: what every command takes.
    """
    # Refused before the work: a file that cannot be written, or that the command reads.
    if out is not None:
        special = out.exists() and not out.is_file()  # /dev/stdout, a pipe
        if out.is_dir() or not (special or os.access(out.resolve().parent, os.W_OK)):
            raise UsageError(f"cannot write {out}: give a file in a folder that you can write to")
        if out.suffix.lower() not in _WRITTEN:
            raise UsageError(
                f"out: no {out.suffix} is written; give .json, .csv, .png, .pdf, .svg or .html"
            )
        for name, text in {**given, "law_file": law_file, "out": None}.items():
            for file in map(str, text if isinstance(text, list) else [text]):
                # FILE, NAME=FILE, FILE.py:LAW
                for part in (file, file.rpartition("=")[2], file.rpartition(":")[0]):
                    with contextlib.suppress(OSError):
                        if os.path.samefile(part, out):
                            raise UsageError(f"out: {out} is read by this command ({name})")
    if law_file is not None:
        run_file(law_file)
    with _told(verbose), _progress(quiet):
        result = call()
    if not hasattr(result, "summary"):  # a table
        result = Answer(kind="table", tables={"table": result})
    written = None if writes else out
    if written is not None:
        suffix = written.suffix.lower()
        if suffix in PICTURES:
            figure = result.plot().figure
            write_atomic(written, lambda path: figure.savefig(path, dpi=150, bbox_inches="tight"))
        else:
            jl.report(result, written) if suffix == ".html" else result.save(written)
    if json:
        print(dumps(plain(result.to_dict()), indent=2, allow_nan=False))
    else:
        width = shutil.get_terminal_size((80, 24)).columns
        step = _in_shell(result.next_step, given)
        for line in result.summary(verbose=verbose, next_step=step, width=width).splitlines():
            long = len(line) > width and not line.startswith("Next: ")  # which is to be pasted
            print(textwrap.fill(line, width, subsequent_indent="  ") if long else line)
        if written is not None:
            print(f"written: {written}")
    return int(any(note.severity == "error" for note in result.notes))


def _in_shell(step: str, given: Mapping) -> str:
    """What to do next as the shell has it: with ``jaxlaw forecast`` in place of ``jl.forecast``.

    Its runs are read as those of the command, else as those of its fit. Empty where no command
    does it.
    """
    call = re.match(r"jl\.forecast\(runs, at=\{(.*)\}\)", step)
    if call is None:
        return "" if step.startswith("jl.") else step
    runs = given.get("runs")
    file = given.get("fit")
    fit = next((given[n] for n in ("fit", "domain", "general") if given.get(n)), None)
    if not isinstance(runs, str) and isinstance(fit, str) and fit != "-":
        fit = saved(fit)
        fit = getattr(fit, "fit", fit)
        if (reading := getattr(fit, "reading", None)) and Path(fit.source).is_file():
            runs = fit.source
            taken = " ".join(one.message for one in fit.notes if one.code == COLUMNS_TAKEN)
            pairs = reading.columns.items()
            named = [f"{n}={c}" for n, c in pairs if n != c and f"{n} from {c}" not in taken]
            units = [f"{n}={unit}" for n, unit in (reading.units or {}).items() if unit != 1]
            given = {"columns": named, "units": units, "where": reading.where}
            given["corpus"] = reading.corpus
    words = ["jaxlaw", "forecast", runs if isinstance(runs, str) else "runs.csv"]
    for name in ("columns", "units", "where", "corpus"):
        if one := given.get(name):
            words += [f"--{name}", one if isinstance(one, str) else ",".join(one)]
    at = re.sub(r"'(\w+)': '?([^,']+)'?(?:, )?", r"\1=\2,", call[1]).strip(",")
    line, why = f"{shlex.join(words)} --at {at} --out forecast.json", step[call.end() :]
    if why.endswith(REMEDIES[LOOSE_FIT]) and file in sys.argv:
        # The same plan, of the forecast.
        again = ["forecast.json" if word == file else word for word in sys.argv[1:]]
        for option in {"--out", "-o"} & {*again}:
            del again[again.index(option) : again.index(option) + 2]
        line += f" && jaxlaw {shlex.join(again)}"
    return line + why


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[None]:
    """Progress is shown on stderr where work takes seconds, unless it is to be quiet."""
    before = os.environ.get("JAXLAW_QUIET")
    if quiet or before or any(int(os.environ.get(name, 0)) for name in _RANKS):
        os.environ["JAXLAW_QUIET"] = "1"  # what is computed is quiet, too
        try:
            yield
        finally:
            os.environ.pop("JAXLAW_QUIET") if before is None else None
        return
    with contextlib.closing(Display(PATIENCE)):
        yield


@contextlib.contextmanager
def _told(verbose: bool) -> Iterator[None]:
    """What is done is said on stderr: rows, stages and how long they took."""
    if not verbose:
        yield
        return
    log, handler = logging.getLogger("jaxlaw"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("jaxlaw: %(relativeCreated)6.0f ms  %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
