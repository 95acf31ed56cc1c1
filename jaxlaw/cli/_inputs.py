"""What commands read: fits, studies and bootstraps, laws of one's own, tables of points.

JAX and pandas are imported where a file is read: help and completion must not wait for them.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jaxlaw as jl
from jaxlaw.errors import DataError, UsageError, nearest, nearest_file

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from jaxlaw.uncertainty import Draws


PUBLISHED = "published:"  # before the name of printed coefficients, in place of a file
#: What a command calls a kind of file → the kinds of record that are it.
_KINDS = {"fit": ("fit", "fitted law"), "bootstrap": ("bootstrap", "draws")}


def loaded(file: str | Path, *kinds: str) -> Any:
    """What a file, standard input (``-``) or ``published:NAME`` holds.

    Args:
        file: its path.
        *kinds: kinds that it may be: ``fit``, ``study``, ``bootstrap``, ``forecast``.
    """
    text = str(file)
    if not text.startswith(PUBLISHED):
        from jaxlaw._json import read_record, source_name
        from jaxlaw._result import Result

        records = [one for kind in kinds for one in _KINDS.get(kind, (kind,))]
        record = read_record(file, *records, called=" or ".join(kinds))
        return Result.from_dict(record, source_name(file))
    name, known = text.removeprefix(PUBLISHED), jl.published()
    if name not in known:
        raise UsageError(f"nothing is published as {name}.{nearest(name, known)}")
    return known[name]


def loaded_fit(file: str | Path) -> jl.Fit:
    """The fit of a file, of standard input (``-``), or printed (``published:NAME``)."""
    return loaded(file, "fit")


def one_fit(file: str | Path, command: str, evidence: bool = False) -> jl.FittedLaw:
    """The fit of a file, which may be a forecast: its law at the posterior's centre.

    Args:
        file: as for :func:`loaded_fit`.
        command: what it is for, as the user calls it.
        evidence: whether that needs the evidence of a fit, which a forecast does not have.

    Raises:
        UsageError: a forecast without the evidence; with what to call.
    """
    given = loaded(file, "fit", "forecast")
    if not isinstance(given, jl.Forecast):
        return given
    if evidence:
        raise UsageError(f"{file} is a forecast; `jaxlaw {command}` takes what `jaxlaw fit` wrote")
    print(f"{file}: its law without the interval, which `jaxlaw forecast` gives", file=sys.stderr)
    return given.posterior.fit


def law_named(text: str) -> str | jl.Law:
    """The name of a law, or the law that a Python file defines (``mylaw.py:law``), which is run."""
    from jaxlaw.laws import names_a_file

    return jl.laws.from_file(text) if names_a_file(text) else text


def law_or_fit(text: str) -> str | jl.Law | jl.Fit:
    """A law as :func:`law_named` has it, or the fit a file holds."""
    return loaded_fit(text) if text == "-" or text.endswith(".json") else law_named(text)


def laws_and_fits(
    words: Sequence[str], given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, dict[str, Any]], Any]:
    """Laws of words, where a fit's file stands for its law as it was fitted.

    Args:
        words: names of laws, files of them, files of fits.
        given: options of what is fitted that the user gives, which win.

    Returns:
        The laws; label → options of a law where its fit has some of its own; the first fit.
    """
    from jaxlaw.fitting import fitted_by
    from jaxlaw.validation import label_of

    laws, own, first = [], {}, None
    for word in words:
        law = law_or_fit(word)
        if not isinstance(law, str | jl.Law):
            first = first or law
            settings = {key: value for key, value in fitted_by(law).items() if key not in given}
            law = law.law
            if settings:
                own[label_of(law)] = settings
        laws.append(law)
    return laws, own, first


def runs_as_fitted(
    law: Any, data: Any, reading: dict[str, Any], laws: Sequence[str | jl.Law] = ()
) -> jl.Runs:
    """The runs of a command, read as those of a fit were, which a line on stderr says.

    Args:
        law: the fit, where there is one.
        data, reading: file, and options of reading it.
        laws: the laws that are to be fitted, whose columns an error names.
    """
    from jaxlaw.data import read_runs
    from jaxlaw.fitting import READ_AS_FITTED, runs_of

    if not isinstance(law, jl.FittedLaw):
        return read_runs(data, **reading)
    runs = runs_of(law, data, reading)
    for note in runs.notes:
        if note.code == READ_AS_FITTED:
            print(note.message, file=sys.stderr)
    return runs


def loaded_fits(files: Sequence[str | Path], draws: list[Path] | None) -> list[Any]:
    """Fits, ``published:NAME``, whole bootstraps or forecasts, with draws where there are any."""
    fits = [loaded(file, "fit", "bootstrap", "forecast") for file in files]
    if not draws:
        return fits
    if len(draws) != len(fits):
        raise UsageError(f"--bootstrap is given {len(draws)} times for {len(fits)} fits: one each")
    return [with_draws(*each) for each in zip(files, fits, draws, strict=True)]


def with_draws(of: str | Path, fit: jl.Fit | Draws, file: Path) -> Draws:
    """The fit of a file with its draws in another: JSON, or a table, a column a parameter."""
    import pandas as pd

    if isinstance(fit, jl.uncertainty.Draws | jl.Forecast):
        raise UsageError(f"{of} has its own draws; leave --bootstrap out")
    if file.suffix.lower() == ".json":
        try:
            draws = loaded(file, "bootstrap")
        except DataError as error:
            raise DataError(f"{error}: --draws x.json of `jaxlaw bootstrap` writes it") from None
        if (draws.law.name, draws.fit.params) != (fit.law.name, fit.params):
            raise UsageError(f"{file} has the draws of another fit than {of}: make them again")
        return dataclasses.replace(draws, fit=fit)
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
    kind, groups, degrees = (_of_all(table, name) for name in ("kind", "groups", "degrees"))
    groups = tuple(groups.split(",")) if groups else None
    degrees = math.inf if degrees is None else float(degrees)
    return jl.uncertainty.Draws(fit, params, (), kind or "", groups, degrees)


def _of_all(table: pd.DataFrame, column: str) -> Any:
    """What every row of a table says; None in an older file, which lacks the column."""
    value = table[column].iloc[0] if column in table else None
    return None if value != value else value


def read_points(
    fit: jl.Fit, source: Any, columns: dict[str, str], corpus: str | None, where: str | None = None
) -> jl.Runs:
    """A table of points; columns have the fitted runs' names, or the law's, unless named."""
    from jaxlaw._tables import read_table
    from jaxlaw.data import usual_columns

    table = read_table(source)
    usual = usual_columns(fit, table.frame, columns, corpus)
    if taken := [f"{name} = {column}" for name, column in usual.items() if name not in columns]:
        print(f"{table.source}: read as the fit's data were: {', '.join(taken)}", file=sys.stderr)
    return jl.read_runs(table, usual, corpus=corpus, where=where)


def points_of(fit: jl.Fit, runs: jl.Runs) -> dict[str, np.ndarray]:
    """The inputs of a law, in a table of points in the units of the fitted runs."""
    points = {
        spec.name: runs.table[spec.name].to_numpy()
        if spec.levels and spec.name in runs.table
        else _input_column(runs, spec.name)
        for spec in fit.law.inputs
    }
    return fit.law.whole_mixtures(points, partial(runs.mixture_error, fit.law))


def observed_target(fit: jl.Fit, runs: jl.Runs) -> tuple[str, np.ndarray] | None:
    """The column of a table of points that holds the law's target, and its (n,) values.

    A row that was not observed has NaN. None where no row was, or where nothing says which of two
    corpora is meant: neither hinders a prediction.
    """
    import numpy as np

    from jaxlaw.data import numbers, target_column

    try:
        name = target_column(runs, fit.law)
    except UsageError:
        return None
    if name not in runs.table:
        return None
    values = numbers(runs.table[name], runs.location(name))
    return (name, values) if np.isfinite(values).any() else None


def other_columns(runs: jl.Runs, inputs: Iterable[str], taken: Iterable[str]) -> dict[str, Any]:
    """The columns of a table of points that are no inputs; renamed where a result has the name."""
    return {
        f"{name} (as in the file)" if name in taken else name: _cells(runs.table[name])
        for name in runs.table
        if name not in inputs
    }


def _cells(column: pd.Series) -> Any:
    """Numbers as they are, and anything else as JSON and CSV can hold it."""
    import numpy as np

    values = column.to_numpy()
    if values.dtype.kind in "iufb":
        return values
    kept = (str, bool, int, float)
    missing = column.isna().to_numpy()
    cells = [None if gone else value if isinstance(value, kept) else str(value)
             for gone, value in zip(missing, values, strict=True)]  # fmt: skip
    return np.array(cells, object)


def _input_column(runs: jl.Runs, name: str) -> np.ndarray:
    """A column of points; r also from the share of the other corpus."""
    import numpy as np

    from jaxlaw.data import SIDES, missing_column, numbers

    column, complement = name, False
    if runs.corpus and name in SIDES and name not in runs.table:
        column, other = sorted(SIDES[name], key=lambda side: side[-1] != runs.corpus[0])
        if column not in runs.table and other in runs.table:
            column, complement = other, True
    if column not in runs.table:
        raise missing_column(name, " (an input of the law)", column, runs.table, runs.source)
    location = runs.location(column)
    values = numbers(runs.table[column], location)
    bad = ~np.isfinite(values)
    if bad.any():
        rows = location.rows(runs.table.index[bad], values[bad])
        raise location.error(
            f"{location}: no number in {rows}; leave these rows out",
            runs.table.index[bad][0],
            values[bad][0],
        )
    return 1 - values if complement else values
