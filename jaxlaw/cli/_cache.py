"""The command about the cache folder: how large it is, emptied, filled ahead; needs typer."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Annotated

import typer

import jaxlaw as jl
from jaxlaw import _cache, _progress
from jaxlaw.cli import _options as opt
from jaxlaw.cli._output import JSON, check_out, print_json, print_wrapped, write_json
from jaxlaw.errors import JaxlawError, UsageError, nearest

ACTIONS = ("size", "clear", "warm")
ROWS = (60, 250)  # of the tables whose programs are compiled ahead: a table of each size class


def cache_command(
    action: Annotated[
        str,
        typer.Argument(
            help="size, clear, or warm, which compiles what fits of the laws named run.",
            autocompletion=opt.completed(ACTIONS),
        ),
    ] = "size",
    laws: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LAW]...", help="Laws to compile.", autocompletion=opt.completed(opt.law_names)
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it (JSON).")] = None,
    as_json: opt.Json = False,
) -> None:
    """Show, empty or fill the folder of compiled programs.

    A fit compiles once on a machine; warm does so ahead, for an image of a container.

    Example: jaxlaw cache size
    """
    check_out(out, JSON)
    if action not in ACTIONS:
        raise UsageError(
            f"there is no '{action}' of the cache; there are {', '.join(ACTIONS)}."
            f"{nearest(action, ACTIONS)}"
        )
    if bool(laws) != (action == "warm"):
        raise UsageError(
            "name the laws to compile: jaxlaw cache warm chinchilla skaling"
            if action == "warm"
            else f"cache {action} takes no laws"
        )
    folder = _cache.folder()
    if action == "clear":
        _cache.clear()
    elif action == "warm":
        if folder is None:
            raise UsageError(f"the cache is off: {_cache.VARIABLE} in the environment says so")
        found = [jl.laws.get(name) for name in laws or ()]
        for law in _progress.parts(found, lambda one: one.name, "law"):
            _compile(law)
    versions = [
        {"version": version, "files": files, "bytes": size, "most_bytes": _cache.LARGEST}
        for version, (files, size) in _cache.contents().items()
    ]
    record = {"folder": None if folder is None else str(folder), "versions": versions}
    if out is not None:
        write_json(out, record)
    if as_json:
        print_json(record)
    elif folder is None:
        print_wrapped(f"no folder: {_cache.VARIABLE} in the environment turns the cache off")
    else:
        print(folder)  # a path is not broken into lines
        for row in versions:
            size, most = (row[key] / 2**20 for key in ("bytes", "most_bytes"))
            print(
                f"{row['version']}: {size:.1f} MB of at most {most:.0f} MB, files: {row['files']}"
            )
        if not versions:
            print("no files")


def _compile(law: jl.Law) -> None:
    """Run what users run, on runs of the law's own simulated experiment."""
    table = jl.simulate.experiment(law.name).table
    for rows in ROWS:
        few = table.sample(rows, replace=rows > len(table), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # What such runs do not determine is of no interest: programs depend on shapes alone.
            for work in (
                lambda few: jl.fit(law, few),
                lambda few: jl.cross_validate([law], few, "k-fold:3"),
            ):
                with contextlib.suppress(JaxlawError):
                    work(few)
