"""What the texts of a command line stand for: numbers, lists, ranges, inputs, saved files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np

import jaxlaw as jl
from jaxlaw._spec_strings import parse_spec
from jaxlaw._tables import read_table
from jaxlaw.errors import UsageError, nearest

PUBLISHED = "published:"  # before the name of printed coefficients, in place of a file


def value(text: str) -> Any:
    """``1e9`` → a number, ``a,b`` → a list, ``0.1:1`` → a pair, ``runA:1e9,runB:7e9`` → a dict.

    A text that is none of these, such as ``70B`` or ``run``, stays as it is.
    """
    items = [part for part in text.split(",") if part]
    # A text that is ``run:number``; a range begins with a digit or nothing.
    if any(re.fullmatch(r"[^\d.:+-].*:[\d.+-][^:]*", item) for item in items):
        pairs = [item.rpartition(":") for item in items]
        return {run: value(number) for run, _, number in pairs}
    if "," in text:
        return [value(item) for item in items]
    if ":" in text:
        return tuple(value(side) if side else None for side in text.split(":", 1))
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return text


def by_name(
    texts: Iterable[str], option: str, read: Callable[[str], Any] = value, bare: bool = False
) -> dict[str, Any]:
    """``["N=1e9,7e9,D=1e12"]`` → ``{"N": [1e9, 7e9], "D": 1e12}``.

    Args:
        texts: what was given, once or several times.
        option: argument that it is for, for messages.
        read: what reads a value.
        bare: whether names may stand alone, which have the value None.

    Raises:
        UsageError: no ``NAME=VALUE``, or a name that is given twice.
    """
    found = {}
    alone = r"|[A-Za-z_]\w*(?:,|$)" if bare else ""
    for text in texts:
        if text == "{}":  # as in Python: none, where None would stand for a default
            continue
        for item in re.split(rf",(?=[^,=<>!]*={alone})", text):
            name, sign, given = item.partition("=")
            if not name or sign and not given or not sign and not bare:
                raise UsageError(f"{option} takes NAME=VALUE, not '{item}'")
            if name in found:
                raise UsageError(f"{option} names {name} twice")
            found[name] = read(given) if sign else None
    return found


def points(texts: list[str]) -> Any:
    """Points as ``predict`` and ``forecast`` take them: ``N=1e9,7e9,D=1e12``, or a file of them.

    Values of one text are combined; a name that comes again in another text begins a new point.
    """
    if len(texts) == 1 and "=" not in texts[0]:
        if "," in texts[0]:
            raise UsageError(f"at takes NAME=VALUE, such as N=7e9,D=1e12, not '{texts[0]}'")
        frame = read_table(texts[0]).frame
        return {str(name): frame[name].to_numpy() for name in frame}
    runs = [{}]
    for text in texts:
        given = by_name([text], "at")
        if set(given) & set(runs[-1]):
            runs.append({})
        runs[-1] |= given
    if any(set(run) != set(runs[0]) for run in runs):
        raise UsageError(f"at: every point needs {', '.join(runs[0])}")
    rows = []
    for run in runs:
        lists = (one if isinstance(one, list | tuple) else [one] for one in run.values())
        rows += [dict(zip(run, row, strict=True)) for row in product(*lists)]
    return {name: np.array([row[name] for row in rows], object) for name in runs[0]}


def saved(text: str) -> Any:
    """The result of a file, of standard input (``-``), or of ``published:NAME``."""
    if not text.startswith(PUBLISHED):
        return jl.load(text)
    name, known = text.removeprefix(PUBLISHED), jl.published()
    if name not in known:
        raise UsageError(f"nothing is published as {name}.{nearest(name, known)}")
    return known[name]


def is_saved(text: str) -> bool:
    """Whether a text names a saved result, and not a table or a law."""
    return text == "-" or text.startswith(PUBLISHED) or text.endswith(".json")


def law_or_fit(text: str) -> Any:
    """The name of a law, the law of a Python file (``mylaw.py:law``), or a saved fit."""
    if is_saved(text):
        return saved(text)
    return jl.laws.from_file(text) if jl.laws.names_a_file(text) else text


def constraint(text: str) -> Any:
    """``budget:1e21,served_tokens=1e12``, ``corpus:…`` or ``at_most:…`` as the object of it."""
    plan = jl.planning
    kinds = {"budget": plan.Budget, "corpus": plan.Corpus, "at_most": plan.AtMost}
    name, values, named = parse_spec(text)
    if name not in kinds:
        raise UsageError(
            f"subject_to takes {', '.join(kinds)}, not '{name}'.{nearest(name, kinds)}"
        )
    first = dataclasses.fields(kinds[name])[0].name
    given = ({first: ":".join(values)} if values else {}) | named
    read = {"fit": saved, "rest": lambda text: tuple(text.split("+"))}
    try:
        return kinds[name](**{key: read.get(key, value)(text) for key, text in given.items()})
    except TypeError as error:
        raise UsageError(f"subject_to: {text}: {error}") from None


def continual_run(text: str) -> Any:
    """``wsd:peak=2e-4,steps=40000+cosine:peak=1e-4,steps=10000,replay=0.2`` as such a run.

    The base comes first; without one it is unknown.
    """
    *base, own = [parse_spec(part) for part in text.split("+")]

    def made(kind, spec, *before):
        try:
            return kind(*before, shape=spec.name, **{k: value(v) for k, v in spec.named.items()})
        except TypeError as error:
            raise UsageError(f"run: {spec.name}: {error}") from None

    before = made(jl.planning.Pretraining, base[0]) if base else None
    return made(jl.planning.ContinualPretraining, own, before)
