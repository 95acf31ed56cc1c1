"""Fits, studies and bootstraps that commands are given: a file is read once, by what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import jaxlaw as jl
from jaxlaw._json import kind_of, place_of, read_record
from jaxlaw.errors import DataError, UsageError, nearest, nearest_file
from jaxlaw.fitting._saved_fits import from_dict
from jaxlaw.laws._files import names_a_file
from jaxlaw.planning import Draws

PUBLISHED = "published:"  # before the name of printed coefficients, in place of a file
_MADE_OF = {"fit": from_dict, "study": jl.Study.from_dict, "bootstrap": Draws.from_dict}


def loaded(file: str | Path, *kinds: str) -> Any:
    """What a file, standard input (``-``) or ``published:NAME`` holds.

    Args:
        file: where it is.
        *kinds: what it may be: ``fit``, ``study``, ``bootstrap``.
    """
    text = str(file)
    if not text.startswith(PUBLISHED):
        record = read_record(file, *kinds)
        return _MADE_OF[kind_of(record)](record, place_of(file))
    name, known = text.removeprefix(PUBLISHED), jl.published()
    if name not in known:
        raise UsageError(f"nothing is published as {name}.{nearest(name, known)}")
    return known[name]


def loaded_fit(file: str | Path) -> jl.Fit:
    """The fit of a file, of standard input (``-``), or printed (``published:NAME``)."""
    return loaded(file, "fit")


def law_named(text: str) -> str | jl.Law:
    """The name of a law, or the law that a Python file defines (``mylaw.py:law``), which is run."""
    return jl.laws.from_file(text) if names_a_file(text) else text


def law_or_fit(text: str) -> str | jl.Law | jl.Fit:
    """A law as :func:`law_named` has it, or the fit a file holds."""
    return loaded_fit(text) if text == "-" or text.endswith(".json") else law_named(text)


def loaded_fits(files: Sequence[str | Path], draws: list[Path] | None) -> list[Any]:
    """Fits, ``published:NAME`` or whole bootstraps, with draws where there are any."""
    fits = [loaded(file, "fit", "bootstrap") for file in files]
    if not draws:
        return fits
    if len(draws) != len(fits):
        raise UsageError(f"--bootstrap is given {len(draws)} times for {len(fits)} fits: one each")
    return [with_draws(*each) for each in zip(files, fits, draws, strict=True)]


def with_draws(of: str | Path, fit: jl.Fit | Draws, file: Path) -> Draws:
    """The fit of a file with the table of its draws in another (CSV), a column a parameter."""
    if isinstance(fit, Draws):
        raise UsageError(f"{of} has its own draws; leave --bootstrap out")
    try:
        table = pd.read_csv(file)
    except (OSError, ValueError) as error:
        hint = nearest_file(file) if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"cannot read {file}: {error}.{hint}") from None
    missing = [name for name in fit.law.parameter_names if name not in table]
    if missing or not len(table):
        raise DataError(
            f"{file} has no draws of law {fit.law.name}: it needs a column for every parameter "
            f"({', '.join(fit.law.parameter_names)}) and a row for every resample"
        )
    params = {name: table[name].to_numpy(float) for name in fit.law.parameter_names}
    kind, groups = (_one_of(table, name) for name in ("kind", "groups"))
    return Draws(fit, params, (), kind, tuple(groups.split(",")) if groups else None)


def _one_of(table: pd.DataFrame, column: str) -> str:
    """What every row of a table says; nothing in files of version 0.1, which lack the column."""
    value = table[column].iloc[0] if column in table else None
    return value if isinstance(value, str) else ""
